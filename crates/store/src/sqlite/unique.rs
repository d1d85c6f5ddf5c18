//! Reservations of the values of unique fields.

use super::error::failure;
use super::tables::StoreTables;
use super::values::bind;
use crate::sql::row::reserved_value;
use crate::sql::unique::{Claim, Digest, Refusal, Taken, claims, decide, digest};
use crate::{RecordChange, RecordWrite, Result, UniqueConflict};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::value::Value;

/// Whether a write may change the unique values of its record.
pub fn may_change_values(tables: &StoreTables, write: &RecordWrite) -> bool {
    let indexes_stay = matches!(&write.change, RecordChange::Put(content) if write.expect.is_some() && content.indexes_unchanged);
    !tables.collections[write.collection].uniques.is_empty() && claims(write) && !indexes_stay
}

/// Reserves the values of unique fields for records that still have the version that was read, and frees their old values. Returns the positions of
/// writes that are refused because other records have or get their values.
pub fn reserve(connection: &Connection, tables: &StoreTables, tenant: i64, writes: &[&RecordWrite]) -> Result<Vec<(usize, UniqueConflict)>> {
    let mut refused = Vec::new();
    let mut by_collection: BTreeMap<CollectionId, Vec<usize>> = BTreeMap::new();
    for (place, write) in writes.iter().enumerate() {
        by_collection.entry(write.collection).or_default().push(place);
    }
    for (collection, places) in by_collection {
        let (own, definition) = (&tables.collections[collection], &tables.catalogue().collections[collection]);
        let mut all: Vec<Claim<'_>> = places.iter().map(|place| Claim { key: writes[*place].key.as_str(), values: Vec::new() }).collect();
        let mut before: Vec<Taken> = Vec::new();
        // claimed values by their hashes
        let mut values: Vec<BTreeMap<Digest, Value>> = Vec::new();
        for (field, side) in &own.uniques {
            let (mut taken, mut known) = (Taken::default(), BTreeMap::new());
            let mut holder = connection.prepare_cached(&format!("SELECT key FROM {side} WHERE tenant = ? AND value = ?")).map_err(failure)?;
            for (claim, place) in all.iter_mut().zip(&places) {
                let value = match &writes[*place].change {
                    RecordChange::Put(content) => reserved_value(definition, *field, content),
                    _ => Value::Null,
                };
                let hash = digest(&value);
                if let Some(hash) = &hash
                    && !known.contains_key(hash)
                {
                    let key: Option<String> = holder.query_row(params![tenant, bind(&value)], |row| row.get(0)).optional().map_err(failure)?;
                    taken.holders.extend(key.map(|key| (hash.clone(), key)));
                    known.insert(hash.clone(), value);
                }
                claim.values.push(hash);
            }
            before.push(taken);
            values.push(known);
        }
        // a value that a record of the unit has and no other one claims need not be known here: it is freed below
        let (refusals, _) = decide(&all, &before);
        let left_out: HashSet<usize> = refusals.iter().map(|refusal| refusal.claim).collect();
        for (field, (_, side)) in own.uniques.iter().enumerate() {
            let mut give = connection.prepare_cached(&format!("DELETE FROM {side} WHERE tenant = ? AND key = ?")).map_err(failure)?;
            let mut take = connection.prepare_cached(&format!("INSERT INTO {side}(tenant, value, key) VALUES (?, ?, ?)")).map_err(failure)?;
            let granted = || all.iter().enumerate().filter(|(index, _)| !left_out.contains(index)).map(|(_, claim)| claim);
            let stays = |claim: &Claim<'_>| {
                claim.values[field].as_ref().is_some_and(|value| before[field].holders.get(value).is_some_and(|holder| holder == claim.key))
            };
            let changing: BTreeSet<&str> = granted().filter(|claim| !stays(claim)).map(|claim| claim.key).collect();
            for key in &changing {
                give.execute(params![tenant, key]).map_err(failure)?;
            }
            for claim in granted().filter(|claim| changing.contains(claim.key)) {
                if let Some(value) = claim.values[field].as_ref().and_then(|hash| values[field].get(hash)) {
                    take.execute(params![tenant, bind(value), claim.key]).map_err(failure)?;
                }
            }
        }
        for Refusal { claim, field, holder } in refusals {
            let place = places[claim];
            refused.push((place, UniqueConflict { collection, key: writes[place].key.clone(), field: own.uniques[field].0, holder }));
        }
    }
    Ok(refused)
}
