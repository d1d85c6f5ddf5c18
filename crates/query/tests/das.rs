//! The page of the original's examples says what is so.

mod support;

use std::sync::LazyLock;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_query::{Compiled, compile, parse};
use support::{NOW, definition, main_tenant};

static DATASETS: LazyLock<Catalogue> = LazyLock::new(|| definition(include_str!("../../../examples/datasets/catalogue.yaml")));

fn asked(query: &str) -> Result<Compiled, String> {
    let compiled = parse(query).and_then(|mut parsed| {
        parsed.apply_words(&DATASETS)?;
        compile(&parsed, &DATASETS, &main_tenant(), NOW)
    });
    compiled.map_err(|problem| render("query", query, &[problem], false))
}

/// The query in fields only.
fn in_fields(query: &str) -> Compiled {
    parse(query).and_then(|parsed| compile(&parsed, &DATASETS, &main_tenant(), NOW)).unwrap_or_else(|problem| panic!("{query}: {}", problem.message))
}

/// The text between the first two ticks behind a word.
fn quoted<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split_once(word)?.1.trim_start().strip_prefix('`')?.split_once('`').map(|(quoted, _)| quoted)
}

#[test]
fn the_originals_examples_are_what_the_page_says() {
    let page = include_str!("../../../examples/datasets/das.md").replace("\\|", "\u{1}");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let (mut examples, mut pairs) = (Vec::new(), Vec::new());
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let (Ok(number), query, here) = (cells[1].parse::<u32>(), cells[2].trim_matches('`'), cells[3].as_str()) else { continue };
        let is_example = pairs.is_empty() && examples.last().is_none_or(|last| last + 1 == number);
        if is_example {
            examples.push(number)
        } else {
            pairs.push(number)
        }
        if let Some(same) = here.strip_prefix("as ") {
            let same = quoted(same, "").unwrap_or_default();
            assert_eq!(asked(query).unwrap_or_else(|problem| panic!("{number}: {problem}")), in_fields(same), "{number}: {query}");
        } else if here.starts_with("refused: ") {
            let (message, problem) = (quoted(here, "refused:").unwrap_or_default(), asked(query).expect_err(query));
            assert!(problem.contains(message), "{number}: {problem}");
            if let Some(instead) = quoted(here, "instead") {
                asked(instead).unwrap_or_else(|problem| panic!("{number}: {problem}"));
            }
        } else if here.starts_with("test ") {
            let (name, path) = (quoted(here, "test").unwrap_or_default(), quoted(here, " in ").unwrap_or_default());
            let source = std::fs::read_to_string(format!("{root}{path}")).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(source.contains(&format!("fn {name}()")), "{number}: there is no test {name} in {path}");
        } else {
            assert!(here.starts_with("not here: "), "{number}: {here}");
        }
    }
    assert_eq!(examples, (1..=50).collect::<Vec<_>>());
    assert_eq!(pairs, (1..=34).collect::<Vec<_>>());
}
