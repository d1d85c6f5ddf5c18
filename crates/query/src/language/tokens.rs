//! Where names and values end in a text, and how values are quoted.

/// Whether a value without quotes ends before this character.
pub fn ends_bare(character: char) -> bool {
    character.is_whitespace() || matches!(character, ',' | '|' | '[' | ']' | '(' | ')' | '=' | '<' | '>' | '!' | '"' | '\'')
}

/// The name at the beginning of a text.
pub fn leading_name(text: &str) -> &str {
    let length = text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')).count();
    &text[..length]
}

/// A text as a value in a query, quoted if necessary.
pub fn as_value(text: &str) -> String {
    let is_plain = |character: char| !ends_bare(character) && !matches!(character, '*' | '\\');
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    stook_catalogue::eval::functions::quoted(text)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn values_are_quoted_where_they_need_it() {
        for (text, value) in [("a/b:c", "a/b:c"), ("", "\"\""), ("a b", "\"a b\""), ("a*", "\"a\\*\""), ("a\"b", "\"a\\\"b\""), ("x=1", "\"x=1\"")] {
            assert_eq!(as_value(text), value);
            let query = parse(&format!("c f={value}")).expect("valid");
            assert_eq!(query.lookup.conditions[0].values[0].literal(), Some(text));
        }
    }
}
