//! Checks whether a field may have a value that comes from a document or a request.

use serde_json::Value as Json;
use stook_catalogue::value::{FieldType, Value, among, from_json};

/// Checks `one_of`, and that every store can hold the value: some cannot store text with a NUL character.
///
/// # Errors
/// Returns why the value is not allowed.
pub fn check(value: Value, ty: &FieldType, one_of: &[Value]) -> Result<Value, String> {
    let has_nul = |element: &Value| element.as_text().is_some_and(|text| text.contains('\0'));
    if value.elements().iter().any(has_nul) {
        return Err(format!("{:?} has a NUL character", value.show(ty)));
    }
    among(value, ty, one_of)
}

/// Converts JSON from a request to a value of a type. Unlike in documents, the JSON type must be the one that the field has in responses.
///
/// # Errors
/// Returns why it cannot be converted.
pub fn strict_from_json(json: &Json, ty: &FieldType) -> std::result::Result<Value, String> {
    fn fits(json: &Json, ty: &FieldType) -> bool {
        match ty {
            FieldType::Text | FieldType::Timestamp | FieldType::Date | FieldType::PartialDate | FieldType::Duration | FieldType::Uuid => {
                json.is_string()
            }
            FieldType::Integer | FieldType::Size => json.is_i64() || json.is_u64() || json.as_f64().is_some_and(|number| number.fract() == 0.0),
            FieldType::Float => json.is_number(),
            FieldType::Boolean => json.is_boolean(),
            FieldType::Json => true,
            FieldType::Geometry => json.is_object() || json.is_string(),
            FieldType::List(_) | FieldType::Ranges => json.is_array(),
            FieldType::Struct(members) => json.as_object().is_some_and(|entries| {
                let member = |name: &String| members.iter().find(|member| member.name == *name);
                entries.iter().all(|(name, json)| member(name).is_some_and(|member| json.is_null() || fits(json, &member.ty)))
            }),
        }
    }
    let shape_fits = match (ty, json) {
        (_, Json::Null) => true,
        (FieldType::List(element), Json::Array(items)) => items.iter().all(|item| fits(item, element)),
        _ => fits(json, ty),
    };
    if !shape_fits {
        let shown: String = json.to_string().chars().take(60).collect();
        return Err(format!("{shown} is not of type {ty}"));
    }
    from_json(json, ty, None).map_err(|error| error.to_string())
}
