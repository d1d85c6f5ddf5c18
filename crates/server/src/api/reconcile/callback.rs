//! Responses as calls of a function (JSONP), for web pages that cannot read them otherwise.
//!
//! A page of any site can include such a response as a script, and a browser adds stored credentials to that request. So it is given only to pages that
//! may read responses anyway: those of this server and of the definition's `origins`.

use crate::api::response::json_answer;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;

/// The maximum length of a function's name.
const MAX_NAME: usize = 128;
/// What browsers say about the page that makes a request.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The function that is called with a response, if one is.
pub(super) struct Callback(Option<String>);

impl Callback {
    /// None: responses are JSON.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// That of `?callback=`.
    ///
    /// # Errors
    /// 422 when it is no name of a function; 403 when the request comes from a page that may not read the response.
    pub(super) fn of(ctx: &mut RequestContext) -> HandlerResult<Self> {
        // jQuery adds the time, so that no cache answers
        ctx.params.all("_");
        let Some(name) = ctx.params.single("callback")? else { return Ok(Self(None)) };
        let is_name = |part: &str| {
            let mut letters = part.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '_' | '$'))
                && letters.all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$'))
        };
        if name.len() > MAX_NAME || !name.split('.').all(is_name) {
            let reason = format!("callback is the name of a function in JavaScript, of at most {MAX_NAME} letters, digits, `_`, `$` and `.`");
            return Err(Problem::unprocessable(vec![reason]));
        }
        if !may_read(&ctx.headers, &ctx.app.catalogue.serving.origins) {
            let reason = "a response with a callback is only given to web pages of this server and of `serve: { origins: [...] }` in the definition";
            return Err(Problem::new(StatusCode::FORBIDDEN, reason));
        }
        Ok(Self(Some(name)))
    }

    /// A response with this JSON.
    pub(super) fn wrap(self, answer: &Json) -> Response {
        let text = answer.to_string();
        let Some(name) = self.0 else { return json_answer(StatusCode::OK, text) };
        // these two end a line in scripts of older browsers
        let text = text.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
        let headers = [
            (header::CONTENT_TYPE, HeaderValue::from_static("text/javascript; charset=utf-8")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("cross-origin")),
        ];
        // the comment keeps a file of another format from beginning with a name that the caller chooses
        (headers, format!("/**/{name}({text});")).into_response()
    }
}

/// Whether a request comes from a page that may read its response.
fn may_read(headers: &HeaderMap, allowed: &[String]) -> bool {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(SITE).is_some_and(|site| matches!(site, "same-origin" | "none")) {
        return true;
    }
    let Some((scheme, rest)) = text(header::REFERER).and_then(|referrer| referrer.split_once("://")) else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let is_own = text(SITE).is_none() && text(header::HOST).is_some_and(|own| own.eq_ignore_ascii_case(host));
    let origin = format!("{scheme}://{host}");
    is_own || allowed.iter().any(|allowed| allowed == "*" || *allowed == origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_sites_get_no_response_that_they_can_run() {
        let of = |pairs: &[(HeaderName, &'static str)]| {
            let headers = pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let host = (header::HOST, HeaderValue::from_static("books.example:7070"));
            may_read(&headers.chain([host]).collect(), &["http://127.0.0.1:3333".to_owned()])
        };
        assert!(!of(&[]), "nothing says which page it is");
        assert!(of(&[(SITE, "same-origin")]) && of(&[(SITE, "none")]));
        assert!(of(&[(header::REFERER, "http://books.example:7070/docs")]));
        assert!(of(&[(SITE, "cross-site"), (header::REFERER, "http://127.0.0.1:3333/")]));
        assert!(!of(&[(SITE, "cross-site"), (header::REFERER, "http://evil.example/")]));
        assert!(!of(&[(SITE, "same-site"), (header::REFERER, "http://127.0.0.1:4444/")]));
        assert!(!of(&[(SITE, "cross-site")]), "the page hides where it is");
    }
}
