//! How much of an area another one covers.

use std::ops::ControlFlow;

use crate::error::TooIntricate;
use crate::grid::{Axis, Edge, Meeting, Point, edges_of_ring};
use crate::measure;
use crate::normalise::{Rule, Shape, clipped, overlay};
use crate::pairs::{Budget, between};
use crate::{Area, Geometry};

/// Shares that differ from none or all by less are rounding.
const ROUNDING: f64 = 1e-9;
/// The overlay's coordinates are below 2 to this power.
const BITS: u32 = 30;

impl Geometry {
    /// The share of this one's area that `other` covers, from 0 to 1; nothing if this one has no area.
    ///
    /// # Errors
    /// When computing it would take too long.
    pub fn fraction_in(&self, other: &Self) -> Result<Option<f64>, TooIntricate> {
        let Some(lens) = Lens::on(self) else { return Ok(None) };
        let others: Vec<Shape> = other.areas.iter().map(|area| lens.clipped(area)).filter(|shape| !shape.is_empty()).collect();
        count_crossings(self, &others.concat(), &lens)?;
        let own: Vec<Shape> = self.areas.iter().map(|area| area.rings().map(|ring| lens.seen(ring)).collect()).collect();
        let area = self.area();
        if others.is_empty() || area <= 0.0 {
            return Ok(Some(0.0));
        }
        let common = overlay(&own, &others, Rule::Intersection);
        let common: f64 = common.iter().flatten().map(|ring| measure::ring(ring.iter().map(|point| lens.coordinates(*point)))).sum();
        let share = common / area;
        Ok(Some(if share < ROUNDING {
            0.0
        } else if share > 1.0 - ROUNDING {
            1.0
        } else {
            share
        }))
    }
}

/// Refuses areas whose boundaries cross too often.
fn count_crossings(one: &Geometry, others: &[Vec<Point>], lens: &Lens) -> Result<(), TooIntricate> {
    let own: Vec<Edge> = one.rings().flat_map(|ring| edges_of_ring(&lens.seen(ring)).collect::<Vec<_>>()).collect();
    let others: Vec<Edge> = others.iter().flat_map(|ring| edges_of_ring(ring)).collect();
    between(&own, &others, &mut Budget::new(), |one, another, budget| {
        if let (Some(one), Some(another)) = (own.get(one), others.get(another))
            && one.meets(another) == Meeting::Crossing
        {
            budget.crossing()?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(())
}

/// A finer grid on the box of an area, so that the rounding of crossings does not matter for small or narrow ones.
struct Lens {
    low: Point,
    high: Point,
    /// Steps of the finer grid in a unit, as a power of 2.
    fineness: u32,
}

impl Lens {
    fn on(geometry: &Geometry) -> Option<Self> {
        let shells = || geometry.areas.iter().flat_map(|area| &area.shell);
        let low = Point { x: shells().map(|point| point.x).min()?, y: shells().map(|point| point.y).min()? };
        let high = Point { x: shells().map(|point| point.x).max()?, y: shells().map(|point| point.y).max()? };
        // half of it lies on each side of zero
        let half = ((high.x - low.x).max(high.y - low.y) / 2 + 1) as u64;
        Some(Self { low, high, fineness: (BITS + half.leading_zeros()).saturating_sub(u64::BITS) })
    }

    fn middle(&self) -> Point {
        Point { x: (self.low.x + self.high.x).div_euclid(2), y: (self.low.y + self.high.y).div_euclid(2) }
    }

    fn see(&self, point: Point) -> Point {
        let middle = self.middle();
        Point { x: (point.x - middle.x) << self.fineness, y: (point.y - middle.y) << self.fineness }
    }

    fn seen(&self, ring: &[Point]) -> Vec<Point> {
        ring.iter().map(|point| self.see(*point)).collect()
    }

    /// What of an area lies in the box, on the finer grid.
    fn clipped(&self, area: &Area) -> Shape {
        let (low, high) = (self.see(self.low), self.see(self.high));
        let rings = area.rings().map(|ring| clipped(&clipped(&self.seen(ring), Axis::X, low.x..=high.x), Axis::Y, low.y..=high.y));
        rings.filter(|ring| ring.len() >= 3).collect()
    }

    /// In units, with parts of them.
    fn coordinates(&self, point: Point) -> (f64, f64) {
        let (middle, steps) = (measure::coordinates(self.middle()), f64::from(1_u32 << self.fineness));
        (middle.0 + point.x as f64 / steps, middle.1 + point.y as f64 / steps)
    }
}
