//! The embedded store: one SQLite file, write-ahead log, one writer and many readers.
//!
//! * [`store`] opens the file and keeps its connections ([`connection`], [`error`]); [`roles`] is the contract, method by method.
//! * [`writer`] is the only connection that writes: a thread that groups bulk units into one transaction and closes it at
//!   the next unit's boundary when somebody waits. Another process on the file is waited for, or reported. [`wal`] syncs and
//!   copies back the write-ahead log, [`disk_space`] watches the disk space.
//! * [`mod@unit`] writes a unit of work, with [`rows`], [`unique`], [`edges`] and [`tags`]; [`pass`] runs a settle pass, with [`marks`].
//! * [`records`] reads records, [`query`] turns plans into SQL, [`jobs`], [`queue`] and [`journal`] keep what is to be done and what became of it.
//! * [`tables`] says how a definition becomes tables, [`upgrade`] brings older files up to date; [`values`], [`packed`], [`tenants`]
//!   and [`sql`] are what the others write statements with.
//! * [`backup()`] copies the file while it is used.
//!
//! A record is a row of a rowid table with a separate unique index on (tenant, key): random keys go in three to four times
//! faster than into a table clustered by key. The index holds keys [`packed`], and is asked where a record is looked for; what
//! was read is written back to its row. The kept document is the last column, so that reading anything else does not touch its
//! pages.
//!
//! Any program that knows SQLite can read, check and copy the file.

mod backup;
mod connection;
mod disk_space;
mod edges;
mod error;
mod jobs;
mod journal;
mod marks;
mod packed;
mod pass;
mod query;
mod queue;
mod records;
mod roles;
mod rows;
mod sql;
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
mod wal;
mod writer;

pub use backup::{BackupReport, backup};
pub use connection::SqliteOptions;
pub use packed::teach;
pub use store::SqliteStore;
