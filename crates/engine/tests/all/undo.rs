//! The law of undoing: a history of deliveries, edits, withdrawals and undone jobs ends as the same history without the undone jobs, whatever the order,
//! the chunks and the transactions that overlap. The law of erasing: it ends as if nothing had ever been said of the records that were erased at any
//! time.

use crate::support;

use proptest::prelude::*;
use serde_json::{Map, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::record::{Contribution, ContributionContent};
use stook_catalogue::value::Value;
use stook_engine::edit::{self, Edit, EditAction, EditFields, Preconditions};
use stook_engine::erase::{ErasureRequest, erase};
use stook_engine::settle::SettleRules;
use stook_engine::withdraw::{WithdrawalRequest, withdraw};
use stook_engine::{split, undo};
use stook_store::queue::{JobFile, JobId, JobState, NewJob, SplitProgress};
use stook_store::{ReadDetail, Tenant};
use support::Desk;

/// `dated` takes the as-of time from its documents, `delivered` from the delivery, and `received` from its documents, ordered by reception if the times
/// are equal. Jobs of `lasting` cannot be undone.
const DEFINITION: &str = "\
catalogue: undoing
sources:
  dated: &source
    format: json
    undo: 30d
    let: { part: { path: $.part, type: text }, at: { path: $.at, type: timestamp, format: epoch }, said: { path: $.said, type: text } }
    gone: \"said == 'gone'\"
    as_of: at
    contributor: \"{part}\"
    into: thing
  delivered: { <<: *source, as_of: meta.received }
  received: { <<: *source, as_of: [at, meta.received] }
  both:
    format: json
    undo: 30d
    gone: \"said == 'gone'\"
    as_of: at
    contributor: \"{part}\"
    feeds:
      - { into: thing }
      - { into: box, when: 'box_of != null', map: { id: $.box, label: $.text } }
    let: { part: { path: $.part, type: text }, at: { path: $.at, type: timestamp, format: epoch }, said: { path: $.said, type: text }, box_of: { path: $.box, type: text } }
  lasting:
    format: json
    let: { part: { path: $.part, type: text }, at: { path: $.at, type: timestamp, format: epoch }, said: { path: $.said, type: text } }
    gone: \"said == 'gone'\"
    as_of: at
    contributor: \"{part}\"
    into: thing
profiles:
  retract: { source: dated, matched: withdraw, unmatched: skip }
collections:
  thing:
    key: id
    raw: keep
    history: 3
    changes: 30d
    fields:
      id: text
      text: { type: text, index: equal }
      box: text
      first: { path: $.text, type: text, survivorship: earliest }
      all: { path: $.text, type: [text], survivorship: union }
      number: { path: $.n, type: integer }
      oldest: { path: $.n, type: integer, survivorship: earliest }
      doubled: { type: integer, derive: \"number * 2\" }
      weight: { type: integer, derive: in_box.things }
    links:
      in_box: { to: box, key: box, create: true }
  box:
    key: id
    changes: 30d
    fields:
      id: text
      label: text
      things: { type: integer, rollup: { over: thing.in_box, count: true } }
      sum: { type: integer, rollup: { over: thing.in_box, sum: number } }
";

const SOURCES: [&str; 5] = ["dated", "delivered", "received", "both", "lasting"];

#[derive(Debug, Clone)]
struct Doc {
    id: &'static str,
    part: &'static str,
    at: i64,
    text: &'static str,
    n: &'static str,
    in_box: &'static str,
    gone: bool,
}

impl Doc {
    fn json(&self) -> String {
        let said = if self.gone { "gone" } else { "values" };
        let at = if self.at == 0 { "null".to_owned() } else { self.at.to_string() };
        let Doc { id, part, text, n, in_box, .. } = self;
        format!(r#"{{"id":"{id}","part":"{part}","at":{at},"said":"{said}","text":"{text}","n":{n},"box":{in_box}}}"#)
    }
}

#[derive(Debug, Clone)]
enum Step {
    /// Delivers documents in chunks of this size; if `waits`, its chunks are processed together with those of what is delivered next.
    Deliver { source: usize, as_of: i64, docs: Vec<Doc>, chunk: u32, waits: bool },
    /// Delivers keys whose contributions are withdrawn by a profile.
    Retract { docs: Vec<Doc> },
    /// Puts a record, and deletes it if the text is none.
    Edit { id: &'static str, text: Option<&'static str> },
    /// Withdraws what a source has contributed.
    Withdraw { source: usize },
    /// Undoes one of the jobs delivered so far, or several at once.
    Undo { first: usize, count: usize },
    /// Lets jobs before one of those delivered so far become too old to be undone.
    Expire { job: usize },
    /// Erases a record, which may not exist.
    Erase { id: &'static str },
}

fn doc() -> impl Strategy<Value = Doc> {
    let number = prop::sample::select(vec!["1", "2", "7", "\"many\"", "\"many\"", "null"]);
    let in_box = prop::sample::select(vec!["\"b1\"", "\"b2\"", "null"]);
    let words = (prop::sample::select(vec!["a", "b", "c"]), prop::sample::select(vec!["p", "p", "q"]), prop::sample::select(vec!["x", "y", "z"]));
    (words, 0_i64..5, number, in_box, prop::bool::weighted(0.1)).prop_map(|((id, part, text), at, n, in_box, gone)| Doc {
        id,
        part,
        at,
        text,
        n,
        in_box,
        gone,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let docs = || prop::collection::vec(doc(), 1..6);
    prop_oneof![
        8 => (0..SOURCES.len(), 1_i64..5, docs(), 1_u32..4, prop::bool::weighted(0.3))
            .prop_map(|(source, as_of, docs, chunk, waits)| Step::Deliver { source, as_of, docs, chunk, waits }),
        1 => docs().prop_map(|docs| Step::Retract { docs }),
        1 => (prop::sample::select(vec!["a", "b"]), prop::option::of(prop::sample::select(vec!["x", "edited"])))
            .prop_map(|(id, text)| Step::Edit { id, text }),
        1 => (0..SOURCES.len()).prop_map(|source| Step::Withdraw { source }),
        6 => (0_usize..8, 1_usize..3).prop_map(|(first, count)| Step::Undo { first, count }),
        1 => (0_usize..8).prop_map(|job| Step::Expire { job }),
    ]
}

/// Steps of which some erase records. All deliveries are of sources whose documents are one record.
fn step_or_erasure() -> impl Strategy<Value = Step> {
    let alone = step().prop_map(|step| match step {
        Step::Deliver { source, as_of, docs, chunk, waits } if SOURCES[source] == "both" => Step::Deliver { source: 0, as_of, docs, chunk, waits },
        other => other,
    });
    prop_oneof![4 => alone, 1 => prop::sample::select(vec!["a", "b"]).prop_map(|id| Step::Erase { id })]
}

/// What a history is played without, to see how it should have ended.
#[derive(Debug, Default)]
struct Without {
    /// Deliveries, by their numbers.
    deliveries: BTreeSet<usize>,
    /// Everything that is said of these records.
    records: BTreeSet<&'static str>,
}

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

fn desk_on_a_file(name: &str) -> Desk {
    let (catalogue, folder) = (definition(), support::folder(name));
    let stores = support::on_a_file(&folder, &catalogue, 1);
    Desk { catalogue, stores, folder }
}

fn desk_on_a_server(name: &str) -> Option<Desk> {
    let catalogue = definition();
    let stores = support::on_a_server(name, &catalogue)?;
    Some(Desk { catalogue, stores, folder: support::folder(name) })
}

/// One store for all cases; each case has its own tenants. What becomes too old concerns all tenants, so other tests have stores of their own.
static DESK: LazyLock<Desk> = LazyLock::new(|| desk_on_a_file("undo"));

/// What is compared of a record: what is seen of it, and its contributions without what tells when and from where they came.
type Shown = (bool, Vec<Value>, Vec<(String, String)>);

trait History {
    fn deliver(&self, tenant: &Tenant, source: &str, profile: Option<&str>, as_of: i64, docs: (&[Doc], u32)) -> JobId;
    fn records(&self, tenant: &Tenant) -> BTreeMap<(String, String), Shown>;
    fn play(&self, tenant: &Tenant, steps: &[Step], without: Option<&Without>) -> BTreeSet<usize>;
    fn holds(&self, steps: &[Step]);
}

fn shown_contribution(catalogue: &Catalogue, contribution: &Contribution) -> (String, String) {
    let is_of_source = catalogue.source(contribution.source()).is_some();
    let as_of = if is_of_source { contribution.as_of } else { 0 };
    let unreadable: Vec<_> = contribution.unreadable.iter().map(|field| (field.field, field.as_of, field.hash, &field.value)).collect();
    let content = match &contribution.content {
        ContributionContent::Values(values) => format!("{values:?}"),
        ContributionContent::Tombstone => "deleted".to_owned(),
    };
    let raw = contribution.raw.as_ref().map(|raw| raw.bytes.clone());
    (contribution.contributor.to_string(), format!("{as_of} {:?} {content} {raw:?} {unreadable:?}", contribution.hash))
}

impl History for Desk {
    fn deliver(&self, tenant: &Tenant, source: &str, profile: Option<&str>, as_of: i64, (docs, chunk): (&[Doc], u32)) -> JobId {
        let text: String = docs.iter().map(|doc| doc.json() + "\n").collect();
        let store = &*self.stores[0];
        let path = self.folder.join(format!("{}.json", store.clock()));
        std::fs::write(&path, text).expect("a file");
        let (_, found) = self.catalogue.source(source).expect("a source");
        let files: Vec<JobFile> = vec![split::inspect(&path, found).expect("it reads")];
        let (profile, as_of) = (profile.map(str::to_owned), Some(as_of * 1_000_000));
        let job = store.create_job(NewJob { tenant: tenant.clone(), profile, source: source.into(), as_of, files: files.clone() }).expect("a job");
        let added = split::split(&files, found, chunk, SplitProgress::default(), |chunks, progress| {
            store.add_chunks(job, chunks, progress)?;
            Ok(true)
        });
        added.expect("it is cut");
        job
    }

    fn records(&self, tenant: &Tenant) -> BTreeMap<(String, String), Shown> {
        let (store, mut all) = (&*self.stores[0], BTreeMap::new());
        for (index, collection) in self.catalogue.collections.enumerate() {
            let keys = store.keys_after(tenant, index, "", 1_000).expect("keys");
            for record in store.read(tenant, index, &keys, ReadDetail::Full).expect("records").into_iter().flatten() {
                let contributions = record.contributions_of(collection).expect("contributions");
                if record.exists || !contributions.is_empty() {
                    let contributions = contributions.iter().map(|own| shown_contribution(&self.catalogue, own)).collect();
                    // nobody sees the values of a record that does not exist, and those from other records are not settled any more
                    let values = if record.exists { record.golden } else { Vec::new() };
                    all.insert((collection.name.clone(), record.key.to_string()), (record.exists, values, contributions));
                }
            }
        }
        all
    }

    /// Plays a history; with `without`, no job is undone and no record erased. Returns which deliveries are undone at its end.
    fn play(&self, tenant: &Tenant, steps: &[Step], without: Option<&Without>) -> BTreeSet<usize> {
        let is_said = |id: &str| without.is_none_or(|without| !without.records.contains(id));
        let (store, processes) = (&*self.stores[0], self.stores.len());
        let (mut jobs, mut undone, mut first): (Vec<Option<JobId>>, BTreeSet<usize>, JobId) = (Vec::new(), BTreeSet::new(), 0);
        for step in steps {
            match step {
                Step::Deliver { source, as_of, docs, chunk, waits } => {
                    let is_played = without.is_none_or(|without| !without.deliveries.contains(&jobs.len()));
                    let docs: Vec<Doc> = docs.iter().filter(|doc| is_said(doc.id)).cloned().collect();
                    jobs.push(is_played.then(|| self.deliver(tenant, SOURCES[*source], None, *as_of, (&docs, *chunk))));
                    if !waits {
                        self.drain(processes);
                    }
                }
                Step::Retract { docs } => {
                    self.drain(processes);
                    let docs: Vec<Doc> = docs.iter().filter(|doc| is_said(doc.id)).cloned().collect();
                    self.deliver(tenant, "dated", Some("retract"), 1, (&docs, 2));
                    self.drain(processes);
                }
                Step::Edit { id, .. } if !is_said(id) => {}
                Step::Edit { id, text } => {
                    self.drain(processes);
                    let rules = Arc::new(SettleRules::new(&self.catalogue));
                    let fields = |text: &str| EditFields { values: Map::from_iter([("text".to_owned(), json!(text))]), ..EditFields::default() };
                    let actions = [EditAction::Put(fields(text.unwrap_or("none"))), EditAction::Delete];
                    for action in actions.into_iter().take(if text.is_some() { 1 } else { 2 }) {
                        let edited = Edit {
                            tenant: tenant.clone(),
                            collection: CollectionId::from(0),
                            key: Some(Key::new(*id).expect("a key")),
                            action,
                            conditions: Preconditions::default(),
                            caller: "somebody".into(),
                            call: None,
                        };
                        edit::run(&rules, store, &Evaluator::new(self.catalogue.tables.clone()), edited).expect("an edit");
                    }
                }
                Step::Withdraw { source } => {
                    self.drain(processes);
                    let request = WithdrawalRequest { tenant, contributor: SOURCES[*source], collection: None, key: None };
                    withdraw(&self.catalogue, store, &request, &|_| ()).expect("a withdrawal");
                }
                Step::Undo { first: number, count } => {
                    self.drain(processes);
                    let wanted = (*number..number + count).filter(|number| without.is_none() && *number < jobs.len());
                    for number in wanted {
                        let job = jobs[number].expect("a job");
                        let source = store.job(job).expect("a job").source;
                        let is_possible = source != "lasting" && (job >= first || undone.contains(&number));
                        let started = undo::start(&self.catalogue, store, job);
                        assert_eq!(started.is_ok(), is_possible, "{source} {started:?}");
                        undone.extend(started.ok().map(|_| number));
                    }
                    self.drain(processes);
                }
                // what is on its way may be of the record
                Step::Erase { id } if without.is_none() => {
                    let request = ErasureRequest { tenant, collection: "thing", key: id, reason: None, caller: "somebody" };
                    erase(&self.catalogue, store, &request).expect("an erasure");
                }
                Step::Erase { .. } => {}
                Step::Expire { job } => {
                    self.drain(processes);
                    if let Some(Some(job)) = jobs.get(*job).filter(|_| without.is_none()) {
                        let time = store.job(*job).expect("a job").created;
                        for source in self.catalogue.sources.iter().filter(|source| source.undo.is_some()) {
                            undo::expire_before(&self.catalogue, store, source, time, &AtomicBool::new(false)).expect("it expires");
                        }
                        first = first.max(*job);
                    }
                }
            }
        }
        self.drain(processes);
        undone
    }

    fn holds(&self, steps: &[Step]) {
        let (tenant, oracle) = (self.new_tenant(), self.new_tenant());
        let undone = self.followed(&tenant, || self.play(&tenant, steps, None));
        let erased = steps.iter().filter_map(|step| if let Step::Erase { id } = step { Some(*id) } else { None });
        let without = Without { deliveries: undone, records: erased.collect() };
        self.play(&oracle, steps, Some(&without));
        assert_eq!(self.records(&tenant), self.records(&oracle), "{without:?}");
        let store = &*self.stores[0];
        for id in &without.records {
            assert_eq!(store.erased(&tenant, CollectionId::from(0), &[Key::new(*id).expect("a key")]).expect("an answer"), [0]);
        }
        assert_eq!(store.correct_record_counts().expect("counting works"), Vec::<String>::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_history_with_undone_jobs_ends_as_the_one_without_them(steps in prop::collection::vec(step(), 2..12)) {
        DESK.holds(&steps);
    }

    #[test]
    fn a_history_with_erased_records_ends_as_if_nothing_had_been_said_of_them(steps in prop::collection::vec(step_or_erasure(), 2..12)) {
        DESK.holds(&steps);
    }
}

#[test]
fn a_history_with_undone_jobs_ends_as_the_one_without_them_on_a_server() {
    let Some(desk) = desk_on_a_server("undo_law") else { return };
    for steps in support::drawn(prop::collection::vec(step(), 2..12), 32) {
        desk.holds(&steps);
    }
}

#[test]
fn a_history_with_erased_records_ends_as_if_nothing_had_been_said_of_them_on_a_server() {
    let Some(desk) = desk_on_a_server("erasing_law") else { return };
    for steps in support::drawn(prop::collection::vec(step_or_erasure(), 2..12), 32) {
        desk.holds(&steps);
    }
}

/// Documents that all have other keys, or the same ones again with another text.
fn many(count: usize, text: &'static str) -> Vec<Doc> {
    let ids = (0..count).map(|number| &*Box::leak(format!("k{number:05}").into_boxed_str()));
    ids.map(|id| Doc { id, part: "p", at: 0, text, n: "1", in_box: "null", gone: false }).collect()
}

fn undo_survives_lost_workers(desk: &Desk) {
    let (tenant, store) = (desk.new_tenant(), &*desk.stores[0]);
    let former = many(2_500, "former");
    desk.deliver(&tenant, "delivered", None, 1, (&former, 1_000));
    desk.drain(1);
    let before = desk.records(&tenant);
    let wrong = desk.deliver(&tenant, "delivered", None, 2, (&many(2_600, "wrong"), 700));
    desk.drain(1);
    let job = undo::start(&desk.catalogue, store, wrong).expect("an undo");
    assert_eq!(store.job(wrong).expect("a job").undone_by(), Some(job));
    // a worker takes a chunk and is never heard of again; another one starts the undo once more
    assert_eq!(store.lease(Some(job), 1, 0).expect("a chunk").len(), 1);
    assert_eq!(undo::start(&desk.catalogue, store, wrong).expect("an undo"), job);
    desk.drain(desk.stores.len());
    let ended = store.job(job).expect("a job");
    assert_eq!((ended.state, ended.undoes(), ended.documents_done()), (JobState::Completed, Some(wrong), 2_600));
    assert_eq!(desk.outcomes(job), BTreeMap::from([("updated", 2_500), ("withdrawn", 100)]));
    assert_eq!(desk.records(&tenant), before);
    // nothing is left to undo
    assert_eq!(undo::start(&desk.catalogue, store, wrong).expect("an undo"), job);
    assert!(store.retry(wrong, None).is_ok_and(|retried| retried == 0));
}

#[test]
fn an_undo_goes_on_when_workers_are_lost() {
    undo_survives_lost_workers(&desk_on_a_file("undo_lost"));
    if let Some(desk) = desk_on_a_server("undo_lost") {
        undo_survives_lost_workers(&desk);
    }
}

#[test]
fn what_cannot_be_undone_is_refused_with_the_reason() {
    let desk = desk_on_a_file("undo_refused");
    let tenant = desk.new_tenant();
    let store = &*desk.stores[0];
    let refusal = |job: JobId| undo::start(&desk.catalogue, store, job).expect_err("a refusal").to_string();
    let lasting = desk.deliver(&tenant, "lasting", None, 1, (&many(1, "x"), 1));
    let first = desk.deliver(&tenant, "dated", None, 1, (&many(1, "x"), 1));
    assert!(refusal(first).contains("it has not ended"), "{}", refusal(first));
    desk.drain(1);
    assert!(refusal(lasting).contains("what jobs of `lasting` replace is not kept"), "{}", refusal(lasting));
    let waiting = desk.deliver(&tenant, "dated", None, 1, (&many(1, "y"), 1));
    assert!(refusal(first).contains(&format!("job {waiting} of `dated` has not ended")), "{}", refusal(first));
    desk.drain(1);
    let retracting = desk.deliver(&tenant, "dated", Some("retract"), 1, (&many(1, "y"), 1));
    desk.drain(1);
    assert!(refusal(retracting).contains("it withdrew contributions"), "{}", refusal(retracting));
    let undo = undo::start(&desk.catalogue, store, first).expect("an undo");
    desk.drain(1);
    assert!(refusal(undo).contains(&format!("it undoes job {first}")), "{}", refusal(undo));
    assert!(refusal(u64::from(u32::MAX)).contains("no job"));
}
