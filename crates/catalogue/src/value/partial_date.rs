//! Dates of which only the year or the month is known, and ranges of dates: the days that a date may be.

use super::time::{EARLIEST, LATEST};
use jiff::civil;
use jiff::fmt::strtime::BrokenDownTime;
use std::fmt;

const DAY: i64 = 86_400_000_000;
/// The first day of the year -9999, counted from 1970-01-01.
const FIRST: i64 = EARLIEST.div_euclid(DAY);
/// The last day of the year 9999.
const LAST: i64 = LATEST.div_euclid(DAY);

/// The days from one to another, both included. Equal days are equal values, however they were written.
///
/// It is stored as one integer, so that stores order and index it as any other: the upper bits are the first day, the lower [`PartialDate::LAST_BITS`]
/// the last day, counted backwards. So values are ordered by their beginning, and of those with the same beginning the least precise comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialDate {
    first: i64,
    last: i64,
}

impl PartialDate {
    /// The first and the last day of the years -9999 to 9999.
    pub const LIMITS: (i64, i64) = (FIRST, LAST);
    /// How many bits of the stored integer are the last day.
    pub const LAST_BITS: u32 = 24;
    /// The bits of the last day.
    pub const LAST_MASK: i64 = (1 << Self::LAST_BITS) - 1;
    /// What is added to a day, counted from 1970-01-01, so that it is stored as a positive number.
    pub const SHIFT: i64 = -FIRST;

    /// The days from `first` to `last`, counted from 1970-01-01; `None` if there are none in the years -9999 to 9999.
    pub fn between(first: i64, last: i64) -> Option<Self> {
        (FIRST <= first && first <= last && last <= LAST).then_some(Self { first, last })
    }

    /// All days from `first` on: the least of the values that begin with it.
    pub fn from_day_on(first: i64) -> Option<Self> {
        Self::between(first, LAST)
    }

    /// The first day, counted from 1970-01-01.
    pub fn first(self) -> i64 {
        self.first
    }

    /// The last day.
    pub fn last(self) -> i64 {
        self.last
    }

    /// The first day, unless all days before the last one are meant.
    pub fn known_first(self) -> Option<i64> {
        (self.first > FIRST).then_some(self.first)
    }

    /// The last day, unless all days after the first one are meant.
    pub fn known_last(self) -> Option<i64> {
        (self.last < LAST).then_some(self.last)
    }

    /// Whether all of its days are also days of the other one.
    pub fn lies_in(self, other: PartialDate) -> bool {
        other.first <= self.first && self.last <= other.last
    }

    /// The integer as which it is stored.
    pub fn stored(self) -> i64 {
        ((self.first + Self::SHIFT) << Self::LAST_BITS) | Self::stored_last(self.last)
    }

    /// The lower bits of the stored integer: the later the day, the smaller.
    pub fn stored_last(day: i64) -> i64 {
        Self::LAST_MASK - (day + Self::SHIFT)
    }

    /// Reads a stored integer.
    pub fn from_stored(stored: i64) -> Option<Self> {
        Self::between((stored >> Self::LAST_BITS) - Self::SHIFT, Self::LAST_MASK - (stored & Self::LAST_MASK) - Self::SHIFT)
    }

    /// Reads `1998`, `1998-05`, `1998-05-24`, `199X`, two of these with a slash between them, of which one may be `..`, and `1998-2003`.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = match text.split_once('/') {
            Some(("..", last)) => (Self { first: FIRST, last: FIRST }, single(last)?),
            Some((first, "..")) => (single(first)?, Self { first: LAST, last: LAST }),
            Some((first, last)) => (single(first)?, single(last)?),
            None => match (text.get(..4), text.get(4..5), text.get(5..)) {
                (Some(first), Some("-"), Some(last)) if last.len() == 4 => (year(first)?, year(last)?),
                _ => {
                    let only = single(text)?;
                    (only, only)
                }
            },
        };
        Self::between(first.first, last.last)
    }

    /// Reads a date by a strftime pattern, which may lack the day, or the day and the month.
    pub fn parse_with(text: &str, pattern: &str) -> Option<Self> {
        let parsed = BrokenDownTime::parse(pattern, text).ok()?;
        match (parsed.to_date(), parsed.month(), parsed.day()) {
            (Ok(date), _, _) => days(date, date),
            (Err(_), Some(month), None) => of_month(parsed.year()?, month),
            (Err(_), None, None) => of_years(parsed.year()?, parsed.year()?),
            _ => None,
        }
    }
}

fn number_of(date: civil::Date) -> i64 {
    i64::from((date - civil::date(1970, 1, 1)).get_days())
}

fn date_of(day: i64) -> Option<civil::Date> {
    civil::date(1970, 1, 1).checked_add(jiff::Span::new().try_days(day).ok()?).ok()
}

fn days(first: civil::Date, last: civil::Date) -> Option<PartialDate> {
    PartialDate::between(number_of(first), number_of(last))
}

fn of_years(first: i16, last: i16) -> Option<PartialDate> {
    days(civil::Date::new(first, 1, 1).ok()?, civil::Date::new(last, 12, 31).ok()?)
}

fn of_month(year: i16, month: i8) -> Option<PartialDate> {
    let first = civil::Date::new(year, month, 1).ok()?;
    days(first, first.last_of_month())
}

/// Reads a year: four digits, or a sign and six, as in ISO 8601.
fn year(text: &str) -> Option<PartialDate> {
    let year = year_number(text)?;
    of_years(year, year)
}

fn year_number(text: &str) -> Option<i16> {
    let digits = text.strip_prefix(['-', '+']);
    let fits = digits.unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit()) && text.len() == if digits.is_some() { 7 } else { 4 };
    text.parse().ok().filter(|_| fits)
}

/// Reads a decade or a century of which the last digits are not known: `199X`, `19XX`, in older data `199u`.
fn unknown_digits(text: &str) -> Option<PartialDate> {
    let known = text.trim_end_matches(['X', 'u']);
    let unknown = text.len() - known.len();
    if text.len() != 4 || !(1..=2).contains(&unknown) || !known.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let years = 10_i16.pow(unknown as u32);
    let first = known.parse::<i16>().ok()? * years;
    of_years(first, first + years - 1)
}

/// Reads one date.
fn single(text: &str) -> Option<PartialDate> {
    let month = || {
        let (year, month) = text.rsplit_once('-').filter(|(_, month)| month.len() == 2)?;
        of_month(year_number(year)?, month.parse().ok()?)
    };
    let day = || {
        let date = text.parse().ok()?;
        days(date, date)
    };
    year(text).or_else(month).or_else(|| unknown_digits(text)).or_else(day)
}

impl fmt::Display for PartialDate {
    /// Writes the shortest form that has all of the days.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(first), Some(last)) = (date_of(self.first), date_of(self.last)) else { return write!(f, "{}", self.stored()) };
        let year = |date: civil::Date| if date.year() < 0 { format!("-{:06}", date.year().unsigned_abs()) } else { format!("{:04}", date.year()) };
        let month = |date: civil::Date| format!("{}-{:02}", year(date), date.month());
        let is_open_before = self.first == FIRST && self.last < LAST;
        let is_open_after = self.last == LAST && self.first > FIRST;
        let begins_year = self.first == FIRST || first == first.first_of_year();
        let begins_month = first == first.first_of_month();
        let (ends_year, ends_month) = (last == last.last_of_year(), last == last.last_of_month());
        // a year, a month or a day may also begin or end where time does
        if first == last {
            return write!(f, "{first}");
        }
        if begins_year && ends_year && first.year() == last.year() {
            return f.write_str(&year(first));
        }
        if begins_month && ends_month && first.first_of_month() == last.first_of_month() {
            return f.write_str(&month(first));
        }
        let show = |date: civil::Date| match (begins_year && ends_year, begins_month && ends_month) {
            (true, _) => year(date),
            (false, true) => month(date),
            (false, false) => date.to_string(),
        };
        match (is_open_before, is_open_after) {
            (true, _) => write!(f, "../{}", show(last)),
            (_, true) => write!(f, "{}/..", show(first)),
            (false, false) => write!(f, "{}/{}", show(first), show(last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> Option<String> {
        PartialDate::parse(text).map(|date| date.to_string())
    }

    #[test]
    fn a_date_keeps_its_precision() {
        for text in ["1998", "1998-05", "1998-05-24", "1998/2003", "1998-05/2003-01", "1998-05-02/2003-01-31", "1998/..", "../1998-05", "0000"] {
            assert_eq!(shown(text).as_deref(), Some(text));
        }
        for text in ["9999", "9999-12", "9999-12-31", "-009999", "-000044-03-15", "-000044", "9998/..", "../-009998"] {
            assert_eq!(shown(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn the_shortest_form_is_shown() {
        for (text, shorter) in [
            ("1998-2003", "1998/2003"),
            ("199X", "1990/1999"),
            ("19uu", "1900/1999"),
            ("1998-01-01/1998-12-31", "1998"),
            ("1998-05-01/1998-05-31", "1998-05"),
            ("1998/2003-05", "1998-01/2003-05"),
            ("2019-04-24T10:00", "2019-04-24"),
            ("1998/9999", "1998/.."),
        ] {
            assert_eq!(shown(text).as_deref(), Some(shorter), "{text}");
        }
    }

    #[test]
    fn other_texts_are_no_dates() {
        for text in
            ["", "98", "1998-13", "1998-5", "1998-02-30", "2003/1998", "2003-1998", "../..", "/1998", "1998/", "1XXX", "XXXX", "1998-99", "é998"]
        {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn a_pattern_may_lack_the_day_and_the_month() {
        let read = |text: &str, pattern: &str| PartialDate::parse_with(text, pattern).map(|date| date.to_string());
        assert_eq!(read("24.04.2019", "%d.%m.%Y").as_deref(), Some("2019-04-24"));
        assert_eq!(read("4/2019", "%m/%Y").as_deref(), Some("2019-04"));
        assert_eq!(read("c2019", "c%Y").as_deref(), Some("2019"));
        assert_eq!((read("2019-04", "%Y"), read("24.04.", "%d.%m."), read("24 2019", "%d %Y")), (None, None, None));
    }

    fn dates() -> impl Strategy<Value = PartialDate> {
        let day = || prop_oneof![Just(FIRST), Just(LAST), FIRST..=LAST, -1000i64..1000];
        let any = (day(), day()).prop_filter_map("in order", |(a, b)| PartialDate::between(a.min(b), a.max(b)));
        let year = (-9999i16..=9999, 0i16..3).prop_filter_map("in range", |(year, more)| of_years(year, year.checked_add(more)?));
        let month = (-9999i16..=9999, 1i8..=12).prop_filter_map("in range", |(year, month)| of_month(year, month));
        prop_oneof![any, year, month]
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_again(date in dates()) {
            prop_assert_eq!(PartialDate::parse(&date.to_string()), Some(date));
            prop_assert_eq!(PartialDate::from_stored(date.stored()), Some(date));
        }

        #[test]
        fn stored_integers_are_ordered_by_beginning_and_then_by_precision(a in dates(), b in dates()) {
            let by_days = a.first.cmp(&b.first).then(b.last.cmp(&a.last));
            prop_assert_eq!(a.stored().cmp(&b.stored()), by_days);
        }

        #[test]
        fn no_text_makes_it_fail(text in "[0-9Xu./+-]{0,16}|\\PC{0,12}") {
            if let Some(date) = PartialDate::parse(&text) {
                prop_assert_eq!(PartialDate::parse(&date.to_string()), Some(date));
            }
        }
    }
}
