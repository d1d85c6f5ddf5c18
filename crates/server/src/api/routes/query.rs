//! Declared routes that ask a query: the answer when it is here, else a ticket to come back with.

use super::parameters::RouteParams;
use crate::App;
use crate::api::queries::{MOST_ROWS, ROWS, compiled};
use crate::api::response::json_answer;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
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
use stook_query::{ComparisonOperator, CompiledQuery, GrepItem, NamedColumn, QueryCondition, Stage, named_columns};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{ReadDetail, Tenant};

/// How long a caller that comes back is kept waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers a query, or gives a ticket.
pub async fn answer(ctx: RequestContext, ask: &QueryRoute, given: &RouteParams<'_>) -> HandlerResult {
    let query = given.text(ask.query).to_owned();
    let mut compiled = match compiled(&ctx, &query).await {
        Err(problem) if ask.answers_mistakes && problem.status.is_client_error() => return Ok(mistaken(&ctx.app, ask, &query, &problem)),
        compiled => compiled?,
    };
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
    let (app, own) = (ctx.app.clone(), ask.clone());
    let found = reading(move || {
        let said = app.fetch(&compiled, FetchOptions { when: FetchPolicy::Needed, time: Some(time) })?;
        if said.iter().any(|status| status.state() == "running") {
            return Ok(None);
        }
        shown(&app, &own, &query, &compiled, &said).map(Some)
    })
    .await?;
    Ok(match found {
        Some(found) => json_answer(StatusCode::OK, found.to_string()),
        None => ([(header::CONTENT_TYPE, "text/plain")], ticket).into_response(),
    })
}

/// The answer to a query that nobody can answer.
fn mistaken(app: &App, ask: &QueryRoute, query: &str, problem: &Problem) -> Response {
    let one = |part: QueryPart| {
        Some(match part {
            QueryPart::Rows | QueryPart::Services => json!([]),
            QueryPart::Total | QueryPart::Seconds => json!(0),
            QueryPart::Status => json!("fail"),
            QueryPart::At => json!(app.store.clock() / 1_000_000),
            QueryPart::Query => json!(query),
            QueryPart::Parsed => json!({}),
            QueryPart::Cached => json!(false),
            QueryPart::Reason => json!(problem.detail),
            QueryPart::Warning => return None,
        })
    };
    let shown: Map<String, Json> = ask.answer.iter().filter_map(|(name, part)| Some((name.clone(), one(*part)?))).collect();
    json_answer(StatusCode::OK, Json::Object(shown).to_string())
}

fn shown(app: &App, ask: &QueryRoute, query: &str, compiled: &CompiledQuery, said: &[ServiceStatus]) -> Result<Json, EngineError> {
    let Verdict { state, reasons, warnings } = Verdict::of(app, ask, compiled, said);
    let (rows, total) = rows(app, (ask, query), &compiled.plan.tenant, compiled, said)?;
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
            QueryPart::Services => {
                let mut sources: Vec<&str> = Vec::new();
                let is_new = |source: &&str, sources: &[&str]| !sources.contains(source);
                said.iter().map(|status| status.source.as_str()).for_each(|source| sources.extend(Some(source).filter(|own| is_new(own, &sources))));
                json!(sources)
            }
            QueryPart::Reason if reasons.is_empty() => continue,
            QueryPart::Reason => json!(reasons.join("; ")),
            QueryPart::Warning if warnings.is_empty() => continue,
            QueryPart::Warning => json!(warnings.join("; ")),
        };
        shown.insert(name.clone(), value);
    }
    Ok(Json::Object(shown))
}

/// What an answer is worth, by what became of its services.
struct Verdict {
    state: &'static str,
    reasons: Vec<String>,
    /// What is missing although it is enough.
    warnings: Vec<String>,
}

impl Verdict {
    fn of(app: &App, ask: &QueryRoute, compiled: &CompiledQuery, said: &[ServiceStatus]) -> Self {
        let is_good = |status: &&ServiceStatus| status.state() == "complete";
        let reason = |status: &ServiceStatus| format!("{} is {}: {}", status.source, status.state(), status.reason().unwrap_or_default());
        let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
        for status in said.iter().filter(|status| !is_good(status)) {
            let good: Vec<&ServiceStatus> =
                said.iter().filter(is_good).filter(|other| other.source != status.source && is_beside(app, other, status)).collect();
            if !ask.one_is_enough || good.is_empty() {
                reasons.push(reason(status));
            } else if status.state() != "unasked" || says_more(app, compiled, status, &good) {
                warnings.push(reason(status));
            }
        }
        let any = said.iter().any(|status| is_good(&status));
        let state = match (any, reasons.is_empty()) {
            (_, true) => "ok",
            (false, false) => "fail",
            (true, false) => "partial",
        };
        if state != "ok" {
            reasons.append(&mut warnings);
        }
        Self { state, reasons, warnings }
    }
}

/// Whether two sources are asked for the same records.
fn is_beside(app: &App, one: &ServiceStatus, other: &ServiceStatus) -> bool {
    let collection = |status: &ServiceStatus| app.catalogue.source(&status.source).map(|(_, source)| source.feeds[0].collection);
    one.through == other.through && collection(one) == collection(other)
}

/// Whether a source says something of which the query has a condition, and none of the others does.
fn says_more(app: &App, compiled: &CompiledQuery, status: &ServiceStatus, others: &[&ServiceStatus]) -> bool {
    let says = |status: &ServiceStatus, field: FieldId| {
        app.catalogue.source(&status.source).is_some_and(|(_, source)| source.feeds[0].map.iter().any(|rule| rule.field == field))
    };
    let tested = compiled.plan.conditions.iter().filter_map(|condition| match condition.column {
        PlanColumn::Field(field) if status.through.is_none() => Some(app.catalogue.contributed(compiled.plan.collection, field)),
        _ => None,
    });
    tested.flatten().any(|field| says(status, field) && !others.iter().any(|other| says(other, field)))
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
fn rows(
    app: &App,
    (ask, query): (&QueryRoute, &str),
    tenant: &Tenant,
    compiled: &CompiledQuery,
    said: &[ServiceStatus],
) -> Result<(Vec<Json>, u64), EngineError> {
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
        let named = stook_query::parse(query).map(|query| named_columns(&query, &app.catalogue)).unwrap_or_default();
        let rows = found.rows.iter().map(|row| {
            let cells = compiled.columns.iter().zip(row).map(|(heading, value)| (heading.name.as_str(), value.to_json(&heading.ty)));
            let cells = cells.filter(|(_, value)| !value.is_null());
            if ask.by_source {
                let cells: Vec<(&str, Json)> = cells.collect();
                let mut row = by_name(&named, &cells);
                let own = row.entry(collection.name.as_str()).or_insert_with(|| json!([{}]));
                add(&mut own[0], nested(cells));
                let first = named.first().map_or((collection.name.as_str(), key), |first| (&first.name, &first.member));
                row.insert("das".into(), about(first, &[]));
                row.into()
            } else {
                cells.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
            }
        });
        return Ok((rows.collect(), total));
    }
    // what no source says: derived, read through links, and state
    let is_said = |column: &PlanColumn| matches!(column, PlanColumn::Field(field) if is_contributed(collection, *field));
    let unsaid = compiled.plan.columns.iter().zip(&compiled.columns).filter(|(column, _)| !is_said(column) && **column != PlanColumn::Key);
    let unsaid: Vec<(&PlanColumn, &stook_query::ResultColumn)> = unsaid.collect();
    let columns = std::iter::once(PlanColumn::Key).chain(unsaid.iter().map(|(column, _)| **column)).collect();
    let (found, total) = app.store.find_and_count(&QueryPlan { columns, ..compiled.plan.clone() })?;
    let keyed = found.rows.into_iter().filter_map(|row| Some((Key::new(row.first()?.as_text()?).ok()?, row)));
    let (keys, values): (Vec<Key>, Vec<Vec<Value>>) = keyed.unzip();
    let wanted: Vec<FieldId> = compiled.plan.columns.iter().filter(|column| is_said(column)).filter_map(|column| column.field()).collect();
    let services: HashMap<&str, &str> = said.iter().map(|status| (status.source.as_str(), status.service.as_str())).collect();
    let key = collection.key_field().map_or_else(|| first_of(compiled), |key| collection.fields[key].name.as_str());
    let mut rows = Vec::with_capacity(keys.len());
    let read = app.store.read(tenant, compiled.plan.collection, &keys, ReadDetail::Full)?;
    for (record, values) in read.into_iter().zip(values).filter_map(|(record, values)| Some((record?, values))) {
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
        let cells = unsaid.iter().zip(&values[1..]).map(|((_, heading), value)| (heading.name.as_str(), value.to_json(&heading.ty)));
        let more = nested(cells.filter(|(_, value)| !value.is_null()));
        match said.first_mut() {
            Some(first) => add(first, more),
            None => said.push(more),
        }
        rows.push(json!({ collection.name.as_str(): said, "das": about((&collection.name, key), &sources) }));
    }
    Ok((rows, total))
}

/// Adds the members that an object does not have.
fn add(to: &mut Json, more: Json) {
    if let (Some(to), Json::Object(more)) = (to.as_object_mut(), more) {
        for (name, value) in more {
            to.entry(name).or_insert(value);
        }
    }
}

/// Whether sources give the values of a field, or of the list that it is a member of.
fn is_contributed(collection: &Collection, field: FieldId) -> bool {
    let of = collection.member(field).map_or(field, |(list, _)| list);
    collection.fields[of].derive.is_none()
}

/// The first column of a query besides the key, which stands for rows whose key is made of several fields.
fn first_of(compiled: &CompiledQuery) -> &str {
    compiled.columns.iter().map(|heading| heading.name.as_str()).find(|name| *name != "key").unwrap_or("key")
}

/// Values under the names that the query asks for: `site dataset=D` has sites in its rows, wherever they are read.
fn by_name<'n>(named: &'n [NamedColumn], cells: &[(&str, Json)]) -> Map<String, Json> {
    let value = |own: &'n NamedColumn| cells.iter().find(|(name, _)| *name == own.field).map(|(_, value)| value.clone());
    named.iter().filter_map(|own| Some((own.name.clone(), json!([{ own.member.as_str(): value(own)? }])))).collect()
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
fn about((collection, key): (&str, &str), sources: &[(&str, &str)]) -> Json {
    let (systems, calls): (Vec<&str>, Vec<&str>) = sources.iter().copied().unzip();
    json!({ "primary_key": format!("{collection}.{key}"), "record": 1, "system": systems, "api": calls })
}
