//! XML in declared encodings, with entities, and UTF-16: the documents are those of the same file in UTF-8, however the file is split.

use crate::support;

use std::io::Read;
use stook_formats::read::{DocumentReader, open_bytes};
use stook_formats::{Document, ParseContext, Syntax, detect};
use support::{Random, read_in_chunks, read_in_chunks_cut_in_front, read_whole};

/// The documents of a file, each completed so that it can be parsed alone.
fn texts(documents: &[support::Document]) -> Vec<String> {
    documents
        .iter()
        .map(|(found, bytes)| {
            assert_eq!(found.problem, None);
            let complete = found.head.complete(bytes).into_owned();
            let parsed = Document::parse(&complete, Syntax::Xml, &found.head);
            assert!(parsed.is_ok(), "{:?}: {}", parsed.err(), String::from_utf8_lossy(&complete));
            String::from_utf8(complete).expect("UTF-8")
        })
        .collect()
}

/// The body of a file: elements with characters of Latin-1, and references to entities if there are any.
fn body(random: &mut Random, entities: bool) -> String {
    let mut items = String::new();
    for number in 0..20 {
        let mut text = String::new();
        for _ in 0..random.below(12) {
            let piece: &str = random.pick::<&str>(&["a", "ü", "é ", "ß", "<x y='ÿ'/>", "&amp;", "<!-- &e; é -->", "<![CDATA[&e;]]>"]);
            text.push_str(piece);
            if entities && random.below(4) == 0 {
                let piece: &str = random.pick::<&str>(&["&e;", "&u;", "&n;"]);
                text.push_str(piece);
            }
        }
        items.push_str(&format!("<p:item n='{number}'>{text}</p:item>\n"));
    }
    format!("<list xmlns:p='urn:p'>\n{items}</list>")
}

const DOCUMENT_TYPE: &str = "<!DOCTYPE list [ <!ENTITY e \"ä\"> <!ENTITY u 'x&e;y'> <!ENTITY n \"\"> <!ENTITY out SYSTEM 'file:///x'> ]>";

#[test]
fn a_declared_encoding_and_entities_do_not_change_documents() {
    let mut random = Random::new(7);
    for round in 0..60 {
        let with_entities = round % 2 == 0;
        let body = body(&mut random, with_entities);
        let document_type = if with_entities { DOCUMENT_TYPE } else { "" };
        // what is literal stays
        let expand = |text: &str| {
            let text = text.replace("<!-- &e; é -->", "\u{1}").replace("<![CDATA[&e;]]>", "\u{2}");
            let text = text.replace("&e;", "ä").replace("&u;", "xäy").replace("&n;", "");
            text.replace('\u{1}', "<!-- &e; é -->").replace('\u{2}', "<![CDATA[&e;]]>")
        };
        let plain = if with_entities { expand(&body) } else { body.clone() };
        let expected = texts(&read_whole(plain.as_bytes(), Syntax::Xml, Some("list/*")));
        assert_eq!(expected.len(), 20);
        for encoding in ["ISO-8859-1", "latin1", "windows-1252", "UTF-8"] {
            let text = format!("<?xml version='1.0' encoding='{encoding}'?>\n{document_type}{body}");
            let file: Vec<u8> = match encoding {
                "UTF-8" => text.into_bytes(),
                _ => text.chars().map(|character| u8::try_from(u32::from(character)).expect("Latin-1")).collect(),
            };
            let cut = random.below(5) as u64 + 1;
            assert_eq!(texts(&read_whole(&file, Syntax::Xml, Some("list/*"))), expected, "{encoding}");
            assert_eq!(texts(&read_in_chunks(&file, Syntax::Xml, Some("list/*"), |number| number % cut == 0)), expected, "{encoding}");
            assert_eq!(texts(&read_in_chunks_cut_in_front(&file, Syntax::Xml, Some("list/*"), |number| number % cut == 0)), expected, "{encoding}");
        }
        for little in [true, false] {
            let text = format!("\u{feff}<?xml version='1.0' encoding='UTF-16'?>\n{document_type}{body}");
            let bytes = |unit: u16| if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            let file: Vec<u8> = text.encode_utf16().flat_map(bytes).collect();
            let opened = open_bytes(Box::new(std::io::Cursor::new(file))).expect("it opens");
            assert_eq!((opened.syntax, opened.is_plain()), (Some(Syntax::Xml), false));
            assert_eq!(texts(&support::collect(DocumentReader::new(opened.bytes, Syntax::Xml, Some("list/*")))), expected);
        }
    }
}

#[test]
fn an_encoding_that_is_not_known_is_named_where_it_matters() {
    let file =
        b"<?xml version='1.0' encoding='Shift_JIS'?><collection><record><leader/></record><record><leader>\x83\x41</leader></record></collection>";
    let documents = read_whole(file, Syntax::MarcXml, None);
    let errors = documents.iter().map(|(found, bytes)| Document::parse(&found.head.complete(bytes), Syntax::MarcXml, &found.head).err());
    let errors: Vec<_> = errors.map(|error| error.is_some_and(|error| error.to_string().contains("encoding that is not known"))).collect();
    assert_eq!(errors, [false, true]);
}

#[test]
fn entities_that_grow_without_end_are_refused() {
    let mut declared = String::from("<!ENTITY a0 'aaaaaaaaaaaaaaaaaaaa'>");
    for level in 1..10 {
        let before = format!("&a{};", level - 1).repeat(20);
        declared.push_str(&format!("<!ENTITY a{level} '{before}'>"));
    }
    // within the limit for any document, but not for such a short one
    let long = format!("<!ENTITY a '{}'>", "a".repeat(40_000));
    for (declared, used) in [
        (declared.as_str(), "&a9;"),
        ("<!ENTITY a '&b;'><!ENTITY b '&a;'>", "&a;"),
        ("<!ENTITY a SYSTEM 'file:///etc/hosts'>", "&a;"),
        (long.as_str(), "&a;"),
    ] {
        let file = format!("<!DOCTYPE r [{declared}]><r><i>{used}</i><i>sound</i></r>");
        let documents = read_whole(file.as_bytes(), Syntax::Xml, Some("r/*"));
        let parsed: Vec<bool> =
            documents.iter().map(|(found, bytes)| Document::parse(&found.head.complete(bytes), Syntax::Xml, &found.head).is_ok()).collect();
        assert_eq!(parsed, [false, true], "{used}");
    }
}

#[test]
fn text_in_utf16_is_read_in_every_format() {
    for (text, syntax) in
        [("id,name\r\n1,Bücher 𝄞\r\n", Syntax::Csv), ("[{\"a\": \"ü\"}]", Syntax::Json), ("=LDR  00000nam\r\n=001  ü\r\n", Syntax::MarcLine)]
    {
        let file: Vec<u8> = format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let mut opened = open_bytes(Box::new(std::io::Cursor::new(file))).expect("it opens");
        let mut read = String::new();
        opened.bytes.read_to_string(&mut read).expect("UTF-8");
        assert_eq!((opened.syntax, read), (Some(syntax), format!("\u{feff}{text}")));
    }
}

#[test]
fn documents_can_be_members_of_the_elements_of_a_list() {
    let record = r#"{"leader": "00000nam a2200000 i 4500", "fields": [{"001": "x1"}]}"#;
    let file = format!(
        r#"{{"total": 2, "records": [{{"id": "}}", "parsed": {{"id": 1, "content": {record}}}}}, {{"parsed": {{"content":{record}}}, "n": [1]}}, {{"parsed": 1}}]}}"#
    );
    assert_eq!(detect(file.as_bytes()), Some(Syntax::MarcJson));
    let records = Some("records[*].parsed.content");
    let whole = read_whole(file.as_bytes(), Syntax::MarcJson, records);
    let complete: Vec<Vec<u8>> = whole.iter().map(|(found, bytes)| found.head.complete(bytes).into_owned()).collect();
    assert_eq!(complete[..2], [record.as_bytes(), record.as_bytes()]);
    assert!(Document::parse(&complete[2], Syntax::MarcJson, &ParseContext::default()).is_err());
    assert_eq!(read_in_chunks(file.as_bytes(), Syntax::MarcJson, records, |_| true), whole);
    let bare = read_whole(b"[{\"a\": 1}, {\"a\": [2]}]", Syntax::Json, Some("[*].a"));
    assert_eq!(bare.iter().map(|(found, bytes)| found.head.complete(bytes).into_owned()).collect::<Vec<_>>(), [b"1".to_vec(), b"[2]".to_vec()]);
}

#[test]
fn records_in_line_mode_are_documents() {
    let file = b"=LDR  00000nam a2200000 i 4500\n=001  x1\n=245  10$aTitle\n\n=LDR  00000nam a2200000 i 4500\n=001  x2\n";
    assert_eq!(detect(file), Some(Syntax::MarcLine));
    let documents = read_whole(file, Syntax::MarcLine, None);
    assert_eq!(read_in_chunks(file, Syntax::MarcLine, None, |_| true), documents);
    let numbers = documents.iter().map(|(found, bytes)| match Document::parse(bytes, Syntax::MarcLine, &found.head) {
        Ok(Document::Marc(record)) => record.fields().next().map(|field| field.data.to_owned()),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [Some("x1".to_owned()), Some("x2".to_owned())]);
}
