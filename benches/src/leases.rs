//! How fast chunks are leased and completed: the store's own calls, with many chunks waiting. A process of its own; prints
//! JSON.

use crate::limits;
use crate::process::Result;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use stook_store::journal::ChunkJournal;
use stook_store::postgres::PostgresStore;
use stook_store::queue::{ChunkSlice, JobFile, NewChunk, NewJob, SplitProgress};
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::{DEFAULT_TENANT, LeaseToken, RecordWrite, RefusedWrite, Store, StoreError, Tenant, Unit, WriteConflict};

const DEFINITION: &str = "
catalogue: queue
collections: { item: { key: name, fields: { name: text } } }
";

/// A chunk without documents.
struct Nothing {
    tenant: Tenant,
    fence: LeaseToken,
    journal: ChunkJournal,
}

impl Unit for Nothing {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }
    fn lease_token(&self) -> Option<LeaseToken> {
        Some(self.fence)
    }
    fn writes(&self) -> &[RecordWrite] {
        &[]
    }
    fn resolve(&mut self, _: Vec<WriteConflict>) -> std::result::Result<Vec<RecordWrite>, StoreError> {
        Ok(Vec::new())
    }
    fn refused(&mut self, _: RefusedWrite) {}
    fn journal(&mut self) -> Option<&ChunkJournal> {
        Some(&self.journal)
    }
}

fn open(store: &str) -> Result<Box<dyn Store>> {
    let catalogue = Arc::new(stook_catalogue::parse::parse(DEFINITION).map_err(|problems| format!("{problems:?}"))?);
    let failed = |error: StoreError| error.to_string();
    if store.starts_with("postgres://") {
        return Ok(Box::new(PostgresStore::open(store, catalogue, &Default::default()).map_err(failed)?));
    }
    Ok(Box::new(SqliteStore::open(Path::new(store), catalogue, SqliteOptions::default()).map_err(failed)?))
}

/// Fills a queue with chunks that wait.
pub fn fill(store: &str, waiting: u32) -> Result<()> {
    add(&*open(store)?, waiting)
}

fn add(store: &dyn Store, waiting: u32) -> Result<()> {
    let failed = |error: StoreError| error.to_string();
    let tenant = Tenant::new(DEFAULT_TENANT).map_err(failed)?;
    let file = JobFile { path: "none".into(), size: 1, modified: 0, ..JobFile::default() };
    let job = NewJob { tenant, profile: None, source: "none".into(), as_of: None, files: vec![file] };
    let job = store.create_job(job).map_err(failed)?;
    let mut done = 0;
    while done < waiting {
        let count = (waiting - done).min(20_000);
        let slice = |ordinal: u32| ChunkSlice { offset: u64::from(ordinal), length: 1, documents: 1, ..ChunkSlice::default() };
        let chunks = (done + 1..=done + count).map(|ordinal| NewChunk { ordinal, slice: slice(ordinal) }).collect();
        done += count;
        store.add_chunks(job, chunks, SplitProgress { chunks: done, offset: u64::from(done), ..SplitProgress::default() }).map_err(failed)?;
    }
    store.sync().map_err(failed)
}

/// Leases and completes chunks one by one for some seconds. With `keep`, about as many wait all the time: they are added while the
/// clock stands.
pub fn run(store: &str, seconds: f64, min_waiting: u32) -> ExitCode {
    let work = || -> Result<serde_json::Value> {
        let store = open(store)?;
        let failed = |error: StoreError| error.to_string();
        let tenant = Tenant::new(DEFAULT_TENANT).map_err(failed)?;
        let (mut done, mut seconds_leasing, mut waiting) = (0_u64, 0.0, 0);
        while seconds_leasing < seconds {
            if min_waiting > 0 && waiting < min_waiting / 2 {
                add(&*store, min_waiting - waiting)?;
                waiting = min_waiting;
            }
            let began = Instant::now();
            for lease in store.lease(None, 1, 60).map_err(failed)? {
                let fence = LeaseToken { chunk: lease.chunk, token: lease.token };
                let unit = Nothing { tenant: tenant.clone(), fence, journal: ChunkJournal::default() };
                store.submit(Box::new(unit), stook_store::Priority::Bulk).wait().map_err(failed)?;
                done += 1;
                waiting = waiting.saturating_sub(1);
            }
            seconds_leasing += began.elapsed().as_secs_f64();
        }
        Ok(json!({"records": done, "seconds": seconds_leasing}))
    };
    limits::finish(work().map_err(Into::into))
}
