//! XPath 1.0 on trees: the whole language except variables.
//!
//! An expression is parsed once ([`XPath::parse`]) and evaluated on any number of trees: [`evaluate()`] returns its value, [`is_true`] whether it is
//! true, [`find_nodes`] the nodes themselves. A tree is an [`XmlTree`](tree::XmlTree), or any other implementation of [`Tree`](tree::Tree).
//!
//! ```
//! use stook_xpath::tree::XmlTree;
//! use stook_xpath::{XPath, XPathValue, evaluate, is_true};
//!
//! let tree = XmlTree::parse(b"<shelf><book year='1843'>Carol</book><book year='1859'>Cities</book></shelf>")?;
//! let titles = XPath::parse("book[@year < 1850]", &[])?;
//! assert_eq!(evaluate(&titles, &tree, 1_000)?, XPathValue::Nodes(vec!["Carol".into()]));
//! assert!(is_true(&XPath::parse("count(book) = 2", &[])?, &tree, 1_000)?);
//!
//! let wrong = XPath::parse("count('book')", &[]).unwrap_err();
//! assert_eq!((wrong.at, &*wrong.message), (6, "`count` needs a set of nodes, this is text"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Mistakes are found before there is a document
//!
//! Without variables, the result type of every function and operator is known from its name. So mistakes that the standard reports when an expression
//! is evaluated (a prefix that is not bound, a function that does not exist, a set of nodes where a number is needed) are an [`XPathError`] of the
//! parser, with its position. What is allowed but probably not meant, such as `//book[@id=novel]` without quotes, is reported by [`advise`].
//! [`XPath::visible_elements`] returns the names that lead to everything an expression reads.
//!
//! # What differs
//!
//! The context node at the start is the outermost element, not the document above it. So `position()` and `last()` have a meaning in brackets only,
//! and are refused elsewhere. Where libxml2 differs from the standard, the standard is followed: numbers are written without exponents and with as
//! many digits as distinguish them, texts with an exponent are not numbers, and the `following` axis of an attribute includes its element's content.
//! Without document type declarations, `id()` finds elements by `xml:id`.
//!
//! # Limits
//!
//! An expression has at most [`MAX_BYTES`] bytes, parentheses and brackets at most 64 levels deep, and at most 1000 operators in a row. An
//! evaluation takes at most as many steps as its caller allows, and otherwise fails with [`StepLimitExceeded`]: every visited node is a step, or a
//! part of one, and so is text that is concatenated, searched or translated. [`xml::parse`] documents what it refuses;
//! [`XmlTree::parse`](tree::XmlTree::parse) refuses the same except document types, which it ignores.

mod advice;
mod evaluate;
mod expression;
pub mod markup;
mod name;
mod numbers;
mod parse;
mod reach;
pub mod tree;
pub mod xml;

pub use advice::{Lint, advise};
pub use evaluate::{NodeRef, StepLimitExceeded, XPathValue, evaluate, evaluate_from, find_nodes, find_nodes_from, is_true, start};
pub use expression::{AXES, Axis, CoreFunction, Expr, LocationPath, NodeTest, PathStart, Predicate, ResultType, Step, XPath, XPathOperator};
pub use name::{ExpandedName, name_hash};
pub use numbers::{show_number, to_number};
pub use parse::{MAX_BYTES, XPathError};
