//! Counters of the system under test, in the text format of Prometheus.

use crate::http::fetch;
use crate::plan::TargetAddress;
use std::collections::BTreeMap;

/// Returns counters with integer values, by name and labels; `None` if they cannot be read.
pub async fn counters(target: &TargetAddress, path: &str) -> Option<BTreeMap<String, u64>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", target.host);
    let (_, body) = fetch(target.address, request.as_bytes(), None).await.ok()?;
    let text = String::from_utf8_lossy(&body);
    let counter = |line: &str| -> Option<(String, u64)> {
        let (name, value) = line.rsplit_once(' ')?;
        let base = name.split('{').next()?;
        (base.ends_with("_total") && !name.starts_with('#')).then_some(())?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    Some(text.lines().filter_map(counter).collect())
}
