//! What is known not to be null after a condition had a certain result.

use super::checker::{TypeChecker, TypeResult};
use crate::eval::functions;
use cel::common::ast::{Expr, IdedExpr, LiteralValue};

/// The assumed result of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assumption {
    True,
    False,
    NotTrue,
    NotFalse,
}

impl TypeChecker<'_> {
    /// Checks a part under the assumption that a condition had a certain result.
    pub fn with_assumption(&mut self, condition: &IdedExpr, outcome: Assumption, part: impl FnOnce(&mut Self) -> TypeResult) -> TypeResult {
        let before = self.non_null.len();
        self.assume(condition, outcome);
        let found = part(self);
        self.non_null.truncate(before);
        found
    }

    /// Returns the path that identifies a value when it is read again: `planned.mode`.
    pub fn path(&self, expression: &IdedExpr) -> Option<String> {
        match &expression.expr {
            Expr::Ident(name) => Some(match self.elements.iter().rposition(|(bound, _)| bound == name) {
                Some(depth) => format!("{depth}:{name}"),
                None => name.clone(),
            }),
            Expr::Select(select) if !select.test => Some(format!("{}.{}", self.path(&select.operand)?, select.field)),
            Expr::Call(call) if call.func_name == "_[_]" => match call.args.as_slice() {
                [of, IdedExpr { expr: Expr::Literal(LiteralValue::String(name)), .. }] if !name.inner().contains(['.', '[']) => {
                    Some(format!("{}.{}", self.path(of)?, name.inner()))
                }
                [of, IdedExpr { expr: Expr::Literal(LiteralValue::Int(index)), .. }] => Some(format!("{}[{}]", self.path(of)?, index.inner())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Notes that a value is not null, and neither are the values it depends on.
    fn assume_non_null(&mut self, expression: &IdedExpr) {
        self.non_null.extend(self.path(expression));
        match &expression.expr {
            Expr::Select(select) => self.assume_non_null(&select.operand),
            Expr::Call(call) => match call.func_name.as_str() {
                // these are null if an operand is
                "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "-_" | "_[_]" | "_<_" | "_<=_" | "_>_" | "_>=_" => {
                    call.args.iter().for_each(|part| self.assume_non_null(part))
                }
                name => {
                    let propagates_null = functions::function(name).is_some_and(|function| !function.null_counts && function.name != "lookup");
                    if propagates_null {
                        call.target.iter().map(|target| &**target).chain(&call.args).for_each(|part| self.assume_non_null(part));
                    }
                }
            },
            _ => {}
        }
    }

    /// What is known not to be null after a condition had a certain result.
    fn assume(&mut self, condition: &IdedExpr, outcome: Assumption) {
        match &condition.expr {
            // these are never null themselves
            Expr::Select(select) if select.test => {
                if matches!(outcome, Assumption::True | Assumption::NotFalse) {
                    self.non_null.extend(self.path(&select.operand).map(|of| format!("{of}.{}", select.field)));
                    self.assume_non_null(&select.operand);
                }
            }
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_slice()) {
                ("_==_" | "_!=_", [first, second]) => {
                    let holds = matches!(outcome, Assumption::True | Assumption::NotFalse);
                    let is_null = |side: &IdedExpr| matches!(side.expr, Expr::Literal(LiteralValue::Null));
                    let equal = holds == (call.func_name == "_==_");
                    for (side, other) in [(first, second), (second, first)] {
                        let never_null = |checker: &mut Self| checker.ty(other).is_ok_and(|ty| !ty.may_be_null());
                        if (is_null(other) && !equal) || (!is_null(other) && equal && never_null(self)) {
                            self.assume_non_null(side);
                        }
                    }
                }
                ("!_", [inner]) => self.assume(
                    inner,
                    match outcome {
                        Assumption::True => Assumption::False,
                        Assumption::False => Assumption::True,
                        Assumption::NotTrue => Assumption::NotFalse,
                        Assumption::NotFalse => Assumption::NotTrue,
                    },
                ),
                ("_&&_", [first, second]) if matches!(outcome, Assumption::True | Assumption::NotFalse) => {
                    self.assume(first, outcome);
                    self.assume(second, outcome);
                }
                ("_||_", [first, second]) if matches!(outcome, Assumption::False | Assumption::NotTrue) => {
                    self.assume(first, outcome);
                    self.assume(second, outcome);
                }
                ("_?_:_" | "_&&_" | "_||_", _) => {}
                // the condition in a macro says something about one element only
                ("@in", [_, list]) if matches!(outcome, Assumption::True | Assumption::False) => self.assume_non_null(list),
                _ if matches!(outcome, Assumption::True | Assumption::False) => self.assume_non_null(condition),
                _ => {}
            },
            _ if matches!(outcome, Assumption::True | Assumption::False) => self.assume_non_null(condition),
            _ => {}
        }
    }
}
