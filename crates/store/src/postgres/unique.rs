//! Reservations of the values of unique fields.

use super::session::{DbResult, Session};
use super::tables::StoreTables;
use super::values::RowExt;
use crate::{RecordChange, RecordWrite};
use std::collections::HashMap;
use stook_catalogue::definition::Collection;
use stook_catalogue::record::put_value;

/// The hash of the value a write wants to have in a unique field; a record that does not exist wants none.
pub fn wanted(collection: &Collection, field: usize, write: &RecordWrite) -> Option<Vec<u8>> {
    let RecordChange::Put(content) = &write.change else { return None };
    let value = crate::sql::row::reserved_value(collection, field, content);
    if value.is_null() {
        return None;
    }
    let mut bytes = Vec::new();
    put_value(&mut bytes, &value);
    Some(blake3::hash(&bytes).as_bytes()[..16].to_vec())
}

/// Reservations of one unique field, as far as a unit needs them.
pub struct UniqueReservations {
    pub field: usize,
    table: String,
    pub holders: HashMap<Vec<u8>, String>,
    held: HashMap<String, Vec<u8>>,
    before: HashMap<Vec<u8>, String>,
}

impl UniqueReservations {
    pub fn read(
        session: &mut Session,
        tables: &StoreTables,
        tenant: i64,
        field: usize,
        table: &str,
        keys: &[&str],
        digests: &[Vec<u8>],
    ) -> DbResult<Self> {
        let sql = match tables.distributed() {
            // the lock of the collection keeps others away
            true => format!("SELECT digest, key FROM {table} WHERE tenant = $1 AND (digest = ANY($2) OR key = ANY($3))"),
            // one by one, as rows of records are found, and locked in the order of digests
            false => {
                let by = |column: &str| {
                    format!("SELECT digest FROM {table} WHERE tenant = $1 AND {column} BETWEEN u.own AND u.own ORDER BY {column} LIMIT 1")
                };
                format!(
                    "SELECT r.* FROM (SELECT f.digest AS own FROM \
                     (SELECT d.digest FROM unnest($2::bytea[]) AS u(own) CROSS JOIN LATERAL ({}) AS d \
                     UNION SELECT k.digest FROM unnest($3::text[]) AS u(own) CROSS JOIN LATERAL ({}) AS k) AS f ORDER BY f.digest) AS u \
                     CROSS JOIN LATERAL (SELECT digest, key FROM {table} WHERE tenant = $1 AND digest BETWEEN u.own AND u.own \
                     ORDER BY digest LIMIT 1 FOR UPDATE) AS r",
                    by("digest"),
                    by("key")
                )
            }
        };
        let rows = session.query(&sql, &[&tenant, &digests, &keys])?;
        let holders: HashMap<Vec<u8>, String> = rows.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
        let held = holders.iter().map(|(digest, key)| (key.clone(), digest.clone())).collect();
        Ok(Self { field, table: table.to_owned(), before: holders.clone(), holders, held })
    }

    pub fn take(&mut self, key: &str, value: Option<Vec<u8>>) {
        if let Some(old) = self.held.remove(key) {
            self.holders.remove(&old);
        }
        if let Some(value) = value {
            self.holders.insert(value.clone(), key.to_owned());
            self.held.insert(key.to_owned(), value);
        }
    }

    pub fn write(self, session: &mut Session, tenant: i64) -> DbResult<()> {
        let given: Vec<&Vec<u8>> =
            self.before.iter().filter(|(digest, key)| self.holders.get(*digest) != Some(key)).map(|(digest, _)| digest).collect();
        if !given.is_empty() {
            session.later(&format!("DELETE FROM {} WHERE tenant = $1 AND digest = ANY($2)", self.table), &[&tenant, &given])?;
        }
        let mut taken: Vec<(&Vec<u8>, &String)> = self.holders.iter().filter(|(digest, key)| self.before.get(*digest) != Some(key)).collect();
        if taken.is_empty() {
            return Ok(());
        }
        taken.sort();
        let (digests, keys): (Vec<&Vec<u8>>, Vec<&String>) = taken.into_iter().unzip();
        let sql = format!(
            "INSERT INTO {}(tenant, digest, key) SELECT $1, u.digest, u.key FROM unnest($2::bytea[], $3::text[]) AS u(digest, key) ORDER BY u.digest \
             ON CONFLICT DO NOTHING",
            self.table
        );
        session.later_of(keys.len(), "a value was taken meanwhile", &sql, &[&tenant, &digests, &keys])
    }
}
