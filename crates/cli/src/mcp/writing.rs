//! Tools that change something: corrections of records, tags, imports. They exist only with `--allow-writes`.

use super::Context;
use super::arguments::{ToolArguments, ToolResult};
use super::bounded::shortened;
use super::describe::collection_named;
use super::reading::failed;
use crate::commands::jobs;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::key::Key;
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::import::{self, DryRunLimits, ImportRequest};
use stook_engine::relations::SettleRules;
use stook_engine::tags::TaggedCollection;
use stook_engine::work::JobRun;
use stook_store::cancel::CancelToken;
use stook_store::erasure::ERASED;
use stook_store::queue::JobId;

/// Max records of one call.
pub const MAX_KEYS: usize = 1_000;
/// Issues of an import that are shown.
const MAX_ISSUES: usize = 20;
/// How often an import looks whether it is still wanted.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);
/// Who makes corrections, in change logs.
const CALLER: &str = "mcp";

/// Sets fields of a record, as a contribution of `api`.
pub fn correct_record(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let (collection, key, values) = (arguments.required("collection")?, arguments.key()?, arguments.object("fields")?);
    let clear = arguments.texts("clear", super::reading::MAX_FIELDS)?.unwrap_or_default();
    arguments.end()?;
    if values.is_empty() && clear.is_empty() {
        return Err("fields: give at least one field with its right value, or a field to `clear`".into());
    }
    let (id, definition) = collection_named(&context.catalogue, &collection)?;
    let edit = Edit {
        tenant: context.tenant.clone(),
        collection: id,
        key: Some(key.clone()),
        action: EditAction::Patch(EditFields::from_members(values, clear)),
        // a correction is of a record that exists
        conditions: Preconditions { is: Some(Vec::new()), ..Preconditions::default() },
        caller: CALLER.to_owned(),
        call: None,
    };
    let rules = Arc::new(SettleRules::new(&context.catalogue));
    let evaluator = Evaluator::new(context.catalogue.tables.clone());
    let edited = edit::run(&rules, &*context.store, &evaluator, edit).map_err(failed)?;
    if let Some(answer) = edited.answer(definition) {
        return Ok(json!({ "record": answer.record, "undo": "correct_record with the former values, or null to take a correction back" }));
    }
    Err(match edited {
        EditResult::Invalid(reasons) | EditResult::KeyMismatch(reasons) => reasons.join("\n"),
        EditResult::UniqueConflict { field, holder } => format!("{field} must be unique: record {holder:?} has this value"),
        EditResult::Erased => ERASED.to_owned(),
        EditResult::StaysDeleted(reason) => format!("the {collection} stays deleted: {reason}"),
        EditResult::Missing | EditResult::PreconditionFailed => format!("there is no {collection} {:?}; keys are compared exactly", key.as_str()),
        EditResult::OutOfReach { part, by_edit } => part.refusal(&collection, by_edit),
        EditResult::Exists(_) | EditResult::Done { .. } | EditResult::Replayed { .. } => "the record could not be corrected".into(),
    })
}

/// Gives a manual tag to records, and takes it from others.
pub fn tag_records(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let (collection, tag) = (arguments.required("collection")?, arguments.required("tag")?);
    let (add, remove) = (arguments.keys("add", MAX_KEYS)?, arguments.keys("remove", MAX_KEYS)?);
    arguments.end()?;
    let tags = TaggedCollection::new(&context.catalogue, &*context.store, &context.tenant, &collection).map_err(failed)?;
    let (given, unknown) = tags.assign(&tag, &add, &remove).map_err(failed)?;
    let unknown: Vec<&str> = unknown.iter().map(Key::as_str).collect();
    Ok(json!({ "added": given.added.len(), "removed": given.removed.len(), "unknown": unknown }))
}

/// Imports a file of the catalogue's folder.
pub fn import_file(context: &Context, mut arguments: ToolArguments) -> ToolResult {
    let (file, source, profile) = (arguments.required("file")?, arguments.text("source")?, arguments.text("profile")?);
    let dry_run = arguments.flag("dry_run")?;
    arguments.end()?;
    let request = ImportRequest {
        files: vec![inside(&context.location.folder, &file)?],
        profile,
        source,
        tenant: context.tenant.clone(),
        as_of: None,
        part: None,
        arguments: Default::default(),
        retires_all: false,
        unexpected: false,
    };
    let sorted = import::sort_files(&context.catalogue, &request).map_err(failed)?;
    if sorted.imports.is_empty() {
        return Err(format!("{file}: no source claims this file by its name, its first document or its format; name the `source`"));
    }
    if dry_run {
        let limits = DryRunLimits { documents: i64::MAX as u64, troubles: MAX_ISSUES };
        let of_request = |request| import::dry_run(&context.catalogue, &*context.store, request, limits).map(|preview| preview.to_json());
        let previews = sorted.imports.iter().map(of_request).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        return Ok(json!({ "dry_run": true, "would": previews }));
    }
    let queued = import::create_all(&context.catalogue, &*context.store, &sorted.imports).map_err(failed)?;
    Ok(json!({ "jobs": queued.into_iter().map(|job| run(context, job)).collect::<ToolResult<Vec<_>>>()? }))
}

/// Runs a job until it has ended or the call is cancelled.
fn run(context: &Context, job: JobId) -> ToolResult {
    let (stop, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let token = CancelToken::current();
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                stop.fetch_or(token.as_ref().is_some_and(CancelToken::is_cancelled), Ordering::SeqCst);
                std::thread::sleep(CANCEL_INTERVAL);
            }
        });
        let run = JobRun { job, workers: crate::process::threads(None), settles: true, stop: &stop };
        let ran = import::run(&context.catalogue, &*context.store, &run, &|_| ());
        has_ended.store(true, Ordering::SeqCst);
        ran
    });
    let ended = ran.map_err(|error| format!("job {job}: {}; `stook import --resume {job}` goes on", failed(error)))?;
    let mut shown = jobs::to_json(&ended).map_err(|error| error.message)?;
    let issues = context.store.journal(job, 0, MAX_ISSUES, true).map_err(failed)?;
    let issues = issues.into_iter().map(|entry| {
        json!({ "file": jobs::file_name(&entry.file), "record": entry.record, "key": entry.key.map(|key| key.to_string()), "outcome": entry.outcome.name(), "reasons": entry.reasons })
    });
    shown["issues"] = issues.collect();
    shortened(&mut shown);
    Ok(shown)
}

/// The path of a file of a folder. Models do not import other files of this machine.
fn inside(folder: &Path, file: &str) -> ToolResult<PathBuf> {
    let resolved = |path: &Path| path.canonicalize().map_err(|error| format!("{}: {error}", path.display()));
    let (root, path) = (resolved(folder)?, resolved(&folder.join(file))?);
    match path.starts_with(&root) {
        true => Ok(path),
        false => Err(format!("{file}: only files below the catalogue's folder {} are imported here", root.display())),
    }
}
