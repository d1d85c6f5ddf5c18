//! Fetches from services the documents that a query needs.
//!
//! A query's conditions choose a call for each source of its collection (`bind.rs`). `Fetcher::step` looks for a fresh answer that covers the query
//! (`answer.rs`); if there is none, `call.rs` makes the call. Its pages are requested within the limits of the service, spooled, and imported by
//! jobs like any other documents (`run.rs`), and the answer is stored as a [`ServiceAnswer`]: which conditions were passed, whether it is complete,
//! and until when it is fresh. A complete answer replaces what the source contributed before to records that satisfy its conditions
//! (`withdraw.rs`); time alone removes nothing.
//!
//! What a query reads through links is fetched, too (`gather.rs`): with the conditions that its own imply there (`implied.rs`), or with the values
//! that its records have in the link's fields.
//!
//! Several services are fetched from at the same time, each within its own limits and deadline. Calls that have not ended when a query's time is
//! over are shown with the result ([`ServiceStatus`]), and continue.

mod answer;
mod bind;
mod call;
mod fetcher;
mod gather;
mod implied;
mod limits;
mod options;
mod response;
mod run;
mod status;
mod url;
mod withdraw;

pub use answer::{AnswerState, ServiceAnswer};
pub use fetcher::Fetcher;
pub use options::{FetchOptions, FetchPolicy, WHEN};
pub use status::ServiceStatus;
