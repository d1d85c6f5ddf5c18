//! What the check of types knows while it goes through an expression, and the mistakes that it finds.

use super::Type;
use crate::eval::expression::Expression;
use crate::eval::tables::ConstantTables;
use cel::common::ast::IdedExpr;
use std::ops::Range;

/// A mistake in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Where, in bytes of the expression.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What can be done about it.
    pub help: Option<String>,
}

/// A mistake at a node.
pub(super) struct TypeError {
    pub at: u64,
    pub message: String,
    pub help: Option<String>,
    /// The whole expression is meant.
    pub whole: bool,
}

impl TypeError {
    pub fn new(at: &IdedExpr, message: impl Into<String>) -> Self {
        Self { at: at.id, message: message.into(), help: None, whole: false }
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Suggests the name that is nearest to the one that was written, if one is near.
    pub fn meant<'n>(self, written: &str, names: impl Iterator<Item = &'n str>) -> Self {
        match crate::diagnostic::did_you_mean(written, names) {
            Some(meant) => self.help(format!("did you mean `{meant}`?")),
            None => self,
        }
    }

    pub fn placed(self, expression: &Expression) -> ExpressionError {
        let all = 0..expression.source().len();
        let span = if self.whole { all } else { expression.place(self.at).unwrap_or(all) };
        ExpressionError { span, message: self.message, help: self.help }
    }
}

/// A type, or the mistake that leaves an expression without one.
pub(super) type TypeResult = Result<Type, TypeError>;

/// What is known while the types of an expression are found.
pub(super) struct TypeChecker<'c> {
    /// Constant tables.
    pub tables: &'c ConstantTables,
    /// The types of names, where they are known.
    pub names: &'c dyn Fn(&str) -> Option<Type>,
    /// Paths of what is known not to be null here.
    pub non_null: Vec<String>,
    /// Elements of lists that are gone through.
    pub elements: Vec<(String, Type)>,
}
