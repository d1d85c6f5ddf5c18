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
const LOOK: Duration = Duration::from_millis(200);
/// After this time without news a comment is sent, so that proxies do not close the connection.
const QUIET: Duration = Duration::from_secs(10);

/// Calls `look` repeatedly and sends `progress` whenever its text has changed, and `ended` when its flag is true. `None` ends the stream.
pub fn watch<L, F>(app: Arc<App>, look: L) -> Response
where
    L: FnMut() -> F + Send + 'static,
    F: Future<Output = Option<(String, bool)>> + Send,
{
    let state = (app, look, None::<String>, false);
    let stream = futures_util::stream::unfold(state, |(app, mut look, last, ended)| async move {
        if ended || app.ending.load(Ordering::SeqCst) {
            return None;
        }
        let mut quiet = Duration::ZERO;
        loop {
            if last.is_some() {
                tokio::time::sleep(LOOK).await;
                quiet += LOOK;
            }
            let (now, over) = look().await?;
            if last.as_deref() != Some(&now) || over {
                let event = if over { "ended" } else { "progress" };
                let text = format!("event: {event}\ndata: {now}\n\n");
                return Some((Ok::<_, Infallible>(Bytes::from(text)), (app, look, Some(now), over)));
            }
            if quiet >= QUIET {
                return Some((Ok(Bytes::from_static(b": keep-alive\n\n")), (app, look, last, false)));
            }
        }
    });
    let mut response = Response::new(Body::from_stream(stream));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
