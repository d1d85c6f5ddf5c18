//! Random and randomly damaged files of every format, from bytes to paths and back to bytes. [`check`] contains what must hold for all of them. The
//! seeds are fixed: a failure repeats.

use crate::support;

use stook_catalogue::definition::FormatFamily;
use stook_catalogue::path::{Path, PathLanguage};
use stook_formats::marc::MarcRecord;
use stook_formats::read::DocumentReader;
use stook_formats::write::MarcWriter;
use stook_formats::{Document, ParseContext, SelectedValue, Syntax, detect, marc8, select, xml};
use support::{Random, collect, iso2709, random_record, read_in_chunks, read_in_chunks_cut_in_front, read_whole, samples, scan_stepwise};

const ROUNDS: usize = 5_000;

const MARC_PATHS: &[&str] = &[
    "LDR",
    "LDR/06",
    "001",
    "...",
    "1..$a",
    "100$a-d[0]",
    "1..$a$d",
    "245^1",
    "100^2",
    "008/0-#",
    "...$a/#-2",
    "...[#]$a",
    r"100$a{$d=\1841-1904}",
    r"1..{^1=\1}$a",
    r"...{001~\n|!008}$a",
    r"100$d{100$a!~\x}",
];
const JSON_PATHS: &[&str] = &["$", "$.a", "$.b.c", "$..*", "$[*]", "$.a[0:2]", "$[?@.a == 1]", "$..a", "$[-1]"];
const XML_PATHS: &[&str] =
    &[".", "//*", "//a/..", ".//@*", "a[1]/text()", "//*[not(@b='1')]", "//n//text()", "*[@n]", "@xml:lang", "//*[.='x'][2]", "/list/a", "p:c"];
const CSV_PATHS: &[&str] = &["id", "name", ""];

fn paths(family: FormatFamily) -> Vec<Path> {
    let namespaces = [("p".to_owned(), "urn:p".to_owned())];
    let (language, texts) = match family {
        FormatFamily::Marc => (PathLanguage::Marc, MARC_PATHS),
        FormatFamily::Json => (PathLanguage::Json, JSON_PATHS),
        FormatFamily::Xml => (PathLanguage::Xml, XML_PATHS),
        FormatFamily::Csv => (PathLanguage::Csv, CSV_PATHS),
    };
    texts.iter().map(|text| Path::compile(text, language, &namespaces).unwrap_or_else(|error| panic!("{text}: {}", error.message))).collect()
}

/// Checks what holds for every file, however damaged.
fn check(file: &[u8], syntax: Syntax, records: Option<&str>, paths: &[Path]) -> usize {
    let show = || format!("{} {:?}", syntax.name(), String::from_utf8_lossy(file));
    let whole = read_whole(file, syntax, records);
    let mut before = 0;
    for (index, (found, bytes)) in whole.iter().enumerate() {
        assert_eq!(found.number, index as u64 + 1, "{}", show());
        let end = found.offset + bytes.len() as u64;
        assert!(found.offset >= before && end <= file.len() as u64, "{}", show());
        assert_eq!(&file[found.offset as usize..end as usize], bytes, "{}", show());
        assert!(found.problem.is_some() || !bytes.is_empty(), "{}", show());
        before = end;
    }
    let positions: Vec<_> = whole.iter().map(|(found, bytes)| (found.number, found.offset, bytes.len(), found.problem.clone())).collect();
    let stepwise = scan_stepwise(file, syntax, records, 7, file.len() as u64);
    let stepwise: Vec<_> = stepwise.into_iter().map(|(number, offset, bytes, problem)| (number, offset, bytes.len(), problem)).collect();
    assert_eq!(stepwise, positions, "step by step: {}", show());
    let trickled = collect(DocumentReader::new(support::Trickle::new(file, 3), syntax, records));
    assert!(trickled == whole, "in small reads: {}", show());
    let positions =
        |documents: &[support::Document]| -> Vec<_> { documents.iter().map(|(found, bytes)| (found.number, found.offset, bytes.len())).collect() };
    let json = matches!(syntax, Syntax::Json | Syntax::MarcJson);
    // the only problem of a file without the member cannot be found again after it
    if records.is_none() || !json {
        let chunks = read_in_chunks_cut_in_front(file, syntax, records, |number| number % 3 != 0);
        assert_eq!(positions(&chunks), positions(&whole), "in chunks: {}", show());
    }
    // a first chunk of one broken line does not show whether there is one value per line; and if the tag of the record inside is damaged, it is not
    // visible whether a MARCXML record is a wrapper
    if !json && syntax != Syntax::MarcXml {
        let chunks = read_in_chunks(file, syntax, records, |number| number % 3 != 1);
        assert_eq!(positions(&chunks), positions(&whole), "in chunks cut behind documents: {}", show());
    }
    whole.iter().filter(|(found, bytes)| found.problem.is_none() && check_document(&found.head.complete(bytes), syntax, &found.head, paths)).count()
}

/// Checks what holds for the bytes of every document. Returns whether they are one.
fn check_document(bytes: &[u8], syntax: Syntax, head: &ParseContext, paths: &[Path]) -> bool {
    let Ok(document) = Document::parse(bytes, syntax, head) else { return false };
    let mut found: Vec<SelectedValue<'_>> = Vec::new();
    for path in paths {
        select(&document, path, &mut found);
    }
    if let Document::Marc(record) = &document {
        check_writers(bytes, syntax, record);
    }
    true
}

/// A record that can be written is read back with the same fields; what cannot be written is an error.
fn check_writers(bytes: &[u8], syntax: Syntax, record: &MarcRecord<'_>) {
    if let Ok(written) = record.to_iso2709() {
        let read = MarcRecord::parse(&written).unwrap_or_else(|error| panic!("{error}: {record:?}"));
        assert!(read.fields().eq(record.fields()), "{record:?}");
    }
    for to in [Syntax::Marc, Syntax::MarcXml, Syntax::MarcJson] {
        let mut out = Vec::new();
        let mut writer = MarcWriter::new(&mut out, to);
        let written = writer.write(bytes, syntax);
        let count = writer.finish().unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(count, u64::from(written.is_ok()));
        // a damaged ISO 2709 record is copied unchanged, with everything that a scanner finds in it
        let is_copied = to == syntax && MarcRecord::parse(bytes).is_err();
        if written.is_err() || to == Syntax::Marc && is_copied {
            continue;
        }
        let documents = read_whole(&out, to, None);
        assert_eq!(documents.len(), 1, "{record:?}");
        let (found, bytes) = &documents[0];
        assert_eq!(found.problem, None);
        let complete = found.head.complete(bytes);
        match to {
            Syntax::MarcXml => drop(xml::parse(&complete).unwrap_or_else(|error| panic!("{error}: {record:?}"))),
            Syntax::MarcJson => drop(serde_json::from_slice::<serde_json::Value>(&complete).unwrap_or_else(|error| panic!("{error}: {record:?}"))),
            _ => {}
        }
    }
}

/// Bytes with a meaning in some format.
const TOKENS: &[&[u8]] = &[
    b"<",
    b">",
    b"/>",
    b"</",
    b"\"",
    b"'",
    b"<!--",
    b"-->",
    b"<![CDATA[",
    b"]]>",
    b"<?",
    b"<!DOCTYPE x [",
    b"&lt;",
    b"&x;",
    b" xmlns='u'",
    b" xmlns:p=\"u\"",
    b"<record>",
    b"</record>",
    b"<leader>",
    b"<a>",
    b"<item>",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\\"",
    b"null",
    b"1e9",
    b"\n",
    b"\r\n",
    b"\r",
    b"\x1d",
    b"\x1e",
    b"\x1f",
    b"\x1f\x1f",
    b"\x1b",
    b"\x1b$1",
    b"\x1b(N",
    b"\xe2",
    b"00000",
    b"99999",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b";",
    b"\t",
    b"\x1a",
];

fn damage(file: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(file.len() + 1);
        let end = (at + 1 + random.below(20)).min(file.len());
        match random.below(7) {
            0 if at < file.len() => file[at] ^= 1 << random.below(8),
            1 => drop(file.drain(at..end.max(at))),
            2 => drop(file.splice(at..at, random.pick(TOKENS).iter().copied())),
            3 => {
                let copy = file[at..end.max(at)].to_vec();
                let to = random.below(file.len() + 1);
                file.splice(to..to, copy);
            }
            4 if random.one_in(4) => file.truncate(at),
            5 if at < file.len() => file[at] = b'0' + random.below(10) as u8,
            _ if at < file.len() => file[at] = random.below(256) as u8,
            _ => {}
        }
    }
}

/// Damages the samples of a family and some more files over and over.
fn fuzz(family: FormatFamily, more: Vec<(Syntax, Vec<u8>)>, seed: u64) {
    let mut files: Vec<(Syntax, Option<&str>, Vec<u8>)> =
        samples().into_iter().filter(|sample| sample.syntax.family() == family).map(|sample| (sample.syntax, sample.records, sample.file)).collect();
    files.extend(more.into_iter().map(|(syntax, file)| (syntax, None, file)));
    let paths = paths(family);
    let mut random = Random::new(seed);
    let mut parsed = 0;
    for round in 0..ROUNDS {
        let (syntax, records, file) = &files[round % files.len()];
        let mut damaged = file.clone();
        damage(&mut damaged, &mut random);
        detect(&damaged);
        parsed += check(&damaged, *syntax, *records, &paths);
    }
    assert!(parsed > ROUNDS, "only {parsed} documents of {ROUNDS} files parsed: the damage is too great to test anything");
}

#[test]
fn damaged_marc_is_read_as_far_as_it_is_sound() {
    let mut random = Random::new(11);
    let mut more = Vec::new();
    for _ in 0..4 {
        let records: Vec<MarcRecord<'_>> = (0..3).map(|_| random_record(&mut random)).collect();
        let marc: Vec<u8> = records.iter().flat_map(iso2709).collect();
        for syntax in [Syntax::MarcXml, Syntax::MarcJson] {
            let mut out = Vec::new();
            let mut writer = MarcWriter::new(&mut out, syntax);
            for record in &records {
                writer.write(&iso2709(record), Syntax::Marc).expect("writable");
            }
            writer.finish().expect("writable");
            more.push((syntax, out));
        }
        let mut marc8 = marc.clone();
        marc8[9] = b' ';
        more.extend([(Syntax::Marc, marc), (Syntax::Marc, marc8)]);
    }
    fuzz(FormatFamily::Marc, more, 12);
}

#[test]
fn damaged_json_is_read_as_far_as_it_is_sound() {
    fuzz(FormatFamily::Json, Vec::new(), 21);
}

#[test]
fn damaged_xml_is_read_as_far_as_it_is_sound() {
    fuzz(FormatFamily::Xml, Vec::new(), 31);
}

#[test]
fn damaged_csv_is_read_as_far_as_it_is_sound() {
    fuzz(FormatFamily::Csv, Vec::new(), 41);
}

#[test]
fn random_bytes_are_read_by_every_format() {
    let mut random = Random::new(51);
    for (syntax, _) in stook_formats::SYNTAXES {
        let paths = paths(syntax.family());
        for round in 0..ROUNDS / 2 {
            let length = random.below(200);
            let file: Vec<u8> = match round % 2 {
                0 => (0..length).map(|_| random.below(256) as u8).collect(),
                _ => (0..length / 4).flat_map(|_| random.pick(TOKENS).iter().copied()).collect(),
            };
            let records = if round % 5 == 0 && syntax.family() != FormatFamily::Marc { Some("a") } else { None };
            detect(&file);
            check(&file, syntax, records, &paths);
            check_document(&file, syntax, &ParseContext::default(), &paths);
        }
    }
}

#[test]
fn random_bytes_are_decoded_as_marc8() {
    let mut random = Random::new(61);
    for _ in 0..ROUNDS * 4 {
        let bytes: Vec<u8> = (0..random.below(12))
            .flat_map(|_| match random.below(4) {
                0 => random.pick(TOKENS).to_vec(),
                1 => vec![0x1b, *random.pick(b"()$,-bgps!"), *random.pick(b"123451EBNQS!$,")],
                2 => vec![0x80 + random.below(128) as u8],
                _ => vec![0x20 + random.below(95) as u8],
            })
            .collect();
        let (text, unknown) = marc8::decode(&bytes);
        assert!(unknown <= bytes.len(), "{bytes:x?}");
        assert_eq!(text.chars().filter(|character| *character == '\u{fffd}').count(), unknown, "{bytes:x?}");
    }
}

/// The `csv` crate accepts broken quotes; if nothing is broken, the rows must be the same.
#[test]
fn sound_csv_has_the_rows_that_another_reader_finds() {
    let mut random = Random::new(71);
    let mut sound = 0;
    for _ in 0..ROUNDS * 8 {
        let pieces: [&[u8]; 10] = [b"a", b",", b",", b"\"", b"\"", b"\n", b"\r\n", b"\"\"", b"x y", b";"];
        let body: Vec<u8> = (0..random.below(24)).flat_map(|_| random.pick(&pieces).iter().copied()).collect();
        let file = [b"a,b,c\n", body.as_slice()].concat();
        let documents = read_whole(&file, Syntax::Csv, None);
        if documents.iter().any(|(found, _)| found.problem.is_some()) {
            continue;
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(true).flexible(true).from_reader(file.as_slice());
        let expected: Vec<Option<Vec<String>>> = reader
            .records()
            .map(|record| record.unwrap_or_else(|error| panic!("{error}")).iter().map(str::to_owned).collect::<Vec<_>>())
            .map(|row| (row.len() == 3).then_some(row))
            .collect();
        let rows: Vec<Option<Vec<String>>> = documents
            .iter()
            .map(|(found, bytes)| match Document::parse(bytes, Syntax::Csv, &found.head) {
                Ok(Document::Csv(row)) => Some(["a", "b", "c"].map(|column| row.get(column).unwrap_or_default().to_owned()).to_vec()),
                _ => None,
            })
            .collect();
        assert_eq!(rows, expected, "{:?}", String::from_utf8_lossy(&file));
        sound += rows.iter().flatten().count();
    }
    assert!(sound > ROUNDS, "{sound}");
}
