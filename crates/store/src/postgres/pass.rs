//! Settle passes: one transaction locks lock partitions, takes their marks, locks the records it changes, and writes what follows. Each statement
//! sees what was committed before it began, so a pass sees every change for which it has a mark.

use super::edges::{self, NEW_RECORDS};
use super::records::{self, by_key_locked};
use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, TenantTables, indexed, name};
use super::values::RowExt;
use super::{marks, unit};
use crate::{
    Edge, EdgeCursor, LOCK_PARTITIONS, PassContext, PassReport, ReadDetail, Result, SettlePass, StartRange, StoreError, StoredRecord, Tenant,
    UniqueConflict,
};
use std::collections::HashSet;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;

struct PostgresPassContext<'d> {
    session: &'d mut Session,
    tables: &'d StoreTables,
    tenant: i64,
    /// The error of a read: the pass is repeated if that may help.
    trouble: Option<DatabaseError>,
}

impl PostgresPassContext<'_> {
    fn ask<T: Default>(&mut self, ask: impl FnOnce(TenantTables<'_>) -> DbResult<T>) -> Result<T> {
        match ask(TenantTables { session: self.session, tables: self.tables, tenant: self.tenant }) {
            Ok(value) => Ok(value),
            // the transaction is still usable: the pass may go on without the record
            Err(DatabaseError::Store(error @ StoreError::Damaged(_))) => Err(error),
            Err(trouble) => {
                self.trouble = Some(trouble);
                Err(StoreError::Other("a question of the pass failed".into()))
            }
        }
    }
}

impl PassContext for PostgresPassContext<'_> {
    fn hold(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|TenantTables { session, tables, tenant }| {
            let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
            if !tables.distributed() {
                let rows = by_key_locked(tables, &tables.collections[collection].table, "1", 2, "FOR UPDATE");
                session.one(&format!("SELECT count(*) FROM ({rows}) AS held"), &[&tenant, &wanted])?;
            }
            records::read(TenantTables { session, tables, tenant }, collection, keys, ReadDetail::Full)
        })
    }

    fn read(&mut self, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|own| records::read(own, collection, keys, ReadDetail::Values))
    }

    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> Result<Vec<Edge>> {
        self.ask(|own| edges::edges(own, link, targets, limit))
    }

    fn edges_starting_between(&mut self, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>> {
        self.ask(|own| edges::edges_starting_between(own, link, ranges, limit))
    }

    fn edges_after(&mut self, link: u32, target: &str, after: EdgeCursor<'_>, limit: usize) -> Result<Vec<Edge>> {
        let EdgeCursor { group, start, child } = after;
        self.ask(|TenantTables { session, tables, tenant }| {
            if let Some(by_field) = edges::ChildrenByField::of(tables, link) {
                return by_field.edges_after(session, tenant, target, child, limit);
            }
            let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = $1 AND link = $2 AND target = $3 AND (grp, start, child) > ($4, $5, $6) \
                       ORDER BY grp, start, child LIMIT $7";
            let rows = session.query(sql, &[&tenant, &i64::from(link), &target, &group, &start, &child, &(limit as i64)])?;
            rows.iter().map(|row| edges::edge(link, target, row)).collect()
        })
    }

    fn wait_for_new(&mut self) -> Result<()> {
        self.ask(|TenantTables { session, tenant, .. }| {
            // released at once: it is enough that earlier holders have ended
            session.execute(&format!("SELECT pg_advisory_lock({NEW_RECORDS})"), &[&tenant])?;
            session.execute(&format!("SELECT pg_advisory_unlock({NEW_RECORDS})"), &[&tenant])?;
            Ok(())
        })
    }

    fn keys_by(&mut self, collection: CollectionId, field: FieldId, values: &[&str]) -> Result<Vec<Key>> {
        self.ask(|TenantTables { session, tables, tenant }| {
            let own = &tables.collections[collection];
            let field = &tables.catalogue().collections[collection].fields[field];
            let column = name(&["f", &field.name]);
            let sql = format!(
                "SELECT r.key FROM unnest($2::text[]) AS u(value) CROSS JOIN LATERAL (SELECT key FROM {} r WHERE r.tenant = $1 AND {} = {} AND {column} = u.value) AS r",
                own.table,
                indexed(&column, field.golden_type()),
                indexed("u.value", field.golden_type()),
            );
            records::keys_of(&session.query(&sql, &[&tenant, &values])?)
        })
    }

    fn keys_after(&mut self, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.ask(|own| records::keys_after(own, collection, key, limit))
    }

    fn marking(&mut self) -> Result<Vec<u64>> {
        self.ask(|TenantTables { session, tenant, .. }| marks::marking(session, tenant))
    }
}

/// Lets a pass process marks of lock partitions that no other pass has locked; also returns how many rows of which collections it wrote. Records that
/// cannot be written are added to `refused`, and the pass must be repeated.
pub fn pass(
    own: TenantTables<'_>,
    schema: &str,
    owner: &Tenant,
    (pass, refused): (&dyn SettlePass, &mut Vec<UniqueConflict>),
    stamp: i64,
) -> DbResult<(PassReport, Vec<(CollectionId, u64)>)> {
    let TenantTables { session, tables, tenant } = own;
    let most = pass.max_marks() as i64;
    let waiting = match tables.distributed() {
        true => session.query("SELECT lane, count(*) FROM marks WHERE tenant = $1 GROUP BY lane", &[&tenant])?,
        false => session.query(
            "SELECT lane, marks FROM generate_series(0, $2::bigint - 1) AS l(lane) CROSS JOIN LATERAL \
             (SELECT count(*) FROM (SELECT 1 FROM marks m WHERE m.tenant = $1 AND m.lane = l.lane LIMIT $3) AS m) AS m(marks) WHERE marks > 0",
            &[&tenant, &i64::from(LOCK_PARTITIONS), &most],
        )?,
    };
    let mut waiting: Vec<(i64, i64)> = waiting.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    if waiting.is_empty() {
        return Ok(Default::default());
    }
    // each pass begins with another partition, and takes no more partitions than it can process
    let turn = stamp.unsigned_abs() as usize % waiting.len();
    waiting.rotate_left(turn);
    let mut left = most;
    let mut lanes: Vec<i64> = Vec::new();
    for (lane, marks) in waiting {
        if left > 0 {
            lanes.push(lane);
            left -= marks;
        }
    }
    let lock = "SELECT lane FROM unnest($2::bigint[]) AS u(lane) WHERE pg_try_advisory_xact_lock(hashtext($1), hashtext($3 || ' ' || lane))";
    let lanes = session.query(lock, &[&format!("stook settle {schema}"), &lanes, &tenant.to_string()])?;
    let lanes: Vec<i64> = lanes.iter().map(|row| row.at(0)).collect::<DbResult<_>>()?;
    let all = marks::marks(session, tables, tenant, &lanes, pass.max_marks())?;
    for marks in all.chunk_by(|a, b| (a.order, a.rule) == (b.order, b.rule)) {
        if let Some(number) = pass.exclusive_group(marks) {
            let alone = "SELECT pg_try_advisory_xact_lock(hashtext($1), hashtext($2))";
            let names = (format!("stook settle {schema} alone"), format!("{tenant} {number}"));
            if !session.one(alone, &[&names.0, &names.1])?.at::<bool>(0)? {
                continue;
            }
        }
        let mut context = PostgresPassContext { session, tables, tenant, trouble: None };
        let settled = pass.run(owner, marks, refused, &mut context);
        let trouble = context.trouble.take();
        let mut settled = match (settled, trouble) {
            (_, Some(trouble)) => return Err(trouble),
            (settled, None) => settled?,
        };
        let answered: HashSet<i64> = std::mem::take(&mut settled.settling.cleared).into_iter().collect();
        let own = marks.iter().filter(|mark| answered.contains(&mark.id));
        let (ids, targets): (Vec<i64>, Vec<&str>) = own.map(|mark| (mark.id, mark.target.as_str())).unzip();
        // one by one through the index: the planner would underestimate their number for any kind of join
        let delete = if tables.distributed() {
            "DELETE FROM marks m USING unnest($2::bigint[], $3::text[]) AS u(id, target) WHERE m.tenant = $1 AND m.id = u.id AND m.target = u.target"
        } else {
            "DELETE FROM marks WHERE ctid = ANY(ARRAY(SELECT m.ctid FROM unnest($2::bigint[], $3::text[]) AS u(id, target) CROSS JOIN LATERAL \
             (SELECT ctid FROM marks m WHERE m.id = u.id AND m.target = u.target AND m.tenant = $1 OFFSET 0) AS m))"
        };
        session.later(delete, &[&tenant, &ids, &targets])?;
        let answered = ids.len() as u64;
        let (damaged, failures) = (std::mem::take(&mut settled.damaged), std::mem::take(&mut settled.failures));
        let mut unit = crate::sql::unit::PassUnit::new(owner, settled);
        let (receipt, sizes) = match unit::write(session, tables, Some(tenant), &mut unit, stamp) {
            Err(_) if unit.must_retry => return Err(DatabaseError::Retry("a record came into being while a pass settled it".into())),
            written => written?,
        };
        if !unit.refused.is_empty() {
            refused.append(&mut unit.refused);
            return Err(DatabaseError::Retry("records have taken unique values that a pass would have written".into()));
        }
        return Ok((PassReport { marks_cleared: answered, rows: receipt.rows, damaged, failures }, sizes));
    }
    Ok(Default::default())
}
