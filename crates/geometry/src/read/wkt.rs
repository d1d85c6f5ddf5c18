//! WKT, with `SRID=4326;` before it (EWKT) or not, and in the quotes of OData: `geography'SRID=4326;POINT(1 2)'`.

use super::{Counter, Part, Written};
use crate::error::{Error, Fault, Limits, Location};
use crate::grid::Point;

const WGS84: &str = "4326";

pub(super) fn read(text: &str, limits: &Limits) -> Result<Written, Error> {
    let mut reader = Reader { text, byte: 0, counter: Counter::new(limits), parts: Vec::new() };
    let quoted = ["geography", "geometry"].iter().any(|word| reader.takes_quoted(word));
    reader.reference_system()?;
    reader.geometry(0)?;
    if quoted {
        reader.expect('\'')?;
    }
    reader.blanks();
    if reader.byte < text.len() {
        return Err(reader.syntax("the text goes on after the geometry"));
    }
    if reader.parts.is_empty() {
        return Err(reader.error_at(0, Fault::Empty));
    }
    Ok(Written { parts: reader.parts })
}

struct Reader<'a> {
    text: &'a str,
    byte: usize,
    counter: Counter,
    parts: Vec<(Location, Part)>,
}

impl<'a> Reader<'a> {
    fn error_at(&self, byte: usize, fault: Fault) -> Error {
        Error { location: Location::Byte(byte), fault }
    }

    fn syntax(&self, what: impl Into<String>) -> Error {
        self.error_at(self.byte, Fault::Syntax(what.into()))
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.byte..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.byte += self.rest().len() - self.rest().trim_start().len();
    }

    /// What follows and has only such characters, which is taken.
    fn take(&mut self, is_part: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = rest.split_at(rest.find(|next| !is_part(next)).unwrap_or(rest.len())).0;
        self.byte += taken.len();
        taken
    }

    fn takes(&mut self, sign: char) -> bool {
        self.blanks();
        let follows = self.rest().starts_with(sign);
        self.byte += if follows { sign.len_utf8() } else { 0 };
        follows
    }

    fn expect(&mut self, sign: char) -> Result<(), Error> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self.rest().chars().next().map_or_else(|| "the end".to_owned(), |found| format!("'{found}'"));
        Err(self.syntax(format!("'{sign}' is expected, not {found}")))
    }

    fn word(&mut self) -> &'a str {
        self.blanks();
        self.take(|next| next.is_ascii_alphabetic())
    }

    fn takes_quoted(&mut self, word: &str) -> bool {
        let start = self.byte;
        if self.word().eq_ignore_ascii_case(word) && self.takes('\'') {
            return true;
        }
        self.byte = start;
        false
    }

    fn reference_system(&mut self) -> Result<(), Error> {
        let start = self.byte;
        if !self.word().eq_ignore_ascii_case("SRID") {
            self.byte = start;
            return Ok(());
        }
        self.expect('=')?;
        self.blanks();
        let start = self.byte;
        let number = self.take(|next| next.is_ascii_digit());
        if number != WGS84 {
            return Err(self.error_at(start, Fault::ReferenceSystem(format!("SRID {number}"))));
        }
        self.expect(';')
    }

    fn geometry(&mut self, depth: usize) -> Result<(), Error> {
        self.counter.nested(depth).map_err(|fault| self.error_at(self.byte, fault))?;
        self.blanks();
        let start = self.byte;
        let word = self.word().to_ascii_uppercase();
        // "POINT Z" is also written "POINTZ"
        let kind = ["ZM", "Z", "M"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(&word);
        let single = match kind {
            "POINT" | "MULTIPOINT" => Self::point,
            "LINESTRING" | "MULTILINESTRING" => Self::line,
            "POLYGON" | "MULTIPOLYGON" => Self::polygon,
            "GEOMETRYCOLLECTION" => {
                return if self.is_empty()? { Ok(()) } else { self.list(|reader| reader.geometry(depth + 1)) };
            }
            _ => {
                let what = format!("a geometry is expected: an object of GeoJSON, or WKT such as POLYGON((..)), not {word:?}");
                return Err(self.error_at(start, Fault::Syntax(what)));
            }
        };
        if self.is_empty()? {
            return Ok(());
        }
        if kind == "MULTIPOINT" {
            // also without parentheses around each
            return self.list(|reader| {
                reader.blanks();
                if reader.rest().starts_with('(') {
                    return reader.member(Self::point);
                }
                let start = reader.byte;
                let point = reader.position()?;
                reader.push(start, Part::Point(point))
            });
        }
        if kind.starts_with("MULTI") {
            return self.list(|reader| reader.member(single));
        }
        single(self)
    }

    fn member(&mut self, single: fn(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        let start = self.byte;
        if self.word().eq_ignore_ascii_case("EMPTY") {
            return Ok(());
        }
        self.byte = start;
        single(self)
    }

    /// What says which numbers a position has, and whether there are none.
    fn is_empty(&mut self) -> Result<bool, Error> {
        loop {
            let start = self.byte;
            match self.word().to_ascii_uppercase().as_str() {
                "" => return Ok(false),
                "EMPTY" => return Ok(true),
                "Z" | "M" | "ZM" => {}
                other => return Err(self.error_at(start, Fault::Syntax(format!("'(' or EMPTY is expected, not {other:?}")))),
            }
        }
    }

    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.expect('(')?;
        loop {
            item(self)?;
            if !self.takes(',') {
                return self.expect(')');
            }
        }
    }

    fn push(&mut self, start: usize, part: Part) -> Result<(), Error> {
        if matches!(part, Part::Point(_)) {
            self.counter.part().map_err(|fault| self.error_at(start, fault))?;
        }
        self.parts.push((Location::Byte(start), part));
        Ok(())
    }

    fn point(&mut self) -> Result<(), Error> {
        self.blanks();
        let start = self.byte;
        self.expect('(')?;
        let point = self.position()?;
        self.expect(')')?;
        self.push(start, Part::Point(point))
    }

    fn line(&mut self) -> Result<(), Error> {
        self.blanks();
        let start = self.byte;
        let line = self.positions()?;
        if line.len() < 2 {
            return Err(self.error_at(start, Fault::ShortLine));
        }
        self.push(start, Part::Line(line))
    }

    fn polygon(&mut self) -> Result<(), Error> {
        self.blanks();
        let start = self.byte;
        let mut rings = Vec::new();
        self.list(|reader| {
            reader.blanks();
            let start = reader.byte;
            let ring = reader.positions()?;
            if ring.len() < 3 {
                return Err(reader.error_at(start, Fault::ShortRing));
            }
            rings.push(ring);
            Ok(())
        })?;
        self.push(start, Part::Polygon(rings))
    }

    fn positions(&mut self) -> Result<Vec<Point>, Error> {
        self.counter.part().map_err(|fault| self.error_at(self.byte, fault))?;
        let mut positions = Vec::new();
        self.list(|reader| {
            positions.push(reader.position()?);
            Ok(())
        })?;
        Ok(positions)
    }

    fn position(&mut self) -> Result<Point, Error> {
        self.blanks();
        let start = self.byte;
        let (longitude, latitude) = (self.number()?, self.number()?);
        // altitude, and what was measured there
        for _ in 0..2 {
            self.blanks();
            if self.rest().starts_with([',', ')']) {
                break;
            }
            self.number()?;
        }
        self.counter.position(longitude, latitude).map_err(|fault| self.error_at(start, fault))
    }

    fn number(&mut self) -> Result<f64, Error> {
        self.blanks();
        let start = self.byte;
        let number = self.take(|next| next.is_ascii_alphanumeric() || matches!(next, '.' | '-' | '+'));
        let parsed = number.parse::<f64>().ok().filter(|parsed| parsed.is_finite());
        parsed.ok_or_else(|| {
            self.error_at(start, Fault::Syntax(format!("a number is expected, not {:?}", number.chars().take(20).collect::<String>())))
        })
    }
}
