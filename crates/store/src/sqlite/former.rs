//! Former contributions: the table, reads, writes, and the start of undoing a job.
//!
//! The table `former` is created when the first source of the definition says `undo:`. For each such source, `meta` has its first job that can be
//! undone as `undo SOURCE`; it is removed, with the rows of the source, when the source no longer says so.

use super::error::store_error;
use super::jobs::{create_job, job_state};
use super::sql::{execute, text};
use super::tables::{StoreTables, TenantTables, meta};
use crate::former::{FormerChange, FormerContribution, FormerWrite, OtherJob};
use crate::queue::{JobId, JobState, NewJob, undone_reason};
use crate::sql::former::{first_job_name, has_undo, no_longer_undoable, not_ended, source_of};
use crate::sql::listing::state_by_name;
use crate::{Result, Unit};
use bytes::Bytes;
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::rc::Rc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS former(id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL,
  contributor TEXT NOT NULL, identity BLOB NOT NULL, packed BLOB NOT NULL, raw BLOB, UNIQUE(tenant, collection, key, contributor, identity))";

/// Creates the table if a source says `undo:`, and notes from which job on its jobs can be undone.
pub fn prepare(connection: &Connection, catalogue: &Catalogue) -> Result<()> {
    let mut statement = connection.prepare("SELECT name FROM meta WHERE name LIKE 'undo %'").map_err(store_error)?;
    let names = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>).map_err(store_error)?;
    let sources = |name: &String| source_of(name).map(str::to_owned);
    for source in names.iter().filter_map(sources).filter(|source| catalogue.source(source).is_none_or(|(_, source)| source.undo.is_none())) {
        execute(connection, "DELETE FROM meta WHERE name = ?", params![first_job_name(&source)])?;
        execute(connection, "DELETE FROM former WHERE contributor = ?1 OR substr(contributor, 1, length(?1) + 1) = ?1 || ':'", params![source])?;
    }
    for source in catalogue.sources.iter().filter(|source| source.undo.is_some()) {
        connection.execute_batch(TABLE).map_err(store_error)?;
        let sql = "INSERT OR IGNORE INTO meta(name, value) SELECT ?, cast(coalesce(max(id), 0) + 1 AS TEXT) FROM jobs";
        execute(connection, sql, params![first_job_name(&source.name)])?;
    }
    Ok(())
}

pub fn former(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    collection: CollectionId,
    keys: &[Key],
) -> Result<Vec<Vec<FormerContribution>>> {
    let mut found: Vec<Vec<FormerContribution>> = keys.iter().map(|_| Vec::new()).collect();
    if !has_undo(tables.catalogue()) {
        return Ok(found);
    }
    let sql = "SELECT f.key, f.contributor, f.identity, f.packed, f.raw FROM rarray(?1) AS wanted CROSS JOIN former AS f \
               ON f.tenant = ?2 AND f.collection = ?3 AND f.key = wanted.value ORDER BY f.key, f.contributor, f.identity";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let wanted: Rc<Vec<Sql>> = Rc::new(keys.iter().map(|key| Sql::Text(key.as_str().to_owned())).collect());
    let index_by_key: HashMap<&str, usize> = keys.iter().enumerate().map(|(index, key)| (key.as_str(), index)).collect();
    let mut rows = statement.query(params![wanted, tenant, tables.names[collection]]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let read = || -> rusqlite::Result<_> {
            let raw: Option<Vec<u8>> = row.get(4)?;
            Ok((text(row, 0)?, FormerContribution { contributor: text(row, 1)?, id: row.get(2)?, packed: row.get(3)?, raw: raw.map(Bytes::from) }))
        };
        let (key, former) = read().map_err(store_error)?;
        if let Some(index) = index_by_key.get(key.as_str()) {
            found[*index].push(former);
        }
    }
    drop(rows);
    super::sql::assert_no_full_scan(&statement);
    Ok(found)
}

pub fn keys_with_former(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    if !has_undo(tables.catalogue()) {
        return Ok(Vec::new());
    }
    let sql = "SELECT DISTINCT key FROM former WHERE tenant = ? AND collection = ? AND key > ? ORDER BY key LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let keys = statement.query_map(params![tenant, tables.names[collection], key, limit as i64], |row| row.get::<_, String>(0));
    keys.map_err(store_error)?.map(|key| crate::sql::former::key(&key.map_err(store_error)?)).collect()
}

/// Writes a unit's changes of former contributions.
pub fn write(connection: &Connection, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> Result<()> {
    for FormerWrite { collection, key, change } in unit.former() {
        let (collection, key) = (&tables.names[collection], key.as_str());
        match change {
            FormerChange::Add(FormerContribution { contributor, id, packed, raw }) => {
                let sql = "INSERT OR IGNORE INTO former(tenant, collection, key, contributor, identity, packed, raw) VALUES (?, ?, ?, ?, ?, ?, ?)";
                execute(connection, sql, params![tenant, collection, key, contributor.as_str(), id, packed, raw.as_deref()])?;
            }
            FormerChange::Remove(contributor, id) => {
                let sql = "DELETE FROM former WHERE tenant = ? AND collection = ? AND key = ? AND contributor = ? AND identity = ?";
                execute(connection, sql, params![tenant, collection, key, contributor.as_str(), id])?;
            }
            FormerChange::RemoveAll(contributor) => {
                let sql = "DELETE FROM former WHERE tenant = ? AND collection = ? AND key = ? AND contributor = ?";
                execute(connection, sql, params![tenant, collection, key, contributor.as_str()])?;
            }
        }
    }
    Ok(())
}

pub fn first_undoable(connection: &Connection, source: &str) -> Result<Option<JobId>> {
    let first = meta(connection, &first_job_name(source))?;
    first.map(|first| crate::sql::former::job_number(source, &first)).transpose()
}

pub fn end_undo_before(connection: &Connection, source: &str, time: i64) -> Result<Option<JobId>> {
    let Some(first) = first_undoable(connection, source)? else { return Ok(None) };
    let being_undone = "SELECT EXISTS(SELECT 1 FROM jobs WHERE finished IS NULL AND source LIKE 'undo of job %')";
    if connection.query_row(being_undone, [], |row| row.get(0)).map_err(store_error)? {
        return Ok(None);
    }
    let sql = "SELECT coalesce((SELECT min(id) FROM jobs WHERE created >= ?), (SELECT coalesce(max(id), 0) + 1 FROM jobs))";
    let oldest: i64 = connection.query_row(sql, [time], |row| row.get(0)).map_err(store_error)?;
    let first = first.max(oldest as JobId);
    super::tables::put_meta(connection, &first_job_name(source), &first.to_string())?;
    Ok(Some(first))
}

pub fn other_jobs(connection: &Connection, job: JobId) -> Result<Vec<OtherJob>> {
    job_state(connection, job)?;
    let sql = "SELECT o.id, o.source, o.profile, o.state FROM jobs AS j JOIN jobs AS o ON o.tenant = j.tenant
        WHERE j.id = ?1 AND o.id <> j.id AND coalesce(o.finished, j.created) >= j.created ORDER BY o.id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([job as i64], |row| Ok((row.get::<_, i64>(0)? as JobId, row.get(1)?, row.get(2)?, row.get::<_, String>(3)?)));
    let other_job = |(id, source, profile, state): (JobId, _, _, String)| Ok(OtherJob { id, source, profile, state: state_by_name(id, &state)? });
    rows.map_err(store_error)?.map(|row| other_job(row.map_err(store_error)?)).collect()
}

pub fn start_undo(connection: &Connection, job: JobId, undo: &NewJob, commit_time: i64) -> Result<JobId> {
    let state = job_state(connection, job)?;
    if !state.is_final() {
        return Err(not_ended(job));
    }
    let source: Option<String> =
        connection.query_row("SELECT source FROM jobs WHERE id = ?", [job as i64], |row| row.get(0)).optional().map_err(store_error)?;
    if first_undoable(connection, source.as_deref().unwrap_or_default())?.is_none_or(|first| job < first) {
        return Err(no_longer_undoable(job));
    }
    let undo = create_job(connection, undo, commit_time)?;
    let sql = "UPDATE jobs SET state = ?, reason = ? WHERE id = ?";
    execute(connection, sql, params![JobState::Undone.name(), undone_reason(undo), job as i64])?;
    execute(connection, "DELETE FROM chunks WHERE job = ?", params![job as i64])?;
    Ok(undo)
}
