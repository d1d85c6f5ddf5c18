//! Stale marks: one kind for each phase, and what they carry.
//!
//! The numbers of a mark ([`StaleMark`]):
//!
//! - `pass_order` (column `stratum`): the depth of the collection whose records are settled, times four, plus the phase.
//! - `rule`: the id of a link (phases found and read), of a collection (child and parent), or in the phase found of a complete delivery's edges or of
//!   a collection whose records wait for unique values.
//! - `target`: the key or value, scope or file that the rule applies to; `part`: what of it, see [`StaleMark::part`].
//! - `lane`, a column of the stores only: the lock partition of the target.

use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;
use stook_store::damage::Damage;
use stook_store::queue::JobId;
use stook_store::{Result, StaleMark, StoreError};

/// The phase of marks of records that children find, of complete deliveries, and of unique values that were given up. The phase is the last two bits
/// of a mark's order.
pub const FOUND: u32 = 0;

/// The phase of marks of records that children read.
pub const READ: u32 = 1;

/// The phase of marks of records that are settled as children.
pub const CHILD: u32 = 2;

/// The phase of marks of records that are settled as parents.
pub const PARENT: u32 = 3;

/// The job number of marks that a check has made; no job has it.
pub const CHECK: JobId = i64::MAX as JobId;

/// The part of a mark by which a pass decides again whether links create a parent.
pub const MADE: &str = "made";

/// The interval of a record that children find, or the range of a scope in which a complete delivery retires or restores; and the start and key of
/// the child after which a pass continues.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchBounds {
    /// Its start.
    pub low: i64,
    /// Its end.
    pub high: i64,
    /// The start and key of that child.
    pub cursor: Option<(i64, String)>,
}

impl SearchBounds {
    /// Encodes the bounds as the part of a mark.
    pub fn text(&self) -> String {
        serde_json::json!([self.low, self.high, self.cursor]).to_string()
    }

    /// Reads the bounds from the part of a mark.
    ///
    /// # Errors
    /// When the mark is damaged.
    pub fn parse(mark: &StaleMark) -> Result<Self> {
        let (low, high, cursor) = serde_json::from_str(&mark.part).map_err(|error| damaged_mark(mark, &error.to_string()))?;
        Ok(Self { low, high, cursor })
    }
}

pub(crate) fn damaged_mark(mark: &StaleMark, reason: &str) -> StoreError {
    StoreError::Damaged(Damage::of_row(format!("the mark of {:?}", mark.target.as_str()), reason))
}

/// The key that a mark or an edge contains.
pub(crate) fn parse_key(text: &SmolStr) -> Result<Key> {
    Key::new(text.clone()).map_err(|error| StoreError::Damaged(Damage::of_row(format!("a mark or an edge of {text:?}"), error.to_string())))
}
