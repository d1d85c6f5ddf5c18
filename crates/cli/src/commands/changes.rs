//! What an import has changed in the catalogue, and its most frequent issues.

use crate::output::{count, number};
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_engine::chunk::changes::{ChangeSummary, CollectionChanges, IssueKind};
use stook_store::queue::Job;

/// Kinds of issues that are shown.
const MAX_KINDS: usize = 3;
/// Changed fields that are named.
const MAX_FIELDS: usize = 6;

/// Prints what changed in each collection. Where records are only new, the outcomes say as much.
pub fn show_changes(catalogue: &Catalogue, changes: &ChangeSummary) {
    let is_told = |changes: &CollectionChanges| changes.changed + changes.deleted + changes.conflicts > 0;
    if changes.collections.len() < 2 && !changes.collections.values().any(is_told) {
        return;
    }
    for (collection, changes) in &changes.collections {
        let definition = &catalogue.collections[*collection];
        let mut fields: Vec<(u64, &str)> = changes.fields.iter().map(|(field, count)| (*count, definition.fields[*field].name.as_str())).collect();
        fields.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
        let named: Vec<String> = fields.iter().take(MAX_FIELDS).map(|(count, name)| format!("{name} {}", number(*count))).collect();
        let more = if fields.len() > MAX_FIELDS { format!(", {} more fields", fields.len() - MAX_FIELDS) } else { String::new() };
        let parts = [
            (changes.created, "new".to_owned()),
            (changes.changed, format!("changed ({}{more})", named.join(", "))),
            (changes.deleted, "deleted".to_owned()),
            (changes.conflicts, "with a new conflict".to_owned()),
        ];
        let parts: Vec<String> = parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{} {what}", number(*count))).collect();
        if !parts.is_empty() {
            say!("  {}: {}", definition.name, parts.join(", "));
        }
    }
}

/// Prints the most frequent kinds of issues with an example of each; false if they are not all known, so that others have to be shown.
pub fn show_issues(job: &Job, changes: &ChangeSummary, all: i64) -> bool {
    let kinds = changes.most_frequent();
    let known: u64 = kinds.iter().map(|kind| kind.count).sum();
    if known != all.max(0) as u64 || kinds.is_empty() {
        return false;
    }
    kinds.iter().take(MAX_KINDS).for_each(|kind| show_kind(job, kind));
    if kinds.len() > MAX_KINDS {
        let others: u64 = kinds[MAX_KINDS..].iter().map(|kind| kind.count).sum();
        say!("  and {} of {}", count(others, "issue"), count((kinds.len() - MAX_KINDS) as u64, "other kind"));
    }
    true
}

fn show_kind(job: &Job, IssueKind { count: times, example }: &IssueKind) {
    let word = if example.failed { "failed" } else { "warning" };
    let file = job.files.get(example.file).map(|file| file.path.as_str()).unwrap_or_default();
    let file = file.rsplit('/').next().unwrap_or(file);
    let key = example.key.as_ref().map(|key| format!(" ({key})")).unwrap_or_default();
    let place = format!("{file} record {} at byte {}{key}: {}", example.record, example.offset, example.reason);
    match times {
        1 => say!("  {word}: {place}"),
        many => say!("  {word}, {} like this: {place}", number(*many)),
    }
}

/// The same as JSON.
pub fn to_json(catalogue: &Catalogue, changes: &ChangeSummary) -> Json {
    let collections = changes.collections.iter().map(|(collection, changes)| {
        let definition = &catalogue.collections[*collection];
        let fields: Map<String, Json> = changes.fields.iter().map(|(field, count)| (definition.fields[*field].name.clone(), json!(count))).collect();
        let CollectionChanges { created, changed, deleted, conflicts, .. } = changes;
        let json = json!({ "created": created, "changed": changed, "deleted": deleted, "conflicts": conflicts, "fields": fields });
        (definition.name.clone(), json)
    });
    let issue = |kind: &&IssueKind| json!({ "count": kind.count, "failed": kind.example.failed, "example": kind.example.reason, "record": kind.example.record });
    json!({
        "collections": collections.collect::<Map<String, Json>>(),
        "issues": changes.most_frequent().iter().take(10).map(issue).collect::<Vec<_>>(),
    })
}
