//! Records made field by field.

use crate::record::{FIELD_END, FieldEntry, LEADER, MarcError, MarcField, MarcRecord, RECORD_END, SUBFIELD, show_tag};
use std::borrow::Cow;

/// Builds a record: a leader, then fields and their subfields in their order.
pub struct MarcBuilder {
    text: String,
    leader: [u8; LEADER],
    fields: Vec<FieldEntry>,
}

impl MarcBuilder {
    /// Starts with a leader of 24 ASCII characters.
    ///
    /// # Errors
    /// When it is not.
    pub fn new(leader: &str) -> Result<Self, MarcError> {
        let bytes: Result<[u8; LEADER], _> = leader.as_bytes().try_into();
        match bytes {
            Ok(leader) if leader.is_ascii() => Ok(Self { text: String::new(), leader, fields: Vec::new() }),
            _ => Err(MarcError::Shape(format!("a leader has 24 ASCII characters, this one has {}", leader.chars().count()))),
        }
    }

    fn open(&mut self, tag: &str) -> Result<(), MarcError> {
        let tag: Result<[u8; 3], _> = tag.as_bytes().try_into();
        let tag = tag.ok().filter(|tag| tag.iter().all(u8::is_ascii_graphic));
        let tag = tag.ok_or_else(|| MarcError::Shape("a tag has three ASCII characters".into()))?;
        let start = self.text.len() as u32;
        self.fields.push(FieldEntry { tag, start, end: start });
        Ok(())
    }

    fn push(&mut self, text: &str) -> Result<(), MarcError> {
        if text.bytes().any(|byte| matches!(byte, RECORD_END | FIELD_END | SUBFIELD)) {
            let tag = self.fields.last().map(|field| show_tag(field.tag)).unwrap_or_default();
            return Err(MarcError::ControlCharacter(tag));
        }
        self.text.push_str(text);
        self.close();
        Ok(())
    }

    fn close(&mut self) {
        let end = self.text.len() as u32;
        if let Some(field) = self.fields.last_mut() {
            field.end = end;
        }
    }

    /// Adds a control field.
    ///
    /// # Errors
    /// A tag or value that ISO 2709 cannot hold.
    pub fn control(&mut self, tag: &str, text: &str) -> Result<(), MarcError> {
        if tag.bytes().all(|byte| byte.is_ascii_digit()) && !tag.starts_with("00") {
            return Err(MarcError::Shape(format!("field {tag} is not a control field")));
        }
        self.open(tag)?;
        self.push(text)
    }

    /// Starts a data field.
    ///
    /// # Errors
    /// A tag or indicator that ISO 2709 cannot hold.
    pub fn data(&mut self, tag: &str, first: &str, second: &str) -> Result<(), MarcError> {
        if tag.bytes().all(|byte| byte.is_ascii_digit()) && tag.starts_with("00") {
            return Err(MarcError::Shape(format!("field {tag} is a control field, it has no subfields")));
        }
        self.open(tag)?;
        for indicator in [first, second] {
            if indicator.len() != 1 {
                return Err(MarcError::Shape(format!("an indicator of field {tag} is not one ASCII character")));
            }
            self.push(indicator)?;
        }
        Ok(())
    }

    /// Adds a subfield to the data field at hand.
    ///
    /// # Errors
    /// A code or value that ISO 2709 cannot hold.
    pub fn subfield(&mut self, code: &str, value: &str) -> Result<(), MarcError> {
        if code.len() != 1 || !code.is_ascii() {
            return Err(MarcError::Shape(format!("`{code}` is not a subfield code")));
        }
        self.text.push(char::from(SUBFIELD));
        self.push(code)?;
        self.push(value)
    }

    /// Adds a field of another record as it is.
    ///
    /// # Errors
    /// A tag or data that ISO 2709 cannot hold.
    pub fn field(&mut self, field: MarcField<'_>) -> Result<(), MarcError> {
        self.open(&show_tag(field.tag))?;
        if field.data.bytes().any(|byte| matches!(byte, RECORD_END | FIELD_END)) {
            return Err(MarcError::ControlCharacter(show_tag(field.tag)));
        }
        self.text.push_str(field.data);
        self.close();
        Ok(())
    }

    /// The record.
    pub fn finish(self) -> MarcRecord<'static> {
        MarcRecord { text: Cow::Owned(self.text), leader: self.leader, fields: self.fields, unknown_characters: 0 }
    }
}
