//! The values of fields: their types, and conversions from documents.

mod convert;
mod field_type;
pub mod fold;
pub mod json;
mod json_document;
mod partial_date;
pub mod time;
pub mod words;

pub use convert::{
    ConvertError, MAX_JSON_DEPTH, among, duration_from_text, from_json, from_text, repaired_from_json, repaired_from_text, size_from_text,
};
pub use field_type::{FieldType, StructMember, TYPE_NAMES};
pub use json_document::{JsonDocument, MAX_DOCUMENT_DEPTH};
pub use partial_date::PartialDate;
pub use smol_str::SmolStr;
pub use stook_geometry::Geometry;
pub use time::show_timestamp;

use jiff::SignedDuration;
use jiff::civil;
use serde_json::Value as Json;
use std::cmp::Ordering;
use std::sync::Arc;

/// A value of a field. Times, dates, durations and sizes are integers in the unit of their [`FieldType`].
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// Of type boolean.
    Bool(bool),
    /// Of type integer, timestamp, date, duration or size; of type partial_date, as [`PartialDate::stored`] makes it.
    Int(i64),
    /// Of type float; never NaN or infinite.
    Float(f64),
    /// Of type text; clones do not allocate.
    Text(SmolStr),
    /// Of type uuid.
    Uuid(u128),
    /// Of type json; of type ranges, as `[[low, high]]`; of a struct type, its members that have a value, each as [`stored_json`] makes it.
    Json(Arc<Json>),
    /// Of type geometry; equal areas are equal, however they were written. Clones share it.
    Geometry(Arc<Geometry>),
    /// Of a list type.
    List(Vec<Value>),
    /// Only in contributions: the contributor states that the field has no value, whatever others contribute.
    Cleared,
}

impl Value {
    /// Makes a text; up to 23 bytes are stored inline, longer ones are shared.
    pub fn text(text: impl Into<SmolStr>) -> Self {
        Value::Text(text.into())
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Returns the text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Makes a float, with -0 replaced by 0, because databases do not distinguish them and equal numbers must be equal values.
    pub fn float(number: f64) -> Self {
        Value::Float(number + 0.0)
    }

    /// Returns the number as a float, if it is one.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the elements of a list, none for null, and otherwise the value itself.
    pub fn elements(&self) -> &[Value] {
        match self {
            Value::Null | Value::Cleared => &[],
            Value::List(items) => items,
            scalar => std::slice::from_ref(scalar),
        }
    }

    /// The total order of values of one type: bytes for text, numeric for numbers, null first.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Int(a), Value::Float(b)) => (*a as f64).total_cmp(b),
            (Value::Float(a), Value::Int(b)) => a.total_cmp(&(*b as f64)),
            (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Value::Uuid(a), Value::Uuid(b)) => a.cmp(b),
            (Value::Json(a), Value::Json(b)) => canonical_json(a).cmp(&canonical_json(b)),
            (Value::Geometry(a), Value::Geometry(b)) => a.to_bytes().cmp(&b.to_bytes()),
            (Value::List(a), Value::List(b)) => {
                a.iter().zip(b).map(|(x, y)| x.compare(y)).find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
            }
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null | Value::Cleared => 0,
            Value::Bool(_) => 1,
            Value::Int(_) | Value::Float(_) => 2,
            Value::Text(_) => 3,
            Value::Uuid(_) => 4,
            Value::Json(_) => 5,
            Value::Geometry(_) => 6,
            Value::List(_) => 7,
        }
    }

    /// Returns the value as JSON: times in RFC 3339, durations in ISO 8601, sizes in bytes, geometries as GeoJSON.
    pub fn to_json(&self, ty: &FieldType) -> Json {
        match self {
            Value::Null | Value::Cleared => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(number) => match ty.element() {
                FieldType::Integer | FieldType::Size => Json::from(*number),
                other => Json::from(show_int(*number, other)),
            },
            Value::Float(number) => Json::from(*number),
            Value::Text(text) => Json::from(&**text),
            Value::Uuid(id) => Json::from(uuid::Uuid::from_u128(*id).to_string()),
            Value::Json(value) => match ty.element() {
                FieldType::Struct(members) => struct_to_json(value, members),
                _ => (**value).clone(),
            },
            Value::Geometry(geometry) => geometry.to_geojson(),
            Value::List(items) => Json::Array(items.iter().map(|item| item.to_json(ty.element())).collect()),
        }
    }

    /// Returns the value as text for tables; geometries as WKT.
    pub fn show(&self, ty: &FieldType) -> String {
        match self {
            Value::Null | Value::Cleared => String::new(),
            Value::Text(text) => text.to_string(),
            Value::Int(number) => show_int(*number, ty.element()),
            Value::Geometry(geometry) => geometry.to_wkt(),
            Value::List(items) => items.iter().map(|item| item.show(ty.element())).collect::<Vec<_>>().join("; "),
            Value::Json(json) if ty.element() == &FieldType::Ranges => show_ranges(json),
            Value::Json(json) if !ty.members().is_empty() => {
                let shown = ty.members().iter().map(|member| member_of(json, member).show(&member.ty));
                shown.filter(|shown| !shown.is_empty()).collect::<Vec<_>>().join(" ")
            }
            other => match other.to_json(ty) {
                Json::String(text) => text,
                json => json.to_string(),
            },
        }
    }
}

/// Returns a value of a scalar type or of ranges as it is stored in a struct: numbers in the unit of their type, UUIDs as 32 digits.
pub fn stored_json(value: &Value) -> Json {
    match value {
        Value::Null | Value::Cleared | Value::List(_) => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Int(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::Text(text) => Json::from(&**text),
        Value::Uuid(id) => Json::from(format!("{id:032x}")),
        Value::Json(value) => (**value).clone(),
        Value::Geometry(geometry) => geometry.to_geojson(),
    }
}

/// Returns a member of a struct as a value; null if it is missing.
pub fn member_of(json: &Json, member: &StructMember) -> Value {
    match json.get(&member.name) {
        None | Some(Json::Null) => Value::Null,
        Some(Json::Bool(value)) => Value::Bool(*value),
        Some(Json::Number(number)) if member.ty == FieldType::Float => number.as_f64().map_or(Value::Null, Value::float),
        Some(Json::Number(number)) => number.as_i64().map_or(Value::Null, Value::Int),
        Some(Json::String(digits)) if member.ty == FieldType::Uuid => u128::from_str_radix(digits, 16).map_or(Value::Null, Value::Uuid),
        Some(Json::String(text)) => Value::text(text.as_str()),
        Some(other) => Value::Json(Arc::new(other.clone())),
    }
}

/// Makes a struct of these members; null if no member has a value.
pub fn struct_of(members: &[StructMember], values: impl IntoIterator<Item = Value>) -> Value {
    let present = members.iter().zip(values).filter(|(_, value)| !value.is_null());
    let present: serde_json::Map<String, Json> = present.map(|(member, value)| (member.name.clone(), stored_json(&value))).collect();
    if present.is_empty() { Value::Null } else { Value::Json(Arc::new(present.into())) }
}

fn struct_to_json(json: &Json, members: &[StructMember]) -> Json {
    let shown = members.iter().map(|member| (member.name.clone(), member_of(json, member).to_json(&member.ty)));
    Json::Object(shown.filter(|(_, value)| !value.is_null()).collect())
}

/// Iterates over the ranges of a value of type ranges.
pub fn ranges(json: &Json) -> impl Iterator<Item = (i64, i64)> + '_ {
    json.as_array().into_iter().flatten().filter_map(|pair| Some((pair.get(0)?.as_i64()?, pair.get(1)?.as_i64()?)))
}

/// Makes a set of integers: ranges that neither overlap nor touch, lowest first; null if there are none.
pub fn ranges_of(mut pairs: Vec<(i64, i64)>) -> Value {
    pairs.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (low, high) in pairs {
        match joined.last_mut() {
            Some((_, last)) if low <= last.saturating_add(1) => *last = high.max(*last),
            _ => joined.push((low, high)),
        }
    }
    if joined.is_empty() { Value::Null } else { Value::Json(Arc::new(joined.into_iter().map(|(low, high)| Json::from(vec![low, high])).collect())) }
}

fn show_ranges(json: &Json) -> String {
    let shown = ranges(json).map(|(low, high)| if low == high { low.to_string() } else { format!("{low}-{high}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// Parses `1-5, 8`.
fn ranges_from_text(text: &str) -> Option<Vec<(i64, i64)>> {
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let range = |part: &str| match number(part) {
        Some(single) => Some((single, single)),
        // the sign of the first number is not the dash between the two
        None => {
            let part = part.trim();
            let (at, _) = part.char_indices().skip(1).find(|(_, character)| *character == '-')?;
            Some((number(&part[..at])?, number(&part[at + 1..])?))
        }
    };
    text.split(',').map(|part| range(part).filter(|(low, high)| low <= high)).collect()
}

/// Reads integers and pairs of integers.
fn ranges_from_json(json: &Json) -> Option<Vec<(i64, i64)>> {
    let integer = Json::as_i64;
    match json {
        Json::Number(_) => integer(json).map(|single| vec![(single, single)]),
        Json::String(text) => ranges_from_text(text),
        Json::Array(items) => {
            let range = |item: &Json| match item {
                Json::Array(pair) => match pair.as_slice() {
                    [low, high] => integer(low).zip(integer(high)).filter(|(low, high)| low <= high),
                    _ => None,
                },
                single => integer(single).map(|single| (single, single)),
            };
            items.iter().map(range).collect()
        }
        _ => None,
    }
}

fn show_int(number: i64, ty: &FieldType) -> String {
    match ty {
        FieldType::Timestamp => show_timestamp(number),
        FieldType::Date => show_date(number),
        FieldType::PartialDate => PartialDate::from_stored(number).map_or_else(|| number.to_string(), |date| date.to_string()),
        FieldType::Duration => SignedDuration::from_micros(number).to_string(),
        _ => number.to_string(),
    }
}

fn show_date(days: i64) -> String {
    let date = i32::try_from(days).ok().and_then(|days| {
        let epoch = civil::date(1970, 1, 1);
        epoch.checked_add(jiff::Span::new().try_days(days).ok()?).ok()
    });
    date.map_or_else(|| days.to_string(), |date| date.to_string())
}

/// Returns JSON text with sorted object keys, so that equal values have equal bytes.
pub fn canonical_json(value: &Json) -> String {
    fn write(value: &Json, out: &mut String) {
        match value {
            Json::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write(item, out);
                }
                out.push(']');
            }
            Json::Object(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(b.0));
                out.push('{');
                for (index, (key, item)) in sorted.into_iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    out.push_str(&Json::from(key.as_str()).to_string());
                    out.push(':');
                    write(item, out);
                }
                out.push('}');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
    }
    let mut out = String::new();
    write(value, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str, ty: FieldType, format: Option<&str>) -> Option<Value> {
        from_text(value, &ty, format).ok()
    }

    #[test]
    fn ranges_are_sets_of_integers() {
        let set_of = |numbers: &[i64]| ranges_of(numbers.iter().map(|number| (*number, *number)).collect());
        let shown = |value: &Value| value.show(&FieldType::Ranges);
        // example from the tests of DAS (`examples/datasets/das.md`)
        let all = set_of(&[5, 1, 1, 1, 2, 2, 3, 3, 3, 4, 8, 9, 1]);
        assert_eq!((shown(&all), all.to_json(&FieldType::Ranges)), ("1-5, 8-9".into(), serde_json::json!([[1, 5], [8, 9]])));
        assert_eq!(text("8, 1-4, 9, 5, -3--1", FieldType::Ranges, None).as_ref().map(shown), Some("-3--1, 1-5, 8-9".into()));
        assert_eq!((set_of(&[]), text("4-1", FieldType::Ranges, None), text("1-", FieldType::Ranges, None)), (Value::Null, None, None));
    }

    #[test]
    fn timestamps_are_utc_microseconds() {
        let marc_005 = text("20180426140254.5", FieldType::Timestamp, Some("%Y%m%d%H%M%S.%f"));
        assert_eq!(marc_005, Some(Value::Int(1_524_751_374_500_000)));
        let with_offset = text("2018-04-26T16:02:54.5+02:00", FieldType::Timestamp, None);
        assert_eq!(with_offset, marc_005);
        assert_eq!(text("2018-04-26 14:02:54.5", FieldType::Timestamp, None), marc_005);
        assert_eq!(text("1524751374.5", FieldType::Timestamp, Some("epoch")), marc_005);
        assert_eq!(show_timestamp(1_524_751_374_500_000), "2018-04-26T14:02:54.5Z");
        assert_eq!(text("2018-02-30", FieldType::Timestamp, None), None);
    }

    #[test]
    fn durations_and_sizes_have_units() {
        assert_eq!(text("1h30m", FieldType::Duration, None), Some(Value::Int(5_400_000_000)));
        assert_eq!(text("PT90M", FieldType::Duration, None), Some(Value::Int(5_400_000_000)));
        assert_eq!(text("P0D", FieldType::Duration, None), Some(Value::Int(0)));
        assert_eq!(text("P1DT12H", FieldType::Duration, None), Some(Value::Int(129_600_000_000)));
        assert_eq!(text("30d", FieldType::Duration, None), Some(Value::Int(2_592_000_000_000)));
        assert_eq!(text("P1M", FieldType::Duration, None), None, "months have no length");
        assert_eq!(text("2800", FieldType::Duration, Some("ms")), Some(Value::Int(2_800_000)));
        assert_eq!(text("1.5 GiB", FieldType::Size, None), Some(Value::Int(1_610_612_736)));
        assert_eq!(text("10 kB", FieldType::Size, None), Some(Value::Int(10_000)));
        assert_eq!(text("10 parsecs", FieldType::Size, None), None);
    }

    #[test]
    fn a_wrong_value_is_named_with_what_was_expected() {
        let error = from_text("twelve", &FieldType::Integer, None).expect_err("not an integer");
        assert_eq!(error.to_string(), "\"twelve\" is not an integer");
    }

    #[test]
    fn json_numbers_become_integers_only_without_a_fraction() {
        assert_eq!(from_json(&Json::from(2.0), &FieldType::Integer, None), Ok(Value::Int(2)));
        assert!(from_json(&Json::from(2.5), &FieldType::Integer, None).is_err());
    }

    #[test]
    fn dates_count_days() {
        assert_eq!(text("1970-01-02", FieldType::Date, None), Some(Value::Int(1)));
        assert_eq!(Value::Int(-1).show(&FieldType::Date), "1969-12-31");
    }
}
