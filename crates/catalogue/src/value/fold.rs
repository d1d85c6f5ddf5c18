//! Case folding and cleaning of text, done once, when documents are mapped, so that all stores agree.

use unicode_normalization::UnicodeNormalization;

/// Returns text for comparison: compatibility-normalised, in lower case, with white space squashed.
///
/// Unicode lower case after NFKC; `ß` is kept, dotted capital I becomes `i` and a combining dot.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return squash(&text.to_ascii_lowercase());
    }
    let lowered: String = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    squash(&lowered)
}

/// Removes leading and trailing white space, and replaces inner white space by single spaces.
pub fn squash(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn folding_twice_is_folding_once(text in "\\PC{0,12}") {
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
        }
    }

    #[test]
    fn composed_and_decomposed_agree() {
        assert_eq!(fold("  \u{c5}SA  b"), fold("A\u{30a}sa B"));
    }
}
