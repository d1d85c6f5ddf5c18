//! The keywords of routes: paths that a server answers because the definition declares them.

use super::keywords::{BOOLEAN, Keyword, NAMES, ONE_OF, SCALAR, TEXT, TYPE, word};

/// How declared routes are served.
pub const SERVE: &[Keyword] =
    &[word("error", TEXT, "The member that holds the message when errors are returned as a JSON object; default: problem details (RFC 9457).")];

/// A route.
pub const ROUTE: &[Keyword] = &[
    word("get", TEXT, "The path, with parameters in braces."),
    word("post", TEXT, "The same for POST."),
    word("put", TEXT, "The same for PUT."),
    word("patch", TEXT, "The same for PATCH."),
    word("delete", TEXT, "The same for DELETE."),
    word(
        "params",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/param"}]}}"##,
        "Parameters, in the path, the query string or the body.",
    ),
    word("missing", TEXT, "The message of the 404 response when there is no record."),
    word("distinct", BOOLEAN, "Return equal rows only once."),
    word("page", r##"{"$ref":"#/$defs/page"}"##, "The part of the rows that is answered."),
    word(
        "answer",
        r#"{"type":"object","additionalProperties":{"enum":["rows","total","status","at","seconds","query","parsed","cached","services","reason","warning"]}}"#,
        "Members of the answer; default: the rows alone. All but rows and total are of `ask`.",
    ),
    word("ask", r##"{"$ref":"#/$defs/route_ask"}"##, "Runs the query given in a parameter."),
    word("transition", TEXT, "A transition to do."),
    word("of", r##"{"$ref":"#/$defs/name"}"##, "The collection of the transition's record."),
    word("key", TEXT, "The record's key, a template over parameters."),
    word("args", r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "Arguments of the transition: params.NAME."),
];

/// A query by a route.
pub const ROUTE_ASK: &[Keyword] = &[
    word("query", TEXT, "The parameter with the query."),
    word("offset", TEXT, "The parameter with how many rows are left out."),
    word("limit", TEXT, "The parameter with how many rows are answered; 0 for all that may be."),
    word("ticket", TEXT, "The parameter with the ticket: where services are still asked, the answer is 32 letters to come back with."),
    word("by_source", BOOLEAN, "Whether a row says what each source says of its record, under the collection's name."),
    word(
        "one_is_enough",
        BOOLEAN,
        "Whether `status` is ok where one source of a collection has answered completely; `warning` says what the others lack.",
    ),
    word("answers_mistakes", BOOLEAN, "Whether a query with a mistake is answered 200 with `status` fail and the `reason`, instead of 400."),
];

/// A lookup, of a route or included.
pub const LOOK: &[Keyword] = &[
    word("one", r##"{"$ref":"#/$defs/name"}"##, "The collection of the one record to look up."),
    word("list", r##"{"$ref":"#/$defs/name"}"##, "The collection of the records to look up."),
    word(
        "where",
        r##"{"type":"object","minProperties":1,"additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/match"}]}}"##,
        "Field (or key) to params.NAME, or to a field of the record this is included with. A parameter that is not given is no condition.",
    ),
    word("sort", NAMES, "Fields; a trailing - is largest first."),
    word(
        "include",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/include"}}"##,
        "Records of other collections that belong to these, by name.",
    ),
    word("fields", r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "What is shown: name to field, include.field or CEL."),
];

/// Keywords of includes only.
pub const INCLUDE: &[Keyword] = &[word(
    "required",
    r#"{"oneOf":[{"type":"boolean"},{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":{"type":"string"}}]}"#,
    "true: records without a match are left out; or an object { STATUS: MESSAGE } that fails the route.",
)];

/// A condition other than equality.
pub const MATCH: &[Keyword] =
    &[word("prefix", TEXT, "Text that begins with params.NAME."), word("contains", TEXT, "Text that has params.NAME inside.")];

/// Pages of a route.
pub const PAGE: &[Keyword] = &[
    word("number", TEXT, "params.NAME, from 1."),
    word("size", TEXT, "params.NAME, rows of a page."),
    word("most", TEXT, "params.NAME: of more rows none are answered, only their number."),
];

/// A parameter.
pub const PARAM: &[Keyword] = &[
    word("type", TYPE, "The type; a list takes the parameter repeated."),
    word("in", r#"{"enum":["query","body"]}"#, "Where the parameter is sent; default: query for get and delete, otherwise body."),
    word("required", r#"{"type":["boolean","string"]}"#, "The parameter is required; a text is the message if it is missing."),
    word("default", SCALAR, "Its value when it is not given."),
    word("one_of", ONE_OF, "The values allowed."),
    word("min", r#"{"type":"number"}"#, "Smallest number allowed."),
    word("max", r#"{"type":"number"}"#, "Largest number allowed."),
];
