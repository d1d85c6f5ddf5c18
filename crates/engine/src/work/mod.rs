//! Workers: threads that lease chunks, map and consolidate them, and submit them to the store to be committed.
//!
//! A pool (`pool.rs`) processes one job, or all live jobs in the order that [`stook_store::schedule`] chooses. One thread leases ahead, so
//! that workers do not wait for leases; another renews the leases that are held. A chunk that fails is tried again after a delay, which grows each
//! time, and is dead after [`MAX_ATTEMPTS`]. A pool that is stopped finishes the chunks in progress and gives back the rest. [`run()`] keeps a pool
//! running through failures of the store; [`requeue`] makes waiting or dead chunks smaller, dumps them and loads them again.

pub mod event;
mod pool;
pub mod requeue;
pub mod run;

pub use event::{JobRun, LEASE_SECONDS, TaskReport, WorkerEvent, WorkerOptions};
pub use pool::MAX_ATTEMPTS;
pub(crate) use pool::WorkerPool;
pub use run::run;
