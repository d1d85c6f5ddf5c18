//! Passes: marks are answered inside the writer's transaction, which sees everything and is alone.

use super::tables::StoreTables;
use super::{failure, records};
use crate::{
    ChangedRecord, Edge, PassContext, PassReport, ReadDetail, RecordWrite, Result, SettlePass, StoreError, StoredRecord, Tenant, UniqueConflict,
    Unit, WriteConflict,
};
use rusqlite::{Connection, OptionalExtension, Statement, StatementStatus, ToSql, params};
use stook_catalogue::key::Key;
use stook_catalogue::value::SmolStr;

/// What a pass asks, inside the writer's transaction: nobody else writes meanwhile.
pub struct SqlitePassContext<'c> {
    pub connection: &'c Connection,
    pub tables: &'c StoreTables,
    pub tenant: i64,
}

impl PassContext for SqlitePassContext<'_> {
    fn hold(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        records::read(self.connection, self.tables, self.tenant, collection, keys, ReadDetail::Full)
    }

    fn read(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        records::read(self.connection, self.tables, self.tenant, collection, keys, ReadDetail::Values)
    }

    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: usize) -> Result<Vec<Edge>> {
        // inside the process a statement for each target costs no round trip
        let mut found = Vec::new();
        for (target, group) in targets {
            let left = limit.saturating_sub(found.len());
            found.extend(edges(self.connection, self.tables, self.tenant, link, (target, group.as_deref()), left)?);
        }
        Ok(found)
    }

    fn between(&mut self, link: u32, ranges: &[(SmolStr, i64, i64)], limit: usize) -> Result<Vec<Edge>> {
        between(self.connection, self.tenant, link, ranges, limit)
    }

    fn behind(&mut self, link: u32, target: &str, (group, start, child): (&str, i64, &str), limit: usize) -> Result<Vec<Edge>> {
        if let Some(by_field) = ChildrenByField::of(self.tables, link) {
            return by_field.children(self.connection, self.tenant, target, Some(child), limit);
        }
        let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ? AND (grp, start, child) > (?, ?, ?) \
                   ORDER BY grp, start, child LIMIT ?";
        let mut edges = Vec::new();
        collect(self.connection, link, target, sql, params![self.tenant, link, target, group, start, child, limit as i64], &mut edges)?;
        Ok(edges)
    }

    fn wait_for_new(&mut self) -> Result<()> {
        // nobody else writes
        Ok(())
    }

    fn keys_by(&mut self, collection: usize, field: usize, values: &[&str]) -> Result<Vec<Key>> {
        let own = &self.tables.collections[collection];
        let name = &self.tables.catalogue().collections[collection].fields[field].name;
        let sql = format!("SELECT key FROM {} WHERE tenant = ? AND \"f_{name}\" = ?", own.table);
        let mut keys = Vec::new();
        for value in values {
            keys.extend(keys_of(self.connection, &sql, params![self.tenant, value])?);
        }
        Ok(keys)
    }

    fn keys_behind(&mut self, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>> {
        keys_behind(self.connection, self.tables, self.tenant, collection, key, limit)
    }

    fn marking(&mut self) -> Result<Vec<u64>> {
        marking(self.connection, self.tenant)
    }
}

fn keys_of(connection: &Connection, sql: &str, arguments: &[&dyn ToSql]) -> Result<Vec<Key>> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(arguments).map_err(failure)?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        let key: String = row.get(0).map_err(failure)?;
        keys.push(Key::new(key).map_err(|error| StoreError::Other(error.to_string()))?);
    }
    drop(rows);
    searched(&statement);
    Ok(keys)
}

/// Checks, where assertions are on, that a statement has found its rows by an index.
pub fn searched(statement: &Statement<'_>) {
    let scanned = || statement.get_status(StatementStatus::FullscanStep);
    debug_assert_eq!(scanned(), 0, "a whole table is read by {}", statement.expanded_sql().unwrap_or_default());
}

/// Keys of a collection behind one.
pub fn keys_behind(connection: &Connection, tables: &StoreTables, tenant: i64, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>> {
    let sql = format!("SELECT key FROM {} WHERE tenant = ? AND packed > packed(?) ORDER BY packed LIMIT ?", tables.collections[collection].table);
    keys_of(connection, &sql, params![tenant, key, limit as i64])
}

fn collect(connection: &Connection, link: u32, target: &str, sql: &str, arguments: &[&dyn ToSql], edges: &mut Vec<Edge>) -> Result<()> {
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query(arguments).map_err(failure)?;
    while let Some(row) = rows.next().map_err(failure)? {
        let get = || -> rusqlite::Result<Edge> {
            Ok(Edge {
                link,
                target: target.into(),
                group: records::text(row, 0)?,
                start: row.get(1)?,
                child: records::text(row, 2)?,
                payload: row.get(3)?,
            })
        };
        edges.push(get().map_err(failure)?);
    }
    drop(rows);
    searched(&statement);
    Ok(())
}

/// Edges of a target, of one group or of all.
pub fn edges(
    connection: &Connection,
    tables: &StoreTables,
    tenant: i64,
    link: u32,
    (target, group): (&str, Option<&str>),
    limit: usize,
) -> Result<Vec<Edge>> {
    if let Some(by_field) = ChildrenByField::of(tables, link) {
        return by_field.children(connection, tenant, target, None, limit);
    }
    let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ?";
    let mut edges = Vec::new();
    match group {
        Some(group) => {
            let sql = format!("{sql} AND grp = ? ORDER BY start, child LIMIT ?");
            collect(connection, link, target, &sql, params![tenant, link, target, group, limit as i64], &mut edges)?;
        }
        None => {
            let sql = format!("{sql} ORDER BY grp, start, child LIMIT ?");
            collect(connection, link, target, &sql, params![tenant, link, target, limit as i64], &mut edges)?;
        }
    }
    Ok(edges)
}

/// A link whose children are found by their field.
struct ChildrenByField<'t> {
    link: u32,
    table: &'t str,
    /// Records `r`, and what is equal of children of the target `?2`.
    found: String,
    /// What is their id; rows of the elements of lists have it, too, in its order.
    id: &'static str,
}

impl<'t> ChildrenByField<'t> {
    fn of(tables: &'t StoreTables, link: u32) -> Option<Self> {
        let found = tables.catalogue().link_by_field(link)?;
        let field = &tables.catalogue().collections[found.child_collection].fields[found.field];
        let (own, name) = (&tables.collections[found.child_collection], &field.name);
        let (table, is_one) = (&own.table, "r.tenant = ?1 AND");
        let (found, id) = match own.lists.iter().find(|(list, _)| *list == found.field) {
            Some((_, side)) => (format!("{side} AS i CROSS JOIN {table} AS r ON r.id = i.id WHERE i.tenant = ?1 AND i.value = ?2"), "i.id"),
            None if field.index.by_link => (format!("{table} AS r WHERE {is_one} r.\"d_{name}\" = digest(?2) AND \"f_{name}\" = ?2"), "r.id"),
            None => (format!("{table} AS r WHERE {is_one} \"f_{name}\" = ?2"), "r.id"),
        };
        Some(Self { link, table, found, id })
    }

    /// Children of a target, or those behind one of them, in the order of their ids, which is that of the index.
    fn children(&self, connection: &Connection, tenant: i64, target: &str, behind: Option<&str>, limit: usize) -> Result<Vec<Edge>> {
        let Self { link, table, found, id } = self;
        let place = match behind {
            Some(_) => format!(" AND {id} > ifnull((SELECT id FROM {table} WHERE tenant = ?1 AND packed = packed(?4)), -1)"),
            None => String::new(),
        };
        let sql = format!("SELECT '', 0, r.key, x'' FROM {found} AND r.alive{place} ORDER BY {id} LIMIT ?3");
        let limit = limit as i64;
        let mut arguments: Vec<&dyn ToSql> = params![tenant, target, limit].to_vec();
        arguments.extend(behind.as_ref().map(|child| child as &dyn ToSql));
        let mut edges = Vec::new();
        collect(connection, *link, target, &sql, &arguments, &mut edges)?;
        Ok(edges)
    }
}

/// Edges of targets that start between bounds.
pub fn between(connection: &Connection, tenant: i64, link: u32, ranges: &[(SmolStr, i64, i64)], limit: usize) -> Result<Vec<Edge>> {
    let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ? AND grp = '' \
               AND start BETWEEN ? AND ? ORDER BY start, child LIMIT ?";
    let mut edges = Vec::new();
    for (target, low, high) in ranges {
        let left = limit.saturating_sub(edges.len()) as i64;
        collect(connection, link, target, sql, params![tenant, link, target.as_str(), low, high, left], &mut edges)?;
    }
    Ok(edges)
}

/// Tells a unit what of that it relies on is not so any more: nobody else writes from now on.
pub fn check(connection: &Connection, tables: &StoreTables, tenant: i64, unit: &mut dyn Unit) -> Result<()> {
    let Some(reliance) = unit.relies() else { return Ok(()) };
    let (mut records, mut ranges) = (Vec::new(), Vec::new());
    for (place, (collection, key, version)) in reliance.records.iter().enumerate() {
        if !records::is_current(connection, tables, tenant, (*collection, key), *version)? {
            records.push(place);
        }
    }
    for (place, read) in reliance.ranges.iter().enumerate() {
        if between(connection, tenant, read.link, &read.ranges, usize::MAX >> 1)? != read.edges {
            ranges.push(place);
        }
    }
    if records.is_empty() && ranges.is_empty() {
        return Ok(());
    }
    let mut conflicts = Vec::new();
    for wanted in unit.broken(&records, &ranges).chunk_by(|a, b| a.0 == b.0) {
        let (collection, keys) = (wanted[0].0, wanted.iter().map(|(_, key)| key.clone()).collect::<Vec<Key>>());
        let found = records::read(connection, tables, tenant, collection, &keys, ReadDetail::Full)?;
        conflicts.extend(keys.into_iter().zip(found).map(|(key, record)| WriteConflict { collection, key, record }));
    }
    if !conflicts.is_empty() {
        unit.seen(conflicts);
    }
    Ok(())
}

/// Lets a pass answer marks inside the writer's transaction; returns what was written, too.
pub fn pass(
    connection: &Connection,
    tables: &StoreTables,
    owner: &Tenant,
    pass: &dyn SettlePass,
    stamp: i64,
) -> Result<(PassReport, Vec<ChangedRecord>)> {
    let tenant = records::tenant_id(connection, owner)?;
    let mut marks = records::marks(connection, tenant, pass.most())?;
    let Some(first) = marks.first().map(|mark| (mark.phase, mark.rule)) else { return Ok((PassReport::default(), Vec::new())) };
    marks.retain(|mark| (mark.phase, mark.rule) == first);
    let can_refuse = tables.collections.iter().any(|own| !own.uniques.is_empty());
    let mut refused: Vec<UniqueConflict> = Vec::new();
    loop {
        let mut settled = pass.run(owner, &marks, &refused, &mut SqlitePassContext { connection, tables, tenant })?;
        let answered = settled.settling.cleared.len() as u64;
        let (damaged, failures) = (std::mem::take(&mut settled.damaged), std::mem::take(&mut settled.failures));
        let changed = |write: &RecordWrite| ChangedRecord {
            tenant: owner.clone(),
            collection: write.collection,
            key: write.key.clone(),
            content_changed: true,
        };
        let changed = settled.writes.iter().map(changed).collect();
        let is_undone_alone = can_refuse && !settled.writes.is_empty();
        if is_undone_alone {
            connection.execute_batch("SAVEPOINT pass").map_err(failure)?;
        }
        let mut unit = crate::row::PassUnit::new(owner, settled);
        let receipt = records::write(connection, tables, &mut unit, stamp)?;
        let is_refused = !unit.refused.is_empty();
        refused.append(&mut unit.refused);
        if is_undone_alone {
            connection.execute_batch(if is_refused { "ROLLBACK TO pass; RELEASE pass" } else { "RELEASE pass" }).map_err(failure)?;
        }
        if !is_refused {
            return Ok((PassReport { marks_cleared: answered, rows: receipt.rows, damaged, failures }, changed));
        }
    }
}

/// Tenants that have marks.
pub fn owing(connection: &Connection) -> Result<Vec<Tenant>> {
    let sql = "SELECT name FROM tenants WHERE EXISTS(SELECT 1 FROM marks WHERE tenant = tenants.id)";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    let mut rows = statement.query([]).map_err(failure)?;
    let mut owing = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        owing.push(Tenant::new(&row.get::<_, String>(0).map_err(failure)?)?);
    }
    Ok(owing)
}

/// Whether a job has marks.
pub fn has_marks(connection: &Connection, tenant: i64, job: u64) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM marks WHERE tenant = ? AND job = ? LIMIT 1").map_err(failure)?;
    let found = statement.query_row(params![tenant, job as i64], |_| Ok(()));
    Ok(found.optional().map_err(failure)?.is_some())
}

/// Jobs that have marks.
pub fn marking(connection: &Connection, tenant: i64) -> Result<Vec<u64>> {
    let mut statement = connection.prepare_cached("SELECT DISTINCT job FROM marks WHERE tenant = ?").map_err(failure)?;
    let jobs = statement.query_map([tenant], |row| row.get::<_, i64>(0)).map_err(failure)?;
    jobs.map(|job| Ok(job.map_err(failure)? as u64)).collect()
}

/// Whether a job has no marks.
pub fn is_settled(connection: &Connection, job: u64) -> Result<bool> {
    let sql = "SELECT 1 FROM marks WHERE tenant = (SELECT tenant FROM jobs WHERE id = ?1) AND job = ?1 LIMIT 1";
    let mut statement = connection.prepare_cached(sql).map_err(failure)?;
    Ok(statement.query_row([job as i64], |_| Ok(())).optional().map_err(failure)?.is_none())
}
