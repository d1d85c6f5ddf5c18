//! The syntax tree of an expression: operators, functions, paths with their steps and conditions, and their result types.

use crate::name::ExpandedName;
use std::ops::RangeInclusive;

/// An expression, ready to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct XPath {
    /// The expression.
    pub expression: Expr,
    /// The names in it; [`NodeTest::Name`] is an index into these.
    pub names: Vec<ExpandedName>,
}

/// An expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// An operator with two sides.
    Binary(XPathOperator, Box<(Expr, Expr)>),
    /// `-`.
    Negate(Box<Expr>),
    /// A text in quotes.
    Literal(Box<str>),
    /// A number.
    Number(f64),
    /// A function of the core library.
    Call(CoreFunction, Vec<Expr>),
    /// A path.
    Path(LocationPath),
}

/// Operators with two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are their names")]
pub enum XPathOperator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Union,
}

impl XPathOperator {
    /// Whether it compares its sides.
    pub fn compares(self) -> bool {
        use XPathOperator::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }
}

/// A location path.
#[derive(Debug, Clone, PartialEq)]
pub struct LocationPath {
    /// Its start.
    pub start: PathStart,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// The start of a path.
#[derive(Debug, Clone, PartialEq)]
pub enum PathStart {
    /// The document.
    Root,
    /// The context node.
    ContextNode,
    /// The nodes of an expression that satisfy the conditions in brackets.
    Filtered(Box<Expr>, Vec<Predicate>),
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The axis.
    pub axis: Axis,
    /// The node test.
    pub test: NodeTest,
    /// Conditions in brackets, applied in order.
    pub conditions: Vec<Predicate>,
}

/// An expression in brackets.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    /// The expression. A number is compared with the position.
    pub expression: Expr,
    /// Whether its value depends on the position, or the number, of the nodes.
    pub is_positional: bool,
}

/// The axes of the standard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are their names")]
pub enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    SelfNode,
}

impl Axis {
    /// Whether positions count backwards.
    pub fn is_reverse(self) -> bool {
        matches!(self, Axis::Ancestor | Axis::AncestorOrSelf | Axis::Preceding | Axis::PrecedingSibling)
    }
}

/// All axes with their names.
pub const AXES: [(&str, Axis); 13] = [
    ("ancestor", Axis::Ancestor),
    ("ancestor-or-self", Axis::AncestorOrSelf),
    ("attribute", Axis::Attribute),
    ("child", Axis::Child),
    ("descendant", Axis::Descendant),
    ("descendant-or-self", Axis::DescendantOrSelf),
    ("following", Axis::Following),
    ("following-sibling", Axis::FollowingSibling),
    ("namespace", Axis::Namespace),
    ("parent", Axis::Parent),
    ("preceding", Axis::Preceding),
    ("preceding-sibling", Axis::PrecedingSibling),
    ("self", Axis::SelfNode),
];

/// A test that chooses nodes of an axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeTest {
    /// Nodes with this name, an index into [`XPath::names`].
    Name(usize),
    /// Any element; any attribute or namespace on their axes.
    Any,
    /// Any element, or attribute, of a namespace.
    AnyOf(Box<str>),
    /// Text.
    Text,
    /// Comments.
    Comment,
    /// Processing instructions, all or those of a target.
    Instruction(Option<Box<str>>),
    /// Any node.
    Node,
}

/// The type of an expression's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultType {
    /// A set of nodes.
    Nodes,
    /// True or false.
    Boolean,
    /// A number.
    Number,
    /// Text.
    Text,
}

/// Functions of the core library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are their names")]
pub enum CoreFunction {
    Boolean,
    Ceiling,
    Concat,
    Contains,
    Count,
    False,
    Floor,
    Id,
    Lang,
    Last,
    LocalName,
    Name,
    NamespaceUri,
    NormalizeSpace,
    Not,
    Number,
    Position,
    Round,
    StartsWith,
    String,
    StringLength,
    Substring,
    SubstringAfter,
    SubstringBefore,
    Sum,
    Translate,
    True,
}

/// The signature of a function.
pub(crate) struct CoreSignature {
    pub(crate) function: CoreFunction,
    pub(crate) name: &'static str,
    /// The number of arguments.
    pub(crate) arguments: RangeInclusive<usize>,
    /// The type of its value.
    pub(crate) result: ResultType,
    /// Whether its arguments must be sets of nodes.
    pub(crate) of_nodes: bool,
}

const fn signature(
    function: CoreFunction,
    name: &'static str,
    arguments: RangeInclusive<usize>,
    result: ResultType,
    of_nodes: bool,
) -> CoreSignature {
    CoreSignature { function, name, arguments, result, of_nodes }
}

const MANY: usize = usize::MAX;

/// The core library.
pub(crate) const FUNCTIONS: [CoreSignature; 27] = [
    signature(CoreFunction::Boolean, "boolean", 1..=1, ResultType::Boolean, false),
    signature(CoreFunction::Ceiling, "ceiling", 1..=1, ResultType::Number, false),
    signature(CoreFunction::Concat, "concat", 2..=MANY, ResultType::Text, false),
    signature(CoreFunction::Contains, "contains", 2..=2, ResultType::Boolean, false),
    signature(CoreFunction::Count, "count", 1..=1, ResultType::Number, true),
    signature(CoreFunction::False, "false", 0..=0, ResultType::Boolean, false),
    signature(CoreFunction::Floor, "floor", 1..=1, ResultType::Number, false),
    signature(CoreFunction::Id, "id", 1..=1, ResultType::Nodes, false),
    signature(CoreFunction::Lang, "lang", 1..=1, ResultType::Boolean, false),
    signature(CoreFunction::Last, "last", 0..=0, ResultType::Number, false),
    signature(CoreFunction::LocalName, "local-name", 0..=1, ResultType::Text, true),
    signature(CoreFunction::Name, "name", 0..=1, ResultType::Text, true),
    signature(CoreFunction::NamespaceUri, "namespace-uri", 0..=1, ResultType::Text, true),
    signature(CoreFunction::NormalizeSpace, "normalize-space", 0..=1, ResultType::Text, false),
    signature(CoreFunction::Not, "not", 1..=1, ResultType::Boolean, false),
    signature(CoreFunction::Number, "number", 0..=1, ResultType::Number, false),
    signature(CoreFunction::Position, "position", 0..=0, ResultType::Number, false),
    signature(CoreFunction::Round, "round", 1..=1, ResultType::Number, false),
    signature(CoreFunction::StartsWith, "starts-with", 2..=2, ResultType::Boolean, false),
    signature(CoreFunction::String, "string", 0..=1, ResultType::Text, false),
    signature(CoreFunction::StringLength, "string-length", 0..=1, ResultType::Number, false),
    signature(CoreFunction::Substring, "substring", 2..=3, ResultType::Text, false),
    signature(CoreFunction::SubstringAfter, "substring-after", 2..=2, ResultType::Text, false),
    signature(CoreFunction::SubstringBefore, "substring-before", 2..=2, ResultType::Text, false),
    signature(CoreFunction::Sum, "sum", 1..=1, ResultType::Number, true),
    signature(CoreFunction::Translate, "translate", 3..=3, ResultType::Text, false),
    signature(CoreFunction::True, "true", 0..=0, ResultType::Boolean, false),
];

impl CoreFunction {
    /// The function's name.
    pub fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|signature| signature.function == self).map_or("?", |signature| signature.name)
    }
}

impl Expr {
    /// The type of its value.
    pub fn kind(&self) -> ResultType {
        match self {
            Expr::Binary(XPathOperator::Or | XPathOperator::And, _) => ResultType::Boolean,
            Expr::Binary(XPathOperator::Union, _) | Expr::Path(_) => ResultType::Nodes,
            Expr::Binary(operator, _) if operator.compares() => ResultType::Boolean,
            Expr::Binary(..) | Expr::Negate(_) | Expr::Number(_) => ResultType::Number,
            Expr::Literal(_) => ResultType::Text,
            Expr::Call(function, _) => {
                FUNCTIONS.iter().find(|signature| signature.function == *function).map_or(ResultType::Text, |signature| signature.result)
            }
        }
    }

    /// Whether its own value depends on the position, or the number, of the nodes for which it is evaluated.
    pub(crate) fn reads_position(&self) -> bool {
        match self {
            Expr::Call(CoreFunction::Position | CoreFunction::Last, _) => true,
            Expr::Call(_, arguments) => arguments.iter().any(Expr::reads_position),
            Expr::Binary(_, sides) => sides.0.reads_position() || sides.1.reads_position(),
            Expr::Negate(inner) => inner.reads_position(),
            Expr::Path(LocationPath { start: PathStart::Filtered(nodes, _), .. }) => nodes.reads_position(),
            Expr::Literal(_) | Expr::Number(_) | Expr::Path(_) => false,
        }
    }
}
