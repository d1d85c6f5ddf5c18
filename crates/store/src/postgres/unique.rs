//! Reservations of the values of unique fields, in a table for each field.

use super::session::{DbResult, Session};
use super::tables::TenantTables;
use super::values::RowExt;
use crate::sql::unique::{Digest, Taken};

/// Reads who has the values that a unit's records (`keys`) have and those that they claim (`digests`); locks these rows until the unit ends.
pub fn read(own: TenantTables<'_>, table: &str, keys: &[&str], digests: &[Digest]) -> DbResult<Taken> {
    let TenantTables { session, tables, tenant } = own;
    let sql = match tables.distributed() {
        // the lock of the collection excludes other units
        true => format!("SELECT digest, key FROM {table} WHERE tenant = $1 AND (digest = ANY($2) OR key = ANY($3))"),
        // one by one, like rows of records, and locked in the order of digests
        false => {
            let by =
                |column: &str| format!("SELECT digest FROM {table} WHERE tenant = $1 AND {column} BETWEEN u.own AND u.own ORDER BY {column} LIMIT 1");
            format!(
                "SELECT r.* FROM (SELECT f.digest AS own FROM \
                 (SELECT d.digest FROM unnest($2::bytea[]) AS u(own) CROSS JOIN LATERAL ({}) AS d \
                 UNION SELECT k.digest FROM unnest($3::text[]) AS u(own) CROSS JOIN LATERAL ({}) AS k) AS f ORDER BY f.digest) AS u \
                 CROSS JOIN LATERAL (SELECT digest, key FROM {table} WHERE tenant = $1 AND digest BETWEEN u.own AND u.own \
                 ORDER BY digest LIMIT 1 FOR UPDATE) AS r",
                by("digest"),
                by("key")
            )
        }
    };
    let rows = session.query(&sql, &[&tenant, &digests, &keys])?;
    let holders = rows.iter().map(|row| Ok((row.at(0)?, row.at(1)?))).collect::<DbResult<_>>()?;
    Ok(Taken { holders })
}

/// Writes the differences between the values taken before and after a unit.
pub fn write(session: &mut Session, tenant: i64, table: &str, before: &Taken, after: &Taken) -> DbResult<()> {
    let given: Vec<&Digest> =
        before.holders.iter().filter(|(digest, key)| after.holders.get(*digest) != Some(key)).map(|(digest, _)| digest).collect();
    if !given.is_empty() {
        session.later(&format!("DELETE FROM {} WHERE tenant = $1 AND digest = ANY($2)", table), &[&tenant, &given])?;
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
    session.later_of(keys.len(), "a value was taken meanwhile", &sql, &[&tenant, &digests, &keys])
}
