//! Text to [`Query`]; every part knows its place in the text.

use crate::MAX_QUERY;
use std::ops::Range;
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_store::plan::{FUNCTIONS, Function};

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What is asked.
    pub lookup: Lookup,
    /// How the answer is shaped.
    pub stages: Vec<Stage>,
}

/// The part before the first `|`.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// The collection.
    pub collection: Path,
    /// All must hold.
    pub conditions: Vec<Comparison>,
}

/// A name with its place. Of `a.b` the text is `a.b`.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// As written.
    pub text: String,
    /// Bytes of the query.
    pub span: Range<usize>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What is compared.
    pub path: Path,
    /// How.
    pub operator: Operator,
    /// With what.
    pub values: Vec<ValueText>,
    /// Where the whole condition stands.
    pub span: Range<usize>,
}

/// Operators of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `in [..]`
    In,
    /// `between [a, b]`
    Between,
    /// `last DURATION`
    Last,
}

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueText {
    /// The text between wildcards: `a*b` is `["a", "b"]`.
    pub pieces: Vec<String>,
    /// Bytes of the query.
    pub span: Range<usize>,
}

impl ValueText {
    /// The text, if there is no wildcard in it.
    pub fn literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

/// A part between two `|`.
#[derive(Debug, Clone, PartialEq)]
pub enum Stage {
    /// Conditions and columns.
    Grep(Vec<Item>),
    /// Order: path and whether the largest comes first.
    Sort(Vec<(Path, bool)>),
    /// Equal rows once.
    Unique,
    /// Functions over all rows.
    Aggregates(Vec<(Function, Path)>),
}

/// An item of `grep`.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A column to show.
    Column(Path),
    /// A condition.
    Condition(Comparison),
}

/// Parses a query.
///
/// # Errors
/// The first place where the text leaves the grammar, and what was expected there.
pub fn parse(text: &str) -> Result<Query, Diagnostic> {
    if text.len() > MAX_QUERY {
        return Err(Diagnostic::new(0..0, format!("a query has at most {MAX_QUERY} bytes, this one has {}", text.len())));
    }
    let mut parser = Parser { text, at: 0 };
    let lookup = parser.lookup()?;
    let mut stages: Vec<Stage> = Vec::new();
    while parser.eat("|") {
        if matches!(stages.last(), Some(Stage::Aggregates(_))) {
            return Err(parser.error("nothing can follow aggregates"));
        }
        stages.push(parser.stage()?);
    }
    if !parser.at_end() {
        return Err(parser.error("expected a condition, `|` or the end"));
    }
    Ok(Query { lookup, stages })
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

const STAGES: [&str; 9] = ["grep", "sort", "unique", "sum", "count", "min", "max", "avg", "median"];

impl Parser<'_> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn at_end(&mut self) -> bool {
        self.blanks();
        self.rest().is_empty()
    }

    fn error(&self, message: impl Into<String>) -> Diagnostic {
        let end = self.rest().chars().next().map_or(self.at, |next| self.at + next.len_utf8());
        Diagnostic::new(self.at..end, message)
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn lookup(&mut self) -> Result<Lookup, Diagnostic> {
        if self.at_end() {
            return Err(self.error("a query begins with a collection").help("for example: authority heading=Smith*"));
        }
        let collection = self.path("a collection")?;
        let mut conditions = Vec::new();
        self.blanks();
        if let Some(operator) = self.operator() {
            conditions.push(self.comparison(collection.clone(), operator)?);
        }
        loop {
            self.eat(",");
            if self.at_end() || self.rest().starts_with('|') {
                return Ok(Lookup { collection, conditions });
            }
            let path = self.path("a field")?;
            let Some(operator) = self.operator() else {
                return Err(self.error(format!("expected a comparison after `{}`: = != < <= > >= in between last", path.text)));
            };
            conditions.push(self.comparison(path, operator)?);
        }
    }

    fn path(&mut self, what: &str) -> Result<Path, Diagnostic> {
        self.blanks();
        let length = self.rest().bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')).count();
        if length == 0 {
            return Err(self.error(format!("expected {what}")));
        }
        let span = self.at..self.at + length;
        self.at += length;
        Ok(Path { text: self.text[span.clone()].to_owned(), span })
    }

    fn operator(&mut self) -> Option<Operator> {
        self.blanks();
        let symbols = [
            ("!=", Operator::NotEqual),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("=", Operator::Equal),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        if let Some((symbol, operator)) = symbols.into_iter().find(|(symbol, _)| self.rest().starts_with(symbol)) {
            self.at += symbol.len();
            return Some(operator);
        }
        let words = [("in", Operator::In), ("between", Operator::Between), ("last", Operator::Last)];
        let length = self.rest().bytes().take_while(u8::is_ascii_alphanumeric).count();
        let word = &self.rest()[..length];
        let operator = words.into_iter().find(|(known, _)| *known == word).map(|(_, operator)| operator)?;
        self.at += length;
        Some(operator)
    }

    fn comparison(&mut self, path: Path, operator: Operator) -> Result<Comparison, Diagnostic> {
        let start = path.span.start;
        let values = match operator {
            Operator::In => self.list()?,
            Operator::Between => {
                let at = self.at;
                let values = self.list()?;
                if values.len() != 2 {
                    return Err(Diagnostic::new(at..self.at, "`between` takes two values: between [1, 5]"));
                }
                values
            }
            _ => {
                self.blanks();
                if self.rest().starts_with('[') {
                    return Err(self.error("expected one value").help("`in` takes a list"));
                }
                vec![self.value()?]
            }
        };
        Ok(Comparison { path, operator, values, span: start..self.at })
    }

    fn list(&mut self) -> Result<Vec<ValueText>, Diagnostic> {
        if !self.eat("[") {
            return Err(self.error("expected a list in brackets: [a, b]"));
        }
        let mut values = vec![self.value()?];
        while self.eat(",") {
            values.push(self.value()?);
        }
        if !self.eat("]") {
            return Err(self.error("expected `,` or `]`"));
        }
        Ok(values)
    }

    fn value(&mut self) -> Result<ValueText, Diagnostic> {
        self.blanks();
        let start = self.at;
        match self.rest().chars().next() {
            Some('\'') => {
                let Some(length) = self.text[start + 1..].find('\'') else { return Err(self.error("this quote is never closed")) };
                self.at = start + length + 2;
                Ok(ValueText { pieces: vec![self.text[start + 1..start + 1 + length].to_owned()], span: start..self.at })
            }
            Some('"') => self.double_quoted(start),
            _ => {
                let ends = |character: char| character.is_whitespace() || matches!(character, ',' | '|' | '[' | ']' | '(' | ')' | '=' | '<' | '>' | '!' | '"' | '\'');
                let length = self.rest().find(ends).unwrap_or(self.rest().len());
                if length == 0 {
                    return Err(self.error("expected a value").help("a value with blanks or any of , | [ ] ( ) = < > ! needs quotes"));
                }
                self.at += length;
                let pieces = self.text[start..self.at].split('*').map(str::to_owned).collect();
                Ok(ValueText { pieces, span: start..self.at })
            }
        }
    }

    fn double_quoted(&mut self, start: usize) -> Result<ValueText, Diagnostic> {
        let mut pieces = vec![String::new()];
        let mut characters = self.text[start + 1..].char_indices();
        while let Some((offset, character)) = characters.next() {
            match character {
                '"' => {
                    self.at = start + 1 + offset + 1;
                    return Ok(ValueText { pieces, span: start..self.at });
                }
                '*' => pieces.push(String::new()),
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\' | '*'))) => push(&mut pieces, escaped),
                    other => {
                        push(&mut pieces, '\\');
                        if let Some((_, other)) = other {
                            push(&mut pieces, other);
                        }
                    }
                },
                other => push(&mut pieces, other),
            }
        }
        Err(self.error("this quote is never closed"))
    }

    fn stage(&mut self) -> Result<Stage, Diagnostic> {
        self.blanks();
        let name = self.path("a stage: grep, sort, unique, or an aggregate such as count(...)")?;
        match name.text.as_str() {
            "grep" => {
                let mut items = Vec::new();
                loop {
                    let path = self.path("a field")?;
                    items.push(match self.operator() {
                        Some(operator) => Item::Condition(self.comparison(path, operator)?),
                        None => Item::Column(path),
                    });
                    if !self.eat(",") {
                        return Ok(Stage::Grep(items));
                    }
                }
            }
            "sort" => {
                let mut order = Vec::new();
                loop {
                    let path = self.path("a field")?;
                    let descending = self.rest().starts_with('-');
                    self.at += usize::from(descending);
                    order.push((path, descending));
                    if !self.eat(",") {
                        return Ok(Stage::Sort(order));
                    }
                }
            }
            "unique" => Ok(Stage::Unique),
            _ => self.aggregates(name),
        }
    }

    fn aggregates(&mut self, first: Path) -> Result<Stage, Diagnostic> {
        let mut aggregates = Vec::new();
        let mut name = first;
        loop {
            let function = FUNCTIONS.iter().find(|(_, known)| *known == name.text).map(|(function, _)| *function);
            let Some(function) = function else {
                let problem = Diagnostic::new(name.span, format!("`{}` is not a stage", name.text));
                return Err(match did_you_mean(&name.text, STAGES) {
                    Some(meant) => problem.help(format!("did you mean `{meant}`?")),
                    None => problem.help(format!("stages are {}", STAGES.join(", "))),
                });
            };
            if !self.eat("(") {
                return Err(self.error(format!("expected `(`: {}(field)", name.text)));
            }
            let path = self.path("a field")?;
            if !self.eat(")") {
                return Err(self.error("expected `)`"));
            }
            aggregates.push((function, path));
            if !self.eat(",") {
                return Ok(Stage::Aggregates(aggregates));
            }
            name = self.path("an aggregate")?;
        }
    }
}

fn push(pieces: &mut [String], character: char) {
    if let Some(last) = pieces.last_mut() {
        last.push(character);
    }
}
