//! Numbers as XPath reads, writes and rounds them.

use std::fmt::Write as _;

/// The nearest whole number, the larger of two.
pub(crate) fn round(number: f64) -> f64 {
    // what is whole stays as it is, and so do infinities and what is no number; -0.2 becomes -0
    if number.fract() == 0.0 || !number.is_finite() { number } else { (number + 0.5).floor().abs().copysign(number) }
}

/// Text as a number: digits with at most one point and one minus before them, blanks around; everything else is none.
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

/// A number as text: no exponents, whole numbers without a point.
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
