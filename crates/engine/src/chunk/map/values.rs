//! The value that a rule of a mapping gives: found by paths or computed by an expression, then cleaned, looked up and converted.

use super::names::{DocumentScope, LetResult};
use crate::content::allowed::check;
use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fmt::Display;
use stook_catalogue::definition::Field;
use stook_catalogue::definition::{Catalogue, ValueOrigin, ValueRule};
use stook_catalogue::eval::{Evaluator, Expression, repaired_from_cel};
use stook_catalogue::path::Path;
use stook_catalogue::plain::PlainValue;
use stook_catalogue::value::{FieldType, Value, ranges, ranges_of, repaired_from_json, repaired_from_text, struct_of};
use stook_formats::{ContextNode, Document, SelectedValue, find_context_nodes, find_nodes_from, select, select_from, unreadable};

/// How many different values of a key an error names.
const SHOWN_KEY_VALUES: usize = 3;

/// Where the paths of a rule start: a document, or one of its elements.
#[derive(Clone, Copy)]
pub(super) struct PathOrigin<'d> {
    pub(super) document: &'d Document<'d>,
    pub(super) node: Option<ContextNode<'d>>,
}

impl<'d> PathOrigin<'d> {
    fn select(self, path: &Path, found: &mut Vec<SelectedValue<'d>>) {
        match self.node {
            None => select(self.document, path, found),
            Some(node) => select_from(node, path, found),
        }
    }

    fn nodes(self, path: &Path) -> Vec<ContextNode<'d>> {
        match self.node {
            None => find_context_nodes(self.document, path),
            Some(node) => find_nodes_from(node, path),
        }
    }
}

/// A problem with one value.
pub(super) enum ValueIssue {
    /// The value is left out.
    Warning(String),
    /// The document fails.
    Failure(String),
}

/// Computes values by rules, with the catalogue's constant tables and regular expressions.
pub(super) struct ValueReader<'c> {
    pub(super) catalogue: &'c Catalogue,
    pub(super) evaluator: &'c Evaluator,
    /// What was repaired in values since the last call of [`ValueReader::repairs`].
    repaired: RefCell<Vec<String>>,
}

impl<'c> ValueReader<'c> {
    pub(super) fn new(catalogue: &'c Catalogue, evaluator: &'c Evaluator) -> Self {
        Self { catalogue, evaluator, repaired: RefCell::default() }
    }

    /// Returns what was repaired in values since the last call.
    pub(super) fn repairs(&self) -> Vec<String> {
        std::mem::take(&mut *self.repaired.borrow_mut())
    }

    /// The value that a rule gives for a document or one of its elements. `found` is a buffer for what paths find, reused between calls.
    pub(super) fn value<'d>(
        &self,
        origin: PathOrigin<'d>,
        rule: &ValueRule,
        scope: &DocumentScope<'_, '_>,
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Result<Value, ValueIssue> {
        found.clear();
        let trouble = |reason: String| if rule.strict { ValueIssue::Failure(reason) } else { ValueIssue::Warning(reason) };
        match &rule.origin {
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) => {
                self.selected(origin.document, rule, |path, found| origin.select(path, found), found).map_err(trouble)
            }
            ValueOrigin::Elements(path, rules) => {
                let members = rule.ty.members();
                let mut structs = Vec::new();
                for node in origin.nodes(path) {
                    let mut values = vec![Value::Null; members.len()];
                    for (member, rule) in rules {
                        let value = self.selected(origin.document, rule, |path, found| select_from(node, path, found), &mut Vec::new());
                        let value = value.map_err(|reason| trouble(format!("{}: {reason}", members[*member].name)))?;
                        values[*member] = check(value, &rule.ty, &[]).map_err(trouble)?;
                    }
                    structs.push(struct_of(members, values));
                }
                structs.retain(|element| !element.is_null());
                Ok(if structs.is_empty() { Value::Null } else { Value::List(structs) })
            }
            ValueOrigin::Expression(expression) => self.expression(expression, rule, scope).map_err(trouble),
            ValueOrigin::Match { pattern, of } => Ok(self.matched(*pattern, of, scope).value().clone()),
        }
    }

    pub(super) fn matched(&self, pattern: usize, of: &str, scope: &DocumentScope<'_, '_>) -> LetResult<'c> {
        let groups = scope.text(of).and_then(|text| self.catalogue.patterns[pattern].groups(&text));
        groups.map_or(LetResult::Value(Value::Null), |groups| LetResult::Groups(groups, OnceCell::new()))
    }

    /// The value of a rule with paths, from what `select` finds; `found` is a buffer for that.
    fn selected<'d>(
        &self,
        document: &Document<'_>,
        rule: &ValueRule,
        select: impl Fn(&Path, &mut Vec<SelectedValue<'d>>),
        found: &mut Vec<SelectedValue<'d>>,
    ) -> Result<Value, String> {
        match &rule.origin {
            ValueOrigin::Paths(paths) => {
                for path in paths {
                    select(path, found);
                    if !found.is_empty() {
                        break;
                    }
                }
                if let Some(reason) = found.iter().find_map(|found| unreadable(document, found)) {
                    return Err(reason);
                }
                self.convert(found, rule)
            }
            ValueOrigin::Cases(cases) => {
                for (path, constant) in cases {
                    select(path, found);
                    if !found.is_empty() {
                        return self.text(constant, rule);
                    }
                }
                Ok(Value::Null)
            }
            ValueOrigin::Elements(..) | ValueOrigin::Expression(_) | ValueOrigin::Match { .. } => Ok(Value::Null),
        }
    }

    fn expression(&self, expression: &Expression, rule: &ValueRule, scope: &DocumentScope<'_, '_>) -> Result<Value, String> {
        let changes = !rule.clean.is_empty() || rule.lookup.is_some() || !rule.formats.is_empty();
        let plain = |plain: PlainValue<'_>| match plain {
            PlainValue::Text(text) if changes && !rule.ty.is_list() => Some(self.text(&text, rule)),
            plain => plain.into_value(&rule.ty).map(Ok),
        };
        let found = self.evaluator.eval(expression, scope, plain, |found| {
            let value = match (found, rule.formats.is_empty()) {
                // a text in a format that the rule gives
                (cel::Value::String(text), false) => return Ok(self.text(&text, rule)),
                (found, _) => repaired_from_cel(&found, &rule.ty, &mut self.repaired.borrow_mut()).map_err(|error| error.to_string())?,
            };
            Ok(match value {
                Value::Text(text) if !rule.clean.is_empty() || rule.lookup.is_some() => self.text(&text, rule),
                Value::Json(json) if json.is_null() => Ok(Value::Null),
                other => Ok(other),
            })
        });
        found?
    }

    /// What paths found, as one value of the rule's type.
    fn convert(&self, found: &[SelectedValue<'_>], rule: &ValueRule) -> Result<Value, String> {
        let Some(first) = found.first() else { return Ok(Value::Null) };
        if let Some(separator) = &rule.join {
            return self.joined(found, separator, rule);
        }
        if rule.ty == FieldType::Ranges {
            let mut all = Vec::new();
            for selected in found {
                if let Value::Json(own) = self.convert_one(selected, rule)? {
                    all.extend(ranges(&own));
                }
            }
            return Ok(ranges_of(all));
        }
        if !rule.ty.is_list() {
            return self.convert_one(first, rule);
        }
        let mut values = Vec::with_capacity(found.len());
        for selected in found {
            match self.convert_one(selected, rule)? {
                Value::Null => {}
                Value::List(items) => values.extend(items),
                value => values.push(value),
            }
        }
        Ok(if values.is_empty() { Value::Null } else { Value::List(values) })
    }

    /// Why what a path found cannot identify a record: its values differ, or one cannot be read. A rule that makes one value of all has none.
    pub(super) fn ambiguity(&self, found: &[SelectedValue<'_>], rule: &ValueRule) -> Option<String> {
        if rule.join.is_some() || rule.ty.is_list() || rule.ty == FieldType::Ranges {
            return None;
        }
        let mut different: Vec<Value> = Vec::new();
        for selected in found {
            match self.convert_one(selected, rule) {
                Ok(value) if value.is_null() || different.contains(&value) => {}
                Ok(value) => different.push(value),
                Err(reason) => return Some(reason),
            }
            if different.len() == SHOWN_KEY_VALUES {
                break;
            }
        }
        let values: Vec<String> = different.iter().map(|value| format!("`{}`", value.show(&rule.ty))).collect();
        (values.len() > 1).then(|| format!("it identifies the record and has different values here: {}", values.join(", ")))
    }

    fn joined(&self, found: &[SelectedValue<'_>], separator: &str, rule: &ValueRule) -> Result<Value, String> {
        let mut texts: Vec<(Cow<'_, str>, u32)> = Vec::new();
        for selected in found {
            let (text, field): (Cow<'_, str>, u32) = match selected {
                SelectedValue::Text(text, field) => (Cow::Borrowed(text), *field),
                SelectedValue::Json(serde_json::Value::String(text)) => (Cow::Borrowed(text), 0),
                SelectedValue::Json(json) => (Cow::Owned(json.to_string()), 0),
            };
            if text.is_empty() {
                continue;
            }
            match texts.last_mut() {
                Some((joined, previous)) if !rule.each_field || *previous == field => {
                    let joined = joined.to_mut();
                    joined.push_str(separator);
                    joined.push_str(&text);
                }
                _ => texts.push((text, field)),
            }
        }
        if !rule.ty.is_list() {
            return texts.first().map_or(Ok(Value::Null), |(text, _)| self.text(text, rule));
        }
        let values: Vec<Value> = texts.iter().map(|(text, _)| self.text(text, rule)).collect::<Result<_, _>>()?;
        let values: Vec<Value> = values.into_iter().filter(|value| !value.is_null()).collect();
        Ok(if values.is_empty() { Value::Null } else { Value::List(values) })
    }

    fn convert_one(&self, selected: &SelectedValue<'_>, rule: &ValueRule) -> Result<Value, String> {
        match selected {
            SelectedValue::Text(text, _) => self.text(text, rule),
            SelectedValue::Json(serde_json::Value::String(text)) if rule.ty.element() != &FieldType::Json => self.text(text, rule),
            SelectedValue::Json(json) => {
                let repaired = &mut *self.repaired.borrow_mut();
                in_formats(&rule.formats, |format| repaired_from_json(json, &rule.ty, format, repaired))
            }
        }
    }

    /// Converts a text to an element of the rule's type. Blank text counts as absent.
    fn text(&self, text: &str, rule: &ValueRule) -> Result<Value, String> {
        let mut cleaned = Cow::Borrowed(text);
        for cleaner in &rule.clean {
            let left = match &cleaned {
                Cow::Borrowed(text) => cleaner.clean(text),
                Cow::Owned(text) => cleaner.clean(text).map(|left| left.map(|left| Cow::Owned(left.into_owned()))),
            };
            match left.map_err(|error| format!("{}: {}", cleaner.name, error.message()))? {
                Some(left) => cleaned = left,
                None => return Ok(Value::Null),
            }
        }
        if cleaned.is_empty() {
            return Ok(Value::Null);
        }
        let looked_up = match &rule.lookup {
            None => cleaned,
            Some(table) => match self.catalogue.tables.get(table).and_then(|table| table.get(&cleaned)) {
                Some(found) => Cow::Owned(found.to_owned()),
                None => return Ok(Value::Null),
            },
        };
        let repaired = &mut *self.repaired.borrow_mut();
        in_formats(&rule.formats, |format| repaired_from_text(&looked_up, rule.ty.element(), format, repaired))
    }
}

/// The value in the first of these formats that it has; without formats, in the form of its type.
///
/// # Errors
/// The reason why it has none of them.
fn in_formats<E: Display>(formats: &[String], mut read: impl FnMut(Option<&str>) -> Result<Value, E>) -> Result<Value, String> {
    let [first, others @ ..] = formats else { return read(None).map_err(|error| error.to_string()) };
    let error = match read(Some(first)) {
        Ok(value) => return Ok(value),
        Err(error) => error.to_string(),
    };
    let found = others.iter().find_map(|format| read(Some(format)).ok());
    let more = if others.is_empty() { String::new() } else { format!(", nor in the format {}", others.join(" or ")) };
    found.ok_or_else(|| error + &more)
}

pub(super) fn allowed(value: Value, field: &Field, strict: bool) -> Result<Value, ValueIssue> {
    check(value, &field.ty, &field.one_of).map_err(if strict { ValueIssue::Failure } else { ValueIssue::Warning })
}
