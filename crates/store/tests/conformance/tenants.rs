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
fn two_tenants(place: &Place) -> (Desk, Tenant) {
    let mut desk = Desk::open(place, GOODS);
    let (one, two) = (tenant("one"), tenant("two"));
    for (own, price) in [(&one, 1), (&two, 100)] {
        desk.tenant = own.clone();
        desk.put("a", &values(price));
    }
    desk.put("b", &[("price", Value::Int(7))]);
    desk.tenant = one;
    (desk, two)
}

pub fn records_of_another_tenant_are_not_read_found_counted_or_aggregated(place: &Place) {
    let (desk, _) = two_tenants(place);
    assert_eq!(desk.value("a", "price"), Value::Int(1));
    assert_eq!(desk.record("b"), None);
    let all = desk.columns(desk.plan(vec![]), &["key", "price"]);
    assert_eq!(desk.rows(&all), [[text("a"), Value::Int(1)]]);
    assert_eq!(desk.store.count(&all).expect("counting works"), 1);
    let distinct = QueryPlan { distinct: true, ..desk.columns(desk.plan(vec![]), &["price"]) };
    assert_eq!(desk.rows(&distinct), [[Value::Int(1)]]);
    let functions = [AggregateFunction::Sum, AggregateFunction::Count, AggregateFunction::Min, AggregateFunction::Max, AggregateFunction::Median];
    let aggregates = functions.map(|function| Aggregate { function, column: desk.column("price") });
    assert_eq!(desk.store.aggregate(&all, &aggregates).expect("aggregating works"), [1; 5].map(Value::Int));
    assert_eq!(desk.keys(desk.sorted(desk.plan(vec![]), &[("price", true)])), ["a"]);
    for (name, test) in [("key", equal(text("b"))), ("price", equal(Value::Int(7))), ("price", between(Some((Value::Int(2), true)), None))] {
        assert_eq!(desk.keys_where(name, test), Vec::<String>::new());
    }
}

pub fn writing_the_same_key_in_another_tenant_is_no_conflict(place: &Place) {
    let (mut desk, two) = two_tenants(place);
    let version_of_one = desk.version("a");
    desk.tenant = two;
    // the version of another tenant's record is not this one's
    let (result, told) =
        desk.work().write(put(CollectionId::from(0), "a", version_of_one, desk.content(&[]))).resolve(|_| Ok(Vec::new())).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.conflicts.len(), 1);
    desk.delete("a");
    desk.tenant = tenant("one");
    assert_eq!(desk.value("a", "price"), Value::Int(1));
    assert_eq!(desk.version("a"), version_of_one);
}

pub fn the_same_unique_value_in_another_tenant_is_fine(place: &Place) {
    let (mut desk, two) = two_tenants(place);
    let refused = |desk: &Desk, name: &str| {
        let (result, told) = desk.work().write(desk.write_of(name, &[("code", text("c"))])).commit(&*desk.store);
        result.expect("the unit is written");
        told.refused.into_iter().map(|(.., holder)| holder).collect::<Vec<_>>()
    };
    assert_eq!(refused(&desk, "z"), ["a"]);
    desk.delete("a");
    assert_eq!(refused(&desk, "z"), Vec::<String>::new());
    desk.tenant = two;
    assert_eq!(refused(&desk, "z"), ["a"], "the other tenant's record still holds it");
}

pub fn indexed_lists_and_text_searches_stay_inside_a_tenant(place: &Place) {
    let (mut desk, two) = two_tenants(place);
    for (own, price) in [(desk.tenant.clone(), 1), (two, 100)] {
        desk.tenant = own;
        for (name, test) in [
            ("words", equal(text("w"))),
            ("words", Comparison::In(vec![text("w"), text("x")])),
            ("folded", equal(text("w"))),
            ("folded", Comparison::In(vec![text("w"), text("x")])),
            ("note", wildcard("*long*")),
            ("note", Comparison::Prefix("a long".into())),
        ] {
            let plan = desk.columns(desk.plan(vec![(name, test)]), &["key", "price"]);
            assert_eq!(desk.rows(&plan), [[text("a"), Value::Int(price)]], "{plan:?}");
            assert_eq!(desk.store.count(&plan).expect("counting works"), 1, "{plan:?}");
        }
        let words = Aggregate { function: AggregateFunction::Count, column: desk.column("words") };
        assert_eq!(desk.store.aggregate(&desk.plan(vec![]), &[words]).expect("aggregating works"), [Value::Int(2)]);
    }
}

pub fn edges_and_marks_of_another_tenant_are_not_seen_or_answered(place: &Place) {
    let (desk, two) = two_tenants(place);
    let edge = Edge { link: 1, target: "t".into(), group: "g".into(), start: 0, child: "a".into(), payload: b"one".to_vec() };
    let theirs = Edge { payload: b"two".to_vec(), ..edge.clone() };
    Work::of(&desk.tenant).edge(EdgeChange::Put(edge.clone())).mark(1, "t").done(&*desk.store);
    Work::of(&two).edge(EdgeChange::Put(theirs.clone())).mark(1, "u").done(&*desk.store);
    let marks = |own: &Tenant| desk.store.marks(own, 10).expect("reading works");
    assert_eq!(desk.store.edges(&desk.tenant, 1, "t").expect("reading works"), std::slice::from_ref(&edge));
    assert_eq!(desk.store.edges(&two, 1, "t").expect("reading works"), std::slice::from_ref(&theirs));
    assert_eq!(marks(&desk.tenant).iter().map(|mark| mark.target.as_str()).collect::<Vec<_>>(), ["t"]);
    Work::of(&desk.tenant).edge(EdgeChange::Delete(edge)).answer(&marks(&two)).done(&*desk.store);
    assert_eq!(desk.store.edges(&desk.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(desk.store.edges(&two, 1, "t").expect("reading works"), [theirs]);
    assert_eq!(marks(&two).len(), 1, "another tenant's answer does not count");
}

pub fn jobs_are_listed_for_their_tenant(place: &Place) {
    let (desk, two) = two_tenants(place);
    let of_one = desk.store.create_job(new_job(&desk.tenant, 1)).expect("the job is written");
    let of_two = desk.store.create_job(new_job(&two, 1)).expect("the job is written");
    let ids =
        |own: Option<&Tenant>| desk.store.jobs(own, 10).expect("reading works").iter().map(|job| (job.id, job.tenant.clone())).collect::<Vec<_>>();
    assert_eq!(ids(Some(&desk.tenant)), [(of_one, "one".to_owned())]);
    assert_eq!(ids(Some(&two)), [(of_two, "two".to_owned())]);
    assert_eq!(ids(None), [(of_two, "two".to_owned()), (of_one, "one".to_owned())]);
    assert_eq!(ids(Some(&tenant("three"))), []);
    // workers serve all tenants
    add_chunks(&*desk.store, of_one, 1);
    add_chunks(&*desk.store, of_two, 1);
    let leases = desk.store.lease(None, 10, 60).expect("leasing works");
    assert_eq!(leases.iter().map(|lease| lease.chunk.job).collect::<Vec<_>>(), [of_one, of_two]);
}

pub fn a_tenant_nobody_has_written_for_is_empty(place: &Place) {
    let (mut desk, _) = two_tenants(place);
    desk.tenant = tenant("nobody");
    assert_eq!(desk.record("a"), None);
    assert_eq!(desk.keys(desk.plan(vec![])), Vec::<String>::new());
    assert_eq!(desk.store.count(&desk.plan(vec![])).expect("counting works"), 0);
    let sum = Aggregate { function: AggregateFunction::Sum, column: desk.column("price") };
    let count = Aggregate { function: AggregateFunction::Count, ..sum };
    assert_eq!(desk.store.aggregate(&desk.plan(vec![]), &[sum, count]).expect("aggregating works"), [Value::Null, Value::Int(0)]);
    assert_eq!(desk.store.edges(&desk.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(desk.store.marks(&desk.tenant, 10).expect("reading works"), []);
}

pub fn names_of_tenants_are_checked(_: &Place) {
    for name in ["", "Main", "a b", "a/b", "a'b", "\u{e4}", &"x".repeat(65)] {
        assert!(Tenant::new(name).is_err(), "{name:?}");
    }
    for name in ["a", "0", "a-b_c", &"x".repeat(64)] {
        assert_eq!(Tenant::new(name).expect("valid").as_str(), name);
    }
}
