//! Records that were erased: nothing that was ever said of them is kept, and nothing is taken in again until the erasure is lifted.
//!
//! An erasure is a unit of work ([`Unit::erases`](super::unit::Unit::erases)) that removes the record and notes that it was erased, by a hash of its
//! key. From then on, units that would write the record are told that it was erased ([`RefusalReason::Erased`](super::records::RefusalReason)). What
//! tells of it elsewhere is removed afterwards by [`Erasures::clear_traces`], which can be repeated.

use super::error::Result;
use super::tenant::Tenant;
use serde::{Deserialize, Serialize};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Why a record that was erased is not written.
pub const ERASED: &str = "the record was erased; `stook erase --lift` allows it again";

/// Length of the hash of an erased record, in bytes.
pub const DIGEST_BYTES: usize = 16;

/// The hash by which an erased record is known: of its tenant, collection and key. Who knows a key can tell whether it was erased.
pub fn digest(tenant: &Tenant, collection: &str, key: &str) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for part in ["erased", tenant.as_str(), collection] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    hasher.update(key.as_bytes());
    hasher.finalize().as_bytes()[..DIGEST_BYTES].to_vec()
}

/// A hash in hexadecimal digits, as [`Erasure::digest`] has it.
pub fn digits(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An erasure that is to be noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewErasure {
    /// The collection.
    pub collection: CollectionId,
    /// The key.
    pub key: Key,
    /// Why, in the words of who has ordered it.
    pub reason: Option<String>,
}

/// A record that was erased.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// The tenant.
    pub tenant: String,
    /// The name of the collection.
    pub collection: String,
    /// The hash of the record, in hexadecimal digits, see [`digest`].
    pub digest: String,
    /// Microseconds of the store's clock.
    pub at: i64,
    /// Why, in the words of who has ordered it.
    pub reason: Option<String>,
    /// Whether all traces have been removed.
    pub finished: bool,
}

/// What tells of an erased record, and was removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ErasedTraces {
    /// Entries of change logs.
    pub log_entries: u64,
    /// Outcomes in journals of jobs.
    pub outcomes: u64,
    /// Failures and warnings of documents, with the documents that failed.
    pub issues: u64,
    /// Changes that were noted for those who follow them.
    pub changes: u64,
    /// Kept answers to idempotent requests.
    pub answers: u64,
    /// Entries of the audit log, which stay without the key.
    pub audit_entries: u64,
    /// Records that were made of the same documents, at most [`MAX_SHARED`].
    pub shared: Vec<(String, String)>,
}

/// The most records that [`ErasedTraces::shared`] names.
pub const MAX_SHARED: usize = 1_000;

/// Erased records.
pub trait Erasures {
    /// The records that were erased, in the order of their erasure.
    ///
    /// # Errors
    /// When the database fails.
    fn erasures(&self) -> Result<Vec<Erasure>>;

    /// Notes erasures that another store has noted, such as the one from which a backup is restored; nothing is removed by this. Returns how many are new.
    ///
    /// # Errors
    /// When the database fails; when a hash is none.
    fn note_erasures(&self, erasures: &[Erasure]) -> Result<u64>;

    /// Returns those of these records that were erased, by their positions. Cost: nothing is hashed while no record was erased.
    ///
    /// # Errors
    /// When the database fails.
    fn erased(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<usize>>;

    /// Removes what tells of an erased record: change logs, outcomes and issues of journals, changes for those who follow them (but for the last one,
    /// which tells them that the record is gone), kept answers that have its key, and its key in the audit log. Then its erasure is finished. It may be repeated. Cost: all
    /// journals of the tenant and all changes of the collection are read, in pages; what it finds is written in small transactions.
    ///
    /// # Errors
    /// When the database fails; when the record is not erased.
    fn clear_traces(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<ErasedTraces>;

    /// Makes sure that what was removed is not in the database's files any more: a file is rewritten, which waits for others who use it; a server
    /// reclaims the space of removed rows.
    ///
    /// # Errors
    /// When the database fails, or others use the file for too long.
    fn purge(&self) -> Result<()>;

    /// Allows an erased record to exist again; returns whether it was erased.
    ///
    /// # Errors
    /// When the database fails.
    fn lift_erasure(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<bool>;
}
