//! The contract of a store, by role; the suite in `tests/conformance` checks all of it.
//!
//! | role | what it does | file, with its types |
//! |---|---|---|
//! | [`Records`] | reads records by key | `records.rs` |
//! | [`Changes`] | reads records in the order in which they changed | `changes.rs` |
//! | [`ChangeFeed`] | gives what has changed in records, in the order of commits | `change_feed.rs` |
//! | [`Queries`] | executes plans | `plan.rs` |
//! | [`SqlQueries`] | reads views of golden records with SQL | `sql_queries.rs` |
//! | [`Units`] | writes units of work | `commit.rs`; [`Unit`](unit::Unit) in `unit.rs` |
//! | [`CommitNumbers`] | shows caches of records whether anything was committed | `observer.rs` |
//! | [`Settling`] | keeps edges and marks, runs passes | `settling.rs`, `edges.rs` |
//! | [`Tags`] | keeps tags and trees | `tag.rs` |
//! | [`Tokens`] | keeps tokens | `access.rs` |
//! | [`AuditLog`] | keeps who changed what | `audit.rs` |
//! | [`FormerContributions`] | keeps what no longer counts, for jobs to be undone | `former.rs` |
//! | [`Erasures`] | keeps which records were erased, and removes what tells of them | `erasure.rs` |
//! | [`Queue`] | keeps jobs, chunks and journals | `queue.rs`, `journal.rs` |
//! | [`Health`] | tells the state of the database | `health.rs` |
//! | [`Backups`] | gives and takes everything | `backup.rs` |
//!
//! Callers who may see some of the records use `record_filter.rs`. All of them use `ids.rs`, `tenant.rs`, `error.rs` with `damage.rs`, and `cancel.rs`, by which callers cancel calls.

pub mod access;
pub mod audit;
pub mod backup;
pub mod cancel;
pub mod change_feed;
pub mod changes;
pub mod commit;
pub mod damage;
pub mod edges;
pub mod erasure;
pub mod error;
pub mod former;
pub mod health;
pub mod ids;
pub mod journal;
mod linked;
pub mod observer;
pub mod plan;
pub mod queue;
pub mod record_filter;
pub mod records;
pub mod settling;
pub mod sql_queries;
pub mod stats;
pub mod tag;
pub mod tenant;
pub mod unit;

use access::Tokens;
use audit::AuditLog;
use backup::Backups;
use change_feed::ChangeFeed;
use changes::Changes;
use commit::Units;
use erasure::Erasures;
use error::Result;
use former::FormerContributions;
use health::Health;
use observer::CommitNumbers;
use plan::Queries;
use queue::Queue;
use records::Records;
use settling::Settling;
use sql_queries::SqlQueries;
use stats::StoreStats;
use stook_catalogue::ids::SourceId;
use tag::Tags;
use tenant::Tenant;

/// A record store for one catalogue: its roles, and methods that concern the entire store. With a `dyn Store`, the methods of every role can be
/// called without importing their traits.
pub trait Store:
    Records
    + Changes
    + ChangeFeed
    + Queries
    + SqlQueries
    + Units
    + CommitNumbers
    + Settling
    + Tags
    + Tokens
    + AuditLog
    + FormerContributions
    + Erasures
    + Queue
    + Backups
    + Health
    + Send
    + Sync
{
    /// The store's clock, in microseconds since 1970; strictly increasing over all calls.
    fn clock(&self) -> i64;

    /// What opening the store with this definition changed, in sentences.
    fn changes(&self) -> &[String];

    /// Whether opening the store replaced the definition it held; processes that were started with the old one must be restarted.
    fn has_replaced_definition(&self) -> bool;

    /// Whether the store still holds the definition that it was opened with.
    ///
    /// # Errors
    /// [`StoreError::DefinitionChanged`](error::StoreError::DefinitionChanged) when another process has prepared it for another definition; when the
    /// database fails.
    fn check_definition(&self) -> Result<()>;

    /// The first errors that the database finds in its own structures, in its words; empty if it is sound. The default returns nothing, for database
    /// servers, which check their own files. Cost: a file is read completely.
    ///
    /// # Errors
    /// When it cannot be read.
    fn damage(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The generation that contributions made by a feed's mapping are stored with.
    fn generation(&self, source: SourceId, feed: usize) -> u32;

    /// Statistics of the store.
    ///
    /// # Errors
    /// When the database fails.
    fn stats(&self) -> Result<StoreStats>;

    /// Every tenant that has, or had, records.
    ///
    /// # Errors
    /// When the database fails.
    fn tenants(&self) -> Result<Vec<Tenant>>;
}
