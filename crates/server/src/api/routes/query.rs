//! Declared routes that run a query: they return the result or, while services are running, a ticket to ask for it again.

use super::parameters::RouteParams;
use super::plain::PlainLines;
use super::query_form::parsed;
use super::query_rows::{RowMaker, aggregated, grouped};
use crate::App;
use crate::api::export::{failed, streamed};
use crate::api::queries::{DEFAULT_ROWS, MAX_ROWS, compiled, compiled_with};
use crate::api::response::{json_answer, percent};
use crate::guard::admission::{AdmissionPermit, RequestClass};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::FieldId;
use stook_catalogue::route::{QueryPart, QueryRoute};
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::fetch::{FetchOptions, FetchPolicy, ServiceStatus};
use stook_query::{CompiledQuery, parse};
use stook_store::StoreError;
use stook_store::plan::PlanColumn;

/// Rows held in memory at a time for a response without a limit.
const BATCH: usize = 1_000;
/// How long a request waits for services before it gets a ticket: most services answer sooner, and a client that has a ticket pauses for seconds.
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// How long a request with a ticket waits for services.
const TICKET_WAIT: Duration = Duration::from_secs(2);
const PLAIN: &str = "text/plain; charset=utf-8";

/// The form of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    Json,
    /// Lines of text.
    Plain,
    /// The page of the query, to which the response leads.
    Page,
}

const VIEWS: [(&str, View); 5] = [("", View::Json), ("json", View::Json), ("plain", View::Plain), ("list", View::Page), ("table", View::Page)];

fn view_of(route: &QueryRoute, params: &RouteParams<'_>) -> HandlerResult<View> {
    let name = route.view.map_or("", |view| params.text(view));
    match VIEWS.iter().find(|(known, _)| *known == name) {
        Some((_, view)) => Ok(*view),
        None => {
            let known = VIEWS.iter().map(|(known, _)| *known).filter(|known| !known.is_empty());
            Err(Problem::bad_request(format!("there is no view `{name}`; {}", known_instead(name, known))))
        }
    }
}

/// Returns the result of a query, or a ticket.
pub async fn answer(ctx: RequestContext, route: &QueryRoute, params: &RouteParams<'_>) -> HandlerResult {
    let query = params.text(route.query).to_owned();
    let view = view_of(route, params)?;
    let given = route.given.iter().map(|(word, param)| (word.clone(), params.text(*param).to_owned()));
    let given: Vec<(String, String)> = given.filter(|(_, value)| !value.is_empty()).collect();
    if view == View::Page {
        return Ok(page_of(&ctx, &query, &given).await);
    }
    let mut compiled = match compiled_with(&ctx, &query, given.clone()).await {
        Err(problem) if route.answers_mistakes && problem.status.is_client_error() && view == View::Plain => {
            return Ok(([(header::CONTENT_TYPE, PLAIN)], format!("ERROR: {}\n", problem.detail)).into_response());
        }
        Err(problem) if route.answers_mistakes && problem.status.is_client_error() => return Ok(mistaken(&ctx.app, route, &query, &problem)),
        compiled => compiled?,
    };
    let ticket = blake3::hash(format!("{}\n{query}\n{given:?}", ctx.tenant).as_bytes()).to_hex()[..32].to_owned();
    let sent_ticket = params.text(route.ticket);
    if !sent_ticket.is_empty() && sent_ticket != ticket {
        return Err(Problem::bad_request("the ticket belongs to another query"));
    }
    let limit = route.limit.map_or(DEFAULT_ROWS, |limit| params.number(limit));
    // lines are of all rows
    let (offset, most) = if view == View::Plain { (0, 0) } else { (route.offset.map_or(0, |offset| params.number(offset)), limit) };
    compiled.set_page(offset, (most > 0).then_some(most.min(MAX_ROWS)));
    let time = if sent_ticket.is_empty() { FIRST_WAIT } else { TICKET_WAIT };
    ctx.count_store_reached();
    let query_answer = QueryAnswer { app: ctx.app.clone(), route: route.clone(), query, given, compiled, statuses: Vec::new() };
    let fetched = reading(move || query_answer.fetch(time)).await?;
    let Some(query_answer) = fetched else { return Ok(([(header::CONTENT_TYPE, "text/plain")], ticket).into_response()) };
    if view == View::Json && (limit > 0 || !query_answer.compiled.aggregates.is_empty()) {
        let shown = reading(move || query_answer.page()).await?;
        return Ok(json_answer(StatusCode::OK, shown.to_string()));
    }
    // a response with all rows holds a permit of the bulk class until its last byte is sent
    let permit = AdmissionPermit::new(ctx.app.gate(RequestClass::Bulk).enter().await?, ctx.app.metrics.given_up().clone());
    if view == View::Plain {
        return Ok(permit.during(async move { streamed(PLAIN, move |out| query_answer.write_lines(out)) }).await);
    }
    let (query_answer, total) = reading(move || query_answer.total().map(|total| (query_answer, total))).await?;
    Ok(permit.during(async move { streamed("application/json", move |out| query_answer.write(total, out)) }).await)
}

/// Leads to the page of a query.
async fn page_of(ctx: &RequestContext, query: &str, given: &[(String, String)]) -> Response {
    let mut text = query.to_owned();
    for (word, value) in given {
        // the word is added to a query that does not mention it, where it means something
        let Ok(parsed) = parse(&text) else { break };
        let end = parsed.lookup.end.min(text.len());
        if parsed.lookup.all_conditions().all(|condition| condition.path.text != *word) && !value.contains(['"', '\\', '*']) {
            let longer = format!("{} {word}=\"{value}\"{}", text[..end].trim_end(), &text[end..]);
            if compiled(ctx, &longer).await.is_ok() {
                text = longer;
            }
        }
    }
    Redirect::to(&format!("/t/{}/search?q={}", ctx.tenant, percent(&text))).into_response()
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
    /// The words that the request gives a value.
    given: Vec<(String, String)>,
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

    /// Returns groups or aggregates, of which there are few, with their number; `None` if rows are records.
    fn combined_rows(&self) -> Result<Option<(Vec<Json>, u64)>, EngineError> {
        if let Some(grouping) = &self.compiled.grouping {
            let groups = self.compiled.group(&*self.app.store, grouping)?;
            return Ok(Some((grouped(&self.compiled, &groups.rows), groups.total)));
        }
        if self.compiled.aggregates.is_empty() {
            return Ok(None);
        }
        let mut rows = aggregated(&self.app, &self.compiled)?;
        // a client looks for what it has asked for
        let form = self.form();
        for (row, wanted) in rows.iter_mut().zip(form["aggregators"].as_array().into_iter().flatten()) {
            row["key"] = wanted[1].clone();
        }
        let total = rows.len() as u64;
        Ok(Some((rows, total)))
    }

    /// Returns the response with the rows of one page.
    fn page(&self) -> Result<Json, EngineError> {
        let (rows, total) = match self.combined_rows()? {
            Some(combined) => combined,
            None => {
                let maker = self.row_maker();
                let (found, total) = self.app.store.find_and_count(&maker.plan())?;
                (maker.rows(found.rows)?, total)
            }
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
        let mut is_first = true;
        self.visit(maker, &mut |row| {
            let comma = if std::mem::take(&mut is_first) { "" } else { "," };
            write!(out, "{comma}{row}").map_err(failed)
        })?;
        out.write_all(b"]").map_err(failed)?;
        Ok(())
    }

    /// Writes a line for each row; a failure, and what is missing, is a line of its own.
    fn write_lines(&self, out: &mut dyn Write) -> Result<(), EngineError> {
        let (verdict, maker) = (self.verdict(), self.row_maker());
        if verdict.state == "fail" {
            writeln!(out, "ERROR: {}", verdict.reasons.join("; ")).map_err(failed)?;
            return Ok(());
        }
        let lines = PlainLines::new(&self.form());
        match self.combined_rows()? {
            Some((rows, _)) => rows.iter().try_for_each(|row| writeln!(out, "{}", lines.line(row)).map_err(failed))?,
            None => self.visit(&maker, &mut |row| writeln!(out, "{}", lines.line(row)).map_err(failed))?,
        }
        for missing in verdict.reasons.iter().chain(&verdict.warnings) {
            writeln!(out, "# incomplete: {missing}").map_err(failed)?;
        }
        Ok(())
    }

    /// Calls `put` with each row, of which only some are in memory at a time.
    fn visit(&self, maker: &RowMaker<'_>, put: &mut dyn FnMut(&Json) -> Result<(), StoreError>) -> Result<(), EngineError> {
        let (mut batch, mut failure) = (Vec::with_capacity(BATCH), None);
        let mut put_batch = |batch: Vec<Vec<Value>>| -> Result<(), EngineError> { Ok(maker.rows(batch)?.iter().try_for_each(&mut *put)?) };
        let visited = self.app.store.visit(&maker.plan(), &mut |row| {
            batch.push(row);
            if batch.len() < BATCH {
                return Ok(());
            }
            put_batch(std::mem::take(&mut batch)).map_err(|error| {
                failure = Some(error);
                StoreError::Cancelled
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        visited?;
        put_batch(batch)
    }

    /// The query as its clients expect it.
    fn form(&self) -> Json {
        parsed(&self.query, self.compiled.plan.collection, &self.given, &self.app.catalogue)
    }

    /// Returns one member of the response other than its rows; `None` if it is left out.
    fn part(&self, part: QueryPart, verdict: &Verdict, total: u64) -> Option<Json> {
        let Self { app, query, statuses, .. } = self;
        Some(match part {
            QueryPart::Rows => return None,
            QueryPart::Total => json!(total),
            QueryPart::Status => json!(verdict.state),
            QueryPart::At => json!(app.store.clock() / 1_000_000),
            QueryPart::Seconds => {
                json!(statuses.iter().filter(|status| !status.cached).map(ServiceStatus::took).max().unwrap_or_default().as_secs_f64())
            }
            QueryPart::Query => json!(query),
            QueryPart::Parsed => self.form(),
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
