//! What a text may be: the kinds of values that a column is tested for, one text after the other.

use crate::number::{self, FORMS, NumberForm};
use std::sync::LazyLock;
use stook_catalogue::value::{FieldType, from_text};

/// A kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Float,
    /// Numbers that are not written as programs write them.
    Written(NumberForm),
    /// One of two words.
    Boolean(BooleanWords),
    /// A date in this format; without one, `2024-02-29`.
    Date(Option<&'static str>),
    /// A date that may lack the day, or the day and the month: `2024`, `2024-02`.
    PartialDate,
    /// A date with a time in this format; without one, RFC 3339.
    Timestamp(Option<&'static str>),
    /// An identifier of 128 bits.
    Uuid,
    /// A duration of ISO 8601.
    Duration,
    /// A geometry as WKT or GeoJSON.
    Geometry,
    /// An object or a list in JSON.
    Json,
}

/// Two words for true and false, in small letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BooleanWords {
    /// The word for true.
    pub yes: &'static str,
    /// The word for false.
    pub no: &'static str,
}

const BOOLEANS: [(&str, &str); 12] = [
    ("true", "false"),
    ("yes", "no"),
    ("y", "n"),
    ("t", "f"),
    ("1", "0"),
    ("on", "off"),
    ("ja", "nein"),
    ("j", "n"),
    ("oui", "non"),
    ("sí", "no"),
    ("si", "no"),
    ("vrai", "faux"),
];

const DATES: [&str; 19] = [
    "%d.%m.%Y",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%Y%m%d",
    "%d.%m.%y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%d. %B %Y",
];

const TIMESTAMPS: [&str; 13] = [
    "%d.%m.%Y %H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y %H:%M",
    "%d/%m/%Y %H:%M:%S",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M %p",
    "%m/%d/%Y %I:%M:%S %p",
    "%Y/%m/%d %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%d/%b/%Y:%H:%M:%S %z",
    "%a, %d %b %Y %H:%M:%S %z",
    "%Y%m%dT%H%M%S",
];

/// All kinds; a set of them is a number with a bit for each.
pub(crate) static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut kinds = vec![Kind::Integer, Kind::Float, Kind::Uuid, Kind::Duration, Kind::Geometry, Kind::Json];
    kinds.extend(FORMS.map(Kind::Written));
    kinds.extend(BOOLEANS.map(|(yes, no)| Kind::Boolean(BooleanWords { yes, no })));
    kinds.extend([Kind::Date(None), Kind::Timestamp(None)]);
    kinds.extend(DATES.map(|format| Kind::Date(Some(format))));
    kinds.extend(TIMESTAMPS.map(|format| Kind::Timestamp(Some(format))));
    kinds.push(Kind::PartialDate);
    kinds
});

impl Kind {
    /// Whether a text, without blanks around it, is of this kind, and would be stored without a loss.
    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Kind::Integer => number::is_integer(text),
            Kind::Float => number::plain_number(text).is_some(),
            Kind::Written(form) => form.read(text).is_some(),
            Kind::Boolean(BooleanWords { yes, no }) => [yes, no].into_iter().any(|word| text.to_lowercase() == word),
            Kind::Date(format) => {
                text.len() <= 32 && has_form(text, format.unwrap_or("%Y-%m-%d")) && from_text(text, &FieldType::Date, format).is_ok()
            }
            Kind::PartialDate => {
                let has_form = ["%Y", "%Y-%m", "%Y-%m-%d"].iter().any(|format| has_form(text, format));
                has_form && text >= "1000" && from_text(text, &FieldType::PartialDate, None).is_ok()
            }
            Kind::Timestamp(None) => is_timestamp(text),
            Kind::Timestamp(Some(format)) => {
                text.len() <= 40 && has_form(text, format) && from_text(text, &FieldType::Timestamp, Some(format)).is_ok()
            }
            Kind::Uuid => text.len() == 36 && from_text(text, &FieldType::Uuid, None).is_ok(),
            Kind::Duration => text.trim_start_matches('-').starts_with('P') && from_text(text, &FieldType::Duration, None).is_ok(),
            Kind::Geometry => looks_like_geometry(text) && from_text(text, &FieldType::Geometry, None).is_ok(),
            Kind::Json => text.starts_with(['{', '[']) && from_text(text, &FieldType::Json, None).is_ok(),
        }
    }
}

fn is_timestamp(text: &str) -> bool {
    let has_date = text.len() >= 16
        && text.as_bytes()[..10].iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    // microseconds are kept
    let decimals = text.split_once(['.', ',']).map_or(0, |(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    has_date && text[10..].contains(':') && decimals <= 6 && from_text(text, &FieldType::Timestamp, None).is_ok()
}

fn looks_like_geometry(text: &str) -> bool {
    let upper = text.get(..12).unwrap_or(text).to_ascii_uppercase();
    ["POINT", "LINESTRING", "POLYGON", "MULTI", "GEOMETRY", "SRID="].iter().any(|word| upper.starts_with(word))
        || text.starts_with('{') && text.contains("\"coordinates\"")
}

/// Whether a text has the digits and letters that a strftime pattern describes; reading alone would also take other numbers of digits.
fn has_form(text: &str, format: &str) -> bool {
    let mut rest = text;
    let mut pattern = format.chars();
    let is_packed = format.contains("%Y%m");
    while let Some(next) = pattern.next() {
        if next != '%' {
            let Some(after) = rest.strip_prefix(next) else { return false };
            rest = after;
            continue;
        }
        let run = |of: fn(char) -> bool| rest.chars().take_while(|character| of(*character)).map(char::len_utf8).sum::<usize>();
        let digits = run(|character| character.is_ascii_digit());
        let letters = run(char::is_alphabetic);
        let taken = match pattern.next() {
            Some('Y') if is_packed => 4.min(digits),
            Some('Y') if digits == 4 => 4,
            Some('y') if digits == 2 => 2,
            Some('d' | 'm' | 'H' | 'M' | 'S') if is_packed => 2.min(digits),
            Some('d' | 'm' | 'H' | 'I') if (1..=2).contains(&digits) => digits,
            Some('M' | 'S') if digits == 2 => 2,
            Some('b' | 'a') if letters == 3 => 3,
            Some('B') if letters >= 3 => letters,
            Some('p') if letters == 2 => 2,
            Some('z') if rest.starts_with(['+', '-']) && rest.len() == 5 => 5,
            _ => 0,
        };
        if taken == 0 {
            return false;
        }
        rest = &rest[taken..];
    }
    rest.is_empty()
}

/// How many texts of a column are of each kind.
#[derive(Debug, Clone)]
pub(crate) struct KindCounts {
    /// For each kind, how many texts are of it.
    counts: Vec<u32>,
    /// The kinds that are still tested: those that few texts are not of.
    tested: u64,
    /// The number of texts.
    texts: u64,
}

impl Default for KindCounts {
    fn default() -> Self {
        Self { counts: vec![0; KINDS.len()], tested: u64::MAX, texts: 0 }
    }
}

impl KindCounts {
    pub(crate) fn add(&mut self, text: &str) {
        self.texts += 1;
        let text = text.trim();
        let may_fail = 16 + self.texts / 20;
        for (index, kind) in KINDS.iter().enumerate() {
            if self.tested >> index & 1 == 0 {
                continue;
            }
            if kind.fits(text) {
                self.counts[index] = self.counts[index].saturating_add(1);
            } else if self.texts - u64::from(self.counts[index]) > may_fail {
                self.tested &= !(1 << index);
            }
        }
    }

    /// How many texts are of a kind; fewer than there are if most are not.
    pub(crate) fn of(&self, kind: Kind) -> u64 {
        KINDS.iter().position(|known| *known == kind).map_or(0, |index| u64::from(self.counts[index]))
    }

    /// Whether every text is of a kind.
    pub(crate) fn all(&self, kind: Kind) -> bool {
        self.texts > 0 && self.of(kind) == self.texts
    }

    /// The kinds that every text is of.
    pub(crate) fn common(&self) -> impl Iterator<Item = Kind> + '_ {
        KINDS.iter().copied().filter(|kind| self.all(*kind))
    }

    /// The kind that most texts are of, and how many; only if not all are.
    pub(crate) fn most(&self) -> Option<(Kind, u64)> {
        let found = KINDS.iter().enumerate().max_by_key(|(index, _)| (self.counts[*index], std::cmp::Reverse(*index)))?;
        let count = u64::from(self.counts[found.0]);
        (count * 10 >= self.texts * 6 && count < self.texts).then_some((*found.1, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_formats_they_are_written_in() {
        for (text, format) in [
            ("1.2.2024", "%d.%m.%Y"),
            ("31/12/2024", "%d/%m/%Y"),
            ("12/31/24", "%m/%d/%y"),
            ("20240229", "%Y%m%d"),
            ("3 March 2024", "%d %B %Y"),
            ("Mar 3, 2024", "%b %d, %Y"),
            ("03-MAR-2024", "%d-%b-%Y"),
        ] {
            assert!(Kind::Date(Some(format)).fits(text), "{text} {format}");
        }
        assert!(!Kind::Date(Some("%d.%m.%Y")).fits("1.2.24"));
        assert!(!Kind::Date(Some("%Y%m%d")).fits("20241301"));
        assert!(Kind::Date(None).fits("2024-02-29") && !Kind::Date(None).fits("2023-02-29"));
    }

    #[test]
    fn times_are_read_if_nothing_of_them_is_lost() {
        for text in ["2024-01-02T10:00:00Z", "2024-01-02 10:00", "2024-01-02T10:00:00.123456+02:00"] {
            assert!(Kind::Timestamp(None).fits(text), "{text}");
        }
        assert!(!Kind::Timestamp(None).fits("2024-01-02T10:00:00.123456789Z"));
        assert!(Kind::Timestamp(Some("%m/%d/%Y %I:%M %p")).fits("7/31/2024 1:05 PM"));
    }

    #[test]
    fn there_are_no_more_kinds_than_bits() {
        assert!(KINDS.len() <= 64);
    }
}
