//! Computes the rows of a coverage and writes those that differ.

use super::groups::{case_of, observed};
use super::rows::CoverageRow;
use super::work::{ParentState, ParentToSettle, ParentWork};
use crate::job::NO_JOB;
use crate::settle::pass_state::{CausingJobs, PassState};
use crate::settle::stop::check_cancelled;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::links::CoverageKind;
use stook_catalogue::record::pack;
use stook_catalogue::value::Value;
use stook_store::{PassContext, RecordChange, RecordContent, RecordWrite, Result, StoredRecord};

impl PassState<'_> {
    /// Brings the rows of a coverage up to date. `covered` has the rows of the coverages computed before, by coverage and parent, then by group.
    pub(super) fn cover(
        &mut self,
        context: &mut dyn PassContext,
        index: usize,
        parents: &[ParentToSettle],
        covered: &mut HashMap<(usize, usize), BTreeMap<String, CoverageRow>>,
    ) -> Result<()> {
        let coverage = &self.rules.catalogue.coverages[index];
        // all rows are read if all groups are measured or another coverage sums them up, else only those of groups that have changed
        let is_summed = self.rules.catalogue.coverages.iter().any(|other| matches!(&other.kind, CoverageKind::Total(total) if total.of == index));
        let reads_all_rows = |work: &ParentWork| work.all || is_summed || !matches!(coverage.kind, CoverageKind::Children(_));
        let names: Vec<&str> = parents.iter().filter(|parent| reads_all_rows(&parent.work)).map(|parent| parent.key.as_str()).collect();
        let mut keys: BTreeSet<Key> =
            if names.is_empty() { BTreeSet::new() } else { context.keys_by(coverage.rows, FieldId::from(0), &names)?.into_iter().collect() };
        for ParentToSettle { key, work, .. } in parents.iter().filter(|parent| !reads_all_rows(&parent.work)) {
            keys.extend(work.groups.iter().filter_map(|group| self.row_key(coverage, key, group)));
        }
        let keys: Vec<Key> = keys.into_iter().collect();
        let stored = if keys.is_empty() { Vec::new() } else { context.read_for_update(coverage.rows, &keys)? };
        let mut stored_rows: HashMap<String, Vec<StoredRecord>> = HashMap::new();
        for record in stored.into_iter().flatten() {
            stored_rows.entry(record.golden[0].as_text().unwrap_or_default().to_owned()).or_default().push(record);
        }
        for (position, ParentToSettle { key, state: parent, work, children: children_by_link }) in parents.iter().enumerate() {
            check_cancelled()?;
            let stored = stored_rows.remove(key.as_str()).unwrap_or_default();
            let counts = |parent: &&ParentState| coverage.when.as_ref().is_none_or(|when| self.holds(when, coverage.parent, &parent.golden));
            let Some(parent) = parent.as_ref().filter(counts) else {
                self.note_failed(coverage.parent, key);
                self.replace(coverage.rows, stored, Vec::new(), &work.jobs);
                continue;
            };
            let rows: Vec<(Key, Vec<Value>)> = match &coverage.kind {
                CoverageKind::Runs { link, condition, edge_field: value, max_gap } => {
                    let linked = children_by_link.get(link).map(Vec::as_slice).unwrap_or_default();
                    let found = observed(linked, *condition, *value, *max_gap);
                    found.iter().filter_map(|run| self.run_row(coverage, parent, run)).collect()
                }
                CoverageKind::Children(children) => {
                    let mut rows = BTreeMap::new();
                    let linked = children_by_link.get(&children.link).map(Vec::as_slice).unwrap_or_default();
                    for record in stored.iter().filter(|_| !work.all) {
                        let group = record.golden[1].as_text().unwrap_or_default();
                        if let Some(row) =
                            case_of(children, group).filter(|_| !work.groups.contains(group)).map(|case| CoverageRow::stored(record, case))
                        {
                            rows.insert(group.to_owned(), row);
                        }
                    }
                    for (group, row) in self.measured(coverage, children, parent, work, linked) {
                        rows.insert(group, row);
                    }
                    let shown = rows.iter().filter_map(|(group, row)| self.row(coverage, parent, group, row)).collect();
                    covered.insert((index, position), rows);
                    shown
                }
                CoverageKind::Total(total) => {
                    let ty = self.rules.catalogue.collections[coverage.rows].fields[FieldId::from(2)].ty.clone();
                    let rows = covered.get(&(total.of, position)).map(|rows| self.sums(total, &ty, rows)).unwrap_or_default();
                    let shown = rows.iter().filter_map(|(group, row)| self.row(coverage, parent, group, row)).collect();
                    covered.insert((index, position), rows);
                    shown
                }
            };
            self.note_failed(coverage.parent, key);
            self.replace(coverage.rows, stored, rows, &work.jobs);
        }
        Ok(())
    }

    /// Writes rows that differ from the stored ones, and deletes stored rows that should not exist.
    fn replace(&mut self, collection: CollectionId, stored: Vec<StoredRecord>, rows: Vec<(Key, Vec<Value>)>, jobs: &CausingJobs) {
        let definition = &self.rules.catalogue.collections[collection];
        let mut stored: HashMap<Key, StoredRecord> = stored.into_iter().map(|record| (record.key.clone(), record)).collect();
        for (key, values) in rows {
            let old = stored.remove(&key);
            if old.as_ref().is_some_and(|old| old.golden == values) {
                continue;
            }
            let content = RecordContent {
                created_job: NO_JOB,
                exists: true,
                contributions: pack(&[], definition, &values),
                golden: values.into(),
                state: Vec::new(),
                state_set: Vec::new(),
                conflicts: Vec::new(),
                raw: None,
                indexes_unchanged: false,
            };
            let change = RecordChange::Put(Box::new(content));
            self.write(RecordWrite { collection, key, expect: old.map(|old| old.version), change }, jobs);
        }
        for old in stored.into_values() {
            self.write(RecordWrite { collection, key: old.key, expect: Some(old.version), change: RecordChange::Delete }, jobs);
        }
    }
}
