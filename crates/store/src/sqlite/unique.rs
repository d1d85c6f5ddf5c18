//! Reservations of the values of unique fields.

use super::error::store_error;
use super::tables::StoreTables;
use super::values::bind;
use crate::sql::row::reserved_value;
use crate::sql::unique::{Claim, Digest, Refusal, Taken, decide, digest, sets_unique_fields};
use crate::{RecordChange, RecordWrite, RefusalReason, RefusedWrite, Result};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;

/// Whether a write may change the unique values of its record.
pub fn may_change_values(tables: &StoreTables, write: &RecordWrite) -> bool {
    let keeps_values = matches!(&write.change, RecordChange::Put(content) if write.expect.is_some() && content.indexes_unchanged);
    !tables.collections[write.collection].uniques.is_empty() && sets_unique_fields(write) && !keeps_values
}

/// Reserves the values of unique fields for records that still have the version that was read, and frees their old values. Returns the positions of
/// writes that are refused because other records have or get their values.
pub fn reserve(connection: &Connection, tables: &StoreTables, tenant: i64, writes: &[&RecordWrite]) -> Result<Vec<(usize, RefusedWrite)>> {
    let mut refused = Vec::new();
    let mut by_collection: BTreeMap<CollectionId, Vec<usize>> = BTreeMap::new();
    for (position, write) in writes.iter().enumerate() {
        by_collection.entry(write.collection).or_default().push(position);
    }
    for (collection, positions) in by_collection {
        let (collection_tables, definition) = (&tables.collections[collection], &tables.catalogue().collections[collection]);
        let mut all_claims: Vec<Claim<'_>> =
            positions.iter().map(|position| Claim { key: writes[*position].key.as_str(), values: Vec::new() }).collect();
        let mut taken_before: Vec<Taken> = Vec::new();
        // claimed values by their hashes
        let mut values_by_field: Vec<BTreeMap<Digest, Value>> = Vec::new();
        for (field, side) in &collection_tables.uniques {
            let (mut taken, mut values_by_digest) = (Taken::default(), BTreeMap::new());
            let mut find_holder =
                connection.prepare_cached(&format!("SELECT key FROM {side} WHERE tenant = ? AND value = ?")).map_err(store_error)?;
            for (claim, position) in all_claims.iter_mut().zip(&positions) {
                let value = match &writes[*position].change {
                    RecordChange::Put(content) => reserved_value(definition, *field, content),
                    _ => Value::Null,
                };
                let hash = digest(&value);
                if let Some(hash) = &hash
                    && !values_by_digest.contains_key(hash)
                {
                    let key: Option<String> =
                        find_holder.query_row(params![tenant, bind(&value)], |row| row.get(0)).optional().map_err(store_error)?;
                    taken.holders.extend(key.map(|key| (hash.clone(), key)));
                    values_by_digest.insert(hash.clone(), value);
                }
                claim.values.push(hash);
            }
            taken_before.push(taken);
            values_by_field.push(values_by_digest);
        }
        // a value that a record of the unit has and no other one claims need not be known here: it is freed below
        let (refusals, _) = decide(&all_claims, &taken_before);
        let refused_claims: HashSet<usize> = refusals.iter().map(|refusal| refusal.claim).collect();
        for (field, (_, side)) in collection_tables.uniques.iter().enumerate() {
            let mut delete_reservation =
                connection.prepare_cached(&format!("DELETE FROM {side} WHERE tenant = ? AND key = ?")).map_err(store_error)?;
            let mut insert_reservation =
                connection.prepare_cached(&format!("INSERT INTO {side}(tenant, value, key) VALUES (?, ?, ?)")).map_err(store_error)?;
            let granted = || all_claims.iter().enumerate().filter(|(index, _)| !refused_claims.contains(index)).map(|(_, claim)| claim);
            let is_unchanged = |claim: &Claim<'_>| {
                claim.values[field].as_ref().is_some_and(|value| taken_before[field].holders.get(value).is_some_and(|holder| holder == claim.key))
            };
            let changing: BTreeSet<&str> = granted().filter(|claim| !is_unchanged(claim)).map(|claim| claim.key).collect();
            for key in &changing {
                delete_reservation.execute(params![tenant, key]).map_err(store_error)?;
            }
            for claim in granted().filter(|claim| changing.contains(claim.key)) {
                if let Some(value) = claim.values[field].as_ref().and_then(|hash| values_by_field[field].get(hash)) {
                    insert_reservation.execute(params![tenant, bind(value), claim.key]).map_err(store_error)?;
                }
            }
        }
        for Refusal { claim, field, holder } in refusals {
            let position = positions[claim];
            refused.push((
                position,
                RefusedWrite {
                    collection,
                    key: writes[position].key.clone(),
                    reason: RefusalReason::Taken { field: collection_tables.uniques[field].0, holder },
                },
            ));
        }
    }
    Ok(refused)
}
