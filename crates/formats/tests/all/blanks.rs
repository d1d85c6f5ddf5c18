//! White space around and between documents: however much there is, and wherever the file is split, the documents are the same.

use crate::support;

use std::io;
use stook_formats::Syntax;
use stook_formats::read::{DocumentReader, open_bytes};
use support::{Document, Random, Trickle, collect, iso2709, read_in_chunks, read_in_chunks_cut_in_front, small_record};

/// A file in pieces: what comes before its documents, the documents, what comes between two of them and after the last.
struct Pieces {
    name: &'static str,
    syntax: Syntax,
    records: Option<&'static str>,
    front: &'static str,
    documents: Vec<Vec<u8>>,
    between: &'static str,
    after: &'static str,
    /// White space that has no meaning there.
    blanks: &'static [&'static str],
}

const ANY: &[&str] = &["\n", "\r\n", " ", "\t", "\r"];
/// Between lines of text only whole lines are blank.
const LINES: &[&str] = &["\n", "\r\n", "\n  \n", "\r"];

fn every_format() -> Vec<Pieces> {
    let to_vecs = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
    let pieces = |name, syntax, documents| Pieces { name, syntax, records: None, front: "", documents, between: "", after: "", blanks: ANY };
    let elements = to_vecs(&["<a n='1'/>", "<a n='2'>x  y</a>", "<a n='3'><b/></a>"]);
    let objects = to_vecs(&["{\"a\": 1}", "{\"a\": \"x  y\"}", "{\"a\": [3]}", "{\"a\": 4}"]);
    let record =
        |number: &str| format!("<record><leader>00000nam a2200000   4500</leader><controlfield tag=\"001\">{number}</controlfield></record>");
    let records: Vec<Vec<u8>> = ["1", "2", "3"].iter().map(|number| record(number).into_bytes()).collect();
    vec![
        pieces("ISO 2709", Syntax::Marc, (1..=4).map(|number| iso2709(&small_record(number))).collect()),
        Pieces { front: "<collection>", after: "</collection>", ..pieces("MARCXML", Syntax::MarcXml, records) },
        Pieces {
            front: "<?xml version='1.0'?><!-- <a/> -->",
            after: "<?end?>",
            ..pieces("XML", Syntax::Xml, to_vecs(&["<a n='1'>x <a> y</a></a>"]))
        },
        Pieces {
            front: "<?xml version='1.0'?><all>",
            after: "</all>",
            records: Some("all/*"),
            ..pieces("XML in a list", Syntax::Xml, elements.clone())
        },
        Pieces { front: "<all><part>", after: "</part></all>", records: Some("a"), ..pieces("XML, a chosen element", Syntax::Xml, elements) },
        Pieces { front: "[", between: ",", after: "]", ..pieces("JSON array", Syntax::Json, objects.clone()) },
        Pieces {
            front: "{\"more\": 1, \"rows\": [",
            between: ",",
            after: "]}",
            records: Some("rows"),
            ..pieces("JSON member", Syntax::Json, objects.clone())
        },
        Pieces { between: "\n", blanks: LINES, ..pieces("JSON lines", Syntax::Json, objects) },
        pieces("JSON values", Syntax::Json, to_vecs(&["{\n\"a\":\n1}", "{\"b\":\n[]}", "{}"])),
        Pieces { front: "id,name\n", between: "\n", blanks: LINES, ..pieces("CSV", Syntax::Csv, to_vecs(&["1,one", "2,\"t  w\no\"", "3,"])) },
        Pieces { front: "id\tname\n", between: "\n", blanks: LINES, ..pieces("CSV with tabs", Syntax::Csv, to_vecs(&["1\tone", "\t", "3\t "])) },
    ]
}

/// The file with up to `most` pieces of white space in each of its gaps.
fn spread(pieces: &Pieces, random: &mut Random, most: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut blank = |file: &mut Vec<u8>| {
        let count = if random.one_in(3) { 0 } else { random.below(most + 1) };
        (0..count).for_each(|_| file.extend_from_slice(random.pick(pieces.blanks).as_bytes()));
    };
    blank(&mut file);
    file.extend_from_slice(pieces.front.as_bytes());
    for (index, document) in pieces.documents.iter().enumerate() {
        if index > 0 {
            blank(&mut file);
            file.extend_from_slice(pieces.between.as_bytes());
        }
        blank(&mut file);
        file.extend_from_slice(document);
    }
    blank(&mut file);
    file.extend_from_slice(pieces.after.as_bytes());
    blank(&mut file);
    file
}

#[track_caller]
fn check(pieces: &Pieces, file: &[u8], context: &str) {
    let opened = open_bytes(Box::new(io::Cursor::new(file.to_vec()))).expect("readable");
    let context = format!("{}, {context}: {:?}", pieces.name, String::from_utf8_lossy(&file[..file.len().min(200)]));
    assert_eq!(opened.syntax, Some(pieces.syntax), "{context}");
    let found = collect(DocumentReader::new(opened.bytes, pieces.syntax, pieces.records));
    let texts: Vec<&[u8]> = found.iter().map(|(_, bytes)| &**bytes).collect();
    assert_eq!(texts, pieces.documents, "{context}");
    for (found, bytes) in &found {
        assert!(found.problem.is_none(), "{context}: {found:?}");
        assert_eq!(&file[found.offset as usize..][..bytes.len()], &**bytes, "{context}: where it stands");
    }
    let same = |other: Vec<Document>, way: &str| assert_eq!(other, found, "{context}, {way}");
    same(collect(DocumentReader::new(file, pieces.syntax, pieces.records)), "in one piece");
    same(collect(DocumentReader::new(Trickle::new(file, 3), pieces.syntax, pieces.records)), "piece by piece");
    same(read_in_chunks(file, pieces.syntax, pieces.records, |_| true), "cut behind each");
    same(read_in_chunks_cut_in_front(file, pieces.syntax, pieces.records, |_| true), "cut in front of each");
    same(read_in_chunks_cut_in_front(file, pieces.syntax, pieces.records, |number| number == 2), "cut once");
}

#[test]
fn white_space_never_changes_which_documents_are_found() {
    for pieces in every_format() {
        for seed in 0..40 {
            check(&pieces, &spread(&pieces, &mut Random::new(seed), 6), &format!("seed {seed}"));
        }
        for seed in 0..4 {
            check(&pieces, &spread(&pieces, &mut Random::new(seed), 40_000), &format!("seed {seed} of many"));
        }
    }
}

/// Lengths near the number of bytes from which a format is recognised.
#[test]
fn a_file_that_begins_with_white_space_is_recognised() {
    for pieces in every_format() {
        let mut random = Random::new(1);
        let plain = spread(&pieces, &mut random, 0);
        for count in [1, 65_535, 65_536, 65_537, 70_000, 200_000] {
            for blank in ["\n", "\r\n"] {
                check(&pieces, &[blank.repeat(count).as_bytes(), &plain].concat(), &format!("{count} {blank:?} in front"));
            }
        }
        if pieces.blanks == ANY {
            check(&pieces, &[" \t".repeat(100_000).as_bytes(), &plain].concat(), "no line end in front");
        }
        let marked = [b"\xef\xbb\xbf", "\n".repeat(70_000).as_bytes(), &plain].concat();
        let opened = open_bytes(Box::new(io::Cursor::new(marked.clone()))).expect("readable");
        assert_eq!(opened.syntax, Some(pieces.syntax), "{} behind a mark", pieces.name);
        let found = collect(DocumentReader::new(opened.bytes, pieces.syntax, pieces.records));
        assert_eq!(found, collect(DocumentReader::new(&marked[..], pieces.syntax, pieces.records)), "{}", pieces.name);
        assert_eq!(found.len(), pieces.documents.len(), "{}", pieces.name);
    }
}
