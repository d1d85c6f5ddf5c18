//! The state of the file.

use super::error::store_error;
use super::store::SqliteStore;
use super::tables::{FORMAT, read_clock};
use super::writer::now;
use crate::Result;
use crate::health::{Health, StoreHealth};
use rustix::fs::{Access, access};
use std::path::Path;

impl Health for SqliteStore {
    fn health(&self) -> Result<StoreHealth> {
        let (pages, last_commit) = self.with_reader(|connection| {
            let pragma = |name: &str| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i64>(0)).map_err(store_error);
            Ok(([pragma("page_size")?, pragma("page_count")?, pragma("freelist_count")?].map(i64::unsigned_abs), read_clock(connection)?))
        })?;
        let [page_size, count, free] = pages;
        let mut wal = self.path.as_os_str().to_owned();
        wal.push("-wal");
        let disk = rustix::fs::statvfs(&self.path).ok().filter(|disk| disk.f_blocks > 0);
        Ok(StoreHealth {
            format: FORMAT.to_owned(),
            database: format!("SQLite {}", rusqlite::version()),
            bytes: count * page_size,
            free_bytes: free * page_size,
            log_bytes: Some(std::fs::metadata(Path::new(&wal)).map_or(0, |file| file.len())),
            disk_free: disk.map(|disk| disk.f_bavail * disk.f_frsize),
            replicas: Vec::new(),
            time: now(),
            last_commit,
            missing_rights: missing_rights(&self.path),
        })
    }
}

fn missing_rights(path: &Path) -> Vec<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut missing = Vec::new();
    if access(path, Access::WRITE_OK).is_err() {
        missing.push(format!("may not write {}", path.display()));
    }
    if access(folder, Access::WRITE_OK).is_err() {
        missing.push(format!("may not create files in {}, as the WAL is", folder.display()));
    }
    missing
}
