//! The queue: chunks, their leases, and what to do about dead ones.

use super::error::store_error;
use super::jobs::{finish_job, job_state, reopen};
use super::sql::execute;
use super::tables::StoreTables;
use crate::queue::*;
use crate::schedule::{Backlog, Choice, LeasableJob, TenantLoad, charge};
use crate::sql::listing::{FailedLease, WORKERS_STOPPED, WantedLeases, is_further, job_row, no_job, state_by_name};
use crate::sql::row::read_json;
use crate::{LeaseToken, Result, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

const MICROS_PER_SECOND: i64 = 1_000_000;

pub(super) fn to_json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()))
}

pub fn add_chunks(connection: &Connection, job: JobId, chunks: &[NewChunk], progress: SplitProgress, commit_time: i64) -> Result<()> {
    let stored: Option<(String, String)> = connection
        .query_row("SELECT progress, state FROM jobs WHERE id = ?", [job as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(store_error)?;
    let Some((stored, state)) = stored else { return Err(no_job(job)) };
    let stored: SplitProgress = read_json(&stored, || job_row(job))?;
    // another process that splits the same files may be ahead: then all this is in the store already, and progress must not go back
    if !is_further(&progress, &stored) {
        return Ok(());
    }
    if state_by_name(job, &state)?.is_final() {
        return Err(StoreError::Wrong(format!("job {job} is {state}")));
    }
    for chunk in chunks.iter().filter(|chunk| chunk.ordinal > stored.chunks) {
        insert_chunk(connection, job, chunk.ordinal, &chunk.slice)?;
    }
    execute(connection, "UPDATE jobs SET progress = ? WHERE id = ?", params![to_json(&progress)?, job as i64])?;
    finish_job(connection, job, commit_time)
}

fn insert_chunk(connection: &Connection, job: JobId, ordinal: u32, slice: &ChunkSlice) -> Result<()> {
    execute(
        connection,
        "INSERT INTO chunks(job, ordinal, state, token, until, attempts, file, position, length, file_documents, documents_before, documents, is_last, head, payload)
         VALUES (?, ?, 'waiting', 0, 0, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            job as i64,
            ordinal,
            slice.file as i64,
            slice.offset as i64,
            slice.length as i64,
            slice.file_documents as i64,
            slice.documents_before as i64,
            slice.documents,
            slice.is_last,
            slice.head,
            slice.payload
        ],
    )
}

const SLICE_COLUMNS: &str = "file, position, length, file_documents, documents_before, documents, is_last, head, payload";

fn read_slice(row: &Row<'_>, first: usize) -> rusqlite::Result<ChunkSlice> {
    Ok(ChunkSlice {
        file: row.get::<_, i64>(first)? as usize,
        offset: row.get::<_, i64>(first + 1)? as u64,
        length: row.get::<_, i64>(first + 2)? as u64,
        file_documents: row.get::<_, i64>(first + 3)? as u64,
        documents_before: row.get::<_, i64>(first + 4)? as u64,
        documents: row.get(first + 5)?,
        is_last: row.get(first + 6)?,
        head: row.get(first + 7)?,
        payload: row.get(first + 8)?,
    })
}

/// Reads the tenants and jobs that wait for workers, and whether some leases have expired.
pub fn backlog(connection: &Connection, tables: &StoreTables, job: Option<JobId>, now: i64) -> Result<(Backlog, bool)> {
    // one index probe per condition and live job, however many chunks it has
    let sql = "SELECT j.id, j.tenant, j.due, t.name, t.given,
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'waiting' AND c.until <= ?2),
          (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > ?2),
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until <= ?2)
        FROM jobs j JOIN tenants t ON t.id = j.tenant
        WHERE j.finished IS NULL AND (?1 IS NULL OR j.tenant = (SELECT tenant FROM jobs WHERE id = ?1))";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![job.map(|job| job as i64), now]).map_err(store_error)?;
    let (mut backlog, mut has_expired_leases) = (Backlog::default(), false);
    while let Some(row) = rows.next().map_err(store_error)? {
        let mut read_row = || -> rusqlite::Result<()> {
            let (id, tenant, name): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let id = id as JobId;
            let owner = TenantLoad { tenant, share: tables.catalogue().share(&name), charged: row.get(4)?, running: row.get(6)? };
            let wanted = job.is_none_or(|job| job == id);
            let (has_waiting, has_expired_chunks): (bool, bool) = (row.get(5)?, row.get(7)?);
            has_expired_leases |= has_expired_chunks && wanted;
            backlog.add(owner, LeasableJob { job: id, tenant, due: row.get(2)? }, (has_waiting || has_expired_chunks) && wanted);
            Ok(())
        };
        read_row().map_err(store_error)?;
    }
    Ok((backlog, has_expired_leases))
}

pub fn lease(connection: &Connection, tables: &StoreTables, wanted: WantedLeases, commit_time: i64) -> Result<Vec<LeasedChunk>> {
    let WantedLeases { job, limit, seconds } = wanted;
    let (backlog, has_expired_leases) = self::backlog(connection, tables, job, commit_time)?;
    if has_expired_leases {
        mark_dead(connection, commit_time)?;
    }
    let max_per_choice = if job.is_some() { limit } else { 1 };
    backlog.lease(limit, max_per_choice, |choice, limit| lease_from_job(connection, choice, limit, seconds, commit_time))
}

/// Marks chunks as dead that were leased too often.
fn mark_dead(connection: &Connection, commit_time: i64) -> Result<()> {
    let sql =
        "UPDATE chunks SET state = 'dead', until = 0, token = 0, reason = ? WHERE state = 'leased' AND attempts >= ? AND until <= ? RETURNING job";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let dead = statement.query_map(params![WORKERS_STOPPED, MAX_LEASES, commit_time], |row| row.get::<_, i64>(0)).map_err(store_error)?;
    let jobs: BTreeSet<i64> = dead.collect::<rusqlite::Result<_>>().map_err(store_error)?;
    jobs.into_iter().try_for_each(|job| finish_job(connection, job as JobId, commit_time))
}

/// Leases up to `limit` chunks of the chosen job, first those that wait and then those with expired leases, and charges its tenant.
fn lease_from_job(connection: &Connection, choice: &Choice, limit: usize, seconds: u64, commit_time: i64) -> Result<Vec<LeasedChunk>> {
    let sql = "SELECT id FROM chunks WHERE state = ? AND job = ? AND until <= ? ORDER BY ordinal LIMIT ?";
    let mut leasable = connection.prepare_cached(sql).map_err(store_error)?;
    let mut ids: Vec<i64> = Vec::new();
    for state in ["waiting", "leased"] {
        let remaining = (limit - ids.len()) as i64;
        let found = leasable.query_map(params![state, choice.job as i64, commit_time, remaining], |row| row.get(0)).map_err(store_error)?;
        ids.extend(found.collect::<rusqlite::Result<Vec<i64>>>().map_err(store_error)?);
    }
    // a commit time is never given twice, so no chunk gets the same token twice, whatever happens to the machine's clock. The 1 makes even the
    // shortest lease end after this moment, so that a chunk is not leased twice at the same time
    let (token, until) = (commit_time, commit_time + seconds as i64 * MICROS_PER_SECOND + 1);
    let sql = format!(
        "UPDATE chunks SET state = 'leased', token = ?, until = ?, attempts = attempts + 1 WHERE id = ? RETURNING job, ordinal, attempts, {SLICE_COLUMNS}"
    );
    let mut update = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut leases = Vec::with_capacity(ids.len());
    let mut charges = 0;
    for id in ids {
        let leased = update.query_row(params![token, until, id], |row| {
            let chunk = ChunkId { job: row.get::<_, i64>(0)? as JobId, ordinal: row.get(1)? };
            Ok(LeasedChunk { chunk, token, attempt: row.get(2)?, slice: read_slice(row, 3)? })
        });
        let leased = leased.map_err(store_error)?;
        charges += charge(i64::from(leased.slice.documents), leased.slice.length as i64, choice.share);
        leases.push(leased);
    }
    if !leases.is_empty() {
        execute(connection, "UPDATE tenants SET given = max(given, ?) + ? WHERE id = ?", params![choice.min_charged, charges, choice.tenant])?;
        execute(connection, "UPDATE jobs SET state = 'running' WHERE id = ? AND state IN ('queued', 'interrupted')", params![choice.job as i64])?;
    }
    Ok(leases)
}

pub fn return_unstarted(connection: &Connection, leases: &[LeaseToken]) -> Result<()> {
    let sql = "UPDATE chunks SET state = 'waiting', token = 0, until = 0, attempts = attempts - 1
         WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'";
    leases.iter().try_for_each(|lease| execute(connection, sql, params![lease.chunk.job as i64, lease.chunk.ordinal, lease.token]))
}

pub fn is_idle(connection: &Connection) -> Result<bool> {
    let sql = "SELECT NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'waiting') AND NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'leased')";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row([], |row| row.get(0)).map_err(store_error)
}

pub fn renew(connection: &Connection, leases: &[LeaseToken], seconds: u64, commit_time: i64) -> Result<Vec<LeaseToken>> {
    let until = commit_time + seconds as i64 * MICROS_PER_SECOND;
    let mut renewed = Vec::with_capacity(leases.len());
    let mut statement = connection
        .prepare_cached("UPDATE chunks SET until = ? WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'")
        .map_err(store_error)?;
    for lease in leases {
        if statement.execute(params![until, lease.chunk.job as i64, lease.chunk.ordinal, lease.token]).map_err(store_error)? == 1 {
            renewed.push(*lease);
        }
    }
    Ok(renewed)
}

pub fn take_over(connection: &Connection, job: JobId) -> Result<u64> {
    execute(connection, "UPDATE chunks SET state = 'waiting', token = 0, until = 0 WHERE job = ? AND state = 'leased'", params![job as i64])?;
    Ok(connection.changes())
}

pub fn release(connection: &Connection, failed: FailedLease<'_>, commit_time: i64) -> Result<()> {
    let FailedLease { lease, reason, delay_seconds, attempts } = failed;
    let until = commit_time + delay_seconds as i64 * MICROS_PER_SECOND;
    let sql = "UPDATE chunks SET state = CASE WHEN attempts >= ?1 THEN 'dead' ELSE 'waiting' END, until = ?2, token = 0, reason = ?3
         WHERE job = ?4 AND ordinal = ?5 AND token = ?6 AND state = 'leased'";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let released = statement.execute(params![attempts, until, reason, lease.chunk.job as i64, lease.chunk.ordinal, lease.token]);
    if released.map_err(store_error)? == 0 {
        return Ok(());
    }
    finish_job(connection, lease.chunk.job, commit_time)
}

/// Removes a leased chunk from the queue, if the lease is still held.
pub fn remove_leased_chunk(connection: &Connection, lease: LeaseToken) -> Result<()> {
    let mut statement =
        connection.prepare_cached("DELETE FROM chunks WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'").map_err(store_error)?;
    let deleted = statement.execute(params![lease.chunk.job as i64, lease.chunk.ordinal, lease.token]).map_err(store_error)?;
    if deleted == 1 { Ok(()) } else { Err(StoreError::Fenced(lease.chunk)) }
}

const INFO_COLUMNS: &str = "job, ordinal, state, attempts, documents, length, reason";

fn read_info(row: &Row<'_>) -> rusqlite::Result<ChunkInfo> {
    let state: String = row.get(2)?;
    let state = match state.as_str() {
        "waiting" => ChunkState::Waiting,
        "leased" => ChunkState::Leased,
        _ => ChunkState::Dead,
    };
    Ok(ChunkInfo {
        job: row.get::<_, i64>(0)? as JobId,
        ordinal: row.get(1)?,
        state,
        attempts: row.get(3)?,
        documents: row.get(4)?,
        length: row.get::<_, i64>(5)? as u64,
        reason: row.get(6)?,
    })
}

pub fn chunks(connection: &Connection, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
    let sql = format!("SELECT {INFO_COLUMNS} FROM chunks WHERE ?1 IS NULL OR job = ?1 ORDER BY job, ordinal");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let rows = statement.query_map([job.map(|job| job as i64)], read_info).map_err(store_error)?;
    rows.collect::<rusqlite::Result<_>>().map_err(store_error)
}

pub fn chunk(connection: &Connection, chunk: ChunkId) -> Result<ChunkData> {
    let sql = format!("SELECT {INFO_COLUMNS}, {SLICE_COLUMNS} FROM chunks WHERE job = ? AND ordinal = ?");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let found =
        statement.query_row(params![chunk.job as i64, chunk.ordinal], |row| Ok(ChunkData { info: read_info(row)?, slice: read_slice(row, 7)? }));
    found.optional().map_err(store_error)?.ok_or_else(|| StoreError::Wrong(format!("there is no chunk {chunk} in the queue")))
}

pub fn retry(connection: &Connection, job: JobId, ordinal: Option<u32>) -> Result<u64> {
    execute(
        connection,
        "UPDATE chunks SET state = 'waiting', attempts = 0, until = 0 WHERE job = ?1 AND (?2 IS NULL OR ordinal = ?2) AND state = 'dead'",
        params![job as i64, ordinal],
    )?;
    let retried = connection.changes();
    if retried > 0 {
        reopen(connection, job)?;
    }
    Ok(retried)
}

pub fn load_chunk(connection: &Connection, chunk: ChunkId, slice: &ChunkSlice) -> Result<()> {
    let state = job_state(connection, chunk.job)?;
    let sql = "SELECT EXISTS(SELECT 1 FROM chunk_journals WHERE job = ?1 AND ordinal = ?2),
        EXISTS(SELECT 1 FROM chunks WHERE job = ?1 AND ordinal = ?2 AND state = 'leased')";
    let (done, leased): (bool, bool) =
        connection.query_row(sql, params![chunk.job as i64, chunk.ordinal], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    if done || leased {
        let state = if done { "done already" } else { "leased" };
        return Err(StoreError::Wrong(format!("chunk {chunk} is {state}")));
    }
    if state.is_final() && state != JobState::Failed {
        return Err(StoreError::Wrong(format!("job {} is {}", chunk.job, state.name())));
    }
    execute(connection, "DELETE FROM chunks WHERE job = ? AND ordinal = ?", params![chunk.job as i64, chunk.ordinal])?;
    insert_chunk(connection, chunk.job, chunk.ordinal, slice)?;
    reopen(connection, chunk.job)
}

pub fn replace_chunk(connection: &Connection, chunk: ChunkId, parts: &[NewChunk], commit_time: i64) -> Result<()> {
    execute(connection, "DELETE FROM chunks WHERE job = ? AND ordinal = ? AND state <> 'leased'", params![chunk.job as i64, chunk.ordinal])?;
    if connection.changes() == 0 {
        return Err(StoreError::Wrong(format!("chunk {chunk} is leased or not in the queue any more")));
    }
    // new numbers start far above those that splitting the file gives, so that an interrupted split can continue undisturbed
    let highest_sql = "SELECT max(coalesce((SELECT max(ordinal) FROM chunks WHERE job = ?1), 0), coalesce((SELECT max(ordinal) FROM chunk_journals WHERE job = ?1), 0), 1000000000)";
    let highest: u32 = connection.query_row(highest_sql, [chunk.job as i64], |row| row.get(0)).map_err(store_error)?;
    for (index, part) in parts.iter().enumerate() {
        insert_chunk(connection, chunk.job, highest + 1 + index as u32, &part.slice)?;
    }
    reopen(connection, chunk.job)?;
    finish_job(connection, chunk.job, commit_time)
}
