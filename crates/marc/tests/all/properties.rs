//! Whatever the bytes are: nothing panics, scanners do not depend on how bytes arrive, and what is written is read back.

use crate::support;

use proptest::prelude::*;
use stook_marc::scan::{self, MarcScanner, MarcStep};
use stook_marc::write::{MarcSyntax, RecordWriter};
use stook_marc::{Encoding, MarcRecord, ReadOptions, Repairs, Tolerance, line, marcxml, xmltext};
use support::raw;

const ENCODINGS: [Encoding; 5] = [Encoding::Auto, Encoding::Utf8, Encoding::Marc8, Encoding::Latin1, Encoding::Cp1252];
const SYNTAXES: [MarcSyntax; 4] = [MarcSyntax::Iso2709, MarcSyntax::Xml, MarcSyntax::Json, MarcSyntax::Line];

fn tag() -> impl Strategy<Value = String> {
    prop_oneof![Just("001".to_owned()), Just("008".to_owned()), "[1-9][0-9]{2}", "[A-Z]{3}", "[!-~]{3}"]
}

/// Data as they should be, and all that they should not.
fn data() -> impl Strategy<Value = Vec<u8>> {
    let value = "([ -~]|[\u{1f}$\\\\{}&<\"éä中\u{301}\u{fffd}]){0,12}";
    prop_oneof![
        4 => ("[0-9 ]{2}", prop::collection::vec(("[a-z0-9]", value), 0..4)).prop_map(|(indicators, subfields)| {
            let subfields: String = subfields.into_iter().map(|(code, value)| format!("\u{1f}{code}{value}")).collect();
            format!("{indicators}{subfields}").into_bytes()
        }),
        1 => value.prop_map(String::into_bytes),
        1 => "\\PC{0,20}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..24),
    ]
}

fn record() -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(vec!['a', ' ']), prop::collection::vec((tag(), data()), 0..8)).prop_map(|(encoding, fields)| {
        let fields: Vec<(&str, &[u8])> = fields.iter().map(|(tag, data)| (tag.as_str(), data.as_slice())).collect();
        raw(&format!("00000nam {encoding}2200000 i 4500"), &fields)
    })
}

/// A change of a few bytes.
#[derive(Debug, Clone)]
enum Change {
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Cut(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![any::<u8>(), prop::sample::select(vec![0x1d_u8, 0x1e, 0x1f, 0, b' ', b'0', b'9', 0xff])];
    prop_oneof![
        (any::<usize>(), byte.clone()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (any::<usize>(), 1..20_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        (any::<usize>(), prop::collection::vec(byte, 1..20)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        any::<usize>().prop_map(Change::Cut),
    ]
}

fn apply(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match change {
            Change::Set(at, byte) => bytes[at % length] = *byte,
            Change::Remove(at, count) => drop(bytes.drain(at % length..(at % length + count).min(length))),
            Change::Insert(at, new) => drop(bytes.splice(at % length..at % length, new.iter().copied())),
            Change::Cut(at) => bytes.truncate(at % length),
        }
    }
    bytes
}

/// A file of records, damaged here and there.
fn file() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (prop::collection::vec(record(), 1..5), prop::collection::vec(change(), 0..5)).prop_map(|(records, changes)| apply(records.concat(), &changes)),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

type Line = (String, [String; 2], Vec<(String, String)>);

/// A record without what is computed when it is written.
fn content(record: &MarcRecord<'_>) -> (String, Vec<Line>) {
    let fields = record.fields().map(|field| {
        let tag = stook_marc::show_tag(field.tag);
        if field.is_control() {
            return (tag, ["".into(), "".into()], vec![("".to_owned(), field.data.to_owned())]);
        }
        (tag, field.indicators().map(str::to_owned), field.subfields().map(|(code, value)| (code.to_owned(), value.to_owned())).collect())
    });
    let leader = record.leader();
    (format!("{}{}{}", &leader[5..9], &leader[10..12], &leader[17..]), fields.collect())
}

/// Writes a record and reads it back.
fn back(record: &MarcRecord<'_>, syntax: MarcSyntax, repairs: &mut Repairs) -> Option<MarcRecord<'static>> {
    let mut out = Vec::new();
    let mut writer = RecordWriter::new(&mut out, syntax);
    writer.write_nearest(record, repairs).ok()?;
    writer.finish().expect("memory");
    let options = ReadOptions::REPAIR;
    let mut again = Repairs::default();
    let found = match syntax {
        MarcSyntax::Iso2709 => {
            let record = MarcRecord::read(&out, &options, &mut again).expect("ISO 2709");
            MarcRecord::from_json(&serde_json::from_str(&record.to_json()).expect("JSON")).expect("a record")
        }
        MarcSyntax::Json => {
            let list: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
            MarcRecord::read_json(&list[0], &options, &mut again).expect("MARC-in-JSON")
        }
        MarcSyntax::Xml => {
            let found = marcxml::records(&out, &options).expect("XML").remove(0).expect("MARCXML");
            again = found.repairs;
            found.record
        }
        MarcSyntax::Line => {
            let found: Vec<_> = line::records(&out, options).collect();
            assert_eq!(found.len(), 1);
            let found = found.into_iter().next().expect("one").expect("line mode");
            again = found.repairs;
            found.record
        }
    };
    assert!(again.is_empty(), "{syntax:?} {again:?}");
    Some(found)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_back(bytes in file(), encoding in prop::sample::select(ENCODINGS.to_vec())) {
        for found in scan::read(&bytes, ReadOptions::REPAIR.with_encoding(encoding)).flatten() {
            let record = found.record;
            for syntax in SYNTAXES {
                let mut repairs = Repairs::default();
                let Some(again) = back(&record, syntax, &mut repairs) else { continue };
                // what was replaced is named
                if repairs.is_empty() {
                    prop_assert_eq!(content(&again), content(&record), "{:?}", syntax);
                }
            }
        }
    }

    #[test]
    fn strict_reading_is_repaired_reading_where_nothing_is_wrong(bytes in record()) {
        let mut repairs = Repairs::default();
        let repaired = MarcRecord::read(&bytes, &ReadOptions::REPAIR, &mut repairs).expect("a directory that is right");
        if let (Ok(strict), true) = (MarcRecord::parse(&bytes), repairs.is_empty()) {
            prop_assert_eq!(content(&strict), content(&repaired));
        }
    }

    #[test]
    fn scanners_do_not_depend_on_how_bytes_arrive(bytes in file(), size in 1..40_usize, repair in any::<bool>()) {
        let tolerance = if repair { Tolerance::Repair } else { Tolerance::Strict };
        let whole = steps(&bytes, bytes.len(), tolerance);
        prop_assert_eq!(&steps(&bytes, size, tolerance), &whole);
        // a stretch alone is what it is in the file
        let mut at = 0;
        for (step, length) in whole {
            let alone = MarcScanner::new(tolerance).step(&bytes[at..at + length], true);
            prop_assert_eq!(kind(alone), Some((step, length)));
            at += length;
        }
        prop_assert_eq!(at, bytes.len());
    }

    #[test]
    fn readers_of_line_mode_and_marcxml_never_panic(text in "([ -~\n=<>&;$]|[\\PC]){0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80), at in any::<usize>(), fields in file()) {
        let _ = line::records(text.as_bytes(), ReadOptions::REPAIR).count();
        let _ = line::records(&bytes, ReadOptions::REPAIR.with_encoding(Encoding::Latin1)).count();
        let _ = xmltext::document(format!("<!DOCTYPE a [<!ENTITY a \"{text}\"><!ENTITY{text}]>&a;{text}").as_bytes(), 1000);
        let _ = marcxml::records(&bytes, &ReadOptions::REPAIR);
        for found in scan::read(&fields, ReadOptions::REPAIR).flatten() {
            let mut xml = marcxml::write_nearest(&found.record, &mut Repairs::default());
            let positions: Vec<usize> = xml.char_indices().map(|(at, _)| at).collect();
            let position = positions[at % positions.len()];
            xml.insert_str(position, &text);
            let _ = marcxml::records(xml.as_bytes(), &ReadOptions::REPAIR);
            let lines = line::write_nearest(&found.record, &mut Repairs::default());
            let _ = line::records(&apply(lines.into_bytes(), &[Change::Insert(at, bytes.clone())]), ReadOptions::REPAIR).count();
        }
    }
}

/// The stretches of a file by kind and length, padding that is divided brought together.
fn steps(bytes: &[u8], size: usize, tolerance: Tolerance) -> Vec<(u8, usize)> {
    let (mut scanner, mut start, mut end, mut found) = (MarcScanner::new(tolerance), 0, 0, Vec::<(u8, usize)>::new());
    loop {
        let at_end = end == bytes.len();
        match kind(scanner.step(&bytes[start..end], at_end)) {
            Some((step, length)) => {
                assert!(length > 0);
                start += length;
                match found.last_mut() {
                    Some((3, before)) if step == 3 => *before += length,
                    _ => found.push((step, length)),
                }
            }
            None if at_end => return found,
            None => end = (end + size).min(bytes.len()),
        }
    }
}

fn kind(step: MarcStep) -> Option<(u8, usize)> {
    match step {
        MarcStep::Record(length) => Some((0, length)),
        MarcStep::Unterminated(length) => Some((1, length)),
        MarcStep::Foreign(length) => Some((2, length)),
        MarcStep::Skip(length) => Some((3, length)),
        MarcStep::NeedMore | MarcStep::End => None,
    }
}
