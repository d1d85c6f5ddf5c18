//! Records are read by key, and written if they still have the version that was read.

use super::support::*;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::QueryPlan;
use stook_store::queue::NewJob;
use stook_store::*;

const SHELF: &str = "
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
fn full_content(desk: &Desk) -> RecordContent {
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
        ..desk.content(&values)
    }
}

fn assert_holds(record: &StoredRecord, content: &RecordContent) {
    assert_eq!(record.created_job, content.created_job);
    assert_eq!(record.exists, content.exists);
    assert_eq!(record.golden, content.golden.to_vec());
    assert_eq!(record.state, content.state);
    assert_eq!(record.state_set, content.state_set);
    assert_eq!(record.conflicts, content.conflicts);
    assert_eq!(record.contributions, content.contributions);
    assert_eq!(record.raw.as_deref(), content.raw.as_deref());
}

pub fn reading_gives_records_in_the_order_of_the_keys_and_nothing_for_missing_ones(place: &Place) {
    let desk = Desk::open(place, SHELF);
    for name in ["b", "a", "d"] {
        desk.put(name, &[("name", text(name))]);
    }
    let wanted = [key("d"), key("missing"), key("b"), key("a"), key("also missing")];
    for detail in [ReadDetail::Head, ReadDetail::Full] {
        let found = desk.store.read(&desk.tenant, CollectionId::from(0), &wanted, detail).expect("reading works");
        let found: Vec<Option<&str>> = found.iter().map(|record| record.as_ref().map(|record| record.key.as_str())).collect();
        assert_eq!(found, [Some("d"), None, Some("b"), Some("a"), None]);
    }
    assert_eq!(desk.store.read(&desk.tenant, CollectionId::from(0), &[], ReadDetail::Full).expect("reading nothing works"), []);
}

pub fn a_key_asked_for_twice_is_answered_twice(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.put("a", &[("colour", text("red"))]);
    let found = desk.store.read(&desk.tenant, CollectionId::from(0), &[key("a"), key("b"), key("a")], ReadDetail::Full).expect("reading works");
    assert!(found[0].is_some());
    assert_eq!(found[1], None);
    assert_eq!(found[2], found[0]);
}

pub fn reading_ten_thousand_keys_is_one_call(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let name = |number: i64| format!("{number:05}");
    let writes =
        (0..10_000).step_by(2).map(|number| put(CollectionId::from(0), &name(number), None, desk.content(&[("weight", Value::Int(number))])));
    assert_eq!(desk.work().writes(writes).done(&*desk.store).rows, 5_000);
    // a stride that shares no factor with their number visits every key once, in an order that is not theirs
    let order: Vec<i64> = (0..10_000).map(|step| step * 7_919 % 10_000).collect();
    let keys: Vec<_> = order.iter().map(|number| key(&name(*number))).collect();
    let found = desk.store.read(&desk.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("reading works");
    for (number, record) in order.iter().zip(&found) {
        let weight = record.as_ref().map(|record| record.golden[2].clone());
        assert_eq!(weight, (number % 2 == 0).then_some(Value::Int(*number)));
    }
}

pub fn a_record_comes_back_as_it_was_written(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let content = full_content(&desk);
    let receipt = desk.work().write(put(CollectionId::from(0), "full", None, content.clone())).done(&*desk.store);
    let record = desk.record("full").expect("it was written");
    assert_holds(&record, &content);
    assert_eq!(record.key, key("full"));
    assert_eq!(record.version, Version::new(receipt.committed_at, 0));

    let empty = desk.content(&[]);
    desk.work().write(put(CollectionId::from(0), "empty", None, empty.clone())).done(&*desk.store);
    assert_holds(&desk.record("empty").expect("it was written"), &empty);
}

pub fn a_head_has_what_decides_on_a_write_and_nothing_else(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let content = full_content(&desk);
    desk.work().write(put(CollectionId::from(0), "full", None, content.clone())).done(&*desk.store);
    let whole = desk.record("full").expect("it was written");
    let head = desk
        .store
        .read(&desk.tenant, CollectionId::from(0), &[key("full")], ReadDetail::Head)
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

fn jsons() -> Vec<Value> {
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
        FieldType::Json => jsons(),
        FieldType::Geometry => {
            ["POINT(0.1 -0.3)", "POLYGON((170 0, 190 0, 190 10, 170 10, 170 0),(172 1, 173 1, 173 2, 172 1))"].map(geometry).to_vec()
        }
        FieldType::List(element) => {
            let items = samples(element);
            let one = items.iter().map(|item| Value::List(vec![item.clone()]));
            let twice = Value::List(items.iter().chain(items.iter().rev()).cloned().collect());
            one.chain([Value::List(vec![]), twice]).collect()
        }
        _ => INTS.map(Value::Int).to_vec(),
    }
}

/// Equality that distinguishes 0.0 from -0.0 and 1 from 1.0.
fn exactly(value: &Value) -> String {
    format!("{value:?}")
}

pub fn values_of_all_types_come_back_as_they_were(place: &Place) {
    let desk = Desk::open(place, ALL_TYPES);
    let collection = &desk.catalogue.collections[CollectionId::from(0)];
    let mut written = Vec::new();
    let fields = collection.fields.iter().map(|field| (field.name.clone(), field.golden_type().clone())).skip(1);
    let states = collection.states.iter().map(|state| (state.name.clone(), state.ty.clone()));
    for (name, ty) in fields.chain(states) {
        for (number, value) in samples(&ty).into_iter().enumerate() {
            written.push((format!("{name} {number}"), name.clone(), value));
        }
    }
    let writes = written.iter().map(|(record, field, value)| put(CollectionId::from(0), record, None, desk.content(&[(field, value.clone())])));
    desk.work().writes(writes).done(&*desk.store);
    let keys: Vec<_> = written.iter().map(|(record, ..)| key(record)).collect();
    let found = desk.store.read(&desk.tenant, CollectionId::from(0), &keys, ReadDetail::Full).expect("reading works");
    for ((record, field, value), stored) in written.iter().zip(found) {
        let stored = stored.expect("it was written");
        let expected = desk.content(&[(field, value.clone())]);
        assert_eq!(exactly(&Value::List(stored.golden.clone())), exactly(&Value::List(expected.golden.to_vec())), "{record}");
        assert_eq!(exactly(&Value::List(stored.state.clone())), exactly(&Value::List(expected.state)), "{record}");
        // a query returns the same value as a read
        let plan = desk.columns(desk.plan(vec![("key", equal(text(record)))]), &[field]);
        assert_eq!(exactly(&desk.rows(&plan)[0][0]), exactly(value), "{record}");
    }
}

pub fn values_of_all_types_come_back_from_state_that_was_set(place: &Place) {
    let desk = Desk::open(place, ALL_TYPES);
    let states = &desk.catalogue.collections[CollectionId::from(0)].states;
    // a transition cannot express times outside of the calendar
    let sayable = |ty: &FieldType, value: &Value| match (ty.element(), value) {
        (FieldType::Timestamp | FieldType::Date, Value::Int(number)) => (-1..=1).contains(number),
        (FieldType::Timestamp, Value::List(items)) => items.iter().all(|item| item.as_int().is_some_and(|number| (-1..=1).contains(&number))),
        (FieldType::Json, Value::Json(json)) => !json.is_null(),
        _ => true,
    };
    for (index, state) in states.iter().enumerate() {
        for (number, value) in samples(&state.ty).into_iter().chain([Value::Null]).filter(|value| sayable(&state.ty, value)).enumerate() {
            let record = format!("{} {number}", state.name);
            let content = RecordContent { state_set: vec![(index, value.clone())], ..desk.content(&[]) };
            desk.work().write(put(CollectionId::from(0), &record, None, content)).done(&*desk.store);
            let stored = desk.record(&record).expect("it was written").state_set;
            assert_eq!(stored.len(), 1, "{record}: {value:?}");
            assert_eq!((stored[0].0, exactly(&stored[0].1)), (index, exactly(&value)), "{record}");
        }
    }
}

pub fn a_put_replaces_everything_a_record_had(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.work().write(put(CollectionId::from(0), "x", None, full_content(&desk))).done(&*desk.store);
    let empty = desk.content(&[]);
    desk.work().write(put(CollectionId::from(0), "x", desk.version("x"), empty.clone())).done(&*desk.store);
    assert_holds(&desk.record("x").expect("it is there"), &empty);
    let full = full_content(&desk);
    desk.work().write(put(CollectionId::from(0), "x", desk.version("x"), full.clone())).done(&*desk.store);
    assert_holds(&desk.record("x").expect("it is there"), &full);
}

pub fn a_touch_changes_contributions_and_leaves_content_and_revision(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let content = full_content(&desk);
    desk.work().write(put(CollectionId::from(0), "x", None, content.clone())).done(&*desk.store);
    let before = desk.record("x").expect("it is there");
    for round in 1..=3_u8 {
        desk.work().write(touch(CollectionId::from(0), "x", desk.version("x"), &[round])).done(&*desk.store);
        let after = desk.record("x").expect("it is there");
        assert_eq!(after.version, Version::new(before.version.revision, i64::from(round)));
        assert_holds(&after, &RecordContent { contributions: vec![round], ..content.clone() });
    }
    desk.put("x", &[]);
    assert_eq!(desk.version("x").map(|version| version.touches), Some(0), "a put counts touches anew");
}

pub fn a_deleted_record_is_gone_for_readers(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.work().write(put(CollectionId::from(0), "x", None, full_content(&desk))).done(&*desk.store);
    desk.delete("x");
    assert_eq!(desk.record("x"), None);
    assert_eq!(desk.keys(desk.plan(vec![])), Vec::<String>::new());
    assert_eq!(desk.keys_where("words", equal(text("a"))), Vec::<String>::new());
    assert_eq!(desk.keys_where("note", wildcard("*note*")), Vec::<String>::new());
    // deleting a record that did not exist when it was read, and does not exist now
    desk.work().write(delete(CollectionId::from(0), "x", None)).done(&*desk.store);
}

pub fn a_dead_record_is_read_by_key_but_not_found(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let dead = RecordContent { exists: false, ..full_content(&desk) };
    desk.work().write(put(CollectionId::from(0), "x", None, dead.clone())).done(&*desk.store);
    assert_holds(&desk.record("x").expect("its contributions are kept"), &dead);
    for plan in [
        desk.plan(vec![]),
        desk.plan(vec![("key", equal(text("x")))]),
        desk.plan(vec![("words", equal(text("a")))]),
        desk.plan(vec![("note", wildcard("*note*"))]),
        desk.plan(vec![("colour", equal(text("gr\u{fc}n")))]),
    ] {
        assert_eq!(desk.keys(plan.clone()), Vec::<String>::new(), "{plan:?}");
        assert_eq!(desk.store.count(&plan).expect("counting works"), 0);
    }
}

/// Everything that may have happened between reading and writing, and every kind of write that must notice.
fn stale_writes(desk: &Desk) -> Vec<(&'static str, RecordWrite)> {
    desk.delete("appeared");
    for name in ["changed", "touched", "deleted", "recreated"] {
        desk.put(name, &[("colour", text("old"))]);
    }
    let read = |name: &str| desk.version(name);
    let (changed, touched, deleted, recreated) = (read("changed"), read("touched"), read("deleted"), read("recreated"));
    desk.work().write(put(CollectionId::from(0), "appeared", None, full_content(desk))).done(&*desk.store);
    desk.work().write(put(CollectionId::from(0), "changed", changed, full_content(desk))).done(&*desk.store);
    desk.work().write(touch(CollectionId::from(0), "touched", touched, b"newer")).done(&*desk.store);
    desk.delete("deleted");
    desk.delete("recreated");
    desk.put("recreated", &[("colour", text("old"))]);
    let mut writes = Vec::new();
    for (name, expect) in [("appeared", None), ("changed", changed), ("touched", touched), ("deleted", deleted), ("recreated", recreated)] {
        writes.push((name, put(CollectionId::from(0), name, expect, desk.content(&[("colour", text("stale"))]))));
        writes.push((name, touch(CollectionId::from(0), name, expect, b"stale")));
        writes.push((name, delete(CollectionId::from(0), name, expect)));
    }
    writes.push(("deleted", touch(CollectionId::from(0), "deleted", None, b"stale")));
    writes
}

pub fn every_change_of_another_version_reaches_resolve_with_the_whole_record(place: &Place) {
    let desk = Desk::open(place, SHELF);
    for (name, stale) in stale_writes(&desk) {
        let now = desk.record(name);
        let (result, told) = desk.work().write(stale.clone()).resolve(|_| Ok(Vec::new())).commit(&*desk.store);
        result.expect("the unit is written");
        assert_eq!(told.conflicts, [WriteConflict { collection: CollectionId::from(0), key: key(name), record: now.clone() }], "{stale:?}");
        assert_eq!(desk.record(name), now, "{stale:?}");
    }
}

pub fn a_version_that_came_from_elsewhere_is_as_good_as_one_that_was_read(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.put("x", &[("words", texts(&["old"]))]);
    let elsewhere = || desk.version("x").map(|version| Version::new(version.revision, version.touches));
    assert_eq!(elsewhere(), desk.version("x"));
    let write = |write: RecordWrite| {
        let (result, told) = desk.work().write(write).resolve(|_| Ok(Vec::new())).commit(&*desk.store);
        result.expect("the unit is written");
        assert_eq!(told.conflicts, []);
    };
    write(put(CollectionId::from(0), "x", elsewhere(), desk.content(&[("words", texts(&["new"]))])));
    assert_eq!(desk.keys_where("words", equal(text("new"))), ["x"]);
    assert_eq!(desk.keys_where("words", equal(text("old"))), Vec::<String>::new());
    write(touch(CollectionId::from(0), "x", elsewhere(), b"touched"));
    assert_eq!(desk.record("x").expect("it is there").contributions, b"touched");
    let settled = desk.content(&[("words", texts(&["new"]))]);
    write(RecordWrite { change: RecordChange::Settle(Box::new(settled)), ..touch(CollectionId::from(0), "x", elsewhere(), b"") });
    write(RecordWrite {
        change: RecordChange::State { state: desk.content(&[]).state, state_set: Vec::new() },
        ..touch(CollectionId::from(0), "x", elsewhere(), b"")
    });
    write(delete(CollectionId::from(0), "x", elsewhere()));
    assert_eq!(desk.record("x"), None);
    // also for records that do not exist any more
    let (result, told) =
        desk.work().write(touch(CollectionId::from(0), "x", Some(Version::new(1, 0)), b"")).resolve(|_| Ok(Vec::new())).commit(&*desk.store);
    result.expect("the unit is written");
    assert_eq!(told.conflicts, [WriteConflict { collection: CollectionId::from(0), key: key("x"), record: None }]);
}

pub fn conflicts_come_together_ordered_by_collection_and_key(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let other = content(&desk.catalogue, CollectionId::from(1), &[]);
    let others = ["a", "c"].map(|name| put(CollectionId::from(1), name, None, other.clone()));
    desk.work().writes(["b", "d"].map(|name| put(CollectionId::from(0), name, None, desk.content(&[])))).writes(others).done(&*desk.store);
    let writes = ["a", "b", "c", "d"].map(|name| put(CollectionId::from(0), name, None, desk.content(&[])));
    let other_writes = ["a", "b", "c"].map(|name| put(CollectionId::from(1), name, None, other.clone()));
    let (result, told) = desk.work().writes(writes).writes(other_writes).resolve(|_| Ok(Vec::new())).commit(&*desk.store);
    result.expect("the unit is written");
    let order: Vec<(CollectionId, &str)> = told.conflicts.iter().map(|conflict| (conflict.collection, conflict.key.as_str())).collect();
    assert_eq!(order, [(CollectionId::from(0), "b"), (CollectionId::from(0), "d"), (CollectionId::from(1), "a"), (CollectionId::from(1), "c")]);
    assert!(told.conflicts.iter().all(|conflict| conflict.record.is_some()));
    assert_eq!(desk.keys(desk.plan(vec![])), ["a", "b", "c", "d"], "what had no conflict is written");
}

pub fn what_resolve_returns_is_written(place: &Place) {
    let desk = Desk::open(place, SHELF);
    for number in 0..stale_writes(&desk).len() {
        let (name, stale) = stale_writes(&desk).swap_remove(number);
        let before = desk.record(name);
        let merged = desk.content(&[("colour", text("merged")), ("words", texts(&["x"]))]);
        let returned = merged.clone();
        let resolve = move |conflicts: Vec<WriteConflict>| {
            let merge = |conflict: WriteConflict| {
                put(CollectionId::from(0), conflict.key.as_str(), conflict.record.map(|record| record.version), returned.clone())
            };
            Ok(conflicts.into_iter().map(merge).collect())
        };
        desk.work().write(stale.clone()).resolve(resolve).done(&*desk.store);
        let after = desk.record(name).expect("it was written");
        assert_holds(&after, &merged);
        assert!(before.is_none_or(|before| before.version.revision < after.version.revision), "{stale:?}");
        assert!(desk.keys_where("words", equal(text("x"))).contains(&name.to_owned()));
    }
    // touches and deletions as well
    desk.put("x", &[]);
    let touched = |conflicts: Vec<WriteConflict>| {
        Ok(conflicts.into_iter().map(|it| touch(CollectionId::from(0), "x", it.record.map(|record| record.version), b"touched")).collect())
    };
    desk.work().write(delete(CollectionId::from(0), "x", Some(Version::default()))).resolve(touched).done(&*desk.store);
    assert_eq!(desk.record("x").expect("it stays").contributions, b"touched");
    let deleted = |conflicts: Vec<WriteConflict>| {
        Ok(conflicts.into_iter().map(|it| delete(CollectionId::from(0), "x", it.record.map(|record| record.version))).collect())
    };
    desk.work().write(touch(CollectionId::from(0), "x", Some(Version::default()), b"")).resolve(deleted).done(&*desk.store);
    assert_eq!(desk.record("x"), None);
}

pub fn when_resolve_returns_nothing_the_record_stays_as_it_is(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.work().write(put(CollectionId::from(0), "x", None, full_content(&desk))).done(&*desk.store);
    let before = desk.record("x");
    let stale = put(CollectionId::from(0), "x", None, desk.content(&[("words", texts(&["stale"])), ("note", text("stale"))]));
    let neighbour = put(CollectionId::from(0), "y", None, desk.content(&[]));
    desk.work().writes([stale, neighbour]).resolve(|_| Ok(Vec::new())).done(&*desk.store);
    assert_eq!(desk.record("x"), before);
    assert_eq!(desk.keys_where("words", equal(text("a"))), ["x"]);
    assert_eq!(desk.keys_where("words", equal(text("stale"))), Vec::<String>::new());
    assert_eq!(desk.keys_where("note", wildcard("*stale*")), Vec::<String>::new());
    assert!(desk.record("y").is_some());
}

pub fn what_resolve_returns_for_another_version_fails_the_unit(place: &Place) {
    // a write that the caller believes to have happened must not be lost
    let desk = Desk::open(place, SHELF);
    desk.put("x", &[("colour", text("mine"))]);
    let before = desk.record("x");
    let stale = Version::default();
    let wrong: [RecordWrite; 4] = [
        put(CollectionId::from(0), "x", None, desk.content(&[])),
        put(CollectionId::from(0), "x", Some(stale), desk.content(&[])),
        touch(CollectionId::from(0), "x", Some(stale), b"lost"),
        delete(CollectionId::from(0), "x", Some(stale)),
    ];
    for again in wrong {
        let neighbour = put(CollectionId::from(0), "y", None, desk.content(&[]));
        let first = put(CollectionId::from(0), "x", Some(stale), desk.content(&[]));
        let returned = again.clone();
        let (result, _) = desk.work().writes([first, neighbour]).resolve(move |_| Ok(vec![returned.clone()])).commit(&*desk.store);
        assert!(result.is_err(), "{again:?} is lost without a word");
        assert_eq!(desk.record("x"), before);
        assert_eq!(desk.record("y"), None);
    }
}

pub fn a_revision_is_the_receipts_stamp_and_only_grows(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let mut last = 0;
    for round in 0..20 {
        let receipt = desk.put("x", &[("weight", Value::Int(round))]);
        let version = desk.version("x").expect("it is there");
        assert_eq!(version, Version::new(receipt.committed_at, 0));
        assert!(version.revision > last);
        last = version.revision;
    }
}

pub fn a_revision_grows_over_deletion_and_over_reopening(place: &Place) {
    let mut desk = Desk::open(place, SHELF);
    let mut last = 0;
    for round in 0..6 {
        desk.put("x", &[("weight", Value::Int(round))]);
        let revision = desk.version("x").expect("it is there").revision;
        assert!(revision > last, "round {round}");
        last = revision;
        desk.delete("x");
        if round % 2 == 1 {
            desk = desk.reopen(place);
        }
    }
}

pub fn the_clock_is_never_the_same_twice(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let store = &*desk.store;
    let mut times: Vec<i64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| (0..5_000).map(|_| store.clock()).collect::<Vec<i64>>())).collect();
        let times: Vec<Vec<i64>> = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(times.iter().all(|own| own.is_sorted_by(|a, b| a < b)));
        times.concat()
    });
    let all = times.len();
    times.sort_unstable();
    times.dedup();
    assert_eq!(times.len(), all);
    let stamp = desk.put("x", &[]).committed_at;
    assert!(stamp > times[all - 1]);
    assert!(desk.store.clock() > stamp);
}

pub fn a_receipt_counts_the_rows_that_were_written(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let empty = || desk.content(&[]);
    assert_eq!(desk.work().writes(["a", "b", "c"].map(|name| put(CollectionId::from(0), name, None, empty()))).done(&*desk.store).rows, 3);
    assert_eq!(desk.work().done(&*desk.store).rows, 0);
    let writes = [
        put(CollectionId::from(0), "a", None, empty()),
        delete(CollectionId::from(0), "b", desk.version("b")),
        touch(CollectionId::from(0), "c", Some(Version::default()), b""),
    ];
    let again = put(CollectionId::from(0), "a", desk.version("a"), empty());
    let receipt = desk.work().writes(writes).resolve(move |_| Ok(vec![again.clone()])).done(&*desk.store);
    assert_eq!(receipt.rows, 2, "b went and a was merged; c was left alone");
}

pub fn a_store_says_what_it_has_committed(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let before = desk.store.vitals().expect("a store says how it does");
    desk.work().writes(["a", "b", "c"].map(|name| put(CollectionId::from(0), name, None, desk.content(&[])))).done(&*desk.store);
    let (failed, _) = desk
        .work()
        .writes([put(CollectionId::from(0), "a", None, desk.content(&[]))])
        .resolve(|_| Err(StoreError::Wrong("no".into())))
        .commit(&*desk.store);
    assert!(failed.is_err());
    let after = desk.store.vitals().expect("a store says how it does");
    assert_eq!(after.rows - before.rows, 3);
    assert!(after.commits > before.commits && after.write_time > before.write_time, "{after:?} {before:?}");
    assert_eq!((after.waiting, after.connections_in_use), (0, 0));
    assert!(after.connections > 0 && after.bytes > 8_192, "{after:?}");
}

pub fn an_error_in_resolve_takes_everything_back(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.put("b", &[("colour", text("old"))]);
    desk.put("d", &[("colour", text("old"))]);
    let before = ["a", "b", "c", "d"].map(|name| desk.record(name));
    let writes = [
        put(CollectionId::from(0), "a", None, full_content(&desk)),
        put(CollectionId::from(0), "b", desk.version("b"), full_content(&desk)),
        put(CollectionId::from(0), "c", Some(Version::default()), desk.content(&[])),
        delete(CollectionId::from(0), "d", desk.version("d")),
    ];
    let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: 0, child: "a".into(), payload: vec![] };
    let work = desk.work().writes(writes).edge(EdgeChange::Put(edge)).mark(1, "t");
    let (result, _) = work.resolve(|_| Err(StoreError::Wrong("cannot merge".into()))).commit(&*desk.store);
    assert_eq!(result.expect_err("resolve failed").to_string(), "cannot merge");
    assert_eq!(["a", "b", "c", "d"].map(|name| desk.record(name)), before);
    assert_eq!(desk.keys_where("words", equal(text("a"))), Vec::<String>::new());
    assert_eq!(desk.keys_where("note", wildcard("*note*")), Vec::<String>::new());
    assert_eq!(desk.store.edges(&desk.tenant, 1, "t").expect("reading works"), []);
    assert_eq!(desk.store.marks(&desk.tenant, 10).expect("reading works"), []);
}

pub fn a_unit_that_fails_leaves_its_neighbours_alone(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.put("taken", &[]);
    let submit = |number: i64| {
        let child = format!("unit {number}");
        let own = put(CollectionId::from(0), &child, None, desk.content(&[("weight", Value::Int(number))]));
        // every third unit meets a conflict it does not expect
        let stale = (number % 3 == 0).then(|| put(CollectionId::from(0), "taken", None, desk.content(&[])));
        let edge = Edge { link: 1, target: "t".into(), group: "".into(), start: number, child: child.into(), payload: Vec::new() };
        let work = desk.work().write(own).writes(stale).edge(EdgeChange::Put(edge)).mark(1, &number.to_string());
        desk.store.submit(Box::new(work), Priority::Bulk)
    };
    let pending: Vec<PendingCommit> = (0..30).map(submit).collect();
    for (number, pending) in pending.into_iter().enumerate() {
        assert_eq!(pending.wait().is_err(), number % 3 == 0, "unit {number}");
        assert_eq!(desk.record(&format!("unit {number}")).is_some(), number % 3 != 0, "unit {number}");
    }
    let written: Vec<i64> = (0..30).filter(|number| number % 3 != 0).collect();
    let edges = desk.store.edges(&desk.tenant, 1, "t").expect("reading works");
    assert_eq!(edges.iter().map(|edge| edge.start).collect::<Vec<_>>(), written);
    let marks = desk.store.marks(&desk.tenant, 100).expect("reading works");
    assert_eq!(marks.iter().map(|mark| mark.target.clone()).collect::<Vec<_>>(), written.iter().map(i64::to_string).collect::<Vec<_>>());
}

/// A unit that keeps the store busy until the other end is dropped, so that units submitted meanwhile wait together.
fn blocking_unit(desk: &Desk, urgency: Priority) -> (PendingCommit, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel();
    let (arrive, arrived) = mpsc::channel();
    let blocking = desk.work().write(touch(CollectionId::from(0), "blocked", None, b"")).resolve(move |_| {
        let _ = arrive.send(());
        let _ = released.recv();
        Ok(Vec::new())
    });
    let pending = desk.store.submit(Box::new(blocking), urgency);
    arrived.recv().expect("the unit is at work");
    (pending, release)
}

pub fn a_unit_that_fails_beside_other_interactive_work_takes_only_itself_back(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let failing = |name: &str| -> Box<dyn Unit> {
        let writes = [put(CollectionId::from(0), name, None, full_content(&desk)), touch(CollectionId::from(0), "zzz", None, b"")];
        Box::new(desk.work().writes(writes).mark(1, name))
    };
    let fine =
        |name: &str| -> Box<dyn Unit> { Box::new(desk.work().write(put(CollectionId::from(0), name, None, full_content(&desk))).mark(1, name)) };
    // jobs, units that fail and units that do not, in several orders
    for order in ["jf", "fj", "juf", "jfu", "ufj", "ufu", "fuj", "jufjuf", "fjujf"] {
        let (blocked, release) = blocking_unit(&desk, Priority::Interactive);
        let mut units = Vec::new();
        let store = &*desk.store;
        std::thread::scope(|scope| {
            let mut jobs = Vec::new();
            for (place, kind) in order.chars().enumerate() {
                let name = format!("{order} {place} {kind}");
                match kind {
                    'j' => {
                        let job =
                            NewJob { tenant: desk.tenant.clone(), profile: Some(name), source: "deliveries".into(), as_of: None, files: vec![] };
                        jobs.push(scope.spawn(move || store.create_job(job)));
                        // the thread must queue its unit before the next one
                        std::thread::sleep(Duration::from_millis(20));
                    }
                    'f' => units.push((name.clone(), desk.store.submit(failing(&name), Priority::Interactive))),
                    _ => units.push((name.clone(), desk.store.submit(fine(&name), Priority::Interactive))),
                }
            }
            drop(release);
            blocked.wait().expect("the unit is written");
            for job in jobs {
                let job = job.join().expect("no panic").expect("the job is written");
                desk.store.job(job).unwrap_or_else(|error| panic!("{order}: {error}"));
            }
        });
        for (name, pending) in units {
            let fails = name.ends_with('f');
            assert_eq!(pending.wait().is_err(), fails, "{name}");
            assert_eq!(desk.record(&name).is_none(), fails, "{name}");
            let marked = desk.store.marks(&desk.tenant, 1_000).expect("reading works").iter().filter(|mark| mark.target == name).count();
            assert_eq!(marked, usize::from(!fails), "{name}");
        }
    }
}

pub fn units_that_share_a_transaction_see_each_other(place: &Place) {
    let desk = Desk::open(place, SHELF);
    for urgency in [Priority::Bulk, Priority::Interactive] {
        desk.put("x", &[("weight", Value::Int(0))]);
        let read = desk.version("x");
        let (blocked, release) = blocking_unit(&desk, Priority::Interactive);
        // all have read the same version; each adds one to what the one before wrote; every fourth fails
        let add = |number: i64| {
            let empty = desk.content(&[]);
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
            let first = put(CollectionId::from(0), "x", if number % 4 == 3 { None } else { read }, desk.content(&[("weight", Value::Int(1))]));
            desk.store.submit(Box::new(desk.work().write(first).resolve(add_one)), urgency)
        };
        let pending: Vec<PendingCommit> = (0..20).map(add).collect();
        drop(release);
        blocked.wait().expect("the unit is written");
        let written = pending.into_iter().filter_map(|pending| pending.wait().ok()).count();
        assert_eq!(written, 15);
        assert_eq!(desk.value("x", "weight"), Value::Int(15), "{urgency:?}");
    }
}

pub fn a_unit_that_fails_only_when_it_is_done_again_fails_alone(place: &Place) {
    // another unit of the group fails, and when the group is written again, this one finds changed records
    let desk = Desk::open(place, SHELF);
    for urgency in [Priority::Bulk, Priority::Interactive] {
        let (blocked, release) = blocking_unit(&desk, Priority::Interactive);
        let mut times = 0;
        let fickle = desk.work().write(touch(CollectionId::from(0), "missing", None, b"")).resolve(move |_| {
            times += 1;
            if times == 1 { Ok(Vec::new()) } else { Err(StoreError::Wrong("it has changed".into())) }
        });
        let unit = |name: &str| desk.work().write(put(CollectionId::from(0), &format!("{urgency:?} {name}"), None, desk.content(&[])));
        let failing = desk.work().write(touch(CollectionId::from(0), "missing", None, b""));
        let submit = |work: Work| desk.store.submit(Box::new(work), urgency);
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
        let found = ["before", "after", "later"].map(|name| desk.record(&format!("{urgency:?} {name}")).is_some());
        assert_eq!(found, [true; 3], "{urgency:?}");
    }
}

pub fn a_unit_that_panics_fails_alone(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.put("taken", &[]);
    let writes = [put(CollectionId::from(0), "half", None, desk.content(&[])), put(CollectionId::from(0), "taken", None, desk.content(&[]))];
    let panicking = desk.work().writes(writes).resolve(|_| panic!("a mistake in the caller's merge"));
    let first = desk.store.submit(Box::new(panicking), Priority::Bulk);
    let answered = |pending: PendingCommit| {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || tell.send(pending.wait()));
        told.recv_timeout(Duration::from_secs(20)).expect("the store answers")
    };
    let failed = answered(first);
    let next = answered(desk.store.submit(Box::new(desk.work().write(put(CollectionId::from(0), "next", None, desk.content(&[])))), Priority::Bulk));
    failed.expect_err("the unit failed");
    next.expect("the store goes on");
    assert_eq!(desk.record("half"), None);
}

pub fn interactive_and_bulk_units_are_all_written(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let unit = |name: String| -> Box<dyn Unit> { Box::new(desk.work().write(put(CollectionId::from(0), &name, None, desk.content(&[])))) };
    let mut pending = Vec::new();
    for number in 0..60 {
        pending.push(desk.store.submit(unit(format!("bulk {number}")), Priority::Bulk));
        if number % 5 == 0 {
            pending.push(desk.store.submit(unit(format!("interactive {number}")), Priority::Interactive));
        }
    }
    for pending in pending {
        pending.wait().expect("the unit is written");
    }
    desk.store.sync().expect("syncing works");
    assert_eq!(desk.store.count(&desk.plan(vec![])).expect("counting works"), 72);
}

pub fn somebody_who_waits_overtakes_bulk_work(place: &Place) {
    let desk = Desk::open(place, SHELF);
    let unit = |name: String| -> Box<dyn Unit> { Box::new(desk.work().write(put(CollectionId::from(0), &name, None, desk.content(&[])))) };
    let (blocked, release) = blocking_unit(&desk, Priority::Bulk);
    let bulk: Vec<PendingCommit> = (0..10).map(|number| desk.store.submit(unit(format!("bulk {number}")), Priority::Bulk)).collect();
    let interactive = desk.store.submit(unit("interactive".into()), Priority::Interactive);
    // a store may have another thread for it, which goes on meanwhile
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(release);
    blocked.wait().expect("the unit is written");
    let overtaking = interactive.wait().expect("the unit is written").committed_at;
    let overtaken: Vec<i64> = bulk.into_iter().map(|pending| pending.wait().expect("the unit is written").committed_at).collect();
    assert!(overtaken.iter().all(|stamp| overtaking < *stamp));
    assert!(overtaken.is_sorted_by(|one, next| one < next), "bulk work keeps its order");
}

pub fn records_are_there_after_reopening(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.work().write(put(CollectionId::from(0), "x", None, full_content(&desk))).done(&*desk.store);
    let pending: Vec<PendingCommit> = (0..10)
        .map(|number| {
            desk.store.submit(Box::new(desk.work().write(put(CollectionId::from(0), &format!("{number}"), None, desk.content(&[])))), Priority::Bulk)
        })
        .collect();
    let before = desk.record("x");
    // closing finishes waiting units
    let desk = desk.reopen(place);
    for pending in pending {
        pending.wait().expect("the unit is written");
    }
    assert_eq!(desk.record("x"), before);
    assert_eq!(desk.rows(&QueryPlan::all(main_tenant(), CollectionId::from(0))).len(), 11);
}

pub fn questions_are_answered_while_a_unit_is_being_written(place: &Place) {
    let desk = Desk::open(place, SHELF);
    desk.work().write(put(CollectionId::from(0), "a", None, desk.content(&[("colour", text("a"))]))).done(&*desk.store);
    let (inside, is_inside) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let catalogue = desk.catalogue.clone();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let wait_and_merge = move |conflicts: Vec<WriteConflict>| {
                inside.send(()).expect("somebody waits");
                may_go_on.recv().expect("somebody lets it go on");
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
            let stale = put(CollectionId::from(0), "a", None, desk.content(&[("colour", text("b"))]));
            desk.work().write(stale).resolve(wait_and_merge).commit(&*desk.store).0.expect("the unit is written");
        });
        is_inside.recv().expect("the unit has locked its records");
        let names = || desk.store.find(&desk.columns(desk.plan(vec![]), &["colour"])).expect("asking works").rows;
        assert_eq!(names(), [[text("a")]]);
        assert_eq!(desk.store.count(&desk.plan(vec![])).expect("counting works"), 1);
        assert!(desk.store.read(&desk.tenant, CollectionId::from(0), &[key("a")], ReadDetail::Full).expect("reading works")[0].is_some());
        go_on.send(()).expect("the unit waits");
        writer.join().expect("the unit is written");
        assert_eq!(names(), [[text("changed")]]);
    });
}
