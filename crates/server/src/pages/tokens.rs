//! Tokens of a tenant.

use super::layout::{confirmed, csrf, document, html as page_of};
use super::shown::{items, moment, named, plain};
use super::visit::{PageContext, RenderedPage, SubmittedForm, hex, parse_number};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Map, Value as Json};
use std::sync::Arc;

/// Lists the tenant's tokens.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let tokens = ctx.get_json("/tokens", &[]).await?;
    let body = html! {
        @if items(&tokens["tokens"]).is_empty() {
            p.quiet { "There is no token yet, so anyone on this machine has full access. Create an admin token to end this." }
        } @else {
            div.wide tabindex="0" {
                table {
                    thead { tr { th scope="col" { "name" } th scope="col" { "may" } th scope="col" { "made (UTC)" } th scope="col" { "last used" } th scope="col" { "expires" } th scope="col" { "change" } } }
                    tbody {
                        @for token in items(&tokens["tokens"]) {
                            tr {
                                th scope="row" { bdi { (named(token, "name")) } " " span.quiet { "no. " (plain(&token["id"])) } }
                                td { (plain_list(&token["may"])) }
                                td { (moment(&token["created"])) }
                                td { (moment_or(&token["used"], "never")) }
                                td { (moment_or(&token["expires"], "never")) }
                                td { (rotate(&ctx, token)?) (revoke(&ctx, token)) }
                            }
                        }
                    }
                }
            }
        }
        form.stacked method="post" action=(ctx.to("tokens/change", &[])) {
            h2 { "New token" }
            (csrf(&ctx)) input type="hidden" name="once" value=(one_time_mark()?);
            label for="name" { "Name" } input #name name="name" maxlength="100" required;
            label for="role" { "May" }
            select #role name="role" {
                option value="read" { "read" } option value="write" { "also write and import" } option value="admin" { "do everything" }
            }
            label for="rights" { "or only" }
            input #rights name="may" maxlength="1000" placeholder="read:book,import:loan" aria-describedby="rights-help";
            p.quiet #rights-help { "read, import or write for single collections, with commas between them; it replaces the choice above" }
            label for="expires" { "Expires" } (expiry_choice("expires", "never"))
            button { "Create" }
        }
    };
    Ok(RenderedPage::new("Tokens", body))
}

fn plain_list(list: &Json) -> String {
    items(list).iter().map(plain).collect::<Vec<_>>().join(", ")
}

/// Shows a time, or a word if there is none.
fn moment_or(time: &Json, word: &str) -> Markup {
    html! { @if time.is_null() { span.quiet { (word) } } @else { (moment(time)) } }
}

/// Offers times after which a token expires; the first choice has this name.
fn expiry_choice(id: &str, unchanged: &str) -> Markup {
    html! {
        select id=(id) name="expires" {
            option value="" { (unchanged) } option value="30d" { "in 30 days" } option value="90d" { "in 90 days" } option value="365d" { "in a year" }
        }
    }
}

fn label_of(token: &Json) -> String {
    if named(token, "name").is_empty() { format!("no. {}", plain(&token["id"])) } else { named(token, "name").to_owned() }
}

/// Offers to give a token a new secret.
fn rotate(ctx: &PageContext, token: &Json) -> HandlerResult<Markup> {
    let (id, label) = (plain(&token["id"]), label_of(token));
    let (overlap_id, expiry_id) = (format!("overlap-{id}"), format!("expires-{id}"));
    let fields = html! {
        (csrf(ctx)) input type="hidden" name="once" value=(one_time_mark()?); input type="hidden" name="rotate" value=(id);
        label for=(overlap_id) { "The old secret works" }
        select id=(overlap_id) name="overlap" { option value="1h" { "for an hour" } option value="7d" { "for 7 days" } option value="0s" { "no longer" } }
        label for=(expiry_id) { "Expires" } (expiry_choice(&expiry_id, "as before"))
    };
    Ok(confirmed("rotate", &label, &ctx.to("tokens/change", &[]), &fields))
}

fn revoke(ctx: &PageContext, token: &Json) -> Markup {
    let (id, token_label) = (plain(&token["id"]), label_of(token));
    confirmed("revoke", &token_label, &ctx.to("tokens/change", &[]), &html! { (csrf(ctx)) input type="hidden" name="revoke" value=(id); })
}

/// Makes a mark by which a form that is submitted twice is recognised.
fn one_time_mark() -> HandlerResult<String> {
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))?;
    Ok(hex(&mark))
}

/// Makes or rotates a token, whose secret is shown only once, or revokes one.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    if let Some(id) = form.get("revoke") {
        let id = parse_number(Some(id), "a token")?;
        ctx.send(Method::DELETE, &format!("/tokens/{id}"), &[], None).await?;
        return Ok(Redirect::to(&ctx.to("tokens", &[])).into_response());
    }
    let expires = form.get("expires").map(|time| ("expires", time.to_owned()));
    let (path, members) = match form.get("rotate") {
        Some(id) => (format!("/tokens/{}/rotate", parse_number(Some(id), "a token")?), vec![("overlap", form.required("overlap")?.to_owned())]),
        None => ("/tokens".into(), vec![("name", form.required("name")?.to_owned())]),
    };
    let mut request: Map<String, Json> = members.into_iter().chain(expires).map(|(name, value)| (name.to_owned(), value.into())).collect();
    match form.get("may") {
        _ if form.get("rotate").is_some() => {}
        Some(rights) => drop(request.insert("may".into(), vec![rights].into())),
        None => drop(request.insert("role".into(), form.required("role")?.into())),
    }
    if !ctx.is_first(form.required("once")?) {
        let detail = "this form was submitted already and the token was shown then; if you did not see it, revoke it and create another";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let created = ctx.send(Method::POST, &path, &[], Some(&Json::Object(request))).await?;
    let body = html! {
        main.narrow {
            h1 { "A new token" }
            p { "This is the only time it is shown. Its name is " bdi { (named(&created, "name")) } "; it may: " (plain_list(&created["may"])) "." }
            pre.secret { (named(&created, "token")) }
            p { a href=(ctx.to("tokens", &[])) { "Back to tokens" } }
        }
    };
    Ok(page_of(StatusCode::CREATED, document("A new token", &body)))
}
