//! The query language: a collection, conditions on it, and stages that shape the answer.
//!
//! [`resolve`] takes the text of a query and gives the plan that a store executes: `language` parses the text and replaces aliases, `plan`
//! replaces tags and compiles. `assist` helps with writing queries. This is the grammar:
//!
//! ```text
//! query      = lookup { "|" stage }
//! lookup     = COLLECTION [ comparison ] { [","] condition }     a comparison right after the collection is of its key
//!            | condition { [","] condition } [","] COLLECTION { [","] condition }
//!            | "records" { [","] condition }                          of all collections
//! condition  = path comparison
//! comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | "in" list | "between" "[" value "," value "]" | "last" DURATION
//!            | ( "intersects" | "within" ) ( "bbox" "(" WEST "," SOUTH "," EAST "," NORTH ")" | geometry in quotes )
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
//!   size. After `each replica` there is a row for each replica, and conditions, order and aggregates are about that one. Of ranges, one
//!   number in them decides, and `count` counts numbers.
//! * `planned.exists` of a link is true where all records exist whose keys it has, false where one does not, and absent where it has none.
//! * `tag` is the list of the names of a record's tags. A tag that is a query stands for its conditions; it is asked for with `=`.
//! * Text of a `fold` field is compared and sorted in its folded form, and so are the values and patterns it is compared with;
//!   a blank next to `*` stays a blank. `unique`, `min` and `max` take texts as they are written.
//! * A timestamp written as a date (2018-01-31 or 20180131) is the whole day: `=` any moment of it, `<=` and the end of
//!   `between` up to its last moment, `>` after it. `between` includes both ends. `in` and `!=` do not take days. `last 24h`
//!   is from then until now, both included.
//! * `footprint intersects bbox(170, -20, -170, 20)` holds where the two have a point in common, `within` where all points of the footprint are
//!   points of the other. Boundaries belong to both. A box whose west is greater than its east lies across the antimeridian. Instead of
//!   a box there may be a geometry in quotes: WKT, GeoJSON, or a literal of OData.
//! * A word of the definition (`words:`) in the place of a collection selects one; as a condition it tests the field that it stands for in
//!   the collection, by what its value looks like. `site=T1_*` alone asks for sites: where no name stands alone, the first one selects.
//! * A name that stands alone and whose collection does not know all conditions is a column of the first collection that does: `site dataset=D`
//!   asks for the sites of blocks, where sites know no datasets and blocks do.
//!   Of several names that stand alone (`file, run, lumi dataset=D`) the first collection of which all has a meaning is asked, and each is a
//!   column; where one is a member of structs, rows are of these, and conditions on them are about the row's own. Without the key among the
//!   columns, equal rows are one.
//! * `grep` with bare paths chooses columns and never drops rows. Without any, a row is the whole record, but for what is read through links of
//!   records that services are asked for: that must be named. The order in which
//!   stages of different kinds are written does not matter: conditions, then order, then columns, then `unique`, then the
//!   page; aggregates see all rows, not a page, and with `unique` the unique rows, of which they need a column.
//! * `unique` leaves one of each set of equal rows, over the whole answer, before the page is cut.
//! * Without `sort` rows come in the order of keys; with it the key decides between equals, so that pages never overlap.
//!   Unique rows come in the order of their columns, or by `sort` first, which then needs a column they have. Texts are ordered
//!   by bytes. Records without a value come first, in a descending order last. Lists and JSON cannot be sorted by; as columns of
//!   unique rows their order is always the same, but means nothing.
//! * `count` counts values, the elements of lists one by one, and so do the others; of nothing, they are nothing and `count`
//!   is 0. `median` of an even number is the mean of the two middle values.

mod assist;
mod language;
mod plan;

pub use assist::{COUNTED, Completion, Facet, FacetValue, Facets, MAX_TEXT, SUGGESTIONS, Suggestion, Vocabulary, complete, facets, suggest};
pub use language::{ComparisonOperator, FieldPath, GrepItem, NamedColumn, Query, QueryCondition, Selection, Stage, ValueLiteral};
pub use language::{MAX_CONDITIONS, MAX_PARTS, MAX_QUERY, MAX_STARS};
pub use language::{as_value, named_columns, parse};
pub use plan::{AllCollectionsQuery, CompiledQuery, ResultColumn, may_ask_all_collections, resolve_all_collections};
pub use plan::{TagQuery, check_tag, compile, tags_of};

use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::Diagnostic;
use stook_store::{Store, StoreError, Tenant};

/// The plan of a store for the text of a query, or what is wrong with the text. `now` is the time `last` counts back from, in microseconds.
///
/// ```
/// use std::sync::Arc;
/// use stook_query::resolve;
/// use stook_store::sqlite::{SqliteOptions, SqliteStore};
/// use stook_store::{DEFAULT_TENANT, Queries, Store, Tenant};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let definition = "
/// catalogue: library
/// collections:
///   book:
///     key: code
///     fields:
///       code: text
///       pages: { type: integer, index: equal }
/// ";
/// let catalogue = Arc::new(stook_catalogue::parse::parse(definition).map_err(|problems| format!("{problems:?}"))?);
/// # let folder = tempfile::tempdir()?;
/// # let file = folder.path().join("records.db");
/// let store = SqliteStore::open(&file, catalogue.clone(), SqliteOptions::default())?;
/// let tenant = Tenant::new(DEFAULT_TENANT)?;
///
/// let found = resolve("book pages>300 | grep code", &catalogue, &store, &tenant, store.clock())?;
/// let compiled = found.map_err(|problem| problem.message)?;
/// assert_eq!(compiled.columns[0].name, "code");
/// assert!(store.find(&compiled.plan)?.rows.is_empty());
///
/// let problem = resolve("book pagse>300", &catalogue, &store, &tenant, store.clock())?.err().ok_or("no problem")?;
/// assert_eq!((problem.span, problem.help.as_deref()), (5..10, Some("did you mean `pages`?")));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the store fails, which is read for tags alone; inside, what is wrong with the query, with its place.
pub fn resolve(
    text: &str,
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
    now: i64,
) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    match parse(text) {
        Ok(query) => plan::resolve_parsed(query, catalogue, store, tenant, now),
        Err(problem) => Ok(Err(problem)),
    }
}
