//! The API of the served catalogue as a web page, operation by operation.

use super::super::WebPages;
use super::super::shown::{items, members, named};
use super::{OPERATIONS, answer, operations_title};
use crate::api::openapi;
use crate::guard::problem::{HandlerResult, Problem};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// All operations, by tag.
pub async fn page(State(pages): State<Arc<WebPages>>) -> HandlerResult<Response> {
    let app = &pages.app;
    let document: Json =
        serde_json::from_slice(openapi::shared(app)).map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let mut by_tag: Vec<(&str, Vec<Markup>)> = Vec::new();
    for (path, methods) in members(&document["paths"]) {
        for (method, definition) in members(methods) {
            let (tag, shown) = (definition["tags"][0].as_str().unwrap_or_default(), operation(path, method, definition));
            match by_tag.iter_mut().find(|(known, _)| *known == tag) {
                Some((_, entries)) => entries.push(shown),
                None => by_tag.push((tag, vec![shown])),
            }
        }
    }
    let body = html! {
        article.api {
            h1 { (operations_title(&pages)) }
            p {
                (named(&document["info"], "description")) " Send a token as " code { "Authorization: Bearer TOKEN" } ". The whole as "
                a href="/openapi.json" { "OpenAPI 3.1" } "; what all of it means is on the page "
                a href="/docs/api" { "The HTTP API" } "."
            }
            @for (tag, operations) in &by_tag { h2 { (tag) } @for definition in operations { (definition) } }
        }
    };
    Ok(answer(&pages, StatusCode::OK, (OPERATIONS, &operations_title(&pages)), "", &body))
}

fn operation(path: &str, method: &str, definition: &Json) -> Markup {
    let parameters = items(&definition["parameters"]);
    let body = members(&definition["requestBody"]["content"]).next();
    let is_needed = |parameter: &Json| parameter["required"] == true && parameter["in"] != "path";
    html! {
        details {
            summary { b { (method.to_uppercase()) } " " code { (path) } " " (named(definition, "summary")) }
            @if !parameters.is_empty() {
                table {
                    @for parameter in parameters {
                        tr {
                            td { code { (named(parameter, "name")) } }
                            td { (named(parameter, "in")) @if is_needed(parameter) { ", required" } }
                            td { (named(parameter, "description")) }
                        }
                    }
                }
            }
            @if let Some((media, body)) = body {
                p { "Body, " (media) ":" }
                pre tabindex="0" { (serde_json::to_string_pretty(&body["schema"]).unwrap_or_default()) }
            }
            p {
                "Answers: "
                @for (index, (status, answer)) in members(&definition["responses"]).enumerate() {
                    @if index > 0 { "; " }
                    (status) " " (named(answer, "description"))
                }
            }
        }
    }
}
