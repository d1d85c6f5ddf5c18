//! Suggests queries for a free text.

use crate::api::response::json_answer;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use stook_query::{MAX_TEXT, Suggestion, suggest};

/// `?text=TEXT`: at most four queries, best first. `learning` is true while the vocabulary does not cover all values yet.
pub async fn get(mut ctx: RequestContext) -> HandlerResult {
    let Some(text) = ctx.params.single("text")? else {
        return Err(Problem::bad_request("say ?text=TEXT, for example ?text=smith%20personal"));
    };
    ctx.params.end()?;
    if text.chars().count() > MAX_TEXT || text.contains('\0') {
        return Err(Problem::bad_request(format!("a text has at most {MAX_TEXT} characters, and no NUL")));
    }
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let (found, whole) = blocking(move || {
        let vocabulary = app.vocabularies.get(&app.catalogue, &app.store, &tenant)?;
        Ok::<_, stook_store::StoreError>((suggest(&vocabulary, &app.catalogue, &*app.store, &tenant, &text)?, vocabulary.is_complete()))
    })
    .await?;
    let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
    Ok(json_answer(StatusCode::OK, json!({ "suggestions": shown, "learning": !whole }).to_string()))
}
