//! The paths of an XML document, with their values.

use super::Columns;
use crate::column::Native;
use std::collections::HashMap;
use stook_formats::tree::{NodeKind, QualifiedName, Tree, XmlTree};

/// Levels of elements that are paths of their own.
const MAX_LEVELS: usize = 8;
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

pub(super) fn add(tree: &XmlTree<'_>, columns: &mut Columns, namespaces: &mut Vec<(String, String)>) {
    let element = tree.element();
    let mut reader = Reader { tree, columns, namespaces };
    reader.add_element(element, "", 0);
}

struct Reader<'r, 't> {
    tree: &'r XmlTree<'t>,
    columns: &'r mut Columns,
    namespaces: &'r mut Vec<(String, String)>,
}

impl Reader<'_, '_> {
    /// Adds what an element has; `path` is empty for the document's own.
    fn add_element(&mut self, element: usize, path: &str, level: usize) {
        let about = self.tree.node(element);
        for attribute in element + 1..element + 1 + about.attributes {
            let name = self.tree.name(attribute);
            let (step, value) = (self.step(name), self.tree.own_text(attribute).to_owned());
            if !value.is_empty() && name.prefix != "xmlns" {
                self.columns.add(&joined(path, &format!("@{step}")), &value, Native::Text);
            }
        }
        let children = self.children(element);
        let has_text = children.iter().any(|child| self.tree.node(*child).kind == NodeKind::Text && !self.tree.own_text(*child).trim().is_empty());
        let elements: Vec<usize> = children.into_iter().filter(|child| self.tree.node(*child).kind == NodeKind::Element).collect();
        if has_text || elements.is_empty() || level >= MAX_LEVELS {
            let text: String = (element + 1 + about.attributes..about.end)
                .filter(|node| self.tree.node(*node).kind == NodeKind::Text)
                .map(|node| self.tree.own_text(node))
                .collect();
            if !text.is_empty() {
                self.columns.add(if path.is_empty() { "." } else { path }, &text, Native::Text);
            }
            return;
        }
        let mut counts: HashMap<String, u64> = HashMap::new();
        for child in elements {
            let name = self.tree.name(child);
            let step = self.step(name);
            let path = joined(path, &step);
            *counts.entry(path.clone()).or_default() += 1;
            self.add_element(child, &path, level + 1);
        }
        for (path, count) in counts {
            let most = self.columns.lists.entry(path).or_default();
            *most = (*most).max(count);
        }
    }

    fn children(&self, element: usize) -> Vec<usize> {
        let about = self.tree.node(element);
        let (mut found, mut child) = (Vec::new(), element + 1 + about.attributes);
        while child < about.end {
            found.push(child);
            child = self.tree.node(child).end;
        }
        found
    }

    /// A step of a path: the name with a prefix that the definition declares.
    fn step(&mut self, QualifiedName { uri, prefix, local }: QualifiedName<'_>) -> String {
        if uri.is_empty() {
            return local.to_owned();
        }
        if uri == XML_NAMESPACE {
            return format!("xml:{local}");
        }
        if let Some((prefix, _)) = self.namespaces.iter().find(|(_, known)| known == uri) {
            return format!("{prefix}:{local}");
        }
        let is_usable = prefix.starts_with(|first: char| first.is_ascii_lowercase())
            && prefix.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
            && self.namespaces.iter().all(|(known, _)| known != prefix);
        let prefix = if is_usable { prefix.to_owned() } else { format!("n{}", self.namespaces.len() + 1) };
        self.namespaces.push((prefix.clone(), uri.to_owned()));
        format!("{prefix}:{local}")
    }
}

fn joined(path: &str, step: &str) -> String {
    if path.is_empty() { step.to_owned() } else { format!("{path}/{step}") }
}
