//! How sources are doing, as a table.

use crate::pages::shown::{count, items, moment, named, state, text};
use crate::pages::visit::PageContext;
use maud::{Markup, html};
use serde_json::Value as Json;

/// Sources with the end of their last job and their last success.
pub(super) fn table(ctx: &PageContext, answer: &Json) -> Markup {
    let none = if answer["whole"] == true { "nothing was imported yet" } else { "nothing was imported lately" };
    html! {
        div.wide tabindex="0" {
            table {
                thead {
                    tr {
                        th scope="col" { "source" } th scope="col" { "last job" } th scope="col" { "last success (UTC)" }
                        th.number scope="col" { "failed documents" }
                    }
                }
                tbody { @for source in items(&answer["sources"]) { (row(ctx, source, none)) } }
            }
        }
    }
}

fn row(ctx: &PageContext, source: &Json, none: &str) -> Markup {
    let unfinished = source["unfinished"].as_u64().unwrap_or(0);
    html! {
        tr {
            th scope="row" { (named(source, "source")) }
            td {
                @if source["last_job"].is_null() { span.quiet { (none) } } @else {
                    a href=(ctx.to("job", &[("id", &source["last_job"].to_string())])) { "job " (source["last_job"]) } " " (state(named(source, "state")))
                    @if let Some(failure) = source["failure"].as_str() { " " (text(failure)) }
                }
                @match unfinished {
                    0 => {},
                    1 => span.quiet { " · a job is unfinished" },
                    more => span.quiet { " · " (count(more)) " jobs are unfinished" },
                }
            }
            td {
                @match source["age"].as_u64() {
                    Some(age) => { (moment(&source["last_success"])) " " span.quiet { "(" (age_text(age)) ")" } },
                    None if source["last_job"].is_null() => {},
                    None => "none known",
                }
            }
            td.number { @if let Some(failed) = source["failed_documents"].as_u64() { (count(failed)) } }
        }
    }
}

/// An age in words. They are coarse, so that the page, which is replaced when it has changed, changes seldom.
fn age_text(seconds: u64) -> String {
    const HOUR: u64 = 60 * 60;
    const DAY: u64 = 24 * HOUR;
    let (number, unit) = match seconds {
        ..HOUR => return "within the last hour".to_owned(),
        HOUR..DAY => (seconds / HOUR, "hour"),
        DAY.. => (seconds / DAY, "day"),
    };
    format!("{} {unit}{} ago", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_words() {
        let cases = [
            (0, "within the last hour"),
            (3_599, "within the last hour"),
            (3_600, "1 hour ago"),
            (86_399, "23 hours ago"),
            (86_400, "1 day ago"),
            (86_400 * 1_234, "1\u{202f}234 days ago"),
        ];
        for (seconds, words) in cases {
            assert_eq!(age_text(seconds), words);
        }
    }
}
