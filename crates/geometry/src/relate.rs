//! How two geometries lie to each other: whether they have a point in common, and whether one is within the other. It is decided on the
//! grid's integers, without rounding.

use std::ops::ControlFlow;

use crate::Geometry;
use crate::error::TooIntricate;
use crate::grid::{Edge, HALF_TURN, Meeting, POLE, Point, TURN, side};
use crate::pairs::{Budget, for_each_near_pair};

/// Where a point is in relation to an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Containment {
    Inside,
    Boundary,
    Outside,
}

impl Geometry {
    /// Whether the two have a point in common.
    ///
    /// # Errors
    /// When finding it out would take too long.
    pub fn intersects(&self, other: &Self) -> Result<bool, TooIntricate> {
        self.intersects_in(other, &mut Budget::new())
    }

    pub(crate) fn intersects_in(&self, other: &Self, budget: &mut Budget) -> Result<bool, TooIntricate> {
        if [POLE, -POLE].iter().any(|pole| self.touches_pole(*pole) && other.touches_pole(*pole)) {
            return Ok(true);
        }
        let at_seam = self.vertices().any(Point::is_on_seam) && other.vertices().any(Point::is_on_seam);
        for shift in if at_seam { &[0, TURN, -TURN][..] } else { &[0] } {
            if intersect_on_map(self, *shift, other, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether every point of this one is a point of `other`. Unlike `within` of the OGC, this is also true on the boundary of `other`.
    /// Each line has to be within the areas or within the lines of `other`, piece by piece, and areas within its areas.
    ///
    /// # Errors
    /// When finding it out would take too long.
    pub fn is_within(&self, other: &Self) -> Result<bool, TooIntricate> {
        let mut budget = Budget::new();
        let areas: Vec<Edge> = other.edges_of_areas().collect();
        for point in &self.points {
            if !is_point_within(*point, other, &areas, &mut budget)? {
                return Ok(false);
            }
        }
        let (special_edges, plain_edges): (Vec<Edge>, Vec<Edge>) = self.edges_of_lines().partition(|edge| is_on_seam(edge) || is_on_pole(edge));
        for edge in special_edges {
            if !is_special_edge_within(edge, other, &areas, &mut budget)? {
                return Ok(false);
            }
        }
        let lines: Vec<Edge> = other.edges_of_lines().collect();
        let is_covered = |location| location != Containment::Outside;
        if !(Pieces { edges: &plain_edges, areas: &areas, lines: &lines }).all_accepted(&mut budget, is_covered)? {
            return Ok(false);
        }
        let own_area_edges: Vec<Edge> = self.edges_of_areas().collect();
        if own_area_edges.is_empty() {
            return Ok(true);
        }
        let Some(bounds) = bounding_box(&own_area_edges) else { return Ok(true) };
        if !bounding_box(&areas).is_some_and(|outer_bounds| contains_box(outer_bounds, bounds)) {
            return Ok(false);
        }
        if !(Pieces { edges: &own_area_edges, areas: &areas, lines: &[] }).all_accepted(&mut budget, is_covered)? {
            return Ok(false);
        }
        // no hole and no gap of the other is inside this one
        let near_edges: Vec<Edge> = areas.into_iter().filter(|edge| edge.boxes_meet(&bounds)).collect();
        Pieces { edges: &near_edges, areas: &own_area_edges, lines: &[] }.all_accepted(&mut budget, |location| location != Containment::Inside)
    }

    pub(crate) fn touches_pole(&self, pole: i64) -> bool {
        self.vertices().any(|point| point.y == pole)
    }
}

fn is_on_seam(edge: &Edge) -> bool {
    edge.from.is_on_seam() && edge.to.x == edge.from.x
}

fn is_on_pole(edge: &Edge) -> bool {
    edge.from.is_pole() && edge.to.y == edge.from.y
}

/// The diagonal of the box around edges.
fn bounding_box(edges: &[Edge]) -> Option<Edge> {
    let corners = || edges.iter().map(Edge::corners);
    let from = Point { x: corners().map(|[low, _]| low.x).min()?, y: corners().map(|[low, _]| low.y).min()? };
    let to = Point { x: corners().map(|[_, high]| high.x).max()?, y: corners().map(|[_, high]| high.y).max()? };
    Some(Edge { from, to })
}

fn contains_box(outer: Edge, inner: Edge) -> bool {
    outer.from.x <= inner.from.x && outer.from.y <= inner.from.y && inner.to.x <= outer.to.x && inner.to.y <= outer.to.y
}

/// Everything of a geometry as edges; a point is an edge from it to itself.
fn all_edges(geometry: &Geometry, shift: i64) -> Vec<Edge> {
    let points = geometry.points.iter().map(|point| Edge { from: *point, to: *point });
    let all_accepted = points.chain(geometry.edges_of_lines()).chain(geometry.edges_of_areas());
    all_accepted.map(|edge| Edge { from: edge.from.moved(shift), to: edge.to.moved(shift) }).collect()
}

/// One point of each connected piece.
fn sample_points(geometry: &Geometry) -> impl Iterator<Item = Point> {
    let firsts = geometry.lines.iter().chain(geometry.areas.iter().map(|area| &area.shell)).filter_map(|points| points.first());
    geometry.points.iter().chain(firsts).copied()
}

fn intersect_on_map(first: &Geometry, shift: i64, second: &Geometry, budget: &mut Budget) -> Result<bool, TooIntricate> {
    let (first_edges, second_edges) = (all_edges(first, shift), all_edges(second, 0));
    budget.steps(first_edges.len() + second_edges.len())?;
    let (Some(first_bounds), Some(second_bounds)) = (bounding_box(&first_edges), bounding_box(&second_edges)) else { return Ok(false) };
    if !first_bounds.boxes_meet(&second_bounds) {
        return Ok(false);
    }
    let edges_near = |edges: Vec<Edge>, bounds: &Edge| edges.into_iter().filter(|edge| edge.boxes_meet(bounds)).collect::<Vec<_>>();
    let (first_edges, second_edges) = (edges_near(first_edges, &second_bounds), edges_near(second_edges, &first_bounds));
    let have_common_point = for_each_near_pair(&first_edges, &second_edges, budget, |first_index, second_index, _| {
        let is_common =
            first_edges.get(first_index).zip(second_edges.get(second_index)).is_some_and(|(first, second)| first.meeting(second) != Meeting::Apart);
        Ok(if is_common { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    if have_common_point {
        return Ok(true);
    }
    // then no boundary passes another one: a connected piece is entirely inside or entirely outside
    for (first, shift, second, bounds) in [(first, shift, second, second_bounds), (second, -shift, first, first_bounds.moved(-shift))] {
        let areas: Vec<Edge> = second.edges_of_areas().collect();
        for sample in sample_points(first).map(|sample| sample.moved(shift)) {
            let boxes_meet = bounds.boxes_meet(&Edge { from: sample, to: sample });
            if !areas.is_empty() && boxes_meet && locate(midpoint_in_half_units(sample, sample), &areas, budget)? != Containment::Outside {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

impl Edge {
    fn moved(self, shift: i64) -> Self {
        Self { from: self.from.moved(shift), to: self.to.moved(shift) }
    }
}

/// The middle of two points in half units.
fn midpoint_in_half_units(a: Point, b: Point) -> Point {
    Point { x: a.x + b.x, y: a.y + b.y }
}

/// Where a point in half units is in relation to the areas with such edges: what a ray to the east passes decides.
fn locate(point: Point, areas: &[Edge], budget: &mut Budget) -> Result<Containment, TooIntricate> {
    // passing an edge costs less than comparing two
    budget.steps(areas.len() / 4 + 1)?;
    let mut is_inside = false;
    for edge in areas {
        let (from, to) = (midpoint_in_half_units(edge.from, edge.from), midpoint_in_half_units(edge.to, edge.to));
        let (low, high) = if from.y <= to.y { (from, to) } else { (to, from) };
        if point.y < low.y || high.y < point.y || (from.x < point.x && to.x < point.x) {
            continue;
        }
        let side = side(low, high, point);
        if side.is_eq() && from.x.min(to.x) <= point.x && point.x <= from.x.max(to.x) {
            return Ok(Containment::Boundary);
        }
        is_inside ^= low.y <= point.y && point.y < high.y && side.is_gt();
    }
    Ok(if is_inside { Containment::Inside } else { Containment::Outside })
}

fn is_point_within(point: Point, other: &Geometry, areas: &[Edge], budget: &mut Budget) -> Result<bool, TooIntricate> {
    if (point.is_pole() && other.touches_pole(point.y)) || other.points.binary_search(&point).is_ok() {
        return Ok(true);
    }
    is_middle_within(midpoint_in_half_units(point, point), other, areas, budget)
}

/// Whether a point in half units is on a line or in an area, on either side of the antimeridian.
fn is_middle_within(point: Point, other: &Geometry, areas: &[Edge], budget: &mut Budget) -> Result<bool, TooIntricate> {
    budget.steps(other.lines.iter().map(Vec::len).sum())?;
    let is_on_seam = point.x.abs() == 2 * HALF_TURN;
    for point in if is_on_seam { vec![Point { x: 2 * HALF_TURN, ..point }, Point { x: -2 * HALF_TURN, ..point }] } else { vec![point] } {
        let is_on_line = other
            .edges_of_lines()
            .any(|edge| Edge { from: midpoint_in_half_units(edge.from, edge.from), to: midpoint_in_half_units(edge.to, edge.to) }.contains(point));
        if is_on_line || locate(point, areas, budget)? != Containment::Outside {
            return Ok(true);
        }
    }
    Ok(false)
}

/// For an edge of a line along the antimeridian, which is on both sides of the map, or along a pole, which is one point.
fn is_special_edge_within(edge: Edge, other: &Geometry, areas: &[Edge], budget: &mut Budget) -> Result<bool, TooIntricate> {
    if is_on_pole(&edge) {
        return is_point_within(Point { x: 0, y: edge.from.y }, other, areas, budget);
    }
    let [low, high] = edge.corners();
    budget.steps(areas.len())?;
    let mut latitudes: Vec<i64> = other.vertices().filter(|point| point.is_on_seam()).map(|point| point.y).collect();
    latitudes.extend([low.y, high.y]);
    latitudes.retain(|y| (low.y..=high.y).contains(y));
    latitudes.sort_unstable();
    latitudes.dedup();
    for (from, to) in latitudes.iter().zip(latitudes.iter().skip(1)) {
        let middle = Point { x: 2 * edge.from.x, y: from + to };
        if !is_middle_within(middle, other, areas, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Edges, divided where they meet the boundary of areas.
struct Pieces<'a> {
    edges: &'a [Edge],
    areas: &'a [Edge],
    /// What lies on these counts as on the boundary.
    lines: &'a [Edge],
}

/// Where one edge is divided.
#[derive(Default, Clone)]
struct Cuts {
    points: Vec<Point>,
    /// Stretches on the boundary, from their smaller to their greater end.
    shared: Vec<(Point, Point)>,
    starts_on_boundary: bool,
}

impl Pieces<'_> {
    /// Whether the location of every piece is accepted. False as well where an edge crosses the boundary: its pieces are on both sides.
    fn all_accepted(&self, budget: &mut Budget, accepted: impl Fn(Containment) -> bool) -> Result<bool, TooIntricate> {
        let mut cuts = vec![Cuts::default(); self.edges.len()];
        let mut has_crossing = false;
        for (boundary_edges, is_boundary) in [(self.areas, true), (self.lines, false)] {
            for_each_near_pair(self.edges, boundary_edges, budget, |index, boundary_index, _| {
                let (Some(edge), Some(boundary_edge), Some(cuts)) = (self.edges.get(index), boundary_edges.get(boundary_index), cuts.get_mut(index))
                else {
                    return Ok(ControlFlow::Continue(()));
                };
                let meeting = edge.meeting(boundary_edge);
                if is_boundary && meeting == Meeting::Crossing {
                    has_crossing = true;
                    return Ok(ControlFlow::Break(()));
                }
                cuts.add(edge, boundary_edge, meeting, is_boundary);
                Ok(ControlFlow::Continue(()))
            })?;
            if has_crossing {
                return Ok(false);
            }
        }
        let mut previous_end: Option<(Point, Containment)> = None;
        for (edge, cuts) in self.edges.iter().zip(&mut cuts) {
            // a piece that begins where the one before ends, away from the boundary, is where that is
            let mut known_location = previous_end.filter(|(end, _)| *end == edge.from && !cuts.starts_on_boundary).map(|(_, location)| location);
            let points = cuts.ordered_ends(edge);
            for (from, to) in points.iter().zip(points.iter().skip(1)) {
                let (low, high) = (*from.min(to), *from.max(to));
                let location = if cuts.shared.iter().any(|(start, end)| *start <= low && high <= *end) {
                    Containment::Boundary
                } else if let Some(known_location) = known_location {
                    known_location
                } else {
                    locate(midpoint_in_half_units(low, high), self.areas, budget)?
                };
                if !accepted(location) {
                    return Ok(false);
                }
                previous_end = (location != Containment::Boundary).then_some((*to, location));
                known_location = None;
            }
        }
        Ok(true)
    }
}

impl Cuts {
    fn add(&mut self, edge: &Edge, other: &Edge, meeting: Meeting, is_boundary: bool) {
        if meeting == Meeting::Apart || meeting == Meeting::Crossing {
            return;
        }
        self.starts_on_boundary |= is_boundary && other.contains(edge.from);
        self.points.extend([other.from, other.to].into_iter().filter(|point| edge.contains(*point)));
        if meeting == Meeting::Overlapping {
            let start = edge.from.min(edge.to).max(other.from.min(other.to));
            let end = edge.from.max(edge.to).min(other.from.max(other.to));
            self.shared.push((start, end));
        }
    }

    /// The ends of the pieces, in the direction of the edge.
    fn ordered_ends(&mut self, edge: &Edge) -> Vec<Point> {
        let mut points = std::mem::take(&mut self.points);
        points.extend([edge.from, edge.to]);
        points.sort_unstable();
        points.dedup();
        if edge.from > edge.to {
            points.reverse();
        }
        points
    }
}
