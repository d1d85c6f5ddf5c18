//! The law of complete deliveries: whatever arrives in whichever order, over however many workers, a record follows from the newest contribution
//! of each contributor, unless a newer complete file of its scope begins no later and does not contain it.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_catalogue::value::show_timestamp;
use stook_engine::import::{self, DryRunLimits, ImportRequest};
use stook_engine::record::{self, RecordAddress};
use stook_engine::settle::complete_delivery;
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_store::Tenant;
use stook_store::queue::JobId;
use support::Desk;

const DEFINITION: &str = "\
catalogue: snapshots
sources:
  plan:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: made
    replaces: { scope: side, at: at, most: 50% }
    into: task
  table:
    format: csv
    let: { made: { path: made, type: timestamp } }
    as_of: [made, meta.received]
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
    changes: 30d
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
    changes: 30d
    fields:
      id: text
      tasks: { type: integer, rollup: { over: task.of_side, count: true } }
      sum: { type: integer, rollup: { over: task.of_side, sum: value } }
  word:
    key: id
    changes: 30d
    fields:
      id: { path: id, type: text, required: true }
      value: { path: value, type: integer }
";

/// A file.
#[derive(Debug, Clone)]
struct Delivery {
    source: &'static str,
    /// Its time; no two files of a source have the same.
    made: i64,
    rows: Vec<Row>,
    /// Whether one of its rows fails.
    broken: bool,
    /// Whether it may retire all that it lacks.
    allowed: bool,
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
    let delivery = (source, prop::collection::vec(row, 1..7), prop::bool::weighted(0.15), prop::bool::weighted(0.2)).prop_map(
        |(source, mut rows, broken, allowed)| {
            let mut named = BTreeSet::new();
            rows.retain(|row| named.insert(row.id.clone()));
            Delivery { source, made: 0, rows, broken, allowed }
        },
    );
    prop::collection::vec(delivery, 1..7).prop_map(|mut all| {
        all.iter_mut().enumerate().for_each(|(position, delivery)| delivery.made = 1 + position as i64);
        all
    })
}

/// The largest share of keys that a file may lack of the one before it, in percent.
fn max_missing_percent(source: &str) -> usize {
    if source == "table" { 20 } else { 50 }
}

/// The rows of a file in a scope, with their positions in it.
fn in_scope<'d>(delivery: &'d Delivery, side: &'d str) -> impl Iterator<Item = (&'d str, i64)> {
    let is_table = delivery.source == "table";
    delivery.rows.iter().filter(move |row| is_table || row.side == side).map(move |row| (row.id.as_str(), if is_table { 0 } else { row.at }))
}

/// The files of a source that count in a scope: complete ones that lack no more than allowed of the newest one before them that counts.
fn counting<'d>(all: &'d [Delivery], source: &str, side: &str) -> Vec<(&'d Delivery, i64)> {
    let mut whole: Vec<&Delivery> = all.iter().filter(|own| own.source == source && !own.broken).collect();
    whole.sort_by_key(|own| own.made);
    let mut counting: Vec<(&Delivery, i64)> = Vec::new();
    for own in whole {
        let Some(first) = in_scope(own, side).map(|(_, at)| at).min() else { continue };
        let former: Vec<&str> =
            counting.last().iter().flat_map(|(former, _)| in_scope(former, side)).filter(|(_, at)| *at >= first).map(|(id, _)| id).collect();
        let missing = former.iter().filter(|id| !in_scope(own, side).any(|(own, _)| own == **id)).count();
        if own.allowed || missing * 100 <= former.len() * max_missing_percent(source) {
            counting.push((own, first));
        }
    }
    counting
}

/// The expected records when everything has arrived.
fn expected(all: &[Delivery]) -> Json {
    let dead = |source: &str, row: &Row, made: i64| {
        let at = if source == "table" { 0 } else { row.at };
        counting(all, source, row.side).iter().any(|(other, first)| other.made > made && *first <= at)
    };
    let newest = |source: &str, id: &str| {
        let rows = all.iter().filter(|delivery| delivery.source == source).flat_map(|own| own.rows.iter().map(move |row| (own.made, row)));
        let newest = rows.filter(|(_, row)| row.id == id).max_by_key(|(made, _)| *made);
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
    /// Creates a job for a delivery, in chunks of two documents.
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
        support::job_of(&self.catalogue, &*self.stores[0], tenant, delivery.source, (&path, &text), (2, delivery.allowed))
    }
}

fn assert_every_order_gives_the_same(desk: &Desk, all: &[Delivery], order: &[usize], groups: &[usize], processes: usize) {
    let tenant = desk.new_tenant();
    desk.followed(&tenant, || deliver_in_order(desk, &tenant, (all, order), groups, processes));
}

fn deliver_in_order(desk: &Desk, tenant: &Tenant, (all, order): (&[Delivery], &[usize]), groups: &[usize], processes: usize) {
    let mut jobs = Vec::new();
    let mut remaining = order;
    for group in groups.iter().copied().chain([order.len()]) {
        let (now, later) = remaining.split_at(group.min(remaining.len()));
        remaining = later;
        jobs.extend(now.iter().map(|position| (*position, desk.deliver(tenant, &all[*position]))));
        desk.drain(processes);
    }
    assert_eq!(desk.golden_values(tenant), expected(all));
    for (position, job) in &jobs {
        let sum: i64 = desk.outcomes(*job).values().sum();
        assert_eq!(sum, all[*position].rows.len() as i64 + i64::from(all[*position].broken), "{:?}", desk.outcomes(*job));
    }
    // doing it all again changes nothing
    let again: Vec<JobId> = all.iter().map(|delivery| desk.deliver(tenant, delivery)).collect();
    desk.drain(processes);
    assert_eq!(desk.golden_values(tenant), expected(all));
    for job in again {
        let counts = desk.outcomes(job);
        assert!(counts.keys().all(|outcome| ["unchanged", "superseded", "failed"].contains(outcome)), "{counts:?}");
    }
    // after the withdrawal it is as if no plan had ever been delivered: an old one counts again
    let none = |_| ();
    let withdrawn =
        withdraw::withdraw(&desk.catalogue, &*desk.stores[0], &WithdrawalRequest { tenant, contributor: "plan", collection: None, key: None }, &none);
    withdrawn.expect("it is withdrawn");
    let mut remaining: Vec<Delivery> = all.iter().filter(|delivery| delivery.source != "plan").cloned().collect();
    desk.drain(1);
    assert_eq!(desk.golden_values(tenant), expected(&remaining));
    if let Some(oldest) = all.iter().find(|delivery| delivery.source == "plan") {
        desk.deliver(tenant, oldest);
        desk.drain(1);
        remaining.push(oldest.clone());
        assert_eq!(desk.golden_values(tenant), expected(&remaining));
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
    fn every_order_of_complete_files_gives_the_same_records_on_a_file((all, order, groups) in shuffled()) {
        assert_every_order_gives_the_same(&FILE, &all, &order, &groups, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_complete_files_gives_the_same_records_on_a_server((all, order, groups) in shuffled()) {
        if let Some(desk) = &*SERVER {
            assert_every_order_gives_the_same(desk, &all, &order, &groups, 3);
        }
    }
}

#[test]
fn a_replaced_contribution_is_kept_and_reported_as_retired() {
    let desk = &*FILE;
    let tenant = desk.new_tenant();
    let row = |id: &str, at| Row { id: id.into(), side: "l", at, value: 1 };
    let old = Delivery { source: "plan", made: 1, rows: vec![row("t1", 5), row("t2", 2)], broken: false, allowed: false };
    let new = Delivery { source: "plan", made: 2, rows: vec![row("t3", 4)], broken: false, allowed: true };
    desk.deliver(&tenant, &old);
    desk.drain(1);
    desk.deliver(&tenant, &new);
    desk.drain(1);
    let found = record::get(&desk.catalogue, &*desk.stores[0], &RecordAddress { tenant: &tenant, collection: "task", key: "t1" }, true)
        .expect("it reads")
        .expect("a record");
    assert!(!found.stored.exists);
    assert_eq!(found.explain(&desk.catalogue, &*desk.stores[0], &tenant).expect("it reads")["contributions"][0]["says"], "retired");
    assert!(
        record::get(&desk.catalogue, &*desk.stores[0], &RecordAddress { tenant: &tenant, collection: "task", key: "t2" }, false)
            .expect("it reads")
            .is_some()
    );
    // an old file that arrives late is superseded if a newer one replaces it
    let late = Delivery { source: "plan", made: 1, rows: vec![row("t4", 9), row("t5", 3)], broken: false, allowed: false };
    let job = desk.deliver(&tenant, &late);
    desk.drain(1);
    assert_eq!(desk.outcomes(job), BTreeMap::from([("created", 1), ("superseded", 1)]));
    let journal = desk.stores[0].journal(job, 0, 10, false).expect("its journal");
    let reasons: Vec<&String> = journal.iter().flat_map(|entry| &entry.reasons).collect();
    assert!(reasons.len() == 1 && reasons[0].starts_with("a newer complete delivery of `"), "{reasons:?}");
}

/// A file contains a record in two scopes, and a newer file covers one of these: which row counts does not depend on when the newer file is
/// known, and retiring one row leaves the other one alone.
#[test]
fn a_row_of_another_scope_in_the_same_file_is_not_retired() {
    for desk in [Some(&*FILE), SERVER.as_ref()].into_iter().flatten() {
        let mut remaining = BTreeSet::new();
        for value in 0..8 {
            let row = |id: &str, side, value| Row { id: id.to_owned(), side, at: 5, value };
            let delivery = |made, rows| Delivery { source: "plan", made, rows, broken: false, allowed: true };
            // not in the same chunk
            let older = delivery(4, vec![row("t1", "l", value), row("t2", "r", 0), row("t1", "r", value + 1)]);
            let newer = delivery(9, vec![row("t0", "l", 0)]);
            let ways = [[&older, &newer], [&newer, &older]].into_iter().flat_map(|order| [(order, true), (order, false)]);
            let seen: Vec<Json> = ways
                .map(|(order, settles_between)| {
                    let tenant = desk.new_tenant();
                    for delivery in order {
                        desk.deliver(&tenant, delivery);
                        if settles_between {
                            desk.drain(1);
                        }
                    }
                    desk.drain(1);
                    desk.golden_values(&tenant)
                })
                .collect();
            assert!(seen.iter().all(|own| *own == seen[0]), "{seen:#?}");
            remaining.insert(seen[0]["task"]["t1"]["side"].as_str().map(str::to_owned));
        }
        // among rows of the same time the one with the greater hash counts: sometimes it is on the side that the newer file covers
        assert_eq!(remaining, BTreeSet::from([None, Some("r".to_owned())]));
    }
}

/// A dry run counts the same as the import, even if a record has moved to another scope or position.
#[test]
fn a_dry_run_counts_what_an_import_retires() {
    let desk = &*FILE;
    let tenant = desk.new_tenant();
    let row = |id: &str, side, at| Row { id: id.to_owned(), side, at, value: 1 };
    let delivery = |made, rows| Delivery { source: "plan", made, rows, broken: false, allowed: true };
    desk.deliver(&tenant, &delivery(1, vec![row("t1", "l", 3), row("t2", "l", 3), row("t3", "l", 3), row("t4", "l", 3)]));
    desk.drain(1);
    // one moves to another side, one to a position after the beginning of the newer file
    desk.deliver(&tenant, &delivery(2, vec![row("t1", "r", 3), row("t2", "l", 12)]));
    desk.drain(1);
    let newest = delivery(3, vec![row("t4", "l", 1), row("t5", "r", 9)]);
    let foreseen = dry(desk, &tenant, &newest, "plan");
    let job = desk.deliver(&tenant, &newest);
    desk.drain(1);
    assert_eq!((foreseen.retired, replaced(desk, job).retired), (2, 2), "{foreseen:?}");
}

/// The report of a dry run of a delivery.
fn dry(desk: &Desk, tenant: &Tenant, delivery: &Delivery, source: &str) -> complete_delivery::RetirementReport {
    // creating a job that no worker processes writes the file
    let job = desk.stores[0].job(desk.deliver(&desk.new_tenant(), delivery)).expect("a job");
    let (files, source) = (vec![PathBuf::from(&job.files[0].path)], Some(source.to_owned()));
    let request = ImportRequest {
        files,
        profile: None,
        source,
        tenant: tenant.clone(),
        as_of: None,
        part: None,
        arguments: Default::default(),
        retires_all: delivery.allowed,
        unexpected: false,
    };
    let wanted = DryRunLimits { documents: 1_000_000, troubles: 10 };
    import::dry_run(&desk.catalogue, &*desk.stores[0], &request, wanted).expect("it reads").replaced.expect("it is told")
}

/// The report of a job about its files.
fn replaced(desk: &Desk, job: JobId) -> complete_delivery::RetirementReport {
    let job = desk.stores[0].job(job).expect("the job");
    complete_delivery::retirement_report(&*desk.stores[0], &desk.catalogue, &job).expect("it reads").expect("files that take the place of others")
}

fn table(made: i64, numbers: std::ops::Range<i64>) -> Delivery {
    let row = |number: i64| Row { id: format!("w{number:03}"), side: "l", at: 0, value: number };
    Delivery { source: "table", made, rows: numbers.map(row).collect(), broken: false, allowed: false }
}

#[test]
fn a_file_that_lacks_too_many_keys_retires_nothing_until_it_is_allowed() {
    for desk in [Some(&*FILE), SERVER.as_ref()].into_iter().flatten() {
        let tenant = desk.new_tenant();
        let words = || desk.golden_values(&tenant)["word"].as_object().map_or(0, serde_json::Map::len);
        desk.deliver(&tenant, &table(1, 0..100));
        desk.drain(1);
        // a tenth is missing, which is allowed
        let job = desk.deliver(&tenant, &table(2, 0..90));
        desk.drain(1);
        assert_eq!((words(), replaced(desk, job).retired), (90, 10));
        // two keys are left and one is new: the file retires nothing, but its contributions count
        let mut short = table(3, 88..91);
        let job = desk.deliver(&tenant, &short);
        desk.drain(1);
        let report = replaced(desk, job);
        assert_eq!((words(), report.retired, report.files[0].counts), (91, 0, false));
        assert!(report.sentences()[0].contains("98 % of the previous delivery's keys are missing (88 of 90"), "{report:?}");
        // the same when it is imported again, or a day later
        let job = desk.deliver(&tenant, &Delivery { made: 4, ..short.clone() });
        desk.drain(1);
        assert_eq!((words(), replaced(desk, job).files[0].counts), (91, false));
        short.allowed = true;
        let job = desk.deliver(&tenant, &short);
        desk.drain(1);
        assert_eq!((words(), replaced(desk, job).retired), (3, 88));
    }
}

#[test]
fn a_late_file_between_two_restores_what_the_newer_one_may_not_retire() {
    for desk in [Some(&*FILE), SERVER.as_ref()].into_iter().flatten() {
        let tenant = desk.new_tenant();
        let words = || desk.golden_values(&tenant)["word"].as_object().map_or(0, serde_json::Map::len);
        desk.deliver(&tenant, &table(1, 0..3));
        desk.drain(1);
        // it has all of the three keys
        let newest = desk.deliver(&tenant, &table(9, 0..3));
        desk.drain(1);
        desk.deliver(&tenant, &table(5, 0..100));
        desk.drain(1);
        assert_eq!(words(), 100);
        assert!(!replaced(desk, newest).files[0].counts);
    }
}

#[test]
fn a_file_with_a_failed_document_retires_nothing_and_reports_it() {
    let desk = &*FILE;
    let tenant = desk.new_tenant();
    desk.deliver(&tenant, &table(1, 0..10));
    desk.drain(1);
    let job = desk.deliver(&tenant, &Delivery { broken: true, ..table(2, 0..9) });
    desk.drain(1);
    let report = replaced(desk, job);
    assert_eq!(report.sentences().len(), 1, "{report:?}");
    assert!(report.sentences()[0].ends_with("nothing was retired, because 1 document of it failed (record 10)"), "{report:?}");
}

#[test]
fn a_dry_run_reports_what_would_be_retired() {
    let desk = &*FILE;
    let tenant = desk.new_tenant();
    desk.deliver(&tenant, &table(1, 0..100));
    desk.drain(1);
    let dry = |delivery: &Delivery| dry(desk, &tenant, delivery, "table");
    assert_eq!(dry(&table(2, 0..90)).retired, 10);
    let short = dry(&table(2, 0..2));
    assert_eq!((short.retired, short.files[0].counts), (0, false));
    assert_eq!(dry(&Delivery { allowed: true, ..table(2, 0..2) }).retired, 98);
    assert!(dry(&Delivery { broken: true, ..table(2, 0..99) }).sentences()[0].contains("nothing was retired, because"));
}
