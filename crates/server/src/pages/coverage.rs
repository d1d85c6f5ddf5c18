//! Coverage: what of each parent is there, group by group, and when something had which value.

use super::record::quoted;
use super::shown::{count, items, members, named, plain, state, value};
use super::visit::{View, Visit};
use crate::problem::Answer;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// Rows that are drawn.
const ROWS: &str = "500";
/// Width of a timeline in its own units.
const WIDTH: f64 = 1_000.0;

/// `?collection=PARENT.COVERAGE&parent=KEY`
pub async fn page(visit: Arc<Visit>) -> Answer<View> {
    let overview = visit.ask("", &[]).await?;
    let coverages: Vec<&Json> = items(&overview["collections"]).iter().filter(|own| named(own, "name").contains('.')).collect();
    let chosen = visit.param("collection").or_else(|| coverages.first().map(|own| named(own, "name")));
    let own = coverages.iter().find(|own| Some(named(own, "name")) == chosen);
    let Some(own) = own else {
        return Ok(View::new("Coverage", html! { p.quiet { "This catalogue measures no coverage." } }));
    };
    let name = named(own, "name");
    let parent_field = members(&own["links"]).next().map_or("", |(field, _)| field.as_str());
    let parent_collection = own["links"][parent_field].as_str().unwrap_or_default();
    let mut query = name.to_owned();
    if let Some(parent) = visit.param("parent") {
        query.push_str(&format!(" {parent_field}={}", quoted(parent)));
    }
    if let Some(status) = visit.param("status") {
        query.push_str(&format!(" status={}", quoted(status)));
    }
    let answer = visit.ask("/query", &[("q", &query), ("limit", ROWS), ("total", "true")]).await?;
    let rows = items(&answer["rows"]);
    let is_runs = own["fields"].get("start").is_some() && own["fields"].get("stop").is_some();
    let mut parents: Vec<(String, Vec<&Json>)> = Vec::new();
    for row in rows {
        let parent = plain(&row[parent_field]);
        match parents.last_mut() {
            Some((known, rows)) if *known == parent => rows.push(row),
            _ => parents.push((parent, vec![row])),
        }
    }
    let total = answer["total"].as_u64().unwrap_or(0);
    let body = html! {
        ul.chips aria-label="Coverages" {
            @for other in &coverages {
                @let other = named(other, "name");
                li { a href=(visit.to("coverage", &[("collection", other)])) aria-current=[(other == name).then_some("true")] { (other) } }
            }
        }
        @if own["fields"].get("status").is_some() {
            p.quiet {
                "Only " @for word in ["Missing", "Partial", "Complete"] { a href=(visit.to("coverage", &[("collection", name), ("status", word)])) { (word) } " " }
                "· " a href=(visit.to("search", &[("q", &query)])) { "as rows" }
            }
        }
        p.quiet { @if (rows.len() as u64) < total { "The first " (rows.len()) " of " (count(total)) " rows." } @else { (count(total)) " rows." } }
        @for (parent, rows) in &parents {
            section.parent {
                h2 { a href=(visit.to("record", &[("collection", parent_collection), ("key", parent)])) { bdi { (parent) } } }
                @if is_runs { (lanes(rows)) } @else { (bars(&visit, name, rows)) }
            }
        }
    };
    Ok(View::new(format!("Coverage: {name}"), body))
}

/// A bar for each group: what is there of what is expected.
fn bars(visit: &Visit, name: &str, rows: &[&Json]) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { th scope="col" { "group" } th scope="col" { "there" } th.number scope="col" { "%" } th scope="col" { "status" } th scope="col" { "of expected" } th scope="col" { "gaps" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { a href=(visit.to("record", &[("collection", name), ("key", &plain(&row["key"]))])) { bdi { (plain(&row["group"])) } } }
                            td { (bar(row["percentage"].as_f64())) }
                            td.number { @if let Some(share) = row["percentage"].as_f64() { (format!("{share:.1}")) } }
                            td { @if let Some(own) = row["status"].as_str() { (state(own)) } }
                            td { (value(&row["value"])) " of " (value(&row["expected"])) }
                            td { (gaps(&row["gaps"])) }
                        }
                    }
                }
            }
        }
    }
}

fn bar(share: Option<f64>) -> Markup {
    let Some(share) = share else { return html! {} };
    let width = share.clamp(0.0, 100.0);
    html! {
        svg.bar viewBox="0 0 100 10" width="160" height="12" preserveAspectRatio="none" role="img" aria-label={ (format!("{share:.1} percent")) } {
            rect.missing width="100" height="10" {}
            rect.there width=(format!("{width:.2}")) height="10" {}
        }
    }
}

fn gaps(gaps: &Json) -> Markup {
    html! { @for gap in items(gaps).iter().take(8) { span.gap { (value(gap)) } " " } }
}

/// Runs of a value along time.
fn lanes(rows: &[&Json]) -> Markup {
    let at = |row: &Json, name: &str| row[name].as_str().and_then(seconds);
    let (from, to) = rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), row| {
        (at(row, "start").map_or(from, |start| from.min(start)), at(row, "stop").map_or(to, |stop| to.max(stop)))
    });
    let scale = WIDTH / (to - from).max(1.0);
    html! {
        svg.lanes viewBox={ "0 0 " (WIDTH) " 24" } preserveAspectRatio="none" role="img" aria-label="Values along time" {
            @for row in rows {
                @if let (Some(start), Some(stop)) = (at(row, "start"), at(row, "stop")) {
                    rect class={ "run " (class(&plain(&row["value"]))) } x=(format!("{:.2}", (start - from) * scale)) width=(format!("{:.2}", ((stop - start) * scale).max(1.0))) height="24" {
                        title { (plain(&row["value"])) " from " (plain(&row["start"])) " to " (plain(&row["stop"])) }
                    }
                }
            }
        }
        div.wide {
            table {
                thead { tr { th scope="col" { "value" } th scope="col" { "from" } th scope="col" { "to" } } }
                tbody { @for row in rows { tr { td { (state(&plain(&row["value"]))) } td { (value(&row["start"])) } td { (value(&row["stop"])) } } } }
            }
        }
    }
}

fn class(value: &str) -> &'static str {
    match value {
        "OK" | "Complete" | "true" => "good",
        "KO" | "Missing" | "false" => "bad",
        _ => "odd",
    }
}

/// Seconds of a time as records show it.
fn seconds(text: &str) -> Option<f64> {
    use stook_catalogue::value::{FieldType, from_text};
    from_text(text, &FieldType::Timestamp, None).ok()?.as_int().map(|micros| micros as f64 / 1e6)
}
