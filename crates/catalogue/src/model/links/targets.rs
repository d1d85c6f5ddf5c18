//! Finds the targets of a record's links by key.

use super::link::Link;
use crate::eval::{Evaluator, Expression};
use crate::model::definition::Collection;
use crate::model::golden::GoldenValues;
use crate::model::ids::{CollectionId, FieldId, IdVec};
use crate::model::key::{Key, KeyError, Template};
use crate::value::{SmolStr, Value};

/// Max targets of a record by one link.
pub const MAX_TARGETS: usize = 10_000;

/// Max records that share values, directly or through others, and have one target.
pub const MAX_COMPONENT: usize = 1_000;

/// Max combinations of elements if several lists must be equal, and max elements if intervals overlap, because each is stored once for every part of
/// a long interval.
pub const MAX_COMBINATIONS: usize = 64;

impl Link {
    /// Whether lists are involved in finding the target.
    pub fn involves_lists(&self, collections: &IdVec<CollectionId, Collection>) -> bool {
        let is_list = |collection: CollectionId, field: FieldId| collections[collection].fields[field].golden_type().is_list();
        self.many
            || self.target_rule.own_criteria().iter().flatten().any(|field| is_list(self.child_collection, *field))
            || self.target_rule.target_criteria().iter().flatten().any(|field| is_list(self.target_collection, *field))
    }

    /// Returns the max number of elements of a list, or combinations of elements of several lists, that are stored or searched for equal fields.
    pub fn max_equal_elements(&self, collection: &Collection, fields: impl Iterator<Item = FieldId>) -> usize {
        let is_timed = self.target_rule.overlap().is_some();
        let lists = fields.filter(|field| collection.fields[*field].golden_type().is_list()).count();
        if is_timed || lists > 1 { MAX_COMBINATIONS } else { MAX_TARGETS }
    }
}

/// A link whose targets are found by their key.
#[derive(Debug, Clone, Copy)]
pub struct KeyedLink<'l> {
    /// Its name.
    pub name: &'l str,
    /// The condition under which there is a target.
    pub when: Option<&'l Expression>,
    /// The key of a target.
    pub key: &'l Template,
}

/// Computes the field of a link by key: the key of the target or, if the key template uses a list, the sorted keys of all targets. An empty key is no
/// target; a key that is too long or has a NUL character is no target either, and is noted.
pub fn target_by_template(evaluator: &Evaluator, collection: &Collection, link: &KeyedLink<'_>, values: &[Value]) -> Value {
    let KeyedLink { name: link, when, key } = *link;
    let subject = || format!("`when` of link `{link}`");
    if !when.is_none_or(|when| evaluator.holds_or_note(&subject, when, &GoldenValues::new(collection, values))) {
        return Value::Null;
    }
    let filled = |element: Option<&Value>| {
        let filled = key.fill(|name| {
            let (index, field) = collection.field(name)?;
            let ty = field.golden_type();
            let value = element.filter(|_| ty.is_list()).or(values.get(index.index())).filter(|value| !value.is_null())?;
            Some(value.show(if element.is_some() { ty.element() } else { ty }).into())
        });
        filled.filter(|key| match Key::new(key.as_str()) {
            Ok(_) => true,
            Err(KeyError::Empty) => false,
            Err(error) => {
                evaluator.note_message(|| format!("link `{link}`: {error}; the value is missing"));
                false
            }
        })
    };
    match list_field_in_key(collection, key) {
        None => filled(None).map_or(Value::Null, Value::text),
        Some(list) => {
            let keys = values[list].elements().iter().filter(|element| !element.is_null()).filter_map(|element| filled(Some(element)));
            keys_to_list(keys.map(SmolStr::from).collect())
        }
    }
}

/// Returns the list that a key template uses, which gives a target for each element.
pub fn list_field_in_key(collection: &Collection, key: &Template) -> Option<FieldId> {
    key.names().filter_map(|name| collection.field(name)).find(|(_, field)| field.golden_type().is_list()).map(|(index, _)| index)
}

/// Sorts and deduplicates the keys of targets for a link's field, and keeps at most [`MAX_TARGETS`].
pub fn keys_to_list(mut keys: Vec<SmolStr>) -> Value {
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(MAX_TARGETS);
    if keys.is_empty() { Value::Null } else { Value::List(keys.into_iter().map(Value::Text).collect()) }
}
