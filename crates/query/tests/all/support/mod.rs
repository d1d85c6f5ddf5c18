//! A store in a temporary file, filled with records made by hand.

use std::sync::Arc;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_query::{CompiledQuery, compile, parse};
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::{DEFAULT_TENANT, RecordChange, RecordContent, RecordWrite, RefusedWrite, Result, Tenant, Unit, Units, WriteConflict};
use tempfile::TempDir;

/// The time of all queries: 2024-05-06T07:08:09Z.
pub const NOW: i64 = 1_714_979_289_000_000;

/// A record, as far as queries see it.
#[derive(Debug, Clone)]
pub struct Record {
    pub key: String,
    pub alive: bool,
    /// A value per field.
    pub golden: Vec<Value>,
    /// A value per state field.
    pub state: Vec<Value>,
    /// Fields on which contributors disagree.
    pub conflicts: Vec<FieldId>,
}

impl Record {
    /// An existing record without values.
    pub fn empty(key: impl Into<String>, collection: &Collection) -> Self {
        let golden = vec![Value::Null; collection.fields.len()];
        let state = vec![Value::Null; collection.states.len()];
        Self { key: key.into(), alive: true, golden, state, conflicts: Vec::new() }
    }
}

pub struct Filled {
    pub catalogue: Arc<Catalogue>,
    pub store: SqliteStore,
    _folder: TempDir,
}

pub fn definition(text: &str) -> Catalogue {
    let problems = |problems: Vec<Diagnostic>| panic!("{}", render("catalogue.yaml", text, &problems, false));
    stook_catalogue::parse::parse(text).unwrap_or_else(problems)
}

pub fn main_tenant() -> Tenant {
    Tenant::new(DEFAULT_TENANT).expect("a name")
}

/// A new store; records belong to the first collection.
pub fn filled(catalogue: Catalogue, tenants: &[(Tenant, &[Record])]) -> Filled {
    let folder = tempfile::tempdir().expect("a folder");
    let catalogue = Arc::new(catalogue);
    let store = SqliteStore::open(&folder.path().join("records.db"), catalogue.clone(), SqliteOptions::default()).expect("a store");
    for (tenant, records) in tenants {
        // in several units, so that rows are not stored in key order
        for unit in 0..5 {
            let mut writes: Vec<RecordWrite> = records.iter().skip(unit).step_by(5).map(write).collect();
            writes.sort_by(|a, b| a.key.cmp(&b.key));
            store.commit(Box::new(Load { tenant: tenant.clone(), writes })).expect("records are written");
        }
    }
    Filled { catalogue, store, _folder: folder }
}

fn write(record: &Record) -> RecordWrite {
    let content = RecordContent {
        created_job: 0,
        exists: record.alive,
        golden: record.golden.clone().into(),
        state: record.state.clone(),
        state_set: Vec::new(),
        conflicts: record.conflicts.clone(),
        contributions: Vec::new(),
        raw: None,
        indexes_unchanged: false,
    };
    RecordWrite {
        collection: CollectionId::from(0),
        key: Key::new(record.key.as_str()).expect("a key"),
        expect: None,
        change: RecordChange::Put(Box::new(content)),
    }
}

/// Writes records that are all new.
struct Load {
    tenant: Tenant,
    writes: Vec<RecordWrite>,
}

impl Unit for Load {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> Result<Vec<RecordWrite>> {
        panic!("{} records are not new", conflicts.len())
    }

    fn refused(&mut self, refused: RefusedWrite) {
        panic!("{refused:?}")
    }
}

/// A query compiled at [`NOW`], or the problem in it.
pub fn try_compile(catalogue: &Catalogue, query: &str) -> std::result::Result<CompiledQuery, Diagnostic> {
    parse(query).and_then(|parsed| compile(&parsed, catalogue, &main_tenant(), NOW))
}

/// A query compiled at [`NOW`].
pub fn compiled(catalogue: &Catalogue, query: &str) -> CompiledQuery {
    try_compile(catalogue, query).unwrap_or_else(|problem| panic!("{}", render("query", query, &[problem], false)))
}
