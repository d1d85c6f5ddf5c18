//! Premises: what a unit was decided by must still be so when it is written.

use super::support::*;
use stook_catalogue::ids::CollectionId;
use stook_store::plan::Comparison;
use stook_store::*;

const PENDING: &str = "catalogue: c\ncollections:\n  pending:\n    key: code\n    fields: { code: text, batch: { type: text, index: equal }, email: { type: text, unique: true } }\n";

fn of_batch(fixture: &Fixture, batch: &str) -> plan::QueryPlan {
    fixture.plan(vec![("batch", Comparison::Equal(text(batch)))])
}

fn fields(code: &str, batch: &str) -> [(&'static str, stook_catalogue::value::Value); 2] {
    [("code", text(code)), ("batch", text(batch))]
}

pub fn a_unit_whose_searches_find_the_same_is_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    fixture.put("a", &fields("a", "1"));
    fixture.put("b", &fields("b", "1"));
    fixture.put("c", &fields("c", "2"));
    let unit = fixture.unit().if_found(of_batch(&fixture, "1"), &["a", "b"]).if_found(of_batch(&fixture, "3"), &[]);
    // what it deletes is found by its own search, which is made before
    unit.write(delete(CollectionId::from(0), "a", fixture.version("a"))).commit_ok(&*fixture.store);
    assert!(fixture.record("a").is_none_or(|record| !record.exists));
}

pub fn a_unit_whose_searches_find_something_else_writes_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    fixture.put("a", &fields("a", "1"));
    for (batch, keys) in [("1", &[][..]), ("1", &["b"]), ("1", &["a", "b"]), ("2", &["a"])] {
        let unit = fixture.unit().if_found(of_batch(&fixture, batch), keys).write(fixture.write_of("new", &fields("new", "9")));
        let (result, _) = unit.log("new", "made").commit(&*fixture.store);
        assert!(matches!(result, Err(StoreError::Outdated)), "{batch} {keys:?}: {result:?}");
    }
    assert_eq!(fixture.record("new"), None);
    assert!(fixture.store.log(&fixture.tenant, CollectionId::from(0), &key("new"), None, 10).expect("a log").is_empty());
}

pub fn a_unit_whose_records_have_changed_or_gone_writes_nothing(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    fixture.put("a", &fields("a", "1"));
    let version = fixture.version("a").expect("it exists");
    let write_new = || fixture.write_of("new", &fields("new", "9"));
    fixture.unit().if_unchanged("a", version).write(write_new()).commit_ok(&*fixture.store);
    fixture.put("a", &fields("a", "2"));
    let (result, _) = fixture.unit().if_unchanged("a", version).write(write_new()).commit(&*fixture.store);
    assert!(matches!(result, Err(StoreError::Outdated)), "{result:?}");
    let version = fixture.version("a").expect("it exists");
    fixture.delete("a");
    let (result, _) = fixture.unit().if_unchanged("a", version).write(write_new()).commit(&*fixture.store);
    assert!(matches!(result, Err(StoreError::Outdated)), "{result:?}");
}

pub fn settling_that_changes_no_content_leaves_premises_true(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    fixture.put("a", &fields("a", "1"));
    let version = fixture.version("a").expect("it exists");
    fixture.unit().write(touch(CollectionId::from(0), "a", Some(version), b"again")).commit_ok(&*fixture.store);
    fixture.unit().if_unchanged("a", version).write(fixture.write_of("new", &fields("new", "9"))).commit_ok(&*fixture.store);
}

pub fn a_unit_of_all_or_nothing_writes_nothing_if_a_value_is_taken(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    let with_email = |code: &str, email: &str| fixture.write_of(code, &[("code", text(code)), ("email", text(email))]);
    fixture.unit().write(with_email("a", "x@y")).commit_ok(&*fixture.store);
    let unit = fixture.unit().write(with_email("b", "free@y")).write(with_email("c", "x@y")).all_or_nothing();
    let (result, feedback) = unit.log("b", "made").commit(&*fixture.store);
    assert!(matches!(result, Err(StoreError::Outdated)), "{result:?}");
    assert_eq!(feedback.refused.len(), 1);
    assert_eq!((fixture.record("b"), fixture.record("c")), (None, None));
    // nor is the value reserved that was free
    fixture.unit().write(with_email("d", "free@y")).commit_ok(&*fixture.store);
}

pub fn of_simultaneous_units_that_found_nothing_one_is_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    for round in 0..10 {
        let batch = format!("b{round}");
        let written = std::thread::scope(|scope| {
            let try_first = |index: usize| {
                let name = format!("{batch}-{index}");
                let unit = fixture.unit().if_found(of_batch(&fixture, &batch), &[]);
                let (result, _) = unit.write(fixture.write_of(&name, &fields(&name, &batch))).commit(&*fixture.store);
                match result {
                    Ok(_) => 1,
                    Err(StoreError::Outdated) => 0,
                    Err(other) => panic!("{other}"),
                }
            };
            let threads: Vec<_> = (0..6).map(|index| scope.spawn(move || try_first(index))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
        });
        assert_eq!(written, 1, "one of them was first");
    }
}

pub fn an_outdated_unit_does_not_affect_others(location: &StoreLocation) {
    let fixture = Fixture::open(location, PENDING);
    let submit = |name: &str, found: &[&str]| {
        let unit = fixture.unit().if_found(of_batch(&fixture, "1"), found).write(fixture.write_of(name, &fields(name, "2")));
        fixture.store.submit(Box::new(unit), Priority::Interactive)
    };
    let pending: Vec<(bool, PendingCommit)> =
        (0..20).map(|index| (index % 3 == 0, submit(&format!("n{index}"), if index % 3 == 0 { &["gone"] } else { &[] }))).collect();
    for (index, (is_outdated, pending)) in pending.into_iter().enumerate() {
        let result = pending.wait();
        assert_eq!(matches!(result, Err(StoreError::Outdated)), is_outdated, "{index}: {result:?}");
        assert_eq!(fixture.record(&format!("n{index}")).is_some(), !is_outdated, "{index}");
    }
}
