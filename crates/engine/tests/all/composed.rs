//! MARC records composed of the documents of several contributors: the same for every order of arrival, on both stores, and what is exported is
//! imported again as it was.

use crate::support;

use proptest::prelude::*;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_engine::export::{ExportContents, ExportFormat, ExportRequest, export};
use stook_formats::marc::{MarcRecord, RECORD_END, Repairs, line, scan};
use stook_store::Tenant;
use support::Desk;

const SOURCES: [&str; 3] = ["loc", "local", "vendor"];

/// A catalogue with three sources of records, and how their records are composed.
fn definition(compose: &str) -> Arc<Catalogue> {
    let source = |name: &str| {
        format!(
            "  {name}:\n    format: marc\n    let: {{ changed: {{ path: \"005\", type: timestamp, format: \"%Y%m%d%H%M%S.%f\" }} }}\n    as_of: \
             changed\n    into: book\n"
        )
    };
    let sources: String = SOURCES.iter().map(|name| source(name)).collect();
    let text = format!(
        "catalogue: library\nsources:\n{sources}collections:\n  book:\n    key: lccn\n    raw: keep\n{compose}    fields:\n      lccn: {{ path: \
         \"010$a\", type: text, clean: lccn }}\n      title: {{ path: \"245$a\", type: text }}\n      notes: {{ path: 590$a, type: [text] }}\n"
    );
    Arc::new(parse(&text).expect("a definition"))
}

const COMPOSE: &str = "    compose:\n      survivorship: { prefer: [loc], then: latest }\n      protect: { local: ['001', 590, 9..], vendor: [590, 856] }\n      union: [650, 856]\n      other_numbers: '035'\n      defaults: { '040': '\\\\$aDE-1', '003': DE-1 }\n";

/// Imports files, one after the other.
fn import(desk: &Desk, tenant: &Tenant, files: &[(usize, String)]) {
    for (number, (source, text)) in files.iter().enumerate() {
        let path = desk.folder.join(format!("{}-{number}.mrk", tenant.as_str()));
        support::job(&desk.catalogue, &*desk.stores[0], tenant, SOURCES[*source], (&path, text), 2);
        desk.drain(1);
    }
}

fn exported(desk: &Desk, tenant: &Tenant, format: ExportFormat) -> Vec<u8> {
    let mut out = Vec::new();
    let request = ExportRequest { tenant, collection: "book", contents: ExportContents::Records, format };
    export(&desk.catalogue, &*desk.stores[0], &request, &mut out, &mut |remark| panic!("{remark}")).expect("an export");
    out
}

/// Records in line mode, without their leaders.
fn lines(iso: &[u8]) -> Vec<String> {
    let records: Vec<MarcRecord<'_>> = scan::records(iso).map(|record| record.expect("a record")).collect();
    let text: String = records.iter().map(|record| line::write_nearest(record, &mut Repairs::default())).collect();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with("=LDR")).map(str::to_owned).collect()
}

fn on_a_file(name: &str, compose: &str) -> Desk {
    let catalogue = definition(compose);
    let folder = support::folder(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    Desk { stores: support::on_a_file(&folder, &catalogue, 1), catalogue, folder }
}

fn record(number: &str, changed: &str, fields: &str) -> String {
    format!("=LDR  00000nam a2200000 i 4500\n=001  {number}\n=005  {changed}\n=010  \\\\$an 79089035\n{fields}\n\n")
}

#[test]
fn local_notes_stand_beside_the_newest_record_of_the_library_of_congress() {
    let desk = on_a_file("composed-local", COMPOSE);
    let tenant = desk.new_tenant();
    let loc = |changed: &str, title: &str| record("n1", changed, &format!("=003  DLC\n=245  10$a{title}\n=590  \\\\$aof LC\n=650  \\0$aSea"));
    let local = record("77", "20230101000000.0", "=245  10$aLocal title\n=590  \\\\$alocal\n=650  \\7$aMeer\n=945  \\\\$i123");
    import(&desk, &tenant, &[(0, loc("20240101000000.0", "Old")), (1, local.clone()), (0, loc("20240601120000.0", "New"))]);
    let expected = [
        "=001  77",
        "=003  DE-1",
        "=005  20240601120000.0",
        "=010  \\\\$an 79089035",
        "=035  \\\\$a(DLC)n1",
        "=040  \\\\$aDE-1",
        "=245  10$aNew",
        "=590  \\\\$alocal",
        "=650  \\0$aSea",
        "=650  \\7$aMeer",
        "=945  \\\\$i123",
    ];
    let iso = exported(&desk, &tenant, ExportFormat::Marc);
    assert_eq!(lines(&iso), expected);
    let xml = String::from_utf8(exported(&desk, &tenant, ExportFormat::MarcXml)).expect("text");
    assert!(xml.contains("<subfield code=\"a\">(DLC)n1</subfield>"), "{xml}");
    // the newest time of what is composed: the local record is newer now, though the rest is of the Library of Congress
    import(&desk, &tenant, &[(1, local.replace("20230101", "20250101"))]);
    assert_eq!(lines(&exported(&desk, &tenant, ExportFormat::Marc))[2], "=005  20250101000000.0");
}

#[test]
fn without_compose_the_newest_document_is_exported_as_it_was_kept() {
    let desk = on_a_file("composed-kept", "");
    let tenant = desk.new_tenant();
    let newer = record("77", "20250101000000.0", "=245  10$aLocal title");
    import(&desk, &tenant, &[(0, record("n1", "20240101000000.0", "=245  10$aOf LC")), (1, newer)]);
    assert_eq!(lines(&exported(&desk, &tenant, ExportFormat::Marc))[..2], ["=001  77", "=005  20250101000000.0"]);
}

/// A document: its source, its record, its number, its day and its fields.
type Given = (usize, u8, u8, u8, Vec<(u8, u8)>);

fn document() -> impl Strategy<Value = Given> {
    (0..3_usize, 0..3_u8, 0..4_u8, 1..28_u8, prop::collection::vec((0..7_u8, 0..4_u8), 0..8))
}

fn text((source, lccn, number, day, fields): &Given) -> String {
    const TAGS: [&str; 7] = ["500", "590", "650", "856", "910", "945", "520"];
    let mut fields: Vec<String> = fields.iter().map(|(tag, value)| format!("={}  \\\\$a{value}", TAGS[usize::from(*tag)])).collect();
    fields.insert(0, format!("=010  \\\\$a7900000{lccn}\n=245  10$aof {source}"));
    format!("=LDR  00000nam a2200000 i 4500\n=001  {number}\n=005  202401{day:02}000000.0\n{}\n\n", fields.join("\n"))
}

/// Composes records in every order of arrival, and imports what was exported.
fn composes_the_same(desk: &Desk, documents: &[Given], order: &[usize]) -> Result<(), TestCaseError> {
    let files: Vec<(usize, String)> = documents.iter().map(|document| (document.0, text(document))).collect();
    let (one, other, again) = (desk.new_tenant(), desk.new_tenant(), desk.new_tenant());
    import(desk, &one, &files);
    let reordered: Vec<(usize, String)> = order.iter().map(|position| files[*position].clone()).collect();
    import(desk, &other, &reordered);
    let iso = exported(desk, &one, ExportFormat::Marc);
    prop_assert_eq!(lines(&iso), lines(&exported(desk, &other, ExportFormat::Marc)));
    // each record once, and 005 is the newest time of its documents that it has something of
    let keys: std::collections::BTreeSet<u8> = documents.iter().map(|document| document.1).collect();
    prop_assert_eq!(iso.iter().filter(|byte| **byte == RECORD_END).count(), keys.len());
    // what is exported is imported again as it is
    let path = desk.folder.join(format!("{}.mrc", again.as_str()));
    std::fs::write(&path, &iso).expect("a file");
    support::job(&desk.catalogue, &*desk.stores[0], &again, "loc", (&path, std::str::from_utf8(&iso).expect("text")), 2);
    desk.drain(1);
    prop_assert_eq!(exported(desk, &again, ExportFormat::Marc), iso);
    Ok(())
}

fn law(desk: &Desk, cases: u32) {
    let strategy = prop::collection::vec(document(), 1..8).prop_flat_map(|documents| {
        let order: Vec<usize> = (0..documents.len()).collect();
        (Just(documents), Just(order).prop_shuffle())
    });
    for (documents, order) in support::drawn(strategy, cases) {
        composes_the_same(desk, &documents, &order).unwrap_or_else(|error| panic!("{error}\n{documents:?}\n{order:?}"));
    }
}

#[test]
fn every_order_of_arrival_composes_the_same_on_a_file() {
    law(&on_a_file("composed-law", COMPOSE), 24);
}

#[test]
fn every_order_of_arrival_composes_the_same_on_a_server() {
    let catalogue = definition(COMPOSE);
    let Some(stores) = support::on_a_server("composed_law", &catalogue) else { return };
    let folder = support::folder("composed-law-server");
    std::fs::create_dir_all(&folder).expect("a folder");
    law(&Desk { catalogue, stores, folder }, 8);
}

/// Records of two suppliers, which are matched to those of the library, and merged by what they share.
const LINKED: &str = "
catalogue: library
sources:
  loc:
    format: marc
    let: &times { changed: { path: '005', type: timestamp, format: '%Y%m%d%H%M%S.%f' } }
    as_of: changed
    feeds: [ { into: book, map: { lccn: { path: '010$a', clean: lccn }, isbn: { path: '020$a', clean: isbn } } } ]
  vendor:
    format: marc
    let: *times
    as_of: changed
    feeds: [ { into: delivered, map: { number: '001', lccn: { path: '010$a', clean: lccn }, isbn: { path: '020$a', clean: isbn } } } ]
collections:
  book:
    key: lccn
    raw: keep
    compose: { with: delivered.book, survivorship: { prefer: [loc] }, protect: { vendor: [856] }, union: 650, other_numbers: '035' }
    fields: { lccn: text, isbn: [text] }
  delivered:
    key: number
    raw: keep
    fields: { number: text, lccn: text, isbn: [text] }
    links:
      book: { to: book, match: [lccn, isbn], index: equal }
      work: { to: work, match: [lccn, isbn], several: merge, create: true, index: equal }
  work:
    key: id
    compose: { with: delivered.work, union: 650 }
    fields: { id: text }
";

#[test]
fn documents_of_records_that_link_to_a_record_are_composed() {
    let catalogue = Arc::new(parse(LINKED).expect("a definition"));
    let folder = support::folder("composed-linked");
    std::fs::create_dir_all(&folder).expect("a folder");
    let desk = Desk { stores: support::on_a_file(&folder, &catalogue, 1), catalogue, folder };
    let of =
        |number: &str, day: u8, fields: &str| format!("=LDR  00000nam a2200000 i 4500\n=001  {number}\n=005  202401{day:02}000000.0\n{fields}\n\n");
    let files = [
        ("loc", of("n1", 3, "=003  DLC\n=010  \\\\$an 79089035\n=020  \\\\$a0306406152\n=245  10$aSea\n=650  \\0$aSea")),
        ("vendor", of("v1", 9, "=020  \\\\$a9780306406157\n=245  10$aother\n=650  \\4$aMer\n=856  40$uhttp://v.example/1")),
        ("vendor", of("v2", 5, "=010  \\\\$an 79089035\n=020  \\\\$a9780306406157\n=245  10$aother\n=650  \\4$aMeer")),
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let tenant = desk.new_tenant();
        for position in order {
            let (source, text) = &files[position];
            let path = desk.folder.join(format!("{}-{position}.mrk", tenant.as_str()));
            support::job(&desk.catalogue, &*desk.stores[0], &tenant, source, (&path, text), 10);
            desk.drain(1);
        }
        let expected = [
            "=001  n1",
            "=005  20240109000000.0",
            "=003  DLC",
            "=010  \\\\$an 79089035",
            "=020  \\\\$a0306406152",
            "=035  \\\\$av1",
            "=035  \\\\$av2",
            "=245  10$aSea",
            "=650  \\0$aSea",
            "=650  \\4$aMer",
            "=650  \\4$aMeer",
            "=856  40$uhttp://v.example/1",
        ];
        assert_eq!(lines(&exported(&desk, &tenant, ExportFormat::Marc)), expected, "{order:?}");
        // both of the supplier are one work, of which one document is the base and the other adds what it has
        let mut out = Vec::new();
        let request = ExportRequest { tenant: &tenant, collection: "work", contents: ExportContents::Records, format: ExportFormat::Marc };
        export(&desk.catalogue, &*desk.stores[0], &request, &mut out, &mut |remark| panic!("{remark}")).expect("an export");
        let work = lines(&out);
        assert_eq!((work[0].as_str(), work.len()), ("=001  v1", 7), "{order:?}: {work:?}");
    }
}

#[test]
fn mistakes_are_shown_at_their_place() {
    let refused = |compose: &str| {
        let text = format!(
            "catalogue: library\nsources:\n  loc: {{ format: marc, into: book, as_of: meta.received }}\n  rows: {{ format: csv, as_of: meta.received, feeds: [ {{ into: book, map: {{ lccn: lccn }} }} ] }}\ncollections:\n  book:\n    key: lccn\n    raw: keep\n    compose: {compose}\n    fields:\n      lccn: {{ path: \"010$a\", type: text }}\n"
        );
        let problems = parse(&text).expect_err("a mistake");
        problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")
    };
    for (compose, expected) in [
        ("{ protect: [590] }", "protected fields are fields of a source"),
        ("{ protect: { lok: [590] } }", "there is no source of MARC records of this collection `lok`"),
        ("{ protect: { rows: [590] } }", "there is no source of MARC records of this collection `rows`"),
        ("{ protect: { loc: [590$a] } }", "a field is kept as a whole"),
        ("{ protect: { loc: [5XX] } }", "MARCspec's wildcard is a dot"),
        ("{ union: '005' }", "the newest time of what is composed"),
        ("{ survivorship: union }", "a record begins as the document of one contributor"),
        ("{ other_numbers: '003' }", "control numbers are subfields $a of a data field"),
        ("{ defaults: { '040': DE-1 } }", "a data field is written as two indicators and subfields"),
        ("{ defaults: { '40': 'x' } }", "`40` is not the tag of a field"),
        ("{ keep: [590] }", "compose has no key `keep`"),
        ("{ with: copy.book }", "there is no link to this collection `copy.book`"),
    ] {
        let found = refused(compose);
        assert!(found.contains(expected), "{compose}: {found}");
    }
    let without = "catalogue: c\nsources:\n  rows: { format: csv, into: book, as_of: meta.received }\ncollections:\n  book: { key: id, raw: keep, compose: {}, fields: { id: text } }\n";
    let problems = parse(without).expect_err("a mistake");
    assert!(problems[0].message.contains("composed from kept MARC documents"), "{problems:?}");
}
