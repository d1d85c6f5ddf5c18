//! Components: the records of a collection that share values by a link with `several: merge`, directly or through others. All of them have one target,
//! the record of the smallest of their keys.

use super::pass_state::PassState;
use super::stop::check_cancelled;
use super::targets::target_criteria;
use crate::relations::SettleRules;
use crate::relations::marks::parse_key;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::LinkId;
use stook_catalogue::key::Key;
use stook_catalogue::links::{Link, MAX_COMPONENT};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::{PassContext, Result, StartRange, StoredRecord};

/// The maximum number of edges of several texts that are read at once; of more, each text is read on its own.
const MAX_EDGES: usize = 20_000;

/// What is known so far of the records that share values.
struct Components<'p> {
    rules: &'p SettleRules,
    evaluator: &'p Evaluator,
    link: &'p Link,
    /// The position of each record that was seen.
    positions: HashMap<SmolStr, usize>,
    keys: Vec<SmolStr>,
    /// For each position another one of the same component, or itself.
    parents: Vec<usize>,
    /// For each position that is its own parent, the number of records of the component.
    sizes: Vec<usize>,
    /// The position of a record registered under each text that was read, or is going to be.
    texts: HashMap<SmolStr, usize>,
}

impl PassState<'_> {
    /// Computes the field of a link that merges, for records whose other values are known. Other links stay as they are.
    pub(super) fn components(
        &mut self,
        context: &mut dyn PassContext,
        link: LinkId,
        golden: &mut [Arc<[Value]>],
        records: &[StoredRecord],
    ) -> Result<()> {
        let link = &self.rules.catalogue.links[link];
        if !link.target_rule.merges() {
            return Ok(());
        }
        let mut components = Components {
            rules: self.rules,
            evaluator: self.evaluator,
            link,
            positions: HashMap::new(),
            keys: Vec::new(),
            parents: Vec::new(),
            sizes: Vec::new(),
            texts: HashMap::new(),
        };
        let mut texts = Vec::new();
        let mut is_child = Vec::with_capacity(records.len());
        for (record, values) in records.iter().zip(golden.iter()) {
            let own = components.texts_of(values);
            self.note_failed(link.child_collection, &record.key);
            is_child.push(own.is_some());
            let position = components.position(&record.key.shared());
            components.register(position, own.into_iter().flatten(), &mut texts);
        }
        while !texts.is_empty() {
            check_cancelled()?;
            texts = components.explore(context, texts)?;
        }
        let smallest = components.smallest();
        for (((values, record), is_child), position) in golden.iter_mut().zip(records).zip(is_child).zip(0..) {
            let root = components.root(position);
            let is_too_large = components.sizes[root] > MAX_COMPONENT;
            let target = if is_too_large { record.key.shared() } else { smallest[root].clone() };
            if is_child && is_too_large {
                let name = &link.name;
                self.evaluator.note_message(|| {
                    format!("link `{name}`: more than {MAX_COMPONENT} records share values, directly or through others; they are not merged")
                });
                self.note_failed(link.child_collection, &record.key);
            }
            let value = if is_child { Value::Text(target) } else { Value::Null };
            if values[link.field] != value {
                Arc::make_mut(values)[link.field] = value;
            }
        }
        Ok(())
    }
}

impl Components<'_> {
    /// The texts under which a record with these values is registered; `None` if it has no target.
    fn texts_of(&self, values: &[Value]) -> Option<Vec<SmolStr>> {
        Some(target_criteria(&self.rules.catalogue, self.evaluator, self.link, values)?.tuples.into_iter().flatten().collect())
    }

    fn position(&mut self, key: &SmolStr) -> usize {
        if let Some(position) = self.positions.get(key) {
            return *position;
        }
        let position = self.keys.len();
        self.positions.insert(key.clone(), position);
        self.keys.push(key.clone());
        self.parents.push(position);
        self.sizes.push(1);
        position
    }

    /// Notes that a record is registered under texts; those that are new are added to `unread`.
    fn register(&mut self, position: usize, texts: impl Iterator<Item = SmolStr>, unread: &mut Vec<SmolStr>) {
        for text in texts {
            match self.texts.get(&text) {
                Some(other) => self.join(position, *other),
                None => {
                    self.texts.insert(text.clone(), position);
                    unread.push(text);
                }
            }
        }
    }

    /// Reads which records are registered under texts, and the records that were not seen before; returns the texts of these that are to be read next.
    /// What is known to be too large is not read further.
    fn explore(&mut self, context: &mut dyn PassContext, mut texts: Vec<SmolStr>) -> Result<Vec<SmolStr>> {
        texts.retain(|text| {
            let position = self.texts.get(text).copied().unwrap_or_default();
            let root = self.root(position);
            self.sizes[root] <= MAX_COMPONENT
        });
        texts.sort_unstable();
        let ranges: Vec<StartRange> = texts.iter().map(|text| StartRange { target: text.clone(), low: 0, high: 0 }).collect();
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let mut edges = context.edges_starting_between(self.link.children(), &ranges, Some(MAX_EDGES))?;
        if edges.len() >= MAX_EDGES {
            edges.clear();
            for range in &ranges {
                // one more than a component has shows that it is too large
                edges.extend(context.edges_starting_between(self.link.children(), std::slice::from_ref(range), Some(MAX_COMPONENT + 1))?);
            }
        }
        let mut unseen: BTreeSet<SmolStr> = BTreeSet::new();
        for edge in &edges {
            if !self.positions.contains_key(&edge.child) {
                unseen.insert(edge.child.clone());
            }
            let position = self.position(&edge.child);
            if let Some(other) = self.texts.get(&edge.target).copied() {
                self.join(position, other);
            }
        }
        let mut grown: HashSet<SmolStr> = unseen.iter().cloned().collect();
        grown.retain(|key| {
            let position = self.position(key);
            let root = self.root(position);
            self.sizes[root] <= MAX_COMPONENT
        });
        let keys: Vec<Key> = unseen.iter().filter(|key| grown.contains(*key)).map(parse_key).collect::<Result<_>>()?;
        let mut next = Vec::new();
        if !keys.is_empty() {
            for record in context.read(self.link.child_collection, &keys)?.into_iter().flatten().filter(|record| record.exists) {
                let own = self.texts_of(&record.golden);
                // what fails on this record is noted when it is settled itself
                drop(self.evaluator.failures());
                let position = self.position(&record.key.shared());
                self.register(position, own.into_iter().flatten(), &mut next);
            }
        }
        Ok(next)
    }

    /// The position that stands for the component of another one.
    fn root(&mut self, position: usize) -> usize {
        let mut root = position;
        while self.parents[root] != root {
            root = self.parents[root];
        }
        let mut current = position;
        while self.parents[current] != root {
            current = std::mem::replace(&mut self.parents[current], root);
        }
        root
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        if one != other {
            let (larger, smaller) = if self.sizes[one] >= self.sizes[other] { (one, other) } else { (other, one) };
            self.parents[smaller] = larger;
            self.sizes[larger] += self.sizes[smaller];
        }
    }

    /// The smallest key of each component, at the position that stands for it.
    fn smallest(&mut self) -> Vec<SmolStr> {
        let mut smallest = self.keys.clone();
        for position in 0..self.keys.len() {
            let root = self.root(position);
            if self.keys[position].as_bytes() < smallest[root].as_bytes() {
                smallest[root] = self.keys[position].clone();
            }
        }
        smallest
    }
}
