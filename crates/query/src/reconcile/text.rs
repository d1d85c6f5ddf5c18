//! The searches for the words of a text.

use std::sync::Arc;
use stook_catalogue::ids::FieldId;
use stook_catalogue::words::{WordSearch, words_of};
use stook_store::plan::{CombinedCondition, Comparison, Condition, PlanColumn};

/// Words of a text that are searched for; those after them are only compared.
const MAX_WORDS: usize = 12;
/// The fewest letters of a word by which it is searched for, if it has more.
const MIN_LETTERS: usize = 2;

/// The words of a text that is looked for.
pub struct SearchedText(WordSearch);

impl SearchedText {
    /// Those of a complete text; `None` if it has no words.
    pub fn new(text: &str) -> Option<Self> {
        Self::read(&first_words(text))
    }

    /// Those of a text of which the last word may be only the beginning of one.
    pub fn typed(text: &str) -> Option<Self> {
        let words = first_words(text);
        let is_open = text.chars().next_back().is_some_and(char::is_alphanumeric);
        Self::read(&if is_open { words + "*" } else { words })
    }

    fn read(search: &str) -> Option<Self> {
        WordSearch::parse(search).ok().map(Self)
    }

    /// That each word occurs in one of these fields.
    pub fn all_in(&self, fields: &[FieldId]) -> CombinedCondition {
        let in_one = |term: WordSearch| {
            let term = Arc::new(term);
            CombinedCondition::Any(fields.iter().map(|field| occurs(*field, term.clone())).collect())
        };
        CombinedCondition::All(self.0.single_terms().map(in_one).collect())
    }

    /// That all words but one occur in a field; `None` if there is only one.
    pub fn all_but_one_in(&self, field: FieldId) -> Option<CombinedCondition> {
        let terms: Vec<WordSearch> = self.0.single_terms().collect();
        let without = |left_out: usize| WordSearch::of_all(terms.iter().enumerate().filter(|(at, _)| *at != left_out).map(|(_, term)| term));
        (terms.len() > 1).then(|| CombinedCondition::Any((0..terms.len()).map(|at| occurs(field, Arc::new(without(at)))).collect()))
    }

    /// That words occur in a field that begin with the first half of each word.
    pub fn beginnings_in(&self, field: FieldId) -> Option<CombinedCondition> {
        let beginnings = self.0.terms().iter().flat_map(|term| term.words()).map(|word| {
            let letters = word.chars().count();
            word.chars().take(letters.div_ceil(2).max(MIN_LETTERS)).chain(['*']).collect::<String>()
        });
        WordSearch::parse(&beginnings.collect::<Vec<_>>().join(" ")).ok().map(|search| occurs(field, Arc::new(search)))
    }
}

fn occurs(field: FieldId, search: Arc<WordSearch>) -> CombinedCondition {
    CombinedCondition::Is(Condition { column: PlanColumn::Field(field), test: Comparison::Words(search) })
}

/// The first words of a text, without what has a meaning in searches.
fn first_words(text: &str) -> String {
    let end = words_of(text).take(MAX_WORDS).last().map_or(0, |word| word.place.end);
    text[..end].replace(['"', '*'], " ")
}
