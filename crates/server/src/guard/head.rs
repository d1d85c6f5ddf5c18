//! Heads of requests that are refused before anything else: HTTP asks for one `Host`, and a head has a limit.

use crate::guard::problem::Problem;
use axum::http::{Request, StatusCode, Version, header};

/// Largest head of a request.
pub(crate) const MAX_HEAD_BYTES: usize = 64 << 10;

/// Checks the head of a request from the network.
///
/// # Errors
/// 400 unless there is one `Host` (none is needed in HTTP/1.0), 431 if the head is too large.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Problem> {
    let headers = request.headers();
    let hosts = headers.get_all(header::HOST).iter().count();
    if hosts > 1 || (hosts == 0 && request.version() == Version::HTTP_11) {
        return Err(Problem::bad_request(format!("a request has one header `Host`, and this one has {hosts}")));
    }
    // a line has a separator and an end beside name and value
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let bytes = bytes + request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if bytes > MAX_HEAD_BYTES {
        let detail = format!("the head of a request has at most {MAX_HEAD_BYTES} bytes, and this one has {bytes}");
        return Err(Problem::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, detail));
    }
    Ok(())
}
