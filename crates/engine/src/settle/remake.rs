//! Everything again: edges as the rules make them now, and a mark for every record that is settled. For rules that have changed,
//! and to compare what is settled with what should be. Values stay what they are until a pass finds others.

use super::parent::MADE;
use super::{CHECK, ChangeCause, PassState, Propagation, SettleRules, ValueChange, answer};
use crate::Result;
use crate::withdraw::PAGE;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use stook_catalogue::expr::Evaluator;
use stook_catalogue::key::Key;
use stook_catalogue::links::id_of;
use stook_store::queue::JobId;
use stook_store::{
    Edge, EdgeChange, PassContext, Priority, ReadDetail, ReadSet, SettlePass, SettlingChanges, Store, StoredRecord, Tenant, UniqueConflict, Unit,
};

/// Marks everything again if the rules are not those by which the store was settled; passes do the rest. Returns how many
/// records were marked.
///
/// # Errors
/// When the store fails.
pub fn bring_up(store: &dyn Store, rules: &Arc<SettleRules>, show: &dyn Fn(u64)) -> Result<u64> {
    let wanted = &rules.catalogue.settling;
    let Some(settled_by) = behind(store, rules)? else { return Ok(0) };
    let marked = mark_all(store, rules, (0, &created(rules, &settled_by)), show)?;
    let known: Vec<u32> = rules.catalogue.links.iter().flat_map(|link| [link.edges(), link.children(), link.targets()]).collect();
    let replaced = rules.catalogue.sources.iter().filter_map(|source| source.replaces.as_ref());
    let kept = replaced.flat_map(|replaces| replaces.links());
    let kept = kept.chain(rules.catalogue.sources.iter().filter_map(|source| source.collect.as_ref()).map(|collect| collect.id));
    store.set_settled_by(wanted, &known.into_iter().chain(kept).collect::<Vec<u32>>())?;
    Ok(marked)
}

/// The rules by which the store was settled, if they are not these and anything follows from either.
fn behind(store: &dyn Store, rules: &SettleRules) -> Result<Option<String>> {
    let settled_by = store.settled_by()?.unwrap_or_default();
    let is_behind = settled_by != rules.catalogue.settling && (rules.any() || !created(rules, &settled_by).is_empty());
    Ok(is_behind.then_some(settled_by))
}

/// Collections of which records exist because others name them, now or by the rules that a store was settled by.
fn created(rules: &SettleRules, settled_by: &str) -> BTreeSet<usize> {
    let names = |rules: &str| rules.split(' ').skip(1).map(str::to_owned).collect::<Vec<String>>();
    let all = names(settled_by).into_iter().chain(names(&rules.catalogue.settling));
    all.filter_map(|name| Some(rules.catalogue.collection(&name)?.0)).collect()
}

/// Marks every record that is settled, or tells others, for a job, and writes its edges again; of records in `created`, asks also whether
/// others bring them into being. Returns how many there are.
///
/// # Errors
/// When the store fails.
fn mark_all(store: &dyn Store, rules: &Arc<SettleRules>, (job, created): (JobId, &BTreeSet<usize>), show: &dyn Fn(u64)) -> Result<u64> {
    let mut marked = 0;
    let concerned = |collection: &usize| rules.concern(*collection) || created.contains(collection);
    for tenant in store.tenants()? {
        for collection in (0..rules.catalogue.collections.len()).filter(concerned) {
            let mut after = String::new();
            loop {
                let keys = store.keys_behind(&tenant, collection, &after, PAGE)?;
                let Some(last) = keys.last() else { break };
                last.as_str().clone_into(&mut after);
                let read = store.read(&tenant, collection, &keys, ReadDetail::Values)?;
                let records: Vec<StoredRecord> = read.into_iter().flatten().filter(|record| record.alive).collect();
                marked += records.len() as u64;
                let mut remake = ResettleUnit::new(rules, &tenant, collection, records, job);
                if created.contains(&collection) {
                    remake.ask_who_makes(rules, job);
                }
                store.submit(Box::new(remake), Priority::Bulk).wait()?;
                show(marked);
            }
        }
    }
    Ok(marked)
}

/// How long a check waits for what is on its way when it begins. Where imports run that may have no end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a check has found.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DeepCheckReport {
    /// Records that were looked at.
    pub records: u64,
    /// Records, by tenant and collection, of which something was not what it must be, while nothing was on its way that could
    /// explain it; now it is.
    pub incorrect: Vec<(Tenant, String, Key)>,
    /// The same where something was on its way.
    pub inconclusive: u64,
    /// Records on which expressions of settled values fail, with what fails: such values are null.
    pub failed: Vec<(Tenant, String, Key, String)>,
}

/// The link of notes that a check leaves, and their targets.
fn notes() -> u32 {
    id_of("stook check")
}
const WRONG: &str = "wrong";
const UNDECIDED: &str = "undecided";
const FAILED: &str = "failed";

/// Settles everything again and returns what was not what it must be. Imports may run meanwhile, and other processes may
/// answer the marks: whoever finds something notes it in the transaction that mends it.
///
/// # Errors
/// When the store fails.
pub fn check(store: &dyn Store, rules: &Arc<SettleRules>, stop: &AtomicBool, show: &dyn Fn(u64)) -> Result<DeepCheckReport> {
    let pass: Arc<dyn SettlePass> = rules.clone();
    // what other rules have settled is not wrong, it is to be settled by these
    bring_up(store, rules, &|_| ())?;
    let began = Instant::now();
    answer(store, &pass, stop, &|| Ok(began.elapsed() >= PATIENCE || store.owing()?.is_empty()))?;
    let mut checked = DeepCheckReport { records: mark_all(store, rules, (CHECK, &created(rules, "")), show)?, ..DeepCheckReport::default() };
    for tenant in store.tenants()? {
        answer(store, &pass, stop, &|| Ok(!store.has_marks(&tenant, CHECK)?))?;
        let mut settling = SettlingChanges::default();
        for target in [WRONG, UNDECIDED] {
            for note in store.edges(&tenant, notes(), target)? {
                match Key::new(note.child.as_str()) {
                    Ok(key) if target == WRONG => checked.incorrect.push((tenant.clone(), note.group.to_string(), key)),
                    _ => checked.inconclusive += 1,
                }
                settling.edges.push(EdgeChange::Delete(note));
            }
        }
        for note in store.edges(&tenant, notes(), FAILED)? {
            if let Ok(key) = Key::new(note.child.as_str()) {
                let what = String::from_utf8_lossy(&note.payload).into_owned();
                checked.failed.push((tenant.clone(), note.group.to_string(), key, what));
            }
            settling.edges.push(EdgeChange::Delete(note));
        }
        if !settling.edges.is_empty() {
            store.commit(Box::new(super::SettlingUnit { tenant, settling }))?;
        }
    }
    Ok(checked)
}

impl PassState<'_> {
    /// Notes records that are mended only because a check asked for it.
    pub(super) fn note_wrong(&mut self, desk: &mut dyn PassContext) -> stook_store::Result<()> {
        let failed = if self.checks { std::mem::take(&mut self.failed) } else { BTreeMap::new() };
        for ((collection, key), what) in failed {
            let (group, child) = (self.rules.catalogue.collections[collection].name.as_str().into(), key.as_str().into());
            let edge = Edge { link: notes(), target: FAILED.into(), group, start: 0, child, payload: what.join("\n").into_bytes() };
            self.followed.edge(EdgeChange::Put(edge));
        }
        if self.incorrect.is_empty() {
            return Ok(());
        }
        // what a change has told is seen together with its marks; whoever made them waits for what follows now
        let on_their_way: Vec<JobId> = desk.marking()?.into_iter().filter(|job| *job != CHECK).collect();
        self.followed.share(CHECK, &on_their_way);
        let target = if on_their_way.is_empty() { WRONG } else { UNDECIDED };
        let link = notes();
        for (collection, key) in std::mem::take(&mut self.incorrect) {
            let (group, child) = (self.rules.catalogue.collections[collection].name.clone(), key.as_str().to_owned());
            self.followed.edge(EdgeChange::Put(Edge {
                link,
                target: target.into(),
                group: group.into(),
                start: 0,
                child: child.into(),
                payload: Vec::new(),
            }));
        }
        Ok(())
    }
}

/// Edges and marks of some records, as long as they are what was read.
struct ResettleUnit {
    tenant: Tenant,
    followed: Vec<Propagation>,
    reliance: ReadSet,
}

impl ResettleUnit {
    fn new(rules: &SettleRules, tenant: &Tenant, collection: usize, records: Vec<StoredRecord>, job: JobId) -> Self {
        let evaluator = Evaluator::new(rules.catalogue.tables.clone());
        let (mut followed, mut reliance) = (Vec::with_capacity(records.len()), ReadSet::default());
        for record in records {
            let changed = ValueChange { collection, key: &record.key, before: None, after: Some(&record.golden), job, by: ChangeCause::External };
            let mut own = Propagation::default();
            own.follow(rules, &evaluator, &changed);
            // those whose targets' keys follow from documents alone are looked at, too: the rule may be another one
            if !rules.relations[collection].from.is_empty() {
                own.ask(rules, collection, &record.key, job);
            }
            followed.push(own);
            reliance.records.push((collection, record.key, Some(record.version)));
        }
        Self { tenant: tenant.clone(), followed, reliance }
    }

    fn ask_who_makes(&mut self, rules: &SettleRules, job: JobId) {
        for (own, (collection, key, _)) in self.followed.iter_mut().zip(&self.reliance.records) {
            own.ask_as_parent(rules, *collection, (key, MADE), job);
        }
    }
}

impl Unit for ResettleUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn relies(&self) -> Option<&ReadSet> {
        Some(&self.reliance)
    }

    fn broken(&mut self, records: &[usize], _ranges: &[usize]) -> Vec<(usize, Key)> {
        // whoever has changed them has told what follows
        records.iter().for_each(|record| self.followed[*record] = Propagation::default());
        Vec::new()
    }

    fn refused(&mut self, _refused: UniqueConflict) {}

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        self.followed.iter().for_each(|followed| all.extend(followed));
        all.settling()
    }
}
