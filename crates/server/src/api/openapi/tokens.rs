//! Tokens, and the audit log.

use super::operation::Operation;
use super::schema::{NO_CONTROL, list, nullable};
use crate::api::audit::MAX_ENTRIES;
use crate::guard::request::MAX_INTEGER;
use serde_json::{Map, Value as Json, json};

/// A token in responses: what every one has, and these members.
fn token(members: &[(&str, Json)]) -> Json {
    let time = || json!({ "type": "string", "format": "date-time" });
    let mut properties: Map<String, Json> = members.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    for (name, schema) in [
        ("id", json!({ "type": "integer" })),
        ("tenant", json!({ "type": ["string", "null"] })),
        ("role", role()),
        ("may", json!({ "type": "array", "items": { "type": "string" } })),
        ("name", json!({ "type": "string" })),
        ("created", time()),
        ("used", nullable(time())),
        ("expires", nullable(time())),
        ("replaced_secret_until", nullable(time())),
    ] {
        properties.insert(name.to_owned(), schema);
    }
    json!({ "type": "object", "properties": properties, "required": ["id", "tenant", "role", "name", "expires"] })
}

fn role() -> Json {
    json!({ "enum": ["metrics", "read", "write", "admin"] })
}

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
    let secret = || [("token", json!({ "type": "string" }))];
    add(
        "/v1/{tenant}/tokens".into(),
        "get",
        Operation::new("tokens", "tokens", "The tenant's tokens").json(200, "Tokens.", list("tokens", token(&[]))).guarded(),
    );
    let name = json!({ "type": "string", "maxLength": 100, "pattern": NO_CONTROL });
    let expires = json!({ "type": ["string", "null"], "description": "A time from now, such as 90d or 12h, or a time such as 2027-01-01T00:00:00Z; null for never." });
    let may = json!({ "type": "array", "minItems": 1, "maxItems": 200, "items": { "type": "string" }, "description": "Instead of a role, rights such as read:book, import:loan or write:item. Conditions in brackets, as in read:book[library=north], limit read and write to records that satisfy them." });
    let members = json!({ "role": role(), "may": may, "name": name, "expires": expires });
    let body = json!({ "type": "object", "properties": members, "required": ["name"], "additionalProperties": false });
    let create = Operation::new("create_token", "tokens", "Make a token").body(true, &["application/json"], body).json(
        201,
        "The token with its secret, which is shown only once.",
        token(&secret()),
    );
    add("/v1/{tenant}/tokens".into(), "post", create.guarded());
    let number = json!({ "type": "integer", "minimum": 1, "maximum": MAX_INTEGER });
    let of_token = |operation: Operation| operation.parameter("token", "path", true, number.clone(), "The token's number.");
    let body = json!({ "type": "object", "properties": members, "additionalProperties": false });
    let change = of_token(Operation::new("change_token", "tokens", "Change a token's name, rights or expiry"))
        .body(true, &["application/merge-patch+json", "application/json"], body)
        .json(200, "The token as it is now.", token(&[]));
    add("/v1/{tenant}/tokens/{token}".into(), "patch", change.guarded());
    let overlap = json!({ "type": "string", "description": "How long the old secret still works, such as 1h; at most 30d, by default not at all." });
    let body = json!({ "type": "object", "properties": { "overlap": overlap, "expires": expires }, "additionalProperties": false });
    let rotate = of_token(Operation::new("rotate_token", "tokens", "Give a token a new secret")).body(true, &["application/json"], body).json(
        200,
        "The token with its new secret, which is shown only once.",
        token(&secret()),
    );
    add("/v1/{tenant}/tokens/{token}/rotate".into(), "post", rotate.guarded());
    let text = || json!({ "type": ["string", "null"] });
    let entry = json!({ "type": "object", "properties": {
        "id": { "type": "integer" }, "at": { "type": "string", "format": "date-time" }, "tenant": text(), "token": { "type": ["integer", "null"] },
        "caller": { "type": "string" }, "address": text(), "operation": { "type": "string" }, "collection": text(), "key": text(), "outcome": { "type": "string" },
    }, "required": ["id", "at", "caller", "operation", "outcome"] });
    let entries = json!({ "type": "object", "properties": { "entries": { "type": "array", "items": entry }, "next": { "type": ["integer", "null"] } }, "required": ["entries", "next"] });
    let audit = Operation::new("audit", "tokens", "Who changed what, newest first")
        .query("since", json!({ "type": "string", "format": "date-time" }), "Only since this time.")
        .query("record", json!({ "type": "string", "pattern": "^[^/\\u0000]+/[^\\u0000]+$" }), "Only of this record, COLLECTION/KEY.")
        .query("token", number.clone(), "Only by this token.")
        .query("before", number.clone(), "Only before this entry; `next` of a page continues it.")
        .query("limit", json!({ "type": "integer", "minimum": 1, "maximum": MAX_ENTRIES }), "At most so many.")
        .json(200, "Entries.", entries);
    add("/v1/{tenant}/audit".into(), "get", audit.guarded());
    let revoke = of_token(Operation::new("revoke_token", "tokens", "Revoke a token")).empty(204, "The token has been revoked.");
    add("/v1/{tenant}/tokens/{token}".into(), "delete", revoke.guarded());
}
