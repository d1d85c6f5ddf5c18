//! A record: its values with their contributions, related records, change log, and transitions.

use super::layout::csrf;
use super::map::{Place, map};
use super::shown::{count, items, members, moment, named, plain, short, text, value};
use super::visit::{PageContext, RenderedPage, SubmittedForm, bytes_of};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::sync::Arc;
use stook_query::as_value;
use stook_store::access::Role;

/// Max links that are searched for related records.
const MOST_LINKS: usize = 24;
/// Max keys of linked records shown at once; others are folded.
const MOST_AT_ONCE: usize = 20;
/// Max folded keys.
const MOST_AT_ALL: usize = 1_000;
/// Max characters of such a key.
const MOST_KEY: usize = 160;
/// Max documents that are shown; others can be downloaded.
const MOST_DOCUMENTS: usize = 8;

/// `?collection=C&key=K`
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let missing = || Problem::bad("give ?collection=COLLECTION&key=KEY");
    let (collection, key) = (visit.param("collection").ok_or_else(missing)?, visit.param("key").ok_or_else(missing)?);
    let overview = visit.ask("", &[]).await?;
    let all = items(&overview["collections"]);
    let own = all.iter().find(|own| named(own, "name") == collection);
    let own = own.ok_or_else(|| Problem::missing(format!("there is no collection {collection:?}")))?;
    let explained = visit.ask(&format!("/{collection}/-/explain"), &[("key", key)]).await?;
    let log = visit.ask(&format!("/{collection}/-/log"), &[("key", key), ("limit", "20")]).await?;
    let body = html! {
        p.quiet {
            a href=(visit.to("search", &[("q", collection)])) { (collection) }
            @if let Some(at) = explained.get("changed").filter(|at| at.is_string()) { " · changed " (moment(at)) }
        }
        @if !items(&explained["tags"]).is_empty() {
            ul.chips aria-label="Tags" {
                @for tag in items(&explained["tags"]) { li { a href=(visit.to("search", &[("q", &format!("{collection} tag={}", plain(tag)))])) { (plain(tag)) } } }
            }
        }
        (states(&visit, own, &explained, collection, key))
        @for reason in items(&explained["left_out"]) { p.quiet { (plain(reason)) } }
        (fields(&visit, own, &explained))
        (maps(own, &explained))
        (belonging(&visit, all, collection, key).await)
        (history(&log))
        (documents(&visit, collection, key, &explained).await)
    };
    Ok(RenderedPage::new(key, body))
}

/// State, with the transitions that change it.
fn states(visit: &PageContext, own: &Json, explained: &Json, collection: &str, key: &str) -> Markup {
    let transitions: Vec<(&str, &[Json])> =
        items(&own["transitions"]).iter().filter_map(|name| Some((name.as_str()?, items(&explained["transitions"][name.as_str()?])))).collect();
    html! {
        @if members(&explained["state"]).next().is_some() {
            section {
                h2 { "State" }
                dl { @for (name, state) in members(&explained["state"]) { dt { (name) } dd { (value(&state["value"])) } } }
                @if visit.may(Role::Write) {
                    div.actions {
                        @for (name, _) in transitions.iter().filter(|(_, reasons)| reasons.is_empty()) {
                            form method="post" action=(visit.to("transition", &[])) {
                                (csrf(visit))
                                input type="hidden" name="collection" value=(collection);
                                input type="hidden" name="key" value=(key);
                                input type="hidden" name="transition" value=(name);
                                @for (argument, about) in members(&own["arguments"][name]) {
                                    label { (argument) " " (input(argument, about)) }
                                }
                                button { (name.replace('_', " ")) }
                            }
                        }
                    }
                    @for (name, reasons) in transitions.iter().filter(|(_, reasons)| !reasons.is_empty()) {
                        p.quiet { "Not now: " (name.replace('_', " ")) ", because " (text(&reasons.iter().map(plain).collect::<Vec<_>>().join("; "))) "." }
                    }
                }
            }
        }
    }
}

fn input(name: &str, about: &Json) -> Markup {
    let required = about["required"] == true;
    let choices = items(&about["one_of"]);
    html! {
        @if choices.is_empty() {
            input name={ "arg." (name) } required[required] data-type=(named(about, "type"));
        } @else {
            select name={ "arg." (name) } required[required] {
                @if !required { option value="" { "–" } }
                @for choice in choices { option { (plain(choice)) } }
            }
        }
    }
}

/// Golden values and the value of every contributor. Winning values are marked; other values are highlighted if the definition flags conflicts.
fn fields(visit: &PageContext, own: &Json, explained: &Json) -> Markup {
    let contributors: Vec<&str> = items(&explained["contributions"]).iter().map(|one| named(one, "contributor")).collect();
    let has_value = |field: &Json| !field["value"].is_null() || !items(&field["lost"]).is_empty();
    let cell = |field: &Json, contributor: &str| {
        let won = items(&field["from"]).iter().any(|from| from == contributor);
        let lost = items(&field["lost"]).iter().find(|lost| named(lost, "contributor") == contributor);
        match (won, lost) {
            (true, _) => html! { td.won { span aria-label="wins" { "✓\u{a0}" } (value(field["said"].get(contributor).unwrap_or(&field["value"]))) } },
            (_, Some(lost)) if field["conflict"] == true => html! { td.lost { (value(&lost["value"])) } },
            (_, Some(lost)) => html! { td.outvoted { (value(&lost["value"])) } },
            _ => html! { td {} },
        }
    };
    html! {
        section {
            h2 { "Fields" }
            div.wide tabindex="0" {
                table.fields {
                    thead {
                        tr {
                            th scope="col" { "field" } th scope="col" { "value" }
                            @for contributor in &contributors { th scope="col" { (contributor) } }
                            th scope="col" { "rule" }
                        }
                    }
                    tbody {
                        @for (name, field) in members(&explained["fields"]).filter(|(_, field)| has_value(field)) {
                            tr class=[(field["conflict"] == true).then_some("conflict")] {
                                th scope="row" { (name) }
                                td {
                                    @match own["links"][name.as_str()].as_str() {
                                        Some(target) => (linked(visit, target, &field["value"], items(&field["planned"]))),
                                        None => (value(&field["value"])),
                                    }
                                }
                                @for contributor in &contributors { (cell(field, contributor)) }
                                td.quiet { (why(field)) }
                            }
                        }
                    }
                    @if !contributors.is_empty() {
                        tfoot {
                            tr {
                                th scope="row" { "as of" } td {}
                                @for one in items(&explained["contributions"]) { td { (moment(&one["as_of"])) } }
                                td {}
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A map of each golden value that is a geometry.
fn maps(own: &Json, explained: &Json) -> Markup {
    let shown = |name: &str, field: &Json| {
        let place = Place { label: name.to_owned(), href: None, geometry: field["value"].clone() };
        map(name, &[place])
    };
    html! {
        @for (name, field) in members(&explained["fields"]).filter(|(name, field)| own["fields"][name.as_str()] == "geometry" && !field["value"].is_null()) {
            section { h2 { (name) } (shown(name, field)) }
        }
    }
}

/// Links to the records with these keys. Those that are `planned` do not exist yet.
pub(super) fn linked(visit: &PageContext, target: &str, keys: &Json, planned: &[Json]) -> Markup {
    let all = match keys {
        Json::Array(keys) => keys.as_slice(),
        Json::Null => return value(keys),
        one => std::slice::from_ref(one),
    };
    let planned: HashSet<&str> = planned.iter().filter_map(Json::as_str).collect();
    let one = |key: &Json| {
        let key = plain(key);
        html! { a href=(visit.record(target, &key)) { bdi { (short(&key, MOST_KEY)) } } @if planned.contains(key.as_str()) { " " span.quiet { "(not imported yet)" } } }
    };
    let (first, rest) = all.split_at(all.len().min(MOST_AT_ONCE));
    html! {
        @for (place, key) in first.iter().enumerate() { @if place > 0 { "; " } (one(key)) }
        @if !rest.is_empty() {
            details {
                summary { "and " (count(rest.len() as u64)) " more" }
                @for key in rest.iter().take(MOST_AT_ALL) { (one(key)) "; " }
                @if rest.len() > MOST_AT_ALL { span.quiet { (count((rest.len() - MOST_AT_ALL) as u64)) " more are not shown" } }
            }
        }
    }
}

fn why(field: &Json) -> String {
    let word = |name: &str| field[name].as_str();
    let rule = match (word("derived"), word("rule")) {
        (Some(derived), _) => short(derived, 80),
        (_, Some(rule)) => rule.to_owned(),
        _ => String::new(),
    };
    let failed = word("failed").map(|reason| format!("failed: {reason}"));
    let stale = (field["stale"] == true).then(|| "being settled".to_owned());
    let most = field["most"].as_u64().map(|most| format!("shows the first {} records of the link; there may be more", count(most)));
    let disagree = (field["conflict"] == true).then(|| "the sources disagree".to_owned());
    std::iter::once(rule).chain(disagree).chain(failed).chain(stale).chain(most).collect::<Vec<_>>().join("; ")
}

/// Records of other collections that link to this one.
async fn belonging(visit: &PageContext, all: &[Json], collection: &str, key: &str) -> Markup {
    let mut rows = Vec::new();
    for (other, field, is_indexed) in linking(all, collection).into_iter().take(MOST_LINKS) {
        let query = format!("{other} {field}={}", as_value(key));
        // without an index, counting would read all records
        let number = if is_indexed {
            let counted = visit.ask("/query", &[("q", &format!("{query} | count(key)")), ("ask", "never")]).await;
            counted.ok().and_then(|counted| counted["rows"][0]["count(key)"].as_u64())
        } else {
            None
        };
        if !is_indexed || number > Some(0) {
            let is_coverage = other.contains('.');
            let page =
                if is_coverage { visit.to("coverage", &[("collection", other), ("parent", key)]) } else { visit.to("search", &[("q", &query)]) };
            rows.push((other, field, number, page));
        }
    }
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Related records" }
                ul.chips { @for (other, field, number, page) in rows { li { a href=(page) { (other) " " span.quiet { (field) } @if let Some(number) = number { " " (number) } } } } }
            }
        }
    }
}

/// Returns the collections whose records may link to this collection, each with the field, and whether it is indexed.
fn linking<'j>(all: &'j [Json], collection: &str) -> Vec<(&'j str, &'j str, bool)> {
    let mut found = Vec::new();
    for other in all {
        let fields = members(&other["links"]).filter(|(_, target)| *target == collection).map(|(field, _)| field.as_str());
        found.extend(fields.map(|field| (named(other, "name"), field, items(&other["indexed"]).iter().any(|own| own == field))));
    }
    found
}

fn history(log: &Json) -> Markup {
    html! {
        @if !items(&log["entries"]).is_empty() {
            section {
                h2 { "Changes" }
                ol.log {
                    @for entry in items(&log["entries"]) {
                        li {
                            (moment(&entry["at"])) " "
                            strong { (plain(&entry["transition"]).replace('_', " ")) } " "
                            span.quiet { bdi { (plain(&entry["caller"])) } }
                            @let change = &entry["change"];
                            @for (name, after) in members(&change["after"]).filter(|(name, after)| change["before"][name.as_str()] != **after) {
                                " " (name) ": " (value(&change["before"][name.as_str()])) " → " (value(after))
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Documents as they were delivered, one of each contributor that counts.
async fn documents(visit: &PageContext, collection: &str, key: &str, explained: &Json) -> Markup {
    let kept = items(&explained["contributions"]).iter().filter(|one| one["raw_bytes"].is_u64() && one["says"] != "retired");
    let mut all = Vec::new();
    for (place, one) in kept.enumerate() {
        let (contributor, bytes) = (named(one, "contributor"), one["raw_bytes"].as_u64().unwrap_or(0));
        let path = visit.api(&format!("/{collection}/-/document"), &[("key", key), ("contributor", contributor)]);
        let shown = if place < MOST_DOCUMENTS { Some(bytes_of(visit.get(&path).await).await) } else { None };
        all.push(html! {
            details {
                summary { "Document from " bdi { (contributor) } " as delivered, " (count(bytes)) " bytes" }
                p { a href=(path) { "Download" } }
                @match shown {
                    Some(Ok(bytes)) => (super::document::shown(&bytes)),
                    Some(Err(problem)) => p.quiet { (problem.detail) },
                    None => {},
                }
            }
        });
    }
    html! { @for one in all { (one) } }
}

/// Applies a transition from a form; its arguments are `arg.NAME`.
pub async fn transition(visit: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (collection, key, name) = (form.need("collection")?, form.need("key")?, form.need("transition")?);
    let overview = visit.ask("", &[]).await?;
    let own = items(&overview["collections"]).iter().find(|own| named(own, "name") == collection);
    let own = own.filter(|own| items(&own["transitions"]).iter().any(|known| known == name));
    let own = own.ok_or_else(|| Problem::missing(format!("there is no transition {name:?} of {collection:?}")))?;
    let mut arguments = Map::new();
    for (sent, text) in form.0.iter().filter(|(_, text)| !text.is_empty()) {
        let Some(argument) = sent.strip_prefix("arg.") else { continue };
        // an argument of another type than text is read as JSON
        let is_text = named(&own["arguments"][name][argument], "type") == "text";
        let read = if is_text { None } else { serde_json::from_str(text).ok() };
        arguments.insert(argument.to_owned(), read.unwrap_or_else(|| text.as_str().into()));
    }
    visit.send(Method::POST, &format!("/{collection}/-/{name}"), &[("key", key)], Some(&Json::Object(arguments))).await?;
    Ok(Redirect::to(&visit.record(collection, key)).into_response())
}
