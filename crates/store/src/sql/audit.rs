//! Statements of the audit log that both stores have.

use crate::audit::{AuditEntry, AuditQuery, AuditedOperation, MAX_ENTRIES, RETENTION};
use crate::{Result, Tenant};

/// The columns of an entry, in the order of [`AuditRow`].
pub const COLUMNS: &str = "id, at, tenant, token, caller, address, operation, collection, key, outcome";

/// Entries after which old ones are looked for.
pub const CLEANED_EVERY: u64 = 256;

/// A value of a condition.
pub enum Bound {
    Int(i64),
    Text(String),
}

/// The statement for the wanted entries, with its values. `place` names the place of the value with a number.
pub fn select(wanted: &AuditQuery, place: impl Fn(usize) -> String) -> (String, Vec<Bound>) {
    let (mut conditions, mut values) = (Vec::new(), Vec::new());
    let mut add = |condition: &str, value: Bound| {
        values.push(value);
        conditions.push(format!("{condition} {}", place(values.len())));
    };
    if let Some(tenant) = &wanted.tenant {
        add("tenant =", Bound::Text(tenant.as_str().to_owned()));
    }
    if let Some(since) = wanted.since {
        add("at >=", Bound::Int(since));
    }
    if let Some(token) = wanted.token {
        add("token =", Bound::Int(token as i64));
    }
    if let Some((collection, key)) = &wanted.record {
        add("collection =", Bound::Text(collection.clone()));
        add("key =", Bound::Text(key.as_str().to_owned()));
    }
    if let Some(before) = wanted.before {
        add("id <", Bound::Int(before as i64));
    }
    let conditions = if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) };
    (format!("SELECT {COLUMNS} FROM audit{conditions} ORDER BY id DESC LIMIT {}", wanted.limit), values)
}

/// The statement that removes entries that are too old, or too many, when an entry is added at a time.
pub fn clean(id: i64, at: i64) -> String {
    let (oldest, first) = (at - RETENTION, id - MAX_ENTRIES);
    // entries are in the order of their times, so that only the first ones need be looked at
    format!(
        "DELETE FROM audit WHERE id IN (SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT {}) AS firsts WHERE at < {oldest} OR id <= {first})",
        4 * CLEANED_EVERY
    )
}

/// The columns of an entry.
pub struct AuditRow {
    pub id: i64,
    pub at: i64,
    pub tenant: Option<String>,
    pub token: Option<i64>,
    pub caller: String,
    pub address: Option<String>,
    pub operation: String,
    pub collection: Option<String>,
    pub key: Option<String>,
    pub outcome: String,
}

impl AuditRow {
    pub fn into_entry(self) -> Result<AuditEntry> {
        let tenant = self.tenant.map(|tenant| Tenant::new(&tenant)).transpose()?;
        let by = AuditedOperation {
            tenant,
            token: self.token.map(|token| token as u64),
            caller: self.caller,
            address: self.address,
            ..AuditedOperation::new(&self.operation)
        };
        Ok(AuditEntry { id: self.id as u64, at: self.at, by, record: self.collection.zip(self.key), outcome: self.outcome })
    }
}
