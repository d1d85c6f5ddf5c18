//! Erases records: notes which were erased, refuses writes of them, and removes what tells of them.
//!
//! A transaction that writes records holds [`WRITERS_LOCK`] in shared mode, and one that erases holds it alone: so it waits for those that did not know of
//! the erasure, and those that follow do.

use super::session::{DbResult, Session};
use super::store::PostgresStore;
use super::tables::StoreTables;
use super::values::RowExt;
use crate::erasure::{ErasedTraces, Erasure, Erasures, digest, digits};
use crate::sql::change_feed;
use crate::sql::erasure::{ERASED_OPERATION, ErasedRecords, PAGE, digest_of, names_record, other_sources, positions, with_digests, without_record};
use crate::sql::former::has_undo;
use crate::{RecordWrite, Result, StoreError, Tenant, Unit};
use std::collections::HashSet;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// The advisory lock of transactions that write records.
pub const WRITERS_LOCK: &str = "hashtextextended(current_schema() || ' erased', 0)";

/// Notes which records a unit erases, and removes what is found by their keys.
pub fn note(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &dyn Unit, commit_time: i64) -> DbResult<()> {
    if unit.erases().is_empty() {
        return Ok(());
    }
    session.batch(&format!("SELECT pg_advisory_xact_lock({WRITERS_LOCK})"))?;
    let owner = unit.tenant();
    for erased in unit.erases() {
        let collection = &tables.catalogue().collections[erased.collection];
        let (name, key) = (&collection.name, erased.key.as_str());
        session.execute(
            "INSERT INTO erased(digest, tenant, collection, at, reason, finished) VALUES ($1, $2, $3, $4, $5, false) \
             ON CONFLICT (digest) DO UPDATE SET finished = false",
            &[&digest(owner, name, key), &owner.as_str(), name, &commit_time, &erased.reason],
        )?;
        if has_undo(tables.catalogue()) {
            session.execute("DELETE FROM former WHERE tenant = $1 AND collection = $2 AND key = $3", &[&tenant, name, &key])?;
        }
        if let Some(tags) = &collection.tags {
            for table in ["tagged", "trees"] {
                let sql = format!("DELETE FROM {table} WHERE tenant = $1 AND collection = $2 AND key = $3");
                session.execute(&sql, &[&tenant, &i64::from(tags.id), &key])?;
            }
        }
    }
    Ok(())
}

/// Those of these hashes that are noted.
fn find(session: &mut Session, digests: &[Vec<u8>]) -> DbResult<HashSet<Vec<u8>>> {
    session.query("SELECT digest FROM erased WHERE digest = ANY($1)", &[&digests])?.into_iter().map(|row| row.at(0)).collect()
}

/// Reads which of the records that are written were erased; asks only if any record was.
pub fn among(session: &mut Session, tables: &StoreTables, owner: &Tenant, writes: &[RecordWrite]) -> DbResult<ErasedRecords> {
    if !session.has_erased {
        return Ok(ErasedRecords::default());
    }
    ErasedRecords::among(tables.catalogue(), owner, writes, |digests| find(session, digests))
}

impl Erasures for PostgresStore {
    fn erasures(&self) -> Result<Vec<Erasure>> {
        self.with_reader(|session| {
            let sql = "SELECT tenant, collection, digest, at, reason, finished FROM erased ORDER BY at, digest";
            let erasure = |row: ::tokio_postgres::Row| {
                let (tenant, collection, digest) = (row.at(0)?, row.at(1)?, digits(row.at(2)?));
                Ok(Erasure { tenant, collection, digest, at: row.at(3)?, reason: row.at(4)?, finished: row.at(5)? })
            };
            session.query(sql, &[])?.into_iter().map(erasure).collect()
        })
    }

    fn note_erasures(&self, erasures: &[Erasure]) -> Result<u64> {
        let noted = with_digests(erasures)?;
        self.write(|session, _| {
            let sql = "INSERT INTO erased(digest, tenant, collection, at, reason, finished) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
            let mut new = 0;
            for (digest, own) in &noted {
                new += session.execute(sql, &[digest, &own.tenant, &own.collection, &own.at, &own.reason, &own.finished])?;
            }
            Ok(new)
        })
    }

    fn erased(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<usize>> {
        self.with_reader(|session| {
            if !session.query_one("SELECT EXISTS(SELECT 1 FROM erased)", &[])?.at(0)? {
                return Ok(Vec::new());
            }
            let digests: Vec<Vec<u8>> = keys.iter().map(|key| digest_of(&self.catalogue, tenant, collection, key)).collect();
            Ok(positions(&digests, &find(session, &digests)?))
        })
    }

    fn clear_traces(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<ErasedTraces> {
        let mut traces = ErasedTraces::default();
        let (name, text) = (&self.catalogue.collections[collection].name, key.as_str());
        let Some(number) = self.with_reader(|session| self.tenant_id(session, tenant))? else { return Ok(traces) };
        self.clear_journals(number, (collection, text), &mut traces)?;
        if self.catalogue.collections[collection].changes.is_some() {
            self.clear_changes(number, (name, text), &mut traces)?;
        }
        let named = self.answers_naming(number, text)?;
        let (digest, others) = (digest_of(&self.catalogue, tenant, collection, key), other_sources(&self.catalogue, collection));
        let [log, issues, answers, audited] = self.write(|session, _| {
            let of_collection = "job IN (SELECT id FROM jobs WHERE tenant = $1 AND source <> ALL($3))";
            let failed = format!(
                "DELETE FROM failed_documents WHERE {of_collection} AND (job, document) IN (SELECT job, document FROM troubles WHERE key = $2 AND position >= 0)"
            );
            session.execute(&failed, &[&number, &text, &others])?;
            let found = [
                session.execute("DELETE FROM record_log WHERE tenant = $1 AND collection = $2 AND key = $3", &[&number, name, &text])?,
                session.execute(&format!("DELETE FROM troubles WHERE {of_collection} AND key = $2 AND position >= 0"), &[&number, &text, &others])?,
                session.execute("DELETE FROM calls WHERE tenant = $1 AND id = ANY($2)", &[&number, &named])?,
                session.execute(
                    "UPDATE audit SET key = NULL, operation = $1 WHERE tenant = $2 AND collection = $3 AND key = $4",
                    &[&ERASED_OPERATION, &tenant.as_str(), name, &text],
                )?,
            ];
            if session.execute("UPDATE erased SET finished = true WHERE digest = $1", &[&digest])? == 0 {
                return Err(StoreError::Wrong("the record is not erased".into()).into());
            }
            Ok(found)
        })?;
        (traces.log_entries, traces.issues, traces.answers, traces.audit_entries) = (log, issues, answers, audited);
        Ok(traces)
    }

    fn purge(&self) -> Result<()> {
        let fixed = ["audit", "calls", "chunk_journals", "edges", "failed_documents", "marks", "record_log", "tagged", "trees", "troubles"]
            .map(str::to_owned);
        let catalogue = &self.catalogue;
        let kept = [(has_undo(catalogue), "former"), (change_feed::has_changes(catalogue), "changes")];
        let kept = kept.into_iter().filter(|(is_there, _)| *is_there).map(|(_, name)| name.to_owned());
        let tables = &self.context.tables.collections;
        let lists = tables.iter().flat_map(|own| own.lists.iter().chain(&own.uniques)).map(|(_, side)| side.clone());
        for table in fixed.into_iter().chain(kept).chain(tables.iter().map(|own| own.table.clone())).chain(lists) {
            self.context.pool.run(|session| session.batch(&format!("VACUUM {table}")))?;
        }
        Ok(())
    }

    fn lift_erasure(&self, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<bool> {
        let digest = digest_of(&self.catalogue, tenant, collection, key);
        self.write(|session, _| Ok(session.execute("DELETE FROM erased WHERE digest = $1", &[&digest])? > 0))
    }
}

impl PostgresStore {
    /// The calls of a tenant whose kept answers name a record.
    fn answers_naming(&self, tenant: i64, key: &str) -> Result<Vec<Vec<u8>>> {
        let (mut named, mut after) = (Vec::new(), Vec::<u8>::new());
        loop {
            let rows: Vec<(Vec<u8>, Vec<u8>)> = self.with_reader(|session| {
                let sql = "SELECT id, answer FROM calls WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";
                session.query(sql, &[&tenant, &after, &PAGE])?.into_iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect()
            })?;
            let Some((last, _)) = rows.last() else { return Ok(named) };
            after.clone_from(last);
            named.extend(rows.into_iter().filter(|(_, answer)| names_record(answer, key)).map(|(id, _)| id));
        }
    }

    /// Removes a key from the outcomes of all journals of a tenant.
    fn clear_journals(&self, tenant: i64, record: (CollectionId, &str), traces: &mut ErasedTraces) -> Result<()> {
        let names = self.catalogue.collections.iter().map(|collection| collection.name.clone()).collect();
        let mut after = (0_i64, -1_i64);
        loop {
            let rows: Vec<(i64, i64, Vec<u8>)> = self.with_reader(|session| {
                let sql = "SELECT job, ordinal, lines FROM chunk_journals WHERE (job, ordinal) > ($1, $2) AND job IN (SELECT id FROM jobs WHERE tenant = $3) \
                           ORDER BY job, ordinal LIMIT $4";
                let rows = session.query(sql, &[&after.0, &after.1, &tenant, &PAGE])?;
                rows.into_iter().map(|row| Ok((row.at(0)?, row.at(1)?, row.at(2)?))).collect()
            })?;
            let Some((job, ordinal, _)) = rows.last() else { return Ok(()) };
            after = (*job, *ordinal);
            for (job, ordinal, lines) in rows {
                if let Some(lines) = without_record(job as u64, &lines, record, &names, traces)? {
                    let sql = "UPDATE chunk_journals SET lines = $1 WHERE job = $2 AND ordinal = $3";
                    self.write(|session, _| session.execute(sql, &[&lines, &job, &ordinal]))?;
                }
            }
        }
    }

    /// Removes a record's changes, but for its deletions.
    fn clear_changes(&self, tenant: i64, (collection, key): (&str, &str), traces: &mut ErasedTraces) -> Result<()> {
        let mut after = 0_i64;
        loop {
            let rows: Vec<(i64, Vec<u8>)> = self.with_reader(|session| {
                let sql = "SELECT id, entries FROM changes WHERE id > $1 AND tenant = $2 AND collection = $3 ORDER BY id LIMIT $4";
                session.query(sql, &[&after, &tenant, &collection, &PAGE])?.into_iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect()
            })?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            after = *last;
            for (id, entries) in rows {
                if let Some((entries, removed)) = change_feed::without_record(id, &entries, key)? {
                    traces.changes += removed;
                    self.write(|session, _| session.execute("UPDATE changes SET entries = $1 WHERE id = $2", &[&entries, &id]))?;
                }
            }
        }
    }
}
