//! Former contributions: the table, reads, writes, and the start of undoing a job.
//!
//! The table `former` is created when the first source of the definition says `undo:`. For each such source, `meta` has its first job that can be
//! undone as `undo SOURCE`; it is removed, with the rows of the source, when the source no longer says so. Whoever changes that row, or relies on it
//! to start undoing a job, locks it.

use super::jobs::{create_job, locked_state};
use super::session::{DbResult, Session};
use super::tables::{StoreTables, TenantTables};
use super::values::RowExt;
use crate::StoreError;
use crate::Unit;
use crate::former::{FormerChange, FormerContribution, OtherJob};
use crate::queue::{JobId, JobState, NewJob, undone_reason};
use crate::sql::former::{first_job_name, has_undo, job_number, no_longer_undoable, not_ended, source_of};
use crate::sql::listing::state_by_name;
use ::tokio_postgres::Row;
use bytes::Bytes;
use std::collections::HashMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

const TABLE: &str = r#"CREATE TABLE IF NOT EXISTS former(tenant bigint NOT NULL, collection text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
  contributor text COLLATE "C" NOT NULL, identity bytea NOT NULL, packed bytea NOT NULL, raw bytea,
  PRIMARY KEY(tenant, collection, key, contributor, identity))"#;

/// Creates the table if a source says `undo:`, and notes from which job on its jobs can be undone.
pub fn prepare(session: &mut Session, catalogue: &Catalogue) -> DbResult<()> {
    for row in session.query("SELECT name FROM meta WHERE name LIKE 'undo %'", &[])? {
        let Some(source) = source_of(row.at(0)?) else { continue };
        if catalogue.source(source).is_none_or(|(_, source)| source.undo.is_none()) {
            session.execute("DELETE FROM meta WHERE name = $1", &[&first_job_name(source)])?;
            session.execute("DELETE FROM former WHERE contributor = $1 OR starts_with(contributor, $1 || ':')", &[&source])?;
        }
    }
    for source in catalogue.sources.iter().filter(|source| source.undo.is_some()) {
        session.batch(TABLE)?;
        let sql = "INSERT INTO meta(name, value) SELECT $1, (coalesce(max(id), 0) + 1)::text FROM jobs ON CONFLICT DO NOTHING";
        session.execute(sql, &[&first_job_name(&source.name)])?;
    }
    Ok(())
}

pub fn former(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    collection: CollectionId,
    keys: &[Key],
) -> DbResult<Vec<Vec<FormerContribution>>> {
    let mut found: Vec<Vec<FormerContribution>> = keys.iter().map(|_| Vec::new()).collect();
    if !has_undo(tables.catalogue()) {
        return Ok(found);
    }
    let sql = "SELECT key, contributor, identity, packed, raw FROM former WHERE tenant = $1 AND collection = $2 AND key = ANY($3) ORDER BY 1, 2, 3";
    let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
    let index_by_key: HashMap<&str, usize> = wanted.iter().enumerate().map(|(index, key)| (*key, index)).collect();
    for row in session.query(sql, &[&tenant, &tables.catalogue().collections[collection].name, &wanted])? {
        let Some(index) = index_by_key.get(row.at::<&str>(0)?) else { continue };
        let id = row.at::<&[u8]>(2)?.try_into().map_err(|_| StoreError::Other("the identity of a former contribution has not 16 bytes".into()))?;
        let raw: Option<Vec<u8>> = row.at(4)?;
        found[*index].push(FormerContribution { contributor: row.at::<&str>(1)?.into(), id, packed: row.at(3)?, raw: raw.map(Bytes::from) });
    }
    Ok(found)
}

pub fn keys_with_former(tenant_tables: TenantTables<'_>, collection: CollectionId, key: &str, limit: usize) -> DbResult<Vec<Key>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    if !has_undo(tables.catalogue()) {
        return Ok(Vec::new());
    }
    let sql = "SELECT DISTINCT key FROM former WHERE tenant = $1 AND collection = $2 AND key > $3 ORDER BY key LIMIT $4";
    let rows = session.query(sql, &[&tenant, &tables.catalogue().collections[collection].name, &key, &(limit as i64)])?;
    super::records::keys_of(&rows)
}

/// Adds a key and a contributor to their lists.
fn push<'w>(lists: &mut [Vec<&'w str>; 2], key: &'w str, contributor: &'w str) {
    lists[0].push(key);
    lists[1].push(contributor);
}

/// Writes a unit's changes of former contributions. The unit has locked their records.
pub fn write(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> DbResult<()> {
    let writes = unit.former();
    for writes in writes.chunk_by(|a, b| a.collection == b.collection) {
        let collection = &tables.catalogue().collections[writes[0].collection].name;
        let (mut removed, mut removed_all): ([Vec<&str>; 2], [Vec<&str>; 2]) = Default::default();
        let (mut removed_ids, mut added_ids): (Vec<&[u8]>, Vec<&[u8]>) = Default::default();
        let mut added: [Vec<&str>; 2] = Default::default();
        let (mut packed, mut raw): (Vec<&[u8]>, Vec<Option<&[u8]>>) = Default::default();
        for write in writes {
            match &write.change {
                FormerChange::Add(former) => {
                    push(&mut added, write.key.as_str(), former.contributor.as_str());
                    added_ids.push(&former.id);
                    packed.push(&former.packed);
                    raw.push(former.raw.as_deref());
                }
                FormerChange::Remove(contributor, id) => {
                    push(&mut removed, write.key.as_str(), contributor.as_str());
                    removed_ids.push(id);
                }
                FormerChange::RemoveAll(contributor) => push(&mut removed_all, write.key.as_str(), contributor.as_str()),
            }
        }
        if !removed_ids.is_empty() {
            let sql = "DELETE FROM former f USING unnest($3::text[], $4::text[], $5::bytea[]) AS u(key, contributor, identity) \
                       WHERE f.tenant = $1 AND f.collection = $2 AND f.key = u.key AND f.contributor = u.contributor AND f.identity = u.identity";
            session.execute(sql, &[&tenant, collection, &removed[0], &removed[1], &removed_ids])?;
        }
        if !removed_all[0].is_empty() {
            let sql = "DELETE FROM former f USING unnest($3::text[], $4::text[]) AS u(key, contributor) \
                       WHERE f.tenant = $1 AND f.collection = $2 AND f.key = u.key AND f.contributor = u.contributor";
            session.execute(sql, &[&tenant, collection, &removed_all[0], &removed_all[1]])?;
        }
        if !added_ids.is_empty() {
            let sql = "INSERT INTO former(tenant, collection, key, contributor, identity, packed, raw) \
                       SELECT $1, $2, u.* FROM unnest($3::text[], $4::text[], $5::bytea[], $6::bytea[], $7::bytea[]) AS u ON CONFLICT DO NOTHING";
            session.execute(sql, &[&tenant, collection, &added[0], &added[1], &added_ids, &packed, &raw])?;
        }
    }
    Ok(())
}

/// Reads the first job of a source that can be undone; `lock` is empty or a locking clause.
fn first_job(session: &mut Session, source: &str, lock: &str) -> DbResult<Option<JobId>> {
    let row = session.query_first(&format!("SELECT value FROM meta WHERE name = $1 {lock}"), &[&first_job_name(source)])?;
    row.map(|row| Ok(job_number(source, row.at(0)?)?)).transpose()
}

pub fn first_undoable(session: &mut Session, source: &str) -> DbResult<Option<JobId>> {
    first_job(session, source, "")
}

pub fn end_undo_before(session: &mut Session, source: &str, time: i64) -> DbResult<Option<JobId>> {
    let Some(first) = first_job(session, source, "FOR UPDATE")? else { return Ok(None) };
    let being_undone = "SELECT EXISTS(SELECT 1 FROM jobs WHERE finished IS NULL AND source LIKE 'undo of job %')";
    if session.query_one(being_undone, &[])?.at(0)? {
        return Ok(None);
    }
    let sql = "SELECT coalesce((SELECT min(id) FROM jobs WHERE created >= $1), (SELECT coalesce(max(id), 0) + 1 FROM jobs))";
    let oldest: i64 = session.query_one(sql, &[&time])?.at(0)?;
    let first = first.max(oldest as JobId);
    session.execute("UPDATE meta SET value = $2 WHERE name = $1", &[&first_job_name(source), &first.to_string()])?;
    Ok(Some(first))
}

pub fn other_jobs(session: &mut Session, job: JobId) -> DbResult<Vec<OtherJob>> {
    super::jobs::job_state(session, job)?;
    let sql = "SELECT o.id, o.source, o.profile, o.state FROM jobs AS j JOIN jobs AS o ON o.tenant = j.tenant
        WHERE j.id = $1 AND o.id <> j.id AND coalesce(o.finished, j.created) >= j.created ORDER BY o.id";
    let other_job = |row: &Row| {
        let id = row.at::<i64>(0)? as JobId;
        Ok(OtherJob { id, source: row.at(1)?, profile: row.at(2)?, state: state_by_name(id, row.at(3)?)? })
    };
    session.query(sql, &[&(job as i64)])?.iter().map(other_job).collect()
}

pub fn start_undo(session: &mut Session, job: JobId, undo: &NewJob, commit_time: i64) -> DbResult<JobId> {
    if !locked_state(session, job)?.is_final() {
        return Err(not_ended(job).into());
    }
    let source: String = session.query_one("SELECT source FROM jobs WHERE id = $1", &[&(job as i64)])?.at(0)?;
    if first_job(session, &source, "FOR UPDATE")?.is_none_or(|first| job < first) {
        return Err(no_longer_undoable(job).into());
    }
    let undo = create_job(session, undo, commit_time)?;
    let sql = "UPDATE jobs SET state = $1, reason = $2 WHERE id = $3";
    session.execute(sql, &[&JobState::Undone.name(), &undone_reason(undo), &(job as i64)])?;
    session.execute("DELETE FROM chunks WHERE job = $1", &[&(job as i64)])?;
    Ok(undo)
}
