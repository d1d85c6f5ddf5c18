//! Journals: written with their chunks, listed with later corrections; and the documents that failed.

use super::error::store_error;
use super::jobs::job;
use super::sql::execute;
use super::tables::StoreTables;
use crate::Result;
use crate::journal::{ChunkJournal, JournalEntry, Outcome};
use crate::queue::*;
use crate::sql::listing::{self, ChunkOutcomes, JournalPage, JournalRange, ReasonRow, outcome_by_number, pack_counts, read_job_outcomes};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::HashMap;
use stook_catalogue::ids::{CollectionId, IdVec};

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
    for issue in listing::issues(journal, |collection| tables.names[collection].clone()) {
        execute(
            connection,
            "INSERT INTO troubles(job, document, file, record, position, key, failed, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                chunk.job as i64,
                issue.document as i64,
                issue.file as i64,
                issue.record as i64,
                issue.offset as i64,
                issue.key,
                issue.failed,
                issue.reason
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
    add_reasons(connection, job.id, &mut page.entries, troubles_only)?;
    Ok(page.entries)
}

fn read_outcomes(job: JobId, row: &Row<'_>) -> Result<ChunkOutcomes> {
    let outcomes = read_job_outcomes(job, row.get_ref(0).map_err(store_error)?.as_bytes().unwrap_or_default())?;
    let number = |index| row.get::<_, i64>(index).map_err(store_error);
    Ok(ChunkOutcomes { outcomes, file: number(1)? as usize, file_start: number(2)? as u64 })
}

/// Fills a page with the documents after number `after`, beginning with the chunk that may contain the next one.
fn list_all(connection: &Connection, page: &mut JournalPage<'_>, after: i64) -> Result<()> {
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = ?1
        AND first >= coalesce((SELECT max(first) FROM chunk_journals WHERE job = ?1 AND first <= ?2), 0) ORDER BY first";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![page.job.id as i64, after.saturating_add(1)]).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let chunk = read_outcomes(page.job.id, row)?;
        for outcome in chunk.outcomes.iter().filter(|outcome| outcome.document > after as u64) {
            if page.is_full(outcome.document) {
                return Ok(());
            }
            page.add(outcome, &chunk);
        }
    }
    Ok(())
}

/// Fills a page with the documents after number `after` that have failures or warnings; chunks without any are not read.
fn list_troubled(connection: &Connection, page: &mut JournalPage<'_>, after: i64) -> Result<()> {
    let limit = page.limit.min(i64::MAX as usize) as i64;
    let sql = "SELECT DISTINCT document FROM troubles WHERE job = ? AND document > ? AND position >= 0 ORDER BY document LIMIT ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let documents = statement.query_map(params![page.job.id as i64, after, limit], |row| row.get::<_, i64>(0)).map_err(store_error)?;
    let documents: Vec<i64> = documents.collect::<rusqlite::Result<_>>().map_err(store_error)?;
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = ? AND first <= ? ORDER BY first DESC LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut chunk = ChunkOutcomes { outcomes: Vec::new(), file: 0, file_start: 0 };
    for document in documents {
        let number = document as u64;
        if page.is_full(number) {
            return Ok(());
        }
        if chunk.outcomes.last().is_none_or(|last| last.document < number) {
            let mut rows = statement.query(params![page.job.id as i64, document]).map_err(store_error)?;
            if let Some(row) = rows.next().map_err(store_error)? {
                chunk = read_outcomes(page.job.id, row)?;
            }
        }
        let first = chunk.outcomes.partition_point(|outcome| outcome.document < number);
        chunk.outcomes[first..].iter().take_while(|outcome| outcome.document == number).for_each(|outcome| page.add(outcome, &chunk));
    }
    Ok(())
}

/// Adds to the entries of a page why they failed, or what was left out.
fn add_reasons(connection: &Connection, job: JobId, entries: &mut Vec<JournalEntry>, issues_only: bool) -> Result<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let sql = "SELECT document, CASE WHEN position < 0 THEN key END, CASE WHEN position >= 0 THEN key END, reason FROM troubles
         WHERE job = ? AND document BETWEEN ? AND ? ORDER BY document, id";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let range = params![job as i64, first.document as i64, last.document as i64];
    let reason =
        |row: &Row<'_>| Ok(ReasonRow { document: row.get::<_, i64>(0)? as u64, collection: row.get(1)?, key: row.get(2)?, reason: row.get(3)? });
    let rows = statement.query_map(range, reason).map_err(store_error)?;
    let rows: Vec<ReasonRow> = rows.collect::<rusqlite::Result<_>>().map_err(store_error)?;
    listing::add_reasons(entries, rows, issues_only);
    Ok(())
}

pub fn failed_document(connection: &Connection, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM failed_documents WHERE job = ? AND document = ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row(params![job as i64, document.min(i64::MAX as u64) as i64], |row| row.get(0)).optional().map_err(store_error)
}

fn corrections(connection: &Connection, job: JobId, after: i64) -> Result<HashMap<(u64, String), Outcome>> {
    let sql = "SELECT document, collection, outcome FROM corrections WHERE job = ? AND document > ?";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let correction = |row: &Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?, row.get::<_, i64>(2)?));
    let rows = statement.query_map([job as i64, after], correction).map_err(store_error)?;
    let mut corrections = HashMap::new();
    for row in rows {
        let (document, collection, outcome) = row.map_err(store_error)?;
        corrections.insert((document, collection), outcome_by_number(job, outcome)?);
    }
    Ok(corrections)
}
