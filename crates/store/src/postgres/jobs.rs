//! Jobs: creates, lists and ends them, and counts their chunks.

use super::queue::to_json;
use super::session::{DbResult, Session};
use super::tenants::tenant_id;
use super::values::RowExt;
use crate::journal::OutcomeCounts;
use crate::queue::*;
use crate::schedule::due;
use crate::sql::listing::{JOB_TABLES, final_state, job_row, no_job, read_job_counts, state_by_name};
use crate::sql::row::read_json;
use crate::{StoreError, Tenant};
use ::tokio_postgres::Row;

pub fn create_job(session: &mut Session, job: &NewJob, commit_time: i64) -> DbResult<JobId> {
    let tenant = tenant_id(session, &job.tenant)?;
    let sql = "INSERT INTO jobs(tenant, profile, source, as_of, files, state, created, progress, due)
         VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7, $8) RETURNING id";
    let (files, progress) = (to_json(&job.files)?, to_json(&SplitProgress::default())?);
    let row =
        session.query_one(sql, &[&tenant, &job.profile, &job.source, &job.as_of, &files, &commit_time, &progress, &due(commit_time, &job.files)])?;
    Ok(row.at::<i64>(0)? as JobId)
}

/// Whether chunks of a job wait or are leased.
pub fn has_work(session: &mut Session, job: JobId) -> DbResult<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'waiting') OR EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'leased')";
    session.query_one(sql, &[&(job as i64)])?.at(0)
}

/// Ends a job if its files are split and none of its chunks waits or is leased.
pub fn finish_job(session: &mut Session, job: JobId, commit_time: i64) -> DbResult<()> {
    let id = job as i64;
    // lock first: other transactions that end or reopen the job are waited for, and seen
    let Some(row) = session.query_first("SELECT progress, state FROM jobs WHERE id = $1 FOR UPDATE", &[&id])? else { return Ok(()) };
    let progress: SplitProgress = read_json(row.at(0)?, || job_row(job))?;
    if !progress.complete || state_by_name(job, row.at(1)?)?.is_final() || has_work(session, job)? {
        return Ok(());
    }
    let has_dead_chunks: bool = session.query_one("SELECT EXISTS(SELECT 1 FROM chunks WHERE job = $1)", &[&id])?.at(0)?;
    let (state, reason) = final_state(has_dead_chunks, &sum_counts(session, job)?);
    session.execute("UPDATE jobs SET state = $1, reason = $2, finished = $3 WHERE id = $4", &[&state.name(), &reason, &commit_time, &id])?;
    Ok(())
}

fn sum_counts(session: &mut Session, job: JobId) -> DbResult<OutcomeCounts> {
    let mut sum = OutcomeCounts::default();
    session.visit("SELECT counts FROM chunk_journals WHERE job = $1", &[&(job as i64)], |row| {
        sum.include(&read_job_counts(job, row.at(0)?)?);
        Ok(())
    })?;
    Ok(sum)
}

pub fn job(session: &mut Session, job: JobId) -> DbResult<Job> {
    jobs(session, Some(job), None, 1)?.into_iter().next().ok_or_else(|| no_job(job).into())
}

pub fn job_state(session: &mut Session, job: JobId) -> DbResult<JobState> {
    let row = session.query_first("SELECT state FROM jobs WHERE id = $1", &[&(job as i64)])?;
    let row = row.ok_or_else(|| no_job(job))?;
    Ok(state_by_name(job, row.at(0)?)?)
}

pub fn jobs(session: &mut Session, job: Option<JobId>, tenant: Option<&Tenant>, limit: usize) -> DbResult<Vec<Job>> {
    let sql = "SELECT j.id, t.name, j.profile, j.source, j.as_of, j.files, j.state, j.reason, j.created, j.finished, j.progress,
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state IN ('waiting', 'leased')),
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'dead'),
        (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased'
           AND c.until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
        FROM jobs j JOIN tenants t ON t.id = j.tenant
        WHERE ($1::bigint IS NULL OR j.id = $1) AND ($2::text IS NULL OR t.name = $2) ORDER BY j.id DESC LIMIT $3";
    let (job, limit) = (job.map(|job| job as i64), limit.min(i64::MAX as usize) as i64);
    let read = |row: Row| -> DbResult<Job> {
        let id = row.at::<i64>(0)? as JobId;
        Ok(Job {
            id,
            tenant: row.at(1)?,
            profile: row.at(2)?,
            source: row.at(3)?,
            as_of: row.at(4)?,
            files: read_json(row.at(5)?, || job_row(id))?,
            state: state_by_name(id, row.at(6)?)?,
            reason: row.at(7)?,
            created: row.at(8)?,
            finished: row.at(9)?,
            progress: read_json(row.at(10)?, || job_row(id))?,
            counts: OutcomeCounts::default(),
            chunks_left: row.at::<i64>(11)? as u64,
            chunks_dead: row.at::<i64>(12)? as u64,
            chunks_working: row.at::<i64>(13)? as u64,
        })
    };
    let mut jobs: Vec<Job> = session.query(sql, &[&job, &tenant.map(Tenant::as_str), &limit])?.into_iter().map(read).collect::<DbResult<_>>()?;
    for job in &mut jobs {
        job.counts = sum_counts(session, job.id)?;
    }
    Ok(jobs)
}

pub fn interrupt_job(session: &mut Session, job: JobId, commit_time: i64) -> DbResult<()> {
    locked_state(session, job)?;
    let sql = "UPDATE jobs SET state = 'interrupted' WHERE id = $1 AND state IN ('queued', 'running')
         AND NOT EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'leased' AND until > $2)";
    session.execute(sql, &[&(job as i64), &commit_time])?;
    Ok(())
}

pub fn end_job(session: &mut Session, job: JobId, state: JobState, reason: &str, commit_time: i64) -> DbResult<()> {
    if !matches!(state, JobState::Failed | JobState::Cancelled) {
        return Err(StoreError::Wrong(format!("a job is ended as failed or cancelled, not as {}", state.name())).into());
    }
    if locked_state(session, job)?.is_final() {
        return Ok(());
    }
    let sql = "UPDATE jobs SET state = $1, reason = $2, finished = $3 WHERE id = $4";
    session.execute(sql, &[&state.name(), &reason, &commit_time, &(job as i64)])?;
    session.execute("DELETE FROM chunks WHERE job = $1", &[&(job as i64)])?;
    Ok(())
}

pub fn forget_job(session: &mut Session, job: JobId) -> DbResult<()> {
    if !locked_state(session, job)?.is_final() {
        return Ok(());
    }
    for (table, column) in JOB_TABLES {
        session.execute(&format!("DELETE FROM {table} WHERE {column} = $1"), &[&(job as i64)])?;
    }
    Ok(())
}

/// Returns the state of a job, which must exist, and locks it until the transaction ends.
pub(super) fn locked_state(session: &mut Session, job: JobId) -> DbResult<JobState> {
    let row = session.query_first("SELECT state FROM jobs WHERE id = $1 FOR UPDATE", &[&(job as i64)])?;
    let row = row.ok_or_else(|| no_job(job))?;
    Ok(state_by_name(job, row.at(0)?)?)
}

/// Sets a failed job to interrupted, so that it can continue.
pub(super) fn reopen(session: &mut Session, job: JobId) -> DbResult<()> {
    let sql = "UPDATE jobs SET state = 'interrupted', reason = NULL, finished = NULL WHERE id = $1 AND state = 'failed'";
    session.execute(sql, &[&(job as i64)]).map(|_| ())
}
