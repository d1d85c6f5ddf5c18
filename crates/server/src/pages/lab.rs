//! Lab runs with their tables and pictures, and comparisons of two.

use super::shown::{count, items, moment, named, plain};
use super::visit::{PageContext, RenderedPage};
use crate::api::response::percent;
use crate::guard::problem::HandlerResult;
use maud::{Markup, PreEscaped, html};
use serde_json::Value as Json;
use std::sync::Arc;

/// `?run=NAME&beside=NAME`
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let runs = ctx.get_json("/lab", &[]).await?;
    let Some(name) = ctx.param("run") else {
        return Ok(RenderedPage::new("Lab", list(&ctx, &runs, None)));
    };
    let path = format!("/lab/{}/report", percent(name));
    Ok(match ctx.param("beside") {
        None => {
            let report = ctx.get_json(&path, &[]).await?;
            RenderedPage::new(name, html! { (sections(&report)) details { summary { "Compare with another run" } (list(&ctx, &runs, Some(name))) } })
        }
        Some(other) => {
            let report = ctx.get_json(&path, &[("beside", other)]).await?;
            let alone = |name: &str| html! { a href=(ctx.to("lab", &[("run", name)])) { (name) } };
            RenderedPage::new(format!("{name} and {other}"), html! { p.quiet { (alone(name)) " · " (alone(other)) } (sections(&report)) })
        }
    })
}

/// All runs; each links to its report, or to its comparison with `other`.
fn list(ctx: &PageContext, runs: &Json, other: Option<&str>) -> Markup {
    let to = |name: &str| match other {
        Some(other) => ctx.to("lab", &[("run", other), ("beside", name)]),
        None => ctx.to("lab", &[("run", name)]),
    };
    html! {
        @if items(&runs["runs"]).is_empty() { p.quiet { "No runs yet. Make one with " code { "stook lab load … -o DIR/NAME.json" } "." } }
        @else {
            table {
                thead { tr { th scope="col" { "run" } th scope="col" { "written (UTC)" } th.number scope="col" { "bytes" } } }
                tbody {
                    @for run in items(&runs["runs"]).iter().filter(|run| Some(named(run, "name")) != other) {
                        tr {
                            th scope="row" { a href=(to(named(run, "name"))) { (named(run, "name")) } }
                            td { (moment(&run["written"])) } td.number { (count(run["bytes"].as_u64().unwrap_or(0))) }
                        }
                    }
                }
            }
        }
    }
}

fn sections(report: &Json) -> Markup {
    html! {
        @for section in items(&report["sections"]) {
            section {
                @if !named(section, "title").is_empty() { h2 { (named(section, "title")) } }
                @for words in items(&section["words"]) { p { (plain(words)) } }
                @if section["table"].is_object() { (table(&section["table"])) }
                // drawn by this program from numbers; it escapes names
                @if let Some(picture) = section["picture"].as_str() { div.picture { (PreEscaped(picture)) } }
            }
        }
    }
}

/// A table whose first columns are names and the others numbers.
fn table(table: &Json) -> Markup {
    let kind = |index: usize| (index as u64 >= table["names"].as_u64().unwrap_or(0)).then_some("number");
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { @for (index, heading) in items(&table["headings"]).iter().enumerate() { th scope="col" class=[kind(index)] { (plain(heading)) } } } }
                tbody { @for row in items(&table["rows"]) { tr { @for (index, cell) in items(row).iter().enumerate() { td class=[kind(index)] { (plain(cell)) } } } } }
            }
        }
    }
}
