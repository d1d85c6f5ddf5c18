//! The audit log of a tenant by HTTP, for its admins.

use crate::api::response::json_answer;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{MAX_INTEGER, RequestContext};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use stook_catalogue::key::Key;
use stook_catalogue::value::show_timestamp;
use stook_catalogue::value::time::timestamp_from_text;
use stook_store::access::Role;
use stook_store::audit::{AuditEntry, AuditQuery};

/// Max entries of a page.
pub const MAX_ENTRIES: u64 = 1_000;

/// `?since=TIME&record=COLLECTION/KEY&token=N&before=ID&limit=N`: entries, newest first.
pub async fn list(mut ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    let wrong = |what: &str| Problem::bad_request(format!("{what}, this is none"));
    let since = match ctx.params.single("since")? {
        None => None,
        Some(text) => Some(timestamp_from_text(&text, None).ok_or_else(|| wrong("since is a time such as 2026-11-01T00:00:00Z"))?),
    };
    let record = match ctx.params.single("record")? {
        None => None,
        Some(text) => {
            let record = text.split_once('/').and_then(|(collection, key)| Some((collection.to_owned(), Key::new(key).ok()?)));
            Some(record.ok_or_else(|| wrong("record is COLLECTION/KEY"))?)
        }
    };
    let token = ctx.params.number("token", 1, MAX_INTEGER as u64)?;
    let before = ctx.params.number("before", 1, MAX_INTEGER as u64)?;
    let limit = ctx.params.number("limit", 1, MAX_ENTRIES)?.unwrap_or(100) as usize;
    ctx.params.end()?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let wanted = AuditQuery { tenant: Some(ctx.tenant.clone()), since, token, record, before, limit };
    let entries = reading(move || app.store.audit(&wanted)).await?;
    let next = entries.last().filter(|_| entries.len() == limit).map(|entry| entry.id);
    Ok(json_answer(StatusCode::OK, json!({ "entries": entries.iter().map(shown).collect::<Vec<_>>(), "next": next }).to_string()))
}

/// An entry as JSON.
pub fn shown(entry: &AuditEntry) -> Json {
    let AuditEntry { id, at, by, record, outcome } = entry;
    json!({
        "id": id,
        "at": show_timestamp(*at),
        "tenant": by.tenant.as_ref().map(|tenant| tenant.as_str()),
        "token": by.token,
        "caller": by.caller,
        "address": by.address,
        "operation": by.operation(),
        "collection": record.as_ref().map(|(collection, _)| collection),
        "key": record.as_ref().map(|(_, key)| key),
        "outcome": outcome,
    })
}
