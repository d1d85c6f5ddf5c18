//! Settle passes: one transaction locks lock partitions, takes their marks, locks the records it changes, and writes what follows. Each statement
//! sees what was committed before it began, so a pass sees every change for which it has a mark.

use super::edges::{self, NEW_RECORDS_LOCK};
use super::records::{self, by_key_locked_sql};
use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, TenantTables, index_expression, quoted_name};
use super::values::RowExt;
use super::{marks, unit};
use crate::{
    Edge, EdgeCursor, LOCK_PARTITIONS, PassContext, PassReport, ReadDetail, RefusedWrite, Result, SettlePass, StartRange, StoreError, StoredRecord,
    Tenant,
};
use std::collections::HashSet;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;

struct PostgresPassContext<'d> {
    session: &'d mut Session,
    tables: &'d StoreTables,
    tenant: i64,
    /// The error of a read: the pass is repeated if that may help.
    error: Option<DatabaseError>,
}

impl PostgresPassContext<'_> {
    fn with_tables<T: Default>(&mut self, work: impl FnOnce(TenantTables<'_>) -> DbResult<T>) -> Result<T> {
        match work(TenantTables { session: self.session, tables: self.tables, tenant: self.tenant }) {
            Ok(value) => Ok(value),
            // the transaction is still usable: the pass may go on without the record
            Err(DatabaseError::Store(error @ StoreError::Damaged(_))) => Err(error),
            Err(error) => {
                self.error = Some(error);
                Err(StoreError::Other("a read of the settle pass failed".into()))
            }
        }
    }
}

impl PassContext for PostgresPassContext<'_> {
    fn read_for_update(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.with_tables(|TenantTables { session, tables, tenant }| {
            let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
            if !tables.is_distributed() {
                let rows = by_key_locked_sql(tables, &tables.collections[collection].table, "1", 2, "FOR UPDATE");
                session.query_one(&format!("SELECT count(*) FROM ({rows}) AS held"), &[&tenant, &wanted])?;
            }
            records::read(TenantTables { session, tables, tenant }, collection, keys, ReadDetail::Full)
        })
    }

    fn read(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.with_tables(|tables| records::read(tables, collection, keys, ReadDetail::Values))
    }

    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> Result<Vec<Edge>> {
        self.with_tables(|tables| edges::edges(tables, link, targets, limit))
    }

    fn edges_starting_between(&mut self, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>> {
        self.with_tables(|tables| edges::edges_starting_between(tables, link, ranges, limit))
    }

    fn edges_after(&mut self, link: u32, target: &str, after: EdgeCursor<'_>, limit: usize) -> Result<Vec<Edge>> {
        let EdgeCursor { group, start, child } = after;
        self.with_tables(|TenantTables { session, tables, tenant }| {
            if let Some(by_field) = edges::ChildrenByField::for_link(tables, link) {
                return by_field.edges_after(session, tenant, target, child, limit);
            }
            let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = $1 AND link = $2 AND target = $3 AND (grp, start, child) > ($4, $5, $6) \
                       ORDER BY grp, start, child LIMIT $7";
            let rows = session.query(sql, &[&tenant, &i64::from(link), &target, &group, &start, &child, &(limit as i64)])?;
            rows.iter().map(|row| edges::edge(link, target, row)).collect()
        })
    }

    fn wait_for_units_in_progress(&mut self) -> Result<()> {
        self.with_tables(|TenantTables { session, tenant, .. }| {
            // released at once: it is enough that earlier holders have ended
            session.execute(&format!("SELECT pg_advisory_lock({NEW_RECORDS_LOCK})"), &[&tenant])?;
            session.execute(&format!("SELECT pg_advisory_unlock({NEW_RECORDS_LOCK})"), &[&tenant])?;
            Ok(())
        })
    }

    fn keys_by(&mut self, collection: CollectionId, field: FieldId, values: &[&str]) -> Result<Vec<Key>> {
        self.with_tables(|TenantTables { session, tables, tenant }| {
            let collection_tables = &tables.collections[collection];
            let field = &tables.catalogue().collections[collection].fields[field];
            let column = quoted_name(&["f", &field.name]);
            let sql = format!(
                "SELECT r.key FROM unnest($2::text[]) AS u(value) CROSS JOIN LATERAL (SELECT key FROM {} r WHERE r.tenant = $1 AND {} = {} AND {column} = u.value) AS r",
                collection_tables.table,
                index_expression(&column, field.golden_type()),
                index_expression("u.value", field.golden_type()),
            );
            records::keys_of(&session.query(&sql, &[&tenant, &values])?)
        })
    }

    fn keys_after(&mut self, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_tables(|tables| records::keys_after(tables, collection, key, limit))
    }

    fn jobs_with_marks(&mut self) -> Result<Vec<u64>> {
        self.with_tables(|TenantTables { session, tenant, .. }| marks::jobs_with_marks(session, tenant))
    }
}

/// Lets a pass process marks of lock partitions that no other pass has locked; also returns how many rows of which collections it wrote. Records that
/// cannot be written are added to `refused`, and the pass must be repeated.
pub fn pass(
    tenant_tables: TenantTables<'_>,
    schema: &str,
    owner: &Tenant,
    (pass, refused): (&dyn SettlePass, &mut Vec<RefusedWrite>),
    commit_time: i64,
) -> DbResult<(PassReport, Vec<(CollectionId, u64)>)> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let max_marks = pass.max_marks() as i64;
    let marks_by_partition = match tables.is_distributed() {
        true => session.query("SELECT lane, count(*) FROM marks WHERE tenant = $1 GROUP BY lane", &[&tenant])?,
        false => session.query(
            "SELECT lane, marks FROM generate_series(0, $2::bigint - 1) AS l(lane) CROSS JOIN LATERAL \
             (SELECT count(*) FROM (SELECT 1 FROM marks m WHERE m.tenant = $1 AND m.lane = l.lane LIMIT $3) AS m) AS m(marks) WHERE marks > 0",
            &[&tenant, &i64::from(LOCK_PARTITIONS), &max_marks],
        )?,
    };
    let mut marks_by_partition: Vec<(i64, i64)> = marks_by_partition.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    if marks_by_partition.is_empty() {
        return Ok(Default::default());
    }
    // each pass begins with another partition, and takes no more partitions than it can process
    let first_partition = commit_time.unsigned_abs() as usize % marks_by_partition.len();
    marks_by_partition.rotate_left(first_partition);
    let mut remaining = max_marks;
    let mut partitions: Vec<i64> = Vec::new();
    for (partition, marks) in marks_by_partition {
        if remaining > 0 {
            partitions.push(partition);
            remaining -= marks;
        }
    }
    let lock = "SELECT lane FROM unnest($2::bigint[]) AS u(lane) WHERE pg_try_advisory_xact_lock(hashtext($1), hashtext($3 || ' ' || lane))";
    let partitions = session.query(lock, &[&format!("stook settle {schema}"), &partitions, &tenant.to_string()])?;
    let partitions: Vec<i64> = partitions.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    let all_marks = marks::marks(session, tables, tenant, &partitions, pass.max_marks())?;
    for marks in all_marks.chunk_by(|a, b| (a.pass_order, a.rule) == (b.pass_order, b.rule)) {
        if let Some(group) = pass.exclusive_group(marks) {
            let lock_group = "SELECT pg_try_advisory_xact_lock(hashtext($1), hashtext($2))";
            let names = (format!("stook settle {schema} alone"), format!("{tenant} {group}"));
            if !session.query_one(lock_group, &[&names.0, &names.1])?.at::<bool>(0)? {
                continue;
            }
        }
        let mut context = PostgresPassContext { session, tables, tenant, error: None };
        let settled = pass.run(owner, marks, refused, &mut context);
        let error = context.error.take();
        let mut settled = match (settled, error) {
            (_, Some(error)) => return Err(error),
            (settled, None) => settled?,
        };
        let cleared: HashSet<i64> = std::mem::take(&mut settled.settling.cleared).into_iter().collect();
        let settled_marks = marks.iter().filter(|mark| cleared.contains(&mark.id));
        let (ids, targets): (Vec<i64>, Vec<&str>) = settled_marks.map(|mark| (mark.id, mark.target.as_str())).unzip();
        // one by one through the index: the planner would underestimate their number for any kind of join
        let delete = if tables.is_distributed() {
            "DELETE FROM marks m USING unnest($2::bigint[], $3::text[]) AS u(id, target) WHERE m.tenant = $1 AND m.id = u.id AND m.target = u.target"
        } else {
            "DELETE FROM marks WHERE ctid = ANY(ARRAY(SELECT m.ctid FROM unnest($2::bigint[], $3::text[]) AS u(id, target) CROSS JOIN LATERAL \
             (SELECT ctid FROM marks m WHERE m.id = u.id AND m.target = u.target AND m.tenant = $1 OFFSET 0) AS m))"
        };
        session.defer(delete, &[&tenant, &ids, &targets])?;
        let marks_cleared = ids.len() as u64;
        let (damaged, failures) = (std::mem::take(&mut settled.damaged), std::mem::take(&mut settled.failures));
        let mut unit = crate::sql::unit::PassUnit::new(owner, settled);
        let (receipt, sizes) = match unit::write(session, tables, Some(tenant), &mut unit, commit_time) {
            Err(_) if unit.must_retry => return Err(DatabaseError::Retry("a record was created while a settle pass computed it".into())),
            written => written?,
        };
        if !unit.refused.is_empty() {
            refused.append(&mut unit.refused);
            return Err(DatabaseError::Retry("records have taken unique values that a pass would have written".into()));
        }
        return Ok((PassReport { marks_cleared, rows: receipt.rows, damaged, failures }, sizes));
    }
    Ok(Default::default())
}
