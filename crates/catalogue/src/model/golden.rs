//! The golden values of a record as a scope of expressions.

use crate::eval::plain::PlainValue;
use crate::eval::{CelValue, MemberReference, Name, Scope, to_cel};
use crate::model::definition::Collection;
use crate::value::{FieldType, Value};

/// The golden values of a record, by the names of its fields.
#[derive(Clone, Copy)]
pub struct GoldenValues<'v> {
    collection: &'v Collection,
    values: &'v [Value],
}

impl<'v> GoldenValues<'v> {
    /// Wraps the values of a record, one for each field of its collection.
    pub fn new(collection: &'v Collection, values: &'v [Value]) -> Self {
        Self { collection, values }
    }

    /// Returns the value of a field with its type.
    pub fn field(&self, name: &str) -> Option<(&'v Value, &'v FieldType)> {
        self.collection.field(name).map(|(index, field)| (&self.values[index], field.golden_type()))
    }
}

impl Scope for GoldenValues<'_> {
    fn plain(&self, name: &Name, member: Option<&Name>) -> Option<PlainValue<'_>> {
        let (index, field) = self.collection.field_named(name)?;
        let (value, ty) = (&self.values[index], field.golden_type());
        match (member, value) {
            (None, value) => Some(PlainValue::from_value(value, ty)),
            (Some(_), Value::Null | Value::Cleared) => Some(PlainValue::Null),
            (Some(member), Value::Json(json)) if json.is_object() => json.get(member.as_str()).map_or(Some(PlainValue::Null), PlainValue::from_json),
            _ => None,
        }
    }

    fn cel(&self, name: &str, _: &[MemberReference]) -> CelValue {
        self.field(name).map_or_else(|| CelValue::Null, |(value, ty)| to_cel(value, ty))
    }
}
