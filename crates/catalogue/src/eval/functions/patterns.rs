//! Caches compiled regular expressions of expressions.

use super::{EvalError, failed, shown};
use quick_cache::sync::Cache;
use regex::{Regex, RegexBuilder};
use std::sync::LazyLock;

/// Max cached regular expressions. They can come from data, so their number is unlimited; the cache keeps those used most, which are the constants of
/// the definition.
const MAX_PATTERNS: usize = 256;

static PATTERNS: LazyLock<Cache<String, Regex>> = LazyLock::new(|| Cache::new(MAX_PATTERNS));

/// Returns a compiled regular expression. Other threads that need the same one wait while it is compiled; no lock is held.
pub(crate) fn regex(pattern: &str) -> Result<Regex, EvalError> {
    PATTERNS.get_or_insert_with(pattern, || {
        let compiled = RegexBuilder::new(pattern).size_limit(1 << 20).build();
        compiled.map_err(|_| failed(format!("{} is not a regular expression", shown(pattern))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_in_use_stay_compiled_whatever_passes_by() {
        for number in 0..2_000 {
            assert!(regex(&format!("^passing {number}$")).expect("a pattern").is_match(&format!("passing {number}")));
            if number % 4 == 0 {
                regex("^in use$").expect("a pattern");
            }
        }
        assert!(PATTERNS.len() <= MAX_PATTERNS + MAX_PATTERNS / 4, "{} patterns are kept", PATTERNS.len());
        assert!(PATTERNS.get("^in use$").is_some());
        assert!(regex("(").is_err() && PATTERNS.get("(").is_none());
    }
}
