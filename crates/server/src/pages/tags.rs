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
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = ctx.get_json("", &[]).await?;
    let tagged: Vec<&str> =
        items(&overview["collections"]).iter().filter(|collection| collection["tags"] == true).map(|collection| named(collection, "name")).collect();
    let mut all = Vec::new();
    for collection in tagged {
        all.push((collection, ctx.get_json(&format!("/tags/{collection}"), &[]).await?));
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
                                @if ctx.may(Role::Admin) { th scope="col" { "change" } }
                            }
                        }
                        tbody { @for tag in items(&tags["tags"]) { (row(&ctx, collection, tag)) } }
                    }
                }
                @if ctx.may(Role::Admin) { (new_tag(&ctx, collection)) }
            }
        }
    };
    Ok(RenderedPage::new("Tags", body))
}

fn row(ctx: &PageContext, collection: &str, tag: &Json) -> Markup {
    let name = named(tag, "name");
    let definition = tag["xpath"].as_str().or(tag["query"].as_str()).unwrap_or("assigned manually");
    html! {
        tr {
            th scope="row" {
                a href=(ctx.to("search", &[("q", &format!("{collection} tag={name}"))])) { bdi { (name) } }
                @if let Some(comment) = tag["comment"].as_str().filter(|comment| !comment.is_empty()) { br; span.quiet { (text(comment)) } }
            }
            td.number { @match tag["records"].as_u64() { Some(records) => (count(records)), None => span.quiet { "as asked" } } }
            td { code { (text(definition)) } }
            (evaluation(ctx, collection, tag))
            @if ctx.may(Role::Admin) {
                td {
                    div.actions {
                        @if tag["kind"] == "xpath" { (button(ctx, collection, name, "rebuild")) }
                        (edit_tag(ctx, collection, tag))
                        (delete(ctx, collection, name))
                    }
                }
            }
        }
    }
}

/// Shows the progress of a tag's evaluation; it reloads itself until that has ended.
fn evaluation(ctx: &PageContext, collection: &str, tag: &Json) -> Markup {
    let evaluation = &tag["evaluation"];
    let number = |name: &str| evaluation[name].as_u64().unwrap_or(0);
    let is_running = ["running", "queued", "interrupted"].contains(&named(evaluation, "state"));
    let reload_path = ctx.to("tags/evaluation", &[("collection", collection), ("name", named(tag, "name"))]);
    html! {
        td hx-get=[is_running.then_some(reload_path)] hx-trigger="every 2s" hx-swap="outerHTML" {
            @if let Some(shown) = evaluation["state"].as_str() {
                (state(shown)) " "
                @if is_running { (count(number("records"))) " of " (count(number("of"))) }
                @if number("added") + number("removed") > 0 {
                    a href=(ctx.to("job", &[("id", &evaluation["job"].to_string())])) { "+" (count(number("added"))) " −" (count(number("removed"))) }
                }
            }
        }
    }
}

/// `?collection=C&name=N`: the progress of a tag's evaluation. A part of a page.
pub async fn evaluation_progress(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let (collection, name) = (ctx.param("collection").unwrap_or_default(), ctx.param("name").unwrap_or_default());
    let percent = crate::api::response::percent;
    let tag = ctx.get_json(&format!("/tags/{}/{}", percent(collection), percent(name)), &[]).await?;
    Ok(RenderedPage::fragment(evaluation(&ctx, collection, &tag)))
}

/// Fields of all forms that change a tag.
fn tag_fields(ctx: &PageContext, collection: &str, name: &str) -> Markup {
    html! { (csrf(ctx)) input type="hidden" name="collection" value=(collection); input type="hidden" name="name" value=(name); }
}

fn button(ctx: &PageContext, collection: &str, name: &str, action: &str) -> Markup {
    html! {
        form method="post" action=(ctx.to("tags/change", &[])) {
            (tag_fields(ctx, collection, name))
            button name="do" value=(action) aria-label={ (action) " " (name) } { (action) }
        }
    }
}

fn delete(ctx: &PageContext, collection: &str, name: &str) -> Markup {
    let fields = html! { (tag_fields(ctx, collection, name)) input type="hidden" name="do" value="delete"; };
    confirmed("delete", name, &ctx.to("tags/change", &[]), &fields)
}

/// A form that renames a tag and changes its definition, with its preview.
fn edit_tag(ctx: &PageContext, collection: &str, tag: &Json) -> Markup {
    let name = named(tag, "name");
    let id = |part: &str| format!("{part}-{collection}-{name}");
    html! {
        details {
            summary { "edit" span.unseen { " " (name) } }
            form.stacked method="post" action=(ctx.to("tags/change", &[])) {
                (tag_fields(ctx, collection, name))
                label for=(id("to")) { "Rename to" } input id=(id("to")) name="to" spellcheck="false" required value=(name);
                @match named(tag, "kind") {
                    "query" => (query_input(ctx, collection, &id, "Query", named(tag, "query"))),
                    "xpath" => (xpath_input(ctx, collection, &id, named(tag, "xpath"))),
                    _ => {}
                }
                label for=(id("comment")) { "Comment" } input id=(id("comment")) name="comment" value=(named(tag, "comment"));
                button name="do" value="set" { "Change" }
            }
        }
    }
}

/// An input for a query, with its preview.
fn query_input(ctx: &PageContext, collection: &str, id: &dyn Fn(&str) -> String, label: &str, query: &str) -> Markup {
    html! {
        label for=(id("query")) { (label) }
        input id=(id("query")) name="query" spellcheck="false" value=(query) hx-get=(ctx.to("tags/preview", &[("collection", collection)]))
            hx-trigger="input changed delay:250ms" hx-target="next .preview" hx-sync="this:replace";
        div.preview aria-live="polite" {}
    }
}

/// An input for an XPath, with its preview.
fn xpath_input(ctx: &PageContext, collection: &str, id: &dyn Fn(&str) -> String, xpath: &str) -> Markup {
    // names of tags may not be valid selectors, so the preview is found as the next element
    html! {
        label for=(id("xpath")) { "XPath over the record's document" }
        textarea id=(id("xpath")) name="xpath" rows="2" spellcheck="false" hx-get=(ctx.to("tags/preview", &[("collection", collection)]))
            hx-trigger="input changed delay:250ms" hx-target="next .preview" hx-sync="this:replace" { (xpath) }
        div.preview aria-live="polite" {}
    }
}

fn new_tag(ctx: &PageContext, collection: &str) -> Markup {
    let id = |part: &str| format!("{part}-{collection}");
    html! {
        details {
            summary { "New tag" }
            form.stacked method="post" action=(ctx.to("tags/change", &[])) {
                (csrf(ctx)) input type="hidden" name="collection" value=(collection); input type="hidden" name="do" value="create";
                label for=(id("name")) { "Name" } input id=(id("name")) name="name" required;
                (xpath_input(ctx, collection, &id, ""))
                (query_input(ctx, collection, &id, "or a query", ""))
                label for=(id("comment")) { "Comment" } input id=(id("comment")) name="comment";
                button { "Create" }
            }
        }
    }
}

/// `?collection=C&xpath=X` or `&query=Q`: what a definition finds. A part of a page.
pub async fn preview(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let given = ["xpath", "query"].into_iter().find_map(|kind| Some((kind, ctx.param(kind).filter(|text| !text.trim().is_empty())?)));
    let (collection, Some((kind, text))) = (ctx.param("collection").unwrap_or_default(), given) else {
        return Ok(RenderedPage::fragment(html! {}));
    };
    let request = json!({ "name": "preview", kind: text });
    let path = format!("/tags/{}", crate::api::response::percent(collection));
    let body = match ctx.send(Method::POST, &path, &[("preview", "true")], Some(&request)).await {
        Ok(preview) => html! {
            p {
                strong { (plain(&preview["matches"])) } @if kind == "xpath" { " of the first " } @else { " of " } (plain(&preview["records"])) " records would carry it"
                @if kind == "xpath" { "; " (format!("{:.0}", preview["microseconds"].as_f64().unwrap_or(0.0))) " µs each" }
                @if preview["failed"].as_u64() > Some(0) { "; " (plain(&preview["failed"])) " exceeded the step limit" } "."
            }
            @for advice in items(&preview["advice"]) { p.problem { (plain(advice)) } }
            ul.chips { @for key in items(&preview["keys"]) { li { a href=(ctx.record(collection, &plain(key))) { bdi { (plain(key)) } } } } }
        },
        Err(problem) => super::layout::problem_box(&problem),
    };
    Ok(RenderedPage::fragment(body))
}

/// Creates, changes, evaluates or removes a tag.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (collection, name) = (form.required("collection")?, form.required("name")?);
    let overview = ctx.get_json("", &[]).await?;
    if !items(&overview["collections"]).iter().any(|known| named(known, "name") == collection && known["tags"] == true) {
        return Err(Problem::not_found(format!("{collection:?} has no tags")));
    }
    let path = format!("/tags/{collection}/{}", crate::api::response::percent(name));
    let body_of =
        |names: &[&str]| -> Json { names.iter().filter_map(|word| Some(((*word).to_owned(), form.get(word)?.into()))).collect::<Map<_, _>>().into() };
    match form.required("do")? {
        "create" => {
            let body = body_of(&["name", "xpath", "query", "comment"]);
            ctx.send(Method::POST, &format!("/tags/{collection}"), &[], Some(&body)).await?;
        }
        "set" => {
            let mut body = body_of(&["xpath", "query", "comment"]);
            if let Some(to) = form.get("to") {
                body["name"] = to.into();
            }
            ctx.send(Method::PATCH, &path, &[], Some(&body)).await?;
        }
        "rebuild" => drop(ctx.send(Method::POST, &format!("{path}/rebuild"), &[], None).await?),
        "delete" => drop(ctx.send(Method::DELETE, &path, &[], None).await?),
        other => return Err(Problem::bad_request(format!("{} is not an action on tags; use create, set, rebuild or delete", plain(&other.into())))),
    }
    Ok(Redirect::to(&ctx.to("tags", &[])).into_response())
}
