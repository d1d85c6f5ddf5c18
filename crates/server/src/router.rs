//! The paths of the API with their handlers, each behind the guard of its class.

use crate::App;
use crate::api::{
    audit, changes, coverage, deliver, export, failed, health, history, jobs, metrics, oai, openapi, queries, reconcile, records, routes, runs,
    services, sources, sru, uploads,
};
use crate::api::{suggest, summary, tags, tenants, tokens, transitions, unknown};
use crate::guard::admission::RequestClass;
use crate::guard::undecided::UndecidedContext;
use crate::guard::{add_request_id, guarded, guarded_declared};
#[cfg(feature = "pages")]
use crate::pages;
use axum::Router;
use axum::body::Body;
use axum::handler::Handler;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, patch, post};
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::CollectionId;
use stook_engine::change_feed::followed;
use stook_store::access::Operation;
use tower_http::compression::CompressionLayer;

/// Returns all routes of an application.
pub fn router(app: &Arc<App>) -> Router {
    openapi::shared(app);
    let mut v1 = Router::new()
        .route("/v1", get(tenants::list))
        .route("/v1/{tenant}", get(records::overview))
        .route("/v1/{tenant}/query", get(queries::get).post(queries::post).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/query/asked/{id}", get(queries::pending_result).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/query/facets", get(queries::query_facets))
        .route("/v1/{tenant}/query/completions", get(queries::completions))
        .route("/v1/{tenant}/suggest", get(suggest::get))
        .route("/v1/{tenant}/coverage", get(coverage::days))
        .route("/v1/{tenant}/coverage/children", get(coverage::children))
        .route("/v1/{tenant}/services", get(services::list))
        .route("/v1/{tenant}/sources", get(sources::list))
        .route("/v1/{tenant}/lookup", post(records::lookup))
        .route("/v1/{tenant}/lab", get(runs::list))
        .route("/v1/{tenant}/lab/{run}", get(runs::get).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/lab/{run}/report", get(runs::report).layer(CompressionLayer::new()))
        .route("/v1/{tenant}/pick", post(transitions::pick))
        .route("/v1/{tenant}/deliver", post(deliver::create))
        .route("/v1/{tenant}/jobs", get(jobs::list))
        .route("/v1/{tenant}/jobs/{job}", get(jobs::get))
        .route("/v1/{tenant}/jobs/{job}/journal", get(jobs::journal))
        .route("/v1/{tenant}/jobs/{job}/chunks", get(jobs::chunks))
        .route("/v1/{tenant}/jobs/{job}/chunks/{chunk}/rechunk", post(jobs::rechunk))
        .route("/v1/{tenant}/jobs/{job}/documents/{document}", get(jobs::document))
        .route("/v1/{tenant}/jobs/{job}/failed/retry", post(failed::retry))
        .route("/v1/{tenant}/jobs/{job}/cancel", post(jobs::cancel))
        .route("/v1/{tenant}/jobs/{job}/undo", post(jobs::undo))
        .route("/v1/{tenant}/jobs/{job}/retry", post(jobs::retry))
        .route("/v1/{tenant}/audit", get(audit::list))
        .route("/v1/{tenant}/tokens", get(tokens::list).post(tokens::create))
        .route("/v1/{tenant}/tokens/{token}", patch(tokens::change).delete(tokens::revoke))
        .route("/v1/{tenant}/tokens/{token}/rotate", post(tokens::rotate));
    if app.catalogue.repository.is_some() {
        v1 = v1.route("/v1/{tenant}/oai", get(oai::get).post(oai::post).layer(CompressionLayer::new()));
        let first = app.catalogue.published().next().map(|(id, ..)| ("/v1/{tenant}/sru".to_owned(), id));
        let named = app.catalogue.published().map(|(id, collection, _)| (format!("/v1/{{tenant}}/sru/{}", collection.name), id));
        for (path, id) in first.into_iter().chain(named) {
            let search = move |ctx: UndecidedContext| async move { sru::get(ctx.of(Operation::Read, id)?).await };
            v1 = v1.route(&path, get(search).layer(CompressionLayer::new()));
        }
    }
    let rows = get(export::rows).layer(CompressionLayer::new());
    let mut bulk = Router::new()
        .route("/v1/{tenant}/import", post(uploads::create))
        .route("/v1/{tenant}/export", rows)
        .route("/v1/{tenant}/jobs/{job}/failed", get(failed::get));
    for (index, collection) in app.catalogue.collections.enumerate() {
        v1 = v1.merge(collection_routes(index, collection));
        let export = move |ctx: UndecidedContext| async move { export::collection(ctx.of(Operation::Read, index)?).await };
        bulk = bulk.route(&format!("/v1/{{tenant}}/export/{}", collection.name), get(export).layer(CompressionLayer::new()));
    }
    let mut events =
        Router::new().route("/v1/{tenant}/jobs/{job}/events", get(jobs::events)).route("/v1/{tenant}/query/events", get(queries::events));
    if followed(&app.catalogue).next().is_some() {
        events = events.route("/v1/{tenant}/changes", get(changes::all));
        for (index, collection) in followed(&app.catalogue) {
            let changes = move |ctx: UndecidedContext| async move { changes::collection(ctx.of(Operation::Read, index)?).await };
            events = events.route(&format!("/v1/{{tenant}}/changes/{}", collection.name), get(changes));
        }
    }
    let request_id_layer = from_fn_with_state(app.clone(), add_request_id);
    let open = Router::new()
        .route("/healthz", get(health::healthy))
        .route("/readyz", get(health::ready))
        .route("/openapi.json", get(openapi::serve))
        .route("/metrics", get(metrics::get))
        .route("/metrics/history", get(history::get))
        .route("/metrics/summary", get(summary::get))
        .route_layer(request_id_layer.clone());
    // web pages of the definition's `origins` may call what it declares, and recognise records
    let declared = [false, true].map(|is_open| guarded_declared(app, routes::router(&app.catalogue, is_open), is_open));
    let reconciled = guarded_declared(app, reconcile::router(&app.catalogue), false);
    let declared = declared.into_iter().fold(reconciled, Router::merge);
    let declared = match routes::cors(&app.catalogue) {
        // a preflight request is of a method that no route has
        Some(cors) => declared.method_not_allowed_fallback(unknown::wrong_method.layer(request_id_layer.clone())).layer(cors),
        None => declared,
    };
    let api = Router::new()
        .merge(guarded(app, RequestClass::Interactive, v1))
        .merge(declared)
        .merge(guarded(app, RequestClass::Bulk, bulk))
        .merge(guarded(app, RequestClass::Watch, events))
        .merge(open)
        .method_not_allowed_fallback(unknown::wrong_method.layer(request_id_layer.clone()))
        .fallback(unknown::not_found.layer(request_id_layer))
        .with_state(app.clone());
    // web pages call the API like any other client
    #[cfg(feature = "pages")]
    let api = pages::router(app, &api).merge(api);
    api
}

/// Returns the routes of one collection.
fn collection_routes(index: CollectionId, collection: &Collection) -> Router<Arc<App>> {
    // reads and writes the collection, if the caller may; a part of it where the handler takes that
    macro_rules! read_part {
        ($handler:path) => {
            move |ctx: UndecidedContext| async move {
                let (ctx, part) = ctx.of_part(Operation::Read, index)?;
                $handler(ctx, part).await
            }
        };
    }
    macro_rules! write_part {
        ($handler:path) => {
            move |ctx: UndecidedContext, body: Body| async move {
                let (ctx, part) = ctx.of_part(Operation::Write, index)?;
                $handler(ctx, part, body).await
            }
        };
    }
    macro_rules! read {
        ($handler:path) => {
            move |ctx: UndecidedContext| async move { $handler(ctx.of(Operation::Read, index)?).await }
        };
    }
    macro_rules! write {
        ($handler:path) => {
            move |ctx: UndecidedContext, body: Body| async move { $handler(ctx.of(Operation::Write, index)?, body).await }
        };
    }
    let collection_path = format!("/v1/{{tenant}}/{}", collection.name);
    let record_path = format!("{collection_path}/{{key}}");
    let delete = move |ctx: UndecidedContext| async move {
        let (ctx, part) = ctx.of_part(Operation::Write, index)?;
        records::delete(ctx, part).await
    };
    let record_handlers = get(read_part!(records::get)).put(write_part!(records::put)).patch(write_part!(records::patch)).delete(delete);
    let mut router = Router::new()
        .route(&collection_path, get(read_part!(records::by_key)).post(write_part!(records::create)))
        .route(&record_path, record_handlers)
        .route(&format!("{record_path}/explain"), get(read_part!(records::explain)))
        .route(&format!("{record_path}/document"), get(read!(records::document)))
        .route(&format!("{record_path}/log"), get(read_part!(records::log)));
    if collection.tags.is_some() {
        let tags_path = format!("/v1/{{tenant}}/tags/{}", collection.name);
        let tag_path = format!("{tags_path}/{{tag}}");
        let tags_handlers = get(read!(tags::list)).post(write!(tags::create));
        let remove = move |ctx: UndecidedContext| async move { tags::remove(ctx.of(Operation::Write, index)?).await };
        let rebuild = move |ctx: UndecidedContext| async move { tags::rebuild(ctx.of(Operation::Write, index)?).await };
        router = router
            .route(&tags_path, tags_handlers)
            .route(&tag_path, get(read!(tags::get)).patch(write!(tags::set)).delete(remove))
            .route(&format!("{tag_path}/rebuild"), post(rebuild))
            .route(&format!("{tag_path}/records"), post(write_part!(tags::assign)));
    }
    for transition in &collection.transitions {
        let name = transition.name.clone();
        let run = move |ctx: UndecidedContext, body: Body| transitions::run(ctx, index, name.clone(), body);
        router = router.route(&format!("{record_path}/{}", transition.name), post(run));
    }
    router
}
