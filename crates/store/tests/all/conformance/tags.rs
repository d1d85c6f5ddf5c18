//! Tags get another name, and records carry it.

use super::support::*;
use serde_json::Map;
use std::sync::mpsc::{Sender, channel};
use stook_catalogue::ids::CollectionId;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::tag::{Tag, TagChanges, TagDefinition, TagRename, TagWrites};
use stook_store::*;

const GOODS: &str = "catalogue: c\ncollections:\n  item:\n    key: code\n    fields: { code: text }\n    tags: {}\n";
const ITEMS: CollectionId = CollectionId::new(0);

fn tag(name: &str, comment: &str) -> Tag {
    let (definition, attributes) = (TagDefinition::Manual, Map::new());
    Tag { name: name.into(), definition, comment: comment.into(), attributes, created: 1, changed: 2, generation: 3, job: 0 }
}

/// Gives tags to records.
struct Giving {
    tenant: Tenant,
    revision: i64,
    tagging: TagWrites,
    sender: Sender<TagChanges>,
}

impl Unit for Giving {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn tag_revision(&self) -> Option<i64> {
        Some(self.revision)
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        vec![self.tagging.clone()]
    }

    fn tags_changed(&mut self, changes: TagChanges) {
        let _ = self.sender.send(changes);
    }
}

/// Three records, of which `a` and `b` carry `old`, and `b` and `c` carry `other`.
fn tagged(location: &StoreLocation) -> Fixture {
    let fixture = Fixture::open(location, GOODS);
    for name in ["a", "b", "c"] {
        fixture.put(name, &[("code", text(name))]);
    }
    fixture.store.put_tags(&fixture.tenant, ITEMS, vec![tag("old", "first"), tag("other", "second")], true).expect("they are made");
    let (sender, receiver) = channel();
    let assignments = vec![(key("a"), vec![0]), (key("b"), vec![0, 1]), (key("c"), vec![1])];
    let tagging = TagWrites { collection: ITEMS, tags: vec!["old".into(), "other".into()], assignments, trees: Vec::new() };
    let unit = Giving { tenant: fixture.tenant.clone(), revision: revision(&fixture), tagging, sender };
    fixture.store.commit(Box::new(unit)).expect("it is written");
    assert_eq!(receiver.try_iter().last().map(|changes| changes.added.len()), Some(4));
    fixture
}

fn revision(fixture: &Fixture) -> i64 {
    fixture.store.tags(&fixture.tenant, ITEMS).expect("tags").revision
}

fn rename(fixture: &Fixture, from: &str, to: &str, revision: i64) -> Result<bool> {
    fixture.store.rename_tag(&fixture.tenant, ITEMS, TagRename { from: from.into(), tag: tag(to, "renamed"), revision })
}

/// Names and comments of the tags, and the tags of each record.
type State = (Vec<(String, String)>, Vec<Vec<String>>);

fn state(fixture: &Fixture) -> State {
    let tags = fixture.store.tags(&fixture.tenant, ITEMS).expect("tags").tags;
    let carried = fixture.store.tags_of_records(&fixture.tenant, ITEMS, &["a", "b", "c"].map(key)).expect("tags of records");
    (tags.into_iter().map(|tag| (tag.name, tag.comment)).collect(), carried)
}

fn carriers(fixture: &Fixture, name: &str) -> u64 {
    let conditions = vec![Condition { column: PlanColumn::Tag, test: Comparison::Equal(text(name)) }];
    fixture.store.count(&QueryPlan { conditions, ..QueryPlan::all(fixture.tenant.clone(), ITEMS) }).expect("it is counted")
}

pub fn a_renamed_tag_is_carried_by_the_same_records(location: &StoreLocation) {
    let fixture = tagged(location);
    let before = revision(&fixture);
    assert!(rename(&fixture, "old", "new", before).expect("it is renamed"));
    let (tags, carried) = state(&fixture);
    let names: Vec<(&str, &str)> = tags.iter().map(|(name, comment)| (name.as_str(), comment.as_str())).collect();
    assert_eq!(names, [("new", "renamed"), ("other", "second")]);
    assert_eq!(carried, [vec!["new"], vec!["new", "other"], vec!["other"]]);
    assert_eq!((carriers(&fixture, "old"), carriers(&fixture, "new")), (0, 2));
    assert!(revision(&fixture) > before, "units that have evaluated the former tags notice it");
}

pub fn a_rename_that_is_not_possible_changes_nothing(location: &StoreLocation) {
    let fixture = tagged(location);
    let (before, now) = (state(&fixture), revision(&fixture));
    assert!(matches!(rename(&fixture, "old", "other", now), Err(StoreError::Wrong(_))), "the name is taken");
    assert!(matches!(rename(&fixture, "old", "new", now - 1), Err(StoreError::Outdated)), "tags have changed since they were read");
    assert!(!rename(&fixture, "none", "new", now).expect("there is no such tag"));
    assert_eq!(state(&fixture), before);
}
