//! Builds the description of an operation: parameters, body and responses.

use super::schema::{key, reference};
use crate::guard::problem::PROBLEM_JSON;
use axum::http::StatusCode;
use serde_json::{Map, Value as Json, json};

/// An operation that is being described.
pub struct Operation(pub Json);

impl Operation {
    pub fn new(id: &str, tag: &str, summary: &str) -> Self {
        Self(json!({ "operationId": id, "tags": [tag], "summary": summary, "parameters": [], "responses": {} }))
    }

    pub fn parameter(mut self, name: &str, location: &str, required: bool, schema: Json, description: &str) -> Self {
        if let Some(parameters) = self.0["parameters"].as_array_mut() {
            let mut parameter_json = json!({ "name": name, "in": location, "required": required, "schema": schema, "description": description });
            if schema_is_array(&parameter_json["schema"]) {
                parameter_json["style"] = "form".into();
                parameter_json["explode"] = true.into();
            }
            parameters.push(parameter_json);
        }
        self
    }

    pub fn query(self, name: &str, schema: Json, description: &str) -> Self {
        self.parameter(name, "query", false, schema, description)
    }

    pub fn key(self) -> Self {
        self.parameter("key", "path", true, key(), "The record's key, encoded as one segment; `-` with `?key=` for keys that cannot be one.")
    }

    pub fn etags(self, conditions: &[&str]) -> Self {
        let tags = json!({ "type": "string" });
        conditions.iter().fold(self, |operation, name| operation.parameter(name, "header", false, tags.clone(), "Entity tags of the record, or *."))
    }

    pub fn call_once(self) -> Self {
        let schema = json!({ "type": "string", "pattern": "^[\\x21-\\x7e][\\x20-\\x7e]{0,254}$" });
        self.parameter(
            "Idempotency-Key",
            "header",
            false,
            schema,
            "A repeated request with the same key gets the first one's response; kept for a day.",
        )
    }

    pub fn body(mut self, required: bool, media: &[&str], schema: Json) -> Self {
        let content: Map<String, Json> = media.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema }))).collect();
        self.0["requestBody"] = json!({ "required": required, "content": content });
        self.problems(&[400, 413, 415, 422])
    }

    pub fn answer(mut self, status: u16, description: &str, media: &str, schema: Json) -> Self {
        self.0["responses"][status.to_string()]["description"] = description.into();
        self.0["responses"][status.to_string()]["content"][media] = json!({ "schema": schema });
        self
    }

    pub fn json(self, status: u16, description: &str, schema: Json) -> Self {
        self.answer(status, description, "application/json", schema)
    }

    pub fn empty(mut self, status: u16, description: &str) -> Self {
        self.0["responses"][status.to_string()] = json!({ "description": description });
        self
    }

    pub fn problems(mut self, statuses: &[u16]) -> Self {
        for status in statuses {
            let title = StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Problem");
            if self.0["responses"].get(status.to_string()).is_none() {
                self = self.answer(*status, title, PROBLEM_JSON, reference("problem"));
            }
        }
        self
    }

    /// Adds the problems that every guarded operation may return.
    pub fn guarded(self) -> Json {
        self.problems(&[400, 401, 403, 404, 503]).0
    }

    pub fn open(mut self) -> Json {
        self.0["security"] = json!([]);
        self.0
    }
}

fn schema_is_array(schema: &Json) -> bool {
    schema["type"] == "array"
}
