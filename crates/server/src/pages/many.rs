//! Actions on all records that a query finds: a tag is added to them or removed, or a transition is made of each. A page shows first how many there are; what
//! is changed are those records, whatever the query finds later.

use super::layout::csrf;
use super::record::{arguments, input};
use super::shown::{count, items, members, named};
use super::visit::{PageContext, RenderedPage, SubmittedForm, hex};
use crate::api::tags::MAX_RECORDS;
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use futures_util::StreamExt;
use maud::{Markup, html};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use stook_catalogue::diagnostic::known_instead;

/// Max keys that are shown.
const SHOWN_KEYS: usize = 20;
/// Transitions that are requested at the same time.
const AT_ONCE: usize = 8;

/// What is done with records.
#[derive(Clone, Copy, PartialEq)]
enum Action<'f> {
    Tag(&'f str),
    Untag(&'f str),
    Transition(&'f str),
}

impl<'f> Action<'f> {
    /// Reads what a form says, for a collection that has it.
    fn of(chosen: Option<&'f str>, tag: Option<&'f str>, collection: &Json) -> HandlerResult<Self> {
        let tag = || tag.ok_or_else(|| Problem::bad_request("write the name of a tag"));
        let names = || items(&collection["transitions"]).iter().filter_map(Json::as_str);
        match chosen {
            Some("tag") if collection["tags"] == true => Ok(Self::Tag(tag()?)),
            Some("untag") if collection["tags"] == true => Ok(Self::Untag(tag()?)),
            Some(name) if names().any(|known| Some(known) == name.strip_prefix(TRANSITION)) => Ok(Self::Transition(&name[TRANSITION.len()..])),
            _ => {
                Err(Problem::not_found(format!("choose what is done with records of {}; {}", named(collection, "name"), known_instead("", names()))))
            }
        }
    }

    /// What is done, before the number of records.
    fn text(self) -> String {
        match self {
            Self::Tag(tag) => format!("Add the tag {tag} to"),
            Self::Untag(tag) => format!("Remove the tag {tag} from"),
            Self::Transition(name) => format!("Make the transition {} of", name.replace('_', " ")),
        }
    }
}

/// How a choice of a transition begins.
const TRANSITION: &str = "transition:";

/// The collection of this name, as the overview describes it.
fn collection_of<'o>(overview: &'o Json, name: &str) -> HandlerResult<&'o Json> {
    let collections = items(&overview["collections"]);
    let known = || collections.iter().map(|known| named(known, "name"));
    let found = collections.iter().find(|known| named(known, "name") == name);
    found.ok_or_else(|| Problem::not_found(format!("there is no collection {name:?}; {}", known_instead(name, known()))))
}

/// The form on a page of results that leads to the preview; nothing for visitors who may not change the records, or if nothing can be done with them.
pub fn form(ctx: &PageContext, query: &str, overview: &Json, answer: &Json) -> Markup {
    let collection = answer["collection"].as_str().filter(|collection| ctx.may_change(collection));
    let Some(collection) = collection.and_then(|name| collection_of(overview, name).ok()) else { return html! {} };
    let (has_tags, transitions) = (collection["tags"] == true, items(&collection["transitions"]));
    html! {
        @if has_tags || !transitions.is_empty() {
            details.quiet {
                summary { "Change all that are found" }
                form.line action=(ctx.to("many", &[])) {
                    input type="hidden" name="q" value=(query);
                    label for="do" { "What" }
                    select #do name="do" {
                        @if has_tags { option value="tag" { "add a tag" } option value="untag" { "remove a tag" } }
                        @for name in transitions.iter().filter_map(Json::as_str) { option value={ (TRANSITION) (name) } { (name.replace('_', " ")) } }
                    }
                    @if has_tags { label for="tag" { "Tag" } input #tag name="tag" autocomplete="off"; }
                    button { "Preview" }
                }
            }
        }
    }
}

/// `?q=QUERY&do=tag|untag|transition:NAME&tag=`: how many records would be changed, and which.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let Some(query) = ctx.param("q") else { return Err(Problem::bad_request("give ?q=QUERY")) };
    // one more than is allowed tells whether there are too many
    let (keys_only, limit) = (format!("{query} | grep key"), (MAX_RECORDS + 1).to_string());
    let answer = ctx.get_json("/query", &[("q", &keys_only), ("limit", &limit), ("total", "true"), ("ask", "never")]).await?;
    let Some(name) = answer["collection"].as_str() else {
        return Err(Problem::bad_request("the query finds no records of one collection: leave out aggregates, or name a collection"));
    };
    ctx.require_change(name)?;
    let overview = ctx.get_json("", &[]).await?;
    let collection = collection_of(&overview, name)?;
    let action = Action::of(ctx.param("do"), ctx.param("tag"), collection)?;
    let mut keys: Vec<&str> = items(&answer["rows"]).iter().filter_map(|row| row["key"].as_str()).collect();
    // a record has several rows if a list is unfolded
    let mut seen = HashSet::new();
    keys.retain(|key| seen.insert(*key));
    if items(&answer["rows"]).len() > MAX_RECORDS {
        let total = count(answer["total"].as_u64().unwrap_or(0));
        let detail = format!(
            "the query finds {total}, and at most {} are changed at a time: add conditions, or `| limit {MAX_RECORDS}`",
            count(MAX_RECORDS as u64)
        );
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))?;
    let (mark, listed) = (hex(&mark), json!(keys).to_string());
    let (chosen, tag) = (ctx.param("do").unwrap_or_default(), ctx.param("tag").unwrap_or_default());
    let hidden = [("q", query), ("collection", name), ("do", chosen), ("tag", tag), ("mark", mark.as_str()), ("keys", listed.as_str())];
    let body = html! {
        p { (action.text()) " " strong { (count(keys.len() as u64)) } " of " (name) "." }
        p.quiet { "Found by " a href=(ctx.to("search", &[("q", query)])) { code { (query) } } }
        @if !keys.is_empty() {
            ul.chips {
                @for key in keys.iter().take(SHOWN_KEYS) { li { a href=(ctx.record(name, key)) { bdi { (key) } } } }
                @if keys.len() > SHOWN_KEYS { li.quiet { "and " (count((keys.len() - SHOWN_KEYS) as u64)) " more" } }
            }
            form.stacked method="post" action=(ctx.to("many/change", &[])) {
                (csrf(&ctx))
                @for (field, value) in hidden {
                    input type="hidden" name=(field) value=(value);
                }
                @if let Action::Transition(transition) = action {
                    @for (argument, about) in members(&collection["arguments"][transition]) { label { (argument) " " (input(argument, about)) } }
                }
                button { "Change " (count(keys.len() as u64)) }
            }
        }
    };
    Ok(RenderedPage::new("Change all that are found", body))
}

/// What became of records: how many were changed, how many were so already, and which were refused by reason.
#[derive(Default)]
struct Changed {
    done: u64,
    already: u64,
    refused: BTreeMap<String, Vec<String>>,
}

/// Changes the records of a form. Sent again, the form changes nothing more.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (name, mark) = (form.required("collection")?, form.required("mark")?);
    let keys: Vec<String> = serde_json::from_str(form.required("keys")?).map_err(|_| Problem::bad_request("keys: a list of keys as JSON"))?;
    if keys.is_empty() || keys.len() > MAX_RECORDS {
        return Err(Problem::bad_request(format!("keys: from 1 to {MAX_RECORDS} keys")));
    }
    let overview = ctx.get_json("", &[]).await?;
    let collection = collection_of(&overview, name)?;
    ctx.require_change(name)?;
    let action = Action::of(form.get("do"), form.get("tag"), collection)?;
    let changed = match action {
        Action::Tag(tag) => assign(&ctx, (name, tag), "add", &keys).await?,
        Action::Untag(tag) => assign(&ctx, (name, tag), "remove", &keys).await?,
        Action::Transition(transition) => {
            let given = arguments(&form, &collection["arguments"][transition]);
            run_transitions(&ctx, (name, transition), &keys, &Json::Object(given), mark).await?
        }
    };
    let query = form.get("q").unwrap_or(name);
    let body = html! {
        p { (action.text()) " " (count(keys.len() as u64)) " of " (name) ": " strong { (count(changed.done)) } " changed" @if changed.already > 0 { ", " (count(changed.already)) " were so already" } "." }
        @for (reason, keys) in &changed.refused {
            p.odd { (count(keys.len() as u64)) " not changed: " (reason) }
            ul.chips {
                @for key in keys.iter().take(SHOWN_KEYS) { li { a href=(ctx.record(name, key)) { bdi { (key) } } } }
                @if keys.len() > SHOWN_KEYS { li.quiet { "and " (count((keys.len() - SHOWN_KEYS) as u64)) " more" } }
            }
        }
        p { a href=(ctx.to("search", &[("q", query)])) { "Back to the search" } }
    };
    Ok(ctx.answer(Ok(RenderedPage::new("Changed", body))))
}

/// Why a record is not changed that is not there for the visitor.
fn no_such(collection: &str) -> String {
    format!("there is no such {collection}, or none that you may change")
}

/// Adds a tag to records, or removes it.
async fn assign(ctx: &PageContext, (collection, tag): (&str, &str), what: &str, keys: &[String]) -> HandlerResult<Changed> {
    let path = format!("/tags/{collection}/{}/records", crate::api::response::percent(tag));
    let answer = ctx.send(Method::POST, &path, &[], Some(&json!({ what: keys }))).await?;
    let number = |name: &str| answer[name].as_u64().unwrap_or(0);
    let unknown: Vec<String> = items(&answer["unknown"]).iter().filter_map(Json::as_str).map(str::to_owned).collect();
    let done = number("added") + number("removed");
    let already = (keys.len() as u64).saturating_sub(done + unknown.len() as u64);
    let refused = if unknown.is_empty() { BTreeMap::new() } else { BTreeMap::from([(no_such(collection), unknown)]) };
    Ok(Changed { done, already, refused })
}

/// Makes a transition of each record; each is a call of its own, with a key that is the same when the form is sent again.
async fn run_transitions(
    ctx: &PageContext,
    (collection, transition): (&str, &str),
    keys: &[String],
    arguments: &Json,
    mark: &str,
) -> HandlerResult<Changed> {
    let path = format!("/{collection}/-/{transition}");
    let mut calls = Vec::with_capacity(keys.len());
    for (position, key) in keys.iter().enumerate() {
        let (path, call) = (path.as_str(), format!("{mark}-{position}"));
        calls.push(async move { (key, ctx.send_once(path, &[("key", key.as_str())], arguments, &call).await) });
    }
    let mut changed = Changed::default();
    let mut answers = futures_util::stream::iter(calls).buffered(AT_ONCE);
    while let Some((key, answer)) = answers.next().await {
        match answer {
            Ok(_) => changed.done += 1,
            Err(problem) if problem.status == StatusCode::NOT_FOUND => changed.refused.entry(no_such(collection)).or_default().push(key.clone()),
            Err(problem) => {
                let reason = if problem.errors.len() > 1 { problem.errors.join("; ") } else { problem.detail };
                changed.refused.entry(reason).or_default().push(key.clone());
            }
        }
    }
    Ok(changed)
}
