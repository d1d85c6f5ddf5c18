//! The checked parts of a request that handlers get: tenant, path, query parameters, body.

use crate::App;
use crate::guard::access::Caller;
use crate::guard::problem::{HandlerResult, Problem};
use crate::metrics::{RequestCounters, RequestStep};
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use bytes::Bytes;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stook_catalogue::definition::Collection;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_store::Tenant;
use stook_store::access::Role;

/// What the guard has determined about a request.
#[derive(Clone)]
pub struct GuardedRequest {
    /// The caller.
    pub caller: Caller,
    /// Its counters.
    pub counters: Arc<RequestCounters>,
    /// Milliseconds that it may take in addition to the time limit.
    pub extra_time: Arc<AtomicU64>,
}

/// A request without its body.
pub struct RequestContext {
    /// What all requests share.
    pub app: Arc<App>,
    /// The caller.
    pub caller: Caller,
    /// The tenant.
    pub tenant: Tenant,
    /// Path parameters by name.
    path: RawPathParams,
    /// Query parameters.
    pub params: QueryParams,
    /// The headers.
    pub headers: HeaderMap,
    /// Its counters.
    pub counters: Arc<RequestCounters>,
    /// Milliseconds that it may take in addition to the time limit.
    pub extra_time: Arc<AtomicU64>,
    /// The collection of the route, if the route belongs to one.
    collection: CollectionId,
}

impl FromRequestParts<Arc<App>> for RequestContext {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let context = Self::undecided(parts, app).await?;
        // callers with rights for single collections are refused where nothing else decides
        context.caller.require_role(Role::Read)?;
        Ok(context)
    }
}

impl RequestContext {
    /// The request of any caller, for [`UndecidedContext`](crate::guard::undecided::UndecidedContext).
    pub(super) async fn undecided(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let path = RawPathParams::from_request_parts(parts, app).await.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        let not_guarded = || Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the route is not behind the guard");
        let GuardedRequest { caller, counters, extra_time } = parts.extensions.remove::<GuardedRequest>().ok_or_else(not_guarded)?;
        let tenant = match path.iter().find(|(name, _)| *name == "tenant") {
            Some((_, named)) => caller.tenant(named)?,
            None => caller.tenant_or_default(),
        };
        let params = QueryParams::parse(parts.uri.query().unwrap_or_default())?;
        Ok(Self {
            app: app.clone(),
            caller,
            tenant,
            path,
            params,
            headers: std::mem::take(&mut parts.headers),
            counters,
            extra_time,
            collection: CollectionId::from(0),
        })
    }
}

impl RequestContext {
    /// Counts that the request has reached the store.
    pub fn count_store_reached(&self) {
        self.counters.count_step(RequestStep::StoreReached);
    }

    /// Returns a path parameter.
    pub fn segment(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns the request with its collection set.
    pub fn with_collection(self, collection: CollectionId) -> Self {
        Self { collection, ..self }
    }

    /// Returns the collection of the route.
    pub fn collection(&self) -> CollectionId {
        self.collection
    }

    /// Returns the collection's name.
    pub fn name(&self) -> &str {
        &self.definition(self.collection).name
    }

    /// Returns the definition of a collection.
    pub fn definition(&self, collection: CollectionId) -> &Collection {
        &self.app.catalogue.collections[collection]
    }

    /// Returns the key in the path, or in `?key=` if the path has `-`.
    ///
    /// # Errors
    /// 400 when it is not a valid key.
    pub fn key(&mut self) -> HandlerResult<Key> {
        let named = if self.segment("key") == "-" { self.params.single("key")? } else { None };
        let text = named.unwrap_or_else(|| self.segment("key").to_owned());
        Key::new(text).map_err(|error| Problem::bad_request(error.to_string()))
    }

    /// Returns the URL under which the caller reached the server, without a path: that of the definition's `repository`, or by the header `Host`.
    pub fn url(&self) -> String {
        let declared = self.app.catalogue.repository.as_ref().and_then(|repository| repository.url.clone());
        declared.unwrap_or_else(|| {
            let scheme = if self.app.options.tls.is_some() { "https" } else { "http" };
            let host = self.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
            format!("{scheme}://{host}")
        })
    }

    /// Returns the text of a header.
    ///
    /// # Errors
    /// 400 when it is not text.
    pub fn header(&self, name: HeaderName) -> HandlerResult<Option<&str>> {
        let text = self.headers.get(&name).map(|value| value.to_str()).transpose();
        text.map_err(|_| Problem::bad_request(format!("the header {name} is not text")))
    }

    /// Reads the body as JSON.
    ///
    /// # Errors
    /// 400, 413 or 415.
    pub async fn json(&self, body: Body, media: &[&str]) -> HandlerResult<Json> {
        let sent = self.header(header::CONTENT_TYPE)?.unwrap_or("application/json");
        let sent = sent.split(';').next().unwrap_or_default().trim();
        if !media.iter().any(|known| sent.eq_ignore_ascii_case(known)) {
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("send {}, this is {sent:?}", media.join(" or "))));
        }
        parse_json(&self.bytes(body).await?)
    }

    /// Returns the complete body, which the guard has received already.
    ///
    /// # Errors
    /// 400 or 413 when it cannot be read.
    pub async fn bytes(&self, body: Body) -> HandlerResult<Bytes> {
        to_bytes(body, self.app.options.body).await.map_err(Problem::unreadable_body)
    }

    /// Reads the body as a JSON object.
    ///
    /// # Errors
    /// 400, 413, 415 or 422.
    pub async fn object(&self, body: Body, media: &[&str]) -> HandlerResult<Map<String, Json>> {
        match self.json(body, media).await? {
            Json::Object(members) => Ok(members),
            other => {
                let shown: String = other.to_string().chars().take(40).collect();
                Err(Problem::unprocessable(vec![format!("send a JSON object, this is {shown}")]))
            }
        }
    }
}

/// Parses JSON that was sent.
pub fn parse_json(bytes: &[u8]) -> HandlerResult<Json> {
    stook_catalogue::json::parse(bytes).map_err(|error| Problem::bad_request(format!("the body is not JSON: {error}")))
}

/// The media types of a JSON body.
pub const JSON: &[&str] = &["application/json"];

/// The media types of a merge patch.
pub const PATCH: &[&str] = &["application/merge-patch+json", "application/json"];

/// The largest integer that every JSON reader represents exactly: 2^53 - 1.
pub const MAX_INTEGER: i64 = 9_007_199_254_740_991;

/// Refuses members of a body that the handler has not taken out; `known` are those that it takes.
///
/// # Errors
/// 422 when there is one.
pub fn reject_other_members(sent: &Map<String, Json>, known: &[&str]) -> HandlerResult<()> {
    match sent.keys().next() {
        None => Ok(()),
        Some(name) => {
            let instead = known_instead(name, known.iter().copied());
            Err(Problem::unprocessable(vec![format!("there is no member {name:?} here; {instead}")]))
        }
    }
}

/// Query parameters. A handler must read every parameter that was sent before it calls [`QueryParams::end`].
#[derive(Debug, Default)]
pub struct QueryParams {
    unused: Vec<(String, String)>,
    read_names: Vec<String>,
}

impl QueryParams {
    /// Reads `a=b&c=d`.
    ///
    /// # Errors
    /// 400 when it is not UTF-8 or contains a NUL character.
    pub fn parse(query: &str) -> HandlerResult<Self> {
        let decode = |part: &str| {
            let spaced = part.replace('+', " ");
            let decoded = percent_decoded(&spaced).and_then(|bytes| String::from_utf8(bytes).ok());
            decoded
                .filter(|text| !text.contains('\0'))
                .ok_or_else(|| Problem::bad_request(format!("the parameter {part:?} is not UTF-8 text, or contains a NUL character")))
        };
        let mut pairs = Vec::new();
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Ok(Self { unused: pairs, read_names: Vec::new() })
    }

    /// Returns all values of a parameter, in their order.
    pub fn all(&mut self, name: &'static str) -> Vec<String> {
        self.all_named(name)
    }

    /// The same for names that come from the definition.
    pub fn all_named(&mut self, name: &str) -> Vec<String> {
        self.read_names.push(name.to_owned());
        let (values, remaining) = std::mem::take(&mut self.unused).into_iter().partition(|(sent_name, _)| sent_name == name);
        self.unused = remaining;
        let values: Vec<(String, String)> = values;
        values.into_iter().map(|(_, value)| value).collect()
    }

    /// Returns all remaining parameters, in their order.
    pub fn into_pairs(self) -> Vec<(String, String)> {
        self.unused
    }

    /// Returns the first value of a parameter without marking it as read.
    #[cfg(feature = "pages")]
    pub fn first(&self, name: &str) -> Option<&str> {
        self.unused.iter().find(|(sent_name, _)| sent_name == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter that may be given once.
    ///
    /// # Errors
    /// 400 when it is given more than once.
    pub fn single(&mut self, name: &'static str) -> HandlerResult<Option<String>> {
        let mut all = self.all(name);
        if all.len() > 1 {
            return Err(Problem::bad_request(format!("the parameter {name} is given {} times", all.len())));
        }
        Ok(all.pop())
    }

    /// Returns a whole number from `min` to `max`.
    ///
    /// # Errors
    /// 400 when it is not such a number.
    pub fn number(&mut self, name: &'static str, min: u64, max: u64) -> HandlerResult<Option<u64>> {
        let Some(text) = self.single(name)? else { return Ok(None) };
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && (min..=max).contains(number));
        number.map(Some).ok_or_else(|| Problem::bad_request(format!("{name} is a whole number from {min} to {max}")))
    }

    /// Returns a flag, `true` or `false`; false if it is not given.
    ///
    /// # Errors
    /// 400 when it is neither.
    pub fn flag(&mut self, name: &'static str) -> HandlerResult<bool> {
        match self.single(name)?.as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::bad_request(format!("{name} is true or false"))),
        }
    }

    /// Refuses parameters that the handler has not read.
    ///
    /// # Errors
    /// 400 with the name of the first one.
    pub fn end(&self) -> HandlerResult<()> {
        self.unknown().map_or(Ok(()), |reason| Err(Problem::bad_request(reason)))
    }

    /// Says that the first parameter which the handler has not read is not known, and what is, if there is such a parameter.
    pub fn unknown(&self) -> Option<String> {
        let (name, _) = self.unused.first()?;
        let instead = known_instead(name, self.read_names.iter().map(String::as_str));
        Some(format!("there is no parameter {name:?} here; {instead}"))
    }
}

/// Decodes percent-encoded text; `None` if an escape is broken.
pub fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| (byte as char).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        out.push((high * 16 + low) as u8);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn repeated_parameters_are_returned_in_order_and_unused_ones_are_refused() {
        let mut params = QueryParams::parse("id=a%2Fb&id=c+d&limit=7&x").expect("parameters");
        assert_eq!(params.all("id"), ["a/b", "c d"]);
        assert_eq!(params.number("limit", 1, 10).expect("a number"), Some(7));
        assert!(params.end().is_err_and(|problem| problem.detail.contains("\"x\"")));
        for bad in ["a=%ff", "a=%0", "%zz", "a=%00"] {
            assert!(QueryParams::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_back_from_its_encoding(text in "[^\u{0}]*") {
            let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
            let mut params = QueryParams::parse(&format!("a={encoded}")).expect("parameters");
            prop_assert_eq!(params.all("a"), vec![text]);
        }

        #[test]
        fn parsing_any_query_does_not_panic(query in "[ -~]*") {
            let _ = QueryParams::parse(&query).map(|mut params| (params.number("a", 0, 9).is_ok(), params.end().is_ok()));
        }
    }
}
