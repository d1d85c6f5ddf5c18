//! How many records there are. Counting all of a collection costs what reading an index of it does, so a number is kept for some seconds.

use crate::App;
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stook_store::plan::Plan;
use stook_store::{Result, Tenant};

/// How old a number may be.
pub const FRESH: Duration = Duration::from_secs(5);
/// Numbers that are kept before all are forgotten.
const MOST: usize = 10_000;

/// Numbers of records by tenant and collection, with when they were counted.
#[derive(Default)]
pub struct Counts(Mutex<HashMap<(String, usize), (Instant, u64)>>);

impl Counts {
    /// Those of all collections of a tenant.
    ///
    /// # Errors
    /// When the store fails.
    pub fn of(&self, app: &App, tenant: &Tenant) -> Result<Vec<u64>> {
        (0..app.catalogue.collections.len()).map(|collection| self.one(app, tenant, collection)).collect()
    }

    fn one(&self, app: &App, tenant: &Tenant, collection: usize) -> Result<u64> {
        let place = (tenant.as_str().to_owned(), collection);
        let known = self.0.lock().ok().and_then(|known| known.get(&place).copied());
        if let Some((_, number)) = known.filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(number);
        }
        let number = app.store.count(&Plan::all(tenant.clone(), collection))?;
        if let Ok(mut known) = self.0.lock() {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(place, (Instant::now(), number));
        }
        Ok(number)
    }
}
