//! `backup` and `restore`.

use crate::open::CatalogueLocation;
use crate::output::{bytes, count, number, seconds};
use crate::output_file::Output;
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use stook_store::backup_file::{self, BackupContents, BackupReader};
use stook_store::sqlite::{BackupReport, backup as copy_file};

/// Bytes read and written at once.
const BUFFER: usize = 1 << 20;

/// Backs up the store while it is in use.
pub fn backup(location: &CatalogueLocation, target: &Path, as_json: bool) -> CommandResult {
    if target.extension().is_some_and(|extension| extension == "sqlite") {
        return copy(location, target, as_json);
    }
    let began = Instant::now();
    let (to_stream, path) = (target == Path::new("-"), target.display());
    let (_, store) = location.read()?;
    let mut out = Output::private((!to_stream).then_some(target))?;
    let bar = progress("{spinner} {msg}");
    let contents = {
        let mut buffered = BufWriter::with_capacity(BUFFER, &mut out);
        backup_file::write(&*store, &mut buffered, &mut |rows, size| bar.set_message(format!("{} rows, {}", number(rows), bytes(size))))?
    };
    out.finish()?;
    bar.finish_and_clear();
    // what is on the disk is what counts
    if !to_stream && verified(target)? != contents {
        return Err(CommandError::new(format!("{path}: the backup is not what was written; check the disk")));
    }
    let code = report_left_out(&contents);
    let took = seconds(began.elapsed());
    match (to_stream, as_json) {
        (true, _) => eprintln!("backed up {}: {}, {} in {took}", location.describe()?, summary(&contents), bytes(contents.bytes)),
        (false, true) => say!("{}", to_json(target, &contents, began.elapsed())),
        (false, false) => say!("backed up {} to {path}: {}, {} in {took}", location.describe()?, summary(&contents), bytes(contents.bytes)),
    }
    Ok(code)
}

/// Reads a backup and checks all of it.
pub fn verify(file: &Path, as_json: bool) -> CommandResult {
    let began = Instant::now();
    let contents = verified(file)?;
    let code = report_left_out(&contents);
    if as_json {
        say!("{}", to_json(file, &contents, began.elapsed()));
    } else {
        say!("{} is complete and undamaged: {}, {}", file.display(), summary(&contents), bytes(contents.bytes));
    }
    Ok(code)
}

/// Restores a backup into a new store.
pub fn restore(location: &CatalogueLocation, file: &Path, as_json: bool) -> CommandResult {
    let began = Instant::now();
    let in_file = |error: stook_store::StoreError| CommandError::new(format!("{}: {error}", file.display()));
    let mut input = open(file)?;
    let reader = BackupReader::new(&mut input).map_err(in_file)?;
    let catalogue = location.catalogue()?;
    let new_file = location.file()?.filter(|path| !path.exists());
    // a store that is there already must have the definition, and hold nothing
    let store = if location.prepared_for()?.is_some() { location.written()?.1 } else { location.prepared(&catalogue, true)? };
    let restored = reader.restore(&*store).map_err(in_file);
    drop(store);
    let contents = match restored {
        Ok(contents) => contents,
        Err(error) => {
            // nothing was restored, so there shall be no store that looks like one
            new_file.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err(error);
        }
    };
    // as whoever uses it next opens it: mappings that the definition has and the backed-up store had not get their numbers
    location.prepared(&catalogue, true)?;
    let code = report_left_out(&contents);
    if as_json {
        say!("{}", to_json(file, &contents, began.elapsed()));
    } else {
        say!("restored {} into {}: {} in {}", file.display(), location.describe()?, summary(&contents), seconds(began.elapsed()));
    }
    Ok(code)
}

fn open(file: &Path) -> Result<Box<dyn Read>, CommandError> {
    if file == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let opened = File::open(file).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))?;
    Ok(Box::new(BufReader::with_capacity(BUFFER, opened)))
}

fn verified(file: &Path) -> Result<BackupContents, CommandError> {
    backup_file::verify(&mut open(file)?).map_err(|error| CommandError::new(format!("{}: {error}", file.display())))
}

/// Copies the store's file.
fn copy(location: &CatalogueLocation, target: &Path, as_json: bool) -> CommandResult {
    let Some(store) = location.file()? else {
        return Err(CommandError::new(format!(
            "{}: a store on a server has no file that could be copied; a name that does not end in .sqlite makes a backup of it, which `stook restore` also \
             restores into a file",
            target.display()
        )));
    };
    let began = Instant::now();
    let bar = progress("{bar:30} {bytes} of {total_bytes}, {bytes_per_sec}");
    let copied = copy_file(&store, target, &mut |done, all| {
        bar.set_length(all);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let BackupReport { bytes: size, recopied: again } = copied?;
    if as_json {
        say!("{}", json!({ "file": target.display().to_string(), "bytes": size, "copied_again": again, "seconds": began.elapsed().as_secs_f64() }));
    } else {
        let twice = if again > 0 { format!("; {} changed during the backup and were copied again", bytes(again)) } else { String::new() };
        say!("copied {1} to {0}: {2} in {3}{twice}", target.display(), store.display(), bytes(size), seconds(began.elapsed()));
    }
    Ok(0)
}

fn progress(template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// What a backup contains, in words.
fn summary(contents: &BackupContents) -> String {
    let parts = [(contents.records(), "record"), (contents.rows_of("jobs"), "job"), (contents.rows_of("api_tokens"), "token")];
    parts.map(|(how_many, what)| count(how_many, what)).join(", ")
}

fn to_json(file: &Path, contents: &BackupContents, took: Duration) -> Json {
    json!({
        "file": file.display().to_string(),
        "bytes": contents.bytes,
        "records": contents.records(),
        "rows": contents.rows,
        "damaged": contents.left_out,
        "seconds": took.as_secs_f64(),
    })
}

/// Names damaged records that are not in a backup; returns the exit code.
fn report_left_out(contents: &BackupContents) -> u8 {
    if contents.left_out == 0 {
        return 0;
    }
    eprintln!("{} could not be read and is not in the backup; `stook check --deep` lists them all:", count(contents.left_out, "damaged record"));
    contents.named.iter().for_each(|words| eprintln!("  {words}"));
    2
}
