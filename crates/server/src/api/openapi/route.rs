//! Declared routes.

use super::operation::Operation;
use super::schema::{nullable, query_text, response_schema, schema_with_limits, text, transition_result_schema};
use crate::api::routes::MAX_REPEATED;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::MAX_KEY_BYTES;
use stook_catalogue::route::{
    FindKind, IncludeRequirement, Lookup, LookupPart, LookupRoute, Param, ParamLocation, Projection, QueryPart, ResponseMedia, Route, RouteAction,
    RouteResponseBody, WriteAction,
};
use stook_catalogue::value::FieldType;

/// Describes a declared route.
pub fn describe(catalogue: &Catalogue, index: usize, route: &Route) -> Json {
    let query_param = if let RouteAction::Query(query_route) = &route.action { Some(query_route.query) } else { None };
    // an invalid query gets a normal response
    let takes_any = matches!(&route.action, RouteAction::Query(query_route) if query_route.answers_mistakes);
    let id = format!("{}route_{}", if query_param.is_some() { "ask_" } else { "" }, index + 1);
    let mut operation = Operation::new(&id, "routes", &format!("{} {}", route.method.name().to_uppercase(), route.declared_path()));
    let (mut members, mut needed) = (Map::new(), Vec::new());
    for (param_index, param) in route.params.iter().enumerate() {
        let required = param.required.is_some() && param.default.is_none();
        let param_schema_json = match query_param == Some(param_index) {
            true if takes_any => text(),
            true => query_text(),
            false => param_schema(param),
        };
        match param.location {
            ParamLocation::Path => operation = operation.parameter(&param.name, "path", true, param_schema_json, ""),
            ParamLocation::Query => operation = operation.parameter(&param.name, "query", required, param_schema_json, ""),
            ParamLocation::WholeBody => {
                let body = param.schema.as_ref().map_or_else(|| json!({}), |schema| (*schema.source).clone());
                operation.0["requestBody"] = json!({ "required": required, "content": { "application/json": { "schema": body } } });
            }
            ParamLocation::Nowhere => {}
            ParamLocation::Body => {
                members.insert(param.name.clone(), if required { param_schema_json } else { nullable(param_schema_json) });
                if required {
                    needed.push(param.name.as_str());
                }
            }
        }
    }
    let error = catalogue.serving.error_member.as_ref().map(|member| {
        json!({ "type": "object", "properties": { member.as_str(): { "type": ["string", "array"], "items": { "type": "string" } } }, "required": [member] })
    });
    let with_error = |operation: Operation, status: u16, description: &str| match &error {
        _ if route.has_text_errors => operation.answer(status, description, "text/plain", json!({ "type": "string" })),
        Some(schema) => operation.json(status, description, schema.clone()),
        None => operation.problems(&[status]),
    };
    if !members.is_empty() {
        let body = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": catalogue.serving.ignores_unknown });
        let content = json!({ "application/json": { "schema": body } });
        operation.0["requestBody"] = json!({ "required": !needed.is_empty(), "content": content });
    }
    if !operation.0["requestBody"].is_null() {
        operation = with_error(with_error(operation, 413, "The body is too long."), 415, "The body is not JSON.");
    }
    operation = with_error(operation, 400, "A parameter is wrong.");
    operation = with_error(operation, 404, route.missing.as_deref().unwrap_or("There is no such record."));
    operation = match &route.action {
        RouteAction::Lookup(lookup_route) => {
            let answer = response_body_schema(catalogue, lookup_route);
            refusals(&lookup_route.lookup).into_iter().fold(operation.json(200, "What was found.", answer), |operation, (status, sentence)| {
                if operation.0["responses"].get(status.to_string()).is_some() { operation } else { with_error(operation, status, &sentence) }
            })
        }
        RouteAction::Query(query_route) => {
            let schema = |part: QueryPart| match part {
                QueryPart::Rows => json!({ "type": "array", "items": { "type": "object" } }),
                QueryPart::Total | QueryPart::At => json!({ "type": "integer" }),
                QueryPart::Seconds => json!({ "type": "number" }),
                QueryPart::Parsed => json!({ "type": "object" }),
                QueryPart::Cached => json!({ "type": "boolean" }),
                QueryPart::Services => json!({ "type": "array", "items": { "type": "string" } }),
                QueryPart::Status => json!({ "enum": ["ok", "partial", "fail"] }),
                QueryPart::Query | QueryPart::Reason | QueryPart::Warning => json!({ "type": "string" }),
            };
            let members: Map<String, Json> = query_route.answer.iter().map(|(name, part)| (name.clone(), schema(*part))).collect();
            let needed: Vec<&String> =
                query_route.answer.iter().filter(|(_, part)| !matches!(part, QueryPart::Reason | QueryPart::Warning)).map(|(name, _)| name).collect();
            let answer = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": false });
            let ticket = "A ticket: services have not answered yet.";
            let operation = operation.json(200, "The answer.", answer).answer(200, ticket, "text/plain", json!({ "type": "string" }));
            if query_route.view.is_some() { operation.empty(303, "The page of the query.") } else { operation }
        }
        RouteAction::Steps(steps) => {
            let of_finds = steps.finds.iter().flat_map(|find| {
                let own = match find.required() {
                    IncludeRequirement::Refuse(status, sentence) => vec![(*status, sentence.clone())],
                    _ => Vec::new(),
                };
                let included = if let FindKind::Records(route) = &find.kind { refusals(&route.lookup) } else { Vec::new() };
                own.into_iter().chain(included)
            });
            let of_conditions = steps.refusals.iter().map(|(_, refusal)| (refusal.code, "It was refused.".to_owned()));
            let of_writes = steps.writes.iter().flat_map(|write| {
                let taken = write.taken.clone().unwrap_or((409, "It exists already, or a unique value is taken.".into()));
                let own = match &write.action {
                    WriteAction::Transition(transition, _) => &catalogue.collections[write.collection].transitions[*transition].refuse[..],
                    _ => &[],
                };
                let none = write.required.clone().unwrap_or((409, "There is no record that allows it.".into()));
                own.iter().map(|refusal| (refusal.code, "It was refused.".to_owned())).chain([taken, none])
            });
            for (status, sentence) in of_finds.chain(of_conditions).chain(of_writes) {
                if operation.0["responses"].get(status.to_string()).is_none() {
                    operation = with_error(operation, status, &sentence);
                }
            }
            if !steps.writes.is_empty() {
                operation = with_error(operation.call_once(), 422, "The idempotency key was used for a different request, or an argument is wrong.");
            }
            let status = steps.response.status;
            match (&steps.response.body, steps.response.media) {
                (RouteResponseBody::Empty, _) => operation.empty(status, "It was done."),
                (_, ResponseMedia::Text) => operation.answer(status, "It was done.", "text/plain", json!({ "type": "string" })),
                (RouteResponseBody::Value(_), ResponseMedia::Json) => operation.json(status, "The answer.", json!({})),
                (RouteResponseBody::Members(members), ResponseMedia::Json) => {
                    let names: Vec<&String> = members.iter().map(|(name, _)| name).collect();
                    let shown: Map<String, Json> = members.iter().map(|(name, _)| (name.clone(), json!({}))).collect();
                    operation.json(
                        status,
                        "The answer.",
                        json!({ "type": "object", "properties": shown, "required": names, "additionalProperties": false }),
                    )
                }
            }
        }
        RouteAction::Transition { collection, transition, .. } => {
            operation = operation.call_once().json(200, "The transition was applied.", transition_result_schema());
            operation = with_error(with_error(operation, 409, "It was refused."), 422, "The idempotency key was used for a different request.");
            let refuse = &catalogue.collections[*collection].transitions[*transition].refuse;
            refuse.iter().fold(with_error(operation, 403, "The token does not allow it."), |operation, refusal| {
                with_error(operation, refusal.code, "It was refused.")
            })
        }
    };
    if route.is_open {
        return operation.problems(&[503]).open();
    }
    // the guard may refuse a request before the route is reached
    operation.problems(&[401, 403, 503]).0
}

fn param_schema(param: &Param) -> Json {
    let mut schema = schema_with_limits(&param.ty, &param.one_of, param.min, param.max);
    if param.ty.is_list() {
        schema["maxItems"] = MAX_REPEATED.into();
        schema["minItems"] = 1.into();
    }
    if param.location == ParamLocation::Path && param.ty == FieldType::Text {
        schema["minLength"] = 1.into();
        schema["maxLength"] = MAX_KEY_BYTES.into();
    }
    if let Some(default) = &param.default {
        schema["default"] = default.to_json(&param.ty);
    }
    schema
}

fn refusals(lookup: &Lookup) -> Vec<(u16, String)> {
    let of_include = |(_, include): &(String, Lookup)| {
        let own_refusals = match &include.required {
            IncludeRequirement::Refuse(status, sentence) => vec![(*status, sentence.clone())],
            _ => Vec::new(),
        };
        own_refusals.into_iter().chain(refusals(include)).collect::<Vec<_>>()
    };
    lookup.includes.iter().flat_map(of_include).collect()
}

fn response_body_schema(catalogue: &Catalogue, route: &LookupRoute) -> Json {
    let rows = rows_schema(catalogue, &route.lookup);
    if route.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &(String, LookupPart)| {
        (name.clone(), if *part == LookupPart::Rows { rows.clone() } else { json!({ "type": "integer", "minimum": 0 }) })
    };
    let members: Map<String, Json> = route.answer.iter().map(member).collect();
    let names: Vec<&String> = route.answer.iter().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
}

fn rows_schema(catalogue: &Catalogue, lookup: &Lookup) -> Json {
    let collection = &catalogue.collections[lookup.collection];
    let row = if lookup.projection.is_empty() {
        json!({ "type": "object" })
    } else {
        let member = |(name, leaf): &(String, Projection)| {
            let ty = match leaf {
                Projection::Text(_) => Some(json!({ "type": "string" })),
                Projection::Path(path) if path.len() == 1 => {
                    let field = collection.field(&path[0]).map(|(_, field)| response_schema(field.golden_type()));
                    field.or_else(|| collection.state(&path[0]).map(|(_, state)| response_schema(&state.ty)))
                }
                _ => None,
            };
            (name.clone(), ty.map_or(json!({}), nullable))
        };
        let members: Map<String, Json> = lookup.projection.iter().map(member).collect();
        let names: Vec<&String> = lookup.projection.iter().map(|(name, _)| name).collect();
        json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
    };
    if lookup.single { row } else { json!({ "type": "array", "items": row }) }
}
