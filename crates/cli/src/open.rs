//! From the command line to an opened catalogue and store.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::render;
use stook_catalogue::parse::parse;
use stook_store::sqlite::{Options, SqliteStore};
use stook_store::{Store, Tenant};

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

    /// Opens the store of a catalogue, creating it if it is new. Says what opening it changed.
    pub fn store(&self, catalogue: &Arc<Catalogue>) -> Result<Arc<dyn Store>, Failure> {
        let path = self.store_path()?;
        let store =
            SqliteStore::open(&path, catalogue.clone(), Options::default()).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        for change in store.changes() {
            eprintln!("note: {change}");
        }
        Ok(Arc::new(store))
    }

    /// Opens catalogue and store.
    pub fn open(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        let catalogue = self.catalogue()?;
        let store = self.store(&catalogue)?;
        Ok((catalogue, store))
    }

    /// Opens catalogue and store for reading: a store that does not exist is not made.
    pub fn open_existing(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), Failure> {
        let path = self.store_path()?;
        if !path.exists() {
            return Err(Failure::new(format!("{} does not exist yet; `stook import FILE` makes it", path.display())));
        }
        self.open()
    }

    fn store_path(&self) -> Result<PathBuf, Failure> {
        match self.store.as_deref() {
            None => Ok(self.folder.join("stook.sqlite")),
            Some(url) if url.contains("://") => Err(Failure::usage(format!("{url}: only files are stores in this version (FILE or sqlite:FILE)"))),
            Some(url) => Ok(Path::new(url.strip_prefix("sqlite:").unwrap_or(url)).to_owned()),
        }
    }
}

/// Checks a tenant's name.
pub fn tenant(name: &str) -> Result<Tenant, Failure> {
    Tenant::new(name).map_err(|error| Failure::usage(error.to_string()))
}
