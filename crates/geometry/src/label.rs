//! A point for the name of a geometry on a map.

use crate::grid::{Edge, Point, UNITS, doubled_area, edges_of_ring};
use crate::{Area, Geometry};

/// Parallels that are tried, as shares of the height of an area: the middle is first.
const HEIGHTS: [f64; 7] = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8];

impl Geometry {
    /// A point of it in degrees, longitude first: inside the largest area and away from its edges, or the middle of the longest line, or
    /// a point.
    pub fn label(&self) -> (f64, f64) {
        let largest = self.areas.iter().max_by_key(|area| area.rings().map(|ring| doubled_area(ring)).sum::<i128>());
        if let Some(area) = largest {
            return point_inside(area);
        }
        let point = match self.lines.iter().max_by_key(|line| crate::grid::edges_of_line(line).map(length).sum::<i64>()) {
            Some(line) => line.get(line.len() / 2),
            None => self.points.first(),
        };
        point.map_or((0.0, 0.0), |point| (point.longitude(), point.latitude()))
    }
}

fn length(edge: Edge) -> i64 {
    (edge.from.x - edge.to.x).abs() + (edge.from.y - edge.to.y).abs()
}

/// The middle of the widest stretch of an area on a few parallels.
fn point_inside(area: &Area) -> (f64, f64) {
    let low = area.shell.iter().map(|point| point.y).min().unwrap_or_default();
    let high = area.shell.iter().map(|point| point.y).max().unwrap_or_default();
    let mut best = (-1.0, area.shell.first().map_or((0.0, 0.0), |point| (point.longitude(), point.latitude())));
    for height in HEIGHTS {
        // between two units, so that no parallel passes through a corner
        let y = ((low as f64 + (high - low) as f64 * height).floor() + 0.5).min(high as f64 - 0.5);
        let mut crossings: Vec<f64> = area.rings().flat_map(|ring| edges_of_ring(ring)).filter_map(|edge| longitude_at(edge, y)).collect();
        crossings.sort_unstable_by(f64::total_cmp);
        for stretch in crossings.chunks_exact(2) {
            if let [from, to] = stretch
                && to - from > best.0
            {
                best = (to - from, ((from + to) / 2.0 / UNITS as f64, y / UNITS as f64));
            }
        }
    }
    best.1
}

/// Where an edge passes a parallel.
fn longitude_at(edge: Edge, y: f64) -> Option<f64> {
    let Edge { from: Point { x, y: start }, to } = edge;
    let (start, end) = (start as f64, to.y as f64);
    ((start < y) != (end < y)).then(|| x as f64 + (to.x - x) as f64 * ((y - start) / (end - start)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn a_label_is_inside_of_a_ring_of_land() {
        let text = "POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,9 1,9 9,1 9,1 1))";
        let atoll = Geometry::read(text, &Limits::VALUE).unwrap().geometry;
        let (longitude, latitude) = atoll.label();
        let label = Geometry::read(&format!("POINT({longitude} {latitude})"), &Limits::VALUE).unwrap().geometry;
        assert_eq!(label.is_within(&atoll), Ok(true));
    }
}
