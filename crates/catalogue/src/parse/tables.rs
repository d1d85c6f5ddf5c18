//! Parses constant tables (`lookups`), named areas (`areas`) and sets of regular expressions (`patterns`).

use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::eval::{ConstantTable, ConstantTables, TableValue};
use crate::model::definition::AreaFile;
use crate::model::definition::{NamedRegex, PatternSet};
use crate::parse::keywords;
use regex::RegexBuilder;
use stook_geometry::{Limits, NamedAreas};

/// Limits of a file of areas, which may contain tiles of the entire Earth.
const AREA_FILE: Limits = Limits { bytes: MAX_AREA_FILE, ..Limits::AREA };
/// Bytes of a file of areas at most.
pub const MAX_AREA_FILE: usize = 64 << 20;

impl DefinitionParser<'_> {
    pub(super) fn tables(&mut self, node: Option<&Node>) -> ConstantTables {
        let mut tables = ConstantTables::default();
        for NamedNode { name, node, .. } in self.named_entries(node, "lookups") {
            // a list is tried in order; each key is a regular expression on the beginning
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
                    self.problem(node, format!("a lookup is a mapping from key to value, this is {}", node.kind_name()));
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
            tables.insert(name, table);
        }
        tables
    }

    /// Reads the files of named areas into `tables`. A file that does not exist is noted; functions on its areas then return null.
    pub(super) fn areas(&mut self, node: Option<&Node>, tables: &mut ConstantTables) -> Vec<AreaFile> {
        let mut files = Vec::new();
        for NamedNode { name, node, .. } in self.named_entries(node, "areas") {
            let (file_node, property) = if matches!(node.kind, NodeKind::Map(_)) {
                if self.section(node, "areas", &[keywords::AREAS]).is_none() {
                    continue;
                }
                let property = node.get("name").and_then(|node| self.text_of(node, "the property with the name")).unwrap_or("name");
                let Some(file) = self.required(node, "file") else { continue };
                (file, property)
            } else {
                (node, "name")
            };
            let Some(file) = self.text_of(file_node, "a file of areas") else { continue };
            if file.starts_with(['/', '~']) || file.contains('\\') || file.split('/').any(|part| matches!(part, "" | "." | "..")) {
                self.problem(file_node, "a file of areas lies beside the definition, or in a folder there: write its path from there");
                continue;
            }
            let mut area_file = AreaFile { name: name.to_owned(), file: file.to_owned(), hash: None, repairs: Vec::new() };
            let areas = match (self.read_file)(file) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => {
                    self.problem(file_node, format!("`{file}` cannot be read: {error}"));
                    continue;
                }
                Ok(text) => match NamedAreas::read(&text, property, &AREA_FILE) {
                    Ok((areas, warnings)) => {
                        area_file.hash = Some(blake3::hash(format!("{property}\n{text}").as_bytes()).to_hex().to_string());
                        area_file.repairs = warnings.iter().map(ToString::to_string).collect();
                        Some(areas)
                    }
                    Err(error) => {
                        self.problem(file_node, format!("`{file}`: {error}"));
                        continue;
                    }
                },
            };
            tables.insert_areas(name, areas);
            files.push(area_file);
        }
        files
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
        for NamedNode { name, node, .. } in self.named_entries(node, "patterns") {
            let NodeKind::List(items) = &node.kind else {
                self.problem(node, format!("a pattern is a list of regular expressions, this is {}", node.kind_name()));
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
