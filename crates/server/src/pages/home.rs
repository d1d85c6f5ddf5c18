//! Home: what there is, what is going on, what needs somebody.

use super::shown::{count, items, members, moment, named, state, text};
use super::visit::{View, Visit};
use crate::counts::MOST_CONFLICTS;
use crate::problem::Answer;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// The tenant's path alone.
pub async fn front(visit: Visit) -> Response {
    Redirect::to(&visit.to("home", &[])).into_response()
}

/// Collections with their numbers, and the newest jobs.
pub async fn page(visit: Arc<Visit>) -> Answer<View> {
    let overview = visit.ask("", &[("counts", "true")]).await?;
    let jobs = visit.ask("/jobs", &[("limit", "10")]).await?;
    let row = |collection: &'_ Json| {
        (named(collection, "name").to_owned(), collection["records"].as_u64().unwrap_or(0), members(&collection["fields"]).count())
    };
    let services = visit.ask("/services", &[]).await?;
    let tenants = visit.ask_at("/v1").await?;
    let rows: Vec<(String, u64, usize)> = items(&overview["collections"]).iter().map(row).collect();
    let needs: Vec<&Json> = items(&jobs["jobs"]).iter().filter(|job| job["chunks_dead"].as_u64() > Some(0) || job["state"] == "failed").collect();
    let disagree: Vec<(&str, u64)> = items(&overview["collections"])
        .iter()
        .filter_map(|collection| Some((named(collection, "name"), collection["conflicts"].as_u64().filter(|conflicts| *conflicts > 0)?)))
        .collect();
    let body = html! {
        @if !needs.is_empty() || !disagree.is_empty() {
            section.problem {
                h2 { "Needs somebody" }
                ul {
                    @for (name, conflicts) in &disagree {
                        li {
                            "Sources disagree on "
                            a href=(visit.to("search", &[("q", &format!("{name} conflict=*"))])) {
                                (count(*conflicts)) @if *conflicts == MOST_CONFLICTS { " or more" } " of " (name)
                            }
                            "."
                        }
                    }
                    @for job in &needs {
                        li {
                            (job_link(&visit, job)) ": "
                            @if let Some(dead) = job["chunks_dead"].as_u64().filter(|dead| *dead > 0) { (count(dead)) " chunks are dead " }
                            (named(job, "reason"))
                        }
                    }
                }
            }
        }
        section {
            h2 { "Collections" }
            @if overview["settling"] == true { p.quiet { "What follows from the newest changes is still being settled." } }
            table {
                thead { tr { th scope="col" { "collection" } th.number scope="col" { "records" } th.number scope="col" { "fields" } } }
                tbody {
                    @for (name, number, fields) in &rows {
                        tr {
                            th scope="row" { a href=(visit.to("search", &[("q", name)])) { (name) } }
                            td.number { (count(*number)) } td.number { (fields) }
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
        section { h2 { "Newest imports" } (newest(&visit, items(&jobs["jobs"]))) }
    };
    Ok(View::new("Home", body))
}

/// The newest imports. A part of a page.
pub async fn jobs(visit: Arc<Visit>) -> Answer<View> {
    let jobs = visit.ask("/jobs", &[("limit", "10")]).await?;
    Ok(View { part: true, ..View::new("", newest(&visit, items(&jobs["jobs"]))) })
}

/// Imports as rows, which are read again while one of them goes on.
fn newest(visit: &Visit, jobs: &[Json]) -> Markup {
    let goes_on = jobs.iter().any(|job| job["finished"].is_null());
    html! {
        div hx-get=[goes_on.then(|| visit.to("jobs", &[]))] hx-trigger=[goes_on.then_some("every 2s")] hx-swap="outerHTML" {
            @if jobs.is_empty() { p.quiet { "Nothing has been imported yet." } } @else { (jobs_table(visit, jobs)) }
        }
    }
}

/// Services that are asked, with what they said last.
fn services_table(services: &[Json]) -> Markup {
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { "service" } th scope="col" { "source" } th scope="col" { "last answer" } th.number scope="col" { "documents" }
                        th.number scope="col" { "seconds" } th scope="col" { "at (UTC)" } th.number scope="col" { "asked now" }
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

fn job_link(visit: &Visit, job: &Json) -> Markup {
    let id = job["id"].to_string();
    html! { a href=(visit.to("job", &[("id", &id)])) { "import " (id) } }
}

/// Imports as rows.
pub fn jobs_table(visit: &Visit, jobs: &[Json]) -> Markup {
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { "import" } th scope="col" { "source" } th scope="col" { "file" } th scope="col" { "state" }
                        th.number scope="col" { "documents" } th.number scope="col" { "in a second" } th.number scope="col" { "failed" } th scope="col" { "begun (UTC)" }
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
                            td.number { (count(job["documents"].as_u64().unwrap_or(0))) }
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
