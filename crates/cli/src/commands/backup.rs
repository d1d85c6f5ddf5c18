//! `backup`.

use crate::open::CatalogueLocation;
use crate::output::{bytes, seconds};
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::path::Path;
use std::time::Instant;
use stook_store::sqlite::{BackupReport, backup};

/// Copies the store while it is in use.
pub fn run(location: &CatalogueLocation, target: &Path, as_json: bool) -> CommandResult {
    let Some(store) = location.file()? else {
        return Err(CommandError::new(
            "the store is on a PostgreSQL server: `pg_dump --schema=NAME --format=custom --file=FILE DATABASE` makes a copy of it while it is used, \
             `pg_restore` puts it back (NAME is the schema of --store, or public)",
        ));
    };
    let began = Instant::now();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}").unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let copied = backup(&store, target, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let BackupReport { bytes: size, recopied: again } = copied?;
    if as_json {
        say!("{}", json!({ "file": target.display().to_string(), "bytes": size, "copied_again": again, "seconds": began.elapsed().as_secs_f64() }));
    } else {
        let twice = if again > 0 { format!("; {} changed during the backup and were copied again", bytes(again)) } else { String::new() };
        say!("backed up {1} to {0}: {2} in {3}{twice}", target.display(), store.display(), bytes(size), seconds(began.elapsed()));
    }
    Ok(0)
}
