//! Numbers of records that are kept, so that counting a collection reads no index: each unit of work adds the difference that it makes.

use crate::plan::QueryPlan;
use crate::{RecordChange, RecordWrite};
use std::collections::BTreeMap;
use stook_catalogue::ids::CollectionId;

/// By how much the numbers of existing records change, by collection.
#[derive(Debug, Default)]
pub struct RecordCountChanges(BTreeMap<CollectionId, i64>);

impl RecordCountChanges {
    /// Adds what a write of a record changes that existed or did not.
    pub fn note(&mut self, write: &RecordWrite, existed: bool) {
        let exists = match &write.change {
            RecordChange::Put(content) => content.exists,
            RecordChange::Delete => false,
            RecordChange::Touch { .. } | RecordChange::Settle(_) | RecordChange::State { .. } => existed,
        };
        self.add(write.collection, i64::from(exists) - i64::from(existed));
    }

    /// Adds a number of records.
    pub fn add(&mut self, collection: CollectionId, records: i64) {
        if records != 0 {
            *self.0.entry(collection).or_default() += records;
        }
    }

    /// The collections whose numbers change, in their order, and by how much.
    pub fn changed(self) -> impl Iterator<Item = (CollectionId, i64)> {
        self.0.into_iter().filter(|(_, records)| *records != 0)
    }
}

/// Whether the rows of a plan are all records of its collection.
pub fn applies_to(plan: &QueryPlan) -> bool {
    plan.conditions.is_empty() && plan.combined.is_empty() && plan.each.is_none() && !plan.distinct
}

/// Says that the kept number of a collection's records was wrong.
pub fn wrong_count(collection: &str, tenant: &str, kept: i64, counted: i64) -> String {
    format!("`{collection}` of tenant {tenant} has {counted} records, but {kept} were noted")
}
