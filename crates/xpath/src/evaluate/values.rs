//! Evaluates expressions to booleans, numbers and texts, with the functions of the core library.

use super::{EvalContext, EvalResult, Evaluation, NodeRef, READ};
use crate::expression::{CoreFunction, Expr, ResultType, XPathOperator};
use crate::numbers::{round, show_number, to_number};
use crate::tree::{NodeKind, QualifiedName, Tree};
use std::borrow::Cow;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    pub(super) fn boolean(&self, expression: &Expr, context: &EvalContext) -> EvalResult<bool> {
        self.spend(1)?;
        Ok(match expression {
            Expr::Binary(XPathOperator::Or, sides) => self.boolean(&sides.0, context)? || self.boolean(&sides.1, context)?,
            Expr::Binary(XPathOperator::And, sides) => self.boolean(&sides.0, context)? && self.boolean(&sides.1, context)?,
            Expr::Binary(XPathOperator::Union, sides) => self.boolean(&sides.0, context)? || self.boolean(&sides.1, context)?,
            Expr::Binary(operator, sides) if operator.compares() => self.compare(*operator, &sides.0, &sides.1, context)?,
            Expr::Path(path) => self.exists(path, context)?,
            Expr::Call(function, arguments) => match function {
                CoreFunction::True => true,
                CoreFunction::False => false,
                CoreFunction::Not => !self.boolean(&arguments[0], context)?,
                CoreFunction::Boolean => self.boolean(&arguments[0], context)?,
                CoreFunction::Contains => {
                    let (text, part) = (self.string(&arguments[0], context)?, self.string(&arguments[1], context)?);
                    self.find(&text, &part)?.is_some()
                }
                CoreFunction::StartsWith => {
                    let (text, part) = (self.string(&arguments[0], context)?, self.string(&arguments[1], context)?);
                    self.spend_on_passing(text.len().min(part.len()))?;
                    text.starts_with(&*part)
                }
                CoreFunction::Lang => self.lang(&self.string(&arguments[0], context)?, context.node)?,
                CoreFunction::Id => !self.nodes(expression, context)?.is_empty(),
                _ if expression.kind() == ResultType::Number => truth(self.number(expression, context)?),
                _ => !self.string(expression, context)?.is_empty(),
            },
            Expr::Literal(text) => !text.is_empty(),
            Expr::Binary(..) | Expr::Negate(_) | Expr::Number(_) => truth(self.number(expression, context)?),
        })
    }

    pub(super) fn number(&self, expression: &Expr, context: &EvalContext) -> EvalResult<f64> {
        self.spend(1)?;
        Ok(match expression {
            Expr::Number(number) => *number,
            Expr::Negate(inner) => -self.number(inner, context)?,
            Expr::Binary(
                operator @ (XPathOperator::Add | XPathOperator::Subtract | XPathOperator::Multiply | XPathOperator::Divide | XPathOperator::Modulo),
                sides,
            ) => {
                let (left, right) = (self.number(&sides.0, context)?, self.number(&sides.1, context)?);
                match operator {
                    XPathOperator::Add => left + right,
                    XPathOperator::Subtract => left - right,
                    XPathOperator::Multiply => left * right,
                    XPathOperator::Divide => left / right,
                    _ => left % right,
                }
            }
            Expr::Call(function, arguments) => match function {
                CoreFunction::Position => context.position as f64,
                CoreFunction::Last => context.size as f64,
                CoreFunction::Count => self.nodes(&arguments[0], context)?.len() as f64,
                CoreFunction::Sum => {
                    let mut sum = 0.0;
                    for node in self.nodes(&arguments[0], context)? {
                        sum += self.number_from_text(&self.string_value(node)?)?;
                    }
                    sum
                }
                CoreFunction::Floor => self.number(&arguments[0], context)?.floor(),
                CoreFunction::Ceiling => self.number(&arguments[0], context)?.ceil(),
                CoreFunction::Round => round(self.number(&arguments[0], context)?),
                CoreFunction::StringLength => {
                    let text = self.argument(arguments, context)?;
                    self.spend_on_passing(text.len())?;
                    text.chars().count() as f64
                }
                CoreFunction::Number => match arguments.first() {
                    Some(argument) => self.number(argument, context)?,
                    None => self.number_from_text(&self.string_value(context.node)?)?,
                },
                _ => self.converted_number(expression, context)?,
            },
            _ => self.converted_number(expression, context)?,
        })
    }

    fn converted_number(&self, expression: &Expr, context: &EvalContext) -> EvalResult<f64> {
        Ok(match expression.kind() {
            ResultType::Boolean => f64::from(u8::from(self.boolean(expression, context)?)),
            _ => self.number_from_text(&self.string(expression, context)?)?,
        })
    }

    pub(super) fn string(&self, expression: &Expr, context: &EvalContext) -> EvalResult<Cow<'t, str>> {
        self.spend(1)?;
        let (function, arguments) = match expression {
            Expr::Call(function, arguments) => (function, arguments),
            Expr::Literal(text) => {
                self.spend_on_passing(text.len())?;
                return Ok(Cow::Owned(text.to_string()));
            }
            _ => return self.converted_text(expression, context),
        };
        Ok(match function {
            CoreFunction::String => self.argument(arguments, context)?,
            CoreFunction::Concat => {
                let mut joined = String::new();
                for argument in arguments {
                    let part = self.string(argument, context)?;
                    self.spend_on_passing(part.len())?;
                    joined.push_str(&part);
                }
                Cow::Owned(joined)
            }
            CoreFunction::NormalizeSpace => {
                let text = self.argument(arguments, context)?;
                self.spend_on_reading(text.len())?;
                let words: Vec<&str> = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect();
                Cow::Owned(words.join(" "))
            }
            CoreFunction::Substring => {
                let text = self.string(&arguments[0], context)?;
                let from = round(self.number(&arguments[1], context)?);
                let end = match arguments.get(2) {
                    Some(length) => from + round(self.number(length, context)?),
                    None => f64::INFINITY,
                };
                self.spend_on_reading(text.len())?;
                let is_included = |position: usize| position as f64 >= from && (position as f64) < end;
                Cow::Owned(text.chars().enumerate().filter(|(index, _)| is_included(index + 1)).map(|(_, c)| c).collect())
            }
            CoreFunction::SubstringBefore | CoreFunction::SubstringAfter => {
                let (text, delimiter) = (self.string(&arguments[0], context)?, self.string(&arguments[1], context)?);
                let found = match (self.find(&text, &delimiter)?, function) {
                    (Some(at), CoreFunction::SubstringBefore) => &text[..at],
                    (Some(at), _) => &text[at + delimiter.len()..],
                    (None, _) => "",
                };
                self.spend_on_passing(found.len())?;
                Cow::Owned(found.to_owned())
            }
            CoreFunction::Translate => {
                let text = self.string(&arguments[0], context)?;
                let (from, to) = (self.string(&arguments[1], context)?, self.string(&arguments[2], context)?);
                // the replacement of a character is found by binary search
                let steps_per_lookup = 1 + u64::from(from.len().max(1).ilog2()) / 2;
                self.spend(steps_per_lookup * ((text.len() + from.len()) as u64 / READ))?;
                self.spend_on_reading(to.len())?;
                let mut replacements = to.chars().map(Some).chain(std::iter::repeat(None));
                let mut replacement_table: Vec<(char, Option<char>)> = from.chars().map(|c| (c, replacements.next().flatten())).collect();
                // the first replacement of a character counts
                replacement_table.sort_by_key(|(original, _)| *original);
                replacement_table.dedup_by_key(|(original, _)| *original);
                let replace = |c: char| {
                    replacement_table.binary_search_by_key(&c, |(original, _)| *original).map_or(Some(c), |index| replacement_table[index].1)
                };
                Cow::Owned(text.chars().filter_map(replace).collect())
            }
            CoreFunction::LocalName | CoreFunction::Name | CoreFunction::NamespaceUri => {
                let node = match arguments.first() {
                    Some(argument) => self.first(argument, context)?,
                    None => Some(context.node),
                };
                match node {
                    None => Cow::Borrowed(""),
                    Some(node) => self.name_of(node, *function)?,
                }
            }
            _ => self.converted_text(expression, context)?,
        })
    }

    /// Converts a value that is not text to text.
    fn converted_text(&self, expression: &Expr, context: &EvalContext) -> EvalResult<Cow<'t, str>> {
        Ok(match expression.kind() {
            ResultType::Nodes => match self.first(expression, context)? {
                Some(node) => self.string_value(node)?,
                None => Cow::Borrowed(""),
            },
            ResultType::Boolean => Cow::Borrowed(if self.boolean(expression, context)? { "true" } else { "false" }),
            ResultType::Number | ResultType::Text => {
                let text = show_number(self.number(expression, context)?);
                self.spend_on_reading(text.len())?;
                Cow::Owned(text)
            }
        })
    }

    /// The only argument as text, or the context node's text if there is none.
    fn argument(&self, arguments: &[Expr], context: &EvalContext) -> EvalResult<Cow<'t, str>> {
        match arguments.first() {
            Some(argument) => self.string(argument, context),
            None => self.string_value(context.node),
        }
    }

    fn name_of(&self, node: NodeRef, function: CoreFunction) -> EvalResult<Cow<'t, str>> {
        if node.is_namespace() {
            let prefix = self.namespace(node)?.0;
            return Ok(Cow::Borrowed(if function == CoreFunction::NamespaceUri { "" } else { prefix }));
        }
        let index = node.index();
        let QualifiedName { uri, prefix, local } = match self.tree.node(index).kind {
            NodeKind::Element | NodeKind::Attribute | NodeKind::Instruction => self.tree.name(index),
            _ => QualifiedName::default(),
        };
        Ok(match function {
            CoreFunction::LocalName => Cow::Borrowed(local),
            CoreFunction::NamespaceUri => Cow::Borrowed(uri),
            _ if prefix.is_empty() => Cow::Borrowed(local),
            _ => {
                self.spend_on_passing(prefix.len() + local.len())?;
                Cow::Owned(format!("{prefix}:{local}"))
            }
        })
    }

    fn namespace(&self, node: NodeRef) -> EvalResult<(&'t str, &'t str)> {
        let number = (node.0 & 0xffff) as usize - 1;
        Ok(self.namespaces(node.index())?.get(number).copied().unwrap_or_default())
    }

    /// Namespaces in scope of an element: those declared at it and at the elements around it.
    pub(super) fn namespaces(&self, element: usize) -> EvalResult<Vec<(&'t str, &'t str)>> {
        let mut ancestor = element;
        while self.tree.node(ancestor).kind == NodeKind::Element {
            self.spend(1)?;
            ancestor = self.tree.node(ancestor).parent;
        }
        let found = self.tree.namespaces(element);
        self.spend(found.len() as u64)?;
        Ok(found)
    }

    /// The position of a part in a text.
    fn find(&self, text: &str, part: &str) -> EvalResult<Option<usize>> {
        self.spend_on_passing(text.len())?;
        self.spend_on_reading(part.len())?;
        Ok(memchr::memmem::find(text.as_bytes(), part.as_bytes()))
    }

    /// Converts a text to a number.
    pub(super) fn number_from_text(&self, text: &str) -> EvalResult<f64> {
        self.spend_on_reading(text.len())?;
        Ok(to_number(text))
    }

    /// The string-value of a node.
    pub(super) fn string_value(&self, node: NodeRef) -> EvalResult<Cow<'t, str>> {
        if node.is_namespace() {
            return Ok(Cow::Borrowed(self.namespace(node)?.1));
        }
        let index = node.index();
        let tree_node = self.tree.node(index);
        if !matches!(tree_node.kind, NodeKind::Root | NodeKind::Element) {
            return Ok(Cow::Borrowed(self.tree.own_text(index)));
        }
        let content = index + 1 + tree_node.attributes..tree_node.end;
        self.spend(content.len() as u64)?;
        let mut texts = content.filter(|index| self.tree.node(*index).kind == NodeKind::Text).map(|index| self.tree.own_text(index));
        let first = texts.next().unwrap_or_default();
        let Some(second) = texts.next() else { return Ok(Cow::Borrowed(first)) };
        let mut joined = first.to_owned();
        joined.push_str(second);
        texts.for_each(|text| joined.push_str(text));
        self.spend_on_passing(joined.len())?;
        Ok(Cow::Owned(joined))
    }

    fn lang(&self, language: &str, node: NodeRef) -> EvalResult<bool> {
        let mut index = node.index();
        loop {
            let tree_node = self.tree.node(index);
            self.spend(1 + tree_node.attributes as u64)?;
            for attribute in index + 1..index + 1 + tree_node.attributes {
                let QualifiedName { uri, local, .. } = self.tree.name(attribute);
                if local == "lang" && uri == "http://www.w3.org/XML/1998/namespace" {
                    let value = self.tree.own_text(attribute);
                    self.spend_on_reading(language.len().min(value.len()))?;
                    let has_prefix = value.get(..language.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(language));
                    return Ok(has_prefix && matches!(value.as_bytes().get(language.len()), None | Some(b'-')));
                }
            }
            if tree_node.kind == NodeKind::Root {
                return Ok(false);
            }
            index = tree_node.parent;
        }
    }
}

fn truth(number: f64) -> bool {
    number != 0.0 && !number.is_nan()
}
