//! `settle`, `check --deep`.

use crate::open::Place;
use crate::output::{count, number, seconds};
use crate::{Failure, Outcome};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use stook_catalogue::definition::Catalogue;
use stook_engine::settle::{self, Rules};
use stook_store::{Pass, Passed, Store};

/// Settles what is marked.
pub fn drain(catalogue: &Arc<Catalogue>, store: &dyn Store) -> Result<Passed, Failure> {
    let rules = Arc::new(Rules::new(catalogue));
    if !rules.any() {
        return Ok(Passed::default());
    }
    settle::bring_up(store, &rules, &|_| ())?;
    let pass: Arc<dyn Pass> = rules;
    Ok(settle::drain(store, &pass, &AtomicBool::new(false))?)
}

pub fn settle(place: &Place, as_json: bool) -> Outcome {
    let (catalogue, store) = place.open_existing()?;
    let began = Instant::now();
    let passed = drain(&catalogue, &*store)?;
    if as_json {
        println!("{}", json!({ "answered": passed.answered, "changed": passed.rows }));
    } else {
        println!("settled in {}: {} answered, {} changed", seconds(began.elapsed()), count(passed.answered, "mark"), count(passed.rows, "record"));
    }
    Ok(0)
}

pub fn check(place: &Place, as_json: bool) -> Outcome {
    let (catalogue, store) = place.open_existing()?;
    let began = Instant::now();
    let (records, passed) = settle::check(&*store, &Arc::new(Rules::new(&catalogue)), &AtomicBool::new(false), &|_| ())?;
    if as_json {
        println!("{}", json!({ "sound": passed.rows == 0, "records": records, "changed": passed.rows }));
    } else if passed.rows == 0 {
        println!("everything that follows from {} is what it must be ({})", count(records, "record"), seconds(began.elapsed()));
    } else {
        println!("{} of what follows from {} were not what they must be; now they are", number(passed.rows), count(records, "record"));
    }
    Ok(u8::from(passed.rows > 0))
}
