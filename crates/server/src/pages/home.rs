//! The home page: collections, services, sources, jobs, and what needs attention.

mod sources;

use super::import::title;
use super::shown::{bar, count, items, moment, named, plain, progress_text, state, text};
use super::visit::{PageContext, RenderedPage};
use crate::app::counts::MAX_CONFLICTS;
use crate::guard::problem::HandlerResult;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// Redirects from the tenant's path to its home page.
pub async fn front(ctx: PageContext) -> Response {
    Redirect::to(&ctx.to("home", &[])).into_response()
}

/// What needs attention, collections with their numbers, services, sources, and the newest jobs.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    Ok(RenderedPage::new("Home", home_body(&ctx).await?.shown(&ctx)))
}

/// `?known=HASH`: the body of the page, if it has changed.
pub async fn part(ctx: PageContext) -> Response {
    match home_body(&ctx).await {
        Ok(HomeBody { hash, .. }) if ctx.param("known") == Some(&hash) => StatusCode::NO_CONTENT.into_response(),
        body => ctx.answer(body.map(|body| RenderedPage::fragment(body.shown(&ctx)))),
    }
}

/// The body of the home page.
struct HomeBody {
    body: Markup,
    /// Whether it will soon change.
    is_busy: bool,
    hash: String,
}

impl HomeBody {
    /// It reloads itself, more often while something is in progress. If it has not changed it is not replaced, so that the focus is kept.
    fn shown(&self, ctx: &PageContext) -> Markup {
        let trigger = if self.is_busy { "every 2s" } else { "every 15s" };
        html! { div hx-get=(ctx.to("home/now", &[("known", &self.hash)])) hx-trigger=(trigger) hx-swap="outerHTML" { (self.body) } }
    }
}

async fn home_body(ctx: &PageContext) -> HandlerResult<HomeBody> {
    let overview = ctx.get_json("", &[("counts", "true")]).await?;
    let jobs = ctx.get_json("/jobs", &[("limit", "10")]).await?;
    let troubled = ctx.get_json("/jobs", &[("limit", "10"), ("troubled", "true")]).await?;
    let services = ctx.get_json("/services", &[]).await?;
    let sources = ctx.get_json("/sources", &[]).await?;
    let tenants = ctx.get_json_at("/v1").await?;
    let troubled_jobs = items(&troubled["jobs"]);
    let failing: Vec<&Json> = items(&services["services"]).iter().filter(|service| service["state"] == "failed").collect();
    let is_busy = overview["settling"] == true || items(&jobs["jobs"]).iter().any(|job| job["finished"].is_null());
    let conflicting: Vec<(&str, u64)> = items(&overview["collections"])
        .iter()
        .filter_map(|collection| Some((named(collection, "name"), collection["conflicts"].as_u64().filter(|conflicts| *conflicts > 0)?)))
        .collect();
    let stale = items(&overview["collections"]).iter().map(|collection| (named(collection, "name"), items(&collection["stale_tags"])));
    let stale: Vec<(&str, &[Json])> = stale.filter(|(_, tags)| !tags.is_empty()).collect();
    let collections = items(&overview["collections"]);
    let largest = collections.iter().map(records).max().unwrap_or(0);
    let is_growing = collections.iter().any(|collection| rate(collection).is_some());
    let body = html! {
        @if !troubled_jobs.is_empty() || !conflicting.is_empty() || !failing.is_empty() || !stale.is_empty() {
            section.problem {
                h2 { "Needs attention" }
                ul {
                    @for service in &failing {
                        li { "The service " (named(service, "service")) " (" (named(service, "source")) ") is failing: " ("The service X (Y) is failing: …") (text(named(service, "reason"))) }
                    }
                    @for (name, conflicts) in &conflicting {
                        li {
                            "Sources disagree on "
                            a href=(ctx.to("search", &[("q", &format!("{name} conflict=*"))])) {
                                (count(*conflicts)) @if *conflicts == MAX_CONFLICTS { " or more" } " of " (name)
                            }
                            "."
                        }
                    }
                    @for (collection, tags) in &stale {
                        li {
                            "Not all of " (collection) " was evaluated by what is said now of "
                            @for (index, tag) in tags.iter().enumerate() { @if index > 0 { ", " } bdi { (plain(tag)) } }
                            ": " a href=(ctx.to("tags", &[])) { "rebuild" } " " (if tags.len() == 1 { "it" } else { "them" }) "."
                        }
                    }
                    @for job in troubled_jobs {
                        li {
                            (job_link(ctx, job)) ": "
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
                    thead {
                        tr {
                            th scope="col" { "collection" } th.number scope="col" { "records" }
                            th scope="col" { span.unseen { "compared with the largest collection" } }
                            @if is_growing { th.number scope="col" { "added per second" } }
                        }
                    }
                    tbody {
                        @for collection in collections {
                            tr {
                                th scope="row" { a href=(ctx.to("search", &[("q", named(collection, "name"))])) { (named(collection, "name")) } }
                                td.number { (count(records(collection))) }
                                td.bar { (bar(records(collection), largest)) }
                                @if is_growing {
                                    td.number { @if let Some(rate) = rate(collection) { (if rate < 0.0 { "−" } else { "" }) (count(rate.abs() as u64)) } }
                                }
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
                    @for (index, name) in items(&tenants["tenants"]).iter().map(|tenant| named(tenant, "name")).enumerate() {
                        @if index > 0 { " · " }
                        @if name == ctx.tenant { strong { (name) } } @else { a href={ "/t/" (name) "/home" } { (name) } }
                    }
                }
            }
        }
        @if !items(&services["services"]).is_empty() { section { h2 { "Services" } (services_table(items(&services["services"]))) } }
        @if !items(&sources["sources"]).is_empty() { section { h2 { "Sources" } (sources::table(ctx, &sources)) } }
        section {
            h2 { "Latest jobs" }
            @if items(&jobs["jobs"]).is_empty() {
                p { "Nothing has been imported yet. " a href=(ctx.to("import", &[])) { "Import a file" } ", or say " code { "stook import FILE" } "." }
            } @else { (jobs_table(ctx, items(&jobs["jobs"]))) }
        }
    };
    let hash = blake3::hash(body.0.as_bytes()).to_hex()[..16].to_owned();
    Ok(HomeBody { body, is_busy, hash })
}

fn records(collection: &Json) -> u64 {
    collection["records"].as_u64().unwrap_or(0)
}

/// Records that are added in a second, if there are any.
fn rate(collection: &Json) -> Option<f64> {
    collection["rate"].as_f64().filter(|rate| rate.abs() >= 0.5)
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
                    @for service in services {
                        tr {
                            th scope="row" { (named(service, "service")) }
                            td { (named(service, "source")) }
                            td { (state(named(service, "state"))) " " span.quiet { (text(named(service, "reason"))) } }
                            td.number { @if let Some(documents) = service["documents"].as_u64() { (count(documents)) } }
                            td.number { @if let Some(seconds) = service["seconds"].as_f64() { (format!("{seconds:.2}")) } }
                            td { (moment(&service["at"])) }
                            td.number { (count(service["running"].as_u64().unwrap_or(0))) }
                        }
                    }
                }
            }
        }
    }
}

fn job_link(ctx: &PageContext, job: &Json) -> Markup {
    let id = job["id"].to_string();
    html! { a href=(ctx.to("job", &[("id", &id)])) { (title(job).to_lowercase()) } }
}

/// Jobs as rows.
pub fn jobs_table(ctx: &PageContext, jobs: &[Json]) -> Markup {
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
                            th scope="row" { (job_link(ctx, job)) }
                            td { (named(job, "source")) }
                            td {
                                @let files = items(&job["files"]);
                                bdi { (files.first().map_or("", |file| named(file, "name"))) }
                                @if files.len() > 1 { " and " (files.len() - 1) " more" }
                            }
                            td { (state(named(job, "state"))) }
                            td.number { (progress_text(job)) }
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
