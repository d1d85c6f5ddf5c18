//! Union, intersection and difference of shapes, computed by `i_overlay` on the grid's integers.

use i_overlay::core::fill_rule::FillRule;
use i_overlay::core::overlay::{ContourDirection, IntOverlayOptions, Overlay, ShapeType};
use i_overlay::core::overlay_rule::OverlayRule;
use i_overlay::core::solver::Solver;
use i_overlay::i_float::int::point::IntPoint;

use super::areas::Shape;
use crate::error::TooIntricate;
use crate::grid::{Point, doubled_area, edges_of_ring};

#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Union,
    Difference,
    Intersection,
}

/// Everything a ring goes around counts as its inside. Shells of the result run counterclockwise and holes clockwise, and its polygons are valid: rings do not
/// touch themselves, and an inside is connected.
///
/// # Errors
/// When it would take too long.
pub(crate) fn overlay(subject: &[Shape], clip: &[Shape], rule: Rule) -> Result<Vec<Shape>, TooIntricate> {
    if pairs_in_strips(subject.iter().chain(clip)) > PAIRS {
        return Err(TooIntricate);
    }
    let options = IntOverlayOptions {
        preserve_input_collinear: false,
        output_direction: ContourDirection::CounterClockwise,
        preserve_output_collinear: false,
        min_output_area: 0,
        ogc: true,
    };
    let count = |shapes: &[Shape]| shapes.iter().flatten().map(Vec::len).sum::<usize>();
    let mut overlay = Overlay::new_custom(count(subject) + count(clip), options, Solver::default());
    for (shapes, kind) in [(subject, ShapeType::Subject), (clip, ShapeType::Clip)] {
        for ring in shapes.iter().flatten() {
            // the map is less than 2^31 units wide
            overlay.add_path_iter(ring.iter().map(|point| IntPoint::new(point.x as i32, point.y as i32)), kind);
        }
    }
    let rule = match rule {
        Rule::Union => OverlayRule::Union,
        Rule::Difference => OverlayRule::Difference,
        Rule::Intersection => OverlayRule::Intersect,
    };
    let result = overlay.overlay(rule, FillRule::NonZero);
    let oriented = |(index, ring): (usize, Vec<IntPoint>)| {
        let ring = ring.into_iter().map(|point| Point { x: point.x.into(), y: point.y.into() }).collect();
        // a hole that touches its shell comes in the direction of the shell
        if index == 0 { counterclockwise(ring) } else { clockwise(ring) }
    };
    Ok(result.into_iter().map(|shape| shape.into_iter().enumerate().map(oriented).collect()).collect())
}

/// Pairs of edges that an overlay may have to look at: about a second.
const PAIRS: u64 = 200_000_000;
/// Above so many edges an overlay cuts all of them into vertical strips, about one for each edge, and looks at the pairs in each strip.
pub(crate) const MAX_UNCUT: usize = 16_000;

/// The pairs of edges that lie in a common strip, if there are so many edges that they are cut.
fn pairs_in_strips<'s>(shapes: impl Iterator<Item = &'s Shape> + Clone) -> u64 {
    let edges = || shapes.clone().flatten().flat_map(|ring| edges_of_ring(ring));
    let count = edges().count();
    if count <= MAX_UNCUT {
        return 0;
    }
    let ends = || edges().flat_map(|edge| [edge.from.x, edge.to.x]);
    let (Some(low), Some(high)) = (ends().min(), ends().max()) else { return 0 };
    let strip = |x: i64| ((i128::from(x - low) * count as i128) / i128::from(high - low + 1)) as usize;
    // how many edges begin in a strip, less those that ended before it
    let mut changes = vec![0_i64; count + 1];
    for edge in edges() {
        let (from, to) = (strip(edge.from.x.min(edge.to.x)), strip(edge.from.x.max(edge.to.x)));
        changes[from] += 1;
        changes[to + 1] -= 1;
    }
    let mut edges_in_strip = 0_i64;
    changes
        .iter()
        .map(|change| {
            edges_in_strip += change;
            edges_in_strip.unsigned_abs().pow(2)
        })
        .fold(0_u64, u64::saturating_add)
}

pub(super) fn counterclockwise(mut ring: Vec<Point>) -> Vec<Point> {
    if doubled_area(&ring) < 0 {
        ring.reverse();
    }
    ring
}

pub(super) fn clockwise(mut ring: Vec<Point>) -> Vec<Point> {
    if doubled_area(&ring) > 0 {
        ring.reverse();
    }
    ring
}
