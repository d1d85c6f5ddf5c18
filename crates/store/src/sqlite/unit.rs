//! Writes a unit of work: calls its methods in order, and writes what they return.

use super::error::store_error;
use super::rows::{RowWriteResult, RowWriter};
use super::sql::execute;
use super::tables::{StoreTables, TenantTables};
use super::tenants::tenant_id;
use super::{change_feed, edges, erasure, former, jobs, journal, query, queue, record_counts, records, tags, unique};
use crate::sql::unit::report_read_set_changes;
use crate::{
    CALL_RETENTION, CommitReceipt, EdgeChange, Premises, ReadDetail, RecordWrite, RefusedWrite, Result, RevisionRead, SettlingChanges, StoreError,
    StoredRecord, Unit, WriteConflict,
};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;

fn outdated_base(write: &RecordWrite) -> StoreError {
    StoreError::Wrong(format!("what was merged for record {:?} is not based on what it is now", write.key.as_str()))
}

/// Writes records that still have the version that was read, after reserving their unique values. Returns those that are refused because other
/// records have or get their values.
fn reserve_and_write(writer: &mut RowWriter<'_>, writes: &[&RecordWrite], rows: &mut u64) -> Result<Vec<RefusedWrite>> {
    let (claiming, without_claims): (Vec<&RecordWrite>, Vec<&RecordWrite>) =
        writes.iter().partition(|write| unique::may_change_values(writer.tables, write));
    let conflicts = unique::reserve(writer.connection, writer.tables, writer.tenant, &claiming)?;
    let refused: HashSet<usize> = conflicts.iter().map(|(index, _)| *index).collect();
    let granted = claiming.into_iter().enumerate().filter(|(index, _)| !refused.contains(index)).map(|(_, write)| write);
    for write in granted.chain(without_claims) {
        match writer.apply(write)? {
            RowWriteResult::Done => *rows += 1,
            RowWriteResult::Changed => return Err(outdated_base(write)),
        }
    }
    Ok(conflicts.into_iter().map(|(_, conflict)| conflict).collect())
}

/// Writes a unit of work inside the writer's transaction.
pub fn write(connection: &Connection, tables: &StoreTables, unit: &mut dyn Unit, commit_time: i64) -> Result<CommitReceipt> {
    let lease = unit.lease_token();
    if let Some(lease) = lease {
        queue::remove_leased_chunk(connection, lease)?;
    }
    let tenant = tenant_id(connection, unit.tenant())?;
    if let Some(call) = unit.call() {
        let mut find_call = connection.prepare_cached("SELECT request, answer FROM calls WHERE tenant = ? AND id = ?").map_err(store_error)?;
        let stored: Option<(Vec<u8>, Vec<u8>)> =
            find_call.query_row(params![tenant, call.id.as_slice()], |row| Ok((row.get(0)?, row.get(1)?))).optional().map_err(store_error)?;
        if let Some((request, answer)) = stored {
            let is_same_request = request == call.request;
            unit.repeated(is_same_request, answer);
            return Ok(CommitReceipt { committed_at: commit_time, rows: 0 });
        }
    }
    erasure::note(connection, tables, unit, commit_time)?;
    if let Some(premises) = unit.premises() {
        check_premises(connection, tables, tenant, premises)?;
    }
    let writes = unit.writes();
    let erased = erasure::among(connection, tables, unit.tenant(), writes)?;
    let mut refused: Vec<RefusedWrite> = erased.refused().collect();
    let mut rows = 0;
    let mut outdated: Vec<(CollectionId, Vec<Key>)> = Vec::new();
    let mut writer = RowWriter::new(connection, tables, tenant, commit_time);
    // unique values are assigned when all claims are known
    let mut claiming: Vec<usize> = Vec::new();
    for (index, write) in writes.iter().enumerate() {
        if erased.refuses(write) {
            continue;
        }
        let is_claiming = unique::may_change_values(tables, write);
        let is_outdated = if is_claiming { !writer.is_current(write)? } else { matches!(writer.apply(write)?, RowWriteResult::Changed) };
        match (is_outdated, outdated.last_mut()) {
            (false, _) if is_claiming => claiming.push(index),
            (false, _) => rows += 1,
            (true, Some((collection, keys))) if *collection == write.collection => keys.push(write.key.clone()),
            (true, _) => outdated.push((write.collection, vec![write.key.clone()])),
        }
    }
    let claiming: Vec<&RecordWrite> = claiming.into_iter().map(|index| &writes[index]).collect();
    let unique_conflicts = if outdated.is_empty() {
        reserve_and_write(&mut writer, &claiming, &mut rows)?
    } else {
        let claiming: Vec<RecordWrite> = claiming.into_iter().cloned().collect();
        let mut conflicts = Vec::new();
        for (collection, keys) in outdated {
            let records = records::read_damaged(TenantTables { connection, tables, tenant }, collection, &keys, ReadDetail::Full)?;
            let former =
                if unit.reads_former() { former::former(connection, tables, tenant, collection, &keys)? } else { vec![Vec::new(); keys.len()] };
            let found = keys.into_iter().zip(records).zip(former);
            conflicts.extend(found.map(|((key, record), former)| WriteConflict { collection, key, record, former }));
        }
        let mut resolved = unit.resolve(conflicts)?;
        let erased = erasure::among(connection, tables, unit.tenant(), &resolved)?;
        refused.extend(erased.refused());
        resolved.retain(|write| !erased.refuses(write));
        for write in &resolved {
            if unique::may_change_values(tables, write) && !writer.is_current(write)? {
                return Err(outdated_base(write));
            }
        }
        reserve_and_write(&mut writer, &claiming.iter().chain(&resolved).collect::<Vec<_>>(), &mut rows)?
    };
    let (recorded, counted) = (writer.recorded, writer.counted);
    refused.into_iter().chain(unique_conflicts).for_each(|refused| unit.refused(refused));
    if unit.must_be_undone() {
        return Err(StoreError::Outdated);
    }
    record_counts::write(connection, tables, tenant, counted)?;
    check_read_set(connection, tables, tenant, unit)?;
    tags::write(connection, tables, tenant, unit)?;
    settle(connection, tables, tenant, unit.settling())?;
    former::write(connection, tables, tenant, unit)?;
    let log = unit.log();
    for entry in &log {
        let sql = "INSERT INTO record_log(tenant, collection, key, at, transition, caller, change) VALUES (?, ?, ?, ?, ?, ?, ?)";
        let (collection, key) = (&tables.names[entry.collection], entry.key.as_str());
        execute(connection, sql, params![tenant, collection, key, commit_time, entry.transition, entry.caller, entry.change.to_string()])?;
        if let (Some(max_entries), None) = (tables.catalogue().collections[entry.collection].history, &entry.transition) {
            let sql = "DELETE FROM record_log WHERE tenant = ?1 AND collection = ?2 AND key = ?3 AND transition IS NULL AND id <= \
                       (SELECT id FROM record_log WHERE tenant = ?1 AND collection = ?2 AND key = ?3 AND transition IS NULL \
                        ORDER BY id DESC LIMIT 1 OFFSET ?4)";
            execute(connection, sql, params![tenant, collection, key, max_entries])?;
        }
    }
    change_feed::write((connection, tables), tenant, recorded, &log, commit_time)?;
    if let Some(answer) = unit.response_to_keep(commit_time)
        && let Some(call) = unit.call()
    {
        // each new call deletes up to two expired ones
        execute(
            connection,
            "DELETE FROM calls WHERE (tenant, id) IN (SELECT tenant, id FROM calls WHERE made < ? LIMIT 2)",
            params![commit_time - CALL_RETENTION],
        )?;
        let sql = "INSERT INTO calls(tenant, id, request, answer, made) VALUES (?, ?, ?, ?, ?)";
        execute(connection, sql, params![tenant, call.id.as_slice(), call.request.as_slice(), answer, commit_time])?;
    }
    if let (Some(journal), Some(lease)) = (unit.journal(), lease) {
        journal::write_journal(connection, tables, lease.chunk, journal)?;
    }
    if let Some(lease) = lease {
        jobs::finish_chunk(connection, lease.chunk, commit_time)?;
    }
    Ok(CommitReceipt { committed_at: commit_time, rows })
}

fn settle(connection: &Connection, tables: &StoreTables, tenant: i64, mut settling: SettlingChanges) -> Result<()> {
    let candidates = std::mem::take(&mut settling.marks_if_linked);
    if !candidates.is_empty() {
        // nothing else writes meanwhile, so edges in addition to this unit's own are all there are
        let unit_edges = settling.linked_by_field(tables.catalogue());
        let mut linked = Vec::new();
        for mark in candidates {
            let own_edges = unit_edges.get(&(mark.rule, mark.target.as_str())).copied().unwrap_or(0);
            if edges::edges(TenantTables { connection, tables, tenant }, mark.rule, (&mark.target, None), Some(own_edges + 1))?.len() > own_edges {
                linked.push(mark);
            }
        }
        settling.marks.extend(linked);
    }
    for link in &settling.cleared_links {
        execute(connection, "DELETE FROM edges WHERE tenant = ? AND link = ?", params![tenant, link])?;
    }
    let prepare = |sql: &str| connection.prepare_cached(sql).map_err(store_error);
    let put = "INSERT OR REPLACE INTO edges(tenant, link, target, grp, start, child, payload) VALUES (?, ?, ?, ?, ?, ?, ?)";
    let delete = "DELETE FROM edges WHERE tenant = ? AND link = ? AND target = ? AND grp = ? AND start = ? AND child = ?";
    let (mut put, mut delete) = (prepare(put)?, prepare(delete)?);
    for change in settling.edges.iter().filter(|change| change.is_stored(tables.catalogue())) {
        let executed = match change {
            EdgeChange::Put(edge) => {
                put.execute(params![tenant, edge.link, edge.target.as_str(), edge.group.as_str(), edge.start, edge.child.as_str(), edge.payload])
            }
            EdgeChange::Delete(edge) => {
                delete.execute(params![tenant, edge.link, edge.target.as_str(), edge.group.as_str(), edge.start, edge.child.as_str()])
            }
        };
        executed.map_err(store_error)?;
    }
    for id in &settling.cleared {
        execute(connection, "DELETE FROM marks WHERE id = ? AND tenant = ?", params![id, tenant])?;
    }
    for mark in &settling.marks {
        execute(
            connection,
            "INSERT INTO marks(tenant, stratum, rule, target, part, job) VALUES (?, ?, ?, ?, ?, ?)",
            params![tenant, mark.pass_order, mark.rule, mark.target.as_str(), mark.part.as_str(), mark.job as i64],
        )?;
    }
    Ok(())
}

/// Checks that a unit's premises hold; nothing else writes from now on.
fn check_premises(connection: &Connection, tables: &StoreTables, tenant: i64, premises: &Premises) -> Result<()> {
    for search in &premises.searches {
        let mut keys = search.keys.iter();
        let mut is_same = true;
        query::visit(connection, tables.catalogue(), tenant, &search.plan, &mut |row| {
            is_same &= row.first().and_then(Value::as_text) == keys.next().map(Key::as_str);
            Ok(())
        })?;
        if !is_same || keys.next().is_some() {
            return Err(StoreError::Outdated);
        }
    }
    for of_collection in premises.records.chunk_by(|a, b| a.collection == b.collection) {
        let collection = of_collection[0].collection;
        let keys: Vec<Key> = of_collection.iter().map(|read| read.key.clone()).collect();
        let found = records::read(TenantTables { connection, tables, tenant }, collection, &keys, ReadDetail::Head)?;
        let is_same =
            |(read, found): (&RevisionRead, Option<StoredRecord>)| found.is_some_and(|found| found.exists && found.version.revision == read.revision);
        if !of_collection.iter().zip(found).all(is_same) {
            return Err(StoreError::Outdated);
        }
    }
    Ok(())
}

/// Passes a unit what has changed of its read set; nothing else writes from now on.
pub fn check_read_set(connection: &Connection, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> Result<()> {
    let Some(read_set) = unit.read_set() else { return Ok(()) };
    let (mut changed_records, mut changed_ranges) = (Vec::new(), Vec::new());
    for (index, read) in read_set.records.iter().enumerate() {
        if !records::is_current(connection, tables, tenant, (read.collection, &read.key), read.version)? {
            changed_records.push(index);
        }
    }
    for (index, read) in read_set.ranges.iter().enumerate() {
        if edges::edges_starting_between(connection, tenant, read.link, &read.ranges, None)? != read.edges {
            changed_ranges.push(index);
        }
    }
    report_read_set_changes(unit, (&changed_records, &changed_ranges), |collection, keys| {
        records::read(TenantTables { connection, tables, tenant }, collection, keys, ReadDetail::Full)
    })
}
