//! Reads, writes and rounds numbers as XPath does.

use std::fmt::Write as _;

/// Rounds to the nearest whole number; of two, to the larger.
pub(crate) fn round(number: f64) -> f64 {
    // whole numbers, infinities and NaN stay as they are; -0.2 becomes -0
    if number.fract() == 0.0 || !number.is_finite() { number } else { (number + 0.5).floor().abs().copysign(number) }
}

/// Converts text to a number: digits with at most one point and a leading minus, surrounded by white space; any other text is NaN.
pub fn to_number(text: &str) -> f64 {
    let text = text.trim_matches([' ', '\t', '\n', '\r']);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return f64::NAN;
    }
    text.parse().unwrap_or(f64::NAN)
}

/// Converts a number to text, without exponents; whole numbers have no point.
pub fn show_number(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return "0".to_owned();
    }
    let mut text = String::new();
    let _ = write!(text, "{number}");
    text
}
