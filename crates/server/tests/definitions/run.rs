//! Runs cases on both stores, in many orders, and reports what does not agree.
//!
//! Cases with different names share a store, because opening one costs more than a case. Each order has its own tenant.

use super::case::{Case, Delivery, Edit};
use super::documents;
use super::oracle;
use super::requests;
use super::stores::TestSetup;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, mpsc};
use std::time::{Duration, Instant};
use stook_catalogue::ids::FieldId;
use stook_catalogue::parse::parse;
use stook_engine::deliver::PendingDelivery;
use stook_engine::import::UploadRequest;
use stook_engine::settle::{self, CheckedRecord};
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_engine::{EngineError, damage, deliver, split, work};
use stook_formats::read::OpenedInput;
use stook_sample::random::Random;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::queue::{JobFile, JobId, JobState, NewJob, SplitProgress};
use stook_store::sql_queries::{SqlRows, view_name};
use stook_store::{SettlePass, StoreError, Tenant};
use tokio::runtime::Runtime;

/// Number of orders of a case with more than four files.
const RANDOM_ORDERS: usize = 24;
/// Number of orders of a case on a server, where a commit costs more.
const SERVER_VARIANTS: usize = 2;
/// Max time of imports.
const IMPORT_TIMEOUT: Duration = Duration::from_secs(60);
/// Max time of settling after imports of many cases.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(240);

pub static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"));

/// What is wrong, with the case if that is known.
#[derive(Debug, Clone)]
pub struct Fault {
    pub case: Option<usize>,
    pub message: String,
}

type Found<T> = Result<T, Fault>;

fn fault<T>(case: usize, message: impl Into<String>) -> Found<T> {
    Err(Fault { case: Some(case), message: message.into() })
}

/// How the files of a case are imported.
#[derive(Debug, Clone)]
struct ImportVariant {
    order: Vec<usize>,
    mode: ImportMode,
    /// Documents per chunk.
    chunk: u32,
    workers: usize,
    /// Whether each document is a file of its own, if that makes no difference.
    apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImportMode {
    /// Delivered while the caller waits.
    AtOnce,
    /// A job each, in sequence.
    Jobs,
    /// A job each, concurrently.
    Together,
}

/// The last panic of any thread, with its location.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn install_panic_hook() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // panics of the test itself are shown
            if panic.location().is_some_and(|location| location.file().ends_with("definitions/main.rs")) {
                return before(panic);
            }
            if let Ok(mut last) = PANIC.lock() {
                *last = Some(panic.to_string());
            }
        }));
    });
}

fn last_panic() -> Option<String> {
    PANIC.lock().ok()?.take()
}

/// Whether a definition is valid.
pub fn validate(definition: &Json) -> Result<(), String> {
    install_panic_hook();
    let text = super::yaml::text(definition);
    match catch_unwind(|| parse(&text)) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(problems)) => Err(problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")),
        Err(_) => Err(format!("PANIC {}", last_panic().unwrap_or_default())),
    }
}

/// Runs cases that share a store. `seed` draws orders.
pub fn run(cases: &[Case], seed: u64) -> Result<Timings, Fault> {
    install_panic_hook();
    let _ = last_panic();
    let result = catch_unwind(AssertUnwindSafe(|| run_all(cases, seed)));
    let result = result.unwrap_or_else(|_| Err(Fault { case: None, message: "it panics".into() }));
    result.map_err(|fault| match last_panic() {
        Some(panic) => Fault { message: format!("{} ({panic})", fault.message), ..fault },
        None => fault,
    })
}

/// Times of the parts of the test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    pub open: [Duration; 2],
    pub import: [Duration; 2],
    pub read: [Duration; 2],
    pub query: [Duration; 2],
    pub tag: [Duration; 2],
    pub change: [Duration; 2],
    pub check: [Duration; 2],
    /// Numbers of golden values that the oracle knew, and did not know.
    pub known: u64,
    pub unknown: u64,
}

impl Timings {
    pub fn add(&mut self, other: &Self) {
        for store_index in 0..2 {
            self.open[store_index] += other.open[store_index];
            self.import[store_index] += other.import[store_index];
            self.read[store_index] += other.read[store_index];
            self.query[store_index] += other.query[store_index];
            self.tag[store_index] += other.tag[store_index];
            self.change[store_index] += other.change[store_index];
            self.check[store_index] += other.check[store_index];
        }
        self.known += other.known;
        self.unknown += other.unknown;
    }
}

fn run_all(cases: &[Case], seed: u64) -> Result<Timings, Fault> {
    let without_case = |error: String| Fault { case: None, message: error };
    let text = super::yaml::text(&Case::merged(cases));
    let catalogue = parse(&text).map_err(|problems| without_case(format!("together they are not sound: {problems:?}")))?;
    let catalogue = Arc::new(catalogue);
    let mut timings = Timings::default();
    let began = Instant::now();
    let mut setups = vec![TestSetup::on_a_file(&catalogue).map_err(without_case)?];
    timings.open[0] = began.elapsed();
    let began = Instant::now();
    if let Some(server) = TestSetup::on_a_server(&catalogue) {
        setups.push(server.map_err(without_case)?);
        timings.open[1] = began.elapsed();
    }
    let mut responses_by_store: Vec<Vec<Responses>> = Vec::new();
    for (store_index, setup) in setups.iter().enumerate() {
        let responses = setup.run_cases(cases, seed, (store_index, &mut timings))?;
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        let checked = settle::check(&*setup.store, &setup.rules, &stop, &|_| ())
            .map_err(|error| without_case(format!("{}: check --deep: {error}", setup.kind)))?;
        let checked = checked.unwrap_or_default();
        if let Some(CheckedRecord { tenant, collection, key }) = checked.incorrect.first() {
            let case = tenant.as_str().split('-').next().and_then(|name| name.strip_prefix('t')?.parse().ok());
            return Err(Fault { case, message: format!("{}: check --deep: {collection} {key} of {tenant} is not what it must be", setup.kind) });
        }
        let found =
            damage::find(&*setup.store, &setup.catalogue).map_err(|error| without_case(format!("{}: reading everything: {error}", setup.kind)))?;
        if let Some((tenant, damage)) = found.named.first() {
            return Err(without_case(format!("{}: a record of {tenant} cannot be read: {damage}", setup.kind)));
        }
        setup.read_views().map_err(|wrong| without_case(format!("{}: {wrong}", setup.kind)))?;
        if checked.inconclusive > 0 {
            return Err(without_case(format!("{}: check --deep leaves {} records undecided", setup.kind, checked.inconclusive)));
        }
        timings.check[store_index] = began.elapsed();
        responses_by_store.push(responses);
    }
    if let [file, server] = responses_by_store.as_slice() {
        for (number, (file, server)) in file.iter().zip(server).enumerate() {
            for ((request, response), (_, other)) in file.iter().zip(server) {
                if response != other && !(sums_floats(request) && is_near(response, other)) {
                    return fault(number, format!("a file and a server differ in {request}\n file:   {response}\n server: {other}"));
                }
            }
        }
    }
    Ok(timings)
}

/// Responses, each with its request.
type Responses = Vec<(String, Json)>;

/// Counts rows.
struct CountedRows(u64);

impl SqlRows for CountedRows {
    fn columns(&mut self, _: Vec<String>) -> Result<(), StoreError> {
        Ok(())
    }

    fn row(&mut self, _: Vec<Json>) -> Result<(), StoreError> {
        self.0 += 1;
        Ok(())
    }
}

impl TestSetup {
    /// Reads every view with SQL: it has as many rows as a query of each tenant finds.
    fn read_views(&self) -> Result<(), String> {
        let tenants = self.store.tenants().map_err(|error| error.to_string())?;
        for (id, collection) in self.catalogue.collections.enumerate() {
            let mut rows = CountedRows(0);
            let statement = format!("SELECT * FROM \"{}\"", view_name(collection));
            self.store.select(&statement, &mut rows).map_err(|error| format!("{statement}: {error}"))?;
            let count = |tenant: &Tenant| self.store.count(&QueryPlan::all(tenant.clone(), id));
            let found = tenants.iter().map(count).sum::<Result<u64, StoreError>>().map_err(|error| error.to_string())?;
            if rows.0 != found {
                return Err(format!("{statement} returns {} rows, and queries find {found}", rows.0));
            }
        }
        Ok(())
    }

    fn tenant(&self, case_index: usize, variant_index: usize) -> Tenant {
        Tenant::new(&format!("t{case_index}-{variant_index}")).expect("a tenant")
    }

    /// Imports all cases in every way, then makes requests and changes. Each step is done for all cases before the next step, because a commit of
    /// many costs little more than one.
    fn run_cases(&self, cases: &[Case], seed: u64, (store_index, timings): (usize, &mut Timings)) -> Found<Vec<Responses>> {
        let began = Instant::now();
        let variants: Vec<Vec<ImportVariant>> =
            cases.iter().map(|case| variants(case, seed, if store_index == 0 { usize::MAX } else { SERVER_VARIANTS })).collect();
        self.tag_before(cases, &variants)?;
        self.import(cases, &variants)?;
        timings.import[store_index] += began.elapsed();
        let began = Instant::now();
        let mut first: Vec<Json> = Vec::new();
        for (case_index, case) in cases.iter().enumerate() {
            let seen = self.variants_agree(case_index, case, &variants[case_index])?;
            let (known, unknown) = oracle::compare(case, &[], &seen).or_else(|wrong| fault(case_index, format!("{}: {wrong}", self.kind)))?;
            timings.known += known;
            timings.unknown += unknown;
            first.push(seen);
        }
        timings.read[store_index] += began.elapsed();
        let began = Instant::now();
        let mut responses: Vec<Responses> = Vec::new();
        for (case_index, case) in cases.iter().enumerate() {
            let mut case_responses = vec![("records".to_owned(), first[case_index].clone())];
            case_responses.extend(
                requests::query_records(self, &self.tenant(case_index, 0), case, (&first[case_index], true))
                    .or_else(|wrong| fault(case_index, wrong))?,
            );
            case_responses.extend(
                requests::call_routes(self, &self.tenant(case_index, 0), case, &first[case_index]).or_else(|wrong| fault(case_index, wrong))?,
            );
            responses.push(case_responses);
        }
        timings.query[store_index] += began.elapsed();
        let began = Instant::now();
        self.tag(cases, &variants, &first, &mut responses)?;
        timings.tag[store_index] += began.elapsed();
        let began = Instant::now();
        self.edit(cases, &first, &mut responses)?;
        self.withdraw_from_second_variant(cases, &variants)?;
        self.withdraw(cases, &mut responses)?;
        timings.change[store_index] += began.elapsed();
        Ok(responses)
    }

    /// Makes tags before the second way of each case begins.
    fn tag_before(&self, cases: &[Case], variants: &[Vec<ImportVariant>]) -> Found<()> {
        for (case_index, case) in cases.iter().enumerate().filter(|(case_index, _)| variants[*case_index].len() > 1) {
            requests::make_tags(self, &self.tenant(case_index, 1), case).or_else(|wrong| fault(case_index, wrong))?;
        }
        self.work(1)
    }

    /// Makes the same tags after the first way has ended: records must carry the same tags.
    fn tag(&self, cases: &[Case], variants: &[Vec<ImportVariant>], first: &[Json], responses: &mut [Responses]) -> Found<()> {
        let mut created = Vec::new();
        for (case_index, case) in cases.iter().enumerate() {
            created.push(requests::make_tags(self, &self.tenant(case_index, 0), case).or_else(|wrong| fault(case_index, wrong))?);
        }
        self.work(1)?;
        for ((case_index, case), created) in cases.iter().enumerate().zip(created) {
            let tagged = |variant_index: usize, tags: &[&str]| {
                requests::tagged(self, &self.tenant(case_index, variant_index), case, tags).or_else(|wrong| fault(case_index, wrong))
            };
            let tagged_now = tagged(0, &["red", "deep", "joined"])?;
            if variants[case_index].len() > 1 {
                let before = tagged(1, &["red", "deep", "joined"])?;
                if tagged_now != before {
                    let message = format!("{}: tags that were made before documents came: {before:?}\n made later: {tagged_now:?}", self.kind);
                    return fault(case_index, message);
                }
            }
            responses[case_index].extend(created.into_iter().chain(tagged_now));
            let given = requests::give_tags(self, &self.tenant(case_index, 0), case, &first[case_index]).or_else(|wrong| fault(case_index, wrong))?;
            responses[case_index].extend(given.into_iter().chain(tagged(0, &["blue"])?));
        }
        Ok(())
    }

    /// Checks that every way gives the same result, and returns it.
    fn variants_agree(&self, case_index: usize, case: &Case, variants: &[ImportVariant]) -> Found<Json> {
        let first = self.read_records(case_index, &self.tenant(case_index, 0), case)?;
        for (variant_index, variant) in variants.iter().enumerate().skip(1) {
            let seen = self.read_records(case_index, &self.tenant(case_index, variant_index), case)?;
            if first != seen {
                let (one, other) = difference(&first, &seen);
                let message = format!("{}: {variant:?} ends in something else than {:?}\n first: {one}\n other: {other}", self.kind, variants[0]);
                return fault(case_index, message);
            }
        }
        Ok(first)
    }

    fn settle(&self) -> Found<()> {
        let (pass, store): (Arc<dyn SettlePass>, _) = (self.rules.clone(), self.store.clone());
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(settle::drain(&*store, &pass, &AtomicBool::new(false)).map(drop)));
        let wrong = match ended.recv_timeout(SETTLE_TIMEOUT) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(mpsc::RecvTimeoutError::Timeout) => "it does not end".to_owned(),
            Err(mpsc::RecvTimeoutError::Disconnected) => "it panics".to_owned(),
        };
        Err(Fault { case: None, message: format!("{}: settling: {wrong}", self.kind) })
    }

    /// Imports all files of all cases in every way.
    fn import(&self, cases: &[Case], variants: &[Vec<ImportVariant>]) -> Found<()> {
        let steps = cases.iter().map(|case| case.deliveries.len()).max().unwrap_or_default();
        let mut jobs: Vec<(usize, JobId)> = Vec::new();
        let mut worked = 0;
        let mut accepted = self.accept_all(cases, variants)?;
        for step in 0..steps {
            // files delivered while the caller waits; those of one tenant are delivered in sequence
            let mut waiting: Vec<(usize, usize, &Json, Vec<Delivery>)> = Vec::new();
            for (case_index, case) in cases.iter().enumerate().filter(|(_, case)| step < case.deliveries.len()) {
                for (variant_index, variant) in variants[case_index].iter().enumerate() {
                    let now: Vec<usize> = match variant.mode {
                        ImportMode::Together if step == 0 => variant.order.clone(),
                        ImportMode::Together => Vec::new(),
                        _ => vec![variant.order[step]],
                    };
                    for delivery_index in now {
                        let delivery = &case.deliveries[delivery_index];
                        let source = &case.definition["sources"][&delivery.source];
                        let whole = source.get("replaces").is_some();
                        let parts = parts(source, delivery, variant.apart && !whole);
                        if variant.mode == ImportMode::AtOnce && !whole {
                            waiting.push((case_index, variant_index, source, parts));
                            continue;
                        }
                        for part in parts {
                            // in the order of acceptance, if they were accepted before
                            let known = accepted.get_mut(&(case_index, variant_index, delivery_index)).and_then(VecDeque::pop_front);
                            let job = known.map_or_else(|| self.accept(case_index, &self.tenant(case_index, variant_index), source, &part), Ok)?;
                            self.cut(case_index, job, source, (&part, variant.chunk))?;
                            jobs.push((case_index, job));
                        }
                    }
                }
            }
            for turn in 0..waiting.iter().map(|(.., parts)| parts.len()).max().unwrap_or_default() {
                let mut underway = Vec::new();
                for (case_index, variant_index, source, parts) in waiting.iter().filter(|(.., parts)| turn < parts.len()) {
                    underway.push((*case_index, self.deliver(*case_index, &self.tenant(*case_index, *variant_index), (source, None), &parts[turn])?));
                }
                for (case_index, underway) in underway {
                    let ended = RUNTIME.block_on(underway.end());
                    ended.or_else(|error| fault(case_index, format!("{}: documents at once: {error}", self.kind)))?;
                }
            }
            if jobs.len() > worked {
                worked = jobs.len();
                let workers = variants.iter().flatten().map(|variant| variant.workers).max().unwrap_or(1);
                self.work(workers)?;
            }
        }
        self.settle()?;
        for (case_index, id) in jobs {
            let job = self.store.job(id).or_else(|error| fault(case_index, format!("{}: {error}", self.kind)))?;
            if !matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) {
                let chunks = self.store.chunks(Some(id)).map(|chunks| format!("{chunks:?}")).unwrap_or_default();
                return fault(case_index, format!("{}: an import does not end well: {:?} {chunks}", self.kind, job.state));
            }
        }
        Ok(())
    }

    /// Creates the jobs of all files whose order of acceptance matters before any of them is processed, in the order of the case.
    fn accept_all(&self, cases: &[Case], variants: &[Vec<ImportVariant>]) -> Found<HashMap<(usize, usize, usize), VecDeque<JobId>>> {
        let mut accepted: HashMap<(usize, usize, usize), VecDeque<JobId>> = HashMap::new();
        for (case_index, case) in cases.iter().enumerate().filter(|(_, case)| case.orders_by_reception()) {
            for (variant_index, variant) in variants[case_index].iter().enumerate().filter(|(_, variant)| variant.mode != ImportMode::AtOnce) {
                for (delivery_index, delivery) in case.deliveries.iter().enumerate() {
                    let source = &case.definition["sources"][&delivery.source];
                    let whole = source.get("replaces").is_some();
                    for part in parts(source, delivery, variant.apart && !whole) {
                        let job = self.accept(case_index, &self.tenant(case_index, variant_index), source, &part)?;
                        accepted.entry((case_index, variant_index, delivery_index)).or_default().push_back(job);
                    }
                }
            }
        }
        Ok(accepted)
    }

    fn work(&self, workers: usize) -> Found<()> {
        if self.store.is_idle().unwrap_or(false) {
            return Ok(());
        }
        let options = work::WorkerOptions { workers, lease_seconds: 60, drain: true, settles: false, only: None };
        let (stop, began) = (AtomicBool::new(false), Instant::now());
        // a chunk that fails is retried with growing delays
        let failed = || PANIC.lock().is_ok_and(|panic| panic.is_some());
        let watch = |_| {
            if began.elapsed() > IMPORT_TIMEOUT || failed() {
                stop.store(true, Ordering::SeqCst);
            }
        };
        let ran = work::run(&self.catalogue, &*self.store, &options, &stop, &watch);
        ran.map_err(|error| Fault { case: None, message: format!("{}: workers: {error}", self.kind) })
    }

    fn deliver(&self, case_index: usize, tenant: &Tenant, (source, profile): (&Json, Option<&str>), delivery: &Delivery) -> Found<PendingDelivery> {
        let text = documents::file(source, &delivery.documents);
        let upload = UploadRequest {
            name: "file".into(),
            size: None,
            profile: profile.map(str::to_owned),
            source: Some(delivery.source.clone()),
            tenant: tenant.clone(),
            as_of: Some(delivery.as_of * 1_000_000),
            retires_all: false,
            unexpected: false,
        };
        let wrong = |error: String| Fault { case: Some(case_index), message: format!("{}: documents at once: {error}", self.kind) };
        let mapped = deliver::map(&self.rules, &*self.store, &upload, "test", text.into()).map_err(|error| wrong(error.to_string()))?;
        mapped.submit(&*self.store).map_err(|error| wrong(error.to_string()))
    }

    /// Opens the file of a delivery.
    fn open(&self, case_index: usize, source: &Json, delivery: &Delivery) -> Found<(JobFile, OpenedInput)> {
        let text = documents::file(source, &delivery.documents);
        let opened = stook_formats::read::open_bytes(Box::new(Cursor::new(text.clone())));
        let opened = opened.or_else(|error| fault(case_index, format!("{}: an import: {error}", self.kind)))?;
        let file = JobFile {
            path: "file".into(),
            size: text.len() as u64,
            modified: delivery.as_of * 1_000_000,
            syntax: opened.syntax.map(|syntax| syntax.name().to_owned()),
            compressed: true,
            ..JobFile::default()
        };
        Ok((file, opened))
    }

    /// Creates the job of a delivery.
    fn accept(&self, case_index: usize, tenant: &Tenant, source: &Json, delivery: &Delivery) -> Found<JobId> {
        let (file, _) = self.open(case_index, source, delivery)?;
        let new = NewJob {
            tenant: tenant.clone(),
            profile: None,
            source: delivery.source.clone(),
            as_of: Some(delivery.as_of * 1_000_000),
            files: vec![file],
        };
        self.store.create_job(new).or_else(|error| fault(case_index, format!("{}: an import: {error}", self.kind)))
    }

    /// Splits the file of a delivery into the chunks of its job.
    fn cut(&self, case_index: usize, job: JobId, source: &Json, (delivery, chunk): (&Delivery, u32)) -> Found<()> {
        let (file, opened) = self.open(case_index, source, delivery)?;
        let wrong = |error: String| Fault { case: Some(case_index), message: format!("{}: an import: {error}", self.kind) };
        let (_, source_definition) = self.catalogue.source(&delivery.source).ok_or_else(|| wrong("no source".into()))?;
        let mut opened = Some(opened);
        let open = |_: &JobFile| opened.take().ok_or_else(|| EngineError::Wrong("it is opened twice".into()));
        let files = [file];
        let start = (&files[..], SplitProgress::default());
        let cut = split::split_streams(start, (source_definition, chunk), open, |chunks, progress| {
            self.store.add_chunks(job, chunks, progress)?;
            Ok(true)
        });
        cut.map_err(|error| wrong(error.to_string()))
    }

    /// Returns all records of a case's collections, including coverages.
    pub fn read_records(&self, case_index: usize, tenant: &Tenant, case: &Case) -> Found<Json> {
        let mut seen = json!({});
        let is_of_case = |name: &str| case.definition["collections"].get(name.split('.').next().unwrap_or_default()).is_some();
        for (index, collection) in self.catalogue.collections.enumerate().filter(|(_, collection)| is_of_case(&collection.name)) {
            let mut plan = QueryPlan::all(tenant.clone(), index);
            let fields: Vec<FieldId> = collection.shown_fields().map(|(index, _)| index).collect();
            plan.columns = [PlanColumn::Key, PlanColumn::Conflict].into_iter().chain(fields.iter().map(|field| PlanColumn::Field(*field))).collect();
            plan.columns.extend((0..collection.states.len()).map(PlanColumn::State));
            let found = self.store.find(&plan).or_else(|error| fault(case_index, format!("{}: {}: {error}", self.kind, collection.name)))?;
            let mut records = json!({});
            for row in found.rows {
                let mut shown: Map<String, Json> = Map::new();
                let conflicts = json!(row[1].elements().iter().map(|name| name.as_text().unwrap_or_default().to_owned()).collect::<Vec<_>>());
                shown.insert("conflict".into(), conflicts);
                for (field, value) in fields.iter().zip(&row[2..]).filter(|(_, value)| !value.is_null()) {
                    let field = &collection.fields[*field];
                    shown.insert(field.name.clone(), value.to_json(field.golden_type()));
                }
                for (state, value) in collection.states.iter().zip(&row[2 + fields.len()..]).filter(|(_, value)| !value.is_null()) {
                    shown.insert(state.name.clone(), value.to_json(&state.ty));
                }
                records[row[0].as_text().unwrap_or_default()] = shown.into();
            }
            seen[&collection.name] = records;
        }
        Ok(seen)
    }

    /// Makes edits and checks their results.
    fn edit(&self, cases: &[Case], first: &[Json], responses: &mut [Responses]) -> Found<()> {
        let mut done: Vec<Vec<(&Edit, &str)>> = vec![Vec::new(); cases.len()];
        for turn in 0..cases.iter().map(|case| case.edits.len()).max().unwrap_or_default() {
            for (case_index, case) in cases.iter().enumerate() {
                let Some(edit) = case.edits.get(turn) else { continue };
                let Edit { collection, position, method, body, clear } = edit;
                let keys: Vec<&String> = first[case_index][collection].as_object().into_iter().flat_map(|records| records.keys()).collect();
                if keys.is_empty() {
                    continue;
                }
                let key = keys[*position as usize % keys.len()];
                let clear = clear.as_ref().filter(|_| method != "DELETE").map(|field| format!("?clear={field}")).unwrap_or_default();
                let path = format!("{collection}/{}{clear}", requests::segment(key));
                let answer = requests::change(self, &self.tenant(case_index, 0), method, &path, body);
                let (status, _) = answer.or_else(|wrong| fault(case_index, wrong))?;
                responses[case_index].push((format!("the status of {method} {path} {body}"), json!(status)));
                if (200..300).contains(&status) {
                    done[case_index].push((edit, key));
                }
            }
            self.settle()?;
        }
        for (case_index, case) in cases.iter().enumerate() {
            let tenant = self.tenant(case_index, 0);
            let seen = self.read_records(case_index, &tenant, case)?;
            oracle::compare(case, &done[case_index], &seen).or_else(|wrong| fault(case_index, format!("{}: after edits: {wrong}", self.kind)))?;
            let again = requests::query_records(self, &tenant, case, (&first[case_index], false)).or_else(|wrong| fault(case_index, wrong))?;
            responses[case_index].extend(again.into_iter().map(|(request, answer)| (format!("{request}, after edits"), answer)));
            responses[case_index].extend(requests::transitions(self, &tenant, case, &first[case_index]).or_else(|wrong| fault(case_index, wrong))?);
        }
        for (case_index, case) in cases.iter().enumerate() {
            for (name, profile) in case.definition["profiles"].as_object().into_iter().flatten() {
                let source = &case.definition["sources"][profile["source"].as_str().unwrap_or_default()];
                let delivery = case.deliveries.iter().find(|delivery| profile["source"] == delivery.source.as_str());
                let Some(delivery) = delivery.filter(|_| source.get("replaces").is_none()) else { continue };
                let underway = self.deliver(case_index, &self.tenant(case_index, 0), (source, Some(name)), delivery)?;
                let ended =
                    RUNTIME.block_on(underway.end()).or_else(|error| fault(case_index, format!("{}: by profile {name}: {error}", self.kind)))?;
                responses[case_index].push((format!("counts of profile {name}"), json!(format!("{:?}", ended.counts))));
            }
        }
        self.settle()?;
        for (case_index, case) in cases.iter().enumerate() {
            responses[case_index].push(("records after edits".to_owned(), self.read_records(case_index, &self.tenant(case_index, 0), case)?));
        }
        Ok(())
    }

    /// Withdraws the first source of each case from its second way: the result must be the same as if it had never contributed.
    fn withdraw_from_second_variant(&self, cases: &[Case], variants: &[Vec<ImportVariant>]) -> Found<()> {
        let mut without: Vec<(usize, Case)> = Vec::new();
        // documents that failed because of a unique value of other documents are not processed later
        let is_comparable = |(case_index, case): &(usize, &Case)| variants[*case_index].len() > 1 && !case.has_unique();
        for (case_index, case) in cases.iter().enumerate().filter(is_comparable) {
            // documents embedded in its documents belong to other sources
            let first = case.definition["sources"].as_object().and_then(|sources| sources.iter().next());
            let Some((source, _)) = first.filter(|(_, source)| source.get("embeds").is_none()) else { continue };
            let done = withdraw::withdraw(
                &self.catalogue,
                &*self.store,
                &WithdrawalRequest { tenant: &self.tenant(case_index, 1), contributor: source, collection: None, key: None },
                &|_| (),
            );
            done.or_else(|error| fault(case_index, format!("{}: withdrawing {source}: {error}", self.kind)))?;
            let mut remaining_case = case.clone();
            remaining_case.deliveries.retain(|delivery| delivery.source != *source);
            without.push((case_index, remaining_case));
        }
        self.settle()?;
        for (case_index, remaining_case) in without {
            let seen = self.read_records(case_index, &self.tenant(case_index, 1), &remaining_case)?;
            oracle::compare(&remaining_case, &[], &seen)
                .or_else(|wrong| fault(case_index, format!("{}: without its first source: {wrong}", self.kind)))?;
        }
        Ok(())
    }

    /// Withdraws the first source of each case, then the edits.
    fn withdraw(&self, cases: &[Case], responses: &mut [Responses]) -> Found<()> {
        for is_api in [false, true] {
            for (case_index, case) in cases.iter().enumerate() {
                let first = case.definition["sources"].as_object().and_then(|sources| sources.keys().next());
                let source = if is_api { Some("api") } else { first.map(String::as_str) };
                let Some(source) = source else { continue };
                let tenant = self.tenant(case_index, 0);
                let done = withdraw::withdraw(
                    &self.catalogue,
                    &*self.store,
                    &WithdrawalRequest { tenant: &tenant, contributor: source, collection: None, key: None },
                    &|_| (),
                );
                done.or_else(|error| fault(case_index, format!("{}: withdrawing {source}: {error}", self.kind)))?;
            }
            self.settle()?;
            for (case_index, case) in cases.iter().enumerate() {
                let state = if is_api { "records without api" } else { "records without their first source" };
                responses[case_index].push((state.to_owned(), self.read_records(case_index, &self.tenant(case_index, 0), case)?));
                let tagged = requests::tagged(self, &self.tenant(case_index, 0), case, &["red", "deep", "joined", "blue"])
                    .or_else(|wrong| fault(case_index, wrong))?;
                responses[case_index].extend(tagged.into_iter().map(|(query, answer)| (format!("{query} of {state}"), answer)));
            }
        }
        Ok(())
    }
}

/// Returns the first record in which two views differ.
fn difference(one: &Json, other: &Json) -> (String, String) {
    let names: Vec<&String> = one.as_object().into_iter().flat_map(Map::keys).collect();
    for name in names {
        let keys: BTreeMap<&String, ()> =
            [&one[name], &other[name]].into_iter().filter_map(Json::as_object).flat_map(Map::keys).map(|key| (key, ())).collect();
        if let Some(key) = keys.into_keys().find(|key| one[name].get(*key) != other[name].get(*key)) {
            let shown = |view: &Json| format!("{name} {key}: {}", view[name].get(key).map_or("none".into(), Json::to_string));
            return (shown(one), shown(other));
        }
    }
    (one.to_string(), other.to_string())
}

/// Returns the files that a delivery is sent as.
fn parts(source: &Json, delivery: &Delivery, apart: bool) -> Vec<Delivery> {
    let counts = source["let"].as_object().into_iter().flatten().any(|(_, rule)| rule["expr"].as_str().is_some_and(|text| text.contains("ordinal")));
    // a row of CSV has another meaning if the file has other columns
    if !apart || counts || source["format"] == "csv" {
        return vec![delivery.clone()];
    }
    delivery.documents.iter().map(|document| Delivery { documents: vec![document.clone()], ..delivery.clone() }).collect()
}

/// Returns all orders of up to four files, and some of more; each is imported in one of the ways.
fn variants(case: &Case, seed: u64, max_variants: usize) -> Vec<ImportVariant> {
    let number = case.deliveries.len();
    let mut random = Random::of_item(seed, 7);
    let straight: Vec<usize> = (0..number).collect();
    let mut orders: Vec<Vec<usize>> = if number <= 4 { permutations(number) } else { vec![straight.clone()] };
    if number > 4 {
        orders.extend((0..RANDOM_ORDERS).map(|_| shuffled(&mut random, &straight)));
    }
    // the first document gets a unique value
    let has_unique = case.has_unique();
    if has_unique {
        orders.truncate(1);
    }
    // only some of them on a server, including the last one
    if orders.len() > max_variants {
        let last = orders.len() - 1;
        orders = [random.below(last as u64) as usize, last].into_iter().map(|index| orders[index].clone()).collect();
    }
    // jobs cost more if a commit is a round trip, so the first way is concurrent there
    let first = if max_variants == usize::MAX || has_unique { ImportMode::Jobs } else { ImportMode::Together };
    let mut variants: Vec<ImportVariant> = vec![ImportVariant { order: straight.clone(), mode: first, chunk: 1_000, workers: 1, apart: false }];
    for order in orders {
        let mode = *random.one(&[
            ImportMode::AtOnce,
            ImportMode::AtOnce,
            ImportMode::AtOnce,
            ImportMode::AtOnce,
            ImportMode::AtOnce,
            ImportMode::Jobs,
            ImportMode::Together,
        ]);
        // work of several workers has no order
        let mode = match mode {
            ImportMode::Together if has_unique => ImportMode::Jobs,
            ImportMode::Jobs if max_variants != usize::MAX => ImportMode::AtOnce,
            mode => mode,
        };
        // a delivery without a job is accepted when it is written
        let mode = if mode == ImportMode::AtOnce && case.orders_by_reception() && order != straight { ImportMode::Jobs } else { mode };
        // which of a file's documents gets a unique value depends on the chunks
        let (chunk, apart) = if has_unique { (1_000, false) } else { (*random.one(&[1, 2, 1_000]), random.per_mille(300)) };
        variants.push(ImportVariant { order, mode, chunk, workers: *random.one(&[1, 2, 3]), apart });
    }
    variants
}

fn shuffled(random: &mut Random, order: &[usize]) -> Vec<usize> {
    let mut order = order.to_vec();
    for index in (1..order.len()).rev() {
        order.swap(index, random.below(index as u64 + 1) as usize);
    }
    order
}

fn permutations(number: usize) -> Vec<Vec<usize>> {
    if number == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(number - 1) {
        for index in (0..=shorter.len()).rev() {
            let mut order = shorter.clone();
            order.insert(index, number - 1);
            all.push(order);
        }
    }
    all
}

/// Whether a response has sums, whose last digits depend on the order in which a store adds floats (documented in docs/definition.md).
fn sums_floats(request: &str) -> bool {
    request.contains("sum%28") || request.contains("avg%28")
}

/// Whether two responses differ only in the last digits of floats.
fn is_near(one: &Json, other: &Json) -> bool {
    match (one, other) {
        (Json::Number(one), Json::Number(other)) if one.is_f64() && other.is_f64() => {
            let (one, other) = (one.as_f64().unwrap_or(f64::NAN), other.as_f64().unwrap_or(f64::NAN));
            (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
        }
        (Json::Array(one), Json::Array(other)) => one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_near(one, other)),
        (Json::Object(one), Json::Object(other)) => {
            one.len() == other.len() && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| is_near(one, other)))
        }
        _ => one == other,
    }
}
