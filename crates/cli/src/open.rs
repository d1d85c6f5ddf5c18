//! From the command line to an opened catalogue and store.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::parse::parse;
use stook_store::postgres::PostgresStore;
use stook_store::sqlite::SqliteStore;
use stook_store::{Store, Tenant, postgres, sqlite};

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

    /// Opens the store of a catalogue. A file is created and changed as the definition wants it, a server's tables are only by
    /// `prepare`. Says what opening it changed.
    pub fn store(&self, catalogue: &Arc<Catalogue>, prepare: bool) -> Result<Arc<dyn Store>, Failure> {
        let store: Arc<dyn Store> = match self.address()? {
            Address::File(path) => {
                let opened = SqliteStore::open(&path, catalogue.clone(), sqlite::Options::default());
                Arc::new(opened.map_err(|error| Failure::new(format!("{}: {error}", path.display())))?)
            }
            Address::Server(url) => {
                let options = postgres::Options { prepare, ..postgres::Options::default() };
                Arc::new(PostgresStore::open(&url, catalogue.clone(), &options).map_err(|error| Failure::new(error.to_string()))?)
            }
        };
        for change in store.changes() {
            eprintln!("note: {change}");
        }
        Ok(store)
    }

    /// Opens catalogue and store.
    pub fn open(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        let catalogue = self.catalogue()?;
        let store = self.store(&catalogue, false)?;
        Ok((catalogue, store))
    }

    /// Opens catalogue and store for reading: a store that does not exist is not made.
    pub fn open_existing(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        if let Address::File(path) = self.address()?
            && !path.exists()
        {
            return Err(Failure::new(format!("{} does not exist yet; `stook import FILE` makes it", path.display())));
        }
        self.open()
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

/// Where a store is.
enum Address {
    File(PathBuf),
    Server(String),
}

/// Checks a tenant's name.
pub fn tenant(name: &str) -> Result<Tenant, Failure> {
    Tenant::new(name).map_err(|error| Failure::usage(error.to_string()))
}
