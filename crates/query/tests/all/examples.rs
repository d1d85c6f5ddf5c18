//! The examples of the help are queries of the catalogue that the documentation shows.

use crate::support;

use stook_query::examples::LESSONS;
use stook_query::{QueryScope, parse, resolve, resolve_all_collections};
use support::{NOW, definition, filled, main_tenant};

#[test]
fn every_example_is_a_query_of_the_documented_catalogue() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/query.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let (_, after) = page.split_once("```yaml\n").expect("a definition");
    let (text, _) = after.split_once("```").expect("its end");
    let filled = filled(definition(text), &[]);
    let (store, tenant) = (&filled.store, main_tenant());
    let scope = QueryScope::all(&filled.catalogue, store, &tenant);
    for example in LESSONS.iter().flat_map(|lesson| lesson.examples) {
        let everywhere = resolve_all_collections(example.query, &scope, NOW).expect("the store works");
        let is_understood = match everywhere {
            Some(found) => found.map(|_| ()),
            None => resolve(example.query, &scope, NOW).expect("the store works").map(|_| ()),
        };
        assert!(is_understood.is_ok(), "{}: {:?}", example.query, is_understood.err());
        assert!(parse(example.query).is_ok() && !example.about.is_empty());
        assert!(page.contains(example.query), "docs/query.md shows the output of `stook help queries`; update it: {}", example.query);
    }
}
