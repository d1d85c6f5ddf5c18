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
    fn open(place: &CatalogueLocation, of: &TagCollectionArgs) -> Result<Self, CommandError> {
        Self::of(place.written()?, of)
    }

    /// Opens it for commands that change nothing.
    fn read(place: &CatalogueLocation, of: &TagCollectionArgs) -> Result<Self, CommandError> {
        Self::of(place.read()?, of)
    }

    fn of((catalogue, store): (Arc<Catalogue>, Arc<dyn Store>), of: &TagCollectionArgs) -> Result<Self, CommandError> {
        let tenant = open::tenant(&of.tenant)?;
        let of = match &of.of {
            Some(of) => of.clone(),
            None => tags::only_collection(&catalogue)?.to_owned(),
        };
        tags::collection(&catalogue, &of)?;
        Ok(Self { catalogue, store, tenant, collection: of })
    }

    fn tags(&self) -> Result<TaggedCollection<'_>, CommandError> {
        Ok(TaggedCollection::new(&self.catalogue, &*self.store, &self.tenant, &self.collection)?)
    }
}

pub fn tag(place: &CatalogueLocation, command: &TagCommand) -> CommandResult {
    match command {
        TagCommand::Create { said, of, wait } => save(&TagContext::open(place, of)?, said, true, !wait.no_wait, of.json),
        TagCommand::Set { said, of, wait } => save(&TagContext::open(place, of)?, said, false, !wait.no_wait, of.json),
        TagCommand::Delete { name, of } => {
            let context = TagContext::open(place, of)?;
            context.tags()?.delete(name)?;
            answer(of.json, json!({ "deleted": name }), || format!("tag {name} is deleted"));
            Ok(0)
        }
        TagCommand::Rebuild { names, of, wait } => {
            let context = TagContext::open(place, of)?;
            match context.tags()?.again(names)? {
                Some(job) => evaluated(&context, job, !wait.no_wait, of.json),
                None => {
                    answer(of.json, json!({ "job": null }), || "no tag has an XPath".to_owned());
                    Ok(0)
                }
            }
        }
        TagCommand::Ls { of } => ls(&TagContext::read(place, of)?, of.json),
        TagCommand::Show { name, of } => {
            let context = TagContext::read(place, of)?;
            let found = context.tags()?.show(name)?;
            let Some(found) = found else {
                let (index, _) = tags::collection(&context.catalogue, &context.collection)?;
                return Err(CommandError::new(tags::no_such_tag(name, &context.store.tags(&context.tenant, index)?.tags)));
            };
            if of.json {
                say!("{found}");
            } else {
                let rows: Vec<Vec<String>> = found.as_object().into_iter().flatten().map(|(name, value)| vec![name.clone(), shown(value)]).collect();
                say!("{}", table(&["", ""], &rows, &[]));
            }
            Ok(0)
        }
        TagCommand::Add { name, keys, of } => assign(&TagContext::open(place, of)?, name, (keys, &[]), of.json),
        TagCommand::Remove { name, keys, of } => assign(&TagContext::open(place, of)?, name, (&[], keys), of.json),
    }
}

fn answer(as_json: bool, json: Json, words: impl FnOnce() -> String) {
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
fn wishes(said: &TagDefinitionArgs) -> Result<Vec<TagChange>, CommandError> {
    let Some(file) = &said.file else {
        let name = said.name.clone().ok_or_else(|| CommandError::usage("give the tag's name, or a file of tags with --file"))?;
        let definition = match (&said.xpath, &said.query) {
            (Some(text), _) => Some(TagDefinition::XPath(text.clone())),
            (None, Some(text)) => Some(TagDefinition::Query(text.clone())),
            (None, None) => None,
        };
        let mut attributes = Map::new();
        for pair in &said.attributes {
            let (name, value) = pair.split_once('=').ok_or_else(|| CommandError::usage(format!("`{pair}` is not NAME=VALUE")))?;
            attributes.insert(name.to_owned(), json!(value));
        }
        let attributes = (!attributes.is_empty()).then_some(attributes);
        return Ok(vec![TagChange { name, definition, comment: said.comment.clone(), attributes }]);
    };
    let open = std::fs::File::open(file).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))?;
    let mut wishes = Vec::new();
    for (number, line) in std::io::BufReader::new(open).lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |reason: String| CommandError::new(format!("{}, line {}: {reason}", file.display(), number + 1));
        let json: Json = serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        wishes.push(tags::wish_of(&json).map_err(wrong)?);
    }
    Ok(wishes)
}

/// Returns the query in a change, if there is one.
fn query_of(wish: &TagChange) -> Option<&str> {
    if let Some(TagDefinition::Query(text)) = &wish.definition { Some(text) } else { None }
}

fn save(context: &TagContext, said: &TagDefinitionArgs, new: bool, waits: bool, as_json: bool) -> CommandResult {
    let wishes = wishes(said)?;
    let (index, _) = tags::collection(&context.catalogue, &context.collection)?;
    // tags in a file may use each other, in any order
    let planned: Vec<(&str, Option<&str>)> = wishes.iter().filter(|_| new).map(|wish| (wish.name.as_str(), query_of(wish))).collect();
    for wish in &wishes {
        if let Some(TagDefinition::Query(text)) = &wish.definition {
            let tag = stook_query::TagQuery { collection: index, name: &wish.name, text, planned: &planned };
            stook_query::check_tag(&tag, &context.catalogue, &*context.store, &context.tenant)?
                .map_err(|problem| CommandError::new(render(&format!("tag {}", wish.name), text, &[problem], colours()).trim_end().to_owned()))?;
        }
    }
    let TagChangeResult { advice, job } = context.tags()?.save(&wishes, new)?;
    for (tag, advice) in &advice {
        eprintln!("note: tag {tag}: {advice}");
    }
    let names: Vec<&str> = wishes.iter().map(|wish| wish.name.as_str()).collect();
    match job {
        Some(job) => evaluated(context, job, waits, as_json),
        None => {
            answer(as_json, json!({ "tags": names, "job": null }), || {
                format!("{} {}", count(names.len() as u64, "tag"), if new { "made" } else { "set" })
            });
            Ok(0)
        }
    }
}

/// Runs a job that evaluates tags, or leaves it to workers.
fn evaluated(context: &TagContext, job: JobId, waits: bool, as_json: bool) -> CommandResult {
    if !waits {
        answer(as_json, json!({ "job": job }), || format!("job {job} was created; run `stook work` to evaluate it"));
        return Ok(0);
    }
    let all = context.store.job(job)?.progress.documents;
    let bar = ProgressBar::new(all.max(1));
    if let Ok(style) = ProgressStyle::with_template("evaluating {bar:30} {pos}/{len} records {per_sec}") {
        bar.set_style(style);
    }
    let stop = stop_signal()?;
    let done = {
        let run = JobRun { job, workers: threads(None), settles: false, stop: &stop };
        tags::run(&context.catalogue, &*context.store, &run, &|records| bar.set_position(records))?
    };
    bar.finish_and_clear();
    let progress = tags::progress(&done);
    let number = |name: &str| progress[name].as_u64().unwrap_or(0);
    answer(as_json, progress.clone(), || {
        let failed = match number("failed") {
            0 => String::new(),
            failed => format!("; {} exceeded the step limit (stook journal {job})", count(failed, "record")),
        };
        format!("{} evaluated: {} added, {} removed{failed}", count(number("records"), "record"), number("added"), number("removed"))
    });
    if !done.state.is_final() {
        eprintln!("stopped; continue with `stook import --resume {job}` or `stook work`");
    }
    Ok(if number("failed") > 0 { 2 } else { u8::from(!done.state.is_final()) })
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
            Some(own) if !matches!(own["state"].as_str(), Some("completed")) => {
                let (done, all) = (own["records"].as_u64().unwrap_or(0), own["of"].as_u64().unwrap_or(0));
                format!("{} {}%", shown(&own["state"]), (done * 100).checked_div(all).unwrap_or(0))
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
    answer(as_json, json!({ "added": given.added.len(), "removed": given.removed.len(), "unknown": unknown }), || {
        format!("{} added, {} removed", given.added.len(), given.removed.len())
    });
    if !unknown.is_empty() {
        eprintln!("there is no record {}", unknown.join(", "));
    }
    Ok(u8::from(!unknown.is_empty()))
}
