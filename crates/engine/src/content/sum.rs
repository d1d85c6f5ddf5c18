//! Sums of fractions that do not depend on the order of their terms.

/// A sum of floats that remembers what rounding has taken from it (Neumaier), as SQLite's does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FloatSum {
    sum: f64,
    lost: f64,
}

impl FloatSum {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() { (self.sum - sum) + number } else { (number - sum) + self.sum };
        self.sum = sum;
    }

    /// The sum; nothing where it is no number that can be kept.
    pub fn end(self) -> Option<f64> {
        Some(self.sum + self.lost).filter(|sum| sum.is_finite())
    }
}
