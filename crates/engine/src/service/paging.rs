//! Where the next page of a list is: each service says it in one of a few ways.

use super::http::{encoded, on_same_host};
use crate::{EngineError, Result};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use stook_catalogue::definition::{FormatFamily, Pagination, Source};
use stook_formats::Syntax;
use stook_formats::read::{DocumentReader, open};
use ureq::http::HeaderMap;

/// The maximum number of pages of a list, for services that always return one more.
const MAX_PAGES: u64 = 100_000;

/// The pages of a list, one after the other.
pub(crate) struct PageWalk<'w> {
    pagination: Option<&'w Pagination>,
    source: &'w Source,
    /// The URL of the list, without arguments of pages.
    list: String,
    /// The URL of the page that is next.
    url: String,
    /// Pages and documents so far.
    pages: u64,
    documents: u64,
    /// The number of documents of the first page.
    full: Option<u64>,
    first_document: Option<[u8; 32]>,
    seen: HashSet<String>,
}

/// A page that was received.
pub(crate) struct ReceivedPage<'p> {
    /// Its bytes.
    pub file: &'p Path,
    /// The address in its header `Link` with `rel="next"`, if there is one.
    pub link: Option<String>,
}

impl<'w> PageWalk<'w> {
    pub(crate) fn new(pagination: Option<&'w Pagination>, source: &'w Source, list: String) -> Self {
        let mut walk =
            Self { pagination, source, list, url: String::new(), pages: 0, documents: 0, full: None, first_document: None, seen: HashSet::new() };
        walk.url = match pagination {
            Some(Pagination::Offset { offset, limit, size }) => walk.with(&[(offset, "0"), (limit, &size.to_string())]),
            Some(Pagination::Number { number, limit, size }) => walk.with(&[(number, "1"), (limit, &size.to_string())]),
            Some(Pagination::Next(_) | Pagination::Link | Pagination::Token(..)) | None => walk.list.clone(),
        };
        walk
    }

    /// The URL of the page to be requested.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Checks a page before it is imported.
    ///
    /// # Errors
    /// When it begins with the first document again, because the service ignores the argument.
    pub(crate) fn check(&mut self, file: &Path) -> Result<()> {
        let argument = match self.pagination {
            Some(Pagination::Offset { offset, .. }) => format!("{offset}={}", self.documents),
            Some(Pagination::Number { number, .. }) => format!("{number}={}", self.pages + 1),
            Some(Pagination::Next(_) | Pagination::Link | Pagination::Token(..)) | None => return Ok(()),
        };
        let document = self.first_document_of(file)?;
        if self.pages == 0 {
            self.first_document = document;
        } else if document.is_some() && document == self.first_document {
            let name = argument.split('=').next().unwrap_or_default();
            return Err(EngineError::Wrong(format!("it returned the same documents from {argument} on: it ignores `{name}`")));
        }
        Ok(())
    }

    /// Goes to the page after one with this number of documents; returns whether there is one.
    ///
    /// # Errors
    /// When the page cannot be read, or leads to another host or to a page that was there already.
    pub(crate) fn advance(&mut self, page: &ReceivedPage<'_>, documents: u64) -> Result<bool> {
        self.pages += 1;
        self.documents += documents;
        // a service may return fewer documents per page than requested: the last page is the first that is shorter than the first one
        let is_full = documents > 0 && documents >= *self.full.get_or_insert(documents);
        let next = match self.pagination {
            None => None,
            Some(Pagination::Offset { offset, limit, size }) => {
                is_full.then(|| self.with(&[(offset, &self.documents.to_string()), (limit, &size.to_string())]))
            }
            Some(Pagination::Number { number, limit, size }) => {
                is_full.then(|| self.with(&[(number, &(self.pages + 1).to_string()), (limit, &size.to_string())]))
            }
            Some(Pagination::Next(member)) => member_of(page.file, member)?.map(|next| on_same_host(&self.url, &next)).transpose()?,
            Some(Pagination::Link) => page.link.as_deref().map(|next| on_same_host(&self.url, next)).transpose()?,
            Some(Pagination::Token(place, argument)) => {
                let token = match self.source.family {
                    FormatFamily::Json => member_of(page.file, place)?,
                    _ => element_of(page.file, place)?,
                };
                token.map(|token| with_arguments(&self.list_of_token(), &[(argument, &token)]))
            }
        };
        match next {
            None => Ok(false),
            Some(next) if !self.seen.insert(next.clone()) => Err(EngineError::Wrong("it keeps returning the same page".into())),
            Some(_) if self.pages >= MAX_PAGES => Err(EngineError::Wrong(format!("it has more than {MAX_PAGES} pages"))),
            Some(next) => {
                self.url = next;
                Ok(true)
            }
        }
    }

    fn with(&self, arguments: &[(&String, &str)]) -> String {
        with_arguments(&self.list, arguments)
    }

    /// What a token is an argument of. In OAI-PMH, which is XML, a request with a token has no other argument than the verb.
    fn list_of_token(&self) -> String {
        match self.source.family {
            FormatFamily::Json => self.list.clone(),
            _ => with_verb_only(&self.list),
        }
    }

    /// A digest of the first document of a page.
    fn first_document_of(&self, file: &Path) -> Result<Option<[u8; 32]>> {
        let wrong = |error: std::io::Error| EngineError::Wrong(format!("its page cannot be read: {error}"));
        let opened = open(file).map_err(wrong)?;
        let Some(syntax) = opened.syntax.and_then(|found| found.as_family(self.source.family)) else { return Ok(None) };
        let mut documents = DocumentReader::new(opened.bytes, syntax, self.source);
        Ok(documents.next().map_err(wrong)?.map(|(_, bytes)| blake3::hash(bytes).into()))
    }
}

/// A URL with additional arguments.
fn with_arguments(url: &str, arguments: &[(&String, &str)]) -> String {
    let mut url = url.to_owned();
    for (name, value) in arguments {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{}={}", encoded(name), encoded(value)));
    }
    url
}

fn with_verb_only(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    query.split('&').find(|part| part.starts_with("verb=")).map_or(path.to_owned(), |verb| format!("{path}?{verb}"))
}

/// The address of the next page in a header `Link: <...>; rel="next"`.
pub(crate) fn next_link(headers: &HeaderMap) -> Option<String> {
    let links = headers.get_all("link").iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    links.into_iter().find_map(|link| {
        let (address, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = |parameter: &str| matches!(parameter.trim().to_ascii_lowercase().as_str(), "rel=next" | "rel=\"next\"");
        parameters.split(';').any(is_next).then(|| address.to_owned())
    })
}

/// The text of a member of a JSON page, `next` or `links.next`, without loading the rest into memory.
fn member_of(file: &Path, place: &str) -> Result<Option<String>> {
    let open = File::open(file).map_err(|error| EngineError::Wrong(error.to_string()))?;
    let mut reader = serde_json::Deserializer::from_reader(BufReader::new(open));
    let found = reader.deserialize_map(Member(place)).map_err(|error| EngineError::Wrong(format!("its page cannot be read: {error}")))?;
    Ok(found.filter(|text| !text.is_empty()))
}

/// Finds the member at a place below an object. Names may contain dots themselves, as `@odata.nextLink` does.
struct Member<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Member<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> std::result::Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if self.0.is_empty() { "a text, a number or null" } else { "an object" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        if self.0.is_empty() {
            return Err(A::Error::custom("where the next page is, there is an object instead of a text"));
        }
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            let rest = self.0.strip_prefix(name.as_str()).and_then(|rest| if rest.is_empty() { Some(rest) } else { rest.strip_prefix('.') });
            match rest {
                Some(rest) => found = map.next_value_seed(Member(rest))?.or(found),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_str<E: Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| text.to_owned()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> std::result::Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> std::result::Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> std::result::Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| number.to_string()))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> std::result::Result<Self::Value, E> {
        // some services say `"next": false` on the last page
        if flag && self.0.is_empty() { Err(E::custom("where the next page is, there is `true` instead of a text")) } else { Ok(None) }
    }

    fn visit_unit<E: Error>(self) -> std::result::Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Self::Value, A::Error> {
        if self.0.is_empty() {
            return Err(A::Error::custom("where the next page is, there is a list instead of a text"));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The text of the first element with a name.
fn element_of(file: &Path, name: &str) -> Result<Option<String>> {
    let wrong = |error: String| EngineError::Wrong(format!("its page cannot be read: {error}"));
    let open: Box<dyn Read + Send> = Box::new(BufReader::new(File::open(file).map_err(|error| wrong(error.to_string()))?));
    let mut elements = DocumentReader::new(open, Syntax::Xml, Some(name));
    let Some((_, bytes)) = elements.next().map_err(|error| wrong(error.to_string()))? else { return Ok(None) };
    let tree = stook_formats::xml::parse(bytes).map_err(|error| wrong(error.to_string()))?;
    Ok(tree.root_element().text().map(str::trim).filter(|token| !token.is_empty()).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_next_page_is_found_in_a_page() {
        let json = |place: &str, text: &str| member_of(file(text).path(), place).map_err(|error| error.to_string());
        assert_eq!(json("next", r#"{"rows":[{"next":"inner"}],"next":"/b"}"#), Ok(Some("/b".into())));
        assert_eq!(json("links.next", r#"{"next":"/a","links":{"self":"/c","next":"/b"},"rows":[]}"#), Ok(Some("/b".into())));
        assert_eq!(json("@odata.nextLink", r#"{"@odata":{"x":1},"@odata.nextLink":"/b"}"#), Ok(Some("/b".into())));
        assert_eq!(json("meta.cursor", r#"{"meta":{"cursor":17}}"#), Ok(Some("17".into())));
        for none in [r#"{"next":null,"rows":[]}"#, r#"{"next":"","rows":[]}"#, r#"{"next":false}"#, "{}"] {
            assert_eq!(json("next", none), Ok(None), "{none}");
        }
        for none in [r#"{"links":null}"#, r#"{"links":[{"next":"/b"}]}"#, r#"{"links":"next"}"#, r#"{"links":{"next":null}}"#] {
            assert_eq!(json("links.next", none), Ok(None), "{none}");
        }
        for wrong in ["[]", r#"{"next": {}}"#, r#"{"next": ["/b"]}"#, r#"{"next": true}"#, r#"{"next": "/b""#] {
            assert!(json("next", wrong).is_err(), "{wrong}");
        }
        let xml = |text: &str| element_of(file(text).path(), "resumptionToken").unwrap();
        let page = |token: &str| format!("<OAI-PMH><ListRecords><record/>{token}</ListRecords></OAI-PMH>");
        assert_eq!(xml(&page("<resumptionToken cursor='0'> a&amp;b </resumptionToken>")), Some("a&b".into()));
        assert_eq!(xml(&page("<resumptionToken cursor='9'/>")), None);
        assert_eq!(xml(&page("<!-- <resumptionToken>x</resumptionToken> -->")), None);
        assert_eq!(xml(&page("")), None);
    }

    #[test]
    fn a_header_leads_to_the_next_page() {
        let next = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("link", value.parse().unwrap());
            }
            next_link(&headers)
        };
        assert_eq!(next(&[r#"<https://a/x?page=2>; rel="next", <https://a/x?page=9>; rel="last""#]), Some("https://a/x?page=2".into()));
        assert_eq!(next(&["<https://a/1>; rel=prev", "<https://a/3>;title=x; REL=Next"]), Some("https://a/3".into()));
        assert_eq!((next(&[]), next(&["<https://a/1>; rel=prev"]), next(&["next"])), (None, None, None));
    }

    #[test]
    fn arguments_are_added_or_left_out() {
        assert_eq!(with_verb_only("http://a/oai?verb=ListRecords&from=2"), "http://a/oai?verb=ListRecords");
        assert_eq!(with_arguments("http://a/oai?verb=L", &[(&"token".to_owned(), "a&b c")]), "http://a/oai?verb=L&token=a%26b%20c");
    }
}
