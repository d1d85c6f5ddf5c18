//! Journals: written with their chunks, listed with later corrections; and the documents that failed.

use super::jobs::job;
use super::session::{DbResult, Session};
use super::values::RowExt;
use crate::journal::{ChunkJournal, JournalEntry, Outcome};
use crate::queue::*;
use crate::sql::listing::{self, ChunkOutcomes, JournalPage, JournalRange, ReasonRow, outcome_by_number, pack_counts, read_job_outcomes};
use ::tokio_postgres::Row;
use std::collections::HashMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::{CollectionId, IdVec};

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
    let issues: Vec<_> = listing::issues(journal, |collection| catalogue.collections[collection].name.clone()).collect();
    if !issues.is_empty() {
        let documents: Vec<i64> = issues.iter().map(|issue| issue.document as i64).collect();
        let files: Vec<i64> = issues.iter().map(|issue| issue.file as i64).collect();
        let records: Vec<i64> = issues.iter().map(|issue| issue.record as i64).collect();
        let positions: Vec<i64> = issues.iter().map(|issue| issue.offset as i64).collect();
        let keys: Vec<Option<String>> = issues.iter().map(|issue| issue.key.as_deref().map(without_nul)).collect();
        let failed: Vec<bool> = issues.iter().map(|issue| issue.failed).collect();
        let reasons: Vec<String> = issues.iter().map(|issue| without_nul(&issue.reason)).collect();
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
        let documents_bytes: Vec<&[u8]> = journal.failed_documents.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        session.execute(
            "INSERT INTO failed_documents(job, document, bytes) SELECT $1, document, bytes FROM unnest($2::bigint[], $3::bytea[]) AS u(document, bytes)
             ON CONFLICT(job, document) DO UPDATE SET bytes = excluded.bytes",
            &[&job, &documents, &documents_bytes],
        )?;
    }
    // of several corrections of one document the last one counts
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

/// Replaces NUL, which PostgreSQL does not store, in texts that may quote input.
fn without_nul(text: &str) -> String {
    text.replace('\0', "\u{2400}")
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
    add_reasons(session, job.id, &mut page.entries, troubles_only)?;
    Ok(page.entries)
}

fn read_outcomes(job: JobId, row: &Row) -> DbResult<ChunkOutcomes> {
    let outcomes = read_job_outcomes(job, row.at(0)?)?;
    Ok(ChunkOutcomes { outcomes, file: row.at::<i64>(1)? as usize, file_start: row.at::<i64>(2)? as u64 })
}

/// Fills a page with the documents after number `after`, beginning with the chunk that may contain the next one.
fn list_all(session: &mut Session, page: &mut JournalPage<'_>, after: i64) -> DbResult<()> {
    let start = "SELECT coalesce(max(first), 0) FROM chunk_journals WHERE job = $1 AND first <= $2";
    let mut start: i64 = session.query_one(start, &[&(page.job.id as i64), &after.saturating_add(1)])?.at(0)?;
    // a few chunks at a time, so that little is read that the page does not need
    let sql = "SELECT lines, file, file_start, first FROM chunk_journals WHERE job = $1 AND first >= $2 ORDER BY first LIMIT 16";
    loop {
        let rows = session.query(sql, &[&(page.job.id as i64), &start])?;
        for row in &rows {
            let chunk = read_outcomes(page.job.id, row)?;
            for outcome in chunk.outcomes.iter().filter(|outcome| outcome.document > after as u64) {
                if page.is_full(outcome.document) {
                    return Ok(());
                }
                page.add(outcome, &chunk);
            }
            start = row.at::<i64>(3)? + 1;
        }
        if rows.len() < 16 {
            return Ok(());
        }
    }
}

/// Fills a page with the documents after number `after` that have failures or warnings; chunks without any are not read.
fn list_troubled(session: &mut Session, page: &mut JournalPage<'_>, after: i64) -> DbResult<()> {
    let limit = page.limit.min(i64::MAX as usize) as i64;
    let sql = "SELECT DISTINCT document FROM troubles WHERE job = $1 AND document > $2 AND position >= 0 ORDER BY document LIMIT $3";
    let documents: Vec<i64> = session.query(sql, &[&(page.job.id as i64), &after, &limit])?.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    let sql = "SELECT lines, file, file_start FROM chunk_journals WHERE job = $1 AND first <= $2 ORDER BY first DESC LIMIT 1";
    let mut chunk = ChunkOutcomes { outcomes: Vec::new(), file: 0, file_start: 0 };
    for document in documents {
        let number = document as u64;
        if page.is_full(number) {
            return Ok(());
        }
        if chunk.outcomes.last().is_none_or(|last| last.document < number)
            && let Some(row) = session.query_first(sql, &[&(page.job.id as i64), &document])?
        {
            chunk = read_outcomes(page.job.id, &row)?;
        }
        let first = chunk.outcomes.partition_point(|outcome| outcome.document < number);
        chunk.outcomes[first..].iter().take_while(|outcome| outcome.document == number).for_each(|outcome| page.add(outcome, &chunk));
    }
    Ok(())
}

/// Adds to the entries of a page why they failed, or what was left out.
fn add_reasons(session: &mut Session, job: JobId, entries: &mut Vec<JournalEntry>, issues_only: bool) -> DbResult<()> {
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(()) };
    let sql = "SELECT document, CASE WHEN position < 0 THEN key END, CASE WHEN position >= 0 THEN key END, reason FROM troubles
         WHERE job = $1 AND document BETWEEN $2 AND $3 ORDER BY document, id";
    let rows = session.query(sql, &[&(job as i64), &(first.document as i64), &(last.document as i64)])?;
    let reason = |row: &Row| Ok(ReasonRow { document: row.at::<i64>(0)? as u64, collection: row.at(1)?, key: row.at(2)?, reason: row.at(3)? });
    let rows = rows.iter().map(reason);
    listing::add_reasons(entries, rows.collect::<DbResult<Vec<ReasonRow>>>()?, issues_only);
    Ok(())
}

pub fn failed_document(session: &mut Session, job: JobId, document: u64) -> DbResult<Option<Vec<u8>>> {
    let sql = "SELECT bytes FROM failed_documents WHERE job = $1 AND document = $2";
    let found = session.query_first(sql, &[&(job as i64), &(document.min(i64::MAX as u64) as i64)])?;
    found.map(|row| row.at(0)).transpose()
}

fn corrections(session: &mut Session, job: JobId, after: i64) -> DbResult<HashMap<(u64, String), Outcome>> {
    let rows = session.query("SELECT document, collection, outcome FROM corrections WHERE job = $1 AND document > $2", &[&(job as i64), &after])?;
    let correction = |row: &Row| Ok(((row.at::<i64>(0)? as u64, row.at(1)?), outcome_by_number(job, row.at(2)?)?));
    rows.iter().map(correction).collect()
}
