//! The id of a request: the one that its caller sent, or a new one.

use axum::extract::Request;
use axum::http::HeaderValue;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// The header with the id of a request, in responses and in the log.
pub const REQUEST_ID: &str = "x-request-id";

/// Generates ids of requests.
pub struct RequestIds {
    process: u32,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        let mut random = [0; 4];
        // if two processes share numbers, a log is only harder to read
        let _ = getrandom::fill(&mut random);
        Self { process: u32::from_le_bytes(random), next: AtomicU64::new(1) }
    }
}

impl RequestIds {
    /// Returns the id the caller sent if it has 1 to 64 letters, digits and hyphens, else a new one.
    pub fn id(&self, request: &Request) -> HeaderValue {
        let is_valid = |value: &&HeaderValue| {
            (1..=64).contains(&value.len()) && value.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        };
        if let Some(sent) = request.headers().get(REQUEST_ID).filter(is_valid) {
            return sent.clone();
        }
        let mut id = String::with_capacity(24);
        // writing into memory does not fail
        let _ = write!(id, "{:08x}-{:x}", self.process, self.next.fetch_add(1, Ordering::Relaxed));
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    }
}
