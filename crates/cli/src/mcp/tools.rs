//! The tools: their names, what models are told about them, and their arguments.

use super::arguments::{ToolArguments, ToolResult};
use super::protocol::Request;
use super::reading::{MAX_CHANGES, MAX_FIELDS, MAX_OFFSET, MAX_ROWS};
use super::server::READ_TIME;
use super::writing::MAX_KEYS;
use super::{Context, describe, reading, writing};
use crate::commands::audit;
use serde_json::{Map, Value as Json, json};
use std::time::Duration;
use stook_catalogue::diagnostic::known_instead;

/// What a tool does to the catalogue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// It only reads.
    Reads,
    /// It changes something, and the same call again changes nothing more.
    Sets,
    /// It adds something.
    Adds,
}

/// A tool.
pub struct Tool {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    effect: Effect,
    /// The schema of its arguments, and which of them are needed.
    arguments: fn() -> (Json, &'static [&'static str]),
    run: fn(&Context, ToolArguments) -> ToolResult,
}

impl Tool {
    /// Calls it. What it changes is in the audit log under its name.
    pub fn run(&self, context: &Context, arguments: Map<String, Json>) -> ToolResult {
        audit::scope_of(&format!("mcp {}", self.name)).during(|| (self.run)(context, ToolArguments::new(arguments)))
    }

    fn described(&self) -> Json {
        let (properties, required) = (self.arguments)();
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.about,
            "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
            "annotations": {
                "readOnlyHint": self.effect == Effect::Reads,
                "destructiveHint": self.effect == Effect::Sets,
                "idempotentHint": self.effect != Effect::Adds,
                "openWorldHint": false,
            },
        })
    }
}

/// All tools.
const TOOLS: [Tool; 8] = [
    Tool {
        name: "describe_catalogue",
        title: "Describe the catalogue",
        about: "Says which collections, fields, sources and services the catalogue has, and shows the query language by examples. With `collection`, says of each \
            field of that collection its type, how its value is chosen or computed, which index it has and to which collection it links.",
        effect: Effect::Reads,
        arguments: || (json!({ "collection": collection() }), &[]),
        run: describe::describe_catalogue,
    },
    Tool {
        name: "query",
        title: "Query records",
        about: "Finds records with the query language: `book year>=1990 title=*sea* | grep title, year | sort year- | limit 20`. `book ~ \"deep sea\"` searches words; words alone are \
            searched for in all collections; `book | count(key) by publisher` computes. Mistakes are answered with their place and what may be meant. `next` has the offset of the next page, if \
            there is one. `may_be_incomplete` says that services were not asked.",
        effect: Effect::Reads,
        arguments: || {
            let offset = json!({ "type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "description": "Rows to skip: that of `next`." });
            let limit = json!({ "type": "integer", "minimum": 1, "maximum": MAX_ROWS, "description": "Most rows; 50 if not given." });
            let plan = json!({ "type": "boolean", "description": "Say how the store would find the records, instead of finding them." });
            (json!({ "query": { "type": "string", "description": "The query." }, "offset": offset, "limit": limit, "plan": plan }), &["query"])
        },
        run: reading::query,
    },
    Tool {
        name: "get_record",
        title: "Get a record",
        about: "Shows one record by its collection and key: all its values, or those of some fields.",
        effect: Effect::Reads,
        arguments: || (json!({ "collection": collection(), "key": key(), "fields": fields() }), &["collection", "key"]),
        run: reading::get_record,
    },
    Tool {
        name: "explain_record",
        title: "Explain a record",
        about: "Shows where the values of a record come from: for each field its value, the sources that give it, the rule by which it was chosen, and what other sources say \
            instead; and the contributions with their times, jobs and documents. `stale` values are being computed again.",
        effect: Effect::Reads,
        arguments: || (json!({ "collection": collection(), "key": key(), "fields": fields() }), &["collection", "key"]),
        run: reading::explain_record,
    },
    Tool {
        name: "changes_since",
        title: "What has changed",
        about: "Lists what has changed in records after a cursor, in the order of commits, with the sources and jobs that it follows from. Keep `cursor` to ask again later. Only collections whose \
            changes are kept have any.",
        effect: Effect::Reads,
        arguments: || {
            let cursor = json!({ "type": "string", "description": "From a former result, or `now`; from the first change on if not given." });
            let limit = json!({ "type": "integer", "minimum": 1, "maximum": MAX_CHANGES, "description": "Most changes; 100 if not given." });
            (json!({ "collection": collection(), "cursor": cursor, "limit": limit }), &[])
        },
        run: reading::changes_since,
    },
    Tool {
        name: "correct_record",
        title: "Correct a record",
        about: "Sets fields of a record by hand, as the contributor `api`. What sources say is kept. The record's value is still chosen by the rule of each field: `$overruled` in the result names \
            fields where a source comes first. null takes a former correction back; fields in `clear` have no value, whatever sources say.",
        effect: Effect::Sets,
        arguments: || {
            let values = json!({ "type": "object", "description": "Fields with their right values." });
            let clear =
                json!({ "type": "array", "items": { "type": "string" }, "maxItems": MAX_FIELDS, "description": "Fields that have no value." });
            (json!({ "collection": collection(), "key": key(), "fields": values, "clear": clear }), &["collection", "key"])
        },
        run: writing::correct_record,
    },
    Tool {
        name: "tag_records",
        title: "Tag records",
        about: "Gives a tag to records and takes it from others. The tag must exist and be assigned by hand; describe_catalogue with `collection` lists the tags.",
        effect: Effect::Sets,
        arguments: || {
            let keys = |about: &str| json!({ "type": "array", "items": { "type": "string" }, "maxItems": MAX_KEYS, "description": about });
            let tag = json!({ "type": "string", "description": "The tag's name." });
            (
                json!({ "collection": collection(), "tag": tag, "add": keys("Keys of records that get the tag."), "remove": keys("Keys of records that lose it.") }),
                &["collection", "tag"],
            )
        },
        run: writing::tag_records,
    },
    Tool {
        name: "import_file",
        title: "Import a file",
        about: "Imports a file below the catalogue's folder as a delivery of a source, and returns the job with the number of each outcome and the first issues. Try it with `dry_run` first: nothing \
            is changed then.",
        effect: Effect::Adds,
        arguments: || {
            let text = |about: &str| json!({ "type": "string", "description": about });
            let dry_run = json!({ "type": "boolean", "description": "Only say what the import would do." });
            (
                json!({ "file": text("The path, relative to the catalogue's folder."), "source": text("The source, if the file does not show which it is of."), "profile": text("A profile of the definition."), "dry_run": dry_run }),
                &["file"],
            )
        },
        run: writing::import_file,
    },
];

fn collection() -> Json {
    json!({ "type": "string", "description": "The collection's name." })
}

fn key() -> Json {
    json!({ "type": "string", "description": "The record's key, exactly as it is." })
}

fn fields() -> Json {
    json!({ "type": "array", "items": { "type": "string" }, "maxItems": MAX_FIELDS, "description": "Only these fields." })
}

fn allowed(allows_writes: bool) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(move |tool| allows_writes || tool.effect == Effect::Reads)
}

/// The tools that there are, for clients.
pub fn list(allows_writes: bool) -> Vec<Json> {
    allowed(allows_writes).map(Tool::described).collect()
}

/// Finds a tool, or says what there is instead.
pub fn find(name: &str, allows_writes: bool) -> Result<&'static Tool, String> {
    if let Some(tool) = allowed(allows_writes).find(|tool| tool.name == name) {
        return Ok(tool);
    }
    Err(match TOOLS.iter().any(|tool| tool.name == name) {
        true => format!("the tool {name} changes something; `stook mcp --allow-writes` has it"),
        false => format!("there is no tool {name:?}; {}", known_instead(name, allowed(allows_writes).map(|tool| tool.name))),
    })
}

/// How long the tool that a request calls may take; none for those that write, which a client may cancel.
pub fn time_limit(request: &Request) -> Option<Duration> {
    let name = request.params.get("name").and_then(Json::as_str);
    let reads = TOOLS.iter().find(|tool| Some(tool.name) == name).is_none_or(|tool| tool.effect == Effect::Reads);
    reads.then_some(READ_TIME)
}
