//! A tree that is not XML: the evaluator only needs the trait.

use stook_xpath::tree::{NodeKind, QualifiedName, Tree, TreeNode, XmlTree};
use stook_xpath::{ExpandedName, XPath, XPathValue, evaluate, find_nodes};

/// Folders with files, whose sizes are attributes.
struct Folders {
    names: Vec<&'static str>,
    nodes: Vec<(TreeNode, u32, String)>,
}

impl Folders {
    fn new() -> Self {
        let root = TreeNode { kind: NodeKind::Root, attributes: 0, parent: 0, end: 1 };
        Self { names: vec!["size"], nodes: vec![(root, 0, String::new())] }
    }

    /// Adds a folder, or with a size a file, at the end of an open folder, the last one of its level.
    fn add(&mut self, parent: usize, name: &'static str, size: Option<u32>) -> usize {
        let number = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let at = self.nodes.len();
        let attributes = usize::from(size.is_some());
        let end = at + 1 + attributes;
        self.nodes.push((TreeNode { kind: NodeKind::Element, attributes, parent, end }, number as u32, String::new()));
        if let Some(size) = size {
            self.nodes.push((TreeNode { kind: NodeKind::Attribute, attributes: 0, parent: at, end }, 0, size.to_string()));
        }
        let mut above = parent;
        loop {
            self.nodes[above].0.end = end;
            if above == 0 {
                return at;
            }
            above = self.nodes[above].0.parent;
        }
    }
}

impl Tree for Folders {
    fn size(&self) -> usize {
        self.nodes.len()
    }

    fn node(&self, node: usize) -> TreeNode {
        self.nodes[node].0
    }

    fn number_of(&self, name: &ExpandedName) -> Option<u32> {
        let number = self.names.iter().position(|known| **known == *name.local && name.uri.is_empty())?;
        Some(number as u32)
    }

    fn name_number(&self, node: usize) -> u32 {
        self.nodes[node].1
    }

    fn name(&self, node: usize) -> QualifiedName<'_> {
        QualifiedName { local: self.names[self.nodes[node].1 as usize], ..QualifiedName::default() }
    }

    fn own_text(&self, node: usize) -> &str {
        &self.nodes[node].2
    }
}

const XML: &str = "<home><notes><todo size='12'/><done size='30'/></notes><todo size='5'/><empty/></home>";

fn folders() -> Folders {
    let mut all = Folders::new();
    let home = all.add(0, "home", None);
    let notes = all.add(home, "notes", None);
    all.add(notes, "todo", Some(12));
    all.add(notes, "done", Some(30));
    all.add(home, "todo", Some(5));
    all.add(home, "empty", None);
    all
}

#[test]
fn a_custom_tree_gives_the_same_results_as_xml_of_the_same_structure() {
    let (folders, xml) = (folders(), XmlTree::parse(XML.as_bytes()).expect("XML"));
    for expression in [
        "sum(//@size)",
        "name(*[2])",
        "//todo/@size",
        "//*[not(@size)]",
        "name(//done/preceding::*[1])",
        "name(//done/following::todo/..)",
        "count(//todo/ancestor-or-self::node())",
        "//@size[. > 10]",
        "count(/*/*/preceding-sibling::*)",
        "count(//@size/following::*)",
        "local-name(//@*[1])",
        "//nothing or notes/done",
        "count(//namespace::*) = 0 or true()",
    ] {
        let xpath = XPath::parse(expression, &[]).unwrap_or_else(|error| panic!("{expression}: {error}"));
        assert_eq!(evaluate(&xpath, &folders, 10_000), evaluate(&xpath, &xml, 10_000), "{expression}");
    }
}

#[test]
fn found_nodes_are_numbers_of_the_tree() {
    let all: &dyn Tree = &folders();
    let found = find_nodes(&XPath::parse("notes/*", &[]).expect("path"), all, 1_000).expect("few steps");
    assert_eq!(found.iter().map(|node| all.name(node.index()).local).collect::<Vec<_>>(), ["todo", "done"]);
    assert_eq!(evaluate(&XPath::parse("count(//*)", &[]).expect("path"), all, 1_000), Ok(XPathValue::Number(6.0)));
}
