//! Maps a definition to tables in a PostgreSQL schema: names, columns, creation, additive changes.
//!
//! ```text
//! meta(name, value)                       format, definition hash, shape, collections in their order
//! clock, tokens                           sequences: the last commit time, lease tokens
//! tenants, generations                    as in SQLite
//! r_C(tenant, key, revision, touch, created_job, alive, f_FIELD.., x_FIELD.., b_FIELD.., w_FIELD.., s_STATE.., conflict, state, contributions, raw)
//!   g_C_FIELD                             GiST index of b_FIELD, the bounding boxes of an `intersects` index
//!   w_C_FIELD                             GIN index of the words in w_FIELD, see [`super::words_index`]
//! i_C_FIELD(tenant, key, value)           one row per element of an indexed list
//! u_C_FIELD(tenant, digest, key)          reservations of a unique field, by the hash of the value
//! edges, marks, jobs, chunks, chunk_journals, troubles, failed_documents, corrections, record_log, calls, api_tokens, audit
//! golden_C                                a view of golden records, see [`crate::sql::views`]
//! former                                  former contributions, if a source says `undo:`, see [`super::former`]
//! changes                                 what has changed in records, if a collection says `changes:`, see [`super::change_feed`]
//! tag_stamps, tags, tagged, trees         tags, which records carry them, the trees on which they are evaluated
//! ```
//! Text is compared byte by byte (`COLLATE "C"`). An index on text contains the first [`INDEXED_CHARACTERS`] characters, because a B-tree does not
//! accept long ones; a condition on a longer text is combined with the condition that follows for these characters. A `contains` index is a GIN index
//! over trigrams computed by a function of the schema, so that no extension is needed.

use super::computed_column::ComputedColumn;
use super::session::{DbResult, Session};
use super::values::{BoundingBox, RowExt, column_type};
use super::words_index::{words_column, words_index};
use crate::StoreError;
use crate::sql::store_schema::IndexChange;
use crate::sql::store_schema::{AccessMode, FieldSchema, StoreSchema, StoredDefinition, consolidated_again_name};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use stook_catalogue::definition::{Catalogue, Collection, Field, FieldIndexes, Survivorship};
use stook_catalogue::ids::{CollectionId, FieldId, IdVec, SourceId};
use stook_catalogue::links::Derivation;
use stook_catalogue::value::FieldType;

/// Version of the parts of the format that do not depend on the definition.
pub const FORMAT: &str = "12";

/// What the store records of a definition with this hash: to a process that knows another format, it looks like another definition.
pub fn format_and_hash(hash: &str) -> String {
    format!("{FORMAT} {hash}")
}

/// Number of characters of a text that an index contains.
pub const INDEXED_CHARACTERS: usize = 600;

const FIXED: &str = r#"
CREATE TABLE meta(name text PRIMARY KEY, value text);
CREATE SEQUENCE clock;
CREATE SEQUENCE tokens;
CREATE TABLE tenants(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE, given bigint NOT NULL DEFAULT 0);
CREATE TABLE generations(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, hash bytea NOT NULL UNIQUE);
CREATE TABLE edges(tenant bigint NOT NULL, link bigint NOT NULL, target text COLLATE "C" NOT NULL, grp text COLLATE "C" NOT NULL, start bigint NOT NULL,
  child text COLLATE "C" NOT NULL, payload bytea NOT NULL, PRIMARY KEY(tenant, link, target, grp, start, child));
CREATE TABLE marks(id bigint GENERATED ALWAYS AS IDENTITY, tenant bigint NOT NULL, lane bigint NOT NULL, stratum bigint NOT NULL,
  rule bigint NOT NULL, target text COLLATE "C" NOT NULL, part text COLLATE "C" NOT NULL, job bigint NOT NULL, PRIMARY KEY(id, target));
CREATE INDEX marks_lane ON marks(tenant, lane, stratum, rule, id);
CREATE TABLE jobs(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, profile text, source text NOT NULL, as_of bigint,
  files text NOT NULL, state text NOT NULL, reason text, created bigint NOT NULL, finished bigint, progress text NOT NULL, due bigint NOT NULL);
CREATE INDEX jobs_tenant ON jobs(tenant, id);
CREATE INDEX jobs_live ON jobs(tenant, id) WHERE finished IS NULL;
CREATE TABLE chunks(job bigint NOT NULL, ordinal bigint NOT NULL, state text NOT NULL, token bigint NOT NULL,
  until bigint NOT NULL, attempts bigint NOT NULL, reason text, file bigint NOT NULL, position bigint NOT NULL, length bigint NOT NULL,
  file_documents bigint NOT NULL, documents_before bigint NOT NULL, documents bigint NOT NULL, is_last boolean NOT NULL, head bytea NOT NULL, payload bytea,
  PRIMARY KEY(job, ordinal));
CREATE INDEX chunks_waiting ON chunks(job, ordinal) WHERE state = 'waiting';
CREATE INDEX chunks_leased ON chunks(job, ordinal) WHERE state = 'leased';
CREATE TABLE chunk_journals(job bigint NOT NULL, ordinal bigint NOT NULL, first bigint NOT NULL, counts bytea NOT NULL, file bigint NOT NULL,
  file_start bigint NOT NULL, lines bytea NOT NULL, PRIMARY KEY(job, ordinal));
CREATE INDEX chunk_journals_first ON chunk_journals(job, first);
CREATE TABLE troubles(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, job bigint NOT NULL, document bigint NOT NULL, file bigint NOT NULL,
  record bigint NOT NULL, position bigint NOT NULL, key text, failed boolean NOT NULL, reason text NOT NULL);
CREATE INDEX troubles_job ON troubles(job, document);
CREATE TABLE failed_documents(job bigint NOT NULL, document bigint NOT NULL, bytes bytea NOT NULL, PRIMARY KEY(job, document));
CREATE TABLE corrections(job bigint NOT NULL, document bigint NOT NULL, collection text NOT NULL, outcome bigint NOT NULL,
  PRIMARY KEY(job, document, collection));
CREATE TABLE erased(digest bytea PRIMARY KEY, tenant text NOT NULL, collection text NOT NULL, at bigint NOT NULL, reason text, finished boolean NOT NULL);
CREATE TABLE record_counts(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, collection text NOT NULL, records bigint NOT NULL);
CREATE INDEX record_counts_collection ON record_counts(tenant, collection);
CREATE TABLE record_log(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, collection text NOT NULL,
  key text COLLATE "C" NOT NULL, at bigint NOT NULL, transition text, caller text NOT NULL, change text NOT NULL);
CREATE INDEX record_log_key ON record_log(tenant, collection, key, id);
CREATE TABLE calls(tenant bigint NOT NULL, id bytea NOT NULL, request bytea NOT NULL, answer bytea NOT NULL, made bigint NOT NULL,
  PRIMARY KEY(tenant, id));
CREATE INDEX calls_made ON calls(made);
CREATE TABLE api_tokens(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest bytea NOT NULL UNIQUE, tenant text, role text NOT NULL,
  name text NOT NULL, created bigint NOT NULL, revoked bigint, expires bigint, used bigint, former_digest bytea, former_until bigint);
CREATE TABLE audit(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, tenant text, token bigint, caller text NOT NULL, address text,
  operation text NOT NULL, collection text, key text COLLATE "C", outcome text NOT NULL);
CREATE INDEX audit_record ON audit(collection, key, id) WHERE key IS NOT NULL;
CREATE TABLE tag_stamps(tenant bigint PRIMARY KEY, stamp bigint NOT NULL);
CREATE TABLE tags(tenant bigint NOT NULL, collection bigint NOT NULL, name text COLLATE "C" NOT NULL, kind text NOT NULL, definition text NOT NULL,
  comment text NOT NULL, attributes text NOT NULL, created bigint NOT NULL, changed bigint NOT NULL, generation bigint NOT NULL, job bigint NOT NULL,
  PRIMARY KEY(tenant, collection, name));
CREATE TABLE tagged(tenant bigint NOT NULL, collection bigint NOT NULL, value text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
  PRIMARY KEY(tenant, collection, key, value));
CREATE INDEX tagged_value ON tagged(tenant, collection, value, key);
CREATE TABLE trees(tenant bigint NOT NULL, collection bigint NOT NULL, key text COLLATE "C" NOT NULL, source text COLLATE "C" NOT NULL, tree bytea NOT NULL,
  PRIMARY KEY(tenant, collection, key, source));
ALTER TABLE trees ALTER COLUMN tree SET STORAGE EXTERNAL;
CREATE FUNCTION trigrams(value text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 10000 AS
  $$ SELECT ARRAY(SELECT substr(value, at, 3) FROM generate_series(1, length(value) - 2) AS at) $$;
"#;

/// Tables and columns of one collection.
pub struct CollectionTables {
    /// The record table, quoted.
    pub table: String,
    /// Columns of a row in the order in which they are written.
    pub columns: Vec<(String, String)>,
    /// Columns that are read, by [`ReadDetail`](crate::ReadDetail).
    pub read_columns: [String; 4],
    /// Fields whose folded form has a column.
    pub folded: Vec<FieldId>,
    /// Fields with an index of bounding boxes.
    pub boxed: Vec<FieldId>,
    /// Fields with an index of words.
    pub worded: Vec<FieldId>,
    /// Indexed list fields and their side tables.
    pub lists: Vec<(FieldId, String)>,
    /// Unique fields and their reservation tables.
    pub uniques: Vec<(FieldId, String)>,
}

/// The tables and a session, for one tenant.
pub struct TenantTables<'c> {
    pub session: &'c mut Session,
    pub tables: &'c StoreTables,
    pub tenant: i64,
}

/// The tables of a definition.
pub struct StoreTables {
    /// By collection.
    pub collections: IdVec<CollectionId, CollectionTables>,
    definition: Arc<Catalogue>,
    /// What the store records of it, see [`format_and_hash`].
    format_and_hash: String,
    store_schema: StoreSchema,
    generations: OnceLock<HashMap<[u8; 16], u32>>,
    /// Whether records are distributed over several servers.
    distributed: OnceLock<bool>,
    /// The hash of the definition that the store must keep, if that is not the process's own.
    expected: OnceLock<String>,
    /// Whether any definition is accepted.
    accepts_any_definition: bool,
}

/// Returns a quoted name. PostgreSQL cuts names after 63 bytes; longer ones end in a hash instead.
pub fn quoted_name(parts: &[&str]) -> String {
    let full_name = parts.join("_");
    if full_name.len() <= 63 {
        return format!("\"{full_name}\"");
    }
    let hash = blake3::hash(full_name.as_bytes()).to_hex();
    let mut end = 46;
    while !full_name.is_char_boundary(end) {
        end -= 1;
    }
    format!("\"{}_{}\"", &full_name[..end], &hash[..16])
}

/// Columns of a row's head.
const HEAD: &str = "key, revision, touch, created_job, alive, state, contributions";

impl StoreTables {
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        let collections = catalogue.collections.iter().map(CollectionTables::new).collect();
        let (generations, distributed, expected) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self {
            collections,
            definition: catalogue.clone(),
            format_and_hash: format_and_hash(&catalogue.hash),
            store_schema: StoreSchema::from_catalogue(catalogue),
            generations,
            distributed,
            expected,
            accepts_any_definition: false,
        }
    }

    /// For jobs, chunks and tokens, which need no definition.
    pub fn for_any_definition() -> Self {
        Self { accepts_any_definition: true, ..Self::new(&Arc::new(Catalogue::empty())) }
    }

    /// Whether a stored hash is that of the definition the store had when this process opened it.
    pub fn is_expected_definition(&self, stored: Option<&str>) -> bool {
        let expected = self.expected.get().unwrap_or(&self.format_and_hash).as_str();
        self.accepts_any_definition || stored == Some(expected)
    }

    /// The definition of the tables.
    pub fn catalogue(&self) -> &Catalogue {
        &self.definition
    }

    /// Whether records are distributed over several servers; then one statement cannot lock rows of more than one of them.
    pub fn is_distributed(&self) -> bool {
        self.distributed.get().copied().unwrap_or(false)
    }

    pub fn generation(&self, source: SourceId, feed: usize) -> u32 {
        let hash = self.definition.sources.get(source).and_then(|source| source.feeds.get(feed)).map(|feed| feed.generation);
        hash.and_then(|hash| self.generations.get()?.get(&hash).copied()).unwrap_or(0)
    }
}

impl CollectionTables {
    fn new(collection: &Collection) -> Self {
        let fields =
            collection.stored_fields().map(|(_, field)| (quoted_name(&["f", &field.name]), column_type(field.golden_type()))).collect::<Vec<_>>();
        let folded: Vec<FieldId> = fields_where(collection, |field| field.fold && !field.ty.is_list());
        let text = || column_type(&FieldType::Text);
        let folded_columns = folded.iter().map(|index| (quoted_name(&["x", &collection.fields[*index].name]), text()));
        let boxed: Vec<FieldId> = fields_where(collection, |field| field.index.intersects);
        let box_columns = boxed.iter().map(|index| (quoted_name(&["b", &collection.fields[*index].name]), "box".to_owned()));
        let worded: Vec<FieldId> = fields_where(collection, |field| field.index.words);
        let word_columns = worded.iter().map(|index| (words_column(&collection.fields[*index].name), text()));
        let states = collection.states.iter().map(|state| (quoted_name(&["s", &state.name]), column_type(&state.ty)));
        let value_columns: Vec<String> = fields.iter().cloned().chain(states.clone()).map(|(column, _)| column).collect();
        let values = value_columns.into_iter().chain(["conflict".to_owned()]).collect::<Vec<_>>().join(", ");
        let details = [
            HEAD.to_owned(),
            format!("{}, {values}", HEAD.trim_end_matches(", contributions")),
            format!("{HEAD}, {values}, raw"),
            format!("{HEAD}, {values}"),
        ];
        let fixed = |columns: &[(&str, &str)]| columns.iter().map(|(name, ty)| ((*name).to_owned(), (*ty).to_owned())).collect::<Vec<_>>();
        let mut columns = fixed(&[
            ("tenant", "bigint"),
            ("key", "text"),
            ("revision", "bigint"),
            ("touch", "bigint"),
            ("created_job", "bigint"),
            ("alive", "boolean"),
        ]);
        columns.extend(fields.into_iter().chain(folded_columns).chain(box_columns).chain(word_columns).chain(states));
        columns.extend(fixed(&[("conflict", "text[]"), ("state", "text"), ("contributions", "bytea"), ("raw", "bytea")]));
        let side = |prefix: &str, wanted: fn(&Field) -> bool| {
            let table = |index: FieldId| (index, quoted_name(&[prefix, &collection.name, &collection.fields[index].name]));
            fields_where(collection, wanted).into_iter().map(table).collect()
        };
        Self {
            table: quoted_name(&["r", &collection.name]),
            columns,
            read_columns: details,
            folded,
            boxed,
            worded,
            lists: side("i", |field| field.index.ordered && field.golden_type().is_list()),
            uniques: side("u", |field| field.unique),
        }
    }
}

fn fields_where(collection: &Collection, wanted: impl Fn(&Field) -> bool) -> Vec<FieldId> {
    collection.fields.enumerate().filter(|(_, field)| wanted(field)).map(|(id, _)| id).collect()
}

/// Whether records are rewritten often, because they combine several contributions or follow from other records: a row stays on its page if there is
/// space, and then its indexes need not be updated.
fn is_rewritten(collection: &Collection) -> bool {
    let is_made = |field: &Field| field.survivorship != Survivorship::Latest || matches!(field.derive, Some(Derivation::Rollup(_)));
    collection.rows_of.is_some() || collection.fields.iter().any(is_made)
}

/// The expression that an ordered index on a column contains.
pub fn index_expression(column: &str, ty: &FieldType) -> String {
    if matches!(ty, FieldType::Text | FieldType::Json) { format!("left({column}, {INDEXED_CHARACTERS})") } else { column.to_owned() }
}

/// Creates what is missing and applies additions; returns what was done, in words, and whether there was another definition before. Processes that do
/// so at once wait for each other.
pub fn prepare(session: &mut Session, tables: &StoreTables, schema: &str) -> DbResult<(Vec<String>, bool)> {
    if is_prepared(session, tables)? && meta(session, "collections")?.is_some() {
        return Ok((Vec::new(), false));
    }
    session.begin(true);
    session.execute("SELECT pg_advisory_xact_lock(hashtext('stook'), hashtext($1))", &[&schema])?;
    let exists: bool = session.query_one("SELECT EXISTS(SELECT 1 FROM pg_namespace WHERE nspname = $1)", &[&schema])?.at(0)?;
    if !exists {
        session.batch(&format!("CREATE SCHEMA \"{schema}\""))?;
    }
    let has_tables = "SELECT EXISTS(SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'meta')";
    if !session.query_one(has_tables, &[&schema])?.at::<bool>(0)? {
        session.batch(FIXED)?;
        put_meta(session, "format", FORMAT)?;
        put_meta(session, "shape", "{\"collections\":{}}")?;
        session.execute("INSERT INTO tenants(name) VALUES ($1)", &[&crate::DEFAULT_TENANT])?;
    }
    let upgraded = super::upgrade::upgrade(session)?;
    check_format(session)?;
    let definition = &tables.definition;
    let former_views = super::views::drop_former(session, definition)?;
    let (mut changes, mut redefined) = (Vec::new(), false);
    let stored_definition = meta(session, "definition")?;
    if stored_definition.as_deref() != Some(tables.format_and_hash.as_str()) {
        let old_schema = crate::sql::store_schema::parse_schema(meta(session, "shape")?.as_deref())?;
        old_schema.check(&tables.store_schema)?;
        migrate(session, tables, &old_schema)?;
        for (collection, fields) in old_schema.consolidated_again(&tables.store_schema) {
            put_meta(session, &consolidated_again_name(&collection), &fields.join(", "))?;
        }
        let schema_json = serde_json::to_string(&tables.store_schema).map_err(|error| StoreError::Other(error.to_string()))?;
        put_meta(session, "shape", &schema_json)?;
        put_meta(session, "definition", &tables.format_and_hash)?;
        super::former::prepare(session, definition)?;
        super::change_feed::prepare(session, definition, &old_schema, &tables.store_schema)?;
        redefined = stored_definition.is_some();
        if redefined {
            changes = old_schema.changes(&tables.store_schema);
        }
    }
    put_meta(session, "collections", &crate::sql::store_schema::collection_names_json(definition))?;
    for feed in definition.sources.iter().flat_map(|source| &source.feeds) {
        session.execute("INSERT INTO generations(hash) VALUES ($1) ON CONFLICT DO NOTHING", &[&feed.generation.as_slice()])?;
    }
    if distribute(session, tables)? {
        put_meta(session, "distributed", "yes")?;
    }
    if let Some(views) = former_views {
        views.replace(session, definition)?;
    }
    session.batch("COMMIT")?;
    Ok((upgraded.into_iter().chain(changes).collect(), redefined))
}

/// Fails for a store of another format.
pub fn check_format(session: &mut Session) -> DbResult<()> {
    let format = meta(session, "format")?;
    if format.as_deref() == Some(FORMAT) {
        Ok(())
    } else {
        Err(crate::sql::store_schema::other_format(format.as_deref(), FORMAT, super::upgrade::UPGRADABLE_FORMATS).into())
    }
}

/// Whether the database is the coordinator of a Citus cluster.
fn has_citus(session: &mut Session) -> DbResult<bool> {
    session.query_one("SELECT EXISTS(SELECT 1 FROM pg_extension WHERE extname = 'citus')", &[])?.at(0)
}

/// Distributes the tables that grow with the records over the servers of a Citus cluster, including existing rows: records and their lists by key,
/// edges and marks by target, tags and trees by key, reservations by the hash of their value. All others stay on the coordinator.
fn distribute(session: &mut Session, tables: &StoreTables) -> DbResult<bool> {
    if !has_citus(session)? {
        return Ok(false);
    }
    let mut distributed_tables: Vec<(String, &str, Option<String>)> = vec![
        ("edges".into(), "target", None),
        ("marks".into(), "target", Some("edges".into())),
        ("tagged".into(), "key", None),
        ("trees".into(), "key", Some("tagged".into())),
    ];
    if crate::sql::former::has_undo(&tables.definition) {
        distributed_tables.push(("former".into(), "key", None));
    }
    for collection_tables in &tables.collections {
        distributed_tables.push((collection_tables.table.clone(), "key", None));
        distributed_tables.extend(collection_tables.lists.iter().map(|(_, side)| (side.clone(), "key", Some(collection_tables.table.clone()))));
        distributed_tables.extend(collection_tables.uniques.iter().map(|(_, side)| (side.clone(), "digest", None)));
    }
    for (table, column, colocated) in distributed_tables {
        let is_distributed_sql = "SELECT EXISTS(SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass($1))";
        if session.query_one(is_distributed_sql, &[&table])?.at(0)? {
            continue;
        }
        let sql = "SELECT create_distributed_table(to_regclass($1), $2, colocate_with => $3)";
        session.query_one(sql, &[&table, &column, &colocated.unwrap_or_else(|| "none".into())])?;
    }
    Ok(true)
}

/// Checks whether a process may use the store without preparing it.
pub fn check_fits(session: &mut Session, tables: &StoreTables, schema: &str, purpose: AccessMode) -> DbResult<()> {
    if purpose == AccessMode::Write && is_prepared(session, tables)? {
        return Ok(());
    }
    if !session.query_one("SELECT to_regclass('meta') IS NOT NULL", &[])?.at::<bool>(0)? {
        return Err(StoreError::Wrong(format!("there is no store in schema `{schema}`; create it with `stook prepare`")).into());
    }
    if purpose != AccessMode::Admin && has_citus(session)? && meta(session, "distributed")?.is_none() {
        let reason = "the database is a cluster's coordinator now; `stook prepare` spreads the records over its servers";
        return Err(StoreError::Definition(reason.into()).into());
    }
    check_format(session)?;
    let (definition, shape) = (meta(session, "definition")?, meta(session, "shape")?);
    let stored = StoredDefinition { definition, shape, collections: meta(session, "collections")?, settled: meta(session, "settled")? };
    stored.check_usable(&tables.definition, &tables.format_and_hash, &tables.store_schema, purpose)?;
    if let Some(definition) = stored.definition {
        let _ = tables.expected.set(definition);
    }
    Ok(())
}

/// Returns the names of collections by their numbers: those of the process's definition, or those recorded in the store if any definition is
/// accepted.
pub fn collections(session: &mut Session, tables: &StoreTables) -> DbResult<Vec<String>> {
    if !tables.accepts_any_definition {
        return Ok(tables.definition.collections.iter().map(|collection| collection.name.clone()).collect());
    }
    Ok(crate::sql::store_schema::parse_collection_names(meta(session, "collections")?.as_deref())?)
}

/// Whether there is nothing to do, checked without waiting for locks.
fn is_prepared(session: &mut Session, tables: &StoreTables) -> DbResult<bool> {
    let exists: bool = session.query_one("SELECT to_regclass('meta') IS NOT NULL AND to_regclass('generations') IS NOT NULL", &[])?.at(0)?;
    if !exists || check_definition(session, tables).is_err() || meta(session, "format")?.as_deref() != Some(FORMAT) {
        return Ok(false);
    }
    if has_citus(session)? && meta(session, "distributed")?.is_none() {
        return Ok(false);
    }
    Ok(super::views::are_current(session, &tables.definition)? && read_generations(session, tables)?.values().all(|number| *number > 0))
}

fn migrate(session: &mut Session, tables: &StoreTables, old_schema: &StoreSchema) -> DbResult<()> {
    let is_distributed = meta(session, "distributed")?.is_some();
    for (collection, collection_tables) in tables.definition.collections.iter().zip(&tables.collections) {
        let (table, collection_name) = (&collection_tables.table, &collection.name);
        let old_collection = old_schema.collections.get(collection_name);
        if old_collection.is_none() {
            let columns: Vec<String> = collection_tables
                .columns
                .iter()
                .map(|(column, ty)| match column.as_str() {
                    "key" => "key text COLLATE \"C\" NOT NULL".into(),
                    "tenant" | "revision" | "touch" | "created_job" | "alive" | "contributions" => format!("{column} {ty} NOT NULL"),
                    _ => format!("{column} {ty}"),
                })
                .collect();
            // no condition uses these: the server need not sample them for statistics
            let ignored = ["contributions", "raw", "state"].map(|column| format!("ALTER COLUMN {column} SET STATISTICS 0")).join(", ");
            let fill_factor = if is_rewritten(collection) { " WITH (fillfactor = 60)" } else { "" };
            session.batch(&format!(
                "CREATE TABLE {table}({}, PRIMARY KEY(tenant, key)){fill_factor}; ALTER TABLE {table} {ignored}",
                columns.join(", ")
            ))?;
        }
        for field in &collection.fields {
            let old_field = old_collection.and_then(|collection| collection.fields.get(&field.name));
            let ty = field.golden_type();
            let column = quoted_name(&[if field.fold && !ty.is_list() { "x" } else { "f" }, &field.name]);
            if old_collection.is_some() && old_field.is_none() {
                if !field.is_member() {
                    session.batch(&format!("ALTER TABLE {table} ADD COLUMN {} {}", quoted_name(&["f", &field.name]), column_type(ty)))?;
                }
                if field.fold && !ty.is_list() {
                    session.batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {}", column_type(&FieldType::Text)))?;
                }
            }
            // a cluster does not apply this to its servers
            if old_field.is_none() && ty.is_list() && !field.is_member() && !(is_distributed && old_collection.is_some()) {
                session.batch(&format!("ALTER TABLE {table} ALTER COLUMN {} SET STATISTICS 0", quoted_name(&["f", &field.name])))?;
            }
            let new_field = tables.store_schema.collections.get(collection_name).and_then(|collection| collection.fields.get(&field.name));
            let converted = old_field.zip(new_field).filter(|(old_field, new_field)| old_field.is_reshaped(new_field));
            let mut old_indexes = old_field.map(FieldSchema::index).unwrap_or_default();
            if let Some((old_field, _)) = converted {
                convert_link(session, (table, collection_name, &field.name), old_field, ty)?;
                old_indexes = FieldIndexes::default();
            }
            if ty.is_list() {
                list_index(session, collection, field, old_indexes.ordered)?;
            } else {
                // children of a target are read page by page
                let key_suffix = if field.is_link() { ", key" } else { "" };
                let index_columns = format!("{} NULLS FIRST{key_suffix}", index_expression(&column, ty));
                let is_indexed = |index: FieldIndexes| index.ordered || index.by_link;
                plain_index(
                    session,
                    table,
                    &["o", collection_name, column.trim_matches('"')],
                    &index_columns,
                    IndexChange::choose(is_indexed(field.index), is_indexed(old_indexes)),
                )?;
                let index = quoted_name(&["t", collection_name, &field.name]);
                match (field.index.contains, old_indexes.contains) {
                    (true, false) => session.batch(&format!("CREATE INDEX {index} ON {table} USING gin (trigrams({column}))"))?,
                    (false, true) => session.batch(&format!("DROP INDEX {index}"))?,
                    _ => {}
                }
            }
            box_index(session, collection, field, old_indexes.intersects)?;
            words_index(session, collection, field, IndexChange::choose(field.index.words, old_indexes.words))?;
            let side = quoted_name(&["u", collection_name, &field.name]);
            if field.unique && old_field.is_none_or(|field| !field.unique) {
                let key = "key text COLLATE \"C\" NOT NULL";
                let by_key = quoted_name(&["uk", collection_name, &field.name]);
                session.batch(&format!(
                    "CREATE TABLE {side}(tenant bigint NOT NULL, digest bytea NOT NULL, {key}, PRIMARY KEY(tenant, digest));
                     CREATE INDEX {by_key} ON {side}(tenant, key)"
                ))?;
            }
            if !field.unique && old_field.is_some_and(|field| field.unique) {
                session.batch(&format!("DROP TABLE {side}"))?;
            }
        }
        if collection.compares() {
            let index = quoted_name(&["c", collection_name]);
            session.batch(&format!("CREATE INDEX IF NOT EXISTS {index} ON {table}(tenant, key) WHERE conflict IS NOT NULL"))?;
        }
        let index = quoted_name(&["h", collection_name]);
        session.batch(&match collection.publish {
            Some(_) => format!("CREATE INDEX IF NOT EXISTS {index} ON {table}(tenant, revision, key)"),
            None => format!("DROP INDEX IF EXISTS {index}"),
        })?;
        for state in &collection.states {
            let old_state = old_collection.and_then(|collection| collection.states.get(&state.name));
            let column = quoted_name(&["s", &state.name]);
            if old_collection.is_some() && old_state.is_none() {
                session.batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {}", column_type(&state.ty)))?;
            }
            // indexes on lists and trigrams need side tables, which state fields do not have
            let old_index = FieldIndexes { ordered: old_state.is_some_and(|state| state.ordered) && !state.ty.is_list(), ..FieldIndexes::default() };
            let new_index = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            let index_columns = format!("{} NULLS FIRST", index_expression(&column, &state.ty));
            plain_index(
                session,
                table,
                &["o", collection_name, column.trim_matches('"')],
                &index_columns,
                IndexChange::choose(new_index.ordered, old_index.ordered),
            )?;
        }
    }
    Ok(())
}

/// Turns a link's keys into lists, or each list into one key, until they are settled again. Drops their indexes.
fn convert_link(session: &mut Session, (table, collection, field): (&str, &str, &str), old_field: &FieldSchema, ty: &FieldType) -> DbResult<()> {
    let column = quoted_name(&["f", field]);
    if old_field.is_list() && old_field.ordered {
        session.batch(&format!("DROP TABLE {}", quoted_name(&["i", collection, field])))?;
    } else if !old_field.is_list() {
        plain_index(
            session,
            table,
            &["o", collection, column.trim_matches('"')],
            "",
            IndexChange::choose(false, old_field.ordered || old_field.linked),
        )?;
        if old_field.contains {
            session.batch(&format!("DROP INDEX {}", quoted_name(&["t", collection, field])))?;
        }
    }
    let value = if ty.is_list() { format!("CASE WHEN {column} IS NOT NULL THEN ARRAY[{column}] END") } else { format!("{column}[1]") };
    session.batch(&format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE {} USING {value}", column_type(ty)))
}

fn plain_index(session: &mut Session, table: &str, parts: &[&str], columns: &str, change: IndexChange) -> DbResult<()> {
    let index = quoted_name(parts);
    match change {
        IndexChange::Create => session.batch(&format!("CREATE INDEX {index} ON {table}(tenant, {columns})")),
        IndexChange::Drop => session.batch(&format!("DROP INDEX {index}")),
        IndexChange::Nothing => Ok(()),
    }
}

fn list_index(session: &mut Session, collection: &Collection, field: &Field, had_index: bool) -> DbResult<()> {
    let (collection_name, table) = (&collection.name, quoted_name(&["r", &collection.name]));
    let (side, column) = (quoted_name(&["i", collection_name, &field.name]), quoted_name(&["f", &field.name]));
    match IndexChange::choose(field.index.ordered, had_index) {
        IndexChange::Create => {
            if field.fold {
                // values are folded only by the process that writes them
                let has_values_sql = format!("SELECT EXISTS(SELECT 1 FROM {table} WHERE {column} IS NOT NULL)");
                if session.query_one(&has_values_sql, &[])?.at(0)? {
                    return Err(StoreError::Definition(format!(
                        "an index on the folded list `{collection_name}.{}` cannot be added to a store whose records have it; import into a new store",
                        field.name
                    ))
                    .into());
                }
            }
            let element = field.golden_type().element();
            let id = collection.field(&field.name).map(|(id, _)| id);
            let (column, value) = match id.and_then(|id| collection.member(id)) {
                Some((list, member)) => {
                    let value = format!("(e.value::jsonb ->> '{}')::{}", member.name, column_type(element));
                    (quoted_name(&["f", &collection.fields[list].name]), value)
                }
                None => (column, "e.value".to_owned()),
            };
            session.batch(&format!(
                "CREATE TABLE {side}(tenant bigint NOT NULL, key text COLLATE \"C\" NOT NULL, value {});
                 INSERT INTO {side} SELECT DISTINCT r.tenant, r.key, {value} FROM {table} r, unnest(r.{column}) AS e(value) WHERE {value} IS NOT NULL;
                 CREATE INDEX {} ON {side}(tenant, {}, key);
                 CREATE INDEX {} ON {side}(key, tenant)",
                column_type(element),
                quoted_name(&["iv", collection_name, &field.name]),
                index_expression("value", element),
                quoted_name(&["ik", collection_name, &field.name]),
            ))
        }
        IndexChange::Drop => session.batch(&format!("DROP TABLE {side}")),
        IndexChange::Nothing => Ok(()),
    }
}

/// Creates or drops an index of bounding boxes; one that is added later starts from what is stored.
fn box_index(session: &mut Session, collection: &Collection, field: &Field, had_index: bool) -> DbResult<()> {
    let (table, column) = (quoted_name(&["r", &collection.name]), quoted_name(&["b", &field.name]));
    match IndexChange::choose(field.index.intersects, had_index) {
        IndexChange::Create => {
            session.batch(&format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} box"))?;
            ComputedColumn { table: &table, column: &column, sql_type: "box" }.fill(session, field, BoundingBox::from_value)?;
            session.batch(&format!("CREATE INDEX {} ON {table} USING gist ({column})", quoted_name(&["g", &collection.name, &field.name])))
        }
        IndexChange::Drop => session.batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")),
        IndexChange::Nothing => Ok(()),
    }
}

pub fn meta(session: &mut Session, name: &str) -> DbResult<Option<String>> {
    Ok(session.query_first("SELECT value FROM meta WHERE name = $1", &[&name])?.map(|row| row.at::<Option<String>>(0)).transpose()?.flatten())
}

pub fn put_meta(session: &mut Session, name: &str, value: &str) -> DbResult<()> {
    let sql = "INSERT INTO meta(name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    session.execute(sql, &[&name, &value]).map(|_| ())
}

/// Checks that the store still has the definition with which this process works.
pub fn check_definition(session: &mut Session, tables: &StoreTables) -> DbResult<()> {
    let stored = meta(session, "definition")?;
    if tables.is_expected_definition(stored.as_deref()) { Ok(()) } else { Err(StoreError::DefinitionChanged.into()) }
}

fn read_generations(session: &mut Session, tables: &StoreTables) -> DbResult<HashMap<[u8; 16], u32>> {
    let mut numbers = HashMap::new();
    for feed in tables.definition.sources.iter().flat_map(|source| &source.feeds) {
        let row = session.query_first("SELECT id FROM generations WHERE hash = $1", &[&feed.generation.as_slice()])?;
        numbers.insert(feed.generation, row.map(|row| row.at::<i64>(0)).transpose()?.unwrap_or(0) as u32);
    }
    Ok(numbers)
}

/// Reads once what never changes while a process runs: the numbers of mappings, and whether records are distributed.
pub fn load_fixed_state(session: &mut Session, tables: &StoreTables) -> DbResult<()> {
    let numbers = read_generations(session, tables)?;
    let _ = tables.generations.set(numbers);
    let distributed = meta(session, "distributed")?.is_some();
    let _ = tables.distributed.set(distributed);
    Ok(())
}
