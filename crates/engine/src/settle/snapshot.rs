//! Files that take the place of older ones: a source's `replaces`.
//!
//! Every chunk writes an edge from its file: how much of it is done, how much failed, where it begins in which scope. When all of
//! a file is done and nothing failed, the file enters the *ledger* of its scopes: (from when on, how old it is). What was said in
//! a scope is dead if the ledger has a newer file that begins no later. Chunks look it up before they write; because ledger and
//! statements are written by different transactions, each also leaves a mark, and the pass that answers it sees both. Dead
//! statements are kept and not heard, so that the end does not depend on the order in which files came.

use super::fan::Bounds;
use super::{By, Changed, FOUND, Followed, Jobs, MOST_CHILDREN, Rules, Work, damaged, number};
use crate::chunk::consolidate::{Decider, Policy, golden_change};
use crate::chunk::map::Scoped;
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::{Matched, Replaces, Unmatched};
use stook_catalogue::key::Key;
use stook_catalogue::record::unpack;
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Change, Edge, EdgeChange, Inside, Logged, Mark, RecordWrite, Result, Store, StoredRecord, Tenant};

/// What files have taken the place of others, by scope: from when on, and how old the file is.
#[derive(Debug, Default)]
pub struct Ledger(BTreeMap<String, Vec<(i64, i64)>>);

impl Ledger {
    fn new(edges: Vec<Edge>) -> Self {
        let mut ledger = Self::default();
        for edge in edges {
            let as_of = number(&edge.payload);
            ledger.0.entry(edge.target.into()).or_default().push((edge.start, as_of));
        }
        ledger
    }

    /// The ledger of some scopes as it is now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read<'s>(store: &dyn Store, tenant: &Tenant, replaces: &Replaces, scopes: impl Iterator<Item = &'s str>) -> Result<Self> {
        let ranges: Vec<_> = scopes.collect::<BTreeSet<_>>().into_iter().map(whole).collect();
        if ranges.is_empty() { Ok(Self::default()) } else { Ok(Self::new(store.between(tenant, replaces.ledger(), &ranges)?)) }
    }

    /// Whether a newer file has taken the place of what was said in a scope, of a time in it.
    pub fn is_dead(&self, scope: &str, at: i64, as_of: i64) -> bool {
        self.0.get(scope).is_some_and(|files| files.iter().any(|(from, newer)| *from <= at && *newer > as_of))
    }
}

fn whole(scope: &str) -> (SmolStr, i64, i64) {
    (scope.into(), i64::MIN, i64::MAX)
}

/// How much of a file is done: of a chunk, or of several.
#[derive(Debug, Default)]
pub struct Part {
    /// Documents that were read.
    pub documents: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Documents of the whole file, where that is known.
    pub whole: Option<u64>,
    /// The first time in each scope, and the oldest `as_of`.
    pub scopes: BTreeMap<String, (i64, i64)>,
}

impl Part {
    /// Adds a statement.
    pub fn add(&mut self, scoped: &Scoped, as_of: i64) {
        let own = self.scopes.entry(scoped.scope.clone()).or_insert((scoped.at, as_of));
        *own = (own.0.min(scoped.at), own.1.min(as_of));
    }

    /// The edges from a file; `name` tells them from others'.
    fn edges(&self, replaces: &Replaces, file: &str, name: &str) -> Vec<Edge> {
        let edge = |group: SmolStr, start: i64, payload: Vec<u8>| {
            let (link, target, child) = (replaces.parts(), file.to_owned(), name.to_owned());
            Edge { link, target: target.into(), group, start, child: child.into(), payload }
        };
        let total = serde_json::json!([self.documents, self.failed, self.whole]).to_string();
        let scopes = self.scopes.iter().map(|(scope, (from, as_of))| edge(format!("s{scope}").into(), *from, as_of.to_le_bytes().into()));
        std::iter::once(edge(SmolStr::default(), 0, total.into())).chain(scopes).collect()
    }

    fn add_edge(&mut self, edge: &Edge) {
        match edge.group.strip_prefix('s') {
            Some(scope) => self.add(&Scoped { scope: scope.to_owned(), at: edge.start }, number(&edge.payload)),
            None => {
                let (documents, failed, whole): (u64, u64, Option<u64>) = serde_json::from_slice(&edge.payload).unwrap_or_default();
                self.documents += documents;
                self.failed += failed;
                self.whole = self.whole.or(whole);
            }
        }
    }

    /// Tells that a chunk is done: `first` is the number of its first document.
    pub fn tell(&self, replaces: &Replaces, job: JobId, file: usize, first: u64, followed: &mut Followed) {
        let file = format!("{job} {file}");
        self.edges(replaces, &file, &format!("{first:020}")).into_iter().for_each(|edge| followed.edge(EdgeChange::Put(edge)));
        followed.mark(FOUND, replaces.parts(), &file, "", job);
    }
}

/// A statement that was stored, as the edge from its scope names it.
pub fn said(replaces: &Replaces, scoped: &Scoped, (collection, contributor, key): (&str, &str, &Key), as_of: i64) -> EdgeChange {
    EdgeChange::Put(Edge {
        link: replaces.statements(),
        target: scoped.scope.as_str().into(),
        group: SmolStr::default(),
        start: scoped.at,
        child: serde_json::json!([collection, contributor, key.as_str()]).to_string().into(),
        payload: as_of.to_le_bytes().into(),
    })
}

/// Asks for a pass over what was said in a scope between two times.
pub fn ask(followed: &mut Followed, replaces: &Replaces, scope: &str, (low, high): (i64, i64), job: JobId) {
    followed.mark(FOUND, replaces.statements(), scope, Bounds { low, high, place: None }.text(), job);
}

impl Rules {
    /// The source whose files take the place of others, by the number of a mark's rule.
    pub(super) fn replacing(&self, rule: u32) -> Option<&Replaces> {
        self.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref()).find(|replaces| replaces.id == rule & !3)
    }
}

impl Work<'_> {
    /// Answers marks of a source whose files take the place of others.
    pub(super) fn replaced(&mut self, desk: &mut dyn Inside, replaces: &Replaces, marks: &[Mark]) -> Result<()> {
        if marks.first().is_some_and(|mark| mark.rule == replaces.parts()) {
            self.parts(desk, replaces, marks)
        } else {
            self.retire(desk, replaces, marks)
        }
    }

    /// Parts of files are done: a file that is whole enters the ledger, those of others become one.
    fn parts(&mut self, desk: &mut dyn Inside, replaces: &Replaces, marks: &[Mark]) -> Result<()> {
        let mut jobs: BTreeMap<&str, JobId> = BTreeMap::new();
        for mark in marks {
            self.answered.push(mark.id);
            jobs.insert(&mark.target, mark.job);
        }
        let targets: Vec<(String, Option<String>)> = jobs.keys().map(|file| ((*file).to_owned(), None)).collect();
        let edges = desk.edges(replaces.parts(), &targets, usize::MAX >> 1)?;
        let mut done: Vec<(JobId, Part)> = Vec::new();
        for own in edges.chunk_by(|a, b| a.target == b.target) {
            let (mut part, file) = (Part::default(), &own[0].target);
            own.iter().for_each(|edge| part.add_edge(edge));
            own.iter().for_each(|edge| self.followed.edge(EdgeChange::Delete(edge.clone())));
            if part.whole == Some(part.documents) {
                done.extend((part.failed == 0).then(|| (jobs[file.as_str()], part)));
            } else {
                part.edges(replaces, file, "").into_iter().for_each(|edge| self.followed.edge(EdgeChange::Put(edge)));
            }
        }
        let scopes: BTreeSet<&str> = done.iter().flat_map(|(_, part)| part.scopes.keys().map(String::as_str)).collect();
        let ranges: Vec<_> = scopes.into_iter().map(whole).collect();
        let known = if ranges.is_empty() { Vec::new() } else { desk.between(replaces.ledger(), &ranges, usize::MAX >> 1)? };
        for (job, part) in &done {
            for (scope, (from, as_of)) in &part.scopes {
                let known = known.iter().filter(|edge| edge.target == *scope);
                if known.clone().any(|edge| edge.start <= *from && number(&edge.payload) >= *as_of) {
                    continue;
                }
                // what it covers is not needed any more
                for covered in known.filter(|edge| edge.start >= *from && number(&edge.payload) <= *as_of) {
                    self.followed.edge(EdgeChange::Delete(covered.clone()));
                }
                // another pass may write another file of the same time: both are kept
                let (link, target, child) = (replaces.ledger(), scope.clone(), as_of.to_string());
                let edge = Edge {
                    link,
                    target: target.into(),
                    group: SmolStr::default(),
                    start: *from,
                    child: child.into(),
                    payload: as_of.to_le_bytes().into(),
                };
                self.followed.edge(EdgeChange::Put(edge));
                ask(&mut self.followed, replaces, scope, (*from, i64::MAX), *job);
            }
        }
        Ok(())
    }

    /// Retires what is dead of that which was said in scopes.
    fn retire(&mut self, desk: &mut dyn Inside, replaces: &Replaces, marks: &[Mark]) -> Result<()> {
        let rule = (FOUND, replaces.statements());
        let (edges, jobs) = self.paged(desk, replaces.statements(), rule, marks, &|bounds| (bounds.low, bounds.high))?;
        let ranges: Vec<_> = jobs.keys().map(|scope| whole(scope)).collect();
        let ledger = Ledger::new(desk.between(replaces.ledger(), &ranges, usize::MAX >> 1)?);
        let mut dead: BTreeMap<(usize, Key), Vec<Dead>> = BTreeMap::new();
        for edge in edges {
            let as_of = number(&edge.payload);
            if !ledger.is_dead(&edge.target, edge.start, as_of) {
                continue;
            }
            let named: Option<(String, String, String)> = serde_json::from_str(&edge.child).ok();
            let place = named.and_then(|(collection, contributor, key)| {
                Some(((self.rules.catalogue.collection(&collection)?.0, Key::new(key).ok()?), contributor))
            });
            match place {
                Some((place, contributor)) => dead.entry(place).or_default().push(Dead { contributor, as_of, edge }),
                // of a collection that the definition does not have any more
                None => self.followed.edge(EdgeChange::Delete(edge)),
            }
        }
        debug_assert!(dead.len() <= MOST_CHILDREN);
        let collections: BTreeSet<usize> = dead.keys().map(|(collection, _)| *collection).collect();
        for collection in collections {
            let keys: Vec<Key> = dead.keys().filter(|place| place.0 == collection).map(|(_, key)| key.clone()).collect();
            let held = desk.hold(collection, &keys)?;
            for (key, stored) in keys.into_iter().zip(held) {
                let own = dead.remove(&(collection, key)).unwrap_or_default();
                let caused: Jobs = own.iter().filter_map(|dead| jobs.get(&dead.edge.target)).flatten().copied().collect();
                self.retire_one(collection, stored, own, &caused)?;
            }
        }
        Ok(())
    }

    fn retire_one(&mut self, collection: usize, stored: Option<StoredRecord>, dead: Vec<Dead>, jobs: &Jobs) -> Result<()> {
        let definition = &self.rules.catalogue.collections[collection];
        let contributions = match &stored {
            Some(record) => unpack(&record.contributions, definition, &record.golden, record.raw.as_deref()).map_err(damaged)?,
            None => Vec::new(),
        };
        for own in &dead {
            // of a newer statement the edge is written by whoever wrote that
            if contributions.iter().all(|said| *said.contributor != *own.contributor || said.as_of <= own.as_of) {
                self.followed.edge(EdgeChange::Delete(own.edge.clone()));
            }
        }
        let Some(record) = stored else { return Ok(()) };
        let policy = Policy { job: jobs.first().copied().unwrap_or_default(), matched: Matched::Update, unmatched: Unmatched::Skip };
        let consolidator = Consolidator::new(&self.rules.catalogue, definition, self.evaluator);
        let decider = Decider::new(self.rules, collection, &consolidator, self.evaluator, policy);
        let dead: Vec<(&str, i64)> = dead.iter().map(|dead| (dead.contributor.as_str(), dead.as_of)).collect();
        let Some(change) = decider.retire(&record, contributions, &dead) else { return Ok(()) };
        let Change::Put(content) = &change else { return Ok(()) };
        let before = record.alive.then_some(&record.golden[..]);
        let after = content.alive.then_some(&content.golden[..]);
        for job in jobs {
            let changed = Changed { collection, key: &record.key, before, after, job: *job, by: By::Outside };
            self.followed.follow(self.rules, self.evaluator, &changed);
        }
        if let Some(change) = golden_change(definition, Some(&record), &change) {
            let caller = format!("job {}", policy.job);
            self.log.push(Logged { collection, key: record.key.clone(), transition: None, caller, change });
        }
        self.write(RecordWrite { collection, key: record.key, expect: Some(record.version), change }, jobs);
        Ok(())
    }
}

/// A statement whose place a newer file has taken.
struct Dead {
    contributor: String,
    as_of: i64,
    edge: Edge,
}
