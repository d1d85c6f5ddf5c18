//! From what was written to the canonical form: equal areas are equal, whoever wrote them.

mod areas;
mod canonical;
mod clip;
mod overlay;
mod polar;
mod turns;

pub(crate) use areas::Shape;
pub(crate) use clip::clipped;
pub(crate) use overlay::{MAX_UNCUT, Rule, overlay};

use crate::Area;
use crate::error::{Error, Location, Repair, Warning};
use crate::grid::{HALF_TURN, Point, TURN, edges_of_line};
use crate::pairs::Budget;
use crate::read::{Part, Written};

/// The canonical parts of a geometry.
#[derive(Default)]
pub(crate) struct Canonical {
    pub points: Vec<Point>,
    pub lines: Vec<Vec<Point>>,
    pub areas: Vec<Area>,
}

pub(crate) fn normalise(written: Written) -> Result<(Canonical, Vec<Warning>), Error> {
    let mut canonical = Canonical::default();
    let mut warnings = Vec::new();
    let mut polygons: Vec<Shape> = Vec::new();
    let mut budget = Budget::new();
    let start = written.parts.first().map_or(Location::Byte(0), |(location, _)| location.clone());
    for (location, part) in written.parts {
        let mut warn = |repair: Repair| warnings.push(Warning { location: location.clone(), repair });
        match part {
            Part::Point(point) => canonical.points.push(on_map(point)),
            Part::Line(line) => canonical.add_line(&line, &mut warn),
            Part::Polygon(rings) => {
                let result = areas::polygon(&rings, &mut budget, &mut warn);
                let shapes = result.map_err(|fault| Error { location: location.clone(), fault })?;
                if shapes.is_empty() {
                    warn(Repair::NoArea);
                    if let Some(shell) = rings.first() {
                        canonical.add_line(&areas::without_area(shell), &mut |_| {});
                    }
                }
                polygons.extend(shapes);
            }
        }
    }
    let mut overlaps = false;
    let shells: Vec<Vec<Point>> = polygons.iter().filter_map(|shape| shape.first().cloned()).collect();
    let united = areas::united(polygons, &mut budget, &mut overlaps);
    let united = united.map_err(|intricate| Error { location: start.clone(), fault: intricate.into() })?;
    if overlaps {
        warnings.push(Warning { location: start, repair: Repair::Overlap });
    }
    canonical.areas = canonical::areas(united);
    if canonical.areas.is_empty() {
        // polygons narrower than the grid can vanish when they are united
        for shell in &shells {
            canonical.add_line(&areas::without_area(shell), &mut |_| {});
        }
    }
    canonical.points.sort_unstable();
    canonical.points.dedup();
    Ok((canonical, warnings))
}

impl Canonical {
    /// Lines keep their direction and order: a track has both.
    fn add_line(&mut self, written: &[Point], warn: &mut dyn FnMut(Repair)) {
        let line = turns::line(written, turns::Round::World);
        if line.len() < 2 {
            warn(Repair::NoLength);
            self.points.extend(line.first().map(|point| on_map(*point)));
            return;
        }
        for mut piece in turns::line_pieces(&line) {
            canonical::divide_wide(&mut piece, |piece| edges_of_line(piece).collect());
            self.lines.push(piece);
        }
    }
}

/// A point with its longitude from −180 to less than 180, and 0 at a pole.
fn on_map(point: Point) -> Point {
    if point.is_pole() {
        return Point { x: 0, y: point.y };
    }
    Point { x: (point.x + HALF_TURN).rem_euclid(TURN) - HALF_TURN, y: point.y }
}
