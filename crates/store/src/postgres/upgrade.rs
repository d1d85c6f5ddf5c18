//! Upgrades stores of earlier formats in place, when they are opened with `prepare`.
//!
//! | from | what changes |
//! |---|---|
//! | 10 | tokens expire, are rotated, and say when they were used; the audit log |

use super::session::{DbResult, Session};
use super::tables::{FORMAT, meta, put_meta};
use crate::sql::store_schema::upgraded;

const TOKENS_WITHOUT_EXPIRY: &str = "10";
/// Formats that can be upgraded.
pub const UPGRADABLE_FORMATS: &[&str] = &[TOKENS_WITHOUT_EXPIRY];

/// What formats before 11 have not.
const ADDITIONS: &str = "
ALTER TABLE api_tokens ADD COLUMN expires bigint, ADD COLUMN used bigint, ADD COLUMN former_digest bytea, ADD COLUMN former_until bigint;
CREATE TABLE audit(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, tenant text, token bigint, caller text NOT NULL, address text,
  operation text NOT NULL, collection text, key text COLLATE \"C\", outcome text NOT NULL);
CREATE INDEX audit_record ON audit(collection, key, id) WHERE key IS NOT NULL;
";

/// Upgrades a store if it has a known earlier format, in the transaction that prepares it; returns a sentence about it.
pub fn upgrade(session: &mut Session) -> DbResult<Option<String>> {
    let format = meta(session, "format")?;
    let Some(from) = format.filter(|format| UPGRADABLE_FORMATS.contains(&format.as_str())) else { return Ok(None) };
    session.batch(ADDITIONS)?;
    put_meta(session, "format", FORMAT)?;
    Ok(Some(upgraded(&from, FORMAT)))
}
