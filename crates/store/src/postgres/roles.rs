//! Implements the contract for a server: each method finds the tenant and a connection, and calls the module that does the work.

use super::queue::{self, LeaseView};
use super::session::{DbResult, Session};
use super::store::{ObservedSnapshot, PostgresStore};
use super::tables::TenantTables;
use super::tenants::{NO_TENANT, tenant_id};
use super::values::RowExt;
use super::{edges, former, marks, pass, query, record_counts, records, tables, tags};
use super::{jobs, journal};
use crate::cancel::CancelToken;
use crate::changes::{ChangeRange, Changes, RevisedRecord};
use crate::former::{FormerContribution, OtherJob};
use crate::journal::JournalEntry;
use crate::plan::{Aggregate, AggregatedRows, Grouping, Groups, Queries, QueryPlan, ResultRows};
use crate::queue::*;
use crate::sql::geometry_filter;
use crate::sql::listing::{FailedLease, JournalRange, WantedLeases};
use crate::sql::store_schema::consolidated_again_name;
use crate::stats::StoreStats;
use crate::tag::{CollectionTags, Tag, TagRename};
use crate::*;
use std::borrow::Cow;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;

impl Store for PostgresStore {
    fn clock(&self) -> i64 {
        self.context.clock.tick()
    }

    fn changes(&self) -> &[String] {
        &self.changes
    }

    fn has_replaced_definition(&self) -> bool {
        self.redefined
    }

    fn check_definition(&self) -> Result<()> {
        self.with_reader(|session| tables::check_definition(session, &self.context.tables))
    }

    fn generation(&self, source: SourceId, feed: usize) -> u32 {
        self.context.tables.generation(source, feed)
    }

    fn stats(&self) -> Result<StoreStats> {
        let sql =
            "SELECT coalesce(sum(pg_table_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'i')";
        let bytes: i64 = self.with_reader(|session| session.query_one(sql, &[&self.context.pool.schema()])?.at(0))?;
        let pool = self.context.pool.stats();
        let (waiting, written) = (self.writer.waiting() + pool.waiting, self.context.written.stats());
        Ok(StoreStats { waiting, connections: pool.open, connections_in_use: pool.open - pool.idle, bytes: bytes as u64, ..written })
    }

    fn tenants(&self) -> Result<Vec<Tenant>> {
        let rows = self.with_reader(|session| session.query("SELECT name FROM tenants ORDER BY id", &[]))?;
        rows.iter().map(|row| Tenant::new(row.at::<&str>(0).map_err(StoreError::from)?)).collect()
    }
}

impl Changes for PostgresStore {
    fn changed(&self, tenant: &Tenant, collection: CollectionId, range: &ChangeRange, limit: usize) -> Result<Vec<RevisedRecord>> {
        if self.context.tables.catalogue().collections.get(collection).is_none_or(|collection| collection.publish.is_none()) {
            return Err(StoreError::Wrong("the collection is not published".into()));
        }
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => records::changed(TenantTables { session, tables: &self.context.tables, tenant }, collection, range, limit),
            None => Ok(Vec::new()),
        })
    }

    fn committed_until(&self) -> Result<i64> {
        self.with_reader(records::committed_until)
    }
}

impl Records for PostgresStore {
    fn read(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read(TenantTables { session, tables: &self.context.tables, tenant }, collection, keys, detail)
        })
    }

    fn read_damaged(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read_damaged(TenantTables { session, tables: &self.context.tables, tenant }, collection, keys, detail)
        })
    }

    fn versions(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Option<Version>>> {
        self.with_reader(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::versions(session, &self.context.tables, tenant, collection, keys)
        })
    }

    fn keys_after(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => records::keys_after(TenantTables { session, tables: &self.context.tables, tenant }, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn log(&self, tenant: &Tenant, collection: CollectionId, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => records::log(TenantTables { session, tables: &self.context.tables, tenant }, collection, key, before, limit),
            None => Ok(Vec::new()),
        })
    }
}

impl PostgresStore {
    /// Returns the tenant of a plan, if it exists, and the plan with its geometric conditions replaced by keys; if it has such conditions, this needs
    /// a snapshot.
    fn resolve_geometry<'p>(&self, session: &mut Session, plan: &'p QueryPlan) -> DbResult<Option<(i64, Cow<'p, QueryPlan>)>> {
        let Some(tenant) = self.tenant_id(session, &plan.tenant)? else { return Ok(None) };
        let decided =
            geometry_filter::resolve(&self.catalogue, plan, &mut |candidates, row| query::visit(session, &self.catalogue, tenant, candidates, row));
        Ok(Some((tenant, decided?)))
    }

    /// Runs the reads of a plan, on one snapshot if there are several.
    fn read_plan<T>(&self, plan: &QueryPlan, read: impl FnMut(&mut Session) -> DbResult<T>) -> Result<T> {
        if geometry_filter::applies_to(plan) { self.with_snapshot(read) } else { self.with_reader(read) }
    }
}

impl Queries for PostgresStore {
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        let mut has_passed_rows = false;
        self.read_plan(plan, |session| {
            let Some((tenant, plan)) = self.resolve_geometry(session, plan)? else { return Ok(()) };
            // rows that were passed on cannot be taken back, so they are not read again after the connection was lost
            if has_passed_rows {
                return Err(StoreError::ReadOnly("the connection was lost while rows were read; ask again".into()).into());
            }
            query::visit(session, &self.catalogue, tenant, &plan, &mut |row| {
                has_passed_rows = true;
                visit(row)
            })
        })
    }

    fn count(&self, plan: &QueryPlan) -> Result<u64> {
        self.read_plan(plan, |session| match self.resolve_geometry(session, plan)? {
            Some((tenant, plan)) => query::count(session, &self.catalogue, tenant, &plan),
            None => Ok(0),
        })
    }

    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)> {
        self.with_snapshot(|session| {
            let Some((tenant, plan)) = self.resolve_geometry(session, plan)? else { return Ok((ResultRows::default(), 0)) };
            let mut rows = Vec::new();
            query::visit(session, &self.catalogue, tenant, &plan, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
            Ok((ResultRows { rows }, query::count(session, &self.catalogue, tenant, &plan)?))
        })
    }

    fn aggregate_together(&self, wanted: &[AggregatedRows<'_>]) -> Result<Vec<Vec<Value>>> {
        self.with_snapshot(|session| {
            let mut values = Vec::with_capacity(wanted.len());
            for AggregatedRows { plan, aggregates } in wanted {
                let (tenant, plan) = self.resolve_geometry(session, plan)?.unwrap_or((NO_TENANT, Cow::Borrowed(*plan)));
                let of_rows = aggregates.iter().map(|aggregate| query::aggregate(session, &self.catalogue, tenant, &plan, *aggregate));
                values.push(of_rows.collect::<DbResult<Vec<Value>>>()?);
            }
            Ok(values)
        })
    }

    fn group(&self, plan: &QueryPlan, aggregates: &[Aggregate], grouping: &Grouping) -> Result<Groups> {
        self.with_snapshot(|session| match self.resolve_geometry(session, plan)? {
            Some((tenant, plan)) => query::group(session, &self.catalogue, tenant, &plan, (aggregates, grouping)),
            None => Ok(Groups::default()),
        })
    }

    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>> {
        self.with_reader(|session| query::explain(session, &self.catalogue, plan))
    }
}

impl Units for PostgresStore {
    fn submit(&self, unit: Box<dyn Unit>, priority: Priority) -> PendingCommit {
        self.writer.run(unit, priority)
    }

    fn sync(&self) -> Result<()> {
        // every commit is as durable as the server makes it when it returns
        Ok(())
    }
}

impl CommitNumbers for PostgresStore {
    fn commit_number(&self) -> Result<Option<i64>> {
        if self.context.tables.is_distributed() {
            // commits on other servers are not visible in this one's snapshot
            return Ok(None);
        }
        let number = self.observer.run(|session| {
            let row = session.query_one("SELECT pg_current_snapshot()::text", &[])?;
            let (connection, snapshot): (u64, &str) = (session.number, row.at(0)?);
            let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
            if observed.connection != connection || observed.snapshot != snapshot {
                *observed = ObservedSnapshot { connection, snapshot: snapshot.into(), number: observed.number + 1 };
            }
            Ok(observed.number)
        })?;
        Ok(Some(number))
    }
}

impl Settling for PostgresStore {
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => edges::edges(TenantTables { session, tables: &self.context.tables, tenant }, link, &[(target.to_owned(), None)], None),
            None => Ok(Vec::new()),
        })
    }

    fn edges_starting_between(&self, tenant: &Tenant, link: u32, ranges: &[StartRange]) -> Result<Vec<Edge>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => edges::edges_starting_between(TenantTables { session, tables: &self.context.tables, tenant }, link, ranges, None),
            None => Ok(Vec::new()),
        })
    }

    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>> {
        let partitions: Vec<i64> = (0..i64::from(crate::LOCK_PARTITIONS)).collect();
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => marks::marks(session, &self.context.tables, tenant, &partitions, limit),
            None => Ok(Vec::new()),
        })
    }

    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => marks::has_marks(session, tenant, job),
            None => Ok(false),
        })
    }

    fn tenants_with_marks(&self) -> Result<Vec<Tenant>> {
        self.with_reader(|session| marks::tenants_with_marks(session, &self.context.tables))
    }

    fn is_settled(&self, job: JobId) -> Result<bool> {
        self.with_reader(|session| marks::is_settled(session, job))
    }

    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport> {
        let context = &self.context;
        let Some(id) = self.with_reader(|session| self.tenant_id(session, tenant))? else { return Ok(PassReport::default()) };
        // a repetition processes the marks that exist then
        let mut refused = Vec::new();
        let work = |session: &mut Session, commit_time: i64| {
            pass::pass(
                TenantTables { session, tables: &context.tables, tenant: id },
                context.pool.schema(),
                tenant,
                (&**pass, &mut refused),
                commit_time,
            )
        };
        let (report, sizes) = match context.transaction(work) {
            // whatever the error is that the cancelled statement ended with
            Err(_) if CancelToken::current().is_some_and(|cancel_token| cancel_token.is_cancelled()) => return Err(StoreError::Cancelled),
            settled => settled?,
        };
        context.analyse_grown(sizes);
        Ok(report)
    }

    fn correct_record_counts(&self) -> Result<Vec<String>> {
        let tables = &self.context.tables;
        if !self.with_reader(|session| record_counts::is_any_wrong(session, tables))? {
            return Ok(Vec::new());
        }
        self.write(|session, _| record_counts::correct(session, tables))
    }

    fn awaiting_consolidation(&self) -> Result<Vec<CollectionId>> {
        self.with_reader(|session| {
            let mut waiting = Vec::new();
            for (id, collection) in self.catalogue.collections.enumerate() {
                waiting.extend(tables::meta(session, &consolidated_again_name(&collection.name))?.map(|_| id));
            }
            Ok(waiting)
        })
    }

    fn set_consolidated(&self, collection: CollectionId) -> Result<()> {
        let name = consolidated_again_name(&self.catalogue.collections[collection].name);
        self.write(|session, _| session.execute("DELETE FROM meta WHERE name = $1", &[&name]).map(|_| ()))
    }

    fn settled_by(&self) -> Result<Option<String>> {
        self.with_reader(|session| tables::meta(session, "settled"))
    }

    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()> {
        let links: Vec<i64> = links.iter().map(|link| i64::from(*link)).collect();
        self.write(|session, _| {
            tables::put_meta(session, "settled", rules)?;
            session.execute("DELETE FROM edges WHERE NOT link = ANY($1)", &[&links])?;
            Ok(())
        })
    }
}

impl Tags for PostgresStore {
    fn tags(&self, tenant: &Tenant, collection: CollectionId) -> Result<CollectionTags> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::tags(session, &self.context.tables, tenant, collection),
            None => Ok(CollectionTags::default()),
        })
    }

    fn put_tags(&self, tenant: &Tenant, collection: CollectionId, tags: Vec<Tag>, new: bool) -> Result<()> {
        self.write(|session, commit_time| {
            let tenant = tenant_id(session, tenant)?;
            tags::put(TenantTables { session, tables: &self.context.tables, tenant }, collection, &tags, new, commit_time)
        })
    }

    fn delete_tag(&self, tenant: &Tenant, collection: CollectionId, name: &str) -> Result<bool> {
        self.write(|session, commit_time| {
            let tenant = tenant_id(session, tenant)?;
            tags::delete(TenantTables { session, tables: &self.context.tables, tenant }, collection, name, commit_time)
        })
    }

    fn rename_tag(&self, tenant: &Tenant, collection: CollectionId, rename: TagRename) -> Result<bool> {
        self.write(|session, commit_time| {
            let tenant = tenant_id(session, tenant)?;
            tags::rename(TenantTables { session, tables: &self.context.tables, tenant }, collection, &rename, commit_time)
        })
    }

    fn tags_of_records(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<String>>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::tagged(session, &self.context.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }

    fn trees(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<PackedTrees>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => tags::trees(session, &self.context.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }
}

impl FormerContributions for PostgresStore {
    fn former(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<FormerContribution>>> {
        self.with_reader(|session| {
            let Some(tenant) = self.tenant_id(session, tenant)? else { return Ok(vec![Vec::new(); keys.len()]) };
            former::former(session, &self.context.tables, tenant, collection, keys)
        })
    }

    fn keys_with_former(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_reader(|session| match self.tenant_id(session, tenant)? {
            Some(tenant) => former::keys_with_former(TenantTables { session, tables: &self.context.tables, tenant }, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn first_undoable(&self, source: &str) -> Result<Option<JobId>> {
        self.with_reader(|session| former::first_undoable(session, source))
    }

    fn end_undo_before(&self, source: &str, time: i64) -> Result<Option<JobId>> {
        self.write(|session, _| former::end_undo_before(session, source, time))
    }

    fn other_jobs(&self, job: JobId) -> Result<Vec<OtherJob>> {
        self.with_reader(|session| former::other_jobs(session, job))
    }

    fn start_undo(&self, job: JobId, undo: NewJob) -> Result<JobId> {
        Ok(self.context.transaction_once(|session, commit_time| former::start_undo(session, job, &undo, commit_time))?)
    }
}

impl Queue for PostgresStore {
    fn create_job(&self, job: NewJob) -> Result<JobId> {
        Ok(self.context.transaction_once(|session, commit_time| jobs::create_job(session, &job, commit_time))?)
    }

    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()> {
        self.write_and_notify(|session| queue::add_chunks(session, job, &chunks, progress))?;
        Ok(self.context.finish_job(job)?)
    }

    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>> {
        let tables = &self.context.tables;
        let LeaseView { backlog, has_expired_leases, maybe_finished, now } = self.with_reader(|session| queue::read_backlog(session, tables, job))?;
        if has_expired_leases {
            for job_with_dead in self.with_reader(|session| queue::mark_dead(session, now))? {
                self.context.finish_job(job_with_dead)?;
            }
        }
        let max_per_choice = if job.is_some() { limit } else { 1 };
        let leases = backlog.lease(limit, max_per_choice, |choice, limit| {
            let wanted = WantedLeases { job, limit, seconds };
            self.with_reader(|session| match choice.share.max_running {
                Some(max_running) => queue::lease_within_limit(session, choice, max_running, wanted, now),
                None => queue::lease_from_job(session, choice, wanted, now),
            })
        })?;
        if leases.is_empty() {
            maybe_finished.into_iter().try_for_each(|job| self.context.finish_job(job))?;
        }
        Ok(leases)
    }

    fn renew(&self, leases: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>> {
        self.write(|session, commit_time| queue::renew(session, leases, seconds, commit_time))
    }

    fn return_unstarted(&self, leases: &[LeaseToken]) -> Result<()> {
        self.write_and_notify(|session| queue::return_unstarted(session, leases))
    }

    fn is_idle(&self) -> Result<bool> {
        self.with_reader(queue::is_idle)
    }

    fn wait_for_chunks(&self, timeout: Duration) {
        // a thread without the listening connection just waits and checks again
        let Ok(mut listener) = self.listener.try_lock() else { return std::thread::sleep(timeout) };
        let session = match listener.take() {
            Some(session) => Ok(session),
            None => self.context.pool.listen(&queue::channel(self.context.pool.schema())),
        };
        match session.and_then(|mut session| session.wait_for_notification(timeout).map(|()| session)) {
            Ok(session) => *listener = Some(session),
            Err(_) => std::thread::sleep(timeout),
        }
    }

    fn take_over(&self, job: JobId) -> Result<u64> {
        self.write_and_notify(|session| queue::take_over(session, job))
    }

    fn release(&self, lease: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()> {
        self.write_and_finish(lease.chunk.job, |session, commit_time| {
            queue::release(session, FailedLease { lease, reason, delay_seconds, attempts }, commit_time)
        })
    }

    fn job(&self, job: JobId) -> Result<Job> {
        self.with_snapshot(|session| jobs::job(session, job))
    }

    fn job_state(&self, job: JobId) -> Result<JobState> {
        self.with_reader(|session| jobs::job_state(session, job))
    }

    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>> {
        self.with_snapshot(|session| jobs::jobs(session, None, tenant, limit))
    }

    fn interrupt_job(&self, job: JobId) -> Result<()> {
        self.write(|session, commit_time| jobs::interrupt_job(session, job, commit_time))
    }

    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()> {
        self.write(|session, commit_time| jobs::end_job(session, job, state, reason, commit_time))
    }

    fn forget_job(&self, job: JobId) -> Result<()> {
        self.write(|session, _| jobs::forget_job(session, job))
    }

    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>> {
        self.with_snapshot(|session| {
            let names = tables::collections(session, &self.context.tables)?;
            journal::journal(session, &names.into(), JournalRange { job, after, limit, troubles_only })
        })
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        self.with_reader(|session| journal::failed_document(session, job, document))
    }

    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
        self.with_reader(|session| queue::chunks(session, job))
    }

    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData> {
        self.with_reader(|session| queue::chunk(session, chunk))
    }

    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64> {
        self.write_and_notify(|session| queue::retry(session, job, ordinal))
    }

    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()> {
        Ok(self.context.transaction_once(|session, _| {
            queue::load_chunk(session, chunk, &slice)?;
            queue::notify(session, self.context.pool.schema())
        })?)
    }

    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()> {
        self.context.transaction_once(|session, _| {
            queue::replace_chunk(session, chunk, &parts)?;
            queue::notify(session, self.context.pool.schema())
        })?;
        Ok(self.context.finish_job(chunk.job)?)
    }
}
