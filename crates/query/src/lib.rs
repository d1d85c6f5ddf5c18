//! The query language: a collection, conditions on it, and stages that shape the answer.
//!
//! ```text
//! query      = lookup { "|" stage }
//! lookup     = COLLECTION { [","] condition }
//!            | COLLECTION comparison                      the collection's name stands for its key
//! condition  = path comparison | path "in" list | path "between" "[" value "," value "]" | path "last" DURATION
//! comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
//! stage      = "grep" item { "," item } | "sort" path ["-"] { "," path ["-"] } | "unique" | aggregate { "," aggregate }
//! item       = path | condition
//! aggregate  = ( "sum" | "count" | "min" | "max" | "avg" | "median" ) "(" path ")"
//! path       = [ COLLECTION "." ] FIELD | "key" | "conflict"
//! list       = "[" value { "," value } "]"
//! value      = bare | "text in double quotes" | 'text in single quotes'
//! ```
//!
//! The shape is that of DAS-QL. Where the original is ambiguous, the choice made here is:
//!
//! * All conditions hold together (AND), in the lookup and in `grep`; a `grep` condition means the same as one in the
//!   lookup. There is no OR: `in [..]` lists alternatives of one field.
//! * Values have the type of their field; what does not convert is an error at its column.
//! * `*` in a text value of `=` and `!=` stands for any text, anywhere, and the pattern always covers the whole value.
//!   In single quotes it is a star. In double quotes `\"`, `\\` and `\*` are those characters.
//! * `!=` also holds for records without a value; every other comparison does not. On a list field a comparison holds if it
//!   holds for any element; `!=` if no element is equal.
//! * A timestamp written as a date (2018-01-31 or 20180131) is the whole day: `=` any moment of it, `<=` and the end of
//!   `between` up to its last moment, `>` after it. `between` includes both ends. `last 24h` is from then until now.
//! * `grep` with bare paths chooses columns and never drops rows. Without any, a row is the whole record. The order in which
//!   stages of different kinds are written does not matter: conditions, then order, then columns, then `unique`, then the
//!   page; aggregates see all rows, not a page.
//! * `unique` leaves one of each set of equal rows, over the whole answer, before the page is cut.
//! * Without `sort` rows come in the order of keys (unique rows in the order of their columns); with it the key decides
//!   between equals, so that pages never overlap. Texts are ordered by bytes. Records without a value come first.
//! * `count` counts values, the elements of lists one by one; `sum` of nothing is nothing; `median` of an even number is the
//!   mean of the two middle values.

mod compile;
mod parse;

pub use compile::{Compiled, Heading, compile};
pub use parse::{Comparison, Item, Lookup, Operator, Path, Query, Stage, ValueText, parse};

/// Longest query in bytes.
pub const MAX_QUERY: usize = 64 << 10;
