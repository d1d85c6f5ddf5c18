//! The key of a record, from the values of a document, an edit or a row of a coverage.

use std::borrow::Cow;
use stook_catalogue::definition::{Collection, KeyDefinition};
use stook_catalogue::eval::{Evaluator, to_cel};
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, SmolStr, Value};

/// The key that these values give a record.
///
/// # Errors
/// Returns why they give none.
pub fn key_of(collection: &Collection, values: &[Value], evaluator: &Evaluator) -> Result<Key, String> {
    Key::new(key_text(collection, values, evaluator)?).map_err(|error| error.to_string())
}

/// The text of the key that these values give; it may be too long for a key.
///
/// # Errors
/// When they give none.
pub fn key_text(collection: &Collection, values: &[Value], evaluator: &Evaluator) -> Result<SmolStr, String> {
    let get = |name: &str| collection.field(name).map(|(index, field)| (&values[index], &field.ty));
    Ok(match &collection.key {
        KeyDefinition::Field(index) => match &values[*index] {
            Value::Null => return Err(format!("no key: `{}` has no value", collection.fields[*index].name)),
            Value::Text(text) => text.clone(),
            other => other.show(&collection.fields[*index].ty).into(),
        },
        KeyDefinition::Template(template) => {
            template.fill(|name| shown(get(name)?).map(Cow::Owned)).ok_or("no key: a value of its template is missing")?.into()
        }
        KeyDefinition::Expression(expression) => {
            let variable = |name: &str| get(name).map_or(cel::Value::Null, |(value, ty)| to_cel(value, ty));
            let text = evaluator.value(expression, &FieldType::Text, &variable).map_err(|error| format!("the key: {error}"))?;
            text.as_text().ok_or("no key: its expression returned nothing")?.into()
        }
    })
}

/// A value as templates show it; `None` for null.
pub(crate) fn shown((value, ty): (&Value, &FieldType)) -> Option<String> {
    (!value.is_null()).then(|| value.show(ty))
}
