//! The store on a Citus cluster fulfils the contract, except that reads are not from one snapshot of all its servers. Runs if `STOOK_TEST_CITUS_URL`
//! names a database of the coordinator that has the extension.

use crate::conformance;

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
    "a_unit_is_notified_which_edge_ranges_of_its_read_set_have_changed",
    "a_pass_waits_for_units_whose_read_set_has_changed",
    "a_condition_finds_records_whose_linked_record_exists",
    "a_condition_finds_records_whose_linked_records_all_exist",
    "members_of_structs_and_rows_of_them_are_those_of_a_naive_reader",
    "structs_get_members_and_indexes_later",
    "a_unit_that_waits_for_a_locked_record_does_not_delay_others",
];

fn new_location() -> Option<StoreLocation> {
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
    Some(StoreLocation::new(move |catalogue| open(&url, catalogue), is_full_scan, || {}))
}

/// Whether some server reads every record of the tenant.
fn is_full_scan(explanation: &[String]) -> bool {
    explanation[0].starts_with("reads every record")
}

conformance!(crate::citus::new_location);
