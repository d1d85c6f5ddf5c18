//! Jobs, chunks and journals.
//!
//! A lease is two short statements: one looks at the live jobs, of which [`crate::schedule`] chooses, one takes the chosen
//! job's next chunk with `SKIP LOCKED`, so that nobody waits for another's lease. What they cost does not grow with the number
//! of chunks that wait. A lease is not waited for until it is on the disk, the commit of its chunk is. Whether a job has ended
//! is looked at in a statement of its own after the commit of a chunk: of two transactions that finish the last two chunks
//! neither sees the other's.

use super::session::{DbResult, Session};
use super::tables::StoreTables;
use super::tenants::tenant_id;
use super::values::RowExt;
use crate::journal::{ChunkJournal, JournalEntry, Outcome, OutcomeCounts};
use crate::queue::*;
use crate::schedule::{Backlog, Choice, DOCUMENT_BYTES, LeasableJob, TenantLoad, due};
use crate::sql::listing::{
    self, ChunkOutcomes, FailedLease, JournalPage, JournalRange, NO_ANSWER, OF_JOB, ReasonRow, WantedLeases, corrected, counts_of, ends_as,
    is_further, lines_of, named_state, no_job, pack_counts, row_of,
};
use crate::sql::row::read_json;
use crate::{LeaseToken, StoreError, Tenant};
use ::tokio_postgres::Row;
use std::collections::{BTreeSet, HashMap};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, IdVec};

const SECOND: i64 = 1_000_000;

fn json<T: serde::Serialize>(value: &T) -> DbResult<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()).into())
}

pub fn create_job(session: &mut Session, job: &NewJob, stamp: i64) -> DbResult<JobId> {
    let tenant = tenant_id(session, &job.tenant)?;
    let sql = "INSERT INTO jobs(tenant, profile, source, as_of, files, state, created, progress, due)
         VALUES ($1, $2, $3, $4, $5, 'queued', $6, $7, $8) RETURNING id";
    let (files, progress) = (json(&job.files)?, json(&SplitProgress::default())?);
    let row = session.one(sql, &[&tenant, &job.profile, &job.source, &job.as_of, &files, &stamp, &progress, &due(stamp, &job.files)])?;
    Ok(row.at::<i64>(0)? as JobId)
}

pub fn add_chunks(session: &mut Session, job: JobId, chunks: &[NewChunk], progress: SplitProgress) -> DbResult<()> {
    let Some(row) = session.first("SELECT progress, state FROM jobs WHERE id = $1 FOR UPDATE", &[&(job as i64)])? else {
        return Err(no_job(job).into());
    };
    let stored: SplitProgress = read_json(row.at(0)?, || row_of(job))?;
    // another process that cuts the same files may be ahead: then all this is there already, and must not set it back
    if !is_further(&progress, &stored) {
        return Ok(());
    }
    let state = named_state(job, row.at(1)?)?;
    if state.is_final() {
        return Err(StoreError::Wrong(format!("job {job} is {}", state.name())).into());
    }
    let new: Vec<(u32, &ChunkSlice)> =
        chunks.iter().filter(|chunk| chunk.ordinal > stored.chunks).map(|chunk| (chunk.ordinal, &chunk.slice)).collect();
    insert_chunks(session, job, &new)?;
    session.execute("UPDATE jobs SET progress = $1 WHERE id = $2", &[&json(&progress)?, &(job as i64)])?;
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

const SLICE: &str = "file, position, length, file_documents, documents_before, documents, is_last, head, payload";

fn slice(row: &Row, first: usize) -> DbResult<ChunkSlice> {
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

/// What one statement sees of those who wait for workers.
pub struct LeaseView {
    pub line: Backlog,
    /// Whether some leases have run out.
    pub expired: bool,
    /// Live jobs of which nothing runs and nothing can be leased now: whoever committed the last chunk may not have come to end
    /// them.
    pub maybe_finished: Vec<JobId>,
    /// The server's time, in microseconds.
    pub now: i64,
}

pub fn look(session: &mut Session, tables: &StoreTables, job: Option<JobId>) -> DbResult<LeaseView> {
    // one probe of an index for each question about a live job, however many chunks it has
    let sql = "SELECT m.value, j.id, j.tenant, j.due, t.name, t.given,
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'waiting' AND c.until <= n.now),
          (SELECT count(*) FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until > n.now),
          EXISTS(SELECT 1 FROM chunks c WHERE c.job = j.id AND c.state = 'leased' AND c.until <= n.now), n.now
        FROM meta m CROSS JOIN (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) n
        LEFT JOIN (jobs j JOIN tenants t ON t.id = j.tenant)
          ON j.finished IS NULL AND ($1::bigint IS NULL OR j.tenant = (SELECT tenant FROM jobs WHERE id = $1))
        WHERE m.name = 'definition'";
    let rows = session.query(sql, &[&job.map(|job| job as i64)])?;
    if !tables.holds(rows.first().map(|row| row.at::<Option<&str>>(0)).transpose()?.flatten()) {
        return Err(StoreError::DefinitionChanged.into());
    }
    let (mut line, mut expired, mut quiet) = (Backlog::default(), false, Vec::new());
    let now = rows.first().map(|row| row.at(9)).transpose()?.unwrap_or(0);
    for row in rows {
        let Some(id) = row.at::<Option<i64>>(1)? else { continue };
        let (id, tenant) = (id as JobId, row.at(2)?);
        let owner = TenantLoad { tenant, share: tables.catalogue().share(row.at(4)?), charged: row.at(5)?, running: row.at::<i64>(7)? as u32 };
        let wanted = job.is_none_or(|job| job == id);
        let (waits, has_expired): (bool, bool) = (row.at(6)?, row.at(8)?);
        expired |= has_expired && wanted;
        if wanted && !waits && !has_expired && owner.running == 0 {
            quiet.push(id);
        }
        line.add(owner, LeasableJob { job: id, tenant, due: row.at(3)? }, (waits || has_expired) && wanted);
    }
    Ok(LeaseView { line, expired, maybe_finished: quiet, now })
}

/// Declares chunks dead that were leased too often; returns their jobs.
pub fn bury(session: &mut Session, now: i64) -> DbResult<Vec<JobId>> {
    let sql = "UPDATE chunks c SET state = 'dead', until = 0, token = 0, reason = $2
          FROM (SELECT job, ordinal FROM chunks WHERE state = 'leased' AND attempts >= $1
                AND until <= $3 ORDER BY job, ordinal FOR UPDATE SKIP LOCKED) AS old
          WHERE c.job = old.job AND c.ordinal = old.ordinal RETURNING c.job";
    let rows = session.query(sql, &[&i64::from(MOST_LEASES), &NO_ANSWER, &now])?;
    let jobs: BTreeSet<i64> = rows.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    Ok(jobs.into_iter().map(|job| job as JobId).collect())
}

/// [`take`] for a tenant that has a limit: one worker after the other looks how much room there is.
pub fn take_within(session: &mut Session, choice: &Choice, most: u32, wanted: WantedLeases, now: i64) -> DbResult<Vec<LeasedChunk>> {
    session.batch("BEGIN")?;
    session.one("SELECT 1 FROM tenants WHERE id = $1 FOR UPDATE", &[&choice.tenant])?;
    let running = "SELECT count(*) FROM chunks c JOIN jobs j ON j.id = c.job
         WHERE c.state = 'leased' AND c.until > $2 AND j.tenant = $1";
    let running: i64 = session.one(running, &[&choice.tenant, &now])?.at(0)?;
    let limit = wanted.limit.min((i64::from(most) - running).max(0) as usize);
    let leases = take(session, choice, WantedLeases { limit, ..wanted }, now)?;
    session.batch("COMMIT")?;
    Ok(leases)
}

/// Leases up to `limit` chunks of the job that was chosen, those that wait before those whose leases have run out, and charges
/// its tenant. Each statement is a transaction of its own. `now` is when the job was chosen: what runs out later is left.
pub fn take(session: &mut Session, choice: &Choice, wanted: WantedLeases, now: i64) -> DbResult<Vec<LeasedChunk>> {
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
                   + (SELECT sum(greatest(documents + length / {DOCUMENT_BYTES}, 1)) * 1000 / $5::bigint FROM taken)::bigint
                 WHERE id = $6 AND EXISTS(SELECT 1 FROM taken)),
               begun AS (UPDATE jobs SET state = 'running' WHERE id = $1 AND state IN ('queued', 'interrupted') AND EXISTS(SELECT 1 FROM taken))
             SELECT job, ordinal, token, attempts, {SLICE} FROM taken ORDER BY ordinal"
        );
        let room = (limit - leases.len()) as i64;
        if room > 0 {
            let (job, time, weight) = (choice.job as i64, seconds as i64 * SECOND, i64::from(choice.share.weight));
            let rows = session.query(&sql, &[&job, &room, &time, &choice.min_charged, &weight, &choice.tenant, &now])?;
            for row in &rows {
                let chunk = ChunkId { job: row.at::<i64>(0)? as JobId, ordinal: row.at::<i64>(1)? as u32 };
                leases.push(LeasedChunk { chunk, token: row.at(2)?, attempt: row.at::<i64>(3)? as u32, slice: slice(row, 4)? });
            }
        }
    }
    Ok(leases)
}

pub fn return_unstarted(session: &mut Session, leases: &[LeaseToken]) -> DbResult<()> {
    let (jobs, ordinals, tokens) = columns(leases);
    let sql = "UPDATE chunks c SET state = 'waiting', token = 0, until = 0, attempts = attempts - 1
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u(job, ordinal, token)
         WHERE c.job = u.job AND c.ordinal = u.ordinal AND c.token = u.token AND c.state = 'leased'";
    session.execute(sql, &[&jobs, &ordinals, &tokens]).map(|_| ())
}

pub fn is_idle(session: &mut Session) -> DbResult<bool> {
    let sql = "SELECT NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'waiting') AND NOT EXISTS(SELECT 1 FROM chunks WHERE state = 'leased')";
    session.one(sql, &[])?.at(0)
}

/// Tells those who wait for chunks, when this transaction is committed.
pub fn tell(session: &mut Session, schema: &str) -> DbResult<()> {
    session.execute("SELECT pg_notify($1, '')", &[&channel(schema)]).map(|_| ())
}

/// The name under which those who wait for chunks are told.
pub fn channel(schema: &str) -> String {
    format!("stook_{}", &blake3::hash(schema.as_bytes()).to_hex()[..16])
}

fn columns(leases: &[LeaseToken]) -> (Vec<i64>, Vec<i64>, Vec<i64>) {
    let jobs = leases.iter().map(|lease| lease.chunk.job as i64).collect();
    let ordinals = leases.iter().map(|lease| i64::from(lease.chunk.ordinal)).collect();
    (jobs, ordinals, leases.iter().map(|lease| lease.token).collect())
}

pub fn renew(session: &mut Session, leases: &[LeaseToken], seconds: u64, stamp: i64) -> DbResult<Vec<LeaseToken>> {
    let until = stamp + seconds as i64 * SECOND;
    let (jobs, ordinals, tokens) = columns(leases);
    let sql = "UPDATE chunks c SET until = $1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS u(job, ordinal, token)
         WHERE c.job = u.job AND c.ordinal = u.ordinal AND c.token = u.token AND c.state = 'leased' RETURNING c.token";
    let held: Vec<i64> = session.query(sql, &[&until, &jobs, &ordinals, &tokens])?.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    Ok(leases.iter().filter(|lease| held.contains(&lease.token)).copied().collect())
}

pub fn take_over(session: &mut Session, job: JobId) -> DbResult<u64> {
    session.execute("UPDATE chunks SET state = 'waiting', token = 0, until = 0 WHERE job = $1 AND state = 'leased'", &[&(job as i64)])
}

pub fn release(session: &mut Session, failed: FailedLease<'_>, stamp: i64) -> DbResult<()> {
    let FailedLease { lease, reason, delay_seconds, attempts } = failed;
    let until = stamp + delay_seconds as i64 * SECOND;
    let sql = "UPDATE chunks SET state = CASE WHEN attempts >= $1 THEN 'dead' ELSE 'waiting' END, until = $2, token = 0, reason = $3
         WHERE job = $4 AND ordinal = $5 AND token = $6 AND state = 'leased'";
    session.execute(sql, &[&i64::from(attempts), &until, &reason, &(lease.chunk.job as i64), &i64::from(lease.chunk.ordinal), &lease.token])?;
    Ok(())
}

/// Takes a leased chunk out of the queue, if the lease is still held.
pub fn remove_leased_chunk(session: &mut Session, lease: LeaseToken) -> DbResult<()> {
    let sql = "DELETE FROM chunks WHERE job = $1 AND ordinal = $2 AND token = $3 AND state = 'leased'";
    let deleted = session.execute(sql, &[&(lease.chunk.job as i64), &i64::from(lease.chunk.ordinal), &lease.token])?;
    if deleted == 1 { Ok(()) } else { Err(StoreError::Fenced(lease.chunk).into()) }
}

pub fn write_journal(session: &mut Session, catalogue: &Catalogue, chunk: ChunkId, journal: &ChunkJournal) -> DbResult<()> {
    let job = chunk.job as i64;
    session.execute(
        "INSERT INTO chunk_journals(job, ordinal, first, counts, file, file_start, lines) VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &[
            &job,
            &i64::from(chunk.ordinal),
            &(journal.first as i64),
            &pack_counts(&journal.counts),
            &(journal.file as i64),
            &(journal.file_start as i64),
            &journal.packed_outcomes,
        ],
    )?;
    let troubles: Vec<_> = listing::issues(journal, |collection| catalogue.collections[collection].name.clone()).collect();
    if !troubles.is_empty() {
        let documents: Vec<i64> = troubles.iter().map(|trouble| trouble.document as i64).collect();
        let files: Vec<i64> = troubles.iter().map(|trouble| trouble.file as i64).collect();
        let records: Vec<i64> = troubles.iter().map(|trouble| trouble.record as i64).collect();
        let positions: Vec<i64> = troubles.iter().map(|trouble| trouble.offset as i64).collect();
        let keys: Vec<Option<String>> = troubles.iter().map(|trouble| trouble.key.as_deref().map(without_nul)).collect();
        let failed: Vec<bool> = troubles.iter().map(|trouble| trouble.failed).collect();
        let reasons: Vec<String> = troubles.iter().map(|trouble| without_nul(&trouble.reason)).collect();
        session.execute(
            "INSERT INTO troubles(job, document, file, record, position, key, failed, reason)
             SELECT $1, document, file, record, position, key, failed, reason
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::boolean[], $8::text[])
             WITH ORDINALITY AS u(document, file, record, position, key, failed, reason, place) ORDER BY place",
            &[&job, &documents, &files, &records, &positions, &keys, &failed, &reasons],
        )?;
    }
    if !journal.failed_documents.is_empty() {
        let documents: Vec<i64> = journal.failed_documents.iter().map(|(document, _)| *document as i64).collect();
        let all: Vec<&[u8]> = journal.failed_documents.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        session.execute(
            "INSERT INTO failed_documents(job, document, bytes) SELECT $1, document, bytes FROM unnest($2::bigint[], $3::bytea[]) AS u(document, bytes)
             ON CONFLICT(job, document) DO UPDATE SET bytes = excluded.bytes",
            &[&job, &documents, &all],
        )?;
    }
    // of several corrections of one document the last counts
    let corrections: HashMap<(i64, &str), i64> = journal
        .corrections
        .iter()
        .map(|correction| {
            let collection = catalogue.collections[correction.collection].name.as_str();
            ((correction.document as i64, collection), correction.outcome as i64)
        })
        .collect();
    if !corrections.is_empty() {
        let documents: Vec<i64> = corrections.keys().map(|(document, _)| *document).collect();
        let collections: Vec<&str> = corrections.keys().map(|(_, collection)| *collection).collect();
        let outcomes: Vec<i64> = corrections.values().copied().collect();
        session.execute(
            "INSERT INTO corrections(job, document, collection, outcome)
             SELECT $1, document, collection, outcome FROM unnest($2::bigint[], $3::text[], $4::bigint[]) AS u(document, collection, outcome)
             ORDER BY document, collection
             ON CONFLICT (job, document, collection) DO UPDATE SET outcome = excluded.outcome",
            &[&job, &documents, &collections, &outcomes],
        )?;
    }
    Ok(())
}

/// Words about input may quote what the database does not take.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{2400}")
}

/// Whether chunks of a job wait or are leased.
pub fn has_work(session: &mut Session, job: JobId) -> DbResult<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'waiting') OR EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'leased')";
    session.one(sql, &[&(job as i64)])?.at(0)
}

/// Ends a job when nothing of it is left to do.
pub fn finish_job(session: &mut Session, job: JobId, stamp: i64) -> DbResult<()> {
    let id = job as i64;
    // the lock comes first: whoever else ends or reopens the job is waited for, and seen
    let Some(row) = session.first("SELECT progress, state FROM jobs WHERE id = $1 FOR UPDATE", &[&id])? else { return Ok(()) };
    let progress: SplitProgress = read_json(row.at(0)?, || row_of(job))?;
    if !progress.complete || named_state(job, row.at(1)?)?.is_final() || has_work(session, job)? {
        return Ok(());
    }
    let dead: bool = session.one("SELECT EXISTS(SELECT 1 FROM chunks WHERE job = $1)", &[&id])?.at(0)?;
    let (state, reason) = ends_as(dead, &sum_counts(session, job)?);
    session.execute("UPDATE jobs SET state = $1, reason = $2, finished = $3 WHERE id = $4", &[&state.name(), &reason, &stamp, &id])?;
    Ok(())
}

fn sum_counts(session: &mut Session, job: JobId) -> DbResult<OutcomeCounts> {
    let mut sum = OutcomeCounts::default();
    session.visit("SELECT counts FROM chunk_journals WHERE job = $1", &[&(job as i64)], |row| {
        sum.include(&counts_of(job, row.at(0)?)?);
        Ok(())
    })?;
    Ok(sum)
}

pub fn job(session: &mut Session, job: JobId) -> DbResult<Job> {
    jobs(session, Some(job), None, 1)?.into_iter().next().ok_or_else(|| no_job(job).into())
}

pub fn job_state(session: &mut Session, job: JobId) -> DbResult<JobState> {
    let row = session.first("SELECT state FROM jobs WHERE id = $1", &[&(job as i64)])?;
    let row = row.ok_or_else(|| no_job(job))?;
    Ok(named_state(job, row.at(0)?)?)
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
            files: read_json(row.at(5)?, || row_of(id))?,
            state: named_state(id, row.at(6)?)?,
            reason: row.at(7)?,
            created: row.at(8)?,
            finished: row.at(9)?,
            progress: read_json(row.at(10)?, || row_of(id))?,
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

pub fn interrupt_job(session: &mut Session, job: JobId, stamp: i64) -> DbResult<()> {
    locked_state(session, job)?;
    let sql = "UPDATE jobs SET state = 'interrupted' WHERE id = $1 AND state IN ('queued', 'running')
         AND NOT EXISTS(SELECT 1 FROM chunks WHERE job = $1 AND state = 'leased' AND until > $2)";
    session.execute(sql, &[&(job as i64), &stamp])?;
    Ok(())
}

pub fn end_job(session: &mut Session, job: JobId, state: JobState, reason: &str, stamp: i64) -> DbResult<()> {
    if !matches!(state, JobState::Failed | JobState::Cancelled) {
        return Err(StoreError::Wrong(format!("a job is ended as failed or cancelled, not as {}", state.name())).into());
    }
    if locked_state(session, job)?.is_final() {
        return Ok(());
    }
    let sql = "UPDATE jobs SET state = $1, reason = $2, finished = $3 WHERE id = $4";
    session.execute(sql, &[&state.name(), &reason, &stamp, &(job as i64)])?;
    session.execute("DELETE FROM chunks WHERE job = $1", &[&(job as i64)])?;
    Ok(())
}

pub fn forget_job(session: &mut Session, job: JobId) -> DbResult<()> {
    if !locked_state(session, job)?.is_final() {
        return Ok(());
    }
    for (table, column) in OF_JOB {
        session.execute(&format!("DELETE FROM {table} WHERE {column} = $1"), &[&(job as i64)])?;
    }
    Ok(())
}

/// The state of a job that must be there; nobody else changes it until the transaction ends.
fn locked_state(session: &mut Session, job: JobId) -> DbResult<JobState> {
    let row = session.first("SELECT state FROM jobs WHERE id = $1 FOR UPDATE", &[&(job as i64)])?;
    let row = row.ok_or_else(|| no_job(job))?;
    Ok(named_state(job, row.at(0)?)?)
}

pub fn journal(session: &mut Session, names: &IdVec<CollectionId, String>, range: JournalRange) -> DbResult<Vec<JournalEntry>> {
    let JournalRange { job, after, limit, troubles_only } = range;
    let job = self::job(session, job)?;
    let after = after.min(i64::MAX as u64) as i64;
    let corrections = corrections(session, job.id, after)?;
    let mut page = JournalPage { names, job: &job, corrections, limit, entries: Vec::new() };
    if troubles_only {
        list_troubled(session, &mut page, after)?;
    } else {
        list_all(session, &mut page, after)?;
    }
    add_reasons(session, job.id, &mut page.entries)?;
    Ok(page.entries)
}

fn chunk_lines(job: JobId, row: &Row) -> DbResult<ChunkOutcomes> {
    let lines = lines_of(job, row.at(0)?)?;
    Ok(ChunkOutcomes { lines, file: row.at::<i64>(1)? as usize, file_start: row.at::<i64>(2)? as u64 })
}

/// Fills a page with the documents after the place `after`, from the chunk on that may hold the next one.
fn list_all(session: &mut Session, page: &mut JournalPage<'_>, after: i64) -> DbResult<()> {
    let start = "SELECT coalesce(max(first), 0) FROM chunk_journals WHERE job = $1 AND first <= $2";
    let mut start: i64 = session.one(start, &[&(page.job.id as i64), &after.saturating_add(1)])?.at(0)?;
    // some chunks at a time: what a page does not need is not read
    let sql = "SELECT lines, file, file_start, first FROM chunk_journals WHERE job = $1 AND first >= $2 ORDER BY first LIMIT 16";
    loop {
        let rows = session.query(sql, &[&(page.job.id as i64), &start])?;
        for row in &rows {
            let chunk = chunk_lines(page.job.id, row)?;
            for line in chunk.lines.iter().filter(|line| line.document > after as u64) {
                if page.is_full(line.document) {
                    return Ok(());
                }
                page.add(line, &chunk);
            }
            start = row.at::<i64>(3)? + 1;
        }
        if rows.len() < 16 {
            return Ok(());
        }
    }
}

/// Fills a page with the documents after the place `after` that have failures or warnings; chunks without any are not read.
fn list_troubled(session: &mut Session, page: &mut JournalPage<'_>, after: i64) -> DbResult<()> {
    let limit = page.limit.min(i64::MAX as usize) as i64;
    let sql = "SELECT DISTINCT document FROM troubles WHERE job = $1 AND document > $2 AND position >= 0 ORDER BY document LIMIT $3";
    let documents: Vec<i64> = session.query(sql, &[&(page.job.id as i64), &after, &limit])?.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = $1 AND first <= $2 ORDER BY first DESC LIMIT 1";
    let mut chunk = ChunkOutcomes { lines: Vec::new(), file: 0, file_start: 0 };
    for document in documents {
        let number = document as u64;
        if page.is_full(number) {
            return Ok(());
        }
        if chunk.lines.last().is_none_or(|last| last.document < number)
            && let Some(row) = session.first(sql, &[&(page.job.id as i64), &document])?
        {
            chunk = chunk_lines(page.job.id, &row)?;
        }
        let first = chunk.lines.partition_point(|line| line.document < number);
        chunk.lines[first..].iter().take_while(|line| line.document == number).for_each(|line| page.add(line, &chunk));
    }
    Ok(())
}

/// Says of the entries of a page why they failed, or what was left out.
fn add_reasons(session: &mut Session, job: JobId, entries: &mut [JournalEntry]) -> DbResult<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let sql = "SELECT document, CASE WHEN position < 0 THEN key END, reason FROM troubles WHERE job = $1 AND document BETWEEN $2 AND $3
         ORDER BY document, id";
    let rows = session.query(sql, &[&(job as i64), &(first.document as i64), &(last.document as i64)])?;
    let rows = rows.iter().map(|row| Ok(ReasonRow { document: row.at::<i64>(0)? as u64, collection: row.at(1)?, reason: row.at(2)? }));
    listing::add_reasons(entries, rows.collect::<DbResult<Vec<ReasonRow>>>()?);
    Ok(())
}

pub fn failed_document(session: &mut Session, job: JobId, document: u64) -> DbResult<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM failed_documents WHERE job = $1 AND document = $2";
    let found = session.first(sql, &[&(job as i64), &(document.min(i64::MAX as u64) as i64)])?;
    found.map(|row| row.at(0)).transpose()
}

fn corrections(session: &mut Session, job: JobId, after: i64) -> DbResult<HashMap<(u64, String), Outcome>> {
    let rows = session.query("SELECT document, collection, outcome FROM corrections WHERE job = $1 AND document > $2", &[&(job as i64), &after])?;
    let correction = |row: &Row| Ok(((row.at::<i64>(0)? as u64, row.at(1)?), corrected(job, row.at(2)?)?));
    rows.iter().map(correction).collect()
}

const INFO: &str = "job, ordinal, state, attempts, documents, length, reason";

fn info(row: &Row) -> DbResult<ChunkInfo> {
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
    let sql = format!("SELECT {INFO} FROM chunks WHERE $1::bigint IS NULL OR job = $1 ORDER BY job, ordinal");
    session.query(&sql, &[&job.map(|job| job as i64)])?.iter().map(info).collect()
}

pub fn chunk(session: &mut Session, chunk: ChunkId) -> DbResult<ChunkData> {
    let sql = format!("SELECT {INFO}, {SLICE} FROM chunks WHERE job = $1 AND ordinal = $2");
    let found = session.first(&sql, &[&(chunk.job as i64), &i64::from(chunk.ordinal)])?;
    let found = found.ok_or_else(|| StoreError::Wrong(format!("there is no chunk {chunk} in the queue")))?;
    Ok(ChunkData { info: info(&found)?, slice: slice(&found, 7)? })
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
    let row = session.one(sql, &[&job, &ordinal])?;
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

/// Lets a job that failed go on.
fn reopen(session: &mut Session, job: JobId) -> DbResult<()> {
    let sql = "UPDATE jobs SET state = 'interrupted', reason = NULL, finished = NULL WHERE id = $1 AND state = 'failed'";
    session.execute(sql, &[&(job as i64)]).map(|_| ())
}

pub fn replace_chunk(session: &mut Session, chunk: ChunkId, parts: &[NewChunk]) -> DbResult<()> {
    let (job, ordinal) = (chunk.job as i64, i64::from(chunk.ordinal));
    if session.execute("DELETE FROM chunks WHERE job = $1 AND ordinal = $2 AND state <> 'leased'", &[&job, &ordinal])? == 0 {
        return Err(StoreError::Wrong(format!("chunk {chunk} is leased or not in the queue any more")).into());
    }
    locked_state(session, chunk.job)?;
    // new numbers start far above those the file's cutting gives, so that an interrupted cutting goes on undisturbed
    let highest =
        "SELECT greatest((SELECT max(ordinal) FROM chunks WHERE job = $1), (SELECT max(ordinal) FROM chunk_journals WHERE job = $1), 1000000000)";
    let highest: i64 = session.one(highest, &[&job])?.at(0)?;
    let parts: Vec<(u32, &ChunkSlice)> = parts.iter().zip(highest as u32 + 1..).map(|(part, ordinal)| (ordinal, &part.slice)).collect();
    insert_chunks(session, chunk.job, &parts)?;
    reopen(session, chunk.job)
}
