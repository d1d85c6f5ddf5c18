//! What rules look values up in: constant tables (`lookups`) and sets of regular expressions (`patterns`).

use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::eval::{ConstantTable, ConstantTables, TableValue};
use crate::model::definition::{NamedRegex, PatternSet};
use regex::RegexBuilder;

impl DefinitionParser<'_> {
    pub(super) fn tables(&mut self, node: Option<&Node>) -> ConstantTables {
        let mut tables = ConstantTables::new();
        for NamedNode { name, node, .. } in self.named(node, "lookups") {
            // a list is tried in order, each key as a regular expression on the beginning
            let (rows, in_order): (Vec<&(Node, Node)>, bool) = match &node.kind {
                NodeKind::Map(entries) => (entries.iter().collect(), false),
                NodeKind::List(items) => {
                    let entries = items.iter().map(|item| match &item.kind {
                        NodeKind::Map(entries) => entries.as_slice(),
                        _ => &[],
                    });
                    (entries.flatten().collect(), true)
                }
                NodeKind::Scalar { .. } => {
                    self.problem(node, format!("a lookup is a mapping from key to value, this is {}", node.shape()));
                    continue;
                }
            };
            let mut table = ConstantTable::default();
            for (key_node, value) in rows {
                let (Some(key), Some(entry)) = (key_node.text(), self.entry(value)) else { continue };
                if key == "else" {
                    table.default = Some(entry);
                } else if in_order {
                    match RegexBuilder::new(&format!("^(?:{key})")).size_limit(1 << 20).build() {
                        Ok(pattern) => table.patterns.push((pattern, entry)),
                        Err(_) => self.problem(key_node, format!("`{key}` is not a regular expression")),
                    }
                } else {
                    table.rows.insert(key.to_owned(), entry);
                }
            }
            tables.insert(name.to_owned(), table);
        }
        tables
    }

    fn entry(&mut self, node: &Node) -> Option<TableValue> {
        let NodeKind::List(items) = &node.kind else {
            return Some(TableValue::Text(self.text_of(node, "a lookup's value")?.to_owned()));
        };
        let texts = items.iter().map(|item| self.text_of(item, "a lookup's value").map(str::to_owned));
        texts.collect::<Option<Vec<String>>>().map(TableValue::List)
    }

    pub(super) fn patterns(&mut self, node: Option<&Node>) -> Vec<PatternSet> {
        let mut patterns = Vec::new();
        for NamedNode { name, node, .. } in self.named(node, "patterns") {
            let NodeKind::List(items) = &node.kind else {
                self.problem(node, format!("a pattern is a list of regular expressions, this is {}", node.shape()));
                continue;
            };
            let mut expressions = Vec::with_capacity(items.len());
            for item in items {
                let Some(text) = self.text_of(item, "a regular expression").map(str::to_owned) else { continue };
                match NamedRegex::new(&text) {
                    Ok(expression) => expressions.push(expression),
                    Err(error) => {
                        let message = error.to_string();
                        let last = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                        self.problem(item, format!("not a regular expression: {last}"));
                    }
                }
            }
            patterns.push(PatternSet { name: name.to_owned(), expressions });
        }
        patterns
    }
}
