//! The law of files that take the place of others: whatever comes in whichever order, over however many workers, a record is
//! what the newest thing said of it says, unless a newer whole file of its scope begins no later and does not name it.

mod support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_catalogue::value::show_timestamp;
use stook_engine::withdraw;
use stook_engine::work::{self, Options};
use stook_store::journal::OUTCOMES;
use stook_store::plan::{Column, Plan};
use stook_store::queue::{JobId, JobState};
use stook_store::{Store, Tenant};

const DEFINITION: &str = "\
catalogue: snapshots
sources:
  plan:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: made
    replaces: { scope: side, at: at }
    into: task
  table:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: made
    replaces: { scope: \"'all'\" }
    feeds: [ { into: word } ]
  note:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: made
    into: task
collections:
  task:
    key: id
    exists: any
    fields:
      id: { path: id, type: text, required: true }
      side: { path: side, type: text, from: [plan] }
      at: { path: at, type: timestamp, from: [plan] }
      value: { path: value, type: integer }
    links:
      of_side: { to: side, key: side, create: true }
  side:
    key: id
    fields:
      id: text
      tasks: { type: integer, rollup: { over: task.of_side, count: true } }
      sum: { type: integer, rollup: { over: task.of_side, sum: value } }
  word:
    key: id
    fields:
      id: { path: id, type: text, required: true }
      value: { path: value, type: integer }
";

/// A file.
#[derive(Debug, Clone)]
struct Delivery {
    source: &'static str,
    /// When it was made; no two of a source are of the same time.
    made: i64,
    rows: Vec<Row>,
    /// Whether one of its rows fails.
    broken: bool,
}

#[derive(Debug, Clone)]
struct Row {
    id: String,
    side: &'static str,
    at: i64,
    value: i64,
}

fn deliveries() -> impl Strategy<Value = Vec<Delivery>> {
    let row = (0..7_usize, prop::sample::select(vec!["l", "r"]), 0..20_i64, 0..100_i64).prop_map(|(id, side, at, value)| Row {
        id: format!("t{id}"),
        side,
        at,
        value,
    });
    let source = prop::sample::select(vec!["plan", "plan", "plan", "table", "note"]);
    let delivery = (source, prop::collection::vec(row, 1..7), prop::bool::weighted(0.15)).prop_map(|(source, mut rows, broken)| {
        let mut named = BTreeSet::new();
        rows.retain(|row| named.insert(row.id.clone()));
        Delivery { source, made: 0, rows, broken }
    });
    prop::collection::vec(delivery, 1..7).prop_map(|mut all| {
        all.iter_mut().enumerate().for_each(|(place, delivery)| delivery.made = 1 + place as i64);
        all
    })
}

/// What there is when everything has come.
fn expected(all: &[Delivery]) -> Json {
    let dead = |source: &str, row: &Row, made: i64| {
        all.iter().any(|other| {
            let same = |own: &&Row| source == "table" || own.side == row.side;
            let first = other.rows.iter().filter(same).map(|own| if source == "table" { 0 } else { own.at }).min();
            let at = if source == "table" { 0 } else { row.at };
            other.source == source && !other.broken && other.made > made && first.is_some_and(|first| first <= at)
        })
    };
    let newest = |source: &str, id: &str| {
        let said = all.iter().filter(|delivery| delivery.source == source).flat_map(|own| own.rows.iter().map(move |row| (own.made, row)));
        let newest = said.filter(|(_, row)| row.id == id).max_by_key(|(made, _)| *made);
        newest.filter(|(made, row)| source == "note" || !dead(source, row, *made))
    };
    let (mut tasks, mut words, mut sides) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::<&str, (i64, i64)>::new());
    for id in (0..7).map(|id| format!("t{id}")) {
        let (plan, note) = (newest("plan", &id), newest("note", &id));
        if let Some((_, latest)) = [plan, note].into_iter().flatten().max_by_key(|(made, _)| *made) {
            let mut fields = json!({ "id": id, "value": latest.value });
            if let Some((_, row)) = plan {
                (fields["side"], fields["at"]) = (row.side.into(), show_timestamp(row.at * 1_000_000).into());
                fields["of_side"] = row.side.into();
                let side = sides.entry(row.side).or_default();
                *side = (side.0 + 1, side.1 + latest.value);
            }
            tasks.insert(id.clone(), fields);
        }
        if let Some((_, row)) = newest("table", &id) {
            words.insert(id.clone(), json!({ "id": id, "value": row.value }));
        }
    }
    let sides: BTreeMap<&str, Json> = sides.into_iter().map(|(id, (tasks, sum))| (id, json!({ "id": id, "tasks": tasks, "sum": sum }))).collect();
    json!({ "task": tasks, "side": sides, "word": words })
}

struct Desk {
    catalogue: Arc<Catalogue>,
    /// Openings of one store, as several processes have them.
    stores: Vec<Box<dyn Store>>,
    folder: PathBuf,
}

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).unwrap_or_else(|problems| panic!("{problems:?}")))
}

static FILE: LazyLock<Desk> = LazyLock::new(|| {
    let (catalogue, folder) = (definition(), support::folder("snapshots-file"));
    let stores = support::on_a_file(&folder, &catalogue, 2);
    Desk { catalogue, stores, folder }
});

static SERVER: LazyLock<Option<Desk>> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_server("snapshots", &catalogue)?;
    Some(Desk { catalogue, stores, folder: support::folder("snapshots-server") })
});

impl Desk {
    fn tenant(&self) -> Tenant {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Tenant::new(&format!("t{}", NEXT.fetch_add(1, Ordering::SeqCst))).expect("a tenant")
    }

    /// Makes a job of a delivery, in chunks of two documents.
    fn deliver(&self, tenant: &Tenant, delivery: &Delivery) -> JobId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let path = self.folder.join(format!("{}.csv", NEXT.fetch_add(1, Ordering::SeqCst)));
        let mut text = "id,side,at,value,made\n".to_owned();
        let made = show_timestamp(delivery.made * 1_000_000);
        for row in &delivery.rows {
            writeln!(text, "{},{},{},{},{made}", row.id, row.side, show_timestamp(row.at * 1_000_000), row.value).expect("text");
        }
        if delivery.broken {
            writeln!(text, ",l,,,{made}").expect("text");
        }
        support::job(&self.catalogue, &*self.stores[0], tenant, delivery.source, (&path, &text), 2)
    }

    /// Lets workers of several processes do what there is to do.
    fn work(&self, processes: usize) {
        let options = Options { workers: 2, lease_seconds: 60, drain: true, settles: true };
        std::thread::scope(|scope| {
            for store in self.stores.iter().cycle().take(processes) {
                scope.spawn(|| work::run(&self.catalogue, &**store, &options, &AtomicBool::new(false), &|_| ()).expect("it works"));
            }
        });
    }

    fn see(&self, tenant: &Tenant) -> Json {
        let mut seen = json!({});
        for (index, collection) in self.catalogue.collections.iter().enumerate() {
            let mut plan = Plan::all(tenant.clone(), index);
            plan.columns = [Column::Key].into_iter().chain((0..collection.fields.len()).map(Column::Field)).collect();
            let mut records = json!({});
            for row in self.stores[0].find(&plan).expect("rows").rows {
                let fields = collection.fields.iter().zip(&row[1..]).filter(|(_, value)| !value.is_null());
                let shown: serde_json::Map<String, Json> =
                    fields.map(|(field, value)| (field.name.clone(), value.to_json(field.golden_type()))).collect();
                records[row[0].as_text().unwrap_or_default()] = shown.into();
            }
            seen[&collection.name] = records;
        }
        seen
    }

    /// Outcomes of a job that ended well.
    fn counts(&self, job: JobId) -> BTreeMap<&'static str, i64> {
        let job = self.stores[0].job(job).expect("the job");
        assert!(matches!(job.state, JobState::Completed | JobState::CompletedWithErrors), "{job:?}");
        OUTCOMES.iter().map(|(outcome, name)| (*name, job.counts.of(*outcome))).filter(|(_, count)| *count != 0).collect()
    }
}

fn any_order_ends_in_the_same(desk: &Desk, all: &[Delivery], order: &[usize], groups: &[usize], processes: usize) {
    let tenant = desk.tenant();
    let mut jobs = Vec::new();
    let mut left = order;
    for group in groups.iter().copied().chain([order.len()]) {
        let (now, later) = left.split_at(group.min(left.len()));
        left = later;
        jobs.extend(now.iter().map(|place| (*place, desk.deliver(&tenant, &all[*place]))));
        desk.work(processes);
    }
    assert_eq!(desk.see(&tenant), expected(all));
    for (place, job) in &jobs {
        let sum: i64 = desk.counts(*job).values().sum();
        assert_eq!(sum, all[*place].rows.len() as i64 + i64::from(all[*place].broken), "{:?}", desk.counts(*job));
    }
    // once more changes nothing
    let again: Vec<JobId> = all.iter().map(|delivery| desk.deliver(&tenant, delivery)).collect();
    desk.work(processes);
    assert_eq!(desk.see(&tenant), expected(all));
    for job in again {
        let counts = desk.counts(job);
        assert!(counts.keys().all(|outcome| ["unchanged", "superseded", "failed"].contains(outcome)), "{counts:?}");
    }
    // taken back, it is as if no plan had ever come: an old one counts again
    let none = |_| ();
    let withdrawn = withdraw::withdraw(&desk.catalogue, &*desk.stores[0], &tenant, "plan", None, None, &none);
    withdrawn.expect("it is withdrawn");
    let mut left: Vec<Delivery> = all.iter().filter(|delivery| delivery.source != "plan").cloned().collect();
    desk.work(1);
    assert_eq!(desk.see(&tenant), expected(&left));
    if let Some(oldest) = all.iter().find(|delivery| delivery.source == "plan") {
        desk.deliver(&tenant, oldest);
        desk.work(1);
        left.push(oldest.clone());
        assert_eq!(desk.see(&tenant), expected(&left));
    }
}

fn shuffled() -> impl Strategy<Value = (Vec<Delivery>, Vec<usize>, Vec<usize>)> {
    deliveries().prop_flat_map(|all| {
        let order: Vec<usize> = (0..all.len()).collect();
        (Just(all), Just(order).prop_shuffle(), prop::collection::vec(1..4_usize, 0..4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_a_file_any_order_of_files_ends_in_the_same((all, order, groups) in shuffled()) {
        any_order_ends_in_the_same(&FILE, &all, &order, &groups, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_a_server_any_order_of_files_ends_in_the_same((all, order, groups) in shuffled()) {
        if let Some(desk) = &*SERVER {
            any_order_ends_in_the_same(desk, &all, &order, &groups, 3);
        }
    }
}

#[test]
fn a_replaced_statement_is_kept_and_said_to_be_retired() {
    let desk = &*FILE;
    let tenant = desk.tenant();
    let row = |id: &str, at| Row { id: id.into(), side: "l", at, value: 1 };
    let old = Delivery { source: "plan", made: 1, rows: vec![row("t1", 5), row("t2", 2)], broken: false };
    let new = Delivery { source: "plan", made: 2, rows: vec![row("t3", 4)], broken: false };
    desk.deliver(&tenant, &old);
    desk.work(1);
    desk.deliver(&tenant, &new);
    desk.work(1);
    let found = stook_engine::record::get(&desk.catalogue, &*desk.stores[0], &tenant, "task", "t1", true).expect("it reads").expect("a record");
    assert!(!found.stored.alive);
    assert_eq!(found.explain(&desk.catalogue, &*desk.stores[0], &tenant).expect("it reads")["contributions"][0]["says"], "retired");
    assert!(stook_engine::record::get(&desk.catalogue, &*desk.stores[0], &tenant, "task", "t2", false).expect("it reads").is_some());
    // an old file that comes late is superseded where a newer one has taken its place
    let late = Delivery { source: "plan", made: 1, rows: vec![row("t4", 9), row("t5", 3)], broken: false };
    let job = desk.deliver(&tenant, &late);
    desk.work(1);
    assert_eq!(desk.counts(job), BTreeMap::from([("created", 1), ("superseded", 1)]));
}
