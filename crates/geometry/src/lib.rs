//! Geometries on the Earth, as catalogues get them: footprints of products, tracks, regions.
//!
//! [`Geometry::read`] takes GeoJSON, WKT, EWKT and OData's literals and returns a geometry in canonical form with warnings about what was
//! repaired. In that form equal areas are equal, and so are their bytes ([`Geometry::to_bytes`]). Geometries are compared
//! ([`Geometry::intersects`], [`Geometry::is_within`], [`Geometry::fraction_in`]), measured ([`Geometry::area`], [`Geometry::bounds`]) and
//! drawn ([`Geometry::simplified`]); [`NamedAreas`] finds the named areas that one touches.
//!
//! What holds everywhere:
//!
//! - Positions are longitude, then latitude, in degrees of WGS84, on a grid of 1/5 000 000 degree (2.3 cm at most).
//! - An edge is straight in longitude and latitude, as GeoJSON says. One that spans more than 180° is the short way across the
//!   antimeridian, and areas are cut there. A ring around the Earth encloses a pole.
//! - Relations are decided without rounding, and a boundary belongs to its geometry. The meridians −180 and 180 are one, and so is a pole.
//! - Whatever is read is limited ([`Limits`]); comparing takes bounded time, or fails with [`TooIntricate`].

mod binary;
mod bounds;
mod draw;
mod error;
mod grid;
mod label;
mod measure;
mod named;
mod normalise;
mod pairs;
mod reach;
mod read;
mod relate;
mod share;
mod write;

pub use bounds::Bounds;
pub use draw::Drawing;
pub use error::{Damaged, Error, Fault, Limits, Location, Repair, TooIntricate, Warning};
pub use grid::{Point, UNITS};
pub use named::NamedAreas;
pub use reach::Reach;

use grid::{Edge, edges_of_line, edges_of_ring};

/// Points, lines and areas in canonical form; at least one of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Geometry {
    points: Vec<Point>,
    lines: Vec<Vec<Point>>,
    areas: Vec<Area>,
}

/// A polygon: a shell and the holes in it. No ring repeats its first point.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Area {
    shell: Vec<Point>,
    holes: Vec<Vec<Point>>,
}

/// A geometry that was read, and what was repaired in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The geometry in canonical form.
    pub geometry: Geometry,
    /// What was repaired; nothing if it was valid.
    pub warnings: Vec<Warning>,
}

impl Area {
    /// The outer ring, counterclockwise, its first point not repeated.
    pub fn shell(&self) -> &[Point] {
        &self.shell
    }

    /// The rings of the holes, clockwise.
    pub fn holes(&self) -> &[Vec<Point>] {
        &self.holes
    }

    fn rings(&self) -> impl Iterator<Item = &Vec<Point>> {
        std::iter::once(&self.shell).chain(&self.holes)
    }
}

impl Geometry {
    /// Reads GeoJSON (a geometry, or a Feature with one), WKT, EWKT or a literal of OData.
    ///
    /// # Errors
    /// When it is none of these, is beyond the limits, or has no meaning on the Earth.
    pub fn read(text: &str, limits: &Limits) -> Result<Reading, Error> {
        Self::from_written(read::text(text, limits)?)
    }

    /// Reads GeoJSON that has been parsed.
    ///
    /// # Errors
    /// As [`Geometry::read`].
    pub fn read_json(value: &serde_json::Value, limits: &Limits) -> Result<Reading, Error> {
        Self::from_written(read::of_json(value, limits, &read::PathTo::Root)?)
    }

    fn from_written(written: read::Written) -> Result<Reading, Error> {
        let (normalise::Canonical { points, lines, areas }, warnings) = normalise::normalise(written)?;
        Ok(Reading { geometry: Self { points, lines, areas }, warnings })
    }

    /// Its points, in order.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Its lines, in their direction and order.
    pub fn lines(&self) -> &[Vec<Point>] {
        &self.lines
    }

    /// Its areas, in order; no two have more than points in common.
    pub fn areas(&self) -> &[Area] {
        &self.areas
    }

    /// The area in square metres on the ellipsoid of WGS84.
    pub fn area(&self) -> f64 {
        self.rings().map(|ring| measure::ring(ring.iter().copied().map(measure::coordinates))).sum::<f64>().max(0.0)
    }

    fn rings(&self) -> impl Iterator<Item = &Vec<Point>> {
        self.areas.iter().flat_map(Area::rings)
    }

    fn edges_of_areas(&self) -> impl Iterator<Item = Edge> {
        self.rings().flat_map(|ring| edges_of_ring(ring))
    }

    fn edges_of_lines(&self) -> impl Iterator<Item = Edge> {
        self.lines.iter().flat_map(|line| edges_of_line(line))
    }

    /// How many positions it has.
    pub fn positions(&self) -> usize {
        self.vertices().count()
    }

    fn vertices(&self) -> impl Iterator<Item = Point> {
        self.points.iter().chain(self.lines.iter().flatten()).chain(self.rings().flatten()).copied()
    }
}
