//! Areas with names, such as countries or seas, and which of them a geometry touches.

use std::collections::BTreeMap;
use std::sync::Arc;

use rstar::{AABB, RTree, RTreeObject};
use serde_json::Value;

use crate::bounds::Bounds;
use crate::error::{Error, Fault, Limits, Location, TooIntricate, Warning};
use crate::grid::{HALF_TURN, POLE, Point};
use crate::pairs::Budget;
use crate::read::{self, PathTo};
use crate::{Geometry, Reading};

/// Named areas with an index of where they are.
pub struct NamedAreas {
    /// By name; several features with one name are one area.
    areas: Vec<(String, Arc<Geometry>)>,
    index: RTree<Indexed>,
}

impl std::fmt::Debug for NamedAreas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} named areas", self.areas.len())
    }
}

/// One box of an area.
struct Indexed {
    area: usize,
    bounds: AABB<[f64; 2]>,
}

impl RTreeObject for Indexed {
    type Envelope = AABB<[f64; 2]>;

    fn envelope(&self) -> Self::Envelope {
        self.bounds
    }
}

fn envelope(bounds: Bounds) -> AABB<[f64; 2]> {
    AABB::from_corners([bounds.low.x as f64, bounds.low.y as f64], [bounds.high.x as f64, bounds.high.y as f64])
}

impl NamedAreas {
    /// Reads a FeatureCollection of GeoJSON; `property` of each feature is its name. The limits are those of one feature, but for the
    /// bytes, which are those of the text.
    ///
    /// # Errors
    /// When it is none, or a feature has no name or no geometry that can be read.
    pub fn read(text: &str, property: &str, limits: &Limits) -> Result<(Self, Vec<Warning>), Error> {
        let text = text.trim_start_matches('\u{feff}');
        if text.len() > limits.bytes {
            return Err(Error { location: Location::Byte(limits.bytes), fault: Fault::TooManyBytes(limits.bytes) });
        }
        let value = read::json(text)?;
        let at_features = PathTo::Member(&PathTo::Root, "features");
        let mut by_name: BTreeMap<String, (Geometry, Vec<&Value>)> = BTreeMap::new();
        let mut warnings = Vec::new();
        for (number, feature) in read::collection(&value)?.iter().enumerate() {
            let at = PathTo::Item(&at_features, number);
            let name = match feature.get("properties").and_then(|properties| properties.get(property)) {
                Some(Value::String(name)) if !name.is_empty() => name.clone(),
                Some(Value::Number(name)) => name.to_string(),
                _ => {
                    let location = Location::Path(PathTo::Member(&at, "properties").to_string());
                    return Err(Error { location, fault: Fault::Syntax(format!("the feature has no name in its property {property:?}")) });
                }
            };
            // a feature without a place is no area
            if feature.get("geometry").is_some_and(Value::is_null) {
                continue;
            }
            let Reading { geometry, warnings: repaired } = Geometry::from_written(read::of_json(feature, limits, &at)?)?;
            warnings.extend(repaired);
            by_name.entry(name).or_insert((geometry, Vec::new())).1.push(feature.get("geometry").unwrap_or(feature));
        }
        let mut areas = Vec::with_capacity(by_name.len());
        for (name, (geometry, parts)) in by_name {
            let whole = if let [_] = parts.as_slice() {
                geometry
            } else {
                // where the parts overlap, which is no mistake
                let together = serde_json::json!({ "type": "GeometryCollection", "geometries": parts });
                Geometry::from_written(read::of_json(&together, limits, &at_features)?)?.geometry
            };
            areas.push((name, Arc::new(whole)));
        }
        let boxes = |(area, (_, geometry)): (usize, &(String, Arc<Geometry>))| {
            geometry.bounds().into_iter().map(move |bounds| Indexed { area, bounds: envelope(bounds) })
        };
        let index = RTree::bulk_load(areas.iter().enumerate().flat_map(boxes).collect());
        Ok((Self { areas, index }, warnings))
    }

    /// The names in order, with what they stand for.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Geometry)> {
        self.areas.iter().map(|(name, geometry)| (name.as_str(), geometry.as_ref()))
    }

    /// The area of a name.
    pub fn named(&self, name: &str) -> Option<&Arc<Geometry>> {
        let index = self.areas.binary_search_by(|(area_name, _)| area_name.as_str().cmp(name)).ok()?;
        self.areas.get(index).map(|(_, geometry)| geometry)
    }

    /// The names of the areas that have a point in common with a geometry, in order.
    ///
    /// # Errors
    /// When finding it out would take too long.
    pub fn touching(&self, geometry: &Geometry) -> Result<Vec<&str>, TooIntricate> {
        let mut found: Vec<usize> = search_bounds(geometry)
            .into_iter()
            .flat_map(|bounds| self.index.locate_in_envelope_intersecting(envelope(bounds)))
            .map(|indexed| indexed.area)
            .collect();
        found.sort_unstable();
        found.dedup();
        let mut names = Vec::new();
        let mut budget = Budget::new();
        for (name, named) in found.into_iter().filter_map(|area| self.areas.get(area)) {
            if named.intersects_in(geometry, &mut budget)? {
                names.push(name.as_str());
            }
        }
        Ok(names)
    }
}

/// The boxes where something that a geometry meets can be: its own, the other side of the antimeridian and a pole, if it reaches them.
fn search_bounds(geometry: &Geometry) -> Vec<Bounds> {
    let mut boxes = geometry.bounds();
    for bounds in boxes.clone() {
        for (is_reached, opposite) in [(bounds.low.x == -HALF_TURN, HALF_TURN), (bounds.high.x == HALF_TURN, -HALF_TURN)] {
            if is_reached {
                boxes.push(Bounds { low: Point { x: opposite, ..bounds.low }, high: Point { x: opposite, ..bounds.high } });
            }
        }
        for (is_reached, y) in [(bounds.low.y == -POLE, -POLE), (bounds.high.y == POLE, POLE)] {
            if is_reached {
                boxes.push(Bounds { low: Point { x: -HALF_TURN, y }, high: Point { x: HALF_TURN, y } });
            }
        }
    }
    boxes
}
