//! How long a response is fresh.

use crate::service::http::http_date;
use ureq::http::HeaderMap;

/// How long a response is fresh by its headers, in microseconds.
pub(super) fn fresh_for(headers: &HeaderMap) -> Option<i64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let seconds = |seconds: i64| seconds.clamp(0, 365 * 24 * 3_600) * 1_000_000;
    if let Some(control) = text("cache-control") {
        if control.split(',').any(|part| matches!(part.trim(), "no-store" | "no-cache")) {
            return Some(0);
        }
        if let Some(age) = control.split(',').find_map(|part| part.trim().strip_prefix("max-age=")?.parse::<i64>().ok()) {
            return Some(seconds(age));
        }
    }
    let expires = http_date(text("expires")?)?;
    let now = text("date").and_then(http_date)?;
    Some((expires - now).clamp(0, seconds(i64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_is_read_from_response_headers() {
        let fresh = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            headers.iter().for_each(|(name, value)| drop(map.insert(*name, value.parse().unwrap())));
            fresh_for(&map)
        };
        assert_eq!(fresh(&[("cache-control", "public, max-age=60")]), Some(60_000_000));
        assert_eq!(fresh(&[("cache-control", "no-store")]), Some(0));
        assert_eq!(fresh(&[("cache-control", "max-age=99999999999999999")]), Some(365 * 24 * 3_600 * 1_000_000));
        let dates = [("date", "Mon, 04 Oct 2010 18:57:42 GMT"), ("expires", "Mon, 04 Oct 2010 18:59:42 GMT")];
        assert_eq!(fresh(&dates), Some(120_000_000));
        assert_eq!(fresh(&[("expires", "Mon, 04 Oct 2010 18:59:42 GMT"), ("date", "Mon, 04 Oct 2010 19:59:42 GMT")]), Some(0));
        assert_eq!(fresh(&[("expires", "0")]), None);
        assert_eq!(fresh(&[]), None);
    }
}
