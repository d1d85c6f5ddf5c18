//! The canonical form as bytes: a version, then points, lines and areas. Counts are variable-length integers of 7 bits a byte; a point is
//! its distance from the one before, in units of the grid.

use crate::error::Damaged;
use crate::grid::{HALF_TURN, POLE, Point};
use crate::{Area, Geometry};

const VERSION: u8 = 1;

impl Geometry {
    /// The canonical bytes: equal geometries, and only these, have equal ones.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer { bytes: vec![VERSION], before: Point { x: 0, y: 0 } };
        writer.points(&self.points);
        writer.count(self.lines.len());
        for line in &self.lines {
            writer.points(line);
        }
        writer.count(self.areas.len());
        for area in &self.areas {
            writer.count(area.holes.len());
            for ring in area.rings() {
                writer.points(ring);
            }
        }
        writer.bytes
    }

    /// Reads what [`Geometry::to_bytes`] wrote. Numbers and counts are checked, not whether rings cross.
    ///
    /// # Errors
    /// When the bytes are damaged or of a later version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Damaged> {
        let mut reader = Reader { bytes, byte: 1, before: Point { x: 0, y: 0 } };
        match bytes.first() {
            Some(&VERSION) => {}
            Some(other) => return Err(Damaged::Version(*other)),
            None => return Err(Damaged::Byte(0)),
        }
        let points = reader.points(0)?;
        let lines = reader.list(|reader| reader.points(2))?;
        let areas = reader.list(|reader| {
            let holes = reader.count()?;
            let shell = reader.points(3)?;
            let holes = (0..holes).map(|_| reader.points(3)).collect::<Result<_, _>>()?;
            Ok(Area { shell, holes })
        })?;
        let is_empty = points.is_empty() && lines.is_empty() && areas.is_empty();
        if reader.byte < bytes.len() || is_empty { Err(reader.damaged()) } else { Ok(Self { points, lines, areas }) }
    }
}

struct Writer {
    bytes: Vec<u8>,
    before: Point,
}

impl Writer {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn points(&mut self, points: &[Point]) {
        self.count(points.len());
        for point in points {
            for distance in [point.x - self.before.x, point.y - self.before.y] {
                // small numbers of either sign are short
                self.number(((distance << 1) ^ (distance >> 63)) as u64);
            }
            self.before = *point;
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    byte: usize,
    before: Point,
}

impl Reader<'_> {
    fn damaged(&self) -> Damaged {
        Damaged::Byte(self.byte)
    }

    /// A number below 2^35, in its shortest form.
    fn number(&mut self) -> Result<u64, Damaged> {
        let mut number = 0;
        for shift in (0..35).step_by(7) {
            let byte = *self.bytes.get(self.byte).ok_or(self.damaged())?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte == 0 && shift > 0 {
                return Err(self.damaged());
            }
            self.byte += 1;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.damaged())
    }

    /// A count of things of which each has at least a byte.
    fn count(&mut self) -> Result<usize, Damaged> {
        let count = self.number()?;
        let left = self.bytes.len().saturating_sub(self.byte);
        usize::try_from(count).ok().filter(|count| *count <= left).ok_or(self.damaged())
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Damaged>) -> Result<Vec<T>, Damaged> {
        let count = self.count()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn points(&mut self, least: usize) -> Result<Vec<Point>, Damaged> {
        let points = self.list(Self::point)?;
        if points.len() < least { Err(self.damaged()) } else { Ok(points) }
    }

    fn point(&mut self) -> Result<Point, Damaged> {
        let x = self.before.x + self.distance()?;
        let y = self.before.y + self.distance()?;
        if x.abs() > HALF_TURN || y.abs() > POLE {
            return Err(self.damaged());
        }
        self.before = Point { x, y };
        Ok(self.before)
    }

    fn distance(&mut self) -> Result<i64, Damaged> {
        let number = self.number()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }
}
