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
pub fn frame(ctx: &PageContext, title: &str, body: &Markup) -> Markup {
    let current_page = match ctx.path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default() {
        "record" | "edit" | "facets" => "search",
        "job" | "document" => "import",
        current_page => current_page,
    };
    let tab = |name: &str, label: &str| {
        html! { a href=(ctx.to(name, &[])) aria-current=[(current_page == name).then_some("page")] { (label) } }
    };
    let json = match ctx.path.split_once('?') {
        Some((path, query)) => format!("{path}.json?{query}"),
        None => format!("{}.json", ctx.path),
    };
    let whole = html! {
        a.skip href="#main" { "Skip to content" }
        header {
            nav aria-label="Pages" {
                a.brand href=(ctx.to("home", &[])) { (ctx.catalogue()) @if ctx.tenant != "main" { small { " " (ctx.tenant) } } }
                (tab("search", "Search"))
                @if ctx.measures_coverage() { (tab("coverage", "Coverage")) }
                (tab("import", "Imports"))
                @if ctx.has_tags() { (tab("tags", "Tags")) }
                @if ctx.may(Role::Admin) && ctx.has_runs() { (tab("lab", "Lab")) }
                @if ctx.may(Role::Admin) { (tab("metrics", "Metrics")) (tab("tokens", "Tokens")) (tab("audit", "Audit log")) }
                a href="/docs" { "Documentation" }
            }
            @if ctx.is_proxied() {
                span.quiet { bdi { (ctx.caller.name) } ", " (ctx.caller.rights) }
            } @else if ctx.is_signed_in() {
                form.inline method="post" action="/sign-out" {
                    (csrf(ctx)) span.quiet { @if !ctx.caller.name.is_empty() { bdi { (ctx.caller.name) } ", " } (ctx.caller.rights) } " "
                    button.quiet { "Sign out" }
                }
            }
        }
        main #main { h1 { (title) } (body) }
        footer { @if ctx.is_read() { a href=(json) { "This page as JSON" } " · " } "Stook " (env!("CARGO_PKG_VERSION")) }
    };
    document(&format!("{title} · {}", ctx.catalogue()), &whole)
}

/// The hidden field that protects a form against cross-site requests.
pub fn csrf(ctx: &PageContext) -> Markup {
    html! { input type="hidden" name="csrf" value=(ctx.csrf()); }
}

/// A button for a change that cannot be undone, which must be confirmed. `whom` names its object for screen readers.
pub fn confirmed(action_name: &str, object: &str, action: &str, fields: &Markup) -> Markup {
    html! {
        details.sure {
            summary { (action_name) span.unseen { " " (object) } }
            form method="post" action=(action) { (fields) button aria-label={ "yes, " (action_name) " " (object) } { "yes, " (action_name) } }
        }
    }
}

/// Shows a problem.
pub fn problem_box(problem: &Problem) -> Markup {
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
    let body = html! { main.narrow { h1 { "Something went wrong" } (problem_box(problem)) p { a href="/" { "Back to the home page" } } } };
    html(problem.status, document("Something went wrong", &body))
}
