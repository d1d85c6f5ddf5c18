//! Tokens.

use super::error::store_error;
use super::sql::execute;
use super::store::SqliteStore;
use crate::access::{NewToken, Rights, TOKEN_COLUMNS, Token, TokenChange, TokenRow, Tokens};
use crate::{Result, Tenant};
use rusqlite::{Row, params};

impl Tokens for SqliteStore {
    fn create_token(&self, token: NewToken) -> Result<u64> {
        self.write(move |connection, commit_time| {
            let sql = "INSERT INTO api_tokens(digest, tenant, role, name, created, expires) VALUES (?, ?, ?, ?, ?, ?)";
            let NewToken { digest, tenant, rights, name, expires } = &token;
            execute(
                connection,
                sql,
                params![digest.as_slice(), tenant.as_ref().map(Tenant::as_str), rights.to_string(), name, commit_time, expires],
            )?;
            Ok(connection.last_insert_rowid() as u64)
        })
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        self.with_reader(|connection| {
            let sql = format!("SELECT {TOKEN_COLUMNS} FROM api_tokens WHERE revoked IS NULL ORDER BY id");
            let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
            let rows = statement.query_map([], token_row).map_err(store_error)?;
            rows.map(|row| row.map_err(store_error)?.try_into()).collect()
        })
    }

    fn has_had_tokens(&self) -> Result<bool> {
        self.with_reader(|connection| connection.query_row("SELECT EXISTS(SELECT 1 FROM api_tokens)", [], |row| row.get(0)).map_err(store_error))
    }

    fn change_token(&self, id: u64, change: TokenChange) -> Result<bool> {
        self.write(move |connection, _| {
            let TokenChange { name, rights, expires, secret } = &change;
            let (digest, former_until) = (secret.as_ref().map(|secret| secret.digest.as_slice()), secret.as_ref().map(|secret| secret.former_until));
            let sql = "UPDATE api_tokens SET name = coalesce(?1, name), role = coalesce(?2, role), expires = CASE WHEN ?3 THEN ?4 ELSE expires END,
                 former_digest = CASE WHEN ?5 IS NULL THEN former_digest ELSE digest END, former_until = coalesce(?6, former_until),
                 digest = coalesce(?5, digest) WHERE id = ?7 AND revoked IS NULL";
            let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
            let values = params![name, rights.as_ref().map(Rights::to_string), expires.is_some(), expires.flatten(), digest, former_until, id as i64];
            Ok(statement.execute(values).map_err(store_error)? == 1)
        })
    }

    fn note_token_uses(&self, uses: &[(u64, i64)]) -> Result<()> {
        let uses = uses.to_vec();
        self.write(move |connection, _| {
            for (id, at) in &uses {
                execute(connection, "UPDATE api_tokens SET used = max(coalesce(used, ?1), ?1) WHERE id = ?2", params![at, *id as i64])?;
            }
            Ok(())
        })
    }

    fn revoke_token(&self, id: u64) -> Result<bool> {
        self.write(move |connection, commit_time| {
            let sql = "UPDATE api_tokens SET revoked = ? WHERE id = ? AND revoked IS NULL";
            let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
            Ok(statement.execute(params![commit_time, id as i64]).map_err(store_error)? == 1)
        })
    }
}

fn token_row(row: &Row<'_>) -> rusqlite::Result<TokenRow> {
    Ok(TokenRow {
        id: row.get(0)?,
        digest: row.get(1)?,
        tenant: row.get(2)?,
        role: row.get(3)?,
        name: row.get(4)?,
        created: row.get(5)?,
        expires: row.get(6)?,
        used: row.get(7)?,
        former_digest: row.get(8)?,
        former_until: row.get(9)?,
    })
}
