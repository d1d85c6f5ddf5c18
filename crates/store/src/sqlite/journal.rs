//! Journals: written with their chunks, listed with later corrections; and the documents that failed.

use super::error::failure;
use super::jobs::job;
use super::sql::execute;
use super::tables::StoreTables;
use crate::Result;
use crate::journal::{ChunkJournal, JournalEntry, Outcome};
use crate::queue::*;
use crate::sql::listing::{self, ChunkOutcomes, JournalPage, JournalRange, ReasonRow, corrected, lines_of, pack_counts};
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

/// Fills a page with the documents after number `after`, beginning with the chunk that may contain the next one.
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

/// Fills a page with the documents after number `after` that have failures or warnings; chunks without any are not read.
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

/// Adds to the entries of a page why they failed, or what was left out.
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
