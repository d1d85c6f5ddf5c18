//! Union, intersection and difference of shapes, computed by `i_overlay` on the grid's integers.

use i_overlay::core::fill_rule::FillRule;
use i_overlay::core::overlay::{ContourDirection, IntOverlayOptions, Overlay, ShapeType};
use i_overlay::core::overlay_rule::OverlayRule;
use i_overlay::core::solver::Solver;
use i_overlay::i_float::int::point::IntPoint;

use super::areas::Shape;
use crate::grid::{Point, doubled_area};

#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Union,
    Difference,
    Intersection,
}

/// Everything a ring goes around counts as its inside. Shells of the result run counterclockwise and holes clockwise, and its polygons are valid: rings do not
/// touch themselves, and an inside is connected.
pub(crate) fn overlay(subject: &[Shape], clip: &[Shape], rule: Rule) -> Vec<Shape> {
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
    let found = overlay.overlay(rule, FillRule::NonZero);
    let oriented = |(index, ring): (usize, Vec<IntPoint>)| {
        let ring = ring.into_iter().map(|point| Point { x: point.x.into(), y: point.y.into() }).collect();
        // a hole that touches its shell comes in the direction of the shell
        if index == 0 { counterclockwise(ring) } else { clockwise(ring) }
    };
    found.into_iter().map(|shape| shape.into_iter().enumerate().map(oriented).collect()).collect()
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
