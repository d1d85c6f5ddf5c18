//! Keeps records: a transactional store that reads many records per call and contains the work queue.
//!
//! [`Store`] is the only interface that the engine, the query planner and the server use. Everything else follows from two rules:
//! * **A unit of work commits completely or not at all.** Records, reservations, edges, stale marks, the chunk's journal and its removal from the
//!   queue, which requires its lease token, are one transaction ([`Unit`]).
//! * **A record is written only if it still has the version that was read.** If records have changed meanwhile, the unit gets them inside the
//!   transaction and merges again ([`Unit::resolve`]).
//!
//! Reads never wait for writes. All calls block; none may be made from inside [`Unit`]'s methods.
//!
//! Modules:
//! * `contract/`: the trait [`Store`], role by role, with the types that callers see.
//! * `sql/`: what both stores share, independent of their SQL dialects; [`store_schema`] decides whether a definition can be applied to a store.
//! * [`schedule`]: decides whose chunk is next.
//! * [`sqlite`]: the store in a file.
//! * [`postgres`]: the store on a server, if the feature `postgres` is on (the default).
//! * [`backup_file`]: the file of a backup, for either kind of store.
//! * [`admin`]: jobs, chunks and tokens of a store, independent of its definition.

pub mod admin;
pub mod backup_file;
mod contract;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(not(feature = "postgres"))]
#[path = "postgres/absent.rs"]
pub mod postgres;
pub mod schedule;
mod sql;
pub mod sqlite;

pub use contract::access::Tokens;
pub use contract::audit::AuditLog;
pub use contract::backup::Backups;
pub use contract::change_feed::ChangeFeed;
pub use contract::commit::{CommitReceipt, CommitReply, CommitResult, PendingCommit, Priority, Units, WakeFn};
pub use contract::edges::{Edge, EdgeChange, EdgeCursor, EdgeRange, StartRange};
pub use contract::erasure::Erasures;
pub use contract::error::{Result, StoreError};
pub use contract::former::FormerContributions;
pub use contract::health::Health;
pub use contract::ids::LeaseToken;
pub use contract::observer::{ChangedRecord, CommitNumbers, CommitObserver};
pub use contract::plan::Queries;
pub use contract::queue::Queue;
pub use contract::record_filter::{FilteredRecord, RecordFilter, Visibility};
pub(crate) use contract::records::FoundRow;
pub use contract::records::{
    ChangeLogEntry, NewChangeLogEntry, ReadDetail, RecordChange, RecordContent, RecordWrite, Records, RefusalReason, RefusedWrite, RowHint,
    StoredRecord, Version, WriteConflict,
};
pub use contract::settling::{
    LOCK_PARTITIONS, PassContext, PassReport, PassWrites, SettlePass, Settling, SettlingChanges, StaleMark, lock_partition_of,
};
pub use contract::sql_queries::SqlQueries;
pub use contract::tag::{PackedTrees, Tags};
pub use contract::tenant::{DEFAULT_TENANT, Tenant};
pub use contract::unit::{CALL_RETENTION, IdempotentCall, Premises, ReadSet, RecordRead, RevisionRead, SearchRead, Unit};
pub use contract::{
    Store, access, audit, backup, cancel, change_feed, changes, erasure, former, health, journal, plan, queue, sql_queries, stats, tag,
};
pub use sql::store_schema;

/// Stored rows that cannot be read, and the reasons.
pub mod damage {
    pub use crate::contract::damage::{Damage, DamagedPart, RecordPart};
    pub use crate::contract::error::ForRecord;
}
