//! Whether a query fetches from services, and how long it waits.

use std::time::Duration;

/// Whether services are asked for a query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FetchPolicy {
    /// Where no answer is here that is whole and fresh.
    #[default]
    Needed,
    /// Whatever is here.
    Always,
    /// Not before the query is answered, if there is any whole answer: a new one is asked for meanwhile.
    Background,
    /// Not at all.
    Never,
}

/// All of these with their names.
pub const WHEN: [(&str, FetchPolicy); 4] =
    [("needed", FetchPolicy::Needed), ("always", FetchPolicy::Always), ("later", FetchPolicy::Background), ("never", FetchPolicy::Never)];

impl FetchPolicy {
    /// The one with a name.
    pub fn named(name: &str) -> Option<Self> {
        WHEN.iter().find(|(known, _)| *known == name).map(|(_, when)| *when)
    }
}

/// How a query wants to be answered.
#[derive(Debug, Clone, Copy, Default)]
pub struct FetchOptions {
    /// Whether services are asked.
    pub when: FetchPolicy,
    /// How long to wait; without it as long as the services may take.
    pub time: Option<Duration>,
}
