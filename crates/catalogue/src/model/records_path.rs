//! Where the documents of a file of JSON stand: `$.message.items[*]`, `$['@graph'][*]`, `$.records[*].content`.

use std::fmt;

/// The names of members that lead to a list in the top object, and those that lead from its elements to the documents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordsPath {
    /// From the top object to the list; empty if the top value is the list.
    pub list: Vec<String>,
    /// From an element of the list to the document; empty if the element is the document.
    pub inner: Vec<String>,
}

impl RecordsPath {
    /// Reads a path as definitions have it, or as it is written by its `Display`, without `$` and with `[*]` only before inner names. `None` if it
    /// is none: the steps are `.name` with letters, digits and `_`, or `['name']` with what [can be quoted](Self::can_name), and one `[*]`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut path = Self::default();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let (mut in_elements, mut is_first) = (false, rest.len() == text.len());
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix("[*]") {
                if in_elements {
                    return None;
                }
                (in_elements, is_first, rest) = (true, false, after);
                continue;
            }
            let (name, after) = match rest.strip_prefix('[') {
                Some(quoted) => {
                    let quote = quoted.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
                    quoted[1..].split_once(&format!("{quote}]"))?
                }
                None => {
                    let name = if is_first { rest } else { rest.strip_prefix('.')? };
                    name.split_at(name.find(['.', '[']).unwrap_or(name.len()))
                }
            };
            let is_written_so = if rest.starts_with('[') { Self::can_name(name) } else { !name.is_empty() && is_plain(name) };
            if !is_written_so {
                return None;
            }
            is_first = false;
            if in_elements { &mut path.inner } else { &mut path.list }.push(name.to_owned());
            rest = after;
        }
        Some(path)
    }

    /// Whether a path can have a member of this name: quotation marks of one kind only, and nothing that JSONPath writes with a backslash.
    pub fn can_name(name: &str) -> bool {
        let needs_escapes = name.contains('\'') && name.contains('"') || name.contains('\\') || name.chars().any(char::is_control);
        !name.is_empty() && !needs_escapes
    }

    /// The path as a definition has it.
    pub fn to_json_path(&self) -> String {
        format!("${}[*]{}", Steps(&self.list), Steps(&self.inner))
    }
}

impl fmt::Display for RecordsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = Steps(&self.list).to_string();
        f.write_str(list.strip_prefix('.').unwrap_or(&list))?;
        if self.inner.is_empty() { Ok(()) } else { write!(f, "[*]{}", Steps(&self.inner)) }
    }
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

struct Steps<'n>(&'n [String]);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| match name {
            name if is_plain(name) => write!(f, ".{name}"),
            name if name.contains('\'') => write!(f, "[\"{name}\"]"),
            name => write!(f, "['{name}']"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_they_are_written() {
        for (text, canonical, written) in [
            ("$.value[*]", "value", "$.value[*]"),
            ("$.message.items", "message.items", "$.message.items[*]"),
            ("$['@graph'][*]", "['@graph']", "$['@graph'][*]"),
            ("$.data[\"it's new\"][*].content", "data[\"it's new\"][*].content", "$.data[\"it's new\"][*].content"),
            ("$[*]", "", "$[*]"),
            ("$[*].record", "[*].record", "$[*].record"),
            ("$['a.b']['c[*]'][*]", "['a.b']['c[*]']", "$['a.b']['c[*]'][*]"),
        ] {
            let path = RecordsPath::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((path.to_string().as_str(), path.to_json_path().as_str()), (canonical, written));
            assert_eq!(RecordsPath::parse(canonical), Some(path));
        }
        for text in ["$..a", "$.a[*][*]", "$.a b", "$.", "$a", "$['a", "$[a]", "$[0]", "$['']", "$.a[*]b", r"$['it\'s'][*]", r"$['a\\b'][*]"] {
            assert_eq!(RecordsPath::parse(text), None, "{text}");
        }
    }
}
