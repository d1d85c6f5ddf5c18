//! Whether a query fetches from services, and how long it waits.

use std::time::Duration;

/// When a query fetches from services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FetchPolicy {
    /// If there is no complete and fresh answer.
    #[default]
    Needed,
    /// Always, whatever is stored.
    Always,
    /// Does not make the query wait if there is any complete answer: if that has expired, a new one is fetched meanwhile.
    Background,
    /// Not at all.
    Never,
}

/// All policies with their names.
pub const WHEN: [(&str, FetchPolicy); 4] =
    [("needed", FetchPolicy::Needed), ("always", FetchPolicy::Always), ("later", FetchPolicy::Background), ("never", FetchPolicy::Never)];

impl FetchPolicy {
    /// The policy with a name.
    pub fn named(name: &str) -> Option<Self> {
        WHEN.iter().find(|(known, _)| *known == name).map(|(_, when)| *when)
    }
}

/// How a query fetches from services.
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchOptions {
    /// When it fetches.
    pub when: FetchPolicy,
    /// How long it waits; if `None`, as long as the services may take.
    pub time: Option<Duration>,
}
