//! Comparisons, which are true if they are true for any node, or any pair of nodes.

use super::{EvalContext, EvalResult, Evaluation};
use crate::expression::{Expr, ResultType, XPathOperator};
use crate::tree::Tree;
use std::borrow::Cow;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    pub(super) fn compare(&self, operator: XPathOperator, left: &Expr, right: &Expr, context: &EvalContext) -> EvalResult<bool> {
        let (kinds, is_equality) = ((left.kind(), right.kind()), matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual));
        match kinds {
            (ResultType::Nodes, ResultType::Nodes) => {
                let left = self.string_values(left, context)?;
                let right = self.string_values(right, context)?;
                self.compare_sets(operator, &left, &right)
            }
            (ResultType::Boolean, _) | (_, ResultType::Boolean) if is_equality => {
                Ok((self.boolean(left, context)? == self.boolean(right, context)?) == (operator == XPathOperator::Equal))
            }
            (ResultType::Nodes, ResultType::Boolean) | (ResultType::Boolean, ResultType::Nodes) => {
                let as_number = |value: bool| f64::from(u8::from(value));
                Ok(compare_numbers(operator, as_number(self.boolean(left, context)?), as_number(self.boolean(right, context)?)))
            }
            (ResultType::Nodes, other_kind) => self.compare_nodes(operator, (left, right, other_kind), false, context),
            (other_kind, ResultType::Nodes) => self.compare_nodes(operator, (right, left, other_kind), true, context),
            (ResultType::Number, _) | (_, ResultType::Number) => {
                Ok(compare_numbers(operator, self.number(left, context)?, self.number(right, context)?))
            }
            _ if is_equality => Ok(self.equal(&self.string(left, context)?, &self.string(right, context)?)? == (operator == XPathOperator::Equal)),
            _ => Ok(compare_numbers(operator, self.number(left, context)?, self.number(right, context)?)),
        }
    }

    /// Whether the comparison with a text or a number is true for any node; `nodes_on_right` if the nodes are on the right.
    fn compare_nodes(
        &self,
        operator: XPathOperator,
        (nodes, other_side, kind): (&Expr, &Expr, ResultType),
        nodes_on_right: bool,
        context: &EvalContext,
    ) -> EvalResult<bool> {
        let is_equality = matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual);
        if kind == ResultType::Text && is_equality {
            let operand = match other_side {
                Expr::Literal(text) => Cow::Borrowed(&**text),
                _ => self.string(other_side, context)?,
            };
            return self
                .any_node(nodes, context, &mut |node| Ok(self.equal(&self.string_value(node)?, &operand)? == (operator == XPathOperator::Equal)));
        }
        let operand = self.number(other_side, context)?;
        self.any_node(nodes, context, &mut |node| {
            let number = self.number_from_text(&self.string_value(node)?)?;
            Ok(if nodes_on_right { compare_numbers(operator, operand, number) } else { compare_numbers(operator, number, operand) })
        })
    }

    /// Whether two texts are equal; comparing texts of different lengths costs no steps.
    pub(super) fn equal(&self, left: &str, right: &str) -> EvalResult<bool> {
        if left.len() != right.len() {
            return Ok(false);
        }
        self.spend_on_passing(left.len())?;
        Ok(left == right)
    }

    pub(super) fn string_values(&self, expression: &Expr, context: &EvalContext) -> EvalResult<Vec<Cow<'t, str>>> {
        self.nodes(expression, context)?.into_iter().map(|node| self.string_value(node)).collect()
    }

    /// Whether the comparison is true for any pair of nodes.
    fn compare_sets(&self, operator: XPathOperator, left: &[Cow<'t, str>], right: &[Cow<'t, str>]) -> EvalResult<bool> {
        self.spend((left.len() + right.len()) as u64)?;
        self.spend_on_reading(left.iter().chain(right).map(|text| text.len()).sum())?;
        match operator {
            XPathOperator::Equal => {
                let (smaller, larger) = if left.len() < right.len() { (left, right) } else { (right, left) };
                let smaller: std::collections::HashSet<&str> = smaller.iter().map(|text| &**text).collect();
                Ok(larger.iter().any(|text| smaller.contains(&**text)))
            }
            XPathOperator::NotEqual => Ok(match left.first().or(right.first()) {
                None => false,
                Some(first) => !left.is_empty() && !right.is_empty() && left.iter().chain(right).any(|text| text != first),
            }),
            _ => {
                // the extremes decide; comparisons with NaN are false
                let extreme = |texts: &[Cow<'t, str>], pick: fn(f64, f64) -> f64| {
                    texts.iter().map(|text| crate::numbers::to_number(text)).filter(|number| !number.is_nan()).reduce(pick)
                };
                let (left_extreme, right_extreme) = match operator {
                    XPathOperator::Less | XPathOperator::LessOrEqual => (extreme(left, f64::min), extreme(right, f64::max)),
                    _ => (extreme(left, f64::max), extreme(right, f64::min)),
                };
                Ok(left_extreme
                    .zip(right_extreme)
                    .is_some_and(|(left_extreme, right_extreme)| compare_numbers(operator, left_extreme, right_extreme)))
            }
        }
    }
}

fn compare_numbers(operator: XPathOperator, left: f64, right: f64) -> bool {
    match operator {
        XPathOperator::Equal => left == right,
        XPathOperator::NotEqual => left != right,
        XPathOperator::Less => left < right,
        XPathOperator::LessOrEqual => left <= right,
        XPathOperator::Greater => left > right,
        _ => left >= right,
    }
}
