//! A service that answers as a test says, and notes what it was asked.

use crate::http::url_decoded;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a request asks: its path, and what stands after it.
pub struct ServiceRequest<'r> {
    /// The path.
    pub path: &'r str,
    /// Names and values after it.
    pub parameters: Vec<(String, String)>,
}

impl ServiceRequest<'_> {
    /// The values of a name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.parameters.iter().filter(|(parameter, _)| parameter == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A number; 0 where there is none.
    pub fn number(&self, name: &str) -> usize {
        self.all(name).first().map_or(0, |text| text.parse().expect("a number"))
    }
}

/// Instead of a media type: the service fails.
pub const FAILS: &str = "500";
/// Instead of a media type: the service has no time, and says when to come back.
pub const BUSY: &str = "503";

type Answer = dyn Fn(&ServiceRequest<'_>) -> (&'static str, String) + Send + Sync;

/// A request as it came: when, its target, who asks.
pub type ReceivedRequest = (Instant, String, Option<String>);

/// A service on a port of its own, which answers as a function says.
pub struct Service {
    /// Where it is.
    pub url: String,
    /// Requests that came.
    pub received: Arc<Mutex<Vec<ReceivedRequest>>>,
    /// Most requests at one time.
    pub max_concurrent: Arc<AtomicUsize>,
}

impl Service {
    /// One that answers so: with a media type, or `500`, and a body.
    pub fn new(answer: impl Fn(&ServiceRequest<'_>) -> (&'static str, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self { url: format!("http://{}", listener.local_addr().unwrap()), received: Arc::default(), max_concurrent: Arc::default() };
        let (received, max_concurrent, concurrent, answer) =
            (service.received.clone(), service.max_concurrent.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (received, max_concurrent, concurrent, answer) = (received.clone(), max_concurrent.clone(), concurrent.clone(), answer.clone());
                std::thread::spawn(move || {
                    max_concurrent.fetch_max(concurrent.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    serve(stream, &received, &*answer);
                    concurrent.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        service
    }

    /// Targets that were asked for since this was asked last.
    pub fn take_targets(&self) -> Vec<String> {
        std::mem::take(&mut *self.received.lock().unwrap()).into_iter().map(|(_, target, _)| target).collect()
    }
}

/// One request of a connection, which is closed then.
fn serve(mut stream: TcpStream, received: &Mutex<Vec<ReceivedRequest>>, answer: &Answer) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(request_line) = lines.next() else { return };
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let authorization = head.iter().find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")));
    let target = request_line.split(' ').nth(1).unwrap().to_owned();
    received.lock().unwrap().push((Instant::now(), target.clone(), authorization.map(|(_, authorization)| authorization.to_owned())));
    let (path, parameters) = target.split_once('?').unwrap_or((&target, ""));
    let parameters =
        parameters.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (url_decoded(name), url_decoded(value))).collect();
    let (media_type, body) = answer(&ServiceRequest { path, parameters });
    let (status, media_type) = match media_type {
        FAILS => ("500 Internal Server Error", "text/plain"),
        BUSY => ("503 Service Unavailable\r\nretry-after: 0", "text/plain"),
        media_type => ("200 OK", media_type),
    };
    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
}
