//! How edges and marks of a source with complete deliveries name scopes, files, jobs and contributions.

use crate::merge::ScopePosition;
use crate::relations::Propagation;
use crate::relations::marks::{FOUND, SearchBounds};
use stook_catalogue::definition::CompleteDelivery;
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange};

pub(super) fn whole(scope: &str) -> (SmolStr, i64, i64) {
    (scope.into(), i64::MIN, i64::MAX)
}

/// What a statement is about: a collection, who speaks, and a key.
pub fn named(collection: &str, contributor: &str, key: &Key) -> String {
    serde_json::json!([collection, contributor, key.as_str()]).to_string()
}

/// A statement that was stored, as the edge from its scope names it; one that is not heard is found elsewhere.
pub fn said(replaces: &CompleteDelivery, scoped: &ScopePosition, name: String, as_of: i64, retired: bool) -> EdgeChange {
    let (link, target) = place_of(replaces, &scoped.scope, retired);
    EdgeChange::Put(Edge { link, target, group: SmolStr::default(), start: scoped.at, child: name.into(), payload: as_of.to_le_bytes().into() })
}

pub(super) fn place_of(replaces: &CompleteDelivery, scope: &str, retired: bool) -> (u32, SmolStr) {
    if retired { (replaces.history(), retired_of(scope)) } else { (replaces.statements(), scope.into()) }
}

/// Asks for a pass over what was said in a scope between two times.
pub fn ask(followed: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    followed.mark(FOUND, replaces.statements(), scope, SearchBounds { low, high, cursor: None }.text(), job);
}

/// The same over what was retired there.
pub fn ask_back(followed: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    followed.mark(FOUND, replaces.history(), retired_of(scope), SearchBounds { low, high, cursor: None }.text(), job);
}

/// The targets of the edges that a scope and a job have in [`CompleteDelivery::history`].
pub(super) fn files_of(scope: &str) -> SmolStr {
    format!("f{scope}").into()
}

pub(super) fn keys_of(scope: &str) -> SmolStr {
    format!("k{scope}").into()
}

pub(super) fn retired_of(scope: &str) -> SmolStr {
    format!("d{scope}").into()
}

pub(super) fn told_to(job: JobId) -> SmolStr {
    format!("j{job}").into()
}

/// An edge that tells a job something about a file of a scope.
pub(super) fn told(replaces: &CompleteDelivery, job: JobId, child: SmolStr, payload: Vec<u8>) -> Edge {
    Edge { link: replaces.history(), target: told_to(job), group: SmolStr::default(), start: 0, child, payload }
}
