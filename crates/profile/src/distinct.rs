//! Counts distinct values in bounded memory, and compares the values of two columns.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The number of hashes that are kept of a column. Up to this many distinct values, counts are exact.
pub const EXACT: usize = 1 << 16;

/// A hash of a text, the same in every column of every file.
pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// The hashes of the values of a column. When there are too many, only those stay of which another low bit is zero, which is half of them (adaptive
/// sampling): whatever the order, the same values leave the same hashes.
#[derive(Debug, Clone, Default)]
pub struct DistinctValues {
    hashes: HashSet<u64>,
    /// How many low bits of a kept hash are zero.
    level: u32,
    /// How often a value was added whose hash was there.
    repeats: u64,
}

impl DistinctValues {
    /// Adds a value.
    pub(crate) fn add(&mut self, hash: u64) {
        if hash & self.mask() != 0 {
            return;
        }
        if !self.hashes.insert(hash) {
            self.repeats += 1;
        }
        while self.hashes.len() > EXACT {
            self.level += 1;
            let mask = self.mask();
            self.hashes.retain(|hash| hash & mask == 0);
        }
    }

    fn mask(&self) -> u64 {
        (1 << self.level) - 1
    }

    /// The number of distinct values.
    pub fn count(&self) -> u64 {
        (self.hashes.len() as u64) << self.level
    }

    /// Whether [`DistinctValues::count`] is exact.
    pub fn is_exact(&self) -> bool {
        self.level == 0
    }

    /// Whether no value was seen twice; if the count is an estimate, no value of those that were kept.
    pub fn is_unique(&self) -> bool {
        self.repeats == 0
    }

    /// Compares with the values of another column.
    pub fn overlap(&self, other: &Self) -> Overlap {
        let mask = self.mask() | other.mask();
        let kept = |values: &Self| values.hashes.iter().filter(|hash| *hash & mask == 0).count() as u64;
        let (fewer, more) = if self.hashes.len() <= other.hashes.len() { (self, other) } else { (other, self) };
        let shared = fewer.hashes.iter().filter(|hash| *hash & mask == 0 && more.hashes.contains(hash)).count() as u64;
        Overlap { shared, own: kept(self), others: kept(other) }
    }
}

/// How many of the values of two columns are the same, of those whose hashes both keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overlap {
    /// In both columns.
    pub shared: u64,
    /// In the first column.
    pub own: u64,
    /// In the second.
    pub others: u64,
}

impl Overlap {
    /// The share of the first column's values that the second has, too.
    pub fn contained(self) -> f64 {
        self.shared as f64 / self.own.max(1) as f64
    }

    /// The share of the smaller column's values that the larger one has, too.
    pub fn of_smaller(self) -> f64 {
        self.shared as f64 / self.own.min(self.others).max(1) as f64
    }

    /// The share of the larger column's values that the smaller one has, too.
    pub fn of_larger(self) -> f64 {
        self.shared as f64 / self.own.max(self.others).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(range: std::ops::Range<u64>) -> DistinctValues {
        let mut values = DistinctValues::default();
        range.for_each(|number| values.add(hash_of(&number.to_string())));
        values
    }

    #[test]
    fn counts_are_exact_up_to_a_limit_and_close_beyond_it() {
        let few = values(0..1_000);
        assert!(few.is_exact() && few.is_unique());
        assert_eq!(few.count(), 1_000);
        let many = values(0..500_000);
        assert!(!many.is_exact() && many.is_unique());
        assert!(many.count().abs_diff(500_000) < 10_000, "{}", many.count());
        assert!(many.hashes.len() <= EXACT);
    }

    #[test]
    fn a_repeated_value_is_noticed_and_columns_are_compared_at_any_size() {
        let mut few = values(0..10);
        few.add(hash_of("7"));
        assert!(!few.is_unique());
        assert_eq!(few.count(), 10);
        let overlap = values(0..200_000).overlap(&values(100_000..300_000));
        assert!((overlap.contained() - 0.5).abs() < 0.02, "{overlap:?}");
    }
}
