//! The words of values in compact form: half a million words take some ten megabytes, and a misspelt word is found in milliseconds.

use std::borrow::Cow;
use std::collections::HashMap;

/// The maximum number of words that are learnt.
const MAX_WORDS: usize = 1_000_000;

/// Words in lower case, sorted, each with its original form and the fields that have it.
#[derive(Debug, Default)]
pub struct WordIndex {
    /// All words, concatenated.
    text: String,
    /// The start of each word in `text`, and the end of the last one.
    starts: Vec<u32>,
    /// The letters of each word as bits: those of two similar words are nearly the same.
    letter_masks: Vec<u32>,
    cases: Vec<LetterCase>,
    /// The original forms of words with mixed case, by position.
    written: HashMap<u32, Box<str>>,
    /// For each word, the position in `sets` of the fields that have it.
    fields: Vec<u32>,
    sets: Vec<Vec<u16>>,
}

/// The case of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LetterCase {
    Small,
    Capital,
    Large,
    Own,
}

fn capital(lowercase: &str) -> String {
    let mut letters = lowercase.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

impl LetterCase {
    fn detect(lowercase: &str, written: &str) -> Self {
        if lowercase == written {
            Self::Small
        } else if capital(lowercase) == written {
            Self::Capital
        } else if lowercase.to_uppercase() == written {
            Self::Large
        } else {
            Self::Own
        }
    }
}

/// The letters of a word as bits; all characters except a to z and digits share the last bits.
fn letter_mask(word: &str) -> u32 {
    word.chars().fold(0, |bits, letter| {
        bits | match letter {
            'a'..='z' => 1 << (letter as u32 - 'a' as u32),
            _ => 1 << (26 + letter as u32 % 6),
        }
    })
}

impl WordIndex {
    fn len(&self) -> usize {
        self.letter_masks.len()
    }

    fn word(&self, position: usize) -> &str {
        &self.text[self.starts[position] as usize..self.starts[position + 1] as usize]
    }

    /// The position of the first word for which `is_before` returns false.
    fn partition_point(&self, is_before: impl Fn(&str) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if is_before(self.word(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The position of a word.
    pub fn find(&self, word: &str) -> Option<usize> {
        let position = self.partition_point(|candidate| candidate < word);
        (position < self.len() && self.word(position) == word).then_some(position)
    }

    /// Whether a field has a word.
    pub fn occurs_in(&self, position: usize, field: u16) -> bool {
        self.sets[self.fields[position] as usize].contains(&field)
    }

    /// The original form of a word.
    pub fn written(&self, position: usize) -> Cow<'_, str> {
        let lowercase = self.word(position);
        match self.cases[position] {
            LetterCase::Small => lowercase.into(),
            LetterCase::Capital => capital(lowercase).into(),
            LetterCase::Large => lowercase.to_uppercase().into(),
            LetterCase::Own => self.written.get(&(position as u32)).map_or(lowercase, |written| written).into(),
        }
    }

    /// Words that are spelled similarly to one and begin with the same letter, each with its similarity, which is at least `min_score`; the most
    /// similar come first.
    ///
    /// Cost: compares the letters of all words with the same first letter, and the spelling of those that have nearly the same letters.
    pub fn similar(&self, word: &str, min_score: f64) -> Vec<(usize, f64)> {
        let Some(first) = word.chars().next() else { return Vec::new() };
        let (from, until) = (
            self.partition_point(|candidate| candidate.chars().next() < Some(first)),
            self.partition_point(|candidate| candidate.chars().next() <= Some(first)),
        );
        let (length, mask) = (word.chars().count(), letter_mask(word));
        let mut found: Vec<(usize, f64)> = Vec::new();
        for position in from..until {
            // every edit changes at most two letters, and the number of edits allowed is a share of the longer word's length
            let max_difference = (1.0 - min_score) * (length + 2) as f64;
            if f64::from((self.letter_masks[position] ^ mask).count_ones()) > 2.0 * max_difference {
                continue;
            }
            let candidate = self.word(position);
            if candidate.chars().count().abs_diff(length) > 2 {
                continue;
            }
            let score = strsim::normalized_damerau_levenshtein(word, candidate);
            if score >= min_score {
                found.push((position, score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found
    }
}

/// Collects words for a [`WordIndex`].
#[derive(Default)]
pub struct WordIndexBuilder {
    words: HashMap<Box<str>, WordEntry>,
    sets: Vec<Vec<u16>>,
    set_ids: HashMap<Vec<u16>, u32>,
}

struct WordEntry {
    case: LetterCase,
    written: Option<Box<str>>,
    fields: u32,
}

impl WordIndexBuilder {
    /// Adds a word, in its original form, that a field has.
    pub fn learn(&mut self, written: &str, field: u16) {
        let lowercase = written.to_lowercase();
        let before = self.words.get(lowercase.as_str()).map(|entry| entry.fields);
        let mut set = before.map_or_else(Vec::new, |set| self.sets[set as usize].clone());
        if set.contains(&field) || (before.is_none() && self.words.len() >= MAX_WORDS) {
            return;
        }
        set.push(field);
        let fields = match self.set_ids.get(&set) {
            Some(existing) => *existing,
            None => {
                let id = self.sets.len() as u32;
                self.sets.push(set.clone());
                self.set_ids.insert(set, id);
                id
            }
        };
        match self.words.get_mut(lowercase.as_str()) {
            Some(entry) => entry.fields = fields,
            None => {
                let case = LetterCase::detect(&lowercase, written);
                let written = (case == LetterCase::Own).then(|| written.into());
                self.words.insert(lowercase.into(), WordEntry { case, written, fields });
            }
        }
    }

    /// Builds the index of all words.
    pub fn finish(self) -> WordIndex {
        let mut all: Vec<(Box<str>, WordEntry)> = self.words.into_iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut words = WordIndex { sets: self.sets, starts: Vec::with_capacity(all.len() + 1), ..WordIndex::default() };
        words.starts.push(0);
        for (position, (lowercase, entry)) in all.into_iter().enumerate() {
            words.text.push_str(&lowercase);
            words.starts.push(words.text.len() as u32);
            words.letter_masks.push(letter_mask(&lowercase));
            words.cases.push(entry.case);
            words.fields.push(entry.fields);
            words.written.extend(entry.written.map(|written| (position as u32, written)));
        }
        words.text.shrink_to_fit();
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_as_they_are_written() {
        let mut learner = WordIndexBuilder::default();
        for (word, field) in [("Smith", 0), ("smith", 1), ("CMSSW", 1), ("iPod", 2), ("Ökonom", 0), ("ab1", 3), ("straße", 1), ("Smith", 0)] {
            learner.learn(word, field);
        }
        let words = learner.finish();
        let written = |lowercase: &str| words.find(lowercase).map(|position| words.written(position).into_owned());
        for (lowercase, wanted) in [("smith", "Smith"), ("cmssw", "CMSSW"), ("ipod", "iPod"), ("ökonom", "Ökonom"), ("straße", "straße")] {
            assert_eq!(written(lowercase).as_deref(), Some(wanted));
        }
        assert_eq!((written("smit"), written("z")), (None, None));
        let smith = words.find("smith").unwrap_or_default();
        assert!(words.occurs_in(smith, 0) && words.occurs_in(smith, 1) && !words.occurs_in(smith, 2));
    }

    /// Words that are skipped before their spelling is compared would not have been similar.
    #[test]
    fn similar_words_are_those_that_a_comparison_with_every_word_finds() {
        let mut random = 1_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut word = || -> String { (0..2 + next(9)).map(|_| ['a', 'b', 'c', 'd', 'é', '1'][next(6) as usize]).collect() };
        let mut learner = WordIndexBuilder::default();
        let all: Vec<String> = (0..3_000).map(|_| word()).collect();
        all.iter().for_each(|word| learner.learn(word, 0));
        let words = learner.finish();
        for _ in 0..100 {
            let wanted = word();
            let mut expected: Vec<String> = (0..words.len())
                .map(|position| words.word(position))
                .filter(|candidate| {
                    candidate.chars().next() == wanted.chars().next() && candidate.chars().count().abs_diff(wanted.chars().count()) <= 2
                })
                .filter(|candidate| strsim::normalized_damerau_levenshtein(&wanted, candidate) >= 0.7)
                .map(str::to_owned)
                .collect();
            let similar = words.similar(&wanted, 0.7);
            assert!(similar.is_sorted_by(|a, b| a.1 >= b.1));
            let mut found: Vec<String> = similar.into_iter().map(|(position, _)| words.word(position).to_owned()).collect();
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{wanted}");
        }
    }
}
