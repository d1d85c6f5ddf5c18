//! Tenants and their ids.

use super::error::store_error;
use crate::{Result, Tenant};
use rusqlite::{Connection, OptionalExtension};

/// An id that no tenant has.
pub const NO_TENANT: i64 = -1;

/// Returns the id of a tenant, which is created if it is new.
pub fn tenant_id(connection: &Connection, tenant: &Tenant) -> Result<i64> {
    let mut find = connection.prepare_cached("SELECT id FROM tenants WHERE name = ?").map_err(store_error)?;
    if let Some(id) = find.query_row([tenant.as_str()], |row| row.get(0)).optional().map_err(store_error)? {
        return Ok(id);
    }
    connection.execute("INSERT INTO tenants(name) VALUES (?)", [tenant.as_str()]).map_err(store_error)?;
    Ok(connection.last_insert_rowid())
}
