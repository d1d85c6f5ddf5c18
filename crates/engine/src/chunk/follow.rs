//! What the changes of a chunk mean for other records: edges, stale marks, and inline settling.

use super::unit::ChunkUnit;
use crate::content::history::indexed_stay;
use crate::relations::{ChangeCause, Propagation, SettleRules, ValueChange};
use crate::settle::complete_delivery;
use crate::settle::{InlineContext, InlineResult, settle_inline};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stook_catalogue::definition::OnMatched;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::journal::Outcome;
use stook_store::{Edge, EdgeChange, ReadSet, RecordChange, Store, StoreError};

impl ChunkUnit {
    /// Computes the propagation of the chunk's changes and settles records inline if possible, starting with records that others read.
    pub(super) fn follow(&mut self, store: Option<&dyn Store>) -> std::result::Result<(), StoreError> {
        let rules = self.context.rules.clone();
        let mut collections: Vec<CollectionId> =
            self.decisions.keys().map(|(collection, _)| *collection).filter(|own| rules.has_consequences(*own)).collect();
        collections.dedup();
        collections.sort_by_key(|collection| rules.depth(*collection));
        (self.settled_by_target, self.search_ranges, self.read_set) = (HashMap::new(), Vec::new(), ReadSet::default());
        for collection in collections {
            if rules.is_child(collection) {
                self.settle_collection_inline(&rules, collection, store)?;
            }
            for (record_id, decision) in &mut self.decisions {
                if record_id.0 != collection || decision.write.is_none() {
                    continue;
                }
                let (before, after) = (decision.before.as_deref(), decision.after.as_deref());
                let cause = if decision.settled { ChangeCause::InlineSettled } else { ChangeCause::External };
                let changed = ValueChange { collection, key: &record_id.1, before, after, job: self.context.policy.job, cause };
                decision.propagation = Propagation::default();
                decision.propagation.follow(&rules, &self.evaluator, &changed);
                decision.take_failures(&self.evaluator);
            }
        }
        Ok(())
    }

    fn settle_collection_inline(
        &mut self,
        rules: &SettleRules,
        collection: CollectionId,
        store: Option<&dyn Store>,
    ) -> std::result::Result<(), StoreError> {
        // if records of the collection do not read each other, they are settled without a copy: with a store, none of them needs a pass
        let in_place = store.is_some() && !rules.reads_records_of(collection, collection) && !rules.merges(collection);
        let mut is_to_settle = vec![false; self.decisions.len()];
        let mut values: Vec<Arc<[Value]>> = Vec::new();
        for ((_, decision), is_to_settle) in self.decisions.iter_mut().zip(&mut is_to_settle).filter(|((record_id, _), _)| record_id.0 == collection)
        {
            let (Some(after), Some((_, RecordChange::Put(content)))) = (&decision.after, &mut decision.write) else { continue };
            decision.settled = decision.before.as_deref().is_some_and(|before| rules.stays_settled(collection, before, after));
            if decision.settled {
                continue;
            }
            *is_to_settle = true;
            values.push(after.clone());
            if in_place && !content.indexes_unchanged {
                (decision.after, content.golden) = (None, Arc::default());
            }
        }
        let written_values = self
            .decisions
            .iter()
            .filter(|((read_collection, _), decision)| decision.write.is_some() && rules.reads_records_of(collection, *read_collection));
        let written_values: HashMap<(CollectionId, &Key), Option<&[Value]>> =
            written_values.map(|((collection, key), decision)| ((*collection, key), decision.after.as_deref())).collect();
        let written = |collection: CollectionId, key: &Key| written_values.get(&(collection, key)).copied();
        let context = InlineContext { rules, evaluator: &self.evaluator, tenant: &self.context.tenant, store };
        let settled = settle_inline(&context, collection, values, &written, &mut self.read_set)?;
        self.search_ranges.resize_with(self.read_set.ranges.len(), Vec::new);
        let unsettled = self.decisions.iter_mut().zip(is_to_settle).filter(|(_, is_to_settle)| *is_to_settle);
        for (((record_id, decision), _), settled) in unsettled.zip(settled) {
            let Some(InlineResult { values, targets, ranges, failures }) = settled else { continue };
            decision.add_failures(failures);
            let Some((_, RecordChange::Put(content))) = &mut decision.write else { continue };
            content.indexes_unchanged &= indexed_stay(&rules.catalogue.collections[collection], &content.golden, &values);
            content.golden = values;
            decision.after = Some(content.golden.clone());
            decision.settled = true;
            for target in targets {
                self.settled_by_target.entry(target).or_default().push(record_id.clone());
            }
            ranges.into_iter().for_each(|range| self.search_ranges[range].push(record_id.clone()));
        }
        Ok(())
    }

    /// Adds the edges of contributions in scopes, the marks of these scopes, and the chunk's share of its file (numbers of documents and failures,
    /// keys), by which a pass notices that the file is complete.
    pub(super) fn follow_scopes(&mut self, propagation: &mut Propagation) {
        let rules = self.context.rules.clone();
        let policy = self.context.policy;
        let source = &rules.catalogue.sources[self.context.source];
        let Some(replaces) = &source.replaces else { return };
        if policy.matched == OnMatched::Withdraw {
            // without its ledger, what a document contains when it is delivered again is not retired on arrival
            self.mapped.ledger_edges.iter().for_each(|edge| propagation.edge(EdgeChange::Delete(edge.clone())));
            return;
        }
        let mut marked_spans: BTreeMap<(&str, bool), (i64, i64)> = BTreeMap::new();
        for ((collection, key), decision) in &self.decisions {
            let Some(contributions) = self.mapped.records.get(&(*collection, key.clone())) else { continue };
            for numbered in decision.stored.iter().map(|position| &contributions[*position]) {
                let own = &numbered.contribution;
                let Some(scoped) = &own.scope else { continue };
                let name = complete_delivery::contribution_name(&rules.catalogue.collections[*collection].name, &own.contributor, key);
                complete_delivery::contribution_edge(replaces, numbered, name).into_iter().for_each(|edge| propagation.edge(edge));
                let span = marked_spans.entry((&scoped.scope, own.is_retired())).or_insert((scoped.at, scoped.at));
                *span = (span.0.min(scoped.at), span.1.max(scoped.at));
            }
        }
        for ((scope, retired), span) in marked_spans {
            let mark = if retired { complete_delivery::mark_retired } else { complete_delivery::mark_scope };
            mark(propagation, replaces, scope, span, policy.job);
        }
        for (scope, age) in &self.mapped.complete_documents {
            let edge = complete_delivery::document_edge(replaces, scope, *age);
            let is_older = |known: &&Edge| known.target == edge.target && known.child != edge.child && complete_delivery::is_older(known, *age);
            self.mapped.ledger_edges.iter().filter(is_older).for_each(|known| propagation.edge(EdgeChange::Delete(known.clone())));
            propagation.edge(EdgeChange::Put(edge));
            complete_delivery::mark_all(propagation, replaces, scope, policy.job);
        }
        let failed = self.current_journal().map_or(0, |journal| journal.counts.of(Outcome::Failed).max(0) as u64);
        if let Some(share) = &mut self.mapped.share {
            share.failed = failed;
            let first = self.mapped.entries.first().map_or(0, |entry| entry.document);
            share.add_to_propagation(replaces, (policy.job, self.file), first, propagation);
        }
    }

    /// Marks records that were settled inline from values that have changed since.
    pub(super) fn mark_children(&mut self, records: &[(CollectionId, Key)]) {
        for (collection, key) in records {
            if let Some(decision) = self.decisions.get_mut(&(*collection, key.clone())) {
                decision.propagation.mark_child(&self.context.rules, *collection, key, self.context.policy.job);
            }
        }
    }

    /// Computes the propagation of records that were merged again; `remerged` has the values that they were thought to get before. Records that were
    /// settled inline from them are marked, unless they read the same values.
    pub(super) fn follow_remerged(&mut self, remerged: &BTreeMap<(CollectionId, Key), Option<Arc<[Value]>>>) {
        let (rules, job) = (self.context.rules.clone(), self.context.policy.job);
        for (record_id, expected_values) in remerged {
            let Some(decision) = self.decisions.get_mut(record_id) else { continue };
            let (before, after) = (decision.before.as_deref(), decision.after.as_deref());
            let changed = ValueChange { collection: record_id.0, key: &record_id.1, before, after, job, cause: ChangeCause::External };
            decision.propagation = Propagation::default();
            decision.propagation.follow(&rules, &self.evaluator, &changed);
            // the new values are unknown if the record stays as another transaction has written it
            let is_known = decision.write.is_some();
            let leaves_read_values_unchanged = is_known && rules.leaves_read_values_unchanged(record_id.0, expected_values.as_deref(), after);
            decision.take_failures(&self.evaluator);
            if !leaves_read_values_unchanged && let Some(settled) = self.settled_by_target.get(record_id).cloned() {
                self.mark_children(&settled);
            }
        }
    }
}
