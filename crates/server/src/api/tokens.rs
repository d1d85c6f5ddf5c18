//! Tokens by HTTP. A tenant's admin sees and makes the tokens of that tenant.

use crate::api::response::json_answer;
use crate::guard::access::new_token;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::MAX_INTEGER;
use crate::guard::request::reject_other_members;
use crate::guard::request::{JSON, RequestContext};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};
use stook_catalogue::value::show_timestamp;
use stook_store::access::{NewToken, Role, Token};

fn shown(token: &Token) -> Json {
    let Token { id, created, token } = token;
    json!({ "id": id, "tenant": token.tenant.as_ref().map(|tenant| tenant.as_str()), "role": token.role.name(), "name": token.name, "created": show_timestamp(*created) })
}

/// Lists the tenant's tokens.
pub async fn list(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let tokens = blocking(move || app.store.tokens()).await?;
    let shown_tokens: Vec<Json> = tokens.iter().filter(|token| token.token.tenant.as_ref() == Some(&ctx.tenant)).map(shown).collect();
    Ok(json_answer(StatusCode::OK, json!({ "tokens": shown_tokens }).to_string()))
}

/// `{"role": R, "name": N}`: makes a token; its secret is shown only in this response.
pub async fn create(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    let mut sent = ctx.object(body, JSON).await?;
    let role = match sent.remove("role").as_ref().and_then(Json::as_str).and_then(Role::from_name) {
        Some(role) => role,
        None => return Err(Problem::unprocessable(vec!["role: metrics, read, write or admin".into()])),
    };
    let name = match sent.remove("name") {
        Some(Json::String(name)) if name.chars().count() <= 100 && !name.chars().any(char::is_control) => name,
        _ => return Err(Problem::unprocessable(vec!["name: at most 100 characters, without control characters".into()])),
    };
    reject_other_members(&sent)?;
    let created = new_token(Some(ctx.tenant.clone()), role, name);
    let (secret, token) = created.map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let stored: NewToken = token.clone();
    let id = blocking(move || {
        let id = app.store.create_token(stored)?;
        app.tokens.refresh(&*app.store).map(|()| id)
    });
    let id = id.await?;
    let body = json!({ "id": id, "tenant": ctx.tenant.as_str(), "role": role.name(), "name": token.name, "token": secret });
    let mut response = json_answer(StatusCode::CREATED, body.to_string());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Revokes one of the tenant's tokens.
pub async fn revoke(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    let text = ctx.segment("token");
    let not_found = || Problem::not_found(format!("there is no token {text:?} here"));
    let id: u64 = text.parse().ok().filter(|id| *id <= MAX_INTEGER as u64).ok_or_else(not_found)?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let revoked = blocking(move || {
        let is_own_token = app.store.tokens()?.into_iter().any(|token| token.id == id && token.token.tenant.as_ref() == Some(&tenant));
        let revoked = is_own_token && app.store.revoke_token(id)?;
        app.tokens.refresh(&*app.store).map(|()| revoked)
    });
    if revoked.await? { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(not_found()) }
}
