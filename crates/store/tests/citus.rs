//! The store on a Citus cluster fulfils the contract, except that reads are not from one snapshot of all its servers. Runs if `STOOK_TEST_CITUS_URL`
//! names a database of the coordinator that has the extension.

#![allow(dead_code, reason = "what the suite offers and this store does not need")]

mod conformance;

use conformance::support::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_store::postgres::{PostgresOptions, PostgresStore};
use stook_store::*;

fn open(url: &str, catalogue: &Catalogue) -> Result<Box<dyn Store>> {
    Ok(Box::new(PostgresStore::open(url, Arc::new(catalogue.clone()), &PostgresOptions::default())?))
}

/// Tests of what a cluster does not provide: its planner does not support queries for rows of structs joined with records, units that write one
/// collection wait for each other, and all edges that a unit has read count as changed.
const NOT_PROMISED: [&str; 7] = [
    "a_unit_hears_which_ranges_of_edges_have_changed_that_it_relies_on",
    "a_pass_waits_for_units_that_rely_on_what_has_changed",
    "whether_a_linked_record_is_there_is_asked",
    "whether_all_linked_records_are_there_is_asked",
    "members_of_structs_and_rows_of_them_are_those_of_a_naive_reader",
    "structs_get_members_and_indexes_later",
    "whoever_waits_for_a_held_record_keeps_nobody_else_waiting",
];

fn new_place() -> Option<Place> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    if let Some(test) = std::thread::current().name().filter(|name| NOT_PROMISED.iter().any(|test| name.ends_with(test))) {
        stook_testkit::skip::left_out(&format!("{test} is not promised on a cluster"));
        return None;
    }
    let Ok(cluster) = std::env::var("STOOK_TEST_CITUS_URL") else {
        stook_testkit::skip::left_out("STOOK_TEST_CITUS_URL is not set");
        return None;
    };
    // a few shards for each table: there are many tables
    let number = NUMBER.fetch_add(1, Ordering::SeqCst);
    let url = format!("{cluster}?schema=p{}_{number}&options=-ccitus.shard_count%3D4", std::process::id());
    Some(Place::new(move |catalogue| open(&url, catalogue), scans, || {}))
}

/// Whether some server reads every record of the tenant.
fn scans(explanation: &[String]) -> bool {
    explanation[0].starts_with("reads every record")
}

conformance!(new_place);
