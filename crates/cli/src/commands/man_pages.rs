//! `stook man-pages`: a manual page for each command, made of its help.

use crate::arguments::Arguments;
use crate::error::{CommandError, CommandResult};
use clap::CommandFactory;
use std::path::Path;

/// Writes the manual pages into a folder, which is made.
pub fn write(folder: &Path) -> CommandResult {
    let result = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Arguments::command(), folder));
    result.map_err(|error| CommandError::new(format!("write manual pages into {}: {error}", folder.display())))?;
    Ok(0)
}
