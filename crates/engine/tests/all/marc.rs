//! Damaged MARC records in imports: a source that repairs stores them and reports each repair in the journal, a strict one fails them;
//! kept documents stay unchanged, and exports write what any reader reads, and report what they had to change for that.

use crate::support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_engine::export::{ExportContents, ExportFormat, ExportReport, ExportRequest, export};
use stook_engine::import::{self, ImportRequest};
use stook_engine::record::find_collection;
use stook_engine::work::JobRun;
use stook_formats::marc::MarcBuilder;
use stook_store::journal::Outcome;
use stook_store::{ReadDetail, Store, Tenant};

fn definition(words: &str) -> Arc<Catalogue> {
    let text = format!(
        "catalogue: library\nsources:\n  books:\n    format: marc\n{words}    into: book\n    as_of: meta.received\ncollections:\n  book:\n    key: \
         number\n    raw: keep\n    fields:\n      number: {{ expr: \"string(meta.ordinal)\", type: text }}\n      title: {{ path: \"245$a\", type: text \
         }}\nprofiles:\n  books: {{ source: books, matched: update, unmatched: create }}\n"
    );
    Arc::new(parse(&text).expect("a definition"))
}

fn record(title: &str) -> Vec<u8> {
    let mut builder = MarcBuilder::new("00000nam a2200000 i 4500").expect("a leader");
    builder.control("001", "n1").expect("a field");
    builder.data("245", "1", "0").expect("a field");
    builder.subfield("a", title).expect("a subfield");
    builder.finish().to_iso2709().expect("it is short")
}

/// A record with one kind of damage.
fn damaged(kind: &str) -> Vec<u8> {
    let mut bytes = record("Bücher");
    match kind {
        "length" => bytes[..5].copy_from_slice(b"00099"),
        "base" => bytes[12..17].copy_from_slice(b"00001"),
        "entry" => bytes[24 + 12 + 3..24 + 12 + 7].copy_from_slice(b"9999"),
        "character" => {
            let at = bytes.iter().position(|byte| *byte == 0xc3).expect("a character");
            bytes[at + 1] = b'x';
        }
        "leader" => bytes[22] = 0x92,
        _ => {}
    }
    bytes
}

const KINDS: [&str; 6] = ["none", "length", "base", "entry", "character", "leader"];

/// Whether a document failed, and its issues.
type Said = (bool, Vec<String>);

/// Imports a file; returns for each document whether it failed and its issues, and then the titles of the records.
fn imported(folder: &Path, words: &str, file: &[u8]) -> (Vec<Said>, String, Box<dyn Store>, Arc<Catalogue>) {
    std::fs::create_dir_all(folder).expect("a folder");
    let catalogue = definition(words);
    let store = support::on_a_file(folder, &catalogue, 1).remove(0);
    let path = folder.join("books.mrc");
    std::fs::write(&path, file).expect("a file");
    let tenant = Tenant::new("main").expect("a tenant");
    let request = ImportRequest {
        files: vec![path],
        profile: Some("books".into()),
        source: None,
        tenant: tenant.clone(),
        as_of: None,
        part: None,
        arguments: Default::default(),
        retires_all: false,
        unexpected: false,
    };
    let job = import::create(&catalogue, &*store, &request).expect("a job");
    import::run(&catalogue, &*store, &JobRun { job, workers: 1, settles: true, stop: &AtomicBool::new(false) }, &|_| ()).expect("it runs");
    let journal = store.journal(job, 0, 1000, false).expect("a journal");
    let outcomes = journal.into_iter().map(|entry| (entry.outcome == Outcome::Failed, entry.reasons)).collect();
    let mut out = Vec::new();
    exported(&catalogue, &*store, ExportFormat::Ndjson, &mut out, &mut |_| ());
    (outcomes, String::from_utf8(out).expect("UTF-8"), store, catalogue)
}

/// Exports the books.
fn exported(catalogue: &Catalogue, store: &dyn Store, format: ExportFormat, out: &mut Vec<u8>, complain: &mut dyn FnMut(&str)) -> ExportReport {
    let request = ExportRequest { tenant: &Tenant::new("main").expect("a tenant"), collection: "book", contents: ExportContents::Records, format };
    export(catalogue, store, &request, out, &mut |remark| complain(&remark.to_string())).expect("it is exported")
}

#[test]
fn damaged_documents_are_repaired_unless_the_source_is_strict() {
    let folder = support::folder("marc");
    let file: Vec<u8> = KINDS.iter().flat_map(|kind| damaged(kind)).collect();
    let (repaired, records, store, catalogue) = imported(&folder.join("repair"), "", &file);
    let (strict, ..) = imported(&folder.join("strict"), "    tolerance: strict\n", &file);
    assert_eq!((repaired.len(), strict.len()), (KINDS.len(), KINDS.len()));
    for ((kind, repaired), strict) in KINDS.iter().zip(&repaired).zip(&strict) {
        let is_sound = *kind == "none";
        assert_eq!(strict.0, !is_sound, "{kind}: {strict:?}");
        assert!(!repaired.0 && repaired.1.is_empty() == is_sound, "{kind}: {repaired:?}");
        assert_eq!(repaired.1.iter().any(|warning| warning.contains("`encoding: latin-1`")), *kind == "character", "{repaired:?}");
    }
    assert_eq!(records.matches("\"title\":\"B").count(), KINDS.len(), "{records}");
    assert_eq!(records.matches("\"title\":\"Bücher\"").count(), KINDS.len() - 1, "{records}");
    // the sound document is exported as it came, the others so that any reader reads them
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let exported = exported(&catalogue, &*store, ExportFormat::Marc, &mut out, &mut |text| messages.push(text.to_owned()));
    assert_eq!((exported.records, exported.changed, exported.left_out), (KINDS.len() as u64, KINDS.len() as u64 - 1, 0), "{messages:?}");
    assert!(out.starts_with(&damaged("none")) && messages.iter().all(|text| text.starts_with("changed: ")), "{messages:?}");
    let (again, records_again, ..) = imported(&folder.join("again"), "    tolerance: strict\n", &out);
    assert!(again.iter().all(|(failed, _)| !failed) && again.len() == KINDS.len(), "{again:?}");
    assert_eq!(records_again, records);
    // the documents themselves are kept as they came
    let tenant = Tenant::new("main").expect("a tenant");
    let (index, definition) = find_collection(&catalogue, "book").expect("a collection");
    let keys = store.keys_after(&tenant, index, "", 100).expect("keys");
    let read = store.read(&tenant, index, &keys, ReadDetail::Full).expect("records");
    let contributions = read.iter().flatten().flat_map(|record| record.contributions_of(definition).expect("contributions"));
    let kept: Vec<u8> = contributions.flat_map(|contribution| contribution.raw.expect("a document").bytes.to_vec()).collect();
    assert_eq!(kept, file);
}

/// A field that is too long for the format, under a length that is wrong for that reason.
#[test]
fn a_record_too_long_for_its_format_is_exported_as_it_came() {
    let mut long = record(&"x".repeat(9_000));
    let at = long.windows(3).position(|bytes| bytes == b"xxx").expect("the title");
    long.splice(at..at, std::iter::repeat_n(b'x', 2_000));
    let (outcomes, records, store, catalogue) = imported(&support::folder("marc").join("long"), "", &[record("one"), long.clone()].concat());
    assert!(outcomes.iter().all(|(failed, _)| !failed) && records.contains(&"x".repeat(11_000)), "{outcomes:?}");
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let exported = exported(&catalogue, &*store, ExportFormat::Marc, &mut out, &mut |text| messages.push(text.to_owned()));
    assert_eq!((exported.records, exported.changed, exported.left_out), (2, 1, 0), "{messages:?}");
    assert!(messages.iter().any(|text| text.starts_with("changed: 2: written as it came, damaged: field 245 is too long")), "{messages:?}");
    assert_eq!(out, [record("one"), long].concat());
}

#[test]
fn a_source_overrides_the_encoding_of_a_wrong_leader() {
    let folder = support::folder("marc");
    let mut file = record("B\u{fc}cher");
    // the same in Latin-1, while the leader says MARC-8
    let at = file.iter().position(|byte| *byte == 0xc3).expect("a character");
    file.splice(at..at + 2, [b'?']);
    file[at] = 0xfc;
    let (length, field) = (file.len(), 2 + 2 + 6 + 1);
    file[..5].copy_from_slice(format!("{length:05}").as_bytes());
    file[24 + 12 + 3..24 + 12 + 7].copy_from_slice(format!("{field:04}").as_bytes());
    file[9] = b' ';
    for (words, title) in
        [("    encoding: latin-1\n", "Bücher"), ("    encoding: cp1252\n", "Bücher"), ("    tolerance: strict\n    encoding: latin-1\n", "Bücher")]
    {
        let (outcomes, records, store, catalogue) = imported(&folder.join(format!("encoding{}", words.len())), words, &file);
        assert!(outcomes.iter().all(|(failed, _)| !failed), "{words}: {outcomes:?}");
        assert!(records.contains(title), "{words}: {records}");
        // an export reads kept documents as their source does
        for format in [ExportFormat::MarcXml, ExportFormat::Marc] {
            let mut out = Vec::new();
            exported(&catalogue, &*store, format, &mut out, &mut |_| ());
            assert!(String::from_utf8_lossy(&out).contains(title), "{words}");
        }
    }
}

#[test]
fn an_export_names_the_records_that_it_changes() {
    let folder = support::folder("marc");
    // a control character, which XML cannot contain
    let file = [record("one"), record("tw\u{8}o")].concat();
    let (_, _, store, catalogue) = imported(&folder.join("export"), "    tolerance: strict\n", &file);
    let (mut out, mut messages) = (Vec::new(), Vec::new());
    let mut report = |text: &str| messages.push(text.to_owned());
    let exported = exported(&catalogue, &*store, ExportFormat::MarcXml, &mut out, &mut report);
    assert_eq!((exported.records, exported.changed, exported.left_out), (2, 1, 0), "{messages:?}");
    assert!(messages.len() == 1 && messages[0].starts_with("changed: 2: field 245: "), "{messages:?}");
}
