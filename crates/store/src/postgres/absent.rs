//! Replaces the store on a server in builds without PostgreSQL; opening one fails with an explanation.

#[path = "options.rs"]
mod options;

pub use options::PostgresOptions;

use crate::store_schema::PreparedFor;
use crate::{Result, StoreError};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;

/// A store on a server. There is none in this build.
#[derive(Debug)]
pub enum PostgresStore {}

/// The error for every URL.
pub(crate) fn refusal() -> StoreError {
    StoreError::Wrong("this build of stook has no PostgreSQL, only SQLite files; build it with the feature `postgres`".into())
}

impl PostgresStore {
    /// Always fails.
    ///
    /// # Errors
    /// Always.
    pub fn open(_url: &str, _catalogue: Arc<Catalogue>, _options: &PostgresOptions) -> Result<Self> {
        Err(refusal())
    }

    /// Always fails.
    ///
    /// # Errors
    /// Always.
    pub fn prepared_for(_url: &str) -> Result<Option<PreparedFor>> {
        Err(refusal())
    }
}
