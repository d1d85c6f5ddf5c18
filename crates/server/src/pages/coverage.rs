//! Coverage: how much of each parent's expected children there is, by group, and runs of values over time.

use super::shown::{count, items, kind, members, named, plain, state, value};
use super::timeline::{TimelineLane, TimelineMark, drawing, extent, seconds};
use super::visit::{PageContext, RenderedPage, parse_offset};
use crate::guard::problem::{HandlerResult, Problem};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_catalogue::diagnostic::known_instead;
use stook_query::as_value;

/// Rows of a page.
const ROWS: u64 = 500;
/// Days of a calendar: the last ones.
const DAYS: usize = 31;
/// Max groups for which a calendar is open at first.
const OPEN_GROUPS: usize = 24;
/// Max records of a group that are drawn one by one; adjacent ones of more are drawn as one piece.
const MAX_SEPARATE_PIECES: usize = 60;
/// Max records of a group that are listed.
const LISTED: usize = 100;

/// `?collection=PARENT.COVERAGE&parent=KEY`
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = ctx.get_json("", &[]).await?;
    let coverages: Vec<&Json> = items(&overview["collections"]).iter().filter(|coverage| named(coverage, "name").contains('.')).collect();
    let chosen = ctx.param("collection").or_else(|| coverages.first().map(|coverage| named(coverage, "name")));
    let coverage = coverages.iter().find(|coverage| Some(named(coverage, "name")) == chosen);
    if let (None, Some(name)) = (coverage, ctx.param("collection")) {
        let known = coverages.iter().map(|coverage| named(coverage, "name"));
        return Err(Problem::not_found(format!("there is no coverage {name:?}; {}", known_instead(name, known))));
    }
    let Some(coverage) = coverage else {
        return Ok(RenderedPage::new("Coverage", html! { p.quiet { "This catalogue defines no coverage." } }));
    };
    let name = named(coverage, "name");
    let parent_field = members(&coverage["links"]).next().map_or("", |(field, _)| field.as_str());
    let parent_collection = coverage["links"][parent_field].as_str().unwrap_or_default();
    let mut query = name.to_owned();
    if let Some(parent) = ctx.param("parent") {
        query.push_str(&format!(" {parent_field}={}", as_value(parent)));
    }
    if let Some(status) = ctx.param("status") {
        query.push_str(&format!(" status={}", as_value(status)));
    }
    let idx = parse_offset(ctx.param("idx"))?;
    let answer = ctx.get_json("/query", &[("q", &query), ("idx", &idx.to_string()), ("limit", &ROWS.to_string()), ("total", "true")]).await?;
    let rows = items(&answer["rows"]);
    let is_runs = coverage["fields"].get("start").is_some() && coverage["fields"].get("stop").is_some();
    let mut parents: Vec<(String, Vec<&Json>)> = Vec::new();
    for row in rows {
        let parent = plain(&row[parent_field]);
        match parents.last_mut() {
            Some((known, rows)) if *known == parent => rows.push(row),
            _ => parents.push((parent, vec![row])),
        }
    }
    // groups of one parent are drawn along time, together with the parent's own interval; sums over other coverages count no records
    let (mut planned, mut counted) = (None, None);
    if let Some(parent) = ctx.param("parent") {
        planned = interval_of_record(&*ctx.get_json(&format!("/{parent_collection}"), &[("key", parent)]).await?);
    }
    if let Some(parent) = ctx.param("parent").filter(|_| !is_runs) {
        counted = ctx.get_json("/coverage/children", &[("collection", name), ("parent", parent)]).await.ok();
    }
    let total = answer["total"].as_u64().unwrap_or(0);
    // rows without a time cannot be shown by day
    let days = match ctx.param("parent") {
        None if coverage["fields"].get("percentage").is_some() => ctx.get_json("/coverage", &[("collection", name)]).await.ok(),
        _ => None,
    };
    let rows_of = |status: Option<&str>, idx: u64| {
        let idx = idx.to_string();
        let chosen = [("parent", ctx.param("parent")), ("status", status), ("idx", Some(idx.as_str()).filter(|idx| *idx != "0"))];
        let params: Vec<(&str, &str)> =
            std::iter::once(("collection", name)).chain(chosen.into_iter().filter_map(|(word, value)| Some((word, value?)))).collect();
        ctx.to("coverage", &params)
    };
    let rows_from = |idx: u64| rows_of(ctx.param("status"), idx);
    let body = html! {
        ul.chips aria-label="Coverages" {
            @for other in &coverages {
                @let other = named(other, "name");
                li { a href=(ctx.to("coverage", &[("collection", other)])) aria-current=[(other == name).then_some("true")] { (other) } }
            }
        }
        @if coverage["fields"].get("status").is_some() {
            p.quiet {
                "Only " @for word in [None, Some("Missing"), Some("Partial"), Some("Complete")] {
                    a href=(rows_of(word, 0)) aria-current=[(ctx.param("status") == word).then_some("true")] { (word.unwrap_or("all")) } " "
                }
                "· " a href=(ctx.to("search", &[("q", &query)])) { "as rows" }
            }
        }
        @if let Some(days) = &days { (calendar(&ctx, name, days)) }
        p.quiet {
            @if rows.is_empty() && idx > 0 { "There are no rows after row " (count(idx)) ". " a href=(rows_from(0)) { "Back to the first page" } }
            @else if (rows.len() as u64) < total { (count(idx + 1)) "–" (count(idx + rows.len() as u64)) " of " (count(total)) " rows." }
            @else { (count(total)) " rows." }
        }
        @if is_runs { (runs(&ctx, name, &parents, parent_collection)) }
        @for (parent, rows) in &parents {
            section.parent {
                h2 { a href=(ctx.record(parent_collection, parent)) { bdi { (parent) } } }
                @if let Some(counted) = &counted { (timeline(&ctx, name, rows, counted, planned)) }
                @if is_runs { (run_rows(rows)) } @else { (bars(&ctx, (name, parent), rows)) }
                @if let Some(counted) = &counted { (records(&ctx, rows, counted)) }
            }
        }
        nav.pages aria-label="Pages of rows" {
            @if idx > 0 { a rel="prev" href=(rows_from(idx.saturating_sub(ROWS))) { "← earlier" } }
            @if idx + (rows.len() as u64) < total { a rel="next" href=(rows_from(idx + ROWS)) { "next →" } }
        }
    };
    Ok(RenderedPage::new(format!("Coverage: {name}"), body))
}

/// Percentages by day and group; each links to its rows.
fn calendar(ctx: &PageContext, name: &str, answer: &Json) -> Markup {
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
                summary { "By day, mean percentage" @if answer["whole"] != true { " (of the first rows only)" } }
                div.wide tabindex="0" {
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
                                                a href=(ctx.to("search", &[("q", &rows(group, day))])) { (share(cell["mean"].as_f64().unwrap_or(0.0))) }
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

/// Rounds down, so that an incomplete group is not shown as 100 %.
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

/// A bar for each group: the share of what is expected.
fn bars(ctx: &PageContext, (name, parent): (&str, &str), rows: &[&Json]) -> Markup {
    let timeline_path = ctx.to("coverage", &[("collection", name), ("parent", parent)]);
    let has_overlaps = rows.iter().any(|row| row.get("overlap").is_some());
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th scope="col" { "group" } th scope="col" { "covered" } th.number scope="col" { "%" } th scope="col" { "status" } th scope="col" { "of expected" } th scope="col" { "gaps" } @if has_overlaps { th scope="col" { "covered more than once" } } } }
                tbody {
                    @for row in rows {
                        tr {
                            th scope="row" { a href=(ctx.record(name, &plain(&row["key"]))) { bdi { (plain(&row["group"])) } } }
                            td { a href=(timeline_path) aria-label={ "along time, " (plain(&row["group"])) } { (bar(row["percentage"].as_f64())) } }
                            td.number { @if let Some(percent) = row["percentage"].as_f64() { (share(percent)) } }
                            td { @if let Some(status) = row["status"].as_str() { (state(status)) } }
                            td { (value(&row["value"])) " of " (value(&row["expected"])) }
                            td { (intervals(&row["gaps"])) }
                            @if has_overlaps { td { (intervals(&row["overlaps"])) } }
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

/// The first interval of a record: two times whose names differ only in the endings `start` and `stop`.
fn interval_of_record(record: &Json) -> Option<(f64, f64)> {
    members(record).find_map(|(name, start)| {
        let stop = &record[format!("{}stop", name.strip_suffix("start")?)];
        let (from, to) = (seconds(start.as_str()?)?, seconds(stop.as_str()?)?);
        (from < to).then_some((from, to))
    })
}

fn interval_text(interval: &Json) -> String {
    // the day is that of the parent
    let clock = |name: &str| plain(&interval[name]).split('T').nth(1).unwrap_or_default().trim_end_matches('Z').to_owned();
    format!("{}–{}", clock("start"), clock("stop"))
}

fn intervals(intervals: &Json) -> Markup {
    html! {
        @for interval in items(intervals).iter().take(8) { span.gap { (interval_text(interval)) } " " }
        @if items(intervals).len() > 8 { span.quiet { "and " (items(intervals).len() - 8) " more" } }
    }
}

/// What there is of one parent by group along time; each piece links to its record, each gap to its row.
fn timeline(ctx: &PageContext, name: &str, rows: &[&Json], counted: &Json, planned: Option<(f64, f64)>) -> Markup {
    let child = named(counted, "collection");
    let spans = rows.iter().flat_map(|row| children(counted, row).iter().chain(items(&row["gaps"]))).filter_map(start_and_stop);
    let Some((from, to)) = extent(spans.chain(planned)) else { return html! {} };
    let lane = |(row_number, row): (usize, &&Json)| {
        let href = ctx.record(name, &plain(&row["key"]));
        let covered =
            pieces(children(counted, row), (to - from) / 800.0).into_iter().map(|(start, stop, children_of_piece)| match children_of_piece {
                [child_record] => {
                    let key = plain(&child_record["key"]);
                    let href = ctx.record(child, &key);
                    TimelineMark { from: start, to: stop, kind: "there", href, label: format!("{key}, {}", interval_text(child_record)) }
                }
                several => TimelineMark {
                    from: start,
                    to: stop,
                    kind: "there",
                    href: format!("#records-{row_number}"),
                    label: format!("{} records", several.len()),
                },
            });
        let gaps = items(&row["gaps"]).iter().filter_map(|gap| {
            let (start, stop) = start_and_stop(gap)?;
            Some(TimelineMark { from: start, to: stop, kind: "gone", href: href.clone(), label: format!("gap {}", interval_text(gap)) })
        });
        TimelineLane { name: plain(&row["group"]), href: href.clone(), marks: covered.chain(gaps).collect() }
    };
    let lanes: Vec<TimelineLane> = rows.iter().enumerate().map(lane).collect();
    let has_gaps = rows.iter().any(|row| !row["gaps"].is_null());
    html! {
        (drawing(&lanes, (from, to), "Coverage over time"))
        p.legend {
            (swatch("there")) " covered; each bar links to its record "
            (swatch("missing")) " not covered (may be more than the expected time) "
            @if has_gaps { (swatch("gone")) " a gap, of groups whose rule measures gaps" }
        }
    }
}

fn swatch(kind: &str) -> Markup {
    html! { svg.swatch viewBox="0 0 10 10" width="10" height="10" aria-hidden="true" { rect class=(kind) width="10" height="10" {} } }
}

/// Returns the records that a row counts.
fn children<'j>(counted: &'j Json, row: &Json) -> &'j [Json] {
    items(&counted["groups"]).iter().find(|group| group["group"] == row["group"]).map(|group| items(&group["children"])).unwrap_or_default()
}

/// The records of each group.
fn records(ctx: &PageContext, rows: &[&Json], counted: &Json) -> Markup {
    let child = named(counted, "collection");
    html! {
        @for (number, row) in rows.iter().enumerate() {
            @let children = children(counted, row);
            @if !children.is_empty() {
                details id=(format!("records-{number}")) {
                    summary { bdi { (plain(&row["group"])) } ": " (count(children.len() as u64)) " records" }
                    ul.plain { @for record in children.iter().take(LISTED) {
                        li { a href=(ctx.record(child, &plain(&record["key"]))) { bdi { (plain(&record["key"])) } } " " span.quiet { (interval_text(record)) } }
                    } }
                    @if children.len() > LISTED { p.quiet { "and " (count((children.len() - LISTED) as u64)) " more" } }
                }
            }
        }
        @if counted["whole"] == false { p.quiet { "Only some of the records are shown." } }
    }
}

/// Returns records in the order of their starts, each with its interval; if there are many, records that would be drawn over each other are one
/// piece.
fn pieces(children: &[Json], tolerance: f64) -> Vec<(f64, f64, &[Json])> {
    let mut all: Vec<(f64, f64, &[Json])> = Vec::new();
    let merges = children.len() > MAX_SEPARATE_PIECES;
    let mut first = 0;
    for (index, child) in children.iter().enumerate() {
        let Some((start, stop)) = start_and_stop(child) else { continue };
        match all.last_mut() {
            Some((_, until, piece)) if merges && start <= *until + tolerance => (*until, *piece) = (until.max(stop), &children[first..=index]),
            _ => {
                first = index;
                all.push((start, stop, &children[index..=index]));
            }
        }
    }
    all
}

/// Runs of values along time, a row for each parent; each run links to its row.
fn runs(ctx: &PageContext, name: &str, parents: &[(String, Vec<&Json>)], parent_collection: &str) -> Markup {
    let spans = parents.iter().flat_map(|(_, rows)| rows.iter()).filter_map(|row| start_and_stop(row));
    let Some(extent) = extent(spans) else { return html! {} };
    let mark = |row: &&Json| {
        let (start, stop) = start_and_stop(row)?;
        let label = format!("{} from {} to {}", plain(&row["value"]), plain(&row["start"]), plain(&row["stop"]));
        let href = ctx.record(name, &plain(&row["key"]));
        Some(TimelineMark { from: start, to: stop, kind: kind(&plain(&row["value"])), href, label })
    };
    let lane = |(parent, rows): &(String, Vec<&Json>)| TimelineLane {
        name: parent.clone(),
        href: ctx.record(parent_collection, parent),
        marks: rows.iter().filter_map(mark).collect(),
    };
    drawing(&parents.iter().map(lane).collect::<Vec<_>>(), extent, "Values over time")
}

/// The rows of a parent's runs, as a table.
fn run_rows(rows: &[&Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th scope="col" { "value" } th scope="col" { "from" } th scope="col" { "to" } } }
                tbody { @for row in rows { tr { td { (state(&plain(&row["value"]))) } td { (value(&row["start"])) } td { (value(&row["stop"])) } } } }
            }
        }
    }
}

/// Returns the interval from `start` to `stop`.
fn start_and_stop(json: &Json) -> Option<(f64, f64)> {
    Some((seconds(json["start"].as_str()?)?, seconds(json["stop"].as_str()?)?))
}
