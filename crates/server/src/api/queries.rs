//! Queries: pages of rows, facets, completions, and the state of services.

use super::events;
use super::response::json_answer;
use super::rows::{as_csv_or_ndjson, shown};
use crate::App;
use crate::app::pending::{QueryRequest, RowFormat};
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{JSON, RequestContext, reject_other_members};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::aggregate::{by_source, over};
use stook_engine::fetch::{FetchOptions, FetchPolicy, ServiceStatus};
use stook_query::{
    AllCollectionsQuery, CompiledQuery, Completion, Highlights, QueryScope, complete, facets, may_query_all_collections, parse,
    resolve_all_collections, resolve_parsed,
};
use stook_store::access::Operation;

/// Max rows of a page.
pub const MAX_ROWS: u64 = 10_000;
/// Default rows of a page.
pub const DEFAULT_ROWS: u64 = 50;
/// Max rows that `idx` skips; beyond that, `after` continues by key.
pub const MAX_OFFSET: u64 = 1_000_000;
/// Default seconds that a query waits for services.
const DEFAULT_WAIT: u64 = 20;
/// Max seconds that a query waits for services.
pub const MAX_WAIT: u64 = 300;
const ASK_HINT: &str = "ask is needed, always, later or never";
/// Max characters of a text to complete.
pub const MAX_TYPED_CHARS: usize = 4_000;
/// Max bytes of a query.
const MAX_QUERY_BYTES: usize = 16_384;

/// Compiles a query against the definition, if the caller may read the collection that it is about. It finds the records that the caller may read.
///
/// # Errors
/// 400 with the position of the mistake; 403.
pub async fn compiled(ctx: &RequestContext, text: &str) -> HandlerResult<CompiledQuery> {
    let compiled = compiled_text(ctx, text, Vec::new()).await?;
    ctx.part(Operation::Read, compiled.plan.collection)?;
    Ok(compiled)
}

/// The same with words and their values, which hold if the query has no condition on them, for callers who may read all records of its collection.
///
/// # Errors
/// 400 with the position of the mistake; 403.
pub async fn compiled_with(ctx: &RequestContext, text: &str, given: Vec<(String, String)>) -> HandlerResult<CompiledQuery> {
    let compiled = compiled_text(ctx, text, given).await?;
    ctx.require(Operation::Read, compiled.plan.collection)?;
    Ok(compiled)
}

async fn compiled_text(ctx: &RequestContext, text: &str, given: Vec<(String, String)>) -> HandlerResult<CompiledQuery> {
    if text.len() > MAX_QUERY_BYTES {
        return Err(Problem::bad_request(format!("a query has at most {MAX_QUERY_BYTES} bytes")));
    }
    if text.contains('\0') {
        return Err(Problem::bad_request("a query has no NUL character"));
    }
    let (app, tenant, visible) = (ctx.app.clone(), ctx.tenant.clone(), ctx.visible());
    let now = app.store.clock();
    let has_tags = app.catalogue.collections.iter().any(|collection| collection.tags.is_some());
    let mut query = parse(text).map_err(|problem| misread(text, &problem))?;
    query.lookup.given = given;
    let resolve_text = move || {
        let scope = QueryScope { catalogue: &app.catalogue, store: &*app.store, tenant: &tenant, visible: &visible };
        resolve_parsed(query, &scope, now)
    };
    // the queries of tags are read from the store
    let resolved = if has_tags { reading(resolve_text).await? } else { resolve_text()? };
    resolved.map_err(|problem| misread(text, &problem))
}

/// Converts an error in a query to a problem with its position.
fn misread(text: &str, problem: &Diagnostic) -> Problem {
    let shown = render("query", text, std::slice::from_ref(problem), false);
    let detail = match &problem.help {
        Some(help) => format!("{}; {help}", problem.message),
        None => problem.message.clone(),
    };
    Problem::bad_request(detail).with("at", problem.span.start).with("until", problem.span.end).with("shown", shown.trim_end())
}

/// Compiles a query of all collections that the caller may read; `None` if it is not one.
///
/// # Errors
/// 400 with the position of the mistake.
pub async fn compile_for_all_collections(ctx: &RequestContext, text: &str) -> HandlerResult<Option<AllCollectionsQuery>> {
    if text.len() > MAX_QUERY_BYTES || !may_query_all_collections(text, &ctx.app.catalogue) {
        return Ok(None);
    }
    let (app, tenant, text_clone) = (ctx.app.clone(), ctx.tenant.clone(), text.to_owned());
    let visible = ctx.visible();
    let resolve_all = move || {
        let scope = QueryScope { catalogue: &app.catalogue, store: &*app.store, tenant: &tenant, visible: &visible };
        resolve_all_collections(&text_clone, &scope, app.store.clock())
    };
    let found = reading(resolve_all).await?;
    found.transpose().map_err(|problem| misread(text, &problem))
}

/// Answers a query of all collections; `None` if it is not one. Nothing is fetched from services.
async fn answer_for_all_collections(ctx: &RequestContext, request: &QueryRequest) -> HandlerResult<Option<Response>> {
    let Some(all) = compile_for_all_collections(ctx, &request.query).await? else { return Ok(None) };
    if request.explain || request.by_source || request.after.is_some() {
        return Err(Problem::bad_request("records of several collections have no explain, by_source or after"));
    }
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let (idx, limit, total) = (request.idx, request.limit, request.total);
    let (headings, highlights, hint) = (all.headings(), all.highlights(), all.hint().map(str::to_owned));
    let (rows, total) = reading(move || all.find(&*app.store, idx, Some(limit), total)).await?;
    if let Some(lines) = as_csv_or_ndjson(request.format, &headings, &rows) {
        return Ok(Some((StatusCode::OK, lines).into_response()));
    }
    let mut body = json!({ "columns": headings.iter().map(|heading| &heading.name).collect::<Vec<_>>(), "rows": rows.iter().map(|row| shown(&headings, row)).collect::<Vec<_>>() });
    if let Some(total) = total {
        body["total"] = total.into();
    }
    add_highlights(&mut body, &highlights, &rows);
    if let Some(hint) = hint.filter(|_| rows.is_empty() && idx == 0) {
        body["hint"] = hint.into();
    }
    Ok(Some(json_answer(StatusCode::OK, body.to_string())))
}

/// Adds what the words of the query mark in its rows, if it searches for words.
fn add_highlights(body: &mut Json, highlights: &Highlights, rows: &[Vec<Value>]) {
    if !highlights.is_empty() {
        body["highlights"] = rows.iter().map(|row| highlights.to_json(row)).collect();
    }
}

/// `?q=QUERY&idx=&limit=&after=&total=&explain=&format=`
pub async fn get(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByQuery);
    let Some(query) = ctx.params.single("q")? else {
        return Err(Problem::bad_request("give ?q=QUERY, for example ?q=authority%20heading=Smith*"));
    };
    let request = QueryRequest {
        query,
        idx: ctx.params.number("idx", 0, MAX_OFFSET)?.unwrap_or(0),
        limit: ctx.params.number("limit", 1, MAX_ROWS)?.unwrap_or(DEFAULT_ROWS),
        after: ctx.params.single("after")?,
        total: ctx.params.flag("total")?,
        explain: ctx.params.flag("explain")?,
        by_source: ctx.params.flag("by_source")?,
        format: match ctx.params.single("format")?.as_deref() {
            None | Some("json") => RowFormat::Json,
            Some("csv") => RowFormat::Csv,
            Some("ndjson") => RowFormat::Ndjson,
            Some(_) => return Err(Problem::bad_request("format is json, csv or ndjson")),
        },
        fetch_options: FetchOptions {
            when: fetch_policy_named(ctx.params.single("ask")?.as_deref()).ok_or_else(|| Problem::bad_request(ASK_HINT))?,
            time: Some(Duration::from_secs(ctx.params.number("wait", 0, MAX_WAIT)?.unwrap_or(DEFAULT_WAIT))),
        },
    };
    ctx.params.end()?;
    run(ctx, request).await
}

/// The same as a JSON object in the body, for long queries.
pub async fn post(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByQuery);
    ctx.params.end()?;
    let mut sent = ctx.object(body, JSON).await?;
    let wrong = |name: &str, expected: &str| Problem::unprocessable(vec![format!("{name}: {expected}")]);
    let query = match sent.remove("q") {
        Some(Json::String(query)) => query,
        _ => return Err(wrong("q", "a query is missing")),
    };
    let mut number = |name: &str, min: u64, max: u64, default: u64| match sent.remove(name) {
        None => Ok(default),
        Some(json) => json
            .as_u64()
            .or_else(|| json.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64))
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| wrong(name, &format!("a whole number from {min} to {max}"))),
    };
    let (idx, limit, wait) =
        (number("idx", 0, MAX_OFFSET, 0)?, number("limit", 1, MAX_ROWS, DEFAULT_ROWS)?, number("wait", 0, MAX_WAIT, DEFAULT_WAIT)?);
    let after = match sent.remove("after") {
        None => None,
        Some(Json::String(after)) => Some(after),
        Some(_) => return Err(wrong("after", "a text")),
    };
    let mut flag = |name: &str| match sent.remove(name) {
        None => Ok(false),
        Some(Json::Bool(flag)) => Ok(flag),
        Some(_) => Err(wrong(name, "true or false")),
    };
    let (total, explain, by_source) = (flag("total")?, flag("explain")?, flag("by_source")?);
    let when = match sent.remove("ask") {
        None => Some(FetchPolicy::default()),
        Some(Json::String(when)) => fetch_policy_named(Some(&when)),
        Some(_) => None,
    };
    let fetch_options =
        FetchOptions { when: when.ok_or_else(|| Problem::unprocessable(vec![ASK_HINT.into()]))?, time: Some(Duration::from_secs(wait)) };
    reject_other_members(&sent, &["q", "idx", "limit", "wait", "after", "total", "explain", "by_source", "ask"])?;
    run(ctx, QueryRequest { query, idx, limit, after, total, explain, format: RowFormat::Json, by_source, fetch_options }).await
}

async fn run(ctx: RequestContext, request: QueryRequest) -> HandlerResult {
    if let Some(answer) = answer_for_all_collections(&ctx, &request).await? {
        return Ok(answer);
    }
    let mut compiled = compiled(&ctx, &request.query).await?;
    compiled.set_page(request.idx, Some(request.limit));
    if let Some(after) = &request.after {
        after_key(&mut compiled, after, request.idx)?;
    }
    ctx.count_store_reached();
    let needs_services = !request.explain && ctx.app.fetcher.has_services_for(&compiled.plan, &compiled.aggregated_columns());
    if needs_services || request.explain {
        // what services answer, and how the database plans, is of all records
        ctx.require(Operation::Read, compiled.plan.collection)?;
    }
    if let Some(wait) = request.fetch_options.time.filter(|_| needs_services) {
        // a caller who chose to wait for services is not cut off by the request time limit
        ctx.extra_time.store(wait.as_millis() as u64, Ordering::Relaxed);
    }
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    reading(move || {
        let statuses = if needs_services { Some(app.fetch(&compiled, request.fetch_options)?) } else { None };
        let mut response = answer(&app, &compiled, &request, statuses.as_deref())?;
        if response.status() == StatusCode::ACCEPTED
            && let Ok(location) = HeaderValue::from_str(&app.pending_queries.keep(tenant, request))
        {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Ok::<_, EngineError>(response)
    })
    .await
}

/// Answers a query whose services had not finished; waits for them again.
pub async fn pending_result(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByQuery);
    let wait = ctx.params.number("wait", 0, MAX_WAIT)?;
    ctx.params.end()?;
    let id = ctx.segment("id").to_owned();
    let found = ctx.app.pending_queries.find(&ctx.tenant, &id);
    let mut request = found.ok_or_else(|| Problem::not_found(format!("no query {id:?} is waiting for services here; send it again")))?;
    if let Some(wait) = wait {
        request.fetch_options.time = Some(Duration::from_secs(wait));
    }
    run(ctx, request).await
}

/// `?q=QUERY`: facets of the records that the query finds, with the query for each value. Nothing is fetched from services.
pub async fn query_facets(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByQuery);
    let Some(text) = ctx.params.single("q")? else { return Err(Problem::bad_request("say ?q=QUERY")) };
    ctx.params.end()?;
    let compiled = compiled(&ctx, &text).await?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let found = reading(move || facets(&text, &compiled, &app.catalogue, &*app.store)).await?;
    Ok(json_answer(StatusCode::OK, found.to_json().to_string()))
}

/// `?q=QUERY`: the state of the query's services as server-sent events; fetches are started if needed.
pub async fn events(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByQuery);
    let Some(text) = ctx.params.single("q")? else { return Err(Problem::bad_request("say ?q=QUERY")) };
    ctx.params.end()?;
    let query = Arc::new(compiled_with(&ctx, &text, Vec::new()).await?);
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let read_state = move || {
        let (app, query) = (app.clone(), query.clone());
        async move {
            let fetch_options = FetchOptions { when: FetchPolicy::Needed, time: Some(Duration::ZERO) };
            let statuses =
                tokio::task::spawn_blocking(move || app.fetcher.fetch(&app.store, &query.plan, &query.aggregated_columns(), fetch_options))
                    .await
                    .ok()?
                    .ok()?;
            // the reason of a running fetch changes with the time, which is no news
            let shown =
                |status: &ServiceStatus| if is_running(status) { ServiceStatus { reason: None, ..status.clone() } } else { status.clone() }.to_json();
            let all: Vec<Json> = statuses.iter().map(shown).collect();
            Some((json!({ "services": all }).to_string(), !statuses.iter().any(is_running)))
        }
    };
    Ok(events::watch(ctx.app, read_state))
}

fn is_running(status: &ServiceStatus) -> bool {
    status.state() == "running"
}

/// `?q=TEXT`: completions of the text.
pub async fn completions(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByFilter);
    let Some(text) = ctx.params.single("q")? else { return Err(Problem::bad_request("say ?q=TEXT")) };
    ctx.params.end()?;
    if text.chars().count() > MAX_TYPED_CHARS || text.contains('\0') {
        return Err(Problem::bad_request(format!("a text has at most {MAX_TYPED_CHARS} characters, and no NUL")));
    }
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let visible = ctx.visible();
    let found = reading(move || complete(&text, &QueryScope { catalogue: &app.catalogue, store: &*app.store, tenant: &tenant, visible: &visible }));
    let found = found.await?;
    let shown: Vec<Json> = found.iter().map(Completion::to_json).collect();
    Ok(json_answer(StatusCode::OK, json!({ "completions": shown }).to_string()))
}

/// Reads the value of `ask`.
fn fetch_policy_named(text: Option<&str>) -> Option<FetchPolicy> {
    text.map_or(Some(FetchPolicy::default()), FetchPolicy::named)
}

/// Continues after a key, which costs the same at every position.
fn after_key(compiled: &mut CompiledQuery, after: &str, idx: u64) -> HandlerResult<()> {
    use stook_store::plan::{Comparison, Condition, PlanColumn};
    let plan = &mut compiled.plan;
    if !plan.sort.is_empty() || compiled.limit.is_some() || plan.distinct || plan.each.is_some() || !compiled.aggregates.is_empty() || idx > 0 {
        return Err(Problem::bad_request(
            "`after` works only in key order: not with sort, limit, unique, each, aggregates, searches for words or idx",
        ));
    }
    if after.contains('\0') {
        return Err(Problem::bad_request("after is a key"));
    }
    plan.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Range { low: Some((Value::text(after), false)), high: None } });
    Ok(())
}

/// Returns the rows and the state of the services. The status is 202 while a service is running: repeating the query waits for it.
fn answer(app: &App, compiled: &CompiledQuery, request: &QueryRequest, statuses: Option<&[ServiceStatus]>) -> stook_engine::Result<Response> {
    let store = &*app.store;
    let is_running = statuses.is_some_and(|statuses| statuses.iter().any(is_running));
    let code = if is_running { StatusCode::ACCEPTED } else { StatusCode::OK };
    let with_services = |mut body: Json| {
        if let Some(statuses) = statuses {
            body["services"] = statuses.iter().map(ServiceStatus::to_json).collect();
        }
        if is_running {
            body["id"] = request.id().into();
        }
        json_answer(code, body.to_string())
    };
    if request.explain {
        return Ok(json_answer(StatusCode::OK, json!({ "explain": store.explain(&compiled.plan)? }).to_string()));
    }
    let names: Vec<&str> = compiled.columns.iter().map(|heading| heading.name.as_str()).collect();
    let shown = |row: &[Value]| shown(&compiled.columns, row);
    let lines = |rows: &[Vec<Value>]| -> Option<Response> {
        let mut response = (code, as_csv_or_ndjson(request.format, &compiled.columns, rows)?).into_response();
        let states: Vec<String> = statuses.unwrap_or_default().iter().map(|status| format!("{}={}", status.source, status.state())).collect();
        if let (false, Ok(states)) = (states.is_empty(), HeaderValue::from_str(&states.join(", "))) {
            response.headers_mut().insert("stook-services", states);
        }
        Some(response)
    };
    if let Some(grouping) = compiled.grouping.as_ref().filter(|_| !request.by_source) {
        let found = compiled.group(store, grouping)?;
        if let Some(response) = lines(&found.rows) {
            return Ok(response);
        }
        // how many groups there are is known anyway
        let rows: Vec<_> = found.rows.iter().map(|row| shown(row)).collect();
        return Ok(with_services(
            json!({ "columns": names, "grouped": &names[..grouping.by.len()], "rows": rows, "total": compiled.total(found.total) }),
        ));
    }
    if !compiled.aggregates.is_empty() {
        let row = compiled.aggregate(store)?;
        if let Some(response) = lines(std::slice::from_ref(&row)).filter(|_| !request.by_source) {
            return Ok(response);
        }
        let mut body = json!({ "columns": names, "rows": [shown(&row)] });
        if app.fetcher.has_services_for(&compiled.plan, &compiled.aggregated_columns()) {
            let found = over(&app.catalogue, store, &compiled.plan, &compiled.aggregates)?;
            let named =
                found.iter().map(|coverage| (names[coverage.aggregate].to_owned(), json!({ "values": coverage.values, "rows": coverage.rows })));
            if !found.is_empty() {
                body["over"] = named.collect::<Map<String, Json>>().into();
            }
        }
        if request.by_source {
            let found = by_source(&app.catalogue, store, &compiled.plan, &compiled.aggregates, compiled.grouping.as_ref())?;
            let labelled = |(source, row): (String, Vec<Value>)| json!({ "source": source, "row": shown(&row) });
            body["by_source"] = found.into_iter().map(labelled).collect();
        }
        return Ok(with_services(body));
    }
    // rows and total are read from one snapshot
    let (rows, total) = match request.total && request.format == RowFormat::Json {
        true => store.find_and_count(&compiled.plan).map(|(found, total)| (found.rows, Some(total)))?,
        false => (store.find(&compiled.plan)?.rows, None),
    };
    if let Some(response) = lines(&rows) {
        return Ok(response);
    }
    let mut body = json!({ "columns": names, "rows": rows.iter().map(|row| shown(row)).collect::<Vec<_>>() });
    body["collection"] = app.catalogue.collections[compiled.plan.collection].name.as_str().into();
    if let Some(total) = total {
        body["total"] = compiled.total(total).into();
    }
    add_highlights(&mut body, &Highlights::of(compiled), &rows);
    Ok(with_services(body))
}
