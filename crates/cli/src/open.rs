//! Opens the catalogue and its store, and parses tenants and times of the command line.

use crate::CommandError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stook_catalogue::definition::{AreaFile, Catalogue};
use stook_catalogue::diagnostic::{Diagnostic, render};
use stook_catalogue::parse::parse_with_files;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_store::admin::AdminStore;
use stook_store::postgres::PostgresStore;
use stook_store::sqlite::SqliteStore;
use stook_store::store_schema::PreparedFor;
use stook_store::{Store, StoreError, Tenant, postgres, sqlite};

/// Reads a file that a definition names, if it is no longer than such a file may be.
fn read_beside(path: &Path) -> std::io::Result<String> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    if about.len() > MAX_BESIDE {
        return Err(std::io::Error::other(format!(
            "it has {}, and may have {}",
            crate::output::bytes(about.len()),
            crate::output::bytes(MAX_BESIDE)
        )));
    }
    std::fs::read_to_string(path)
}

/// Bytes that a file beside the definition has at most.
const MAX_BESIDE: u64 = stook_catalogue::parse::MAX_AREA_FILE as u64;

/// What must be known of the files of named areas.
pub fn notes_of_areas(catalogue: &Catalogue) -> Vec<String> {
    let note = |file: &AreaFile| match (&file.hash, file.repairs.as_slice()) {
        (None, _) => Some(format!("`{}` is not there: what expressions ask of the areas `{}` is null", file.file, file.name)),
        (Some(_), []) => None,
        (Some(_), [first]) => Some(format!("`{}` was repaired: {first}", file.file)),
        (Some(_), [first, more @ ..]) => Some(format!("`{}` was repaired: {first}, and in {} other places", file.file, more.len())),
    };
    catalogue.area_files.iter().filter_map(note).collect()
}

/// Where the catalogue and its store are.
pub struct CatalogueLocation {
    /// The folder of the catalogue.
    pub folder: PathBuf,
    /// The value of `--store`.
    pub store: Option<String>,
}

impl CatalogueLocation {
    /// Returns the path of the definition.
    pub fn definition(&self) -> PathBuf {
        self.folder.join("catalogue.yaml")
    }

    /// Reads the text of the definition.
    pub fn text(&self) -> Result<String, CommandError> {
        let path = self.definition();
        std::fs::read_to_string(&path).map_err(|error| {
            let hint = if error.kind() == std::io::ErrorKind::NotFound {
                "; give the catalogue's folder with -C, or create one with `stook init DIR`"
            } else {
                ""
            };
            CommandError::new(format!("{}: {error}{hint}", path.display()))
        })
    }

    /// Reads and compiles the definition.
    pub fn catalogue(&self) -> Result<Arc<Catalogue>, CommandError> {
        let text = self.text()?;
        match self.parsed(&text) {
            Ok(catalogue) => Ok(Arc::new(catalogue)),
            Err(problems) => {
                let shown = render(&self.definition().display().to_string(), &text, &problems, crate::output::colours());
                Err(CommandError::new(format!("{shown}{}", crate::output::count(problems.len() as u64, "mistake"))))
            }
        }
    }

    /// Compiles the text of the definition, and reads files that it names from its folder.
    pub fn parsed(&self, text: &str) -> Result<Catalogue, Vec<Diagnostic>> {
        parse_with_files(text, &|file| read_beside(&self.folder.join(file)))
    }

    /// Opens the store to import or to run workers. A file is created, and changed as the definition requires; the tables of a server are changed
    /// only if `prepare` is true. Prints what was changed.
    pub fn prepared(&self, catalogue: &Arc<Catalogue>, prepare: bool) -> Result<Arc<dyn Store>, CommandError> {
        self.opened(catalogue, &postgres::PostgresOptions { prepare, ..postgres::PostgresOptions::default() })
    }

    /// The same for a server, whose callers are not left waiting while the database is down.
    pub fn served(&self, catalogue: &Arc<Catalogue>) -> Result<Arc<dyn Store>, CommandError> {
        self.opened(catalogue, &postgres::PostgresOptions { outage: SERVED_OUTAGE, ..UNPREPARED })
    }

    fn opened(&self, catalogue: &Arc<Catalogue>, options: &postgres::PostgresOptions) -> Result<Arc<dyn Store>, CommandError> {
        let store: Arc<dyn Store> = match self.address()? {
            StoreAddress::File(path) => Arc::new(file(&path, catalogue, sqlite::SqliteOptions::default())?),
            StoreAddress::Server(url) => server(&url, catalogue, options)?,
        };
        notes_of_areas(catalogue).iter().for_each(|note| eprintln!("note: {note}"));
        for change in store.changes() {
            eprintln!("note: {change}");
        }
        if store.has_replaced_definition() {
            eprintln!("note: the store's definition was updated; restart servers and workers that use the previous one");
        }
        Ok(store)
    }

    /// Returns what the store was prepared for, if there is a store; it is not changed.
    pub fn prepared_for(&self) -> Result<Option<PreparedFor>, CommandError> {
        match self.address()? {
            StoreAddress::File(path) => SqliteStore::prepared_for(&path).map_err(|error| CommandError::new(format!("{}: {error}", path.display()))),
            StoreAddress::Server(url) => Ok(PostgresStore::prepared_for(&url)?),
        }
    }

    /// Opens catalogue and store to write records. A store with another definition is refused; a file that does not exist is created.
    pub fn written(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), CommandError> {
        let catalogue = self.catalogue()?;
        let store: Arc<dyn Store> = match self.address()? {
            StoreAddress::File(path) => {
                let options = sqlite::SqliteOptions { prepare: sqlite::SqliteStore::is_missing(&path), ..sqlite::SqliteOptions::default() };
                Arc::new(file(&path, &catalogue, options)?)
            }
            StoreAddress::Server(url) => server(&url, &catalogue, &UNPREPARED)?,
        };
        Ok((catalogue, store))
    }

    /// The same, but the store must exist.
    pub fn written_existing(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), CommandError> {
        self.existing()?;
        self.written()
    }

    /// Opens catalogue and store to read: nothing is created or changed. A store with another definition is refused, unless its store schema is the
    /// same.
    pub fn read(&self) -> Result<(Arc<Catalogue>, Arc<dyn Store>), CommandError> {
        self.existing()?;
        let catalogue = self.catalogue()?;
        let store: Arc<dyn Store> = match self.address()? {
            StoreAddress::File(path) => {
                Arc::new(file(&path, &catalogue, sqlite::SqliteOptions { read_only: true, prepare: false, ..sqlite::SqliteOptions::default() })?)
            }
            StoreAddress::Server(url) => server(&url, &catalogue, &postgres::PostgresOptions { read_only: true, ..UNPREPARED })?,
        };
        Ok((catalogue, store))
    }

    /// Opens the jobs, chunks and tokens of the store, which needs no definition.
    pub fn admin_store(&self, read_only: bool) -> Result<AdminStore, CommandError> {
        self.existing()?;
        match self.address()? {
            StoreAddress::File(path) => {
                let opened = AdminStore::open_file(&path, sqlite::SqliteOptions { read_only, ..sqlite::SqliteOptions::default() });
                opened.map_err(|error| named(&path, &error))
            }
            StoreAddress::Server(url) => AdminStore::open_server(&url, &UNPREPARED).map_err(|error| CommandError::new(error.to_string())),
        }
    }

    /// Whether there is a store; a server is assumed to have one.
    pub fn exists(&self) -> Result<bool, CommandError> {
        Ok(match self.address()? {
            StoreAddress::File(path) => path.exists(),
            StoreAddress::Server(_) => true,
        })
    }

    fn existing(&self) -> Result<(), CommandError> {
        match self.address()? {
            StoreAddress::File(path) if !path.exists() => {
                Err(CommandError::new(format!("{} does not exist yet; `stook import FILE` creates it", path.display())))
            }
            _ => Ok(()),
        }
    }

    /// Whether the store is a file.
    pub fn is_file(&self) -> Result<bool, CommandError> {
        Ok(matches!(self.address()?, StoreAddress::File(_)))
    }

    /// Where the store is, in words that contain no password.
    pub fn describe(&self) -> Result<String, CommandError> {
        Ok(match self.address()? {
            StoreAddress::File(path) => path.display().to_string(),
            StoreAddress::Server(_) => "the store on the server".to_owned(),
        })
    }

    /// Returns the store's file, if it is one.
    pub fn file(&self) -> Result<Option<PathBuf>, CommandError> {
        Ok(match self.address()? {
            StoreAddress::File(path) => Some(path),
            StoreAddress::Server(_) => None,
        })
    }

    fn address(&self) -> Result<StoreAddress, CommandError> {
        match self.store.as_deref() {
            None => Ok(StoreAddress::File(self.folder.join("stook.sqlite"))),
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => Ok(StoreAddress::Server(url.to_owned())),
            Some(url) if url.contains("://") => Err(CommandError::usage(format!(
                "{}: a store is FILE, sqlite:FILE or postgres://USER@HOST/DATABASE",
                url.split("://").next().unwrap_or_default()
            ))),
            Some(url) => Ok(StoreAddress::File(Path::new(url.strip_prefix("sqlite:").unwrap_or(url)).to_owned())),
        }
    }
}

/// Seconds for which requests to `stook serve` wait for a database that cannot be reached, before all are refused at once.
const SERVED_OUTAGE: u64 = 2;

/// Options for a server's store that is opened without preparing it.
const UNPREPARED: postgres::PostgresOptions = postgres::PostgresOptions { wait: 30, outage: 30, connections: 16, prepare: false, read_only: false };

fn file(path: &Path, catalogue: &Arc<Catalogue>, options: sqlite::SqliteOptions) -> Result<SqliteStore, CommandError> {
    SqliteStore::open(path, catalogue.clone(), options).map_err(|error| named(path, &error))
}

fn server(url: &str, catalogue: &Arc<Catalogue>, options: &postgres::PostgresOptions) -> Result<Arc<dyn Store>, CommandError> {
    let store = PostgresStore::open(url, catalogue.clone(), options).map_err(|error| CommandError::new(error.to_string()))?;
    #[cfg(feature = "postgres")]
    return Ok(Arc::new(store));
    // without the feature no such store can be opened
    #[cfg(not(feature = "postgres"))]
    match store {}
}

fn named(path: &Path, error: &StoreError) -> CommandError {
    CommandError::new(format!("{}: {error}", path.display()))
}

/// The address of a store.
enum StoreAddress {
    File(PathBuf),
    Server(String),
}

/// Checks a tenant's name.
pub fn tenant(name: &str) -> Result<Tenant, CommandError> {
    Tenant::new(name).map_err(|error| CommandError::usage(error.to_string()))
}

/// Parses the time in an option.
pub fn time(option: &str, text: &str) -> Result<i64, CommandError> {
    match from_text(text, &FieldType::Timestamp, None) {
        Ok(Value::Int(micros)) => Ok(micros),
        Ok(_) => Err(CommandError::usage(format!("{option}: {text} is not a time"))),
        Err(error) => Err(CommandError::usage(format!("{option}: {error}"))),
    }
}
