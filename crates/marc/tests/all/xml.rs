//! MARCXML as people write it.

use stook_marc::{MarcField, ReadOptions, RepairKind, marcxml, show_tag};

const LEADER: &str = "<leader>00000nam a2200000 i 4500</leader>";
const TITLE: &str = "<datafield tag=\"245\" ind1=\"1\" ind2=\"0\"><subfield code=\"a\">Title</subfield></datafield>";

type Found = (Vec<String>, Vec<RepairKind>);

fn line(field: MarcField<'_>) -> String {
    if field.is_control() {
        return format!("{} {}", show_tag(field.tag), field.data);
    }
    let subfields: String = field.subfields().map(|(code, value)| format!("${code}{value}")).collect();
    format!("{} {}{subfields}", show_tag(field.tag), field.indicators().concat())
}

fn read(file: &[u8]) -> Vec<Found> {
    let found = marcxml::records(file, &ReadOptions::REPAIR).expect("XML");
    let found = found.into_iter().map(|found| found.expect("a record"));
    found.map(|found| (found.record.fields().map(line).collect(), found.repairs.into_iter().map(|repair| repair.kind).collect())).collect()
}

/// A record with one more field before its title, which must be there after it; a good record follows.
fn with(field: &str) -> Found {
    let file = format!(
        "<collection xmlns=\"http://www.loc.gov/MARC21/slim\"><record>{LEADER}<controlfield tag=\"001\">x1</controlfield>{field}{TITLE}</record>\
         <record>{LEADER}<controlfield tag=\"001\">x2</controlfield>{TITLE}</record></collection>"
    );
    assert!(marcxml::records(file.as_bytes(), &ReadOptions::STRICT).expect("XML")[0].is_err(), "a strict reader refuses it");
    let mut found = read(file.as_bytes());
    assert_eq!(found.pop(), Some((vec!["001 x2".to_owned(), "245 10$aTitle".to_owned()], vec![])));
    let (mut lines, repairs) = found.pop().expect("two records");
    assert_eq!((lines.remove(0), lines.pop()), ("001 x1".to_owned(), Some("245 10$aTitle".to_owned())));
    (lines, repairs)
}

fn check(field: &str, expected: &[&str], kinds: &[RepairKind]) {
    let (lines, repairs) = with(field);
    assert_eq!((lines.as_slice(), repairs.as_slice()), (expected.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice(), kinds), "{field}");
}

#[test]
fn fields_are_repaired() {
    use RepairKind::{ControlField, DataField, Foreign, Indicator, LongTag, NoSubfield, SubfieldCode, Tag};
    let sub = "<subfield code=\"a\">x</subfield>";
    check(&format!("<datafield tag=\"005\" ind1=\" \" ind2=\" \">{sub}</datafield>"), &["005 x"], &[ControlField]);
    check("<controlfield tag=\"500\">note</controlfield>", &["500   $anote"], &[DataField]);
    check(&format!("<controlfield tag=\"500\">{sub}</controlfield>"), &["500   $ax"], &[Indicator]);
    check("<datafield tag=\"500\" ind1=\" \" ind2=\" \"><subfield code=\"\">Test</subfield></datafield>", &["500   $aTest"], &[SubfieldCode]);
    check("<datafield tag=\"500\" ind1=\" \" ind2=\" \"><subfield>Test</subfield></datafield>", &["500   $aTest"], &[SubfieldCode]);
    check(&format!("<datafield tag=\"880\" ind1=\"\u{fffd}\" ind2=\"\u{fffd}\">{sub}</datafield>"), &["880   $ax"], &[Indicator]);
    check(&format!("<datafield tag=\"24510\">{sub}</datafield>"), &["245 10$ax"], &[LongTag]);
    check(&format!("<datafield tag=\"00500\" ind1=\"1\" ind2=\" \">{sub}</datafield>"), &["500 1 $ax"], &[LongTag]);
    check(&format!("<datafield ind1=\"1\" ind2=\" \">{sub}</datafield>"), &[], &[Tag]);
    check("<custom><deep>1</deep></custom>", &[], &[Foreign]);
    check("<datafield tag=\"500\" ind1=\" \" ind2=\" \">loose</datafield><custom/>", &["500   $aloose"], &[NoSubfield, Foreign]);
    check(
        "<datafield tag=\"500\" ind1=\" \" ind2=\" \"><subfield code=\"a\">A <i>B</i></subfield></datafield><custom/>",
        &["500   $aA B"],
        &[Foreign, Foreign],
    );
}

#[test]
fn missing_parts_are_added() {
    let file = format!(
        "<record><controlfield tag=\"001\">x1</controlfield><datafield tag=\"245\" ind2=\"0\"><subfield code=\"a\">T</subfield></datafield>{}</record>",
        "<datafield tag=\"500\"/>"
    );
    assert_eq!(
        read(file.as_bytes()),
        [(
            vec!["001 x1".to_owned(), "245  0$aT".to_owned(), "500   ".to_owned()],
            vec![RepairKind::Indicator, RepairKind::Indicator, RepairKind::Leader]
        )]
    );
    let file = "<m:record xmlns:m=\"urn:x\"><m:leader>     nam a22     i 4500</m:leader><m:controlfield tag=\"001\">x1</m:controlfield></m:record>";
    assert_eq!(read(file.as_bytes()), [(vec!["001 x1".to_owned()], vec![RepairKind::Leader])]);
}

#[test]
fn marcxml_is_read_in_its_encoding_with_its_entities_expanded() {
    let record = format!("<record>{LEADER}{}</record>", TITLE.replace("Title", "für &auml;"));
    let expected = |title: &str| vec![(vec![format!("245 10$a{title}")], vec![])];
    let dtd = format!("<?xml version=\"1.0\"?><!DOCTYPE collection [<!ENTITY auml \"ä\">]><collection>{record}</collection>");
    assert_eq!(read(dtd.as_bytes()), expected("für ä"));
    let units: Vec<u8> = [0xfeff].into_iter().chain(dtd.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&units), expected("für ä"));
    let latin = format!("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?>{}", record.replace("&auml;", ""));
    let latin: Vec<u8> = latin.chars().map(|character| character as u8).collect();
    assert_eq!(read(&latin), expected("für "));
    let cut = [b"<record>".as_slice(), LEADER.as_bytes(), b"<controlfield tag=\"001\">x\xff</controlfield></record>"].concat();
    assert_eq!(read(&cut), [(vec!["001 x\u{fffd}".to_owned()], vec![RepairKind::Character])]);
    assert!(marcxml::records(&cut, &ReadOptions::STRICT).is_err());
}

#[test]
fn records_of_a_harvest_are_found_in_others() {
    let file = format!(
        "<OAI-PMH><ListRecords><record><header status=\"deleted\"><identifier>1</identifier></header></record><record><header/><metadata>\
         <record>{LEADER}{TITLE}</record></metadata></record></ListRecords></OAI-PMH>"
    );
    assert_eq!(read(file.as_bytes()), [(vec!["245 10$aTitle".to_owned()], vec![])]);
}
