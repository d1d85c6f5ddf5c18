//! Finds records that are damaged.

use crate::Result;
use crate::job::sizes::PAGE;
use stook_catalogue::definition::Catalogue;
use stook_store::damage::Damage;
use stook_store::{ReadDetail, Store, StoreError, Tenant};

/// The maximum number of records that are named.
const MAX_NAMED_RECORDS: usize = 1_000;

/// The result of reading every record.
#[derive(Debug, Default, PartialEq)]
pub struct DamageReport {
    /// Number of records read.
    pub read: u64,
    /// Number of damaged records.
    pub damaged: u64,
    /// The first [`MAX_NAMED_RECORDS`] of these, with what is damaged.
    pub named: Vec<(Tenant, Damage)>,
}

/// Reads every record of every tenant in full.
///
/// # Errors
/// When the store fails.
pub fn find(store: &dyn Store, catalogue: &Catalogue) -> Result<DamageReport> {
    let mut found = DamageReport::default();
    for tenant in store.tenants()? {
        for (index, collection) in catalogue.collections.enumerate() {
            let mut after = String::new();
            loop {
                let keys = store.keys_after(&tenant, index, &after, PAGE)?;
                let Some(last) = keys.last() else { break };
                last.as_str().clone_into(&mut after);
                found.read += keys.len() as u64;
                for record in store.read_damaged(&tenant, index, &keys, ReadDetail::Full)?.into_iter().flatten() {
                    match record.sound(&collection.name).and_then(|record| record.contributions_of(collection)) {
                        Ok(_) => {}
                        Err(StoreError::Damaged(damage)) => {
                            found.damaged += 1;
                            if found.named.len() < MAX_NAMED_RECORDS {
                                found.named.push((tenant.clone(), damage));
                            }
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok(found)
}
