//! Evaluates XPath 1.0 on trees.
//!
//! Where libxml2 differs from the standard, the standard is followed: numbers are written without exponents and with as many digits as distinguish
//! them; texts with an exponent are not numbers; the `following` axis of an attribute includes its element's content.
//!
//! Cost is bounded: every visited node is a step, so is every part of the expression each time it is evaluated, and so are 64 bytes of text that are
//! searched, compared or copied, or 16 that are read character by character. On axes that pass over many nodes, 8 nodes are a step. An evaluation
//! that needs more steps than it may take fails with [`StepLimitExceeded`]. Steps therefore bound its time.

mod axes;
mod compare;
mod nodes;
mod values;

use crate::expression::{ResultType, XPath};
use crate::tree::Tree;
use std::borrow::Cow;
use std::cell::Cell;

/// The error that an evaluation would take more steps than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("evaluating it takes more steps than it may")]
pub struct StepLimitExceeded;

/// Bytes of text that are searched, compared or copied in one step.
const PASSED: u64 = 64;

/// Bytes of text that are read character by character in one step.
const READ: u64 = 16;

type EvalResult<T> = Result<T, StepLimitExceeded>;

/// A node, or the n-th namespace in scope of an element; references have document order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeRef(u64);

impl NodeRef {
    /// The node of a tree with this number.
    pub fn node(node: usize) -> Self {
        Self((node as u64) << 16)
    }

    /// `number` counts from 0.
    fn namespace(element: usize, number: usize) -> Self {
        Self((element as u64) << 16 | (number as u64 + 1).min(0xffff))
    }

    /// The number of the node in its tree; for a namespace, that of its element.
    pub fn index(self) -> usize {
        (self.0 >> 16) as usize
    }

    /// Whether it is a namespace.
    pub fn is_namespace(self) -> bool {
        self.0 & 0xffff != 0
    }
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum XPathValue<'t> {
    /// The string-values of nodes, in document order.
    Nodes(Vec<Cow<'t, str>>),
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(f64),
    /// Text.
    Text(Cow<'t, str>),
}

/// Whether an expression is true for a tree, by the standard's `boolean()`, in at most `steps` steps. The context node is the tree's outermost
/// element.
///
/// # Errors
/// When it takes more steps.
pub fn is_true(xpath: &XPath, tree: &(impl Tree + ?Sized), steps: u64) -> Result<bool, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    evaluation.boolean(&xpath.expression, &evaluation.start())
}

/// Returns the value of an expression; otherwise like [`is_true`].
///
/// # Errors
/// When it takes more steps.
pub fn evaluate<'t>(xpath: &XPath, tree: &'t (impl Tree + ?Sized), steps: u64) -> Result<XPathValue<'t>, StepLimitExceeded> {
    evaluate_from(xpath, tree, start(tree), steps)
}

/// The document's outermost element.
pub fn start(tree: &(impl Tree + ?Sized)) -> NodeRef {
    NodeRef::node(tree.element())
}

/// Returns the nodes that an expression finds; none if its value is not a set of nodes.
///
/// # Errors
/// When it takes more steps.
pub fn find_nodes(xpath: &XPath, tree: &(impl Tree + ?Sized), steps: u64) -> Result<Vec<NodeRef>, StepLimitExceeded> {
    find_nodes_from(xpath, tree, start(tree), steps)
}

/// Like [`find_nodes`], with another context node.
///
/// # Errors
/// When it takes more steps.
pub fn find_nodes_from(xpath: &XPath, tree: &(impl Tree + ?Sized), from: NodeRef, steps: u64) -> Result<Vec<NodeRef>, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    match xpath.expression.kind() {
        ResultType::Nodes => evaluation.nodes(&xpath.expression, &EvalContext { node: from, position: 1, size: 1 }),
        _ => Ok(Vec::new()),
    }
}

/// Like [`evaluate`], with another context node.
///
/// # Errors
/// When it takes more steps.
pub fn evaluate_from<'t>(xpath: &XPath, tree: &'t (impl Tree + ?Sized), from: NodeRef, steps: u64) -> Result<XPathValue<'t>, StepLimitExceeded> {
    let evaluation = Evaluation::new(xpath, tree, steps);
    let context = EvalContext { node: from, position: 1, size: 1 };
    Ok(match xpath.expression.kind() {
        ResultType::Nodes => {
            let nodes = evaluation.nodes(&xpath.expression, &context)?;
            XPathValue::Nodes(nodes.into_iter().map(|node| evaluation.string_value(node)).collect::<EvalResult<_>>()?)
        }
        ResultType::Boolean => XPathValue::Boolean(evaluation.boolean(&xpath.expression, &context)?),
        ResultType::Number => XPathValue::Number(evaluation.number(&xpath.expression, &context)?),
        ResultType::Text => XPathValue::Text(evaluation.string(&xpath.expression, &context)?),
    })
}

/// The context node, its position, and the number of nodes.
#[derive(Clone, Copy)]
struct EvalContext {
    node: NodeRef,
    position: usize,
    size: usize,
}

struct Evaluation<'x, 't, T: ?Sized> {
    tree: &'t T,
    /// For each name in the expression, its number in the tree.
    names: Vec<Option<u32>>,
    steps: Cell<u64>,
    xpath: &'x XPath,
}

impl<'x, 't, T: Tree + ?Sized> Evaluation<'x, 't, T> {
    fn new(xpath: &'x XPath, tree: &'t T, steps: u64) -> Self {
        let names = xpath.names.iter().map(|name| tree.number_of(name)).collect();
        Self { tree, names, steps: Cell::new(steps), xpath }
    }

    fn start(&self) -> EvalContext {
        EvalContext { node: start(self.tree), position: 1, size: 1 }
    }

    /// Spends the steps to search, compare or copy so many bytes of text.
    fn spend_on_passing(&self, bytes: usize) -> EvalResult<()> {
        self.spend(bytes as u64 / PASSED)
    }

    /// Spends the steps to read so many bytes of text character by character.
    fn spend_on_reading(&self, bytes: usize) -> EvalResult<()> {
        self.spend(bytes as u64 / READ)
    }

    fn spend(&self, steps: u64) -> EvalResult<()> {
        match self.steps.get().checked_sub(steps) {
            Some(remaining) => {
                self.steps.set(remaining);
                Ok(())
            }
            None => Err(StepLimitExceeded),
        }
    }
}
