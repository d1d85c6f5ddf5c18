//! Numbers as texts write them: plain, with a decimal comma, with thousands separated.

/// Number of significant digits that every float keeps.
const KEPT_DIGITS: usize = 15;
/// Maximum number of digits before the point of a float.
const WHOLE_DIGITS: usize = 17;
/// Maximum number of digits of a number.
const MAX_DIGITS: usize = 60;
/// Maximum number of digits of an integer.
const INTEGER_DIGITS: usize = 18;
/// Spaces that separate thousands.
const SPACES: [char; 3] = [' ', '\u{a0}', '\u{202f}'];
/// Apostrophes that separate thousands.
const APOSTROPHES: [char; 2] = ['\'', '’'];

/// What separates thousands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// Nothing.
    None,
    /// A point.
    Point,
    /// A comma.
    Comma,
    /// A space.
    Space,
    /// An apostrophe.
    Apostrophe,
}

impl Grouping {
    /// The characters that separate thousands.
    pub fn characters(self) -> &'static [char] {
        match self {
            Self::None => &[],
            Self::Point => &['.'],
            Self::Comma => &[','],
            Self::Space => &SPACES,
            Self::Apostrophe => &APOSTROPHES,
        }
    }
}

/// A way of writing numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NumberForm {
    /// What separates thousands.
    pub grouping: Grouping,
    /// Whether the decimals follow a comma.
    pub has_decimal_comma: bool,
}

/// All ways of writing numbers but the plain one.
pub const FORMS: [NumberForm; 6] = [
    NumberForm { grouping: Grouping::None, has_decimal_comma: true },
    NumberForm { grouping: Grouping::Point, has_decimal_comma: true },
    NumberForm { grouping: Grouping::Comma, has_decimal_comma: false },
    NumberForm { grouping: Grouping::Space, has_decimal_comma: true },
    NumberForm { grouping: Grouping::Space, has_decimal_comma: false },
    NumberForm { grouping: Grouping::Apostrophe, has_decimal_comma: false },
];

/// A number that was read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadNumber {
    /// Its value.
    pub value: f64,
    /// Whether it has decimals or an exponent.
    pub has_decimals: bool,
    /// Whether its only separator could separate thousands or decimals: one separator, with three digits after it.
    pub is_ambiguous: bool,
}

/// Whether a text is an integer that is written as programs write it: without a plus sign, leading zeros and separators.
pub fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    is_whole(digits) && digits.len() <= INTEGER_DIGITS && text != "-0"
}

/// Digits without a leading zero.
fn is_whole(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'))
}

/// Reads a number that is written as programs write it. `1E5` is none, as codes look so: an exponent follows a point or has a sign.
pub fn plain_number(text: &str) -> Option<ReadNumber> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).map_or((unsigned, None), |(mantissa, exponent)| (mantissa, Some(exponent)));
    if let Some(exponent) = exponent {
        let digits = exponent.trim_start_matches(['+', '-']);
        let is_number = mantissa.contains('.') || exponent.len() > digits.len();
        if !is_number || digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
    }
    let decimals = decimals(mantissa, '.')?;
    let is_ambiguous = decimals.len() == 3 && mantissa.len() <= 7 && exponent.is_none() && !mantissa.starts_with(['0', '.']);
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite() && keeps_digits(mantissa, *value))?;
    Some(ReadNumber { value, has_decimals: !decimals.is_empty() || exponent.is_some(), is_ambiguous })
}

/// The decimals of an unsigned number without grouped thousands.
fn decimals(text: &str, point: char) -> Option<&str> {
    let (whole, decimals) = text.split_once(point).unwrap_or((text, ""));
    let has_point = whole.len() < text.len();
    let is_sound = (is_whole(whole) || whole.is_empty() && has_point)
        && decimals.is_empty() != has_point
        && decimals.bytes().all(|byte| byte.is_ascii_digit())
        && whole.len() <= WHOLE_DIGITS;
    is_sound.then_some(decimals)
}

/// Whether a float has all digits of the number that it was read from: with as many digits, it is written in the same way. Programs that write floats
/// with all their digits, as `1.510000000000000000e+02`, lose nothing; others may have more digits than a float keeps.
fn keeps_digits(mantissa: &str, value: f64) -> bool {
    let all: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = all.trim_start_matches('0');
    if digits.trim_end_matches('0').len() <= KEPT_DIGITS {
        return true;
    }
    digits.len() <= MAX_DIGITS && {
        let written = format!("{:.*e}", digits.len() - 1, value.abs());
        written.chars().take_while(|character| *character != 'e').filter(char::is_ascii_digit).eq(digits.chars())
    }
}

impl NumberForm {
    /// Reads a number that is written in this form.
    pub fn read(self, text: &str) -> Option<ReadNumber> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let point = if self.has_decimal_comma { ',' } else { '.' };
        let separators = self.grouping.characters();
        let whole_end = unsigned.find(point).unwrap_or(unsigned.len());
        let groups: Vec<&str> = unsigned[..whole_end].split(separators).collect();
        let is_grouped = groups.len() > 1;
        if is_grouped && (!(1..=3).contains(&groups[0].len()) || groups[1..].iter().any(|group| group.len() != 3)) {
            return None;
        }
        let digits = groups.concat() + &unsigned[whole_end..];
        let decimals = decimals(&digits, point)?;
        let plain = digits.replacen(point, ".", 1);
        let is_ambiguous = if is_grouped { groups.len() == 2 && decimals.is_empty() } else { decimals.len() == 3 && groups[0].len() <= 3 };
        let value: f64 = plain.parse().ok().filter(|value| keeps_digits(&plain, *value))?;
        let value = if unsigned.len() < text.len() { -value } else { value };
        Some(ReadNumber { value, has_decimals: !decimals.is_empty(), is_ambiguous: is_ambiguous && groups[0] != "0" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_no_numbers() {
        for text in ["007", "1E5", "+49", "1e", "1.2.3", "", "-", ".", "5.", "12 ", "0x1", "NaN", "inf", "1_000", "123456789012345678.5"] {
            assert!(plain_number(text).is_none() && !is_integer(text), "{text}");
        }
        for text in ["0", "-12", "0.5", ".5", "1e-05", "1.5E5", "123456789012345"] {
            assert!(plain_number(text).is_some(), "{text}");
        }
    }

    #[test]
    fn digits_that_a_float_has_may_be_written_out() {
        for text in [
            "1.510000000000000000e+02",
            "1.518100000000000005e+00",
            "0.30000000000000004",
            "-0.1000000000000000055511151231257827",
            "2.50000000000000000",
        ] {
            assert!(plain_number(text).is_some(), "{text}");
        }
        for text in ["3.14159265358979323846", "1.518099999999999999e+00", "0.12345678901234567891"] {
            assert!(plain_number(text).is_none(), "{text}");
        }
    }

    #[test]
    fn thousands_and_decimals_are_read_in_each_form() {
        let read = |grouping, has_decimal_comma, text: &str| NumberForm { grouping, has_decimal_comma }.read(text).map(|number| number.value);
        assert_eq!(read(Grouping::Point, true, "-1.234.567,5"), Some(-1_234_567.5));
        assert_eq!(read(Grouping::Comma, false, "1,234"), Some(1_234.0));
        assert_eq!(read(Grouping::Space, true, "12 345,50"), Some(12_345.5));
        assert_eq!(read(Grouping::None, true, "0,5"), Some(0.5));
        assert_eq!(read(Grouping::Comma, false, "12,34"), None);
        assert_eq!(read(Grouping::Point, true, "1.2345"), None);
        assert_eq!(read(Grouping::Apostrophe, false, "1'000"), Some(1_000.0));
    }
}
