//! Writes a unit of work: calls its methods in order, and writes what they return.
//!
//! A unit locks its rows in the order of their keys, compares versions, merges what has changed, and writes with one statement per kind of change;
//! the statements are waited for together. More than a few new rows are copied. All transactions lock in the same order: existing rows, reservations
//! of unique values, new rows. So they may wait for each other, but do not deadlock by these. Records of the read set are locked last: a deadlock
//! through them is possible, and the unit is then repeated (decision 007).

use super::edges::{self, NEW_RECORDS_LOCK};
use super::erasure;
use super::records::{self, by_key_locked_sql};
use super::rows::UnitWriter;
use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, TenantTables};
use super::tenants::tenant_id;
use super::values::RowExt;
use super::{change_feed, former, journal, query, queue, record_counts, tags};
use crate::damage::RecordPart;
use crate::sql::unit::report_read_set_changes;
use crate::{
    CALL_RETENTION, CommitReceipt, EdgeChange, NewChangeLogEntry, Premises, ReadDetail, RecordRead, RecordWrite, RefusedWrite, SettlingChanges,
    StaleMark, StoreError, StoredRecord, Unit, Version, WriteConflict, lock_partition_of,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::{SmolStr, Value};

/// Writes a unit of work inside a transaction; also returns how many rows of which collections it wrote.
pub fn write(
    session: &mut Session,
    tables: &StoreTables,
    tenant: Option<i64>,
    unit: &mut dyn Unit,
    commit_time: i64,
) -> DbResult<(CommitReceipt, Vec<(CollectionId, u64)>)> {
    let lease = unit.lease_token();
    if let Some(lease) = lease {
        queue::remove_leased_chunk(session, lease)?;
    }
    let tenant = match tenant {
        Some(tenant) => tenant,
        None => tenant_id(session, unit.tenant())?,
    };
    if let Some(call) = unit.call() {
        // its row is inserted first, so that the same call waits here until this transaction ends, and then finds its response
        let sql = "INSERT INTO calls(tenant, id, request, answer, made) VALUES ($1, $2, $3, '', $4) ON CONFLICT DO NOTHING";
        if session.execute(sql, &[&tenant, &call.id.as_slice(), &call.request.as_slice(), &commit_time])? == 0 {
            let stored = session.query_first("SELECT request, answer FROM calls WHERE tenant = $1 AND id = $2", &[&tenant, &call.id.as_slice()])?;
            let row = stored.ok_or_else(|| DatabaseError::Retry("an expired idempotency key was removed meanwhile".into()))?;
            let is_same_request = row.at::<&[u8]>(0)? == call.request;
            unit.repeated(is_same_request, row.at(1)?);
            return Ok((CommitReceipt { committed_at: commit_time, rows: 0 }, Vec::new()));
        }
    }
    erasure::note(session, tables, tenant, unit, commit_time)?;
    if let Some(premises) = unit.premises() {
        check_premises(session, tables, tenant, premises)?;
    }
    let mut writer = UnitWriter { session, tables, tenant, commit_time, waits_for_locks: unit.waits_for_locks(), locked: HashMap::new() };
    let writes = unit.writes();
    let erased = erasure::among(writer.session, tables, unit.tenant(), writes)?;
    let mut refused: Vec<RefusedWrite> = erased.refused().collect();
    let writes: Vec<&RecordWrite> = writes.iter().filter(|write| !erased.refuses(write)).collect();
    writer.lock(&writes)?;
    if !writer.waits_for_locks
        && writes.iter().any(|write| write.expect.is_some() && !writer.locked.contains_key(&(write.collection, write.key.clone())))
    {
        return Err(StoreError::Held.into());
    }
    let (current, outdated): (Vec<&RecordWrite>, Vec<&RecordWrite>) = writes.into_iter().partition(|write| writer.is_current(write));
    let mut applied: Vec<Cow<'_, RecordWrite>> = if outdated.is_empty() {
        current.into_iter().map(Cow::Borrowed).collect()
    } else {
        let mut keys: BTreeMap<CollectionId, Vec<Key>> = BTreeMap::new();
        outdated.iter().for_each(|write| keys.entry(write.collection).or_default().push(write.key.clone()));
        let mut applied: Vec<RecordWrite> = current.into_iter().cloned().collect();
        let mut conflicts = Vec::new();
        for (collection, keys) in keys {
            let records = records::read_damaged(TenantTables { session: writer.session, tables, tenant }, collection, &keys, ReadDetail::Full)?;
            let former =
                if unit.reads_former() { former::former(writer.session, tables, tenant, collection, &keys)? } else { vec![Vec::new(); keys.len()] };
            for ((key, record), former) in keys.into_iter().zip(records).zip(former) {
                // it was created after the lock: start again, then it will be locked
                let is_version_readable = |record: &StoredRecord| record.damage.iter().all(|damage| damage.part != RecordPart::Row);
                if record.as_ref().filter(|record| is_version_readable(record)).map(|record| record.version)
                    != writer.locked.get(&(collection, key.clone())).map(|locked| locked.version)
                {
                    return Err(DatabaseError::Retry("a record was created meanwhile".into()));
                }
                conflicts.push(WriteConflict { collection, key, record, former });
            }
        }
        let mut resolved = unit.resolve(conflicts)?;
        let erased = erasure::among(writer.session, tables, unit.tenant(), &resolved)?;
        refused.extend(erased.refused());
        resolved.retain(|write| !erased.refuses(write));
        writer.lock(&resolved.iter().collect::<Vec<_>>())?;
        for write in resolved {
            if !writer.is_current(&write) {
                let reason = format!("what was merged for record {:?} is not based on what it is now", write.key.as_str());
                return Err(StoreError::Wrong(reason).into());
            }
            applied.push(write);
        }
        applied.into_iter().map(Cow::Owned).collect()
    };
    refused.extend(writer.reserve(&mut applied)?);
    let rows = applied.len() as u64;
    let recorded = change_feed::record(&mut writer, &applied)?;
    let counted = writer.count(&applied);
    let sizes = writer.apply(applied)?;
    let session = writer.session;
    record_counts::write(session, tables, tenant, commit_time, counted)?;
    refused.into_iter().for_each(|refused| unit.refused(refused));
    if unit.must_be_undone() {
        return Err(StoreError::Outdated.into());
    }
    check_read_set(session, tables, tenant, unit)?;
    tags::write(session, tables, tenant, unit)?;
    settle(session, tables, tenant, unit.settling())?;
    former::write(session, tables, tenant, unit)?;
    let log = unit.log();
    for entries in log.chunk_by(|a, b| a.collection == b.collection) {
        write_log(session, &tables.catalogue().collections[entries[0].collection], tenant, entries, commit_time)?;
    }
    change_feed::write((session, tables), tenant, recorded, &log, commit_time)?;
    let answer = unit.response_to_keep(commit_time);
    if let Some(call) = unit.call() {
        let (tenant, id): (&i64, &[u8]) = (&tenant, &call.id);
        match answer {
            Some(answer) => {
                session.defer("UPDATE calls SET answer = $3 WHERE tenant = $1 AND id = $2", &[tenant, &id, &answer])?;
                // each new call deletes up to two expired ones
                let delete_expired = "DELETE FROM calls WHERE (tenant, id) IN \
                           (SELECT tenant, id FROM calls WHERE made < $1 ORDER BY made LIMIT 2 FOR UPDATE SKIP LOCKED)";
                session.defer(delete_expired, &[&(commit_time - CALL_RETENTION)])?;
            }
            None => {
                session.defer("DELETE FROM calls WHERE tenant = $1 AND id = $2", &[tenant, &id])?;
            }
        }
    }
    if let (Some(journal), Some(lease)) = (unit.journal(), lease) {
        journal::write_journal(session, tables.catalogue(), lease.chunk, journal)?;
    }
    Ok((CommitReceipt { committed_at: commit_time, rows }, sizes))
}

/// Writes the change logs of records of one collection; deletes golden changes beyond the number that it keeps.
fn write_log(session: &mut Session, collection: &Collection, tenant: i64, entries: &[NewChangeLogEntry], commit_time: i64) -> DbResult<()> {
    let sql = "INSERT INTO record_log(tenant, collection, at, key, transition, caller, change) \
               SELECT $1, $2, $3, e.* FROM unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS e";
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let transitions: Vec<Option<&str>> = entries.iter().map(|entry| entry.transition.as_deref()).collect();
    let callers: Vec<&str> = entries.iter().map(|entry| entry.caller.as_str()).collect();
    let changes: Vec<String> = entries.iter().map(|entry| entry.change.to_string()).collect();
    session.defer(sql, &[&tenant, &collection.name, &commit_time, &keys, &transitions, &callers, &changes])?;
    if let (Some(max_entries), true) = (collection.history, transitions.contains(&None)) {
        let sql = "DELETE FROM record_log l USING unnest($3::text[]) AS u(key) \
                   WHERE l.tenant = $1 AND l.collection = $2 AND l.key = u.key AND l.transition IS NULL AND l.id <= \
                   (SELECT o.id FROM record_log o WHERE o.tenant = $1 AND o.collection = $2 AND o.key = u.key AND o.transition IS NULL \
                    ORDER BY o.id DESC OFFSET $4 LIMIT 1)";
        session.defer(sql, &[&tenant, &collection.name, &keys, &i64::from(max_entries)])?;
    }
    Ok(())
}

/// Checks that a unit's premises hold. Units with searches in one collection are written one after the other: the lock is taken first, so that a unit
/// which has waited for it sees what the others have committed. Other writers do not take it; what they add to a search in the same moment counts as
/// added later. The records found cannot change until the unit ends.
fn check_premises(session: &mut Session, tables: &StoreTables, tenant: i64, premises: &Premises) -> DbResult<()> {
    let mut searched: BTreeSet<CollectionId> = BTreeSet::new();
    premises.searches.iter().for_each(|search| search.plan.add_collections(&mut searched));
    for collection in searched {
        session.execute(&format!("SELECT pg_advisory_xact_lock({SEARCH_LOCK})"), &[&tenant, &tables.collections[collection].table])?;
    }
    for search in &premises.searches {
        let mut found = Vec::new();
        query::visit(session, tables.catalogue(), tenant, &search.plan, &mut |row| {
            found.extend(row.first().and_then(Value::as_text).map(str::to_owned));
            Ok(())
        })?;
        if !found.iter().map(String::as_str).eq(search.keys.iter().map(Key::as_str)) {
            return Err(StoreError::Outdated.into());
        }
    }
    for of_collection in premises.records.chunk_by(|a, b| a.collection == b.collection) {
        let collection = of_collection[0].collection;
        let keys: Vec<&str> = of_collection.iter().map(|read| read.key.as_str()).collect();
        let sql = by_key_locked_sql(tables, &tables.collections[collection].table, "key, revision", 2, "FOR SHARE");
        let mut revisions: HashMap<String, i64> = HashMap::new();
        for row in session.query(&sql, &[&tenant, &keys])? {
            revisions.insert(row.at(0)?, row.at(1)?);
        }
        if of_collection.iter().any(|read| revisions.get(read.key.as_str()) != Some(&read.revision)) {
            return Err(StoreError::Outdated.into());
        }
    }
    Ok(())
}

/// The advisory lock that units with searches in a collection hold; `$1` is the tenant, `$2` the collection's table.
const SEARCH_LOCK: &str = "hashtextextended(current_schema() || ' search ' || $2, $1)";

/// Link, target, group, start and child.
type EdgeKey = (i64, SmolStr, SmolStr, i64, SmolStr);

/// Passes a unit the records and ranges of its read set that have changed. Existing records cannot change until it ends; a transaction that changes
/// edges meanwhile leaves a mark, whose pass waits for this unit to end.
fn check_read_set(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> DbResult<()> {
    let Some(read_set) = unit.read_set().filter(|read_set| !(read_set.records.is_empty() && read_set.ranges.is_empty())) else { return Ok(()) };
    let mut keys: BTreeMap<CollectionId, Vec<&str>> = BTreeMap::new();
    for read in &read_set.records {
        keys.entry(read.collection).or_default().push(read.key.as_str());
    }
    let mut current_versions: HashMap<(CollectionId, String), Version> = HashMap::new();
    for (collection, keys) in keys {
        let sql = by_key_locked_sql(tables, &tables.collections[collection].table, "key, revision, touch", 2, "FOR SHARE");
        for row in session.query(&sql, &[&tenant, &keys])? {
            current_versions.insert((collection, row.at(0)?), Version::new(row.at(1)?, row.at(2)?));
        }
    }
    // taken after all row locks: a transaction that waits for this lock could otherwise hold rows that its owner waits for
    if !read_set.ranges.is_empty() {
        block_passes(session, tenant)?;
    }
    let mut changed_ranges = Vec::new();
    for (index, read) in read_set.ranges.iter().enumerate() {
        // commits on several servers do not become visible at once
        if tables.is_distributed()
            || edges::edges_starting_between(TenantTables { session, tables, tenant }, read.link, &read.ranges, None)? != read.edges
        {
            changed_ranges.push(index);
        }
    }
    let may_have_changed = |(_, read): &(usize, &RecordRead)| {
        // a record that does not exist cannot be locked
        read.version.is_none() || current_versions.get(&(read.collection, read.key.as_str().to_owned())) != read.version.as_ref()
    };
    let changed_records: Vec<usize> = read_set.records.iter().enumerate().filter(may_have_changed).map(|(index, _)| index).collect();
    report_read_set_changes(unit, (&changed_records, &changed_ranges), |collection, keys| {
        records::read(TenantTables { session, tables, tenant }, collection, keys, ReadDetail::Full)
    })
}

/// Makes passes wait that must see what this transaction has not committed yet.
fn block_passes(session: &mut Session, tenant: i64) -> DbResult<()> {
    session.defer(&format!("SELECT pg_advisory_xact_lock_shared({})", NEW_RECORDS_LOCK), &[&tenant])
}

fn settle(session: &mut Session, tables: &StoreTables, tenant: i64, mut settling: SettlingChanges) -> DbResult<()> {
    let candidates = std::mem::take(&mut settling.marks_if_linked);
    if tables.is_distributed() {
        settling.marks.extend(candidates);
    } else if !candidates.is_empty() {
        block_passes(session, tenant)?;
        let unit_edges = settling.linked_by_field(tables.catalogue());
        let mut by_link: BTreeMap<u32, Vec<StaleMark>> = BTreeMap::new();
        candidates.into_iter().for_each(|mark| by_link.entry(mark.rule).or_default().push(mark));
        let mut linked = Vec::new();
        for (link, marks) in by_link {
            let own_edges = |mark: &StaleMark| unit_edges.get(&(link, mark.target.as_str())).map_or(0, |count| *count as i64);
            let targets: Vec<(&str, i64)> = marks.iter().map(|mark| (mark.target.as_str(), own_edges(mark))).collect();
            let positions = edges::targets_with_edges(session, tables, tenant, link, &targets)?;
            linked.extend(positions.into_iter().map(|position| marks[position].clone()));
        }
        settling.marks.extend(linked);
    }
    if !settling.cleared_links.is_empty() {
        let links: Vec<i64> = settling.cleared_links.iter().copied().map(i64::from).collect();
        session.defer("DELETE FROM edges WHERE tenant = $1 AND link = ANY($2)", &[&tenant, &links])?;
    }
    // of several changes of one edge the last one counts
    let mut changes: BTreeMap<EdgeKey, Option<Vec<u8>>> = BTreeMap::new();
    for change in settling.edges.into_iter().filter(|change| change.is_stored(tables.catalogue())) {
        let (edge, is_put) = match change {
            EdgeChange::Put(edge) => (edge, true),
            EdgeChange::Delete(edge) => (edge, false),
        };
        changes.insert((i64::from(edge.link), edge.target, edge.group, edge.start, edge.child), is_put.then_some(edge.payload));
    }
    for is_put in [false, true] {
        let edges_to_write: Vec<_> = changes.iter().filter(|(_, payload)| payload.is_some() == is_put).collect();
        if edges_to_write.is_empty() {
            continue;
        }
        let links: Vec<i64> = edges_to_write.iter().map(|((link, ..), _)| *link).collect();
        let targets: Vec<&str> = edges_to_write.iter().map(|((_, target, ..), _)| target.as_str()).collect();
        let groups: Vec<&str> = edges_to_write.iter().map(|((_, _, group, ..), _)| group.as_str()).collect();
        let starts: Vec<i64> = edges_to_write.iter().map(|((_, _, _, start, _), _)| *start).collect();
        let children: Vec<&str> = edges_to_write.iter().map(|((.., child), _)| child.as_str()).collect();
        if is_put {
            let payloads: Vec<&[u8]> = edges_to_write.iter().filter_map(|(_, payload)| payload.as_deref()).collect();
            session.defer(
                "INSERT INTO edges(tenant, link, target, grp, start, child, payload)
                 SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bytea[])
                 ON CONFLICT (tenant, link, target, grp, start, child) DO UPDATE SET payload = excluded.payload",
                &[&tenant, &links, &targets, &groups, &starts, &children, &payloads],
            )?;
        } else {
            let same_edge = "e.tenant = $1 AND e.link = u.link AND e.target = u.target AND e.grp = u.grp AND e.start = u.start AND e.child = u.child";
            let deleted_edges = "unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[]) AS u(link, target, grp, start, child)";
            // one by one through the index: the planner would underestimate their number for any kind of join
            let sql = match tables.is_distributed() {
                true => format!("DELETE FROM edges e USING {deleted_edges} WHERE {same_edge}"),
                false => format!(
                    "DELETE FROM edges WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM {deleted_edges} CROSS JOIN LATERAL (SELECT ctid FROM edges e WHERE {same_edge} OFFSET 0) AS e))"
                ),
            };
            session.defer(&sql, &[&tenant, &links, &targets, &groups, &starts, &children])?;
        }
    }
    if !settling.cleared.is_empty() {
        session.defer("DELETE FROM marks WHERE tenant = $1 AND id = ANY($2)", &[&tenant, &settling.cleared])?;
    }
    if !settling.marks.is_empty() {
        let marks = &settling.marks;
        let partitions: Vec<i64> = marks.iter().map(|mark| i64::from(lock_partition_of(&mark.target))).collect();
        let strata: Vec<i64> = marks.iter().map(|mark| i64::from(mark.pass_order)).collect();
        let rules: Vec<i64> = marks.iter().map(|mark| i64::from(mark.rule)).collect();
        let targets: Vec<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let parts: Vec<&str> = marks.iter().map(|mark| mark.part.as_str()).collect();
        let jobs: Vec<i64> = marks.iter().map(|mark| mark.job as i64).collect();
        session.defer(
            "INSERT INTO marks(tenant, lane, stratum, rule, target, part, job)
             SELECT $1, lane, stratum, rule, target, part, job
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
             WITH ORDINALITY AS u(lane, stratum, rule, target, part, job, place) ORDER BY place",
            &[&tenant, &partitions, &strata, &rules, &targets, &parts, &jobs],
        )?;
    }
    Ok(())
}
