//! Damage is reported and repaired, never ignored: whatever byte of a store is changed, nothing panics, state that transitions have set stays
//! in the store, a damaged record fails what needs it and nothing else, and importing its documents again repairs it.

use crate::support;

use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::parse::parse;
use stook_catalogue::value::Value;
use stook_engine::damage;
use stook_engine::edit::{self, Edit, EditAction, EditFields, Preconditions};
use stook_engine::export::{ExportContents, ExportFormat, ExportRequest, export};
use stook_engine::record::{self, RecordAddress};
use stook_engine::settle::{self, SettleRules};
use stook_engine::work::{self, WorkerOptions};
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::queue::JobId;
use stook_store::sqlite::{self, SqliteStore};
use stook_store::{Queue, ReadDetail, RecordChange, RecordWrite, RefusedWrite, SettlePass, Settling, Store, Tenant, Unit};

const DEFINITION: &str = "\
catalogue: damage
sources:
  a: &source
    format: json
    let: { at: { path: $.at, type: timestamp } }
    as_of: at
    into: item
  b: { <<: *source, into: item }
  box: { <<: *source, into: box }
collections:
  box:
    key: id
    fields:
      id: text
      title: text
      count: { type: integer, rollup: { over: item.place, count: true } }
  item:
    key: id
    raw: keep
    history: 5
    fields:
      id: text
      name: { type: text, index: equal, survivorship: { prefer: [b] } }
      size: { type: integer, index: equal }
      part: float
      on: boolean
      ref: uuid
      free: json
      words: { type: [text], index: equal }
      parts: { type: [{ site: text, size: integer }], index: { site: equal } }
      box: text
      shown: { type: text, derive: place.title }
    links:
      place: { to: box, key: '{box}', create: true }
    state:
      status: { type: text, seed: \"'new'\", index: equal }
      note: text
";

fn catalogue() -> Arc<Catalogue> {
    Arc::new(parse(DEFINITION).expect("a definition"))
}

fn tenant() -> Tenant {
    Tenant::new("main").expect("a tenant")
}

const ITEMS: u32 = 6;
const ITEM: CollectionId = CollectionId::new(1);

fn documents(source: &str) -> String {
    let item = |number: u32| {
        let mut own = serde_json::json!({ "at": "2026-01-01T00:00:00Z", "id": format!("i{number}"), "name": format!("{source} says {number}"), "box": format!("b{}", number % 2) });
        if source == "a" {
            let more = serde_json::json!({ "size": number * 1_000, "part": f64::from(number) + 0.5, "on": number.is_multiple_of(2),
                "ref": format!("123e4567-e89b-12d3-a456-42661417400{number}"), "free": { "x": [1, number] }, "words": ["all", format!("w{number}")],
                "parts": [{ "site": format!("s{number}"), "size": 7 }] });
            own.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        }
        format!("{own}\n")
    };
    match source {
        "box" => (0..2).map(|number| format!("{{\"at\":\"2026-01-01T00:00:00Z\",\"id\":\"b{number}\",\"title\":\"box {number}\"}}\n")).collect(),
        // the second source contributes to some
        "b" => (0..ITEMS).step_by(2).map(item).collect(),
        _ => (0..ITEMS).map(item).collect(),
    }
}

/// A unit of writes.
struct Writes(Tenant, Vec<RecordWrite>);

impl Unit for Writes {
    fn tenant(&self) -> &Tenant {
        &self.0
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.1
    }

    fn refused(&mut self, refused: RefusedWrite) {
        panic!("{refused:?}")
    }
}

/// Imports the documents of a source; returns the job.
fn import(catalogue: &Arc<Catalogue>, store: &dyn Store, folder: &Path, source: &str) -> JobId {
    let job = support::job(catalogue, store, &tenant(), source, (&folder.join(format!("{source}.json")), &documents(source)), 2);
    let (stop, over) = (&AtomicBool::new(false), &AtomicBool::new(false));
    std::thread::scope(|scope| {
        // a store with a damaged queue may never finish
        scope.spawn(move || {
            for _ in 0..400 {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(25));
            }
            stop.store(true, Ordering::SeqCst);
        });
        let options = WorkerOptions { workers: 1, lease_seconds: 60, drain: true, settles: true, only: None };
        let _ = work::run(catalogue, store, &options, stop, &|_| ());
        over.store(true, Ordering::SeqCst);
    });
    job
}

fn settle_all(catalogue: &Arc<Catalogue>, store: &dyn Store) -> stook_store::Result<stook_store::PassReport> {
    let pass: Arc<dyn SettlePass> = Arc::new(SettleRules::new(catalogue));
    settle::drain(store, &pass, &AtomicBool::new(false))
}

/// Fills a store with records of all kinds.
fn fill(catalogue: &Arc<Catalogue>, store: &dyn Store, folder: &Path) {
    for source in ["box", "a", "b"] {
        import(catalogue, store, folder, source);
    }
    let key = Key::new("i1").expect("a key");
    let stored = store.read(&tenant(), ITEM, std::slice::from_ref(&key), ReadDetail::Full).expect("it reads").remove(0).expect("it is there");
    let change = RecordChange::State {
        state: vec![Value::text("lent"), Value::text("to me")],
        state_set: vec![(0, Value::text("lent")), (1, Value::text("to me"))],
    };
    let write = RecordWrite { collection: ITEM, key, expect: Some(stored.version), change };
    store.commit(Box::new(Writes(tenant(), vec![write]))).expect("it is written");
    settle_all(catalogue, store).expect("it settles");
}

fn keys() -> Vec<Key> {
    (0..ITEMS).map(|number| Key::new(format!("i{number}")).expect("a key")).collect()
}

/// What readers see of each item; `None` if it cannot be read.
fn seen(catalogue: &Catalogue, store: &dyn Store) -> Vec<Option<Json>> {
    let get =
        |key: &Key| record::get(catalogue, store, &RecordAddress { tenant: &tenant(), collection: "item", key: key.as_str() }, false).ok().flatten();
    keys().iter().map(|key| get(key).map(|record| record.to_json())).collect()
}

/// Reads damaged records, each alone and with the others: none may be taken for a record that does not exist.
fn read_damaged(catalogue: &Catalogue, store: &dyn Store, found: &damage::DamageReport, what: &str) {
    for (tenant, collection, key) in found.named.iter().filter_map(|(tenant, own)| own.record.as_ref().map(|(name, key)| (tenant, name, key))) {
        let (index, definition) = catalogue.collection(collection).expect("a collection");
        let key = Key::new(key.as_str()).expect("a key");
        let alone = std::slice::from_ref(&key);
        for keys in [alone, &[keys().as_slice(), alone].concat()] {
            let read = store.read(tenant, index, keys, ReadDetail::Full).map(|mut records| records.pop().flatten());
            // kept documents are decoded later
            let is_sound = read.as_ref().is_ok_and(|read| read.as_ref().is_none_or(|record| record.contributions_of(definition).is_ok()));
            assert!(!is_sound, "{what}: reading {collection} {} with {} others ends in {read:?}", key.as_str(), keys.len() - 1);
        }
        let got = record::get(catalogue, store, &RecordAddress { tenant, collection, key: key.as_str() }, false);
        assert!(got.is_err(), "{what}: {collection} {} is not there", key.as_str());
    }
}

/// Uses a store in every way; nothing may panic.
fn use_everything(catalogue: &Arc<Catalogue>, store: &dyn Store) {
    let tenant = tenant();
    for detail in [ReadDetail::Head, ReadDetail::Values, ReadDetail::Full] {
        let _ = store.read(&tenant, ITEM, &keys(), detail);
    }
    let columns: Vec<PlanColumn> =
        catalogue.collections[ITEM].fields.ids().map(PlanColumn::Field).chain([PlanColumn::State(0), PlanColumn::Conflict]).collect();
    for column in columns {
        let _ = store.visit(&QueryPlan { columns: vec![PlanColumn::Key, column], ..QueryPlan::all(tenant.clone(), ITEM) }, &mut |_| Ok(()));
    }
    for format in [ExportFormat::Ndjson, ExportFormat::Csv] {
        let _ = export(
            catalogue,
            store,
            &ExportRequest { tenant: &tenant, collection: "item", contents: ExportContents::Records, format },
            &mut Vec::new(),
            &mut |_| (),
        );
    }
    for key in keys() {
        if let Ok(Some(found)) = record::get(catalogue, store, &RecordAddress { tenant: &tenant, collection: "item", key: key.as_str() }, true) {
            let _ = found.explain(catalogue, store, &tenant);
            let _ = found.document(None);
        }
        let _ = store.log(&tenant, ITEM, &key, None, 10);
    }
    for job in store.jobs(None, 10).unwrap_or_default() {
        let _ = store.journal(job.id, 0, 100, false);
    }
    let _ = store.chunks(None);
    let _ = store.tokens();
    let fields = EditFields { values: serde_json::json!({ "size": 5 }).as_object().expect("an object").clone(), ..EditFields::default() };
    let edit = Edit {
        tenant: tenant.clone(),
        collection: ITEM,
        key: Some(Key::new("i2").expect("a key")),
        action: EditAction::Patch(fields),
        conditions: Preconditions::default(),
        caller: "test".into(),
        call: None,
    };
    let evaluator = Evaluator::new(catalogue.tables.clone());
    let _ = edit::run(&Arc::new(SettleRules::new(catalogue)), store, &evaluator, edit);
    let _ = settle_all(catalogue, store);
}

/// A value with one changed byte.
fn flipped(value: Sql, random: &mut u64) -> Option<Sql> {
    let mut next = |below: usize| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) as usize % below
    };
    match value {
        Sql::Null => None,
        Sql::Integer(number) => Some(if next(2) == 0 { Sql::Text(format!("x{number}")) } else { Sql::Integer(number ^ (1 << next(62))) }),
        Sql::Real(_) => Some(Sql::Text("no number".into())),
        Sql::Text(text) if text.is_empty() => Some(Sql::Blob(vec![0xff])),
        Sql::Text(text) => {
            let mut bytes = text.into_bytes();
            let place = next(bytes.len());
            bytes[place] ^= 1 << next(8);
            Some(String::from_utf8(bytes).map_or_else(|error| Sql::Blob(error.into_bytes()), Sql::Text))
        }
        Sql::Blob(bytes) if bytes.is_empty() => Some(Sql::Null),
        Sql::Blob(mut bytes) => {
            if next(6) == 0 {
                bytes.truncate(bytes.len() / 2);
            } else {
                let place = next(bytes.len());
                bytes[place] ^= 1 << next(8);
            }
            Some(Sql::Blob(bytes))
        }
    }
}

/// Tables that have rows, and their columns.
fn columns(file: &Connection) -> Vec<(String, String)> {
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' \
               AND m.name NOT LIKE 't\\_%' ESCAPE '\\' AND c.name NOT IN ('id', 'packed') ORDER BY 1, 2";
    let mut statement = file.prepare(sql).expect("SQL");
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("SQL").map(|row| row.expect("a row")).collect()
}

/// Changes a byte in a column of one row; returns a description of the change, if there was anything to change.
fn damaged(path: &Path, (table, column): &(String, String), round: u64) -> Option<String> {
    let file = Connection::open(path).expect("the file opens");
    let mut random = round.wrapping_mul(977).wrapping_add(u64::from(table.len() as u32 * 31 + column.len() as u32));
    let mut statement = file.prepare(&format!("SELECT \"{column}\" FROM \"{table}\"")).expect("SQL");
    let values: Vec<Sql> = statement.query_map([], |row| row.get(0)).expect("SQL").map(|value| value.expect("a value")).collect();
    let candidates: Vec<&Sql> = values.iter().filter(|value| **value != Sql::Null).collect();
    let old = (*candidates.get(round as usize % candidates.len().max(1))?).clone();
    let new = flipped(old.clone(), &mut random)?;
    // bypasses the schema's checks, as a changed byte of a page would
    file.execute_batch("PRAGMA ignore_check_constraints = ON").expect("SQL");
    let sql = format!("UPDATE OR REPLACE \"{table}\" SET \"{column}\" = ?1 WHERE \"{column}\" IS ?2");
    let place = if table.starts_with("r_") { format!("{sql} AND id = (SELECT min(id) FROM \"{table}\" WHERE \"{column}\" IS ?2)") } else { sql };
    // if the table refuses it, the database would report such damage itself
    file.execute(&place, params![new, old]).ok().filter(|changed| *changed > 0)?;
    Some(format!("{table}.{column}: {old:?} became {new:?}"))
}

fn open(path: &Path, catalogue: &Arc<Catalogue>) -> stook_store::Result<SqliteStore> {
    SqliteStore::open(path, catalogue.clone(), sqlite::SqliteOptions::default())
}

#[test]
fn any_changed_byte_causes_no_panic_and_loses_no_state() {
    let folder = support::folder("damage");
    let catalogue = catalogue();
    let base = folder.join("base");
    let store = open(&base, &catalogue).expect("a store");
    fill(&catalogue, &store, &folder);
    let sound = seen(&catalogue, &store);
    assert!(sound.iter().all(Option::is_some), "{sound:?}");
    let found = damage::find(&store, &catalogue).expect("it looks");
    assert!(found.damaged == 0 && found.read > 0, "{found:?}");
    drop(store);
    let all = columns(&Connection::open(&base).expect("the file opens"));
    assert!(all.len() > 100, "{} columns", all.len());
    let (mut reported, mut repaired) = (0, 0);
    for round in 0..2 {
        for column in &all {
            let path: PathBuf = folder.join("copy");
            for end in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(folder.join(format!("copy{end}")));
            }
            std::fs::copy(&base, &path).expect("a copy");
            let Some(what) = damaged(&path, column, round) else { continue };
            let is_state = column.0 == "r_item" && column.1 == "state";
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let Ok(store) = open(&path, &catalogue) else { return };
                let found = damage::find(&store, &catalogue);
                let broken: BTreeSet<String> =
                    found.iter().flat_map(|found| &found.named).filter_map(|(_, damage)| damage.record.clone()).map(|(_, key)| key).collect();
                reported += broken.len();
                let is_settled = ["f_shown", "f_count", "f_place"].contains(&column.1.as_str());
                let is_contributed = column.1.starts_with("f_") && !is_settled || ["contributions", "raw"].contains(&column.1.as_str());
                assert!(!column.0.starts_with("r_") || !is_contributed || !broken.is_empty(), "{what}: it is not found");
                found.iter().for_each(|found| read_damaged(&catalogue, &store, found, &what));
                use_everything(&catalogue, &store);
                if is_state && !broken.is_empty() {
                    assert_eq!(set_states(&path), 1, "{what}: state was lost");
                }
                // records that cannot be read are not shown, and the others are unchanged
                for (key, now) in keys().iter().zip(seen(&catalogue, &store)).filter(|(key, _)| broken.contains(key.as_str())) {
                    assert_eq!(now, None, "{what}: {} is shown", key.as_str());
                }
                for source in ["box", "a", "b"] {
                    import(&catalogue, &store, &folder, source);
                }
                if is_state && !broken.is_empty() {
                    assert_eq!(set_states(&path), 1, "{what}: state was lost by an import");
                } else if column.0 == "r_item"
                    && !broken.is_empty()
                    && (column.1.starts_with("f_") || matches!(column.1.as_str(), "contributions" | "raw" | "conflict"))
                {
                    let remaining = damage::find(&store, &catalogue).expect("it looks");
                    assert_eq!(remaining.damaged, 0, "{what}: documents do not heal it: {remaining:?}");
                    settle_all(&catalogue, &store).expect("it settles");
                    for ((key, now), before) in
                        keys().iter().zip(seen(&catalogue, &store)).zip(&sound).filter(|((key, _), _)| broken.contains(key.as_str()))
                    {
                        // i2 was edited
                        assert!(key.as_str() == "i2" || now == *before, "{what}: {now:?} is not {before:?}");
                    }
                    let troubles: Vec<String> = store
                        .jobs(None, 3)
                        .expect("jobs")
                        .iter()
                        .flat_map(|job| store.journal(job.id, 0, 100, true).expect("a journal").into_iter().flat_map(|entry| entry.reasons))
                        .collect();
                    assert!(troubles.iter().any(|reason| reason.contains("was damaged")), "{what}: {troubles:?}");
                    repaired += 1;
                }
            }));
            if let Err(panic) = ended {
                eprintln!("{what}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(reported > 20 && repaired > 5, "{reported} told, {repaired} healed");
}

/// Number of items whose state transitions have set.
fn set_states(path: &Path) -> i64 {
    let file = Connection::open(path).expect("the file opens");
    file.query_row("SELECT count(*) FROM r_item WHERE state IS NOT NULL", [], |row| row.get(0)).expect("SQL")
}

#[test]
fn a_damaged_record_fails_only_its_own_documents_and_settling_continues() {
    let folder = support::folder("damaged");
    let catalogue = catalogue();
    let path = folder.join("store");
    let store = open(&path, &catalogue).expect("a store");
    fill(&catalogue, &store, &folder);
    drop(store);
    let file = Connection::open(&path).expect("the file opens");
    // the state of one item, and a value of another that the second source has contributed
    file.execute("UPDATE r_item SET state = 'x' WHERE key = 'i1'", []).expect("SQL");
    file.execute("UPDATE r_item SET f_name = x'00' WHERE key = 'i2'", []).expect("SQL");
    drop(file);
    let store = open(&path, &catalogue).expect("a store");
    let found = damage::find(&store, &catalogue).expect("it looks");
    assert_eq!(found.damaged, 2, "{found:?}");
    let job = import(&catalogue, &store, &folder, "a");
    let counts = store.job(job).expect("the job").counts;
    use stook_store::journal::Outcome;
    assert!(counts.of(Outcome::Failed) >= 1 && counts.of(Outcome::Unchanged) >= 4, "{counts:?}");
    let reasons: Vec<String> = store.journal(job, 0, 100, true).expect("a journal").into_iter().flat_map(|entry| entry.reasons).collect();
    assert!(reasons.iter().any(|reason| reason.contains("\"i1\"") && reason.contains("damaged")), "{reasons:?}");
    settle_all(&catalogue, &store).expect("settling ends");
    assert_eq!(store.tenants_with_marks().expect("reading works"), []);
}

#[test]
fn damage_is_reported_alike_on_a_server_and_on_a_file() {
    let catalogue = catalogue();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = support::folder("server-damage");
    let cases = [
        ("r_item", "contributions", "set_byte(contributions, 0, 77)"),
        ("r_item", "contributions", "substr(contributions, 1, 20)"),
        ("r_item", "state", "'x' || state"),
        ("r_item", "f_free", "'x' || f_free"),
        ("r_item", "f_parts", "ARRAY['x']"),
        ("r_item", "raw", "NULL"),
        ("jobs", "files", "'x' || files"),
        ("jobs", "progress", "'x' || progress"),
        ("record_log", "change", "'x' || change"),
        ("edges", "payload", "substr(payload, 1, 1)"),
        ("chunk_journals", "lines", "substr(lines, 1, 3)"),
    ];
    for (table, column, damage_sql) in cases {
        let schema = format!("damage{}", NUMBER.fetch_add(1, Ordering::SeqCst));
        let Some(stores) = support::on_a_server(&schema, &catalogue) else { return };
        let server = stook_testkit::postgres::TestServer::shared().expect("a server");
        let store = &*stores[0];
        fill(&catalogue, store, &folder);
        let changed = server.sql(&format!("UPDATE {schema}.{table} SET {column} = {damage_sql} WHERE {column} IS NOT NULL"));
        if let Err(reason) = changed {
            panic!("{table}.{column}: {reason}");
        }
        let found = damage::find(store, &catalogue).expect("it looks");
        let broken = found.damaged;
        assert_eq!(broken > 0, table == "r_item", "{table}.{column}: {broken}");
        read_damaged(&catalogue, store, &found, &format!("{table}.{column}"));
        use_everything(&catalogue, store);
        for source in ["box", "a", "b"] {
            import(&catalogue, store, &folder, source);
        }
        let remaining = damage::find(store, &catalogue).expect("it looks");
        if column == "state" {
            assert_eq!(remaining.damaged, broken, "{remaining:?}");
        } else {
            assert_eq!(remaining.damaged, 0, "{table}.{column}: {remaining:?}");
        }
    }
}
