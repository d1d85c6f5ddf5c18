//! Passes: one transaction locks lanes, takes their marks, holds the records it changes, and writes what follows. Statements see
//! what was committed before they began, so a pass sees everything that its marks announce.

use super::records;
use super::session::{DatabaseError, DbResult, Session};
use super::tables::{StoreTables, indexed, name};
use super::values::RowExt;
use crate::damage::Damage;
use crate::{Edge, LANES, PassContext, PassReport, ReadDetail, Result, SettlePass, StoreError, StoredRecord, Tenant, UniqueConflict};
use ::tokio_postgres::Row;
use std::collections::HashSet;
use stook_catalogue::key::Key;
use stook_catalogue::value::{FieldType, SmolStr};

/// What units hold until they end, from the question whether edges lead to their new records, or whether those they rely on have
/// changed; `$1` is the tenant.
pub const NEW_RECORDS: &str = "hashtextextended(current_schema() || ' new', $1)";

struct PostgresPassContext<'d> {
    session: &'d mut Session,
    tables: &'d StoreTables,
    tenant: i64,
    /// What a question failed with: the pass is done again if that helps.
    trouble: Option<DatabaseError>,
}

impl PostgresPassContext<'_> {
    fn ask<T: Default>(&mut self, ask: impl FnOnce(&mut Session, &StoreTables, i64) -> DbResult<T>) -> Result<T> {
        match ask(self.session, self.tables, self.tenant) {
            Ok(value) => Ok(value),
            // nothing is wrong with the transaction: the pass may do without
            Err(DatabaseError::Store(error @ StoreError::Damaged(_))) => Err(error),
            Err(trouble) => {
                self.trouble = Some(trouble);
                Err(StoreError::Other("a question of the pass failed".into()))
            }
        }
    }
}

/// What makes the planner look for edges one by one through the index; a cluster's does not understand it.
fn by_index(tables: &StoreTables) -> &'static str {
    if tables.distributed() { "" } else { " OFFSET 0" }
}

fn edge(link: u32, target: &str, row: &Row) -> DbResult<Edge> {
    let text = |column: &str| row.at::<&str>(column).map(SmolStr::from);
    Ok(Edge { link, target: target.into(), group: text("grp")?, start: row.at("start")?, child: text("child")?, payload: row.at("payload")? })
}

fn keys_of(rows: &[Row]) -> DbResult<Vec<Key>> {
    let key = |row: &Row| Key::new(row.at::<&str>(0)?).map_err(|error| StoreError::Damaged(Damage::of_row("a record", error.to_string())).into());
    rows.iter().map(key).collect()
}

impl PassContext for PostgresPassContext<'_> {
    fn hold(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|session, tables, tenant| {
            let wanted: Vec<&str> = keys.iter().map(Key::as_str).collect();
            if !tables.distributed() {
                let rows = records::by_key_locked(tables, &tables.collections[collection].table, "1", 2, "FOR UPDATE");
                session.one(&format!("SELECT count(*) FROM ({rows}) AS held"), &[&tenant, &wanted])?;
            }
            records::read(session, tables, tenant, collection, keys, ReadDetail::Full)
        })
    }

    fn read(&mut self, collection: usize, keys: &[Key]) -> Result<Vec<Option<StoredRecord>>> {
        self.ask(|session, tables, tenant| records::read(session, tables, tenant, collection, keys, ReadDetail::Values))
    }

    fn edges(&mut self, link: u32, targets: &[(String, Option<String>)], limit: usize) -> Result<Vec<Edge>> {
        self.ask(|session, tables, tenant| edges(session, tables, tenant, link, targets, limit))
    }

    fn between(&mut self, link: u32, ranges: &[(SmolStr, i64, i64)], limit: usize) -> Result<Vec<Edge>> {
        self.ask(|session, tables, tenant| between(session, tables, tenant, link, ranges, limit))
    }

    fn behind(&mut self, link: u32, target: &str, (group, start, child): (&str, i64, &str), limit: usize) -> Result<Vec<Edge>> {
        self.ask(|session, tables, tenant| {
            if let Some(by_field) = ChildrenByField::of(tables, link) {
                return by_field.behind(session, tenant, target, child, limit);
            }
            let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = $1 AND link = $2 AND target = $3 AND (grp, start, child) > ($4, $5, $6) \
                       ORDER BY grp, start, child LIMIT $7";
            let rows = session.query(sql, &[&tenant, &i64::from(link), &target, &group, &start, &child, &(limit as i64)])?;
            rows.iter().map(|row| edge(link, target, row)).collect()
        })
    }

    fn wait_for_new(&mut self) -> Result<()> {
        self.ask(|session, _, tenant| {
            // given back at once: it is enough that those who had it before have ended
            session.execute(&format!("SELECT pg_advisory_lock({NEW_RECORDS})"), &[&tenant])?;
            session.execute(&format!("SELECT pg_advisory_unlock({NEW_RECORDS})"), &[&tenant])?;
            Ok(())
        })
    }

    fn keys_by(&mut self, collection: usize, field: usize, values: &[&str]) -> Result<Vec<Key>> {
        self.ask(|session, tables, tenant| {
            let own = &tables.collections[collection];
            let field = &tables.catalogue().collections[collection].fields[field];
            let column = name(&["f", &field.name]);
            let sql = format!(
                "SELECT r.key FROM unnest($2::text[]) AS u(value) CROSS JOIN LATERAL (SELECT key FROM {} r WHERE r.tenant = $1 AND {} = {} AND {column} = u.value) AS r",
                own.table,
                indexed(&column, field.golden_type()),
                indexed("u.value", field.golden_type()),
            );
            keys_of(&session.query(&sql, &[&tenant, &values])?)
        })
    }

    fn keys_behind(&mut self, collection: usize, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.ask(|session, tables, tenant| keys_behind(session, tables, tenant, collection, key, limit))
    }

    fn marking(&mut self) -> Result<Vec<u64>> {
        self.ask(|session, _, tenant| marking(session, tenant))
    }
}

/// A link whose children are found by their field.
struct ChildrenByField<'t> {
    link: u32,
    table: &'t str,
    column: String,
    /// Where the elements of the field are, if it is a list.
    elements: Option<&'t str>,
}

impl<'t> ChildrenByField<'t> {
    fn of(tables: &'t StoreTables, link: u32) -> Option<Self> {
        let found = tables.catalogue().link_by_field(link)?;
        let field = &tables.catalogue().collections[found.child_collection].fields[found.field].name;
        let own = &tables.collections[found.child_collection];
        let elements = own.lists.iter().find(|(list, _)| *list == found.field).map(|(_, side)| side.as_str());
        Some(Self { link, table: &own.table, column: name(&["f", field]), elements })
    }

    /// Children of a target, or those behind a key, in the order of the index, so that no more are read than are wanted, and so that the
    /// planner takes that index also where it knows nothing of the table yet.
    fn of_target(&self, what: &str, target: &str, behind: Option<&str>) -> String {
        let Self { table, column, .. } = self;
        let wanted = indexed(target, &FieldType::Text);
        if let Some(elements) = self.elements {
            let own = indexed("i.value", &FieldType::Text);
            let from = match behind {
                Some(key) => format!("({own}, i.key) > ({wanted}, {key})"),
                None => format!("{own} >= {wanted}"),
            };
            // those who lead there one after the other, by their keys: however few the planner believes there are
            let lives = format!("(SELECT r.alive FROM {table} r WHERE r.tenant = $1 AND r.key = i.key)");
            return format!(
                "SELECT {what} FROM {elements} i WHERE i.tenant = $1 AND {from} AND {own} <= {wanted} AND i.value = {target} AND {lives} \
                 ORDER BY {own}, i.key"
            );
        }
        let own = indexed(column, &FieldType::Text);
        let from = match behind {
            Some(key) => format!("({own}, key) > ({wanted}, {key})"),
            None => format!("{own} >= {wanted}"),
        };
        format!(
            "SELECT {what} FROM {table} WHERE tenant = $1 AND {from} AND {own} <= {wanted} AND {column} = {target} AND alive \
             ORDER BY {own} NULLS FIRST, key"
        )
    }

    fn edge(&self, target: &str, child: &str) -> Edge {
        Edge { link: self.link, target: target.into(), group: SmolStr::default(), start: 0, child: child.into(), payload: Vec::new() }
    }

    /// Children of targets, target after target, by key.
    fn children(&self, session: &mut Session, tables: &StoreTables, tenant: i64, targets: &[&str], limit: usize) -> DbResult<Vec<Edge>> {
        let few = if tables.distributed() { "" } else { " LIMIT $3" };
        let sql = format!(
            "SELECT u.target, r.key FROM unnest($2::text[]) AS u(target) CROSS JOIN LATERAL ({}{few}) AS r \
             ORDER BY u.target COLLATE \"C\", r.key LIMIT $3",
            self.of_target("key", "u.target", None),
        );
        let rows = session.query(&sql, &[&tenant, &targets, &(limit as i64)])?;
        rows.iter().map(|row| Ok(self.edge(row.at(0)?, row.at(1)?))).collect()
    }

    /// Children of a target behind one.
    fn behind(&self, session: &mut Session, tenant: i64, target: &str, child: &str, limit: usize) -> DbResult<Vec<Edge>> {
        let sql = format!("{} LIMIT $4", self.of_target("key", "$2", Some("$3")));
        let rows = session.query(&sql, &[&tenant, &target, &child, &(limit as i64)])?;
        rows.iter().map(|row| Ok(self.edge(target, row.at(0)?))).collect()
    }
}

/// Edges of targets, each of one group or of all.
pub fn edges(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    link: u32,
    targets: &[(String, Option<String>)],
    limit: usize,
) -> DbResult<Vec<Edge>> {
    if let Some(by_field) = ChildrenByField::of(tables, link) {
        let targets: Vec<&str> = targets.iter().map(|(target, _)| target.as_str()).collect();
        return by_field.children(session, tables, tenant, &targets, limit);
    }
    let by_index = by_index(tables);
    let (names, groups): (Vec<&str>, Vec<Option<&str>>) = targets.iter().map(|(target, group)| (target.as_str(), group.as_deref())).unzip();
    // what is asked with a group and without are two questions, or an index would be used for the first column only
    let mut edges = Vec::new();
    let columns = "e.target, e.grp, e.start, e.child, e.payload";
    if groups.iter().any(Option::is_some) {
        let sql = format!(
            "SELECT {columns} FROM unnest($3::text[], $4::text[]) AS u(target, grp) CROSS JOIN LATERAL \
             (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target AND e.grp = u.grp{by_index}) AS e \
             WHERE u.grp IS NOT NULL ORDER BY e.target, e.grp, e.start, e.child LIMIT $5"
        );
        let rows = session.query(&sql, &[&tenant, &i64::from(link), &names, &groups, &(limit as i64)])?;
        for row in &rows {
            edges.push(edge(link, row.at("target")?, row)?);
        }
    }
    let whole: Vec<&str> = targets.iter().filter(|(_, group)| group.is_none()).map(|(target, _)| target.as_str()).collect();
    if !whole.is_empty() {
        let sql = format!(
            "SELECT {columns} FROM unnest($3::text[]) AS u(target) CROSS JOIN LATERAL \
             (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target{by_index}) AS e \
             ORDER BY e.target, e.grp, e.start, e.child LIMIT $4"
        );
        let rows = session.query(&sql, &[&tenant, &i64::from(link), &whole, &(limit as i64)])?;
        for row in &rows {
            edges.push(edge(link, row.at("target")?, row)?);
        }
    }
    Ok(edges)
}

/// Which of some targets, each with a number, have edges; where children are found by their field, more of them than that number.
pub fn named(session: &mut Session, tables: &StoreTables, tenant: i64, link: u32, targets: &[(&str, i64)]) -> DbResult<Vec<usize>> {
    let (names, own): (Vec<&str>, Vec<i64>) = targets.iter().copied().unzip();
    let rows = match ChildrenByField::of(tables, link) {
        Some(by_field) => {
            let sql = format!(
                "SELECT u.place FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS u(target, own, place) CROSS JOIN LATERAL \
                 ({} OFFSET u.own LIMIT 1) AS r",
                by_field.of_target("1", "u.target", None),
            );
            session.query(&sql, &[&tenant, &names, &own])?
        }
        None => {
            let sql = "SELECT u.place FROM unnest($3::text[]) WITH ORDINALITY AS u(target, place) CROSS JOIN LATERAL \
                       (SELECT 1 FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target LIMIT 1) AS e";
            session.query(sql, &[&tenant, &i64::from(link), &names])?
        }
    };
    rows.iter().map(|row| Ok(row.at::<i64>(0)? as usize - 1)).collect()
}

/// Keys of a collection behind one.
pub fn keys_behind(session: &mut Session, tables: &StoreTables, tenant: i64, collection: usize, key: &str, limit: usize) -> DbResult<Vec<Key>> {
    let sql = format!("SELECT key FROM {} WHERE tenant = $1 AND key > $2 ORDER BY key LIMIT $3", tables.collections[collection].table);
    keys_of(&session.query(&sql, &[&tenant, &key, &(limit as i64)])?)
}

/// Edges of targets that start between bounds.
pub fn between(
    session: &mut Session,
    tables: &StoreTables,
    tenant: i64,
    link: u32,
    ranges: &[(SmolStr, i64, i64)],
    limit: usize,
) -> DbResult<Vec<Edge>> {
    let targets: Vec<&str> = ranges.iter().map(|(target, ..)| target.as_str()).collect();
    let (low, high): (Vec<i64>, Vec<i64>) = ranges.iter().map(|(_, low, high)| (*low, *high)).unzip();
    let sql = format!(
        "SELECT DISTINCT e.target, e.grp, e.start, e.child, e.payload FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS u(target, low, high) \
         CROSS JOIN LATERAL (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target AND e.grp = '' \
         AND e.start BETWEEN u.low AND u.high{}) AS e ORDER BY e.target, e.grp, e.start, e.child LIMIT $6",
        by_index(tables)
    );
    let rows = session.query(&sql, &[&tenant, &i64::from(link), &targets, &low, &high, &(limit as i64)])?;
    rows.iter().map(|row| edge(link, row.at("target")?, row)).collect()
}

/// Lets a pass answer marks of lanes that nobody else is at; returns how many rows of which collections it wrote, too. Records that
/// cannot be written are added to `refused`, and it has to be done again.
pub fn pass(
    session: &mut Session,
    tables: &StoreTables,
    schema: &str,
    (owner, tenant): (&Tenant, i64),
    (pass, refused): (&dyn SettlePass, &mut Vec<UniqueConflict>),
    stamp: i64,
) -> DbResult<(PassReport, Vec<(usize, u64)>)> {
    let most = pass.most() as i64;
    let waiting = match tables.distributed() {
        true => session.query("SELECT lane, count(*) FROM marks WHERE tenant = $1 GROUP BY lane", &[&tenant])?,
        false => session.query(
            "SELECT lane, marks FROM generate_series(0, $2::bigint - 1) AS l(lane) CROSS JOIN LATERAL \
             (SELECT count(*) FROM (SELECT 1 FROM marks m WHERE m.tenant = $1 AND m.lane = l.lane LIMIT $3) AS m) AS m(marks) WHERE marks > 0",
            &[&tenant, &i64::from(LANES), &most],
        )?,
    };
    let mut waiting: Vec<(i64, i64)> = waiting.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    if waiting.is_empty() {
        return Ok(Default::default());
    }
    // whoever comes next begins with another one; and takes no more lanes than it can answer
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
    let all = records::marks(session, tables, tenant, &lanes, pass.most())?;
    for marks in all.chunk_by(|a, b| (a.phase, a.rule) == (b.phase, b.rule)) {
        if let Some(number) = pass.alone(marks) {
            let alone = "SELECT pg_try_advisory_xact_lock(hashtext($1), hashtext($2))";
            let names = (format!("stook settle {schema} alone"), format!("{tenant} {number}"));
            if !session.one(alone, &[&names.0, &names.1])?.at::<bool>(0)? {
                continue;
            }
        }
        let mut desk = PostgresPassContext { session, tables, tenant, trouble: None };
        let settled = pass.run(owner, marks, refused, &mut desk);
        let trouble = desk.trouble.take();
        let mut settled = match (settled, trouble) {
            (_, Some(trouble)) => return Err(trouble),
            (settled, None) => settled?,
        };
        let answered: HashSet<i64> = std::mem::take(&mut settled.settling.cleared).into_iter().collect();
        let own = marks.iter().filter(|mark| answered.contains(&mark.id));
        let (ids, targets): (Vec<i64>, Vec<&str>) = own.map(|mark| (mark.id, mark.target.as_str())).unzip();
        // one by one through the index: however the planner would join them, it believes that there are few
        let delete = if tables.distributed() {
            "DELETE FROM marks m USING unnest($2::bigint[], $3::text[]) AS u(id, target) WHERE m.tenant = $1 AND m.id = u.id AND m.target = u.target"
        } else {
            "DELETE FROM marks WHERE ctid = ANY(ARRAY(SELECT m.ctid FROM unnest($2::bigint[], $3::text[]) AS u(id, target) CROSS JOIN LATERAL \
             (SELECT ctid FROM marks m WHERE m.id = u.id AND m.target = u.target AND m.tenant = $1 OFFSET 0) AS m))"
        };
        session.later(delete, &[&tenant, &ids, &targets])?;
        let answered = ids.len() as u64;
        let (damaged, failures) = (std::mem::take(&mut settled.damaged), std::mem::take(&mut settled.failures));
        let mut unit = crate::row::PassUnit::new(owner, settled);
        let (receipt, sizes) = match records::write(session, tables, Some(tenant), &mut unit, stamp) {
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

/// Tenants that have marks.
pub fn owing(session: &mut Session, tables: &StoreTables) -> DbResult<Vec<Tenant>> {
    let sql = match tables.distributed() {
        true => "SELECT name FROM tenants WHERE id = ANY(ARRAY(SELECT tenant FROM marks GROUP BY tenant))",
        // one look at the index for each tenant, however many marks it has
        false => "SELECT name FROM tenants t CROSS JOIN LATERAL (SELECT 1 FROM marks WHERE tenant = t.id LIMIT 1) AS m",
    };
    let rows = session.query(sql, &[])?;
    rows.iter().map(|row| Ok(Tenant::new(row.at(0)?)?)).collect()
}

/// Whether a job has marks.
pub fn has_marks(session: &mut Session, tenant: i64, job: u64) -> DbResult<bool> {
    let sql = "SELECT EXISTS(SELECT 1 FROM marks WHERE tenant = $1 AND job = $2)";
    session.one(sql, &[&tenant, &(job as i64)])?.at(0)
}

/// Jobs that have marks.
pub fn marking(session: &mut Session, tenant: i64) -> DbResult<Vec<u64>> {
    let rows = session.query("SELECT DISTINCT job FROM marks WHERE tenant = $1", &[&tenant])?;
    rows.iter().map(|row| Ok(row.at::<i64>(0)? as u64)).collect()
}

/// Whether a job has no marks.
pub fn is_settled(session: &mut Session, job: u64) -> DbResult<bool> {
    let sql = "SELECT NOT EXISTS(SELECT 1 FROM marks WHERE tenant = (SELECT tenant FROM jobs WHERE id = $1) AND job = $1)";
    session.one(sql, &[&(job as i64)])?.at(0)
}
