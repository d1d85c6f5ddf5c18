//! placeholder
use crate::{App, Options};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;

/// The document.
pub fn document(_catalogue: &Catalogue, _options: &Options) -> Json {
    json!({})
}

/// Serves it.
pub async fn serve(State(app): State<Arc<App>>) -> Response {
    crate::records::json_answer(axum::http::StatusCode::OK, app.openapi.clone())
}

/// The page.
pub async fn page(State(_app): State<Arc<App>>) -> Response {
    "".into_response()
}
