//! The audit log of a tenant.

use super::shown::{items, moment, named, plain};
use super::visit::{PageContext, RenderedPage};
use crate::guard::problem::HandlerResult;
use maud::html;
use serde_json::Value as Json;
use std::sync::Arc;

/// Lists who changed what, newest first: `?record=COLLECTION/KEY&token=N&before=ID`.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let given: Vec<(&str, &str)> = ["record", "token", "before"].into_iter().filter_map(|name| Some((name, ctx.param(name)?))).collect();
    let log = ctx.get_json("/audit", &given).await?;
    let without_page: Vec<(&str, &str)> = given.iter().copied().filter(|(name, _)| *name != "before").collect();
    let next = plain(&log["next"]);
    let body = html! {
        form.inline method="get" action=(ctx.to("audit", &[])) {
            label for="record" { "Record " } input #record name="record" placeholder="collection/key" value=(ctx.param("record").unwrap_or_default()); " "
            label for="token" { "Token no. " } input #token name="token" inputmode="numeric" value=(ctx.param("token").unwrap_or_default()); " "
            button { "Show" }
        }
        @if items(&log["entries"]).is_empty() {
            p.quiet { "There are no such entries." }
        } @else {
            div.wide tabindex="0" {
                table {
                    thead { tr { th scope="col" { "when (UTC)" } th scope="col" { "who" } th scope="col" { "from" } th scope="col" { "what" } th scope="col" { "record" } th scope="col" { "outcome" } } }
                    tbody { @for entry in items(&log["entries"]) { (row(&ctx, entry)) } }
                }
            }
        }
        @if !next.is_empty() {
            p { a href=(ctx.to("audit", &[&without_page[..], &[("before", next.as_str())]].concat())) { "Older" } }
        }
    };
    Ok(RenderedPage::new("Audit log", body))
}

fn row(ctx: &PageContext, entry: &Json) -> maud::Markup {
    let (collection, key) = (named(entry, "collection"), named(entry, "key"));
    html! {
        tr {
            td { (moment(&entry["at"])) }
            td { bdi { (named(entry, "caller")) } @if !entry["token"].is_null() { " " span.quiet { "no. " (plain(&entry["token"])) } } }
            td { (named(entry, "address")) }
            td { bdi { (named(entry, "operation")) } }
            td { @if !key.is_empty() { a href=(ctx.record(collection, key)) { bdi { (collection) "/" (key) } } } }
            td { (named(entry, "outcome")) }
        }
    }
}
