//! Limits how slowly a peer may send or receive. It may pause for a limited time, and its overall rate has a minimum, so that a peer that sends a
//! byte now and then does not hold a connection forever.

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Min bytes per second, not counting the time it may pause.
const MIN_RATE: u64 = 8 << 10;

/// How long a peer has been waited for, and how many bytes it has moved.
pub struct TransferRate {
    stall: Duration,
    waited: Duration,
    moved: u64,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl TransferRate {
    /// For a peer that may pause for `stall`.
    pub fn new(stall: Duration) -> Self {
        Self { stall, waited: Duration::ZERO, moved: 0, since: None, timer: None }
    }

    /// Passes on the result of a poll and counts its bytes, or fails if the peer is too slow.
    ///
    /// # Errors
    /// `TimedOut` when the peer is too slow.
    pub fn watch<T>(&mut self, context: &mut Context<'_>, polled: Poll<T>, bytes: impl FnOnce(&T) -> u64) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(value) => {
                self.timer = None;
                self.waited += self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.moved = self.moved.saturating_add(bytes(&value));
                Poll::Ready(Ok(value))
            }
            Poll::Pending => {
                self.since.get_or_insert_with(Instant::now);
                let earned = self.stall + Duration::from_millis(self.moved.saturating_mul(1_000) / MIN_RATE);
                let remaining = earned.saturating_sub(self.waited).min(self.stall);
                let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(remaining)));
                timer.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

/// The body of a request, with a minimum rate.
pub struct RateCheckedBody {
    body: Body,
    pace: TransferRate,
}

impl RateCheckedBody {
    /// Wraps a body whose peer may pause for `stall`; a body that is empty stays empty.
    pub fn body<B>(body: B, stall: Duration) -> Body
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if body.is_end_stream() { Body::empty() } else { Body::new(Self { body: Body::new(body), pace: TransferRate::new(stall) }) }
    }
}

impl HttpBody for RateCheckedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let length = |frame: &Option<Result<Frame<Bytes>, axum::Error>>| match frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, |data| data.len() as u64),
            _ => 0,
        };
        self.pace.watch(context, polled, length).map(|watched| watched.unwrap_or_else(|slow| Some(Err(axum::Error::new(slow)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_peer_that_stalls_or_trickles_is_too_slow() {
        let stall = Duration::from_millis(100);
        // returns how long a peer is tolerated that moves `bytes` every `every` milliseconds
        let tolerated_for = async |bytes: u64, every: u64| {
            let (mut pace, began) = (TransferRate::new(stall), Instant::now());
            loop {
                let mut wait = std::pin::pin!(tokio::time::sleep(Duration::from_millis(every)));
                let moved = std::future::poll_fn(|context| {
                    let polled = wait.as_mut().poll(context).map(|()| bytes);
                    pace.watch(context, polled, |bytes| *bytes)
                });
                if moved.await.is_err() || began.elapsed() > Duration::from_secs(1) {
                    return began.elapsed();
                }
            }
        };
        let still = tolerated_for(1 << 20, 100_000).await;
        assert!((100..500).contains(&still.as_millis()), "{still:?}");
        let trickle = tolerated_for(1, 20).await;
        assert!((100..600).contains(&trickle.as_millis()), "{trickle:?}");
        assert!(tolerated_for(1 << 10, 20).await > Duration::from_secs(1), "it is slow, and fast enough");
    }
}
