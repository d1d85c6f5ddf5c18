//! Line mode, the text form of MARC that editors use (`.mrk`): a line for each field, an empty one between records.
//!
//! ```text
//! =LDR  00000nam\a2200000\i\4500
//! =001  x1
//! =245  10$aTitle$bthe rest
//! ```
//! In the leader, in control fields and in indicators `\` is a blank. `{dollar}`, `{lcub}`, `{rcub}` and `{bsol}` are `$`, `{`, `}` and `\`.

use crate::charset::Charset;
use crate::mend;
use crate::record::{FieldEntry, MarcError, MarcField, MarcRecord, SUBFIELD, show_tag};
use crate::repair::{ReadOptions, RepairKind, Repairs, Tolerance};
use crate::scan::{MarcStep, Repaired, looks_like};
use crate::tidy;
use std::borrow::Cow;

const NAMES: [(char, &str); 4] = [('$', "{dollar}"), ('{', "{lcub}"), ('}', "{rcub}"), ('\\', "{bsol}")];
const LEADER_TAG: [u8; 3] = *b"LDR";
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
/// What ends a record: an empty line, or the leader of the next one.
const ENDS: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\n=LDR"];

/// Finds records in line mode, as [`crate::scan::MarcScanner`] does in ISO 2709.
#[derive(Debug, Clone, Default)]
pub struct LineScanner {
    scanned: usize,
}

impl LineScanner {
    /// Looks at the front of `bytes`, which are the bytes at the scanner's position; `at_end` says that nothing follows them. After
    /// [`MarcStep::NeedMore`] they must begin with the same bytes.
    pub fn step(&mut self, bytes: &[u8], at_end: bool) -> MarcStep {
        if self.scanned == 0 {
            let mut blank = 0;
            loop {
                let rest = &bytes[blank..];
                match rest.first() {
                    Some(b'\n' | b'\r' | b' ' | b'\t' | 0x1a | 0) => blank += 1,
                    _ if rest.starts_with(BYTE_ORDER_MARK) => blank += BYTE_ORDER_MARK.len(),
                    _ => break,
                }
            }
            let may_be_mark = !at_end && bytes.len() - blank < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&bytes[blank..]);
            match blank {
                0 if bytes.is_empty() && at_end => return MarcStep::End,
                0 if may_be_mark => return MarcStep::NeedMore,
                0 => {}
                blank => return MarcStep::Skip(blank),
            }
        }
        let found = ENDS.iter().filter_map(|end| memchr::memmem::find(&bytes[self.scanned..], end)).min();
        let length = match found {
            Some(at) => self.scanned + at + 1,
            None if at_end => bytes.len(),
            None => {
                // an end may have begun
                self.scanned = bytes.len().saturating_sub(4);
                return MarcStep::NeedMore;
            }
        };
        self.scanned = 0;
        if bytes[0] == b'=' { MarcStep::Record(length) } else { MarcStep::Foreign(length) }
    }

    /// Gives up the record at hand, for one that is too long: how many of `bytes` belong to it, or nothing where it does not end there.
    pub fn give_up(&mut self, bytes: &[u8]) -> Option<usize> {
        self.scanned = 0;
        ENDS.iter().filter_map(|end| memchr::memmem::find(bytes, end)).min().map(|at| at + 1)
    }
}

/// The records of a file in memory.
pub fn records(file: &[u8], options: ReadOptions) -> impl Iterator<Item = Result<Repaired<'static>, MarcError>> + '_ {
    let mut scanner = LineScanner::default();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at;
            match scanner.step(&file[at..], true) {
                MarcStep::Skip(length) => at += length,
                MarcStep::Record(length) => {
                    at += length;
                    let mut repairs = Repairs::new(start as u64);
                    return Some(read(&file[start..at], &options, &mut repairs).map(|record| Repaired { record, repairs }));
                }
                MarcStep::Foreign(length) | MarcStep::Unterminated(length) => {
                    at += length;
                    return Some(Err(MarcError::NoRecord(looks_like(&file[start..at]))));
                }
                MarcStep::NeedMore | MarcStep::End => return None,
            }
        }
    })
}

/// Reads one record in line mode. The bytes are UTF-8, or what the options say.
///
/// # Errors
/// When there is no field; if nothing may be repaired, also where something would have to be.
pub fn read(bytes: &[u8], options: &ReadOptions, repairs: &mut Repairs) -> Result<MarcRecord<'static>, MarcError> {
    let mut lenient_repairs = repairs.clone();
    let x = lenient_repairs.list().len();
    let record = lenient(bytes, options, &mut lenient_repairs)?;
    if let (Tolerance::Strict, Some(first)) = (options.tolerance, lenient_repairs.list().get(x)) {
        return Err(MarcError::Shape(first.to_string()));
    }
    *repairs = lenient_repairs;
    Ok(record)
}

fn lenient(bytes: &[u8], options: &ReadOptions, repairs: &mut Repairs) -> Result<MarcRecord<'static>, MarcError> {
    let charset = Charset::choose(true, bytes, options.encoding, repairs);
    // a line that goes on begins without a tag
    let mut lines: Vec<(usize, Cow<'_, [u8]>)> = Vec::new();
    let mut at = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        let (start, text) = (at, line.strip_suffix(b"\r").unwrap_or(line));
        at += line.len() + 1;
        match lines.last_mut() {
            _ if text.trim_ascii().is_empty() => {}
            Some((_, previous)) if text[0] != b'=' => {
                repairs.add(RepairKind::Foreign, None, Some(start), "a line without a tag was taken for the continuation of the line before");
                previous.to_mut().push(b' ');
                previous.to_mut().extend_from_slice(text);
            }
            _ => lines.push((start, Cow::Borrowed(text))),
        }
    }
    let (mut text, mut fields, mut leader) = (String::with_capacity(bytes.len()), Vec::with_capacity(lines.len()), None);
    let mut decoded = String::new();
    for (at, line) in lines {
        let tag = line.strip_prefix(b"=").and_then(|line| line.split_first_chunk::<3>()).filter(|(tag, _)| tag.iter().all(u8::is_ascii_graphic));
        let Some((&tag, rest)) = tag else {
            repairs.add(RepairKind::Tag, None, Some(at), "a line without a tag was left out");
            continue;
        };
        let name = show_tag(tag);
        let content = rest.strip_prefix(b"  ").unwrap_or_else(|| {
            repairs.add(RepairKind::Foreign, Some(&name), Some(at), "there are not two blanks behind the tag");
            rest.trim_ascii_start()
        });
        decoded.clear();
        charset.decode(content, tag, at, &mut decoded, repairs);
        if leader.is_none() && (tag == LEADER_TAG || tag == *b"000") {
            let text = decoded.replace('\\', " ");
            leader = Some(mend::exact_leader(&text, Some(at), repairs).unwrap_or_else(|| mend::realigned(&mend::printable(&text))));
            continue;
        }
        let start = text.len() as u32;
        tidy::push_field(tag, &field_data(tag, &decoded), Some(at), &mut text, repairs);
        fields.push(FieldEntry { tag, start, end: text.len() as u32 });
    }
    if fields.is_empty() && leader.is_none() {
        return Err(MarcError::Shape("there is no line with a tag".into()));
    }
    let leader = leader.unwrap_or_else(|| mend::missing_leader(repairs));
    Ok(MarcRecord { text: Cow::Owned(text), leader, fields, unknown_characters: 0 })
}

/// The content of a line, after its tag, as the data of a field.
pub fn field_data(tag: [u8; 3], content: &str) -> String {
    // delimiters of ISO 2709 have no meaning here
    let content: Cow<'_, str> = if content.contains(tidy::DELIMITER) { content.replace(tidy::DELIMITER, " ").into() } else { content.into() };
    let has_subfields = content.contains('$');
    if tidy::is_control_tag(tag) || !has_subfields && !tag.iter().all(u8::is_ascii_digit) {
        return unescape(&content.replace('\\', " "));
    }
    let mut out = String::with_capacity(content.len());
    for (index, piece) in content.split('$').enumerate() {
        if index > 0 {
            out.push(char::from(SUBFIELD));
            out.push_str(&unescape(piece));
            continue;
        }
        // indicators, and text that may follow them by mistake
        let head = piece.char_indices().nth(2).map_or(piece.len(), |(at, _)| at);
        out.push_str(&piece[..head].replace('\\', " "));
        out.push_str(&unescape(&piece[head..]));
    }
    out
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match NAMES.iter().find(|(_, name)| rest.starts_with(name)) {
            Some((character, name)) => {
                out.push(*character);
                rest = &rest[name.len()..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// A value as it is written; blanks of control fields are written as `\`, and `\` itself by name.
fn escape(text: &str, is_control: bool, out: &mut String) {
    for character in text.chars() {
        match NAMES.iter().find(|(named, _)| *named == character) {
            Some(('\\', _)) if !is_control => out.push('\\'),
            Some((_, name)) => out.push_str(name),
            None if is_control && character == ' ' => out.push('\\'),
            None => out.push(character),
        }
    }
}

/// Writes a record in line mode, and an empty line; what the form cannot hold is brought into another, which is added to `repairs`.
pub fn write_nearest(record: &MarcRecord<'_>, repairs: &mut Repairs) -> String {
    let record = record.tidied(repairs);
    let mut out = String::with_capacity(1024);
    if record.leader().contains('\\') {
        repairs.add(RepairKind::Leader, None, None, "a backslash in the leader is read as a blank in line mode");
    }
    out.push_str(&format!("=LDR  {}\n", record.leader().replace(' ', "\\")));
    for field in record.fields() {
        let tag = show_tag(field.tag);
        if field.tag == LEADER_TAG {
            repairs.add(RepairKind::Tag, Some(&tag), None, "line mode has no field of this tag; it was left out");
            continue;
        }
        let field = MarcField { tag: field.tag, data: &join_lines(field.data, &tag, repairs) };
        out.push_str(&format!("={tag}  "));
        if field.is_control() {
            escape(field.data, true, &mut out);
        } else {
            field.indicators().into_iter().for_each(|indicator| escape_indicator(indicator, &tag, &mut out, repairs));
            for (code, value) in field.subfields() {
                out.push('$');
                escape(code, false, &mut out);
                escape(value, false, &mut out);
            }
        }
        out.push('\n');
    }
    out.push('\n');
    out
}

/// An indicator is one character, so that none can be written by its name.
fn escape_indicator(indicator: &str, tag: &str, out: &mut String, repairs: &mut Repairs) {
    match indicator {
        " " => out.push('\\'),
        "\\" | "$" => {
            repairs.add(RepairKind::Indicator, Some(tag), None, "an indicator that line mode cannot hold was written as a blank");
            out.push('\\');
        }
        other => out.push_str(other),
    }
}

/// Line ends inside of a value would begin another line.
fn join_lines<'d>(data: &'d str, tag: &str, repairs: &mut Repairs) -> Cow<'d, str> {
    if !data.contains(['\n', '\r']) {
        return Cow::Borrowed(data);
    }
    repairs.add(RepairKind::ControlCharacter, Some(tag), None, "a line end inside of a value was replaced by a blank");
    data.replace("\r\n", " ").replace(['\n', '\r'], " ").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(record: &MarcRecord<'_>) -> Vec<(String, String)> {
        record.fields().map(|field| (show_tag(field.tag), field.data.to_owned())).collect()
    }

    #[test]
    fn lines_are_fields() {
        let file = "\u{feff}=LDR  00000nam\\a2200000\\i\\4500\r\n=001  x1\r\n=008  19\\\\{bsol}\r\n=245  1\\$aC:\\x {dollar}5{lcub}{acute}$bü\r\n\r\n=LDR  00000nam a2200000 i 4500\n=FMT  BK\n=LDR  00000nam a2200000 i 4500\n=001  x3";
        for tolerance in [ReadOptions::STRICT, ReadOptions::REPAIR] {
            let found: Vec<_> =
                records(file.as_bytes(), tolerance).map(|found| found.map(|found| (lines(&found.record), found.repairs.is_empty()))).collect();
            let field = |tag: &str, data: &str| (tag.to_owned(), data.to_owned());
            let first = vec![field("001", "x1"), field("008", "19  \\"), field("245", "1 \u{1f}aC:\\x $5{{acute}\u{1f}bü")];
            assert_eq!(found, [Ok((first, true)), Ok((vec![field("FMT", "BK")], true)), Ok((vec![field("001", "x3")], true))]);
        }
    }

    #[test]
    fn lines_are_repaired() {
        let file = b"=001 x1\n=245  10Title\nand more\n=24\n=500  \\\\$a\xff\n=500  $ax\n\n<html>";
        let found: Vec<_> = records(file, ReadOptions::REPAIR).collect();
        let first = found[0].as_ref().expect("a record");
        let kinds: Vec<_> = first.repairs.into_iter().map(|repair| repair.kind).collect();
        use RepairKind::{Character, Foreign, Indicator, Leader, NoSubfield, Tag};
        assert_eq!(kinds, [Foreign, Foreign, NoSubfield, Tag, Character, Indicator, Leader]);
        assert_eq!(lines(&first.record)[1].1, "10\u{1f}aTitle and more");
        assert_eq!(found[1], Err(MarcError::NoRecord("a page of HTML")));
        assert!(records(file, ReadOptions::STRICT).all(|found| found.is_err()));
    }

    #[test]
    fn a_scanner_finds_records_however_the_bytes_arrive() {
        let file = b"\xef\xbb\xbf=LDR  a\n=001  1\n\r\n\n=LDR  b\n=LDR  c\n";
        let (mut scanner, mut start, mut found) = (LineScanner::default(), 0, Vec::new());
        for end in 0..=file.len() {
            loop {
                match scanner.step(&file[start..end], end == file.len()) {
                    MarcStep::Skip(length) => start += length,
                    MarcStep::Record(length) => {
                        found.push(file[start..start + length].to_vec());
                        start += length;
                    }
                    MarcStep::NeedMore | MarcStep::End => break,
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(found, [b"=LDR  a\n=001  1\n".to_vec(), b"=LDR  b\n".to_vec(), b"=LDR  c\n".to_vec()]);
    }
}
