//! What has changed in records is given once, in order and without gaps, whoever writes meanwhile.

use super::support::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::record::{Contribution, ContributionContent, ContributionOrigin, Retirement, pack};
use stook_catalogue::value::Value;
use stook_store::change_feed::{ChangeBatch, ChangeEntry, ChangeKind, ChangeSelection, FoundChanges};
use stook_store::*;

pub const FOLLOWED: &str = "
catalogue: shelf
sources:
  deliveries:
    format: json
    as_of: meta.received
    feeds: [{ into: thing }, { into: other }, { into: silent }]
collections:
  thing:
    key: name
    changes: 30d
    fields: { name: text, weight: integer, marks: [text] }
    state: { status: { type: text, one_of: [free, lent] } }
    transitions: { lend: { set: { status: \"'lent'\" } } }
  other: { key: name, changes: 30d, fields: { name: text } }
  silent: { key: name, fields: { name: text } }
";

fn collections(numbers: &[usize]) -> Vec<CollectionId> {
    numbers.iter().map(|number| CollectionId::from(*number)).collect()
}

pub fn read(fixture: &Fixture, from: i64, max_batches: usize) -> FoundChanges {
    let selection = ChangeSelection { tenant: &fixture.tenant, collections: &collections(&[0, 1]), from, seen: from - 1, max_batches };
    fixture.store.read_changes(selection).expect("changes are read")
}

fn entries(batches: &[ChangeBatch]) -> impl Iterator<Item = &ChangeEntry> {
    batches.iter().flat_map(|batch| &batch.entries)
}

/// What changed, as `kind key fields`.
fn shown(found: &FoundChanges) -> Vec<String> {
    entries(&found.batches).map(|entry| format!("{} {} {}", entry.kind.name(), entry.key, Json::Object(entry.fields.clone()))).collect()
}

fn contribution(contributor: &str, job: u64, hash: u8) -> Contribution {
    Contribution {
        contributor: contributor.into(),
        as_of: 1,
        received: None,
        hash: [hash; 16],
        generation: 1,
        origin: ContributionOrigin { job, document: 1 },
        before: None,
        retired: Retirement::None,
        content: ContributionContent::Tombstone,
        raw: None,
        unreadable: Vec::new(),
        corrections: Vec::new(),
    }
}

pub fn what_readers_see_of_records_is_noted_in_the_order_of_commits(location: &StoreLocation) {
    let fixture = Fixture::open(location, FOLLOWED);
    let thing = CollectionId::from(0);
    let nothing = read(&fixture, 0, 10);
    assert_eq!((nothing.batches.len(), nothing.kept_after, nothing.until), (0, 0, 0));
    fixture.put("a", &[("name", text("a")), ("weight", Value::Int(1)), ("status", text("free"))]);
    fixture.put("a", &[("name", text("a")), ("marks", texts(&["x"])), ("status", text("free"))]);
    // neither other contributions nor other times are changes, nor is what readers do not see
    fixture.put("a", &[("name", text("a")), ("marks", texts(&["x"])), ("status", text("free"))]);
    fixture.unit().write(touch(thing, "a", fixture.version("a"), b"later")).commit_ok(&*fixture.store);
    let hidden = RecordContent { exists: false, ..fixture.content(&[("name", text("b"))]) };
    fixture.unit().write(put(thing, "b", None, hidden)).commit_ok(&*fixture.store);
    let state = RecordChange::State { state: vec![text("lent")], state_set: vec![(0, text("lent"))] };
    let lent = RecordWrite { collection: thing, key: key("a"), expect: fixture.version("a"), change: state };
    fixture.unit().write(lent).log("a", "lend").commit_ok(&*fixture.store);
    let settled = RecordChange::Settle(Box::new(fixture.content(&[("name", text("a")), ("weight", Value::Int(7)), ("status", text("lent"))])));
    let settled = RecordWrite { collection: thing, key: key("a"), expect: fixture.version("a"), change: settled };
    fixture.unit().write(settled).commit_ok(&*fixture.store);
    // no field of the collection is settled, so that this writes nothing; but what it says is noted
    fixture.put("b", &[("name", text("b"))]);
    fixture.delete("b");
    let silent = put(CollectionId::from(2), "s", None, content(&fixture.catalogue, CollectionId::from(2), &[("name", text("s"))]));
    let other = put(CollectionId::from(1), "o", None, content(&fixture.catalogue, CollectionId::from(1), &[("name", text("o"))]));
    fixture.unit().writes([other, silent]).commit_ok(&*fixture.store);
    let found = read(&fixture, 0, 100);
    assert_eq!(
        shown(&found),
        [
            r#"created a {"name":"a","weight":1,"status":"free"}"#,
            r#"changed a {"weight":null,"marks":["x"]}"#,
            r#"changed a {"status":"lent"}"#,
            r#"changed a {"weight":7,"marks":null}"#,
            r#"created b {"name":"b"}"#,
            "deleted b {}",
            r#"created o {"name":"o"}"#,
        ]
    );
    let transitions: Vec<Option<&str>> = entries(&found.batches).map(|entry| entry.transition.as_deref()).collect();
    assert_eq!(transitions[..4], [None, None, Some("lend"), None]);
    let revisions: Vec<i64> = entries(&found.batches).filter(|entry| entry.key == "a").map(|entry| entry.revision).collect();
    assert!(revisions.is_sorted() && revisions[2] == revisions[3], "{revisions:?}");
    assert_eq!(Some(revisions[3]), fixture.version("a").map(|version| version.revision));
    // one collection; another tenant; a position
    let only_other = ChangeSelection { tenant: &fixture.tenant, collections: &collections(&[1]), from: 0, seen: 0, max_batches: 100 };
    assert_eq!(shown(&fixture.store.read_changes(only_other).expect("changes are read")), [r#"created o {"name":"o"}"#]);
    let no_changes = ChangeSelection { tenant: &tenant("other"), ..only_other };
    assert_eq!(fixture.store.read_changes(no_changes).expect("changes are read").batches, []);
    let second = found.batches[1].position;
    assert_eq!(read(&fixture, second, 2).batches, found.batches[1..3]);
    let not_kept = ChangeSelection { collections: &collections(&[2]), ..only_other };
    assert!(fixture.store.read_changes(not_kept).expect_err("they are not kept").to_string().contains("`silent`"));
    // and the same after the store was opened again
    let fixture = fixture.reopen(location);
    assert_eq!(read(&fixture, 0, 100), found);
}

pub fn changes_name_the_contributions_that_they_follow_from(location: &StoreLocation) {
    let fixture = Fixture::open(location, FOLLOWED);
    let thing = CollectionId::from(0);
    let with = |values: &[(&str, Value)], contributions: &[Contribution]| {
        let content = fixture.content(values);
        RecordContent { contributions: pack(contributions, &fixture.catalogue.collections[thing], &content.golden), ..content }
    };
    let (one, two) = (contribution("deliveries", 3, 1), contribution("other:p", 4, 2));
    fixture.unit().write(put(thing, "a", None, with(&[("weight", Value::Int(1))], std::slice::from_ref(&one)))).commit_ok(&*fixture.store);
    let both = with(&[("weight", Value::Int(2))], &[one.clone(), two.clone()]);
    fixture.unit().write(put(thing, "a", fixture.version("a"), both)).commit_ok(&*fixture.store);
    let retired = Contribution { retired: Retirement::ByLaterDelivery, ..two.clone() };
    let later = with(&[("weight", Value::Int(3))], &[contribution("deliveries", 5, 3), retired]);
    fixture.unit().write(put(thing, "a", fixture.version("a"), later)).commit_ok(&*fixture.store);
    fixture.delete("a");
    let found = read(&fixture, 0, 10);
    let causes = entries(&found.batches).map(|entry| {
        let shown = entry.causes.iter().map(|cause| format!("{} {} {}", cause.contributor, cause.job, cause.counts));
        shown.collect::<Vec<_>>().join(", ")
    });
    assert_eq!(causes.collect::<Vec<_>>(), ["deliveries 3 true", "other:p 4 true", "deliveries 5 true, other:p 4 false", "deliveries 5 false"]);
}

/// Writers compete for a few records, and readers ask again and again for what was committed since.
pub fn who_follows_while_others_write_misses_nothing_and_reads_nothing_twice(location: &StoreLocation) {
    const WRITERS: usize = 4;
    const WRITES: usize = 50;
    let fixture = Fixture::open(location, FOLLOWED);
    let done = AtomicBool::new(false);
    let write = |writer: usize, number: usize| {
        let values = [("weight", Value::Int((writer * WRITES + number) as i64))];
        let content = fixture.content(&values);
        // mostly the same records, and some of their own
        let name = if number.is_multiple_of(5) { format!("own-{writer}-{number}") } else { format!("k{}", number % 3) };
        let write = fixture.write_of(&name, &values);
        let resolved = content.clone();
        let merge = move |conflicts: Vec<WriteConflict>| {
            let again = |conflict: WriteConflict| {
                put(conflict.collection, conflict.key.as_str(), conflict.record.map(|record| record.version), resolved.clone())
            };
            Ok(conflicts.into_iter().map(again).collect())
        };
        fixture.unit().write(write).resolve(merge).commit_ok(&*fixture.store);
    };
    let follow = |must_end: &AtomicBool, page: usize| {
        let (mut seen, mut from) = (Vec::<ChangeEntry>::new(), 0);
        loop {
            let is_last = must_end.load(Ordering::SeqCst);
            let found = read(&fixture, from, page);
            assert!(found.batches.iter().map(|batch| batch.position).is_sorted_by(|a, b| a < b));
            assert!(found.batches.iter().all(|batch| batch.position >= from && batch.position <= found.until));
            from = found.batches.last().filter(|_| found.batches.len() == page).map_or(found.until, |last| last.position) + 1;
            let is_complete = found.batches.len() < page;
            seen.extend(found.batches.into_iter().flat_map(|batch| batch.entries));
            if is_last && is_complete {
                return seen;
            }
        }
    };
    let followed = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| (writer, &write))
            .map(|(writer, write)| scope.spawn(move || (0..WRITES).for_each(|number| write(writer, number))))
            .collect();
        let readers: Vec<_> =
            [1, 3, 1_000].map(|page| (page, &follow, &done)).map(|(page, follow, done)| scope.spawn(move || follow(done, page))).into();
        writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
        done.store(true, Ordering::SeqCst);
        readers.into_iter().map(|reader| reader.join().expect("it reads")).collect::<Vec<_>>()
    });
    for seen in &followed {
        let mut weights: Vec<i64> = seen.iter().filter_map(|entry| entry.fields["weight"].as_i64()).collect();
        weights.sort_unstable();
        assert_eq!(weights, (0..(WRITERS * WRITES) as i64).collect::<Vec<_>>(), "each write is read once");
        let mut last: BTreeMap<&str, &ChangeEntry> = BTreeMap::new();
        for entry in seen {
            let before = last.insert(&entry.key, entry);
            assert!(before.is_none_or(|before| before.revision < entry.revision), "{before:?} before {entry:?}");
            assert_eq!(entry.kind == ChangeKind::Created, before.is_none());
        }
        for (name, entry) in last {
            assert_eq!(json!(entry.fields["weight"]), fixture.value(name, "weight").to_json(&stook_catalogue::value::FieldType::Integer), "{name}");
        }
        assert_eq!(seen.len(), followed[0].len());
    }
}

pub fn changes_are_kept_as_long_as_their_collection_says(location: &StoreLocation) {
    let brief = FOLLOWED.replacen("changes: 30d", "changes: 1ms", 1);
    let fixture = Fixture::open(location, &brief);
    fixture.put("a", &[("name", text("a"))]);
    let write = put(CollectionId::from(1), "o", None, content(&fixture.catalogue, CollectionId::from(1), &[("name", text("o"))]));
    fixture.unit().write(write).commit_ok(&*fixture.store);
    std::thread::sleep(std::time::Duration::from_millis(30));
    let before = read(&fixture, 0, 10);
    assert_eq!(before.batches.len(), 2);
    assert!(!fixture.store.expire_changes().expect("changes expire"));
    let after = read(&fixture, 0, 10);
    assert_eq!(after.batches, before.batches[1..]);
    assert_eq!((after.kept_after, after.until), (before.batches[0].position, before.until));
    // of the other collection everything is kept
    let only_other = ChangeSelection { tenant: &fixture.tenant, collections: &collections(&[1]), from: 0, seen: 0, max_batches: 10 };
    assert_eq!(fixture.store.read_changes(only_other).expect("changes are read").kept_after, 0);
    let fixture = fixture.reopen(location);
    assert_eq!(read(&fixture, 0, 10), after);
    assert!(!fixture.store.expire_changes().expect("changes expire"));
}

pub fn keeping_changes_begins_and_ends_with_the_definition(location: &StoreLocation) {
    let not_things = FOLLOWED.replacen("    changes: 30d\n", "", 1);
    let fixture = Fixture::open(location, &not_things);
    fixture.put("a", &[("name", text("a"))]);
    let write = put(CollectionId::from(1), "o", None, content(&fixture.catalogue, CollectionId::from(1), &[("name", text("o"))]));
    fixture.unit().write(write).commit_ok(&*fixture.store);
    drop(fixture);
    let fixture = Fixture::open(location, FOLLOWED);
    let found = read(&fixture, 0, 10);
    assert_eq!((shown(&found).len(), found.kept_after), (1, found.until), "what was before is not known");
    let epochs = found.epochs;
    assert_eq!(epochs.len(), 1);
    fixture.put("a", &[("name", text("a")), ("weight", Value::Int(1))]);
    assert_eq!(shown(&read(&fixture, found.until + 1, 10)), [r#"changed a {"weight":1}"#]);
    drop(fixture);
    // they are removed when the collection does not say so any more, and positions are not given again
    let fixture = Fixture::open(location, &not_things);
    fixture.put("a", &[("name", text("a"))]);
    drop(fixture);
    let fixture = Fixture::open(location, FOLLOWED);
    let found = read(&fixture, 0, 10);
    assert_eq!((shown(&found), found.kept_after > 0, &found.epochs), (vec![r#"created o {"name":"o"}"#.to_owned()], true, &epochs));
    assert!(found.kept_after >= found.until);
}

pub fn many_changes_of_one_unit_are_read_in_pages(location: &StoreLocation) {
    let fixture = Fixture::open(location, FOLLOWED);
    let long: String = "lengthy ".repeat(64);
    let names: Vec<String> = (0..2_000).map(|number| format!("n{number:05}")).collect();
    let writes = names.iter().map(|name| put(fixture.collection, name, None, fixture.content(&[("name", text(&format!("{name} {long}")))])));
    fixture.unit().writes(writes).commit_ok(&*fixture.store);
    let found = read(&fixture, 0, 1_000);
    assert!(found.batches.len() > 2, "{}", found.batches.len());
    let mut keys: Vec<&str> = entries(&found.batches).map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, names);
    let (mut from, mut paged) = (0, Vec::new());
    while let Some(batch) = read(&fixture, from, 1).batches.pop() {
        from = batch.position + 1;
        paged.push(batch);
    }
    assert_eq!(paged, found.batches);
}
