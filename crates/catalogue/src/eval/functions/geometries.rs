//! Functions of geometries: their area, and relations of two.

use super::text::text_value;
use super::{EvalError, EvalResult, failed, kind_of};
use crate::eval::convert::{CelValue as Cel, cel_to_geometry, cel_to_json, geometry_to_cel, text_to_cel};
use crate::eval::tables::ConstantTables;
use crate::value::{FieldType, Geometry, Value, from_json};
use std::sync::Arc;
use stook_geometry::TooIntricate;

/// Calls a function of this module; `None` for other functions and arguments.
pub(super) fn call(name: &str, args: &[Cel]) -> Option<EvalResult> {
    Some(match (name, args) {
        ("geometry", [value]) => read(value).map(geometry_to_cel),
        ("area", [of]) => read(of).map(|of| Cel::Float(of.area())),
        ("intersects", [first, second]) => both(first, second, |first, second| first.intersects(second).map(Cel::Bool)),
        ("within", [first, second]) => both(first, second, |first, second| first.is_within(second).map(Cel::Bool)),
        ("fraction", [of, within]) => both(of, within, |of, within| of.fraction_in(within).map(|found| found.map_or(Cel::Null, Cel::Float))),
        ("string", [geometry @ Cel::Opaque(_)]) => read(geometry).and_then(|geometry| text_value(geometry.to_wkt())),
        ("type", [Cel::Opaque(_)]) => Ok(text_to_cel("geometry")),
        _ => return None,
    })
}

/// Functions of named areas: which of them a geometry meets, or the one of a name. Null if their file does not exist.
pub(super) fn call_with_areas(function: &str, areas: &str, argument: &Cel, tables: &ConstantTables) -> EvalResult {
    let file_areas = tables.areas(areas).ok_or_else(|| EvalError::TypeMismatch(format!("there are no areas `{areas}`")))?;
    let Some(file_areas) = file_areas else { return Ok(Cel::Null) };
    if function == "areas_met" {
        let touched = file_areas.touching(read(argument)?.as_ref()).map_err(|error| failed(error.to_string()))?;
        return Ok(Cel::List(Arc::new(touched.into_iter().map(text_to_cel).collect())));
    }
    let Cel::String(name) = argument else {
        return Err(EvalError::TypeMismatch(format!("the name of an area is text, this is {}", kind_of(argument))));
    };
    Ok(file_areas.named(name).map_or(Cel::Null, |area| geometry_to_cel(area.clone())))
}

fn both(first: &Cel, second: &Cel, relate: impl FnOnce(&Geometry, &Geometry) -> Result<Cel, TooIntricate>) -> EvalResult {
    let (first, second) = (read(first)?, read(second)?);
    relate(&first, &second).map_err(|error| failed(error.to_string()))
}

/// Reads a geometry. One that needs a repair is refused, because the repair could not be reported.
fn read(value: &Cel) -> Result<Arc<Geometry>, EvalError> {
    if let Some(geometry) = cel_to_geometry(value) {
        return Ok(geometry.clone());
    }
    if !matches!(value, Cel::String(_) | Cel::Map(_)) {
        return Err(EvalError::TypeMismatch(format!("{} is not a geometry", kind_of(value))));
    }
    match from_json(&cel_to_json(value), &FieldType::Geometry, None) {
        Ok(Value::Geometry(geometry)) => Ok(geometry),
        Ok(_) => Err(failed("this is not a geometry")),
        Err(error) => Err(failed(error.to_string())),
    }
}
