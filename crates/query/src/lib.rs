//! The query language: a collection, conditions on it, and stages that shape the result.
//!
//! [`resolve`] takes the text of a query and returns the plan that a store executes: `language` parses the text and replaces aliases, `plan`
//! replaces tags and compiles. `assist` helps with writing queries. This is the grammar:
//!
//! ```text
//! query      = lookup { "|" stage } | words alone, which are searched for in all collections
//! lookup     = COLLECTION [ comparison ] { joint condition }     a comparison right after the collection is of its key
//!            | condition { joint condition } [","] COLLECTION { joint condition }
//!            | "records" { joint condition }                          of all collections
//! joint      = [ "," | "and" | "or" ]                               `or` separates alternatives, and binds less than the others
//! condition  = path comparison | "not" condition | "(" condition { joint condition } ")"
//! comparison = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value | "in" list | "between" "[" value "," value "]" | "last" DURATION
//!            | "~" words in quotes, or one word
//!            | ( "intersects" | "within" ) ( "bbox" "(" WEST "," SOUTH "," EAST "," NORTH ")" | geometry in quotes )
//! stage      = "grep" item { "," item } | "sort" order { "," order } | "unique" | "each" path | "limit" NUMBER
//!            | aggregate { "," aggregate } [ "by" group { "," group } ]
//! item       = path | condition { ( "and" | "or" ) condition }
//! order      = ( path | period | aggregate ) ["-"]
//! aggregate  = ( "sum" | "count" | "min" | "max" | "avg" | "median" ) "(" path ")" | "count" "(" "distinct" path ")" | "percentile" "(" path "," NUMBER ")"
//! group      = path | period
//! period     = ( "day" | "week" | "month" | "year" ) "(" path ")"
//! path       = [ COLLECTION "." ] { through } ( FIELD [ "." MEMBER ] | LINK ".exists" | "key" | "tag" | "conflict" | "rank" ) | COLLECTION       the collection's name stands for its key
//! through    = ( LINK | COLLECTION [ "." LINK ] ) "."                     to the linked records, or to those that lead here
//! list       = "[" value { "," value } "]"
//! value      = bare | "text in double quotes" | 'text in single quotes'
//! ```
//!
//! A bare value has no blanks, no quotes and none of `, | [ ] ( ) = < > !`. A DURATION is a value such as `24h`, `60m`, `7d`.
//!
//! The form is that of DAS-QL. Where that is ambiguous, the rules here are:
//!
//! * Conditions that follow each other must all hold, in the lookup and in `grep`; a `grep` condition means the same as one in the lookup. Of
//!   alternatives one must hold. `not` holds where its condition does not, be it because there is no value: `not pages>300` finds records without pages.
//!   `and`, `or` and `not` may be written in capitals; before a comparison they are names of fields.
//! * Values have the type of their field; a value that cannot be converted is an error with its position. Integers and sizes may be written
//!   `1e9`. JSON cannot be compared. A key that is a field has the type of that field: `run between [9, 10]` compares numbers.
//! * `*` in a text value of `=` and `!=` stands for any text, anywhere, and the pattern always covers the entire value. In single quotes it is a
//!   star. In double quotes `\"`, `\\` and `\*` are those characters.
//! * `title ~ "deep sea*"` holds if all words occur in a field with an index of words: a word, the beginning of one before `*`, or a phrase in double quotes
//!   inside of single ones. After the collection's name, `book ~ sea`, each word must occur in one of its fields with such an index. Without `sort`, records
//!   come in the order of their rank, [`stook_catalogue::words::WordSearch::rank`], which is the column `rank`.
//! * `!=` also holds for records without a value; no other comparison does. On a list field a comparison holds if it holds for any element; `!=`
//!   holds if no element is equal.
//! * A member of a list of structs is a list: `replica.site=T1_* replica.size>5` holds if any replica is at such a site and any has such a
//!   size. After `each replica` there is a row for each replica, and conditions, order and aggregates are about that one. A range satisfies a
//!   condition if one number in it does, and `count` counts numbers.
//! * `planned.exists`, for a link `planned`, is true if all records exist whose keys it has, false if one does not, and absent if it has no key.
//! * `planned.title` is the title of the linked record, absent if there is no such record. Of a list of keys it is the list of the titles of all records that
//!   exist, in the order of the keys. `book.authors.pages>300`, of authors, holds if a book whose `authors` lead here has so many pages; `book.pages` is the same if books have
//!   no other link to authors. So `!=` holds if none is equal. Links can follow each other, three at most; those that are followed backwards are only in conditions.
//! * `tag` is the list of the names of a record's tags. A tag that is a query stands for its conditions, and only `=` can be used with it.
//! * Text of a `fold` field is compared and sorted in its folded form, and so are the values and patterns it is compared with;
//!   a blank next to `*` stays a blank. `unique`, `min` and `max` take texts as they are written.
//! * A timestamp written as a date (2018-01-31 or 20180131) is the entire day: `=` is any moment of it, `<=` and the end of `between` are up to its
//!   last moment, `>` is after it. `between` includes both ends. `in` and `!=` do not take days. `last 24h` is from then until now, both included.
//! * `footprint intersects bbox(170, -20, -170, 20)` holds if the two have a point in common, `within` if all points of the footprint are
//!   points of the other. Boundaries belong to both. A box whose west is greater than its east lies across the antimeridian. Instead of
//!   a box there may be a quoted geometry: WKT, GeoJSON, or a literal of OData.
//! * An alias (`words:` of the definition) can be used instead of a collection that it selects; as a condition it tests the field that it means in
//!   the collection, which depends on the form of its value. `site=T1_*` alone finds sites: if there is no name without a comparison, the first name
//!   selects the collection.
//! * A single name without a comparison, whose collection does not have the fields of all conditions, is a column of the first collection that has:
//!   `site dataset=D` returns the sites of blocks, if sites have no datasets and blocks do. For several names without a comparison
//!   (`file, run, lumi dataset=D`) the query is about the first collection that has all the fields, and each name is a column; if one is a member
//!   of structs, rows are of these, and conditions on them are about the row's own struct. Unless the key is among the columns, equal rows are
//!   returned once.
//! * `grep` with bare paths chooses columns and never drops rows. Without any, a row is the entire record, except for what is read through links of
//!   records that are fetched from services: that must be named. The order in which stages of different kinds are written does not matter:
//!   conditions, then order, then columns, then `unique`, then `limit`, then the page; aggregates see all rows, not a page, and with `unique` the unique rows, of
//!   which they need a column.
//! * `unique` returns one of each set of equal rows of the entire result, before the page is cut.
//! * Without `sort`, rows are ordered by key; with it, the key orders rows with equal values, so that pages never overlap. Unique rows are ordered by
//!   their columns, or first by `sort`, which then needs a column they have. Texts are ordered by bytes. Records without a value come first, in
//!   descending order last. Lists and JSON cannot be sorted by; as columns of unique rows their order is always the same, but has no meaning.
//! * `count` counts values, and the elements of lists one by one, as all aggregates do; of no values, `count` is 0 and the others have no value.
//!   `median` of an even number of values is the mean of the two middle ones. `percentile(f, 50)` is the median; between two values a percentile
//!   divides their distance in proportion.
//! * `by` after aggregates groups the rows: there is a row for each combination of values, absent ones included, with these values and the aggregates.
//!   A record with a list is in the group of each of its different elements. `day`, `week`, `month` and `year` take timestamps and dates, and return
//!   the date on which the period begins, in UTC; weeks begin on Monday. `sort` then takes the columns of the groups, which are also their
//!   order where it leaves groups equal, or is missing. Texts are grouped and sorted as they are written.

mod assist;
pub mod cql;
pub mod csv;
pub mod examples;
mod language;
mod plan;
pub mod reconcile;

pub use assist::{
    COUNTED, Completion, Facet, FacetValue, Facets, MAX_TEXT, SUGGESTIONS, Suggestion, Vocabulary, complete, facets, questions, suggest,
};
pub use language::{
    ComparisonOperator, ConditionTree, FieldPath, GrepItem, GroupFunction, GroupItem, NamedColumn, Query, QueryCondition, Selection, SortItem, Stage,
    ValueLiteral,
};
pub use language::{MAX_CONDITIONS, MAX_GROUP_COLUMNS, MAX_PARTS, MAX_QUERY, MAX_STARS};
pub use language::{as_value, consists_of, identity, named_columns, parse};
pub use plan::{AllCollectionsQuery, CompiledQuery, ResultColumn, may_query_all_collections, resolve_all_collections};
pub use plan::{ElementMember, Highlights, LinkedUse, QueryScope, TagQuery, check_tag, compile, compile_conditions, resolve_parsed};
pub use plan::{record_filter, tags_of, tags_that_name, words_alone};

use stook_catalogue::diagnostic::Diagnostic;
use stook_store::StoreError;

/// The plan of a store for the text of a query, or what is wrong with the text. `now` is the time `last` counts back from, in microseconds.
///
/// ```
/// use std::sync::Arc;
/// use stook_query::{QueryScope, resolve};
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
/// let scope = QueryScope::all(&catalogue, &store, &tenant);
/// let found = resolve("book pages>300 | grep code", &scope, store.clock())?;
/// let compiled = found.map_err(|problem| problem.message)?;
/// assert_eq!(compiled.columns[0].name, "code");
/// assert!(store.find(&compiled.plan)?.rows.is_empty());
///
/// let problem = resolve("book pagse>300", &scope, store.clock())?.err().ok_or("no problem")?;
/// assert_eq!((problem.span, problem.help.as_deref()), (5..10, Some("did you mean `pages`?")));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// When the store fails; it is read only for tags. The inner error says what is wrong with the query, with its position.
pub fn resolve(text: &str, scope: &QueryScope<'_>, now: i64) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    match parse(text) {
        Ok(query) => plan::resolve_parsed(query, scope, now),
        Err(problem) => Ok(Err(problem)),
    }
}
