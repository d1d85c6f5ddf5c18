//! A chunk as one unit of work: its writes, its second thoughts where others were faster, its journal.

use super::consolidate::{ImportPolicy, MergeResult, NumberedContribution, RecordMerger, indexed_stay};
use super::map::{DocumentMapper, Envelope};
use super::read;
use crate::import::UPLOADED;
use crate::settle::snapshot::{self, DeliveryLedger, FilePart};
use crate::settle::{ChangeCause, InlineResult, Propagation, SettleRules, ValueChange, at_once, left_out};
use crate::tags::{ChangedDocuments, TagEvaluator};
use crate::{EngineError, Result, split};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use stook_catalogue::definition::{Catalogue, CompleteDelivery, OnMatched, OnUnmatched};
use stook_catalogue::expr::Evaluator;
use stook_catalogue::key::Key;
use stook_catalogue::record::unpack;
use stook_catalogue::survivorship::Consolidator;
use stook_catalogue::value::Value;
use stook_formats::Document;
use stook_store::damage::ForRecord;
use stook_store::journal::{ChunkJournal, DocumentOutcome, Issue, Outcome, OutcomeCorrection, OutcomeCounts, pack};
use stook_store::queue::{ChunkSlice, JobFile};
use stook_store::tag::{CollectionTags, TagWrites};
use stook_store::{
    LeaseToken, NewChangeLogEntry, ReadDetail, ReadSet, RecordChange, RecordWrite, SettlingChanges, Store, StoreError, StoredRecord, Tenant,
    UniqueConflict, Unit, WriteConflict,
};

/// What all chunks of a job share.
#[derive(Clone)]
pub struct JobContext {
    /// The definition, and what its records say about each other.
    pub rules: Arc<SettleRules>,
    /// Whose records.
    pub tenant: Tenant,
    /// The source's index.
    pub source: usize,
    /// Matched and unmatched.
    pub policy: ImportPolicy,
    /// The time of the delivery, in microseconds.
    pub received: i64,
    /// Whether its documents are about records that are there.
    pub met: Arc<MatchRatio>,
}

/// How many of the records that a job's documents are about were there, by collection. Where next to none is, chunks are written
/// without asking for theirs first: the store says which there are, and they are decided again. A question for a record that is
/// not there reads a page of the index of keys as well as one for a record that is.
#[derive(Debug, Default)]
pub struct MatchRatio(Mutex<HashMap<usize, (u64, u64)>>);

impl MatchRatio {
    /// Records after which it is known.
    const ENOUGH: u64 = 500;
    /// Records after which older ones count half.
    const MANY: u64 = 20_000;
    /// Of so many one may be there.
    const SELDOM: u64 = 50;

    fn note(&self, collection: usize, about: usize, there: usize) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.entry(collection).or_default();
        *known = (known.0 + about as u64, known.1 + there as u64);
        if known.0 > Self::MANY {
            *known = (known.0 / 2, known.1 / 2);
        }
    }

    fn is_seldom(&self, collection: usize) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&collection).is_some_and(|(about, there)| *about >= Self::ENOUGH && there * Self::SELDOM <= *about)
    }
}

/// In the journal, for documents that reached none of several collections.
const NO_COLLECTION: usize = u32::MAX as usize;

/// A document in the journal before its outcome is known.
struct PendingDocument {
    document: u64,
    record: u64,
    offset: u64,
}

/// A chunk that has been read and mapped, and consolidated with what was stored when it was.
pub struct ConsolidatedChunk {
    context: JobContext,
    evaluator: Evaluator,
    fence: Option<LeaseToken>,
    file: usize,
    file_start: u64,
    entries: Vec<PendingDocument>,
    /// Statements by record, in key order.
    records: BTreeMap<(usize, Key), Vec<NumberedContribution>>,
    decisions: BTreeMap<(usize, Key), MergeResult>,
    writes: Vec<RecordWrite>,
    /// Records that were settled at once, by their targets.
    settled_by: HashMap<(usize, Key), Vec<(usize, Key)>>,
    /// Records whose targets were looked for in a range of the reliance.
    search_ranges: Vec<Vec<(usize, Key)>>,
    reliance: ReadSet,
    /// Who carries what, where records carry tags.
    tagger: Option<TagEvaluator>,
    /// Built before the chunk is submitted, and again if something changes after that.
    journal: Option<ChunkJournal>,
    /// How much it is of a file that takes the place of others.
    part: Option<FilePart>,
    /// Documents that never reached a record: outcome and key.
    without_record: Vec<(u64, Outcome, Option<Key>)>,
    troubles: Vec<Issue>,
    /// Documents that failed, as far as they are kept.
    failed_documents: Vec<(u64, Vec<u8>)>,
    /// Who is named where changes are logged.
    caller: String,
}

/// Bytes that are kept of a document that failed.
const MOST_KEPT: usize = 64 << 10;
/// Bytes that are kept of all such documents of a chunk.
const MOST_KEPT_ALL: usize = 256 << 10;

/// Where a chunk's documents come from.
pub struct ChunkInput<'i> {
    /// Its place.
    pub slice: &'i ChunkSlice,
    /// Its file.
    pub file: &'i JobFile,
    /// The bytes, where they are at hand.
    pub bytes: Option<Bytes>,
}

impl ConsolidatedChunk {
    /// Reads and maps a chunk. Nothing is read from the store.
    ///
    /// # Errors
    /// When the chunk as a whole cannot be read.
    pub fn map(context: &JobContext, store: &dyn Store, input: &ChunkInput<'_>, fence: Option<LeaseToken>) -> Result<Self> {
        let slice = input.slice;
        let source = &context.rules.catalogue.sources[context.source];
        let evaluator = Evaluator::new(context.rules.catalogue.tables.clone());
        let mapper = DocumentMapper::new(&context.rules.catalogue, context.source, &evaluator);
        let generations: Vec<u32> = (0..source.feeds.len()).map(|feed| store.generation(context.source, feed)).collect();
        let path = input.file.path.strip_prefix(UPLOADED).unwrap_or(&input.file.path);
        let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let file_start = slice.documents_before - slice.file_documents;
        let now = store.clock();
        let syntax = split::syntax(input.file).ok_or_else(|| EngineError::Wrong("the chunk's file has no syntax".into()))?;
        let mut chunk = MappedDocuments::default();
        read::documents((slice, input.file, input.bytes.as_ref()), syntax, source, |found, bytes| {
            let (record, offset) = (found.number, found.offset);
            let document = file_start + record;
            chunk.entries.push(PendingDocument { document, record, offset });
            let parsed = match found.problem {
                Some(problem) => Err(problem),
                None => Document::parse(&bytes, syntax, &found.head).map_err(|error| error.to_string()),
            };
            let trouble = |key: &Option<Key>, failed: bool, reason: String| {
                let key = key.as_ref().map(Key::to_string);
                Issue { document, file: slice.file, record, offset, key, failed, reason }
            };
            let parsed = match parsed {
                Ok(parsed) => parsed,
                Err(reason) => {
                    chunk.outside.push((document, Outcome::Failed, None));
                    chunk.troubles.push(trouble(&None, true, reason));
                    chunk.keep(document, &bytes);
                    return Ok(());
                }
            };
            let envelope = Envelope { name: &name, ordinal: record, received: context.received, now, partial_list: input.file.part.as_deref() };
            let mapped = mapper.map(&parsed, &bytes, syntax, &envelope);
            chunk.troubles.extend(mapped.warnings.into_iter().map(|warning| trouble(&mapped.key, false, warning)));
            if let Some(reason) = mapped.failed {
                chunk.outside.push((document, Outcome::Failed, mapped.key.clone()));
                chunk.troubles.push(trouble(&mapped.key, true, reason));
                chunk.keep(document, &bytes);
            } else if mapped.skipped.is_some() {
                chunk.outside.push((document, Outcome::Skipped, mapped.key));
            }
            for statement in mapped.statements {
                let generation = match statement.embedded {
                    true => store.generation(statement.source, statement.feed),
                    false => generations[statement.feed],
                };
                let record = (statement.collection, statement.key.clone());
                // mostly the only one
                chunk.records.entry(record).or_insert_with(|| Vec::with_capacity(1)).push(NumberedContribution { document, generation, statement });
            }
            Ok(())
        })?;
        let MappedDocuments { entries, mut records, outside, troubles, kept, .. } = chunk;
        let part = source
            .replaces
            .as_ref()
            .map(|replaces| part_of((&context.rules.catalogue, replaces), &mut records, (slice, input.file.retires_all), (store, &context.tenant)))
            .transpose()?;
        let (context, file, caller) = (context.clone(), slice.file, format!("job {}", context.policy.job));
        Ok(Self {
            part,
            context,
            evaluator,
            fence,
            file,
            file_start,
            entries,
            records,
            decisions: BTreeMap::new(),
            writes: Vec::new(),
            settled_by: HashMap::new(),
            search_ranges: Vec::new(),
            reliance: ReadSet::default(),
            tagger: None,
            journal: None,
            without_record: outside,
            troubles,
            failed_documents: kept,
            caller,
        })
    }

    /// Consolidates with what is stored now: one bulk read per collection.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let (met, may_go_unread) = (self.context.met.clone(), self.goes_unread());
        self.consolidate_with(Some(store), |tenant, collection, keys| {
            if may_go_unread && met.is_seldom(collection) {
                met.note(collection, keys.len(), 0);
                return Ok(vec![None; keys.len()]);
            }
            let found = store.read_damaged(tenant, collection, keys, ReadDetail::Full)?;
            met.note(collection, keys.len(), found.iter().flatten().count());
            Ok(found)
        })
    }

    /// Whether [`ConsolidatedChunk::consolidate_unread`] is a help: not where documents of what is not there are not written.
    pub fn goes_unread(&self) -> bool {
        self.context.policy.unmatched == OnUnmatched::Create
    }

    /// Consolidates as if there were none of its records: the store says which there are, and holds them then.
    ///
    /// # Errors
    /// When the store fails.
    pub fn consolidate_unread(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        self.consolidate_with(Some(store), |_, _, keys| Ok(vec![None; keys.len()]))
    }

    /// As [`ConsolidatedChunk::consolidate`], reading through `read`. `store` can tell whether what was read of others
    /// is still so when the chunk is written.
    ///
    /// # Errors
    /// What `read` says.
    pub fn consolidate_with(
        &mut self,
        store: Option<&dyn Store>,
        read: impl Fn(&Tenant, usize, &[Key]) -> std::result::Result<Vec<Option<StoredRecord>>, StoreError>,
    ) -> std::result::Result<(), StoreError> {
        let mut by_collection: BTreeMap<usize, Vec<Key>> = BTreeMap::new();
        for (collection, key) in self.records.keys() {
            by_collection.entry(*collection).or_default().push(key.clone());
        }
        for (collection, keys) in by_collection {
            // whole, though few documents change much: what is not as it was written must not be taken for what was said
            let stored = read(&self.context.tenant, collection, &keys)?;
            self.decide(collection, keys.into_iter().zip(stored));
        }
        self.follow(store)?;
        if let Some(store) = store {
            self.tag(store)?;
        }
        Ok(())
    }

    /// Finds out who carries what of the records that change.
    fn tag(&mut self, store: &dyn Store) -> std::result::Result<(), StoreError> {
        let (catalogue, tenant) = (self.context.rules.catalogue.clone(), self.context.tenant.clone());
        let mut changed: BTreeMap<usize, Vec<ChangedDocuments>> = BTreeMap::new();
        let mut any = false;
        for ((collection, key), decision) in &mut self.decisions {
            any |= catalogue.collections[*collection].tags.is_some();
            if let (true, Some((expect, change))) = (decision.reevaluates_tags, &decision.write) {
                let (changes, is_new, goes) = (std::mem::take(&mut decision.documents), expect.is_none(), *change == RecordChange::Delete);
                changed.entry(*collection).or_default().push(ChangedDocuments { key: key.clone(), changes, is_new, goes });
            }
        }
        self.tagger = None;
        if !any {
            return Ok(());
        }
        let mut tagger = TagEvaluator::read(&catalogue, store, &tenant)?;
        for (collection, records) in changed {
            tagger.change(store, &tenant, collection, records)?;
        }
        self.tagger = Some(tagger);
        Ok(())
    }

    /// The same for records that were decided again, inside the store's transaction: by what they keep now.
    fn tag_again<'p>(&mut self, again: impl Iterator<Item = &'p (usize, Key)>) -> std::result::Result<(), StoreError> {
        let Some(tagger) = &mut self.tagger else { return Ok(()) };
        let catalogue = &self.context.rules.catalogue;
        for place in again {
            tagger.forget(place.0, &place.1);
            let definition = &catalogue.collections[place.0];
            let Some(decision) = self.decisions.get(place).filter(|decision| decision.reevaluates_tags) else { continue };
            match &decision.write {
                Some((_, RecordChange::Put(content))) => {
                    let read = unpack(&content.contributions, definition, &content.golden, content.raw.as_deref());
                    tagger.add_whole(place.0, place.1.clone(), Some(&read.for_record(&definition.name, &place.1)?));
                }
                Some((_, RecordChange::Delete)) => tagger.add_whole(place.0, place.1.clone(), None),
                // the same documents as before
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds out what other records are told, and settles at once what can be; records that others read come first.
    fn follow(&mut self, store: Option<&dyn Store>) -> std::result::Result<(), StoreError> {
        let rules = self.context.rules.clone();
        let mut collections: Vec<usize> = self.decisions.keys().map(|(collection, _)| *collection).filter(|own| rules.concern(*own)).collect();
        collections.dedup();
        collections.sort_by_key(|collection| rules.depth(*collection));
        (self.settled_by, self.search_ranges, self.reliance) = (HashMap::new(), Vec::new(), ReadSet::default());
        for collection in collections {
            if rules.is_child(collection) {
                self.settle_at_once(&rules, collection, store)?;
            }
            for (place, decision) in &mut self.decisions {
                if place.0 != collection || decision.write.is_none() {
                    continue;
                }
                let (before, after) = (decision.before.as_deref(), decision.after.as_deref());
                let by = if decision.settled { ChangeCause::InlineSettled } else { ChangeCause::External };
                let changed = ValueChange { collection, key: &place.1, before, after, job: self.context.policy.job, by };
                decision.propagation = Propagation::default();
                decision.propagation.follow(&rules, &self.evaluator, &changed);
                decision.take_failures(&self.evaluator);
            }
        }
        Ok(())
    }

    fn settle_at_once(&mut self, rules: &SettleRules, collection: usize, store: Option<&dyn Store>) -> std::result::Result<(), StoreError> {
        // where nobody else looks at what they are, they are settled in their places: with a store at hand none waits for a pass
        let in_place = store.is_some() && !rules.reads_of(collection, collection);
        let mut is_own = vec![false; self.decisions.len()];
        let mut values: Vec<Arc<[Value]>> = Vec::new();
        for ((_, decision), is_own) in self.decisions.iter_mut().zip(&mut is_own).filter(|((place, _), _)| place.0 == collection) {
            let (Some(after), Some((_, RecordChange::Put(content)))) = (&decision.after, &mut decision.write) else { continue };
            decision.settled = decision.before.as_deref().is_some_and(|before| rules.stays_settled(collection, before, after));
            if decision.settled {
                continue;
            }
            *is_own = true;
            values.push(after.clone());
            if in_place && !content.indexes_unchanged {
                (decision.after, content.golden) = (None, Arc::default());
            }
        }
        let beside = self.decisions.iter().filter(|((own, _), decision)| decision.write.is_some() && rules.reads_of(collection, *own));
        let beside: HashMap<(usize, &Key), Option<&[Value]>> =
            beside.map(|((collection, key), decision)| ((*collection, key), decision.after.as_deref())).collect();
        let written = |collection: usize, key: &Key| beside.get(&(collection, key)).copied();
        let context = (rules, &self.evaluator, &self.context.tenant);
        let settled = at_once(context, collection, values, &written, store, &mut self.reliance)?;
        self.search_ranges.resize_with(self.reliance.ranges.len(), Vec::new);
        let own = self.decisions.iter_mut().zip(is_own).filter(|(_, is_own)| *is_own);
        for (((place, decision), _), settled) in own.zip(settled) {
            let Some(InlineResult { values, targets, ranges, failures }) = settled else { continue };
            decision.add_failures(failures);
            let Some((_, RecordChange::Put(content))) = &mut decision.write else { continue };
            content.indexes_unchanged &= indexed_stay(&rules.catalogue.collections[collection], &content.golden, &values);
            content.golden = values;
            decision.after = Some(content.golden.clone());
            decision.settled = true;
            for target in targets {
                self.settled_by.entry(target).or_default().push(place.clone());
            }
            ranges.into_iter().for_each(|range| self.search_ranges[range].push(place.clone()));
        }
        Ok(())
    }

    /// What was said in scopes, and how much of its file this is.
    fn follow_scopes(&mut self, followed: &mut Propagation) {
        let rules = self.context.rules.clone();
        let policy = self.context.policy;
        let source = &rules.catalogue.sources[self.context.source];
        let (Some(replaces), true) = (&source.replaces, policy.matched != OnMatched::Withdraw) else { return };
        let mut spoken: BTreeMap<(&str, bool), (i64, i64)> = BTreeMap::new();
        for ((collection, key), decision) in &self.decisions {
            let Some(statements) = self.records.get(&(*collection, key.clone())) else { continue };
            for own in decision.stored.iter().map(|won| &statements[*won].statement) {
                let Some(scoped) = &own.scope else { continue };
                let name = snapshot::named(&rules.catalogue.collections[*collection].name, &own.contributor, key);
                followed.edge(snapshot::said(replaces, scoped, name, own.as_of, own.retired));
                let span = spoken.entry((&scoped.scope, own.retired)).or_insert((scoped.at, scoped.at));
                *span = (span.0.min(scoped.at), span.1.max(scoped.at));
            }
        }
        for ((scope, retired), span) in spoken {
            let ask = if retired { snapshot::ask_back } else { snapshot::ask };
            ask(followed, replaces, scope, span, policy.job);
        }
        let failed = self.journal().map_or(0, |journal| journal.counts.of(Outcome::Failed).max(0) as u64);
        if let Some(part) = &mut self.part {
            part.failed = failed;
            let first = self.entries.first().map_or(0, |entry| entry.document);
            part.tell(replaces, (policy.job, self.file), first, followed);
        }
    }

    /// Asks for a pass over records that were settled by what is not so any more.
    fn ask(&mut self, places: &[(usize, Key)]) {
        for (collection, key) in places {
            if let Some(decision) = self.decisions.get_mut(&(*collection, key.clone())) {
                decision.propagation.ask(&self.context.rules, *collection, key, self.context.policy.job);
            }
        }
    }

    /// What other records are told of records that were decided again, with what they were taken for before. Who was settled by one
    /// of them asks for a pass, unless it would find the same.
    fn follow_again(&mut self, again: &BTreeMap<(usize, Key), Option<Arc<[Value]>>>) {
        let (rules, job) = (self.context.rules.clone(), self.context.policy.job);
        for (place, taken_for) in again {
            let Some(decision) = self.decisions.get_mut(place) else { continue };
            let (before, after) = (decision.before.as_deref(), decision.after.as_deref());
            let changed = ValueChange { collection: place.0, key: &place.1, before, after, job, by: ChangeCause::External };
            decision.propagation = Propagation::default();
            decision.propagation.follow(&rules, &self.evaluator, &changed);
            let reads_the_same = rules.reads_the_same(place.0, taken_for.as_deref(), after);
            decision.take_failures(&self.evaluator);
            if !reads_the_same && let Some(settled) = self.settled_by.get(place).cloned() {
                self.ask(&settled);
            }
        }
    }

    /// Decides about records.
    fn decide(&mut self, collection: usize, stored: impl Iterator<Item = (Key, Option<StoredRecord>)>) {
        let definition = &self.context.rules.catalogue.collections[collection];
        let consolidator = Consolidator::new(&self.context.rules.catalogue, definition, &self.evaluator);
        let decider = RecordMerger::new(&self.context.rules, collection, &consolidator, &self.evaluator, self.context.policy);
        for (key, record) in stored {
            let place = (collection, key);
            let Some(statements) = self.records.get(&place) else { continue };
            let mut decision = decider.decide(record.as_ref(), statements);
            decision.failures = self.evaluator.failures();
            // of one that was healed it is not known what it has told others: it tells them anew
            if decision.write.is_some() && decision.repaired.is_none() && self.context.rules.concern(collection) {
                decision.before = record.filter(|record| record.alive).map(|record| record.golden);
            }
            self.decisions.insert(place, decision);
        }
    }

    /// Makes everything ready that the store will ask for, so that the writer has nothing to compute.
    pub fn prepare(&mut self) {
        // what records were has been told
        self.decisions.values_mut().for_each(|decision| decision.before = None);
        self.writes = self.take_writes(|_| true);
        self.journal = Some(self.build_journal());
    }

    /// Names somebody else than the job where changes are logged.
    pub fn called_by(&mut self, caller: &str) {
        caller.clone_into(&mut self.caller);
    }

    /// What the chunk would journal as things stand; for a dry run.
    pub fn preview(&mut self) -> ChunkJournal {
        self.build_journal()
    }

    /// How much it is of a file that takes the place of others, with the failures known so far, and what its statements are about; for a
    /// dry run.
    pub fn part(&self) -> Option<(&FilePart, impl Iterator<Item = (&str, String)>)> {
        let catalogue = &self.context.rules.catalogue;
        let statements = self.records.iter().flat_map(|((collection, key), all)| all.iter().map(move |own| (*collection, key, &own.statement)));
        let named = statements.filter_map(|(collection, key, own)| {
            Some((own.scope.as_ref()?.scope.as_str(), snapshot::named(&catalogue.collections[collection].name, &own.contributor, key)))
        });
        Some((self.part.as_ref()?, named))
    }

    /// The writes as they stand, left in place; for a dry run.
    pub fn planned(&self) -> impl Iterator<Item = (usize, &Key, &MergeResult)> {
        self.decisions.iter().map(|((collection, key), decision)| (*collection, key, decision))
    }

    /// What becomes of its documents, as things stand.
    pub fn counts(&self) -> OutcomeCounts {
        self.journal.as_ref().map(|journal| journal.counts).unwrap_or_default()
    }

    /// Whether no record tells others, is told by others, or has tags.
    pub fn stands_alone(&self) -> bool {
        let rules = &self.context.rules;
        self.records.keys().all(|(collection, _)| !rules.concern(*collection) && rules.catalogue.collections[*collection].tags.is_none())
    }

    /// Records that they are about.
    pub fn records(&self) -> usize {
        self.records.len()
    }

    /// Documents read.
    pub fn documents(&self) -> usize {
        self.entries.len()
    }

    fn take_writes(&mut self, wanted: impl Fn(&(usize, Key)) -> bool) -> Vec<RecordWrite> {
        let mut writes = Vec::with_capacity(self.decisions.len());
        for (place, decision) in &mut self.decisions {
            if !wanted(place) {
                continue;
            }
            let (collection, key) = place;
            if let Some((expect, change)) = decision.write.take() {
                writes.push(RecordWrite { collection: *collection, key: key.clone(), expect, change });
            }
        }
        writes
    }

    fn build_journal(&self) -> ChunkJournal {
        let mut counts = OutcomeCounts { documents: self.entries.len() as i64, ..OutcomeCounts::default() };
        let mut lines: Vec<DocumentOutcome> = Vec::with_capacity(self.entries.len());
        let mut troubles = self.troubles.clone();
        let mut corrections = Vec::new();
        let place = |document: u64| {
            let index = self.entries.partition_point(|entry| entry.document < document);
            self.entries.get(index).map_or((0, 0), |entry| (entry.record, entry.offset))
        };
        // both are in the same order
        let mut records = self.records.iter().peekable();
        for (decided @ (collection, key), decision) in &self.decisions {
            while records.next_if(|(record, _)| *record < decided).is_some() {}
            let Some((_, statements)) = records.next_if(|(record, _)| *record == decided) else { continue };
            for (own, (outcome, reason)) in statements.iter().zip(&decision.outcomes).filter(|(own, _)| !own.statement.embedded) {
                let (record, offset) = place(own.document);
                let outcome = &with_embedded(own, *outcome, statements, decision);
                counts.add(*outcome, 1);
                lines.push(DocumentOutcome { document: own.document, offset, collection: *collection, outcome: *outcome, key: key.shared() });
                if let Some(reason) = reason {
                    let (document, file, key, reason) = (own.document, self.file, Some(key.to_string()), reason.clone());
                    let failed = *outcome == Outcome::Failed;
                    troubles.push(Issue { document, file, record, offset, key, failed, reason });
                }
            }
            // what is so of a record follows from all that was said of it: the last document is told
            if let Some(document) = statements.last().map(|own| own.document) {
                let values = decision.after.as_deref().unwrap_or_default();
                let left_out = if values.is_empty() { Vec::new() } else { left_out(&self.context.rules.catalogue, *collection, values) };
                let reasons = left_out.into_iter().chain(decision.repaired.clone()).chain(decision.failures.iter().cloned());
                let ((record, offset), key) = (place(document), Some(key.to_string()));
                let trouble = |reason| Issue { document, file: self.file, record, offset, key: key.clone(), failed: false, reason };
                troubles.extend(reasons.map(trouble));
            }
            for (document, from, to) in &decision.corrections {
                counts.add(*from, -1);
                counts.add(*to, 1);
                corrections.push(OutcomeCorrection { document: *document, collection: *collection, outcome: *to });
            }
        }
        for (collection, key, reason) in self.tagger.iter().flat_map(TagEvaluator::failures) {
            let own = self.records.get(&(collection, key.clone())).and_then(|statements| statements.last());
            let Some(document) = own.map(|own| own.document) else { continue };
            let (record, offset) = place(document);
            troubles.push(Issue { document, file: self.file, record, offset, key: Some(key.to_string()), failed: false, reason });
        }
        let only = match self.context.rules.catalogue.sources[self.context.source].feeds.as_slice() {
            [feed] => feed.collection,
            _ => NO_COLLECTION,
        };
        for (document, outcome, key) in &self.without_record {
            counts.add(*outcome, 1);
            let (_, offset) = place(*document);
            lines.push(DocumentOutcome {
                document: *document,
                offset,
                collection: only,
                outcome: *outcome,
                key: key.as_ref().map(Key::shared).unwrap_or_default(),
            });
        }
        lines.sort_by_key(|line| (line.document, line.collection));
        troubles.sort_by_key(|trouble| trouble.document);
        counts.warnings = troubles.iter().filter(|trouble| !trouble.failed).count() as i64;
        let first = self.entries.first().map_or(0, |entry| entry.document);
        let kept = self.failed_documents.clone();
        ChunkJournal {
            file: self.file,
            file_start: self.file_start,
            counts,
            first,
            packed_outcomes: pack(&lines),
            troubles,
            failed_documents: kept,
            corrections,
        }
    }
}

/// What became of a document: one that says nothing new, but has documents inside that do, is an update.
fn with_embedded(own: &NumberedContribution, outcome: Outcome, statements: &[NumberedContribution], decision: &MergeResult) -> Outcome {
    let inside = statements.iter().zip(&decision.outcomes).filter(|(other, _)| other.statement.embedded && other.document == own.document);
    let changes = |(_, (outcome, _)): (&NumberedContribution, &(Outcome, Option<String>))| matches!(outcome, Outcome::Created | Outcome::Updated);
    if outcome == Outcome::Unchanged && inside.into_iter().any(changes) { Outcome::Updated } else { outcome }
}

/// How much a chunk is of its file. Statements whose place newer files have taken are found here.
fn part_of(
    (catalogue, replaces): (&Catalogue, &CompleteDelivery),
    records: &mut BTreeMap<(usize, Key), Vec<NumberedContribution>>,
    (slice, retires_all): (&ChunkSlice, bool),
    (store, tenant): (&dyn Store, &Tenant),
) -> Result<FilePart> {
    let documents = u64::from(slice.documents);
    let mut part = FilePart { documents, whole: slice.is_last.then_some(slice.file_documents + documents), retires_all, ..FilePart::default() };
    let scopes = records.values().flatten().filter_map(|own| own.statement.scope.as_deref());
    let ledger = DeliveryLedger::read(store, tenant, replaces, scopes.map(|scoped| scoped.scope.as_str()))?;
    for ((collection, key), own) in records.iter_mut().flat_map(|(place, all)| all.iter_mut().map(move |own| (place, &mut own.statement))) {
        let Some(scoped) = &own.scope else { continue };
        part.add(scoped, &snapshot::named(&catalogue.collections[*collection].name, &own.contributor, key), own.as_of);
        own.retired = ledger.is_dead(&scoped.scope, scoped.at, own.as_of);
    }
    Ok(part)
}

#[derive(Default)]
struct MappedDocuments {
    entries: Vec<PendingDocument>,
    records: BTreeMap<(usize, Key), Vec<NumberedContribution>>,
    outside: Vec<(u64, Outcome, Option<Key>)>,
    troubles: Vec<Issue>,
    kept: Vec<(u64, Vec<u8>)>,
    kept_bytes: usize,
}

impl MappedDocuments {
    /// Keeps a document that failed, if there is room.
    fn keep(&mut self, document: u64, bytes: &[u8]) {
        let own = &bytes[..bytes.len().min(MOST_KEPT)];
        if self.kept_bytes + own.len() <= MOST_KEPT_ALL {
            self.kept_bytes += own.len();
            self.kept.push((document, own.to_vec()));
        }
    }
}

impl Unit for ConsolidatedChunk {
    fn tenant(&self) -> &Tenant {
        &self.context.tenant
    }

    fn fence(&self) -> Option<LeaseToken> {
        self.fence
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        self.journal = None;
        let mut again = BTreeMap::new();
        for conflict in conflicts {
            self.context.met.note(conflict.collection, 0, usize::from(conflict.record.is_some()));
            let place = (conflict.collection, conflict.key.clone());
            let taken_for = self.decisions.get(&place).and_then(|decision| decision.after.clone());
            again.insert(place, taken_for);
            self.decide(conflict.collection, std::iter::once((conflict.key, conflict.record)));
        }
        self.follow_again(&again);
        self.tag_again(again.keys())?;
        Ok(self.take_writes(|place| again.contains_key(place)))
    }

    fn refused(&mut self, refused: UniqueConflict) {
        let UniqueConflict { collection, key, field, holder } = refused;
        self.journal = None;
        let name = &self.context.rules.catalogue.collections[collection].fields[field].name;
        let reason = format!("`{name}` is unique, and record {holder:?} has this value");
        let place = (collection, key);
        let mut taken_for = None;
        if let Some(decision) = self.decisions.get_mut(&place) {
            taken_for = decision.after.take();
            decision.outcomes.iter_mut().for_each(|outcome| *outcome = (Outcome::Failed, Some(reason.clone())));
            decision.corrections.clear();
            decision.repaired = None;
            decision.logged = None;
            decision.stored.clear();
            decision.before = None;
        }
        if let Some(tagger) = &mut self.tagger {
            tagger.forget(collection, &place.1);
        }
        self.follow_again(&BTreeMap::from([(place, taken_for)]));
    }

    fn relies(&self) -> Option<&ReadSet> {
        Some(&self.reliance)
    }

    fn broken(&mut self, records: &[usize], ranges: &[usize]) -> Vec<(usize, Key)> {
        let mut places: Vec<(usize, Key)> = ranges.iter().flat_map(|range| self.search_ranges[*range].clone()).collect();
        for record in records {
            let (collection, key, _) = self.reliance.records[*record].clone();
            places.extend(self.settled_by.get(&(collection, key)).into_iter().flatten().cloned());
        }
        self.ask(&places);
        Vec::new()
    }

    fn settling(&mut self) -> SettlingChanges {
        let mut all = Propagation::default();
        for decision in self.decisions.values().filter(|decision| !decision.propagation.is_empty()) {
            all.extend(&decision.propagation);
        }
        self.follow_scopes(&mut all);
        all.settling()
    }

    fn knows_tags(&self) -> Option<i64> {
        self.tagger.as_ref().map(|tagger| tagger.stamp)
    }

    fn retag(&mut self, tags: Vec<(usize, CollectionTags)>) {
        self.journal = None;
        if let Some(tagger) = &mut self.tagger {
            tagger.retag(&tags);
        }
    }

    fn tagging(&mut self) -> Vec<TagWrites> {
        self.tagger.as_ref().map(TagEvaluator::tagging).unwrap_or_default()
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        let entry = |((collection, key), decision): (&(usize, Key), &MergeResult)| {
            let change = decision.logged.clone()?;
            Some(NewChangeLogEntry { collection: *collection, key: key.clone(), transition: None, caller: self.caller.clone(), change })
        };
        self.decisions.iter().filter_map(entry).collect()
    }

    fn journal(&mut self) -> Option<&ChunkJournal> {
        if self.journal.is_none() {
            self.journal = Some(self.build_journal());
        }
        self.journal.as_ref()
    }

    fn is_made_again(&self) -> bool {
        self.fence.is_some()
    }
}
