//! What is to be settled of parents, and what is known about them.

use crate::relations::payload::ChildPayload;
use crate::settle::pass_state::CausingJobs;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::ids::LinkId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};

/// What is to be settled of a parent.
#[derive(Debug, Default)]
pub(super) struct ParentWork {
    pub(super) jobs: CausingJobs,
    /// Whether everything is to be settled: the parent itself has changed, or a rollup, runs or its existence may change.
    pub(super) all: bool,
    /// Whether to decide again if links create it, even if the definition no longer has any that do.
    pub(super) created_by_link: bool,
    /// Groups whose children have changed.
    pub(super) groups: BTreeSet<String>,
}

/// A parent as this pass leaves it.
pub(super) struct ParentState {
    pub(super) key: Key,
    pub(super) golden: Arc<[Value]>,
}

/// A child of a parent, as its edge describes it.
pub(super) struct EdgeChild {
    pub(super) group: SmolStr,
    pub(super) key: SmolStr,
    pub(super) payload: ChildPayload,
}

/// The children of one parent, by link, in the order of their edges.
pub(super) type ChildrenByLink = HashMap<LinkId, Vec<EdgeChild>>;

/// A parent, and what is to be settled of it.
pub(super) struct ParentToSettle {
    pub(super) key: Key,
    /// `None` if it does not exist.
    pub(super) state: Option<ParentState>,
    pub(super) work: ParentWork,
    pub(super) children: ChildrenByLink,
}
