//! Whether the texts of a column are lists of values with a separator between them.

use crate::distinct::{DistinctValues, hash_of};

/// Separators of values inside a text.
pub(crate) const SEPARATORS: [char; 3] = [';', '|', ','];
/// Maximum number of bytes of a text that is split.
const MAX_TEXT: usize = 2_000;

/// What the texts of a column have between these separators.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeparatedValues {
    by_separator: [Pieces; SEPARATORS.len()],
}

#[derive(Debug, Clone, Default)]
struct Pieces {
    /// Texts with the separator.
    texts: u64,
    /// Pieces of all texts, of those without a separator one each.
    pieces: u64,
    distinct: DistinctValues,
    first: DistinctValues,
    later: DistinctValues,
    characters: u64,
    longest: usize,
    /// Texts that would not be the same when they are put together again: with empty pieces, or too long.
    lost: u64,
}

impl SeparatedValues {
    pub(crate) fn add(&mut self, text: &str) {
        for (separator, pieces) in SEPARATORS.into_iter().zip(&mut self.by_separator) {
            if pieces.lost > 0 {
                continue;
            }
            if text.len() > MAX_TEXT {
                pieces.lost += 1;
                continue;
            }
            pieces.texts += u64::from(text.contains(separator));
            for (index, piece) in text.split(separator).enumerate() {
                let piece = piece.trim();
                pieces.lost += u64::from(piece.is_empty());
                pieces.pieces += 1;
                pieces.characters += piece.len() as u64;
                pieces.longest = pieces.longest.max(piece.len());
                let hash = hash_of(piece);
                pieces.distinct.add(hash);
                if index == 0 { pieces.first.add(hash) } else { pieces.later.add(hash) }
            }
        }
    }

    /// The separator, if the texts are lists. A comma also stands in names and sentences, so it separates only if the pieces repeat, and stand in
    /// the first as in other places; `is_plural` says that the column's name speaks of several things.
    pub(crate) fn separator(&self, values: u64, is_plural: bool) -> Option<char> {
        SEPARATORS
            .into_iter()
            .zip(&self.by_separator)
            .find(|(separator, pieces)| pieces.are_list(*separator, values, is_plural))
            .map(|(found, _)| found)
    }
}

impl Pieces {
    fn are_list(&self, separator: char, values: u64, is_plural: bool) -> bool {
        if self.lost > 0 || self.texts == 0 || self.longest > 120 {
            return false;
        }
        let share = self.texts as f64 / values.max(1) as f64;
        let repeating = 1.0 - self.distinct.count() as f64 / self.pieces.max(1) as f64;
        let anywhere = self.first.overlap(&self.later).of_smaller();
        let mean = self.characters as f64 / self.pieces.max(1) as f64;
        match (separator, is_plural) {
            (',', true) => share >= 0.05 && mean <= 30.0 && (repeating >= 0.2 || anywhere >= 0.2),
            (',', false) => self.texts >= 3 && share >= 0.15 && mean <= 20.0 && repeating >= 0.6 && anywhere >= 0.5,
            (_, true) => mean <= 60.0,
            (_, false) => self.texts >= 2 && share >= 0.1 && mean <= 40.0 && (repeating >= 0.2 || share >= 0.5),
        }
    }
}
