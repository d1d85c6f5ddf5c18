//! How texts are cut into words, and what a search finds in them.

use proptest::prelude::*;
use stook_catalogue::value::Value;
use stook_catalogue::words::{MAX_RANK, MAX_WORD_BYTES, MAX_WORDS, Term, Word, WordSearch, WordSearchError, kept_words, words_of};
use unicode_normalization::char::is_combining_mark;

fn cut(text: &str) -> Vec<String> {
    words_of(text).map(|word| word.folded).collect()
}

fn search(text: &str) -> WordSearch {
    WordSearch::parse(text).expect("a search")
}

fn found(text: &str, value: &str) -> bool {
    kept_words(&Value::text(value)).is_some_and(|kept| search(text).holds(&kept))
}

#[test]
fn words_are_letters_and_digits_without_accents() {
    for (text, words) in [
        ("The Sea", "the sea"),
        ("  l'amour, toujours… ", "l amour toujours"),
        ("ISBN 978-0-306", "isbn 978 0 306"),
        ("ÉCLAIRS E\u{301}clairs éclairs", "eclairs eclairs eclairs"),
        ("Dvořák İstanbul ﬁne Ａ", "dvorak istanbul fine a"),
        ("don't U.S.A. 3.14 snake_case", "don t u s a 3 14 snake case"),
        ("海の歌", "海 の 歌"),
        ("カタカナ が", "カタカナ が"),
        ("हिन्दी", "हिन्दी"),
        ("שָׁלוֹם", "שלום"),
        ("Straße ёлка", "straße елка"),
        ("—…!", ""),
    ] {
        assert_eq!(cut(text).join(" "), words, "{text}");
    }
}

#[test]
fn words_and_values_have_limits() {
    assert_eq!(cut(&"é".repeat(1_000)).concat().len(), MAX_WORD_BYTES);
    assert_eq!(cut(&"海".repeat(5)).len(), 5);
    let kept = kept_words(&Value::text("word ".repeat(MAX_WORDS + 5))).expect("words");
    assert_eq!(kept.matches("word").count(), MAX_WORDS);
    assert!(found(&"x".repeat(100), &"x".repeat(100)));
}

#[test]
fn kept_words_of_elements_do_not_follow_each_other() {
    let list = Value::List(["", "The Sea", "…", "at Night", "—"].map(Value::text).to_vec());
    let kept = kept_words(&list).expect("words");
    assert_eq!(kept, " the  sea \n at  night ");
    assert!(search("sea night \"the sea\" \"at nig\"*").holds(&kept));
    assert!(!search("\"sea at\"").holds(&kept));
    assert_eq!(kept_words(&Value::Null), None);
    assert_eq!(kept_words(&Value::text("…")), None);
}

#[test]
fn searches_are_read() {
    for (text, shown) in [
        ("deep Sea", "deep Sea"),
        ("tid* \"the deep sea\"", "tid* \"the deep sea\""),
        ("well-known", "well-known"),
        ("\"the deep\"* , x", "\"the deep\"* x"),
        ("sea\"at night\"", "sea \"at night\""),
        ("C++", "C++"),
    ] {
        assert_eq!(search(text).to_string(), shown, "{text}");
    }
    for text in ["น้ำ", "ﬁne", "well-known*", "\"a  b\"*"] {
        assert_eq!(search(&search(text).to_string()), search(text), "{text}");
        assert!(found(text.trim_end_matches('*'), text), "{text}");
    }
    for (text, error) in [
        ("", WordSearchError::NoWord),
        (" … ", WordSearchError::NoWord),
        ("*sea", WordSearchError::Star),
        ("s*a", WordSearchError::Star),
        ("sea **", WordSearchError::Star),
        ("sea -*", WordSearchError::Star),
        ("\"a* b\"", WordSearchError::Star),
        ("\"deep", WordSearchError::OpenPhrase),
        (&"a ".repeat(33), WordSearchError::TooManyWords(33)),
    ] {
        assert_eq!(WordSearch::parse(text), Err(error), "{text}");
    }
}

#[test]
fn ranks_prefer_more_occurrences_in_fewer_words() {
    let rank = |text: &str, value: &str| search(text).rank(&kept_words(&Value::text(value)).expect("words"));
    assert_eq!(rank("sea", "The Sea"), 10_000_000 / 22);
    assert!(rank("sea", "The Sea") > rank("sea", "The Sea at Night"));
    assert!(rank("sea", "sea, sea, sea and land") > rank("sea", "the sea and the land"));
    assert_eq!(rank("the sea", "The Sea"), 2 * rank("sea", "The Sea"));
    assert_eq!(rank("sea", "Land"), 0);
    assert!(rank("sea", &"sea ".repeat(9_000)) < MAX_RANK);
}

#[test]
fn places_are_those_of_the_original_text() {
    let text = "Die ÉCLAIRS: well-known éclairs";
    let shown: Vec<&str> = search("eclair* \"well known\" known").places_in(text).into_iter().map(|place| &text[place]).collect();
    assert_eq!(shown, ["ÉCLAIRS", "well-known", "éclairs"]);
    assert!(search("x").places_in(text).is_empty());
}

#[test]
fn excerpts_are_around_what_was_found() {
    let long = format!("{} the deep Sea {}", "before ".repeat(40).trim(), "after ".repeat(40).trim());
    let excerpt = search("sea").excerpt(&long, 60).expect("it is found");
    assert_eq!(excerpt, "… before the deep Sea after after after after after after …");
    assert_eq!(search("sea").excerpt("The Sea", 60).as_deref(), Some("The Sea"));
    assert_eq!(search("sea").excerpt("The Land", 60), None);
    let one_word = format!("{}é", "x".repeat(500));
    assert!(search("x*").excerpt(&one_word, 60).expect("it is found").chars().count() < 70);
    assert_eq!(search("sea").pieces("a sea, sea"), Some(vec!["a ", "sea", ", ", "sea", ""]));
    assert_eq!(search("sea").pieces("land"), None);
}

/// Whether the first of these words are those of a term.
fn begins_at(term: &Term, words: &[Word]) -> bool {
    let (last, whole) = term.words().split_last().expect("a word");
    let is_last = |word: &Word| if term.is_prefix() { word.folded.starts_with(last) } else { word.folded == *last };
    words.len() > whole.len() && whole.iter().zip(words).all(|(wanted, word)| word.folded == *wanted) && is_last(&words[whole.len()])
}

proptest! {
    #[test]
    fn words_of_words_are_the_same(text in "\\PC{0,24}") {
        let words = cut(&text);
        for word in &words {
            prop_assert_eq!(cut(word).concat(), word.clone(), "{:?}", text);
            prop_assert!(!word.is_empty() && word.len() <= MAX_WORD_BYTES && word.chars().all(|c| c.is_alphanumeric() || is_combining_mark(c)));
        }
    }

    #[test]
    fn a_value_is_found_by_what_is_marked_in_it(text in "[abÉ ',-]{0,16}", wanted in "[abe]{1,2}[*]?( [ab]{1,2})?( \"[abe] [ab]\")?") {
        let search = search(&wanted);
        let words: Vec<Word> = words_of(&text).collect();
        let occurs = |term: &Term| (0..words.len()).any(|first| begins_at(term, &words[first..]));
        let kept = kept_words(&Value::text(text.as_str())).unwrap_or_default();
        prop_assert_eq!(search.holds(&kept), search.terms().iter().all(occurs));
        prop_assert_eq!(search.places_in(&text).is_empty(), !search.terms().iter().any(occurs));
        prop_assert_eq!(search.rank(&kept) > 0, search.terms().iter().any(occurs));
    }
}
