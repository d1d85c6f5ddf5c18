//! XPath 1.0 on trees: the whole language but for variables, which nothing binds here.
//!
//! An expression is parsed once ([`XPath::parse`]) and evaluated on any number of trees: [`evaluate()`] gives its value, [`holds`] whether
//! it is true, [`places`] the nodes themselves. A tree is an [`XmlTree`](tree::XmlTree), or anything else that implements
//! [`Tree`](tree::Tree).
//!
//! ```
//! use stook_xpath::tree::XmlTree;
//! use stook_xpath::{XPath, XPathValue, evaluate, holds};
//!
//! let tree = XmlTree::parse(b"<shelf><book year='1843'>Carol</book><book year='1859'>Cities</book></shelf>")?;
//! let titles = XPath::parse("book[@year < 1850]", &[])?;
//! assert_eq!(evaluate(&titles, &tree, 1_000)?, XPathValue::Nodes(vec!["Carol".into()]));
//! assert!(holds(&XPath::parse("count(book) = 2", &[])?, &tree, 1_000)?);
//!
//! let wrong = XPath::parse("count('book')", &[]).unwrap_err();
//! assert_eq!((wrong.at, &*wrong.message), (6, "`count` needs a set of nodes, this is text"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Mistakes are found before there is a document
//!
//! Without variables, what every function and operator gives is known from its name. So what the standard finds when an expression is
//! evaluated (a prefix that is not bound, a function that does not exist, a set of nodes where only a number could stand) is an
//! [`XPathError`] of the parser, with its place. What is allowed but probably not meant, such as `//book[@id=novel]` without quotes, is
//! the advice of [`advise`]. [`XPath::sees_only`] says by which names an expression finds everything that it looks at.
//!
//! # What differs
//!
//! The node at hand, from which paths go on, is at first the element in which everything is, not the document above it. So
//! `position()` and `last()` have a meaning in brackets only, and are refused elsewhere. Where libxml2 differs from the standard, the
//! standard is followed: numbers are written without exponents and with as many digits as tell them apart, texts with an exponent are
//! no numbers, and what follows an attribute includes its element's content. Without document type declarations, `id()` finds elements
//! by `xml:id`.
//!
//! # Limits
//!
//! An expression has at most [`MOST_BYTES`] bytes, parentheses and brackets at most 64 levels deep, and at most 1000 operators in a
//! row. An evaluation takes at most as many steps as its caller allows, else it ends with [`StepLimitExceeded`]: every node that is
//! looked at is a step, or a part of one, and so is text that is put together, searched or translated. [`xml::parse`] says what it
//! refuses, and so does [`XmlTree::parse`](tree::XmlTree::parse), which does the same but for document types.

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
pub use evaluate::{NodeRef, StepLimitExceeded, XPathValue, evaluate, evaluate_from, holds, places, start};
pub use expression::{AXES, Axis, CoreFunction, Expr, LocationPath, NodeTest, PathStart, Predicate, ResultType, Step, XPath, XPathOperator};
pub use name::{ExpandedName, name_hash};
pub use numbers::{show_number, to_number};
pub use parse::{MOST_BYTES, XPathError};
