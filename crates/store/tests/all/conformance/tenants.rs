//! Tenants share a store and see nothing of each other.

use super::queue::{add_chunks, new_job};
use super::support::*;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_store::plan::{Aggregate, AggregateFunction, Comparison, QueryPlan};
use stook_store::*;

const GOODS: &str = "
catalogue: goods
sources:
  deliveries: { format: json, into: item, as_of: meta.received }
collections:
  item:
    key: name
    fields:
      name: text
      code: { type: text, unique: true }
      price: { type: integer, index: equal }
      words: { type: [text], index: equal }
      folded: { type: [text], index: equal, fold: true }
      note: { type: text, index: contains }
";

fn values(price: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("code", text("c")),
        ("price", Value::Int(price)),
        ("words", texts(&["w", "x"])),
        ("folded", texts(&["W", "X"])),
        ("note", text("a long note")),
    ]
}

/// The same keys and values for two tenants, so that every leak is noticed. The prices differ.
fn two_tenants(location: &StoreLocation) -> (Fixture, Tenant) {
    let mut fixture = Fixture::open(location, GOODS);
    let (one, two) = (tenant("one"), tenant("two"));
    for (owner, price) in [(&one, 1), (&two, 100)] {
        fixture.tenant = owner.clone();
        fixture.put("a", &values(price));
    }
    fixture.put("b", &[("price", Value::Int(7))]);
    fixture.tenant = one;
    (fixture, two)
}

pub fn records_of_another_tenant_are_not_read_found_counted_or_aggregated(location: &StoreLocation) {
    let (fixture, _) = two_tenants(location);
    assert_eq!(fixture.value("a", "price"), Value::Int(1));
    assert_eq!(fixture.record("b"), None);
    let all = fixture.columns(fixture.plan(vec![]), &["key", "price"]);
    assert_eq!(fixture.rows(&all), [[text("a"), Value::Int(1)]]);
    assert_eq!(fixture.store.count(&all).expect("counting works"), 1);
    let distinct = QueryPlan { distinct: true, ..fixture.columns(fixture.plan(vec![]), &["price"]) };
    assert_eq!(fixture.rows(&distinct), [[Value::Int(1)]]);
    let functions = [AggregateFunction::Sum, AggregateFunction::Count, AggregateFunction::Min, AggregateFunction::Max, AggregateFunction::Median];
    let aggregates = functions.map(|function| Aggregate { function, column: fixture.column("price") });
    assert_eq!(fixture.store.aggregate(&all, &aggregates).expect("aggregating works"), [1; 5].map(Value::Int));
    assert_eq!(fixture.keys(fixture.sorted(fixture.plan(vec![]), &[("price", true)])), ["a"]);
    for (name, test) in [("key", equal(text("b"))), ("price", equal(Value::Int(7))), ("price", between(Some((Value::Int(2), true)), None))] {
        assert_eq!(fixture.keys_where(name, test), Vec::<String>::new());
    }
}

pub fn writing_the_same_key_in_another_tenant_is_no_conflict(location: &StoreLocation) {
    let (mut fixture, two) = two_tenants(location);
    let version_of_one = fixture.version("a");
    fixture.tenant = two;
    // the version of another tenant's record is not this one's
    let (result, feedback) = fixture
        .unit()
        .write(put(CollectionId::from(0), "a", version_of_one, fixture.content(&[])))
        .resolve(|_| Ok(Vec::new()))
        .commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.conflicts.len(), 1);
    fixture.delete("a");
    fixture.tenant = tenant("one");
    assert_eq!(fixture.value("a", "price"), Value::Int(1));
    assert_eq!(fixture.version("a"), version_of_one);
}

pub fn a_unique_value_may_also_belong_to_a_record_of_another_tenant(location: &StoreLocation) {
    let (mut fixture, two) = two_tenants(location);
    let refused = |fixture: &Fixture, name: &str| {
        let (result, feedback) = fixture.unit().write(fixture.write_of(name, &[("code", text("c"))])).commit(&*fixture.store);
        result.expect("the unit is written");
        feedback.refused.into_iter().map(|(.., holder)| holder).collect::<Vec<_>>()
    };
    assert_eq!(refused(&fixture, "z"), ["a"]);
    fixture.delete("a");
    assert_eq!(refused(&fixture, "z"), Vec::<String>::new());
    fixture.tenant = two;
    assert_eq!(refused(&fixture, "z"), ["a"], "the other tenant's record still holds it");
}

pub fn indexed_lists_and_text_searches_stay_inside_a_tenant(location: &StoreLocation) {
    let (mut fixture, two) = two_tenants(location);
    for (owner, price) in [(fixture.tenant.clone(), 1), (two, 100)] {
        fixture.tenant = owner;
        for (name, test) in [
            ("words", equal(text("w"))),
            ("words", Comparison::In(vec![text("w"), text("x")])),
            ("folded", equal(text("w"))),
            ("folded", Comparison::In(vec![text("w"), text("x")])),
            ("note", wildcard("*long*")),
            ("note", Comparison::Prefix("a long".into())),
        ] {
            let plan = fixture.columns(fixture.plan(vec![(name, test)]), &["key", "price"]);
            assert_eq!(fixture.rows(&plan), [[text("a"), Value::Int(price)]], "{plan:?}");
            assert_eq!(fixture.store.count(&plan).expect("counting works"), 1, "{plan:?}");
        }
        let words = Aggregate { function: AggregateFunction::Count, column: fixture.column("words") };
        assert_eq!(fixture.store.aggregate(&fixture.plan(vec![]), &[words]).expect("aggregating works"), [Value::Int(2)]);
    }
}

pub fn edges_and_marks_of_another_tenant_are_not_read_or_cleared(location: &StoreLocation) {
    let (fixture, two) = two_tenants(location);
    let edge = Edge { link: 1, target: "t".into(), group: "g".into(), start: 0, child: "a".into(), payload: b"one".to_vec() };
    let other_edge = Edge { payload: b"two".to_vec(), ..edge.clone() };
    TestUnit::new(&fixture.tenant).edge(EdgeChange::Put(edge.clone())).mark(1, "t").commit_ok(&*fixture.store);
    TestUnit::new(&two).edge(EdgeChange::Put(other_edge.clone())).mark(1, "u").commit_ok(&*fixture.store);
    let marks = |owner: &Tenant| fixture.store.marks(owner, 10).expect("reading works");
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works"), std::slice::from_ref(&edge));
    assert_eq!(fixture.store.edges(&two, 1, "t").expect("reading works"), std::slice::from_ref(&other_edge));
    assert_eq!(marks(&fixture.tenant).iter().map(|mark| mark.target.as_str()).collect::<Vec<_>>(), ["t"]);
    TestUnit::new(&fixture.tenant).edge(EdgeChange::Delete(edge)).clear_marks(&marks(&two)).commit_ok(&*fixture.store);
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(fixture.store.edges(&two, 1, "t").expect("reading works"), [other_edge]);
    assert_eq!(marks(&two).len(), 1, "another tenant's answer does not count");
}

pub fn jobs_are_listed_for_their_tenant(location: &StoreLocation) {
    let (fixture, two) = two_tenants(location);
    let of_one = fixture.store.create_job(new_job(&fixture.tenant, 1)).expect("the job is written");
    let of_two = fixture.store.create_job(new_job(&two, 1)).expect("the job is written");
    let ids = |owner: Option<&Tenant>| {
        fixture.store.jobs(owner, 10).expect("reading works").iter().map(|job| (job.id, job.tenant.clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(Some(&fixture.tenant)), [(of_one, "one".to_owned())]);
    assert_eq!(ids(Some(&two)), [(of_two, "two".to_owned())]);
    assert_eq!(ids(None), [(of_two, "two".to_owned()), (of_one, "one".to_owned())]);
    assert_eq!(ids(Some(&tenant("three"))), []);
    // workers serve all tenants
    add_chunks(&*fixture.store, of_one, 1);
    add_chunks(&*fixture.store, of_two, 1);
    let leases = fixture.store.lease(None, 10, 60).expect("leasing works");
    assert_eq!(leases.iter().map(|lease| lease.chunk.job).collect::<Vec<_>>(), [of_one, of_two]);
}

pub fn a_tenant_without_writes_is_empty(location: &StoreLocation) {
    let (mut fixture, _) = two_tenants(location);
    fixture.tenant = tenant("nobody");
    assert_eq!(fixture.record("a"), None);
    assert_eq!(fixture.keys(fixture.plan(vec![])), Vec::<String>::new());
    assert_eq!(fixture.store.count(&fixture.plan(vec![])).expect("counting works"), 0);
    let sum = Aggregate { function: AggregateFunction::Sum, column: fixture.column("price") };
    let count = Aggregate { function: AggregateFunction::Count, ..sum };
    assert_eq!(fixture.store.aggregate(&fixture.plan(vec![]), &[sum, count]).expect("aggregating works"), [Value::Null, Value::Int(0)]);
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(fixture.store.marks(&fixture.tenant, 10).expect("reading works"), []);
}

pub fn names_of_tenants_are_checked(_: &StoreLocation) {
    for name in ["", "Main", "a b", "a/b", "a'b", "\u{e4}", &"x".repeat(65)] {
        assert!(Tenant::new(name).is_err(), "{name:?}");
    }
    for name in ["a", "0", "a-b_c", &"x".repeat(64)] {
        assert_eq!(Tenant::new(name).expect("valid").as_str(), name);
    }
}
