//! Tags with their definitions and evaluations.

use super::layout::{confirmed, csrf};
use super::shown::{count, items, named, plain, state, text};
use super::visit::{PageContext, RenderedPage, SubmittedForm};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use stook_store::access::Role;

/// Shows the tags of all collections that have tags.
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = visit.ask("", &[]).await?;
    let tagged: Vec<&str> = items(&overview["collections"]).iter().filter(|own| own["tags"] == true).map(|own| named(own, "name")).collect();
    let mut all = Vec::new();
    for collection in tagged {
        all.push((collection, visit.ask(&format!("/tags/{collection}"), &[]).await?));
    }
    let body = html! {
        @if all.is_empty() { p.quiet { "This catalogue has no collection with tags." } }
        @for (collection, tags) in &all {
            section {
                h2 { (collection) }
                div.wide tabindex="0" {
                    table {
                        thead {
                            tr {
                                th scope="col" { "tag" } th.number scope="col" { "records" } th scope="col" { "definition" } th scope="col" { "evaluation" }
                                @if visit.may(Role::Admin) { th scope="col" { "change" } }
                            }
                        }
                        tbody { @for tag in items(&tags["tags"]) { (row(&visit, collection, tag)) } }
                    }
                }
                @if visit.may(Role::Admin) { (new_tag(&visit, collection)) }
            }
        }
    };
    Ok(RenderedPage::new("Tags", body))
}

fn row(visit: &PageContext, collection: &str, tag: &Json) -> Markup {
    let name = named(tag, "name");
    let definition = tag["xpath"].as_str().or(tag["query"].as_str()).unwrap_or("assigned manually");
    html! {
        tr {
            th scope="row" {
                a href=(visit.to("search", &[("q", &format!("{collection} tag={name}"))])) { bdi { (name) } }
                @if let Some(comment) = tag["comment"].as_str().filter(|comment| !comment.is_empty()) { br; span.quiet { (text(comment)) } }
            }
            td.number { @match tag["records"].as_u64() { Some(records) => (count(records)), None => span.quiet { "as asked" } } }
            td { code { (text(definition)) } }
            (evaluation(visit, collection, tag))
            @if visit.may(Role::Admin) {
                td {
                    div.actions {
                        @if tag["kind"] == "xpath" { (button(visit, collection, name, "rebuild")) }
                        @if tag["kind"] != "manual" { (edit_tag(visit, collection, tag)) }
                        (delete(visit, collection, name))
                    }
                }
            }
        }
    }
}

/// Shows the progress of a tag's evaluation; it reloads itself until that has ended.
fn evaluation(visit: &PageContext, collection: &str, tag: &Json) -> Markup {
    let own = &tag["evaluation"];
    let number = |name: &str| own[name].as_u64().unwrap_or(0);
    let is_on = ["running", "queued", "interrupted"].contains(&named(own, "state"));
    let again = visit.to("tags/evaluation", &[("collection", collection), ("name", named(tag, "name"))]);
    html! {
        td hx-get=[is_on.then_some(again)] hx-trigger="every 2s" hx-swap="outerHTML" {
            @if let Some(shown) = own["state"].as_str() {
                (state(shown)) " "
                @if is_on { (count(number("records"))) " of " (count(number("of"))) }
                @if number("added") + number("removed") > 0 {
                    a href=(visit.to("job", &[("id", &own["job"].to_string())])) { "+" (count(number("added"))) " −" (count(number("removed"))) }
                }
            }
        }
    }
}

/// `?collection=C&name=N`: the progress of a tag's evaluation. A part of a page.
pub async fn standing(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let (collection, name) = (visit.param("collection").unwrap_or_default(), visit.param("name").unwrap_or_default());
    let percent = crate::api::response::percent;
    let tag = visit.ask(&format!("/tags/{}/{}", percent(collection), percent(name)), &[]).await?;
    Ok(RenderedPage::part(evaluation(&visit, collection, &tag)))
}

/// Fields of all forms that change a tag.
fn of_tag(visit: &PageContext, collection: &str, name: &str) -> Markup {
    html! { (csrf(visit)) input type="hidden" name="collection" value=(collection); input type="hidden" name="name" value=(name); }
}

fn button(visit: &PageContext, collection: &str, name: &str, what: &str) -> Markup {
    html! {
        form method="post" action=(visit.to("tags/change", &[])) {
            (of_tag(visit, collection, name))
            button name="do" value=(what) aria-label={ (what) " " (name) } { (what) }
        }
    }
}

fn delete(visit: &PageContext, collection: &str, name: &str) -> Markup {
    let fields = html! { (of_tag(visit, collection, name)) input type="hidden" name="do" value="delete"; };
    confirmed("delete", name, &visit.to("tags/change", &[]), &fields)
}

/// A form that changes a definition, with its preview.
fn edit_tag(visit: &PageContext, collection: &str, tag: &Json) -> Markup {
    let (name, is_query) = (named(tag, "name"), tag["query"].is_string());
    let id = |part: &str| format!("{part}-{collection}-{name}");
    html! {
        details {
            summary { "edit" span.unseen { " " (name) } }
            form.stacked method="post" action=(visit.to("tags/change", &[])) {
                (of_tag(visit, collection, name))
                @if is_query {
                    (query_input(visit, collection, &id, "Query", named(tag, "query")))
                } @else { (xpath_input(visit, collection, &id, named(tag, "xpath"))) }
                label for=(id("comment")) { "Comment" } input id=(id("comment")) name="comment" value=(named(tag, "comment"));
                button name="do" value="set" { "Change" }
            }
        }
    }
}

/// An input for a query, with its preview.
fn query_input(visit: &PageContext, collection: &str, id: &dyn Fn(&str) -> String, label: &str, query: &str) -> Markup {
    html! {
        label for=(id("query")) { (label) }
        input id=(id("query")) name="query" spellcheck="false" value=(query) hx-get=(visit.to("tags/preview", &[("collection", collection)]))
            hx-trigger="input changed delay:250ms" hx-target="next .preview" hx-sync="this:replace";
        div.preview aria-live="polite" {}
    }
}

/// An input for an XPath, with its preview.
fn xpath_input(visit: &PageContext, collection: &str, id: &dyn Fn(&str) -> String, xpath: &str) -> Markup {
    // names of tags may not be valid selectors, so the preview is found as the next element
    html! {
        label for=(id("xpath")) { "XPath over the record's document" }
        textarea id=(id("xpath")) name="xpath" rows="2" spellcheck="false" hx-get=(visit.to("tags/preview", &[("collection", collection)]))
            hx-trigger="input changed delay:250ms" hx-target="next .preview" hx-sync="this:replace" { (xpath) }
        div.preview aria-live="polite" {}
    }
}

fn new_tag(visit: &PageContext, collection: &str) -> Markup {
    let id = |part: &str| format!("{part}-{collection}");
    html! {
        details {
            summary { "New tag" }
            form.stacked method="post" action=(visit.to("tags/change", &[])) {
                (csrf(visit)) input type="hidden" name="collection" value=(collection); input type="hidden" name="do" value="create";
                label for=(id("name")) { "Name" } input id=(id("name")) name="name" required;
                (xpath_input(visit, collection, &id, ""))
                (query_input(visit, collection, &id, "or a query", ""))
                label for=(id("comment")) { "Comment" } input id=(id("comment")) name="comment";
                button { "Create" }
            }
        }
    }
}

/// `?collection=C&xpath=X` or `&query=Q`: what a definition finds. A part of a page.
pub async fn preview(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let given = ["xpath", "query"].into_iter().find_map(|kind| Some((kind, visit.param(kind).filter(|text| !text.trim().is_empty())?)));
    let (collection, Some((kind, text))) = (visit.param("collection").unwrap_or_default(), given) else {
        return Ok(RenderedPage::part(html! {}));
    };
    let wish = json!({ "name": "preview", kind: text });
    let path = format!("/tags/{}", crate::api::response::percent(collection));
    let body = match visit.send(Method::POST, &path, &[("preview", "true")], Some(&wish)).await {
        Ok(seen) => html! {
            p {
                strong { (plain(&seen["matches"])) } @if kind == "xpath" { " of the first " } @else { " of " } (plain(&seen["records"])) " records would carry it"
                @if kind == "xpath" { "; " (format!("{:.0}", seen["microseconds"].as_f64().unwrap_or(0.0))) " µs each" }
                @if seen["failed"].as_u64() > Some(0) { "; " (plain(&seen["failed"])) " exceeded the step limit" } "."
            }
            @for advice in items(&seen["advice"]) { p.problem { (plain(advice)) } }
            ul.chips { @for key in items(&seen["keys"]) { li { a href=(visit.record(collection, &plain(key))) { bdi { (plain(key)) } } } } }
        },
        Err(problem) => super::layout::trouble(&problem),
    };
    Ok(RenderedPage::part(body))
}

/// Creates, changes, evaluates or removes a tag.
pub async fn change(visit: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (collection, name) = (form.need("collection")?, form.need("name")?);
    let overview = visit.ask("", &[]).await?;
    if !items(&overview["collections"]).iter().any(|own| named(own, "name") == collection && own["tags"] == true) {
        return Err(Problem::missing(format!("{collection:?} has no tags")));
    }
    let path = format!("/tags/{collection}/{}", crate::api::response::percent(name));
    let wish =
        |words: &[&str]| -> Json { words.iter().filter_map(|word| Some(((*word).to_owned(), form.get(word)?.into()))).collect::<Map<_, _>>().into() };
    match form.need("do")? {
        "create" => {
            let wish = wish(&["name", "xpath", "query", "comment"]);
            visit.send(Method::POST, &format!("/tags/{collection}"), &[], Some(&wish)).await?;
        }
        "set" => {
            visit.send(Method::PATCH, &path, &[], Some(&wish(&["xpath", "query", "comment"]))).await?;
        }
        "rebuild" => drop(visit.send(Method::POST, &format!("{path}/rebuild"), &[], None).await?),
        "delete" => drop(visit.send(Method::DELETE, &path, &[], None).await?),
        other => return Err(Problem::bad(format!("{} is not an action on tags; use create, set, rebuild or delete", plain(&other.into())))),
    }
    Ok(Redirect::to(&visit.to("tags", &[])).into_response())
}
