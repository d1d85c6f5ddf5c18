//! Notices when the files of a store are removed or replaced by others while they are in use: what is written then is in files without a name, and is gone
//! when the last process closes them.

use super::wal::wal_path;
use crate::{Result, StoreError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What a name on a disk leads to.
#[derive(PartialEq, Eq)]
struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// The files of a store that a connection has opened.
pub struct FilesInUse(Vec<(PathBuf, FileIdentity)>);

impl FilesInUse {
    /// Notes the file and its WAL. A connection must have read from them.
    pub fn of_store(path: &Path) -> Self {
        let files = [path.to_owned(), wal_path(path)];
        Self(files.into_iter().filter_map(|path| FileIdentity::of(&path).map(|identity| (path, identity))).collect())
    }

    /// Checks that the names still lead to the files that were opened.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], with the file.
    pub fn check(&self) -> Result<()> {
        match self.0.iter().find(|(path, opened)| FileIdentity::of(path).as_ref() != Some(opened)) {
            None => Ok(()),
            Some((path, _)) => Err(StoreError::ReadOnly(format!(
                "{} was removed or replaced while it was in use; stop all that uses the store, and restore a backup",
                path.display()
            ))),
        }
    }
}
