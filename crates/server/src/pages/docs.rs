//! The documentation of this version under `/docs`, with search, and with the API of the served catalogue. It contains no records, so it needs no
//! token.

mod operations;

use super::{WebPages, layout};
use crate::guard::request::QueryParams;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use maud::Markup;
use std::sync::{Arc, LazyLock};
use stook_docs::view::{self, OwnPage, SEARCH, Surroundings};
use stook_docs::{Address, Docs, VERSION, tree};
use tower_http::compression::CompressionLayer;

/// Made on first use, in a few milliseconds.
static DOCS: LazyLock<Docs> = LazyLock::new(|| Docs::new(Address::Server));

/// The path of the page about the served catalogue's API.
const OPERATIONS: &str = "operations";

/// The routes of the documentation.
pub fn router() -> Router<Arc<WebPages>> {
    Router::new()
        .route("/docs", get(start))
        .route("/docs/", get(|| async { Redirect::to("/docs") }))
        .route(&format!("/docs/{SEARCH}"), get(search))
        .route(&format!("/docs/{OPERATIONS}"), get(operations::page))
        .route("/docs/{*path}", get(page))
        .layer(CompressionLayer::new())
}

/// The first page.
async fn start(State(pages): State<Arc<WebPages>>) -> Response {
    with_surroundings(&pages, |around| answer(&pages, StatusCode::OK, ("", "Documentation"), "", &view::start(&DOCS, around)))
}

/// A page or a picture; another name of a page redirects to it.
async fn page(State(pages): State<Arc<WebPages>>, Path(path): Path<String>) -> Response {
    if let Some(page) = DOCS.page(&path) {
        return answer(&pages, StatusCode::OK, (&page.path, &page.title), "", &view::page(&DOCS, page));
    }
    if let Some(picture) = tree::picture(&path) {
        let headers = [
            (header::CONTENT_TYPE, "image/svg+xml"),
            (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CACHE_CONTROL, "max-age=86400"),
        ];
        return (headers, picture).into_response();
    }
    match DOCS.page_of_file_name(&path) {
        Some(page) => Redirect::to(&DOCS.address().page("", &page.path)).into_response(),
        None => answer(&pages, StatusCode::NOT_FOUND, (&path, "Page not found"), "", &view::missing(&DOCS, &path)),
    }
}

/// `?q=WORDS`: the sections that contain the words.
async fn search(State(pages): State<Arc<WebPages>>, RawQuery(query): RawQuery) -> Response {
    let params = QueryParams::parse(query.as_deref().unwrap_or_default()).unwrap_or_default();
    let searched = params.first("q").unwrap_or_default().trim();
    let title = if searched.is_empty() { "Search the documentation".to_owned() } else { format!("{searched} · Search") };
    answer(&pages, StatusCode::OK, (SEARCH, &title), searched, &view::results(&DOCS, searched, &DOCS.search(searched)))
}

/// A page of the documentation in its frame.
fn answer(pages: &WebPages, status: StatusCode, (path, title): (&str, &str), searched: &str, main: &Markup) -> Response {
    with_surroundings(pages, |around| {
        let body = view::body(&DOCS, around, path, searched, main);
        layout::html(status, layout::document(&format!("{title} · Stook {VERSION}"), &body))
    })
}

/// Passes on what this server adds to the documentation: a link to its catalogue, and the catalogue's API.
fn with_surroundings(pages: &WebPages, show: impl FnOnce(&Surroundings) -> Response) -> Response {
    let (home, title) = (format!("Catalogue {}", pages.app.catalogue.name), operations_title(pages));
    let purpose = "Every path of this catalogue, with parameters, bodies and answers, made from its definition.";
    show(&Surroundings { home: Some(("/", &home)), own: Some(OwnPage { path: OPERATIONS, title: &title, purpose }) })
}

/// The title of the page about the served catalogue's API.
fn operations_title(pages: &WebPages) -> String {
    format!("The API of {}", pages.app.catalogue.name)
}
