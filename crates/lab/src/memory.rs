//! A place in memory for files of tests that need not outlive their process.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Free bytes that the place must have to be used.
const ENOUGH: u64 = 4 << 30;

/// A folder in memory with some gigabytes left, or the folder for temporary files.
pub fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if free(memory).is_some_and(|free| free >= ENOUGH) { memory.to_owned() } else { std::env::temp_dir() }
}

fn free(folder: &Path) -> Option<u64> {
    let told = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output().ok()?;
    String::from_utf8(told.stdout).ok()?.lines().nth(1)?.trim().parse().ok()
}
