//! Finds the keywords that a definition uses, with the language's own schema.

use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Returns every keyword and constant of the schema, as `OBJECT.word` and `OBJECT.word=constant`.
pub fn all(schema: &Json) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_words(schema, "catalogue", &mut found);
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        collect_words(part, name, &mut found);
    }
    found
}

fn collect_words(part: &Json, object_name: &str, found: &mut BTreeSet<String>) {
    for (word, value) in part["properties"].as_object().into_iter().flatten() {
        let keyword = format!("{object_name}.{word}");
        constants(value, &keyword, found);
        found.insert(keyword);
    }
    if part["properties"].is_null() {
        constants(part, object_name, found);
    }
}

fn constants(part: &Json, owner: &str, found: &mut BTreeSet<String>) {
    for constant in part["enum"].as_array().into_iter().flatten() {
        found.insert(format!("{owner}={}", constant.as_str().unwrap_or_default()));
    }
    for inner in part["oneOf"].as_array().into_iter().flatten().chain([&part["additionalProperties"], &part["items"]]) {
        if inner.is_object() {
            constants(inner, owner, found);
        }
    }
}

/// Adds the keywords that a definition uses.
pub fn used(schema: &Json, definition: &Json, found: &mut BTreeSet<String>) {
    visit(schema, schema, "catalogue", definition, found);
}

fn visit(schema: &Json, part: &Json, object_name: &str, value: &Json, found: &mut BTreeSet<String>) {
    if let Some(name) = part["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
        return visit(schema, &schema["$defs"][name], name, value, found);
    }
    for constant in part["enum"].as_array().into_iter().flatten().filter(|constant| *constant == value) {
        found.insert(format!("{object_name}={}", constant.as_str().unwrap_or_default()));
    }
    for choice in part["oneOf"].as_array().into_iter().flatten() {
        if fits(schema, choice, value) {
            visit(schema, choice, object_name, value, found);
        }
    }
    match value {
        Json::Object(entries) => {
            for (name, value) in entries {
                let property = &part["properties"][name];
                if property.is_object() {
                    let word = format!("{object_name}.{name}");
                    visit(schema, property, &word, value, found);
                    found.insert(word);
                } else if part["additionalProperties"].is_object() {
                    visit(schema, &part["additionalProperties"], object_name, value, found);
                }
            }
        }
        Json::Array(items) if part["items"].is_object() => items.iter().for_each(|item| visit(schema, &part["items"], object_name, item, found)),
        _ => {}
    }
}

/// Whether a value matches a choice of the schema.
fn fits(schema: &Json, part: &Json, value: &Json) -> bool {
    if let Some(name) = part["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
        return fits(schema, &schema["$defs"][name], value);
    }
    if let Some(choices) = part["oneOf"].as_array() {
        return choices.iter().any(|choice| fits(schema, choice, value));
    }
    if let Some(constants) = part["enum"].as_array() {
        return constants.contains(value);
    }
    match value {
        Json::Object(entries) => {
            let known = |name: &String| part["properties"].is_null() || part["properties"].get(name).is_some();
            part["type"] == "object" && entries.keys().all(known)
        }
        Json::Array(items) => part["type"] == "array" && items.iter().all(|item| part["items"].is_null() || fits(schema, &part["items"], item)),
        _ => part["type"] != "object" && part["type"] != "array",
    }
}
