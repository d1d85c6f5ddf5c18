//! A request for a page: the visitor, the parameters, and the responses of the API that the page shows.

use super::{WebPages, layout, session};
use crate::api::response::percent;
use crate::guard::access::Caller;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::QueryParams;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use bytes::Bytes;
use maud::Markup;
use serde_json::{Map, Value as Json};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex};
use stook_store::access::Role;
use tower_service::Service;

/// Max bytes of a response of the API.
const MOST_ANSWER: usize = 32 << 20;
/// The error if a response is longer.
pub const TOO_LONG: &str = "too long to be shown here; use the API";
/// Max remembered marks of submitted forms.
const MOST_SENT: usize = 1_000;
/// Max bytes of a form.
const MOST_FORM: usize = 1 << 20;

/// What a page shows.
pub struct RenderedPage {
    /// Its title.
    pub title: String,
    /// Its content; a part of a page is sent without the frame.
    pub body: Markup,
    /// Whether it is a part of a page.
    pub part: bool,
    /// The HTTP status.
    pub status: StatusCode,
}

impl RenderedPage {
    /// Makes a page.
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), body, part: false, status: StatusCode::OK }
    }

    /// Makes a replacement for a part of a page.
    pub fn part(body: Markup) -> Self {
        Self { part: true, ..Self::new("", body) }
    }
}

/// The context of a page.
pub struct PageContext {
    pages: Arc<WebPages>,
    /// The visitor.
    pub caller: Caller,
    /// The tenant.
    pub tenant: String,
    /// Headers of API calls: the visitor's token, and `Host` and `Origin`.
    own: HeaderMap,
    params: QueryParams,
    /// The path with its parameters, without `.json`.
    pub path: String,
    wants_json: bool,
    is_read: bool,
    /// Paths called in the API, with their responses.
    answers: Mutex<Vec<(String, Arc<Json>)>>,
}

impl FromRequestParts<Arc<WebPages>> for PageContext {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, pages: &Arc<WebPages>) -> Result<Self, Response> {
        let path = parts.uri.path().to_owned();
        let wants_json = path.ends_with(".json");
        let problem = |problem: Problem| if wants_json { problem.into_response() } else { layout::bare(&problem) };
        let own = session::headers(&parts.headers);
        let caller = match pages.app.tokens.caller(&own) {
            Ok(caller) => caller,
            Err(refused) if wants_json || parts.method != Method::GET => return Err(problem(refused)),
            Err(_) => {
                let place = parts.uri.path_and_query().map_or("", |place| place.as_str());
                return Err(Redirect::to(&with_params("/sign-in", &[("to", place)])).into_response());
            }
        };
        let values = RawPathParams::from_request_parts(parts, pages).await.map_err(|_| problem(Problem::bad("the path is not UTF-8")))?;
        let named = values.iter().find(|(name, _)| *name == "tenant").map_or("", |(_, value)| value);
        let tenant = caller.tenant(named).map_err(problem)?;
        let query = parts.uri.query().unwrap_or_default();
        let params = QueryParams::parse(query).map_err(problem)?;
        let shown = path.strip_suffix(".json").unwrap_or(&path);
        let place = if query.is_empty() { shown.to_owned() } else { format!("{shown}?{query}") };
        let (answers, is_read) = (Mutex::default(), parts.method == Method::GET);
        Ok(Self { pages: pages.clone(), caller, tenant: tenant.as_str().to_owned(), own, params, path: place, wants_json, is_read, answers })
    }
}

/// The fields of a submitted form.
pub struct SubmittedForm(pub Vec<(String, String)>);

impl FromRequest<Arc<WebPages>> for SubmittedForm {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Arc<WebPages>) -> Result<Self, Response> {
        let wrong = |what: &str| layout::bare(&Problem::bad(what));
        let bytes = to_bytes(request.into_body(), MOST_FORM).await.map_err(|_| wrong("a form has at most 1 MB"))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("the form is not UTF-8"))?;
        QueryParams::parse(text).map(|params| Self(params.into_pairs())).map_err(|problem| layout::bare(&problem))
    }
}

impl SubmittedForm {
    /// Returns a value; `None` if it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// Returns a value that must be given.
    ///
    /// # Errors
    /// 400 when it is not.
    pub fn need(&self, name: &str) -> HandlerResult<&str> {
        self.get(name).ok_or_else(|| Problem::bad(format!("{name} is missing")))
    }

    /// Checks that the form comes from a page of this process that was made for the sender of these headers.
    ///
    /// # Errors
    /// 403 when it does not.
    pub fn check(&self, pages: &WebPages, own: &HeaderMap) -> HandlerResult<()> {
        if pages.secret != [0; 32] && self.get("csrf") == Some(&csrf(pages, own)) {
            return Ok(());
        }
        Err(Problem::new(StatusCode::FORBIDDEN, "this form has expired: reload the page"))
    }
}

impl PageContext {
    /// Returns a query parameter; `None` if it is empty.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.first(name).filter(|value| !value.is_empty())
    }

    /// Whether the visitor has this role; pages offer only what is allowed.
    pub fn may(&self, role: Role) -> bool {
        self.caller.role >= role
    }

    /// Returns the path of a page of this tenant.
    pub fn to(&self, page: &str, params: &[(&str, &str)]) -> String {
        with_params(&format!("/t/{}/{page}", self.tenant), params)
    }

    /// Returns the path of a record's page.
    pub fn record(&self, collection: &str, key: &str) -> String {
        self.to("record", &[("collection", collection), ("key", key)])
    }

    /// Returns a path of the API for this tenant.
    pub fn api(&self, path: &str, params: &[(&str, &str)]) -> String {
        with_params(&format!("/v1/{}{path}", self.tenant), params)
    }

    /// The catalogue's name.
    pub fn catalogue(&self) -> &str {
        &self.pages.app.catalogue.name
    }

    /// Whether the catalogue defines coverage.
    pub fn measures_coverage(&self) -> bool {
        !self.pages.app.catalogue.coverages.is_empty()
    }

    /// Whether a collection has tags.
    pub fn has_tags(&self) -> bool {
        self.pages.app.catalogue.collections.iter().any(|collection| collection.tags.is_some())
    }

    /// Whether lab runs are shown.
    pub fn has_runs(&self) -> bool {
        self.pages.app.options.runs.is_some()
    }

    /// Whether the request is a GET, so that it can be repeated.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// The server's address as the visitor knows it.
    pub fn host(&self) -> &str {
        self.own.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost")
    }

    /// Whether the visitor has sent a token.
    pub fn is_signed_in(&self) -> bool {
        self.own.contains_key(header::AUTHORIZATION)
    }

    /// Gets JSON of the tenant from the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn ask(&self, path: &str, params: &[(&str, &str)]) -> HandlerResult<Arc<Json>> {
        self.ask_at(&self.api(path, params)).await
    }

    /// Gets JSON from any path of the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn ask_at(&self, path: &str) -> HandlerResult<Arc<Json>> {
        let answer = json_of(self.get(path).await).await.map(Arc::new);
        // the page's JSON includes refusals
        let said = answer.as_ref().map_or_else(|problem| Arc::new(problem.to_json()), Arc::clone);
        if let Ok(mut answers) = self.answers.lock() {
            answers.push((path.to_owned(), said));
        }
        answer
    }

    /// Sends JSON to the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn send(&self, method: Method, path: &str, params: &[(&str, &str)], body: Option<&Json>) -> HandlerResult<Json> {
        let sent = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        json_of(self.fetch(method, &self.api(path, params), sent, body.map(|_| "application/json")).await).await
    }

    /// Gets a response of the API as it is.
    pub async fn get(&self, path: &str) -> Response {
        self.fetch(Method::GET, path, Body::empty(), None).await
    }

    /// Calls the API with any method and body.
    pub async fn fetch(&self, method: Method, path: &str, body: Body, media: Option<&'static str>) -> Response {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        match path.parse() {
            Ok(path) => *request.uri_mut() = path,
            Err(_) => return Problem::bad("the path is not valid").into_response(),
        }
        *request.headers_mut() = self.own.clone();
        if let Some(media) = media {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        let mut api = self.pages.api.clone();
        match api.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Returns the CSRF token of this visitor's forms.
    pub fn csrf(&self) -> String {
        csrf(&self.pages, &self.own)
    }

    /// Whether a form with this mark is submitted for the first time, as far as this process remembers.
    pub fn is_first(&self, mark: &str) -> bool {
        let Ok(mut sent) = self.pages.sent.lock() else { return false };
        let is_first = !sent.iter().any(|known| known == mark);
        if is_first {
            sent.push_back(mark.to_owned());
            if sent.len() > MOST_SENT {
                sent.pop_front();
            }
        }
        is_first
    }

    /// Checks a form's CSRF token.
    ///
    /// # Errors
    /// 403 when it does not.
    pub fn check(&self, form: &SubmittedForm) -> HandlerResult<()> {
        form.check(&self.pages, &self.own)
    }

    /// Makes the response: the page, a part of one, or the API's responses as JSON.
    pub fn answer(&self, view: HandlerResult<RenderedPage>) -> Response {
        match view {
            Ok(view) if self.wants_json => {
                let answers = self.answers.lock().map(|answers| answers.clone()).unwrap_or_default();
                let all: Map<String, Json> = answers.into_iter().map(|(path, json)| (path, (*json).clone())).collect();
                (view.status, axum::Json(Json::Object(all))).into_response()
            }
            Err(problem) if self.wants_json => problem.into_response(),
            Ok(view) if view.part => layout::html(view.status, view.body),
            Ok(view) => layout::html(view.status, layout::frame(self, &view.title, &view.body)),
            Err(problem) => layout::html(problem.status, layout::frame(self, "That did not work", &layout::trouble(&problem))),
        }
    }
}

/// Reads the bytes of a response of the API.
///
/// # Errors
/// The problem that the API returns, or that the response is too long.
pub async fn bytes_of(response: Response) -> HandlerResult<Bytes> {
    let status = response.status();
    let too_long = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, TOO_LONG);
    let bytes = to_bytes(response.into_body(), MOST_ANSWER).await.map_err(too_long)?;
    if status.is_success() { Ok(bytes) } else { Err(Problem::of_json(status, &serde_json::from_slice(&bytes).unwrap_or_default())) }
}

/// Reads the JSON of a response of the API; null if there is none.
///
/// # Errors
/// As of [`bytes_of`].
pub async fn json_of(response: Response) -> HandlerResult<Json> {
    Ok(serde_json::from_slice(&bytes_of(response).await?).unwrap_or_default())
}

/// Checks that a text has only digits, so that it cannot change the path it is put into.
///
/// # Errors
/// 400 with the name of the number.
pub fn number_of<'t>(text: Option<&'t str>, what: &str) -> HandlerResult<&'t str> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.filter(is_number).ok_or_else(|| Problem::bad(format!("{what} must be a number")))
}

/// Reads the number of rows to skip; 0 if it is not given.
///
/// # Errors
/// 400 when it is not a number.
pub fn place_of(text: Option<&str>) -> HandlerResult<u64> {
    let wrong = |_| Problem::bad("idx is a number of rows, 0 or more");
    text.map_or(Ok(0), |text| text.parse().map_err(wrong))
}

/// Computes the CSRF token for the sender of these headers.
fn csrf(pages: &WebPages, own: &HeaderMap) -> String {
    let mut hash = Sha256::new();
    hash.update(pages.secret);
    hash.update(own.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes));
    hex(&hash.finalize()[..16])
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends encoded parameters to a path.
fn with_params(path: &str, params: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (place, (name, value)) in params.iter().enumerate() {
        out.push(if place == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        out.push_str(&percent(value));
    }
    out
}

/// Headers that are copied from a visitor's request to API calls.
pub const CARRIED: [HeaderName; 2] = [header::HOST, header::ORIGIN];
