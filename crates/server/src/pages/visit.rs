//! A visit: who looks, what they asked for, and the answers of the API that are shown.

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

/// Longest answer of the API that is shown.
const MOST_ANSWER: usize = 32 << 20;
/// What is said of a longer one.
pub const TOO_LONG: &str = "too long to be shown here; use the API";
/// Marks of forms that are remembered.
const MOST_SENT: usize = 1_000;
/// Longest form.
const MOST_FORM: usize = 1 << 20;

/// What a page shows.
pub struct RenderedPage {
    /// Its title.
    pub title: String,
    /// What stands in the frame; the frame is left out of what replaces a part of a page.
    pub body: Markup,
    /// Whether it is a part of a page.
    pub part: bool,
    /// What became of the question it answers.
    pub status: StatusCode,
}

impl RenderedPage {
    /// A page.
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), body, part: false, status: StatusCode::OK }
    }

    /// What replaces a part of a page.
    pub fn part(body: Markup) -> Self {
        Self { part: true, ..Self::new("", body) }
    }
}

/// Who looks at what.
pub struct PageContext {
    pages: Arc<WebPages>,
    /// Who looks.
    pub caller: Caller,
    /// Whose records.
    pub tenant: String,
    /// The token that is sent with questions, and where the visitor comes from.
    own: HeaderMap,
    params: QueryParams,
    /// The path and what stands after it, without `.json`.
    pub path: String,
    wants_json: bool,
    is_read: bool,
    /// What was asked of the API, and its answers.
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

/// What a form sent.
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
    /// A value; the empty text is none.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// A value that must be there.
    ///
    /// # Errors
    /// 400 when it is not.
    pub fn need(&self, name: &str) -> HandlerResult<&str> {
        self.get(name).ok_or_else(|| Problem::bad(format!("{name} is missing")))
    }

    /// Whether it comes from a page of ours that was made for who sends these headers.
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
    /// A parameter after the question mark; the empty text is none.
    pub fn param(&self, name: &str) -> Option<&str> {
        self.params.first(name).filter(|value| !value.is_empty())
    }

    /// Whether somebody may do what needs this role: what is refused is not offered.
    pub fn may(&self, role: Role) -> bool {
        self.caller.role >= role
    }

    /// The path of a page of this tenant.
    pub fn to(&self, page: &str, params: &[(&str, &str)]) -> String {
        with_params(&format!("/t/{}/{page}", self.tenant), params)
    }

    /// The path of a record's page.
    pub fn record(&self, collection: &str, key: &str) -> String {
        self.to("record", &[("collection", collection), ("key", key)])
    }

    /// A path of the API, below what is of this tenant.
    pub fn api(&self, path: &str, params: &[(&str, &str)]) -> String {
        with_params(&format!("/v1/{}{path}", self.tenant), params)
    }

    /// The catalogue's name.
    pub fn catalogue(&self) -> &str {
        &self.pages.app.catalogue.name
    }

    /// Whether there is coverage to be looked at.
    pub fn measures_coverage(&self) -> bool {
        !self.pages.app.catalogue.coverages.is_empty()
    }

    /// Whether some records carry tags.
    pub fn has_tags(&self) -> bool {
        self.pages.app.catalogue.collections.iter().any(|collection| collection.tags.is_some())
    }

    /// Whether runs of the lab are shown.
    pub fn has_runs(&self) -> bool {
        self.pages.app.options.runs.is_some()
    }

    /// Whether it changes nothing, so that it can be asked for again.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// The address that the visitor knows this server by.
    pub fn host(&self) -> &str {
        self.own.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost")
    }

    /// Whether there is something to sign out of.
    pub fn is_signed_in(&self) -> bool {
        self.own.contains_key(header::AUTHORIZATION)
    }

    /// Asks the API for JSON.
    ///
    /// # Errors
    /// What the API says.
    pub async fn ask(&self, path: &str, params: &[(&str, &str)]) -> HandlerResult<Arc<Json>> {
        self.ask_at(&self.api(path, params)).await
    }

    /// Asks the API for JSON that is not of a tenant.
    ///
    /// # Errors
    /// What the API says.
    pub async fn ask_at(&self, path: &str) -> HandlerResult<Arc<Json>> {
        let answer = json_of(self.get(path).await).await.map(Arc::new);
        // what is refused is an answer, too
        let said = answer.as_ref().map_or_else(|problem| Arc::new(problem.to_json()), Arc::clone);
        if let Ok(mut answers) = self.answers.lock() {
            answers.push((path.to_owned(), said));
        }
        answer
    }

    /// Sends JSON to the API.
    ///
    /// # Errors
    /// What the API says.
    pub async fn send(&self, method: Method, path: &str, params: &[(&str, &str)], body: Option<&Json>) -> HandlerResult<Json> {
        let sent = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        json_of(self.fetch(method, &self.api(path, params), sent, body.map(|_| "application/json")).await).await
    }

    /// The answer of a path of the API as it is.
    pub async fn get(&self, path: &str) -> Response {
        self.fetch(Method::GET, path, Body::empty(), None).await
    }

    /// The same for any method and body.
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

    /// What tells this visitor's forms from those of other pages.
    pub fn csrf(&self) -> String {
        csrf(&self.pages, &self.own)
    }

    /// Whether a form with this mark is sent for the first time, as far as this process remembers.
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

    /// Whether a form comes from a page of ours.
    ///
    /// # Errors
    /// 403 when it does not.
    pub fn check(&self, form: &SubmittedForm) -> HandlerResult<()> {
        form.check(&self.pages, &self.own)
    }

    /// What was asked for: the page, a part of one, or the answers it shows.
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

/// The bytes of an answer of the API.
///
/// # Errors
/// What the API says, or that the answer is too long.
pub async fn bytes_of(response: Response) -> HandlerResult<Bytes> {
    let status = response.status();
    let too_long = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, TOO_LONG);
    let bytes = to_bytes(response.into_body(), MOST_ANSWER).await.map_err(too_long)?;
    if status.is_success() { Ok(bytes) } else { Err(Problem::of_json(status, &serde_json::from_slice(&bytes).unwrap_or_default())) }
}

/// The JSON of an answer of the API; nothing where there is none.
///
/// # Errors
/// As of [`bytes_of`].
pub async fn json_of(response: Response) -> HandlerResult<Json> {
    Ok(serde_json::from_slice(&bytes_of(response).await?).unwrap_or_default())
}

/// A number as a path of the API takes it: digits, nothing that would be another path.
///
/// # Errors
/// 400 with what it is a number of.
pub fn number_of<'t>(text: Option<&'t str>, what: &str) -> HandlerResult<&'t str> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.filter(is_number).ok_or_else(|| Problem::bad(format!("{what} must be a number")))
}

/// How many rows are left out at the front; none where nothing is said.
///
/// # Errors
/// 400 when it is no number.
pub fn place_of(text: Option<&str>) -> HandlerResult<u64> {
    let wrong = |_| Problem::bad("idx is a number of rows, 0 or more");
    text.map_or(Ok(0), |text| text.parse().map_err(wrong))
}

/// The mark of forms for who sends these headers.
fn csrf(pages: &WebPages, own: &HeaderMap) -> String {
    let mut hash = Sha256::new();
    hash.update(pages.secret);
    hash.update(own.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes));
    hex(&hash.finalize()[..16])
}

/// Bytes as text.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path with parameters, encoded.
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

/// Headers that are carried from a visitor's request to questions of the API.
pub const CARRIED: [HeaderName; 2] = [header::HOST, header::ORIGIN];
