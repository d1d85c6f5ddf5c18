//! Style sheet and scripts of web pages, in the binary.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Names, media types and contents. htmx 2.0.11 is Zero-Clause BSD (`assets/htmx.LICENSE`); the outlines of land are from Natural Earth, which is in the
/// public domain.
const ASSETS: [(&str, &str, &[u8]); 4] = [
    ("stook.css", "text/css; charset=utf-8", include_bytes!("../../assets/stook.css")),
    ("stook.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/stook.js")),
    ("land.svg", "image/svg+xml", include_bytes!("../../assets/land.svg")),
    ("htmx-2.0.11.min.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/htmx.min.js")),
];

/// Serves one asset. Stook's own change with the binary, so pages request them with its version.
pub async fn get(Path(name): Path<String>) -> Response {
    let Some((_, media, bytes)) = ASSETS.iter().find(|(known, ..)| *known == name) else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [(header::CONTENT_TYPE, *media), (header::CACHE_CONTROL, "max-age=86400"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (headers, *bytes).into_response()
}
