//! Tenants by HTTP.

use crate::api::response::json_answer;
use crate::guard::blocking::blocking;
use crate::guard::problem::HandlerResult;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};

/// Lists the tenants a caller may see: its own, or all.
pub async fn list(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ShowsNoRecords);
    ctx.params.end()?;
    let tenants = match &ctx.caller.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => {
            ctx.count_store_reached();
            let app = ctx.app.clone();
            blocking(move || app.store.tenants()).await?
        }
    };
    let shown: Vec<Json> = tenants.iter().map(|tenant| json!({ "name": tenant.as_str() })).collect();
    Ok(json_answer(StatusCode::OK, json!({ "tenants": shown }).to_string()))
}
