//! How values of unique fields are compared.

use stook_catalogue::definition::Field;
use stook_catalogue::fold::fold;
use stook_catalogue::record::put_value;
use stook_catalogue::value::Value;

/// The bytes by which a value of a unique field is compared: two records must not have the same.
pub(crate) fn reserved(field: &Field, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        Value::Text(text) if field.fold => put_value(&mut bytes, &Value::text(fold(text))),
        other => put_value(&mut bytes, other),
    }
    bytes
}
