//! The JSON Schema (2020-12) of the definition language, for editors and validators.

use crate::eval::functions::CLEANERS;
use crate::parse::keywords::{self, Keyword};
use crate::value::TYPE_NAMES;
use serde_json::{Map, Value as Json, json};

/// The schema as JSON.
pub fn schema() -> Json {
    let types: Vec<&str> = TYPE_NAMES.iter().map(|(name, _)| *name).collect();
    let cleaners: Vec<&str> = CLEANERS.iter().map(|cleaner| cleaner.name).collect();
    let index_kind = json!({"enum": ["equal", "prefix", "contains", "intersects", "words"]});
    let simple_rule = json!({"enum": ["latest", "earliest", "union", "by_contributor"]});
    let mut definitions = json!({
        "cleaner": {"enum": cleaners},
        "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,47}$"},
        "type": {"oneOf": [{"enum": types}, {"type": "array", "minItems": 1, "maxItems": 1, "items": {"oneOf": [
            {"enum": types},
            {"type": "object", "minProperties": 1, "additionalProperties": {"enum": types}},
        ]}}]},
        "index": {"oneOf": [index_kind, {"type": "array", "minItems": 1, "uniqueItems": true, "items": index_kind}]},
        "survivorship": {"oneOf": [simple_rule, object(&[keywords::SURVIVORSHIP_MAP], &["prefer"])]},
        "comparison": object(&[keywords::COMPARISON], &["within"]),
        "rule": object(&[keywords::RULE], &[]),
        "field": object(&[keywords::RULE, keywords::FIELD], &[]),
        "source": object(&[keywords::SOURCE], &["format", "as_of"]),
        "feed": object(&[keywords::FEED], &["into"]),
        "each": object(&[keywords::EACH], &["path", "of"]),
        "collect": object(&[keywords::COLLECT], &[]),
        "replaces": object(&[keywords::REPLACES], &["scope"]),
        "embed": object(&[keywords::EMBED], &["path", "name"]),
        "tags": object(&[keywords::TAGS], &[]),
        "accept": object(&[keywords::ACCEPT], &["unless"]),
        "case": object(&[keywords::CASE], &["if", "then"]),
        "collection": object(&[keywords::COLLECTION], &["key", "fields"]),
        "state": object(&[keywords::STATE], &["type"]),
        "rows": {"type": "object", "additionalProperties": {"oneOf": [
            {"type": ["string", "number", "boolean"]},
            {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
        ]}},
        "link": object(&[keywords::LINK], &["to"]),
        "overlap": object(&[keywords::OVERLAP], &["mine", "theirs"]),
        "rollup": object(&[keywords::ROLLUP], &["over"]),
        "coverage": object(&[keywords::COVERAGE, keywords::COVERAGE_CASE], &[]),
        "coverage_case": object(&[keywords::COVERAGE_CASE, keywords::COVERAGE_MATCH], &["measure"]),
        "distinct": object(&[keywords::DISTINCT], &["distinct"]),
        "gaps": object(&[keywords::GAPS], &["within"]),
        "overlaps": object(&[keywords::OVERLAPS], &["longer"]),
        "runs": object(&[keywords::RUNS], &["value"]),
        "transition": object(&[keywords::TRANSITION], &[]),
        "arg": object(&[keywords::ARG], &["type"]),
        "refuse": object(&[keywords::REFUSE], &["when", "reason"]),
        "profile": object(&[keywords::PROFILE], &["source"]),
        "tenant": object(&[keywords::TENANT], &[]),
        "areas": object(&[keywords::AREAS], &["file"]),
        "serve": object(&[keywords::SERVE], &[]),
        "route": object(&[keywords::ROUTE, keywords::LOOK], &[]),
        "include": object(&[keywords::LOOK, keywords::INCLUDE], &["where"]),
        "match": object(&[keywords::MATCH], &[]),
        "page": object(&[keywords::PAGE], &["number", "size"]),
        "param": object(&[keywords::PARAM], &["type"]),
    });
    for (name, words, required) in [
        ("service", keywords::SERVICE, &["url"][..]),
        ("expect", keywords::EXPECT, &[]),
        ("expect_documents", keywords::EXPECT_DOCUMENTS, &[]),
        ("query_word", keywords::QUERY_WORD, &[]),
        ("write", keywords::WRITE, &[]),
        ("route_ask", keywords::ROUTE_ASK, &["query", "ticket"]),
        ("asks", keywords::ASKS, &["service", "calls"]),
        ("call", keywords::CALL, &["get"]),
        ("call_arg", keywords::CALL_ARG, &["field"]),
        ("call_page", keywords::CALL_PAGE, &[]),
        ("repository", keywords::REPOSITORY, &["name", "email"]),
        ("publish", keywords::PUBLISH, &[]),
        ("compose", keywords::COMPOSE, &[]),
        ("tag_attribute", keywords::TAG_ATTRIBUTE, &["type"]),
        ("tag_document", keywords::TAG_DOCUMENT, &["root"]),
    ] {
        definitions[name] = object(&[words], required);
    }
    definitions["find"] = object(&[keywords::LOOK, keywords::INCLUDE, keywords::FIND], &[]);
    let mut schema = object(&[keywords::CATALOGUE], &["catalogue", "collections"]);
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
            keywords::CATALOGUE,
            keywords::SOURCE,
            keywords::COLLECT,
            keywords::SERVICE,
            keywords::QUERY_WORD,
            keywords::ROUTE_ASK,
            keywords::ASKS,
            keywords::CALL,
            keywords::CALL_ARG,
            keywords::CALL_PAGE,
            keywords::REPLACES,
            keywords::EMBED,
            keywords::TAGS,
            keywords::TAG_DOCUMENT,
            keywords::TAG_ATTRIBUTE,
            keywords::EACH,
            keywords::FEED,
            keywords::RULE,
            keywords::FIELD,
            keywords::COLLECTION,
            keywords::COMPOSE,
            keywords::STATE,
            keywords::TRANSITION,
            keywords::ARG,
            keywords::REFUSE,
            keywords::PROFILE,
            keywords::TENANT,
            keywords::SERVE,
            keywords::ROUTE,
            keywords::LOOK,
            keywords::INCLUDE,
            keywords::MATCH,
            keywords::PAGE,
            keywords::PARAM,
            keywords::ACCEPT,
            keywords::EXPECT,
            keywords::EXPECT_DOCUMENTS,
            keywords::CASE,
            keywords::LINK,
            keywords::OVERLAP,
            keywords::ROLLUP,
            keywords::COVERAGE,
            keywords::COVERAGE_CASE,
            keywords::COVERAGE_MATCH,
            keywords::DISTINCT,
            keywords::GAPS,
            keywords::OVERLAPS,
            keywords::RUNS,
            keywords::COMPARISON,
            keywords::SURVIVORSHIP_MAP,
        ];
        for word in all.into_iter().flatten() {
            let parsed: Result<Json, _> = serde_json::from_str(word.schema);
            assert!(parsed.is_ok_and(|schema| schema.is_object()), "{}", word.name);
        }
    }
}
