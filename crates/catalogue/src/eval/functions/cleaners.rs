//! Functions from one text to one text, which `clean:` in a definition and expressions use under the same names.

use super::EvalError;
use super::identifiers::{isbn, issn, lccn};
use super::text::{collect_limited, limited};
use crate::value::fold::{fold, squash};
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The cleaned text; `None` if nothing is left.
type Cleaned<'t> = Result<Option<Cow<'t, str>>, EvalError>;

/// A function from one text to one text.
#[derive(Debug)]
pub struct Cleaner {
    /// Its name, the same in `clean:` and in expressions.
    pub name: &'static str,
    clean: for<'t> fn(&'t str) -> Cleaned<'t>,
}

/// All cleaners. [`super::FUNCTIONS`] says what they do.
pub static CLEANERS: [Cleaner; 12] = [
    Cleaner { name: "squash", clean: |text| Ok(Some(Cow::Owned(squash(text)))) },
    Cleaner { name: "trim", clean: |text| Ok(Some(Cow::Borrowed(text.trim()))) },
    Cleaner { name: "isbd", clean: |text| Ok(Some(Cow::Borrowed(isbd(text)))) },
    Cleaner { name: "lower", clean: |text| owned(limited(text.to_lowercase())) },
    Cleaner { name: "upper", clean: |text| owned(limited(text.to_uppercase())) },
    Cleaner { name: "strip_marks", clean: |text| owned(collect_limited(text.nfd().filter(|character| !is_combining_mark(*character)).nfc())) },
    Cleaner { name: "nfc", clean: |text| owned(collect_limited(text.nfc())) },
    Cleaner { name: "digits", clean: |text| Ok(digits(text).map(Cow::Owned)) },
    Cleaner { name: "isbn", clean: |text| Ok(isbn(text).map(Cow::Owned)) },
    Cleaner { name: "issn", clean: |text| Ok(issn(text).map(Cow::Owned)) },
    Cleaner { name: "lccn", clean: |text| Ok(lccn(text).map(Cow::Owned)) },
    Cleaner { name: "fold", clean: |text| owned(limited(fold(text))) },
];

impl Cleaner {
    /// Returns the cleaner of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        CLEANERS.iter().find(|cleaner| cleaner.name == name)
    }

    /// Cleans a text.
    ///
    /// # Errors
    /// When it becomes too long.
    pub fn clean<'t>(&self, text: &'t str) -> Cleaned<'t> {
        (self.clean)(text)
    }
}

fn owned<'t>(text: Result<String, EvalError>) -> Cleaned<'t> {
    text.map(|text| Some(Cow::Owned(text)))
}

fn digits(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    Some(digits).filter(|digits| !digits.is_empty())
}

/// Abbreviations of more than two letters that keep their full stop, in lower case.
pub const ABBREVIATIONS: [&str; 20] = [
    "assn", "bros", "corp", "dept", "eds", "etc", "hrsg", "ill", "inc", "jnr", "ltd", "nos", "pts", "rev", "ser", "snr", "suppl", "univ", "vol",
    "vols",
];

/// Removes the punctuation of ISBD at the end of a text, see docs/definition.md.
fn isbd(text: &str) -> &str {
    let mut rest = text.trim_end();
    while let Some(last) = rest.chars().next_back() {
        let before = &rest[..rest.len() - last.len_utf8()];
        let is_punctuation = match last {
            ',' => true,
            '/' | ':' | ';' | '=' => before.is_empty() || before.ends_with(char::is_whitespace),
            '.' => !belongs_to_abbreviation(before),
            _ => false,
        };
        if !is_punctuation {
            break;
        }
        rest = before.trim_end();
    }
    rest
}

/// Whether a final full stop belongs to the word before it (an initial or an abbreviation), or to an ellipsis.
fn belongs_to_abbreviation(before: &str) -> bool {
    let is_of_a_word = |character: char| character.is_alphabetic() || is_combining_mark(character);
    let before_word = before.trim_end_matches(is_of_a_word);
    let word = &before[before_word.len()..];
    let letters = word.chars().filter(|character| !is_combining_mark(*character)).count();
    match before_word.chars().next_back() {
        // `...` and `U.S.A.`
        Some('.') => true,
        // `3rd.`
        Some(character) if character.is_numeric() => false,
        _ => matches!(letters, 1 | 2) || ABBREVIATIONS.contains(&word.to_lowercase().as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CallForm, FUNCTIONS};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_cleaner_is_a_function_of_one_text() {
        for cleaner in &CLEANERS {
            let function = FUNCTIONS.iter().find(|function| function.name == cleaner.name).expect("a function");
            let signature_of_one_text = format!("{}(text) -> text", cleaner.name);
            assert_eq!(function.form, CallForm::Global);
            assert!(function.signatures.iter().any(|signature| signature.trim_end_matches('?') == signature_of_one_text), "{}", cleaner.name);
        }
    }

    #[test]
    fn isbd_removes_its_punctuation_and_keeps_that_of_words() {
        for (text, wanted) in [
            ("The sea /", "The sea"),
            ("Paris :", "Paris"),
            ("Paris ; ", "Paris"),
            ("Title =", "Title"),
            ("Smith, John,", "Smith, John"),
            ("A title. /", "A title"),
            ("A title.", "A title"),
            ("A title ,.", "A title"),
            ("c1990.", "c1990"),
            ("[S.l.] :", "[S.l.]"),
            ("Smith, J.", "Smith, J."),
            ("Smith, J., ", "Smith, J."),
            ("Lwów, É.", "Lwów, É."),
            ("U.S.A.", "U.S.A."),
            ("Wiley & Co.,", "Wiley & Co."),
            ("Macmillan Publ. Inc.", "Macmillan Publ. Inc."),
            ("2nd ed. /", "2nd ed."),
            ("The 3rd.", "The 3rd"),
            ("and so on ...", "and so on ..."),
            ("either/or", "either/or"),
            ("http:", "http:"),
            ("a/", "a/"),
            (" /", ""),
            (" : ; , .", ""),
            (".", ""),
            ("", ""),
            ("  Title", "  Title"),
        ] {
            assert_eq!(isbd(text), wanted, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn isbd_is_a_beginning_of_the_text_and_twice_is_once(text in "[a-zÉ\u{301}0-9 ./:;=,\\[\\]-]{0,16}") {
            let once = isbd(&text);
            prop_assert!(text.starts_with(once));
            prop_assert_eq!(isbd(once), once);
            // only punctuation and white space are removed
            prop_assert!(text[once.len()..].chars().all(|character| character.is_whitespace() || ",.:;/=".contains(character)));
            prop_assert!(!once.ends_with([',', ' ']));
        }
    }
}
