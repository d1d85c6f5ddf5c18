//! Geometries as catalogues get them, made from a seed: tiles, swaths of satellites, caps around poles, bow ties, slivers, regions with
//! holes, tracks and points; many lie across the antimeridian.

use std::f64::consts::{PI, TAU};

use stook_geometry::{Geometry, Limits, Reading};

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// As likely between 0.01 and 0.1 as between 1 and 10.
    pub fn scale(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

pub type Ring = Vec<(f64, f64)>;

/// What a geometry was made as, and its parts before anything is wrapped: longitudes go on beyond ±180.
#[derive(Clone, Debug, Default)]
pub struct Made {
    pub kind: &'static str,
    pub points: Vec<(f64, f64)>,
    pub lines: Vec<Ring>,
    /// Closed rings.
    pub polygons: Vec<Vec<Ring>>,
}

fn rounded(value: f64, digits: i32) -> f64 {
    (value * 10_f64.powi(digits)).round() / 10_f64.powi(digits)
}

impl Made {
    /// A geometry of any kind near a place, or anywhere.
    pub fn new(random: &mut Random, requested_center: Option<(f64, f64)>) -> Self {
        let anywhere = (random.between(-180.0, 180.0), rounded(random.between(-1.0, 1.0).asin().to_degrees(), 6));
        let mut center = requested_center.unwrap_or(anywhere);
        if requested_center.is_none() && random.one_in(3) {
            center.0 = 180.0 + random.between(-1.0, 1.0);
        }
        let mut made = match random.below(12) {
            0 | 1 => tile(random, center),
            2..=4 => swath(random, center),
            5 => cap(random),
            6 => bow_tie(random, center),
            7 => sliver(random, center),
            8 => tangle(random, center),
            9 => region(random, center, 1),
            10 => region(random, center, 3),
            _ => track(random, center),
        };
        let turns = (made.center().0 / 360.0).round();
        made = made.changed(|(x, y)| (x - 360.0 * turns, y));
        // most catalogues write six digits
        let digits = if random.one_in(4) { 12 } else { 6 };
        let round = |point: &mut (f64, f64)| *point = (rounded(point.0, digits), rounded(point.1, digits).clamp(-90.0, 90.0));
        made.points.iter_mut().chain(made.lines.iter_mut().flatten()).chain(made.polygons.iter_mut().flatten().flatten()).for_each(round);
        made
    }

    /// A geometry that shares corners or edges with this one: most questions about boundaries arise there.
    pub fn neighbour(&self, random: &mut Random) -> Self {
        let Some(ring) = self.polygons.first().map(|rings| &rings[random.below(rings.len())]) else { return self.clone() };
        let open = &ring[..ring.len() - 1];
        let start = random.below(open.len());
        let corner = |number: usize| open[(start + number) % open.len()];
        let size = random.scale(0.01, 2.0);
        let apart = (corner(0).0 + rounded(random.between(-size, size), 6), clamped(corner(0).1 + rounded(random.between(-size, size), 6)));
        match random.below(8) {
            0 => polygon("corner of it", vec![corner(0), corner(1), corner(2)]),
            1 => polygon("on its edge", vec![corner(0), corner(1), apart]),
            2 => polygon("half of it", (0..=open.len() / 2).map(corner).chain([corner(0)]).collect()),
            3 => polygon("at its corner", vec![corner(0), apart, (apart.0, corner(0).1)]),
            4 => Self { kind: "edge of it", lines: vec![vec![corner(0), corner(1), corner(2)]], ..Self::default() },
            5 => Self { kind: "across it", lines: vec![vec![corner(0), corner(open.len() / 2)]], ..Self::default() },
            6 => Self { kind: "corner of it", points: vec![corner(0)], ..Self::default() },
            _ => {
                let mut more = self.clone();
                more.kind = "it with more";
                more.polygons.push(vec![closed(vec![corner(0), corner(1), apart])]);
                more
            }
        }
    }

    pub fn center(&self) -> (f64, f64) {
        let rings = self.polygons.iter().flatten().flatten();
        *rings.chain(self.lines.iter().flatten()).chain(&self.points).next().unwrap_or(&(0.0, 0.0))
    }

    pub fn changed(&self, change: impl Fn((f64, f64)) -> (f64, f64)) -> Self {
        let mut changed = self.clone();
        let points = changed.points.iter_mut().chain(changed.lines.iter_mut().flatten()).chain(changed.polygons.iter_mut().flatten().flatten());
        points.for_each(|point| *point = change(*point));
        changed
    }

    /// With each longitude between −180 and 180, as most catalogues write it.
    pub fn wrapped(&self) -> Self {
        self.changed(|(x, y)| {
            // exact for numbers of few digits
            let turns = ((x + 180.0) / 360.0).floor();
            let wrapped = if x.abs() <= 180.0 { x } else { x - 360.0 * turns };
            (rounded(wrapped, 12), y)
        })
    }

    /// Whether an edge spans half a turn: it goes east or west as it is written.
    pub fn has_half_turn(&self) -> bool {
        let rings = self.polygons.iter().flatten().chain(&self.lines);
        let spans = rings.flat_map(|ring| ring.windows(2).map(|edge| (edge[0].0 - edge[1].0).abs()));
        spans.into_iter().any(|span| (span - 180.0).abs() < 1e-6)
    }

    /// From another first point, and in the other direction.
    pub fn turned(&self, by: usize, reverse: bool) -> Self {
        let mut turned = self.clone();
        for ring in turned.polygons.iter_mut().flatten() {
            ring.pop();
            let length = ring.len();
            ring.rotate_left(by % length);
            if reverse {
                ring.reverse();
            }
            ring.push(ring[0]);
        }
        turned
    }

    pub fn wkt(&self) -> String {
        let list = |points: &Ring| format!("({})", points.iter().map(|(x, y)| format!("{x} {y}")).collect::<Vec<_>>().join(","));
        let polygon = |rings: &Vec<Ring>| format!("({})", rings.iter().map(list).collect::<Vec<_>>().join(","));
        let mut members: Vec<String> = self.points.iter().map(|(x, y)| format!("POINT({x} {y})")).collect();
        members.extend(self.lines.iter().map(|line| format!("LINESTRING{}", list(line))));
        match self.polygons.as_slice() {
            [] => {}
            [one] => members.push(format!("POLYGON{}", polygon(one))),
            several => members.push(format!("MULTIPOLYGON({})", several.iter().map(polygon).collect::<Vec<_>>().join(","))),
        }
        if members.len() == 1 { members.remove(0) } else { format!("GEOMETRYCOLLECTION({})", members.join(",")) }
    }

    pub fn read(&self) -> Reading {
        let text = self.wkt();
        Geometry::read(&text, &Limits::VALUE).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

fn polygon(kind: &'static str, ring: Ring) -> Made {
    Made { kind, polygons: vec![vec![closed(ring)]], ..Made::default() }
}

fn closed(mut ring: Ring) -> Ring {
    ring.push(ring[0]);
    ring
}

fn clamped(latitude: f64) -> f64 {
    latitude.clamp(-90.0, 90.0)
}

/// A rectangle in longitude and latitude, or a grid's cell that is a little turned.
fn tile(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let (width, height) = (random.scale(0.01, 20.0), random.scale(0.01, 10.0));
    let (west, east) = (x - width / 2.0, x + width / 2.0);
    let (south, north) = (clamped(y - height / 2.0), clamped(y + height / 2.0));
    let lean = if random.one_in(2) { 0.0 } else { random.between(-0.1, 0.1) };
    polygon("tile", vec![(west, south), (east, south + lean * (north - south)), (east - lean * width, north), (west, north)])
}

/// A point so far along and off the track of a satellite, as longitude and latitude in radians.
fn off_track(inclination: f64, along: f64, across: f64) -> (f64, f64) {
    let height = across.sin();
    let (p, q) = (along.cos() * across.cos(), along.sin() * across.cos());
    let (x, y, z) = (p, q * inclination.cos() - height * inclination.sin(), q * inclination.sin() + height * inclination.cos());
    (y.atan2(x), z.clamp(-1.0, 1.0).asin())
}

/// What a satellite sees along a part of its orbit. The ring goes around a pole that lies in it.
fn swath(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let inclination = random.between(60.0_f64, 120.0).to_radians();
    let half_width = random.scale(0.2, 13.0).to_radians();
    let length = random.scale(0.5, 120.0).to_radians();
    let start = (y.to_radians().sin() / inclination.sin()).clamp(-1.0, 1.0).asin();
    let start = if random.one_in(2) { PI - start } else { start };
    let steps = 2 + (length.to_degrees() / random.between(1.0, 6.0)) as usize;
    let rotation = x - off_track(inclination, start, 0.0).0.to_degrees();
    let side = |across: f64| {
        (0..=steps).map(move |step| {
            let along = start + length * step as f64 / steps as f64;
            let (longitude, latitude) = off_track(inclination, along, across);
            // the Earth turns below
            (longitude.to_degrees() + rotation - along / TAU * 24.0, latitude.to_degrees())
        })
    };
    let ring: Ring = side(half_width).chain(side(-half_width).collect::<Vec<_>>().into_iter().rev()).collect();
    let mut path = Ring::new();
    for (longitude, latitude) in ring {
        let before = path.last().map_or(longitude, |last| last.0);
        path.push((longitude - 360.0 * ((longitude - before) / 360.0).round(), latitude));
    }
    polygon("swath", path)
}

/// A ring around a pole.
fn cap(random: &mut Random) -> Made {
    let latitude = random.between(35.0, 88.0) * if random.one_in(2) { 1.0 } else { -1.0 };
    // an odd number, so that no two are half a turn apart: an edge of exactly 180° goes east or west as it is written
    let corners = 5 + 2 * random.below(20);
    let start = random.between(-300.0, -60.0);
    let mut ring: Ring = (0..corners).map(|corner| (start + 360.0 * corner as f64 / corners as f64, latitude + random.between(-2.0, 2.0))).collect();
    if random.one_in(2) {
        ring.reverse();
    }
    let mut made = polygon("cap", ring);
    if random.one_in(3) {
        let hole = latitude + (90.0 * latitude.signum() - latitude) * 0.5;
        made.polygons[0].push(closed((0..corners).map(|corner| (360.0 * corner as f64 / corners as f64 - 180.0, hole)).collect()));
    }
    made
}

/// A footprint whose corners are in the wrong order.
fn bow_tie(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let (width, height) = (random.scale(0.01, 10.0), random.scale(0.01, 8.0));
    let (south, north) = (clamped(y - height), clamped(y + height));
    polygon("bow tie", vec![(x - width, south), (x + width, north), (x + width * random.between(0.5, 1.0), south), (x - width, north)])
}

/// Much longer than wide.
fn sliver(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let (length, width) = (random.scale(0.001, 5.0), random.scale(1e-6, 1e-4));
    let angle = random.between(0.0, TAU);
    let at = |along: f64, across: f64| {
        (x + along * length * angle.cos() - across * width * angle.sin(), clamped(y + along * length * angle.sin() + across * width * angle.cos()))
    };
    polygon("sliver", vec![at(0.0, 0.0), at(1.0, 0.0), at(1.0, 1.0), at(0.5, 1.0)])
}

/// A ring that crosses itself in several places.
fn tangle(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let size = random.scale(0.01, 10.0);
    let corners = 5 + random.below(5);
    polygon("tangle", (0..corners).map(|_| (x + random.between(-size, size), clamped(y + random.between(-size, size)))).collect())
}

/// Star-shaped polygons, some with a hole; several may overlap.
fn region(random: &mut Random, (x, y): (f64, f64), max: usize) -> Made {
    let mut made = Made { kind: if max > 1 { "regions" } else { "region" }, ..Made::default() };
    let size = random.scale(0.05, 8.0);
    for _ in 0..=random.below(max) {
        let center = (x + random.between(-size, size), clamped(y + random.between(-size, size)));
        let corners = 3 + random.below(60);
        let star = |random: &mut Random, low: f64, high: f64| -> Ring {
            let corner = |corner: usize| {
                let (angle, distance) = (TAU * corner as f64 / corners as f64, size * random.between(low, high));
                (center.0 + distance * angle.cos(), clamped(center.1 + distance * angle.sin()))
            };
            closed((0..corners).map(corner).collect())
        };
        let mut rings = vec![star(random, 0.6, 1.0)];
        if corners > 8 && random.one_in(2) {
            rings.push(star(random, 0.2, 0.5));
        }
        made.polygons.push(rings);
    }
    made
}

fn track(random: &mut Random, (x, y): (f64, f64)) -> Made {
    let size = random.scale(0.05, 20.0);
    let mut random_point = || (x + random.between(-size, size), clamped(y + random.between(-size, size)));
    let points: Ring = (0..6).map(|_| random_point()).collect();
    match random.below(3) {
        0 => Made { kind: "points", points: points[..1 + random.below(3)].to_vec(), ..Made::default() },
        _ => Made { kind: "track", lines: vec![points], ..Made::default() },
    }
}
