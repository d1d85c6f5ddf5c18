//! Stored rows that cannot be read, and the reasons.

use std::fmt;
use stook_catalogue::ids::FieldId;

/// A stored row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The collection and key, if the row is known to be a record's.
    pub record: Option<(String, String)>,
    /// A description of the row.
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

/// A part of a stored record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedPart {
    /// Which part.
    pub part: RecordPart,
    /// What is wrong with it.
    pub reason: String,
}

/// A part of a stored record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPart {
    /// The key or the version: the row can be neither read nor written.
    Row,
    /// The state that transitions have set, which no document contains.
    State,
    /// The packed contributions, or their documents.
    Contributions,
    /// A golden value, by its field.
    Golden(FieldId),
    /// Values computed from the rest: effective states, conflicts.
    Other,
}
