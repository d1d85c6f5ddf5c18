//! Values of properties in queries, which are fields, and how alike the values of records are.

use super::similarity::NameWords;
use serde_json::Value as Json;
use stook_catalogue::definition::{Collection, Field};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::{FieldType, Value, from_json, from_text};
use stook_store::plan::{Condition, PlanColumn};

/// A value that a query gives for a property.
#[derive(Debug, Clone, PartialEq)]
pub struct PropertyValue {
    /// The value in the type of the field; `None` if it is none of that type, and so no record has it.
    value: Option<Value>,
    /// Its words, if the field is of type text.
    words: Option<NameWords>,
}

/// A property with the values that a query gives for it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryProperty {
    /// The field.
    pub field: FieldId,
    is_indexed: bool,
    values: Vec<PropertyValue>,
}

/// The fields that are properties of records: those whose values can be compared with a text or a number.
pub fn properties(collection: &Collection) -> impl Iterator<Item = (FieldId, &Field)> {
    let is_property = |field: &Field| !matches!(field.golden_type().element(), FieldType::Json | FieldType::Geometry | FieldType::Struct(_));
    collection.fields.enumerate().filter(move |(_, field)| is_property(field))
}

/// The field that is a property.
///
/// # Errors
/// That there is none with this name, and which is meant.
pub fn property_named<'c>(collection: &'c Collection, name: &str) -> std::result::Result<(FieldId, &'c Field), String> {
    properties(collection).find(|(_, field)| field.name == name).ok_or_else(|| {
        let instead = known_instead(name, properties(collection).map(|(_, field)| field.name.as_str()));
        format!("`{}` has no property {name:?}; {instead}", collection.name)
    })
}

impl PropertyValue {
    /// A value as it was sent: a text, a number, a boolean, or an object with the `id` of a record and perhaps its `name`.
    fn new(field: &Field, sent: &Json) -> Self {
        let sent = sent.get("id").unwrap_or(sent);
        let element = field.golden_type().element();
        let value = match sent {
            Json::String(text) if *element != FieldType::Text => from_text(text.trim(), element, None).ok(),
            other => from_json(other, element, None).ok(),
        };
        let value = value.filter(|value| !value.is_null());
        let words = (*element == FieldType::Text && !field.is_link()).then(|| value.as_ref().and_then(Value::as_text).map(NameWords::new)).flatten();
        Self { value, words }
    }

    fn similarity(&self, of_record: &Value) -> f64 {
        if self.value.as_ref().is_some_and(|value| value.compare(of_record).is_eq()) {
            return 1.0;
        }
        let texts = self.words.as_ref().zip(of_record.as_text());
        texts.map_or(0.0, |(words, text)| words.similarity(&NameWords::new(text)))
    }
}

impl QueryProperty {
    /// A property with the values that were sent for it.
    pub fn new((id, field): (FieldId, &Field), sent: &[Json]) -> Self {
        Self { field: id, is_indexed: field.index.ordered, values: sent.iter().map(|sent| PropertyValue::new(field, sent)).collect() }
    }

    /// Whether an index finds records by its values.
    pub fn is_indexed(&self) -> bool {
        self.is_indexed
    }

    /// The condition by which an index finds the records that have one of the values; `None` if no index does.
    pub fn condition(&self) -> Option<Condition> {
        let values: Vec<Value> = self.values.iter().filter_map(|value| value.value.clone()).collect();
        (self.is_indexed && !values.is_empty()).then(|| Condition::one_of(PlanColumn::Field(self.field), values))
    }

    /// How alike the values of a record are: the mean over the values of the query, of each compared with the most similar one of the record.
    pub fn similarity(&self, of_record: &Value) -> f64 {
        let best = |value: &PropertyValue| of_record.elements().iter().map(|own| value.similarity(own)).fold(0.0, f64::max);
        if self.values.is_empty() { 0.0 } else { self.values.iter().map(best).sum::<f64>() / self.values.len() as f64 }
    }
}
