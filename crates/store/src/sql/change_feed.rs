//! What both stores share of the change feed: which changes a write makes, how batches are packed, and what a store records about what it keeps.
//!
//! A batch is a byte, 0 or 1, and lines of JSON, compressed by zstd if it is 1. A line is a change:
//! ```text
//! {"k":KEY,"r":REVISION,"c":"created"|"changed"|"deleted","f":{FIELD:VALUE..},"b":[[CONTRIBUTOR,JOB,COUNTS]..],"t":TRANSITION}
//! ```
//! `f`, `b` and `t` are left out if they are empty. `meta` has, for each collection that is followed, the position up to which changes are not kept, as
//! `changes of COLLECTION`, and as `change epochs` the list `[[NAME, POSITION]..]`, see [`ChangeEpoch`].

use crate::change_feed::{ChangeCause, ChangeEntry, ChangeEpoch, ChangeKind};
use crate::damage::Damage;
use crate::store_schema::StoreSchema;
use crate::{NewChangeLogEntry, RecordChange, RecordWrite, Result, StoreError, StoredRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use std::io::Read;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::record::{Contribution, unpack_reporting_damage};
use stook_catalogue::value::{SmolStr, Value};

/// The setting that has the epochs.
pub const EPOCHS: &str = "change epochs";
/// The setting of a backup that has the position up to which it has all batches.
pub const UNTIL: &str = "changes until";
/// The beginning of the names of the settings that have the positions up to which changes of collections are not kept.
const KEPT_AFTER: &str = "changes of ";
/// Bytes of lines after which a batch ends.
const BATCH_BYTES: usize = 256 << 10;
/// Bytes of lines that a batch has at most: one change of the largest record.
const MAX_BATCH_BYTES: u64 = 1 << 30;
/// Bytes of lines from which on they are compressed.
const COMPRESSED_BYTES: usize = 1_024;
/// The level by which they are compressed.
const COMPRESSION_LEVEL: i32 = 1;
/// Batches that are removed at a time.
pub const EXPIRED_BATCHES: usize = 500;

/// The setting that has the position up to which changes of a collection are not kept.
pub fn kept_after_name(collection: &str) -> String {
    format!("{KEPT_AFTER}{collection}")
}

/// The collection of a name that [`kept_after_name`] has made.
pub fn collection_of(name: &str) -> Option<&str> {
    name.strip_prefix(KEPT_AFTER)
}

/// The collections whose changes are kept, with how long, in microseconds.
pub fn followed(catalogue: &Catalogue) -> impl Iterator<Item = (&Collection, i64)> {
    let micros = |collection: &Collection| collection.changes.map(|kept| i64::try_from(kept.as_micros()).unwrap_or(i64::MAX));
    catalogue.collections.iter().filter_map(move |collection| Some((collection, micros(collection)?)))
}

/// Whether changes of any collection are kept.
pub fn has_changes(catalogue: &Catalogue) -> bool {
    followed(catalogue).next().is_some()
}

/// Whether values of a collection are shown in another form than before, so that what was noted of their changes does not lead to them.
pub fn is_shown_otherwise(collection: &str, before: &StoreSchema, after: &StoreSchema) -> bool {
    let (Some(before), Some(after)) = (before.collections.get(collection), after.collections.get(collection)) else { return false };
    let is_other = |(name, field): (&String, &crate::store_schema::FieldSchema)| {
        let now = after.fields.get(name).or_else(|| after.states.get(name));
        now.is_none_or(|now| now.ty != field.ty)
    };
    before.fields.iter().chain(&before.states).any(is_other)
}

/// Reads a position that a store has recorded.
pub fn parse_position(name: &str, text: Option<String>) -> Result<i64> {
    let Some(text) = text else {
        let collection = collection_of(name).unwrap_or(name);
        return Err(StoreError::Definition(format!("the store does not keep the changes of `{collection}` yet; run `stook prepare`")));
    };
    text.parse().map_err(|_| StoreError::Damaged(Damage::of_row(format!("the setting {name:?}"), format!("{text:?} is no position"))))
}

/// Reads the epochs that a store has recorded.
pub fn parse_epochs(text: Option<&str>) -> Result<Vec<ChangeEpoch>> {
    let damaged = |error: serde_json::Error| StoreError::Damaged(Damage::of_row("the list of epochs of changes", error.to_string()));
    let epochs: Vec<(String, i64)> = text.map_or(Ok(Vec::new()), serde_json::from_str).map_err(damaged)?;
    Ok(epochs.into_iter().map(|(name, begins_after)| ChangeEpoch { name, begins_after }).collect())
}

/// The list of epochs with another one.
pub fn with_epoch(text: Option<&str>, name: &str, begins_after: i64) -> Result<String> {
    let mut epochs = parse_epochs(text)?;
    epochs.push(ChangeEpoch { name: name.to_owned(), begins_after });
    Ok(serde_json::json!(epochs.iter().map(|epoch| (&epoch.name, epoch.begins_after)).collect::<Vec<_>>()).to_string())
}

#[derive(Serialize, Deserialize)]
struct Line {
    k: String,
    r: i64,
    c: String,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    f: Map<String, Json>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    b: Vec<(SmolStr, u64, bool)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<String>,
}

/// The changes that a unit makes, by collection.
#[derive(Default)]
pub struct ChangeRecorder(BTreeMap<CollectionId, Vec<ChangeEntry>>);

/// A batch as it is stored.
pub struct PackedBatch {
    pub collection: CollectionId,
    pub bytes: Vec<u8>,
}

impl ChangeRecorder {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes a write of a record with changes that are kept, if readers see another record then.
    pub fn note(&mut self, definition: &Collection, write: &RecordWrite, before: Option<&StoredRecord>, revision: i64) {
        if let Some(entry) = entry_of(definition, write, before, revision) {
            self.0.entry(write.collection).or_default().push(entry);
        }
    }

    /// The batches, given what the unit writes into change logs.
    pub fn into_batches(self, log: &[NewChangeLogEntry]) -> Result<Vec<PackedBatch>> {
        let mut batches = Vec::new();
        for (collection, entries) in self.0 {
            let transitions: BTreeMap<&str, &str> = log
                .iter()
                .filter(|own| own.collection == collection)
                .filter_map(|own| Some((own.key.as_str(), own.transition.as_deref()?)))
                .collect();
            let mut lines = Vec::new();
            for entry in entries {
                let transition = transitions.get(entry.key.as_str()).map(|name| (*name).to_owned());
                write_line(&mut lines, entry, transition)?;
                if lines.len() >= BATCH_BYTES {
                    batches.push(PackedBatch { collection, bytes: packed(&std::mem::take(&mut lines))? });
                }
            }
            if !lines.is_empty() {
                batches.push(PackedBatch { collection, bytes: packed(&lines)? });
            }
        }
        Ok(batches)
    }
}

fn packed(lines: &[u8]) -> Result<Vec<u8>> {
    if lines.len() < COMPRESSED_BYTES {
        return Ok([&[0], lines].concat());
    }
    let compressed = zstd::bulk::compress(lines, COMPRESSION_LEVEL).map_err(|error| StoreError::Other(format!("compression: {error}")))?;
    Ok([&[1], &compressed[..]].concat())
}

/// Reads what [`ChangeRecorder::into_batches`] has packed.
pub fn unpack_batch(position: i64, bytes: &[u8]) -> Result<Vec<ChangeEntry>> {
    let damaged = |reason: String| StoreError::Damaged(Damage::of_row(format!("the batch {position} of changes"), reason));
    let mut lines = Vec::new();
    let lines: &[u8] = match bytes.split_first() {
        Some((0, lines)) => lines,
        Some((1, compressed)) => {
            let read = zstd::Decoder::with_buffer(compressed).and_then(|decoder| decoder.take(MAX_BATCH_BYTES).read_to_end(&mut lines));
            read.map_err(|error| damaged(error.to_string()))?;
            &lines
        }
        _ => return Err(damaged("it is packed in an unknown way".into())),
    };
    let entry = |line: std::result::Result<Line, serde_json::Error>| {
        let Line { k, r, c, f, b, t } = line.map_err(|error| damaged(error.to_string()))?;
        let kind = ChangeKind::ALL.into_iter().find(|kind| kind.name() == c).ok_or_else(|| damaged(format!("{c:?} is no kind of change")))?;
        let causes = b.into_iter().map(|(contributor, job, counts)| ChangeCause { contributor, job, counts }).collect();
        Ok(ChangeEntry { key: k, revision: r, kind, fields: f, causes, transition: t })
    };
    serde_json::Deserializer::from_slice(lines).into_iter().map(entry).collect()
}

/// A batch without the changes of a record but for its deletions, and how many were left out; nothing if it has none.
pub fn without_record(position: i64, bytes: &[u8], key: &str) -> Result<Option<(Vec<u8>, u64)>> {
    let entries = unpack_batch(position, bytes)?;
    let tells = |entry: &ChangeEntry| entry.key == key && entry.kind != ChangeKind::Deleted;
    let removed = entries.iter().filter(|entry| tells(entry)).count() as u64;
    if removed == 0 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    entries.into_iter().filter(|entry| !tells(entry)).try_for_each(|entry| write_line(&mut lines, entry, None))?;
    Ok(Some((packed(&lines)?, removed)))
}

fn write_line(lines: &mut Vec<u8>, entry: ChangeEntry, transition: Option<String>) -> Result<()> {
    let ChangeEntry { key, revision, kind, fields, causes, transition: own } = entry;
    let causes = causes.into_iter().map(|cause| (cause.contributor, cause.job, cause.counts)).collect();
    let line = Line { k: key, r: revision, c: kind.name().to_owned(), f: fields, b: causes, t: transition.or(own) };
    serde_json::to_writer(&mut *lines, &line).map_err(|error| StoreError::Other(format!("a change cannot be written: {error}")))?;
    lines.push(b'\n');
    Ok(())
}

/// What readers see of a record: golden values and state.
type Seen<'s> = (&'s [Value], &'s [Value]);

fn entry_of(definition: &Collection, write: &RecordWrite, before: Option<&StoredRecord>, revision: i64) -> Option<ChangeEntry> {
    let seen_before: Option<Seen<'_>> = before.filter(|before| before.exists).map(|before| (&before.golden[..], &before.state[..]));
    let seen_after: Option<Seen<'_>> = match &write.change {
        RecordChange::Put(content) | RecordChange::Settle(content) => content.exists.then_some((&content.golden[..], &content.state[..])),
        RecordChange::State { state, .. } => seen_before.map(|(golden, _)| (golden, &state[..])),
        RecordChange::Delete => None,
        RecordChange::Touch { .. } => return None,
    };
    let (kind, fields) = match (seen_before, seen_after) {
        (None, None) => return None,
        (None, Some((golden, state))) => (ChangeKind::Created, definition.shown_values(golden, state)),
        (Some(_), None) => (ChangeKind::Deleted, Map::new()),
        (Some(before), Some(after)) => (ChangeKind::Changed, changed_fields(definition, before, after)),
    };
    if kind == ChangeKind::Changed && fields.is_empty() {
        return None;
    }
    let causes = match &write.change {
        RecordChange::Put(content) => causes(definition, before.map_or(&[], |before| &before.contributions), &content.contributions),
        RecordChange::Delete => causes(definition, before.map_or(&[], |before| &before.contributions), &[]),
        RecordChange::State { .. } | RecordChange::Settle(_) | RecordChange::Touch { .. } => Vec::new(),
    };
    Some(ChangeEntry { key: write.key.as_str().to_owned(), revision, kind, fields, causes, transition: None })
}

fn changed_fields(definition: &Collection, before: Seen<'_>, after: Seen<'_>) -> Map<String, Json> {
    let fields = definition.shown_fields().map(|(id, field)| (&field.name, field.golden_type(), &before.0[id.index()], &after.0[id.index()]));
    let states = definition.states.iter().zip(before.1.iter().zip(after.1)).map(|(state, (before, after))| (&state.name, &state.ty, before, after));
    fields.chain(states).filter(|(_, _, before, after)| before != after).map(|(name, ty, _, after)| (name.clone(), after.to_json(ty))).collect()
}

/// The contributions that differ between two packed lists. Damaged ones are left out.
fn causes(definition: &Collection, before: &[u8], after: &[u8]) -> Vec<ChangeCause> {
    let read = |packed: &[u8]| -> Vec<Contribution> {
        if packed.is_empty() {
            return Vec::new();
        }
        unpack_reporting_damage(packed, definition, &[], None).map(|found| found.contributions).unwrap_or_default()
    };
    let (before, after) = (read(before), read(after));
    let identity = |own: &Contribution| (own.origin, own.hash, own.as_of, own.generation, own.counts());
    let mut causes = Vec::new();
    for own in &after {
        let former = before.iter().find(|former| former.contributor == own.contributor);
        let is_same = former.is_some_and(|former| identity(former) == identity(own));
        let matters = own.counts() || former.is_some_and(Contribution::counts);
        if !is_same && matters {
            causes.push(ChangeCause { contributor: own.contributor.clone(), job: own.origin.job, counts: own.counts() });
        }
    }
    let is_gone = |former: &&Contribution| former.counts() && after.iter().all(|own| own.contributor != former.contributor);
    causes.extend(before.iter().filter(is_gone).map(|own| ChangeCause { contributor: own.contributor.clone(), job: own.origin.job, counts: false }));
    causes
}
