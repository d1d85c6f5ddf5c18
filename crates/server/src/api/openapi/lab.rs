//! Runs of the lab.

use super::operation::Operation;
use super::schema::{nullable, object, text};
use crate::api::runs::NAME;
use serde_json::{Value as Json, json};

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
    let run = json!({ "type": "object", "properties": { "name": text(), "bytes": { "type": "integer" }, "written": text() }, "required": ["name", "bytes", "written"] });
    let runs = json!({ "type": "object", "properties": { "runs": { "type": "array", "items": run } }, "required": ["runs"] });
    add("/v1/{tenant}/lab".into(), "get", Operation::new("runs", "lab", "Runs of the lab").json(200, "Runs, the newest first.", runs).guarded());
    let name = json!({ "type": "string", "pattern": NAME, "minLength": 1, "maxLength": 200 });
    let run = |id: &str, summary: &str| Operation::new(id, "lab", summary).parameter("run", "path", true, name.clone(), "Its name.");
    add("/v1/{tenant}/lab/{run}".into(), "get", run("run", "A run of the lab").json(200, "The run's file.", object()).guarded());
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let table = json!({
        "type": "object",
        "properties": {
            "headings": texts(), "rows": { "type": "array", "items": texts() },
            "names": { "type": "integer", "description": "columns at the front that are names; the others are numbers" }
        }
    });
    let section = json!({ "type": "object", "properties": { "title": text(), "words": texts(), "table": nullable(table), "picture": { "type": ["string", "null"], "description": "SVG" } } });
    let report = run("report", "Report of a run, or comparison with another")
        .query("beside", name.clone(), "The other one: what changed, and whether it is more than noise.")
        .json(200, "Words, tables and pictures.", json!({ "type": "object", "properties": { "title": text(), "sections": { "type": "array", "items": section } }, "required": ["title", "sections"] }));
    add("/v1/{tenant}/lab/{run}/report".into(), "get", report.guarded());
}
