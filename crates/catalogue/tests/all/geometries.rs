//! Fields of type geometry: how values are read, shown, stored and compared.

use proptest::prelude::*;
use serde_json::json;
use stook_catalogue::parse::{parse, parse_with_files};
use stook_catalogue::record::{Decoder, put_value};
use stook_catalogue::value::{FieldType, Value, from_json, from_text, repaired_from_json, repaired_from_text};

const SQUARE: &str = "POLYGON((10 20, 30 20, 30 40, 10 40, 10 20))";

fn read(text: &str) -> Value {
    from_text(text, &FieldType::Geometry, None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn refused(text: &str) -> String {
    from_text(text, &FieldType::Geometry, None).expect_err(text).to_string()
}

#[test]
fn an_area_has_one_value_in_all_its_forms() {
    let wanted = read(SQUARE);
    let ring = json!([[30, 40], [10, 40], [10, 20], [30, 20], [30, 40]]);
    let geojson = json!({ "type": "Polygon", "coordinates": [ring] });
    for text in [
        "SRID=4326;POLYGON((10 20,10 40,30 40,30 20,10 20))".to_owned(),
        "geography'SRID=4326;POLYGON((390 20,370 20,370 40,390 40,390 20))'".to_owned(),
        format!(" {geojson} "),
        json!({ "type": "Feature", "properties": {}, "geometry": geojson }).to_string(),
    ] {
        assert_eq!(read(&text), wanted, "{text}");
    }
    for json in [geojson, json!(SQUARE)] {
        assert_eq!(from_json(&json, &FieldType::Geometry, None).as_ref(), Ok(&wanted), "{json}");
    }
    assert_ne!(read("POLYGON((10 20, 30 20, 30 40, 10 41, 10 20))"), wanted);
    assert_eq!(wanted.show(&FieldType::Geometry), "POLYGON((10 20,30 20,30 40,10 40,10 20))");
}

#[test]
fn errors_say_what_is_wrong() {
    for (text, wanted) in [
        ("POINT(1 91)", "\"POINT(1 91)\" is not a geometry: byte 6: latitude 91 is not between -90 and 90"),
        ("POLYGON EMPTY", "the geometry is empty"),
        ("LINESTRING(1 2)", "a line needs at least two positions"),
        ("SRID=3857;POINT(1 2)", "reference system"),
        ("somewhere", "\"somewhere\" is not a geometry: byte 0"),
        ("", "is not a geometry"),
        ("12", "is not a geometry"),
    ] {
        assert!(refused(text).contains(wanted), "{text}: {}", refused(text));
    }
    for json in [json!(12), json!(true), json!([1, 2]), json!({ "type": "Point" }), json!({ "type": "Point", "coordinates": [1, 91] })] {
        let error = from_json(&json, &FieldType::Geometry, None).expect_err("no geometry").to_string();
        assert!(error.contains("is not"), "{json}: {error}");
    }
}

/// A document's geometry is repaired with a message; if no message can be given it is refused.
#[test]
fn repairs_are_reported_or_refused() {
    let bow = "POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))";
    let mut repairs = Vec::new();
    let value = repaired_from_text(bow, &FieldType::Geometry, None, &mut repairs).expect("repaired");
    assert_eq!(repairs.len(), 1, "{repairs:?}");
    assert!(repairs[0].contains("crosses itself"), "{repairs:?}");
    assert!(refused(bow).contains("is not a valid geometry (documents are repaired): byte "), "{}", refused(bow));
    let open = json!({ "type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]] });
    repairs.clear();
    repaired_from_json(&open, &FieldType::Geometry, None, &mut repairs).expect("repaired");
    assert_eq!(repairs, ["$.coordinates: the ring was not closed; it was closed"]);
    assert!(from_json(&open, &FieldType::Geometry, None).is_err());
    // a repaired geometry is valid
    assert_eq!(read(&value.show(&FieldType::Geometry)), value);
}

#[test]
fn fields_that_cannot_be_geometries_are_refused() {
    let definition = |field: &str| format!("catalogue: c\ncollections:\n  place:\n    key: id\n    fields:\n      id: text\n      area: {field}\n");
    let problems =
        |text: &str| parse(text).err().map(|found| found.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>()).unwrap_or_default();
    assert_eq!(problems(&definition("geometry")), Vec::<String>::new());
    assert_eq!(problems(&definition("{ type: geometry, index: intersects }")), Vec::<String>::new());
    for (field, wanted) in [
        ("[geometry]", "any number of points, lines and areas"),
        ("[{ a: text, g: geometry }]", "its type is a scalar one"),
        ("{ type: geometry, unique: true }", "cannot be unique"),
        ("{ type: geometry, index: equal }", "lie to each other"),
        ("{ type: text, index: intersects }", "only geometries"),
        ("{ type: geometry, index: contains }", "lie to each other"),
        ("{ type: geometry, fold: true }", "only text can be folded"),
        ("{ type: geometri }", "`geometri` is not a type"),
    ] {
        let found = problems(&definition(field));
        assert!(found.iter().any(|message| message.contains(wanted)), "{field}: {found:?}");
    }
    let key = definition("geometry").replace("key: id", "key: area");
    assert!(problems(&key).iter().any(|message| message.contains("a key is a scalar")), "{:?}", problems(&key));
}

proptest! {
    /// An exported value is the same after importing it: as GeoJSON, as WKT, and as stored with a contribution.
    #[test]
    fn written_geometries_are_read_back_unchanged(
        rings in prop::collection::vec(prop::collection::vec((-185_000_i32..185_000, -90_000_i32..=90_000), 3..7), 1..3),
        points in prop::collection::vec((-180_000_i32..180_000, -90_000_i32..=90_000), 0..3),
    ) {
        let degrees = |(x, y): (i32, i32)| json!([f64::from(x) / 1e3, f64::from(y) / 1e3]);
        let area = |ring: Vec<(i32, i32)>| {
            let mut ring: Vec<_> = ring.into_iter().map(degrees).collect();
            ring.push(ring[0].clone());
            json!({ "type": "Polygon", "coordinates": [ring] })
        };
        let single = |point| json!({ "type": "Point", "coordinates": degrees(point) });
        let parts: Vec<_> = rings.into_iter().map(area).chain(points.into_iter().map(single)).collect();
        let made = json!({ "type": "GeometryCollection", "geometries": parts });
        let ty = FieldType::Geometry;
        // rings that go around the Earth several times are not valid
        if let Ok(value) = repaired_from_json(&made, &ty, None, &mut Vec::new()) {
            prop_assert_eq!(from_json(&value.to_json(&ty), &ty, None), Ok(value.clone()));
            prop_assert_eq!(from_text(&value.to_json(&ty).to_string(), &ty, None), Ok(value.clone()));
            prop_assert_eq!(from_text(&value.show(&ty), &ty, None), Ok(value.clone()));
            let mut bytes = Vec::new();
            put_value(&mut bytes, &value);
            let mut decoder = Decoder { bytes: &bytes };
            prop_assert_eq!(decoder.value(0), Ok(value));
            prop_assert!(decoder.bytes.is_empty());
        }
    }

    /// Damaged bytes of a stored geometry are an error.
    #[test]
    fn damaged_geometries_are_found(position in any::<prop::sample::Index>(), byte: u8) {
        let mut bytes = Vec::new();
        put_value(&mut bytes, &read(SQUARE));
        let position = position.index(bytes.len());
        bytes[position] = byte;
        let _ = Decoder { bytes: &bytes }.value(0);
        bytes.truncate(position);
        let cut = Decoder { bytes: &bytes }.value(0);
        prop_assert!(cut.is_err(), "{:?}", cut);
    }
}

const AREAS: &str = "
catalogue: c
areas: { regions: regions.geojson, seas: { file: maps/seas.geojson, name: title } }
sources: { s: { format: json, as_of: meta.received, into: t } }
collections:
  t:
    key: id
    fields:
      id: { path: $.id, type: text }
      at: { path: $.at, type: geometry }
      regions: { type: [text], derive: \"areas_met('regions', at)\" }
      is_wet: { type: boolean, derive: \"within(at, named_area('seas', 'Inland'))\" }
";

const REGIONS: &str = r#"{"type":"FeatureCollection","features":[
    {"type":"Feature","properties":{"name":"west"},"geometry":{"type":"Polygon","coordinates":[[[0,0],[2,0],[2,2],[0,2],[0,0]]]}},
    {"type":"Feature","properties":{"name":"east"},"geometry":{"type":"Polygon","coordinates":[[[2,0],[4,0],[4,2],[2,2],[2,0]]]}},
    {"type":"Feature","properties":{"name":"west"},"geometry":{"type":"Polygon","coordinates":[[[1,1],[1,3],[3,3],[3,1],[1,1]]]}}]}"#;

fn parse_with_regions(regions: Option<&'static str>, definition: &str) -> Result<stook_catalogue::definition::Catalogue, String> {
    let read = |file: &str| match file {
        "regions.geojson" => regions.map(str::to_owned).ok_or_else(|| std::io::ErrorKind::NotFound.into()),
        _ => Err(std::io::ErrorKind::NotFound.into()),
    };
    parse_with_files(definition, &read).map_err(|problems| problems.iter().map(|problem| problem.message.clone() + "\n").collect())
}

#[test]
fn files_of_areas_are_part_of_the_definition_and_may_be_missing() {
    let (with, without) = (parse_with_regions(Some(REGIONS), AREAS).unwrap(), parse_with_regions(None, AREAS).unwrap());
    assert!(with.hash != without.hash, "another file is another definition");
    let found = |catalogue: &stook_catalogue::definition::Catalogue| -> Vec<(String, bool)> {
        catalogue.area_files.iter().map(|file| (file.file.clone(), file.hash.is_some())).collect()
    };
    assert_eq!(found(&with), [("regions.geojson".to_owned(), true), ("maps/seas.geojson".to_owned(), false)]);
    assert_eq!(found(&without)[0], ("regions.geojson".to_owned(), false));
    let regions = with.tables.areas("regions").flatten().expect("areas");
    let names: Vec<&str> = regions.iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["east", "west"]);
    // two overlapping features with the same name are one area
    let Value::Geometry(both) = read("POLYGON((0 0, 2 0, 2 1, 3 1, 3 3, 1 3, 1 2, 0 2, 0 0))") else { panic!() };
    assert_eq!(regions.named("west").map(|area| &**area), Some(&*both));
}

#[test]
fn errors_in_areas_are_reported() {
    for (from, to, wanted) in [
        ("regions.geojson,", "../regions.geojson,", "write its path from there"),
        ("regions.geojson,", "/etc/passwd,", "write its path from there"),
        ("areas_met('regions'", "areas_met('region'", "there is no file `region` under `areas`"),
        ("areas_met('regions'", "areas_met(id", "is written as a constant text"),
        ("areas_met('regions', at)", "areas_met('regions', id)", "takes geometry here, this is text"),
        ("title }", "titel, more: 1 }", "more"),
    ] {
        let message = parse_with_regions(Some(REGIONS), &AREAS.replacen(from, to, 1)).expect_err(to);
        assert!(message.contains(wanted), "{to}: {message}");
    }
    let broken = REGIONS.replacen("\"name\"", "\"nom\"", 1);
    let message = parse_with_regions(Some(Box::leak(broken.into_boxed_str())), AREAS).expect_err("no name");
    assert!(message.contains("`regions.geojson`: $.features[0].properties: the feature has no name"), "{message}");
}
