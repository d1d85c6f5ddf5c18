//! Stores of both kinds that live as long as a test: a file in memory, and a schema of the tests' server.

use axum::Router;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stook_catalogue::definition::Catalogue;
use stook_engine::settle::SettleRules;
use stook_server::secret::Secret;
use stook_server::{App, RequestLogLevel, ServerOptions, router};
use stook_store::Store;
use stook_store::access::{NewToken, Role};
use stook_store::postgres::{self, PostgresStore};
use stook_store::sqlite::{self, SqliteStore};
use stook_testkit::postgres::TestServer;

/// An open store with everything that uses it.
pub struct TestSetup {
    pub kind: &'static str,
    pub catalogue: Arc<Catalogue>,
    pub store: Arc<dyn Store>,
    pub rules: Arc<SettleRules>,
    pub router: Router,
    /// A token of an admin of all tenants.
    pub token: String,
    /// Its folder, which is removed with it.
    folder: Option<PathBuf>,
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::SeqCst)
}

impl TestSetup {
    fn new(kind: &'static str, catalogue: &Arc<Catalogue>, store: Arc<dyn Store>) -> Result<Self, String> {
        let secret = Secret::random().map_err(|error| error.to_string())?;
        let (token, digest) = (secret.text().to_owned(), secret.digest());
        let new = NewToken { digest, tenant: None, rights: Role::Admin.into(), name: "test".into(), expires: None };
        store.create_token(new).map_err(|error| format!("{kind}: {error}"))?;
        let options = ServerOptions { log: RequestLogLevel::None, cache: 1 << 20, ..ServerOptions::default() };
        let app = App::new(catalogue.clone(), store.clone(), options).map_err(|error| format!("{kind}: {error}"))?;
        let rules = Arc::new(SettleRules::new(catalogue));
        Ok(Self { kind, catalogue: catalogue.clone(), store, rules, router: router(&app), token, folder: None })
    }

    /// Creates a store in a file.
    pub fn on_a_file(catalogue: &Arc<Catalogue>) -> Result<Self, String> {
        let folder = stook_testkit::memory::folder_of_process("definitions").map_err(|error| error.to_string())?.join(next().to_string());
        std::fs::create_dir_all(&folder).expect("a folder");
        let opened = SqliteStore::open(&folder.join("store"), catalogue.clone(), sqlite::SqliteOptions::default());
        let store = opened.map_err(|error| format!("a file is not opened: {error}"))?;
        let mut setup = Self::new("file", catalogue, Arc::new(store))?;
        setup.folder = Some(folder);
        Ok(setup)
    }

    /// Creates a schema on the server; `None` if PostgreSQL is not installed. It is not removed, because the server ends with the process.
    pub fn on_a_server(catalogue: &Arc<Catalogue>) -> Option<Result<Self, String>> {
        let server = TestServer::shared()?;
        let schema = format!("definitions{}", next());
        let url = format!("{}?schema={schema}", server.url("postgres"));
        let options = postgres::PostgresOptions { connections: 4, ..postgres::PostgresOptions::default() };
        let opened = PostgresStore::open(&url, catalogue.clone(), &options);
        let store = match opened {
            Ok(store) => store,
            Err(error) => return Some(Err(format!("a schema is not opened: {error}"))),
        };
        Some(Self::new("server", catalogue, Arc::new(store)))
    }
}

impl Drop for TestSetup {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}
