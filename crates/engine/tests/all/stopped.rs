//! Settling that is stopped gives up the current pass: nothing of it is written, its marks stay, and a later pass finishes the work.

use crate::support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_engine::import;
use stook_engine::settle::{self, SettleRules};
use stook_engine::work::{self, JobRun, WorkerOptions};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{JobId, JobState};
use stook_store::{PassContext, PassWrites, RefusedWrite, SettlePass, StaleMark, Store, Tenant};

/// Longer than everything here takes, and shorter than the work that is given up would take.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Every child reads its parent, slowly, and a pass settles thousands of them.
const DEFINITION: &str = "\
catalogue: stopped
sources:
  parent: { format: csv, let: { made: { path: made, type: timestamp } }, as_of: made, into: parent }
  child: { format: csv, as_of: meta.received, into: child }
collections:
  parent:
    key: id
    fields: { id: { path: id, type: text }, number: { path: number, type: integer } }
  child:
    key: id
    fields:
      id: { path: id, type: text }
      of: { path: of, type: text }
      slow: { type: integer, derive: \"size(LIST.filter(a, LIST.filter(b, a * b == number_of).size() > 40)) + number_of\" }
      number_of: { type: integer, derive: up.number }
    links: { up: { to: parent, key: of } }
";

const CHILDREN: usize = 800;

fn definition() -> Arc<Catalogue> {
    let list = (0..40).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let text = DEFINITION.replace("LIST", &format!("[{list}]"));
    Arc::new(parse(&text).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn stores(name: &str, catalogue: &Arc<Catalogue>) -> Vec<Box<dyn Store>> {
    let stores = [Some(support::on_a_file(&support::folder(name), catalogue, 1)), support::on_a_server(name, catalogue)];
    stores.into_iter().flatten().map(|mut openings| openings.remove(0)).collect()
}

fn tenant() -> Tenant {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
}

/// Creates a job for a file that gives the parent another number; a greater number is newer.
fn deliver_parent(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, number: i64) -> JobId {
    let path = support::folder("stopped files").join(format!("parent {} {number}.csv", tenant.as_str()));
    let text = format!("id,number,made\np,{number},201{number}-01-01T00:00:00Z\n");
    support::job(catalogue, store, tenant, "parent", (&path, &text), 1_000)
}

/// Writes children and their parent without settling them.
fn fill(catalogue: &Arc<Catalogue>, store: &dyn Store, tenant: &Tenant) {
    let folder = support::folder("stopped files");
    let rows: String = (0..CHILDREN).map(|number| format!("c{number},p\n")).collect();
    support::job(catalogue, store, tenant, "child", (&folder.join(format!("child {}.csv", tenant.as_str())), &format!("id,of\n{rows}")), 1_000);
    let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: false, only: None };
    let works = || work::run(catalogue, store, &options, &AtomicBool::new(false), &|_| ()).expect("it works");
    // the parent comes last, because children that find it when they are written are settled inline
    works();
    deliver_parent(catalogue, store, tenant, 5);
    works();
}

/// Number of children that have read this number from their parent.
fn settled(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, number: i64) -> u64 {
    let (collection, child) = catalogue.collection("child").expect("a collection");
    let (field, _) = child.field("number_of").expect("a field");
    let condition = Condition { column: PlanColumn::Field(field), test: Comparison::Equal(stook_catalogue::value::Value::Int(number)) };
    store.count(&QueryPlan { conditions: vec![condition], ..QueryPlan::all(tenant.clone(), collection) }).expect("a number")
}

/// Does work on a thread of its own, stops it once it has started, and checks that it ends soon.
fn is_stopped_soon<T: Send>(what: &str, (stop, has_begun): (&AtomicBool, &dyn Fn() -> bool), work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        scope.spawn(move || sender.send(work()));
        while !has_begun() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // long enough to be within a pass
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::SeqCst);
        match receiver.recv_timeout(MAX_WAIT) {
            Ok(done) => done,
            // the thread cannot be ended
            Err(_) => {
                eprintln!("{what} goes on after it was told to stop");
                std::process::exit(1)
            }
        }
    })
}

/// A pass that reads forever.
struct Endless {
    child: (CollectionId, FieldId),
    has_begun: AtomicBool,
}

impl SettlePass for Endless {
    fn max_marks(&self) -> usize {
        1_000
    }

    fn run(&self, _: &Tenant, _: &[StaleMark], _: &[RefusedWrite], context: &mut dyn PassContext) -> stook_store::Result<PassWrites> {
        loop {
            context.read(self.child.0, &[Key::new("c1").expect("a key")])?;
            self.has_begun.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_pass_that_never_ends_is_cancelled_by_the_store() {
    let catalogue = definition();
    for store in stores("stopped_endless", &catalogue) {
        let tenant = tenant();
        fill(&catalogue, &*store, &tenant);
        let (collection, _) = catalogue.collection("child").expect("a collection");
        let endless = Arc::new(Endless { child: (collection, FieldId::from(0)), has_begun: AtomicBool::new(false) });
        let (pass, stop): (Arc<dyn SettlePass>, _) = (endless.clone(), AtomicBool::new(false));
        let marks = store.marks(&tenant, 10_000).expect("marks");
        assert!(!marks.is_empty());
        let done = is_stopped_soon("a pass", (&stop, &|| endless.has_begun.load(Ordering::SeqCst)), || {
            settle::drain(&*store, &pass, &stop).expect("it is given up")
        });
        assert_eq!((done.marks_cleared, done.rows), (0, 0));
        assert_eq!(store.marks(&tenant, 10_000).expect("marks"), marks);
        // the store does other work as before
        fill(&catalogue, &*store, &tenant);
    }
}

#[test]
fn a_long_pass_can_be_stopped_and_the_next_one_finishes_its_work() {
    let catalogue = definition();
    for store in stores("stopped_slow", &catalogue) {
        let (tenant, stop) = (tenant(), AtomicBool::new(false));
        fill(&catalogue, &*store, &tenant);
        let rules: Arc<SettleRules> = Arc::new(SettleRules::new(&catalogue));
        let pass: Arc<dyn SettlePass> = rules.clone();
        is_stopped_soon("settling", (&stop, &|| true), || settle::drain(&*store, &pass, &stop).expect("it is given up"));
        assert_eq!(settled(&catalogue, &*store, &tenant, 5), 0, "a pass is written as a whole");
        assert!(!settle::is_settled(&*store, &rules).expect("marks"));
        settle::drain(&*store, &pass, &AtomicBool::new(false)).expect("it settles");
        assert_eq!(settled(&catalogue, &*store, &tenant, 5), CHILDREN as u64);
        settle::mark_outdated(&*store, &rules, &|_| ()).expect("it is marked");
        settle::drain(&*store, &pass, &AtomicBool::new(false)).expect("it settles");
        assert!(settle::is_settled(&*store, &rules).expect("marks"));
    }
}

#[test]
fn an_import_that_waits_for_settling_can_be_stopped() {
    let catalogue = definition();
    for store in stores("stopped_import", &catalogue) {
        let (tenant, stop) = (tenant(), AtomicBool::new(false));
        fill(&catalogue, &*store, &tenant);
        let job = deliver_parent(&catalogue, &*store, &tenant, 7);
        let done = is_stopped_soon("an import", (&stop, &|| store.job(job).expect("the job").state.is_final()), || {
            import::run(&catalogue, &*store, &JobRun { job, workers: 1, settles: true, stop: &stop }, &|_| ()).expect("it is stopped")
        });
        assert_eq!(done.state, JobState::Completed, "its documents are committed");
        assert_eq!(settled(&catalogue, &*store, &tenant, 7), 0);
        let stop = AtomicBool::new(false);
        is_stopped_soon("a deep check", (&stop, &|| true), || {
            assert!(settle::check(&*store, &Arc::new(SettleRules::new(&catalogue)), &stop, &|_| ()).expect("it is stopped").is_none());
        });
        // after a resume, everything is settled
        import::run(&catalogue, &*store, &JobRun { job, workers: 1, settles: true, stop: &AtomicBool::new(false) }, &|_| ()).expect("it is settled");
        assert_eq!(settled(&catalogue, &*store, &tenant, 7), CHILDREN as u64);
    }
}
