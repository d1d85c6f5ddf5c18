//! Jobs, chunks and tokens of a store. None of them depends on the definition, so they can be read and written whatever definition the store has.

use crate::access::{NewToken, Token, TokenChange};
use crate::audit::{AuditEntry, AuditQuery};
use crate::journal::JournalEntry;
#[cfg(feature = "postgres")]
use crate::postgres::PostgresStore;
use crate::queue::{ChunkData, ChunkId, ChunkInfo, ChunkSlice, Job, JobId, JobState};
use crate::sqlite::SqliteStore;
use crate::{Result, Store, Tenant, postgres, sqlite};
use std::path::Path;

/// Jobs, chunks and tokens of a store, as the commands that manage them use it.
pub struct AdminStore(Box<dyn Store>);

impl AdminStore {
    /// Opens a store file, which must exist.
    ///
    /// # Errors
    /// When it cannot be used, or another release created it.
    pub fn open_file(path: &Path, options: sqlite::SqliteOptions) -> Result<Self> {
        Ok(Self(Box::new(SqliteStore::open_admin(path, options)?)))
    }

    /// Opens a store on a server.
    ///
    /// # Errors
    /// When it cannot be used, does not exist, or another release created it.
    #[cfg(feature = "postgres")]
    pub fn open_server(url: &str, options: &postgres::PostgresOptions) -> Result<Self> {
        Ok(Self(Box::new(PostgresStore::open_admin(url, options)?)))
    }

    /// Fails: this build has no store on a server.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "postgres"))]
    pub fn open_server(_url: &str, _options: &postgres::PostgresOptions) -> Result<Self> {
        Err(postgres::refusal())
    }

    /// As [`Queue::jobs`](crate::Queue::jobs).
    ///
    /// # Errors
    /// As there.
    pub fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>> {
        self.0.jobs(tenant, limit)
    }

    /// As [`Queue::job`](crate::Queue::job).
    ///
    /// # Errors
    /// As there.
    pub fn job(&self, job: JobId) -> Result<Job> {
        self.0.job(job)
    }

    /// As [`Queue::end_job`](crate::Queue::end_job).
    ///
    /// # Errors
    /// As there.
    pub fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()> {
        self.0.end_job(job, state, reason)
    }

    /// As [`Queue::journal`](crate::Queue::journal).
    ///
    /// # Errors
    /// As there, and when the store has no list of its collections' names.
    pub fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>> {
        self.0.journal(job, after, limit, troubles_only)
    }

    /// As [`Queue::failed_document`](crate::Queue::failed_document).
    ///
    /// # Errors
    /// As there.
    pub fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        self.0.failed_document(job, document)
    }

    /// As [`Queue::chunks`](crate::Queue::chunks).
    ///
    /// # Errors
    /// As there.
    pub fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
        self.0.chunks(job)
    }

    /// As [`Queue::chunk`](crate::Queue::chunk).
    ///
    /// # Errors
    /// As there.
    pub fn chunk(&self, chunk: ChunkId) -> Result<ChunkData> {
        self.0.chunk(chunk)
    }

    /// As [`Queue::retry`](crate::Queue::retry).
    ///
    /// # Errors
    /// As there.
    pub fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64> {
        self.0.retry(job, ordinal)
    }

    /// As [`Queue::load_chunk`](crate::Queue::load_chunk).
    ///
    /// # Errors
    /// As there.
    pub fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()> {
        self.0.load_chunk(chunk, slice)
    }

    /// As [`AuditLog::audit`](crate::AuditLog::audit).
    ///
    /// # Errors
    /// As there.
    pub fn audit(&self, wanted: &AuditQuery) -> Result<Vec<AuditEntry>> {
        self.0.audit(wanted)
    }

    /// As [`Tokens::tokens`](crate::Tokens::tokens).
    ///
    /// # Errors
    /// As there.
    pub fn tokens(&self) -> Result<Vec<Token>> {
        self.0.tokens()
    }

    /// As [`Tokens::create_token`](crate::Tokens::create_token).
    ///
    /// # Errors
    /// As there.
    pub fn create_token(&self, token: NewToken) -> Result<u64> {
        self.0.create_token(token)
    }

    /// As [`Tokens::change_token`](crate::Tokens::change_token).
    ///
    /// # Errors
    /// As there.
    pub fn change_token(&self, id: u64, change: TokenChange) -> Result<bool> {
        self.0.change_token(id, change)
    }

    /// As [`Tokens::revoke_token`](crate::Tokens::revoke_token).
    ///
    /// # Errors
    /// As there.
    pub fn revoke_token(&self, id: u64) -> Result<bool> {
        self.0.revoke_token(id)
    }
}
