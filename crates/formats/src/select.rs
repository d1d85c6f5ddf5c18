//! Paths evaluated on documents.

use crate::Document;
use crate::marc::{MarcField, MarcRecord};
use crate::tree::XmlTree;
use crate::xpath::{self, NodeRef, XPathValue, show_number};
use std::borrow::Cow;
use stook_catalogue::marcspec::{FieldPart, MarcSpec, SpecOperator, SubSpec, SubTerm, SubTermSet, SubfieldSpec, TagPattern};
use stook_catalogue::path::Path;

/// Something a path found.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedValue<'d> {
    /// Text, and for MARC the number of the field it is in.
    Text(Cow<'d, str>, u32),
    /// A JSON value.
    Json(&'d serde_json::Value),
}

/// A place inside a JSON or XML document, from which paths go on.
#[derive(Clone, Copy)]
pub enum ContextNode<'d> {
    /// A value.
    Json(&'d serde_json::Value),
    /// An element.
    Xml(&'d XmlTree<'static>, NodeRef),
}

/// Most steps of an XPath of a definition on one document.
const MOST_STEPS: u64 = 100_000_000;

/// Everything `path` finds in `document`, in document order. An XPath that gives a number or a text finds it; nothing where that is no
/// number, or empty, or takes too long.
///
/// A path of another format's language finds nothing: definitions are checked so that this does not happen.
pub fn select<'d>(document: &'d Document<'_>, path: &Path, found: &mut Vec<SelectedValue<'d>>) {
    match (document, path) {
        (Document::Marc(record), Path::Marc(spec)) => marc(record, spec, &mut |text, field| found.push(SelectedValue::Text(text, field))),
        (Document::Json(value), _) => select_from(ContextNode::Json(value), path, found),
        (Document::Xml(tree), _) => select_from(ContextNode::Xml(tree, xpath::start(tree)), path, found),
        (Document::Csv(row), Path::Column(name)) => {
            found.extend(row.get(name).map(|value| SelectedValue::Text(Cow::Borrowed(value), 0)));
        }
        _ => {}
    }
}

/// The places that `path` finds in a JSON or XML document, in document order.
pub fn places<'d>(document: &'d Document<'_>, path: &Path) -> Vec<ContextNode<'d>> {
    match (document, path) {
        (Document::Xml(tree), Path::Xml(path)) => {
            let found = xpath::places(path, tree, MOST_STEPS).unwrap_or_default();
            found.into_iter().map(|node| ContextNode::Xml(tree, node)).collect()
        }
        (Document::Json(_), _) => {
            let mut found = Vec::new();
            select(document, path, &mut found);
            let value = |selected| if let SelectedValue::Json(value) = selected { Some(value) } else { None };
            let values = found.into_iter().filter_map(value);
            // a list that is found is what is in it
            let each = |value: &'d serde_json::Value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            values.flat_map(each).map(ContextNode::Json).collect()
        }
        _ => Vec::new(),
    }
}

/// As [`select`], from a place on.
pub fn select_from<'d>(place: ContextNode<'d>, path: &Path, found: &mut Vec<SelectedValue<'d>>) {
    match (place, path) {
        (ContextNode::Json(value), Path::JsonMembers(names)) => {
            let target = names.iter().try_fold(value, |value, name| value.get(name));
            found.extend(target.filter(|target| !target.is_null()).map(SelectedValue::Json));
        }
        (ContextNode::Json(value), Path::Json(path)) => {
            found.extend(path.query(value).all().into_iter().filter(|value| !value.is_null()).map(SelectedValue::Json));
        }
        (ContextNode::Xml(tree, node), Path::Xml(path)) => {
            let one = |text| SelectedValue::Text(text, 0);
            match xpath::evaluate_from(path, tree, node, MOST_STEPS) {
                Ok(XPathValue::Nodes(nodes)) => found.extend(nodes.into_iter().map(one)),
                Ok(XPathValue::Boolean(value)) => found.push(one(value.to_string().into())),
                Ok(XPathValue::Number(number)) if number.is_finite() => found.push(one(show_number(number).into())),
                Ok(XPathValue::Text(text)) if !text.is_empty() => found.push(one(text)),
                Ok(XPathValue::Number(_) | XPathValue::Text(_)) | Err(_) => {}
            }
        }
        _ => {}
    }
}

// --- MARCspec -----------------------------------------------------------------------------------------------------------

/// Calls `found` with every value of `spec` and the number of its field, from 0.
fn marc<'d>(record: &'d MarcRecord<'_>, spec: &MarcSpec, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if spec.tag == TagPattern::LEADER {
        let leader = MarcField { tag: *b"LDR", data: record.leader() };
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

fn part<'d>(record: &'d MarcRecord<'_>, field: MarcField<'d>, part: &FieldPart, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    if field.is_control() || field.tag == *b"LDR" {
        return control(field.data, part, number, found);
    }
    match part {
        FieldPart::Whole => field.subfields().for_each(|(_, value)| found(Cow::Borrowed(value), number)),
        FieldPart::Indicator(which) => found(Cow::Borrowed(field.indicators()[usize::from(*which) - 1]), number),
        FieldPart::Characters(_) => {}
        FieldPart::Subfields(specs) => subfields(record, field, specs, number, found),
    }
}

fn control<'d>(data: &'d str, part: &FieldPart, number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
    match part {
        FieldPart::Whole => found(Cow::Borrowed(data), number),
        FieldPart::Characters(range) => {
            let text = characters(data, range);
            if !text.is_empty() {
                found(Cow::Borrowed(text), number);
            }
        }
        FieldPart::Indicator(_) | FieldPart::Subfields(_) => {}
    }
}

fn characters<'d>(data: &'d str, range: &stook_catalogue::marcspec::PositionRange) -> &'d str {
    if data.is_ascii() {
        return &data[range.resolve(data.len())];
    }
    let wanted = range.resolve(data.chars().count());
    let byte = |position: usize| data.char_indices().nth(position).map_or(data.len(), |(at, _)| at);
    &data[byte(wanted.start)..byte(wanted.end)]
}

fn subfields<'d>(record: &'d MarcRecord<'_>, field: MarcField<'d>, specs: &[SubfieldSpec], number: u32, found: &mut dyn FnMut(Cow<'d, str>, u32)) {
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
fn holds(record: &MarcRecord<'_>, field: MarcField<'_>, value: Option<&str>, condition: &SubSpec) -> bool {
    condition.0.iter().any(|test| test_holds(record, field, value, test))
}

fn test_holds(record: &MarcRecord<'_>, field: MarcField<'_>, value: Option<&str>, test: &SubTermSet) -> bool {
    let right = operand(record, field, &test.right);
    match test.operator {
        SpecOperator::Exists => return !right.is_empty(),
        SpecOperator::Missing => return right.is_empty(),
        _ => {}
    }
    let left = match &test.left {
        Some(left) => operand(record, field, left),
        None => value.or((field.is_control()).then_some(field.data)).map(str::to_owned).into_iter().collect(),
    };
    let any = |compare: fn(&str, &str) -> bool| left.iter().any(|left| right.iter().any(|right| compare(left, right)));
    match test.operator {
        SpecOperator::Equal => any(|left, right| left == right),
        SpecOperator::NotEqual => !any(|left, right| left == right),
        SpecOperator::Includes => any(|left, right| left.contains(right)),
        SpecOperator::NotIncludes => !any(|left, right| left.contains(right)),
        SpecOperator::Exists | SpecOperator::Missing => false,
    }
}

fn operand(record: &MarcRecord<'_>, field: MarcField<'_>, operand: &SubTerm) -> Vec<String> {
    let mut values = Vec::new();
    match operand {
        SubTerm::Literal(text) => values.push(text.clone()),
        SubTerm::Abbreviated(wanted) => part(record, field, wanted, 0, &mut |text, _| values.push(text.into_owned())),
        SubTerm::Spec(spec) => marc(record, spec, &mut |text, _| values.push(text.into_owned())),
    }
    values
}
