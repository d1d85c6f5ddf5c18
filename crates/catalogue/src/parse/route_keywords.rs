//! The keywords of routes: paths that a server answers because the definition declares them.

use super::keywords::{BOOLEAN, Keyword, NAMES, ONE_OF, SCALAR, SURVIVORSHIP, TEXT, TYPE, word};

/// How declared routes are served.
pub const SERVE: &[Keyword] = &[
    word("error", TEXT, "The member that holds the message when errors are returned as a JSON object; default: problem details (RFC 9457)."),
    word("unknown", r#"{"enum":["refuse","ignore"]}"#, "What is done with parameters that a route does not have; default: refuse."),
    word("origins", NAMES, "Origins, such as https://example.org, whose web pages may call the routes (CORS); '*' for all."),
    word(
        "repository",
        r##"{"$ref":"#/$defs/repository"}"##,
        "Who publishes records for other systems, which fetch them by OAI-PMH and search them by SRU.",
    ),
];

/// How a catalogue presents itself.
pub const REPOSITORY: &[Keyword] = &[
    word("name", TEXT, "The name of the repository."),
    word("email", TEXT, "The address of the people who run it."),
    word("domain", TEXT, "The domain in the identifiers of records; default: that of the address."),
    word("url", TEXT, "The URL of the server as others see it, without a path: https://catalogue.example.org."),
];

/// How MARC records are composed.
pub const COMPOSE: &[Keyword] = &[
    word(
        "survivorship",
        SURVIVORSHIP,
        "Whose document the record begins as: latest, earliest or { prefer: [sources] }; default: the collection's survivorship.",
    ),
    word(
        "with",
        r#"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}}]}"#,
        "Links to this collection (COLLECTION.LINK): the documents of the records that link to a record are composed, too.",
    ),
    word(
        "protect",
        r#"{"type":"object","additionalProperties":{"oneOf":[{"type":["string","number"]},{"type":"array","items":{"type":["string","number"]}}]}}"#,
        "Fields (MARCspecs such as 590, 9.. or 650{$2=\\local}) that a source keeps, whoever the others are from; the source named first counts first.",
    ),
    word(
        "union",
        r#"{"oneOf":[{"type":["string","number"]},{"type":"array","items":{"type":["string","number"]}}]}"#,
        "Fields of which every contributor gives its own, each once.",
    ),
    word(
        "other_numbers",
        SCALAR,
        "The tag of the field for the control numbers (001, after 003 in parentheses) of the other contributors, such as 035.",
    ),
    word(
        "defaults",
        r#"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}}"#,
        "Fields of records that have none of their tag: indicators and subfields as in line mode, or a list of these.",
    ),
];

/// How the records of a collection are shown to other systems.
pub const PUBLISH: &[Keyword] = &[word(
    "dc",
    r#"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}}]}}"#,
    "Elements of Dublin Core, each with a field or CEL over fields, or a list of these; fields that are called like an element need no mention.",
)];

/// A route.
pub const ROUTE: &[Keyword] = &[
    word("get", TEXT, "The path, with parameters in braces; `?name=value` at its end: only requests with this parameter come to the route."),
    word("post", TEXT, "The same for POST."),
    word("put", TEXT, "The same for PUT."),
    word("patch", TEXT, "The same for PATCH."),
    word("delete", TEXT, "The same for DELETE."),
    word(
        "params",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/param"}]}}"##,
        "Parameters, in the path, the query string or the body.",
    ),
    word("open", BOOLEAN, "Whether it needs no token; it then finds and writes nothing."),
    word("errors", r#"{"enum":["declared","text"]}"#, "text: errors are plain text; default: as all routes have them."),
    word(
        "find",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/find"}}"##,
        "In steps: what is looked up, by name, one after the other; later expressions use the names.",
    ),
    word(
        "refuse",
        r##"{"type":"array","items":{"$ref":"#/$defs/refuse"}}"##,
        "In steps: conditions under which the request is refused, each as soon as everything it names has been found.",
    ),
    word(
        "write",
        r##"{"type":"array","items":{"$ref":"#/$defs/write"}}"##,
        "In steps: the records that are written, in one transaction, if what was found is still so.",
    ),
    word("body", TEXT, "In steps: the body of the response, a name or CEL; without it and `answer` there is none."),
    word("code", r#"{"type":"integer","minimum":200,"maximum":299}"#, "In steps: the status of the response; default: 200."),
    word("type", r#"{"enum":["json","text"]}"#, "In steps: text if the body of the response is plain text; default: json."),
    word("missing", TEXT, "The message of the 404 response when there is no record."),
    word("distinct", BOOLEAN, "Return equal rows only once."),
    word("page", r##"{"$ref":"#/$defs/page"}"##, "The part of the rows that is answered."),
    word(
        "answer",
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        "Members of the answer; default: the rows alone. rows and total; of `ask` also status, at, seconds, query, parsed, cached, services, reason, warning; in steps names and CEL.",
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
    word(
        "view",
        TEXT,
        "The parameter with the form of the response: json, plain (lines of text), or list or table, which lead to the page of the query.",
    ),
    word(
        "where",
        r#"{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}}"#,
        "Word of queries to the parameter that gives its value, if the query has no condition on the word and it means something there.",
    ),
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

/// Keywords of what a route in steps finds.
pub const FIND: &[Keyword] = &[
    word("query", TEXT, "Conditions of the query language, as text; with `where`, both must hold."),
    word("tags", r##"{"$ref":"#/$defs/name"}"##, "The collection whose tags are found, instead of records."),
    word("key", TEXT, "The name of the one tag that is found."),
    word("when", TEXT, "The condition under which it is looked for; otherwise nothing is found."),
    word("distinct", BOOLEAN, "Return equal rows only once."),
    word("page", r##"{"$ref":"#/$defs/page"}"##, "The part of the rows that is found; the result has the members rows and total."),
];

/// A record that a route in steps writes.
pub const WRITE: &[Keyword] = &[
    word("create", r##"{"$ref":"#/$defs/name"}"##, "The collection of a record that must be new."),
    word(
        "put",
        r##"{"$ref":"#/$defs/name"}"##,
        "The collection of a record that gets these fields, and no others that a route or an edit has written.",
    ),
    word("patch", r##"{"$ref":"#/$defs/name"}"##, "The collection of a record whose fields change."),
    word("delete", r##"{"$ref":"#/$defs/name"}"##, "The collection of a record that is deleted; nothing is done if it does not exist."),
    word("transition", TEXT, "A transition that is done."),
    word("tag", r#"{"enum":["create","change","delete","evaluate","assign"]}"#, "What is done with a tag."),
    word("of", r##"{"$ref":"#/$defs/name"}"##, "The collection of the transition's record, or of the tag."),
    word("each", TEXT, "A list: one record is written for each element, which is called `item`."),
    word("when", TEXT, "The condition under which it is written."),
    word("key", TEXT, "The record's key, or the tag's name; of create and put it follows from the fields."),
    word("query", TEXT, "Of a transition, instead of a key: conditions of the query language; it is done with one of the records that they find."),
    word(
        "required",
        r#"{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":{"type":"string"}}"#,
        "{ STATUS: MESSAGE } if there is no record that `query` finds and that allows the transition; default: 409.",
    ),
    word(
        "fields",
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        "Fields and their values, CEL; of a tag its name, xpath, query, comment and attributes.",
    ),
    word("add", TEXT, "The keys of the records that gain the tag."),
    word("remove", TEXT, "The keys of the records that lose it."),
    word("args", r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "Arguments of the transition and their values, CEL."),
    word(
        "taken",
        r#"{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":{"type":"string"}}"#,
        "{ STATUS: MESSAGE } if the record or tag exists already, or another record has a unique value; default: 409.",
    ),
];

/// A condition other than equality.
pub const MATCH: &[Keyword] = &[
    word("prefix", TEXT, "Text that begins with params.NAME."),
    word("contains", TEXT, "Text that has params.NAME inside."),
    word("like", TEXT, "Text that matches params.NAME, a pattern with * for any characters."),
    word("below", TEXT, "Less than params.NAME, or earlier."),
];

/// Pages of a route.
pub const PAGE: &[Keyword] = &[
    word("number", TEXT, "params.NAME, from 1."),
    word("size", TEXT, "params.NAME, rows of a page."),
    word("most", TEXT, "params.NAME: of more rows none are answered, only their number."),
];

/// A parameter.
pub const PARAM: &[Keyword] = &[
    word("type", TYPE, "The type; a list takes the parameter repeated."),
    word(
        "in",
        r#"{"enum":["query","body","whole_body","nowhere"]}"#,
        "Where the parameter is sent; default: query for get and delete, otherwise body (JSON or a form). whole_body: it is the body; nowhere: it is generated.",
    ),
    word("required", r#"{"type":["boolean","string"]}"#, "The parameter is required; a text is the message if it is missing."),
    word("wrong", TEXT, "The message if it is not of its type."),
    word("default", SCALAR, "Its value when it is not given."),
    word(
        "generate",
        r#"{"enum":["uuid","code"]}"#,
        "Its value when it is not given: a random UUID, or 12 letters and digits that are not mistaken for others.",
    ),
    word("schema", r#"{"type":"object"}"#, "The JSON Schema of a parameter of type json."),
    word("one_of", ONE_OF, "The values allowed."),
    word("min", r#"{"type":"number"}"#, "Smallest number allowed."),
    word("max", r#"{"type":"number"}"#, "Largest number allowed."),
];
