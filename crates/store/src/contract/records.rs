//! Records as a store keeps them: their versions, contents, changes and change logs.

use super::damage::{Damage, DamagedPart};
use super::error::{ForRecord, Result, StoreError};
use super::former::FormerContribution;
use super::ids::JobId;
use super::record_filter::FilteredRecord;
use super::tenant::Tenant;
use bytes::Bytes;
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, unpack};
use stook_catalogue::value::Value;

/// The version of a record: its revision, and a counter of writes that did not change its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Version {
    /// Microseconds of the store's clock when the content last changed; strictly increasing per record.
    pub revision: i64,
    /// Writes since then that changed no content.
    pub touches: i64,
    /// Where the row is, if the store provides that.
    pub location: RowHint,
}

impl Version {
    /// A version without a row location.
    pub fn new(revision: i64, touches: i64) -> Self {
        Self { revision, touches, location: RowHint::default() }
    }
}

/// What a store has found out about a record's row, so that finding it again costs less. It is a hint and not part of the version: all hints are equal.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowHint(pub(crate) Option<FoundRow>);

/// The row of a record at a version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundRow {
    /// Its number.
    pub id: i64,
    /// Whether the record exists for readers.
    pub exists: bool,
}

impl PartialEq for RowHint {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for RowHint {}

/// A record as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRecord {
    /// Its key.
    pub key: Key,
    /// Its version.
    pub version: Version,
    /// The job that created it, see [`JobRef::number`](super::ids::JobRef::number).
    pub created_job: JobId,
    /// Whether it exists for readers.
    pub exists: bool,
    /// Packed contributions, see [`stook_catalogue::record`]; empty if only values were read.
    pub contributions: Vec<u8>,
    /// State fields that transitions have set, by position.
    pub state_set: Vec<(usize, Value)>,
    /// Golden values; empty if only the head was read.
    pub golden: Vec<Value>,
    /// Effective state values; empty if only the head was read.
    pub state: Vec<Value>,
    /// Fields with a conflict.
    pub conflicts: Vec<FieldId>,
    /// Kept documents, concatenated; `None` unless everything was read.
    pub raw: Option<Vec<u8>>,
    /// Damaged parts, which have no value here; empty unless read by [`Records::read_damaged`].
    pub damage: Vec<DamagedPart>,
}

impl StoredRecord {
    /// Returns the record if all of it can be read.
    ///
    /// # Errors
    /// When a part is damaged.
    pub fn sound(self, collection: &str) -> Result<Self> {
        match self.reason() {
            None => Ok(self),
            Some(reason) => Err(StoreError::Damaged(Damage::of_record(collection, self.key.as_str(), reason))),
        }
    }

    /// What a filter looks at; the record must have been read with its values.
    pub fn values(&self) -> FilteredRecord<'_> {
        FilteredRecord { key: &self.key, golden: &self.golden, state: &self.state }
    }

    /// Its contributions; it must have been read with [`ReadDetail::Full`].
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn contributions_of(&self, collection: &Collection) -> Result<Vec<Contribution>> {
        // without kept documents there are none to leave out
        let raw = self.raw.as_deref().unwrap_or_default();
        unpack(&self.contributions, collection, &self.golden, Some(raw)).for_record(&collection.name, &self.key)
    }

    /// The reasons why parts are damaged, in words; `None` if none are.
    pub fn reason(&self) -> Option<String> {
        let reasons: Vec<&str> = self.damage.iter().map(|damage| damage.reason.as_str()).collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }
}

/// How much of a record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadDetail {
    /// What is needed to decide whether to write: version, contributions, state that was set.
    Head,
    /// What readers see: version, golden values, state; neither contributions nor kept documents.
    Values,
    /// Everything.
    Full,
    /// Everything but kept documents.
    Content,
}

/// A write of one record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordWrite {
    /// The collection.
    pub collection: CollectionId,
    /// The record.
    pub key: Key,
    /// The version that was read; `None` if there was no record.
    pub expect: Option<Version>,
    /// The change.
    pub change: RecordChange,
}

/// The change of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum RecordChange {
    /// New content: the revision grows.
    Put(Box<RecordContent>),
    /// New contributions (times) with the same golden content: the revision stays.
    Touch {
        /// Packed contributions.
        contributions: Vec<u8>,
    },
    /// New state with the same golden content: the revision grows.
    State {
        /// A value per state field.
        state: Vec<Value>,
        /// State fields that transitions have set, by position.
        state_set: Vec<(usize, Value)>,
    },
    /// New settled values, with everything else as it is: the revision stays.
    Settle(Box<RecordContent>),
    /// The row is deleted.
    Delete,
}

/// The content of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordContent {
    /// The job that created it, see [`JobRef::number`](super::ids::JobRef::number).
    pub created_job: JobId,
    /// Whether it exists for readers.
    pub exists: bool,
    /// A value per field.
    pub golden: Arc<[Value]>,
    /// A value per state field.
    pub state: Vec<Value>,
    /// State fields that transitions have set, by position.
    pub state_set: Vec<(usize, Value)>,
    /// Fields with a conflict.
    pub conflicts: Vec<FieldId>,
    /// Packed contributions.
    pub contributions: Vec<u8>,
    /// Kept documents, concatenated.
    pub raw: Option<Bytes>,
    /// Whether indexed and unique values are the same as in the record that is replaced.
    pub indexes_unchanged: bool,
}

/// A record that changed between reading and writing.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteConflict {
    /// The collection.
    pub collection: CollectionId,
    /// The key.
    pub key: Key,
    /// The complete record as it is now, or `None`. It may be damaged.
    pub record: Option<StoredRecord>,
    /// Its former contributions, if the unit [reads them](super::unit::Unit::reads_former).
    pub former: Vec<FormerContribution>,
}

/// A record that cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedWrite {
    /// Its collection.
    pub collection: CollectionId,
    /// Its key.
    pub key: Key,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a record cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalReason {
    /// Another record has the same value in a unique field.
    Taken {
        /// The unique field.
        field: FieldId,
        /// The key of the record that has the value.
        holder: String,
    },
    /// It was erased, see [`erasure`](super::erasure).
    Erased,
}

/// A change of a record's state by a transition, kept for ever; or of its golden fields, of which the collection's `history` says how many are kept.
#[derive(Debug, Clone, PartialEq)]
pub struct NewChangeLogEntry {
    /// The collection.
    pub collection: CollectionId,
    /// The record.
    pub key: Key,
    /// The transition's name; `None` for a change of golden fields.
    pub transition: Option<String>,
    /// The caller, or the work that changed the fields.
    pub caller: String,
    /// Values of the changed fields, before (if there was a record) and after, and a transition's arguments: `{"args": {}, "before": {}, "after":
    /// {}}`.
    pub change: serde_json::Value,
}

/// An entry of a record's change log.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangeLogEntry {
    /// Number in the order of writing.
    pub id: i64,
    /// The time, in microseconds.
    pub at: i64,
    /// As in [`NewChangeLogEntry`].
    pub transition: Option<String>,
    /// As in [`NewChangeLogEntry`].
    pub caller: String,
    /// As in [`NewChangeLogEntry`].
    pub change: serde_json::Value,
}

/// Reads records. They are written by units: [`Units`](super::commit::Units).
pub trait Records {
    /// Reads records by key, in the order of `keys`. One statement, whatever their number.
    ///
    /// # Errors
    /// When the database fails, or one of the records is damaged.
    fn read(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>>;

    /// Like [`Records::read`], but also returns damaged records, with their damage.
    ///
    /// # Errors
    /// When the database fails.
    fn read_damaged(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>>;

    /// Returns the versions of records, in the order of `keys`. One statement, whatever their number.
    ///
    /// # Errors
    /// When the database fails.
    fn versions(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<Version>>> {
        let heads = self.read(tenant, collection, keys, ReadDetail::Head)?;
        Ok(heads.into_iter().map(|record| record.map(|record| record.version)).collect())
    }

    /// Returns `limit` keys of a collection after `key`, in their order, including those of records that do not exist for readers.
    ///
    /// # Errors
    /// When the database fails.
    fn keys_after(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>>;

    /// Returns entries of a record's change log, newest first, `limit` of them before entry `before`.
    ///
    /// # Errors
    /// When the database fails.
    fn log(&self, tenant: &Tenant, collection: CollectionId, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>>;
}
