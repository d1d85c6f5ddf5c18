//! The queue: chunks, their leases, and what to do about dead ones.

use super::error::failure;
use super::jobs::{finish_job, job_state, reopen};
use super::sql::execute;
use super::tables::StoreTables;
use crate::queue::*;
use crate::schedule::{Backlog, Choice, LeasableJob, TenantLoad, charge};
use crate::sql::listing::{FailedLease, NO_ANSWER, WantedLeases, is_further, named_state, no_job, row_of};
use crate::sql::row::read_json;
use crate::{LeaseToken, Result, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeSet;

const SECOND: i64 = 1_000_000;

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()))
}

pub fn add_chunks(connection: &Connection, job: JobId, chunks: &[NewChunk], progress: SplitProgress, stamp: i64) -> Result<()> {
    let stored: Option<(String, String)> = connection
        .query_row("SELECT progress, state FROM jobs WHERE id = ?", [job as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(failure)?;
    let Some((stored, state)) = stored else { return Err(no_job(job)) };
    let stored: SplitProgress = read_json(&stored, || row_of(job))?;
    // another process that splits the same files may be ahead: then all this is in the store already, and progress must not go back
    if !is_further(&progress, &stored) {
        return Ok(());
    }
    if named_state(job, &state)?.is_final() {
        return Err(StoreError::Wrong(format!("job {job} is {state}")));
    }
    for chunk in chunks.iter().filter(|chunk| chunk.ordinal > stored.chunks) {
        insert_chunk(connection, job, chunk.ordinal, &chunk.slice)?;
    }
    execute(connection, "UPDATE jobs SET progress = ? WHERE id = ?", params![json(&progress)?, job as i64])?;
    finish_job(connection, job, stamp)
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

const SLICE: &str = "file, position, length, file_documents, documents_before, documents, is_last, head, payload";

fn slice(row: &Row<'_>, first: usize) -> rusqlite::Result<ChunkSlice> {
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
pub fn line(connection: &Connection, tables: &StoreTables, job: Option<JobId>, now: i64) -> Result<(Backlog, bool)> {
    // one index probe per condition and live job, however many chunks it has
    let sql = "SELECT j.id, j.tenant, j.due, t.name, t.given,
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'waiting' AND c.until <= ?2),
          (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > ?2),
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until <= ?2)
        FROM jobs j JOIN tenants t ON t.id = j.tenant
        WHERE j.finished IS NULL AND (?1 IS NULL OR j.tenant = (SELECT tenant FROM jobs WHERE id = ?1))";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params![job.map(|job| job as i64), now]).map_err(failure)?;
    let (mut line, mut expired) = (Backlog::default(), false);
    while let Some(row) = rows.next().map_err(failure)? {
        let mut read = || -> rusqlite::Result<()> {
            let (id, tenant, name): (i64, i64, String) = (row.get(0)?, row.get(1)?, row.get(3)?);
            let id = id as JobId;
            let owner = TenantLoad { tenant, share: tables.catalogue().share(&name), charged: row.get(4)?, running: row.get(6)? };
            let wanted = job.is_none_or(|job| job == id);
            let (waits, has_expired): (bool, bool) = (row.get(5)?, row.get(7)?);
            expired |= has_expired && wanted;
            line.add(owner, LeasableJob { job: id, tenant, due: row.get(2)? }, (waits || has_expired) && wanted);
            Ok(())
        };
        read().map_err(failure)?;
    }
    Ok((line, expired))
}

pub fn lease(connection: &Connection, tables: &StoreTables, wanted: WantedLeases, stamp: i64) -> Result<Vec<LeasedChunk>> {
    let WantedLeases { job, limit, seconds } = wanted;
    let (line, expired) = self::line(connection, tables, job, stamp)?;
    if expired {
        bury(connection, stamp)?;
    }
    let each = if job.is_some() { limit } else { 1 };
    line.lease(limit, each, |choice, limit| take(connection, choice, limit, seconds, stamp))
}

/// Marks chunks as dead that were leased too often.
fn bury(connection: &Connection, stamp: i64) -> Result<()> {
    let sql =
        "UPDATE chunks SET state = 'dead', until = 0, token = 0, reason = ? WHERE state = 'leased' AND attempts >= ? AND until <= ? RETURNING job";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let dead = statement.query_map(params![NO_ANSWER, MOST_LEASES, stamp], |row| row.get::<_, i64>(0)).map_err(failure)?;
    let jobs: BTreeSet<i64> = dead.collect::<rusqlite::Result<_>>().map_err(failure)?;
    jobs.into_iter().try_for_each(|job| finish_job(connection, job as JobId, stamp))
}

/// Leases up to `limit` chunks of the chosen job, first those that wait and then those with expired leases, and charges its tenant.
fn take(connection: &Connection, choice: &Choice, limit: usize, seconds: u64, stamp: i64) -> Result<Vec<LeasedChunk>> {
    let sql = "SELECT id FROM chunks WHERE state = ? AND job = ? AND until <= ? ORDER BY ordinal LIMIT ?";
    let mut free = connection.prepare_cached(sql).map_err(failure)?;
    let mut ids: Vec<i64> = Vec::new();
    for state in ["waiting", "leased"] {
        let room = (limit - ids.len()) as i64;
        let found = free.query_map(params![state, choice.job as i64, stamp, room], |row| row.get(0)).map_err(failure)?;
        ids.extend(found.collect::<rusqlite::Result<Vec<i64>>>().map_err(failure)?);
    }
    // a stamp is never given twice, so no chunk gets the same token twice, whatever happens to the machine's clock. The 1 makes even the shortest
    // lease end after this moment, so that a chunk is not leased twice at the same time
    let (token, until) = (stamp, stamp + seconds as i64 * SECOND + 1);
    let sql = format!(
        "UPDATE chunks SET state = 'leased', token = ?, until = ?, attempts = attempts + 1 WHERE id = ? RETURNING job, ordinal, attempts, {SLICE}"
    );
    let mut lease = connection.prepare_cached(&sql).map_err(failure)?;
    let mut leases = Vec::with_capacity(ids.len());
    let mut charges = 0;
    for id in ids {
        let taken = lease.query_row(params![token, until, id], |row| {
            let chunk = ChunkId { job: row.get::<_, i64>(0)? as JobId, ordinal: row.get(1)? };
            Ok(LeasedChunk { chunk, token, attempt: row.get(2)?, slice: slice(row, 3)? })
        });
        let taken = taken.map_err(failure)?;
        charges += charge(i64::from(taken.slice.documents), taken.slice.length as i64, choice.share);
        leases.push(taken);
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
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    statement.query_row([], |row| row.get(0)).map_err(failure)
}

pub fn renew(connection: &Connection, leases: &[LeaseToken], seconds: u64, stamp: i64) -> Result<Vec<LeaseToken>> {
    let until = stamp + seconds as i64 * SECOND;
    let mut held = Vec::with_capacity(leases.len());
    let mut statement =
        connection.prepare_cached("UPDATE chunks SET until = ? WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'").map_err(failure)?;
    for lease in leases {
        if statement.execute(params![until, lease.chunk.job as i64, lease.chunk.ordinal, lease.token]).map_err(failure)? == 1 {
            held.push(*lease);
        }
    }
    Ok(held)
}

pub fn take_over(connection: &Connection, job: JobId) -> Result<u64> {
    execute(connection, "UPDATE chunks SET state = 'waiting', token = 0, until = 0 WHERE job = ? AND state = 'leased'", params![job as i64])?;
    Ok(connection.changes())
}

pub fn release(connection: &Connection, failed: FailedLease<'_>, stamp: i64) -> Result<()> {
    let FailedLease { lease, reason, delay_seconds, attempts } = failed;
    let until = stamp + delay_seconds as i64 * SECOND;
    let sql = "UPDATE chunks SET state = CASE WHEN attempts >= ?1 THEN 'dead' ELSE 'waiting' END, until = ?2, token = 0, reason = ?3
         WHERE job = ?4 AND ordinal = ?5 AND token = ?6 AND state = 'leased'";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let released = statement.execute(params![attempts, until, reason, lease.chunk.job as i64, lease.chunk.ordinal, lease.token]);
    if released.map_err(failure)? == 0 {
        return Ok(());
    }
    finish_job(connection, lease.chunk.job, stamp)
}

/// Removes a leased chunk from the queue, if the lease is still held.
pub fn remove_leased_chunk(connection: &Connection, lease: LeaseToken) -> Result<()> {
    let mut statement =
        connection.prepare_cached("DELETE FROM chunks WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'").map_err(failure)?;
    let deleted = statement.execute(params![lease.chunk.job as i64, lease.chunk.ordinal, lease.token]).map_err(failure)?;
    if deleted == 1 { Ok(()) } else { Err(StoreError::Fenced(lease.chunk)) }
}

const INFO: &str = "job, ordinal, state, attempts, documents, length, reason";

fn info(row: &Row<'_>) -> rusqlite::Result<ChunkInfo> {
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
    let sql = format!("SELECT {INFO} FROM chunks WHERE ?1 IS NULL OR job = ?1 ORDER BY job, ordinal");
    let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
    let rows = statement.query_map([job.map(|job| job as i64)], info).map_err(failure)?;
    rows.collect::<rusqlite::Result<_>>().map_err(failure)
}

pub fn chunk(connection: &Connection, chunk: ChunkId) -> Result<ChunkData> {
    let sql = format!("SELECT {INFO}, {SLICE} FROM chunks WHERE job = ? AND ordinal = ?");
    let mut statement = connection.prepare_cached(&sql).map_err(failure)?;
    let found = statement.query_row(params![chunk.job as i64, chunk.ordinal], |row| Ok(ChunkData { info: info(row)?, slice: slice(row, 7)? }));
    found.optional().map_err(failure)?.ok_or_else(|| StoreError::Wrong(format!("there is no chunk {chunk} in the queue")))
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
        connection.query_row(sql, params![chunk.job as i64, chunk.ordinal], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failure)?;
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

pub fn replace_chunk(connection: &Connection, chunk: ChunkId, parts: &[NewChunk], stamp: i64) -> Result<()> {
    execute(connection, "DELETE FROM chunks WHERE job = ? AND ordinal = ? AND state <> 'leased'", params![chunk.job as i64, chunk.ordinal])?;
    if connection.changes() == 0 {
        return Err(StoreError::Wrong(format!("chunk {chunk} is leased or not in the queue any more")));
    }
    // new numbers start far above those that splitting the file gives, so that an interrupted split can continue undisturbed
    let highest = "SELECT max(coalesce((SELECT max(ordinal) FROM chunks WHERE job = ?1), 0), coalesce((SELECT max(ordinal) FROM chunk_journals WHERE job = ?1), 0), 1000000000)";
    let highest: u32 = connection.query_row(highest, [chunk.job as i64], |row| row.get(0)).map_err(failure)?;
    for (number, part) in parts.iter().enumerate() {
        insert_chunk(connection, chunk.job, highest + 1 + number as u32, &part.slice)?;
    }
    reopen(connection, chunk.job)?;
    finish_job(connection, chunk.job, stamp)
}
