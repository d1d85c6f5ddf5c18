//! Sums of floats with compensated rounding.

/// A sum of floats that compensates rounding errors (Neumaier's algorithm), as SQLite's does.
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

    /// The sum; `None` if it is not finite.
    pub fn end(self) -> Option<f64> {
        Some(self.sum + self.lost).filter(|sum| sum.is_finite())
    }
}
