//! One order of rings and points for each area.

use super::areas::Shape;
use super::overlay::{clockwise, counterclockwise};
use crate::Area;
use crate::grid::{Edge, HALF_TURN, Point, edges_of_ring, side};

/// Shapes as areas in canonical order: each ring from its smallest point, shells counterclockwise, holes clockwise.
pub(super) fn areas(shapes: Vec<Shape>) -> Vec<Area> {
    let mut areas: Vec<Area> = shapes
        .into_iter()
        .filter_map(|shape| {
            let mut rings = shape.into_iter();
            let shell = ring(rings.next()?, true)?;
            let mut holes: Vec<Vec<Point>> = rings.filter_map(|hole| ring(hole, false)).collect();
            holes.sort_unstable();
            Some(Area { shell, holes })
        })
        .collect();
    areas.sort_unstable();
    areas
}

fn ring(ring: Vec<Point>, is_shell: bool) -> Option<Vec<Point>> {
    let mut ring = if is_shell { counterclockwise(ring) } else { clockwise(ring) };
    let start = ring.iter().enumerate().min_by_key(|(_, point)| **point)?.0;
    ring.rotate_left(start);
    let mut ring = without_straight(&ring);
    divide_wide(&mut ring, |ring| edges_of_ring(ring).collect());
    (ring.len() >= 3).then_some(ring)
}

/// Without points on the line between their neighbours. The first point, the smallest, is a corner. An edge that is not along a parallel
/// stays below 180°, or it would be read as the short way across the antimeridian.
fn without_straight(ring: &[Point]) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::with_capacity(ring.len());
    for point in ring.iter().chain(ring.first()) {
        while let [.., before, last] = corners.as_slice()
            && side(*before, *point, *last).is_eq()
            && (before.y == point.y || (before.x - point.x).abs() <= HALF_TURN)
        {
            corners.pop();
        }
        corners.push(*point);
    }
    corners.pop();
    corners
}

/// Divides edges of more than 180° at the meridian of Greenwich. Only edges along a parallel are so long.
pub(super) fn divide_wide(points: &mut Vec<Point>, edges: impl Fn(&[Point]) -> Vec<Edge>) {
    let wide = |edge: &Edge| (edge.from.x - edge.to.x).abs() > HALF_TURN && edge.from.y == edge.to.y;
    let edges = edges(points);
    if !edges.iter().any(wide) {
        return;
    }
    let last = points.last().copied();
    let mut divided = Vec::with_capacity(points.len() + 2);
    for edge in &edges {
        divided.push(edge.from);
        divided.extend(wide(edge).then_some(Point { x: 0, y: edge.from.y }));
    }
    // the edges of a ring begin at all its points, those of a line not at its last
    divided.extend(last.filter(|_| edges.len() < points.len()));
    *points = divided;
}
