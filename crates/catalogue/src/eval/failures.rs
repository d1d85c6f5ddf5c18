//! Failures of expressions on records.

/// Failures of expressions on records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpressionFailures {
    /// The number of times a record was found with failing expressions; one record may be counted several times.
    pub count: u64,
    /// The first distinct messages, which name the record.
    pub first: Vec<String>,
    /// Whether further messages were left out.
    pub truncated: bool,
}

impl ExpressionFailures {
    /// Max messages.
    const MAX: usize = 20;

    /// Adds the failures on a record, if there are any.
    pub fn add(&mut self, collection: &str, key: &str, failures: Vec<String>) {
        if !failures.is_empty() {
            let first = failures.into_iter().map(|failure| format!("{collection} {key}: {failure}")).collect();
            self.include(ExpressionFailures { count: 1, first, truncated: false });
        }
    }

    /// Adds other failures.
    pub fn include(&mut self, other: ExpressionFailures) {
        self.count += other.count;
        self.truncated |= other.truncated;
        for failure in other.first {
            if self.first.contains(&failure) {
                continue;
            }
            match self.first.len() < Self::MAX {
                true => self.first.push(failure),
                false => self.truncated = true,
            }
        }
    }
}
