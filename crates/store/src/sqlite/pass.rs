//! Settle passes run inside the writer's transaction, which sees everything and has no concurrent writers.

use super::edges::{self, ChildrenByField};
use super::error::store_error;
use super::tables::{StoreTables, TenantTables};
use super::tenants::tenant_id;
use super::{marks, records, unit};
use crate::cancel::CancelToken;
use crate::{
    ChangedRecord, Edge, EdgeCursor, PassContext, PassReport, ReadDetail, RecordWrite, RefusedWrite, Result, SettlePass, StartRange, StoreError,
    StoredRecord, Tenant,
};
use rusqlite::{Connection, params};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;

/// The reads of a pass, inside the writer's transaction: nothing else writes meanwhile.
pub struct SqlitePassContext<'c> {
    pub connection: &'c Connection,
    pub tables: &'c StoreTables,
    pub tenant: i64,
}

impl SqlitePassContext<'_> {
    fn tenant_tables(&self) -> TenantTables<'_> {
        TenantTables { connection: self.connection, tables: self.tables, tenant: self.tenant }
    }
}

impl PassContext for SqlitePassContext<'_> {
    fn read_for_update(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        records::read(self.tenant_tables(), collection, keys, ReadDetail::Full)
    }

    fn read(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        records::read(self.tenant_tables(), collection, keys, ReadDetail::Values)
    }

    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> Result<Vec<Edge>> {
        // inside the process a statement for each target costs no round trip
        let mut found = Vec::new();
        for (target, group) in targets {
            let remaining = limit.map(|limit| limit.saturating_sub(found.len()));
            found.extend(edges::edges(self.tenant_tables(), link, (target, group.as_deref()), remaining)?);
        }
        Ok(found)
    }

    fn edges_starting_between(&mut self, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>> {
        edges::edges_starting_between(self.connection, self.tenant, link, ranges, limit)
    }

    fn edges_after(&mut self, link: u32, target: &str, after: EdgeCursor<'_>, limit: usize) -> Result<Vec<Edge>> {
        let EdgeCursor { group, start, child } = after;
        if let Some(by_field) = ChildrenByField::for_link(self.tables, link) {
            return by_field.children(self.connection, self.tenant, target, Some(child), Some(limit));
        }
        let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ? AND (grp, start, child) > (?, ?, ?) \
                   ORDER BY grp, start, child LIMIT ?";
        edges::read_edges(self.connection, link, target, sql, params![self.tenant, link, target, group, start, child, limit as i64])
    }

    fn wait_for_units_in_progress(&mut self) -> Result<()> {
        // nothing else writes
        Ok(())
    }

    fn keys_by(&mut self, collection: CollectionId, field: FieldId, values: &[&str]) -> Result<Vec<Key>> {
        let collection_tables = &self.tables.collections[collection];
        let name = &self.tables.catalogue().collections[collection].fields[field].name;
        let sql = format!("SELECT key FROM {} WHERE tenant = ? AND \"f_{name}\" = ?", collection_tables.table);
        let mut keys = Vec::new();
        for value in values {
            keys.extend(records::keys_of(self.connection, &sql, params![self.tenant, value])?);
        }
        Ok(keys)
    }

    fn keys_after(&mut self, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        records::keys_after(self.tenant_tables(), collection, key, limit)
    }

    fn jobs_with_marks(&mut self) -> Result<Vec<u64>> {
        marks::jobs_with_marks(self.connection, self.tenant)
    }
}

/// Calls `run`, which only reads, under the caller's token, so that the writer's connection gives up when it is cancelled.
fn under_token<T>(cancel_token: Option<&CancelToken>, run: impl FnOnce() -> Result<T>) -> Result<T> {
    match cancel_token {
        None => run(),
        Some(cancel_token) if cancel_token.is_cancelled() => Err(StoreError::Cancelled),
        Some(cancel_token) => cancel_token.during(run),
    }
}

/// Lets a pass process marks inside the writer's transaction; also returns the records that were written.
pub fn pass(
    connection: &Connection,
    tables: &StoreTables,
    owner: &Tenant,
    (pass, cancel_token): (&dyn SettlePass, Option<&CancelToken>),
    commit_time: i64,
) -> Result<(PassReport, Vec<ChangedRecord>)> {
    let tenant = tenant_id(connection, owner)?;
    let mut marks = marks::marks(connection, tenant, pass.max_marks())?;
    let Some(first_group) = marks.first().map(|mark| (mark.pass_order, mark.rule)) else { return Ok((PassReport::default(), Vec::new())) };
    marks.retain(|mark| (mark.pass_order, mark.rule) == first_group);
    let can_refuse = tables.collections.iter().any(|collection| !collection.uniques.is_empty());
    let mut refused: Vec<RefusedWrite> = Vec::new();
    loop {
        let mut settled = under_token(cancel_token, || pass.run(owner, &marks, &refused, &mut SqlitePassContext { connection, tables, tenant }))?;
        let marks_cleared = settled.settling.cleared.len() as u64;
        let (damaged, failures) = (std::mem::take(&mut settled.damaged), std::mem::take(&mut settled.failures));
        let changed = |write: &RecordWrite| ChangedRecord {
            tenant: owner.clone(),
            collection: write.collection,
            key: write.key.clone(),
            content_changed: true,
        };
        let changed = settled.writes.iter().map(changed).collect();
        let uses_savepoint = can_refuse && !settled.writes.is_empty();
        if uses_savepoint {
            connection.execute_batch("SAVEPOINT pass").map_err(store_error)?;
        }
        let mut unit = crate::sql::unit::PassUnit::new(owner, settled);
        let receipt = unit::write(connection, tables, &mut unit, commit_time)?;
        let is_refused = !unit.refused.is_empty();
        refused.append(&mut unit.refused);
        if uses_savepoint {
            connection.execute_batch(if is_refused { "ROLLBACK TO pass; RELEASE pass" } else { "RELEASE pass" }).map_err(store_error)?;
        }
        if !is_refused {
            return Ok((PassReport { marks_cleared, rows: receipt.rows, damaged, failures }, changed));
        }
    }
}
