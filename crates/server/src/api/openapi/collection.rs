//! Records of a collection, their transitions, exports and tags.

use super::operation::Operation;
use super::schema::{EditKind, NO_NUL, arguments_schema, edit_schema, key, limit_schema, nullable, reference, schema, transition_result_schema};
use crate::api::tags::MAX_RECORDS;
use crate::guard::request::MAX_INTEGER;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Collection;
use stook_formats::typed::TYPED_FORMATS;
use stook_store::tag::MAX_TAG_NAME;

/// Describes the paths of a collection.
pub fn describe(collection: &Collection, add: &mut impl FnMut(String, &str, Json)) {
    let name = &collection.name;
    let collection_path = format!("/v1/{{tenant}}/{name}");
    let record_path = format!("{collection_path}/{{key}}");
    let operation = |id: &str, summary: &str| Operation::new(&format!("{id}_{name}"), name, summary);
    let deleted = |operation: Operation| operation.query("deleted", json!({ "type": "boolean" }), "Also a record that was deleted.");
    let shown = |operation: Operation| operation.json(200, "The record; its ETag is its revision.", reference(name)).empty(304, "Not modified.");
    let by_key = operation("find", "One record by ?key=").parameter("key", "query", true, key(), "The record's key.").etags(&["If-None-Match"]);
    add(collection_path.clone(), "get", shown(deleted(by_key)).guarded());
    let clear = |operation: Operation| {
        let names: Vec<&str> = collection.fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str()).collect();
        let schema = json!({ "type": "array", "items": { "enum": names } });
        operation.query("clear", schema, "Fields to clear, whatever other sources say.")
    };
    if collection.tags.is_some() {
        describe_tags(collection, add);
    }
    let is_editable = collection.rows_of.is_none();
    let create = clear(operation("create", "Create a record"))
        .body(true, &["application/json"], edit_schema(collection, EditKind::Create))
        .json(201, "The record.", reference(name))
        .problems(&[409, 412])
        .call_once();
    if is_editable {
        add(collection_path, "post", create.guarded());
    }
    add(record_path.clone(), "get", shown(deleted(operation("get", "One record").key().etags(&["If-None-Match"]))).guarded());
    let put = clear(operation("put", "Replace the API's contribution to a record"))
        .key()
        .etags(&["If-Match", "If-None-Match"])
        .body(true, &["application/json"], edit_schema(collection, EditKind::Put))
        .json(200, "The record.", reference(name))
        .json(201, "The record, which is new.", reference(name))
        .problems(&[409, 412])
        .call_once();
    if is_editable {
        add(record_path.clone(), "put", put.guarded());
    }
    let patch = clear(operation("patch", "Patch the API's contribution (JSON Merge Patch, RFC 7396); null withdraws a field"))
        .key()
        .etags(&["If-Match"])
        .body(true, &["application/merge-patch+json", "application/json"], edit_schema(collection, EditKind::Patch))
        .json(200, "The record.", reference(name))
        .problems(&[409, 412])
        .call_once();
    if is_editable {
        add(record_path.clone(), "patch", patch.guarded());
    }
    let delete = operation("delete", "Delete a record").key().etags(&["If-Match"]).empty(204, "Deleted.").problems(&[409, 412, 422]).call_once();
    // other contributions may keep the record alive
    let delete = delete
        .query(
            "erase",
            json!({ "type": "boolean" }),
            "Erase the record with everything that was ever said of it, for admins; see docs/howto/erase-a-person.md.",
        )
        .query("reason", json!({ "type": "string", "pattern": "^[^\\u0000]*$" }), "Why it is erased, for the list of erasures.");
    let erased = json!({ "type": "object", "required": ["collection", "key", "existed", "traces", "linked"] });
    let delete = delete.json(
        200,
        "The record still exists because of other contributions; or, with `erase`, what was erased.",
        json!({ "anyOf": [reference(name), erased] }),
    );
    if is_editable {
        add(record_path.clone(), "delete", delete.guarded());
    }
    add(
        format!("{record_path}/explain"),
        "get",
        deleted(operation("explain", "Where each value comes from").key()).json(200, "The explanation.", json!({ "type": "object" })).guarded(),
    );
    let document = operation("document", "A kept document, as delivered")
        .key()
        .query("contributor", json!({ "type": "string", "pattern": NO_NUL }), "The contributor; default the one with the newest document.")
        .empty(204, "None is kept.")
        .answer(200, "As it was delivered.", "application/octet-stream", json!({ "type": "string" }));
    add(format!("{record_path}/document"), "get", document.guarded());
    let entry = json!({ "type": "object", "properties": { "id": { "type": "integer" }, "at": { "type": "string", "format": "date-time" }, "transition": { "type": ["string", "null"] }, "caller": { "type": "string" }, "change": { "type": "object" } }, "required": ["id", "at", "transition", "caller", "change"] });
    let log = deleted(operation("log", "Change log of the record, newest first").key())
        .query("limit", limit_schema(1_000), "Most entries.")
        .query("before", json!({ "type": "integer", "minimum": 1, "maximum": MAX_INTEGER }), "Continue after this entry.")
        .json(200, "Entries.", json!({ "type": "object", "properties": { "entries": { "type": "array", "items": entry }, "next": { "type": ["integer", "null"] } }, "required": ["entries", "next"] }));
    add(format!("{record_path}/log"), "get", log.guarded());
    for transition in &collection.transitions {
        let needs_body = transition.args.iter().any(|argument| argument.required && argument.default.is_none());
        let mut run = operation(&transition.name, &format!("The transition {}", transition.name))
            .key()
            .call_once()
            .body(needs_body, &["application/json"], arguments_schema(&transition.args))
            .json(200, "The transition was applied.", transition_result_schema())
            .problems(&[409]);
        for refusal in &transition.refuse {
            run = run.problems(&[refusal.code]);
        }
        add(format!("{record_path}/{}", transition.name), "post", run.guarded());
    }
    let mut formats = vec!["ndjson", "csv", "csv-bom", "xlsx", "parquet", "arrow"];
    let mut export = Operation::new(&format!("export_{name}"), name, "The whole collection")
        .answer(200, "Records.", "application/x-ndjson", json!({}))
        .answer(200, "Records.", "text/csv", json!({}))
        .query(
            "explain",
            json!({ "type": "boolean" }),
            "Not with marc and marcxml: export what contributors say, a row for each value, and whether it was chosen.",
        )
        .query("corrections", json!({ "type": "boolean" }), "With ndjson: export corrections, a line for each field to which an edit gives a value.")
        .query("lossy", json!({ "type": "boolean" }), "With xlsx, marc and marcxml: export although records have to be changed or left out.")
        .query("report", json!({ "type": "boolean" }), "With xlsx, marc and marcxml: list the records that would be changed or left out instead.")
        .problems(&[409]);
    for format in TYPED_FORMATS {
        export = export.answer(200, "Records.", format.media_type(), json!({}));
    }
    if collection.keep_raw {
        formats.extend(["marc", "marcxml"]);
        export = export.answer(200, "Records.", "application/marc", json!({})).answer(200, "Records.", "application/marcxml+xml", json!({}));
    }
    let export = export.query(
        "format",
        json!({ "enum": formats }),
        "The format; ndjson when it is not given. csv-bom is csv that begins with a byte order mark, which Excel needs to read UTF-8.",
    );
    add(format!("/v1/{{tenant}}/export/{name}"), "get", export.guarded());
}

fn describe_tags(collection: &Collection, add: &mut impl FnMut(String, &str, Json)) {
    let name = &collection.name;
    let operation = |id: &str, summary: &str| Operation::new(&format!("{id}_{name}"), "tags", summary);
    let named = || json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$", "minLength": 1, "maxLength": MAX_TAG_NAME });
    let tag_operation = |id: &str, summary: &str| operation(id, summary).parameter("tag", "path", true, named(), "The tag.");
    let query_or_xpath = || json!({ "type": "string", "pattern": NO_NUL, "maxLength": 10_000 });
    let attributes: Map<String, Json> =
        collection.tags.iter().flat_map(|tags| &tags.attributes).map(|attribute| (attribute.name.clone(), nullable(schema(&attribute.ty)))).collect();
    let edit_body = |with_name: bool| {
        let mut properties = json!({ "xpath": query_or_xpath(), "query": query_or_xpath(), "comment": query_or_xpath(), "attributes": { "type": "object", "properties": attributes, "additionalProperties": false } });
        properties["name"] = named();
        let required: &[&str] = if with_name { &["name"] } else { &[] };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    let tag = || json!({ "type": "object", "properties": { "name": { "type": "string" }, "kind": { "enum": ["manual", "query", "xpath"] }, "records": { "type": "integer" } }, "required": ["name", "kind"] });
    let saved = || json!({ "type": "object", "properties": { "name": { "type": "string" }, "kind": { "enum": ["manual", "query", "xpath"] }, "advice": { "type": "array", "items": { "type": "string" } }, "job": { "type": ["integer", "null"] } }, "required": ["name", "kind", "advice", "job"] });
    let tags_path = format!("/v1/{{tenant}}/tags/{name}");
    let tag_path = format!("{tags_path}/{{tag}}");
    let tags = json!({ "type": "object", "properties": { "tags": { "type": "array", "items": tag() } }, "required": ["tags"] });
    add(tags_path.clone(), "get", operation("tags", "Tags, with the number of records that carry each").json(200, "Tags.", tags).guarded());
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let preview = json!({ "type": "object", "properties": { "records": { "type": "integer" }, "matches": { "type": "integer" }, "keys": texts(), "failed": { "type": "integer" }, "microseconds": { "type": "number" }, "advice": texts() }, "required": ["records", "matches", "keys", "failed", "microseconds", "advice"] });
    let create = operation("create_tag", "Make a tag; without XPath or query it is manual")
        .query("preview", json!({ "type": "boolean" }), "Nothing is made; what the XPath would find among some records, or the query among all.")
        .body(true, &["application/json"], edit_body(true));
    add(tags_path, "post", create.json(201, "The tag.", saved()).json(200, "What a preview found.", preview).problems(&[409]).guarded());
    add(tag_path.clone(), "get", tag_operation("tag", "One tag").json(200, "The tag.", tag()).guarded());
    let set = tag_operation("set_tag", "Change a tag").body(true, &["application/merge-patch+json", "application/json"], edit_body(false)).json(
        200,
        "The tag.",
        saved(),
    );
    add(tag_path.clone(), "patch", set.guarded());
    add(tag_path.clone(), "delete", tag_operation("delete_tag", "Delete a tag").empty(204, "No record carries it any more.").guarded());
    let job = json!({ "type": "object", "properties": { "job": { "type": ["integer", "null"] } }, "required": ["job"] });
    add(
        format!("{tag_path}/rebuild"),
        "post",
        tag_operation("rebuild_tag", "Evaluate a tag again for all records").json(202, "The job.", job).problems(&[422]).guarded(),
    );
    let keys = || json!({ "type": "array", "maxItems": MAX_RECORDS, "items": key() });
    let body = json!({ "type": "object", "properties": { "add": keys(), "remove": keys() }, "additionalProperties": false });
    let assign_result = json!({ "type": "object", "properties": { "added": { "type": "integer" }, "removed": { "type": "integer" }, "unknown": { "type": "array", "items": { "type": "string" } } }, "required": ["added", "removed", "unknown"] });
    let assign = tag_operation("assign_tag", "Add a manual tag to records and remove it from others").body(true, &["application/json"], body);
    add(format!("{tag_path}/records"), "post", assign.json(200, "How many.", assign_result).guarded());
}
