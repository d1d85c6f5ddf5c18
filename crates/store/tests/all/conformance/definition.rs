//! What a store does when it is opened with another definition than before.

use super::support::*;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_catalogue::value::Value;
use stook_store::plan::{Aggregate, AggregateFunction, Comparison};
use stook_store::*;

const FIRST: &str = "
catalogue: growing
sources:
  shop: { format: json, into: item, as_of: meta.received }
  maker: { format: json, feeds: [{ into: item }, { into: company }], as_of: meta.received }
collections:
  item:
    key: name
    exists: latest
    fields:
      name: text
      code: { type: text, unique: true }
      title: text
      folded: { type: text, fold: true }
      price: { type: integer, survivorship: latest, index: equal }
      words: { type: [text] }
      old_words: { type: [text], index: equal }
      note: { type: text, index: contains }
      trusted: { type: text, survivorship: { prefer: [shop], then: latest } }
      heard: { type: text, from: [shop] }
      both: { type: text, derive: \"title\" }
      checked: { type: text, compare: true }
      spot: geometry
      area: { type: geometry, index: intersects }
    state:
      place: text
      count: { type: integer, index: equal }
  company:
    key: name
    fields:
      name: text
";

/// The first definition with one text replaced by another.
fn changed(changes: &[(&str, &str)]) -> Catalogue {
    let mut text = FIRST.to_owned();
    for (from, to) in changes {
        assert_eq!(text.matches(from).count(), 1, "{from:?} occurs once");
        text = text.replace(from, to);
    }
    definition(&text)
}

/// A fixture with the first definition, with records called a, b and c.
fn first_fixture(location: &StoreLocation) -> Fixture {
    let fixture = Fixture::open(location, FIRST);
    for (name, number) in [("a", 1), ("b", 2), ("c", 3)] {
        let values = [
            ("name", text(name)),
            ("code", text(name)),
            ("title", text(&format!("Title {name}"))),
            ("folded", text(&format!("FOLDED {name}"))),
            ("price", Value::Int(number)),
            ("words", texts(&[name, "all"])),
            ("old_words", texts(&[name, "all"])),
            ("note", text(&format!("a note of {name}"))),
            ("spot", geometry(&format!("POINT({number} 5)"))),
            ("area", geometry(&format!("POINT({number} 5)"))),
            ("place", text(&format!("shelf {name}"))),
            ("count", Value::Int(number)),
        ];
        fixture.put(name, &values);
    }
    // a record that does not exist for readers is stored like the others
    let dead = RecordContent { exists: false, ..fixture.content(&[("title", text("Title a")), ("words", texts(&["a"]))]) };
    fixture.unit().write(put(CollectionId::from(0), "dead", None, dead)).commit_ok(&*fixture.store);
    fixture
}

/// The same store with another definition.
fn reopened(fixture: Fixture, location: &StoreLocation, catalogue: Catalogue) -> Fixture {
    drop(fixture.store);
    let store = location.open(&catalogue);
    Fixture { catalogue, store, tenant: fixture.tenant, collection: fixture.collection }
}

pub fn a_new_store_and_an_unchanged_definition_report_nothing(location: &StoreLocation) {
    let fixture = first_fixture(location);
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    let fixture = fixture.reopen(location);
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    // comments and layout are not the definition
    let fixture = reopened(fixture, location, changed(&[("      title: text\n", "\n      # a comment\n      title:   text\n")]));
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    assert!(fixture.record("a").is_some());
}

pub fn additions_are_applied_and_reported(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let additions = [
        (
            "      title: text\n",
            "      title: { type: text, index: [equal, prefix] }\n      size: integer\n      badge: { type: text, unique: true, index: equal }\n",
        ),
        ("      words: { type: [text] }\n", "      words: { type: [text], index: equal }\n"),
        ("      place: text\n", "      place: { type: text, index: equal }\n      since: timestamp\n"),
        ("price: { type: integer, survivorship: latest, index: equal }", "price: { type: integer, survivorship: latest }"),
        ("      name: text\n", "      name: text\n"),
    ];
    let with_collection = format!(
        "{}  shelf:\n    key: name\n    fields:\n      name: text\n",
        FIRST.replace("{ into: company }]", "{ into: company }, { into: shelf }]")
    );
    let mut wanted = with_collection;
    for (from, to) in &additions[..4] {
        wanted = wanted.replace(from, to);
    }
    let fixture = reopened(fixture, location, definition(&wanted));
    let mut changes = fixture.store.changes().to_vec();
    changes.sort();
    let expected = [
        "collection `shelf` is new",
        "field `item.badge` is new; import documents again to fill it",
        "field `item.size` is new; import documents again to fill it",
        "index on `item.place` is new",
        "index on `item.price` was dropped",
        "index on `item.title` is new",
        "index on `item.words` is new",
        "state field `item.since` is new",
    ];
    assert_eq!(changes, expected);
    // and everything new works
    fixture.put("d", &[("size", Value::Int(5)), ("badge", text("1")), ("since", Value::Int(7)), ("title", text("Title a"))]);
    assert_eq!(fixture.keys_where("size", equal(Value::Int(5))), ["d"]);
    assert_eq!(fixture.keys_where("badge", equal(text("1"))), ["d"]);
    assert_eq!(fixture.keys_where("since", Comparison::Exists(true)), ["d"]);
    assert_eq!(fixture.keys_where("title", equal(text("Title a"))), ["a", "d"]);
    let (result, feedback) = fixture.unit().write(fixture.write_of("e", &[("badge", text("1"))])).commit(&*fixture.store);
    result.expect("the unit is written");
    assert_eq!(feedback.refused.len(), 1);
    let shelf = fixture.catalogue.collection("shelf").expect("it is new").0;
    fixture.unit().write(put(shelf, "s", None, content(&fixture.catalogue, shelf, &[]))).commit_ok(&*fixture.store);
    // once applied, there is nothing to report
    assert_eq!(fixture.reopen(location).store.changes(), Vec::<String>::new());
}

pub fn existing_records_have_no_value_in_an_added_field(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let before = fixture.record("a").expect("it is there");
    // in front of the others, so that positions move
    let added = "      aside: { type: [integer], index: equal }\n      first: { type: text, fold: true, index: [equal, contains] }\n      code:";
    let fixture = reopened(fixture, location, changed(&[("      code:", added), ("      place: text\n", "      mood: text\n      place: text\n")]));
    let after = fixture.record("a").expect("it is there");
    assert_eq!((after.version, &after.contributions), (before.version, &before.contributions));
    assert_eq!(after.golden[..3], [text("a"), Value::Null, Value::Null]);
    assert_eq!(after.golden[3..], before.golden[1..]);
    assert_eq!(after.state, [Value::Null, text("shelf a"), Value::Int(1)]);
    assert_eq!(fixture.keys_where("first", Comparison::Exists(false)), ["a", "b", "c"]);
    fixture.put("a", &[("first", text("NOW known")), ("aside", Value::List(vec![Value::Int(1)]))]);
    assert_eq!(fixture.keys_where("first", wildcard("*know*")), ["a"]);
    assert_eq!(fixture.keys_where("first", equal(text("now KNOWN"))), ["a"]);
    assert_eq!(fixture.keys_where("aside", equal(Value::Int(1))), ["a"]);
}

pub fn an_index_added_later_finds_existing_records(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let indexed = changed(&[
        ("      title: text\n", "      title: { type: text, index: [equal, prefix, contains] }\n"),
        ("folded: { type: text, fold: true }", "folded: { type: text, fold: true, index: [equal, prefix, contains] }"),
        ("      words: { type: [text] }", "      words: { type: [text], index: equal }"),
        ("      place: text\n", "      place: { type: text, index: equal }\n"),
        ("      spot: geometry\n", "      spot: { type: geometry, index: intersects }\n"),
    ]);
    let fixture = reopened(fixture, location, indexed);
    for (name, test, expected) in [
        ("title", equal(text("Title b")), vec!["b"]),
        ("title", Comparison::Prefix("Title".into()), vec!["a", "b", "c"]),
        ("title", wildcard("*tle c*"), vec!["c"]),
        ("folded", equal(text("folded B")), vec!["b"]),
        ("folded", Comparison::Prefix("Fold".into()), vec!["a", "b", "c"]),
        ("folded", wildcard("*ded A*"), vec!["a"]),
        ("words", equal(text("b")), vec!["b"]),
        ("words", Comparison::In(vec![text("all")]), vec!["a", "b", "c"]),
        ("place", equal(text("shelf a")), vec!["a"]),
        ("spot", intersects("LINESTRING(2 0, 9 15)"), vec![]),
        ("spot", intersects("LINESTRING(2 0, 2 15)"), vec!["b"]),
        ("spot", intersects("LINESTRING(2 5, 9 5)"), vec!["b", "c"]),
    ] {
        assert_eq!(fixture.keys_where(name, test.clone()), expected, "{name} {test:?}");
        let explanation = fixture.store.explain(&fixture.plan(vec![(name, test.clone())])).expect("explaining works");
        assert!(!location.is_full_scan(&explanation), "{name} {test:?}: {explanation:?}");
    }
    // and it reflects what happens to them
    fixture.put("a", &[("title", text("Other")), ("words", texts(&["other"])), ("spot", geometry("POINT(3 5)"))]);
    fixture.delete("b");
    assert_eq!(fixture.keys_where("title", Comparison::Prefix("Title".into())), ["c"]);
    assert_eq!(fixture.keys_where("title", wildcard("*itle*")), ["c"]);
    assert_eq!(fixture.keys_where("words", equal(text("all"))), ["c"]);
    assert_eq!(fixture.keys_where("spot", intersects("LINESTRING(0 5, 9 5)")), ["a", "c"]);
    fixture.put("dead", &[("words", texts(&["alive"]))]);
    assert_eq!(fixture.keys_where("words", equal(text("a"))), Vec::<String>::new());
    assert_eq!(fixture.keys_where("words", equal(text("alive"))), ["dead"]);
}

pub fn an_index_that_is_dropped_and_added_again_finds_all_records(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let without = || {
        changed(&[
            ("survivorship: latest, index: equal }", "survivorship: latest }"),
            ("old_words: { type: [text], index: equal }", "old_words: { type: [text] }"),
            ("note: { type: text, index: contains }", "note: text"),
            ("area: { type: geometry, index: intersects }", "area: geometry"),
            ("count: { type: integer, index: equal }", "count: integer"),
        ])
    };
    let answers = |fixture: &Fixture, number: i64, word: &str| {
        [
            fixture.keys_where("price", equal(Value::Int(number))),
            fixture.keys_where("old_words", equal(text(word))),
            fixture.keys_where("note", wildcard(&format!("*note of {word}*"))),
            fixture.keys_where("area", intersects(&format!("LINESTRING({number} 0, {number} 9)"))),
            fixture.keys_where("count", equal(Value::Int(number))),
        ]
    };
    let everywhere = |name: &str| [(); 5].map(|()| vec![name.to_owned()]);
    let fixture = reopened(fixture, location, without());
    assert_eq!(answers(&fixture, 1, "a"), everywhere("a"));
    fixture.put(
        "a",
        &[
            ("price", Value::Int(10)),
            ("old_words", texts(&["x"])),
            ("note", text("a note of x")),
            ("area", geometry("POINT(10 5)")),
            ("count", Value::Int(10)),
        ],
    );
    fixture.delete("b");
    let fixture = reopened(fixture, location, definition(FIRST));
    assert_eq!(answers(&fixture, 10, "x"), everywhere("a"));
    assert_eq!(answers(&fixture, 1, "a"), [(); 5].map(|()| Vec::<String>::new()));
    assert_eq!(answers(&fixture, 2, "b"), [(); 5].map(|()| Vec::<String>::new()));
    assert_eq!(answers(&fixture, 3, "c"), everywhere("c"));
}

pub fn a_folded_list_may_be_added_to_a_collection_with_records(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let fixture = reopened(
        fixture,
        location,
        changed(&[("      title: text\n", "      title: text\n      names: { type: [text], fold: true, index: equal }\n")]),
    );
    assert_eq!(fixture.keys_where("names", Comparison::Exists(true)), Vec::<String>::new());
    fixture.put("a", &[("names", texts(&["\u{c4}da"]))]);
    assert_eq!(fixture.keys_where("names", equal(text("\u{e4}DA"))), ["a"]);
}

pub fn a_field_that_is_no_longer_unique_takes_any_value(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let fixture = reopened(fixture, location, changed(&[("code: { type: text, unique: true }", "code: text")]));
    assert_eq!(fixture.store.changes(), ["`item.code` is not unique any more"]);
    fixture.put("d", &[("code", text("a"))]);
    assert_eq!(fixture.keys_where("code", equal(text("a"))), ["a", "d"]);
}

pub fn a_changed_mapping_has_a_new_generation_and_is_no_change_of_the_store_schema(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let generations = |fixture: &Fixture| [(0, 0), (1, 0), (1, 1)].map(|(source, feed)| fixture.store.generation(SourceId::from(source), feed));
    let first = generations(&fixture);
    assert!(first.iter().all(|generation| *generation > 0));
    let fixture = fixture.reopen(location);
    assert_eq!(generations(&fixture), first);
    let fixture = reopened(fixture, location, changed(&[("      title: text\n", "      title: { type: text, path: \"$.caption\" }\n")]));
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    let second = generations(&fixture);
    assert!(first[..2].iter().all(|generation| !second.contains(generation)), "items are mapped anew");
    assert_eq!(second[2], first[2], "companies are mapped as before");
    let fixture = reopened(fixture, location, definition(FIRST));
    assert_eq!(generations(&fixture), first, "the old map has its old number");
}

/// Changes that are refused, and parts of the messages.
fn refusals() -> Vec<(Catalogue, &'static str)> {
    let single_change = |from: &str, to: &str, reason: &'static str| (changed(&[(from, to)]), reason);
    let company = "  company:\n    key: name\n    fields:\n      name: text\n";
    vec![
        (
            changed(&[(", { into: company }]", "]"), (company, "")]),
            "collection `company` is not in the definition any more, its records are in the store",
        ),
        single_change("  item:\n    key: name", "  item:\n    key: title", "the key of `item` was `name` and is now `title`"),
        single_change("  item:\n    key: name", "  item:\n    key: \"{name}/{title}\"", "the key of `item` was `name` and is now `{name}/{title}`"),
        single_change("exists: latest", "exists: any", "`exists` of `item` changed"),
        single_change("      folded: { type: text, fold: true }\n", "", "field `item.folded` is not in the definition any more"),
        single_change("      place: text\n", "", "state field `item.place` is not in the definition any more"),
        single_change("price: { type: integer,", "price: { type: text,", "field `item.price` was of type integer and is now text"),
        single_change("      words: { type: [text] }", "      words: text", "field `item.words` was of type [text] and is now text"),
        single_change("      place: text\n", "      place: uuid\n", "state field `item.place` was of type text and is now uuid"),
        single_change("heard: { type: text, from: [shop] }", "heard: text", "the rule for the golden value of `item.heard` changed"),
        single_change("derive: \"title\"", "derive: \"folded\"", "the rule for the golden value of `item.both` changed"),
        single_change("folded: { type: text, fold: true }", "folded: text", "`fold` of `item.folded` changed"),
        single_change("      title: text\n", "      title: { type: text, fold: true }\n", "`fold` of `item.title` changed"),
        single_change(
            "      title: text\n",
            "      title: { type: text, unique: true }\n",
            "`item.title` is now unique, records in the store may not be",
        ),
    ]
}

fn refusal_of(location: &StoreLocation, catalogue: &Catalogue) -> String {
    match location.try_open(catalogue) {
        Ok(_) => panic!("it is opened with a definition that does not fit"),
        Err(StoreError::Definition(reasons)) => reasons,
        Err(error) => panic!("it is refused with another error: {error}"),
    }
}

pub fn every_change_that_would_make_stored_values_wrong_is_refused_with_its_reason(location: &StoreLocation) {
    drop(first_fixture(location));
    for (catalogue, reason) in refusals() {
        let message = refusal_of(location, &catalogue);
        let reasons: Vec<&str> = message.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
        assert_eq!(reasons, [reason]);
    }
}

pub fn other_rules_for_values_are_applied_to_records_afterwards(location: &StoreLocation) {
    let first = first_fixture(location);
    assert_eq!(first.store.awaiting_consolidation().expect("a list"), []);
    let before = first.record("a");
    let changes = [
        ("survivorship: latest, index", "survivorship: earliest, index"),
        ("prefer: [shop], then: latest", "prefer: [maker, shop], then: earliest"),
        ("checked: { type: text, compare: true }", "checked: text"),
    ];
    let fixture = reopened(first, location, changed(&changes));
    let reported = fixture.store.changes().join(" ");
    assert!(reported.contains("values of `item` are chosen by other rules (checked, price, trusted)"), "{reported}");
    assert_eq!(fixture.store.awaiting_consolidation().expect("a list"), [CollectionId::from(0)]);
    assert_eq!(fixture.record("a"), before, "values stay until then");
    let fixture = fixture.reopen(location);
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    assert_eq!(fixture.store.awaiting_consolidation().expect("a list"), [CollectionId::from(0)]);
    fixture.store.set_consolidated(CollectionId::from(0)).expect("it is noted");
    assert_eq!(fixture.store.awaiting_consolidation().expect("a list"), []);
}

pub fn all_reasons_are_given_at_once(location: &StoreLocation) {
    drop(first_fixture(location));
    let catalogue = changed(&[("exists: latest", "exists: any"), ("      place: text\n", ""), ("derive: \"title\"", "derive: \"folded\"")]);
    let message = refusal_of(location, &catalogue);
    for reason in ["`exists` of `item` changed", "the rule for the golden value of `item.both` changed", "state field `item.place` is not"] {
        assert!(message.contains(reason), "{message}");
    }
    assert!(message.contains("revert these changes, or export with the old definition"), "it says what to do: {message}");
}

pub fn a_refused_definition_leaves_the_store_unchanged(location: &StoreLocation) {
    let fixture = first_fixture(location);
    let before = fixture.record("a");
    drop(fixture);
    // an addition in the same definition is not applied either
    let catalogue =
        changed(&[("exists: latest", "exists: any"), ("      title: text\n", "      title: { type: text, index: equal }\n      new: text\n")]);
    refusal_of(location, &catalogue);
    let fixture = Fixture::open(location, FIRST);
    assert_eq!(fixture.store.changes(), Vec::<String>::new());
    assert_eq!(fixture.record("a"), before);
    fixture.put("a", &[("title", text("goes on"))]);
    drop(fixture);
    let addition = changed(&[("      title: text\n", "      title: text\n      new: text\n")]);
    assert_eq!(location.open(&addition).changes().len(), 1);
}

/// A fixture with the first definition, while another process has opened the store with a larger one.
fn fixtures_of_old_and_new_definition(location: &StoreLocation) -> (Fixture, Fixture) {
    let old = first_fixture(location);
    let catalogue = changed(&[
        ("      title: text\n", "      title: text\n      new: text\n"),
        ("survivorship: latest, index: equal }", "survivorship: latest }"),
    ]);
    let store = location.open(&catalogue);
    let new = Fixture { catalogue, store, tenant: old.tenant.clone(), collection: CollectionId::from(0) };
    (old, new)
}

pub fn writes_of_a_process_with_the_old_definition_are_refused(location: &StoreLocation) {
    let (old, new) = fixtures_of_old_and_new_definition(location);
    let write = put(CollectionId::from(0), "d", None, old.content(&[]));
    let (result, _) = old.unit().write(write).commit(&*old.store);
    assert!(matches!(result, Err(StoreError::DefinitionChanged)), "{result:?}");
    let job = old.store.create_job(super::queue::new_job(&old.tenant, 1));
    assert!(matches!(job, Err(StoreError::DefinitionChanged)), "{job:?}");
    assert_eq!(new.record("d"), None);
    new.put("d", &[("new", text("value"))]);
    assert_eq!(new.keys_where("new", equal(text("value"))), ["d"]);
    // reads by key still work, so that running requests can be answered
    assert_eq!(old.value("a", "title"), text("Title a"));
    drop(old);
    assert!(matches!(location.try_open(&definition(FIRST)), Err(StoreError::Definition(_))), "the old definition has a field less");
}

pub fn failing_queries_of_a_process_with_the_old_definition_report_the_new_one(location: &StoreLocation) {
    // the index it uses is gone: the error is that the definition changed, not a damaged store
    let (old, new) = fixtures_of_old_and_new_definition(location);
    let plan = || old.plan(vec![("price", equal(Value::Int(1)))]);
    let found = old.store.find(&plan());
    assert!(matches!(&found, Err(StoreError::DefinitionChanged)) || found.as_ref().is_ok_and(|found| found.rows.len() == 1), "{found:?}");
    let counted = old.store.count(&plan());
    assert!(matches!(counted, Err(StoreError::DefinitionChanged) | Ok(1)), "{counted:?}");
    let sum = Aggregate { function: AggregateFunction::Sum, column: old.column("price") };
    let summed = old.store.aggregate(&plan(), &[sum]);
    assert!(matches!(&summed, Err(StoreError::DefinitionChanged)) || summed.as_ref().is_ok_and(|sum| sum == &[Value::Int(1)]), "{summed:?}");
    assert_eq!(new.keys_where("price", equal(Value::Int(1))), ["a"]);
}

pub fn a_new_store_may_be_opened_by_several_threads_at_once(location: &StoreLocation) {
    let catalogue = definition(FIRST);
    let stores: Vec<Box<dyn Store>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| location.try_open(&catalogue))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("it waits for the others")).collect()
    });
    for (number, store) in stores.iter().enumerate() {
        let write = put(CollectionId::from(0), &number.to_string(), None, content(&catalogue, CollectionId::from(0), &[]));
        TestUnit::new(&main_tenant()).write(write).commit_ok(&**store);
    }
    let fixture = Fixture::open(location, FIRST);
    assert_eq!(fixture.keys(fixture.plan(vec![])).len(), 8);
}

pub fn state_of_every_kind_can_be_queried(location: &StoreLocation) {
    let state = "      place: { type: text, index: [equal, prefix] }\n      flags: [text]\n";
    let catalogue = changed(&[("      place: text\n", state)]);
    let fixture = Fixture { store: location.open(&catalogue), catalogue, tenant: main_tenant(), collection: CollectionId::from(0) };
    fixture.put("a", &[("place", text("upper shelf")), ("flags", texts(&["new", "red"]))]);
    fixture.put("b", &[("place", text("box")), ("flags", texts(&["red"]))]);
    assert_eq!(fixture.keys_where("place", wildcard("*shelf*")), ["a"]);
    assert_eq!(fixture.keys_where("place", Comparison::Prefix("box".into())), ["b"]);
    assert_eq!(fixture.keys_where("flags", equal(text("red"))), ["a", "b"]);
    assert_eq!(fixture.keys_where("flags", Comparison::In(vec![text("new")])), ["a"]);
}

pub fn structs_get_members_and_indexes_later(location: &StoreLocation) {
    let definition_text = |members: &str, index: &str| {
        format!(
            "catalogue: c\ncollections: {{ b: {{ key: name, fields: {{ name: text, parts: {{ type: [{{ {members} }}], index: {{ {index} }} }} }} }} }}"
        )
    };
    let fixture = Fixture::open(location, &definition_text("site: text", ""));
    let part = |entries: &[(&str, &str)]| {
        let json: serde_json::Map<String, serde_json::Value> = entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        Value::Json(std::sync::Arc::new(json.into()))
    };
    for (name, sites) in [("a", ["x", "y"]), ("b", ["y", "z"])] {
        let parts = sites.map(|site| part(&[("site", site)]));
        fixture.put(name, &[("name", text(name)), ("parts", Value::List(parts.to_vec()))]);
    }
    assert_eq!(fixture.keys_where("parts.site", equal(text("y"))), ["a", "b"]);
    // an index and a member are added later; existing records are found by the index, and have no value for the member
    let catalogue = definition(&definition_text("site: text, kind: text", "site: equal, kind: equal"));
    let fixture = reopened(fixture, location, catalogue);
    let indexed_plan = fixture.plan(vec![("parts.site", equal(text("x")))]);
    assert!(!location.is_full_scan(&fixture.store.explain(&indexed_plan).expect("a way")));
    assert_eq!(fixture.keys(indexed_plan), ["a"]);
    assert!(fixture.keys_where("parts.kind", Comparison::Exists(true)).is_empty());
    fixture.put(
        "b",
        &[
            ("name", text("b")),
            ("parts", Value::List(vec![part(&[("site", "x"), ("kind", "disk")])])),
            ("parts.site", texts(&["x"])),
            ("parts.kind", texts(&["disk"])),
        ],
    );
    assert_eq!(fixture.keys_where("parts.site", equal(text("x"))), ["a", "b"]);
    assert_eq!(fixture.keys_where("parts.kind", Comparison::Prefix("d".into())), ["b"]);
    assert_eq!(fixture.keys_where("parts.site", equal(text("z"))), Vec::<String>::new());
}
