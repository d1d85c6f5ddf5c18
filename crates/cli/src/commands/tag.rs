//! `tag`: definitions of tags, and the records that carry them.

use crate::arguments::tag::{TagCollectionArgs, TagCommand, TagDefinitionArgs};
use crate::open::{self, CatalogueLocation};
use crate::output::{colours, count, table};
use crate::process::{stop_signal, threads};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value as Json, json};
use std::io::BufRead;
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::key::Key;
use stook_engine::tags::{self, TagChange, TagChangeResult, TaggedCollection};
use stook_engine::work::JobRun;
use stook_store::queue::JobId;
use stook_store::tag::TagDefinition;
use stook_store::{Store, Tenant};

/// The context of all commands about tags.
struct TagContext {
    catalogue: Arc<Catalogue>,
    store: Arc<dyn Store>,
    tenant: Tenant,
    collection: String,
}

impl TagContext {
    fn open(location: &CatalogueLocation, target: &TagCollectionArgs) -> Result<Self, CommandError> {
        Self::for_target(location.written()?, target)
    }

    /// Opens it for commands that change nothing.
    fn read(location: &CatalogueLocation, target: &TagCollectionArgs) -> Result<Self, CommandError> {
        Self::for_target(location.read()?, target)
    }

    fn for_target((catalogue, store): (Arc<Catalogue>, Arc<dyn Store>), target: &TagCollectionArgs) -> Result<Self, CommandError> {
        let tenant = open::tenant(&target.tenant)?;
        let collection = match &target.of {
            Some(collection) => collection.clone(),
            None => tags::only_collection(&catalogue)?.to_owned(),
        };
        tags::collection(&catalogue, &collection)?;
        Ok(Self { catalogue, store, tenant, collection })
    }

    fn tags(&self) -> Result<TaggedCollection<'_>, CommandError> {
        Ok(TaggedCollection::new(&self.catalogue, &*self.store, &self.tenant, &self.collection)?)
    }
}

pub fn tag(location: &CatalogueLocation, command: &TagCommand) -> CommandResult {
    match command {
        TagCommand::Create { definition_args, target, wait } => {
            save(&TagContext::open(location, target)?, definition_args, true, !wait.no_wait, target.json)
        }
        TagCommand::Set { definition_args, target, wait } => {
            save(&TagContext::open(location, target)?, definition_args, false, !wait.no_wait, target.json)
        }
        TagCommand::Rename { name, to, target } => {
            let context = TagContext::for_target(location.written_existing()?, target)?;
            context.tags()?.rename(TagChange { name: name.clone(), ..TagChange::default() }, to)?;
            print_result(target.json, json!({ "tag": name, "name": to }), || format!("tag {name} is now {to}"));
            let (index, _) = tags::collection(&context.catalogue, &context.collection)?;
            let known = context.store.tags(&context.tenant, index)?.tags;
            for tag in stook_query::tags_that_name(&known, &context.collection, name) {
                eprintln!("note: tag {tag}: its query names `{name}`, which is no tag any more; change it");
            }
            Ok(0)
        }
        TagCommand::Delete { name, target } => {
            let context = TagContext::open(location, target)?;
            context.tags()?.delete(name)?;
            print_result(target.json, json!({ "deleted": name }), || format!("tag {name} is deleted"));
            Ok(0)
        }
        TagCommand::Rebuild { names, target, wait } => {
            let context = TagContext::open(location, target)?;
            match context.tags()?.reevaluate(names)? {
                Some(job) => run_evaluation(&context, job, !wait.no_wait, target.json),
                None => {
                    print_result(target.json, json!({ "job": null }), || "no tag has an XPath".to_owned());
                    Ok(0)
                }
            }
        }
        TagCommand::Ls { target } => ls(&TagContext::read(location, target)?, target.json),
        TagCommand::Show { name, target } => {
            let context = TagContext::read(location, target)?;
            let found = context.tags()?.show(name)?;
            let Some(found) = found else {
                let (index, _) = tags::collection(&context.catalogue, &context.collection)?;
                return Err(CommandError::new(tags::no_such_tag(name, &context.store.tags(&context.tenant, index)?.tags)));
            };
            if target.json {
                say!("{found}");
            } else {
                let rows: Vec<Vec<String>> = found.as_object().into_iter().flatten().map(|(name, value)| vec![name.clone(), shown(value)]).collect();
                say!("{}", table(&["", ""], &rows, &[]));
            }
            Ok(0)
        }
        TagCommand::Add { name, keys, target } => assign(&TagContext::open(location, target)?, name, (keys, &[]), target.json),
        TagCommand::Remove { name, keys, target } => assign(&TagContext::open(location, target)?, name, (&[], keys), target.json),
    }
}

fn print_result(as_json: bool, json: Json, words: impl FnOnce() -> String) {
    say!("{}", if as_json { json.to_string() } else { words() });
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Object(entries) => entries.iter().map(|(name, value)| format!("{name}: {}", shown(value))).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Reads the requested changes: of one tag from arguments, of many from a file.
fn requested_changes(definition_args: &TagDefinitionArgs) -> Result<Vec<TagChange>, CommandError> {
    let Some(file) = &definition_args.file else {
        let name = definition_args.name.clone().ok_or_else(|| CommandError::usage("give the tag's name, or a file of tags with --file"))?;
        let definition = match (&definition_args.xpath, &definition_args.query) {
            (Some(text), _) => Some(TagDefinition::XPath(text.clone())),
            (None, Some(text)) => Some(TagDefinition::Query(text.clone())),
            (None, None) => None,
        };
        let mut attributes = Map::new();
        for pair in &definition_args.attributes {
            let (name, value) = pair.split_once('=').ok_or_else(|| CommandError::usage(format!("`{pair}` is not NAME=VALUE")))?;
            attributes.insert(name.to_owned(), json!(value));
        }
        let attributes = (!attributes.is_empty()).then_some(attributes);
        return Ok(vec![TagChange { name, definition, comment: definition_args.comment.clone(), attributes }]);
    };
    let open = std::fs::File::open(file).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))?;
    let mut changes = Vec::new();
    for (number, line) in std::io::BufReader::new(open).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| CommandError::new(format!("{}, line {}: {reason}", file.display(), number + 1));
        let json: Json = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        changes.push(tags::tag_change_from_json(&json).map_err(wrong)?);
    }
    Ok(changes)
}

/// Returns the query in a change, if there is one.
fn query_of(change: &TagChange) -> Option<&str> {
    if let Some(TagDefinition::Query(text)) = &change.definition { Some(text) } else { None }
}

fn save(context: &TagContext, definition_args: &TagDefinitionArgs, new: bool, wait: bool, as_json: bool) -> CommandResult {
    let changes = requested_changes(definition_args)?;
    let (index, _) = tags::collection(&context.catalogue, &context.collection)?;
    // tags in a file may use each other, in any order
    let planned: Vec<(&str, Option<&str>)> = changes.iter().filter(|_| new).map(|change| (change.name.as_str(), query_of(change))).collect();
    for change in &changes {
        if let Some(TagDefinition::Query(text)) = &change.definition {
            let tag = stook_query::TagQuery { collection: index, name: &change.name, text, planned: &planned };
            stook_query::check_tag(&tag, &context.catalogue, &*context.store, &context.tenant)?
                .map_err(|problem| CommandError::new(render(&format!("tag {}", change.name), text, &[problem], colours()).trim_end().to_owned()))?;
        }
    }
    let TagChangeResult { advice, job } = context.tags()?.save(&changes, new)?;
    for (tag, advice) in &advice {
        eprintln!("note: tag {tag}: {advice}");
    }
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    match job {
        Some(job) => run_evaluation(context, job, wait, as_json),
        None => {
            print_result(as_json, json!({ "tags": names, "job": null }), || {
                format!("{} {}", count(names.len() as u64, "tag"), if new { "made" } else { "set" })
            });
            Ok(0)
        }
    }
}

/// Runs a job that evaluates tags, or leaves it to workers.
fn run_evaluation(context: &TagContext, job: JobId, wait: bool, as_json: bool) -> CommandResult {
    if !wait {
        print_result(as_json, json!({ "job": job }), || format!("job {job} was created; run `stook work` to evaluate it"));
        return Ok(0);
    }
    let record_count = context.store.job(job)?.progress.documents;
    let bar = ProgressBar::new(record_count.max(1));
    if let Ok(style) = ProgressStyle::with_template("evaluating {bar:30} {pos}/{len} records {per_sec}") {
        bar.set_style(style);
    }
    let stop = stop_signal()?;
    let job_result = {
        let run = JobRun { job, workers: threads(None), settles: false, stop: &stop };
        tags::run(&context.catalogue, &*context.store, &run, &|records| bar.set_position(records))?
    };
    bar.finish_and_clear();
    let progress = tags::progress(&job_result);
    let number = |name: &str| progress[name].as_u64().unwrap_or(0);
    print_result(as_json, progress.clone(), || {
        let failed = match number("failed") {
            0 => String::new(),
            failed => format!("; {} exceeded the step limit (stook journal {job})", count(failed, "record")),
        };
        format!("{} evaluated: {} added, {} removed{failed}", count(number("records"), "record"), number("added"), number("removed"))
    });
    if !job_result.state.is_final() {
        eprintln!("stopped; continue with `stook import --resume {job}` or `stook work`");
    }
    Ok(if number("failed") > 0 { 2 } else { u8::from(!job_result.state.is_final()) })
}

fn ls(context: &TagContext, as_json: bool) -> CommandResult {
    let tags = context.tags()?.list()?;
    if as_json {
        say!("{}", json!(tags));
        return Ok(0);
    }
    let row = |tag: &Json| {
        let definition = tag.get("xpath").or_else(|| tag.get("query")).map(shown).unwrap_or_default();
        let evaluation = match tag.get("evaluation") {
            Some(evaluation) if !matches!(evaluation["state"].as_str(), Some("completed")) => {
                let (done, all) = (evaluation["records"].as_u64().unwrap_or(0), evaluation["of"].as_u64().unwrap_or(0));
                format!("{} {}%", shown(&evaluation["state"]), (done * 100).checked_div(all).unwrap_or(0))
            }
            _ => String::new(),
        };
        vec![shown(&tag["name"]), shown(&tag["kind"]), tag.get("records").map(shown).unwrap_or_default(), evaluation, definition]
    };
    let rows: Vec<Vec<String>> = tags.iter().map(row).collect();
    say!("{}", table(&["tag", "kind", "records", "evaluation", "definition"], &rows, &[false, false, true]));
    Ok(0)
}

fn assign(context: &TagContext, name: &str, (add, remove): (&[String], &[String]), as_json: bool) -> CommandResult {
    let keys = |texts: &[String]| -> Result<Vec<Key>, CommandError> {
        texts.iter().map(|text| Key::new(text.as_str()).map_err(|error| CommandError::usage(error.to_string()))).collect()
    };
    let (given, unknown) = context.tags()?.assign(name, &keys(add)?, &keys(remove)?)?;
    let unknown: Vec<&str> = unknown.iter().map(Key::as_str).collect();
    print_result(as_json, json!({ "added": given.added.len(), "removed": given.removed.len(), "unknown": unknown }), || {
        format!("{} added, {} removed", given.added.len(), given.removed.len())
    });
    if !unknown.is_empty() {
        eprintln!("there is no record {}", unknown.join(", "));
    }
    Ok(u8::from(!unknown.is_empty()))
}
