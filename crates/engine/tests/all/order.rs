//! The law of imports: what a job leaves behind and what it counts depend on what the store contained before it and on the job's documents, never
//! on how they were split into chunks, in which order chunks were committed, or what chunks had read before.
//!
//! Every history is compared with an oracle that knows nothing about chunks: it looks at all documents of a job at once.

use crate::support;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::{Catalogue, OnMatched, OnUnmatched};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::{CollectionId, FieldId, SourceId};
use stook_catalogue::parse::parse;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Reception, Retirement, UnreadableField};
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::Value;
use stook_engine::chunk::map::{DocumentMapper, Envelope};
use stook_engine::chunk::{ChunkInput, ChunkUnit};
use stook_engine::job::{ImportPolicy, JobContext, NO_JOB};
use stook_engine::merge::NewContribution;
use stook_engine::settle::SettleRules;
use stook_formats::scan::Scanner;
use stook_formats::{Document, ParseContext, Syntax};
use stook_store::journal::{ChunkJournal, OUTCOMES, Outcome, OutcomeCounts, unpack};
use stook_store::plan::QueryPlan;
use stook_store::queue::{ChunkSlice, JobFile, JobId, JobState, NewChunk, NewJob, SplitProgress};
use stook_store::{LeaseToken, Priority, ReadDetail, Store, Tenant};

/// `dated` takes the as-of time from its documents, `delivered` from the delivery, and `received` from its documents, ordered by reception if
/// the times are equal. All have several contributors.
const DEFINITION: &str = "\
catalogue: orders
sources:
  dated:
    format: json
    let: { part: { path: $.part, type: text }, at: { path: $.at, type: timestamp, format: epoch }, said: { path: $.said, type: text } }
    gone: \"said == 'gone'\"
    as_of: at
    contributor: \"{part}\"
    into: thing
  delivered:
    format: json
    let: { part: { path: $.part, type: text }, said: { path: $.said, type: text } }
    gone: \"said == 'gone'\"
    as_of: meta.received
    contributor: \"{part}\"
    into: thing
  received:
    format: json
    let: { part: { path: $.part, type: text }, at: { path: $.at, type: timestamp, format: epoch }, said: { path: $.said, type: text } }
    gone: \"said == 'gone'\"
    as_of: [at, meta.received]
    contributor: \"{part}\"
    into: thing
collections:
  thing:
    key: id
    fields:
      id: text
      text: text
      first: { path: $.text, type: text, survivorship: earliest }
      all: { path: $.text, type: [text], survivorship: union }
      each: { path: $.text, type: text, survivorship: by_contributor }
      spots: { path: $.spots, type: [{ at: text, part: text }], by: at }
      number: { path: $.n, type: integer }
      oldest: { path: $.n, type: integer, survivorship: earliest }
      numbers: { path: $.n, type: [integer], survivorship: union }
";

const SECOND: i64 = 1_000_000;

#[derive(Debug, Clone)]
struct Doc {
    id: &'static str,
    part: &'static str,
    /// Its as-of time in seconds; 0 for a document without one.
    at: i64,
    text: &'static str,
    /// A number as JSON, an empty text, or a text that is no number.
    n: &'static str,
    gone: bool,
}

impl Doc {
    fn json(&self) -> String {
        let said = if self.gone { "gone" } else { "values" };
        let at = if self.at == 0 { "null".to_owned() } else { self.at.to_string() };
        format!(
            r#"{{"id":"{0}","part":"{1}","at":{at},"said":"{said}","text":"{2}","spots":[{{"at":"{2}","part":"{1}"}}],"n":{3}}}"#,
            self.id, self.part, self.text, self.n
        )
    }
}

#[derive(Debug, Clone)]
struct Delivery {
    source: SourceId,
    as_of: i64,
    matched: OnMatched,
    unmatched: OnUnmatched,
    docs: Vec<Doc>,
}

/// How the chunks of a job are made and committed.
#[derive(Debug, Clone)]
struct Schedule {
    /// Documents of each chunk; the last number is repeated.
    sizes: Vec<usize>,
    /// Decides the order of commits.
    order: Vec<u16>,
    /// When a chunk reads the store.
    reads: Vec<Reads>,
    /// Whether chunks are submitted to the store all at once, so that they share a transaction.
    together: bool,
    /// Whether everything is written while the caller waits, without a job, and if so, whether stored records are read before.
    at_once: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// Before any other chunk is committed.
    Early,
    /// Immediately before its own commit.
    Late,
    /// Not at all, if that is allowed.
    Never,
}

impl Reads {
    fn consolidate(self, chunk: &mut ChunkUnit, store: &dyn Store) {
        let read =
            if self == Self::Never && chunk.may_consolidate_unread() { chunk.consolidate_unread(Some(store)) } else { chunk.consolidate(store) };
        read.expect("consolidated");
        chunk.prepare();
    }
}

/// A delivery that waits to be processed.
struct Accepted {
    job: JobId,
    file: JobFile,
    context: JobContext,
}

/// How a delivery was written.
enum Ran {
    Job(JobId),
    AtOnce(ChunkJournal),
}

impl Schedule {
    fn one_chunk() -> Self {
        Self { sizes: vec![usize::MAX], order: vec![0], reads: vec![Reads::Late], together: false, at_once: None }
    }
}

struct Desk {
    catalogue: Arc<Catalogue>,
    /// Several connections to one store. Chunks are submitted to them in turn, so that their transactions overlap if the store allows it.
    stores: Vec<Box<dyn Store>>,
}

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

/// One store for all cases; each case has its own tenant.
static DESK: LazyLock<Desk> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_file(&support::folder("order"), &catalogue, 1);
    Desk { catalogue, stores }
});

/// Three connections to one server, as three processes have them; `None` if PostgreSQL is not installed.
static SERVER_DESK: LazyLock<Option<Desk>> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_server("orders", &catalogue)?;
    Some(Desk { catalogue, stores })
});

/// What is compared: the outcomes for every key, and golden fields with existence.
#[derive(Debug, Clone, PartialEq, Default)]
struct Seen {
    /// Sorted names of the outcomes of each job's documents, by job and key.
    outcomes: BTreeMap<(usize, String), Vec<&'static str>>,
    records: Records,
}

/// Golden fields by key, and whether the record exists.
type Records = BTreeMap<String, (bool, Vec<Value>)>;

impl Desk {
    fn store(&self, turn: usize) -> &dyn Store {
        &*self.stores[turn % self.stores.len()]
    }

    fn tenant(&self) -> Tenant {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
    }

    fn context(&self, tenant: &Tenant, delivery: &Delivery, (job, accepted): (JobId, i64)) -> JobContext {
        let policy = ImportPolicy { job, matched: delivery.matched, unmatched: delivery.unmatched };
        let rules = Arc::new(SettleRules::new(&self.catalogue));
        let (tenant, received) = (tenant.clone(), delivery.as_of * SECOND);
        JobContext { rules, tenant, source: delivery.source, policy, received, accepted, match_ratio: Arc::default() }
    }

    /// Writes a delivery in one unit, as `stook_engine::deliver` does.
    fn run_at_once(&self, tenant: &Tenant, delivery: &Delivery, reads: bool) -> Ran {
        let text: String = delivery.docs.iter().map(|doc| doc.json() + "\n").collect();
        let file = JobFile { path: "documents".into(), size: 0, modified: 0, syntax: Some("json".into()), ..JobFile::default() };
        let slice = ChunkSlice { length: text.len() as u64, is_last: true, ..ChunkSlice::default() };
        let input = ChunkInput { slice: &slice, file: &file, bytes: Some(text.into()) };
        let context = self.context(tenant, delivery, (NO_JOB, self.store(0).clock()));
        let mut chunk = ChunkUnit::map(&context, self.store(0), &input, None).expect("mapped");
        if reads { Reads::Late } else { Reads::Never }.consolidate(&mut chunk, self.store(0));
        let pending = self.store(0).submit(Box::new(chunk), Priority::Interactive);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (_, mut unit) = runtime.block_on(pending.committed()).expect("written");
        Ran::AtOnce(unit.journal().expect("a journal").clone())
    }

    /// Runs a delivery as a job and checks that its counts and its journal agree.
    fn run(&self, tenant: &Tenant, delivery: &Delivery, schedule: &Schedule) -> Ran {
        if let Some(reads) = schedule.at_once {
            return self.run_at_once(tenant, delivery, reads);
        }
        let accepted = self.accept(tenant, delivery, &schedule.sizes);
        let job = accepted.job;
        self.process(vec![(accepted, schedule)]);
        Ran::Job(job)
    }

    /// Creates a job for a delivery, with chunks of these sizes.
    fn accept(&self, tenant: &Tenant, delivery: &Delivery, sizes: &[usize]) -> Accepted {
        let source = &self.catalogue.sources[delivery.source];
        let file = JobFile { path: "documents".into(), size: 0, modified: 0, syntax: Some("json".into()), compressed: true, ..JobFile::default() };
        let new = NewJob {
            tenant: tenant.clone(),
            profile: None,
            source: source.name.clone(),
            as_of: Some(delivery.as_of * SECOND),
            files: vec![file.clone()],
        };
        let job = self.store(0).create_job(new).expect("a job");
        let chunks = cut(&delivery.docs, sizes);
        let progress =
            SplitProgress { file: 1, documents: delivery.docs.len() as u64, chunks: chunks.len() as u32, complete: true, ..SplitProgress::default() };
        self.store(0).add_chunks(job, chunks, progress).expect("chunks");
        // as the worker reads it
        let created = self.store(0).job(job).expect("the job").created;
        Accepted { job, file, context: self.context(tenant, delivery, (job, created)) }
    }

    /// Processes the chunks of jobs in the order of their schedules: a chunk of one job may come between two of another.
    fn process(&self, jobs: Vec<(Accepted, &Schedule)>) {
        let mut mapped: Vec<(u16, Reads, ChunkUnit)> = Vec::new();
        let together = jobs.iter().any(|(_, schedule)| schedule.together);
        for (Accepted { job, file, context }, schedule) in jobs {
            let leases = self.store(0).lease(Some(job), 100, 600).expect("leases");
            for (index, lease) in leases.iter().enumerate() {
                let input = ChunkInput { slice: &lease.slice, file: &file, bytes: None };
                let fence = LeaseToken { chunk: lease.chunk, token: lease.token };
                let mut chunk = ChunkUnit::map(&context, self.store(index), &input, Some(fence)).expect("mapped");
                let reads = schedule.reads[index % schedule.reads.len()];
                if reads == Reads::Early {
                    reads.consolidate(&mut chunk, self.store(index));
                }
                mapped.push((schedule.order[index % schedule.order.len()], reads, chunk));
            }
        }
        mapped.sort_by_key(|(place, ..)| *place);
        let mut waiting = Vec::new();
        for (turn, (_, reads, mut chunk)) in mapped.into_iter().enumerate() {
            if reads != Reads::Early {
                reads.consolidate(&mut chunk, self.store(turn));
            }
            if together {
                waiting.push(self.store(turn).submit(Box::new(chunk), Priority::Bulk));
            } else {
                self.store(turn).commit(Box::new(chunk)).expect("committed");
            }
        }
        waiting.into_iter().for_each(|pending| assert!(pending.wait().is_ok()));
    }

    fn see(&self, tenant: &Tenant, runs: &[Ran]) -> Seen {
        let mut seen = Seen::default();
        for (number, ran) in runs.iter().enumerate() {
            let job = match ran {
                Ran::Job(job) => job,
                Ran::AtOnce(journal) => {
                    let mut counted =
                        OutcomeCounts { documents: journal.counts.documents, warnings: journal.counts.warnings, ..OutcomeCounts::default() };
                    for line in unpack(&journal.packed_outcomes).expect("lines") {
                        counted.add(line.outcome, 1);
                        seen.outcomes.entry((number, line.key.to_string())).or_default().push(line.outcome.name());
                    }
                    assert_eq!(journal.counts, counted, "the counts are those of the lines");
                    assert_eq!(journal.corrections, [], "nothing that was answered before is corrected");
                    continue;
                }
            };
            let stored = self.store(0).job(*job).expect("the job");
            let mut counted = OutcomeCounts { documents: stored.counts.documents, warnings: stored.counts.warnings, ..OutcomeCounts::default() };
            let entries = self.store(0).journal(*job, 0, usize::MAX, false).expect("its journal");
            let documents: Vec<u64> = entries.iter().map(|entry| entry.document).collect();
            assert_eq!(documents, (1..=stored.counts.documents as u64).collect::<Vec<_>>(), "the journal has every document once");
            for entry in entries {
                counted.add(entry.outcome, 1);
                let key = entry.key.unwrap_or_default();
                seen.outcomes.entry((number, key)).or_default().push(entry.outcome.name());
            }
            assert_eq!(stored.counts, counted, "the counts are those of the journal");
            let failed = stored.counts.of(Outcome::Failed) > 0;
            assert_eq!(stored.state, if failed { JobState::CompletedWithErrors } else { JobState::Completed });
        }
        seen.outcomes.values_mut().for_each(|outcomes| outcomes.sort_unstable());
        seen.records = self.records(tenant);
        seen
    }

    fn records(&self, tenant: &Tenant) -> Records {
        let mut records = Records::new();
        let found = self.store(0).find(&QueryPlan::all(tenant.clone(), CollectionId::from(0))).expect("records");
        let living: Vec<&str> = found.rows.iter().filter_map(|row| row[0].as_text()).collect();
        let keys: Vec<_> = KEYS.iter().map(|key| stook_catalogue::key::Key::new(*key).expect("a key")).collect();
        for record in self.store(0).read(tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("records").into_iter().flatten() {
            assert_eq!(record.exists, living.contains(&record.key.as_str()), "queries see exactly the records that exist");
            records.insert(record.key.to_string(), (record.exists, record.golden));
        }
        records
    }

    /// The records after deliveries that are accepted one after the other and processed later.
    fn run_mixed(&self, history: &[Delivery], schedules: &[Schedule]) -> Records {
        let tenant = self.tenant();
        let accept = |(delivery, schedule): (&Delivery, _)| {
            let schedule: &Schedule = schedule;
            (self.accept(&tenant, delivery, &schedule.sizes), schedule)
        };
        let jobs: Vec<(Accepted, &Schedule)> = history.iter().zip(schedules).map(accept).collect();
        self.process(jobs);
        self.records(&tenant)
    }

    fn run_all(&self, history: &[Delivery], schedules: &[Schedule]) -> Seen {
        let tenant = self.tenant();
        let runs: Vec<Ran> = history.iter().zip(schedules).map(|(delivery, schedule)| self.run(&tenant, delivery, schedule)).collect();
        self.see(&tenant, &runs)
    }
}

fn cut(docs: &[Doc], sizes: &[usize]) -> Vec<NewChunk> {
    let head = Scanner::new(Syntax::Json, None).head();
    let mut chunks = Vec::new();
    let mut before = 0;
    let mut rest = docs;
    while !rest.is_empty() {
        let size = sizes[chunks.len().min(sizes.len() - 1)].min(rest.len());
        let (own, others) = rest.split_at(size);
        rest = others;
        let text: String = own.iter().map(|doc| doc.json() + "\n").collect();
        let slice = ChunkSlice {
            file: 0,
            offset: before * 1_000,
            length: text.len() as u64,
            file_documents: before,
            documents_before: before,
            documents: size as u32,
            is_last: false,
            head: head.clone(),
            payload: Some(zstd::bulk::compress(text.as_bytes(), 1).expect("memory")),
        };
        before += size as u64;
        chunks.push(NewChunk { ordinal: chunks.len() as u32 + 1, slice });
    }
    chunks
}

// --- the oracle ---------------------------------------------------------------------------------------------------------

/// By key and contributor, all contributions that were not withdrawn; the newest last.
type Known = BTreeMap<String, Voices>;
type Voices = BTreeMap<String, Vec<Statement>>;

/// A contribution; if it is ordered by reception, with the positions of its delivery and of its document in that.
#[derive(Debug, Clone)]
struct Statement {
    contribution: NewContribution,
    received: Option<(usize, usize)>,
}

impl std::ops::Deref for Statement {
    type Target = NewContribution;

    fn deref(&self) -> &NewContribution {
        &self.contribution
    }
}

/// The expected result of all documents of a job at once, given what was stored before the job.
fn expected(catalogue: &Catalogue, history: &[Delivery]) -> Seen {
    let evaluator = Evaluator::new(catalogue.tables.clone());
    let consolidator = Consolidator::new(catalogue, &catalogue.collections[CollectionId::from(0)], &evaluator);
    let mut store: Known = BTreeMap::new();
    let mut seen = Seen::default();
    for (number, delivery) in history.iter().enumerate() {
        let mut by_key: BTreeMap<String, Vec<Statement>> = BTreeMap::new();
        for statement in contributions_of_delivery(catalogue, delivery, number) {
            by_key.entry(statement.key.to_string()).or_default().push(statement);
        }
        for (key, incoming) in by_key {
            let before = store.get(&key).cloned().unwrap_or_default();
            let existed = consolidator.golden_record(&contributions(&before)).alive;
            let alive = |now: &Voices| consolidator.golden_record(&contributions(now)).alive;
            let mut outcomes = outcomes(delivery, (existed, &alive), &before, &incoming, store.entry(key.clone()).or_default());
            outcomes.sort_unstable();
            if store[&key].is_empty() {
                store.remove(&key);
            }
            seen.outcomes.insert((number, key), outcomes);
        }
    }
    for (key, incoming) in store {
        let golden = consolidator.golden_record(&contributions(&incoming));
        seen.records.insert(key, (golden.alive, golden.values.to_vec()));
    }
    seen
}

fn outcomes(
    delivery: &Delivery,
    (existed, alive): (bool, &dyn Fn(&Voices) -> bool),
    before: &Voices,
    incoming: &[Statement],
    now: &mut Voices,
) -> Vec<&'static str> {
    let all = |name: &'static str| vec![name; incoming.len()];
    let mut by_contributor: BTreeMap<String, Vec<&Statement>> = BTreeMap::new();
    for statement in incoming {
        by_contributor.entry(statement.contributor.to_string()).or_default().push(statement);
    }
    match (existed, delivery.matched, delivery.unmatched) {
        (_, OnMatched::Withdraw, OnUnmatched::Skip) => {
            let mut outcomes = all("skipped");
            let taken = by_contributor.keys().filter(|contributor| now.remove(*contributor).is_some()).count();
            outcomes[..taken].fill("withdrawn");
            return outcomes;
        }
        (true, OnMatched::Skip, _) | (false, _, OnUnmatched::Skip) => return all("skipped"),
        (true, OnMatched::Fail, _) | (false, _, OnUnmatched::Fail) => return all("failed"),
        _ => {}
    }
    let mut outcomes = Vec::new();
    // contributions with values that have no effect because the record is deleted nevertheless
    let mut effective = Vec::new();
    for (contributor, incoming) in by_contributor {
        let all = now.entry(contributor.clone()).or_default();
        all.extend(incoming.iter().map(|statement| (*statement).clone()));
        all.sort_by_key(age);
        let previous = before.get(&contributor).and_then(|all| all.last());
        let (newer, older): (Vec<&Statement>, Vec<&Statement>) =
            incoming.into_iter().partition(|statement| previous.is_none_or(|previous| age(statement) > age(previous)));
        outcomes.extend(older.iter().map(|statement| {
            let is_same = previous.is_some_and(|previous| previous.hash == statement.hash);
            if is_same { "unchanged" } else { "superseded" }
        }));
        let Some(winner) = newer.iter().max_by_key(|statement| age(statement)) else { continue };
        outcomes.extend(std::iter::repeat_n("superseded", newer.len() - 1));
        effective.extend((!is_deletion(winner)).then_some(outcomes.len()));
        outcomes.push(match previous {
            Some(previous) if is_deletion(winner) && is_deletion(previous) => "unchanged",
            _ if is_deletion(winner) => "deleted",
            _ if !existed => "created",
            Some(previous) if previous.hash == winner.hash => "unchanged",
            _ => "updated",
        });
    }
    if !alive(now) {
        for position in effective {
            if outcomes[position] != "unchanged" {
                outcomes[position] = "superseded";
            }
        }
    }
    outcomes
}

fn is_deletion(statement: &Statement) -> bool {
    statement.content == ContributionContent::Tombstone
}

fn age(statement: &Statement) -> (i64, Option<(usize, usize)>, [u8; 16]) {
    (statement.as_of, statement.received, statement.hash)
}

/// The contributions of a delivery that was accepted after this many others.
fn contributions_of_delivery(catalogue: &Catalogue, delivery: &Delivery, number: usize) -> Vec<Statement> {
    let evaluator = Evaluator::new(catalogue.tables.clone());
    let mapper = DocumentMapper::new(catalogue, delivery.source, &evaluator);
    let is_ordered = catalogue.sources[delivery.source].name == "received";
    let map_document = |(position, doc): (usize, &Doc)| {
        let text = bytes::Bytes::from(doc.json());
        let document = Document::parse(&text, Syntax::Json, &ParseContext::default()).expect("JSON");
        let envelope = Envelope {
            name: "documents",
            ordinal: 1,
            received: delivery.as_of * SECOND,
            now: i64::MAX,
            partial_list: None,
            arguments: &Default::default(),
        };
        let mapped = mapper.map(&document, &text, Syntax::Json, &envelope);
        assert_eq!(mapped.failed, None);
        mapped.contributions.into_iter().map(move |mut contribution| {
            if delivery.matched == OnMatched::Delete {
                contribution.delete();
            }
            Statement { contribution, received: is_ordered.then_some((number, position)) }
        })
    };
    delivery.docs.iter().enumerate().flat_map(map_document).collect()
}

fn contributions(by_contributor: &Voices) -> Vec<Contribution> {
    let contribution = |all: &Vec<Statement>| {
        let (newest, older) = all.split_last().expect("something was said");
        Contribution {
            contributor: newest.contributor.clone(),
            as_of: newest.as_of,
            received: reception(newest).map(|received| received.at),
            hash: newest.hash,
            generation: 1,
            origin: reception(newest).map_or_else(ContributionOrigin::default, |received| received.origin),
            before: None,
            retired: Retirement::None,
            content: newest.content.clone(),
            raw: None,
            unreadable: newest.unreadable.iter().map(|field| last_read(*field, newest, older)).collect(),
            corrections: Vec::new(),
        }
    };
    by_contributor.values().map(contribution).collect()
}

fn reception(statement: &Statement) -> Option<Reception> {
    let (delivery, position) = statement.received?;
    Some(Reception { at: delivery as i64, origin: ContributionOrigin { job: 0, document: position as u64 } })
}

/// The value of the newest older contribution in which the field could be read.
fn last_read(field: FieldId, newest: &Statement, older: &[Statement]) -> UnreadableField {
    let read = older.iter().rev().find(|own| age(own) < age(newest) && !own.unreadable.contains(&field));
    let Some(read) = read else { return UnreadableField::new(field) };
    let value = if let ContributionContent::Values(values) = &read.content { values[field].clone() } else { Value::Null };
    UnreadableField { field, as_of: read.as_of, received: reception(read), hash: read.hash, value }
}

// --- histories ----------------------------------------------------------------------------------------------------------

const KEYS: [&str; 2] = ["a", "b"];

fn doc() -> impl Strategy<Value = Doc> {
    let words = (prop::sample::select(KEYS.to_vec()), prop::sample::select(vec!["x", "x", "y"]), prop::sample::select(vec!["p", "q", "r"]));
    let numbers = prop::sample::select(vec!["null", "1", "2", "\"one\"", "\"one\""]);
    (words, numbers, 0i64..4, prop::bool::weighted(0.25)).prop_map(|((id, part, text), n, at, gone)| Doc { id, part, at, text, n, gone })
}

fn delivery() -> impl Strategy<Value = Delivery> {
    let policy = prop_oneof![
        6 => Just((OnMatched::Update, OnUnmatched::Create)),
        1 => Just((OnMatched::Skip, OnUnmatched::Create)),
        1 => Just((OnMatched::Update, OnUnmatched::Skip)),
        1 => Just((OnMatched::Fail, OnUnmatched::Create)),
        1 => Just((OnMatched::Update, OnUnmatched::Fail)),
        1 => Just((OnMatched::Delete, OnUnmatched::Create)),
        1 => Just((OnMatched::Delete, OnUnmatched::Skip)),
        2 => Just((OnMatched::Withdraw, OnUnmatched::Skip)),
    ];
    (0usize..3, 0i64..4, policy, prop::collection::vec(doc(), 1..7)).prop_map(|(source, as_of, (matched, unmatched), mut docs)| {
        if source == 1 {
            // the delivery's time counts; as the documents have no other time, several deliveries contain the same bytes
            docs.iter_mut().for_each(|doc| doc.at = 0);
        }
        Delivery { source: SourceId::from(source), as_of, matched, unmatched, docs }
    })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let sizes = prop::collection::vec(1usize..3, 1..4);
    (
        sizes,
        prop::collection::vec(any::<u16>(), 7),
        prop::collection::vec(prop_oneof![Just(Reads::Early), Just(Reads::Late), Just(Reads::Never)], 7),
        any::<bool>(),
        prop::option::weighted(0.3, any::<bool>()),
    )
        .prop_map(|(sizes, order, reads, together, at_once)| Schedule { sizes, order, reads, together, at_once })
}

fn describe(history: &[Delivery]) -> String {
    history.iter().map(|delivery| format!("{delivery:?}\n")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn counts_and_golden_fields_depend_on_documents_not_on_chunks(
        history in prop::collection::vec(delivery(), 1..4),
        schedules in prop::collection::vec(schedule(), 3),
    ) {
        let wanted = expected(&DESK.catalogue, &history);
        let whole = DESK.run_all(&history, &vec![Schedule::one_chunk(); history.len()]);
        prop_assert_eq!(&whole, &wanted, "in one chunk\n{}", describe(&history));
        let cut = DESK.run_all(&history, &schedules);
        prop_assert_eq!(&cut, &wanted, "in chunks\n{}", describe(&history));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same with overlapping transactions of several connections.
    #[test]
    fn counts_and_golden_fields_do_not_depend_on_the_order_of_commits(
        history in prop::collection::vec(delivery(), 1..4),
        schedules in prop::collection::vec(schedule(), 3),
    ) {
        let Some(desk) = &*SERVER_DESK else { return Ok(()) };
        let wanted = expected(&desk.catalogue, &history);
        let schedules: Vec<Schedule> = schedules.into_iter().map(|schedule| Schedule { together: true, ..schedule }).collect();
        let seen = desk.run_all(&history, &schedules);
        prop_assert_eq!(&seen, &wanted, "{}", describe(&history));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Deliveries that were accepted in one order leave the same records in whatever order they are processed, chunk by chunk.
    #[test]
    fn records_depend_on_the_order_of_acceptance_not_of_processing(
        history in prop::collection::vec(delivery(), 1..5),
        schedules in prop::collection::vec(schedule(), 4),
        on_a_server in prop::bool::weighted(0.2),
    ) {
        let Some(desk) = (if on_a_server { SERVER_DESK.as_ref() } else { Some(&*DESK) }) else { return Ok(()) };
        let upsert = |delivery| Delivery { matched: OnMatched::Update, unmatched: OnUnmatched::Create, ..delivery };
        let history: Vec<Delivery> = history.into_iter().map(upsert).collect();
        let wanted = expected(&desk.catalogue, &history);
        let seen = desk.run_mixed(&history, &schedules);
        prop_assert_eq!(&seen, &wanted.records, "{}", describe(&history));
    }
}

/// A correction of the same as-of time wins whatever it contains, its own file is received again as a newer delivery, and the journal gives the
/// reason why a document is superseded.
#[test]
fn of_documents_with_equal_times_the_last_received_counts() {
    let doc = |text: &'static str| Doc { id: "a", part: "x", at: 5, text, n: "null", gone: false };
    let deliver = |docs: Vec<Doc>| Delivery { source: SourceId::from(2), as_of: 9, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs };
    let one_by_one = |order: &[u16]| Schedule { sizes: vec![1], order: order.to_vec(), reads: vec![Reads::Late], together: false, at_once: None };
    for desk in [Some(&*DESK), SERVER_DESK.as_ref()].into_iter().flatten() {
        for texts in [["p", "q", "r"], ["r", "q", "p"], ["q", "r", "p"], ["p", "q", "p"]] {
            let history = texts.map(|text| deliver(vec![doc(text)]));
            for order in orders(3) {
                let schedules: Vec<Schedule> = order.iter().map(|place| one_by_one(&[*place])).collect();
                assert_eq!(desk.run_mixed(&history, &schedules)["a"].1[1], Value::text(texts[2]), "{texts:?} in the order {order:?}");
            }
            // in one file the last document counts, however the file is split
            let file = [deliver(texts.map(doc).to_vec())];
            for order in orders(3) {
                assert_eq!(desk.run_mixed(&file, &[one_by_one(&order)])["a"].1[1], Value::text(texts[2]), "{texts:?}, chunks {order:?}");
            }
            assert_eq!(desk.run_mixed(&file, &[Schedule::one_chunk()])["a"].1[1], Value::text(texts[2]));
        }
    }
}

#[test]
fn the_journal_names_what_counts_instead_of_a_superseded_document() {
    let doc = |at: i64, text: &'static str| Doc { id: "a", part: "x", at, text, n: "null", gone: false };
    let deliver = |source: usize, docs: Vec<Doc>| Delivery {
        source: SourceId::from(source),
        as_of: 9,
        matched: OnMatched::Update,
        unmatched: OnUnmatched::Create,
        docs,
    };
    let schedule = |order: &[u16], sizes: &[usize]| Schedule {
        sizes: sizes.to_vec(),
        order: order.to_vec(),
        reads: vec![Reads::Late],
        together: false,
        at_once: None,
    };
    for desk in [Some(&*DESK), SERVER_DESK.as_ref()].into_iter().flatten() {
        for source in [0, 2] {
            for (order, sizes) in [(&[0, 1, 2][..], &[1][..]), (&[2, 1, 0], &[1]), (&[1, 0, 2], &[1]), (&[0], &[3])] {
                let tenant = desk.tenant();
                let history = [deliver(source, vec![doc(2, "p"), doc(4, "q"), doc(4, "q")]), deliver(source, vec![doc(3, "r")])];
                let reasons: Vec<(u64, Option<&str>, Vec<String>)> = history
                    .iter()
                    .flat_map(|delivery| {
                        let Ran::Job(job) = desk.run(&tenant, delivery, &schedule(order, sizes)) else { panic!("it is a job") };
                        desk.store(0).journal(job, 0, 10, false).expect("its journal")
                    })
                    .map(|entry| (entry.document, Some(entry.outcome.name()), entry.reasons))
                    .collect();
                let superseded: Vec<&(u64, Option<&str>, Vec<String>)> = reasons.iter().filter(|own| own.1 == Some("superseded")).collect();
                assert_eq!(superseded.len(), 3, "{reasons:?}");
                for (document, _, why) in &superseded[..2] {
                    assert!(
                        why.len() == 1 && why[0].contains(" of the same delivery counts instead, as of 1970-01-01T00:00:04Z"),
                        "{document}: {why:?}"
                    );
                    assert_eq!(why[0].contains(", received 20"), source == 2, "{why:?}");
                    assert_eq!(why[0].contains("and says the same"), source == 0 && *document > 1, "{why:?}");
                }
                let later = &superseded[2].2;
                assert!(later.len() == 1 && later[0].contains(" of job ") && later[0].contains("as of 1970-01-01T00:00:04Z"), "{later:?}");
                assert!(reasons.iter().filter(|own| own.1 != Some("superseded")).all(|own| own.2.is_empty()), "{reasons:?}");
            }
        }
    }
}

/// All orders of up to four chunks.
fn orders(count: usize) -> Vec<Vec<u16>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    (0..count)
        .flat_map(|place| {
            shorter.iter().map(move |order| {
                let mut order = order.clone();
                order.insert(place, count as u16);
                order
            })
        })
        .collect()
}

#[test]
fn every_order_of_four_chunks_gives_the_same_counts() {
    let doc = |at: i64, text: &'static str| Doc { id: "a", part: "x", at, text, n: "null", gone: false };
    let upsert = |docs: Vec<Doc>| Delivery { source: SourceId::from(0), as_of: 0, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs };
    let histories = [
        // a new record; an equal document; an older one; a newer one
        vec![upsert(vec![doc(1, "p"), doc(1, "p"), doc(0, "q"), doc(2, "r")])],
        // the newest contributes what was stored before: it is unchanged, and the others are superseded whatever they contain
        vec![upsert(vec![doc(1, "p")]), upsert(vec![doc(2, "q"), doc(3, "p"), doc(0, "r"), doc(1, "p")])],
        // a deletion between two values
        vec![upsert(vec![doc(1, "p")]), upsert(vec![doc(2, "q"), Doc { gone: true, ..doc(3, "q") }, doc(4, "r"), doc(4, "r")])],
        // the deletion of another contributor, and older contributions
        vec![upsert(vec![doc(1, "p"), Doc { gone: true, part: "y", ..doc(3, "q") }, doc(2, "q"), Doc { part: "z", ..doc(1, "r") }])],
        // until there is a newer contribution
        vec![
            upsert(vec![Doc { gone: true, part: "y", ..doc(3, "q") }]),
            upsert(vec![
                doc(1, "p"),
                Doc { part: "z", ..doc(4, "r") },
                Doc { gone: true, part: "w", ..doc(5, "q") },
                Doc { part: "v", ..doc(6, "r") },
            ]),
        ],
    ];
    for history in histories {
        let wanted = expected(&DESK.catalogue, &history);
        for desk in [Some(&*DESK), SERVER_DESK.as_ref()].into_iter().flatten() {
            for order in orders(4) {
                for (reads, together) in [(Reads::Late, false), (Reads::Early, false), (Reads::Early, true), (Reads::Never, true)] {
                    let schedule = Schedule { sizes: vec![1], order: order.clone(), reads: vec![reads], together, at_once: None };
                    let seen = desk.run_all(&history, &vec![schedule; history.len()]);
                    assert_eq!(seen, wanted, "order {order:?}, reads {reads:?}, together {together}\n{}", describe(&history));
                }
            }
        }
    }
}

/// A contribution older than another contributor's deletion has no effect, and its journal says so, in whatever order the chunks come.
#[test]
fn a_document_older_than_a_deletion_is_superseded_and_the_deletion_is_named() {
    let doc = |part: &'static str, at: i64, gone: bool| Doc { id: "a", part, at, text: "p", n: "null", gone };
    let deliver = |docs: Vec<Doc>| Delivery { source: SourceId::from(0), as_of: 0, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs };
    for desk in [Some(&*DESK), SERVER_DESK.as_ref()].into_iter().flatten() {
        for order in orders(3) {
            let tenant = desk.tenant();
            let schedule = Schedule { sizes: vec![1], order: order.clone(), reads: vec![Reads::Late], together: false, at_once: None };
            let outcomes_of = |docs: Vec<Doc>| {
                let Ran::Job(job) = desk.run(&tenant, &deliver(docs), &schedule) else { panic!("it is a job") };
                let entries = desk.store(0).journal(job, 0, 10, false).expect("its journal");
                (job, entries.into_iter().map(|entry| (entry.outcome.name(), entry.reasons.join("; "))).collect::<Vec<_>>())
            };
            let (job, found) = outcomes_of(vec![doc("x", 1, false), doc("y", 3, true), doc("z", 2, false)]);
            let reason = format!("the deletion by `dated:y` (document 2 of job {job}) counts instead, as of 1970-01-01T00:00:03Z");
            assert_eq!(found, [("superseded", reason.clone()), ("deleted", String::new()), ("superseded", reason)], "{order:?}");
            // another one is superseded, too, unless the job has one that is newer than the deletion
            let (_, found) = outcomes_of(vec![doc("v", 2, false), doc("u", 4, false), doc("t", 1, false)]);
            assert_eq!(found, [("created", String::new()), ("created", String::new()), ("created", String::new())], "{order:?}");
        }
    }
}

/// A deletion that is delivered again changes no content: only its as-of time moves. To the next chunk of the same job, the record must not look
/// as if it had existed.
#[test]
fn a_repeated_tombstone_does_not_create_its_record() {
    let doc = |text: &'static str, gone: bool| Doc { id: "a", part: "x", at: 0, text, n: "null", gone };
    let deliver =
        |as_of: i64, docs: Vec<Doc>| Delivery { source: SourceId::from(1), as_of, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs };
    let other_voice = Doc { part: "y", ..doc("p", false) };
    for living in [doc("p", false), doc("q", false), doc("r", false), other_voice] {
        let history = [deliver(1, vec![doc("p", true)]), deliver(2, vec![doc("p", true), living])];
        let wanted = expected(&DESK.catalogue, &history);
        for order in orders(2) {
            let schedule = Schedule { sizes: vec![1], order, reads: vec![Reads::Late], together: false, at_once: None };
            assert_eq!(DESK.run_all(&history, &[schedule.clone(), schedule.clone()]), wanted, "{schedule:?}\n{}", describe(&history));
        }
    }
}

/// A(1), A(3), then a late B(2). The second A changes nothing, but its as-of time must be kept, or B wins.
#[test]
fn a_newer_contribution_counts_even_if_its_content_is_equal() {
    let doc = |at: i64, text: &'static str| Doc { id: "a", part: "x", at, text, n: "null", gone: false };
    let upsert =
        |doc: Doc| Delivery { source: SourceId::from(0), as_of: 0, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs: vec![doc] };
    let history = [upsert(doc(1, "A")), upsert(doc(3, "A")), upsert(doc(2, "B"))];
    let seen = DESK.run_all(&history, &vec![Schedule::one_chunk(); 3]);
    let outcomes: Vec<&str> = (0..3).map(|job| seen.outcomes[&(job, "a".to_owned())][0]).collect();
    assert_eq!(outcomes, ["created", "unchanged", "superseded"]);
    assert_eq!(seen.records["a"].1[1], Value::text("A"));
}

#[test]
fn an_unreadable_value_keeps_the_last_readable_one_in_every_order_of_arrival() {
    let doc = |at: i64, n: &'static str| Doc { id: "a", part: "x", at, text: "p", n, gone: false };
    // an older good document, a good one, one with an unreadable value, and one that corrects it
    let docs = [doc(0, "1"), doc(1, "2"), doc(2, "\"two\""), doc(3, "3")];
    for count in 1..=docs.len() {
        for order in orders(count) {
            let upsert =
                |docs: Vec<Doc>| Delivery { source: SourceId::from(0), as_of: 0, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs };
            let mut positions: Vec<usize> = (0..count).collect();
            positions.sort_by_key(|position| order[*position]);
            let history: Vec<Delivery> = positions.into_iter().map(|position| upsert(vec![docs[position].clone()])).collect();
            let seen = DESK.run_all(&history, &vec![Schedule::one_chunk(); count]);
            let number = &seen.records["a"].1[6];
            assert_eq!(*number, Value::Int([1, 2, 2, 3][count - 1]), "{}", describe(&history));
        }
    }
}

#[test]
fn the_oracle_produces_every_outcome_except_failed() {
    // guards against an oracle that agrees with everything: the generated histories must reach these outcomes
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let history = prop::collection::vec(delivery(), 1..4).new_tree(&mut runner).expect("a history").current();
        reached.extend(expected(&DESK.catalogue, &history).outcomes.into_values().flatten());
    }
    assert_eq!(reached.len(), OUTCOMES.len(), "{reached:?}");
    assert!(reached.contains(Outcome::Superseded.name()) && reached.contains(Outcome::Withdrawn.name()));
}

#[test]
fn the_source_distinguishes_values_from_tombstones() {
    let deletion = Doc { id: "a", part: "x", at: 1, text: "p", n: "null", gone: true };
    let delivery = Delivery { source: SourceId::from(0), as_of: 0, matched: OnMatched::Update, unmatched: OnUnmatched::Create, docs: vec![deletion] };
    assert_eq!(contributions_of_delivery(&DESK.catalogue, &delivery, 0)[0].content, ContributionContent::Tombstone);
}

/// Fields that the definition does not accept from a source are not kept and do not change the content; expressions and conditions can use them
/// nevertheless.
#[test]
fn a_source_does_not_contribute_to_fields_that_accept_only_other_sources() {
    let text = "\
catalogue: heard
sources:
  loud: &source
    format: json
    as_of: meta.received
    accept: [ { unless: \"only != 'refused'\", do: skip } ]
    into: thing
  quiet: { <<: *source }
collections:
  thing:
    key: id
    fields:
      id: text
      only: { type: text, from: [loud], required: true }
      twice: { expr: only + only, type: text }
";
    let read = |text: &str| parse(text).unwrap_or_else(|problems| panic!("{problems:?}"));
    let contribution_of = |catalogue: &Catalogue, source: SourceId, only: &str| {
        let text = bytes::Bytes::from(format!(r#"{{"id":"a","only":"{only}"}}"#));
        let document = Document::parse(&text, Syntax::Json, &ParseContext::default()).expect("JSON");
        let envelope = Envelope { name: "documents", ordinal: 1, received: 0, now: i64::MAX, partial_list: None, arguments: &Default::default() };
        let evaluator = Evaluator::new(catalogue.tables.clone());
        let mapped = DocumentMapper::new(catalogue, source, &evaluator).map(&document, &text, Syntax::Json, &envelope);
        assert_eq!(mapped.failed, None);
        mapped.contributions.into_iter().next().map(|statement| (statement.content, statement.hash))
    };
    let values = |only: Value, twice: &str| ContributionContent::Values([Value::text("a"), only, Value::text(twice)].into());
    let (loud, quiet) = (SourceId::from(0), SourceId::from(1));
    let catalogue = read(text);
    assert_eq!(contribution_of(&catalogue, loud, "x").map(|own| own.0), Some(values(Value::text("x"), "xx")));
    assert_eq!(contribution_of(&catalogue, quiet, "x").map(|own| own.0), Some(values(Value::Null, "xx")));
    assert_eq!((contribution_of(&catalogue, loud, "refused"), contribution_of(&catalogue, quiet, "refused")), (None, None));
    let catalogue = read(&text.replace("only + only", "id"));
    assert_ne!(contribution_of(&catalogue, loud, "x"), contribution_of(&catalogue, loud, "y"));
    assert_eq!(contribution_of(&catalogue, quiet, "x"), contribution_of(&catalogue, quiet, "y"));
}
