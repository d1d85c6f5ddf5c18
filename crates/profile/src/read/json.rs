//! The paths of a JSON document, with their values.

use super::Columns;
use crate::column::Native;
use serde_json::Value as Json;

/// Levels of objects whose members are paths of their own.
const MAX_LEVELS: usize = 5;
/// Maximum number of members of an object that are paths of their own.
const MAX_MEMBERS: usize = 200;

pub(super) fn add(document: &Json, columns: &mut Columns) -> Result<(), String> {
    let Json::Object(members) = document else {
        return Err("it is no object, so it has no members that could be fields".to_owned());
    };
    for (name, value) in members {
        add_value(&member("$", name), value, 1, columns);
    }
    Ok(())
}

/// The path of a member.
fn member(path: &str, name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_plain { format!("{path}.{name}") } else { format!("{path}['{}']", name.replace('\\', "\\\\").replace('\'', "\\'")) }
}

fn add_value(path: &str, value: &Json, level: usize, columns: &mut Columns) {
    match value {
        Json::Null => {}
        Json::Object(members) if level < MAX_LEVELS && members.len() <= MAX_MEMBERS && !is_geometry(value) => {
            for (name, value) in members {
                add_value(&member(path, name), value, level + 1, columns);
            }
        }
        Json::Object(_) if is_geometry(value) => columns.add(path, &value.to_string(), Native::Text),
        Json::Object(_) => columns.add_nested(path, true),
        Json::Array(elements) if elements.is_empty() => {}
        Json::Array(elements) => add_list(path, elements, columns),
        scalar => add_scalar(path, scalar, columns),
    }
}

fn add_scalar(path: &str, value: &Json, columns: &mut Columns) {
    match value {
        Json::String(text) if text.is_empty() => {}
        Json::String(text) => columns.add(path, text, Native::Text),
        Json::Bool(value) => columns.add(path, if *value { "true" } else { "false" }, Native::Boolean),
        other => columns.add(path, &other.to_string(), Native::Number),
    }
}

fn add_list(path: &str, elements: &[Json], columns: &mut Columns) {
    let most = columns.lists.entry(path.to_owned()).or_default();
    *most = (*most).max(elements.len() as u64);
    let is_scalar = |element: &Json| !matches!(element, Json::Object(_) | Json::Array(_) | Json::Null);
    if elements.iter().all(is_scalar) {
        elements.iter().for_each(|element| add_scalar(path, element, columns));
        return;
    }
    let is_flat = |element: &Json| element.as_object().is_some_and(|members| !members.is_empty() && members.values().all(&is_scalar));
    columns.add_nested(path, !elements.iter().all(is_flat));
    for members in elements.iter().filter_map(Json::as_object) {
        for (name, value) in members.iter().filter(|(_, value)| is_scalar(value)) {
            add_scalar(&member(&format!("{path}[*]"), name), value, columns);
        }
    }
}

/// Whether a value is GeoJSON, which is one value.
fn is_geometry(value: &Json) -> bool {
    let kind = value.get("type").and_then(Json::as_str).unwrap_or_default();
    let is_named = ["Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"].contains(&kind);
    is_named && value.get("coordinates").is_some_and(Json::is_array)
}
