//! Looks for records that cannot be read.

use crate::Result;
use crate::withdraw::PAGE;
use stook_catalogue::definition::Catalogue;
use stook_store::damage::Damage;
use stook_store::{Detail, Store, StoreError, Tenant};

/// Records that are named.
const MOST_NAMED: usize = 1_000;

/// Reads every record of every tenant whole; returns those that cannot be read, the first [`MOST_NAMED`] of them with what is wrong, and how
/// many there are.
///
/// # Errors
/// When the store fails.
pub fn find(store: &dyn Store, catalogue: &Catalogue) -> Result<(Vec<(Tenant, Damage)>, u64)> {
    let (mut named, mut found) = (Vec::new(), 0);
    for tenant in store.tenants()? {
        for (index, collection) in catalogue.collections.iter().enumerate() {
            let mut after = String::new();
            loop {
                let keys = store.keys_behind(&tenant, index, &after, PAGE)?;
                let Some(last) = keys.last() else { break };
                last.as_str().clone_into(&mut after);
                for record in store.read_damaged(&tenant, index, &keys, Detail::Full)?.into_iter().flatten() {
                    match record.sound(&collection.name).and_then(|record| record.contributions_of(collection)) {
                        Ok(_) => {}
                        Err(StoreError::Damaged(damage)) => {
                            found += 1;
                            if named.len() < MOST_NAMED {
                                named.push((tenant.clone(), damage));
                            }
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }
    Ok((named, found))
}
