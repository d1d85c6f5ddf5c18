//! Tokens of a tenant.

use super::layout::{confirmed, csrf, document, html as page_of};
use super::shown::{items, moment, named, plain};
use super::visit::{PageContext, RenderedPage, SubmittedForm, hex, number_of};
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Lists the tenant's tokens.
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let tokens = visit.ask("/tokens", &[]).await?;
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
                                td { (revoke(&visit, token)) }
                            }
                        }
                    }
                }
            }
        }
        form.stacked method="post" action=(visit.to("tokens/change", &[])) {
            h2 { "New token" }
            (csrf(&visit)) input type="hidden" name="once" value=(once()?);
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

fn revoke(visit: &PageContext, token: &Json) -> Markup {
    let id = plain(&token["id"]);
    let whom = if named(token, "name").is_empty() { format!("no. {id}") } else { named(token, "name").to_owned() };
    confirmed("revoke", &whom, &visit.to("tokens/change", &[]), &html! { (csrf(visit)) input type="hidden" name="revoke" value=(id); })
}

/// Makes a mark by which a form that is submitted twice is recognised.
fn once() -> HandlerResult<String> {
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(|error| Problem::unavailable(format!("the system's random number generator failed: {error}")))?;
    Ok(hex(&mark))
}

/// Makes a token, which is shown only once, or revokes one.
pub async fn change(visit: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    if let Some(id) = form.get("revoke") {
        let id = number_of(Some(id), "a token")?;
        visit.send(Method::DELETE, &format!("/tokens/{id}"), &[], None).await?;
        return Ok(Redirect::to(&visit.to("tokens", &[])).into_response());
    }
    let wish = json!({ "name": form.need("name")?, "role": form.need("role")? });
    if !visit.is_first(form.need("once")?) {
        let twice = "this form was submitted already and the token was shown then; if you did not see it, revoke it and create another";
        return Err(Problem::new(StatusCode::CONFLICT, twice));
    }
    let made = visit.send(Method::POST, "/tokens", &[], Some(&wish)).await?;
    let body = html! {
        main.narrow {
            h1 { "A new token" }
            p { "This is the only time it is shown. Its name is " bdi { (named(&made, "name")) } "; its role allows: " (named(&made, "role")) "." }
            pre.secret { (named(&made, "token")) }
            p { a href=(visit.to("tokens", &[])) { "Back to tokens" } }
        }
    };
    Ok(page_of(StatusCode::CREATED, document("A new token", &body)))
}
