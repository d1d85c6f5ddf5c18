//! XPath 1.0 location paths: the part of the language that fields use.
//!
//! ```text
//! path      = [ "/" | "//" ] step ( ("/" | "//") step )* | "."
//! step      = [ "@" ] ( name | prefix ":" name | "*" ) predicate* | "." | ".." | "text()"
//! predicate = "[" ( number | [ "not(" ] test [ ")" ] ) "]"
//! test      = ( "@" name | name | "." ) [ ("=" | "!=") literal ]
//! ```
//! An unprefixed name means no namespace, as the standard says. Functions and operators are refused with a plain sentence.

/// A parsed location path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XPath {
    /// Whether it starts at the document's root instead of at the record's element.
    pub absolute: bool,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Direction.
    pub axis: Axis,
    /// Which nodes.
    pub test: NodeTest,
    /// Conditions, applied in order.
    pub predicates: Vec<Predicate>,
}

/// Directions a step can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Children.
    Child,
    /// The node and everything below it (`//`); the step that follows applies to each.
    DescendantOrSelf,
    /// Attributes (`@`).
    Attribute,
    /// The node itself (`.`).
    SelfNode,
    /// The parent (`..`).
    Parent,
}

/// Which nodes of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeTest {
    /// Elements (or attributes) of this name.
    Name {
        /// Namespace prefix, bound by the source.
        prefix: Option<String>,
        /// Local name.
        local: String,
    },
    /// Any element (or attribute).
    Any,
    /// Text nodes.
    Text,
    /// Any node.
    Node,
}

/// A condition in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Predicate {
    /// The position among the nodes selected so far, from 1.
    Position(usize),
    /// A test on an attribute, a child or the node itself.
    Test {
        /// `not(...)`.
        negated: bool,
        /// What is looked at.
        axis: Axis,
        /// Its name; ignored for the node itself.
        name: NodeTest,
        /// What it is compared with; without it, existence is tested. True for `=`.
        compare: Option<(bool, String)>,
    },
}

/// Where and why a text is not a supported path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XPathError {
    /// Byte of the text.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl XPath {
    /// Parses a path.
    ///
    /// # Errors
    /// The first place where the text is not a supported location path.
    pub fn parse(text: &str) -> Result<Self, XPathError> {
        let mut parser = Parser { text, at: 0 };
        let path = parser.path()?;
        parser.blanks();
        if parser.at < text.len() {
            return Err(parser.error("expected `/`, `[` or the end; functions and operators are not supported in field paths"));
        }
        Ok(path)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn error(&self, message: impl Into<String>) -> XPathError {
        XPathError { at: self.at, message: message.into() }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.blanks();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn path(&mut self) -> Result<XPath, XPathError> {
        let mut steps = Vec::new();
        let absolute = self.rest().starts_with('/');
        if self.eat("//") {
            steps.push(descend());
        } else if self.eat("/") && self.rest().is_empty() {
            return Ok(XPath { absolute, steps });
        }
        loop {
            steps.push(self.step()?);
            if self.eat("//") {
                steps.push(descend());
            } else if !self.eat("/") {
                return Ok(XPath { absolute, steps });
            }
        }
    }

    fn step(&mut self) -> Result<Step, XPathError> {
        if self.eat("..") {
            return Ok(Step { axis: Axis::Parent, test: NodeTest::Node, predicates: Vec::new() });
        }
        if self.eat(".") {
            return Ok(Step { axis: Axis::SelfNode, test: NodeTest::Node, predicates: Vec::new() });
        }
        let axis = if self.eat("@") { Axis::Attribute } else { Axis::Child };
        let test = self.node_test()?;
        let mut predicates = Vec::new();
        while self.eat("[") {
            predicates.push(self.predicate()?);
            if !self.eat("]") {
                return Err(self.error("expected `]`; only positions, names and comparisons with a literal are supported here"));
            }
        }
        Ok(Step { axis, test, predicates })
    }

    fn node_test(&mut self) -> Result<NodeTest, XPathError> {
        if self.eat("text()") {
            return Ok(NodeTest::Text);
        }
        if self.eat("*") {
            return Ok(NodeTest::Any);
        }
        let first = self.name()?;
        if self.rest().starts_with("::") {
            return Err(self.error("axes by name are not supported in field paths; use / // @ . .."));
        }
        if self.rest().starts_with('(') {
            return Err(self.error(format!("`{first}()` is not supported in field paths")));
        }
        if self.rest().starts_with(':') {
            self.at += 1;
            return Ok(NodeTest::Name { prefix: Some(first), local: self.name()? });
        }
        Ok(NodeTest::Name { prefix: None, local: first })
    }

    fn name(&mut self) -> Result<String, XPathError> {
        self.blanks();
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|(index, c)| !(c.is_alphabetic() || *c == '_' || (*index > 0 && (c.is_alphanumeric() || matches!(c, '-' | '.')))))
            .map_or(rest.len(), |(index, _)| index);
        if end == 0 {
            return Err(self.error("expected an element or attribute name, `*`, `.`, `..`, `@` or `text()`"));
        }
        let name = rest[..end].to_owned();
        self.at += end;
        Ok(name)
    }

    fn predicate(&mut self) -> Result<Predicate, XPathError> {
        self.blanks();
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let position = self.rest()[..digits].parse().ok().filter(|position| *position > 0);
            let position = position.ok_or_else(|| self.error("positions count from 1"))?;
            self.at += digits;
            return Ok(Predicate::Position(position));
        }
        let negated = self.eat("not(");
        let (axis, name) = if self.eat(".") {
            (Axis::SelfNode, NodeTest::Node)
        } else {
            let axis = if self.eat("@") { Axis::Attribute } else { Axis::Child };
            (axis, self.node_test()?)
        };
        let compare = if self.eat("!=") {
            Some((false, self.literal()?))
        } else if self.eat("=") {
            Some((true, self.literal()?))
        } else {
            None
        };
        if negated && !self.eat(")") {
            return Err(self.error("expected `)`"));
        }
        Ok(Predicate::Test { negated, axis, name, compare })
    }

    fn literal(&mut self) -> Result<String, XPathError> {
        self.blanks();
        let quote = self.rest().chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or_else(|| self.error("expected a literal in quotes"))?;
        let Some(length) = self.rest()[1..].find(quote) else { return Err(self.error("the literal is not closed")) };
        let literal = self.rest()[1..=length].to_owned();
        self.at += length + 2;
        Ok(literal)
    }
}

fn descend() -> Step {
    Step { axis: Axis::DescendantOrSelf, test: NodeTest::Node, predicates: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_paths_are_read() {
        let path = XPath::parse("//node[@class='network']/lldp:id[1]/@type").expect("valid");
        assert!(path.absolute);
        assert_eq!(path.steps.len(), 4);
        assert_eq!(path.steps[3].axis, Axis::Attribute);
        assert!(XPath::parse("node[not(@disabled='true')]").is_ok());
        assert!(XPath::parse(".").is_ok());
    }

    #[test]
    fn functions_are_refused_with_a_plain_sentence() {
        let error = XPath::parse("count(//node)").expect_err("a function");
        assert_eq!(error.message, "`count()` is not supported in field paths");
    }
}
