//! Search: a query, its rows, its errors shown at their position, and suggestions.

use super::layout::problem_box;
use super::many;
use super::map::{MapFeature, map};
use super::record::linked;
use super::shown::{bar, count, items, named, plain, short, type_of, typed, value};
use super::visit::{PageContext, RenderedPage, TOO_LONG, bytes_of, parse_offset};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// Rows of a page.
const ROWS: u64 = 50;
/// Rows of a page if the rows are very long.
const FEWER_ROWS: u64 = 5;
/// Seconds to wait for services; later answers are shown when the page is reloaded.
const WAIT: &str = "5";
/// Max columns shown unless all are requested.
const COLUMNS: usize = 6;
/// Max characters of rows shown as JSON.
const MAX_JSON_CHARS: usize = 200_000;
/// Max characters of a value in a link.
const MAX_VALUE_CHARS: usize = 60;

/// `?q=QUERY&idx=&view=table|json&all=`
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = ctx.get_json("", &[]).await?;
    let Some(query) = ctx.param("q") else {
        let body = html! { (form(&ctx, "", &overview)) (start_page(&ctx, &overview)) };
        return Ok(RenderedPage::new("Search", body));
    };
    // a query without its value yet gets completions and is not run
    if is_begun(query) {
        let body = html! { (form(&ctx, query, &overview)) (completions(&ctx, query).await?) };
        return Ok(RenderedPage::new("Search", body));
    }
    let idx = parse_offset(ctx.param("idx"))?;
    let run = async |rows: u64| {
        // one more row than is shown tells whether there are more; counting all takes longer and follows later
        let params = [("q", query), ("idx", &idx.to_string()), ("limit", &(rows + 1).to_string()), ("wait", WAIT)];
        ctx.get_json("/query", &params).await
    };
    let (mut rows, mut answer) = (ROWS, run(ROWS).await);
    if answer.as_ref().is_err_and(|problem| problem.detail == TOO_LONG) {
        (rows, answer) = (FEWER_ROWS, run(FEWER_ROWS).await);
    }
    let body = match answer {
        Ok(answer) => found(&ResultsPage { ctx: &ctx, query, idx, rows }, &overview, &answer),
        Err(problem) if problem.status.is_client_error() => {
            let meant = ctx.get_json("/suggest", &[("text", query)]).await.unwrap_or_default();
            let body = html! { (form(&ctx, query, &overview)) (problem_box(&problem)) (suggested(&ctx, &meant)) };
            return Ok(RenderedPage { status: problem.status, ..RenderedPage::new("Search", body) });
        }
        Err(problem) => return Err(problem),
    };
    Ok(RenderedPage::new("Search", html! { (form(&ctx, query, &overview)) (body) }))
}

/// Whether a query ends where a value is missing.
fn is_begun(query: &str) -> bool {
    query.trim_end().ends_with('=')
}

fn form(ctx: &PageContext, query: &str, overview: &Json) -> Markup {
    let example = items(&overview["collections"]).first().map_or("", |collection| named(collection, "name"));
    html! {
        form.search role="search" action=(ctx.to("search", &[])) {
            label for="q" { "Query" }
            input #q type="search" name="q" value=(query) placeholder={ "words, or a query such as " (example) " | sort key-" } autocomplete="off" spellcheck="false" autofocus[query.is_empty() || is_begun(query)]
                hx-get=(ctx.to("suggestions", &[])) hx-trigger="input changed delay:120ms" hx-target="#meant" hx-sync="this:replace";
            button { "Search" }
        }
        div #meant aria-live="polite" {}
    }
}

/// `?q=QUERY`: the total number of rows. A part of a page.
pub async fn total(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let params = [("q", ctx.param("q").unwrap_or_default()), ("limit", "1"), ("total", "true"), ("ask", "never")];
    let answer = ctx.get_json("/query", &params).await?;
    let shown = html! { (count(answer["total"].as_u64().unwrap_or(0))) };
    Ok(match ctx.param("whole") {
        Some(_) => RenderedPage::new(ctx.param("q").unwrap_or_default(), html! { p { (shown) " rows." } }),
        None => RenderedPage::fragment(shown),
    })
}

/// The page without a query: what a query looks like, and the collections.
fn start_page(ctx: &PageContext, overview: &Json) -> Markup {
    html! {
        p { "Type words to find records that have them, and choose one of the suggested queries. Or write a query: a collection, conditions, and stages, such as " code { "collection field=value | sort field-" } "." }
        ul.chips { @for collection in items(&overview["collections"]) {
            li { a href=(ctx.to("search", &[("q", named(collection, "name"))])) { (named(collection, "name")) } }
        } }
    }
}

/// A page of results.
struct ResultsPage<'v> {
    ctx: &'v PageContext,
    query: &'v str,
    idx: u64,
    /// Max rows of the page.
    rows: u64,
}

impl ResultsPage<'_> {
    /// Returns the path of the same query from another row, or in another form.
    fn with(&self, idx: u64, view: Option<&str>, all: bool) -> String {
        let idx = idx.to_string();
        let mut params = vec![("q", self.query)];
        if idx != "0" {
            params.push(("idx", &idx));
        }
        params.extend(view.map(|view| ("view", view)));
        if all {
            params.push(("all", "1"));
        }
        self.ctx.to("search", &params)
    }
}

fn found(results: &ResultsPage<'_>, overview: &Json, answer: &Json) -> Markup {
    let ResultsPage { ctx, query, idx, .. } = *results;
    let all = items(&answer["rows"]);
    let rows = &all[..all.len().min(results.rows as usize)];
    let has_more = all.len() > rows.len();
    let (view, all_columns) = (ctx.param("view").filter(|view| ["json", "plain"].contains(view)), ctx.param("all").is_some());
    let page = |idx: u64| results.with(idx, view, all_columns);
    let api = ctx.api("/query", &[("q", query)]);
    let tenant = if ctx.tenant == stook_store::DEFAULT_TENANT { String::new() } else { format!(" --tenant {}", ctx.tenant) };
    html! {
        p.quiet {
            @if rows.is_empty() && idx > 0 { "There are no results after row " (count(idx)) ". " a href=(page(0)) { "Back to the first page" } }
            @else if rows.is_empty() { "No records match. " (answer["hint"].as_str().unwrap_or_default()) }
            @else if has_more || idx > 0 {
                (count(idx + 1)) "–" (count(idx + rows.len() as u64)) " of "
                span hx-get=(ctx.to("total", &[("q", query)])) hx-trigger="load" { a href=(ctx.to("total", &[("q", query), ("whole", "1")])) { "all" } }
            } @else { (count(rows.len() as u64)) " found" }
            @if !rows.is_empty() {
                @for (name, label) in [(None, "table"), (Some("json"), "JSON"), (Some("plain"), "plain")] {
                    @if view != name { " · " a href=(results.with(idx, name, all_columns)) { (label) } }
                }
                " · " a href=(ctx.to("download", &[("q", query), ("format", "csv")])) { "CSV" }
                " · " a href=(ctx.to("download", &[("q", query), ("format", "ndjson")])) { "NDJSON" }
                @if !all_columns && view.is_none() && !answer["grouped"].is_array() { " · " a href=(results.with(idx, None, true)) { "all columns" } }
            }
        }
        (services(ctx, query, &answer["services"], &page(idx)))
        @if results.rows < ROWS { p.quiet { "The rows are long, so only " (results.rows) " are shown per page." } }
        @if view == Some("json") { pre tabindex="0" { (short(&serde_json::to_string_pretty(rows).unwrap_or_default(), MAX_JSON_CHARS)) } }
        @else if view == Some("plain") { pre tabindex="0" { (short(&tab_separated(answer, rows), MAX_JSON_CHARS)) } }
        @else {
            div.results {
                @if rows.is_empty() { div {} } @else { div { (maps(ctx, overview, answer, rows)) (table(ctx, overview, answer, rows, all_columns)) } }
                // rows of several collections have no fields in common
                @if answer["collection"].is_string() { aside aria-label="Counts by field" hx-get=(ctx.to("facets", &[("q", query), ("part", "1")])) hx-trigger="load" {
                    p.quiet { a href=(ctx.to("facets", &[("q", query)])) { "Counts by field" } }
                } }
            }
        }
        nav.pages aria-label="Pages of results" {
            @if idx > 0 { a rel="prev" href=(page(idx.saturating_sub(results.rows))) { "← previous" } }
            @if has_more { a rel="next" href=(page(idx + results.rows)) { "next →" } }
        }
        @if !rows.is_empty() && !answer["grouped"].is_array() { (many::form(ctx, query, overview, answer)) }
        details.quiet {
            summary { "Run this query elsewhere" }
            pre tabindex="0" { "stook query" (tenant) " '" (query.replace('\'', "'\\''")) "'\ncurl -H 'Authorization: Bearer TOKEN' 'http://" (ctx.host()) (api) "'" }
        }
    }
}

/// Rows as lines of values separated by tabs, for other programs.
fn tab_separated(answer: &Json, rows: &[Json]) -> String {
    let names: Vec<&str> = items(&answer["columns"]).iter().filter_map(Json::as_str).collect();
    let cell = |row: &Json, name: &str| plain(&row[name]).replace(['\t', '\n', '\r'], " ");
    rows.iter().map(|row| names.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join("\t") + "\n").collect()
}

/// The state of the services.
fn services(ctx: &PageContext, query: &str, services: &Json, reload_path: &str) -> Markup {
    html! {
        @if items(services).iter().any(|service| service["state"] == "running") {
            p data-events=(ctx.to("search/events", &[("q", query)])) { "Some services have not answered yet. " a href=(reload_path) { "Reload" } }
        }
        @if !items(services).is_empty() {
            ul.chips { @for service in items(services) { li { (named(service, "source")) ": " (super::shown::state(named(service, "state"))) } } }
        }
    }
}

/// The collection whose records an answer has; null if there are several.
fn collection_of<'j>(overview: &'j Json, answer: &Json) -> &'j Json {
    items(&overview["collections"]).iter().find(|known| known["name"] == answer["collection"]).unwrap_or(&Json::Null)
}

/// Chooses columns to show, in the order of the definition: the key and indexed fields first; lists, structs and mostly empty columns last.
fn choose_columns<'n>(overview: &Json, answer: &Json, rows: &[Json], names: &[&'n str]) -> Vec<&'n str> {
    let collection = collection_of(overview, answer);
    let rank = |name: &str| {
        let is_indexed = items(&collection["indexed"]).iter().any(|known| known == name);
        let is_plain = collection["fields"][name].as_str().is_none_or(|ty| !ty.starts_with(['[', '{']) && ty != "json");
        let is_rare = rows.iter().filter(|row| !row[name].is_null()).count() * 2 < rows.len();
        match (name, is_plain, is_indexed) {
            ("key", ..) => 0,
            _ if collection["title"] == name => 0,
            _ if is_rare => 4,
            (_, true, true) => 1,
            (_, true, false) => 2,
            (_, false, _) => 3,
        }
    };
    let mut ranked: Vec<(usize, usize)> = names.iter().enumerate().map(|(index, name)| (rank(name), index)).collect();
    ranked.sort_unstable();
    let mut indexes: Vec<usize> = ranked.into_iter().take(COLUMNS).map(|(_, index)| index).collect();
    indexes.sort_unstable();
    indexes.into_iter().map(|index| names[index]).collect()
}

/// A map for each column of geometries.
fn maps(ctx: &PageContext, overview: &Json, answer: &Json, rows: &[Json]) -> Markup {
    let collection = collection_of(overview, answer);
    let is_geometry = |name: &&str| collection["fields"][*name] == "geometry";
    let feature = |row: &Json, name: &str| {
        let key = row["key"].as_str();
        let href = key.zip(answer["collection"].as_str()).map(|(key, collection)| ctx.record(collection, key));
        MapFeature { label: key.unwrap_or(name).to_owned(), href, geometry: row[name].clone() }
    };
    html! {
        @for name in items(&answer["columns"]).iter().filter_map(Json::as_str).filter(is_geometry) {
            @let features: Vec<MapFeature> = rows.iter().filter(|row| !row[name].is_null()).map(|row| feature(row, name)).collect();
            @if !features.is_empty() { (map(name, &features)) }
        }
    }
}

/// Rows with links to their records.
fn table(ctx: &PageContext, overview: &Json, answer: &Json, rows: &[Json], all: bool) -> Markup {
    let names: Vec<&str> = items(&answer["columns"]).iter().filter_map(Json::as_str).collect();
    let collection = answer["collection"].as_str();
    // groups are not records: all their columns matter, and none is a key
    let is_grouped = answer["grouped"].is_array();
    let has_values = |name: &&str| rows.iter().any(|row| !row[*name].is_null());
    // a field that is the key repeats it
    let repeats = |name: &&str| *name != "key" && rows.iter().all(|row| row[*name] == row["key"]);
    let informative: Vec<&str> = names.iter().copied().filter(|name| has_values(name) && !repeats(name)).collect();
    let shown = if all || is_grouped { names.clone() } else { choose_columns(overview, answer, rows, &informative) };
    let is_number = |name: &str| rows.iter().any(|row| row[name].is_number());
    let is_long = |value: &Json| value.as_str().is_some_and(|text| text.len() > 12 && text.contains(' '));
    let is_prose = |name: &str| rows.iter().any(|row| is_long(&row[name]) || items(&row[name]).iter().any(is_long));
    let kind = |name: &&str| if is_number(name) { Some("number") } else { is_prose(name).then_some("prose") };
    let kinds: Vec<Option<&str>> = shown.iter().map(kind).collect();
    let definition = collection_of(overview, answer);
    let links = &definition["links"];
    let highlights = items(&answer["highlights"]);
    let types: Vec<&str> = shown.iter().map(|name| type_of(&definition["fields"], name)).collect();
    let cell = |row: &Json, found: &Json, name: &str, ty: &str| match links[name].as_str() {
        Some(target) => linked(ctx, target, &row[name], &[]),
        None if found[name].is_array() => marked(&found[name]),
        None => typed(&row[name], ty),
    };
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { @for (name, kind) in shown.iter().zip(&kinds) { th scope="col" class=[kind] { (name) } } } }
                tbody {
                    @for (number, row) in rows.iter().enumerate() {
                        @let found = highlights.get(number).unwrap_or(&Json::Null);
                        tr {
                            @for ((name, kind), ty) in shown.iter().zip(&kinds).zip(&types) {
                                td class=[kind] {
                                    @match (*name, collection) {
                                        ("key", None) if !is_grouped && row["collection"].is_string() => a href=(ctx.record(named(row, "collection"), &plain(&row["key"]))) { (value(&row["key"])) },
                                        ("key", Some(collection)) => a href=(ctx.record(collection, &plain(&row["key"]))) { (value(&row["key"])) },
                                        (title, Some(collection)) if definition["title"] == title && row["key"].is_string() => {
                                            a href=(ctx.record(collection, &plain(&row["key"]))) { (cell(row, found, title, ty)) }
                                        }
                                        _ => (cell(row, found, name, ty)),
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A text in which words were found, or those elements of a list in which they were.
fn marked(found: &Json) -> Markup {
    let texts: Vec<&[Json]> = if items(found).iter().all(Json::is_array) { items(found).iter().map(items).collect() } else { vec![items(found)] };
    html! {
        @for (number, pieces) in texts.iter().enumerate() {
            @if number > 0 { "; " }
            bdi { @for (position, piece) in pieces.iter().enumerate() {
                @let text = piece.as_str().unwrap_or_default();
                @if position % 2 == 1 { mark { (text) } } @else { (text) }
            } }
        }
    }
}

/// Suggested queries with their reasons.
fn suggested(ctx: &PageContext, meant: &Json) -> Markup {
    let all = items(&meant["suggestions"]);
    html! {
        @if !all.is_empty() {
            h2 { "Did you mean" }
            ul.meant {
                @for suggestion in all {
                    li {
                        a href=(ctx.to("search", &[("q", named(suggestion, "query"))])) { code { (named(suggestion, "query")) } }
                        @for reason in items(&suggestion["reasons"]) { span.quiet { " " (reason.as_str().unwrap_or_default()) "." } }
                    }
                }
            }
        }
        @if meant["learning"] == true { p.quiet { "The vocabulary for suggestions is still being built." } }
    }
}

/// `?q=QUERY&part=1`: facets, each value with the query for it.
pub async fn facets(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let query = ctx.param("q").unwrap_or_default();
    let answer = ctx.get_json("/query/facets", &[("q", query)]).await?;
    let body = html! {
        @if !items(&answer["conditions"]).is_empty() {
            section.facet {
                h2 { "Conditions" }
                ul {
                    @for facet_condition in items(&answer["conditions"]) {
                        @let condition = short(named(facet_condition, "condition"), MAX_VALUE_CHARS);
                        li { a href=(ctx.to("search", &[("q", named(facet_condition, "without"))])) aria-label={ "without " (condition) } { "×\u{a0}" bdi { (condition) } } }
                    }
                }
            }
        }
        @for facet in items(&answer["facets"]) {
            @let largest = items(&facet["values"]).iter().filter_map(|value| value["records"].as_u64()).max().unwrap_or(0);
            section.facet {
                h2 { (named(facet, "field")) }
                ul {
                    @for value in items(&facet["values"]) {
                        li {
                            a href=(ctx.to("search", &[("q", named(value, "query"))])) { bdi { (short(named(value, "value"), MAX_VALUE_CHARS)) } } " "
                            @let records = value["records"].as_u64().unwrap_or(0);
                            span.quiet { (count(records)) }
                            (bar(records, largest))
                        }
                    }
                    @if let Some(others) = facet["others"].as_u64().filter(|others| *others > 0) { li.quiet { "and " (count(others)) " other values" } }
                }
            }
        }
        @if items(&answer["facets"]).is_empty() {
            @if ctx.param("part").is_none() { p.quiet { "No indexed field has different values in these records." } }
        } @else if answer["whole"] != true { p.quiet { "Among " (count(answer["counted"].as_u64().unwrap_or(0))) " records." } }
    };
    Ok(RenderedPage { is_fragment: ctx.param("part").is_some(), ..RenderedPage::new(query, body) })
}

/// `?q=TEXT`: completions and suggested queries. A part of a page.
pub async fn suggestions(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let text = ctx.param("q").unwrap_or_default();
    // a text in the query language needs no suggestions
    let is_query = text.contains(['=', '|', '<', '>']);
    let meant =
        if text.trim().is_empty() || is_query { Arc::default() } else { ctx.get_json("/suggest", &[("text", text)]).await.unwrap_or_default() };
    let body = html! { (completions(&ctx, text).await?) (suggested(&ctx, &meant)) };
    Ok(RenderedPage::fragment(body))
}

/// Completions of the last word of a text.
async fn completions(ctx: &PageContext, text: &str) -> HandlerResult<Markup> {
    let found = ctx.get_json("/query/completions", &[("q", text)]).await?;
    let found = items(&found["completions"]);
    Ok(html! {
        @if !found.is_empty() {
            ul.chips { @for completion in found { li { a href=(ctx.to("search", &[("q", named(completion, "query"))])) { bdi { (short(named(completion, "word"), MAX_VALUE_CHARS)) } } } } }
        }
    })
}

/// `?q=QUERY`: the state of services as server-sent events.
pub async fn events(ctx: PageContext) -> Response {
    let path = ctx.api("/query/events", &[("q", ctx.param("q").unwrap_or_default())]);
    ctx.get(&path).await
}

/// `?q=QUERY`: the results as a download.
pub async fn download(ctx: PageContext) -> Response {
    let format = if ctx.param("format") == Some("ndjson") { "ndjson" } else { "csv" };
    // people open what they download with spreadsheets, some of which need a byte order mark
    let path = ctx.api("/export", &[("q", ctx.param("q").unwrap_or_default()), ("format", if format == "csv" { "csv-bom" } else { format })]);
    let mut response = ctx.get(&path).await;
    if !response.status().is_success() {
        let problem = bytes_of(response).await.err().unwrap_or_else(|| Problem::not_found("nothing found"));
        return ctx.answer(Err(problem));
    }
    let name = if format == "ndjson" { "attachment; filename=\"stook.ndjson\"" } else { "attachment; filename=\"stook.csv\"" };
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}
