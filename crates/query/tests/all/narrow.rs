//! Narrowing queries: the number of a value is the number of records that its query finds; completions of a text exist.

use crate::support;

use std::collections::BTreeSet;
use std::sync::LazyLock;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;
use stook_query::{FacetValue, QueryScope, as_value, complete, facets};
use stook_store::Queries;
use support::{Filled, Record, compiled, definition, filled, main_tenant};

const DEFINITION: &str = "
catalogue: narrow
words:
  kind: { tests: { thing: colour } }
  thing: { select: thing }
collections:
  thing:
    key: code
    fields:
      code: text
      kind: { type: text, index: equal }
      colour: { type: text, index: [equal, prefix] }
      heading: { type: text, fold: true, index: [equal, prefix] }
      size: { type: integer, index: equal }
      serial: { type: text, index: equal }
      labels: { type: [text], index: equal }
      open: { type: boolean, index: equal }
      note: text
    links:
      box: { to: box, key: note }
    state:
      status: { type: text, one_of: [free, lent], index: equal }
  box:
    key: code
    fields: { code: text }
";

/// Texts that a query must quote.
const SPECIAL_VALUES: [&str; 9] = ["plain", "two words", "\"quoted\"", "st*r", "a|b,c", "back\\slash", "it's", "x=1", "é ü"];

static THINGS: LazyLock<Filled> = LazyLock::new(|| {
    let catalogue = definition(DEFINITION);
    let collection = &catalogue.collections[CollectionId::from(0)];
    let field_id = |name: &str| collection.field(name).expect("a field").0;
    let thing = |number: usize| {
        let mut thing = Record::empty(format!("k{number:03}"), collection);
        let special = Value::text(SPECIAL_VALUES[number % SPECIAL_VALUES.len()]);
        thing.golden[field_id("code")] = Value::text(thing.key.as_str());
        thing.golden[field_id("kind")] = special.clone();
        thing.golden[field_id("colour")] = special.clone();
        thing.golden[field_id("heading")] = Value::text(if number.is_multiple_of(2) { "Éclair" } else { "eclair" });
        thing.golden[field_id("size")] = Value::Int((number % 3) as i64);
        thing.golden[field_id("serial")] = Value::text(format!("s{number}"));
        thing.golden[field_id("labels")] = Value::List(vec![special.clone(), Value::text("all"), special]);
        thing.golden[field_id("open")] = if number.is_multiple_of(5) { Value::Null } else { Value::Bool(number.is_multiple_of(2)) };
        thing.state[0] = Value::text(if number < 30 { "free" } else { "lent" });
        thing
    };
    let things: Vec<Record> = (0..200).map(thing).collect();
    filled(catalogue.clone(), &[(main_tenant(), &things)])
});

fn count(query: &str) -> u64 {
    THINGS.store.count(&compiled(&THINGS.catalogue, query).plan).expect("counted")
}

#[test]
fn facet_counts_are_the_numbers_of_records_that_their_queries_find() {
    for query in ["thing", "thing size=1", "thing  labels=all | sort size- | grep key, note", "thing kind='two words'", "thing code=k0* open=true"] {
        let found = facets(query, &compiled(&THINGS.catalogue, query), &THINGS.catalogue, &THINGS.store).expect("counted");
        assert!(found.is_complete && found.counted == count(query), "{query}");
        assert!(!found.facets.is_empty(), "{query}");
        for facet in &found.facets {
            for FacetValue { value, records, query: narrowed } in &facet.values {
                assert_eq!(count(narrowed), *records, "{query} by {} {value}: {narrowed}", facet.field);
            }
        }
        let names: BTreeSet<&str> = found.facets.iter().map(|facet| facet.field.as_str()).collect();
        assert!(!names.contains("serial") && !names.contains("code"), "what tells records apart is no kind: {names:?}");
    }
}

#[test]
fn a_value_is_counted_once_of_a_record_and_none_of_rows_that_are_no_records() {
    let labels = |query: &str| {
        let found = facets(query, &compiled(&THINGS.catalogue, query), &THINGS.catalogue, &THINGS.store).expect("counted");
        found.facets.into_iter().find(|facet| facet.field == "labels")
    };
    let all = labels("thing").expect("labels");
    assert_eq!((all.values[0].value.as_str(), all.values[0].records, all.others), ("all", 200, 2));
    for query in ["thing | grep labels | unique", "thing | count(key)"] {
        assert!(labels(query).is_none(), "{query}");
    }
}

#[test]
fn texts_are_completed_with_existing_names_and_values() {
    let words = |text: &str| -> Vec<String> {
        let found = complete(text, &QueryScope::all(&THINGS.catalogue, &THINGS.store, &main_tenant())).expect("completed");
        for completion in &found {
            assert!(completion.query.ends_with(&completion.word), "{completion:?}");
        }
        found.into_iter().map(|completion| completion.word).collect()
    };
    assert_eq!(words("th"), ["thing"]);
    assert_eq!(words(""), ["thing", "box"]);
    assert_eq!(words("thing"), Vec::<String>::new());
    assert_eq!(words("thing s"), ["size=", "serial=", "status="]);
    assert_eq!(words("thing size=1 op"), ["open="]);
    assert_eq!(words("thing open="), ["open=true", "open=false"]);
    assert_eq!(words("thing status=l"), ["status=lent"]);
    assert_eq!(words("thing colour=t"), ["colour=\"two words\""]);
    assert_eq!(words("thing colour=\"two w"), ["colour=\"two words\""]);
    assert_eq!(words("thing b"), ["box=", "box.exists="]);
    assert_eq!((words("thing box.exists=").len(), words("thing box.exists=f")), (2, vec!["box.exists=false".to_owned()]));
    assert_eq!(words("thing | count(key) "), ["by"]);
    assert_eq!(words("thing | count(key), percentile(size, 95) b"), ["by"]);
    assert_eq!(words("thing | count(key) by s"), ["size", "serial", "status"]);
    assert_eq!(words("thing size=1 | count(key) by size, st"), ["status"]);
    assert_eq!(words("thing note=x"), Vec::<String>::new());
    assert_eq!(words("nothing here="), Vec::<String>::new());
    // each value once, in index order, however many records have it
    let found = words("thing colour=");
    let values: BTreeSet<String> = SPECIAL_VALUES.iter().map(|value| format!("colour={}", as_value(value))).collect();
    assert_eq!((found.len(), found.iter().cloned().collect::<BTreeSet<_>>()), (values.len(), values));
    assert_eq!(words("thing heading=É").len(), 1, "folded texts that are equal are one");
    assert_eq!(words("thing serial=s").len(), 12);
    assert_eq!(words("thing code=k19")[..2], ["code=k190", "code=k191"]);
    for word in found {
        assert!(count(&format!("thing {word}")) > 0, "{word}");
    }
}
