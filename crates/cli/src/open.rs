//! From the command line to an opened catalogue and store.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::parse::parse;
use stook_store::ledger::Ledger;
use stook_store::postgres::PostgresStore;
use stook_store::shape::Shape;
use stook_store::sqlite::SqliteStore;
use stook_store::{Store, StoreError, Tenant, postgres, sqlite};

/// Where the catalogue and its store are.
pub struct Place {
    /// The catalogue's folder.
    pub folder: PathBuf,
    /// What `--store` says.
    pub store: Option<String>,
}

impl Place {
    /// The definition's file.
    pub fn definition(&self) -> PathBuf {
        self.folder.join("catalogue.yaml")
    }

    /// Reads the definition's text.
    pub fn text(&self) -> Result<String, Failure> {
        let path = self.definition();
        std::fs::read_to_string(&path).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::NotFound {
                "; name the catalogue's folder with -C, or make one with `stook init DIR`"
            } else {
                ""
            };
            Failure::new(format!("{}: {error}{hint}", path.display()))
        })
    }

    /// Reads and compiles the definition.
    pub fn catalogue(&self) -> Result<Arc<Catalogue>, Failure> {
        let text = self.text()?;
        match parse(&text) {
            Ok(catalogue) => Ok(Arc::new(catalogue)),
            Err(problems) => {
                let shown = render(&self.definition().display().to_string(), &text, &problems, crate::output::colours());
                Err(Failure::new(format!("{shown}{}", crate::output::count(problems.len() as u64, "mistake"))))
            }
        }
    }

    /// Opens the store for whoever imports or works: a file is made, and changed as the definition wants it; a server's tables are
    /// only by `prepare`. Says what that changed.
    pub fn prepared(&self, catalogue: &Arc<Catalogue>, prepare: bool) -> Result<Arc<dyn Store>, Failure> {
        let store: Arc<dyn Store> = match self.address()? {
            Address::File(path) => Arc::new(file(&path, catalogue, sqlite::Options::default())?),
            Address::Server(url) => Arc::new(server(&url, catalogue, &postgres::Options { prepare, ..postgres::Options::default() })?),
        };
        for change in store.changes() {
            eprintln!("note: {change}");
        }
        if store.has_redefined() {
            eprintln!("note: the store has another definition now; servers and workers that run with the one before must be started again");
        }
        Ok(store)
    }

    /// What the store was prepared for, if there is one; it is not changed.
    pub fn prepared_for(&self) -> Result<Option<Shape>, Failure> {
        match self.address()? {
            Address::File(path) => SqliteStore::prepared_for(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display()))),
            Address::Server(url) => Ok(PostgresStore::prepared_for(&url)?),
        }
    }

    /// Opens catalogue and store to write records. A store of another definition is refused, a file that does not exist is made.
    pub fn written(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        let catalogue = self.catalogue()?;
        let store: Arc<dyn Store> = match self.address()? {
            Address::File(path) => {
                let options = sqlite::Options { prepare: !path.exists(), ..sqlite::Options::default() };
                Arc::new(file(&path, &catalogue, options)?)
            }
            Address::Server(url) => Arc::new(server(&url, &catalogue, &WRITTEN)?),
        };
        Ok((catalogue, store))
    }

    /// The same of a store that must exist.
    pub fn written_existing(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        self.existing()?;
        self.written()
    }

    /// Opens catalogue and store to read: nothing is made or changed. A store of another definition is refused, unless rows look alike.
    pub fn read(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        self.existing()?;
        let catalogue = self.catalogue()?;
        let store: Arc<dyn Store> = match self.address()? {
            Address::File(path) => {
                Arc::new(file(&path, &catalogue, sqlite::Options { read_only: true, prepare: false, ..sqlite::Options::default() })?)
            }
            Address::Server(url) => Arc::new(server(&url, &catalogue, &postgres::Options { read_only: true, ..WRITTEN })?),
        };
        Ok((catalogue, store))
    }

    /// Opens what the store knows of jobs, chunks and tokens, which needs no definition.
    pub fn ledger(&self, read_only: bool) -> Result<Ledger, Failure> {
        self.existing()?;
        match self.address()? {
            Address::File(path) => {
                let opened = Ledger::of_file(&path, sqlite::Options { read_only, ..sqlite::Options::default() });
                opened.map_err(|error| named(&path, &error))
            }
            Address::Server(url) => Ledger::of_server(&url, &WRITTEN).map_err(|error| Failure::new(error.to_string())),
        }
    }

    /// Whether there is a store, as far as a file shows it.
    pub fn exists(&self) -> Result<bool, Failure> {
        Ok(match self.address()? {
            Address::File(path) => path.exists(),
            Address::Server(_) => true,
        })
    }

    fn existing(&self) -> Result<(), Failure> {
        match self.address()? {
            Address::File(path) if !path.exists() => {
                Err(Failure::new(format!("{} does not exist yet; `stook import FILE` makes it", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Whether the store is a file.
    pub fn is_file(&self) -> Result<bool, Failure> {
        Ok(matches!(self.address()?, Address::File(_)))
    }

    /// The store's file, if it is one.
    pub fn file(&self) -> Result<Option<PathBuf>, Failure> {
        Ok(match self.address()? {
            Address::File(path) => Some(path),
            Address::Server(_) => None,
        })
    }

    fn address(&self) -> Result<Address, Failure> {
        match self.store.as_deref() {
            None => Ok(Address::File(self.folder.join("stook.sqlite"))),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => Ok(Address::Server(url.to_owned())),
            Some(url) if url.contains("://") => Err(Failure::usage(format!(
                "{}: a store is FILE, sqlite:FILE or postgres://USER@HOST/DATABASE",
                url.split("://").next().unwrap_or_default()
            ))),
            Some(url) => Ok(Address::File(Path::new(url.strip_prefix("sqlite:").unwrap_or(url)).to_owned())),
        }
    }
}

/// How a store on a server is opened that is not prepared by it.
const WRITTEN: postgres::Options = postgres::Options { wait: 30, connections: 16, prepare: false, read_only: false };

fn file(path: &Path, catalogue: &Arc<Catalogue>, options: sqlite::Options) -> Result<SqliteStore, Failure> {
    SqliteStore::open(path, catalogue.clone(), options).map_err(|error| named(path, &error))
}

fn server(url: &str, catalogue: &Arc<Catalogue>, options: &postgres::Options) -> Result<PostgresStore, Failure> {
    PostgresStore::open(url, catalogue.clone(), options).map_err(|error| Failure::new(error.to_string()))
}

fn named(path: &Path, error: &StoreError) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// Where a store is.
enum Address {
    File(PathBuf),
    Server(String),
}

/// Checks a tenant's name.
pub fn tenant(name: &str) -> Result<Tenant, Failure> {
    Tenant::new(name).map_err(|error| Failure::usage(error.to_string()))
}
