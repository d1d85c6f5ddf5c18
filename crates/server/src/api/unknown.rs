//! Unknown paths, and methods that a path does not support.

use crate::App;
use crate::guard::problem::Problem;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use std::sync::Arc;
use stook_catalogue::diagnostic::did_you_mean;

/// The path does not support the method.
pub async fn wrong_method(request: Request) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("method {} is not allowed here", request.method()))
}

/// There is no such path.
pub async fn not_found(State(app): State<Arc<App>>, request: Request) -> Problem {
    let path = request.uri().path();
    let named = path.strip_prefix("/v1/").and_then(|rest| rest.split('/').nth(1)).unwrap_or_default();
    let known = || app.catalogue.collections.iter().map(|collection| collection.name.as_str());
    let hint = match did_you_mean(named, known()) {
        Some(meant) if meant != named => format!("did you mean {meant}?"),
        _ => "see /docs for all paths".into(),
    };
    Problem::not_found(format!("no such path: {path}; {hint}"))
}
