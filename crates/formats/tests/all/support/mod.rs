//! Helpers of this crate's tests: reading a file in every possible way, samples, and a small random generator.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::Command;
use stook_formats::Syntax;
use stook_formats::marc::{MarcBuilder, MarcRecord};
use stook_formats::read::{DocumentRange, DocumentReader, ScannedDocument, each};
use stook_formats::scan::{ScanOptions, ScanStep, Scanner};

/// A document as it was read from a file, with its bytes.
pub type Document = (ScannedDocument, Vec<u8>);

/// Every document of a file, read in one piece.
pub fn read_whole(file: &[u8], syntax: Syntax, records: Option<&str>) -> Vec<Document> {
    collect(DocumentReader::new(file, syntax, records))
}

/// Every document that `documents` still returns.
pub fn collect(mut documents: DocumentReader<impl Read>) -> Vec<Document> {
    let mut all = Vec::new();
    while let Some((found, bytes)) = documents.next().unwrap_or_else(|error| panic!("{error}")) {
        all.push((found, bytes.to_vec()));
    }
    all
}

/// Number, offset, text and whether there is a problem: what tests compare.
pub fn summary(documents: &[Document]) -> Vec<(u64, u64, String, bool)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    documents.iter().map(|(found, bytes)| (found.number, found.offset, text(bytes), found.problem.is_some())).collect()
}

/// A reader that returns one to seven bytes at a time.
pub struct Trickle<'a> {
    rest: &'a [u8],
    random: Random,
}

impl<'a> Trickle<'a> {
    pub fn new(bytes: &'a [u8], seed: u64) -> Self {
        Self { rest: bytes, random: Random::new(seed) }
    }
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = (1 + self.random.below(7)).min(buffer.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(length);
        buffer[..length].copy_from_slice(now);
        self.rest = later;
        Ok(length)
    }
}

/// The documents of a file when the scanner gets one to `most` more bytes at a time: its results must not depend on how much of the file it sees.
/// Number, offset, bytes and problem of each.
pub fn scan_stepwise(file: &[u8], syntax: Syntax, records: Option<&str>, most: usize, seed: u64) -> Vec<(u64, u64, Vec<u8>, Option<String>)> {
    let mut random = Random::new(seed);
    let mut scanner = Scanner::new(syntax, records);
    let mut all = Vec::new();
    let mut at = if file.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut seen = at;
    let mut idle = 0;
    loop {
        let at_end = seen == file.len();
        let before = at;
        match scanner.step(&file[at..seen], at_end) {
            ScanStep::End => break,
            ScanStep::NeedMore => {
                assert!(!at_end, "the scanner wants more where nothing follows");
                seen = file.len().min(seen + 1 + random.below(most));
                continue;
            }
            ScanStep::Skip(length) => {
                at += length;
                if at_end && at == file.len() {
                    break;
                }
            }
            ScanStep::Document { bytes, next } => {
                let number = all.len() as u64 + 1;
                all.push((number, (at + bytes.start) as u64, file[at + bytes.start..at + bytes.end].to_vec(), None));
                at += next;
            }
            ScanStep::Problem { bytes, next, reason } => {
                let number = all.len() as u64 + 1;
                all.push((number, (at + bytes.start) as u64, file[at + bytes.start..at + bytes.end].to_vec(), Some(reason)));
                at += next;
            }
        }
        idle = if at == before { idle + 1 } else { 0 };
        assert!(idle < 3 && at <= seen, "the scanner does not get on at byte {at}");
    }
    let early = scanner.ends_early();
    all.extend(early.map(|reason| (all.len() as u64 + 1, at as u64, Vec::new(), Some(reason))));
    all
}

/// Reads a file, splits it after every document that `cuts_after` chooses by its number, and reads the pieces one by one, each with nothing but the
/// head, number and offset at its beginning.
pub fn read_in_chunks(file: &[u8], syntax: Syntax, records: Option<&str>, cuts_after: impl Fn(u64) -> bool) -> Vec<Document> {
    read_in_chunks_with(file, syntax, records.into(), cuts_after)
}

/// The same with any options.
pub fn read_in_chunks_with(file: &[u8], syntax: Syntax, options: ScanOptions<'_>, cuts_after: impl Fn(u64) -> bool) -> Vec<Document> {
    let mut documents = DocumentReader::new(Trickle::new(file, 1), syntax, options);
    let mut cuts = vec![(0, 0, Vec::new())];
    let mut count = 0;
    while let Some((found, _)) = documents.next().unwrap_or_else(|error| panic!("{error}")) {
        count = found.number;
        if cuts_after(found.number) {
            cuts.push((found.number, documents.offset(), documents.head()));
        }
    }
    let ends = cuts.iter().skip(1).map(|(number, offset, _)| (*offset as usize, *number)).chain([(file.len(), count)]);
    let piece = |((number, offset, head), (end, last)): (&(u64, u64, Vec<u8>), (usize, u64))| {
        reread(&file[..end], syntax, options, DocumentRange { before: *number, offset: *offset, last }, head)
    };
    let pieces = cuts.iter().zip(ends).map(piece);
    pieces.flatten().collect()
}

/// Like the function above, but with pieces from the first byte of a document to the last byte of another, and the head taken once the first was
/// read.
pub fn read_in_chunks_cut_in_front(file: &[u8], syntax: Syntax, records: Option<&str>, cuts_after: impl Fn(u64) -> bool) -> Vec<Document> {
    read_in_chunks_cut_in_front_with(file, syntax, records.into(), cuts_after)
}

/// The same with any options.
pub fn read_in_chunks_cut_in_front_with(file: &[u8], syntax: Syntax, options: ScanOptions<'_>, cuts_after: impl Fn(u64) -> bool) -> Vec<Document> {
    let mut documents = DocumentReader::new(file, syntax, options);
    let mut all = Vec::new();
    let mut piece = None;
    while let Some((found, _)) = documents.next().unwrap_or_else(|error| panic!("{error}")) {
        let (before, offset, head) = piece.take().unwrap_or_else(|| (found.number - 1, found.offset, documents.head()));
        if cuts_after(found.number) {
            let end = documents.offset() as usize;
            all.extend(reread(&file[..end], syntax, options, DocumentRange { before, offset, last: found.number }, &head));
        } else {
            piece = Some((before, offset, head));
        }
    }
    if let Some((before, offset, head)) = piece {
        all.extend(reread(file, syntax, options, DocumentRange { before, offset, last: u64::MAX }, &head));
    }
    all
}

/// Reads what follows `offset` with nothing but a head, in small pieces and at once.
fn reread(file: &[u8], syntax: Syntax, options: ScanOptions<'_>, range: DocumentRange, head: &[u8]) -> Vec<Document> {
    let piece = &file[range.offset as usize..];
    let scanner = || Scanner::resume(syntax, options, head);
    let trickled = collect(DocumentReader::with_scanner(Trickle::new(piece, range.before), scanner(), range));
    let mut whole = Vec::new();
    let visit = |found: ScannedDocument, bytes: &[u8]| -> Result<(), std::convert::Infallible> {
        whole.push((found, bytes.to_vec()));
        Ok(())
    };
    let Ok(()) = each(piece, scanner(), range, visit);
    assert_eq!(whole, trickled, "{syntax:?} from {}", range.offset);
    trickled
}

/// A file in a syntax, and the definition's `records` for it.
pub struct Sample {
    pub name: &'static str,
    pub syntax: Syntax,
    pub records: Option<&'static str>,
    pub file: Vec<u8>,
}

/// Small files of every syntax, with everything that is allowed between documents and some things that are not.
pub fn samples() -> Vec<Sample> {
    let sample = |name, syntax, records, file: &[u8]| Sample { name, syntax, records, file: file.to_vec() };
    let records: Vec<Vec<u8>> = (1..=5).map(|number| iso2709(&small_record(number))).collect();
    let marc = [records[0].as_slice(), b"\r\n", &records[1], &records[2], b"\n00026 garbage\x1d", &records[3], &records[4], b"\n\x1a"].concat();
    let marcxml = "\u{feff}<?xml version=\"1.0\"?>\n<!-- <record> -->\n<marc:collection xmlns:marc='http://www.loc.gov/MARC21/slim' \
        title=\"a > b\">\n<marc:record><marc:leader>00000nam a2200000   4500</marc:leader>\
        <marc:controlfield tag='001'>1</marc:controlfield></marc:record>\n<marc:record/>text<!-- </marc:record> -->\
        <marc:record><marc:leader>00000nam a2200000   4500</marc:leader><marc:controlfield tag='001'><![CDATA[</marc:record>]]>3\
        </marc:controlfield></marc:record><marc:record> </marc:record></marc:collection>\n";
    let oai = "<OAI-PMH xmlns='http://www.openarchives.org/OAI/2.0/'><ListRecords><record><header/><metadata>\
        <record xmlns='http://www.loc.gov/MARC21/slim'><leader>00000nam a2200000   4500</leader></record></metadata></record>\n\
        <record><metadata><m:record xmlns:m='http://www.loc.gov/MARC21/slim'><m:leader>00000nam a2200000   4500</m:leader>\
        </m:record></metadata></record><record><header status='deleted'/></record></ListRecords></OAI-PMH>";
    let xml = "<?xml version='1.0'?><!DOCTYPE list [ <!-- don't --> <!ENTITY x \"]>\"> ]>\n<list xmlns:p='urn:p'>\n <a b='1>2'/>\n \
        between <a><a/><p:c>x</p:c></a><?pi <a>?><p:b>ü</p:b>\n</list>\n<list><a>of a second file</a></list>";
    let wrapped = "<root xmlns='urn:r'><group xmlns:p='urn:1'><p:item n='1'/><p:item n='2'></p:item></group>\
        <group xmlns:p='urn:2'><deep xmlns:q='urn:q'><item><item n='3'/></item></deep><p:item n='4'/></group><item/></root>";
    let json = r#" [ {"a": "]},"} , [1,2] , "x\"y" , 17 , null,
        {"b": {"c": []}}, nonsense, {"d": 1} ] "#;
    let lines = "{\"a\":1}\r\n\n{\"a\": 2, \"b\": \"}{\"}\n{\"broken\": [\n  \n{\"a\":4}\n{\"a\":5}";
    let values = "{\n  \"a\": [\n{\"not\": \"a line\"}\n]}\n{\"b\": 2}{\"c\":3} 4 \"five\"\n[6]";
    let arrays = "[1, {\"a\": 2}]\n[3]\n";
    let member = r#"{"count": 3, "other": [0, {"value": []}], "value": [{"a": 1}, {"a": 2}, {"a": 3}], "next": null}"#;
    let csv = "id,name,note\r\n1,\"Brahms, Johannes\",\"two\r\nlines\"\r\n\r\n2,5\" disk,a \"quote\" inside\n3,\"with \"\"quotes\"\"\",\n\
        4,\"never closed,x\n5,\"sound\",x\n6,,\n";
    let semicolons = "\u{feff}\"a;,b,c\";b\n1;\"x;\ny\"\n2;\"\"\"\"\n3;z";
    vec![
        sample("ISO 2709", Syntax::Marc, None, &marc),
        sample("MARCXML", Syntax::MarcXml, None, marcxml.as_bytes()),
        sample("MARCXML in OAI-PMH", Syntax::MarcXml, None, oai.as_bytes()),
        sample("XML, the children of an element", Syntax::Xml, Some("list/*"), xml.split_inclusive("</list>").next().unwrap_or_default().as_bytes()),
        sample("XML, the outermost element", Syntax::Xml, None, [xml, "\n<other/>"].concat().as_bytes()),
        sample("XML, a chosen element", Syntax::Xml, Some("item"), wrapped.as_bytes()),
        sample("JSON array", Syntax::Json, None, json.as_bytes()),
        sample("JSON lines", Syntax::Json, None, lines.as_bytes()),
        sample("JSON values", Syntax::Json, None, values.as_bytes()),
        sample("JSON arrays", Syntax::Json, None, arrays.as_bytes()),
        sample("JSON member", Syntax::Json, Some("value"), member.as_bytes()),
        sample("CSV", Syntax::Csv, None, csv.as_bytes()),
        sample("CSV with semicolons", Syntax::Csv, None, semicolons.as_bytes()),
    ]
}

/// A record with a control number and a heading.
pub fn small_record(number: u32) -> MarcRecord<'static> {
    let built = MarcBuilder::new("00000nz  a2200000n  4500").and_then(|mut builder| {
        builder.control("001", &format!("n{number}"))?;
        builder.data("100", "1", " ")?;
        builder.subfield("a", "Dvořák, Antonín,")?;
        builder.subfield("d", "1841-1904")?;
        Ok(builder.finish())
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

pub fn iso2709(record: &MarcRecord<'_>) -> Vec<u8> {
    record.to_iso2709().unwrap_or_else(|error| panic!("{error}"))
}

/// xorshift64*, enough to vary tests and the same on every run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from 0 to `limit` - 1.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// A valid record with random tags, indicators, subfields and characters.
pub fn random_record(random: &mut Random) -> MarcRecord<'static> {
    let leader = format!("00000{}{}{}{}a2200000{}{} 4500", random.pick(&["c", "n"]), random.pick(&["a", "z"]), "m", " ", "n", "a");
    let built = MarcBuilder::new(&leader).and_then(|mut builder| {
        for _ in 0..random.below(4) {
            let (tag, text) = (format!("00{}", 1 + random.below(9)), random_text(random, 40));
            builder.control(&tag, &text)?;
        }
        for _ in 0..1 + random.below(12) {
            let tag = format!("{:03}", 10 + random.below(990));
            let indicators = [*random.pick(&[" ", "0", "1", "a", "#"]), *random.pick(&[" ", "4", "9", "|", "&"])];
            builder.data(&tag, indicators[0], indicators[1])?;
            for _ in 0..1 + random.below(6) {
                let code = *random.pick(&["a", "b", "c", "x", "0", "9", "$", "<", "\""]);
                let text = random_text(random, 60);
                builder.subfield(code, &text)?;
            }
        }
        Ok(builder.finish())
    });
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// Text of up to `most` characters from all of Unicode, without the control characters that no syntax can express.
pub fn random_text(random: &mut Random, most: usize) -> String {
    let length = random.below(most + 1);
    let mut text = String::new();
    while text.chars().count() < length {
        let code = match random.below(8) {
            0..=3 => 0x20 + random.below(0x5f),
            4 => 0xa0 + random.below(0x500),
            5 => 0x4e00 + random.below(0x2000),
            6 => *random.pick(&['<' as usize, '&' as usize, '"' as usize, '\\' as usize, ']' as usize, 0x301, 0x200d, 0xfe20]),
            _ => 0x1_f300 + random.below(0x300),
        };
        text.extend(char::from_u32(code as u32));
    }
    text
}

/// A Python that can import `module`.
pub fn python(module: &str) -> Option<PathBuf> {
    let of_home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/stook/venv/bin/python"));
    let python = std::env::var_os("STOOK_TEST_PYTHON").map(PathBuf::from).or_else(of_home)?;
    let probed = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if probed.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    stook_testkit::skip::missing(&format!("{} cannot import {module}", python.display()));
    None
}
