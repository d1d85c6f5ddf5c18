//! `profile`.

use crate::arguments::init::ProfileArgs;
use crate::output::{count, number, table};
use crate::process::stop_signal;
use crate::remote::LocalFiles;
use crate::{CommandError, CommandResult};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use stook_profile::{ColumnProfile, Limits, PARTS, ProfileError, TableProfile, column_types, to_json};

/// Values that are shown with their share.
const FREQUENT: usize = 3;
/// Characters of a value that is shown.
const SHOWN: usize = 24;

pub fn profile(arguments: &ProfileArgs) -> CommandResult {
    let files = LocalFiles::new(&arguments.files)?;
    let mut tables = read(&files.paths, arguments.rows).map_err(|error| files.named(error))?;
    tables.iter_mut().flat_map(|table| &mut table.files).for_each(|file| *file = files.shown(file));
    for (index, found) in tables.iter().enumerate() {
        if arguments.json {
            say!("{}", to_json(found));
            continue;
        }
        if index > 0 {
            say!("");
        }
        show(found);
    }
    Ok(if tables.iter().any(|table| table.problems > 0) { 2 } else { 0 })
}

/// Profiles files, with a progress bar on a terminal.
pub fn read(files: &[PathBuf], rows: Option<u64>) -> Result<Vec<TableProfile>, CommandError> {
    let stop = stop_signal()?;
    let groups = stook_profile::group(files)?;
    let bar = ProgressBar::new(groups.iter().map(stook_profile::FileGroup::bytes).sum::<u64>().max(1));
    let style = ProgressStyle::with_template("{bar:32.cyan/blue} {percent:>3}%  {elapsed_precise} (eta {eta})");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut tables, mut before) = (Vec::new(), 0);
    for group in groups {
        let size = group.bytes();
        let progress = |bytes: u64| {
            bar.set_position(before + bytes);
            !stop.load(Ordering::SeqCst)
        };
        let result = stook_profile::profile(group, Limits { documents: rows }, &progress);
        if let Err(ProfileError::Stopped) = result {
            bar.finish_and_clear();
            return Err(CommandError::new("stopped; nothing was written (--rows N reads only the beginning of each file)"));
        }
        tables.push(result.inspect_err(|_| bar.finish_and_clear())?);
        before += size;
    }
    bar.finish_and_clear();
    Ok(tables)
}

fn show(found: &TableProfile) {
    let names: Vec<String> = found.files.iter().map(|file| file.display().to_string()).collect();
    let sample = if found.is_sample { " (the first ones)" } else { "" };
    let records = found.reading.records.as_ref().map(|records| format!(", in {records}")).unwrap_or_default();
    say!("{}: {}{sample}, {}{records}", names.join(", "), count(found.documents, "document"), found.reading.family.name());
    found.notes.iter().for_each(|note| say!("note: {note}"));
    if let Some(problem) = &found.problem {
        say!("warning: {} cannot be read; the first: {problem}", count(found.problems, "document"));
    }
    let rows: Vec<Vec<String>> = found
        .columns
        .iter()
        .zip(column_types(found))
        .map(|(column, ty)| {
            let (least, greatest) = bounds(column);
            vec![
                column.path.clone(),
                ty,
                number(found.documents.saturating_sub(column.documents)),
                distinct(column),
                lengths(column),
                least,
                greatest,
                shape(column),
            ]
        })
        .collect();
    let headings = ["column", "type", "null", "distinct", "length", "min", "max", "values"];
    say!("{}", table(&headings, &rows, &[false, false, true, true, true, false, false, false]));
}

fn distinct(column: &ColumnProfile) -> String {
    let about = if column.distinct.is_exact() { "" } else { "about " };
    let unique = if column.distinct.is_unique() && column.values > 1 { " (unique)" } else { "" };
    format!("{about}{}{unique}", number(column.distinct.count()))
}

fn lengths(column: &ColumnProfile) -> String {
    if column.shortest == column.longest { column.longest.to_string() } else { format!("{}-{}", column.shortest, column.longest) }
}

/// The least and the greatest value: as numbers, if all are.
fn bounds(column: &ColumnProfile) -> (String, String) {
    if column.numbers.count == column.values && column.values > 0 {
        return (column.numbers.least.to_string(), column.numbers.greatest.to_string());
    }
    let (least, greatest) = column.texts.clone().unwrap_or_default();
    (shortened(&least), shortened(&greatest))
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= SHOWN { text.to_owned() } else { text.chars().take(SHOWN - 1).chain(['…']).collect() }
}

/// A histogram of numbers, the most frequent values with their shares, or examples.
fn shape(column: &ColumnProfile) -> String {
    let distinct = column.distinct.count();
    if column.numbers.count == column.values && distinct > 12 {
        let shares = column.numbers.histogram(PARTS);
        let most = shares.iter().copied().fold(0.0, f64::max);
        let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let bar = |share: &f64| if *share == 0.0 { ' ' } else { bars[((share / most) * 7.0).round() as usize] };
        return format!("[{}]", shares.iter().map(bar).collect::<String>());
    }
    if distinct <= 50 && distinct * 2 <= column.values {
        let share = |(text, times): (&str, u64)| format!("{} {:.0} %", shortened(text), times as f64 * 100.0 / column.values as f64);
        return column.frequent(FREQUENT).into_iter().map(share).collect::<Vec<_>>().join(", ");
    }
    column.examples.iter().take(FREQUENT).map(|example| shortened(example)).collect::<Vec<_>>().join(", ")
}
