//! Random definitions from the entire language, with documents for them, on both stores: valid definitions are imported in any order, queried,
//! explained, edited, exported, served, settled and withdrawn, and both stores and an oracle must agree on all of it.
//!
//! `STOOK_TEST_DEFINITIONS` is the number of cases, `STOOK_TEST_SEED` the first seed, and `STOOK_TEST_FAULTS` the number of faults after which the
//! test stops. A failing case is shrunk and printed; cases that failed once are kept in `cases/` and always run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on stops")]

mod case;
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
use run::{Fault, Timings, is_sound, run};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use stook_sample::random::Random;

/// Number of cases that share a store.
const TOGETHER: u64 = 16;

fn variable(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Makes the case of a seed. Its names begin with the prefix.
fn case_of(seed: u64, prefix: &str) -> Case {
    let mut random = Random::of_item(seed, 1);
    let made = grammar::make(&mut random, prefix);
    let deliveries = documents::deliveries(&mut random, &made);
    let edits = documents::edits(&mut random, &made);
    Case { definition: made.definition, deliveries, edits }
}

/// Runs the cases of seeds together. On failure, returns the first case that also fails alone, otherwise the case of the fault.
fn run_seeds(seeds: &[u64]) -> Result<(Timings, u64), Box<(Case, Fault)>> {
    let named = seeds.iter().enumerate().map(|(place, seed)| case_of(*seed, &format!("{}_", (b'a' + place as u8) as char)));
    let mut sound: Vec<Case> = Vec::new();
    for case in named {
        match is_sound(&case.definition) {
            Ok(()) => sound.push(case),
            Err(reason) if reason.starts_with("PANIC") => return Err(Box::new((case, Fault { case: None, what: reason }))),
            Err(_) => {}
        }
    }
    let number = sound.len() as u64;
    match run(&sound, seeds[0]) {
        Ok(timings) => Ok((timings, number)),
        Err(fault) => {
            for case in &sound {
                if let Err(fault) = run(std::slice::from_ref(case), seeds[0]) {
                    return Err(Box::new((case.clone(), fault)));
                }
            }
            let culprit = fault.case.and_then(|place| sound.get(place)).or(sound.first()).cloned();
            let what = format!("{} (only beside others: seeds {seeds:?})", fault.what);
            Err(Box::new((culprit.expect("some case"), Fault { what, ..fault })))
        }
    }
}

/// Returns the kind of a fault, without names: where it panics, or the words of its message.
fn kind(what: &str) -> String {
    match what.split_once("panicked at ") {
        Some((_, place)) => place.split_whitespace().next().unwrap_or_default().to_owned(),
        None => what.split_whitespace().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())).take(6).collect::<Vec<_>>().join(" "),
    }
}

/// Returns the fault of a case when it runs alone.
fn wrong(case: &Case, seed: u64) -> Option<String> {
    match is_sound(&case.definition) {
        Ok(()) if case.is_whole() => run(std::slice::from_ref(case), seed).err().map(|fault| fault.what),
        Err(reason) if reason.starts_with("PANIC") => Some(reason),
        _ => None,
    }
}

fn report(case: &Case, fault: &Fault, seed: u64) -> String {
    let first = kind(&fault.what);
    let fails = |case: &Case| wrong(case, seed).is_some_and(|what| kind(&what) == first);
    let small = if fails(case) { shrink::shrink(case, &fails) } else { case.clone() };
    let what = wrong(&small, seed).unwrap_or(fault.what.clone());
    format!("{what}\n\n{}\nas a case: {}\n", small.printed(), serde_json::to_string(&small).expect("JSON"))
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
    fn goes_on(&self) -> bool {
        self.ran.load(Ordering::SeqCst) < self.count && self.faults.lock().expect("not poisoned").len() < self.most_faults
    }

    fn go_on(&self) {
        while self.goes_on() {
            let from = self.next.fetch_add(TOGETHER, Ordering::SeqCst);
            let seeds: Vec<u64> = (from..from + TOGETHER).collect();
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
fn whatever_is_sound_works_the_same_everywhere() {
    let began = Instant::now();
    let running = Running {
        count: variable("STOOK_TEST_DEFINITIONS", 2_000),
        most_faults: variable("STOOK_TEST_FAULTS", 1) as usize,
        next: AtomicU64::new(variable("STOOK_TEST_SEED", 1)),
        ran: AtomicU64::new(0),
        timings: Mutex::default(),
        faults: Mutex::default(),
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(|| running.go_on())));
    });
    let Running { next, ran, timings, faults, .. } = running;
    let (ran, next) = (ran.into_inner(), next.into_inner());
    println!("{ran} definitions in {:?}, up to seed {next}: {:#?}", began.elapsed(), timings.into_inner().expect("not poisoned"));
    let faults = faults.into_inner().expect("not poisoned");
    assert!(faults.is_empty(), "{} faults; the first:\n{}", faults.len(), faults[0]);
}

#[test]
fn what_failed_once_does_not_fail_again() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/definitions/cases");
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("it reads");
        let case: Case = serde_json::from_str(&text).expect("a case");
        is_sound(&case.definition).unwrap_or_else(|reason| panic!("{}: {reason}", entry.path().display()));
        for seed in 0..3 {
            if let Err(fault) = run(std::slice::from_ref(&case), seed) {
                panic!("{}: {}\n{}", entry.path().display(), fault.what, case.printed());
            }
        }
    }
}

/// Keywords that are never generated, with the reason.
const NOT_GENERATED: &[(&str, &str)] = &[
    ("catalogue.areas", "a generated definition lies beside no files; areas have tests of their own in crates/catalogue/tests/geometries.rs"),
    ("areas.file", "as areas"),
    ("areas.name", "as areas"),
];

#[test]
fn every_word_of_the_language_is_generated() {
    let schema = stook_catalogue::schema::schema();
    let mut used = BTreeSet::new();
    let mut unsound: Vec<String> = Vec::new();
    for seed in 1..=3_000 {
        let case = case_of(seed, "a_");
        match is_sound(&case.definition) {
            Ok(()) => words::used(&schema, &case.definition, &mut used),
            Err(reason) => unsound.push(format!("{seed}: {reason}")),
        }
    }
    println!(
        "{} of 3000 are not sound, such as {:#?}",
        unsound.len(),
        unsound.iter().take(variable("STOOK_TEST_SHOWN", 5) as usize).collect::<Vec<_>>()
    );
    let listed: BTreeSet<&str> = NOT_GENERATED.iter().map(|(word, _)| *word).collect();
    let missing: Vec<String> = words::all(&schema).into_iter().filter(|word| !used.contains(word) && !listed.contains(word.as_str())).collect();
    assert!(missing.is_empty(), "no sound definition has {missing:#?}: generate them, or say why not");
    let idle: Vec<&&str> = listed.iter().filter(|word| used.contains(**word)).collect();
    assert!(idle.is_empty(), "{idle:?} are generated");
}
