//! The Reconciliation Service API of collections whose records have names.

use super::operation::Operation;
use super::schema::{NO_NUL, key, text};
use crate::api::reconcile::{
    MAX_CANDIDATES, MAX_CURSOR, MAX_EXTENDED_KEYS, MAX_EXTENDED_PROPERTIES, MAX_PROPERTIES, MAX_PROPOSED, MAX_QUERIES, MAX_QUERY_CHARS,
    MAX_TYPED_CHARS, reconcilable,
};
use serde_json::{Value as Json, json};
use stook_catalogue::definition::Catalogue;

/// The media type of a form.
const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of a response with a callback.
const SCRIPT: &str = "text/javascript";

/// Describes the paths of all services.
pub fn describe(catalogue: &Catalogue, add: &mut impl FnMut(String, &str, Json)) {
    for (_, collection) in reconcilable(catalogue) {
        let name = &collection.name;
        let path = format!("/v1/{{tenant}}/reconcile/{name}");
        let operation = |id: &str, summary: &str| Operation::new(&format!("reconcile_{id}{name}"), "reconciliation", summary);
        let read = |id: &str, summary: &str| {
            operation(id, summary)
                .query("callback", json!({ "type": "string", "pattern": NO_NUL }), "The name of a function that is called with the response (JSONP).")
                .answer(200, "A call of the function.", SCRIPT, json!({ "type": "string" }))
                .problems(&[422])
        };
        let typed = || json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_TYPED_CHARS });
        let described =
            read("", "The service by which other programs recognise records of this collection: what it can do, or the answer to queries")
                .query("queries", text(), "A batch of queries in JSON; without it, and without `extend`, the service is described.")
                .query("extend", text(), "Which values of which records are wanted, in JSON.")
                .json(200, "The manifest, candidates or values.", json!({ "type": "object" }));
        add(path.clone(), "get", described.guarded());
        let mut posted =
            operation("batch_", "Recognise records, or get values of them").json(200, "Candidates, or values.", json!({ "type": "object" }));
        posted.0["requestBody"] = json!({ "required": true, "content": {
            "application/json": { "schema": batch() },
            FORM: { "schema": { "type": "object", "properties": { "queries": text(), "extend": text() } } },
        } });
        add(path.clone(), "post", posted.problems(&[400, 413, 415, 422]).guarded());
        for (what, summary) in
            [("entity", "Records by the beginning of their names"), ("property", "Properties by their names"), ("type", "The type")]
        {
            let suggested = json!({ "type": "object", "properties": { "id": text(), "name": text() }, "required": ["id", "name"] });
            let suggest = read(&format!("suggest_{what}_"), summary)
                .query("prefix", typed(), "What was typed.")
                .query("cursor", json!({ "type": "integer", "minimum": 0, "maximum": MAX_CURSOR }), "How many suggestions to skip.")
                .json(
                    200,
                    "Suggestions.",
                    json!({ "type": "object", "properties": { "result": { "type": "array", "items": suggested } }, "required": ["result"] }),
                );
            add(format!("{path}/suggest/{what}"), "get", suggest.guarded());
        }
        let proposals = read("properties_", "The properties whose values can be asked for")
            .query("type", text(), "The type.")
            .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": MAX_PROPOSED }), "Most properties.")
            .json(200, "Properties.", json!({ "type": "object" }));
        add(format!("{path}/properties"), "get", proposals.guarded());
        let preview = operation("preview_", "A record in a few lines, as a page that others embed")
            .parameter("id", "query", true, key(), "The record's key.")
            .answer(200, "The page.", "text/html", json!({ "type": "string" }))
            .problems(&[422]);
        add(format!("{path}/preview"), "get", preview.guarded());
    }
}

/// A body in JSON.
fn batch() -> Json {
    let query_text = json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_QUERY_CHARS });
    let value = json!({ "type": ["string", "number", "boolean", "array", "object"] });
    let property = json!({ "type": "object", "properties": { "pid": text(), "v": value }, "required": ["pid", "v"] });
    let query = json!({
        "type": "object",
        "properties": {
            "query": query_text, "type": { "type": ["string", "array"] }, "type_strict": text(),
            "limit": { "type": "integer", "minimum": 1, "description": format!("At most {MAX_CANDIDATES} candidates are returned.") },
            "properties": { "type": "array", "maxItems": MAX_PROPERTIES, "items": property },
        },
        "additionalProperties": false,
    });
    let wanted = json!({ "type": "object", "properties": { "id": text() }, "required": ["id"] });
    let extend = json!({
        "type": "object",
        "properties": {
            "ids": { "type": "array", "maxItems": MAX_EXTENDED_KEYS, "items": key() },
            "properties": { "type": "array", "maxItems": MAX_EXTENDED_PROPERTIES, "items": wanted },
        },
        "required": ["ids", "properties"],
    });
    json!({
        "type": "object",
        "properties": { "queries": { "type": "object", "maxProperties": MAX_QUERIES, "additionalProperties": query }, "extend": extend },
        "additionalProperties": false,
        "minProperties": 1,
        "maxProperties": 1,
    })
}
