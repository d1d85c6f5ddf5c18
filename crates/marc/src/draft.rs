//! A record that is made of whatever MARCXML or JSON gives: what does not fit is repaired and told.

use crate::mend;
use crate::record::{FieldEntry, LEADER, MarcRecord, SUBFIELD};
use crate::repair::{RepairKind, Repairs};
use crate::tidy::{FIRST_CODE, is_code, is_control_tag, push_value};
use std::borrow::Cow;

pub(crate) struct Draft<'r> {
    text: String,
    leader: Option<[u8; LEADER]>,
    fields: Vec<FieldEntry>,
    pub(crate) repairs: &'r mut Repairs,
    tag: String,
    byte: Option<usize>,
    /// Whether subfields are added to a control field.
    is_control: bool,
}

impl<'r> Draft<'r> {
    pub(crate) fn new(repairs: &'r mut Repairs) -> Self {
        Self { text: String::new(), leader: None, fields: Vec::new(), repairs, tag: String::new(), byte: None, is_control: false }
    }

    pub(crate) fn report(&mut self, kind: RepairKind, done: impl Into<Cow<'static, str>>) {
        self.repairs.add(kind, Some(&self.tag).filter(|tag| !tag.is_empty()).map(String::as_str), self.byte, done);
    }

    /// Takes a leader, of whatever length.
    pub(crate) fn leader(&mut self, text: &str, byte: Option<usize>) {
        if self.leader.is_some() {
            return self.repairs.add(RepairKind::Leader, None, byte, "there is more than one leader; the first was taken");
        }
        let exact = mend::exact_leader(text, byte, self.repairs);
        self.leader = Some(exact.unwrap_or_else(|| {
            let printable = mend::printable(text.trim());
            printable.as_slice().try_into().unwrap_or_else(|_| mend::realigned(&printable))
        }));
    }

    /// The tag as three characters, and what may be indicators after them. Nothing when it is none.
    fn open(&mut self, tag: Option<&str>, byte: Option<usize>) -> Option<([u8; 3], Option<[char; 2]>)> {
        let given = tag.unwrap_or_default();
        (self.tag, self.byte) = (given.to_owned(), byte);
        let is_graphic = |tag: &str| tag.bytes().all(|byte| byte.is_ascii_graphic());
        let exact: Option<[u8; 3]> = given.as_bytes().try_into().ok().filter(|_| is_graphic(given));
        if exact.is_some() {
            return exact.map(|tag| (tag, None));
        }
        let trimmed = given.trim();
        let characters: Vec<char> = trimmed.chars().collect();
        let digits = !trimmed.is_empty() && trimmed.bytes().all(|byte| byte.is_ascii_digit());
        let (tag, indicators) = match characters.len() {
            1 | 2 if digits => (format!("{trimmed:0>3}"), None),
            3 => (trimmed.to_owned(), None),
            4.. if digits && trimmed.starts_with("00") => (trimmed[trimmed.len() - 3..].to_owned(), None),
            5 => (characters[..3].iter().collect(), Some([characters[3], characters[4]])),
            4.. => (characters[..3].iter().collect(), None),
            _ => (String::new(), None),
        };
        let Some(found) = tag.as_bytes().try_into().ok().filter(|_| is_graphic(&tag)) else {
            let done = format!("a field whose tag is `{}` was left out", given.escape_debug());
            self.repairs.add(RepairKind::Tag, None, byte, done);
            return None;
        };
        let kind = if characters.len() > 3 { RepairKind::LongTag } else { RepairKind::Tag };
        let done = format!("the tag `{}` is not three characters; it was read as this", given.escape_debug());
        self.tag = tag;
        self.report(kind, done);
        Some((found, indicators))
    }

    fn begin(&mut self, tag: [u8; 3]) {
        let start = self.text.len() as u32;
        self.fields.push(FieldEntry { tag, start, end: start });
        self.is_control = false;
    }

    /// Whether a tag is one of data fields only.
    fn is_data_tag(tag: [u8; 3]) -> bool {
        tag.iter().all(u8::is_ascii_digit) && !is_control_tag(tag)
    }

    /// Adds a control field.
    pub(crate) fn control(&mut self, tag: Option<&str>, value: &str, byte: Option<usize>) {
        let Some((tag, indicators)) = self.open(tag, byte) else { return };
        self.begin(tag);
        if Self::is_data_tag(tag) {
            self.report(RepairKind::DataField, "a data field was written as a control field; its text was put into a subfield a");
            self.text.extend(indicators.unwrap_or([' ', ' ']).map(|indicator| if is_code(indicator) { indicator } else { ' ' }));
            self.text.extend([char::from(SUBFIELD), FIRST_CODE]);
        }
        push_value(value, &self.tag, byte, &mut self.text, self.repairs);
        self.close();
    }

    /// Begins a data field; says whether it has a tag.
    pub(crate) fn data(&mut self, tag: Option<&str>, indicators: [Option<&str>; 2], byte: Option<usize>) -> bool {
        let Some((tag, in_tag)) = self.open(tag, byte) else { return false };
        self.begin(tag);
        self.is_control = is_control_tag(tag);
        if self.is_control {
            self.report(RepairKind::ControlField, "a control field has no subfields; it was read as their text");
            return true;
        }
        for (number, given) in indicators.into_iter().enumerate() {
            let in_tag = in_tag.map(|characters| characters[number]).filter(|_| given.is_none_or(|given| given.trim().is_empty()));
            let mut characters = given.unwrap_or_default().chars();
            let indicator = match (in_tag, characters.next(), characters.next()) {
                (Some(indicator), ..) | (None, Some(indicator), None) if is_code(indicator) => indicator,
                (None, None, _) => {
                    if given.is_none() {
                        self.report(RepairKind::Indicator, "indicators are missing; they were read as blanks");
                    }
                    ' '
                }
                _ => {
                    self.report(RepairKind::Indicator, "an indicator that is not one ASCII character was read as a blank");
                    ' '
                }
            };
            self.text.push(indicator);
        }
        self.close();
        true
    }

    /// Adds a subfield to the field at hand.
    pub(crate) fn subfield(&mut self, code: Option<&str>, value: &str) {
        let mut characters = code.unwrap_or_default().chars();
        let found = match (characters.next(), characters.next()) {
            (Some(code), None) if is_code(code) => code,
            (Some(code), Some(_)) if is_code(code) => {
                self.report(RepairKind::SubfieldCode, "a subfield code of several characters was read as its first");
                code
            }
            (None, _) => {
                self.report(RepairKind::SubfieldCode, "a subfield without a code was read as subfield a");
                FIRST_CODE
            }
            _ => {
                self.report(RepairKind::SubfieldCode, "a subfield whose code is not an ASCII character was read as subfield a");
                FIRST_CODE
            }
        };
        if !self.is_control {
            self.text.extend([char::from(SUBFIELD), found]);
        } else if self.fields.last().is_some_and(|field| field.end > field.start) {
            self.text.push(' ');
        }
        push_value(value, &self.tag, self.byte, &mut self.text, self.repairs);
        self.close();
    }

    /// Text of a data field that is in no subfield.
    pub(crate) fn loose(&mut self, value: &str) {
        if !value.trim().is_empty() {
            self.report(RepairKind::NoSubfield, "text that stands in no subfield was put into a subfield a");
            self.subfield(Some("a"), value.trim());
        }
    }

    fn close(&mut self) {
        let end = self.text.len() as u32;
        if let Some(field) = self.fields.last_mut() {
            field.end = end;
        }
    }

    /// The record.
    pub(crate) fn finish(self) -> MarcRecord<'static> {
        let leader = self.leader.unwrap_or_else(|| mend::missing_leader(self.repairs));
        MarcRecord { text: Cow::Owned(self.text), leader, fields: self.fields, unknown_characters: 0 }
    }
}
