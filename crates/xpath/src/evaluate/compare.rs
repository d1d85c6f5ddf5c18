//! Comparisons, which are true if they are true for any node, or any pair of nodes.

use super::{EvalContext, EvalResult, Evaluation};
use crate::expression::{Expr, ResultType as Gives, XPathOperator};
use crate::tree::Tree;
use std::borrow::Cow;

impl<'t, T: Tree + ?Sized> Evaluation<'_, 't, T> {
    pub(super) fn compare(&self, operator: XPathOperator, left: &Expr, right: &Expr, here: &EvalContext) -> EvalResult<bool> {
        let (kinds, equality) = ((left.kind(), right.kind()), matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual));
        match kinds {
            (Gives::Nodes, Gives::Nodes) => {
                let left = self.texts(left, here)?;
                let right = self.texts(right, here)?;
                self.compare_sets(operator, &left, &right)
            }
            (Gives::Boolean, _) | (_, Gives::Boolean) if equality => {
                Ok((self.boolean(left, here)? == self.boolean(right, here)?) == (operator == XPathOperator::Equal))
            }
            (Gives::Nodes, Gives::Boolean) | (Gives::Boolean, Gives::Nodes) => {
                let number = |value: bool| f64::from(u8::from(value));
                Ok(numbers(operator, number(self.boolean(left, here)?), number(self.boolean(right, here)?)))
            }
            (Gives::Nodes, other) => self.compare_nodes(operator, (left, right, other), false, here),
            (other, Gives::Nodes) => self.compare_nodes(operator, (right, left, other), true, here),
            (Gives::Number, _) | (_, Gives::Number) => Ok(numbers(operator, self.number(left, here)?, self.number(right, here)?)),
            _ if equality => Ok(self.equal(&self.string(left, here)?, &self.string(right, here)?)? == (operator == XPathOperator::Equal)),
            _ => Ok(numbers(operator, self.number(left, here)?, self.number(right, here)?)),
        }
    }

    /// Whether the comparison with a text or a number is true for any node; `turned` if the nodes are on the right.
    fn compare_nodes(
        &self,
        operator: XPathOperator,
        (nodes, other, kind): (&Expr, &Expr, Gives),
        turned: bool,
        here: &EvalContext,
    ) -> EvalResult<bool> {
        let equality = matches!(operator, XPathOperator::Equal | XPathOperator::NotEqual);
        if kind == Gives::Text && equality {
            let wanted = match other {
                Expr::Literal(text) => Cow::Borrowed(&**text),
                _ => self.string(other, here)?,
            };
            return self.any(nodes, here, &mut |node| Ok(self.equal(&self.string_of(node)?, &wanted)? == (operator == XPathOperator::Equal)));
        }
        let wanted = self.number(other, here)?;
        self.any(nodes, here, &mut |node| {
            let own = self.number_of(&self.string_of(node)?)?;
            Ok(if turned { numbers(operator, wanted, own) } else { numbers(operator, own, wanted) })
        })
    }

    /// Whether two texts are equal; comparing texts of different lengths costs no steps.
    pub(super) fn equal(&self, own: &str, other: &str) -> EvalResult<bool> {
        if own.len() != other.len() {
            return Ok(false);
        }
        self.pass_over(own.len())?;
        Ok(own == other)
    }

    pub(super) fn texts(&self, expression: &Expr, here: &EvalContext) -> EvalResult<Vec<Cow<'t, str>>> {
        self.nodes(expression, here)?.into_iter().map(|node| self.string_of(node)).collect()
    }

    /// Whether the comparison is true for any pair of nodes.
    fn compare_sets(&self, operator: XPathOperator, left: &[Cow<'t, str>], right: &[Cow<'t, str>]) -> EvalResult<bool> {
        self.spend((left.len() + right.len()) as u64)?;
        self.read_through(left.iter().chain(right).map(|text| text.len()).sum())?;
        match operator {
            XPathOperator::Equal => {
                let (few, many) = if left.len() < right.len() { (left, right) } else { (right, left) };
                let few: std::collections::HashSet<&str> = few.iter().map(|text| &**text).collect();
                Ok(many.iter().any(|text| few.contains(&**text)))
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
                let (own, other) = match operator {
                    XPathOperator::Less | XPathOperator::LessOrEqual => (extreme(left, f64::min), extreme(right, f64::max)),
                    _ => (extreme(left, f64::max), extreme(right, f64::min)),
                };
                Ok(own.zip(other).is_some_and(|(own, other)| numbers(operator, own, other)))
            }
        }
    }
}

fn numbers(operator: XPathOperator, left: f64, right: f64) -> bool {
    match operator {
        XPathOperator::Equal => left == right,
        XPathOperator::NotEqual => left != right,
        XPathOperator::Less => left < right,
        XPathOperator::LessOrEqual => left <= right,
        XPathOperator::Greater => left > right,
        _ => left >= right,
    }
}
