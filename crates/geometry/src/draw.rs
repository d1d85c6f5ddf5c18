//! Geometries with few points, for pictures: the points whose triangles with their neighbours are smallest go first (Visvalingam and
//! Whyatt).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;

use crate::Geometry;
use crate::grid::{Point, doubled_area, edges_of_line};

/// What is drawn of a geometry. Rings may touch or cross where they have lost points.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// Shells and holes; their first points are not repeated.
    pub rings: Vec<Vec<Point>>,
    /// Lines.
    pub lines: Vec<Vec<Point>>,
    /// Points.
    pub points: Vec<Point>,
}

/// A ring or a line that loses points.
struct Thinned {
    points: Vec<Point>,
    is_ring: bool,
    /// The neighbours of each point that is left.
    neighbours: Vec<Option<(usize, usize)>>,
    left: usize,
}

impl Geometry {
    /// With at most so many points. The smallest rings, lines and points are left out where it needs more.
    pub fn simplified(&self, max_points: usize) -> Drawing {
        let rings = self.rings().map(|ring| Thinned::new(ring, true));
        let mut paths: Vec<Thinned> = rings.chain(self.lines.iter().map(|line| Thinned::new(line, false))).collect();
        // the largest first, as long as the least of each fits
        paths.sort_by_key(|path| Reverse(path.size()));
        let mut least = 0;
        paths.retain(|path| {
            least += path.least();
            least <= max_points
        });
        thin(&mut paths, max_points);
        let mut drawing = Drawing::default();
        let mut drawn = 0;
        for path in paths {
            drawn += path.left;
            let left = path.points.iter().zip(&path.neighbours).filter(|(_, neighbours)| neighbours.is_some()).map(|(point, _)| *point);
            if path.is_ring { drawing.rings.push(left.collect()) } else { drawing.lines.push(left.collect()) }
        }
        drawing.points = self.points.iter().take(max_points.saturating_sub(drawn)).copied().collect();
        drawing
    }
}

impl Thinned {
    fn new(points: &[Point], is_ring: bool) -> Self {
        let count = points.len();
        let neighbours = (0..count).map(|index| Some(((index + count - 1) % count, (index + 1) % count))).collect();
        Self { points: points.to_vec(), is_ring, neighbours, left: count }
    }

    fn least(&self) -> usize {
        if self.is_ring { 3 } else { 2 }
    }

    fn size(&self) -> i128 {
        let along = edges_of_line(&self.points).map(|edge| i128::from((edge.from.x - edge.to.x).abs() + (edge.from.y - edge.to.y).abs()));
        if self.is_ring { doubled_area(&self.points).abs() } else { along.sum() }
    }

    /// How much the path would change without a point; nothing for the ends of a line.
    fn weight(&self, index: usize) -> Option<i128> {
        let is_end = !self.is_ring && (index == 0 || index + 1 == self.points.len());
        let (before, after) = (*self.neighbours.get(index)?)?;
        let corner = [*self.points.get(before)?, *self.points.get(index)?, *self.points.get(after)?];
        (!is_end).then(|| doubled_area(&corner).abs())
    }

    /// Takes a point away; returns its neighbours.
    fn take(&mut self, index: usize) -> Option<(usize, usize)> {
        let (before, after) = self.neighbours.get_mut(index)?.take()?;
        if let Some(Some(neighbours)) = self.neighbours.get_mut(before) {
            neighbours.1 = after;
        }
        if let Some(Some(neighbours)) = self.neighbours.get_mut(after) {
            neighbours.0 = before;
        }
        self.left -= 1;
        Some((before, after))
    }
}

/// Takes points away until at most so many are left.
fn thin(paths: &mut [Thinned], max_points: usize) {
    let mut total: usize = paths.iter().map(|path| path.left).sum();
    if total <= max_points {
        return;
    }
    let mut queue = BinaryHeap::new();
    for (path_index, path) in paths.iter().enumerate() {
        queue.extend((0..path.points.len()).filter_map(|index| Some(Reverse((path.weight(index)?, path_index, index)))));
    }
    while total > max_points {
        let Some(Reverse((weight, path_index, index))) = queue.pop() else { return };
        let Some(path) = paths.get_mut(path_index) else { continue };
        // an older weight of a point that has been given another one
        if path.weight(index) != Some(weight) || path.left <= path.least() {
            continue;
        }
        let Some((before, after)) = path.take(index) else { continue };
        total -= 1;
        for neighbour in [before, after] {
            // not below that of the point that went, so that a bulge goes from its top
            if let Some(weight) = path.weight(neighbour) {
                queue.push(Reverse((weight, path_index, neighbour)));
            }
        }
    }
}

impl Drawing {
    /// The path of an SVG, to be filled by the rule `evenodd`: longitude to the right and latitude upward, in degrees with so many digits.
    pub fn svg_path(&self, digits: usize) -> String {
        let mut path = String::new();
        for (points, end) in self.rings.iter().map(|ring| (ring, "Z")).chain(self.lines.iter().map(|line| (line, ""))) {
            for (index, point) in points.iter().enumerate() {
                write_command(&mut path, if index == 0 { 'M' } else { 'L' }, *point, digits);
            }
            path.push_str(end);
        }
        for point in &self.points {
            // a line without a length, which a round end makes a dot
            write_command(&mut path, 'M', *point, digits);
            path.push_str("h0");
        }
        path
    }
}

fn write_command(path: &mut String, command: char, point: Point, digits: usize) {
    let number = |degrees: f64| {
        let text = format!("{degrees:.digits$}");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
        if text == "-0" { "0".to_owned() } else { text.to_owned() }
    };
    let _ = write!(path, "{command}{} {}", number(point.longitude()), number(-point.latitude()));
}
