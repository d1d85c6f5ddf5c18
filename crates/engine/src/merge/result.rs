//! What follows for one record from the contributions of a chunk.

use crate::relations::Propagation;
use crate::tags::document::DocumentChanges;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::value::Value;
use stook_store::journal::Outcome;
use stook_store::{RecordChange, Version};

/// A document of another chunk whose outcome changed.
#[derive(Debug)]
pub struct ChangedOutcome {
    /// Its number inside the job.
    pub document: u64,
    /// What it was.
    pub from: Outcome,
    /// What it is now.
    pub to: Outcome,
    /// What counts in its place, in words.
    pub reason: String,
}

/// What follows for one record.
#[derive(Debug, Default)]
pub struct MergeResult {
    /// What to write, and the version it is based on.
    pub write: Option<(Option<Version>, RecordChange)>,
    /// The outcome of each statement, in their order, and why where it failed.
    pub outcomes: Vec<(Outcome, Option<String>)>,
    /// What counts in the place of statements that are superseded, in words, by their places.
    pub superseded: BTreeMap<usize, String>,
    /// Documents of other chunks whose outcome changed.
    pub corrections: Vec<ChangedOutcome>,
    /// What is logged of the record's golden fields.
    pub logged: Option<Json>,
    /// What the record was, where others are told of it and it existed.
    pub before: Option<Vec<Value>>,
    /// What it is with the change, where others are told of it and it exists.
    pub after: Option<Arc<[Value]>>,
    /// Whether its settled values are known to be what they must be.
    pub settled: bool,
    /// Statements that are stored, by their places.
    pub stored: Vec<usize>,
    /// Changes of documents that tags are asked of.
    pub documents: DocumentChanges,
    /// Whether who carries what may follow from the change.
    pub reevaluates_tags: bool,
    /// What the change tells other records; known when all records of the chunk are decided.
    pub propagation: Propagation,
    /// What was wrong with the stored record, if the change heals it.
    pub repaired: Option<String>,
    /// Expressions that failed on the record: it is what it is without their values.
    pub failures: Vec<String>,
}

impl MergeResult {
    /// Takes over what the evaluator has noted.
    pub fn take_failures(&mut self, evaluator: &Evaluator) {
        self.add_failures(evaluator.failures());
    }

    /// Adds failures that are not known yet.
    pub fn add_failures(&mut self, failures: Vec<String>) {
        for failure in failures {
            if !self.failures.contains(&failure) {
                self.failures.push(failure);
            }
        }
    }
}
