//! The home page: collections, services, jobs, and what needs attention.

use super::import::title;
use super::shown::{count, done_of, items, members, moment, named, plain, state, text};
use super::visit::{PageContext, RenderedPage};
use crate::app::counts::MOST_CONFLICTS;
use crate::guard::problem::HandlerResult;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// Redirects from the tenant's path to its home page.
pub async fn front(visit: PageContext) -> Response {
    Redirect::to(&visit.to("home", &[])).into_response()
}

/// What needs attention, collections with their numbers, services, and the newest jobs.
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    Ok(RenderedPage::new("Home", now(&visit).await?.shown(&visit)))
}

/// `?known=HASH`: the body of the page, if it has changed.
pub async fn part(visit: PageContext) -> Response {
    match now(&visit).await {
        Ok(HomeBody { hash, .. }) if visit.param("known") == Some(&hash) => StatusCode::NO_CONTENT.into_response(),
        standing => visit.answer(standing.map(|standing| RenderedPage::part(standing.shown(&visit)))),
    }
}

/// The body of the home page.
struct HomeBody {
    body: Markup,
    /// Whether it will soon change.
    goes_on: bool,
    hash: String,
}

impl HomeBody {
    /// It reloads itself, more often while something is in progress. If it has not changed it is not replaced, so that the focus is kept.
    fn shown(&self, visit: &PageContext) -> Markup {
        let again = if self.goes_on { "every 2s" } else { "every 15s" };
        html! { div hx-get=(visit.to("home/now", &[("known", &self.hash)])) hx-trigger=(again) hx-swap="outerHTML" { (self.body) } }
    }
}

async fn now(visit: &PageContext) -> HandlerResult<HomeBody> {
    let overview = visit.ask("", &[("counts", "true")]).await?;
    let jobs = visit.ask("/jobs", &[("limit", "10")]).await?;
    let troubled = visit.ask("/jobs", &[("limit", "10"), ("troubled", "true")]).await?;
    let services = visit.ask("/services", &[]).await?;
    let tenants = visit.ask_at("/v1").await?;
    let needs = items(&troubled["jobs"]);
    let failing: Vec<&Json> = items(&services["services"]).iter().filter(|service| service["state"] == "failed").collect();
    let goes_on = overview["settling"] == true || items(&jobs["jobs"]).iter().any(|job| job["finished"].is_null());
    let disagree: Vec<(&str, u64)> = items(&overview["collections"])
        .iter()
        .filter_map(|collection| Some((named(collection, "name"), collection["conflicts"].as_u64().filter(|conflicts| *conflicts > 0)?)))
        .collect();
    let stale = items(&overview["collections"]).iter().map(|own| (named(own, "name"), items(&own["stale_tags"])));
    let stale: Vec<(&str, &[Json])> = stale.filter(|(_, tags)| !tags.is_empty()).collect();
    let body = html! {
        @if !needs.is_empty() || !disagree.is_empty() || !failing.is_empty() || !stale.is_empty() {
            section.problem {
                h2 { "Needs attention" }
                ul {
                    @for service in &failing {
                        li { "The service " (named(service, "service")) " (" (named(service, "source")) ") is failing: " ("The service X (Y) is failing: …") (text(named(service, "reason"))) }
                    }
                    @for (name, conflicts) in &disagree {
                        li {
                            "Sources disagree on "
                            a href=(visit.to("search", &[("q", &format!("{name} conflict=*"))])) {
                                (count(*conflicts)) @if *conflicts == MOST_CONFLICTS { " or more" } " of " (name)
                            }
                            "."
                        }
                    }
                    @for (collection, tags) in &stale {
                        li {
                            "Not all of " (collection) " was evaluated by what is said now of "
                            @for (place, tag) in tags.iter().enumerate() { @if place > 0 { ", " } bdi { (plain(tag)) } }
                            ": " a href=(visit.to("tags", &[])) { "rebuild" } " " (if tags.len() == 1 { "it" } else { "them" }) "."
                        }
                    }
                    @for job in needs {
                        li {
                            (job_link(visit, job)) ": "
                            @match job["chunks_dead"].as_u64().unwrap_or(0) {
                                0 => {},
                                1 => "a chunk is dead; ",
                                dead => { (count(dead)) " chunks are dead; " },
                            }
                            (named(job, "reason"))
                        }
                    }
                }
            }
        }
        section {
            h2 { "Collections" }
            @if overview["settling"] == true { p.quiet { "Derived values are still being settled after the latest changes." } }
            div.wide tabindex="0" {
                table {
                    thead { tr { th scope="col" { "collection" } th.number scope="col" { "records" } th.number scope="col" { "added per second" } th.number scope="col" { "fields" } } }
                    tbody {
                        @for own in items(&overview["collections"]) {
                            tr {
                                th scope="row" { a href=(visit.to("search", &[("q", named(own, "name"))])) { (named(own, "name")) } }
                                td.number { (count(own["records"].as_u64().unwrap_or(0))) }
                                td.number { @if let Some(rate) = own["rate"].as_f64().filter(|rate| rate.abs() >= 0.5) { (if rate < 0.0 { "−" } else { "" }) (count(rate.abs() as u64)) } }
                                td.number { (members(&own["fields"]).count()) }
                            }
                        }
                    }
                }
            }
        }
        @if items(&tenants["tenants"]).len() > 1 {
            section {
                h2 { "Tenants" }
                p {
                    @for (place, name) in items(&tenants["tenants"]).iter().map(|tenant| named(tenant, "name")).enumerate() {
                        @if place > 0 { " · " }
                        @if name == visit.tenant { strong { (name) } } @else { a href={ "/t/" (name) "/home" } { (name) } }
                    }
                }
            }
        }
        @if !items(&services["services"]).is_empty() { section { h2 { "Services" } (services_table(items(&services["services"]))) } }
        section {
            h2 { "Latest jobs" }
            @if items(&jobs["jobs"]).is_empty() { p.quiet { "Nothing has been imported yet." } } @else { (jobs_table(visit, items(&jobs["jobs"]))) }
        }
    };
    let hash = blake3::hash(body.0.as_bytes()).to_hex()[..16].to_owned();
    Ok(HomeBody { body, goes_on, hash })
}

/// Services with their latest answers.
fn services_table(services: &[Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "service" } th scope="col" { "source" } th scope="col" { "last result" } th.number scope="col" { "documents" }
                        th.number scope="col" { "seconds" } th scope="col" { "fetched at (UTC)" } th.number scope="col" { "in progress" }
                    }
                }
                tbody {
                    @for own in services {
                        tr {
                            th scope="row" { (named(own, "service")) }
                            td { (named(own, "source")) }
                            td { (state(named(own, "state"))) " " span.quiet { (text(named(own, "reason"))) } }
                            td.number { @if let Some(documents) = own["documents"].as_u64() { (count(documents)) } }
                            td.number { @if let Some(seconds) = own["seconds"].as_f64() { (format!("{seconds:.2}")) } }
                            td { (moment(&own["at"])) }
                            td.number { (count(own["running"].as_u64().unwrap_or(0))) }
                        }
                    }
                }
            }
        }
    }
}

fn job_link(visit: &PageContext, job: &Json) -> Markup {
    let id = job["id"].to_string();
    html! { a href=(visit.to("job", &[("id", &id)])) { (title(job).to_lowercase()) } }
}

/// Jobs as rows.
pub fn jobs_table(visit: &PageContext, jobs: &[Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "job" } th scope="col" { "source" } th scope="col" { "file" } th scope="col" { "state" }
                        th.number scope="col" { "documents" } th.number scope="col" { "in a second" } th.number scope="col" { "failed" } th scope="col" { "started (UTC)" }
                    }
                }
                tbody {
                    @for job in jobs {
                        tr {
                            th scope="row" { (job_link(visit, job)) }
                            td { (named(job, "source")) }
                            td {
                                @let files = items(&job["files"]);
                                bdi { (files.first().map_or("", |file| named(file, "name"))) }
                                @if files.len() > 1 { " and " (files.len() - 1) " more" }
                            }
                            td { (state(named(job, "state"))) }
                            td.number { (done_of(job)) }
                            td.number { @if let Some(rate) = job["rate"].as_f64() { (count(rate as u64)) } }
                            td.number { (count(job["counts"]["failed"].as_u64().unwrap_or(0))) }
                            td { (moment(&job["created"])) }
                        }
                    }
                }
            }
        }
    }
}
