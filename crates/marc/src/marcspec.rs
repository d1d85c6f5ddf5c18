//! MARCspec, the common MARC record path language (<https://marcspec.github.io/MARCspec/>), version 0.16beta+2.
//!
//! ```text
//! spec        = fieldTag [ "[" range "]" ] condition* [ "/" range | "^" ("1"|"2") | subfields ] condition*
//! fieldTag    = three of: digit, letter, "." (any character); "LDR" is the leader
//! subfields   = ( "$" code [ "-" code ] [ "[" range "]" ] [ "/" range ] condition* )+
//! range       = position [ "-" position ] ; position = digits | "#" (the last)
//! condition   = "{" test ( "|" test )* "}" ; several conditions are all required
//! test        = [ left ] operator right ; operator = "=" "!=" "~" "!~" "?" "!"
//! left, right = spec, a part of the field at hand ($a, ^1, /3), or "\" and a literal
//! ```
//! A [`FieldSpec`] is what follows the tag, or the word `tag` for the tag itself, and selects from one field. A condition after the field restricts fields, one after a subfield restricts those subfields. An abbreviated left side
//! (`$a`, `^1`, `/3`) speaks of the field at hand. Literals use MARCspec's escapes: `\s` is a blank.

/// A parsed MARCspec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MarcSpec {
    /// Which fields.
    pub tag: TagPattern,
    /// Which occurrences of them.
    pub occurrences: Option<PositionRange>,
    /// Which part of them.
    pub part: FieldPart,
    /// Conditions on the field, all required.
    pub conditions: Vec<SubSpec>,
}

/// A part of one field: a MARCspec without its tag, such as `$a`, `^1` or `/0-3`, or its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldSpec {
    /// Which part of it.
    pub part: FieldPart,
    /// Conditions on the field, all required.
    pub conditions: Vec<SubSpec>,
}

/// Three characters; `.` stands for any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagPattern(pub [u8; 3]);

impl TagPattern {
    /// The leader.
    pub const LEADER: TagPattern = TagPattern(*b"LDR");

    /// Whether a tag fits.
    #[inline]
    pub fn matches(self, tag: &[u8; 3]) -> bool {
        self.0.iter().zip(tag).all(|(pattern, byte)| *pattern == b'.' || pattern == byte)
    }
}

/// What of a field is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldPart {
    /// All of it: the data of a control field, the subfields of a data field one by one.
    Whole,
    /// Some characters of a control field or the leader.
    Characters(PositionRange),
    /// An indicator, 1 or 2.
    Indicator(u8),
    /// Some subfields, in the order they occur in the record.
    Subfields(Vec<SubfieldSpec>),
    /// Its tag; only a [`FieldSpec`] selects it, whose field was found by a pattern of tags.
    Tag,
}

/// A subfield or a range of subfields (`$a`, `$a-d`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubfieldSpec {
    /// First code.
    pub first: u8,
    /// Last code, the same as the first without a range.
    pub last: u8,
    /// Which occurrences, counted per code.
    pub occurrences: Option<PositionRange>,
    /// Some characters of the value.
    pub characters: Option<PositionRange>,
    /// Conditions on each subfield, all required.
    pub conditions: Vec<SubSpec>,
}

/// Positions from `start` to `end`, both included, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionRange {
    /// First position.
    pub start: Position,
    /// Last position.
    pub end: Position,
}

/// A position from the front, or from the back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Counted from the front, 0 is the first.
    At(usize),
    /// The last (`#`).
    Last,
}

impl PositionRange {
    /// The range as `start..end` of something with `len` positions. `#-2` means the last three.
    pub fn resolve(&self, len: usize) -> std::ops::Range<usize> {
        if len == 0 {
            return 0..0;
        }
        let (start, end) = match (self.start, self.end) {
            (Position::Last, Position::At(back)) => (len.saturating_sub(back + 1), len - 1),
            (start, end) => (start.resolve(len), end.resolve(len)),
        };
        let end = (end + 1).min(len);
        start.min(end)..end
    }
}

impl Position {
    fn resolve(self, len: usize) -> usize {
        match self {
            Position::At(position) => position,
            Position::Last => len - 1,
        }
    }
}

/// Tests of which one must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubSpec(pub Vec<SubTermSet>);

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubTermSet {
    /// Left side; nothing means the value at hand.
    pub left: Option<SubTerm>,
    /// How to compare.
    pub operator: SpecOperator,
    /// Right side.
    pub right: SubTerm,
}

/// A side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubTerm {
    /// Text as written.
    Literal(String),
    /// A part of the field at hand.
    Abbreviated(FieldPart),
    /// Another spec on the same record.
    Spec(Box<MarcSpec>),
}

/// How two sides are compared. A comparison holds when it holds for any pair of values of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecOperator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `~`: the left contains the right.
    Includes,
    /// `!~`
    NotIncludes,
    /// `?`: the right exists.
    Exists,
    /// `!`: the right does not exist.
    Missing,
}

/// Where and why a text is not a MARCspec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at character {})", .at + 1)]
pub struct SpecError {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong there.
    pub message: String,
}

impl MarcSpec {
    /// Parses a spec.
    ///
    /// # Errors
    /// The first place where the text leaves the grammar.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut parser = SpecParser { text: text.as_bytes(), at: 0, depth: 0 };
        let spec = parser.spec()?;
        if parser.at < text.len() {
            return Err(parser.error("expected the end, `$`, `^`, `/`, `[` or `{`"));
        }
        Ok(spec)
    }
}

/// The tag of a field, in a [`FieldSpec`].
const TAG: &str = "tag";

impl FieldSpec {
    /// Parses a part of a field.
    ///
    /// # Errors
    /// The first place where the text leaves the grammar.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut parser = SpecParser { text: text.as_bytes(), at: 0, depth: 0 };
        let mut conditions = parser.conditions()?;
        let part = match text[parser.at..].starts_with(TAG) {
            true => {
                parser.at += TAG.len();
                FieldPart::Tag
            }
            false => parser.part(false)?,
        };
        conditions.extend(parser.conditions()?);
        if part == FieldPart::Whole || parser.at < text.len() {
            return Err(parser.error("expected a part of the field: `$a`, `^1` or `/0-3`, or its `tag`"));
        }
        Ok(Self { part, conditions })
    }
}

struct SpecParser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
}

impl SpecParser<'_> {
    fn error(&self, message: impl Into<String>) -> SpecError {
        SpecError { at: self.at, message: message.into() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn spec(&mut self) -> Result<MarcSpec, SpecError> {
        let tag = self.tag()?;
        let occurrences = self.bracketed_range()?;
        let mut conditions = self.conditions()?;
        let part = self.part(tag == TagPattern::LEADER)?;
        conditions.extend(self.conditions()?);
        Ok(MarcSpec { tag, occurrences, part, conditions })
    }

    fn tag(&mut self) -> Result<TagPattern, SpecError> {
        let mut tag = [0; 3];
        for slot in &mut tag {
            match self.peek() {
                Some(byte) if byte.is_ascii_alphanumeric() || byte == b'.' => *slot = byte,
                _ => return Err(self.error("a field tag has three characters, `.` stands for any (`1..`)")),
            }
            self.at += 1;
        }
        if tag == *b"1XX" || (tag[1..] == *b"XX" && tag[0].is_ascii_digit()) {
            self.at -= 3;
            return Err(self.error(format!("MARCspec's wildcard is a dot: write {}..", tag[0] as char)));
        }
        Ok(TagPattern(tag))
    }

    fn part(&mut self, leader: bool) -> Result<FieldPart, SpecError> {
        match self.peek() {
            Some(b'/') => {
                self.at += 1;
                Ok(FieldPart::Characters(self.range()?))
            }
            Some(b'^') => {
                self.at += 1;
                match self.peek() {
                    Some(digit @ (b'1' | b'2')) => {
                        self.at += 1;
                        Ok(FieldPart::Indicator(digit - b'0'))
                    }
                    _ => Err(self.error("an indicator is ^1 or ^2")),
                }
            }
            Some(b'$') if leader => Err(self.error("the leader has no subfields")),
            Some(b'$') => {
                let mut subfields = Vec::new();
                while self.peek() == Some(b'$') {
                    subfields.push(self.subfield()?);
                }
                Ok(FieldPart::Subfields(subfields))
            }
            _ => Ok(FieldPart::Whole),
        }
    }

    fn subfield(&mut self) -> Result<SubfieldSpec, SpecError> {
        self.at += 1;
        let first = self.code()?;
        let mut last = first;
        if self.peek() == Some(b'-') {
            self.at += 1;
            last = self.code()?;
            let same_kind = (first.is_ascii_digit() && last.is_ascii_digit()) || (first.is_ascii_lowercase() && last.is_ascii_lowercase());
            if !same_kind || last < first {
                return Err(self.error("a subfield range goes up between two letters or two digits ($a-d)"));
            }
        }
        let occurrences = self.bracketed_range()?;
        let characters = if self.eat(b'/') { Some(self.range()?) } else { None };
        Ok(SubfieldSpec { first, last, occurrences, characters, conditions: self.conditions()? })
    }

    fn code(&mut self) -> Result<u8, SpecError> {
        match self.peek() {
            Some(code) if code.is_ascii_graphic() && !matches!(code, b'$' | b'/' | b'[') => {
                self.at += 1;
                Ok(code.to_ascii_lowercase())
            }
            _ => Err(self.error("expected a subfield code after `$`")),
        }
    }

    fn bracketed_range(&mut self) -> Result<Option<PositionRange>, SpecError> {
        if !self.eat(b'[') {
            return Ok(None);
        }
        let range = self.range()?;
        if !self.eat(b']') {
            return Err(self.error("expected `]`"));
        }
        Ok(Some(range))
    }

    fn range(&mut self) -> Result<PositionRange, SpecError> {
        let start = self.position()?;
        let end = if self.eat(b'-') { self.position()? } else { start };
        if let (Position::At(a), Position::At(b)) = (start, end)
            && b < a
        {
            return Err(self.error("a range goes from the lower to the higher position"));
        }
        Ok(PositionRange { start, end })
    }

    fn position(&mut self) -> Result<Position, SpecError> {
        if self.eat(b'#') {
            return Ok(Position::Last);
        }
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        digits.parse().map(Position::At).map_err(|_| self.error("expected a position: digits, or # for the last"))
    }

    fn conditions(&mut self) -> Result<Vec<SubSpec>, SpecError> {
        let mut conditions = Vec::new();
        while self.eat(b'{') {
            self.depth += 1;
            if self.depth > 4 {
                return Err(self.error("conditions are nested deeper than 4 levels"));
            }
            let mut tests = vec![self.test()?];
            while self.eat(b'|') {
                tests.push(self.test()?);
            }
            if !self.eat(b'}') {
                return Err(self.error("expected `}` or `|`"));
            }
            self.depth -= 1;
            conditions.push(SubSpec(tests));
        }
        Ok(conditions)
    }

    fn test(&mut self) -> Result<SubTermSet, SpecError> {
        let left = match self.peek() {
            Some(b'=' | b'!' | b'~' | b'?') => None,
            _ => Some(self.operand()?),
        };
        let operator = match (self.peek(), self.text.get(self.at + 1)) {
            (Some(b'='), _) => SpecOperator::Equal,
            (Some(b'~'), _) => SpecOperator::Includes,
            (Some(b'?'), _) => SpecOperator::Exists,
            (Some(b'!'), Some(b'=')) => SpecOperator::NotEqual,
            (Some(b'!'), Some(b'~')) => SpecOperator::NotIncludes,
            (Some(b'!'), _) => SpecOperator::Missing,
            // `{$a}`: the part exists
            (Some(b'}' | b'|'), _) => {
                let Some(right) = left else { return Err(self.error("expected a condition")) };
                return Ok(SubTermSet { left: None, operator: SpecOperator::Exists, right });
            }
            _ => return Err(self.error("expected = != ~ !~ ? or !")),
        };
        self.at += if matches!(operator, SpecOperator::NotEqual | SpecOperator::NotIncludes) { 2 } else { 1 };
        Ok(SubTermSet { left, operator, right: self.operand()? })
    }

    fn operand(&mut self) -> Result<SubTerm, SpecError> {
        match self.peek() {
            Some(b'\\') => {
                self.at += 1;
                self.literal().map(SubTerm::Literal)
            }
            Some(b'$' | b'^' | b'/') => Ok(SubTerm::Abbreviated(self.part(false)?)),
            _ => self.spec().map(|spec| SubTerm::Spec(Box::new(spec))),
        }
    }

    fn literal(&mut self) -> Result<String, SpecError> {
        let mut bytes = Vec::new();
        loop {
            match self.peek() {
                None | Some(b'}' | b'|' | b'=' | b'~' | b'?' | b'!') => break,
                Some(b'\\') => {
                    self.at += 1;
                    let Some(escaped) = self.peek() else { return Err(self.error("a literal ends in a lone `\\`")) };
                    bytes.push(if escaped == b's' { b' ' } else { escaped });
                    self.at += 1;
                }
                Some(byte) => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        String::from_utf8(bytes).map_err(|_| self.error("a literal is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> MarcSpec {
        MarcSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn all_forms_of_the_standard_are_parsed() {
        assert_eq!(parse("LDR/06").part, FieldPart::Characters(PositionRange { start: Position::At(6), end: Position::At(6) }));
        assert_eq!(parse("008/11").tag, TagPattern(*b"008"));
        assert!(parse("1..$a").tag.matches(b"151"));
        assert_eq!(parse("245^2").part, FieldPart::Indicator(2));
        let FieldPart::Subfields(subfields) = parse("100$a-d$q$t").part else { panic!("subfields") };
        assert_eq!(subfields.len(), 3);
        assert_eq!((subfields[0].first, subfields[0].last), (b'a', b'd'));
        assert_eq!(parse("300[0-2]").occurrences, Some(PositionRange { start: Position::At(0), end: Position::At(2) }));
        assert_eq!(parse("007/#-2").part, FieldPart::Characters(PositionRange { start: Position::Last, end: Position::At(2) }));
    }

    #[test]
    fn ranges_count_from_either_end() {
        let range = |text: &str| match parse(text).part {
            FieldPart::Characters(range) => range.resolve(10),
            other => panic!("{other:?}"),
        };
        assert_eq!(range("007/0-3"), 0..4);
        assert_eq!(range("007/#"), 9..10);
        assert_eq!(range("007/#-2"), 7..10);
        assert_eq!(range("007/8-20"), 8..10);
        assert_eq!(range("007/20"), 10..10);
    }

    #[test]
    fn conditions_have_literals_parts_and_other_fields() {
        let spec = parse(r"999{^1=\f}{^2=\f}$s");
        assert_eq!(spec.conditions.len(), 2);
        assert_eq!(parse(r"020$c{$q=\paperback}").part, {
            let mut expected = parse("020$c").part;
            if let FieldPart::Subfields(subfields) = &mut expected {
                subfields[0].conditions = vec![SubSpec(vec![SubTermSet {
                    left: Some(SubTerm::Abbreviated(parse("020$q").part)),
                    operator: SpecOperator::Equal,
                    right: SubTerm::Literal("paperback".into()),
                }])];
            }
            expected
        });
        assert_eq!(parse(r"245$a{008/0-1=\a\sb|!880}").tag, TagPattern(*b"245"));
    }

    #[test]
    fn a_part_of_a_field_has_no_tag() {
        let part = |text: &str| FieldSpec::parse(text).map(|spec| spec.part);
        assert_eq!(part("$a-c$e"), Ok(parse("700$a-c$e").part));
        assert_eq!(part("^1"), Ok(FieldPart::Indicator(1)));
        assert_eq!(part("/0-3"), Ok(parse("008/0-3").part));
        assert_eq!(FieldSpec::parse(r"{^1=\f}$s").map(|spec| spec.conditions.len()), Ok(1));
        assert_eq!(part("tag"), Ok(FieldPart::Tag));
        assert_eq!(FieldSpec::parse(r"tag{$2=\fast}").map(|spec| spec.conditions.len()), Ok(1));
        for (text, at) in [("", 0), ("945$a", 0), ("$a ", 2), ("^3", 1), ("tags", 3), ("tag$a", 3)] {
            assert_eq!(FieldSpec::parse(text).expect_err(text).at, at, "{text}");
        }
    }

    #[test]
    fn errors_point_at_the_character() {
        for (text, at) in [("1XX$a", 0), ("24", 2), ("245$", 4), ("245^3", 4), ("245$d-a", 7), ("245$a{", 6), ("LDR$a", 3)] {
            assert_eq!(MarcSpec::parse(text).expect_err(text).at, at, "{text}");
        }
    }
}
