//! Records are read by key, and written if they still have the version that was read.

use super::support::*;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::{FieldType, PartialDate, Value};
use stook_store::plan::QueryPlan;
use stook_store::queue::NewJob;
use stook_store::*;

pub const SHELF: &str = "
catalogue: shelf
sources:
  deliveries: { format: json, feeds: [{ into: thing }, { into: place }], as_of: meta.received }
collections:
  thing:
    key: name
    fields:
      name: text
      colour: { type: text, index: equal, compare: true }
      weight: { type: integer, compare: true }
      words: { type: [text], index: equal }
      note: { type: text, index: contains, fold: true }
    state:
      where: { type: text, index: equal }
      since: timestamp
  place:
    key: name
    fields:
      name: text
";

/// A record with values everywhere.
fn full_content(fixture: &Fixture) -> RecordContent {
    let values = [
        ("name", text("full")),
        ("colour", text("gr\u{fc}n")),
        ("weight", Value::Int(-3)),
        ("words", texts(&["a", "b"])),
        ("note", text("Some Note")),
        ("where", text("here")),
        ("since", Value::Int(1_524_751_374_500_000)),
    ];
    RecordContent {
        created_job: 42,
        exists: true,
        state_set: vec![(0, text("here")), (1, Value::Null)],
        conflicts: vec![FieldId::from(1), FieldId::from(2)],
        contributions: (0..=255).collect(),
        raw: Some([b"one".as_slice(), b"\0two"].concat().into()),
        indexes_unchanged: false,
        ..fixture.content(&values)
    }
}

fn assert_content(record: &StoredRecord, content: &RecordContent) {
    assert_eq!(record.created_job, content.created_job);
    assert_eq!(record.exists, content.exists);
    assert_eq!(record.golden, content.golden.to_vec());
    assert_eq!(record.state, content.state);
    assert_eq!(record.state_set, content.state_set);
    assert_eq!(record.conflicts, content.conflicts);
    assert_eq!(record.contributions, content.contributions);
    assert_eq!(record.raw.as_deref(), content.raw.as_deref());
}

pub fn reading_gives_records_in_the_order_of_the_keys_and_nothing_for_missing_ones(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    for name in ["b", "a", "d"] {
        fixture.put(name, &[("name", text(name))]);
    }
    let wanted = [key("d"), key("missing"), key("b"), key("a"), key("also missing")];
    for detail in [ReadDetail::Head, ReadDetail::Full] {
        let found = fixture.store.read(&fixture.tenant, CollectionId::from(0), &wanted, detail).expect("reading works");
        let found: Vec<Option<&str>> = found.iter().map(|record| record.as_ref().map(|record| record.key.as_str())).collect();
        assert_eq!(found, [Some("d"), None, Some("b"), Some("a"), None]);
    }
    assert_eq!(fixture.store.read(&fixture.tenant, CollectionId::from(0), &[], ReadDetail::Full).expect("reading nothing works"), []);
}

pub fn a_key_requested_twice_is_returned_twice(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.put("a", &[("colour", text("red"))]);
    let found = fixture.store.read(&fixture.tenant, CollectionId::from(0), &[key("a"), key("b"), key("a")], ReadDetail::Full).expect("reading works");
    assert!(found[0].is_some());
    assert_eq!(found[1], None);
    assert_eq!(found[2], found[0]);
}

pub fn ten_thousand_keys_are_read_in_one_call(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let name = |number: i64| format!("{number:05}");
    let writes =
        (0..10_000).step_by(2).map(|number| put(CollectionId::from(0), &name(number), None, fixture.content(&[("weight", Value::Int(number))])));
    assert_eq!(fixture.unit().writes(writes).commit_ok(&*fixture.store).rows, 5_000);
    // a stride that shares no factor with their number visits every key once, in an order that is not theirs
    let order: Vec<i64> = (0..10_000).map(|step| step * 7_919 % 10_000).collect();
    let keys: Vec<_> = order.iter().map(|number| key(&name(*number))).collect();
    let found = fixture.store.read(&fixture.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("reading works");
    for (number, record) in order.iter().zip(&found) {
        let weight = record.as_ref().map(|record| record.golden[2].clone());
        assert_eq!(weight, (number % 2 == 0).then_some(Value::Int(*number)));
    }
}

pub fn a_record_is_read_as_it_was_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let content = full_content(&fixture);
    let receipt = fixture.unit().write(put(CollectionId::from(0), "full", None, content.clone())).commit_ok(&*fixture.store);
    let record = fixture.record("full").expect("it was written");
    assert_content(&record, &content);
    assert_eq!(record.key, key("full"));
    assert_eq!(record.version, Version::new(receipt.committed_at, 0));

    let empty = fixture.content(&[]);
    fixture.unit().write(put(CollectionId::from(0), "empty", None, empty.clone())).commit_ok(&*fixture.store);
    assert_content(&fixture.record("empty").expect("it was written"), &empty);
}

pub fn a_head_contains_only_what_decides_on_a_write(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let content = full_content(&fixture);
    fixture.unit().write(put(CollectionId::from(0), "full", None, content.clone())).commit_ok(&*fixture.store);
    let whole = fixture.record("full").expect("it was written");
    let head = fixture
        .store
        .read(&fixture.tenant, CollectionId::from(0), &[key("full")], ReadDetail::Head)
        .expect("reading works")
        .remove(0)
        .expect("it is there");
    assert_eq!(head.version, whole.version);
    assert_eq!((head.created_job, head.exists), (42, true));
    assert_eq!(head.contributions, content.contributions);
    assert_eq!(head.state_set, content.state_set);
    assert_eq!((head.golden, head.state, head.conflicts, head.raw), (vec![], vec![], vec![], None));
}

const ALL_TYPES: &str = "
catalogue: types
sources:
  deliveries: { format: json, into: value, as_of: meta.received }
collections:
  value:
    key: name
    fields:
      name: text
      words: text
      folded_words: { type: text, fold: true, index: equal }
      number: integer
      ratio: float
      flag: boolean
      moment: timestamp
      day: date
      era: partial_date
      span: duration
      bytes: size
      id: uuid
      tree: json
      place: geometry
      place_indexed: { type: geometry, index: intersects }
      per_source: { type: integer, survivorship: by_contributor }
      words_list: { type: [text] }
      number_list: { type: [integer] }
      ratio_list: { type: [float] }
      flag_list: { type: [boolean] }
      moment_list: { type: [timestamp], index: equal }
      id_list: { type: [uuid], index: equal }
      tree_list: { type: [json] }
    state:
      s_place: geometry
      s_words: text
      s_number: integer
      s_ratio: float
      s_flag: boolean
      s_moment: timestamp
      s_day: date
      s_era: partial_date
      s_span: duration
      s_bytes: size
      s_id: uuid
      s_tree: json
      s_words_list: { type: [text] }
      s_moment_list: { type: [timestamp] }
      s_id_list: { type: [uuid] }
";

const TEXTS: [&str; 10] = [
    "",
    " blanks at the ends ",
    "line\nbreaks\r\tand \"quotes\" 'everywhere' \\",
    "%_*?[x]",
    "\u{1}\u{1f}\u{7f}\u{85}\u{a0}\u{feff}",
    "e\u{301} is not \u{e9}",
    "\u{ffff}\u{10000}\u{10ffff}",
    "\u{202e}right to left\u{202c} \u{5d0}\u{5d1}",
    "123",
    "null",
];

const INTS: [i64; 6] = [0, 1, -1, i64::MAX, i64::MIN, 9_007_199_254_740_993];

const FLOATS: [f64; 14] = [
    0.0,
    1.0,
    -1.5,
    0.1,
    1.0 / 3.0,
    -123.456e-7,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    5e-324,
    f64::EPSILON,
    9_007_199_254_740_993.0,
    1e22,
    7.038_531e-26,
];

fn json_samples() -> Vec<Value> {
    let written = [
        "null",
        "true",
        "0",
        "-9223372036854775808",
        "18446744073709551615",
        "0.1",
        "\"\"",
        "\"text\"",
        "[]",
        "{}",
        r#"{"a":[1,{"b":null}],"z":"\u001f\"\\\u00e9"}"#,
    ];
    written.iter().map(|json| Value::Json(Arc::new(serde_json::from_str(json).expect("JSON")))).collect()
}

/// Values of a type that are likely to be changed by storing them.
fn samples(ty: &FieldType) -> Vec<Value> {
    match ty {
        FieldType::Text => TEXTS.map(text).to_vec(),
        FieldType::Float => FLOATS.map(Value::Float).to_vec(),
        FieldType::Boolean => vec![Value::Bool(false), Value::Bool(true)],
        FieldType::Uuid => [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef].map(Value::Uuid).to_vec(),
        FieldType::Json => json_samples(),
        FieldType::Geometry => {
            ["POINT(0.1 -0.3)", "POLYGON((170 0, 190 0, 190 10, 170 10, 170 0),(172 1, 173 1, 173 2, 172 1))"].map(geometry).to_vec()
        }
        FieldType::List(element) => {
            let items = samples(element);
            let singletons = items.iter().map(|item| Value::List(vec![item.clone()]));
            let repeated = Value::List(items.iter().chain(items.iter().rev()).cloned().collect());
            singletons.chain([Value::List(vec![]), repeated]).collect()
        }
        _ => INTS.map(Value::Int).to_vec(),
    }
}

/// Equality that distinguishes 0.0 from -0.0 and 1 from 1.0.
fn exact_text(value: &Value) -> String {
    format!("{value:?}")
}

pub fn values_of_all_types_are_read_as_they_were_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, ALL_TYPES);
    let collection = &fixture.catalogue.collections[CollectionId::from(0)];
    let mut written = Vec::new();
    let fields = collection.fields.iter().map(|field| (field.name.clone(), field.golden_type().clone())).skip(1);
    let states = collection.states.iter().map(|state| (state.name.clone(), state.ty.clone()));
    for (name, ty) in fields.chain(states) {
        for (number, value) in samples(&ty).into_iter().enumerate() {
            written.push((format!("{name} {number}"), name.clone(), value));
        }
    }
    let writes = written.iter().map(|(record, field, value)| put(CollectionId::from(0), record, None, fixture.content(&[(field, value.clone())])));
    fixture.unit().writes(writes).commit_ok(&*fixture.store);
    let keys: Vec<_> = written.iter().map(|(record, ..)| key(record)).collect();
    let found = fixture.store.read(&fixture.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("reading works");
    for ((record, field, value), stored) in written.iter().zip(found) {
        let stored = stored.expect("it was written");
        let expected = fixture.content(&[(field, value.clone())]);
        assert_eq!(exact_text(&Value::List(stored.golden.clone())), exact_text(&Value::List(expected.golden.to_vec())), "{record}");
        assert_eq!(exact_text(&Value::List(stored.state.clone())), exact_text(&Value::List(expected.state)), "{record}");
        // a query returns the same value as a read
        let plan = fixture.columns(fixture.plan(vec![("key", equal(text(record)))]), &[field]);
        assert_eq!(exact_text(&fixture.rows(&plan)[0][0]), exact_text(value), "{record}");
    }
}

pub fn values_of_all_types_are_read_from_state_that_was_set(location: &StoreLocation) {
    let fixture = Fixture::open(location, ALL_TYPES);
    let states = &fixture.catalogue.collections[CollectionId::from(0)].states;
    // a transition cannot express times outside of the calendar
    let is_expressible = |ty: &FieldType, value: &Value| match (ty.element(), value) {
        (FieldType::Timestamp | FieldType::Date, Value::Int(number)) => (-1..=1).contains(number),
        (FieldType::Timestamp, Value::List(items)) => items.iter().all(|item| item.as_int().is_some_and(|number| (-1..=1).contains(&number))),
        (FieldType::PartialDate, Value::Int(number)) => PartialDate::from_stored(*number).is_some(),
        (FieldType::Json, Value::Json(json)) => !json.is_null(),
        _ => true,
    };
    for (index, state) in states.iter().enumerate() {
        for (number, value) in samples(&state.ty).into_iter().chain([Value::Null]).filter(|value| is_expressible(&state.ty, value)).enumerate() {
            let record = format!("{} {number}", state.name);
            let content = RecordContent { state_set: vec![(index, value.clone())], ..fixture.content(&[]) };
            fixture.unit().write(put(CollectionId::from(0), &record, None, content)).commit_ok(&*fixture.store);
            let stored = fixture.record(&record).expect("it was written").state_set;
            assert_eq!(stored.len(), 1, "{record}: {value:?}");
            assert_eq!((stored[0].0, exact_text(&stored[0].1)), (index, exact_text(&value)), "{record}");
        }
    }
}

pub fn a_put_replaces_everything_a_record_had(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.unit().write(put(CollectionId::from(0), "x", None, full_content(&fixture))).commit_ok(&*fixture.store);
    let empty = fixture.content(&[]);
    fixture.unit().write(put(CollectionId::from(0), "x", fixture.version("x"), empty.clone())).commit_ok(&*fixture.store);
    assert_content(&fixture.record("x").expect("it is there"), &empty);
    let full = full_content(&fixture);
    fixture.unit().write(put(CollectionId::from(0), "x", fixture.version("x"), full.clone())).commit_ok(&*fixture.store);
    assert_content(&fixture.record("x").expect("it is there"), &full);
}

pub fn a_touch_changes_contributions_and_leaves_content_and_revision(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let content = full_content(&fixture);
    fixture.unit().write(put(CollectionId::from(0), "x", None, content.clone())).commit_ok(&*fixture.store);
    let before = fixture.record("x").expect("it is there");
    for round in 1..=3_u8 {
        fixture.unit().write(touch(CollectionId::from(0), "x", fixture.version("x"), &[round])).commit_ok(&*fixture.store);
        let after = fixture.record("x").expect("it is there");
        assert_eq!(after.version, Version::new(before.version.revision, i64::from(round)));
        assert_content(&after, &RecordContent { contributions: vec![round], ..content.clone() });
    }
    fixture.put("x", &[]);
    assert_eq!(fixture.version("x").map(|version| version.touches), Some(0), "a put counts touches anew");
}

pub fn a_deleted_record_is_neither_read_nor_found(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.unit().write(put(CollectionId::from(0), "x", None, full_content(&fixture))).commit_ok(&*fixture.store);
    fixture.delete("x");
    assert_eq!(fixture.record("x"), None);
    assert_eq!(fixture.keys(fixture.plan(vec![])), Vec::<String>::new());
    assert_eq!(fixture.keys_where("words", equal(text("a"))), Vec::<String>::new());
    assert_eq!(fixture.keys_where("note", wildcard("*note*")), Vec::<String>::new());
    // deleting a record that did not exist when it was read, and does not exist now
    fixture.unit().write(delete(CollectionId::from(0), "x", None)).commit_ok(&*fixture.store);
}

pub fn a_record_that_does_not_exist_for_readers_is_read_by_key_but_not_found(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let dead = RecordContent { exists: false, ..full_content(&fixture) };
    fixture.unit().write(put(CollectionId::from(0), "x", None, dead.clone())).commit_ok(&*fixture.store);
    assert_content(&fixture.record("x").expect("its contributions are kept"), &dead);
    for plan in [
        fixture.plan(vec![]),
        fixture.plan(vec![("key", equal(text("x")))]),
        fixture.plan(vec![("words", equal(text("a")))]),
        fixture.plan(vec![("note", wildcard("*note*"))]),
        fixture.plan(vec![("colour", equal(text("gr\u{fc}n")))]),
    ] {
        assert_eq!(fixture.keys(plan.clone()), Vec::<String>::new(), "{plan:?}");
        assert_eq!(fixture.store.count(&plan).expect("counting works"), 0);
    }
}

/// Everything that may have happened between reading and writing, and every kind of write that must notice.
fn stale_writes(fixture: &Fixture) -> Vec<(&'static str, RecordWrite)> {
    fixture.delete("appeared");
    for name in ["changed", "touched", "deleted", "recreated"] {
        fixture.put(name, &[("colour", text("old"))]);
    }
    let read = |name: &str| fixture.version(name);
    let (changed, touched, deleted, recreated) = (read("changed"), read("touched"), read("deleted"), read("recreated"));
    fixture.unit().write(put(CollectionId::from(0), "appeared", None, full_content(fixture))).commit_ok(&*fixture.store);
    fixture.unit().write(put(CollectionId::from(0), "changed", changed, full_content(fixture))).commit_ok(&*fixture.store);
    fixture.unit().write(touch(CollectionId::from(0), "touched", touched, b"newer")).commit_ok(&*fixture.store);
    fixture.delete("deleted");
    fixture.delete("recreated");
    fixture.put("recreated", &[("colour", text("old"))]);
    let mut writes = Vec::new();
    for (name, expect) in [("appeared", None), ("changed", changed), ("touched", touched), ("deleted", deleted), ("recreated", recreated)] {
        writes.push((name, put(CollectionId::from(0), name, expect, fixture.content(&[("colour", text("stale"))]))));
        writes.push((name, touch(CollectionId::from(0), name, expect, b"stale")));
        writes.push((name, delete(CollectionId::from(0), name, expect)));
    }
    writes.push(("deleted", touch(CollectionId::from(0), "deleted", None, b"stale")));
    writes
}

pub fn every_write_based_on_an_old_version_is_resolved_with_the_complete_record(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    for (name, stale) in stale_writes(&fixture) {
        let now = fixture.record(name);
        let (result, feedback) = fixture.unit().write(stale.clone()).resolve(|_| Ok(Vec::new())).commit(&*fixture.store);
        result.expect("the unit is written");
        assert_eq!(
            feedback.conflicts,
            [WriteConflict { collection: CollectionId::from(0), key: key(name), record: now.clone(), former: Vec::new() }],
            "{stale:?}"
        );
        assert_eq!(fixture.record(name), now, "{stale:?}");
    }
}

pub fn a_version_without_a_row_hint_is_as_good_as_one_that_was_read(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.put("x", &[("words", texts(&["old"]))]);
    let version_without_hint = || fixture.version("x").map(|version| Version::new(version.revision, version.touches));
    assert_eq!(version_without_hint(), fixture.version("x"));
    let write = |write: RecordWrite| {
        let (result, feedback) = fixture.unit().write(write).resolve(|_| Ok(Vec::new())).commit(&*fixture.store);
        result.expect("the unit is written");
        assert_eq!(feedback.conflicts, []);
    };
    write(put(CollectionId::from(0), "x", version_without_hint(), fixture.content(&[("words", texts(&["new"]))])));
    assert_eq!(fixture.keys_where("words", equal(text("new"))), ["x"]);
    assert_eq!(fixture.keys_where("words", equal(text("old"))), Vec::<String>::new());
    write(touch(CollectionId::from(0), "x", version_without_hint(), b"touched"));
    assert_eq!(fixture.record("x").expect("it is there").contributions, b"touched");
    let settled = fixture.content(&[("words", texts(&["new"]))]);
    write(RecordWrite { change: RecordChange::Settle(Box::new(settled)), ..touch(CollectionId::from(0), "x", version_without_hint(), b"") });
    write(RecordWrite {
        change: RecordChange::State { state: fixture.content(&[]).state, state_set: Vec::new() },
        ..touch(CollectionId::from(0), "x", version_without_hint(), b"")
    });
    write(delete(CollectionId::from(0), "x", version_without_hint()));
    assert_eq!(fixture.record("x"), None);
    // also for records that do not exist any more
    let (result, feedback) =
        fixture.unit().write(touch(CollectionId::from(0), "x", Some(Version::new(1, 0)), b"")).resolve(|_| Ok(Vec::new())).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.conflicts, [WriteConflict { collection: CollectionId::from(0), key: key("x"), record: None, former: Vec::new() }]);
}

pub fn conflicts_are_reported_together_ordered_by_collection_and_key(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let second_content = content(&fixture.catalogue, CollectionId::from(1), &[]);
    let second_writes = ["a", "c"].map(|name| put(CollectionId::from(1), name, None, second_content.clone()));
    fixture
        .unit()
        .writes(["b", "d"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&[]))))
        .writes(second_writes)
        .commit_ok(&*fixture.store);
    let writes = ["a", "b", "c", "d"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&[])));
    let second_collection_writes = ["a", "b", "c"].map(|name| put(CollectionId::from(1), name, None, second_content.clone()));
    let (result, feedback) = fixture.unit().writes(writes).writes(second_collection_writes).resolve(|_| Ok(Vec::new())).commit(&*fixture.store);
    result.expect("the unit is written");
    let order: Vec<(CollectionId, &str)> = feedback.conflicts.iter().map(|conflict| (conflict.collection, conflict.key.as_str())).collect();
    assert_eq!(order, [(CollectionId::from(0), "b"), (CollectionId::from(0), "d"), (CollectionId::from(1), "a"), (CollectionId::from(1), "c")]);
    assert!(feedback.conflicts.iter().all(|conflict| conflict.record.is_some()));
    assert_eq!(fixture.keys(fixture.plan(vec![])), ["a", "b", "c", "d"], "what had no conflict is written");
}

pub fn writes_that_resolve_returns_are_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    for number in 0..stale_writes(&fixture).len() {
        let (name, stale) = stale_writes(&fixture).swap_remove(number);
        let before = fixture.record(name);
        let merged = fixture.content(&[("colour", text("merged")), ("words", texts(&["x"]))]);
        let returned = merged.clone();
        let resolve = move |conflicts: Vec<WriteConflict>| {
            let merge = |conflict: WriteConflict| {
                put(CollectionId::from(0), conflict.key.as_str(), conflict.record.map(|record| record.version), returned.clone())
            };
            Ok(conflicts.into_iter().map(merge).collect())
        };
        fixture.unit().write(stale.clone()).resolve(resolve).commit_ok(&*fixture.store);
        let after = fixture.record(name).expect("it was written");
        assert_content(&after, &merged);
        assert!(before.is_none_or(|before| before.version.revision < after.version.revision), "{stale:?}");
        assert!(fixture.keys_where("words", equal(text("x"))).contains(&name.to_owned()));
    }
    // touches and deletions as well
    fixture.put("x", &[]);
    let touched = |conflicts: Vec<WriteConflict>| {
        Ok(conflicts
            .into_iter()
            .map(|conflict| touch(CollectionId::from(0), "x", conflict.record.map(|record| record.version), b"touched"))
            .collect())
    };
    fixture.unit().write(delete(CollectionId::from(0), "x", Some(Version::default()))).resolve(touched).commit_ok(&*fixture.store);
    assert_eq!(fixture.record("x").expect("it stays").contributions, b"touched");
    let deleted = |conflicts: Vec<WriteConflict>| {
        Ok(conflicts.into_iter().map(|conflict| delete(CollectionId::from(0), "x", conflict.record.map(|record| record.version))).collect())
    };
    fixture.unit().write(touch(CollectionId::from(0), "x", Some(Version::default()), b"")).resolve(deleted).commit_ok(&*fixture.store);
    assert_eq!(fixture.record("x"), None);
}

pub fn when_resolve_returns_nothing_the_record_stays_as_it_is(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.unit().write(put(CollectionId::from(0), "x", None, full_content(&fixture))).commit_ok(&*fixture.store);
    let before = fixture.record("x");
    let stale = put(CollectionId::from(0), "x", None, fixture.content(&[("words", texts(&["stale"])), ("note", text("stale"))]));
    let neighbour = put(CollectionId::from(0), "y", None, fixture.content(&[]));
    fixture.unit().writes([stale, neighbour]).resolve(|_| Ok(Vec::new())).commit_ok(&*fixture.store);
    assert_eq!(fixture.record("x"), before);
    assert_eq!(fixture.keys_where("words", equal(text("a"))), ["x"]);
    assert_eq!(fixture.keys_where("words", equal(text("stale"))), Vec::<String>::new());
    assert_eq!(fixture.keys_where("note", wildcard("*stale*")), Vec::<String>::new());
    assert!(fixture.record("y").is_some());
}

pub fn a_write_that_resolve_returns_for_another_version_fails_the_unit(location: &StoreLocation) {
    // a write that the caller believes to have happened must not be lost
    let fixture = Fixture::open(location, SHELF);
    fixture.put("x", &[("colour", text("mine"))]);
    let before = fixture.record("x");
    let stale = Version::default();
    let wrong: [RecordWrite; 4] = [
        put(CollectionId::from(0), "x", None, fixture.content(&[])),
        put(CollectionId::from(0), "x", Some(stale), fixture.content(&[])),
        touch(CollectionId::from(0), "x", Some(stale), b"lost"),
        delete(CollectionId::from(0), "x", Some(stale)),
    ];
    for again in wrong {
        let neighbour = put(CollectionId::from(0), "y", None, fixture.content(&[]));
        let first = put(CollectionId::from(0), "x", Some(stale), fixture.content(&[]));
        let returned = again.clone();
        let (result, _) = fixture.unit().writes([first, neighbour]).resolve(move |_| Ok(vec![returned.clone()])).commit(&*fixture.store);
        assert!(result.is_err(), "{again:?} is lost without a word");
        assert_eq!(fixture.record("x"), before);
        assert_eq!(fixture.record("y"), None);
    }
}

pub fn a_revision_is_the_commit_time_of_the_receipt_and_only_grows(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let mut last = 0;
    for round in 0..20 {
        let receipt = fixture.put("x", &[("weight", Value::Int(round))]);
        let version = fixture.version("x").expect("it is there");
        assert_eq!(version, Version::new(receipt.committed_at, 0));
        assert!(version.revision > last);
        last = version.revision;
    }
}

pub fn a_revision_grows_across_deletion_and_reopening(location: &StoreLocation) {
    let mut fixture = Fixture::open(location, SHELF);
    let mut last = 0;
    for round in 0..6 {
        fixture.put("x", &[("weight", Value::Int(round))]);
        let revision = fixture.version("x").expect("it is there").revision;
        assert!(revision > last, "round {round}");
        last = revision;
        fixture.delete("x");
        if round % 2 == 1 {
            fixture = fixture.reopen(location);
        }
    }
}

pub fn the_clock_never_returns_a_time_twice(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let store = &*fixture.store;
    let mut times: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..5_000).map(|_| store.clock()).collect::<Vec<i64>>())).collect();
        let times: Vec<Vec<i64>> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(times.iter().all(|thread_times| thread_times.is_sorted_by(|a, b| a < b)));
        times.concat()
    });
    let count = times.len();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), count);
    let committed_at = fixture.put("x", &[]).committed_at;
    assert!(committed_at > times[count - 1]);
    assert!(fixture.store.clock() > committed_at);
}

pub fn a_receipt_counts_the_rows_that_were_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let empty = || fixture.content(&[]);
    assert_eq!(fixture.unit().writes(["a", "b", "c"].map(|name| put(CollectionId::from(0), name, None, empty()))).commit_ok(&*fixture.store).rows, 3);
    assert_eq!(fixture.unit().commit_ok(&*fixture.store).rows, 0);
    let writes = [
        put(CollectionId::from(0), "a", None, empty()),
        delete(CollectionId::from(0), "b", fixture.version("b")),
        touch(CollectionId::from(0), "c", Some(Version::default()), b""),
    ];
    let again = put(CollectionId::from(0), "a", fixture.version("a"), empty());
    let receipt = fixture.unit().writes(writes).resolve(move |_| Ok(vec![again.clone()])).commit_ok(&*fixture.store);
    assert_eq!(receipt.rows, 2, "b went and a was merged; c was left alone");
}

pub fn stats_count_committed_transactions_and_rows(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let before = fixture.store.stats().expect("a store says how it does");
    fixture.unit().writes(["a", "b", "c"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&[])))).commit_ok(&*fixture.store);
    let (failed, _) = fixture
        .unit()
        .writes([put(CollectionId::from(0), "a", None, fixture.content(&[]))])
        .resolve(|_| Err(StoreError::Wrong("no".into())))
        .commit(&*fixture.store);
    assert!(failed.is_err());
    let after = fixture.store.stats().expect("a store says how it does");
    assert_eq!(after.rows - before.rows, 3);
    assert!(after.commits > before.commits && after.write_time > before.write_time, "{after:?} {before:?}");
    assert_eq!((after.waiting, after.connections_in_use), (0, 0));
    assert!(after.connections > 0 && after.bytes > 8_192, "{after:?}");
}

pub fn an_error_in_resolve_rolls_the_unit_back(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.put("b", &[("colour", text("old"))]);
    fixture.put("d", &[("colour", text("old"))]);
    let before = ["a", "b", "c", "d"].map(|name| fixture.record(name));
    let writes = [
        put(CollectionId::from(0), "a", None, full_content(&fixture)),
        put(CollectionId::from(0), "b", fixture.version("b"), full_content(&fixture)),
        put(CollectionId::from(0), "c", Some(Version::default()), fixture.content(&[])),
        delete(CollectionId::from(0), "d", fixture.version("d")),
    ];
    let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: 0, child: "a".into(), payload: vec![] };
    let unit = fixture.unit().writes(writes).edge(EdgeChange::Put(edge)).mark(1, "t");
    let (result, _) = unit.resolve(|_| Err(StoreError::Wrong("cannot merge".into()))).commit(&*fixture.store);
    assert_eq!(result.expect_err("resolve failed").to_string(), "cannot merge");
    assert_eq!(["a", "b", "c", "d"].map(|name| fixture.record(name)), before);
    assert_eq!(fixture.keys_where("words", equal(text("a"))), Vec::<String>::new());
    assert_eq!(fixture.keys_where("note", wildcard("*note*")), Vec::<String>::new());
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(fixture.store.marks(&fixture.tenant, 10).expect("reading works"), []);
}

pub fn a_failed_unit_does_not_affect_units_submitted_with_it(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.put("taken", &[]);
    let submit = |number: i64| {
        let child = format!("unit {number}");
        let unit_write = put(CollectionId::from(0), &child, None, fixture.content(&[("weight", Value::Int(number))]));
        // every third unit meets a conflict it does not expect
        let stale = (number % 3 == 0).then(|| put(CollectionId::from(0), "taken", None, fixture.content(&[])));
        let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: number, child: child.into(), payload: Vec::new() };
        let unit = fixture.unit().write(unit_write).writes(stale).edge(EdgeChange::Put(edge)).mark(1, &number.to_string());
        fixture.store.submit(Box::new(unit), Priority::Bulk)
    };
    let pending: Vec<PendingCommit> = (0..30).map(submit).collect();
    for (number, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().is_err(), number % 3 == 0, "unit {number}");
        assert_eq!(fixture.record(&format!("unit {number}")).is_some(), number % 3 != 0, "unit {number}");
    }
    let written: Vec<i64> = (0..30).filter(|number| number % 3 != 0).collect();
    let edges = fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works");
    assert_eq!(edges.iter().map(|edge| edge.start).collect::<Vec<_>>(), written);
    let marks = fixture.store.marks(&fixture.tenant, 100).expect("reading works");
    assert_eq!(marks.iter().map(|mark| mark.target.clone()).collect::<Vec<_>>(), written.iter().map(i64::to_string).collect::<Vec<_>>());
}

/// A unit that keeps the store busy until the other end is dropped, so that units submitted meanwhile wait together.
fn blocking_unit(fixture: &Fixture, priority: Priority) -> (PendingCommit, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let (arrive, arrived) = mpsc::channel();
    let blocking = fixture.unit().write(touch(CollectionId::from(0), "blocked", None, b"")).resolve(move |_| {
        let _ = arrive.send(());
        let _ = released.recv();
        Ok(Vec::new())
    });
    let pending = fixture.store.submit(Box::new(blocking), priority);
    arrived.recv().expect("the unit is at work");
    (pending, release)
}

pub fn a_failed_unit_among_interactive_work_is_rolled_back_alone(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let failing = |name: &str| -> Box<dyn Unit> {
        let writes = [put(CollectionId::from(0), name, None, full_content(&fixture)), touch(CollectionId::from(0), "zzz", None, b"")];
        Box::new(fixture.unit().writes(writes).mark(1, name))
    };
    let succeeding = |name: &str| -> Box<dyn Unit> {
        Box::new(fixture.unit().write(put(CollectionId::from(0), name, None, full_content(&fixture))).mark(1, name))
    };
    // jobs, units that fail and units that do not, in several orders
    for order in ["jf", "fj", "juf", "jfu", "ufj", "ufu", "fuj", "jufjuf", "fjujf"] {
        let (blocked, release) = blocking_unit(&fixture, Priority::Interactive);
        let mut units = Vec::new();
        let store = &*fixture.store;
        std::thread::scope(|scope| {
            let mut jobs = Vec::new();
            for (position, kind) in order.chars().enumerate() {
                let name = format!("{order} {position} {kind}");
                match kind {
                    'j' => {
                        let job =
                            NewJob { tenant: fixture.tenant.clone(), profile: Some(name), source: "deliveries".into(), as_of: None, files: vec![] };
                        jobs.push(scope.spawn(move || store.create_job(job)));
                        // the thread must queue its unit before the next one
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    'f' => units.push((name.clone(), fixture.store.submit(failing(&name), Priority::Interactive))),
                    _ => units.push((name.clone(), fixture.store.submit(succeeding(&name), Priority::Interactive))),
                }
            }
            drop(release);
            blocked.wait().expect("the unit is written");
            for job in jobs {
                let job = job.join().expect("no panic").expect("the job is written");
                fixture.store.job(job).unwrap_or_else(|error| panic!("{order}: {error}"));
            }
        });
        for (name, pending) in units {
            let fails = name.ends_with('f');
            assert_eq!(pending.wait().is_err(), fails, "{name}");
            assert_eq!(fixture.record(&name).is_none(), fails, "{name}");
            let marked = fixture.store.marks(&fixture.tenant, 1_000).expect("reading works").iter().filter(|mark| mark.target == name).count();
            assert_eq!(marked, usize::from(!fails), "{name}");
        }
    }
}

pub fn units_that_share_a_transaction_see_each_other(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    for priority in [Priority::Bulk, Priority::Interactive] {
        fixture.put("x", &[("weight", Value::Int(0))]);
        let read = fixture.version("x");
        let (blocked, release) = blocking_unit(&fixture, Priority::Interactive);
        // all have read the same version; each adds one to what the one before wrote; every fourth fails
        let add = |number: i64| {
            let empty = fixture.content(&[]);
            let add_one = move |conflicts: Vec<WriteConflict>| {
                if number % 4 == 3 {
                    return Err(StoreError::Wrong("it fails".into()));
                }
                let again = conflicts.into_iter().map(|conflict| {
                    let record = conflict.record.expect("it is there");
                    let weight = record.golden[2].as_int().unwrap_or_default() + 1;
                    let mut golden = empty.golden.to_vec();
                    golden[2] = Value::Int(weight);
                    put(CollectionId::from(0), "x", Some(record.version), RecordContent { golden: golden.into(), ..empty.clone() })
                });
                Ok(again.collect())
            };
            // stores may begin with any of them: units that fail have read nothing, so that they always have something to resolve
            let first = put(CollectionId::from(0), "x", if number % 4 == 3 { None } else { read }, fixture.content(&[("weight", Value::Int(1))]));
            fixture.store.submit(Box::new(fixture.unit().write(first).resolve(add_one)), priority)
        };
        let pending: Vec<PendingCommit> = (0..20).map(add).collect();
        drop(release);
        blocked.wait().expect("the unit is written");
        let written = pending.into_iter().filter_map(|pending| pending.wait().ok()).count();
        assert_eq!(written, 15);
        assert_eq!(fixture.value("x", "weight"), Value::Int(15), "{priority:?}");
    }
}

pub fn a_unit_that_fails_only_when_it_is_repeated_fails_alone(location: &StoreLocation) {
    // another unit of the group fails, and when the group is written again, this one finds changed records
    let fixture = Fixture::open(location, SHELF);
    for priority in [Priority::Bulk, Priority::Interactive] {
        let (blocked, release) = blocking_unit(&fixture, Priority::Interactive);
        let mut times = 0;
        let fickle = fixture.unit().write(touch(CollectionId::from(0), "missing", None, b"")).resolve(move |_| {
            times += 1;
            if times == 1 { Ok(Vec::new()) } else { Err(StoreError::Wrong("it has changed".into())) }
        });
        let unit = |name: &str| fixture.unit().write(put(CollectionId::from(0), &format!("{priority:?} {name}"), None, fixture.content(&[])));
        let failing = fixture.unit().write(touch(CollectionId::from(0), "missing", None, b""));
        let submit = |unit: TestUnit| fixture.store.submit(Box::new(unit), priority);
        let before = submit(unit("before"));
        let fickle = submit(fickle);
        let failing = submit(failing);
        let after = submit(unit("after"));
        drop(release);
        blocked.wait().expect("the unit is written");
        before.wait().expect("it has nothing to do with the others");
        failing.wait().expect_err("it meets a conflict it does not expect");
        after.wait().expect("it has nothing to do with the others");
        // whether it was written again is up to the store
        let _ = fickle.wait();
        let later = submit(unit("later"));
        later.wait().expect("the store goes on");
        let found = ["before", "after", "later"].map(|name| fixture.record(&format!("{priority:?} {name}")).is_some());
        assert_eq!(found, [true; 3], "{priority:?}");
    }
}

pub fn a_unit_that_panics_fails_alone(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.put("taken", &[]);
    let writes = [put(CollectionId::from(0), "half", None, fixture.content(&[])), put(CollectionId::from(0), "taken", None, fixture.content(&[]))];
    let panicking = fixture.unit().writes(writes).resolve(|_| panic!("a mistake in the caller's merge"));
    let first = fixture.store.submit(Box::new(panicking), Priority::Bulk);
    let result_of = |pending: PendingCommit| {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || sender.send(pending.wait()));
        receiver.recv_timeout(Duration::from_secs(20)).expect("the store answers")
    };
    let failed = result_of(first);
    let next = result_of(
        fixture.store.submit(Box::new(fixture.unit().write(put(CollectionId::from(0), "next", None, fixture.content(&[])))), Priority::Bulk),
    );
    failed.expect_err("the unit failed");
    next.expect("the store goes on");
    assert_eq!(fixture.record("half"), None);
}

pub fn interactive_and_bulk_units_are_all_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let unit = |name: String| -> Box<dyn Unit> { Box::new(fixture.unit().write(put(CollectionId::from(0), &name, None, fixture.content(&[])))) };
    let mut pending = Vec::new();
    for number in 0..60 {
        pending.push(fixture.store.submit(unit(format!("bulk {number}")), Priority::Bulk));
        if number % 5 == 0 {
            pending.push(fixture.store.submit(unit(format!("interactive {number}")), Priority::Interactive));
        }
    }
    for pending in pending {
        pending.wait().expect("the unit is written");
    }
    fixture.store.sync().expect("syncing works");
    assert_eq!(fixture.store.count(&fixture.plan(vec![])).expect("counting works"), 72);
}

pub fn an_interactive_unit_overtakes_bulk_work(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    let unit = |name: String| -> Box<dyn Unit> { Box::new(fixture.unit().write(put(CollectionId::from(0), &name, None, fixture.content(&[])))) };
    let (blocked, release) = blocking_unit(&fixture, Priority::Bulk);
    let bulk: Vec<PendingCommit> = (0..10).map(|number| fixture.store.submit(unit(format!("bulk {number}")), Priority::Bulk)).collect();
    let interactive = fixture.store.submit(unit("interactive".into()), Priority::Interactive);
    // a store may have another thread for it, which goes on meanwhile
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(release);
    blocked.wait().expect("the unit is written");
    let interactive_time = interactive.wait().expect("the unit is written").committed_at;
    let bulk_times: Vec<i64> = bulk.into_iter().map(|pending| pending.wait().expect("the unit is written").committed_at).collect();
    assert!(bulk_times.iter().all(|committed_at| interactive_time < *committed_at));
    assert!(bulk_times.is_sorted_by(|time, next| time < next), "bulk work keeps its order");
}

pub fn records_are_stored_after_reopening(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.unit().write(put(CollectionId::from(0), "x", None, full_content(&fixture))).commit_ok(&*fixture.store);
    let pending: Vec<PendingCommit> = (0..10)
        .map(|number| {
            fixture
                .store
                .submit(Box::new(fixture.unit().write(put(CollectionId::from(0), &format!("{number}"), None, fixture.content(&[])))), Priority::Bulk)
        })
        .collect();
    let before = fixture.record("x");
    // closing finishes waiting units
    let fixture = fixture.reopen(location);
    for pending in pending {
        pending.wait().expect("the unit is written");
    }
    assert_eq!(fixture.record("x"), before);
    assert_eq!(fixture.rows(&QueryPlan::all(main_tenant(), CollectionId::from(0))).len(), 11);
}

pub fn queries_are_answered_while_a_unit_is_being_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, SHELF);
    fixture.unit().write(put(CollectionId::from(0), "a", None, fixture.content(&[("colour", text("a"))]))).commit_ok(&*fixture.store);
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let catalogue = fixture.catalogue.clone();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let wait_and_merge = move |conflicts: Vec<WriteConflict>| {
                entered.send(()).expect("somebody waits");
                released.recv().expect("somebody lets it go on");
                let merged = |conflict: &WriteConflict| {
                    let version = conflict.record.as_ref().map(|record| record.version);
                    put(
                        CollectionId::from(0),
                        conflict.key.as_str(),
                        version,
                        content(&catalogue, CollectionId::from(0), &[("colour", text("changed"))]),
                    )
                };
                Ok(conflicts.iter().map(merged).collect())
            };
            // it was read before the record was there
            let stale = put(CollectionId::from(0), "a", None, fixture.content(&[("colour", text("b"))]));
            fixture.unit().write(stale).resolve(wait_and_merge).commit(&*fixture.store).0.expect("the unit is written");
        });
        has_entered.recv().expect("the unit has locked its records");
        let colours = || fixture.store.find(&fixture.columns(fixture.plan(vec![]), &["colour"])).expect("asking works").rows;
        assert_eq!(colours(), [[text("a")]]);
        assert_eq!(fixture.store.count(&fixture.plan(vec![])).expect("counting works"), 1);
        assert!(fixture.store.read(&fixture.tenant, CollectionId::from(0), &[key("a")], ReadDetail::Full).expect("reading works")[0].is_some());
        release.send(()).expect("the unit waits");
        writer.join().expect("the unit is written");
        assert_eq!(colours(), [[text("changed")]]);
    });
}
