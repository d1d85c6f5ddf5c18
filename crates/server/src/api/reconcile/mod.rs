//! The Reconciliation Service API, version 0.2, by which OpenRefine and other programs recognise records by their names
//! (<https://www.w3.org/community/reports/reconciliation/CG-FINAL-specs-0.2-20230410/>).
//!
//! `/v1/{tenant}/reconcile/{collection}` is the service of a collection: `manifest.rs` describes it, `queries.rs` recognises records, `extend.rs` gives values
//! of recognised ones, `suggest.rs` completes what people type, `preview.rs` shows a record in a few lines. `callback.rs` wraps responses for pages that
//! cannot read them otherwise. How records are found and compared is in `stook_query::reconcile`.

mod callback;
mod extend;
mod manifest;
mod preview;
mod queries;
mod suggest;

pub use extend::{MAX_EXTENDED_KEYS, MAX_EXTENDED_PROPERTIES, MAX_PROPOSED};
pub use queries::{MAX_CANDIDATES, MAX_PROPERTIES, MAX_QUERIES, MAX_QUERY_CHARS};
pub use suggest::{MAX_CURSOR, MAX_TYPED_CHARS};

use crate::App;
use crate::guard::form::SentBody;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{RequestContext, reject_other_members};
use crate::guard::undecided::UndecidedContext;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use callback::Callback;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::CollectionId;
use stook_query::reconcile::name_field;
use stook_store::access::Operation;

/// The collections whose records can be recognised by their names.
pub fn reconcilable(catalogue: &Catalogue) -> impl Iterator<Item = (CollectionId, &Collection)> {
    catalogue.collections.enumerate().filter(|(_, collection)| name_field(collection).is_some())
}

/// The services of all collections.
pub fn router(catalogue: &Catalogue) -> Router<Arc<App>> {
    reconcilable(catalogue).fold(Router::new(), |router, (id, collection)| {
        let path = format!("/v1/{{tenant}}/reconcile/{}", collection.name);
        macro_rules! read {
            ($handler:path) => {
                get(move |ctx: UndecidedContext| async move { $handler(ctx.of(Operation::Read, id)?).await })
            };
        }
        let post = move |ctx: UndecidedContext, body: Body| async move { by_body(ctx.of(Operation::Read, id)?, body).await };
        router
            .route(&path, read!(by_url).post(post))
            .route(&format!("{path}/suggest/entity"), read!(suggest::entities))
            .route(&format!("{path}/suggest/property"), read!(suggest::properties))
            .route(&format!("{path}/suggest/type"), read!(suggest::types))
            .route(&format!("{path}/properties"), read!(extend::proposals))
            .route(&format!("{path}/preview"), read!(preview::get))
    })
}

/// The members of a request to a service, of which there is one.
const MEMBERS: [&str; 2] = ["queries", "extend"];

/// `?queries=` and `?extend=` are requests to the service; without them it is described.
async fn by_url(mut ctx: RequestContext) -> HandlerResult {
    let callback = Callback::of(&mut ctx)?;
    let mut sent = Map::new();
    for name in MEMBERS {
        if let Some(text) = ctx.params.single(name)? {
            sent.insert(name.to_owned(), parsed(name, &text)?);
        }
    }
    ctx.params.end()?;
    let answer = if sent.is_empty() { manifest::manifest(&ctx) } else { answer(&ctx, sent).await? };
    Ok(callback.wrap(&answer))
}

/// The same as fields of a form, in which they are texts, or as members of a JSON object.
async fn by_body(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.params.end()?;
    let sent = match ctx.json_or_form(body).await? {
        SentBody::Nothing => Map::new(),
        SentBody::Json(Json::Object(members)) => members,
        SentBody::Json(_) => return Err(unprocessable("send a JSON object with the member `queries` or `extend`")),
        SentBody::Form(fields) => {
            let mut members = Map::new();
            for (name, text) in fields {
                let json = if MEMBERS.contains(&name.as_str()) { parsed(&name, &text)? } else { text.into() };
                if members.insert(name.clone(), json).is_some() {
                    return Err(unprocessable(&format!("{name} is given twice")));
                }
            }
            members
        }
    };
    Ok(Callback::none().wrap(&answer(&ctx, sent).await?))
}

/// The answer to queries or to a request for values.
async fn answer(ctx: &RequestContext, mut sent: Map<String, Json>) -> HandlerResult<Json> {
    let [queries, extend] = MEMBERS.map(|name| sent.remove(name));
    reject_other_members(&sent, &MEMBERS)?;
    ctx.count_store_reached();
    match (queries, extend) {
        (Some(queries), None) => queries::answer(ctx, &queries).await,
        (None, Some(extend)) => extend::answer(ctx, &extend).await,
        (None, None) => Err(unprocessable("give `queries`, for example {\"q0\": {\"query\": \"moby dick\"}}, or `extend`")),
        (Some(_), Some(_)) => Err(unprocessable("give either `queries` or `extend`")),
    }
}

fn parsed(name: &str, text: &str) -> HandlerResult<Json> {
    stook_catalogue::json::parse(text.as_bytes()).map_err(|error| unprocessable(&format!("{name} is not JSON: {error}")))
}

/// What is wrong with a request, at its place.
fn unprocessable(reason: &str) -> Problem {
    Problem::unprocessable(vec![reason.to_owned()])
}

/// The type of a collection's records.
fn type_of(collection: &Collection) -> Json {
    json!({ "id": collection.name, "name": collection.name })
}
