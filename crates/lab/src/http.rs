//! HTTP/1.1 for measuring: a request is bytes, a response is its status and whether it is complete.

use crate::{LabError, Result};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Max bytes of a response's head.
const MAX_HEAD: usize = 64 << 10;
/// Max bytes of a line with the size of a chunk.
const MAX_CHUNK_SIZE_LINE: usize = 1 << 10;
/// Max bytes of a response.
const MAX_BODY: u64 = 1 << 30;
const MAX_HEADERS: usize = 100;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestOutcome {
    /// A complete response with this status.
    Status(u16),
    /// The connection was refused.
    Refused,
    /// The connection was closed before a response began.
    Reset,
    /// The connection was closed in the middle of a response.
    Truncated,
    /// The response is not HTTP, or too long.
    Unreadable,
    /// It took too long.
    TimedOut,
    /// No connection could be made for another reason.
    ConnectFailed,
}

impl RequestOutcome {
    /// Returns its name in run files: the status, or what happened instead of a response.
    pub fn name(self) -> String {
        match self {
            RequestOutcome::Status(status) => status.to_string(),
            RequestOutcome::Refused => "refused".into(),
            RequestOutcome::Reset => "reset".into(),
            RequestOutcome::Truncated => "cut".into(),
            RequestOutcome::Unreadable => "unreadable".into(),
            RequestOutcome::TimedOut => "timeout".into(),
            RequestOutcome::ConnectFailed => "unconnected".into(),
        }
    }

    /// Whether it is a response with status 2xx or 3xx.
    pub fn is_success(self) -> bool {
        matches!(self, RequestOutcome::Status(200..=399))
    }
}

/// A connection to the target.
pub struct HttpConnection {
    stream: TcpStream,
    /// Bytes that have been read and not yet parsed.
    buffer: Vec<u8>,
    /// Whether a response has been read on it before.
    pub used: bool,
    /// The body of the response, if it is kept.
    body: Option<Vec<u8>>,
}

/// A response that has been read.
pub struct ReadResponse {
    /// The outcome.
    pub outcome: RequestOutcome,
    /// Bytes of its body.
    pub bytes: u64,
    /// Whether the connection can be used again.
    pub reusable: bool,
}

/// The result of reading a part of a response.
type ReadResult<T> = std::result::Result<T, RequestOutcome>;

impl ReadResponse {
    /// No response.
    fn none(outcome: RequestOutcome) -> Self {
        Self { outcome, bytes: 0, reusable: false }
    }
}

/// Makes a request on a connection, or on a new one, within `time_left`. If the connection was closed while it was idle, the request is repeated on a new
/// one. Afterwards `connection` is set if it can be reused.
pub async fn exchange(address: SocketAddr, connection: &mut Option<HttpConnection>, request: &[u8], time_left: Duration) -> ReadResponse {
    let response = tokio::time::timeout(time_left, exchange_with_retry(address, connection, request)).await;
    let response = response.unwrap_or_else(|_| ReadResponse::none(RequestOutcome::TimedOut));
    if !response.reusable {
        *connection = None;
    }
    response
}

async fn exchange_with_retry(address: SocketAddr, connection: &mut Option<HttpConnection>, request: &[u8]) -> ReadResponse {
    loop {
        let open_connection = match connection {
            Some(open_connection) => open_connection,
            None => match HttpConnection::open(address).await {
                Ok(new) => connection.insert(new),
                Err(outcome) => return ReadResponse::none(outcome),
            },
        };
        let was_used = open_connection.used;
        let response = open_connection.exchange(request).await;
        if response.outcome == RequestOutcome::Reset && was_used {
            *connection = None;
            continue;
        }
        return response;
    }
}

/// Returns the status and the complete body of the response to a request that is not measured, on its own connection. The content of `file` is sent
/// after `head`.
///
/// # Errors
/// The outcome if there is no response.
pub async fn fetch(address: SocketAddr, head: &[u8], file: Option<File>) -> ReadResult<(u16, Vec<u8>)> {
    let mut connection = HttpConnection::open(address).await?;
    connection.body = Some(Vec::new());
    // a server may respond and close before everything was sent
    let _ = connection.send(head, file).await;
    match connection.read_response().await?.outcome {
        RequestOutcome::Status(status) => Ok((status, connection.body.unwrap_or_default())),
        other => Err(other),
    }
}

/// Checks that a server listens.
///
/// # Errors
/// When none does.
pub async fn listens(address: SocketAddr) -> Result<()> {
    let opened = HttpConnection::open(address).await;
    opened.map(drop).map_err(|outcome| LabError::Plan(format!("no server at {address}: {}", outcome.name())))
}

impl HttpConnection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> ReadResult<Self> {
        let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => RequestOutcome::Refused,
            ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => RequestOutcome::Reset,
            ErrorKind::TimedOut => RequestOutcome::TimedOut,
            _ => RequestOutcome::ConnectFailed,
        })?;
        let _ = stream.set_nodelay(true);
        Ok(Self { stream, buffer: Vec::with_capacity(16 << 10), used: false, body: None })
    }

    /// Sends a request (not HEAD) and reads the complete response.
    pub async fn exchange(&mut self, request: &[u8]) -> ReadResponse {
        self.buffer.clear();
        // a server may respond and close before everything was sent
        let sent = self.stream.write_all(request).await;
        let response = self.read_response().await.unwrap_or_else(ReadResponse::none);
        self.used = true;
        if sent.is_err() { ReadResponse { reusable: false, ..response } } else { response }
    }

    async fn send(&mut self, head: &[u8], file: Option<File>) -> io::Result<()> {
        self.stream.write_all(head).await?;
        let Some(mut file) = file else { return Ok(()) };
        let mut piece = vec![0; 64 << 10];
        loop {
            match io::Read::read(&mut file, &mut piece)? {
                0 => return Ok(()),
                length => self.stream.write_all(&piece[..length]).await?,
            }
        }
    }

    /// Takes bytes of a body from the buffer.
    fn take(&mut self, length: usize) {
        let taken = self.buffer.drain(..length);
        if let Some(body) = &mut self.body {
            body.extend(taken);
        }
    }

    /// Reads more bytes; returns how many.
    async fn read_more(&mut self) -> io::Result<usize> {
        self.stream.read_buf(&mut self.buffer).await
    }

    async fn read_response(&mut self) -> ReadResult<ReadResponse> {
        loop {
            let head = self.read_head().await?;
            // interim responses are skipped
            if (100..200).contains(&head.status) && head.status != 101 {
                continue;
            }
            let outcome = RequestOutcome::Status(head.status);
            let bytes = match head.body {
                _ if matches!(head.status, 101 | 204 | 304) => 0,
                BodyLength::Length(length) => self.skip(length).await?,
                BodyLength::Chunked => self.read_chunks().await?,
                BodyLength::UntilClosed => {
                    let bytes = self.read_until_closed().await?;
                    return Ok(ReadResponse { outcome, bytes, reusable: false });
                }
            };
            // bytes after the response belong to no request
            let reusable = head.keeps_open && self.buffer.is_empty();
            return Ok(ReadResponse { outcome, bytes, reusable });
        }
    }

    async fn read_head(&mut self) -> ReadResult<ResponseHead> {
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
            let mut response = httparse::Response::new(&mut headers);
            match response.parse(&self.buffer) {
                Ok(httparse::Status::Complete(length)) => {
                    let head = ResponseHead::from_response(&response).ok_or(RequestOutcome::Unreadable)?;
                    self.buffer.drain(..length);
                    return Ok(head);
                }
                Ok(httparse::Status::Partial) if self.buffer.len() < MAX_HEAD => {}
                _ => return Err(RequestOutcome::Unreadable),
            }
            let begun = !self.buffer.is_empty();
            match self.read_more().await {
                Ok(1..) => {}
                _ if begun => return Err(RequestOutcome::Truncated),
                _ => return Err(RequestOutcome::Reset),
            }
        }
    }

    async fn skip(&mut self, length: u64) -> ReadResult<u64> {
        if length > MAX_BODY {
            return Err(RequestOutcome::Unreadable);
        }
        let mut remaining = length;
        loop {
            let buffered = remaining.min(self.buffer.len() as u64);
            self.take(buffered as usize);
            remaining -= buffered;
            if remaining == 0 {
                return Ok(length);
            }
            if !matches!(self.read_more().await, Ok(1..)) {
                return Err(RequestOutcome::Truncated);
            }
        }
    }

    async fn read_chunks(&mut self) -> ReadResult<u64> {
        let mut bytes = 0;
        loop {
            let size = loop {
                match httparse::parse_chunk_size(&self.buffer) {
                    Ok(httparse::Status::Complete((length, size))) => {
                        self.buffer.drain(..length);
                        break size;
                    }
                    Ok(httparse::Status::Partial) if self.buffer.len() < MAX_CHUNK_SIZE_LINE => {}
                    _ => return Err(RequestOutcome::Unreadable),
                }
                if !matches!(self.read_more().await, Ok(1..)) {
                    return Err(RequestOutcome::Truncated);
                }
            };
            bytes += size;
            if bytes > MAX_BODY {
                return Err(RequestOutcome::Unreadable);
            }
            if size == 0 {
                return self.read_trailer().await.map(|()| bytes);
            }
            self.skip(size).await?;
            if self.read_line().await? != b"\r\n" {
                return Err(RequestOutcome::Unreadable);
            }
        }
    }

    /// Reads the next line, including its end.
    async fn read_line(&mut self) -> ReadResult<Vec<u8>> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                return Ok(self.buffer.drain(..=end).collect());
            }
            if self.buffer.len() > MAX_HEAD {
                return Err(RequestOutcome::Unreadable);
            }
            if !matches!(self.read_more().await, Ok(1..)) {
                return Err(RequestOutcome::Truncated);
            }
        }
    }

    /// Reads trailers after the last chunk, up to an empty line.
    async fn read_trailer(&mut self) -> ReadResult<()> {
        for _ in 0..MAX_HEADERS {
            if matches!(self.read_line().await?.as_slice(), b"\r\n" | b"\n") {
                return Ok(());
            }
        }
        Err(RequestOutcome::Unreadable)
    }

    async fn read_until_closed(&mut self) -> ReadResult<u64> {
        let mut bytes = 0;
        loop {
            bytes += self.buffer.len() as u64;
            self.take(self.buffer.len());
            match self.read_more().await {
                Ok(0) => return Ok(bytes),
                Ok(_) if bytes <= MAX_BODY => {}
                Ok(_) => return Err(RequestOutcome::Unreadable),
                Err(_) => return Err(RequestOutcome::Truncated),
            }
        }
    }
}

struct ResponseHead {
    status: u16,
    body: BodyLength,
    /// Whether the connection stays open.
    keeps_open: bool,
}

enum BodyLength {
    Length(u64),
    Chunked,
    UntilClosed,
}

impl ResponseHead {
    fn from_response(response: &httparse::Response<'_, '_>) -> Option<Self> {
        let status = response.code.filter(|status| (100..600).contains(status))?;
        let (mut body, mut keeps_open) = (BodyLength::UntilClosed, response.version == Some(1));
        for header in response.headers.iter() {
            let value = || std::str::from_utf8(header.value).ok().map(str::trim);
            if header.name.eq_ignore_ascii_case("content-length") {
                if !matches!(body, BodyLength::Chunked) {
                    body = BodyLength::Length(value()?.parse().ok()?);
                }
            } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
                body = if value()?.eq_ignore_ascii_case("chunked") { BodyLength::Chunked } else { return None };
            } else if header.name.eq_ignore_ascii_case("connection") {
                keeps_open = match value()? {
                    close if close.eq_ignore_ascii_case("close") => false,
                    keep if keep.eq_ignore_ascii_case("keep-alive") => true,
                    _ => keeps_open,
                };
            }
        }
        Some(Self { status, body, keeps_open })
    }
}
