//! Any history of two interleaved writers, each of which writes based on what it read at some earlier time, ends as a naive model does.

use super::support::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, QueryPlan};
use stook_store::*;

const MERGED: &str = "
catalogue: merged
sources:
  deliveries: { format: json, into: item, as_of: meta.received }
collections:
  item:
    key: name
    fields:
      name: text
      said: { type: [integer], index: equal }
      badge: { type: integer, unique: true, index: equal }
      note: { type: text, index: contains, fold: true }
";

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Debug, Clone)]
enum Step {
    /// A writer reads everything.
    Read(usize),
    /// A writer submits changes of some keys, computed from what it has read; the unit may fail at its end.
    Write { writer: usize, changes: Vec<(usize, Kind)>, fails: bool },
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Put { badge: i64, alive: bool },
    Touch,
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        4 => (0_i64..4, proptest::bool::weighted(0.8)).prop_map(|(badge, alive)| Kind::Put { badge, alive }),
        1 => Just(Kind::Touch),
        2 => Just(Kind::Delete),
    ];
    let changes = proptest::collection::btree_map(0..KEYS.len(), kind, 1..4).prop_map(|changes| changes.into_iter().collect::<Vec<_>>());
    let write = (0_usize..2, changes, proptest::bool::weighted(0.1)).prop_map(|(writer, changes, fails)| Step::Write { writer, changes, fails });
    proptest::collection::vec(prop_oneof![1 => (0_usize..2).prop_map(Step::Read), 3 => write], 1..25)
}

/// A record of the model: all contributions that were merged into it, in order.
#[derive(Debug, Clone, PartialEq, Default)]
struct Held {
    said: Vec<i64>,
    badge: i64,
    alive: bool,
    touches: i64,
    contributions: Vec<u8>,
}

fn content_of(catalogue: &Catalogue, held: &Held) -> RecordContent {
    let said = Value::List(held.said.iter().map(|number| Value::Int(*number)).collect());
    let note = text(&format!("Note {}", held.said.last().unwrap_or(&0)));
    let values = [("said", said), ("badge", Value::Int(held.badge)), ("note", note)];
    RecordContent { exists: held.alive, contributions: held.contributions.clone(), ..content(catalogue, CollectionId::from(0), &values) }
}

/// Applies a change to a record: puts add a contribution, touching a missing record has no effect.
fn merge(now: Option<&Held>, kind: Kind, statement: i64) -> Option<Held> {
    let mut held = now.cloned().unwrap_or_default();
    match kind {
        Kind::Put { badge, alive } => {
            held.said.push(statement);
            (held.badge, held.alive) = (badge, alive);
            held.touches = 0;
            held.contributions = statement.to_le_bytes().to_vec();
            Some(held)
        }
        Kind::Touch => {
            now?;
            held.touches += 1;
            held.contributions = statement.to_le_bytes().to_vec();
            Some(held)
        }
        Kind::Delete => None,
    }
}

/// The write for a change of a record that was read like this; `None` if there is nothing to touch or delete.
fn write_of(catalogue: &Catalogue, number: usize, read: &ReadRecord, kind: Kind, statement: i64) -> Option<RecordWrite> {
    let (version, held) = read;
    match (kind, merge(held.as_ref(), kind, statement)) {
        (Kind::Put { .. }, Some(merged)) => Some(put(CollectionId::from(0), KEYS[number], *version, content_of(catalogue, &merged))),
        (Kind::Touch, Some(merged)) => Some(touch(CollectionId::from(0), KEYS[number], *version, &merged.contributions)),
        (Kind::Delete, _) if held.is_some() => Some(delete(CollectionId::from(0), KEYS[number], *version)),
        _ => None,
    }
}

/// The store's record in terms of the model.
fn held_of(record: &StoredRecord) -> Held {
    Held {
        said: record.golden[1].elements().iter().filter_map(Value::as_int).collect(),
        badge: record.golden[2].as_int().unwrap_or_default(),
        alive: record.exists,
        touches: record.version.touches,
        contributions: record.contributions.clone(),
    }
}

type ReadRecord = (Option<Version>, Option<Held>);
type Read = BTreeMap<usize, ReadRecord>;

fn as_read(record: Option<&StoredRecord>) -> ReadRecord {
    (record.map(|record| record.version), record.map(held_of))
}

fn read_all(desk: &Desk) -> Read {
    let found = desk.store.read(&desk.tenant, CollectionId::from(0), &KEYS.map(key), ReadDetail::Full).expect("reading works");
    found.iter().enumerate().map(|(number, record)| (number, as_read(record.as_ref()))).collect()
}

/// Applies a unit to the model: every change is merged with the current record, except those that the store refused, which leave it as it is. Fails
/// if a refusal is not justified, or one is missing.
fn apply(
    model: &mut BTreeMap<usize, Held>,
    read: &Read,
    changes: &[(usize, Kind)],
    statement: i64,
    refused: &[usize],
) -> std::result::Result<(), String> {
    let holder = |model: &BTreeMap<usize, Held>, number: usize, badge: i64| {
        model.iter().find(|(other, held)| **other != number && held.alive && held.badge == badge).map(|(other, _)| *other)
    };
    let mut wished = model.clone();
    let mut puts: BTreeMap<usize, Held> = BTreeMap::new();
    for (number, kind) in changes {
        let was = read.get(number).and_then(|(_, held)| held.as_ref());
        if was != model.get(number) && matches!((kind, was), (Kind::Touch | Kind::Delete, None)) {
            // there was no record when it was read, so nothing is written and nothing can be stale
            continue;
        }
        match merge(wished.get(number), *kind, statement) {
            None => drop(wished.remove(number)),
            Some(merged) => {
                wished.insert(*number, merged.clone());
                if matches!(kind, Kind::Put { .. }) {
                    puts.insert(*number, merged);
                }
            }
        }
    }
    let is_valid = wished.iter().all(|(number, held)| !held.alive || holder(&wished, *number, held.badge).is_none());
    if is_valid && !refused.is_empty() {
        return Err(format!("{refused:?} are refused, and all of them could be written"));
    }
    for number in refused {
        match model.get(number) {
            Some(held) => drop(wished.insert(*number, held.clone())),
            None => drop(wished.remove(number)),
        }
    }
    for (number, wanted) in &puts {
        let taken = wanted.alive.then(|| holder(&wished, *number, wanted.badge)).flatten();
        if taken.is_some() != refused.contains(number) {
            return Err(format!("record {number} wants {wanted:?}, which record {taken:?} has; refused are {refused:?}"));
        }
    }
    *model = wished;
    Ok(())
}

fn check(desk: &Desk, model: &BTreeMap<usize, Held>, revisions: &mut BTreeMap<usize, i64>) {
    for (number, (version, held)) in read_all(desk) {
        assert_eq!(held.as_ref(), model.get(&number), "record {}", KEYS[number]);
        if let Some(version) = version {
            let last = revisions.entry(number).or_insert(version.revision);
            assert!(*last <= version.revision, "revisions only grow");
            *last = version.revision;
        }
    }
    let alive: Vec<&str> = model.iter().filter(|(_, held)| held.alive).map(|(number, _)| KEYS[*number]).collect();
    assert_eq!(desk.keys(desk.plan(vec![])), alive);
    for badge in 0..4 {
        let holders: Vec<&str> = model.iter().filter(|(_, held)| held.alive && held.badge == badge).map(|(number, _)| KEYS[*number]).collect();
        assert_eq!(desk.keys_where("badge", equal(Value::Int(badge))), holders);
    }
    for statement in 0..25 {
        let alive_with = |wanted: &dyn Fn(&Held) -> bool| -> Vec<&str> {
            model.iter().filter(|(_, held)| held.alive && wanted(held)).map(|(number, _)| KEYS[*number]).collect()
        };
        assert_eq!(desk.keys_where("said", equal(Value::Int(statement))), alive_with(&|held| held.said.contains(&statement)));
        let note = Comparison::Wildcard(vec![String::new(), format!("OTE {statement}")]);
        assert_eq!(desk.keys_where("note", note), alive_with(&|held| held.said.last() == Some(&statement)));
    }
    let all = QueryPlan { distinct: true, ..desk.columns(desk.plan(vec![]), &["badge"]) };
    assert_eq!(desk.store.count(&all).expect("counting works"), alive.len() as u64, "badges are unique");
}

pub fn two_interleaved_writers_end_where_a_naive_model_ends(place: &Place) {
    let desk = RefCell::new(Desk::open(place, MERGED));
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases: 48, ..Config::default() });
    let cases = Cell::new(0);
    let checked = runner.run(&steps(), |steps| {
        // every history has its own tenant, so that one store serves all of them
        let mut desk = desk.borrow_mut();
        desk.tenant = tenant(&format!("case-{}", cases.replace(cases.get() + 1)));
        let mut model = BTreeMap::new();
        let mut revisions = BTreeMap::new();
        let mut reads = [Read::new(), Read::new()];
        for (statement, step) in (0..).zip(steps) {
            let (writer, changes, fails) = match step {
                Step::Read(writer) => {
                    reads[writer] = read_all(&desk);
                    continue;
                }
                Step::Write { writer, changes, fails } => (writer, changes, fails),
            };
            let read = &reads[writer];
            let as_it_was_read = |number: usize| read.get(&number).cloned().unwrap_or_default();
            let write = |(number, kind): &(usize, Kind)| write_of(&desk.catalogue, *number, &as_it_was_read(*number), *kind, statement);
            let writes: Vec<RecordWrite> = changes.iter().filter_map(write).collect();
            let (kinds, catalogue) = (changes.clone(), desk.catalogue.clone());
            let merge_again = move |conflicts: Vec<WriteConflict>| {
                if fails {
                    return Err(StoreError::Wrong("it fails when everything else is written".into()));
                }
                let again = |conflict: &WriteConflict| {
                    let (number, kind) = *kinds.iter().find(|(number, _)| KEYS[*number] == conflict.key.as_str())?;
                    write_of(&catalogue, number, &as_read(conflict.record.as_ref()), kind, statement)
                };
                Ok(conflicts.iter().filter_map(again).collect())
            };
            let never_current = fails.then(|| put(CollectionId::from(0), "z", Some(Version::default()), desk.content(&[])));
            let (result, told) = desk.work().writes(writes).writes(never_current).resolve(merge_again).commit(&*desk.store);
            prop_assert_eq!(result.is_err(), fails, "{:?}", result);
            if !fails {
                let number = |name: &str| KEYS.iter().position(|key| *key == name).expect("a key");
                let refused: Vec<usize> = told.refused.iter().map(|(_, name, ..)| number(name)).collect();
                let applied = apply(&mut model, read, &changes, statement, &refused);
                prop_assert!(applied.is_ok(), "{:?}", applied);
            }
            check(&desk, &model, &mut revisions);
        }
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}
