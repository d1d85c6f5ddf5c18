//! What is to be settled of parents, and what is known of them.

use crate::relations::payload::ChildPayload;
use crate::settle::pass_state::CausingJobs;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stook_catalogue::ids::LinkId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};

/// What of a parent is to be settled.
#[derive(Debug, Default)]
pub(super) struct ParentWork {
    pub(super) jobs: CausingJobs,
    /// Everything, because the parent itself has changed.
    pub(super) all: bool,
    /// Whether it exists because others name it, whatever the definition said of that before.
    pub(super) created_by_link: bool,
    /// Groups whose children have changed.
    pub(super) groups: BTreeSet<String>,
}

/// A parent as it is with the pass at hand.
pub(super) struct ParentState {
    pub(super) key: Key,
    pub(super) golden: Arc<[Value]>,
}

/// A child of a parent, as its edge carries it.
pub(super) struct ChildAtHand {
    pub(super) group: SmolStr,
    pub(super) key: SmolStr,
    pub(super) told: ChildPayload,
}

/// Children of one parent, by link, in the order of their edges.
pub(super) type ChildrenByLink = HashMap<LinkId, Vec<ChildAtHand>>;

/// A parent with what is to be settled of it.
pub(super) struct ParentAtHand {
    pub(super) key: Key,
    /// Nothing where it does not exist.
    pub(super) state: Option<ParentState>,
    pub(super) wanted: ParentWork,
    pub(super) children: ChildrenByLink,
}
