//! Runs cases on both stores, in many orders, and reports what does not agree.
//!
//! Cases with different names share a store, because opening one costs more than a case. Each order has its own tenant.

use super::case::{Case, Delivery, Edit};
use super::documents;
use super::oracle;
use super::requests;
use super::stores::Place;
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
use stook_engine::{damage, deliver, split, work};
use stook_formats::read::OpenedInput;
use stook_sample::random::Random;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::queue::{JobFile, JobId, JobState, NewJob};
use stook_store::{SettlePass, Tenant};
use tokio::runtime::Runtime;

/// Number of orders of a case with more than four files.
const DRAWN: usize = 24;
/// Number of orders of a case on a server, where a commit costs more.
const ON_A_SERVER: usize = 2;
/// Max time of imports.
const PATIENCE: Duration = Duration::from_secs(60);
/// Max time of settling after imports of many cases.
const PATIENCE_OF_SETTLING: Duration = Duration::from_secs(240);

pub static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime"));

/// What is wrong, with the case if that is known.
#[derive(Debug, Clone)]
pub struct Fault {
    pub case: Option<usize>,
    pub what: String,
}

type Found<T> = Result<T, Fault>;

fn fault<T>(case: usize, what: impl Into<String>) -> Found<T> {
    Err(Fault { case: Some(case), what: what.into() })
}

/// How the files of a case are imported.
#[derive(Debug, Clone)]
struct Way {
    order: Vec<usize>,
    how: How,
    /// Documents per chunk.
    chunk: u32,
    workers: usize,
    /// Whether each document is a file of its own, if that makes no difference.
    apart: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// Delivered while the caller waits.
    AtOnce,
    /// A job each, in sequence.
    Jobs,
    /// A job each, concurrently.
    Together,
}

/// The last panic of any thread, with its location.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

fn listen() {
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
pub fn is_sound(definition: &Json) -> Result<(), String> {
    listen();
    let text = super::yaml::text(definition);
    match catch_unwind(|| parse(&text)) {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(problems)) => Err(problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ")),
        Err(_) => Err(format!("PANIC {}", last_panic().unwrap_or_default())),
    }
}

/// Runs cases that share a store. `seed` draws orders.
pub fn run(cases: &[Case], seed: u64) -> Result<Timings, Fault> {
    listen();
    let _ = last_panic();
    let result = catch_unwind(AssertUnwindSafe(|| run_all(cases, seed)));
    let result = result.unwrap_or_else(|_| Err(Fault { case: None, what: "it panics".into() }));
    result.map_err(|fault| match last_panic() {
        Some(panic) => Fault { what: format!("{} ({panic})", fault.what), ..fault },
        None => fault,
    })
}

/// Times of the parts of the test.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    pub open: [Duration; 2],
    pub import: [Duration; 2],
    pub see: [Duration; 2],
    pub ask: [Duration; 2],
    pub tag: [Duration; 2],
    pub change: [Duration; 2],
    pub check: [Duration; 2],
    /// Numbers of golden values that the oracle knew, and did not know.
    pub known: u64,
    pub unknown: u64,
}

impl Timings {
    pub fn add(&mut self, other: &Self) {
        for place in 0..2 {
            self.open[place] += other.open[place];
            self.import[place] += other.import[place];
            self.see[place] += other.see[place];
            self.ask[place] += other.ask[place];
            self.tag[place] += other.tag[place];
            self.change[place] += other.change[place];
            self.check[place] += other.check[place];
        }
        self.known += other.known;
        self.unknown += other.unknown;
    }
}

fn run_all(cases: &[Case], seed: u64) -> Result<Timings, Fault> {
    let whole = |error: String| Fault { case: None, what: error };
    let text = super::yaml::text(&Case::merged(cases));
    let catalogue = parse(&text).map_err(|problems| whole(format!("together they are not sound: {problems:?}")))?;
    let catalogue = Arc::new(catalogue);
    let mut timings = Timings::default();
    let began = Instant::now();
    let mut places = vec![Place::on_a_file(&catalogue).map_err(whole)?];
    timings.open[0] = began.elapsed();
    let began = Instant::now();
    if let Some(server) = Place::on_a_server(&catalogue) {
        places.push(server.map_err(whole)?);
        timings.open[1] = began.elapsed();
    }
    let mut seen: Vec<Vec<Told>> = Vec::new();
    for (at, place) in places.iter().enumerate() {
        let told = place.all(cases, seed, (at, &mut timings))?;
        let began = Instant::now();
        let stop = AtomicBool::new(false);
        let checked =
            settle::check(&*place.store, &place.rules, &stop, &|_| ()).map_err(|error| whole(format!("{}: check --deep: {error}", place.kind)))?;
        let checked = checked.unwrap_or_default();
        if let Some(CheckedRecord { tenant, collection, key }) = checked.incorrect.first() {
            let case = tenant.as_str().split('-').next().and_then(|name| name.strip_prefix('t')?.parse().ok());
            return Err(Fault { case, what: format!("{}: check --deep: {collection} {key} of {tenant} is not what it must be", place.kind) });
        }
        let found = damage::find(&*place.store, &place.catalogue).map_err(|error| whole(format!("{}: reading everything: {error}", place.kind)))?;
        if let Some((tenant, damage)) = found.named.first() {
            return Err(whole(format!("{}: a record of {tenant} cannot be read: {damage}", place.kind)));
        }
        if checked.inconclusive > 0 {
            return Err(whole(format!("{}: check --deep leaves {} records undecided", place.kind, checked.inconclusive)));
        }
        timings.check[at] = began.elapsed();
        seen.push(told);
    }
    if let [file, server] = seen.as_slice() {
        for (number, (file, server)) in file.iter().zip(server).enumerate() {
            for ((what, one), (_, other)) in file.iter().zip(server) {
                if one != other && !(sums_floats(what) && is_near(one, other)) {
                    return fault(number, format!("a file and a server differ in {what}\n file:   {one}\n server: {other}"));
                }
            }
        }
    }
    Ok(timings)
}

/// Responses, each with its request.
type Told = Vec<(String, Json)>;

impl Place {
    fn tenant(&self, case: usize, way: usize) -> Tenant {
        Tenant::new(&format!("t{case}-{way}")).expect("a tenant")
    }

    /// Imports all cases in every way, then makes requests and changes. Each step is done for all cases before the next step, because a commit of
    /// many costs little more than one.
    fn all(&self, cases: &[Case], seed: u64, (at, timings): (usize, &mut Timings)) -> Found<Vec<Told>> {
        let began = Instant::now();
        let ways: Vec<Vec<Way>> = cases.iter().map(|case| ways(case, seed, if at == 0 { usize::MAX } else { ON_A_SERVER })).collect();
        self.tag_before(cases, &ways)?;
        self.import(cases, &ways)?;
        timings.import[at] += began.elapsed();
        let began = Instant::now();
        let mut first: Vec<Json> = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            let seen = self.every_way(number, case, &ways[number])?;
            let (known, unknown) = oracle::compare(case, &[], &seen).or_else(|wrong| fault(number, format!("{}: {wrong}", self.kind)))?;
            timings.known += known;
            timings.unknown += unknown;
            first.push(seen);
        }
        timings.see[at] += began.elapsed();
        let began = Instant::now();
        let mut told: Vec<Told> = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            let mut own = vec![("records".to_owned(), first[number].clone())];
            own.extend(requests::questions(self, &self.tenant(number, 0), case, (&first[number], true)).or_else(|wrong| fault(number, wrong))?);
            own.extend(requests::served(self, &self.tenant(number, 0), case, &first[number]).or_else(|wrong| fault(number, wrong))?);
            told.push(own);
        }
        timings.ask[at] += began.elapsed();
        let began = Instant::now();
        self.tag(cases, &ways, &first, &mut told)?;
        timings.tag[at] += began.elapsed();
        let began = Instant::now();
        self.edit(cases, &first, &mut told)?;
        self.forget(cases, &ways)?;
        self.withdraw(cases, &mut told)?;
        timings.change[at] += began.elapsed();
        Ok(told)
    }

    /// Makes tags before the second way of each case begins.
    fn tag_before(&self, cases: &[Case], ways: &[Vec<Way>]) -> Found<()> {
        for (number, case) in cases.iter().enumerate().filter(|(number, _)| ways[*number].len() > 1) {
            requests::make_tags(self, &self.tenant(number, 1), case).or_else(|wrong| fault(number, wrong))?;
        }
        self.work(1)
    }

    /// Makes the same tags after the first way has ended: records must carry the same tags.
    fn tag(&self, cases: &[Case], ways: &[Vec<Way>], first: &[Json], told: &mut [Told]) -> Found<()> {
        let mut made = Vec::new();
        for (number, case) in cases.iter().enumerate() {
            made.push(requests::make_tags(self, &self.tenant(number, 0), case).or_else(|wrong| fault(number, wrong))?);
        }
        self.work(1)?;
        for ((number, case), made) in cases.iter().enumerate().zip(made) {
            let tagged =
                |way: usize, tags: &[&str]| requests::tagged(self, &self.tenant(number, way), case, tags).or_else(|wrong| fault(number, wrong));
            let own = tagged(0, &["red", "deep", "joined"])?;
            if ways[number].len() > 1 {
                let before = tagged(1, &["red", "deep", "joined"])?;
                if own != before {
                    let what = format!("{}: tags that were made before documents came: {before:?}\n made later: {own:?}", self.kind);
                    return fault(number, what);
                }
            }
            told[number].extend(made.into_iter().chain(own));
            let given = requests::give_tags(self, &self.tenant(number, 0), case, &first[number]).or_else(|wrong| fault(number, wrong))?;
            told[number].extend(given.into_iter().chain(tagged(0, &["blue"])?));
        }
        Ok(())
    }

    /// Checks that every way gives the same result, and returns it.
    fn every_way(&self, number: usize, case: &Case, ways: &[Way]) -> Found<Json> {
        let first = self.see(number, &self.tenant(number, 0), case)?;
        for (way, drawn) in ways.iter().enumerate().skip(1) {
            let seen = self.see(number, &self.tenant(number, way), case)?;
            if first != seen {
                let (one, other) = difference(&first, &seen);
                let what = format!("{}: {drawn:?} ends in something else than {:?}\n first: {one}\n other: {other}", self.kind, ways[0]);
                return fault(number, what);
            }
        }
        Ok(first)
    }

    fn settle(&self) -> Found<()> {
        let (pass, store): (Arc<dyn SettlePass>, _) = (self.rules.clone(), self.store.clone());
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(settle::drain(&*store, &pass, &AtomicBool::new(false)).map(drop)));
        let wrong = match ended.recv_timeout(PATIENCE_OF_SETTLING) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(mpsc::RecvTimeoutError::Timeout) => "it does not end".to_owned(),
            Err(mpsc::RecvTimeoutError::Disconnected) => "it panics".to_owned(),
        };
        Err(Fault { case: None, what: format!("{}: settling: {wrong}", self.kind) })
    }

    /// Imports all files of all cases in every way.
    fn import(&self, cases: &[Case], ways: &[Vec<Way>]) -> Found<()> {
        let steps = cases.iter().map(|case| case.deliveries.len()).max().unwrap_or_default();
        let mut jobs: Vec<(usize, JobId)> = Vec::new();
        let mut worked = 0;
        let mut accepted = self.accept_all(cases, ways)?;
        for step in 0..steps {
            // files delivered while the caller waits; those of one tenant are delivered in sequence
            let mut waiting: Vec<(usize, usize, &Json, Vec<Delivery>)> = Vec::new();
            for (number, case) in cases.iter().enumerate().filter(|(_, case)| step < case.deliveries.len()) {
                for (way, drawn) in ways[number].iter().enumerate() {
                    let now: Vec<usize> = match drawn.how {
                        How::Together if step == 0 => drawn.order.clone(),
                        How::Together => Vec::new(),
                        _ => vec![drawn.order[step]],
                    };
                    for place in now {
                        let delivery = &case.deliveries[place];
                        let source = &case.definition["sources"][&delivery.source];
                        let whole = source.get("replaces").is_some();
                        let parts = parts(source, delivery, drawn.apart && !whole);
                        if drawn.how == How::AtOnce && !whole {
                            waiting.push((number, way, source, parts));
                            continue;
                        }
                        for part in parts {
                            // in the order of acceptance, if they were accepted before
                            let known = accepted.get_mut(&(number, way, place)).and_then(VecDeque::pop_front);
                            let job = known.map_or_else(|| self.accept(number, &self.tenant(number, way), source, &part), Ok)?;
                            self.cut(number, job, source, (&part, drawn.chunk))?;
                            jobs.push((number, job));
                        }
                    }
                }
            }
            for turn in 0..waiting.iter().map(|(.., parts)| parts.len()).max().unwrap_or_default() {
                let mut underway = Vec::new();
                for (number, way, source, parts) in waiting.iter().filter(|(.., parts)| turn < parts.len()) {
                    underway.push((*number, self.deliver(*number, &self.tenant(*number, *way), (source, None), &parts[turn])?));
                }
                for (number, underway) in underway {
                    let ended = RUNTIME.block_on(underway.end());
                    ended.or_else(|error| fault(number, format!("{}: documents at once: {error}", self.kind)))?;
                }
            }
            if jobs.len() > worked {
                worked = jobs.len();
                let workers = ways.iter().flatten().map(|way| way.workers).max().unwrap_or(1);
                self.work(workers)?;
            }
        }
        self.settle()?;
        for (number, id) in jobs {
            let job = self.store.job(id).or_else(|error| fault(number, format!("{}: {error}", self.kind)))?;
            if !matches!(job.state, JobState::Completed | JobState::CompletedWithErrors) {
                let chunks = self.store.chunks(Some(id)).map(|chunks| format!("{chunks:?}")).unwrap_or_default();
                return fault(number, format!("{}: an import does not end well: {:?} {chunks}", self.kind, job.state));
            }
        }
        Ok(())
    }

    /// Creates the jobs of all files whose order of acceptance matters before any of them is processed, in the order of the case.
    fn accept_all(&self, cases: &[Case], ways: &[Vec<Way>]) -> Found<HashMap<(usize, usize, usize), VecDeque<JobId>>> {
        let mut accepted: HashMap<(usize, usize, usize), VecDeque<JobId>> = HashMap::new();
        for (number, case) in cases.iter().enumerate().filter(|(_, case)| case.orders_by_reception()) {
            for (way, drawn) in ways[number].iter().enumerate().filter(|(_, drawn)| drawn.how != How::AtOnce) {
                for (place, delivery) in case.deliveries.iter().enumerate() {
                    let source = &case.definition["sources"][&delivery.source];
                    let whole = source.get("replaces").is_some();
                    for part in parts(source, delivery, drawn.apart && !whole) {
                        let job = self.accept(number, &self.tenant(number, way), source, &part)?;
                        accepted.entry((number, way, place)).or_default().push_back(job);
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
            if began.elapsed() > PATIENCE || failed() {
                stop.store(true, Ordering::SeqCst);
            }
        };
        let ran = work::run(&self.catalogue, &*self.store, &options, &stop, &watch);
        ran.map_err(|error| Fault { case: None, what: format!("{}: workers: {error}", self.kind) })
    }

    fn deliver(&self, number: usize, tenant: &Tenant, (source, profile): (&Json, Option<&str>), delivery: &Delivery) -> Found<PendingDelivery> {
        let text = documents::file(source, &delivery.documents);
        let upload = UploadRequest {
            name: "file".into(),
            size: None,
            profile: profile.map(str::to_owned),
            source: Some(delivery.source.clone()),
            tenant: tenant.clone(),
            as_of: Some(delivery.as_of * 1_000_000),
            retires_all: false,
        };
        let wrong = |error: String| Fault { case: Some(number), what: format!("{}: documents at once: {error}", self.kind) };
        let mapped = deliver::map(&self.rules, &*self.store, &upload, "test", text.into()).map_err(|error| wrong(error.to_string()))?;
        mapped.submit(&*self.store).map_err(|error| wrong(error.to_string()))
    }

    /// Opens the file of a delivery.
    fn open(&self, number: usize, source: &Json, delivery: &Delivery) -> Found<(JobFile, OpenedInput)> {
        let text = documents::file(source, &delivery.documents);
        let opened = stook_formats::read::open_bytes(Box::new(Cursor::new(text.clone())));
        let opened = opened.or_else(|error| fault(number, format!("{}: an import: {error}", self.kind)))?;
        let file = JobFile {
            path: "file".into(),
            size: text.len() as u64,
            modified: delivery.as_of * 1_000_000,
            syntax: opened.syntax.map(|syntax| syntax.name().to_owned()),
            compressed: true,
            part: None,
            retires_all: false,
        };
        Ok((file, opened))
    }

    /// Creates the job of a delivery.
    fn accept(&self, number: usize, tenant: &Tenant, source: &Json, delivery: &Delivery) -> Found<JobId> {
        let (file, _) = self.open(number, source, delivery)?;
        let new = NewJob {
            tenant: tenant.clone(),
            profile: None,
            source: delivery.source.clone(),
            as_of: Some(delivery.as_of * 1_000_000),
            files: vec![file],
        };
        self.store.create_job(new).or_else(|error| fault(number, format!("{}: an import: {error}", self.kind)))
    }

    /// Splits the file of a delivery into the chunks of its job.
    fn cut(&self, number: usize, job: JobId, source: &Json, (delivery, chunk): (&Delivery, u32)) -> Found<()> {
        let (file, opened) = self.open(number, source, delivery)?;
        let wrong = |error: String| Fault { case: Some(number), what: format!("{}: an import: {error}", self.kind) };
        let (_, own) = self.catalogue.source(&delivery.source).ok_or_else(|| wrong("no source".into()))?;
        let cut = split::split_stream(opened, &file, own, chunk, |chunks, progress| {
            self.store.add_chunks(job, chunks, progress)?;
            Ok(true)
        });
        cut.map_err(|error| wrong(error.to_string()))
    }

    /// Returns all records of a case's collections, including coverages.
    pub fn see(&self, number: usize, tenant: &Tenant, case: &Case) -> Found<Json> {
        let mut seen = json!({});
        let own = |name: &str| case.definition["collections"].get(name.split('.').next().unwrap_or_default()).is_some();
        for (index, collection) in self.catalogue.collections.enumerate().filter(|(_, collection)| own(&collection.name)) {
            let mut plan = QueryPlan::all(tenant.clone(), index);
            let fields: Vec<FieldId> = collection.shown_fields().map(|(index, _)| index).collect();
            plan.columns = [PlanColumn::Key, PlanColumn::Conflict].into_iter().chain(fields.iter().map(|field| PlanColumn::Field(*field))).collect();
            plan.columns.extend((0..collection.states.len()).map(PlanColumn::State));
            let found = self.store.find(&plan).or_else(|error| fault(number, format!("{}: {}: {error}", self.kind, collection.name)))?;
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
    fn edit(&self, cases: &[Case], first: &[Json], told: &mut [Told]) -> Found<()> {
        let mut done: Vec<Vec<(&Edit, &str)>> = vec![Vec::new(); cases.len()];
        for turn in 0..cases.iter().map(|case| case.edits.len()).max().unwrap_or_default() {
            for (number, case) in cases.iter().enumerate() {
                let Some(edit) = case.edits.get(turn) else { continue };
                let Edit { collection, place, method, body, clear } = edit;
                let keys: Vec<&String> = first[number][collection].as_object().into_iter().flat_map(|records| records.keys()).collect();
                if keys.is_empty() {
                    continue;
                }
                let key = keys[*place as usize % keys.len()];
                let clear = clear.as_ref().filter(|_| method != "DELETE").map(|field| format!("?clear={field}")).unwrap_or_default();
                let path = format!("{collection}/{}{clear}", requests::segment(key));
                let answer = requests::change(self, &self.tenant(number, 0), method, &path, body);
                let (status, _) = answer.or_else(|wrong| fault(number, wrong))?;
                told[number].push((format!("the status of {method} {path} {body}"), json!(status)));
                if (200..300).contains(&status) {
                    done[number].push((edit, key));
                }
            }
            self.settle()?;
        }
        for (number, case) in cases.iter().enumerate() {
            let tenant = self.tenant(number, 0);
            let seen = self.see(number, &tenant, case)?;
            oracle::compare(case, &done[number], &seen).or_else(|wrong| fault(number, format!("{}: after edits: {wrong}", self.kind)))?;
            let again = requests::questions(self, &tenant, case, (&first[number], false)).or_else(|wrong| fault(number, wrong))?;
            told[number].extend(again.into_iter().map(|(what, answer)| (format!("{what}, after edits"), answer)));
            told[number].extend(requests::transitions(self, &tenant, case, &first[number]).or_else(|wrong| fault(number, wrong))?);
        }
        for (number, case) in cases.iter().enumerate() {
            for (name, profile) in case.definition["profiles"].as_object().into_iter().flatten() {
                let source = &case.definition["sources"][profile["source"].as_str().unwrap_or_default()];
                let delivery = case.deliveries.iter().find(|delivery| profile["source"] == delivery.source.as_str());
                let Some(delivery) = delivery.filter(|_| source.get("replaces").is_none()) else { continue };
                let underway = self.deliver(number, &self.tenant(number, 0), (source, Some(name)), delivery)?;
                let ended = RUNTIME.block_on(underway.end()).or_else(|error| fault(number, format!("{}: by profile {name}: {error}", self.kind)))?;
                told[number].push((format!("counts of profile {name}"), json!(format!("{:?}", ended.counts))));
            }
        }
        self.settle()?;
        for (number, case) in cases.iter().enumerate() {
            told[number].push(("records after edits".to_owned(), self.see(number, &self.tenant(number, 0), case)?));
        }
        Ok(())
    }

    /// Withdraws the first source of each case from its second way: the result must be the same as if it had never contributed.
    fn forget(&self, cases: &[Case], ways: &[Vec<Way>]) -> Found<()> {
        let mut without: Vec<(usize, Case)> = Vec::new();
        // documents that failed because of a unique value of other documents are not processed later
        let is_law = |(number, case): &(usize, &Case)| ways[*number].len() > 1 && !case.has_unique();
        for (number, case) in cases.iter().enumerate().filter(is_law) {
            // documents embedded in its documents belong to other sources
            let first = case.definition["sources"].as_object().and_then(|sources| sources.iter().next());
            let Some((source, _)) = first.filter(|(_, source)| source.get("embeds").is_none()) else { continue };
            let done = withdraw::withdraw(
                &self.catalogue,
                &*self.store,
                &WithdrawalRequest { tenant: &self.tenant(number, 1), contributor: source, collection: None, key: None },
                &|_| (),
            );
            done.or_else(|error| fault(number, format!("{}: withdrawing {source}: {error}", self.kind)))?;
            let mut left = case.clone();
            left.deliveries.retain(|delivery| delivery.source != *source);
            without.push((number, left));
        }
        self.settle()?;
        for (number, left) in without {
            let seen = self.see(number, &self.tenant(number, 1), &left)?;
            oracle::compare(&left, &[], &seen).or_else(|wrong| fault(number, format!("{}: without its first source: {wrong}", self.kind)))?;
        }
        Ok(())
    }

    /// Withdraws the first source of each case, then the edits.
    fn withdraw(&self, cases: &[Case], told: &mut [Told]) -> Found<()> {
        for is_api in [false, true] {
            for (number, case) in cases.iter().enumerate() {
                let first = case.definition["sources"].as_object().and_then(|sources| sources.keys().next());
                let source = if is_api { Some("api") } else { first.map(String::as_str) };
                let Some(source) = source else { continue };
                let tenant = self.tenant(number, 0);
                let done = withdraw::withdraw(
                    &self.catalogue,
                    &*self.store,
                    &WithdrawalRequest { tenant: &tenant, contributor: source, collection: None, key: None },
                    &|_| (),
                );
                done.or_else(|error| fault(number, format!("{}: withdrawing {source}: {error}", self.kind)))?;
            }
            self.settle()?;
            for (number, case) in cases.iter().enumerate() {
                let what = if is_api { "records without api" } else { "records without their first source" };
                told[number].push((what.to_owned(), self.see(number, &self.tenant(number, 0), case)?));
                let tagged = requests::tagged(self, &self.tenant(number, 0), case, &["red", "deep", "joined", "blue"])
                    .or_else(|wrong| fault(number, wrong))?;
                told[number].extend(tagged.into_iter().map(|(query, answer)| (format!("{query} of {what}"), answer)));
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
fn ways(case: &Case, seed: u64, most: usize) -> Vec<Way> {
    let number = case.deliveries.len();
    let mut random = Random::of_item(seed, 7);
    let straight: Vec<usize> = (0..number).collect();
    let mut orders: Vec<Vec<usize>> = if number <= 4 { permutations(number) } else { vec![straight.clone()] };
    if number > 4 {
        orders.extend((0..DRAWN).map(|_| shuffled(&mut random, &straight)));
    }
    // the first document gets a unique value
    let has_unique = case.has_unique();
    if has_unique {
        orders.truncate(1);
    }
    // only some of them on a server, including the last one
    if orders.len() > most {
        let last = orders.len() - 1;
        orders = [random.below(last as u64) as usize, last].into_iter().map(|place| orders[place].clone()).collect();
    }
    // jobs cost more if a commit is a round trip, so the first way is concurrent there
    let first = if most == usize::MAX || has_unique { How::Jobs } else { How::Together };
    let mut ways: Vec<Way> = vec![Way { order: straight.clone(), how: first, chunk: 1_000, workers: 1, apart: false }];
    for order in orders {
        let how = *random.one(&[How::AtOnce, How::AtOnce, How::AtOnce, How::AtOnce, How::AtOnce, How::Jobs, How::Together]);
        // work of several workers has no order
        let how = match how {
            How::Together if has_unique => How::Jobs,
            How::Jobs if most != usize::MAX => How::AtOnce,
            how => how,
        };
        // a delivery without a job is accepted when it is written
        let how = if how == How::AtOnce && case.orders_by_reception() && order != straight { How::Jobs } else { how };
        // which of a file's documents gets a unique value depends on the chunks
        let (chunk, apart) = if has_unique { (1_000, false) } else { (*random.one(&[1, 2, 1_000]), random.per_mille(300)) };
        ways.push(Way { order, how, chunk, workers: *random.one(&[1, 2, 3]), apart });
    }
    ways
}

fn shuffled(random: &mut Random, order: &[usize]) -> Vec<usize> {
    let mut order = order.to_vec();
    for place in (1..order.len()).rev() {
        order.swap(place, random.below(place as u64 + 1) as usize);
    }
    order
}

fn permutations(number: usize) -> Vec<Vec<usize>> {
    if number == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(number - 1) {
        for place in (0..=shorter.len()).rev() {
            let mut order = shorter.clone();
            order.insert(place, number - 1);
            all.push(order);
        }
    }
    all
}

/// Whether a response has sums, whose last digits depend on the order in which a store adds floats (documented in docs/definition.md).
fn sums_floats(what: &str) -> bool {
    what.contains("sum%28") || what.contains("avg%28")
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
