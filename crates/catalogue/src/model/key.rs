//! Keys of records: what identifies a record inside its collection and tenant.

use crate::value::SmolStr;
use std::fmt;

/// Max bytes of a key: what every store can index.
pub const MAX_KEY_BYTES: usize = 512;

/// A record's key: 1 to [`MAX_KEY_BYTES`] bytes of UTF-8, ordered by its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(SmolStr);

/// Why a text is not a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is empty.
    #[error("the key is empty")]
    Empty,
    /// Longer than [`MAX_KEY_BYTES`].
    #[error("the key has {0} bytes, at most {MAX_KEY_BYTES} are allowed")]
    TooLong(usize),
    /// Contains a NUL character.
    #[error("the key contains a NUL character")]
    Nul,
}

impl Key {
    /// Checks length and characters.
    ///
    /// # Errors
    /// When the text is empty, too long or contains NUL.
    pub fn new(text: impl Into<SmolStr>) -> Result<Self, KeyError> {
        let text = text.into();
        if text.is_empty() {
            return Err(KeyError::Empty);
        }
        if text.len() > MAX_KEY_BYTES {
            return Err(KeyError::TooLong(text.len()));
        }
        if text.contains('\0') {
            return Err(KeyError::Nul);
        }
        Ok(Self(text))
    }

    /// Returns the key as a shared text.
    pub fn shared(&self) -> SmolStr {
        self.0.clone()
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key template such as `{ref}/{sample}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// Literal texts and names, in order.
    pub parts: Vec<TemplatePart>,
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as written.
    Literal(String),
    /// The value of a name.
    Name(String),
}

impl Template {
    /// Parses `{name}` placeholders; `{{` is a brace.
    ///
    /// # Errors
    /// The byte position of the error, and what is wrong.
    pub fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let position = text.len() - rest.len() + at;
            literal.push_str(&rest[..at]);
            if rest[at..].starts_with("{{") || rest[at..].starts_with("}}") {
                literal.push_str(&rest[at..=at]);
                rest = &rest[at + 2..];
                continue;
            }
            let end = rest[at..].find('}').filter(|_| rest[at..].starts_with('{'));
            let end = end.ok_or_else(|| (position, "a placeholder is {name}".to_owned()))?;
            let name = &rest[at + 1..at + end];
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) {
                return Err((position, format!("`{{{name}}}` is not a placeholder: names have letters, digits, _ and .")));
            }
            if !literal.is_empty() {
                parts.push(TemplatePart::Literal(std::mem::take(&mut literal)));
            }
            if matches!(parts.last(), Some(TemplatePart::Name(_))) {
                return Err((position, "two placeholders need a separator between them, or two values could make one key".into()));
            }
            parts.push(TemplatePart::Name(name.to_owned()));
            rest = &rest[at + end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal));
        }
        Ok(Self { parts })
    }

    /// Returns the names the template uses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Name(name) => Some(name.as_str()),
            TemplatePart::Literal(_) => None,
        })
    }

    /// Fills the template; `None` if a value is absent. Injective: different values never give the same text, because in a template with several
    /// names, `%` and the first character of the following separator are written as `%XX` inside values. A single value is not escaped, so that a
    /// link by key leads to records whose key is that field.
    pub fn fill<'v>(&self, mut value: impl FnMut(&str) -> Option<std::borrow::Cow<'v, str>>) -> Option<String> {
        let mut out = String::new();
        let escapes = self.names().nth(1).is_some();
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                TemplatePart::Literal(text) => out.push_str(text),
                TemplatePart::Name(name) => {
                    let filled = value(name)?;
                    let separator = match self.parts.get(index + 1) {
                        Some(TemplatePart::Literal(text)) => text.chars().next(),
                        _ => None,
                    };
                    for character in filled.chars() {
                        if escapes && (character == '%' || Some(character) == separator) {
                            let mut bytes = [0; 4];
                            for byte in character.encode_utf8(&mut bytes).bytes() {
                                out.push_str(&format!("%{byte:02X}"));
                            }
                        } else {
                            out.push(character);
                        }
                    }
                }
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fill(template: &Template, values: [&str; 2]) -> String {
        template.fill(|name| Some(values[usize::from(name == "b")].into())).expect("both given")
    }

    #[test]
    fn separators_inside_values_are_escaped() {
        let template = Template::parse("{a}/{b}").expect("valid");
        assert_eq!(fill(&template, ["x/y", "z"]), "x%2Fy/z");
        assert_eq!(fill(&template, ["x", "y/z"]), "x/y/z");
    }

    #[test]
    fn one_value_alone_stays_as_it_is() {
        for (template, filled) in [("{a}", "100%/x"), ("of {a}/", "of 100%/x/")] {
            assert_eq!(fill(&Template::parse(template).expect("valid"), ["100%/x", "-"]), filled);
        }
    }

    #[test]
    fn a_template_without_separator_is_refused() {
        assert!(Template::parse("{a}{b}").is_err());
        assert!(Template::parse("{a").is_err());
        assert!(Template::parse("a}").is_err());
    }

    proptest! {
        #[test]
        fn templates_are_injective(a in "[a/%é ]{0,4}", b in "[a/%é ]{0,4}", c in "[a/%é ]{0,4}", d in "[a/%é ]{0,4}") {
            let template = Template::parse("{a}/{b}").expect("valid");
            let equal_keys = fill(&template, [&a, &b]) == fill(&template, [&c, &d]);
            prop_assert_eq!(equal_keys, a == c && b == d);
        }
    }
}
