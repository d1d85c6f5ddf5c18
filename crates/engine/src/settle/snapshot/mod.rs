//! Files that take the place of older ones: a source's `replaces`.
//!
//! Every chunk writes an edge from its file: how much of it is done, how much failed, where it begins in which scope and which keys it
//! has there. When all of a file is done and nothing failed, each of its scopes decides whether it counts ([`decide`]). If it does, it
//! enters the *ledger* of the scope: (from when on, how old it is). What was said in a scope is dead if the ledger has a newer file that
//! begins no later. Chunks look it up before they write; because ledger and statements are written by different transactions, each also
//! leaves a mark, and the pass that answers it sees both. Dead statements are kept and not heard, and are heard again when the ledger
//! changes, so that the end does not depend on the order in which files came.

mod decide;
mod keys;
mod outcome;

pub(super) use keys::KeySample;
pub use outcome::{FileRetirement, RetirementDryRun, RetirementReport, of_job};

use self::decide::{retired_of, told_to};
use self::keys::hash_of;
use super::fan::SearchBounds;
use super::{CausingJobs, ChangeCause, FOUND, MOST_CHILDREN, PassState, Propagation, SettleRules, ValueChange, damaged_edge, number};
use crate::chunk::consolidate::{ImportPolicy, RecordMerger, golden_change};
use crate::chunk::map::ScopePosition;
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::{CompleteDelivery, OnMatched, OnUnmatched};
use stook_catalogue::key::Key;
use stook_catalogue::record::Retirement;
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, NewChangeLogEntry, PassContext, RecordChange, RecordWrite, Result, StaleMark, Store, StoredRecord, Tenant};

/// What files have taken the place of others, by scope: from when on, and how old the file is.
#[derive(Debug, Default)]
pub struct DeliveryLedger(BTreeMap<String, Vec<(i64, i64)>>);

impl DeliveryLedger {
    fn new(edges: Vec<Edge>) -> Result<Self> {
        let mut ledger = Self::default();
        for edge in edges {
            let as_of = number(&edge)?;
            ledger.0.entry(edge.target.into()).or_default().push((edge.start, as_of));
        }
        Ok(ledger)
    }

    /// The ledger of some scopes as it is now.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read<'s>(store: &dyn Store, tenant: &Tenant, replaces: &CompleteDelivery, scopes: impl Iterator<Item = &'s str>) -> Result<Self> {
        let ranges: Vec<_> = scopes.collect::<BTreeSet<_>>().into_iter().map(whole).collect();
        if ranges.is_empty() { Ok(Self::default()) } else { Self::new(store.between(tenant, replaces.ledger(), &ranges)?) }
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
pub struct FilePart {
    /// Documents that were read.
    pub documents: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Documents of the whole file, where that is known.
    pub whole: Option<u64>,
    /// Whether somebody has allowed the file to retire whatever it lacks.
    pub retires_all: bool,
    /// What it says in each scope.
    pub scopes: BTreeMap<String, ScopePart>,
}

/// What a part of a file says in one scope.
#[derive(Debug, Clone)]
pub struct ScopePart {
    /// The first time.
    pub from: i64,
    /// The oldest `as_of`.
    pub as_of: i64,
    /// Which keys it names.
    pub(super) keys: KeySample,
}

impl ScopePart {
    fn include(&mut self, other: &ScopePart) {
        (self.from, self.as_of) = (self.from.min(other.from), self.as_of.min(other.as_of));
        self.keys.include(&other.keys);
    }

    fn pack(&self) -> Vec<u8> {
        [self.as_of.to_le_bytes().to_vec(), self.keys.pack()].concat()
    }

    fn of(edge: &Edge) -> Result<Self> {
        let (as_of, keys) = edge.payload.split_first_chunk().ok_or_else(|| damaged_edge(edge, "it carries no number"))?;
        let keys = KeySample::unpack(keys).map_err(|error| damaged_edge(edge, error.0))?;
        Ok(Self { from: edge.start, as_of: i64::from_le_bytes(*as_of), keys })
    }
}

/// How a part is written: documents, failures, documents of the whole file, whether it retires all.
type FilePartRow = (u64, u64, Option<u64>, bool);

impl FilePart {
    /// Adds a statement: in which scope, about what (see [`named`]), and how old it is.
    pub fn add(&mut self, scoped: &ScopePosition, name: &str, as_of: i64) {
        let own = self.scopes.entry(scoped.scope.clone()).or_insert_with(|| ScopePart { from: scoped.at, as_of, keys: KeySample::default() });
        (own.from, own.as_of) = (own.from.min(scoped.at), own.as_of.min(as_of));
        own.keys.add(hash_of(name), scoped.at);
    }

    /// Adds another part of the file.
    pub fn include(&mut self, other: &FilePart) {
        self.documents += other.documents;
        self.failed += other.failed;
        self.whole = self.whole.or(other.whole);
        self.retires_all |= other.retires_all;
        for (scope, part) in &other.scopes {
            self.scopes.entry(scope.clone()).and_modify(|own| own.include(part)).or_insert_with(|| part.clone());
        }
    }

    /// The edges from a file; `name` tells them from others'.
    fn edges(&self, replaces: &CompleteDelivery, file: &str, name: &str) -> Vec<Edge> {
        let edge = |group: SmolStr, start: i64, payload: Vec<u8>| {
            let (link, target, child) = (replaces.parts(), file.to_owned(), name.to_owned());
            Edge { link, target: target.into(), group, start, child: child.into(), payload }
        };
        let total = serde_json::json!([self.documents, self.failed, self.whole, self.retires_all]).to_string();
        let scopes = self.scopes.iter().map(|(scope, own)| edge(format!("s{scope}").into(), own.from, own.pack()));
        std::iter::once(edge(SmolStr::default(), 0, total.into())).chain(scopes).collect()
    }

    fn of(edge: &Edge) -> Result<Self> {
        if let Some(scope) = edge.group.strip_prefix('s') {
            let scopes = BTreeMap::from([(scope.to_owned(), ScopePart::of(edge)?)]);
            return Ok(Self { scopes, ..Self::default() });
        }
        let read = serde_json::from_slice(&edge.payload);
        // parts that wait from an earlier build have three numbers
        let read = read.or_else(|_| serde_json::from_slice(&edge.payload).map(|(documents, failed, whole)| (documents, failed, whole, false)));
        let (documents, failed, whole, retires_all): FilePartRow = read.map_err(|error| damaged_edge(edge, &error.to_string()))?;
        Ok(Self { documents, failed, whole, retires_all, scopes: BTreeMap::new() })
    }

    /// Tells that a chunk is done: `first` is the number of its first document.
    pub fn tell(&self, replaces: &CompleteDelivery, (job, file): (JobId, usize), first: u64, followed: &mut Propagation) {
        let file = format!("{job} {file}");
        self.edges(replaces, &file, &format!("{first:020}")).into_iter().for_each(|edge| followed.edge(EdgeChange::Put(edge)));
        followed.mark(FOUND, replaces.parts(), &file, "", job);
    }
}

/// What a statement is about: a collection, who speaks, and a key.
pub fn named(collection: &str, contributor: &str, key: &Key) -> String {
    serde_json::json!([collection, contributor, key.as_str()]).to_string()
}

/// A statement that was stored, as the edge from its scope names it; one that is not heard is found elsewhere.
pub fn said(replaces: &CompleteDelivery, scoped: &ScopePosition, name: String, as_of: i64, retired: bool) -> EdgeChange {
    let (link, target) = place_of(replaces, &scoped.scope, retired);
    EdgeChange::Put(Edge { link, target, group: SmolStr::default(), start: scoped.at, child: name.into(), payload: as_of.to_le_bytes().into() })
}

fn place_of(replaces: &CompleteDelivery, scope: &str, retired: bool) -> (u32, SmolStr) {
    if retired { (replaces.history(), retired_of(scope)) } else { (replaces.statements(), scope.into()) }
}

/// Asks for a pass over what was said in a scope between two times.
pub fn ask(followed: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    followed.mark(FOUND, replaces.statements(), scope, SearchBounds { low, high, cursor: None }.text(), job);
}

/// The same over what was retired there.
pub fn ask_back(followed: &mut Propagation, replaces: &CompleteDelivery, scope: &str, (low, high): (i64, i64), job: JobId) {
    followed.mark(FOUND, replaces.history(), retired_of(scope), SearchBounds { low, high, cursor: None }.text(), job);
}

impl SettleRules {
    /// The source whose files take the place of others, by the number of a mark's rule.
    pub(super) fn replacing(&self, rule: u32) -> Option<&CompleteDelivery> {
        self.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref()).find(|replaces| replaces.id == rule & !3)
    }
}

impl PassState<'_> {
    /// Answers marks of a source whose files take the place of others.
    pub(super) fn replaced(&mut self, desk: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark]) -> Result<()> {
        match marks.first().map(|mark| mark.rule) {
            Some(rule) if rule == replaces.parts() => self.parts(desk, replaces, marks),
            Some(rule) if rule == replaces.ledger() => self.decide(desk, replaces, marks),
            Some(rule) if rule == replaces.history() => self.restate(desk, replaces, marks, RetirementChange::Restore),
            _ => self.restate(desk, replaces, marks, RetirementChange::Retire),
        }
    }

    /// Parts of files are done: those of a file become one, and one that is whole is decided about.
    fn parts(&mut self, desk: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark]) -> Result<()> {
        self.cleared.extend(marks.iter().map(|mark| mark.id));
        let files: BTreeSet<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let targets: Vec<(String, Option<String>)> = files.iter().map(|file| ((*file).to_owned(), None)).collect();
        let edges = desk.edges(replaces.parts(), &targets, stook_store::NO_LIMIT)?;
        for own in edges.chunk_by(|a, b| a.target == b.target) {
            let (mut part, file) = (FilePart::default(), &own[0].target);
            for edge in own {
                part.include(&FilePart::of(edge)?);
                self.followed.edge(EdgeChange::Delete(edge.clone()));
            }
            if part.whole != Some(part.documents) {
                part.edges(replaces, file, "").into_iter().for_each(|edge| self.followed.edge(EdgeChange::Put(edge)));
                continue;
            }
            let numbers = file.split_once(' ').and_then(|(job, file)| Some((job.parse().ok()?, file.parse().ok()?)));
            let (job, number): (JobId, usize) = numbers.ok_or_else(|| damaged_edge(&own[0], "it names no file"))?;
            if part.failed > 0 {
                let payload = part.failed.to_string().into();
                self.followed.edge(EdgeChange::Put(decide::told(replaces, job, format!("b{number}").into(), payload)));
            } else {
                self.is_whole(replaces, (job, number), &part)?;
            }
        }
        Ok(())
    }

    /// Of what was said in scopes, retires what is dead, or hears again what is not.
    fn restate(&mut self, desk: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark], heard: RetirementChange) -> Result<()> {
        let retired = heard == RetirementChange::Restore;
        let link = place_of(replaces, "", retired).0;
        let (edges, jobs) = self.paged(desk, link, (FOUND, link), marks, &|bounds| (bounds.low, bounds.high))?;
        let scope_of = |target: &SmolStr| if retired { target.get(1..).unwrap_or_default().to_owned() } else { target.to_string() };
        let ranges: Vec<_> = jobs.keys().map(|target| whole(&scope_of(target))).collect();
        let ledger = DeliveryLedger::new(desk.between(replaces.ledger(), &ranges, stook_store::NO_LIMIT)?)?;
        let mut found: BTreeMap<(usize, Key), Vec<ScopedContribution>> = BTreeMap::new();
        for edge in edges {
            let (as_of, scope) = (number(&edge)?, scope_of(&edge.target));
            if ledger.is_dead(&scope, edge.start, as_of) == retired {
                continue;
            }
            let named: (String, String, String) = serde_json::from_str(&edge.child).map_err(|error| damaged_edge(&edge, &error.to_string()))?;
            let (collection, contributor, key) = named;
            let place = self.rules.catalogue.collection(&collection).and_then(|(collection, _)| Some((collection, Key::new(key).ok()?)));
            match place {
                Some(place) => found.entry(place).or_default().push(ScopedContribution { contributor, as_of, scope, edge }),
                // of a collection that the definition does not have any more
                None => self.followed.edge(EdgeChange::Delete(edge)),
            }
        }
        debug_assert!(found.len() <= MOST_CHILDREN);
        let mut counted: BTreeMap<(JobId, String, RetirementResult), u64> = BTreeMap::new();
        let collections: BTreeSet<usize> = found.keys().map(|(collection, _)| *collection).collect();
        for collection in collections {
            let keys: Vec<Key> = found.keys().filter(|place| place.0 == collection).map(|(_, key)| key.clone()).collect();
            let held = desk.hold(collection, &keys)?;
            for (key, stored) in keys.into_iter().zip(held) {
                let own = found.remove(&(collection, key)).unwrap_or_default();
                let caused: CausingJobs = own.iter().filter_map(|own| jobs.get(&own.edge.target)).flatten().copied().collect();
                let scope = own.first().map(|own| own.scope.clone()).unwrap_or_default();
                if let Some(restated) = self.restate_one(replaces, (collection, stored), own, heard, &caused)? {
                    caused.into_iter().for_each(|job| *counted.entry((job, scope.clone(), restated)).or_default() += 1);
                }
            }
        }
        self.count(desk, replaces, counted)
    }

    /// Tells jobs how many records they have changed in a scope, or could not change.
    fn count(
        &mut self,
        desk: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        counted: BTreeMap<(JobId, String, RetirementResult), u64>,
    ) -> Result<()> {
        let jobs: BTreeSet<JobId> = counted.keys().map(|(job, ..)| *job).collect();
        let targets: Vec<(String, Option<String>)> = jobs.into_iter().map(|job| (told_to(job).into(), None)).collect();
        let known = if targets.is_empty() { Vec::new() } else { desk.edges(replaces.history(), &targets, stook_store::NO_LIMIT)? };
        for ((job, scope, restated), count) in counted {
            let child: SmolStr = format!("{}{scope}", restated.kind()).into();
            let before = known.iter().find(|edge| edge.target == told_to(job) && edge.child == child).map_or(Ok(0), number)?;
            let payload = (before + count as i64).to_le_bytes().into();
            self.followed.edge(EdgeChange::Put(decide::told(replaces, job, child, payload)));
        }
        Ok(())
    }

    /// Says what has become of the record; nothing where it is as it was.
    fn restate_one(
        &mut self,
        replaces: &CompleteDelivery,
        (collection, stored): (usize, Option<StoredRecord>),
        own: Vec<ScopedContribution>,
        heard: RetirementChange,
        jobs: &CausingJobs,
    ) -> Result<Option<RetirementResult>> {
        let definition = &self.rules.catalogue.collections[collection];
        if stored.as_ref().is_some_and(|record| self.is_refused(collection, &record.key)) {
            return Ok(Some(RetirementResult::UniqueConflict));
        }
        let contributions = match &stored {
            Some(record) => record.contributions_of(definition)?,
            None => Vec::new(),
        };
        for own in own.iter().map(|own| (own, contributions.iter().find(|said| *said.contributor == *own.contributor))) {
            let (own, said) = own;
            // of a newer statement the edge is written by whoever wrote that
            if said.is_none_or(|said| said.as_of <= own.as_of) {
                self.followed.edge(EdgeChange::Delete(own.edge.clone()));
            }
            if said.is_some_and(|said| said.as_of == own.as_of) {
                let (link, target) = place_of(replaces, &own.scope, heard == RetirementChange::Retire);
                self.followed.edge(EdgeChange::Put(Edge { link, target, ..own.edge.clone() }));
            }
        }
        let Some(record) = stored else { return Ok(None) };
        let policy = ImportPolicy { job: jobs.first().copied().unwrap_or_default(), matched: OnMatched::Update, unmatched: OnUnmatched::Skip };
        let consolidator = Consolidator::new(&self.rules.catalogue, definition, self.evaluator);
        let decider = RecordMerger::new(self.rules, collection, &consolidator, self.evaluator, policy);
        let own: Vec<(&str, i64)> = own.iter().map(|own| (own.contributor.as_str(), own.as_of)).collect();
        let retired = if heard == RetirementChange::Restore { Retirement::Live } else { Retirement::ByLaterDelivery };
        let Some(change) = decider.restate(&record, contributions, &own, retired) else { return Ok(None) };
        let RecordChange::Put(content) = &change else { return Ok(None) };
        let before = record.alive.then_some(&record.golden[..]);
        let after = content.exists.then_some(&content.golden[..]);
        for job in jobs {
            let changed = ValueChange { collection, key: &record.key, before, after, job: *job, by: ChangeCause::External };
            self.followed.follow(self.rules, self.evaluator, &changed);
        }
        self.note_failed(collection, &record.key);
        if let Some(change) = golden_change(definition, Some(&record), &change) {
            let caller = format!("job {}", policy.job);
            self.log.push(NewChangeLogEntry { collection, key: record.key.clone(), transition: None, caller, change });
        }
        self.write(RecordWrite { collection, key: record.key, expect: Some(record.version), change }, jobs);
        Ok(Some(if heard == RetirementChange::Restore { RetirementResult::Restored } else { RetirementResult::Retired }))
    }
}

/// What becomes of statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetirementChange {
    /// A file that counts has taken their place.
    Retire,
    /// None has any more.
    Restore,
}

/// What has become of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RetirementResult {
    /// What older files said of it is not heard any more.
    Retired,
    /// It is heard again.
    Restored,
    /// It stays as it was, because another record has a unique value that it would have.
    UniqueConflict,
}

impl RetirementResult {
    /// How the edges that count such records for a job begin.
    fn kind(self) -> char {
        match self {
            Self::Retired => 'r',
            Self::Restored => 'v',
            Self::UniqueConflict => 'u',
        }
    }
}

/// Something that was said in a scope.
struct ScopedContribution {
    contributor: String,
    as_of: i64,
    scope: String,
    edge: Edge,
}
