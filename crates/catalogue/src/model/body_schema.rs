//! JSON Schemas of bodies: what a declared route requires of the JSON that is sent.

use serde_json::Value as Json;
use std::sync::Arc;

/// Max errors that are reported of one value.
const MAX_ERRORS: usize = 20;
/// Max characters of one error: a message repeats the value.
const MAX_ERROR_CHARACTERS: usize = 300;

/// A compiled JSON Schema.
#[derive(Debug, Clone)]
pub struct BodySchema {
    /// As it was written.
    pub source: Arc<Json>,
    validator: Arc<jsonschema::Validator>,
}

impl BodySchema {
    /// Compiles a schema; `$schema` names the draft, otherwise it is 2020-12. References to other documents are not followed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn compile(source: Json) -> Result<Self, String> {
        let validator = jsonschema::options().build(&source).map_err(|error| format!("{}: {error}", error.instance_path()))?;
        Ok(Self { source: Arc::new(source), validator: Arc::new(validator) })
    }

    /// Returns what is wrong with a value, in sentences, each with its place.
    pub fn errors(&self, json: &Json) -> Vec<String> {
        let sentence = |error: jsonschema::ValidationError<'_>| {
            let (place, message) = (error.instance_path().to_string(), error.to_string());
            let whole = if place.is_empty() { message } else { format!("{message} (at {place})") };
            if whole.chars().count() <= MAX_ERROR_CHARACTERS {
                return whole;
            }
            whole.chars().take(MAX_ERROR_CHARACTERS).chain("…".chars()).collect()
        };
        self.validator.iter_errors(json).take(MAX_ERRORS).map(sentence).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_name_their_place_and_are_limited() {
        let schema = BodySchema::compile(json!({
            "type": "object",
            "required": ["ref"],
            "properties": { "ref": { "type": "string" }, "list": { "items": { "type": "integer" } } },
        }))
        .expect("a schema");
        assert!(schema.errors(&json!({ "ref": "1" })).is_empty());
        assert_eq!(schema.errors(&json!({})), ["\"ref\" is a required property"]);
        assert_eq!(schema.errors(&json!({ "ref": "1", "list": [1, "x"] })), ["\"x\" is not of type \"integer\" (at /list/1)"]);
        assert_eq!(schema.errors(&json!({ "ref": "1", "list": vec!["x"; 100] })).len(), MAX_ERRORS);
        assert!(schema.errors(&json!({ "ref": vec![1; 1_000] }))[0].chars().count() <= MAX_ERROR_CHARACTERS + 1);
        assert!(BodySchema::compile(json!({ "type": "nothing" })).is_err());
        assert!(BodySchema::compile(json!({ "$ref": "https://example.org/schema.json" })).is_err());
    }
}
