//! Boxes around geometries: one, or two where a geometry lies on both sides of the antimeridian.

use crate::Geometry;
use crate::grid::{HALF_TURN, Point, degrees};

/// A box in longitude and latitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    pub(crate) low: Point,
    pub(crate) high: Point,
}

impl Bounds {
    /// The smallest longitude.
    pub fn west(&self) -> f64 {
        degrees(self.low.x)
    }

    /// The smallest latitude.
    pub fn south(&self) -> f64 {
        degrees(self.low.y)
    }

    /// The greatest longitude.
    pub fn east(&self) -> f64 {
        degrees(self.high.x)
    }

    /// The greatest latitude.
    pub fn north(&self) -> f64 {
        degrees(self.high.y)
    }

    fn around(points: &[Point]) -> Option<Self> {
        let (first, rest) = points.split_first()?;
        Some(rest.iter().fold(Self { low: *first, high: *first }, |all, point| all.with(Self { low: *point, high: *point })))
    }

    fn with(self, other: Self) -> Self {
        let (a, b) = (self, other);
        Self { low: Point { x: a.low.x.min(b.low.x), y: a.low.y.min(b.low.y) }, high: Point { x: a.high.x.max(b.high.x), y: a.high.y.max(b.high.y) } }
    }
}

impl Geometry {
    /// The box around it. Where it crosses the antimeridian these are two, one on each side: the eastern end of the map first.
    pub fn bounds(&self) -> Vec<Bounds> {
        let single = self.points.iter().map(std::slice::from_ref);
        let parts = single.chain(self.lines.iter().map(Vec::as_slice)).chain(self.areas.iter().map(|area| area.shell.as_slice()));
        let mut boxes: Vec<Bounds> = parts.filter_map(Bounds::around).collect();
        let all = |boxes: &[Bounds]| boxes.iter().copied().reduce(Bounds::with);
        let reaches_west = boxes.iter().any(|bounds| bounds.low.x == -HALF_TURN);
        let reaches_east = boxes.iter().any(|bounds| bounds.high.x == HALF_TURN);
        if !(reaches_west && reaches_east) {
            return all(&boxes).into_iter().collect();
        }
        boxes.sort_unstable_by_key(|bounds| bounds.low.x);
        // the widest gap between longitudes
        let (mut widest, mut start, mut end) = (0, 0, -HALF_TURN);
        for (index, bounds) in boxes.iter().enumerate() {
            if bounds.low.x - end > widest {
                (widest, start) = (bounds.low.x - end, index);
            }
            end = end.max(bounds.high.x);
        }
        let (west, east) = boxes.split_at(start);
        all(east).into_iter().chain(all(west)).collect()
    }
}
