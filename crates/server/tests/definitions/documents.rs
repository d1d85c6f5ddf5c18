//! Documents for a definition, with corner cases: absent values, values of a wrong type, a list where one value is expected and vice versa.

use super::case::{Delivery, Edit};
use super::grammar::{GeneratedDefinition, Members, tag};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use stook_sample::random::Random;

/// Returns the time of a document or delivery with this number, in seconds: days of January 2024.
pub fn time(number: i64) -> i64 {
    1_704_067_200 + number * 86_400
}

/// Formats a time in seconds.
pub fn shown(seconds: i64) -> String {
    // 2024 begins on day 19 723; all times here are in January, or hours from it
    let (day, second) = ((seconds - time(0)).div_euclid(86_400), (seconds - time(0)).rem_euclid(86_400));
    format!("2024-01-{:02}T{:02}:{:02}:{:02}Z", day + 1, second / 3_600, second / 60 % 60, second % 60)
}

/// Makes files for the sources of a definition, in an order without meaning.
pub fn deliveries(random: &mut Random, generated: &GeneratedDefinition) -> Vec<Delivery> {
    let number = *random.one(&[1, 2, 2, 3, 3, 3, 4, 4, 5, 6]);
    let mut all = Vec::new();
    for delivery_number in 0..number {
        let members = random.one(&generated.members);
        let source = &generated.definition["sources"][&members.source];
        let size = *random.one(&[1, 1, 1, 2, 2, 3]);
        // mostly, no two documents have the same time
        let documents = (0..size).map(|_| {
            let day = if random.per_mille(100) { 3 } else { 1 + (delivery_number * 3 + random.below(3) as i64) % 20 };
            document(random, source, members, day, generated)
        });
        let documents = documents.collect();
        let as_of = time(if random.per_mille(100) { 5 } else { 1 + delivery_number }) + 60;
        all.push(Delivery { source: members.source.clone(), as_of, documents });
    }
    all
}

/// Makes edits through the API.
pub fn edits(random: &mut Random, generated: &GeneratedDefinition) -> Vec<Edit> {
    let mut edits = Vec::new();
    for (name, collection) in generated.definition["collections"].as_object().into_iter().flatten() {
        let key = collection["key"].as_str().unwrap_or_default();
        for _ in 0..random.below(3) {
            let (mut body, mut clear) = (Map::new(), None);
            for (field, field_definition) in collection["fields"].as_object().into_iter().flatten() {
                let is_key = is_key(key, field);
                let is_contributed = field_definition.get("derive").is_none() && field_definition.get("rollup").is_none();
                if is_contributed && !is_key && random.per_mille(350) {
                    let ty = field_definition.get("type").unwrap_or(field_definition);
                    body.insert(field.clone(), if random.per_mille(250) { Json::Null } else { valid_value(random, ty) });
                }
                if is_contributed && !is_key && random.per_mille(60) {
                    clear = Some(field.clone());
                }
            }
            let method = *random.one(&["PATCH", "PATCH", "PATCH", "PUT", "DELETE"]);
            edits.push(Edit { collection: name.clone(), position: random.below(3), method: method.into(), body: body.into(), clear });
        }
    }
    edits
}

/// Whether a field is part of a key.
pub fn is_key(key: &str, field: &str) -> bool {
    key == field || key.contains(&format!("{{{field}}}")) || key.starts_with(field)
}

fn document(random: &mut Random, source: &Json, members: &Members, day: i64, generated: &GeneratedDefinition) -> Json {
    let mut document = Map::new();
    let time_value = match source["let"]["at"]["format"].as_str() {
        Some("epoch") => json!(time(day)),
        Some("epoch_ms") => json!(time(day) * 1_000),
        _ => json!(shown(time(day))),
    };
    if random.per_mille(960) {
        document.insert("at".into(), time_value);
    }
    if random.per_mille(800) {
        document.insert("who".into(), json!(random.one(&["a", "b", "x", "k1", "é"])));
    }
    if random.per_mille(200) {
        document.insert("said".into(), json!(random.one(&["gone", "gone", "here"])));
    }
    let allows_lists = matches!(source["format"].as_str(), Some("json" | "xml" | "marc"));
    for (name, ty) in &members.named {
        // keys are rarely missing, and repeat often
        let is_key = name == "f0";
        if is_key && random.per_mille(970) {
            document.insert(
                name.clone(),
                if ty == "integer" { json!(random.one(&[1, 2, 7])) } else { json!(random.one(&["k1", "k1", "k1", "a", "b/c", "K1", "é"])) },
            );
            continue;
        }
        if ty == "text" && generated.groups.contains(name) && random.per_mille(300) {
            document.insert(name.clone(), json!(long_group(random)));
            continue;
        }
        let is_likely_match = generated.linked.contains(name) && (!ty.is_array() || allows_lists) && random.per_mille(400);
        if is_likely_match && let Some(value) = likely_match(random, ty) {
            document.insert(name.clone(), value);
            continue;
        }
        // an unreadable value matters if other sources, or the same source earlier, gave a value
        let value = match random.below(22) {
            0..3 => continue,
            3 | 20 | 21 => unreadable_or_odd_value(random),
            4 if allows_lists => json!([valid_value(random, ty), valid_value(random, ty)]),
            5 if ty.is_array() => valid_value(random, &ty[0]),
            6 => Json::Null,
            7 => json!(""),
            _ => valid_value(random, ty),
        };
        let value = if allows_lists { value } else { flat(value) };
        document.insert(name.clone(), value);
    }
    if let Some((inner, _)) = source["embeds"].as_object().and_then(|embeds| embeds.iter().next()) {
        let text = generated.members.iter().find(|members| members.source == *inner).map(|members| {
            let inner_source = &generated.definition["sources"][inner];
            let embedded = embedded_document(random, inner_source, members, day, generated);
            format_one(inner_source, &embedded)
        });
        let text = match random.below(8) {
            0 => json!("<broken"),
            1 => json!(" "),
            2 => Json::Null,
            _ => json!(text),
        };
        document.insert("inner".into(), text);
    }
    document.into()
}

fn embedded_document(random: &mut Random, source: &Json, members: &Members, day: i64, generated: &GeneratedDefinition) -> Json {
    let outer = json!({ "format": source["format"], "let": source["let"] });
    document(random, &outer, members, day, generated)
}

/// Makes a value that CSV can represent.
fn flat(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().next().map_or(Json::Null, flat),
        Json::Object(_) => json!("x y"),
        other => other,
    }
}

/// Makes one of few values, so that other records have it, too: of a list, its second or a later element.
fn likely_match(random: &mut Random, ty: &Json) -> Option<Json> {
    if let Some(element) = ty.get(0) {
        let number = *random.one(&[1, 2, 2, 3]);
        return (0..number).map(|_| likely_match(random, element)).collect();
    }
    match ty.as_str()? {
        "text" => Some(json!(random.one(&["k1", "a", "b/c", "zz"]))),
        "integer" => Some(json!(random.one(&[1, 2, 7, 9]))),
        _ => None,
    }
}

/// Makes a group because of which a row's key exceeds the max length; two of them differ only at the end.
fn long_group(random: &mut Random) -> String {
    "g".repeat(520) + random.one::<&str>(&["1", "2"])
}

/// Geometries as documents write them, with their GeoJSON.
pub fn geometries() -> [(&'static str, Json); 6] {
    let square = json!({ "type": "Polygon", "coordinates": [[[10.0, 20.0], [30.0, 20.0], [30.0, 40.0], [10.0, 40.0], [10.0, 20.0]]] });
    [
        ("POINT(14.5 50)", json!({ "type": "Point", "coordinates": [14.5, 50.0] })),
        ("SRID=4326;POINT (-0.25 -7.5)", json!({ "type": "Point", "coordinates": [-0.25, -7.5] })),
        ("LINESTRING(1 2, 3 4.5)", json!({ "type": "LineString", "coordinates": [[1.0, 2.0], [3.0, 4.5]] })),
        ("POLYGON((10 20, 30 20, 30 40, 10 40, 10 20))", square.clone()),
        // the same area, starting at another corner and in the other direction
        ("geography'SRID=4326;POLYGON((30 40,30 20,10 20,10 40,30 40))'", square),
        ("POLYGON((0 0, 4 0, 0 4, 0 0))", json!({ "type": "Polygon", "coordinates": [[[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]] })),
    ]
}

/// Makes a value of a type.
pub fn valid_value(random: &mut Random, ty: &Json) -> Json {
    if let Some(element) = ty.get(0) {
        if let Some(members) = element.as_object() {
            let number = *random.one(&[0, 1, 1, 2, 3]);
            let struct_value = |random: &mut Random| -> Json {
                let mut member_values = Map::new();
                for (name, ty) in members {
                    if random.per_mille(800) {
                        member_values.insert(name.clone(), valid_value(random, ty));
                    }
                }
                member_values.into()
            };
            return (0..number).map(|_| struct_value(random)).collect();
        }
        let number = *random.one(&[0, 1, 1, 2, 3]);
        return (0..number).map(|_| valid_value(random, element)).collect();
    }
    match ty.as_str().unwrap_or_default() {
        "integer" => random.one(&[json!(0), json!(1), json!(7), json!(7), json!(-3), json!("12"), json!(9_007_199_254_740_993_i64)]).clone(),
        "float" => random.one(&[json!(0.5), json!(7), json!(-1.25), json!("2.5"), json!(-0.0), json!("-0"), json!(1e308)]).clone(),
        "boolean" => random.one(&[json!(true), json!(false), json!("yes"), json!("0")]).clone(),
        "timestamp" => json!(shown(time(random.between(1, 4) as i64) + 3_600 * random.below(5) as i64)),
        "date" => json!(random.one(&["2024-01-05", "1999-12-31", "2024-02-29"])),
        "duration" => random.one(&[json!("1h30m"), json!("PT2S"), json!("-3s"), json!(90), json!("90")]).clone(),
        "size" => random.one(&[json!(10), json!("10 kB"), json!("1.5 GiB")]).clone(),
        "uuid" => json!(random.one(&["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B8109DAD11D180B400C04FD430C8"])),
        "json" => random
            .one(&[
                json!({ "p": { "q": 1 } }),
                json!({ "p": null, "r": [1, "x"] }),
                json!([1, 2]),
                json!("7"),
                json!(true),
                json!({ "z": -0.0, "big": 1e300, "é": "\t" }),
            ])
            .clone(),
        "ranges" => random.one(&[json!("1-5, 8"), json!([[1, 3], 9]), json!(4), json!("8, 1-4, 5")]).clone(),
        "geometry" => {
            let (written, geometry) = random.one(&geometries()).clone();
            if random.per_mille(400) { geometry } else { json!(written) }
        }
        // two of them exceed the max length of a key
        _ if random.per_mille(8) => json!(random.one(&["x", "é"]).repeat(280)),
        _ if random.per_mille(60) => {
            json!(random.one(&["The sea : a story /", "Paris :", "Smith, J.,", "U.S.A.", "2nd ed. ;", "Title. =", " /", "no 3rd."]))
        }
        _ => json!(random.one(&["a", "b", "k1", "K1", " a  b ", "é", "b/c", "100%", "true", "a'\"&<"])),
    }
}

fn unreadable_or_odd_value(random: &mut Random) -> Json {
    random
        .one(&[
            json!("no such value"),
            json!({ "x": 1 }),
            json!([[1], "x"]),
            json!(true),
            json!(1e300),
            json!(-0.5),
            json!("2024-13-01"),
            json!({}),
            json!([]),
        ])
        .clone()
}

// --- in the format of their source ------------------------------------------------------------------------------------------

/// Formats documents as a file.
pub fn file(source: &Json, documents: &[Json]) -> String {
    let records = source["records"].as_str();
    match source["format"].as_str().unwrap_or_default() {
        "json" => match records {
            Some(_) => json!({ "value": documents }).to_string(),
            None => documents.iter().map(|document| document.to_string() + "\n").collect(),
        },
        "csv" => csv(documents, source),
        // each is the root element of an XML document, one after the other
        "xml" if records.is_none() => documents.iter().map(|document| xml("record", document) + "\n").collect(),
        "xml" => format!("<all>{}</all>", documents.iter().map(|document| xml("record", document)).collect::<String>()),
        _ => documents.iter().map(|document| marc(document) + "\n").collect(),
    }
}

/// Formats one document.
fn format_one(source: &Json, document: &Json) -> String {
    if source["format"] == "xml" { xml("record", document) } else { document.to_string() }
}

fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats CSV as its source reads it; with `short_rows` a row ends with its last value, but is never empty, because an empty row would be none.
fn csv(documents: &[Json], source: &Json) -> String {
    let (short_rows, delimiter) = (source["short_rows"] == "absent", source["delimiter"].as_str().unwrap_or(","));
    let absent = if source["null"].is_null() { "" } else { "NA" };
    let mut names: Vec<&String> = Vec::new();
    for name in documents.iter().filter_map(Json::as_object).flat_map(|document| document.keys()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let cell = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "a line before the header\n".repeat(source["skip"].as_u64().unwrap_or_default() as usize);
    out.push_str(&(names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(delimiter) + "\n"));
    for document in documents {
        let mut values: Vec<String> = names.iter().map(|name| document.get(*name).map(text).unwrap_or_default()).collect();
        while short_rows && values.len() > 1 && values.last().is_some_and(String::is_empty) {
            values.pop();
        }
        values.iter_mut().filter(|value| value.is_empty()).for_each(|value| absent.clone_into(value));
        let cells: Vec<String> = values.iter().map(|value| cell(value)).collect();
        out.push_str(&(cells.join(delimiter) + "\n"));
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn xml(name: &str, value: &Json) -> String {
    match value {
        Json::Object(entries) => format!("<{name}>{}</{name}>", entries.iter().map(|(name, value)| xml(name, value)).collect::<String>()),
        Json::Array(items) => items.iter().map(|item| xml(name, item)).collect(),
        Json::Null => String::new(),
        other => format!("<{name}>{}</{name}>", escaped(&text(other))),
    }
}

/// Formats MARC-in-JSON.
fn marc(document: &Json) -> String {
    let mut fields: Vec<Json> = vec![json!({ "001": "1" })];
    for (name, value) in document.as_object().into_iter().flatten() {
        let values: Vec<&Json> = match value {
            Json::Array(items) => items.iter().collect(),
            Json::Null => Vec::new(),
            single => vec![single],
        };
        for value in values {
            let mut tagged = Map::new();
            tagged.insert(tag(name), json!({ "ind1": " ", "ind2": " ", "subfields": [{ "a": text(value) }] }));
            fields.push(tagged.into());
        }
    }
    json!({ "leader": "00000nam a2200000 a 4500", "fields": fields }).to_string()
}

/// Formats a file for people.
pub fn printed(source: &Json, delivery: &Delivery) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "# a file of {}, as of {}", delivery.source, shown(delivery.as_of));
    out + &file(source, &delivery.documents)
}
