//! A served catalogue, and a client for it.

use crate::Sandbox;
use serde_json::Value as Json;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A `stook serve` in a sandbox, ended when dropped.
pub struct Served {
    child: Child,
    address: String,
    token: Option<String>,
    agent: ureq::Agent,
    log: Arc<Mutex<String>>,
}

/// What a request was answered.
#[derive(Debug, Clone)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header_name, _)| header_name == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body as JSON, of an answer with this status.
    #[track_caller]
    pub fn expect_json(self, status: u16) -> Json {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Json::Null } else { self.json() }
    }
}

impl Served {
    /// Serves a sandbox with these arguments on a port of its own.
    pub fn new(sandbox: &Sandbox, arguments: &[&str]) -> Self {
        Self::with_variables(sandbox, arguments, &[])
    }

    /// The same with variables of the environment.
    pub fn with_variables(sandbox: &Sandbox, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command_line = vec!["serve", "--listen", "127.0.0.1:0"];
        command_line.extend_from_slice(arguments);
        let mut child = sandbox
            .command(&command_line)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("stook starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut first_line = String::new();
        // notes about the definition and the store come first
        while first_line.is_empty() || first_line.starts_with("note: ") {
            first_line.clear();
            assert!(stderr.read_line(&mut first_line).expect("a line") > 0, "it does not serve");
        }
        let address = first_line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_else(|| {
            let mut rest = String::new();
            let _ = stderr.read_to_string(&mut rest);
            panic!("it does not serve: {first_line}{rest}")
        });
        let address = address.to_owned();
        let log = Arc::new(Mutex::new(String::new()));
        let log_writer = log.clone();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                log_writer.lock().expect("not poisoned").push_str(&(line + "\n"));
            }
        });
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(60)));
        let agent = config.allow_non_standard_methods(true).max_redirects(0).build().new_agent();
        Self { child, address, token: None, agent, log }
    }

    /// The same server, asked with a token.
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Another client of the same server, with another token or none.
    pub fn client(&self, token: Option<&str>) -> Client {
        Client { address: self.address.clone(), token: token.map(str::to_owned), agent: self.agent.clone() }
    }

    /// HOST:PORT.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to its log.
    pub fn log_text(&self) -> String {
        self.log.lock().expect("not poisoned").clone()
    }

    /// Asks it to end and waits until it has.
    pub fn terminate(mut self) -> Option<i32> {
        let _ = std::process::Command::new("kill").arg("-TERM").arg(self.child.id().to_string()).status();
        self.child.wait().expect("it ends").code()
    }

    /// A request with a body.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.client(self.token.as_deref()).send(method, path, headers, body)
    }

    /// GET.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    /// A request with a JSON body.
    pub fn call(&self, method: &str, path: &str, body: &Json) -> Reply {
        self.client(self.token.as_deref()).call(method, path, body)
    }

    /// Waits until a job has ended; returns it.
    pub fn wait_for_job(&self, tenant: &str, job: &Json) -> Json {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let now = self.get(&format!("/v1/{tenant}/jobs/{}", job["id"])).expect_json(200);
            if !matches!(now["state"].as_str(), Some("queued" | "running" | "interrupted")) {
                return now;
            }
            assert!(Instant::now() < deadline, "{now}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A counter of its metrics: the sum over labels that hold `part`.
    pub fn metric_sum(&self, name: &str, part: &str) -> u64 {
        let text = self.get("/metrics").text();
        let lines = text.lines().filter(|line| line.starts_with(name) && line.contains(part));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client with a token of its own.
#[derive(Clone)]
pub struct Client {
    address: String,
    token: Option<String>,
    agent: ureq::Agent,
}

impl Client {
    /// A request with a body.
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_send(method, path, headers, body).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// A request that may get no answer.
    pub fn try_send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Result<Reply, ureq::Error> {
        let mut request = ureq::http::Request::builder().method(method).uri(format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut response = if body.is_empty() && matches!(method, "GET" | "DELETE" | "HEAD") {
            self.agent.run(request.body(()).expect("a request"))?
        } else {
            self.agent.run(request.body(body).expect("a request"))?
        };
        let headers = response.headers().iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        let (headers, status) = (headers.collect(), response.status().as_u16());
        let body = response.body_mut().with_config().limit(1 << 30).read_to_vec()?;
        Ok(Reply { status, headers, body })
    }

    /// GET.
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }

    /// A request with a JSON body.
    pub fn call(&self, method: &str, path: &str, body: &Json) -> Reply {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send(method, path, &[("content-type", media)], body.to_string().as_bytes())
    }
}

/// Text as it stands in a URL.
pub fn url_encoded(query: &str) -> String {
    query.bytes().map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Text that stands so in a URL.
pub fn url_decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let digits = if byte == b'%' { Some([bytes.next().expect("two digits"), bytes.next().expect("two digits")]) } else { None };
        out.push(digits.map_or(byte, |digits| u8::from_str_radix(std::str::from_utf8(&digits).expect("digits"), 16).expect("digits")));
    }
    String::from_utf8(out).expect("UTF-8")
}
