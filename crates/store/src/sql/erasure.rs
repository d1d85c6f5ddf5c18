//! What both stores share of erasing records: which writes are refused, and what tells of a record in packed outcomes.

use crate::erasure::{DIGEST_BYTES, ErasedTraces, Erasure, MAX_SHARED, digest};
use crate::journal::{DocumentOutcome, pack};
use crate::queue::JobId;
use crate::sql::listing::read_job_outcomes;
use crate::{RecordChange, RecordWrite, RefusalReason, RefusedWrite, Result, StoreError, Tenant};
use serde_json::Value as Json;
use std::collections::{BTreeSet, HashSet};
use stook_catalogue::definition::{Catalogue, Source};
use stook_catalogue::ids::{CollectionId, IdVec};
use stook_catalogue::key::Key;

/// Rows that are read at a time.
pub const PAGE: i64 = 500;

/// What an audit log has instead of the name of an operation on an erased record, which may contain its key.
pub const ERASED_OPERATION: &str = "(on a record that was erased)";

/// Those of a unit's records that were erased.
#[derive(Default)]
pub struct ErasedRecords(HashSet<(CollectionId, Key)>);

impl ErasedRecords {
    /// Finds which of the records that could exist again by these writes were erased. `find` returns those of these hashes that are noted.
    pub fn among<E>(
        catalogue: &Catalogue,
        owner: &Tenant,
        writes: &[RecordWrite],
        find: impl FnOnce(&[Vec<u8>]) -> std::result::Result<HashSet<Vec<u8>>, E>,
    ) -> std::result::Result<Self, E> {
        let written: Vec<&RecordWrite> = writes.iter().filter(|write| could_revive(write)).collect();
        let digests: Vec<Vec<u8>> = written.iter().map(|write| digest_of(catalogue, owner, write.collection, &write.key)).collect();
        let found = find(&digests)?;
        let erased = written.into_iter().zip(&digests).filter(|(_, digest)| found.contains(*digest));
        Ok(Self(erased.map(|(write, _)| (write.collection, write.key.clone())).collect()))
    }

    /// Whether a write is of an erased record.
    pub fn refuses(&self, write: &RecordWrite) -> bool {
        !self.0.is_empty() && could_revive(write) && self.0.contains(&(write.collection, write.key.clone()))
    }

    /// The writes that are refused.
    pub fn refused(&self) -> impl Iterator<Item = RefusedWrite> + '_ {
        self.0.iter().map(|(collection, key)| RefusedWrite { collection: *collection, key: key.clone(), reason: RefusalReason::Erased })
    }
}

/// Whether a write could make an erased record exist, or keep what was said of it.
fn could_revive(write: &RecordWrite) -> bool {
    matches!(write.change, RecordChange::Put(_))
}

/// The hash of a record of a collection.
pub fn digest_of(catalogue: &Catalogue, tenant: &Tenant, collection: CollectionId, key: &Key) -> Vec<u8> {
    digest(tenant, &catalogue.collections[collection].name, key.as_str())
}

/// The positions of those hashes that are found.
pub fn positions(digests: &[Vec<u8>], found: &HashSet<Vec<u8>>) -> Vec<usize> {
    digests.iter().enumerate().filter(|(_, digest)| found.contains(*digest)).map(|(position, _)| position).collect()
}

/// The sources whose documents cannot be of a collection, so that what their jobs say of a key is of another record.
pub fn other_sources(catalogue: &Catalogue, collection: CollectionId) -> Vec<&str> {
    let is_other = |source: &&Source| source.embeds.is_empty() && source.feeds.iter().all(|feed| feed.collection != collection);
    catalogue.sources.iter().filter(is_other).map(|source| source.name.as_str()).collect()
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

/// Whether the answer that is kept for an idempotent request names a record: a text in it is the record's key, or, in what a declared route has answered in its
/// own form, has the key as a whole word. A text that only contains the key, such as a longer key, does not.
pub fn names_record(answer: &[u8], key: &str) -> bool {
    match serde_json::from_slice(answer) {
        // status, whether the body is plain text, body
        Ok(Json::Array(parts)) => match parts.as_slice() {
            [Json::Number(_), Json::Bool(_), Json::String(body)] => match serde_json::from_str(body) {
                Ok(body) => has_text(&body, &|text| has_word(text, key)),
                Err(_) => has_word(body, key),
            },
            keys => keys.iter().any(|part| has_text(part, &|text| text == key)),
        },
        Ok(answer) => has_text(&answer, &|text| text == key),
        Err(_) => has_word(&String::from_utf8_lossy(answer), key),
    }
}

/// Whether a text in a document satisfies a condition.
fn has_text(json: &Json, is_meant: &dyn Fn(&str) -> bool) -> bool {
    match json {
        Json::String(text) => is_meant(text),
        Json::Array(items) => items.iter().any(|item| has_text(item, is_meant)),
        Json::Object(members) => members.values().any(|member| has_text(member, is_meant)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Whether a text has a key in it that neither begins nor ends within a word.
fn has_word(text: &str, key: &str) -> bool {
    let is_inside = |before: Option<char>, after: Option<char>| before.zip(after).is_some_and(|(a, b)| a.is_alphanumeric() && b.is_alphanumeric());
    text.match_indices(key).any(|(start, _)| {
        let (before, rest) = text.split_at(start);
        let after = &rest[key.len()..];
        !is_inside(before.chars().next_back(), key.chars().next()) && !is_inside(key.chars().next_back(), after.chars().next())
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_a_record_by_its_key_and_not_by_a_longer_one() {
        for (answer, names) in [
            (r#"{"created":true,"key":"m1","record":{"id":"m1"}}"#, true),
            (r#"{"created":true,"key":"m12","record":{"id":"m12","size":1}}"#, false),
            (r#"{"key":"x","record":{"machine":["m2","m1"]}}"#, true),
            (r#"{"key":"x","record":{"note":"of m1"}}"#, false),
            (r#"[200,false,"{\"href\":\"/machine/m1\"}"]"#, true),
            (r#"[200,false,"{\"href\":\"/machine/m12\",\"n\":\"am1\"}"]"#, false),
            (r#"[200,true,"m1 is taken"]"#, true),
            (r#"["m1","a","b"]"#, true),
            (r#"[200,true,"m10 is taken"]"#, false),
        ] {
            assert_eq!(names_record(answer.as_bytes(), "m1"), names, "{answer}");
        }
        assert!(names_record(br#"{"key":"a\"b"}"#, "a\"b"), "as JSON writes it");
    }
}
