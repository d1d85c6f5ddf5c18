//! Declared routes that ask a query: the answer when it is here, else a ticket to come back with.

use super::parameters::RouteParams;
use crate::App;
use crate::api::queries::{MOST_ROWS, ROWS, compiled};
use crate::api::response::json_answer;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::FieldId;
use stook_catalogue::key::Key;
use stook_catalogue::parts::joined;
use stook_catalogue::record::ContributionContent;
use stook_catalogue::route::{QueryPart, QueryRoute};
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::aggregate::over;
use stook_engine::fetch::{FetchOptions, FetchPolicy, ServiceStatus};
use stook_query::{ComparisonOperator, CompiledQuery, GrepItem, QueryCondition, Stage};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{ReadDetail, Tenant};

/// How long a caller that comes back is kept waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers a query, or gives a ticket.
pub async fn answer(ctx: RequestContext, ask: &QueryRoute, given: &RouteParams<'_>) -> HandlerResult {
    let query = given.text(ask.query).to_owned();
    let mut compiled = compiled(&ctx, &query).await?;
    let ticket = blake3::hash(format!("{}\n{query}", ctx.tenant).as_bytes()).to_hex()[..32].to_owned();
    let returns = given.text(ask.ticket);
    if !returns.is_empty() && returns != ticket {
        return Err(Problem::bad("the ticket belongs to another query"));
    }
    let limit = ask.limit.map_or(ROWS, |limit| given.number(limit));
    compiled.plan.limit = Some(if limit == 0 { MOST_ROWS } else { limit.min(MOST_ROWS) });
    compiled.plan.offset = ask.offset.map_or(0, |offset| given.number(offset));
    let time = if returns.is_empty() { Duration::from_millis(50) } else { PATIENCE };
    ctx.reaches_store();
    let (app, own, tenant) = (ctx.app.clone(), ask.clone(), ctx.tenant.clone());
    let found = reading(move || {
        let said = app.fetch(&compiled, FetchOptions { when: FetchPolicy::Needed, time: Some(time) })?;
        if said.iter().any(|status| status.state() == "running") {
            return Ok(None);
        }
        shown(&app, &own, &tenant, &query, &compiled, &said).map(Some)
    })
    .await?;
    Ok(match found {
        Some(found) => json_answer(StatusCode::OK, found.to_string()),
        None => ([(header::CONTENT_TYPE, "text/plain")], ticket).into_response(),
    })
}

fn shown(app: &App, ask: &QueryRoute, tenant: &Tenant, query: &str, compiled: &CompiledQuery, said: &[ServiceStatus]) -> Result<Json, EngineError> {
    let is_good = |status: &ServiceStatus| status.state() == "complete";
    let (good, rest) = (said.iter().filter(|status| is_good(status)).count(), said.iter().filter(|status| !is_good(status)));
    let reasons: Vec<String> =
        rest.map(|status| format!("{} is {}: {}", status.source, status.state(), status.reason().unwrap_or_default())).collect();
    let state = match (good, reasons.is_empty()) {
        (_, true) => "ok",
        (0, false) => "fail",
        _ => "partial",
    };
    let (rows, total) = rows(app, ask, tenant, compiled, said)?;
    let mut shown = Map::new();
    for (name, part) in &ask.answer {
        let value = match part {
            QueryPart::Rows => Json::Array(rows.clone()),
            QueryPart::Total => json!(total),
            QueryPart::Status => json!(state),
            QueryPart::At => json!(app.store.clock() / 1_000_000),
            QueryPart::Seconds => json!(said.iter().filter(|status| !status.cached).map(ServiceStatus::took).max().unwrap_or_default().as_secs_f64()),
            QueryPart::Query => json!(query),
            QueryPart::Parsed => parsed(query, &app.catalogue.collections[compiled.plan.collection].name),
            QueryPart::Cached => json!(said.iter().all(|status| status.cached)),
            QueryPart::Services => said.iter().map(|status| status.source.as_str()).collect(),
            QueryPart::Reason if reasons.is_empty() => continue,
            QueryPart::Reason => json!(reasons.join("; ")),
        };
        shown.insert(name.clone(), value);
    }
    Ok(Json::Object(shown))
}

/// What a condition compares with, in the database language of the original.
fn compared(condition: &QueryCondition) -> Json {
    let values: Vec<Json> = condition
        .values
        .iter()
        .map(|value| {
            let text = value.pieces.join("*");
            text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
        })
        .collect();
    let first = values.first().cloned().unwrap_or_default();
    match condition.operator {
        ComparisonOperator::Equal => first,
        ComparisonOperator::NotEqual => json!({ "$ne": first }),
        ComparisonOperator::Less => json!({ "$lt": first }),
        ComparisonOperator::AtMost => json!({ "$lte": first }),
        ComparisonOperator::Greater => json!({ "$gt": first }),
        ComparisonOperator::AtLeast => json!({ "$gte": first }),
        ComparisonOperator::In => json!({ "$in": values }),
        ComparisonOperator::Between => json!({ "$gte": first, "$lte": values.last() }),
        ComparisonOperator::Last => json!({ "$last": first }),
    }
}

/// A query in its parts, as clients of the original expect it.
fn parsed(text: &str, collection: &str) -> Json {
    let Ok(query) = stook_query::parse(text) else { return json!({}) };
    let whole = |path: &str| if path.contains('.') { path.to_owned() } else { format!("{collection}.{path}") };
    let mut spec = Map::new();
    for condition in &query.lookup.conditions {
        let own = compared(condition);
        match (spec.get_mut(&condition.path.text), own) {
            // two bounds of one field
            (Some(Json::Object(known)), Json::Object(own)) => known.extend(own),
            (_, own) => drop(spec.insert(condition.path.text.clone(), own)),
        }
    }
    let (mut filters, mut aggregators) = (Map::new(), Vec::new());
    let mut grep: Vec<String> = Vec::new();
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => grep.extend(items.iter().map(|item| match item {
                GrepItem::Column(path) => whole(&path.text),
                GrepItem::Condition(condition) => format!("{}{}", whole(&condition.path.text), &text[condition.path.span.end..condition.span.end]),
            })),
            Stage::Sort(order) => {
                let shown = order.iter().map(|(path, descending)| format!("{}{}", whole(&path.text), if *descending { "-" } else { "" }));
                filters.insert("sort".into(), shown.collect());
            }
            Stage::Each(path) => {
                filters.insert("each".into(), whole(&path.text).into());
            }
            Stage::Unique => {
                filters.insert("unique".into(), json!(1));
            }
            Stage::Aggregates(wanted) => aggregators.extend(wanted.iter().map(|(function, path)| json!([function.name(), whole(&path.text)]))),
        }
    }
    if !grep.is_empty() {
        filters.insert("grep".into(), json!(grep));
    }
    let also = query.lookup.extra_names.iter().map(|(path, _)| path.text.as_str());
    let fields: Vec<&str> = std::iter::once(collection).chain(also).collect();
    let mut parts = json!({ "fields": fields, "spec": spec });
    if !filters.is_empty() {
        parts["filters"] = filters.into();
    }
    if !aggregators.is_empty() {
        parts["aggregators"] = aggregators.into();
    }
    parts
}

/// Rows of the page, and how many there are.
fn rows(app: &App, ask: &QueryRoute, tenant: &Tenant, compiled: &CompiledQuery, said: &[ServiceStatus]) -> Result<(Vec<Json>, u64), EngineError> {
    let collection = &app.catalogue.collections[compiled.plan.collection];
    if !compiled.aggregates.is_empty() {
        let values = app.store.aggregate(&compiled.plan, &compiled.aggregates)?;
        let row = |((value, heading), aggregate): ((&Value, &stook_query::ResultColumn), &stook_store::plan::Aggregate)| {
            let key = heading.name.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
            json!({ "function": aggregate.function.name(), "key": format!("{}.{key}", collection.name), "result": { "value": value.to_json(&heading.ty) } })
        };
        let mut rows: Vec<Json> = values.iter().zip(&compiled.columns).zip(&compiled.aggregates).map(row).collect();
        for own in over(&app.catalogue, &*app.store, &compiled.plan, &compiled.aggregates)? {
            rows[own.aggregate]["result"]["over"] = json!({ "values": own.values, "rows": own.rows });
        }
        let total = rows.len() as u64;
        return Ok((rows, total));
    }
    if !ask.by_source || compiled.plan.distinct || compiled.plan.each.is_some() {
        let (found, total) = app.store.find_and_count(&compiled.plan)?;
        // where the key is not among what is asked for, the first of that stands for the row
        let names = || compiled.columns.iter().map(|heading| heading.name.as_str());
        let key = key_of(collection);
        let key = names().find(|name| *name == key).or(names().next()).unwrap_or(key);
        let rows = found.rows.iter().map(|row| {
            let cells = compiled.columns.iter().zip(row).map(|(heading, value)| (heading.name.as_str(), value.to_json(&heading.ty)));
            let cells = cells.filter(|(_, value)| !value.is_null());
            if ask.by_source {
                json!({ collection.name.as_str(): [nested(cells)], "das": about(collection, key, &[]) })
            } else {
                cells.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
            }
        });
        return Ok((rows.collect(), total));
    }
    let (found, total) = app.store.find_and_count(&QueryPlan { columns: vec![PlanColumn::Key], ..compiled.plan.clone() })?;
    let keys: Vec<Key> = found.rows.iter().filter_map(|row| Key::new(row.first()?.as_text()?).ok()).collect();
    let wanted: Vec<FieldId> =
        compiled.plan.columns.iter().filter_map(|column| if let PlanColumn::Field(field) = column { Some(*field) } else { None }).collect();
    let services: HashMap<&str, &str> = said.iter().map(|status| (status.source.as_str(), status.service.as_str())).collect();
    let mut rows = Vec::with_capacity(keys.len());
    for record in app.store.read(tenant, compiled.plan.collection, &keys, ReadDetail::Full)?.into_iter().flatten() {
        let contributions = record.contributions_of(collection)?;
        let (mut said, mut sources) = (Vec::new(), Vec::new());
        let contributions = joined(&app.catalogue, collection, &contributions);
        for own in contributions.iter().filter(|own| own.counts()) {
            let ContributionContent::Values(values) = &own.content else { continue };
            let cells = wanted.iter().map(|index| (&collection.fields[*index], said_of(collection, *index, values)));
            let cells = cells.filter(|(_, value)| !matches!(**value, Value::Null | Value::Cleared));
            said.push(nested(cells.map(|(field, value)| (field.name.as_str(), value.to_json(&field.ty)))));
            sources.push((services.get(own.source()).copied().unwrap_or(own.source()), own.source()));
        }
        rows.push(json!({ collection.name.as_str(): said, "das": about(collection, key_of(collection), &sources) }));
    }
    Ok((rows, total))
}

/// What a contributor says of a field, or in its structs of a member.
fn said_of<'v>(collection: &Collection, index: FieldId, values: &'v [Value]) -> Cow<'v, Value> {
    collection.member(index).map_or(Cow::Borrowed(&values[index]), |(list, member)| Cow::Owned(members_of(&values[list], member)))
}

fn key_of(collection: &Collection) -> &str {
    collection.key_field().map_or("key", |field| collection.fields[field].name.as_str())
}

/// Cells by name, those of members inside what they are members of: clients of the original walk from name to name.
fn nested<'c>(cells: impl IntoIterator<Item = (&'c str, Json)>) -> Json {
    let mut whole = Map::new();
    'cells: for (name, value) in cells {
        let mut names: Vec<&str> = name.split('.').collect();
        let last = names.pop().unwrap_or(name);
        let mut place = &mut whole;
        for name in names {
            // a list of structs that is shown itself has its members in it
            let Some(inner) = place.entry(name).or_insert_with(|| json!({})).as_object_mut() else { continue 'cells };
            place = inner;
        }
        place.entry(last).or_insert(value);
    }
    Json::Object(whole)
}

/// Where the values of a row are from, as clients of the original expect it.
fn about(collection: &Collection, key: &str, sources: &[(&str, &str)]) -> Json {
    let (systems, calls): (Vec<&str>, Vec<&str>) = sources.iter().copied().unzip();
    json!({ "primary_key": format!("{}.{key}", collection.name), "record": 1, "system": systems, "api": calls })
}
