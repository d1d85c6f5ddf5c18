//! The JSON Schema (2020-12) of the definition language, for editors and validators.

use crate::eval::functions::CLEANERS;
use crate::parse::words::{self, Keyword};
use crate::value::TYPE_NAMES;
use serde_json::{Map, Value as Json, json};

/// The schema as JSON.
pub fn schema() -> Json {
    let types: Vec<&str> = TYPE_NAMES.iter().map(|(name, _)| *name).collect();
    let cleaners: Vec<&str> = CLEANERS.iter().map(|cleaner| cleaner.name).collect();
    let index_kind = json!({"enum": ["equal", "prefix", "contains", "intersects"]});
    let simple_rule = json!({"enum": ["latest", "earliest", "union", "by_contributor"]});
    let mut definitions = json!({
        "cleaner": {"enum": cleaners},
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,47}$"},
        "type": {"oneOf": [{"enum": types}, {"type": "array", "minItems": 1, "maxItems": 1, "items": {"oneOf": [
            {"enum": types},
            {"type": "object", "minProperties": 1, "additionalProperties": {"enum": types}},
        ]}}]},
        "index": {"oneOf": [index_kind, {"type": "array", "minItems": 1, "uniqueItems": true, "items": index_kind}]},
        "survivorship": {"oneOf": [simple_rule, object(&[words::SURVIVORSHIP_MAP], &["prefer"])]},
        "rule": object(&[words::RULE], &[]),
        "field": object(&[words::RULE, words::FIELD], &[]),
        "source": object(&[words::SOURCE], &["format", "as_of"]),
        "feed": object(&[words::FEED], &["into"]),
        "collect": object(&[words::COLLECT], &["odata", "window"]),
        "replaces": object(&[words::REPLACES], &["scope"]),
        "embed": object(&[words::EMBED], &["path", "name"]),
        "tags": object(&[words::TAGS], &[]),
        "tag_document": object(&[words::TAG_DOCUMENT], &["root"]),
        "accept": object(&[words::ACCEPT], &["unless"]),
        "case": object(&[words::CASE], &["if", "then"]),
        "collection": object(&[words::COLLECTION], &["key", "fields"]),
        "state": object(&[words::STATE], &["type"]),
        "rows": {"type": "object", "additionalProperties": {"oneOf": [
            {"type": ["string", "number", "boolean"]},
            {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
        ]}},
        "link": object(&[words::LINK], &["to"]),
        "overlap": object(&[words::OVERLAP], &["mine", "theirs"]),
        "rollup": object(&[words::ROLLUP], &["over"]),
        "coverage": object(&[words::COVERAGE, words::COVERAGE_CASE], &[]),
        "coverage_case": object(&[words::COVERAGE_CASE, words::COVERAGE_MATCH], &["measure"]),
        "distinct": object(&[words::DISTINCT], &["distinct"]),
        "gaps": object(&[words::GAPS], &["within"]),
        "runs": object(&[words::RUNS], &["value"]),
        "transition": object(&[words::TRANSITION], &[]),
        "arg": object(&[words::ARG], &["type"]),
        "refuse": object(&[words::REFUSE], &["when", "reason"]),
        "profile": object(&[words::PROFILE], &["source"]),
        "tenant": object(&[words::TENANT], &[]),
        "areas": object(&[words::AREAS], &["file"]),
        "serve": object(&[words::SERVE], &[]),
        "route": object(&[words::ROUTE, words::LOOK], &[]),
        "include": object(&[words::LOOK, words::INCLUDE], &["where"]),
        "match": object(&[words::MATCH], &[]),
        "page": object(&[words::PAGE], &["number", "size"]),
        "param": object(&[words::PARAM], &["type"]),
    });
    for (name, own, required) in [
        ("service", words::SERVICE, &["url"][..]),
        ("query_word", words::QUERY_WORD, &[]),
        ("route_ask", words::ROUTE_ASK, &["query", "ticket"]),
        ("asks", words::ASKS, &["service", "calls"]),
        ("call", words::CALL, &["get"]),
        ("call_arg", words::CALL_ARG, &["field"]),
        ("call_page", words::CALL_PAGE, &[]),
    ] {
        definitions[name] = object(&[own], required);
    }
    let mut schema = object(&[words::CATALOGUE], &["catalogue", "collections"]);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Stook catalogue definition");
    schema["$defs"] = definitions;
    schema
}

fn object(words: &[&[Keyword]], required: &[&str]) -> Json {
    let mut properties = Map::new();
    for word in words.iter().flat_map(|words| words.iter()) {
        // the constants are checked by a test that builds the schema
        let mut schema: Json = serde_json::from_str(word.schema).unwrap_or(Json::Bool(true));
        if schema.get("$ref").is_none() {
            schema["description"] = json!(word.doc);
        }
        properties.insert(word.name.to_owned(), schema);
    }
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_has_a_schema_that_is_json() {
        let all = [
            words::CATALOGUE,
            words::SOURCE,
            words::COLLECT,
            words::SERVICE,
            words::QUERY_WORD,
            words::ROUTE_ASK,
            words::ASKS,
            words::CALL,
            words::CALL_ARG,
            words::CALL_PAGE,
            words::REPLACES,
            words::EMBED,
            words::TAGS,
            words::TAG_DOCUMENT,
            words::FEED,
            words::RULE,
            words::FIELD,
            words::COLLECTION,
            words::STATE,
            words::TRANSITION,
            words::ARG,
            words::REFUSE,
            words::PROFILE,
            words::TENANT,
            words::SERVE,
            words::ROUTE,
            words::LOOK,
            words::INCLUDE,
            words::MATCH,
            words::PAGE,
            words::PARAM,
            words::ACCEPT,
            words::CASE,
            words::LINK,
            words::OVERLAP,
            words::ROLLUP,
            words::COVERAGE,
            words::COVERAGE_CASE,
            words::COVERAGE_MATCH,
            words::DISTINCT,
            words::GAPS,
            words::RUNS,
            words::SURVIVORSHIP_MAP,
        ];
        for word in all.into_iter().flatten() {
            let parsed: Result<Json, _> = serde_json::from_str(word.schema);
            assert!(parsed.is_ok_and(|schema| schema.is_object()), "{}", word.name);
        }
    }
}
