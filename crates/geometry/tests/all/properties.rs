//! What holds for every geometry: one canonical form whoever wrote it, relations that agree with each other, and bytes that never panic.

use crate::support;

use proptest::prelude::*;
use stook_geometry::{Geometry, Limits, NamedAreas, Reading};
use support::{Made, Random};

fn read(text: &str) -> Reading {
    Geometry::read(text, &Limits::VALUE).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn two(seed: u64) -> [Made; 2] {
    let mut random = Random::new(seed);
    let one = Made::new(&mut random, None);
    let other = if random.one_in(3) { one.neighbour(&mut random) } else { Made::new(&mut random, Some(one.center())) };
    if random.one_in(2) { [other, one] } else { [one, other] }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_canonical_form_is_read_as_itself(seed: u64) {
        let made = Made::new(&mut Random::new(seed), None);
        let geometry = made.read().geometry;
        let again = read(&geometry.to_wkt());
        prop_assert_eq!(&again.geometry, &geometry, "{} of {}", geometry.to_wkt(), made.wkt());
        prop_assert_eq!(again.warnings, vec![], "{}", made.wkt());
        prop_assert_eq!(&read(&geometry.to_geojson().to_string()).geometry, &geometry);
        prop_assert_eq!(&Geometry::from_bytes(&geometry.to_bytes()).unwrap(), &geometry);
    }

    #[test]
    fn how_longitudes_are_written_changes_nothing(seed: u64, turns in -1..=1) {
        let made = Made::new(&mut Random::new(seed), None);
        prop_assume!(!made.has_half_turn());
        let canonical = made.read().geometry.to_bytes();
        prop_assert_eq!(&made.changed(|(x, y)| (x + 360.0 * f64::from(turns), y)).read().geometry.to_bytes(), &canonical, "{}", made.wkt());
        prop_assert_eq!(&made.wrapped().read().geometry.to_bytes(), &canonical, "{}", made.wkt());
    }

    #[test]
    fn where_a_ring_begins_and_its_direction_change_nothing(seed: u64, by in 0_usize..50, reverse: bool) {
        let made = Made::new(&mut Random::new(seed), None);
        let turned = made.turned(by, reverse);
        prop_assert_eq!(turned.read().geometry.to_wkt(), made.read().geometry.to_wkt(), "{}", made.wkt());
    }

    #[test]
    fn a_cut_changes_no_area(seed: u64, degrees in -180..180) {
        let made = Made::new(&mut Random::new(seed), None);
        let one = made.read().geometry;
        let moved = made.changed(|(x, y)| (x + f64::from(degrees), y)).read().geometry;
        // a cut may move an edge by a unit of the grid
        let edge = 1e7 * 0.03;
        prop_assert!((one.area() - moved.area()).abs() <= one.area() * 1e-9 + edge, "{} {}: {}", one.area(), moved.area(), made.wkt());
    }

    #[test]
    fn intersects_within_and_fraction_agree_with_each_other(seed: u64) {
        let [one, other] = two(seed).map(|made| made.read().geometry);
        let texts = || format!("{} AND {}", one.to_wkt(), other.to_wkt());
        let intersects = one.intersects(&other).unwrap();
        prop_assert_eq!(intersects, other.intersects(&one).unwrap(), "{}", texts());
        let within = one.is_within(&other).unwrap();
        prop_assert!(intersects || !within, "{}", texts());
        prop_assert!(one.is_within(&one).unwrap(), "{}", texts());
        let (own_share, share) = (one.fraction_in(&one).unwrap(), one.fraction_in(&other).unwrap());
        prop_assert_eq!(own_share.is_some(), !one.areas().is_empty());
        prop_assert_eq!(own_share.unwrap_or(1.0), 1.0, "{}", texts());
        let share = share.unwrap_or(if intersects { 1.0 } else { 0.0 });
        prop_assert!((0.0..=1.0).contains(&share), "{}", texts());
        prop_assert!(intersects || share == 0.0, "{}", texts());
        prop_assert!(!within || share == 1.0, "{share} {}", texts());
    }

    #[test]
    fn a_label_is_inside_its_geometry(seed: u64) {
        let made = Made::new(&mut Random::new(seed), None);
        let geometry = made.read().geometry;
        let (longitude, latitude) = geometry.label();
        let bounds = geometry.bounds();
        prop_assert!(bounds.len() <= 2 && !bounds.is_empty());
        prop_assert!(bounds.iter().any(|bounds| (bounds.west()..=bounds.east()).contains(&longitude) && (bounds.south()..=bounds.north()).contains(&latitude)));
        if !geometry.areas().is_empty() && made.kind != "sliver" && made.kind != "tangle" {
            let label = read(&format!("POINT({longitude} {latitude})")).geometry;
            prop_assert!(label.is_within(&geometry).unwrap(), "{longitude} {latitude}: {}", made.wkt());
        }
    }

    #[test]
    fn a_drawing_has_few_points(seed: u64, max_points in 0_usize..100) {
        let geometry = Made::new(&mut Random::new(seed), None).read().geometry;
        let drawing = geometry.simplified(max_points);
        let count = drawing.rings.iter().chain(&drawing.lines).map(Vec::len).sum::<usize>() + drawing.points.len();
        prop_assert!(count <= max_points);
        prop_assert!(drawing.rings.iter().all(|ring| ring.len() >= 3));
        let commands = drawing.svg_path(4).matches(['M', 'L']).count();
        prop_assert_eq!(commands, count);
        let all = geometry.simplified(1_000);
        prop_assert_eq!(all.rings.len() + all.lines.len(), geometry.lines().len() + geometry.areas().iter().map(|area| 1 + area.holes().len()).sum::<usize>());
    }

    #[test]
    fn damaged_bytes_never_panic(seed: u64, damages in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), end in any::<prop::sample::Index>()) {
        let [one, other] = two(seed).map(|made| made.read().geometry);
        let mut bytes = one.to_bytes();
        for (index, byte) in damages {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        if bytes[0] % 2 == 0 {
            bytes.truncate(end.index(bytes.len()));
        }
        if let Ok(damaged) = Geometry::from_bytes(&bytes) {
            prop_assert_eq!(damaged.to_bytes(), bytes);
            let _ = (damaged.intersects(&other), damaged.is_within(&other), other.is_within(&damaged), damaged.fraction_in(&other));
            let _ = (damaged.area(), damaged.bounds(), damaged.label(), damaged.simplified(10).svg_path(2), other.fraction_in(&damaged));
            let _ = Geometry::read(&damaged.to_wkt(), &Limits::VALUE);
        }
    }

    #[test]
    fn damaged_text_never_panics(seed: u64, json: bool, damages in prop::collection::vec((any::<prop::sample::Index>(), "[-0-9a-zA-Z(),;='{}\\[\\]\" .ě]"), 1..4)) {
        let made = Made::new(&mut Random::new(seed), None);
        let mut text: Vec<char> = if json { made.read().geometry.to_geojson().to_string() } else { made.wkt() }.chars().collect();
        for (index, sign) in damages {
            let index = index.index(text.len());
            text[index] = sign.chars().next().unwrap();
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = Geometry::read(&text, &Limits::VALUE) {
            prop_assert!(error.to_string().contains(": "));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn named_areas_that_touch_a_geometry_are_those_that_intersect_it(seed: u64, count in 0_usize..40) {
        let mut random = Random::new(seed);
        let features: Vec<serde_json::Value> = (0..count)
            .map(|number| {
                let geometry = Made::new(&mut random, None).read().geometry.to_geojson();
                // several features may have one name
                serde_json::json!({ "type": "Feature", "properties": { "name": format!("n{}", number % 30) }, "geometry": geometry })
            })
            .collect();
        let text = serde_json::json!({ "type": "FeatureCollection", "features": features }).to_string();
        let (named, warnings) = NamedAreas::read(&text, "name", &Limits::AREA).unwrap();
        prop_assert_eq!(warnings, vec![]);
        for _ in 0..30 {
            let geometry = Made::new(&mut random, None).read().geometry;
            let expected: Vec<&str> = named
                .iter()
                .filter(|(_, named)| geometry.intersects(named).unwrap())
                .map(|(name, _)| name)
                .collect();
            prop_assert_eq!(named.touching(&geometry).unwrap(), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    /// An index of boxes misses nothing that has a point in common with what is looked for.
    #[test]
    fn geometries_that_intersect_have_boxes_that_meet(seed: u64) {
        let [first, second] = two(seed);
        let (first, second) = (first.read().geometry, second.read().geometry);
        if first.intersects(&second) == Ok(true) {
            prop_assert!(second.reach().search_boxes().iter().any(|search_box| search_box.meets(&first.reach())), "{} and {}", first.to_wkt(), second.to_wkt());
        }
        let reach = first.reach();
        prop_assert!(reach.west >= -180.0 && reach.west <= 180.0 && reach.east >= reach.west && reach.east - reach.west <= 360.0);
    }

    /// A box has the points between its sides, and only those; most are wider than the short way around, and some have no height.
    #[test]
    fn a_box_covers_what_is_between_its_sides(west in -180_i32..=180, wide in 0_i32..=360, south in -90_i32..=90, high in prop_oneof![1 => Just(0_i32), 3 => 0_i32..=180], x in -180_i32..=180, y in -90_i32..=90) {
        let north = (south + high).min(90);
        let east = if wide == 360 { 180 } else { (west + wide + 180).rem_euclid(360) - 180 };
        let (west, east) = if wide == 360 { (-180, 180) } else { (west, east) };
        let made = stook_geometry::Geometry::between(f64::from(west), f64::from(south), f64::from(east), f64::from(north)).expect("a box");
        let point = read(&format!("POINT({x} {y})")).geometry;
        let between = if west <= east { (west..=east).contains(&x) } else { x >= west || x <= east };
        let turned = [x - 360, x + 360].iter().any(|x| west <= east && (west..=east).contains(x)) || (west > east && x.abs() == 180);
        let at_pole = (y == 90 && north == 90) || (y == -90 && south == -90);
        let wanted = (south..=north).contains(&y) && (between || turned || at_pole);
        prop_assert_eq!(point.is_within(&made), Ok(wanted), "{} in {}", point.to_wkt(), made.to_wkt());
    }
}

/// A polygon around 0, 0 whose corners are at these distances in turn.
fn round(corners: usize, distances: &[f64]) -> Geometry {
    let corner = |number: usize| {
        let (angle, distance) = (std::f64::consts::TAU * number as f64 / corners as f64, distances[number % distances.len()]);
        [distance * angle.cos(), distance * angle.sin()]
    };
    let ring: Vec<[f64; 2]> = (0..corners).chain([0]).map(corner).collect();
    let text = serde_json::json!({ "type": "Polygon", "coordinates": [ring] }).to_string();
    Geometry::read(&text, &Limits::AREA).unwrap().geometry
}

/// More edges than an overlay looks at without cutting them, some of them long.
#[test]
fn a_share_of_an_area_with_many_edges_is_found_in_parts() {
    for star in [round(40, &[1.0, 40.0]), round(4, &[25.0]), round(2_000, &[1.0, 40.0])] {
        let (few, many) = (round(6_000, &[30.0]), round(60_000, &[30.0]));
        let (few, many) = (star.fraction_in(&few).unwrap().unwrap(), star.fraction_in(&many).unwrap().unwrap());
        assert!((few - many).abs() < 1e-5, "{few} {many}");
    }
}

/// A sliver of a width of a ten-millionth of a degree, whose area is less exact than whether it is inside.
#[test]
fn a_sliver_inside_an_area_is_completely_covered() {
    for geometry in two(15_426_787_229_459_974_955).map(|made| made.read().geometry) {
        assert_eq!(geometry.fraction_in(&geometry).unwrap(), Some(1.0), "{}", geometry.to_wkt());
    }
}
