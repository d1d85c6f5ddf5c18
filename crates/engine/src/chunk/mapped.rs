//! The mapped documents of a chunk: contributions by record, and what failed.

use super::header::header_warnings;
use super::map::{CompleteDocument, DocumentMapper, Envelope, SkippedContribution};
use super::read::{self, DocumentBytes};
use crate::job::JobContext;
use crate::job::file::{UPLOADED, syntax};
use crate::merge::NumberedContribution;
use crate::settle::complete_delivery::{self, DeliveryAge, DeliveryLedger, FileShare};
use crate::{EngineError, Result};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use stook_catalogue::definition::{Catalogue, CompleteDelivery, OnMatched, Source};
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::record::{ContributionOrigin, Reception};
use stook_formats::marc::{Encoding, Repair, RepairKind, Repairs};
use stook_formats::{Document, Syntax, frame};
use stook_store::journal::{Issue, Outcome};
use stook_store::queue::{ChunkSlice, JobFile};
use stook_store::{Edge, Store, Tenant};

/// A chunk, and where its bytes come from.
pub struct ChunkInput<'i> {
    /// The chunk's position in its file.
    pub slice: &'i ChunkSlice,
    /// Its file.
    pub file: &'i JobFile,
    /// The bytes, if they are in memory already.
    pub bytes: Option<Bytes>,
}

/// A document for the journal whose outcome is not yet known.
pub(super) struct PendingDocument {
    pub(super) document: u64,
    pub(super) record: u64,
    pub(super) offset: u64,
    /// Its bytes, as they are kept if it fails.
    pub(super) bytes: Bytes,
}

/// The mapped documents of a chunk.
#[derive(Default)]
pub(super) struct MappedDocuments {
    /// The number of documents of the job before the chunk's file.
    pub(super) file_start: u64,
    /// All documents, in their order.
    pub(super) entries: Vec<PendingDocument>,
    /// Contributions by record, in key order.
    pub(super) records: BTreeMap<(CollectionId, Key), Vec<NumberedContribution>>,
    /// Documents that contribute to no record.
    pub(super) without_record: Vec<UnmappedDocument>,
    /// Failures and warnings.
    pub(super) troubles: Vec<Issue>,
    /// What stands before the bytes of a document that is kept.
    pub(super) prefix: Vec<u8>,
    /// How much of its file the chunk is, if the source says `replaces:`.
    pub(super) share: Option<FileShare>,
    /// The documents that are complete for what their elements contribute: what identifies each, and its age.
    pub(super) complete_documents: Vec<(String, DeliveryAge)>,
    /// The stored edges of the ledger to older documents of the same identities.
    pub(super) ledger_edges: Vec<Edge>,
}

/// A document that contributes to no record.
pub(super) struct UnmappedDocument {
    pub(super) document: u64,
    pub(super) outcome: Outcome,
    pub(super) key: Option<Key>,
    /// Why it was skipped.
    pub(super) reason: Option<String>,
}

impl MappedDocuments {
    /// Notes which contributions of elements newer documents retire on arrival, those of the chunk among them.
    fn replace_in_documents(&mut self, replaces: &CompleteDelivery, store: &dyn Store, tenant: &Tenant) -> Result<()> {
        let scoped = self.records.values().flatten().filter_map(|own| own.contribution.scope.as_deref()).map(|scoped| scoped.scope.as_str());
        let scopes: BTreeSet<&str> = scoped.chain(self.complete_documents.iter().map(|(scope, _)| scope.as_str())).collect();
        self.ledger_edges = DeliveryLedger::edges(store, tenant, replaces, scopes.into_iter())?;
        let mut ledger = DeliveryLedger::new(self.ledger_edges.clone())?;
        self.complete_documents.iter().for_each(|(scope, age)| ledger.add(scope, 0, *age));
        for own in self.records.values_mut().flatten() {
            let Some(scoped) = &own.contribution.scope else { continue };
            let age = DeliveryAge { as_of: own.contribution.as_of, received: own.received };
            own.contribution.replaced_by = ledger.replacement(&scoped.scope, scoped.at, age);
        }
        Ok(())
    }
}

/// Reads and maps a chunk's documents. Reads nothing from the store except the ledger of scopes, for a source with complete deliveries.
///
/// # Errors
/// When the chunk as a whole cannot be read, or the store fails.
pub(super) fn map_documents(context: &JobContext, store: &dyn Store, input: &ChunkInput<'_>, evaluator: &Evaluator) -> Result<MappedDocuments> {
    let slice = input.slice;
    let source = &context.rules.catalogue.sources[context.source];
    let mapper = DocumentMapper::new(&context.rules.catalogue, context.source, evaluator);
    let generations: Vec<u32> = (0..source.feeds.len()).map(|feed| store.generation(context.source, feed)).collect();
    let path = input.file.path.strip_prefix(UPLOADED).unwrap_or(&input.file.path);
    let name = Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file_start = slice.documents_before - slice.file_documents;
    let now = store.clock();
    let syntax = syntax(input.file).ok_or_else(|| EngineError::Wrong("the chunk's file has no syntax".into()))?;
    // embedded documents were received together with the document that contains them
    let received = |document: u64| {
        let origin = ContributionOrigin { job: context.policy.job, document };
        source.as_of.by_reception.then_some(Reception { at: context.accepted, origin })
    };
    let mut chunk = MappedDocuments { file_start, prefix: frame::prefix(syntax, &slice.head), ..MappedDocuments::default() };
    let mut repairs = Repairs::default();
    let mut skipped = Vec::new();
    read::documents(input, syntax, source, |found, DocumentBytes { own, complete: bytes }| {
        let (record, offset) = (found.number, found.offset);
        let document = file_start + record;
        // of JSON, the document may be a part of what is in the list
        let kept = if matches!(syntax, Syntax::Json | Syntax::MarcJson) { own } else { bytes.clone() };
        chunk.entries.push(PendingDocument { document, record, offset, bytes: kept });
        repairs.begin(offset);
        let parsed = match found.problem {
            Some(problem) => Err(problem),
            None => Document::read(&bytes, syntax, &found.head, &source.reading, &mut repairs).map_err(|error| error.to_string()),
        };
        let trouble = |key: &Option<Key>, failed: bool, reason: String| {
            let key = key.as_ref().map(Key::to_string);
            Issue { document, file: slice.file, record, offset, key, failed, reason }
        };
        if record == 1 && syntax == Syntax::Csv {
            let warnings = header_warnings(&context.rules.catalogue, source, found.head.columns());
            chunk.troubles.extend(warnings.into_iter().map(|warning| trouble(&None, false, warning)));
        }
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(reason) => {
                chunk.without_record.push(UnmappedDocument { document, outcome: Outcome::Failed, key: None, reason: None });
                chunk.troubles.push(trouble(&None, true, reason));
                return Ok(());
            }
        };
        let (partial_list, arguments) = (input.file.part.as_deref(), &input.file.arguments);
        let envelope = Envelope { name: &name, ordinal: record, received: context.received, now, partial_list, arguments };
        let mapped = mapper.map(&parsed, &bytes, syntax, &envelope);
        chunk.troubles.extend(repairs.into_iter().map(|repair| trouble(&mapped.key, false, describe(repair, source))));
        chunk.troubles.extend(more(&repairs).map(|more| trouble(&mapped.key, false, more)));
        chunk.troubles.extend(mapped.warnings.into_iter().map(|warning| trouble(&mapped.key, false, warning)));
        if mapped.failed.is_none()
            && let Some(CompleteDocument { scope, as_of }) = mapped.complete_document
        {
            chunk.complete_documents.push((scope, DeliveryAge { as_of, received: received(document) }));
        }
        if let Some(reason) = mapped.failed {
            chunk.without_record.push(UnmappedDocument { document, outcome: Outcome::Failed, key: mapped.key.clone(), reason: None });
            chunk.troubles.push(trouble(&mapped.key, true, reason));
        } else if let Some(reason) = mapped.skipped {
            chunk.without_record.push(UnmappedDocument { document, outcome: Outcome::Skipped, key: mapped.key, reason: Some(reason) });
            skipped.extend(mapped.skipped_contribution);
        }
        for mut contribution in mapped.contributions {
            if context.policy.matched == OnMatched::Delete {
                contribution.delete();
            }
            let generation = match contribution.embedded {
                true => store.generation(contribution.source, contribution.feed),
                false => generations[contribution.feed],
            };
            let record = (contribution.collection, contribution.key.clone());
            // most records get only one contribution
            chunk.records.entry(record).or_insert_with(|| Vec::with_capacity(1)).push(NumberedContribution {
                document,
                received: received(document),
                generation,
                contribution,
            });
        }
        Ok(())
    })?;
    match &source.replaces {
        Some(replaces) if replaces.files.is_some() => {
            let retires_all = input.file.retires_all;
            let share = share_of((&context.rules.catalogue, replaces), &mut chunk.records, &skipped, (slice, retires_all), (store, &context.tenant))?;
            chunk.share = Some(share);
        }
        Some(replaces) => chunk.replace_in_documents(replaces, store, &context.tenant)?,
        None => {}
    }
    Ok(chunk)
}

/// A warning that says what was repaired, and how a source is declared whose files have another encoding.
fn describe(repair: &Repair, source: &Source) -> String {
    let is_encoding_unknown = source.reading.marc.encoding == Encoding::Auto;
    match repair.kind {
        RepairKind::Character if is_encoding_unknown => {
            format!("{repair}; if the files have another encoding, say `encoding: latin-1`, `cp1252` or `marc-8` of the source `{}`", source.name)
        }
        _ => repair.to_string(),
    }
}

/// A warning that there were more repairs than are listed.
fn more(repairs: &Repairs) -> Option<String> {
    Some(repairs.uncounted()).filter(|more| *more > 0).map(|more| format!("{more} more repairs of this record are not listed"))
}

/// How much of its file a chunk is. Also notes which contributions newer complete deliveries retire on arrival.
fn share_of(
    (catalogue, replaces): (&Catalogue, &CompleteDelivery),
    records: &mut BTreeMap<(CollectionId, Key), Vec<NumberedContribution>>,
    skipped: &[SkippedContribution],
    (slice, retires_all): (&ChunkSlice, bool),
    (store, tenant): (&dyn Store, &Tenant),
) -> Result<FileShare> {
    let documents = u64::from(slice.documents);
    let mut share =
        FileShare { documents, file_documents: slice.is_last.then_some(slice.file_documents + documents), retires_all, ..FileShare::default() };
    let scopes = records.values().flatten().filter_map(|own| own.contribution.scope.as_deref());
    let ledger = DeliveryLedger::read(store, tenant, replaces, scopes.map(|scoped| scoped.scope.as_str()))?;
    for ((collection, key), own) in records.iter_mut().flat_map(|(record_id, all)| all.iter_mut().map(move |own| (record_id, &mut own.contribution)))
    {
        let Some(scoped) = &own.scope else { continue };
        share.add(scoped, &[complete_delivery::contribution_name(&catalogue.collections[*collection].name, &own.contributor, key)], own.as_of);
        own.replaced_by = ledger.replacement(&scoped.scope, scoped.at, DeliveryAge { as_of: own.as_of, received: None });
    }
    skipped.iter().for_each(|own| share.add(&own.position, &own.names, own.as_of));
    Ok(share)
}
