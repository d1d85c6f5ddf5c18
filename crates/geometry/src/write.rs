//! The canonical form as text: GeoJSON and WKT, which are read as the same geometry again.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::grid::Point;
use crate::{Area, Geometry};

impl Geometry {
    /// As a geometry of GeoJSON, of the simplest type.
    pub fn to_geojson(&self) -> Value {
        let position = |point: &Point| json!([point.longitude(), point.latitude()]);
        let line = |line: &Vec<Point>| Value::Array(line.iter().map(position).collect());
        let ring = |ring: &Vec<Point>| Value::Array(ring.iter().chain(ring.first()).map(position).collect());
        let area = |area: &Area| Value::Array(area.rings().map(ring).collect());
        let mut members: Vec<Value> = [
            ("Point", self.points.iter().map(position).collect()),
            ("LineString", self.lines.iter().map(line).collect()),
            ("Polygon", self.areas.iter().map(area).collect::<Vec<Value>>()),
        ]
        .into_iter()
        .filter_map(|(kind, mut parts)| match parts.len() {
            0 => None,
            1 => Some(json!({ "type": kind, "coordinates": parts.pop() })),
            _ => Some(json!({ "type": format!("Multi{kind}"), "coordinates": parts })),
        })
        .collect();
        if members.len() == 1 { members.pop().unwrap_or_default() } else { json!({ "type": "GeometryCollection", "geometries": members }) }
    }

    /// As WKT, of the simplest type.
    pub fn to_wkt(&self) -> String {
        let points = self.points.iter().map(|point| format!("({})", position(point)));
        let lines = self.lines.iter().map(|line| positions(line.iter()));
        let areas = self.areas.iter().map(|area| {
            let rings: Vec<String> = area.rings().map(|ring| positions(ring.iter().chain(ring.first()))).collect();
            format!("({})", rings.join(","))
        });
        let mut members: Vec<String> = Vec::new();
        for (kind, parts) in [("POINT", points.collect::<Vec<_>>()), ("LINESTRING", lines.collect()), ("POLYGON", areas.collect())] {
            match parts.as_slice() {
                [] => {}
                [part] => members.push(format!("{kind}{part}")),
                _ => members.push(format!("MULTI{kind}({})", parts.join(","))),
            }
        }
        if members.len() == 1 { members.pop().unwrap_or_default() } else { format!("GEOMETRYCOLLECTION({})", members.join(",")) }
    }
}

fn position(point: &Point) -> String {
    format!("{} {}", point.longitude(), point.latitude())
}

fn positions<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let mut text = String::from("(");
    for (index, point) in points.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{}", position(point));
    }
    text.push(')');
    text
}
