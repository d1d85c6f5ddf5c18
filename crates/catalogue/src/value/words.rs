//! Words of texts, for full text search: how texts are cut into words, in which form stores keep them, and how a search compares them.
//!
//! Words are cut here and not by databases, so that all stores find the same. Words follow Unicode's rules for boundaries (UAX #29), and consist of
//! letters, digits and the marks on them: `l'amour` is `l` and `amour`, each ideograph is a word. They are compared in lower case, with compatible
//! characters made equal (NFKC) and without accents.
//!
//! A store keeps the words of a value as one text in which each word has a space before it and one after it, and a line feed stands between the
//! elements of a list: `␣the␣␣sea␣⏎␣tides␣`. A word, a beginning of a word and a phrase occur in a value if and only if this text contains another
//! text ([`Term::needle`]). So every database can decide it, and count it.

use super::Value;
use std::fmt;
use std::ops::Range;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Maximum number of words of a value that are kept; those after them are not found.
pub const MAX_WORDS: usize = 10_000;

/// Maximum length of a word in bytes; longer ones are cut, in values and in searches.
pub const MAX_WORD_BYTES: usize = 64;

/// Maximum number of words of a search.
pub const MAX_SEARCHED_WORDS: usize = 32;

/// The rank of a record that contains a word so often, in so short a text, that it could not be higher.
pub const MAX_RANK: i64 = 1_000_000;

/// A word in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// In the form that is compared.
    pub folded: String,
    /// Where it stands in the text, in bytes.
    pub place: Range<usize>,
}

/// The words of a text in their order.
pub fn words_of(text: &str) -> impl Iterator<Item = Word> + '_ {
    // boundaries of Unicode leave apostrophes and full stops inside of words
    text.unicode_word_indices().flat_map(|(start, segment)| runs(segment).map(move |run| start + run.start..start + run.end)).filter_map(|place| {
        let folded = folded_word(&text[place.clone()]);
        (!folded.is_empty()).then_some(Word { folded, place })
    })
}

/// The runs of letters and digits, with the marks after them.
fn runs(segment: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut characters = segment.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = characters.find(|(_, character)| character.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        while let Some((at, character)) = characters.next_if(|(_, character)| character.is_alphanumeric() || is_combining_mark(*character)) {
            end = at + character.len_utf8();
        }
        Some(start..end)
    })
}

/// A word in the form that is compared.
fn folded_word(word: &str) -> String {
    let mut folded: String = if word.is_ascii() {
        word.to_ascii_lowercase()
    } else {
        // upper case of some letters has marks that the lower case does not have
        let lowered = word.nfkd().flat_map(char::to_lowercase).nfkd();
        lowered
            .filter(|character| !is_accent(*character))
            .nfkc()
            .filter(|character| character.is_alphanumeric() || is_combining_mark(*character))
            .collect()
    };
    if folded.len() > MAX_WORD_BYTES {
        let end = (0..=MAX_WORD_BYTES).rev().find(|at| folded.is_char_boundary(*at)).unwrap_or(0);
        folded.truncate(end);
    }
    folded
}

/// Whether a mark is an accent, or a vowel point that is often left out, so that words with it and without it are the same. Marks that make another
/// letter, as in Indic scripts and Japanese, are none.
fn is_accent(character: char) -> bool {
    matches!(character, '\u{300}'..='\u{36f}' | '\u{483}'..='\u{487}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}'
        | '\u{670}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}

/// The words of a text or a list of texts as stores keep them; `None` if there are none.
pub fn kept_words(value: &Value) -> Option<String> {
    let (mut kept, mut count) = (String::new(), 0);
    for (position, text) in value.elements().iter().filter_map(Value::as_text).enumerate() {
        if position > 0 && !kept.is_empty() && !kept.ends_with('\n') {
            kept.push('\n');
        }
        for word in words_of(text).take(MAX_WORDS - count) {
            kept.extend([" ", &word.folded, " "]);
            count += 1;
        }
    }
    kept.truncate(kept.trim_end_matches('\n').len());
    (count > 0).then_some(kept)
}

/// A part of a search: a word, or a phrase, which is words that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    words: Vec<String>,
    is_prefix: bool,
    /// As it was written: words that are cut again may be cut differently.
    written: String,
}

impl Term {
    /// The words, each of which occurs where the term does.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Whether only the beginning of the last word is given.
    pub fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// The text that a value's kept words contain as often as the term occurs.
    pub fn needle(&self) -> String {
        let mut needle: String = self.words.iter().flat_map(|word| [" ", word, " "]).collect();
        if self.is_prefix {
            needle.pop();
        }
        needle
    }

    /// Whether the words of a text from `first` on are those of the term.
    fn begins_at(&self, words: &[Word], first: usize) -> bool {
        let Some(found) = words.get(first..first + self.words.len()) else { return false };
        let last = self.words.len() - 1;
        found.iter().zip(&self.words).enumerate().all(|(position, (found, wanted))| match self.is_prefix && position == last {
            true => found.folded.starts_with(wanted.as_str()),
            false => found.folded == *wanted,
        })
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (quote, star) = (if self.written.contains(char::is_whitespace) { "\"" } else { "" }, if self.is_prefix { "*" } else { "" });
        write!(f, "{quote}{}{quote}{star}", self.written)
    }
}

/// Words that are searched for; all must occur.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordSearch {
    terms: Vec<Term>,
}

/// Why a text is no search.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WordSearchError {
    /// There is no word in it.
    #[error("there is no word to search for")]
    NoWord,
    /// There are too many words in it.
    #[error("a search has at most {MAX_SEARCHED_WORDS} words, this one has {0}")]
    TooManyWords(usize),
    /// A star does not follow the beginning of a word.
    #[error("`*` stands directly after the beginning of a word")]
    Star,
    /// A quote is not closed.
    #[error("the quote that begins the phrase is never closed")]
    OpenPhrase,
}

impl WordSearch {
    /// Reads a search: words separated by white space, phrases in double quotes, a star after the beginning of a word. Punctuation is ignored, and words
    /// that it joins, as in `well-known`, are a phrase.
    ///
    /// # Errors
    /// When there are no words, or too many, or a star or a quote is misplaced.
    pub fn parse(text: &str) -> Result<Self, WordSearchError> {
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (written, after) = match rest.strip_prefix('"') {
                Some(phrase) => phrase.split_once('"').ok_or(WordSearchError::OpenPhrase)?,
                None => rest.split_at(rest.find(|character: char| character.is_whitespace() || matches!(character, '"' | '*')).unwrap_or(rest.len())),
            };
            let (is_prefix, after) = after.strip_prefix('*').map_or((false, after), |after| (true, after));
            let words: Vec<String> = words_of(written).map(|word| word.folded).collect();
            let is_end_of_word = written.chars().next_back().is_some_and(|last| last.is_alphanumeric() || is_combining_mark(last));
            let continues = after.chars().next().is_some_and(|next| next.is_alphanumeric() || next == '*');
            if written.contains('*') || (is_prefix && (continues || words.is_empty() || !is_end_of_word)) {
                return Err(WordSearchError::Star);
            }
            if !words.is_empty() {
                terms.push(Term { words, is_prefix, written: written.to_owned() });
            }
            rest = after.trim_start();
        }
        match terms.iter().map(|term| term.words.len()).sum() {
            0 => Err(WordSearchError::NoWord),
            count if count > MAX_SEARCHED_WORDS => Err(WordSearchError::TooManyWords(count)),
            _ => Ok(Self { terms }),
        }
    }

    /// What must occur.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// Each term as a search of its own.
    pub fn single_terms(&self) -> impl Iterator<Item = Self> + '_ {
        self.terms.iter().map(|term| Self { terms: vec![term.clone()] })
    }

    /// All terms of several searches, for [`WordSearch::pieces`].
    pub fn of_all<'s>(searches: impl Iterator<Item = &'s Self>) -> Self {
        Self { terms: searches.flat_map(|search| search.terms.iter().cloned()).collect() }
    }

    /// Whether all terms occur in the kept words of a value.
    pub fn holds(&self, kept: &str) -> bool {
        self.terms.iter().all(|term| kept.contains(&term.needle()))
    }

    /// The rank of a value that has these kept words: for each term with `t` occurrences among `n` words, [`MAX_RANK`] · 10 t / (10 t + 10 + n), rounded
    /// down. More occurrences in fewer words are a higher rank. It depends on nothing else in the store, so all stores agree, and it does not change
    /// when other records do.
    pub fn rank(&self, kept: &str) -> i64 {
        let words = kept.matches(' ').count() as i64 / 2;
        let rank = |term: &Term| {
            let found = kept.matches(&term.needle()).count() as i64;
            MAX_RANK * 10 * found / (10 * found + 10 + words)
        };
        self.terms.iter().map(rank).sum()
    }

    /// Where terms occur in a text, in bytes, without overlaps.
    pub fn places_in(&self, text: &str) -> Vec<Range<usize>> {
        let words: Vec<Word> = words_of(text).take(MAX_WORDS).collect();
        let mut places: Vec<Range<usize>> = Vec::new();
        for first in 0..words.len() {
            let lengths = self.terms.iter().filter(|term| term.begins_at(&words, first)).map(|term| term.words.len());
            let Some(length) = lengths.max() else { continue };
            let place = words[first].place.start..words[first + length - 1].place.end;
            match places.last_mut().filter(|last| last.end > place.start) {
                Some(last) => last.end = last.end.max(place.end),
                None => places.push(place),
            }
        }
        places
    }

    /// A text cut where terms begin and end: pieces at odd positions are what was found. `None` if nothing was.
    pub fn pieces<'t>(&self, text: &'t str) -> Option<Vec<&'t str>> {
        let places = self.places_in(text);
        let mut pieces = Vec::with_capacity(2 * places.len() + 1);
        let mut end = 0;
        for place in &places {
            pieces.extend([&text[end..place.start], &text[place.clone()]]);
            end = place.end;
        }
        pieces.push(&text[end..]);
        (!places.is_empty()).then_some(pieces)
    }

    /// The part of a text around the first place where terms occur, of about `length` characters, with `…` for what is left out.
    pub fn excerpt(&self, text: &str, length: usize) -> Option<String> {
        let first = self.places_in(text).into_iter().next()?;
        let from = text[..first.start].char_indices().rev().nth(length / 3).map_or(0, |(at, _)| at);
        // begins with a whole word
        let from = if from == 0 { 0 } else { text[from..first.start].find(char::is_whitespace).map_or(first.start, |space| from + space) };
        let rest = text[from..].trim_start();
        let until = rest.char_indices().nth(length).map_or(rest.len(), |(at, _)| at);
        let until = if until == rest.len() { until } else { rest[..until].rfind(char::is_whitespace).filter(|space| *space > 0).unwrap_or(until) };
        let (before, after) = (if from > 0 { "… " } else { "" }, if until < rest.len() { " …" } else { "" });
        Some(format!("{before}{}{after}", rest[..until].trim_end()))
    }
}

impl fmt::Display for WordSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, term) in self.terms.iter().enumerate() {
            write!(f, "{}{term}", if position > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}
