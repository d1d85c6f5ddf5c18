//! The server itself: health, metrics and tenants.

use super::operation::Operation;
use super::schema::{list, nullable, object, text};
use serde_json::{Value as Json, json};

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
    let health = |id: &str, summary: &str| {
        Operation::new(id, "service", summary).answer(200, "It is.", "text/plain", json!({ "type": "string" })).problems(&[503]).open()
    };
    add("/healthz".into(), "get", health("healthz", "Whether the process runs"));
    let part = || json!({ "type": "object", "properties": { "state": { "type": "string", "enum": ["ok", "failed"] }, "reason": text() }, "required": ["state"] });
    let service = json!({
        "type": "object",
        "properties": { "name": text(), "state": { "type": "string", "enum": ["complete", "partial", "failed", "running", "unasked"] } },
        "required": ["name", "state"]
    });
    let readiness = json!({
        "type": "object",
        "properties": { "ready": { "type": "boolean" }, "store": part(), "workers": part(), "services": { "type": "array", "items": service } },
        "required": ["ready", "store", "workers", "services"]
    });
    let readyz = Operation::new("readyz", "service", "Whether requests can be answered now")
        .json(200, "They can; services by their newest answers in this process. A problem has the same members.", readiness)
        .problems(&[503])
        .open();
    add("/readyz".into(), "get", readyz);
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
}
