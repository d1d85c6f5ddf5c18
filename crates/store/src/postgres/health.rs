//! The state of the server, as far as this role may see it.

use super::session::{DbResult, Session};
use super::store::PostgresStore;
use super::tables::FORMAT;
use super::values::RowExt;
use crate::Result;
use crate::health::{Health, Replica, StoreHealth};

/// Bytes of tables with their indexes, and those of rows that are deleted, estimated by their share.
const SIZES: &str = "SELECT coalesce(sum(bytes), 0)::bigint, coalesce(sum(bytes::numeric * dead / greatest(dead + live, 1)), 0)::bigint FROM \
    (SELECT pg_total_relation_size(c.oid) AS bytes, coalesce(s.n_dead_tup, 0) AS dead, coalesce(s.n_live_tup, 0) AS live \
     FROM pg_class c LEFT JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r') AS t";

/// Who follows, and slots that nobody uses.
const REPLICAS: &str = "SELECT coalesce(nullif(application_name, ''), 'replica'), coalesce(state, 'unknown'), \
      pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)::bigint FROM pg_stat_replication \
    UNION ALL SELECT slot_name::text, 'inactive', pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint FROM pg_replication_slots WHERE NOT active \
    ORDER BY 1, 2";

/// Tables of the schema that this role may not read or write.
const FORBIDDEN: &str = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') \
    AND NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') AND has_table_privilege(c.oid, 'UPDATE') \
      AND has_table_privilege(c.oid, 'DELETE')) ORDER BY 1 LIMIT 5";

impl Health for PostgresStore {
    fn health(&self) -> Result<StoreHealth> {
        self.with_reader(health)
    }
}

fn health(session: &mut Session) -> DbResult<StoreHealth> {
    let about = session.query_one(
        "SELECT current_setting('server_version'), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
         CASE WHEN is_called THEN last_value ELSE 0 END, pg_is_in_recovery(), has_schema_privilege(current_schema(), 'CREATE'), \
         current_schema()::text, has_function_privilege('pg_ls_waldir()', 'EXECUTE') FROM clock",
        &[],
    )?;
    let (version, schema): (&str, &str) = (about.at(0)?, about.at(5)?);
    let sizes = session.query_one(SIZES, &[])?;
    let is_copy: bool = about.at(3)?;
    let mut missing_rights = Vec::new();
    if is_copy {
        missing_rights.push("may not write: the server is itself a replica".to_owned());
    }
    if !about.at::<bool>(4)? {
        missing_rights.push(format!("may not create tables in the schema `{schema}`, as `stook prepare` does"));
    }
    for row in session.query(FORBIDDEN, &[])? {
        missing_rights.push(format!("may not read and write the table `{}` of the schema `{schema}`", row.at::<&str>(0)?));
    }
    // a replica cannot say how far others are
    let rows = if is_copy { Vec::new() } else { session.query(REPLICAS, &[])? };
    let replica = |row: &::tokio_postgres::Row| -> DbResult<Replica> {
        let behind: Option<i64> = row.at(2)?;
        Ok(Replica { name: row.at(0)?, state: row.at(1)?, behind_bytes: behind.map(|bytes| bytes.max(0).unsigned_abs()) })
    };
    let replicas = rows.iter().map(replica).collect::<DbResult<_>>()?;
    let log_bytes = match about.at::<bool>(6)? {
        true => Some(session.query_one("SELECT coalesce(sum(size), 0)::bigint FROM pg_ls_waldir()", &[])?.at::<i64>(0)?.unsigned_abs()),
        false => None,
    };
    Ok(StoreHealth {
        format: FORMAT.to_owned(),
        database: format!("PostgreSQL {version}"),
        bytes: sizes.at::<i64>(0)?.unsigned_abs(),
        free_bytes: sizes.at::<i64>(1)?.unsigned_abs(),
        log_bytes,
        disk_free: None,
        replicas,
        time: about.at(1)?,
        last_commit: about.at(2)?,
        missing_rights,
    })
}
