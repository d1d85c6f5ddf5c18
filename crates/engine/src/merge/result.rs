//! The result of merging contributions into one record.

use crate::chunk::changes::RecordDifference;
use crate::relations::Propagation;
use crate::tags::document::DocumentChanges;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::value::Value;
use stook_store::former::FormerChange;
use stook_store::journal::Outcome;
use stook_store::{RecordChange, Version};

/// A document of another chunk whose outcome changes.
#[derive(Debug)]
pub struct ChangedOutcome {
    /// Its number inside the job.
    pub document: u64,
    /// The former outcome.
    pub from: Outcome,
    /// The new outcome.
    pub to: Outcome,
    /// What counts instead, in words.
    pub reason: String,
}

/// The result of merging contributions into one record.
#[derive(Debug, Default)]
pub struct MergeResult {
    /// What to write, and the version it is based on.
    pub write: Option<(Option<Version>, RecordChange)>,
    /// The outcome of each contribution, in their order, and the reason if it failed.
    pub outcomes: Vec<(Outcome, Option<String>)>,
    /// What counts instead of superseded contributions and keeps records that others delete, in words, by their positions.
    pub instead: BTreeMap<usize, String>,
    /// Documents of other chunks whose outcome changes.
    pub corrections: Vec<ChangedOutcome>,
    /// The change of the record's golden fields, for the change log.
    pub logged: Option<Json>,
    /// The record's former values, if the change may have consequences for other records and it existed.
    pub before: Option<Vec<Value>>,
    /// The record's new values, if the change may have consequences for other records and it exists.
    pub after: Option<Arc<[Value]>>,
    /// Whether nothing is written, because the record was erased.
    pub is_erased: bool,
    /// Whether its settled values are known to be correct.
    pub settled: bool,
    /// Changes of the contributions that are kept although they do not count.
    pub former: Vec<FormerChange>,
    /// Contributions that are stored, by their positions.
    pub stored: Vec<usize>,
    /// Changes of documents from which tags are computed.
    pub documents: DocumentChanges,
    /// Whether the record's tags may change.
    pub reevaluates_tags: bool,
    /// Edges and marks that follow from the change; known when all records of the chunk have been decided about.
    pub propagation: Propagation,
    /// What was wrong with the stored record, if the change repairs it.
    pub repaired: Option<String>,
    /// How the write changes the record that readers see.
    pub difference: Option<RecordDifference>,
    /// Expressions that failed for the record; their values are null.
    pub failures: Vec<String>,
}

impl MergeResult {
    /// Takes the failures that the evaluator has noted.
    pub fn take_failures(&mut self, evaluator: &Evaluator) {
        self.add_failures(evaluator.failures());
    }

    /// Adds failures, each once.
    pub fn add_failures(&mut self, failures: Vec<String>) {
        for failure in failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }
}
