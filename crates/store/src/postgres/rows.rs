//! Writes rows of locked records, each only at the version that was read: one statement for each kind of change.

use super::records::{ONE_KEY_RANGE, by_key_locked_sql, by_key_sql};
use super::session::{DbResult, Session, SqlParameter};
use super::tables::{CollectionTables, StoreTables, TenantTables, quoted_name};
use super::unique;
use super::values::{self, BoundValue, BoundingBox, RowExt, RowLocation, column_type};
use crate::sql::backed_up::RestoredRecord;
use crate::sql::record_counts::RecordCountChanges;
use crate::sql::row::{reserved_value, version_of};
use crate::sql::unique::{Claim, Digest, Refusal, Taken, decide, digest, sets_unique_fields};
use crate::{RecordChange, RecordContent, RecordWrite, RefusalReason, RefusedWrite, StoreError, Version};
use ::tokio_postgres::types::Type;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_catalogue::words::kept_words;

/// Maximum number of rows whose state one statement changes.
const MAX_STATE_UPDATES: usize = 32;

/// The hash of the value that a write claims in a unique field; `None` if the record does not exist.
fn claimed_value(collection: &Collection, field: FieldId, write: &RecordWrite) -> Option<Digest> {
    let RecordChange::Put(content) = &write.change else { return None };
    digest(&reserved_value(collection, field, content))
}

/// A record's new state.
struct StateUpdate<'w> {
    key: &'w str,
    old_version: Version,
    state: &'w [Value],
    packed: Option<String>,
}

/// Writes the records of one unit.
pub struct UnitWriter<'d> {
    pub session: &'d mut Session,
    pub tables: &'d StoreTables,
    pub tenant: i64,
    pub commit_time: i64,
    /// Whether it waits for rows that other transactions have locked.
    pub waits_for_locks: bool,
    /// The rows that exist and are locked.
    pub locked: HashMap<(CollectionId, Key), LockedRow>,
}

/// A row that is locked.
#[derive(Clone, Copy)]
pub struct LockedRow {
    pub version: Version,
    /// Whether the record exists for readers.
    pub exists: bool,
    /// Its `ctid`. On a cluster it is not read, and this is the default.
    location: RowLocation,
}

impl UnitWriter<'_> {
    /// Locks the rows that `writes` change, in the order of collections and keys, and remembers them.
    pub fn lock(&mut self, writes: &[&RecordWrite]) -> DbResult<()> {
        let mut keys: BTreeMap<CollectionId, Vec<&str>> = BTreeMap::new();
        for write in writes {
            keys.entry(write.collection).or_default().push(write.key.as_str());
        }
        let lock = if self.waits_for_locks { "FOR UPDATE" } else { "FOR UPDATE SKIP LOCKED" };
        let keys: Vec<(CollectionId, Vec<&str>)> = keys.into_iter().collect();
        // one statement for all collections, if the rows are on one server
        for batch in keys.chunks(if self.tables.is_distributed() { 1 } else { keys.len().max(1) }) {
            let mut statements: Vec<String> = Vec::with_capacity(batch.len());
            let mut parameters: Vec<SqlParameter<'_>> = vec![&self.tenant];
            for (collection, keys) in batch {
                let collection_tables =
                    self.tables.collections.get(*collection).ok_or_else(|| StoreError::Wrong("there is no such collection".into()))?;
                if self.tables.is_distributed() {
                    // one statement cannot lock rows on several servers: instead, units that write records of a collection and tenant run one after
                    // the other
                    let lock_collection = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.' || $1, $2))";
                    self.session.defer(lock_collection, &[&collection_tables.table, &self.tenant])?;
                }
                parameters.push(keys);
                let location_column = if self.tables.is_distributed() { "" } else { ", ctid" };
                let columns = format!("{collection}::bigint, key, revision, touch, alive{location_column}");
                statements.push(format!("({})", by_key_locked_sql(self.tables, &collection_tables.table, &columns, parameters.len(), lock)));
            }
            for row in self.session.query(&statements.join(" UNION ALL "), &parameters)? {
                let key = Key::new(row.at::<&str>(1)?).map_err(|error| StoreError::Other(error.to_string()))?;
                let location = if self.tables.is_distributed() { RowLocation::default() } else { row.at(5)? };
                let locked = LockedRow { version: Version::new(row.at(2)?, row.at(3)?), exists: row.at(4)?, location };
                self.locked.insert((CollectionId::from(row.at::<i64>(0)? as usize), key), locked);
            }
        }
        Ok(())
    }

    /// Whether a record still has the version that was read.
    pub fn is_current(&self, write: &RecordWrite) -> bool {
        let current_version = self.locked.get(&(write.collection, write.key.clone())).map(|locked| locked.version);
        current_version == write.expect
            && !(current_version.is_none()
                && matches!(write.change, RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_)))
    }

    /// Reserves the values of unique fields, and frees those that records had. Removes and returns the writes of records whose values other records
    /// have or get.
    pub fn reserve(&mut self, writes: &mut Vec<Cow<'_, RecordWrite>>) -> DbResult<Vec<RefusedWrite>> {
        let mut refused = Vec::new();
        let collections: BTreeSet<CollectionId> = writes.iter().map(|write| write.collection).collect();
        for collection in collections {
            let collection_tables = &self.tables.collections[collection];
            if collection_tables.uniques.is_empty() {
                continue;
            }
            let definition = &self.tables.catalogue().collections[collection];
            let claiming: Vec<usize> =
                (0..writes.len()).filter(|index| writes[*index].collection == collection && sets_unique_fields(&writes[*index])).collect();
            // a new record has no values yet
            let keys: Vec<&str> =
                claiming.iter().map(|index| &writes[*index]).filter(|write| write.expect.is_some()).map(|write| write.key.as_str()).collect();
            let values = |write: &RecordWrite| collection_tables.uniques.iter().map(|(field, _)| claimed_value(definition, *field, write)).collect();
            let all_claims: Vec<Claim<'_>> =
                claiming.iter().map(|index| Claim { key: writes[*index].key.as_str(), values: values(&writes[*index]) }).collect();
            let mut taken_before: Vec<Taken> = Vec::new();
            for (field, (_, side)) in collection_tables.uniques.iter().enumerate() {
                let digests: Vec<Digest> = all_claims.iter().filter_map(|claim| claim.values[field].clone()).collect();
                taken_before.push(unique::read_taken(
                    TenantTables { session: self.session, tables: self.tables, tenant: self.tenant },
                    side,
                    &keys,
                    &digests,
                )?);
            }
            let (refusals, taken_after) = decide(&all_claims, &taken_before);
            for ((_, side), (taken_before, taken_after)) in collection_tables.uniques.iter().zip(taken_before.iter().zip(&taken_after)) {
                unique::write_taken(self.session, self.tenant, side, taken_before, taken_after)?;
            }
            let mut refused_indexes: Vec<usize> = Vec::with_capacity(refusals.len());
            for Refusal { claim, field, holder } in refusals {
                let index = claiming[claim];
                let reason = RefusalReason::Taken { field: collection_tables.uniques[field].0, holder };
                refused.push(RefusedWrite { collection, key: writes[index].key.clone(), reason });
                refused_indexes.push(index);
            }
            // the last ones first, so that the positions of the others stay valid
            for index in refused_indexes.into_iter().rev() {
                writes.remove(index);
            }
        }
        Ok(refused)
    }

    /// How writes of rows change the numbers of records.
    pub fn count(&self, writes: &[Cow<'_, RecordWrite>]) -> RecordCountChanges {
        let mut counted = RecordCountChanges::default();
        for write in writes {
            counted.note(write, self.locked.get(&(write.collection, write.key.clone())).is_some_and(|locked| locked.exists));
        }
        counted
    }

    /// Writes rows whose versions are known to be current.
    pub fn apply(&mut self, mut writes: Vec<Cow<'_, RecordWrite>>) -> DbResult<Vec<(CollectionId, u64)>> {
        writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
        let mut sizes = Vec::new();
        for of_collection in writes.chunk_by(|a, b| a.collection == b.collection) {
            self.apply_to(of_collection[0].collection, of_collection)?;
            sizes.push((of_collection[0].collection, of_collection.len() as u64));
        }
        Ok(sizes)
    }

    /// The location of the row that a write changes.
    fn location_of(&self, write: &RecordWrite) -> RowLocation {
        self.locked.get(&(write.collection, write.key.clone())).map(|locked| locked.location).unwrap_or_default()
    }

    fn apply_to(&mut self, collection: CollectionId, writes: &[Cow<'_, RecordWrite>]) -> DbResult<()> {
        let (collection_tables, definition) = (&self.tables.collections[collection], &self.tables.catalogue().collections[collection]);
        let (mut new, mut changed, mut states) = (Vec::new(), Vec::new(), Vec::new());
        let (mut touched, mut packed, mut deleted_keys) = (Vec::new(), Vec::new(), Vec::new());
        for write in writes {
            let write: &RecordWrite = write;
            let key = write.key.as_str();
            match &write.change {
                RecordChange::Put(content) | RecordChange::Settle(content) if write.expect.is_some() => changed.push((write, &**content)),
                RecordChange::Put(content) | RecordChange::Settle(content) => new.push((write, &**content)),
                RecordChange::Touch { contributions } => {
                    touched.push(write);
                    packed.push(contributions.as_slice());
                }
                RecordChange::State { state, state_set } => {
                    let packed = crate::sql::row::pack_state(state_set, definition);
                    states.push(StateUpdate { key, old_version: write.expect.unwrap_or_default(), state, packed });
                }
                RecordChange::Delete => deleted_keys.push(key),
            }
        }
        if !deleted_keys.is_empty() {
            let existing_rows = writes.iter().filter(|write| matches!(write.change, RecordChange::Delete) && write.expect.is_some()).count();
            let sql = match self.tables.is_distributed() {
                true => format!("DELETE FROM {} WHERE tenant = $1 AND key = ANY($2)", collection_tables.table),
                false => format!(
                    "DELETE FROM {} WHERE ctid = ANY(ARRAY({}))",
                    collection_tables.table,
                    by_key_sql(self.tables, &collection_tables.table, "ctid")
                ),
            };
            self.session.defer_expecting(existing_rows, CHANGED_MEANWHILE, &sql, &[&self.tenant, &deleted_keys])?;
        }
        if !touched.is_empty() {
            let table = &collection_tables.table;
            let sql = match self.tables.is_distributed() {
                true => format!(
                    "UPDATE {table} r SET touch = r.touch + 1, contributions = u.packed FROM unnest($2::text[], $3::bytea[]) AS u(own, packed) \
                     WHERE r.tenant = $1 AND r.key = u.own AND r.key = ANY($2)"
                ),
                false => format!(
                    "UPDATE {table} r SET touch = r.touch + 1, contributions = u.packed FROM unnest($2::tid[], $3::bytea[]) AS u(place, packed) \
                     WHERE r.tenant = $1 AND r.ctid = u.place"
                ),
            };
            let (keys, locations): (Vec<&str>, Vec<RowLocation>) = touched.iter().map(|write| (write.key.as_str(), self.location_of(write))).unzip();
            let rows: SqlParameter<'_> = if self.tables.is_distributed() { &keys } else { &locations };
            self.session.defer_expecting(touched.len(), CHANGED_MEANWHILE, &sql, &[&self.tenant, rows, &packed])?;
        }
        self.set_states(collection_tables, definition, &states)?;
        if !changed.is_empty() {
            let staging_table = quoted_name(&["stage", &definition.name]);
            self.session.defer_batch(format!(
                "CREATE TEMP TABLE IF NOT EXISTS {staging_table} (LIKE {}, was_revision bigint, was_touch bigint, place tid) ON COMMIT DELETE ROWS",
                collection_tables.table
            ));
            self.copy_rows(&staging_table, collection_tables, definition, &changed, true)?;
            let assignments: Vec<String> = collection_tables
                .columns
                .iter()
                .filter(|(column, _)| column != "tenant" && column != "key")
                .map(|(column, _)| format!("{column} = s.{column}"))
                .collect();
            let (table, assignments) = (&collection_tables.table, assignments.join(", "));
            let same_version = "r.revision = s.was_revision AND r.touch = s.was_touch";
            let sql = match self.tables.is_distributed() {
                true => format!(
                    "UPDATE {table} r SET {assignments} FROM {staging_table} s WHERE r.tenant = s.tenant AND r.key = s.key AND {same_version}"
                ),
                false => format!("UPDATE {table} r SET {assignments} FROM {staging_table} s WHERE r.ctid = s.place AND {same_version}"),
            };
            self.session.defer_expecting(changed.len(), CHANGED_MEANWHILE, &sql, &[])?;
        }
        match new.len() {
            0 => {}
            1..=MAX_INSERTED_ROWS => self.insert_rows(collection_tables, definition, &new)?,
            _ => self.copy_rows(&collection_tables.table, collection_tables, definition, &new, false)?,
        }
        for (field, side) in &collection_tables.lists {
            let changed_keys: Vec<&str> = changed.iter().map(|(write, _)| write.key.as_str()).chain(deleted_keys.iter().copied()).collect();
            if !changed_keys.is_empty() {
                self.session.defer(&format!("DELETE FROM {side} WHERE tenant = $1 AND key = ANY($2)"), &[&self.tenant, &changed_keys])?;
            }
            let puts = changed.iter().chain(&new).map(|(write, content)| (write.key.as_str(), *content));
            self.copy_elements(side, definition, *field, puts)?;
        }
        Ok(())
    }

    /// Updates the state of several records with one statement (on a cluster, of one record). The list of rows is filled up with null rows to a
    /// power of two, so that only few different statements are prepared.
    fn set_states(&mut self, collection_tables: &CollectionTables, collection: &Collection, changed: &[StateUpdate<'_>]) -> DbResult<()> {
        let table = &collection_tables.table;
        let states: Vec<String> = collection.states.iter().map(|state| quoted_name(&["s", &state.name])).collect();
        let types = collection.states.iter().map(|state| values::bare_type(&state.ty));
        let types: Vec<String> = ["text", "bigint", "bigint", "bigint", "text"].map(str::to_owned).into_iter().chain(types).collect();
        let names: String = states.iter().map(|name| format!(", {name}")).collect();
        let null = BoundValue(&Value::Null);
        for batch in changed.chunks(if self.tables.is_distributed() { 1 } else { MAX_STATE_UPDATES }) {
            let rows = batch.len().next_power_of_two();
            let revisions: Vec<i64> = batch.iter().map(|update| self.commit_time.max(update.old_version.revision + 1)).collect();
            let values: Vec<Vec<BoundValue<'_>>> = batch.iter().map(|update| update.state.iter().map(BoundValue).collect()).collect();
            let mut parameters: Vec<SqlParameter<'_>> = vec![&self.tenant];
            for ((update, revision), values) in batch.iter().zip(&revisions).zip(&values) {
                parameters.extend([
                    &update.key as SqlParameter<'_>,
                    &update.old_version.revision,
                    &update.old_version.touches,
                    revision,
                    &update.packed,
                ]);
                parameters.extend(values.iter().map(|value| value as SqlParameter<'_>));
            }
            parameters.resize(1 + rows * types.len(), &null);
            let sql = match self.tables.is_distributed() {
                true => {
                    let set: String = states.iter().zip(7..).map(|(name, position)| format!(", {name} = ${position}")).collect();
                    format!(
                        "UPDATE {table} SET revision = $5, touch = 0, state = $6{set} WHERE tenant = $1 AND key = $2 AND revision = $3 AND touch = $4"
                    )
                }
                false => {
                    let set: String = states.iter().map(|name| format!(", {name} = s.{name}")).collect();
                    let row = |row: usize| {
                        let cast = |(position, ty): (usize, &String)| format!("${}::{ty}", 2 + row * types.len() + position);
                        format!("({})", types.iter().enumerate().map(cast).collect::<Vec<_>>().join(", "))
                    };
                    let rows = (0..rows).map(row).collect::<Vec<_>>().join(", ");
                    format!(
                        "UPDATE {table} r SET revision = s.revision, touch = 0, state = s.state{set} FROM (SELECT u.*, o.place \
                         FROM (VALUES {rows}) AS u(own, was_revision, was_touch, revision, state{names}) CROSS JOIN LATERAL \
                         (SELECT ctid AS place FROM {table} WHERE tenant = $1 AND key {ONE_KEY_RANGE}) AS o OFFSET 0) AS s \
                         WHERE r.ctid = s.place AND r.revision = s.was_revision AND r.touch = s.was_touch"
                    )
                }
            };
            self.session.defer_expecting(batch.len(), CHANGED_MEANWHILE, &sql, &parameters)?;
        }
        Ok(())
    }

    /// Copies complete rows; if `staged`, with the versions and locations of the rows that they replace.
    fn copy_rows(
        &mut self,
        table: &str,
        collection_tables: &CollectionTables,
        collection: &Collection,
        puts: &[(&RecordWrite, &RecordContent)],
        staged: bool,
    ) -> DbResult<()> {
        let mut names: Vec<&str> = collection_tables.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut types: Vec<Type> = collection_tables.columns.iter().map(|(_, ty)| wire_type(ty)).collect();
        if staged {
            names.extend(["was_revision", "was_touch", "place"]);
            types.extend([Type::INT8, Type::INT8, Type::TID]);
        }
        let locations: Vec<RowLocation> =
            puts.iter().map(|(write, _)| if staged { self.location_of(write) } else { RowLocation::default() }).collect();
        let mut writer = self.session.copy_in(&format!("COPY {table} ({}) FROM STDIN BINARY", names.join(", ")), &types)?;
        for ((write, content), location) in puts.iter().zip(&locations) {
            let row = RowValues::new(version_of(write, self.commit_time), collection_tables, collection, write.key.as_str(), content);
            let mut parameters = vec![&self.tenant as SqlParameter<'_>];
            row.push(&mut parameters);
            let old_version = write.expect.unwrap_or_default();
            if staged {
                parameters.extend([&old_version.revision as SqlParameter<'_>, &old_version.touches, location]);
            }
            writer.write(&parameters)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Copies records of a backup, which exist nowhere yet, with all that follows from them.
    pub fn restore(&mut self, collection: CollectionId, records: &[&RestoredRecord]) -> DbResult<()> {
        let (collection_tables, definition) = (&self.tables.collections[collection], &self.tables.catalogue().collections[collection]);
        let names: Vec<&str> = collection_tables.columns.iter().map(|(name, _)| name.as_str()).collect();
        let types: Vec<Type> = collection_tables.columns.iter().map(|(_, ty)| wire_type(ty)).collect();
        let mut writer = self.session.copy_in(&format!("COPY {} ({}) FROM STDIN BINARY", collection_tables.table, names.join(", ")), &types)?;
        for record in records {
            let row = RowValues::new(record.version, collection_tables, definition, record.key.as_str(), &record.content);
            let mut parameters = vec![&self.tenant as SqlParameter<'_>];
            row.push(&mut parameters);
            writer.write(&parameters)?;
        }
        writer.finish()?;
        for (field, side) in &collection_tables.lists {
            self.copy_elements(side, definition, *field, records.iter().map(|record| (record.key.as_str(), &record.content)))?;
        }
        for (field, side) in &collection_tables.uniques {
            let mut writer =
                self.session.copy_in(&format!("COPY {side} (tenant, digest, key) FROM STDIN BINARY"), &[Type::INT8, Type::BYTEA, Type::TEXT])?;
            for record in records {
                if let Some(digest) = digest(&reserved_value(definition, *field, &record.content)) {
                    writer.write(&[&self.tenant, &digest, &record.key.as_str()])?;
                }
            }
            writer.finish()?;
        }
        Ok(())
    }

    /// Inserts a few new rows, in batches whose sizes are powers of two so that there are few statements per collection; none is waited for.
    fn insert_rows(
        &mut self,
        collection_tables: &CollectionTables,
        collection: &Collection,
        puts: &[(&RecordWrite, &RecordContent)],
    ) -> DbResult<()> {
        let names: Vec<&str> = collection_tables.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut remaining = puts;
        while !remaining.is_empty() {
            let (batch, rest) = remaining.split_at(1 << remaining.len().ilog2());
            remaining = rest;
            let rows: Vec<RowValues<'_>> = batch
                .iter()
                .map(|(write, content)| {
                    RowValues::new(version_of(write, self.commit_time), collection_tables, collection, write.key.as_str(), content)
                })
                .collect();
            let mut parameters: Vec<SqlParameter<'_>> = Vec::with_capacity(rows.len() * names.len());
            for row in &rows {
                parameters.push(&self.tenant);
                row.push(&mut parameters);
            }
            let mut sql = format!("INSERT INTO {} ({}) VALUES ", collection_tables.table, names.join(", "));
            for position in 1..=parameters.len() {
                let (before, after) = (if (position - 1) % names.len() == 0 { "(" } else { "" }, if position % names.len() == 0 { ")" } else { "" });
                let _ = write!(sql, "{}{before}${position}{after}", if position == 1 { "" } else { ", " });
            }
            self.session.defer(&sql, &parameters)?;
        }
        Ok(())
    }

    /// Writes the elements of an indexed list, each once for a record.
    fn copy_elements<'w>(
        &mut self,
        side: &str,
        collection: &Collection,
        field: FieldId,
        puts: impl Iterator<Item = (&'w str, &'w RecordContent)>,
    ) -> DbResult<()> {
        let definition = &collection.fields[field];
        let element = wire_type(&column_type(definition.golden_type().element()));
        let mut rows: Vec<(&str, Value)> = Vec::new();
        for (key, content) in puts {
            let first_of_record = rows.len();
            for element in content.golden[field].elements() {
                let value = match element.as_text() {
                    Some(text) if definition.fold => Value::text(fold(text)),
                    _ => element.clone(),
                };
                if !rows[first_of_record..].iter().any(|(_, known)| *known == value) {
                    rows.push((key, value));
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        if rows.len() <= MAX_INSERTED_ROWS {
            let (keys, values): (Vec<&str>, Vec<BoundValue<'_>>) = rows.iter().map(|(key, value)| (*key, BoundValue(value))).unzip();
            let sql = format!(
                "INSERT INTO {side} (tenant, key, value) SELECT $1, u.key, u.value FROM unnest($2::text[], $3::{}[]) AS u(key, value)",
                values::bare_type(definition.golden_type().element())
            );
            return self.session.defer(&sql, &[&self.tenant, &keys, &values]);
        }
        let types = [Type::INT8, Type::TEXT, element];
        let mut writer = self.session.copy_in(&format!("COPY {side} (tenant, key, value) FROM STDIN BINARY"), &types)?;
        for (key, value) in &rows {
            writer.write(&[&self.tenant, key, &BoundValue(value)])?;
        }
        writer.finish()?;
        Ok(())
    }
}

/// The reason of the conflict if fewer rows are written than were locked. On a cluster, a server may still be applying a commit.
const CHANGED_MEANWHILE: &str = "a record was changed meanwhile";

/// Up to this many new rows of a table are inserted and not copied: a copy takes two round trips of its own.
const MAX_INSERTED_ROWS: usize = 16;

/// The values of a row's columns after the tenant, as far as they must be computed from the content.
struct RowValues<'w> {
    key: &'w str,
    revision: i64,
    touch: i64,
    created_job: i64,
    golden: Vec<BoundValue<'w>>,
    folded: Vec<Option<String>>,
    boxes: Vec<BoundingBox>,
    words: Vec<Option<String>>,
    state: Vec<BoundValue<'w>>,
    conflicts: Option<Vec<&'w str>>,
    state_set: Option<String>,
    raw: Option<&'w [u8]>,
    content: &'w RecordContent,
}

impl<'w> RowValues<'w> {
    fn new(version: Version, collection_tables: &CollectionTables, collection: &'w Collection, key: &'w str, content: &'w RecordContent) -> Self {
        let conflict_names = || content.conflicts.iter().map(|field| collection.fields[*field].name.as_str()).collect();
        Self {
            key,
            revision: version.revision,
            touch: version.touches,
            created_job: content.created_job as i64,
            golden: content.golden.iter().take(collection.stored_fields().len()).map(BoundValue).collect(),
            folded: collection_tables.folded.iter().map(|field| content.golden[*field].as_text().map(fold)).collect(),
            boxes: collection_tables.boxed.iter().map(|field| BoundingBox::from_value(&content.golden[*field])).collect(),
            words: collection_tables.worded.iter().map(|field| kept_words(&content.golden[*field])).collect(),
            state: content.state.iter().map(BoundValue).collect(),
            conflicts: (!content.conflicts.is_empty()).then(conflict_names),
            state_set: crate::sql::row::pack_state(&content.state_set, collection),
            raw: content.raw.as_deref(),
            content,
        }
    }

    /// Adds its parameters in the order of columns.
    fn push<'r>(&'r self, row: &mut Vec<SqlParameter<'r>>) {
        row.extend([&self.key as SqlParameter<'r>, &self.revision, &self.touch, &self.created_job, &self.content.exists]);
        row.extend(self.golden.iter().map(|value| value as SqlParameter<'r>));
        row.extend(self.folded.iter().map(|value| value as SqlParameter<'r>));
        row.extend(self.boxes.iter().map(|around| around as SqlParameter<'r>));
        row.extend(self.words.iter().map(|words| words as SqlParameter<'r>));
        row.extend(self.state.iter().map(|value| value as SqlParameter<'r>));
        row.extend([&self.conflicts as SqlParameter<'r>, &self.state_set, &self.content.contributions, &self.raw]);
    }
}

/// The client's type for a column type.
fn wire_type(ty: &str) -> Type {
    match ty.split(" COLLATE").next().unwrap_or(ty) {
        "bigint" => Type::INT8,
        "boolean" => Type::BOOL,
        "double precision" => Type::FLOAT8,
        "uuid" => Type::UUID,
        "bytea" => Type::BYTEA,
        "box" => Type::BOX,
        "bigint[]" => Type::INT8_ARRAY,
        "boolean[]" => Type::BOOL_ARRAY,
        "double precision[]" => Type::FLOAT8_ARRAY,
        "uuid[]" => Type::UUID_ARRAY,
        "text[]" => Type::TEXT_ARRAY,
        _ => Type::TEXT,
    }
}
