//! The arguments of a request: which there are, which belong to a verb, and what is wrong with them.

use super::token::ListToken;
use stook_catalogue::diagnostic::did_you_mean;
use stook_catalogue::value::{FieldType, from_text};
use stook_engine::publish::PublishedForm;
use stook_formats::xml::escaped;

/// An error of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OaiError {
    pub(super) code: &'static str,
    pub(super) text: String,
}

impl OaiError {
    pub(super) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    fn argument(text: impl Into<String>) -> Self {
        Self::new("badArgument", text)
    }

    /// Whether the request's arguments cannot be understood.
    pub(super) fn is_about_arguments(&self) -> bool {
        matches!(self.code, "badVerb" | "badArgument")
    }

    pub(super) fn to_xml(&self) -> String {
        format!("<error code=\"{}\">{}</error>", self.code, escaped(&self.text))
    }
}

/// What lists contain of each record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKind {
    /// Its header.
    Identifiers,
    /// All of it.
    Records,
}

impl ListKind {
    /// The verb, which is also the name of the element that answers it.
    pub(super) fn verb(self) -> &'static str {
        match self {
            ListKind::Identifiers => "ListIdentifiers",
            ListKind::Records => "ListRecords",
        }
    }
}

/// The records that a list has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) prefix: String,
    /// The collection.
    pub(super) set: Option<String>,
    /// Start, in microseconds.
    pub(super) from: Option<i64>,
    /// End, in microseconds, excluded.
    pub(super) until: Option<i64>,
}

/// A checked request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OaiRequest {
    Identify,
    /// Of one record, or of all.
    ListMetadataFormats(Option<String>),
    ListSets,
    List(ListKind, Selection),
    /// The next page of a list.
    Continue(ListKind, ListToken),
    GetRecord {
        identifier: String,
        prefix: String,
    },
}

/// The forms of records with their names, schemas and namespaces.
pub(super) const FORMS: [(&str, PublishedForm, &str, &str); 3] = [
    ("oai_dc", PublishedForm::DublinCore, "http://www.openarchives.org/OAI/2.0/oai_dc.xsd", "http://www.openarchives.org/OAI/2.0/oai_dc/"),
    ("marcxml", PublishedForm::MarcXml, "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd", "http://www.loc.gov/MARC21/slim"),
    ("marc21", PublishedForm::MarcXml, "http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd", "http://www.loc.gov/MARC21/slim"),
];

/// Each verb with the arguments that it requires, and those that it may have.
const VERBS: [(&str, &[&str], &[&str]); 6] = [
    ("Identify", &[], &[]),
    ("ListMetadataFormats", &[], &["identifier"]),
    ("ListSets", &[], &["resumptionToken"]),
    ("ListIdentifiers", &["metadataPrefix"], &["from", "until", "set", "resumptionToken"]),
    ("ListRecords", &["metadataPrefix"], &["from", "until", "set", "resumptionToken"]),
    ("GetRecord", &["identifier", "metadataPrefix"], &[]),
];

impl OaiRequest {
    /// Checks the arguments of a request.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn new(arguments: &[(String, String)]) -> Result<Self, OaiError> {
        let all = |name: &str| arguments.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str()).collect::<Vec<_>>();
        let names = || VERBS.iter().map(|(verb, ..)| *verb);
        let verb = match all("verb")[..] {
            [] => return Err(OaiError::new("badVerb", "the request has no verb; there are ".to_owned() + &names().collect::<Vec<_>>().join(", "))),
            [verb] => verb,
            _ => return Err(OaiError::new("badVerb", "the request has several verbs")),
        };
        let Some((verb, required, optional)) = VERBS.iter().find(|(name, ..)| *name == verb) else {
            let meant = did_you_mean(verb, names()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            return Err(OaiError::new("badVerb", format!("there is no verb `{verb}`{meant}")));
        };
        let known = || required.iter().chain(optional.iter()).copied();
        if let Some((name, _)) = arguments.iter().find(|(name, _)| name != "verb" && !known().any(|own| own == name)) {
            let meant = did_you_mean(name, known()).map(|meant| format!("; did you mean {meant}?")).unwrap_or_default();
            return Err(OaiError::argument(format!("{verb} has no argument `{name}`{meant}")));
        }
        if let Some(name) = known().find(|name| all(name).len() > 1) {
            return Err(OaiError::argument(format!("`{name}` is given more than once")));
        }
        let one = |name: &str| all(name).first().map(|value| (*value).to_owned());
        if let Some(token) = one("resumptionToken") {
            if arguments.len() > 2 {
                return Err(OaiError::argument("a resumptionToken is the only argument"));
            }
            let bad =
                || OaiError::new("badResumptionToken", "this is no token of this repository, or one of an earlier definition; begin the list again");
            return match *verb {
                "ListIdentifiers" => Ok(Self::Continue(ListKind::Identifiers, ListToken::parse(&token).ok_or_else(bad)?)),
                "ListRecords" => Ok(Self::Continue(ListKind::Records, ListToken::parse(&token).ok_or_else(bad)?)),
                _ => Err(bad()),
            };
        }
        if let Some(missing) = required.iter().find(|name| one(name).is_none()) {
            return Err(OaiError::argument(format!("{verb} needs `{missing}`")));
        }
        let prefix = one("metadataPrefix").unwrap_or_default();
        Ok(match *verb {
            "Identify" => Self::Identify,
            "ListMetadataFormats" => Self::ListMetadataFormats(one("identifier")),
            "ListSets" => Self::ListSets,
            "GetRecord" => Self::GetRecord { identifier: one("identifier").unwrap_or_default(), prefix },
            verb => {
                let kind = if verb == "ListRecords" { ListKind::Records } else { ListKind::Identifiers };
                Self::List(kind, selection(prefix, one("set"), (one("from"), one("until")))?)
            }
        })
    }
}

fn selection(prefix: String, set: Option<String>, (from, until): (Option<String>, Option<String>)) -> Result<Selection, OaiError> {
    if let (Some(from), Some(until)) = (&from, &until)
        && from.len() != until.len()
    {
        return Err(OaiError::argument("`from` and `until` are both days, or both times"));
    }
    let from = from.map(|text| time("from", &text)).transpose()?;
    let until = until.map(|text| time("until", &text)).transpose()?;
    if let (Some((from, _)), Some((until, _))) = (from, until)
        && from > until
    {
        return Err(OaiError::argument("`from` is later than `until`"));
    }
    // all of the last second, or day, is included
    Ok(Selection { prefix, set, from: from.map(|(start, _)| start), until: until.map(|(_, end)| end) })
}

/// The start and the end of a day or a second, in microseconds.
fn time(name: &str, text: &str) -> Result<(i64, i64), OaiError> {
    let pattern = match text.len() {
        10 => "dddd-dd-dd",
        _ => "dddd-dd-ddTdd:dd:ddZ",
    };
    let fits = text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, wanted)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted });
    let (length, complete) = if text.len() == 10 { (86_400_000_000, format!("{text}T00:00:00Z")) } else { (1_000_000, text.to_owned()) };
    let start = from_text(&complete, &FieldType::Timestamp, None).ok().and_then(|time| time.as_int()).filter(|_| fits);
    let start =
        start.ok_or_else(|| OaiError::argument(format!("`{name}` is a day, 2026-01-31, or a time, 2026-01-31T12:00:00Z; this is `{text}`")))?;
    Ok((start, start + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<OaiRequest, OaiError> {
        let pairs = query.split('&').filter_map(|part| part.split_once('=')).map(|(name, value)| (name.to_owned(), value.to_owned()));
        OaiRequest::new(&pairs.collect::<Vec<_>>())
    }

    #[test]
    fn what_is_wrong_with_a_request_has_the_code_of_the_protocol() {
        for (query, code, text) in [
            ("", "badVerb", "no verb"),
            ("verb=identify", "badVerb", "did you mean Identify?"),
            ("verb=Identify&verb=Identify", "badVerb", "several"),
            ("verb=Identify&set=a", "badArgument", "no argument `set`"),
            ("verb=ListRecords", "badArgument", "needs `metadataPrefix`"),
            ("verb=ListRecords&metadataPrefix=a&metadataprefix=b", "badArgument", "did you mean metadataPrefix?"),
            ("verb=ListRecords&metadataPrefix=a&metadataPrefix=b", "badArgument", "more than once"),
            ("verb=ListRecords&metadataPrefix=a&from=2024", "badArgument", "`from` is a day"),
            ("verb=ListRecords&metadataPrefix=a&from=2024-13-01", "badArgument", "this is `2024-13-01`"),
            ("verb=ListRecords&metadataPrefix=a&from=2024-01-01T00:00:00.5Z", "badArgument", "`from` is a day"),
            ("verb=ListRecords&metadataPrefix=a&from=2024-01-01&until=2024-01-01T00:00:00Z", "badArgument", "both days"),
            ("verb=ListRecords&metadataPrefix=a&from=2024-01-02&until=2024-01-01", "badArgument", "later"),
            ("verb=ListRecords&resumptionToken=x&metadataPrefix=a", "badArgument", "the only argument"),
            ("verb=ListRecords&resumptionToken=x", "badResumptionToken", "begin the list again"),
            ("verb=ListSets&resumptionToken=x", "badResumptionToken", "begin the list again"),
            ("verb=GetRecord&metadataPrefix=a", "badArgument", "needs `identifier`"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.code == code && error.text.contains(text), "{query}: {error:?}");
        }
    }

    #[test]
    fn a_list_includes_all_of_its_last_day_or_second() {
        let bounds = |query: &str| match read(&format!("verb=ListIdentifiers&metadataPrefix=a&{query}")).unwrap() {
            OaiRequest::List(ListKind::Identifiers, selection) => (selection.from, selection.until),
            other => panic!("{other:?}"),
        };
        assert_eq!(bounds("from=1970-01-02&until=1970-01-02"), (Some(86_400_000_000), Some(172_800_000_000)));
        assert_eq!(bounds("until=1970-01-01T00:00:01Z"), (None, Some(2_000_000)));
    }
}
