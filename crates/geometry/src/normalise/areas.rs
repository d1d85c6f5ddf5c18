//! Polygons: their rings are made valid, cut at the antimeridian, closed through the poles, and united.

use super::overlay::{Rule, counterclockwise, overlay};
use super::polar;
use super::turns::{self, Path, Round};
use crate::error::{Fault, Repair, TooIntricate};
use crate::grid::{Edge, HALF_TURN, Point, TURN, doubled_area, edges_of_ring, side};
use crate::pairs::{Budget, are_simple};

/// A ring may go so many times around the Earth before it comes back, as the swath of some orbits does.
const MAX_TURNS: i64 = 20;

/// A shell and its holes, none with its first point repeated.
pub(crate) type Shape = Vec<Vec<Point>>;

/// The shapes of one polygon; none if it has no area.
pub(super) fn polygon(rings: &[Vec<Point>], budget: &mut Budget, warn: &mut dyn FnMut(Repair)) -> Result<Vec<Shape>, Fault> {
    let mut paths = Vec::with_capacity(rings.len());
    for ring in rings {
        paths.push(path(ring, budget, warn)?);
    }
    let Some((shell, holes)) = paths.split_first() else { return Ok(Vec::new()) };
    let pole = polar::enclosed(shell, holes);
    let mut filled = Vec::with_capacity(paths.len());
    for path in &paths {
        let ring = if path.turns == 0 { path.points.clone() } else { polar::closed(path, pole) };
        filled.push(filled_by(turns::pieces(ring), budget, warn)?);
    }
    let mut filled = filled.into_iter();
    let shell = filled.next().unwrap_or_default();
    let mut cut_out = Vec::new();
    for hole in filled {
        if hole.is_empty() {
            warn(Repair::NoHole);
        }
        cut_out.extend(hole);
    }
    if cut_out.is_empty() || shell.is_empty() {
        return Ok(shell);
    }
    count_crossings(shell.iter().chain(&cut_out), budget)?;
    let rest = overlay(&shell, &cut_out, Rule::Difference)?;
    if !same_area(area(&shell) - area(&cut_out), area(&rest), shell.iter().chain(&cut_out)) {
        warn(Repair::Holes);
    }
    Ok(rest)
}

/// A ring as it goes, without repeated points.
fn path(ring: &[Point], budget: &mut Budget, warn: &mut dyn FnMut(Repair)) -> Result<Path, Fault> {
    let mut open = ring;
    match (ring.first(), ring.last()) {
        (Some(first), Some(last)) if is_same_point(*first, *last) => open = ring.split_last().map_or(ring, |(_, open)| open),
        _ => warn(Repair::Closed),
    }
    let mut path = turns::ring(open, Round::Nowhere);
    if turns::has_round_edge(open) {
        // as a rectangle of the world means it, unless the ring crosses itself then
        let world = turns::ring(open, Round::World);
        if world.turns == 0 && doubled_area(&world.points) != 0 && is_simple(&world.points, budget)? {
            path = world;
        }
    }
    let width = turns::width(&path.points) / TURN;
    match path.turns.abs() {
        turns @ 2.. => Err(Fault::Turns(turns)),
        _ if width > MAX_TURNS => Err(Fault::Turns(width)),
        _ => Ok(path),
    }
}

fn is_same_point(a: Point, b: Point) -> bool {
    a.y == b.y && (a.x - b.x) % TURN == 0
}

fn is_simple(ring: &[Point], budget: &mut Budget) -> Result<bool, TooIntricate> {
    let edges: Vec<Edge> = edges_of_ring(ring).collect();
    are_simple(&edges, &[edges.len()], budget)
}

/// Everything that the pieces of one ring go around.
fn filled_by(pieces: Vec<Vec<Point>>, budget: &mut Budget, warn: &mut dyn FnMut(Repair)) -> Result<Vec<Shape>, TooIntricate> {
    let pieces: Vec<Vec<Point>> = pieces.into_iter().filter(|piece| piece.iter().any(|point| !is_straight(piece, *point))).collect();
    let lengths: Vec<usize> = pieces.iter().map(Vec::len).collect();
    let edges: Vec<Edge> = pieces.iter().flat_map(|piece| edges_of_ring(piece)).collect();
    if are_simple(&edges, &lengths, budget)? && pieces.len() < 3 {
        // two pieces are one on each side of the antimeridian
        return Ok(pieces.into_iter().map(|piece| vec![counterclockwise(piece)]).collect());
    }
    let signed: i128 = pieces.iter().map(|piece| doubled_area(piece)).sum();
    let pieces: Vec<Shape> = vec![pieces];
    let filled = overlay(&pieces, &[], Rule::Union)?;
    if !same_area(signed.abs(), area(&filled), pieces.iter()) {
        warn(Repair::Crossing);
    }
    Ok(filled)
}

/// Whether a point is on the line through the first two of a ring.
fn is_straight(ring: &[Point], point: Point) -> bool {
    match ring {
        [first, second, ..] => side(*first, *second, point).is_eq(),
        _ => true,
    }
}

/// Twice the area of shapes in the plane.
fn area(shapes: &[Shape]) -> i128 {
    shapes.iter().flatten().map(|ring| doubled_area(ring)).sum()
}

/// Whether two areas are the same but for the rounding of crossings to the grid, which moves no edge of the shapes by more than a unit.
fn same_area<'a>(a: i128, b: i128, shapes: impl Iterator<Item = &'a Shape>) -> bool {
    let around: i64 = edges_in(shapes).map(|edge| (edge.from.x - edge.to.x).abs() + (edge.from.y - edge.to.y).abs()).sum();
    (a - b).abs() <= 2 * i128::from(around)
}

fn edges_in<'a>(shapes: impl Iterator<Item = &'a Shape>) -> impl Iterator<Item = Edge> {
    shapes.flatten().flat_map(|ring| edges_of_ring(ring))
}

/// Refuses shapes whose overlay would have to compute too many crossings.
fn count_crossings<'a>(shapes: impl Iterator<Item = &'a Shape>, budget: &mut Budget) -> Result<(), TooIntricate> {
    let mut lengths = Vec::new();
    let mut edges = Vec::new();
    for ring in shapes.flatten() {
        lengths.push(ring.len());
        edges.extend(edges_of_ring(ring));
    }
    are_simple(&edges, &lengths, budget).map(|_| ())
}

/// Polygons as one area. `overlaps` is set if some had a piece in common.
pub(super) fn united(polygons: Vec<Shape>, budget: &mut Budget, overlaps: &mut bool) -> Result<Vec<Shape>, TooIntricate> {
    if polygons.len() < 2 || are_apart(&polygons) {
        return Ok(polygons);
    }
    count_crossings(polygons.iter(), budget)?;
    let united = overlay(&polygons, &[], Rule::Union)?;
    *overlaps = !same_area(area(&polygons), area(&united), polygons.iter());
    Ok(united)
}

/// Whether no two boxes of polygons meet, if they are few.
fn are_apart(polygons: &[Shape]) -> bool {
    const FEW: usize = 100;
    let boxes: Vec<Edge> = polygons.iter().filter_map(|shape| bounds(shape.first()?)).collect();
    polygons.len() <= FEW && boxes.iter().enumerate().all(|(index, one)| boxes.iter().skip(index + 1).all(|other| !one.boxes_meet(other)))
}

/// The diagonal of a ring's box.
fn bounds(ring: &[Point]) -> Option<Edge> {
    let from = Point { x: ring.iter().map(|point| point.x).min()?, y: ring.iter().map(|point| point.y).min()? };
    let to = Point { x: ring.iter().map(|point| point.x).max()?, y: ring.iter().map(|point| point.y).max()? };
    Some(Edge { from, to })
}

/// The line that is left of a polygon without an area: from end to end if it is straight.
pub(super) fn without_area(shell: &[Point]) -> Vec<Point> {
    let path = turns::ring(shell, Round::Nowhere).points;
    if path.iter().all(|point| is_straight(&path, *point)) {
        let mut along = path;
        along.sort_unstable();
        along.dedup();
        // its ends are enough, unless the short way between them is another one
        if let (Some(first), Some(last)) = (along.first().copied(), along.last().copied())
            && last.x - first.x <= HALF_TURN
        {
            along = if first == last { vec![first] } else { vec![first, last] };
        }
        return along;
    }
    path
}
