//! The threads of a process that process chunks of the queue: leasing, chunks in progress, and settling while they work.

use super::event::{TaskReport, WorkerEvent, WorkerOptions};
use crate::change_feed;
use crate::chunk::changes::ChangeSummary;
use crate::chunk::{ChunkInput, ChunkUnit};
use crate::job::JobContext;
use crate::job::context::context;
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::relations::SettleRules;
use crate::settle;
use crate::tags::rebuild::{TagEvaluationUnit, is_rebuild};
use crate::undo::{self, Undo};
use crate::{EngineError, Result};
use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::ExpressionFailures;
use stook_store::journal::OutcomeCounts;
use stook_store::queue::{JobFile, JobId, LeasedChunk};
use stook_store::{LeaseToken, PassReport, PendingCommit, Priority, SettlePass, Store, StoreError, Tenant, Unit};

/// The number of failures after which a chunk is dead.
pub const MAX_ATTEMPTS: u32 = 3;
/// Seconds until a chunk is tried again after its first failure; four times as long after each further one.
const FIRST_DELAY: u64 = 1;
/// Number of chunks that are leased at once if only one job is processed.
const LEASE_CHUNKS: usize = 32;
/// The maximum number of documents, in chunks submitted by one worker, that the store has not yet written.
const MAX_UNWRITTEN: u64 = 2_000;
/// The maximum number of documents, in chunks submitted by one worker, that are not yet committed.
const MAX_UNCOMMITTED: u64 = 50_000;
/// The niceness of worker threads relative to the process: they get a tenth of a processor that other threads want. These are the threads that
/// process requests, and the one that writes, for which all the others wait in the end.
const NICENESS: i32 = 10;
/// The first pause before chunks are looked for again.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// The longest such pause if only one job is processed, so that its end is noticed soon.
const MAX_PAUSE_OF_ONE_JOB: Duration = Duration::from_millis(5);
/// The pause before marks are looked for again, which other processes may have written.
const MARKS_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause of a thread that waits for work.
pub(super) const MAX_IDLE_PAUSE: Duration = Duration::from_millis(500);

/// What workers need to know of a job.
enum ActiveJob {
    /// An import of documents.
    Import { context: JobContext, files: Vec<JobFile> },
    /// An evaluation of tags of the collection with this name.
    Tags { tenant: Tenant, of: String },
    /// The undo of another job.
    Undo(Undo),
}

/// A chunk that is ready to be submitted.
struct PreparedChunk {
    unit: Box<dyn Unit>,
    documents: u64,
    counts: OutcomeCounts,
    changes: ChangeSummary,
}

/// The workers of one process.
pub(crate) struct WorkerPool<'c> {
    store: &'c dyn Store,
    options: &'c WorkerOptions,
    stop: &'c AtomicBool,
    report: &'c (dyn Fn(WorkerEvent) + Sync),
    leases: Mutex<LeaseQueue>,
    changed: Condvar,
    jobs: Mutex<HashMap<JobId, Arc<ActiveJob>>>,
    /// Number of documents committed so far.
    pub(super) committed: AtomicU64,
    failure: Mutex<Option<EngineError>>,
    rules: Arc<SettleRules>,
}

#[derive(Default)]
struct LeaseQueue {
    /// Leased chunks that no worker has started.
    ready: VecDeque<LeasedChunk>,
    /// All leases that are held, to be renewed.
    held: Vec<LeaseToken>,
    /// Whether no more chunks will come.
    closed: bool,
}

/// A chunk that has been submitted to the store.
struct CommittingChunk {
    lease: LeasedChunk,
    documents: u64,
    tenant: Tenant,
    counts: OutcomeCounts,
    changes: ChangeSummary,
    started: Instant,
    pending: PendingCommit,
}

impl<'c> WorkerPool<'c> {
    pub(crate) fn new(
        catalogue: &'c Arc<Catalogue>,
        store: &'c dyn Store,
        options: &'c WorkerOptions,
        stop: &'c AtomicBool,
        report: &'c (dyn Fn(WorkerEvent) + Sync),
    ) -> Self {
        let (leases, jobs, failure) = (Mutex::default(), Mutex::default(), Mutex::default());
        let rules = Arc::new(SettleRules::new(catalogue));
        Self { store, options, stop, report, leases, changed: Condvar::new(), jobs, committed: AtomicU64::new(0), failure, rules }
    }

    /// Works until no chunk is left and `is_over` returns true, or until the pool is stopped.
    pub(crate) fn work(&self, is_over: impl Fn() -> Result<bool> + Sync) -> Result<()> {
        std::thread::scope(|scope| {
            let ended = Arc::new(AtomicBool::new(false));
            let watch = ended.clone();
            let renewer = scope.spawn(move || self.renew_leases(&watch));
            let threads: Vec<_> = (0..self.options.workers.max(1)).map(|_| scope.spawn(|| self.record_failure(self.run_worker()))).collect();
            let done = Arc::new(AtomicBool::new(false));
            let workers_done = done.clone();
            let settler =
                (self.options.settles && self.needs_settler()).then(|| scope.spawn(move || self.record_failure(self.settle(&workers_done))));
            self.record_failure(self.lease_chunks(is_over));
            for thread in threads {
                let _ = thread.join();
            }
            done.store(true, Ordering::SeqCst);
            if let Some(settler) = settler {
                settler.thread().unpark();
                let _ = settler.join();
            }
            ended.store(true, Ordering::SeqCst);
            renewer.thread().unpark();
        });
        let held = std::mem::take(&mut self.leases().held);
        if !held.is_empty() {
            // if this fails, the leases expire
            let _ = self.store.return_unstarted(&held);
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if failure.is_some() || self.stop.load(Ordering::SeqCst) {
            self.interrupt_jobs();
        }
        failure.map_or(Ok(()), Err)
    }

    /// Marks the jobs of this pool as interrupted, unless other workers process them.
    fn interrupt_jobs(&self) {
        let mut jobs: Vec<JobId> = self.jobs.lock().map(|jobs| jobs.keys().copied().collect()).unwrap_or_default();
        jobs.extend(self.options.only.filter(|only| !jobs.contains(only)));
        for job in jobs {
            // if this fails, the expiring leases have the same effect
            let _ = self.store.interrupt_job(job);
        }
    }

    /// Ends all work because of an error; the first error is kept.
    pub(crate) fn record_failure(&self, result: Result<()>) {
        if let Err(error) = result {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.leases().closed = true;
            self.changed.notify_all();
        }
    }

    /// Whether work is to end, for any reason.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.leases().closed
    }

    fn leases(&self) -> MutexGuard<'_, LeaseQueue> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leases chunks ahead of the workers: many at once if only one job is processed, otherwise no more than there are workers, because a later
    /// job with a higher priority cannot displace chunks that are leased.
    fn lease_chunks(&self, is_over: impl Fn() -> Result<bool>) -> Result<()> {
        let workers = self.options.workers.max(1);
        let chunk = CHUNK_DOCUMENTS as usize;
        let (wanted, low) = match self.options.only {
            Some(_) => (LEASE_CHUNKS * chunk, LEASE_CHUNKS * chunk / 4),
            None => (workers * chunk, workers * chunk / 2),
        };
        // number of documents in the chunks leased last
        let mut usual_documents = chunk;
        let longest = if self.options.only.is_some() { MAX_PAUSE_OF_ONE_JOB } else { MAX_IDLE_PAUSE };
        let (mut pause, mut over) = (FIRST_PAUSE, false);
        while !self.is_stopping() {
            let leases = self.leases();
            let ready: usize = leases.ready.iter().map(|lease| lease.slice.documents as usize).sum();
            if ready > low.min(wanted - usual_documents) {
                let _ = self.changed.wait_timeout(leases, MAX_IDLE_PAUSE);
                continue;
            }
            drop(leases);
            let count = (wanted - ready).div_ceil(usual_documents).min(LEASE_CHUNKS.max(8 * workers));
            let leased = self.store.lease(self.options.only, count, self.options.lease_seconds)?;
            if !leased.is_empty() {
                let mut leases = self.leases();
                leases.held.extend(leased.iter().map(lease_token));
                usual_documents = leased.iter().map(|lease| lease.slice.documents as usize).max().unwrap_or(chunk).clamp(1, chunk);
                leases.ready.extend(leased);
                self.changed.notify_all();
                (pause, over) = (FIRST_PAUSE, false);
            } else if over {
                break;
            } else {
                // a chunk that is held is work that is not over; chunks that were added between the two calls are found by leasing once more
                let is_holding = !self.leases().held.is_empty();
                over = !is_holding && is_over()?;
                if !over {
                    self.store.wait_for_chunks(pause);
                    pause = (pause * 2).min(longest);
                }
            }
        }
        self.leases().closed = true;
        self.changed.notify_all();
        Ok(())
    }

    /// Runs settle passes until the workers are done and everything, or this pool's job, is settled; or until the pool is stopped.
    /// Whether there is, or will be, something to settle, or to consolidate again. A store that fails is noticed by others.
    fn needs_settler(&self) -> bool {
        self.rules.needs_settling() || self.store.awaiting_consolidation().is_ok_and(|waiting| !waiting.is_empty())
    }

    fn settle(&self, done: &AtomicBool) -> Result<()> {
        self.lower_priority();
        let failed = || self.failure.lock().is_ok_and(|failure| failure.is_some());
        let is_stopping = || self.stop.load(Ordering::SeqCst) || failed();
        settle::until_stopped(&is_stopping, || self.settle_until(done, &is_stopping))?;
        Ok(())
    }

    fn settle_until(&self, done: &AtomicBool, is_stopping: &dyn Fn() -> bool) -> stook_store::Result<()> {
        let rules: Arc<dyn SettlePass> = self.rules.clone();
        settle::mark_outdated(self.store, &self.rules, &|_| ())?;
        loop {
            if is_stopping() {
                return Ok(());
            }
            // everything that was committed before `done` was set is seen by this round
            let over = done.load(Ordering::SeqCst);
            let passed = settle::round(self.store, &rules, self.stop, &|tenant, passed, took| {
                let PassReport { marks_cleared, rows, damaged, failures } = passed.clone();
                let (tenant, counts) = (tenant.clone(), OutcomeCounts::default());
                (self.report)(WorkerEvent::TaskDone(TaskReport {
                    name: "settle",
                    tenant,
                    job: None,
                    counts,
                    changes: Box::default(),
                    marks_cleared,
                    rows,
                    damaged,
                    failures,
                    took,
                }));
            })?;
            if over {
                let settled = match self.options.only {
                    Some(job) => self.store.is_settled(job)?,
                    None => passed.marks_cleared == 0 && self.store.tenants_with_marks()?.is_empty(),
                };
                if settled {
                    return Ok(());
                }
            }
            if passed.marks_cleared == 0 {
                std::thread::park_timeout(MARKS_PAUSE);
            }
        }
    }

    fn lower_priority(&self) {
        if cfg!(target_os = "linux") {
            // on Linux this applies to the thread; if it is refused, all threads have equal shares
            let _ = rustix::process::nice(NICENESS);
        }
    }

    /// The next chunk for a worker; with `waits`, waits until there is one.
    fn next(&self, waits: bool) -> Option<LeasedChunk> {
        let mut leases = self.leases();
        loop {
            let failed = || self.failure.lock().is_ok_and(|failure| failure.is_some());
            if self.stop.load(Ordering::SeqCst) || failed() {
                return None;
            }
            let next = leases.ready.pop_front();
            if next.is_some() || leases.closed || !waits {
                self.changed.notify_all();
                return next;
            }
            leases = self.changed.wait_timeout(leases, MAX_IDLE_PAUSE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs one worker: maps, consolidates and submits leased chunks, of which only a limited number is in memory.
    fn run_worker(&self) -> Result<()> {
        self.lower_priority();
        let mut in_flight: VecDeque<CommittingChunk> = VecDeque::new();
        loop {
            let Some(lease) = self.next(in_flight.is_empty()) else {
                let Some(oldest) = in_flight.pop_front() else { return Ok(()) };
                self.finish(oldest)?;
                continue;
            };
            in_flight.extend(self.submit(lease)?);
            let mut unwritten: u64 = 0;
            for chunk in in_flight.iter_mut().rev() {
                unwritten += if chunk.pending.is_written() { 0 } else { chunk.documents };
                if unwritten > MAX_UNWRITTEN {
                    chunk.pending.wait_until_written();
                }
            }
            let uncommitted = |chunks: &VecDeque<CommittingChunk>| chunks.iter().map(|chunk| chunk.documents).sum::<u64>();
            while let Some(oldest) = in_flight.front()
                && (oldest.pending.is_answered() || uncommitted(&in_flight) >= MAX_UNCOMMITTED)
                && let Some(oldest) = in_flight.pop_front()
            {
                self.finish(oldest)?;
            }
        }
    }

    /// Prepares a chunk and submits it to the store.
    fn submit(&self, lease: LeasedChunk) -> Result<Option<CommittingChunk>> {
        let started = Instant::now();
        // a chunk that panics fails like any other
        let processed = std::panic::catch_unwind(AssertUnwindSafe(|| self.process(&lease)));
        match processed.unwrap_or_else(|_| Err(EngineError::Wrong("processing the chunk caused a panic".into()))) {
            Ok(PreparedChunk { unit, documents, counts, changes }) => {
                let tenant = unit.tenant().clone();
                let pending = self.store.submit(unit, Priority::Bulk);
                Ok(Some(CommittingChunk { lease, documents, tenant, counts, changes, started, pending }))
            }
            Err(EngineError::Store(error)) if !self.is_caused_by_chunk(&error) => Err(error.into()),
            Err(error) => self.release_failed(&lease, &error.to_string()).map(|()| None),
        }
    }

    fn process(&self, lease: &LeasedChunk) -> Result<PreparedChunk> {
        let job = self.open(lease.chunk.job)?;
        let without_changes = |unit: Box<dyn Unit>, documents: u64| {
            Ok(PreparedChunk { unit, documents, counts: OutcomeCounts::default(), changes: ChangeSummary::default() })
        };
        let (context, files) = match &*job {
            ActiveJob::Import { context, files } => (context, files),
            ActiveJob::Undo(undo) => {
                let (unit, documents) = undo.chunk(&self.rules, self.store, &lease.slice, lease_token(lease))?;
                return without_changes(Box::new(unit), documents);
            }
            ActiveJob::Tags { tenant, of } => {
                let range = TagEvaluationUnit::new(&self.rules.catalogue, self.store, (tenant, of), &lease.slice, lease_token(lease))?;
                let documents = range.records() as u64;
                return without_changes(Box::new(range), documents);
            }
        };
        let file = files.get(lease.slice.file).ok_or_else(|| EngineError::Wrong("the chunk's file is not one of its job".into()))?;
        let input = ChunkInput { slice: &lease.slice, file, bytes: None };
        let mut chunk = ChunkUnit::map(context, self.store, &input, Some(lease_token(lease)))?;
        chunk.consolidate(self.store)?;
        chunk.prepare();
        let (documents, counts, changes) = (chunk.documents() as u64, chunk.counts(), chunk.changes());
        Ok(PreparedChunk { unit: Box::new(chunk), documents, counts, changes })
    }

    fn open(&self, id: JobId) -> Result<Arc<ActiveJob>> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = jobs.get(&id) {
            return Ok(known.clone());
        }
        let job = self.store.job(id)?;
        let opened = Arc::new(match (is_rebuild(&job.source), Undo::from_job(&job)?) {
            (Some(of), _) => ActiveJob::Tags { tenant: Tenant::new(&job.tenant)?, of: of.to_owned() },
            (None, Some(undo)) => ActiveJob::Undo(undo),
            (None, None) => ActiveJob::Import { context: context(&self.rules, &job)?, files: job.files },
        });
        jobs.insert(id, opened.clone());
        Ok(opened)
    }

    /// Waits until a submitted chunk is committed.
    fn finish(&self, chunk: CommittingChunk) -> Result<()> {
        match chunk.pending.wait() {
            Ok(receipt) => {
                self.committed.fetch_add(chunk.documents, Ordering::SeqCst);
                let (job, took) = (Some(chunk.lease.chunk.job), chunk.started.elapsed());
                let task = TaskReport {
                    name: "chunk",
                    tenant: chunk.tenant,
                    job,
                    counts: chunk.counts,
                    changes: Box::new(chunk.changes),
                    marks_cleared: 0,
                    rows: receipt.rows,
                    damaged: Vec::new(),
                    failures: ExpressionFailures::default(),
                    took,
                };
                (self.report)(WorkerEvent::TaskDone(task));
                self.drop_lease(lease_token(&chunk.lease))
            }
            // another chunk of the same transaction has failed
            Err(StoreError::Undone) => self.submit(chunk.lease)?.map_or(Ok(()), |resubmitted| self.finish(resubmitted)),
            // another worker has leased the chunk, or the job was cancelled: nothing was written, and nothing is lost
            Err(StoreError::Fenced(_)) => self.drop_lease(lease_token(&chunk.lease)),
            Err(error) if self.is_caused_by_chunk(&error) => self.release_failed(&chunk.lease, &error.to_string()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a failure may be caused by the chunk; any other stops the work. A chunk may be too large for a slow store: then the next chunks are
    /// processed, unless this pool processes one job only.
    fn is_caused_by_chunk(&self, error: &StoreError) -> bool {
        matches!(error, StoreError::Other(_) | StoreError::Damaged(_)) || (self.options.only.is_none() && matches!(error, StoreError::Slow(_)))
    }

    fn release_failed(&self, lease: &LeasedChunk, reason: &str) -> Result<()> {
        let (token, delay) = (lease_token(lease), FIRST_DELAY << (2 * lease.attempt.saturating_sub(1)).min(12));
        self.store.release(token, reason, delay, MAX_ATTEMPTS)?;
        self.drop_lease(token)
    }

    /// Forgets a lease. If it was the last one of a job that has ended, reports the end.
    fn drop_lease(&self, token: LeaseToken) -> Result<()> {
        let job = token.chunk.job;
        let mut leases = self.leases();
        leases.held.retain(|held| *held != token);
        let has_more = leases.held.iter().any(|held| held.chunk.job == job);
        drop(leases);
        if self.options.only.is_none() && !has_more {
            let has_ended = self.store.job_state(job)?.is_final();
            if has_ended && self.jobs.lock().is_ok_and(|mut jobs| jobs.remove(&job).is_some()) {
                let ended = self.store.job(job)?;
                if let Some((_, source)) = self.rules.catalogue.source(&ended.source) {
                    undo::expire(&self.rules.catalogue, self.store, source, self.stop)?;
                }
                change_feed::expire(self.store, self.stop)?;
                (self.report)(WorkerEvent::Ended(Box::new(ended)));
            }
        }
        Ok(())
    }

    /// Renews leases and reports progress until all threads have ended.
    fn renew_leases(&self, ended: &AtomicBool) {
        let mut renewed = Instant::now();
        loop {
            let over = ended.load(Ordering::SeqCst);
            (self.report)(WorkerEvent::Committed(self.committed.load(Ordering::SeqCst)));
            if over {
                return;
            }
            if renewed.elapsed() > Duration::from_secs(self.options.lease_seconds) / 4 {
                let held = self.leases().held.clone();
                // a lease that cannot be renewed is noticed when its chunk is committed
                let _ = self.store.renew(&held, self.options.lease_seconds);
                renewed = Instant::now();
            }
            std::thread::park_timeout(Duration::from_millis(100));
        }
    }
}

fn lease_token(lease: &LeasedChunk) -> LeaseToken {
    LeaseToken { chunk: lease.chunk, token: lease.token }
}
