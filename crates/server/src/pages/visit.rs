//! A request for a page: the visitor, the parameters, and the responses of the API that the page shows.

use super::{WebPages, layout, session};
use crate::api::response::percent;
use crate::api::transitions::IDEMPOTENCY_KEY;
use crate::guard::access::Caller;
use crate::guard::audited::PeerAddress;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::proxy::ProxiedCaller;
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
use stook_store::access::{Operation, Reach, Role};
use tower_service::Service;

/// Max bytes of a response of the API.
const MAX_RESPONSE_BYTES: usize = 32 << 20;
/// The error if a response is longer.
pub const TOO_LONG: &str = "too long to be shown here; use the API";
/// Max remembered marks of submitted forms.
const MAX_FORM_MARKS: usize = 1_000;
/// Max bytes of a form.
const MAX_FORM_BYTES: usize = 1 << 20;

/// What a page shows.
pub struct RenderedPage {
    /// Its title.
    pub title: String,
    /// Its content; a fragment of a page is sent without the frame.
    pub body: Markup,
    /// Whether it is a fragment of a page.
    pub is_fragment: bool,
    /// The HTTP status.
    pub status: StatusCode,
}

impl RenderedPage {
    /// Makes a page.
    pub fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), body, is_fragment: false, status: StatusCode::OK }
    }

    /// Makes a fragment that replaces one in a page.
    pub fn fragment(body: Markup) -> Self {
        Self { is_fragment: true, ..Self::new("", body) }
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
    api_headers: HeaderMap,
    /// Where the visitor is.
    peer: Option<PeerAddress>,
    /// Who the visitor is, if a trusted proxy says it.
    proxied: Option<ProxiedCaller>,
    params: QueryParams,
    /// The path with its parameters, without `.json`.
    pub path: String,
    wants_json: bool,
    is_read: bool,
    /// Paths called in the API, with their responses.
    responses: Mutex<Vec<(String, Arc<Json>)>>,
}

impl FromRequestParts<Arc<WebPages>> for PageContext {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, pages: &Arc<WebPages>) -> Result<Self, Response> {
        let path = parts.uri.path().to_owned();
        let wants_json = path.ends_with(".json");
        let problem = |problem: Problem| if wants_json { problem.into_response() } else { layout::bare(&problem) };
        let api_headers = session::headers(pages, &parts.headers);
        let proxied = parts.extensions.get::<ProxiedCaller>().cloned();
        let caller = match pages.app.caller(&parts.extensions, &api_headers) {
            Ok(caller) => caller,
            Err(refused) if wants_json || parts.method != Method::GET || proxied.is_some() => return Err(problem(refused)),
            Err(_) => {
                let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
                return Err(Redirect::to(&with_params("/sign-in", &[("to", target)])).into_response());
            }
        };
        let values = RawPathParams::from_request_parts(parts, pages).await.map_err(|_| problem(Problem::bad_request("the path is not UTF-8")))?;
        let named = values.iter().find(|(name, _)| *name == "tenant").map_or("", |(_, value)| value);
        let tenant = caller.tenant(named).map_err(problem)?;
        let query = parts.uri.query().unwrap_or_default();
        let params = QueryParams::parse(query).map_err(problem)?;
        let page_path = path.strip_suffix(".json").unwrap_or(&path);
        let full_path = if query.is_empty() { page_path.to_owned() } else { format!("{page_path}?{query}") };
        let (responses, is_read) = (Mutex::default(), parts.method == Method::GET);
        Ok(Self {
            pages: pages.clone(),
            caller,
            tenant: tenant.as_str().to_owned(),
            api_headers,
            peer: parts.extensions.get::<PeerAddress>().copied(),
            proxied,
            params,
            path: full_path,
            wants_json,
            is_read,
            responses,
        })
    }
}

/// The fields of a submitted form.
pub struct SubmittedForm(pub Vec<(String, String)>);

impl FromRequest<Arc<WebPages>> for SubmittedForm {
    type Rejection = Response;

    async fn from_request(request: Request, _: &Arc<WebPages>) -> Result<Self, Response> {
        let bad_form = |detail: &str| layout::bare(&Problem::bad_request(detail));
        let bytes = to_bytes(request.into_body(), MAX_FORM_BYTES).await.map_err(|_| bad_form("a form has at most 1 MB"))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| bad_form("the form is not UTF-8"))?;
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
    pub fn required(&self, name: &str) -> HandlerResult<&str> {
        self.get(name).ok_or_else(|| Problem::bad_request(format!("{name} is missing")))
    }

    /// Checks that the form comes from a page of this process that was made for this visitor.
    ///
    /// # Errors
    /// 403 when it does not.
    pub fn check(&self, pages: &WebPages, visitor: Visitor<'_>) -> HandlerResult<()> {
        if pages.secret != [0; 32] && self.get("csrf") == Some(&csrf(pages, visitor)) {
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

    /// Whether the visitor has this role, for some collection at least; pages offer only what may be allowed.
    pub fn may(&self, role: Role) -> bool {
        self.caller.rights.role() >= role
    }

    /// Whether the visitor may change some records of a collection at least.
    pub fn may_change(&self, collection: &str) -> bool {
        self.caller.rights.reach(Operation::Write, collection) != Reach::Nothing
    }

    /// Checks that the visitor may change some records of a collection, before a form for that is shown or read.
    ///
    /// # Errors
    /// 403 when they may not.
    pub fn require_change(&self, collection: &str) -> HandlerResult<()> {
        let found = self.pages.app.catalogue.collection(collection).filter(|_| !self.may_change(collection));
        found.map_or(Ok(()), |(_, collection)| self.caller.require(Operation::Write, collection))
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
        self.api_headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost")
    }

    /// Whether a trusted proxy says who the visitor is, who signs in and out there.
    pub fn is_proxied(&self) -> bool {
        self.proxied.is_some()
    }

    /// Whether the visitor has sent a token.
    pub fn is_signed_in(&self) -> bool {
        self.api_headers.contains_key(header::AUTHORIZATION)
    }

    /// Gets JSON of the tenant from the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn get_json(&self, path: &str, params: &[(&str, &str)]) -> HandlerResult<Arc<Json>> {
        self.get_json_at(&self.api(path, params)).await
    }

    /// Gets JSON from any path of the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn get_json_at(&self, path: &str) -> HandlerResult<Arc<Json>> {
        let response = json_of(self.get(path).await).await.map(Arc::new);
        // the page's JSON includes refusals
        let shown = response.as_ref().map_or_else(|problem| Arc::new(problem.to_json()), Arc::clone);
        if let Ok(mut responses) = self.responses.lock() {
            responses.push((path.to_owned(), shown));
        }
        response
    }

    /// Sends JSON to the API.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn send(&self, method: Method, path: &str, params: &[(&str, &str)], body: Option<&Json>) -> HandlerResult<Json> {
        let sent = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        json_of(self.call_api(method, &self.api(path, params), sent, body.map(|_| "application/json")).await).await
    }

    /// Posts JSON to the API as a call that is done once, however often it is sent.
    ///
    /// # Errors
    /// The problem that the API returns.
    pub async fn send_once(&self, path: &str, params: &[(&str, &str)], body: &Json, call: &str) -> HandlerResult<Json> {
        let mut headers = self.api_headers.clone();
        let key = HeaderValue::from_str(call).map_err(|_| Problem::bad_request("the mark of a form is one of this server"))?;
        headers.insert(IDEMPOTENCY_KEY, key);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        json_of(self.call_with(headers, Method::POST, &self.api(path, params), Body::from(body.to_string())).await).await
    }

    /// Gets a response of the API as it is.
    pub async fn get(&self, path: &str) -> Response {
        self.call_api(Method::GET, path, Body::empty(), None).await
    }

    /// Calls the API with any method and body.
    pub async fn call_api(&self, method: Method, path: &str, body: Body, media: Option<&'static str>) -> Response {
        let mut headers = self.api_headers.clone();
        if let Some(media) = media {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        }
        self.call_with(headers, method, path, body).await
    }

    async fn call_with(&self, headers: HeaderMap, method: Method, path: &str, body: Body) -> Response {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        match path.parse() {
            Ok(path) => *request.uri_mut() = path,
            Err(_) => return Problem::bad_request("the path is not valid").into_response(),
        }
        *request.headers_mut() = headers;
        if let Some(peer) = self.peer {
            request.extensions_mut().insert(peer);
        }
        if let Some(proxied) = &self.proxied {
            request.extensions_mut().insert(proxied.clone());
        }
        let mut api = self.pages.api.clone();
        match api.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }

    /// Returns the CSRF token of this visitor's forms.
    pub fn csrf(&self) -> String {
        csrf(&self.pages, self.visitor())
    }

    /// Whether a form with this mark is submitted for the first time, as far as this process remembers.
    pub fn is_first(&self, mark: &str) -> bool {
        let Ok(mut sent) = self.pages.sent.lock() else { return false };
        let is_first = !sent.iter().any(|known| known == mark);
        if is_first {
            sent.push_back(mark.to_owned());
            if sent.len() > MAX_FORM_MARKS {
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
        form.check(&self.pages, self.visitor())
    }

    fn visitor(&self) -> Visitor<'_> {
        match &self.proxied {
            Some(_) => Visitor::Person(&self.caller.name),
            None => Visitor::of(&self.api_headers),
        }
    }

    /// Makes the response: the page, a part of one, or the API's responses as JSON.
    pub fn answer(&self, view: HandlerResult<RenderedPage>) -> Response {
        match view {
            Ok(view) if self.wants_json => {
                let responses = self.responses.lock().map(|responses| responses.clone()).unwrap_or_default();
                let all: Map<String, Json> = responses.into_iter().map(|(path, json)| (path, (*json).clone())).collect();
                (view.status, axum::Json(Json::Object(all))).into_response()
            }
            Err(problem) if self.wants_json => problem.into_response(),
            Ok(view) if view.is_fragment => layout::html(view.status, view.body),
            Ok(view) => layout::html(view.status, layout::frame(self, &view.title, &view.body)),
            Err(problem) => layout::html(problem.status, layout::frame(self, "That did not work", &layout::problem_box(&problem))),
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
    let bytes = to_bytes(response.into_body(), MAX_RESPONSE_BYTES).await.map_err(too_long)?;
    if status.is_success() { Ok(bytes) } else { Err(Problem::from_json(status, &serde_json::from_slice(&bytes).unwrap_or_default())) }
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
pub fn parse_number<'t>(text: Option<&'t str>, subject: &str) -> HandlerResult<&'t str> {
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.filter(is_number).ok_or_else(|| Problem::bad_request(format!("{subject} must be a number")))
}

/// Reads the number of rows to skip; 0 if it is not given.
///
/// # Errors
/// 400 when it is not a number.
pub fn parse_offset(text: Option<&str>) -> HandlerResult<u64> {
    let wrong = |_| Problem::bad_request("idx is a number of rows, 0 or more");
    text.map_or(Ok(0), |text| text.parse().map_err(wrong))
}

/// For whom a form is made.
#[derive(Clone, Copy)]
pub enum Visitor<'a> {
    /// Who sends these credentials, or none.
    Credentials(&'a [u8]),
    /// A person whom a proxy names.
    Person(&'a str),
}

impl<'a> Visitor<'a> {
    /// The sender of these headers.
    pub fn of(api_headers: &'a HeaderMap) -> Self {
        Self::Credentials(api_headers.get(header::AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes))
    }
}

/// Computes the CSRF token for a visitor.
fn csrf(pages: &WebPages, visitor: Visitor<'_>) -> String {
    let mut hash = Sha256::new();
    hash.update(pages.secret);
    match visitor {
        Visitor::Credentials(sent) => hash.update(sent),
        // no credentials have a line break
        Visitor::Person(name) => hash.update(format!("person\n{name}")),
    }
    hex(&hash.finalize()[..16])
}

/// Formats bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends encoded parameters to a path.
fn with_params(path: &str, params: &[(&str, &str)]) -> String {
    let mut out = path.to_owned();
    for (index, (name, value)) in params.iter().enumerate() {
        out.push(if index == 0 { '?' } else { '&' });
        out.push_str(name);
        out.push('=');
        out.push_str(&percent(value));
    }
    out
}

/// Headers that are copied from a visitor's request to API calls.
pub const CARRIED: [HeaderName; 2] = [header::HOST, header::ORIGIN];
