//! Documents that are kept without their file become files again, from which their source reads the same documents.

use crate::support;

use proptest::prelude::*;
use std::io::{Cursor, Read};
use stook_catalogue::definition::Source;
use stook_catalogue::parse::parse;
use stook_formats::frame::{Framer, prefix};
use stook_formats::read::{DocumentReader, open_bytes};
use stook_formats::{Syntax, detect};
use support::{iso2709, small_record};

fn source(text: &str) -> Source {
    let definition = format!(
        "catalogue: c\nsources:\n  s: {{ {text}, feeds: [ {{ into: t, map: {{ id: {{ expr: meta.name }} }} }} ], as_of: meta.received }}\ncollections:\n  t: {{ key: id, fields: {{ id: text }} }}\n"
    );
    parse(&definition).unwrap_or_else(|problems| panic!("{definition}\n{problems:?}")).sources.iter().next().expect("a source").clone()
}

/// The documents of a file in the form in which they are kept.
fn kept(file: &[u8], source: &Source) -> (Option<Syntax>, Vec<Vec<u8>>) {
    let mut opened = open_bytes(Box::new(Cursor::new(file.to_vec()))).expect("a file");
    let Some(syntax) = opened.syntax.and_then(|syntax| syntax.as_family(source.family)) else { return (None, Vec::new()) };
    let mut bytes = Vec::new();
    opened.bytes.read_to_end(&mut bytes).expect("a file");
    let mut documents = DocumentReader::new(&bytes[..], syntax, source);
    let mut all = Vec::new();
    while let Some((found, own)) = documents.next().expect("memory") {
        let own = if matches!(syntax, Syntax::Json | Syntax::MarcJson) { own.to_vec() } else { found.head.complete(own).into_owned() };
        all.push([prefix(syntax, &documents.head()), own].concat());
    }
    (Some(syntax), all)
}

fn framed(syntax: Syntax, source: &Source, documents: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut framer = Framer::new(syntax, source);
    let mut files: Vec<Vec<u8>> = Vec::new();
    for document in documents {
        if files.is_empty() || !framer.fits(document) {
            if let Some(file) = files.last_mut() {
                framer.finish(file).expect("memory");
            }
            files.push(Vec::new());
        }
        framer.write(files.last_mut().expect("a file"), document).expect("memory");
    }
    if let Some(file) = files.last_mut() {
        framer.finish(file).expect("memory");
    }
    files
}

/// Files with the sources that read them, and in how many files their documents are at most.
fn samples() -> Vec<(String, Vec<u8>, usize)> {
    let marc: Vec<u8> = (0..4).flat_map(|number| iso2709(&small_record(number))).collect();
    let row = |text: &str| text.as_bytes().to_vec();
    let marcxml = "<?xml version=\"1.0\"?><m:collection xmlns:m=\"http://www.loc.gov/MARC21/slim\"><m:record><m:leader>00000nz  a2200000n  4500</m:leader>\
                   <m:controlfield tag=\"001\">é</m:controlfield></m:record> <m:record><m:leader/></m:record></m:collection>";
    let latin: Vec<u8> = marcxml.replace("\"1.0\"", "\"1.0\" encoding=\"ISO-8859-1\"").chars().map(|letter| letter as u8).collect();
    let sheet = b"\nid;name\n1;\xe9\n2;b\n\"3\n4\";c\n".to_vec();
    [
        ("format: marc", marc, 1),
        ("format: marc", row("=LDR  00000nz  a2200000n  4500\n=001  a\n\n=LDR  00000nz  a2200000n  4500\n=001  b\n"), 1),
        ("format: marc", row(marcxml), 1),
        ("format: marc", latin, 1),
        ("format: marc", row("[{\"leader\":\"\",\"fields\":[]},\n {\"leader\":\"1\",\"fields\":[{\"001\":\"a\"}]}]"), 1),
        ("format: json", row("{\"id\":1}\n{ broken\n{\"id\":2}\n"), 1),
        ("format: json", row("[{\"id\":\n1}, {\"id\":2}, 7, {\"id\": 3}]"), 2),
        ("format: json, records: '$.rows[*]'", row("{\"n\":3,\"rows\":[{\"id\":1},{\"id\":\n2} , x, {\"id\":3}]}"), 1),
        ("format: json, records: '$.rows[*].of.it'", row("{\"rows\":[{\"of\":{\"it\":{\"id\":1}}},{\"id\":2}]}"), 1),
        ("format: json, records: '$.message.items[*]'", row("{\"n\":1,\"message\":{\"items\":[{\"id\":1},{\"id\":2}, {\"id\":3}]}}"), 1),
        ("format: json, records: \"$['@graph'][*]\"", row("{\"@context\":{},\"\\u0040graph\":[{\"id\":1},{\"id\":2}]}"), 1),
        ("format: xml", row("<a xmlns='urn:x'><id>1</id></a>"), 1),
        ("format: xml, records: item", row("<p:list xmlns:p='urn:p'><p:item><id>1</id></p:item><item/><p:item>2</p:item></p:list>"), 1),
        ("format: xml, records: 'list/*'", row("<top><list><a>1</a><b>é</b></list></top>"), 1),
        ("format: xml, records: 'p:list/p:item'", row("<p:list xmlns:p='urn:p'><p:item>1</p:item><p:item>2</p:item></p:list>"), 1),
        ("format: xml, records: item", row("<!DOCTYPE list [<!ENTITY e 'é'>]><list><item>&e;</item><item>2</item><item>ends"), 2),
        ("format: csv", row("id,name\r\n1,a\r\n\"2\",\"b\nc\"\r\n3\r\n"), 1),
        ("format: csv", row("sep=#\nid#name\n1#a\n2#b,c,d,e\n"), 1),
        ("format: csv, header: [id, name]", row("1,a\n2,b\n"), 1),
        ("format: csv, encoding: cp1252, skip: 1", sheet.clone(), 1),
        ("format: csv, skip: 1", sheet, 1),
        ("format: csv, encoding: latin-1, delimiter: ':'", row("\u{feff}id:name\n1:é\n2:b\n"), 1),
    ]
    .map(|(source, file, most)| (source.to_owned(), file, most))
    .to_vec()
}

#[test]
fn all_samples_have_documents() {
    for (definition, file, _) in samples() {
        assert!(!kept(&file, &source(&definition)).1.is_empty(), "{definition} reads {:?}", detect(&file));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_source_reads_the_same_documents_from_the_files(sample in 0..samples().len(), chosen in prop::collection::vec(any::<bool>(), 8)) {
        let (definition, file, most) = samples().swap_remove(sample);
        let source = source(&definition);
        let (syntax, all) = kept(&file, &source);
        let wanted: Vec<Vec<u8>> = all.into_iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(document, _)| document).collect();
        let files = framed(syntax.expect("a syntax"), &source, &wanted);
        // nobody reads a line alone that is no document in other lines
        let is_broken = |document: &Vec<u8>| document.starts_with(b"{ broken");
        prop_assume!(!wanted.iter().all(is_broken) || wanted.is_empty());
        let show = || files.iter().map(|file| String::from_utf8_lossy(file).into_owned()).collect::<Vec<_>>();
        let found: Vec<Vec<u8>> = files.iter().flat_map(|file| kept(file, &source).1).collect();
        prop_assert_eq!(&found, &wanted, "{} {:?}", definition, show());
        prop_assert!(files.len() <= most, "{} {:?}", definition, show());
    }
}

/// Plain MARC, lines of JSON and CSV stay as they were, byte for byte.
#[test]
fn bytes_are_those_that_came() {
    for (definition, file, wanted) in [
        ("format: csv", &b"id,name\n1,a\n\"2\",\"b\nc\"\n"[..], &b"id,name\n1,a\n\"2\",\"b\nc\"\n"[..]),
        ("format: json", b"{\"id\": 1 }\n{\"id\":2}\n", b"{\"id\": 1 }\n{\"id\":2}\n"),
        ("format: json, records: '$.rows[*]'", b"{\"rows\":[{\"id\":1 }]}", b"{\"rows\": [\n{\"id\":1 }\n]}\n"),
        ("format: json, records: \"$.a['b c'][*]\"", b"{\"a\":{\"b c\":[{\"id\":1 }],\"d\":2}}", b"{\"a\": {\"b c\": [\n{\"id\":1 }\n]}}\n"),
        ("format: xml, records: item", b"<all><item a='1'>x</item></all>", b"<items>\n<item a='1'>x</item>\n</items>\n"),
    ] {
        let source = source(definition);
        let (syntax, documents) = kept(file, &source);
        assert_eq!(framed(syntax.expect("a syntax"), &source, &documents), [wanted], "{definition}");
    }
    let records: Vec<u8> = (0..3).flat_map(|number| iso2709(&small_record(number))).collect();
    let source = source("format: marc");
    assert_eq!(framed(Syntax::Marc, &source, &kept(&records, &source).1), [records]);
}

/// Rows with other headers are in a file of their own.
#[test]
fn rows_with_different_headers_are_in_different_files() {
    let source = source("format: csv");
    let documents: Vec<Vec<u8>> = [&b"id,a\n1,2\n"[..], b"id,b\n3,4\n"].iter().flat_map(|file| kept(file, &source).1).collect();
    assert_eq!(framed(Syntax::Csv, &source, &documents), [b"id,a\n1,2\n", b"id,b\n3,4\n"]);
}
