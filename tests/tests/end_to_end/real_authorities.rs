//! Real authority records, where they are: a thousand, then five thousand that begin with the same ones.

use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use stook_tests::{Sandbox, repository, sum_of_outcomes};

/// A file of real records: in `STOOK_TEST_DATA`, or beside the repository.
fn real_file(name: &str) -> Option<PathBuf> {
    let folder = match std::env::var_os("STOOK_TEST_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => repository().parent()?.join("shared/data/marc"),
    };
    let path = folder.join(name);
    if !path.exists() {
        // real files are no part of the project; but a folder that is named has them
        let report_skip = if std::env::var_os("STOOK_TEST_DATA").is_some() { stook_testkit::skip::missing } else { stook_testkit::skip::left_out };
        report_skip(&format!("there is no {}", path.display()));
        return None;
    }
    Some(path)
}

fn records(bytes: &[u8]) -> BTreeSet<&[u8]> {
    bytes.split_inclusive(|byte| *byte == 0x1d).collect()
}

#[test]
fn the_larger_file_finds_the_records_of_the_smaller_one() {
    let (Some(small), Some(large)) = (real_file("1k_authority_Create.mrc"), real_file("5k_authority_Create.mrc")) else { return };
    let sandbox = Sandbox::library();
    let first = sandbox.import(&[small.to_str().unwrap(), "--profile", "upsert"]);
    assert_eq!((&first["counts"]["created"], sum_of_outcomes(&first)), (&json!(1_000), 1_000));
    let second = sandbox.import(&[large.to_str().unwrap(), "--profile", "upsert"]);
    assert_eq!((&second["counts"]["created"], sum_of_outcomes(&second)), (&json!(4_000), 5_000));
    let matched = second["counts"]["updated"].as_u64().unwrap() + second["counts"]["unchanged"].as_u64().unwrap();
    assert_eq!(matched, 1_000, "{}", second["counts"]);
    // every document of the second job is about one record, and those of the first are the first thousand
    let keys = |job: u64| sandbox.journal(job).iter().map(|entry| entry["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let (old, new) = (keys(1), keys(2));
    assert!(old.iter().collect::<BTreeSet<_>>() == new[..1_000].iter().collect(), "the same thousand come first");
    assert_eq!(new.iter().collect::<BTreeSet<_>>().len(), 5_000);
    assert_eq!(sandbox.records("authority").len(), 5_000);

    let bytes = std::fs::read(&large).unwrap();
    let exported = sandbox.export("authority", "marc");
    assert_eq!(exported.len(), bytes.len());
    assert!(records(&exported) == records(&bytes), "the export has exactly the records of the file, byte for byte");
}

#[test]
fn real_records_survive_a_round_trip_through_marcxml() {
    let Some(small) = real_file("1k_authority_Create.mrc") else { return };
    let sandbox = Sandbox::library();
    sandbox.import(&[small.to_str().unwrap(), "--profile", "create_on_no_match"]);
    let elsewhere = Sandbox::library();
    let file = elsewhere.write_file("names.xml", sandbox.export("authority", "marcxml"));
    elsewhere.import(&[&file, "--profile", "create_on_no_match"]);
    assert_eq!(elsewhere.records("authority"), sandbox.records("authority"));
}

#[test]
fn records_of_another_kind_are_refused_one_by_one() {
    let Some(bibliographic) = real_file("mdi_sample100.mrc") else { return };
    let sandbox = Sandbox::library();
    let job = sandbox.run(&["import", "--json", bibliographic.to_str().unwrap(), "--profile", "upsert"]).exits(2).json();
    assert_eq!((&job["counts"]["documents"], &job["counts"]["failed"]), (&json!(100), &json!(100)));
    let troubles = sandbox.troubles(1);
    let reason = |trouble: &serde_json::Value| trouble["reasons"][0].as_str().unwrap().to_owned();
    // a few are damaged beside
    assert!(troubles.iter().filter(|trouble| reason(trouble) == "record type a is not an authority (z)").count() > 90);
}

#[test]
fn garbage_with_a_marc_file_name_is_refused() {
    let Some(garbage) = real_file("invalidMarcFile.mrc") else { return };
    let sandbox = Sandbox::library();
    let refusal = sandbox.run(&["import", garbage.to_str().unwrap(), "--profile", "upsert"]).exits(1);
    refusal.stderr_contains(&["invalidMarcFile.mrc looks like csv, source `loc` reads marc"]);
    assert_eq!(sandbox.json(&["jobs", "--json"]), json!([]));
}
