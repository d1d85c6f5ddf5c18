//! Rings cut at a meridian or a parallel.

use std::ops::RangeBounds;

use crate::grid::{Axis, Edge, Point, edges_of_ring};

/// What of a ring lies in a range of longitudes or latitudes (Sutherland and Hodgman). What lies outside becomes edges on the ends of the
/// range; they may overlap. What a ring encloses several times, the result does.
pub(crate) fn clipped(ring: &[Point], axis: Axis, range: impl RangeBounds<i64>) -> Vec<Point> {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let mut kept = ring.to_vec();
    if let Included(low) | Excluded(low) = range.start_bound() {
        kept = half(&kept, axis, *low, 1);
    }
    match range.end_bound() {
        Included(high) | Excluded(high) => half(&kept, axis, *high, -1),
        Unbounded => kept,
    }
}

/// What lies on one side of a limit: above it if `sign` is 1, below if −1.
fn half(ring: &[Point], axis: Axis, limit: i64, sign: i64) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::with_capacity(ring.len() + 4);
    let push = |kept: &mut Vec<Point>, point: Point| {
        if kept.last() != Some(&point) {
            kept.push(point);
        }
    };
    for edge in edges_of_ring(ring) {
        let depth = (axis.of(edge.from) - limit) * sign;
        let next = (axis.of(edge.to) - limit) * sign;
        if depth >= 0 {
            push(&mut kept, edge.from);
        }
        if (depth > 0 && next < 0) || (depth < 0 && next > 0) {
            push(&mut kept, passes(edge, axis, limit));
        }
    }
    while kept.len() > 1 && kept.first() == kept.last() {
        kept.pop();
    }
    kept
}

/// Where an edge passes a limit that lies between its ends, to the nearest unit. Both directions of an edge give the same point.
pub(super) fn passes(edge: Edge, axis: Axis, limit: i64) -> Point {
    let (from, to) = if axis.of(edge.from) < axis.of(edge.to) { (edge.from, edge.to) } else { (edge.to, edge.from) };
    let width = i128::from(axis.of(to) - axis.of(from));
    let part = i128::from(limit - axis.of(from));
    let across = axis.other();
    let rise = i128::from(across.of(to) - across.of(from)) * part;
    let rise = (2 * rise + width).div_euclid(2 * width) as i64;
    axis.point(limit, across.of(from) + rise)
}
