//! The store in an SQLite file in WAL mode, with one writer and many readers.
//!
//! * [`store`] opens the file and keeps its connections ([`connection`], [`error`]); [`roles`] implements the contract.
//! * [`writer`] is the thread with the only connection that writes. It groups bulk units into one transaction and commits it at the next boundary
//!   between units when a caller waits. If another process writes, it waits, and fails after a time limit. [`wal`] syncs the WAL and copies it into
//!   the file, [`disk_space`] watches the disk space, [`files`] that nobody removes the file.
//! * [`mod@unit`] writes a unit of work, with [`rows`], [`unique`], [`edges`], [`tags`] and [`former`]; [`pass`] runs a settle pass, with [`marks`].
//! * [`records`] reads records, [`query`] turns plans into SQL, [`jobs`], [`queue`] and [`journal`] keep jobs, their chunks and the outcomes of their
//!   documents.
//! * [`tables`] maps a definition to tables, [`upgrade`] upgrades older files; [`values`], [`packed`], [`tenants`] and [`sql`] are helpers for
//!   statements.
//! * [`backup()`] copies the file while it is in use; [`dump`] gives what it holds, for a backup that any store can be filled with.
//!
//! A record is a row of a rowid table with a separate unique index on (tenant, key): inserting random keys is three to four times faster than into a
//! table clustered by key. The index contains [`packed`] keys and is used to find a record; writing a record that was read uses its rowid. The kept
//! document is the last column, so that reading other columns does not touch its pages.
//!
//! Any program that knows SQLite can read, check and copy the file.

mod access;
mod audit;
mod backup;
mod change_feed;
mod connection;
mod disk_space;
mod dump;
mod edges;
mod erasure;
mod error;
mod files;
mod former;
mod health;
mod jobs;
mod journal;
mod marks;
mod packed;
mod pass;
mod query;
mod queue;
mod record_counts;
mod records;
mod roles;
mod rows;
mod sql;
mod sql_queries;
#[cfg(debug_assertions)]
mod statements;
mod store;
mod tables;
mod tags;
mod tenants;
mod unique;
mod unit;
mod upgrade;
mod values;
mod views;
mod wal;
mod words_index;
mod writer;

pub use backup::{BackupReport, backup};
pub use connection::SqliteOptions;
pub use packed::register_functions;
pub use store::SqliteStore;
