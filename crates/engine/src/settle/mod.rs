//! Settling: what records say about each other becomes links, fields through links, rollups and coverage.
//!
//! Whoever changes a record ([`edges`]) writes beside it what it tells its targets, and marks: "this needs settling". Passes
//! answer marks, each inside one transaction of the store, in four strata; each may leave marks for later ones:
//!
//! 0. *found*: a record that children look for by equal fields has changed: its possible children are settled; a file has
//!    taken the place of others ([`snapshot`]): what those said is retired,
//! 1. *read*: a field that children read has changed: the children are settled,
//! 2. *child*: a record finds its targets and takes fields from them,
//! 3. *parent*: a record's rollups and coverage follow from its children's edges.
//!
//! A pass is a function of what it reads, so it may come late, twice, or for nothing; what matters is that one comes after
//! every change. Values stay what they were until then.

mod child;
mod edges;
mod fan;
pub mod measure;
mod measured;
mod parent;
mod remake;
pub mod snapshot;

pub use child::{InlineResult, at_once, failure_of};
pub(crate) use edges::left_out;
pub use edges::{ChangeCause, Propagation, ValueChange};
pub use measured::{CoveredChild, measured};
pub(crate) use parent::carry_settled;
pub use remake::{DeepCheckReport, bring_up, check};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::expr::{Evaluator, Expression, ExpressionFailures};
use stook_catalogue::key::Key;
use stook_catalogue::links::{CoverageKind, Derivation, Link, TargetRule, id_of};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::damage::Damage;
use stook_store::queue::JobId;
use stook_store::{
    Edge, NewChangeLogEntry, PassContext, PassReport, PassWrites, RecordChange, RecordContent, RecordWrite, Result, SettlePass, SettlingChanges,
    StaleMark, Store, StoreError, StoredRecord, Tenant, UniqueConflict, Unit,
};

/// Marks of records that children look for. Kinds of marks are the last two bits of their stratum.
const FOUND: u32 = 0;
/// Marks of records that children read.
const READ: u32 = 1;
/// Marks of children.
const CHILD: u32 = 2;
/// Marks of parents.
const PARENT: u32 = 3;

/// The job of marks that a check has made; no job has its number.
const CHECK: JobId = i64::MAX as JobId;

/// Marks answered by one pass: transactions are not long, and passes are not many.
const MOST_MARKS: usize = 3_000;
/// Edges read by one pass that fans out.
const MOST_CHILDREN: usize = 4_000;

/// What a catalogue says of one collection's relations.
#[derive(Debug, Default)]
pub(crate) struct CollectionRelations {
    /// Its number in marks.
    pub id: u32,
    /// Links of its records.
    pub from: Vec<usize>,
    /// Links to its records.
    pub to: Vec<usize>,
    /// Coverages of its records.
    pub coverages: Vec<usize>,
    /// Fields that are rolled up.
    pub rollups: Vec<usize>,
    /// Settled fields with expressions, each behind those it reads.
    pub link_expressions: Vec<usize>,
    /// Links whose targets are looked for.
    pub lookup_links: Vec<usize>,
    /// Fields from which the settled values of a child follow, and those values: where they stay, it stays settled.
    pub settling: Vec<usize>,
    /// How many collections must be settled before it: its records read what is settled of theirs.
    pub order: u32,
}

impl CollectionRelations {
    /// Whether anything follows from a change of its records.
    pub fn any(&self) -> bool {
        !(self.from.is_empty() && self.to.is_empty() && self.coverages.is_empty() && self.rollups.is_empty() && self.link_expressions.is_empty())
    }

    fn is_parent(&self) -> bool {
        !(self.coverages.is_empty() && self.rollups.is_empty())
    }

    fn is_child(&self) -> bool {
        !(self.lookup_links.is_empty() && self.link_expressions.is_empty())
    }
}

/// What a catalogue says of relations: the answer to marks. Made once, used by everybody.
#[derive(Debug)]
pub struct SettleRules {
    /// The definition.
    pub catalogue: Arc<Catalogue>,
    pub(crate) relations: Vec<CollectionRelations>,
    links: HashMap<u32, usize>,
    collections: HashMap<u32, usize>,
}

impl SettleRules {
    /// The rules of a catalogue.
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        let mut relations: Vec<CollectionRelations> = Vec::with_capacity(catalogue.collections.len());
        for (index, collection) in catalogue.collections.iter().enumerate() {
            let mut own = CollectionRelations { id: id_of(&collection.name), ..CollectionRelations::default() };
            for (number, link) in catalogue.links.iter().enumerate() {
                if link.child_collection == index {
                    own.from.push(number);
                    if matches!(link.target_rule, TargetRule::Same { .. }) {
                        own.lookup_links.push(number);
                    }
                }
                if link.target_collection == index {
                    own.to.push(number);
                }
            }
            own.coverages = (0..catalogue.coverages.len()).filter(|coverage| catalogue.coverages[*coverage].parent == index).collect();
            let mut waiting = Vec::new();
            for (place, field) in collection.fields.iter().enumerate() {
                match &field.derive {
                    Some(Derivation::Rollup(_)) => own.rollups.push(place),
                    Some(Derivation::ThroughLinks(expression)) => waiting.push((place, expression)),
                    _ => {}
                }
            }
            // parsing refused circles, so every round places at least one
            while !waiting.is_empty() {
                let names: Vec<String> = waiting.iter().map(|(place, _)| collection.fields[*place].name.clone()).collect();
                let (ready, rest): (Vec<_>, Vec<_>) =
                    waiting.into_iter().partition(|(_, expression)| !expression.variables().iter().any(|name| names.contains(name)));
                own.link_expressions.extend(ready.iter().map(|(place, _)| *place));
                if ready.is_empty() {
                    break;
                }
                waiting = rest;
            }
            own.settling = settling(catalogue, collection, &own);
            relations.push(own);
        }
        // a collection is behind those of which it reads what is settled; where they read each other it does not matter
        for _ in 0..relations.len() {
            for link in catalogue.links.iter().filter(|link| link.child_collection != link.target_collection) {
                let target = &catalogue.collections[link.target_collection];
                let waits = link.read_fields.iter().any(|field| target.fields[*field].is_settled());
                let least = relations[link.target_collection].order + 1;
                if waits && relations[link.child_collection].order < least && least as usize <= relations.len() {
                    relations[link.child_collection].order = least;
                }
            }
        }
        let links = catalogue.links.iter().enumerate().map(|(number, link)| (link.id, number)).collect();
        let collections = relations.iter().enumerate().map(|(number, own)| (own.id, number)).collect();
        Self { catalogue: catalogue.clone(), relations, links, collections }
    }

    /// Whether anything is ever to be settled.
    pub fn any(&self) -> bool {
        self.relations.iter().any(CollectionRelations::any) || self.catalogue.sources.iter().any(|source| source.replaces.is_some())
    }

    /// How many collections must be settled before this one.
    pub fn depth(&self, collection: usize) -> u32 {
        self.relations[collection].order
    }

    /// Whether records of a collection find targets, or read of them.
    pub fn is_child(&self, collection: usize) -> bool {
        self.relations[collection].is_child()
    }

    /// Whether records of a collection read those of another one.
    pub fn reads_of(&self, collection: usize, other: usize) -> bool {
        let mut links = self.relations[collection].from.iter().map(|link| &self.catalogue.links[*link]);
        links.any(|link| link.target_collection == other && link.is_read())
    }

    /// Whether a record that changes stays settled as a child.
    pub fn stays_settled(&self, collection: usize, before: &[Value], after: &[Value]) -> bool {
        self.relations[collection].settling.iter().all(|field| before[*field] == after[*field])
    }

    /// Whether children find the same in a record that changes.
    pub fn reads_the_same(&self, collection: usize, before: Option<&[Value]>, after: Option<&[Value]>) -> bool {
        let read = || self.relations[collection].to.iter().flat_map(|link| &self.catalogue.links[*link].read_fields);
        match (before, after) {
            (Some(before), Some(after)) => read().all(|field| before[*field] == after[*field]),
            (before, after) => before.is_some() == after.is_some(),
        }
    }

    /// Whether records of a collection tell others, or are told: then their old values must be known when they change.
    pub fn concern(&self, collection: usize) -> bool {
        self.relations[collection].any()
    }
}

fn settling(catalogue: &Catalogue, collection: &Collection, own: &CollectionRelations) -> Vec<usize> {
    let mut fields: BTreeSet<usize> = own.link_expressions.iter().copied().collect();
    let named = |expression: &Expression| expression.variables().iter().filter_map(|name| Some(collection.field(name)?.0)).collect::<Vec<usize>>();
    for link in own.from.iter().map(|link| &catalogue.links[*link]) {
        fields.insert(link.field);
        if let TargetRule::Same { fields: same, overlap } = &link.target_rule {
            fields.extend(same.iter().map(|(own, _)| *own));
            fields.extend(overlap.iter().flat_map(|overlap| [overlap.mine.0, overlap.mine.1]));
            fields.extend(link.when.iter().flat_map(named));
        }
    }
    fields.extend(own.link_expressions.iter().filter_map(|field| collection.fields[*field].derive.as_ref()?.expression()).flat_map(named));
    fields.into_iter().collect()
}

/// What one pass has found out so far.
struct PassState<'p> {
    rules: &'p SettleRules,
    evaluator: &'p Evaluator,
    writes: Vec<RecordWrite>,
    followed: Propagation,
    cleared: Vec<i64>,
    log: Vec<NewChangeLogEntry>,
    /// Records that changed although nothing but a check asked for it.
    incorrect: Vec<(usize, Key)>,
    /// Whether a check asks.
    checks: bool,
    /// Records on which expressions have failed, with what has.
    failed: BTreeMap<(usize, Key), Vec<String>>,
    /// Whether some target was not there.
    missing: bool,
    /// Files, by job and number, that were decided about.
    decided: BTreeSet<(JobId, usize)>,
    /// Keys of files that are written by this pass, by the file's name.
    unwritten: BTreeMap<SmolStr, snapshot::KeySample>,
    /// Records that cannot be written.
    refused: &'p [UniqueConflict],
    /// Those of them that this pass would have written: their places in `refused`.
    kept: BTreeSet<usize>,
}

impl SettlePass for SettleRules {
    fn most(&self) -> usize {
        MOST_MARKS
    }

    /// Whoever settles children of a collection may pass over those that are what they must be, because nobody else is at them.
    fn alone(&self, marks: &[StaleMark]) -> Option<u32> {
        let first = marks.first()?;
        match first.phase & 3 {
            PARENT => None,
            CHILD => Some(first.rule),
            _ => self.links.get(&first.rule).map(|link| self.relations[self.catalogue.links[*link].child_collection].id),
        }
    }

    /// A record or an edge that cannot be read fails the marks that need it, and no others: these are answered with what is wrong, so that
    /// nobody comes to them again and again. Whoever heals it makes new ones.
    fn run(&self, _tenant: &Tenant, marks: &[StaleMark], refused: &[UniqueConflict], desk: &mut dyn PassContext) -> Result<PassWrites> {
        let mut few = marks;
        loop {
            match (self.settled(few, refused, desk), few) {
                (Err(StoreError::Damaged(damage)), [mark]) => {
                    let settling = SettlingChanges { cleared: vec![mark.id], ..SettlingChanges::default() };
                    return Ok(PassWrites { settling, damaged: vec![damage.to_string()], ..PassWrites::default() });
                }
                (Err(StoreError::Damaged(_)), more) => few = &more[..more.len() / 2],
                (ended, _) => return ended,
            }
        }
    }
}

impl SettleRules {
    /// What follows from marks.
    fn settled(&self, marks: &[StaleMark], refused: &[UniqueConflict], desk: &mut dyn PassContext) -> Result<PassWrites> {
        let evaluator = Evaluator::new(self.catalogue.tables.clone());
        let mut work = PassState {
            rules: self,
            evaluator: &evaluator,
            writes: Vec::new(),
            followed: Propagation::default(),
            cleared: Vec::new(),
            log: Vec::new(),
            incorrect: Vec::new(),
            checks: marks.iter().any(|mark| mark.job == CHECK),
            failed: BTreeMap::new(),
            missing: false,
            decided: BTreeSet::new(),
            unwritten: BTreeMap::new(),
            refused,
            kept: BTreeSet::new(),
        };
        let Some(first) = marks.first() else { return Ok(PassWrites::default()) };
        let (link, collection) = (self.links.get(&first.rule), self.collections.get(&first.rule));
        match (first.phase & 3, link, collection) {
            (FOUND, None, _) if let Some(replaces) = self.replacing(first.rule) => work.replaced(desk, replaces, marks)?,
            (FOUND, Some(link), _) => work.found(desk, *link, marks)?,
            (READ, Some(link), _) => work.read(desk, *link, marks)?,
            (CHILD, _, Some(collection)) => work.child_marks(desk, *collection, marks)?,
            (PARENT, _, Some(collection)) => work.parents(desk, *collection, marks)?,
            // of a rule that the definition does not have any more
            _ => work.cleared.extend(marks.iter().map(|mark| mark.id)),
        }
        work.note_wrong(desk)?;
        let mut failures = ExpressionFailures::default();
        for ((collection, key), failed) in std::mem::take(&mut work.failed) {
            failures.add(&self.catalogue.collections[collection].name, key.as_str(), failed);
        }
        let PassState { writes, followed, cleared: answered, log, kept, .. } = work;
        let mut settling = followed.settling();
        settling.cleared = answered;
        let damaged = kept.into_iter().map(|kept| why_refused(&self.catalogue, &refused[kept])).collect();
        Ok(PassWrites { writes, settling, log, failures, damaged })
    }
}

/// Who caused marks.
type CausingJobs = BTreeSet<JobId>;

impl PassState<'_> {
    fn child_marks(&mut self, desk: &mut dyn PassContext, collection: usize, marks: &[StaleMark]) -> Result<()> {
        let mut children: BTreeMap<Key, CausingJobs> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            children.entry(key_of(&mark.target)?).or_default().insert(mark.job);
        }
        self.children(desk, collection, &children)
    }

    /// Notes what the evaluator has found to fail on a record. Whoever evaluates something about a record says so before something is
    /// evaluated about the next one.
    fn note_failed(&mut self, collection: usize, key: &Key) {
        let failures = self.evaluator.failures();
        if !failures.is_empty() {
            let known = self.failed.entry((collection, key.clone())).or_default();
            for failure in failures {
                if !known.contains(&failure) {
                    known.push(failure);
                }
            }
        }
    }

    /// Whether a record has to stay what it is, because another one has a unique value that it would have.
    fn is_refused(&mut self, collection: usize, key: &Key) -> bool {
        let found = self.refused.iter().position(|refused| refused.collection == collection && refused.key == *key);
        self.kept.extend(found);
        found.is_some()
    }

    /// Writes settled values that are new, and what follows from them.
    fn settle(&mut self, collection: usize, stored: &StoredRecord, golden: Arc<[Value]>, by: ChangeCause, jobs: &CausingJobs) {
        if golden[..] == stored.golden[..] {
            return;
        }
        for job in jobs {
            let changed = ValueChange { collection, key: &stored.key, before: Some(&stored.golden), after: Some(&golden), job: *job, by };
            self.followed.follow(self.rules, self.evaluator, &changed);
            self.note_failed(collection, &stored.key);
        }
        // what a link by key gives stands among what documents say
        let links = self.rules.relations[collection].from.iter().map(|link| &self.rules.catalogue.links[*link]);
        let is_keyed =
            links.filter(|link| matches!(link.target_rule, TargetRule::Key(_))).any(|link| golden[link.field] != stored.golden[link.field]);
        let content = Box::new(content_of(stored, golden));
        let change = if is_keyed { RecordChange::Put(content) } else { RecordChange::Settle(content) };
        self.write(RecordWrite { collection, key: stored.key.clone(), expect: Some(stored.version), change }, jobs);
    }

    /// Writes what certain jobs have caused.
    fn write(&mut self, write: RecordWrite, jobs: &CausingJobs) {
        if jobs.iter().all(|job| *job == CHECK) && !jobs.is_empty() {
            self.incorrect.push((write.collection, write.key.clone()));
        }
        self.writes.push(write);
    }
}

/// A record's content with other golden values.
fn content_of(stored: &StoredRecord, golden: Arc<[Value]>) -> RecordContent {
    RecordContent {
        created_job: stored.created_job,
        exists: stored.alive,
        golden,
        state: stored.state.clone(),
        state_set: stored.state_set.clone(),
        conflicts: stored.conflicts.clone(),
        contributions: stored.contributions.clone(),
        raw: stored.raw.clone().map(Into::into),
        indexes_unchanged: false,
    }
}

/// Something about derived values, said beside no record.
#[derive(Debug)]
pub struct SettlingUnit {
    /// Whose values.
    pub tenant: Tenant,
    /// What is said.
    pub settling: SettlingChanges,
}

impl Unit for SettlingUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: UniqueConflict) {}

    fn settling(&mut self) -> SettlingChanges {
        self.settling.clone()
    }
}

/// Says which record cannot be written as it would have to be.
pub(crate) fn why_refused(catalogue: &Catalogue, refused: &UniqueConflict) -> String {
    let collection = &catalogue.collections[refused.collection];
    let (field, holder, key) = (&collection.fields[refused.field].name, &refused.holder, &refused.key);
    format!("{} {key}: `{field}` must be unique, but record {holder:?} already has this value", collection.name)
}

/// The number that is an edge's payload.
pub(crate) fn number(edge: &Edge) -> Result<i64> {
    edge.payload.as_slice().try_into().map(i64::from_le_bytes).map_err(|_| damaged_edge(edge, "it carries no number"))
}

/// Says that an edge cannot be read.
pub(crate) fn damaged_edge(edge: &Edge, reason: &str) -> StoreError {
    StoreError::Damaged(Damage::of_row(format!("the edge from {:?} to {:?}", edge.child.as_str(), edge.target.as_str()), reason))
}

/// The key that a mark or an edge names.
fn key_of(text: &SmolStr) -> Result<Key> {
    Key::new(text.clone()).map_err(|error| StoreError::Damaged(Damage::of_row(format!("a mark or an edge of {text:?}"), error.to_string())))
}

/// The keys of a child's targets.
fn keys_of(link: &Link, values: &[Value]) -> Vec<Key> {
    link.leads_to(values).filter_map(|key| Key::new(key.clone()).ok()).collect()
}

/// Whether a coverage measures children of a link.
fn measures(kind: &CoverageKind) -> Option<usize> {
    match kind {
        CoverageKind::Children(children) => Some(children.link),
        CoverageKind::Runs { link, .. } => Some(*link),
        CoverageKind::Total(_) => None,
    }
}

/// Answers marks until there are none, or `stop` says so; returns what was done.
///
/// # Errors
/// When the store fails.
pub fn drain(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool) -> Result<PassReport> {
    answer(store, rules, stop, &|| Ok(store.owing()?.is_empty()))
}

/// Answers marks until `is_over`, or `stop` says so; returns what was done.
fn answer(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool, is_over: &dyn Fn() -> Result<bool>) -> Result<PassReport> {
    let mut total = PassReport::default();
    while !stop.load(Ordering::SeqCst) && !is_over()? {
        let round = round(store, rules, stop, &|_, _, _| ())?;
        if round.marks_cleared == 0 {
            // others are at it
            std::thread::sleep(Duration::from_millis(5));
        }
        total.include(round);
    }
    Ok(total)
}

/// One pass for every tenant that has marks: a tenant with many does not keep one with few waiting. `tell` hears of each.
///
/// # Errors
/// When the store fails.
pub fn round(store: &dyn Store, rules: &Arc<dyn SettlePass>, stop: &AtomicBool, tell: &dyn Fn(&Tenant, &PassReport, Duration)) -> Result<PassReport> {
    let mut total = PassReport::default();
    for tenant in store.owing()? {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let began = Instant::now();
        let passed = store.settle(&tenant, rules)?;
        if passed.marks_cleared > 0 {
            tell(&tenant, &passed, began.elapsed());
        }
        total.include(passed);
    }
    Ok(total)
}

/// A failure of what edges carry, as the store's.
fn damaged(error: stook_catalogue::record::DecodeError) -> StoreError {
    error.into()
}
