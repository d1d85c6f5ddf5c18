//! The state of the type check, and the errors it finds.

use super::Type;
use crate::eval::expression::Expression;
use crate::eval::tables::ConstantTables;
use cel::common::ast::IdedExpr;
use std::ops::Range;

/// An error in an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Its position, in bytes of the expression.
    pub span: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What can be done about it.
    pub help: Option<String>,
}

/// An error at a node.
pub(super) struct TypeError {
    pub at: u64,
    pub message: String,
    pub help: Option<String>,
    /// Whether the error concerns the entire expression.
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

    /// Suggests the name most similar to the one that was written, if one is similar.
    pub fn suggest<'n>(self, written: &str, names: impl Iterator<Item = &'n str>) -> Self {
        match crate::diagnostic::did_you_mean(written, names) {
            Some(suggestion) => self.help(format!("did you mean `{suggestion}`?")),
            None => self,
        }
    }

    pub fn locate(self, expression: &Expression) -> ExpressionError {
        let all = 0..expression.source().len();
        let span = if self.whole { all } else { expression.span_of(self.at).unwrap_or(all) };
        ExpressionError { span, message: self.message, help: self.help }
    }
}

/// A type, or the error because of which there is none.
pub(super) type TypeResult = Result<Type, TypeError>;

/// The state of the type check.
pub(super) struct TypeChecker<'c> {
    /// Constant tables.
    pub tables: &'c ConstantTables,
    /// The types of names, if known.
    pub names: &'c dyn Fn(&str) -> Option<Type>,
    /// Paths of values that are known not to be null here.
    pub non_null: Vec<String>,
    /// The current elements of loops.
    pub elements: Vec<(String, Type)>,
}
