//! Records are read in the order in which they changed, and nobody who continues from there misses one.

use super::support::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_store::changes::{ChangePosition, ChangeRange, RevisedRecord};
use stook_store::*;

const PUBLISHED: &str = "
catalogue: shelf
serve: { repository: { name: Shelf, email: shelf@example.org } }
sources:
  deliveries: { format: json, into: thing, as_of: meta.received }
collections:
  thing:
    key: name
    publish: { dc: { title: name } }
    fields: { name: text, weight: integer }
";

const BEGINNING: ChangePosition = ChangePosition { revision: i64::MIN, key: String::new() };

fn changed(fixture: &Fixture, after: &ChangePosition, until: i64, limit: usize) -> Vec<RevisedRecord> {
    let range = ChangeRange { after: after.clone(), until };
    fixture.store.changed(&fixture.tenant, CollectionId::from(0), &range, limit).expect("changes are read")
}

fn names(changed: &[RevisedRecord]) -> Vec<(&str, bool)> {
    changed.iter().map(|record| (record.key.as_str(), record.exists)).collect()
}

pub fn records_are_read_in_the_order_in_which_they_changed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PUBLISHED);
    assert_eq!(changed(&fixture, &BEGINNING, i64::MAX, 10), []);
    // records of one commit have one revision, and are ordered by key
    let writes = ["b", "a", "c"].map(|name| put(CollectionId::from(0), name, None, fixture.content(&[("name", text(name))])));
    fixture.unit().writes(writes).commit_ok(&*fixture.store);
    let second = fixture.put("d", &[("name", text("d"))]).committed_at;
    let all = changed(&fixture, &BEGINNING, i64::MAX, 10);
    assert_eq!(names(&all), [("a", true), ("b", true), ("c", true), ("d", true)]);
    assert_eq!(names(&changed(&fixture, &BEGINNING, second, 10)), names(&all[..3]));
    let after = ChangePosition { revision: all[0].revision, key: "a".into() };
    assert_eq!(names(&changed(&fixture, &after, i64::MAX, 2)), [("b", true), ("c", true)]);
    // only the last change counts, and a record that exists no more is read, too
    fixture.put("a", &[("name", text("a")), ("weight", Value::Int(1))]);
    let content = RecordContent { exists: false, ..fixture.content(&[]) };
    let write = put(CollectionId::from(0), "b", fixture.version("b"), content);
    fixture.unit().write(write).commit_ok(&*fixture.store);
    fixture.unit().write(touch(CollectionId::from(0), "c", fixture.version("c"), b"later")).commit_ok(&*fixture.store);
    assert_eq!(names(&changed(&fixture, &BEGINNING, i64::MAX, 10)), [("c", true), ("d", true), ("a", true), ("b", false)]);
    // those of another tenant are not among them
    let range = ChangeRange { after: BEGINNING, until: i64::MAX };
    assert_eq!(fixture.store.changed(&tenant("other"), CollectionId::from(0), &range, 10).expect("changes are read"), []);
}

/// Writers and a reader at once: the reader asks again and again for what was committed since its last question.
pub fn every_change_is_read_once_by_who_continues_from_the_time_of_the_last_reading(location: &StoreLocation) {
    const WRITERS: usize = 4;
    const WRITES: usize = 60;
    let fixture = Fixture::open(location, PUBLISHED);
    let done = AtomicBool::new(false);
    let mut seen: BTreeMap<String, i64> = BTreeMap::new();
    let mut from = i64::MIN;
    let mut read = |seen: &mut BTreeMap<String, i64>, until: i64| {
        let mut after = ChangePosition { revision: from, key: String::new() };
        loop {
            let page = changed(&fixture, &after, until, 7);
            for record in &page {
                let earlier = seen.insert(record.key.as_str().to_owned(), record.revision);
                assert!(earlier.is_none_or(|earlier| earlier < record.revision), "{record:?} was read already");
                after = ChangePosition { revision: record.revision, key: record.key.as_str().to_owned() };
            }
            if page.len() < 7 {
                break;
            }
        }
        from = from.max(until);
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let fixture = &fixture;
                scope.spawn(move || {
                    for number in 0..WRITES {
                        fixture.put(&format!("{writer}-{}", number % 20), &[("weight", Value::Int(number as i64))]);
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let until = fixture.store.committed_until().expect("a time");
            read(&mut seen, until);
        }
    });
    read(&mut seen, i64::MAX);
    let all = changed(&fixture, &BEGINNING, i64::MAX, 1_000);
    let expected: BTreeMap<String, i64> = all.iter().map(|record| (record.key.as_str().to_owned(), record.revision)).collect();
    assert_eq!((seen.len(), &seen), (WRITERS * 20, &expected));
}

pub fn an_index_of_changes_is_added_to_a_store_with_records_and_dropped_again(location: &StoreLocation) {
    let private = PUBLISHED.replace("    publish: { dc: { title: name } }\n", "");
    let fixture = Fixture::open(location, &private);
    fixture.put("a", &[("name", text("a"))]);
    let range = ChangeRange { after: BEGINNING, until: i64::MAX };
    let refused = fixture.store.changed(&fixture.tenant, CollectionId::from(0), &range, 1).expect_err("it is not published");
    assert!(refused.to_string().contains("not published"), "{refused}");
    drop(fixture);
    let fixture = Fixture::open(location, PUBLISHED);
    assert_eq!(names(&changed(&fixture, &BEGINNING, i64::MAX, 10)), [("a", true)]);
    drop(fixture);
    let fixture = Fixture::open(location, &private);
    fixture.put("b", &[("name", text("b"))]);
    assert!(fixture.record("b").is_some());
}
