//! How much of an area another one covers.

use std::ops::ControlFlow;

use crate::error::TooIntricate;
use crate::grid::{Axis, Edge, Meeting, Point, edges_of_ring};
use crate::measure;
use crate::normalise::{MAX_UNCUT, Rule, Shape, clipped, overlay};
use crate::pairs::{Budget, for_each_near_pair};
use crate::{Area, Geometry};

/// Shares that differ from none or all by less are rounding.
const ROUNDING: f64 = 1e-9;
/// From this share on, an area may be completely covered.
const NEARLY_ALL: f64 = 0.999;
/// The overlay's coordinates are below 2 to this power.
const BITS: u32 = 30;

impl Geometry {
    /// The share of this one's area that `other` covers, from 0 to 1; nothing if this one has no area.
    ///
    /// # Errors
    /// When computing it would take too long.
    pub fn fraction_in(&self, other: &Self) -> Result<Option<f64>, TooIntricate> {
        if self.areas.is_empty() {
            return Ok(None);
        }
        let total_area = self.area();
        let mut budget = Budget::new();
        let mut common = 0.0;
        // one after the other, so that each is seen through a lens of its own
        for area in &self.areas {
            common += common_area(area, other, &mut budget)?;
        }
        if total_area <= 0.0 {
            return Ok(Some(0.0));
        }
        let share = common / total_area;
        Ok(Some(if share < ROUNDING {
            0.0
        } else if share > 1.0 - ROUNDING || share > NEARLY_ALL && self.is_within(other)? {
            // areas of slivers are less exact than the question whether one is inside
            1.0
        } else {
            share
        }))
    }
}

/// What an area has in common with a geometry, in square metres.
fn common_area(area: &Area, other: &Geometry, budget: &mut Budget) -> Result<f64, TooIntricate> {
    let Some(lens) = Lens::for_area(area) else { return Ok(0.0) };
    let other_shapes: Vec<Shape> = other.areas.iter().map(|area| lens.clipped(area)).filter(|shape| !shape.is_empty()).collect();
    if other_shapes.is_empty() {
        return Ok(0.0);
    }
    // holes of what was decoded from damaged bytes can lie anywhere
    let area_shapes = [lens.clipped(area)];
    let edges = |shapes: &[Shape]| shapes.iter().flatten().flat_map(|ring| edges_of_ring(ring)).collect::<Vec<Edge>>();
    let (area_edges, other_edges) = (edges(&area_shapes), edges(&other_shapes));
    for_each_near_pair(&area_edges, &other_edges, budget, |area_index, other_index, budget| {
        if let (Some(edge), Some(other_edge)) = (area_edges.get(area_index), other_edges.get(other_index))
            && edge.meeting(other_edge) == Meeting::Crossing
        {
            budget.crossing()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let (low, high) = (lens.to_fine_grid(lens.low), lens.to_fine_grid(lens.high));
    common_area_within(&area_shapes, &other_shapes, (low, high), &lens)
}

/// What shapes have in common inside a box. A box with many edges is halved, so that an overlay is quick.
fn common_area_within(shapes: &[Shape], other_shapes: &[Shape], (low, high): (Point, Point), lens: &Lens) -> Result<f64, TooIntricate> {
    let edges: usize = shapes.iter().chain(other_shapes).flatten().map(Vec::len).sum();
    let (width, height) = (high.x - low.x, high.y - low.y);
    if edges <= MAX_UNCUT || width.max(height) < 2 {
        let intersection = overlay(shapes, other_shapes, Rule::Intersection)?;
        return Ok(intersection.iter().flatten().map(|ring| measure::ring(ring.iter().map(|point| lens.coordinates(*point)))).sum());
    }
    let (x, y) = ((low.x + high.x).div_euclid(2), (low.y + high.y).div_euclid(2));
    let (axis, halves) = if width >= height {
        (Axis::X, [(low, Point { x, ..high }), (Point { x, ..low }, high)])
    } else {
        (Axis::Y, [(low, Point { y, ..high }), (Point { y, ..low }, high)])
    };
    let mut common_area = 0.0;
    for (from, to) in halves {
        let range = if axis == Axis::X { from.x..=to.x } else { from.y..=to.y };
        let clipped_to_half = |shapes: &[Shape]| -> Vec<Shape> {
            let rings = |shape: &Shape| shape.iter().map(|ring| clipped(ring, axis, range.clone())).filter(|ring| ring.len() >= 3).collect::<Shape>();
            shapes.iter().map(rings).filter(|shape| !shape.is_empty()).collect()
        };
        let (shapes, other_shapes) = (clipped_to_half(shapes), clipped_to_half(other_shapes));
        if !shapes.is_empty() && !other_shapes.is_empty() {
            common_area += common_area_within(&shapes, &other_shapes, (from, to), lens)?;
        }
    }
    Ok(common_area)
}

/// A finer grid on the box of an area, so that the rounding of crossings does not matter for small or narrow ones.
struct Lens {
    low: Point,
    high: Point,
    /// Steps of the finer grid in a unit, as a power of 2.
    fineness: u32,
}

impl Lens {
    fn for_area(area: &Area) -> Option<Self> {
        let shell = || area.shell.iter();
        let low = Point { x: shell().map(|point| point.x).min()?, y: shell().map(|point| point.y).min()? };
        let high = Point { x: shell().map(|point| point.x).max()?, y: shell().map(|point| point.y).max()? };
        // half of it lies on each side of zero
        let half = ((high.x - low.x).max(high.y - low.y) / 2 + 1) as u64;
        Some(Self { low, high, fineness: (BITS + half.leading_zeros()).saturating_sub(u64::BITS) })
    }

    fn middle(&self) -> Point {
        Point { x: (self.low.x + self.high.x).div_euclid(2), y: (self.low.y + self.high.y).div_euclid(2) }
    }

    fn to_fine_grid(&self, point: Point) -> Point {
        let middle = self.middle();
        Point { x: (point.x - middle.x) << self.fineness, y: (point.y - middle.y) << self.fineness }
    }

    fn ring_to_fine_grid(&self, ring: &[Point]) -> Vec<Point> {
        ring.iter().map(|point| self.to_fine_grid(*point)).collect()
    }

    /// What of an area lies in the box, on the finer grid.
    fn clipped(&self, area: &Area) -> Shape {
        let (low, high) = (self.to_fine_grid(self.low), self.to_fine_grid(self.high));
        let rings = area.rings().map(|ring| clipped(&clipped(&self.ring_to_fine_grid(ring), Axis::X, low.x..=high.x), Axis::Y, low.y..=high.y));
        rings.filter(|ring| ring.len() >= 3).collect()
    }

    /// In units, with parts of them.
    fn coordinates(&self, point: Point) -> (f64, f64) {
        let (middle, steps) = (measure::coordinates(self.middle()), f64::from(1_u32 << self.fineness));
        (middle.0 + point.x as f64 / steps, middle.1 + point.y as f64 / steps)
    }
}
