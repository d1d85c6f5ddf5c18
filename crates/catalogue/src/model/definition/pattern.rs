//! Pattern sets: regular expressions with named groups that are tried in order on a text.

use crate::value::SmolStr;
use regex::{CaptureLocations, Regex};
use regex_syntax::hir::Look;
use regex_syntax::hir::literal::Extractor;

/// A set of regular expressions that are tried in order.
#[derive(Debug, Clone)]
pub struct PatternSet {
    /// Its name.
    pub name: String,
    /// The expressions.
    pub expressions: Vec<NamedRegex>,
}

/// A regular expression with named groups.
#[derive(Debug, Clone)]
pub struct NamedRegex {
    expression: Regex,
    /// The names of its groups, if they have one.
    names: Vec<Option<String>>,
    /// The possible beginnings of texts that match, if known.
    beginnings: Option<Vec<Box<[u8]>>>,
}

impl NamedRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// When it is not valid.
    pub fn new(text: &str) -> Result<Self, regex::Error> {
        let expression = regex::RegexBuilder::new(text).size_limit(1 << 20).build()?;
        let parsed = regex_syntax::parse(text).ok().filter(|parsed| parsed.properties().look_set_prefix().contains(Look::Start));
        let literals = parsed.map(|parsed| Extractor::new().extract(&parsed));
        let beginnings = literals.and_then(|literals| Some(literals.literals()?.iter().map(|literal| literal.as_bytes().into()).collect()));
        let names = expression.capture_names().map(|name| name.map(str::to_owned)).collect();
        Ok(Self { expression, names, beginnings })
    }

    /// Iterates over the names of its groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flatten().map(String::as_str)
    }

    /// Whether a text may match; most texts are rejected by how they begin.
    fn may_match(&self, text: &str) -> bool {
        self.beginnings.as_ref().is_none_or(|beginnings| beginnings.iter().any(|beginning| text.as_bytes().starts_with(beginning)))
    }
}

impl PatternSet {
    /// Matches a text with the first expression that matches.
    pub fn groups(&self, text: &SmolStr) -> Option<Captures<'_>> {
        let mut possible = self.expressions.iter().filter(|named| named.may_match(text));
        possible.find_map(|named| {
            let mut locations = named.expression.capture_locations();
            named.expression.captures_read(&mut locations, text)?;
            Some(Captures { names: &named.names, text: text.clone(), locations })
        })
    }
}

/// The named groups of a match.
#[derive(Debug, Clone)]
pub struct Captures<'p> {
    names: &'p [Option<String>],
    text: SmolStr,
    locations: CaptureLocations,
}

impl Captures<'_> {
    /// Returns the text of a group, if it is part of the match.
    pub fn get(&self, name: &str) -> Option<&str> {
        let index = self.names.iter().position(|group| group.as_deref() == Some(name))?;
        let (start, end) = self.locations.get(index)?;
        self.text.get(start..end)
    }

    /// Returns all groups as an object.
    pub fn to_json(&self) -> serde_json::Value {
        let named = self.names.iter().flatten().filter_map(|name| Some((name.clone(), self.get(name)?.into())));
        serde_json::Value::Object(named.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_begin_otherwise_are_not_matched_at_all() {
        for (expression, text, may) in [
            ("^(?P<a>S1[A-D])_.*", "S1B_IW", true),
            ("^(?P<a>S1[A-D])_.*", "S2A_IW", false),
            ("^S1.*|S2", "xS2", true),
            ("(?i)^ab+", "ABC", true),
            ("(?i)^ab+", "bab", false),
            (".*x", "anything", true),
            ("^(?:a|)b?", "zzz", true),
            ("^[^.]+$", "zzz", true),
            ("S1", "in the middle S1", true),
        ] {
            let named = NamedRegex::new(expression).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(named.may_match(text), may, "{expression} {text}");
            assert!(may || !named.expression.is_match(text), "{expression} {text}");
        }
    }
}
