//! Maps a definition to tables in a PostgreSQL schema: names, columns, creation, additive changes.
//!
//! ```text
//! meta(name, value)                       format, definition hash, shape, collections in their order
//! clock, tokens                           sequences: the last commit time, lease tokens
//! tenants, generations                    as in SQLite
//! r_C(tenant, key, revision, touch, created_job, alive, f_FIELD.., x_FIELD.., b_FIELD.., s_STATE.., conflict, state, contributions, raw)
//!   g_C_FIELD                             GiST index of b_FIELD, the bounding boxes of an `intersects` index
//! i_C_FIELD(tenant, key, value)           one row per element of an indexed list
//! u_C_FIELD(tenant, digest, key)          reservations of a unique field, by the hash of the value
//! edges, marks, jobs, chunks, chunk_journals, troubles, failed_documents, corrections, record_log, calls, api_tokens
//! tag_stamps, tags, tagged, trees         tags, which records carry them, the trees on which they are evaluated
//! ```
//! Text is compared byte by byte (`COLLATE "C"`). An index on text contains the first [`INDEXED`] characters, because a B-tree does not accept long
//! ones; a condition on a longer text is combined with the condition that follows for these characters. A `contains` index is a GIN index over
//! trigrams computed by a function of the schema, so that no extension is needed.

use super::session::{DbResult, Session};
use super::values::{BoundingBox, RowExt, column_type, read};
use crate::StoreError;
use crate::sql::shape::IndexChange;
use crate::sql::shape::{AccessMode, FieldSchema, StoreSchema, StoredDefinition};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use stook_catalogue::definition::{Catalogue, Collection, Field, FieldIndexes, Survivorship};
use stook_catalogue::ids::{CollectionId, FieldId, IdVec, SourceId};
use stook_catalogue::links::Derivation;
use stook_catalogue::value::FieldType;

/// Version of the parts of the format that do not depend on the definition.
const FORMAT: &str = "10";

/// Number of characters of a text that an index contains.
pub const INDEXED: usize = 600;

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
CREATE TABLE record_log(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant bigint NOT NULL, collection text NOT NULL,
  key text COLLATE "C" NOT NULL, at bigint NOT NULL, transition text, caller text NOT NULL, change text NOT NULL);
CREATE INDEX record_log_key ON record_log(tenant, collection, key, id);
CREATE TABLE calls(tenant bigint NOT NULL, id bytea NOT NULL, request bytea NOT NULL, answer bytea NOT NULL, made bigint NOT NULL,
  PRIMARY KEY(tenant, id));
CREATE INDEX calls_made ON calls(made);
CREATE TABLE api_tokens(id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest bytea NOT NULL UNIQUE, tenant text, role text NOT NULL,
  name text NOT NULL, created bigint NOT NULL, revoked bigint);
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
    /// Columns that are read: those of the head, the values, or everything.
    pub read: [String; 3],
    /// Fields whose folded form has a column.
    pub folded: Vec<FieldId>,
    /// Fields with an index of bounding boxes.
    pub boxed: Vec<FieldId>,
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
    shape: StoreSchema,
    generations: OnceLock<HashMap<[u8; 16], u32>>,
    /// Whether records are distributed over several servers.
    distributed: OnceLock<bool>,
    /// The hash of the definition that the store must keep, if that is not the process's own.
    expected: OnceLock<String>,
    /// Whether any definition is accepted.
    any: bool,
}

/// Returns a quoted name. PostgreSQL cuts names after 63 bytes; longer ones end in a hash instead.
pub fn name(parts: &[&str]) -> String {
    let whole = parts.join("_");
    if whole.len() <= 63 {
        return format!("\"{whole}\"");
    }
    let hash = blake3::hash(whole.as_bytes()).to_hex();
    let mut end = 46;
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    format!("\"{}_{}\"", &whole[..end], &hash[..16])
}

/// Columns of a row's head.
const HEAD: &str = "key, revision, touch, created_job, alive, state, contributions";

impl StoreTables {
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        let collections = catalogue.collections.iter().map(CollectionTables::new).collect();
        let (generations, distributed, expected) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { collections, definition: catalogue.clone(), shape: StoreSchema::of(catalogue), generations, distributed, expected, any: false }
    }

    /// For jobs, chunks and tokens, which need no definition.
    pub fn of_ledger() -> Self {
        Self { any: true, ..Self::new(&Arc::new(Catalogue::empty())) }
    }

    /// Whether a stored hash is that of the definition the store had when this process opened it.
    pub fn holds(&self, stored: Option<&str>) -> bool {
        let expected = self.expected.get().map_or(self.definition.hash.as_str(), String::as_str);
        self.any || stored == Some(expected)
    }

    /// The definition of the tables.
    pub fn catalogue(&self) -> &Catalogue {
        &self.definition
    }

    /// Whether records are distributed over several servers; then one statement cannot lock rows of more than one of them.
    pub fn distributed(&self) -> bool {
        self.distributed.get().copied().unwrap_or(false)
    }

    pub fn generation(&self, source: SourceId, feed: usize) -> u32 {
        let hash = self.definition.sources.get(source).and_then(|source| source.feeds.get(feed)).map(|feed| feed.generation);
        hash.and_then(|hash| self.generations.get()?.get(&hash).copied()).unwrap_or(0)
    }
}

impl CollectionTables {
    fn new(collection: &Collection) -> Self {
        let fields = collection.stored_fields().map(|(_, field)| (name(&["f", &field.name]), column_type(field.golden_type()))).collect::<Vec<_>>();
        let folded: Vec<FieldId> = positions(collection, |field| field.fold && !field.ty.is_list());
        let text = || column_type(&FieldType::Text);
        let folded_columns = folded.iter().map(|index| (name(&["x", &collection.fields[*index].name]), text()));
        let boxed: Vec<FieldId> = positions(collection, |field| field.index.intersects);
        let box_columns = boxed.iter().map(|index| (name(&["b", &collection.fields[*index].name]), "box".to_owned()));
        let states = collection.states.iter().map(|state| (name(&["s", &state.name]), column_type(&state.ty)));
        let read: Vec<String> = fields.iter().cloned().chain(states.clone()).map(|(column, _)| column).collect();
        let values = read.into_iter().chain(["conflict".to_owned()]).collect::<Vec<_>>().join(", ");
        let details = [HEAD.to_owned(), format!("{}, {values}", HEAD.trim_end_matches(", contributions")), format!("{HEAD}, {values}, raw")];
        let fixed = |columns: &[(&str, &str)]| columns.iter().map(|(name, ty)| ((*name).to_owned(), (*ty).to_owned())).collect::<Vec<_>>();
        let mut columns = fixed(&[
            ("tenant", "bigint"),
            ("key", "text"),
            ("revision", "bigint"),
            ("touch", "bigint"),
            ("created_job", "bigint"),
            ("alive", "boolean"),
        ]);
        columns.extend(fields.into_iter().chain(folded_columns).chain(box_columns).chain(states));
        columns.extend(fixed(&[("conflict", "text[]"), ("state", "text"), ("contributions", "bytea"), ("raw", "bytea")]));
        let side = |prefix: &str, wanted: fn(&Field) -> bool| {
            let table = |index: FieldId| (index, name(&[prefix, &collection.name, &collection.fields[index].name]));
            positions(collection, wanted).into_iter().map(table).collect()
        };
        Self {
            table: name(&["r", &collection.name]),
            columns,
            read: details,
            folded,
            boxed,
            lists: side("i", |field| field.index.ordered && field.golden_type().is_list()),
            uniques: side("u", |field| field.unique),
        }
    }
}

fn positions(collection: &Collection, wanted: impl Fn(&Field) -> bool) -> Vec<FieldId> {
    collection.fields.enumerate().filter(|(_, field)| wanted(field)).map(|(index, _)| index).collect()
}

/// Whether records are rewritten often, because they combine several contributions or follow from other records: a row stays on its page if there is
/// space, and then its indexes need not be updated.
fn is_rewritten(collection: &Collection) -> bool {
    let is_made = |field: &Field| field.survivorship != Survivorship::Latest || matches!(field.derive, Some(Derivation::Rollup(_)));
    collection.rows_of.is_some() || collection.fields.iter().any(is_made)
}

/// The expression that an ordered index on a column contains.
pub fn indexed(column: &str, ty: &FieldType) -> String {
    if matches!(ty, FieldType::Text | FieldType::Json) { format!("left({column}, {INDEXED})") } else { column.to_owned() }
}

/// Creates what is missing and applies additions; returns what was done, in words, and whether there was another definition before. Processes that do
/// so at once wait for each other.
pub fn prepare(session: &mut Session, tables: &StoreTables, schema: &str) -> DbResult<(Vec<String>, bool)> {
    if is_prepared(session, tables)? && meta(session, "collections")?.is_some() {
        return Ok((Vec::new(), false));
    }
    session.begin(true);
    session.execute("SELECT pg_advisory_xact_lock(hashtext('stook'), hashtext($1))", &[&schema])?;
    let exists: bool = session.one("SELECT EXISTS(SELECT 1 FROM pg_namespace WHERE nspname = $1)", &[&schema])?.at(0)?;
    if !exists {
        session.batch(&format!("CREATE SCHEMA \"{schema}\""))?;
    }
    let has_tables = "SELECT EXISTS(SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'meta')";
    if !session.one(has_tables, &[&schema])?.at::<bool>(0)? {
        session.batch(FIXED)?;
        put_meta(session, "format", FORMAT)?;
        put_meta(session, "shape", "{\"collections\":{}}")?;
        session.execute("INSERT INTO tenants(name) VALUES ($1)", &[&crate::DEFAULT_TENANT])?;
    }
    check_format(session)?;
    let definition = &tables.definition;
    let (mut changes, mut redefined) = (Vec::new(), false);
    let stored_definition = meta(session, "definition")?;
    if stored_definition.as_deref() != Some(definition.hash.as_str()) {
        let old = crate::sql::shape::stored(meta(session, "shape")?.as_deref())?;
        old.check(&tables.shape)?;
        changes = apply(session, tables, &old)?;
        let shape = serde_json::to_string(&tables.shape).map_err(|error| StoreError::Other(error.to_string()))?;
        put_meta(session, "shape", &shape)?;
        put_meta(session, "definition", &definition.hash)?;
        redefined = stored_definition.is_some();
        if !redefined {
            changes.clear();
        }
    }
    put_meta(session, "collections", &crate::sql::shape::names(definition))?;
    for feed in definition.sources.iter().flat_map(|source| &source.feeds) {
        session.execute("INSERT INTO generations(hash) VALUES ($1) ON CONFLICT DO NOTHING", &[&feed.generation.as_slice()])?;
    }
    if distribute(session, tables)? {
        put_meta(session, "distributed", "yes")?;
    }
    session.batch("COMMIT")?;
    Ok((changes, redefined))
}

/// Fails for a store of another format.
pub fn check_format(session: &mut Session) -> DbResult<()> {
    let format = meta(session, "format")?;
    if format.as_deref() == Some(FORMAT) { Ok(()) } else { Err(crate::sql::shape::other_format(format.as_deref(), FORMAT, &[]).into()) }
}

/// Whether the database is the coordinator of a Citus cluster.
fn has_citus(session: &mut Session) -> DbResult<bool> {
    session.one("SELECT EXISTS(SELECT 1 FROM pg_extension WHERE extname = 'citus')", &[])?.at(0)
}

/// Distributes the tables that grow with the records over the servers of a Citus cluster, including existing rows: records and their lists by key,
/// edges and marks by target, tags and trees by key, reservations by the hash of their value. All others stay on the coordinator.
fn distribute(session: &mut Session, tables: &StoreTables) -> DbResult<bool> {
    if !has_citus(session)? {
        return Ok(false);
    }
    let mut wanted: Vec<(String, &str, Option<String>)> = vec![
        ("edges".into(), "target", None),
        ("marks".into(), "target", Some("edges".into())),
        ("tagged".into(), "key", None),
        ("trees".into(), "key", Some("tagged".into())),
    ];
    for own in &tables.collections {
        wanted.push((own.table.clone(), "key", None));
        wanted.extend(own.lists.iter().map(|(_, side)| (side.clone(), "key", Some(own.table.clone()))));
        wanted.extend(own.uniques.iter().map(|(_, side)| (side.clone(), "digest", None)));
    }
    for (table, column, beside) in wanted {
        let known = "SELECT EXISTS(SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass($1))";
        if session.one(known, &[&table])?.at(0)? {
            continue;
        }
        let sql = "SELECT create_distributed_table(to_regclass($1), $2, colocate_with => $3)";
        session.one(sql, &[&table, &column, &beside.unwrap_or_else(|| "none".into())])?;
    }
    Ok(true)
}

/// Checks whether a process may use the store without preparing it.
pub fn fits(session: &mut Session, tables: &StoreTables, schema: &str, purpose: AccessMode) -> DbResult<()> {
    if purpose == AccessMode::Write && is_prepared(session, tables)? {
        return Ok(());
    }
    if !session.one("SELECT to_regclass('meta') IS NOT NULL", &[])?.at::<bool>(0)? {
        return Err(StoreError::Wrong(format!("there is no store in schema `{schema}`; create it with `stook prepare`")).into());
    }
    if purpose != AccessMode::Admin && has_citus(session)? && meta(session, "distributed")?.is_none() {
        let reason = "the database is a cluster's coordinator now; `stook prepare` spreads the records over its servers";
        return Err(StoreError::Definition(reason.into()).into());
    }
    check_format(session)?;
    let (definition, shape) = (meta(session, "definition")?, meta(session, "shape")?);
    let held = StoredDefinition { definition, shape, collections: meta(session, "collections")?, settled: meta(session, "settled")? };
    held.fits(&tables.definition, &tables.definition.hash, &tables.shape, purpose)?;
    if let Some(definition) = held.definition {
        let _ = tables.expected.set(definition);
    }
    Ok(())
}

/// Returns the names of collections by their numbers: those of the process's definition, or those recorded in the store if any definition is
/// accepted.
pub fn collections(session: &mut Session, tables: &StoreTables) -> DbResult<Vec<String>> {
    if !tables.any {
        return Ok(tables.definition.collections.iter().map(|own| own.name.clone()).collect());
    }
    Ok(crate::sql::shape::named(meta(session, "collections")?.as_deref())?)
}

/// Whether there is nothing to do, checked without waiting for locks.
fn is_prepared(session: &mut Session, tables: &StoreTables) -> DbResult<bool> {
    let exists: bool = session.one("SELECT to_regclass('meta') IS NOT NULL AND to_regclass('generations') IS NOT NULL", &[])?.at(0)?;
    if !exists || check(session, tables).is_err() || meta(session, "format")?.as_deref() != Some(FORMAT) {
        return Ok(false);
    }
    if has_citus(session)? && meta(session, "distributed")?.is_none() {
        return Ok(false);
    }
    Ok(read_generations(session, tables)?.values().all(|number| *number > 0))
}

fn apply(session: &mut Session, tables: &StoreTables, old: &StoreSchema) -> DbResult<Vec<String>> {
    let mut changes = Vec::new();
    let spread = meta(session, "distributed")?.is_some();
    for (collection, own) in tables.definition.collections.iter().zip(&tables.collections) {
        let (table, of) = (&own.table, &collection.name);
        let known = old.collections.get(of);
        if known.is_none() {
            let columns: Vec<String> = own
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
            let room = if is_rewritten(collection) { " WITH (fillfactor = 60)" } else { "" };
            session.batch(&format!("CREATE TABLE {table}({}, PRIMARY KEY(tenant, key)){room}; ALTER TABLE {table} {ignored}", columns.join(", ")))?;
            changes.push(format!("collection `{of}` is new"));
        }
        for field in &collection.fields {
            let existed = known.and_then(|known| known.fields.get(&field.name));
            let ty = field.golden_type();
            let column = name(&[if field.fold && !ty.is_list() { "x" } else { "f" }, &field.name]);
            if known.is_some() && existed.is_none() {
                if !field.is_member() {
                    session.batch(&format!("ALTER TABLE {table} ADD COLUMN {} {}", name(&["f", &field.name]), column_type(ty)))?;
                }
                if field.fold && !ty.is_list() {
                    session.batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {}", column_type(&FieldType::Text)))?;
                }
                changes.push(format!("field `{of}.{}` is new; import documents again to fill it", field.name));
            }
            // a cluster does not apply this to its servers
            if existed.is_none() && ty.is_list() && !field.is_member() && !(spread && known.is_some()) {
                session.batch(&format!("ALTER TABLE {table} ALTER COLUMN {} SET STATISTICS 0", name(&["f", &field.name])))?;
            }
            let wanted = tables.shape.collections.get(of).and_then(|shape| shape.fields.get(&field.name));
            let reshaped = existed.zip(wanted).filter(|(existed, wanted)| existed.is_reshaped(wanted));
            let mut had = existed.map(FieldSchema::index).unwrap_or_default();
            if let Some((existed, wanted)) = reshaped {
                reshape(session, (table, of, &field.name), existed, ty)?;
                crate::sql::shape::report_reshaped(&mut changes, of, &field.name, wanted.is_list());
                had = FieldIndexes::default();
            } else if existed.is_some() {
                crate::sql::shape::report_index(&mut changes, of, &field.name, field.index, had);
            }
            if ty.is_list() {
                list_index(session, collection, field, had.ordered)?;
            } else {
                // children of a target are read page by page
                let behind = if field.is_link() { ", key" } else { "" };
                let held = format!("{} NULLS FIRST{behind}", indexed(&column, ty));
                let is_one = |index: FieldIndexes| index.ordered || index.by_link;
                plain_index(session, table, &["o", of, column.trim_matches('"')], &held, IndexChange::of(is_one(field.index), is_one(had)))?;
                let index = name(&["t", of, &field.name]);
                match (field.index.contains, had.contains) {
                    (true, false) => session.batch(&format!("CREATE INDEX {index} ON {table} USING gin (trigrams({column}))"))?,
                    (false, true) => session.batch(&format!("DROP INDEX {index}"))?,
                    _ => {}
                }
            }
            box_index(session, collection, field, had.intersects)?;
            let side = name(&["u", of, &field.name]);
            if field.unique && existed.is_none_or(|shape| !shape.unique) {
                let key = "key text COLLATE \"C\" NOT NULL";
                let by_key = name(&["uk", of, &field.name]);
                session.batch(&format!(
                    "CREATE TABLE {side}(tenant bigint NOT NULL, digest bytea NOT NULL, {key}, PRIMARY KEY(tenant, digest));
                     CREATE INDEX {by_key} ON {side}(tenant, key)"
                ))?;
            }
            if !field.unique && existed.is_some_and(|shape| shape.unique) {
                session.batch(&format!("DROP TABLE {side}"))?;
                changes.push(format!("`{of}.{}` is not unique any more", field.name));
            }
        }
        if collection.compares() {
            let index = name(&["c", of]);
            session.batch(&format!("CREATE INDEX IF NOT EXISTS {index} ON {table}(tenant, key) WHERE conflict IS NOT NULL"))?;
        }
        for state in &collection.states {
            let existed = known.and_then(|known| known.states.get(&state.name));
            let column = name(&["s", &state.name]);
            if known.is_some() && existed.is_none() {
                session.batch(&format!("ALTER TABLE {table} ADD COLUMN {column} {}", column_type(&state.ty)))?;
                changes.push(format!("state field `{of}.{}` is new", state.name));
            }
            // indexes on lists and trigrams need side tables, which state fields do not have
            let had = FieldIndexes { ordered: existed.is_some_and(|shape| shape.ordered) && !state.ty.is_list(), ..FieldIndexes::default() };
            let wanted = FieldIndexes { ordered: state.index.ordered && !state.ty.is_list(), ..FieldIndexes::default() };
            let held = format!("{} NULLS FIRST", indexed(&column, &state.ty));
            plain_index(session, table, &["o", of, column.trim_matches('"')], &held, IndexChange::of(wanted.ordered, had.ordered))?;
            if existed.is_some() {
                crate::sql::shape::report_index(&mut changes, of, &state.name, wanted, had);
            }
        }
    }
    Ok(changes)
}

/// Turns a link's keys into lists, or each list into one key, until they are settled again. Drops their indexes.
fn reshape(session: &mut Session, (table, of, field): (&str, &str, &str), had: &FieldSchema, ty: &FieldType) -> DbResult<()> {
    let column = name(&["f", field]);
    if had.is_list() && had.ordered {
        session.batch(&format!("DROP TABLE {}", name(&["i", of, field])))?;
    } else if !had.is_list() {
        plain_index(session, table, &["o", of, column.trim_matches('"')], "", IndexChange::of(false, had.ordered || had.linked))?;
        if had.contains {
            session.batch(&format!("DROP INDEX {}", name(&["t", of, field])))?;
        }
    }
    let value = if ty.is_list() { format!("CASE WHEN {column} IS NOT NULL THEN ARRAY[{column}] END") } else { format!("{column}[1]") };
    session.batch(&format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE {} USING {value}", column_type(ty)))
}

fn plain_index(session: &mut Session, table: &str, parts: &[&str], what: &str, change: IndexChange) -> DbResult<()> {
    let index = name(parts);
    match change {
        IndexChange::Create => session.batch(&format!("CREATE INDEX {index} ON {table}(tenant, {what})")),
        IndexChange::Drop => session.batch(&format!("DROP INDEX {index}")),
        IndexChange::Nothing => Ok(()),
    }
}

fn list_index(session: &mut Session, collection: &Collection, field: &Field, had: bool) -> DbResult<()> {
    let (of, table) = (&collection.name, name(&["r", &collection.name]));
    let (side, column) = (name(&["i", of, &field.name]), name(&["f", &field.name]));
    match IndexChange::of(field.index.ordered, had) {
        IndexChange::Create => {
            if field.fold {
                // values are folded only by the process that writes them
                let with_values = format!("SELECT EXISTS(SELECT 1 FROM {table} WHERE {column} IS NOT NULL)");
                if session.one(&with_values, &[])?.at(0)? {
                    return Err(StoreError::Definition(format!(
                        "an index on the folded list `{of}.{}` cannot be added to a store whose records have it; import into a new store",
                        field.name
                    ))
                    .into());
                }
            }
            let element = field.golden_type().element();
            let place = collection.field(&field.name).map(|(place, _)| place);
            let (column, value) = match place.and_then(|place| collection.member(place)) {
                Some((list, member)) => {
                    let value = format!("(e.value::jsonb ->> '{}')::{}", member.name, column_type(element));
                    (name(&["f", &collection.fields[list].name]), value)
                }
                None => (column, "e.value".to_owned()),
            };
            session.batch(&format!(
                "CREATE TABLE {side}(tenant bigint NOT NULL, key text COLLATE \"C\" NOT NULL, value {});
                 INSERT INTO {side} SELECT DISTINCT r.tenant, r.key, {value} FROM {table} r, unnest(r.{column}) AS e(value) WHERE {value} IS NOT NULL;
                 CREATE INDEX {} ON {side}(tenant, {}, key);
                 CREATE INDEX {} ON {side}(key, tenant)",
                column_type(element),
                name(&["iv", of, &field.name]),
                indexed("value", element),
                name(&["ik", of, &field.name]),
            ))
        }
        IndexChange::Drop => session.batch(&format!("DROP TABLE {side}")),
        IndexChange::Nothing => Ok(()),
    }
}

/// Number of bounding boxes computed at a time for a new index.
const BOXES: usize = 10_000;

/// Creates or drops an index of bounding boxes; one that is added later starts from what is stored.
fn box_index(session: &mut Session, collection: &Collection, field: &Field, had: bool) -> DbResult<()> {
    let (table, column) = (name(&["r", &collection.name]), name(&["b", &field.name]));
    match IndexChange::of(field.index.intersects, had) {
        IndexChange::Create => {
            session.batch(&format!("ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column} box"))?;
            let value = name(&["f", &field.name]);
            let page = format!(
                "SELECT {value}, tenant, key FROM {table} WHERE {value} IS NOT NULL AND (tenant, key) > ($1::bigint, $2::text) \
                 ORDER BY tenant, key LIMIT {BOXES}"
            );
            let fill = format!(
                "UPDATE {table} AS r SET {column} = u.around FROM unnest($1::bigint[], $2::text[], $3::box[]) AS u(tenant, key, around) \
                 WHERE r.tenant = u.tenant AND r.key = u.key"
            );
            let mut after = (i64::MIN, String::new());
            loop {
                let rows = session.query(&page, &[&after.0, &after.1])?;
                let Some(last) = rows.last() else { break };
                after = (last.at(1)?, last.at(2)?);
                let (mut tenants, mut keys, mut boxes) = (Vec::<i64>::new(), Vec::<&str>::new(), Vec::new());
                for row in &rows {
                    // damaged values are reported when they are read
                    if let Ok(value) = read(row, 0, &FieldType::Geometry) {
                        tenants.push(row.at(1)?);
                        keys.push(row.at(2)?);
                        boxes.push(BoundingBox::of(&value));
                    }
                }
                session.execute(&fill, &[&tenants, &keys, &boxes])?;
            }
            session.batch(&format!("CREATE INDEX {} ON {table} USING gist ({column})", name(&["g", &collection.name, &field.name])))
        }
        IndexChange::Drop => session.batch(&format!("ALTER TABLE {table} DROP COLUMN {column}")),
        IndexChange::Nothing => Ok(()),
    }
}

pub fn meta(session: &mut Session, name: &str) -> DbResult<Option<String>> {
    Ok(session.first("SELECT value FROM meta WHERE name = $1", &[&name])?.map(|row| row.at::<Option<String>>(0)).transpose()?.flatten())
}

pub fn put_meta(session: &mut Session, name: &str, value: &str) -> DbResult<()> {
    let sql = "INSERT INTO meta(name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    session.execute(sql, &[&name, &value]).map(|_| ())
}

/// Checks that the store still has the definition with which this process works.
pub fn check(session: &mut Session, tables: &StoreTables) -> DbResult<()> {
    let stored = meta(session, "definition")?;
    if tables.holds(stored.as_deref()) { Ok(()) } else { Err(StoreError::DefinitionChanged.into()) }
}

fn read_generations(session: &mut Session, tables: &StoreTables) -> DbResult<HashMap<[u8; 16], u32>> {
    let mut numbers = HashMap::new();
    for feed in tables.definition.sources.iter().flat_map(|source| &source.feeds) {
        let row = session.first("SELECT id FROM generations WHERE hash = $1", &[&feed.generation.as_slice()])?;
        numbers.insert(feed.generation, row.map(|row| row.at::<i64>(0)).transpose()?.unwrap_or(0) as u32);
    }
    Ok(numbers)
}

/// Reads once what never changes while a process runs: the numbers of mappings, and whether records are distributed.
pub fn remember(session: &mut Session, tables: &StoreTables) -> DbResult<()> {
    let numbers = read_generations(session, tables)?;
    let _ = tables.generations.set(numbers);
    let distributed = meta(session, "distributed")?.is_some();
    let _ = tables.distributed.set(distributed);
    Ok(())
}
