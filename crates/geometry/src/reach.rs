//! One box around a geometry, for indexes: longitudes go on beyond the antimeridian instead of beginning anew.

use crate::error::{Error, Limits};
use crate::grid::POLE;
use crate::{Geometry, Reading};

/// Half of a turn, in degrees.
const HALF: f64 = 180.0;
/// All around the Earth, in degrees.
const TURN: f64 = 360.0;
/// What numbers may lose on their way, in degrees; the boxes that are asked for are larger by that.
const LOSS: f64 = 1e-6;

/// A box in degrees. It begins between −180 and 180 and ends beyond 180 where it crosses the antimeridian.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reach {
    /// The western end.
    pub west: f64,
    /// The smallest latitude.
    pub south: f64,
    /// The eastern end, at most 360 degrees from the western one.
    pub east: f64,
    /// The greatest latitude.
    pub north: f64,
}

impl Reach {
    /// Boxes of which one at least overlaps or touches the reach of each geometry that has a point in common with one of this reach.
    pub fn search_boxes(&self) -> Vec<Reach> {
        let shifted =
            |turn: f64| Reach { west: self.west + turn - LOSS, south: self.south - LOSS, east: self.east + turn + LOSS, north: self.north + LOSS };
        // reaches lie between −180 and 540
        [0.0, TURN, -TURN].into_iter().map(shifted).filter(|bounds| bounds.east >= -HALF && bounds.west <= HALF + TURN).collect()
    }

    /// Whether two boxes overlap or touch.
    pub fn meets(&self, other: &Reach) -> bool {
        self.west <= other.east && other.west <= self.east && self.south <= other.north && other.south <= self.north
    }
}

impl Geometry {
    /// The box around it, for an index: what has a point in common with another geometry overlaps one of the boxes that [`Reach::search_boxes`] gives for it.
    /// What touches a pole, which is on all meridians, goes all around the Earth.
    pub fn reach(&self) -> Reach {
        let boxes = self.bounds();
        let south = boxes.iter().map(|bounds| bounds.low.y).min().unwrap_or(-POLE);
        let north = boxes.iter().map(|bounds| bounds.high.y).max().unwrap_or(POLE);
        let (west, east) = match boxes.as_slice() {
            [only] if south > -POLE && north < POLE => (only.west(), only.east()),
            // the one that ends at the antimeridian, and the one that goes on from there
            [first, second] if south > -POLE && north < POLE => (first.west(), second.east() + TURN),
            _ => (-HALF, HALF),
        };
        let degrees = |units| crate::grid::degrees(units);
        Reach { west, south: degrees(south), east, north: degrees(north) }
    }

    /// The box between two meridians and two parallels, from west to east; across the antimeridian if the western one is greater. A box without
    /// an area is a line or a point.
    ///
    /// # Errors
    /// When longitudes or latitudes are none.
    pub fn between(west: f64, south: f64, east: f64, north: f64) -> Result<Self, Error> {
        let wide = if east < west { east + TURN - west } else { east - west };
        // an edge of more than 180 degrees would go the other way
        let along = |latitude: f64, thirds: [f64; 4]| thirds.map(|third| format!("{} {latitude}", west + wide * third / 3.0)).join(", ");
        let (southern_edge, northern_edge) = (along(south, [0.0, 1.0, 2.0, 3.0]), along(north, [3.0, 2.0, 1.0, 0.0]));
        let Reading { geometry, .. } = Self::read(&format!("POLYGON(({southern_edge}, {northern_edge}, {west} {south}))"), &Limits::VALUE)?;
        Ok(geometry)
    }
}
