//! How alike two names are: a number from 0 to 1, of their words as full text search compares them.

use stook_catalogue::words::words_of;

/// Words of a text that are compared; those after them are not.
const MAX_COMPARED_WORDS: usize = 64;
/// Two words that are less alike than this are different words.
const MIN_WORD_SIMILARITY: f64 = 0.7;
/// The most that two names can be alike whose words are not the same in the same order.
const MAX_OF_DIFFERENT: f64 = 0.99;

/// A name, cut into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameWords(Vec<String>);

impl NameWords {
    /// The words of a name.
    pub fn new(text: &str) -> Self {
        Self(words_of(text).take(MAX_COMPARED_WORDS).map(|word| word.folded).collect())
    }

    /// How alike this name and another are. 1 if they have the same words in the same order, and only then. Otherwise the part of the letters of both
    /// that are in words which both have; words that differ by a few letters count in part, and order does not.
    pub fn similarity(&self, other: &Self) -> f64 {
        if self == other {
            return if self.0.is_empty() { 0.0 } else { 1.0 };
        }
        let length = |word: &str| word.chars().count() as f64;
        let all: f64 = self.0.iter().chain(&other.0).map(|word| length(word)).sum();
        let mut pairs = Vec::new();
        for (own, word) in self.0.iter().enumerate() {
            for (others, candidate) in other.0.iter().enumerate() {
                let alike = if word == candidate { 1.0 } else { strsim::normalized_damerau_levenshtein(word, candidate) };
                if alike >= MIN_WORD_SIMILARITY {
                    pairs.push((alike, [word.min(candidate), word.max(candidate)], own, others));
                }
            }
        }
        // the most similar pairs first; of those that are equally similar by their words, so that exchanging the two names gives the same
        pairs.sort_by(|(a, a_words, ..), (b, b_words, ..)| b.total_cmp(a).then(a_words.cmp(b_words)));
        let (mut own_taken, mut other_taken, mut shared) = (vec![false; self.0.len()], vec![false; other.0.len()], 0.0);
        for (alike, words, own, others) in pairs {
            if !own_taken[own] && !other_taken[others] {
                (own_taken[own], other_taken[others]) = (true, true);
                shared += alike * (length(words[0]) + length(words[1]));
            }
        }
        if all == 0.0 { 0.0 } else { (shared / all).min(1.0) * MAX_OF_DIFFERENT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alike(a: &str, b: &str) -> f64 {
        NameWords::new(a).similarity(&NameWords::new(b))
    }

    #[test]
    fn names_are_compared_by_their_words() {
        assert_eq!(alike("Moby-Dick; or, The Whale", "moby dick or the whale"), 1.0);
        assert_eq!(alike("Les Misérables", "les miserables"), 1.0);
        assert_eq!(alike("Smith, John", "John Smith"), MAX_OF_DIFFERENT, "another order is not the same name");
        assert_eq!(alike("", ""), 0.0);
        assert_eq!(alike("sea", "wood"), 0.0);
        assert!(alike("Moby Dik", "Moby Dick") > alike("Moby", "Moby Dick"));
        assert!(alike("The Sea", "The Sea and the Wood") < alike("The Sea", "The Seas"));
    }

    proptest! {
        #[test]
        fn similarity_is_a_part_of_one_and_does_not_depend_on_which_name_is_first(a in "[a-c ]{0,12}", b in "[a-c ]{0,12}") {
            let (found, exchanged) = (alike(&a, &b), alike(&b, &a));
            prop_assert!((0.0..=1.0).contains(&found));
            prop_assert!((found - exchanged).abs() < 1e-9, "{found} {exchanged}");
            let is_same = NameWords::new(&a) == NameWords::new(&b) && !NameWords::new(&a).0.is_empty();
            prop_assert_eq!(found == 1.0, is_same);
        }
    }
}
