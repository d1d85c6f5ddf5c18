//! Areas on the ellipsoid of WGS84. Edges are straight in longitude and latitude, so the area is an integral over latitude that is known
//! in closed form: no edge has to be divided, and the pieces of an area have its area.

use crate::grid::{Edge, Point, UNITS};

/// Half the length of the Earth's axis, in metres.
const SEMI_MINOR: f64 = 6_356_752.314_245_179;
/// The flattening of the ellipsoid.
const FLATTENING: f64 = 1.0 / 298.257_223_563;

/// An edge is integrated in pieces of at most so many radians of latitude.
const MAX_PIECE_RADIANS: f64 = 0.25;
/// Abscissas and weights of Gauss and Legendre for 8 points, for one half.
const GAUSS: [(f64, f64); 4] = [
    (0.183_434_642_495_649_8, 0.362_683_783_378_362),
    (0.525_532_409_916_329, 0.313_706_645_877_887_3),
    (0.796_666_477_413_626_7, 0.222_381_034_453_374_48),
    (0.960_289_856_497_536_3, 0.101_228_536_290_376_26),
];

/// The area between the equator and a latitude on one radian of longitude, in square metres.
fn strip(latitude: f64) -> f64 {
    let eccentricity = (FLATTENING * (2.0 - FLATTENING)).sqrt();
    let sine = latitude.sin();
    let scaled = eccentricity * sine;
    SEMI_MINOR * SEMI_MINOR / 2.0 * (sine / (1.0 - scaled * scaled) + scaled.atanh() / eccentricity)
}

/// The mean of [`strip`] between two latitudes, less `base`.
fn mean_strip(from: f64, to: f64, base: f64) -> f64 {
    if from == to {
        return strip(from) - base;
    }
    let pieces = ((to - from).abs() / MAX_PIECE_RADIANS).ceil().max(1.0);
    let half = (to - from) / pieces / 2.0;
    let mut sum = 0.0;
    for piece in 0..pieces as u32 {
        let middle = from + half * f64::from(2 * piece + 1);
        for (abscissa, weight) in GAUSS {
            sum += weight * (strip(middle + half * abscissa) - base + strip(middle - half * abscissa) - base);
        }
    }
    sum / (2.0 * pieces)
}

/// What lies between an edge and the equator, positive if the edge goes east in the north.
pub(crate) fn strip_below(edge: Edge) -> f64 {
    below(coordinates(edge.from), coordinates(edge.to), 0.0)
}

/// Longitude and latitude in units, of which there may be parts.
type Coordinates = (f64, f64);

pub(crate) fn coordinates(point: Point) -> Coordinates {
    (point.x as f64, point.y as f64)
}

fn radians(units: f64) -> f64 {
    (units / UNITS as f64).to_radians()
}

fn below(from: Coordinates, to: Coordinates, base: f64) -> f64 {
    if from.0 == to.0 {
        return 0.0;
    }
    // in one direction, so that an edge and its reverse cancel exactly
    let (low, high) = if from < to { (from, to) } else { (to, from) };
    radians(to.0 - from.0) * mean_strip(radians(low.1), radians(high.1), base)
}

/// The area that a ring encloses, in square metres; negative if it runs clockwise.
pub(crate) fn ring(ring: impl Iterator<Item = Coordinates> + Clone) -> f64 {
    let Some(first) = ring.clone().next() else { return 0.0 };
    // the sum of longitudes is zero, so the area can be counted from any parallel; from a near one, small areas are exact too
    let base = strip(radians(first.1));
    let next = ring.clone().skip(1).chain([first]);
    -ring.zip(next).map(|(from, to)| below(from, to, base)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::{HALF_TURN, POLE};

    #[test]
    fn the_earth_has_its_area() {
        let corner = |x, y| Point { x, y };
        let world = [corner(-HALF_TURN, -POLE), corner(HALF_TURN, -POLE), corner(HALF_TURN, POLE), corner(-HALF_TURN, POLE)];
        let area = ring(world.into_iter().map(coordinates));
        assert!((area / 510_065_621_724_088.4 - 1.0).abs() < 1e-12, "{area}");
    }

    #[test]
    fn a_square_metre_is_one() {
        let unit = UNITS / 100_000;
        let square = [(0, 0), (unit, 0), (unit, unit), (0, unit)].map(|(x, y)| Point { x: x + 10 * UNITS, y: y + 50 * UNITS });
        // one hundred-thousandth of a degree at 50° north is 1.112 m by 0.717 m
        let area = ring(square.into_iter().map(coordinates));
        assert!((area - 0.797_6).abs() < 0.001, "{area}");
    }
}
