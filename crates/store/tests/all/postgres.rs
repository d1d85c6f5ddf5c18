//! The store on a server fulfils the contract.

use crate::conformance;

use conformance::support::*;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, QueryPlan};
use stook_store::postgres::{PostgresOptions, PostgresStore};
use stook_store::queue::JobState;
use stook_store::*;
use stook_testkit::postgres::TestServer;

/// The server that all tests share, each with a schema of its own.
fn open(url: &str, catalogue: &Catalogue) -> Result<Box<dyn Store>> {
    Ok(Box::new(PostgresStore::open(url, Arc::new(catalogue.clone()), &PostgresOptions::default())?))
}

fn new_location() -> Option<StoreLocation> {
    let url = TestServer::shared()?.new_store_url();
    Some(StoreLocation::new(move |catalogue| open(&url, catalogue), is_full_scan, || {}))
}

/// Whether the server reads every record of the tenant.
fn is_full_scan(explanation: &[String]) -> bool {
    explanation[0].starts_with("reads every record")
}

conformance!(crate::postgres::new_location);

/// A process may end between the commit of the last chunk and the check whether its job has ended.
#[test]
fn a_job_that_was_not_ended_is_ended_by_the_next_lease() {
    let Some(server) = TestServer::shared() else { return };
    let catalogue = definition(MANY);
    let store = open(&format!("{}?schema=unended", server.url("postgres")), &catalogue).expect("the store opens");
    let job = store.create_job(conformance::queue::new_job(&main_tenant(), 1)).expect("the job is written");
    conformance::queue::add_chunks(&*store, job, 1);
    store.lease(None, 1, 60).expect("leasing works");
    if let Err(reason) = server.sql("DELETE FROM unended.chunks") {
        return stook_testkit::skip::missing(&reason);
    }
    assert_eq!(store.job_state(job).expect("the job is there"), JobState::Running);
    assert_eq!(store.lease(None, 1, 60).expect("leasing works"), []);
    assert_eq!(store.job_state(job).expect("the job is there"), JobState::Completed);
}

/// A transaction reads which position was given last, and is overtaken by others before it locks that position.
#[test]
fn who_follows_changes_does_not_go_back_when_a_transaction_was_overtaken() {
    let Some(server) = TestServer::shared() else { return };
    let url = format!("{}?schema=overtaken", server.url("postgres"));
    let location = StoreLocation::new(move |catalogue| open(&url, catalogue), is_full_scan, || {});
    let fixture = Fixture::open(&location, conformance::change_feed::FOLLOWED);
    for weight in 0..5 {
        fixture.put("a", &[("weight", Value::Int(weight))]);
    }
    let until = conformance::change_feed::read(&fixture, 1, 100).until;
    assert_eq!(until, 5);
    std::thread::scope(|scope| {
        let lock =
            "SET search_path TO overtaken; SELECT pg_advisory_lock_shared(hashtext('stook changes ' || current_schema()), 2); SELECT pg_sleep(60)";
        let overtaken = scope.spawn(|| server.sql(lock));
        let is_locked =
            || server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 2 AND objsubid = 2 AND granted").unwrap_or_default();
        while !is_locked().contains('1') {
            assert!(!overtaken.is_finished(), "it waits");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        // who begins now waits for it, and who has read on does not go back
        let begun = conformance::change_feed::read(&fixture, 1, 100);
        let read_on = conformance::change_feed::read(&fixture, until + 1, 100);
        server
            .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()")
            .expect("it ends");
        assert_eq!((begun.until, begun.batches.len()), (2, 2));
        assert_eq!((read_on.until, read_on.batches.len()), (5, 0));
    });
}

const MANY: &str = "
catalogue: many
sources: { s: { format: json, into: thing, as_of: meta.received } }
collections:
  thing:
    key: name
    fields:
      name: text
      group: { type: text, index: [equal, prefix] }
      number: { type: integer, index: equal }
      words: { type: [text], index: equal }
      note: { type: text, index: contains }
";

#[test]
fn indexes_are_used_right_after_many_records_were_written() {
    let Some(location) = new_location() else { return };
    let catalogue = definition(MANY);
    let store = location.open(&catalogue);
    for part in 0..5 {
        let record = |number: i64| {
            let words = texts(&[&format!("w{}", number % 500), "all"]);
            let note = format!("a note that says {number:05} once");
            let values = [("group", text(&format!("g{}", number % 700))), ("number", Value::Int(number)), ("words", words), ("note", text(&note))];
            put(CollectionId::from(0), &format!("t{number:05}"), None, content(&catalogue, CollectionId::from(0), &values))
        };
        let unit = TestUnit::new(&main_tenant()).writes((part * 1_000..(part + 1) * 1_000).map(record));
        store.commit(Box::new(unit)).expect("the unit is written");
    }
    let between = |low, high| Comparison::Range { low: Some((Value::Int(low), true)), high: Some((Value::Int(high), true)) };
    for (name, test, count) in [
        ("key", Comparison::Equal(text("t00007")), 1),
        ("key", Comparison::Prefix("t0001".into()), 10),
        ("group", Comparison::Equal(text("g7")), 8),
        ("group", Comparison::In(vec![text("g7"), text("g8")]), 16),
        ("group", Comparison::Prefix("g69".into()), 78),
        ("number", between(10, 30), 21),
        ("words", Comparison::Equal(text("w9")), 10),
        ("words", Comparison::In(vec![text("w9"), text("w10")]), 20),
        ("note", Comparison::Wildcard(vec!["".into(), "0123".into(), "".into()]), 11),
    ] {
        let mut plan = QueryPlan::all(main_tenant(), CollectionId::from(0));
        plan.conditions = vec![Condition { column: column(&catalogue, CollectionId::from(0), name), test: test.clone() }];
        plan.limit = Some(10);
        let explanation = store.explain(&plan).expect("explaining works");
        assert_eq!(explanation[0], "uses an index", "{name} {test:?}: {explanation:#?}");
        assert_eq!(store.count(&plan).expect("counting works"), count, "{name} {test:?}");
    }
}
