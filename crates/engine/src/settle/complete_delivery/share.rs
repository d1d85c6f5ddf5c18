//! How much of a file is done, and which keys it has in each scope.

use super::keys::{KeySample, hash_of};
use crate::merge::ScopePosition;
use crate::relations::Propagation;
use crate::relations::marks::FOUND;
use crate::relations::stored::damaged_edge;
use std::collections::BTreeMap;
use stook_catalogue::definition::CompleteDelivery;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, Result};

/// How much of a file is done, in one chunk or in several.
#[derive(Debug, Default)]
pub struct FileShare {
    /// Documents that were read.
    pub documents: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Number of documents in the complete file, if known.
    pub file_documents: Option<u64>,
    /// Whether the file was imported with permission to retire whatever it lacks.
    pub retires_all: bool,
    /// What it has in each scope.
    pub scopes: BTreeMap<String, ScopeShare>,
}

/// What a share of a file has in one scope.
#[derive(Debug, Clone)]
pub struct ScopeShare {
    /// The first position.
    pub from: i64,
    /// The oldest as-of time.
    pub as_of: i64,
    /// The keys.
    pub(super) keys: KeySample,
}

impl ScopeShare {
    fn include(&mut self, other: &ScopeShare) {
        (self.from, self.as_of) = (self.from.min(other.from), self.as_of.min(other.as_of));
        self.keys.include(&other.keys);
    }

    fn pack(&self) -> Vec<u8> {
        [self.as_of.to_le_bytes().to_vec(), self.keys.pack()].concat()
    }

    fn from_edge(edge: &Edge) -> Result<Self> {
        let (as_of, keys) = edge.payload.split_first_chunk().ok_or_else(|| damaged_edge(edge, "it carries no number"))?;
        let keys = KeySample::unpack(keys).map_err(|error| damaged_edge(edge, error.0))?;
        Ok(Self { from: edge.start, as_of: i64::from_le_bytes(*as_of), keys })
    }
}

/// The stored form of a share: documents, failures, documents of the complete file, whether it may retire everything it lacks.
type FileShareRow = (u64, u64, Option<u64>, bool);

impl FileShare {
    /// Adds a document: its scope and position, the names of its contributions (see [`contribution_name`](super::names::contribution_name)), and its
    /// as-of time. A document that was skipped may have no known names.
    pub fn add(&mut self, scoped: &ScopePosition, names: &[String], as_of: i64) {
        let scope_share =
            self.scopes.entry(scoped.scope.clone()).or_insert_with(|| ScopeShare { from: scoped.at, as_of, keys: KeySample::default() });
        (scope_share.from, scope_share.as_of) = (scope_share.from.min(scoped.at), scope_share.as_of.min(as_of));
        names.iter().for_each(|name| scope_share.keys.add(hash_of(name), scoped.at));
    }

    /// Adds another share of the file.
    pub fn include(&mut self, other: &FileShare) {
        self.documents += other.documents;
        self.failed += other.failed;
        self.file_documents = self.file_documents.or(other.file_documents);
        self.retires_all |= other.retires_all;
        for (scope, share) in &other.scopes {
            self.scopes.entry(scope.clone()).and_modify(|own| own.include(share)).or_insert_with(|| share.clone());
        }
    }

    /// The edges from a file; `name` distinguishes them from those of other shares.
    pub(super) fn edges(&self, replaces: &CompleteDelivery, file: &str, name: &str) -> Vec<Edge> {
        let edge = |group: SmolStr, start: i64, payload: Vec<u8>| {
            let (link, target, child) = (replaces.shares_link(), file.to_owned(), name.to_owned());
            Edge { link, target: target.into(), group, start, child: child.into(), payload }
        };
        let total = serde_json::json!([self.documents, self.failed, self.file_documents, self.retires_all]).to_string();
        let scopes = self.scopes.iter().map(|(scope, own)| edge(format!("s{scope}").into(), own.from, own.pack()));
        std::iter::once(edge(SmolStr::default(), 0, total.into())).chain(scopes).collect()
    }

    pub(super) fn from_edge(edge: &Edge) -> Result<Self> {
        if let Some(scope) = edge.group.strip_prefix('s') {
            let scopes = BTreeMap::from([(scope.to_owned(), ScopeShare::from_edge(edge)?)]);
            return Ok(Self { scopes, ..Self::default() });
        }
        let read = serde_json::from_slice(&edge.payload);
        // shares that an older version of Stook has written have three numbers
        let read = read
            .or_else(|_| serde_json::from_slice(&edge.payload).map(|(documents, failed, file_documents)| (documents, failed, file_documents, false)));
        let (documents, failed, file_documents, retires_all): FileShareRow = read.map_err(|error| damaged_edge(edge, &error.to_string()))?;
        Ok(Self { documents, failed, file_documents, retires_all, scopes: BTreeMap::new() })
    }

    /// Adds the edges and the mark of a chunk that is done; `first` is the number of its first document.
    pub fn add_to_propagation(&self, replaces: &CompleteDelivery, (job, file): (JobId, usize), first: u64, propagation: &mut Propagation) {
        let file = format!("{job} {file}");
        self.edges(replaces, &file, &format!("{first:020}")).into_iter().for_each(|edge| propagation.edge(EdgeChange::Put(edge)));
        propagation.mark(FOUND, replaces.shares_link(), &file, "", job);
    }
}
