//! What of expressions has failed on records, counted, with the first sentences.

/// What of expressions has failed on records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpressionFailures {
    /// How often expressions of a record were found to fail; of one record it may be found again and again.
    pub count: u64,
    /// What has failed first, in sentences that name the record, each once.
    pub first: Vec<String>,
    /// Whether other sentences are left out.
    pub truncated: bool,
}

impl ExpressionFailures {
    /// Most sentences.
    const MOST: usize = 20;

    /// Adds what has failed on a record, if anything.
    pub fn add(&mut self, collection: &str, key: &str, failures: Vec<String>) {
        if !failures.is_empty() {
            let first = failures.into_iter().map(|failure| format!("{collection} {key}: {failure}")).collect();
            self.include(ExpressionFailures { count: 1, first, truncated: false });
        }
    }

    /// Adds others.
    pub fn include(&mut self, other: ExpressionFailures) {
        self.count += other.count;
        self.truncated |= other.truncated;
        for failure in other.first {
            if self.first.contains(&failure) {
                continue;
            }
            match self.first.len() < Self::MOST {
                true => self.first.push(failure),
                false => self.truncated = true,
            }
        }
    }
}
