//! Reads geometries as catalogues get them: GeoJSON, WKT with or without an SRID, and the literals of OData.

mod geojson;
mod wkt;

pub(crate) use geojson::{PathTo, collection, geometry as of_json, json};

use crate::error::{Error, Fault, Limits, Location};
use crate::grid::{POLE, Point, units};

/// Longitudes may be written up to three turns away from Greenwich.
const FARTHEST: f64 = 1_080.0;

/// A point, a line or a polygon as it was written, on the grid.
pub(crate) enum Part {
    Point(Point),
    Line(Vec<Point>),
    Polygon(Vec<Vec<Point>>),
}

/// What was written, without its nesting.
pub(crate) struct Written {
    pub parts: Vec<(Location, Part)>,
}

/// Counts what is read against the limits.
struct Counter {
    limits: Limits,
    points: usize,
    parts: usize,
}

impl Counter {
    fn new(limits: &Limits) -> Self {
        Self { limits: *limits, points: 0, parts: 0 }
    }

    fn part(&mut self) -> Result<(), Fault> {
        self.parts += 1;
        if self.parts > self.limits.parts { Err(Fault::TooManyParts(self.limits.parts)) } else { Ok(()) }
    }

    fn nested(&self, depth: usize) -> Result<(), Fault> {
        if depth > self.limits.depth { Err(Fault::TooDeep(self.limits.depth)) } else { Ok(()) }
    }

    fn position(&mut self, longitude: f64, latitude: f64) -> Result<Point, Fault> {
        self.points += 1;
        if self.points > self.limits.points {
            return Err(Fault::TooManyPoints(self.limits.points));
        }
        // not a number is neither
        if !(-FARTHEST..=FARTHEST).contains(&longitude) {
            return Err(Fault::Longitude(longitude));
        }
        // a latitude may be a rounding error beyond the pole
        let y = if latitude.abs() < FARTHEST { units(latitude) } else { i64::MAX };
        if !(-POLE..=POLE).contains(&y) {
            return Err(Fault::Latitude(latitude));
        }
        Ok(Point { x: units(longitude), y })
    }
}

/// A text in one of the forms; what it begins with says which.
pub(crate) fn text(text: &str, limits: &Limits) -> Result<Written, Error> {
    if text.len() > limits.bytes {
        return Err(Error { location: Location::Byte(limits.bytes), fault: Fault::TooManyBytes(limits.bytes) });
    }
    if text.trim_start().starts_with('{') {
        let value = json(text)?;
        geojson::geometry(&value, limits, &PathTo::Root)
    } else {
        wkt::read(text, limits)
    }
}
