//! The navigation around a page: the list of all pages, the headings of this one, the pages before and after it, and the search form.

use crate::VERSION;
use crate::search::Found;
use crate::tree::{Address, Docs, Kind, Page};
use maud::{Markup, PreEscaped, html};

/// The path of search results on a server.
pub const SEARCH: &str = "search";

/// What a server adds to the documentation.
#[derive(Debug, Clone, Default)]
pub struct Surroundings<'a> {
    /// A link back to the server, with its text.
    pub home: Option<(&'a str, &'a str)>,
    /// A page about the served catalogue.
    pub own: Option<OwnPage<'a>>,
}

/// A page that a server adds to the documentation.
#[derive(Debug, Clone, Copy)]
pub struct OwnPage<'a> {
    /// Its path.
    pub path: &'a str,
    /// Its title.
    pub title: &'a str,
    /// What it is for.
    pub purpose: &'a str,
}

/// Makes the body of a page. `path` is its path (`""` for the first page), `main` its content.
#[must_use]
pub fn body(docs: &Docs, around: &Surroundings, path: &str, search_text: &str, main: &Markup) -> Markup {
    html! {
        a.skip href="#main" { "Skip to content" }
        header {
            nav aria-label="Pages" {
                a.brand href=(docs.address().page(path, "")) { "Stook documentation " small { (VERSION) } }
                @if let Some((href, label)) = around.home { a href=(href) { (label) } }
            }
            @if docs.address() == Address::Server { (form(search_text, "search-all")) }
        }
        div.docs {
            nav.tree tabindex="0" aria-label="Documentation" {
                details {
                    summary { "All pages" }
                    @for kind in Kind::ALL { (pages_of(docs, around, kind, path)) }
                }
            }
            main #main { (main) }
        }
        footer { "Stook " (VERSION) }
    }
}

/// Makes the search form; its id distinguishes it from another one on the same page.
fn form(search_text: &str, id: &str) -> Markup {
    html! {
        form.inline role="search" action={ "/docs/" (SEARCH) } {
            label.unseen for=(id) { "Search the documentation" }
            input id=(id) type="search" name="q" value=(search_text) placeholder="Search the documentation" maxlength="300";
            button { "Search" }
        }
    }
}

/// Lists the pages of a kind; pages of a folder that has a page of its own are shown only within that folder.
fn pages_of(docs: &Docs, around: &Surroundings, kind: Kind, path: &str) -> Markup {
    let folder = path.split_once('/').map_or(path, |(folder, _)| folder);
    let entry = |to: &str, title: &str| html! { a href=(docs.address().page(path, to)) aria-current=[(to == path).then_some("page")] { (title) } };
    html! {
        p.group aria-hidden="true" { (kind.name()) }
        ul aria-label=(kind.name()) {
            @if let Some(child) = around.own.filter(|_| kind == Kind::Reference) { li { (entry(child.path, child.title)) } }
            @for page in docs.pages().iter().filter(|page| page.kind == kind && page.parent(docs).is_none()) {
                li {
                    (entry(&page.path, &page.title))
                    @if page.path == folder && docs.pages_in(folder).next().is_some() {
                        ul { @for child in docs.pages_in(folder) { li { (entry(&child.path, &child.title)) } } }
                    }
                }
            }
        }
    }
}

/// Makes the content of a page, with its headings and neighbours.
#[must_use]
pub fn page(docs: &Docs, page: &Page) -> Markup {
    let link = |to: &Page| docs.address().page(&page.path, &to.path);
    let (before, after) = docs.neighbours(&page.path);
    let sections: Vec<_> = page.headings.iter().filter(|heading| matches!(heading.level, 2 | 3)).collect();
    html! {
        article {
            p.quiet.kind {
                (page.kind.name())
                @if let Some(parent) = page.parent(docs) { " › " a href=(link(parent)) { (parent.title) } }
            }
            h1 id=[page.anchors.first()] { (page.title) }
            @if sections.len() > 1 {
                nav.headings tabindex="0" aria-label="On this page" {
                    details {
                        summary { "On this page" }
                        p.group aria-hidden="true" { "On this page" }
                        ul { @for heading in sections { li.deeper[heading.level > 2] { a href={ "#" (heading.anchor) } { (heading.text) } } } }
                    }
                }
            }
            div.text { (PreEscaped(&page.html)) }
            nav.neighbours aria-label="Pages before and after" {
                @if let Some(before) = before { a rel="prev" href=(link(before)) { small { "Previous" } br; (before.title) } }
                @if let Some(after) = after { a rel="next" href=(link(after)) { small { "Next" } br; (after.title) } }
            }
        }
    }
}

/// Makes the first page: all kinds with their pages.
#[must_use]
pub fn start(docs: &Docs, around: &Surroundings) -> Markup {
    html! {
        article.start {
            h1 { "Documentation" }
            p { "Of Stook " (VERSION) @if around.home.is_some() { ", the version that runs here" } "." }
            @if let Some(own) = around.own {
                section.card { h2 { a href=(docs.address().page("", own.path)) { (own.title) } } p { (own.purpose) } }
            }
            @for kind in Kind::ALL {
                section.card {
                    h2 { (kind.name()) }
                    p.quiet { (kind.purpose()) }
                    ul {
                        @for page in docs.pages().iter().filter(|page| page.kind == kind && page.parent(docs).is_none()) {
                            li { a href=(docs.address().page("", &page.path)) { (page.title) } @if !page.summary.is_empty() { " " span.quiet { (page.summary) } } }
                        }
                    }
                }
            }
        }
    }
}

/// Makes the page with search results, or advice if there are none.
#[must_use]
pub fn results(docs: &Docs, search_text: &str, found: &Found) -> Markup {
    html! {
        article {
            h1 { "Search the documentation" }
            @if search_text.trim().is_empty() {
                p { "Write words into the field above. Each finds all words that begin with it; capital letters make no difference." }
            } @else if found.hits.is_empty() {
                p role="status" { "Nothing has a word that begins like " strong { (search_text) } "." }
                p {
                    "Try fewer letters or another word: the " a href=(docs.address().page(SEARCH, "glossary")) { "glossary" }
                    " has the words that the documentation uses. " a href=(docs.address().page(SEARCH, "")) { "All pages" } "."
                }
            } @else {
                p role="status" {
                    @if found.all_words { (found.hits.len()) (if found.hits.len() == 1 { " section has " } else { " sections have " }) "all of " }
                    @else { "No section has all of these words; these have some of " }
                    strong { (search_text) } ":"
                }
                ol.found {
                    @for hit in &found.hits {
                        li {
                            h2 { a href={ (docs.address().page(SEARCH, &hit.page.path)) "#" (hit.anchor) } { (pieces(&hit.title)) } }
                            p.quiet.kind { (hit.page.kind.name()) @if hit.page.anchors.first().is_some_and(|first| first != hit.anchor) { " › " (hit.page.title) } @if let Some(under) = hit.under { " › " (under) } }
                            @if !hit.text.is_empty() { p { (pieces(&hit.text)) } }
                        }
                    }
                }
            }
        }
    }
}

/// Makes the page for a path that does not exist.
#[must_use]
pub fn missing(docs: &Docs, path: &str) -> Markup {
    let similar = docs.similar(path);
    html! {
        article {
            h1 { "Page not found" }
            p { "The documentation of Stook " (VERSION) " has no page " code { (path) } "." }
            @if similar.is_empty() {
                p { a href=(docs.address().page(path, "")) { "All pages" } }
            } @else {
                p { "Did you mean one of these?" }
                ul { @for page in similar { li { a href=(docs.address().page(path, &page.path)) { (page.title) } } } }
                p { "Or look at " a href=(docs.address().page(path, "")) { "all pages" } "." }
            }
        }
    }
}

/// Shows a text in pieces, some of them marked.
fn pieces(pieces: &[(&str, bool)]) -> Markup {
    html! { @for (text, marked) in pieces { @if *marked { mark { (text) } } @else { (text) } } }
}
