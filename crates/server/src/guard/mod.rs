//! What every request goes through before a handler sees it, and what it takes with it.
//!
//! `guarded` is the way: `access` says who calls, `admission` whether the request is processed now, waits or is refused. `request` gives
//! handlers what was sent, checked, and `blocking` runs what may wait. `problem` is the answer to a request that cannot be done, and `pace`
//! watches how slowly a peer sends or takes.

pub mod access;
pub mod admission;
pub(crate) mod blocking;
mod guarded;
pub(crate) mod pace;
pub(crate) mod problem;
pub(crate) mod request;

pub use guarded::guarded;
pub(crate) use guarded::numbered;
