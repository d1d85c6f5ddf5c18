//! The API described in OpenAPI 3.1, made of the catalogue: every collection, transition and declared route with its types.
//! Asked for with a token, it shows that token's tenant. A page shows the same to people (`pages/docs.rs`).

use crate::App;
use crate::jobs::{MOST_JOBS, MOST_NAMED};
use crate::problem::PROBLEM_JSON;
use crate::query::{MOST_OFFSET, MOST_ROWS, MOST_TYPED, MOST_WAIT};
use crate::records::{MOST_KEYS, json_answer};
use crate::records::{OVERRULED, WARNINGS};
use crate::routes::MOST_REPEATED;
use crate::runs::NAME;
use crate::tags::MOST_RECORDS;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection, Field, KeyDefinition, TransitionArgument};
use stook_catalogue::key::MAX_KEY_BYTES;
use stook_catalogue::route::{Lookup, LookupPart, LookupRoute, Param, ParamLocation, Projection, QueryPart, Route, RouteAction};
use stook_catalogue::value::{FieldType, Value};
use stook_engine::ask::WHEN;
use stook_query::MAX_TEXT;
use stook_store::Tenant;
use stook_store::journal::OUTCOMES;
use stook_store::tag::MOST_NAME;

/// Integers that every JSON reader keeps.
pub const MOST_INTEGER: i64 = 9_007_199_254_740_991;
/// Text without NUL, which not every store keeps.
const NO_NUL: &str = "^[^\\u0000]*$";
/// Text without control characters.
const NO_CONTROL: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// The schema of a value, as the API shows and takes it.
fn schema(ty: &FieldType) -> Json {
    match ty {
        FieldType::Text => json!({ "type": "string", "pattern": NO_NUL }),
        FieldType::Integer => json!({ "type": "integer", "minimum": -MOST_INTEGER, "maximum": MOST_INTEGER }),
        FieldType::Size => json!({ "type": "integer", "minimum": 0, "maximum": MOST_INTEGER, "description": "bytes" }),
        FieldType::Float => json!({ "type": "number" }),
        FieldType::Boolean => json!({ "type": "boolean" }),
        FieldType::Timestamp => json!({ "type": "string", "format": "date-time" }),
        FieldType::Date => json!({ "type": "string", "format": "date" }),
        FieldType::Duration => json!({ "type": "string", "pattern": "^-?P", "description": "ISO 8601, in hours and less: PT1H30M" }),
        FieldType::Uuid => json!({ "type": "string", "format": "uuid" }),
        FieldType::Json => json!({}),
        FieldType::Ranges => json!({
            "type": "array",
            "items": { "type": "array", "minItems": 2, "maxItems": 2, "items": schema(&FieldType::Integer) },
            "description": "a set of integers: the first and the last of each range",
        }),
        FieldType::Struct(members) => {
            let members: Map<String, Json> = members.iter().map(|member| (member.name.clone(), nullable(schema(&member.ty)))).collect();
            json!({ "type": "object", "properties": members, "additionalProperties": false })
        }
        FieldType::List(element) => json!({ "type": "array", "items": schema(element) }),
    }
}

fn limited(ty: &FieldType, one_of: &[Value], min: Option<f64>, max: Option<f64>) -> Json {
    let mut whole = schema(ty);
    let own = if ty.is_list() { &mut whole["items"] } else { &mut whole };
    if !one_of.is_empty() {
        own["enum"] = one_of.iter().map(|value| value.to_json(ty.element())).collect();
    }
    let number = |number: f64| if number.fract() == 0.0 { json!(number as i64) } else { json!(number) };
    if let Some(min) = min {
        own["minimum"] = number(min);
    }
    if let Some(max) = max {
        own["maximum"] = number(max);
    }
    whole
}

fn nullable(schema: Json) -> Json {
    if schema.as_object().is_some_and(Map::is_empty) { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
}

fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A record as it is answered.
fn record_schema(collection: &Collection) -> Json {
    let mut members = Map::new();
    members.insert("key".into(), json!({ "type": "string" }));
    for (_, field) in collection.shown_fields() {
        members.insert(field.name.clone(), shown_schema(field.golden_type()));
    }
    for state in &collection.states {
        members.insert(state.name.clone(), shown_schema(&state.ty));
    }
    let reasons = "In responses to edits: fields in which another source's value wins, and why.";
    members.insert(OVERRULED.into(), json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": reasons }));
    let failures = "In responses to edits: expressions that failed on the record, and why; their values are missing.";
    members.insert(WARNINGS.into(), json!({ "type": "array", "items": { "type": "string" }, "description": failures }));
    json!({ "type": "object", "properties": members, "required": ["key"], "additionalProperties": false })
}

/// The schema of a value that is answered, which is not checked as sternly as one that is sent.
fn shown_schema(ty: &FieldType) -> Json {
    match ty {
        FieldType::Text | FieldType::Duration => json!({ "type": "string" }),
        FieldType::Integer | FieldType::Size => json!({ "type": "integer" }),
        FieldType::List(element) => json!({ "type": "array", "items": shown_schema(element) }),
        FieldType::Struct(members) => {
            let members: Map<String, Json> = members.iter().map(|member| (member.name.clone(), shown_schema(&member.ty))).collect();
            json!({ "type": "object", "properties": members, "additionalProperties": false })
        }
        other => schema(other),
    }
}

fn is_of_key(collection: &Collection, field: &Field) -> bool {
    match &collection.key {
        KeyDefinition::Field(index) => collection.fields[*index].name == field.name,
        KeyDefinition::Template(template) => template.names().any(|name| name == field.name),
        KeyDefinition::Expression(expression) => expression.variables().contains(&field.name),
    }
}

/// Kinds of edits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EditKind {
    Create,
    Put,
    Patch,
}

/// Fields as an edit takes them.
fn edit_schema(collection: &Collection, edit: EditKind) -> Json {
    let patch = edit == EditKind::Patch;
    let contributed = || collection.fields.iter().filter(|field| field.derive.is_none());
    let needed = |field: &Field| field.required || (is_of_key(collection, field) && !matches!(collection.key, KeyDefinition::Expression(_)));
    let one = |field: &Field| {
        let mut own = limited(&field.ty, &field.one_of, None, None);
        if needed(field) && field.ty == FieldType::Text {
            own["minLength"] = 1.into();
        }
        if matches!(collection.key, KeyDefinition::Field(_)) && is_of_key(collection, field) && field.ty == FieldType::Text {
            own["maxLength"] = MAX_KEY_BYTES.into();
        }
        let own = if patch || !needed(field) { nullable(own) } else { own };
        (field.name.clone(), own)
    };
    // the path says a key that is a field
    let said = |field: &Field| edit == EditKind::Put && matches!(collection.key, KeyDefinition::Field(_)) && is_of_key(collection, field);
    let required: Vec<&str> = contributed().filter(|field| !patch && needed(field) && !said(field)).map(|field| field.name.as_str()).collect();
    let members: Map<String, Json> = contributed().map(one).collect();
    json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false })
}

fn arguments_schema(args: &[TransitionArgument]) -> Json {
    let one = |argument: &TransitionArgument| {
        let own = limited(&argument.ty, &argument.one_of, argument.min, argument.max);
        let own = if argument.required && argument.default.is_none() { own } else { nullable(own) };
        (argument.name.clone(), own)
    };
    let required: Vec<&str> =
        args.iter().filter(|argument| argument.required && argument.default.is_none()).map(|argument| argument.name.as_str()).collect();
    let members: Map<String, Json> = args.iter().map(one).collect();
    json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false })
}

/// An operation that is being described.
struct Operation(Json);

impl Operation {
    fn new(id: &str, tag: &str, summary: &str) -> Self {
        Self(json!({ "operationId": id, "tags": [tag], "summary": summary, "parameters": [], "responses": {} }))
    }

    fn parameter(mut self, name: &str, place: &str, required: bool, schema: Json, description: &str) -> Self {
        if let Some(parameters) = self.0["parameters"].as_array_mut() {
            let mut own = json!({ "name": name, "in": place, "required": required, "schema": schema, "description": description });
            if schema_is_array(&own["schema"]) {
                own["style"] = "form".into();
                own["explode"] = true.into();
            }
            parameters.push(own);
        }
        self
    }

    fn query(self, name: &str, schema: Json, description: &str) -> Self {
        self.parameter(name, "query", false, schema, description)
    }

    fn key(self) -> Self {
        self.parameter("key", "path", true, key(), "The record's key, encoded as one segment; `-` with `?key=` for keys that cannot be one.")
    }

    fn etags(self, conditions: &[&str]) -> Self {
        let tags = json!({ "type": "string" });
        conditions.iter().fold(self, |own, name| own.parameter(name, "header", false, tags.clone(), "Entity tags of the record, or *."))
    }

    fn call_once(self) -> Self {
        let schema = json!({ "type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$" });
        self.parameter(
            "Idempotency-Key",
            "header",
            false,
            schema,
            "A repeated request with the same key gets the first one's response; kept for a day.",
        )
    }

    fn body(mut self, required: bool, media: &[&str], schema: Json) -> Self {
        let content: Map<String, Json> = media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect();
        self.0["requestBody"] = json!({ "required": required, "content": content });
        self.problems(&[400, 413, 415, 422])
    }

    fn answer(mut self, status: u16, description: &str, media: &str, schema: Json) -> Self {
        self.0["responses"][status.to_string()]["description"] = description.into();
        self.0["responses"][status.to_string()]["content"][media] = json!({ "schema": schema });
        self
    }

    fn json(self, status: u16, description: &str, schema: Json) -> Self {
        self.answer(status, description, "application/json", schema)
    }

    fn empty(mut self, status: u16, description: &str) -> Self {
        self.0["responses"][status.to_string()] = json!({ "description": description });
        self
    }

    fn problems(mut self, statuses: &[u16]) -> Self {
        for status in statuses {
            let title = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Problem");
            if self.0["responses"].get(status.to_string()).is_none() {
                self = self.answer(*status, title, PROBLEM_JSON, reference("problem"));
            }
        }
        self
    }

    /// What every guarded operation may answer.
    fn guarded(self) -> Json {
        self.problems(&[400, 401, 403, 404, 503]).0
    }

    fn open(mut self) -> Json {
        self.0["security"] = json!([]);
        self.0
    }
}

fn schema_is_array(schema: &Json) -> bool {
    schema["type"] == "array"
}

/// A record's key.
fn key() -> Json {
    json!({ "type": "string", "pattern": "^[^\\u0000]+$", "minLength": 1, "maxLength": MAX_KEY_BYTES })
}

fn counted(most: u64) -> Json {
    json!({ "type": "integer", "minimum": 1, "maximum": most })
}

/// The document for a tenant, or for whoever asks.
pub fn document(catalogue: &Catalogue, tenant: Option<&Tenant>) -> Json {
    let mut paths = Map::new();
    let tenant_schema = match tenant {
        Some(tenant) => json!({ "type": "string", "enum": [tenant.as_str()] }),
        None => json!({ "type": "string", "pattern": "^[a-z0-9_-]{1,64}$" }),
    };
    let mut add = |path: String, method: &str, mut operation: Json| {
        if path.contains("{tenant}")
            && let Some(parameters) = operation["parameters"].as_array_mut()
        {
            parameters
                .insert(0, json!({ "name": "tenant", "in": "path", "required": true, "schema": tenant_schema, "description": "Whose records." }));
        }
        let place = paths.entry(path).or_insert_with(|| json!({}));
        place[method] = operation;
    };
    general(&mut add);
    for collection in &catalogue.collections {
        of_collection(collection, &mut add);
    }
    for (index, route) in catalogue.routes.iter().enumerate() {
        add(route.path.clone(), route.method.name(), of_route(catalogue, index, route));
    }
    let mut schemas = Map::new();
    schemas.insert(
        "problem".into(),
        json!({
            "type": "object",
            "description": "Problem details (RFC 9457).",
            "properties": {
                "type": { "type": "string" }, "title": { "type": "string" }, "status": { "type": "integer" }, "detail": { "type": "string" },
                "errors": { "type": "array", "items": { "type": "string" } }
            },
            "required": ["type", "title", "status", "detail"]
        }),
    );
    schemas.insert("job".into(), job_schema());
    for collection in &catalogue.collections {
        schemas.insert(collection.name.clone(), record_schema(collection));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": catalogue.name,
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Records of several sources, consolidated by key. Queries are written as `collection field=value | sort field- | grep field`."
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearer": [] }, { "basic": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": "A token made by `stook token create`." },
                "basic": { "type": "http", "scheme": "basic", "description": "The token is the password." }
            }
        }
    })
}

fn job_schema() -> Json {
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "integer" }, "kind": { "enum": ["import", "tags"] }, "tenant": { "type": "string" }, "source": { "type": "string" }, "profile": { "type": ["string", "null"] },
            "as_of": time, "files": { "type": "array", "items": { "type": "object" } },
            "state": { "enum": stook_store::queue::JOB_STATES.map(|(_, name)| name) },
            "reason": { "type": ["string", "null"] }, "created": time, "finished": time,
            "cut": { "type": "boolean", "description": "The files have been read completely, so the total is final." },
            "documents": { "type": "integer", "description": "Documents processed so far." },
            "planned": { "type": "integer", "description": "Documents in total, as far as the files have been read." }, "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
            "rate": { "type": ["number", "null"], "description": "Documents per second since the job was created." },
            "chunks_left": { "type": "integer" }, "chunks_dead": { "type": "integer" },
            "chunks_working": { "type": "integer", "description": "Chunks being processed now." },
            "settled": { "type": "boolean", "description": "The job has ended and all derived values it affects are settled." },
            "replaced": { "type": "object", "description": "For sources with complete deliveries: what was retired, file by file, or why nothing was." }
        },
        "required": ["id", "tenant", "source", "state", "created", "counts"]
    })
}

fn delivered_schema() -> Json {
    let text = json!({ "type": ["string", "null"] });
    let (number, outcome) = (json!({ "type": "integer", "minimum": 1 }), json!({ "enum": OUTCOMES.map(|(_, name)| name) }));
    let record = json!({
        "type": "object",
        "properties": { "document": number, "collection": text, "key": text, "outcome": outcome },
        "required": ["document", "collection", "key", "outcome"]
    });
    let trouble = json!({
        "type": "object",
        "properties": { "document": number, "offset": { "type": "integer" }, "key": text, "failed": { "type": "boolean" }, "reason": { "type": "string" } },
        "required": ["document", "offset", "failed", "reason"]
    });
    json!({
        "type": "object",
        "properties": {
            "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
            "records": { "type": "array", "items": record },
            "troubles": { "type": "array", "items": trouble }
        },
        "required": ["counts", "records", "troubles"]
    })
}

fn general(add: &mut impl FnMut(String, &str, Json)) {
    let text = || json!({ "type": "string", "pattern": NO_NUL });
    let object = || json!({ "type": "object" });
    let list = |name: &str, items: Json| json!({ "type": "object", "properties": { name: { "type": "array", "items": items }, "next": { "type": ["integer", "null"] } }, "required": [name] });
    let health = |id: &str, summary: &str| {
        Operation::new(id, "service", summary).answer(200, "It is.", "text/plain", json!({ "type": "string" })).problems(&[503]).open()
    };
    add("/healthz".into(), "get", health("healthz", "Whether the process runs"));
    add("/readyz".into(), "get", health("readyz", "Whether requests can be answered now"));
    let metrics = Operation::new("metrics", "service", "Metrics in the Prometheus text format")
        .answer(200, "OpenMetrics text.", "application/openmetrics-text", json!({ "type": "string" }))
        .problems(&[401, 403, 503]);
    add("/metrics".into(), "get", metrics.0);
    let history = Operation::new("history", "service", "Rates, times and queues of the last hour, every ten seconds")
        .json(200, "Samples, oldest first; rates are per second, times in seconds.", list("points", object()))
        .problems(&[401, 403]);
    add("/metrics/history".into(), "get", history.0);
    let seconds = || json!({ "type": "number", "description": "seconds" });
    let timed = |by: &[&str]| {
        let mut members = json!({ "number": { "type": "integer" }, "mean": seconds(), "p99": nullable(seconds()) });
        by.iter().for_each(|name| members[*name] = json!({ "type": "string" }));
        json!({ "type": "array", "items": { "type": "object", "properties": members } })
    };
    let summed = json!({
        "type": "object",
        "properties": {
            "requests": timed(&["method", "route"]), "stages": timed(&["stage"]),
            "state": { "type": "object", "additionalProperties": { "type": "integer" } }
        },
        "required": ["requests", "stages", "state"]
    });
    let summary = Operation::new("summary", "service", "Requests and tasks with their durations since the process started, and the current state")
        .json(200, "Sorted by total time; p99 is null when it is above the largest bucket.", summed)
        .problems(&[401, 403]);
    add("/metrics/summary".into(), "get", summary.0);

    let named = json!({ "type": "object", "properties": { "name": text() }, "required": ["name"] });
    let tenants = Operation::new("tenants", "service", "Tenants the token may access");
    add("/v1".into(), "get", tenants.json(200, "Tenants.", list("tenants", named)).guarded());
    add(
        "/v1/{tenant}".into(),
        "get",
        Operation::new("overview", "catalogue", "The catalogue's collections and sources")
            .query(
                "counts",
                json!({ "type": "boolean" }),
                "Also the number of records and of records with conflicts (up to 1 000; up to five seconds old), tags not fully evaluated, and whether derived values are being settled.",
            )
            .json(200, "Collections and sources.", object())
            .guarded(),
    );
    let service = || json!({ "type": "object", "properties": { "service": text(), "source": text(), "state": { "enum": ["complete", "partial", "failed", "running", "unasked"] }, "unreadable": { "type": "integer" }, "example": text(), "reason": text() }, "required": ["service", "source", "state"] });
    let rows = || json!({ "type": "object", "properties": { "collection": text(), "columns": { "type": "array", "items": { "type": "string" } }, "rows": { "type": "array", "items": { "type": "object" } }, "total": { "type": "integer" }, "by_source": { "type": "array", "items": { "type": "object" } }, "over": { "type": "object" }, "explain": { "type": "array", "items": { "type": "string" } }, "services": { "type": "array", "items": service() }, "id": { "type": "string" } }, "additionalProperties": false });
    let offset = || json!({ "type": "integer", "minimum": 0, "maximum": MOST_OFFSET });
    let asking = || json!({ "enum": WHEN.map(|(name, _)| name) });
    let query = json!({ "type": "string", "pattern": NO_NUL, "minLength": 1, "maxLength": 4_000 });
    let asked = Operation::new("query", "catalogue", "Query records")
        .parameter("q", "query", true, query.clone(), "The query, for example `authority heading=Smith* | sort changed-`.")
        .query("idx", offset(), "Rows to skip.")
        .query("limit", counted(MOST_ROWS), "Maximum number of rows; default 50.")
        .query("after", text(), "Continue after this key, for queries in key order.")
        .query("total", json!({ "type": "boolean" }), "Whether to count all rows.")
        .query("explain", json!({ "type": "boolean" }), "Return the query plan instead of rows.")
        .query("by_source", json!({ "type": "boolean" }), "Also compute aggregates from each source's own values.")
        .query("format", json!({ "enum": ["json", "csv", "ndjson"] }), "json, csv or ndjson.")
        .query(
            "ask",
            asking(),
            "When to fetch from services: if nothing fresh is stored, always, later (stored records are returned at once), or never.",
        )
        .query("wait", json!({ "type": "integer", "minimum": 0, "maximum": MOST_WAIT }), "Seconds to wait for services; 20 when it is not given.")
        .json(200, "Rows.", rows())
        .json(202, "Rows available so far; services have not finished. Repeat the query to wait for them.", rows())
        .answer(200, "Rows.", "text/csv", json!({ "type": "string" }))
        .answer(200, "Rows.", "application/x-ndjson", json!({ "type": "object" }));
    add("/v1/{tenant}/query".into(), "get", asked.guarded());
    let number = || json!({ "type": "integer", "minimum": 0 });
    let value = json!({ "type": "object", "properties": { "value": text(), "records": number(), "query": text() }, "required": ["value", "records", "query"] });
    let facet = json!({ "type": "object", "properties": { "field": text(), "values": { "type": "array", "items": value }, "others": number() }, "required": ["field", "values", "others"] });
    let condition = json!({ "type": "object", "properties": { "condition": text(), "without": text() }, "required": ["condition", "without"] });
    let facets = json!({ "type": "object", "properties": { "counted": number(), "whole": { "type": "boolean" }, "facets": { "type": "array", "items": facet }, "conditions": { "type": "array", "items": condition } }, "required": ["counted", "whole", "facets", "conditions"] });
    let narrow = Operation::new("facets", "catalogue", "Values of indexed fields among the first records that a query finds")
        .parameter("q", "query", true, query_text(), "The query.")
        .json(200, "Values with their number of records and a query for each; conditions, each with the query without it.", facets);
    add("/v1/{tenant}/query/facets".into(), "get", narrow.guarded());
    let completion = json!({ "type": "object", "properties": { "word": text(), "query": text() }, "required": ["word", "query"] });
    let typed = json!({ "type": "string", "pattern": NO_NUL, "maxLength": MOST_TYPED });
    let go_on = Operation::new("completions", "catalogue", "Completions of a text: collections, fields, values of indexed fields")
        .parameter("q", "query", true, typed, "The text.")
        .json(200, "Words.", list("completions", completion));
    add("/v1/{tenant}/query/completions".into(), "get", go_on.guarded());
    let events = Operation::new("query_events", "catalogue", "How services answer a query, as server-sent events")
        .parameter("q", "query", true, query_text(), "The query.")
        .answer(200, "Events `progress` and `ended`, each with the state of every service.", "text/event-stream", json!({ "type": "string" }));
    add("/v1/{tenant}/query/events".into(), "get", events.guarded());
    let again = Operation::new("query_again", "catalogue", "The result of a query that was waiting for services")
        .parameter("id", "path", true, json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }), "The number that 202 gave.")
        .query("wait", json!({ "type": "integer", "minimum": 0, "maximum": MOST_WAIT }), "Seconds that services are waited for.")
        .json(200, "Rows.", rows())
        .json(202, "Rows that are here; services are still asked.", rows());
    add("/v1/{tenant}/query/asked/{id}".into(), "get", again.guarded());
    let suggestion = json!({ "type": "object", "properties": { "query": text(), "score": { "type": "number" }, "reasons": { "type": "array", "items": text() } }, "required": ["query", "score", "reasons"] });
    let suggestions = json!({ "type": "object", "properties": { "suggestions": { "type": "array", "maxItems": 4, "items": suggestion }, "learning": { "type": "boolean", "description": "Whether values are still being read." } }, "required": ["suggestions", "learning"] });
    let free = json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_TEXT });
    let suggest = Operation::new("suggest", "catalogue", "Queries suggested for a free text, best first")
        .parameter("text", "query", true, free, "The text, for example `smith personal`.")
        .json(200, "Queries.", suggestions);
    add("/v1/{tenant}/suggest".into(), "get", suggest.guarded());
    let day = json!({ "type": "object", "properties": { "day": { "type": "string", "format": "date" }, "group": text(), "rows": number(), "mean": { "type": "number" }, "least": { "type": "number" } }, "required": ["day", "group", "rows", "mean", "least"] });
    let days = json!({ "type": "object", "properties": { "time": text(), "whole": { "type": "boolean" }, "days": { "type": "array", "items": day } }, "required": ["time", "whole", "days"] });
    let time = || json!({ "type": "string", "format": "date-time" });
    let coverage = Operation::new("coverage", "catalogue", "Percentages of a coverage by day and group")
        .parameter("collection", "query", true, text(), "The coverage: `PARENT.COVERAGE`.")
        .query("from", time(), "Not before.")
        .query("until", time(), "Before.")
        .json(200, "Days with their groups, in order.", days);
    add("/v1/{tenant}/coverage".into(), "get", coverage.guarded());
    let child = json!({ "type": "object", "properties": { "key": text(), "start": time(), "stop": time() }, "required": ["key"] });
    let group = json!({ "type": "object", "properties": { "group": text(), "children": { "type": "array", "items": child } }, "required": ["group", "children"] });
    let children = json!({ "type": "object", "properties": { "collection": text(), "whole": { "type": "boolean" }, "groups": { "type": "array", "items": group } }, "required": ["collection", "whole", "groups"] });
    let seen = Operation::new("coverage_children", "catalogue", "Children of one parent that a coverage counts")
        .parameter("collection", "query", true, text(), "The coverage: `PARENT.COVERAGE`.")
        .parameter("parent", "query", true, key(), "The parent's key.")
        .json(200, "Records by group, in the order of their starts.", children);
    add("/v1/{tenant}/coverage/children".into(), "get", seen.guarded());
    let services = Operation::new("services", "catalogue", "Services: the latest answer of each, and fetches in progress");
    add("/v1/{tenant}/services".into(), "get", services.json(200, "Services.", list("services", service())).guarded());
    let body = json!({
        "type": "object",
        "properties": { "q": query, "idx": offset(), "limit": counted(MOST_ROWS), "after": text(), "total": { "type": "boolean" }, "explain": { "type": "boolean" }, "by_source": { "type": "boolean" }, "ask": asking(), "wait": { "type": "integer", "minimum": 0, "maximum": MOST_WAIT } },
        "required": ["q"], "additionalProperties": false
    });
    let asked = Operation::new("query_long", "catalogue", "Query records by a long query")
        .body(true, &["application/json"], body)
        .json(200, "Rows.", rows())
        .json(202, "Rows that are here; services are still asked.", rows());
    add("/v1/{tenant}/query".into(), "post", asked.guarded());
    let export = Operation::new("export", "catalogue", "All rows of a query as a stream; nothing is fetched from services")
        .parameter("q", "query", true, query.clone(), "The query.")
        .query("format", json!({ "enum": ["ndjson", "csv"] }), "The format; ndjson when it is not given.")
        .answer(200, "Rows.", "application/x-ndjson", json!({}))
        .answer(200, "Rows.", "text/csv", json!({}));
    add("/v1/{tenant}/export".into(), "get", export.guarded());
    let keys = json!({ "type": "array", "maxItems": MOST_KEYS, "items": key() });
    let body = json!({ "type": "object", "properties": { "collection": { "type": "string" }, "keys": keys }, "required": ["collection", "keys"], "additionalProperties": false });
    let found = json!({ "type": "object", "properties": { "records": { "type": "array", "items": { "type": ["object", "null"] } } }, "required": ["records"] });
    let lookup = Operation::new("lookup", "catalogue", "Many records by key").body(true, &["application/json"], body).json(
        200,
        "Records in the order of the keys, null for none.",
        found,
    );
    add("/v1/{tenant}/lookup".into(), "post", lookup.guarded());
    let body = json!({ "type": "object", "properties": { "query": query_text(), "transition": { "type": "string", "minLength": 1, "maxLength": 48 }, "args": object() }, "required": ["query", "transition"], "additionalProperties": false });
    let pick = Operation::new("pick", "catalogue", "Pick one record that satisfies a query and apply a transition to it")
        .call_once()
        .body(true, &["application/json"], body)
        .json(200, "The transition was applied.", done_schema())
        .problems(&[409]);
    add("/v1/{tenant}/pick".into(), "post", pick.guarded());

    let media = ["application/octet-stream", "application/x-ndjson", "application/json", "text/csv", "application/xml", "application/marc"];
    let named = || json!({ "type": "string", "maxLength": MOST_NAMED, "pattern": NO_CONTROL });
    let mut import = Operation::new("import", "jobs", "Import documents")
        .query("profile", named(), "A profile of the catalogue.")
        .query("source", named(), "The source; detected from the content when only one can read it.")
        .query("as_of", json!({ "type": "string", "format": "date-time" }), "As-of time of the delivery.")
        .query("name", named(), "File name of the upload.")
        .query("path", named(), "A file in the server's folder, instead of a body.")
        .query(
            "retire_all",
            json!({ "type": "boolean" }),
            "Retire everything the file does not contain, however much; for sources with complete deliveries.",
        )
        .body(false, &media, json!({}))
        .query("dry_run", json!({ "type": "boolean" }), "Change nothing; report what an import would do with the first 1 000 documents.")
        .json(202, "The job.", reference("job"))
        .json(200, "What a dry run found.", object())
        .problems(&[408, 409]);
    let compressed = "The documents, also compressed with gzip or zstd.";
    import.0["requestBody"]["description"] = compressed.into();
    add("/v1/{tenant}/import".into(), "post", import.guarded());
    let mut deliver = Operation::new("deliver", "jobs", "Write a few documents at once, in one commit, without a job")
        .query("profile", named(), "A profile of the catalogue.")
        .query("source", named(), "The source; detected from the content when only one can read it.")
        .query("as_of", json!({ "type": "string", "format": "date-time" }), "As-of time of the delivery; default now.")
        .query("name", named(), "What the documents are called.")
        .body(true, &media, json!({}))
        .json(200, "Outcome of each document.", delivered_schema());
    deliver.0["requestBody"]["description"] = compressed.into();
    add("/v1/{tenant}/deliver".into(), "post", deliver.guarded());
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
    let job = |id: &str, summary: &str| {
        let number = json!({ "type": "integer", "minimum": 1, "maximum": MOST_INTEGER });
        Operation::new(id, "jobs", summary).parameter("job", "path", true, number, "The job's number.")
    };
    let jobs = Operation::new("jobs", "jobs", "The newest jobs")
        .query("limit", counted(MOST_JOBS), "Most jobs.")
        .query("troubled", json!({ "type": "boolean" }), "Only those that failed or have dead chunks, of the newest 1 000.")
        .json(200, "Jobs.", list("jobs", reference("job")));
    add("/v1/{tenant}/jobs".into(), "get", jobs.guarded());
    add("/v1/{tenant}/jobs/{job}".into(), "get", job("job", "One job").json(200, "The job.", reference("job")).guarded());
    let journal = job("journal", "A job's journal")
        .query("after", json!({ "type": "integer", "minimum": 0, "maximum": MOST_INTEGER }), "Continue after this document.")
        .query("limit", counted(10_000), "Most entries.")
        .query("errors", json!({ "type": "boolean" }), "Only failures and warnings.")
        .json(200, "Entries.", list("entries", object()));
    add("/v1/{tenant}/jobs/{job}/journal".into(), "get", journal.guarded());
    add(
        "/v1/{tenant}/jobs/{job}/chunks".into(),
        "get",
        job("chunks", "Chunks that are waiting, leased or dead").json(200, "Chunks.", list("chunks", object())).guarded(),
    );
    let place = || json!({ "type": "integer", "minimum": 0, "maximum": MOST_INTEGER });
    let kept = job("failed_document", "A failed document as it was read, up to 64 KiB")
        .parameter("document", "path", true, place(), "Its number in the journal.")
        .answer(200, "The document.", "application/octet-stream", json!({}));
    add("/v1/{tenant}/jobs/{job}/documents/{document}".into(), "get", kept.guarded());
    let smaller = json!({ "type": "object", "properties": { "documents": { "type": "integer", "minimum": 1, "maximum": 1_000_000 } }, "required": ["documents"], "additionalProperties": false });
    let made = json!({ "type": "object", "properties": { "chunks": { "type": "integer" } }, "required": ["chunks"] });
    let rechunk = job("rechunk", "Replace a waiting or dead chunk by smaller ones")
        .parameter("chunk", "path", true, place(), "Its number in the job.")
        .body(true, &["application/json"], smaller)
        .json(200, "How many.", made)
        .problems(&[409]);
    add("/v1/{tenant}/jobs/{job}/chunks/{chunk}/rechunk".into(), "post", rechunk.guarded());
    let events = job("events", "Progress of a job as server-sent events").answer(
        200,
        "Events `progress` and `ended`.",
        "text/event-stream",
        json!({ "type": "string" }),
    );
    add("/v1/{tenant}/jobs/{job}/events".into(), "get", events.guarded());
    add(
        "/v1/{tenant}/jobs/{job}/cancel".into(),
        "post",
        job("cancel", "Cancel a job").json(200, "The job.", reference("job")).problems(&[409]).guarded(),
    );
    let again = json!({ "type": "object", "properties": { "chunks": { "type": "integer" } }, "required": ["chunks"] });
    add("/v1/{tenant}/jobs/{job}/retry".into(), "post", job("retry", "Retry dead chunks").json(200, "How many.", again).guarded());

    let token = || json!({ "type": "object", "properties": { "id": { "type": "integer" }, "tenant": { "type": ["string", "null"] }, "role": { "enum": ["read", "write", "admin"] }, "name": { "type": "string" }, "created": { "type": "string", "format": "date-time" }, "token": { "type": "string" } }, "required": ["id", "tenant", "role", "name"] });
    add(
        "/v1/{tenant}/tokens".into(),
        "get",
        Operation::new("tokens", "tokens", "The tenant's tokens").json(200, "Tokens.", list("tokens", token())).guarded(),
    );
    let body = json!({ "type": "object", "properties": { "role": { "enum": ["read", "write", "admin"] }, "name": { "type": "string", "maxLength": 100, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" } }, "required": ["role", "name"], "additionalProperties": false });
    let create = Operation::new("create_token", "tokens", "Make a token").body(true, &["application/json"], body).json(
        201,
        "The token with its secret, which is shown only once.",
        token(),
    );
    add("/v1/{tenant}/tokens".into(), "post", create.guarded());
    let number = json!({ "type": "integer", "minimum": 1, "maximum": MOST_INTEGER });
    let revoke = Operation::new("revoke_token", "tokens", "Revoke a token")
        .parameter("token", "path", true, number, "The token's number.")
        .empty(204, "The token has been revoked.");
    add("/v1/{tenant}/tokens/{token}".into(), "delete", revoke.guarded());
}

fn query_text() -> Json {
    json!({ "type": "string", "pattern": NO_NUL, "minLength": 1, "maxLength": 4_000 })
}

fn done_schema() -> Json {
    json!({ "type": "object", "properties": { "key": { "type": "string" }, "transition": { "type": "string" }, "state": { "type": "object" } }, "required": ["key", "transition", "state"] })
}

fn of_collection(collection: &Collection, add: &mut impl FnMut(String, &str, Json)) {
    let name = &collection.name;
    let all = format!("/v1/{{tenant}}/{name}");
    let one = format!("{all}/{{key}}");
    let operation = |id: &str, summary: &str| Operation::new(&format!("{id}_{name}"), name, summary);
    let deleted = |operation: Operation| operation.query("deleted", json!({ "type": "boolean" }), "Also a record that was deleted.");
    let shown = |operation: Operation| operation.json(200, "The record; its ETag is its revision.", reference(name)).empty(304, "Not modified.");
    let by_key = operation("find", "One record by ?key=").parameter("key", "query", true, key(), "The record's key.").etags(&["If-None-Match"]);
    add(all.clone(), "get", shown(deleted(by_key)).guarded());
    let clear = |operation: Operation| {
        let names: Vec<&str> = collection.fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str()).collect();
        let schema = json!({ "type": "array", "items": { "enum": names } });
        operation.query("clear", schema, "Fields to clear, whatever other sources say.")
    };
    if collection.tags.is_some() {
        of_tags(collection, add);
    }
    let is_written = collection.rows_of.is_none();
    let create = clear(operation("create", "Create a record"))
        .body(true, &["application/json"], edit_schema(collection, EditKind::Create))
        .json(201, "The record.", reference(name))
        .problems(&[409, 412]);
    if is_written {
        add(all, "post", create.guarded());
    }
    add(one.clone(), "get", shown(deleted(operation("get", "One record").key().etags(&["If-None-Match"]))).guarded());
    let put = clear(operation("put", "Replace the API's contribution to a record"))
        .key()
        .etags(&["If-Match", "If-None-Match"])
        .body(true, &["application/json"], edit_schema(collection, EditKind::Put))
        .json(200, "The record.", reference(name))
        .json(201, "The record, which is new.", reference(name))
        .problems(&[409, 412]);
    if is_written {
        add(one.clone(), "put", put.guarded());
    }
    let patch = clear(operation("patch", "Patch the API's contribution (JSON Merge Patch, RFC 7396); null withdraws a field"))
        .key()
        .etags(&["If-Match"])
        .body(true, &["application/merge-patch+json", "application/json"], edit_schema(collection, EditKind::Patch))
        .json(200, "The record.", reference(name))
        .problems(&[409, 412]);
    if is_written {
        add(one.clone(), "patch", patch.guarded());
    }
    let delete = operation("delete", "Delete a record").key().etags(&["If-Match"]).empty(204, "Deleted.").problems(&[409, 412]);
    // a record that others say exists later than this is still there
    let delete = delete.json(200, "The record still exists because of other contributions.", reference(name));
    if is_written {
        add(one.clone(), "delete", delete.guarded());
    }
    add(
        format!("{one}/explain"),
        "get",
        deleted(operation("explain", "Where each value comes from").key()).json(200, "The explanation.", json!({ "type": "object" })).guarded(),
    );
    let document = operation("document", "A kept document, as delivered")
        .key()
        .query("contributor", json!({ "type": "string", "pattern": NO_NUL }), "The contributor; default the one with the newest document.")
        .empty(204, "None is kept.")
        .answer(200, "As it was delivered.", "application/octet-stream", json!({ "type": "string" }));
    add(format!("{one}/document"), "get", document.guarded());
    let entry = json!({ "type": "object", "properties": { "id": { "type": "integer" }, "at": { "type": "string", "format": "date-time" }, "transition": { "type": ["string", "null"] }, "caller": { "type": "string" }, "change": { "type": "object" } }, "required": ["id", "at", "transition", "caller", "change"] });
    let log = deleted(operation("log", "Change log of the record, newest first").key())
        .query("limit", counted(1_000), "Most entries.")
        .query("before", json!({ "type": "integer", "minimum": 1, "maximum": MOST_INTEGER }), "Continue after this entry.")
        .json(200, "Entries.", json!({ "type": "object", "properties": { "entries": { "type": "array", "items": entry }, "next": { "type": ["integer", "null"] } }, "required": ["entries", "next"] }));
    add(format!("{one}/log"), "get", log.guarded());
    for transition in &collection.transitions {
        let needs = transition.args.iter().any(|argument| argument.required && argument.default.is_none());
        let mut run = operation(&transition.name, &format!("The transition {}", transition.name))
            .key()
            .call_once()
            .body(needs, &["application/json"], arguments_schema(&transition.args))
            .json(200, "The transition was applied.", done_schema())
            .problems(&[409]);
        for refusal in &transition.refuse {
            run = run.problems(&[refusal.code]);
        }
        add(format!("{one}/{}", transition.name), "post", run.guarded());
    }
    let mut formats = vec!["ndjson", "csv"];
    let mut export = Operation::new(&format!("export_{name}"), name, "The whole collection")
        .answer(200, "Records.", "application/x-ndjson", json!({}))
        .answer(200, "Records.", "text/csv", json!({}));
    if collection.keep_raw {
        formats.extend(["marc", "marcxml"]);
        export = export.answer(200, "Records.", "application/marc", json!({})).answer(200, "Records.", "application/marcxml+xml", json!({}));
    }
    let export = export.query("format", json!({ "enum": formats }), "The format; ndjson when it is not given.");
    add(format!("/v1/{{tenant}}/export/{name}"), "get", export.guarded());
}

fn of_tags(collection: &Collection, add: &mut impl FnMut(String, &str, Json)) {
    let name = &collection.name;
    let operation = |id: &str, summary: &str| Operation::new(&format!("{id}_{name}"), "tags", summary);
    let named = || json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]+$", "minLength": 1, "maxLength": MOST_NAME });
    let one = |id: &str, summary: &str| operation(id, summary).parameter("tag", "path", true, named(), "The tag.");
    let words = || json!({ "type": "string", "pattern": NO_NUL, "maxLength": 10_000 });
    let attributes: Map<String, Json> =
        collection.tags.iter().flat_map(|tags| &tags.attributes).map(|(name, ty)| (name.clone(), nullable(schema(ty)))).collect();
    let said = |with_name: bool| {
        let mut properties = json!({ "xpath": words(), "query": words(), "comment": words(), "attributes": { "type": "object", "properties": attributes, "additionalProperties": false } });
        if with_name {
            properties["name"] = named();
        }
        let required: &[&str] = if with_name { &["name"] } else { &[] };
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    };
    let tag = || json!({ "type": "object", "properties": { "name": { "type": "string" }, "kind": { "enum": ["manual", "query", "xpath"] }, "records": { "type": "integer" } }, "required": ["name", "kind"] });
    let saved = || json!({ "type": "object", "properties": { "name": { "type": "string" }, "kind": { "enum": ["manual", "query", "xpath"] }, "advice": { "type": "array", "items": { "type": "string" } }, "job": { "type": ["integer", "null"] } }, "required": ["name", "kind", "advice", "job"] });
    let all = format!("/v1/{{tenant}}/tags/{name}");
    let own = format!("{all}/{{tag}}");
    let tags = json!({ "type": "object", "properties": { "tags": { "type": "array", "items": tag() } }, "required": ["tags"] });
    add(all.clone(), "get", operation("tags", "Tags, with the number of records that carry each").json(200, "Tags.", tags).guarded());
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let seen = json!({ "type": "object", "properties": { "records": { "type": "integer" }, "matches": { "type": "integer" }, "keys": texts(), "failed": { "type": "integer" }, "microseconds": { "type": "number" }, "advice": texts() }, "required": ["records", "matches", "keys", "failed", "microseconds", "advice"] });
    let create = operation("create_tag", "Make a tag; without XPath or query it is manual")
        .query("preview", json!({ "type": "boolean" }), "Nothing is made; what the XPath would find among some records, or the query among all.")
        .body(true, &["application/json"], said(true));
    add(all, "post", create.json(201, "The tag.", saved()).json(200, "What a preview found.", seen).problems(&[409]).guarded());
    add(own.clone(), "get", one("tag", "One tag").json(200, "The tag.", tag()).guarded());
    let set =
        one("set_tag", "Change a tag").body(true, &["application/merge-patch+json", "application/json"], said(false)).json(200, "The tag.", saved());
    add(own.clone(), "patch", set.guarded());
    add(own.clone(), "delete", one("delete_tag", "Delete a tag").empty(204, "No record carries it any more.").guarded());
    let job = json!({ "type": "object", "properties": { "job": { "type": ["integer", "null"] } }, "required": ["job"] });
    add(
        format!("{own}/rebuild"),
        "post",
        one("rebuild_tag", "Evaluate a tag again for all records").json(202, "The job.", job).problems(&[422]).guarded(),
    );
    let keys = || json!({ "type": "array", "maxItems": MOST_RECORDS, "items": key() });
    let body = json!({ "type": "object", "properties": { "add": keys(), "remove": keys() }, "additionalProperties": false });
    let given = json!({ "type": "object", "properties": { "added": { "type": "integer" }, "removed": { "type": "integer" }, "unknown": { "type": "array", "items": { "type": "string" } } }, "required": ["added", "removed", "unknown"] });
    let assign = one("assign_tag", "Add a manual tag to records and remove it from others").body(true, &["application/json"], body);
    add(format!("{own}/records"), "post", assign.json(200, "How many.", given).guarded());
}

fn of_route(catalogue: &Catalogue, index: usize, route: &Route) -> Json {
    let asks = if let RouteAction::Query(ask) = &route.action { Some(ask.query) } else { None };
    let id = format!("{}route_{}", if asks.is_some() { "ask_" } else { "" }, index + 1);
    let mut operation = Operation::new(&id, "routes", &format!("{} {}", route.method.name().to_uppercase(), route.path));
    let (mut members, mut needed) = (Map::new(), Vec::new());
    for (place, param) in route.params.iter().enumerate() {
        let required = param.required.is_some() && param.default.is_none();
        let own = if asks == Some(place) { query_text() } else { param_schema(param) };
        match param.place {
            ParamLocation::Path => operation = operation.parameter(&param.name, "path", true, own, ""),
            ParamLocation::Query => operation = operation.parameter(&param.name, "query", required, own, ""),
            ParamLocation::Body => {
                members.insert(param.name.clone(), if required { own } else { nullable(own) });
                if required {
                    needed.push(param.name.as_str());
                }
            }
        }
    }
    let error = catalogue.error_member.as_ref().map(|member| {
        json!({ "type": "object", "properties": { member.as_str(): { "type": ["string", "array"], "items": { "type": "string" } } }, "required": [member] })
    });
    let said = |operation: Operation, status: u16, description: &str| match &error {
        Some(schema) => operation.json(status, description, schema.clone()),
        None => operation.problems(&[status]),
    };
    if !members.is_empty() {
        let body = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": false });
        let content = json!({ "application/json": { "schema": body } });
        operation.0["requestBody"] = json!({ "required": !needed.is_empty(), "content": content });
        operation = said(said(operation, 413, "The body is too long."), 415, "The body is not JSON.");
    }
    operation = said(operation, 400, "A parameter is wrong.");
    operation = said(operation, 404, route.missing.as_deref().unwrap_or("There is no such record."));
    operation = match &route.action {
        RouteAction::Lookup(find) => {
            let answer = find_schema(catalogue, find);
            refusals(&find.lookup).into_iter().fold(operation.json(200, "What was found.", answer), |operation, (status, sentence)| {
                if operation.0["responses"].get(status.to_string()).is_some() { operation } else { said(operation, status, &sentence) }
            })
        }
        RouteAction::Query(ask) => {
            let schema = |part: QueryPart| match part {
                QueryPart::Rows => json!({ "type": "array", "items": { "type": "object" } }),
                QueryPart::Total | QueryPart::At => json!({ "type": "integer" }),
                QueryPart::Seconds => json!({ "type": "number" }),
                QueryPart::Parsed => json!({ "type": "object" }),
                QueryPart::Cached => json!({ "type": "boolean" }),
                QueryPart::Services => json!({ "type": "array", "items": { "type": "string" } }),
                QueryPart::Status => json!({ "enum": ["ok", "partial", "fail"] }),
                QueryPart::Query | QueryPart::Reason => json!({ "type": "string" }),
            };
            let members: Map<String, Json> = ask.answer.iter().map(|(name, part)| (name.clone(), schema(*part))).collect();
            let needed: Vec<&String> = ask.answer.iter().filter(|(_, part)| *part != QueryPart::Reason).map(|(name, _)| name).collect();
            let answer = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": false });
            operation.json(200, "The answer.", answer).answer(
                200,
                "A ticket: services have not answered yet.",
                "text/plain",
                json!({ "type": "string" }),
            )
        }
        RouteAction::Transition { collection, transition, .. } => {
            operation = operation.call_once().json(200, "The transition was applied.", done_schema());
            operation = said(said(operation, 409, "It was refused."), 422, "The idempotency key was used for a different request.");
            let refuse = &catalogue.collections[*collection].transitions[*transition].refuse;
            refuse
                .iter()
                .fold(said(operation, 403, "The token does not allow it."), |operation, refusal| said(operation, refusal.code, "It was refused."))
        }
    };
    // who has no token, or no place, is told so before the route is reached
    operation.problems(&[401, 403, 503]).0
}

fn param_schema(param: &Param) -> Json {
    let mut own = limited(&param.ty, &param.one_of, param.min, param.max);
    if param.ty.is_list() {
        own["maxItems"] = MOST_REPEATED.into();
        own["minItems"] = 1.into();
    }
    if param.place == ParamLocation::Path && param.ty == FieldType::Text {
        own["minLength"] = 1.into();
        own["maxLength"] = MAX_KEY_BYTES.into();
    }
    if let Some(default) = &param.default {
        own["default"] = default.to_json(&param.ty);
    }
    own
}

fn refusals(look: &Lookup) -> Vec<(u16, String)> {
    let of_include = |(_, include): &(String, Lookup)| {
        let own = match &include.required {
            stook_catalogue::route::IncludeRequirement::Refuse(status, sentence) => vec![(*status, sentence.clone())],
            _ => Vec::new(),
        };
        own.into_iter().chain(refusals(include)).collect::<Vec<_>>()
    };
    look.includes.iter().flat_map(of_include).collect()
}

fn find_schema(catalogue: &Catalogue, find: &LookupRoute) -> Json {
    let rows = look_schema(catalogue, &find.lookup);
    if find.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &(String, LookupPart)| {
        (name.clone(), if *part == LookupPart::Rows { rows.clone() } else { json!({ "type": "integer", "minimum": 0 }) })
    };
    let members: Map<String, Json> = find.answer.iter().map(member).collect();
    let names: Vec<&String> = find.answer.iter().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
}

fn look_schema(catalogue: &Catalogue, look: &Lookup) -> Json {
    let collection = &catalogue.collections[look.collection];
    let one = if look.projection.is_empty() {
        json!({ "type": "object" })
    } else {
        let member = |(name, leaf): &(String, Projection)| {
            let ty = match leaf {
                Projection::Text(_) => Some(json!({ "type": "string" })),
                Projection::Path(path) if path.len() == 1 => {
                    let field = collection.field(&path[0]).map(|(_, field)| shown_schema(field.golden_type()));
                    field.or_else(|| collection.state(&path[0]).map(|(_, state)| shown_schema(&state.ty)))
                }
                _ => None,
            };
            (name.clone(), ty.map_or(json!({}), nullable))
        };
        let members: Map<String, Json> = look.projection.iter().map(member).collect();
        let names: Vec<&String> = look.projection.iter().map(|(name, _)| name).collect();
        json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
    };
    if look.single { one } else { json!({ "type": "array", "items": one }) }
}

/// The document. Who sends a token is shown the token's tenant.
pub async fn serve(State(app): State<Arc<App>>, request: Request) -> Response {
    let sent = request.headers().contains_key(header::AUTHORIZATION);
    let own = app.tokens.caller(request.headers()).ok().and_then(|caller| caller.tenant).filter(|_| sent);
    match own {
        Some(tenant) => json_answer(StatusCode::OK, document(&app.catalogue, Some(&tenant)).to_string()),
        None => json_answer(StatusCode::OK, app.openapi.clone()),
    }
}
