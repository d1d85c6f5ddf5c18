//! Arguments of `get`, `query`, `sql`, `withdraw`, `export` and `changes`.

use super::named::one_of;
use clap::{ArgGroup, Args, ValueEnum};
use std::path::PathBuf;
use stook_engine::fetch::{FetchPolicy, WHEN};

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The collection.
    pub collection: String,
    /// The record's key, including any leading and trailing spaces.
    pub key: String,
    /// Show where each value comes from, and which other values it overruled.
    #[arg(long)]
    pub explain: bool,
    /// Format of the output [default: yaml; with --explain, a table].
    #[arg(long)]
    pub format: Option<GetFormat>,
    /// With --format marc or marcxml: write the document that this contributor delivered, not the record's.
    #[arg(long, value_name = "SOURCE")]
    pub contributor: Option<String>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// Show the record even if it is deleted.
    #[arg(long)]
    pub deleted: bool,
}

/// Arguments of `query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The query, in quotes.
    pub query: String,
    /// Skip the first N rows.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub idx: u64,
    /// Show at most N rows; 0 for all.
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: u64,
    /// Format of the output.
    #[arg(long, default_value = "table")]
    pub format: QueryFormat,
    /// Show how the store would execute the query, instead of its result.
    #[arg(long)]
    pub explain: bool,
    /// Also compute aggregates for each source, from only the values that it contributed.
    #[arg(long)]
    pub by_source: bool,
    /// When to fetch from services: needed (if no fresh answer is stored), always, later (show stored records at once and
    /// fetch in the background) or never.
    #[arg(long, default_value = "needed", value_name = "WHEN", value_parser = one_of(&WHEN))]
    pub ask: FetchPolicy,
    /// Maximum number of seconds to wait for services [default: as long as the definition allows them].
    #[arg(long, value_name = "S")]
    pub wait: Option<u64>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
}

/// Arguments of `sql`.
#[derive(Debug, Args)]
pub struct SqlArgs {
    /// The statement, in quotes: SELECT, WITH or VALUES.
    pub statement: String,
    /// Format of the output.
    #[arg(long, default_value = "table")]
    pub format: SqlFormat,
}

/// Formats of `sql`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SqlFormat {
    Table,
    Json,
    Ndjson,
    Csv,
    /// CSV that begins with a byte order mark, for Excel.
    CsvBom,
}

/// Formats of `get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GetFormat {
    Json,
    Yaml,
    Marc,
    Marcxml,
}

/// Formats of `query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueryFormat {
    Table,
    Json,
    Ndjson,
    Csv,
    /// CSV that begins with a byte order mark, for Excel.
    CsvBom,
    Xlsx,
    Parquet,
    Arrow,
}

/// Formats of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Ndjson,
    Csv,
    /// CSV that begins with a byte order mark, for Excel.
    CsvBom,
    Xlsx,
    Parquet,
    Arrow,
    Marc,
    Marcxml,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The collection.
    pub collection: String,
    /// Format of the output [default with --corrections: ndjson].
    #[arg(long, required_unless_present = "corrections")]
    pub format: Option<ExportFormat>,
    /// Write who says what instead of records: a row for each value that a contributor gives, and whether it was chosen.
    #[arg(long)]
    pub explain: bool,
    /// Write corrections instead of records: a line of JSON for each field to which an edit gives a value, with who, when, why, and the values that it corrects.
    /// `stook import --corrections` reads them.
    #[arg(long, conflicts_with = "explain")]
    pub corrections: bool,
    /// File to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
}

/// Arguments of `withdraw`.
#[derive(Debug, Args)]
pub struct WithdrawArgs {
    /// The source, or a part of it as SOURCE:PART.
    pub source: String,
    /// Withdraw only from this collection.
    #[arg(long, value_name = "C")]
    pub collection: Option<String>,
    /// Withdraw only from the record with this key.
    #[arg(long, value_name = "K")]
    pub key: Option<String>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `erase`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["collection", "list", "again"])))]
pub struct EraseArgs {
    /// The collection.
    #[arg(requires = "keys")]
    pub collection: Option<String>,
    /// The keys of the records, which need not exist.
    pub keys: Vec<String>,
    /// Why, for the list of erasures; nothing about the person.
    #[arg(long, value_name = "TEXT", conflicts_with = "lift")]
    pub reason: Option<String>,
    /// Let these records be imported and created again.
    #[arg(long, requires = "collection")]
    pub lift: bool,
    /// List what was erased, by hashes; with --json for --again.
    #[arg(long)]
    pub list: bool,
    /// Make the erasures of a list again, in a store that was restored from an earlier backup: the file that `stook erase --list --json` wrote.
    #[arg(long, value_name = "FILE")]
    pub again: Option<PathBuf>,
    /// Leave it to a later `stook erase` to rewrite the file of the store (on PostgreSQL: to run VACUUM): until then, it has what was erased in unused
    /// places.
    #[arg(long)]
    pub no_purge: bool,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `changes`.
#[derive(Debug, Args)]
pub struct ChangesArgs {
    /// The collection [default: all that say `changes:`].
    pub collection: Option<String>,
    /// Show what has changed after this cursor, which a change, an export or the end of an answer named; or `now`
    /// [default: everything from the first change on].
    #[arg(long, value_name = "CURSOR")]
    pub since: Option<String>,
    /// Wait for more changes, and show them as they are committed, until stopped.
    #[arg(long)]
    pub follow: bool,
    /// Show at most N changes.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// Print JSON; the output is always lines of JSON.
    #[arg(long, hide = true)]
    pub json: bool,
}
