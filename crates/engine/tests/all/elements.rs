//! The law of documents whose elements contribute one by one: whatever arrives in whichever order, over however many workers, the elements are those
//! of the newest document of each identity.

use crate::support;

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::parse::parse;
use stook_catalogue::value::show_timestamp;
use stook_engine::settle::complete_delivery;
use stook_engine::withdraw::{self, WithdrawalRequest};
use stook_store::Tenant;
use stook_store::queue::JobId;
use support::Desk;

const DEFINITION: &str = "\
catalogue: elements
sources:
  bibs:
    format: json
    let: { id: $.id, made: { path: $.made, type: timestamp } }
    as_of: [made, meta.received]
    gone: \"removed == true\"
    feeds:
      - into: bib
        map: { id: { expr: id }, title: $.title }
      - into: item
        each: $.items
        map: { code: $.code, shelf: $.shelf, size: $.size, bib: { expr: id } }
collections:
  bib:
    key: id
    fields:
      id: text
      title: text
      items: { type: integer, rollup: { over: item.of, count: true } }
  item:
    key: code
    fields: { code: text, shelf: text, size: integer, bib: text }
    links: { of: { to: bib, key: '{bib}' } }
";

/// A document.
#[derive(Debug, Clone)]
struct Bib {
    id: usize,
    /// Its time; no two documents have the same.
    made: i64,
    removed: bool,
    items: Vec<(usize, i64)>,
}

impl Bib {
    fn to_json(&self) -> Json {
        let items: Vec<Json> = self.items.iter().map(|(code, shelf)| json!({ "code": format!("c{code}"), "shelf": format!("s{shelf}") })).collect();
        let made = show_timestamp(self.made * 1_000_000);
        json!({ "id": format!("b{}", self.id), "made": made, "removed": self.removed, "title": format!("t{}", self.made), "items": items })
    }
}

fn bibs() -> impl Strategy<Value = Vec<Bib>> {
    let items = prop::collection::vec((0..5_usize, 0..3_i64), 0..4);
    let bib = (0..3_usize, prop::bool::weighted(0.1), items).prop_map(|(id, removed, mut items)| {
        let mut named = BTreeSet::new();
        items.retain(|(code, _)| named.insert(*code));
        Bib { id, made: 0, removed, items }
    });
    prop::collection::vec(bib, 1..9).prop_map(|mut all| {
        all.iter_mut().enumerate().for_each(|(position, bib)| bib.made = 1 + position as i64);
        all
    })
}

/// The expected records when everything has arrived.
fn expected(all: &[Bib]) -> Json {
    let mut newest: BTreeMap<usize, &Bib> = BTreeMap::new();
    for bib in all {
        let known = newest.entry(bib.id).or_insert(bib);
        if bib.made > known.made {
            *known = bib;
        }
    }
    newest.retain(|_, bib| !bib.removed);
    let mut items: BTreeMap<String, (i64, Json)> = BTreeMap::new();
    for bib in newest.values() {
        for (code, shelf) in &bib.items {
            let own = (
                bib.made,
                json!({ "code": format!("c{code}"), "shelf": format!("s{shelf}"), "bib": format!("b{}", bib.id), "of": format!("b{}", bib.id) }),
            );
            let known = items.entry(format!("c{code}")).or_insert_with(|| own.clone());
            if own.0 > known.0 {
                *known = own;
            }
        }
    }
    let items: BTreeMap<String, Json> = items.into_iter().map(|(code, (_, item))| (code, item)).collect();
    let count = |id: usize| items.values().filter(|item| item["bib"] == format!("b{id}")).count();
    let bib = |bib: &Bib| json!({ "id": format!("b{}", bib.id), "title": format!("t{}", bib.made), "items": count(bib.id) });
    let bibs: BTreeMap<String, Json> = newest.values().map(|own| (format!("b{}", own.id), bib(own))).collect();
    json!({ "bib": bibs, "item": items })
}

fn definition() -> Arc<Catalogue> {
    // `removed` is a member of the document, not a field of a record
    let text = DEFINITION.replace("let: { id", "let: { removed: { path: $.removed, type: boolean }, id");
    Arc::new(parse(&text).unwrap_or_else(|problems| panic!("{problems:?}")))
}

static FILE: LazyLock<Desk> = LazyLock::new(|| {
    let (catalogue, folder) = (definition(), support::folder("elements-file"));
    let stores = support::on_a_file(&folder, &catalogue, 2);
    Desk { catalogue, stores, folder }
});

static SERVER: LazyLock<Option<Desk>> = LazyLock::new(|| {
    let catalogue = definition();
    let stores = support::on_a_server("elements", &catalogue)?;
    Some(Desk { catalogue, stores, folder: support::folder("elements-server") })
});

impl Desk {
    /// Creates a job for a file with these documents, in chunks of two.
    fn deliver_documents(&self, tenant: &Tenant, documents: &[Json]) -> JobId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let path = self.folder.join(format!("{}.json", NEXT.fetch_add(1, Ordering::SeqCst)));
        let text: String = documents.iter().map(|document| format!("{document}\n")).collect();
        support::job(&self.catalogue, &*self.stores[0], tenant, "bibs", (&path, &text), 2)
    }
}

fn assert_every_order_gives_the_same(desk: &Desk, all: &[Bib], order: &[usize], groups: &[usize], processes: usize) {
    let tenant = desk.new_tenant();
    let mut remaining = order;
    for group in groups.iter().copied().chain([order.len()]) {
        let (now, later) = remaining.split_at(group.min(remaining.len()));
        remaining = later;
        let documents: Vec<Json> = now.iter().map(|position| all[*position].to_json()).collect();
        if !documents.is_empty() {
            // in one file, or in two that are worked on at the same time
            let (first, second) = documents.split_at(if processes > 1 { documents.len() / 2 } else { 0 });
            [first, second].into_iter().filter(|part| !part.is_empty()).for_each(|part| {
                desk.deliver_documents(&tenant, part);
            });
        }
        desk.drain(processes);
    }
    assert_eq!(desk.golden_values(&tenant), expected(all), "{order:?} {groups:?}");
    // doing it all again changes nothing
    let documents: Vec<Json> = all.iter().map(Bib::to_json).collect();
    let again = desk.deliver_documents(&tenant, &documents);
    desk.drain(processes);
    assert_eq!(desk.golden_values(&tenant), expected(all));
    if !all.iter().any(|bib| bib.removed) {
        let counts = desk.outcomes(again);
        assert!(counts.keys().all(|outcome| ["unchanged", "superseded"].contains(outcome)), "{counts:?}");
    }
    // after the withdrawal it is as if nothing had ever been delivered: an old document counts again
    let request = WithdrawalRequest { tenant: &tenant, contributor: "bibs", collection: None, key: None };
    withdraw::withdraw(&desk.catalogue, &*desk.stores[0], &request, &|_| ()).expect("it is withdrawn");
    desk.drain(1);
    assert_eq!(desk.golden_values(&tenant), json!({ "bib": {}, "item": {} }));
    desk.deliver_documents(&tenant, &documents[..1]);
    desk.drain(1);
    assert_eq!(desk.golden_values(&tenant), expected(&all[..1]));
}

fn shuffled() -> impl Strategy<Value = (Vec<Bib>, Vec<usize>, Vec<usize>)> {
    bibs().prop_flat_map(|all| {
        let order: Vec<usize> = (0..all.len()).collect();
        (Just(all), Just(order).prop_shuffle(), prop::collection::vec(1..4_usize, 0..4))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, max_shrink_iters: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_documents_gives_the_same_elements_on_a_file((all, order, groups) in shuffled()) {
        assert_every_order_gives_the_same(&FILE, &all, &order, &groups, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_order_of_documents_gives_the_same_elements_on_a_server((all, order, groups) in shuffled()) {
        if let Some(desk) = &*SERVER {
            assert_every_order_gives_the_same(desk, &all, &order, &groups, 3);
        }
    }
}

/// A correction under the time of what it corrects takes back what it lacks, because it was received later.
#[test]
fn of_documents_of_one_time_the_one_received_later_counts() {
    for desk in [Some(&*FILE), SERVER.as_ref()].into_iter().flatten() {
        let tenant = desk.new_tenant();
        let bib = |items: &[(usize, i64)]| Bib { id: 1, made: 5, removed: false, items: items.to_vec() };
        desk.deliver_documents(&tenant, &[bib(&[(1, 0), (2, 0)]).to_json()]);
        desk.drain(1);
        let job = desk.deliver_documents(&tenant, &[bib(&[(2, 1), (3, 0)]).to_json()]);
        desk.drain(1);
        assert_eq!(desk.golden_values(&tenant), expected(&[bib(&[(2, 1), (3, 0)])]));
        let job = desk.stores[0].job(job).expect("the job");
        let report = complete_delivery::retirement_report(&*desk.stores[0], &desk.catalogue, &job).expect("it reads").expect("a report");
        assert_eq!((report.retired, report.restored), (1, 0));
    }
}

/// An element that cannot be read may be one that older documents contained: nothing of them is retired. One without a key is none of them.
#[test]
fn an_element_that_cannot_be_read_retires_nothing() {
    let desk = &*FILE;
    let tenant = desk.new_tenant();
    let document = |made: i64, items: Json| json!({ "id": "b1", "made": show_timestamp(made * 1_000_000), "title": "t", "items": items });
    let codes = || desk.golden_values(&tenant)["item"].as_object().expect("items").keys().cloned().collect::<Vec<_>>();
    desk.deliver_documents(&tenant, &[document(1, json!([{ "code": "c1" }, { "code": "c2" }]))]);
    desk.drain(1);
    let job =
        desk.deliver_documents(&tenant, &[document(2, json!([{ "code": "c1", "size": "large" }, { "code": { "no": "text" }, "size": "small" }]))]);
    desk.drain(1);
    assert_eq!(codes(), ["c1", "c2"]);
    let reasons: Vec<String> = desk.stores[0].journal(job, 0, 10, false).expect("its journal").into_iter().flat_map(|entry| entry.reasons).collect();
    assert!(reasons.iter().any(|reason| reason == "an element cannot be read, so nothing that older documents contained is retired"), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.starts_with("item 2: no key")), "{reasons:?}");
    desk.deliver_documents(&tenant, &[document(3, json!([{ "code": "c1" }, { "shelf": "s" }, { "code": "c1" }]))]);
    desk.drain(1);
    assert_eq!(codes(), ["c1"]);
}
