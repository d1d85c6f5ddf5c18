//! Compares MARC with another library: pymarc, through the scripts in `tests/reference` of the repository.
//!
//! `STOOK_TEST_PYTHON` names a Python that has pymarc (otherwise `~/.cache/stook/venv/bin/python` is tried), `STOOK_TEST_DATA` a folder of real MARC
//! files (otherwise `../shared/data/marc` next to the repository). Without them, the tests report that and pass.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;
use stook_formats::marc::{MarcRecord, show_tag};
use stook_formats::write::MarcWriter;
use stook_formats::{Document, Syntax, marc8};
use support::{Random, iso2709, random_record, read_whole};

const GENERATED: usize = 3_000;
const MARC8_STRINGS: usize = 2_000;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines a reference script prints, each a JSON value.
fn reference(python: &Path, script: &str, arguments: &[&str]) -> Vec<serde_json::Value> {
    let output = Command::new(python)
        .arg(repository().join("tests/reference").join(script))
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    json_lines(&output.stdout)
}

fn json_lines(text: &[u8]) -> Vec<serde_json::Value> {
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}"))).collect()
}

/// A file for a reference script to read.
fn file(name: &str, content: &[u8]) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap_or_else(|error| panic!("{error}"));
    path.to_string_lossy().into_owned()
}

/// A record as the reference scripts print it.
fn dump(record: &MarcRecord<'_>) -> serde_json::Value {
    let fields: Vec<serde_json::Value> = record
        .fields()
        .map(|field| {
            let tag = show_tag(field.tag);
            if field.is_control() {
                return serde_json::json!([tag, field.data]);
            }
            let [first, second] = field.indicators();
            serde_json::json!([tag, first, second, field.subfields().collect::<Vec<_>>()])
        })
        .collect();
    serde_json::json!({ "leader": record.leader(), "fields": fields })
}

fn generated(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..GENERATED).map(|_| iso2709(&random_record(&mut random))).collect()
}

fn parse(bytes: &[u8]) -> MarcRecord<'_> {
    MarcRecord::parse(bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// Converts records, each as [`MarcWriter`] does.
fn convert<'b>(documents: impl IntoIterator<Item = &'b [u8]>, from: Syntax, to: Syntax) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = MarcWriter::new(&mut out, to);
    for document in documents {
        writer.write(document, from).unwrap_or_else(|error| panic!("{error}"));
    }
    writer.finish().unwrap_or_else(|error| panic!("{error}"));
    out
}

/// The documents of a file that this crate wrote, completed so that each can be parsed alone.
fn documents(file: &[u8], syntax: Syntax) -> Vec<Vec<u8>> {
    read_whole(file, syntax, None)
        .into_iter()
        .map(|(found, bytes)| {
            assert_eq!(found.problem, None);
            found.head.complete(&bytes).into_owned()
        })
        .collect()
}

fn assert_same(ours: &[serde_json::Value], theirs: &[serde_json::Value]) {
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert_eq!(ours, theirs, "record {}", number + 1);
    }
    assert_eq!(ours.len(), theirs.len());
}

/// Real files are not part of the project; but a folder that is named must exist.
fn real_is_missing(folder: &Path) {
    let report = if std::env::var_os("STOOK_TEST_DATA").is_some() { stook_testkit::skip::missing } else { stook_testkit::skip::left_out };
    report(&format!("there is no folder {}", folder.display()));
}

/// Real MARC files with their names, in order.
fn real_files() -> Vec<(String, Vec<u8>)> {
    let folder = std::env::var_os("STOOK_TEST_DATA").map_or_else(|| repository().join("../shared/data/marc"), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(&folder) else {
        real_is_missing(&folder);
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "mrc")).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    paths.iter().map(|path| (name(path), std::fs::read(path).unwrap_or_else(|error| panic!("{error}")))).collect()
}

#[test]
fn generated_records_have_the_fields_that_pymarc_finds() {
    let Some(python) = support::python("pymarc") else { return };
    let records = generated(101);
    let theirs = reference(&python, "marc_dump.py", &[&file("generated.mrc", &records.concat())]);
    let ours: Vec<_> = records.iter().map(|record| dump(&parse(record))).collect();
    assert_same(&ours, &theirs);
}

#[test]
fn real_records_have_the_fields_that_pymarc_finds() {
    let Some(python) = support::python("pymarc") else { return };
    let mut disagreements = Vec::new();
    for (name, content) in real_files() {
        let theirs = reference(&python, "marc_dump.py", &[&file(&name, &content)]);
        let ours = read_whole(&content, Syntax::Marc, None);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for ((found, bytes), theirs) in ours.iter().zip(&theirs) {
            let parsed = found.problem.clone().map_or_else(|| MarcRecord::parse(bytes).map_err(|error| error.to_string()), Err);
            match (parsed, theirs.get("error")) {
                (Ok(record), None) => assert_eq!(&dump(&record), theirs, "{name} {}", found.number),
                (Err(_), Some(_)) => {}
                (Ok(_), Some(error)) => disagreements.push(format!("{name} {}: accepted here, pymarc says {error}", found.number)),
                (Err(error), None) => disagreements.push(format!("{name} {}: accepted by pymarc, here: {error}", found.number)),
            }
        }
        println!("{name}: {} records", ours.len());
    }
    assert_eq!(disagreements, Vec::<String>::new());
}

#[test]
fn marc8_strings_are_decoded_as_pymarc_does() {
    let Some(python) = support::python("pymarc") else { return };
    let out = file("marc8.jsonl", b"");
    for arguments in [&[][..], &["--direct"]] {
        let (count, seed) = (MARC8_STRINGS.to_string(), "103");
        reference(&python, "marc8_vectors.py", &[&[count.as_str(), seed, &out], arguments].concat());
        let vectors = json_lines(&std::fs::read(&out).expect("written"));
        assert_eq!(vectors.len(), MARC8_STRINGS);
        for vector in vectors {
            let hex = vector["marc8"].as_str().expect("hexadecimal");
            let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
            assert_eq!(marc8::decode(&bytes), (vector["unicode"].as_str().expect("text").to_owned(), 0), "{hex}");
        }
    }
}

/// Records of all kinds that this crate reads and that claim to be UTF-8: generated ones, then real ones.
fn valid_records() -> Vec<Vec<u8>> {
    let mut records = generated(104);
    for (_, content) in real_files() {
        let documents = read_whole(&content, Syntax::Marc, None).into_iter();
        records.extend(documents.map(|(_, bytes)| bytes).filter(|bytes| MarcRecord::parse(bytes).is_ok()));
    }
    records
}

#[test]
fn records_survive_marcxml_and_json_byte_for_byte() {
    let records = valid_records();
    for through in [Syntax::MarcXml, Syntax::MarcJson] {
        let converted = convert(records.iter().map(Vec::as_slice), Syntax::Marc, through);
        let documents = documents(&converted, through);
        assert_eq!(documents.len(), records.len());
        for (record, document) in records.iter().zip(&documents) {
            let back = convert([document.as_slice()], through, Syntax::Marc);
            assert_eq!(String::from_utf8_lossy(&back), String::from_utf8_lossy(record), "{}", through.name());
        }
    }
}

#[test]
fn written_marcxml_and_json_have_the_same_fields_for_pymarc() {
    let Some(python) = support::python("pymarc") else { return };
    let records = valid_records();
    let ours: Vec<_> = records.iter().map(|record| dump(&parse(record))).collect();
    for (syntax, script) in [(Syntax::MarcXml, "xml_marc.py"), (Syntax::MarcJson, "json_marc.py")] {
        let written = convert(records.iter().map(Vec::as_slice), Syntax::Marc, syntax);
        let theirs = reference(&python, script, &[&file(syntax.name(), &written)]);
        assert_same(&ours, &theirs);
        let read_again: Vec<_> = documents(&written, syntax)
            .iter()
            .map(|bytes| match Document::parse(bytes, syntax, &stook_formats::ParseContext::default()) {
                Ok(Document::Marc(record)) => dump(&record),
                _ => panic!("not a record"),
            })
            .collect();
        assert_same(&ours, &read_again);
    }
}
