//! Contributions that do not count, because something newer of the same contributor does. They are kept for sources whose jobs can be undone.
//!
//! All contributions of a contributor to a record are a set, of which the newest counts, with the fields that are unreadable in it taken from the
//! others. So it makes no difference in which order they came, or whether one came and was taken out again. Kept is what may count again when a job
//! is undone: a document need not be kept if a newer one of its own job leaves nothing of it. A contribution with unreadable fields is also kept as it
//! was before it took values from others, because these may be taken out.

use super::contribution::{NewContribution, NumberedContribution};
use super::merger::{RecordMerger, sorted};
use super::result::MergeResult;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stook_catalogue::definition::Collection;
use stook_catalogue::record::{Contribution, DecodeError, KeptDocument, MAX_CONTRIBUTORS, pack, unpack};
use stook_catalogue::value::{SmolStr, Value};
use stook_store::former::{FormerChange, FormerContribution, FormerId};
use stook_store::{RecordChange, StoredRecord};

impl RecordMerger<'_> {
    /// Whether contributions of a source are kept when they no longer count.
    pub(super) fn keeps_former(&self, source: &str) -> bool {
        self.rules.catalogue.source(source).is_some_and(|(_, source)| source.undo.is_some())
    }

    /// Notes what is kept of the contributions of one contributor, at `positions`, of which the one at `best` counts now; if it is `None`, the stored one
    /// still does.
    pub(super) fn keep_former(
        &self,
        incoming: &[NumberedContribution],
        positions: &[usize],
        best: Option<usize>,
        current: Option<&Contribution>,
        decision: &mut MergeResult,
    ) {
        let is_kept = |new: &NewContribution| self.rules.catalogue.sources[new.source].undo.is_some();
        if !positions.first().is_some_and(|first| is_kept(&incoming[*first].contribution)) {
            return;
        }
        let is_readable = |position: &&usize| incoming[**position].contribution.unreadable.is_empty();
        let readable = positions.iter().filter(is_readable).copied().max_by_key(|position| (incoming[*position].age(), best == Some(*position)));
        let in_job = current.filter(|current| self.policy.wrote(current.origin.job));
        let stored_readable = in_job.filter(|in_job| in_job.unreadable.is_empty()).map(Contribution::age);
        // a newer document of the same job, all of which could be read, leaves nothing of it
        let is_needless = |position: usize| {
            let age = incoming[position].age();
            let newer = readable.filter(|readable| *readable != position);
            newer.is_some_and(|newer| age <= incoming[newer].age()) || stored_readable.is_some_and(|stored| age <= stored)
        };
        let add = |contribution: &Contribution| FormerChange::Add(stored(self.collection, contribution));
        let is_readable_best = best.is_some_and(|best| incoming[best].contribution.unreadable.is_empty());
        let kept = positions.iter().copied().filter(|position| !(is_needless(*position) || is_readable_best && best == Some(*position)));
        let before = decision.former.len();
        decision.former.extend(kept.map(|position| add(&incoming[position].stored(None, self.policy.job))));
        let takes_values = best.is_none() && decision.former.len() > before && current.is_some_and(|current| !current.unreadable.is_empty());
        let is_replaced = best.is_some() && !(is_readable_best && in_job.is_some());
        decision.former.extend(current.filter(|_| is_replaced || takes_values).map(add));
    }

    /// Writes a record of which nothing changes but what is kept in addition to it, so that whoever has read both notices.
    pub(super) fn touch(&self, stored: Option<&StoredRecord>, decision: &mut MergeResult) {
        if let Some(record) = stored.filter(|_| !decision.former.is_empty()) {
            let change = RecordChange::Touch { contributions: record.contributions.clone() };
            self.keep_new_values(stored, &change, decision);
            decision.write = Some((Some(record.version), change));
        }
    }
}

/// The identity of a contribution among those of its contributor to a record.
pub fn identity(contribution: &Contribution) -> FormerId {
    let mut hasher = blake3::Hasher::new();
    let received = contribution.received.map_or([0; 9], |received| {
        let mut bytes = [1; 9];
        bytes[1..].copy_from_slice(&received.to_le_bytes());
        bytes
    });
    hasher.update(&contribution.as_of.to_le_bytes()).update(&received).update(&contribution.hash);
    hasher.update(&contribution.generation.to_le_bytes());
    hasher.update(&contribution.origin.job.to_le_bytes()).update(&contribution.origin.document.to_le_bytes());
    let mut id = FormerId::default();
    id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    id
}

/// The stored form of a contribution that does not count.
pub(super) fn stored(collection: &Collection, contribution: &Contribution) -> FormerContribution {
    let id = identity(contribution);
    // what was stored before it is not known any more when it counts again
    let contribution = Contribution { before: None, ..contribution.clone() };
    let raw = contribution.raw.as_ref().map(|KeptDocument { bytes, .. }| bytes.clone());
    let packed = pack(std::slice::from_ref(&contribution), collection, &no_values(collection));
    FormerContribution { contributor: contribution.contributor, id, packed, raw }
}

/// Reads what [`stored`] has made.
///
/// # Errors
/// When it is damaged.
fn read(collection: &Collection, former: &FormerContribution) -> Result<Contribution, DecodeError> {
    let raw = former.raw.as_deref().unwrap_or_default();
    let found = unpack(&former.packed, collection, &no_values(collection), Some(raw))?;
    found.into_iter().next().ok_or(DecodeError("a former contribution is empty"))
}

fn no_values(collection: &Collection) -> Vec<Value> {
    collection.fields.iter().map(|_| Value::Null).collect()
}

/// All contributions to a record, by contributor: those that count and former ones.
pub struct ContributionSets {
    /// Those that count, as they are stored.
    current: Vec<Contribution>,
    former: Vec<Contribution>,
}

/// What remains of a record's contributions when some have been taken out.
pub struct Remaining {
    /// Those that count.
    pub contributions: Vec<Contribution>,
    /// Changes of the former ones.
    pub former: Vec<FormerChange>,
}

impl ContributionSets {
    /// Reads the former contributions to a record.
    ///
    /// # Errors
    /// When one is damaged.
    pub fn new(collection: &Collection, current: Vec<Contribution>, former: &[FormerContribution]) -> Result<Self, DecodeError> {
        let former = former.iter().map(|former| read(collection, former)).collect::<Result<_, _>>()?;
        Ok(Self { current, former })
    }

    /// Whether some may be missing, because the record once had more contributors than are stored.
    pub fn may_lack_contributors(&self) -> bool {
        self.current.len() >= MAX_CONTRIBUTORS
    }

    /// Takes out what `removes` removes. `present` are the generations of the mappings of the present definition; `None` if nothing was removed.
    pub fn without(self, collection: &Collection, removes: impl Fn(&mut Vec<Contribution>), present: &HashSet<u32>) -> Option<Remaining> {
        type Identified = BTreeMap<SmolStr, BTreeMap<FormerId, Contribution>>;
        let identified = |contributions: &[Contribution]| {
            let mut all = Identified::new();
            for contribution in contributions {
                all.entry(contribution.contributor.clone()).or_default().insert(identity(contribution), contribution.clone());
            }
            all
        };
        let Self { current, former } = self;
        let mut all = former;
        let former = identified(&all);
        // one that counts and is also kept as it was before it took values from others is one contribution
        let is_kept = |own: &Contribution| former.get(&own.contributor).is_some_and(|kept| kept.contains_key(&identity(own)));
        all.extend(current.iter().filter(|own| !is_kept(own)).cloned());
        let before = identified(&all);
        removes(&mut all);
        let after = identified(&all);
        let ids = |sets: &Identified, contributor: &SmolStr| -> BTreeSet<FormerId> {
            sets.get(contributor).into_iter().flat_map(BTreeMap::keys).copied().collect()
        };
        let contributors: BTreeSet<&SmolStr> = before.keys().chain(after.keys()).collect();
        let changed: BTreeSet<&SmolStr> =
            contributors.into_iter().filter(|contributor| ids(&before, contributor) != ids(&after, contributor)).collect();
        if changed.is_empty() {
            return None;
        }
        let mut contributions: Vec<Contribution> = current.iter().filter(|own| !changed.contains(&own.contributor)).cloned().collect();
        let mut changes = Vec::new();
        for contributor in changed {
            let (mut kept, mut stays) = (BTreeSet::new(), None);
            if let Some(set) = after.get(contributor) {
                kept = ids(&after, contributor);
                let newest = set.iter().max_by_key(|(_, own)| rank(own, present));
                if let Some((id, newest)) = newest {
                    if newest.unreadable.is_empty() {
                        kept.remove(id);
                    }
                    stays = Some(filled(newest, set.values(), &current));
                }
            }
            let stored = ids(&former, contributor);
            changes.extend(stored.difference(&kept).map(|id| FormerChange::Remove(contributor.clone(), *id)));
            let added = kept.difference(&stored).filter_map(|id| after.get(contributor)?.get(id));
            changes.extend(added.map(|own| FormerChange::Add(self::stored(collection, own))));
            contributions.extend(stays);
        }
        sorted(&mut contributions);
        Some(Remaining { contributions, former: changes })
    }
}

/// The newest contribution of a set as it counts: with values of the others in fields that are unreadable in it. `current` are those that count so far.
fn filled<'s>(newest: &Contribution, set: impl Iterator<Item = &'s Contribution>, current: &[Contribution]) -> Contribution {
    let current = current.iter().find(|own| own.contributor == newest.contributor && identity(own) == identity(newest));
    let before = current.and_then(|current| current.before);
    let mut filled = Contribution { before, ..newest.clone() };
    for other in set {
        // the same document, read by another mapping, is not older
        let is_same_document = other.age().moment() == newest.age().moment() && other.generation != newest.generation;
        if other.age() < newest.age() && !is_same_document {
            filled.inherit_unreadable(other);
        }
    }
    filled
}

/// The order of the contributions of one contributor: the greatest counts. Of what several mappings made of one document, that of the present one
/// does. Of equal ones it is the first that was delivered.
fn rank(contribution: &Contribution, present: &HashSet<u32>) -> impl Ord + use<> {
    let is_present = present.contains(&contribution.generation);
    let mapping = (is_present, if is_present { 0 } else { contribution.generation });
    (contribution.age().moment(), mapping, contribution.hash, std::cmp::Reverse(contribution.origin))
}
