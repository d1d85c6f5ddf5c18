//! What both stores share of erasing records: which writes are refused, and what tells of a record in packed outcomes.

use crate::erasure::{DIGEST_BYTES, ErasedTraces, Erasure, MAX_SHARED};
use crate::journal::{DocumentOutcome, pack};
use crate::queue::JobId;
use crate::sql::listing::read_job_outcomes;
use crate::{RecordChange, RecordWrite, Result, StoreError};
use std::collections::BTreeSet;
use stook_catalogue::ids::{CollectionId, IdVec};

/// Rows that are read at a time.
pub const PAGE: i64 = 500;

/// What an audit log has instead of the name of an operation on an erased record, which may contain its key.
pub const ERASED_OPERATION: &str = "(on a record that was erased)";

/// Whether a write could make an erased record exist, or keep what was said of it.
pub fn could_revive(write: &RecordWrite) -> bool {
    matches!(write.change, RecordChange::Put(_))
}

/// The outcomes of a chunk without the key of a record; nothing if they do not name it. Adds to `traces` what was found.
pub fn without_record(
    job: JobId,
    lines: &[u8],
    (collection, key): (CollectionId, &str),
    names: &IdVec<CollectionId, String>,
    traces: &mut ErasedTraces,
) -> Result<Option<Vec<u8>>> {
    let mut outcomes = read_job_outcomes(job, lines)?;
    let is_of_record = |outcome: &DocumentOutcome| outcome.key == key && outcome.collection.is_none_or(|own| own == collection);
    let documents: BTreeSet<u64> = outcomes.iter().filter(|outcome| is_of_record(outcome)).map(|outcome| outcome.document).collect();
    if documents.is_empty() {
        return Ok(None);
    }
    for outcome in &mut outcomes {
        if is_of_record(outcome) {
            (outcome.key, outcome.reason) = ("".into(), None);
            traces.outcomes += 1;
        } else if documents.contains(&outcome.document)
            && !outcome.key.is_empty()
            && traces.shared.len() < MAX_SHARED
            && let Some(name) = outcome.collection.filter(|other| other.index() < names.len()).map(|other| &names[other])
        {
            let shared = (name.clone(), outcome.key.to_string());
            if !traces.shared.contains(&shared) {
                traces.shared.push(shared);
            }
        }
    }
    Ok(Some(pack(&outcomes)))
}

/// A hash as hexadecimal digits.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Erasures with the bytes of their hashes.
pub fn with_digests(erasures: &[Erasure]) -> Result<Vec<(Vec<u8>, Erasure)>> {
    let digest = |own: &Erasure| -> Option<Vec<u8>> {
        let pairs = own.digest.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        pairs.collect::<Option<Vec<u8>>>().filter(|bytes| bytes.len() == DIGEST_BYTES && own.digest.len() == 2 * DIGEST_BYTES)
    };
    let wrong = |own: &Erasure| StoreError::Wrong(format!("{:?} is not the hash of an erased record", own.digest));
    erasures.iter().map(|own| Ok((digest(own).ok_or_else(|| wrong(own))?, own.clone()))).collect()
}
