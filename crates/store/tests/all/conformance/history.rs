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
      contributed: { type: [integer], index: equal }
      badge: { type: integer, unique: true, index: equal }
      note: { type: text, index: contains, fold: true }
";

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

#[derive(Debug, Clone)]
enum Step {
    /// A writer reads everything.
    Read(usize),
    /// A writer submits changes of some keys, computed from what it has read; the unit may fail at its end.
    Write { writer: usize, changes: Vec<(usize, ChangeKind)>, fails: bool },
}

#[derive(Debug, Clone, Copy)]
enum ChangeKind {
    Put { badge: i64, exists: bool },
    Touch,
    Delete,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop_oneof![
        4 => (0_i64..4, proptest::bool::weighted(0.8)).prop_map(|(badge, exists)| ChangeKind::Put { badge, exists }),
        1 => Just(ChangeKind::Touch),
        2 => Just(ChangeKind::Delete),
    ];
    let changes = proptest::collection::btree_map(0..KEYS.len(), kind, 1..4).prop_map(|changes| changes.into_iter().collect::<Vec<_>>());
    let write = (0_usize..2, changes, proptest::bool::weighted(0.1)).prop_map(|(writer, changes, fails)| Step::Write { writer, changes, fails });
    proptest::collection::vec(prop_oneof![1 => (0_usize..2).prop_map(Step::Read), 3 => write], 1..25)
}

/// A record of the model: all contributions that were merged into it, in order.
#[derive(Debug, Clone, PartialEq, Default)]
struct ModelRecord {
    contributed: Vec<i64>,
    badge: i64,
    exists: bool,
    touches: i64,
    contributions: Vec<u8>,
}

fn content_of(catalogue: &Catalogue, record: &ModelRecord) -> RecordContent {
    let contributed = Value::List(record.contributed.iter().map(|number| Value::Int(*number)).collect());
    let note = text(&format!("Note {}", record.contributed.last().unwrap_or(&0)));
    let values = [("contributed", contributed), ("badge", Value::Int(record.badge)), ("note", note)];
    RecordContent { exists: record.exists, contributions: record.contributions.clone(), ..content(catalogue, CollectionId::from(0), &values) }
}

/// Applies a change to a record: puts add a contribution, touching a missing record has no effect.
fn merge(now: Option<&ModelRecord>, kind: ChangeKind, contribution: i64) -> Option<ModelRecord> {
    let mut record = now.cloned().unwrap_or_default();
    match kind {
        ChangeKind::Put { badge, exists } => {
            record.contributed.push(contribution);
            (record.badge, record.exists) = (badge, exists);
            record.touches = 0;
            record.contributions = contribution.to_le_bytes().to_vec();
            Some(record)
        }
        ChangeKind::Touch => {
            now?;
            record.touches += 1;
            record.contributions = contribution.to_le_bytes().to_vec();
            Some(record)
        }
        ChangeKind::Delete => None,
    }
}

/// The write for a change of a record that was read like this; `None` if there is nothing to touch or delete.
fn write_of(catalogue: &Catalogue, number: usize, read: &ReadRecord, kind: ChangeKind, contribution: i64) -> Option<RecordWrite> {
    let (version, record) = read;
    match (kind, merge(record.as_ref(), kind, contribution)) {
        (ChangeKind::Put { .. }, Some(merged)) => Some(put(CollectionId::from(0), KEYS[number], *version, content_of(catalogue, &merged))),
        (ChangeKind::Touch, Some(merged)) => Some(touch(CollectionId::from(0), KEYS[number], *version, &merged.contributions)),
        (ChangeKind::Delete, _) if record.is_some() => Some(delete(CollectionId::from(0), KEYS[number], *version)),
        _ => None,
    }
}

/// The store's record in terms of the model.
fn model_record_of(record: &StoredRecord) -> ModelRecord {
    ModelRecord {
        contributed: record.golden[1].elements().iter().filter_map(Value::as_int).collect(),
        badge: record.golden[2].as_int().unwrap_or_default(),
        exists: record.exists,
        touches: record.version.touches,
        contributions: record.contributions.clone(),
    }
}

type ReadRecord = (Option<Version>, Option<ModelRecord>);
type Read = BTreeMap<usize, ReadRecord>;

fn as_read(record: Option<&StoredRecord>) -> ReadRecord {
    (record.map(|record| record.version), record.map(model_record_of))
}

fn read_all(fixture: &Fixture) -> Read {
    let found = fixture.store.read(&fixture.tenant, CollectionId::from(0), &KEYS.map(key), ReadDetail::Full).expect("reading works");
    found.iter().enumerate().map(|(number, record)| (number, as_read(record.as_ref()))).collect()
}

/// Applies a unit to the model: every change is merged with the current record, except those that the store refused, which leave it as it is. Fails
/// if a refusal is not justified, or one is missing.
fn apply(
    model: &mut BTreeMap<usize, ModelRecord>,
    read: &Read,
    changes: &[(usize, ChangeKind)],
    contribution: i64,
    refused: &[usize],
) -> std::result::Result<(), String> {
    let holder = |model: &BTreeMap<usize, ModelRecord>, number: usize, badge: i64| {
        model.iter().find(|(other, record)| **other != number && record.exists && record.badge == badge).map(|(other, _)| *other)
    };
    let mut expected = model.clone();
    let mut puts: BTreeMap<usize, ModelRecord> = BTreeMap::new();
    for (number, kind) in changes {
        let read_record = read.get(number).and_then(|(_, record)| record.as_ref());
        if read_record != model.get(number) && matches!((kind, read_record), (ChangeKind::Touch | ChangeKind::Delete, None)) {
            // there was no record when it was read, so nothing is written and nothing can be stale
            continue;
        }
        match merge(expected.get(number), *kind, contribution) {
            None => drop(expected.remove(number)),
            Some(merged) => {
                expected.insert(*number, merged.clone());
                if matches!(kind, ChangeKind::Put { .. }) {
                    puts.insert(*number, merged);
                }
            }
        }
    }
    let is_valid = expected.iter().all(|(number, record)| !record.exists || holder(&expected, *number, record.badge).is_none());
    if is_valid && !refused.is_empty() {
        return Err(format!("{refused:?} are refused, and all of them could be written"));
    }
    for number in refused {
        match model.get(number) {
            Some(record) => drop(expected.insert(*number, record.clone())),
            None => drop(expected.remove(number)),
        }
    }
    for (number, wanted) in &puts {
        let taken = wanted.exists.then(|| holder(&expected, *number, wanted.badge)).flatten();
        if taken.is_some() != refused.contains(number) {
            return Err(format!("record {number} wants {wanted:?}, which record {taken:?} has; refused are {refused:?}"));
        }
    }
    *model = expected;
    Ok(())
}

fn check(fixture: &Fixture, model: &BTreeMap<usize, ModelRecord>, revisions: &mut BTreeMap<usize, i64>) {
    for (number, (version, record)) in read_all(fixture) {
        assert_eq!(record.as_ref(), model.get(&number), "record {}", KEYS[number]);
        if let Some(version) = version {
            let last = revisions.entry(number).or_insert(version.revision);
            assert!(*last <= version.revision, "revisions only grow");
            *last = version.revision;
        }
    }
    let existing: Vec<&str> = model.iter().filter(|(_, record)| record.exists).map(|(number, _)| KEYS[*number]).collect();
    assert_eq!(fixture.keys(fixture.plan(vec![])), existing);
    for badge in 0..4 {
        let holders: Vec<&str> = model.iter().filter(|(_, record)| record.exists && record.badge == badge).map(|(number, _)| KEYS[*number]).collect();
        assert_eq!(fixture.keys_where("badge", equal(Value::Int(badge))), holders);
    }
    for contribution in 0..25 {
        let existing_with = |wanted: &dyn Fn(&ModelRecord) -> bool| -> Vec<&str> {
            model.iter().filter(|(_, record)| record.exists && wanted(record)).map(|(number, _)| KEYS[*number]).collect()
        };
        assert_eq!(
            fixture.keys_where("contributed", equal(Value::Int(contribution))),
            existing_with(&|record| record.contributed.contains(&contribution))
        );
        let note = Comparison::Wildcard(vec![String::new(), format!("OTE {contribution}")]);
        assert_eq!(fixture.keys_where("note", note), existing_with(&|record| record.contributed.last() == Some(&contribution)));
    }
    let all = QueryPlan { distinct: true, ..fixture.columns(fixture.plan(vec![]), &["badge"]) };
    assert_eq!(fixture.store.count(&all).expect("counting works"), existing.len() as u64, "badges are unique");
}

pub fn two_interleaved_writers_end_where_a_naive_model_ends(location: &StoreLocation) {
    let fixture = RefCell::new(Fixture::open(location, MERGED));
    let mut runner = TestRunner::new(Config { failure_persistence: None, cases: 48, ..Config::default() });
    let cases = Cell::new(0);
    let checked = runner.run(&steps(), |steps| {
        // every history has its own tenant, so that one store serves all of them
        let mut fixture = fixture.borrow_mut();
        fixture.tenant = tenant(&format!("case-{}", cases.replace(cases.get() + 1)));
        let mut model = BTreeMap::new();
        let mut revisions = BTreeMap::new();
        let mut reads = [Read::new(), Read::new()];
        for (contribution, step) in (0..).zip(steps) {
            let (writer, changes, fails) = match step {
                Step::Read(writer) => {
                    reads[writer] = read_all(&fixture);
                    continue;
                }
                Step::Write { writer, changes, fails } => (writer, changes, fails),
            };
            let read = &reads[writer];
            let as_it_was_read = |number: usize| read.get(&number).cloned().unwrap_or_default();
            let write = |(number, kind): &(usize, ChangeKind)| write_of(&fixture.catalogue, *number, &as_it_was_read(*number), *kind, contribution);
            let writes: Vec<RecordWrite> = changes.iter().filter_map(write).collect();
            let (kinds, catalogue) = (changes.clone(), fixture.catalogue.clone());
            let merge_again = move |conflicts: Vec<WriteConflict>| {
                if fails {
                    return Err(StoreError::Wrong("it fails when everything else is written".into()));
                }
                let again = |conflict: &WriteConflict| {
                    let (number, kind) = *kinds.iter().find(|(number, _)| KEYS[*number] == conflict.key.as_str())?;
                    write_of(&catalogue, number, &as_read(conflict.record.as_ref()), kind, contribution)
                };
                Ok(conflicts.iter().filter_map(again).collect())
            };
            let never_current = fails.then(|| put(CollectionId::from(0), "z", Some(Version::default()), fixture.content(&[])));
            let (result, feedback) = fixture.unit().writes(writes).writes(never_current).resolve(merge_again).commit(&*fixture.store);
            prop_assert_eq!(result.is_err(), fails, "{:?}", result);
            if !fails {
                let number = |name: &str| KEYS.iter().position(|key| *key == name).expect("a key");
                let refused: Vec<usize> = feedback.refused.iter().map(|(_, name, ..)| number(name)).collect();
                let applied = apply(&mut model, read, &changes, contribution, &refused);
                prop_assert!(applied.is_ok(), "{:?}", applied);
            }
            check(&fixture, &model, &mut revisions);
        }
        Ok(())
    });
    checked.unwrap_or_else(|error| panic!("{error}"));
}
