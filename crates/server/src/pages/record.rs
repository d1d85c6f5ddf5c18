//! A record: its values with their contributions, related records, change log, and transitions.

use super::edit::{EditableField, correction};
use super::layout::csrf;
use super::map::{MapFeature, map};
use super::shown::{count, items, members, moment, named, plain, short, text, typed, value};
use super::visit::{PageContext, RenderedPage, SubmittedForm, bytes_of};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value as Json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use stook_catalogue::definition::API_NAME;
use stook_catalogue::diagnostic::known_instead;
use stook_query::as_value;

/// Max links that are searched for related records.
const MAX_LINKS: usize = 24;
/// Max keys of linked records shown at once; others are folded.
const MAX_UNFOLDED_KEYS: usize = 20;
/// Max folded keys.
const MAX_KEYS: usize = 1_000;
/// Max characters of such a key.
const MAX_KEY_CHARS: usize = 160;
/// Max contributors of a value that are shown at once; others are folded.
const MAX_BADGES: usize = 8;
/// Max characters of the label of a contributor.
const MAX_LABEL_CHARS: usize = 24;
/// Max characters of the title of a page.
const MAX_TITLE_CHARS: usize = 200;
/// Max documents that are shown; others can be downloaded.
const MAX_DOCUMENTS: usize = 8;

/// `?collection=C&key=K`
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let missing = || Problem::bad_request("give ?collection=COLLECTION&key=KEY");
    let (collection, key) = (ctx.param("collection").ok_or_else(missing)?, ctx.param("key").ok_or_else(missing)?);
    let overview = ctx.get_json("", &[]).await?;
    let collections = items(&overview["collections"]);
    let definition = collections.iter().find(|known| named(known, "name") == collection);
    let definition = definition.ok_or_else(|| {
        let known = collections.iter().map(|known| named(known, "name"));
        Problem::not_found(format!("there is no collection {collection:?}; {}", known_instead(collection, known)))
    })?;
    let explained = ctx.get_json(&format!("/{collection}/-/explain"), &[("key", key)]).await?;
    let log = ctx.get_json(&format!("/{collection}/-/log"), &[("key", key), ("limit", "20")]).await?;
    let title = definition["title"].as_str().map(|title| &explained["fields"][title]["value"]).filter(|title| !title.is_null());
    let body = html! {
        p.quiet {
            a href=(ctx.to("search", &[("q", collection)])) { (collection) }
            @if title.is_some() { " · " code { bdi { (key) } } }
            @if let Some(at) = explained.get("changed").filter(|at| at.is_string()) { " · changed " (moment(at)) }
        }
        @if !items(&explained["tags"]).is_empty() {
            ul.chips aria-label="Tags" {
                @for tag in items(&explained["tags"]) { li { a href=(ctx.to("search", &[("q", &format!("{collection} tag={}", plain(tag)))])) { (plain(tag)) } } }
            }
        }
        @for (name, value) in members(&explained["tag_attributes"]) { p { (name) ": " code { (plain(value)) } } }
        (states(&ctx, definition, &explained, collection, key))
        @for reason in items(&explained["left_out"]) { p.quiet { (plain(reason)) } }
        (fields(&ctx, definition, &explained, (collection, key)))
        (other_fields(&ctx, definition, &explained, (collection, key)))
        (maps(definition, &explained))
        (related_records(&ctx, collections, collection, key).await)
        (questions(&ctx, &explained))
        (history(&log))
        (documents(&ctx, collection, key, &explained).await)
    };
    Ok(RenderedPage::new(title.map_or_else(|| key.to_owned(), |title| short(&plain(title), MAX_TITLE_CHARS)), body))
}

/// State, with the transitions that change it.
fn states(ctx: &PageContext, definition: &Json, explained: &Json, collection: &str, key: &str) -> Markup {
    let transitions: Vec<(&str, &[Json])> = items(&definition["transitions"])
        .iter()
        .filter_map(|name| Some((name.as_str()?, items(&explained["transitions"][name.as_str()?]))))
        .collect();
    html! {
        @if members(&explained["state"]).next().is_some() {
            section {
                h2 { "State" }
                dl { @for (name, state) in members(&explained["state"]) { dt { (name) } dd { (value(&state["value"])) } } }
                @if ctx.may_change(collection) {
                    div.actions {
                        @for (name, _) in transitions.iter().filter(|(_, reasons)| reasons.is_empty()) {
                            form method="post" action=(ctx.to("transition", &[])) {
                                (csrf(ctx))
                                input type="hidden" name="collection" value=(collection);
                                input type="hidden" name="key" value=(key);
                                input type="hidden" name="transition" value=(name);
                                @for (argument, about) in members(&definition["arguments"][name]) {
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

/// An input for an argument of a transition.
pub fn input(name: &str, about: &Json) -> Markup {
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

/// Golden values, each with who says it, and with what others say instead. Who may edit gets a button to take another value.
fn fields(ctx: &PageContext, definition: &Json, explained: &Json, (collection, key): (&str, &str)) -> Markup {
    let may_change = ctx.may_change(collection);
    let contributors = Contributors::of(explained);
    let has_value = |field: &Json| !field["value"].is_null() || !items(&field["lost"]).is_empty();
    html! {
        section {
            h2 { "Fields" }
            div.wide tabindex="0" {
                table.fields {
                    thead { tr { th scope="col" { "field" } th scope="col" { "value" } th scope="col" { "said by" } } }
                    tbody {
                        @for (name, field) in members(&explained["fields"]).filter(|(_, field)| has_value(field)) {
                            @let about = definition["editable"].get(name.as_str()).filter(|_| may_change);
                            @let editable = about.map(|about| EditableField { collection, key, name, about, explained: field });
                            @let ty = named(&definition["fields"], name);
                            tr class=[(field["conflict"] == true).then_some("conflict")] {
                                th scope="row" { (name) }
                                td {
                                    @match definition["links"][name.as_str()].as_str() {
                                        Some(target) => (linked(ctx, target, &field["value"], items(&field["planned"]))),
                                        None => (typed(&field["value"], ty)),
                                    }
                                    @if let Some(editable) = &editable { " " a.edit href=(editable.page(ctx)) aria-label={ "edit " (name) } { "edit" } }
                                }
                                td {
                                    @for statement in statements(field) { (contributors.statement(ctx, &statement, ty, editable.as_ref())) }
                                    (correction(field))
                                    @let reasons = reason_text(field);
                                    @if !reasons.is_empty() { p.quiet { (reasons) } }
                                }
                            }
                        }
                    }
                }
            }
        }
        (contributors.table())
    }
}

/// A value of a field, and who says it.
struct Statement<'j> {
    value: &'j Json,
    contributors: Vec<&'j str>,
    /// Whether it is the golden value, or a part of it; what it is otherwise follows from whether the field has a conflict.
    won: bool,
    /// Whether it is the golden value as a whole, which is shown already.
    is_shown: bool,
    has_conflict: bool,
}

/// What contributors say of a field: first what counts, then the other values.
fn statements(field: &Json) -> Vec<Statement<'_>> {
    let has_conflict = field["conflict"] == true;
    let won = items(&field["from"]).iter().filter_map(Json::as_str).map(|name| (field["said"].get(name).unwrap_or(&field["value"]), name, true));
    let lost = items(&field["lost"]).iter().map(|lost| (&lost["value"], named(lost, "contributor"), false));
    let mut statements: Vec<Statement<'_>> = Vec::new();
    for (value, contributor, won) in won.chain(lost) {
        match statements.iter_mut().find(|known| known.value == value && known.won == won) {
            Some(known) => known.contributors.push(contributor),
            None => {
                statements.push(Statement { value, contributors: vec![contributor], won, is_shown: won && *value == field["value"], has_conflict })
            }
        }
    }
    statements
}

/// Who has contributed to a record.
struct Contributors<'j> {
    /// Each with a label, as short as it can be told from the others.
    all: Vec<(&'j Json, String)>,
}

impl<'j> Contributors<'j> {
    fn of(explained: &'j Json) -> Self {
        let mut numbers: HashMap<String, usize> = HashMap::new();
        let label = |contribution: &'j Json| {
            let name = named(contribution, "contributor");
            // `SOURCE:IDENTITY`, and identities may be long
            let label = if name == API_NAME { "edit".to_owned() } else { short(name.split('/').next().unwrap_or(name), MAX_LABEL_CHARS) };
            let number = numbers.entry(label.clone()).or_insert(0);
            *number += 1;
            (contribution, if *number > 1 { format!("{label} ({number})") } else { label })
        };
        Self { all: items(&explained["contributions"]).iter().map(label).collect() }
    }

    fn badge(&self, contributor: &str, class: &str) -> Markup {
        let known = self.all.iter().find(|(contribution, _)| named(contribution, "contributor") == contributor);
        html! { span.badge.(class) title=(contributor) { bdi { (known.map_or(contributor, |(_, label)| label.as_str())) } } }
    }

    /// A value with those who say it, and a button where it can be taken.
    fn statement(&self, ctx: &PageContext, statement: &Statement<'_>, ty: &str, editable: Option<&EditableField<'_>>) -> Markup {
        let class = match (statement.won, statement.has_conflict) {
            (true, _) => "won",
            (false, true) => "lost",
            (false, false) => "outvoted",
        };
        let (unfolded, folded) = statement.contributors.split_at(statement.contributors.len().min(MAX_BADGES));
        let is_edit = statement.contributors.contains(&API_NAME);
        let button = editable.zip(statement.contributors.first()).map(|(field, first)| match is_edit {
            true => field.take_back(ctx),
            false => field.take(ctx, first),
        });
        html! {
            div.statement.(class) {
                @if statement.won { span aria-label="wins" { "✓" } }
                @if !statement.is_shown { span { (typed(statement.value, ty)) } }
                @for contributor in unfolded { (self.badge(contributor, class)) }
                @if !folded.is_empty() {
                    details { summary { "and " (count(folded.len() as u64)) " more" } @for contributor in folded { (self.badge(contributor, class)) " " } }
                }
                @if let Some(button) = button { (button) }
            }
        }
    }

    /// Their whole names and times.
    fn table(&self) -> Markup {
        html! {
            @if !self.all.is_empty() {
                section {
                    h2 { "Contributors" }
                    div.wide tabindex="0" {
                        table {
                            thead { tr { th scope="col" { "contributor" } th scope="col" { "as of" } } }
                            tbody {
                                @for (contribution, label) in &self.all {
                                    @let name = named(contribution, "contributor");
                                    tr {
                                        th scope="row" { span.badge { bdi { (label) } } @if label != name { " " span.quiet { bdi { (name) } } } }
                                        td { (moment(&contribution["as_of"])) @if contribution["says"] == "retired" { span.quiet { " retired" } } }
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

/// Offers to edit a field that has no value.
fn other_fields(ctx: &PageContext, definition: &Json, explained: &Json, (collection, key): (&str, &str)) -> Markup {
    let empty: Vec<&str> =
        members(&definition["editable"]).map(|(name, _)| name.as_str()).filter(|name| explained["fields"].get(name).is_none()).collect();
    html! {
        @if ctx.may_change(collection) && !empty.is_empty() {
            form.inline method="get" action=(ctx.to("edit", &[])) {
                input type="hidden" name="collection" value=(collection);
                input type="hidden" name="key" value=(key);
                label for="field" { "A field without a value" }
                select #field name="field" { @for name in empty { option { (name) } } }
                button { "edit" }
            }
        }
    }
}

/// A map of each golden value that is a geometry.
fn maps(definition: &Json, explained: &Json) -> Markup {
    let shown = |name: &str, field: &Json| {
        let feature = MapFeature { label: name.to_owned(), href: None, geometry: field["value"].clone() };
        map(name, &[feature])
    };
    html! {
        @for (name, field) in members(&explained["fields"]).filter(|(name, field)| definition["fields"][name.as_str()] == "geometry" && !field["value"].is_null()) {
            section { h2 { (name) } (shown(name, field)) }
        }
    }
}

/// Links to the records with these keys. Those that are `planned` do not exist yet.
pub(super) fn linked(ctx: &PageContext, target: &str, keys: &Json, planned: &[Json]) -> Markup {
    let all_keys = match keys {
        Json::Array(keys) => keys.as_slice(),
        Json::Null => return value(keys),
        single => std::slice::from_ref(single),
    };
    let planned: HashSet<&str> = planned.iter().filter_map(Json::as_str).collect();
    let link = |key: &Json| {
        let key = plain(key);
        html! { a href=(ctx.record(target, &key)) { bdi { (short(&key, MAX_KEY_CHARS)) } } @if planned.contains(key.as_str()) { " " span.quiet { "(not imported yet)" } } }
    };
    let (unfolded, folded) = all_keys.split_at(all_keys.len().min(MAX_UNFOLDED_KEYS));
    html! {
        @for (index, key) in unfolded.iter().enumerate() { @if index > 0 { "; " } (link(key)) }
        @if !folded.is_empty() {
            details {
                summary { "and " (count(folded.len() as u64)) " more" }
                @for key in folded.iter().take(MAX_KEYS) { (link(key)) "; " }
                @if folded.len() > MAX_KEYS { span.quiet { (count((folded.len() - MAX_KEYS) as u64)) " more are not shown" } }
            }
        }
    }
}

fn reason_text(field: &Json) -> String {
    let word = |name: &str| field[name].as_str();
    // where all say the same, no rule chooses
    let rule = match (word("derived"), word("rule")) {
        (Some(derived), _) => Some(short(derived, 80)),
        (_, Some(rule)) if !items(&field["lost"]).is_empty() => Some(rule.to_owned()),
        _ => None,
    };
    let failed = word("failed").map(|reason| format!("failed: {reason}"));
    let stale = (field["stale"] == true).then(|| "being settled".to_owned());
    let truncated = field["most"].as_u64().map(|max| format!("shows the first {} records of the link; there may be more", count(max)));
    let disagree = (field["conflict"] == true).then(|| "the sources disagree".to_owned());
    rule.into_iter().chain(disagree).chain(failed).chain(stale).chain(truncated).collect::<Vec<_>>().join("; ")
}

/// Records of other collections that link to this one.
async fn related_records(ctx: &PageContext, collections: &[Json], collection: &str, key: &str) -> Markup {
    let mut rows = Vec::new();
    for (child, field, is_indexed) in links_to(collections, collection).into_iter().take(MAX_LINKS) {
        let query = format!("{child} {field}={}", as_value(key));
        // without an index, counting would read all records
        let number = if is_indexed {
            let counted = ctx.get_json("/query", &[("q", &format!("{query} | count(key)")), ("ask", "never")]).await;
            counted.ok().and_then(|counted| counted["rows"][0]["count(key)"].as_u64())
        } else {
            None
        };
        if !is_indexed || number > Some(0) {
            let is_coverage = child.contains('.');
            let page = if is_coverage { ctx.to("coverage", &[("collection", child), ("parent", key)]) } else { ctx.to("search", &[("q", &query)]) };
            rows.push((child, field, number, page));
        }
    }
    html! {
        @if !rows.is_empty() {
            section {
                h2 { "Related records" }
                ul.chips { @for (child, field, number, page) in rows { li { a href=(page) { (child) " " span.quiet { (field) } @if let Some(number) = number { " " (number) } } } } }
            }
        }
    }
}

/// Queries about what belongs to the record, which may not have been fetched yet.
fn questions(ctx: &PageContext, explained: &Json) -> Markup {
    let queries = items(&explained["questions"]).iter().filter_map(Json::as_str);
    let named_queries: Vec<(&str, &str)> = queries.map(|query| (query.split(' ').next().unwrap_or(query), query)).collect();
    html! {
        @if !named_queries.is_empty() {
            section {
                h2 { "Queries about it" }
                ul.chips { @for (name, query) in named_queries { li { a href=(ctx.to("search", &[("q", query)])) title=(query) { (name.replace('_', " ")) } } } }
            }
        }
    }
}

/// Returns the collections whose records may link to this collection, each with the field, and whether it is indexed.
fn links_to<'j>(collections: &'j [Json], collection: &str) -> Vec<(&'j str, &'j str, bool)> {
    let mut found = Vec::new();
    for child in collections {
        let fields = members(&child["links"]).filter(|(_, target)| *target == collection).map(|(field, _)| field.as_str());
        found.extend(fields.map(|field| (named(child, "name"), field, items(&child["indexed"]).iter().any(|known| known == field))));
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
                            @if let Some(reason) = change["reason"].as_str() { " (" (text(reason)) ")" }
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
async fn documents(ctx: &PageContext, collection: &str, key: &str, explained: &Json) -> Markup {
    let with_document =
        items(&explained["contributions"]).iter().filter(|contribution| contribution["raw_bytes"].is_u64() && contribution["says"] != "retired");
    let mut all = Vec::new();
    for (index, contribution) in with_document.enumerate() {
        let (contributor, bytes) = (named(contribution, "contributor"), contribution["raw_bytes"].as_u64().unwrap_or(0));
        let path = ctx.api(&format!("/{collection}/-/document"), &[("key", key), ("contributor", contributor)]);
        let shown = if index < MAX_DOCUMENTS { Some(bytes_of(ctx.get(&path).await).await) } else { None };
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
    html! { @for document in all { (document) } }
}

/// The arguments of a transition in a form, as the overview describes them.
pub fn arguments(form: &SubmittedForm, about: &Json) -> Map<String, Json> {
    let mut arguments = Map::new();
    for (sent, text) in form.0.iter().filter(|(_, text)| !text.is_empty()) {
        let Some(argument) = sent.strip_prefix("arg.") else { continue };
        // an argument of another type than text is read as JSON
        let is_text = named(&about[argument], "type") == "text";
        let read = if is_text { None } else { serde_json::from_str(text).ok() };
        arguments.insert(argument.to_owned(), read.unwrap_or_else(|| text.as_str().into()));
    }
    arguments
}

/// Applies a transition from a form; its arguments are `arg.NAME`.
pub async fn transition(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (collection, key, name) = (form.required("collection")?, form.required("key")?, form.required("transition")?);
    let overview = ctx.get_json("", &[]).await?;
    let definition = items(&overview["collections"]).iter().find(|definition| named(definition, "name") == collection);
    let definition = definition.filter(|definition| items(&definition["transitions"]).iter().any(|known| known == name));
    let definition = definition.ok_or_else(|| Problem::not_found(format!("there is no transition {name:?} of {collection:?}")))?;
    let arguments = arguments(&form, &definition["arguments"][name]);
    ctx.send(Method::POST, &format!("/{collection}/-/{name}"), &[("key", key)], Some(&Json::Object(arguments))).await?;
    Ok(Redirect::to(&ctx.record(collection, key)).into_response())
}
