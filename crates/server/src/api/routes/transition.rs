//! Declared routes that apply a transition.

use super::parameters::RouteParams;
use crate::api::response::json_answer;
use crate::api::transitions;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use stook_catalogue::key::Key;
use stook_catalogue::route::{Route, RouteAction};
use stook_engine::transition;

/// Applies the route's transition.
pub async fn answer(ctx: RequestContext, route: &Route, params: &RouteParams<'_>) -> HandlerResult {
    let RouteAction::Transition { collection, transition, key, args } = &route.action else {
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the route changes nothing"));
    };
    let missing = || Problem::not_found(route.missing.clone().unwrap_or_else(|| "there is no such record".into()));
    let text = key.fill(|name| {
        let index = params.all.iter().position(|param| param.name == name)?;
        params.values[index].as_ref().map(|value| Cow::Owned(value.show(&params.all[index].ty)))
    });
    let key = text.and_then(|text| Key::new(text).ok()).ok_or_else(missing)?;
    let sent: Map<String, Json> =
        args.iter().filter_map(|(name, param)| Some((name.clone(), params.values[*param].as_ref()?.to_json(&params.all[*param].ty)))).collect();
    let name = &ctx.definition(*collection).transitions[*transition].name;
    let call = transitions::call_of(&ctx, &route.path, &format!("{}\n{}", key.as_str(), Json::Object(sent.clone())))?;
    let request = transitions::prepare(&ctx, *collection, name, &sent, call)?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let result = blocking(move || transition::run(&app.catalogue, &*app.store, &app.evaluator(), &request, &key)).await?;
    let done = transitions::answer(result)?.ok_or_else(missing)?;
    Ok(json_answer(StatusCode::OK, done.to_string()))
}
