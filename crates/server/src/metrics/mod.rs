//! Metrics of requests and tasks: in the format of Prometheus, as sums, and as points of the last hour.

mod counters;
pub mod health;
mod history;
mod totals;

pub use counters::{CachedKind, Metrics, RequestCounters, RequestStep, UNKNOWN_TENANT};
pub use history::MetricsHistory;
pub use totals::{STEPS, quantile};
