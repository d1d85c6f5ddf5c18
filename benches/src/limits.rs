//! Bare loops: what the machine and the libraries below allow. Each prints one line of JSON.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use stook_catalogue::ids::CollectionId;
use stook_formats::marc::MarcRecord;
use stook_store::sqlite::{SqliteOptions, SqliteStore};
use stook_store::{Queries, ReadDetail, Records, Tenant};

/// Rows of a transaction, as the store's writer groups them.
const GROUP: usize = 20_000;

/// Prints a line of JSON, or why there is none.
pub fn finish(result: Result<serde_json::Value, Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("stook-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the rows of one store's record table into a new file: same columns, same indexes, nothing else. The rows are in
/// memory before the clock starts.
/// `synchronous` is SQLite's word for when it syncs: `FULL` each commit, `NORMAL` when the log is copied and at the end.
pub fn raw_rows(source: &str, target: &str, synchronous: &str) -> ExitCode {
    finish((|| {
        let from = Connection::open(source)?;
        let mut schema = from.prepare("SELECT sql FROM sqlite_schema WHERE tbl_name = 'r_authority' AND sql IS NOT NULL ORDER BY type DESC")?;
        let schema: Vec<String> = schema.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        // in the order the documents came: the rowid says it
        let mut read = from.prepare("SELECT * FROM r_authority ORDER BY id")?;
        let columns = read.column_count();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let mut found = read.query([])?;
        while let Some(row) = found.next()? {
            rows.push((0..columns).map(|index| row.get(index)).collect::<Result<_, _>>()?);
        }
        let started = Instant::now();
        let mut to = Connection::open(target)?;
        stook_store::sqlite::register_functions(&to)?;
        let settings = "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 4000;";
        to.execute_batch(&format!("{settings} PRAGMA synchronous = {synchronous};"))?;
        for sql in &schema {
            to.execute_batch(sql)?;
        }
        let insert = format!("INSERT INTO r_authority VALUES ({})", vec!["?"; columns].join(", "));
        for group in rows.chunks(GROUP) {
            let transaction = to.transaction()?;
            {
                let mut statement = transaction.prepare_cached(&insert)?;
                for row in group {
                    statement.execute(params_from_iter(row))?;
                }
            }
            transaction.commit()?;
        }
        to.close().map_err(|(_, error)| error)?;
        Ok(json!({"records": rows.len(), "seconds": started.elapsed().as_secs_f64()}))
    })())
}

/// Reads a MARC file and visits every field of every record.
pub fn visit_marc(file: &str) -> ExitCode {
    finish((|| {
        let started = Instant::now();
        let mut records = stook_formats::read::DocumentReader::new(std::fs::File::open(file)?, stook_formats::Syntax::Marc, None);
        let (mut count, mut fields, mut bytes) = (0_u64, 0_u64, 0_u64);
        while let Some((_, record)) = records.next()? {
            let record = MarcRecord::parse(record)?;
            count += 1;
            for field in record.fields() {
                fields += 1;
                if field.is_control() {
                    bytes += field.data.len() as u64;
                } else {
                    bytes += field.subfields().map(|(_, value)| value.len() as u64).sum::<u64>();
                }
            }
        }
        Ok(json!({"records": count, "fields": fields, "bytes": bytes, "seconds": started.elapsed().as_secs_f64()}))
    })())
}

/// Looks up records by key, one at a time and warm, on one thread of this process.
pub fn look_ups(store: &str, catalogue: &str) -> ExitCode {
    finish((|| {
        let text = std::fs::read_to_string(catalogue)?;
        let catalogue = stook_catalogue::parse::parse(&text).map_err(|problems| format!("{problems:?}"))?;
        let store = SqliteStore::open(Path::new(store), Arc::new(catalogue), SqliteOptions { reader_cache: 256 << 20, ..SqliteOptions::default() })?;
        let tenant = Tenant::new(stook_store::DEFAULT_TENANT)?;
        let keys: Vec<_> = {
            let mut plan = stook_store::plan::QueryPlan::all(tenant.clone(), CollectionId::from(0));
            plan.limit = Some(20_000);
            let rows = store.find(&plan)?.rows;
            rows.iter().filter_map(|row| row.first()?.as_text().and_then(|key| stook_catalogue::key::Key::new(key).ok())).collect()
        };
        let look_up_all = || -> Result<u64, stook_store::StoreError> {
            let mut found = 0;
            for key in &keys {
                let record = store.read(&tenant, CollectionId::from(0), std::slice::from_ref(key), ReadDetail::Full)?;
                found += record.iter().flatten().count() as u64;
            }
            Ok(found)
        };
        look_up_all()?;
        let started = Instant::now();
        let found = look_up_all()? + look_up_all()? + look_up_all()?;
        Ok(json!({"records": found, "seconds": started.elapsed().as_secs_f64()}))
    })())
}
