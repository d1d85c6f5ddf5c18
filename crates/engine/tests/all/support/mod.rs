//! Shared by the tests of this crate: folders in memory, and several connections to one store, as several processes have them.

pub mod follow;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_engine::split;
use stook_engine::work::{self, WorkerOptions};
use stook_store::journal::OUTCOMES;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::postgres::{self, PostgresStore};
use stook_store::queue::{JobFile, JobId, JobState, NewJob, SplitProgress};
use stook_store::sqlite::{self, SqliteStore};
use stook_store::{Store, Tenant};
use stook_testkit::postgres::TestServer;

/// A number of values of a strategy, for tests that cannot be properties because they use threads.
pub fn drawn<S: Strategy>(strategy: S, cases: u32) -> impl Iterator<Item = S::Value> {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    (0..cases).map(move |_| strategy.new_tree(&mut runner).expect("a value").current())
}

/// A catalogue with a store, and a folder for its files.
pub struct Desk {
    pub catalogue: Arc<Catalogue>,
    /// Several connections to one store, as several processes have them.
    pub stores: Vec<Box<dyn Store>>,
    pub folder: PathBuf,
}

impl Desk {
    /// A tenant that no other test has.
    pub fn new_tenant(&self) -> Tenant {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
    }

    /// Lets workers of several processes do all work.
    pub fn drain(&self, processes: usize) {
        let options = WorkerOptions { workers: 2, lease_seconds: 60, drain: true, settles: true, only: None };
        std::thread::scope(|scope| {
            for store in self.stores.iter().cycle().take(processes) {
                scope.spawn(|| work::run(&self.catalogue, &**store, &options, &AtomicBool::new(false), &|_| ()).expect("it works"));
            }
        });
    }

    /// The golden values of all records that exist, by collection and key; without absent ones.
    pub fn golden_values(&self, tenant: &Tenant) -> Json {
        let mut collections = json!({});
        for (index, collection) in self.catalogue.collections.enumerate() {
            let mut plan = QueryPlan::all(tenant.clone(), index);
            plan.columns = [PlanColumn::Key].into_iter().chain(collection.fields.ids().map(PlanColumn::Field)).collect();
            let mut records = json!({});
            for row in self.stores[0].find(&plan).expect("rows").rows {
                let fields = collection.fields.iter().zip(&row[1..]).filter(|(_, value)| !value.is_null());
                let shown: serde_json::Map<String, Json> =
                    fields.map(|(field, value)| (field.name.clone(), value.to_json(field.golden_type()))).collect();
                records[row[0].as_text().unwrap_or_default()] = shown.into();
            }
            collections[&collection.name] = records;
        }
        collections
    }

    /// The outcomes of a job that completed.
    pub fn outcomes(&self, job: JobId) -> BTreeMap<&'static str, i64> {
        let job = self.stores[0].job(job).expect("the job");
        assert!(matches!(job.state, JobState::Completed | JobState::CompletedWithErrors), "{job:?}");
        OUTCOMES.iter().map(|(outcome, name)| (*name, job.counts.of(*outcome))).filter(|(_, count)| *count != 0).collect()
    }
}

/// A folder of this process, in memory if possible.
pub fn folder(name: &str) -> PathBuf {
    stook_testkit::memory::folder_of_process(name).expect("a folder")
}

/// A store on a file in a folder, opened several times.
pub fn on_a_file(folder: &Path, catalogue: &Arc<Catalogue>, openings: usize) -> Vec<Box<dyn Store>> {
    let open = |_| -> Box<dyn Store> {
        Box::new(SqliteStore::open(&folder.join("store"), catalogue.clone(), sqlite::SqliteOptions::default()).expect("a store"))
    };
    (0..openings).map(open).collect()
}

/// A store on the tests' server, in a schema of its own, opened three times; `None` if PostgreSQL is not installed.
pub fn on_a_server(schema: &str, catalogue: &Arc<Catalogue>) -> Option<Vec<Box<dyn Store>>> {
    let url = format!("{}?schema={schema}", TestServer::shared()?.url("postgres"));
    let open =
        |_| -> Box<dyn Store> { Box::new(PostgresStore::open(&url, catalogue.clone(), &postgres::PostgresOptions::default()).expect("a store")) };
    Some((0..3).map(open).collect())
}

/// Writes a file and creates a job for it, in chunks of this number of documents.
pub fn job(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, source: &str, file: (&Path, &str), chunk: u32) -> JobId {
    job_of(catalogue, store, tenant, source, file, (chunk, false))
}

/// The same for a file that may retire whatever it lacks.
pub fn job_of(
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
    source: &str,
    (path, text): (&Path, &str),
    (chunk, retires_all): (u32, bool),
) -> JobId {
    std::fs::write(path, text).expect("a file");
    let (_, found) = catalogue.source(source).expect("a source");
    let files = vec![JobFile { retires_all, ..split::inspect(path, found).expect("it reads") }];
    let new = NewJob { tenant: tenant.clone(), profile: None, source: source.into(), as_of: None, files: files.clone() };
    let job = store.create_job(new).expect("a job");
    let added = split::split(&files, found, chunk, SplitProgress::default(), |chunks, progress| {
        store.add_chunks(job, chunks, progress)?;
        Ok(true)
    });
    added.expect("it is cut");
    job
}
