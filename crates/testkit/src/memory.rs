//! A place in memory for files of tests that need not outlive their process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Folders that this process has made.
static CLEANED_NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Free bytes that the place must have to be used.
const MIN_FREE_BYTES: u64 = 4 << 30;

/// A folder in memory with some gigabytes left, or the folder for temporary files.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if free(memory).is_some_and(|free| free >= MIN_FREE_BYTES) { memory.to_owned() } else { std::env::temp_dir() }
}

/// A folder of this process in that place. Nothing is dropped at the end of a process: the next one clears away what those that are gone
/// have left.
///
/// # Errors
/// When it cannot be made.
pub fn folder_of_process(name: &str) -> std::io::Result<PathBuf> {
    let folders = folder();
    let prefix = format!("stook-{name}-");
    for entry in std::fs::read_dir(&folders).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let process = file.to_str().and_then(|file| file.strip_prefix(&prefix));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let folder = folders.join(format!("{prefix}{}", std::process::id()));
    let is_new = CLEANED_NAMES.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    if is_new && folder.exists() {
        // of an earlier process that had the same number
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn free(folder: &Path) -> Option<u64> {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().ok()?;
    String::from_utf8(output.stdout).ok()?.lines().nth(1)?.trim().parse().ok()
}
