//! Evaluates paths on documents.

use crate::Document;
use crate::marc::MarcRecord;
use crate::tree::XmlTree;
use crate::xpath::{self, NodeRef, XPathValue, show_number};
use std::borrow::Cow;
use stook_catalogue::path::Path;

/// A value that a path found.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectedValue<'d> {
    /// Text; for MARC, with the number of the field that contains it.
    Text(Cow<'d, str>, u32),
    /// A JSON value.
    Json(&'d serde_json::Value),
}

/// A field, value or element inside a document, from which paths can be evaluated.
#[derive(Clone, Copy)]
pub enum ContextNode<'d> {
    /// A field of a MARC record, by its number.
    Marc(&'d MarcRecord<'d>, u32),
    /// A value, and whether its document is [deep](stook_catalogue::value::JsonDocument::is_deep).
    Json(&'d serde_json::Value, bool),
    /// An element.
    Xml(&'d XmlTree<'static>, NodeRef),
}

/// Maximum number of steps of a definition's XPath on one document.
const MAX_STEPS: u64 = 100_000_000;

/// Adds everything that `path` finds in `document` to `found`, in document order. The number, text or boolean that an XPath computes is also found,
/// unless it is not a finite number, is empty, or takes too many steps.
///
/// A path in another format's language finds nothing: definitions are checked so that this does not happen.
pub fn select<'d>(document: &'d Document<'_>, path: &Path, found: &mut Vec<SelectedValue<'d>>) {
    match (document, path) {
        (_, Path::Marc(spec)) => {
            if let Some(record) = document.marc() {
                spec.select(record, &mut |text, field| found.push(SelectedValue::Text(text, field)));
            }
        }
        (Document::Enveloped(enveloped), _) => select_from(ContextNode::Xml(&enveloped.around, xpath::start(&enveloped.around)), path, found),
        (Document::Json(json), _) => select_from(ContextNode::Json(json.value(), json.is_deep()), path, found),
        (Document::Xml(tree), _) => select_from(ContextNode::Xml(tree, xpath::start(tree)), path, found),
        (Document::Csv(row), Path::Column(name)) => {
            found.extend(row.get(name).map(|value| SelectedValue::Text(Cow::Borrowed(value), 0)));
        }
        _ => {}
    }
}

/// Returns the fields, values or elements that `path` finds in a document, in document order.
pub fn find_context_nodes<'d>(document: &'d Document<'_>, path: &Path) -> Vec<ContextNode<'d>> {
    match (document, path) {
        (_, Path::Marc(spec)) => {
            let fields_of = |record| spec.fields(record).into_iter().map(move |number| ContextNode::Marc(record, number)).collect();
            document.marc().map(fields_of).unwrap_or_default()
        }
        (Document::Xml(tree), Path::Xml(path)) => {
            let found = xpath::find_nodes(path, tree, MAX_STEPS).unwrap_or_default();
            found.into_iter().map(|node| ContextNode::Xml(tree, node)).collect()
        }
        (Document::Json(json), _) => find_nodes_from(ContextNode::Json(json.value(), json.is_deep()), path),
        _ => Vec::new(),
    }
}

/// Like [`find_context_nodes`], but starts from a value or element.
pub fn find_nodes_from<'d>(context: ContextNode<'d>, path: &Path) -> Vec<ContextNode<'d>> {
    match (context, path) {
        (ContextNode::Xml(tree, node), Path::Xml(path)) => {
            let found = xpath::find_nodes_from(path, tree, node, MAX_STEPS).unwrap_or_default();
            found.into_iter().map(|node| ContextNode::Xml(tree, node)).collect()
        }
        (ContextNode::Json(_, is_deep), _) => {
            let mut found = Vec::new();
            select_from(context, path, &mut found);
            let value = |selected| if let SelectedValue::Json(value) = selected { Some(value) } else { None };
            let values = found.into_iter().filter_map(value);
            // a list stands for its elements
            let elements_of = |value: &'d serde_json::Value| value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            values.flat_map(elements_of).map(|value| ContextNode::Json(value, is_deep)).collect()
        }
        _ => Vec::new(),
    }
}

/// Like [`select`], but starts from a field, value or element.
pub fn select_from<'d>(context: ContextNode<'d>, path: &Path, found: &mut Vec<SelectedValue<'d>>) {
    match (context, path) {
        (ContextNode::Marc(record, number), Path::MarcField(spec)) => {
            spec.select(record, number, &mut |text, field| found.push(SelectedValue::Text(text, field)));
        }
        (ContextNode::Json(value, _), Path::JsonMembers(names)) => {
            let target = names.iter().try_fold(value, |value, name| value.get(name));
            found.extend(target.filter(|target| !target.is_null()).map(SelectedValue::Json));
        }
        (ContextNode::Json(value, is_deep), Path::Json(path)) => {
            let values = if is_deep { on_a_large_stack(|| path.query(value).all()) } else { path.query(value).all() };
            found.extend(values.into_iter().filter(|value| !value.is_null()).map(SelectedValue::Json));
        }
        (ContextNode::Xml(tree, node), Path::Xml(path)) => {
            let as_text = |text| SelectedValue::Text(text, 0);
            match xpath::evaluate_from(path, tree, node, MAX_STEPS) {
                Ok(XPathValue::Nodes(nodes)) => found.extend(nodes.into_iter().map(as_text)),
                Ok(XPathValue::Boolean(value)) => found.push(as_text(value.to_string().into())),
                Ok(XPathValue::Number(number)) if number.is_finite() => found.push(as_text(show_number(number).into())),
                Ok(XPathValue::Text(text)) if !text.is_empty() => found.push(as_text(text)),
                Ok(XPathValue::Number(_) | XPathValue::Text(_)) | Err(_) => {}
            }
        }
        _ => {}
    }
}

/// Stack size for a path on a document of maximum depth; only the part that is used takes memory.
const LARGE_STACK: usize = 256 << 20;

/// Evaluates a path that recurses for each level of a document; finds nothing if there is not enough memory.
fn on_a_large_stack<'d>(find: impl FnOnce() -> Vec<&'d serde_json::Value> + Send) -> Vec<&'d serde_json::Value> {
    std::thread::scope(|scope| {
        let finding = std::thread::Builder::new().stack_size(LARGE_STACK).spawn_scoped(scope, find);
        finding.ok().and_then(|finding| finding.join().ok()).unwrap_or_default()
    })
}

/// The reason why something that a path found in `document` cannot be used; `None` if it can.
pub fn unreadable(document: &Document<'_>, found: &SelectedValue<'_>) -> Option<String> {
    match (document, found) {
        (Document::Json(json), SelectedValue::Json(value)) => json.problem(value),
        _ => None,
    }
}
