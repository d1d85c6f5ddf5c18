//! Decides whose chunk is next.
//!
//! Jobs of several tenants wait while a few workers process them. A free worker chooses a job and takes its first waiting chunk. It looks only at the
//! live jobs, of which there are few, however many chunks wait. The policy, in the order in which it decides:
//!
//! 1. **A tenant at its limit waits.** A tenant with `max_running` leased chunks gets no other.
//! 2. **The tenant that has received least comes first, by weight.** Every chunk is charged to its tenant whenever it is leased, again or for the
//!    first time, so work in progress counts like work that is done. The charge is the chunk's documents plus a part for its bytes, divided by the
//!    tenant's weight. (The number of running chunks alone would not do: two workers could not serve weights of 2 and 1.)
//! 3. **A tenant gets no more than a small credit for the time it was idle.** A tenant that had nothing to do, or could not use its share, counts as
//!    at most [`CREDIT`] below the tenant that received most: after a pause it comes first for a moment, then takes turns.
//! 4. **Of a tenant's jobs, the one with the earliest due time comes first.** A job is due when it would be ready if it had started at once, alone,
//!    at a slow rate ([`due`]). So small jobs overtake large ones that are newer or a little older, and none waits for ever: a job created after
//!    another one's due time comes after it.
//!
//! Workers that choose at the same moment see the same state and may all choose the same tenant: shares are fair except for a chunk or two per other
//! worker. No worker is idle while a chunk may be leased.

use crate::queue::{JobFile, JobId, LeasedChunk};
use stook_catalogue::definition::TenantShare;

/// The largest charge by which a tenant that could not use its share counts as below others: about fifteen chunks of small documents at weight 1. It
/// is more than the error that workers make by choosing at the same moment.
pub const CREDIT: i64 = 16_000_000;

/// Number of bytes that are charged like one document.
pub const BYTES_PER_DOCUMENT: i64 = 8 << 10;

/// The rate in bytes per second that due times assume.
const DUE_RATE: u64 = 1 << 20;

/// Returns when a job is due, in microseconds: the earlier, the earlier it was created and the smaller it is.
pub fn due(created: i64, files: &[JobFile]) -> i64 {
    let bytes: u64 = files.iter().map(|file| file.size).sum();
    created.saturating_add((bytes.saturating_mul(1_000_000) / DUE_RATE).min(i64::MAX as u64) as i64)
}

/// Returns the charge for leasing `documents` of `length` bytes, in thousandths of a document divided by the tenant's weight.
pub fn charge(documents: i64, length: i64, share: TenantShare) -> i64 {
    (documents + length / BYTES_PER_DOCUMENT).max(1).saturating_mul(1_000) / i64::from(share.weight.max(1))
}

/// A tenant with live jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantLoad {
    /// The tenant's number.
    pub tenant: i64,
    /// Its share.
    pub share: TenantShare,
    /// The sum of its charges.
    pub charged: i64,
    /// Its leased chunks.
    pub running: u32,
}

/// A job with a chunk that may be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeasableJob {
    /// The job's number.
    pub job: JobId,
    /// The tenant.
    pub tenant: i64,
    /// When it is due.
    pub due: i64,
}

/// The tenants and jobs that wait for workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Tenants with live jobs, whether chunks of them can be leased or not.
    pub tenants: Vec<TenantLoad>,
    /// Jobs with chunks that can be leased.
    pub ready: Vec<LeasableJob>,
}

/// A chosen job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The job.
    pub job: JobId,
    /// Its tenant.
    pub tenant: i64,
    /// The tenant's share.
    pub share: TenantShare,
    /// The charge that the tenant counts as having at least.
    pub min_charged: i64,
    /// How many more of the tenant's chunks may be leased.
    pub max_chunks: u32,
}

impl Backlog {
    /// Adds a live job. `tenant_load.running` is the number of this job's leased chunks; the job can be chosen if it is `leasable`.
    pub fn add(&mut self, tenant_load: TenantLoad, job: LeasableJob, leasable: bool) {
        match self.tenants.iter_mut().find(|listed| listed.tenant == tenant_load.tenant) {
            Some(listed) => listed.running += tenant_load.running,
            None => self.tenants.push(tenant_load),
        }
        if leasable {
            self.ready.push(job);
        }
    }

    /// Chooses the job whose chunk is next; `None` if no chunk may be leased.
    pub fn next(&self) -> Option<Choice> {
        let min_charged = self.tenants.iter().map(|tenant_load| tenant_load.charged).max()?.saturating_sub(CREDIT);
        let load_of = |ready: &LeasableJob| self.tenants.iter().find(|tenant_load| tenant_load.tenant == ready.tenant);
        let candidates =
            self.ready.iter().filter_map(|ready| Some((ready, load_of(ready)?))).filter(|(_, tenant_load)| leasable_chunks(tenant_load) > 0);
        let (ready, tenant_load) = candidates.min_by_key(|(ready, tenant_load)| (tenant_load.charged.max(min_charged), ready.due, ready.job))?;
        Some(Choice { job: ready.job, tenant: tenant_load.tenant, share: tenant_load.share, min_charged, max_chunks: leasable_chunks(tenant_load) })
    }

    /// Leases up to `limit` chunks: chooses again and again, and leases up to `batch` chunks of each choice by `take`.
    ///
    /// # Errors
    /// What `take` returns.
    pub fn lease<E>(
        mut self,
        limit: usize,
        batch: usize,
        mut take: impl FnMut(&Choice, usize) -> Result<Vec<LeasedChunk>, E>,
    ) -> Result<Vec<LeasedChunk>, E> {
        let mut leases = Vec::new();
        while leases.len() < limit
            && let Some(choice) = self.next()
        {
            let taken = take(&choice, batch.min(limit - leases.len()).min(choice.max_chunks as usize))?;
            if taken.is_empty() {
                self.note_nothing_leasable(&choice);
            } else {
                let sum = |amount: fn(&LeasedChunk) -> i64| taken.iter().map(amount).sum();
                let charge = charge(sum(|lease| i64::from(lease.slice.documents)), sum(|lease| lease.slice.length as i64), choice.share);
                self.note_leased(&choice, taken.len() as u32, charge);
            }
            leases.extend(taken);
        }
        Ok(leases)
    }

    /// Notes that `chunks` of the chosen job were leased, for this total charge.
    pub fn note_leased(&mut self, choice: &Choice, chunks: u32, charge: i64) {
        if let Some(tenant_load) = self.tenants.iter_mut().find(|tenant_load| tenant_load.tenant == choice.tenant) {
            tenant_load.charged = tenant_load.charged.max(choice.min_charged).saturating_add(charge);
            tenant_load.running += chunks;
        }
    }

    /// Notes that the chosen job had nothing to lease.
    pub fn note_nothing_leasable(&mut self, choice: &Choice) {
        self.ready.retain(|ready| ready.job != choice.job);
    }
}

fn leasable_chunks(tenant_load: &TenantLoad) -> u32 {
    tenant_load.share.max_running.map_or(u32::MAX, |max| max.saturating_sub(tenant_load.running))
}
