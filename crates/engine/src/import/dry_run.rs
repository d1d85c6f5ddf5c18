//! An import that reports what it would do and changes nothing.

use super::expect::refusal;
use super::plan::{ImportPlan, check_expectations, plan};
use super::request::ImportRequest;
use super::split;
use crate::Result;
use crate::chunk::{ChunkInput, ChunkUnit};
use crate::content::unique::reserved;
use crate::job::context::JobContext;
use crate::job::policy::policy;
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::relations::SettleRules;
use crate::settle::complete_delivery::{self, RetirementReport};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::record::{pack, unpack};
use stook_catalogue::value::Value;
use stook_store::damage::ForRecord;
use stook_store::journal::{Issue, OutcomeCounts};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{ChunkSlice, JobFile, JobRef, SplitProgress};
use stook_store::{ReadDetail, RecordChange, RefusalReason, RefusedWrite, Store, StoredRecord, Unit, Version};

/// The result of a dry run.
#[derive(Debug, Default)]
pub struct DryRunReport {
    /// The number of documents by the outcome that they would have.
    pub counts: OutcomeCounts,
    /// The first failures and warnings, with the file of each.
    pub troubles: Vec<Issue>,
    /// The source that would read the files.
    pub source: String,
    /// The files.
    pub files: Vec<JobFile>,
    /// The number of documents in each, as far as they were read.
    pub documents: Vec<u64>,
    /// What they would retire, if the source says `replaces:`.
    pub replaced: Option<RetirementReport>,
    /// Why nothing of it would be imported, because it is not as its source expects.
    pub refusal: Option<String>,
}

impl DryRunReport {
    /// The JSON form.
    pub fn to_json(&self) -> Json {
        let trouble = |trouble: &Issue| {
            json!({
                "file": self.files.get(trouble.file).map(|file| &file.path),
                "record": trouble.record,
                "offset": trouble.offset,
                "key": trouble.key,
                "failed": trouble.failed,
                "reason": trouble.reason,
            })
        };
        let file = |(file, documents): (&JobFile, &u64)| {
            let mut shown = json!({ "file": file.path, "documents": documents });
            if let Some(checks) = &file.checks {
                shown["expectations"] = json!(checks.expectations);
            }
            shown
        };
        let files: Vec<Json> = self.files.iter().zip(&self.documents).map(file).collect();
        let troubles: Vec<Json> = self.troubles.iter().map(trouble).collect();
        let mut shown = json!({ "dry_run": true, "source": self.source, "files": files, "counts": self.counts, "troubles": troubles });
        if let Some(replaced) = &self.replaced {
            shown["replaced"] = json!(replaced);
        }
        if let Some(refusal) = &self.refusal {
            shown["refusal"] = json!(refusal);
        }
        shown
    }
}

/// How far a dry run goes.
#[derive(Debug, Clone, Copy)]
pub struct DryRunLimits {
    /// The number of documents after which no further chunk is read.
    pub documents: u64,
    /// The maximum number of issues that are kept.
    pub troubles: usize,
}

/// Does everything but write: maps and consolidates every document, and remembers what the job would have written.
///
/// # Errors
/// As [`super::create`] and [`super::run()`].
pub fn dry_run(catalogue: &Arc<Catalogue>, store: &dyn Store, request: &ImportRequest, most: DryRunLimits) -> Result<DryRunReport> {
    let mut plan = plan(catalogue, request)?;
    check_expectations(catalogue, store, request, &mut plan)?;
    let ImportPlan { source, profile, files } = plan;
    // no `created_job` and no origin in the store ever equals it
    let job = JobRef::DryRun.number();
    // an import that starts now is received after everything that is stored
    let accepted = store.clock();
    let received = request.as_of.or_else(|| files.first().map(|file| file.modified)).unwrap_or(accepted);
    let policy = policy(catalogue, profile.as_deref(), job)?;
    let context = JobContext {
        rules: Arc::new(SettleRules::new(catalogue)),
        tenant: request.tenant.clone(),
        source,
        policy,
        received,
        accepted,
        match_ratio: Arc::default(),
    };
    let replaced = catalogue.sources[source]
        .replaces
        .as_ref()
        .filter(|replaces| replaces.files.is_some())
        .map(|replaces| complete_delivery::RetirementDryRun::new(catalogue, store, &request.tenant, replaces));
    let mut trial = DryRun { context, store, files: &files, written: HashMap::new(), taken: HashMap::new(), replaced };
    let mut preview = DryRunReport {
        source: catalogue.sources[source].name.clone(),
        documents: vec![0; files.len()],
        refusal: refusal(&files),
        files: files.clone(),
        ..DryRunReport::default()
    };
    split::split(&files, &catalogue.sources[source], CHUNK_DOCUMENTS, SplitProgress::default(), |chunks, _| {
        for chunk in chunks {
            if preview.counts.documents < most.documents as i64 {
                trial.chunk(&chunk.slice, &mut preview, most.troubles)?;
                preview.documents[chunk.slice.file] += u64::from(chunk.slice.documents);
            }
        }
        Ok(preview.counts.documents < most.documents as i64)
    })?;
    preview.replaced = trial.replaced.map(complete_delivery::RetirementDryRun::end).transpose()?;
    Ok(preview)
}

/// A dry run and what it would have written.
struct DryRun<'t> {
    context: JobContext,
    store: &'t dyn Store,
    files: &'t [JobFile],
    /// Records as the job would have left them: `None` for deleted ones.
    written: HashMap<(CollectionId, Key), Option<StoredRecord>>,
    /// The record that took a value of a unique field last, by collection, field and value.
    taken: HashMap<(CollectionId, FieldId, Vec<u8>), Key>,
    /// What files would retire, if the source says `replaces:`.
    replaced: Option<complete_delivery::RetirementDryRun<'t>>,
}

impl DryRun<'_> {
    fn chunk(&mut self, slice: &ChunkSlice, preview: &mut DryRunReport, most_troubles: usize) -> Result<()> {
        let file = &self.files[slice.file];
        let mut mapped = ChunkUnit::map(&self.context, self.store, &ChunkInput { slice, file, bytes: None }, None)?;
        let read = RefCell::new(HashMap::new());
        mapped.consolidate_with(None, |tenant, collection, keys| {
            let mut found = self.store.read_damaged(tenant, collection, keys, ReadDetail::Full)?;
            for (key, record) in keys.iter().zip(&mut found) {
                let record_id = (collection, key.clone());
                if let Some(own) = self.written.get(&record_id) {
                    *record = own.clone();
                }
                read.borrow_mut().extend(record.clone().map(|record| (record_id, record)));
            }
            Ok(found)
        })?;
        let mut read = read.into_inner();
        let (mut refused, mut erased) = (Vec::new(), HashSet::new());
        let written: Vec<&(CollectionId, Key)> = mapped.merged().map(|(record_id, _)| record_id).collect();
        for of_collection in written.chunk_by(|a, b| a.0 == b.0) {
            let keys: Vec<Key> = of_collection.iter().map(|(_, key)| key.clone()).collect();
            let found = self.store.erased(&self.context.tenant, of_collection[0].0, &keys)?;
            erased.extend(found.into_iter().map(|position| of_collection[position].clone()));
        }
        for (record_id, decision) in mapped.merged() {
            let Some((version, change)) = &decision.write else { continue };
            let (collection, key) = record_id;
            if erased.contains(record_id) {
                refused.push(RefusedWrite { collection: *collection, key: key.clone(), reason: RefusalReason::Erased });
                continue;
            }
            match self.reserve(*collection, key, change)? {
                Some((field, holder)) => {
                    let reason = RefusalReason::Taken { field, holder: holder.as_str().into() };
                    refused.push(RefusedWrite { collection: *collection, key: key.clone(), reason });
                }
                None => {
                    let before = read.remove(record_id);
                    let after = self.changed(record_id, before, *version, change)?;
                    self.written.insert(record_id.clone(), after);
                }
            }
        }
        refused.into_iter().for_each(|refused| mapped.refused(refused));
        let journal = mapped.preview();
        if let (Some(replaced), Some((share, names))) = (&mut self.replaced, mapped.share()) {
            let failed = journal.troubles.iter().filter(|trouble| trouble.failed).map(|trouble| trouble.record.to_string());
            replaced.chunk(&file.path, share, names, failed.collect())?;
        }
        preview.counts.include(&journal.counts);
        let remaining = most_troubles.saturating_sub(preview.troubles.len());
        preview.troubles.extend(journal.troubles.into_iter().take(remaining));
        Ok(())
    }

    /// A record after a change, without its kept documents, which a dry run does not read.
    fn changed(
        &self,
        (collection, key): &(CollectionId, Key),
        before: Option<StoredRecord>,
        version: Option<Version>,
        change: &RecordChange,
    ) -> Result<Option<StoredRecord>> {
        let after = match change {
            RecordChange::Delete => None,
            // imports write no state and settle nothing
            RecordChange::State { .. } | RecordChange::Settle(_) => before,
            RecordChange::Touch { contributions } => before.map(|before| StoredRecord { contributions: contributions.clone(), ..before }),
            RecordChange::Put(content) => Some(StoredRecord {
                key: key.clone(),
                version: version.unwrap_or_default(),
                created_job: content.created_job,
                exists: content.exists,
                contributions: content.contributions.clone(),
                state_set: content.state_set.clone(),
                golden: content.golden.to_vec(),
                state: Vec::new(),
                conflicts: Vec::new(),
                raw: content.raw.as_deref().map(<[u8]>::to_vec),
                damage: Vec::new(),
            }),
        };
        let Some(mut record) = after else { return Ok(None) };
        if let Some(raw) = record.raw.take() {
            let definition = &self.context.rules.catalogue.collections[*collection];
            let mut contributions = unpack(&record.contributions, definition, &record.golden, Some(&raw)).for_record(&definition.name, key)?;
            contributions.iter_mut().for_each(|own| own.raw = None);
            record.contributions = pack(&contributions, definition, &record.golden);
        }
        Ok(Some(record))
    }

    /// Takes the values of unique fields for a record as a store does, or returns the field of which another record has the value.
    fn reserve(&mut self, collection: CollectionId, key: &Key, change: &RecordChange) -> Result<Option<(FieldId, Key)>> {
        let RecordChange::Put(content) = change else { return Ok(None) };
        let definition = &self.context.rules.catalogue.collections[collection];
        let unique = definition.fields.enumerate().filter(|(index, field)| field.unique && content.exists && !content.golden[*index].is_null());
        let mut wanted = Vec::new();
        for (index, field) in unique {
            let value = &content.golden[index];
            let unique_value = (collection, index, reserved(field, value));
            let holder = match self.taken.get(&unique_value) {
                Some(holder) if self.still_holds(holder, &unique_value) => Some(holder.clone()),
                _ => self.stored_holder(collection, index, value)?.filter(|holder| self.still_holds(holder, &unique_value)),
            };
            match holder {
                Some(holder) if holder != *key => return Ok(Some((index, holder))),
                _ => wanted.push(unique_value),
            }
        }
        self.taken.extend(wanted.into_iter().map(|unique_value| (unique_value, key.clone())));
        Ok(None)
    }

    /// Whether a record that had a value in the store has not given it up in this run.
    fn still_holds(&self, holder: &Key, (collection, field, value): &(CollectionId, FieldId, Vec<u8>)) -> bool {
        let definition = &self.context.rules.catalogue.collections[*collection].fields[*field];
        match self.written.get(&(*collection, holder.clone())) {
            None => true,
            Some(None) => false,
            Some(Some(record)) => record.exists && record.golden.get(field.index()).is_some_and(|own| reserved(definition, own) == *value),
        }
    }

    fn stored_holder(&self, collection: CollectionId, field: FieldId, value: &Value) -> Result<Option<Key>> {
        let condition = Condition { column: PlanColumn::Field(field), test: Comparison::Equal(value.clone()) };
        let plan = QueryPlan { conditions: vec![condition], limit: Some(1), ..QueryPlan::all(self.context.tenant.clone(), collection) };
        let found = self.store.find(&plan)?;
        Ok(found.rows.first().and_then(|row| row.first()?.as_text()).and_then(|key| Key::new(key).ok()))
    }
}
