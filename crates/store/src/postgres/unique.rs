//! Reservations of the values of unique fields, in a table for each field.

use super::session::{DbResult, Session};
use super::tables::TenantTables;
use super::values::RowExt;
use crate::sql::unique::{Digest, Taken};

/// Reads who has the values that a unit's records (`keys`) have and those that they claim (`digests`); locks these rows until the unit ends.
pub fn read_taken(tenant_tables: TenantTables<'_>, table: &str, keys: &[&str], digests: &[Digest]) -> DbResult<Taken> {
    let TenantTables { session, tables, tenant } = tenant_tables;
    let sql = match tables.is_distributed() {
        // the lock of the collection excludes other units
        true => format!("SELECT digest, key FROM {table} WHERE tenant = $1 AND (digest = ANY($2) OR key = ANY($3))"),
        // one by one, like rows of records, and locked in the order of digests
        false => {
            let digest_by =
                |column: &str| format!("SELECT digest FROM {table} WHERE tenant = $1 AND {column} BETWEEN u.own AND u.own ORDER BY {column} LIMIT 1");
            format!(
                "SELECT r.* FROM (SELECT f.digest AS own FROM \
                 (SELECT d.digest FROM unnest($2::bytea[]) AS u(own) CROSS JOIN LATERAL ({}) AS d \
                 UNION SELECT k.digest FROM unnest($3::text[]) AS u(own) CROSS JOIN LATERAL ({}) AS k) AS f ORDER BY f.digest) AS u \
                 CROSS JOIN LATERAL (SELECT digest, key FROM {table} WHERE tenant = $1 AND digest BETWEEN u.own AND u.own \
                 ORDER BY digest LIMIT 1 FOR UPDATE) AS r",
                digest_by("digest"),
                digest_by("key")
            )
        }
    };
    let rows = session.query(&sql, &[&tenant, &digests, &keys])?;
    let holders = rows.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    Ok(Taken { holders })
}

/// Writes the differences between the values taken before and after a unit.
pub fn write_taken(session: &mut Session, tenant: i64, table: &str, before: &Taken, after: &Taken) -> DbResult<()> {
    let freed: Vec<&Digest> =
        before.holders.iter().filter(|(digest, key)| after.holders.get(*digest) != Some(key)).map(|(digest, _)| digest).collect();
    if !freed.is_empty() {
        session.defer(&format!("DELETE FROM {} WHERE tenant = $1 AND digest = ANY($2)", table), &[&tenant, &freed])?;
    }
    let mut taken: Vec<(&Digest, &String)> = after.holders.iter().filter(|(digest, key)| before.holders.get(*digest) != Some(key)).collect();
    if taken.is_empty() {
        return Ok(());
    }
    taken.sort();
    let (digests, keys): (Vec<&Digest>, Vec<&String>) = taken.into_iter().unzip();
    let sql = format!(
        "INSERT INTO {}(tenant, digest, key) SELECT $1, u.digest, u.key FROM unnest($2::bytea[], $3::text[]) AS u(digest, key) ORDER BY u.digest \
         ON CONFLICT DO NOTHING",
        table
    );
    session.defer_expecting(keys.len(), "a value was taken meanwhile", &sql, &[&tenant, &digests, &keys])
}
