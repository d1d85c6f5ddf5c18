//! Damage as it is met in files of libraries, made here: what is read of it, and what is told.

use crate::support;

use stook_marc::scan::{self, MarcScanner, MarcStep};
use stook_marc::{Encoding, MarcError, MarcRecord, ReadOptions, Repair, RepairKind, Repairs, Tolerance, marc8, show_tag};
use support::raw;

const LEADER: &str = "00000nam a2200000 i 4500";

fn titled(number: &str, title: &[u8]) -> Vec<u8> {
    raw(LEADER, &[("001", number.as_bytes()), ("008", b"190101s2019    xx            000 0 eng d"), ("245", &[b"10\x1fa", title].concat())])
}

/// A record in short: a line for each field.
fn lines(record: &MarcRecord<'_>) -> Vec<String> {
    let line = |field: stook_marc::MarcField<'_>| {
        if field.is_control() {
            return format!("{} {}", show_tag(field.tag), field.data);
        }
        let subfields: String = field.subfields().map(|(code, value)| format!("${code}{value}")).collect();
        format!("{} {}{subfields}", show_tag(field.tag), field.indicators().concat())
    };
    record.fields().map(line).collect()
}

/// What was read of a record: its fields and what was repaired, or why it failed.
type RecordRead = Result<(Vec<String>, Vec<RepairKind>), String>;

/// What is read of a file: lines of each record with the kinds of repairs, or its error.
fn read_as(file: &[u8], encoding: Encoding) -> Vec<RecordRead> {
    scan::read(file, ReadOptions::REPAIR.with_encoding(encoding))
        .map(|found| {
            let found = found.map_err(|error| error.to_string())?;
            assert_eq!(found.record.leader().len(), 24);
            Ok((lines(&found.record), found.repairs.into_iter().map(|repair| repair.kind).collect()))
        })
        .collect()
}

/// The one record of a file, between two good ones that must be there.
fn between(damaged: &[u8]) -> (Vec<String>, Vec<RepairKind>) {
    let file = [&titled("g1", b"Before"), damaged, &titled("g2", b"After")].concat();
    let mut found = read_as(&file, Encoding::Auto);
    assert_eq!(found.len(), 3, "{found:?}");
    for (at, number) in [(0, "001 g1"), (2, "001 g2")] {
        let (lines, repairs) = found[at].clone().expect("a good neighbour");
        assert_eq!((lines[0].as_str(), repairs), (number, vec![]));
    }
    found.remove(1).expect("it is repaired")
}

/// The fields and repairs of a damaged record.
fn check(damaged: &[u8], expected: &[&str], kinds: &[RepairKind]) {
    let (lines, repairs) = between(damaged);
    assert_eq!(lines, expected);
    assert_eq!(repairs, kinds);
    if !kinds.contains(&RepairKind::Indicator) && !kinds.contains(&RepairKind::NoSubfield) && !kinds.contains(&RepairKind::Encoding) {
        assert!(MarcRecord::parse(damaged).is_err(), "a strict reader refuses it");
    }
}

const TITLE: [&str; 3] = ["001 x1", "008 190101s2019    xx            000 0 eng d", "245 10$aMesarović"];

#[test]
fn a_wrong_length_is_ignored() {
    for length in ["00119", "00100", "00122", "99999", "00000", "-0001", "0012 ", "     ", "12345"] {
        let mut damaged = titled("x1", "Mesarović".as_bytes());
        damaged[..5].copy_from_slice(length.as_bytes());
        check(&damaged, &TITLE, &[RepairKind::RecordLength]);
    }
}

#[test]
fn a_wrong_base_address_is_ignored() {
    for base in ["00060", "00000", "99999", "00073", "abcde", "00044"] {
        let mut damaged = titled("x1", "Mesarović".as_bytes());
        damaged[12..17].copy_from_slice(base.as_bytes());
        check(&damaged, &TITLE, &[RepairKind::BaseAddress]);
    }
}

#[test]
fn wrong_entries_are_ignored() {
    for (at, entry) in
        [(24, "001000400000"), (36, "0080041x0003"), (48, "245999900044"), (48, "245001599999"), (36, "008001500044"), (24, "001\0\0\0\0\0\0\0\0\0")]
    {
        let mut damaged = titled("x1", "Mesarović".as_bytes());
        damaged[at..at + 12].copy_from_slice(entry.as_bytes());
        let (lines, repairs) = between(&damaged);
        assert_eq!((lines.as_slice(), repairs.as_slice()), (TITLE.map(str::to_owned).as_slice(), [RepairKind::FieldPosition].as_slice()), "{entry}");
    }
}

#[test]
fn bytes_that_are_lost_or_inserted_move_fields() {
    let good = titled("x1", b"Title");
    let mut shorter = good.clone();
    shorter.remove(65);
    let (lines, repairs) = between(&shorter);
    assert_eq!(lines[2], "245 10$aTitle");
    assert!(repairs.contains(&RepairKind::FieldPosition) && repairs.contains(&RepairKind::RecordLength));
    for at in 24..60 {
        let mut damaged = good.clone();
        damaged.remove(at);
        let (lines, _) = between(&damaged);
        assert_eq!(lines.len(), 3, "without byte {at}: {lines:?}");
        assert!(lines[2].ends_with("10$aTitle"), "{lines:?}");
        let mut damaged = good.clone();
        damaged.insert(at, b'7');
        let (lines, _) = between(&damaged);
        assert_eq!(lines.len(), 3, "with a byte before {at}: {lines:?}");
    }
}

#[test]
fn a_byte_lost_in_an_early_field_does_not_move_the_others() {
    let mut fields: Vec<(&str, &[u8])> = vec![("001", b"x1"), ("245", b"10\x1faTitle\x1fcby")];
    fields.extend(std::iter::repeat_n(("500", b"  \x1fanote".as_slice()), 8));
    let mut damaged = raw(LEADER, &fields);
    let at = damaged.windows(3).position(|bytes| bytes == b"\x1fcb").expect("it is there");
    damaged.remove(at);
    let (lines, repairs) = between(&damaged);
    assert_eq!((lines.len(), lines[1].as_str(), lines[9].as_str()), (10, "245 10$aTitlecby", "500   $anote"));
    assert!(!repairs.contains(&RepairKind::NoEntry), "{repairs:?}");
}

#[test]
fn a_leader_that_is_too_short_or_too_long_is_read_by_its_fixed_parts() {
    let mut shorter = titled("x1", "Mesarović".as_bytes());
    shorter.remove(0);
    check(&shorter, &TITLE, &[RepairKind::Directory, RepairKind::Leader]);
    let mut longer = titled("x1", "Mesarović".as_bytes());
    longer.insert(8, b' ');
    check(&longer, &TITLE, &[RepairKind::Directory, RepairKind::Leader]);
}

#[test]
fn fields_and_records_may_be_longer_than_iso_2709_allows() {
    let long = [b"0 \x1fa".as_slice(), &b"c".repeat(12_000)].concat();
    let mut damaged = raw(LEADER, &[("001", b"x1"), ("245", b"10\x1faBig"), ("505", &long), ("500", b"  \x1faend")]);
    damaged.remove(51);
    damaged.splice(51..55, *b"999");
    // its length has four digits, as far as there is space for
    damaged.splice(51..54, *b"9999");
    let (lines, _) = between(&damaged);
    assert_eq!([lines[0].len(), lines[1].len(), lines[2].len(), lines[3].len()], [6, 11, 12_008, 11]);

    let note = [b"  \x1fa".as_slice(), &b"n".repeat(9_000)].concat();
    let mut fields: Vec<(&str, &[u8])> = vec![("001", b"x1"), ("245", b"10\x1faBig")];
    fields.extend(std::iter::repeat_n(("500", note.as_slice()), 13));
    fields.push(("999", b"  \x1faend"));
    let mut directory = Vec::new();
    let mut data = Vec::new();
    for (tag, content) in &fields {
        directory.extend_from_slice(format!("{tag}{:04}{:05}", content.len() + 1, data.len() % 100_000).as_bytes());
        data.extend_from_slice(content);
        data.push(0x1e);
    }
    let leader = format!("99999nam a22{:05} i 4500", 25 + directory.len());
    let damaged = [leader.as_bytes(), &directory, b"\x1e", &data, b"\x1d"].concat();
    let (lines, repairs) = between(&damaged);
    assert_eq!((lines.len(), lines[15].as_str()), (16, "999   $aend"));
    assert_eq!(repairs, [RepairKind::FieldPosition, RepairKind::FieldPosition, RepairKind::RecordLength]);
}

#[test]
fn records_without_terminators_are_read() {
    let good = titled("x1", "Mesarović".as_bytes());
    // of the record
    check(&good[..good.len() - 1], &TITLE, &[RepairKind::Terminator]);
    // of the last field
    let mut damaged = good.clone();
    damaged.remove(good.len() - 2);
    let (lines, repairs) = between(&damaged);
    assert_eq!(lines, TITLE);
    assert!(repairs.contains(&RepairKind::Terminator), "{repairs:?}");
    // of the directory
    let mut damaged = good.clone();
    damaged[60] = b'x';
    let (lines, _) = between(&damaged);
    assert_eq!(lines, TITLE);
    let mut damaged = good.clone();
    damaged.remove(60);
    let (lines, _) = between(&damaged);
    assert_eq!(lines, TITLE);
}

#[test]
fn a_field_without_a_tag_is_left_out_and_named() {
    let damaged = raw(LEADER, &[("001", b"x1"), ("   ", b"  \x1fax"), ("245", b"10\x1faT")]);
    check(&damaged, &["001 x1", "245 10$aT"], &[RepairKind::Tag]);
}

#[test]
fn leaders_are_ascii() {
    let mut damaged = raw(LEADER, &[("001", b"x1"), ("245", b"10\x1faT")]);
    damaged[22] = 0x92;
    damaged[7] = 0;
    check(&damaged, &["001 x1", "245 10$aT"], &[RepairKind::Leader, RepairKind::Leader]);
}

#[test]
fn missing_indicators_and_delimiters_are_repaired_and_reported() {
    let fields: [(&str, &[u8]); 5] =
        [("001", b"x1"), ("245", "é0\u{1f}aT".as_bytes()), ("246", b"10Title without"), ("500", b"\x1fanote"), ("700", b"1\x1faName")];
    let expected = ["001 x1", "245  0$aT", "246 10$aTitle without", "500   $anote", "700 1 $aName"];
    check(&raw(LEADER, &fields), &expected, &[RepairKind::Indicator, RepairKind::NoSubfield, RepairKind::Indicator, RepairKind::Indicator]);
}

#[test]
fn a_third_indicator_is_no_text() {
    for surplus in [" ", "\\", "0", "#", "|"] {
        let data = |rest: &[u8]| [b"00".as_slice(), surplus.as_bytes(), rest].concat();
        let (number, title) = (data(b"\x1fa9 181\x1ffb"), data(b"\x1faOn the road\x1feby"));
        let damaged = raw("00000nam a3200000 i 4500", &[("001", &number), ("245", &title), ("652", &data(b"\x1fm99.4"))]);
        let expected = ["001 9 181 b", "245 00$aOn the road$eby", "652 00$m99.4"];
        check(&damaged, &expected, &[RepairKind::ControlField, RepairKind::Indicator, RepairKind::Indicator]);
    }
    // other text there is kept
    let damaged = raw(LEADER, &[("001", b"x1"), ("245", b"00On\x1fbthe road")]);
    check(&damaged, &["001 x1", "245 00$aOn$bthe road"], &[RepairKind::NoSubfield]);
}

#[test]
fn marks_of_marc_8_precede_references() {
    let read = |bytes: &[u8]| marc8::decode(bytes);
    assert_eq!(read(b"\xe2&#x03B1; \xe8\xe2&#x03B9;"), ("\u{3ac} \u{390}".to_owned(), 0));
    assert_eq!(read(b"\xe8u &#x4e2d;&#x110000;&#x1F;&#x;&#x0000041;"), ("ü \u{4e2d}&#x110000;&#x1F;&#x;&#x0000041;".to_owned(), 0));
    // in another set the same bytes are other characters
    assert_eq!(read(b"\x1b(Nx\x1b(B"), ("\u{42c}".to_owned(), 0));
    assert_eq!(read(b"\x1b(N&#x41;").0.chars().nth(2), Some('\u{42c}'));
}

#[test]
fn a_broken_character_of_eacc_does_not_take_others_with_it() {
    let characters: Vec<[u8; 3]> = (0x21..0x28).map(|last| [0x21, 0x30, last]).collect();
    for length in 1..characters.len() {
        let whole = characters[..length].concat();
        let read = |run: &[u8]| marc8::decode(&[b"\x1b$1", run, b"\x1b(B end"].concat());
        let (expected, unknown) = read(&whole);
        assert_eq!((expected.chars().count(), unknown), (length + 4, 0));
        for at in 0..whole.len() {
            let mut lost = whole.clone();
            lost.remove(at);
            let mut inserted = whole.clone();
            inserted.insert(at, 0x7f);
            let mut changed = whole.clone();
            changed[at] = 0x7f;
            for damaged in [lost, inserted, changed] {
                let (text, unknown) = read(&damaged);
                let kept = expected.chars().filter(|character| text.contains(*character)).count();
                assert!(text.ends_with(" end") && (1..=2).contains(&unknown), "{length} characters, damaged at {at}: {text}");
                assert!(kept + 2 >= expected.chars().count(), "{length} characters, damaged at {at}: {text}");
            }
        }
    }
}

#[test]
fn tags_and_codes_may_be_members_of_json() {
    let given = serde_json::json!({"leader": LEADER, "fields": [{"tag": "001", "value": "x1"},
        {"tag": "245", "ind1": "1", "ind2": "0", "subfields": [{"code": "a", "value": "Title"}, {"code": "b"}], "uuid": "7"},
        {"tag": "500", "subfields": [{"a": "note"}]}]});
    let mut repairs = Repairs::default();
    let record = MarcRecord::read_json(&given, &ReadOptions::REPAIR, &mut repairs).expect("fields");
    assert_eq!(lines(&record), ["001 x1", "245 10$aTitle$b", "500   $anote"]);
    assert!(repairs.has(RepairKind::Foreign));
    assert!(MarcRecord::from_json(&given).is_err());
}

#[test]
fn one_bad_character_does_not_lose_the_record() {
    let damaged = raw(LEADER, &[("001", b"x1"), ("245", b"10\x1faDvo\xc5\x1fctail"), ("500", b"  \x1fab\x1fac")]);
    check(&damaged, &["001 x1", "245 10$aDvo\u{fffd}$ctail", "500   $ab$ac"], &[RepairKind::Character]);
}

#[test]
fn encodings_are_recognised_by_their_bytes() {
    let utf8 = "00000nam  2200000 i 4500";
    let one = |title: &str| vec![Ok((vec!["001 x1".to_owned(), format!("245 10$a{title}")], vec![]))];
    let expected_title = |title: &str| vec![Ok((vec!["001 x1".to_owned(), format!("245 10$a{title}")], vec![RepairKind::Encoding]))];
    let file = |leader: &str, title: &[u8]| raw(leader, &[("001", b"x1"), ("245", &[b"10\x1fa", title].concat())]);
    let books = "Bücher für Zoë Ångström";
    assert_eq!(read_as(&file(utf8, books.as_bytes()), Encoding::Auto), expected_title(books));
    assert_eq!(read_as(&file(utf8, books.as_bytes()), Encoding::Utf8), one(books));
    assert_eq!(read_as(&file(utf8, b"B\xe8ucher"), Encoding::Auto), one("Bücher"));
    assert_eq!(read_as(&file(utf8, b"B\xe8ucher"), Encoding::Marc8), one("Bücher"));
    assert_eq!(read_as(&file(utf8, b"B\xfccher"), Encoding::Latin1), one("Bücher"));
    assert_eq!(read_as(&file(utf8, b"\x80 5"), Encoding::Cp1252), one("€ 5"));
    // a leader that says UTF-8 is believed first
    assert_eq!(read_as(&file(LEADER, books.as_bytes()), Encoding::Latin1), one(books));
    assert_eq!(read_as(&file(LEADER, b"B\xfccher"), Encoding::Latin1), expected_title("Bücher"));
    assert_eq!(read_as(&file(LEADER, b"B\xe8ucher"), Encoding::Marc8), expected_title("Bücher"));
    let replaced = vec![Ok((vec!["001 x1".to_owned(), "245 10$aB\u{fffd}cher".to_owned()], vec![RepairKind::Character]))];
    assert_eq!(read_as(&file(LEADER, b"B\xfccher"), Encoding::Auto), replaced);
}

#[test]
fn references_in_marc_8_are_characters() {
    let file = raw("00000nam  2200000 i 4500", &[("001", b"x1"), ("245", b"10\x1faNi&#x4E2D;&#x1F600; &#xZZ;")]);
    let expected = Ok((vec!["001 x1".to_owned(), "245 10$aNi\u{4e2d}\u{1f600} &#xZZ;".to_owned()], vec![]));
    assert_eq!(read_as(&file, Encoding::Auto), [expected]);
    let unknown = raw("00000nam  2200000 i 4500", &[("001", b"x1"), ("245", b"10\x1faa\xffb\x1bQc")]);
    let (lines, repairs) = read_as(&unknown, Encoding::Auto).remove(0).expect("read");
    assert_eq!((lines[1].as_str(), repairs), ("245 10$aa\u{fffd}b\u{fffd}Qc", vec![RepairKind::Character]));
}

#[test]
fn padding_between_records_is_skipped() {
    let (one, two) = (titled("g1", b"Before"), titled("g2", b"After"));
    for padding in [b"\0\0\0\0\0\0\0\0".as_slice(), b"\xef\xbb\xbf", b" \r\n\t ", b"\x1a\0", b"\x1d\x1d", b"\xff\xff\xff", b"\n\xef\xbb\xbf\0"] {
        let file = [padding, &one, padding, &two, padding].concat();
        let numbers: Vec<_> =
            read_as(&file, Encoding::Auto).into_iter().map(|found| found.map(|(lines, repairs)| (lines[0].clone(), repairs.len()))).collect();
        assert_eq!(numbers, [Ok(("001 g1".to_owned(), 0)), Ok(("001 g2".to_owned(), 0))], "{padding:?}");
    }
}

#[test]
fn the_record_after_a_truncated_one_is_found() {
    let (one, two, three) = (titled("g1", b"Before"), titled("x1", b"Cut off"), titled("g2", b"After"));
    for length in [5, 20, 23, 30, 60, 61, 70, two.len() - 3] {
        let file = [&one, &two[..length], &three].concat();
        let found = read_as(&file, Encoding::Auto);
        let numbers: Vec<_> = found.iter().map(|found| found.as_ref().map(|(lines, _)| lines[0].as_str()).map_err(String::as_str)).collect();
        let cut = Err("another record begins inside this one: there is no record terminator");
        assert_eq!(numbers, [Ok("001 g1"), cut, Ok("001 g2")], "cut after {length} bytes");
    }
    let (file, end) = ([&one, &two[..50]].concat(), "the file ends inside a record: there is no record terminator".to_owned());
    assert_eq!(read_as(&file, Encoding::Auto)[1], Err(end));
}

#[test]
fn records_are_found_without_any_terminators() {
    let one = titled("x1", b"Title");
    let file = one[..one.len() - 1].repeat(5_000);
    let (mut scanner, mut at, mut end) = (MarcScanner::new(Tolerance::Repair), 0, 0);
    let mut found = 0;
    while at < file.len() {
        match scanner.step(&file[at..end], end == file.len()) {
            MarcStep::NeedMore => end = (end + 50_000).min(file.len()),
            step => {
                assert_eq!(step, MarcStep::Record(one.len() - 1));
                (at, found) = (at + one.len() - 1, found + 1);
            }
        }
    }
    assert_eq!((found, read_as(&file, Encoding::Auto).len()), (5_000, 5_000));
}

#[test]
fn a_terminator_inside_of_a_field_does_not_end_the_record() {
    let (lines, repairs) = between(&titled("x1", b"One\x1dTwo"));
    assert_eq!((lines[2].as_str(), repairs), ("245 10$aOne Two", vec![RepairKind::ControlCharacter]));
    let (lines, repairs) = between(&titled("x1", b"One\0Two"));
    assert_eq!((lines[2].as_str(), repairs), ("245 10$aOneTwo", vec![RepairKind::ControlCharacter]));
}

#[test]
fn files_of_other_formats_have_no_records() {
    let page = b"<html><body>503 Service Unavailable</body></html>\n";
    let no_record = |what| Err(MarcError::NoRecord(what).to_string());
    assert_eq!(read_as(page, Encoding::Auto), [no_record("a page of HTML")]);
    assert_eq!(read_as(b"invalid marc file\n", Encoding::Auto), [no_record("text")]);
    let file = [b"To: library\n".as_slice(), &titled("g1", b"Before")].concat();
    assert_eq!(read_as(&file, Encoding::Auto).len(), 2);
    assert_eq!(MarcScanner::new(Tolerance::Repair).step(page, true), MarcStep::Foreign(page.len()));
    assert_eq!(MarcScanner::default().step(page, true), MarcStep::Unterminated(page.len()));
}

#[test]
fn a_repair_reports_kind_position_and_result() {
    let mut damaged = titled("x1", b"Title");
    damaged[51..55].copy_from_slice(b"0999");
    let mut repairs = Repairs::new(4711);
    MarcRecord::read(&damaged, &ReadOptions::REPAIR, &mut repairs).expect("repaired");
    let sentences: Vec<_> = repairs.into_iter().map(Repair::to_string).collect();
    let expected = "field 245: its length or position in the directory was ignored; the field was found by its terminators at byte 105";
    assert_eq!((sentences, repairs.list()[0].record), (vec![expected.to_owned()], 4711));
}
