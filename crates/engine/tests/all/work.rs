//! Workers on one store: what fails in the middle of a transaction takes nothing with it, and what is not asked for is found.

use crate::support;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::parse::parse;
use stook_engine::work::{self, WorkerOptions};
use stook_store::journal::{Outcome, OutcomeCounts};
use stook_store::plan::QueryPlan;
use stook_store::queue::{JobId, JobState};
use stook_store::{Store, Tenant};

const DEFINITION: &str = "\
catalogue: work
sources:
  rows: { format: csv, as_of: meta.received, into: thing }
collections:
  thing:
    key: id
    fields:
      id: { type: text, required: true }
      value: { type: integer, index: equal }
";
const PER_CHUNK: u32 = 100;

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).expect("a tenant")
}

/// Makes a job of rows with these numbers and value.
fn deliver(
    (catalogue, store, folder): (&Catalogue, &dyn Store, &Path),
    name: &str,
    tenant_name: &str,
    numbers: impl Iterator<Item = u32>,
    value: u32,
) -> JobId {
    let mut text = "id,value\n".to_owned();
    numbers.for_each(|number| writeln!(text, "{number},{value}").expect("text"));
    support::job(catalogue, store, &tenant(tenant_name), "rows", (&folder.join(name), &text), PER_CHUNK)
}

fn work(catalogue: &Arc<Catalogue>, store: &dyn Store) {
    let options = WorkerOptions { workers: 3, lease_seconds: 60, drain: true, settles: true, only: None };
    work::run(catalogue, store, &options, &AtomicBool::new(false), &|_| ()).expect("it works");
}

fn counts(store: &dyn Store, job: JobId) -> OutcomeCounts {
    let job = store.job(job).expect("the job is there");
    assert_eq!(job.state, JobState::Completed, "{:?}", job.reason);
    job.counts
}

fn records(store: &dyn Store, tenant_name: &str) -> u64 {
    store.count(&QueryPlan::all(tenant(tenant_name), CollectionId::from(0))).expect("counted")
}

/// On a file, and on a server where there is one; both opened twice.
fn on_both(name: &str, law: impl Fn(&Arc<Catalogue>, [&dyn Store; 2], &Path)) {
    let catalogue = Arc::new(parse(DEFINITION).expect("it parses"));
    let folder = support::folder(name);
    for stores in [Some(support::on_a_file(&folder, &catalogue, 2)), support::on_a_server(name, &catalogue)].into_iter().flatten() {
        law(&catalogue, [&*stores[0], &*stores[1]], &folder);
    }
}

#[test]
fn chunks_that_are_taken_away_do_not_disturb_the_others() {
    on_both("taken_away", |catalogue, [store, other], folder| {
        let jobs = ["a", "b"].map(|tenant_name| deliver((catalogue, store, folder), &format!("{tenant_name}.csv"), tenant_name, 0..40_000, 1));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    other.take_over(jobs[0]).expect("it is taken over");
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            work_until_done(catalogue, store, jobs[1]);
            over.store(true, Ordering::SeqCst);
        });
        work(catalogue, store);
        for (job, tenant_name) in jobs.into_iter().zip(["a", "b"]) {
            let counts = counts(store, job);
            assert_eq!((counts.documents, counts.of(Outcome::Created)), (40_000, 40_000));
            assert_eq!(records(store, tenant_name), 40_000);
        }
    });
}

/// Works until one job has ended.
fn work_until_done(catalogue: &Arc<Catalogue>, store: &dyn Store, job: JobId) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !store.job_state(job).expect("the job is there").is_final() {
                std::thread::sleep(Duration::from_millis(2));
            }
            stop.store(true, Ordering::SeqCst);
        });
        let options = WorkerOptions { workers: 3, lease_seconds: 60, drain: false, settles: true, only: None };
        work::run(catalogue, store, &options, &stop, &|_| ()).expect("it works");
    });
}

#[test]
fn existing_records_are_found_after_many_new_ones() {
    on_both("seldom_met", |catalogue, [store, _], folder| {
        let target = (&**catalogue, store, folder);
        let first = deliver(target, "first.csv", "t", 5_000..9_000, 1);
        work(catalogue, store);
        assert_eq!(counts(store, first).of(Outcome::Created), 4_000);
        // the first half is new, then every record is there
        let second = deliver(target, "second.csv", "t", 0..9_000, 2);
        work(catalogue, store);
        let counted = counts(store, second);
        assert_eq!((counted.of(Outcome::Created), counted.of(Outcome::Updated)), (5_000, 4_000));
        let third = deliver(target, "third.csv", "t", (9_000..12_000).chain(0..9_000), 2);
        work(catalogue, store);
        let counted = counts(store, third);
        assert_eq!((counted.of(Outcome::Created), counted.of(Outcome::Unchanged)), (3_000, 9_000), "{counted:?}");
        assert_eq!(records(store, "t"), 12_000);
    });
}
