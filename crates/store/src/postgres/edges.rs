//! Reads edges: stored ones, and those that follow from a field of the children.

use super::session::{DbResult, Session};
use super::tables::{StoreTables, TenantTables, index_expression, quoted_name};
use super::values::RowExt;
use crate::contract::edges::limit_in_sql;
use crate::{Edge, StartRange};
use ::tokio_postgres::Row;
use stook_catalogue::value::{FieldType, SmolStr};

/// The advisory lock that units hold, from when they check whether edges lead to their new records, or whether their read set has changed, until they
/// end; `$1` is the tenant.
pub const NEW_RECORDS_LOCK: &str = "hashtextextended(current_schema() || ' new', $1)";

/// Makes the planner find edges one by one through the index; the planner of a cluster does not support it.
fn index_hint(tables: &StoreTables) -> &'static str {
    if tables.is_distributed() { "" } else { " OFFSET 0" }
}

pub fn edge(link: u32, target: &str, row: &Row) -> DbResult<Edge> {
    let text = |column: &str| row.at::<&str>(column).map(SmolStr::from);
    Ok(Edge { link, target: target.into(), group: text("grp")?, start: row.at("start")?, child: text("child")?, payload: row.at("payload")? })
}

/// A link whose children are found by their field.
pub struct ChildrenByField<'t> {
    link: u32,
    table: &'t str,
    column: String,
    /// The table of the field's elements, if it is a list.
    elements: Option<&'t str>,
}

impl<'t> ChildrenByField<'t> {
    pub fn for_link(tables: &'t StoreTables, link: u32) -> Option<Self> {
        let link_field = tables.catalogue().link_by_field(link)?;
        let field = &tables.catalogue().collections[link_field.child_collection].fields[link_field.field].name;
        let child_tables = &tables.collections[link_field.child_collection];
        let elements = child_tables.lists.iter().find(|(list, _)| *list == link_field.field).map(|(_, side)| side.as_str());
        Some(Self { link, table: &child_tables.table, column: quoted_name(&["f", field]), elements })
    }

    /// The query for children of a target, or those after a key. It has the order of the index, so that no more are read than are wanted, and so that
    /// the planner uses that index even if it has no statistics of the table yet.
    fn children_sql(&self, columns: &str, target: &str, after: Option<&str>) -> String {
        let Self { table, column, .. } = self;
        let indexed_target = index_expression(target, &FieldType::Text);
        if let Some(elements) = self.elements {
            let indexed_value = index_expression("i.value", &FieldType::Text);
            let start_condition = match after {
                Some(key) => format!("({indexed_value}, i.key) > ({indexed_target}, {key})"),
                None => format!("{indexed_value} >= {indexed_target}"),
            };
            // look up the children one by one by their keys, however few the planner expects
            let is_alive = format!("(SELECT r.alive FROM {table} r WHERE r.tenant = $1 AND r.key = i.key)");
            return format!(
                "SELECT {columns} FROM {elements} i WHERE i.tenant = $1 AND {start_condition} AND {indexed_value} <= {indexed_target} AND i.value = {target} AND {is_alive} \
                 ORDER BY {indexed_value}, i.key"
            );
        }
        let indexed_value = index_expression(column, &FieldType::Text);
        let start_condition = match after {
            Some(key) => format!("({indexed_value}, key) > ({indexed_target}, {key})"),
            None => format!("{indexed_value} >= {indexed_target}"),
        };
        format!(
            "SELECT {columns} FROM {table} WHERE tenant = $1 AND {start_condition} AND {indexed_value} <= {indexed_target} AND {column} = {target} AND alive \
             ORDER BY {indexed_value} NULLS FIRST, key"
        )
    }

    fn edge(&self, target: &str, child: &str) -> Edge {
        Edge { link: self.link, target: target.into(), group: SmolStr::default(), start: 0, child: child.into(), payload: Vec::new() }
    }

    /// Reads children of targets, target after target, by key.
    fn children(&self, session: &mut Session, tables: &StoreTables, tenant: i64, targets: &[&str], limit: Option<usize>) -> DbResult<Vec<Edge>> {
        let limit_clause = if tables.is_distributed() { "" } else { " LIMIT $3" };
        let sql = format!(
            "SELECT u.target, r.key FROM unnest($2::text[]) AS u(target) CROSS JOIN LATERAL ({}{limit_clause}) AS r \
             ORDER BY u.target COLLATE \"C\", r.key LIMIT $3",
            self.children_sql("key", "u.target", None),
        );
        let rows = session.query(&sql, &[&tenant, &targets, &limit_in_sql(limit)])?;
        rows.iter().map(|row| Ok(self.edge(row.at(0)?, row.at(1)?))).collect()
    }

    /// Reads children of a target after one of them.
    pub fn edges_after(&self, session: &mut Session, tenant: i64, target: &str, child: &str, limit: usize) -> DbResult<Vec<Edge>> {
        let sql = format!("{} LIMIT $4", self.children_sql("key", "$2", Some("$3")));
        let rows = session.query(&sql, &[&tenant, &target, &child, &(limit as i64)])?;
        rows.iter().map(|row| Ok(self.edge(target, row.at(0)?))).collect()
    }
}

/// Reads edges of targets, each of one group or of all.
pub fn edges(tenant_tables: TenantTables<'_>, link: u32, targets: &[(String, Option<String>)], limit: Option<usize>) -> DbResult<Vec<Edge>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    if let Some(by_field) = ChildrenByField::for_link(tables, link) {
        let targets: Vec<&str> = targets.iter().map(|(target, _)| target.as_str()).collect();
        return by_field.children(session, tables, tenant, &targets, limit);
    }
    let index_hint = index_hint(tables);
    let (names, groups): (Vec<&str>, Vec<Option<&str>>) = targets.iter().map(|(target, group)| (target.as_str(), group.as_deref())).unzip();
    // targets with a group and those without need two queries, or an index would be used for its first column only
    let mut edges = Vec::new();
    let columns = "e.target, e.grp, e.start, e.child, e.payload";
    if groups.iter().any(Option::is_some) {
        let sql = format!(
            "SELECT {columns} FROM unnest($3::text[], $4::text[]) AS u(target, grp) CROSS JOIN LATERAL \
             (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target AND e.grp = u.grp{index_hint}) AS e \
             WHERE u.grp IS NOT NULL ORDER BY e.target, e.grp, e.start, e.child LIMIT $5"
        );
        let rows = session.query(&sql, &[&tenant, &i64::from(link), &names, &groups, &limit_in_sql(limit)])?;
        for row in &rows {
            edges.push(edge(link, row.at("target")?, row)?);
        }
    }
    let targets_without_group: Vec<&str> = targets.iter().filter(|(_, group)| group.is_none()).map(|(target, _)| target.as_str()).collect();
    if !targets_without_group.is_empty() {
        let sql = format!(
            "SELECT {columns} FROM unnest($3::text[]) AS u(target) CROSS JOIN LATERAL \
             (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target{index_hint}) AS e \
             ORDER BY e.target, e.grp, e.start, e.child LIMIT $4"
        );
        let rows = session.query(&sql, &[&tenant, &i64::from(link), &targets_without_group, &limit_in_sql(limit)])?;
        for row in &rows {
            edges.push(edge(link, row.at("target")?, row)?);
        }
    }
    Ok(edges)
}

/// Returns the positions of the targets that have edges; if children are found by their field, those that have more children than the number given
/// with them.
pub fn targets_with_edges(session: &mut Session, tables: &StoreTables, tenant: i64, link: u32, targets: &[(&str, i64)]) -> DbResult<Vec<usize>> {
    let (names, own_counts): (Vec<&str>, Vec<i64>) = targets.iter().copied().unzip();
    let rows = match ChildrenByField::for_link(tables, link) {
        Some(by_field) => {
            let sql = format!(
                "SELECT u.place FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY AS u(target, own, place) CROSS JOIN LATERAL \
                 ({} OFFSET u.own LIMIT 1) AS r",
                by_field.children_sql("1", "u.target", None),
            );
            session.query(&sql, &[&tenant, &names, &own_counts])?
        }
        None => {
            let sql = "SELECT u.place FROM unnest($3::text[]) WITH ORDINALITY AS u(target, place) CROSS JOIN LATERAL \
                       (SELECT 1 FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target LIMIT 1) AS e";
            session.query(sql, &[&tenant, &i64::from(link), &names])?
        }
    };
    rows.iter().map(|row| Ok(row.at::<i64>(0)? as usize - 1)).collect()
}

/// Reads edges without a group that start between bounds.
pub fn edges_starting_between(tenant_tables: TenantTables<'_>, link: u32, ranges: &[StartRange], limit: Option<usize>) -> DbResult<Vec<Edge>> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let targets: Vec<&str> = ranges.iter().map(|range| range.target.as_str()).collect();
    let (lows, highs): (Vec<i64>, Vec<i64>) = ranges.iter().map(|range| (range.low, range.high)).unzip();
    let sql = format!(
        "SELECT DISTINCT e.target, e.grp, e.start, e.child, e.payload FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS u(target, low, high) \
         CROSS JOIN LATERAL (SELECT * FROM edges e WHERE e.tenant = $1 AND e.link = $2 AND e.target = u.target AND e.grp = '' \
         AND e.start BETWEEN u.low AND u.high{}) AS e ORDER BY e.target, e.grp, e.start, e.child LIMIT $6",
        index_hint(tables)
    );
    let rows = session.query(&sql, &[&tenant, &i64::from(link), &targets, &lows, &highs, &limit_in_sql(limit)])?;
    rows.iter().map(|row| edge(link, row.at("target")?, row)).collect()
}
