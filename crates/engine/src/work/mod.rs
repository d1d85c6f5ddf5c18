//! Workers: threads that lease chunks, map and consolidate them, and leave them to the store to be committed.
//!
//! A pool (`pool.rs`) serves one job, or every live job in the order that [`stook_store::schedule`] chooses. One thread leases ahead, so
//! that workers do not wait for leases; one prolongs the leases that are held. A chunk that fails waits a while, longer each
//! time, and is dead after [`MOST_ATTEMPTS`]. A pool that is stopped finishes the chunks in hand and gives back the rest. [`run()`] keeps a pool
//! running through failures of the store; [`requeue`] makes waiting or dead chunks smaller, and takes them out of the queue and puts them back.

pub mod event;
mod pool;
pub mod requeue;
pub mod run;

pub use event::{JobRun, LEASE_SECONDS, TaskReport, WorkerEvent, WorkerOptions};
pub use pool::MOST_ATTEMPTS;
pub(crate) use pool::WorkerPool;
pub use run::run;
