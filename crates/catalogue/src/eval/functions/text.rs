//! Functions that make texts from texts, and the limits on the size of texts and lists.

use super::cleaners::Cleaner;
use super::{EvalError, EvalResult, failed, unfit};
use crate::eval::convert::{CelValue as Cel, text_to_cel};
use std::sync::Arc;

/// Max bytes of a text that an expression makes. Parts of a text, and values of fields, may be longer.
pub(crate) const MAX_TEXT_BYTES: usize = 1 << 20;

/// Max elements of a list that `+` or `flatten` makes.
pub(crate) const MAX_LIST_ELEMENTS: usize = 1_000_000;

fn too_long() -> EvalError {
    failed("the text is longer than 1 MiB")
}

pub(crate) fn too_many() -> EvalError {
    failed(format!("the list has more than {MAX_LIST_ELEMENTS} elements"))
}

/// Makes a value of a text, if it is not too long.
pub(crate) fn text_value(text: String) -> EvalResult {
    limited(text).map(|text| Cel::String(Arc::new(text)))
}

/// Returns a text, if it is not too long.
pub(super) fn limited(text: String) -> Result<String, EvalError> {
    if text.len() > MAX_TEXT_BYTES { Err(too_long()) } else { Ok(text) }
}

/// Joins pieces. Stops as soon as the text is too long.
pub(crate) fn join_limited<'p>(pieces: impl IntoIterator<Item = &'p str>, separator: &str) -> EvalResult {
    let mut text = String::new();
    for (index, piece) in pieces.into_iter().enumerate() {
        let separator = if index == 0 { "" } else { separator };
        if text.len() + separator.len() + piece.len() > MAX_TEXT_BYTES {
            return Err(too_long());
        }
        text.push_str(separator);
        text.push_str(piece);
    }
    text_value(text)
}

/// Collects characters. Stops as soon as the text is too long.
pub(super) fn collect_limited(characters: impl Iterator<Item = char>) -> Result<String, EvalError> {
    let mut text = String::new();
    for character in characters {
        if text.len() + character.len_utf8() > MAX_TEXT_BYTES {
            return Err(too_long());
        }
        text.push(character);
    }
    limited(text)
}

/// Calls a function of this module; `None` for other functions and arguments.
pub(super) fn call(name: &str, args: &[Cel]) -> Option<EvalResult> {
    if let [Cel::String(text)] = args
        && let Some(cleaner) = Cleaner::named(name)
    {
        return Some(cleaner.clean(text).map(|text| text.map_or(Cel::Null, |text| Cel::String(Arc::new(text.into_owned())))));
    }
    Some(match (name, args) {
        ("squash", [Cel::List(items)]) => {
            let texts = items.iter().filter_map(|item| if let Cel::String(text) = item { Some(text.split_whitespace()) } else { None });
            join_limited(texts.flatten(), " ")
        }
        ("trim", [Cel::String(text), Cel::String(ends)]) => Ok(text_to_cel(text.trim_matches(|character| ends.contains(character)))),
        ("replace", [Cel::String(text), Cel::String(from), Cel::String(to)]) => replace(text, from, to),
        ("split", [Cel::String(text), Cel::String(separators)]) => {
            let pieces = text.split(|character| separators.contains(character)).filter(|piece| !piece.is_empty());
            Ok(Cel::List(Arc::new(pieces.map(text_to_cel).collect())))
        }
        ("join", [Cel::List(items), Cel::String(separator)]) => join(items, separator),
        ("quoted", [Cel::String(text)]) => text_value(quoted(text)),
        ("quoted", [Cel::List(items)]) => quoted_list(items),
        ("flatten", [Cel::List(lists)]) => flatten(lists),
        _ => return None,
    })
}

/// Replaces every `from` in a text; an empty `from` does not occur.
fn replace(text: &str, from: &str, to: &str) -> EvalResult {
    if from.is_empty() || !text.contains(from) {
        return Ok(text_to_cel(text));
    }
    join_limited(text.split(from), to)
}

/// Joins the texts of a list; null elements are left out.
fn join(items: &[Cel], separator: &str) -> EvalResult {
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        match item {
            Cel::String(text) => texts.push(text.as_str()),
            Cel::Null => {}
            other => return Err(unfit("join", std::slice::from_ref(other))),
        }
    }
    join_limited(texts, separator)
}

/// A text as a value in double quotes, as the query language writes it.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\' | '*') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

/// The texts of a list as a list of the query language.
fn quoted_list(items: &[Cel]) -> EvalResult {
    let texts = items.iter().map(|item| match item {
        Cel::String(text) => Ok(quoted(text)),
        other => Err(unfit("quoted", std::slice::from_ref(other))),
    });
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    join_limited(["[", &texts.join(", "), "]"], "")
}

/// Concatenates the lists in a list; null lists are left out.
fn flatten(lists: &[Cel]) -> EvalResult {
    let mut all = Vec::new();
    for list in lists {
        match list {
            Cel::List(items) if all.len() + items.len() > MAX_LIST_ELEMENTS => return Err(too_many()),
            Cel::List(items) => all.extend(items.iter().cloned()),
            Cel::Null => {}
            other => return Err(unfit("flatten", std::slice::from_ref(other))),
        }
    }
    Ok(Cel::List(Arc::new(all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text_of(name: &str, args: &[&str]) -> String {
        let args: Vec<Cel> = args.iter().map(|text| text_to_cel(text)).collect();
        match call(name, &args) {
            Some(Ok(Cel::String(text))) => text.to_string(),
            other => panic!("{name} of {args:?} is {other:?}"),
        }
    }

    fn list_of(texts: &[String]) -> Cel {
        Cel::List(Arc::new(texts.iter().map(|text| text_to_cel(text)).collect()))
    }

    proptest! {
        #[test]
        fn applying_a_cleaner_again_changes_nothing(text in any::<String>()) {
            for name in ["lower", "upper", "strip_marks", "nfc", "fold", "squash", "trim", "isbd"] {
                let once = text_of(name, &[&text]);
                prop_assert_eq!(text_of(name, &[&once]), once, "{}", name);
            }
        }

        #[test]
        fn strip_marks_removes_only_the_marks(letters in "[a-zA-Z0-9 ]{0,12}", marks in "[\u{300}-\u{36f}]{1,4}") {
            let marked: String = letters.chars().map(|letter| format!("{letter}{marks}")).collect();
            prop_assert_eq!(text_of("strip_marks", &[&marked]), letters.clone());
            prop_assert_eq!(text_of("strip_marks", &[&text_of("nfc", &[&marked])]), letters);
        }

        #[test]
        fn split_reverses_join(pieces in prop::collection::vec("[^;|]{1,6}", 0..6), separator in "[;|]{1,3}") {
            let Some(Ok(texts)) = call("join", &[list_of(&pieces), text_to_cel(&separator)]) else { panic!("no text") };
            prop_assert_eq!(call("split", &[texts, text_to_cel("|;")]), Some(Ok(list_of(&pieces))));
        }

        #[test]
        fn flatten_is_the_lists_one_after_the_other(lists in prop::collection::vec(prop::collection::vec("[a-z]{0,2}", 0..4), 0..4)) {
            let given = Cel::List(Arc::new(lists.iter().map(|list| list_of(list)).chain([Cel::Null]).collect()));
            prop_assert_eq!(call("flatten", &[given]), Some(Ok(list_of(&lists.concat()))));
        }

        #[test]
        fn replace_replaces_every_occurrence(text in "[ab]{0,12}", from in "[ab]{1,2}") {
            prop_assert_eq!(text_of("replace", &[&text, &from, "-"]), text.replace(&from, "-"));
            prop_assert_eq!(text_of("replace", &[&text, "", &from]), text);
        }
    }

    #[test]
    fn applying_a_cleaner_again_changes_no_character() {
        let all = ('\0'..=char::MAX).filter(|character| !character.is_ascii_control());
        let text: String = all.flat_map(|character| [character, '\n']).collect();
        // in parts, because the entire text exceeds the max length
        for part in text.lines().collect::<Vec<_>>().chunks(10_000) {
            let part = part.join("\n");
            for name in ["lower", "upper", "strip_marks", "nfc"] {
                let once = text_of(name, &[&part]);
                assert!(text_of(name, &[&once]) == once, "{name} of a character after {:?}", part.chars().next());
            }
        }
    }

    #[test]
    fn no_text_becomes_longer_than_the_limit() {
        let text = |length: usize| text_to_cel(&"a".repeat(length));
        let outcome = |found: Option<EvalResult>| match found {
            Some(Ok(Cel::String(text))) => Ok(text.len()),
            Some(Err(EvalError::Runtime(message))) => Err(message),
            other => panic!("{other:?}"),
        };
        let refused = Err("the text is longer than 1 MiB".to_owned());
        let half = MAX_TEXT_BYTES / 2;
        let list = |count: usize| Cel::List(Arc::new(vec![text(half); count]));
        assert_eq!(outcome(call("join", &[list(2), text(0)])), Ok(MAX_TEXT_BYTES));
        assert_eq!(outcome(call("join", &[list(2), text(1)])), refused);
        assert_eq!(outcome(call("squash", &[list(2)])), refused);
        assert_eq!(outcome(call("replace", &[text(half), text(1), text(2)])), Ok(MAX_TEXT_BYTES));
        assert_eq!(outcome(call("replace", &[text(half), text(1), text(3)])), refused);
        assert_eq!(outcome(Some(super::super::add(&text(half), &text(half)))), Ok(MAX_TEXT_BYTES));
        assert_eq!(outcome(Some(super::super::add(&text(half), &text(half + 1)))), refused);
        // each of these characters becomes at least three bytes longer
        let growing = text_to_cel(&"\u{1f52}".repeat(MAX_TEXT_BYTES / 4));
        assert_eq!(outcome(call("upper", &[growing])), refused);
        assert_eq!(outcome(call("nfc", &[text_to_cel(&"\u{1d160}".repeat(MAX_TEXT_BYTES / 8))])), refused);
        // parts of a text are not longer than it
        for name in ["trim", "squash", "digits"] {
            assert_eq!(outcome(call(name, &[text_to_cel(&"1".repeat(2 * MAX_TEXT_BYTES))])), Ok(2 * MAX_TEXT_BYTES));
        }
    }

    #[test]
    fn no_list_becomes_longer_than_the_limit() {
        let list = |length: usize| Cel::List(Arc::new(vec![Cel::Null; length]));
        assert_eq!(super::super::add(&list(MAX_LIST_ELEMENTS - 1), &list(1)), Ok(list(MAX_LIST_ELEMENTS)));
        assert_eq!(super::super::add(&list(MAX_LIST_ELEMENTS), &list(1)), Err(too_many()));
        let lists = Cel::List(Arc::new(vec![Cel::List(Arc::new(vec![Cel::Null; 1_000])); MAX_LIST_ELEMENTS / 1_000 + 1]));
        assert!(matches!(call("flatten", &[lists]), Some(Err(fault)) if fault == too_many()));
    }
}
