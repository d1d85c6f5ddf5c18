//! The keywords of the definition language: every key a definition may have, in one place.
//!
//! The parser and the JSON Schema both use this list, so they cannot disagree. Those of links and of what is
//! measured over them are in `link_keywords.rs`, those of routes in `route_keywords.rs`.

pub use super::link_keywords::*;
pub use super::route_keywords::*;

/// A keyword: its name, the JSON Schema of its value, and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct Keyword {
    /// The key as written.
    pub name: &'static str,
    /// JSON Schema of the value; `$ref`s point into `$defs` of the assembled schema.
    pub schema: &'static str,
    /// One sentence for editors.
    pub doc: &'static str,
}

pub(super) const fn word(name: &'static str, schema: &'static str, doc: &'static str) -> Keyword {
    Keyword { name, schema, doc }
}

pub(super) const TEXT: &str = r#"{"type":"string"}"#;
pub(super) const SCALAR: &str = r#"{"type":["string","number","boolean"]}"#;
pub(super) const CEL: &str = r#"{"type":"string","description":"a CEL expression"}"#;
pub(super) const NAMES: &str = r#"{"type":"array","items":{"type":"string"}}"#;
pub(super) const BOOLEAN: &str = r#"{"type":"boolean"}"#;
pub(super) const TYPE: &str = r##"{"$ref":"#/$defs/type"}"##;
pub(super) const ONE_OF: &str = r#"{"type":"array","minItems":1,"items":{"type":["string","number","boolean"]}}"#;
pub(super) const INDEX: &str = r##"{"$ref":"#/$defs/index"}"##;
const SHARE: &str = r#"{"type":"string","pattern":"^[0-9]+(\\.[0-9]+)?%$"}"#;
pub(super) const SURVIVORSHIP: &str = r##"{"$ref":"#/$defs/survivorship"}"##;

/// Top level.
pub const CATALOGUE: &[Keyword] = &[
    word("catalogue", r##"{"$ref":"#/$defs/name"}"##, "The catalogue's name."),
    word(
        "lookups",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/rows"},{"type":"array","items":{"$ref":"#/$defs/rows"}}]}}"##,
        "Constant tables: key to value, or to a list of values; `else` is the value of every other key. A list of rows is tried in order, each key as a regular expression on the beginning.",
    ),
    word(
        "areas",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/areas"}]}}"##,
        "Files of GeoJSON beside this one, with areas that have names: tiles, countries, masks. Expressions ask them by areas_met() and named_area().",
    ),
    word(
        "patterns",
        r##"{"type":"object","additionalProperties":{"type":"array","minItems":1,"items":{"type":"string"}}}"##,
        "Regular expressions with named groups, tried in order; the first that matches gives its groups.",
    ),
    word(
        "services",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/service"}}"##,
        "HTTP services from which documents are fetched when a query needs them.",
    ),
    word("sources", r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/source"}}"##, "Where documents come from."),
    word("collections", r##"{"type":"object","minProperties":1,"additionalProperties":{"$ref":"#/$defs/collection"}}"##, "Named sets of records."),
    word(
        "words",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/query_word"}}"##,
        "Aliases that queries can use for fields of several collections.",
    ),
    word(
        "profiles",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/profile"}}"##,
        "What an import does with documents that match a record and with those that do not.",
    ),
    word(
        "tenants",
        r##"{"type":"object","propertyNames":{"pattern":"^[a-z0-9_-]{1,64}$"},"additionalProperties":{"$ref":"#/$defs/tenant"}}"##,
        "Tenants' shares of the workers; `else` applies to tenants not listed.",
    ),
    word("serve", r##"{"$ref":"#/$defs/serve"}"##, "How declared routes are served."),
    word("routes", r##"{"type":"array","items":{"$ref":"#/$defs/route"}}"##, "Look-ups and transitions under paths of their own."),
];

/// A file of named areas.
pub const AREAS: &[Keyword] = &[
    word("file", TEXT, "A FeatureCollection of GeoJSON: its path from the folder of the definition."),
    word("name", TEXT, "The property with the name of each feature; default: name. Features of one name are one area."),
];

/// A source.
pub const SOURCE: &[Keyword] = &[
    word(
        "format",
        r#"{"enum":["marc","xml","json","csv","parquet","arrow"]}"#,
        "marc (ISO 2709, MARCXML, MARC-in-JSON and line mode), xml, json (array, single value or NDJSON; also the rows of Parquet and Arrow IPC, which parquet and arrow say, too) or csv (also a sheet of a spreadsheet: XLSX, XLSM, ODS); the file's own variant is found by content.",
    ),
    word(
        "records",
        TEXT,
        "xml: the name of the element that is one document (default: the outermost element is the document), after that of the element around them: `list/item`, or `list/*`. json: the list of documents in the top object (`$.value[*]`, `$.message.items[*]`), and where in its elements they stand (`$.value[*].content`); marc: the same for MARC-in-JSON. A file or an answer without that list is a failure.",
    ),
    word(
        "empty",
        TEXT,
        "A regular expression: where it finds something in the first 64 KiB of a file or an answer without documents, that is an empty one and no failure.",
    ),
    word(
        "tolerance",
        r#"{"enum":["repair","strict"]}"#,
        "marc: repair (the default) reads damaged records as far as that is possible, with a warning for each repair; strict refuses them.",
    ),
    word(
        "encoding",
        r#"{"enum":["auto","utf-8","marc-8","latin-1","cp1252"]}"#,
        "marc: how the bytes of ISO 2709 and of line mode are characters; auto (the default) is what leader position 9 says, unless the bytes are UTF-8. csv: utf-8 (the default), latin-1 or cp1252; UTF-16 is recognised by its byte order mark.",
    ),
    word(
        "files",
        r#"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}}]}"#,
        "A pattern, or a list of them, for the names of the files that are this source's own: `*` any characters, `?` one, `[a-z]` one of those. Names are without folder and without `.gz` or `.zst`. The source takes no other file unless it is named.",
    ),
    word(
        "has",
        TEXT,
        "Where names say too little: a path that finds something in the first document of a file that is this source's own; csv: a column of the header.",
    ),
    word(
        "header",
        r#"{"type":"array","minItems":1,"items":{"type":"string"}}"#,
        "csv: the names of the columns of a file that has no header. Without it the first row is the header.",
    ),
    word(
        "skip",
        r#"{"type":"integer","minimum":0,"maximum":1000}"#,
        "csv: the number of lines before the header, or before the first row where `header` is given; of a sheet, rows.",
    ),
    word(
        "null",
        r#"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}}]}"#,
        "csv: a text, or a list of texts, that stands for an absent value, such as `'\\N'` or `NA`. Empty values are always absent.",
    ),
    word(
        "delimiter",
        r#"{"type":"string","minLength":1,"maxLength":1}"#,
        "csv: the character between values. Without it, the one of `,` `;` tab and `|` that the header has most often.",
    ),
    word("sheet", TEXT, "csv: the name of the sheet of a spreadsheet. Without it, the first sheet is read."),
    word(
        "merged",
        r#"{"enum":["first","every"]}"#,
        "csv: which of the merged cells of a spreadsheet have their value: the first (default), or every one, so that each row has what was written once for several.",
    ),
    word(
        "short_rows",
        r#"{"enum":["fail","absent"]}"#,
        "csv: what a row with fewer values than the header is: a failure (default), or one whose last values are absent. Longer rows always fail.",
    ),
    word("namespaces", r#"{"type":"object","additionalProperties":{"type":"string"}}"#, "xml: prefixes used in paths."),
    word("into", r##"{"$ref":"#/$defs/name"}"##, "The one collection this source feeds; fields take their own paths."),
    word(
        "let",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/rule"}]}}"##,
        "Values computed once per document, shared by everything below.",
    ),
    word(
        "accept",
        r##"{"type":"array","items":{"$ref":"#/$defs/accept"}}"##,
        "Conditions on documents; documents that do not meet them fail or are skipped.",
    ),
    word(
        "expect",
        r##"{"type":"array","items":{"$ref":"#/$defs/expect"}}"##,
        "What each file must fulfil, as a whole, before any of its documents is imported; a file that does not is imported with a warning, or stopped.",
    ),
    word("gone", CEL, "True for a document that deletes its record."),
    word(
        "as_of",
        r#"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"oneOf":[{"enum":["meta.received"]},{"type":"string","not":{"const":"meta.received"}}]}}]}"#,
        "When the document was true: a field or `let` of type timestamp, `meta.received`, or CEL. A list, `[changed, meta.received]`: the first that is there; documents of one time are ordered by their reception.",
    ),
    word(
        "replaces",
        r##"{"$ref":"#/$defs/replaces"}"##,
        "Files are complete for a scope: a file without failures retires what older files contributed in the scope, from its earliest time on.",
    ),
    word("undo", TEXT, "How long `stook undo` can undo its jobs: `30d`. What they replace is kept as long."),
    word("collect", r##"{"$ref":"#/$defs/collect"}"##, "Services that `stook collect` asks for what is new."),
    word("asks", r##"{"$ref":"#/$defs/asks"}"##, "The service that is asked for its documents when a query needs them, and its calls."),
    word("contributor", TEXT, "Template for the contributor's name within the source, such as {interface}."),
    word("feeds", r##"{"type":"array","minItems":1,"items":{"$ref":"#/$defs/feed"}}"##, "The collections a document contributes to."),
    word(
        "embeds",
        r##"{"type":"object","minProperties":1,"additionalProperties":{"$ref":"#/$defs/embed"}}"##,
        "Documents inside its documents, as text, by the source whose documents they are. A malformed one is ignored with a warning.",
    ),
];

/// An embedded document.
pub const EMBED: &[Keyword] =
    &[word("path", TEXT, "Where its text stands."), word("name", TEXT, "What its file would be called, a template over `let` values: `{id}.xml`.")];

/// An alias.
pub const QUERY_WORD: &[Keyword] = &[
    word("select", r##"{"$ref":"#/$defs/name"}"##, "The collection that is asked for by the word."),
    word(
        "tests",
        r#"{"oneOf":[{"type":"object","additionalProperties":{"type":"string"}},{"type":"array","minItems":1,"items":{"type":"object","additionalProperties":{"type":"string"}}}]}"#,
        "The field that a condition on the word tests, by collection; a list of such by `shape`, a regular expression on the value, tried in order. `default`: the value that a query asks for that has no condition on the word.",
    ),
    word(
        "within",
        TEXT,
        "The word without whose value a value of this one says nothing, as a page without its volume: its column is shown, too, and pairs of both are counted.",
    ),
];

/// A service.
pub const SERVICE: &[Keyword] = &[
    word("url", TEXT, "Base URL of its calls; ${NAME} is replaced from the environment."),
    word("timeout", TEXT, "Time for one request; default 30s."),
    word("deadline", TEXT, "Time for all requests of one answer; 120s if nothing is said."),
    word("parallel", r#"{"type":"integer","minimum":1,"maximum":64}"#, "Requests at a time; 4 if nothing is said."),
    word("rate", r#"{"type":"integer","minimum":1}"#, "Most requests a second."),
    word("attempts", r#"{"type":"integer","minimum":1,"maximum":20}"#, "How often a request is tried; 4 if nothing is said."),
    word("most_bytes", SCALAR, "Most bytes of one response; 2GiB if nothing is said."),
    word("ttl", TEXT, "How long an answer is fresh, where the response does not say; 10m if nothing is said."),
    word("ttl_empty", TEXT, "The same for answers without documents; 20s if nothing is said."),
    word("ttl_failed", TEXT, "How long a failed request is not repeated; 10s if nothing is said."),
    word("ahead", TEXT, "How long before an answer expires a server fetches it again, if queries keep using it: `60s`."),
    word("wildcard", TEXT, "The wildcard in its arguments; * if nothing is said."),
    word("credentials", TEXT, "NAME of NAME_TOKEN, or of NAME_USER and NAME_PASSWORD, in the environment."),
];

/// `asks`.
pub const ASKS: &[Keyword] = &[
    word("service", r##"{"$ref":"#/$defs/name"}"##, "The service."),
    word(
        "calls",
        r##"{"type":"object","minProperties":1,"additionalProperties":{"$ref":"#/$defs/call"}}"##,
        "Calls that return the same kind of documents; the one that takes the most conditions of the query is used.",
    ),
];

/// A call.
pub const CALL: &[Keyword] = &[
    word("get", TEXT, "Path and fixed parameters, appended to the service's URL."),
    word(
        "args",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/call_arg"}]}}"##,
        "Arguments, each with the field whose condition it is.",
    ),
    word("page", r##"{"$ref":"#/$defs/call_page"}"##, "How long answers are cut."),
    word("cost", r#"{"type":"integer","minimum":0}"#, "Of calls with as many arguments the cheapest is made; 0 if nothing is said."),
];

/// An argument of a call.
pub const CALL_ARG: &[Keyword] = &[
    word(
        "field",
        r#"{"type":"string","pattern":"^[a-z][a-z0-9_]{0,47}([.][a-z][a-z0-9_]{0,47})?$"}"#,
        "The field; every document of the answer satisfies the condition on it. With LIST.MEMBER, answers contain only the elements that satisfy it.",
    ),
    word(
        "takes",
        r#"{"enum":["value","pattern","list","from","to"]}"#,
        "What it takes: value (one), pattern (or one with *), list (or several, repeated), from, to (a bound).",
    ),
    word("shape", TEXT, "A regular expression: other values are not for this argument."),
    word("required", BOOLEAN, "Whether the call cannot be made without it."),
    word("default", SCALAR, "The value if the query has no such condition."),
    word("as", r#"{"enum":["text","epoch"]}"#, "How times are written: text (RFC 3339) or epoch (seconds)."),
    word(
        "sent",
        BOOLEAN,
        "Whether the condition is sent; false where the call itself asks for no others: a path of its own, or what the service assumes.",
    ),
];

/// How answers are split into pages.
pub const CALL_PAGE: &[Keyword] = &[
    word("offset", TEXT, "The argument with how many documents to leave out."),
    word("limit", TEXT, "The argument with how many documents to send."),
    word("size", r#"{"type":"integer","minimum":1}"#, "How many; 1 000 if nothing is said."),
    word("number", TEXT, "The argument with the number of the page, which is 1 for the first."),
    word("next", TEXT, "json: the member with the URL of what follows, such as `@odata.nextLink` or `links.next`."),
    word("link", BOOLEAN, "Whether the header `Link` has the URL of what follows (`rel=\"next\"`)."),
    word("token", TEXT, "The element (xml) or member (json) with a token for what follows, such as `resumptionToken` or `meta.next_cursor`."),
    word("argument", TEXT, "The argument that takes the token; in XML that of the element's name if nothing is said."),
];

/// Names of services or locations, each with where it is.
const NAMED_PLACES: &str = r#"{"type":"object","minProperties":1,"additionalProperties":{"type":"string"}}"#;

/// `collect`.
pub const COLLECT: &[Keyword] = &[
    word("odata", NAMED_PLACES, "OData services by name, each with the URL of its entities; ${NAME} in it is taken from the environment."),
    word(
        "oai",
        NAMED_PLACES,
        "Repositories of OAI-PMH by name, each with its URL, which also says what is wanted: `https://host/oai?metadataPrefix=marc21&set=maps`.",
    ),
    word(
        "pages",
        NAMED_PLACES,
        "Other services by name, each with the URL of a list, which may come in pages: `https://host/api/works?per_page=100`.",
    ),
    word(
        "files",
        NAMED_PLACES,
        "Files by a name for each location: a folder (`inbox/`, `inbox/*.csv`), a file of a web server (`https://host/list.csv`), objects of S3 (`s3://bucket/folder/*.csv`).",
    ),
    word("window", TEXT, "odata: the member of a document that says when it was published."),
    word(
        "page",
        r##"{"oneOf":[{"type":"integer","minimum":1},{"$ref":"#/$defs/call_page"}]}"##,
        "odata: documents of a page; 1 000 if nothing is said. pages: how a list is cut.",
    ),
    word("changed", TEXT, "pages: the argument that takes the time since which documents have changed: `updated_since`."),
    word("as", r#"{"enum":["text","epoch"]}"#, "pages: how that time is written, text (RFC 3339) or epoch (seconds)."),
    word("lag", TEXT, "Documents, or files, younger than this are left for the next collection: `15m`."),
    word("since", TEXT, "Where the first collection begins, a time; older files are never collected."),
    word("filter", TEXT, "odata: a further condition, in its language."),
    word(
        "credentials",
        TEXT,
        "NAME of NAME_TOKEN, or of NAME_USER and NAME_PASSWORD, in the environment; for S3 of NAME_ACCESS_KEY_ID and NAME_SECRET_ACCESS_KEY.",
    ),
];

/// `replaces`.
pub const REPLACES: &[Keyword] = &[
    word("scope", CEL, "The scope for which a file is complete: `f.satellite`, or `'all'`."),
    word("at", CEL, "The time a document is about; contributions of older files about earlier times stay."),
    word(
        "most",
        SHARE,
        "Maximum share of the previous complete file's keys that may be missing: default `20%`. A file with more missing retires nothing.",
    ),
];

/// One element of `feeds`.
pub const FEED: &[Keyword] = &[
    word("into", r##"{"$ref":"#/$defs/name"}"##, "The collection."),
    word("when", CEL, "Only documents for which this holds."),
    word(
        "contributor",
        TEXT,
        "Template for the contributor's name within the source; where the feed says `each`, the document's identity without it.",
    ),
    word(
        "each",
        r##"{"oneOf":[{"type":["string","number"]},{"$ref":"#/$defs/each"}]}"##,
        "A path to fields (marc), values (json) or elements (xml) of a document, each of which contributes; paths in `map` start from it (marc: `$a`). A newer document takes back what it no longer contains.",
    ),
    word(
        "map",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/rule"}]}}"##,
        "Field to path or rule; without it the fields' own paths are used.",
    ),
];

/// The things in a document that contribute one by one.
pub const EACH: &[Keyword] = &[
    word("path", r#"{"type":["string","number"]}"#, "Where they are."),
    word("of", r##"{"$ref":"#/$defs/name"}"##, "The `let` value that identifies the document; without it, the key of the first feed without `each`."),
];

/// How a value is taken from a document.
pub const RULE: &[Keyword] = &[
    word("path", TEXT, "Where the value is, in the format's own language: MARCspec, JSONPath, XPath, column name."),
    word("first", r#"{"type":"array","minItems":1,"items":{"type":"string"}}"#, "Paths; the first that finds something gives the value."),
    word("cases", r##"{"type":"array","minItems":1,"items":{"$ref":"#/$defs/case"}}"##, "The first path that exists gives the constant beside it."),
    word(
        "around",
        TEXT,
        "marc: an XPath from the XML element around the record, with names without prefixes, such as `header/identifier` of OAI-PMH.",
    ),
    word("expr", CEL, "Computed from `let` values, fields with paths and `meta`."),
    word("match", r##"{"$ref":"#/$defs/name"}"##, "A pattern; the value is the mapping of its groups."),
    word("of", r##"{"$ref":"#/$defs/name"}"##, "The value the pattern is matched against."),
    word("each", r#"{"enum":["subfield","field"]}"#, "marc: whether a list has one value per subfield (default) or per field, its subfields joined."),
    word("join", TEXT, "Joins what the path found to one text."),
    word(
        "clean",
        r##"{"oneOf":[{"$ref":"#/$defs/cleaner"},{"type":"array","minItems":1,"items":{"$ref":"#/$defs/cleaner"}}]}"##,
        "Functions of one text, by name, that each text found is cleaned by, one after the other: `trim`, or `[isbd, nfc, lower]`.",
    ),
    word(
        "format",
        r#"{"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"type":"string"}}]}"#,
        "timestamp and date: a strftime pattern, or epoch, epoch_ms, epoch_us. duration: the unit of a bare number (d, h, m, s, ms, us). Of a list, the first format that fits is taken.",
    ),
    word(
        "map",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"type":"string"},{"$ref":"#/$defs/rule"}]}}"##,
        "Lists of structs of json and xml: `path` finds the places, this says of each member where it is from there.",
    ),
    word("lookup", r##"{"$ref":"#/$defs/name"}"##, "Replaces the value by that of a constant table."),
    word(
        "on_error",
        r#"{"enum":["warn","fail"]}"#,
        "A value that does not fit its type is left out with a warning (default), or fails the document.",
    ),
    word("type", TYPE, "The value's type (in `let`; fields say it themselves)."),
];

/// Keywords of a field in addition to those of a rule.
pub const FIELD: &[Keyword] = &[
    word("type", TYPE, "The field's type."),
    word("required", BOOLEAN, "A document without it fails."),
    word(
        "index",
        r##"{"oneOf":[{"$ref":"#/$defs/index"},{"type":"object","additionalProperties":{"$ref":"#/$defs/index"}}]}"##,
        "Kinds of indexes; for structs, of each member.",
    ),
    word("by", r##"{"$ref":"#/$defs/name"}"##, "The member that identifies a struct: structs with the same value are merged across contributors."),
    word("unique", BOOLEAN, "No two records of a tenant have the same value."),
    word("fold", BOOLEAN, "Compared without regard to case, width and white space."),
    word("one_of", ONE_OF, "The values allowed."),
    word(
        "derive",
        CEL,
        "Computed from the golden values of other fields, and of linked records: `LINK.FIELD`, `LINK.exists`. `sources` lists the sources that contribute to the record.",
    ),
    word("rollup", r##"{"$ref":"#/$defs/rollup"}"##, "Computed from the records that link here."),
    word("survivorship", SURVIVORSHIP, "Which contribution's value becomes golden; default: the collection's."),
    word("from", NAMES, "Only these sources may say it."),
    word(
        "compare",
        r##"{"oneOf":[{"type":"boolean"},{"enum":["folded"]},{"$ref":"#/$defs/comparison"}]}"##,
        "Report disagreement between contributors as a conflict, which can be queried. folded: texts that differ only in case, width and white space agree.",
    ),
];

/// A collection.
pub const COLLECTION: &[Keyword] = &[
    word("key", TEXT, "A field, a template such as {ref}/{sample}, or CEL over fields."),
    word("title", TEXT, "The field by which people call a record, on pages."),
    word("raw", r#"{"enum":["keep","drop"]}"#, "Whether each contribution keeps its document byte for byte."),
    word(
        "exists",
        r#"{"enum":["latest","any"]}"#,
        "latest (default): the newest contribution decides whether the record exists. any: one living contribution is enough.",
    ),
    word("compose", r##"{"$ref":"#/$defs/compose"}"##, "How the MARC record of a record is composed from the documents of its contributors."),
    word("publish", r##"{"oneOf":[{"const":true},{"$ref":"#/$defs/publish"}]}"##, "Whether, and how, other systems can fetch its records."),
    word("changes", TEXT, "How long its changes are kept for those who follow them (`stook changes`, `/changes`): `30d`."),
    word("history", r#"{"type":"integer","minimum":1,"maximum":10000}"#, "Changes of its golden fields kept for each record; default none."),
    word(
        "fields",
        r##"{"type":"object","minProperties":1,"additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/field"}]}}"##,
        "Name to type or field.",
    ),
    word("survivorship", SURVIVORSHIP, "The rule of fields that have none of their own; default latest."),
    word(
        "state",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/state"}]}}"##,
        "Fields that only transitions write.",
    ),
    word("transitions", r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/transition"}}"##, "Named, conditional changes of state."),
    word("links", r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/link"}}"##, "Records of other collections that belong to these."),
    word(
        "coverage",
        r##"{"type":"object","additionalProperties":{"$ref":"#/$defs/coverage"}}"##,
        "Measures of how completely the records that link here cover what is expected. Each is a collection that can be queried.",
    ),
    word("tags", r##"{"$ref":"#/$defs/tags"}"##, "Tags of records: manual, by query, or by XPath over kept XML."),
];

/// Tags of a collection.
pub const TAGS: &[Keyword] = &[
    word("document", r##"{"$ref":"#/$defs/tag_document"}"##, "The document on which XPath tags are evaluated."),
    word(
        "steps",
        r#"{"type":"integer","minimum":1000}"#,
        "Most steps of an XPath on one record: nodes, parts of the expression on each, and stretches of text; default 1 000 000.",
    ),
    word(
        "attributes",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/tag_attribute"}]}}"##,
        "Further attributes of tags, each with its type.",
    ),
];

/// An attribute of tags.
pub const TAG_ATTRIBUTE: &[Keyword] = &[
    word("type", TYPE, "The type of its values."),
    word("join", TEXT, "Joins the values of all tags of a record to one text, in the order of the names of the tags, with this text between them."),
    word("first", TEXT, "The text that stands before these values, for every record."),
];

/// The document of a record.
pub const TAG_DOCUMENT: &[Keyword] = &[
    word("root", TEXT, "The source whose newest document it is."),
    word("otherwise", r##"{"type":"string"}"##, "The name of the empty element where that source says nothing; default `none`."),
    word(
        "parts",
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        "Prefix to source: its newest document, in the namespace called as the prefix, as a last child of the root's element.",
    ),
];

/// A state field.
pub const STATE: &[Keyword] = &[
    word("type", TYPE, "The type."),
    word("seed", CEL, "The value until a transition sets one, from golden fields."),
    word("index", INDEX, "Kinds of questions answered without reading every record."),
    word("one_of", ONE_OF, "The values allowed."),
];

/// A transition.
pub const TRANSITION: &[Keyword] = &[
    word(
        "args",
        r##"{"type":"object","additionalProperties":{"oneOf":[{"$ref":"#/$defs/type"},{"$ref":"#/$defs/arg"}]}}"##,
        "Arguments of the call.",
    ),
    word("refuse", r##"{"type":"array","items":{"$ref":"#/$defs/refuse"}}"##, "Conditions that refuse the transition; all that hold are reported."),
    word("set", r#"{"type":"object","minProperties":1,"additionalProperties":{"type":["string","null"]}}"#, "State field to CEL, or null."),
];

/// An argument of a transition.
pub const ARG: &[Keyword] = &[
    word("type", TYPE, "The type."),
    word("required", BOOLEAN, "A call without it is refused."),
    word("default", CEL, "The value of a call that does not give one."),
    word("one_of", ONE_OF, "The values allowed."),
    word("min", r#"{"type":"number"}"#, "Smallest number allowed."),
    word("max", r#"{"type":"number"}"#, "Largest number allowed."),
];

/// A refusal.
pub const REFUSE: &[Keyword] = &[
    word("when", CEL, "The condition."),
    word("reason", CEL, "The message to the caller."),
    word("code", r#"{"type":"integer","minimum":400,"maximum":499}"#, "HTTP status, default 409."),
];

/// A profile.
pub const PROFILE: &[Keyword] = &[
    word("source", r##"{"$ref":"#/$defs/name"}"##, "The source of the documents."),
    word(
        "matched",
        r#"{"enum":["update","skip","fail","delete","withdraw"]}"#,
        "For documents whose record existed before the job; delete: the document says that the record was deleted, withdraw: as if the source had said nothing of it.",
    ),
    word("unmatched", r#"{"enum":["create","skip","fail"]}"#, "For the others."),
];

/// A tenant's share of the workers.
pub const TENANT: &[Keyword] = &[
    word(
        "weight",
        r#"{"type":"integer","minimum":1,"maximum":1000}"#,
        "Relative weight: how much work it gets for each unit of a tenant with weight 1.",
    ),
    word("most_running", r#"{"type":"integer","minimum":1}"#, "Maximum number of chunks processed at a time."),
];

/// An element of `accept`.
pub const ACCEPT: &[Keyword] = &[
    word("unless", CEL, "The condition a document must meet."),
    word("do", r#"{"enum":["fail","skip"]}"#, "What happens to one that does not."),
    word("reason", CEL, "The message in the journal."),
];

/// An element of `expect`.
pub const EXPECT: &[Keyword] = &[
    word("field", TEXT, "A field that the source feeds, whose values in the file are tested; after its collection, if several have it: `book.isbn`."),
    word("matches", TEXT, "A regular expression that finds something in each value."),
    word("present", BOOLEAN, "Each document that feeds the collection has a value."),
    word("unique", BOOLEAN, "No two documents of the file have the same value."),
    word("at_least", SHARE, "The share for which this must hold; default 100%."),
    word("documents", r##"{"$ref":"#/$defs/expect_documents"}"##, "How many documents the file has."),
    word("fresh", TEXT, "How old the newest document, by as_of, may be when the file is received: 48h."),
    word(
        "do",
        r#"{"enum":["warn","stop"]}"#,
        "What happens to a file that does not fulfil it: it is imported with a warning (the default), or nothing of it is.",
    ),
];

/// A number of documents that is expected.
pub const EXPECT_DOCUMENTS: &[Keyword] = &[
    word("at_least", r#"{"type":"integer","minimum":0}"#, "The least number."),
    word("at_most", r#"{"type":"integer","minimum":0}"#, "The greatest number."),
    word("fewer", SHARE, "By how much it may be smaller than that of the file before it, by as_of."),
    word("more", SHARE, "By how much it may be greater than that of the file before it."),
];

/// An element of `cases`.
pub const CASE: &[Keyword] = &[word("if", TEXT, "A path."), word("then", SCALAR, "The value where the path finds something.")];

/// `compare` written as a mapping.
pub const COMPARISON: &[Keyword] = &[word(
    "within",
    r#"{"type":["string","number"]}"#,
    "Values that are at most so far apart agree: a number, or for times a duration such as 1h, for sizes a size.",
)];

/// Survivorship written as a mapping.
pub const SURVIVORSHIP_MAP: &[Keyword] = &[
    word("prefer", NAMES, "Sources, the most trusted first; those not named come last."),
    word("then", r#"{"enum":["latest","earliest"]}"#, "Decides between contributions of equally trusted sources."),
];
