//! Maps a definition to tables: names, columns, creation, additive changes.
//!
//! ```text
//! meta(name, value)                       format, definition hash, shape, collections in their order, clock
//! tenants(id, name)
//! generations(id, hash)                   numbers of mappings
//! r_C(id, tenant, key, packed, revision, touch, created_job, alive, f_FIELD.., x_FIELD.., d_FIELD.., w_FIELD.., s_STATE.., conflict, state, contributions, raw)
//!   k_C(tenant, packed)                   keys in their order, see [`super::packed`]
//!   o_C_COLUMN(tenant, COLUMN)            ordered indexes
//!   h_C(tenant, revision, packed)         records by their last change, of a collection that is published
//!   l_C_FIELD(tenant, d_FIELD)            children of a link that is only read, by the target's key; without those that have none
//! i_C_FIELD(tenant, value, id)            one row per element of an indexed list
//! t_C_FIELD                               FTS5 trigrams of a `contains` index, by id
//! w_C_FIELD                               FTS5 words of a `words` index, by id, see [`super::words_index`]
//! g_C_FIELD(id, west, east, south, north)  R*Tree of the bounding boxes of an `intersects` index
//! u_C_FIELD(tenant, value, key)           reservations of a unique field
//! edges, marks, jobs, chunks, chunk_journals, troubles, failed_documents, corrections
//! tag_stamps, tags, tagged, trees         tags, which records carry them, the trees on which they are evaluated
//! former                                  former contributions, if a source says `undo:`, see [`super::former`]
//! changes                                 what has changed in records, if a collection says `changes:`, see [`super::change_feed`]
//! golden_C                                a view of golden records, see [`crate::sql::views`]
//! erased(digest, tenant, collection, at, reason, finished) records that were erased, see [`crate::erasure`]
//! record_counts(tenant, collection, records) numbers of records, see [`super::record_counts`]
//! record_log, calls, api_tokens, audit    change logs, responses to idempotent calls, tokens, who changed what
//! ```
//! The definition checks names of collections and fields (lower-case letters, digits, `_`), so they are safe in SQL.

use super::error::store_error;
use super::values::unbind;
use super::words_index::{words_column, words_index};
use crate::sql::store_schema::IndexChange;
use crate::sql::store_schema::{AccessMode, FieldSchema, StoreSchema, StoredDefinition, consolidated_again_name};
use crate::{Result, StoreError};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashMap;
use std::sync::OnceLock;
use stook_catalogue::definition::{Catalogue, Collection, FieldIndexes};
use stook_catalogue::ids::{CollectionId, FieldId, IdVec, SourceId};
use stook_catalogue::value::{FieldType, Value};

/// Version of the parts of the format that do not depend on the definition.
pub const FORMAT: &str = "13";

/// What the store records of a definition with this hash: to a process that knows another format, it looks like another definition.
pub fn format_and_hash(hash: &str) -> String {
    format!("{FORMAT} {hash}")
}

/// The tables that do not depend on the definition. What they hold is in backups, see [`crate::sql::backed_up`].
pub const FIXED: &str = "
CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tenants(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, given INTEGER NOT NULL DEFAULT 0);
CREATE TABLE generations(id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE);
CREATE TABLE edges(tenant INTEGER NOT NULL, link INTEGER NOT NULL, target TEXT NOT NULL, grp TEXT NOT NULL, start INTEGER NOT NULL,
  child TEXT NOT NULL, payload BLOB NOT NULL, PRIMARY KEY(tenant, link, target, grp, start, child)) WITHOUT ROWID;
CREATE TABLE marks(id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, stratum INTEGER NOT NULL, rule INTEGER NOT NULL,
  target TEXT NOT NULL, part TEXT NOT NULL, job INTEGER NOT NULL);
CREATE INDEX marks_stratum ON marks(tenant, stratum, rule, id);
CREATE TABLE jobs(id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, profile TEXT, source TEXT NOT NULL, as_of INTEGER,
  files TEXT NOT NULL, state TEXT NOT NULL, reason TEXT, created INTEGER NOT NULL, finished INTEGER, progress TEXT NOT NULL, due INTEGER NOT NULL);
CREATE INDEX jobs_tenant ON jobs(tenant, id);
CREATE INDEX jobs_live ON jobs(tenant, id) WHERE finished IS NULL;
CREATE TABLE chunks(id INTEGER PRIMARY KEY, job INTEGER NOT NULL, ordinal INTEGER NOT NULL, state TEXT NOT NULL, token INTEGER NOT NULL,
  until INTEGER NOT NULL, attempts INTEGER NOT NULL, reason TEXT, file INTEGER NOT NULL, position INTEGER NOT NULL, length INTEGER NOT NULL,
  file_documents INTEGER NOT NULL, documents_before INTEGER NOT NULL, documents INTEGER NOT NULL, is_last INTEGER NOT NULL, head BLOB NOT NULL, payload BLOB,
  UNIQUE(job, ordinal));
CREATE INDEX chunks_state ON chunks(state, job, ordinal);
CREATE TABLE chunk_journals(job INTEGER NOT NULL, ordinal INTEGER NOT NULL, first INTEGER NOT NULL, counts BLOB NOT NULL, file INTEGER NOT NULL,
  file_start INTEGER NOT NULL, lines BLOB NOT NULL, PRIMARY KEY(job, ordinal));
CREATE INDEX chunk_journals_first ON chunk_journals(job, first);
CREATE TABLE troubles(id INTEGER PRIMARY KEY, job INTEGER NOT NULL, document INTEGER NOT NULL, file INTEGER NOT NULL, record INTEGER NOT NULL,
  position INTEGER NOT NULL, key TEXT, failed INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE INDEX troubles_job ON troubles(job, document);
CREATE TABLE failed_documents(job INTEGER NOT NULL, document INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY(job, document));
CREATE TABLE corrections(job INTEGER NOT NULL, document INTEGER NOT NULL, collection TEXT NOT NULL, outcome INTEGER NOT NULL,
  PRIMARY KEY(job, document, collection)) WITHOUT ROWID;
CREATE TABLE erased(digest BLOB PRIMARY KEY, tenant TEXT NOT NULL, collection TEXT NOT NULL, at INTEGER NOT NULL, reason TEXT, finished INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE record_counts(tenant INTEGER NOT NULL, collection TEXT NOT NULL, records INTEGER NOT NULL, PRIMARY KEY(tenant, collection)) WITHOUT ROWID;
CREATE TABLE record_log(id INTEGER PRIMARY KEY AUTOINCREMENT, tenant INTEGER NOT NULL, collection TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL,
  transition TEXT, caller TEXT NOT NULL, change TEXT NOT NULL);
CREATE INDEX record_log_key ON record_log(tenant, collection, key, id);
CREATE TABLE calls(tenant INTEGER NOT NULL, id BLOB NOT NULL, request BLOB NOT NULL, answer BLOB NOT NULL, made INTEGER NOT NULL,
  PRIMARY KEY(tenant, id)) WITHOUT ROWID;
CREATE INDEX calls_made ON calls(made);
CREATE TABLE api_tokens(id INTEGER PRIMARY KEY AUTOINCREMENT, digest BLOB NOT NULL UNIQUE, tenant TEXT, role TEXT NOT NULL, name TEXT NOT NULL,
  created INTEGER NOT NULL, revoked INTEGER, expires INTEGER, used INTEGER, former_digest BLOB, former_until INTEGER);
CREATE TABLE audit(id INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, tenant TEXT, token INTEGER, caller TEXT NOT NULL, address TEXT,
  operation TEXT NOT NULL, collection TEXT, key TEXT, outcome TEXT NOT NULL);
CREATE INDEX audit_record ON audit(collection, key, id) WHERE key IS NOT NULL;
CREATE TABLE tag_stamps(tenant INTEGER PRIMARY KEY, stamp INTEGER NOT NULL);
CREATE TABLE tags(tenant INTEGER NOT NULL, collection INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, definition TEXT NOT NULL,
  comment TEXT NOT NULL, attributes TEXT NOT NULL, created INTEGER NOT NULL, changed INTEGER NOT NULL, generation INTEGER NOT NULL, job INTEGER NOT NULL,
  PRIMARY KEY(tenant, collection, name)) WITHOUT ROWID;
CREATE TABLE tagged(tenant INTEGER NOT NULL, collection INTEGER NOT NULL, value TEXT NOT NULL, key TEXT NOT NULL,
  PRIMARY KEY(tenant, collection, value, key)) WITHOUT ROWID;
CREATE INDEX tagged_key ON tagged(tenant, collection, key, value);
CREATE TABLE trees(id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, collection INTEGER NOT NULL, key TEXT NOT NULL, source TEXT NOT NULL, tree BLOB NOT NULL,
  UNIQUE(tenant, collection, key, source));
";

/// Tables and statements of one collection.
pub struct CollectionTables {
    /// The record table, quoted.
    pub table: String,
    /// `INSERT` of a new row that does nothing when the key exists.
    pub insert: String,
    /// `UPDATE` of a row that still has the version that was read; this and the following find it by its id.
    pub update: String,
    /// The same `UPDATE` without the indexed columns.
    pub update_unindexed: String,
    /// Whether each column of [`value_columns`] is indexed.
    pub indexed: Vec<bool>,
    /// `UPDATE` of the settled values of a row that still has the version that was read.
    pub update_settled: String,
    /// The settled fields.
    pub settled: Vec<FieldId>,
    /// `UPDATE` of the state of a row that still has the version that was read.
    pub update_state: String,
    /// Reads one record by (tenant, key), by [`ReadDetail`](crate::ReadDetail).
    pub read_one: [String; 4],
    /// Reads records by (array of keys, tenant), by [`ReadDetail`](crate::ReadDetail).
    pub read_many: [String; 4],
    /// Reads all of every record of all tenants, and last its tenant.
    pub read_all: String,
    /// Fields whose folded form has a column.
    pub folded: Vec<FieldId>,
    /// Fields whose digest has a column.
    pub digested: Vec<FieldId>,
    digested_names: Vec<String>,
    /// Indexed list fields and their side tables.
    pub lists: Vec<(FieldId, String)>,
    /// Fields with trigrams and their tables.
    pub trigrams: Vec<(FieldId, String)>,
    /// Fields with an index of words, and their tables.
    pub words: Vec<(FieldId, String)>,
    /// Fields with an index of bounding boxes, and their tables.
    pub boxes: Vec<(FieldId, String)>,
    /// Unique fields and their reservation tables.
    pub uniques: Vec<(FieldId, String)>,
}

/// The tables and a connection, for one tenant.
#[derive(Clone, Copy)]
pub struct TenantTables<'c> {
    pub connection: &'c Connection,
    pub tables: &'c StoreTables,
    pub tenant: i64,
}

/// The tables of a definition.
pub struct StoreTables {
    /// By collection.
    pub collections: IdVec<CollectionId, CollectionTables>,
    /// The names of collections.
    pub names: IdVec<CollectionId, String>,
    definition: std::sync::Arc<Catalogue>,
    /// What the store records of it, see [`format_and_hash`].
    format_and_hash: String,
    store_schema: StoreSchema,
    generations: OnceLock<HashMap<[u8; 16], u32>>,
    /// What the store must keep recording, if that is not the process's own definition.
    expected: OnceLock<String>,
    /// Whether any definition is accepted.
    accepts_any_definition: bool,
}

/// Columns of a row's head.
pub const HEAD: &str = "id, key, revision, touch, created_job, alive, state, contributions";

/// Finds a record by (tenant, key).
pub const BY_KEY: &str = "tenant = ? AND packed = packed(?)";

/// Finds a record that still has a version, by (id, tenant, key, revision, touch), without using the index on keys.
pub const AT_VERSION: &str = "id = ? AND tenant = ? AND key = ? AND revision = ? AND touch = ?";

/// The storage class of a column.
fn affinity(ty: &FieldType) -> &'static str {
    match ty {
        FieldType::Integer
        | FieldType::Size
        | FieldType::Timestamp
        | FieldType::Date
        | FieldType::PartialDate
        | FieldType::Duration
        | FieldType::Boolean => "INTEGER",
        FieldType::Float => "REAL",
        FieldType::Uuid | FieldType::Geometry => "BLOB",
        FieldType::Text | FieldType::Json | FieldType::Ranges | FieldType::Struct(_) | FieldType::List(_) => "TEXT",
    }
}

impl StoreTables {
    pub fn new(catalogue: &std::sync::Arc<Catalogue>) -> Self {
        let collections = catalogue.collections.iter().map(CollectionTables::new).collect();
        let names = catalogue.collections.iter().map(|collection| collection.name.clone()).collect();
        let (generations, expected) = (OnceLock::new(), OnceLock::new());
        Self {
            collections,
            names,
            definition: catalogue.clone(),
            format_and_hash: format_and_hash(&catalogue.hash),
            store_schema: StoreSchema::from_catalogue(catalogue),
            generations,
            expected,
            accepts_any_definition: false,
        }
    }

    /// For jobs, chunks and tokens, which need no definition.
    pub fn for_any_definition() -> Self {
        Self { accepts_any_definition: true, ..Self::new(&std::sync::Arc::new(Catalogue::empty())) }
    }

    /// Whether these are the tables of [`StoreTables::for_any_definition`].
    pub fn accepts_any_definition(&self) -> bool {
        self.accepts_any_definition
    }

    /// Whether the store still records the definition it had when this process opened it.
    fn is_expected_definition(&self, stored: Option<&str>) -> bool {
        let expected = self.expected.get().unwrap_or(&self.format_and_hash);
        self.accepts_any_definition || stored == Some(expected.as_str())
    }

    /// The definition of the tables.
    pub fn catalogue(&self) -> &Catalogue {
        &self.definition
    }

    pub fn set_generations(&self, generations: HashMap<[u8; 16], u32>) {
        let _ = self.generations.set(generations);
    }

    pub fn generation(&self, source: SourceId, feed: usize) -> u32 {
        let hash = self.definition.sources.get(source).and_then(|source| source.feeds.get(feed)).map(|feed| feed.generation);
        let number = hash.and_then(|hash| self.generations.get()?.get(&hash).copied());
        number.unwrap_or(0)
    }
}

impl CollectionTables {
    fn new(collection: &Collection) -> Self {
        let name = &collection.name;
        let table = format!("\"r_{name}\"");
        let folded: Vec<FieldId> = fields_where(collection, |field| field.fold && !field.ty.is_list());
        let columns = value_columns(collection);
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        let insert_columns =
            format!("tenant, key, packed, revision, touch, created_job, alive, {}, conflict, state, contributions, raw", names.join(", "));
        let placeholders = vec!["?"; 7 + names.len() + 4].join(", ");
        let settled = fields_where(collection, stook_catalogue::definition::Field::is_settled);
        let digested: Vec<FieldId> = fields_where(collection, |field| field.index.by_link);
        let settled_folded = settled.iter().filter(|id| folded.contains(id));
        let settled_digested = settled.iter().filter(|id| digested.contains(id));
        let settled_words = settled.iter().filter(|id| collection.fields[**id].index.words);
        let settled_columns: String = settled
            .iter()
            .map(|id| format!(", \"f_{}\" = ?", collection.fields[*id].name))
            .chain(settled_folded.map(|id| format!(", \"x_{}\" = ?", collection.fields[*id].name)))
            .chain(settled_digested.map(|id| format!(", \"d_{}\" = ?", collection.fields[*id].name)))
            .chain(settled_words.map(|id| format!(", {} = ?", words_column(&collection.fields[*id].name))))
            .collect();
        let assignments = names.iter().map(|name| format!("{name} = ?")).collect::<Vec<_>>().join(", ");
        let indexed = indexed_columns(collection);
        let unindexed_assignments: String =
            names.iter().zip(&indexed).filter(|(_, indexed)| !**indexed).map(|(name, _)| format!("{name} = ?, ")).collect();
        let stored = collection.stored_fields().map(|(_, field)| format!("\"f_{}\"", field.name));
        let states = collection.states.iter().map(|state| format!("\"s_{}\"", state.name));
        let values = stored.chain(states).chain(["conflict".to_owned()]).collect::<Vec<_>>().join(", ");
        let details = [
            HEAD.to_owned(),
            format!("{}, {values}", HEAD.trim_end_matches(", contributions")),
            format!("{HEAD}, {values}, raw"),
            format!("{HEAD}, {values}"),
        ];
        let set_states: String = collection.states.iter().map(|state| format!("\"s_{}\" = ?, ", state.name)).collect();
        Self {
            insert: format!("INSERT INTO {table}({insert_columns}) VALUES ({placeholders}) ON CONFLICT(tenant, packed) DO NOTHING"),
            update: format!(
                "UPDATE {table} SET revision = ?, touch = 0, created_job = ?, alive = ?, {assignments}, conflict = ?, state = ?, contributions = ?, raw = ? \
                 WHERE {AT_VERSION}"
            ),
            update_unindexed: format!(
                "UPDATE {table} SET revision = ?, touch = 0, created_job = ?, alive = ?, {unindexed_assignments}conflict = ?, state = ?, contributions = ?, raw = ? \
                 WHERE {AT_VERSION}"
            ),
            indexed,
            update_settled: format!("UPDATE {table} SET touch = touch + 1{settled_columns} WHERE {AT_VERSION}"),
            settled,
            update_state: format!("UPDATE {table} SET revision = ?, touch = 0, {set_states}state = ? WHERE {AT_VERSION}"),
            read_one: details.each_ref().map(|columns| format!("SELECT {columns} FROM {table} WHERE {BY_KEY}")),
            read_many: details.each_ref().map(|columns| {
                format!("SELECT {columns}, wanted.value FROM rarray(?1) AS wanted CROSS JOIN {table} AS r ON r.tenant = ?2 AND r.packed = packed(wanted.value)")
            }),
            read_all: format!("SELECT {}, tenant FROM {table}", details[2]),
            table,
            folded,
            digested_names: digested.iter().map(|id| collection.fields[*id].name.clone()).collect(),
            digested,
            lists: side_tables(collection, "i", |field| field.index.ordered && field.ty.is_list()),
            trigrams: side_tables(collection, "t", |field| field.index.contains),
            words: side_tables(collection, "w", |field| field.index.words),
            boxes: side_tables(collection, "g", |field| field.index.intersects),
            uniques: side_tables(collection, "u", |field| field.unique),
        }
    }
}

/// Maximum number of rows with wrong columns that are reported per table.
const MAX_REPORTED_ROWS: usize = 20;

impl CollectionTables {
    /// The tables that follow a record's values, with their fields.
    pub fn side_tables(&self) -> impl Iterator<Item = &(FieldId, String)> {
        self.lists.iter().chain(&self.trigrams).chain(&self.words).chain(&self.boxes)
    }

    /// Describes rows whose columns for indexes do not fit their values.
    pub fn wrong_columns(&self, connection: &Connection) -> Result<Vec<String>> {
        let digests = self.digested_names.iter().map(|name| format!(" OR \"d_{name}\" IS NOT digest(\"f_{name}\")"));
        let condition = format!("packed IS NOT packed(key){}", digests.collect::<String>());
        let sql = format!("SELECT key FROM {} WHERE {condition} LIMIT {MAX_REPORTED_ROWS}", self.table);
        let mut statement = connection.prepare(&sql).map_err(store_error)?;
        let key_text = |row: &rusqlite::Row<'_>| Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes().unwrap_or_default()).into_owned());
        let keys = statement.query_map([], key_text).map_err(store_error)?.collect::<rusqlite::Result<Vec<String>>>().map_err(store_error)?;
        Ok(keys.iter().map(|key| format!("row {key:?} of {} has a column that does not fit its key or its links", self.table)).collect())
    }
}

fn fields_where(collection: &Collection, wanted: impl Fn(&stook_catalogue::definition::Field) -> bool) -> Vec<FieldId> {
    collection.fields.enumerate().filter(|(_, field)| wanted(field)).map(|(id, _)| id).collect()
}

fn side_tables(collection: &Collection, prefix: &str, wanted: impl Fn(&stook_catalogue::definition::Field) -> bool) -> Vec<(FieldId, String)> {
    let name = |id: FieldId| format!("\"{prefix}_{}_{}\"", collection.name, collection.fields[id].name);
    fields_where(collection, wanted).into_iter().map(|id| (id, name(id))).collect()
}

/// Value columns in the order in which rows are written: fields, folded fields, digests of fields, words of fields, states; with their storage class.
pub fn value_columns(collection: &Collection) -> Vec<(String, &'static str)> {
    let fields = collection.stored_fields().map(|(_, field)| (format!("\"f_{}\"", field.name), affinity(field.golden_type())));
    let folded = collection.fields.iter().filter(|field| field.fold && !field.ty.is_list()).map(|field| (format!("\"x_{}\"", field.name), "TEXT"));
    let states = collection.states.iter().map(|state| (format!("\"s_{}\"", state.name), affinity(&state.ty)));
    let digested = collection.fields.iter().filter(|field| field.index.by_link).map(|field| (format!("\"d_{}\"", field.name), "INTEGER"));
    let words = collection.fields.iter().filter(|field| field.index.words).map(|field| (words_column(&field.name), "TEXT"));
    fields.chain(folded).chain(digested).chain(words).chain(states).collect()
}

/// Whether each column of [`value_columns`] has an index.
fn indexed_columns(collection: &Collection) -> Vec<bool> {
    let is_ordered = |field: &stook_catalogue::definition::Field| field.index.ordered && !field.ty.is_list();
    let fields = collection.stored_fields().map(|(_, field)| is_ordered(field) && !field.fold);
    let folded = collection.fields.iter().filter(|field| field.fold && !field.ty.is_list()).map(is_ordered);
    let states = collection.states.iter().map(|state| state.index.ordered && !state.ty.is_list());
    let digested = collection.fields.iter().filter(|field| field.index.by_link).map(|_| true);
    let words = collection.fields.iter().filter(|field| field.index.words).map(|_| true);
    fields.chain(folded).chain(digested).chain(words).chain(states).collect()
}

/// The name of the ordered index of a column.
pub fn ordered_index(collection: &str, column: &str) -> String {
    format!("\"o_{collection}_{column}\"")
}

/// The name of the index of records with conflicts.
/// The name of the index of a collection's records by the time of their last change.
pub fn change_index(collection: &str) -> String {
    format!("\"h_{collection}\"")
}

pub fn conflict_index(collection: &str) -> String {
    format!("\"c_{collection}\"")
}

/// Creates what is missing and applies additions; returns what was done, in words, and whether there was another definition before.
pub fn prepare(connection: &mut Connection, tables: &StoreTables) -> Result<(Vec<String>, bool)> {
    if is_prepared(connection, tables) {
        return Ok((Vec::new(), false));
    }
    let upgraded = super::upgrade::upgrade(connection)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).map_err(store_error)?;
    let exists: bool =
        transaction.query_row("SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')", [], |row| row.get(0)).map_err(store_error)?;
    if !exists {
        transaction.execute_batch(FIXED).map_err(store_error)?;
        put_meta(&transaction, "format", FORMAT)?;
        put_meta(&transaction, "shape", "{\"collections\":{}}")?;
        transaction.execute("INSERT INTO tenants(name) VALUES (?)", [crate::DEFAULT_TENANT]).map_err(store_error)?;
    }
    check_format(&transaction)?;
    let definition = &tables.definition;
    super::views::drop_former(&transaction, definition)?;
    let (mut changes, mut redefined) = (Vec::new(), false);
    if meta(&transaction, "definition")?.as_deref() != Some(tables.format_and_hash.as_str()) {
        let old_schema = crate::sql::store_schema::parse_schema(meta(&transaction, "shape")?.as_deref())?;
        old_schema.check(&tables.store_schema)?;
        migrate(&transaction, tables, &old_schema)?;
        for (collection, fields) in old_schema.consolidated_again(&tables.store_schema) {
            put_meta(&transaction, &consolidated_again_name(&collection), &fields.join(", "))?;
        }
        let schema_json = serde_json::to_string(&tables.store_schema).map_err(|error| StoreError::Other(error.to_string()))?;
        put_meta(&transaction, "shape", &schema_json)?;
        redefined = meta(&transaction, "definition")?.is_some();
        put_meta(&transaction, "definition", &tables.format_and_hash)?;
        super::former::prepare(&transaction, definition)?;
        super::change_feed::prepare(&transaction, definition, &old_schema, &tables.store_schema)?;
        if redefined {
            changes = old_schema.changes(&tables.store_schema);
        }
    }
    put_meta(&transaction, "collections", &crate::sql::store_schema::collection_names_json(definition))?;
    for collection in definition.collections.iter().filter(|collection| collection.compares()) {
        let (index, name) = (conflict_index(&collection.name), &collection.name);
        let create = format!("CREATE INDEX IF NOT EXISTS {index} ON \"r_{name}\"(tenant, packed) WHERE conflict IS NOT NULL");
        transaction.execute_batch(&create).map_err(store_error)?;
    }
    for collection in &definition.collections {
        let (index, name) = (change_index(&collection.name), &collection.name);
        let change = match collection.publish {
            Some(_) => format!("CREATE INDEX IF NOT EXISTS {index} ON \"r_{name}\"(tenant, revision, packed)"),
            None => format!("DROP INDEX IF EXISTS {index}"),
        };
        transaction.execute_batch(&change).map_err(store_error)?;
    }
    for feed in definition.sources.iter().flat_map(|source| &source.feeds) {
        transaction.execute("INSERT OR IGNORE INTO generations(hash) VALUES (?)", params![feed.generation.as_slice()]).map_err(store_error)?;
    }
    super::views::create(&transaction, definition)?;
    transaction.commit().map_err(store_error)?;
    Ok((upgraded.into_iter().chain(changes).collect(), redefined))
}

/// Fails for a store of another format.
pub fn check_format(connection: &Connection) -> Result<()> {
    let format = meta(connection, "format")?;
    if format.as_deref() == Some(FORMAT) {
        Ok(())
    } else {
        Err(crate::sql::store_schema::other_format(format.as_deref(), FORMAT, super::upgrade::UPGRADABLE_FORMATS))
    }
}

/// Returns the names of a table's columns.
pub fn columns_of(connection: &Connection, table: &str) -> Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT name FROM pragma_table_info(?)").map_err(store_error)?;
    let names = statement.query_map([table.trim_matches('"')], |row| row.get(0)).map_err(store_error)?;
    names.collect::<rusqlite::Result<_>>().map_err(store_error)
}

/// Whether there is nothing to do, checked without waiting for a writer.
fn is_prepared(connection: &Connection, tables: &StoreTables) -> bool {
    let is_current = check_definition(connection, tables).is_ok() && meta(connection, "format").is_ok_and(|format| format.as_deref() == Some(FORMAT));
    let is_current = is_current && meta(connection, "collections").is_ok_and(|names| names.is_some());
    let is_current = is_current && super::views::are_current(connection, &tables.definition).is_ok_and(|current| current);
    let has_index = |name: &str| {
        let found = connection.query_row("SELECT 1 FROM sqlite_schema WHERE name = ?", [conflict_index(name).trim_matches('"')], |_| Ok(()));
        found.is_ok()
    };
    let is_current =
        is_current && tables.definition.collections.iter().filter(|collection| collection.compares()).all(|collection| has_index(&collection.name));
    is_current && read_generations(connection, &tables.definition).is_ok_and(|numbers| numbers.values().all(|number| *number > 0))
}

/// Checks whether a process may use the store without preparing it.
pub fn check_fits(connection: &Connection, tables: &StoreTables, purpose: AccessMode) -> Result<()> {
    let has_tables = connection.query_row("SELECT EXISTS(SELECT 1 FROM sqlite_schema WHERE name = 'meta')", [], |row| row.get(0));
    if !has_tables.map_err(store_error)? {
        return Err(StoreError::Wrong("there is no store in this file yet; create it with `stook prepare` or an import".into()));
    }
    check_format(connection)?;
    let read = |name| meta(connection, name);
    let stored =
        StoredDefinition { definition: read("definition")?, shape: read("shape")?, collections: read("collections")?, settled: read("settled")? };
    stored.check_usable(&tables.definition, &tables.format_and_hash, &tables.store_schema, purpose)?;
    if let Some(definition) = stored.definition {
        let _ = tables.expected.set(definition);
    }
    Ok(())
}

/// Returns the names of collections by their numbers: those of the process's definition, or those recorded in the store if any definition is
/// accepted.
pub fn collections(connection: &Connection, tables: &StoreTables) -> Result<Vec<String>> {
    if !tables.accepts_any_definition {
        return Ok(tables.names.iter().cloned().collect());
    }
    crate::sql::store_schema::parse_collection_names(meta(connection, "collections")?.as_deref())
}

/// Creates and drops tables, columns and indexes so that the store fits the definition.
fn migrate(connection: &Connection, tables: &StoreTables, old_schema: &StoreSchema) -> Result<()> {
    for (collection, collection_tables) in tables.definition.collections.iter().zip(&tables.collections) {
        let name = &collection.name;
        let old_collection = old_schema.collections.get(name);
        if old_collection.is_none() {
            let columns: String = value_columns(collection).iter().map(|(column, class)| format!("{column} {class}, ")).collect();
            let create = format!(
                "CREATE TABLE {}(id INTEGER PRIMARY KEY, tenant INTEGER NOT NULL, key TEXT NOT NULL, packed BLOB NOT NULL, revision INTEGER NOT NULL, touch INTEGER NOT NULL, \
                 created_job INTEGER NOT NULL, alive INTEGER NOT NULL, {columns} conflict TEXT, state TEXT, contributions BLOB NOT NULL, raw BLOB);
                 CREATE UNIQUE INDEX \"k_{name}\" ON {}(tenant, packed);",
                collection_tables.table, collection_tables.table
            );
            connection.execute_batch(&create).map_err(store_error)?;
        }
        let find_old_field = |field: &str| old_collection.and_then(|collection| collection.fields.get(field));
        for field in &collection.fields {
            let old_field = find_old_field(&field.name);
            if old_collection.is_some() && old_field.is_none() {
                if !field.is_member() {
                    add_column(connection, &collection_tables.table, &format!("\"f_{}\"", field.name), affinity(field.golden_type()))?;
                }
                if field.fold && !field.ty.is_list() {
                    add_column(connection, &collection_tables.table, &format!("\"x_{}\"", field.name), "TEXT")?;
                }
            }
            let new_field = tables.store_schema.collections.get(name).and_then(|collection| collection.fields.get(&field.name));
            let converted = old_field.zip(new_field).filter(|(old_field, new_field)| old_field.is_reshaped(new_field));
            let mut old_indexes = old_field.map(FieldSchema::index).unwrap_or_default();
            if let Some((old_field, new_field)) = converted {
                convert_link(connection, (&collection_tables.table, name, &field.name), old_field, new_field.is_list())?;
                old_indexes = FieldIndexes::default();
            }
            let column = if field.fold && !field.ty.is_list() { format!("x_{}", field.name) } else { format!("f_{}", field.name) };
            if field.ty.is_list() {
                list_index(connection, collection, field, old_indexes.ordered)?;
            } else {
                plain_index(connection, &collection_tables.table, name, &column, IndexChange::choose(field.index.ordered, old_indexes.ordered))?;
                linked_index(connection, &collection_tables.table, name, &field.name, IndexChange::choose(field.index.by_link, old_indexes.by_link))?;
                trigram_index(connection, collection, &field.name, &column, IndexChange::choose(field.index.contains, old_indexes.contains))?;
                box_index(connection, collection, field, old_indexes.intersects)?;
            }
            words_index(connection, collection, &field.name, IndexChange::choose(field.index.words, old_indexes.words))?;
            if field.unique && old_field.is_none_or(|field| !field.unique) {
                let reservations = format!(
                    "CREATE TABLE \"u_{name}_{0}\"(tenant INTEGER NOT NULL, value NOT NULL, key TEXT NOT NULL, PRIMARY KEY(tenant, value)) WITHOUT ROWID;
                     CREATE UNIQUE INDEX \"uk_{name}_{0}\" ON \"u_{name}_{0}\"(tenant, key);",
                    field.name
                );
                connection.execute_batch(&reservations).map_err(store_error)?;
            }
            if !field.unique && old_field.is_some_and(|field| field.unique) {
                connection.execute_batch(&format!("DROP TABLE \"u_{name}_{}\"", field.name)).map_err(store_error)?;
            }
        }
        for state in &collection.states {
            let old_state = old_collection.and_then(|collection| collection.states.get(&state.name));
            if old_collection.is_some() && old_state.is_none() {
                add_column(connection, &collection_tables.table, &format!("\"s_{}\"", state.name), affinity(&state.ty))?;
            }
            // indexes on lists and trigrams need side tables, which state fields do not have
            let old_index = FieldIndexes { ordered: old_state.is_some_and(|state| state.ordered) && !state.ty.is_list(), ..FieldIndexes::default() };
            let new_index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            plain_index(
                connection,
                &collection_tables.table,
                name,
                &format!("s_{}", state.name),
                IndexChange::choose(new_index.ordered, old_index.ordered),
            )?;
        }
    }
    Ok(())
}

/// Turns a link's keys into lists, or each list into one key, until they are settled again. Drops their indexes.
fn convert_link(connection: &Connection, (table, collection, field): (&str, &str, &str), old_field: &FieldSchema, to_list: bool) -> Result<()> {
    let column = format!("f_{field}");
    if old_field.is_list() && old_field.ordered {
        connection.execute_batch(&format!("DROP TABLE \"i_{collection}_{field}\"")).map_err(store_error)?;
    } else if !old_field.is_list() {
        plain_index(connection, table, collection, &column, IndexChange::choose(false, old_field.ordered))?;
        linked_index(connection, table, collection, field, IndexChange::choose(false, old_field.linked))?;
        if old_field.contains {
            connection.execute_batch(&format!("DROP TABLE \"t_{collection}_{field}\"")).map_err(store_error)?;
        }
    }
    let value = if to_list { format!("json_array(\"{column}\")") } else { format!("\"{column}\" ->> 0") };
    connection.execute_batch(&format!("UPDATE {table} SET \"{column}\" = {value} WHERE \"{column}\" IS NOT NULL")).map_err(store_error)
}

pub fn add_column(connection: &Connection, table: &str, column: &str, class: &str) -> Result<()> {
    connection.execute_batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {class}")).map_err(store_error)
}

/// Creates or drops the index of a link's children, which only finds equal texts, see [`super::packed`].
fn linked_index(connection: &Connection, table: &str, collection: &str, field: &str, change: IndexChange) -> Result<()> {
    let index = format!("\"l_{collection}_{field}\"");
    let sql = match change {
        IndexChange::Create => {
            let column = format!("d_{field}");
            if !columns_of(connection, table)?.contains(&column) {
                add_column(connection, table, &format!("\"{column}\""), "INTEGER")?;
            }
            format!("UPDATE {table} SET \"{column}\" = digest(\"f_{field}\"); {}", create_linked_index(table, collection, field))
        }
        // the column stays: it is not written any more, and is filled again if it is needed
        IndexChange::Drop => format!("DROP INDEX {index}"),
        IndexChange::Nothing => return Ok(()),
    };
    connection.execute_batch(&sql).map_err(store_error)
}

/// `CREATE INDEX` of a link's children. Stores of earlier versions also have those without a target in it, which no statement searches for.
pub fn create_linked_index(table: &str, collection: &str, field: &str) -> String {
    format!("CREATE INDEX \"l_{collection}_{field}\" ON {table}(tenant, \"d_{field}\") WHERE \"d_{field}\" IS NOT NULL")
}

fn plain_index(connection: &Connection, table: &str, collection: &str, column: &str, change: IndexChange) -> Result<()> {
    let index = ordered_index(collection, column);
    let sql = match change {
        IndexChange::Create => format!("CREATE INDEX {index} ON {table}(tenant, \"{column}\")"),
        IndexChange::Drop => format!("DROP INDEX {index}"),
        IndexChange::Nothing => return Ok(()),
    };
    connection.execute_batch(&sql).map_err(store_error)
}

fn list_index(connection: &Connection, collection: &Collection, field: &stook_catalogue::definition::Field, had_index: bool) -> Result<()> {
    let side = format!("\"i_{}_{}\"", collection.name, field.name);
    let sql = match IndexChange::choose(field.index.ordered, had_index) {
        IndexChange::Create => {
            // folded lists are folded in the side table; an index that is added later starts from what is stored
            let id = collection.field(&field.name).map(|(id, _)| id);
            let (list, value) = match id.and_then(|id| collection.member(id)) {
                Some((list, member)) => (collection.fields[list].name.as_str(), format!("(e.value ->> '{}')", member.name)),
                None => (field.name.as_str(), "e.value".to_owned()),
            };
            let create = format!(
                "CREATE TABLE {side}(tenant INTEGER NOT NULL, value NOT NULL, id INTEGER NOT NULL, PRIMARY KEY(tenant, value, id)) WITHOUT ROWID;
                 CREATE INDEX \"ii_{0}_{1}\" ON {side}(id);
                 INSERT OR IGNORE INTO {side} SELECT r.tenant, {value}, r.id FROM \"r_{0}\" r, json_each(r.\"f_{list}\") e WHERE {value} IS NOT NULL;",
                collection.name, field.name
            );
            if field.fold {
                // values are folded only by the process that writes them
                let has_values_sql = format!("SELECT EXISTS(SELECT 1 FROM \"r_{}\" WHERE \"f_{}\" IS NOT NULL)", collection.name, field.name);
                if connection.query_row(&has_values_sql, [], |row| row.get(0)).map_err(store_error)? {
                    return Err(StoreError::Definition(format!(
                        "an index on the folded list `{}.{}` cannot be added to a store whose records have it; import into a new store",
                        collection.name, field.name
                    )));
                }
            }
            create
        }
        IndexChange::Drop => format!("DROP TABLE {side}"),
        IndexChange::Nothing => return Ok(()),
    };
    connection.execute_batch(&sql).map_err(store_error)
}

fn trigram_index(connection: &Connection, collection: &Collection, field: &str, column: &str, change: IndexChange) -> Result<()> {
    let side = format!("\"t_{}_{field}\"", collection.name);
    let sql = match change {
        IndexChange::Create => format!(
            "CREATE VIRTUAL TABLE {side} USING fts5(value, content='', contentless_delete=1, tokenize='trigram case_sensitive 1', detail=none);
             INSERT INTO {side}(rowid, value) SELECT id, \"{column}\" FROM \"r_{}\" WHERE \"{column}\" IS NOT NULL;",
            collection.name
        ),
        IndexChange::Drop => format!("DROP TABLE {side}"),
        IndexChange::Nothing => return Ok(()),
    };
    connection.execute_batch(&sql).map_err(store_error)
}

/// Creates or drops an index of bounding boxes; one that is added later starts from what is stored.
fn box_index(connection: &Connection, collection: &Collection, field: &stook_catalogue::definition::Field, had_index: bool) -> Result<()> {
    let side = format!("\"g_{}_{}\"", collection.name, field.name);
    match IndexChange::choose(field.index.intersects, had_index) {
        IndexChange::Create => {
            connection.execute_batch(&format!("CREATE VIRTUAL TABLE {side} USING rtree(id, west, east, south, north)")).map_err(store_error)?;
            let sql = format!("SELECT id, \"f_{0}\" FROM \"r_{1}\" WHERE \"f_{0}\" IS NOT NULL", field.name, collection.name);
            let mut statement = connection.prepare(&sql).map_err(store_error)?;
            let mut rows = statement.query([]).map_err(store_error)?;
            while let Some(row) = rows.next().map_err(store_error)? {
                // damaged values are reported when they are read
                if let Ok(value) = unbind(row.get_ref(1).map_err(store_error)?, &FieldType::Geometry) {
                    put_box(connection, &side, row.get(0).map_err(store_error)?, &value)?;
                }
            }
            Ok(())
        }
        IndexChange::Drop => connection.execute_batch(&format!("DROP TABLE {side}")).map_err(store_error),
        IndexChange::Nothing => Ok(()),
    }
}

/// Adds the bounding box of a geometry to an index.
pub fn put_box(connection: &Connection, side: &str, id: i64, value: &Value) -> Result<()> {
    let Value::Geometry(geometry) = value else { return Ok(()) };
    let bounding_box = geometry.reach();
    let sql = format!("INSERT INTO {side}(id, west, east, south, north) VALUES (?, ?, ?, ?, ?)");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    statement.execute(params![id, bounding_box.west, bounding_box.east, bounding_box.south, bounding_box.north]).map(|_| ()).map_err(store_error)
}

pub fn meta(connection: &Connection, name: &str) -> Result<Option<String>> {
    connection.query_row("SELECT value FROM meta WHERE name = ?", [name], |row| row.get(0)).optional().map_err(store_error)
}

pub fn put_meta(connection: &Connection, name: &str, value: &str) -> Result<()> {
    connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES (?, ?)", [name, value]).map(|_| ()).map_err(store_error)
}

/// Checks that the store still has the definition with which this process works.
pub fn check_definition(connection: &Connection, tables: &StoreTables) -> Result<()> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = 'definition'").map_err(store_error)?;
    let stored: Option<String> = statement.query_row([], |row| row.get(0)).optional().map_err(store_error)?;
    if tables.is_expected_definition(stored.as_deref()) { Ok(()) } else { Err(StoreError::DefinitionChanged) }
}

pub fn read_clock(connection: &Connection) -> Result<i64> {
    let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = 'clock'").map_err(store_error)?;
    Ok(statement.query_row([], |row| row.get(0)).optional().map_err(store_error)?.unwrap_or(0))
}

pub fn write_clock(connection: &Connection, clock: i64) -> Result<()> {
    let mut statement = connection.prepare_cached("INSERT OR REPLACE INTO meta(name, value) VALUES ('clock', ?)").map_err(store_error)?;
    statement.execute([clock]).map(|_| ()).map_err(store_error)
}

pub fn read_generations(connection: &Connection, catalogue: &Catalogue) -> Result<HashMap<[u8; 16], u32>> {
    let mut statement = connection.prepare("SELECT id FROM generations WHERE hash = ?").map_err(store_error)?;
    let mut numbers = HashMap::new();
    for feed in catalogue.sources.iter().flat_map(|source| &source.feeds) {
        let id: Option<u32> = statement.query_row(params![feed.generation.as_slice()], |row| row.get(0)).optional().map_err(store_error)?;
        numbers.insert(feed.generation, id.unwrap_or(0));
    }
    Ok(numbers)
}
