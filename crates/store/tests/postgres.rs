//! The store on a server keeps the contract.

mod conformance;

use conformance::support::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use stook_catalogue::definition::Catalogue;
use stook_lab::postgres::Server;
use stook_store::postgres::{Options, PostgresStore};
use stook_store::*;

/// The server all tests share, each with a schema of its own.
fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let start = || match Server::start(&["fsync=off", "deadlock_timeout=200ms"]) {
        Ok(server) => Some(server),
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    };
    SERVER.get_or_init(start).as_ref()
}

fn open(url: &str, catalogue: &Catalogue) -> Result<Box<dyn Store>> {
    Ok(Box::new(PostgresStore::open(url, Arc::new(catalogue.clone()), &Options::default())?))
}

fn new_place() -> Option<Place> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let url = format!("{}?schema=place{}", server()?.url("postgres"), NUMBER.fetch_add(1, Ordering::SeqCst));
    Some(Place::new(move |catalogue| open(&url, catalogue), scans, || {}))
}

/// Whether the server reads every record of the tenant.
fn scans(explanation: &[String]) -> bool {
    explanation[0].starts_with("reads every record")
}

conformance!(new_place);
