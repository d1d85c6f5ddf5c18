//! The queue: chunks, their leases, and what to do about dead ones.
//!
//! A lease takes two short statements: one reads the live jobs, from which [`crate::schedule`] chooses, and one takes the chosen job's next chunk
//! with `SKIP LOCKED`, so that no worker waits for the lease of another. Their cost does not grow with the number of waiting chunks. A lease need not
//! be durable, unlike the commit of its chunk. Whether a job has ended is checked in a separate statement after the commit of a chunk: of two
//! transactions that finish the last two chunks, neither sees the other's.

use super::jobs::{locked_state, reopen};
use super::session::{DbResult, Session};
use super::tables::StoreTables;
use super::values::RowExt;
use crate::queue::*;
use crate::schedule::{BYTES_PER_DOCUMENT, Backlog, Choice, LeasableJob, TenantLoad};
use crate::sql::listing::{FailedLease, WORKERS_STOPPED, WantedLeases, is_further, job_row, no_job, state_by_name};
use crate::sql::row::read_json;
use crate::{LeaseToken, StoreError};
use ::tokio_postgres::Row;
use std::collections::BTreeSet;

const MICROS_PER_SECOND: i64 = 1_000_000;

pub(super) fn to_json<T: serde::Serialize>(value: &T) -> DbResult<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()).into())
}

pub fn add_chunks(session: &mut Session, job: JobId, chunks: &[NewChunk], progress: SplitProgress) -> DbResult<()> {
    let Some(row) = session.query_first("SELECT progress, state FROM jobs WHERE id = $1 FOR UPDATE", &[&(job as i64)])? else {
        return Err(no_job(job).into());
    };
    let stored: SplitProgress = read_json(row.at(0)?, || job_row(job))?;
    // another process that splits the same files may be ahead: then all this is in the store already, and progress must not go back
    if !is_further(&progress, &stored) {
        return Ok(());
    }
    let state = state_by_name(job, row.at(1)?)?;
    if state.is_final() {
        return Err(StoreError::Wrong(format!("job {job} is {}", state.name())).into());
    }
    let new: Vec<(u32, &ChunkSlice)> =
        chunks.iter().filter(|chunk| chunk.ordinal > stored.chunks).map(|chunk| (chunk.ordinal, &chunk.slice)).collect();
    insert_chunks(session, job, &new)?;
    session.execute("UPDATE jobs SET progress = $1 WHERE id = $2", &[&to_json(&progress)?, &(job as i64)])?;
    Ok(())
}

fn insert_chunks(session: &mut Session, job: JobId, chunks: &[(u32, &ChunkSlice)]) -> DbResult<()> {
    let numbers = |number: fn(&ChunkSlice) -> u64| chunks.iter().map(|(_, slice)| number(slice) as i64).collect::<Vec<i64>>();
    let ordinals: Vec<i64> = chunks.iter().map(|(ordinal, _)| i64::from(*ordinal)).collect();
    let lasts: Vec<bool> = chunks.iter().map(|(_, slice)| slice.is_last).collect();
    let heads: Vec<&[u8]> = chunks.iter().map(|(_, slice)| slice.head.as_slice()).collect();
    let payloads: Vec<Option<&[u8]>> = chunks.iter().map(|(_, slice)| slice.payload.as_deref()).collect();
    session.execute(
        "INSERT INTO chunks(job, ordinal, state, token, until, attempts, file, position, length, file_documents, documents_before, documents, is_last, head, payload)
         SELECT $1, ordinal, 'waiting', 0, 0, 0, file, position, length, file_documents, documents_before, documents, is_last, head, payload
         FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::boolean[], $10::bytea[], $11::bytea[])
         AS u(ordinal, file, position, length, file_documents, documents_before, documents, is_last, head, payload)",
        &[
            &(job as i64),
            &ordinals,
            &numbers(|slice| slice.file as u64),
            &numbers(|slice| slice.offset),
            &numbers(|slice| slice.length),
            &numbers(|slice| slice.file_documents),
            &numbers(|slice| slice.documents_before),
            &numbers(|slice| u64::from(slice.documents)),
            &lasts,
            &heads,
            &payloads,
        ],
    )?;
    Ok(())
}

const SLICE_COLUMNS: &str = "file, position, length, file_documents, documents_before, documents, is_last, head, payload";

fn read_slice(row: &Row, first: usize) -> DbResult<ChunkSlice> {
    let number = |index: usize| row.at::<i64>(first + index).map(|number| number as u64);
    Ok(ChunkSlice {
        file: number(0)? as usize,
        offset: number(1)?,
        length: number(2)?,
        file_documents: number(3)?,
        documents_before: number(4)?,
        documents: number(5)? as u32,
        is_last: row.at(first + 6)?,
        head: row.at(first + 7)?,
        payload: row.at(first + 8)?,
    })
}

/// What one statement reads of the jobs that wait for workers.
pub struct LeaseView {
    pub backlog: Backlog,
    /// Whether some leases have expired.
    pub has_expired_leases: bool,
    /// Live jobs without running chunks, of which nothing can be leased now: the worker that committed the last chunk may have failed to end them.
    pub maybe_finished: Vec<JobId>,
    /// The server's time, in microseconds.
    pub now: i64,
}

pub fn read_backlog(session: &mut Session, tables: &StoreTables, job: Option<JobId>) -> DbResult<LeaseView> {
    // one index probe per condition and live job, however many chunks it has
    let sql = "SELECT m.value, j.id, j.tenant, j.due, t.name, t.given,
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'waiting' AND c.until <= n.now),
          (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > n.now),
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until <= n.now), n.now
        FROM meta m CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
        LEFT JOIN (jobs j JOIN tenants t ON t.id = j.tenant)
          ON j.finished IS NULL AND ($1::bigint IS NULL OR j.tenant = (SELECT tenant FROM jobs WHERE id = $1))
        WHERE m.name = 'definition'";
    let rows = session.query(sql, &[&job.map(|job| job as i64)])?;
    if !tables.is_expected_definition(rows.first().map(|row| row.at::<Option<&str>>(0)).transpose()?.flatten()) {
        return Err(StoreError::DefinitionChanged.into());
    }
    let (mut backlog, mut has_expired_leases, mut maybe_finished) = (Backlog::default(), false, Vec::new());
    let now = rows.first().map(|row| row.at(9)).transpose()?.unwrap_or(0);
    for row in rows {
        let Some(id) = row.at::<Option<i64>>(1)? else { continue };
        let (id, tenant) = (id as JobId, row.at(2)?);
        let owner = TenantLoad { tenant, share: tables.catalogue().share(row.at(4)?), charged: row.at(5)?, running: row.at::<i64>(7)? as u32 };
        let wanted = job.is_none_or(|job| job == id);
        let (has_waiting, has_expired_chunks): (bool, bool) = (row.at(6)?, row.at(8)?);
        has_expired_leases |= has_expired_chunks && wanted;
        if wanted && !has_waiting && !has_expired_chunks && owner.running == 0 {
            maybe_finished.push(id);
        }
        backlog.add(owner, LeasableJob { job: id, tenant, due: row.at(3)? }, (has_waiting || has_expired_chunks) && wanted);
    }
    Ok(LeaseView { backlog, has_expired_leases, maybe_finished, now })
}

/// Marks chunks as dead that were leased too often; returns their jobs.
pub fn mark_dead(session: &mut Session, now: i64) -> DbResult<Vec<JobId>> {
    let sql = "UPDATE chunks c SET state = 'dead', until = 0, token = 0, reason = $2
          FROM (SELECT job, ordinal FROM chunks WHERE state = 'leased' AND attempts >= $1
                AND until <= $3 ORDER BY job, ordinal FOR UPDATE SKIP LOCKED) AS old
          WHERE c.job = old.job AND c.ordinal = old.ordinal RETURNING c.job";
    let rows = session.query(sql, &[&i64::from(MAX_LEASES), &WORKERS_STOPPED, &now])?;
    let jobs: BTreeSet<i64> = rows.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    Ok(jobs.into_iter().map(|job| job as JobId).collect())
}

/// Like [`lease_from_job`], for a tenant that has a limit: workers check one after the other how many more of its chunks may be leased.
pub fn lease_within_limit(session: &mut Session, choice: &Choice, max_running: u32, wanted: WantedLeases, now: i64) -> DbResult<Vec<LeasedChunk>> {
    session.batch("BEGIN")?;
    session.query_one("SELECT 1 FROM tenants WHERE id = $1 FOR UPDATE", &[&choice.tenant])?;
    let running_sql = "SELECT count(*) FROM chunks c JOIN jobs j ON j.id = c.job
         WHERE c.state = 'leased' AND c.until > $2 AND j.tenant = $1";
    let running: i64 = session.query_one(running_sql, &[&choice.tenant, &now])?.at(0)?;
    let limit = wanted.limit.min((i64::from(max_running) - running).max(0) as usize);
    let leases = lease_from_job(session, choice, WantedLeases { limit, ..wanted }, now)?;
    session.batch("COMMIT")?;
    Ok(leases)
}

/// Leases up to `limit` chunks of the chosen job, first those that wait and then those with expired leases, and charges its tenant. Outside of
/// [`lease_within_limit`], each statement is a transaction of its own. `now` is when the job was chosen: leases that expire later are left.
pub fn lease_from_job(session: &mut Session, choice: &Choice, wanted: WantedLeases, now: i64) -> DbResult<Vec<LeasedChunk>> {
    let WantedLeases { limit, seconds, .. } = wanted;
    let mut leases: Vec<LeasedChunk> = Vec::new();
    for state in ["waiting", "leased"] {
        let sql = format!(
            "WITH free AS (SELECT job, ordinal FROM chunks
                 WHERE job = $1 AND state = '{state}' AND until <= $7
                 ORDER BY ordinal LIMIT $2 FOR UPDATE SKIP LOCKED),
               taken AS (UPDATE chunks c SET state = 'leased', token = nextval('tokens'), attempts = attempts + 1,
                   until = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3
                 FROM free WHERE c.job = free.job AND c.ordinal = free.ordinal RETURNING c.*),
               charged AS (UPDATE tenants
                 SET given = greatest(given, $4::bigint)
                   + (SELECT sum(greatest(documents + length / {BYTES_PER_DOCUMENT}, 1)) * 1000 / $5::bigint FROM taken)::bigint
                 WHERE id = $6 AND EXISTS(SELECT 1 FROM taken)),
               begun AS (UPDATE jobs SET state = 'running' WHERE id = $1 AND state IN ('queued', 'interrupted') AND EXISTS(SELECT 1 FROM taken))
             SELECT job, ordinal, token, attempts, {SLICE_COLUMNS} FROM taken ORDER BY ordinal"
        );
        let remaining = (limit - leases.len()) as i64;
        if remaining > 0 {
            let (job, lease_micros, weight) = (choice.job as i64, seconds as i64 * MICROS_PER_SECOND, i64::from(choice.share.weight));
            let rows = session.query(&sql, &[&job, &remaining, &lease_micros, &choice.min_charged, &weight, &choice.tenant, &now])?;
            for row in &rows {
                let chunk = ChunkId { job: row.at::<i64>(0)? as JobId, ordinal: row.at::<i64>(1)? as u32 };
                leases.push(LeasedChunk { chunk, token: row.at(2)?, attempt: row.at::<i64>(3)? as u32, slice: read_slice(row, 4)? });
            }
        }
    }
    Ok(leases)
}

pub fn return_unstarted(session: &mut Session, leases: &[LeaseToken]) -> DbResult<()> {
    let (jobs, ordinals, tokens) = lease_columns(leases);
    let sql = "UPDATE chunks c SET state = 'waiting', token = 0, until = 0, attempts = attempts - 1
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(job, ordinal, token)
         WHERE c.job = u.job AND c.ordinal = u.ordinal AND c.token = u.token AND c.state = 'leased'";
    session.execute(sql, &[&jobs, &ordinals, &tokens]).map(|_| ())
}

pub fn is_idle(session: &mut Session) -> DbResult<bool> {
    let sql = "SELECT NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'waiting') AND NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'leased')";
    session.query_one(sql, &[])?.at(0)
}

/// Notifies the processes that wait for chunks, when this transaction is committed.
pub fn notify(session: &mut Session, schema: &str) -> DbResult<()> {
    session.execute("SELECT pg_notify($1, '')", &[&channel(schema)]).map(|_| ())
}

/// The name of the channel for these notifications.
pub fn channel(schema: &str) -> String {
    format!("stook_{}", &blake3::hash(schema.as_bytes()).to_hex()[..16])
}

fn lease_columns(leases: &[LeaseToken]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let jobs = leases.iter().map(|lease| lease.chunk.job as i64).collect();
    let ordinals = leases.iter().map(|lease| i64::from(lease.chunk.ordinal)).collect();
    (jobs, ordinals, leases.iter().map(|lease| lease.token).collect())
}

pub fn renew(session: &mut Session, leases: &[LeaseToken], seconds: u64, commit_time: i64) -> DbResult<Vec<LeaseToken>> {
    let until = commit_time + seconds as i64 * MICROS_PER_SECOND;
    let (jobs, ordinals, tokens) = lease_columns(leases);
    let sql = "UPDATE chunks c SET until = $1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS u(job, ordinal, token)
         WHERE c.job = u.job AND c.ordinal = u.ordinal AND c.token = u.token AND c.state = 'leased' RETURNING c.token";
    let renewed: Vec<i64> = session.query(sql, &[&until, &jobs, &ordinals, &tokens])?.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    Ok(leases.iter().filter(|lease| renewed.contains(&lease.token)).copied().collect())
}

pub fn take_over(session: &mut Session, job: JobId) -> DbResult<u64> {
    session.execute("UPDATE chunks SET state = 'waiting', token = 0, until = 0 WHERE job = $1 AND state = 'leased'", &[&(job as i64)])
}

pub fn release(session: &mut Session, failed: FailedLease<'_>, commit_time: i64) -> DbResult<()> {
    let FailedLease { lease, reason, delay_seconds, attempts } = failed;
    let until = commit_time + delay_seconds as i64 * MICROS_PER_SECOND;
    let sql = "UPDATE chunks SET state = CASE WHEN attempts >= $1 THEN 'dead' ELSE 'waiting' END, until = $2, token = 0, reason = $3
         WHERE job = $4 AND ordinal = $5 AND token = $6 AND state = 'leased'";
    session.execute(sql, &[&i64::from(attempts), &until, &reason, &(lease.chunk.job as i64), &i64::from(lease.chunk.ordinal), &lease.token])?;
    Ok(())
}

/// Removes a leased chunk from the queue, if the lease is still held.
pub fn remove_leased_chunk(session: &mut Session, lease: LeaseToken) -> DbResult<()> {
    let sql = "DELETE FROM chunks WHERE job = $1 AND ordinal = $2 AND token = $3 AND state = 'leased'";
    let deleted = session.execute(sql, &[&(lease.chunk.job as i64), &i64::from(lease.chunk.ordinal), &lease.token])?;
    if deleted == 1 { Ok(()) } else { Err(StoreError::Fenced(lease.chunk).into()) }
}

const INFO_COLUMNS: &str = "job, ordinal, state, attempts, documents, length, reason";

fn read_info(row: &Row) -> DbResult<ChunkInfo> {
    let state = match row.at(2)? {
        "waiting" => ChunkState::Waiting,
        "leased" => ChunkState::Leased,
        _ => ChunkState::Dead,
    };
    Ok(ChunkInfo {
        job: row.at::<i64>(0)? as JobId,
        ordinal: row.at::<i64>(1)? as u32,
        state,
        attempts: row.at::<i64>(3)? as u32,
        documents: row.at::<i64>(4)? as u32,
        length: row.at::<i64>(5)? as u64,
        reason: row.at(6)?,
    })
}

pub fn chunks(session: &mut Session, job: Option<JobId>) -> DbResult<Vec<ChunkInfo>> {
    let sql = format!("SELECT {INFO_COLUMNS} FROM chunks WHERE $1::bigint IS NULL OR job = $1 ORDER BY job, ordinal");
    session.query(&sql, &[&job.map(|job| job as i64)])?.iter().map(read_info).collect()
}

pub fn chunk(session: &mut Session, chunk: ChunkId) -> DbResult<ChunkData> {
    let sql = format!("SELECT {INFO_COLUMNS}, {SLICE_COLUMNS} FROM chunks WHERE job = $1 AND ordinal = $2");
    let found = session.query_first(&sql, &[&(chunk.job as i64), &i64::from(chunk.ordinal)])?;
    let found = found.ok_or_else(|| StoreError::Wrong(format!("there is no chunk {chunk} in the queue")))?;
    Ok(ChunkData { info: read_info(&found)?, slice: read_slice(&found, 7)? })
}

pub fn retry(session: &mut Session, job: JobId, ordinal: Option<u32>) -> DbResult<u64> {
    let sql =
        "UPDATE chunks SET state = 'waiting', attempts = 0, until = 0 WHERE job = $1 AND ($2::bigint IS NULL OR ordinal = $2) AND state = 'dead'";
    let retried = session.execute(sql, &[&(job as i64), &ordinal.map(i64::from)])?;
    if retried > 0 {
        reopen(session, job)?;
    }
    Ok(retried)
}

pub fn load_chunk(session: &mut Session, chunk: ChunkId, slice: &ChunkSlice) -> DbResult<()> {
    let state = locked_state(session, chunk.job)?;
    let (job, ordinal) = (chunk.job as i64, i64::from(chunk.ordinal));
    let sql = "SELECT EXISTS(SELECT 1 FROM chunk_journals WHERE job = $1 AND ordinal = $2),
        EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND ordinal = $2 AND state = 'leased')";
    let row = session.query_one(sql, &[&job, &ordinal])?;
    let (done, leased): (bool, bool) = (row.at(0)?, row.at(1)?);
    if done || leased {
        let state = if done { "done already" } else { "leased" };
        return Err(StoreError::Wrong(format!("chunk {chunk} is {state}")).into());
    }
    if state.is_final() && state != JobState::Failed {
        return Err(StoreError::Wrong(format!("job {} is {}", chunk.job, state.name())).into());
    }
    session.execute("DELETE FROM chunks WHERE job = $1 AND ordinal = $2", &[&job, &ordinal])?;
    insert_chunks(session, chunk.job, &[(chunk.ordinal, slice)])?;
    reopen(session, chunk.job)
}

pub fn replace_chunk(session: &mut Session, chunk: ChunkId, parts: &[NewChunk]) -> DbResult<()> {
    let (job, ordinal) = (chunk.job as i64, i64::from(chunk.ordinal));
    if session.execute("DELETE FROM chunks WHERE job = $1 AND ordinal = $2 AND state <> 'leased'", &[&job, &ordinal])? == 0 {
        return Err(StoreError::Wrong(format!("chunk {chunk} is leased or not in the queue any more")).into());
    }
    locked_state(session, chunk.job)?;
    // new numbers start far above those that splitting the file gives, so that an interrupted split can continue undisturbed
    let highest_sql =
        "SELECT greatest((SELECT max(ordinal) FROM chunks WHERE job = $1), (SELECT max(ordinal) FROM chunk_journals WHERE job = $1), 1000000000)";
    let highest: i64 = session.query_one(highest_sql, &[&job])?.at(0)?;
    let parts: Vec<(u32, &ChunkSlice)> = parts.iter().zip(highest as u32 + 1..).map(|(part, ordinal)| (ordinal, &part.slice)).collect();
    insert_chunks(session, chunk.job, &parts)?;
    reopen(session, chunk.job)
}
