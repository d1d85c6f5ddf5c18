//! Functions that make texts from texts, and the limits on the size of texts and lists.

use super::cleaners::Cleaner;
use super::{EvalError, EvalResult, failed, unfit};
use crate::eval::convert::{CelValue as Cel, text_to_cel};
use std::sync::Arc;

/// Max bytes of a text that an expression makes. Parts of a text, and values of fields, may be longer.
pub(crate) const MOST_TEXT: usize = 1 << 20;

/// Max elements of a list that `+` or `flatten` makes.
pub(crate) const MOST_ELEMENTS: usize = 1_000_000;

fn too_long() -> EvalError {
    failed("the text is longer than 1 MiB")
}

pub(crate) fn too_many() -> EvalError {
    failed(format!("the list has more than {MOST_ELEMENTS} elements"))
}

/// Makes a value of a text, if it is not too long.
pub(crate) fn made(text: String) -> EvalResult {
    limited(text).map(|text| Cel::String(Arc::new(text)))
}

/// Returns a text, if it is not too long.
pub(super) fn limited(text: String) -> Result<String, EvalError> {
    if text.len() > MOST_TEXT { Err(too_long()) } else { Ok(text) }
}

/// Joins pieces. Stops as soon as the text is too long.
pub(crate) fn joined<'p>(pieces: impl IntoIterator<Item = &'p str>, separator: &str) -> EvalResult {
    let mut text = String::new();
    for (place, piece) in pieces.into_iter().enumerate() {
        let separator = if place == 0 { "" } else { separator };
        if text.len() + separator.len() + piece.len() > MOST_TEXT {
            return Err(too_long());
        }
        text.push_str(separator);
        text.push_str(piece);
    }
    made(text)
}

/// Collects characters. Stops as soon as the text is too long.
pub(super) fn collected(characters: impl Iterator<Item = char>) -> Result<String, EvalError> {
    let mut text = String::new();
    for character in characters {
        if text.len() + character.len_utf8() > MOST_TEXT {
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
            joined(texts.flatten(), " ")
        }
        ("trim", [Cel::String(text), Cel::String(ends)]) => Ok(text_to_cel(text.trim_matches(|character| ends.contains(character)))),
        ("replace", [Cel::String(text), Cel::String(from), Cel::String(to)]) => replace(text, from, to),
        ("split", [Cel::String(text), Cel::String(separators)]) => {
            let pieces = text.split(|character| separators.contains(character)).filter(|piece| !piece.is_empty());
            Ok(Cel::List(Arc::new(pieces.map(text_to_cel).collect())))
        }
        ("join", [Cel::List(items), Cel::String(separator)]) => join(items, separator),
        ("flatten", [Cel::List(lists)]) => flatten(lists),
        _ => return None,
    })
}

/// Replaces every `from` in a text; an empty `from` does not occur.
fn replace(text: &str, from: &str, to: &str) -> EvalResult {
    if from.is_empty() || !text.contains(from) {
        return Ok(text_to_cel(text));
    }
    joined(text.split(from), to)
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
    joined(texts, separator)
}

/// Concatenates the lists in a list; null lists are left out.
fn flatten(lists: &[Cel]) -> EvalResult {
    let mut all = Vec::new();
    for list in lists {
        match list {
            Cel::List(items) if all.len() + items.len() > MOST_ELEMENTS => return Err(too_many()),
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
        fn twice_is_once(text in any::<String>()) {
            for name in ["lower", "upper", "strip_marks", "nfc", "fold", "squash", "trim", "isbd"] {
                let once = text_of(name, &[&text]);
                prop_assert_eq!(text_of(name, &[&once]), once, "{}", name);
            }
        }

        #[test]
        fn marks_go_and_the_rest_stays(letters in "[a-zA-Z0-9 ]{0,12}", marks in "[\u{300}-\u{36f}]{1,4}") {
            let marked: String = letters.chars().map(|letter| format!("{letter}{marks}")).collect();
            prop_assert_eq!(text_of("strip_marks", &[&marked]), letters.clone());
            prop_assert_eq!(text_of("strip_marks", &[&text_of("nfc", &[&marked])]), letters);
        }

        #[test]
        fn split_takes_apart_what_join_has_put_together(pieces in prop::collection::vec("[^;|]{1,6}", 0..6), separator in "[;|]{1,3}") {
            let Some(Ok(joined)) = call("join", &[list_of(&pieces), text_to_cel(&separator)]) else { panic!("no text") };
            prop_assert_eq!(call("split", &[joined, text_to_cel("|;")]), Some(Ok(list_of(&pieces))));
        }

        #[test]
        fn flatten_is_the_lists_one_after_the_other(lists in prop::collection::vec(prop::collection::vec("[a-z]{0,2}", 0..4), 0..4)) {
            let given = Cel::List(Arc::new(lists.iter().map(|list| list_of(list)).chain([Cel::Null]).collect()));
            prop_assert_eq!(call("flatten", &[given]), Some(Ok(list_of(&lists.concat()))));
        }

        #[test]
        fn what_is_replaced_is_gone(text in "[ab]{0,12}", from in "[ab]{1,2}") {
            prop_assert_eq!(text_of("replace", &[&text, &from, "-"]), text.replace(&from, "-"));
            prop_assert_eq!(text_of("replace", &[&text, "", &from]), text);
        }
    }

    #[test]
    fn twice_is_once_for_every_character() {
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
        let long = |found: Option<EvalResult>| match found {
            Some(Ok(Cel::String(text))) => Ok(text.len()),
            Some(Err(EvalError::Runtime(message))) => Err(message),
            other => panic!("{other:?}"),
        };
        let refused = Err("the text is longer than 1 MiB".to_owned());
        let half = MOST_TEXT / 2;
        let list = |count: usize| Cel::List(Arc::new(vec![text(half); count]));
        assert_eq!(long(call("join", &[list(2), text(0)])), Ok(MOST_TEXT));
        assert_eq!(long(call("join", &[list(2), text(1)])), refused);
        assert_eq!(long(call("squash", &[list(2)])), refused);
        assert_eq!(long(call("replace", &[text(half), text(1), text(2)])), Ok(MOST_TEXT));
        assert_eq!(long(call("replace", &[text(half), text(1), text(3)])), refused);
        assert_eq!(long(Some(super::super::add(&text(half), &text(half)))), Ok(MOST_TEXT));
        assert_eq!(long(Some(super::super::add(&text(half), &text(half + 1)))), refused);
        // each of these characters becomes at least three bytes longer
        let growing = text_to_cel(&"\u{1f52}".repeat(MOST_TEXT / 4));
        assert_eq!(long(call("upper", &[growing])), refused);
        assert_eq!(long(call("nfc", &[text_to_cel(&"\u{1d160}".repeat(MOST_TEXT / 8))])), refused);
        // parts of a text are not longer than it
        for name in ["trim", "squash", "digits"] {
            assert_eq!(long(call(name, &[text_to_cel(&"1".repeat(2 * MOST_TEXT))])), Ok(2 * MOST_TEXT));
        }
    }

    #[test]
    fn no_list_becomes_longer_than_the_limit() {
        let list = |length: usize| Cel::List(Arc::new(vec![Cel::Null; length]));
        assert_eq!(super::super::add(&list(MOST_ELEMENTS - 1), &list(1)), Ok(list(MOST_ELEMENTS)));
        assert_eq!(super::super::add(&list(MOST_ELEMENTS), &list(1)), Err(too_many()));
        let lists = Cel::List(Arc::new(vec![Cel::List(Arc::new(vec![Cel::Null; 1_000])); MOST_ELEMENTS / 1_000 + 1]));
        assert!(matches!(call("flatten", &[lists]), Some(Err(fault)) if fault == too_many()));
    }
}
