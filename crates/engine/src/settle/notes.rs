//! Notes that a check leaves in the store, as edges: which records were wrong, and for which records expressions fail.

use super::pass_state::PassState;
use crate::relations::marks::CHECK;
use std::collections::BTreeMap;
use stook_catalogue::links::id_of;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, PassContext};

/// The link of the edges that are notes of a check.
pub(super) fn notes_link() -> u32 {
    id_of("stook check")
}

pub(super) const WRONG: &str = "wrong";

pub(super) const UNDECIDED: &str = "undecided";

pub(super) const FAILED: &str = "failed";

impl PassState<'_> {
    /// Notes records that were corrected only because a check had marked them, and expressions that failed.
    pub(super) fn note_incorrect(&mut self, context: &mut dyn PassContext) -> stook_store::Result<()> {
        let failed = if self.checks { std::mem::take(&mut self.failed) } else { BTreeMap::new() };
        for ((collection, key), failures) in failed {
            let (group, child) = (self.rules.catalogue.collections[collection].name.as_str().into(), key.as_str().into());
            let edge = Edge { link: notes_link(), target: FAILED.into(), group, start: 0, child, payload: failures.join("\n").into_bytes() };
            self.propagation.edge(EdgeChange::Put(edge));
        }
        if self.incorrect.is_empty() {
            return Ok(());
        }
        // a commit makes its edges and its marks visible together, so a job that has marks now may explain the difference; the marks of this pass are
        // therefore written for these jobs, too
        let marking_jobs: Vec<JobId> = context.jobs_with_marks()?.into_iter().filter(|job| *job != CHECK).collect();
        self.propagation.share(CHECK, &marking_jobs);
        let target = if marking_jobs.is_empty() { WRONG } else { UNDECIDED };
        let link = notes_link();
        for (collection, key) in std::mem::take(&mut self.incorrect) {
            let (group, child) = (self.rules.catalogue.collections[collection].name.clone(), key.as_str().to_owned());
            self.propagation.edge(EdgeChange::Put(Edge {
                link,
                target: target.into(),
                group: group.into(),
                start: 0,
                child: child.into(),
                payload: Vec::new(),
            }));
        }
        Ok(())
    }
}
