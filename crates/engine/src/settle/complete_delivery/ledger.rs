//! The ledger of a scope: which deliveries have replaced others, and from which position on.

use super::names::{all_times, delivery_age};
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::CompleteDelivery;
use stook_catalogue::record::Reception;
use stook_store::{Edge, Result, Store, Tenant};

/// The deliveries that have replaced others, by scope: from which position on, and the age of each.
#[derive(Debug, Default)]
pub struct DeliveryLedger(BTreeMap<String, Vec<(i64, DeliveryAge)>>);

/// The age of a complete delivery. If its source orders documents of one as-of time by their reception, a document has one, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryAge {
    /// The as-of time.
    pub as_of: i64,
    /// When it was received.
    pub received: Option<Reception>,
}

impl DeliveryAge {
    /// Whether it replaces what is of this age.
    fn replaces(self, older: Self) -> bool {
        let is_received_later = || matches!((self.received, older.received), (Some(own), Some(other)) if own > other);
        self.as_of > older.as_of || self.as_of == older.as_of && is_received_later()
    }
}

/// Whether an edge of the ledger is to a delivery that one of this age covers.
pub fn is_older(edge: &Edge, age: DeliveryAge) -> bool {
    delivery_age(edge).is_ok_and(|known| age.replaces(known))
}

impl DeliveryLedger {
    /// The ledger that these edges make up.
    ///
    /// # Errors
    /// When an edge is damaged.
    pub fn new(edges: Vec<Edge>) -> Result<Self> {
        let mut ledger = Self::default();
        for edge in edges {
            let age = delivery_age(&edge)?;
            ledger.add(&edge.target, edge.start, age);
        }
        Ok(ledger)
    }

    /// Adds a delivery that replaces others from a position on.
    pub fn add(&mut self, scope: &str, from: i64, age: DeliveryAge) {
        self.0.entry(scope.to_owned()).or_default().push((from, age));
    }

    /// Reads the ledger of some scopes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read<'s>(store: &dyn Store, tenant: &Tenant, replaces: &CompleteDelivery, scopes: impl Iterator<Item = &'s str>) -> Result<Self> {
        Self::new(Self::edges(store, tenant, replaces, scopes)?)
    }

    /// Reads the edges that make up the ledger of some scopes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn edges<'s>(store: &dyn Store, tenant: &Tenant, replaces: &CompleteDelivery, scopes: impl Iterator<Item = &'s str>) -> Result<Vec<Edge>> {
        let ranges: Vec<_> = scopes.collect::<BTreeSet<_>>().into_iter().map(all_times).collect();
        if ranges.is_empty() { Ok(Vec::new()) } else { store.edges_starting_between(tenant, replaces.ledger_link(), &ranges) }
    }

    /// Whether the ledger has a newer delivery of the scope that begins at or before `at`.
    pub fn is_replaced(&self, scope: &str, at: i64, age: DeliveryAge) -> bool {
        self.replacement(scope, at, age).is_some()
    }

    /// The newest such delivery.
    pub fn replacement(&self, scope: &str, at: i64, age: DeliveryAge) -> Option<DeliveryAge> {
        let deliveries = self.0.get(scope)?.iter();
        deliveries.filter(|(from, newer)| *from <= at && newer.replaces(age)).map(|(_, newer)| *newer).max()
    }
}
