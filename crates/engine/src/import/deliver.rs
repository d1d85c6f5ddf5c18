//! Documents that are written while the caller waits: one unit of work, durable when the response is sent. There is no job and no journal; the
//! response has the outcome of each document. Everything else is the same as in an import.

use super::request::UploadRequest;
use crate::chunk::{ChunkInput, ChunkUnit};
use crate::job::file::{check_list, fitting};
use crate::job::policy::policy;
use crate::job::sizes::CHUNK_DOCUMENTS;
use crate::job::source::{guess_source, named_source};
use crate::job::{JobContext, NO_JOB};
use crate::relations::SettleRules;
use crate::{EngineError, Result};
use bytes::Bytes;
use std::io::Read;
use std::sync::Arc;
use stook_formats::read::{DocumentReader, open_bytes};
use stook_store::journal::{DocumentOutcome, Issue, OutcomeCounts, unpack};
use stook_store::queue::{ChunkSlice, JobFile};
use stook_store::{PendingCommit, Priority, Store, StoreError};

/// The maximum number of documents in one delivery of this kind; more must be imported as a file.
pub const MAX_DOCUMENTS: u32 = CHUNK_DOCUMENTS;
/// The maximum number of records that are written without being read before, if a read costs a round trip.
const MAX_UNREAD_RECORDS: usize = 16;
/// The maximum number of bytes, uncompressed.
const MAX_BYTES: u64 = 16 << 20;

/// What became of the documents.
#[derive(Debug, Default)]
pub struct DeliverResult {
    /// The number of documents by outcome.
    pub counts: OutcomeCounts,
    /// The outcome of each document in each collection that it reached.
    pub lines: Vec<DocumentOutcome>,
    /// Failures and warnings.
    pub troubles: Vec<Issue>,
}

/// Documents that have been mapped.
pub struct MappedDelivery(ChunkUnit);

/// Documents that have been submitted.
pub struct PendingDelivery(PendingCommit);

/// Maps documents; the store's records are not read. `caller` is the name in change logs.
///
/// # Errors
/// [`EngineError::Wrong`] when they do not fit the definition or are too many.
pub fn map(rules: &Arc<SettleRules>, store: &dyn Store, delivery: &UploadRequest, caller: &str, bytes: Bytes) -> Result<MappedDelivery> {
    let catalogue = &rules.catalogue;
    let failed = |error| EngineError::Wrong(format!("{}: {error}", delivery.name));
    let named = named_source(catalogue, delivery.source.as_deref(), delivery.profile.as_deref())?;
    let mut opened = open_bytes(Box::new(std::io::Cursor::new(bytes))).map_err(failed)?;
    if opened.syntax.is_none() {
        return Err(EngineError::Wrong("there are no documents".into()));
    }
    let index = match named {
        Some(source) => source,
        None => guess_source(catalogue, &mut opened, &delivery.name)?,
    };
    let source = &catalogue.sources[index];
    if source.complete_files().is_some() {
        let reason = format!("source `{}` has complete deliveries; import them as files", source.name);
        return Err(EngineError::Wrong(reason));
    }
    opened.choose_sheet(&source.reading.csv).map_err(failed)?;
    let beginning = opened.beginning.clone();
    let Some(syntax) = fitting(&opened, source, &delivery.name)? else { return Err(EngineError::Wrong("there are no documents".into())) };
    let mut whole = Vec::new();
    opened.bytes.take(MAX_BYTES + 1).read_to_end(&mut whole).map_err(failed)?;
    if whole.len() as u64 > MAX_BYTES {
        return Err(EngineError::Wrong(format!("the documents exceed {} MiB; import them as a file", MAX_BYTES >> 20)));
    }
    let accepted = store.clock();
    let received = delivery.as_of.unwrap_or(accepted);
    let policy = policy(catalogue, delivery.profile.as_deref(), NO_JOB)?;
    let tenant = delivery.tenant.clone();
    let context = JobContext { rules: rules.clone(), tenant, source: index, policy, received, accepted, match_ratio: Arc::default() };
    let (size, name) = (whole.len() as u64, Some(syntax.name().to_owned()));
    let file = JobFile { path: delivery.name.clone(), size, modified: received, syntax: name, ..JobFile::default() };
    let slice = ChunkSlice { length: size, is_last: true, ..ChunkSlice::default() };
    let whole = Bytes::from(whole);
    let input = ChunkInput { slice: &slice, file: &file, bytes: Some(whole.clone()) };
    let mut chunk = ChunkUnit::map(&context, store, &input, None)?;
    if chunk.documents() == 0 {
        let mut documents = DocumentReader::new(&whole[..], syntax, source);
        while documents.next().map_err(failed)?.is_some() {}
        check_list(documents.missing(), source, &delivery.name, &beginning)?;
    }
    if chunk.documents() > MAX_DOCUMENTS as usize {
        return Err(EngineError::Wrong(format!("more than {MAX_DOCUMENTS} documents; import them as a file")));
    }
    chunk.set_caller(caller);
    Ok(MappedDelivery(chunk))
}

impl MappedDelivery {
    /// Whether records are read before they are written, so that [`MappedDelivery::submit`] blocks.
    pub fn reads(&self, store: &dyn Store) -> bool {
        !self.may_consolidate_unread(store) || !self.0.is_independent()
    }

    fn may_consolidate_unread(&self, store: &dyn Store) -> bool {
        !store.is_local() && self.0.records() <= MAX_UNREAD_RECORDS && self.0.may_consolidate_unread()
    }

    /// Submits them to be written in one commit.
    ///
    /// # Errors
    /// When the store fails.
    pub fn submit(self, store: &dyn Store) -> Result<PendingDelivery> {
        let (is_unread, blocks) = (self.may_consolidate_unread(store), self.reads(store));
        let Self(mut chunk) = self;
        if is_unread {
            chunk.consolidate_unread(blocks.then_some(store))?
        } else {
            chunk.consolidate(store)?
        }
        chunk.prepare();
        Ok(PendingDelivery(store.submit(Box::new(chunk), Priority::Interactive)))
    }
}

impl PendingDelivery {
    /// Waits until they are durable.
    ///
    /// # Errors
    /// When the store fails; then nothing was written.
    pub async fn end(self) -> Result<DeliverResult> {
        let (_, mut unit) = self.0.committed().await?;
        let Some(journal) = unit.journal() else { return Ok(DeliverResult::default()) };
        Ok(DeliverResult {
            counts: journal.counts,
            lines: unpack(&journal.packed_outcomes).map_err(StoreError::from)?,
            troubles: journal.troubles.clone(),
        })
    }
}
