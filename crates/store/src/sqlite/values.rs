//! Binds values to statements and reads them from rows.

use rusqlite::types::{ToSqlOutput, Value as Sql, ValueRef};
use std::sync::Arc;
use stook_catalogue::value::{FieldType, Geometry, SmolStr, Value, canonical_json};

/// Converts a value for binding, borrowing text if possible.
pub fn bind(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Null | Value::Cleared => ToSqlOutput::Owned(Sql::Null),
        Value::Bool(value) => ToSqlOutput::Owned(Sql::Integer(i64::from(*value))),
        Value::Int(number) => ToSqlOutput::Owned(Sql::Integer(*number)),
        Value::Float(number) => ToSqlOutput::Owned(Sql::Real(*number)),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Uuid(id) => ToSqlOutput::Owned(Sql::Blob(id.to_be_bytes().to_vec())),
        Value::Json(json) => ToSqlOutput::Owned(Sql::Text(canonical_json(json))),
        Value::Geometry(geometry) => ToSqlOutput::Owned(Sql::Blob(geometry.to_bytes())),
        Value::List(items) => ToSqlOutput::Owned(Sql::Text(list_text(items))),
    }
}

/// The JSON text of a stored list: raw numbers and text; UUIDs as 32 hexadecimal digits.
fn list_text(items: &[Value]) -> String {
    let mut out = Vec::with_capacity(64 * items.len() + 2);
    for (index, item) in items.iter().enumerate() {
        out.push(if index == 0 { b'[' } else { b',' });
        // writing into memory does not fail
        let _ = match item {
            Value::Bool(value) => serde_json::to_writer(&mut out, &i64::from(*value)),
            Value::Int(number) => serde_json::to_writer(&mut out, number),
            Value::Float(number) => serde_json::to_writer(&mut out, number),
            Value::Text(text) if is_plain(text) => {
                out.push(b'"');
                out.extend_from_slice(text.as_bytes());
                out.push(b'"');
                Ok(())
            }
            Value::Text(text) => serde_json::to_writer(&mut out, &**text),
            Value::Uuid(id) => serde_json::to_writer(&mut out, &format!("{id:032x}")),
            // structs are elements as they are, other JSON is text
            Value::Json(json) if json.is_object() => {
                out.extend_from_slice(canonical_json(json).as_bytes());
                Ok(())
            }
            Value::Json(json) => serde_json::to_writer(&mut out, &canonical_json(json)),
            Value::Null | Value::Cleared | Value::Geometry(_) | Value::List(_) => serde_json::to_writer(&mut out, &()),
        };
    }
    out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
    String::from_utf8(out).unwrap_or_default()
}

/// Whether JSON writes a text without escapes. It checks all bytes, which the compiler makes faster than stopping early.
fn is_plain(text: &str) -> bool {
    text.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

/// Converts an element of a list, as it is in JSON and in side tables.
pub fn bind_element(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Uuid(id) => ToSqlOutput::Owned(Sql::Text(format!("{id:032x}"))),
        other => bind(other),
    }
}

/// The reason why a stored value is not of its type.
type TypeMismatch = &'static str;

/// Reads a column's value of a type, as [`bind`] has written it.
pub fn unbind_stored(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    use FieldType as Ty;
    let fits = match value {
        ValueRef::Null => true,
        ValueRef::Integer(number) => match ty {
            Ty::Boolean => number == 0 || number == 1,
            Ty::Integer | Ty::Size | Ty::Timestamp | Ty::Date | Ty::PartialDate | Ty::Duration | Ty::Float => true,
            _ => false,
        },
        ValueRef::Real(_) => *ty == Ty::Float,
        ValueRef::Blob(_) => matches!(ty, Ty::Uuid | Ty::Geometry),
        ValueRef::Text(_) => matches!(ty, Ty::Text | Ty::Json | Ty::Ranges | Ty::Struct(_) | Ty::List(_)),
    };
    if fits { unbind(value, ty) } else { Err("it is of another type") }
}

/// Reads a value of a type that a statement computes.
pub fn unbind(value: ValueRef<'_>, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    const NO_JSON: TypeMismatch = "it is not JSON";
    Ok(match (value, ty) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Integer(number), FieldType::Boolean) => Value::Bool(number != 0),
        (ValueRef::Integer(number), FieldType::Float) => Value::Float(number as f64),
        (ValueRef::Integer(number), _) => Value::Int(number),
        (ValueRef::Real(number), _) => Value::Float(number),
        (ValueRef::Blob(bytes), FieldType::Geometry) => Value::Geometry(Arc::new(Geometry::from_bytes(bytes).map_err(|_| "it is not a geometry")?)),
        (ValueRef::Blob(bytes), _) => Value::Uuid(u128::from_be_bytes(bytes.try_into().map_err(|_| "it has not the length of a UUID")?)),
        (ValueRef::Text(text), FieldType::Json | FieldType::Ranges) => Value::Json(Arc::new(serde_json::from_slice(text).map_err(|_| NO_JSON)?)),
        (ValueRef::Text(text), FieldType::List(element)) => {
            if **element == FieldType::Text {
                let items: Vec<SmolStr> = serde_json::from_slice(text).map_err(|_| "it is not a list of texts")?;
                return Ok(Value::List(items.into_iter().map(Value::Text).collect()));
            }
            let items: Vec<serde_json::Value> = serde_json::from_slice(text).map_err(|_| "it is not a list")?;
            Value::List(items.iter().map(|item| unbind_element(item, element)).collect::<std::result::Result<_, TypeMismatch>>()?)
        }
        (ValueRef::Text(text), _) => Value::text(std::str::from_utf8(text).map_err(|_| "it is not UTF-8")?),
    })
}

fn unbind_element(item: &serde_json::Value, ty: &FieldType) -> std::result::Result<Value, TypeMismatch> {
    const UNFIT: TypeMismatch = "an element is of another type";
    Ok(match (item, ty) {
        (serde_json::Value::Number(number), FieldType::Boolean) => Value::Bool(number.as_i64().ok_or(UNFIT)? != 0),
        (serde_json::Value::Number(number), FieldType::Float) => Value::Float(number.as_f64().ok_or(UNFIT)?),
        (serde_json::Value::Number(number), _) => Value::Int(number.as_i64().ok_or(UNFIT)?),
        (serde_json::Value::String(text), FieldType::Uuid) => Value::Uuid(u128::from_str_radix(text, 16).map_err(|_| UNFIT)?),
        (serde_json::Value::Object(_), _) => Value::Json(Arc::new(item.clone())),
        (serde_json::Value::String(text), FieldType::Json | FieldType::Struct(_)) => {
            Value::Json(Arc::new(serde_json::from_str(text).map_err(|_| "an element is not JSON")?))
        }
        (serde_json::Value::String(text), FieldType::Text) => Value::text(text.as_str()),
        (serde_json::Value::Null, _) => Value::Null,
        _ => return Err(UNFIT),
    })
}
