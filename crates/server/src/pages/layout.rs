//! The frame of web pages.

use super::visit::PageContext;
use crate::guard::problem::Problem;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use stook_store::access::Role;

/// The content security policy: nothing is loaded or run except what this server sends.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// Makes a response of HTML.
pub fn html(status: StatusCode, page: Markup) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, page.into_string()).into_response()
}

/// A complete HTML document.
pub fn document(title: &str, body: &Markup) -> Markup {
    let version = env!("CARGO_PKG_VERSION");
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="htmx-config" content=r#"{"includeIndicatorStyles":false,"allowEval":false,"allowScriptTags":false,"selfRequestsOnly":true}"#;
                title { (title) }
                link rel="icon" href="data:,";
                link rel="stylesheet" href={ "/assets/stook.css?" (version) };
                script defer src="/assets/htmx-2.0.11.min.js" {}
                script defer src={ "/assets/stook.js?" (version) } {}
            }
            body { (body) }
        }
    }
}

/// A page with navigation and footer.
pub fn frame(visit: &PageContext, title: &str, body: &Markup) -> Markup {
    let here = match visit.path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default() {
        "record" | "facets" => "search",
        "job" | "document" => "import",
        here => here,
    };
    let tab = |name: &str, label: &str| {
        html! { a href=(visit.to(name, &[])) aria-current=[(here == name).then_some("page")] { (label) } }
    };
    let json = match visit.path.split_once('?') {
        Some((path, query)) => format!("{path}.json?{query}"),
        None => format!("{}.json", visit.path),
    };
    let whole = html! {
        a.skip href="#main" { "Skip to content" }
        header {
            nav aria-label="Pages" {
                a.brand href=(visit.to("home", &[])) { (visit.catalogue()) @if visit.tenant != "main" { small { " " (visit.tenant) } } }
                (tab("search", "Search"))
                @if visit.measures_coverage() { (tab("coverage", "Coverage")) }
                (tab("import", "Imports"))
                @if visit.has_tags() { (tab("tags", "Tags")) }
                @if visit.may(Role::Admin) && visit.has_runs() { (tab("lab", "Lab")) }
                @if visit.may(Role::Admin) { (tab("metrics", "Metrics")) (tab("tokens", "Tokens")) }
                a href="/docs" { "Documentation" }
            }
            @if visit.is_signed_in() {
                form.inline method="post" action="/sign-out" {
                    (csrf(visit)) span.quiet { @if !visit.caller.name.is_empty() { bdi { (visit.caller.name) } ", " } (visit.caller.role.name()) } " "
                    button.quiet { "Sign out" }
                }
            }
        }
        main #main { h1 { (title) } (body) }
        footer { @if visit.is_read() { a href=(json) { "This page as JSON" } " · " } "Stook " (env!("CARGO_PKG_VERSION")) }
    };
    document(&format!("{title} · {}", visit.catalogue()), &whole)
}

/// The hidden field that protects a form against cross-site requests.
pub fn csrf(visit: &PageContext) -> Markup {
    html! { input type="hidden" name="csrf" value=(visit.csrf()); }
}

/// A button for a change that cannot be undone, which must be confirmed. `whom` names its object for screen readers.
pub fn confirmed(what: &str, whom: &str, action: &str, fields: &Markup) -> Markup {
    html! {
        details.sure {
            summary { (what) span.unseen { " " (whom) } }
            form method="post" action=(action) { (fields) button aria-label={ "yes, " (what) " " (whom) } { "yes, " (what) } }
        }
    }
}

/// Shows a problem.
pub fn trouble(problem: &Problem) -> Markup {
    let shown = problem.members.iter().find(|(name, _)| name == "shown").and_then(|(_, shown)| shown.as_str());
    html! {
        div.problem role="alert" {
            @match shown {
                Some(shown) => pre tabindex="0" { (shown) },
                None => p { (problem.detail) },
            }
            @if problem.errors.len() > 1 { ul { @for error in &problem.errors { li { (error) } } } }
        }
    }
}

/// A page with a problem, for requests without a known visitor.
pub fn bare(problem: &Problem) -> Response {
    let body = html! { main.narrow { h1 { "Something went wrong" } (trouble(problem)) p { a href="/" { "Back to the home page" } } } };
    html(problem.status, document("Something went wrong", &body))
}
