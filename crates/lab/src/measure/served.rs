//! Counters of the served side, as Prometheus text.

use super::plan::Target;
use std::collections::BTreeMap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Most bytes that are read.
const MOST: u64 = 16 << 20;

/// Whole numbers that are counters, by name and labels. Nothing where they cannot be read.
pub async fn counters(target: &Target, path: &str) -> Option<BTreeMap<String, u64>> {
    let mut stream = TcpStream::connect(target.address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.host);
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut text = Vec::new();
    stream.take(MOST).read_to_end(&mut text).await.ok()?;
    let text = String::from_utf8_lossy(&text);
    let counter = |line: &str| -> Option<(String, u64)> {
        let (name, value) = line.rsplit_once(' ')?;
        let base = name.split('{').next()?;
        (base.ends_with("_total") && !name.starts_with('#')).then_some(())?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(counter).collect())
}
