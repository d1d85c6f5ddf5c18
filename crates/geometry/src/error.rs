//! What can be wrong with a geometry, what was repaired in it, and where.

use std::fmt;

/// Where something is in what was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Location {
    /// So many bytes before it, in text.
    Byte(usize),
    /// A path in JSON, such as `$.coordinates[0][3]`.
    Path(String),
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(byte) => write!(formatter, "byte {byte}"),
            Self::Path(path) => formatter.write_str(path),
        }
    }
}

/// Why something is no geometry that can be kept, and where.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("{location}: {fault}")]
pub struct Error {
    /// Where it is.
    pub location: Location,
    /// What it is.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Fault {
    /// Neither JSON nor WKT, or not as they are written.
    #[error("{0}")]
    Syntax(String),
    /// The text is longer than the limit.
    #[error("more than {0} bytes")]
    TooManyBytes(usize),
    /// There are more positions than the limit.
    #[error("more than {0} positions: deliver a simplified geometry")]
    TooManyPoints(usize),
    /// There are more rings, lines and points than the limit.
    #[error("more than {0} rings, lines and points: deliver a simplified geometry")]
    TooManyParts(usize),
    /// Collections are nested deeper than the limit.
    #[error("collections are nested more than {0} deep")]
    TooDeep(usize),
    /// A latitude outside of −90 to 90.
    #[error("latitude {0} is not between -90 and 90; positions are longitude first, then latitude, in degrees")]
    Latitude(f64),
    /// A longitude that is none.
    #[error("longitude {0} is not between -1080 and 1080; positions are longitude first, then latitude, in degrees")]
    Longitude(f64),
    /// Another reference system.
    #[error("reference system {0} is not supported; deliver longitude and latitude in WGS84 (SRID 4326)")]
    ReferenceSystem(String),
    /// There is no position.
    #[error("the geometry is empty; leave the value out instead")]
    Empty,
    /// A line of one position.
    #[error("a line needs at least two positions")]
    ShortLine,
    /// A ring of less than three positions.
    #[error("a ring needs at least three positions, and the first once more at its end")]
    ShortRing,
    /// A ring goes around the Earth several times.
    #[error("the ring goes around the Earth {0} times; a ring that contains a pole goes around it once")]
    Turns(i64),
    /// Comparing edges would take too long.
    #[error(transparent)]
    Intricate(#[from] TooIntricate),
}

/// The edges cross, or lie near each other, so often that an answer would take too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("too many edges cross or lie near each other; simplify the geometry")]
pub struct TooIntricate;

/// What was repaired, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{location}: {repair}")]
pub struct Warning {
    /// Where it is.
    pub location: Location,
    /// What was done.
    pub repair: Repair,
}

/// What was repaired in an invalid geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Repair {
    /// The last position of a ring is not the first.
    #[error("the ring was not closed; it was closed")]
    Closed,
    /// A ring crosses or overlaps itself.
    #[error("the ring crosses itself; all that it goes around is the area")]
    Crossing,
    /// Holes lie outside of their polygon or overlap.
    #[error("holes overlap or lie outside of their polygon; what the polygon has outside of all holes is the area")]
    Holes,
    /// Polygons overlap.
    #[error("polygons overlap; they were united")]
    Overlap,
    /// A polygon without an area.
    #[error("the polygon has no area; it was kept as a line or a point")]
    NoArea,
    /// A hole without an area.
    #[error("the hole has no area; it was left out")]
    NoHole,
    /// A line without a length.
    #[error("the line has no length; it was kept as a point")]
    NoLength,
}

/// Bytes that are no canonical geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damaged {
    /// A version that this program does not know.
    #[error("version {0} of stored geometries is not known")]
    Version(u8),
    /// Anything else.
    #[error("the stored geometry is damaged at byte {0}")]
    Byte(usize),
}

/// How large a geometry may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of text.
    pub bytes: usize,
    /// Positions.
    pub points: usize,
    /// Rings, lines and points.
    pub parts: usize,
    /// Collections within collections.
    pub depth: usize,
}

impl Limits {
    /// For a value of a record, such as a footprint.
    pub const VALUE: Self = Self { bytes: 1 << 20, points: 20_000, parts: 4_000, depth: 8 };
    /// For a named area, such as a country with its islands.
    pub const AREA: Self = Self { bytes: 16 << 20, points: 200_000, parts: 20_000, depth: 8 };
}

impl Default for Limits {
    fn default() -> Self {
        Self::VALUE
    }
}
