//! Jobs and their chunks: chunks are leased, processed once, and counted.

use super::support::*;
use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};
use stook_catalogue::ids::CollectionId;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Outcome, OutcomeCounts, pack};
use stook_store::queue::*;
use stook_store::*;

const PLAIN: &str = "
catalogue: plain
collections:
  item:
    key: name
    fields:
      name: text
";

pub fn new_job(tenant: &Tenant, files: usize) -> NewJob {
    let file = |number| JobFile { path: format!("file{number}.json"), size: 100, modified: 5, syntax: Some("json".into()), ..JobFile::default() };
    NewJob { tenant: tenant.clone(), profile: None, source: "deliveries".into(), as_of: None, files: (0..files).map(file).collect() }
}

/// The slice of a chunk of ten documents.
pub fn slice(ordinal: u32) -> ChunkSlice {
    let before = u64::from(ordinal - 1) * 10;
    ChunkSlice { offset: before * 7, length: 70, file_documents: before, documents_before: before, documents: 10, ..ChunkSlice::default() }
}

pub fn progress(chunks: u32, complete: bool) -> SplitProgress {
    let documents = u64::from(chunks) * 10;
    SplitProgress { file: 0, offset: documents * 7, file_documents: documents, documents, chunks, complete }
}

fn chunks(ordinals: std::ops::RangeInclusive<u32>) -> Vec<NewChunk> {
    ordinals.map(|ordinal| NewChunk { ordinal, slice: slice(ordinal) }).collect()
}

/// Adds all chunks of a job.
pub fn add_chunks(store: &dyn Store, job: JobId, count: u32) {
    store.add_chunks(job, chunks(1..=count), progress(count, true)).expect("chunks are added");
}

/// A job with all its chunks.
fn job_of(fixture: &Fixture, count: u32) -> JobId {
    let job = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    add_chunks(&*fixture.store, job, count);
    job
}

pub fn token_of(lease: &LeasedChunk) -> LeaseToken {
    LeaseToken { chunk: lease.chunk, token: lease.token }
}

fn lease(fixture: &Fixture, limit: usize, seconds: u64) -> Vec<LeasedChunk> {
    fixture.store.lease(None, limit, seconds).expect("leasing works")
}

fn lease_one(fixture: &Fixture) -> LeasedChunk {
    lease(fixture, 1, 60).into_iter().next().expect("a chunk waits")
}

fn ordinals(leases: &[LeasedChunk]) -> Vec<u32> {
    leases.iter().map(|lease| lease.chunk.ordinal).collect()
}

/// A journal in which every document of the chunk has the same outcome.
fn journal(ordinal: u32, outcome: Outcome) -> ChunkJournal {
    let first = u64::from(ordinal - 1) * 10 + 1;
    let outcome_of = |document| DocumentOutcome {
        document,
        offset: document * 7,
        collection: Some(CollectionId::from(0)),
        outcome,
        key: format!("key {document}").into(),
        reason: None,
    };
    let outcomes: Vec<DocumentOutcome> = (first..first + 10).map(outcome_of).collect();
    let mut counts = OutcomeCounts { documents: 10, ..OutcomeCounts::default() };
    counts.add(outcome, 10);
    ChunkJournal { counts, first, packed_outcomes: pack(&outcomes), ..ChunkJournal::default() }
}

/// The unit of a leased chunk: one record and its journal.
fn chunk_unit(fixture: &Fixture, lease: &LeasedChunk, outcome: Outcome) -> TestUnit {
    let name = format!("record of {}", lease.chunk);
    let write = put(CollectionId::from(0), &name, fixture.version(&name), fixture.content(&[("name", text(&name))]));
    fixture.unit().lease_token(token_of(lease)).write(write).journal(journal(lease.chunk.ordinal, outcome))
}

fn finish(fixture: &Fixture, lease: &LeasedChunk) {
    chunk_unit(fixture, lease, Outcome::Created).commit_ok(&*fixture.store);
}

fn job(fixture: &Fixture, job: JobId) -> Job {
    let state = fixture.store.job_state(job).expect("the job is there");
    assert_eq!(state, fixture.store.job(job).expect("the job is there").state);
    fixture.store.job(job).expect("the job is there")
}

fn infos(fixture: &Fixture, job: JobId) -> Vec<ChunkInfo> {
    fixture.store.chunks(Some(job)).expect("reading works")
}

/// Fails a chunk until it is dead.
fn kill(fixture: &Fixture, lease: &LeasedChunk) {
    fixture.store.release(token_of(lease), "it does not parse", 0, 1).expect("releasing works");
}

fn assert_fenced(fixture: &Fixture, lease: &LeasedChunk) {
    let (result, _) = chunk_unit(fixture, lease, Outcome::Created).commit(&*fixture.store);
    assert!(matches!(result, Err(StoreError::Fenced(chunk)) if chunk == lease.chunk), "{result:?}");
}

pub fn chunks_are_leased_in_order(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    let mut shuffled = chunks(1..=5);
    shuffled.rotate_left(2);
    fixture.store.add_chunks(id, shuffled, progress(5, false)).expect("chunks are added");
    assert_eq!(ordinals(&lease(&fixture, 2, 60)), [1, 2]);
    fixture.store.add_chunks(id, chunks(6..=7), progress(7, true)).expect("chunks are added");
    assert_eq!(ordinals(&lease(&fixture, 3, 60)), [3, 4, 5]);
    assert_eq!(ordinals(&lease(&fixture, 10, 60)), [6, 7]);
    assert_eq!(lease(&fixture, 10, 60), []);
    assert_eq!(lease(&fixture, 0, 60), []);
}

pub fn a_leased_chunk_is_not_leased_again(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    job_of(&fixture, 200);
    let leased: Vec<u32> = std::thread::scope(|scope| {
        let store = &*fixture.store;
        let worker = || {
            let mut own_ordinals = Vec::new();
            loop {
                let leases = store.lease(None, 3, 60).expect("leasing works");
                if leases.is_empty() {
                    return own_ordinals;
                }
                own_ordinals.extend(ordinals(&leases));
            }
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert_eq!(leased.len(), 200);
    assert_eq!(leased.into_iter().collect::<BTreeSet<u32>>().len(), 200);
}

pub fn leasing_takes_from_the_oldest_job_unless_one_is_named(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let (first, second) = (job_of(&fixture, 2), job_of(&fixture, 2));
    let named = fixture.store.lease(Some(second), 1, 60).expect("leasing works");
    assert_eq!(named[0].chunk, ChunkId { job: second, ordinal: 1 });
    let any: Vec<JobId> = lease(&fixture, 10, 60).iter().map(|lease| lease.chunk.job).collect();
    assert_eq!(any, [first, first, second]);
    assert_eq!(fixture.store.lease(Some(77), 1, 60).expect("leasing works"), []);
}

pub fn a_lease_carries_the_slice_as_it_was_added(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 3)).expect("the job is written");
    let large = ChunkSlice {
        file: 2,
        offset: 5_000_000_000_000,
        length: 4_294_967_296,
        file_documents: 6_000_000_000,
        documents_before: 7_000_000_000,
        is_last: true,
        documents: u32::MAX,
        head: vec![0, 255, 1],
        payload: Some((0..=255).collect()),
    };
    let added = vec![NewChunk { ordinal: 1, slice: large.clone() }, NewChunk { ordinal: 2, slice: slice(2) }];
    fixture.store.add_chunks(id, added, progress(2, true)).expect("chunks are added");
    let leases = lease(&fixture, 2, 60);
    assert_eq!(leases[0].slice, large);
    assert_eq!(leases[1].slice, slice(2));
    let chunk = fixture.store.chunk(leases[0].chunk).expect("it is in the queue");
    assert_eq!(chunk.slice, large);
    let info = ChunkInfo { job: id, ordinal: 1, state: ChunkState::Leased, attempts: 1, documents: u32::MAX, length: 4_294_967_296, reason: None };
    assert_eq!(chunk.info, info);
    assert_eq!(infos(&fixture, id)[0], info);
}

pub fn an_expired_lease_is_taken_over_and_its_token_is_fenced(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    let expired = lease(&fixture, 1, 0).remove(0);
    let renewed = lease_one(&fixture);
    assert_eq!(renewed.chunk, expired.chunk);
    assert_eq!((expired.attempt, renewed.attempt), (1, 2));
    assert_ne!(expired.token, renewed.token);
    assert_fenced(&fixture, &expired);
    assert_eq!(job(&fixture, id).chunks_left, 1);
    finish(&fixture, &renewed);
    assert_fenced(&fixture, &expired);
    assert_eq!(job(&fixture, id).counts.documents, 10);
}

pub fn a_fenced_unit_writes_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    let expired = lease(&fixture, 1, 0).remove(0);
    lease_one(&fixture);
    let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: 0, child: "c".into(), payload: vec![] };
    let (result, _) = chunk_unit(&fixture, &expired, Outcome::Created).edge(EdgeChange::Put(edge)).mark(1, "t").commit(&*fixture.store);
    let error = result.expect_err("the lease is lost").to_string();
    assert_eq!(error, format!("the lease of chunk {id}.1 has ended: another worker has it, or the job was cancelled; nothing was written"));
    assert_eq!(fixture.keys(fixture.plan(vec![])), Vec::<String>::new());
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(fixture.store.marks(&fixture.tenant, 10).expect("reading works"), []);
    assert_eq!(fixture.store.journal(id, 0, 100, false).expect("reading works"), []);
    assert_eq!(job(&fixture, id).counts, OutcomeCounts::default());
}

pub fn a_fenced_unit_does_not_affect_units_submitted_with_it(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 12);
    let expired_leases = lease(&fixture, 4, 0);
    let valid_leases = lease(&fixture, 12, 60);
    assert_eq!(valid_leases.len(), 12);
    let mut submitted = Vec::new();
    for (number, valid) in valid_leases.iter().enumerate() {
        for lease in expired_leases.get(number).into_iter().chain([valid]) {
            let unit = chunk_unit(&fixture, lease, Outcome::Created).mark(1, &lease.token.to_string());
            submitted.push((lease, fixture.store.submit(Box::new(unit), Priority::Bulk)));
        }
    }
    for (lease, pending) in submitted {
        let result = pending.wait();
        let fenced = expired_leases.contains(lease);
        assert!(if fenced { matches!(result, Err(StoreError::Fenced(_))) } else { result.is_ok() }, "{result:?}");
    }
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 120));
    assert_eq!(fixture.keys(fixture.plan(vec![])).len(), 12);
    assert_eq!(fixture.store.marks(&fixture.tenant, 100).expect("reading works").len(), 12);
}

pub fn units_that_are_submitted_again_after_a_rollback_are_written_once(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 12);
    let expired_leases = lease(&fixture, 4, 0);
    let valid_leases = lease(&fixture, 12, 60);
    let submit = |lease: &LeasedChunk| {
        let unit = chunk_unit(&fixture, lease, Outcome::Created).mark(1, &lease.token.to_string()).rebuilt_if_undone();
        fixture.store.submit(Box::new(unit), Priority::Bulk)
    };
    let mut submitted: VecDeque<(&LeasedChunk, PendingCommit)> = VecDeque::new();
    for (number, valid) in valid_leases.iter().enumerate() {
        submitted.extend(expired_leases.get(number).into_iter().chain([valid]).map(|lease| (lease, submit(lease))));
    }
    while let Some((lease, mut pending)) = submitted.pop_front() {
        // written: its unit was returned, or its result is there
        pending.wait_until_written();
        assert!(pending.is_written());
        match pending.wait() {
            Err(StoreError::Undone) => submitted.push_back((lease, submit(lease))),
            result if expired_leases.contains(lease) => assert!(matches!(result, Err(StoreError::Fenced(_))), "{result:?}"),
            result => assert!(result.is_ok(), "{result:?}"),
        }
    }
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 120));
    assert_eq!(fixture.keys(fixture.plan(vec![])).len(), 12);
    assert_eq!(fixture.store.marks(&fixture.tenant, 100).expect("reading works").len(), 12);
}

pub fn a_renewed_lease_is_not_taken_over(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    job_of(&fixture, 1);
    let leased = lease(&fixture, 1, 0).remove(0);
    assert_eq!(fixture.store.renew(&[token_of(&leased)], 60).expect("renewing works"), [token_of(&leased)]);
    assert_eq!(lease(&fixture, 1, 60), []);
    finish(&fixture, &leased);
}

pub fn only_valid_leases_are_renewed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    job_of(&fixture, 4);
    let leases = lease(&fixture, 4, 0);
    let retaken = lease(&fixture, 1, 60).remove(0);
    assert_eq!(retaken.chunk, leases[0].chunk);
    finish(&fixture, &leases[1]);
    fixture.store.release(token_of(&leases[2]), "later", 0, 5).expect("releasing works");
    let tokens: Vec<LeaseToken> = leases.iter().map(token_of).collect();
    assert_eq!(fixture.store.renew(&tokens, 60).expect("renewing works"), [tokens[3]]);
    assert_eq!(fixture.store.renew(&[], 60).expect("renewing nothing works"), []);
}

pub fn leases_and_delays_last_as_long_as_requested(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    job_of(&fixture, 2);
    let start = Instant::now();
    let both = lease(&fixture, 2, 1);
    fixture.store.release(token_of(&both[1]), "later", 1, 5).expect("releasing works");
    let early = lease(&fixture, 2, 60);
    // on a very busy machine, the second may have passed already
    assert!(early.is_empty() || start.elapsed() >= Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(1_100));
    let mut late = ordinals(&[early, lease(&fixture, 2, 60)].concat());
    late.sort_unstable();
    assert_eq!(late, [1, 2]);
}

pub fn a_released_chunk_waits_for_its_delay_and_keeps_the_reason(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    let leased = lease_one(&fixture);
    fixture.store.release(token_of(&leased), "the file is away", 3_600, 5).expect("releasing works");
    let info = infos(&fixture, id).remove(0);
    assert_eq!((info.state, info.attempts, info.reason.as_deref()), (ChunkState::Waiting, 1, Some("the file is away")));
    assert_eq!(lease(&fixture, 1, 60), []);
    assert_eq!(job(&fixture, id).state, JobState::Running);
    assert_fenced(&fixture, &leased);

    let other = job_of(&fixture, 1);
    let leased = lease_one(&fixture);
    fixture.store.release(token_of(&leased), "at once", 0, 5).expect("releasing works");
    let again = lease_one(&fixture);
    assert_eq!((again.chunk.job, again.attempt), (other, 2));
}

pub fn releasing_a_lease_that_was_lost_changes_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    let expired = lease(&fixture, 1, 0).remove(0);
    let renewed = lease_one(&fixture);
    fixture.store.release(token_of(&expired), "too late", 0, 1).expect("nothing found to do");
    let info = infos(&fixture, id).remove(0);
    assert_eq!((info.state, info.reason), (ChunkState::Leased, None));
    finish(&fixture, &renewed);
    fixture.store.release(token_of(&expired), "far too late", 0, 1).expect("nothing found to do");
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn a_chunk_that_failed_often_enough_is_dead_and_its_job_failed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    for attempt in 1..=3 {
        let leased = fixture.store.lease(Some(id), 1, 60).expect("leasing works").remove(0);
        assert_eq!((leased.chunk.ordinal, leased.attempt), (1, attempt));
        fixture.store.release(token_of(&leased), &format!("failure {attempt}"), 0, 3).expect("releasing works");
    }
    let states = |id| infos(&fixture, id).iter().map(|info| info.state).collect::<Vec<_>>();
    assert_eq!(states(id), [ChunkState::Dead, ChunkState::Waiting]);
    assert_eq!(infos(&fixture, id)[0].reason.as_deref(), Some("failure 3"));
    let leased = lease_one(&fixture);
    assert_eq!(leased.chunk.ordinal, 2, "a dead chunk is not leased");
    assert_eq!(job(&fixture, id).state, JobState::Running, "another chunk is still at work");
    finish(&fixture, &leased);
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.chunks_left, ended.chunks_dead), (JobState::Failed, 0, 1));
    assert!(ended.finished.is_some() && ended.reason.is_some());
    assert_eq!(ended.counts.documents, 10, "what was committed stays");
}

pub fn dead_chunks_are_retried_together_or_one_by_one(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 3);
    lease(&fixture, 3, 60).iter().for_each(|lease| kill(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Failed);
    assert_eq!(fixture.store.retry(id, Some(2)).expect("retrying works"), 1);
    let again = job(&fixture, id);
    assert_eq!((again.state, again.reason, again.finished), (JobState::Interrupted, None, None), "nobody works on it yet");
    let leased = lease_one(&fixture);
    assert_eq!((leased.chunk.ordinal, leased.attempt), (2, 1), "attempts are counted anew");
    finish(&fixture, &leased);
    assert_eq!(job(&fixture, id).state, JobState::Failed, "two are dead still");
    assert_eq!(fixture.store.retry(id, None).expect("retrying works"), 2);
    assert_eq!(fixture.store.retry(id, None).expect("retrying works"), 0, "none is dead any more");
    assert_eq!(fixture.store.retry(id, Some(77)).expect("retrying works"), 0);
    lease(&fixture, 3, 60).iter().for_each(|lease| finish(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Completed);
    assert_eq!(fixture.store.retry(id, None).expect("retrying works"), 0);
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn taking_over_a_job_frees_its_chunks_and_fences_their_holders(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let (id, other) = (job_of(&fixture, 3), job_of(&fixture, 1));
    let leases = lease(&fixture, 4, 3_600);
    finish(&fixture, &leases[0]);
    assert_eq!(fixture.store.take_over(id).expect("taking over works"), 2);
    assert_fenced(&fixture, &leases[1]);
    assert_eq!(fixture.store.renew(&[token_of(&leases[2])], 60).expect("renewing works"), []);
    assert_eq!(ordinals(&lease(&fixture, 9, 60)), [2, 3]);
    finish(&fixture, &leases[3]);
    assert_eq!(job(&fixture, other).state, JobState::Completed, "other jobs keep their leases");
    assert_eq!(fixture.store.take_over(other).expect("taking over works"), 0);
}

pub fn lease_tokens_of_one_chunk_are_never_equal(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 3);
    let mut tokens = BTreeSet::new();
    for _ in 0..20 {
        for lease in lease(&fixture, 3, 0) {
            assert!(tokens.insert((lease.chunk, lease.token)), "{lease:?}");
        }
        fixture.store.take_over(id).expect("taking over works");
    }
}

pub fn adding_chunks_twice_adds_them_once(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    let add = |ordinals, up_to, complete| fixture.store.add_chunks(id, chunks(ordinals), progress(up_to, complete)).expect("chunks are added");
    add(1..=2, 2, false);
    assert_eq!(job(&fixture, id).progress, progress(2, false));
    let leased = lease_one(&fixture);
    add(1..=2, 2, false);
    finish(&fixture, &leased);
    // the first is done by now and must not come back
    add(1..=2, 2, false);
    add(2..=3, 3, true);
    assert_eq!(infos(&fixture, id).iter().map(|info| info.ordinal).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(job(&fixture, id).progress, progress(3, true));
    assert_eq!(job(&fixture, id).chunks_left, 2);
}

pub fn two_processes_that_split_the_same_files_add_every_chunk_once(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    let add = |ordinals, up_to, complete| fixture.store.add_chunks(id, chunks(ordinals), progress(up_to, complete)).expect("chunks are added");
    // one process is ahead, the other starts from the beginning and splits into other chunks
    add(1..=4, 4, false);
    add(1..=3, 3, false);
    assert_eq!(job(&fixture, id).progress, progress(4, false), "who comes later sets nothing back");
    add(5..=6, 6, false);
    add(4..=7, 7, false);
    finish(&fixture, &lease_one(&fixture));
    add(7..=8, 8, true);
    add(8..=8, 8, false);
    assert_eq!(job(&fixture, id).progress, progress(8, true));
    assert_eq!(infos(&fixture, id).iter().map(|info| info.ordinal).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
    lease(&fixture, 9, 60).iter().for_each(|lease| finish(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Completed);
    // the other finds in the end that all chunks were there
    add(8..=8, 8, true);
    assert_eq!((job(&fixture, id).state, job(&fixture, id).counts.documents), (JobState::Completed, 80));
    assert_eq!(infos(&fixture, id), []);
}

pub fn chunks_are_added_only_to_jobs_that_have_not_ended(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let completed = job_of(&fixture, 0);
    let cancelled = job_of(&fixture, 1);
    fixture.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    for (id, reason) in [(completed, "job 1 is completed"), (cancelled, "job 2 is cancelled"), (77, "no job 77")] {
        let error = fixture.store.add_chunks(id, chunks(5..=5), progress(5, true)).expect_err("the job has ended");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(fixture.store.chunks(None).expect("reading works"), []);
}

pub fn a_chunk_is_replaced_by_its_parts_which_get_new_ordinals(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 3);
    let part = |documents: u32| ChunkSlice { documents, head: vec![1], ..slice(2) };
    let parts: Vec<NewChunk> = [4, 6].map(|documents| NewChunk { ordinal: 0, slice: part(documents) }).to_vec();
    fixture.store.replace_chunk(ChunkId { job: id, ordinal: 2 }, parts.clone()).expect("replacing works");
    let leases = lease(&fixture, 9, 60);
    let queued = ordinals(&leases);
    assert_eq!(queued.len(), 4);
    assert_eq!(queued[..2], [1, 3]);
    assert_eq!(queued.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(leases[2..].iter().map(|lease| lease.slice.clone()).collect::<Vec<_>>(), [part(4), part(6)]);
    // parts of a dead chunk, too, and its job continues
    leases.iter().for_each(|lease| kill(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Failed);
    for ordinal in queued {
        fixture.store.replace_chunk(ChunkId { job: id, ordinal }, parts[..1].to_vec()).expect("replacing works");
    }
    assert_eq!(job(&fixture, id).state, JobState::Interrupted);
    let leases = lease(&fixture, 9, 60);
    assert_eq!(leases.len(), 4);
    for lease in &leases {
        fixture.unit().lease_token(token_of(lease)).journal(ChunkJournal::default()).commit_ok(&*fixture.store);
    }
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn a_chunk_replaced_by_nothing_lets_its_job_end(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    kill(&fixture, &lease_one(&fixture));
    fixture.store.replace_chunk(ChunkId { job: id, ordinal: 1 }, Vec::new()).expect("replacing works");
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn a_leased_or_finished_chunk_is_not_replaced(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    let leases = lease(&fixture, 2, 60);
    finish(&fixture, &leases[0]);
    for ordinal in [1, 2, 3] {
        let chunk = ChunkId { job: id, ordinal };
        let error = fixture.store.replace_chunk(chunk, chunks(1..=1)).expect_err("the chunk is leased or gone");
        assert!(error.to_string().contains(&format!("chunk {chunk} is leased or not in the queue")), "{error}");
    }
    assert_eq!(job(&fixture, id).chunks_left, 1);
    finish(&fixture, &leases[1]);
}

pub fn a_dumped_chunk_that_is_loaded_replaces_the_queued_one(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    let mended = ChunkSlice { payload: Some(b"mended".to_vec()), ..slice(1) };
    let chunk = ChunkId { job: id, ordinal: 1 };
    // a waiting one
    fixture.store.load_chunk(chunk, mended.clone()).expect("loading works");
    assert_eq!(fixture.store.chunk(chunk).expect("it is in the queue").slice, mended);
    // a dead one, so that its failed job continues
    lease(&fixture, 2, 60).iter().for_each(|lease| kill(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Failed);
    let mended_again = ChunkSlice { documents: 9, ..mended };
    fixture.store.load_chunk(chunk, mended_again.clone()).expect("loading works");
    assert_eq!(job(&fixture, id).state, JobState::Interrupted);
    let leased = lease_one(&fixture);
    assert_eq!((leased.chunk, leased.attempt, leased.slice.clone()), (chunk, 1, mended_again));
    finish(&fixture, &leased);
}

pub fn a_chunk_that_is_leased_or_done_or_of_a_cancelled_job_is_not_loaded(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    let leases = lease(&fixture, 2, 60);
    finish(&fixture, &leases[0]);
    let cancelled = job_of(&fixture, 1);
    fixture.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    let refusals = [
        (id, 1, format!("chunk {id}.1 is done already")),
        (id, 2, format!("chunk {id}.2 is leased")),
        (77, 1, "no job 77".to_owned()),
        (cancelled, 1, format!("job {cancelled} is cancelled")),
    ];
    for (job, ordinal, reason) in refusals {
        let error = fixture.store.load_chunk(ChunkId { job, ordinal }, slice(1)).expect_err("it makes no sense");
        assert!(error.to_string().contains(&reason), "{error}");
    }
    assert_eq!(fixture.store.chunks(None).expect("reading works").len(), 1);
    finish(&fixture, &leases[1]);
}

pub fn a_job_is_queued_then_running_then_completed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    let queued = job(&fixture, id);
    assert_eq!((queued.state, queued.finished, queued.chunks_left), (JobState::Queued, None, 2));
    let leases = lease(&fixture, 2, 60);
    assert_eq!((job(&fixture, id).state, job(&fixture, id).chunks_left), (JobState::Running, 2));
    finish(&fixture, &leases[1]);
    assert_eq!((job(&fixture, id).state, job(&fixture, id).chunks_left), (JobState::Running, 1));
    finish(&fixture, &leases[0]);
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.chunks_left, ended.chunks_dead, ended.reason), (JobState::Completed, 0, 0, None));
    assert!(ended.finished.is_some_and(|finished| finished > ended.created && ended.created >= queued.created));
    assert_eq!(ended.counts.of(Outcome::Created), 20);
    assert_eq!(infos(&fixture, id), []);
    let error = fixture.store.chunk(leases[0].chunk).expect_err("it is done").to_string();
    assert_eq!(error, format!("there is no chunk {id}.1 in the queue"));
}

pub fn a_job_without_workers_is_interrupted_until_a_chunk_is_leased(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let interrupt = |id| fixture.store.interrupt_job(id).expect("it is noted");
    let progress_of = |id| (job(&fixture, id).state, job(&fixture, id).chunks_left, job(&fixture, id).chunks_working);
    let id = job_of(&fixture, 3);
    assert_eq!(progress_of(id), (JobState::Queued, 3, 0));
    let leases = lease(&fixture, 2, 60);
    assert_eq!(progress_of(id), (JobState::Running, 3, 2));
    interrupt(id);
    assert_eq!(progress_of(id), (JobState::Running, 3, 2), "somebody else has chunks of it");
    fixture.store.return_unstarted(&[token_of(&leases[0])]).expect("giving back works");
    finish(&fixture, &leases[1]);
    assert_eq!(progress_of(id), (JobState::Running, 2, 0));
    interrupt(id);
    interrupt(id);
    assert_eq!(progress_of(id), (JobState::Interrupted, 2, 0));
    assert!(!job(&fixture, id).state.is_final() && job(&fixture, id).finished.is_none());
    // no worker has an expired lease
    lease(&fixture, 1, 0);
    assert_eq!(progress_of(id), (JobState::Running, 2, 0));
    interrupt(id);
    assert_eq!(progress_of(id), (JobState::Interrupted, 2, 0));
    lease(&fixture, 2, 60).iter().for_each(|lease| finish(&fixture, lease));
    assert_eq!(progress_of(id), (JobState::Completed, 0, 0));
    interrupt(id);
    assert_eq!(progress_of(id), (JobState::Completed, 0, 0), "what has ended has ended");
    // files that were not split to their end
    let partly_split = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    fixture.store.add_chunks(partly_split, chunks(1..=1), progress(1, false)).expect("chunks are added");
    interrupt(partly_split);
    assert_eq!(progress_of(partly_split), (JobState::Interrupted, 1, 0));
    fixture.store.add_chunks(partly_split, chunks(2..=2), progress(2, true)).expect("chunks are added");
    lease(&fixture, 2, 60).iter().for_each(|lease| finish(&fixture, lease));
    assert_eq!(progress_of(partly_split), (JobState::Completed, 0, 0));
    // and it can be ended
    let cancelled = job_of(&fixture, 1);
    interrupt(cancelled);
    fixture.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    assert_eq!(progress_of(cancelled), (JobState::Cancelled, 0, 0));
    fixture.store.interrupt_job(77).expect_err("there is no such job");
}

pub fn a_job_without_chunks_is_completed_when_its_files_are_split(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    fixture.store.add_chunks(id, Vec::new(), progress(0, false)).expect("adding works");
    assert_eq!(job(&fixture, id).state, JobState::Queued);
    fixture.store.add_chunks(id, Vec::new(), progress(0, true)).expect("adding works");
    assert_eq!(job(&fixture, id).state, JobState::Completed);
    assert!(job(&fixture, id).finished.is_some());
}

pub fn a_job_with_failed_documents_is_completed_with_errors(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    let leases = lease(&fixture, 2, 60);
    chunk_unit(&fixture, &leases[0], Outcome::Failed).commit_ok(&*fixture.store);
    finish(&fixture, &leases[1]);
    let ended = job(&fixture, id);
    assert_eq!(ended.state, JobState::CompletedWithErrors);
    assert_eq!((ended.counts.of(Outcome::Failed), ended.counts.of(Outcome::Created), ended.counts.documents), (10, 10, 20));
}

pub fn a_job_runs_until_all_its_files_are_split(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    fixture.store.add_chunks(id, chunks(1..=1), progress(1, false)).expect("chunks are added");
    finish(&fixture, &lease_one(&fixture));
    assert_eq!((job(&fixture, id).state, job(&fixture, id).chunks_left), (JobState::Running, 0));
    fixture.store.add_chunks(id, chunks(2..=2), progress(2, true)).expect("chunks are added");
    assert_eq!(job(&fixture, id).state, JobState::Running);
    finish(&fixture, &lease_one(&fixture));
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn a_cancelled_job_has_no_chunks_and_fences_its_workers(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 4);
    let leases = lease(&fixture, 3, 60);
    finish(&fixture, &leases[0]);
    kill(&fixture, &leases[1]);
    fixture.store.end_job(id, JobState::Cancelled, "somebody stopped it").expect("ending works");
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.reason.as_deref()), (JobState::Cancelled, Some("somebody stopped it")));
    assert_eq!((ended.chunks_left, ended.chunks_dead, ended.counts.documents), (0, 0, 10));
    assert_eq!(infos(&fixture, id), []);
    assert_fenced(&fixture, &leases[2]);
    assert_eq!(lease(&fixture, 9, 60), []);
    assert_eq!(fixture.store.retry(id, None).expect("retrying works"), 0);
    assert_eq!(job(&fixture, id).state, JobState::Cancelled);
    assert!(fixture.record(&format!("record of {id}.1")).is_some(), "what was committed stays");
}

pub fn a_job_that_has_ended_can_be_forgotten(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let (id, other) = (job_of(&fixture, 2), job_of(&fixture, 1));
    finish(&fixture, &lease(&fixture, 1, 60)[0]);
    fixture.store.forget_job(id).expect("nothing to forget");
    assert!(!job(&fixture, id).state.is_final(), "one that goes on stays");
    while let Some(next) = lease(&fixture, 1, 60).first() {
        finish(&fixture, next);
    }
    let journal = fixture.store.journal(other, 0, 100, false).expect("a journal");
    fixture.store.forget_job(id).expect("forgetting works");
    assert!(fixture.store.job(id).is_err() && fixture.store.journal(id, 0, 100, false).is_err() && fixture.store.forget_job(id).is_err());
    assert_eq!(fixture.store.jobs(None, 10).expect("jobs").iter().map(|job| job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(fixture.store.journal(other, 0, 100, false).expect("a journal"), journal);
    assert!(fixture.record(&format!("record of {id}.1")).is_some(), "what was committed stays");
    assert!(job_of(&fixture, 1) > other, "no number comes again");
}

pub fn a_failed_job_has_no_waiting_chunks_and_keeps_the_reason(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 3);
    let leases = lease(&fixture, 2, 60);
    finish(&fixture, &leases[0]);
    fixture.store.end_job(id, JobState::Failed, "the file is gone").expect("ending works");
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.reason.as_deref(), ended.chunks_left), (JobState::Failed, Some("the file is gone"), 0));
    assert_eq!(lease(&fixture, 9, 60), [], "nobody goes on with a job that has failed");
    assert_fenced(&fixture, &leases[1]);
    assert_eq!(job(&fixture, id).counts.documents, 10);
}

pub fn ending_a_job_that_has_ended_changes_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 1);
    finish(&fixture, &lease_one(&fixture));
    let before = job(&fixture, id);
    fixture.store.end_job(id, JobState::Cancelled, "too late").expect("nothing found to do");
    assert_eq!(job(&fixture, id), before);
    let running = job_of(&fixture, 1);
    for state in [JobState::Queued, JobState::Running, JobState::Interrupted, JobState::Completed, JobState::CompletedWithErrors] {
        fixture.store.end_job(running, state, "by hand").expect_err("a job is ended as failed or cancelled");
    }
    assert_eq!(job(&fixture, running).state, JobState::Queued);
}

pub fn an_unknown_job_is_named_in_the_error(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let errors = [
        fixture.store.job(77).map(|_| ()),
        fixture.store.journal(77, 0, 10, false).map(|_| ()),
        fixture.store.add_chunks(77, chunks(1..=1), progress(1, true)),
        fixture.store.load_chunk(ChunkId { job: 77, ordinal: 1 }, slice(1)),
        fixture.store.end_job(77, JobState::Cancelled, "enough"),
    ];
    for error in errors {
        let error = error.expect_err("there is no such job");
        assert!(error.to_string().contains("no job 77"), "{error}");
    }
    assert_eq!(fixture.store.jobs(None, 10).expect("reading works"), []);
    assert_eq!(fixture.store.take_over(77).expect("nothing found to do"), 0);
    fixture.store.release(LeaseToken { chunk: ChunkId { job: 77, ordinal: 1 }, token: 1 }, "lost", 0, 1).expect("nothing found to do");
}

pub fn jobs_are_listed_newest_first(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let ids = [job_of(&fixture, 1), job_of(&fixture, 2), job_of(&fixture, 0)];
    let listed = fixture.store.jobs(None, 10).expect("reading works");
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[2], ids[1], ids[0]]);
    assert_eq!(listed[1], job(&fixture, ids[1]));
    let newest = fixture.store.jobs(Some(&fixture.tenant), 2).expect("reading works");
    assert_eq!(newest[..], listed[..2]);
}

pub fn a_job_keeps_its_attributes_after_reopening(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let mut new = new_job(&fixture.tenant, 2);
    new.profile = Some("upsert".into());
    new.as_of = Some(-1);
    new.files[1] = JobFile { path: "d/\u{e4} \"x\".gz".into(), size: u64::MAX >> 1, modified: -5, compressed: true, ..JobFile::default() };
    let id = fixture.store.create_job(new.clone()).expect("the job is written");
    fixture.store.add_chunks(id, chunks(1..=2), progress(2, false)).expect("chunks are added");
    let leased = lease_one(&fixture);
    let before = job(&fixture, id);
    assert_eq!((&before.tenant, &before.profile, &before.source), (&DEFAULT_TENANT.to_owned(), &new.profile, &new.source));
    assert_eq!((before.as_of, &before.files, before.progress), (Some(-1), &new.files, progress(2, false)));
    let fixture = fixture.reopen(location);
    assert_eq!(job(&fixture, id), before);
    // a lease outlives the process that opened the store
    finish(&fixture, &leased);
    let next = fixture.store.create_job(new).expect("the job is written");
    assert!(next > id);
}

pub fn two_open_instances_of_one_store_never_lease_the_same_chunk(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 60);
    let other_store = location.open(&fixture.catalogue);
    let process_chunks = |store: &dyn Store| {
        let mut done = Vec::new();
        loop {
            let leases = store.lease(Some(id), 4, 60).expect("leasing works");
            if leases.is_empty() {
                return done;
            }
            for lease in leases {
                let write = put(CollectionId::from(0), &format!("{}", lease.chunk.ordinal), None, fixture.content(&[]));
                let journal = journal(lease.chunk.ordinal, Outcome::Created);
                TestUnit::new(&fixture.tenant).lease_token(token_of(&lease)).write(write).journal(journal).commit_ok(store);
                done.push(lease.chunk.ordinal);
            }
        }
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| process_chunks(&*other_store));
        (process_chunks(&*fixture.store), second.join().expect("no panic"))
    });
    assert_eq!(first.len() + second.len(), 60);
    for store in [&fixture.store, &other_store] {
        let ended = store.job(id).expect("the job is there");
        assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 600));
        assert_eq!(store.count(&fixture.plan(vec![])).expect("counting works"), 60);
    }
}

const SHARED: &str = "
catalogue: plain
collections:
  item:
    key: name
    fields:
      name: text
tenants:
  heavy: { weight: 3 }
  limited: { most_running: 2 }
  else: { weight: 1 }
";

fn job_for(fixture: &Fixture, tenant_name: &str, count: u32) -> JobId {
    let tenant = Tenant::new(tenant_name).expect("a tenant's name");
    let job = fixture.store.create_job(new_job(&tenant, 1)).expect("the job is written");
    add_chunks(&*fixture.store, job, count);
    job
}

pub fn tenants_get_chunks_by_weight_in_turn(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHARED);
    let jobs = ["one", "heavy", "two"].map(|name| job_for(&fixture, name, 60));
    let mut leases_by_tenant = [0_u32; 3];
    for turn in 1..=100 {
        // leasing one by one or several at once gives the same shares
        let leases = lease(&fixture, if turn % 2 == 0 { 1 } else { 2 }, 60);
        leases.iter().for_each(|lease| leases_by_tenant[jobs.iter().position(|job| *job == lease.chunk.job).expect("one of the jobs")] += 1);
        if leases_by_tenant[1] <= 57 {
            assert!(
                leases_by_tenant[0].abs_diff(leases_by_tenant[2]) <= 1 && leases_by_tenant[1].abs_diff(3 * leases_by_tenant[0]) <= 5,
                "{leases_by_tenant:?}"
            );
        }
    }
    assert_eq!(leases_by_tenant.iter().sum::<u32>(), 150, "no worker is idle while chunks wait");
    assert_eq!(leases_by_tenant[1], 60, "the heavy one is done first");
}

pub fn small_jobs_of_one_tenant_come_first_and_equal_ones_in_order(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let job_of_size = |size: u64| {
        let mut job = new_job(&fixture.tenant, 1);
        job.files[0].size = size;
        let id = fixture.store.create_job(job).expect("the job is written");
        add_chunks(&*fixture.store, id, 2);
        id
    };
    let jobs = [job_of_size(9 << 30), job_of_size(1 << 30), job_of_size(2_000_000_000), job_of_size(1 << 30)];
    let order: Vec<JobId> = lease(&fixture, 8, 60).iter().map(|lease| lease.chunk.job).collect();
    let expected = [jobs[1], jobs[1], jobs[3], jobs[3], jobs[2], jobs[2], jobs[0], jobs[0]];
    assert_eq!(order, expected);
}

pub fn a_tenant_at_its_limit_gets_no_more_leases(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHARED);
    let (limited, other) = (job_for(&fixture, "limited", 20), job_for(&fixture, "other", 3));
    assert_eq!(fixture.store.lease(Some(limited), 9, 60).expect("leasing works").len(), 2, "also when its job is named");
    let other_leases = lease(&fixture, 9, 60);
    assert_eq!(other_leases.iter().map(|lease| lease.chunk.job).collect::<Vec<_>>(), [other; 3]);
    fixture.store.take_over(limited).expect("taking over works");
    // many at once
    let leased_count: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| lease(&fixture, 1, 60).len())).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends")).sum()
    });
    assert_eq!(leased_count, 2);
    fixture.store.take_over(limited).expect("taking over works");
    let mut finished = 0;
    while let [leased] = lease(&fixture, 1, 60).as_slice() {
        fixture.unit().lease_token(token_of(leased)).journal(journal(leased.chunk.ordinal, Outcome::Skipped)).commit_ok(&*fixture.store);
        finished += 1;
    }
    assert_eq!((finished, job(&fixture, limited).state), (20, JobState::Completed));
}

pub fn an_idle_tenant_gets_only_a_small_credit(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHARED);
    let busy = job_for(&fixture, "loud", 4_000);
    assert_eq!(fixture.store.lease(Some(busy), 3_000, 60).expect("leasing works").len(), 3_000);
    let idle = job_for(&fixture, "quiet", 4_000);
    let credit = (schedule::CREDIT / 10_000) as usize;
    let order: Vec<JobId> = lease(&fixture, credit + 100, 60).iter().map(|lease| lease.chunk.job).collect();
    assert!(order[..100].iter().all(|job| *job == idle), "it comes first for a moment");
    let turns = order[credit..].iter().filter(|job| **job == busy).count();
    assert!((40..60).contains(&turns), "then in turn: {turns}");
}

pub fn chunks_returned_unstarted_wait_as_if_they_had_not_been_leased(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 3);
    let leases = lease(&fixture, 3, 60);
    finish(&fixture, &leases[0]);
    fixture.store.return_unstarted(&leases.iter().map(token_of).collect::<Vec<_>>()).expect("giving back works");
    assert_fenced(&fixture, &leases[1]);
    let again = lease(&fixture, 9, 60);
    assert_eq!(again.iter().map(|lease| (lease.chunk.ordinal, lease.attempt)).collect::<Vec<_>>(), [(2, 1), (3, 1)]);
    // an old lease does not return a chunk that was leased again
    fixture.store.return_unstarted(&[token_of(&leases[1])]).expect("nothing found to do");
    again.iter().for_each(|lease| finish(&fixture, lease));
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}

pub fn a_store_is_idle_when_no_chunk_waits_or_is_leased(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let is_idle = || fixture.store.is_idle().expect("reading works");
    assert!(is_idle());
    job_of(&fixture, 1);
    assert!(!is_idle());
    let leased = lease_one(&fixture);
    assert!(!is_idle());
    fixture.store.release(token_of(&leased), "later", 3_600, 5).expect("releasing works");
    assert!(!is_idle(), "it waits, if not yet");
    let id = leased.chunk.job;
    fixture.store.end_job(id, JobState::Cancelled, "enough").expect("it ends");
    assert!(is_idle());
}

pub fn waiting_for_chunks_ends_when_chunks_are_added(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let started = Instant::now();
    fixture.store.wait_for_chunks(Duration::from_millis(30));
    assert!(started.elapsed() >= Duration::from_millis(20), "nothing was added");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            // it is a hint, so it may return without reason
            while lease(&fixture, 1, 60).is_empty() {
                fixture.store.wait_for_chunks(Duration::from_secs(60));
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        job_of(&fixture, 1);
        waiter.join().expect("it is told");
    });
    assert!(started.elapsed() < Duration::from_secs(30));
}

pub fn a_chunk_whose_workers_never_report_becomes_dead(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let id = job_of(&fixture, 2);
    for attempt in 1..=MAX_LEASES {
        let first = fixture.store.lease(Some(id), 1, 0).expect("leasing works").remove(0);
        if attempt == 1 {
            finish(&fixture, &first);
        } else {
            assert_eq!((first.chunk.ordinal, first.attempt), (2, attempt - 1));
        }
    }
    assert_eq!(fixture.store.lease(Some(id), 1, 0).expect("leasing works").len(), 1);
    assert_eq!(lease(&fixture, 1, 0), []);
    let ended = job(&fixture, id);
    assert_eq!((ended.state, ended.chunks_dead), (JobState::Failed, 1));
    assert!(infos(&fixture, id)[0].reason.as_deref().is_some_and(|reason| reason.contains("its workers stopped without reporting")));
    assert_eq!(fixture.store.retry(id, None).expect("retrying works"), 1);
    finish(&fixture, &lease_one(&fixture));
    assert_eq!(job(&fixture, id).state, JobState::Completed);
}
