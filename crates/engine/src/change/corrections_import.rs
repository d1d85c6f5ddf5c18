//! Reads corrections from a file, each of which is an edit of one field of a record that exists.

use super::edit::{self, Edit, EditAction, EditFields, EditMaker, EditResult, Preconditions};
use crate::settle::SettleRules;
use crate::{EngineError, Result};
use serde_json::{Map, Value as Json, json};
use std::io::{BufRead, Read};
use std::sync::Arc;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::{Store, Tenant};

/// Max bytes of a line.
const MAX_LINE: u64 = 32 << 20;
/// The members of a line.
const MEMBERS: [&str; 7] = ["key", "field", "value", "corrects", "reason", "by", "at"];

/// Where corrections are written.
#[derive(Debug, Clone, Copy)]
pub struct CorrectionsTarget<'a> {
    /// The tenant of the records.
    pub tenant: &'a Tenant,
    /// The collection.
    pub collection: CollectionId,
    /// Who makes the edits of lines that do not say by whom they were made.
    pub caller: &'a str,
}

/// What became of the corrections of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CorrectionsReport {
    /// Number of those that changed something.
    pub changed: u64,
    /// Number of those that the records had already.
    pub unchanged: u64,
    /// Number of those that failed.
    pub failed: u64,
}

/// Makes the edits that the lines of a file describe, as an export of corrections writes them. Calls `note` with the number of a line and what is to be
/// said of it: why it failed, or why its edit has no effect at present.
///
/// # Errors
/// When the store fails, or the file cannot be read. The lines before are then written; repeating the import changes only the others.
pub fn import(
    rules: &Arc<SettleRules>,
    store: &dyn Store,
    target: &CorrectionsTarget<'_>,
    file: &mut dyn BufRead,
    note: &mut dyn FnMut(u64, &str),
) -> Result<CorrectionsReport> {
    let evaluator = Evaluator::new(rules.catalogue.tables.clone());
    let collection = &rules.catalogue.collections[target.collection];
    let mut report = CorrectionsReport::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = (&mut *file).take(MAX_LINE + 1).read_until(b'\n', &mut line);
        match read.map_err(|error| EngineError::File { path: "the corrections".into(), error })? {
            0 => break,
            length if length as u64 > MAX_LINE => return Err(EngineError::Wrong(format!("line {number} has more than {} MiB", MAX_LINE >> 20))),
            _ if line.trim_ascii().is_empty() => continue,
            _ => {}
        }
        let done = match read_line(&line, target) {
            Ok(edit) => edit::run(rules, store, &evaluator, edit)?,
            Err(reason) => EditResult::Invalid(vec![reason]),
        };
        match done {
            EditResult::Done { changed, overruled, failures, .. } => {
                report.changed += u64::from(changed);
                report.unchanged += u64::from(!changed);
                overruled.iter().for_each(|own| note(number, &format!("{} has no effect at present: {}", own.field, own.reason)));
                failures.iter().for_each(|warning| note(number, warning));
            }
            refused => {
                report.failed += 1;
                note(number, &reason_of(&refused, &collection.name));
            }
        }
    }
    Ok(report)
}

/// Why an edit was not made.
fn reason_of(refused: &EditResult, collection: &str) -> String {
    match refused {
        EditResult::Invalid(reasons) | EditResult::KeyMismatch(reasons) => reasons.join("; "),
        EditResult::Missing => format!("there is no such {collection}; import its documents first"),
        EditResult::StaysDeleted(reason) => format!("the {collection} stays deleted: {reason}"),
        EditResult::UniqueConflict { field, holder } => format!("{field} must be unique: record {holder:?} has this value"),
        other => format!("it is refused: {other:?}"),
    }
}

/// Reads the edit that a line describes.
fn read_line(line: &[u8], target: &CorrectionsTarget<'_>) -> std::result::Result<Edit, String> {
    let Json::Object(mut members) = stook_catalogue::json::parse(line).map_err(|error| format!("it is not JSON: {error}"))? else {
        return Err("a line is an object: {\"key\": …, \"field\": …, \"value\": …}".into());
    };
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("there is no member `{unknown}`; {}", known_instead(unknown, MEMBERS)));
    }
    let mut text = |name: &str| match members.remove(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{name}` is a text")),
    };
    let key = Key::new(text("key")?.ok_or("`key` is missing")?).map_err(|error| format!("`key`: {error}"))?;
    let field = text("field")?.ok_or("`field` is missing")?;
    let (reason, by, at) = (text("reason")?, text("by")?, text("at")?);
    let at = at.map(|at| match from_text(&at, &FieldType::Timestamp, None) {
        Ok(Value::Int(at)) => Ok(at),
        _ => Err(format!("`at` is a time such as 2026-05-24T10:00:00Z, not {at:?}")),
    });
    let caller = by.as_deref().unwrap_or(target.caller);
    let made = EditMaker { caller: caller.into(), at: at.transpose()? };
    let value = members.remove("value").ok_or("`value` is missing; null says that the field has none")?;
    let corrects = members.remove("corrects").map_or(Json::Null, |corrects| json!({ &field: corrects }));
    let (values, clear) = match value {
        Json::Null => (Map::new(), vec![field]),
        value => (Map::from_iter([(field, value)]), Vec::new()),
    };
    let fields = EditFields { values, clear, corrects, reason: reason.into(), made: Some(made) };
    Ok(Edit {
        tenant: target.tenant.clone(),
        collection: target.collection,
        key: Some(key),
        action: EditAction::Patch(fields),
        conditions: Preconditions::default(),
        caller: target.caller.to_owned(),
        call: None,
    })
}
