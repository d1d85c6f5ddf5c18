//! Follows what has changed in records: cursors, and changes page by page.
//!
//! A cursor is `EPOCH-POSITION`, after all changes up to that position, or `EPOCH-POSITION.N`, after the first N changes of the batch at that position.
//! It says nothing about a tenant or collections: with other ones it is as good.

use crate::content::collection::find_collection;
use crate::{EngineError, Result};
use serde_json::{Map, Value as Json, json};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::show_timestamp;
use stook_store::change_feed::{ChangeCause, ChangeEntry, ChangeSelection, FoundChanges};
use stook_store::{Store, Tenant};

/// Batches that are read at a time.
const PAGE_BATCHES: usize = 16;

/// Where in the changes of a store somebody is who follows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeCursor {
    epoch: String,
    position: i64,
    /// How many changes of the batch at the position lie before it, if not all do.
    entries: Option<usize>,
}

impl fmt::Display for ChangeCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.position)?;
        self.entries.map_or(Ok(()), |entries| write!(f, ".{entries}"))
    }
}

impl ChangeCursor {
    /// Reads a cursor.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        let parse = || {
            let (epoch, place) = text.split_once('-')?;
            let (position, entries) = match place.split_once('.') {
                Some((position, entries)) => (position, Some(usize::try_from(number(entries)?).ok()?)),
                None => (place, None),
            };
            let is_name = !epoch.is_empty() && epoch.len() <= 16 && epoch.bytes().all(|byte| byte.is_ascii_hexdigit());
            let position = i64::try_from(number(position)?).ok().filter(|_| is_name)?;
            Some(Self { epoch: epoch.to_owned(), position, entries })
        };
        let shown: String = text.chars().take(60).collect();
        parse().ok_or_else(|| {
            EngineError::Wrong(format!("{shown:?} is no cursor: give one that a change, an export or the end of an answer named, or `now`"))
        })
    }

    /// The position of the first batch that is read after it.
    fn first_position(&self) -> i64 {
        if self.entries.is_some() { self.position } else { self.position.saturating_add(1) }
    }

    /// Whether changes up to a position lie before it.
    #[must_use]
    pub fn is_before(&self, position: i64) -> bool {
        self.position < position
    }
}

/// A change, with the cursor after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The collection's name.
    pub collection: String,
    /// When it was committed, in microseconds.
    pub at: i64,
    /// What it changed.
    pub entry: ChangeEntry,
    /// Where who has read it goes on.
    pub cursor: ChangeCursor,
}

impl Change {
    /// Whether other records are the cause: links, rollups and values through links were settled.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.entry.causes.is_empty() && self.entry.transition.is_none()
    }

    /// The change as an object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let ChangeEntry { key, revision, kind, fields, causes, transition } = &self.entry;
        let mut json = Map::new();
        json.insert("collection".into(), json!(self.collection));
        json.insert("key".into(), json!(key));
        json.insert("change".into(), json!(kind.name()));
        json.insert("revision".into(), json!(revision));
        json.insert("at".into(), json!(show_timestamp(self.at)));
        json.insert("fields".into(), Json::Object(fields.clone()));
        json.insert("by".into(), causes.iter().map(cause_json).collect());
        if let Some(transition) = transition {
            json.insert("transition".into(), json!(transition));
        }
        json.insert("settled".into(), json!(self.is_settled()));
        json.insert("cursor".into(), json!(self.cursor.to_string()));
        Json::Object(json)
    }
}

fn cause_json(cause: &ChangeCause) -> Json {
    let mut json = Map::from_iter([("contributor".to_owned(), json!(cause.contributor))]);
    if cause.job > 0 {
        json.insert("job".into(), json!(cause.job));
    }
    if !cause.counts {
        json.insert("removed".into(), json!(true));
    }
    Json::Object(json)
}

/// Some changes, and where it goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangePage {
    /// The changes.
    pub changes: Vec<Change>,
    /// The cursor after them; if there are none, after all that is committed.
    pub next: ChangeCursor,
}

/// Reads the changes of a tenant's records.
pub struct ChangeFollower<'s> {
    catalogue: &'s Catalogue,
    store: &'s dyn Store,
    tenant: &'s Tenant,
    collections: Vec<CollectionId>,
}

/// The collections whose changes are kept.
pub fn followed(catalogue: &Catalogue) -> impl Iterator<Item = (CollectionId, &Collection)> {
    catalogue.collections.enumerate().filter(|(_, collection)| collection.changes.is_some())
}

impl<'s> ChangeFollower<'s> {
    /// For one collection, or for all whose changes are kept.
    ///
    /// # Errors
    /// When the collection is not known, or no changes are kept.
    pub fn new(catalogue: &'s Catalogue, store: &'s dyn Store, tenant: &'s Tenant, collection: Option<&str>) -> Result<Self> {
        let collections: Vec<CollectionId> = match collection {
            Some(name) => {
                let (id, definition) = find_collection(catalogue, name)?;
                if definition.changes.is_none() {
                    return Err(EngineError::Wrong(format!("the changes of `{name}` are not kept: say `changes: 30d` of it in catalogue.yaml")));
                }
                vec![id]
            }
            None => followed(catalogue).map(|(id, _)| id).collect(),
        };
        if collections.is_empty() {
            return Err(EngineError::Wrong("no changes are kept: say `changes: 30d` of a collection in catalogue.yaml".into()));
        }
        Ok(Self { catalogue, store, tenant, collections })
    }

    fn find(&self, (from, seen): (i64, i64), max_batches: usize) -> Result<FoundChanges> {
        let selection = ChangeSelection { tenant: self.tenant, collections: &self.collections, from, seen, max_batches };
        Ok(self.store.read_changes(selection)?)
    }

    /// Where to begin: at the first change of all if nothing is given, at the next one if it is `now`, or after a cursor.
    ///
    /// # Errors
    /// When it is no cursor; [`EngineError::Expired`] when changes from there on are not kept.
    pub fn begin(&self, since: Option<&str>) -> Result<ChangeCursor> {
        let cursor = since.filter(|text| *text != "now").map(ChangeCursor::parse).transpose()?;
        let found = self.find((0, cursor.as_ref().map_or(0, |cursor| cursor.position)), 0)?;
        if let Some(cursor) = cursor {
            return self.check(&found, &cursor).map(|()| cursor);
        }
        match since {
            Some(_) => Ok(current(&found, found.until)),
            None if found.kept_after == 0 => Ok(current(&found, 0)),
            None => Err(self.expired("the changes from the beginning on are not kept, or not any more")),
        }
    }

    /// Reads up to `limit` changes after a cursor, maybe fewer although there are more.
    ///
    /// # Errors
    /// [`EngineError::Expired`] when changes from there on are not kept any more; when the store fails.
    pub fn read(&self, cursor: &ChangeCursor, limit: usize) -> Result<ChangePage> {
        let found = self.find((cursor.first_position(), cursor.position), PAGE_BATCHES)?;
        self.check(&found, cursor)?;
        let end = if found.batches.len() < PAGE_BATCHES { Some(found.until) } else { found.batches.last().map(|batch| batch.position) };
        let mut next = current(&found, end.unwrap_or(found.until));
        let mut changes = Vec::new();
        'batches: for batch in &found.batches {
            let read = cursor.entries.filter(|_| batch.position == cursor.position).unwrap_or(0);
            let collection = &self.catalogue.collections[batch.collection].name;
            for (index, entry) in batch.entries.iter().enumerate().skip(read) {
                if changes.len() == limit {
                    break 'batches;
                }
                let entries = Some(index + 1).filter(|entries| *entries < batch.entries.len());
                let cursor = ChangeCursor { entries, ..current(&found, batch.position) };
                changes.push(Change { collection: collection.clone(), at: batch.at, entry: entry.clone(), cursor });
            }
        }
        if changes.len() == limit {
            next = changes.last().map_or(next, |last| last.cursor.clone());
        }
        Ok(ChangePage { changes, next })
    }

    /// Whether no derived values of the tenant wait to be settled.
    ///
    /// # Errors
    /// When the store fails.
    pub fn is_settled(&self) -> Result<bool> {
        Ok(self.store.marks(self.tenant, 1)?.is_empty())
    }

    /// Fails if not everything after a cursor is kept.
    fn check(&self, found: &FoundChanges, cursor: &ChangeCursor) -> Result<()> {
        let other_store = || self.expired("this cursor is of another store, or of what was lost when a backup was restored");
        let epoch = found.epochs.iter().position(|epoch| epoch.name == cursor.epoch).ok_or_else(other_store)?;
        let is_after_epoch = found.epochs.get(epoch + 1).is_some_and(|next| cursor.position > next.begins_after);
        if is_after_epoch || cursor.position > found.until {
            return Err(other_store());
        }
        if cursor.first_position() <= found.kept_after {
            return Err(self.expired("the changes after this cursor are not kept any more"));
        }
        Ok(())
    }

    fn expired(&self, reason: &str) -> EngineError {
        let kept = self.collections.iter().filter_map(|collection| {
            let definition = &self.catalogue.collections[*collection];
            Some(format!("`{}` keeps {}", definition.name, shown_span(definition.changes?)))
        });
        let kept = kept.collect::<Vec<_>>().join(", ");
        EngineError::Expired(format!("{reason} ({kept}): export the records, and follow from the cursor that the export names"))
    }
}

/// A time as a definition writes it.
fn shown_span(span: Duration) -> String {
    match span.as_secs() {
        seconds if seconds > 0 && seconds.is_multiple_of(86_400) => format!("{}d", seconds / 86_400),
        seconds if seconds > 0 && seconds.is_multiple_of(3_600) => format!("{}h", seconds / 3_600),
        _ => format!("{span:?}"),
    }
}

fn current(found: &FoundChanges, position: i64) -> ChangeCursor {
    let epoch = found.epochs.last().map(|epoch| epoch.name.clone()).unwrap_or_default();
    ChangeCursor { epoch, position, entries: None }
}

/// The cursor from which who exports a collection now follows its changes; `None` if they are not kept. What changes during the export is read again:
/// changes say what values are, so that applying them twice is the same.
///
/// # Errors
/// When the store fails.
pub fn cursor_of_export(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: &str) -> Result<Option<ChangeCursor>> {
    match catalogue.collection(collection) {
        Some((_, definition)) if definition.changes.is_some() => {
            ChangeFollower::new(catalogue, store, tenant, Some(collection))?.begin(Some("now")).map(Some)
        }
        _ => Ok(None),
    }
}

/// Removes changes that are older than their collections say. Ends early if `stop` is set; the next call goes on.
///
/// # Errors
/// When the store fails.
pub fn expire(store: &dyn Store, stop: &AtomicBool) -> Result<()> {
    while store.expire_changes()? && !stop.load(Ordering::SeqCst) {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_is_read_as_it_was_written(epoch in "[0-9a-f]{8}", position in 0..i64::MAX, entries in prop::option::of(0..1_000_usize)) {
            let cursor = ChangeCursor { epoch, position, entries };
            prop_assert_eq!(ChangeCursor::parse(&cursor.to_string()).expect("a cursor"), cursor);
        }

        #[test]
        fn any_other_text_is_refused(text in "[-0-9a-f.+ x]{0,40}") {
            if let Ok(cursor) = ChangeCursor::parse(&text) {
                prop_assert_eq!(ChangeCursor::parse(&cursor.to_string()).expect("a cursor"), cursor);
            }
        }
    }
}
