//! Jobs: creates, lists and ends them, and counts their chunks.

use super::error::store_error;
use super::queue::to_json;
use super::sql::execute;
use super::tenants::tenant_id;
use crate::journal::OutcomeCounts;
use crate::queue::*;
use crate::schedule::due;
use crate::sql::listing::{JOB_TABLES, final_state, job_row, no_job, read_job_counts, state_by_name};
use crate::sql::row::read_json;
use crate::{Result, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension, params};

pub fn create_job(connection: &Connection, job: &NewJob, commit_time: i64) -> Result<JobId> {
    let tenant = tenant_id(connection, &job.tenant)?;
    execute(
        connection,
        "INSERT INTO jobs(tenant, profile, source, as_of, files, state, created, progress, due) VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?)",
        params![
            tenant,
            job.profile,
            job.source,
            job.as_of,
            to_json(&job.files)?,
            commit_time,
            to_json(&SplitProgress::default())?,
            due(commit_time, &job.files)
        ],
    )?;
    Ok(connection.last_insert_rowid() as JobId)
}

/// Ends the job of a finished chunk if it was the last one.
pub fn finish_chunk(connection: &Connection, chunk: ChunkId, commit_time: i64) -> Result<()> {
    finish_job(connection, chunk.job, commit_time)
}

pub(super) fn finish_job(connection: &Connection, job: JobId, commit_time: i64) -> Result<()> {
    let mut statement = connection
        .prepare_cached(
            "SELECT EXISTS(SELECT 1 FROM chunks WHERE job = ?1 AND state IN ('waiting', 'leased')), EXISTS(SELECT 1 FROM chunks WHERE job = ?1)",
        )
        .map_err(store_error)?;
    let (has_work, has_dead_chunks): (bool, bool) = statement.query_row([job as i64], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)?;
    if has_work {
        return Ok(());
    }
    let (progress, state): (String, String) = connection
        .query_row("SELECT progress, state FROM jobs WHERE id = ?", [job as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(store_error)?;
    let progress: SplitProgress = read_json(&progress, || job_row(job))?;
    if !progress.complete || state_by_name(job, &state)?.is_final() {
        return Ok(());
    }
    let (state, reason) = final_state(has_dead_chunks, &sum_counts(connection, job)?);
    execute(connection, "UPDATE jobs SET state = ?, reason = ?, finished = ? WHERE id = ?", params![state.name(), reason, commit_time, job as i64])
}

fn sum_counts(connection: &Connection, job: JobId) -> Result<OutcomeCounts> {
    let mut statement = connection.prepare_cached("SELECT counts FROM chunk_journals WHERE job = ?").map_err(store_error)?;
    let mut rows = statement.query([job as i64]).map_err(store_error)?;
    let mut sum = OutcomeCounts::default();
    while let Some(row) = rows.next().map_err(store_error)? {
        sum.include(&read_job_counts(job, row.get_ref(0).map_err(store_error)?.as_bytes().unwrap_or_default())?);
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
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![job.map(|job| job as i64), tenant.map(Tenant::as_str), limit as i64, now]).map_err(store_error)?;
    let mut jobs = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let read_texts = || -> rusqlite::Result<(i64, String, String, String)> { Ok((row.get(0)?, row.get(5)?, row.get(6)?, row.get(10)?)) };
        let (id, files, state, progress) = read_texts().map_err(store_error)?;
        let id = id as JobId;
        let (files, state) = (read_json(&files, || job_row(id))?, state_by_name(id, &state)?);
        let progress = read_json(&progress, || job_row(id))?;
        let read_job = || -> rusqlite::Result<Job> {
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
        jobs.push(read_job().map_err(store_error)?);
    }
    drop(rows);
    for job in &mut jobs {
        job.counts = sum_counts(connection, job.id)?;
    }
    Ok(jobs)
}

pub fn interrupt_job(connection: &Connection, job: JobId, commit_time: i64) -> Result<()> {
    job_state(connection, job)?;
    let sql = "UPDATE jobs SET state = 'interrupted' WHERE id = ?1 AND state IN ('queued', 'running')
         AND NOT EXISTS(SELECT 1 FROM chunks WHERE job = ?1 AND state = 'leased' AND until > ?2)";
    execute(connection, sql, params![job as i64, commit_time])
}

pub fn end_job(connection: &Connection, job: JobId, state: JobState, reason: &str, commit_time: i64) -> Result<()> {
    if !matches!(state, JobState::Failed | JobState::Cancelled) {
        return Err(StoreError::Wrong(format!("a job is ended as failed or cancelled, not as {}", state.name())));
    }
    if job_state(connection, job)?.is_final() {
        return Ok(());
    }
    let sql = "UPDATE jobs SET state = ?, reason = ?, finished = ? WHERE id = ?";
    execute(connection, sql, params![state.name(), reason, commit_time, job as i64])?;
    execute(connection, "DELETE FROM chunks WHERE job = ?", params![job as i64])
}

pub fn forget_job(connection: &Connection, job: JobId) -> Result<()> {
    if !job_state(connection, job)?.is_final() {
        return Ok(());
    }
    for (table, column) in JOB_TABLES {
        execute(connection, &format!("DELETE FROM {table} WHERE {column} = ?"), params![job as i64])?;
    }
    Ok(())
}

/// Returns the state of a job, which must exist.
pub fn job_state(connection: &Connection, job: JobId) -> Result<JobState> {
    let mut statement = connection.prepare_cached("SELECT state FROM jobs WHERE id = ?").map_err(store_error)?;
    let found: Option<String> = statement.query_row([job as i64], |row| row.get(0)).optional().map_err(store_error)?;
    state_by_name(job, &found.ok_or_else(|| no_job(job))?)
}

/// Sets a failed job to interrupted, so that it can continue.
pub(super) fn reopen(connection: &Connection, job: JobId) -> Result<()> {
    execute(
        connection,
        "UPDATE jobs SET state = 'interrupted', reason = NULL, finished = NULL WHERE id = ? AND state = 'failed'",
        params![job as i64],
    )
}
