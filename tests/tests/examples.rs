//! The catalogues of `examples/` are sound, also in the eyes of a JSON Schema validator.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use stook_tests::{Place, repository, stook};

fn examples() -> Vec<PathBuf> {
    let folders = std::fs::read_dir(repository().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = folders.map(|folder| folder.join("catalogue.yaml")).filter(|file| file.exists()).collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

#[test]
fn every_example_is_sound() {
    for file in examples() {
        let output = Command::new(stook()).arg("-C").arg(file.parent().unwrap()).arg("check").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("is sound: "));
    }
}

/// A Python with jsonschema and PyYAML.
fn python() -> Option<PathBuf> {
    let named = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/stook/venv/bin/python"));
    let usable = |python: &PathBuf| Command::new(python).args(["-c", "import jsonschema, yaml"]).output().is_ok_and(|output| output.status.success());
    named.into_iter().chain(home).find(usable)
}

#[test]
fn every_example_satisfies_the_schema_that_editors_use() {
    let Some(python) = python() else {
        println!("skipped: no Python with jsonschema and PyYAML (STOOK_TEST_PYTHON)");
        return;
    };
    let place = Place::library();
    let schema = place.file("schema.json", place.ok(&["schema"]));
    let new = place.path("new");
    place.ok(&[OsStr::new("init"), new.as_os_str()]);
    let validator = repository().join("tests/reference/validate_schema.py");
    let validate = |file: &PathBuf| Command::new(&python).arg(&validator).arg(&schema).arg(file).output().unwrap();
    for file in examples().iter().chain([&new.join("catalogue.yaml")]) {
        let output = validate(file);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    }
    // and it is not content with everything
    let wrong = place.file("wrong.yaml", stook_tests::LIBRARY.replace("raw: keep", "raw: keeep"));
    let output = validate(&PathBuf::from(wrong));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains("keeep"));
}
