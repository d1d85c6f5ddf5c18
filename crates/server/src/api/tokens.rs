//! Tokens by HTTP. A tenant's admin sees, makes and changes the tokens of that tenant.

use crate::api::response::json_answer;
use crate::api::transitions::{SAME_AGAIN, refuse_key};
use crate::guard::access::{TOKEN_NAME, checked_rights, is_token_name};
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::reject_other_members;
use crate::guard::request::{JSON, MAX_INTEGER, PATCH, RequestContext};
use crate::guard::secret::{Secret, expiry, now, overlap};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::value::show_timestamp;
use stook_store::access::{NewSecret, NewToken, Rights, Role, Token, TokenChange};

fn shown(token: &Token) -> Json {
    let Token { id, created, used, former, token } = token;
    let time = |time: Option<i64>| time.map(show_timestamp);
    json!({
        "id": id,
        "tenant": token.tenant.as_ref().map(|tenant| tenant.as_str()),
        "role": token.rights.role().name(),
        "may": token.rights.texts(),
        "name": token.name,
        "created": show_timestamp(*created),
        "used": time(*used),
        "expires": time(token.expires),
        "replaced_secret_until": time(former.as_ref().map(|former| former.until).filter(|until| *until > now())),
    })
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

/// Takes a role, or a list of rights, out of a body; `None` if neither is there.
fn rights(sent: &mut Map<String, Json>, catalogue: &Catalogue) -> HandlerResult<Option<Rights>> {
    let wrong = |reason: String| Problem::unprocessable(vec![reason]);
    match (sent.remove("role"), sent.remove("may")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(wrong("role, may: give one of them".into())),
        (Some(value), None) => {
            let role = value.as_str().and_then(Role::from_name);
            role.map(|role| Some(role.into())).ok_or_else(|| wrong("role: metrics, read, write or admin".into()))
        }
        (None, Some(value)) => {
            let texts: Option<Vec<&str>> = value.as_array().and_then(|list| list.iter().map(Json::as_str).collect());
            let texts = texts.filter(|texts| !texts.is_empty()).ok_or_else(|| wrong("may: a list of rights such as \"read:book\"".into()))?;
            checked_rights(&texts.join(","), catalogue).map(Some).map_err(|reason| wrong(format!("may: {reason}")))
        }
    }
}

/// Takes a name out of a body; `None` if it is not there.
fn name(sent: &mut Map<String, Json>) -> HandlerResult<Option<String>> {
    match sent.remove("name") {
        None => Ok(None),
        Some(Json::String(name)) if is_token_name(&name) => Ok(Some(name)),
        Some(_) => Err(Problem::unprocessable(vec![format!("name: {TOKEN_NAME}")])),
    }
}

/// Takes the expiry out of a body; `None` if it is not there, `Some(None)` if it is null.
fn expires(sent: &mut Map<String, Json>) -> HandlerResult<Option<Option<i64>>> {
    let unfit = |reason: String| Problem::unprocessable(vec![format!("expires: {reason}")]);
    match sent.remove("expires") {
        None => Ok(None),
        Some(Json::Null) => Ok(Some(None)),
        Some(Json::String(text)) => expiry(&text, now()).map(|at| Some(Some(at))).map_err(unfit),
        Some(_) => Err(unfit("a text such as \"90d\" or \"2027-01-01T00:00:00Z\", or null".into())),
    }
}

fn random_secret() -> HandlerResult<Secret> {
    Secret::random().map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))
}

/// A response with a secret.
fn with_secret(status: StatusCode, body: &Json) -> Response {
    let mut response = json_answer(status, body.to_string());
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The members of a token that a caller gives.
const TOKEN_MEMBERS: [&str; 4] = ["role", "may", "name", "expires"];

/// `{"role": R or "may": [RIGHT, ...], "name": N, "expires": WHEN}`: makes a token; its secret is shown only in this response.
pub async fn create(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, "sent again, it makes another token")?;
    let mut sent = ctx.object(body, JSON).await?;
    let missing = |what: &str| Problem::unprocessable(vec![format!("{what} is missing")]);
    let rights = rights(&mut sent, &ctx.app.catalogue)?.ok_or_else(|| missing("role (metrics, read, write or admin), or may,"))?;
    let name = name(&mut sent)?.ok_or_else(|| missing("name"))?;
    let expires = expires(&mut sent)?.flatten();
    reject_other_members(&sent, &TOKEN_MEMBERS)?;
    let secret = random_secret()?;
    let stored = NewToken { digest: secret.digest(), tenant: Some(ctx.tenant.clone()), rights: rights.clone(), name: name.clone(), expires };
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let id = blocking(move || {
        let id = app.store.create_token(stored)?;
        app.tokens.refresh(&*app.store).map(|()| id)
    });
    let id = id.await?;
    let tenant = ctx.tenant.as_str();
    let body = json!({
        "id": id,
        "tenant": tenant,
        "role": rights.role().name(),
        "may": rights.texts(),
        "name": name,
        "expires": expires.map(show_timestamp),
        "token": secret.text(),
    });
    Ok(with_secret(StatusCode::CREATED, &body))
}

/// The token in the path, which must be one of the tenant's.
fn token_not_found(ctx: &RequestContext) -> Problem {
    Problem::not_found(format!("there is no token {:?} here", ctx.segment("token")))
}

/// Changes the token in the path, if it is one of the tenant's; returns it as it is then.
async fn change_token(ctx: &RequestContext, change: TokenChange) -> HandlerResult<Token> {
    let id: u64 = ctx.segment("token").parse().ok().filter(|id| *id <= MAX_INTEGER as u64).ok_or_else(|| token_not_found(ctx))?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let changed = blocking(move || {
        let find = || -> stook_store::Result<Option<Token>> {
            Ok(app.store.tokens()?.into_iter().find(|token| token.id == id && token.token.tenant.as_ref() == Some(&tenant)))
        };
        if find()?.is_none() || !app.store.change_token(id, change)? {
            return Ok(None);
        }
        app.tokens.refresh(&*app.store)?;
        find()
    });
    changed.await?.ok_or_else(|| token_not_found(ctx))
}

/// `{"role": R or "may": [RIGHT, ...], "name": N, "expires": WHEN}`: changes what is given.
pub async fn change(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let mut sent = ctx.object(body, PATCH).await?;
    let change = TokenChange { rights: rights(&mut sent, &ctx.app.catalogue)?, name: name(&mut sent)?, expires: expires(&mut sent)?, secret: None };
    reject_other_members(&sent, &TOKEN_MEMBERS)?;
    let token = change_token(&ctx, change).await?;
    Ok(json_answer(StatusCode::OK, shown(&token).to_string()))
}

/// `{"overlap": TIME, "expires": WHEN}`: gives a token a new secret, which is shown only in this response. The old one works for the overlap.
pub async fn rotate(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, "sent again, it makes another secret")?;
    let mut sent = ctx.object(body, JSON).await?;
    let expires = expires(&mut sent)?;
    let former_until = match sent.remove("overlap") {
        None => now(),
        Some(Json::String(text)) => overlap(&text, now()).map_err(|reason| Problem::unprocessable(vec![format!("overlap: {reason}")]))?,
        Some(_) => return Err(Problem::unprocessable(vec!["overlap: a text such as \"1h\"".into()])),
    };
    reject_other_members(&sent, &["overlap", "expires"])?;
    let secret = random_secret()?;
    let change = TokenChange { expires, secret: Some(NewSecret { digest: secret.digest(), former_until }), ..TokenChange::default() };
    let mut body = shown(&change_token(&ctx, change).await?);
    body["token"] = secret.text().into();
    Ok(with_secret(StatusCode::OK, &body))
}

/// Revokes one of the tenant's tokens.
pub async fn revoke(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let id: u64 = ctx.segment("token").parse().ok().filter(|id| *id <= MAX_INTEGER as u64).ok_or_else(|| token_not_found(&ctx))?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let revoked = blocking(move || {
        let is_own_token = app.store.tokens()?.into_iter().any(|token| token.id == id && token.token.tenant.as_ref() == Some(&tenant));
        let revoked = is_own_token && app.store.revoke_token(id)?;
        app.tokens.refresh(&*app.store).map(|()| revoked)
    });
    if revoked.await? { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(token_not_found(&ctx)) }
}
