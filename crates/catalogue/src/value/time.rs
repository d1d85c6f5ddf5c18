//! Points in time: microseconds since 1970 in UTC, in the years -9999 to 9999.

use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::fmt::temporal::Pieces;
use jiff::{SignedDuration, Timestamp};

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
/// The first microsecond of the year -9999.
pub const EARLIEST: i64 = -377_705_116_800_000_000;
/// The last microsecond of the year 9999.
pub const LATEST: i64 = 253_402_300_799_999_999;

/// Returns the time if it is within the years -9999 to 9999.
pub fn in_range(micros: i64) -> Option<i64> {
    (EARLIEST..=LATEST).contains(&micros).then_some(micros)
}

/// Converts date and time in UTC to microseconds.
fn micros_of(moment: DateTime) -> i64 {
    // ten thousand years are 3e17 microseconds, which fit
    moment.duration_since(EPOCH).as_micros() as i64
}

/// Formats a time as RFC 3339 in UTC, with as many fractional digits as needed.
pub fn show_timestamp(micros: i64) -> String {
    if let Ok(time) = Timestamp::from_microsecond(micros) {
        return time.to_string();
    }
    // jiff's `Timestamp` ends before the year does, so that every time zone can show it
    EPOCH.checked_add(SignedDuration::from_micros(micros)).map_or_else(|_| micros.to_string(), |moment| format!("{moment}Z"))
}

/// Parses a time: RFC 3339, or date and time in UTC, or the form given by `format`.
pub fn timestamp_from_text(text: &str, format: Option<&str>) -> Option<i64> {
    let micros = match format {
        Some("epoch") => scaled_decimal(text, 1_000_000),
        Some("epoch_ms") => scaled_decimal(text, 1_000),
        Some("epoch_us") => text.parse().ok(),
        Some(pattern) => {
            let parsed = BrokenDownTime::parse(pattern, text).ok()?;
            let moment = parsed.to_datetime().or_else(|_| parsed.to_date().map(|date| date.at(0, 0, 0, 0))).ok();
            match parsed.offset() {
                // a pattern for seconds since 1970 gives no date
                Some(offset) => moment
                    .map(|moment| micros_of(moment) - i64::from(offset.seconds()) * 1_000_000)
                    .or_else(|| Some(parsed.to_timestamp().ok()?.as_microsecond())),
                None => moment.map(micros_of),
            }
        }
        None => match text.parse::<Timestamp>() {
            Ok(time) => Some(time.as_microsecond()),
            Err(_) => last_day_from_text(text).or_else(|| text.parse().ok().map(micros_of)),
        },
    };
    in_range(micros?)
}

/// Parses RFC 3339 for the last day, which jiff's `Timestamp` does not cover.
fn last_day_from_text(text: &str) -> Option<i64> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    let moment = pieces.date().to_datetime(pieces.time()?);
    Some(micros_of(moment) - i64::from(offset.seconds()) * 1_000_000)
}

/// Multiplies a decimal number by `scale` and truncates, without converting to a float.
fn scaled_decimal(text: &str, scale: i64) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let negative = whole.starts_with('-');
    let whole: i64 = whole.parse().ok()?;
    let digits = scale.ilog10() as usize;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let padded: String = fraction.chars().chain(std::iter::repeat('0')).take(digits).collect();
    let fraction: i64 = if padded.is_empty() { 0 } else { padded.parse().ok()? };
    whole.checked_mul(scale)?.checked_add(if negative { -fraction } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_and_the_last_year_are_read_and_shown() {
        for (text, micros) in
            [("9999-12-31T23:59:59.999999Z", LATEST), ("-009999-01-01T00:00:00Z", EARLIEST), ("9999-12-31T00:00:00Z", 253_402_214_400_000_000)]
        {
            assert_eq!((timestamp_from_text(text, None), show_timestamp(micros).as_str()), (Some(micros), text));
            assert_eq!(timestamp_from_text(&micros.to_string(), Some("epoch_us")), Some(micros));
        }
        for text in ["9999-12-31T01:00:00+01:00", "9999-12-30T23:00:00-01:00", "9999-12-31 00:00:00", "9999-12-31"] {
            assert_eq!(timestamp_from_text(text, None).map(show_timestamp).as_deref(), Some("9999-12-31T00:00:00Z"), "{text}");
        }
        let of_pattern = timestamp_from_text("31.12.9999 01:00 +0100", Some("%d.%m.%Y %H:%M %z"));
        assert_eq!(of_pattern.map(show_timestamp).as_deref(), Some("9999-12-31T00:00:00Z"));
        for outside in ["9999-12-31T23:00:00-02:00", "10000-01-01T00:00:00Z", "9999-12-31T24:00:00Z"] {
            assert_eq!(timestamp_from_text(outside, None), None, "{outside}");
        }
        assert_eq!(timestamp_from_text(&(LATEST + 1).to_string(), Some("epoch_us")), None);
        assert_eq!(timestamp_from_text("99999999999999", Some("epoch")), None);
    }

    proptest! {
        #[test]
        fn shown_timestamps_are_read_back(micros in prop_oneof![EARLIEST..=LATEST, LATEST - 200_000_000_000..=LATEST, EARLIEST..=EARLIEST + 200_000_000_000]) {
            prop_assert_eq!(timestamp_from_text(&show_timestamp(micros), None), Some(micros));
        }
    }
}
