//! The variables of expressions while a document is mapped: `let` values, fields mapped so far, and `meta`.

use super::document::Envelope;
use crate::content::key::shown;
use cel::objects::{Key as CelKey, Map as CelMap};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use stook_catalogue::definition::{Captures, Collection, Source, ValueOrigin, ValueRule};
use stook_catalogue::eval::{MemberReference, Name, Scope, json_to_cel, to_cel};
use stook_catalogue::ids::{FieldId, IdVec};
use stook_catalogue::plain::{PlainText, PlainValue};
use stook_catalogue::value::{FieldType, SmolStr, Value};

/// A `let` value.
#[derive(Clone)]
pub(super) enum LetResult<'c> {
    Value(Value),
    /// The groups of a matched text; their object is made only when an expression needs it.
    Groups(Captures<'c>, OnceCell<Value>),
}

impl LetResult<'_> {
    pub(super) fn value(&self) -> &Value {
        match self {
            LetResult::Value(value) => value,
            LetResult::Groups(groups, object) => object.get_or_init(|| Value::Json(Arc::new(groups.to_json()))),
        }
    }
}

/// The values computed for the current document.
pub(super) struct DocumentScope<'s, 'c> {
    pub(super) source: &'s Source,
    /// The names of the source's `let` values, contiguous in memory because they are looked up often.
    pub(super) names: &'s [&'s str],
    pub(super) lets: Vec<LetResult<'c>>,
    /// The `let` values that could not be read, and those computed from them alone.
    pub(super) unread: Vec<usize>,
    /// The current feed, if its fields are variables as well as the `let` values.
    pub(super) feed: Option<MappedFields<'s>>,
    pub(super) meta: &'s Envelope<'s>,
}

/// The values of a collection's fields, of which only those mapped so far are variables: until `ref: { expr: ref }` is done, `ref` is the `let`
/// value.
#[derive(Clone, Copy)]
pub(super) struct MappedFields<'s> {
    pub(super) collection: &'s Collection,
    pub(super) values: &'s [Value],
    /// The position of each field's rule, if it has one: fields are mapped in this order.
    pub(super) rule_positions: &'s IdVec<FieldId, Option<usize>>,
    /// How many rules are done.
    pub(super) done: usize,
    /// Fields that could not be read.
    pub(super) unread: &'s [FieldId],
    /// For each `let` value, the field that has the same name.
    pub(super) namesakes: &'s [Option<FieldId>],
}

impl<'s> MappedFields<'s> {
    /// The value of a field, if it is mapped.
    fn get(self, field: FieldId) -> Option<(&'s Value, &'s FieldType)> {
        self.rule_positions[field].is_some_and(|position| position < self.done).then(|| (&self.values[field], &self.collection.fields[field].ty))
    }
}

/// What a name refers to.
enum ResolvedName<'v, 'c> {
    Field(&'v Value, &'v FieldType),
    Let(&'v LetResult<'c>, &'v FieldType),
}

impl LetResult<'_> {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, LetResult::Value(Value::Null))
    }
}

impl<'s, 'c> DocumentScope<'s, 'c> {
    /// The same scope with a feed's fields as additional variables; the `let` values are moved to it until [`DocumentScope::take_back`].
    pub(super) fn lend<'h>(&mut self, feed: Option<MappedFields<'h>>) -> DocumentScope<'h, 'c>
    where
        's: 'h,
    {
        let (lets, unread) = (std::mem::take(&mut self.lets), std::mem::take(&mut self.unread));
        DocumentScope { source: self.source, names: self.names, lets, unread, feed, meta: self.meta }
    }

    pub(super) fn end(self) -> (Vec<LetResult<'c>>, Vec<usize>) {
        (self.lets, self.unread)
    }

    pub(super) fn take_back(&mut self, (lets, unread): (Vec<LetResult<'c>>, Vec<usize>)) {
        (self.lets, self.unread) = (lets, unread);
    }
}

impl<'c> DocumentScope<'_, 'c> {
    /// Whether a rule depends on a value that could not be read, so that a null result of it means "unreadable" and not "absent".
    pub(super) fn reads_unread(&self, rule: &ValueRule) -> bool {
        if self.unread.is_empty() && self.feed.is_none_or(|feed| feed.unread.is_empty()) {
            return false;
        }
        match &rule.origin {
            ValueOrigin::Expression(expression) => expression.variables().iter().any(|name| self.is_unread(name)),
            ValueOrigin::Match { of, .. } => self.is_unread(of),
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
        }
    }

    fn is_unread(&self, name: &str) -> bool {
        let let_index = self.names.iter().position(|known| *known == name);
        let field = self.feed.and_then(|feed| Some((feed, feed.collection.field(name)?.0))).filter(|(feed, field)| feed.get(*field).is_some());
        match (field, let_index) {
            (Some((feed, field)), _) => feed.unread.contains(&field),
            (None, Some(let_index)) => self.unread.contains(&let_index),
            (None, None) => false,
        }
    }

    fn get(&self, name: &str) -> Option<(&Value, &FieldType)> {
        let field = |feed: MappedFields<'_>| feed.collection.field(name).map(|(field, _)| field);
        self.find(self.names.iter().position(|known| *known == name), field).map(|found| match found {
            ResolvedName::Field(value, ty) => (value, ty),
            ResolvedName::Let(own, ty) => (own.value(), ty),
        })
    }

    pub(super) fn get_let(&self, name: &str) -> Option<(&Value, &FieldType)> {
        let index = self.names.iter().position(|known| *known == name)?;
        Some((self.lets.get(index)?.value(), &self.source.lets[index].rule.ty))
    }

    /// What a name refers to that is a `let` value's, or, if it is not, that of the field that `field` finds.
    fn find(&self, let_index: Option<usize>, field: impl Fn(MappedFields<'_>) -> Option<FieldId>) -> Option<ResolvedName<'_, 'c>> {
        let field = self.feed.and_then(|feed| match let_index {
            Some(index) => feed.get(feed.namesakes[index]?),
            None => feed.get(field(feed)?),
        });
        match (field, let_index) {
            (Some((value, ty)), _) => Some(ResolvedName::Field(value, ty)),
            (None, Some(index)) => Some(ResolvedName::Let(self.lets.get(index)?, &self.source.lets[index].rule.ty)),
            (None, None) => None,
        }
    }

    fn variable(&self, name: &str) -> cel::Value {
        match self.get(name) {
            Some((value, ty)) => to_cel(value, ty),
            None if name == "meta" => self.meta.to_cel(),
            None => cel::Value::Null,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<SmolStr> {
        match self.get(name)? {
            (Value::Text(text), _) => Some(text.clone()),
            other => shown(other).map(Into::into),
        }
    }
}

impl Scope for DocumentScope<'_, '_> {
    /// The value of a variable. If an expression reads only members of a JSON object, only these are converted; members of an absent value are
    /// absent.
    fn cel(&self, name: &str, read: &[MemberReference]) -> cel::Value {
        let members: Vec<&str> = read.iter().filter(|member| member.of == name).map(|member| member.name.as_str()).collect();
        match self.get(name) {
            Some((Value::Json(json), FieldType::Json)) if !members.is_empty() && json.is_object() => {
                let member = |name: &str| json.get(name).map_or(cel::Value::Null, json_to_cel);
                members_to_cel(&members, member)
            }
            _ => self.variable(name),
        }
    }

    fn plain(&self, name: &Name, member: Option<&Name>) -> Option<PlainValue<'_>> {
        let member = member.map(Name::as_str);
        let field = |feed: MappedFields<'_>| feed.collection.field_named(name).map(|(field, _)| field);
        let found = match (self.find(name.position(self.names, |known| known), field), member) {
            (Some(ResolvedName::Let(LetResult::Groups(groups, _), _)), Some(member)) => {
                return Some(groups.get(member).map_or(PlainValue::Null, |text| PlainValue::Text(PlainText::Borrowed(text))));
            }
            (Some(ResolvedName::Let(LetResult::Groups(..), _)), None) => return Some(PlainValue::Object),
            (Some(ResolvedName::Let(LetResult::Value(value), ty) | ResolvedName::Field(value, ty)), _) => Some((value, ty)),
            (None, _) => None,
        };
        match (found, member) {
            (Some((value, ty)), None) => Some(PlainValue::from_value(value, ty)),
            (Some((Value::Json(json), _)), Some(member)) if json.is_object() => {
                json.get(member).map_or(Some(PlainValue::Null), PlainValue::from_json)
            }
            (Some((Value::Null, FieldType::Json)), Some(_)) => Some(PlainValue::Null),
            (None, Some("name")) if name.as_str() == "meta" => Some(PlainValue::Text(PlainText::Borrowed(self.meta.name))),
            (None, Some("received")) if name.as_str() == "meta" => Some(PlainValue::Time(self.meta.received)),
            _ => None,
        }
    }
}

fn members_to_cel(members: &[&str], value: impl Fn(&str) -> cel::Value) -> cel::Value {
    let map: HashMap<CelKey, cel::Value> = members.iter().map(|name| (CelKey::String(Arc::new((*name).to_owned())), value(name))).collect();
    cel::Value::Map(CelMap { map: Arc::new(map) })
}
