//! Numbers of books, serials and library records, in their normal forms.

/// A number at the beginning of a text, without hyphens and spaces. The last digit of some numbers can be an X, which means ten.
struct LeadingNumber {
    digits: String,
    /// The numbers of digits after which there is a space: what follows may not belong to the number.
    blanks: Vec<usize>,
}

impl LeadingNumber {
    /// Reads up to the first character that does not belong to the number, whose digit number `x_position` may be an X.
    fn read(text: &str, x_position: usize) -> Self {
        let mut number = Self { digits: String::new(), blanks: Vec::new() };
        for character in text.chars() {
            match character {
                '0'..='9' => number.digits.push(character),
                // hyphens, and dashes used as hyphens
                '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => {}
                _ if character.is_whitespace() => number.blanks.push(number.digits.len()),
                'x' | 'X' if number.digits.len() + 1 == x_position => {
                    number.digits.push('X');
                    break;
                }
                _ => break,
            }
        }
        number
    }

    /// Returns the first `length` digits, if the number ends there or a space follows.
    fn first(&self, length: usize) -> Option<&str> {
        let ends = self.digits.len() == length || self.digits.len() > length && self.blanks.contains(&length);
        if ends { self.digits.get(..length) } else { None }
    }
}

/// Returns the values of the digits; X is ten.
fn values(digits: &str) -> impl DoubleEndedIterator<Item = u32> + '_ {
    digits.chars().map(|digit| digit.to_digit(10).unwrap_or(10))
}

/// Whether the sum of the digits, weighted by 1, 2, 3 ... from the right, is a multiple of 11, as in ISBN-10 and ISSN.
fn divides_by_eleven(digits: &str) -> bool {
    values(digits).rev().zip(1..).map(|(digit, weight)| digit * weight).sum::<u32>() % 11 == 0
}

/// Returns the check digit of an ISBN-13 that begins with these twelve digits.
fn last_of_thirteen(twelve: &str) -> u32 {
    let sum: u32 = values(twelve).zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    (10 - sum % 10) % 10
}

/// Returns the ISBN-13, without hyphens, of the ISBN at the beginning of a text.
pub(super) fn isbn(text: &str) -> Option<String> {
    let number = LeadingNumber::read(text, 10);
    // 979-0 is the prefix of printed music (ISMN)
    let thirteen = |digits: &&str| {
        (digits.starts_with("978") || digits.starts_with("979") && !digits.starts_with("9790"))
            && values(&digits[12..]).eq([last_of_thirteen(&digits[..12])])
    };
    if let Some(digits) = number.first(13).filter(thirteen) {
        return Some(digits.to_owned());
    }
    if number.digits.len() == 13 {
        return None;
    }
    let digits = number.first(10).filter(|digits| divides_by_eleven(digits))?;
    let twelve = format!("978{}", &digits[..9]);
    let last = last_of_thirteen(&twelve);
    Some(format!("{twelve}{last}"))
}

/// Returns the ISSN at the beginning of a text, as `NNNN-NNNX`.
pub(super) fn issn(text: &str) -> Option<String> {
    let number = LeadingNumber::read(text, 8);
    let digits = number.first(8).filter(|digits| divides_by_eleven(digits))?;
    Some(format!("{}-{}", &digits[..4], &digits[4..]))
}

/// Number of digits after the hyphen in the normal form of an LCCN.
const SERIAL_DIGITS: usize = 6;

/// Returns the normal form of a Library of Congress control number, as in `info:lccn`: without blanks, without a slash and what follows it, and with
/// the part after a hyphen padded to six digits.
pub(super) fn lccn(text: &str) -> Option<String> {
    let without_spaces: String = text.split('/').next().unwrap_or_default().chars().filter(|character| !character.is_whitespace()).collect();
    let normal = match without_spaces.split_once('-') {
        Some((year, serial)) if serial.len() <= SERIAL_DIGITS => format!("{year}{serial:0>SERIAL_DIGITS$}"),
        Some(_) => return None,
        None => without_spaces,
    };
    // two digits of the year after up to three letters, or four digits after up to two
    let letters = normal.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digits = normal.len() - letters;
    let fits = digits == 2 + SERIAL_DIGITS && letters <= 3 || digits == 4 + SERIAL_DIGITS && letters <= 2;
    (fits && normal.bytes().skip(letters).all(|digit| digit.is_ascii_digit())).then_some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn standard_numbers_are_found_as_catalogues_write_them() {
        let isbn = |text| isbn(text).unwrap_or_else(|| "none".into());
        for text in [
            "0306406152",
            "0-306-40615-2",
            "0 306 40615 2",
            "0306406152 (pbk.) : $12.00",
            "0306406152 2010",
            " 978-0-306-40615-7",
            "9780306406157 1. ed.",
            "9780306406157 2010",
            "978\u{2010}0\u{2010}306\u{2010}40615\u{2010}7",
            "9780306406157pbk",
        ] {
            assert_eq!(isbn(text), "9780306406157", "{text}");
        }
        assert_eq!(isbn("080442957x"), isbn("0-8044-2957-X (cloth)"));
        assert_eq!(isbn("080442957X"), "9780804429573");
        for text in ["", "pbk.", "0306406153", "978-0-306-40615-8", "03064061522", "9790060115615", "030640615", "X306406152", "978030640615X"] {
            assert_eq!(isbn(text), "none", "{text}");
        }
        let issn = |text| issn(text).unwrap_or_else(|| "none".into());
        for (text, wanted) in [
            ("0378-5955", "0378-5955"),
            ("03785955", "0378-5955"),
            ("2434-561x (online)", "2434-561X"),
            ("0378-5955 ; 12", "0378-5955"),
            ("0378-5954", "none"),
            ("0378-59555", "none"),
            ("ISSN", "none"),
        ] {
            assert_eq!(issn(text), wanted, "{text}");
        }
        let lccn = |text| lccn(text).unwrap_or_else(|| "none".into());
        for (text, wanted) in [
            ("n78-890351", "n78890351"),
            ("n78-89035", "n78089035"),
            ("n 78890351 ", "n78890351"),
            (" 85000002 ", "85000002"),
            ("85-2 ", "85000002"),
            ("2001-000002", "2001000002"),
            ("75-425165//r75", "75425165"),
            (" 79139101 /AC/r932", "79139101"),
            ("unk84012345", "unk84012345"),
            ("85-1234567", "none"),
            ("85-12-3", "none"),
            ("85-é", "none"),
            ("nothing", "none"),
            ("", "none"),
        ] {
            assert_eq!(lccn(text), wanted, "{text}");
        }
    }

    /// Returns the check digit of an ISBN-10 or ISSN.
    fn last_of_eleven(first: &str) -> char {
        "0123456789X".chars().find(|last| divides_by_eleven(&format!("{first}{last}"))).expect("one of eleven")
    }

    /// Inserts hyphens and spaces into a number.
    fn written(digits: &str, breaks: &[u8]) -> String {
        let between = |position: usize| ["", "", "-", " "][usize::from(breaks[position % breaks.len()]) % 4];
        digits
            .chars()
            .enumerate()
            .map(|(position, digit)| format!("{digit}{}", if position + 1 == digits.len() { "" } else { between(position) }))
            .collect()
    }

    proptest! {
        #[test]
        fn isbns_are_found_and_a_wrong_check_digit_is_not(nine in "[0-9]{9}", breaks in prop::collection::vec(any::<u8>(), 1..8), wrong in 1u32..10) {
            let ten = format!("{nine}{}", last_of_eleven(&nine));
            let found = isbn(&written(&ten, &breaks));
            prop_assert_eq!(found.as_deref().map(|found| found[..12].to_owned()), Some(format!("978{nine}")));
            let found = found.expect("valid");
            prop_assert_eq!(isbn(&written(&found, &breaks)), Some(found.clone()));
            prop_assert_eq!(isbn(&format!("{} (2. ed.)", written(&found, &breaks))), Some(found.clone()));
            // the sum that defines the check digit
            let sum: u32 = values(&found).enumerate().map(|(position, digit)| if position % 2 == 0 { digit } else { 3 * digit }).sum();
            prop_assert_eq!(sum % 10, 0);
            let last = values(&found).next_back().expect("a digit");
            prop_assert_eq!(isbn(&format!("{}{}", &found[..12], (last + wrong) % 10)), None);
        }

        #[test]
        fn one_wrong_digit_is_found(nine in "[0-9]{9}", position in 0usize..9, wrong in 1u32..10) {
            let changed = |digits: &str| -> String {
                let wrong_digit = |digit: char| char::from_digit((digit.to_digit(10).unwrap_or(0) + wrong) % 10, 10).expect("a digit");
                digits.chars().enumerate().map(|(index, digit)| if index == position { wrong_digit(digit) } else { digit }).collect()
            };
            let ten = format!("{nine}{}", last_of_eleven(&nine));
            prop_assert_eq!(isbn(&changed(&ten)), None);
            let eight = format!("{}{}", &nine[..7], last_of_eleven(&nine[..7]));
            prop_assert_eq!(issn(&changed(&eight)).is_none(), position < 8);
        }

        #[test]
        fn issns_are_found_however_they_are_written(seven in "[0-9]{7}", breaks in prop::collection::vec(any::<u8>(), 1..8)) {
            let eight = format!("{seven}{}", last_of_eleven(&seven));
            let found = issn(&written(&eight, &breaks)).expect("valid");
            prop_assert_eq!(found.replace('-', ""), eight);
            prop_assert_eq!(issn(&found), Some(found.clone()));
            prop_assert_eq!(issn(&found.to_lowercase()), Some(found));
        }

        #[test]
        fn lccns_are_normalised_once(letters in "[a-z]{0,2}", year in "[0-9]{2}|[0-9]{4}", serial in 0u32..1_000_000, rest in "(/.*)?") {
            let found = lccn(&format!(" {letters} {year}-{serial}{rest}")).expect("valid");
            prop_assert_eq!(&found, &format!("{letters}{year}{serial:06}"));
            prop_assert_eq!(lccn(&found), Some(found.clone()));
        }

        #[test]
        fn any_text_gives_ascii_or_nothing(text in any::<String>()) {
            for found in [isbn(&text), issn(&text), lccn(&text)].into_iter().flatten() {
                prop_assert!(found.is_ascii());
            }
        }
    }
}
