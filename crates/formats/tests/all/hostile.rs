//! Files that are empty, damaged, too large or made to do harm: sound documents are read, the rest is reported with its number and offset, in bounded
//! memory.

use crate::support;

use std::io::{self, Read, Write};
use stook_catalogue::path::{Path, PathLanguage};
use stook_formats::marc::{MarcError, MarcRecord, Tolerance};
use stook_formats::read::{Compression, DocumentReader, open_bytes};
use stook_formats::scan::ScanOptions;
use stook_formats::{Document, DocumentError, ParseContext, SYNTAXES, SelectedValue, Syntax, detect, select};
use support::{collect, iso2709, read_in_chunks, read_in_chunks_cut_in_front, read_whole, samples, scan_stepwise, small_record, summary};

const BOM: &[u8] = b"\xef\xbb\xbf";

fn every_syntax() -> impl Iterator<Item = Syntax> {
    SYNTAXES.into_iter().map(|(syntax, _)| syntax)
}

fn parse_error(bytes: &[u8], syntax: Syntax) -> DocumentError {
    match Document::parse(bytes, syntax, &ParseContext::default()) {
        Ok(_) => panic!("accepted: {:?}", String::from_utf8_lossy(bytes)),
        Err(error) => error,
    }
}

#[test]
fn reading_does_not_depend_on_how_much_of_the_file_is_seen_at_once() {
    for sample in samples() {
        let whole = read_whole(&sample.file, sample.syntax, sample.records);
        assert!(whole.len() >= 3, "{}", sample.name);
        let expected: Vec<_> = whole.iter().map(|(found, bytes)| (found.number, found.offset, bytes.clone(), found.problem.clone())).collect();
        for (seed, most) in [(1, 1), (2, 7), (3, 7), (4, 50)] {
            assert_eq!(scan_stepwise(&sample.file, sample.syntax, sample.records, most, seed), expected, "{}", sample.name);
        }
        let trickled = collect(DocumentReader::new(support::Trickle::new(&sample.file, 5), sample.syntax, sample.records));
        assert_eq!(trickled, whole, "{}", sample.name);
    }
}

#[test]
fn a_file_cut_into_chunks_anywhere_gives_the_same_documents() {
    for sample in samples() {
        let (file, syntax, records) = (&sample.file, sample.syntax, sample.records);
        let whole = read_whole(file, syntax, records);
        let count = whole.len() as u64;
        assert_eq!(read_in_chunks(file, syntax, records, |_| true), whole, "{}: every document alone", sample.name);
        assert_eq!(read_in_chunks_cut_in_front(file, syntax, records, |_| true), whole, "{}: every document alone", sample.name);
        for cut in 1..=count {
            assert_eq!(read_in_chunks(file, syntax, records, |number| number == cut), whole, "{}: cut behind {cut}", sample.name);
            assert_eq!(read_in_chunks_cut_in_front(file, syntax, records, |number| number == cut), whole, "{}: {cut}", sample.name);
        }
        assert_eq!(read_in_chunks(file, syntax, records, |number| number % 2 == 0), whole, "{}: pairs", sample.name);
    }
}

#[test]
fn documents_of_a_chunk_parse_as_those_of_the_whole_file() {
    for sample in samples() {
        let outcomes = |documents: Vec<support::Document>| -> Vec<bool> {
            let parsed = documents.iter().map(|(found, bytes)| Document::parse(&found.head.complete(bytes), sample.syntax, &found.head).is_ok());
            parsed.collect()
        };
        let whole = outcomes(read_whole(&sample.file, sample.syntax, sample.records));
        assert_eq!(outcomes(read_in_chunks(&sample.file, sample.syntax, sample.records, |_| true)), whole, "{}", sample.name);
        assert!(whole.iter().filter(|parsed| **parsed).count() >= 2, "{}: {whole:?}", sample.name);
    }
}

#[test]
fn an_empty_file_has_no_documents_and_no_syntax() {
    for syntax in every_syntax() {
        for file in [&b""[..], BOM] {
            assert_eq!(detect(file), None);
            assert_eq!(read_whole(file, syntax, None), [], "{}", syntax.name());
        }
    }
    let opened = open_bytes(Box::new(io::empty())).expect("readable");
    assert_eq!((opened.compression, opened.syntax), (Compression::None, None));
}

#[test]
fn a_file_of_blank_lines_holds_nothing() {
    for syntax in every_syntax() {
        assert_eq!(read_whole(b"\n\r\n\n", syntax, None), [], "{}", syntax.name());
    }
}

#[test]
fn a_byte_order_mark_is_not_part_of_the_first_document() {
    for sample in samples() {
        let plain = sample.file.strip_prefix(BOM).unwrap_or(&sample.file);
        let without = summary(&read_whole(plain, sample.syntax, sample.records));
        let with = summary(&read_whole(&[BOM, plain].concat(), sample.syntax, sample.records));
        let moved: Vec<_> = without.into_iter().map(|(number, offset, text, problem)| (number, offset + 3, text, problem)).collect();
        assert_eq!(with, moved, "{}", sample.name);
        assert_eq!(detect(plain), detect(&[BOM, plain].concat()), "{}", sample.name);
    }
}

#[test]
fn garbage_is_a_problem_of_any_syntax_but_csv() {
    // NUL is padding between records of MARC
    let garbage = b"\x01\x00 garbage \xff\xfe without an end";
    for syntax in every_syntax().filter(|syntax| *syntax != Syntax::Csv) {
        let documents = read_whole(garbage, syntax, None);
        assert!(!documents.is_empty(), "{}", syntax.name());
        assert_eq!((documents[0].0.number, documents[0].0.offset), (1, 0), "{}", syntax.name());
        for (found, bytes) in &documents {
            assert!(found.problem.is_some() || Document::parse(bytes, syntax, &ParseContext::default()).is_err(), "{}", syntax.name());
        }
    }
}

#[test]
fn samples_are_recognised() {
    for sample in samples() {
        assert_eq!(detect(&sample.file), Some(sample.syntax), "{}", sample.name);
    }
}

fn record() -> Vec<u8> {
    iso2709(&small_record(1))
}

#[test]
fn a_truncated_last_record_is_a_problem_with_its_offset() {
    let whole = record();
    // if only the record terminator is missing, the directory shows that nothing else is
    for length in [1, 12, 24, 30, whole.len() - 2] {
        let file = [&whole, &whole[..length]].concat();
        let documents = read_whole(&file, Syntax::Marc, None);
        assert_eq!(documents.len(), 2);
        assert_eq!((documents[1].0.number, documents[1].0.offset), (2, whole.len() as u64));
        assert!(documents[1].0.problem.as_deref().is_some_and(|problem| problem.contains("no record terminator")));
    }
}

#[test]
fn a_file_that_ends_after_a_complete_document_is_not_taken_for_complete() {
    let cases: [(Syntax, Option<&str>, &str, &str); 6] = [
        (Syntax::Json, None, r#"[{"a":1},{"a":2}]"#, "closing ]"),
        (Syntax::Json, Some("value"), r#"{"n":2,"value":[{"a":1},{"a":2}]}"#, "closing ]"),
        (Syntax::Json, None, r#"[{"a":1}] [{"a":2}]"#, "closing ]"),
        (Syntax::Xml, Some("l/*"), "<l><r>1</r><r/></l>", "outermost element"),
        (Syntax::Xml, Some("r"), "<l xmlns='u'><o><r>1</r></o><o><r/></o></l>", "outermost element"),
        (Syntax::MarcXml, None, "<collection><record><leader/></record><record><leader/></record></collection>", "outermost element"),
    ];
    for (syntax, records, file, reason) in cases {
        let whole = read_whole(file.as_bytes(), syntax, records);
        assert!(whole.len() == 2 && whole.iter().all(|(found, _)| found.problem.is_none()), "{file}");
        let last = whole[1].0.offset as usize + whole[1].1.len();
        for length in last..file.len() {
            // after the closing bracket, nothing is missing
            if file[last..length].contains(']') {
                continue;
            }
            for length in [length, whole[1].0.offset as usize] {
                let cut = &file.as_bytes()[..length];
                let documents = read_whole(cut, syntax, records);
                let (last, sound) = documents.split_last().expect("some documents");
                assert_eq!(sound, &whole[..sound.len()], "{file}");
                let last_problem = (last.0.number, last.0.offset as usize, last.0.problem.as_deref().unwrap_or_default());
                let is_inside_tag = last_problem.2.contains("inside a tag") && last_problem.1 <= length;
                assert!(
                    last_problem.0 == sound.len() as u64 + 1 && (is_inside_tag || last_problem.1 == length && last_problem.2.contains(reason)),
                    "{last_problem:?} {file}"
                );
                assert_eq!(read_in_chunks(cut, syntax, records, |_| true), documents, "{file}");
                assert_eq!(read_in_chunks_cut_in_front(cut, syntax, records, |_| true), documents, "{file}");
            }
        }
    }
}

#[test]
fn a_record_without_its_terminator_spoils_the_next_one_only_where_the_source_is_strict() {
    let whole = record();
    let file = [&whole[..whole.len() - 1], &whole, &whole].concat();
    let repaired = read_whole(&file, Syntax::Marc, None);
    let offsets: Vec<_> = repaired.iter().map(|(found, _)| (found.number, found.offset as usize, found.problem.is_some())).collect();
    assert_eq!(offsets, [(1, 0, false), (2, whole.len() - 1, false), (3, 2 * whole.len() - 1, false)]);
    let strict = ScanOptions { tolerance: Tolerance::Strict, ..None.into() };
    let documents = collect(DocumentReader::new(&file[..], Syntax::Marc, strict));
    assert_eq!(documents.len(), 2);
    let merged = 2 * whole.len() - 1;
    assert_eq!(MarcRecord::parse(&documents[0].1), Err(MarcError::WrongLength { announced: whole.len(), found: merged }));
    assert_eq!((documents[1].0.number, documents[1].0.offset), (2, merged as u64));
    assert!(MarcRecord::parse(&documents[1].1).is_ok());
}

#[test]
fn wrong_lengths_and_addresses_are_named() {
    let with = |at: usize, text: &str| {
        let mut record = record();
        record[at..at + text.len()].copy_from_slice(text.as_bytes());
        MarcRecord::parse(&record).map(|_| ()).expect_err(text)
    };
    let length = record().len();
    assert_eq!(with(0, "00010"), MarcError::WrongLength { announced: 10, found: length });
    assert_eq!(with(0, "99999"), MarcError::WrongLength { announced: 99_999, found: length });
    assert_eq!(with(0, "0 010"), MarcError::NotANumber("0-4 (record length)"));
    assert_eq!(with(12, "0004x"), MarcError::NotANumber("12-16 (base address)"));
    for base in ["00000", "00024", "00048", "99999"] {
        assert_eq!(with(12, base), MarcError::BadDirectory(base.parse().expect("digits")));
    }
    assert_eq!(with(24, "\n"), MarcError::BadEntry(1));
    assert_eq!(with(36 + 3, "00x8"), MarcError::BadEntry(2));
    assert!(matches!(with(36 + 3, "9999"), MarcError::PastTheEnd { entry: 2, .. }));
    assert!(matches!(with(36 + 7, "99999"), MarcError::PastTheEnd { entry: 2, .. }));
    assert!(matches!(with(36 + 3, "0007"), MarcError::Unterminated { entry: 2, .. }));
    assert!(matches!(with(36 + 3, "0000"), MarcError::Unterminated { entry: 2, .. }));
}

#[test]
fn a_leader_alone_is_no_record() {
    assert_eq!(MarcRecord::parse(b""), Err(MarcError::TooShort(0)));
    assert_eq!(MarcRecord::parse(b"00024nz  a2200024n  4500"), Err(MarcError::BadDirectory(24)));
    let empty = b"00026nz  a2200025n  4500\x1e\x1d";
    assert_eq!(MarcRecord::parse(empty).expect("no fields").fields().count(), 0);
}

#[test]
fn a_leader_that_is_not_ascii_is_refused() {
    let mut with_high_byte = record();
    with_high_byte[9] = b' ';
    with_high_byte[19] = 0xe2;
    assert_eq!(MarcRecord::parse(&with_high_byte), Err(MarcError::BadLeader(19)));
}

#[test]
fn an_overlong_record_is_given_up_up_to_its_terminator() {
    for length in [(4 << 20) + 1, (4 << 20) + 400_000, 9 << 20] {
        let good = record();
        let file = [&good, vec![b'7'; length].as_slice(), b"\x1d", &good].concat();
        let documents = read_whole(&file, Syntax::Marc, None);
        let offsets: Vec<_> = documents.iter().map(|(found, _)| (found.number, found.offset, found.problem.is_some())).collect();
        let overlong = good.len() as u64;
        assert_eq!(offsets, [(1, 0, false), (2, overlong, true), (3, overlong + length as u64 + 1, false)]);
        assert_eq!(documents[1].0.problem.as_deref(), Some("the document is longer than 4194304 bytes"));
        assert_eq!(read_in_chunks(&file, Syntax::Marc, None, |_| true), documents);
    }
}

#[test]
fn a_record_may_be_many_times_longer_than_its_leader_can_say() {
    let good = record();
    let long = [&good[..good.len() - 1], vec![b'7'; 3 << 20].as_slice(), b"\x1d"].concat();
    let documents = read_whole(&[good.as_slice(), &long, &good].concat(), Syntax::Marc, None);
    assert_eq!(
        documents.iter().map(|(found, bytes)| (found.problem.is_some(), bytes.len())).collect::<Vec<_>>(),
        [(false, good.len()), (false, long.len()), (false, good.len())]
    );
}

#[test]
fn a_diacritic_without_a_letter_does_not_change_the_subfield_code() {
    let data = b"1 \x1fa\xe2\x1fb\xe8\x1e";
    let text = format!("{:05}nam  2200037   4500100{:04}00000\x1e", 24 + 12 + 1 + data.len() + 1, data.len());
    let bytes = [text.as_bytes(), data, b"\x1d"].concat();
    let record = MarcRecord::parse(&bytes).expect("valid");
    let field = record.fields().next().expect("one field");
    assert_eq!(field.subfields().collect::<Vec<_>>(), [("a", "\u{301}"), ("b", "\u{308}")]);
}

#[test]
fn text_that_came_as_unicode_is_not_written_as_marc8() {
    let json = r#"{"leader":"00000nam  2200000   4500","fields":[{"100":{"ind1":"1","ind2":" ","subfields":[{"a":"Dvořák"}]}}]}"#;
    let Ok(Document::Marc(record)) = Document::parse(json.as_bytes(), Syntax::MarcJson, &ParseContext::default()) else { panic!("valid") };
    let bytes = iso2709(&record);
    let read = MarcRecord::parse(&bytes).expect("valid");
    assert_eq!(read.fields().next().expect("a field").subfields().next(), Some(("a", "Dvořák")));
    assert_eq!(&read.leader()[9..10], "a");
}

#[test]
fn one_broken_line_is_the_only_problem_of_its_file() {
    for broken in ["{\"a\": 2", "{\"a\": \"2}", "]", "garbage \"", "{\"a\": 2,}", "\u{0}", "{\"a\": \u{1f}}"] {
        for lines in [[broken, "{\"a\":2}", "{\"a\":3}"], ["{\"a\":1}", broken, "{\"a\":3}"], ["{\"a\":1}", "{\"a\":2}", broken]] {
            let file = lines.join("\n");
            let documents = read_whole(file.as_bytes(), Syntax::Json, None);
            let mut offset = 0;
            let record_at_line = |(number, line): (u64, &str)| {
                let at = offset;
                offset += line.len() as u64 + 1;
                (number, at, line.to_owned(), false)
            };
            let expected: Vec<_> = (1..).zip(lines).map(record_at_line).collect();
            assert_eq!(summary(&documents), expected, "{file}");
            let parsed: Vec<_> = documents.iter().map(|(_, bytes)| Document::parse(bytes, Syntax::Json, &ParseContext::default()).is_ok()).collect();
            assert_eq!(parsed, lines.map(|line| line != broken), "{file}");
        }
    }
}

#[test]
fn garbage_between_elements_spoils_no_element() {
    let file = r#"[{"a":1} garbage, {"b":2}: oops
        }}, {"c":3},,, {"d":4}]"#;
    let documents = read_whole(file.as_bytes(), Syntax::Json, None);
    let sound: Vec<_> = documents
        .iter()
        .filter(|(found, bytes)| found.problem.is_none() && Document::parse(bytes, Syntax::Json, &ParseContext::default()).is_ok())
        .map(|(found, bytes)| (found.number, found.offset as usize, String::from_utf8_lossy(bytes).into_owned()))
        .collect();
    assert_eq!(sound.iter().map(|(_, _, text)| text.as_str()).collect::<Vec<_>>(), [r#"{"a":1}"#, r#"{"b":2}"#, r#"{"c":3}"#, r#"{"d":4}"#]);
    for (_, offset, text) in &sound {
        assert!(file[*offset..].starts_with(text));
    }
}

#[test]
fn the_elements_of_a_chosen_member_are_the_documents() {
    let file = br#"{"value": "not a list", "meta": {"value": [0]}, "count": 2, "value": [ {"a": 1}, {"a": 2} ], "next": ["x"]} trailing"#;
    let documents = read_whole(file, Syntax::Json, Some("value"));
    assert_eq!(summary(&documents), [(1, 71, r#"{"a": 1}"#.into(), false), (2, 81, r#"{"a": 2}"#.into(), false)]);
}

#[test]
fn a_missing_member_is_one_problem() {
    for file in [r#"{"values": [1]}"#, "[1]", "17", r#"{"value": {"value": [1]}}"#, r#"{"value": 1"#, "{", "\"value\"", r#"{"value" [1]}"#] {
        let documents = read_whole(file.as_bytes(), Syntax::Json, Some("value"));
        assert_eq!(documents.len(), 1, "{file}");
        assert_eq!(documents[0].0.problem.as_deref(), Some("the top value is not an object with a list \"value\""), "{file}");
    }
}

#[test]
fn documents_after_a_list_are_not_lost() {
    let documents = read_whole(b"[1,2]\n[3]\n{\"a\":4} 5", Syntax::Json, None);
    let texts: Vec<_> = summary(&documents).into_iter().map(|(number, offset, text, _)| (number, offset, text)).collect();
    assert_eq!(texts, [(1, 1, "1".into()), (2, 3, "2".into()), (3, 7, "3".into()), (4, 10, "{\"a\":4}".into()), (5, 18, "5".into())]);
}

#[test]
fn a_value_over_many_lines_is_one_document_even_if_it_holds_whole_lines() {
    let file = "{\"list\": [\n{\"a\": 1},\n{\"a\": 2}\n]}\n{\"list\": []}\n";
    let documents = read_whole(file.as_bytes(), Syntax::Json, None);
    assert_eq!(documents.iter().map(|(found, bytes)| (found.offset, bytes.len())).collect::<Vec<_>>(), [(0, 32), (33, 12)]);
}

#[test]
fn a_file_that_ends_inside_a_value_is_a_problem_with_its_offset() {
    let documents = read_whole(b"[{\"a\":1}, {\"b\": [\"x", Syntax::Json, None);
    assert_eq!(summary(&documents), [(1, 1, "{\"a\":1}".into(), false), (2, 10, "{\"b\": [\"x".into(), true)]);
}

#[test]
fn an_overlong_value_is_given_up_and_the_next_one_is_read() {
    let good = r#"{"good": "]}"}"#;
    for text in ["\"x\\\"]},\" ,", "[{}],", "1 , "] {
        let overlong = format!("[{}0]", text.repeat((40 << 20) / text.len()));
        for (before, between, after) in [("[", ",", "]"), ("", "\n", "\n"), ("{\"value\": [", ",", "], \"x\": 1}")] {
            let file = format!("{before}{good}{between}{overlong}{between}{good}{after}");
            let records = before.starts_with('{').then_some("value");
            let documents = read_whole(file.as_bytes(), Syntax::Json, records);
            let second = before.len() + good.len() + 1;
            let expected = [
                (1, before.len() as u64, good.to_owned(), false),
                (2, second as u64, String::new(), true),
                (3, (second + overlong.len() + 1) as u64, good.to_owned(), false),
            ];
            assert_eq!(summary(&documents), expected, "{text} {before}");
        }
    }
}

#[test]
fn deep_json_is_an_error() {
    for deep in ["[".repeat(100_000) + &"]".repeat(100_000), "{\"a\":".repeat(100_000) + "1" + &"}".repeat(100_000)] {
        for (syntax, expected) in [(Syntax::Json, "nested deeper than 4096 levels"), (Syntax::MarcJson, "recursion limit")] {
            let error = parse_error(deep.as_bytes(), syntax);
            assert!(matches!(&error, DocumentError::Json(reason) if reason.contains(expected)), "{error}");
        }
        let file = format!("[{deep}, 1]");
        assert_eq!(read_whole(file.as_bytes(), Syntax::Json, None).len(), 2);
    }
}

#[test]
fn json_that_is_not_utf8_outside_of_texts_is_an_error() {
    for bytes in [&b"{\"a\": \xff}"[..], b"\xff", b"[1, \xff2]", b"{\"a\": \"\xff}"] {
        assert!(matches!(parse_error(bytes, Syntax::Json), DocumentError::Json(_)), "{bytes:?}");
    }
    assert!(matches!(parse_error(b"{\"leader\": \"\xff\", \"fields\": []}", Syntax::MarcJson), DocumentError::Json(_)));
}

#[test]
fn unreadable_text_is_reported_when_a_path_finds_it() {
    let bytes = b"{\"id\": \"r1\", \"title\": \"B\xe4ume\", \"parts\": [{\"n\": 1, \"t\": \"\\ud800\"}, {\"n\": 2, \"t\": \"fine\"}]}";
    let document = Document::parse(bytes, Syntax::Json, &ParseContext::default()).expect("the rest of it can be read");
    for (path, expected) in [
        ("$.id", vec![None]),
        ("$.title", vec![Some("byte 24 of the document is not UTF-8")]),
        ("$.parts[*].n", vec![None, None]),
        ("$.parts[*].t", vec![Some("the text at byte "), None]),
        ("$.parts", vec![Some("the text at byte ")]),
        ("$..t", vec![Some("the text at byte "), None]),
    ] {
        let path = stook_catalogue::path::Path::compile(path, stook_catalogue::path::PathLanguage::Json, &[]).expect("a path");
        let mut found = Vec::new();
        stook_formats::select(&document, &path, &mut found);
        let reasons: Vec<Option<String>> = found.iter().map(|found| stook_formats::unreadable(&document, found)).collect();
        let is_expected = |(reason, expected): (&Option<String>, &Option<&str>)| match (reason, expected) {
            (Some(reason), Some(expected)) => reason.starts_with(expected),
            (reason, expected) => reason.is_none() && expected.is_none(),
        };
        assert!(reasons.len() == expected.len() && reasons.iter().zip(&expected).all(is_expected), "{path:?}: {reasons:?}");
    }
}

/// A document of maximum depth, on a stack on which a recursive function would not get far.
#[test]
fn documents_as_deep_as_they_may_be_are_read_on_a_small_stack() {
    use stook_catalogue::path::{Path, PathLanguage};
    let find = |document: &Document<'_>, path: &str, language: PathLanguage| {
        let path = Path::compile(path, language, &[]).expect("a path");
        let mut found = Vec::new();
        stook_formats::select(document, &path, &mut found);
        found.iter().map(|found| format!("{found:?}")).collect::<Vec<_>>()
    };
    let read = move || {
        for depth in [129, 4_000] {
            let xml = format!("{}<leaf n='7'>x</leaf>{}", "<a>".repeat(depth), "</a>".repeat(depth));
            let document = Document::parse(xml.as_bytes(), Syntax::Xml, &ParseContext::default()).expect("XML");
            for (path, expected) in [
                ("count(//a)", depth.to_string()),
                ("//leaf/@n", "7".into()),
                ("count(//leaf/ancestor::a)", depth.to_string()),
                ("string(/a)", "x".into()),
            ] {
                assert_eq!(find(&document, path, PathLanguage::Xml), [format!("Text({expected:?}, 0)")], "{path}");
            }
            let json = format!("{}{{\"leaf\": 7}}{}", "{\"a\": [".repeat(depth / 2), "]}".repeat(depth / 2));
            let document = Document::parse(json.as_bytes(), Syntax::Json, &ParseContext::default()).expect("JSON");
            for path in ["$..leaf", "$.a[0]..leaf"] {
                assert_eq!(find(&document, path, PathLanguage::Json), ["Json(Number(7))"], "{path}");
            }
        }
        for (text, syntax) in [("<a>".repeat(4_097) + &"</a>".repeat(4_097), Syntax::Xml), ("[".repeat(4_097) + &"]".repeat(4_097), Syntax::Json)] {
            let refused = Document::parse(text.as_bytes(), syntax, &ParseContext::default()).err().map(|error| error.to_string());
            assert!(refused.as_ref().is_some_and(|reason| reason.contains("nested deeper than 4096 levels")), "{refused:?}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(512 << 10).spawn(read).expect("a thread");
    assert!(thread.join().is_ok());
}

#[test]
fn without_records_the_outermost_element_is_the_document() {
    let file = "<?xml version='1.0'?>\n<!-- written by a scanner -->\n<machine xmlns='urn:m'><part/><machine n='inner'/></machine>\n";
    let documents = read_whole(file.as_bytes(), Syntax::Xml, None);
    let start = file.find("<machine").expect("there") as u64;
    assert_eq!(summary(&documents), [(1, start, file[start as usize..].trim_end().to_owned(), false)]);
    // a list of one element is one document, too, and so is each of several files in a row
    let documents = read_whole(b"<list><r>1</r><r>2</r></list><list/>", Syntax::Xml, None);
    assert_eq!(summary(&documents), [(1, 0, "<list><r>1</r><r>2</r></list>".into(), false), (2, 29, "<list/>".into(), false)]);
    let documents = read_whole(b"<list><r>1</r>", Syntax::Xml, None);
    assert_eq!(summary(&documents), [(1, 0, "<list><r>1</r>".into(), true)]);
    let (long, most) = (format!("<list>{}</list>", "<r></r>".repeat((40 << 20) / 7)), "<r/>");
    let documents = read_whole(format!("{long}{most}").as_bytes(), Syntax::Xml, None);
    assert!(documents[0].0.problem.as_ref().is_some_and(|problem| problem.contains("`records`")), "{:?}", documents[0].0);
    assert_eq!(documents[1].1, most.as_bytes());
}

#[test]
fn a_document_type_is_passed_over_unless_its_entities_are_used() {
    for (text, root) in [
        ("<!DOCTYPE list><list><r/></list>", Some("list")),
        ("<?xml version='1.0' encoding='ISO-8859-1'?><!-- x --><!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY e 'x>'>]>\n<a>\u{fc}</a>", Some("a")),
        ("<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>", None),
        ("<!DOCTYPE a><a>&e;</a>", None),
        ("<!DOCTYPE a [<a/>", None),
        ("<!DOCTYPE a>", None),
    ] {
        let parsed = Document::parse(text.as_bytes(), Syntax::Xml, &ParseContext::default());
        let found = parsed.ok().map(|document| match document {
            Document::Xml(tree) => tree.name(tree.element()).local.to_owned(),
            _ => String::new(),
        });
        assert_eq!(found.as_deref(), root, "{text}");
    }
    // a document inside another one is a text of its own, with the entities that it declares
    let text = "<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE a [<!ENTITY e 'x&#252;'>]><a>&e;\u{fc}</a>";
    let own = stook_formats::embedded(text, Syntax::Xml).expect("entities of few bytes");
    assert_eq!(&*own, "<?xml version='1.0' encoding='ISO-8859-1'?><a>x\u{fc}\u{fc}</a>");
    let endless = "<!DOCTYPE a [<!ENTITY e '&f;&f;'><!ENTITY f '&e;'>]><a>&e;</a>";
    assert!(stook_formats::embedded(endless, Syntax::Xml).is_err());
    assert_eq!(&*stook_formats::embedded("[1]", Syntax::Json).expect("as it is"), "[1]");
}

#[test]
fn what_looks_like_a_tag_but_is_none_ends_no_element() {
    let inside = "<!-- </r> --><![CDATA[</r><r>]]><?pi </r>?><x a='</ r>' b=\">\"/><r/><r></r><rr></rr></x:r>";
    let file = format!("<list>\n <!-- <r>no</r> --><![CDATA[<r>no</r>]]>\n <r a=\">\">{inside}</r>\n<p:r xmlns:p='u'>2</p:r ><r2/></list>");
    let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("r"));
    let start = file.find("<r a").expect("there") as u64;
    let second = file.find("<p:r").expect("there") as u64;
    // an attribute with `<` in it is not XML: the scanner does not let it swallow the rest of the file
    let broken = format!("<r a=\">\">{inside}</r>");
    let expected = [(1, start, broken, false), (2, second, "<p:r xmlns:p='u'>2</p:r >".to_owned(), false)];
    assert_eq!(summary(&documents), expected);
}

#[test]
fn elements_keep_the_namespaces_of_the_elements_around_them_only() {
    let file = "<root xmlns='urn:root' xmlns:p='urn:outer'><a xmlns:p='urn:inner' t=\"x>'y\"><r><p:n>1</p:n></r></a>\
        <b xmlns:q='it&apos;s'><r x='xmlns:q='/></b><c xmlns=''><r t='>' xmlns:p='urn:own'><p:n>3</p:n></r></c>\
        <r><p:n>4</p:n></r></root><r/>";
    let texts: Vec<_> = read_whole(file.as_bytes(), Syntax::Xml, Some("r"))
        .into_iter()
        .map(|(found, bytes)| String::from_utf8_lossy(&found.head.complete(&bytes)).into_owned())
        .collect();
    let expected = [
        "<r xmlns='urn:root' xmlns:p='urn:inner'><p:n>1</p:n></r>",
        "<r xmlns='urn:root' xmlns:p='urn:outer' xmlns:q='it&apos;s' x='xmlns:q='/>",
        "<r xmlns='' t='>' xmlns:p='urn:own'><p:n>3</p:n></r>",
        "<r xmlns='urn:root' xmlns:p='urn:outer'><p:n>4</p:n></r>",
        "<r/>",
    ];
    assert_eq!(texts, expected);
    for text in &texts {
        assert!(Document::parse(text.as_bytes(), Syntax::Xml, &ParseContext::default()).is_ok(), "{text}");
    }
}

#[test]
fn an_element_that_is_never_closed_is_a_problem_with_its_offset() {
    let documents = read_whole(b"<list><r>1</r> <r>2</list>", Syntax::Xml, Some("list/*"));
    assert_eq!(summary(&documents), [(1, 6, "<r>1</r>".into(), false), (2, 15, "<r>2</list>".into(), true)]);
    let documents = read_whole(b"<list><r>1</r> <r a='", Syntax::Xml, Some("list/*"));
    assert_eq!(summary(&documents), [(1, 6, "<r>1</r>".into(), false), (2, 15, "<r a='".into(), true)]);
}

#[test]
fn an_unclosed_marcxml_record_spoils_no_other() {
    let record = "<record><leader>00000nam a2200000   4500</leader></record>";
    let unclosed = "<record><leader>00000nam a2200000   4500</leader>";
    let file = format!("<collection>{record}{unclosed}{record}</collection>");
    let documents = read_whole(file.as_bytes(), Syntax::MarcXml, None);
    let expected = [
        (1, 12, record.to_owned(), false),
        (2, 12 + record.len() as u64, unclosed.to_owned(), true),
        (3, 12 + (record.len() + unclosed.len()) as u64, record.to_owned(), false),
    ];
    assert_eq!(summary(&documents), expected);
}

#[test]
fn an_attribute_that_is_never_closed_spoils_its_element_only() {
    let file = "<list><r a=\"1/><r b=\"2\"/><r c='3>x</r><r>4</r></list>";
    let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("list/*"));
    let sound: Vec<_> = documents
        .iter()
        .filter(|(found, bytes)| found.problem.is_none() && Document::parse(bytes, Syntax::Xml, &ParseContext::default()).is_ok())
        .map(|(found, bytes)| (found.offset as usize, String::from_utf8_lossy(bytes).into_owned()))
        .collect();
    assert!(sound.contains(&(file.find("<r>4").expect("there"), "<r>4</r>".into())), "{sound:?}");
}

#[test]
fn entities_never_expand() {
    let laughs = "<!DOCTYPE lolz [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;\">\
        <!ENTITY file SYSTEM \"file:///etc/passwd\">]>";
    for content in ["<r>&c;</r>", "<r a='&c;'/>", "<r>&file;</r>"] {
        let file = format!("{laughs}<list>{content}<r>sound</r></list>");
        let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("list/*"));
        assert_eq!(documents.len(), 2);
        assert!(matches!(parse_error(&documents[0].1, Syntax::Xml), DocumentError::Xml(_)));
        assert!(Document::parse(&documents[1].1, Syntax::Xml, &ParseContext::default()).is_ok());
        assert!(matches!(parse_error(file.as_bytes(), Syntax::Xml), DocumentError::Xml(_)));
    }
}

#[test]
fn deep_xml_is_an_error() {
    let deep = "<a>".repeat(100_000) + &"</a>".repeat(100_000);
    for syntax in [Syntax::Xml, Syntax::MarcXml] {
        let error = parse_error(deep.as_bytes(), syntax);
        assert!(matches!(&error, DocumentError::Xml(reason) if reason.contains("nested deeper")), "{error}");
    }
    let file = format!("<list>{deep}<a/></list>");
    assert_eq!(read_whole(file.as_bytes(), Syntax::Xml, Some("list/*")).len(), 2);
    // as elements around the documents they do no harm
    let file = "<a>".repeat(100_000) + "<r/><r/>" + &"</a>".repeat(100_000);
    let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("r"));
    assert_eq!(documents.len(), 2);
    assert_eq!(read_in_chunks(file.as_bytes(), Syntax::Xml, Some("r"), |_| true), documents);
}

#[test]
fn elements_made_to_exhaust_the_parser_are_errors() {
    let attributes: String = (0..500_000).map(|number| format!(" a{number}=''")).collect();
    let error = parse_error(format!("<r{attributes}/>").as_bytes(), Syntax::Xml);
    assert!(error.to_string().contains("attributes"), "{error}");
    let declarations: String = (0..900).map(|number| format!(" xmlns:p{number}='u'")).collect();
    let error = parse_error(format!("<r{declarations}>{}</r>", "<x xmlns:y='u'/>".repeat(500_000)).as_bytes(), Syntax::Xml);
    assert!(error.to_string().contains("namespace declarations"), "{error}");
}

#[test]
fn xml_that_is_not_utf8_is_an_error_of_its_document_only() {
    let file = b"<list><r a='\xff'><r/>\xff</r><r>2</r></list>";
    let documents = read_whole(file, Syntax::Xml, Some("list/*"));
    assert_eq!(documents.iter().map(|(found, bytes)| (found.offset, bytes.len())).collect::<Vec<_>>(), [(6, 18), (24, 8)]);
    assert!(matches!(parse_error(&documents[0].1, Syntax::Xml), DocumentError::Xml(reason) if reason.contains("byte 6 is not UTF-8")));
    let utf16: Vec<u8> = "\u{feff}<list><r/></list>".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let documents = read_whole(&utf16, Syntax::Xml, Some("list/*"));
    assert!(documents.iter().any(|(found, _)| found.problem.is_some()), "{documents:?}");
}

#[test]
fn an_overlong_element_is_given_up_and_the_next_one_is_read() {
    for filler in ["text ", "<r></r>", "<!-- </r> -->", "<x a='</'/>", "<![CDATA[</r>]]>"] {
        let overlong = format!("<r>{}</r>", filler.repeat((40 << 20) / filler.len()));
        let file = format!("<list><r>1</r>{overlong}<r>3</r></list>");
        let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("list/*"));
        let expected = [(1, 6, "<r>1</r>".into(), false), (2, 14, String::new(), true), (3, 14 + overlong.len() as u64, "<r>3</r>".into(), false)];
        assert_eq!(summary(&documents), expected, "{filler}");
    }
}

#[test]
fn overlong_markup_is_given_up_up_to_its_end() {
    for (before, filler, after) in
        [("<r><!--", "</r>", "--></r>"), ("<r><![CDATA[", "</r>", "]]></r>"), ("<r><?x", "</r>", "?></r>"), ("<!--", "<r/>", "-->")]
    {
        let overlong = format!("{before}{}{after}", filler.repeat(20 << 20));
        let file = format!("<list>{overlong}<r>2</r></list>");
        let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("list/*"));
        assert_eq!(summary(&documents), [(1, 6, String::new(), true), (2, 6 + overlong.len() as u64, "<r>2</r>".into(), false)], "{before}");
    }
}

fn csv_values(file: &[u8]) -> Vec<(u64, u64, Result<Vec<String>, String>)> {
    let documents = read_whole(file, Syntax::Csv, None);
    let row = |(found, bytes): support::Document| {
        let parsed = match found.problem {
            Some(problem) => Err(problem),
            None => Document::parse(&bytes, Syntax::Csv, &found.head)
                .map_err(|error| error.to_string())
                .map(|document| found.head.columns().iter().map(|column| column_value(&document, column)).collect()),
        };
        (found.number, found.offset, parsed)
    };
    documents.into_iter().map(row).collect()
}

fn column_value(document: &Document<'_>, column: &str) -> String {
    let Document::Csv(row) = document else { panic!("a row") };
    row.get(column).unwrap_or_default().to_owned()
}

fn row(values: &[&str]) -> Result<Vec<String>, String> {
    Ok(values.iter().map(|value| (*value).to_owned()).collect())
}

#[test]
fn rows_after_an_unclosed_quote_are_read() {
    let unclosed = || Err("a quote in this row is never closed".to_owned());
    let file = b"a,b\n1,\"x\n2,y\n3,z";
    assert_eq!(csv_values(file), [(1, 4, unclosed()), (2, 9, row(&["2", "y"])), (3, 13, row(&["3", "z"]))]);
    // the next quote seems to close it, but in the middle of a value
    let file = b"a,b\n1,\"x\n2,\"y\"\n\"3\",z\n";
    assert_eq!(csv_values(file), [(1, 4, unclosed()), (2, 9, row(&["2", "y"])), (3, 15, row(&["3", "z"]))]);
    let file = b"\"a,b\n1,2\n";
    assert_eq!(csv_values(file)[0], (1, 0, unclosed()));
}

#[test]
fn quoted_line_ends_belong_to_the_value() {
    let file = b"a;b\r\n\"1\r\n2\";\"\n\"\r\n3;4\r\n";
    assert_eq!(csv_values(file), [(1, 5, row(&["1\r\n2", "\n"])), (2, 17, row(&["3", "4"]))]);
}

#[test]
fn a_quote_inside_a_value_is_a_character() {
    let file = b"a,b\n1,5\" disk\n2,x \"y\" z\n3,\"a \"\"b\"\"\"\n4,\"c\" d\n";
    let expected = [(1, 4, row(&["1", "5\" disk"])), (2, 14, row(&["2", "x \"y\" z"])), (3, 24, row(&["3", "a \"b\""])), (4, 36, row(&["4", "c d"]))];
    assert_eq!(csv_values(file), expected);
}

#[test]
fn each_row_of_another_width_is_an_error() {
    let file = b"a,b\n1\n1,2,3\n,\n1,2\n";
    let wrong = |count| Err(format!("the row has {count} values, the header has 2"));
    assert_eq!(csv_values(file), [(1, 4, wrong(1)), (2, 6, wrong(3)), (3, 12, row(&["", ""])), (4, 14, row(&["1", "2"]))]);
}

#[test]
fn line_ends_of_every_kind_end_rows() {
    for end in ["\n", "\r\n", "\r"] {
        let file = ["a,b", "1,2", "3,4"].join(end);
        let next = 3 + end.len() as u64;
        assert_eq!(csv_values(file.as_bytes()), [(1, next, row(&["1", "2"])), (2, 2 * next, row(&["3", "4"]))], "{end:?}");
    }
}

#[test]
fn bytes_that_are_not_utf8_spoil_their_row_only() {
    let file = b"a,gr\xf6\xdfe\n1,\xff\n2,x\n";
    let documents = csv_values(file);
    assert_eq!(documents[0], (1, 8, Err("value 2 is not UTF-8; say `encoding: cp1252` or `encoding: latin-1` at the source".to_owned())));
    assert_eq!(documents[1], (2, 12, row(&["2", "x"])));
}

#[test]
fn the_delimiter_is_looked_for_outside_quotes() {
    assert_eq!(csv_values(b"\"a,b,c\";d\n1;2\n"), [(1, 10, row(&["1", "2"]))]);
    assert_eq!(csv_values(b"a\tb\n1,5\t2\n"), [(1, 4, row(&["1,5", "2"]))]);
    assert_eq!(csv_values(b"a|b\n1|2\n"), [(1, 4, row(&["1", "2"]))]);
    assert_eq!(csv_values(b"a\n1;2\n"), [(1, 2, row(&["1;2"]))]);
}

#[test]
fn an_overlong_row_is_given_up_up_to_the_next_line() {
    for length in [(4 << 20) + 1, 5 << 20, 9 << 20] {
        let file = [b"a,b\n1,2\n", vec![b'x'; length].as_slice(), b"\n3,4\n"].concat();
        let values = csv_values(&file);
        assert_eq!(values.iter().map(|(number, offset, _)| (*number, *offset)).collect::<Vec<_>>(), [(1, 4), (2, 8), (3, 9 + length as u64)]);
        assert_eq!((&values[0].2, &values[2].2), (&row(&["1", "2"]), &row(&["3", "4"])));
        assert!(values[1].2.is_err());
    }
}

#[test]
fn an_unclosed_quote_does_not_take_a_large_file_with_it() {
    for (rows, close) in [(700_000, ""), (700_000, "1,\"\n"), (300_000, "")] {
        let file = format!("a,b\n1,\"x\n{}{close}", "123,4567\n".repeat(rows));
        let values = csv_values(file.as_bytes());
        assert!(values[0].2.is_err());
        assert_eq!((values[0].0, values[0].1), (1, 4));
        assert!(values.len() > rows, "{} of {rows}", values.len());
        assert_eq!(values[1], (2, 9, row(&["123", "4567"])));
        assert_eq!(values[rows], (rows as u64 + 1, 9 * rows as u64, row(&["123", "4567"])));
    }
}

/// A long line of one repeated byte that is generated while it is read. It records the size of the buffers it was given: the free part of the
/// reader's buffer, which is at least half of the buffer.
struct LongLine {
    beginning: &'static [u8],
    rest: usize,
    largest_room: usize,
}

impl Read for LongLine {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.largest_room = self.largest_room.max(room.len());
        if !self.beginning.is_empty() {
            return self.beginning.read(room);
        }
        let length = room.len().min(self.rest);
        room[..length].fill(b'x');
        self.rest -= length;
        Ok(length)
    }
}

#[test]
fn a_line_of_100_megabytes_is_not_collected() {
    let beginnings: [(Syntax, Option<&str>, &'static [u8], usize); 8] = [
        (Syntax::Marc, None, b"", 4 << 20),
        (Syntax::MarcXml, None, b"<collection><record>", 32 << 20),
        (Syntax::Xml, None, b"", 32 << 20),
        (Syntax::Xml, None, b"<list><a><!--", 32 << 20),
        (Syntax::Json, None, b"[{\"a\": \"", 32 << 20),
        (Syntax::Json, None, b"{\"a\":1}\n{\"a\":\"", 32 << 20),
        (Syntax::Json, Some("value"), b"{\"a\": \"", 32 << 20),
        (Syntax::Csv, None, b"a,b\n1,\"", 4 << 20),
    ];
    for (syntax, records, beginning, limit) in beginnings {
        let mut line = LongLine { beginning, rest: 100 << 20, largest_room: 0 };
        let mut documents = DocumentReader::new(&mut line, syntax, records);
        let mut problems = Vec::new();
        while let Some((found, bytes)) = documents.next().expect("readable") {
            assert!(bytes.len() <= limit);
            problems.extend(found.problem);
        }
        assert_eq!(problems.len(), 1, "{} {}: {problems:?}", syntax.name(), String::from_utf8_lossy(beginning));
        assert!(line.largest_room <= limit, "{}: the buffer grew by {} bytes", syntax.name(), line.largest_room);
        assert_eq!(line.rest, 0);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_else(|error| panic!("{error}"))
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn compressed_files_are_read_like_plain_ones() {
    for sample in samples() {
        let expected = read_whole(&sample.file, sample.syntax, sample.records);
        let (front, back) = sample.file.split_at(sample.file.len() / 2);
        let files = [
            (Compression::Gzip, gzip(&sample.file)),
            (Compression::Gzip, [gzip(front), gzip(b""), gzip(back)].concat()),
            (Compression::Zstd, zstd(&sample.file)),
            (Compression::Zstd, [zstd(front), zstd(b""), zstd(back)].concat()),
        ];
        for (compression, file) in files {
            let opened = open_bytes(Box::new(io::Cursor::new(file))).expect("sound");
            assert_eq!((opened.compression, opened.syntax), (compression, detect(&sample.file)), "{}", sample.name);
            assert_eq!(collect(DocumentReader::new(opened.bytes, sample.syntax, sample.records)), expected, "{}", sample.name);
        }
    }
}

#[test]
fn a_truncated_compressed_file_is_an_io_error_after_its_documents() {
    let mut random = support::Random::new(7);
    let line = |random: &mut support::Random| format!("{{\"a\": {}}}\n", random.next());
    let lines: String = (0..50_000).map(|_| line(&mut random)).collect();
    for whole in [gzip(lines.as_bytes()), zstd(lines.as_bytes())] {
        let cut = whole[..whole.len() - whole.len() / 4].to_vec();
        let opened = open_bytes(Box::new(io::Cursor::new(cut))).expect("the beginning is sound");
        let mut documents = DocumentReader::new(opened.bytes, Syntax::Json, None);
        let mut count = 0;
        let error = loop {
            match documents.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => panic!("the end of the file was not missed"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert!(count > 0);
    }
    for beginning in [&gzip(b"[1,2]")[..12], &zstd(b"[1,2]")[..6]] {
        assert!(open_bytes(Box::new(io::Cursor::new(beginning.to_vec()))).is_err());
    }
}

#[test]
fn a_damaged_compressed_file_is_an_io_error() {
    let lines = "{\"a\": 1}\n".repeat(100_000);
    for mut damaged in [gzip(lines.as_bytes()), zstd(lines.as_bytes())] {
        let last = damaged.len() - 1;
        damaged[last - 5] ^= 0x55;
        damaged[last - 9] ^= 0x55;
        let outcome = open_bytes(Box::new(io::Cursor::new(damaged))).and_then(|opened| {
            let mut documents = DocumentReader::new(opened.bytes, Syntax::Json, None);
            while documents.next()?.is_some() {}
            Ok(())
        });
        assert!(outcome.is_err());
    }
}

#[test]
fn paths_on_large_documents_finish() {
    let wide = format!("<r>{}</r>", "<a>x</a>".repeat(200_000));
    let nested = format!("{}{}{}", "<a>x".repeat(127), "<b/>".repeat(100_000), "</a>".repeat(127));
    for (text, path, expected) in [(&wide, "//a", 200_000), (&nested, "//a", 127), (&nested, "//a//b", 100_000), (&nested, "//b/..", 1)] {
        let Ok(document) = Document::parse(text.as_bytes(), Syntax::Xml, &ParseContext::default()) else { panic!("sound") };
        let path = Path::compile(path, PathLanguage::Xml, &[]).expect("a path");
        let mut found: Vec<SelectedValue<'_>> = Vec::new();
        select(&document, &path, &mut found);
        assert_eq!(found.len(), expected);
    }
}

/// What is reported as missing in a file without documents, however it is read.
fn missing(file: &[u8], syntax: Syntax, records: Option<&str>) -> Option<String> {
    let of = |mut documents: DocumentReader<&mut dyn Read>| {
        while documents.next().expect("readable").is_some() {}
        documents.missing()
    };
    let whole = of(DocumentReader::new(&mut io::Cursor::new(file), syntax, records));
    assert_eq!(of(DocumentReader::new(&mut support::Trickle::new(file, 1), syntax, records)), whole, "{}", String::from_utf8_lossy(file));
    whole
}

#[test]
fn an_empty_list_is_distinguished_from_a_file_without_a_list() {
    let oai = |inner: &str| format!("<?xml version='1.0'?>\n<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><request/>{inner}</OAI-PMH>");
    let sru = |number: &str| {
        format!("<zs:searchRetrieveResponse xmlns:zs='urn:z'><zs:numberOfRecords>{number}</zs:numberOfRecords></zs:searchRetrieveResponse>")
    };
    let xml = |text: &str, records: Option<&str>| missing(text.as_bytes(), Syntax::Xml, records);
    let marc = |text: &str| missing(text.as_bytes(), Syntax::MarcXml, None);
    let json = |text: &str, member: &str| missing(text.as_bytes(), Syntax::Json, Some(member));
    for (text, records) in [
        ("<list/>", Some("list/item")),
        ("<?xml version='1.0'?><!-- none --><p:list xmlns:p='urn:p' a='1'>\n</p:list>", Some("list/item")),
        ("<answer><head/><list></list></answer>", Some("list/item")),
        ("<list/>", Some("list/*")),
        ("<items/>", Some("item")),
        ("<list><item/></list>", Some("item")),
        ("<other><item/></other>", Some("item")),
        ("<other><item/></other>", None),
        ("<error/>", None),
    ] {
        assert_eq!(xml(text, records), None, "{text} {records:?}");
    }
    for text in [oai("<error code=\"noRecordsMatch\">none</error>"), oai("<ListRecords/>"), sru("0"), sru(" 0\n")] {
        assert_eq!((xml(&text, Some("record")), marc(&text)), (None, None), "{text}");
    }
    assert_eq!(marc("<collection xmlns='http://www.loc.gov/MARC21/slim'/>"), None);
    for (text, records) in [
        ("<error/>", Some("list/item")),
        ("<error/>", Some("item")),
        ("<error>list</error>", Some("list/*")),
        ("<html><head><title>list</title></head></html>", Some("list/item")),
        ("<!-- <list/> -->", Some("list/item")),
        (" \n", Some("list/item")),
        ("<other><item/></other>", Some("list/item")),
        ("<other><item/><list/></other>", Some("lists/item")),
        ("<items2/>", Some("item")),
    ] {
        assert!(xml(text, records).is_some(), "{text} {records:?}");
    }
    for text in
        [oai("<error code='badArgument'>noRecordsMatch</error>"), oai("<error code='badVerb' x='noRecordsMatch'/>"), oai(""), sru("7"), sru("00x")]
    {
        assert!(xml(&text, Some("record")).is_some() && marc(&text).is_some(), "{text}");
    }
    assert!(marc("<error/>").is_some());
    for text in ["{\"rows\": []}", " { \"a\": {\"rows\": 1}, \"rows\" :\n[ ] } ", "{\"rows\": [{}]}"] {
        assert_eq!(json(text, "rows"), None, "{text}");
    }
    for text in [
        "{\"error\": \"rows\"}",
        "{\"rows\": null}",
        "{\"rows\": {}}",
        "{\"a\": {\"rows\": []}}",
        "[]",
        "[{\"rows\": []}]",
        "",
        " \n",
        "{\"a\": 1",
        "\"rows\"",
        "<rows/>",
    ] {
        assert!(json(text, "rows").is_some(), "{text}");
    }
    assert_eq!(missing(b"[]", Syntax::Json, None), None);
    assert_eq!(missing(b"id,name\n", Syntax::Csv, None), None);
    // an element only belongs to the list after the list has begun
    assert_eq!(read_whole(b"<a><item/><list><item/></list></a>", Syntax::Xml, Some("list/item")).len(), 1);
    assert_eq!(read_whole(b"<a><x/><list><item/><other/></list></a>", Syntax::Xml, Some("list/*")).len(), 2);
    let file = b"<a><item/><list><item n='1'/><item n='2'/></list></a>";
    let whole = read_whole(file, Syntax::Xml, Some("list/item"));
    assert_eq!(read_in_chunks(file, Syntax::Xml, Some("list/item"), |_| true), whole);
    assert_eq!(read_in_chunks_cut_in_front(file, Syntax::Xml, Some("list/item"), |_| true), whole);
}
