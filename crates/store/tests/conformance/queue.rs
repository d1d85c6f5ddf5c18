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

pub fn new_job(own: &Tenant, files: usize) -> NewJob {
    let file = |number| JobFile {
        path: format!("file{number}.json"),
        size: 100,
        modified: 5,
        syntax: Some("json".into()),
        compressed: false,
        part: None,
        retires_all: false,
    };
    NewJob { tenant: own.clone(), profile: None, source: "deliveries".into(), as_of: None, files: (0..files).map(file).collect() }
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
fn job_of(desk: &Desk, count: u32) -> JobId {
    let job = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    add_chunks(&*desk.store, job, count);
    job
}

pub fn fence(lease: &LeasedChunk) -> LeaseToken {
    LeaseToken { chunk: lease.chunk, token: lease.token }
}

fn lease(desk: &Desk, limit: usize, seconds: u64) -> Vec<LeasedChunk> {
    desk.store.lease(None, limit, seconds).expect("leasing works")
}

fn lease_one(desk: &Desk) -> LeasedChunk {
    lease(desk, 1, 60).into_iter().next().expect("a chunk waits")
}

fn ordinals(leases: &[LeasedChunk]) -> Vec<u32> {
    leases.iter().map(|lease| lease.chunk.ordinal).collect()
}

/// A journal in which every document of the chunk has the same outcome.
fn journal(ordinal: u32, outcome: Outcome) -> ChunkJournal {
    let first = u64::from(ordinal - 1) * 10 + 1;
    let line = |document| DocumentOutcome {
        document,
        offset: document * 7,
        collection: Some(CollectionId::from(0)),
        outcome,
        key: format!("key {document}").into(),
        reason: None,
    };
    let lines: Vec<DocumentOutcome> = (first..first + 10).map(line).collect();
    let mut counts = OutcomeCounts { documents: 10, ..OutcomeCounts::default() };
    counts.add(outcome, 10);
    ChunkJournal { counts, first, packed_outcomes: pack(&lines), ..ChunkJournal::default() }
}

/// The unit of a leased chunk: one record and its journal.
fn chunk_work(desk: &Desk, lease: &LeasedChunk, outcome: Outcome) -> Work {
    let name = format!("record of {}", lease.chunk);
    let write = put(CollectionId::from(0), &name, desk.version(&name), desk.content(&[("name", text(&name))]));
    desk.work().fence(fence(lease)).write(write).journal(journal(lease.chunk.ordinal, outcome))
}

fn finish(desk: &Desk, lease: &LeasedChunk) {
    chunk_work(desk, lease, Outcome::Created).done(&*desk.store);
}

fn job(desk: &Desk, job: JobId) -> Job {
    let state = desk.store.job_state(job).expect("the job is there");
    assert_eq!(state, desk.store.job(job).expect("the job is there").state);
    desk.store.job(job).expect("the job is there")
}

fn infos(desk: &Desk, job: JobId) -> Vec<ChunkInfo> {
    desk.store.chunks(Some(job)).expect("reading works")
}

/// Fails a chunk until it is dead.
fn kill(desk: &Desk, lease: &LeasedChunk) {
    desk.store.release(fence(lease), "it does not parse", 0, 1).expect("releasing works");
}

fn assert_fenced(desk: &Desk, lease: &LeasedChunk) {
    let (result, _) = chunk_work(desk, lease, Outcome::Created).commit(&*desk.store);
    assert!(matches!(result, Err(StoreError::Fenced(chunk)) if chunk == lease.chunk), "{result:?}");
}

pub fn chunks_are_leased_in_order(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    let mut shuffled = chunks(1..=5);
    shuffled.rotate_left(2);
    desk.store.add_chunks(id, shuffled, progress(5, false)).expect("chunks are added");
    assert_eq!(ordinals(&lease(&desk, 2, 60)), [1, 2]);
    desk.store.add_chunks(id, chunks(6..=7), progress(7, true)).expect("chunks are added");
    assert_eq!(ordinals(&lease(&desk, 3, 60)), [3, 4, 5]);
    assert_eq!(ordinals(&lease(&desk, 10, 60)), [6, 7]);
    assert_eq!(lease(&desk, 10, 60), []);
    assert_eq!(lease(&desk, 0, 60), []);
}

pub fn a_leased_chunk_is_leased_by_nobody_else(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    job_of(&desk, 200);
    let leased: Vec<u32> = std::thread::scope(|scope| {
        let store = &*desk.store;
        let worker = || {
            let mut own = Vec::new();
            loop {
                let leases = store.lease(None, 3, 60).expect("leasing works");
                if leases.is_empty() {
                    return own;
                }
                own.extend(ordinals(&leases));
            }
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    assert_eq!(leased.len(), 200);
    assert_eq!(leased.into_iter().collect::<BTreeSet<u32>>().len(), 200);
}

pub fn leasing_takes_from_the_oldest_job_unless_one_is_named(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let (first, second) = (job_of(&desk, 2), job_of(&desk, 2));
    let named = desk.store.lease(Some(second), 1, 60).expect("leasing works");
    assert_eq!(named[0].chunk, ChunkId { job: second, ordinal: 1 });
    let any: Vec<JobId> = lease(&desk, 10, 60).iter().map(|lease| lease.chunk.job).collect();
    assert_eq!(any, [first, first, second]);
    assert_eq!(desk.store.lease(Some(77), 1, 60).expect("leasing works"), []);
}

pub fn a_lease_carries_the_slice_as_it_was_added(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 3)).expect("the job is written");
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
    desk.store.add_chunks(id, added, progress(2, true)).expect("chunks are added");
    let leases = lease(&desk, 2, 60);
    assert_eq!(leases[0].slice, large);
    assert_eq!(leases[1].slice, slice(2));
    let chunk = desk.store.chunk(leases[0].chunk).expect("it is in the queue");
    assert_eq!(chunk.slice, large);
    let info = ChunkInfo { job: id, ordinal: 1, state: ChunkState::Leased, attempts: 1, documents: u32::MAX, length: 4_294_967_296, reason: None };
    assert_eq!(chunk.info, info);
    assert_eq!(infos(&desk, id)[0], info);
}

pub fn a_lease_that_has_run_out_is_taken_over_and_the_old_token_is_fenced(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    let slow = lease(&desk, 1, 0).remove(0);
    let quick = lease_one(&desk);
    assert_eq!(quick.chunk, slow.chunk);
    assert_eq!((slow.attempt, quick.attempt), (1, 2));
    assert_ne!(slow.token, quick.token);
    assert_fenced(&desk, &slow);
    assert_eq!(job(&desk, id).chunks_left, 1);
    finish(&desk, &quick);
    assert_fenced(&desk, &slow);
    assert_eq!(job(&desk, id).counts.documents, 10);
}

pub fn a_fenced_unit_writes_nothing(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    let slow = lease(&desk, 1, 0).remove(0);
    lease_one(&desk);
    let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: 0, child: "c".into(), payload: vec![] };
    let (result, _) = chunk_work(&desk, &slow, Outcome::Created).edge(EdgeChange::Put(edge)).mark(1, "t").commit(&*desk.store);
    let error = result.expect_err("the lease is lost").to_string();
    assert_eq!(error, format!("chunk {id}.1 was taken over by another worker; nothing was written twice"));
    assert_eq!(desk.keys(desk.plan(vec![])), Vec::<String>::new());
    assert_eq!(desk.store.edges(&desk.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(desk.store.marks(&desk.tenant, 10).expect("reading works"), []);
    assert_eq!(desk.store.journal(id, 0, 100, false).expect("reading works"), []);
    assert_eq!(job(&desk, id).counts, OutcomeCounts::default());
}

pub fn a_fenced_unit_does_not_disturb_those_beside_it(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 12);
    let slow = lease(&desk, 4, 0);
    let held = lease(&desk, 12, 60);
    assert_eq!(held.len(), 12);
    let mut submitted = Vec::new();
    for (number, own) in held.iter().enumerate() {
        for lease in slow.get(number).into_iter().chain([own]) {
            let unit = chunk_work(&desk, lease, Outcome::Created).mark(1, &lease.token.to_string());
            submitted.push((lease, desk.store.submit(Box::new(unit), Priority::Bulk)));
        }
    }
    for (lease, pending) in submitted {
        let result = pending.wait();
        let fenced = slow.contains(lease);
        assert!(if fenced { matches!(result, Err(StoreError::Fenced(_))) } else { result.is_ok() }, "{result:?}");
    }
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 120));
    assert_eq!(desk.keys(desk.plan(vec![])).len(), 12);
    assert_eq!(desk.store.marks(&desk.tenant, 100).expect("reading works").len(), 12);
}

pub fn units_that_are_given_back_are_written_once(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 12);
    let slow = lease(&desk, 4, 0);
    let held = lease(&desk, 12, 60);
    let submit = |lease: &LeasedChunk| {
        let unit = chunk_work(&desk, lease, Outcome::Created).mark(1, &lease.token.to_string()).made_again();
        desk.store.submit(Box::new(unit), Priority::Bulk)
    };
    let mut submitted: VecDeque<(&LeasedChunk, PendingCommit)> = VecDeque::new();
    for (number, own) in held.iter().enumerate() {
        submitted.extend(slow.get(number).into_iter().chain([own]).map(|lease| (lease, submit(lease))));
    }
    while let Some((lease, mut pending)) = submitted.pop_front() {
        // written: its unit was returned, or its result is there
        pending.wait_until_written();
        assert!(pending.is_written());
        match pending.wait() {
            Err(StoreError::Undone) => submitted.push_back((lease, submit(lease))),
            result if slow.contains(lease) => assert!(matches!(result, Err(StoreError::Fenced(_))), "{result:?}"),
            result => assert!(result.is_ok(), "{result:?}"),
        }
    }
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 120));
    assert_eq!(desk.keys(desk.plan(vec![])).len(), 12);
    assert_eq!(desk.store.marks(&desk.tenant, 100).expect("reading works").len(), 12);
}

pub fn a_renewed_lease_is_not_taken_over(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    job_of(&desk, 1);
    let own = lease(&desk, 1, 0).remove(0);
    assert_eq!(desk.store.renew(&[fence(&own)], 60).expect("renewing works"), [fence(&own)]);
    assert_eq!(lease(&desk, 1, 60), []);
    finish(&desk, &own);
}

pub fn only_leases_still_held_are_renewed(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    job_of(&desk, 4);
    let leases = lease(&desk, 4, 0);
    let taken = lease(&desk, 1, 60).remove(0);
    assert_eq!(taken.chunk, leases[0].chunk);
    finish(&desk, &leases[1]);
    desk.store.release(fence(&leases[2]), "later", 0, 5).expect("releasing works");
    let fences: Vec<LeaseToken> = leases.iter().map(fence).collect();
    assert_eq!(desk.store.renew(&fences, 60).expect("renewing works"), [fences[3]]);
    assert_eq!(desk.store.renew(&[], 60).expect("renewing nothing works"), []);
}

pub fn a_lease_and_a_delay_last_as_long_as_was_said(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    job_of(&desk, 2);
    let start = Instant::now();
    let both = lease(&desk, 2, 1);
    desk.store.release(fence(&both[1]), "later", 1, 5).expect("releasing works");
    let early = lease(&desk, 2, 60);
    // on a very busy machine, the second may have passed already
    assert!(early.is_empty() || start.elapsed() >= Duration::from_secs(1));
    std::thread::sleep(Duration::from_millis(1_100));
    let mut late = ordinals(&[early, lease(&desk, 2, 60)].concat());
    late.sort_unstable();
    assert_eq!(late, [1, 2]);
}

pub fn a_released_chunk_waits_for_its_delay_and_remembers_why(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    let own = lease_one(&desk);
    desk.store.release(fence(&own), "the file is away", 3_600, 5).expect("releasing works");
    let info = infos(&desk, id).remove(0);
    assert_eq!((info.state, info.attempts, info.reason.as_deref()), (ChunkState::Waiting, 1, Some("the file is away")));
    assert_eq!(lease(&desk, 1, 60), []);
    assert_eq!(job(&desk, id).state, JobState::Running);
    assert_fenced(&desk, &own);

    let other = job_of(&desk, 1);
    let own = lease_one(&desk);
    desk.store.release(fence(&own), "at once", 0, 5).expect("releasing works");
    let again = lease_one(&desk);
    assert_eq!((again.chunk.job, again.attempt), (other, 2));
}

pub fn releasing_a_lease_that_was_lost_changes_nothing(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    let slow = lease(&desk, 1, 0).remove(0);
    let quick = lease_one(&desk);
    desk.store.release(fence(&slow), "too late", 0, 1).expect("nothing found to do");
    let info = infos(&desk, id).remove(0);
    assert_eq!((info.state, info.reason), (ChunkState::Leased, None));
    finish(&desk, &quick);
    desk.store.release(fence(&slow), "far too late", 0, 1).expect("nothing found to do");
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn a_chunk_that_failed_often_enough_is_dead_and_its_job_failed(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    for attempt in 1..=3 {
        let own = desk.store.lease(Some(id), 1, 60).expect("leasing works").remove(0);
        assert_eq!((own.chunk.ordinal, own.attempt), (1, attempt));
        desk.store.release(fence(&own), &format!("failure {attempt}"), 0, 3).expect("releasing works");
    }
    let states = |id| infos(&desk, id).iter().map(|info| info.state).collect::<Vec<_>>();
    assert_eq!(states(id), [ChunkState::Dead, ChunkState::Waiting]);
    assert_eq!(infos(&desk, id)[0].reason.as_deref(), Some("failure 3"));
    let own = lease_one(&desk);
    assert_eq!(own.chunk.ordinal, 2, "a dead chunk is not leased");
    assert_eq!(job(&desk, id).state, JobState::Running, "another chunk is still at work");
    finish(&desk, &own);
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.chunks_left, ended.chunks_dead), (JobState::Failed, 0, 1));
    assert!(ended.finished.is_some() && ended.reason.is_some());
    assert_eq!(ended.counts.documents, 10, "what was committed stays");
}

pub fn dead_chunks_are_retried_together_or_one_by_one(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 3);
    lease(&desk, 3, 60).iter().for_each(|lease| kill(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Failed);
    assert_eq!(desk.store.retry(id, Some(2)).expect("retrying works"), 1);
    let again = job(&desk, id);
    assert_eq!((again.state, again.reason, again.finished), (JobState::Interrupted, None, None), "nobody works on it yet");
    let own = lease_one(&desk);
    assert_eq!((own.chunk.ordinal, own.attempt), (2, 1), "attempts are counted anew");
    finish(&desk, &own);
    assert_eq!(job(&desk, id).state, JobState::Failed, "two are dead still");
    assert_eq!(desk.store.retry(id, None).expect("retrying works"), 2);
    assert_eq!(desk.store.retry(id, None).expect("retrying works"), 0, "none is dead any more");
    assert_eq!(desk.store.retry(id, Some(77)).expect("retrying works"), 0);
    lease(&desk, 3, 60).iter().for_each(|lease| finish(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Completed);
    assert_eq!(desk.store.retry(id, None).expect("retrying works"), 0);
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn taking_over_a_job_frees_its_chunks_and_fences_their_holders(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let (id, other) = (job_of(&desk, 3), job_of(&desk, 1));
    let leases = lease(&desk, 4, 3_600);
    finish(&desk, &leases[0]);
    assert_eq!(desk.store.take_over(id).expect("taking over works"), 2);
    assert_fenced(&desk, &leases[1]);
    assert_eq!(desk.store.renew(&[fence(&leases[2])], 60).expect("renewing works"), []);
    assert_eq!(ordinals(&lease(&desk, 9, 60)), [2, 3]);
    finish(&desk, &leases[3]);
    assert_eq!(job(&desk, other).state, JobState::Completed, "other jobs keep their leases");
    assert_eq!(desk.store.take_over(other).expect("taking over works"), 0);
}

pub fn tokens_of_one_chunk_are_never_the_same(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 3);
    let mut tokens = BTreeSet::new();
    for _ in 0..20 {
        for lease in lease(&desk, 3, 0) {
            assert!(tokens.insert((lease.chunk, lease.token)), "{lease:?}");
        }
        desk.store.take_over(id).expect("taking over works");
    }
}

pub fn adding_chunks_twice_adds_them_once(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    let add = |ordinals, up_to, complete| desk.store.add_chunks(id, chunks(ordinals), progress(up_to, complete)).expect("chunks are added");
    add(1..=2, 2, false);
    assert_eq!(job(&desk, id).progress, progress(2, false));
    let own = lease_one(&desk);
    add(1..=2, 2, false);
    finish(&desk, &own);
    // the first is done by now and must not come back
    add(1..=2, 2, false);
    add(2..=3, 3, true);
    assert_eq!(infos(&desk, id).iter().map(|info| info.ordinal).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(job(&desk, id).progress, progress(3, true));
    assert_eq!(job(&desk, id).chunks_left, 2);
}

pub fn two_who_cut_the_same_files_add_every_chunk_once(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    let add = |ordinals, up_to, complete| desk.store.add_chunks(id, chunks(ordinals), progress(up_to, complete)).expect("chunks are added");
    // one process is ahead, the other starts from the beginning and splits into other chunks
    add(1..=4, 4, false);
    add(1..=3, 3, false);
    assert_eq!(job(&desk, id).progress, progress(4, false), "who comes later sets nothing back");
    add(5..=6, 6, false);
    add(4..=7, 7, false);
    finish(&desk, &lease_one(&desk));
    add(7..=8, 8, true);
    add(8..=8, 8, false);
    assert_eq!(job(&desk, id).progress, progress(8, true));
    assert_eq!(infos(&desk, id).iter().map(|info| info.ordinal).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
    lease(&desk, 9, 60).iter().for_each(|lease| finish(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Completed);
    // the other finds in the end that all chunks were there
    add(8..=8, 8, true);
    assert_eq!((job(&desk, id).state, job(&desk, id).counts.documents), (JobState::Completed, 80));
    assert_eq!(infos(&desk, id), []);
}

pub fn chunks_are_added_to_a_living_job_only(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let completed = job_of(&desk, 0);
    let cancelled = job_of(&desk, 1);
    desk.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    for (id, reason) in [(completed, "job 1 is completed"), (cancelled, "job 2 is cancelled"), (77, "no job 77")] {
        let error = desk.store.add_chunks(id, chunks(5..=5), progress(5, true)).expect_err("the job has ended");
        assert!(error.to_string().contains(reason), "{error}");
    }
    assert_eq!(desk.store.chunks(None).expect("reading works"), []);
}

pub fn a_chunk_is_replaced_by_its_parts_which_get_numbers_of_their_own(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 3);
    let part = |documents: u32| ChunkSlice { documents, head: vec![1], ..slice(2) };
    let parts: Vec<NewChunk> = [4, 6].map(|documents| NewChunk { ordinal: 0, slice: part(documents) }).to_vec();
    desk.store.replace_chunk(ChunkId { job: id, ordinal: 2 }, parts.clone()).expect("replacing works");
    let leases = lease(&desk, 9, 60);
    let own = ordinals(&leases);
    assert_eq!(own.len(), 4);
    assert_eq!(own[..2], [1, 3]);
    assert_eq!(own.iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(leases[2..].iter().map(|lease| lease.slice.clone()).collect::<Vec<_>>(), [part(4), part(6)]);
    // parts of a dead chunk, too, and its job continues
    leases.iter().for_each(|lease| kill(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Failed);
    for ordinal in own {
        desk.store.replace_chunk(ChunkId { job: id, ordinal }, parts[..1].to_vec()).expect("replacing works");
    }
    assert_eq!(job(&desk, id).state, JobState::Interrupted);
    let leases = lease(&desk, 9, 60);
    assert_eq!(leases.len(), 4);
    for lease in &leases {
        desk.work().fence(fence(lease)).journal(ChunkJournal::default()).done(&*desk.store);
    }
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn a_chunk_replaced_by_nothing_lets_its_job_end(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    kill(&desk, &lease_one(&desk));
    desk.store.replace_chunk(ChunkId { job: id, ordinal: 1 }, Vec::new()).expect("replacing works");
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn a_leased_or_finished_chunk_is_not_replaced(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    let leases = lease(&desk, 2, 60);
    finish(&desk, &leases[0]);
    for ordinal in [1, 2, 3] {
        let chunk = ChunkId { job: id, ordinal };
        let error = desk.store.replace_chunk(chunk, chunks(1..=1)).expect_err("the chunk is leased or gone");
        assert!(error.to_string().contains(&format!("chunk {chunk} is leased or not in the queue")), "{error}");
    }
    assert_eq!(job(&desk, id).chunks_left, 1);
    finish(&desk, &leases[1]);
}

pub fn a_dumped_chunk_is_put_back_in_its_place(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    let mended = ChunkSlice { payload: Some(b"mended".to_vec()), ..slice(1) };
    let chunk = ChunkId { job: id, ordinal: 1 };
    // a waiting one
    desk.store.load_chunk(chunk, mended.clone()).expect("loading works");
    assert_eq!(desk.store.chunk(chunk).expect("it is in the queue").slice, mended);
    // a dead one, so that its failed job continues
    lease(&desk, 2, 60).iter().for_each(|lease| kill(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Failed);
    let mended_again = ChunkSlice { documents: 9, ..mended };
    desk.store.load_chunk(chunk, mended_again.clone()).expect("loading works");
    assert_eq!(job(&desk, id).state, JobState::Interrupted);
    let own = lease_one(&desk);
    assert_eq!((own.chunk, own.attempt, own.slice.clone()), (chunk, 1, mended_again));
    finish(&desk, &own);
}

pub fn a_chunk_is_not_put_back_where_it_makes_no_sense(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    let leases = lease(&desk, 2, 60);
    finish(&desk, &leases[0]);
    let cancelled = job_of(&desk, 1);
    desk.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    let refusals = [
        (id, 1, format!("chunk {id}.1 is done already")),
        (id, 2, format!("chunk {id}.2 is leased")),
        (77, 1, "no job 77".to_owned()),
        (cancelled, 1, format!("job {cancelled} is cancelled")),
    ];
    for (job, ordinal, reason) in refusals {
        let error = desk.store.load_chunk(ChunkId { job, ordinal }, slice(1)).expect_err("it makes no sense");
        assert!(error.to_string().contains(&reason), "{error}");
    }
    assert_eq!(desk.store.chunks(None).expect("reading works").len(), 1);
    finish(&desk, &leases[1]);
}

pub fn a_job_is_queued_then_running_then_completed(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    let queued = job(&desk, id);
    assert_eq!((queued.state, queued.finished, queued.chunks_left), (JobState::Queued, None, 2));
    let leases = lease(&desk, 2, 60);
    assert_eq!((job(&desk, id).state, job(&desk, id).chunks_left), (JobState::Running, 2));
    finish(&desk, &leases[1]);
    assert_eq!((job(&desk, id).state, job(&desk, id).chunks_left), (JobState::Running, 1));
    finish(&desk, &leases[0]);
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.chunks_left, ended.chunks_dead, ended.reason), (JobState::Completed, 0, 0, None));
    assert!(ended.finished.is_some_and(|finished| finished > ended.created && ended.created >= queued.created));
    assert_eq!(ended.counts.of(Outcome::Created), 20);
    assert_eq!(infos(&desk, id), []);
    let error = desk.store.chunk(leases[0].chunk).expect_err("it is done").to_string();
    assert_eq!(error, format!("there is no chunk {id}.1 in the queue"));
}

pub fn a_job_that_nobody_works_on_any_more_is_interrupted_until_somebody_does(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let interrupt = |id| desk.store.interrupt_job(id).expect("it is noted");
    let seen = |id| (job(&desk, id).state, job(&desk, id).chunks_left, job(&desk, id).chunks_working);
    let id = job_of(&desk, 3);
    assert_eq!(seen(id), (JobState::Queued, 3, 0));
    let leases = lease(&desk, 2, 60);
    assert_eq!(seen(id), (JobState::Running, 3, 2));
    interrupt(id);
    assert_eq!(seen(id), (JobState::Running, 3, 2), "somebody else has chunks of it");
    desk.store.return_unstarted(&[fence(&leases[0])]).expect("giving back works");
    finish(&desk, &leases[1]);
    assert_eq!(seen(id), (JobState::Running, 2, 0));
    interrupt(id);
    interrupt(id);
    assert_eq!(seen(id), (JobState::Interrupted, 2, 0));
    assert!(!job(&desk, id).state.is_final() && job(&desk, id).finished.is_none());
    // no worker has an expired lease
    lease(&desk, 1, 0);
    assert_eq!(seen(id), (JobState::Running, 2, 0));
    interrupt(id);
    assert_eq!(seen(id), (JobState::Interrupted, 2, 0));
    lease(&desk, 2, 60).iter().for_each(|lease| finish(&desk, lease));
    assert_eq!(seen(id), (JobState::Completed, 0, 0));
    interrupt(id);
    assert_eq!(seen(id), (JobState::Completed, 0, 0), "what has ended has ended");
    // files that were not split to their end
    let rest = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    desk.store.add_chunks(rest, chunks(1..=1), progress(1, false)).expect("chunks are added");
    interrupt(rest);
    assert_eq!(seen(rest), (JobState::Interrupted, 1, 0));
    desk.store.add_chunks(rest, chunks(2..=2), progress(2, true)).expect("chunks are added");
    lease(&desk, 2, 60).iter().for_each(|lease| finish(&desk, lease));
    assert_eq!(seen(rest), (JobState::Completed, 0, 0));
    // and it can be ended
    let cancelled = job_of(&desk, 1);
    interrupt(cancelled);
    desk.store.end_job(cancelled, JobState::Cancelled, "enough").expect("ending works");
    assert_eq!(seen(cancelled), (JobState::Cancelled, 0, 0));
    desk.store.interrupt_job(77).expect_err("there is no such job");
}

pub fn a_job_without_chunks_is_completed_when_its_files_are_cut(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    desk.store.add_chunks(id, Vec::new(), progress(0, false)).expect("adding works");
    assert_eq!(job(&desk, id).state, JobState::Queued);
    desk.store.add_chunks(id, Vec::new(), progress(0, true)).expect("adding works");
    assert_eq!(job(&desk, id).state, JobState::Completed);
    assert!(job(&desk, id).finished.is_some());
}

pub fn a_job_with_failed_documents_is_completed_with_errors(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    let leases = lease(&desk, 2, 60);
    chunk_work(&desk, &leases[0], Outcome::Failed).done(&*desk.store);
    finish(&desk, &leases[1]);
    let ended = job(&desk, id);
    assert_eq!(ended.state, JobState::CompletedWithErrors);
    assert_eq!((ended.counts.of(Outcome::Failed), ended.counts.of(Outcome::Created), ended.counts.documents), (10, 10, 20));
}

pub fn a_job_waits_for_the_rest_of_its_files(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    desk.store.add_chunks(id, chunks(1..=1), progress(1, false)).expect("chunks are added");
    finish(&desk, &lease_one(&desk));
    assert_eq!((job(&desk, id).state, job(&desk, id).chunks_left), (JobState::Running, 0));
    desk.store.add_chunks(id, chunks(2..=2), progress(2, true)).expect("chunks are added");
    assert_eq!(job(&desk, id).state, JobState::Running);
    finish(&desk, &lease_one(&desk));
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn a_cancelled_job_has_no_chunks_and_fences_its_workers(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 4);
    let leases = lease(&desk, 3, 60);
    finish(&desk, &leases[0]);
    kill(&desk, &leases[1]);
    desk.store.end_job(id, JobState::Cancelled, "somebody stopped it").expect("ending works");
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.reason.as_deref()), (JobState::Cancelled, Some("somebody stopped it")));
    assert_eq!((ended.chunks_left, ended.chunks_dead, ended.counts.documents), (0, 0, 10));
    assert_eq!(infos(&desk, id), []);
    assert_fenced(&desk, &leases[2]);
    assert_eq!(lease(&desk, 9, 60), []);
    assert_eq!(desk.store.retry(id, None).expect("retrying works"), 0);
    assert_eq!(job(&desk, id).state, JobState::Cancelled);
    assert!(desk.record(&format!("record of {id}.1")).is_some(), "what was committed stays");
}

pub fn a_job_that_has_ended_can_be_forgotten(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let (id, other) = (job_of(&desk, 2), job_of(&desk, 1));
    finish(&desk, &lease(&desk, 1, 60)[0]);
    desk.store.forget_job(id).expect("nothing to forget");
    assert!(!job(&desk, id).state.is_final(), "one that goes on stays");
    while let Some(next) = lease(&desk, 1, 60).first() {
        finish(&desk, next);
    }
    let journal = desk.store.journal(other, 0, 100, false).expect("a journal");
    desk.store.forget_job(id).expect("forgetting works");
    assert!(desk.store.job(id).is_err() && desk.store.journal(id, 0, 100, false).is_err() && desk.store.forget_job(id).is_err());
    assert_eq!(desk.store.jobs(None, 10).expect("jobs").iter().map(|job| job.id).collect::<Vec<_>>(), [other]);
    assert_eq!(desk.store.journal(other, 0, 100, false).expect("a journal"), journal);
    assert!(desk.record(&format!("record of {id}.1")).is_some(), "what was committed stays");
    assert!(job_of(&desk, 1) > other, "no number comes again");
}

pub fn a_failed_job_has_no_waiting_chunks_and_says_why(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 3);
    let leases = lease(&desk, 2, 60);
    finish(&desk, &leases[0]);
    desk.store.end_job(id, JobState::Failed, "the file is gone").expect("ending works");
    let ended = job(&desk, id);
    assert_eq!((ended.state, ended.reason.as_deref(), ended.chunks_left), (JobState::Failed, Some("the file is gone"), 0));
    assert_eq!(lease(&desk, 9, 60), [], "nobody goes on with a job that has failed");
    assert_fenced(&desk, &leases[1]);
    assert_eq!(job(&desk, id).counts.documents, 10);
}

pub fn ending_a_job_that_has_ended_changes_nothing(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 1);
    finish(&desk, &lease_one(&desk));
    let before = job(&desk, id);
    desk.store.end_job(id, JobState::Cancelled, "too late").expect("nothing found to do");
    assert_eq!(job(&desk, id), before);
    let running = job_of(&desk, 1);
    for state in [JobState::Queued, JobState::Running, JobState::Interrupted, JobState::Completed, JobState::CompletedWithErrors] {
        desk.store.end_job(running, state, "by hand").expect_err("a job is ended as failed or cancelled");
    }
    assert_eq!(job(&desk, running).state, JobState::Queued);
}

pub fn a_job_that_is_not_there_is_named_in_the_error(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let errors = [
        desk.store.job(77).map(|_| ()),
        desk.store.journal(77, 0, 10, false).map(|_| ()),
        desk.store.add_chunks(77, chunks(1..=1), progress(1, true)),
        desk.store.load_chunk(ChunkId { job: 77, ordinal: 1 }, slice(1)),
        desk.store.end_job(77, JobState::Cancelled, "enough"),
    ];
    for error in errors {
        let error = error.expect_err("there is no such job");
        assert!(error.to_string().contains("no job 77"), "{error}");
    }
    assert_eq!(desk.store.jobs(None, 10).expect("reading works"), []);
    assert_eq!(desk.store.take_over(77).expect("nothing found to do"), 0);
    desk.store.release(LeaseToken { chunk: ChunkId { job: 77, ordinal: 1 }, token: 1 }, "lost", 0, 1).expect("nothing found to do");
}

pub fn jobs_are_listed_newest_first(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let ids = [job_of(&desk, 1), job_of(&desk, 2), job_of(&desk, 0)];
    let listed = desk.store.jobs(None, 10).expect("reading works");
    assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[2], ids[1], ids[0]]);
    assert_eq!(listed[1], job(&desk, ids[1]));
    let newest = desk.store.jobs(Some(&desk.tenant), 2).expect("reading works");
    assert_eq!(newest[..], listed[..2]);
}

pub fn a_job_remembers_what_it_was_created_with_after_reopening(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let mut new = new_job(&desk.tenant, 2);
    new.profile = Some("upsert".into());
    new.as_of = Some(-1);
    new.files[1] = JobFile {
        path: "d/\u{e4} \"x\".gz".into(),
        size: u64::MAX >> 1,
        modified: -5,
        syntax: None,
        compressed: true,
        part: None,
        retires_all: false,
    };
    let id = desk.store.create_job(new.clone()).expect("the job is written");
    desk.store.add_chunks(id, chunks(1..=2), progress(2, false)).expect("chunks are added");
    let own = lease_one(&desk);
    let before = job(&desk, id);
    assert_eq!((&before.tenant, &before.profile, &before.source), (&DEFAULT_TENANT.to_owned(), &new.profile, &new.source));
    assert_eq!((before.as_of, &before.files, before.progress), (Some(-1), &new.files, progress(2, false)));
    let desk = desk.reopen(place);
    assert_eq!(job(&desk, id), before);
    // a lease outlives the process that opened the store
    finish(&desk, &own);
    let next = desk.store.create_job(new).expect("the job is written");
    assert!(next > id);
}

pub fn two_openings_of_one_store_never_lease_the_same_chunk(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 60);
    let other = place.open(&desk.catalogue);
    let work = |store: &dyn Store| {
        let mut done = Vec::new();
        loop {
            let leases = store.lease(Some(id), 4, 60).expect("leasing works");
            if leases.is_empty() {
                return done;
            }
            for lease in leases {
                let write = put(CollectionId::from(0), &format!("{}", lease.chunk.ordinal), None, desk.content(&[]));
                let journal = journal(lease.chunk.ordinal, Outcome::Created);
                Work::of(&desk.tenant).fence(fence(&lease)).write(write).journal(journal).done(store);
                done.push(lease.chunk.ordinal);
            }
        }
    };
    let (first, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| work(&*other));
        (work(&*desk.store), second.join().expect("no panic"))
    });
    assert_eq!(first.len() + second.len(), 60);
    for store in [&desk.store, &other] {
        let ended = store.job(id).expect("the job is there");
        assert_eq!((ended.state, ended.counts.documents), (JobState::Completed, 600));
        assert_eq!(store.count(&desk.plan(vec![])).expect("counting works"), 60);
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

fn job_for(desk: &Desk, name: &str, count: u32) -> JobId {
    let own = Tenant::new(name).expect("a tenant's name");
    let job = desk.store.create_job(new_job(&own, 1)).expect("the job is written");
    add_chunks(&*desk.store, job, count);
    job
}

pub fn tenants_get_chunks_by_weight_in_turn(place: &Place) {
    let desk = Desk::open(place, SHARED);
    let jobs = ["one", "heavy", "two"].map(|name| job_for(&desk, name, 60));
    let mut got = [0_u32; 3];
    for turn in 1..=100 {
        // leasing one by one or several at once gives the same shares
        let leases = lease(&desk, if turn % 2 == 0 { 1 } else { 2 }, 60);
        leases.iter().for_each(|lease| got[jobs.iter().position(|job| *job == lease.chunk.job).expect("one of the jobs")] += 1);
        if got[1] <= 57 {
            assert!(got[0].abs_diff(got[2]) <= 1 && got[1].abs_diff(3 * got[0]) <= 5, "{got:?}");
        }
    }
    assert_eq!(got.iter().sum::<u32>(), 150, "no worker is idle while chunks wait");
    assert_eq!(got[1], 60, "the heavy one is done first");
}

pub fn of_one_tenant_small_jobs_come_first_and_equal_ones_in_order(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let size = |size: u64| {
        let mut job = new_job(&desk.tenant, 1);
        job.files[0].size = size;
        let id = desk.store.create_job(job).expect("the job is written");
        add_chunks(&*desk.store, id, 2);
        id
    };
    let jobs = [size(9 << 30), size(1 << 30), size(2_000_000_000), size(1 << 30)];
    let order: Vec<JobId> = lease(&desk, 8, 60).iter().map(|lease| lease.chunk.job).collect();
    let wanted = [jobs[1], jobs[1], jobs[3], jobs[3], jobs[2], jobs[2], jobs[0], jobs[0]];
    assert_eq!(order, wanted);
}

pub fn a_tenant_at_its_limit_waits_whoever_asks(place: &Place) {
    let desk = Desk::open(place, SHARED);
    let (limited, other) = (job_for(&desk, "limited", 20), job_for(&desk, "other", 3));
    assert_eq!(desk.store.lease(Some(limited), 9, 60).expect("leasing works").len(), 2, "also when its job is named");
    let rest = lease(&desk, 9, 60);
    assert_eq!(rest.iter().map(|lease| lease.chunk.job).collect::<Vec<_>>(), [other; 3]);
    desk.store.take_over(limited).expect("taking over works");
    // many at once
    let held: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(|| lease(&desk, 1, 60).len())).collect();
        threads.into_iter().map(|thread| thread.join().expect("the thread ends")).sum()
    });
    assert_eq!(held, 2);
    desk.store.take_over(limited).expect("taking over works");
    let mut done = 0;
    while let [own] = lease(&desk, 1, 60).as_slice() {
        desk.work().fence(fence(own)).journal(journal(own.chunk.ordinal, Outcome::Skipped)).done(&*desk.store);
        done += 1;
    }
    assert_eq!((done, job(&desk, limited).state), (20, JobState::Completed));
}

pub fn a_silent_tenant_is_not_owed_for_its_silence(place: &Place) {
    let desk = Desk::open(place, SHARED);
    let loud = job_for(&desk, "loud", 4_000);
    assert_eq!(desk.store.lease(Some(loud), 3_000, 60).expect("leasing works").len(), 3_000);
    let quiet = job_for(&desk, "quiet", 4_000);
    let credit = (schedule::CREDIT / 10_000) as usize;
    let order: Vec<JobId> = lease(&desk, credit + 100, 60).iter().map(|lease| lease.chunk.job).collect();
    assert!(order[..100].iter().all(|job| *job == quiet), "it comes first for a moment");
    let turns = order[credit..].iter().filter(|job| **job == loud).count();
    assert!((40..60).contains(&turns), "then in turn: {turns}");
}

pub fn chunks_given_back_wait_as_if_nobody_had_had_them(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 3);
    let leases = lease(&desk, 3, 60);
    finish(&desk, &leases[0]);
    desk.store.return_unstarted(&leases.iter().map(fence).collect::<Vec<_>>()).expect("giving back works");
    assert_fenced(&desk, &leases[1]);
    let again = lease(&desk, 9, 60);
    assert_eq!(again.iter().map(|lease| (lease.chunk.ordinal, lease.attempt)).collect::<Vec<_>>(), [(2, 1), (3, 1)]);
    // an old lease does not return a chunk that was leased again
    desk.store.return_unstarted(&[fence(&leases[1])]).expect("nothing found to do");
    again.iter().for_each(|lease| finish(&desk, lease));
    assert_eq!(job(&desk, id).state, JobState::Completed);
}

pub fn a_store_is_idle_when_no_chunk_waits_or_is_leased(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let idle = || desk.store.is_idle().expect("asking works");
    assert!(idle());
    job_of(&desk, 1);
    assert!(!idle());
    let own = lease_one(&desk);
    assert!(!idle());
    desk.store.release(fence(&own), "later", 3_600, 5).expect("releasing works");
    assert!(!idle(), "it waits, if not yet");
    let id = own.chunk.job;
    desk.store.end_job(id, JobState::Cancelled, "enough").expect("it ends");
    assert!(idle());
}

pub fn who_waits_for_chunks_is_told(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let started = Instant::now();
    desk.store.wait_for_chunks(Duration::from_millis(30));
    assert!(started.elapsed() >= Duration::from_millis(20), "nothing was added");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            // it is a hint, so it may return without reason
            while lease(&desk, 1, 60).is_empty() {
                desk.store.wait_for_chunks(Duration::from_secs(60));
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        job_of(&desk, 1);
        waiting.join().expect("it is told");
    });
    assert!(started.elapsed() < Duration::from_secs(30));
}

pub fn a_chunk_whose_workers_never_answer_is_dead_in_the_end(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let id = job_of(&desk, 2);
    for attempt in 1..=MOST_LEASES {
        let first = desk.store.lease(Some(id), 1, 0).expect("leasing works").remove(0);
        if attempt == 1 {
            finish(&desk, &first);
        } else {
            assert_eq!((first.chunk.ordinal, first.attempt), (2, attempt - 1));
        }
    }
    assert_eq!(desk.store.lease(Some(id), 1, 0).expect("leasing works").len(), 1);
    assert_eq!(lease(&desk, 1, 0), []);
    let own = job(&desk, id);
    assert_eq!((own.state, own.chunks_dead), (JobState::Failed, 1));
    assert!(infos(&desk, id)[0].reason.as_deref().is_some_and(|reason| reason.contains("its workers stopped without reporting")));
    assert_eq!(desk.store.retry(id, None).expect("retrying works"), 1);
    finish(&desk, &lease_one(&desk));
    assert_eq!(job(&desk, id).state, JobState::Completed);
}
