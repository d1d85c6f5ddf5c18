//! Declared routes.

use super::operation::Operation;
use super::schema::{done_schema, limited, nullable, query_text, shown_schema, text};
use crate::api::routes::MOST_REPEATED;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::key::MAX_KEY_BYTES;
use stook_catalogue::route::{Lookup, LookupPart, LookupRoute, Param, ParamLocation, Projection, QueryPart, Route, RouteAction};
use stook_catalogue::value::FieldType;

/// Describes a declared route.
pub fn describe(catalogue: &Catalogue, index: usize, route: &Route) -> Json {
    let asks = if let RouteAction::Query(ask) = &route.action { Some(ask.query) } else { None };
    // an invalid query gets a normal response
    let takes_any = matches!(&route.action, RouteAction::Query(ask) if ask.answers_mistakes);
    let id = format!("{}route_{}", if asks.is_some() { "ask_" } else { "" }, index + 1);
    let mut operation = Operation::new(&id, "routes", &format!("{} {}", route.method.name().to_uppercase(), route.path));
    let (mut members, mut needed) = (Map::new(), Vec::new());
    for (place, param) in route.params.iter().enumerate() {
        let required = param.required.is_some() && param.default.is_none();
        let own = match asks == Some(place) {
            true if takes_any => text(),
            true => query_text(),
            false => param_schema(param),
        };
        match param.place {
            ParamLocation::Path => operation = operation.parameter(&param.name, "path", true, own, ""),
            ParamLocation::Query => operation = operation.parameter(&param.name, "query", required, own, ""),
            ParamLocation::Body => {
                members.insert(param.name.clone(), if required { own } else { nullable(own) });
                if required {
                    needed.push(param.name.as_str());
                }
            }
        }
    }
    let error = catalogue.error_member.as_ref().map(|member| {
        json!({ "type": "object", "properties": { member.as_str(): { "type": ["string", "array"], "items": { "type": "string" } } }, "required": [member] })
    });
    let said = |operation: Operation, status: u16, description: &str| match &error {
        Some(schema) => operation.json(status, description, schema.clone()),
        None => operation.problems(&[status]),
    };
    if !members.is_empty() {
        let body = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": false });
        let content = json!({ "application/json": { "schema": body } });
        operation.0["requestBody"] = json!({ "required": !needed.is_empty(), "content": content });
        operation = said(said(operation, 413, "The body is too long."), 415, "The body is not JSON.");
    }
    operation = said(operation, 400, "A parameter is wrong.");
    operation = said(operation, 404, route.missing.as_deref().unwrap_or("There is no such record."));
    operation = match &route.action {
        RouteAction::Lookup(find) => {
            let answer = find_schema(catalogue, find);
            refusals(&find.lookup).into_iter().fold(operation.json(200, "What was found.", answer), |operation, (status, sentence)| {
                if operation.0["responses"].get(status.to_string()).is_some() { operation } else { said(operation, status, &sentence) }
            })
        }
        RouteAction::Query(ask) => {
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
            let members: Map<String, Json> = ask.answer.iter().map(|(name, part)| (name.clone(), schema(*part))).collect();
            let needed: Vec<&String> =
                ask.answer.iter().filter(|(_, part)| !matches!(part, QueryPart::Reason | QueryPart::Warning)).map(|(name, _)| name).collect();
            let answer = json!({ "type": "object", "properties": members, "required": needed, "additionalProperties": false });
            operation.json(200, "The answer.", answer).answer(
                200,
                "A ticket: services have not answered yet.",
                "text/plain",
                json!({ "type": "string" }),
            )
        }
        RouteAction::Transition { collection, transition, .. } => {
            operation = operation.call_once().json(200, "The transition was applied.", done_schema());
            operation = said(said(operation, 409, "It was refused."), 422, "The idempotency key was used for a different request.");
            let refuse = &catalogue.collections[*collection].transitions[*transition].refuse;
            refuse
                .iter()
                .fold(said(operation, 403, "The token does not allow it."), |operation, refusal| said(operation, refusal.code, "It was refused."))
        }
    };
    // the guard may refuse a request before the route is reached
    operation.problems(&[401, 403, 503]).0
}

fn param_schema(param: &Param) -> Json {
    let mut own = limited(&param.ty, &param.one_of, param.min, param.max);
    if param.ty.is_list() {
        own["maxItems"] = MOST_REPEATED.into();
        own["minItems"] = 1.into();
    }
    if param.place == ParamLocation::Path && param.ty == FieldType::Text {
        own["minLength"] = 1.into();
        own["maxLength"] = MAX_KEY_BYTES.into();
    }
    if let Some(default) = &param.default {
        own["default"] = default.to_json(&param.ty);
    }
    own
}

fn refusals(look: &Lookup) -> Vec<(u16, String)> {
    let of_include = |(_, include): &(String, Lookup)| {
        let own = match &include.required {
            stook_catalogue::route::IncludeRequirement::Refuse(status, sentence) => vec![(*status, sentence.clone())],
            _ => Vec::new(),
        };
        own.into_iter().chain(refusals(include)).collect::<Vec<_>>()
    };
    look.includes.iter().flat_map(of_include).collect()
}

fn find_schema(catalogue: &Catalogue, find: &LookupRoute) -> Json {
    let rows = look_schema(catalogue, &find.lookup);
    if find.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &(String, LookupPart)| {
        (name.clone(), if *part == LookupPart::Rows { rows.clone() } else { json!({ "type": "integer", "minimum": 0 }) })
    };
    let members: Map<String, Json> = find.answer.iter().map(member).collect();
    let names: Vec<&String> = find.answer.iter().map(|(name, _)| name).collect();
    json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
}

fn look_schema(catalogue: &Catalogue, look: &Lookup) -> Json {
    let collection = &catalogue.collections[look.collection];
    let one = if look.projection.is_empty() {
        json!({ "type": "object" })
    } else {
        let member = |(name, leaf): &(String, Projection)| {
            let ty = match leaf {
                Projection::Text(_) => Some(json!({ "type": "string" })),
                Projection::Path(path) if path.len() == 1 => {
                    let field = collection.field(&path[0]).map(|(_, field)| shown_schema(field.golden_type()));
                    field.or_else(|| collection.state(&path[0]).map(|(_, state)| shown_schema(&state.ty)))
                }
                _ => None,
            };
            (name.clone(), ty.map_or(json!({}), nullable))
        };
        let members: Map<String, Json> = look.projection.iter().map(member).collect();
        let names: Vec<&String> = look.projection.iter().map(|(name, _)| name).collect();
        json!({ "type": "object", "properties": members, "required": names, "additionalProperties": false })
    };
    if look.single { one } else { json!({ "type": "array", "items": one }) }
}
