//! Paths evaluated on documents.

use crate::Document;
use crate::marc::{Field, MarcRecord};
use roxmltree::{Node, NodeType};
use std::borrow::Cow;
use stook_catalogue::marcspec::{Condition, MarcSpec, Operand, Operator, Part, SubfieldSpec, TagPattern, Test};
use stook_catalogue::path::Path;
use stook_catalogue::xpath::{Axis, NodeTest, Predicate, Step, XPath};

/// Something a path found.
#[derive(Debug, Clone, PartialEq)]
pub enum Selected<'d> {
    /// Text, and for MARC the number of the field it is in.
    Text(Cow<'d, str>, u32),
    /// A JSON value.
    Json(&'d serde_json::Value),
}

/// Everything `path` finds in `document`, in document order. `namespaces` binds XPath prefixes.
///
/// A path of another format's language finds nothing: definitions are checked so that this does not happen.
pub fn select<'d>(document: &'d Document<'_>, path: &Path, namespaces: &[(String, String)], found: &mut Vec<Selected<'d>>) {
    match (document, path) {
        (Document::Marc(record), Path::Marc(spec)) => marc(record, spec, &mut |text, field| found.push(Selected::Text(text, field))),
        (Document::Json(value), Path::JsonMembers(names)) => {
            let target = names.iter().try_fold(value, |value, name| value.get(name));
            found.extend(target.filter(|target| !target.is_null()).map(Selected::Json));
        }
        (Document::Json(value), Path::Json(path)) => {
            found.extend(path.query(value).all().into_iter().filter(|value| !value.is_null()).map(Selected::Json));
        }
        (Document::Xml(tree), Path::Xml(path)) => {
            let nodes = xpath(tree.root_element(), path, namespaces);
            found.extend(nodes.into_iter().map(|text| Selected::Text(text, 0)));
        }
        (Document::Csv(row), Path::Column(name)) => {
            found.extend(row.get(name).map(|value| Selected::Text(Cow::Borrowed(value), 0)));
        }
        _ => {}
    }
}

// --- MARCspec -----------------------------------------------------------------------------------------------------------

/// Calls `found` with every value of `spec` and the number of its field, from 0.
fn marc<'d>(record: &'d MarcRecord<'_>, spec: &MarcSpec, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if spec.tag == TagPattern::LEADER {
        let leader = Field { tag: *b"LDR", data: record.leader() };
        if spec.conditions.iter().all(|condition| holds(record, leader, None, condition)) {
            control(leader.data, &spec.part, 0, found);
        }
        return;
    }
    let total = match spec.occurrences {
        None => 0,
        Some(_) => record.tagged(|tag| spec.tag.matches(tag)).count(),
    };
    let wanted = spec.occurrences.map(|range| range.resolve(total));
    for (occurrence, (number, field)) in record.tagged(|tag| spec.tag.matches(tag)).enumerate() {
        let in_range = wanted.as_ref().is_none_or(|wanted| wanted.contains(&occurrence));
        if in_range && spec.conditions.iter().all(|condition| holds(record, field, None, condition)) {
            part(record, field, &spec.part, number as u32, found);
        }
    }
}

fn part<'d>(record: &'d MarcRecord<'_>, field: Field<'d>, part: &Part, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if field.is_control() || field.tag == *b"LDR" {
        return control(field.data, part, number, found);
    }
    match part {
        Part::Whole => field.subfields().for_each(|(_, value)| found(Cow::Borrowed(value), number)),
        Part::Indicator(which) => found(Cow::Borrowed(field.indicators()[usize::from(*which) - 1]), number),
        Part::Characters(_) => {}
        Part::Subfields(specs) => subfields(record, field, specs, number, found),
    }
}

fn control<'d>(data: &'d str, part: &Part, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    match part {
        Part::Whole => found(Cow::Borrowed(data), number),
        Part::Characters(range) => {
            let text = characters(data, range);
            if !text.is_empty() {
                found(Cow::Borrowed(text), number);
            }
        }
        Part::Indicator(_) | Part::Subfields(_) => {}
    }
}

fn characters<'d>(data: &'d str, range: &stook_catalogue::marcspec::Range) -> &'d str {
    if data.is_ascii() {
        return &data[range.resolve(data.len())];
    }
    let wanted = range.resolve(data.chars().count());
    let byte = |position: usize| data.char_indices().nth(position).map_or(data.len(), |(at, _)| at);
    &data[byte(wanted.start)..byte(wanted.end)]
}

fn subfields<'d>(record: &'d MarcRecord<'_>, field: Field<'d>, specs: &[SubfieldSpec], number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    for (index, (code, value)) in field.subfields().enumerate() {
        let code_byte = code.as_bytes()[0].to_ascii_lowercase();
        for spec in specs {
            if !(spec.first..=spec.last).contains(&code_byte) {
                continue;
            }
            if let Some(range) = spec.occurrences {
                let same = |(_, (other, _)): &(usize, (&str, &str))| *other == code;
                let total = field.subfields().enumerate().filter(same).count();
                let before = field.subfields().enumerate().filter(same).filter(|(position, _)| *position < index).count();
                if !range.resolve(total).contains(&before) {
                    continue;
                }
            }
            if !spec.conditions.iter().all(|condition| holds(record, field, Some(value), condition)) {
                continue;
            }
            let text = spec.characters.as_ref().map_or(value, |range| characters(value, range));
            found(Cow::Borrowed(text), number);
            break;
        }
    }
}

/// A condition holds when one of its tests does.
fn holds(record: &MarcRecord<'_>, field: Field<'_>, value: Option<&str>, condition: &Condition) -> bool {
    condition.0.iter().any(|test| test_holds(record, field, value, test))
}

fn test_holds(record: &MarcRecord<'_>, field: Field<'_>, value: Option<&str>, test: &Test) -> bool {
    let right = operand(record, field, &test.right);
    match test.operator {
        Operator::Exists => return !right.is_empty(),
        Operator::Missing => return right.is_empty(),
        _ => {}
    }
    let left = match &test.left {
        Some(left) => operand(record, field, left),
        None => value.or((field.is_control()).then_some(field.data)).map(str::to_owned).into_iter().collect(),
    };
    let any = |compare: fn(&str, &str) -> bool| left.iter().any(|left| right.iter().any(|right| compare(left, right)));
    match test.operator {
        Operator::Equal => any(|left, right| left == right),
        Operator::NotEqual => !any(|left, right| left == right),
        Operator::Includes => any(|left, right| left.contains(right)),
        Operator::NotIncludes => !any(|left, right| left.contains(right)),
        Operator::Exists | Operator::Missing => false,
    }
}

fn operand(record: &MarcRecord<'_>, field: Field<'_>, operand: &Operand) -> Vec<String> {
    let mut values = Vec::new();
    match operand {
        Operand::Literal(text) => values.push(text.clone()),
        Operand::Here(wanted) => part(record, field, wanted, 0, &mut |text, _| values.push(text.into_owned())),
        Operand::Spec(spec) => marc(record, spec, &mut |text, _| values.push(text.into_owned())),
    }
    values
}

// --- XPath --------------------------------------------------------------------------------------------------------------

/// Ordered as in the document.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum XmlItem<'a, 'input> {
    Node(Node<'a, 'input>),
    Attribute(Node<'a, 'input>, usize),
}

fn xpath<'a>(element: Node<'a, '_>, path: &XPath, namespaces: &[(String, String)]) -> Vec<Cow<'a, str>> {
    let start = if path.absolute { element.document().root() } else { element };
    let mut current = vec![XmlItem::Node(start)];
    for step in &path.steps {
        let mut next: Vec<XmlItem<'a, '_>> = Vec::new();
        for item in current {
            let XmlItem::Node(node) = item else { continue };
            // the descendants of a descendant of a node before are there already
            let covered = step.axis == Axis::DescendantOrSelf && next.last().is_some_and(|last| *last >= item);
            if !covered {
                next.extend(apply(node, step, namespaces));
            }
        }
        next.sort_unstable();
        next.dedup();
        current = next;
    }
    current.into_iter().map(string_value).collect()
}

fn apply<'a, 'input>(node: Node<'a, 'input>, step: &Step, namespaces: &[(String, String)]) -> Vec<XmlItem<'a, 'input>> {
    let mut found: Vec<XmlItem<'a, 'input>> = match step.axis {
        Axis::SelfNode => vec![XmlItem::Node(node)],
        Axis::Parent => node.parent().map(XmlItem::Node).into_iter().collect(),
        Axis::DescendantOrSelf => node.descendants().map(XmlItem::Node).collect(),
        Axis::Attribute => {
            let matches = |attribute: &roxmltree::Attribute<'_, '_>| named(&step.test, attribute.name(), attribute.namespace(), namespaces);
            node.attributes().enumerate().filter(|(_, attribute)| matches(attribute)).map(|(index, _)| XmlItem::Attribute(node, index)).collect()
        }
        Axis::Child => node.children().filter(|child| is(child, &step.test, namespaces)).map(XmlItem::Node).collect(),
    };
    for predicate in &step.predicates {
        match predicate {
            Predicate::Position(position) => found = found.into_iter().skip(position - 1).take(1).collect(),
            Predicate::Test { negated, axis, name, compare } => {
                found.retain(|item| predicate_holds(*item, *axis, name, compare.as_ref(), namespaces) != *negated);
            }
        }
    }
    found
}

fn is(node: &Node<'_, '_>, test: &NodeTest, namespaces: &[(String, String)]) -> bool {
    match test {
        NodeTest::Node => true,
        NodeTest::Text => node.node_type() == NodeType::Text,
        _ => node.is_element() && named(test, node.tag_name().name(), node.tag_name().namespace(), namespaces),
    }
}

fn named(test: &NodeTest, name: &str, namespace: Option<&str>, namespaces: &[(String, String)]) -> bool {
    match test {
        NodeTest::Any => true,
        NodeTest::Name { prefix, local } => {
            let bound = |prefix: &String| match namespaces.iter().find(|(known, _)| known == prefix) {
                Some((_, uri)) => Some(uri.as_str()),
                None => (prefix == "xml").then_some(roxmltree::NS_XML_URI),
            };
            let wanted = prefix.as_ref().and_then(bound);
            // xmlns="" takes the namespace away
            local == name && wanted == namespace.filter(|uri| !uri.is_empty()) && prefix.is_some() == wanted.is_some()
        }
        NodeTest::Text | NodeTest::Node => false,
    }
}

fn predicate_holds(item: XmlItem<'_, '_>, axis: Axis, name: &NodeTest, compare: Option<&(bool, String)>, namespaces: &[(String, String)]) -> bool {
    let values: Vec<Cow<'_, str>> = match (axis, item) {
        (Axis::SelfNode, item) => vec![string_value(item)],
        (_, XmlItem::Attribute(..)) => Vec::new(),
        (axis, XmlItem::Node(node)) => {
            let step = Step { axis, test: name.clone(), predicates: Vec::new() };
            apply(node, &step, namespaces).into_iter().map(string_value).collect()
        }
    };
    match compare {
        None => !values.is_empty(),
        Some((equal, literal)) => values.iter().any(|value| (value == literal) == *equal),
    }
}

/// All text below a node, as XPath's string().
fn string_value<'a>(item: XmlItem<'a, '_>) -> Cow<'a, str> {
    match item {
        XmlItem::Attribute(node, index) => Cow::Borrowed(node.attributes().nth(index).map_or("", |attribute| attribute.value())),
        XmlItem::Node(node) if node.is_text() => Cow::Borrowed(node.text().unwrap_or_default()),
        XmlItem::Node(node) => {
            let mut texts = node.descendants().filter(Node::is_text).filter_map(|text| text.text());
            let first = texts.next().unwrap_or_default();
            match texts.next() {
                None => Cow::Borrowed(first),
                Some(second) => Cow::Owned([first, second].into_iter().chain(texts).collect()),
            }
        }
    }
}
