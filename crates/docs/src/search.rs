//! Search: finds the sections with the words of a text, best first, each with an excerpt in which the words are marked.

use crate::tree::{Docs, Kind, Page};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// Max words of a search, and max bytes of its text.
const MAX_WORDS: usize = 12;
const MAX_TEXT: usize = 300;
/// Max results.
const MAX_HITS: usize = 30;
/// Bytes of an excerpt.
const PIECE: usize = 220;

/// Where a word occurs.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    /// Whether it is in the section's title.
    title: bool,
    /// Whether it is in the title of the page, or in the heading above the section.
    page: bool,
    /// How often it is in the section's text.
    text: u32,
}

/// The search index: the sections with each word.
#[derive(Debug, Default)]
pub struct Index {
    /// Positions of the page, and of the section within it.
    sections: Vec<(usize, usize)>,
    words: BTreeMap<String, Vec<(usize, Counts)>>,
}

/// The result of a search.
#[derive(Debug)]
pub struct Found<'a> {
    /// Results, best first.
    pub hits: Vec<Hit<'a>>,
    /// Whether each result has all words; if no section has all, each result has some.
    pub all_words: bool,
}

/// A result.
#[derive(Debug)]
pub struct Hit<'a> {
    /// Its page.
    pub page: &'a Page,
    /// Its anchor on the page.
    pub anchor: &'a str,
    /// The heading it is under, unless that is the title of the page.
    pub under: Option<&'a str>,
    /// Its title in pieces, with true for those that match.
    pub title: Vec<(&'a str, bool)>,
    /// An excerpt of its text, in the same form.
    pub text: Vec<(&'a str, bool)>,
}

impl Index {
    /// Indexes all sections of pages.
    pub(crate) fn new(pages: &[Page]) -> Self {
        let mut index = Self::default();
        for (place, page) in pages.iter().enumerate() {
            for (within, section) in page.sections.iter().enumerate() {
                let mut counts: HashMap<String, Counts> = HashMap::new();
                for word in words(&section.title) {
                    counts.entry(word.0).or_default().title = true;
                }
                for word in words(&page.title).chain(words(section.under.as_deref().unwrap_or_default())) {
                    counts.entry(word.0).or_default().page = true;
                }
                for word in words(&section.text) {
                    counts.entry(word.0).or_default().text += 1;
                }
                let id = index.sections.len();
                index.sections.push((place, within));
                for (word, counts) in counts {
                    index.words.entry(word).or_default().push((id, counts));
                }
            }
        }
        index
    }

    /// Returns how well each section matches a word, and whether the word is in the section itself. A word with at least two letters matches as a
    /// prefix.
    fn fitting(&self, wanted: &str) -> HashMap<usize, (f64, bool)> {
        let mut fitting: HashMap<usize, (f64, bool)> = HashMap::new();
        let is_prefix = wanted.chars().nth(1).is_some();
        let range = self.words.range(wanted.to_owned()..).take_while(|(word, _)| word.starts_with(wanted) && (is_prefix || *word == wanted));
        for (word, sections) in range {
            let share = if word == wanted { 1.0 } else { 0.5 };
            for (id, counts) in sections {
                let title = if counts.title { 8.0 } else { 0.0 };
                let page = if counts.page { 3.0 } else { 0.0 };
                let text = if counts.text > 0 { 1.0 + f64::from(counts.text).ln() } else { 0.0 };
                let own = fitting.entry(*id).or_default();
                *own = (own.0.max(share * (title + page + text)), own.1 || counts.title || counts.text > 0);
            }
        }
        // a rare word weighs more
        let rare = (1.0 + self.sections.len() as f64 / fitting.len().max(1) as f64).ln();
        fitting.values_mut().for_each(|(fits, _)| *fits *= rare);
        fitting
    }
}

impl Docs {
    /// Finds the sections with the words of a text.
    #[must_use]
    pub fn search(&self, text: &str) -> Found<'_> {
        let wanted = wanted(text);
        let index = self.index();
        let mut fitting: HashMap<usize, (usize, f64)> = HashMap::new();
        let mut itself = HashSet::new();
        for word in &wanted {
            for (id, (fits, is_own)) in index.fitting(word) {
                let (count, sum) = fitting.entry(id).or_default();
                *count += 1;
                *sum += fits;
                if is_own {
                    itself.insert(id);
                }
            }
        }
        // sections whose words are only in the titles above them are left out, because the section with the title is found
        fitting.retain(|id, _| itself.contains(id));
        let all_words = fitting.values().any(|(count, _)| *count == wanted.len());
        let mut ranked: Vec<(f64, usize)> = fitting
            .into_iter()
            .filter(|(_, (count, _))| !all_words || *count == wanted.len())
            .filter_map(|(id, (_, sum))| Some((sum * weight(self.section(index, id)?.0), id)))
            .collect();
        ranked.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        let hits = ranked.into_iter().take(MAX_HITS).filter_map(|(_, id)| {
            let (page, within) = self.section(index, id)?;
            let section = page.sections.get(within)?;
            let title = marked(&section.title, 0..section.title.len(), &wanted);
            Some(Hit { page, anchor: &section.anchor, under: section.under.as_deref(), title, text: piece(&section.text, &wanted) })
        });
        Found { hits: hits.collect(), all_words }
    }

    /// Returns pages similar to a path that does not exist, best first.
    #[must_use]
    pub fn similar(&self, asked: &str) -> Vec<&Page> {
        let wanted = wanted(asked);
        let mut ranked: Vec<(usize, &Page)> = self.pages().iter().map(|page| (in_common(&wanted, page), page)).filter(|(own, _)| *own > 0).collect();
        ranked.sort_by_key(|(common, page)| (std::cmp::Reverse(*common), page.path.len()));
        ranked.into_iter().take(5).map(|(_, page)| page).collect()
    }

    fn section(&self, index: &Index, id: usize) -> Option<(&Page, usize)> {
        let (page, within) = index.sections.get(id)?;
        Some((self.pages().get(*page)?, *within))
    }
}

/// Returns the distinct words of a search.
fn wanted(text: &str) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for (word, _) in words(&text[..floor(text, MAX_TEXT)]) {
        if !wanted.contains(&word) && wanted.len() < MAX_WORDS {
            wanted.push(word);
        }
    }
    wanted
}

/// Returns the number of leading letters that words of a page's path and title have in common with the wanted words.
fn in_common(wanted: &[String], page: &Page) -> usize {
    let own: Vec<String> = words(&page.path).chain(words(&page.title)).map(|(word, _)| word).collect();
    let longest = |word: &String| own.iter().map(|own| own.chars().zip(word.chars()).take_while(|(a, b)| a == b).count()).max().unwrap_or(0);
    wanted.iter().map(longest).filter(|common| *common > 2).sum()
}

/// Weighs pages by their kind: instructions are wanted more often than measurements.
fn weight(page: &Page) -> f64 {
    match page.kind {
        Kind::Tutorial | Kind::HowTo => 1.0,
        Kind::Reference if page.path.starts_with("examples/") => 0.5,
        Kind::Reference => 1.0,
        Kind::Explanation if page.path.starts_with("measurements") => 0.3,
        Kind::Explanation => 0.7,
    }
}

/// Returns the words of a text in lower case, with their positions.
fn words(text: &str) -> impl Iterator<Item = (String, Range<usize>)> + '_ {
    let is_of_word = |char: char| char.is_alphanumeric() || char == '_';
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + text.get(from..)?.find(is_of_word)?;
        let rest = text.get(start..)?;
        let end = start + rest.find(|char| !is_of_word(char)).unwrap_or(rest.len());
        from = end;
        Some((text.get(start..end)?.to_lowercase(), start..end))
    })
}

/// Returns the position of the wanted word that a word matches.
fn place_of(word: &str, wanted: &[String]) -> Option<usize> {
    wanted.iter().position(|own| word == own || (own.chars().nth(1).is_some() && word.starts_with(own.as_str())))
}

/// Returns the excerpt of a text with most of the words, or its beginning.
fn piece<'a>(text: &'a str, wanted: &[String]) -> Vec<(&'a str, bool)> {
    let found: Vec<(usize, Range<usize>)> = words(text).filter_map(|(word, place)| Some((place_of(&word, wanted)?, place))).take(200).collect();
    let value = |start: usize| {
        let within = found.iter().filter(|(_, place)| place.start >= start && place.end <= start + PIECE);
        let mut different: Vec<usize> = within.map(|(wanted, _)| *wanted).collect();
        let all = different.len();
        different.sort_unstable();
        different.dedup();
        (different.len(), all)
    };
    let mut best = (0, 0, 0);
    for (_, place) in &found {
        let (different, all) = value(place.start);
        if (different, all) > (best.0, best.1) {
            best = (different, all, place.start);
        }
    }
    // include some text before it
    let start = text[..floor(text, best.2.saturating_sub(PIECE / 4))].rfind(char::is_whitespace).map_or(0, |space| floor(text, space + 1));
    let end = floor(text, start + PIECE + PIECE / 4);
    let end = if end < text.len() { text[start..end].rfind(char::is_whitespace).map_or(end, |space| start + space) } else { end };
    let mut pieces = marked(text, start..end, wanted);
    if start > 0 {
        pieces.insert(0, ("… ", false));
    }
    if end < text.trim_end().len() {
        pieces.push((" …", false));
    }
    pieces
}

/// Splits a part of a text in pieces, with true for wanted words.
fn marked<'a>(text: &'a str, part: Range<usize>, wanted: &[String]) -> Vec<(&'a str, bool)> {
    let (mut pieces, part) = (Vec::new(), &text[part]);
    let mut from = 0;
    for (_, place) in words(part).filter(|(word, _)| place_of(word, wanted).is_some()) {
        pieces.push((&part[from..place.start], false));
        from = place.end;
        pieces.push((&part[place], true));
    }
    pieces.push((&part[from..], false));
    pieces.retain(|(piece, _)| !piece.is_empty());
    pieces
}

/// Returns the last character boundary up to a position.
fn floor(text: &str, place: usize) -> usize {
    (0..=place.min(text.len())).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0)
}
