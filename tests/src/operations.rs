//! Sends every operation of a server's OpenAPI document.

use crate::http::Client;
use serde_json::{Value as Json, json};

/// What is sent: the value of each parameter by path and name, and the body of each operation by its id, where it is not an empty object.
pub struct Sent<'s> {
    /// Values of parameters.
    pub parameter: &'s dyn Fn(&str, &str) -> String,
    /// Bodies.
    pub body: &'s dyn Fn(&str) -> Option<Json>,
    /// Headers beside the media type.
    pub headers: &'s [(&'s str, &'s str)],
}

/// Sends every operation of the document with its required parameters; returns each with its status and answer.
pub fn send_all(client: &Client, document: &Json, sent: &Sent<'_>) -> Vec<(String, u16, String)> {
    let mut answers = Vec::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let query: Vec<String> = parameters
                .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true)
                .map(|parameter| parameter["name"].as_str().expect("a name"))
                .map(|name| format!("{name}={}", (sent.parameter)(path, name)))
                .collect();
            let body = (sent.body)(operation["operationId"].as_str().expect("an id")).unwrap_or_else(|| json!({}));
            let media = if method == "patch" { "application/merge-patch+json" } else { "application/json" };
            let body = if operation.get("requestBody").is_some() { body.to_string() } else { String::new() };
            let target = format!("{}?{}", filled_path(path, sent), query.join("&"));
            // events go on until the job has ended; it has
            let headers = [&[("content-type", media)], sent.headers].concat();
            let answer = client.send(&method.to_uppercase(), &target, &headers, body.as_bytes());
            answers.push((format!("{method} {path}"), answer.status, answer.text()));
        }
    }
    answers
}

fn filled_path(path: &str, sent: &Sent<'_>) -> String {
    let mut out = path.to_owned();
    while let Some((before, rest)) = out.clone().split_once('{') {
        let (name, after) = rest.split_once('}').expect("a parameter ends");
        out = format!("{before}{}{after}", (sent.parameter)(path, name));
    }
    out
}
