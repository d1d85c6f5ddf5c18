//! Files of records: what is damaged in them is an error of its own, and every syntax gives back what was written.

use stook_marc::marcspec::MarcSpec;
use stook_marc::scan::{MarcScanner, MarcStep, records};
use stook_marc::write::{MarcSyntax, RecordWriter};
use stook_marc::{MarcBuilder, MarcError, MarcRecord, RECORD_END, RepairKind, Repairs, marcxml, roxmltree};

fn record(number: &str, title: &str) -> MarcRecord<'static> {
    let mut builder = MarcBuilder::new("00000nam a2200000 a 4500").expect("leader");
    builder.control("001", number).expect("control field");
    builder.data("245", "1", "0").expect("data field");
    builder.subfield("a", title).expect("subfield");
    builder.finish()
}

fn written(syntax: MarcSyntax, records: &[MarcRecord<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = RecordWriter::new(&mut out, syntax);
    records.iter().for_each(|record| writer.write(record).expect("it can be expressed"));
    assert_eq!(writer.finish().expect("memory"), records.len() as u64);
    out
}

fn bytes(record: &MarcRecord<'_>) -> Vec<u8> {
    record.to_iso2709().expect("short")
}

#[test]
fn records_after_a_damaged_one_are_found() {
    let mut file = written(MarcSyntax::Iso2709, &[record("1", "Carol"), record("2", "Cities"), record("3", "Hard Times")]);
    let second = file.iter().position(|byte| *byte == RECORD_END).expect("three records") + 1;
    file[second + 4] = b'x';
    file.extend_from_slice(b"\n00026");
    let found: Vec<_> = records(&file).collect();
    let number = MarcSpec::parse("001").expect("spec");
    let numbers = |found: &Result<MarcRecord<'_>, MarcError>| found.as_ref().map(|record| number.values(record).concat()).map_err(Clone::clone);
    let unterminated = MarcError::Shape("the file ends inside a record: there is no record terminator".into());
    assert_eq!(
        found.iter().map(numbers).collect::<Vec<_>>(),
        [Ok("1".into()), Err(MarcError::NotANumber("0-4 (record length)")), Ok("3".into()), Err(unterminated)]
    );
}

#[test]
fn a_scanner_finds_records_however_the_bytes_arrive() {
    let file = written(MarcSyntax::Iso2709, &[record("1", "Carol"), record("2", "Cities")]);
    let (mut scanner, mut start, mut found) = (MarcScanner::default(), 0, Vec::new());
    for end in 0..=file.len() {
        loop {
            match scanner.step(&file[start..end], end == file.len()) {
                MarcStep::Record(length) => found.push(MarcRecord::parse(&file[start..start + length]).map(|record| bytes(&record))),
                MarcStep::Skip(length) => {
                    start += length;
                    continue;
                }
                MarcStep::NeedMore | MarcStep::End => break,
                MarcStep::Unterminated(_) | MarcStep::Foreign(_) => panic!("both records are whole"),
            }
            start += found.last().and_then(|found| found.as_ref().ok()).map_or(0, Vec::len);
        }
    }
    assert_eq!(found, [Ok(bytes(&record("1", "Carol"))), Ok(bytes(&record("2", "Cities")))]);
}

#[test]
fn every_syntax_gives_back_what_was_written() {
    let all = [record("1", "Příliš <žluťoučký> & \"kůň\""), record("2", "Cities")];
    let expected: Vec<_> = all.iter().map(bytes).collect();
    let xml = String::from_utf8(written(MarcSyntax::Xml, &all)).expect("UTF-8");
    let document = roxmltree::Document::parse(&xml).expect("XML");
    let elements = document.root_element().children().filter(roxmltree::Node::is_element);
    assert_eq!(elements.map(|element| bytes(&marcxml::read(element).expect("record"))).collect::<Vec<_>>(), expected);
    let json: serde_json::Value = serde_json::from_slice(&written(MarcSyntax::Json, &all)).expect("JSON");
    let objects = json.as_array().into_iter().flatten();
    assert_eq!(objects.map(|object| bytes(&MarcRecord::from_json(object).expect("record"))).collect::<Vec<_>>(), expected);
    assert_eq!(written(MarcSyntax::Json, &[]), b"[]\n");
}

#[test]
fn what_a_syntax_cannot_express_is_written_in_its_nearest_form_and_reported() {
    let raw = b"00065nam a2200049 i 4500001000300000245001200003\x1ex1\x1e10Without\x0b.\x1e\x1d";
    let untidy = MarcRecord::parse(raw).expect("a strict reader takes it");
    let forms: Vec<_> = [MarcSyntax::Iso2709, MarcSyntax::Xml, MarcSyntax::Json, MarcSyntax::Line]
        .into_iter()
        .map(|syntax| {
            let (mut out, mut repairs) = (Vec::new(), Repairs::default());
            RecordWriter::new(&mut out, syntax).write_nearest(&untidy, &mut repairs).expect("memory");
            let kinds: Vec<_> = repairs.into_iter().map(|repair| repair.kind).collect();
            (String::from_utf8(out).expect("UTF-8"), kinds)
        })
        .collect();
    assert!(forms[0].0.contains("10\u{1f}aWithout\u{b}."), "{}", forms[0].0);
    assert!(forms[1].0.contains("<subfield code=\"a\">Without\u{fffd}.</subfield>"), "{}", forms[1].0);
    assert!(forms[2].0.contains("{\"a\":\"Without\\u000b.\"}"), "{}", forms[2].0);
    assert!(forms[3].0.contains("=245  10$aWithout\u{b}."), "{}", forms[3].0);
    let kinds_by_form: Vec<_> = forms.into_iter().map(|(_, kinds)| kinds).collect();
    let moved = vec![RepairKind::NoSubfield];
    assert_eq!(kinds_by_form, [moved.clone(), vec![RepairKind::NoSubfield, RepairKind::ControlCharacter], moved.clone(), moved]);
    // without a list for what was changed, text is kept and what cannot be kept is an error
    assert!(untidy.to_json().contains("Without"));
    assert_eq!(marcxml::write(&untidy), Err(MarcError::ControlCharacter("245".into())));
    assert!(RecordWriter::new(Vec::new(), MarcSyntax::Line).write(&untidy).is_err());

    let long = record("1", &"x".repeat(9_999));
    let error = long.to_nearest_iso2709(&mut Repairs::default());
    assert_eq!(error, Err(MarcError::TooLong { what: "field 245".into(), length: 10_004 }));
}
