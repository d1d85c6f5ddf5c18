//! Converts values of fields to CEL's values, and results of CEL to values of fields.

use crate::value::time::in_range;
use crate::value::{ConvertError, FieldType, Geometry, Value, from_json, member_of, repaired_from_json, show_timestamp};
use cel::Value as Cel;
use cel::objects::{Key as CelKey, Map as CelMap, Opaque};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use stook_geometry::Limits;

/// A value of CEL.
pub type CelValue = Cel;

/// Converts a field value to CEL.
pub fn to_cel(value: &Value, ty: &FieldType) -> Cel {
    match value {
        Value::Null | Value::Cleared => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Int(number) => match ty.element() {
            FieldType::Timestamp => chrono::DateTime::from_timestamp_micros(*number).map_or(Cel::Null, |time| Cel::Timestamp(time.fixed_offset())),
            FieldType::Duration => Cel::Duration(chrono::Duration::microseconds(*number)),
            FieldType::Date | FieldType::PartialDate => text_to_cel(&value.show(ty)),
            _ => Cel::Int(*number),
        },
        Value::Float(number) => Cel::Float(*number),
        Value::Text(text) => text_to_cel(text),
        Value::Uuid(_) => text_to_cel(&value.show(ty)),
        Value::Json(json) => match ty.element() {
            FieldType::Struct(members) => {
                let present = members.iter().map(|member| (member, member_of(json, member))).filter(|(_, value)| !value.is_null());
                let map: HashMap<CelKey, Cel> =
                    present.map(|(member, value)| (CelKey::String(Arc::new(member.name.clone())), to_cel(&value, &member.ty))).collect();
                Cel::Map(CelMap { map: Arc::new(map) })
            }
            _ => json_to_cel(json),
        },
        Value::Geometry(geometry) => geometry_to_cel(geometry.clone()),
        Value::List(items) => Cel::List(Arc::new(items.iter().map(|item| to_cel(item, ty.element())).collect())),
    }
}

/// A geometry as a CEL value.
#[derive(Debug, PartialEq, Eq)]
struct CelGeometry(Arc<Geometry>);

impl Opaque for CelGeometry {
    fn runtime_type_name(&self) -> &str {
        "geometry"
    }
}

/// Converts a geometry to CEL.
pub fn geometry_to_cel(geometry: Arc<Geometry>) -> Cel {
    Cel::Opaque(Arc::new(CelGeometry(geometry)))
}

/// Returns the geometry of a CEL value, if it is one.
pub fn cel_to_geometry(value: &Cel) -> Option<&Arc<Geometry>> {
    match value {
        Cel::Opaque(opaque) => opaque.downcast_ref::<CelGeometry>().map(|wrapper| &wrapper.0),
        _ => None,
    }
}

/// Converts text to CEL.
pub fn text_to_cel(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_owned()))
}

/// Converts JSON to CEL.
pub fn json_to_cel(json: &Json) -> Cel {
    match json {
        Json::Null => Cel::Null,
        Json::Bool(value) => Cel::Bool(*value),
        Json::Number(number) => number.as_i64().map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int),
        Json::String(text) => text_to_cel(text),
        Json::Array(items) => Cel::List(Arc::new(items.iter().map(json_to_cel).collect())),
        Json::Object(entries) => {
            let map: HashMap<CelKey, Cel> = entries.iter().map(|(key, value)| (CelKey::String(Arc::new(key.clone())), json_to_cel(value))).collect();
            Cel::Map(CelMap { map: Arc::new(map) })
        }
    }
}

/// Converts a CEL value to JSON.
pub fn cel_to_json(value: &Cel) -> Json {
    match value {
        Cel::Bool(value) => Json::Bool(*value),
        Cel::Int(number) => Json::from(*number),
        Cel::UInt(number) => Json::from(*number),
        Cel::Float(number) => Json::from(*number),
        Cel::String(text) => Json::from(text.as_str()),
        Cel::Timestamp(time) => Json::from(show_timestamp(time.timestamp_micros())),
        Cel::Duration(duration) => {
            let micros = duration.num_microseconds().unwrap_or(i64::MAX);
            Json::from(jiff::SignedDuration::from_micros(micros).to_string())
        }
        Cel::List(items) => Json::Array(items.iter().map(cel_to_json).collect()),
        Cel::Map(map) => {
            let sorted: BTreeMap<String, Json> = map
                .map
                .iter()
                .map(|(key, value)| {
                    let name = match key {
                        CelKey::String(text) => text.to_string(),
                        CelKey::Int(number) => number.to_string(),
                        CelKey::Uint(number) => number.to_string(),
                        CelKey::Bool(value) => value.to_string(),
                    };
                    (name, cel_to_json(value))
                })
                .collect();
            Json::Object(sorted.into_iter().collect())
        }
        other => cel_to_geometry(other).map_or(Json::Null, |geometry| geometry.to_geojson()),
    }
}

/// Converts a CEL result to a value of a type.
///
/// # Errors
/// When it does not fit the field's type.
pub fn from_cel(cel: &Cel, ty: &FieldType) -> Result<Value, ConvertError> {
    convert_directly(cel, ty).unwrap_or_else(|| from_json(&cel_to_json(cel), ty, None))
}

/// Converts a CEL result to a value of a type, and adds the repairs that were needed to `repairs`.
///
/// # Errors
/// When it does not fit the field's type.
pub fn repaired_from_cel(cel: &Cel, ty: &FieldType, repairs: &mut Vec<String>) -> Result<Value, ConvertError> {
    convert_directly(cel, ty).unwrap_or_else(|| repaired_from_json(&cel_to_json(cel), ty, None, repairs))
}

/// Takes a CEL result that needs no conversion; `None` if it needs one.
fn convert_directly(cel: &Cel, ty: &FieldType) -> Option<Result<Value, ConvertError>> {
    Some(match (cel, ty.element()) {
        (Cel::Null, _) => Ok(Value::Null),
        (Cel::Timestamp(time), FieldType::Timestamp) if !ty.is_list() => {
            in_range(time.timestamp_micros()).map(Value::Int).ok_or_else(|| ConvertError::new("this time", "a time in the years -9999 to 9999"))
        }
        (Cel::Duration(duration), FieldType::Duration) if !ty.is_list() => {
            duration.num_microseconds().map(Value::Int).ok_or_else(|| ConvertError::new("this length", "a duration that can be kept"))
        }
        (Cel::String(text), FieldType::Text) if !ty.is_list() => Ok(Value::text(text.as_str())),
        (Cel::Opaque(_), FieldType::Geometry) if !ty.is_list() => {
            let geometry = cel_to_geometry(cel)?;
            if geometry.positions() > Limits::VALUE.points {
                return Some(Err(ConvertError::new("this geometry", format!("a geometry of at most {} positions", Limits::VALUE.points))));
            }
            Ok(Value::Geometry(geometry.clone()))
        }
        _ => return None,
    })
}
