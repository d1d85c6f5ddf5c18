//! The response to a request that cannot be fulfilled: problem details (RFC 9457), always with a sentence that says what to do.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value as Json, json};
use stook_engine::EngineError;
use stook_store::StoreError;

/// The media type of problem details.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// An error response.
#[derive(Debug, Clone)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// What is wrong, for people.
    pub detail: String,
    /// All errors, if there are several.
    pub errors: Vec<String>,
    /// Whether they are a list even if there is only one.
    pub are_listed: bool,
    /// Additional members of the JSON object, and headers.
    pub(crate) members: Vec<(String, Json)>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

/// The result of a handler.
pub type HandlerResult<T = Response> = Result<T, Problem>;

impl Problem {
    /// A problem with this status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), errors: Vec::new(), are_listed: false, members: Vec::new(), headers: Vec::new() }
    }

    /// 400: the request cannot be understood.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 422: there are errors in what was sent.
    pub fn unprocessable(errors: Vec<String>) -> Self {
        let detail = if let [only] = errors.as_slice() { only.clone() } else { format!("{} errors", errors.len()) };
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail) }
    }

    /// 404: there is no such thing.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// 400 or 408: the body could not be read, or was sent too slowly.
    pub fn unreadable_body(error: axum::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(source) = cause {
            if source.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut) {
                return Self::new(StatusCode::REQUEST_TIMEOUT, "the request body was sent too slowly");
            }
            cause = source.source();
        }
        Self::bad_request(format!("the body could not be read: {error}"))
    }

    /// 503, with `Retry-After`.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail).header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// A problem from the JSON of another response of this process.
    pub fn from_json(status: StatusCode, json: &Json) -> Self {
        let text = |name: &str| json[name].as_str();
        let mut problem = Self::new(status, text("detail").or(text("description")).or(text("title")).unwrap_or("unknown reason"));
        problem.errors = json["errors"].as_array().into_iter().flatten().filter_map(|error| error.as_str().map(str::to_owned)).collect();
        let known = ["type", "title", "status", "detail", "errors"];
        problem.members = json
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| !known.contains(&name.as_str()))
            .map(|(name, json)| (name.clone(), json.clone()))
            .collect();
        problem
    }

    /// Returns the problem details as JSON.
    pub fn to_json(&self) -> Json {
        let title = self.status.canonical_reason().unwrap_or("Problem");
        let mut body = json!({ "type": "about:blank", "title": title, "status": self.status.as_u16(), "detail": self.detail });
        if let Json::Object(members) = &mut body {
            if !self.errors.is_empty() {
                members.insert("errors".into(), json!(self.errors));
            }
            members.extend(self.members.iter().cloned());
        }
        body
    }

    /// Adds a header.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a member.
    pub fn with(mut self, name: &str, value: impl Into<Json>) -> Self {
        self.members.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the list of all errors.
    pub fn errors(mut self, errors: Vec<String>) -> Self {
        self.errors = errors;
        self
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        match error {
            StoreError::Wrong(reason) => Self::bad_request(reason),
            StoreError::Busy(_)
            | StoreError::Full
            | StoreError::ReadOnly(_)
            | StoreError::Held
            | StoreError::Outdated
            | StoreError::Slow(_)
            | StoreError::Cancelled => Self::unavailable(text),
            StoreError::DefinitionChanged => Self::unavailable("another process changed the catalogue; restart this one"),
            StoreError::Fenced(_)
            | StoreError::Undone
            | StoreError::Definition(_)
            | StoreError::Damaged(_)
            | StoreError::Broken(_)
            | StoreError::Other(_) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, text),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::NoDocument { .. } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()),
            EngineError::Expired(reason) => Self::new(StatusCode::GONE, reason),
            EngineError::Wrong(reason) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, reason),
            EngineError::File { .. } => Self::bad_request(error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.to_json().to_string()).into_response();
        response.headers_mut().extend(self.headers);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
}

impl From<tokio::task::JoinError> for Problem {
    fn from(error: tokio::task::JoinError) -> Self {
        StoreError::Other(error.to_string()).into()
    }
}
