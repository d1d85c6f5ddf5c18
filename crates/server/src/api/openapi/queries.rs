//! The catalogue and queries of it, coverage, services, lookups and picks.

use super::operation::Operation;
use super::schema::{NO_NUL, key, limit_schema, list, object, query_text, text, transition_result_schema};
use crate::api::changes::{MAX_CHANGES, MAX_WAIT as MAX_CHANGE_WAIT};
use crate::api::queries::{MAX_OFFSET, MAX_ROWS, MAX_TYPED_CHARS, MAX_WAIT};
use crate::api::records::MAX_KEYS;
use serde_json::{Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_engine::change_feed::followed;
use stook_engine::fetch::WHEN;
use stook_formats::typed::TYPED_FORMATS;
use stook_query::MAX_TEXT;
use stook_store::change_feed::ChangeKind;

/// Describes the paths of OAI-PMH and SRU, where records are published.
pub fn describe_published(catalogue: &Catalogue, add: &mut impl FnMut(String, &str, Json)) {
    let operation = |id: &str| {
        let verbs = ["Identify", "ListMetadataFormats", "ListSets", "ListIdentifiers", "ListRecords", "GetRecord"];
        Operation::new(id, "catalogue", "OAI-PMH 2.0: published records, and what has changed since a time")
            .query("verb", text(), &format!("What is asked for: {}; errors of the protocol have status 200.", verbs.join(", ")))
            .query("metadataPrefix", text(), "The form of records: oai_dc, marcxml or marc21.")
            .query("set", text(), "A collection.")
            .query("from", text(), "The first day or second.")
            .query("until", text(), "The last day or second.")
            .query("identifier", text(), "A record.")
            .query("resumptionToken", text(), "Where a list continues.")
            .answer(200, "A response of OAI-PMH.", "text/xml", json!({ "type": "string" }))
            .guarded()
    };
    add("/v1/{tenant}/oai".into(), "get", operation("oai"));
    for name in catalogue.published().map(|(_, collection, _)| collection.name.as_str()) {
        let search = Operation::new(&format!("sru_{name}"), "catalogue", "SRU 1.2: searches published records by CQL")
            .query("operation", text(), "searchRetrieve or explain.")
            .query("version", text(), "1.1 or 1.2.")
            .query("query", text(), "The query in CQL. Mistakes are diagnostics with status 200.")
            .query("startRecord", text(), "The position of the first record, from 1.")
            .query("maximumRecords", text(), "Records of a page, at most 100.")
            .query("recordSchema", text(), "marcxml or dc.")
            .query("recordPacking", text(), "xml or string.")
            .query("sortKeys", text(), "The order, in the form of version 1.1.")
            .answer(200, "A response of SRU.", "text/xml", json!({ "type": "string" }));
        add(format!("/v1/{{tenant}}/sru/{name}"), "get", search.guarded());
    }
}

/// Describes the paths of changes, where they are kept.
pub fn describe_changes(catalogue: &Catalogue, add: &mut impl FnMut(String, &str, Json)) {
    let cause = json!({ "type": "object", "properties": { "contributor": text(), "job": { "type": "integer" }, "removed": { "type": "boolean" } }, "required": ["contributor"] });
    let change = json!({
        "type": "object",
        "description": "A change; the last line has only `cursor` and `settled`.",
        "properties": {
            "collection": text(), "key": text(), "change": { "enum": ChangeKind::ALL.map(ChangeKind::name) }, "revision": { "type": "integer" },
            "at": { "type": "string", "format": "date-time" }, "fields": { "type": "object" }, "by": { "type": "array", "items": cause },
            "transition": text(), "settled": { "type": "boolean" }, "cursor": text()
        },
        "required": ["cursor", "settled"]
    });
    let operation = |id: &str, summary: &str| {
        Operation::new(id, "catalogue", summary)
            .query("since", text(), "The cursor after which changes are wanted, or `now`; from the first change on if it is not given.")
            .query(
                "wait",
                json!({ "type": "integer", "minimum": 0, "maximum": MAX_CHANGE_WAIT }),
                "Seconds to wait for a change if there is none; 20 when it is not given and `since` is a cursor, else 0.",
            )
            .query("limit", limit_schema(MAX_CHANGES), "Most changes of the response; 10 000 when it is not given.")
            .answer(200, "Changes in the order of commits, and last the cursor after them.", "application/x-ndjson", change.clone())
            .problems(&[410])
            .guarded()
    };
    if followed(catalogue).next().is_some() {
        add("/v1/{tenant}/changes".into(), "get", operation("changes", "What has changed in records after a cursor"));
    }
    for (_, collection) in followed(catalogue) {
        let name = &collection.name;
        add(
            format!("/v1/{{tenant}}/changes/{name}"),
            "get",
            operation(&format!("changes_{name}"), "What has changed in this collection after a cursor"),
        );
    }
}

/// Describes how sources are doing.
fn sources() -> Operation {
    let time = || json!({ "type": ["string", "null"], "format": "date-time" });
    let number = |description: &str| json!({ "type": ["integer", "null"], "minimum": 0, "description": description });
    let source = json!({
        "type": "object",
        "properties": {
            "source": text(),
            "state": { "enum": ["completed", "completed_with_errors", "failed", "cancelled", "undone", null], "description": "How its last job ended; null if none has." },
            "failure": { "type": ["string", "null"], "description": "Why that job failed." },
            "failed_documents": number("Documents of that job that failed."),
            "last_job": number("The job."),
            "last_success": time(),
            "age": number("Seconds since the last success."),
            "bytes": number("The size of the files that were imported then."),
            "unfinished": number("Jobs that have not ended.")
        },
        "required": ["source", "state", "failure", "failed_documents", "last_job", "last_success", "age", "bytes", "unfinished"]
    });
    let whole = json!({ "type": "boolean", "description": "Whether all jobs were looked at, and not only the newest 500." });
    let answer = json!({ "type": "object", "properties": { "sources": { "type": "array", "items": source }, "whole": whole }, "required": ["sources", "whole"] });
    Operation::new("sources", "catalogue", "Sources: how the last job of each ended, and when one was successful last").json(200, "Sources.", answer)
}

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
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
    let rows = || json!({ "type": "object", "properties": { "collection": text(), "columns": { "type": "array", "items": { "type": "string" } }, "rows": { "type": "array", "items": { "type": "object" } }, "total": { "type": "integer" }, "grouped": { "type": "array", "items": { "type": "string" } }, "by_source": { "type": "array", "items": { "type": "object" } }, "over": { "type": "object" }, "explain": { "type": "array", "items": { "type": "string" } }, "highlights": { "type": "array", "items": { "type": "object" } }, "hint": { "type": "string" }, "services": { "type": "array", "items": service() }, "id": { "type": "string" } }, "additionalProperties": false });
    let offset = || json!({ "type": "integer", "minimum": 0, "maximum": MAX_OFFSET });
    let ask_schema = || json!({ "enum": WHEN.map(|(name, _)| name) });
    let query = query_text();
    let asked = Operation::new("query", "catalogue", "Query records")
        .parameter("q", "query", true, query.clone(), "The query, for example `authority heading=Smith* | sort changed-`.")
        .query("idx", offset(), "Rows to skip.")
        .query("limit", limit_schema(MAX_ROWS), "Maximum number of rows; default 50.")
        .query("after", text(), "Continue after this key, for queries in key order.")
        .query("total", json!({ "type": "boolean" }), "Whether to count all rows.")
        .query("explain", json!({ "type": "boolean" }), "Return the query plan instead of rows.")
        .query("by_source", json!({ "type": "boolean" }), "Also compute aggregates from each source's own values.")
        .query("format", json!({ "enum": ["json", "csv", "ndjson"] }), "json, csv or ndjson.")
        .query(
            "ask",
            ask_schema(),
            "When to fetch from services: if nothing fresh is stored, always, later (stored records are returned at once), or never.",
        )
        .query("wait", json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT }), "Seconds to wait for services; 20 when it is not given.")
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
    let facets_operation = Operation::new("facets", "catalogue", "Values of indexed fields among the first records that a query finds")
        .parameter("q", "query", true, query_text(), "The query.")
        .json(200, "Values with their number of records and a query for each; conditions, each with the query without it.", facets);
    add("/v1/{tenant}/query/facets".into(), "get", facets_operation.guarded());
    let completion = json!({ "type": "object", "properties": { "word": text(), "query": text() }, "required": ["word", "query"] });
    let typed = json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_TYPED_CHARS });
    let completions_operation = Operation::new("completions", "catalogue", "Completions of a text: collections, fields, values of indexed fields")
        .parameter("q", "query", true, typed, "The text.")
        .json(200, "Words.", list("completions", completion));
    add("/v1/{tenant}/query/completions".into(), "get", completions_operation.guarded());
    let events = Operation::new("query_events", "catalogue", "How services answer a query, as server-sent events")
        .parameter("q", "query", true, query_text(), "The query.")
        .answer(200, "Events `progress` and `ended`, each with the state of every service.", "text/event-stream", json!({ "type": "string" }));
    add("/v1/{tenant}/query/events".into(), "get", events.guarded());
    let pending_result = Operation::new("query_again", "catalogue", "The result of a query that was waiting for services")
        .parameter("id", "path", true, json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }), "The number that 202 gave.")
        .query("wait", json!({ "type": "integer", "minimum": 0, "maximum": MAX_WAIT }), "Seconds that services are waited for.")
        .json(200, "Rows.", rows())
        .json(202, "Rows that are here; services are still asked.", rows());
    add("/v1/{tenant}/query/asked/{id}".into(), "get", pending_result.guarded());
    let suggestion = json!({ "type": "object", "properties": { "query": text(), "score": { "type": "number" }, "reasons": { "type": "array", "items": text() } }, "required": ["query", "score", "reasons"] });
    let suggestions = json!({ "type": "object", "properties": { "suggestions": { "type": "array", "maxItems": 4, "items": suggestion }, "learning": { "type": "boolean", "description": "Whether values are still being read." } }, "required": ["suggestions", "learning"] });
    let free_text = json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_TEXT });
    let suggest = Operation::new("suggest", "catalogue", "Queries suggested for a free text, best first")
        .parameter("text", "query", true, free_text, "The text, for example `smith personal`.")
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
    let children_operation = Operation::new("coverage_children", "catalogue", "Children of one parent that a coverage counts")
        .parameter("collection", "query", true, text(), "The coverage: `PARENT.COVERAGE`.")
        .parameter("parent", "query", true, key(), "The parent's key.")
        .json(200, "Records by group, in the order of their starts.", children);
    add("/v1/{tenant}/coverage/children".into(), "get", children_operation.guarded());
    let services = Operation::new("services", "catalogue", "Services: the latest answer of each, and fetches in progress");
    add("/v1/{tenant}/services".into(), "get", services.json(200, "Services.", list("services", service())).guarded());
    add("/v1/{tenant}/sources".into(), "get", sources().guarded());
    let body = json!({
        "type": "object",
        "properties": { "q": query, "idx": offset(), "limit": limit_schema(MAX_ROWS), "after": text(), "total": { "type": "boolean" }, "explain": { "type": "boolean" }, "by_source": { "type": "boolean" }, "ask": ask_schema(), "wait": { "type": "integer", "minimum": 0, "maximum": MAX_WAIT } },
        "required": ["q"], "additionalProperties": false
    });
    let asked = Operation::new("query_long", "catalogue", "Query records by a long query")
        .body(true, &["application/json"], body)
        .json(200, "Rows.", rows())
        .json(202, "Rows that are here; services are still asked.", rows());
    add("/v1/{tenant}/query".into(), "post", asked.guarded());
    let export = Operation::new("export", "catalogue", "All rows of a query as a stream; nothing is fetched from services")
        .parameter("q", "query", true, query.clone(), "The query.")
        .query(
            "format",
            json!({ "enum": ["ndjson", "csv", "csv-bom", "xlsx", "parquet", "arrow"] }),
            "The format; ndjson when it is not given. csv-bom is csv that begins with a byte order mark, which Excel needs to read UTF-8.",
        )
        .answer(200, "Rows.", "application/x-ndjson", json!({}))
        .answer(200, "Rows.", "text/csv", json!({}))
        .problems(&[409]);
    let export = TYPED_FORMATS.iter().fold(export, |export, format| export.answer(200, "Rows.", format.media_type(), json!({})));
    add("/v1/{tenant}/export".into(), "get", export.guarded());
    let keys = json!({ "type": "array", "maxItems": MAX_KEYS, "items": key() });
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
        .json(200, "The transition was applied.", transition_result_schema())
        .problems(&[409]);
    add("/v1/{tenant}/pick".into(), "post", pick.guarded());
}
