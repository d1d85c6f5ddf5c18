//! Tokens.

use super::operation::Operation;
use super::schema::list;
use crate::guard::request::MAX_INTEGER;
use serde_json::{Value as Json, json};

/// Describes these paths.
pub fn describe(add: &mut impl FnMut(String, &str, Json)) {
    let token = || json!({ "type": "object", "properties": { "id": { "type": "integer" }, "tenant": { "type": ["string", "null"] }, "role": { "enum": ["metrics", "read", "write", "admin"] }, "name": { "type": "string" }, "created": { "type": "string", "format": "date-time" }, "token": { "type": "string" } }, "required": ["id", "tenant", "role", "name"] });
    add(
        "/v1/{tenant}/tokens".into(),
        "get",
        Operation::new("tokens", "tokens", "The tenant's tokens").json(200, "Tokens.", list("tokens", token())).guarded(),
    );
    let body = json!({ "type": "object", "properties": { "role": { "enum": ["metrics", "read", "write", "admin"] }, "name": { "type": "string", "maxLength": 100, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" } }, "required": ["role", "name"], "additionalProperties": false });
    let create = Operation::new("create_token", "tokens", "Make a token").body(true, &["application/json"], body).json(
        201,
        "The token with its secret, which is shown only once.",
        token(),
    );
    add("/v1/{tenant}/tokens".into(), "post", create.guarded());
    let number = json!({ "type": "integer", "minimum": 1, "maximum": MAX_INTEGER });
    let revoke = Operation::new("revoke_token", "tokens", "Revoke a token")
        .parameter("token", "path", true, number, "The token's number.")
        .empty(204, "The token has been revoked.");
    add("/v1/{tenant}/tokens/{token}".into(), "delete", revoke.guarded());
}
