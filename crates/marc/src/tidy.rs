//! The data of one field brought into the form that every syntax can hold: two indicators of one ASCII character, subfields with a
//! code each, and no characters that structure records. Readers and writers use it alike.

use crate::mend;
use crate::record::{FIELD_END, FieldEntry, MarcField, MarcRecord, RECORD_END, SUBFIELD, is_printable, show_tag};
use crate::repair::{RepairKind, Repairs};
use std::borrow::Cow;

pub(crate) const DELIMITER: char = SUBFIELD as char;
/// The two indicators of MARC 21, and a third one of other formats.
const MAX_INDICATORS: usize = 3;
/// What a piece of text is put into that stands in no subfield.
pub(crate) const FIRST_CODE: char = 'a';

/// Whether a tag is that of a control field whatever its data are.
pub(crate) fn is_control_tag(tag: [u8; 3]) -> bool {
    matches!(tag, [b'0', b'0', last] if last.is_ascii_digit())
}

fn may_be_indicator(character: char) -> bool {
    character.is_ascii_digit() || matches!(character, ' ' | '|' | '#' | '\\')
}

pub(crate) fn is_code(character: char) -> bool {
    character == ' ' || character.is_ascii_graphic()
}

/// Whether a character cannot stand in a value of ISO 2709: it structures records, or is NUL.
pub(crate) fn is_structural(character: char) -> bool {
    matches!(character, '\0' | '\u{1d}'..='\u{1f}')
}

/// Whether what stands between two indicators and the first subfield is one more of them, as formats with three indicators and programs
/// that write a placeholder too many have it. It is no text of the field.
fn is_surplus_indicator(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(may_be_indicator) && characters.next().is_none()
}

/// Adds a value without the characters that it cannot hold.
pub(crate) fn push_value(value: &str, tag: &str, byte: Option<usize>, out: &mut String, repairs: &mut Repairs) {
    if !value.contains(is_structural) {
        return out.push_str(value);
    }
    for character in value.chars() {
        match character {
            '\0' => repairs.add(RepairKind::ControlCharacter, Some(tag), byte, "a NUL byte was left out"),
            character if is_structural(character) => {
                repairs.add(RepairKind::ControlCharacter, Some(tag), byte, "a character that structures records was replaced by a blank");
                out.push(' ');
            }
            character => out.push(character),
        }
    }
}

/// Adds the data of a field, repaired, to `out`.
pub(crate) fn push_field(tag: [u8; 3], data: &str, byte: Option<usize>, out: &mut String, repairs: &mut Repairs) {
    let field = MarcField { tag, data };
    if is_tidy(field) {
        return out.push_str(data);
    }
    let name = show_tag(tag);
    if field.is_control() {
        return push_control(&name, data, byte, out, repairs);
    }
    let mut pieces = data.split(DELIMITER);
    let head = pieces.next().unwrap_or_default();
    let (indicators, text) = indicators(&name, head, head.len() < data.len(), byte, repairs);
    out.extend(indicators);
    if !text.is_empty() {
        out.extend([DELIMITER, FIRST_CODE]);
        push_value(text, &name, byte, out, repairs);
    }
    for piece in pieces {
        let mut characters = piece.chars();
        match characters.next() {
            None => repairs.add(RepairKind::SubfieldCode, Some(&name), byte, "a subfield delimiter without a code and a value was left out"),
            Some(code) if is_code(code) => {
                out.extend([DELIMITER, code]);
                push_value(characters.as_str(), &name, byte, out, repairs);
            }
            Some(code) => {
                let done = "a subfield code that is not an ASCII character was taken for a part of the value of a subfield a";
                repairs.add(RepairKind::SubfieldCode, Some(&name), byte, done);
                out.extend([DELIMITER, FIRST_CODE]);
                push_value(if code.is_ascii() { characters.as_str() } else { piece }, &name, byte, out, repairs);
            }
        }
    }
}

/// A control field that has indicators and subfields is the text of these.
fn push_control(name: &str, data: &str, byte: Option<usize>, out: &mut String, repairs: &mut Repairs) {
    let Some(first) = data.find(DELIMITER) else { return push_value(data, name, byte, out, repairs) };
    repairs.add(RepairKind::ControlField, Some(name), byte, "a control field has no subfields; it was read as their text");
    let head = &data[..first];
    if head.chars().count() > MAX_INDICATORS || !head.chars().all(may_be_indicator) {
        push_value(head, name, byte, out, repairs);
    }
    for (index, piece) in data[first + 1..].split(DELIMITER).enumerate() {
        let value = piece.strip_prefix(is_code).unwrap_or(piece);
        if index > 0 && !value.is_empty() {
            out.push(' ');
        }
        push_value(value, name, byte, out, repairs);
    }
}

/// The indicators of a data field by what stands before its first subfield, and the text among it that is no indicator.
fn indicators<'d>(name: &str, head: &'d str, has_subfields: bool, byte: Option<usize>, repairs: &mut Repairs) -> ([char; 2], &'d str) {
    let mut report = |kind, done: &'static str| repairs.add(kind, Some(name), byte, done);
    let missing = "indicators are missing; they were read as blanks";
    let mut characters = head.chars();
    let (first, second) = (characters.next(), characters.next());
    let given = [first, second];
    let beyond = characters.as_str();
    let plausible = given.iter().flatten().all(|character| may_be_indicator(*character));
    // text that merely begins where indicators should be
    if !plausible && (!beyond.is_empty() || !has_subfields) {
        report(RepairKind::NoSubfield, "text without indicators and a subfield was put into a subfield a");
        return ([' ', ' '], head);
    }
    if first.is_none() && !has_subfields {
        return ([' ', ' '], "");
    }
    if second.is_none() {
        report(RepairKind::Indicator, missing);
    }
    let indicators = given.map(|character| match character {
        Some(character) if is_code(character) => character,
        Some(_) => {
            report(RepairKind::Indicator, "an indicator that is not one ASCII character was read as a blank");
            ' '
        }
        None => ' ',
    });
    if beyond.trim().is_empty() {
        if !beyond.is_empty() {
            report(RepairKind::Indicator, "blanks after the indicators were left out");
        }
        return (indicators, "");
    }
    if has_subfields && is_surplus_indicator(beyond) {
        let done = format!("`{beyond}` after the two indicators was left out; it was taken for a third one");
        repairs.add(RepairKind::Indicator, Some(name), byte, done);
        return (indicators, "");
    }
    report(RepairKind::NoSubfield, "text before the first subfield was put into a subfield a");
    (indicators, beyond)
}

impl MarcRecord<'_> {
    /// The record in the form that every syntax can hold; the same one when it is in that form, as records that were repaired are.
    pub(crate) fn tidied(&self, repairs: &mut Repairs) -> Cow<'_, Self> {
        if is_printable(&self.leader) && self.fields().all(is_tidy) {
            return Cow::Borrowed(self);
        }
        let mut text = String::with_capacity(self.text.len());
        let mut fields = Vec::with_capacity(self.fields.len());
        for (number, field) in self.fields().enumerate() {
            let start = text.len() as u32;
            push_field(field.tag, field.data, None, &mut text, repairs);
            fields.push(FieldEntry { tag: self.fields[number].tag, start, end: text.len() as u32 });
        }
        Cow::Owned(MarcRecord {
            text: Cow::Owned(text),
            leader: mend::clean_leader(self.leader, repairs),
            fields,
            unknown_characters: self.unknown_characters,
        })
    }
}

/// Whether [`push_field`] would change nothing.
fn is_tidy(field: MarcField<'_>) -> bool {
    let data = field.data.as_bytes();
    if memchr::memchr3(0, FIELD_END, RECORD_END, data).is_some() {
        return false;
    }
    if field.is_control() {
        return memchr::memchr(SUBFIELD, data).is_none();
    }
    let is_code = |byte: &u8| is_code(char::from(*byte));
    let may_be_indicator = |byte: &u8| may_be_indicator(char::from(*byte));
    match data {
        // two characters alone may be text
        [first, second] => [first, second].into_iter().all(may_be_indicator),
        [first, second, SUBFIELD, ..] if is_code(first) && is_code(second) => {
            memchr::memchr_iter(SUBFIELD, data).all(|at| data.get(at + 1).is_some_and(is_code))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tidied(tag: &[u8; 3], data: &str) -> (String, Vec<RepairKind>) {
        let (mut out, mut repairs) = (String::new(), Repairs::default());
        push_field(*tag, data, None, &mut out, &mut repairs);
        assert_eq!(is_tidy(MarcField { tag: *tag, data }), repairs.is_empty(), "{data:?}");
        assert!(is_tidy(MarcField { tag: *tag, data: &out }), "{out:?}");
        (out, repairs.into_iter().map(|repair| repair.kind).collect())
    }

    #[test]
    fn well_formed_fields_stay_unchanged() {
        for data in ["10\x1faTitle\x1fb", "  \x1fa", "10", "a1\x1f9x"] {
            assert_eq!(tidied(b"245", data), (data.to_owned(), vec![]));
        }
        assert_eq!(tidied(b"FMT", "BK"), ("BK".to_owned(), vec![]));
    }

    #[test]
    fn indicators_and_delimiters_are_repaired() {
        use RepairKind::{ControlCharacter, ControlField, Indicator, NoSubfield, SubfieldCode};
        let cases: &[(&[u8; 3], &str, &str, &[RepairKind])] = &[
            (b"245", "\x1faT", "  \x1faT", &[Indicator]),
            (b"245", "1\x1faT", "1 \x1faT", &[Indicator]),
            (b"245", "10 \x1faT", "10\x1faT", &[Indicator]),
            (b"245", "é0\x1faT", " 0\x1faT", &[Indicator]),
            (b"245", "  \\\x1faT", "  \x1faT", &[Indicator]),
            (b"245", "000\x1faT", "00\x1faT", &[Indicator]),
            (b"245", "10T\x1faT", "10\x1faT\x1faT", &[NoSubfield]),
            (b"001", "000\x1fa9 181\x1ffb", "9 181 b", &[ControlField]),
            (b"245", "10Title", "10\x1faTitle", &[NoSubfield]),
            (b"245", "Title\x1fbx", "  \x1faTitle\x1fbx", &[NoSubfield]),
            (b"245", "Ti", "  \x1faTi", &[NoSubfield]),
            (b"245", "", "  ", &[]),
            (b"245", "10\x1f\x1faT\x1f", "10\x1faT", &[SubfieldCode]),
            (b"245", "10\x1fÉtude", "10\x1faÉtude", &[SubfieldCode]),
            (b"245", "10\x1faT\0\x1ex", "10\x1faT x", &[ControlCharacter, ControlCharacter]),
            (b"005", "  \x1faeng\x1fbx", "eng x", &[ControlField]),
            (b"001", "a\x1fbc", "ac", &[ControlField]),
        ];
        for (tag, data, expected, kinds) in cases.iter().filter(|case| !case.1.is_empty()) {
            assert_eq!(tidied(tag, data), ((*expected).to_owned(), kinds.to_vec()), "{data:?}");
        }
    }
}
