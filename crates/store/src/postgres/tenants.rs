//! Tenants and their ids.

use super::session::{DbResult, Session};
use super::values::RowExt;
use crate::Tenant;
use std::collections::HashMap;
use std::sync::RwLock;

/// An id that no tenant has.
pub const NO_TENANT: i64 = -1;

/// Ids of stored tenants, cached because they never change.
#[derive(Default)]
pub struct TenantIds(RwLock<HashMap<Tenant, i64>>);

impl TenantIds {
    /// Returns the id of a tenant, if it has ever written. Must not be called inside a transaction, which may be rolled back.
    pub fn find(&self, session: &mut Session, tenant: &Tenant) -> DbResult<Option<i64>> {
        let cached = self.0.read().ok().and_then(|tenants| tenants.get(tenant).copied());
        if cached.is_some() {
            return Ok(cached);
        }
        let found: Option<i64> =
            session.query_first("SELECT id FROM tenants WHERE name = $1", &[&tenant.as_str()])?.map(|row| row.at(0)).transpose()?;
        if let (Some(id), Ok(mut tenants)) = (found, self.0.write()) {
            tenants.insert(tenant.clone(), id);
        }
        Ok(found)
    }
}

/// Returns the id of a tenant, which is created if it is new.
pub fn tenant_id(session: &mut Session, tenant: &Tenant) -> DbResult<i64> {
    if let Some(row) = session.query_first("SELECT id FROM tenants WHERE name = $1", &[&tenant.as_str()])? {
        return row.at(0);
    }
    let sql = "INSERT INTO tenants(name) VALUES ($1) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id";
    session.query_one(sql, &[&tenant.as_str()])?.at(0)
}
