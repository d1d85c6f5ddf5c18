//! Random definitions from the entire language, with documents for them, on both stores: valid definitions are imported in any order, queried,
//! explained, edited, exported, served, settled and withdrawn, and both stores and an oracle must agree on all of it.
//!
//! `STOOK_TEST_DEFINITIONS` is the number of cases, `STOOK_TEST_SEED` the first seed, and `STOOK_TEST_FAULTS` the number of faults after which the
//! test stops. A failing case is shrunk and printed; cases that failed once are kept in `cases/` and always run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod case;
mod comparison;
mod documents;
mod grammar;
mod oracle;
mod reading;
mod requests;
mod run;
mod shrink;
mod stores;
mod words;
mod yaml;

use case::Case;
use run::{Fault, Timings, run, validate};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use stook_sample::random::Random;

/// Number of cases that share a store.
const CASES_PER_STORE: u64 = 16;

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Makes the case of a seed. Its names begin with the prefix.
fn case_of(seed: u64, prefix: &str) -> Case {
    let mut random = Random::of_item(seed, 1);
    let generated = grammar::make(&mut random, prefix);
    let deliveries = documents::deliveries(&mut random, &generated);
    let edits = documents::edits(&mut random, &generated);
    Case { definition: generated.definition, deliveries, edits }
}

/// Runs the cases of seeds together. On failure, returns the first case that also fails alone, otherwise the case of the fault.
fn run_seeds(seeds: &[u64]) -> Result<(Timings, u64), Box<(Case, Fault)>> {
    let prefixed = seeds.iter().enumerate().map(|(index, seed)| case_of(*seed, &format!("{}_", (b'a' + index as u8) as char)));
    let mut valid: Vec<Case> = Vec::new();
    for case in prefixed {
        match validate(&case.definition) {
            Ok(()) => valid.push(case),
            Err(reason) if reason.starts_with("PANIC") => return Err(Box::new((case, Fault { case: None, message: reason }))),
            Err(_) => {}
        }
    }
    let number = valid.len() as u64;
    match run(&valid, seeds[0]) {
        Ok(timings) => Ok((timings, number)),
        Err(fault) => {
            for case in &valid {
                if let Err(fault) = run(std::slice::from_ref(case), seeds[0]) {
                    return Err(Box::new((case.clone(), fault)));
                }
            }
            let culprit = fault.case.and_then(|index| valid.get(index)).or(valid.first()).cloned();
            let message = format!("{} (only beside others: seeds {seeds:?})", fault.message);
            Err(Box::new((culprit.expect("some case"), Fault { message, ..fault })))
        }
    }
}

/// Returns the kind of a fault, without names: where it panics, or the words of its message.
fn kind(message: &str) -> String {
    match message.split_once("panicked at ") {
        Some((_, location)) => location.split_whitespace().next().unwrap_or_default().to_owned(),
        None => message.split_whitespace().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())).take(6).collect::<Vec<_>>().join(" "),
    }
}

/// Returns the fault of a case when it runs alone.
fn fault_of(case: &Case, seed: u64) -> Option<String> {
    match validate(&case.definition) {
        Ok(()) if case.is_whole() => run(std::slice::from_ref(case), seed).err().map(|fault| fault.message),
        Err(reason) if reason.starts_with("PANIC") => Some(reason),
        _ => None,
    }
}

fn report(case: &Case, fault: &Fault, seed: u64) -> String {
    let first = kind(&fault.message);
    let fails = |case: &Case| fault_of(case, seed).is_some_and(|message| kind(&message) == first);
    let shrunk = if fails(case) { shrink::shrink(case, &fails) } else { case.clone() };
    let message = fault_of(&shrunk, seed).unwrap_or(fault.message.clone());
    format!("{message}\n\n{}\nas a case: {}\n", shrunk.printed(), serde_json::to_string(&shrunk).expect("JSON"))
}

/// Runs cases from `next` on until enough have run or failed; `ran` counts those that have run.
struct Running {
    count: u64,
    most_faults: usize,
    next: AtomicU64,
    ran: AtomicU64,
    timings: Mutex<Timings>,
    faults: Mutex<Vec<String>>,
}

impl Running {
    fn has_more_to_run(&self) -> bool {
        self.ran.load(Ordering::SeqCst) < self.count && self.faults.lock().expect("not poisoned").len() < self.most_faults
    }

    fn run_cases_until_done(&self) {
        while self.has_more_to_run() {
            let from = self.next.fetch_add(CASES_PER_STORE, Ordering::SeqCst);
            let seeds: Vec<u64> = (from..from + CASES_PER_STORE).collect();
            match run_seeds(&seeds) {
                Ok((timings, number)) => {
                    self.timings.lock().expect("not poisoned").add(&timings);
                    self.ran.fetch_add(number, Ordering::SeqCst);
                }
                Err(failed) => {
                    let (case, fault) = *failed;
                    let text = format!("seeds {seeds:?}: {}", report(&case, &fault, seeds[0]));
                    println!("{text}");
                    self.faults.lock().expect("not poisoned").push(text);
                }
            }
        }
    }
}

#[test]
fn valid_definitions_give_the_same_results_on_both_stores_and_in_any_order() {
    let began = Instant::now();
    let running = Running {
        count: variable("STOOK_TEST_DEFINITIONS", 300),
        most_faults: variable("STOOK_TEST_FAULTS", 1) as usize,
        next: AtomicU64::new(variable("STOOK_TEST_SEED", 1)),
        ran: AtomicU64::new(0),
        timings: Mutex::default(),
        faults: Mutex::default(),
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| running.run_cases_until_done())));
    });
    let Running { next, ran, timings, faults, .. } = running;
    let (ran, next) = (ran.into_inner(), next.into_inner());
    println!("{ran} definitions in {:?}, up to seed {next}: {:#?}", began.elapsed(), timings.into_inner().expect("not poisoned"));
    let faults = faults.into_inner().expect("not poisoned");
    assert!(faults.is_empty(), "{} faults; the first:\n{}", faults.len(), faults[0]);
}

#[test]
fn stored_cases_do_not_fail_again() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions/cases");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("it reads");
        let case: Case = serde_json::from_str(&text).expect("a case");
        validate(&case.definition).unwrap_or_else(|reason| panic!("{}: {reason}", entry.path().display()));
        for seed in 0..3 {
            if let Err(fault) = run(std::slice::from_ref(&case), seed) {
                panic!("{}: {}\n{}", entry.path().display(), fault.message, case.printed());
            }
        }
    }
}

/// Keywords that are never generated, with the reason.
const NOT_GENERATED: &[(&str, &str)] = &[
    ("catalogue.areas", "a generated definition lies beside no files; areas have tests of their own in crates/catalogue/tests/all/geometries.rs"),
    ("areas.file", "as areas"),
    ("areas.name", "as areas"),
    ("source.header", "the columns of a generated file follow from its documents; crates/formats/tests/all/tables.rs has tables without a header"),
    ("source.sheet", "generated files are texts; crates/formats/tests/all/tables.rs has spreadsheets"),
    ("type=partial_date", "crates/query/tests/all/differential.rs and crates/store/tests have partial dates, on both stores"),
    ("source.undo", "crates/engine/tests/all/undo.rs has the law of undone jobs"),
    (
        "collection.compose",
        "crates/engine/tests/all/composed.rs has the law of composed records: every order of arrival, both stores, imported again",
    ),
    ("compose.survivorship", "as collection.compose"),
    ("compose.with", "as collection.compose"),
    ("compose.protect", "as collection.compose"),
    ("compose.union", "as collection.compose"),
    ("compose.other_numbers", "as collection.compose"),
    ("compose.defaults", "as collection.compose"),
    ("link.match", "crates/engine/tests/all/matching.rs has the law of links by criteria, with an oracle, on both stores"),
    ("link.several", "as link.match"),
    ("link.several=fail", "as link.match"),
    ("link.several=smallest", "as link.match"),
    ("link.several=every", "as link.match"),
    ("link.several=merge", "as link.match"),
    ("profile.matched=delete", "crates/engine/tests/all/order.rs has the law of what profiles do with documents, deletions among them"),
    ("feed.each", "crates/engine/tests/all/elements.rs has the law of documents whose elements contribute"),
    ("each.path", "as feed.each"),
    ("each.of", "as feed.each"),
    (
        "route.find",
        "routes in steps have tests of their own: crates/catalogue/tests/all/route_steps.rs, and tests/tests/end_to_end/register.rs on both stores",
    ),
    ("route.refuse", "as route.find"),
    ("route.write", "as route.find"),
    ("route.body", "as route.find"),
    ("route.code", "as route.find"),
    ("route.type", "as route.find"),
    ("route.type=json", "as route.find"),
    ("route.type=text", "as route.find"),
    ("route.errors", "as route.find"),
    ("route.errors=declared", "as route.find"),
    ("route.errors=text", "as route.find"),
    ("route.open", "as route.find"),
    ("serve.unknown", "as route.find"),
    ("serve.unknown=refuse", "as route.find"),
    ("serve.unknown=ignore", "as route.find"),
    ("serve.origins", "as route.find"),
    ("param.in=whole_body", "as route.find"),
    ("param.in=nowhere", "as route.find"),
    ("param.wrong", "as route.find"),
    ("param.generate", "as route.find"),
    ("param.generate=uuid", "as route.find"),
    ("param.generate=code", "as route.find"),
    ("param.schema", "as route.find"),
    ("match.like", "as route.find"),
    ("match.below", "as route.find"),
    ("find.one", "as route.find"),
    ("find.list", "as route.find"),
    ("find.where", "as route.find"),
    ("find.sort", "as route.find"),
    ("find.include", "as route.find"),
    ("find.fields", "as route.find"),
    ("find.required", "as route.find"),
    ("find.when", "as route.find"),
    ("find.distinct", "as route.find"),
    ("find.page", "as route.find"),
    ("write.create", "as route.find"),
    ("write.put", "as route.find"),
    ("write.patch", "as route.find"),
    ("write.delete", "as route.find"),
    ("write.transition", "as route.find"),
    ("write.of", "as route.find"),
    ("write.each", "as route.find"),
    ("write.when", "as route.find"),
    ("write.key", "as route.find"),
    ("write.fields", "as route.find"),
    ("write.args", "as route.find"),
    ("write.taken", "as route.find"),
    ("route_ask.view", "tests/tests/end_to_end/das_clients.rs has rows as lines and pages, and words with values of parameters"),
    ("route_ask.where", "as route_ask.view"),
    ("call_arg.sent", "tests/tests/end_to_end/das_clients.rs has a condition that a call implies"),
    ("query_word.within", "tests/tests/end_to_end/datasets.rs has pairs of words, on both stores"),
    ("find.query", "tests/tests/end_to_end/machines_api.rs has routes that find by queries, and tags, on both stores"),
    ("find.tags", "as find.query"),
    ("find.key", "as find.query"),
    ("write.query", "as find.query"),
    ("write.required", "as find.query"),
    ("write.tag", "as find.query"),
    ("write.tag=create", "as find.query"),
    ("write.tag=change", "as find.query"),
    ("write.tag=delete", "as find.query"),
    ("write.tag=evaluate", "as find.query"),
    ("write.tag=assign", "as find.query"),
    ("write.add", "as find.query"),
    ("write.remove", "as find.query"),
    ("rule.around", "generated documents are not wrapped; tests/tests/end_to_end/harvest.rs has those that are"),
    ("field.around", "as rule.around"),
    ("collect.oai", "a generated source collects by OData; tests/tests/end_to_end/harvest.rs collects by OAI-PMH"),
    ("collect.pages", "as collect.oai; tests/tests/end_to_end/collected_pages.rs collects lists in pages"),
    ("collect.changed", "as collect.pages"),
    ("collect.as", "as collect.pages"),
    ("collect.as=text", "as collect.pages"),
    ("collect.as=epoch", "as collect.pages"),
    ("call_page.number", "as collect.pages, in every way to say where the next page is"),
    ("call_page.link", "as call_page.number"),
    ("collect.files", "as collect.oai; tests/tests/end_to_end/collected_files.rs collects files of folders, web servers and buckets"),
    ("collection.publish", "tests/tests/end_to_end/published.rs has the law of what is published: a harvest is an export"),
    ("collection.title", "pages alone show it; tests/tests/end_to_end/pages.rs has a record with a title"),
    ("publish.dc", "as collection.publish"),
    ("serve.repository", "as collection.publish"),
    ("repository.name", "as collection.publish"),
    ("repository.email", "as collection.publish"),
    ("repository.domain", "as collection.publish"),
    ("repository.url", "as collection.publish"),
    ("source.format=parquet", "generated files are texts; crates/formats/tests/all/columnar.rs has tables of columns"),
    ("source.format=arrow", "as source.format=parquet"),
    ("source.expect", "crates/engine/tests/all/expectations.rs has files that are, and are not, as expected, on both stores"),
    ("expect.field", "as source.expect"),
    ("expect.matches", "as source.expect"),
    ("expect.present", "as source.expect"),
    ("expect.unique", "as source.expect"),
    ("expect.at_least", "as source.expect"),
    ("expect.documents", "as source.expect"),
    ("expect.fresh", "as source.expect"),
    ("expect.do", "as source.expect"),
    ("expect.do=warn", "as source.expect"),
    ("expect.do=stop", "as source.expect"),
    ("expect_documents.at_least", "as source.expect"),
    ("expect_documents.at_most", "as source.expect"),
    ("expect_documents.fewer", "as source.expect"),
    ("expect_documents.more", "as source.expect"),
];

#[test]
fn every_keyword_of_the_language_is_generated() {
    let schema = stook_catalogue::schema::schema();
    let mut used = BTreeSet::new();
    let mut invalid: Vec<String> = Vec::new();
    for seed in 1..=3_000 {
        let case = case_of(seed, "a_");
        match validate(&case.definition) {
            Ok(()) => words::used(&schema, &case.definition, &mut used),
            Err(reason) => invalid.push(format!("{seed}: {reason}")),
        }
    }
    println!(
        "{} of 3000 are not sound, such as {:#?}",
        invalid.len(),
        invalid.iter().take(variable("STOOK_TEST_SHOWN", 5) as usize).collect::<Vec<_>>()
    );
    let listed: BTreeSet<&str> = NOT_GENERATED.iter().map(|(word, _)| *word).collect();
    let missing: Vec<String> = words::all(&schema).into_iter().filter(|word| !used.contains(word) && !listed.contains(word.as_str())).collect();
    assert!(missing.is_empty(), "no sound definition has {missing:#?}: generate them, or say why not");
    let idle: Vec<&&str> = listed.iter().filter(|word| used.contains(**word)).collect();
    assert!(idle.is_empty(), "{idle:?} are generated");
}
