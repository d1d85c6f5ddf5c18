//! Stored rows that cannot be read: which, and why.

use crate::{Result, StoreError, StoredRecord};
use std::fmt;
use stook_catalogue::definition::Collection;
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, DecodeError, unpack};

/// A stored row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The record's collection and key, where the row is known to be a record's.
    pub record: Option<(String, String)>,
    /// The row, in words.
    pub row: String,
    /// What is wrong with it.
    pub reason: String,
}

impl Damage {
    /// Damage of a record.
    pub fn of_record(collection: &str, key: &str, reason: impl Into<String>) -> Self {
        let row = format!("record {key:?} of `{collection}`");
        Self { record: Some((collection.to_owned(), key.to_owned())), row, reason: reason.into() }
    }

    /// Damage of another row, which `row` names.
    pub fn of_row(row: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { record: None, row: row.into(), reason: reason.into() }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is damaged in the store: {}", self.row, self.reason)?;
        if self.record.is_some() {
            write!(f, "; import its documents again to repair it")?;
        }
        Ok(())
    }
}

impl std::error::Error for Damage {}

impl From<DecodeError> for StoreError {
    fn from(DecodeError(reason): DecodeError) -> Self {
        StoreError::Damaged(Damage::of_row("a row", reason))
    }
}

/// Says whose row it is that cannot be read.
pub trait ForRecord<T> {
    /// The record of a collection.
    ///
    /// # Errors
    /// As before.
    fn for_record(self, collection: &str, key: &Key) -> Result<T>;
}

impl<T> ForRecord<T> for std::result::Result<T, DecodeError> {
    fn for_record(self, collection: &str, key: &Key) -> Result<T> {
        self.map_err(|DecodeError(reason)| StoreError::Damaged(Damage::of_record(collection, key.as_str(), reason)))
    }
}

/// A part of a stored record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPart {
    /// Which.
    pub part: RecordPart,
    /// What is wrong with it.
    pub reason: String,
}

/// A part of a stored record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPart {
    /// What finds the row, or tells its versions apart: it can be neither read nor written.
    Row,
    /// What transitions have set: no document says it.
    State,
    /// The packed contributions, or their documents.
    Contributions,
    /// A golden value, by the number of its field.
    Golden(usize),
    /// What follows from the rest: effective states, conflicts.
    Other,
}

impl StoredRecord {
    /// The record, if all of it can be read.
    ///
    /// # Errors
    /// When a part of it cannot.
    pub fn sound(self, collection: &str) -> Result<Self> {
        match self.reason() {
            None => Ok(self),
            Some(reason) => Err(StoreError::Damaged(Damage::of_record(collection, self.key.as_str(), reason))),
        }
    }

    /// Its contributions, where all of it was read.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn contributions_of(&self, collection: &Collection) -> Result<Vec<Contribution>> {
        // without documents there are none to be left out
        let raw = self.raw.as_deref().unwrap_or_default();
        unpack(&self.contributions, collection, &self.golden, Some(raw)).for_record(&collection.name, &self.key)
    }

    /// What of it cannot be read, in words.
    pub fn reason(&self) -> Option<String> {
        let reasons: Vec<&str> = self.damage.iter().map(|damage| damage.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }
}
