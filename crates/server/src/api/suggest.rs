//! Suggests queries for a free text.

use crate::api::response::json_answer;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use stook_query::{MAX_TEXT, QueryScope, Suggestion, suggest};

/// `?text=TEXT`: at most four queries, best first. `learning` is true while the vocabulary does not cover all values yet.
pub async fn get(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByFilter);
    let Some(text) = ctx.params.single("text")? else {
        return Err(Problem::bad_request("say ?text=TEXT, for example ?text=smith%20personal"));
    };
    ctx.params.end()?;
    if text.chars().count() > MAX_TEXT || text.contains('\0') {
        return Err(Problem::bad_request(format!("a text has at most {MAX_TEXT} characters, and no NUL")));
    }
    ctx.count_store_reached();
    let (app, tenant, visible) = (ctx.app.clone(), ctx.tenant.clone(), ctx.visible());
    let (found, whole) = blocking(move || {
        let vocabulary = app.vocabularies.get(&app.catalogue, &app.store, &tenant)?;
        let scope = QueryScope { catalogue: &app.catalogue, store: &*app.store, tenant: &tenant, visible: &visible };
        Ok::<_, stook_store::StoreError>((suggest(&vocabulary, &scope, &text)?, vocabulary.is_complete()))
    })
    .await?;
    let shown: Vec<Json> = found.iter().map(Suggestion::to_json).collect();
    Ok(json_answer(StatusCode::OK, json!({ "suggestions": shown, "learning": !whole }).to_string()))
}
