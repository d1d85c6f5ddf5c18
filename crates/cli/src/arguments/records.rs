//! Arguments of `get`, `query`, `withdraw` and `export`.

use super::named::one_of;
use clap::{Args, ValueEnum};
use stook_engine::fetch::{FetchPolicy, WHEN};

/// Arguments of `get`.
#[derive(Debug, Args)]
pub struct GetArgs {
    /// The collection.
    pub collection: String,
    /// The record's key, blanks and all.
    pub key: String,
    /// Show where each value comes from and which values it overruled.
    #[arg(long)]
    pub explain: bool,
    /// How to show it [default: yaml; with --explain a table].
    #[arg(long)]
    pub format: Option<GetFormat>,
    /// Whose record.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// Also a record that was deleted.
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
    /// At most N rows, 0 for all.
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: u64,
    /// How to show them.
    #[arg(long, default_value = "table")]
    pub format: QueryFormat,
    /// Show the query plan.
    #[arg(long)]
    pub explain: bool,
    /// Also compute aggregates from each source's own values.
    #[arg(long)]
    pub by_source: bool,
    /// When to fetch from services: needed (if nothing fresh is stored), always, later (stored records are shown at once) or never.
    #[arg(long, default_value = "needed", value_name = "WHEN", value_parser = one_of(&WHEN))]
    pub ask: FetchPolicy,
    /// Wait at most so many seconds for services [default: as long as they may take].
    #[arg(long, value_name = "S")]
    pub wait: Option<u64>,
    /// Whose records.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
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
}

/// Formats of `export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    Ndjson,
    Csv,
    Marc,
    Marcxml,
}

/// Arguments of `withdraw`.
#[derive(Debug, Args)]
pub struct WithdrawArgs {
    /// The source, or source:part.
    pub source: String,
    /// Only in this collection.
    #[arg(long, value_name = "C")]
    pub collection: Option<String>,
    /// Only of this record.
    #[arg(long, value_name = "K")]
    pub key: Option<String>,
    /// Whose records.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}
