//! The command line: options of all commands, and which commands there are.

use super::import::{CollectArgs, ImportArgs, WorkArgs};
#[cfg(feature = "lab")]
use super::lab::LabCommand;
use super::queue::QueueCommand;
use super::records::{ExportFormat, GetArgs, QueryArgs, WithdrawArgs};
#[cfg(feature = "lab")]
use super::sample::SampleArgs;
use super::serve::{ServeArgs, TokenCommand};
use super::tag::TagCommand;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Gathers what several systems say about the same things into one catalogue.
#[derive(Debug, Parser)]
#[command(name = "stook", version, max_term_width = 110, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "First steps:\n  stook init library\n  stook -C library import authorities.mrc\n  stook -C library query 'authority heading=Smith*'\n\nExit codes: 0 all well, 1 failed, 2 finished with failed documents or with files that no source claims, 64 wrong usage."
)]
pub struct Arguments {
    /// Folder of the catalogue.
    #[arg(short = 'C', long = "catalogue", global = true, default_value = ".", value_name = "DIR")]
    pub catalogue: PathBuf,
    /// Where records are kept: a file (also sqlite:FILE), or postgres://USER@HOST/DATABASE?schema=NAME [default: stook.sqlite
    /// in the catalogue's folder].
    #[arg(long, global = true, env = "STOOK_STORE", hide_env_values = true, value_name = "URL")]
    pub store: Option<String>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a folder with a small catalogue to begin with.
    #[command(after_help = "Example:\n  stook init library && stook -C library check")]
    Init {
        /// The folder.
        dir: PathBuf,
    },
    /// Check catalogue.yaml and show every mistake with its place; with --store also whether that store can be used with it.
    #[command(
        after_help = "Examples:\n  stook check\n  stook check --store stook.sqlite\n  stook check --deep\n\n`stook help expressions` lists functions and types."
    )]
    Check {
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Check that the store's file is sound, and compare its derived values (links, rollups, coverage) with
        /// what they should be, correcting them. The exit code is 1 if anything was wrong.
        #[arg(long)]
        deep: bool,
    },
    /// Show help for a command, or for the topic `expressions`.
    #[command(after_help = "Examples:\n  stook help import\n  stook help expressions\n  stook help expressions --json")]
    Help {
        /// A command, or `expressions`: what expressions of catalogue.yaml can say.
        topic: Vec<String>,
        /// As JSON, of expressions.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of catalogue.yaml, for editors.
    #[command(after_help = "Example:\n  stook schema > catalogue.schema.json")]
    Schema,
    /// Create the store, or update it to match catalogue.yaml. With a file, imports, workers and servers do this when they start.
    #[command(after_help = "Example:\n  stook prepare --store 'postgres://stook@localhost/catalogues?schema=library'")]
    Prepare,
    /// Copy the store's file while others use it: the copy is what the store was at one moment.
    #[command(
        after_help = "Examples:\n  stook backup /backups/monday.sqlite\n  stook check --deep --store /backups/monday.sqlite\n\nTo go back to a copy, stop what uses the store, and put the copy in the place of stook.sqlite; remove stook.sqlite-wal and stook.sqlite-shm, which belong to the former file."
    )]
    Backup {
        /// The copy; there must be no file of this name.
        file: PathBuf,
        /// Report as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Import files and folders: map, consolidate and store their documents.
    #[command(
        after_help = "Examples:\n  stook import names.mrc --profile upsert\n  stook import day.csv.gz --source holdings --as-of 2026-01-31T06:00:00Z\n  stook import names.mrc --dry-run\n  stook import deliveries/2026-01 --dry-run\n  stook import --resume 3"
    )]
    Import(ImportArgs),
    /// Harvest: fetch what services have published since the last time, and import it.
    #[command(
        after_help = "Examples:\n  stook collect\n  stook collect prip --since 2026-01-01T00:00:00Z\n  stook collect --every 10m\n  stook collect --status\n  stook collect --asked"
    )]
    Collect(CollectArgs),
    /// Process the queue of all tenants in turn, until stopped.
    #[command(after_help = "Examples:\n  stook import names.mrc --detach && stook work --drain\n  stook work --workers 4")]
    Work(WorkArgs),
    /// Serve the catalogue over HTTP, and do import jobs in the same process.
    #[command(
        after_help = "Examples:\n  stook serve\n  stook serve --listen 0.0.0.0:7070 --workers 0\n  curl http://127.0.0.1:7070/v1/main/query?q=authority"
    )]
    Serve(ServeArgs),
    /// Create, change, list and assign tags.
    #[command(
        after_help = "Examples:\n  stook tag create gpu --xpath \"//node[@class='display']/vendor[contains(., 'NVIDIA')]\"\n  stook tag create big --query 'memory>=262144'\n  stook tag create rack7 && stook tag add rack7 node-00000001\n  stook query 'machine tag=gpu tag=rack7'"
    )]
    Tag {
        /// What to do with them.
        #[command(subcommand)]
        command: TagCommand,
    },
    /// Create, list and revoke API tokens.
    Token {
        /// What to do with them.
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Measure this and any other HTTP service.
    #[cfg(feature = "lab")]
    Lab {
        /// How.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Measure HTTP services: this build cannot.
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Lab(LeftOutArgs),
    /// List import jobs.
    Jobs {
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Only this tenant's.
        #[arg(long)]
        tenant: Option<String>,
        /// The newest N.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Cancel a job: what is committed stays, what is waiting is dropped.
    #[command(
        after_help = "Examples:\n  stook cancel 3\n  stook cancel 3 --json | jq .documents\n\nExit codes: 0 the job is cancelled, 1 there is no such job or it had ended already, 64 wrong usage."
    )]
    Cancel {
        /// The job's number, as `stook jobs` shows it.
        job: u64,
        /// The job as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a job's journal: the outcome of each document.
    #[command(after_help = "Examples:\n  stook journal 3 --errors\n  stook journal 3 --json | jq 'select(.outcome == \"updated\")'")]
    Journal {
        /// The job's number.
        job: u64,
        /// Only failures and warnings.
        #[arg(long)]
        errors: bool,
        /// At most N lines [default: all].
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Inspect and repair waiting or failed chunks.
    Queue {
        /// What to do with them.
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// Show one record.
    #[command(
        after_help = "Examples:\n  stook get authority 'n  50005501 '\n  stook get authority 'n  50005501 ' --explain\n  stook get authority 'n  50005501 ' --format marcxml"
    )]
    Get(GetArgs),
    /// Query records.
    #[command(
        after_help = "Examples:\n  stook query 'authority heading=Smith*'\n  stook query 'authority changed>=2018-01-01 kind=personal | sort changed- | grep heading, changed'\n  stook query 'authority | count(lccn), max(changed)'"
    )]
    Query(QueryArgs),
    /// Suggest queries for a free text.
    #[command(after_help = "Examples:\n  stook suggest smith personal\n  stook suggest 'blocks at T1_CH_CERN larger than 1e12'")]
    Suggest {
        /// The text.
        #[arg(required = true)]
        text: Vec<String>,
        /// Whose records.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Settle stale derived values: links, rollups and coverage. Imports, workers and servers also do this.
    #[command(after_help = "Example:\n  stook settle")]
    Settle {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Withdraw a source's contributions, as if they had never been made.
    #[command(after_help = "Example:\n  stook withdraw loc --collection authority --key 'n  50005501 '")]
    Withdraw(WithdrawArgs),
    /// Export all records of a collection.
    #[command(after_help = "Examples:\n  stook export authority --format marc -o names.mrc\n  stook export authority --format csv | head")]
    Export {
        /// The collection.
        collection: String,
        /// What to write.
        #[arg(long)]
        format: ExportFormat,
        /// The file [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Whose records.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
    },
    /// Generate sample data: this build cannot.
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Sample(LeftOutArgs),
    /// Generate sample data.
    #[cfg(feature = "lab")]
    #[command(
        after_help = "Examples:\n  stook sample authorities --records 50000 --seed 1 -o names.mrc\n  stook sample businesses --records 10000 -o register\n  stook sample sentinel --days 2 -o data\n  stook sample datasets --records 1000 -o services"
    )]
    Sample(SampleArgs),
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  stook completions bash > /etc/bash_completion.d/stook")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Whatever is written after a command that this build does not have.
#[cfg(not(feature = "lab"))]
#[derive(Debug, clap::Args)]
pub struct LeftOutArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<String>,
}
