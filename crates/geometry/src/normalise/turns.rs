//! Longitudes as a path goes: each edge goes the short way, and what leaves the map at the antimeridian is cut there and moved back.

use super::clip::{clipped, crossing_point};
use crate::grid::{Axis, Edge, HALF_TURN, Point, TURN, edges_of_line};

/// What an edge means that runs along a parallel for exactly 360°.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Round {
    /// Around the Earth, as in a rectangle of the world.
    World,
    /// Nowhere: −180 and 180 are the same meridian.
    Nowhere,
}

/// A path with longitudes that go on beyond ±180, and how many times it has gone around the Earth when it is closed.
pub(super) struct Path {
    pub points: Vec<Point>,
    /// Positive eastward.
    pub turns: i64,
}

/// How far an edge goes east. An edge that spans more than 180° is the short one across the antimeridian.
fn eastward(from: Point, to: Point, round: Round) -> i64 {
    let written = to.x - from.x;
    if written.abs() <= HALF_TURN || (round == Round::World && written.abs() == TURN && from.y == to.y) {
        return written;
    }
    match written.rem_euclid(TURN) {
        HALF_TURN if written < 0 => -HALF_TURN,
        short if short > HALF_TURN => short - TURN,
        short => short,
    }
}

/// A ring without its repeated first point, as it goes.
pub(super) fn ring(points: &[Point], round: Round) -> Path {
    let mut path = line(points, round);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Path { points: path, turns: 0 } };
    let end = path.last().map_or(0, |end| end.x) + eastward(*last, *first, round);
    let turns = (end - first.x) / TURN;
    if turns == 0 && path.len() > 1 && path.first() == path.last() {
        path.pop();
    }
    Path { points: path, turns }
}

/// A line as it goes.
pub(super) fn line(points: &[Point], round: Round) -> Vec<Point> {
    let mut path: Vec<Point> = Vec::with_capacity(points.len());
    let mut before: Option<Point> = None;
    for point in points {
        let x = match (before, path.last()) {
            (Some(before), Some(last)) => last.x + eastward(before, *point, round),
            _ => point.x,
        };
        before = Some(*point);
        let point = Point { x, y: point.y };
        if path.last() != Some(&point) {
            path.push(point);
        }
    }
    path
}

/// How far a path goes from west to east.
pub(super) fn width(path: &[Point]) -> i64 {
    let longitudes = || path.iter().map(|point| point.x);
    longitudes().max().unwrap_or_default() - longitudes().min().unwrap_or_default()
}

/// Whether an edge runs along a parallel for exactly 360°.
pub(super) fn has_round_edge(ring: &[Point]) -> bool {
    crate::grid::edges_of_ring(ring).any(|Edge { from, to }| (to.x - from.x).abs() == TURN && from.y == to.y)
}

/// A closed ring cut at the antimeridian into rings on the map. What a ring encloses several times, its pieces do.
pub(super) fn pieces(ring: Vec<Point>) -> Vec<Vec<Point>> {
    let west = ring.iter().map(|point| point.x).min().unwrap_or_default();
    let shift = -(west + HALF_TURN).div_euclid(TURN) * TURN;
    let mut ring: Vec<Point> = ring.into_iter().map(|point| point.moved(shift)).collect();
    let mut pieces = Vec::new();
    while ring.iter().any(|point| point.x > HALF_TURN) {
        pieces.push(clipped(&ring, Axis::X, ..=HALF_TURN));
        ring = clipped(&ring, Axis::X, HALF_TURN..).into_iter().map(|point| point.moved(-TURN)).collect();
    }
    pieces.push(ring);
    pieces.retain(|piece| piece.len() >= 3);
    pieces
}

/// A line cut at the antimeridian into lines on the map. What runs along the antimeridian is at −180.
pub(super) fn line_pieces(line: &[Point]) -> Vec<Vec<Point>> {
    let mut pieces: Vec<(i64, Vec<Point>)> = Vec::new();
    for edge in edges_of_line(line) {
        for Edge { from, to } in cut(edge) {
            let turn = (from.x + to.x + TURN).div_euclid(2 * TURN);
            match pieces.last_mut() {
                Some((last, piece)) if *last == turn && piece.last() == Some(&from.moved(-turn * TURN)) => piece.push(to.moved(-turn * TURN)),
                _ => pieces.push((turn, vec![from.moved(-turn * TURN), to.moved(-turn * TURN)])),
            }
        }
    }
    pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// An edge in pieces that do not pass the antimeridian.
fn cut(edge: Edge) -> Vec<Edge> {
    let [low, high] = edge.corners();
    let first = (low.x + HALF_TURN).div_euclid(TURN) * TURN + HALF_TURN;
    let meridians = (0..).map(|turn| first + turn * TURN).take_while(|meridian| *meridian < high.x).filter(|meridian| *meridian > low.x);
    let mut points: Vec<Point> = meridians.map(|meridian| crossing_point(edge, Axis::X, meridian)).collect();
    if edge.from.x > edge.to.x {
        points.reverse();
    }
    let ends: Vec<Point> = std::iter::once(edge.from).chain(points).chain([edge.to]).collect();
    edges_of_line(&ends).collect()
}
