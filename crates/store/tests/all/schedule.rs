//! The laws of the scheduler, simulated: workers that choose by a state that may be out of date, tenants with weights and limits, jobs of any size
//! that come at any time.

use proptest::prelude::*;
use std::collections::BTreeMap;
use stook_catalogue::definition::TenantShare;
use stook_store::queue::{JobFile, JobId};
use stook_store::schedule::{Backlog, CREDIT, Choice, LeasableJob, TenantLoad, charge, due};

const SECOND: i64 = 1_000_000;
/// Documents of a full chunk, and their bytes.
const FULL_CHUNK: (i64, i64) = (1_000, 900_000);

#[derive(Debug, Clone)]
struct Arrival {
    tenant: usize,
    at: i64,
    chunks: u32,
}

#[derive(Debug, Clone)]
struct Run {
    shares: Vec<TenantShare>,
    arrivals: Vec<Arrival>,
    workers: usize,
    /// Processing times of chunks, in turn.
    times: Vec<i64>,
    /// By how many leases the state that a worker chooses from is out of date, in turn.
    stale: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Job {
    id: JobId,
    tenant: usize,
    due: i64,
    waiting: u32,
    running: u32,
    finished: Option<i64>,
}

/// A lease that happened.
#[derive(Debug, Clone)]
struct Served {
    at: i64,
    tenant: usize,
    job: JobId,
    /// Tenants that could have been served.
    ready: Vec<usize>,
}

#[derive(Debug, Default)]
struct Outcome {
    served: Vec<Served>,
    jobs: Vec<Job>,
}

/// The state of the store, as far as the scheduler sees it.
#[derive(Debug, Clone, Default)]
struct Queue {
    jobs: Vec<Job>,
    charged: BTreeMap<usize, i64>,
}

impl Queue {
    fn backlog(&self, shares: &[TenantShare]) -> Backlog {
        let mut backlog = Backlog::default();
        for job in self.jobs.iter().filter(|job| job.waiting + job.running > 0) {
            let (tenant, charged) = (job.tenant as i64, self.charged.get(&job.tenant).copied().unwrap_or(0));
            let owner = TenantLoad { tenant, share: shares[job.tenant], charged, running: job.running };
            backlog.add(owner, LeasableJob { job: job.id, tenant, due: job.due }, job.waiting > 0);
        }
        backlog
    }

    /// Takes a chunk as a store does: none if the job has none any more.
    fn take(&mut self, choice: &Choice) -> bool {
        let Some(job) = self.jobs.iter_mut().find(|job| job.id == choice.job && job.waiting > 0) else { return false };
        job.waiting -= 1;
        job.running += 1;
        let charged = self.charged.entry(job.tenant).or_default();
        *charged = (*charged).max(choice.min_charged) + charge(FULL_CHUNK.0, FULL_CHUNK.1, choice.share);
        true
    }
}

fn simulate(run: &Run) -> Outcome {
    let mut arrivals = run.arrivals.clone();
    arrivals.sort_by_key(|arrival| arrival.at);
    let mut upcoming = arrivals.into_iter().enumerate().peekable();
    let (mut queue, mut outcome) = (Queue::default(), Outcome::default());
    // states that workers may see, newest last
    let mut visible_states: Vec<Queue> = vec![queue.clone()];
    // when each busy worker is done, and with which job
    let mut busy: Vec<(i64, JobId)> = Vec::new();
    let (mut now, mut turn) = (0, 0);
    loop {
        while let Some((number, arrival)) = upcoming.next_if(|(_, arrival)| arrival.at <= now) {
            let file = JobFile { path: String::new(), size: u64::from(arrival.chunks) * FULL_CHUNK.1 as u64, modified: 0, ..JobFile::default() };
            let due = due(arrival.at, &[file]);
            let id = number as JobId + 1;
            queue.jobs.push(Job { id, tenant: arrival.tenant, due, waiting: arrival.chunks, running: 0, finished: None });
        }
        while busy.len() < run.workers {
            turn += 1;
            // other workers may have leased since this one read the state, but each of them chose by the same rules
            let staleness = run.stale[turn % run.stale.len()].min(run.workers - 1).min(visible_states.len() - 1);
            let stale_state = &visible_states[visible_states.len() - 1 - staleness];
            let mut stale_backlog = if staleness > 0 { stale_state.backlog(&run.shares) } else { queue.backlog(&run.shares) };
            let leasable = ready(&queue, &run.shares);
            let taken = loop {
                let Some(choice) = stale_backlog.next() else { break None };
                if queue.take(&choice) {
                    break Some(choice);
                }
                stale_backlog.note_nothing_leasable(&choice);
            };
            // a worker that finds nothing reads the state again
            let taken = taken.or_else(|| queue.backlog(&run.shares).next().filter(|choice| queue.take(choice)));
            let Some(choice) = taken else {
                assert!(leasable.is_empty(), "a worker is idle while {leasable:?} wait");
                break;
            };
            busy.push((now + run.times[turn % run.times.len()], choice.job));
            outcome.served.push(Served { at: now, tenant: choice.tenant as usize, job: choice.job, ready: leasable });
            visible_states.push(queue.clone());
        }
        let ends = busy.iter().map(|(end, _)| *end).min();
        let next_arrival = upcoming.peek().map(|(_, arrival)| arrival.at);
        let Some(next) = ends.into_iter().chain(next_arrival).min() else { break };
        now = next;
        busy.retain(|(end, id)| {
            if *end == now {
                let job = queue.jobs.iter_mut().find(|job| job.id == *id).expect("the job");
                job.running -= 1;
                if job.waiting + job.running == 0 {
                    job.finished = Some(now);
                }
            }
            *end != now
        });
        visible_states = vec![queue.clone()];
    }
    outcome.jobs = queue.jobs;
    outcome
}

/// Tenants with a chunk that may be leased.
fn ready(queue: &Queue, shares: &[TenantShare]) -> Vec<usize> {
    let running = |tenant: usize| queue.jobs.iter().filter(|job| job.tenant == tenant).map(|job| job.running).sum::<u32>();
    let waits = |tenant: &usize| queue.jobs.iter().any(|job| job.tenant == *tenant && job.waiting > 0);
    (0..shares.len()).filter(waits).filter(|tenant| shares[*tenant].max_running.is_none_or(|max| running(*tenant) < max)).collect()
}

fn run() -> impl Strategy<Value = Run> {
    let share = (1..5_u32, proptest::option::of(1..4_u32)).prop_map(|(weight, max_running)| TenantShare { weight, max_running });
    (1..5_usize, 1..7_usize).prop_flat_map(move |(tenants, workers)| {
        let arrival = (0..tenants, 0..60 * SECOND, 0..40_u32).prop_map(|(tenant, at, chunks)| Arrival { tenant, at, chunks });
        (
            prop::collection::vec(share.clone(), tenants),
            prop::collection::vec(arrival, 1..12),
            Just(workers),
            prop::collection::vec(SECOND / 10..2 * SECOND, 1..5),
            prop::collection::vec(0..3_usize, 1..5),
        )
            .prop_map(|(shares, arrivals, workers, times, stale)| Run { shares, arrivals, workers, times, stale })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every job ends, no worker is idle while a chunk may be leased, no tenant exceeds its limit, and of one tenant's jobs the one that is due first
    /// is served.
    #[test]
    fn all_jobs_end_in_due_order_and_no_worker_is_idle(run in run()) {
        let outcome = simulate(&run);
        for job in &outcome.jobs {
            prop_assert_eq!(job.waiting + job.running, 0);
        }
        // the jobs as an observer without delay would see them
        let mut remaining: BTreeMap<JobId, u32> = outcome.jobs.iter().map(|job| {
            (job.id, outcome.served.iter().filter(|served| served.job == job.id).count() as u32)
        }).collect();
        for (index, served) in outcome.served.iter().enumerate() {
            *remaining.get_mut(&served.job).expect("a job") -= 1;
            if run.stale.iter().any(|stale| *stale > 0) && run.workers > 1 {
                continue;
            }
            let chosen = outcome.jobs.iter().find(|job| job.id == served.job).expect("a job");
            let mut arrived: Vec<&Arrival> = run.arrivals.iter().collect();
            arrived.sort_by_key(|arrival| arrival.at);
            for other in outcome.jobs.iter().filter(|other| other.tenant == chosen.tenant && other.due < chosen.due) {
                let has_arrived = arrived[other.id as usize - 1].at <= served.at;
                prop_assert!(!has_arrived || remaining[&other.id] == 0, "lease {index}: job {} before job {}", chosen.id, other.id);
            }
        }
    }

    /// Tenants that always have chunks waiting get work in proportion to their weights, except for the chunks in work at a time.
    #[test]
    fn shares_are_fair(weights in prop::collection::vec(1..6_u32, 2..5), workers in 1..7_usize,
                       times in prop::collection::vec(SECOND / 10..2 * SECOND, 1..5), stale in prop::collection::vec(0..6_usize, 1..5),
                       starts in prop::collection::vec(0..5 * SECOND, 2..5)) {
        let shares: Vec<TenantShare> = weights.iter().map(|weight| TenantShare { weight: *weight, max_running: None }).collect();
        let arrivals = (0..shares.len())
            .map(|tenant| Arrival { tenant, at: starts.get(tenant).copied().unwrap_or(0), chunks: 600 })
            .collect();
        let run = Run { shares: shares.clone(), arrivals, workers, times, stale };
        let outcome = simulate(&run);
        // from when all tenants wait until the first has no chunks left
        let all_ready = |served: &&Served| served.ready.len() == shares.len();
        let mut received = vec![0.0; shares.len()];
        // a new tenant has a credit; none is owed more than that and a chunk for each worker
        let chunk_charge = |share: &TenantShare| charge(FULL_CHUNK.0, FULL_CHUNK.1, *share) as f64;
        let bound = CREDIT as f64 + workers as f64 * shares.iter().map(chunk_charge).fold(0.0, f64::max);
        for served in outcome.served.iter().filter(all_ready) {
            received[served.tenant] += chunk_charge(&shares[served.tenant]);
            let (min, max) = received.iter().fold((f64::MAX, 0.0_f64), |(min, max), received| (min.min(*received), max.max(*received)));
            prop_assert!(max - min <= bound + chunk_charge(&TenantShare::default()), "{received:?} at {}", served.at);
        }
    }

    /// Tenants that begin together are always within a chunk of each other, and within one or two more for each other worker if all workers choose by
    /// the state before the others chose.
    #[test]
    fn equal_tenants_that_start_together_get_equal_shares(tenants in 2..5_usize, workers in 1..7_usize,
                       times in prop::collection::vec(SECOND / 10..2 * SECOND, 1..5), stale in prop_oneof![Just(vec![0]), prop::collection::vec(0..6_usize, 1..5)]) {
        let shares = vec![TenantShare::default(); tenants];
        let bound = if stale.iter().all(|stale| *stale == 0) { 1 } else { 2 * workers - 1 };
        let arrivals = (0..tenants).map(|tenant| Arrival { tenant, at: 0, chunks: 100 }).collect();
        let outcome = simulate(&Run { shares, arrivals, workers, times, stale });
        let mut received = vec![0_usize; tenants];
        for served in outcome.served.iter().filter(|served| served.ready.len() == tenants) {
            received[served.tenant] += 1;
            let (min, max) = (received.iter().min().unwrap(), received.iter().max().unwrap());
            prop_assert!(max - min <= bound, "{received:?} with {workers} workers");
        }
    }
}

/// A large job among an endless stream of small ones of its tenant is not starved: it is done soon after it is due.
#[test]
fn a_large_job_is_not_starved_by_small_ones() {
    let chunks = 60;
    let mut arrivals = vec![Arrival { tenant: 0, at: 0, chunks }];
    arrivals.extend((0..4_000).map(|number| Arrival { tenant: 0, at: number * SECOND / 10, chunks: 1 }));
    let run = Run { shares: vec![TenantShare::default()], arrivals, workers: 1, times: vec![SECOND / 10], stale: vec![0] };
    let outcome = simulate(&run);
    let large = outcome.jobs.iter().find(|job| job.due > 50 * SECOND && job.id == 1).expect("the large job");
    let finished = large.finished.expect("it ends");
    // small jobs came first until it was due; after that, newer jobs came after it
    assert!(finished <= large.due + i64::from(chunks) * SECOND / 10 + 2 * SECOND, "due {} done {finished}", large.due);
    let small: Vec<i64> = outcome.jobs.iter().filter(|job| job.id > 1 && job.id < 400).filter_map(|job| job.finished).collect();
    assert!(small.iter().filter(|end| **end < finished).count() > 300, "small jobs overtake it meanwhile");
}

/// A tenant that comes back after a long pause is served at once, but does not block the others.
#[test]
fn an_idle_tenant_is_served_at_once_for_a_small_credit() {
    let arrivals = vec![Arrival { tenant: 0, at: 0, chunks: 400 }, Arrival { tenant: 1, at: 100 * SECOND, chunks: 100 }];
    let run = Run { shares: vec![TenantShare::default(); 2], arrivals, workers: 1, times: vec![SECOND], stale: vec![0] };
    let outcome = simulate(&run);
    let after_pause: Vec<usize> = outcome.served.iter().skip_while(|served| served.at < 100 * SECOND).map(|served| served.tenant).collect();
    let credit = (CREDIT / charge(FULL_CHUNK.0, FULL_CHUNK.1, TenantShare::default())) as usize;
    assert!(after_pause[..credit].iter().all(|tenant| *tenant == 1), "it is served at once: {after_pause:?}");
    let later = &after_pause[credit + 1..credit + 41];
    assert!(later.iter().filter(|tenant| **tenant == 1).count() <= 21, "then in turn: {later:?}");
}
