//! Rings cut at a meridian or a parallel.

use std::ops::RangeBounds;

use crate::grid::{Axis, Edge, Point, edges_of_ring};

/// What of a ring lies in a range of longitudes or latitudes (Sutherland and Hodgman). What lies outside becomes edges on the ends of the
/// range; they may overlap. What a ring encloses several times, the result does.
pub(crate) fn clipped(ring: &[Point], axis: Axis, range: impl RangeBounds<i64>) -> Vec<Point> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut clipped_ring = ring.to_vec();
    if let Included(low) | Excluded(low) = range.start_bound() {
        clipped_ring = clip_at(&clipped_ring, axis, *low, 1);
    }
    match range.end_bound() {
        Included(high) | Excluded(high) => clip_at(&clipped_ring, axis, *high, -1),
        Unbounded => clipped_ring,
    }
}

/// What lies on one side of a limit: above it if `sign` is 1, below if −1.
fn clip_at(ring: &[Point], axis: Axis, limit: i64, sign: i64) -> Vec<Point> {
    let mut clipped_ring: Vec<Point> = Vec::with_capacity(ring.len() + 4);
    let push = |clipped_ring: &mut Vec<Point>, point: Point| {
        if clipped_ring.last() != Some(&point) {
            clipped_ring.push(point);
        }
    };
    for edge in edges_of_ring(ring) {
        let from_depth = (axis.of(edge.from) - limit) * sign;
        let to_depth = (axis.of(edge.to) - limit) * sign;
        if from_depth >= 0 {
            push(&mut clipped_ring, edge.from);
        }
        if (from_depth > 0 && to_depth < 0) || (from_depth < 0 && to_depth > 0) {
            push(&mut clipped_ring, crossing_point(edge, axis, limit));
        }
    }
    while clipped_ring.len() > 1 && clipped_ring.first() == clipped_ring.last() {
        clipped_ring.pop();
    }
    clipped_ring
}

/// Where an edge passes a limit that lies between its ends, to the nearest unit. Both directions of an edge give the same point.
pub(super) fn crossing_point(edge: Edge, axis: Axis, limit: i64) -> Point {
    let (from, to) = if axis.of(edge.from) < axis.of(edge.to) { (edge.from, edge.to) } else { (edge.to, edge.from) };
    let width = i128::from(axis.of(to) - axis.of(from));
    let distance = i128::from(limit - axis.of(from));
    let other_axis = axis.other();
    let rise = i128::from(other_axis.of(to) - other_axis.of(from)) * distance;
    let rise = (2 * rise + width).div_euclid(2 * width) as i64;
    axis.point(limit, other_axis.of(from) + rise)
}
