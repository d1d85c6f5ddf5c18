//! Links by criteria that are tried in order, and records that are one because they share values: compared with an oracle that sees all records at
//! once, on both stores, for every order of arrival.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::links::MAX_COMPONENT;
use stook_catalogue::parse::parse;
use stook_engine::record::{self, RecordAddress};
use stook_engine::settle::{self, SettleRules};
use stook_store::Tenant;
use support::Desk;

const DEFINITION: &str = "
catalogue: library
sources:
  given: { format: json, into: given, as_of: at, let: { gone: { path: $.gone, type: boolean } }, gone: 'gone == true' }
  known: { format: json, into: known, as_of: at, let: { gone: { path: $.gone, type: boolean } }, gone: 'gone == true' }
collections:
  given:
    key: id
    fields: { id: text, at: timestamp, known_id: text, lccn: text, number: text, isbn: { path: '$.isbn[*]', type: [text], clean: isbn } }
    links:
      strict:   { to: known, match: [{ known_id: id }, lccn+number, isbn] }
      smallest: { to: known, match: [{ known_id: id }, [lccn, number], isbn], several: smallest }
      every:    { to: known, match: [{ known_id: id }, lccn+number, isbn], several: every }
      work:     { to: work, match: [lccn, isbn], several: merge, create: true, when: \"number != '3'\" }
  known:
    key: id
    fields: { id: text, at: timestamp, lccn: text, number: text, isbn: { path: '$.isbn[*]', type: [text], clean: isbn } }
  work:
    key: id
    fields:
      id: text
      copies: { type: integer, rollup: { over: given.work, count: true } }
";

fn definition() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).expect("a definition"))
}

fn on_a_file(name: &str) -> Desk {
    let catalogue = definition();
    let folder = support::folder(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    Desk { stores: support::on_a_file(&folder, &catalogue, 2), catalogue, folder }
}

/// ISBNs as suppliers write them, with what they are.
const ISBNS: [(&str, &str); 3] = [("0-306-40615-2", "9780306406157"), ("9780306406157 (pbk.)", "9780306406157"), ("3-16-148410-X", "9783161484100")];

/// A document of one of the two sources.
#[derive(Debug, Clone)]
struct Given {
    source: &'static str,
    id: u8,
    gone: bool,
    known_id: Option<u8>,
    lccn: Option<u8>,
    number: Option<u8>,
    isbns: BTreeSet<usize>,
}

fn document() -> impl Strategy<Value = Given> {
    let some = |most: u8| prop::option::weighted(0.6, 0..most);
    let isbns = prop::collection::btree_set(0..ISBNS.len(), 0..2);
    let fields = (some(3), some(4), prop::option::weighted(0.7, 1..4_u8), isbns);
    (prop::sample::select(vec!["given", "given", "known"]), 0..7_u8, prop::bool::weighted(0.12), fields).prop_map(
        |(source, id, gone, (known_id, lccn, number, isbns))| Given {
            source,
            id,
            gone,
            known_id: known_id.filter(|_| source == "given"),
            lccn,
            number,
            isbns,
        },
    )
}

impl Given {
    fn json(&self, position: usize) -> Json {
        let prefix = &self.source[..1];
        let isbns: Vec<&str> = self.isbns.iter().map(|isbn| ISBNS[*isbn].0).collect();
        json!({
            "id": format!("{prefix}{}", self.id), "at": format!("2024-01-01T00:{:02}:{:02}Z", position / 60, position % 60), "gone": self.gone,
            "known_id": self.known_id.map(|id| format!("k{id}")), "lccn": self.lccn.map(|lccn| format!("l{lccn}")),
            "number": self.number.map(|number| number.to_string()), "isbn": isbns,
        })
    }

    /// What must be equal, by criterion.
    fn values(&self) -> [BTreeSet<String>; 3] {
        let both = self.lccn.zip(self.number).map(|(lccn, number)| format!("{lccn} {number}"));
        let own = if self.source == "known" { Some(self.id) } else { self.known_id };
        let isbns = self.isbns.iter().map(|isbn| ISBNS[*isbn].1.to_owned());
        [own.map(|id| format!("k{id}")).into_iter().collect(), both.into_iter().collect(), isbns.collect()]
    }
}

/// The links of all records, computed from all of them at once.
fn expected(documents: &[Given]) -> (BTreeMap<String, Json>, BTreeMap<String, usize>) {
    let mut newest: BTreeMap<(&str, u8), &Given> = BTreeMap::new();
    for document in documents {
        newest.insert((document.source, document.id), document);
    }
    let of = |source: &str| -> Vec<&Given> {
        newest.iter().filter(|((own, _), document)| *own == source && !document.gone).map(|(_, document)| *document).collect()
    };
    let (given, known) = (of("given"), of("known"));
    let mut links = BTreeMap::new();
    let mut copies = BTreeMap::new();
    for document in &given {
        let found = (0..3).map(|criterion| {
            let is_equal = |other: &&&Given| !document.values()[criterion].is_disjoint(&other.values()[criterion]);
            known.iter().filter(is_equal).map(|other| format!("k{}", other.id)).collect::<BTreeSet<String>>()
        });
        let found = found.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        let mut link = json!({});
        if let Some(first) = found.first() {
            link["smallest"] = json!(first);
            link["every"] = json!(found);
            if found.len() == 1 {
                link["strict"] = json!(first);
            }
        }
        // null is not '3' either
        let has_number = |document: &Given| document.number != Some(3);
        let shares = |one: &Given, other: &Given| {
            let has_same_lccn = one.lccn.is_some() && one.lccn == other.lccn;
            has_number(one) && has_number(other) && (has_same_lccn || !one.values()[2].is_disjoint(&other.values()[2]))
        };
        if shares(document, document) {
            let mut component: BTreeSet<u8> = BTreeSet::from([document.id]);
            while let Some(next) =
                given.iter().find(|other| !component.contains(&other.id) && given.iter().any(|own| component.contains(&own.id) && shares(own, other)))
            {
                component.insert(next.id);
            }
            let key = format!("g{}", component.first().expect("itself"));
            link["work"] = json!(key);
            *copies.entry(key).or_default() += 1;
        }
        links.insert(format!("g{}", document.id), link);
    }
    (links, copies)
}

fn imported(desk: &Desk, documents: &[Given], order: &[usize], chunk: u32) -> Tenant {
    let tenant = desk.new_tenant();
    for (number, part) in order.chunks(5).enumerate() {
        for source in ["given", "known"] {
            let lines: Vec<String> = part
                .iter()
                .filter(|position| documents[**position].source == source)
                .map(|position| documents[*position].json(*position).to_string())
                .collect();
            if !lines.is_empty() {
                let path = desk.folder.join(format!("{}-{source}-{number}.json", tenant.as_str()));
                support::job(&desk.catalogue, &*desk.stores[0], &tenant, source, (&path, &lines.join("\n")), chunk);
            }
        }
        if number % 2 == 0 {
            desk.drain(2);
        }
    }
    desk.drain(2);
    tenant
}

fn compare(desk: &Desk, tenant: &Tenant, documents: &[Given], order: &[usize]) {
    let values = desk.golden_values(tenant);
    let (links, copies) = expected(documents);
    let seen: BTreeMap<String, Json> = values["given"]
        .as_object()
        .expect("records")
        .iter()
        .map(|(key, record)| {
            let fields = ["strict", "smallest", "every", "work"].into_iter().filter(|name| !record[*name].is_null());
            (key.clone(), fields.map(|name| (name.to_owned(), record[name].clone())).collect::<serde_json::Map<_, _>>().into())
        })
        .collect();
    assert_eq!(seen, links, "{order:?} {documents:?}");
    let counted = values["work"].as_object().expect("records").iter().map(|(key, work)| (key.clone(), work["copies"].as_u64().unwrap_or(0) as usize));
    assert_eq!(counted.collect::<BTreeMap<_, _>>(), copies, "{documents:?}");
}

fn law(desk: &Desk, cases: u32) {
    let strategy = prop::collection::vec(document(), 1..24).prop_flat_map(|documents| {
        let order: Vec<usize> = (0..documents.len()).collect();
        (Just(documents), Just(order).prop_shuffle(), 1..6_u32)
    });
    for (documents, order, chunk) in support::drawn(strategy, cases) {
        let tenant = imported(desk, &documents, &order, chunk);
        compare(desk, &tenant, &documents, &order);
        let in_order: Vec<usize> = (0..documents.len()).collect();
        compare(desk, &imported(desk, &documents, &in_order, 100), &documents, &in_order);
    }
    let rules = Arc::new(SettleRules::new(&desk.catalogue));
    let found = settle::check(&*desk.stores[0], &rules, &AtomicBool::new(false), &|_| ()).expect("it looks").expect("nobody stops it");
    assert_eq!((found.incorrect, found.inconclusive), (Vec::new(), 0));
}

#[test]
fn every_order_of_arrival_gives_the_same_links_on_a_file() {
    law(&on_a_file("matching-file"), 40);
}

#[test]
fn every_order_of_arrival_gives_the_same_links_on_a_server() {
    let catalogue = definition();
    let Some(stores) = support::on_a_server("matching", &catalogue) else { return };
    let folder = support::folder("matching-server");
    std::fs::create_dir_all(&folder).expect("a folder");
    law(&Desk { catalogue, stores, folder }, 8);
}

fn plain(source: &'static str, id: u8, lccn: u8) -> Given {
    Given { source, id, gone: false, known_id: None, lccn: Some(lccn), number: Some(1), isbns: BTreeSet::new() }
}

#[test]
fn several_matches_are_named_whoever_came_first() {
    let desk = on_a_file("matching-several");
    let documents = [plain("known", 4, 1), plain("given", 1, 1), plain("known", 2, 1)];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2]] {
        let tenant = imported(&desk, &documents, &order, 10);
        let address = RecordAddress { tenant: &tenant, collection: "given", key: "g1" };
        let found = record::get(&desk.catalogue, &*desk.stores[0], &address, false).expect("it reads").expect("a record");
        let explained = found.explain(&desk.catalogue, &*desk.stores[0], &tenant).expect("an explanation");
        let expected = "link `strict`: 2 records of known have its lccn and number: \"k2\", \"k4\"; none of them is linked";
        assert_eq!(explained["fields"]["strict"]["failed"], json!(expected), "{explained:#}");
        assert_eq!(explained["fields"]["smallest"]["value"], json!("k2"));
        assert_eq!(explained["fields"]["every"]["value"], json!(["k2", "k4"]));
    }
}

#[test]
fn too_many_records_that_share_a_value_are_not_merged() {
    let desk = on_a_file("matching-bound");
    let tenant = desk.new_tenant();
    let import = |name: &str, documents: &[String]| {
        let path = desk.folder.join(format!("{name}.json"));
        support::job(&desk.catalogue, &*desk.stores[0], &tenant, "given", (&path, &documents.join("\n")), 400);
        desk.drain(2);
    };
    let line = |id: usize, at: usize, lccn: &str| {
        json!({"id": format!("g{id:04}"), "at": format!("2024-01-0{at}T00:00:00Z"), "lccn": lccn, "number": "1"}).to_string()
    };
    let all: Vec<String> = (0..=MAX_COMPONENT).map(|id| line(id, 1, "none")).collect();
    let works = || desk.golden_values(&tenant)["work"].as_object().expect("records").len();
    import("most", &all[1..]);
    assert_eq!(works(), 1);
    import("one-more", &all[..1]);
    assert_eq!(works(), MAX_COMPONENT + 1);
    // without one of them they are one again, and the last one is on its own
    import("one-less", &[line(500, 2, "other")]);
    let values = desk.golden_values(&tenant);
    assert_eq!((works(), &values["given"]["g0900"]["work"], &values["given"]["g0500"]["work"]), (2, &json!("g0000"), &json!("g0500")));
}

#[test]
fn mistakes_are_shown_at_their_place() {
    let refused = |link: &str| {
        let text = format!(
            "catalogue: library\nsources:\n  given: {{ format: csv, into: given, as_of: meta.received }}\n  known: {{ format: csv, into: known, as_of: meta.received }}\ncollections:\n  given:\n    key: id\n    fields: {{ id: text, lccn: text, year: integer }}\n    links:\n      known: {link}\n  known: {{ key: id, fields: {{ id: text, lccn: text, year: text }} }}\n"
        );
        let problems = parse(&text).expect_err("a mistake");
        problems.iter().map(|problem| format!("{} {}", problem.message, problem.help.clone().unwrap_or_default())).collect::<Vec<_>>().join("; ")
    };
    for (link, expected) in [
        ("{ to: known, match: lccn }", "`match` is a list of criteria"),
        ("{ to: known, match: [] }", "`match` has 1 to 16 criteria"),
        ("{ to: known, match: [lcn] }", "did you mean `lccn`?"),
        ("{ to: known, match: [lccn+yeer] }", "did you mean `year`?"),
        ("{ to: known, match: [lccn+year] }", "they are never equal"),
        ("{ to: known, match: [lccn, lccn] }", "this criterion is there already"),
        ("{ to: known, match: [lccn], several: merged }", "did you mean `merge`?"),
        ("{ to: known, same: lccn, several: fail }", "`several` requires `match`"),
        ("{ to: known, same: lccn, match: [lccn] }", "criteria that are tried in order"),
        ("{ to: known, match: [lccn], create: true }", "`create` requires `key`, or `match` with `several: merge`"),
        ("{ to: known, match: [{ lccn: id }], several: merge }", "name each field once"),
        ("{ to: given, match: [lccn] }", "a record of this collection would find itself"),
    ] {
        let found = refused(link);
        assert!(found.contains(expected), "{link}: {found}");
    }
}
