//! Downloads a file completely, before anything of it is imported.

use super::http::{HttpAttempt, HttpClient, HttpRequest, http_date};
use super::paging::next_link;
use std::io::{Read, Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::NamedTempFile;
use ureq::http::HeaderMap;

/// The maximum size of a file, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 30;
/// The time limit for a file.
const FILE_TIME: Duration = Duration::from_secs(6 * 3_600);
/// The size of what is copied at once.
const COPY_BYTES: usize = 256 << 10;

/// A file that was downloaded.
#[derive(Debug)]
pub(super) struct Download {
    /// The temporary file, at its beginning.
    pub(super) file: NamedTempFile,
    pub(super) size: u64,
    /// The hash of its bytes, as text.
    pub(super) hash: String,
    /// What the server says in order to be asked whether it has changed.
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
    /// Whether a header leads to a next page.
    pub(super) goes_on: bool,
}

impl Download {
    /// When the file was changed, in microseconds, if the server says so.
    pub(super) fn modified(&self) -> Option<i64> {
        http_date(self.last_modified.as_deref()?)
    }
}

/// Downloads a file once; returns `None` if it is as the condition in `headers` says.
pub(super) fn download(client: &HttpClient, url: &str, headers: &[(&'static str, &str)], stop: &AtomicBool) -> HttpAttempt<Option<Download>> {
    let request = HttpRequest { url, accept: "*/*", headers, time: FILE_TIME, max_bytes: MAX_FILE_BYTES };
    client.get_if_changed(&request, &mut |headers, body| {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let Some((file, size, hash)) = written(body, stop)? else { return Ok(HttpAttempt::GiveUp("it was stopped".into())) };
        if let Some(length) = length_of(headers).filter(|length| *length != size) {
            return Ok(HttpAttempt::RetryLater(format!("it sent {size} of {length} bytes"), None));
        }
        Ok(HttpAttempt::Answered(Download {
            file,
            size,
            hash,
            etag: text("etag"),
            last_modified: text("last-modified"),
            goes_on: next_link(headers).is_some(),
        }))
    })
}

/// The length that a response has, if its bytes are those that were sent.
fn length_of(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key("content-encoding") {
        return None;
    }
    headers.get("content-length")?.to_str().ok()?.parse().ok()
}

/// Writes bytes to a temporary file; returns it with its size and hash, or `None` if it is to stop.
fn written(body: &mut dyn Read, stop: &AtomicBool) -> std::io::Result<Option<(NamedTempFile, u64, String)>> {
    let mut file = NamedTempFile::new()?;
    let (mut hasher, mut size, mut buffer) = (blake3::Hasher::new(), 0, vec![0; COPY_BYTES]);
    loop {
        if stop.load(Ordering::SeqCst) {
            return Ok(None);
        }
        match body.read(&mut buffer)? {
            0 => break,
            read => {
                file.write_all(&buffer[..read])?;
                hasher.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
    file.rewind()?;
    Ok(Some((file, size, hasher.finalize().to_hex().to_string())))
}
