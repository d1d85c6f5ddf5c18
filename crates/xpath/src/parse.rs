//! Parses expressions, by the grammar of the standard.

use crate::expression::{
    AXES, Axis, CoreFunction, CoreSignature, Expr, FUNCTIONS, LocationPath, NodeTest, PathStart, Predicate, ResultType, Step, XPath, XPathOperator,
};
use crate::name::ExpandedName;

/// Maximum length of an expression, in bytes.
pub const MAX_BYTES: usize = 1 << 16;
/// Maximum nesting of parentheses and brackets.
const MAX_DEPTH: usize = 64;

/// The reason why a text is not an expression, with its position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} (at byte {at})")]
pub struct XPathError {
    /// Position in the text, in bytes.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl XPath {
    /// Parses an expression; `namespaces` are the known prefixes and their URIs, in addition to `xml`. A name without a prefix is in no namespace.
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str, namespaces: &[(String, String)]) -> Result<Self, XPathError> {
        parse(text, namespaces)
    }
}

fn parse(text: &str, namespaces: &[(String, String)]) -> Result<XPath, XPathError> {
    let mut parser = XPathParser { text, at: 0, depth: 0, brackets: 0, names: Vec::new(), namespaces };
    if text.len() > MAX_BYTES {
        return Err(parser.error(format!("an expression has at most {MAX_BYTES} bytes")));
    }
    let expression = parser.expression()?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.error("expected an operator or the end"));
    }
    Ok(XPath { expression, names: parser.names })
}

struct XPathParser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    brackets: usize,
    names: Vec<ExpandedName>,
    namespaces: &'a [(String, String)],
}

type Parsed<T> = Result<T, XPathError>;

/// Operators by precedence, lowest first; those of one line have the same precedence.
const LEVELS: [&[(&str, XPathOperator)]; 6] = [
    &[("or", XPathOperator::Or)],
    &[("and", XPathOperator::And)],
    &[("=", XPathOperator::Equal), ("!=", XPathOperator::NotEqual)],
    &[("<=", XPathOperator::LessOrEqual), ("<", XPathOperator::Less), (">=", XPathOperator::GreaterOrEqual), (">", XPathOperator::Greater)],
    &[("+", XPathOperator::Add), ("-", XPathOperator::Subtract)],
    &[("*", XPathOperator::Multiply), ("div", XPathOperator::Divide), ("mod", XPathOperator::Modulo)],
];

impl<'a> XPathParser<'a> {
    fn error(&self, message: impl Into<String>) -> XPathError {
        error_at(self.at, message)
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Whether this token, which is not a name, comes next.
    fn sees(&mut self, token: &str) -> bool {
        self.blanks();
        self.rest().starts_with(token)
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.sees(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    /// Reads an operator; one that is a name must end where the name does.
    fn operator(&mut self, level: &[(&str, XPathOperator)]) -> Option<XPathOperator> {
        self.blanks();
        let rest = self.rest();
        let (token, operator) = level.iter().find(|(token, _)| rest.starts_with(token))?;
        if token.as_bytes()[0].is_ascii_alphabetic() && name_length(rest) != token.len() {
            return None;
        }
        self.at += token.len();
        Some(*operator)
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(format!("parentheses and brackets are nested deeper than {MAX_DEPTH} levels")));
        }
        let expression = self.binary(0)?;
        self.depth -= 1;
        Ok(expression)
    }

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut length = 0;
        while let Some(operator) = self.operator(operators) {
            let right = self.binary(level + 1)?;
            left = Expr::Binary(operator, Box::new((left, right)));
            // the tree of a chain is as deep as the chain is long
            length += 1;
            if length > 1_000 {
                return Err(self.error("more than 1000 operators in a row"));
            }
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let mut negative = false;
        let mut any = false;
        while self.eat("-") {
            (negative, any) = (!negative, true);
        }
        let expression = self.union()?;
        Ok(match (any, negative) {
            (false, _) => expression,
            (true, true) => Expr::Negate(Box::new(expression)),
            (true, false) => Expr::Negate(Box::new(Expr::Negate(Box::new(expression)))),
        })
    }

    fn union(&mut self) -> Parsed<Expr> {
        self.blanks();
        let mut operand_at = self.at;
        let mut left = self.path()?;
        let mut length = 0;
        while self.eat("|") {
            nodes(&left, operand_at, "`|`")?;
            self.blanks();
            operand_at = self.at;
            let right = self.path()?;
            nodes(&right, operand_at, "`|`")?;
            left = Expr::Binary(XPathOperator::Union, Box::new((left, right)));
            length += 1;
            if length > 1_000 {
                return Err(self.error("more than 1000 operators in a row"));
            }
        }
        Ok(left)
    }

    /// Parses a path, or a literal, a number, a call or an expression in parentheses.
    fn path(&mut self) -> Parsed<Expr> {
        self.blanks();
        let at = self.at;
        let Some(primary) = self.primary()? else { return Ok(Expr::Path(self.location()?)) };
        let conditions = self.conditions()?;
        let steps = if self.eat("//") {
            self.steps(vec![descend()])?
        } else if self.eat("/") {
            self.steps(Vec::new())?
        } else if conditions.is_empty() {
            return Ok(primary);
        } else {
            Vec::new()
        };
        nodes(&primary, at, "a path")?;
        Ok(Expr::Path(LocationPath { start: PathStart::Filtered(Box::new(primary), conditions), steps: shorten(steps) }))
    }

    /// Parses the start of a path that is not a step.
    fn primary(&mut self) -> Parsed<Option<Expr>> {
        let rest = self.rest();
        let at = self.at;
        match rest.bytes().next() {
            Some(b'(') => {
                self.at += 1;
                let inner = self.expression()?;
                self.close(")")?;
                Ok(Some(inner))
            }
            Some(b'"' | b'\'') => self.literal().map(|literal| Some(Expr::Literal(literal))),
            Some(b'0'..=b'9') => Ok(Some(self.number())),
            Some(b'.') if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => Ok(Some(self.number())),
            Some(b'$') => Err(self.error("variables are not bound here")),
            _ => {
                let length = qualified_length(rest);
                let name = &rest[..length];
                let is_call = length > 0 && rest[length..].trim_start_matches([' ', '\t', '\n', '\r']).starts_with('(');
                if !is_call || matches!(name, "comment" | "text" | "processing-instruction" | "node") {
                    return Ok(None);
                }
                self.at += length;
                self.call(name, at).map(Some)
            }
        }
    }

    fn call(&mut self, name: &str, at: usize) -> Parsed<Expr> {
        let Some(CoreSignature { function, arguments: allowed, of_nodes, .. }) = FUNCTIONS.iter().find(|signature| signature.name == name) else {
            let known = FUNCTIONS.iter().map(|signature| signature.name);
            let nearest = known.max_by(|a, b| strsim::jaro_winkler(name, a).total_cmp(&strsim::jaro_winkler(name, b)));
            let hint = nearest.filter(|nearest| strsim::jaro_winkler(name, nearest) > 0.85).map(|nearest| format!("; did you mean `{nearest}`?"));
            return Err(error_at(at, format!("XPath 1.0 has no function `{name}`{}", hint.unwrap_or_default())));
        };
        if self.brackets == 0 && matches!(function, CoreFunction::Position | CoreFunction::Last) {
            return Err(error_at(at, format!("`{name}()` means something in brackets only: there is one document")));
        }
        self.eat("(");
        let mut arguments = Vec::new();
        if !self.eat(")") {
            loop {
                self.blanks();
                let argument_at = self.at;
                let argument = self.expression()?;
                if *of_nodes {
                    nodes(&argument, argument_at, &format!("`{name}`"))?;
                }
                arguments.push(argument);
                if !self.eat(",") {
                    break;
                }
            }
            self.close(")")?;
        }
        if !allowed.contains(&arguments.len()) {
            let wanted = match (*allowed.start(), *allowed.end()) {
                (min, max) if min == max => format!("{min}"),
                (min, usize::MAX) => format!("{min} or more"),
                (min, max) => format!("{min} to {max}"),
            };
            return Err(error_at(at, format!("`{name}` takes {wanted} arguments, not {}", arguments.len())));
        }
        Ok(Expr::Call(*function, arguments))
    }

    fn close(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(self.error(format!("expected an operator or `{token}`"))) }
    }

    fn conditions(&mut self) -> Parsed<Vec<Predicate>> {
        let mut conditions = Vec::new();
        while self.eat("[") {
            self.brackets += 1;
            let expression = self.expression()?;
            self.brackets -= 1;
            self.close("]")?;
            let is_positional = expression.kind() == ResultType::Number || expression.reads_position();
            conditions.push(Predicate { expression, is_positional });
        }
        Ok(conditions)
    }

    fn location(&mut self) -> Parsed<LocationPath> {
        let (start, steps) = if self.eat("//") {
            (PathStart::Root, self.steps(vec![descend()])?)
        } else if self.eat("/") {
            self.blanks();
            let has_steps = self.rest().starts_with(['.', '@', '*']) || name_length(self.rest()) > 0;
            (PathStart::Root, if has_steps { self.steps(Vec::new())? } else { Vec::new() })
        } else {
            (PathStart::ContextNode, self.steps(Vec::new())?)
        };
        Ok(LocationPath { start, steps: shorten(steps) })
    }

    fn steps(&mut self, mut steps: Vec<Step>) -> Parsed<Vec<Step>> {
        loop {
            steps.push(self.step()?);
            if self.eat("//") {
                steps.push(descend());
            } else if !self.eat("/") {
                return Ok(steps);
            }
        }
    }

    fn step(&mut self) -> Parsed<Step> {
        self.blanks();
        for (token, axis) in [("..", Axis::Parent), (".", Axis::SelfNode)] {
            if self.eat(token) {
                return Ok(Step { axis, test: NodeTest::Node, conditions: Vec::new() });
            }
        }
        let axis = if self.eat("@") { Axis::Attribute } else { self.axis()? };
        let test = self.node_test()?;
        Ok(Step { axis, test, conditions: self.conditions()? })
    }

    fn axis(&mut self) -> Parsed<Axis> {
        let length = name_length(self.rest());
        let (name, tail) = self.rest().split_at(length);
        let tail = tail.trim_start_matches([' ', '\t', '\n', '\r']);
        if length == 0 || !tail.starts_with("::") {
            return Ok(Axis::Child);
        }
        let Some((_, axis)) = AXES.iter().find(|(known, _)| *known == name) else {
            return Err(self.error(format!("there is no axis `{name}`")));
        };
        self.at = self.text.len() - tail.len() + 2;
        Ok(*axis)
    }

    fn node_test(&mut self) -> Parsed<NodeTest> {
        if self.eat("*") {
            return Ok(NodeTest::Any);
        }
        let rest = self.rest();
        let at = self.at;
        let length = name_length(rest);
        if length == 0 {
            let what = if rest.starts_with(['\'', '"']) { "a step of a path is a name, not a text in quotes" } else { "expected a step of a path" };
            return Err(self.error(what));
        }
        self.at += length;
        let name = &rest[..length];
        if self.rest().starts_with(':') && !self.rest().starts_with("::") {
            self.at += 1;
            let uri = self.uri_of(name, at)?;
            if self.rest().starts_with('*') {
                self.at += 1;
                return Ok(NodeTest::AnyOf(uri));
            }
            let length = name_length(self.rest());
            if length == 0 {
                return Err(self.error("expected a name or `*` after the prefix"));
            }
            let name = ExpandedName::new(&uri, &self.rest()[..length]);
            self.at += length;
            return Ok(self.name(name));
        }
        if self.sees("(") {
            return self.type_test(name, at);
        }
        Ok(self.name(ExpandedName::new("", name)))
    }

    fn type_test(&mut self, name: &str, at: usize) -> Parsed<NodeTest> {
        self.eat("(");
        let test = match name {
            "text" => NodeTest::Text,
            "comment" => NodeTest::Comment,
            "node" => NodeTest::Node,
            "processing-instruction" if self.sees(")") => NodeTest::Instruction(None),
            "processing-instruction" => {
                self.blanks();
                NodeTest::Instruction(Some(self.literal()?))
            }
            _ => return Err(error_at(at, format!("`{name}()` cannot be a step of a path"))),
        };
        self.close(")")?;
        Ok(test)
    }

    fn uri_of(&self, prefix: &str, at: usize) -> Parsed<Box<str>> {
        let bound = self.namespaces.iter().find(|(known, _)| known == prefix).map(|(_, uri)| uri.as_str());
        match bound.or((prefix == "xml").then_some("http://www.w3.org/XML/1998/namespace")) {
            Some(uri) => Ok(uri.into()),
            None => {
                let known: Vec<&str> = self.namespaces.iter().map(|(prefix, _)| prefix.as_str()).collect();
                let hint = if known.is_empty() { String::new() } else { format!("; bound are {}", known.join(", ")) };
                Err(error_at(at, format!("the prefix `{prefix}` is not bound{hint}")))
            }
        }
    }

    fn name(&mut self, name: ExpandedName) -> NodeTest {
        let known = self.names.iter().position(|known| *known == name);
        NodeTest::Name(known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        }))
    }

    fn literal(&mut self) -> Parsed<Box<str>> {
        let Some(quote) = self.rest().chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.error("expected a text in quotes"));
        };
        let Some(length) = self.rest()[1..].find(quote) else { return Err(self.error("the quote is not closed")) };
        let literal = self.rest()[1..=length].into();
        self.at += length + 2;
        Ok(literal)
    }

    fn number(&mut self) -> Expr {
        let rest = self.rest();
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut length = digits(rest);
        if rest[length..].starts_with('.') {
            length += 1;
            length += digits(&rest[length..]);
        }
        self.at += length;
        Expr::Number(rest[..length].parse().unwrap_or(f64::NAN))
    }
}

fn error_at(at: usize, message: impl Into<String>) -> XPathError {
    XPathError { at, message: message.into() }
}

fn nodes(expression: &Expr, at: usize, what: &str) -> Parsed<()> {
    match expression.kind() {
        ResultType::Nodes => Ok(()),
        ResultType::Boolean => Err(error_at(at, format!("{what} needs a set of nodes, this is true or false"))),
        ResultType::Number => Err(error_at(at, format!("{what} needs a set of nodes, this is a number"))),
        ResultType::Text => Err(error_at(at, format!("{what} needs a set of nodes, this is text"))),
    }
}

/// Length in bytes of the name (without prefix) at the beginning of a text.
fn name_length(text: &str) -> usize {
    let is_first = |c: char| c.is_alphabetic() || c == '_';
    let is_name_character = |c: char| is_first(c) || c.is_numeric() || matches!(c, '-' | '.' | '\u{b7}') || ('\u{300}'..='\u{36f}').contains(&c);
    let mut length = 0;
    for (at, c) in text.char_indices() {
        if !(if at == 0 { is_first(c) } else { is_name_character(c) }) {
            break;
        }
        length = at + c.len_utf8();
    }
    length
}

/// Length in bytes of the name at the beginning of a text, including its prefix.
fn qualified_length(text: &str) -> usize {
    let first = name_length(text);
    match text[first..].strip_prefix(':').map(name_length) {
        Some(second) if first > 0 && second > 0 => first + 1 + second,
        _ => first,
    }
}

/// `//`.
fn descend() -> Step {
    Step { axis: Axis::DescendantOrSelf, test: NodeTest::Node, conditions: Vec::new() }
}

/// Replaces `//x` by one step, `descendant::x`, if no positions are used: those count among the children of one parent.
fn shorten(steps: Vec<Step>) -> Vec<Step> {
    let mut short: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        let is_plain = !step.conditions.iter().any(|condition| condition.is_positional);
        match short.last_mut() {
            Some(last) if *last == descend() && step.axis == Axis::Child && is_plain => *last = Step { axis: Axis::Descendant, ..step },
            _ => short.push(step),
        }
    }
    short
}
