//! How the edges and marks of a source with complete deliveries name scopes, files, jobs and contributions.

use super::ledger::DeliveryAge;
use crate::merge::NumberedContribution;
use crate::relations::Propagation;
use crate::relations::marks::{FOUND, SearchBounds};
use crate::relations::stored::damaged_edge;
use stook_catalogue::definition::{Catalogue, CompleteDelivery};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::{Contribution, ContributionAge, ContributionOrigin, Decoder, Hash, Reception, put_varint};
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, Result, StartRange};

pub(super) fn all_times(scope: &str) -> StartRange {
    StartRange { target: scope.into(), low: i64::MIN, high: i64::MAX }
}

/// The name of a contribution: its collection, contributor and key.
pub fn contribution_name(collection: &str, contributor: &str, key: &Key) -> String {
    serde_json::json!([collection, contributor, key.as_str()]).to_string()
}

/// The edge from its scope to a stored contribution, if that has a scope; the edge of a retired one has another link and target.
pub fn contribution_edge(replaces: &CompleteDelivery, numbered: &NumberedContribution, name: String) -> Option<EdgeChange> {
    let scoped = numbered.contribution.scope.as_ref()?;
    let (link, target) = contribution_edge_target(replaces, &scoped.scope, numbered.contribution.is_retired());
    let payload = EdgeAge::payload(numbered.age());
    Some(EdgeChange::Put(Edge { link, target, group: SmolStr::default(), start: scoped.at, child: name.into(), payload }))
}

/// The edge of the ledger from the identity of a document to the document, which is complete for what its elements contribute.
pub fn document_edge(replaces: &CompleteDelivery, scope: &str, age: DeliveryAge) -> Edge {
    let child = match age.received {
        None => age.as_of.to_string(),
        Some(Reception { at, origin }) => format!("{} {at} {} {}", age.as_of, origin.job, origin.document),
    };
    let mut payload = age.as_of.to_le_bytes().to_vec();
    put_reception(&mut payload, age.received);
    Edge { link: replaces.ledger_link(), target: scope.into(), group: SmolStr::default(), start: 0, child: child.into(), payload }
}

/// The age of a delivery, read from an edge of the ledger.
pub(super) fn delivery_age(edge: &Edge) -> Result<DeliveryAge> {
    let damaged = || damaged_edge(edge, "it carries no time");
    let (as_of, received) = edge.payload.split_first_chunk::<8>().ok_or_else(damaged)?;
    let received = if received.is_empty() { None } else { Some(reception(received).ok_or_else(damaged)?) };
    Ok(DeliveryAge { as_of: i64::from_le_bytes(*as_of), received })
}

/// The parts of a contribution's name, read from an edge.
pub(super) struct ContributionName {
    collection: String,
    pub contributor: String,
    key: String,
}

impl ContributionName {
    pub fn from_edge(edge: &Edge) -> Result<Self> {
        let (collection, contributor, key) = serde_json::from_str(&edge.child).map_err(|error| damaged_edge(edge, &error.to_string()))?;
        Ok(Self { collection, contributor, key })
    }

    /// Returns the record's collection and key, unless the definition no longer has the collection.
    pub fn record(&self, catalogue: &Catalogue) -> Option<(CollectionId, Key)> {
        let (collection, _) = catalogue.collection(&self.collection)?;
        Some((collection, Key::new(self.key.clone()).ok()?))
    }
}

/// Which of a contributor's successive contributions to a record an edge is about. The hash covers the scope and the position in it, so a document
/// of the same age in another scope differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EdgeAge {
    pub as_of: i64,
    /// Missing in edges that older versions of Stook have written.
    more: Option<(Option<Reception>, Hash)>,
}

impl EdgeAge {
    pub fn from_edge(edge: &Edge) -> Result<Self> {
        let damaged = || damaged_edge(edge, "it carries no time");
        let (as_of, more) = edge.payload.split_first_chunk::<8>().ok_or_else(damaged)?;
        let as_of = i64::from_le_bytes(*as_of);
        let Some((hash, received)) = more.split_first_chunk::<16>() else {
            return if more.is_empty() { Ok(Self { as_of, more: None }) } else { Err(damaged()) };
        };
        let received = if received.is_empty() { None } else { Some(reception(received).ok_or_else(damaged)?) };
        Ok(Self { as_of, more: Some((received, *hash)) })
    }

    /// The payload of an edge: the as-of time, the hash, and, if contributions are ordered by it, the reception.
    fn payload(age: ContributionAge) -> Vec<u8> {
        let mut payload = age.as_of.to_le_bytes().to_vec();
        payload.extend(age.hash);
        put_reception(&mut payload, age.received);
        payload
    }

    /// The age by which deliveries replace the contribution.
    pub fn delivery_age(self) -> DeliveryAge {
        DeliveryAge { as_of: self.as_of, received: self.more.and_then(|(received, _)| received) }
    }

    /// Whether the edge is about this contribution.
    pub fn is_of(self, contribution: &Contribution) -> bool {
        contribution.as_of == self.as_of && self.more.is_none_or(|more| more == (contribution.age().received, contribution.hash))
    }

    /// Whether this contribution is newer than the one the edge is about.
    pub fn is_before(self, contribution: &Contribution) -> bool {
        let age = contribution.age();
        age.as_of > self.as_of || (age.as_of == self.as_of && self.more.is_some_and(|more| more < (age.received, age.hash)))
    }
}

fn put_reception(payload: &mut Vec<u8>, received: Option<Reception>) {
    if let Some(Reception { at, origin }) = received {
        payload.extend(at.to_le_bytes());
        put_varint(payload, origin.job);
        put_varint(payload, origin.document);
    }
}

fn reception(bytes: &[u8]) -> Option<Reception> {
    let mut input = Decoder { bytes };
    let at = i64::from_le_bytes(input.array().ok()?);
    let origin = ContributionOrigin { job: input.varint().ok()?, document: input.varint().ok()? };
    input.bytes.is_empty().then_some(Reception { at, origin })
}

pub(super) fn contribution_edge_target(replaces: &CompleteDelivery, scope: &str, retired: bool) -> (u32, SmolStr) {
    if retired { (replaces.history_link(), retired_target(scope)) } else { (replaces.contributions_link(), scope.into()) }
}

/// Marks a range of a scope, to check whether the contributions in it are to be retired.
pub fn mark_scope(propagation: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    propagation.mark(FOUND, replaces.contributions_link(), scope, SearchBounds { low, high, cursor: None }.text(), job);
}

/// Marks a whole scope, to check whether the contributions in it are to be retired.
pub fn mark_all(propagation: &mut Propagation, replaces: &CompleteDelivery, scope: &str, job: JobId) {
    mark_scope(propagation, replaces, scope, (i64::MIN, i64::MAX), job);
}

/// Marks a range of a scope, to check whether the contributions that were retired in it are to be restored.
pub fn mark_retired(propagation: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    propagation.mark(FOUND, replaces.history_link(), retired_target(scope), SearchBounds { low, high, cursor: None }.text(), job);
}

/// The target of edges to the complete files of a scope, in [`CompleteDelivery::history_link`]. The next functions name the other targets there.
pub(super) fn files_target(scope: &str) -> SmolStr {
    format!("f{scope}").into()
}

pub(super) fn keys_target(scope: &str) -> SmolStr {
    format!("k{scope}").into()
}

pub(super) fn retired_target(scope: &str) -> SmolStr {
    format!("d{scope}").into()
}

pub(super) fn job_note_key(job: JobId) -> SmolStr {
    format!("j{job}").into()
}

/// An edge that records for a job's report what became of a file or of records in a scope.
pub(super) fn job_note(replaces: &CompleteDelivery, job: JobId, child: SmolStr, payload: Vec<u8>) -> Edge {
    Edge { link: replaces.history_link(), target: job_note_key(job), group: SmolStr::default(), start: 0, child, payload }
}
