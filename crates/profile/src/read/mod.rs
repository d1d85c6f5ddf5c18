//! Reads files for a profile: which of them are read together, and what their documents contain.

mod dialect;
mod json;
mod marc;
mod records;
mod table;
mod xml;

use crate::column::{ColumnProfile, Native};
use crate::distinct::hash_of;
use crate::guess::names;
use crate::table::{KEPT_ROWS, Reading, TableProfile};
use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use stook_catalogue::definition::{CsvOptions, FormatFamily};
use stook_formats::read::{DocumentReader, OpenedInput, open};
use stook_formats::scan::ScanOptions;
use stook_formats::strange::is_html;
use stook_formats::{Document, Syntax};

/// Maximum number of columns and paths that are profiled.
const MAX_COLUMNS: usize = 400;
/// Bytes of a file from which the way to read it is recognised.
const LOOK_AHEAD: u64 = 1 << 20;

/// Number of bytes from which binary data is recognised.
const LOOKED_AT: usize = 4_096;
/// Control characters that a text may have by accident.
const MAX_STRAY_CONTROLS: usize = 8;
/// Of so many bytes, one at most is a control character in a damaged text; binary data has more.
const BYTES_PER_CONTROL: usize = 20;

/// Whether bytes are not text, as those of pictures, archives and what file systems keep beside files (`._name`). A few control characters are
/// damage in a text; the separators of MARC are none.
fn is_binary(bytes: &[u8]) -> bool {
    let bytes = &bytes[..bytes.len().min(LOOKED_AT)];
    let is_control = |byte: &&u8| matches!(byte, 0x00..=0x08 | 0x0e..=0x1a | 0x7f);
    let controls = bytes.iter().filter(is_control).count();
    controls > MAX_STRAY_CONTROLS && controls * BYTES_PER_CONTROL > bytes.len()
}

/// How much is read.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Documents of each file; all if it is not given.
    pub documents: Option<u64>,
}

/// Why a file cannot be profiled.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("{file}: {error}")]
    File {
        /// The file.
        file: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is not understood.
    #[error("{file}: {reason}")]
    Content {
        /// The file.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Reading was stopped.
    #[error("stopped")]
    Stopped,
}

/// Files that are read in the same way, and as one source.
#[derive(Debug)]
pub struct FileGroup {
    files: Vec<PathBuf>,
    syntax: Syntax,
    reading: Reading,
    own_header: Option<CsvOptions>,
    delimiter: u8,
    notes: Vec<String>,
}

/// Finds how files are read, and which of them are deliveries of one source: those with the same columns whose names differ only in numbers.
///
/// # Errors
/// When a file cannot be read, is empty, or contains no documents.
pub fn group(files: &[PathBuf]) -> Result<Vec<FileGroup>, ProfileError> {
    let mut groups: Vec<FileGroup> = Vec::new();
    for file in files {
        let found = recognise(file)?;
        let same = groups.iter_mut().find(|group| {
            let is_named_alike = names::stem(&group.files[0]) == names::stem(file) || found.reading.family == FormatFamily::Marc;
            group.syntax == found.syntax && group.reading == found.reading && is_named_alike
        });
        match same {
            Some(group) => group.files.push(file.clone()),
            None => groups.push(found),
        }
    }
    Ok(groups)
}

impl FileGroup {
    /// The number of bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().filter_map(|file| file.metadata().ok()).map(|about| about.len()).sum()
    }
}

/// Opens a file.
fn opened(file: &Path) -> Result<OpenedInput, ProfileError> {
    open(file).map_err(|error| ProfileError::File { file: file.display().to_string(), error })
}

/// Finds how a file is read.
fn recognise(file: &Path) -> Result<FileGroup, ProfileError> {
    let name = file.display().to_string();
    let refused = |reason: String| ProfileError::Content { file: name.clone(), reason };
    let mut input = opened(file)?;
    let sheets = input.sheets().map_err(|error| ProfileError::File { file: name.clone(), error })?;
    let syntax = input.syntax.ok_or_else(|| refused("it is empty; give a file with documents".to_owned()))?;
    if is_html(&input.beginning) {
        return Err(refused("it looks like HTML, which is often an error page instead of data".to_owned()));
    }
    if is_binary(&input.beginning) {
        return Err(refused("it looks like binary data, not text; give a table, JSON, XML or MARC".to_owned()));
    }
    let mut beginning = Vec::new();
    let read = (&mut input.bytes).take(LOOK_AHEAD).read_to_end(&mut beginning);
    read.map_err(|error| ProfileError::File { file: name.clone(), error })?;
    let is_whole = (beginning.len() as u64) < LOOK_AHEAD;
    let mut reading = Reading { family: syntax.family(), csv: CsvOptions::DEFAULT, records: None, namespaces: Vec::new() };
    let (mut delimiter, mut notes, mut own_header) = (b',', Vec::new(), None);
    match syntax.family() {
        FormatFamily::Csv => {
            let rest = input.bytes;
            let table = dialect::recognise(&beginning, is_whole, rest, !sheets.is_empty()).map_err(refused)?;
            (reading.csv, own_header, delimiter, notes) = (table.options, table.own_header, table.delimiter, table.notes);
            if sheets.len() > 1 {
                let others = sheets[1..].join(", ");
                notes.push(format!("only the first sheet, {}, is read; `sheet:` names another one: {others}", sheets[0]));
            }
        }
        FormatFamily::Json => {
            let found = records::of_json(&beginning);
            if found.is_map {
                let advice = "jq -c 'to_entries[] | {key: .key} + .value' FILE > FILE.ndjson";
                return Err(refused(format!(
                    "its documents are the members of one object, which no `records` can name; make lines of them: {advice}"
                )));
            }
            reading.records = found.records;
            notes.extend(found.note);
        }
        FormatFamily::Xml => {
            let found = records::of_xml(&beginning);
            reading.records = found.records;
            notes.extend(found.note);
        }
        FormatFamily::Marc => {}
    }
    Ok(FileGroup { files: vec![file.to_owned()], syntax, reading, own_header, delimiter, notes })
}

/// Profiles the files of a group. `progress` is told the number of bytes that were read, and says whether to go on.
///
/// # Errors
/// When a file cannot be read, or reading was stopped.
pub fn profile(group: FileGroup, limits: Limits, progress: &dyn Fn(u64) -> bool) -> Result<TableProfile, ProfileError> {
    let FileGroup { files, syntax, reading, own_header, delimiter, notes } = group;
    let sets_apart = reading.family == FormatFamily::Csv;
    let mut columns = Columns { sets_apart, ..Columns::default() };
    columns.columns.extend(reading.csv.header.iter().map(ColumnProfile::new));
    let mut profile = TableProfile {
        files,
        reading,
        documents: 0,
        problems: 0,
        problem: None,
        is_sample: false,
        notes,
        columns: Vec::new(),
        rows: Vec::new(),
        own_header,
        delimiter,
    };
    let mut bytes_before = 0;
    for file in profile.files.clone() {
        read_file(&file, syntax, &mut profile, &mut columns, &Progress { limits, bytes_before, report: progress })?;
        bytes_before += file.metadata().map_or(0, |about| about.len());
    }
    columns.finish(&mut profile);
    if profile.documents == 0 {
        let reason = profile.problem.map_or_else(|| "it has no documents".to_owned(), |problem| format!("no document can be read: {problem}"));
        return Err(ProfileError::Content { file: profile.files[0].display().to_string(), reason });
    }
    Ok(profile)
}

/// How far reading may go, and to whom its progress is told.
struct Progress<'p> {
    limits: Limits,
    bytes_before: u64,
    report: &'p dyn Fn(u64) -> bool,
}

fn read_file(file: &Path, syntax: Syntax, profile: &mut TableProfile, columns: &mut Columns, progress: &Progress<'_>) -> Result<(), ProfileError> {
    let failed = |error| ProfileError::File { file: file.display().to_string(), error };
    let mut input = opened(file)?;
    let options = CsvOptions { delimiter: Some(profile.delimiter), ..profile.reading.csv.clone() };
    input.choose_sheet(&profile.reading.csv).map_err(failed)?;
    let is_plain = input.is_plain();
    let size = file.metadata().map_or(0, |about| about.len());
    let records = profile.reading.records.clone();
    let scan = ScanOptions { csv: &options, ..ScanOptions::from(records.as_deref()) };
    let mut documents = DocumentReader::new(input.bytes, syntax, scan);
    let mut read = 0;
    while let Some((found, bytes)) = documents.next().map_err(failed)? {
        if progress.limits.documents.is_some_and(|most| read >= most) {
            profile.is_sample = true;
            break;
        }
        read += 1;
        if read % 4_096 == 0 && !(progress.report)(progress.bytes_before + if is_plain { found.offset } else { size / 2 }) {
            return Err(ProfileError::Stopped);
        }
        let bytes = found.head.complete(bytes);
        let outcome = match (found.problem, syntax) {
            (Some(problem), _) => Err(problem),
            (None, Syntax::Csv) => table::add_row(&bytes, profile.delimiter, columns),
            (None, _) => match Document::parse(&bytes, syntax, &found.head) {
                Ok(document) => add_document(&document, columns, &mut profile.reading),
                Err(error) => Err(error.to_string()),
            },
        };
        match outcome {
            Ok(()) => {
                profile.documents += 1;
                let row = columns.end_document();
                if profile.rows.len() < KEPT_ROWS {
                    profile.rows.push(row);
                }
            }
            Err(problem) => {
                profile.problems += 1;
                columns.end_document();
                profile.problem.get_or_insert(format!("{} document {}: {problem}", file.display(), found.number));
            }
        }
    }
    Ok(())
}

fn add_document(document: &Document<'_>, columns: &mut Columns, reading: &mut Reading) -> Result<(), String> {
    match document {
        Document::Json(json) => json::add(json.value(), columns),
        Document::Xml(tree) => {
            xml::add(tree, columns, &mut reading.namespaces);
            Ok(())
        }
        Document::Marc(record) => {
            marc::add(record, columns);
            Ok(())
        }
        Document::Enveloped(enveloped) => {
            enveloped.record.iter().for_each(|record| marc::add(record, columns));
            Ok(())
        }
        Document::Csv(_) => Ok(()),
    }
}

/// The columns of a table while its documents are read.
#[derive(Default)]
struct Columns {
    columns: Vec<ColumnProfile>,
    by_path: HashMap<String, usize>,
    /// Hashes of the values of the present document, by column.
    row: Vec<u64>,
    /// How many values of the present document each column has.
    in_document: Vec<u64>,
    /// Whether texts that may stand for an absent value are set apart.
    sets_apart: bool,
    /// Paths that were found after there were too many.
    left_out: u64,
    /// Paths of lists, of objects or elements, with the most elements that one has.
    lists: HashMap<String, u64>,
    /// The fewest and the most values in a row of a table.
    widths: Option<(usize, usize)>,
}

impl Columns {
    /// The position of the column of a path; none if there are too many.
    fn position(&mut self, path: &str) -> Option<usize> {
        if let Some(position) = self.by_path.get(path) {
            return Some(*position);
        }
        if self.columns.len() >= MAX_COLUMNS {
            self.left_out += 1;
            return None;
        }
        self.columns.push(ColumnProfile::new(path));
        self.by_path.insert(path.to_owned(), self.columns.len() - 1);
        Some(self.columns.len() - 1)
    }

    fn add(&mut self, path: &str, text: &str, native: Native) {
        if let Some(position) = self.position(path) {
            self.add_at(position, text, native);
        }
    }

    fn add_at(&mut self, position: usize, text: &str, native: Native) {
        let column = &mut self.columns[position];
        let before = column.values;
        let hash = column.add(text, native, self.sets_apart);
        if column.values > before {
            self.note(position, hash);
        }
    }

    /// Notes that the present document has a value in a column.
    fn note(&mut self, position: usize, hash: u64) {
        if self.row.len() <= position {
            self.row.resize(position + 1, 0);
            self.in_document.resize(position + 1, 0);
        }
        self.in_document[position] += 1;
        self.row[position] = if self.in_document[position] == 1 { hash } else { self.row[position].rotate_left(1) ^ hash };
    }

    /// Notes a value that has others inside.
    fn add_nested(&mut self, path: &str, is_mixed: bool) {
        let Some(position) = self.position(path) else { return };
        let native = &mut self.columns[position].native;
        native.nested += 1;
        native.mixed += u64::from(is_mixed);
        self.note(position, hash_of(path));
    }

    /// Ends a document, and returns the hashes of its values.
    fn end_document(&mut self) -> Vec<u64> {
        for (position, count) in self.in_document.iter().enumerate().filter(|(_, count)| **count > 0) {
            let column = &mut self.columns[position];
            column.documents += 1;
            column.most_in_document = column.most_in_document.max(*count);
        }
        self.in_document.clear();
        std::mem::take(&mut self.row)
    }

    fn finish(mut self, profile: &mut TableProfile) {
        if self.left_out > 0 {
            profile.notes.push(format!("there are more than {MAX_COLUMNS} paths; the others are left out"));
        }
        if profile.reading.family == FormatFamily::Csv {
            table::finish(&mut self, profile);
        }
        for column in &mut self.columns {
            column.is_list = profile.reading.family == FormatFamily::Json && self.lists.contains_key(&column.path);
            column.inside = list_around(&column.path, &self.lists, profile.reading.family);
            column.is_in_inner_list = column.inside.as_ref().is_some_and(|outer| {
                let is_list = |path: &str| self.lists.get(path).is_some_and(|most| *most > 1);
                let ends = column.path.match_indices('/').map(|(at, _)| at).chain([column.path.len()]);
                profile.reading.family == FormatFamily::Xml && ends.filter(|end| *end > outer.len()).any(|end| is_list(&column.path[..end]))
            });
        }
        profile.columns = self.columns;
    }
}

/// The path of the outermost list that contains what a path finds.
fn list_around(path: &str, lists: &HashMap<String, u64>, family: FormatFamily) -> Option<String> {
    let is_around = |list: &str| match family {
        FormatFamily::Xml => path.strip_prefix(list).is_some_and(|rest| rest.starts_with('/')),
        FormatFamily::Json => path.strip_prefix(list).is_some_and(|rest| rest.starts_with("[*]")),
        FormatFamily::Csv | FormatFamily::Marc => false,
    };
    let around = lists.iter().filter(|(list, most)| (family == FormatFamily::Json || **most > 1) && is_around(list));
    around.map(|(list, _)| list.clone()).min_by_key(String::len)
}
