//! Values of plain expressions: those of fields are borrowed, not copied.

use crate::value::time::in_range;
use crate::value::{FieldType, SmolStr, Value, from_json};
use serde_json::Value as Json;
use std::ops::Deref;

/// A value of a plain expression.
#[derive(Debug, Clone, PartialEq)]
pub enum PlainValue<'v> {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(PlainText<'v>),
    /// Microseconds since 1970.
    Time(i64),
    /// Microseconds.
    Length(i64),
    /// Anything else: it can be passed on, but not examined.
    Whole(&'v Value, &'v FieldType),
    /// An object made by a function.
    Made(Json),
    /// An object that is only read by member.
    Object,
}

/// A text, borrowed if possible.
#[derive(Debug, Clone)]
pub enum PlainText<'v> {
    /// A field's value; cloning it shares the text.
    Value(&'v SmolStr),
    /// Borrowed from something else.
    Borrowed(&'v str),
    /// Made by a function.
    Made(String),
}

impl Deref for PlainText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            PlainText::Value(text) => text,
            PlainText::Borrowed(text) => text,
            PlainText::Made(text) => text,
        }
    }
}

impl PartialEq for PlainText<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl From<PlainText<'_>> for SmolStr {
    fn from(text: PlainText<'_>) -> Self {
        match text {
            PlainText::Value(text) => text.clone(),
            PlainText::Borrowed(text) => text.into(),
            PlainText::Made(text) => text.into(),
        }
    }
}

impl<'v> PlainValue<'v> {
    /// Converts a field's value.
    pub fn from_value(value: &'v Value, ty: &'v FieldType) -> Self {
        match (value, ty) {
            (Value::Null | Value::Cleared, _) => PlainValue::Null,
            (Value::Bool(value), _) => PlainValue::Bool(*value),
            (Value::Int(number), FieldType::Timestamp) => PlainValue::Time(*number),
            (Value::Int(number), FieldType::Duration) => PlainValue::Length(*number),
            (Value::Int(number), FieldType::Integer | FieldType::Size) => PlainValue::Int(*number),
            (Value::Float(number), _) => PlainValue::Float(*number),
            (Value::Text(text), _) => PlainValue::Text(PlainText::Value(text)),
            _ => PlainValue::Whole(value, ty),
        }
    }

    /// Converts a JSON value; `None` if it is not plain.
    pub fn from_json(json: &'v Json) -> Option<Self> {
        Some(match json {
            Json::Null => PlainValue::Null,
            Json::Bool(value) => PlainValue::Bool(*value),
            Json::String(text) => PlainValue::Text(PlainText::Borrowed(text)),
            Json::Number(number) => number.as_i64().map(PlainValue::Int)?,
            Json::Array(_) | Json::Object(_) => return None,
        })
    }

    /// Converts to a value of a type; `None` if CEL must convert it.
    pub fn into_value(self, ty: &FieldType) -> Option<Value> {
        Some(match (self, ty) {
            (PlainValue::Null, _) => Value::Null,
            (PlainValue::Bool(value), FieldType::Boolean) => Value::Bool(value),
            (PlainValue::Int(number), FieldType::Integer | FieldType::Size) => Value::Int(number),
            (PlainValue::Float(number), FieldType::Float) => Value::float(number),
            (PlainValue::Text(text), FieldType::Text) => Value::text(text),
            (PlainValue::Time(micros), FieldType::Timestamp) => Value::Int(in_range(micros)?),
            (PlainValue::Length(micros), FieldType::Duration) => Value::Int(micros),
            (PlainValue::Whole(value, value_type), ty) if value_type == ty => value.clone(),
            (PlainValue::Text(text), FieldType::Uuid) => from_json(&(*text).into(), ty, None).ok()?,
            (PlainValue::Made(json), FieldType::Json) => from_json(&json, ty, None).ok()?,
            _ => return None,
        })
    }
}
