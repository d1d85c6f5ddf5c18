//! Converts texts and JSON of documents and requests to values of a type.

use super::field_type::FieldType;
use super::time::timestamp_from_text;
use super::{PartialDate, Value, json, ranges_from_json, ranges_from_text, ranges_of, struct_of};
use jiff::civil;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::{SignedDuration, Span, SpanRelativeTo};
use serde_json::Value as Json;
use std::sync::Arc;
use stook_geometry::{Geometry, Limits, Reading};

/// Max levels of a value of type `json`.
pub const MAX_JSON_DEPTH: usize = 64;

/// The error for a value that does not fit a type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value} is not {expected}")]
pub struct ConvertError {
    /// The offending value, shortened.
    pub value: String,
    /// What was expected, with an article.
    pub expected: String,
}

impl ConvertError {
    pub(crate) fn new(value: &str, expected: impl Into<String>) -> Self {
        let mut shown: String = value.chars().take(60).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Self { value: format!("{shown:?}"), expected: expected.into() }
    }
}

/// Converts text to a scalar type, as [`repaired_from_text`] does, without repairs.
///
/// # Errors
/// When the text is not a value of the type, or only after repairs; a blank text is only a value of type text.
pub fn from_text(text: &str, ty: &FieldType, format: Option<&str>) -> Result<Value, ConvertError> {
    let mut repairs = Vec::new();
    let value = repaired_from_text(text, ty, format, &mut repairs)?;
    without_repairs(value, &repairs, || ConvertError::new(text, NEEDS_REPAIR))
}

/// The expected value if a geometry needs repairs, which only documents may.
const NEEDS_REPAIR: &str = "a valid geometry";

fn without_repairs(value: Value, repairs: &[String], wrong: impl FnOnce() -> ConvertError) -> Result<Value, ConvertError> {
    match repairs.first() {
        None => Ok(value),
        Some(repair) => {
            let wrong = wrong();
            Err(ConvertError { expected: format!("{} (documents are repaired): {repair}", wrong.expected), ..wrong })
        }
    }
}

/// Converts text to a scalar type, and adds the repairs that were needed to `repairs`. `format` is a strftime pattern for timestamps and dates, or
/// one of `epoch`, `epoch_ms`, `epoch_us` (timestamps) and `d`, `h`, `m`, `s`, `ms`, `us` (durations written as a bare number).
///
/// # Errors
/// When the text is not a value of the type; a blank text is only a value of type text.
pub fn repaired_from_text(text: &str, ty: &FieldType, format: Option<&str>, repairs: &mut Vec<String>) -> Result<Value, ConvertError> {
    let wrong = |expected: &str| ConvertError::new(text, expected);
    if matches!(ty, FieldType::Text) {
        return Ok(Value::text(text));
    }
    let trimmed = text.trim();
    match ty {
        FieldType::Text | FieldType::List(_) => Ok(Value::text(text)),
        FieldType::Ranges => ranges_from_text(trimmed).map(ranges_of).ok_or_else(|| wrong("a set of integers (1-5, 8)")),
        FieldType::Struct(_) => match json::parse(trimmed.as_bytes()) {
            Ok(json @ Json::Object(_)) => repaired_from_json(&json, ty, format, repairs),
            _ => Err(wrong("a JSON object")),
        },
        FieldType::Integer => trimmed.parse().map(Value::Int).map_err(|_| wrong("an integer")),
        FieldType::Float => match trimmed.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Value::float(number)),
            _ => Err(wrong("a finite number")),
        },
        FieldType::Boolean => match trimmed {
            "true" | "True" | "TRUE" | "1" | "yes" => Ok(Value::Bool(true)),
            "false" | "False" | "FALSE" | "0" | "no" => Ok(Value::Bool(false)),
            _ => Err(wrong("a boolean (true, false, 1, 0, yes, no)")),
        },
        FieldType::Timestamp => timestamp_from_text(trimmed, format).map(Value::Int).ok_or_else(|| match format {
            Some(format) => ConvertError::new(text, format!("a timestamp of the form {format}")),
            None => wrong("a timestamp (RFC 3339, or a date and time in UTC)"),
        }),
        FieldType::Date => date_from_text(trimmed, format).map(Value::Int).ok_or_else(|| match format {
            Some(format) => ConvertError::new(text, format!("a date of the form {format}")),
            None => wrong("a date (YYYY-MM-DD)"),
        }),
        FieldType::PartialDate => {
            let date = format.map_or_else(|| PartialDate::parse(trimmed), |format| PartialDate::parse_with(trimmed, format));
            date.map(|date| Value::Int(date.stored())).ok_or_else(|| match format {
                Some(format) => ConvertError::new(text, format!("a date of the form {format}")),
                None => wrong("a date, month, year or range of them (1998-05-24, 1998-05, 1998, 1998/2003)"),
            })
        }
        FieldType::Duration => {
            duration_from_text(trimmed, format).map(Value::Int).ok_or_else(|| wrong("a duration (1h30m, PT90M, or a number with `format: s`)"))
        }
        FieldType::Size => size_from_text(trimmed).map(Value::Int).ok_or_else(|| wrong("a size (1234, 10 kB, 1.5 GiB)")),
        FieldType::Uuid => uuid::Uuid::try_parse(trimmed).map(|id| Value::Uuid(id.as_u128())).map_err(|_| wrong("a UUID")),
        FieldType::Json => json::parse(trimmed.as_bytes()).map(|json| Value::Json(Arc::new(json))).map_err(|_| wrong("JSON")),
        FieldType::Geometry => geometry(Geometry::read(trimmed, &Limits::VALUE), repairs).map_err(|error| wrong(&error)),
    }
}

/// Converts the result of reading a geometry.
fn geometry(reading: Result<Reading, stook_geometry::Error>, repairs: &mut Vec<String>) -> Result<Value, String> {
    let Reading { geometry, warnings } = reading.map_err(|error| format!("a geometry: {error}"))?;
    repairs.extend(warnings.iter().map(ToString::to_string));
    Ok(Value::Geometry(Arc::new(geometry)))
}

/// Returns the value if it, or each of its elements, is one of the allowed values; without allowed values, any is.
///
/// # Errors
/// A message with the allowed values.
pub fn among(value: Value, ty: &FieldType, one_of: &[Value]) -> Result<Value, String> {
    if one_of.is_empty() || value.elements().iter().all(|element| one_of.contains(element)) {
        return Ok(value);
    }
    let choices: Vec<String> = one_of.iter().map(|choice| choice.show(ty)).collect();
    Err(format!("{:?} is not one of {}", value.show(ty), choices.join(", ")))
}

/// Converts a JSON value to a type, as [`repaired_from_json`] does, without repairs.
///
/// # Errors
/// When the value is not one of the type, or only after repairs.
pub fn from_json(json: &Json, ty: &FieldType, format: Option<&str>) -> Result<Value, ConvertError> {
    let mut repairs = Vec::new();
    let value = repaired_from_json(json, ty, format, &mut repairs)?;
    without_repairs(value, &repairs, || ConvertError::new(&json.to_string(), NEEDS_REPAIR))
}

/// Converts a JSON value to a type, and adds the repairs that were needed to `repairs`; for a list type, a scalar becomes a list of one.
///
/// # Errors
/// When the value is not one of the type.
pub fn repaired_from_json(json: &Json, ty: &FieldType, format: Option<&str>, repairs: &mut Vec<String>) -> Result<Value, ConvertError> {
    let wrong = |expected: String| ConvertError::new(&json.to_string(), expected);
    match (ty, json) {
        (_, Json::Null) => Ok(Value::Null),
        (FieldType::List(element), Json::Array(items)) => {
            let converted: Result<Vec<Value>, _> = items.iter().map(|item| repaired_from_json(item, element, format, repairs)).collect();
            converted.map(|values| Value::List(values.into_iter().filter(|value| !value.is_null()).collect()))
        }
        (FieldType::Ranges, _) => ranges_from_json(json).map(ranges_of).ok_or_else(|| wrong("a set of integers ([[1, 5], 8])".into())),
        (FieldType::Struct(members), Json::Object(entries)) => {
            let values = members.iter().map(|member| match entries.get(&member.name) {
                None => Ok(Value::Null),
                Some(value) => repaired_from_json(value, &member.ty, None, repairs)
                    .map_err(|error| ConvertError { value: format!("`{}` {}", member.name, error.value), ..error }),
            });
            Ok(struct_of(members, values.collect::<Result<Vec<_>, _>>()?))
        }
        (FieldType::List(element), scalar) => {
            let value = repaired_from_json(scalar, element, format, repairs)?;
            Ok(Value::List(if value.is_null() { Vec::new() } else { vec![value] }))
        }
        (FieldType::Json, any) => {
            if depth(any) > MAX_JSON_DEPTH {
                return Err(ConvertError::new("…", format!("JSON of at most {MAX_JSON_DEPTH} levels")));
            }
            Ok(Value::Json(Arc::new(any.clone())))
        }
        (FieldType::Geometry, Json::Object(_)) => geometry(Geometry::read_json(json, &Limits::VALUE), repairs).map_err(wrong),
        (FieldType::Boolean, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (FieldType::Text, Json::Bool(value)) => Ok(Value::text(value.to_string())),
        (FieldType::Integer | FieldType::Size, Json::Number(number)) => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9.0e15).map(|n| n as i64);
            number.as_i64().or(whole).map(Value::Int).ok_or_else(|| wrong(format!("of type {ty}")))
        }
        (FieldType::Float, Json::Number(number)) => number.as_f64().map(Value::float).ok_or_else(|| wrong("a finite number".into())),
        (FieldType::Struct(_), _) => Err(wrong(format!("of type {ty}"))),
        (_, Json::Number(number)) => repaired_from_text(&number.to_string(), ty, format, repairs),
        (_, Json::String(text)) => repaired_from_text(text, ty, format, repairs),
        _ => Err(wrong(format!("of type {ty}"))),
    }
}

/// Returns the levels of nesting: 1 for a scalar.
fn depth(json: &Json) -> usize {
    match json {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(entries) => 1 + entries.values().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

fn date_from_text(text: &str, format: Option<&str>) -> Option<i64> {
    let date: civil::Date = match format {
        Some(pattern) => BrokenDownTime::parse(pattern, text).ok()?.to_date().ok()?,
        None => text.parse().ok()?,
    };
    let days = (date - civil::date(1970, 1, 1)).get_days();
    Some(i64::from(days))
}

/// Parses a duration such as `1h30m`, `PT90M`, `30d` (days of 24 hours), `-2s` or, with a unit as `format`, a bare number. Returns microseconds.
pub fn duration_from_text(text: &str, format: Option<&str>) -> Option<i64> {
    let unit = match format {
        None => {
            // months and years have no length
            let with_days = || text.parse::<Span>().ok()?.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
            let duration: SignedDuration = text.parse().ok().or_else(with_days)?;
            return i64::try_from(duration.as_micros()).ok();
        }
        Some("d") => 86_400_000_000,
        Some("h") => 3_600_000_000,
        Some("m") => 60_000_000,
        Some("s") => 1_000_000,
        Some("ms") => 1_000,
        Some("us") => 1,
        Some(_) => return None,
    };
    if unit == 1 { text.parse().ok() } else { decimal_times(text, unit) }
}

fn decimal_times(text: &str, unit: i64) -> Option<i64> {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.checked_mul(unit);
    }
    let number: f64 = text.parse().ok()?;
    let scaled = (number * unit as f64).round();
    (scaled.abs() < 9.0e18).then_some(scaled as i64)
}

/// Parses a size such as `1234`, `10 kB` (decimal) or `1.5 GiB` (binary). Returns bytes.
pub fn size_from_text(text: &str) -> Option<i64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let scale: i64 = match unit {
        "" | "B" => 1,
        "kB" | "KB" | "k" | "K" => 1_000,
        "MB" | "M" => 1_000_000,
        "GB" | "G" => 1_000_000_000,
        "TB" | "T" => 1_000_000_000_000,
        "PB" | "P" => 1_000_000_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        "PiB" => 1 << 50,
        _ => return None,
    };
    decimal_times(number, scale)
}
