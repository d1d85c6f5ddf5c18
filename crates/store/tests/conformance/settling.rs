//! Edges and marks: what children say to their targets, and that a target needs settling.

use super::support::*;
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

fn marks(desk: &Desk, lane: u32) -> Vec<Mark> {
    desk.store.marks(&desk.tenant, lane, 1_000).expect("reading works")
}

fn targets(marks: &[Mark]) -> Vec<&str> {
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
    // inside one unit the order is the one they are said in
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

pub fn marks_are_listed_oldest_first_by_lane(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").mark(2, "b").mark(1, "c").done(&*desk.store);
    desk.work().mark(1, "a").done(&*desk.store);
    let own = marks(&desk, 1);
    assert_eq!(targets(&own), ["a", "c", "a"], "marks are appended, not merged");
    assert!(own.is_sorted_by(|one, next| one.id < next.id));
    assert!(own.iter().all(|mark| (mark.lane, mark.stratum, mark.job) == (1, 1, 7)));
    assert_eq!(targets(&marks(&desk, 2)), ["b"]);
    assert_eq!(targets(&marks(&desk, 3)), Vec::<&str>::new());
    assert_eq!(targets(&desk.store.marks(&desk.tenant, 1, 2).expect("reading works")), ["a", "c"]);
}

pub fn answered_marks_are_gone_and_their_numbers_never_come_back(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").mark(1, "b").done(&*desk.store);
    let taken = marks(&desk, 1);
    desk.work().answer(&taken).done(&*desk.store);
    assert_eq!(marks(&desk, 1), []);
    let desk = desk.reopen(place);
    desk.work().mark(1, "c").done(&*desk.store);
    let newer = marks(&desk, 1);
    assert!(taken.iter().all(|old| old.id < newer[0].id));
    // a settler that answers again what it had taken does not answer the newer mark
    desk.work().answer(&taken).done(&*desk.store);
    assert_eq!(marks(&desk, 1), newer);
}

pub fn marks_appended_while_others_are_answered_stay(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "a").done(&*desk.store);
    let taken = marks(&desk, 1);
    desk.work().mark(1, "a").done(&*desk.store);
    desk.work().answer(&taken).mark(1, "next").done(&*desk.store);
    assert_eq!(targets(&marks(&desk, 1)), ["a", "next"]);
}

pub fn settling_belongs_to_the_unit_that_says_it(place: &Place) {
    let desk = Desk::open(place, PLAIN);
    desk.work().mark(1, "kept").edge(EdgeChange::Put(edge("g", 1, "kept"))).done(&*desk.store);
    let work = desk.work().answer(&marks(&desk, 1)).mark(1, "lost").edge(EdgeChange::Delete(edge("g", 1, "kept")));
    let unexpected = put(0, "x", Some(Version::default()), desk.content(&[]));
    work.write(unexpected).commit(&*desk.store).0.expect_err("the conflict is not resolved");
    assert_eq!(targets(&marks(&desk, 1)), ["kept"]);
    assert_eq!(edges(&desk), [edge("g", 1, "kept")]);
}
