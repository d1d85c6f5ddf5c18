//! Erases records: notes which were erased, refuses writes of them, and removes what tells of them.

use super::connection::{SqliteOptions, connect};
use super::error::store_error;
use super::sql::execute;
use super::store::SqliteStore;
use super::tables::StoreTables;
use super::tenants::tenant_id;
use crate::erasure::{ErasedTraces, Erasure, Erasures, digest, digits};
use crate::sql::change_feed;
use crate::sql::erasure::{ERASED_OPERATION, ErasedRecords, PAGE, digest_of, names_record, other_sources, positions, with_digests, without_record};
use crate::sql::former::has_undo;
use crate::{RecordWrite, Result, StoreError, Tenant, Unit};
use rusqlite::{Connection, params};
use std::collections::HashSet;
use std::sync::Arc;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// Notes which records a unit erases, and removes what is found by their keys.
pub fn note(connection: &Connection, tables: &StoreTables, unit: &dyn Unit, commit_time: i64) -> Result<()> {
    let tenant = unit.tenant();
    for erased in unit.erases() {
        let (name, key) = (&tables.names[erased.collection], erased.key.as_str());
        execute(
            connection,
            "INSERT INTO erased(digest, tenant, collection, at, reason, finished) VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT DO UPDATE SET finished = 0",
            params![digest(tenant, name, key), tenant.as_str(), name, commit_time, erased.reason],
        )?;
        let number = tenant_id(connection, tenant)?;
        if has_undo(tables.catalogue()) {
            execute(connection, "DELETE FROM former WHERE tenant = ? AND collection = ? AND key = ?", params![number, name, key])?;
        }
        if let Some(tags) = &tables.catalogue().collections[erased.collection].tags {
            for table in ["tagged", "trees"] {
                execute(connection, &format!("DELETE FROM {table} WHERE tenant = ? AND collection = ? AND key = ?"), params![number, tags.id, key])?;
            }
        }
    }
    Ok(())
}

/// Whether any record was erased: nothing is hashed while none was.
fn has_erased(connection: &Connection) -> Result<bool> {
    connection.prepare_cached("SELECT 1 FROM erased LIMIT 1").and_then(|mut statement| statement.exists([])).map_err(store_error)
}

/// Those of these hashes that are noted.
fn find(connection: &Connection, digests: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM erased WHERE digest = ?").map_err(store_error)?;
    let mut found = HashSet::new();
    for digest in digests {
        if statement.exists([digest]).map_err(store_error)? {
            found.insert(digest.clone());
        }
    }
    Ok(found)
}

/// Reads which of the records that are written were erased.
pub fn among(connection: &Connection, tables: &StoreTables, owner: &Tenant, writes: &[RecordWrite]) -> Result<ErasedRecords> {
    if !has_erased(connection)? {
        return Ok(ErasedRecords::default());
    }
    ErasedRecords::among(tables.catalogue(), owner, writes, |digests| find(connection, digests))
}

impl Erasures for SqliteStore {
    fn erasures(&self) -> Result<Vec<Erasure>> {
        self.with_reader(|connection| {
            let sql = "SELECT tenant, collection, digest, at, reason, finished FROM erased ORDER BY at, digest";
            let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
            let found = statement.query_map([], |row| {
                let digest: Vec<u8> = row.get(2)?;
                let (tenant, collection, digest) = (row.get(0)?, row.get(1)?, digits(&digest));
                Ok(Erasure { tenant, collection, digest, at: row.get(3)?, reason: row.get(4)?, finished: row.get(5)? })
            });
            found.and_then(Iterator::collect).map_err(store_error)
        })
    }

    fn note_erasures(&self, erasures: &[Erasure]) -> Result<u64> {
        let noted = with_digests(erasures)?;
        self.write(move |connection, _| {
            let sql = "INSERT INTO erased(digest, tenant, collection, at, reason, finished) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING";
            let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
            let mut note = |(digest, own): &(Vec<u8>, Erasure)| {
                statement.execute(params![digest, own.tenant, own.collection, own.at, own.reason, own.finished]).map_err(store_error)
            };
            noted.iter().try_fold(0, |new, noted| Ok(new + note(noted)? as u64))
        })
    }

    fn erased(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<usize>> {
        self.with_reader(|connection| {
            if !has_erased(connection)? {
                return Ok(Vec::new());
            }
            let digests: Vec<Vec<u8>> = keys.iter().map(|key| digest_of(&self.catalogue, tenant, collection, key)).collect();
            Ok(positions(&digests, &find(connection, &digests)?))
        })
    }

    fn clear_traces(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<ErasedTraces> {
        let mut traces = ErasedTraces::default();
        let (name, text) = (self.tables.names[collection].clone(), key.as_str().to_owned());
        let Some(number) = self.with_reader(|connection| self.tenant_id(connection, tenant))? else { return Ok(traces) };
        self.clear_journals(number, (collection, &text), &mut traces)?;
        if self.catalogue.collections[collection].changes.is_some() {
            self.clear_changes(number, (&name, &text), &mut traces)?;
        }
        let named = self.answers_naming(number, &text)?;
        let (digest, owner) = (digest_of(&self.catalogue, tenant, collection, key), tenant.as_str().to_owned());
        let others = serde_json::Value::from(other_sources(&self.catalogue, collection)).to_string();
        let [log, issues, answers, audited] = self.write(move |connection, _| {
            let changed = |sql: &str, arguments: &[&dyn rusqlite::ToSql]| {
                connection.prepare_cached(sql).and_then(|mut statement| statement.execute(arguments)).map(|rows| rows as u64).map_err(store_error)
            };
            let of_collection = "job IN (SELECT id FROM jobs WHERE tenant = ?1 AND source NOT IN (SELECT value FROM json_each(?3)))";
            let failed = format!(
                "DELETE FROM failed_documents WHERE {of_collection} AND (job, document) IN (SELECT job, document FROM troubles WHERE key = ?2 AND position >= 0)"
            );
            changed(&failed, params![number, text, others])?;
            let found = [
                changed("DELETE FROM record_log WHERE tenant = ? AND collection = ? AND key = ?", params![number, name, text])?,
                changed(&format!("DELETE FROM troubles WHERE {of_collection} AND key = ?2 AND position >= 0"), params![number, text, others])?,
                named.iter().try_fold(0, |sum, id| Ok::<_, StoreError>(sum + changed("DELETE FROM calls WHERE tenant = ? AND id = ?", params![number, id])?))?,
                changed(
                    "UPDATE audit SET key = NULL, operation = ? WHERE tenant = ? AND collection = ? AND key = ?",
                    params![ERASED_OPERATION, owner, name, text],
                )?,
            ];
            if changed("UPDATE erased SET finished = 1 WHERE digest = ?", params![digest])? == 0 {
                return Err(StoreError::Wrong("the record is not erased".into()));
            }
            Ok(found)
        })?;
        (traces.log_entries, traces.issues, traces.answers, traces.audit_entries) = (log, issues, answers, audited);
        Ok(traces)
    }

    fn purge(&self) -> Result<()> {
        let connection = connect(&self.path, &SqliteOptions { read_only: false, prepare: false, ..self.options.clone() }, None)?;
        // indexes of text keep what was removed until their parts are merged
        for side in self.tables.collections.iter().flat_map(|collection| collection.trigrams.iter().chain(&collection.words)) {
            let side = &side.1;
            connection.execute_batch(&format!("INSERT INTO {side}({side}) VALUES ('optimize')")).map_err(store_error)?;
        }
        connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)").map_err(store_error)
    }

    fn lift_erasure(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<bool> {
        let digest = digest_of(&self.catalogue, tenant, collection, key);
        self.write(move |connection, _| {
            let mut statement = connection.prepare_cached("DELETE FROM erased WHERE digest = ?").map_err(store_error)?;
            Ok(statement.execute([&digest]).map_err(store_error)? > 0)
        })
    }
}

impl SqliteStore {
    /// The calls of a tenant whose kept answers name a record.
    fn answers_naming(&self, tenant: i64, key: &str) -> Result<Vec<Vec<u8>>> {
        self.with_reader(|connection| {
            let mut statement = connection.prepare_cached("SELECT id, answer FROM calls WHERE tenant = ?").map_err(store_error)?;
            let mut rows = statement.query([tenant]).map_err(store_error)?;
            let mut named = Vec::new();
            while let Some(row) = rows.next().map_err(store_error)? {
                if names_record(row.get_ref(1).map_err(store_error)?.as_blob().unwrap_or_default(), key) {
                    named.push(row.get(0).map_err(store_error)?);
                }
            }
            Ok(named)
        })
    }

    /// Removes a key from the outcomes of all journals of a tenant.
    fn clear_journals(&self, tenant: i64, record: (CollectionId, &str), traces: &mut ErasedTraces) -> Result<()> {
        let mut after = (0_i64, -1_i64);
        loop {
            let rows: Vec<(i64, i64, Vec<u8>)> = self.with_reader(|connection| {
                let sql = "SELECT job, ordinal, lines FROM chunk_journals WHERE (job, ordinal) > (?1, ?2) AND job IN (SELECT id FROM jobs WHERE tenant = ?3) \
                           ORDER BY job, ordinal LIMIT ?4";
                let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
                let rows = statement.query_map(params![after.0, after.1, tenant, PAGE], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                rows.and_then(Iterator::collect).map_err(store_error)
            })?;
            let Some((job, ordinal, _)) = rows.last() else { return Ok(()) };
            after = (*job, *ordinal);
            let mut changed: Vec<(i64, i64, Vec<u8>)> = Vec::new();
            for (job, ordinal, lines) in rows {
                if let Some(lines) = without_record(job as u64, &lines, record, &self.tables.names, traces)? {
                    changed.push((job, ordinal, lines));
                }
            }
            if !changed.is_empty() {
                let changed = Arc::new(changed);
                self.write(move |connection, _| {
                    let sql = "UPDATE chunk_journals SET lines = ? WHERE job = ? AND ordinal = ?";
                    changed.iter().try_for_each(|(job, ordinal, lines)| execute(connection, sql, params![lines, job, ordinal]))
                })?;
            }
        }
    }

    /// Removes a record's changes, but for its deletions.
    fn clear_changes(&self, tenant: i64, (collection, key): (&str, &str), traces: &mut ErasedTraces) -> Result<()> {
        let mut after = 0_i64;
        loop {
            let rows: Vec<(i64, Vec<u8>)> = self.with_reader(|connection| {
                let sql = "SELECT id, entries FROM changes WHERE id > ? AND tenant = ? AND collection = ? ORDER BY id LIMIT ?";
                let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
                let rows = statement.query_map(params![after, tenant, collection, PAGE], |row| Ok((row.get(0)?, row.get(1)?)));
                rows.and_then(Iterator::collect).map_err(store_error)
            })?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = *last;
            for (id, entries) in rows {
                if let Some((entries, removed)) = change_feed::without_record(id, &entries, key)? {
                    traces.changes += removed;
                    self.write(move |connection, _| execute(connection, "UPDATE changes SET entries = ? WHERE id = ?", params![entries, id]))?;
                }
            }
        }
    }
}
