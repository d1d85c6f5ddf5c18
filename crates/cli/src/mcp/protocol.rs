//! Messages of the protocol: JSON-RPC 2.0, one in a line.
//!
//! Clients of revisions up to 2025-11-25 begin with `initialize`. Since 2026-07-28 there is no beginning: each request names its revision, and
//! `server/discover` says which there are. Neither kind needs anything to be remembered here.

use serde_json::{Map, Value as Json, json};

/// The revision in which each request stands for itself.
const STATELESS: &str = "2026-07-28";
/// The revisions that begin with `initialize`, newest first.
const WITH_HANDSHAKE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The member of `_meta` that names the revision of a request.
const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
/// The member of `_meta` that names the server in a result.
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// The request is not JSON.
pub const PARSE_ERROR: i64 = -32_700;
/// It is no request.
pub const INVALID_REQUEST: i64 = -32_600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32_601;
/// Its parameters are wrong.
pub const INVALID_PARAMS: i64 = -32_602;
/// The server failed.
pub const INTERNAL_ERROR: i64 = -32_603;
/// There is no such revision here.
const UNSUPPORTED_REVISION: i64 = -32_022;

/// An error that ends a request.
#[derive(Debug)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Option<Json>,
}

impl RpcError {
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The response to the request with this id.
    pub fn response(&self, id: &Json) -> Json {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    }
}

/// A message from the client.
pub enum Message {
    Request(Request),
    /// A request that is not wanted any more, by its id.
    Cancelled(Json),
    /// Another notification, or a response; nothing follows from it.
    Ignored,
}

/// A request.
pub struct Request {
    pub id: Json,
    pub method: String,
    pub params: Map<String, Json>,
    /// Whether it is of the revision without a handshake.
    is_stateless: bool,
}

/// Reads a message; if it cannot be read, the response to it.
pub fn read(line: &[u8]) -> Result<Message, Json> {
    let refused = |id: &Json, code: i64, message: String| RpcError::new(code, message).response(id);
    let parsed: Json = serde_json::from_slice(line).map_err(|error| refused(&Json::Null, PARSE_ERROR, format!("this line is not JSON: {error}")))?;
    let Json::Object(mut message) = parsed else {
        return Err(refused(&Json::Null, INVALID_REQUEST, "a message is a JSON object; batches are not a part of this protocol any more".into()));
    };
    let id = message.remove("id");
    let params = match message.remove("params") {
        Some(Json::Object(params)) => params,
        None | Some(Json::Null) => Map::new(),
        Some(_) => return Err(refused(&id.unwrap_or_default(), INVALID_REQUEST, "params is an object".into())),
    };
    let method = match message.remove("method") {
        Some(Json::String(method)) => method,
        // the response to a request that was never sent
        None if message.contains_key("result") || message.contains_key("error") => return Ok(Message::Ignored),
        _ => return Err(refused(&id.unwrap_or_default(), INVALID_REQUEST, "a request has a method".into())),
    };
    let Some(id) = id else {
        let cancelled = params.get("requestId").filter(|_| method == "notifications/cancelled");
        return Ok(cancelled.map_or(Message::Ignored, |id| Message::Cancelled(id.clone())));
    };
    if !(id.is_string() || id.is_number()) {
        return Err(refused(&Json::Null, INVALID_REQUEST, "id is a text or a number".into()));
    }
    let revision = params.get("_meta").and_then(|meta| meta.get(REVISION));
    if let Some(other) = revision.filter(|revision| *revision != STATELESS) {
        let error = RpcError::new(UNSUPPORTED_REVISION, format!("revision {other} of the protocol is not spoken here"));
        return Err(RpcError { data: Some(json!({ "supported": revisions(), "requested": other })), ..error }.response(&id));
    }
    Ok(Message::Request(Request { is_stateless: revision.is_some(), id, method, params }))
}

fn revisions() -> Vec<&'static str> {
    std::iter::once(STATELESS).chain(WITH_HANDSHAKE).collect()
}

fn server_info() -> Json {
    json!({ "name": "stook", "title": "Stook", "version": env!("CARGO_PKG_VERSION") })
}

impl Request {
    /// The response with a result.
    pub fn response(&self, mut result: Json) -> Json {
        if self.is_stateless {
            result["resultType"] = "complete".into();
            result["_meta"] = json!({ SERVER: server_info() });
        }
        json!({ "jsonrpc": "2.0", "id": self.id, "result": result })
    }

    /// A result that clients may keep for no time: the definition may change.
    pub fn uncached(&self, mut result: Json) -> Json {
        if self.is_stateless {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
        result
    }

    /// The result of `initialize`: the revision that was offered, or the newest one with a handshake.
    pub fn initialized(&self, instructions: &str) -> Json {
        let offered = self.params.get("protocolVersion").and_then(Json::as_str);
        let revision = WITH_HANDSHAKE.into_iter().find(|known| offered == Some(known)).unwrap_or(WITH_HANDSHAKE[0]);
        json!({ "protocolVersion": revision, "capabilities": capabilities(), "serverInfo": server_info(), "instructions": instructions })
    }

    /// The result of `server/discover`.
    pub fn discovered(&self, instructions: &str) -> Json {
        self.uncached(json!({ "supportedVersions": revisions(), "capabilities": capabilities(), "instructions": instructions }))
    }
}

fn capabilities() -> Json {
    json!({ "tools": {} })
}
