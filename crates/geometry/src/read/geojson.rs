//! GeoJSON (RFC 7946): a geometry, or a Feature with one.

use std::fmt;

use serde_json::{Map, Value};

use super::{Counter, Part, Written};
use crate::error::{Error, Fault, Limits, Location};
use crate::grid::Point;

/// Names of the one reference system that old documents may name.
const WGS84: [&str; 5] = ["urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:OGC::CRS84", "urn:ogc:def:crs:EPSG::4326", "EPSG:4326", "OGC:CRS84"];

/// The way to a value, written out only where something is wrong with it.
#[derive(Clone, Copy)]
pub(crate) enum PathTo<'a> {
    Root,
    Member(&'a PathTo<'a>, &'a str),
    Item(&'a PathTo<'a>, usize),
}

impl fmt::Display for PathTo<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => formatter.write_str("$"),
            Self::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            Self::Item(parent, index) => write!(formatter, "{parent}[{index}]"),
        }
    }
}

impl PathTo<'_> {
    fn location(&self) -> Location {
        Location::Path(self.to_string())
    }

    fn error(&self, fault: Fault) -> Error {
        Error { location: self.location(), fault }
    }

    fn syntax(&self, what: impl Into<String>) -> Error {
        self.error(Fault::Syntax(what.into()))
    }
}

/// The value that a text is.
pub(crate) fn json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text).map_err(|error| {
        let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let byte = (before + error.column().saturating_sub(1)).min(text.len());
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default();
        Error { location: Location::Byte(byte), fault: Fault::Syntax(format!("not JSON: {what}")) }
    })
}

/// The geometry that a value is, or that it has as a Feature.
pub(crate) fn geometry(value: &Value, limits: &Limits, at: &PathTo<'_>) -> Result<Written, Error> {
    let object = value.as_object().ok_or_else(|| at.syntax("a geometry of GeoJSON is an object"))?;
    let mut reader = Reader { counter: Counter::new(limits), parts: Vec::new() };
    match kind(object, at)? {
        "Feature" => {
            reader.reference_system(object, at)?;
            let at = PathTo::Member(at, "geometry");
            match object.get("geometry") {
                None | Some(Value::Null) => return Err(at.error(Fault::Empty)),
                Some(Value::Object(geometry)) => reader.geometry(geometry, &at, 0)?,
                Some(_) => return Err(at.syntax("a geometry of GeoJSON is an object")),
            }
        }
        "FeatureCollection" => return Err(at.syntax("a FeatureCollection is not one geometry; deliver each Feature by itself")),
        _ => reader.geometry(object, at, 0)?,
    }
    if reader.parts.is_empty() { Err(at.error(Fault::Empty)) } else { Ok(Written { parts: reader.parts }) }
}

/// The features of a FeatureCollection.
pub(crate) fn collection(value: &Value) -> Result<&[Value], Error> {
    let at = PathTo::Root;
    let object = value.as_object().ok_or_else(|| at.syntax("a FeatureCollection is an object"))?;
    match (kind(object, &at)?, object.get("features")) {
        ("FeatureCollection", Some(Value::Array(features))) => Ok(features),
        ("FeatureCollection", _) => Err(PathTo::Member(&at, "features").syntax("a FeatureCollection has an array of features")),
        (other, _) => Err(PathTo::Member(&at, "type").syntax(format!("FeatureCollection is expected, not {other}"))),
    }
}

fn kind<'a>(object: &'a Map<String, Value>, at: &PathTo<'_>) -> Result<&'a str, Error> {
    object.get("type").and_then(Value::as_str).ok_or_else(|| PathTo::Member(at, "type").syntax("GeoJSON says its type, such as \"Polygon\""))
}

struct Reader {
    counter: Counter,
    parts: Vec<(Location, Part)>,
}

impl Reader {
    fn geometry(&mut self, object: &Map<String, Value>, at: &PathTo<'_>, depth: usize) -> Result<(), Error> {
        self.counter.nested(depth).map_err(|fault| at.error(fault))?;
        self.reference_system(object, at)?;
        let kind = kind(object, at)?;
        if kind == "GeometryCollection" {
            let at = PathTo::Member(at, "geometries");
            for (index, member) in array(object.get("geometries"), &at)?.iter().enumerate() {
                let at = PathTo::Item(&at, index);
                let member = member.as_object().ok_or_else(|| at.syntax("a geometry of GeoJSON is an object"))?;
                self.geometry(member, &at, depth + 1)?;
            }
            return Ok(());
        }
        let at_type = PathTo::Member(at, "type");
        let at = PathTo::Member(at, "coordinates");
        let coordinates = object.get("coordinates");
        let single = match kind {
            "Point" => Self::point,
            "LineString" => Self::line,
            "Polygon" => Self::polygon,
            "MultiPoint" | "MultiLineString" | "MultiPolygon" => {
                let single = match kind {
                    "MultiPoint" => Self::point,
                    "MultiLineString" => Self::line,
                    _ => Self::polygon,
                };
                for (index, member) in array(coordinates, &at)?.iter().enumerate() {
                    single(self, Some(member), &PathTo::Item(&at, index))?;
                }
                return Ok(());
            }
            other => return Err(at_type.syntax(format!("{other} is no type of GeoJSON"))),
        };
        if array(coordinates, &at)?.is_empty() {
            // how RFC 7946 writes an empty geometry
            return Ok(());
        }
        single(self, coordinates, &at)
    }

    fn reference_system(&self, object: &Map<String, Value>, at: &PathTo<'_>) -> Result<(), Error> {
        let Some(system) = object.get("crs").filter(|system| !system.is_null()) else { return Ok(()) };
        let name = system.pointer("/properties/name").and_then(Value::as_str);
        if name.is_some_and(|name| WGS84.contains(&name)) {
            return Ok(());
        }
        let name = name.map_or_else(|| system.to_string().chars().take(60).collect(), str::to_owned);
        Err(PathTo::Member(at, "crs").error(Fault::ReferenceSystem(name)))
    }

    fn point(&mut self, value: Option<&Value>, at: &PathTo<'_>) -> Result<(), Error> {
        self.counter.part().map_err(|fault| at.error(fault))?;
        let point = self.position(value, at)?;
        self.parts.push((at.location(), Part::Point(point)));
        Ok(())
    }

    fn line(&mut self, value: Option<&Value>, at: &PathTo<'_>) -> Result<(), Error> {
        let line = self.positions(value, at)?;
        if line.len() < 2 {
            return Err(at.error(Fault::ShortLine));
        }
        self.parts.push((at.location(), Part::Line(line)));
        Ok(())
    }

    fn polygon(&mut self, value: Option<&Value>, at: &PathTo<'_>) -> Result<(), Error> {
        let mut rings = Vec::new();
        for (index, ring) in array(value, at)?.iter().enumerate() {
            let at = PathTo::Item(at, index);
            let ring = self.positions(Some(ring), &at)?;
            if ring.len() < 3 {
                return Err(at.error(Fault::ShortRing));
            }
            rings.push(ring);
        }
        if !rings.is_empty() {
            self.parts.push((at.location(), Part::Polygon(rings)));
        }
        Ok(())
    }

    fn positions(&mut self, value: Option<&Value>, at: &PathTo<'_>) -> Result<Vec<Point>, Error> {
        self.counter.part().map_err(|fault| at.error(fault))?;
        let positions = array(value, at)?;
        positions.iter().enumerate().map(|(index, position)| self.position(Some(position), &PathTo::Item(at, index))).collect()
    }

    fn position(&mut self, value: Option<&Value>, at: &PathTo<'_>) -> Result<Point, Error> {
        let numbers = array(value, at)?;
        let number = |index: usize| {
            let number = numbers.get(index).and_then(Value::as_f64);
            number.ok_or_else(|| at.syntax("a position is an array of numbers: longitude, latitude and perhaps altitude"))
        };
        let (longitude, latitude) = (number(0)?, number(1)?);
        self.counter.position(longitude, latitude).map_err(|fault| at.error(fault))
    }
}

fn array<'a>(value: Option<&'a Value>, at: &PathTo<'_>) -> Result<&'a [Value], Error> {
    match value {
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(at.syntax("an array is expected")),
        None => Err(at.syntax("this member is missing")),
    }
}
