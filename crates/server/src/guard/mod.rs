//! What happens to every request before its handler runs.
//!
//! `guarded` is the middleware. `tokens` identifies the caller by a secret (`secret`), and `proxy` by what a trusted proxy says, `access` says what a caller may do (`undecided`: with which collections), and `admission` decides whether the request is processed now, waits or is refused; `refusals` says when a refusal is sent.
//! `audited` says who does what, for the audit log. `request` gives handlers the checked parts of a request, `form` those of a form, and `blocking` runs work that may block. `problem` is the response to a request that
//! cannot be fulfilled, `head` refuses heads that are too large or ambiguous, and `pace` limits how slowly a peer may send or receive.

pub mod access;
pub mod admission;
pub(crate) mod audited;
pub(crate) mod blocking;
pub(crate) mod form;
mod guarded;
pub(crate) mod head;
pub(crate) mod pace;
pub(crate) mod problem;
pub mod proxy;
pub(crate) mod refusals;
pub(crate) mod request;
pub mod secret;
pub(crate) mod tokens;
pub(crate) mod undecided;

pub(crate) use guarded::add_request_id;
pub use guarded::{guarded, guarded_declared};
