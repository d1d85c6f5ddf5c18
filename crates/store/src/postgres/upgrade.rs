//! Upgrades stores of earlier formats in place, when they are opened with `prepare`.
//!
//! | from | what changes |
//! |---|---|
//! | 10 | tokens expire, are rotated, and say when they were used; the audit log |
//! | 10, 11 | the numbers of records are kept, and which records were erased |

use super::session::{DbResult, Session};
use super::tables::{FORMAT, format_and_hash, meta, put_meta};
use crate::sql::store_schema::{parse_schema, upgraded};

const TOKENS_WITHOUT_EXPIRY: &str = "10";
const WITHOUT_RECORD_COUNTS: &str = "11";
/// Formats that can be upgraded.
pub const UPGRADABLE_FORMATS: &[&str] = &[TOKENS_WITHOUT_EXPIRY, WITHOUT_RECORD_COUNTS];

/// What formats before 11 have not.
const TOKENS_AND_AUDIT: &str = "
ALTER TABLE api_tokens ADD COLUMN expires bigint, ADD COLUMN used bigint, ADD COLUMN former_digest bytea, ADD COLUMN former_until bigint;
CREATE TABLE audit(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, tenant text, token bigint, caller text NOT NULL, address text,
  operation text NOT NULL, collection text, key text COLLATE \"C\", outcome text NOT NULL);
CREATE INDEX audit_record ON audit(collection, key, id) WHERE key IS NOT NULL;
";

/// What formats before 12 have not.
const ERASED_AND_RECORD_COUNTS: &str = "
CREATE TABLE erased(digest bytea PRIMARY KEY, tenant text NOT NULL, collection text NOT NULL, at bigint NOT NULL, reason text, finished boolean NOT NULL);
CREATE TABLE record_counts(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, collection text NOT NULL, records bigint NOT NULL);
CREATE INDEX record_counts_collection ON record_counts(tenant, collection);
";

/// Upgrades a store if it has a known earlier format, in the transaction that prepares it; returns a sentence about it.
pub fn upgrade(session: &mut Session) -> DbResult<Option<String>> {
    let format = meta(session, "format")?;
    let Some(from) = format.filter(|format| UPGRADABLE_FORMATS.contains(&format.as_str())) else { return Ok(None) };
    if from == TOKENS_WITHOUT_EXPIRY {
        session.batch(TOKENS_AND_AUDIT)?;
    }
    session.batch(ERASED_AND_RECORD_COUNTS)?;
    let schema = parse_schema(meta(session, "shape")?.as_deref())?;
    super::record_counts::count_all(session, schema.collections.keys())?;
    put_meta(session, "format", FORMAT)?;
    if let Some(hash) = meta(session, "definition")? {
        // formats before 12 recorded the hash alone
        put_meta(session, "definition", &format_and_hash(&hash))?;
    }
    Ok(Some(upgraded(&from, FORMAT)))
}
