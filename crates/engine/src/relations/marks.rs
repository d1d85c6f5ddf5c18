//! Stale marks: their kinds, one for each phase, and what they carry.

use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;
use stook_store::damage::Damage;
use stook_store::queue::JobId;
use stook_store::{Result, StaleMark, StoreError};

/// Marks of records that children look for. Kinds of marks are the last two bits of their stratum.
pub const FOUND: u32 = 0;

/// Marks of records that children read.
pub const READ: u32 = 1;

/// Marks of children.
pub const CHILD: u32 = 2;

/// Marks of parents.
pub const PARENT: u32 = 3;

/// The job of marks that a check has made; no job has its number.
pub const CHECK: JobId = i64::MAX as JobId;

/// The part of a mark that asks who brings a parent into being.
pub const MADE: &str = "made";

/// The interval of a record that children look for; and the start and key of the child after which a pass goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchBounds {
    /// Its start.
    pub low: i64,
    /// Its end.
    pub high: i64,
    /// Start and key of that child.
    pub cursor: Option<(i64, String)>,
}

impl SearchBounds {
    /// As it stands in a mark.
    pub fn text(&self) -> String {
        serde_json::json!([self.low, self.high, self.cursor]).to_string()
    }

    /// As a mark has it.
    ///
    /// # Errors
    /// When the mark is damaged.
    pub fn parse(mark: &StaleMark) -> Result<Self> {
        let (low, high, place) = serde_json::from_str(&mark.part).map_err(|error| damaged_mark(mark, &error.to_string()))?;
        Ok(Self { low, high, cursor: place })
    }
}

pub(crate) fn damaged_mark(mark: &StaleMark, reason: &str) -> StoreError {
    StoreError::Damaged(Damage::of_row(format!("the mark of {:?}", mark.target.as_str()), reason))
}

/// The key that a mark or an edge names.
pub(crate) fn key_of(text: &SmolStr) -> Result<Key> {
    Key::new(text.clone()).map_err(|error| StoreError::Damaged(Damage::of_row(format!("a mark or an edge of {text:?}"), error.to_string())))
}
