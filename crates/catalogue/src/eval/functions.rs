//! Every function of expressions in one table: its name, types, effect and an example. The type checker, the evaluator and `stook help expressions`
//! read the table; tests check that docs/definition.md repeats it, and evaluate every example.
//!
//! A function returns null if an argument is null, unless its entry says that null counts.

mod cleaners;
mod geometries;
mod identifiers;
mod patterns;
mod structs;
mod text;

pub use cleaners::{ABBREVIATIONS, CLEANERS, Cleaner};
pub(crate) use patterns::regex;
pub(crate) use text::MAX_TEXT_BYTES;
pub use text::quoted;

use crate::eval::convert::{CelValue as Cel, text_to_cel};
use crate::eval::tables::{ConstantTables, TableValue};
use crate::value::{FieldType, PartialDate, Value};
use cel::common::ast::{CallExpr, Expr, IdedExpr};
use cel::common::value::{CowVal, Val};
use cel::objects::{Key as CelKey, Map as CelMap};
use cel::{Context, Env};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// A function of expressions.
#[derive(Debug)]
pub struct FunctionSpec {
    /// Its name.
    pub name: &'static str,
    /// How it is written, `fold(text)` or `text.contains(text)`.
    pub form: CallForm,
    /// Its arguments and result, one signature for each way to call it: `substring(text, integer) -> text?`. A `?` means that the result may be null
    /// even if no argument is.
    pub signatures: &'static [&'static str],
    /// What it does, one sentence.
    pub about: &'static str,
    /// An example.
    pub example: &'static str,
    /// The example's value, as JSON.
    pub value: &'static str,
    /// Whether it is called with null arguments; other functions then return null.
    pub null_counts: bool,
}

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallForm {
    /// `fold(text)`
    Global,
    /// `text.contains(text)`
    Member,
    /// Either.
    Both,
    /// With a name for elements: `list.map(x, x + 1)`; or `has`.
    Macro,
}

const fn entry(
    name: &'static str,
    form: CallForm,
    signatures: &'static [&'static str],
    about: &'static str,
    (example, value): (&'static str, &'static str),
) -> FunctionSpec {
    FunctionSpec { name, form, signatures, about, example, value, null_counts: false }
}

const fn counting_null(function: FunctionSpec) -> FunctionSpec {
    FunctionSpec { null_counts: true, ..function }
}

use CallForm::{Both, Global, Macro, Member};

/// The functions, in the order of the documentation.
#[rustfmt::skip]
pub const FUNCTIONS: &[FunctionSpec] = &[
    counting_null(entry("coalesce", Global, &["coalesce(any, ...) -> any?"], "the first argument that is not null",
        ("coalesce(null, 'b', 'c')", "\"b\""))),
    entry("has", Macro, &["has(member) -> boolean"], "whether a member has a value",
        ("has({'a': 1, 'b': null}.a)", "true")),
    entry("size", Both, &["size(text) -> integer", "size([any]) -> integer", "size(struct) -> integer", "size(bytes) -> integer"],
        "the number of characters, elements, members or bytes", ("size('abc') + size([1, 2])", "5")),
    entry("squash", Global, &["squash(text) -> text", "squash([any]) -> text"],
        "a text, or the texts of a list, with runs of white space replaced by single spaces", ("squash([' Ann ', null, 'B.  Lee'])", "\"Ann B. Lee\"")),
    entry("trim", Global, &["trim(text) -> text", "trim(text, text) -> text"],
        "the text without leading and trailing white space, or without the characters of another text at its ends", ("trim('[S.l.] :', '[]: ')", "\"S.l.\"")),
    entry("isbd", Global, &["isbd(text) -> text"],
        "the text without punctuation of ISBD at its end: `/`, `:`, `;` and `=` after white space, commas, and a full stop that belongs to no abbreviation",
        ("isbd('The sea : a history /')", "\"The sea : a history\"")),
    entry("lower", Global, &["lower(text) -> text"], "the text in lower case", ("lower('Ärger')", "\"ärger\"")),
    entry("upper", Global, &["upper(text) -> text"], "the text in upper case", ("upper('Straße')", "\"STRASSE\"")),
    entry("replace", Global, &["replace(text, text, text) -> text"], "the text with each occurrence of the second text replaced by the third",
        ("replace('a;b;c', ';', ', ')", "\"a, b, c\"")),
    entry("split", Global, &["split(text, text) -> [text]"], "the pieces between characters of another text, without empty ones",
        ("split('a; b;;c', '; ')", "[\"a\",\"b\",\"c\"]")),
    entry("join", Global, &["join([text], text) -> text"], "the texts of a list with a separator between them; null in it is left out",
        ("join(['a', null, 'b'], ', ')", "\"a, b\"")),
    entry("quoted", Global, &["quoted(text) -> text", "quoted([text]) -> text"],
        "a text as a value in a query, in double quotes; of a list the list of these", ("'name in ' + quoted(['a', 'b \"c\"'])", "\"name in [\\\"a\\\", \\\"b \\\\\\\"c\\\\\\\"\\\"]\"")),
    entry("flatten", Global, &["flatten([[any]]) -> [any]"], "the elements of the lists in a list, as one list; a list that is null is left out",
        ("flatten([['a'], null, ['b', 'c']])", "[\"a\",\"b\",\"c\"]")),
    entry("strip_marks", Global, &["strip_marks(text) -> text"], "the text without accents and other combining marks", ("strip_marks('Dvořák')", "\"Dvorak\"")),
    entry("nfc", Global, &["nfc(text) -> text"], "the text with its combining marks composed (Unicode NFC)", ("size(nfc('e\\u0301'))", "1")),
    entry("digits", Global, &["digits(text) -> text?"], "the digits 0 to 9 of a text; null if it has none", ("digits('(DE-588)11850')", "\"58811850\"")),
    entry("isbn", Global, &["isbn(text) -> text?"],
        "the ISBN-13 without hyphens of the ISBN-10 or ISBN-13 at the beginning of a text; null if there is none or its check digit is wrong",
        ("isbn('0-306-40615-2 (pbk.)')", "\"9780306406157\"")),
    entry("issn", Global, &["issn(text) -> text?"],
        "the ISSN at the beginning of a text, with its hyphen; null if there is none or its check digit is wrong",
        ("issn('03785955 (online)')", "\"0378-5955\"")),
    entry("lccn", Global, &["lccn(text) -> text?"],
        "the normal form of a Library of Congress control number: no blanks, nothing from a slash on, six digits after a hyphen; null if it is none",
        ("lccn('n 78-89035 /AC')", "\"n78089035\"")),
    entry("fold", Global, &["fold(text) -> text"], "the text without differences of case, width and white space", ("fold('ÅSA')", "\"åsa\"")),
    entry("substring", Global, &["substring(text, integer) -> text?", "substring(text, integer, integer) -> text?"],
        "the characters from a position (counted from 0) to the end or to another position; null if the text is too short",
        ("substring('S1A_IW', 0, 3)", "\"S1A\"")),
    entry("first_day", Global, &["first_day(text) -> text?"],
        "the first day of a date, month, year or range of them, as a date; null if all days before the last one are meant",
        ("first_day('1998-05')", "\"1998-05-01\"")),
    entry("last_day", Global, &["last_day(text) -> text?"],
        "the last day of a date, month, year or range of them, as a date; null if all days after the first one are meant",
        ("last_day('1998/2000')", "\"2000-12-31\"")),
    entry("contains", Member, &["text.contains(text) -> boolean"], "whether a text is part of it", ("'abc'.contains('b')", "true")),
    entry("startsWith", Member, &["text.startsWith(text) -> boolean"], "whether it begins with a text", ("'abc'.startsWith('ab')", "true")),
    entry("endsWith", Member, &["text.endsWith(text) -> boolean"], "whether it ends with a text", ("'abc'.endsWith('bc')", "true")),
    entry("matches", Both, &["matches(text, text) -> boolean"], "whether a regular expression matches somewhere in the text",
        ("'S1A_IW'.matches('^S1[AB]')", "true")),
    entry("lookup", Global, &["lookup(table, text) -> text?", "lookup(table, integer) -> text?"],
        "the value of a key in a constant table of `lookups`, a text or a list of texts; the table's `else` for other keys and null",
        ("lookup('kinds', 'B')", "\"business\"")),
    entry("keys", Global, &["keys(table) -> [text]"], "the keys of a constant table of `lookups`", ("keys('kinds')", "[\"B\"]")),
    entry("without", Global, &["without(struct, [text]) -> struct"], "a struct, or JSON object, without some members",
        ("without({'a': 1, 'b': 2}, ['b'])", "{\"a\":1}")),
    entry("merge", Global, &["merge(struct, struct) -> struct"], "two structs, or JSON objects, as one; members of the second one count first",
        ("merge({'a': 1, 'b': 2}, {'b': 3})", "{\"a\":1,\"b\":3}")),
    entry("compact", Global, &["compact(struct) -> struct"], "a struct, or JSON object, without members that are null, false, 0 or empty",
        ("compact({'a': 1, 'b': '', 'c': []})", "{\"a\":1}")),
    entry("by_member", Global, &["by_member([struct], text) -> struct"],
        "the elements of a list as one struct, each under the text that it has in a member; of several with the same text the first, without those that have none",
        ("by_member([{'id': 'x', 'n': 1}, {'n': 2}], 'id')", "{\"x\":{\"id\":\"x\",\"n\":1}}")),
    entry("uuid5", Global, &["uuid5(text, text) -> text"], "the version 5 UUID of a text in the namespace of a name",
        ("uuid5('business', '1')", "\"9f278bee-351c-5a78-a5bb-0970a1a9b63f\"")),
    entry("md5", Global, &["md5(text) -> text"], "the MD5 digest, as hexadecimal digits", ("md5('abc')", "\"900150983cd24fb0d6963f7d28e17f72\"")),
    entry("hex", Global, &["hex(text) -> integer", "hex(integer) -> text"], "the number of hexadecimal digits, or the digits of a number",
        ("hex('04F9D1')", "326097")),
    entry("abs", Global, &["abs(integer) -> integer", "abs(float) -> float", "abs(duration) -> duration"], "the absolute value", ("abs(-2)", "2")),
    entry("sum", Global, &["sum([number]) -> number?", "sum([duration]) -> duration?"],
        "the sum of a list; null in it does not count, of nothing it is null", ("sum([1, 2, null])", "3")),
    counting_null(entry("min", Global, &["min([ordered]) -> ordered?", "min(ordered, ...) -> ordered?"],
        "the least of a list or of several values; null does not count", ("min(3, 1, null)", "1"))),
    counting_null(entry("max", Global, &["max([ordered]) -> ordered?", "max(ordered, ...) -> ordered?"],
        "the greatest of a list or of several values; null does not count", ("max([1.5, 7.0])", "7.0"))),
    entry("times", Global, &["times(duration, integer) -> duration", "times(duration, float) -> duration"], "a duration multiplied by a number",
        ("times(duration('2s'), 3)", "\"PT6S\"")),
    entry("strftime", Global, &["strftime(timestamp, text) -> text"], "a time as text in a format", ("strftime(timestamp('2020-01-02T00:00:00Z'), '%Y/%m')", "\"2020/01\"")),
    entry("geometry", Global, &["geometry(text) -> geometry", "geometry(struct) -> geometry", "geometry(geometry) -> geometry"],
        "the geometry of a text (WKT, GeoJSON or a literal of OData) or of GeoJSON; one that needs a repair is an error",
        ("geometry('POINT(14.5 50)')", "{\"type\":\"Point\",\"coordinates\":[14.5,50.0]}")),
    entry("area", Global, &["area(geometry) -> float"], "the area of a geometry on the Earth, in square metres; of points and lines it is 0",
        ("int(area(geometry('POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))')) / 1e6)", "12308")),
    entry("intersects", Global, &["intersects(geometry, geometry) -> boolean"], "whether two geometries have a point in common, if only of their boundaries",
        ("intersects(geometry('POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))'), geometry('POINT(1 0.5)'))", "true")),
    entry("within", Global, &["within(geometry, geometry) -> boolean"], "whether all points of a geometry are points of another one, if only of its boundary",
        ("within(geometry('POINT(1 0.5)'), geometry('POLYGON((0 0, 1 0, 1 1, 0 1, 0 0))'))", "true")),
    entry("fraction", Global, &["fraction(geometry, geometry) -> float?"],
        "how much of a geometry's area lies in another one, from 0 to 1; null if it has no area",
        ("fraction(geometry('POLYGON((0 0, 2 0, 2 1, 0 1, 0 0))'), geometry('POLYGON((1 -1, 3 -1, 3 2, 1 2, 1 -1))'))", "0.5")),
    entry("areas_met", Global, &["areas_met(areas, geometry) -> [text]?"],
        "the names of the areas in a file of `areas` that have a point in common with a geometry, in order; null if the file is not there",
        ("areas_met('seas', geometry('POINT(3 55)'))", "[\"North Sea\"]")),
    entry("named_area", Global, &["named_area(areas, text) -> geometry?"],
        "the area of a name in a file of `areas`; null if there is none, or the file is not there",
        ("within(geometry('POINT(3 55)'), named_area('seas', 'North Sea'))", "true")),
    entry("string", Global, &["string(text) -> text", "string(integer) -> text", "string(float) -> text", "string(boolean) -> text",
        "string(timestamp) -> text", "string(duration) -> text", "string(geometry) -> text", "string(bytes) -> text", "string(unsigned) -> text"],
        "a value as text; a geometry as WKT", ("string(12)", "\"12\"")),
    entry("int", Global, &["int(text) -> integer", "int(integer) -> integer", "int(float) -> integer", "int(unsigned) -> integer", "int(timestamp) -> integer"],
        "a text or number as an integer; of a time the seconds since 1970", ("int('12')", "12")),
    entry("double", Global, &["double(text) -> float", "double(integer) -> float", "double(float) -> float", "double(unsigned) -> float"],
        "a text or number as a float", ("double(1)", "1.0")),
    entry("uint", Global, &["uint(text) -> unsigned", "uint(integer) -> unsigned", "uint(float) -> unsigned", "uint(unsigned) -> unsigned"],
        "a text or number as an integer without a sign", ("uint('12')", "12")),
    entry("bool", Global, &["bool(text) -> boolean", "bool(boolean) -> boolean"], "a text such as 'true' as a boolean", ("bool('true')", "true")),
    entry("bytes", Global, &["bytes(text) -> bytes", "bytes(bytes) -> bytes"], "the UTF-8 bytes of a text", ("size(bytes('ä'))", "2")),
    entry("duration", Global, &["duration(text) -> duration", "duration(duration) -> duration"], "a text such as '90s' or '1h30m' as a duration",
        ("duration('1h30m')", "\"PT1H30M\"")),
    entry("timestamp", Global, &["timestamp(text) -> timestamp", "timestamp(integer) -> timestamp", "timestamp(timestamp) -> timestamp"],
        "a text (RFC 3339), or seconds since 1970, as a time", ("timestamp('2020-01-02T00:00:00Z')", "\"2020-01-02T00:00:00Z\"")),
    counting_null(entry("type", Global, &["type(any) -> text"], "the name of a value's type", ("type(1) == type(2)", "true"))),
    counting_null(entry("dyn", Global, &["dyn(any) -> json"], "the value itself, exempt from type checking", ("dyn(1) == 1", "true"))),
    entry("map", Macro, &["list.map(x, any) -> [any]", "list.map(x, boolean, any) -> [any]"], "the result of an expression for each element",
        ("[1, 2].map(x, x * 2)", "[2,4]")),
    entry("filter", Macro, &["list.filter(x, boolean) -> list"], "the elements that satisfy a condition", ("[1, 2].filter(x, x > 1)", "[2]")),
    entry("exists", Macro, &["list.exists(x, boolean) -> boolean"], "whether a condition holds for any element", ("[1, 2].exists(x, x > 1)", "true")),
    entry("exists_one", Macro, &["list.exists_one(x, boolean) -> boolean"], "whether a condition holds for exactly one element",
        ("[1, 2].exists_one(x, x > 1)", "true")),
    entry("all", Macro, &["list.all(x, boolean) -> boolean"], "whether a condition holds for all elements", ("[1, 2].all(x, x > 1)", "false")),
    entry("getFullYear", Member, &["timestamp.getFullYear() -> integer", "timestamp.getFullYear(text) -> integer"],
        "the year, in UTC or in a time zone; the same for the functions that follow", ("timestamp('2020-01-02T00:00:00Z').getFullYear()", "2020")),
    entry("getMonth", Member, &["timestamp.getMonth() -> integer", "timestamp.getMonth(text) -> integer"], "the month, from 0",
        ("timestamp('2020-01-02T00:00:00Z').getMonth()", "0")),
    entry("getDate", Member, &["timestamp.getDate() -> integer", "timestamp.getDate(text) -> integer"], "the day of the month, from 1",
        ("timestamp('2020-01-02T00:00:00Z').getDate()", "2")),
    entry("getDayOfMonth", Member, &["timestamp.getDayOfMonth() -> integer", "timestamp.getDayOfMonth(text) -> integer"], "the day of the month, from 0",
        ("timestamp('2020-01-02T00:00:00Z').getDayOfMonth()", "1")),
    entry("getDayOfYear", Member, &["timestamp.getDayOfYear() -> integer", "timestamp.getDayOfYear(text) -> integer"], "the day of the year, from 0",
        ("timestamp('2020-01-02T00:00:00Z').getDayOfYear()", "1")),
    entry("getDayOfWeek", Member, &["timestamp.getDayOfWeek() -> integer", "timestamp.getDayOfWeek(text) -> integer"], "the day of the week, from 0, Sunday",
        ("timestamp('2020-01-02T00:00:00Z').getDayOfWeek()", "4")),
    entry("getHours", Member, &["timestamp.getHours() -> integer", "timestamp.getHours(text) -> integer", "duration.getHours() -> integer"],
        "the hour; of a duration its whole hours", ("duration('90m').getHours()", "1")),
    entry("getMinutes", Member, &["timestamp.getMinutes() -> integer", "timestamp.getMinutes(text) -> integer", "duration.getMinutes() -> integer"],
        "the minute; of a duration its whole minutes", ("duration('90m').getMinutes()", "90")),
    entry("getSeconds", Member, &["timestamp.getSeconds() -> integer", "timestamp.getSeconds(text) -> integer", "duration.getSeconds() -> integer"],
        "the second; of a duration its whole seconds", ("duration('90m').getSeconds()", "5400")),
    entry("getMilliseconds", Member,
        &["timestamp.getMilliseconds() -> integer", "timestamp.getMilliseconds(text) -> integer", "duration.getMilliseconds() -> integer"],
        "the millisecond; of a duration its whole milliseconds", ("duration('1500ms').getMilliseconds()", "1500")),
];

/// Rules for all expressions, as sentences.
pub const RULES: [&str; 5] = [
    "An absent value stays absent: operators and functions with a null operand return null, and so do members of null, missing members and positions outside a list. Only `==`, `!=`, `in` (of the value that is looked for), `has`, `coalesce`, `min`, `max`, `type` and the key of `lookup` see null as a value.",
    "A null condition does not hold: `a ? b : c` is then c. Beside null, `false && ...` is false and `true || ...` is true; else they are null.",
    "Types are those of fields; dates and UUIDs are texts, sizes are integers, ranges are lists of pairs, and the GeoJSON of geometries is JSON. Integers and floats mix; `a / b` of durations is a float, and a duration can be multiplied and divided by a number. JSON may be anything, and its type is not checked.",
    "`stook check` rejects what can never work: operators and functions on values of other types, comparisons of values that are never equal, members that are not there, conditions that are not true or false, values that do not fit their field, keys that may be null.",
    "Some errors show only with a document: a division by zero, a text that is no number, time or geometry, a number that is too large, a text of more than 1 MiB, or a list of more than 1 000 000 elements, that an expression puts together, a time outside of the years -9999 to 9999, JSON that is something else, loops of more than 1 000 000 steps, geometries whose edges cross too often to be compared. The value is left out, with a warning that names field, expression and document.",
];

/// Returns the function called `name`.
pub fn function(name: &str) -> Option<&'static FunctionSpec> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvalError {
    /// A value has the wrong type. If all types are known, the type check has already refused this.
    TypeMismatch(String),
    /// An error that depends on the values: a division by zero, a text that is not a number, a number that is too large.
    Runtime(String),
}

impl EvalError {
    /// Returns the message.
    pub fn message(&self) -> &str {
        match self {
            EvalError::TypeMismatch(message) | EvalError::Runtime(message) => message,
        }
    }
}

/// A value, or why there is none.
pub(crate) type EvalResult = Result<Cel, EvalError>;

pub(crate) fn failed(message: impl Into<String>) -> EvalError {
    EvalError::Runtime(message.into())
}

pub(crate) fn too_large() -> EvalError {
    failed("the result is too large")
}

/// Returns the kind of a value, for messages.
pub(crate) fn kind_of(value: &Cel) -> &'static str {
    match value {
        Cel::Null => "null",
        Cel::Bool(_) => "a boolean",
        Cel::Int(_) => "an integer",
        Cel::UInt(_) => "an unsigned integer",
        Cel::Float(_) => "a float",
        Cel::String(_) => "a text",
        Cel::Bytes(_) => "bytes",
        Cel::Timestamp(_) => "a timestamp",
        Cel::Duration(_) => "a duration",
        Cel::List(_) => "a list",
        Cel::Map(_) => "a struct",
        Cel::Opaque(_) => "a geometry",
        _ => "something else",
    }
}

/// Refuses durations that do not fit 64 bits of microseconds.
pub(crate) fn require_storable(value: Cel) -> EvalResult {
    match &value {
        Cel::Duration(length) if length.num_microseconds().is_none() => Err(too_large()),
        _ => Ok(value),
    }
}

/// Refuses numbers that are not finite.
pub(crate) fn finite(number: f64) -> EvalResult {
    if number.is_finite() { Ok(Cel::Float(number)) } else { Err(too_large()) }
}

/// Calls a function that is not a macro. Null arguments are handled before, unless null counts.
pub(crate) fn call(name: &str, args: &[Cel], tables: &ConstantTables) -> EvalResult {
    Ok(match (name, args) {
        ("coalesce", all) => all.iter().find(|value| !matches!(value, Cel::Null)).cloned().unwrap_or(Cel::Null),
        ("dyn", [value]) => value.clone(),
        ("size", [Cel::String(text)]) => Cel::Int(text.chars().count() as i64),
        ("size", [Cel::Bytes(bytes)]) => Cel::Int(bytes.len() as i64),
        ("size", [Cel::List(items)]) => Cel::Int(items.len() as i64),
        ("size", [Cel::Map(map)]) => Cel::Int(map.map.len() as i64),
        ("contains", [Cel::String(text), Cel::String(part)]) => Cel::Bool(text.contains(part.as_str())),
        ("startsWith", [Cel::String(text), Cel::String(part)]) => Cel::Bool(text.starts_with(part.as_str())),
        ("endsWith", [Cel::String(text), Cel::String(part)]) => Cel::Bool(text.ends_with(part.as_str())),
        ("matches", [Cel::String(text), Cel::String(pattern)]) => Cel::Bool(regex(pattern)?.is_match(text)),
        ("substring", [Cel::String(text), Cel::Int(from)]) => substring(text, *from, None),
        ("substring", [Cel::String(text), Cel::Int(from), Cel::Int(to)]) => substring(text, *from, Some(*to)),
        ("lookup", [Cel::String(table), key]) => {
            let table = tables.get(table.as_str()).ok_or_else(|| EvalError::TypeMismatch(format!("there is no table `{table}`")))?;
            let found = match key {
                Cel::String(key) => table.entry(key),
                Cel::Int(key) => table.entry(&key.to_string()),
                Cel::Null => table.default.as_ref(),
                other => return Err(unfit("lookup", std::slice::from_ref(other))),
            };
            found.map_or(Cel::Null, TableValue::to_cel)
        }
        ("keys", [Cel::String(table)]) => {
            let table = tables.get(table.as_str()).ok_or_else(|| EvalError::TypeMismatch(format!("there is no table `{table}`")))?;
            Cel::List(Arc::new(table.rows.keys().map(|key| text_to_cel(key)).collect()))
        }
        ("without", [Cel::Map(map), Cel::List(names)]) => {
            let dropped = |key: &CelKey| names.iter().any(|name| matches!((key, name), (CelKey::String(key), Cel::String(name)) if key == name));
            let remaining: HashMap<CelKey, Cel> =
                map.map.iter().filter(|(key, _)| !dropped(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
            Cel::Map(CelMap { map: Arc::new(remaining) })
        }
        ("merge" | "compact" | "by_member", args) => return structs::call(name, args),
        ("first_day" | "last_day", [Cel::String(text)]) => edge_day(text, name == "first_day")?,
        ("uuid5", [Cel::String(name), Cel::String(text)]) => text_to_cel(&uuid5(name, text)),
        ("md5", [Cel::String(text)]) => text_to_cel(&md5(text)),
        ("hex", [Cel::String(digits)]) => {
            Cel::Int(i64::from_str_radix(digits, 16).map_err(|_| failed(format!("{} is not a hexadecimal number", shown(digits))))?)
        }
        ("hex", [Cel::Int(number)]) => text_to_cel(&format!("{number:X}")),
        ("abs", [Cel::Int(number)]) => Cel::Int(number.checked_abs().ok_or_else(too_large)?),
        ("abs", [Cel::Float(number)]) => Cel::Float(number.abs()),
        ("abs", [Cel::Duration(length)]) => Cel::Duration(length.abs()),
        ("sum", [Cel::List(items)]) => sum(items)?,
        ("min", all) => extreme(name, all, Ordering::Less)?,
        ("max", all) => extreme(name, all, Ordering::Greater)?,
        ("times", [length @ Cel::Duration(_), number]) => return multiply(length, number),
        ("strftime", [Cel::Timestamp(time), Cel::String(format)]) => {
            let micros = time.timestamp_micros();
            let time = jiff::Timestamp::from_microsecond(micros).map_err(|_| too_large())?.to_zoned(jiff::tz::TimeZone::UTC);
            let formatted = jiff::fmt::strtime::format(format.as_str(), &time);
            text::text_value(formatted.map_err(|_| failed(format!("{} is not a format of times", shown(format))))?)?
        }
        ("areas_met" | "named_area", [Cel::String(areas), of]) => return geometries::call_with_areas(name, areas, of, tables),
        ("geometry" | "area" | "intersects" | "within" | "fraction", _) | ("string" | "type", [Cel::Opaque(_)]) => {
            return geometries::call(name, args).unwrap_or_else(|| Err(unfit(name, args)));
        }
        ("string" | "int" | "double" | "uint" | "bool" | "bytes" | "duration" | "timestamp" | "type", [value]) => return call_standard(name, value),
        (part, [of @ (Cel::Timestamp(_) | Cel::Duration(_)), zone @ ..]) if part.starts_with("get") => return time_part(part, of, zone),
        _ => return text::call(name, args).unwrap_or_else(|| Err(unfit(name, args))),
    })
}

fn unfit(name: &str, args: &[Cel]) -> EvalError {
    let kinds: Vec<&str> = args.iter().map(kind_of).collect();
    EvalError::TypeMismatch(format!("`{name}` does not take {}", kinds.join(" and ")))
}

/// Quotes a text for a message, shortened.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
}

/// Returns the version 5 UUID of a text in the namespace of a name.
pub(crate) fn uuid5(name: &str, text: &str) -> String {
    let space = uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes());
    uuid::Uuid::new_v5(&space, text.as_bytes()).to_string()
}

pub(crate) fn md5(text: &str) -> String {
    use md5::Digest;
    let digits = b"0123456789abcdef";
    let digest = md5::Md5::digest(text.as_bytes());
    digest.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).map(char::from).collect()
}

/// Returns the characters from a position, counted from 0, to another position or the end; null if the text is too short.
fn substring(text: &str, from: i64, to: Option<i64>) -> Cel {
    let length = text.chars().count() as i64;
    let to = to.unwrap_or(length);
    if from < 0 || to < from || to > length {
        return Cel::Null;
    }
    Cel::String(Arc::new(text.chars().skip(from as usize).take((to - from) as usize).collect()))
}

/// Returns the first or the last day of a partial date; null if it is open on that side.
fn edge_day(text: &str, is_first: bool) -> EvalResult {
    let date = PartialDate::parse(text.trim()).ok_or_else(|| failed(format!("{} is not a date, a month, a year or a range of them", shown(text))))?;
    let day = if is_first { date.known_first() } else { date.known_last() };
    Ok(day.map_or(Cel::Null, |day| text_to_cel(&Value::Int(day).show(&FieldType::Date))))
}

/// Returns the sum of a list of numbers or durations; null elements do not count.
fn sum(items: &[Cel]) -> EvalResult {
    let mut total = Cel::Null;
    for item in items.iter().filter(|item| !matches!(item, Cel::Null)) {
        total = match (&total, item) {
            (Cel::Null, Cel::Int(_) | Cel::UInt(_) | Cel::Float(_) | Cel::Duration(_)) => item.clone(),
            (Cel::Null, other) => return Err(unfit("sum", std::slice::from_ref(other))),
            (total, item) => add(total, item).map_err(|fault| match fault {
                EvalError::TypeMismatch(_) => unfit("sum", &[total.clone(), item.clone()]),
                failed => failed,
            })?,
        };
    }
    Ok(total)
}

/// Returns the least or greatest value of a list, or of the arguments; null does not count.
fn extreme(name: &str, args: &[Cel], wanted: Ordering) -> EvalResult {
    let all = match args {
        [Cel::List(items)] => &items[..],
        several => several,
    };
    let mut best = Cel::Null;
    for value in all.iter().filter(|value| !matches!(value, Cel::Null)) {
        match compare(value, if matches!(best, Cel::Null) { value } else { &best }) {
            Some(ordering) if ordering == wanted || matches!(best, Cel::Null) => best = value.clone(),
            Some(_) => {}
            None => return Err(unfit(name, &[best, value.clone()])),
        }
    }
    Ok(best)
}

/// Returns the order of two values, if they have one.
pub(crate) fn compare(first: &Cel, second: &Cel) -> Option<Ordering> {
    match (first, second) {
        (Cel::Null, _) | (_, Cel::Null) => None,
        (Cel::Int(first), Cel::Float(second)) => (*first as f64).partial_cmp(second),
        (Cel::Float(first), Cel::Int(second)) => first.partial_cmp(&(*second as f64)),
        (first, second) => first.partial_cmp(second),
    }
}

/// Adds two values that are not null.
pub(crate) fn add(first: &Cel, second: &Cel) -> EvalResult {
    match (first, second) {
        (Cel::Int(first), Cel::Int(second)) => first.checked_add(*second).map(Cel::Int).ok_or_else(too_large),
        (Cel::String(first), Cel::String(second)) => text::join_limited([first.as_str(), second.as_str()], ""),
        (Cel::List(first), Cel::List(second)) if first.len() + second.len() > text::MAX_LIST_ELEMENTS => Err(text::too_many()),
        (Cel::Duration(_), Cel::Timestamp(_)) => operate(second.clone() + first.clone(), "+", first, second),
        _ => match floats(first, second) {
            Some((first, second)) => finite(first + second),
            None => operate(first.clone() + second.clone(), "+", first, second),
        },
    }
}

/// Subtracts two values that are not null.
pub(crate) fn subtract(first: &Cel, second: &Cel) -> EvalResult {
    match (first, second) {
        (Cel::Int(first), Cel::Int(second)) => first.checked_sub(*second).map(Cel::Int).ok_or_else(too_large),
        _ => match floats(first, second) {
            Some((first, second)) => finite(first - second),
            None => operate(first.clone() - second.clone(), "-", first, second),
        },
    }
}

/// Multiplies two values that are not null. A duration can be multiplied by a number.
pub(crate) fn multiply(first: &Cel, second: &Cel) -> EvalResult {
    match (first, second) {
        (Cel::Int(first), Cel::Int(second)) => first.checked_mul(*second).map(Cel::Int).ok_or_else(too_large),
        (Cel::Duration(length), Cel::Int(number)) | (Cel::Int(number), Cel::Duration(length)) => {
            let micros = length.num_microseconds().and_then(|micros| micros.checked_mul(*number));
            micros.map(|micros| Cel::Duration(chrono::Duration::microseconds(micros))).ok_or_else(too_large)
        }
        (Cel::Duration(length), Cel::Float(number)) | (Cel::Float(number), Cel::Duration(length)) => scaled(length, *number),
        _ => match floats(first, second) {
            Some((first, second)) => finite(first * second),
            None => operate(first.clone() * second.clone(), "*", first, second),
        },
    }
}

/// Divides two values that are not null: integers give an integer, durations a float.
pub(crate) fn divide(first: &Cel, second: &Cel) -> EvalResult {
    let is_zero = match second {
        Cel::Int(number) => *number == 0,
        Cel::UInt(number) => *number == 0,
        Cel::Float(number) => *number == 0.0,
        Cel::Duration(length) => length.is_zero(),
        _ => false,
    };
    match (first, second) {
        (Cel::Int(_) | Cel::UInt(_) | Cel::Float(_) | Cel::Duration(_), _) if is_zero => Err(failed("a division by zero")),
        (Cel::Int(first), Cel::Int(second)) => first.checked_div(*second).map(Cel::Int).ok_or_else(too_large),
        (Cel::Duration(first), Cel::Duration(second)) => match (first.num_microseconds(), second.num_microseconds()) {
            (Some(first), Some(second)) => finite(first as f64 / second as f64),
            _ => Err(too_large()),
        },
        (Cel::Duration(length), Cel::Int(number)) => {
            let micros = length.num_microseconds().and_then(|micros| micros.checked_div(*number));
            micros.map(|micros| Cel::Duration(chrono::Duration::microseconds(micros))).ok_or_else(too_large)
        }
        (Cel::Duration(length), Cel::Float(number)) => scaled(length, 1.0 / number),
        _ => match floats(first, second) {
            Some((first, second)) => finite(first / second),
            None => operate(first.clone() / second.clone(), "/", first, second),
        },
    }
}

/// Returns the remainder of integers that are not null.
pub(crate) fn remainder(first: &Cel, second: &Cel) -> EvalResult {
    match (first, second) {
        (Cel::Int(_), Cel::Int(0)) | (Cel::UInt(_), Cel::UInt(0)) => Err(failed("a division by zero")),
        (Cel::Int(first), Cel::Int(second)) => first.checked_rem(*second).map(Cel::Int).ok_or_else(too_large),
        (Cel::UInt(first), Cel::UInt(second)) => Ok(Cel::UInt(first % second)),
        _ => Err(EvalError::TypeMismatch(format!("`%` does not take {} and {}", kind_of(first), kind_of(second)))),
    }
}

fn scaled(length: &chrono::Duration, number: f64) -> EvalResult {
    let micros = length.num_microseconds().ok_or_else(too_large)? as f64 * number;
    if micros.abs() < 9.2e18 { Ok(Cel::Duration(chrono::Duration::microseconds(micros.round() as i64))) } else { Err(too_large()) }
}

/// Converts two numbers to floats if at least one is a float.
fn floats(first: &Cel, second: &Cel) -> Option<(f64, f64)> {
    match (first, second) {
        (Cel::Float(first), Cel::Float(second)) => Some((*first, *second)),
        (Cel::Int(first), Cel::Float(second)) => Some((*first as f64, *second)),
        (Cel::Float(first), Cel::Int(second)) => Some((*first, *second as f64)),
        _ => None,
    }
}

/// Converts the error of an operator of CEL.
fn operate(found: cel::ResolveResult, operator: &str, first: &Cel, second: &Cel) -> EvalResult {
    found.map_err(|error| match error {
        cel::ExecutionError::Overflow(..) => too_large(),
        _ => EvalError::TypeMismatch(format!("`{operator}` does not take {} and {}", kind_of(first), kind_of(second))),
    })
}

/// CEL's own functions.
static STANDARD: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

fn call_standard(name: &str, value: &Cel) -> EvalResult {
    if matches!(value, Cel::Null) && name == "type" {
        return Ok(text_to_cel("null_type"));
    }
    let fits = |error: cel::ExecutionError| EvalError::TypeMismatch(error.to_string());
    let argument: Box<dyn Val> = value.clone().try_into().map_err(fits)?;
    let args = vec![CowVal::Owned(argument)];
    let Some(function) = STANDARD.find_overload(name, &args) else { return Err(unfit(name, std::slice::from_ref(value))) };
    let found = match function(args) {
        Ok(found) => Cel::try_from(found.as_ref()).map_err(fits)?,
        Err(_) => {
            let wanted = match name {
                "int" => "an integer",
                "uint" => "an integer without a sign",
                "double" => "a number",
                "bool" => "a boolean",
                "duration" => "a duration, such as 90s or 1h30m",
                "timestamp" => "a timestamp (RFC 3339)",
                _ => "a text",
            };
            return Err(match value {
                Cel::String(text) => failed(format!("{} is not {wanted}", shown(text))),
                other => failed(format!("this value, {}, cannot be {wanted}", kind_of(other))),
            });
        }
    };
    match found {
        Cel::Float(number) => finite(number).map_err(|_| failed("this is not a finite number")),
        found => Ok(found),
    }
}

/// Returns a part of a time or duration, optionally in a time zone.
fn time_part(name: &str, of: &Cel, zone: &[Cel]) -> EvalResult {
    let ident = |name: &str| IdedExpr { id: 0, expr: Expr::Ident(name.to_owned()) };
    let args = if zone.is_empty() { Vec::new() } else { vec![ident("zone")] };
    let call = IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: Some(Box::new(ident("of"))), args }) };
    let mut context = Context::with_env(STANDARD.clone());
    context.add_variable_from_value("of", of.clone());
    if let Some(zone) = zone.first() {
        context.add_variable_from_value("zone", zone.clone());
    }
    Cel::resolve(&call, &context).map_err(|error| match (error, zone.first()) {
        (cel::ExecutionError::FunctionError { .. }, Some(Cel::String(zone))) => failed(format!("{} is not a time zone", shown(zone))),
        _ => unfit(name, &[std::slice::from_ref(of), zone].concat()),
    })
}
