//! Parses YAML 1.2 to a tree whose nodes know their positions.
//!
//! Duplicate keys, unknown anchors, merge keys (`<<`) and too deep or too large expansions are handled here, so that the rest of the crate sees plain
//! trees.

use crate::diagnostic::Diagnostic;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::HashMap;
use std::ops::Range;

/// Max nesting of a definition.
const MAX_DEPTH: usize = 64;
/// Max nodes of a definition after its aliases are expanded.
const MAX_NODES: usize = 200_000;

/// A value and its position in the text.
#[derive(Debug, Clone)]
pub struct Node {
    /// The bytes of the text it was written at.
    pub span: Range<usize>,
    /// Its kind.
    pub kind: NodeKind,
}

/// The kinds of nodes.
#[derive(Debug, Clone)]
pub enum NodeKind {
    /// A scalar; `quoted` scalars are always text.
    Scalar {
        /// The text after unescaping.
        text: String,
        /// Whether it was written in quotes or as a block.
        quoted: bool,
    },
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in the order it was written, without duplicate keys.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// Returns the scalar's text, if this is a scalar that is not null.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Returns the elements of a list; anything else is a list of one.
    pub fn items_or_self(&self) -> &[Node] {
        match &self.kind {
            NodeKind::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    /// Whether this is a plain null.
    pub fn is_null(&self) -> bool {
        matches!(&self.kind, NodeKind::Scalar { text, quoted: false } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// Returns the value of `key`, if this is a mapping that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(entries) => entries.iter().find(|(name, _)| name.text() == Some(key)).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the kind of node in words, for messages.
    pub fn kind_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Scalar { .. } if self.is_null() => "nothing",
            NodeKind::Scalar { quoted: false, text } if text == "true" || text == "false" => "a boolean",
            NodeKind::Scalar { quoted: false, text } if text.parse::<f64>().is_ok() => "a number",
            NodeKind::Scalar { .. } => "text",
            NodeKind::List(_) => "a list",
            NodeKind::Map(_) => "a mapping",
        }
    }
}

/// Parses one YAML document.
///
/// # Errors
/// The first syntax error (YAML cannot be read past one), or every duplicate key.
pub fn parse(text: &str) -> Result<Node, Vec<Diagnostic>> {
    let mut tree =
        TreeBuilder { offsets: CharOffsets::new(text), text, stack: Vec::new(), anchors: HashMap::new(), nodes: 0, root: None, problems: Vec::new() };
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        match event {
            Ok((Event::DocumentStart(_), span)) => {
                documents += 1;
                if documents > 1 {
                    let at = tree.offsets.byte(span.start.index());
                    return Err(vec![Diagnostic::new(at..at, "a definition is one YAML document; remove everything after `---`")]);
                }
            }
            Ok((event, span)) => tree.event(event, span).map_err(|problem| vec![problem])?,
            Err(error) => {
                let at = tree.offsets.byte(error.marker().index());
                return Err(vec![syntax_error(text, at, error.info())]);
            }
        }
    }
    if !tree.problems.is_empty() {
        return Err(tree.problems);
    }
    tree.root.ok_or_else(|| vec![Diagnostic::new(0..0, "the definition is empty")])
}

/// Makes the diagnostic of a syntax error. Paths are full of characters that YAML gives a meaning (`@`, `*`, `{`, `[`, `%`, `` ` ``), so it suggests
/// quotes if that is the likely cause.
fn syntax_error(text: &str, at: usize, info: &str) -> Diagnostic {
    let line_start = text[..at].rfind('\n').map_or(0, |position| position + 1);
    let line_end = text[line_start..].find('\n').map_or(text.len(), |position| line_start + position);
    let line = &text[line_start..line_end];
    let end = (at + 1).min(line_end).max(at);
    let problem = Diagnostic::new(at..end, format!("not YAML: {info}"));
    let special = ["@", "$.", "[*]", "//", "%", "`", "{", "*"];
    if special.iter().any(|mark| line.contains(mark)) {
        return problem.help("YAML gives @ * & { } [ ] % ` a meaning of its own: quote this path, for example \"$.a[*].b\" or '@id'");
    }
    problem
}

struct TreeBuilder<'a> {
    offsets: CharOffsets,
    text: &'a str,
    stack: Vec<PendingNode>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    root: Option<Node>,
    problems: Vec<Diagnostic>,
}

struct PendingNode {
    start: usize,
    anchor: usize,
    kind: PendingKind,
}

enum PendingKind {
    List(Vec<Node>),
    Map { entries: Vec<(Node, Node)>, key: Option<Node> },
}

impl TreeBuilder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), Diagnostic> {
        let start = self.offsets.byte(span.start.index());
        let end = self.offsets.byte(span.end.index());
        match event {
            Event::Scalar(text, style, anchor, _) => {
                let quoted = style != ScalarStyle::Plain;
                self.insert_node(Node { span: start..end, kind: NodeKind::Scalar { text: text.into_owned(), quoted } }, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(start, anchor, PendingKind::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.open(start, anchor, PendingKind::Map { entries: Vec::new(), key: None }),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(open) = self.stack.pop() else { return Ok(()) };
                let span = open.start..self.trimmed_end(open.start, end);
                let node = match open.kind {
                    PendingKind::List(items) => Node { span, kind: NodeKind::List(items) },
                    PendingKind::Map { entries, .. } => {
                        let entries = self.finish_map(entries);
                        Node { span, kind: NodeKind::Map(entries) }
                    }
                };
                self.insert_node(node, open.anchor)
            }
            Event::Alias(anchor) => {
                let target =
                    self.anchors.get(&anchor).ok_or_else(|| Diagnostic::new(start..end, "this alias names an anchor that is not finished yet"))?;
                let nodes = descendants(target);
                if self.nodes + nodes > MAX_NODES {
                    return Err(too_many_nodes(start..end));
                }
                let node = Node { span: start..end, kind: target.kind.clone() };
                self.nodes += nodes;
                self.insert_node(node, 0)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, start: usize, anchor: usize, kind: PendingKind) -> Result<(), Diagnostic> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(Diagnostic::new(start..start + 1, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.stack.push(PendingNode { start, anchor, kind });
        Ok(())
    }

    fn insert_node(&mut self, node: Node, anchor: usize) -> Result<(), Diagnostic> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(too_many_nodes(node.span));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        match self.stack.last_mut().map(|open| &mut open.kind) {
            None => self.root = Some(node),
            Some(PendingKind::List(items)) => items.push(node),
            Some(PendingKind::Map { entries, key }) => match key.take() {
                None => *key = Some(node),
                Some(name) => entries.push((name, node)),
            },
        }
        Ok(())
    }

    /// Applies merge keys and reports duplicates.
    fn finish_map(&mut self, entries: Vec<(Node, Node)>) -> Vec<(Node, Node)> {
        let mut unique: Vec<(Node, Node)> = Vec::with_capacity(entries.len());
        let mut merged: Vec<(Node, Node)> = Vec::new();
        for (mut name, value) in entries {
            // `null` is a word of sources; as a key it is text
            if let NodeKind::Scalar { text, quoted } = &mut name.kind {
                *quoted |= text == "null";
            }
            let Some(key) = name.text().map(str::to_owned) else {
                self.problems.push(Diagnostic::new(name.span.clone(), "a key must be text"));
                continue;
            };
            if key == "<<" {
                let parts = match value.kind {
                    NodeKind::Map(inner) => vec![inner],
                    NodeKind::List(items) => {
                        items.into_iter().filter_map(|item| if let NodeKind::Map(inner) = item.kind { Some(inner) } else { None }).collect()
                    }
                    NodeKind::Scalar { .. } => {
                        self.problems.push(Diagnostic::new(value.span, "`<<` takes a mapping, usually an alias"));
                        continue;
                    }
                };
                merged.extend(parts.into_iter().flatten());
                continue;
            }
            if unique.iter().any(|(other, _)| other.text() == Some(&key)) {
                self.problems.push(Diagnostic::new(name.span.clone(), format!("`{key}` is written twice in this mapping")));
                continue;
            }
            unique.push((name, value));
        }
        for (name, value) in merged {
            if !unique.iter().any(|(other, _)| other.text() == name.text()) {
                unique.push((name, value));
            }
        }
        unique
    }

    /// Returns the end of a node without the white space after it, because a block's end event is at the start of what follows.
    fn trimmed_end(&self, start: usize, end: usize) -> usize {
        start + self.text[start..end.max(start)].trim_end().len()
    }
}

fn too_many_nodes(span: Range<usize>) -> Diagnostic {
    Diagnostic::new(span, format!("the definition has more than {MAX_NODES} nodes"))
}

fn descendants(node: &Node) -> usize {
    match &node.kind {
        NodeKind::Scalar { .. } => 0,
        NodeKind::List(items) => items.iter().map(|item| 1 + descendants(item)).sum(),
        NodeKind::Map(entries) => entries.iter().map(|(_, value)| 2 + descendants(value)).sum(),
    }
}

/// Translates the parser's character positions to byte positions.
struct CharOffsets {
    /// Byte offset of every character; empty for ASCII, where both are equal.
    bytes: Vec<usize>,
    len: usize,
}

impl CharOffsets {
    fn new(text: &str) -> Self {
        let bytes = if text.is_ascii() { Vec::new() } else { text.char_indices().map(|(at, _)| at).collect() };
        Self { bytes, len: text.len() }
    }

    fn byte(&self, character: usize) -> usize {
        if self.bytes.is_empty() {
            return character.min(self.len);
        }
        self.bytes.get(character).copied().unwrap_or(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merge_keys_add_only_missing_entries() {
        let node = parse("a: &x { p: 1, q: 2 }\nb: { <<: *x, q: 3 }").expect("valid");
        let b = node.get("b").expect("b");
        assert_eq!(b.get("p").and_then(Node::text), Some("1"));
        assert_eq!(b.get("q").and_then(Node::text), Some("3"));
    }

    #[test]
    fn a_path_that_is_not_yaml_is_reported_with_advice_to_quote_it() {
        let problems = parse("a: { se: @id }").expect_err("not YAML");
        assert!(problems[0].help.as_deref().is_some_and(|help| help.contains("quote this path")), "{problems:?}");
    }

    #[test]
    fn duplicate_keys_are_all_reported() {
        assert_eq!(parse("a: 1\na: 2\nb: {c: 1, c: 2}").expect_err("duplicates").len(), 2);
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let previous = format!("*a{}", level - 1);
            let items = vec![previous; 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{items}]\n"));
        }
        assert!(parse(&text).is_err());
    }
}
