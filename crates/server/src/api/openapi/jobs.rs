//! Imports, deliveries and their jobs.

use super::operation::Operation;
use super::schema::{NO_CONTROL, limit_schema, list, object, reference};
use crate::api::jobs::MAX_JOBS;
use crate::api::uploads::MAX_NAME_CHARS;
use crate::guard::request::MAX_INTEGER;
use serde_json::{Value as Json, json};
use stook_store::journal::OUTCOMES;

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
    let media = ["application/octet-stream", "application/x-ndjson", "application/json", "text/csv", "application/xml", "application/marc"];
    let named = || json!({ "type": "string", "maxLength": MAX_NAME_CHARS, "pattern": NO_CONTROL });
    let mut import = Operation::new("import", "jobs", "Import documents")
        .query("profile", named(), "A profile of the catalogue.")
        .query("source", named(), "The source; by default the one that claims the name or the content.")
        .query("as_of", json!({ "type": "string", "format": "date-time" }), "As-of time of the delivery.")
        .query("name", named(), "File name of the upload.")
        .query("path", named(), "A file in the server's folder, instead of a body.")
        .query(
            "retire_all",
            json!({ "type": "boolean" }),
            "Retire everything the file does not contain, however much; for sources with complete deliveries.",
        )
        .query(
            "accept_unexpected",
            json!({ "type": "boolean" }),
            "Import a file that is not as its source expects, also where the definition says `do: stop`.",
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
        .query("source", named(), "The source; by default the one that claims the name or the content.")
        .query("as_of", json!({ "type": "string", "format": "date-time" }), "As-of time of the delivery; default now.")
        .query("name", named(), "What the documents are called.")
        .body(true, &media, json!({}))
        .json(200, "Outcome of each document.", delivered_schema());
    deliver.0["requestBody"]["description"] = compressed.into();
    add("/v1/{tenant}/deliver".into(), "post", deliver.guarded());
    let job = |id: &str, summary: &str| {
        let number = json!({ "type": "integer", "minimum": 1, "maximum": MAX_INTEGER });
        Operation::new(id, "jobs", summary).parameter("job", "path", true, number, "The job's number.")
    };
    let jobs = Operation::new("jobs", "jobs", "The newest jobs")
        .query("limit", limit_schema(MAX_JOBS), "Most jobs.")
        .query("troubled", json!({ "type": "boolean" }), "Only those that failed or have dead chunks, of the newest 1 000.")
        .json(200, "Jobs.", list("jobs", reference("job")));
    add("/v1/{tenant}/jobs".into(), "get", jobs.guarded());
    add("/v1/{tenant}/jobs/{job}".into(), "get", job("job", "One job").json(200, "The job.", reference("job")).guarded());
    let journal = job("journal", "A job's journal")
        .query("after", json!({ "type": "integer", "minimum": 0, "maximum": MAX_INTEGER }), "Continue after this document.")
        .query("limit", limit_schema(10_000), "Most entries.")
        .query("errors", json!({ "type": "boolean" }), "Only failures and warnings.")
        .json(200, "Entries.", list("entries", object()));
    add("/v1/{tenant}/jobs/{job}/journal".into(), "get", journal.guarded());
    add(
        "/v1/{tenant}/jobs/{job}/chunks".into(),
        "get",
        job("chunks", "Chunks that are waiting, leased or dead").json(200, "Chunks.", list("chunks", object())).guarded(),
    );
    let number_schema = || json!({ "type": "integer", "minimum": 0, "maximum": MAX_INTEGER });
    let failed_document = job("failed_document", "A failed document as it was read; a row of CSV after its header")
        .parameter("document", "path", true, number_schema(), "Its number in the journal.")
        .answer(200, "The document.", "application/octet-stream", json!({}));
    add("/v1/{tenant}/jobs/{job}/documents/{document}".into(), "get", failed_document.guarded());
    let failed_documents = job("failed_documents", "The failed documents as a file that their source reads, to be mended and imported again")
        .query(
            "part",
            json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }),
            "Which file, if they cannot be in one; `stook-parts` says how many there are.",
        )
        .answer(200, "The documents; `stook-not-kept` is how many others failed and are not kept.", "application/octet-stream", json!({}))
        .problems(&[422]);
    add("/v1/{tenant}/jobs/{job}/failed".into(), "get", failed_documents.guarded());
    let retry_failed = job("retry_failed", "Import the failed documents again, as a new job, after the definition was changed")
        .json(202, "The new job; `not_kept` are the numbers of failed documents that are missing in it.", reference("job"))
        .problems(&[422]);
    add("/v1/{tenant}/jobs/{job}/failed/retry".into(), "post", retry_failed.guarded());
    let rechunk_body = json!({ "type": "object", "properties": { "documents": { "type": "integer", "minimum": 1, "maximum": 1_000_000 } }, "required": ["documents"], "additionalProperties": false });
    let rechunk_result = json!({ "type": "object", "properties": { "chunks": { "type": "integer" } }, "required": ["chunks"] });
    let rechunk = job("rechunk", "Replace a waiting or dead chunk by smaller ones")
        .parameter("chunk", "path", true, number_schema(), "Its number in the job.")
        .body(true, &["application/json"], rechunk_body)
        .json(200, "How many.", rechunk_result)
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
    let undo = job("undo", "Undo a job: records become as if it had never been delivered")
        .json(202, "The job that undoes it; the same one if this was requested before.", reference("job"))
        .problems(&[409]);
    add("/v1/{tenant}/jobs/{job}/undo".into(), "post", undo.guarded());
    let retry_result = json!({ "type": "object", "properties": { "chunks": { "type": "integer" } }, "required": ["chunks"] });
    add("/v1/{tenant}/jobs/{job}/retry".into(), "post", job("retry", "Retry dead chunks").json(200, "How many.", retry_result).guarded());
}

/// A job.
pub fn job_schema() -> Json {
    let time = json!({ "type": ["string", "null"], "format": "date-time" });
    json!({
        "type": "object",
        "properties": {
            "id": { "type": "integer" }, "kind": { "enum": ["import", "tags", "undo"] }, "tenant": { "type": "string" }, "source": { "type": "string" }, "profile": { "type": ["string", "null"] },
            "as_of": time, "files": { "type": "array", "items": { "type": "object" } },
            "state": { "enum": stook_store::queue::JOB_STATES.map(|(_, name)| name) },
            "reason": { "type": ["string", "null"] }, "created": time, "finished": time,
            "cut": { "type": "boolean", "description": "The files have been read completely, so the total is final." },
            "documents": { "type": "integer", "description": "Documents processed so far." },
            "planned": { "type": "integer", "description": "Documents in total, as far as the files have been read." }, "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
            "rate": { "type": ["number", "null"], "description": "Documents per second since the job was created." },
            "chunks_left": { "type": "integer" }, "chunks_dead": { "type": "integer" },
            "chunks_working": { "type": "integer", "description": "Chunks being processed now." },
            "undoes": { "type": ["integer", "null"], "description": "The job that this one undoes." },
            "undone_by": { "type": ["integer", "null"], "description": "The job that undoes this one, or has undone it." },
            "undoable_until": { "type": ["string", "null"], "format": "date-time", "description": "Until when the job can be undone; null if it cannot." },
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
        "properties": { "document": number, "collection": text, "key": text, "outcome": outcome, "reason": text },
        "required": ["document", "collection", "key", "outcome"]
    });
    let issue = json!({
        "type": "object",
        "properties": { "document": number, "offset": { "type": "integer" }, "key": text, "failed": { "type": "boolean" }, "reason": { "type": "string" } },
        "required": ["document", "offset", "failed", "reason"]
    });
    json!({
        "type": "object",
        "properties": {
            "counts": { "type": "object", "additionalProperties": { "type": "integer" } },
            "records": { "type": "array", "items": record },
            "troubles": { "type": "array", "items": issue }
        },
        "required": ["counts", "records", "troubles"]
    })
}
