//! Files of records: what is damaged in them is an error of its own, and every syntax gives back what was written.

use stook_marc::marcspec::MarcSpec;
use stook_marc::scan::{MarcScanner, MarcStep, records};
use stook_marc::write::{MarcSyntax, RecordWriter};
use stook_marc::{MarcBuilder, MarcError, MarcRecord, RECORD_END, marcxml, roxmltree};

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
                MarcStep::Unterminated(_) => panic!("both records are whole"),
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
