//! What the served side is compared with, and load that does not wait for answers.
//!
//! `hello` is a bare server of the same library that answers a fixed body. In `open-loop` requests begin when a plan says, whether
//! earlier ones are answered or not, and the time of an answer counts from then.

use axum::Router;
use axum::routing::get;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use stook_lab::http::{HttpConnection, RequestOutcome};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc};

fn run(work: impl Future<Output = Result<(), String>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(work)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stook-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn listen() -> Result<TcpListener, String> {
    let socket = tokio::net::TcpSocket::new_v4().map_err(|error| error.to_string())?;
    socket.bind(([127, 0, 0, 1], 0).into()).map_err(|error| error.to_string())?;
    let listener = socket.listen(4_096).map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    // as `stook serve` says it
    eprintln!("serving on http://{address} for comparison");
    Ok(listener)
}

/// Requests that a server has begun, those of them that came at once after another, and when the last one came, in nanoseconds.
#[derive(Default)]
struct Arrivals(AtomicU64, AtomicU64, AtomicU64);

/// Requests that are so near each other came at once.
const AT_ONCE: Duration = Duration::from_micros(50);

impl Arrivals {
    fn note_arrival(&self, at: Duration) {
        let now = at.as_nanos() as u64;
        let is_at_once = now.saturating_sub(self.2.swap(now, Ordering::Relaxed)) < AT_ONCE.as_nanos() as u64;
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.fetch_add(is_at_once.into(), Ordering::Relaxed);
    }

    /// The share that came at once, since this was last asked.
    fn share(&self) -> String {
        let (all, at_once) = (self.0.swap(0, Ordering::Relaxed), self.1.swap(0, Ordering::Relaxed));
        format!("{:.4}", at_once as f64 / all.max(1) as f64)
    }
}

/// A server that answers a body of this size, and works for each answer as many microseconds as it is told. `/-/at-once` says which
/// share of the requests came at once after others.
pub fn hello(bytes: usize, work: u64) -> ExitCode {
    run(async move {
        let body: &'static str = "x".repeat(bytes).leak();
        let (started, arrivals) = (Instant::now(), Arc::new(Arrivals::default()));
        let seen = arrivals.clone();
        let answer = move || async move {
            let began = Instant::now();
            arrivals.note_arrival(began - started);
            while began.elapsed() < Duration::from_micros(work) {
                std::hint::spin_loop();
            }
            ([("content-type", "application/json")], body)
        };
        let routes = Router::new().route("/-/at-once", get(async move || seen.share())).route("/{*any}", get(answer));
        axum::serve(listen().await?, routes).await.map_err(|error| error.to_string())
    })
}

/// Most connections of an open-loop run.
const CONNECTIONS: usize = 512;

/// Runs a plan, `{"address", "headers", "requests": [[at_us, method, path, body]...]}` in a file, and prints what was seen:
/// answers by status and their times in microseconds, sorted.
pub fn open_loop(plan: &str) -> ExitCode {
    let plan = plan.to_owned();
    run(async move {
        let text = std::fs::read(&plan).map_err(|error| error.to_string())?;
        let plan: Json = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let host = plan["address"].as_str().unwrap_or_default();
        let address: std::net::SocketAddr = host.parse().map_err(|error| format!("{host}: {error}"))?;
        let headers: String = plan["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap_or_default()))
            .collect();
        let (free, idle) = mpsc::unbounded_channel::<HttpConnection>();
        let idle = Arc::new(Mutex::new(idle));
        let open = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let began = Instant::now() + Duration::from_millis(50);
        let runtime = tokio::runtime::Handle::current();
        let begin_all = move || {
            let mut waiting = Vec::new();
            for request in plan["requests"].as_array().into_iter().flatten() {
                let due = began + Duration::from_micros(request[0].as_u64().unwrap_or(0));
                let part = |index: usize| request[index].as_str().unwrap_or_default();
                let (method, path, body) = (part(1), part(2), part(3));
                let length =
                    if body.is_empty() { String::new() } else { format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()) };
                let bytes = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}{length}\r\n{body}").into_bytes();
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let (free, idle, open) = (free.clone(), idle.clone(), open.clone());
                waiting.push(runtime.spawn(async move {
                    let idle_connection = idle.lock().await.try_recv().ok();
                    let connection = match idle_connection {
                        Some(connection) => Some(connection),
                        None if open.fetch_add(1, std::sync::atomic::Ordering::SeqCst) < CONNECTIONS => HttpConnection::open(address).await.ok(),
                        None => idle.lock().await.recv().await,
                    };
                    let Some(mut connection) = connection else { return (0, due.elapsed()) };
                    let answer = tokio::time::timeout(Duration::from_secs(30), connection.exchange(&bytes)).await;
                    let took = due.elapsed();
                    match answer.map(|answer| (answer.outcome, answer.reusable)) {
                        Ok((RequestOutcome::Status(status), true)) => {
                            let _ = free.send(connection);
                            (status, took)
                        }
                        _ => {
                            open.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                            (0, took)
                        }
                    }
                }));
            }
            waiting
        };
        // timers of the runtime are a millisecond coarse: a thread says when requests begin
        let waiting = tokio::task::spawn_blocking(begin_all).await.map_err(|error| error.to_string())?;
        let mut seen: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for answer in waiting {
            let (status, took) = answer.await.map_err(|error| error.to_string())?;
            seen.entry(status).or_default().push(took.as_micros() as u64);
        }
        let seen: BTreeMap<String, Vec<u64>> = seen
            .into_iter()
            .map(|(status, mut times)| {
                times.sort_unstable();
                (status.to_string(), times)
            })
            .collect();
        println!("{}", json!(seen));
        Ok(())
    })
}
