//! Parses JSON of documents and requests.

use serde_json::Value as Json;
use std::borrow::Cow;

/// Min digits of a number that may not fit 64 bits.
const LONG: usize = 19;

/// Parses a JSON value. An integer that does not fit 64 bits becomes a text with all its digits: as a number it would lose some, and different ids
/// could become equal.
///
/// # Errors
/// When it is not JSON.
pub fn parse(bytes: &[u8]) -> Result<Json, serde_json::Error> {
    serde_json::from_slice(&with_long_numbers_quoted(bytes))
}

/// Whether there are so many digits in a row that a number may be too long.
fn has_long_digits(bytes: &[u8]) -> bool {
    // a run of that many digits covers every LONGth byte
    let mut at = LONG - 1;
    while let Some(byte) = bytes.get(at) {
        if byte.is_ascii_digit() {
            let before = bytes[..at].iter().rev().take_while(|byte| byte.is_ascii_digit()).take(LONG).count();
            let after = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).take(LONG).count();
            if before + after >= LONG {
                return true;
            }
        }
        at += LONG;
    }
    false
}

fn with_long_numbers_quoted(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !has_long_digits(bytes) {
        return Cow::Borrowed(bytes);
    }
    let mut quoted = Vec::with_capacity(bytes.len() + 16);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => rest.iter().take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')).count(),
            _ => 1,
        };
        let token = &rest[..length];
        if is_too_long(token) {
            quoted.push(b'"');
            quoted.extend_from_slice(token);
            quoted.push(b'"');
        } else {
            quoted.extend_from_slice(token);
        }
        at += length;
    }
    Cow::Owned(quoted)
}

/// Returns the length in bytes of the string that begins here, including its quotes.
pub(super) fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Whether it is an integer that does not fit 64 bits.
fn is_too_long(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    if digits.len() < LONG || digits[0] == b'0' || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let text = std::str::from_utf8(token).unwrap_or_default();
    text.parse::<i64>().is_err() && text.parse::<u64>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn whole_numbers_beyond_64_bits_keep_their_digits_as_text() {
        let all = br#"{"a": 18446744073709551616, "b": [-9223372036854775809, 18446744073709551615], "c": "\"123456789012345678901234567890",
            "d": 1.2345678901234567890123, "e": 12345678901234567890123}"#;
        let expected = json!({
            "a": "18446744073709551616", "b": ["-9223372036854775809", 18_446_744_073_709_551_615_u64], "c": "\"123456789012345678901234567890",
            "d": 1.234_567_890_123_456_8, "e": "12345678901234567890123",
        });
        assert_eq!(parse(all).expect("JSON"), expected);
        assert!(parse(b"012345678901234567890123").is_err() && parse(b"\"123456789012345678901234").is_err());
    }

    proptest! {
        #[test]
        fn other_json_is_read_as_the_library_reads_it(text in r#"[-0-9.eE"\\ ,\[\]]{0,60}"#, digits in "-?[0-9]{15,25}") {
            let whole = format!("[{digits}, {text}]");
            let (found, expected) = (parse(whole.as_bytes()), serde_json::from_str::<Json>(&whole));
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    let pairs = found.as_array().into_iter().flatten().zip(expected.as_array().into_iter().flatten());
                    for (found, expected) in pairs.filter(|(found, expected)| found != expected) {
                        prop_assert!(found.is_string() && expected.is_f64() || found.is_array(), "{whole}: {found} {expected}");
                    }
                }
                (found, expected) => prop_assert_eq!(found.is_ok(), expected.is_ok(), "{}", whole),
            }
        }

        #[test]
        fn numbers_of_any_length_keep_their_digits(digits in "-?[1-9][0-9]{0,40}") {
            let read = parse(format!("[{digits}]").as_bytes()).expect("JSON");
            let shown = read[0].as_str().map_or_else(|| read[0].to_string(), str::to_owned);
            prop_assert_eq!(shown, digits);
        }
    }
}
