//! Import jobs: made of a request, cut into chunks, and run to their end by workers of their own or left to others.

use crate::chunk::commit::{ChunkInput, ConsolidatedChunk, JobContext};
use crate::chunk::consolidate::ImportPolicy;
use crate::settle::snapshot::{self, RetirementReport};
use crate::settle::{self, SettleRules};
use crate::split::{CHUNK_DOCUMENTS, SHARED_CHUNK, SHORT_CHUNK};
use crate::tags;
use crate::work::{LEASE_SECONDS, TaskReport, WorkerEvent, WorkerOptions, WorkerPool};
use crate::{EngineError, Result, split};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use stook_catalogue::definition::{Catalogue, Field, FormatFamily, OnMatched, OnUnmatched};
use stook_catalogue::fold::fold;
use stook_catalogue::key::Key;
use stook_catalogue::record::{pack, put_value, unpack};
use stook_catalogue::value::Value;
use stook_formats::read::OpenedInput;
use stook_store::damage::ForRecord;
use stook_store::journal::{Issue, OutcomeCounts};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::queue::{ChunkSlice, Job, JobFile, JobId, JobRef, JobState, NewJob, SplitProgress};
use stook_store::{ReadDetail, RecordChange, SettlePass, Store, StoredRecord, Tenant, UniqueConflict, Unit, Version};

/// What to import, and how.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Files, in their order.
    pub files: Vec<PathBuf>,
    /// A profile of the definition.
    pub profile: Option<String>,
    /// A source of the definition.
    pub source: Option<String>,
    /// Whose records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: the modification time of each job's first file.
    pub as_of: Option<i64>,
    /// What the documents tell of a list, if not all: the part of their contributor's name.
    pub part: Option<String>,
    /// Whether the files retire what they lack, however much that is: for sources whose files take the place of others.
    pub retires_all: bool,
}

/// Something to show while an import runs.
#[derive(Debug, Clone, Copy)]
pub struct ImportProgress {
    /// Bytes cut so far, of all files.
    pub bytes: u64,
    /// Bytes of all files.
    pub all_bytes: u64,
    /// Documents committed.
    pub documents: u64,
    /// Documents of chunks that have been cut.
    pub split: u64,
    /// Whether all files have been cut.
    pub complete: bool,
}

/// What an import tells while it runs.
#[derive(Debug)]
pub enum ImportEvent {
    /// How far it is.
    Progress(ImportProgress),
    /// What a pass has settled.
    Settled(TaskReport),
}

impl ImportProgress {
    fn of(files: &[JobFile], cut: SplitProgress, documents: u64) -> Self {
        let all_bytes = files.iter().map(|file| file.size).sum();
        let before: u64 = files.iter().take(cut.file).map(|file| file.size).sum();
        Self { bytes: (before + cut.offset).min(all_bytes), all_bytes, documents, split: cut.documents, complete: cut.complete }
    }
}

/// What stands before the name of a file that was uploaded.
pub const UPLOADED: &str = "upload:";

/// What a dry run found.
#[derive(Debug, Default)]
pub struct DryRunReport {
    /// What the job would do.
    pub counts: OutcomeCounts,
    /// The first failures and warnings, with the file of each.
    pub troubles: Vec<Issue>,
    /// The files.
    pub files: Vec<JobFile>,
    /// What they would retire, where files of the source take the place of others.
    pub replaced: Option<RetirementReport>,
}

impl DryRunReport {
    /// As it is shown to programs.
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
        let mut shown = json!({ "dry_run": true, "counts": self.counts, "troubles": self.troubles.iter().map(trouble).collect::<Vec<_>>() });
        if let Some(replaced) = &self.replaced {
            shown["replaced"] = json!(replaced);
        }
        shown
    }
}

/// How much of a dry run is wanted.
#[derive(Debug, Clone, Copy)]
pub struct DryRunLimits {
    /// No more chunks are looked at behind so many documents.
    pub documents: u64,
    /// Most troubles that are kept.
    pub troubles: usize,
}

/// Chooses source and profile and looks at the files.
fn plan(catalogue: &Catalogue, request: &ImportRequest) -> Result<(usize, Option<String>, Vec<JobFile>)> {
    let source = match named_source(catalogue, request.source.as_deref(), request.profile.as_deref())? {
        Some(source) => source,
        None => {
            let Some(first) = request.files.first() else { return Err(EngineError::Wrong("no file was given".into())) };
            let name = first.display().to_string();
            let opened = stook_formats::read::open(first).map_err(|error| EngineError::File { path: name.clone(), error })?;
            guess_source(catalogue, &opened, &name)?
        }
    };
    if request.retires_all && catalogue.sources[source].replaces.is_none() {
        let name = &catalogue.sources[source].name;
        return Err(EngineError::Wrong(format!("source `{name}` has no complete deliveries (`replaces`), so nothing can be retired")));
    }
    let (part, retires_all) = (&request.part, request.retires_all);
    let inspect = |path: &PathBuf| Ok(JobFile { part: part.clone(), retires_all, ..split::inspect(path, &catalogue.sources[source])? });
    let files: Vec<JobFile> = request.files.iter().map(inspect).collect::<Result<_>>()?;
    Ok((source, request.profile.clone(), files))
}

/// The source that is named, or that a profile is for.
pub(crate) fn named_source(catalogue: &Catalogue, source: Option<&str>, profile: Option<&str>) -> Result<Option<usize>> {
    let names = |names: Vec<&str>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let profile = match profile {
        None => None,
        Some(name) => Some(catalogue.profile(name).ok_or_else(|| {
            let known = names(catalogue.profiles.iter().map(|profile| profile.name.as_str()).collect());
            EngineError::Wrong(format!("no profile `{name}`; profiles are {known}"))
        })?),
    };
    match (source, profile) {
        (Some(name), _) => {
            let (index, _) = catalogue.source(name).ok_or_else(|| {
                let known = names(catalogue.sources.iter().map(|source| source.name.as_str()).collect());
                EngineError::Wrong(format!("there is no source `{name}`; the definition has {known}"))
            })?;
            match profile.filter(|profile| profile.source != index) {
                Some(profile) => Err(EngineError::Wrong(format!("profile `{}` is not for source `{name}`", profile.name))),
                None => Ok(Some(index)),
            }
        }
        (None, Some(profile)) => Ok(Some(profile.source)),
        (None, None) => Ok(None),
    }
}

/// The only source that reads what was found.
pub(crate) fn guess_source(catalogue: &Catalogue, opened: &OpenedInput, name: &str) -> Result<usize> {
    let syntax = opened.syntax;
    let fits = |family: FormatFamily| syntax.is_none_or(|syntax| syntax.as_family(family).is_some());
    let exact = |family: FormatFamily| syntax.is_some_and(|syntax| syntax.family() == family);
    let candidates: Vec<usize> = (0..catalogue.sources.len()).filter(|index| fits(catalogue.sources[*index].family)).collect();
    let best: Vec<usize> = candidates.iter().copied().filter(|index| exact(catalogue.sources[*index].family)).collect();
    let found = syntax.map_or("nothing", |syntax| syntax.name());
    match (best.as_slice(), candidates.as_slice()) {
        ([only], _) | ([], [only]) => Ok(*only),
        ([], []) => Err(split::strange(opened, name, &format!("contains {found}, which no source of this catalogue reads"))),
        _ => {
            let names: Vec<&str> = candidates.iter().map(|index| catalogue.sources[*index].name.as_str()).collect();
            Err(EngineError::Wrong(format!("{name} contains {found}; choose the source: {}", names.join(", "))))
        }
    }
}

pub(crate) fn policy(catalogue: &Catalogue, profile: Option<&str>, job: JobId) -> Result<ImportPolicy> {
    match profile {
        None => Ok(ImportPolicy { job, matched: OnMatched::Update, unmatched: OnUnmatched::Create }),
        Some(name) => {
            let profile = catalogue.profile(name).ok_or_else(|| EngineError::Wrong(format!("there is no profile `{name}` any more")))?;
            Ok(ImportPolicy { job, matched: profile.matched, unmatched: profile.unmatched })
        }
    }
}

pub(crate) fn context(rules: &Arc<SettleRules>, job: &Job) -> Result<JobContext> {
    let catalogue = &rules.catalogue;
    let (source, _) = catalogue.source(&job.source).ok_or_else(|| no_source(&job.source))?;
    let received = job.as_of.or_else(|| job.files.first().map(|file| file.modified)).unwrap_or(job.created);
    Ok(JobContext {
        rules: rules.clone(),
        tenant: Tenant::new(&job.tenant)?,
        source,
        policy: policy(catalogue, job.profile.as_deref(), job.id)?,
        received,
        met: Arc::default(),
    })
}

/// Writes a job for the files; [`run`] does it.
///
/// # Errors
/// When the request does not fit the definition, or a file cannot be read.
pub fn create(catalogue: &Catalogue, store: &dyn Store, request: &ImportRequest) -> Result<JobId> {
    let (source, profile, files) = plan(catalogue, request)?;
    policy(catalogue, profile.as_deref(), 0)?;
    let source = catalogue.sources[source].name.clone();
    Ok(store.create_job(NewJob { tenant: request.tenant.clone(), profile, source, as_of: request.as_of, files })?)
}

/// Bytes to be imported that come in once.
#[derive(Debug, Clone)]
pub struct UploadRequest {
    /// What they are called.
    pub name: String,
    /// Their number, if it is known.
    pub size: Option<u64>,
    /// A profile of the definition.
    pub profile: Option<String>,
    /// A source of the definition.
    pub source: Option<String>,
    /// Whose records.
    pub tenant: Tenant,
    /// The time of the delivery, in microseconds; default: now.
    pub as_of: Option<i64>,
    /// As in [`ImportRequest`].
    pub retires_all: bool,
}

/// Documents of a chunk that waits for whoever works.
fn queued_chunk(store: &dyn Store) -> u32 {
    if store.is_near() { SHORT_CHUNK } else { SHARED_CHUNK }
}

/// Writes a job for bytes as they come in and cuts them into chunks, which workers may begin with at once. `created` is told
/// the job's number. When the bytes end in an error, the job has failed; what was committed stays.
///
/// # Errors
/// When the upload does not fit the definition, the bytes cannot be read, or the store fails.
pub fn upload(
    catalogue: &Catalogue,
    store: &dyn Store,
    upload: &UploadRequest,
    bytes: Box<dyn Read + Send>,
    created: &mut dyn FnMut(JobId),
) -> Result<Job> {
    let failed = |error| EngineError::File { path: upload.name.clone(), error };
    let named = named_source(catalogue, upload.source.as_deref(), upload.profile.as_deref())?;
    let opened = stook_formats::read::open_bytes(bytes).map_err(failed)?;
    let source = match named {
        Some(source) => source,
        None => guess_source(catalogue, &opened, &upload.name)?,
    };
    let source = &catalogue.sources[source];
    let syntax = split::fitting(&opened, source, &upload.name)?;
    // whether they were compressed or not: the chunks carry the bytes, there is no file to read them from
    let file = JobFile {
        path: upload.name.clone(),
        size: upload.size.unwrap_or(0),
        modified: store.clock(),
        syntax: syntax.map(|syntax| syntax.name().to_owned()),
        compressed: true,
        part: None,
        retires_all: upload.retires_all,
    };
    let job = store.create_job(NewJob {
        tenant: upload.tenant.clone(),
        profile: upload.profile.clone(),
        source: source.name.clone(),
        as_of: upload.as_of,
        files: vec![file.clone()],
    })?;
    created(job);
    let cut = split::split_stream(opened, &file, source, queued_chunk(store), |chunks, progress| {
        store.add_chunks(job, chunks, progress)?;
        Ok(!store.job_state(job)?.is_final())
    });
    if let Err(error) = &cut {
        store.end_job(job, JobState::Failed, &error.to_string())?;
    }
    cut?;
    store.sync()?;
    Ok(store.job(job)?)
}

/// Cuts a job's files into chunks, from where that was interrupted, calling `show` after each batch, and leaves them to
/// workers.
///
/// # Errors
/// When a file cannot be read or the store fails; the job can be resumed.
pub fn cut(catalogue: &Catalogue, store: &dyn Store, job: JobId, stop: &AtomicBool, show: &(dyn Fn(ImportProgress) + Sync)) -> Result<Job> {
    let start = store.job(job)?;
    if !start.progress.complete {
        let (_, source) = catalogue.source(&start.source).ok_or_else(|| no_source(&start.source))?;
        let cut = split::split(&start.files, source, queued_chunk(store), start.progress, |chunks, progress| {
            store.add_chunks(job, chunks, progress)?;
            show(ImportProgress::of(&start.files, progress, 0));
            Ok(!stop.load(Ordering::SeqCst))
        });
        match &cut {
            Ok(()) if store.job(job)?.progress.complete => {}
            Ok(()) => store.interrupt_job(job)?,
            Err(error @ EngineError::NoDocument { .. }) => store.end_job(job, JobState::Failed, &error.to_string())?,
            // the reason counts more than whether this can be noted
            Err(_) => drop(store.interrupt_job(job)),
        }
        cut?;
    }
    store.sync()?;
    Ok(store.job(job)?)
}

/// Runs a job to its end, or until `stop` says otherwise, with `workers` threads, calling `show` now and then. A job that was
/// interrupted goes on where it was: cutting behind the last chunk, and with the chunks that are left. With `settles` it waits
/// until what follows from the documents is settled; else somebody else does that.
///
/// # Errors
/// When a file cannot be read or the store fails as a whole; the job can be resumed.
pub fn run(
    catalogue: &Arc<Catalogue>,
    store: &dyn Store,
    job: JobId,
    (workers, settles): (usize, bool),
    stop: &AtomicBool,
    show: &(dyn Fn(ImportEvent) + Sync),
) -> Result<Job> {
    let start = store.job(job)?;
    if start.state.is_final() && start.state != JobState::Failed {
        if settles && !store.is_settled(job)? {
            let rules: Arc<dyn SettlePass> = Arc::new(SettleRules::new(catalogue));
            settle::drain(store, &rules, stop)?;
        }
        return Ok(start);
    }
    if tags::is_rebuild(&start.source).is_some() {
        return tags::run(catalogue, store, job, workers, stop, &|records| {
            show(ImportEvent::Progress(ImportProgress::of(&start.files, start.progress, records)))
        });
    }
    let (_, source) = catalogue.source(&start.source).ok_or_else(|| no_source(&start.source))?;
    store.take_over(job)?;
    let progress = Mutex::new(start.progress);
    let now = || progress.lock().map(|progress| *progress).unwrap_or_default();
    let before = start.counts.documents.max(0) as u64;
    let tell = |event| match event {
        WorkerEvent::Committed(documents) => show(ImportEvent::Progress(ImportProgress::of(&start.files, now(), before + documents))),
        // what fails in chunks is in the journal
        WorkerEvent::TaskDone(stage) if stage.job.is_none() => show(ImportEvent::Settled(stage)),
        WorkerEvent::TaskDone(_) | WorkerEvent::Ended(_) | WorkerEvent::StoreUnavailable(_) => {}
    };
    let options = WorkerOptions { workers, lease_seconds: LEASE_SECONDS, drain: false, settles };
    let crew = WorkerPool::new(catalogue, store, Some(job), &options, stop, &tell);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if !start.progress.complete {
            let (crew, progress, start, ended) = (&crew, &progress, &start, &ended);
            scope.spawn(move || {
                let cut = split::split(&start.files, source, CHUNK_DOCUMENTS, start.progress, |chunks, cut| {
                    store.add_chunks(job, chunks, cut)?;
                    if let Ok(mut progress) = progress.lock() {
                        *progress = cut;
                    }
                    Ok(!crew.is_stopping())
                });
                crew.guard(end_without_documents(store, job, cut).map(|has_ended| ended.store(has_ended, Ordering::SeqCst)));
            });
        }
        crew.work(|| {
            let was_cut = now().complete;
            if ended.load(Ordering::SeqCst) {
                return Ok(true);
            }
            let job = store.job(job)?;
            Ok(was_cut && (job.chunks_left == 0 || job.state.is_final()))
        })
    })?;
    store.sync()?;
    Ok(store.job(job)?)
}

/// A file without a document ends its job, which would find no other: true then.
fn end_without_documents(store: &dyn Store, job: JobId, cut: Result<()>) -> Result<bool> {
    match cut {
        Ok(()) => Ok(false),
        Err(error @ EngineError::NoDocument { .. }) => {
            store.end_job(job, JobState::Failed, &error.to_string())?;
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

fn no_source(name: &str) -> EngineError {
    EngineError::Wrong(format!("there is no source `{name}` any more"))
}

/// Does everything but write: maps and consolidates every document, and remembers what the job itself would have written.
///
/// # Errors
/// As [`create`] and [`run`].
pub fn dry_run(catalogue: &Arc<Catalogue>, store: &dyn Store, request: &ImportRequest, most: DryRunLimits) -> Result<DryRunReport> {
    let (source, profile, files) = plan(catalogue, request)?;
    // `created_job` and origins of what the store holds never equal it
    let job = JobRef::DryRun.number();
    let received = request.as_of.or_else(|| files.first().map(|file| file.modified)).unwrap_or_else(|| store.clock());
    let policy = policy(catalogue, profile.as_deref(), job)?;
    let context =
        JobContext { rules: Arc::new(SettleRules::new(catalogue)), tenant: request.tenant.clone(), source, policy, received, met: Arc::default() };
    let replaced = catalogue.sources[source].replaces.as_ref().map(|replaces| snapshot::RetirementDryRun::new(store, &request.tenant, replaces));
    let mut trial = DryRun { context, store, files: &files, written: HashMap::new(), taken: HashMap::new(), replaced };
    let mut preview = DryRunReport { files: files.clone(), ..DryRunReport::default() };
    split::split(&files, &catalogue.sources[source], CHUNK_DOCUMENTS, SplitProgress::default(), |chunks, _| {
        for chunk in chunks {
            if preview.counts.documents < most.documents as i64 {
                trial.chunk(&chunk.slice, &mut preview, most.troubles)?;
            }
        }
        Ok(preview.counts.documents < most.documents as i64)
    })?;
    preview.replaced = trial.replaced.map(snapshot::RetirementDryRun::end).transpose()?;
    Ok(preview)
}

/// A dry run, and what it would have written.
struct DryRun<'t> {
    context: JobContext,
    store: &'t dyn Store,
    files: &'t [JobFile],
    /// Records as the job would have left them: `None` for deleted ones.
    written: HashMap<(usize, Key), Option<StoredRecord>>,
    /// Who took a value of a unique field last, by collection, field and value.
    taken: HashMap<(usize, usize, Vec<u8>), Key>,
    /// What files would retire that take the place of others.
    replaced: Option<snapshot::RetirementDryRun<'t>>,
}

impl DryRun<'_> {
    fn chunk(&mut self, slice: &ChunkSlice, preview: &mut DryRunReport, most_troubles: usize) -> Result<()> {
        let file = &self.files[slice.file];
        let mut mapped = ConsolidatedChunk::map(&self.context, self.store, &ChunkInput { slice, file, bytes: None }, None)?;
        let read = RefCell::new(HashMap::new());
        mapped.consolidate_with(None, |tenant, collection, keys| {
            let mut found = self.store.read_damaged(tenant, collection, keys, ReadDetail::Full)?;
            for (key, record) in keys.iter().zip(&mut found) {
                let place = (collection, key.clone());
                if let Some(own) = self.written.get(&place) {
                    *record = own.clone();
                }
                read.borrow_mut().extend(record.clone().map(|record| (place, record)));
            }
            Ok(found)
        })?;
        let mut read = read.into_inner();
        let mut refused = Vec::new();
        for (collection, key, decision) in mapped.planned() {
            let Some((version, change)) = &decision.write else { continue };
            match self.reserve(collection, key, change)? {
                Some((field, holder)) => refused.push(UniqueConflict { collection, key: key.clone(), field, holder: holder.as_str().into() }),
                None => {
                    let place = (collection, key.clone());
                    let before = read.remove(&place);
                    let after = self.changed(&place, before, *version, change)?;
                    self.written.insert(place, after);
                }
            }
        }
        refused.into_iter().for_each(|refused| mapped.refused(refused));
        let journal = mapped.preview();
        if let (Some(replaced), Some((part, said))) = (&mut self.replaced, mapped.part()) {
            let failed = journal.troubles.iter().filter(|trouble| trouble.failed).map(|trouble| trouble.record.to_string());
            replaced.chunk(&file.path, part, said, failed.collect())?;
        }
        preview.counts.include(&journal.counts);
        let room = most_troubles.saturating_sub(preview.troubles.len());
        preview.troubles.extend(journal.troubles.into_iter().take(room));
        Ok(())
    }

    /// What a record would be after a change, without the documents it keeps: nothing of a dry run reads them.
    fn changed(
        &self,
        (collection, key): &(usize, Key),
        before: Option<StoredRecord>,
        version: Option<Version>,
        change: &RecordChange,
    ) -> Result<Option<StoredRecord>> {
        let after = match change {
            RecordChange::Delete => None,
            // imports write no state, and settle nothing
            RecordChange::State { .. } | RecordChange::Settle(_) => before,
            RecordChange::Touch { contributions } => before.map(|before| StoredRecord { contributions: contributions.clone(), ..before }),
            RecordChange::Put(content) => Some(StoredRecord {
                key: key.clone(),
                version: version.unwrap_or_default(),
                created_job: content.created_job,
                alive: content.exists,
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

    /// Takes the values of unique fields for a record as a store does, or says which field another record holds.
    fn reserve(&mut self, collection: usize, key: &Key, change: &RecordChange) -> Result<Option<(usize, Key)>> {
        let RecordChange::Put(content) = change else { return Ok(None) };
        let definition = &self.context.rules.catalogue.collections[collection];
        let unique =
            definition.fields.iter().enumerate().filter(|(index, field)| field.unique && content.exists && !content.golden[*index].is_null());
        let mut wanted = Vec::new();
        for (index, field) in unique {
            let value = &content.golden[index];
            let place = (collection, index, reserved(field, value));
            let holder = match self.taken.get(&place) {
                Some(holder) if self.still_holds(holder, &place) => Some(holder.clone()),
                _ => self.stored_holder(collection, index, value)?.filter(|holder| self.still_holds(holder, &place)),
            };
            match holder {
                Some(holder) if holder != *key => return Ok(Some((index, holder))),
                _ => wanted.push(place),
            }
        }
        self.taken.extend(wanted.into_iter().map(|place| (place, key.clone())));
        Ok(None)
    }

    /// Whether a record that had a value has not given it up in this run.
    fn still_holds(&self, holder: &Key, (collection, field, value): &(usize, usize, Vec<u8>)) -> bool {
        let definition = &self.context.rules.catalogue.collections[*collection].fields[*field];
        match self.written.get(&(*collection, holder.clone())) {
            None => true,
            Some(None) => false,
            Some(Some(record)) => record.alive && record.golden.get(*field).is_some_and(|own| reserved(definition, own) == *value),
        }
    }

    fn stored_holder(&self, collection: usize, field: usize, value: &Value) -> Result<Option<Key>> {
        let condition = Condition { column: PlanColumn::Field(field), test: Comparison::Equal(value.clone()) };
        let plan = QueryPlan { conditions: vec![condition], limit: Some(1), ..QueryPlan::all(self.context.tenant.clone(), collection) };
        let found = self.store.find(&plan)?;
        Ok(found.rows.first().and_then(|row| row.first()?.as_text()).and_then(|key| Key::new(key).ok()))
    }
}

/// A value of a unique field as it is compared.
fn reserved(field: &Field, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        Value::Text(text) if field.fold => put_value(&mut bytes, &Value::text(fold(text))),
        other => put_value(&mut bytes, other),
    }
    bytes
}
