//! Decides which complete files count: a file that lacks too many keys of the one before it retires nothing unless it is imported with
//! permission to.
//!
//! The complete files of a scope are taken in the order of their age. Each is compared with the newest older one that counts; so the decisions
//! are a function of the set of files, whatever order they arrive in, and a file that arrives late makes those after it be decided again.

use super::keys::{KeySample, MissingKeys};
use super::names::{all_times, files_target, job_note, keys_target, mark_retired, mark_scope};
use super::share::{FileShare, ScopeShare};
use crate::relations::marks::FOUND;
use crate::relations::stored::{damaged_edge, number};
use crate::settle::pass_state::{CausingJobs, PassState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use stook_catalogue::definition::CompleteDelivery;
use stook_catalogue::value::SmolStr;
use stook_store::queue::JobId;
use stook_store::{Edge, EdgeChange, PassContext, Result, StaleMark, Store, StoreError, Tenant};

/// A complete file, as recorded for one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DeliveryFile {
    /// From which position in the scope on it replaces older files.
    pub from: i64,
    /// Its as-of time.
    pub as_of: i64,
    /// The job that imported it.
    pub job: JobId,
    /// Its number among the job's files.
    pub file: usize,
    /// Whether it was imported with permission to lack any number of keys (`--retire-all`).
    pub allowed: bool,
    /// What was decided; `None` until then.
    pub verdict: Option<Verdict>,
}

/// What was decided about a complete file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// Whether it counts, so that it retires what older files contributed.
    #[serde(rename = "counts")]
    pub is_effective: bool,
    /// The as-of time of the file it was compared with.
    pub against: Option<i64>,
    /// Keys of that file that it lacks.
    pub lack: MissingKeys,
    /// Keys of other files of the same time that it lacks, none of which replaces another; `None` if there are none.
    #[serde(default)]
    pub same_time: Option<MissingKeys>,
}

impl DeliveryFile {
    /// Its name among the files of a scope.
    fn name(&self) -> SmolStr {
        format!("{} {}", self.job, self.file).into()
    }

    fn edge(&self, replaces: &CompleteDelivery, scope: &str) -> Result<Edge> {
        let payload = serde_json::to_vec(self).map_err(|error| StoreError::Other(error.to_string()))?;
        let (link, target) = (replaces.history_link(), files_target(scope));
        Ok(Edge { link, target, group: SmolStr::default(), start: self.from, child: self.name(), payload })
    }

    fn from_edge(edge: &Edge) -> Result<Self> {
        serde_json::from_slice(&edge.payload).map_err(|error| damaged_edge(edge, &error.to_string()))
    }

    fn counts(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.is_effective)
    }
}

/// The complete files of a scope, oldest first.
fn in_order(edges: &[Edge]) -> Result<Vec<DeliveryFile>> {
    let mut files: Vec<DeliveryFile> = edges.iter().map(DeliveryFile::from_edge).collect::<Result<_>>()?;
    files.sort_by_key(|file| (file.as_of, file.from, file.job, file.file));
    Ok(files)
}

/// Whether few enough keys are missing for a file to retire them.
fn is_within_limit(replaces: &CompleteDelivery, lack: MissingKeys) -> bool {
    lack.percent() <= replaces.max_missing()
}

impl PassState<'_> {
    /// Records that a file is complete, and marks each of its scopes for a decision.
    pub(super) fn add_complete_file(&mut self, replaces: &CompleteDelivery, (job, file): (JobId, usize), share: &FileShare) -> Result<()> {
        for (scope, scope_share) in &share.scopes {
            let delivery = DeliveryFile { from: scope_share.from, as_of: scope_share.as_of, job, file, allowed: share.retires_all, verdict: None };
            let (link, target, group) = (replaces.history_link(), keys_target(scope), delivery.name());
            let keys = Edge { link, target, group, start: 0, child: SmolStr::default(), payload: scope_share.keys.pack() };
            self.propagation.edge(EdgeChange::Put(delivery.edge(replaces, scope)?));
            self.propagation.edge(EdgeChange::Put(keys));
            self.propagation.mark(FOUND, replaces.ledger_link(), scope.as_str(), "", job);
        }
        Ok(())
    }

    /// Decides about the complete files of scopes that wait for it, and again about those after them.
    pub(super) fn decide(&mut self, context: &mut dyn PassContext, replaces: &CompleteDelivery, marks: &[StaleMark]) -> Result<()> {
        let mut scopes: BTreeMap<&str, CausingJobs> = BTreeMap::new();
        for mark in marks {
            self.cleared.push(mark.id);
            scopes.entry(&mark.target).or_default().insert(mark.job);
        }
        for (scope, jobs) in scopes {
            self.unwritten.clear();
            let edges = context.edges(replaces.history_link(), &[(files_target(scope).into(), None)], None)?;
            let ledger_edges = context.edges_starting_between(replaces.ledger_link(), &[all_times(scope)], None)?;
            let files = in_order(&edges)?;
            let mut same_times = self.same_times(context, replaces, scope, &files)?;
            let mut files = self.merged(context, replaces, scope, files)?;
            for position in 0..files.len() {
                let against =
                    files[..position].iter().rev().find(|other| other.counts() && other.as_of < files[position].as_of).map(|other| other.as_of);
                let is_current = |verdict: Verdict| verdict.against == against && !files[..position].iter().any(|other| self.is_new(other, against));
                if files[position].verdict.is_some_and(is_current) {
                    continue;
                }
                let lack = match against {
                    Some(against) => {
                        let group = files[..position].iter().filter(|other| other.counts() && other.as_of == against);
                        let former = self.keys(context, replaces, scope, group)?;
                        former.missing_in(&self.keys(context, replaces, scope, std::iter::once(&files[position]))?, files[position].from)
                    }
                    None => MissingKeys::default(),
                };
                let file = &mut files[position];
                let same_time = same_times.remove(&file.name());
                file.verdict = Some(Verdict { is_effective: file.allowed || is_within_limit(replaces, lack), against, lack, same_time });
                self.decided.insert((file.job, file.file));
                self.propagation.edge(EdgeChange::Put(file.edge(replaces, scope)?));
                let child = format!("f{} {scope}", file.file).into();
                let payload = serde_json::to_vec(file).map_err(|error| StoreError::Other(error.to_string()))?;
                self.propagation.edge(EdgeChange::Put(job_note(replaces, file.job, child, payload)));
            }
            self.write_ledger(replaces, (scope, &jobs), &files, &ledger_edges)?;
        }
        Ok(())
    }

    /// Which keys of other files of the same time each undecided file lacks, by its name.
    fn same_times(
        &self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        scope: &str,
        files: &[DeliveryFile],
    ) -> Result<BTreeMap<SmolStr, MissingKeys>> {
        let mut lacking_keys = BTreeMap::new();
        for twins in files.chunk_by(|a, b| a.as_of == b.as_of).filter(|twins| twins.len() > 1) {
            for file in twins.iter().filter(|file| file.verdict.is_none()) {
                let keys_of_others = self.keys(context, replaces, scope, twins.iter().filter(|other| *other != file))?;
                let own_keys = self.keys(context, replaces, scope, std::iter::once(file))?;
                lacking_keys.insert(file.name(), keys_of_others.missing_in(&own_keys, file.from));
            }
        }
        Ok(lacking_keys)
    }

    /// Merges files that have the same as-of time and begin at the same position, such as a file that was imported twice: the result is allowed if
    /// one of them is, and has the keys of all.
    fn merged(
        &mut self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        scope: &str,
        files: Vec<DeliveryFile>,
    ) -> Result<Vec<DeliveryFile>> {
        let mut merged = Vec::with_capacity(files.len());
        for twins in files.chunk_by(|a, b| (a.as_of, a.from) == (b.as_of, b.from)) {
            let (Some(newest), [_, _, ..]) = (twins.last(), twins) else {
                merged.extend_from_slice(twins);
                continue;
            };
            let merged_file = DeliveryFile { allowed: twins.iter().any(|file| file.allowed), verdict: None, ..newest.clone() };
            let keys = self.keys(context, replaces, scope, twins.iter())?;
            let (link, target) = (replaces.history_link(), keys_target(scope));
            let edge = |file: &DeliveryFile, payload: Vec<u8>| Edge {
                link,
                target: target.clone(),
                group: file.name(),
                start: 0,
                child: SmolStr::default(),
                payload,
            };
            for file in twins.iter().filter(|file| *file != newest) {
                self.propagation.edge(EdgeChange::Delete(file.edge(replaces, scope)?));
                self.propagation.edge(EdgeChange::Delete(edge(file, Vec::new())));
            }
            self.propagation.edge(EdgeChange::Put(edge(newest, keys.pack())));
            self.unwritten.insert(newest.name(), keys);
            merged.push(merged_file);
        }
        Ok(merged)
    }

    /// Whether a file that another one is compared with has been decided about in this pass.
    fn is_new(&self, other: &DeliveryFile, against: Option<i64>) -> bool {
        Some(other.as_of) == against && self.decided.contains(&(other.job, other.file))
    }

    fn keys<'f>(
        &self,
        context: &mut dyn PassContext,
        replaces: &CompleteDelivery,
        scope: &str,
        files: impl Iterator<Item = &'f DeliveryFile>,
    ) -> Result<KeySample> {
        let mut keys = KeySample::default();
        let mut targets: Vec<(String, Option<String>)> = Vec::new();
        for file in files {
            match self.unwritten.get(&file.name()) {
                Some(unwritten) => keys.include(unwritten),
                None => targets.push((keys_target(scope).into(), Some(file.name().into()))),
            }
        }
        for edge in context.edges(replaces.history_link(), &targets, None)? {
            keys.include(&KeySample::unpack(&edge.payload).map_err(|error| damaged_edge(&edge, error.0))?);
        }
        Ok(keys)
    }

    /// Writes the ledger: the files that count, except those that newer ones cover. Where it changes, marks the contributions that it retires, or
    /// no longer retires.
    fn write_ledger(
        &mut self,
        replaces: &CompleteDelivery,
        (scope, jobs): (&str, &CausingJobs),
        files: &[DeliveryFile],
        ledger_edges: &[Edge],
    ) -> Result<()> {
        let ledger_edges: Vec<(&Edge, (i64, i64))> =
            ledger_edges.iter().map(|edge| Ok((edge, (edge.start, number(edge)?)))).collect::<Result<_>>()?;
        // a ledger entry without a file was written before files were compared; all that is known about it is that it counts
        let older = ledger_edges.iter().map(|(_, entry)| *entry).filter(|entry| !files.iter().any(|file| (file.from, file.as_of) == *entry));
        let mut counted: BTreeSet<(i64, i64)> = older.collect();
        counted.extend(files.iter().filter(|file| file.counts()).map(|file| (file.from, file.as_of)));
        let covers = |(from, as_of): (i64, i64), other: (i64, i64)| from <= other.0 && as_of >= other.1;
        let wanted: BTreeSet<(i64, i64)> =
            counted.iter().copied().filter(|entry| !counted.iter().any(|other| other != entry && covers(*other, *entry))).collect();
        let present: BTreeSet<(i64, i64)> = ledger_edges.iter().map(|(_, entry)| *entry).collect();
        for (edge, entry) in ledger_edges.into_iter().filter(|(_, entry)| !wanted.contains(entry)) {
            self.propagation.edge(EdgeChange::Delete(edge.clone()));
            if !wanted.iter().any(|other| covers(*other, entry)) {
                // what it had retired is restored, unless another file retires it
                for job in jobs {
                    mark_retired(&mut self.propagation, replaces, scope, (edge.start, i64::MAX), *job);
                }
            }
        }
        for (from, as_of) in wanted.difference(&present) {
            let (link, target, child) = (replaces.ledger_link(), scope.into(), as_of.to_string().into());
            let payload = as_of.to_le_bytes().into();
            self.propagation.edge(EdgeChange::Put(Edge { link, target, group: SmolStr::default(), start: *from, child, payload }));
            // a file that counts now because of another file's arrival was not imported by the job that caused this
            let counted_by = files.iter().rfind(|file| (file.from, file.as_of) == (*from, *as_of)).map(|file| file.job);
            if let Some(job) = counted_by.filter(|job| jobs.contains(job)).or_else(|| jobs.last().copied()) {
                mark_scope(&mut self.propagation, replaces, scope, (*from, i64::MAX), job);
            }
        }
        Ok(())
    }
}

/// What would be decided about a file that is not imported.
pub(super) fn foresee(store: &dyn Store, tenant: &Tenant, replaces: &CompleteDelivery, scope: &str, share: &ScopeShare) -> Result<Verdict> {
    let files = in_order(&store.edges(tenant, replaces.history_link(), &files_target(scope))?)?;
    let against = files.iter().rev().find(|other| other.counts() && other.as_of < share.as_of).map(|other| other.as_of);
    let group: Vec<SmolStr> = files.iter().filter(|other| other.counts() && Some(other.as_of) == against).map(DeliveryFile::name).collect();
    let key_edges = store.edges(tenant, replaces.history_link(), &keys_target(scope))?;
    let keys_of_files = |names: &[SmolStr]| -> Result<KeySample> {
        let mut keys = KeySample::default();
        for edge in key_edges.iter().filter(|edge| names.contains(&edge.group)) {
            keys.include(&KeySample::unpack(&edge.payload).map_err(|error| damaged_edge(edge, error.0))?);
        }
        Ok(keys)
    };
    let former = keys_of_files(&group)?;
    let lack = if against.is_some() { former.missing_in(&share.keys, share.from) } else { MissingKeys::default() };
    let twins: Vec<SmolStr> = files.iter().filter(|other| other.as_of == share.as_of).map(DeliveryFile::name).collect();
    let same_time = if twins.is_empty() { None } else { Some(keys_of_files(&twins)?.missing_in(&share.keys, share.from)) };
    Ok(Verdict { is_effective: is_within_limit(replaces, lack), against, lack, same_time })
}
