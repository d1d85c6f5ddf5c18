//! Tokens of a tenant.

use super::layout::{confirmed, csrf, document, html as page_of};
use super::shown::{items, moment, named, plain};
use super::visit::{PageContext, RenderedPage, SubmittedForm, hex, parse_number};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value as Json, json};
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
                    thead { tr { th scope="col" { "name" } th scope="col" { "role" } th scope="col" { "made (UTC)" } th scope="col" { "change" } } }
                    tbody {
                        @for token in items(&tokens["tokens"]) {
                            tr {
                                th scope="row" { bdi { (named(token, "name")) } " " span.quiet { "no. " (plain(&token["id"])) } }
                                td { (named(token, "role")) }
                                td { (moment(&token["created"])) }
                                td { (revoke(&ctx, token)) }
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
            button { "Create" }
        }
    };
    Ok(RenderedPage::new("Tokens", body))
}

fn revoke(ctx: &PageContext, token: &Json) -> Markup {
    let id = plain(&token["id"]);
    let token_label = if named(token, "name").is_empty() { format!("no. {id}") } else { named(token, "name").to_owned() };
    confirmed("revoke", &token_label, &ctx.to("tokens/change", &[]), &html! { (csrf(ctx)) input type="hidden" name="revoke" value=(id); })
}

/// Makes a mark by which a form that is submitted twice is recognised.
fn one_time_mark() -> HandlerResult<String> {
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))?;
    Ok(hex(&mark))
}

/// Makes a token, which is shown only once, or revokes one.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    if let Some(id) = form.get("revoke") {
        let id = parse_number(Some(id), "a token")?;
        ctx.send(Method::DELETE, &format!("/tokens/{id}"), &[], None).await?;
        return Ok(Redirect::to(&ctx.to("tokens", &[])).into_response());
    }
    let request = json!({ "name": form.required("name")?, "role": form.required("role")? });
    if !ctx.is_first(form.required("once")?) {
        let detail = "this form was submitted already and the token was shown then; if you did not see it, revoke it and create another";
        return Err(Problem::new(StatusCode::CONFLICT, detail));
    }
    let created = ctx.send(Method::POST, "/tokens", &[], Some(&request)).await?;
    let body = html! {
        main.narrow {
            h1 { "A new token" }
            p { "This is the only time it is shown. Its name is " bdi { (named(&created, "name")) } "; its role allows: " (named(&created, "role")) "." }
            pre.secret { (named(&created, "token")) }
            p { a href=(ctx.to("tokens", &[])) { "Back to tokens" } }
        }
    };
    Ok(page_of(StatusCode::CREATED, document("A new token", &body)))
}
