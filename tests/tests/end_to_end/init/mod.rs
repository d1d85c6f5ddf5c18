//! `stook init --from` on likenesses of real tables: the key and the types are right, and init, check, import and export return every cell.

mod cases;
mod likeness;
mod several;
mod write;

use cases::{Case, Format, Key, cases, cases_of_programs};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use stook_tests::Sandbox;

/// What was right about one case.
#[derive(Debug, Default)]
struct Verdict {
    is_key_right: bool,
    types: usize,
    wrong_types: Vec<String>,
}

/// A folder without a definition.
pub fn folder() -> Sandbox {
    let sandbox = Sandbox::new("catalogue: c\n");
    std::fs::remove_file(sandbox.path("catalogue.yaml")).unwrap();
    sandbox
}

fn judge(case: &Case, seed: u64) -> Verdict {
    let sandbox = folder();
    let rows = likeness::rows(&case.columns, case.rows, seed);
    let path = sandbox.path(case.file).display().to_string();
    match case.format {
        Format::Csv => drop(sandbox.write_file(case.file, write::csv(&case.columns, &rows, &case.habits))),
        Format::Xlsx => write::xlsx(&case.columns, &rows, &case.habits, &sandbox.path(case.file)),
        Format::Json(shape) => drop(sandbox.write_file(case.file, write::json(&case.columns, &rows, shape))),
        Format::Xml(namespace) => drop(sandbox.write_file(case.file, write::xml(&case.columns, &rows, namespace))),
    }
    let found = sandbox.json(&["init", "--from", &path, "--json"]);
    let collection = &found["collections"][0];
    let mut verdict = Verdict::default();
    // the field of each column, by the last part of its path
    let mut fields: BTreeMap<usize, String> = BTreeMap::new();
    for field in collection["fields"].as_array().unwrap() {
        let Some(column) = field["columns"][0].as_str() else { continue };
        let position = case.position(column);
        fields.insert(position, field["name"].as_str().unwrap().to_owned());
        verdict.types += 1;
        let (ty, wanted) = (field["type"].as_str().unwrap(), case.columns[position].has.ty());
        if ty != wanted {
            verdict.wrong_types.push(format!("{} {}: {ty} instead of {wanted}", case.file, case.columns[position].name));
        }
    }
    let key = collection["key"].as_str().unwrap();
    let names = |columns: &[&str]| columns.iter().map(|column| fields[&case.position(column)].clone()).collect::<Vec<_>>();
    verdict.is_key_right = match &case.key {
        Key::Columns(columns) if columns.len() == 1 => key == names(columns)[0],
        Key::Columns(columns) => {
            let mut parts: Vec<String> = key.split(['{', '}', '/']).filter(|part| !part.is_empty()).map(str::to_owned).collect();
            let mut wanted = names(columns);
            parts.sort();
            wanted.sort();
            parts == wanted
        }
        Key::Row => key.ends_with("_key"),
    };
    sandbox.ok(&["check"]);
    let job = sandbox.import(&[&path]);
    assert_eq!(stook_tests::counts(&job), format!("created {}", case.rows), "{}: {}", case.file, sandbox.ok(&["journal", "1", "--errors"]));
    let records = sandbox.records(collection["name"].as_str().unwrap());
    let shown = |record: &Json| -> Vec<String> { fields.iter().map(|(position, name)| canonical(&record[name], case, *position)).collect() };
    let mut exported: Vec<Vec<String>> = records.iter().map(shown).collect();
    let mut expected: Vec<Vec<String>> =
        rows.iter().map(|row| fields.keys().map(|position| canonical(&row[*position].expected(), case, *position)).collect()).collect();
    exported.sort();
    expected.sort();
    for (found, wanted) in exported.iter().zip(&expected) {
        assert_eq!(found, wanted, "{} has another cell", case.file);
    }
    assert_eq!(exported.len(), expected.len(), "{}", case.file);
    verdict
}

/// A cell in one form, whatever type the proposal chose for it.
fn canonical(value: &Json, case: &Case, position: usize) -> String {
    match value {
        Json::String(text) if case.is_latin1() => text.chars().map(|c| if u32::from(c) < 256 { c } else { 'r' }).collect(),
        Json::String(text) => case.plain(text, position),
        Json::Number(number) => number.as_f64().unwrap().to_string(),
        Json::Array(items) => items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(";"),
        other => other.to_string(),
    }
}

#[test]
fn keys_and_types_of_thirty_likenesses_are_right_and_no_cell_is_lost() {
    let cases = cases();
    assert_eq!(cases.len(), 30);
    let (mut keys, mut types, mut wrong) = (0, 0, Vec::new());
    for (index, case) in cases.iter().enumerate() {
        let verdict = judge(case, 1 + index as u64);
        keys += usize::from(verdict.is_key_right);
        if !verdict.is_key_right {
            println!("{}: another key", case.file);
        }
        types += verdict.types;
        wrong.extend(verdict.wrong_types);
    }
    println!("keys right: {keys} of {}; types right: {} of {types}; wrong: {wrong:#?}", cases.len(), types - wrong.len());
    assert!(keys >= 27, "{keys} keys");
    assert!(wrong.len() * 20 <= types, "{} of {types} types are wrong", wrong.len());
}

#[test]
fn tables_that_programs_for_statistics_write_are_read_as_they_mean_them() {
    for (index, case) in cases_of_programs().iter().enumerate() {
        let verdict = judge(case, 100 + index as u64);
        assert!(verdict.is_key_right, "{} {:?}: another key", case.file, case.habits);
        assert!(verdict.wrong_types.is_empty(), "{:?} {:?}", verdict.wrong_types, case.habits);
    }
}
