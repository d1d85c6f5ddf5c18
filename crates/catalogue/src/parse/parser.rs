//! The parser of a definition: the errors found so far, and methods that read a single node or report an error.

use super::keywords::Keyword;
use super::yaml::{Node, NodeKind};
use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::eval::{ConstantTables, Expression};
use crate::model::ids::FieldId;
use crate::value::{FieldType, Value, from_text};
use regex::Regex;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};

/// An entry of a mapping from names.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedNode<'n> {
    pub(super) name: &'n str,
    pub(super) name_node: &'n Node,
    pub(super) node: &'n Node,
}

pub(super) struct DefinitionParser<'t> {
    pub(super) text: &'t str,
    pub(super) problems: Vec<Diagnostic>,
    /// Type errors of expressions.
    pub(super) mistyped: Vec<Diagnostic>,
    /// The fields that documents give, by collection, each with the node of its rule: for sources without a `map` of their own.
    pub(super) field_rules: HashMap<String, Vec<(FieldId, Node)>>,
    /// Reads a file that the definition names.
    pub(super) read_file: &'t dyn Fn(&str) -> std::io::Result<String>,
    /// Constant tables, and named areas.
    pub(super) tables: ConstantTables,
    /// Compiled expressions by their text, because similar sources repeat them.
    pub(super) compiled: HashMap<String, Expression>,
}

impl DefinitionParser<'_> {
    pub(super) fn problem(&mut self, node: &Node, message: impl Into<String>) {
        self.problems.push(Diagnostic::new(node.span.clone(), message));
    }

    pub(super) fn problem_with_help(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Diagnostic::new(node.span.clone(), message).help(help));
    }

    /// Returns the entries of a mapping whose keys must all be among `words`.
    pub(super) fn section<'n>(&mut self, node: &'n Node, subject: &str, words: &[&[Keyword]]) -> Option<&'n [(Node, Node)]> {
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("{subject} is a mapping, this is {}", node.kind_name()));
            return None;
        };
        let known = || words.iter().flat_map(|words| words.iter()).map(|word| word.name);
        for (name, _) in entries {
            let written = name.text().unwrap_or_default();
            if known().any(|word| word == written) {
                continue;
            }
            let message = format!("{subject} has no key `{written}`");
            match did_you_mean(written, known()) {
                Some(suggestion) => self.problem_with_help(name, message, format!("did you mean `{suggestion}`?")),
                None => self.problem_with_help(name, message, format!("its keys are {}", known().collect::<Vec<_>>().join(", "))),
            }
        }
        Some(entries)
    }

    /// Returns the entries of a mapping from names.
    pub(super) fn named_entries<'n>(&mut self, node: Option<&'n Node>, subject: &str) -> Vec<NamedNode<'n>> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("{subject} are a mapping from names, this is {}", node.kind_name()));
            return Vec::new();
        };
        let mut named_entries = Vec::with_capacity(entries.len());
        for (name_node, node) in entries {
            let name = name_node.text().unwrap_or_default();
            let valid = name.starts_with(|c: char| c.is_ascii_lowercase())
                && name.len() <= 48
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if valid {
                named_entries.push(NamedNode { name, name_node, node });
            } else {
                self.problem(name_node, format!("`{name}` is not a name: a small letter, then small letters, digits and _, at most 48"));
            }
        }
        named_entries
    }

    pub(super) fn text_of<'n>(&mut self, node: &'n Node, subject: &str) -> Option<&'n str> {
        let text = match &node.kind {
            NodeKind::Scalar { text, .. } if !node.is_null() => Some(text.as_str()),
            _ => None,
        };
        if text.is_none() {
            let hint = matches!(node.kind, NodeKind::Map(_) | NodeKind::List(_));
            let message = format!("{subject} is text, this is {}", node.kind_name());
            if hint && self.text[node.span.clone()].starts_with(['{', '[']) {
                self.problem_with_help(node, message, "YAML reads { and [ as a mapping or a list: quote this path or expression");
            } else {
                self.problem(node, message);
            }
        }
        text
    }

    pub(super) fn boolean(&mut self, node: Option<&Node>, subject: &str) -> bool {
        let Some(node) = node else { return false };
        match &node.kind {
            NodeKind::Scalar { text, quoted: false } if text == "true" => true,
            NodeKind::Scalar { text, quoted: false } if text == "false" => false,
            _ => {
                self.problem_with_help(
                    node,
                    format!("{subject} is true or false, this is {}", node.kind_name()),
                    "this is YAML 1.2: yes, no, on and off are text",
                );
                false
            }
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, node: Option<&Node>, subject: &str, choices: &[(&str, T)]) -> Option<T> {
        let node = node?;
        let text = self.text_of(node, subject)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let message = format!("`{text}` is not a {subject}");
        match did_you_mean(text, names.iter().copied()) {
            Some(suggestion) => self.problem_with_help(node, message, format!("did you mean `{suggestion}`?")),
            None => self.problem_with_help(node, message, format!("it is one of {}", names.join(", "))),
        }
        None
    }

    /// Returns the index of a name among others, or reports an error that lists them.
    pub(super) fn reference<I: From<usize>>(&mut self, node: &Node, subject: &str, names: &[&str]) -> Option<I> {
        let text = self.text_of(node, subject)?.to_owned();
        if let Some(index) = names.iter().position(|name| *name == text) {
            return Some(I::from(index));
        }
        let message = format!("there is no {subject} `{text}`");
        match did_you_mean(&text, names.iter().copied()) {
            Some(suggestion) => self.problem_with_help(node, message, format!("did you mean `{suggestion}`?")),
            None if names.is_empty() => self.problem(node, message),
            None => self.problem_with_help(node, message, format!("there is {}", names.join(", "))),
        }
        None
    }

    pub(super) fn items<'n>(&mut self, node: Option<&'n Node>, subject: &str) -> &'n [Node] {
        match node.map(|node| (&node.kind, node)) {
            None => &[],
            Some((NodeKind::List(items), _)) => items,
            Some((_, node)) => {
                self.problem(node, format!("{subject} is a list, this is {}", node.kind_name()));
                &[]
            }
        }
    }

    pub(super) fn required<'n>(&mut self, node: &'n Node, word: &str) -> Option<&'n Node> {
        let found = node.get(word);
        if found.is_none() {
            self.problem(node, format!("`{word}` is missing"));
        }
        found
    }

    pub(super) fn number_of(&mut self, node: &Node, subject: &str, range: RangeInclusive<u32>) -> Option<u32> {
        let number = self.text_of(node, subject)?.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let upper_bound = if *range.end() == u32::MAX { String::new() } else { format!(" to {}", range.end()) };
            self.problem(node, format!("{subject} is a whole number from {}{upper_bound}", range.start()));
        }
        number
    }

    /// Parses a duration; returns microseconds.
    pub(super) fn duration(&mut self, node: &Node, subject: &str) -> Option<i64> {
        let text = self.text_of(node, subject)?.to_owned();
        match from_text(&text, &FieldType::Duration, None) {
            Ok(Value::Int(micros)) => Some(micros),
            _ => {
                self.problem(node, format!("{subject} is a duration, such as 15s or 1h"));
                None
            }
        }
    }

    pub(super) fn pattern(&mut self, node: &Node) -> Option<Regex> {
        self.regex(node, |text| format!("^(?:{text})"))
    }

    /// Compiles a regular expression, made of the text by `whole`.
    pub(super) fn regex(&mut self, node: &Node, whole: impl Fn(&str) -> String) -> Option<Regex> {
        let text = self.text_of(node, "a regular expression")?.to_owned();
        match Regex::new(&whole(&text)) {
            Ok(pattern) => Some(pattern),
            Err(_) => {
                self.problem(node, format!("`{text}` is not a regular expression"));
                None
            }
        }
    }

    /// Returns the position of a byte inside a scalar: exact for plain scalars, and for quoted ones without escapes before it.
    pub(super) fn span_at(&self, node: &Node, at: usize) -> Range<usize> {
        let written = &self.text[node.span.clone()];
        let quote = usize::from(written.starts_with(['"', '\'']));
        let start = (node.span.start + quote + at).min(node.span.end.saturating_sub(quote)).max(node.span.start);
        start..(start + 1).min(node.span.end).max(start)
    }
}
