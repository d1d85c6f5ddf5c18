//! The documentation as pages: no file is missing, every link has a destination, and search finds pages.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use stook_docs::{Address, Docs, Kind};

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown(&path, found);
        } else if path.extension().is_some_and(|own| own == "md") {
            found.push(path);
        }
    }
}

#[test]
fn every_file_is_a_page_of_its_kind() {
    let (docs, root) = (Docs::new(Address::Server), Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    let mut files = Vec::new();
    markdown(&root.join("docs"), &mut files);
    assert!(files.len() > 50, "{files:?}");
    for file in &files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap();
        assert!(docs.pages().iter().any(|page| page.file == name), "{name} is no page");
    }
    assert_eq!(docs.pages().iter().filter(|page| page.file.starts_with("docs/")).count(), files.len());
    let kind = |path: &str| docs.page(path).unwrap().kind;
    assert_eq!([kind("tutorial"), kind("howto/tag-records"), kind("query"), kind("decisions")], Kind::ALL);
    assert!(docs.pages().is_sorted_by_key(|page| page.kind));
    for own in ["search", "operations", ""] {
        assert!(docs.page(own).is_none(), "the server has a page of its own at {own:?}");
    }
}

#[test]
fn every_link_and_anchor_leads_somewhere() {
    for address in [Address::Server, Address::Folder] {
        assert_eq!(Docs::new(address).broken_links(), [""; 0]);
    }
    let (server, folder) = (Docs::new(Address::Server), Docs::new(Address::Folder));
    let (served, written) = (&server.page("howto/use-postgresql").unwrap().html, &folder.page("howto/use-postgresql").unwrap().html);
    assert!(served.contains("href=\"/docs/scaling\"") && written.contains("href=\"../scaling.html\""), "{written}");
    assert!(server.page("measurements/tags").unwrap().html.contains("src=\"/docs/measurements/tags-100k-0.svg\""));
    assert!(folder.page("measurements/tags").unwrap().html.contains("src=\"../measurements/tags-100k-0.svg\""));
}

#[test]
fn pages_have_titles_headings_in_order_and_unique_anchors() {
    for page in Docs::new(Address::Server).pages() {
        let levels: Vec<u8> = page.headings.iter().map(|heading| heading.level).collect();
        assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{} has one title: {levels:?}", page.file);
        assert_eq!(levels[0], 1, "{}", page.file);
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{} leaves out a level of headings: {levels:?}", page.file);
        let mut seen = HashSet::new();
        for (place, anchor) in page.anchors.iter().enumerate() {
            assert!(seen.insert(anchor) && !anchor.is_empty(), "{}: #{anchor}", page.file);
            assert_eq!(usize::from(place == 0) + page.html.matches(&format!("id=\"{anchor}\"")).count(), 1, "{}: #{anchor}", page.file);
        }
    }
}

#[test]
fn nothing_of_a_file_is_taken_over_as_html() {
    for page in Docs::new(Address::Server).pages() {
        assert!(!page.html.contains("<!--") && !page.html.contains("<script") && !page.html.contains("&lt;!--"), "{}", page.file);
    }
}

#[test]
fn terms_of_the_glossary_have_anchors() {
    let docs = Docs::new(Address::Server);
    let glossary = docs.page("glossary").unwrap();
    assert!(glossary.html.contains("<dt id=\"contribution\">contribution</dt>\n<dd>what one contributor says"), "{}", glossary.html);
    assert!(glossary.anchors.contains(&"as-of-time".to_owned()));
}

#[test]
fn words_find_sections() {
    let docs = Docs::new(Address::Server);
    let first = |text: &str| docs.search(text).hits.first().map(|hit| format!("{}#{}", hit.page.path, hit.anchor)).unwrap_or_default();
    assert_eq!(first("golden value"), "glossary#golden-value");
    assert_eq!(first("AGGREGATES"), "query#aggregates");
    let sort = docs.search("sort stage");
    assert!(sort.hits.iter().any(|hit| (hit.anchor, hit.under) == ("sort", Some("Stages"))), "{sort:?}");
    assert_eq!(first("idempotency keys"), "howto/edit-and-lock#transitions-and-idempotency-keys");
    assert!(first("postgres").starts_with("howto/use-postgresql#"), "{}", first("postgres"));
    assert!(first("resume import").starts_with("howto/import-big-files#"), "{}", first("resume import"));
    let found = docs.search("survivorship prefer");
    assert!(found.all_words && found.hits.iter().all(|hit| hit.text.len() + hit.title.len() > 1), "{found:?}");
    let marked = |hit: &stook_docs::Hit| hit.title.iter().chain(&hit.text).any(|(text, marked)| *marked && text.to_lowercase().starts_with("surv"));
    assert!(docs.search("surv").hits.iter().all(marked));
    let some = docs.search("survivorship xyzzy");
    assert!(!some.all_words && !some.hits.is_empty());
    for text in ["", "  ", "xyzzy", "<>'\"&", "\u{0}"] {
        assert!(docs.search(text).hits.is_empty(), "{text:?}");
    }
    // long or odd texts must only not fail
    for odd in ["ä".repeat(500), "a b c d e f g h i j k l m n o p".repeat(99), "%00 ..".into(), "𝔘𝔫𝔦 ©".repeat(70)] {
        assert!(docs.search(&odd).hits.len() + docs.similar(&odd).len() < 50);
    }
}

#[test]
fn a_path_that_does_not_exist_leads_to_similar_pages() {
    let docs = Docs::new(Address::Server);
    let similar = |path: &str| docs.similar(path).first().map(|page| page.path.clone()).unwrap_or_default();
    assert_eq!(similar("howto/import-big-file"), "howto/import-big-files");
    assert_eq!(similar("querys"), "query");
    assert_eq!(similar("tags"), "measurements/tags");
    let found = |path: &str| docs.page_of_file_name(path).map(|page| page.path.as_str());
    assert_eq!(found("decisions/README.md"), Some("decisions"));
    assert_eq!([found("query.md"), found("howto/tag-records.html"), found("tutorial/"), found("Query")].map(|own| own.is_some()), [true; 4]);
    assert_eq!(found("nothing"), None);
}

/// Pages are made at the first request and the index at the first search: the first request is not noticeably slow, even without optimisation.
#[test]
fn pages_are_made_quickly() {
    let mut fastest = [Duration::MAX; 2];
    for _ in 0..5 {
        let from = Instant::now();
        let docs = Docs::new(Address::Server);
        let made = from.elapsed();
        assert!(!docs.search("query").hits.is_empty());
        fastest = [fastest[0].min(made), fastest[1].min(from.elapsed() - made)];
    }
    println!("pages and index: {fastest:?}");
    assert!(fastest.iter().all(|time| *time < Duration::from_millis(500)), "{fastest:?}");
}
