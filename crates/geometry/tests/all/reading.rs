//! What is read, how it is repaired, what is refused and where.

use stook_geometry::{Error, Fault, Geometry, Limits, Location, NamedAreas, Reading, Repair};

fn reading(text: &str) -> Reading {
    Geometry::read(text, &Limits::VALUE).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn wkt(text: &str) -> String {
    reading(text).geometry.to_wkt()
}

fn repairs(text: &str) -> Vec<Repair> {
    reading(text).warnings.iter().map(|warning| warning.repair).collect()
}

fn refused(text: &str) -> Error {
    match Geometry::read(text, &Limits::VALUE) {
        Err(error) => error,
        Ok(reading) => panic!("{text} is read as {}", reading.geometry.to_wkt()),
    }
}

const SQUARE: &str = "POLYGON((0 0,1 0,1 1,0 1,0 0))";

#[test]
fn one_square_in_all_its_forms() {
    let forms = [
        SQUARE,
        "polygon (( 0 0 , 0 1 , 1 1 , 1 0 , 0 0 ))",
        "SRID=4326;POLYGON((1 1,0 1,0 0,1 0,1 1))",
        "geography'SRID=4326;POLYGON((0 0,1 0,1 1,0 1,0 0))'",
        "geometry'POLYGON((0 0,1 0,1 1,0 1,0 0))'",
        "POLYGON Z((0 0 5,1 0 6,1 1 7,0 1 8,0 0 5))",
        "POLYGONZM((0 0 5 1,1 0 6 1,1 1 7 1,0 1 8 1,0 0 5 1))",
        "MULTIPOLYGON(((0 0,1 0,1 1,0 1,0 0)))",
        "GEOMETRYCOLLECTION(POLYGON((0 0,1 0,1 1,0 1,0 0)),POINT EMPTY)",
        "POLYGON((360 0,361 0,361 1,360 1,360 0))",
        "POLYGON((0 0,0.5 0,1 0,1 0,1 1,0 1,0 0))",
        "MULTIPOLYGON(((0 0,0.5 0,0.5 1,0 1,0 0)),((0.5 0,1 0,1 1,0.5 1,0.5 0)))",
        r#"{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]}"#,
        r#"{"type":"Polygon","coordinates":[[[0,0,9],[1,0,9],[1,1,9],[0,1,9],[0,0,9]]],"bbox":[0,0,1,1]}"#,
        r#"{"type":"Feature","properties":{"a":1},"geometry":{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0],[1,1],[0,1],[0,0]]]]}}"#,
        r#"{"type":"Polygon","crs":{"type":"name","properties":{"name":"urn:ogc:def:crs:OGC:1.3:CRS84"}},"coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]}"#,
    ];
    for form in forms {
        let read = reading(form);
        assert_eq!(read.geometry.to_wkt(), SQUARE, "{form}");
        assert_eq!(read.warnings, vec![], "{form}");
        assert_eq!(read.geometry.to_bytes(), reading(SQUARE).geometry.to_bytes());
    }
    assert_eq!(reading(SQUARE).geometry.to_bytes().len(), 23);
}

#[test]
fn points_and_lines_are_read_into_one_canonical_form() {
    assert_eq!(wkt("MULTIPOINT(3 4, 1 2, (3 4))"), "MULTIPOINT((1 2),(3 4))");
    assert_eq!(wkt("POINT(180 10)"), "POINT(-180 10)");
    assert_eq!(wkt("POINT(77 90)"), "POINT(0 90)");
    assert_eq!(wkt("LINESTRING(1 2,3 4,3 4,5 6)"), "LINESTRING(1 2,3 4,5 6)");
    assert_eq!(wkt("LINESTRING(170 0,-170 10)"), "MULTILINESTRING((170 0,180 5),(-180 5,-170 10))");
    assert_eq!(wkt("LINESTRING(180 0,180 10)"), "LINESTRING(-180 0,-180 10)");
    assert_eq!(
        wkt("GEOMETRYCOLLECTION(POINT(5 5),GEOMETRYCOLLECTION(LINESTRING(0 0,1 1),POINT(4 4)))"),
        "GEOMETRYCOLLECTION(MULTIPOINT((4 4),(5 5)),LINESTRING(0 0,1 1))"
    );
    assert_eq!(repairs("LINESTRING(1 1,1 1)"), [Repair::NoLength]);
}

#[test]
fn areas_are_cut_at_the_antimeridian() {
    let cut = "MULTIPOLYGON(((-180 0,-179 0,-179 1,-180 1,-180 0)),((179 0,180 0,180 1,179 1,179 0)))";
    for form in [
        "POLYGON((179 0,181 0,181 1,179 1,179 0))",
        "POLYGON((179 0,-179 0,-179 1,179 1,179 0))",
        "POLYGON((-181 0,-179 0,-179 1,-181 1,-181 0))",
        cut,
    ] {
        assert_eq!(wkt(form), cut);
        assert_eq!(repairs(form), []);
    }
    // with points on the antimeridian, each written on both sides of it
    assert_eq!(wkt("POLYGON((179 0,180 0,-180 0,-179 0,-179 1,-180 1,180 1,179 1,179 0))"), cut);
    let bounds = reading(cut).geometry.bounds();
    let sides: Vec<(f64, f64)> = bounds.iter().map(|bounds| (bounds.west(), bounds.east())).collect();
    assert_eq!(sides, [(179.0, 180.0), (-180.0, -179.0)]);
    // a hole across it
    let ring = reading("POLYGON((170 0,190 0,190 10,170 10,170 0),(175 2,185 2,185 8,175 8,175 2))").geometry;
    assert_eq!(ring.areas().len(), 2);
    assert!(ring.areas().iter().all(|area| area.holes().is_empty() && area.shell().len() == 8));
}

#[test]
fn a_rectangle_of_the_world_is_the_world() {
    let world = reading("POLYGON((-180 -90,180 -90,180 90,-180 90,-180 -90))").geometry;
    assert!((world.area() / 510_065_621_724_088.4 - 1.0).abs() < 1e-12);
    for form in [
        "POLYGON((0 -90,360 -90,360 90,0 90,0 -90))",
        "POLYGON((-180 -90,-180 90,0 90,180 90,180 -90,0 -90,-180 -90))",
        "POLYGON((-180 -90,-90 -90,0 -90,90 -90,180 -90,180 90,-180 90,-180 -90))",
    ] {
        assert_eq!(reading(form).geometry, world);
    }
    let tropics = reading("POLYGON((-180 -23,180 -23,180 23,-180 23,-180 -23))").geometry;
    assert!(tropics.is_within(&world).unwrap() && !world.is_within(&tropics).unwrap());
    assert!((tropics.area() / world.area() - 0.39).abs() < 0.01);
    assert_eq!(tropics.bounds().len(), 1);
}

#[test]
fn a_ring_around_the_earth_encloses_a_pole() {
    let cap = "POLYGON((0 60,90 60,180 60,-90 60,0 60))";
    let text = "POLYGON((-180 60,180 60,180 90,0 90,-180 90,-180 60))";
    let read = reading(cap);
    assert_eq!(read.warnings, []);
    assert_eq!(read.geometry, reading(text).geometry);
    // in either direction
    assert_eq!(reading("POLYGON((0 60,-90 60,180 60,90 60,0 60))").geometry, read.geometry);
    // as RFC 7946 has it cut
    assert_eq!(reading("POLYGON((-180 60,180 60,180 90,-180 90,-180 60))").geometry, read.geometry);
    let pole = reading("POINT(12 90)").geometry;
    assert!(pole.is_within(&read.geometry).unwrap());
    let south = reading("POLYGON((0 -60,90 -60,180 -60,-90 -60,0 -60))").geometry;
    assert!((south.area() - read.geometry.area()).abs() < 1.0);
    assert!(!south.intersects(&read.geometry).unwrap());
    // with a hole around the same pole it is a band, and with one around the other pole as well
    let band = reading("POLYGON((0 60,90 60,180 60,-90 60,0 60),(0 80,90 80,180 80,-90 80,0 80))").geometry;
    assert_eq!(band, reading("POLYGON((-180 60,0 60,180 60,180 80,0 80,-180 80,-180 60))").geometry);
    let wide = reading("POLYGON((0 60,90 60,180 60,-90 60,0 60),(0 -60,90 -60,180 -60,-90 -60,0 -60))").geometry;
    assert_eq!(wide, reading("POLYGON((-180 -60,0 -60,180 -60,180 60,0 60,-180 60,-180 -60))").geometry);
    assert_eq!(refused("POLYGON((0 60,120 60,-120 60,0 61,120 61,-120 61,0 60))").fault, Fault::Turns(2));
}

#[test]
fn the_antimeridian_has_two_sides_and_a_pole_is_a_point() {
    let read = |text: &str| reading(text).geometry;
    let west = read("POLYGON((170 0,180 0,180 10,170 10,170 0))");
    let east = read("POLYGON((-180 5,-170 5,-170 15,-180 15,-180 5))");
    assert!(west.intersects(&east).unwrap());
    assert_eq!(west.fraction_in(&east), Ok(Some(0.0)));
    for point in ["POINT(180 7)", "POINT(-180 7)"] {
        assert!(read(point).is_within(&west).unwrap() && read(point).is_within(&east).unwrap());
    }
    let both = read("POLYGON((170 0,190 0,190 10,170 10,170 0))");
    assert!(read("LINESTRING(180 1,180 9)").is_within(&both).unwrap());
    assert!(!read("LINESTRING(180 1,180 11)").is_within(&both).unwrap());
    assert!(read("LINESTRING(175 1,185 9)").is_within(&both).unwrap());
    let apex = read("POLYGON((10 80,20 80,15 90,10 80))");
    let other = read("POLYGON((100 80,120 80,110 90,100 80))");
    assert!(apex.intersects(&other).unwrap());
    assert!(read("POINT(0 90)").is_within(&other).unwrap() && read("LINESTRING(0 90,50 90)").is_within(&other).unwrap());
}

#[test]
fn invalid_geometries_are_repaired_with_warnings() {
    let bow_tie = "POLYGON((0 0,2 2,2 0,0 2,0 0))";
    assert_eq!(wkt(bow_tie), "MULTIPOLYGON(((0 0,1 1,0 2,0 0)),((1 1,2 0,2 2,1 1)))");
    let warning = &reading(bow_tie).warnings[0];
    assert_eq!(warning.repair, Repair::Crossing);
    assert_eq!(warning.to_string(), "byte 7: the ring crosses itself; all that it goes around is the area");
    // a ring that goes over the same place twice keeps it
    assert_eq!(reading("POLYGON((0 0,4 0,4 4,1 4,1 1,3 1,3 3,-1 3,0 0))").geometry.areas().len(), 1);
    assert_eq!(repairs("POLYGON((0 0,1 0,1 1,0 1))"), [Repair::Closed]);
    assert_eq!(wkt("POLYGON((0 0,1 0,1 1,0 1))"), SQUARE);
    assert_eq!(repairs("MULTIPOLYGON(((0 0,2 0,2 2,0 2,0 0)),((1 1,3 1,3 3,1 3,1 1)))"), [Repair::Overlap]);
    assert_eq!(repairs("POLYGON((0 0,4 0,4 4,0 4,0 0),(3 1,5 1,5 2,3 2,3 1))"), [Repair::Holes]);
    assert_eq!(repairs("POLYGON((0 0,4 0,4 4,0 4,0 0),(1 1,2 2,1 1))"), [Repair::NoHole]);
    assert_eq!(repairs("POLYGON((0 0,1 1,2 2,0 0))"), [Repair::NoArea]);
    assert_eq!(wkt("POLYGON((0 0,1 1,2 2,0 0))"), "LINESTRING(0 0,2 2)");
    assert_eq!(wkt("POLYGON((1 1,1 1,1 1,1 1))"), "POINT(1 1)");
    // a hole may touch the shell, and a ring itself, in a point
    assert_eq!(repairs("POLYGON((0 0,4 0,4 4,0 4,0 0),(0 0,2 1,1 2,0 0))"), []);
    assert_eq!(reading("POLYGON((0 0,4 0,4 4,0 4,0 0,1 2,2 1,0 0))").geometry, reading("POLYGON((0 0,4 0,4 4,0 4,0 0),(0 0,2 1,1 2,0 0))").geometry);
}

#[test]
fn errors_have_their_location() {
    let at = |text: &str| {
        let error = refused(text);
        (error.location.to_string(), error.fault)
    };
    assert_eq!(at("POINT(1 91)"), ("byte 6".into(), Fault::Latitude(91.0)));
    assert_eq!(at("LINESTRING(1 2,500000 4)"), ("byte 15".into(), Fault::Longitude(500_000.0)));
    assert_eq!(at("SRID=32633;POINT(1 2)"), ("byte 5".into(), Fault::ReferenceSystem("SRID 32633".into())));
    assert_eq!(at("LINESTRING(1 2)"), ("byte 10".into(), Fault::ShortLine));
    assert_eq!(at("POLYGON((0 0,1 1))"), ("byte 8".into(), Fault::ShortRing));
    assert_eq!(at("POLYGON EMPTY"), ("byte 0".into(), Fault::Empty));
    assert_eq!(at(r#"{"type":"Point","coordinates":[]}"#), ("$".into(), Fault::Empty));
    assert_eq!(at(r#"{"type":"Feature","geometry":null}"#), ("$.geometry".into(), Fault::Empty));
    assert_eq!(at(r#"{"type":"MultiPoint","coordinates":[[1,2],[3,-90.5]]}"#), ("$.coordinates[1]".into(), Fault::Latitude(-90.5)));
    let error_location = |text: &str| refused(text).location.to_string();
    assert_eq!(error_location("POINT(1 2"), "byte 9");
    assert_eq!(error_location("POINT(1 two)"), "byte 8");
    assert_eq!(error_location("POINT(nan 2)"), "byte 6");
    assert_eq!(error_location("POINT(1 2) x"), "byte 11");
    assert_eq!(error_location("CIRCLE(1 2)"), "byte 0");
    assert_eq!(error_location("geography'POINT(1 2)"), "byte 20");
    assert_eq!(error_location("{\"type\":\"Point\",\n\"coordinates\":[1,}"), "byte 34");
    assert_eq!(error_location(r#"{"type":"Polygon","coordinates":[[[0,0],[1,"x"],[1,1]]]}"#), "$.coordinates[0][1]");
    assert_eq!(error_location(r#"{"type":"GeometryCollection","geometries":[{"type":"Circle"}]}"#), "$.geometries[0].type");
    assert_eq!(error_location(r#"{"type":"Point","crs":{"properties":{"name":"EPSG:32633"}},"coordinates":[1,2]}"#), "$.crs");
    assert_eq!(error_location(r#"{"type":"FeatureCollection","features":[]}"#), "$");
    assert_eq!(
        refused("CIRCLE(1 2)").to_string(),
        r#"byte 0: a geometry is expected: an object of GeoJSON, or WKT such as POLYGON((..)), not "CIRCLE""#
    );
}

#[test]
fn a_text_beyond_a_limit_is_refused_with_that_limit() {
    let limits = Limits { bytes: 200, points: 6, parts: 3, depth: 2 };
    let fault = |text: &str| Geometry::read(text, &limits).map(|_| ()).map_err(|error| error.fault);
    assert_eq!(fault(&" ".repeat(201)), Err(Fault::TooManyBytes(200)));
    assert_eq!(fault("LINESTRING(1 1,2 2,3 3,4 4,5 5,6 6,7 7)"), Err(Fault::TooManyPoints(6)));
    assert_eq!(fault("MULTIPOINT(1 1,2 2,3 3,4 4)"), Err(Fault::TooManyParts(3)));
    let nested = |depth: usize| format!("{}POINT(1 2){}", "GEOMETRYCOLLECTION(".repeat(depth), ")".repeat(depth));
    assert_eq!(fault(&nested(2)), Ok(()));
    assert_eq!(fault(&nested(3)), Err(Fault::TooDeep(2)));
    let deep = nested(20_000);
    assert_eq!(Geometry::read(&deep, &Limits::VALUE).map(|_| ()).map_err(|error| error.fault), Err(Fault::TooDeep(8)));
    let deep = format!("{{\"type\":\"Polygon\",\"coordinates\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    assert!(matches!(refused(&deep).fault, Fault::Syntax(_)));
    // around the Earth and back
    let turns = |count: usize| -> String {
        let outward = (0..count * 3).map(|step| format!("{} {}", step * 120 % 360, step as f64 * 0.01));
        let back = (0..count * 3).rev().map(|step| format!("{} {}", step * 120 % 360, step as f64 * 0.01 + 0.02));
        format!("POLYGON(({}))", outward.chain(back).chain(["0 0".to_owned()]).collect::<Vec<_>>().join(","))
    };
    assert!(reading(&turns(10)).geometry.areas().len() > 1);
    assert!(matches!(refused(&turns(1_000)).fault, Fault::Turns(999)));
    // a comb whose edges all cross those of another one
    let comb = |turned: bool| {
        let teeth = (0..4_000).map(|tooth| (f64::from(tooth) * 0.001, if tooth % 2 == 0 { 0.0 } else { 4.0 }));
        let ring: Vec<(f64, f64)> = teeth.chain([(4.0, 5.0), (-1.0, 5.0), (0.0, 0.0)]).collect();
        let positions = ring.iter().map(|(x, y)| if turned { format!("{y} {x}") } else { format!("{x} {y}") });
        Geometry::read(&format!("POLYGON(({}))", positions.collect::<Vec<_>>().join(",")), &Limits::AREA).unwrap().geometry
    };
    assert!(comb(false).intersects(&comb(true)).unwrap());
    assert!(!comb(false).is_within(&comb(true)).unwrap());
    assert!(comb(false).fraction_in(&comb(true)).is_err());
}

#[test]
fn errors_of_named_areas_have_their_location() {
    let collection = |feature: &str| format!(r#"{{"type":"FeatureCollection","features":[{feature}]}}"#);
    let read = |text: &str| NamedAreas::read(text, "name", &Limits::AREA);
    let error_location = |text: &str| read(text).map(|_| ()).map_err(|error| error.location);
    let path = |path: &str| Err(Location::Path(path.to_owned()));
    assert_eq!(error_location(SQUARE).map_err(|_| ()), Err(()));
    assert_eq!(error_location(r#"{"type":"Feature"}"#), path("$.type"));
    assert_eq!(error_location(&collection(r#"{"type":"Feature","properties":{},"geometry":null}"#)), path("$.features[0].properties"));
    assert_eq!(error_location(&collection(r#"{"type":"Feature","properties":{"name":"a"},"geometry":null}"#)), Ok(()));
    let (named, _) = read(&collection(r#"{"type":"Feature","properties":{"name":"a"},"geometry":{"type":"Point","coordinates":[180,1]}}"#)).unwrap();
    let east = reading("POLYGON((170 0,180 0,180 10,170 10,170 0))").geometry;
    assert_eq!(named.touching(&east), Ok(vec!["a"]));
    assert_eq!(named.touching(&reading(SQUARE).geometry), Ok(vec![]));
}
