//! The query language: a collection, conditions on it, and stages that shape the answer.
//!
//! ```text
//! query      = lookup { "|" stage }
//! lookup     = COLLECTION [ comparison ] { [","] condition }     a comparison right behind the collection is of its key
//!            | condition { [","] condition } [","] COLLECTION { [","] condition }
//!            | "records" { [","] condition }                          of all collections
//! condition  = path comparison
//! comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | "in" list | "between" "[" value "," value "]" | "last" DURATION
//! stage      = "grep" item { "," item } | "sort" path ["-"] { "," path ["-"] } | "unique" | "each" path | aggregate { "," aggregate }
//! item       = path | condition
//! aggregate  = ( "sum" | "count" | "min" | "max" | "avg" | "median" ) "(" path ")"
//! path       = [ COLLECTION "." ] ( FIELD [ "." MEMBER ] | LINK ".exists" | "key" | "tag" | "conflict" ) | COLLECTION       the collection's name stands for its key
//! list       = "[" value { "," value } "]"
//! value      = bare | "text in double quotes" | 'text in single quotes'
//! ```
//!
//! A bare value has no blanks, no quotes and none of `, | [ ] ( ) = < > !`. A DURATION is a value such as `24h`, `60m`, `7d`.
//!
//! The shape is that of DAS-QL. Where the original is ambiguous, the choice made here is:
//!
//! * All conditions hold together (AND), in the lookup and in `grep`; a `grep` condition means the same as one in the
//!   lookup. There is no OR: `in [..]` lists alternatives of one field.
//! * Values have the type of their field; what does not convert is an error at its column. Integers and sizes may be written
//!   `1e9`. JSON is not compared. A key that is a field has the type of that field: `run between [9, 10]` are numbers.
//! * `*` in a text value of `=` and `!=` stands for any text, anywhere, and the pattern always covers the whole value.
//!   In single quotes it is a star. In double quotes `\"`, `\\` and `\*` are those characters.
//! * `!=` also holds for records without a value; every other comparison does not. On a list field a comparison holds if it
//!   holds for any element; `!=` if no element is equal.
//! * A member of a list of structs is a list: `replica.site=T1_* replica.size>5` holds where any replica is at such a site and any has such a
//!   size. Behind `each replica` there is a row for each replica, and conditions, order and aggregates are about that one. Of ranges, one
//!   number in them decides, and `count` counts numbers.
//! * `planned.exists` of a link is true where all records exist whose keys it has, false where one does not, and absent where it has none.
//! * `tag` is the list of the names of a record's tags. A tag that is a query stands for its conditions; it is asked for with `=`.
//! * Text of a `fold` field is compared and sorted in its folded form, and so are the values and patterns it is compared with;
//!   a blank beside `*` stays a blank. `unique`, `min` and `max` take texts as they are written.
//! * A timestamp written as a date (2018-01-31 or 20180131) is the whole day: `=` any moment of it, `<=` and the end of
//!   `between` up to its last moment, `>` after it. `between` includes both ends. `in` and `!=` do not take days. `last 24h`
//!   is from then until now, both included.
//! * A word of the definition (`words:`) in the place of a collection selects one; as a condition it tests the field that it stands for in
//!   the collection, by what its value looks like. `site=T1_*` alone asks for sites: where no name stands alone, the first one selects.
//!   Of several names that stand alone (`file, run, lumi dataset=D`) the first collection of which all has a meaning is asked, and each is a
//!   column; where one is a member of structs, rows are of these, and conditions on them are about the row's own. Without the key among the
//!   columns, equal rows are one.
//! * `grep` with bare paths chooses columns and never drops rows. Without any, a row is the whole record. The order in which
//!   stages of different kinds are written does not matter: conditions, then order, then columns, then `unique`, then the
//!   page; aggregates see all rows, not a page, and with `unique` the unique rows, of which they need a column.
//! * `unique` leaves one of each set of equal rows, over the whole answer, before the page is cut.
//! * Without `sort` rows come in the order of keys; with it the key decides between equals, so that pages never overlap.
//!   Unique rows come in the order of their columns, or by `sort` first, which then needs a column they have. Texts are ordered
//!   by bytes. Records without a value come first, in a descending order last. Lists and JSON cannot be sorted by; as columns of
//!   unique rows their order is always the same, but means nothing.
//! * `count` counts values, the elements of lists one by one, and so do the others; of nothing, they are nothing and `count`
//!   is 0. `median` of an even number is the mean of the two middle values.

mod compile;
mod everywhere;
mod narrow;
mod parse;
mod suggest;
mod tags;
mod vocabulary;
mod words;

pub use compile::{CompiledQuery, ResultColumn, compile};
pub use everywhere::{AllCollectionsQuery, everywhere, may_be_everywhere};
pub use narrow::{COUNTED, Completion, Facet, Facets, as_value, complete, facets};
pub use parse::{ComparisonOperator, FieldPath, GrepItem, Query, QueryCondition, Selection, Stage, ValueLiteral, parse};
pub use suggest::{MOST_TEXT, SUGGESTIONS, Suggestion, Vocabulary, suggest};
pub use tags::{TagQueries, carried, check_tag, conditions_of, queries, resolve};

/// Longest query in bytes.
pub const MAX_QUERY: usize = 64 << 10;

/// Most conditions of a query; the values of a list do not count.
pub const MAX_CONDITIONS: usize = 200;

/// Most fields a query sorts by, and most aggregates.
pub const MAX_PARTS: usize = 100;

/// Most wildcards in a value.
pub const MAX_STARS: usize = 100;
