//! Former contributions, and the jobs that can be undone with them.

use super::support::*;
use stook_catalogue::ids::CollectionId;
use stook_store::former::{FormerChange, FormerContribution};
use stook_store::queue::{ChunkSlice, JobFile, JobId, JobState, NewChunk, NewJob, SplitProgress, undo_source};
use stook_store::*;

const UNDOABLE: &str = "
catalogue: undoable
sources:
  notes: { format: json, undo: 1d, into: note, as_of: meta.received }
  lists: { format: json, into: list, as_of: meta.received }
collections:
  note: { key: id, fields: { id: text } }
  list: { key: id, fields: { id: text } }
";

fn former(contributor: &str, id: u8) -> FormerContribution {
    let raw = (id > 1).then(|| vec![0, id].into());
    FormerContribution { contributor: contributor.into(), id: [id; 16], packed: vec![id, 0, 255], raw }
}

fn add(contributor: &str, id: u8) -> FormerChange {
    FormerChange::Add(former(contributor, id))
}

fn read(fixture: &Fixture, names: &[&str]) -> Vec<Vec<FormerContribution>> {
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    fixture.store.former(&fixture.tenant, fixture.collection, &keys).expect("former contributions")
}

/// Creates a record with former contributions.
fn create(fixture: &Fixture, name: &str, changes: &[FormerChange]) -> Version {
    let unit = fixture.unit().write(put(fixture.collection, name, None, fixture.content(&[("id", text(name))])));
    changes.iter().fold(unit, |unit, change| unit.former(name, change.clone())).commit_ok(&*fixture.store);
    fixture.store.versions(&fixture.tenant, fixture.collection, &[key(name)]).expect("versions")[0].expect("a version")
}

pub fn former_contributions_are_read_by_key_as_they_were_added(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    create(&fixture, "a", &[add("notes", 2), add("notes", 1), add("lists", 3)]);
    create(&fixture, "b", &[]);
    let of_a = vec![former("lists", 3), former("notes", 1), former("notes", 2)];
    assert_eq!(read(&fixture, &["b", "a", "c"]), [vec![], of_a, vec![]]);
    let keys = fixture.store.keys_with_former(&fixture.tenant, fixture.collection, "", 10).expect("keys");
    assert_eq!(keys, [key("a")]);
    assert_eq!(fixture.store.keys_with_former(&fixture.tenant, fixture.collection, "a", 10).expect("keys"), []);
}

pub fn a_former_contribution_is_added_once_and_removed_alone_or_with_all_of_its_contributor(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    let version = create(&fixture, "a", &[add("notes", 1), add("notes", 1), add("notes", 2), add("notes:p", 1), add("notes:p", 2)]);
    assert_eq!(read(&fixture, &["a"])[0].len(), 4);
    let again = FormerChange::Add(FormerContribution { packed: vec![9], ..former("notes", 1) });
    let unit = fixture.unit().write(touch(fixture.collection, "a", Some(version), b"contributions")).former("a", again);
    let unit = unit.former("a", FormerChange::Remove("notes".into(), [2; 16])).former("a", FormerChange::RemoveAll("notes:p".into()));
    unit.former("a", FormerChange::Remove("notes".into(), [7; 16])).commit_ok(&*fixture.store);
    assert_eq!(read(&fixture, &["a"]), [vec![former("notes", 1)]]);
}

pub fn former_contributions_of_other_tenants_and_collections_are_not_seen(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    create(&fixture, "a", &[add("notes", 1)]);
    let other = Fixture { tenant: tenant("other"), ..Fixture::open(location, UNDOABLE) };
    create(&other, "a", &[add("notes", 2)]);
    assert_eq!(read(&fixture, &["a"]), [vec![former("notes", 1)]]);
    assert_eq!(read(&other, &["a"]), [vec![former("notes", 2)]]);
    let lists = fixture.store.former(&fixture.tenant, CollectionId::from(1), &[key("a")]).expect("former contributions");
    assert_eq!(lists, [vec![]]);
}

pub fn a_failed_unit_changes_no_former_contributions(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    create(&fixture, "a", &[add("notes", 1)]);
    let unit = fixture.unit().write(touch(fixture.collection, "a", None, b"contributions")).former("a", add("notes", 2));
    assert!(unit.commit(&*fixture.store).0.is_err());
    assert_eq!(read(&fixture, &["a"]), [vec![former("notes", 1)]]);
}

pub fn a_conflict_has_the_former_contributions_that_were_written_meanwhile(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    let version = create(&fixture, "a", &[add("notes", 1)]);
    let unit = fixture.unit().write(touch(fixture.collection, "a", Some(version), b"newer")).former("a", add("notes", 2));
    unit.commit_ok(&*fixture.store);
    let outdated = || fixture.unit().write(touch(fixture.collection, "a", Some(version), b"older")).resolve(|_| Ok(Vec::new()));
    let (result, feedback) = outdated().reading_former().commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.conflicts[0].former, [former("notes", 1), former("notes", 2)]);
    let (result, feedback) = outdated().commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.conflicts[0].former, []);
}

fn new_job(fixture: &Fixture, source: &str) -> NewJob {
    let file = JobFile { path: "f".into(), size: 1, modified: 0, ..JobFile::default() };
    NewJob { tenant: fixture.tenant.clone(), profile: None, source: source.into(), as_of: None, files: vec![file] }
}

/// A job of one chunk, which waits.
fn waiting_job(fixture: &Fixture, source: &str) -> JobId {
    let job = fixture.store.create_job(new_job(fixture, source)).expect("a job");
    let progress = SplitProgress { documents: 1, chunks: 1, complete: true, ..SplitProgress::default() };
    let chunk = NewChunk { ordinal: 1, slice: ChunkSlice { documents: 1, is_last: true, ..ChunkSlice::default() } };
    fixture.store.add_chunks(job, vec![chunk], progress).expect("a chunk");
    job
}

fn cancelled_job(fixture: &Fixture, source: &str) -> JobId {
    let job = waiting_job(fixture, source);
    fixture.store.end_job(job, JobState::Cancelled, "by a test").expect("it ends");
    job
}

fn start(fixture: &Fixture, job: JobId) -> Result<JobId> {
    fixture.store.start_undo(job, new_job(fixture, &undo_source(job)))
}

pub fn jobs_can_be_undone_from_the_definition_on_that_says_so(location: &StoreLocation) {
    let without = UNDOABLE.replace(" undo: 1d,", "");
    let fixture = Fixture::open(location, &without);
    let before = cancelled_job(&fixture, "notes");
    assert_eq!(fixture.store.first_undoable("notes").expect("a job"), None);
    assert!(start(&fixture, before).is_err());
    assert_eq!(read(&fixture, &["a"]), [vec![]]);
    drop(fixture);
    let fixture = Fixture::open(location, UNDOABLE);
    let job = cancelled_job(&fixture, "notes");
    assert_eq!(fixture.store.first_undoable("notes").expect("a job"), Some(job));
    let error = start(&fixture, before).expect_err("it was there before").to_string();
    assert!(error.contains(&format!("job {before} cannot be undone")), "{error}");
    assert!(start(&fixture, job).is_ok());
    create(&fixture, "a", &[add("notes", 1), add("notes:p", 2), add("notes_of_others", 3)]);
    drop(fixture);
    // when the source no longer says so, nothing is kept of it
    drop(Fixture::open(location, &without));
    let fixture = Fixture::open(location, UNDOABLE);
    assert_eq!(read(&fixture, &["a"]), [vec![former("notes_of_others", 3)]]);
    assert!(fixture.store.first_undoable("notes").expect("a job").is_some_and(|first| first > job));
}

pub fn a_job_that_is_undone_has_no_chunks_and_is_not_retried(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    let job = waiting_job(&fixture, "notes");
    let error = start(&fixture, job).expect_err("it has not ended").to_string();
    assert!(error.contains(&format!("job {job} has not ended")), "{error}");
    let lease = fixture.store.lease(Some(job), 1, 60).expect("a chunk").remove(0);
    fixture.store.release(LeaseToken { chunk: lease.chunk, token: lease.token }, "it fails", 0, 1).expect("released");
    assert_eq!(fixture.store.job_state(job).expect("a state"), JobState::Failed);
    let undo = start(&fixture, job).expect("an undo");
    let undone = fixture.store.job(job).expect("a job");
    assert_eq!((undone.state, undone.undone_by(), undone.chunks_dead), (JobState::Undone, Some(undo), 0));
    assert_eq!(fixture.store.job(undo).expect("a job").undoes(), Some(job));
    assert_eq!(fixture.store.retry(job, None).expect("retried"), 0);
    assert_eq!(fixture.store.job_state(job).expect("a state"), JobState::Undone);
    assert!(fixture.store.load_chunk(lease.chunk, ChunkSlice::default()).is_err());
    let added = fixture.store.add_chunks(job, Vec::new(), SplitProgress { chunks: 9, complete: true, ..SplitProgress::default() });
    assert!(added.is_err() || fixture.store.job_state(job).expect("a state") == JobState::Undone);
}

pub fn jobs_that_are_too_old_cannot_be_undone_unless_one_is_being_undone(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    let (first, second) = (cancelled_job(&fixture, "notes"), cancelled_job(&fixture, "notes"));
    let created = fixture.store.job(second).expect("a job").created;
    let undo = start(&fixture, first).expect("an undo");
    assert_eq!(fixture.store.end_undo_before("notes", created).expect("unchanged"), None);
    fixture.store.end_job(undo, JobState::Cancelled, "by a test").expect("it ends");
    assert_eq!(fixture.store.end_undo_before("lists", created).expect("unchanged"), None);
    assert_eq!(fixture.store.end_undo_before("notes", created).expect("a job"), Some(second));
    assert_eq!(fixture.store.first_undoable("notes").expect("a job"), Some(second));
    assert_eq!(fixture.store.end_undo_before("notes", 0).expect("a job"), Some(second));
    assert!(start(&fixture, first).is_err() && start(&fixture, second).is_ok());
}

pub fn other_jobs_are_those_that_had_not_ended_before(location: &StoreLocation) {
    let fixture = Fixture::open(location, UNDOABLE);
    let ended = cancelled_job(&fixture, "notes");
    let runs = waiting_job(&fixture, "lists");
    let job = cancelled_job(&fixture, "notes");
    let later = cancelled_job(&fixture, "lists");
    let elsewhere = Fixture { tenant: tenant("other"), ..Fixture::open(location, UNDOABLE) };
    cancelled_job(&elsewhere, "notes");
    let others = fixture.store.other_jobs(job).expect("jobs");
    let shown: Vec<_> = others.iter().map(|other| (other.id, other.source.as_str(), other.state)).collect();
    assert_eq!(shown, [(runs, "lists", JobState::Queued), (later, "lists", JobState::Cancelled)]);
    assert!(fixture.store.other_jobs(later + 100).is_err() && ended < job);
}
