//! Edges and marks: what children pass to their targets, and which targets must be settled.

use super::support::*;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use stook_catalogue::ids::{CollectionId, LinkId};
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use stook_store::*;

const PLAIN: &str = "
catalogue: plain
collections:
  item:
    key: name
    fields:
      name: text
";

fn edge(group: &str, start: i64, child: &str) -> Edge {
    Edge { link: 1, target: "t".into(), group: group.into(), start, child: child.into(), payload: child.as_bytes().to_vec() }
}

fn edges(fixture: &Fixture) -> Vec<Edge> {
    fixture.store.edges(&fixture.tenant, 1, "t").expect("reading works")
}

fn marks(fixture: &Fixture) -> Vec<StaleMark> {
    fixture.store.marks(&fixture.tenant, 1_000).expect("reading works")
}

fn targets(marks: &[StaleMark]) -> Vec<&str> {
    marks.iter().map(|mark| mark.target.as_str()).collect()
}

pub fn edges_are_ordered_by_group_start_and_child(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let mut all = Vec::new();
    for group in ["", "A", "B", "a", "a ", "\u{e4}", "\u{ffff}", "\u{10000}"] {
        for start in [i64::MIN, -1, 0, 1, 1_000_000_007, i64::MAX] {
            all.extend(["", "1", "10", "2", "Z", "a"].map(|child| edge(group, start, child)));
        }
    }
    let mut shuffled: Vec<Edge> = all.iter().rev().cloned().collect();
    shuffled.rotate_left(100);
    let unit = shuffled.into_iter().fold(fixture.unit(), |unit, edge| unit.edge(EdgeChange::Put(edge)));
    unit.commit_ok(&*fixture.store);
    all.sort();
    assert_eq!(edges(&fixture), all);
}

pub fn an_edge_put_twice_has_its_last_payload(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let (first, second) = (edge("g", 1, "c"), Edge { payload: b"second".to_vec(), ..edge("g", 1, "c") });
    fixture.unit().edge(EdgeChange::Put(first)).commit_ok(&*fixture.store);
    fixture.unit().edge(EdgeChange::Put(second.clone())).commit_ok(&*fixture.store);
    assert_eq!(edges(&fixture), std::slice::from_ref(&second));
    // inside one unit, changes apply in their order
    let third = Edge { payload: b"third".to_vec(), ..second.clone() };
    fixture
        .unit()
        .edge(EdgeChange::Delete(second.clone()))
        .edge(EdgeChange::Put(second))
        .edge(EdgeChange::Put(third.clone()))
        .commit_ok(&*fixture.store);
    assert_eq!(edges(&fixture), [third]);
}

pub fn a_deleted_edge_is_not_read_and_deleting_it_again_has_no_effect(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().edge(EdgeChange::Put(edge("g", 1, "c"))).edge(EdgeChange::Put(edge("g", 2, "c"))).commit_ok(&*fixture.store);
    for _ in 0..2 {
        let without_payload = Edge { payload: Vec::new(), ..edge("g", 1, "c") };
        fixture.unit().edge(EdgeChange::Delete(without_payload)).commit_ok(&*fixture.store);
        assert_eq!(edges(&fixture), [edge("g", 2, "c")]);
    }
}

pub fn edges_of_other_links_and_targets_are_not_seen(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let of_link = Edge { link: 2, ..edge("g", 1, "c") };
    let of_target = Edge { target: "T".into(), ..edge("g", 1, "c") };
    let unit =
        [edge("g", 1, "c"), of_link.clone(), of_target.clone()].into_iter().fold(fixture.unit(), |unit, edge| unit.edge(EdgeChange::Put(edge)));
    unit.commit_ok(&*fixture.store);
    assert_eq!(edges(&fixture), [edge("g", 1, "c")]);
    assert_eq!(fixture.store.edges(&fixture.tenant, 2, "t").expect("reading works"), [of_link]);
    assert_eq!(fixture.store.edges(&fixture.tenant, 1, "T").expect("reading works"), [of_target]);
    assert_eq!(fixture.store.edges(&fixture.tenant, 3, "t").expect("reading works"), []);
}

pub fn marks_are_listed_by_order_and_then_oldest_first(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(2, "b").mark(1, "a").mark(1, "c").commit_ok(&*fixture.store);
    fixture.unit().mark(1, "a").commit_ok(&*fixture.store);
    let listed = marks(&fixture);
    assert_eq!(targets(&listed), ["a", "c", "a", "b"], "marks are appended, not merged");
    assert!(listed[..3].is_sorted_by(|one, next| one.id < next.id));
    assert!(listed.iter().all(|mark| (mark.rule, mark.part.as_str(), mark.job) == (3, "p", 7)));
    assert_eq!(targets(&fixture.store.marks(&fixture.tenant, 2).expect("reading works")), ["a", "c"]);
    assert_eq!(fixture.store.tenants_with_marks().expect("reading works"), std::slice::from_ref(&fixture.tenant));
}

/// A pass that records its marks, and clears them if `clears`.
struct RecordingPass {
    clears: bool,
    processed: Mutex<Vec<Vec<StaleMark>>>,
    reads: fn(&mut dyn PassContext),
}

impl RecordingPass {
    fn new(clears: bool, reads: fn(&mut dyn PassContext)) -> Arc<Self> {
        Arc::new(Self { clears, processed: Mutex::default(), reads })
    }

    fn processed_targets(&self) -> Vec<Vec<String>> {
        let processed = self.processed.lock().expect("nobody panicked");
        processed.iter().map(|marks| targets(marks).into_iter().map(str::to_owned).collect()).collect()
    }
}

impl SettlePass for RecordingPass {
    fn max_marks(&self) -> usize {
        100
    }

    fn run(&self, _tenant: &Tenant, marks: &[StaleMark], _refused: &[RefusedWrite], context: &mut dyn PassContext) -> Result<PassWrites> {
        self.processed.lock().expect("nobody panicked").push(marks.to_vec());
        (self.reads)(context);
        if !self.clears {
            return Err(StoreError::Wrong("no".into()));
        }
        let mut settled = PassWrites::default();
        settled.settling.cleared = marks.iter().map(|mark| mark.id).collect();
        Ok(settled)
    }
}

pub fn a_pass_takes_marks_of_the_lowest_order_until_none_remains(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(2, "a").mark(1, "a").mark(1, "a").commit_ok(&*fixture.store);
    let pass_record = RecordingPass::new(true, |_| ());
    let pass: Arc<dyn SettlePass> = pass_record.clone();
    let cleared: Vec<u64> = (0..3).map(|_| fixture.store.settle(&fixture.tenant, &pass).expect("it passes").marks_cleared).collect();
    assert_eq!(cleared, [2, 1, 0]);
    assert_eq!(pass_record.processed_targets(), [vec!["a", "a"], vec!["a"]]);
    assert_eq!(marks(&fixture), []);
    assert_eq!(fixture.store.tenants_with_marks().expect("reading works"), []);
}

pub fn a_pass_that_fails_leaves_its_marks(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(1, "a").commit_ok(&*fixture.store);
    let pass: Arc<dyn SettlePass> = RecordingPass::new(false, |_| ());
    assert!(fixture.store.settle(&fixture.tenant, &pass).is_err());
    assert_eq!(targets(&marks(&fixture)), ["a"]);
}

pub fn a_pass_reads_edges_by_group_by_range_and_by_page(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let all = [edge("", 1, "a"), edge("", 5, "b"), edge("", 5, "c"), edge("", 9, "d"), edge("g", 2, "e"), edge("h", 3, "f")];
    let other_edges = [Edge { target: "u".into(), ..edge("", 5, "x") }, Edge { link: 2, ..edge("", 5, "y") }];
    let unit = all.iter().chain(&other_edges).fold(fixture.unit(), |unit, edge| unit.edge(EdgeChange::Put(edge.clone())));
    unit.mark(1, "t").commit_ok(&*fixture.store);
    let pass_record = RecordingPass::new(true, |context| {
        let children = |edges: Vec<Edge>| edges.into_iter().map(|edge| edge.child.to_string()).collect::<String>();
        let (t, u) = (|| "t".to_owned(), || "u".to_owned());
        let group = |group: &str| Some(group.to_owned());
        assert_eq!(children(context.edges(1, &[(t(), None)], Some(100)).expect("edges")), "abcdef");
        assert_eq!(children(context.edges(1, &[(t(), group("g")), (t(), group("")), (u(), group("g"))], Some(100)).expect("edges")).len(), 5);
        assert_eq!(children(context.edges(1, &[(t(), None)], Some(2)).expect("edges")), "ab");
        assert_eq!(children(context.edges_starting_between(1, &[between("t", 2, 5), between("u", 0, 9)], Some(100)).expect("edges")), "bcx");
        assert_eq!(children(context.edges_starting_between(1, &[between("t", 5, 9)], Some(2)).expect("edges")), "bc");
        assert_eq!(children(context.edges_after(1, "t", EdgeCursor { group: "", start: 5, child: "b" }, 3).expect("edges")), "cde");
        assert_eq!(children(context.edges_after(1, "t", EdgeCursor { group: "h", start: 3, child: "f" }, 3).expect("edges")), "");
    });
    let pass: Arc<dyn SettlePass> = pass_record.clone();
    fixture.store.settle(&fixture.tenant, &pass).expect("it passes");
    assert_eq!(pass_record.processed_targets().len(), 1);
}

const PARTS: &str = "
catalogue: parts
collections:
  part:
    key: name
    fields:
      name: text
      whole: text
      colour: { type: text, derive: of.colour }
    links:
      of: { to: whole, key: whole }
  whole:
    key: name
    fields:
      name: text
      colour: text
";

pub fn children_of_a_link_that_is_only_read_are_found_by_their_field(location: &StoreLocation) {
    let fixture = Fixture::open(location, PARTS);
    let (link, other_tenant) = (fixture.catalogue.links[LinkId::from(0)].edges(), tenant("two"));
    assert!(fixture.catalogue.links[LinkId::from(0)].is_only_read());
    let long_key = "x".repeat(700);
    let linked_to = |target: &str| fixture.content(&[("of", text(target))]);
    let nonexistent = RecordContent { exists: false, ..linked_to("w") };
    let parts = ["b", "a", "c", "e", "d"].map(|name| put(CollectionId::from(0), name, None, linked_to("w")));
    let other_writes = [
        put(CollectionId::from(0), "f", None, linked_to("v")),
        put(CollectionId::from(0), "g", None, nonexistent),
        put(CollectionId::from(0), "h", None, fixture.content(&[])),
        put(CollectionId::from(0), "i", None, linked_to(&long_key)),
    ];
    // a unit's edges of such links are not stored: that a is a child of v, and that b is no child of w
    let edge = |target: &str, child: &str| Edge { link, target: target.into(), group: "g".into(), start: 1, child: child.into(), payload: vec![1] };
    let unit_with_edges = fixture.unit().edge(EdgeChange::Put(edge("v", "a"))).edge(EdgeChange::Delete(edge("w", "b"))).mark(1, "w");
    unit_with_edges.writes(parts.into_iter().chain(other_writes)).commit_ok(&*fixture.store);
    TestUnit::new(&other_tenant).write(put(CollectionId::from(0), "z", None, linked_to("w"))).commit_ok(&*fixture.store);
    let found = |tenant: &Tenant, target: &str| {
        let edges = fixture.store.edges(tenant, link, target).expect("reading works");
        assert!(edges.iter().all(|edge| edge.target == target && edge.group.is_empty() && edge.payload.is_empty()));
        let mut children: Vec<String> = edges.into_iter().map(|edge| edge.child.to_string()).collect();
        children.sort();
        children.concat()
    };
    let all = ["w", "v", "", "x", &long_key, &long_key[1..]].map(|target| found(&fixture.tenant, target));
    assert_eq!(all, ["abcde", "f", "", "", "i", ""]);
    assert_eq!(found(&other_tenant, "w"), "z");
    // a pass reads them target by target, and page by page in any order, each once
    let pass_record = RecordingPass::new(true, |context| {
        let link = definition(PARTS).links[LinkId::from(0)].edges();
        let children = |edges: &[Edge]| edges.iter().map(|edge| edge.child.to_string()).collect::<Vec<String>>();
        let all_edges = context.edges(link, &[("v".into(), None), ("w".into(), None)], Some(100)).expect("edges");
        assert_eq!(all_edges.iter().map(|edge| edge.target.as_str()).collect::<String>(), "vwwwww");
        assert_eq!(context.edges(link, &[("v".into(), None), ("w".into(), None)], Some(3)).expect("edges"), all_edges[..3]);
        let (mut last_child, mut pages) = (String::new(), Vec::new());
        loop {
            let page = context.edges_after(link, "w", EdgeCursor { group: "", start: 0, child: &last_child }, 2).expect("edges");
            let Some(last) = page.last() else { break };
            last_child = last.child.to_string();
            pages.push(children(&page));
        }
        assert_eq!(pages.concat(), children(&all_edges[1..]));
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<usize>>(), [2, 2, 1]);
    });
    let pass: Arc<dyn SettlePass> = pass_record.clone();
    fixture.store.settle(&fixture.tenant, &pass).expect("it passes");
    assert_eq!(pass_record.processed_targets().len(), 1);
}

/// A part of several wholes.
fn with_lists_of_keys(definition_text: &str) -> String {
    definition_text
        .replace("whole: text\n      colour: { type: text,", "wholes: [text]\n      colour: { type: [text],")
        .replace("key: whole", "key: wholes")
}

pub fn children_of_a_link_of_a_list_are_found_by_each_element(location: &StoreLocation) {
    let fixture = Fixture::open(location, &with_lists_of_keys(PARTS));
    let (link, other_tenant) = (fixture.catalogue.links[LinkId::from(0)].edges(), tenant("two"));
    assert!(fixture.catalogue.links[LinkId::from(0)].is_only_read() && fixture.catalogue.links[LinkId::from(0)].many);
    let long_key = "x".repeat(700);
    let linked_to = |targets: &[&str]| fixture.content(&[("of", Value::List(targets.iter().map(|target| text(target)).collect()))]);
    let nonexistent = RecordContent { exists: false, ..linked_to(&["w"]) };
    let parts: [(&str, &[&str]); 6] =
        [("b", &["w"]), ("a", &["v", "w"]), ("c", &["v", "w", &long_key]), ("e", &["u", "w"]), ("d", &["w"]), ("f", &["v"])];
    let parts = parts.map(|(name, targets)| put(CollectionId::from(0), name, None, linked_to(targets)));
    fixture
        .unit()
        .writes(
            parts
                .into_iter()
                .chain([put(CollectionId::from(0), "g", None, nonexistent), put(CollectionId::from(0), "h", None, fixture.content(&[]))]),
        )
        .mark(1, "w")
        .commit_ok(&*fixture.store);
    TestUnit::new(&other_tenant).write(put(CollectionId::from(0), "z", None, linked_to(&["w"]))).commit_ok(&*fixture.store);
    let found = |tenant: &Tenant, target: &str| {
        let edges = fixture.store.edges(tenant, link, target).expect("reading works");
        let mut children: Vec<String> = edges.into_iter().map(|edge| edge.child.to_string()).collect();
        children.sort();
        children.concat()
    };
    assert_eq!(
        ["w", "v", "u", "", "x", &long_key, &long_key[1..]].map(|target| found(&fixture.tenant, target)),
        ["abcde", "acf", "e", "", "", "c", ""]
    );
    assert_eq!(found(&other_tenant, "w"), "z");
    // a pass reads them target by target, and page by page in any order, each once
    let pass_record = RecordingPass::new(true, |context| {
        let link = definition(&with_lists_of_keys(PARTS)).links[LinkId::from(0)].edges();
        let children = |edges: &[Edge]| edges.iter().map(|edge| edge.child.to_string()).collect::<Vec<String>>();
        let all_edges = context.edges(link, &[("v".into(), None), ("w".into(), None)], Some(100)).expect("edges");
        assert_eq!(all_edges.iter().map(|edge| edge.target.as_str()).collect::<String>(), "vvvwwwww");
        assert_eq!(context.edges(link, &[("v".into(), None), ("w".into(), None)], Some(4)).expect("edges"), all_edges[..4]);
        let (mut last_child, mut pages) = (String::new(), Vec::new());
        loop {
            let page = context.edges_after(link, "w", EdgeCursor { group: "", start: 0, child: &last_child }, 2).expect("edges");
            let Some(last) = page.last() else { break };
            last_child = last.child.to_string();
            pages.push(children(&page));
        }
        assert_eq!(pages.concat(), children(&all_edges[3..]));
    });
    let pass: Arc<dyn SettlePass> = pass_record.clone();
    fixture.store.settle(&fixture.tenant, &pass).expect("it passes");
    assert_eq!(pass_record.processed_targets().len(), 1);
    // one now has another target, one is deleted
    let (moved, deleted) =
        (put(CollectionId::from(0), "a", fixture.version("a"), linked_to(&["t", "v"])), delete(CollectionId::from(0), "c", fixture.version("c")));
    fixture.unit().writes([moved, deleted]).commit_ok(&*fixture.store);
    assert_eq!(["w", "v", "u", "t", &long_key].map(|target| found(&fixture.tenant, target)), ["bde", "af", "e", "a", ""]);
}

/// A link that now leads to several records has lists of its former keys until it is settled again, and the other way round. Indexes of all kinds are
/// created and dropped with that.
pub fn a_link_becomes_a_list_of_keys_and_one_key_again(location: &StoreLocation) {
    const BOTH: &str = "wholes: [text]\n      whole: text\n      colour: text\n      is_there: { type: boolean, derive: of.exists }";
    let with_both_fields = |definition_text: &str| {
        let definition_text = definition_text.replace("whole: text\n      colour: { type: text, derive: of.colour }", BOTH);
        assert!(definition_text.contains(BOTH));
        definition_text
    };
    let single = with_both_fields(PARTS);
    let several = single.replace("key: whole }", "key: wholes }");
    let with_option = |definition_text: &str, options: &str| definition_text.replace("{ to: whole, ", &format!("{{ to: whole, {options}, "));
    let (several_indexed, several_created) = (with_option(&several, "index: equal"), with_option(&several, "create: true"));
    let (single_indexed, single_searched) = (with_option(&single, "index: equal"), with_option(&single, "index: [equal, contains]"));
    let fixture = Fixture::open(location, &single);
    fixture
        .unit()
        .write(put(CollectionId::from(0), "a", None, fixture.content(&[("of", text("w")), ("whole", text("w"))])))
        .write(put(CollectionId::from(0), "b", None, fixture.content(&[])))
        .commit_ok(&*fixture.store);
    let tenant = fixture.tenant.clone();
    drop(fixture);
    for definition_text in [
        &several,
        &single,
        &several_indexed,
        &single_indexed,
        &several_created,
        &single_searched,
        &several_indexed,
        &single_searched,
        &several,
        &single,
    ] {
        let catalogue = definition(definition_text);
        let store = location.open(&catalogue);
        let link = &catalogue.links[LinkId::from(0)];
        let records = store.read(&tenant, CollectionId::from(0), &["a", "b"].map(key), ReadDetail::Values).expect("reading works");
        let wanted = if link.many { Value::List(vec![text("w")]) } else { text("w") };
        let values: Vec<Value> = records.into_iter().flatten().map(|record| record.golden[link.field].clone()).collect();
        assert_eq!(values, [wanted, Value::Null], "{definition_text}");
        let plan = QueryPlan {
            conditions: vec![Condition { column: PlanColumn::Field(link.field), test: Comparison::Equal(text("w")) }],
            ..QueryPlan::all(tenant.clone(), CollectionId::from(0))
        };
        assert_eq!(store.find(&plan).expect("rows").rows, [[text("a")]], "{definition_text}");
    }
}

pub fn a_condition_finds_records_whose_linked_record_exists(location: &StoreLocation) {
    check_targets_exist(location, PARTS);
}

pub fn a_condition_finds_records_whose_linked_records_all_exist(location: &StoreLocation) {
    check_targets_exist(location, &with_lists_of_keys(PARTS));
}

fn check_targets_exist(location: &StoreLocation, definition_text: &str) {
    let fixture = Fixture::open(location, definition_text);
    let many = fixture.catalogue.links[LinkId::from(0)].many;
    let linked_to = |targets: &[&str]| {
        let list = Value::List(targets.iter().map(|target| text(target)).collect());
        fixture.content(&[("of", if many { list } else { text(targets[0]) })])
    };
    let nonexistent = RecordContent { exists: false, ..content(&fixture.catalogue, CollectionId::from(1), &[]) };
    fixture
        .unit()
        .writes([
            put(CollectionId::from(0), "a", None, linked_to(&["v"])),
            put(CollectionId::from(0), "b", None, linked_to(&["w"])),
            put(CollectionId::from(0), "c", None, fixture.content(&[])),
        ])
        .writes([put(CollectionId::from(0), "d", None, linked_to(&["v", "w"])), put(CollectionId::from(0), "e", None, linked_to(&["u", "v"]))])
        .writes([
            put(CollectionId::from(1), "v", None, content(&fixture.catalogue, CollectionId::from(1), &[])),
            put(CollectionId::from(1), "w", None, nonexistent),
            put(CollectionId::from(1), "u", None, content(&fixture.catalogue, CollectionId::from(1), &[])),
        ])
        .commit_ok(&*fixture.store);
    TestUnit::new(&tenant("other"))
        .write(put(CollectionId::from(1), "w", None, content(&fixture.catalogue, CollectionId::from(1), &[])))
        .commit_ok(&*fixture.store);
    let column = PlanColumn::TargetsExist(LinkId::from(0));
    let keys_where = |test: Comparison| {
        let plan = QueryPlan { conditions: vec![Condition { column, test }], ..QueryPlan::all(fixture.tenant.clone(), CollectionId::from(0)) };
        assert_eq!(fixture.store.count(&plan).expect("a number") as usize, fixture.store.find(&plan).expect("rows").rows.len());
        fixture.store.find(&plan).expect("rows").rows.iter().filter_map(|row| row[0].as_text()).collect::<String>()
    };
    let (all_exist, some_missing) = if many { ("ae", "bd") } else { ("ade", "b") };
    let equals = |expected: bool| Comparison::Equal(Value::Bool(expected));
    assert_eq!([keys_where(equals(true)), keys_where(equals(false)), keys_where(Comparison::Exists(false))], [all_exist, some_missing, "c"]);
    let not_all_exist = keys_where(Comparison::NotEqual(Value::Bool(true)));
    assert_eq!(not_all_exist, if many { "bcd" } else { "bc" });
    // as a column, and in an order
    let sort = vec![SortKey { column, descending: true }];
    let plan = QueryPlan { columns: vec![PlanColumn::Key, column], sort, ..QueryPlan::all(fixture.tenant.clone(), CollectionId::from(0)) };
    let rows = fixture.store.find(&plan).expect("rows").rows;
    let keys: String = rows.iter().filter_map(|row| row[0].as_text()).collect();
    assert_eq!(keys, format!("{all_exist}{some_missing}c"));
    assert_eq!(rows[0][1], Value::Bool(true));
    assert_eq!(rows[4][1], Value::Null);
}

pub fn links_that_become_only_read_find_existing_children(location: &StoreLocation) {
    let linked = |options: &str| PARTS.replace("key: whole }", &format!("key: whole, {options} }}"));
    let (created, indexed, only_read) = (linked("create: true"), linked("index: equal"), PARTS.to_owned());
    let fixture = Fixture::open(location, &created);
    assert!(!fixture.catalogue.links[LinkId::from(0)].is_only_read());
    let linked_to = |target: &str| fixture.content(&[("of", text(target))]);
    fixture.unit().writes(["a", "b"].map(|name| put(CollectionId::from(0), name, None, linked_to("w")))).commit_ok(&*fixture.store);
    let tenant = fixture.tenant.clone();
    drop(fixture);
    // with an index that also serves queries, and without it
    for (definition_text, expected) in
        [(&only_read, "ab"), (&indexed, "ab"), (&created, ""), (&indexed, "ab"), (&only_read, "ab"), (&created, ""), (&only_read, "ab")]
    {
        let catalogue = definition(definition_text);
        let edges = location.open(&catalogue).edges(&tenant, catalogue.links[LinkId::from(0)].edges(), "w").expect("reading works");
        let mut children: Vec<&str> = edges.iter().map(|edge| edge.child.as_str()).collect();
        children.sort_unstable();
        assert_eq!(children.concat(), expected, "{definition_text}");
    }
}

pub fn children_from_before_a_record_are_distinguished_from_those_written_with_it(location: &StoreLocation) {
    let fixture = Fixture::open(location, PARTS);
    let link = fixture.catalogue.links[LinkId::from(0)].edges();
    let linked_to = |target: &str| fixture.content(&[("of", text(target))]);
    let whole = |name: &str| put(CollectionId::from(1), name, None, content(&fixture.catalogue, CollectionId::from(1), &[]));
    let put_edge = |target: &str, child: &str| {
        EdgeChange::Put(Edge { link, target: target.into(), group: "".into(), start: 0, child: child.into(), payload: Vec::new() })
    };
    let with_child = |unit: TestUnit, target: &str, child: &str| {
        unit.write(put(CollectionId::from(0), child, None, linked_to(target))).edge(put_edge(target, child))
    };
    // linked to before
    fixture.unit().write(put(CollectionId::from(0), "a", None, linked_to("v"))).edge(put_edge("v", "a")).commit_ok(&*fixture.store);
    // v has a child that existed before and one of this unit; w has two of this unit, one of them put twice; x has none
    let unit = with_child(with_child(with_child(fixture.unit(), "v", "b"), "w", "c"), "w", "d").edge(put_edge("w", "d"));
    unit.writes(["v", "w", "x"].map(whole)).marks_if_linked(link, &["v", "w", "x"]).commit_ok(&*fixture.store);
    assert_eq!(targets(&marks(&fixture)), ["v"]);
    // a child that now has another target does not count, nor does a deleted one
    let moved = put(CollectionId::from(0), "a", fixture.version("a"), linked_to("u"));
    let nonexistent = put(CollectionId::from(0), "c", fixture.version("c"), RecordContent { exists: false, ..linked_to("y") });
    let unit = fixture.unit().writes([moved, nonexistent]).edge(put_edge("u", "a"));
    unit.writes(["u", "y"].map(whole)).marks_if_linked(link, &["u", "y"]).commit_ok(&*fixture.store);
    assert_eq!(targets(&marks(&fixture)), ["v"]);
}

fn between(target: &str, low: i64, high: i64) -> StartRange {
    StartRange { target: target.into(), low, high }
}

/// A unit with ranges of edges in its read set, which records those it was told have changed.
struct ReadSetUnit {
    tenant: Tenant,
    read_set: ReadSet,
    changed_ranges: Arc<Mutex<Vec<usize>>>,
    edges: Vec<EdgeChange>,
    /// When the store has reported changes, it sends a signal and waits.
    pause: Option<(Sender<()>, Receiver<()>)>,
}

impl ReadSetUnit {
    fn reading(fixture: &Fixture, ranges: &[(i64, i64)]) -> Self {
        let read = |(low, high): &(i64, i64)| {
            let ranges = vec![between("t", *low, *high)];
            EdgeRange { link: 1, edges: fixture.store.edges_starting_between(&fixture.tenant, 1, &ranges).expect("reading works"), ranges }
        };
        let read_set = ReadSet { ranges: ranges.iter().map(read).collect(), ..ReadSet::default() };
        Self { tenant: fixture.tenant.clone(), read_set, changed_ranges: Arc::default(), edges: Vec::new(), pause: None }
    }
}

impl Unit for ReadSetUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &[]
    }

    fn resolve(&mut self, _: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        Err(StoreError::Wrong("it writes no records".into()))
    }

    fn refused(&mut self, refused: RefusedWrite) {
        panic!("{refused:?}")
    }

    fn read_set(&self) -> Option<&ReadSet> {
        Some(&self.read_set)
    }

    fn read_set_changed(&mut self, _: &[usize], ranges: &[usize]) -> Vec<(CollectionId, stook_catalogue::key::Key)> {
        *self.changed_ranges.lock().expect("nobody panicked") = ranges.to_vec();
        Vec::new()
    }

    fn settling(&mut self) -> SettlingChanges {
        if let Some((arrive, resumed)) = self.pause.take() {
            arrive.send(()).expect("somebody waits for it");
            resumed.recv().expect("somebody lets it go");
        }
        SettlingChanges { edges: self.edges.clone(), ..SettlingChanges::default() }
    }
}

pub fn a_unit_is_notified_which_edge_ranges_of_its_read_set_have_changed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let all = [edge("", 1, "a"), edge("", 11, "b"), edge("", 21, "c"), edge("", 31, "d")];
    all.iter().fold(fixture.unit(), |unit, edge| unit.edge(EdgeChange::Put(edge.clone()))).commit_ok(&*fixture.store);
    let changed_ranges_of = |unit: ReadSetUnit| {
        let changed_ranges = unit.changed_ranges.clone();
        fixture.store.commit(Box::new(unit)).expect("it is written");
        std::mem::take(&mut *changed_ranges.lock().expect("nobody panicked"))
    };
    let read_set_unit = || ReadSetUnit::reading(&fixture, &[(0, 9), (10, 19), (20, 29), (30, 39), (40, 49)]);
    assert_eq!(changed_ranges_of(read_set_unit()), [0_usize; 0]);
    let before = read_set_unit();
    let (deleted, replaced) = (edge("", 11, "b"), Edge { payload: b"other".to_vec(), ..edge("", 21, "c") });
    fixture
        .unit()
        .edge(EdgeChange::Delete(deleted))
        .edge(EdgeChange::Put(replaced))
        .edge(EdgeChange::Put(edge("", 40, "e")))
        .commit_ok(&*fixture.store);
    assert_eq!(changed_ranges_of(before), [1, 2, 4]);
    assert_eq!(changed_ranges_of(read_set_unit()), [0_usize; 0]);
}

/// A unit was told that its read set is unchanged, and then it changes: the transaction that changes it leaves a mark, and the pass that processes
/// the mark sees what the unit has written.
pub fn a_pass_waits_for_units_whose_read_set_has_changed(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let other_fixture = Fixture::open(location, PLAIN);
    let ((arrive, arrived), (resume, resumed)) = (channel(), channel());
    let child = Edge { link: 2, ..edge("", 5, "child") };
    let unit = ReadSetUnit { edges: vec![EdgeChange::Put(child)], pause: Some((arrive, resumed)), ..ReadSetUnit::reading(&other_fixture, &[(0, 9)]) };
    let changed_ranges = unit.changed_ranges.clone();
    let pending = other_fixture.store.submit(Box::new(unit), Priority::Bulk);
    arrived.recv().expect("it has been told");
    let pass_record = RecordingPass::new(true, |context| {
        context.wait_for_units_in_progress().expect("it waits");
        let children = context.edges_starting_between(2, &[between("t", 0, 9)], Some(100)).expect("edges");
        assert_eq!(children.len(), 1, "the unit's edge is there");
    });
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            fixture.unit().edge(EdgeChange::Put(edge("", 7, "new"))).mark(0, "t").commit_ok(&*fixture.store);
            let pass: Arc<dyn SettlePass> = pass_record.clone();
            fixture.store.settle(&fixture.tenant, &pass).expect("it passes").marks_cleared
        });
        // enough time for a wrong result
        std::thread::sleep(std::time::Duration::from_millis(200));
        resume.send(()).expect("it waits");
        pending.wait().expect("it is written");
        assert_eq!(changing.join().expect("the pass has seen it"), 1);
    });
    assert_eq!(*changed_ranges.lock().expect("nobody panicked"), [0_usize; 0]);
}

pub fn a_cleared_link_loses_its_edges_of_one_tenant(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let other_tenant = Tenant::new("two").expect("a tenant");
    let of_link = Edge { link: 2, ..edge("g", 1, "c") };
    for unit in [fixture.unit(), TestUnit::new(&other_tenant)] {
        unit.edge(EdgeChange::Put(edge("g", 1, "c"))).edge(EdgeChange::Put(of_link.clone())).commit_ok(&*fixture.store);
    }
    // edges put by the same unit stay
    fixture.unit().clear_link(1).edge(EdgeChange::Put(edge("g", 2, "d"))).commit_ok(&*fixture.store);
    assert_eq!(edges(&fixture), [edge("g", 2, "d")]);
    assert_eq!(fixture.store.edges(&fixture.tenant, 2, "t").expect("reading works"), [of_link]);
    assert_eq!(fixture.store.edges(&other_tenant, 1, "t").expect("reading works"), [edge("g", 1, "c")]);
}

pub fn keys_are_listed_in_order_with_those_of_deleted_records(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    let nonexistent = RecordContent { exists: false, ..fixture.content(&[]) };
    fixture
        .unit()
        .writes(vec![
            put(CollectionId::from(0), "a", None, fixture.content(&[])),
            put(CollectionId::from(0), "b", None, nonexistent),
            put(CollectionId::from(0), "c", None, fixture.content(&[])),
        ])
        .commit_ok(&*fixture.store);
    let keys = |after: &str, limit: usize| {
        let found = fixture.store.keys_after(&fixture.tenant, CollectionId::from(0), after, limit).expect("reading works");
        found.iter().map(|key| key.as_str().to_owned()).collect::<String>()
    };
    assert_eq!([keys("", 10), keys("", 2), keys("a", 10), keys("c", 10)], ["abc", "ab", "bc", ""]);
}

pub fn cleared_marks_are_deleted_and_their_ids_are_never_reused(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(1, "a").mark(1, "b").commit_ok(&*fixture.store);
    let taken = marks(&fixture);
    fixture.unit().clear_marks(&taken).commit_ok(&*fixture.store);
    assert_eq!(marks(&fixture), []);
    let fixture = fixture.reopen(location);
    fixture.unit().mark(1, "c").commit_ok(&*fixture.store);
    let newer = marks(&fixture);
    assert!(taken.iter().all(|old| old.id < newer[0].id));
    // a settler that processes its old marks again does not clear the newer mark
    fixture.unit().clear_marks(&taken).commit_ok(&*fixture.store);
    assert_eq!(marks(&fixture), newer);
}

pub fn marks_appended_while_others_are_cleared_stay(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(1, "a").commit_ok(&*fixture.store);
    let taken = marks(&fixture);
    fixture.unit().mark(1, "a").commit_ok(&*fixture.store);
    fixture.unit().clear_marks(&taken).mark(1, "next").commit_ok(&*fixture.store);
    assert_eq!(targets(&marks(&fixture)), ["a", "next"]);
}

pub fn settling_changes_of_a_failed_unit_are_not_written(location: &StoreLocation) {
    let fixture = Fixture::open(location, PLAIN);
    fixture.unit().mark(1, "kept").edge(EdgeChange::Put(edge("g", 1, "kept"))).commit_ok(&*fixture.store);
    let unit = fixture.unit().clear_marks(&marks(&fixture)).mark(1, "lost").edge(EdgeChange::Delete(edge("g", 1, "kept")));
    let unexpected = put(CollectionId::from(0), "x", Some(Version::default()), fixture.content(&[]));
    unit.write(unexpected).commit(&*fixture.store).0.expect_err("the conflict is not resolved");
    assert_eq!(targets(&marks(&fixture)), ["kept"]);
    assert_eq!(edges(&fixture), [edge("g", 1, "kept")]);
}
