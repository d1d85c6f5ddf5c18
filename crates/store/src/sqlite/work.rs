//! Jobs, chunks and journals.

use super::error::failure;
use super::sql::execute;
use super::tables::StoreTables;
use super::tenants::tenant_id;
use crate::journal::{ChunkJournal, JournalEntry, Outcome, OutcomeCounts};
use crate::queue::*;
use crate::schedule::{Backlog, Choice, LeasableJob, TenantLoad, charge, due};
use crate::sql::listing::{
    self, ChunkOutcomes, FailedLease, JournalPage, JournalRange, NO_ANSWER, OF_JOB, ReasonRow, WantedLeases, corrected, counts_of, ends_as,
    is_further, lines_of, named_state, no_job, pack_counts, row_of,
};
use crate::sql::row::read_json;
use crate::{LeaseToken, Result, StoreError, Tenant};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::{BTreeSet, HashMap};
use stook_catalogue::ids::{CollectionId, IdVec};

const SECOND: i64 = 1_000_000;

fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Other(error.to_string()))
}

pub fn create_job(connection: &Connection, job: &NewJob, stamp: i64) -> Result<JobId> {
    let tenant = tenant_id(connection, &job.tenant)?;
    execute(
        connection,
        "INSERT INTO jobs(tenant, profile, source, as_of, files, state, created, progress, due) VALUES (?, ?, ?, ?, ?, 'queued', ?, ?, ?)",
        params![tenant, job.profile, job.source, job.as_of, json(&job.files)?, stamp, json(&SplitProgress::default())?, due(stamp, &job.files)],
    )?;
    Ok(connection.last_insert_rowid() as JobId)
}

pub fn add_chunks(connection: &Connection, job: JobId, chunks: &[NewChunk], progress: SplitProgress, stamp: i64) -> Result<()> {
    let stored: Option<(String, String)> = connection
        .query_row("SELECT progress, state FROM jobs WHERE id = ?", [job as i64], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(failure)?;
    let Some((stored, state)) = stored else { return Err(no_job(job)) };
    let stored: SplitProgress = read_json(&stored, || row_of(job))?;
    // another process that cuts the same files may be ahead: then all this is there already, and must not set it back
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

/// Who waits for workers, and whether some leases have run out.
pub fn line(connection: &Connection, tables: &StoreTables, job: Option<JobId>, now: i64) -> Result<(Backlog, bool)> {
    // one probe of an index for each question about a live job, however many chunks it has
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

/// Declares chunks dead that were leased too often.
fn bury(connection: &Connection, stamp: i64) -> Result<()> {
    let sql =
        "UPDATE chunks SET state = 'dead', until = 0, token = 0, reason = ? WHERE state = 'leased' AND attempts >= ? AND until <= ? RETURNING job";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let dead = statement.query_map(params![NO_ANSWER, MOST_LEASES, stamp], |row| row.get::<_, i64>(0)).map_err(failure)?;
    let jobs: BTreeSet<i64> = dead.collect::<rusqlite::Result<_>>().map_err(failure)?;
    jobs.into_iter().try_for_each(|job| finish_job(connection, job as JobId, stamp))
}

/// Leases up to `limit` chunks of the job that was chosen, those that wait before those whose leases have run out, and charges
/// its tenant.
fn take(connection: &Connection, choice: &Choice, limit: usize, seconds: u64, stamp: i64) -> Result<Vec<LeasedChunk>> {
    let sql = "SELECT id FROM chunks WHERE state = ? AND job = ? AND until <= ? ORDER BY ordinal LIMIT ?";
    let mut free = connection.prepare_cached(sql).map_err(failure)?;
    let mut ids: Vec<i64> = Vec::new();
    for state in ["waiting", "leased"] {
        let room = (limit - ids.len()) as i64;
        let found = free.query_map(params![state, choice.job as i64, stamp, room], |row| row.get(0)).map_err(failure)?;
        ids.extend(found.collect::<rusqlite::Result<Vec<i64>>>().map_err(failure)?);
    }
    // a stamp is given once, so no chunk has the same token twice, whatever happens to the machine's clock
    // and none twice at the same time, however short the lease
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

/// Takes a leased chunk out of the queue, if the lease is still held.
pub fn remove_leased_chunk(connection: &Connection, lease: LeaseToken) -> Result<()> {
    let mut statement =
        connection.prepare_cached("DELETE FROM chunks WHERE job = ? AND ordinal = ? AND token = ? AND state = 'leased'").map_err(failure)?;
    let deleted = statement.execute(params![lease.chunk.job as i64, lease.chunk.ordinal, lease.token]).map_err(failure)?;
    if deleted == 1 { Ok(()) } else { Err(StoreError::Fenced(lease.chunk)) }
}

pub fn write_journal(connection: &Connection, tables: &StoreTables, chunk: ChunkId, journal: &ChunkJournal) -> Result<()> {
    let counts = pack_counts(&journal.counts);
    execute(
        connection,
        "INSERT INTO chunk_journals(job, ordinal, first, counts, file, file_start, lines) VALUES (?, ?, ?, ?, ?, ?, ?)",
        params![
            chunk.job as i64,
            chunk.ordinal,
            journal.first as i64,
            counts,
            journal.file as i64,
            journal.file_start as i64,
            journal.packed_outcomes
        ],
    )?;
    for trouble in listing::issues(journal, |collection| tables.names[collection].clone()) {
        execute(
            connection,
            "INSERT INTO troubles(job, document, file, record, position, key, failed, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                chunk.job as i64,
                trouble.document as i64,
                trouble.file as i64,
                trouble.record as i64,
                trouble.offset as i64,
                trouble.key,
                trouble.failed,
                trouble.reason
            ],
        )?;
    }
    for (document, bytes) in &journal.failed_documents {
        let values = params![chunk.job as i64, *document as i64, bytes];
        execute(connection, "INSERT OR REPLACE INTO failed_documents(job, document, bytes) VALUES (?, ?, ?)", values)?;
    }
    for correction in &journal.corrections {
        execute(
            connection,
            "INSERT OR REPLACE INTO corrections(job, document, collection, outcome) VALUES (?, ?, ?, ?)",
            params![chunk.job as i64, correction.document as i64, tables.names[correction.collection], correction.outcome as u8],
        )?;
    }
    Ok(())
}

/// Ends the job of a finished chunk when it was the last.
pub fn finish_chunk(connection: &Connection, chunk: ChunkId, stamp: i64) -> Result<()> {
    finish_job(connection, chunk.job, stamp)
}

fn finish_job(connection: &Connection, job: JobId, stamp: i64) -> Result<()> {
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

/// The state of a job that must be there.
pub fn job_state(connection: &Connection, job: JobId) -> Result<JobState> {
    let mut statement = connection.prepare_cached("SELECT state FROM jobs WHERE id = ?").map_err(failure)?;
    let found: Option<String> = statement.query_row([job as i64], |row| row.get(0)).optional().map_err(failure)?;
    named_state(job, &found.ok_or_else(|| no_job(job))?)
}

pub fn journal(connection: &Connection, names: &IdVec<CollectionId, String>, range: JournalRange) -> Result<Vec<JournalEntry>> {
    let JournalRange { job, after, limit, troubles_only } = range;
    let job = self::job(connection, job, 0)?;
    let after = after.min(i64::MAX as u64) as i64;
    let corrections = corrections(connection, job.id, after)?;
    let mut page = JournalPage { names, job: &job, corrections, limit, entries: Vec::new() };
    if troubles_only {
        list_troubled(connection, &mut page, after)?;
    } else {
        list_all(connection, &mut page, after)?;
    }
    add_reasons(connection, job.id, &mut page.entries)?;
    Ok(page.entries)
}

fn chunk_lines(job: JobId, row: &Row<'_>) -> Result<ChunkOutcomes> {
    let lines = lines_of(job, row.get_ref(0).map_err(failure)?.as_bytes().unwrap_or_default())?;
    let number = |index| row.get::<_, i64>(index).map_err(failure);
    Ok(ChunkOutcomes { lines, file: number(1)? as usize, file_start: number(2)? as u64 })
}

/// Fills a page with the documents after the place `after`, from the chunk on that may hold the next one.
fn list_all(connection: &Connection, page: &mut JournalPage<'_>, after: i64) -> Result<()> {
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = ?1
        AND first >= coalesce((SELECT max(first) FROM chunk_journals WHERE job = ?1 AND first <= ?2), 0) ORDER BY first";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(params![page.job.id as i64, after.saturating_add(1)]).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let chunk = chunk_lines(page.job.id, row)?;
        for line in chunk.lines.iter().filter(|line| line.document > after as u64) {
            if page.is_full(line.document) {
                return Ok(());
            }
            page.add(line, &chunk);
        }
    }
    Ok(())
}

/// Fills a page with the documents after the place `after` that have failures or warnings; chunks without any are not read.
fn list_troubled(connection: &Connection, page: &mut JournalPage<'_>, after: i64) -> Result<()> {
    let limit = page.limit.min(i64::MAX as usize) as i64;
    let sql = "SELECT DISTINCT document FROM troubles WHERE job = ? AND document > ? AND position >= 0 ORDER BY document LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let documents = statement.query_map(params![page.job.id as i64, after, limit], |row| row.get::<_, i64>(0)).map_err(failure)?;
    let documents: Vec<i64> = documents.collect::<rusqlite::Result<_>>().map_err(failure)?;
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = ? AND first <= ? ORDER BY first DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut chunk = ChunkOutcomes { lines: Vec::new(), file: 0, file_start: 0 };
    for document in documents {
        let number = document as u64;
        if page.is_full(number) {
            return Ok(());
        }
        if chunk.lines.last().is_none_or(|last| last.document < number) {
            let mut rows = statement.query(params![page.job.id as i64, document]).map_err(failure)?;
            if let Some(row) = rows.next().map_err(failure)? {
                chunk = chunk_lines(page.job.id, row)?;
            }
        }
        let first = chunk.lines.partition_point(|line| line.document < number);
        chunk.lines[first..].iter().take_while(|line| line.document == number).for_each(|line| page.add(line, &chunk));
    }
    Ok(())
}

/// Says of the entries of a page why they failed, or what was left out.
fn add_reasons(connection: &Connection, job: JobId, entries: &mut [JournalEntry]) -> Result<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let sql =
        "SELECT document, CASE WHEN position < 0 THEN key END, reason FROM troubles WHERE job = ? AND document BETWEEN ? AND ? ORDER BY document, id";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let range = params![job as i64, first.document as i64, last.document as i64];
    let reason = |row: &Row<'_>| Ok(ReasonRow { document: row.get::<_, i64>(0)? as u64, collection: row.get(1)?, reason: row.get(2)? });
    let rows = statement.query_map(range, reason).map_err(failure)?;
    let rows: Vec<ReasonRow> = rows.collect::<rusqlite::Result<_>>().map_err(failure)?;
    listing::add_reasons(entries, rows);
    Ok(())
}

pub fn failed_document(connection: &Connection, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM failed_documents WHERE job = ? AND document = ?";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    statement.query_row(params![job as i64, document.min(i64::MAX as u64) as i64], |row| row.get(0)).optional().map_err(failure)
}

fn corrections(connection: &Connection, job: JobId, after: i64) -> Result<HashMap<(u64, String), Outcome>> {
    let sql = "SELECT document, collection, outcome FROM corrections WHERE job = ? AND document > ?";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let correction = |row: &Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?, row.get::<_, i64>(2)?));
    let rows = statement.query_map([job as i64, after], correction).map_err(failure)?;
    let mut corrections = HashMap::new();
    for row in rows {
        let (document, collection, outcome) = row.map_err(failure)?;
        corrections.insert((document, collection), corrected(job, outcome)?);
    }
    Ok(corrections)
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

/// Lets a job that failed go on when somebody comes.
fn reopen(connection: &Connection, job: JobId) -> Result<()> {
    execute(
        connection,
        "UPDATE jobs SET state = 'interrupted', reason = NULL, finished = NULL WHERE id = ? AND state = 'failed'",
        params![job as i64],
    )
}

pub fn replace_chunk(connection: &Connection, chunk: ChunkId, parts: &[NewChunk], stamp: i64) -> Result<()> {
    execute(connection, "DELETE FROM chunks WHERE job = ? AND ordinal = ? AND state <> 'leased'", params![chunk.job as i64, chunk.ordinal])?;
    if connection.changes() == 0 {
        return Err(StoreError::Wrong(format!("chunk {chunk} is leased or not in the queue any more")));
    }
    // new numbers start far above those the file's cutting gives, so that an interrupted cutting goes on undisturbed
    let highest = "SELECT max(coalesce((SELECT max(ordinal) FROM chunks WHERE job = ?1), 0), coalesce((SELECT max(ordinal) FROM chunk_journals WHERE job = ?1), 0), 1000000000)";
    let highest: u32 = connection.query_row(highest, [chunk.job as i64], |row| row.get(0)).map_err(failure)?;
    for (number, part) in parts.iter().enumerate() {
        insert_chunk(connection, chunk.job, highest + 1 + number as u32, &part.slice)?;
    }
    reopen(connection, chunk.job)?;
    finish_job(connection, chunk.job, stamp)
}
