//! Files of other machines that are named on the command line: they are fetched into a temporary folder.

use crate::CommandError;
use crate::process::stop_signal;
use std::path::{Path, PathBuf};
use stook_engine::service::files::{fetch_file, is_remote};
use tempfile::TempDir;

/// Files that were given, all on this machine now.
pub struct LocalFiles {
    /// Their paths.
    pub paths: Vec<PathBuf>,
    /// Those that are from elsewhere.
    pub fetched: Vec<Fetched>,
    /// Their folder, which is removed when it is dropped.
    _folder: Option<TempDir>,
}

/// A file from elsewhere.
pub struct Fetched {
    /// Where it is from.
    pub location: String,
    /// Where it is now.
    pub path: PathBuf,
    /// Whether a header leads to a next page.
    pub goes_on: bool,
}

impl LocalFiles {
    /// Fetches the files that are not on this machine.
    ///
    /// # Errors
    /// When one cannot be fetched.
    pub fn new(given: &[PathBuf]) -> Result<Self, CommandError> {
        let mut local = Self { paths: Vec::new(), fetched: Vec::new(), _folder: None };
        for (number, path) in given.iter().enumerate() {
            let Some(location) = path.to_str().filter(|path| is_remote(path)) else {
                local.paths.push(path.clone());
                continue;
            };
            let stop = stop_signal()?;
            let fetched = fetch_file(location, &stop)?;
            let folder = match local._folder.take() {
                Some(folder) => folder,
                None => tempfile::tempdir()?,
            };
            // the name of the file becomes that of the source, and two may have the same
            let own = folder.path().join(number.to_string());
            std::fs::create_dir(&own)?;
            let path = own.join(name_of(&fetched.name));
            fetched.bytes.persist(&path).map_err(|error| CommandError::new(error.to_string()))?;
            local._folder = Some(folder);
            local.paths.push(path.clone());
            local.fetched.push(Fetched { location: location.to_owned(), path, goes_on: fetched.goes_on });
        }
        Ok(local)
    }

    /// An error about these files, with the names by which they were given.
    pub fn named(&self, mut error: CommandError) -> CommandError {
        for fetched in &self.fetched {
            error.message = error.message.replace(&fetched.path.display().to_string(), &fetched.location);
        }
        error
    }

    /// What a path is called where people see it.
    pub fn shown(&self, path: &Path) -> PathBuf {
        self.fetched.iter().find(|fetched| fetched.path == path).map_or_else(|| path.to_owned(), |fetched| PathBuf::from(&fetched.location))
    }
}

/// The name of the file at a URL without its query, as a name of a file of this machine.
fn name_of(url: &str) -> String {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest).trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain: String = name.chars().filter(|character| character.is_ascii_alphanumeric() || "._-".contains(*character)).collect();
    let plain = plain.trim_start_matches('.');
    if plain.is_empty() { "list".to_owned() } else { plain.to_owned() }
}
