//! The store on a server: opens it, and uses connections to read and write.

use super::address::parse_url;
use super::clock::ServerClock;
use super::options::PostgresOptions;
use super::queue;
use super::session::{DatabaseError, DbResult, Pool, PoolWaits, Session};
use super::tables::{self, StoreTables};
use super::upgrade;
use super::values::RowExt;
use super::writer::{PostgresWriter, WriteContext};
use crate::cancel::CancelToken;
use crate::queue::*;
use crate::sql::store_schema::{AccessMode, PreparedFor};
use crate::*;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;

/// How long to wait for a server when a store is opened.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// A store on a server.
pub struct PostgresStore {
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) context: WriteContext,
    pub(super) writer: PostgresWriter,
    /// The connection that is notified of new chunks.
    pub(super) listener: Mutex<Option<Session>>,
    pub(super) changes: Vec<String>,
    pub(super) redefined: bool,
    /// The one connection that reads snapshots for commit numbers.
    pub(super) observer: Pool,
    pub(super) observed: Mutex<ObservedSnapshot>,
}

/// The last snapshot that was read, and its commit number. The same snapshot means the same data only if it was read on the same connection: a server
/// that has crashed gives the numbers of lost transactions to others.
#[derive(Default)]
pub struct ObservedSnapshot {
    pub(super) connection: u64,
    pub(super) snapshot: String,
    pub(super) number: i64,
}

impl PostgresStore {
    /// Opens the store of a catalogue at `postgres://USER@HOST/DATABASE?schema=NAME`; with `prepare`, creates it or applies additions of its
    /// definition.
    ///
    /// # Errors
    /// When the server cannot be used, or the definition does not fit what is stored.
    pub fn open(url: &str, catalogue: Arc<Catalogue>, options: &PostgresOptions) -> Result<Self> {
        let tables = StoreTables::new(&catalogue);
        let purpose = if options.read_only { AccessMode::Read } else { AccessMode::Write };
        Self::open_as(url, catalogue, tables, (purpose, options))
    }

    /// Opens a store for its jobs, chunks and tokens, whatever its definition.
    pub(crate) fn open_admin(url: &str, options: &PostgresOptions) -> Result<Self> {
        let options = PostgresOptions { prepare: false, ..options.clone() };
        Self::open_as(url, Arc::new(Catalogue::empty()), StoreTables::for_any_definition(), (AccessMode::Admin, &options))
    }

    fn open_as(url: &str, catalogue: Arc<Catalogue>, tables: StoreTables, (purpose, options): (AccessMode, &PostgresOptions)) -> Result<Self> {
        let (address, schema) = parse_url(url)?;
        let tables = Arc::new(tables);
        // a user who waits for a command to start soon learns that a server does not respond
        let waits = |wait: Duration| PoolWaits { wait, outage: Duration::from_secs(options.outage).min(wait) };
        let first_pool = Pool::new(address.clone(), schema.clone(), waits(FIRST_WAIT.min(Duration::from_secs(options.wait))), 2);
        let wait = waits(Duration::from_secs(options.wait));
        let pool = Arc::new(Pool::new(address, schema, wait, options.connections.max(2)));
        let observer = pool.beside(1);
        let make_ready = |session: &mut Session| match options.prepare {
            true => tables::prepare(session, &tables, pool.schema()),
            false => tables::check_fits(session, &tables, pool.schema(), purpose).map(|()| (Vec::new(), false)),
        };
        let (changes, redefined) = first_pool.run(make_ready).map_err(|error| match error {
            DatabaseError::ConnectionLost(reason) => StoreError::Other(format!("the server does not answer: {reason}")),
            other => other.into(),
        })?;
        if purpose != AccessMode::Read {
            first_pool.check_own_connections().map_err(StoreError::from)?;
        }
        pool.adopt(first_pool);
        let clock = Arc::new(ServerClock { last: AtomicI64::new(0), offset: AtomicI64::new(0) });
        let last_commit_time: i64 = pool.run(|session| {
            tables::load_fixed_state(session, &tables)?;
            let sql = "SELECT greatest((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, last_value) FROM clock";
            session.query_one(sql, &[])?.at(0)
        })?;
        clock.observe(last_commit_time);
        let context = WriteContext { pool, tables, clock, tenants: Arc::default(), written: Arc::default(), growth: Arc::default() };
        let writer = PostgresWriter::start(context.clone())?;
        Ok(Self { catalogue, context, writer, listener: Mutex::default(), changes, redefined, observer, observed: Mutex::default() })
    }

    /// Returns what a store was prepared for; `None` if there is no store yet.
    ///
    /// # Errors
    /// When the server does not respond, or the store has another format.
    pub fn prepared_for(url: &str) -> Result<Option<PreparedFor>> {
        let (address, schema) = parse_url(url)?;
        let pool = Pool::new(address, schema, PoolWaits { wait: FIRST_WAIT, outage: FIRST_WAIT }, 1);
        let read = pool.run(|session| {
            if !session.query_one("SELECT to_regclass('meta') IS NOT NULL", &[])?.at::<bool>(0)? {
                return Ok(None);
            }
            PreparedFor::read(tables::FORMAT, upgrade::UPGRADABLE_FORMATS, &mut |name| tables::meta(session, name)).map(Some)
        });
        read.map_err(|error| match error {
            DatabaseError::ConnectionLost(reason) => StoreError::Other(format!("the server does not answer: {reason}")),
            other => other.into(),
        })
    }

    /// Reads on a connection of the pool.
    pub(super) fn with_reader<T>(&self, read: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        let cancel_token = CancelToken::current();
        let is_cancelled = || cancel_token.as_ref().is_some_and(CancelToken::is_cancelled);
        if is_cancelled() {
            return Err(StoreError::Cancelled);
        }
        let result = self.context.pool.run(read);
        match result {
            // whatever the error is that the cancelled statement ended with
            Err(_) if is_cancelled() => Err(StoreError::Cancelled),
            // a missing table is no damage if another process has prepared the store for another definition
            Err(DatabaseError::Store(StoreError::Other(reason))) => {
                let changed = self.context.pool.run(|session| tables::check_definition(session, &self.context.tables));
                Err(if matches!(changed, Err(DatabaseError::Store(StoreError::DefinitionChanged))) {
                    StoreError::DefinitionChanged
                } else {
                    StoreError::Other(reason)
                })
            }
            other => Ok(other?),
        }
    }

    /// Makes several reads on one snapshot.
    pub(super) fn with_snapshot<T>(&self, mut read: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        self.with_reader(|session| {
            session.begin_snapshot();
            let value = read(session)?;
            session.batch("COMMIT")?;
            Ok(value)
        })
    }

    pub(super) fn write<T>(&self, work: impl FnMut(&mut Session, i64) -> DbResult<T>) -> Result<T> {
        Ok(self.context.transaction(work)?)
    }

    /// Does small work after which a job may have ended.
    pub(super) fn write_and_finish(&self, job: JobId, work: impl FnMut(&mut Session, i64) -> DbResult<()>) -> Result<()> {
        self.write(work)?;
        Ok(self.context.finish_job(job)?)
    }

    /// Does small work after which chunks may wait, and notifies the processes that wait for chunks.
    pub(super) fn write_and_notify<T>(&self, mut work: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        self.write(|session, _| {
            let value = work(session)?;
            queue::notify(session, self.context.pool.schema())?;
            Ok(value)
        })
    }

    pub(super) fn tenant_id(&self, session: &mut Session, tenant: &Tenant) -> DbResult<Option<i64>> {
        self.context.tenants.find(session, tenant)
    }
}
