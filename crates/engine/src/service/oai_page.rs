//! What a response of OAI-PMH says about itself: its time, its errors, and the token for what follows.

use stook_catalogue::value::{FieldType, from_text};
use stook_formats::strange;
use stook_formats::xml::{decode, parse_text};
use stook_formats::xpath::markup::{XmlTag, attributes, local, tag_at};

/// How exact the repository's times are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Granularity {
    Day,
    Second,
}

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OaiError {
    pub(super) code: String,
    pub(super) text: String,
}

/// A response, without its records.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct OaiPage {
    /// When the repository answered, in microseconds.
    pub(super) date: Option<i64>,
    pub(super) errors: Vec<OaiError>,
    /// The token for the next page.
    pub(super) token: Option<String>,
    pub(super) granularity: Option<Granularity>,
}

impl OaiPage {
    /// Reads a response; elements inside of records are none of it.
    ///
    /// # Errors
    /// When it is not a complete response of OAI-PMH.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut page = Self::default();
        let (mut level, mut at, mut is_oai) = (0_u32, 0, false);
        let mut content = 0;
        let mut code = String::new();
        while let Some(found) = bytes[at..].iter().position(|byte| *byte == b'<') {
            let start = at + found;
            let Some((length, tag)) = tag_at(&bytes[start..], true) else { return Err("its answer ends inside a tag".into()) };
            at = start + length;
            match tag {
                XmlTag::Open { name, empty, attributes: written } => {
                    is_oai |= level == 0 && local(name) == b"OAI-PMH";
                    if level == 1 && local(name) == b"error" {
                        code = attributes(written).find(|(name, _)| *name == b"code").map(|(_, whole)| attribute_value(whole)).unwrap_or_default();
                    }
                    (level, content) = (level + 1, at);
                    if empty {
                        page.take(level, local(name), b"", &mut code);
                        level -= 1;
                    }
                }
                XmlTag::Close { name } => {
                    if level <= 3 {
                        page.take(level, local(name), &bytes[content..start], &mut code);
                    }
                    level = level.saturating_sub(1);
                }
                XmlTag::Other => {}
            }
        }
        match (is_oai, level) {
            (true, 0) => Ok(page),
            (true, _) => Err("its answer ends inside an element".into()),
            (false, _) => Err(format!("its answer {}", strange::no_document(bytes, "its outermost element is not `OAI-PMH`"))),
        }
    }

    /// Takes the text of an element that ends at a level.
    fn take(&mut self, level: u32, name: &[u8], text: &[u8], code: &mut String) {
        let shown = || text_of(text);
        match (level, name) {
            (2, b"responseDate") => self.date = from_text(&shown(), &FieldType::Timestamp, None).ok().and_then(|time| time.as_int()),
            (2, b"error") => self.errors.push(OaiError { code: std::mem::take(code), text: shown() }),
            (3, b"resumptionToken") => self.token = Some(shown()).filter(|token| !token.is_empty()),
            (3, b"granularity") => self.granularity = Some(if shown().contains('T') { Granularity::Second } else { Granularity::Day }),
            _ => {}
        }
    }

    /// Whether there is an error with this code.
    pub(super) fn has_error(&self, code: &str) -> bool {
        self.errors.iter().any(|error| error.code == code)
    }
}

/// The text of an element without elements inside, with its references replaced.
fn text_of(content: &[u8]) -> String {
    let mut element = String::from("<x>");
    decode(content, None, &mut element);
    element.push_str("</x>");
    let text = parse_text(&element).ok().and_then(|tree| tree.root_element().text().map(|text| text.trim().to_owned()));
    text.unwrap_or_default()
}

fn attribute_value(whole: &[u8]) -> String {
    let text = String::from_utf8_lossy(whole);
    text.split_once('=').map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(inner: &str) -> OaiPage {
        let text = format!("<?xml version='1.0'?><o:OAI-PMH xmlns:o='u'><o:responseDate>2024-01-01T00:00:01Z</o:responseDate>{inner}</o:OAI-PMH>");
        OaiPage::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn tokens_and_errors_are_those_of_the_response_and_not_of_its_records() {
        let record = "<record><metadata><x><error code='no'>r</error><resumptionToken>inner</resumptionToken></x></metadata></record>";
        let found = page(&format!("<ListRecords>{record}<resumptionToken cursor='0'> a&amp;b </resumptionToken></ListRecords>"));
        assert_eq!((found.token.as_deref(), found.errors.len(), found.date), (Some("a&b"), 0, Some(1_704_067_201_000_000)));
        assert_eq!(page(&format!("<ListRecords>{record}<resumptionToken cursor='0'/></ListRecords>")).token, None);
        assert_eq!(page("<ListRecords><!-- <resumptionToken>x</resumptionToken> --></ListRecords>").token, None);
        let found = page("<error code='badArgument'>what is `x`?</error><error code=\"noRecordsMatch\"/>");
        assert!(found.has_error("badArgument") && found.has_error("noRecordsMatch") && !found.has_error("idDoesNotExist"));
        assert_eq!(found.errors[0].text, "what is `x`?");
        let identified = |text: &str| page(&format!("<Identify><granularity>{text}</granularity></Identify>")).granularity;
        assert_eq!(identified("YYYY-MM-DDThh:mm:ssZ"), Some(Granularity::Second));
        assert_eq!(identified("YYYY-MM-DD"), Some(Granularity::Day));
    }

    #[test]
    fn other_responses_and_incomplete_ones_are_refused() {
        for (text, expected) in [
            ("<html/>", "looks like HTML"),
            ("<r/>", "not `OAI-PMH`"),
            ("", "not `OAI-PMH`"),
            ("<OAI-PMH><a>", "inside an element"),
            ("<OAI-PMH><a", "inside a tag"),
        ] {
            let error = OaiPage::read(text.as_bytes()).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
