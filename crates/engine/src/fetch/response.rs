//! What a response says about itself: how long it is fresh, and where the next page is.

use crate::service::http::http_date;
use crate::{EngineError, Result};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use stook_formats::Syntax;
use stook_formats::read::DocumentReader;
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

/// The text of a member of the top-level object, without loading the rest into memory.
pub(super) fn member_of(file: &Path, name: &str) -> Result<Option<String>> {
    struct Member<'n>(&'n str);
    impl<'de> Visitor<'de> for Member<'_> {
        type Value = Option<String>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(name) = map.next_key::<String>()? {
                if name == self.0 {
                    found = map.next_value::<Option<String>>()?.filter(|next| !next.is_empty());
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    let open = File::open(file).map_err(|error| EngineError::Wrong(error.to_string()))?;
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open));
    reader.deserialize_map(Member(name)).map_err(|error| EngineError::Wrong(format!("its page cannot be read: {error}")))
}

/// The text of the first element with a name.
pub(super) fn element_of(file: &Path, name: &str) -> Result<Option<String>> {
    let wrong = |error: String| EngineError::Wrong(format!("its page cannot be read: {error}"));
    let open: Box<dyn Read + Send> = Box::new(BufReader::new(File::open(file).map_err(|error| wrong(error.to_string()))?));
    let mut elements = DocumentReader::new(open, Syntax::Xml, Some(name));
    let Some((_, bytes)) = elements.next().map_err(|error| wrong(error.to_string()))? else { return Ok(None) };
    let tree = stook_formats::xml::parse(bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(tree.root_element().text().map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]

    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_next_page_is_found_in_a_page() {
        let json = |text: &str| member_of(file(text).path(), "next").map_err(|error| error.to_string());
        assert_eq!(json(r#"{"rows":[{"next":"inner"}],"next":"/b"}"#), Ok(Some("/b".into())));
        assert_eq!(json(r#"{"next":null,"rows":[]}"#), Ok(None));
        assert_eq!(json(r#"{"next":"","rows":[]}"#), Ok(None));
        assert_eq!(json("{}"), Ok(None));
        assert!(json("[]").is_err() && json(r#"{"next": 1}"#).is_err() && json(r#"{"next": "/b""#).is_err());
        let xml = |text: &str| element_of(file(text).path(), "resumptionToken").unwrap();
        let page = |token: &str| format!("<OAI-PMH><ListRecords><record/>{token}</ListRecords></OAI-PMH>");
        assert_eq!(xml(&page("<resumptionToken cursor='0'> a&amp;b </resumptionToken>")), Some("a&b".into()));
        assert_eq!(xml(&page("<resumptionToken cursor='9'/>")), None);
        assert_eq!(xml(&page("<!-- <resumptionToken>x</resumptionToken> -->")), None);
        assert_eq!(xml(&page("")), None);
    }

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
