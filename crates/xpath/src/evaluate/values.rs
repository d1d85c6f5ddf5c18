//! Evaluates expressions to booleans, numbers and texts, with the functions of the core library.

use super::{EvalContext, EvalResult, Evaluation, NodeRef, READ};
use crate::expression::{CoreFunction, Expr, ResultType as Gives, XPathOperator};
use crate::numbers::{round, show_number, to_number};
use crate::tree::{NodeKind, QualifiedName, Tree};
use std::borrow::Cow;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    pub(super) fn boolean(&self, expression: &Expr, here: &EvalContext) -> EvalResult<bool> {
        self.spend(1)?;
        Ok(match expression {
            Expr::Binary(XPathOperator::Or, sides) => self.boolean(&sides.0, here)? || self.boolean(&sides.1, here)?,
            Expr::Binary(XPathOperator::And, sides) => self.boolean(&sides.0, here)? && self.boolean(&sides.1, here)?,
            Expr::Binary(XPathOperator::Union, sides) => self.boolean(&sides.0, here)? || self.boolean(&sides.1, here)?,
            Expr::Binary(operator, sides) if operator.compares() => self.compare(*operator, &sides.0, &sides.1, here)?,
            Expr::Path(path) => self.exists(path, here)?,
            Expr::Call(function, arguments) => match function {
                CoreFunction::True => true,
                CoreFunction::False => false,
                CoreFunction::Not => !self.boolean(&arguments[0], here)?,
                CoreFunction::Boolean => self.boolean(&arguments[0], here)?,
                CoreFunction::Contains => {
                    let (text, part) = (self.string(&arguments[0], here)?, self.string(&arguments[1], here)?);
                    self.find(&text, &part)?.is_some()
                }
                CoreFunction::StartsWith => {
                    let (text, part) = (self.string(&arguments[0], here)?, self.string(&arguments[1], here)?);
                    self.pass_over(text.len().min(part.len()))?;
                    text.starts_with(&*part)
                }
                CoreFunction::Lang => self.lang(&self.string(&arguments[0], here)?, here.node)?,
                CoreFunction::Id => !self.nodes(expression, here)?.is_empty(),
                _ if expression.kind() == Gives::Number => truth(self.number(expression, here)?),
                _ => !self.string(expression, here)?.is_empty(),
            },
            Expr::Literal(text) => !text.is_empty(),
            Expr::Binary(..) | Expr::Negate(_) | Expr::Number(_) => truth(self.number(expression, here)?),
        })
    }

    pub(super) fn number(&self, expression: &Expr, here: &EvalContext) -> EvalResult<f64> {
        self.spend(1)?;
        Ok(match expression {
            Expr::Number(number) => *number,
            Expr::Negate(inner) => -self.number(inner, here)?,
            Expr::Binary(
                operator @ (XPathOperator::Add | XPathOperator::Subtract | XPathOperator::Multiply | XPathOperator::Divide | XPathOperator::Modulo),
                sides,
            ) => {
                let (left, right) = (self.number(&sides.0, here)?, self.number(&sides.1, here)?);
                match operator {
                    XPathOperator::Add => left + right,
                    XPathOperator::Subtract => left - right,
                    XPathOperator::Multiply => left * right,
                    XPathOperator::Divide => left / right,
                    _ => left % right,
                }
            }
            Expr::Call(function, arguments) => match function {
                CoreFunction::Position => here.position as f64,
                CoreFunction::Last => here.size as f64,
                CoreFunction::Count => self.nodes(&arguments[0], here)?.len() as f64,
                CoreFunction::Sum => {
                    let mut sum = 0.0;
                    for node in self.nodes(&arguments[0], here)? {
                        sum += self.number_of(&self.string_of(node)?)?;
                    }
                    sum
                }
                CoreFunction::Floor => self.number(&arguments[0], here)?.floor(),
                CoreFunction::Ceiling => self.number(&arguments[0], here)?.ceil(),
                CoreFunction::Round => round(self.number(&arguments[0], here)?),
                CoreFunction::StringLength => {
                    let text = self.argument(arguments, here)?;
                    self.pass_over(text.len())?;
                    text.chars().count() as f64
                }
                CoreFunction::Number => match arguments.first() {
                    Some(argument) => self.number(argument, here)?,
                    None => self.number_of(&self.string_of(here.node)?)?,
                },
                _ => self.other_number(expression, here)?,
            },
            _ => self.other_number(expression, here)?,
        })
    }

    fn other_number(&self, expression: &Expr, here: &EvalContext) -> EvalResult<f64> {
        Ok(match expression.kind() {
            Gives::Boolean => f64::from(u8::from(self.boolean(expression, here)?)),
            _ => self.number_of(&self.string(expression, here)?)?,
        })
    }

    pub(super) fn string(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        self.spend(1)?;
        let (function, arguments) = match expression {
            Expr::Call(function, arguments) => (function, arguments),
            Expr::Literal(text) => {
                self.pass_over(text.len())?;
                return Ok(Cow::Owned(text.to_string()));
            }
            _ => return self.converted(expression, here),
        };
        Ok(match function {
            CoreFunction::String => self.argument(arguments, here)?,
            CoreFunction::Concat => {
                let mut whole = String::new();
                for argument in arguments {
                    let part = self.string(argument, here)?;
                    self.pass_over(part.len())?;
                    whole.push_str(&part);
                }
                Cow::Owned(whole)
            }
            CoreFunction::NormalizeSpace => {
                let text = self.argument(arguments, here)?;
                self.read_through(text.len())?;
                let words: Vec<&str> = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect();
                Cow::Owned(words.join(" "))
            }
            CoreFunction::Substring => {
                let text = self.string(&arguments[0], here)?;
                let from = round(self.number(&arguments[1], here)?);
                let behind = match arguments.get(2) {
                    Some(length) => from + round(self.number(length, here)?),
                    None => f64::INFINITY,
                };
                self.read_through(text.len())?;
                let inside = |place: usize| place as f64 >= from && (place as f64) < behind;
                Cow::Owned(text.chars().enumerate().filter(|(place, _)| inside(place + 1)).map(|(_, c)| c).collect())
            }
            CoreFunction::SubstringBefore | CoreFunction::SubstringAfter => {
                let (text, mark) = (self.string(&arguments[0], here)?, self.string(&arguments[1], here)?);
                let found = match (self.find(&text, &mark)?, function) {
                    (Some(at), CoreFunction::SubstringBefore) => &text[..at],
                    (Some(at), _) => &text[at + mark.len()..],
                    (None, _) => "",
                };
                self.pass_over(found.len())?;
                Cow::Owned(found.to_owned())
            }
            CoreFunction::Translate => {
                let text = self.string(&arguments[0], here)?;
                let (from, to) = (self.string(&arguments[1], here)?, self.string(&arguments[2], here)?);
                // the replacement of a character is found by binary search
                let looks = 1 + u64::from(from.len().max(1).ilog2()) / 2;
                self.spend(looks * ((text.len() + from.len()) as u64 / READ))?;
                self.read_through(to.len())?;
                let mut becomes = to.chars().map(Some).chain(std::iter::repeat(None));
                let mut changes: Vec<(char, Option<char>)> = from.chars().map(|c| (c, becomes.next().flatten())).collect();
                // the first replacement of a character counts
                changes.sort_by_key(|(own, _)| *own);
                changes.dedup_by_key(|(own, _)| *own);
                let change = |c: char| changes.binary_search_by_key(&c, |(own, _)| *own).map_or(Some(c), |place| changes[place].1);
                Cow::Owned(text.chars().filter_map(change).collect())
            }
            CoreFunction::LocalName | CoreFunction::Name | CoreFunction::NamespaceUri => {
                let node = match arguments.first() {
                    Some(argument) => self.first(argument, here)?,
                    None => Some(here.node),
                };
                match node {
                    None => Cow::Borrowed(""),
                    Some(node) => self.name_of(node, *function)?,
                }
            }
            _ => self.converted(expression, here)?,
        })
    }

    /// Converts a value that is not text to text.
    fn converted(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        Ok(match expression.kind() {
            Gives::Nodes => match self.first(expression, here)? {
                Some(node) => self.string_of(node)?,
                None => Cow::Borrowed(""),
            },
            Gives::Boolean => Cow::Borrowed(if self.boolean(expression, here)? { "true" } else { "false" }),
            Gives::Number | Gives::Text => {
                let text = show_number(self.number(expression, here)?);
                self.read_through(text.len())?;
                Cow::Owned(text)
            }
        })
    }

    /// The only argument as text, or the context node's text if there is none.
    fn argument(&self, arguments: &[Expr], here: &EvalContext) -> EvalResult<Cow<'t, str>> {
        match arguments.first() {
            Some(argument) => self.string(argument, here),
            None => self.string_of(here.node),
        }
    }

    fn name_of(&self, node: NodeRef, function: CoreFunction) -> EvalResult<Cow<'t, str>> {
        if node.is_namespace() {
            let prefix = self.namespace(node)?.0;
            return Ok(Cow::Borrowed(if function == CoreFunction::NamespaceUri { "" } else { prefix }));
        }
        let place = node.place();
        let QualifiedName { uri, prefix, local } = match self.tree.node(place).kind {
            NodeKind::Element | NodeKind::Attribute | NodeKind::Instruction => self.tree.name(place),
            _ => QualifiedName::default(),
        };
        Ok(match function {
            CoreFunction::LocalName => Cow::Borrowed(local),
            CoreFunction::NamespaceUri => Cow::Borrowed(uri),
            _ if prefix.is_empty() => Cow::Borrowed(local),
            _ => {
                self.pass_over(prefix.len() + local.len())?;
                Cow::Owned(format!("{prefix}:{local}"))
            }
        })
    }

    fn namespace(&self, node: NodeRef) -> EvalResult<(&'t str, &'t str)> {
        let number = (node.0 & 0xffff) as usize - 1;
        Ok(self.namespaces(node.place())?.get(number).copied().unwrap_or_default())
    }

    /// Namespaces in scope of an element: those declared at it and at the elements around it.
    pub(super) fn namespaces(&self, element: usize) -> EvalResult<Vec<(&'t str, &'t str)>> {
        let mut at = element;
        while self.tree.node(at).kind == NodeKind::Element {
            self.spend(1)?;
            at = self.tree.node(at).parent;
        }
        let found = self.tree.namespaces(element);
        self.spend(found.len() as u64)?;
        Ok(found)
    }

    /// The position of a part in a text.
    fn find(&self, text: &str, part: &str) -> EvalResult<Option<usize>> {
        self.pass_over(text.len())?;
        self.read_through(part.len())?;
        Ok(memchr::memmem::find(text.as_bytes(), part.as_bytes()))
    }

    /// Converts a text to a number.
    pub(super) fn number_of(&self, text: &str) -> EvalResult<f64> {
        self.read_through(text.len())?;
        Ok(to_number(text))
    }

    /// The string-value of a node.
    pub(super) fn string_of(&self, node: NodeRef) -> EvalResult<Cow<'t, str>> {
        if node.is_namespace() {
            return Ok(Cow::Borrowed(self.namespace(node)?.1));
        }
        let place = node.place();
        let own = self.tree.node(place);
        if !matches!(own.kind, NodeKind::Root | NodeKind::Element) {
            return Ok(Cow::Borrowed(self.tree.own_text(place)));
        }
        let inside = place + 1 + own.attributes..own.end;
        self.spend(inside.len() as u64)?;
        let mut texts = inside.filter(|place| self.tree.node(*place).kind == NodeKind::Text).map(|place| self.tree.own_text(place));
        let first = texts.next().unwrap_or_default();
        let Some(second) = texts.next() else { return Ok(Cow::Borrowed(first)) };
        let mut whole = first.to_owned();
        whole.push_str(second);
        texts.for_each(|text| whole.push_str(text));
        self.pass_over(whole.len())?;
        Ok(Cow::Owned(whole))
    }

    fn lang(&self, wanted: &str, node: NodeRef) -> EvalResult<bool> {
        let mut place = node.place();
        loop {
            let own = self.tree.node(place);
            self.spend(1 + own.attributes as u64)?;
            for attribute in place + 1..place + 1 + own.attributes {
                let QualifiedName { uri, local, .. } = self.tree.name(attribute);
                if local == "lang" && uri == "http://www.w3.org/XML/1998/namespace" {
                    let found = self.tree.own_text(attribute);
                    self.read_through(wanted.len().min(found.len()))?;
                    let begins = found.get(..wanted.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(wanted));
                    return Ok(begins && matches!(found.as_bytes().get(wanted.len()), None | Some(b'-')));
                }
            }
            if own.kind == NodeKind::Root {
                return Ok(false);
            }
            place = own.parent;
        }
    }
}

fn truth(number: f64) -> bool {
    number != 0.0 && !number.is_nan()
}
