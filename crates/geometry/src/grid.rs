//! The grid on which all coordinates lie, and what is decided on it without rounding: on which side of a line a point is, and how two
//! edges meet.

use std::cmp::Ordering;

/// Units of the grid in a degree. A unit is at most 2.3 cm, and the map fits into 31 bits, which the overlay needs.
pub const UNITS: i64 = 5_000_000;
/// From the meridian of Greenwich to the antimeridian.
pub(crate) const HALF_TURN: i64 = 180 * UNITS;
/// Once around the Earth.
pub(crate) const TURN: i64 = 360 * UNITS;
/// From the equator to a pole.
pub(crate) const POLE: i64 = 90 * UNITS;

/// Digits that are kept before a coordinate is put on the grid, so that the noise of adding 360° does not decide between two units.
const FINE: f64 = 1e10;
/// Steps of these digits in a unit.
const FINE_IN_UNIT: i64 = 2_000;

/// A position on the grid: longitude `x` and latitude `y` in units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Point {
    pub(crate) x: i64,
    pub(crate) y: i64,
}

impl Point {
    /// The longitude in degrees, from −180 to 180.
    pub fn longitude(self) -> f64 {
        degrees(self.x)
    }

    /// The latitude in degrees.
    pub fn latitude(self) -> f64 {
        degrees(self.y)
    }

    pub(crate) fn is_on_seam(self) -> bool {
        self.x.abs() == HALF_TURN
    }

    pub(crate) fn is_pole(self) -> bool {
        self.y.abs() == POLE
    }

    pub(crate) fn moved(self, x: i64) -> Self {
        Self { x: self.x + x, y: self.y }
    }
}

/// Longitude or latitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Axis {
    X,
    Y,
}

impl Axis {
    pub fn of(self, point: Point) -> i64 {
        match self {
            Self::X => point.x,
            Self::Y => point.y,
        }
    }

    pub fn other(self) -> Self {
        match self {
            Self::X => Self::Y,
            Self::Y => Self::X,
        }
    }

    /// The point with one coordinate on this axis.
    pub fn point(self, coordinate: i64, other_coordinate: i64) -> Point {
        match self {
            Self::X => Point { x: coordinate, y: other_coordinate },
            Self::Y => Point { x: other_coordinate, y: coordinate },
        }
    }
}

/// A coordinate on the grid as degrees, which are read as the same coordinate again.
pub(crate) fn degrees(units: i64) -> f64 {
    units as f64 / UNITS as f64
}

/// Degrees as the nearest coordinate on the grid. Adding a turn to the degrees adds exactly a turn to the units.
pub(crate) fn units(degrees: f64) -> i64 {
    ((degrees * FINE).round() as i64 + FINE_IN_UNIT / 2).div_euclid(FINE_IN_UNIT)
}

/// A straight edge on the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Edge {
    pub from: Point,
    pub to: Point,
}

/// How two edges meet. An edge may also be a single point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meeting {
    /// They have no point in common.
    Apart,
    /// One point in common, inside of both.
    Crossing,
    /// One point in common, which is an end of at least one of them.
    Touching,
    /// They share a piece.
    Overlapping,
}

impl Edge {
    pub fn boxes_meet(&self, other: &Self) -> bool {
        let [low, high] = self.corners();
        let [other_low, other_high] = other.corners();
        low.x <= other_high.x && other_low.x <= high.x && low.y <= other_high.y && other_low.y <= high.y
    }

    /// The smallest and the greatest coordinates.
    pub fn corners(&self) -> [Point; 2] {
        let (a, b) = (self.from, self.to);
        [Point { x: a.x.min(b.x), y: a.y.min(b.y) }, Point { x: a.x.max(b.x), y: a.y.max(b.y) }]
    }

    pub fn contains(&self, point: Point) -> bool {
        let [low, high] = self.corners();
        low.x <= point.x && point.x <= high.x && low.y <= point.y && point.y <= high.y && side(self.from, self.to, point) == Ordering::Equal
    }

    pub fn meeting(&self, other: &Self) -> Meeting {
        if !self.boxes_meet(other) {
            return Meeting::Apart;
        }
        for (edge, point) in [(self, other), (other, self)] {
            if point.from == point.to {
                return if edge.contains(point.from) { Meeting::Touching } else { Meeting::Apart };
            }
        }
        let from = side(self.from, self.to, other.from);
        let to = side(self.from, self.to, other.to);
        if from == to {
            return if from == Ordering::Equal { self.meets_on_line(other) } else { Meeting::Apart };
        }
        let other_from = side(other.from, other.to, self.from);
        let other_to = side(other.from, other.to, self.to);
        if other_from == other_to {
            return Meeting::Apart;
        }
        let is_at_end = [from, to, other_from, other_to].contains(&Ordering::Equal);
        if is_at_end { Meeting::Touching } else { Meeting::Crossing }
    }

    /// For edges on one line whose boxes meet.
    fn meets_on_line(&self, other: &Self) -> Meeting {
        let [low, high] = [self.from.min(self.to), self.from.max(self.to)];
        let [other_low, other_high] = [other.from.min(other.to), other.from.max(other.to)];
        match low.max(other_low).cmp(&high.min(other_high)) {
            Ordering::Less => Meeting::Overlapping,
            Ordering::Equal => Meeting::Touching,
            Ordering::Greater => Meeting::Apart,
        }
    }
}

/// Greater if `point` is to the left of the line from `a` to `b`, less if to the right, equal if on it.
pub(crate) fn side(a: Point, b: Point, point: Point) -> Ordering {
    let left = i128::from(b.x - a.x) * i128::from(point.y - a.y);
    let right = i128::from(b.y - a.y) * i128::from(point.x - a.x);
    left.cmp(&right)
}

/// The edges of a ring whose first point is not repeated.
pub(crate) fn edges_of_ring(ring: &[Point]) -> impl Iterator<Item = Edge> + '_ {
    let next = ring.iter().skip(1).chain(ring.first());
    ring.iter().zip(next).map(|(from, to)| Edge { from: *from, to: *to })
}

pub(crate) fn edges_of_line(line: &[Point]) -> impl Iterator<Item = Edge> + '_ {
    line.iter().zip(line.iter().skip(1)).map(|(from, to)| Edge { from: *from, to: *to })
}

/// Twice the area that a ring encloses in the plane, positive if it runs counterclockwise.
pub(crate) fn doubled_area(ring: &[Point]) -> i128 {
    let Some(origin) = ring.first().copied() else { return 0 };
    edges_of_ring(ring)
        .map(|Edge { from, to }| {
            i128::from(from.x - origin.x) * i128::from(to.y - origin.y) - i128::from(to.x - origin.x) * i128::from(from.y - origin.y)
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: (i64, i64), to: (i64, i64)) -> Edge {
        Edge { from: Point { x: from.0, y: from.1 }, to: Point { x: to.0, y: to.1 } }
    }

    #[test]
    fn edges_meet_in_one_of_four_ways() {
        let base = edge((0, 0), (10, 0));
        assert_eq!(base.meeting(&edge((5, -1), (5, 1))), Meeting::Crossing);
        assert_eq!(base.meeting(&edge((5, 0), (5, 1))), Meeting::Touching);
        assert_eq!(base.meeting(&edge((10, 0), (20, 0))), Meeting::Touching);
        assert_eq!(base.meeting(&edge((9, 0), (20, 0))), Meeting::Overlapping);
        assert_eq!(base.meeting(&edge((11, 0), (20, 0))), Meeting::Apart);
        assert_eq!(base.meeting(&edge((5, 1), (5, 2))), Meeting::Apart);
        assert_eq!(base.meeting(&edge((0, 1), (20, 1))), Meeting::Apart);
        assert_eq!(edge((0, 0), (0, 9)).meeting(&edge((0, 9), (0, 3))), Meeting::Overlapping);
    }

    #[test]
    fn a_turn_of_degrees_is_a_turn_of_units() {
        for seven_digits in [12.345_678_9, -0.000_000_1, 0.000_000_3, -179.999_999_9, 33.333_333_3] {
            assert_eq!(units(seven_digits + 360.0), units(seven_digits) + TURN);
            assert_eq!(units(seven_digits - 360.0), units(seven_digits) - TURN);
        }
        assert_eq!(degrees(units(12.345_678)), 12.345_678);
    }
}
