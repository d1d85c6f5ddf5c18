//! What has changed in records, in the order of commits, for callers who follow it.
//!
//! A unit that changes what readers see of records of a collection with [`changes`](stook_catalogue::definition::Collection::changes) also writes what
//! has changed, in batches. Positions of batches grow in the order in which batches of one record were written, and no batch appears before
//! a position up to which everything was given.

use super::error::Result;
use super::tenant::Tenant;
use serde_json::{Map, Value as Json};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::SmolStr;

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Readers did not see it before; its fields are all that it has.
    Created,
    /// Values changed; its fields are those that did, null where there is no value any more.
    Changed,
    /// Readers do not see it any more.
    Deleted,
}

impl ChangeKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Created, Self::Changed, Self::Deleted];

    /// Its name, for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
        }
    }
}

/// A contribution that a change follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeCause {
    /// Its contributor.
    pub contributor: SmolStr,
    /// The job that it is from; 0 if it is from none. For one that does not count any more, the job that it was from.
    pub job: u64,
    /// Whether it counts now: it is new, other than before, or restored. If not, it was removed, retired or undone.
    pub counts: bool,
}

/// A change of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeEntry {
    /// The record's key.
    pub key: String,
    /// Its revision after the change; of one that was removed, the revision that it would have.
    pub revision: i64,
    /// What became of it.
    pub kind: ChangeKind,
    /// Fields and states with their values, as readers see them.
    pub fields: Map<String, Json>,
    /// The contributions that it follows from. None if other records are the cause, so that it was settled, or a transition.
    pub causes: Vec<ChangeCause>,
    /// The transition that set its state, if one did.
    pub transition: Option<String>,
}

/// Changes of records of one collection that were committed together.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeBatch {
    /// Its position.
    pub position: i64,
    /// The time of the commit, in microseconds.
    pub at: i64,
    /// The collection.
    pub collection: CollectionId,
    /// The changes.
    pub entries: Vec<ChangeEntry>,
}

/// Positions are comparable within the store in which they were given, and with those in the backup from which it was restored. A store has another
/// name for its positions from each restoration on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeEpoch {
    /// Its name.
    pub name: String,
    /// The last position of the store before it.
    pub begins_after: i64,
}

/// Which changes are read.
#[derive(Debug, Clone, Copy)]
pub struct ChangeSelection<'s> {
    /// The tenant.
    pub tenant: &'s Tenant,
    /// The collections.
    pub collections: &'s [CollectionId],
    /// The position from which on batches are read, included.
    pub from: i64,
    /// The position up to which the caller has read before, 0 if none: [`FoundChanges::until`] is not before it.
    pub seen: i64,
    /// The maximum number of batches; none if it is 0.
    pub max_batches: usize,
}

/// Batches, and what is known about all others.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundChanges {
    /// Batches in the order of their positions.
    pub batches: Vec<ChangeBatch>,
    /// The epochs of the store, oldest first.
    pub epochs: Vec<ChangeEpoch>,
    /// The position up to which changes of any of the collections are not kept, or not any more; 0 if all of them are.
    pub kept_after: i64,
    /// The position up to which all batches have been committed: what is committed later has a greater one.
    pub until: i64,
}

/// Gives what has changed.
pub trait ChangeFeed {
    /// Reads batches, and the limits of what is kept, at one moment. What is returned is durable.
    ///
    /// # Errors
    /// When the database fails, or a batch is damaged.
    fn read_changes(&self, selection: ChangeSelection<'_>) -> Result<FoundChanges>;

    /// Removes some batches that are older than their collections say; returns whether there may be more.
    ///
    /// # Errors
    /// When the database fails.
    fn expire_changes(&self) -> Result<bool>;
}
