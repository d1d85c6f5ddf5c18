//! Patterns for file names, by which files are assigned to a source.

use regex::Regex;

/// Suffixes of compressed files, which are ignored when names are compared.
const COMPRESSED: [&str; 2] = [".gz", ".zst"];

/// A pattern for a file name: `*` is any number of characters, `?` is one, `[a-z]` is one of those listed, `[!a-z]` is one not listed.
#[derive(Debug, Clone)]
pub struct FilePattern {
    text: String,
    regex: Regex,
}

impl FilePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// When it cannot match any name; the message says why.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty pattern fits no file".into());
        }
        if text.contains('/') {
            return Err("a pattern is for the name of a file, without its folder".into());
        }
        if let Some(suffix) = COMPRESSED.iter().find(|suffix| text.ends_with(**suffix)) {
            return Err(format!("names are compared without {suffix}; leave it out"));
        }
        let regex = Regex::new(&format!(r"\A(?s:{})\z", translated(text)?)).map_err(|_| "this pattern is too long".to_owned())?;
        Ok(Self { text: text.to_owned(), regex })
    }

    /// Whether the name of the file at `path` matches, see [`file_name`].
    pub fn fits(&self, path: &str) -> bool {
        let name = file_name(path);
        self.regex.is_match(COMPRESSED.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name))
    }

    /// Returns the pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Returns the name of the file at `path`, without its folders.
pub fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Translates a pattern to a regular expression.
fn translated(text: &str) -> Result<String, String> {
    let mut regex = String::new();
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        match next {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => {
                // a closing bracket in the first position is one of the listed characters
                let listed = rest.as_str();
                let from = usize::from(listed.starts_with('!'));
                let first = listed[from..].chars().next().map_or(0, char::len_utf8);
                let end = listed[from + first..].find(']').map(|end| from + first + end).ok_or("a `[` has no `]`")?;
                regex.push_str(&class(&listed[from..end], from == 1)?);
                rest = listed[end + 1..].chars();
            }
            other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
    Ok(regex)
}

/// Translates a list of characters and ranges to a character class.
fn class(listed: &str, negated: bool) -> Result<String, String> {
    let characters: Vec<char> = listed.chars().collect();
    let mut class = String::from(if negated { "[^" } else { "[" });
    let mut at = 0;
    while let Some(&from) = characters.get(at) {
        let (until, length) = match characters.get(at + 1..at + 3) {
            Some(&['-', until]) => (until, 3),
            _ => (from, 1),
        };
        if until < from {
            return Err(format!("`{from}-{until}` is no range: its end comes before its beginning"));
        }
        class.push_str(&format!("\\x{{{:x}}}-\\x{{{:x}}}", u32::from(from), u32::from(until)));
        at += length;
    }
    class.push(']');
    Ok(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The meaning of a pattern, in the simplest implementation: both are compared character by character.
    fn fits(pattern: &[char], name: &[char]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some('*'), _) => fits(&pattern[1..], name) || !name.is_empty() && fits(pattern, &name[1..]),
            (Some('['), Some(character)) => {
                let from = if pattern[1] == '!' { 2 } else { 1 };
                let end = (from + 1..pattern.len()).find(|at| pattern[*at] == ']').expect("closed");
                let (mut at, mut listed) = (from, false);
                while at < end {
                    if at + 2 < end && pattern[at + 1] == '-' {
                        listed |= (pattern[at]..=pattern[at + 2]).contains(character);
                        at += 3;
                    } else {
                        listed |= pattern[at] == *character;
                        at += 1;
                    }
                }
                listed == (from == 1) && fits(&pattern[end + 1..], &name[1..])
            }
            (Some('?'), Some(_)) => fits(&pattern[1..], &name[1..]),
            (Some(literal), Some(character)) => literal == character && fits(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    #[test]
    fn a_pattern_fits_the_names_that_a_naive_matcher_accepts() {
        let pieces = ["*", "?", "[ab]", "[a-c]", "[!b]", "[!a-b]", "[]a]", "[a-]", "[b^]", "a", "b", "é", ".", "-", "+", "\\", "(", "^"];
        let letters = ["a", "b", "c", "é", ".", "-", "]", "^", "\\", "+", "\n"];
        let mut seed = 7_u64;
        let mut below = |limit: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % limit
        };
        let (mut fitting, mut unfitting) = (0, 0);
        for _ in 0..40_000 {
            let pattern: String = (0..1 + below(4)).map(|_| pieces[below(pieces.len())]).collect();
            let name: String = (0..below(5)).map(|_| letters[below(letters.len())]).collect();
            let (pattern_characters, name_characters): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            let expected = fits(&pattern_characters, &name_characters);
            assert_eq!(FilePattern::new(&pattern).expect("sound").fits(&name), expected, "{pattern:?} {name:?}");
            *(if expected { &mut fitting } else { &mut unfitting }) += 1;
        }
        assert!(fitting > 1_000 && unfitting > 10_000, "{fitting} {unfitting}");
    }

    #[test]
    fn names_are_compared_without_folder_and_compression() {
        let pattern = FilePattern::new("a*.csv").expect("sound");
        for name in ["a.csv", "a1.csv.gz", "in/b/a.csv", "/x/a2.csv.zst"] {
            assert!(pattern.fits(name), "{name}");
        }
        for name in ["a.csv.gz.gz", "a/b.csv", "A.csv", "a.csv.GZ", "a.csv/"] {
            assert!(!pattern.fits(name), "{name}");
        }
    }

    #[test]
    fn patterns_that_can_fit_no_file_are_refused() {
        for pattern in ["", "a/b", "[a", "[]", "[!]", "[b-a]", "a.gz", "*.zst"] {
            assert!(FilePattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
