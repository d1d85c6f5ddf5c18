//! Requests to services: attempts with growing pauses, limits on time and bytes, no redirects.

use crate::{EngineError, Result};
use base64::Engine;
use std::io::Read;
use std::time::{Duration, SystemTime};
use stook_catalogue::value::{FieldType, from_text};
use ureq::config::{ConfigBuilder, RedirectAuthHeaders};
use ureq::http::{HeaderMap, StatusCode, Uri};
use ureq::typestate::AgentScope;

/// The time limit for connecting.
const CONNECT: Duration = Duration::from_secs(10);
/// The maximum number of redirects to a file.
const FILE_REDIRECTS: u32 = 5;
/// The time after which a server that sends nothing of a file has failed.
const FILE_SILENCE: Duration = Duration::from_secs(60);
/// The longest pause between attempts, even if a service asks for more.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The number of bytes of an error response that are read.
const MAX_EXCERPT_BYTES: u64 = 2_000;

/// The result of one attempt.
pub enum HttpAttempt<T> {
    /// It succeeded.
    Answered(T),
    /// It failed with this reason; a later attempt may succeed, perhaps after the time that the service gives.
    RetryLater(String, Option<Duration>),
    /// It failed with this reason, and another attempt would fail, too.
    GiveUp(String),
}

/// Reads the headers and the body of a response.
pub type ResponseReader<'t, T> = &'t mut dyn FnMut(&HeaderMap, &mut dyn Read) -> std::io::Result<HttpAttempt<T>>;

/// A client with the credentials of a service.
pub struct HttpClient {
    agent: ureq::Agent,
    credentials: Option<String>,
}

/// A request for a resource.
pub struct HttpRequest<'r> {
    /// Its URL.
    pub url: &'r str,
    /// The media types that are understood.
    pub accept: &'r str,
    /// Further headers, such as conditions.
    pub headers: &'r [(&'static str, &'r str)],
    /// The time limit for everything.
    pub time: Duration,
    /// The maximum number of bytes of the response.
    pub max_bytes: u64,
}

impl HttpClient {
    /// `credentials` is a prefix of environment variables: NAME_TOKEN, or NAME_USER and NAME_PASSWORD.
    ///
    /// # Errors
    /// When these variables are not set.
    pub fn new(credentials: Option<&str>) -> Result<Self> {
        // a service that has moved needs a change of the definition
        let config = configured().max_redirects(0).max_redirects_will_error(false);
        Ok(Self { agent: config.build().into(), credentials: credentials.map(of_environment).transpose()? })
    }

    /// A client for files, which servers often keep elsewhere: it follows redirects, but not from https to http, and without the
    /// credentials.
    ///
    /// # Errors
    /// As [`HttpClient::new`].
    pub fn for_files(url: &str, credentials: Option<&str>) -> Result<Self> {
        let config = configured()
            .max_redirects(FILE_REDIRECTS)
            .https_only(url.starts_with("https:"))
            .redirect_auth_headers(RedirectAuthHeaders::Never)
            .timeout_per_read(Some(FILE_SILENCE));
        Ok(Self { agent: config.build().into(), credentials: credentials.map(of_environment).transpose()? })
    }

    /// Sends one request, within `time`. `take` reads the response, at most `most` bytes.
    pub fn get<T>(&self, url: &str, accept: &str, (time, most): (Duration, u64), take: ResponseReader<'_, T>) -> HttpAttempt<T> {
        match self.get_if_changed(&HttpRequest { url, accept, headers: &[], time, max_bytes: most }, take) {
            HttpAttempt::Answered(Some(taken)) => HttpAttempt::Answered(taken),
            HttpAttempt::Answered(None) => HttpAttempt::GiveUp("it responded with 304 Not Modified to a request without a condition".into()),
            HttpAttempt::RetryLater(reason, wait) => HttpAttempt::RetryLater(reason, wait),
            HttpAttempt::GiveUp(reason) => HttpAttempt::GiveUp(reason),
        }
    }

    /// Sends one request. `take` reads the response; `None` if the resource is as the condition in the request's headers says.
    pub fn get_if_changed<T>(&self, request: &HttpRequest<'_>, take: ResponseReader<'_, T>) -> HttpAttempt<Option<T>> {
        let HttpRequest { url, accept, headers, time, max_bytes: most } = *request;
        let mut request = self.agent.get(url).header("accept", accept).config().timeout_global(Some(time)).build();
        let credentials = self.credentials.as_deref().map(|credentials| ("authorization", credentials));
        for (name, value) in headers.iter().copied().chain(credentials) {
            request = request.header(name, value);
        }
        let mut response = match request.call() {
            Ok(response) => response,
            Err(ureq::Error::BadUri(reason)) => return HttpAttempt::GiveUp(reason),
            Err(error) => return HttpAttempt::RetryLater(error.to_string(), None),
        };
        let status = response.status();
        if status.is_success() {
            let (head, body) = response.into_parts();
            let mut reader = LimitedReader { inner: body.into_with_config().limit(u64::MAX).reader(), remaining: most, exceeded: false };
            let taken = take(&head.headers, &mut reader);
            if reader.exceeded {
                return HttpAttempt::GiveUp(format!("the response exceeds {most} bytes"));
            }
            return match taken.unwrap_or_else(|error| HttpAttempt::RetryLater(error.to_string(), None)) {
                HttpAttempt::Answered(taken) => HttpAttempt::Answered(Some(taken)),
                HttpAttempt::RetryLater(reason, wait) => HttpAttempt::RetryLater(reason, wait),
                HttpAttempt::GiveUp(reason) => HttpAttempt::GiveUp(reason),
            };
        }
        if status == StatusCode::NOT_MODIFIED {
            return HttpAttempt::Answered(None);
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (wait, redirect) = (wait_of(response.headers()), header("location"));
        let excerpt: String =
            response.body_mut().with_config().limit(MAX_EXCERPT_BYTES).read_to_string().unwrap_or_default().chars().take(200).collect();
        let reason = format!(
            "it responded with {status}{}{}",
            redirect.map(|redirect| format!(", a redirect to {redirect}")).unwrap_or_default(),
            quoted(&excerpt)
        );
        match status.as_u16() {
            408 | 425 | 429 | 500.. => HttpAttempt::RetryLater(reason, wait),
            _ => HttpAttempt::GiveUp(reason),
        }
    }
}

/// What all clients have in common.
fn configured() -> ConfigBuilder<AgentScope> {
    ureq::Agent::config_builder().timeout_connect(Some(CONNECT)).http_status_as_error(false).user_agent(concat!("stook/", env!("CARGO_PKG_VERSION")))
}

/// Limits what is read after decompression, because a small compressed response can be a large one.
struct LimitedReader<R> {
    inner: R,
    remaining: u64,
    exceeded: bool,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.remaining.checked_sub(read as u64) {
            Some(remaining) => self.remaining = remaining,
            None => {
                self.exceeded = true;
                return Err(std::io::Error::other("too many bytes"));
            }
        }
        Ok(read)
    }
}

/// Tries up to `attempts` times, with pauses that start at `first` and double. `pause` waits, and returns false if there is not enough time.
///
/// # Errors
/// The reason of the last attempt.
pub fn persist<T>(
    attempts: u32,
    first: Duration,
    pause: &dyn Fn(Duration) -> bool,
    mut attempt: impl FnMut() -> HttpAttempt<T>,
) -> std::result::Result<T, String> {
    let mut next = first;
    for number in 1.. {
        let (reason, retry_after) = match attempt() {
            HttpAttempt::Answered(answer) => return Ok(answer),
            HttpAttempt::GiveUp(reason) => return Err(reason),
            HttpAttempt::RetryLater(reason, retry_after) => (reason, retry_after),
        };
        if number >= attempts {
            return Err(format!("{reason} ({attempts} attempt{})", if attempts == 1 { "" } else { "s" }));
        }
        // add a random part, so that clients that failed together do not retry together
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let wait = retry_after.unwrap_or(next).min(MAX_PAUSE);
        if !pause(wait + wait.mul_f64(f64::from(now % 1_000) / 4_000.0)) {
            return Err(reason);
        }
        next *= 2;
    }
    unreachable!("the last attempt returns")
}

fn quoted(excerpt: &str) -> String {
    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    if excerpt.is_empty() { excerpt } else { format!(" ({excerpt})") }
}

/// The URL of a next page that a service gave; it must be on the same host.
///
/// # Errors
/// When it is on another host.
pub(crate) fn on_same_host(from: &str, next: &str) -> Result<String> {
    let wrong = || EngineError::Wrong(format!("its next page is on another host: {next}"));
    let from_uri: Uri = from.parse().map_err(|_| wrong())?;
    let root = format!("{}://{}", from_uri.scheme_str().unwrap_or("http"), from_uri.authority().map_or("", |authority| authority.as_str()));
    if next.starts_with('/') && !next.starts_with("//") {
        return Ok(format!("{root}{next}"));
    }
    let uri: Uri = next.parse().map_err(|_| wrong())?;
    if uri.scheme() == from_uri.scheme() && uri.authority() == from_uri.authority() { Ok(next.to_owned()) } else { Err(wrong()) }
}

/// Parses a time in the format of HTTP headers; in microseconds.
pub(crate) fn http_date(text: &str) -> Option<i64> {
    from_text(text, &FieldType::Timestamp, Some("%a, %d %b %Y %H:%M:%S GMT")).ok()?.as_int()
}

/// The pause that a response requires (Retry-After), in seconds or until a time.
fn wait_of(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let retry_after = text("retry-after")?.trim();
    if let Ok(seconds) = retry_after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().and_then(|now| i64::try_from(now.as_micros()).ok());
    // the clocks may differ, so the service's own is preferred
    let now = text("date").and_then(http_date).or_else(now)?;
    Some(Duration::from_micros(http_date(retry_after)?.saturating_sub(now).max(0) as u64))
}

/// Encodes text for a query string; a space becomes %20, because some services do not understand plus signs.
pub fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Replaces `${NAME}` in a URL by environment variables.
///
/// # Errors
/// When a variable is not set.
pub fn with_environment(url: &str) -> Result<String> {
    let Some((before, rest)) = url.split_once("${") else { return Ok(url.to_owned()) };
    let Some((name, after)) = rest.split_once('}') else { return Ok(url.to_owned()) };
    let value = std::env::var(name).map_err(|_| EngineError::Wrong(format!("{url}: the environment variable {name} is not set")))?;
    Ok(format!("{before}{value}{}", with_environment(after)?))
}

/// The Authorization header, from environment variables.
fn of_environment(name: &str) -> Result<String> {
    let get = |part: &str| std::env::var(format!("{name}_{part}")).ok();
    match (get("TOKEN"), get("USER"), get("PASSWORD")) {
        (Some(token), ..) => Ok(format!("Bearer {token}")),
        (None, Some(user), Some(password)) => Ok(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))),
        _ => Err(EngineError::Wrong(format!("set the environment variable {name}_TOKEN, or {name}_USER and {name}_PASSWORD"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn a_next_page_on_another_host_is_refused() {
        let from = "http://host:81/a?b=c";
        assert_eq!(on_same_host(from, "/d?e=f").unwrap(), "http://host:81/d?e=f");
        assert_eq!(on_same_host(from, "http://host:81/g").unwrap(), "http://host:81/g");
        for other in ["http://host/g", "https://host:81/g", "//other/g", "http://host:81@other/g", "file:///etc/passwd", "g", ""] {
            assert!(on_same_host(from, other).is_err(), "{other}");
        }
    }

    #[test]
    fn retry_after_is_read_in_seconds_or_as_a_time() {
        let wait = |headers: &[(&'static str, &str)]| {
            let mut all = HeaderMap::new();
            headers.iter().for_each(|(name, value)| drop(all.insert(*name, value.parse().unwrap())));
            wait_of(&all)
        };
        let date = ("date", "Mon, 04 Oct 2010 18:57:42 GMT");
        assert_eq!(wait(&[("retry-after", " 7"), date]), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[("retry-after", "Mon, 04 Oct 2010 18:58:00 GMT"), date]), Some(Duration::from_secs(18)));
        assert_eq!(wait(&[("retry-after", "Mon, 04 Oct 2010 18:57:00 GMT"), date]), Some(Duration::ZERO));
        assert_eq!(wait(&[("retry-after", "Mon, 04 Oct 2010 18:58:00 GMT")]), Some(Duration::ZERO));
        assert_eq!((wait(&[("retry-after", "soon"), date]), wait(&[date])), (None, None));
    }

    /// Pauses double, each with up to a quarter more, until there is not enough time for one.
    #[test]
    fn failed_attempts_are_repeated_with_growing_pauses() {
        let pauses = Mutex::new(Vec::new());
        let first = Duration::from_secs(1);
        let tried = |most: usize, retry_after: Option<Duration>| {
            let pause = |time: Duration| {
                let mut pauses = pauses.lock().unwrap();
                pauses.push(time);
                pauses.len() < most
            };
            let ended = persist(9, first, &pause, || HttpAttempt::<()>::RetryLater("busy".into(), retry_after));
            (ended.unwrap_err(), std::mem::take(&mut *pauses.lock().unwrap()))
        };
        let (reason, own) = tried(100, None);
        assert_eq!((reason.as_str(), own.len()), ("busy (9 attempts)", 8));
        for (number, pause) in own.iter().enumerate() {
            let base = (first * (1 << number)).min(MAX_PAUSE);
            assert!((base..=base.mul_f64(1.25)).contains(pause), "{number}: {pause:?}");
        }
        // the time is up; and with a pause that the service requires
        assert_eq!(tried(3, None).0, "busy");
        let (_, own) = tried(100, Some(Duration::from_secs(7)));
        assert!(own.iter().all(|pause| (Duration::from_secs(7)..=Duration::from_millis(8_750)).contains(pause)), "{own:?}");
    }
}
