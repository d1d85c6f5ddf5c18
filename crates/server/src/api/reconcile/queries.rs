//! Answers queries: for each, the records that it may mean.

use super::{type_of, unprocessable};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Collection;
use stook_catalogue::diagnostic::known_instead;
use stook_query::reconcile::{Candidate, QueryProperty, Reconciler, ReconciliationQuery, property_named};
use stook_store::Store;

/// Max queries of a request.
pub const MAX_QUERIES: usize = 50;
/// Max candidates of a query; whoever wants more gets as many.
pub const MAX_CANDIDATES: usize = 50;
/// Max properties of a query, and max values of a property.
pub const MAX_PROPERTIES: usize = 20;
/// Max characters of the text of a query.
pub const MAX_QUERY_CHARS: usize = 1_000;
/// Candidates of a query that does not say how many.
const DEFAULT_CANDIDATES: usize = 10;

/// The members of a query.
const MEMBERS: [&str; 5] = ["query", "type", "limit", "properties", "type_strict"];

/// The answer to a batch of queries.
pub(super) async fn answer(ctx: &RequestContext, sent: &Json) -> HandlerResult<Json> {
    let queries = read(ctx.definition(ctx.collection()), sent)?;
    let (app, tenant, id) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    reading(move || -> Result<Json, Problem> {
        let collection = &app.catalogue.collections[id];
        let store: &dyn Store = &*app.store;
        let reconciler = Reconciler::new(store, (&tenant, id), collection);
        let reconciler = reconciler.ok_or_else(|| Problem::not_found(format!("no field of `{}` has `index: words`", collection.name)))?;
        let mut answers = Map::new();
        for (name, query) in queries {
            let candidates = reconciler.candidates(&query)?;
            let shown = candidates.iter().map(|candidate| shown(collection, &query, candidate));
            answers.insert(name, json!({ "result": shown.collect::<Vec<_>>() }));
        }
        Ok(Json::Object(answers))
    })
    .await
}

/// A candidate as it is sent.
fn shown(collection: &Collection, query: &ReconciliationQuery, candidate: &Candidate) -> Json {
    let of_name = candidate.of_name.map(|score| json!({ "id": "name", "value": score }));
    let of_properties = query.properties.iter().zip(&candidate.of_properties);
    let of_properties =
        of_properties.map(|(property, score)| json!({ "id": format!("property:{}", collection.fields[property.field].name), "value": score }));
    json!({
        "id": candidate.key.as_str(),
        "name": candidate.name,
        "type": [type_of(collection)],
        "score": candidate.score,
        "match": candidate.is_match,
        "features": of_name.into_iter().chain(of_properties).collect::<Vec<_>>(),
    })
}

/// Checks a batch; all that is wrong with it is one problem.
fn read(collection: &Collection, sent: &Json) -> HandlerResult<Vec<(String, ReconciliationQuery)>> {
    let Json::Object(batch) = sent else {
        return Err(unprocessable("queries is an object with a query for each name: {\"q0\": {\"query\": \"moby dick\"}}"));
    };
    if batch.len() > MAX_QUERIES {
        return Err(unprocessable(&format!("a request has at most {MAX_QUERIES} queries, this one has {}; send several requests", batch.len())));
    }
    let (mut queries, mut problems) = (Vec::new(), Vec::new());
    for (name, sent) in batch {
        match query(collection, sent) {
            Ok(query) => queries.push((name.clone(), query)),
            Err(reason) => problems.push(format!("queries.{name}{reason}")),
        }
    }
    if problems.is_empty() { Ok(queries) } else { Err(Problem::unprocessable(problems)) }
}

/// Reads a query; what is wrong with it begins with its place in the query.
fn query(collection: &Collection, sent: &Json) -> Result<ReconciliationQuery, String> {
    let Json::Object(members) = sent else { return Err(": a query is an object: {\"query\": \"moby dick\"}".into()) };
    if let Some(name) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!(": there is no member {name:?}; {}", known_instead(name, MEMBERS)));
    }
    let text = match members.get("query") {
        None | Some(Json::Null) => None,
        Some(Json::String(text)) if text.chars().count() > MAX_QUERY_CHARS => {
            return Err(format!(".query: a text has at most {MAX_QUERY_CHARS} characters"));
        }
        Some(Json::String(text)) if text.contains('\0') => return Err(".query: a text has no NUL character".into()),
        Some(Json::String(text)) => Some(text.clone()),
        Some(_) => return Err(".query: expected a text".into()),
    };
    let limit = match members.get("limit") {
        None | Some(Json::Null) => DEFAULT_CANDIDATES,
        Some(limit) => {
            let whole = limit.as_f64().filter(|limit| limit.fract() == 0.0 && *limit >= 1.0);
            whole.ok_or(".limit: expected a whole number from 1")?.min(MAX_CANDIDATES as f64) as usize
        }
    };
    check_types(collection, members.get("type"))?;
    let properties = match members.get("properties") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(properties)) if properties.len() > MAX_PROPERTIES => return Err(format!(".properties: at most {MAX_PROPERTIES}")),
        Some(Json::Array(properties)) => {
            let read = |(at, sent)| property(collection, sent).map_err(|reason| format!(".properties[{at}]{reason}"));
            properties.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?
        }
        Some(_) => return Err(".properties: expected a list".into()),
    };
    if text.is_none() && !properties.iter().any(|property| property.is_indexed()) {
        return Err(": a query has a text (`query`), or a property whose field has an index".into());
    }
    Ok(ReconciliationQuery { text, properties, limit })
}

/// The records of a service have one type.
fn check_types(collection: &Collection, sent: Option<&Json>) -> Result<(), String> {
    let wrong = |name: &str| format!(".type: there is no type {name:?} here; this service has `{}`", collection.name);
    let check = |sent: &Json| match sent.as_str().or_else(|| sent["id"].as_str()) {
        None => Err(".type: expected the name of a type, or a list of names".to_owned()),
        Some(name) if name == collection.name => Ok(()),
        Some(name) => Err(wrong(name)),
    };
    match sent {
        None | Some(Json::Null) => Ok(()),
        Some(Json::Array(all)) if all.is_empty() || all.iter().any(|sent| check(sent).is_ok()) => Ok(()),
        Some(Json::Array(all)) => all.iter().try_for_each(check),
        Some(one) => check(one),
    }
}

fn property(collection: &Collection, sent: &Json) -> Result<QueryProperty, String> {
    let named = sent["pid"].as_str().ok_or(".pid: expected the name of a property")?;
    let field = property_named(collection, named).map_err(|reason| format!(".pid: {reason}"))?;
    let values = match sent.get("v") {
        None => return Err(".v: the value is missing".into()),
        Some(Json::Array(values)) => values.as_slice(),
        Some(value) => std::slice::from_ref(value),
    };
    if values.len() > MAX_PROPERTIES {
        return Err(format!(".v: at most {MAX_PROPERTIES} values"));
    }
    let is_value = |value: &Json| match value {
        Json::String(text) => text.chars().count() <= MAX_QUERY_CHARS && !text.contains('\0'),
        Json::Object(_) => value["id"].as_str().is_some_and(|id| id.chars().count() <= MAX_QUERY_CHARS && !id.contains('\0')),
        Json::Number(_) | Json::Bool(_) => true,
        Json::Null | Json::Array(_) => false,
    };
    if !values.iter().all(is_value) {
        return Err(format!(".v: expected a text of at most {MAX_QUERY_CHARS} characters, a number, a boolean, {{\"id\": KEY}}, or a list of these"));
    }
    Ok(QueryProperty::new(field, values))
}
