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

fn edges(desk: &Desk) -> Vec<Edge> {
    desk.store.edges(&desk.tenant, 1, "t").expect("reading works")
}

fn marks(desk: &Desk) -> Vec<StaleMark> {
    desk.store.marks(&desk.tenant, 1_000).expect("reading works")
}

fn targets(marks: &[StaleMark]) -> Vec<&str> {
    marks.iter().map(|mark| mark.target.as_str()).collect()
}

pub fn edges_are_ordered_by_group_start_and_child(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let mut all = Vec::new();
    for group in ["", "A", "B", "a", "a ", "\u{e4}", "\u{ffff}", "\u{10000}"] {
        for start in [i64::MIN, -1, 0, 1, 1_000_000_007, i64::MAX] {
            all.extend(["", "1", "10", "2", "Z", "a"].map(|child| edge(group, start, child)));
        }
    }
    let mut shuffled: Vec<Edge> = all.iter().rev().cloned().collect();
    shuffled.rotate_left(100);
    let work = shuffled.into_iter().fold(desk.work(), |work, edge| work.edge(EdgeChange::Put(edge)));
    work.done(&*desk.store);
    all.sort();
    assert_eq!(edges(&desk), all);
}

pub fn an_edge_put_twice_has_its_last_payload(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let (first, second) = (edge("g", 1, "c"), Edge { payload: b"second".to_vec(), ..edge("g", 1, "c") });
    desk.work().edge(EdgeChange::Put(first)).done(&*desk.store);
    desk.work().edge(EdgeChange::Put(second.clone())).done(&*desk.store);
    assert_eq!(edges(&desk), std::slice::from_ref(&second));
    // inside one unit, changes apply in their order
    let third = Edge { payload: b"third".to_vec(), ..second.clone() };
    desk.work().edge(EdgeChange::Delete(second.clone())).edge(EdgeChange::Put(second)).edge(EdgeChange::Put(third.clone())).done(&*desk.store);
    assert_eq!(edges(&desk), [third]);
}

pub fn a_deleted_edge_is_gone_and_deleting_it_again_is_nothing(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().edge(EdgeChange::Put(edge("g", 1, "c"))).edge(EdgeChange::Put(edge("g", 2, "c"))).done(&*desk.store);
    for _ in 0..2 {
        let without_payload = Edge { payload: Vec::new(), ..edge("g", 1, "c") };
        desk.work().edge(EdgeChange::Delete(without_payload)).done(&*desk.store);
        assert_eq!(edges(&desk), [edge("g", 2, "c")]);
    }
}

pub fn edges_of_other_links_and_targets_are_not_seen(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let of_link = Edge { link: 2, ..edge("g", 1, "c") };
    let of_target = Edge { target: "T".into(), ..edge("g", 1, "c") };
    let work = [edge("g", 1, "c"), of_link.clone(), of_target.clone()].into_iter().fold(desk.work(), |work, edge| work.edge(EdgeChange::Put(edge)));
    work.done(&*desk.store);
    assert_eq!(edges(&desk), [edge("g", 1, "c")]);
    assert_eq!(desk.store.edges(&desk.tenant, 2, "t").expect("reading works"), [of_link]);
    assert_eq!(desk.store.edges(&desk.tenant, 1, "T").expect("reading works"), [of_target]);
    assert_eq!(desk.store.edges(&desk.tenant, 3, "t").expect("reading works"), []);
}

pub fn marks_are_listed_by_stratum_and_then_oldest_first(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(2, "b").mark(1, "a").mark(1, "c").done(&*desk.store);
    desk.work().mark(1, "a").done(&*desk.store);
    let own = marks(&desk);
    assert_eq!(targets(&own), ["a", "c", "a", "b"], "marks are appended, not merged");
    assert!(own[..3].is_sorted_by(|one, next| one.id < next.id));
    assert!(own.iter().all(|mark| (mark.rule, mark.part.as_str(), mark.job) == (3, "p", 7)));
    assert_eq!(targets(&desk.store.marks(&desk.tenant, 2).expect("reading works")), ["a", "c"]);
    assert_eq!(desk.store.tenants_with_marks().expect("reading works"), std::slice::from_ref(&desk.tenant));
}

/// A pass that records its marks, and clears them if `answers`.
struct Noting {
    answers: bool,
    seen: Mutex<Vec<Vec<StaleMark>>>,
    asks: fn(&mut dyn PassContext),
}

impl Noting {
    fn new(answers: bool, asks: fn(&mut dyn PassContext)) -> Arc<Self> {
        Arc::new(Self { answers, seen: Mutex::default(), asks })
    }

    fn taken(&self) -> Vec<Vec<String>> {
        let seen = self.seen.lock().expect("nobody panicked");
        seen.iter().map(|marks| targets(marks).into_iter().map(str::to_owned).collect()).collect()
    }
}

impl SettlePass for Noting {
    fn max_marks(&self) -> usize {
        100
    }

    fn run(&self, _tenant: &Tenant, marks: &[StaleMark], _refused: &[UniqueConflict], desk: &mut dyn PassContext) -> Result<PassWrites> {
        self.seen.lock().expect("nobody panicked").push(marks.to_vec());
        (self.asks)(desk);
        if !self.answers {
            return Err(StoreError::Wrong("no".into()));
        }
        let mut settled = PassWrites::default();
        settled.settling.cleared = marks.iter().map(|mark| mark.id).collect();
        Ok(settled)
    }
}

pub fn a_pass_takes_marks_of_the_lowest_stratum_until_none_is_left(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(2, "a").mark(1, "a").mark(1, "a").done(&*desk.store);
    let noting = Noting::new(true, |_| ());
    let pass: Arc<dyn SettlePass> = noting.clone();
    let answered: Vec<u64> = (0..3).map(|_| desk.store.settle(&desk.tenant, &pass).expect("it passes").marks_cleared).collect();
    assert_eq!(answered, [2, 1, 0]);
    assert_eq!(noting.taken(), [vec!["a", "a"], vec!["a"]]);
    assert_eq!(marks(&desk), []);
    assert_eq!(desk.store.tenants_with_marks().expect("reading works"), []);
}

pub fn a_pass_that_fails_leaves_its_marks(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").done(&*desk.store);
    let pass: Arc<dyn SettlePass> = Noting::new(false, |_| ());
    assert!(desk.store.settle(&desk.tenant, &pass).is_err());
    assert_eq!(targets(&marks(&desk)), ["a"]);
}

pub fn a_pass_reads_edges_by_group_by_range_and_by_page(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let all = [edge("", 1, "a"), edge("", 5, "b"), edge("", 5, "c"), edge("", 9, "d"), edge("g", 2, "e"), edge("h", 3, "f")];
    let others = [Edge { target: "u".into(), ..edge("", 5, "x") }, Edge { link: 2, ..edge("", 5, "y") }];
    let work = all.iter().chain(&others).fold(desk.work(), |work, edge| work.edge(EdgeChange::Put(edge.clone())));
    work.mark(1, "t").done(&*desk.store);
    let noting = Noting::new(true, |desk| {
        let children = |edges: Vec<Edge>| edges.into_iter().map(|edge| edge.child.to_string()).collect::<String>();
        let (t, u) = (|| "t".to_owned(), || "u".to_owned());
        let group = |group: &str| Some(group.to_owned());
        assert_eq!(children(desk.edges(1, &[(t(), None)], Some(100)).expect("edges")), "abcdef");
        assert_eq!(children(desk.edges(1, &[(t(), group("g")), (t(), group("")), (u(), group("g"))], Some(100)).expect("edges")).len(), 5);
        assert_eq!(children(desk.edges(1, &[(t(), None)], Some(2)).expect("edges")), "ab");
        assert_eq!(children(desk.edges_starting_between(1, &[between("t", 2, 5), between("u", 0, 9)], Some(100)).expect("edges")), "bcx");
        assert_eq!(children(desk.edges_starting_between(1, &[between("t", 5, 9)], Some(2)).expect("edges")), "bc");
        assert_eq!(children(desk.edges_after(1, "t", EdgeCursor { group: "", start: 5, child: "b" }, 3).expect("edges")), "cde");
        assert_eq!(children(desk.edges_after(1, "t", EdgeCursor { group: "h", start: 3, child: "f" }, 3).expect("edges")), "");
    });
    let pass: Arc<dyn SettlePass> = noting.clone();
    desk.store.settle(&desk.tenant, &pass).expect("it passes");
    assert_eq!(noting.taken().len(), 1);
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

pub fn children_of_a_link_that_is_only_read_are_found_by_their_field(place: &Place) {
    let desk = Desk::open(place, PARTS);
    let (link, other) = (desk.catalogue.links[LinkId::from(0)].edges(), tenant("two"));
    assert!(desk.catalogue.links[LinkId::from(0)].is_only_read());
    let long = "x".repeat(700);
    let leading = |target: &str| desk.content(&[("of", text(target))]);
    let gone = RecordContent { exists: false, ..leading("w") };
    let parts = ["b", "a", "c", "e", "d"].map(|name| put(CollectionId::from(0), name, None, leading("w")));
    let others = [
        put(CollectionId::from(0), "f", None, leading("v")),
        put(CollectionId::from(0), "g", None, gone),
        put(CollectionId::from(0), "h", None, desk.content(&[])),
        put(CollectionId::from(0), "i", None, leading(&long)),
    ];
    // a unit's edges of such links are not stored: that a is a child of v, and that b is no child of w
    let edge = |target: &str, child: &str| Edge { link, target: target.into(), group: "g".into(), start: 1, child: child.into(), payload: vec![1] };
    let said = desk.work().edge(EdgeChange::Put(edge("v", "a"))).edge(EdgeChange::Delete(edge("w", "b"))).mark(1, "w");
    said.writes(parts.into_iter().chain(others)).done(&*desk.store);
    Work::of(&other).write(put(CollectionId::from(0), "z", None, leading("w"))).done(&*desk.store);
    let found = |tenant: &Tenant, target: &str| {
        let edges = desk.store.edges(tenant, link, target).expect("reading works");
        assert!(edges.iter().all(|edge| edge.target == target && edge.group.is_empty() && edge.payload.is_empty()));
        let mut children: Vec<String> = edges.into_iter().map(|edge| edge.child.to_string()).collect();
        children.sort();
        children.concat()
    };
    let all = ["w", "v", "", "x", &long, &long[1..]].map(|target| found(&desk.tenant, target));
    assert_eq!(all, ["abcde", "f", "", "", "i", ""]);
    assert_eq!(found(&other, "w"), "z");
    // a pass reads them target by target, and page by page in any order, each once
    let noting = Noting::new(true, |desk| {
        let link = definition(PARTS).links[LinkId::from(0)].edges();
        let children = |edges: &[Edge]| edges.iter().map(|edge| edge.child.to_string()).collect::<Vec<String>>();
        let both = desk.edges(link, &[("v".into(), None), ("w".into(), None)], Some(100)).expect("edges");
        assert_eq!(both.iter().map(|edge| edge.target.as_str()).collect::<String>(), "vwwwww");
        assert_eq!(desk.edges(link, &[("v".into(), None), ("w".into(), None)], Some(3)).expect("edges"), both[..3]);
        let (mut place, mut pages) = (String::new(), Vec::new());
        loop {
            let page = desk.edges_after(link, "w", EdgeCursor { group: "", start: 0, child: &place }, 2).expect("edges");
            let Some(last) = page.last() else { break };
            place = last.child.to_string();
            pages.push(children(&page));
        }
        assert_eq!(pages.concat(), children(&both[1..]));
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<usize>>(), [2, 2, 1]);
    });
    let pass: Arc<dyn SettlePass> = noting.clone();
    desk.store.settle(&desk.tenant, &pass).expect("it passes");
    assert_eq!(noting.taken().len(), 1);
}

/// A part of several wholes.
fn of_lists(words: &str) -> String {
    words.replace("whole: text\n      colour: { type: text,", "wholes: [text]\n      colour: { type: [text],").replace("key: whole", "key: wholes")
}

pub fn children_of_a_link_of_a_list_are_found_by_each_element(place: &Place) {
    let desk = Desk::open(place, &of_lists(PARTS));
    let (link, other) = (desk.catalogue.links[LinkId::from(0)].edges(), tenant("two"));
    assert!(desk.catalogue.links[LinkId::from(0)].is_only_read() && desk.catalogue.links[LinkId::from(0)].many);
    let long = "x".repeat(700);
    let leading = |targets: &[&str]| desk.content(&[("of", Value::List(targets.iter().map(|target| text(target)).collect()))]);
    let gone = RecordContent { exists: false, ..leading(&["w"]) };
    let parts: [(&str, &[&str]); 6] =
        [("b", &["w"]), ("a", &["v", "w"]), ("c", &["v", "w", &long]), ("e", &["u", "w"]), ("d", &["w"]), ("f", &["v"])];
    let parts = parts.map(|(name, targets)| put(CollectionId::from(0), name, None, leading(targets)));
    desk.work()
        .writes(parts.into_iter().chain([put(CollectionId::from(0), "g", None, gone), put(CollectionId::from(0), "h", None, desk.content(&[]))]))
        .mark(1, "w")
        .done(&*desk.store);
    Work::of(&other).write(put(CollectionId::from(0), "z", None, leading(&["w"]))).done(&*desk.store);
    let found = |tenant: &Tenant, target: &str| {
        let edges = desk.store.edges(tenant, link, target).expect("reading works");
        let mut children: Vec<String> = edges.into_iter().map(|edge| edge.child.to_string()).collect();
        children.sort();
        children.concat()
    };
    assert_eq!(["w", "v", "u", "", "x", &long, &long[1..]].map(|target| found(&desk.tenant, target)), ["abcde", "acf", "e", "", "", "c", ""]);
    assert_eq!(found(&other, "w"), "z");
    // a pass reads them target by target, and page by page in any order, each once
    let noting = Noting::new(true, |desk| {
        let link = definition(&of_lists(PARTS)).links[LinkId::from(0)].edges();
        let children = |edges: &[Edge]| edges.iter().map(|edge| edge.child.to_string()).collect::<Vec<String>>();
        let both = desk.edges(link, &[("v".into(), None), ("w".into(), None)], Some(100)).expect("edges");
        assert_eq!(both.iter().map(|edge| edge.target.as_str()).collect::<String>(), "vvvwwwww");
        assert_eq!(desk.edges(link, &[("v".into(), None), ("w".into(), None)], Some(4)).expect("edges"), both[..4]);
        let (mut place, mut pages) = (String::new(), Vec::new());
        loop {
            let page = desk.edges_after(link, "w", EdgeCursor { group: "", start: 0, child: &place }, 2).expect("edges");
            let Some(last) = page.last() else { break };
            place = last.child.to_string();
            pages.push(children(&page));
        }
        assert_eq!(pages.concat(), children(&both[3..]));
    });
    let pass: Arc<dyn SettlePass> = noting.clone();
    desk.store.settle(&desk.tenant, &pass).expect("it passes");
    assert_eq!(noting.taken().len(), 1);
    // one now has another target, one is deleted
    let (moved, gone) =
        (put(CollectionId::from(0), "a", desk.version("a"), leading(&["t", "v"])), delete(CollectionId::from(0), "c", desk.version("c")));
    desk.work().writes([moved, gone]).done(&*desk.store);
    assert_eq!(["w", "v", "u", "t", &long].map(|target| found(&desk.tenant, target)), ["bde", "af", "e", "a", ""]);
}

/// A link that now leads to several records has lists of its former keys until it is settled again, and the other way round. Indexes of all kinds are
/// created and dropped with that.
pub fn a_link_becomes_a_list_of_keys_and_one_key_again(place: &Place) {
    const BOTH: &str = "wholes: [text]\n      whole: text\n      colour: text\n      is_there: { type: boolean, derive: of.exists }";
    let both = |words: &str| {
        let words = words.replace("whole: text\n      colour: { type: text, derive: of.colour }", BOTH);
        assert!(words.contains(BOTH));
        words
    };
    let one = both(PARTS);
    let several = one.replace("key: whole }", "key: wholes }");
    let with = |words: &str, more: &str| words.replace("{ to: whole, ", &format!("{{ to: whole, {more}, "));
    let (indexed, created) = (with(&several, "index: equal"), with(&several, "create: true"));
    let (asked, searched) = (with(&one, "index: equal"), with(&one, "index: [equal, contains]"));
    let desk = Desk::open(place, &one);
    desk.work()
        .write(put(CollectionId::from(0), "a", None, desk.content(&[("of", text("w")), ("whole", text("w"))])))
        .write(put(CollectionId::from(0), "b", None, desk.content(&[])))
        .done(&*desk.store);
    let tenant = desk.tenant.clone();
    drop(desk);
    for words in [&several, &one, &indexed, &asked, &created, &searched, &indexed, &searched, &several, &one] {
        let catalogue = definition(words);
        let store = place.open(&catalogue);
        let link = &catalogue.links[LinkId::from(0)];
        let records = store.read(&tenant, CollectionId::from(0), &["a", "b"].map(key), ReadDetail::Values).expect("reading works");
        let wanted = if link.many { Value::List(vec![text("w")]) } else { text("w") };
        let seen: Vec<Value> = records.into_iter().flatten().map(|record| record.golden[link.field].clone()).collect();
        assert_eq!(seen, [wanted, Value::Null], "{words}");
        let plan = QueryPlan {
            conditions: vec![Condition { column: PlanColumn::Field(link.field), test: Comparison::Equal(text("w")) }],
            ..QueryPlan::all(tenant.clone(), CollectionId::from(0))
        };
        assert_eq!(store.find(&plan).expect("rows").rows, [[text("a")]], "{words}");
    }
}

pub fn whether_a_linked_record_is_there_is_asked(place: &Place) {
    there(place, PARTS);
}

pub fn whether_all_linked_records_are_there_is_asked(place: &Place) {
    there(place, &of_lists(PARTS));
}

fn there(place: &Place, words: &str) {
    let desk = Desk::open(place, words);
    let many = desk.catalogue.links[LinkId::from(0)].many;
    let leading = |targets: &[&str]| {
        let list = Value::List(targets.iter().map(|target| text(target)).collect());
        desk.content(&[("of", if many { list } else { text(targets[0]) })])
    };
    let gone = RecordContent { exists: false, ..content(&desk.catalogue, CollectionId::from(1), &[]) };
    desk.work()
        .writes([
            put(CollectionId::from(0), "a", None, leading(&["v"])),
            put(CollectionId::from(0), "b", None, leading(&["w"])),
            put(CollectionId::from(0), "c", None, desk.content(&[])),
        ])
        .writes([put(CollectionId::from(0), "d", None, leading(&["v", "w"])), put(CollectionId::from(0), "e", None, leading(&["u", "v"]))])
        .writes([
            put(CollectionId::from(1), "v", None, content(&desk.catalogue, CollectionId::from(1), &[])),
            put(CollectionId::from(1), "w", None, gone),
            put(CollectionId::from(1), "u", None, content(&desk.catalogue, CollectionId::from(1), &[])),
        ])
        .done(&*desk.store);
    Work::of(&tenant("other")).write(put(CollectionId::from(1), "w", None, content(&desk.catalogue, CollectionId::from(1), &[]))).done(&*desk.store);
    let column = PlanColumn::TargetsExist(LinkId::from(0));
    let found = |test: Comparison| {
        let plan = QueryPlan { conditions: vec![Condition { column, test }], ..QueryPlan::all(desk.tenant.clone(), CollectionId::from(0)) };
        assert_eq!(desk.store.count(&plan).expect("a number") as usize, desk.store.find(&plan).expect("rows").rows.len());
        desk.store.find(&plan).expect("rows").rows.iter().filter_map(|row| row[0].as_text()).collect::<String>()
    };
    let (yes, no) = if many { ("ae", "bd") } else { ("ade", "b") };
    let is = |is: bool| Comparison::Equal(Value::Bool(is));
    assert_eq!([found(is(true)), found(is(false)), found(Comparison::Exists(false))], [yes, no, "c"]);
    let not = found(Comparison::NotEqual(Value::Bool(true)));
    assert_eq!(not, if many { "bcd" } else { "bc" });
    // as a column, and in an order
    let sort = vec![SortKey { column, descending: true }];
    let plan = QueryPlan { columns: vec![PlanColumn::Key, column], sort, ..QueryPlan::all(desk.tenant.clone(), CollectionId::from(0)) };
    let rows = desk.store.find(&plan).expect("rows").rows;
    let keys: String = rows.iter().filter_map(|row| row[0].as_text()).collect();
    assert_eq!(keys, format!("{yes}{no}c"));
    assert_eq!(rows[0][1], Value::Bool(true));
    assert_eq!(rows[4][1], Value::Null);
}

pub fn links_that_are_only_read_from_now_on_find_the_children_that_are_there(place: &Place) {
    let linked = |more: &str| PARTS.replace("key: whole }", &format!("key: whole, {more} }}"));
    let (measured, asked, read) = (linked("create: true"), linked("index: equal"), PARTS.to_owned());
    let desk = Desk::open(place, &measured);
    assert!(!desk.catalogue.links[LinkId::from(0)].is_only_read());
    let leading = |target: &str| desk.content(&[("of", text(target))]);
    desk.work().writes(["a", "b"].map(|name| put(CollectionId::from(0), name, None, leading("w")))).done(&*desk.store);
    let tenant = desk.tenant.clone();
    drop(desk);
    // with an index that also serves queries, and without it
    for (words, found) in [(&read, "ab"), (&asked, "ab"), (&measured, ""), (&asked, "ab"), (&read, "ab"), (&measured, ""), (&read, "ab")] {
        let catalogue = definition(words);
        let edges = place.open(&catalogue).edges(&tenant, catalogue.links[LinkId::from(0)].edges(), "w").expect("reading works");
        let mut children: Vec<&str> = edges.iter().map(|edge| edge.child.as_str()).collect();
        children.sort_unstable();
        assert_eq!(children.concat(), found, "{words}");
    }
}

pub fn who_names_a_record_before_it_is_there_is_told_from_who_comes_with_it(place: &Place) {
    let desk = Desk::open(place, PARTS);
    let link = desk.catalogue.links[LinkId::from(0)].edges();
    let leading = |target: &str| desk.content(&[("of", text(target))]);
    let whole = |name: &str| put(CollectionId::from(1), name, None, content(&desk.catalogue, CollectionId::from(1), &[]));
    let says = |target: &str, child: &str| {
        EdgeChange::Put(Edge { link, target: target.into(), group: "".into(), start: 0, child: child.into(), payload: Vec::new() })
    };
    let lead = |work: Work, target: &str, child: &str| work.write(put(CollectionId::from(0), child, None, leading(target))).edge(says(target, child));
    // linked to before
    desk.work().write(put(CollectionId::from(0), "a", None, leading("v"))).edge(says("v", "a")).done(&*desk.store);
    // v has a child that existed before and one of this unit; w has two of this unit, one of them put twice; x has none
    let work = lead(lead(lead(desk.work(), "v", "b"), "w", "c"), "w", "d").edge(says("w", "d"));
    work.writes(["v", "w", "x"].map(whole)).new_marks(link, &["v", "w", "x"]).done(&*desk.store);
    assert_eq!(targets(&marks(&desk)), ["v"]);
    // a child that now has another target does not count, nor does a deleted one
    let moved = put(CollectionId::from(0), "a", desk.version("a"), leading("u"));
    let gone = put(CollectionId::from(0), "c", desk.version("c"), RecordContent { exists: false, ..leading("y") });
    let work = desk.work().writes([moved, gone]).edge(says("u", "a"));
    work.writes(["u", "y"].map(whole)).new_marks(link, &["u", "y"]).done(&*desk.store);
    assert_eq!(targets(&marks(&desk)), ["v"]);
}

fn between(target: &str, low: i64, high: i64) -> StartRange {
    StartRange { target: target.into(), low, high }
}

/// A unit with ranges of edges in its read set, which records those it was told have changed.
struct Relying {
    tenant: Tenant,
    reliance: ReadSet,
    broken: Arc<Mutex<Vec<usize>>>,
    edges: Vec<EdgeChange>,
    /// When the store has reported changes, it sends a signal and waits.
    stops: Option<(Sender<()>, Receiver<()>)>,
}

impl Relying {
    fn on(desk: &Desk, ranges: &[(i64, i64)]) -> Self {
        let read = |(low, high): &(i64, i64)| {
            let ranges = vec![between("t", *low, *high)];
            EdgeRange { link: 1, edges: desk.store.edges_starting_between(&desk.tenant, 1, &ranges).expect("reading works"), ranges }
        };
        let reliance = ReadSet { ranges: ranges.iter().map(read).collect(), ..ReadSet::default() };
        Self { tenant: desk.tenant.clone(), reliance, broken: Arc::default(), edges: Vec::new(), stops: None }
    }
}

impl Unit for Relying {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &[]
    }

    fn resolve(&mut self, _: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        Err(StoreError::Wrong("it writes no records".into()))
    }

    fn refused(&mut self, refused: UniqueConflict) {
        panic!("{refused:?}")
    }

    fn read_set(&self) -> Option<&ReadSet> {
        Some(&self.reliance)
    }

    fn read_set_changed(&mut self, _: &[usize], ranges: &[usize]) -> Vec<(CollectionId, stook_catalogue::key::Key)> {
        *self.broken.lock().expect("nobody panicked") = ranges.to_vec();
        Vec::new()
    }

    fn settling(&mut self) -> SettlingChanges {
        if let Some((arrive, go)) = self.stops.take() {
            arrive.send(()).expect("somebody waits for it");
            go.recv().expect("somebody lets it go");
        }
        SettlingChanges { edges: self.edges.clone(), ..SettlingChanges::default() }
    }
}

pub fn a_unit_hears_which_ranges_of_edges_have_changed_that_it_relies_on(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let all = [edge("", 1, "a"), edge("", 11, "b"), edge("", 21, "c"), edge("", 31, "d")];
    all.iter().fold(desk.work(), |work, edge| work.edge(EdgeChange::Put(edge.clone()))).done(&*desk.store);
    let told = |unit: Relying| {
        let broken = unit.broken.clone();
        desk.store.commit(Box::new(unit)).expect("it is written");
        std::mem::take(&mut *broken.lock().expect("nobody panicked"))
    };
    let relying = || Relying::on(&desk, &[(0, 9), (10, 19), (20, 29), (30, 39), (40, 49)]);
    assert_eq!(told(relying()), [0_usize; 0]);
    let before = relying();
    let (gone, other) = (edge("", 11, "b"), Edge { payload: b"other".to_vec(), ..edge("", 21, "c") });
    desk.work().edge(EdgeChange::Delete(gone)).edge(EdgeChange::Put(other)).edge(EdgeChange::Put(edge("", 40, "e"))).done(&*desk.store);
    assert_eq!(told(before), [1, 2, 4]);
    assert_eq!(told(relying()), [0_usize; 0]);
}

/// A unit was told that its read set is unchanged, and then it changes: the transaction that changes it leaves a mark, and the pass that processes
/// the mark sees what the unit has written.
pub fn a_pass_waits_for_units_that_rely_on_what_has_changed(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let other = Desk::open(place, PLAIN);
    let ((arrive, arrived), (let_go, go)) = (channel(), channel());
    let child = Edge { link: 2, ..edge("", 5, "child") };
    let unit = Relying { edges: vec![EdgeChange::Put(child)], stops: Some((arrive, go)), ..Relying::on(&other, &[(0, 9)]) };
    let broken = unit.broken.clone();
    let pending = other.store.submit(Box::new(unit), Priority::Bulk);
    arrived.recv().expect("it has been told");
    let noting = Noting::new(true, |desk| {
        desk.wait_for_new().expect("it waits");
        let children = desk.edges_starting_between(2, &[between("t", 0, 9)], Some(100)).expect("edges");
        assert_eq!(children.len(), 1, "the unit's edge is there");
    });
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            desk.work().edge(EdgeChange::Put(edge("", 7, "new"))).mark(0, "t").done(&*desk.store);
            let pass: Arc<dyn SettlePass> = noting.clone();
            desk.store.settle(&desk.tenant, &pass).expect("it passes").marks_cleared
        });
        // enough time for a wrong result
        std::thread::sleep(std::time::Duration::from_millis(200));
        let_go.send(()).expect("it waits");
        pending.wait().expect("it is written");
        assert_eq!(changing.join().expect("the pass has seen it"), 1);
    });
    assert_eq!(*broken.lock().expect("nobody panicked"), [0_usize; 0]);
}

pub fn a_forgotten_link_loses_its_edges_of_one_tenant(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let other = Tenant::new("two").expect("a tenant");
    let of_link = Edge { link: 2, ..edge("g", 1, "c") };
    for work in [desk.work(), Work::of(&other)] {
        work.edge(EdgeChange::Put(edge("g", 1, "c"))).edge(EdgeChange::Put(of_link.clone())).done(&*desk.store);
    }
    // edges put by the same unit stay
    desk.work().forget(1).edge(EdgeChange::Put(edge("g", 2, "d"))).done(&*desk.store);
    assert_eq!(edges(&desk), [edge("g", 2, "d")]);
    assert_eq!(desk.store.edges(&desk.tenant, 2, "t").expect("reading works"), [of_link]);
    assert_eq!(desk.store.edges(&other, 1, "t").expect("reading works"), [edge("g", 1, "c")]);
}

pub fn keys_come_in_order_with_those_of_deleted_records(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    let gone = RecordContent { exists: false, ..desk.content(&[]) };
    desk.work()
        .writes(vec![
            put(CollectionId::from(0), "a", None, desk.content(&[])),
            put(CollectionId::from(0), "b", None, gone),
            put(CollectionId::from(0), "c", None, desk.content(&[])),
        ])
        .done(&*desk.store);
    let keys = |behind: &str, limit: usize| {
        let found = desk.store.keys_after(&desk.tenant, CollectionId::from(0), behind, limit).expect("reading works");
        found.iter().map(|key| key.as_str().to_owned()).collect::<String>()
    };
    assert_eq!([keys("", 10), keys("", 2), keys("a", 10), keys("c", 10)], ["abc", "ab", "bc", ""]);
}

pub fn answered_marks_are_gone_and_their_numbers_never_come_back(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").mark(1, "b").done(&*desk.store);
    let taken = marks(&desk);
    desk.work().answer(&taken).done(&*desk.store);
    assert_eq!(marks(&desk), []);
    let desk = desk.reopen(place);
    desk.work().mark(1, "c").done(&*desk.store);
    let newer = marks(&desk);
    assert!(taken.iter().all(|old| old.id < newer[0].id));
    // a settler that processes its old marks again does not clear the newer mark
    desk.work().answer(&taken).done(&*desk.store);
    assert_eq!(marks(&desk), newer);
}

pub fn marks_appended_while_others_are_answered_stay(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").done(&*desk.store);
    let taken = marks(&desk);
    desk.work().mark(1, "a").done(&*desk.store);
    desk.work().answer(&taken).mark(1, "next").done(&*desk.store);
    assert_eq!(targets(&marks(&desk)), ["a", "next"]);
}

pub fn settling_belongs_to_the_unit_that_says_it(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "kept").edge(EdgeChange::Put(edge("g", 1, "kept"))).done(&*desk.store);
    let work = desk.work().answer(&marks(&desk)).mark(1, "lost").edge(EdgeChange::Delete(edge("g", 1, "kept")));
    let unexpected = put(CollectionId::from(0), "x", Some(Version::default()), desk.content(&[]));
    work.write(unexpected).commit(&*desk.store).0.expect_err("the conflict is not resolved");
    assert_eq!(targets(&marks(&desk)), ["kept"]);
    assert_eq!(edges(&desk), [edge("g", 1, "kept")]);
}
