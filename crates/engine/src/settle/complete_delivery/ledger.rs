//! The ledger of a scope: which files have replaced others, and from which position on.

use super::names::all_times;
use crate::relations::stored::number;
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::CompleteDelivery;
use stook_store::{Edge, Result, Store, Tenant};

/// The files that have replaced others, by scope: from which position on, and the file's as-of time.
#[derive(Debug, Default)]
pub struct DeliveryLedger(BTreeMap<String, Vec<(i64, i64)>>);

impl DeliveryLedger {
    pub(super) fn new(edges: Vec<Edge>) -> Result<Self> {
        let mut ledger = Self::default();
        for edge in edges {
            let as_of = number(&edge)?;
            ledger.0.entry(edge.target.into()).or_default().push((edge.start, as_of));
        }
        Ok(ledger)
    }

    /// Reads the ledger of some scopes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read<'s>(store: &dyn Store, tenant: &Tenant, replaces: &CompleteDelivery, scopes: impl Iterator<Item = &'s str>) -> Result<Self> {
        let ranges: Vec<_> = scopes.collect::<BTreeSet<_>>().into_iter().map(all_times).collect();
        if ranges.is_empty() { Ok(Self::default()) } else { Self::new(store.edges_starting_between(tenant, replaces.ledger(), &ranges)?) }
    }

    /// Whether the ledger has a newer delivery of the scope that begins at or before `at`.
    pub fn is_replaced(&self, scope: &str, at: i64, as_of: i64) -> bool {
        self.replacement(scope, at, as_of).is_some()
    }

    /// The as-of time of the newest such delivery.
    pub fn replacement(&self, scope: &str, at: i64, as_of: i64) -> Option<i64> {
        let files = self.0.get(scope)?.iter();
        files.filter(|(from, newer)| *from <= at && *newer > as_of).map(|(_, newer)| *newer).max()
    }
}
