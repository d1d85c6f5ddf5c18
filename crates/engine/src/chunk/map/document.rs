//! What is known of a document next to its content, and what became of it when it was mapped.

use crate::merge::{NewContribution, ScopePosition};
use cel::objects::{Key as CelKey, Map as CelMap};
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::eval::{text_to_cel, to_cel};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value};

/// What is known of a document next to its content. It never enters the content hash.
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
    /// What its documents tell of a list, if not all: the part of their contributor's name.
    pub partial_list: Option<&'e str>,
}

impl Envelope<'_> {
    pub(super) fn to_cel(&self) -> cel::Value {
        let entries = [
            ("name", text_to_cel(self.name)),
            ("ordinal", cel::Value::Int(self.ordinal as i64)),
            ("received", to_cel(&Value::Int(self.received), &FieldType::Timestamp)),
        ];
        let map: HashMap<CelKey, cel::Value> = entries.into_iter().map(|(name, value)| (CelKey::String(Arc::new(name.to_owned())), value)).collect();
        cel::Value::Map(CelMap { map: Arc::new(map) })
    }
}

/// Where a document that was skipped stands among those that its file takes the place of: it contributes nothing, but the file has it.
#[derive(Debug)]
pub struct SkippedPlace {
    /// The scope, and the time in it.
    pub position: Box<ScopePosition>,
    /// How old it is.
    pub as_of: i64,
    /// What it would be about, as far as that is known; see [`crate::settle::complete_delivery::names::contribution_name`].
    pub names: Vec<String>,
}

/// What became of a document when it was mapped.
#[derive(Debug, Default)]
pub struct MappedDocument {
    /// What it says, one per collection it feeds.
    pub statements: Vec<NewContribution>,
    /// Why it was skipped.
    pub skipped: Option<String>,
    /// Where it stands among those that its file takes the place of, if it was skipped.
    pub skipped_place: Option<SkippedPlace>,
    /// Why it failed.
    pub failed: Option<String>,
    /// The key, if it is known though the document failed.
    pub key: Option<Key>,
    /// What was left out.
    pub warnings: Vec<String>,
}
