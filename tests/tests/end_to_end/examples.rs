//! The catalogues of `examples/` are sound, also in the eyes of a JSON Schema validator.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use stook_tests::{Sandbox, repository, schema_violations, stook};

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
        assert!(String::from_utf8_lossy(&output.stdout).contains("is valid: "));
    }
}

#[test]
fn every_example_satisfies_the_schema_that_editors_use() {
    let sandbox = Sandbox::library();
    let schema = sandbox.write_file("schema.json", sandbox.ok(&["schema"]));
    let new = sandbox.path("new");
    sandbox.ok(&[OsStr::new("init"), new.as_os_str()]);
    for file in examples().iter().chain([&new.join("catalogue.yaml")]) {
        let Some(wrong) = schema_violations(&schema, file) else { return };
        assert_eq!(wrong, "");
    }
    // and it is not content with everything
    let wrong = sandbox.write_file("wrong.yaml", stook_tests::LIBRARY.replace("raw: keep", "raw: keeep"));
    assert!(schema_violations(&schema, Path::new(&wrong)).unwrap().contains("keeep"));
}
