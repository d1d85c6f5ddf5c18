//! The lab: runs with their tables and pictures, and two of them side by side.

use super::shown::{count, items, moment, named};
use super::visit::{View, Visit};
use crate::problem::{Answer, Problem};
use crate::records::percent;
use maud::{Markup, PreEscaped, html};
use serde_json::Value as Json;
use std::sync::Arc;
use stook_lab::measure::compare;
use stook_lab::measure::run::Run;
use stook_lab::show::{self, Report};

/// `?run=NAME&beside=NAME`
pub async fn page(visit: Arc<Visit>) -> Answer<View> {
    let runs = visit.ask("/lab", &[]).await?;
    let Some(name) = visit.param("run") else {
        return Ok(View::new("Lab", list(&visit, &runs, None)));
    };
    let run = read(&visit, name).await?;
    let Some(other) = visit.param("beside") else {
        let body = html! { (sections(&show::report(&run))) details { summary { "Beside another run" } (list(&visit, &runs, Some(name))) } };
        return Ok(View::new(name, body));
    };
    let other_run = read(&visit, other).await?;
    let all = compare::compare(&[vec![run], vec![other_run]]).map_err(|error| Problem::bad(error.to_string()))?;
    let report = compare::report(&[name.to_owned(), other.to_owned()], &all);
    Ok(View::new(format!("{name} and {other}"), sections(&report)))
}

async fn read(visit: &Visit, name: &str) -> Answer<Run> {
    let json = visit.ask(&format!("/lab/{}", percent(name)), &[]).await?;
    serde_json::from_value(Json::clone(&json)).map_err(|error| Problem::bad(format!("{name}: {error}")))
}

/// All runs; each leads to itself, or beside `other`.
fn list(visit: &Visit, runs: &Json, other: Option<&str>) -> Markup {
    let to = |name: &str| match other {
        Some(other) => visit.to("lab", &[("run", other), ("beside", name)]),
        None => visit.to("lab", &[("run", name)]),
    };
    html! {
        @if items(&runs["runs"]).is_empty() { p.quiet { "There is no run yet: " code { "stook lab load … -o DIR/NAME.json" } "." } }
        @else {
            table {
                thead { tr { th scope="col" { "run" } th scope="col" { "written (UTC)" } th.number scope="col" { "bytes" } } }
                tbody {
                    @for run in items(&runs["runs"]).iter().filter(|run| Some(named(run, "name")) != other) {
                        tr {
                            th scope="row" { a href=(to(named(run, "name"))) { (named(run, "name")) } }
                            td { (moment(&run["written"])) } td.number { (count(run["bytes"].as_u64().unwrap_or(0))) }
                        }
                    }
                }
            }
        }
    }
}

fn sections(report: &Report) -> Markup {
    html! {
        @for section in &report.sections {
            section {
                @if !section.title.is_empty() { h2 { (section.title) } }
                @for words in &section.words { p { (words) } }
                @if let Some(table) = &section.table {
                    div.wide tabindex="0" {
                        table {
                            thead { tr { @for (place, heading) in table.headings.iter().enumerate() { th scope="col" class=[(place >= table.names).then_some("number")] { (heading) } } } }
                            tbody { @for row in &table.rows { tr { @for (place, cell) in row.iter().enumerate() { td class=[(place >= table.names).then_some("number")] { (cell) } } } } }
                        }
                    }
                }
                // drawn by this program from numbers; names in it are escaped there
                @if let Some(picture) = &section.picture { div.picture { (PreEscaped(picture.as_str())) } }
            }
        }
    }
}
