//! Tokens.

use super::session::DbResult;
use super::store::PostgresStore;
use super::values::RowExt;
use crate::access::{NewToken, Rights, TOKEN_COLUMNS, Token, TokenChange, TokenRow, Tokens};
use crate::{Result, Tenant};
use ::tokio_postgres::Row;

impl Tokens for PostgresStore {
    fn create_token(&self, token: NewToken) -> Result<u64> {
        let sql = "INSERT INTO api_tokens(digest, tenant, role, name, created, expires) VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
        let NewToken { digest, tenant, rights, name, expires } = &token;
        let (digest, tenant) = (digest.as_slice(), tenant.as_ref().map(Tenant::as_str));
        let id = self.context.transaction_once(|session, commit_time| {
            let row = session.query_one(sql, &[&digest, &tenant, &rights.to_string(), name, &commit_time, expires])?;
            row.at::<i64>(0)
        })?;
        Ok(id as u64)
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        self.with_reader(|session| {
            let rows = session.query(&format!("SELECT {TOKEN_COLUMNS} FROM api_tokens WHERE revoked IS NULL ORDER BY id"), &[])?;
            rows.iter().map(|row| Ok(Token::try_from(token_row(row)?)?)).collect()
        })
    }

    fn has_had_tokens(&self) -> Result<bool> {
        self.with_reader(|session| session.query_one("SELECT EXISTS(SELECT 1 FROM api_tokens)", &[])?.at(0))
    }

    fn change_token(&self, id: u64, change: TokenChange) -> Result<bool> {
        let TokenChange { name, rights, expires, secret } = &change;
        let (digest, former_until) = (secret.as_ref().map(|secret| secret.digest.as_slice()), secret.as_ref().map(|secret| secret.former_until));
        let sql = "UPDATE api_tokens SET name = coalesce($1::text, name), role = coalesce($2::text, role),
             expires = CASE WHEN $3::boolean THEN $4::bigint ELSE expires END,
             former_digest = CASE WHEN $5::bytea IS NULL THEN former_digest ELSE digest END, former_until = coalesce($6::bigint, former_until),
             digest = coalesce($5::bytea, digest) WHERE id = $7 AND revoked IS NULL";
        // a secret that was replaced twice by itself would be lost
        Ok(self.context.transaction_once(|session, _| {
            let values: [super::session::SqlParameter<'_>; 7] =
                [name, &rights.as_ref().map(Rights::to_string), &expires.is_some(), &expires.flatten(), &digest, &former_until, &(id as i64)];
            Ok(session.execute(sql, &values)? == 1)
        })?)
    }

    fn note_token_uses(&self, uses: &[(u64, i64)]) -> Result<()> {
        let (ids, times): (Vec<i64>, Vec<i64>) = uses.iter().map(|(id, at)| (*id as i64, *at)).unzip();
        let sql = "UPDATE api_tokens t SET used = greatest(t.used, u.at) FROM unnest($1::bigint[], $2::bigint[]) AS u(id, at) WHERE t.id = u.id";
        self.write(|session, _| session.execute(sql, &[&ids, &times]).map(|_| ()))
    }

    fn revoke_token(&self, id: u64) -> Result<bool> {
        let sql = "UPDATE api_tokens SET revoked = $1 WHERE id = $2 AND revoked IS NULL";
        self.write(|session, commit_time| Ok(session.execute(sql, &[&commit_time, &(id as i64)])? == 1))
    }
}

fn token_row(row: &Row) -> DbResult<TokenRow> {
    Ok(TokenRow {
        id: row.at(0)?,
        digest: row.at(1)?,
        tenant: row.at(2)?,
        role: row.at(3)?,
        name: row.at(4)?,
        created: row.at(5)?,
        expires: row.at(6)?,
        used: row.at(7)?,
        former_digest: row.at(8)?,
        former_until: row.at(9)?,
    })
}
