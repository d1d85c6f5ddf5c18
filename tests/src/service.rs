//! A service that answers as a test says, and notes what it was asked.

use crate::http::decoded;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// What a request asks: its path, and what stands after it.
pub struct Asked<'r> {
    /// The path.
    pub path: &'r str,
    /// Names and values after it.
    pub said: Vec<(String, String)>,
}

impl Asked<'_> {
    /// The values of a name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.said.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect()
    }

    /// A number; 0 where there is none.
    pub fn number(&self, name: &str) -> usize {
        self.all(name).first().map_or(0, |text| text.parse().expect("a number"))
    }
}

/// In the place of a media type: the service fails.
pub const FAILS: &str = "500";

type Answer = dyn Fn(&Asked<'_>) -> (&'static str, String) + Send + Sync;

/// A request as it came: when, its target, who asks.
pub type Came = (Instant, String, Option<String>);

/// A service on a port of its own, which answers as a function says.
pub struct Service {
    /// Where it is.
    pub url: String,
    /// Requests that came.
    pub came: Arc<Mutex<Vec<Came>>>,
    /// Most requests at one time.
    pub most_at_once: Arc<AtomicUsize>,
}

impl Service {
    /// One that answers so: with a media type, or `500`, and a body.
    pub fn new(answer: impl Fn(&Asked<'_>) -> (&'static str, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let service = Self { url: format!("http://{}", listener.local_addr().unwrap()), came: Arc::default(), most_at_once: Arc::default() };
        let (came, most, now, answer) = (service.came.clone(), service.most_at_once.clone(), Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (came, most, now, answer) = (came.clone(), most.clone(), now.clone(), answer.clone());
                std::thread::spawn(move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    serve(stream, &came, &*answer);
                    now.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        service
    }

    /// Targets that were asked for since this was asked last.
    pub fn targets(&self) -> Vec<String> {
        std::mem::take(&mut *self.came.lock().unwrap()).into_iter().map(|(_, target, _)| target).collect()
    }
}

/// One request of a connection, which is closed then.
fn serve(mut stream: TcpStream, came: &Mutex<Vec<Came>>, answer: &Answer) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let who = head.iter().find_map(|line| line.split_once(": ").filter(|(name, _)| name.eq_ignore_ascii_case("authorization")));
    let target = first.split(' ').nth(1).unwrap().to_owned();
    came.lock().unwrap().push((Instant::now(), target.clone(), who.map(|(_, who)| who.to_owned())));
    let (path, said) = target.split_once('?').unwrap_or((&target, ""));
    let said = said.split('&').filter_map(|pair| pair.split_once('=')).map(|(name, value)| (decoded(name), decoded(value))).collect();
    let (kind, body) = answer(&Asked { path, said });
    let (status, kind) = if kind == FAILS { ("500 Internal Server Error", "text/plain") } else { ("200 OK", kind) };
    let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
}
