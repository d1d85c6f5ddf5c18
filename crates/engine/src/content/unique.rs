//! Values of unique fields, as they are compared.

use stook_catalogue::definition::Field;
use stook_catalogue::fold::fold;
use stook_catalogue::record::put_value;
use stook_catalogue::value::Value;

/// A value of a unique field as it is compared: equal bytes, and two records may not both have it.
pub(crate) fn reserved(field: &Field, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        Value::Text(text) if field.fold => put_value(&mut bytes, &Value::text(fold(text))),
        other => put_value(&mut bytes, other),
    }
    bytes
}
