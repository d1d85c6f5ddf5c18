//! Declared routes that run a query: they return the result or, while services are running, a ticket to ask for it again.

use super::parameters::RouteParams;
use super::query_rows::{RowMaker, aggregated, grouped};
use crate::App;
use crate::api::export::{failed, streamed};
use crate::api::queries::{DEFAULT_ROWS, MAX_ROWS, compiled};
use crate::api::response::json_answer;
use crate::guard::admission::{AdmissionPermit, RequestClass};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use stook_catalogue::ids::FieldId;
use stook_catalogue::route::{QueryPart, QueryRoute};
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::fetch::{FetchOptions, FetchPolicy, ServiceStatus};
use stook_query::{ComparisonOperator, CompiledQuery, ConditionTree, GrepItem, QueryCondition, Stage};
use stook_store::StoreError;
use stook_store::plan::PlanColumn;

/// Rows held in memory at a time for a response without a limit.
const BATCH: usize = 1_000;
/// How long a request with a ticket waits for services.
const TICKET_WAIT: Duration = Duration::from_secs(2);

/// Returns the result of a query, or a ticket.
pub async fn answer(ctx: RequestContext, route: &QueryRoute, params: &RouteParams<'_>) -> HandlerResult {
    let query = params.text(route.query).to_owned();
    let mut compiled = match compiled(&ctx, &query).await {
        Err(problem) if route.answers_mistakes && problem.status.is_client_error() => return Ok(mistaken(&ctx.app, route, &query, &problem)),
        compiled => compiled?,
    };
    let ticket = blake3::hash(format!("{}\n{query}", ctx.tenant).as_bytes()).to_hex()[..32].to_owned();
    let sent_ticket = params.text(route.ticket);
    if !sent_ticket.is_empty() && sent_ticket != ticket {
        return Err(Problem::bad_request("the ticket belongs to another query"));
    }
    let limit = route.limit.map_or(DEFAULT_ROWS, |limit| params.number(limit));
    compiled.set_page(route.offset.map_or(0, |offset| params.number(offset)), (limit > 0).then_some(limit.min(MAX_ROWS)));
    let time = if sent_ticket.is_empty() { Duration::from_millis(50) } else { TICKET_WAIT };
    ctx.count_store_reached();
    let query_answer = QueryAnswer { app: ctx.app.clone(), route: route.clone(), query, compiled, statuses: Vec::new() };
    let fetched = reading(move || query_answer.fetch(time)).await?;
    let Some(query_answer) = fetched else { return Ok(([(header::CONTENT_TYPE, "text/plain")], ticket).into_response()) };
    if limit > 0 || !query_answer.compiled.aggregates.is_empty() {
        let shown = reading(move || query_answer.page()).await?;
        return Ok(json_answer(StatusCode::OK, shown.to_string()));
    }
    // a response with all rows holds a permit of the bulk class until its last byte is sent
    let permit = AdmissionPermit::new(ctx.app.gate(RequestClass::Bulk).enter().await?, ctx.app.metrics.given_up().clone());
    let (query_answer, total) = reading(move || query_answer.total().map(|total| (query_answer, total))).await?;
    Ok(permit.during(async move { streamed("application/json", move |out| query_answer.write(total, out)) }).await)
}

/// The response to an invalid query.
fn mistaken(app: &App, route: &QueryRoute, query: &str, problem: &Problem) -> Response {
    let member = |part: QueryPart| {
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
    let shown: Map<String, Json> = route.answer.iter().filter_map(|(name, part)| Some((name.clone(), member(*part)?))).collect();
    json_answer(StatusCode::OK, Json::Object(shown).to_string())
}

/// A query of a route, with the state of its services.
struct QueryAnswer {
    app: Arc<App>,
    route: QueryRoute,
    query: String,
    compiled: CompiledQuery,
    statuses: Vec<ServiceStatus>,
}

impl QueryAnswer {
    /// Fetches from services; `None` if some are still running after `time`.
    fn fetch(mut self, time: Duration) -> Result<Option<Self>, EngineError> {
        self.statuses = self.app.fetch(&self.compiled, FetchOptions { when: FetchPolicy::Needed, time: Some(time) })?;
        let is_running = self.statuses.iter().any(|status| status.state() == "running");
        Ok((!is_running).then_some(self))
    }

    fn row_maker(&self) -> RowMaker<'_> {
        RowMaker::new(&self.app, (&self.route, &self.query), &self.compiled, &self.statuses)
    }

    /// Returns the response with the rows of one page.
    fn page(&self) -> Result<Json, EngineError> {
        let (rows, total) = if let Some(grouping) = &self.compiled.grouping {
            let groups = self.app.store.group(&self.compiled.plan, &self.compiled.aggregates, grouping)?;
            (grouped(&self.compiled, &groups.rows), groups.total)
        } else if self.compiled.aggregates.is_empty() {
            let maker = self.row_maker();
            let (found, total) = self.app.store.find_and_count(&maker.plan())?;
            (maker.rows(found.rows)?, total)
        } else {
            let rows = aggregated(&self.app, &self.compiled)?;
            let total = rows.len() as u64;
            (rows, total)
        };
        let verdict = self.verdict();
        let mut rows = Some(rows);
        let member = |(name, part): &(String, QueryPart)| {
            let value = if *part == QueryPart::Rows { Json::Array(rows.take().unwrap_or_default()) } else { self.part(*part, &verdict, total)? };
            Some((name.clone(), value))
        };
        Ok(Json::Object(self.route.answer.iter().filter_map(member).collect()))
    }

    /// Returns the number of rows.
    fn total(&self) -> Result<u64, EngineError> {
        Ok(self.app.store.count(&self.row_maker().plan())?)
    }

    /// Writes a response with all rows, of which only some are in memory at a time.
    fn write(&self, total: u64, out: &mut dyn Write) -> Result<(), EngineError> {
        let (verdict, maker) = (self.verdict(), self.row_maker());
        out.write_all(b"{").map_err(failed)?;
        let mut is_first = true;
        for (name, part) in &self.route.answer {
            let value = if *part == QueryPart::Rows { None } else { Some(self.part(*part, &verdict, total)) };
            if value == Some(None) {
                continue;
            }
            let comma = if std::mem::take(&mut is_first) { "" } else { "," };
            write!(out, "{comma}{}:", Json::from(name.as_str())).map_err(failed)?;
            match value.flatten() {
                Some(value) => write!(out, "{value}").map_err(failed)?,
                None => self.write_rows(&maker, out)?,
            }
        }
        out.write_all(b"}").map_err(failed)?;
        Ok(())
    }

    fn write_rows(&self, maker: &RowMaker<'_>, out: &mut dyn Write) -> Result<(), EngineError> {
        out.write_all(b"[").map_err(failed)?;
        let (mut batch, mut is_first, mut failure) = (Vec::with_capacity(BATCH), true, None);
        let mut put = |batch: Vec<Vec<Value>>| -> Result<(), EngineError> {
            for row in maker.rows(batch)? {
                let comma = if std::mem::take(&mut is_first) { "" } else { "," };
                write!(out, "{comma}{row}").map_err(failed)?;
            }
            Ok(())
        };
        let visited = self.app.store.visit(&maker.plan(), &mut |row| {
            batch.push(row);
            if batch.len() < BATCH {
                return Ok(());
            }
            put(std::mem::take(&mut batch)).map_err(|error| {
                failure = Some(error);
                StoreError::Cancelled
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        visited?;
        put(batch)?;
        out.write_all(b"]").map_err(failed)?;
        Ok(())
    }

    /// Returns one member of the response other than its rows; `None` if it is left out.
    fn part(&self, part: QueryPart, verdict: &Verdict, total: u64) -> Option<Json> {
        let Self { app, query, compiled, statuses, .. } = self;
        Some(match part {
            QueryPart::Rows => return None,
            QueryPart::Total => json!(total),
            QueryPart::Status => json!(verdict.state),
            QueryPart::At => json!(app.store.clock() / 1_000_000),
            QueryPart::Seconds => {
                json!(statuses.iter().filter(|status| !status.cached).map(ServiceStatus::took).max().unwrap_or_default().as_secs_f64())
            }
            QueryPart::Query => json!(query),
            QueryPart::Parsed => parsed(query, &app.catalogue.collections[compiled.plan.collection].name),
            QueryPart::Cached => json!(statuses.iter().all(|status| status.cached)),
            QueryPart::Services => {
                let mut sources: Vec<&str> = Vec::new();
                for source in statuses.iter().map(|status| status.source.as_str()) {
                    if !sources.contains(&source) {
                        sources.push(source);
                    }
                }
                json!(sources)
            }
            QueryPart::Reason if verdict.reasons.is_empty() => return None,
            QueryPart::Reason => json!(verdict.reasons.join("; ")),
            QueryPart::Warning if verdict.warnings.is_empty() => return None,
            QueryPart::Warning => json!(verdict.warnings.join("; ")),
        })
    }

    fn verdict(&self) -> Verdict {
        Verdict::new(&self.app, &self.route, &self.compiled, &self.statuses)
    }
}

/// How complete a result is, from the state of its services.
struct Verdict {
    state: &'static str,
    reasons: Vec<String>,
    /// What is missing although the result counts as complete.
    warnings: Vec<String>,
}

impl Verdict {
    fn new(app: &App, route: &QueryRoute, compiled: &CompiledQuery, statuses: &[ServiceStatus]) -> Self {
        let is_good = |status: &&ServiceStatus| status.state() == "complete";
        let reason = |status: &ServiceStatus| format!("{} is {}: {}", status.source, status.state(), status.reason().unwrap_or_default());
        let (mut reasons, mut warnings) = (Vec::new(), Vec::new());
        for status in statuses.iter().filter(|status| !is_good(status)) {
            let good: Vec<&ServiceStatus> =
                statuses.iter().filter(is_good).filter(|other| other.source != status.source && is_beside(app, other, status)).collect();
            if !route.one_is_enough || good.is_empty() {
                reasons.push(reason(status));
            } else if status.state() != "unasked" || contributes_more(app, compiled, status, &good) {
                warnings.push(reason(status));
            }
        }
        let any = statuses.iter().any(|status| is_good(&status));
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

/// Whether two sources are fetched for the same records.
fn is_beside(app: &App, a: &ServiceStatus, b: &ServiceStatus) -> bool {
    let collection = |status: &ServiceStatus| app.catalogue.source(&status.source).map(|(_, source)| source.feeds[0].collection);
    a.through == b.through && collection(a) == collection(b)
}

/// Whether a source contributes to a field that the query has a condition on, and none of the others does.
fn contributes_more(app: &App, compiled: &CompiledQuery, status: &ServiceStatus, others: &[&ServiceStatus]) -> bool {
    let contributes = |status: &ServiceStatus, field: FieldId| {
        app.catalogue.source(&status.source).is_some_and(|(_, source)| source.feeds[0].map.iter().any(|rule| rule.field == field))
    };
    let tested = compiled.plan.conditions.iter().filter_map(|condition| match condition.column {
        PlanColumn::Field(field) if status.through.is_none() => Some(app.catalogue.contributed(compiled.plan.collection, field)),
        _ => None,
    });
    tested.flatten().any(|field| contributes(status, field) && !others.iter().any(|other| contributes(other, field)))
}

/// The value of a condition in MongoDB's query language, which clients of the original service expect.
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
        ComparisonOperator::Intersects => json!({ "$geoIntersects": values }),
        ComparisonOperator::Within => json!({ "$geoWithin": values }),
        ComparisonOperator::Words => json!({ "$text": first }),
        ComparisonOperator::Last => json!({ "$last": first }),
    }
}

/// Combined conditions in MongoDB's query language.
fn combined(tree: &ConditionTree) -> Json {
    let all = |inner: &[ConditionTree]| inner.iter().map(combined).collect::<Vec<_>>();
    match tree {
        ConditionTree::One(condition) => json!({ condition.path.text.as_str(): compared(condition) }),
        ConditionTree::Not(inner) => json!({ "$nor": [combined(inner)] }),
        ConditionTree::All(inner) => json!({ "$and": all(inner) }),
        ConditionTree::Any(inner) => json!({ "$or": all(inner) }),
    }
}

/// A parsed query in the form that clients of the original service expect (`examples/datasets/das.md`).
fn parsed(text: &str, collection: &str) -> Json {
    let Ok(query) = stook_query::parse(text) else { return json!({}) };
    let full_path = |path: &str| if path.contains('.') { path.to_owned() } else { format!("{collection}.{path}") };
    let mut spec = Map::new();
    for condition in &query.lookup.conditions {
        let compared_value = compared(condition);
        match (spec.get_mut(&condition.path.text), compared_value) {
            // two bounds of one field are merged
            (Some(Json::Object(existing)), Json::Object(compared_value)) => existing.extend(compared_value),
            (_, compared_value) => drop(spec.insert(condition.path.text.clone(), compared_value)),
        }
    }
    if !query.lookup.combined.is_empty() {
        spec.insert("$and".to_owned(), query.lookup.combined.iter().map(combined).collect());
    }
    let (mut filters, mut aggregators) = (Map::new(), Vec::new());
    let mut grep: Vec<String> = Vec::new();
    for stage in &query.stages {
        match stage {
            Stage::Grep(items) => grep.extend(items.iter().map(|item| match item {
                GrepItem::Column(path) => full_path(&path.text),
                GrepItem::Condition(condition) => {
                    format!("{}{}", full_path(&condition.path.text), &text[condition.path.span.end..condition.span.end])
                }
                GrepItem::Combined(tree) => combined(tree).to_string(),
            })),
            Stage::Sort(order) => {
                let shown = order.iter().map(|item| format!("{}{}", full_path(&item.path.text), if item.descending { "-" } else { "" }));
                filters.insert("sort".into(), shown.collect());
            }
            Stage::Each(path) => {
                filters.insert("each".into(), full_path(&path.text).into());
            }
            Stage::Limit(limit) => {
                filters.insert("limit".into(), json!(limit));
            }
            Stage::Unique => {
                filters.insert("unique".into(), json!(1));
            }
            Stage::Aggregates(wanted, by) => {
                aggregators.extend(wanted.iter().map(|(function, path)| json!([function.name(), full_path(&path.text)])));
                if !by.is_empty() {
                    filters.insert("by".into(), by.iter().map(|group| full_path(&group.path.text)).collect());
                }
            }
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
