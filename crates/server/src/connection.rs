//! Connections: accepts them, limits slow and silent peers, and shuts down gracefully.

use crate::guard::audited::PeerAddress;
use crate::guard::head;
use crate::guard::pace::{RateCheckedBody, TransferRate};
use crate::guard::proxy::take_person;
use crate::idle::{OpenConnection, OpenConnections};
use crate::log::RequestLogLevel;
use crate::{App, log};
use axum::Router;
use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use stook_catalogue::value::show_timestamp;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Max headers of a request.
const HEADERS: usize = 100;
/// How long a new connection waits for the place of one that must close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
/// How long a shutdown waits for requests in progress.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// How often tokens are read from the store again, the certificate is looked at, and refusals are logged.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);
/// How often changes of records that are too old are removed.
const EXPIRY_INTERVAL: Duration = Duration::from_secs(60);

/// Serves these routes until `stop` is done; then accepts no new requests and finishes those in progress.
///
/// # Errors
/// When connections cannot be accepted at all.
pub async fn serve_routes(app: Arc<App>, service: Router, listener: TcpListener, stop: impl Future<Output = ()>) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(app.options.connections.max(1)));
    let open = Arc::new(OpenConnections::default());
    let graceful = GracefulShutdown::new();
    let refresher = tokio::spawn(refresh_secrets(app.clone()));
    let prefetcher = tokio::spawn(fetch_ahead(app.clone()));
    let expiry = tokio::spawn(expire_changes(app.clone()));
    let history = tokio::spawn(crate::api::history::record_points(app.clone()));
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            // a peer that has disconnected or too many open files must not end the server
            Err(error) => {
                log::write("accept", [("error", error.to_string().into())]);
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let mut permit = permits.clone().try_acquire_owned().ok();
        if permit.is_none() && open.close_idle() {
            permit = tokio::time::timeout(CLOSE_TIMEOUT, permits.clone().acquire_owned()).await.ok().and_then(Result::ok);
        }
        let Some(permit) = permit else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let stream = RateCheckedStream { stream, pace: TransferRate::new(app.options.stall) };
        let (app, connection, watcher) = (app.clone(), open.add(), graceful.watcher());
        let service = RateCheckedService {
            routes: TowerToHyperService::new(service.clone()),
            stall: app.options.stall,
            connection: connection.clone(),
            peer: PeerAddress(peer.ip()),
            app: app.clone(),
        };
        tokio::spawn(async move {
            app.metrics.connections().inc();
            let answered = async {
                match &app.options.tls {
                    None => serve_connection(&app, service, stream, watcher).await,
                    // a peer that does not end its handshake in time is not waited for
                    Some(tls) => {
                        if let Ok(Ok(encrypted)) = tokio::time::timeout(app.options.stall, tls.acceptor().accept(stream)).await {
                            serve_connection(&app, service, encrypted, watcher).await;
                        }
                    }
                }
            };
            tokio::select! {
                () = answered => {}
                () = connection.must_close() => {}
            }
            app.metrics.connections().dec();
            drop(permit);
        });
    }
    app.ending.store(true, Ordering::SeqCst);
    app.fetcher.stop();
    drop(listener);
    let ended = tokio::time::timeout(SHUTDOWN_TIMEOUT, graceful.shutdown()).await;
    if ended.is_err() {
        log::write("end", [("error", "requests still in progress were aborted after 30 s".into())]);
    }
    refresher.abort();
    prefetcher.abort();
    expiry.abort();
    history.abort();
    Ok(())
}

/// Answers the requests of a connection until it ends. Errors concern only its peer.
async fn serve_connection(app: &App, service: RateCheckedService, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, watcher: Watcher) {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(app.options.stall).max_buf_size(head::MAX_HEAD_BYTES).max_headers(HEADERS);
    let _ = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
}

/// Fetches again what queries keep needing from services, before it expires.
async fn fetch_ahead(app: Arc<App>) {
    if app.catalogue.services.iter().all(|service| service.ahead.is_none()) {
        return;
    }
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let app = app.clone();
        let refreshed = tokio::task::spawn_blocking(move || app.fetcher.refresh(&app.store)).await;
        if let Ok(Err(error)) = refreshed {
            log::write("ask", [("error", error.to_string().into())]);
        }
    }
}

/// Removes changes of records that are older than their collections say.
async fn expire_changes(app: Arc<App>) {
    if stook_engine::change_feed::followed(&app.catalogue).next().is_none() {
        return;
    }
    loop {
        let own = app.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || stook_engine::change_feed::expire(&*own.store, &own.ending)).await {
            log::write("changes", [("error", error.to_string().into())]);
        }
        tokio::time::sleep(EXPIRY_INTERVAL).await;
    }
}

async fn refresh_secrets(app: Arc<App>) {
    loop {
        tokio::time::sleep(REFRESH_INTERVAL).await;
        if app.options.log != RequestLogLevel::None {
            app.refusals.write_log();
        }
        let token_app = app.clone();
        let refresh = move || {
            token_app.tokens.refresh(&*token_app.store)?;
            token_app.metrics.refresh_tenants(&*token_app.store)?;
            token_app.tokens.store_uses(&*token_app.store)
        };
        if let Ok(Err(error)) = tokio::task::spawn_blocking(refresh).await {
            log::write("tokens", [("error", error.to_string().into())]);
        }
        for token in app.tokens.expiring_soon() {
            let state = if token.has_expired() { "expired" } else { "expires soon" };
            log::write("token", [("id", token.id.into()), ("state", state.into()), ("expires", show_timestamp(token.expires).into())]);
        }
        let app = app.clone();
        let refreshed = tokio::task::spawn_blocking(move || app.options.tls.as_ref().map_or(Ok(false), |tls| tls.refresh())).await;
        match refreshed {
            Ok(Ok(true)) => log::write("certificate", [("state", "read again".into())]),
            Ok(Err(error)) => log::write("certificate", [("error", error.into())]),
            Ok(Ok(false)) | Err(_) => {}
        }
    }
}

/// Answers 503 to a peer beyond the limit of connections.
async fn refuse(mut stream: TcpStream) {
    let answer = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(answer)).await;
}

/// The routes, for requests with an acceptable head; they time out a peer that sends its body too slowly.
struct RateCheckedService {
    routes: TowerToHyperService<Router>,
    stall: Duration,
    connection: Arc<OpenConnection>,
    peer: PeerAddress,
    app: Arc<App>,
}

impl Service<Request<Incoming>> for RateCheckedService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        if let Some(person) = take_person(self.app.options.proxy.as_deref(), request.headers_mut(), self.peer.0) {
            request.extensions_mut().insert(person);
        }
        let in_progress = self.connection.begin_request();
        if let Err(problem) = head::check(&request) {
            return Box::pin(ready(Ok(in_progress.until_sent(problem.into_response()))));
        }
        let answered = self.routes.call(request.map(|body| RateCheckedBody::body(body, self.stall)));
        Box::pin(async move { answered.await.map(|response| in_progress.until_sent(response)) })
    }
}

/// A stream that times out a peer that receives its response too slowly.
struct RateCheckedStream {
    stream: TcpStream,
    pace: TransferRate,
}

impl RateCheckedStream {
    fn watched<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>, bytes: impl FnOnce(&T) -> u64) -> Poll<io::Result<T>> {
        let bytes = |result: &io::Result<T>| result.as_ref().map_or(0, bytes);
        self.pace.watch(context, polled, bytes).map(|watched| watched.and_then(|polled| polled))
    }
}

impl AsyncRead for RateCheckedStream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for RateCheckedStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, polled, |bytes| *bytes as u64)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watched(context, polled, |bytes| *bytes as u64)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(context, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watched(context, polled, |()| 0)
    }
}
