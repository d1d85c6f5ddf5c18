//! Reads edges: stored ones, and those that follow from a field of the children.

use super::error::store_error;
use super::sql::{assert_no_full_scan, text};
use super::tables::{StoreTables, TenantTables};
use crate::contract::edges::limit_in_sql;
use crate::{Edge, Result, StartRange};
use rusqlite::{Connection, ToSql, params};

/// Reads edges of a link to a target by a statement.
pub fn read_edges(connection: &Connection, link: u32, target: &str, sql: &str, arguments: &[&dyn ToSql]) -> Result<Vec<Edge>> {
    let mut edges = Vec::new();
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(arguments).map_err(store_error)?;
    while let Some(row) = rows.next().map_err(store_error)? {
        let get = || -> rusqlite::Result<Edge> {
            Ok(Edge { link, target: target.into(), group: text(row, 0)?, start: row.get(1)?, child: text(row, 2)?, payload: row.get(3)? })
        };
        edges.push(get().map_err(store_error)?);
    }
    drop(rows);
    assert_no_full_scan(&statement);
    Ok(edges)
}

/// Reads edges of a target, of one group or of all.
pub fn edges(tenant_tables: TenantTables<'_>, link: u32, (target, group): (&str, Option<&str>), limit: Option<usize>) -> Result<Vec<Edge>> {
    let TenantTables { connection, tables, tenant } = tenant_tables;
    if let Some(by_field) = ChildrenByField::for_link(tables, link) {
        return by_field.children(connection, tenant, target, None, limit);
    }
    let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ?";
    match group {
        Some(group) => {
            let sql = format!("{sql} AND grp = ? ORDER BY start, child LIMIT ?");
            read_edges(connection, link, target, &sql, params![tenant, link, target, group, limit_in_sql(limit)])
        }
        None => {
            let sql = format!("{sql} ORDER BY grp, start, child LIMIT ?");
            read_edges(connection, link, target, &sql, params![tenant, link, target, limit_in_sql(limit)])
        }
    }
}

/// A link whose children are found by their field.
pub struct ChildrenByField<'t> {
    link: u32,
    table: &'t str,
    /// FROM and WHERE clauses for the children `r` of the target `?2`.
    from_where: String,
    /// The id column of the records. The side tables of lists have it too, in its order.
    id: &'static str,
}

impl<'t> ChildrenByField<'t> {
    pub fn for_link(tables: &'t StoreTables, link: u32) -> Option<Self> {
        let definition = tables.catalogue().link_by_field(link)?;
        let field = &tables.catalogue().collections[definition.child_collection].fields[definition.field];
        let (child_tables, name) = (&tables.collections[definition.child_collection], &field.name);
        let (table, of_tenant) = (&child_tables.table, "r.tenant = ?1 AND");
        let (from_where, id) = match child_tables.lists.iter().find(|(list, _)| *list == definition.field) {
            Some((_, side)) => (format!("{side} AS i CROSS JOIN {table} AS r ON r.id = i.id WHERE i.tenant = ?1 AND i.value = ?2"), "i.id"),
            None if field.index.by_link => (format!("{table} AS r WHERE {of_tenant} r.\"d_{name}\" = digest(?2) AND \"f_{name}\" = ?2"), "r.id"),
            None => (format!("{table} AS r WHERE {of_tenant} \"f_{name}\" = ?2"), "r.id"),
        };
        Some(Self { link, table, from_where, id })
    }

    /// Reads children of a target, or those after one of them, in the order of their ids, which is that of the index.
    pub fn children(&self, connection: &Connection, tenant: i64, target: &str, after: Option<&str>, limit: Option<usize>) -> Result<Vec<Edge>> {
        let Self { link, table, from_where, id } = self;
        let after_condition = match after {
            Some(_) => format!(" AND {id} > ifnull((SELECT id FROM {table} WHERE tenant = ?1 AND packed = packed(?4)), -1)"),
            None => String::new(),
        };
        let sql = format!("SELECT '', 0, r.key, x'' FROM {from_where} AND r.alive{after_condition} ORDER BY {id} LIMIT ?3");
        let limit = limit_in_sql(limit);
        let mut arguments: Vec<&dyn ToSql> = params![tenant, target, limit].to_vec();
        arguments.extend(after.as_ref().map(|child| child as &dyn ToSql));
        read_edges(connection, *link, target, &sql, &arguments)
    }
}

/// Reads edges without a group that start between bounds.
pub fn edges_starting_between(connection: &Connection, tenant: i64, link: u32, ranges: &[StartRange], limit: Option<usize>) -> Result<Vec<Edge>> {
    let sql = "SELECT grp, start, child, payload FROM edges WHERE tenant = ? AND link = ? AND target = ? AND grp = '' \
               AND start BETWEEN ? AND ? ORDER BY start, child LIMIT ?";
    let mut edges = Vec::new();
    for StartRange { target, low, high } in ranges {
        let remaining = limit_in_sql(limit.map(|limit| limit.saturating_sub(edges.len())));
        edges.extend(read_edges(connection, link, target, sql, params![tenant, link, target.as_str(), low, high, remaining])?);
    }
    Ok(edges)
}
