//! What is known about a document apart from its content, and the result of mapping it.

use crate::merge::{NewContribution, ScopePosition};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stook_catalogue::eval::{json_to_cel, text_to_cel, to_cel};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value};

/// What is known about a document apart from its content; it is not part of the content hash, except for the document's position in a scope.
#[derive(Debug, Clone)]
pub struct Envelope<'e> {
    /// Name of the file, without folders.
    pub name: &'e str,
    /// Number of the document inside the file, from 1.
    pub ordinal: u64,
    /// When the delivery was made, in microseconds.
    pub received: i64,
    /// The store's clock, in microseconds.
    pub now: i64,
    /// The part of the contributor's name, if the file is a partial list of its source.
    pub partial_list: Option<&'e str>,
    /// The values that a service was asked for, if the file is its answer.
    pub arguments: &'e BTreeMap<String, String>,
}

impl Envelope<'_> {
    pub(super) fn to_cel(&self) -> cel::Value {
        let entries = [
            ("name", text_to_cel(self.name)),
            ("ordinal", cel::Value::Int(self.ordinal as i64)),
            ("received", to_cel(&Value::Int(self.received), &FieldType::Timestamp)),
            ("arguments", json_to_cel(&self.arguments.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect())),
        ];
        let map: HashMap<CelKey, cel::Value> = entries.into_iter().map(|(name, value)| (CelKey::String(Arc::new(name.to_owned())), value)).collect();
        cel::Value::Map(CelMap { map: Arc::new(map) })
    }
}

/// The position in a scope of a document that was skipped: it contributes nothing, but counts as contained in the file.
#[derive(Debug)]
pub struct SkippedContribution {
    /// The scope, and the position in it.
    pub position: Box<ScopePosition>,
    /// Its as-of time.
    pub as_of: i64,
    /// The names of the contributions that it would make, as far as they are known; see
    /// [`crate::settle::complete_delivery::names::contribution_name`].
    pub names: Vec<String>,
}

/// A document whose elements contribute one by one: newer than others of the same scope, it replaces what they contained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompleteDocument {
    /// What identifies the document.
    pub scope: String,
    /// Its as-of time.
    pub as_of: i64,
}

/// The result of mapping a document.
#[derive(Debug, Default)]
pub struct MappedDocument {
    /// Its contributions: one for each collection that it feeds as a whole, one for each element that contributes on its own.
    pub contributions: Vec<NewContribution>,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// Its position in a scope, if it was skipped and its source says `replaces:`.
    pub skipped_contribution: Option<SkippedContribution>,
    /// What it is complete for, if its elements contribute one by one and all of them could be read.
    pub complete_document: Option<CompleteDocument>,
    /// Why it failed.
    pub failed: Option<String>,
    /// The key, if it is known although the document failed.
    pub key: Option<Key>,
    /// Warnings, such as about values that were ignored.
    pub warnings: Vec<String>,
}
