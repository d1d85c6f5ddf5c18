//! Progress as server-sent events.

use crate::App;
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often the state is read.
const READ_INTERVAL: Duration = Duration::from_millis(200);
/// After this time without news a comment is sent, so that proxies do not close the connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Calls `read_state` repeatedly and sends `progress` whenever its text has changed, and `ended` when its flag is true. `None` ends the stream.
pub fn watch<L, F>(app: Arc<App>, read_state: L) -> Response
where
    L: FnMut() -> F + Send + 'static,
    F: Future<Output = Option<(String, bool)>> + Send,
{
    let state = (app, read_state, None::<String>, false);
    let stream = futures_util::stream::unfold(state, |(app, mut read_state, last, ended)| async move {
        if ended || app.ending.load(Ordering::SeqCst) {
            return None;
        }
        let mut quiet = Duration::ZERO;
        loop {
            if last.is_some() {
                tokio::time::sleep(READ_INTERVAL).await;
                quiet += READ_INTERVAL;
            }
            let (now, has_ended) = read_state().await?;
            if last.as_deref() != Some(&now) || has_ended {
                let event = if has_ended { "ended" } else { "progress" };
                let text = format!("event: {event}\ndata: {now}\n\n");
                return Some((Ok::<_, Infallible>(Bytes::from(text)), (app, read_state, Some(now), has_ended)));
            }
            if quiet >= KEEP_ALIVE_INTERVAL {
                return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), (app, read_state, last, false)));
            }
        }
    });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
