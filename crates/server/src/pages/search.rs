//! Search: a query, its rows, its errors shown at their position, and suggestions.

use super::layout::trouble;
use super::map::{Place, map};
use super::record::linked;
use super::shown::{count, items, named, plain, short, value};
use super::visit::{PageContext, RenderedPage, TOO_LONG, bytes_of, place_of};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// Rows of a page.
const ROWS: u64 = 50;
/// Rows of a page if the rows are very long.
const FEW: u64 = 5;
/// Seconds to wait for services; later answers are shown when the page is reloaded.
const WAIT: &str = "5";
/// Max columns shown unless all are requested.
const COLUMNS: usize = 6;
/// Max characters of rows shown as JSON.
const MOST_JSON: usize = 200_000;
/// Max characters of a value in a link.
const MOST_VALUE: usize = 60;

/// `?q=QUERY&idx=&view=table|json&all=`
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = visit.ask("", &[]).await?;
    let Some(query) = visit.param("q") else {
        let body = html! { (form(&visit, "", &overview)) (begin(&visit, &overview)) };
        return Ok(RenderedPage::new("Search", body));
    };
    // a query without its value yet gets completions and is not run
    if is_begun(query) {
        let body = html! { (form(&visit, query, &overview)) (ahead(&visit, query).await?) };
        return Ok(RenderedPage::new("Search", body));
    }
    let idx = place_of(visit.param("idx"))?;
    let asked = async |rows: u64| {
        // one more row than is shown tells whether there are more; counting all takes longer and follows later
        let params = [("q", query), ("idx", &idx.to_string()), ("limit", &(rows + 1).to_string()), ("wait", WAIT)];
        visit.ask("/query", &params).await
    };
    let (mut rows, mut answer) = (ROWS, asked(ROWS).await);
    if answer.as_ref().is_err_and(|problem| problem.detail == TOO_LONG) {
        (rows, answer) = (FEW, asked(FEW).await);
    }
    let body = match answer {
        Ok(answer) => found(&ResultsPage { visit: &visit, query, idx, rows }, &overview, &answer),
        Err(problem) if problem.status.is_client_error() => {
            let meant = visit.ask("/suggest", &[("text", query)]).await.unwrap_or_default();
            let body = html! { (form(&visit, query, &overview)) (trouble(&problem)) (suggested(&visit, &meant)) };
            return Ok(RenderedPage { status: problem.status, ..RenderedPage::new("Search", body) });
        }
        Err(problem) => return Err(problem),
    };
    Ok(RenderedPage::new("Search", html! { (form(&visit, query, &overview)) (body) }))
}

/// Whether a query ends where a value is missing.
fn is_begun(query: &str) -> bool {
    query.trim_end().ends_with('=')
}

fn form(visit: &PageContext, query: &str, overview: &Json) -> Markup {
    let example = items(&overview["collections"]).first().map_or("", |collection| named(collection, "name"));
    html! {
        form.search role="search" action=(visit.to("search", &[])) {
            label for="q" { "Query" }
            input #q type="search" name="q" value=(query) placeholder={ (example) " …" } autocomplete="off" spellcheck="false" autofocus[query.is_empty() || is_begun(query)]
                hx-get=(visit.to("suggestions", &[])) hx-trigger="input changed delay:120ms" hx-target="#meant" hx-sync="this:replace";
            button { "Search" }
        }
        div #meant aria-live="polite" {}
    }
}

/// `?q=QUERY`: the total number of rows. A part of a page.
pub async fn total(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let params = [("q", visit.param("q").unwrap_or_default()), ("limit", "1"), ("total", "true"), ("ask", "never")];
    let answer = visit.ask("/query", &params).await?;
    let shown = html! { (count(answer["total"].as_u64().unwrap_or(0))) };
    Ok(match visit.param("whole") {
        Some(_) => RenderedPage::new(visit.param("q").unwrap_or_default(), html! { p { (shown) " rows." } }),
        None => RenderedPage::part(shown),
    })
}

/// The page without a query: what a query looks like, and the collections.
fn begin(visit: &PageContext, overview: &Json) -> Markup {
    html! {
        p { "A query names a collection, then conditions, then stages: " code { "collection field=value | sort field-" } ". If you type plain words, Stook suggests queries." }
        ul.chips { @for collection in items(&overview["collections"]) {
            li { a href=(visit.to("search", &[("q", named(collection, "name"))])) { (named(collection, "name")) } }
        } }
    }
}

/// A page of results.
struct ResultsPage<'v> {
    visit: &'v PageContext,
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
        self.visit.to("search", &params)
    }
}

fn found(own: &ResultsPage<'_>, overview: &Json, answer: &Json) -> Markup {
    let ResultsPage { visit, query, idx, .. } = *own;
    let all = items(&answer["rows"]);
    let rows = &all[..all.len().min(own.rows as usize)];
    let goes_on = all.len() > rows.len();
    let (view, all_columns) = (visit.param("view").filter(|view| ["json", "plain"].contains(view)), visit.param("all").is_some());
    let page = |idx: u64| own.with(idx, view, all_columns);
    let api = visit.api("/query", &[("q", query)]);
    let tenant = if visit.tenant == stook_store::DEFAULT_TENANT { String::new() } else { format!(" --tenant {}", visit.tenant) };
    html! {
        p.quiet {
            @if rows.is_empty() && idx > 0 { "There are no results after row " (count(idx)) ". " a href=(page(0)) { "Back to the first page" } }
            @else if rows.is_empty() { "No records match." }
            @else if goes_on || idx > 0 {
                (count(idx + 1)) "–" (count(idx + rows.len() as u64)) " of "
                span hx-get=(visit.to("total", &[("q", query)])) hx-trigger="load" { a href=(visit.to("total", &[("q", query), ("whole", "1")])) { "all" } }
            } @else { (count(rows.len() as u64)) " found" }
            @if !rows.is_empty() {
                @for (name, label) in [(None, "table"), (Some("json"), "JSON"), (Some("plain"), "plain")] {
                    @if view != name { " · " a href=(own.with(idx, name, all_columns)) { (label) } }
                }
                " · " a href=(visit.to("download", &[("q", query), ("format", "csv")])) { "CSV" }
                " · " a href=(visit.to("download", &[("q", query), ("format", "ndjson")])) { "NDJSON" }
                @if !all_columns && view.is_none() { " · " a href=(own.with(idx, None, true)) { "all columns" } }
            }
        }
        (services(visit, query, &answer["services"], &page(idx)))
        @if own.rows < ROWS { p.quiet { "The rows are long, so only " (own.rows) " are shown per page." } }
        @if view == Some("json") { pre tabindex="0" { (short(&serde_json::to_string_pretty(rows).unwrap_or_default(), MOST_JSON)) } }
        @else if view == Some("plain") { pre tabindex="0" { (short(&lines(answer, rows), MOST_JSON)) } }
        @else {
            div.results {
                @if rows.is_empty() { div {} } @else { div { (maps(visit, overview, answer, rows)) (table(visit, overview, answer, rows, all_columns)) } }
                // rows of several collections have no fields in common
                @if answer["collection"].is_string() { aside aria-label="Counts by field" hx-get=(visit.to("facets", &[("q", query), ("part", "1")])) hx-trigger="load" {
                    p.quiet { a href=(visit.to("facets", &[("q", query)])) { "Counts by field" } }
                } }
            }
        }
        nav.pages aria-label="Pages of results" {
            @if idx > 0 { a rel="prev" href=(page(idx.saturating_sub(own.rows))) { "← previous" } }
            @if goes_on { a rel="next" href=(page(idx + own.rows)) { "next →" } }
        }
        details.quiet {
            summary { "Run this query elsewhere" }
            pre tabindex="0" { "stook query" (tenant) " '" (query.replace('\'', "'\\''")) "'\ncurl -H 'Authorization: Bearer TOKEN' 'http://" (visit.host()) (api) "'" }
        }
    }
}

/// Rows as lines of values separated by tabs, for other programs.
fn lines(answer: &Json, rows: &[Json]) -> String {
    let names: Vec<&str> = items(&answer["columns"]).iter().filter_map(Json::as_str).collect();
    let cell = |row: &Json, name: &str| plain(&row[name]).replace(['\t', '\n', '\r'], " ");
    rows.iter().map(|row| names.iter().map(|name| cell(row, name)).collect::<Vec<_>>().join("\t") + "\n").collect()
}

/// The state of the services.
fn services(visit: &PageContext, query: &str, said: &Json, again: &str) -> Markup {
    html! {
        @if items(said).iter().any(|service| service["state"] == "running") {
            p data-events=(visit.to("search/events", &[("q", query)])) { "Some services have not answered yet. " a href=(again) { "Reload" } }
        }
        @if !items(said).is_empty() {
            ul.chips { @for service in items(said) { li { (named(service, "source")) ": " (super::shown::state(named(service, "state"))) } } }
        }
    }
}

/// Chooses columns to show, in the order of the definition: the key and indexed fields first; lists, structs and mostly empty columns last.
fn chosen<'n>(overview: &Json, answer: &Json, rows: &[Json], names: &[&'n str]) -> Vec<&'n str> {
    let collection = items(&overview["collections"]).iter().find(|own| own["name"] == answer["collection"]).unwrap_or(&Json::Null);
    let rank = |name: &str| {
        let is_indexed = items(&collection["indexed"]).iter().any(|own| own == name);
        let is_plain = collection["fields"][name].as_str().is_none_or(|ty| !ty.starts_with(['[', '{']) && ty != "json");
        let is_rare = rows.iter().filter(|row| !row[name].is_null()).count() * 2 < rows.len();
        match (name, is_plain, is_indexed) {
            ("key", ..) => 0,
            _ if is_rare => 4,
            (_, true, true) => 1,
            (_, true, false) => 2,
            (_, false, _) => 3,
        }
    };
    let mut ranked: Vec<(usize, usize)> = names.iter().enumerate().map(|(place, name)| (rank(name), place)).collect();
    ranked.sort_unstable();
    let mut places: Vec<usize> = ranked.into_iter().take(COLUMNS).map(|(_, place)| place).collect();
    places.sort_unstable();
    places.into_iter().map(|place| names[place]).collect()
}

/// A map for each column of geometries.
fn maps(visit: &PageContext, overview: &Json, answer: &Json, rows: &[Json]) -> Markup {
    let own = items(&overview["collections"]).iter().find(|own| own["name"] == answer["collection"]).unwrap_or(&Json::Null);
    let is_geometry = |name: &&str| own["fields"][*name] == "geometry";
    let place = |row: &Json, name: &str| {
        let key = row["key"].as_str();
        let href = key.zip(answer["collection"].as_str()).map(|(key, collection)| visit.record(collection, key));
        Place { label: key.unwrap_or(name).to_owned(), href, geometry: row[name].clone() }
    };
    html! {
        @for name in items(&answer["columns"]).iter().filter_map(Json::as_str).filter(is_geometry) {
            @let places: Vec<Place> = rows.iter().filter(|row| !row[name].is_null()).map(|row| place(row, name)).collect();
            @if !places.is_empty() { (map(name, &places)) }
        }
    }
}

/// Rows with links to their records.
fn table(visit: &PageContext, overview: &Json, answer: &Json, rows: &[Json], all: bool) -> Markup {
    let names: Vec<&str> = items(&answer["columns"]).iter().filter_map(Json::as_str).collect();
    let collection = answer["collection"].as_str();
    let has_values = |name: &&str| rows.iter().any(|row| !row[*name].is_null());
    // a field that is the key repeats it
    let repeats = |name: &&str| *name != "key" && rows.iter().all(|row| row[*name] == row["key"]);
    let told: Vec<&str> = names.iter().copied().filter(|name| has_values(name) && !repeats(name)).collect();
    let shown = if all { names.clone() } else { chosen(overview, answer, rows, &told) };
    let is_number = |name: &str| rows.iter().any(|row| row[name].is_number());
    let is_long = |value: &Json| value.as_str().is_some_and(|text| text.len() > 12 && text.contains(' '));
    let is_prose = |name: &str| rows.iter().any(|row| is_long(&row[name]) || items(&row[name]).iter().any(is_long));
    let kind = |name: &&str| if is_number(name) { Some("number") } else { is_prose(name).then_some("prose") };
    let kinds: Vec<Option<&str>> = shown.iter().map(kind).collect();
    let links = items(&overview["collections"]).iter().find(|own| own["name"] == answer["collection"]).map_or(&Json::Null, |own| &own["links"]);
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { @for (name, kind) in shown.iter().zip(&kinds) { th scope="col" class=[kind] { (name) } } } }
                tbody {
                    @for row in rows {
                        tr {
                            @for (name, kind) in shown.iter().zip(&kinds) {
                                td class=[kind] {
                                    @match (*name, collection) {
                                        ("key", None) if row["collection"].is_string() => a href=(visit.record(named(row, "collection"), &plain(&row["key"]))) { (value(&row["key"])) },
                                        ("key", Some(collection)) => a href=(visit.record(collection, &plain(&row["key"]))) { (value(&row["key"])) },
                                        _ => @match links[*name].as_str() {
                                            Some(target) => (linked(visit, target, &row[*name], &[])),
                                            None => (value(&row[*name])),
                                        },
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

/// Suggested queries with their reasons.
fn suggested(visit: &PageContext, meant: &Json) -> Markup {
    let all = items(&meant["suggestions"]);
    html! {
        @if !all.is_empty() {
            h2 { "Did you mean" }
            ul.meant {
                @for one in all {
                    li {
                        a href=(visit.to("search", &[("q", named(one, "query"))])) { code { (named(one, "query")) } }
                        @for reason in items(&one["reasons"]) { span.quiet { " " (reason.as_str().unwrap_or_default()) "." } }
                    }
                }
            }
        }
        @if meant["learning"] == true { p.quiet { "The vocabulary for suggestions is still being built." } }
    }
}

/// `?q=QUERY&part=1`: facets, each value with the query for it.
pub async fn facets(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let query = visit.param("q").unwrap_or_default();
    let answer = visit.ask("/query/facets", &[("q", query)]).await?;
    let body = html! {
        @if !items(&answer["conditions"]).is_empty() {
            section.facet {
                h2 { "Conditions" }
                ul {
                    @for own in items(&answer["conditions"]) {
                        @let condition = short(named(own, "condition"), MOST_VALUE);
                        li { a href=(visit.to("search", &[("q", named(own, "without"))])) aria-label={ "without " (condition) } { "×\u{a0}" bdi { (condition) } } }
                    }
                }
            }
        }
        @for facet in items(&answer["facets"]) {
            section.facet {
                h2 { (named(facet, "field")) }
                ul {
                    @for value in items(&facet["values"]) {
                        li {
                            a href=(visit.to("search", &[("q", named(value, "query"))])) { bdi { (short(named(value, "value"), MOST_VALUE)) } } " "
                            span.quiet { (count(value["records"].as_u64().unwrap_or(0))) }
                        }
                    }
                    @if let Some(others) = facet["others"].as_u64().filter(|others| *others > 0) { li.quiet { "and " (count(others)) " other values" } }
                }
            }
        }
        @if items(&answer["facets"]).is_empty() {
            @if visit.param("part").is_none() { p.quiet { "No indexed field has different values in these records." } }
        } @else if answer["whole"] != true { p.quiet { "Among " (count(answer["counted"].as_u64().unwrap_or(0))) " records." } }
    };
    Ok(RenderedPage { part: visit.param("part").is_some(), ..RenderedPage::new(query, body) })
}

/// `?q=TEXT`: completions and suggested queries. A part of a page.
pub async fn suggestions(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let text = visit.param("q").unwrap_or_default();
    // a text in the query language needs no suggestions
    let is_query = text.contains(['=', '|', '<', '>']);
    let meant = if text.trim().is_empty() || is_query { Arc::default() } else { visit.ask("/suggest", &[("text", text)]).await.unwrap_or_default() };
    let body = html! { (ahead(&visit, text).await?) (suggested(&visit, &meant)) };
    Ok(RenderedPage::part(body))
}

/// Completions of the last word of a text.
async fn ahead(visit: &PageContext, text: &str) -> HandlerResult<Markup> {
    let found = visit.ask("/query/completions", &[("q", text)]).await?;
    let found = items(&found["completions"]);
    Ok(html! {
        @if !found.is_empty() {
            ul.chips { @for one in found { li { a href=(visit.to("search", &[("q", named(one, "query"))])) { bdi { (short(named(one, "word"), MOST_VALUE)) } } } } }
        }
    })
}

/// `?q=QUERY`: the state of services as server-sent events.
pub async fn events(visit: PageContext) -> Response {
    let path = visit.api("/query/events", &[("q", visit.param("q").unwrap_or_default())]);
    visit.get(&path).await
}

/// `?q=QUERY`: the results as a download.
pub async fn download(visit: PageContext) -> Response {
    let format = if visit.param("format") == Some("ndjson") { "ndjson" } else { "csv" };
    let path = visit.api("/export", &[("q", visit.param("q").unwrap_or_default()), ("format", format)]);
    let mut response = visit.get(&path).await;
    if !response.status().is_success() {
        let problem = bytes_of(response).await.err().unwrap_or_else(|| Problem::missing("nothing found"));
        return visit.answer(Err(problem));
    }
    let name = if format == "ndjson" { "attachment; filename=\"stook.ndjson\"" } else { "attachment; filename=\"stook.csv\"" };
    response.headers_mut().insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}
