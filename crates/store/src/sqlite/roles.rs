//! Implements the contract for a file: each method finds the tenant and a connection, and calls the module that does the work.

use super::connection::{SqliteOptions, connect};
use super::error::{after_waiting, store_error};
use super::sql::execute;
use super::store::{ChangeProbe, SqliteStore};
use super::tables::TenantTables;
use super::tenants::{NO_TENANT, tenant_id};
use super::writer::{self, SqliteWriter, WriterCommand};
use super::{edges, former, jobs, journal, marks, pass, query, queue, record_counts, records, tables, tags};
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
use rusqlite::{Connection, params};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stook_catalogue::ids::{CollectionId, SourceId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;

/// How often to look for chunks that another process has added.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

impl Store for SqliteStore {
    fn clock(&self) -> i64 {
        self.writer.as_ref().map_or_else(|| writer::tick(&self.reading_clock), SqliteWriter::clock)
    }

    fn changes(&self) -> &[String] {
        &self.changes
    }

    fn has_replaced_definition(&self) -> bool {
        self.redefined
    }

    fn check_definition(&self) -> Result<()> {
        self.writer.as_ref().map_or(Ok(()), SqliteWriter::check_files)?;
        self.with_reader(|connection| tables::check_definition(connection, &self.tables))
    }

    fn damage(&self) -> Result<Vec<String>> {
        self.with_reader(|connection| {
            let mut statement = connection.prepare("PRAGMA integrity_check").map_err(store_error)?;
            let found = statement.query_map([], |row| row.get(0)).and_then(Iterator::collect::<rusqlite::Result<Vec<String>>>);
            // the first line names the database
            let report = found.map_err(store_error)?.join("\n");
            let mut findings: Vec<String> = report.lines().filter(|line| *line != "ok" && !line.starts_with("***")).map(str::to_owned).collect();
            // the database cannot check the content of these columns; they are checked only if the rest is sound, because rows of a damaged file
            // cannot all be read
            if findings.is_empty() {
                for collection_tables in &self.tables.collections {
                    findings.extend(collection_tables.wrong_columns(connection)?);
                }
            }
            Ok(findings)
        })
    }

    fn generation(&self, source: SourceId, feed: usize) -> u32 {
        self.tables.generation(source, feed)
    }

    fn stats(&self) -> Result<StoreStats> {
        let in_use = self.readers_in_use.load(Ordering::Relaxed);
        let idle = self.readers.lock().map_or(0, |readers| readers.len()) as u64;
        // the WAL does not always exist
        let files = ["", "-wal"].iter().filter_map(|end| {
            let mut path = self.path.clone().into_os_string();
            path.push(end);
            std::fs::metadata(path).ok()
        });
        let bytes = files.map(|file| file.len()).sum();
        let writing = self.writer.as_ref().map(SqliteWriter::stats).unwrap_or_default();
        Ok(StoreStats { connections: u64::from(self.writer.is_some()) + idle + in_use, connections_in_use: in_use, bytes, ..writing })
    }

    fn tenants(&self) -> Result<Vec<Tenant>> {
        self.with_reader(|connection| {
            let mut statement = connection.prepare_cached("SELECT name FROM tenants ORDER BY id").map_err(store_error)?;
            let names = statement.query_map([], |row| row.get::<_, String>(0)).map_err(store_error)?;
            names.map(|name| Tenant::new(&name.map_err(store_error)?)).collect()
        })
    }
}

impl Changes for SqliteStore {
    fn changed(&self, tenant: &Tenant, collection: CollectionId, range: &ChangeRange, limit: usize) -> Result<Vec<RevisedRecord>> {
        if self.tables.catalogue().collections.get(collection).is_none_or(|collection| collection.publish.is_none()) {
            return Err(StoreError::Wrong("the collection is not published".into()));
        }
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => records::changed(TenantTables { connection, tables: &self.tables, tenant }, collection, range, limit),
            None => Ok(Vec::new()),
        })
    }

    fn committed_until(&self) -> Result<i64> {
        // whatever is committed later has a later time than what was committed last
        self.with_reader(|connection| Ok(super::tables::read_clock(connection)? + 1))
    }
}

impl Records for SqliteStore {
    fn read(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|connection| {
            let Some(tenant) = self.tenant_id(connection, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read(TenantTables { connection, tables: &self.tables, tenant }, collection, keys, detail)
        })
    }

    fn read_damaged(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key], detail: ReadDetail) -> Result<Vec<Option<StoredRecord>>> {
        self.with_reader(|connection| {
            let Some(tenant) = self.tenant_id(connection, tenant)? else { return Ok(vec![None; keys.len()]) };
            records::read_damaged(TenantTables { connection, tables: &self.tables, tenant }, collection, keys, detail)
        })
    }

    fn keys_after(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => records::keys_after(TenantTables { connection, tables: &self.tables, tenant }, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn log(&self, tenant: &Tenant, collection: CollectionId, key: &Key, before: Option<i64>, limit: usize) -> Result<Vec<ChangeLogEntry>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => records::log(TenantTables { connection, tables: &self.tables, tenant }, collection, key, before, limit),
            None => Ok(Vec::new()),
        })
    }
}

impl SqliteStore {
    /// Returns the tenant of a plan, if it exists, and the plan with its geometric conditions replaced by keys; needs a connection with a snapshot.
    fn resolve_geometry<'p>(&self, connection: &Connection, plan: &'p QueryPlan) -> Result<Option<(i64, Cow<'p, QueryPlan>)>> {
        let Some(tenant) = self.tenant_id(connection, &plan.tenant)? else { return Ok(None) };
        let decided = geometry_filter::resolve(&self.catalogue, plan, &mut |candidates, row| {
            query::visit(connection, &self.catalogue, tenant, candidates, row)
        });
        Ok(Some((tenant, decided?)))
    }
}

impl Queries for SqliteStore {
    fn visit(&self, plan: &QueryPlan, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        if geometry_filter::applies_to(plan) {
            return self.with_snapshot(|connection| match self.resolve_geometry(connection, plan)? {
                Some((tenant, plan)) => query::visit(connection, &self.catalogue, tenant, &plan, visit),
                None => Ok(()),
            });
        }
        // a page at a time if that costs no more: a slow consumer would otherwise keep the WAL from starting again
        let Some(mut pager) = query::KeyPager::for_plan(&self.catalogue, plan) else {
            return self.with_reader(|connection| match self.tenant_id(connection, &plan.tenant)? {
                Some(tenant) => query::visit(connection, &self.catalogue, tenant, plan, visit),
                None => Ok(()),
            });
        };
        loop {
            let rows = self.with_reader(|connection| match self.tenant_id(connection, &plan.tenant)? {
                Some(tenant) => pager.read(connection, &self.catalogue, tenant),
                None => Ok(Vec::new()),
            })?;
            let has_next = pager.move_to_next(&rows);
            for row in rows {
                visit(pager.without_key(row))?;
            }
            if !has_next {
                return Ok(());
            }
        }
    }

    fn count(&self, plan: &QueryPlan) -> Result<u64> {
        self.with_snapshot(|connection| match self.resolve_geometry(connection, plan)? {
            Some((tenant, plan)) => query::count(connection, &self.catalogue, tenant, &plan),
            None => Ok(0),
        })
    }

    fn find_and_count(&self, plan: &QueryPlan) -> Result<(ResultRows, u64)> {
        self.with_snapshot(|connection| {
            let Some((tenant, plan)) = self.resolve_geometry(connection, plan)? else { return Ok((ResultRows::default(), 0)) };
            let mut rows = Vec::new();
            query::visit(connection, &self.catalogue, tenant, &plan, &mut |row| {
                rows.push(row);
                Ok(())
            })?;
            Ok((ResultRows { rows }, query::count(connection, &self.catalogue, tenant, &plan)?))
        })
    }

    fn aggregate_together(&self, wanted: &[AggregatedRows<'_>]) -> Result<Vec<Vec<Value>>> {
        self.with_snapshot(|connection| {
            let of_rows = |AggregatedRows { plan, aggregates }: &AggregatedRows<'_>| -> Result<Vec<Value>> {
                let (tenant, plan) = self.resolve_geometry(connection, plan)?.unwrap_or((NO_TENANT, Cow::Borrowed(*plan)));
                aggregates.iter().map(|aggregate| query::aggregate(connection, &self.catalogue, tenant, &plan, *aggregate)).collect()
            };
            wanted.iter().map(of_rows).collect()
        })
    }

    fn group(&self, plan: &QueryPlan, aggregates: &[Aggregate], grouping: &Grouping) -> Result<Groups> {
        self.with_snapshot(|connection| match self.resolve_geometry(connection, plan)? {
            Some((tenant, plan)) => query::group(connection, &self.catalogue, tenant, &plan, (aggregates, grouping)),
            None => Ok(Groups::default()),
        })
    }

    fn explain(&self, plan: &QueryPlan) -> Result<Vec<String>> {
        self.with_reader(|connection| query::explain(connection, &self.catalogue, plan))
    }
}

impl Units for SqliteStore {
    fn submit(&self, unit: Box<dyn Unit>, priority: Priority) -> PendingCommit {
        let Some(writer) = &self.writer else {
            let (reply, pending) = CommitReply::new(None);
            reply.send(Err(StoreError::ReadOnly("the store was opened read-only".into())), Some(unit));
            return pending;
        };
        writer.run(WriterCommand::Unit(unit), priority)
    }

    fn sync(&self) -> Result<()> {
        // any interactive commit syncs the WAL, and with it everything written before
        self.write_unaudited(|_, _| Ok(()))
    }
}

impl CommitNumbers for SqliteStore {
    fn is_local(&self) -> bool {
        true
    }

    fn commit_number(&self) -> Result<Option<i64>> {
        let probe = self.probes.lock().ok().and_then(|mut probes| probes.pop());
        let mut probe = match probe {
            Some(probe) => probe,
            None => ChangeProbe {
                connection: connect(
                    &self.path,
                    &SqliteOptions { read_only: true, reader_cache: 1 << 20, ..self.options.clone() },
                    self.immutable.as_ref(),
                )?,
                version: None,
                commit_number: 0,
            },
        };
        let commit_number = probe.commit_number(&self.tables).map_err(|error| after_waiting(error, self.options.wait))?;
        if let Ok(mut probes) = self.probes.lock() {
            probes.push(probe);
        }
        Ok(Some(commit_number))
    }

    fn watch(&self, watch: Arc<dyn CommitObserver>) {
        if let Some(writer) = &self.writer {
            writer.watch(watch);
        }
    }
}

impl Settling for SqliteStore {
    fn edges(&self, tenant: &Tenant, link: u32, target: &str) -> Result<Vec<Edge>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => edges::edges(TenantTables { connection, tables: &self.tables, tenant }, link, (target, None), None),
            None => Ok(Vec::new()),
        })
    }

    fn edges_starting_between(&self, tenant: &Tenant, link: u32, ranges: &[StartRange]) -> Result<Vec<Edge>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => edges::edges_starting_between(connection, tenant, link, ranges, None),
            None => Ok(Vec::new()),
        })
    }

    fn marks(&self, tenant: &Tenant, limit: usize) -> Result<Vec<StaleMark>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => marks::marks(connection, tenant, limit),
            None => Ok(Vec::new()),
        })
    }

    fn has_marks(&self, tenant: &Tenant, job: JobId) -> Result<bool> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => marks::has_marks(connection, tenant, job),
            None => Ok(false),
        })
    }

    fn tenants_with_marks(&self) -> Result<Vec<Tenant>> {
        self.with_reader(marks::tenants_with_marks)
    }

    fn is_settled(&self, job: JobId) -> Result<bool> {
        self.with_reader(|connection| marks::is_settled(connection, job))
    }

    fn settle(&self, tenant: &Tenant, pass: &Arc<dyn SettlePass>) -> Result<PassReport> {
        let Some(writer) = &self.writer else { return Err(StoreError::ReadOnly("the store was opened read-only".into())) };
        let report = Arc::new(Mutex::new(PassReport::default()));
        let changed = Arc::new(Mutex::new(Vec::new()));
        let (tenant, pass, tables) = (tenant.clone(), pass.clone(), self.tables.clone());
        let (report_slot, changed_slot) = (report.clone(), changed.clone());
        let cancel_token = CancelToken::current();
        let work = move |connection: &Connection, commit_time: i64| {
            let (report, changed) = pass::pass(connection, &tables, &tenant, (&*pass, cancel_token.as_ref()), commit_time)?;
            let rows = report.rows;
            *report_slot.lock().unwrap_or_else(PoisonError::into_inner) = report;
            *changed_slot.lock().unwrap_or_else(PoisonError::into_inner) = changed;
            Ok(CommitReceipt { committed_at: commit_time, rows })
        };
        writer.run(WriterCommand::Pass(Box::new(work), changed), Priority::Bulk).wait()?;
        Ok(report.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn correct_record_counts(&self) -> Result<Vec<String>> {
        if self.with_snapshot(|connection| record_counts::wrong_counts(connection, &self.tables))?.is_empty() {
            return Ok(Vec::new());
        }
        let tables = Arc::clone(&self.tables);
        self.write_unaudited(move |connection, _| record_counts::correct(connection, &tables))
    }

    fn awaiting_consolidation(&self) -> Result<Vec<CollectionId>> {
        self.with_reader(|connection| {
            let mut waiting = Vec::new();
            for (id, collection) in self.catalogue.collections.enumerate() {
                waiting.extend(tables::meta(connection, &consolidated_again_name(&collection.name))?.map(|_| id));
            }
            Ok(waiting)
        })
    }

    fn set_consolidated(&self, collection: CollectionId) -> Result<()> {
        let name = consolidated_again_name(&self.catalogue.collections[collection].name);
        self.write(move |connection, _| execute(connection, "DELETE FROM meta WHERE name = ?", params![name]))
    }

    fn settled_by(&self) -> Result<Option<String>> {
        self.with_reader(|connection| tables::meta(connection, "settled"))
    }

    fn set_settled_by(&self, rules: &str, links: &[u32]) -> Result<()> {
        let (rules, links) = (rules.to_owned(), serde_json::Value::from(links).to_string());
        self.write(move |connection, _| {
            tables::put_meta(connection, "settled", &rules)?;
            execute(connection, "DELETE FROM edges WHERE link NOT IN (SELECT value FROM json_each(?))", params![links])
        })
    }
}

impl Tags for SqliteStore {
    fn tags(&self, tenant: &Tenant, collection: CollectionId) -> Result<CollectionTags> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::tags(connection, &self.tables, tenant, collection),
            None => Ok(CollectionTags::default()),
        })
    }

    fn put_tags(&self, tenant: &Tenant, collection: CollectionId, tags: Vec<Tag>, new: bool) -> Result<()> {
        let (tables, tenant) = (self.tables.clone(), tenant.clone());
        self.write(move |connection, commit_time| {
            let tenant = tenant_id(connection, &tenant)?;
            tags::put(TenantTables { connection, tables: &tables, tenant }, collection, &tags, new, commit_time)
        })
    }

    fn delete_tag(&self, tenant: &Tenant, collection: CollectionId, name: &str) -> Result<bool> {
        let (tables, tenant, name) = (self.tables.clone(), tenant.clone(), name.to_owned());
        self.write(move |connection, commit_time| {
            let tenant = tenant_id(connection, &tenant)?;
            tags::delete(TenantTables { connection, tables: &tables, tenant }, collection, &name, commit_time)
        })
    }

    fn rename_tag(&self, tenant: &Tenant, collection: CollectionId, rename: TagRename) -> Result<bool> {
        let (tables, tenant) = (self.tables.clone(), tenant.clone());
        self.write(move |connection, commit_time| {
            let tenant = tenant_id(connection, &tenant)?;
            tags::rename(TenantTables { connection, tables: &tables, tenant }, collection, &rename, commit_time)
        })
    }

    fn tags_of_records(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<String>>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::tagged(connection, &self.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }

    fn trees(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<PackedTrees>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => tags::trees(connection, &self.tables, tenant, collection, keys),
            None => Ok(vec![Vec::new(); keys.len()]),
        })
    }
}

impl FormerContributions for SqliteStore {
    fn former(&self, tenant: &Tenant, collection: CollectionId, keys: &[Key]) -> Result<Vec<Vec<FormerContribution>>> {
        self.with_reader(|connection| {
            let Some(tenant) = self.tenant_id(connection, tenant)? else { return Ok(vec![Vec::new(); keys.len()]) };
            former::former(connection, &self.tables, tenant, collection, keys)
        })
    }

    fn keys_with_former(&self, tenant: &Tenant, collection: CollectionId, key: &str, limit: usize) -> Result<Vec<Key>> {
        self.with_reader(|connection| match self.tenant_id(connection, tenant)? {
            Some(tenant) => former::keys_with_former(TenantTables { connection, tables: &self.tables, tenant }, collection, key, limit),
            None => Ok(Vec::new()),
        })
    }

    fn first_undoable(&self, source: &str) -> Result<Option<JobId>> {
        self.with_reader(|connection| former::first_undoable(connection, source))
    }

    fn end_undo_before(&self, source: &str, time: i64) -> Result<Option<JobId>> {
        let source = source.to_owned();
        self.write(move |connection, _| former::end_undo_before(connection, &source, time))
    }

    fn other_jobs(&self, job: JobId) -> Result<Vec<OtherJob>> {
        self.with_reader(|connection| former::other_jobs(connection, job))
    }

    fn start_undo(&self, job: JobId, undo: NewJob) -> Result<JobId> {
        self.write(move |connection, commit_time| former::start_undo(connection, job, &undo, commit_time))
    }
}

impl Queue for SqliteStore {
    fn create_job(&self, job: NewJob) -> Result<JobId> {
        self.write(move |connection, commit_time| jobs::create_job(connection, &job, commit_time))
    }

    fn add_chunks(&self, job: JobId, chunks: Vec<NewChunk>, progress: SplitProgress) -> Result<()> {
        self.write_and_notify(move |connection, commit_time| queue::add_chunks(connection, job, &chunks, progress, commit_time))
    }

    fn lease(&self, job: Option<JobId>, limit: usize, seconds: u64) -> Result<Vec<LeasedChunk>> {
        // repeated polling must not disturb writers
        let now = self.clock();
        let (backlog, has_expired_leases) = self.with_snapshot(|connection| queue::backlog(connection, &self.tables, job, now))?;
        if !has_expired_leases && backlog.next().is_none() {
            return Ok(Vec::new());
        }
        let tables = self.tables.clone();
        self.write_as(Priority::Bulk, move |connection, commit_time| {
            queue::lease(connection, &tables, WantedLeases { job, limit, seconds }, commit_time)
        })
    }

    fn renew(&self, leases: &[LeaseToken], seconds: u64) -> Result<Vec<LeaseToken>> {
        let leases = leases.to_vec();
        self.write(move |connection, commit_time| queue::renew(connection, &leases, seconds, commit_time))
    }

    fn return_unstarted(&self, leases: &[LeaseToken]) -> Result<()> {
        let leases = leases.to_vec();
        self.write_and_notify(move |connection, _| queue::return_unstarted(connection, &leases))
    }

    fn is_idle(&self) -> Result<bool> {
        self.with_reader(queue::is_idle)
    }

    fn wait_for_chunks(&self, timeout: Duration) {
        // other processes do not notify this one
        self.chunk_signal.wait(timeout.min(POLL_INTERVAL));
    }

    fn take_over(&self, job: JobId) -> Result<u64> {
        self.write_and_notify(move |connection, _| queue::take_over(connection, job))
    }

    fn release(&self, lease: LeaseToken, reason: &str, delay_seconds: u64, attempts: u32) -> Result<()> {
        let reason = reason.to_owned();
        self.write(move |connection, commit_time| {
            queue::release(connection, FailedLease { lease, reason: &reason, delay_seconds, attempts }, commit_time)
        })
    }

    fn job(&self, job: JobId) -> Result<Job> {
        let now = self.clock();
        self.with_snapshot(|connection| jobs::job(connection, job, now))
    }

    fn job_state(&self, job: JobId) -> Result<JobState> {
        self.with_reader(|connection| jobs::job_state(connection, job))
    }

    fn jobs(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Job>> {
        let now = self.clock();
        self.with_snapshot(|connection| jobs::jobs(connection, None, tenant, limit, now))
    }

    fn interrupt_job(&self, job: JobId) -> Result<()> {
        self.write(move |connection, commit_time| jobs::interrupt_job(connection, job, commit_time))
    }

    fn end_job(&self, job: JobId, state: JobState, reason: &str) -> Result<()> {
        let reason = reason.to_owned();
        self.write(move |connection, commit_time| jobs::end_job(connection, job, state, &reason, commit_time))
    }

    fn forget_job(&self, job: JobId) -> Result<()> {
        self.write(move |connection, _| jobs::forget_job(connection, job))
    }

    fn journal(&self, job: JobId, after: u64, limit: usize, troubles_only: bool) -> Result<Vec<JournalEntry>> {
        self.with_snapshot(|connection| {
            let names = tables::collections(connection, &self.tables)?;
            journal::journal(connection, &names.into(), JournalRange { job, after, limit, troubles_only })
        })
    }

    fn failed_document(&self, job: JobId, document: u64) -> Result<Option<Vec<u8>>> {
        self.with_reader(|connection| journal::failed_document(connection, job, document))
    }

    fn chunks(&self, job: Option<JobId>) -> Result<Vec<ChunkInfo>> {
        self.with_reader(|connection| queue::chunks(connection, job))
    }

    fn chunk(&self, chunk: ChunkId) -> Result<ChunkData> {
        self.with_reader(|connection| queue::chunk(connection, chunk))
    }

    fn retry(&self, job: JobId, ordinal: Option<u32>) -> Result<u64> {
        self.write_and_notify(move |connection, _| queue::retry(connection, job, ordinal))
    }

    fn load_chunk(&self, chunk: ChunkId, slice: ChunkSlice) -> Result<()> {
        self.write_and_notify(move |connection, _| queue::load_chunk(connection, chunk, &slice))
    }

    fn replace_chunk(&self, chunk: ChunkId, parts: Vec<NewChunk>) -> Result<()> {
        self.write_and_notify(move |connection, commit_time| queue::replace_chunk(connection, chunk, &parts, commit_time))
    }
}
