//! Web pages for people.
//!
//! A page renders responses of the API, which it calls inside the process with the visitor's token: pages do not access records themselves, and may
//! do nothing that the API refuses. `.json` after the path of a page returns the responses instead.

mod assets;
mod audit;
mod coverage;
mod docs;
mod document;
mod edit;
mod home;
mod import;
mod input;
mod lab;
mod layout;
mod many;
mod map;
mod metrics;
mod record;
mod search;
mod session;
mod shown;
mod signed_in;
mod tags;
mod timeline;
mod tokens;
mod visit;

use crate::App;
use crate::guard::problem::{HandlerResult, Problem};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};
use visit::{PageContext, RenderedPage, SubmittedForm};

/// What all pages share.
pub struct WebPages {
    app: Arc<App>,
    /// The API, guarded.
    api: Router,
    sessions: signed_in::Sessions,
    /// The secret from which forms get their CSRF tokens.
    secret: [u8; 32],
    /// One-time marks of submitted forms that must not be submitted twice, newest last.
    sent: Mutex<VecDeque<String>>,
}

/// Returns the routes of the pages; `api` is the API that they call.
pub fn router(app: &Arc<App>, api: &Router) -> Router {
    let mut secret = [0; 32];
    // without randomness the secret stays zero and every form is refused, see `SubmittedForm::check`
    let _ = getrandom::fill(&mut secret);
    let pages = Arc::new(WebPages { app: app.clone(), api: api.clone(), sessions: signed_in::Sessions::default(), secret, sent: Mutex::default() });
    let both = |path: &str, page: MethodRouter<Arc<WebPages>>| Router::new().route(&format!("{path}.json"), page.clone()).route(path, page);
    Router::new()
        .route("/", get(session::front))
        .route("/sign-in", get(session::sign_in_form).post(session::sign_in))
        .route("/sign-out", post(session::sign_out))
        .route("/assets/{name}", get(assets::get))
        .merge(docs::router())
        .merge(both("/t/{tenant}/home", page(home::page)))
        .merge(both("/t/{tenant}/search", page(search::page)))
        .merge(both("/t/{tenant}/record", page(record::page)))
        .merge(both("/t/{tenant}/edit", page(edit::page)))
        .merge(both("/t/{tenant}/many", page(many::page)))
        .merge(both("/t/{tenant}/coverage", page(coverage::page)))
        .merge(both("/t/{tenant}/import", page(import::page)))
        .merge(both("/t/{tenant}/job", page(import::job)))
        .merge(both("/t/{tenant}/document", page(import::document)))
        .merge(both("/t/{tenant}/tags", page(tags::page)))
        .merge(both("/t/{tenant}/lab", page(lab::page)))
        .merge(both("/t/{tenant}/metrics", page(metrics::page)))
        .merge(both("/t/{tenant}/tokens", page(tokens::page)))
        .merge(both("/t/{tenant}/audit", page(audit::page)))
        .route("/t/{tenant}", get(home::front))
        .route("/t/{tenant}/{*rest}", page(not_found))
        .route("/t/{tenant}/home/now", get(home::part))
        .route("/t/{tenant}/suggestions", page(search::suggestions))
        .route("/t/{tenant}/tags/evaluation", page(tags::evaluation_progress))
        .route("/t/{tenant}/tags/preview", page(tags::preview))
        .merge(both("/t/{tenant}/facets", page(search::facets)))
        .route("/t/{tenant}/total", page(search::total))
        .route("/t/{tenant}/search/events", get(search::events))
        .route("/t/{tenant}/download", get(search::download))
        .route("/t/{tenant}/job/events", get(import::events))
        .route("/t/{tenant}/job/failed", get(import::failed))
        .route("/t/{tenant}/job/change", change(import::change))
        .route("/t/{tenant}/upload", post(import::upload).layer(DefaultBodyLimit::disable()))
        .route("/t/{tenant}/transition", change(record::transition))
        .route("/t/{tenant}/edit/change", change(edit::change))
        .route("/t/{tenant}/many/change", change(many::change))
        .route("/t/{tenant}/tags/change", change(tags::change))
        .route("/t/{tenant}/tokens/change", change(tokens::change))
        .with_state(pages)
}

/// Answers paths that are no page.
async fn not_found(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    Err(Problem::not_found(format!("page not found: {}", ctx.path)))
}

/// Makes a route of a page; problems are shown in the same frame.
fn page<F, A>(show: F) -> MethodRouter<Arc<WebPages>>
where
    F: Fn(Arc<PageContext>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = HandlerResult<RenderedPage>> + Send + 'static,
{
    get(move |ctx: PageContext| async move {
        let ctx = Arc::new(ctx);
        let view = show(ctx.clone()).await;
        ctx.answer(view)
    })
}

/// Makes a route of a form, after checking its CSRF token.
fn change<F, A>(work: F) -> MethodRouter<Arc<WebPages>>
where
    F: Fn(Arc<PageContext>, SubmittedForm) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = HandlerResult<Response>> + Send + 'static,
{
    post(move |ctx: PageContext, form: SubmittedForm| async move {
        let ctx = Arc::new(ctx);
        match ctx.check(&form) {
            Ok(()) => work(ctx.clone(), form).await,
            Err(problem) => Err(problem),
        }
        .unwrap_or_else(|problem| ctx.answer(Err(problem)))
    })
}
