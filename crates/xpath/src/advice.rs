//! Warns of expressions that probably do not mean what they say.

use crate::expression::{Axis, CoreFunction, Expr, LocationPath, NodeTest, PathStart, ResultType, Step, XPath, XPathOperator};
use crate::name::ExpandedName;

/// A sentence of advice.
pub type Lint = String;

/// Returns advice on an expression that decides whether a document is of a kind: parts that can never be true, that are always true, or that read
/// less than they seem to.
pub fn advise(xpath: &XPath) -> Vec<Lint> {
    let mut linter = Linter { names: &xpath.names, advice: Vec::new() };
    if reads_nothing(&xpath.expression) {
        linter.warn("it does not depend on the document, so it is the same for all records".to_owned());
    }
    if let Expr::Path(path) = &xpath.expression
        && let Some(name) = linter.word(path)
        && matches!(name, "true" | "false")
    {
        linter.warn(format!("`{name}` means elements of this name; the value is written {name}()"));
    }
    linter.expression(&xpath.expression);
    linter.advice
}

struct Linter<'x> {
    names: &'x [ExpandedName],
    advice: Vec<Lint>,
}

impl<'x> Linter<'x> {
    fn warn(&mut self, advice: Lint) {
        if !self.advice.contains(&advice) {
            self.advice.push(advice);
        }
    }

    fn expression(&mut self, expression: &'x Expr) {
        match expression {
            Expr::Literal(_) | Expr::Number(_) => {}
            Expr::Negate(inner) => self.expression(inner),
            Expr::Call(function, arguments) => {
                if matches!(function, CoreFunction::Contains | CoreFunction::StartsWith)
                    && let Some(Expr::Path(path)) = arguments.first()
                    && finds_many(path)
                {
                    let name = function.name();
                    self.warn(format!("`{name}` looks at the first node of many; `…[{name}(., …)]` looks at each"));
                }
                arguments.iter().for_each(|argument| self.expression(argument));
            }
            Expr::Binary(operator, sides) => {
                if operator.compares() {
                    self.compared(&sides.0, &sides.1);
                    self.compared(&sides.1, &sides.0);
                }
                if let (XPathOperator::NotEqual, Expr::Path(path), true) = (operator, &sides.0, sides.1.kind() != ResultType::Nodes)
                    && finds_many(path)
                {
                    self.warn("`!=` holds if any node differs; `not(… = …)` holds if none is equal".to_owned());
                }
                self.expression(&sides.0);
                self.expression(&sides.1);
            }
            Expr::Path(path) => self.path(path),
        }
    }

    /// Warns of a name in place of a quoted text.
    fn compared(&mut self, side: &Expr, other: &Expr) {
        let Expr::Path(path) = side else { return };
        let Some(name) = self.word(path).map(str::to_owned) else { return };
        let other_is_data = match other {
            Expr::Path(path) => path.steps.last().is_some_and(|step| step.axis == Axis::Attribute || step.test == NodeTest::Text),
            _ => false,
        };
        if other_is_data {
            self.warn(format!("`{name}` without quotes means a child element of this name; did you mean '{name}'?"));
        }
    }

    fn path(&mut self, path: &'x LocationPath) {
        if let PathStart::Filtered(nodes, conditions) = &path.start {
            self.expression(nodes);
            conditions.iter().for_each(|condition| self.expression(&condition.expression));
        }
        let mut previous: Option<&Step> = None;
        for step in &path.steps {
            if let Some(name) = self.name_of(step)
                && name == "not"
                && path.steps.len() > 1
                && path.start == PathStart::ContextNode
            {
                self.warn("`not` means elements of this name here; the function is written not(…)".to_owned());
            }
            if let Some(previous) = previous {
                let is_leaf = previous.axis == Axis::Attribute || matches!(previous.test, NodeTest::Text | NodeTest::Comment);
                if is_leaf && matches!(step.axis, Axis::Child | Axis::Descendant | Axis::Attribute) {
                    self.warn("attributes and text have nothing below them: it never holds".to_owned());
                }
            }
            step.conditions.iter().for_each(|condition| self.expression(&condition.expression));
            previous = Some(step);
        }
    }

    fn name_of(&self, step: &Step) -> Option<&'x str> {
        match step.test {
            NodeTest::Name(name) => Some(&self.names[name].local),
            _ => None,
        }
    }

    /// The name, if a path consists of nothing else.
    fn word(&self, path: &LocationPath) -> Option<&'x str> {
        match (path.steps.as_slice(), &path.start) {
            ([step], PathStart::ContextNode) if step.axis == Axis::Child && step.conditions.is_empty() => self.name_of(step),
            _ => None,
        }
    }
}

fn finds_many(path: &LocationPath) -> bool {
    path.steps.iter().any(|step| matches!(step.axis, Axis::Descendant | Axis::DescendantOrSelf | Axis::Following | Axis::Preceding))
}

fn reads_nothing(expression: &Expr) -> bool {
    match expression {
        Expr::Path(_) => false,
        Expr::Literal(_) | Expr::Number(_) => true,
        Expr::Negate(inner) => reads_nothing(inner),
        Expr::Binary(_, sides) => reads_nothing(&sides.0) && reads_nothing(&sides.1),
        Expr::Call(function, arguments) => {
            use CoreFunction::{Id, Lang, LocalName, Name, NamespaceUri, NormalizeSpace, Number, String, StringLength};
            let reads_context_node = matches!(function, LocalName | Name | NamespaceUri | NormalizeSpace | Number | String | StringLength);
            let reads = matches!(function, Id | Lang) || (reads_context_node && arguments.is_empty());
            !reads && arguments.iter().all(reads_nothing)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(text: &str) -> Vec<Lint> {
        let xpath = XPath::parse(text, &[]).unwrap_or_else(|error| panic!("{text}: {}", error.message));
        advise(&xpath)
    }

    #[test]
    fn expressions_that_are_probably_mistakes_are_reported() {
        for (text, expected) in [
            ("//node[@id=network]", "did you mean 'network'?"),
            ("contains(//node[@id=network]/vendor, 'Intel')", "did you mean 'network'?"),
            ("true", "written true()"),
            ("//a and not //b", "written not(…)"),
            ("1 = 1", "the same for all"),
            ("//@id/x", "never holds"),
            ("contains(//vendor, 'NVIDIA')", "looks at the first node"),
            ("//vendor != 'NVIDIA'", "if any node differs"),
        ] {
            let advice = advice(text);
            assert!(advice.iter().any(|advice| advice.contains(expected)), "{text}: {advice:?}");
        }
    }

    #[test]
    fn usual_expressions_give_no_advice() {
        for text in ["//node[@id='network']", "not(//a = 'b')", "count(//node) > 4", "//vendor[contains(., 'x')]", "//a[b = c]", "true()", "//a[2]"] {
            let expected: &[&str] = if text == "true()" { &["it does not depend on the document, so it is the same for all records"] } else { &[] };
            assert_eq!(advice(text), expected, "{text}");
        }
    }
}
