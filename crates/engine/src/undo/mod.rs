//! Undoing a job: a job of its own, whose chunks are ranges of the undone job's journal. Each takes what the job contributed out of the records, so that
//! they are as if it had never been delivered; see [`crate::merge::former`]. Running a chunk twice changes nothing.

mod expiry;
mod obstacles;
mod range;
mod run;

pub use expiry::{expire, expire_before};
pub use obstacles::{Undoable, undoable};
pub(crate) use range::UndoneRange;
pub use run::{run, start};

use crate::Result;
use crate::change::removal::{Purpose, Removal, RemovalUnit, RemoveContributions};
use crate::relations::SettleRules;
use std::sync::Arc;
use stook_catalogue::record::Contribution;
use stook_store::queue::{ChunkSlice, Job, JobId};
use stook_store::{LeaseToken, Store, Tenant};

/// A job that undoes another one, as workers know it.
pub(crate) struct Undo {
    removal: Removal,
    undone: JobId,
}

impl Undo {
    /// The job, if it undoes another one.
    ///
    /// # Errors
    /// When its tenant cannot be read.
    pub(crate) fn from_job(job: &Job) -> Result<Option<Self>> {
        let Some(undone) = job.undoes() else { return Ok(None) };
        let removes: RemoveContributions = Arc::new(move |all: &mut Vec<Contribution>| all.retain(|own| own.origin.job != undone));
        let (tenant, caller) = (Tenant::new(&job.tenant)?, format!("undo of job {undone}"));
        Ok(Some(Self { removal: Removal { tenant, removes, caller, purpose: Purpose::Undo(undone), job: job.id }, undone }))
    }

    /// A chunk of it as a unit of work, and its number of documents.
    ///
    /// # Errors
    /// When the chunk cannot be read, or the store fails.
    pub(crate) fn chunk(&self, rules: &Arc<SettleRules>, store: &dyn Store, slice: &ChunkSlice, lease: LeaseToken) -> Result<(RemovalUnit, u64)> {
        let range = UndoneRange::read(&rules.catalogue, store, self.undone, slice)?;
        let (keys, documents) = (range.keys(), range.len());
        Ok((RemovalUnit::new(rules, store, &self.removal, &keys, Some((lease, range)))?, documents))
    }
}
