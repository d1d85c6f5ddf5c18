//! Rings that go around the Earth once: they enclose a pole.

use super::turns::Path;
use crate::grid::{POLE, Point, TURN, edges_of_line};
use crate::measure::strip_below;

/// The two poles, as signs of their latitudes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pole {
    North,
    South,
}

/// The pole that a ring around the Earth encloses: the one on whose side a hole around the Earth lies, or that with the smaller area. The
/// ring's direction does not count, because catalogues deliver footprints in both.
pub(super) fn enclosed(shell: &Path, holes: &[Path]) -> Pole {
    let shell_height = mean_height(shell);
    let is_north = match holes.iter().find(|hole| hole.turns != 0) {
        Some(hole) => mean_height(hole) >= shell_height,
        None => shell_height >= 0.0,
    };
    if is_north { Pole::North } else { Pole::South }
}

/// What a path around the Earth has south of it up to the equator, less what it has north of it: positive if most of it is in the north.
fn mean_height(path: &Path) -> f64 {
    edges_of_line(&once_around(path)).map(strip_below).sum::<f64>() * path.turns.signum() as f64
}

/// With the first point once more at the end, a turn farther.
fn once_around(path: &Path) -> Vec<Point> {
    let end = path.points.first().map(|first| first.moved(path.turns * TURN));
    path.points.iter().copied().chain(end).collect()
}

/// The ring closed through the pole.
pub(super) fn closed(path: &Path, pole: Pole) -> Vec<Point> {
    let mut ring = once_around(path);
    let y = if pole == Pole::North { POLE } else { -POLE };
    let (Some(first), Some(last)) = (ring.first().copied(), ring.last().copied()) else { return ring };
    for corner in [Point { x: last.x, y }, Point { x: first.x, y }] {
        if ring.last() != Some(&corner) && ring.first() != Some(&corner) {
            ring.push(corner);
        }
    }
    ring
}
