//! The law of changed rules: a store whose definition chooses values by other rules ends as one into which everything was imported by these rules, while
//! others go on importing.

use crate::support;

use proptest::prelude::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_engine::settle::{SettleRules, is_settled, mark_outdated};
use stook_store::{DEFAULT_TENANT, ReadDetail, Store, Tenant};
use stook_testkit::postgres::TestServer;
use support::Desk;
use support::follow::{Follower, exported};

const SOURCES: [&str; 3] = ["one", "two", "three"];

/// How two fields choose their values, and how contributors are compared: by texts, and by numbers.
#[derive(Debug, Clone, PartialEq)]
struct Rules {
    text: &'static str,
    list: &'static str,
    compare: (&'static str, &'static str),
}

fn definition(rules: &Rules) -> Arc<Catalogue> {
    let Rules { text, list, compare: (compare_texts, compare_numbers) } = rules;
    let source = |name: &&str| {
        format!(
            "  {name}:\n    format: json\n    let: {{ at: {{ path: $.at, type: timestamp, format: epoch }}, said: {{ path: $.said, type: text }} }}\n    \
             as_of: at\n    gone: \"said == 'gone'\"\n    into: thing\n"
        )
    };
    let sources: String = SOURCES.iter().map(source).collect();
    let text = format!(
        "catalogue: ruled
sources:
{sources}collections:
  thing:
    key: id
    changes: 30d
    fields:
      id: text
      text: {{ type: text, survivorship: {text}, compare: {compare_texts}, index: equal }}
      list: {{ type: [text], survivorship: {list}, index: equal }}
      weight: {{ type: integer, survivorship: {text}, compare: {compare_numbers} }}
      box: {{ type: text, survivorship: {text} }}
      long: {{ type: integer, derive: \"size(text)\" }}
    links:
      in_box: {{ to: box, key: box, create: true }}
  box:
    key: id
    changes: 30d
    fields:
      id: text
      sum: {{ type: integer, rollup: {{ over: thing.in_box, sum: weight }} }}
"
    );
    Arc::new(parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}")))
}

#[derive(Debug, Clone)]
struct Doc {
    source: usize,
    id: u8,
    at: i64,
    text: &'static str,
    weight: Option<i64>,
    gone: bool,
}

fn rules() -> impl Strategy<Value = Rules> {
    let text = prop::sample::select(vec!["latest", "earliest", "{ prefer: [two], then: latest }", "{ prefer: [three, one], then: earliest }"]);
    let list = prop::sample::select(vec!["latest", "earliest", "union", "{ prefer: [two], then: latest }"]);
    let compare = prop::sample::select(vec![("false", "false"), ("true", "true"), ("folded", "{ within: 2 }"), ("false", "{ within: 3 }")]);
    (text, list, compare).prop_map(|(text, list, compare)| Rules { text, list, compare })
}

fn docs() -> impl Strategy<Value = Vec<Doc>> {
    let words = prop::sample::select(vec!["a", "bb", "BB", "dddd"]);
    let doc = (0..SOURCES.len(), 0_u8..4, 0_i64..6, words, prop::option::of(0_i64..9), prop::bool::weighted(0.15))
        .prop_map(|(source, id, at, text, weight, gone)| Doc { source, id, at, text, weight, gone });
    prop::collection::vec(doc, 1..10)
}

fn tenant() -> Tenant {
    Tenant::new(DEFAULT_TENANT).expect("a tenant")
}

fn deliver(desk: &Desk, name: &str, docs: &[Doc]) {
    for (number, source) in SOURCES.iter().enumerate() {
        let line = |doc: &Doc| {
            let said = if doc.gone { "gone" } else { "values" };
            let Doc { id, at, text, weight, .. } = doc;
            format!(
                "{}\n",
                json!({"id": format!("t{id}"), "at": at, "said": said, "text": text, "list": [text, "x"], "weight": weight, "box": format!("b{}", text.len())})
            )
        };
        let text: String = docs.iter().filter(|doc| doc.source == number).map(line).collect();
        if !text.is_empty() {
            let path = desk.folder.join(format!("{name}-{source}.json"));
            support::job(&desk.catalogue, &*desk.stores[0], &tenant(), source, (&path, &text), 2);
        }
    }
    desk.drain(1);
}

/// What is seen of records, with the fields about which contributors disagree.
fn seen(desk: &Desk) -> Vec<String> {
    let (store, mut all) = (&*desk.stores[0], Vec::new());
    for (index, collection) in desk.catalogue.collections.enumerate() {
        let keys = store.keys_after(&tenant(), index, "", 1_000).expect("keys");
        for record in store.read(&tenant(), index, &keys, ReadDetail::Full).expect("records").into_iter().flatten() {
            record.contributions_of(collection).expect("its contributions are sound");
            if record.exists {
                all.push(format!("{} {} {:?} {:?}", collection.name, record.key, record.golden, record.conflicts));
            }
        }
    }
    all
}

type Open<'o> = &'o dyn Fn(&str, &Arc<Catalogue>) -> Box<dyn Store>;

fn holds(folder: &Path, open: Open<'_>, (before, after): (&Rules, &Rules), (first, then): (&[Doc], &[Doc])) {
    let desk = |name: &str, rules: &Rules| {
        let catalogue = definition(rules);
        Desk { stores: vec![open(name, &catalogue)], catalogue, folder: folder.to_owned() }
    };
    let (changed, mut follower) = (desk("changed", before), Follower::default());
    deliver(&changed, "first", first);
    follower.read(&changed.catalogue, &*changed.stores[0], &tenant(), 4);
    drop(changed);
    let changed = desk("changed", after);
    // documents that come before records are consolidated again are merged by the new rules
    let rules = Arc::new(SettleRules::new(&changed.catalogue));
    if before != after {
        assert!(!is_settled(&*changed.stores[0], &rules).expect("a state"), "{before:?} {after:?}");
    }
    deliver(&changed, "then", then);
    mark_outdated(&*changed.stores[0], &rules, &|_| ()).expect("records are consolidated");
    changed.drain(1);
    assert!(is_settled(&*changed.stores[0], &rules).expect("a state"));
    let fresh = desk("fresh", after);
    deliver(&fresh, "first-again", first);
    deliver(&fresh, "then-again", then);
    assert_eq!(seen(&changed), seen(&fresh), "{before:?} to {after:?}");
    follower.read(&changed.catalogue, &*changed.stores[0], &tenant(), 4);
    assert_eq!(follower.records, exported(&changed.catalogue, &*changed.stores[0], &tenant()));
}

#[test]
fn a_store_with_changed_rules_ends_as_a_fresh_import() {
    for (number, (before, after, first, then)) in support::drawn((rules(), rules(), docs(), docs()), 32).enumerate() {
        let folder = support::folder(&format!("ruled-{number}"));
        let open = |name: &str, catalogue: &Arc<Catalogue>| {
            let own = folder.join(name);
            std::fs::create_dir_all(&own).expect("a folder");
            support::on_a_file(&own, catalogue, 1).remove(0)
        };
        holds(&folder, &open, (&before, &after), (&first, &then));
    }
}

#[test]
fn a_store_with_changed_rules_ends_as_a_fresh_import_on_a_server() {
    if TestServer::shared().is_none() {
        return;
    }
    for (number, (before, after, first, then)) in support::drawn((rules(), rules(), docs(), docs()), 8).enumerate() {
        let folder = support::folder(&format!("ruled-server-{number}"));
        let open =
            |name: &str, catalogue: &Arc<Catalogue>| support::on_a_server(&format!("ruled_{number}_{name}"), catalogue).expect("a server").remove(0);
        holds(&folder, &open, (&before, &after), (&first, &then));
    }
}
