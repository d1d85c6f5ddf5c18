//! The law of following changes across definitions: whoever follows makes the records that an export has, while definitions change that are applied by
//! settling or by importing again. `undo.rs` and `complete_deliveries.rs` have it for all kinds of deliveries, edits, withdrawals and undone jobs.

use crate::support;

use proptest::prelude::*;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_engine::EngineError;
use stook_engine::change_feed::{ChangeFollower, cursor_of_export};
use stook_engine::settle::{SettleRules, mark_outdated};
use stook_store::{DEFAULT_TENANT, Store, Tenant};
use stook_testkit::postgres::TestServer;
use support::Desk;
use support::follow::{Follower, exported};

const DEFINITION: &str = "\
catalogue: followed
sources:
  told:
    format: json
    as_of: meta.received
    feeds: [{ into: thing }]
collections:
  thing:
    key: id
    changes: 30d
    fields:
      id: text
      box: text
      weight: integer
    links:
      in_box: { to: box, key: box, create: true }
  box:
    key: id
    changes: 30d
    fields:
      id: text
      sum: { type: integer, rollup: { over: thing.in_box, sum: weight } }
";

/// Definitions that a store can be changed to, one after the other: each adds to the one before it, or changes what is settled.
fn definition(number: usize) -> Arc<Catalogue> {
    let more_fields = DEFINITION.replace("      weight: integer\n", "      weight: integer\n      note: { type: text, index: equal }\n");
    let text = match number {
        0 => DEFINITION.to_owned(),
        1 => more_fields,
        2 => more_fields.replace("sum: weight }", "max: weight }"),
        _ => more_fields.replace("sum: weight }", "count: true }"),
    };
    Arc::new(parse(&text).unwrap_or_else(|problems| panic!("{problems:?}\n{text}")))
}

#[derive(Debug, Clone)]
enum Step {
    /// Delivers things: a key, a box, a weight.
    Deliver(Vec<(u8, u8, i64)>),
    /// Applies the next definition.
    Define,
    /// Reads on.
    Read(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec((0_u8..5, 0_u8..3, 0_i64..9), 1..6).prop_map(Step::Deliver),
        1 => Just(Step::Define),
        2 => (1_usize..5).prop_map(Step::Read),
    ]
}

fn holds(steps: &[Step], folder: &Path, open: &dyn Fn(&Arc<Catalogue>) -> Box<dyn Store>) {
    let tenant = Tenant::new(DEFAULT_TENANT).expect("a tenant");
    let mut number = 0;
    let at = |number: usize| {
        let catalogue = definition(number);
        Desk { stores: vec![open(&catalogue)], catalogue, folder: folder.to_owned() }
    };
    let (mut desk, mut follower) = (at(0), Follower::default());
    for (position, step) in steps.iter().enumerate() {
        match step {
            Step::Deliver(things) => {
                let line = |(id, inside, weight): &(u8, u8, i64)| {
                    format!("{}\n", json!({"id": format!("t{id}"), "box": format!("b{inside}"), "weight": weight, "note": format!("n{weight}")}))
                };
                let text: String = things.iter().map(line).collect();
                support::job(&desk.catalogue, &*desk.stores[0], &tenant, "told", (&folder.join(format!("{position}.json")), &text), 2);
                desk.drain(1);
            }
            Step::Define => {
                number = (number + 1).min(3);
                drop(desk);
                desk = at(number);
                let rules = Arc::new(SettleRules::new(&desk.catalogue));
                mark_outdated(&*desk.stores[0], &rules, &|_| ()).expect("records are marked");
                desk.drain(1);
            }
            Step::Read(page) => follower.read(&desk.catalogue, &*desk.stores[0], &tenant, *page),
        }
    }
    follower.read(&desk.catalogue, &*desk.stores[0], &tenant, 3);
    assert_eq!(follower.records, exported(&desk.catalogue, &*desk.stores[0], &tenant));
}

fn open_file(folder: &Path, catalogue: &Arc<Catalogue>) -> Box<dyn Store> {
    support::on_a_file(folder, catalogue, 1).remove(0)
}

#[test]
fn whoever_follows_has_what_an_export_has_while_definitions_change() {
    for (number, steps) in support::drawn(prop::collection::vec(step(), 2..12), 24).enumerate() {
        let folder = support::folder(&format!("follow-{number}"));
        holds(&steps, &folder, &|catalogue| open_file(&folder, catalogue));
    }
}

#[test]
fn whoever_follows_has_what_an_export_has_while_definitions_change_on_a_server() {
    if TestServer::shared().is_none() {
        return;
    }
    for (number, steps) in support::drawn(prop::collection::vec(step(), 2..12), 8).enumerate() {
        let folder = support::folder(&format!("follow-server-{number}"));
        holds(&steps, &folder, &|catalogue| support::on_a_server(&format!("follow_{number}"), catalogue).expect("a server").remove(0));
    }
}

#[test]
fn cursors_lead_on_or_are_refused_with_what_to_do() {
    let (folder, catalogue, tenant) = (support::folder("follow-cursors"), definition(0), Tenant::new(DEFAULT_TENANT).expect("a tenant"));
    let desk = Desk { stores: vec![open_file(&folder, &catalogue)], catalogue, folder: folder.clone() };
    let store = &*desk.stores[0];
    let lines: String = (0..10).map(|id| format!("{}\n", json!({"id": format!("t{id}"), "weight": id}))).collect();
    support::job(&desk.catalogue, store, &tenant, "told", (&folder.join("first.json"), &lines), 1_000);
    desk.drain(1);
    let follower = ChangeFollower::new(&desk.catalogue, store, &tenant, Some("thing")).expect("changes are kept");
    // in the middle of a batch
    let beginning = follower.begin(None).expect("a cursor");
    let first = follower.read(&beginning, 4).expect("changes");
    assert_eq!(first.changes.iter().map(|change| change.entry.key.as_str()).collect::<Vec<_>>(), ["t0", "t1", "t2", "t3"]);
    assert_eq!(first.next, first.changes[3].cursor);
    let text = first.changes[1].cursor.to_string();
    let rest = follower.read(&follower.begin(Some(&text)).expect("a cursor"), 100).expect("changes");
    assert_eq!((rest.changes.len(), rest.changes[0].entry.key.as_str()), (8, "t2"));
    let json = rest.changes[0].to_json();
    assert_eq!(json["by"], json!([{ "contributor": "told", "job": 1 }]));
    assert_eq!((&json["change"], &json["settled"], &json["fields"]["weight"]), (&json!("created"), &json!(false), &json!(2)));
    // at the end
    assert_eq!(follower.read(&rest.next, 100).expect("changes").changes, []);
    let export = cursor_of_export(&desk.catalogue, store, &tenant, "thing").expect("a cursor").expect("they are kept");
    assert_eq!(follower.read(&export, 100).expect("changes").changes, []);
    assert_eq!(follower.begin(Some("now")).expect("a cursor"), export);
    for wrong in ["", "then", "12", "-5", "abcdef-1-2", "zz-1", "12-1.x"] {
        assert!(matches!(follower.begin(Some(wrong)), Err(EngineError::Wrong(_))), "{wrong}");
    }
    let (epoch, position) = text.split_once('-').expect("a cursor");
    let too_late = format!("{epoch}-{}", i64::MAX);
    let other = format!("0123abcd-{position}");
    for expired in [&too_late, &other] {
        let refused = follower.begin(Some(expired)).expect_err("it is of another store");
        assert!(matches!(&refused, EngineError::Expired(reason) if reason.contains("export the records")), "{refused}");
    }
    // what is too old
    let brief = Arc::new(parse(&DEFINITION.replacen("changes: 30d", "changes: 1ms", 1)).expect("a definition"));
    let cursor = rest.next.to_string();
    drop(follower);
    drop(desk);
    let store = open_file(&folder, &brief);
    std::thread::sleep(std::time::Duration::from_millis(10));
    stook_engine::change_feed::expire(&*store, &AtomicBool::new(false)).expect("it expires");
    let follower = ChangeFollower::new(&brief, &*store, &tenant, None).expect("changes are kept");
    follower.begin(Some(&cursor)).expect("nothing after it is lost");
    for expired in [Some(text.as_str()), None] {
        let refused = follower.begin(expired).expect_err("it is too old");
        assert!(matches!(&refused, EngineError::Expired(reason) if reason.contains("`thing` keeps 1ms")), "{refused}");
    }
    assert!(ChangeFollower::new(&brief, &*store, &tenant, Some("thingy")).is_err());
}
