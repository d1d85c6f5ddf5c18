//! Writes a unit of work: calls its methods in order, and writes what they return.
//!
//! A unit locks its rows in the order of their keys, compares versions, merges what has changed, and writes with one statement per kind of change;
//! the statements are waited for together. More than a few new rows are copied. All transactions lock in the same order: existing rows, reservations
//! of unique values, new rows. So they may wait for each other, but cannot deadlock.

use super::edges::{self, NEW_RECORDS};
use super::records::{self, by_key_locked};
use super::rows::UnitWriter;
use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, TenantTables};
use super::tenants::tenant_id;
use super::values::RowExt;
use super::{journal, queue, tags};
use crate::damage::RecordPart;
use crate::sql::unit::pass_on_broken;
use crate::{
    CALL_KEPT, CommitReceipt, EdgeChange, NewChangeLogEntry, ReadDetail, RecordRead, RecordWrite, SettlingChanges, StaleMark, StoreError,
    StoredRecord, Unit, Version, WriteConflict, lock_partition_of,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;

/// Writes a unit of work inside a transaction; also returns how many rows of which collections it wrote.
pub fn write(
    session: &mut Session,
    tables: &StoreTables,
    tenant: Option<i64>,
    unit: &mut dyn Unit,
    stamp: i64,
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
        if session.execute(sql, &[&tenant, &call.id.as_slice(), &call.request.as_slice(), &stamp])? == 0 {
            let known = session.first("SELECT request, answer FROM calls WHERE tenant = $1 AND id = $2", &[&tenant, &call.id.as_slice()])?;
            let row = known.ok_or_else(|| DatabaseError::Retry("an expired idempotency key was removed meanwhile".into()))?;
            let same = row.at::<&[u8]>(0)? == call.request;
            unit.repeated(same, row.at(1)?);
            return Ok((CommitReceipt { committed_at: stamp, rows: 0 }, Vec::new()));
        }
    }
    let mut writer = UnitWriter { session, tables, tenant, stamp, waits_for_locks: unit.waits(), locked: HashMap::new() };
    let writes = unit.writes();
    writer.lock(writes)?;
    if !writer.waits_for_locks
        && writes.iter().any(|write| write.expect.is_some() && !writer.locked.contains_key(&(write.collection, write.key.clone())))
    {
        return Err(StoreError::Held.into());
    }
    let (current, lost): (Vec<&RecordWrite>, Vec<&RecordWrite>) = writes.iter().partition(|write| writer.is_current(write));
    let mut applied: Vec<Cow<'_, RecordWrite>> = if lost.is_empty() {
        current.into_iter().map(Cow::Borrowed).collect()
    } else {
        let mut keys: BTreeMap<CollectionId, Vec<Key>> = BTreeMap::new();
        lost.iter().for_each(|write| keys.entry(write.collection).or_default().push(write.key.clone()));
        let mut applied: Vec<RecordWrite> = current.into_iter().cloned().collect();
        let mut conflicts = Vec::new();
        for (collection, keys) in keys {
            let records = records::read_damaged(TenantTables { session: writer.session, tables, tenant }, collection, &keys, ReadDetail::Full)?;
            for (key, record) in keys.into_iter().zip(records) {
                // it was created after the lock: start again, then it will be locked
                let is_known = |record: &StoredRecord| record.damage.iter().all(|damage| damage.part != RecordPart::Row);
                if record.as_ref().filter(|record| is_known(record)).map(|record| record.version)
                    != writer.locked.get(&(collection, key.clone())).map(|held| held.0)
                {
                    return Err(DatabaseError::Retry("a record was created meanwhile".into()));
                }
                conflicts.push(WriteConflict { collection, key, record });
            }
        }
        let resolved = unit.resolve(conflicts)?;
        writer.lock(&resolved)?;
        for write in resolved {
            if !writer.is_current(&write) {
                let reason = format!("what was merged for record {:?} is not based on what it is now", write.key.as_str());
                return Err(StoreError::Wrong(reason).into());
            }
            applied.push(write);
        }
        applied.into_iter().map(Cow::Owned).collect()
    };
    let refused = writer.reserve(&mut applied)?;
    let rows = applied.len() as u64;
    let sizes = writer.apply(applied)?;
    let session = writer.session;
    refused.into_iter().for_each(|refused| unit.refused(refused));
    check(session, tables, tenant, unit)?;
    tags::write(session, tables, tenant, unit)?;
    settle(session, tables, tenant, unit.settling())?;
    for entries in unit.log().chunk_by(|a, b| a.collection == b.collection) {
        write_log(session, &tables.catalogue().collections[entries[0].collection], tenant, entries, stamp)?;
    }
    let answer = unit.answer(stamp);
    if let Some(call) = unit.call() {
        let (tenant, id): (&i64, &[u8]) = (&tenant, &call.id);
        match answer {
            Some(answer) => {
                session.later("UPDATE calls SET answer = $3 WHERE tenant = $1 AND id = $2", &[tenant, &id, &answer])?;
                // each new call deletes up to two expired ones
                let old = "DELETE FROM calls WHERE (tenant, id) IN \
                           (SELECT tenant, id FROM calls WHERE made < $1 ORDER BY made LIMIT 2 FOR UPDATE SKIP LOCKED)";
                session.later(old, &[&(stamp - CALL_KEPT)])?;
            }
            None => {
                session.later("DELETE FROM calls WHERE tenant = $1 AND id = $2", &[tenant, &id])?;
            }
        }
    }
    if let (Some(journal), Some(lease)) = (unit.journal(), lease) {
        journal::write_journal(session, tables.catalogue(), lease.chunk, journal)?;
    }
    Ok((CommitReceipt { committed_at: stamp, rows }, sizes))
}

/// Writes the change logs of records of one collection; deletes golden changes beyond the number that it keeps.
fn write_log(session: &mut Session, collection: &Collection, tenant: i64, entries: &[NewChangeLogEntry], stamp: i64) -> DbResult<()> {
    let sql = "INSERT INTO record_log(tenant, collection, at, key, transition, caller, change) \
               SELECT $1, $2, $3, e.* FROM unnest($4::text[], $5::text[], $6::text[], $7::text[]) AS e";
    let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let transitions: Vec<Option<&str>> = entries.iter().map(|entry| entry.transition.as_deref()).collect();
    let callers: Vec<&str> = entries.iter().map(|entry| entry.caller.as_str()).collect();
    let changes: Vec<String> = entries.iter().map(|entry| entry.change.to_string()).collect();
    session.later(sql, &[&tenant, &collection.name, &stamp, &keys, &transitions, &callers, &changes])?;
    if let (Some(kept), true) = (collection.history, transitions.contains(&None)) {
        let sql = "DELETE FROM record_log l USING unnest($3::text[]) AS u(key) \
                   WHERE l.tenant = $1 AND l.collection = $2 AND l.key = u.key AND l.transition IS NULL AND l.id <= \
                   (SELECT o.id FROM record_log o WHERE o.tenant = $1 AND o.collection = $2 AND o.key = u.key AND o.transition IS NULL \
                    ORDER BY o.id DESC OFFSET $4 LIMIT 1)";
        session.later(sql, &[&tenant, &collection.name, &keys, &i64::from(kept)])?;
    }
    Ok(())
}

/// Link, target, group, start and child.
type EdgeKey = (i64, SmolStr, SmolStr, i64, SmolStr);

/// Passes a unit the records and ranges of its read set that have changed. Existing records cannot change until it ends; a transaction that changes
/// edges meanwhile leaves a mark, whose pass waits for this unit to end.
fn check(session: &mut Session, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> DbResult<()> {
    let Some(reliance) = unit.read_set().filter(|reliance| !(reliance.records.is_empty() && reliance.ranges.is_empty())) else { return Ok(()) };
    let mut keys: BTreeMap<CollectionId, Vec<&str>> = BTreeMap::new();
    for read in &reliance.records {
        keys.entry(read.collection).or_default().push(read.key.as_str());
    }
    let mut now: HashMap<(CollectionId, String), Version> = HashMap::new();
    for (collection, keys) in keys {
        let sql = by_key_locked(tables, &tables.collections[collection].table, "key, revision, touch", 2, "FOR SHARE");
        for row in session.query(&sql, &[&tenant, &keys])? {
            now.insert((collection, row.at(0)?), Version::new(row.at(1)?, row.at(2)?));
        }
    }
    // taken after all row locks: a transaction that waits for this lock could otherwise hold rows that its owner waits for
    if !reliance.ranges.is_empty() {
        keep_passes_waiting(session, tenant)?;
    }
    let mut ranges = Vec::new();
    for (place, read) in reliance.ranges.iter().enumerate() {
        // commits on several servers do not become visible at once
        if tables.distributed()
            || edges::edges_starting_between(TenantTables { session, tables, tenant }, read.link, &read.ranges, None)? != read.edges
        {
            ranges.push(place);
        }
    }
    let is_other = |(_, read): &(usize, &RecordRead)| {
        // a record that does not exist cannot be locked
        read.version.is_none() || now.get(&(read.collection, read.key.as_str().to_owned())) != read.version.as_ref()
    };
    let records: Vec<usize> = reliance.records.iter().enumerate().filter(is_other).map(|(place, _)| place).collect();
    pass_on_broken(unit, (&records, &ranges), |collection, keys| {
        records::read(TenantTables { session, tables, tenant }, collection, keys, ReadDetail::Full)
    })
}

/// Makes passes wait that must see what this transaction has not committed yet.
fn keep_passes_waiting(session: &mut Session, tenant: i64) -> DbResult<()> {
    session.later(&format!("SELECT pg_advisory_xact_lock_shared({})", NEW_RECORDS), &[&tenant])
}

fn settle(session: &mut Session, tables: &StoreTables, tenant: i64, mut settling: SettlingChanges) -> DbResult<()> {
    let new = std::mem::take(&mut settling.marks_if_linked);
    if tables.distributed() {
        settling.marks.extend(new);
    } else if !new.is_empty() {
        keep_passes_waiting(session, tenant)?;
        let said = settling.named_by_field(tables.catalogue());
        let mut by_link: BTreeMap<u32, Vec<StaleMark>> = BTreeMap::new();
        new.into_iter().for_each(|mark| by_link.entry(mark.rule).or_default().push(mark));
        let mut named = Vec::new();
        for (link, marks) in by_link {
            let own = |mark: &StaleMark| said.get(&(link, mark.target.as_str())).map_or(0, |said| *said as i64);
            let targets: Vec<(&str, i64)> = marks.iter().map(|mark| (mark.target.as_str(), own(mark))).collect();
            let places = edges::named(session, tables, tenant, link, &targets)?;
            named.extend(places.into_iter().map(|place| marks[place].clone()));
        }
        settling.marks.extend(named);
    }
    if !settling.cleared_links.is_empty() {
        let links: Vec<i64> = settling.cleared_links.iter().copied().map(i64::from).collect();
        session.later("DELETE FROM edges WHERE tenant = $1 AND link = ANY($2)", &[&tenant, &links])?;
    }
    // of several changes of one edge the last one counts
    let mut changes: BTreeMap<EdgeKey, Option<Vec<u8>>> = BTreeMap::new();
    for change in settling.edges.into_iter().filter(|change| change.is_kept(tables.catalogue())) {
        let (edge, kept) = match change {
            EdgeChange::Put(edge) => (edge, true),
            EdgeChange::Delete(edge) => (edge, false),
        };
        changes.insert((i64::from(edge.link), edge.target, edge.group, edge.start, edge.child), kept.then_some(edge.payload));
    }
    for kept in [false, true] {
        let chosen: Vec<_> = changes.iter().filter(|(_, payload)| payload.is_some() == kept).collect();
        if chosen.is_empty() {
            continue;
        }
        let links: Vec<i64> = chosen.iter().map(|((link, ..), _)| *link).collect();
        let targets: Vec<&str> = chosen.iter().map(|((_, target, ..), _)| target.as_str()).collect();
        let groups: Vec<&str> = chosen.iter().map(|((_, _, group, ..), _)| group.as_str()).collect();
        let starts: Vec<i64> = chosen.iter().map(|((_, _, _, start, _), _)| *start).collect();
        let children: Vec<&str> = chosen.iter().map(|((.., child), _)| child.as_str()).collect();
        if kept {
            let payloads: Vec<&[u8]> = chosen.iter().filter_map(|(_, payload)| payload.as_deref()).collect();
            session.later(
                "INSERT INTO edges(tenant, link, target, grp, start, child, payload)
                 SELECT $1, * FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bytea[])
                 ON CONFLICT (tenant, link, target, grp, start, child) DO UPDATE SET payload = excluded.payload",
                &[&tenant, &links, &targets, &groups, &starts, &children, &payloads],
            )?;
        } else {
            let own = "e.tenant = $1 AND e.link = u.link AND e.target = u.target AND e.grp = u.grp AND e.start = u.start AND e.child = u.child";
            let gone = "unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[]) AS u(link, target, grp, start, child)";
            // one by one through the index: the planner would underestimate their number for any kind of join
            let sql = match tables.distributed() {
                true => format!("DELETE FROM edges e USING {gone} WHERE {own}"),
                false => format!(
                    "DELETE FROM edges WHERE ctid = ANY(ARRAY(SELECT e.ctid FROM {gone} CROSS JOIN LATERAL (SELECT ctid FROM edges e WHERE {own} OFFSET 0) AS e))"
                ),
            };
            session.later(&sql, &[&tenant, &links, &targets, &groups, &starts, &children])?;
        }
    }
    if !settling.cleared.is_empty() {
        session.later("DELETE FROM marks WHERE tenant = $1 AND id = ANY($2)", &[&tenant, &settling.cleared])?;
    }
    if !settling.marks.is_empty() {
        let marks = &settling.marks;
        let lanes: Vec<i64> = marks.iter().map(|mark| i64::from(lock_partition_of(&mark.target))).collect();
        let strata: Vec<i64> = marks.iter().map(|mark| i64::from(mark.order)).collect();
        let rules: Vec<i64> = marks.iter().map(|mark| i64::from(mark.rule)).collect();
        let targets: Vec<&str> = marks.iter().map(|mark| mark.target.as_str()).collect();
        let parts: Vec<&str> = marks.iter().map(|mark| mark.part.as_str()).collect();
        let jobs: Vec<i64> = marks.iter().map(|mark| mark.job as i64).collect();
        session.later(
            "INSERT INTO marks(tenant, lane, stratum, rule, target, part, job)
             SELECT $1, lane, stratum, rule, target, part, job
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::bigint[])
             WITH ORDINALITY AS u(lane, stratum, rule, target, part, job, place) ORDER BY place",
            &[&tenant, &lanes, &strata, &rules, &targets, &parts, &jobs],
        )?;
    }
    Ok(())
}
