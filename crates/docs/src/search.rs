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
const EXCERPT_LENGTH: usize = 220;

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
        for (page_index, page) in pages.iter().enumerate() {
            for (section_index, section) in page.sections.iter().enumerate() {
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
                index.sections.push((page_index, section_index));
                for (word, counts) in counts {
                    index.words.entry(word).or_default().push((id, counts));
                }
            }
        }
        index
    }

    /// Returns how well each section matches a word, and whether the word is in the section itself. A word with at least two letters matches as a
    /// prefix.
    fn matching_sections(&self, wanted: &str) -> HashMap<usize, (f64, bool)> {
        let mut scores: HashMap<usize, (f64, bool)> = HashMap::new();
        let is_prefix = wanted.chars().nth(1).is_some();
        let range = self.words.range(wanted.to_owned()..).take_while(|(word, _)| word.starts_with(wanted) && (is_prefix || *word == wanted));
        for (word, sections) in range {
            let share = if word == wanted { 1.0 } else { 0.5 };
            for (id, counts) in sections {
                let title = if counts.title { 8.0 } else { 0.0 };
                let page = if counts.page { 3.0 } else { 0.0 };
                let text = if counts.text > 0 { 1.0 + f64::from(counts.text).ln() } else { 0.0 };
                let score = scores.entry(*id).or_default();
                *score = (score.0.max(share * (title + page + text)), score.1 || counts.title || counts.text > 0);
            }
        }
        // a rare word weighs more
        let rarity = (1.0 + self.sections.len() as f64 / scores.len().max(1) as f64).ln();
        scores.values_mut().for_each(|(score, _)| *score *= rarity);
        scores
    }
}

impl Docs {
    /// Finds the sections with the words of a text.
    #[must_use]
    pub fn search(&self, text: &str) -> Found<'_> {
        let wanted_words = wanted_words(text);
        let index = self.index();
        let mut scores: HashMap<usize, (usize, f64)> = HashMap::new();
        let mut own_sections = HashSet::new();
        for word in &wanted_words {
            for (id, (score, is_in_section)) in index.matching_sections(word) {
                let (count, sum) = scores.entry(id).or_default();
                *count += 1;
                *sum += score;
                if is_in_section {
                    own_sections.insert(id);
                }
            }
        }
        // sections whose words are only in the titles above them are left out, because the section with the title is found
        scores.retain(|id, _| own_sections.contains(id));
        let all_words = scores.values().any(|(count, _)| *count == wanted_words.len());
        let mut ranked: Vec<(f64, usize)> = scores
            .into_iter()
            .filter(|(_, (count, _))| !all_words || *count == wanted_words.len())
            .filter_map(|(id, (_, sum))| Some((sum * weight(self.section(index, id)?.0), id)))
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let hits = ranked.into_iter().take(MAX_HITS).filter_map(|(_, id)| {
            let (page, within) = self.section(index, id)?;
            let section = page.sections.get(within)?;
            let title = marked(&section.title, 0..section.title.len(), &wanted_words);
            Some(Hit { page, anchor: &section.anchor, under: section.under.as_deref(), title, text: excerpt(&section.text, &wanted_words) })
        });
        Found { hits: hits.collect(), all_words }
    }

    /// Returns pages similar to a path that does not exist, best first.
    #[must_use]
    pub fn similar(&self, path: &str) -> Vec<&Page> {
        let wanted_words = wanted_words(path);
        let mut ranked: Vec<(usize, &Page)> =
            self.pages().iter().map(|page| (common_letters(&wanted_words, page), page)).filter(|(common, _)| *common > 0).collect();
        ranked.sort_by_key(|(common, page)| (std::cmp::Reverse(*common), page.path.len()));
        ranked.into_iter().take(5).map(|(_, page)| page).collect()
    }

    fn section(&self, index: &Index, id: usize) -> Option<(&Page, usize)> {
        let (page, within) = index.sections.get(id)?;
        Some((self.pages().get(*page)?, *within))
    }
}

/// Returns the distinct words of a search.
fn wanted_words(text: &str) -> Vec<String> {
    let mut wanted: Vec<String> = Vec::new();
    for (word, _) in words(&text[..floor(text, MAX_TEXT)]) {
        if !wanted.contains(&word) && wanted.len() < MAX_WORDS {
            wanted.push(word);
        }
    }
    wanted
}

/// Returns the number of leading letters that words of a page's path and title have in common with the wanted words.
fn common_letters(wanted: &[String], page: &Page) -> usize {
    let page_words: Vec<String> = words(&page.path).chain(words(&page.title)).map(|(word, _)| word).collect();
    let longest_common_prefix =
        |word: &String| page_words.iter().map(|page_word| page_word.chars().zip(word.chars()).take_while(|(a, b)| a == b).count()).max().unwrap_or(0);
    wanted.iter().map(longest_common_prefix).filter(|common| *common > 2).sum()
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
fn matched_word(word: &str, wanted: &[String]) -> Option<usize> {
    wanted.iter().position(|wanted_word| word == wanted_word || (wanted_word.chars().nth(1).is_some() && word.starts_with(wanted_word.as_str())))
}

/// Returns the excerpt of a text with most of the words, or its beginning.
fn excerpt<'a>(text: &'a str, wanted: &[String]) -> Vec<(&'a str, bool)> {
    let occurrences: Vec<(usize, Range<usize>)> =
        words(text).filter_map(|(word, range)| Some((matched_word(&word, wanted)?, range))).take(200).collect();
    let rate = |start: usize| {
        let occurrences_within = occurrences.iter().filter(|(_, range)| range.start >= start && range.end <= start + EXCERPT_LENGTH);
        let mut distinct_words: Vec<usize> = occurrences_within.map(|(wanted, _)| *wanted).collect();
        let count = distinct_words.len();
        distinct_words.sort_unstable();
        distinct_words.dedup();
        (distinct_words.len(), count)
    };
    let mut best = (0, 0, 0);
    for (_, range) in &occurrences {
        let (distinct_words, count) = rate(range.start);
        if (distinct_words, count) > (best.0, best.1) {
            best = (distinct_words, count, range.start);
        }
    }
    // include some text before it
    let start = text[..floor(text, best.2.saturating_sub(EXCERPT_LENGTH / 4))].rfind(char::is_whitespace).map_or(0, |space| floor(text, space + 1));
    let end = floor(text, start + EXCERPT_LENGTH + EXCERPT_LENGTH / 4);
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
    for (_, range) in words(part).filter(|(word, _)| matched_word(word, wanted).is_some()) {
        pieces.push((&part[from..range.start], false));
        from = range.end;
        pieces.push((&part[range], true));
    }
    pieces.push((&part[from..], false));
    pieces.retain(|(part, _)| !part.is_empty());
    pieces
}

/// Returns the last character boundary up to a position.
fn floor(text: &str, position: usize) -> usize {
    (0..=position.min(text.len())).rev().find(|position| text.is_char_boundary(*position)).unwrap_or(0)
}
