//! Jobs: creates, lists and ends them, and counts their chunks.

use super::error::failure;
use super::queue::json;
use super::sql::execute;
use super::tenants::tenant_id;
use crate::journal::OutcomeCounts;
use crate::queue::*;
use crate::schedule::due;
use crate::sql::listing::{OF_JOB, counts_of, ends_as, named_state, no_job, row_of};
use crate::sql::row::read_json;
use crate::{Result, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension, params};

pub fn create_job(connection: &Connection, job: &NewJob, stamp: i64) -> Result<JobId> {
    let tenant = tenant_id(connection, &job.tenant)?;
    execute(
        connection,
        "INSERT INTO jobs(tenant, profile, source, as_of, files, state, created, progress, due) VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?)",
        params![tenant, job.profile, job.source, job.as_of, json(&job.files)?, stamp, json(&SplitProgress::default())?, due(stamp, &job.files)],
    )?;
    Ok(connection.last_insert_rowid() as JobId)
}

/// Ends the job of a finished chunk if it was the last one.
pub fn finish_chunk(connection: &Connection, chunk: ChunkId, stamp: i64) -> Result<()> {
    finish_job(connection, chunk.job, stamp)
}

pub(super) fn finish_job(connection: &Connection, job: JobId, stamp: i64) -> Result<()> {
    let mut left = connection
        .prepare_cached(
            "SELECT EXISTS(SELECT 1 FROM chunks WHERE job = ?1 AND state IN ('waiting', 'leased')), EXISTS(SELECT 1 FROM chunks WHERE job = ?1)",
        )
        .map_err(failure)?;
    let (working, any): (bool, bool) = left.query_row([job as i64], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failure)?;
    if working {
        return Ok(());
    }
    let (progress, state): (String, String) =
        connection.query_row("SELECT progress, state FROM jobs WHERE id = ?", [job as i64], |row| Ok((row.get(0)?, row.get(1)?))).map_err(failure)?;
    let progress: SplitProgress = read_json(&progress, || row_of(job))?;
    if !progress.complete || named_state(job, &state)?.is_final() {
        return Ok(());
    }
    let (state, reason) = ends_as(any, &sum_counts(connection, job)?);
    execute(connection, "UPDATE jobs SET state = ?, reason = ?, finished = ? WHERE id = ?", params![state.name(), reason, stamp, job as i64])
}

fn sum_counts(connection: &Connection, job: JobId) -> Result<OutcomeCounts> {
    let mut statement = connection.prepare_cached("SELECT counts FROM chunk_journals WHERE job = ?").map_err(failure)?;
    let mut rows = statement.query([job as i64]).map_err(failure)?;
    let mut sum = OutcomeCounts::default();
    while let Some(row) = rows.next().map_err(failure)? {
        sum.include(&counts_of(job, row.get_ref(0).map_err(failure)?.as_bytes().unwrap_or_default())?);
    }
    Ok(sum)
}

pub fn job(connection: &Connection, job: JobId, now: i64) -> Result<Job> {
    jobs(connection, Some(job), None, 1, now)?.into_iter().next().ok_or_else(|| no_job(job))
}

pub fn jobs(connection: &Connection, job: Option<JobId>, tenant: Option<&Tenant>, limit: usize, now: i64) -> Result<Vec<Job>> {
    let sql = "SELECT j.id, t.name, j.profile, j.source, j.as_of, j.files, j.state, j.reason, j.created, j.finished, j.progress,
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state IN ('waiting', 'leased')),
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'dead'),
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > ?4)
        FROM jobs j JOIN tenants t ON t.id = j.tenant
        WHERE (?1 IS NULL OR j.id = ?1) AND (?2 IS NULL OR t.name = ?2) ORDER BY j.id DESC LIMIT ?3";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params![job.map(|job| job as i64), tenant.map(Tenant::as_str), limit as i64, now]).map_err(failure)?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let texts = || -> rusqlite::Result<(i64, String, String, String)> { Ok((row.get(0)?, row.get(5)?, row.get(6)?, row.get(10)?)) };
        let (id, files, state, progress) = texts().map_err(failure)?;
        let id = id as JobId;
        let (files, state) = (read_json(&files, || row_of(id))?, named_state(id, &state)?);
        let progress = read_json(&progress, || row_of(id))?;
        let get = || -> rusqlite::Result<Job> {
            Ok(Job {
                id,
                tenant: row.get(1)?,
                profile: row.get(2)?,
                source: row.get(3)?,
                as_of: row.get(4)?,
                files,
                state,
                reason: row.get(7)?,
                created: row.get(8)?,
                finished: row.get(9)?,
                progress,
                counts: OutcomeCounts::default(),
                chunks_left: row.get::<_, i64>(11)? as u64,
                chunks_dead: row.get::<_, i64>(12)? as u64,
                chunks_working: row.get::<_, i64>(13)? as u64,
            })
        };
        jobs.push(get().map_err(failure)?);
    }
    drop(rows);
    for job in &mut jobs {
        job.counts = sum_counts(connection, job.id)?;
    }
    Ok(jobs)
}

pub fn interrupt_job(connection: &Connection, job: JobId, stamp: i64) -> Result<()> {
    job_state(connection, job)?;
    let sql = "UPDATE jobs SET state = 'interrupted' WHERE id = ?1 AND state IN ('queued', 'running')
         AND NOT EXISTS(SELECT 1 FROM chunks WHERE job = ?1 AND state = 'leased' AND until > ?2)";
    execute(connection, sql, params![job as i64, stamp])
}

pub fn end_job(connection: &Connection, job: JobId, state: JobState, reason: &str, stamp: i64) -> Result<()> {
    if !matches!(state, JobState::Failed | JobState::Cancelled) {
        return Err(StoreError::Wrong(format!("a job is ended as failed or cancelled, not as {}", state.name())));
    }
    if job_state(connection, job)?.is_final() {
        return Ok(());
    }
    let sql = "UPDATE jobs SET state = ?, reason = ?, finished = ? WHERE id = ?";
    execute(connection, sql, params![state.name(), reason, stamp, job as i64])?;
    execute(connection, "DELETE FROM chunks WHERE job = ?", params![job as i64])
}

pub fn forget_job(connection: &Connection, job: JobId) -> Result<()> {
    if !job_state(connection, job)?.is_final() {
        return Ok(());
    }
    for (table, column) in OF_JOB {
        execute(connection, &format!("DELETE FROM {table} WHERE {column} = ?"), params![job as i64])?;
    }
    Ok(())
}

/// Returns the state of a job, which must exist.
pub fn job_state(connection: &Connection, job: JobId) -> Result<JobState> {
    let mut statement = connection.prepare_cached("SELECT state FROM jobs WHERE id = ?").map_err(failure)?;
    let found: Option<String> = statement.query_row([job as i64], |row| row.get(0)).optional().map_err(failure)?;
    named_state(job, &found.ok_or_else(|| no_job(job))?)
}

/// Sets a failed job to interrupted, so that it can continue.
pub(super) fn reopen(connection: &Connection, job: JobId) -> Result<()> {
    execute(
        connection,
        "UPDATE jobs SET state = 'interrupted', reason = NULL, finished = NULL WHERE id = ? AND state = 'failed'",
        params![job as i64],
    )
}
