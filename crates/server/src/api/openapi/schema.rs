//! JSON schemas of requests and responses.

use crate::guard::request::MAX_INTEGER;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::{Collection, Field, KeyDefinition, TransitionArgument};
use stook_catalogue::key::MAX_KEY_BYTES;
use stook_catalogue::record::MAX_REASON;
use stook_catalogue::value::{FieldType, Value};
use stook_engine::corrections::{CORRECTS, REASON};
use stook_engine::edit_answer::{OVERRULED, WARNINGS};

/// A pattern for text without NUL, which not every store can keep.
pub const NO_NUL: &str = "^[^\\u0000]*$";
/// A pattern for text without control characters.
pub const NO_CONTROL: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f]*$";

/// Returns the schema of a value in requests.
pub fn schema(ty: &FieldType) -> Json {
    match ty {
        FieldType::Text => json!({ "type": "string", "pattern": NO_NUL }),
        FieldType::Integer => json!({ "type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER }),
        FieldType::Size => json!({ "type": "integer", "minimum": 0, "maximum": MAX_INTEGER, "description": "bytes" }),
        FieldType::Float => json!({ "type": "number" }),
        FieldType::Boolean => json!({ "type": "boolean" }),
        FieldType::Timestamp => json!({ "type": "string", "format": "date-time" }),
        FieldType::Date => json!({ "type": "string", "format": "date" }),
        FieldType::PartialDate => {
            json!({ "type": "string", "description": "a date, month, year or range of them: 1998-05-24, 1998-05, 1998, 1998/2003, 1998/.." })
        }
        FieldType::Duration => json!({ "type": "string", "pattern": "^-?P", "description": "ISO 8601, in hours and less: PT1H30M" }),
        FieldType::Uuid => json!({ "type": "string", "format": "uuid" }),
        FieldType::Json => json!({}),
        FieldType::Geometry => geojson(),
        FieldType::Ranges => json!({
            "type": "array",
            "items": { "type": "array", "minItems": 2, "maxItems": 2, "items": schema(&FieldType::Integer) },
            "description": "a set of integers: the first and the last of each range",
        }),
        FieldType::Struct(members) => {
            let members: Map<String, Json> = members.iter().map(|member| (member.name.clone(), nullable(schema(&member.ty)))).collect();
            json!({ "type": "object", "properties": members, "additionalProperties": false })
        }
        FieldType::List(element) => json!({ "type": "array", "items": schema(element) }),
    }
}

/// A GeoJSON geometry. Its coordinates are not described further, because a schema cannot express the rules for rings and positions.
fn geojson() -> Json {
    json!({
        "type": "object",
        "properties": {
            "type": { "enum": ["Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection"] },
            "coordinates": { "type": "array" },
            "geometries": { "type": "array", "items": { "type": "object" } },
        },
        "required": ["type"],
        "description": "GeoJSON (RFC 7946); WKT as a text is taken, too",
    })
}

pub fn schema_with_limits(ty: &FieldType, one_of: &[Value], min: Option<f64>, max: Option<f64>) -> Json {
    let mut whole = schema(ty);
    let element = if ty.is_list() { &mut whole["items"] } else { &mut whole };
    if !one_of.is_empty() {
        element["enum"] = one_of.iter().map(|value| value.to_json(ty.element())).collect();
    }
    let number = |number: f64| if number.fract() == 0.0 { json!(number as i64) } else { json!(number) };
    if let Some(min) = min {
        element["minimum"] = number(min);
    }
    if let Some(max) = max {
        element["maximum"] = number(max);
    }
    whole
}

pub fn nullable(schema: Json) -> Json {
    if schema.as_object().is_some_and(Map::is_empty) { schema } else { json!({ "anyOf": [schema, { "type": "null" }] }) }
}

pub fn reference(name: &str) -> Json {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Returns the schema of a record in responses.
pub fn record_schema(collection: &Collection) -> Json {
    let mut members = Map::new();
    members.insert("key".into(), json!({ "type": "string" }));
    for (_, field) in collection.shown_fields() {
        members.insert(field.name.clone(), response_schema(field.golden_type()));
    }
    for state in &collection.states {
        members.insert(state.name.clone(), response_schema(&state.ty));
    }
    let reasons = "In responses to edits: fields in which another source's value wins, and why.";
    members.insert(OVERRULED.into(), json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": reasons }));
    let failures = "In responses to edits: expressions that failed on the record, and why; their values are missing.";
    members.insert(WARNINGS.into(), json!({ "type": "array", "items": { "type": "string" }, "description": failures }));
    json!({ "type": "object", "properties": members, "required": ["key"], "additionalProperties": false })
}

/// Returns the schema of a value in responses, which is less strict than in requests.
pub fn response_schema(ty: &FieldType) -> Json {
    match ty {
        FieldType::Text | FieldType::Duration => json!({ "type": "string" }),
        FieldType::Integer | FieldType::Size => json!({ "type": "integer" }),
        FieldType::List(element) => json!({ "type": "array", "items": response_schema(element) }),
        FieldType::Struct(members) => {
            let members: Map<String, Json> = members.iter().map(|member| (member.name.clone(), response_schema(&member.ty))).collect();
            json!({ "type": "object", "properties": members, "additionalProperties": false })
        }
        other => schema(other),
    }
}

/// Kinds of edits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum EditKind {
    Create,
    Put,
    Patch,
}

/// Returns the schema of the fields of an edit.
pub fn edit_schema(collection: &Collection, edit: EditKind) -> Json {
    let patch = edit == EditKind::Patch;
    let contributed = || collection.fields.iter().filter(|field| field.derive.is_none());
    let needed = |field: &Field| field.required || (collection.is_in_key(field) && !matches!(collection.key, KeyDefinition::Expression(_)));
    let member = |field: &Field| {
        let mut member_schema = schema_with_limits(&field.ty, &field.one_of, None, None);
        if needed(field) && field.ty == FieldType::Text {
            member_schema["minLength"] = 1.into();
        }
        if matches!(collection.key, KeyDefinition::Field(_)) && collection.is_in_key(field) && field.ty == FieldType::Text {
            member_schema["maxLength"] = MAX_KEY_BYTES.into();
        }
        let member_schema = if patch || !needed(field) { nullable(member_schema) } else { member_schema };
        (field.name.clone(), member_schema)
    };
    // for a PUT, a key that is a field is given by the path
    let is_given_by_path = |field: &Field| edit == EditKind::Put && matches!(collection.key, KeyDefinition::Field(_)) && collection.is_in_key(field);
    let required: Vec<&str> =
        contributed().filter(|field| !patch && needed(field) && !is_given_by_path(field)).map(|field| field.name.as_str()).collect();
    let mut members: Map<String, Json> = contributed().map(member).collect();
    let corrected = |field: &Field| {
        let by_contributor = json!({ "type": "object", "additionalProperties": nullable(schema(&field.ty)) });
        (field.name.clone(), by_contributor)
    };
    let corrected: Map<String, Json> = contributed().map(corrected).collect();
    let about = "By field, the values of other contributors that the edit corrects, null for one that cleared it: it holds until one of them gives another value.";
    members.insert(CORRECTS.into(), json!({ "type": "object", "properties": corrected, "additionalProperties": false, "description": about }));
    members
        .insert(REASON.into(), json!({ "type": "string", "pattern": NO_NUL, "maxLength": MAX_REASON, "description": "Why the fields are edited." }));
    json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false })
}

pub fn arguments_schema(args: &[TransitionArgument]) -> Json {
    let member = |argument: &TransitionArgument| {
        let member_schema = schema_with_limits(&argument.ty, &argument.one_of, argument.min, argument.max);
        let member_schema = if argument.required && argument.default.is_none() { member_schema } else { nullable(member_schema) };
        (argument.name.clone(), member_schema)
    };
    let required: Vec<&str> =
        args.iter().filter(|argument| argument.required && argument.default.is_none()).map(|argument| argument.name.as_str()).collect();
    let members: Map<String, Json> = args.iter().map(member).collect();
    json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false })
}

/// A record's key.
pub fn key() -> Json {
    json!({ "type": "string", "pattern": "^[^\\u0000]+$", "minLength": 1, "maxLength": MAX_KEY_BYTES })
}

pub fn limit_schema(max: u64) -> Json {
    json!({ "type": "integer", "minimum": 1, "maximum": max })
}

/// Text as requests send it.
pub fn text() -> Json {
    json!({ "type": "string", "pattern": NO_NUL })
}

/// Any object.
pub fn object() -> Json {
    json!({ "type": "object" })
}

/// An object with a list, and the position after which the next page starts.
pub fn list(name: &str, items: Json) -> Json {
    json!({ "type": "object", "properties": { name: { "type": "array", "items": items }, "next": { "type": ["integer", "null"] } }, "required": [name] })
}

/// A query.
pub fn query_text() -> Json {
    json!({ "type": "string", "pattern": NO_NUL, "minLength": 1, "maxLength": 4_000 })
}

pub fn transition_result_schema() -> Json {
    json!({ "type": "object", "properties": { "key": { "type": "string" }, "transition": { "type": "string" }, "state": { "type": "object" } }, "required": ["key", "transition", "state"] })
}
