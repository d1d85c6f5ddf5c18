//! Coverage: what of each parent is there, group by group, and when something had which value.

use super::shown::{count, items, kind, members, named, plain, state, value};
use super::visit::{View, Visit};
use crate::problem::{Answer, Problem};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_query::as_value;

/// Rows that are drawn.
const ROWS: &str = "500";
/// Days of a calendar, the last ones.
const DAYS: usize = 31;
/// Groups of a calendar that is open at first.
const OPEN_GROUPS: usize = 24;
/// Width of a timeline in its own units.
const WIDTH: f64 = 1_000.0;

/// `?collection=PARENT.COVERAGE&parent=KEY`
pub async fn page(visit: Arc<Visit>) -> Answer<View> {
    let overview = visit.ask("", &[]).await?;
    let coverages: Vec<&Json> = items(&overview["collections"]).iter().filter(|own| named(own, "name").contains('.')).collect();
    let chosen = visit.param("collection").or_else(|| coverages.first().map(|own| named(own, "name")));
    let own = coverages.iter().find(|own| Some(named(own, "name")) == chosen);
    if let (None, Some(name)) = (own, visit.param("collection")) {
        return Err(Problem::missing(format!("there is no coverage {name:?}")));
    }
    let Some(own) = own else {
        return Ok(View::new("Coverage", html! { p.quiet { "This catalogue measures no coverage." } }));
    };
    let name = named(own, "name");
    let parent_field = members(&own["links"]).next().map_or("", |(field, _)| field.as_str());
    let parent_collection = own["links"][parent_field].as_str().unwrap_or_default();
    let mut query = name.to_owned();
    if let Some(parent) = visit.param("parent") {
        query.push_str(&format!(" {parent_field}={}", as_value(parent)));
    }
    if let Some(status) = visit.param("status") {
        query.push_str(&format!(" status={}", as_value(status)));
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
    // what was planned of one parent is drawn along time
    let planned = match visit.param("parent") {
        Some(parent) => visit.ask(&format!("/{parent_collection}"), &[("key", parent)]).await.ok().and_then(|record| span(&record)),
        None => None,
    };
    let total = answer["total"].as_u64().unwrap_or(0);
    // coverages whose rows have no time have no days
    let days = match visit.param("parent") {
        None if own["fields"].get("percentage").is_some() => visit.ask("/coverage", &[("collection", name)]).await.ok(),
        _ => None,
    };
    let body = html! {
        ul.chips aria-label="Coverages" {
            @for other in &coverages {
                @let other = named(other, "name");
                li { a href=(visit.to("coverage", &[("collection", other)])) aria-current=[(other == name).then_some("true")] { (other) } }
            }
        }
        @if own["fields"].get("status").is_some() {
            p.quiet {
                "Only " @for word in [None, Some("Missing"), Some("Partial"), Some("Complete")] {
                    @let params = [visit.param("parent").map(|parent| ("parent", parent)), word.map(|word| ("status", word))];
                    @let params: Vec<(&str, &str)> = std::iter::once(("collection", name)).chain(params.into_iter().flatten()).collect();
                    a href=(visit.to("coverage", &params)) aria-current=[(visit.param("status") == word).then_some("true")] { (word.unwrap_or("all")) } " "
                }
                "· " a href=(visit.to("search", &[("q", &query)])) { "as rows" }
            }
        }
        @if let Some(days) = &days { (calendar(&visit, name, days)) }
        p.quiet { @if (rows.len() as u64) < total { "The first " (rows.len()) " of " (count(total)) " rows." } @else { (count(total)) " rows." } }
        @for (parent, rows) in &parents {
            section.parent {
                h2 { a href=(visit.to("record", &[("collection", parent_collection), ("key", parent)])) { bdi { (parent) } } }
                @if is_runs { (lanes(&visit, name, rows)) } @else { (bars(&visit, name, rows, planned)) }
            }
        }
    };
    Ok(View::new(format!("Coverage: {name}"), body))
}

/// Percentages by day and group; each leads to its rows.
fn calendar(visit: &Visit, name: &str, answer: &Json) -> Markup {
    let cells = items(&answer["days"]);
    let mut days: Vec<&str> = cells.iter().map(|cell| named(cell, "day")).collect();
    days.dedup();
    let days = &days[days.len().saturating_sub(DAYS)..];
    let mut groups: BTreeMap<&str, BTreeMap<&str, &Json>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| days.contains(&named(cell, "day"))) {
        groups.entry(named(cell, "group")).or_default().insert(named(cell, "day"), cell);
    }
    let rows = |group: &str, day: &str| format!("{name} group={} {}={day}", as_value(group), named(answer, "time"));
    html! {
        @if !days.is_empty() {
            details open[groups.len() <= OPEN_GROUPS] {
                summary { "By day, mean percentage" @if answer["whole"] != true { " of the first rows" } }
                div.wide {
                    table.calendar {
                        thead { tr { th scope="col" { "group" } @for day in days { th scope="col" { time datetime=(day) { (&day[5..]) } } } } }
                        tbody {
                            @for (group, by_day) in &groups {
                                tr {
                                    th scope="row" { bdi { (group) } }
                                    @for day in days {
                                        @match by_day.get(day) {
                                            None => td {},
                                            Some(cell) => td class={ "day " (share_kind(cell["mean"].as_f64().unwrap_or(0.0))) } {
                                                a href=(visit.to("search", &[("q", &rows(group, day))])) { (share(cell["mean"].as_f64().unwrap_or(0.0))) }
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
}

/// What is not all there is not shown as if it were.
fn share(percent: f64) -> String {
    format!("{:.1}", (percent * 10.0).floor() / 10.0)
}

fn share_kind(percent: f64) -> &'static str {
    if percent >= 100.0 {
        "good"
    } else if percent > 0.0 {
        "odd"
    } else {
        "bad"
    }
}

/// A bar for each group: what is there of what is expected.
fn bars(visit: &Visit, name: &str, rows: &[&Json], planned: Option<(f64, f64)>) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { th scope="col" { "group" } th scope="col" { "there" } th.number scope="col" { "%" } th scope="col" { "status" } th scope="col" { "of expected" } th scope="col" { "gaps" } } }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { a href=(visit.to("record", &[("collection", name), ("key", &plain(&row["key"]))])) { bdi { (plain(&row["group"])) } } }
                            td {
                                @match planned.filter(|_| !items(&row["gaps"]).is_empty()) {
                                    Some(planned) => a href=(visit.to("record", &[("collection", name), ("key", &plain(&row["key"]))])) { (timeline(planned, &row["gaps"])) },
                                    None => (bar(row["percentage"].as_f64())),
                                }
                            }
                            td.number { @if let Some(percent) = row["percentage"].as_f64() { (share(percent)) } }
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

fn bar(percent: Option<f64>) -> Markup {
    let Some(percent) = percent else { return html! {} };
    let width = percent.clamp(0.0, 100.0);
    html! {
        svg.bar viewBox="0 0 100 10" width="160" height="12" preserveAspectRatio="none" role="img" aria-label={ (share(percent)) " percent" } {
            rect.missing width="100" height="10" {}
            rect.there width=(format!("{width:.2}")) height="10" {}
        }
    }
}

/// What was planned, with its gaps where they are.
fn timeline((from, to): (f64, f64), gaps: &Json) -> Markup {
    let place = |gap: &Json, name: &str| gap[name].as_str().and_then(seconds).map(|at| ((at - from) / (to - from) * 100.0).clamp(0.0, 100.0));
    html! {
        svg.bar viewBox="0 0 100 10" width="160" height="12" preserveAspectRatio="none" role="img" aria-label={ (items(gaps).len()) " gaps along time" } {
            rect.there width="100" height="10" {}
            @for gap in items(gaps) {
                @if let (Some(start), Some(stop)) = (place(gap, "start"), place(gap, "stop")) {
                    rect.gone x=(format!("{start:.2}")) width=(format!("{:.2}", (stop - start).max(0.6))) height="10" { title { (between(gap)) } }
                }
            }
        }
    }
}

/// The first two times of a record that are called alike, up to `start` and `stop`.
fn span(record: &Json) -> Option<(f64, f64)> {
    members(record).find_map(|(name, start)| {
        let stop = &record[format!("{}stop", name.strip_suffix("start")?)];
        let (from, to) = (seconds(start.as_str()?)?, seconds(stop.as_str()?)?);
        (from < to).then_some((from, to))
    })
}

fn between(gap: &Json) -> String {
    // the day is that of the parent
    let clock = |name: &str| plain(&gap[name]).split('T').nth(1).unwrap_or_default().trim_end_matches('Z').to_owned();
    format!("{}–{}", clock("start"), clock("stop"))
}

fn gaps(gaps: &Json) -> Markup {
    html! {
        @for gap in items(gaps).iter().take(8) { span.gap { (between(gap)) } " " }
        @if items(gaps).len() > 8 { span.quiet { "and " (items(gaps).len() - 8) " more" } }
    }
}

/// Runs of a value along time, each leading to its row.
fn lanes(visit: &Visit, name: &str, rows: &[&Json]) -> Markup {
    let at = |row: &Json, name: &str| row[name].as_str().and_then(seconds);
    let (from, to) = rows.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(from, to), row| {
        (at(row, "start").map_or(from, |start| from.min(start)), at(row, "stop").map_or(to, |stop| to.max(stop)))
    });
    let scale = WIDTH / (to - from).max(1.0);
    html! {
        svg.lanes viewBox={ "0 0 " (WIDTH) " 24" } preserveAspectRatio="none" role="group" aria-label="Values along time" {
            @for row in rows {
                @if let (Some(start), Some(stop)) = (at(row, "start"), at(row, "stop")) {
                    @let said = format!("{} from {} to {}", plain(&row["value"]), plain(&row["start"]), plain(&row["stop"]));
                    a href=(visit.to("record", &[("collection", name), ("key", &plain(&row["key"]))])) aria-label=(said) {
                        rect class={ "run " (kind(&plain(&row["value"]))) } x=(format!("{:.2}", (start - from) * scale))
                            width=(format!("{:.2}", ((stop - start) * scale).max(1.0))) height="24" { title { (said) } }
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

/// Seconds of a time as records show it.
fn seconds(text: &str) -> Option<f64> {
    use stook_catalogue::value::{FieldType, from_text};
    from_text(text, &FieldType::Timestamp, None).ok()?.as_int().map(|micros| micros as f64 / 1e6)
}
