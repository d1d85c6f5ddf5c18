//! The command line: options of all commands, and which commands there are.

use super::import::{CollectArgs, ImportArgs, WorkArgs};
use super::init::{InitArgs, ProfileArgs};
#[cfg(feature = "lab")]
use super::lab::LabCommand;
use super::mcp::McpArgs;
use super::queue::{JournalArgs, QueueCommand};
use super::records::{ChangesArgs, EraseArgs, ExportArgs, GetArgs, QueryArgs, SqlArgs, WithdrawArgs};
#[cfg(feature = "lab")]
use super::sample::SampleArgs;
use super::serve::{AuditArgs, ServeArgs, TokenCommand};
use super::tag::TagCommand;
use clap::{Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Combines the records of several systems about the same things into one catalogue.
#[derive(Debug, Parser)]
#[command(name = "stook", version, long_version = super::version::long(), max_term_width = 110, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "First steps:\n  stook init --from books.csv shop.json\n  stook import books.csv shop.json\n  stook query book\n\nExit codes: 0 all well, 1 failed, 2 finished with failed documents or with files that no source claims, 64 wrong usage."
)]
pub struct Arguments {
    /// The catalogue's folder.
    #[arg(short = 'C', long = "catalogue", global = true, default_value = ".", value_name = "DIR")]
    pub catalogue: PathBuf,
    /// The store with the records: FILE or sqlite:FILE, or postgres://USER@HOST/DATABASE?schema=NAME [default: stook.sqlite
    /// in the catalogue's folder].
    #[arg(long, global = true, env = "STOOK_STORE", hide_env_values = true, value_name = "URL")]
    pub store: Option<String>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a catalogue.yaml: a small example, or with --from a definition of what files contain.
    #[command(
        after_help = "Examples:\n  stook init --from books.csv shop.json\n  stook init library --from exports/*.xlsx --json\n  stook init --from day1.csv day2.csv --rows 10000 --output - | less\n  stook init library && stook -C library check\n\nWhat was guessed, and what it may be instead, is said in comments of the file."
    )]
    Init(InitArgs),
    /// Show what is in files: for each column or path its type, distinct and missing values, bounds, lengths and frequent values.
    #[command(
        after_help = "Examples:\n  stook profile books.csv\n  stook profile --rows 1000 big.json.gz\n  stook profile *.csv --json | jq '.columns[] | select(.unique) | .path'"
    )]
    Profile(ProfileArgs),
    /// Check catalogue.yaml and show where each mistake is. With --store, also check whether that store fits the definition.
    #[command(
        after_help = "Examples:\n  stook check\n  stook check --store stook.sqlite\n  stook check --deep\n\n`stook help expressions` lists functions and types."
    )]
    Check {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Check the store for damage, and compute all derived values (links, rollups, coverage) again and
        /// correct those that are wrong. The exit code is 1 if anything was wrong.
        #[arg(long)]
        deep: bool,
    },
    /// Look at everything the catalogue needs (definition, store, disk, clock, rights, versions, queue, sources), and say what to do where it is not well.
    #[command(
        after_help = "Examples:\n  stook doctor\n  stook doctor --json | jq '.findings[] | select(.verdict != \"ok\")'\n  stook doctor >/dev/null || mail -s 'stook is not well' operators@example.org\n\nNothing is changed. `stook check --deep` also checks all values and the file itself.\n\nExit codes: 0 all well, 1 something does not work, 2 something should be looked at, 64 wrong usage."
    )]
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show help for a command, or for the topics `expressions` and `queries`.
    #[command(after_help = "Examples:\n  stook help import\n  stook help queries\n  stook help expressions --json")]
    Help {
        /// A command; `expressions` for the functions and types that expressions in catalogue.yaml can use; or `queries` for the query language.
        topic: Vec<String>,
        /// Print JSON (only for `expressions` and `queries`).
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of catalogue.yaml, which editors use to check and complete it.
    #[command(after_help = "Example:\n  stook schema > catalogue.schema.json")]
    Schema,
    /// Create the store, or update it to match catalogue.yaml. If the store is a file, imports, workers and servers do this themselves.
    #[command(after_help = "Examples:\n  stook prepare --store 'postgres://stook@localhost/catalogues?schema=library'\n  stook prepare --dry-run")]
    Prepare {
        /// Only say what would be changed in the store, and whether the definition can be applied to it.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long, requires = "dry_run")]
        json: bool,
    },
    /// Back up the store while it is in use: all that it holds at one moment, to a file that a store of either kind can be restored from.
    #[command(
        after_help = "Examples:\n  stook backup /backups/monday.stook\n  stook backup --verify /backups/monday.stook\n  stook backup - | aws s3 cp - s3://backups/monday.stook\n  stook backup /backups/monday.sqlite\n\nA name that ends in .sqlite makes a copy of the store's file instead, which can be used as a store at once (--store). A store on a server has no such file."
    )]
    Backup {
        /// The file to write, which must not exist yet; `-` for standard output.
        file: PathBuf,
        /// Write nothing: read the file of a backup, and check that it is complete and undamaged.
        #[arg(long)]
        verify: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup into a new store of either kind.
    #[command(
        after_help = "Examples:\n  stook restore /backups/monday.stook\n  stook restore /backups/monday.stook --store 'postgres://stook@db.example/catalogues?schema=library'\n  aws s3 cp s3://backups/monday.stook - | stook restore -\n\nThe store must not exist yet or hold nothing, and catalogue.yaml must be the one that the backed-up store had. The backup is restored completely or not at all."
    )]
    Restore {
        /// The file of the backup; `-` for standard input.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Import files and folders: map their documents to records, consolidate and store them.
    #[command(
        after_help = "Examples:\n  stook import names.mrc --profile upsert\n  stook import day.csv.gz --source holdings --as-of 2026-01-31T06:00:00Z\n  stook import names.mrc --dry-run\n  stook import deliveries/2026-01 --dry-run\n  stook import --resume 3\n  stook import --retry 3"
    )]
    Import(ImportArgs),
    /// Fetch what services have published since the last time, and import it.
    #[command(
        after_help = "Examples:\n  stook collect\n  stook collect prip --since 2026-01-01T00:00:00Z\n  stook collect --every 10m\n  stook collect --status\n  stook collect --asked"
    )]
    Collect(CollectArgs),
    /// Process the queued chunks of all tenants, until stopped.
    #[command(after_help = "Examples:\n  stook import names.mrc --detach && stook work --drain\n  stook work --workers 4")]
    Work(WorkArgs),
    /// Serve the catalogue over HTTP, and process import jobs in the same process.
    #[command(
        after_help = "Examples:\n  stook serve\n  stook serve --listen 0.0.0.0:7070 --workers 0\n  stook serve --trust-proxy 127.0.0.1 --proxy-secret-file proxy.secret --proxy-rights '*=read'\n  curl http://127.0.0.1:7070/v1/main/query?q=authority"
    )]
    Serve(ServeArgs),
    /// Offer the catalogue as tools to language models, by the Model Context Protocol over standard input and output.
    #[command(
        after_help = "Examples:\n  stook mcp -C library\n  stook mcp -C library --allow-writes\n\nA program such as an assistant starts this command and talks to it; see the page \"Give a catalogue to a language model\" of the documentation. Without --allow-writes nothing can be changed."
    )]
    Mcp(McpArgs),
    /// Create, change, list and assign tags of records.
    #[command(
        after_help = "Examples:\n  stook tag create gpu --xpath \"//node[@class='display']/vendor[contains(., 'NVIDIA')]\"\n  stook tag create big --query 'memory>=262144'\n  stook tag create rack7 && stook tag add rack7 node-00000001\n  stook query 'machine tag=gpu tag=rack7'"
    )]
    Tag {
        /// The command.
        #[command(subcommand)]
        command: TagCommand,
    },
    /// Show who changed what, newest first.
    #[command(
        after_help = "Examples:\n  stook audit --since 24h\n  stook audit --record book/b1\n  stook audit --token 3 --json | jq -r .operation\n\nAn entry is written with the change. Entries are kept for 400 days, and at most 2 000 000 of them."
    )]
    Audit(AuditArgs),
    /// Create, list and revoke API tokens.
    Token {
        /// The command.
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// Measure the performance of Stook and other HTTP services.
    #[cfg(feature = "lab")]
    Lab {
        /// The command.
        #[command(subcommand)]
        command: LabCommand,
    },
    /// Measure HTTP services (not included in this build).
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Lab(LeftOutArgs),
    /// List jobs, newest first.
    Jobs {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Only jobs of this tenant.
        #[arg(long)]
        tenant: Option<String>,
        /// Show only the newest N jobs.
        #[arg(long, default_value_t = 20, value_name = "N")]
        limit: usize,
    },
    /// Cancel a job: documents that are committed stay, waiting ones are dropped.
    #[command(
        after_help = "Examples:\n  stook cancel 3\n  stook cancel 3 --json | jq .documents\n\nExit codes: 0 the job is cancelled, 1 there is no such job or it had ended already, 64 wrong usage."
    )]
    Cancel {
        /// The job's number, as `stook jobs` shows it.
        job: u64,
        /// Print the job as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Undo a job: records become as if it had never been delivered. Its source must say `undo:`, how long its jobs can be undone.
    #[command(
        after_help = "Examples:\n  stook undo 3\n  stook undo 3 --json | jq .counts\n  stook undo 3 --detach && stook work --drain\n\nWhat was delivered before and after the job stays, and so do edits and transitions. If the command is stopped, running it again continues.\n\nExit codes: 0 the job is undone, 1 it cannot be undone (the message says until when it could be) or the command was stopped, 2 some records keep what it contributed, 64 wrong usage."
    )]
    Undo {
        /// The job's number, as `stook jobs` shows it.
        job: u64,
        /// Leave the work to running workers.
        #[arg(long)]
        detach: bool,
        /// Print the job that undoes it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show a job's journal: the outcome of each document.
    #[command(
        after_help = "Examples:\n  stook journal 3 --errors\n  stook journal 3 --json | jq 'select(.outcome == \"updated\")'\n  stook journal 3 --failed -o again.mrc\n\nMend the documents in again.mrc, and import that file."
    )]
    Journal(JournalArgs),
    /// Inspect the queue, and retry, split or move its chunks.
    Queue {
        /// The command.
        #[command(subcommand)]
        command: QueueCommand,
    },
    /// Show one record.
    #[command(
        after_help = "Examples:\n  stook get authority 'n  50005501 '\n  stook get authority 'n  50005501 ' --explain\n  stook get authority 'n  50005501 ' --format marcxml\n  stook get authority 'n  50005501 ' --format marc --contributor loc"
    )]
    Get(GetArgs),
    /// Query records.
    #[command(
        after_help = "Examples:\n  stook query 'authority heading=Smith*'\n  stook query 'authority changed>=2018-01-01 kind=personal | sort changed- | grep heading, changed'\n  stook query 'authority | count(lccn), max(changed)'"
    )]
    Query(QueryArgs),
    /// Read records with the SQL of the store's database: each collection is a view, `golden_COLLECTION`.
    #[command(
        after_help = "Examples:\n  stook sql 'SELECT key, title FROM golden_book WHERE year > 1990 ORDER BY title LIMIT 10'\n  stook sql 'SELECT publisher, count(*) FROM golden_book GROUP BY publisher' --format csv\n\nNothing can be written. Other programs read the same views: see the page \"Query records with SQL\" of the documentation."
    )]
    Sql(SqlArgs),
    /// Suggest queries for free text.
    #[command(after_help = "Examples:\n  stook suggest smith personal\n  stook suggest 'blocks at T1_CH_CERN larger than 1e12'")]
    Suggest {
        /// The words to find queries for.
        #[arg(required = true)]
        text: Vec<String>,
        /// The tenant.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compute stale derived values: links, rollups and coverage. Imports, workers and servers do this, too.
    #[command(after_help = "Example:\n  stook settle")]
    Settle {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Withdraw a source's contributions, as if they had never been made.
    #[command(after_help = "Example:\n  stook withdraw loc --collection authority --key 'n  50005501 '")]
    Withdraw(WithdrawArgs),
    /// Erase records with everything that was ever said of them, and leave out what is delivered of them later.
    #[command(
        after_help = "Examples:\n  stook erase person 4711 --reason 'request of 2026-11-02'\n  stook erase --list --json > erased.json\n  stook restore backup.stook && stook erase --again erased.json\n  stook erase person 4711 --lift\n\nThe record is removed from the store with its former contributions, change log, tags, outcomes in journals, failed documents, changes for those who follow them and kept answers; the audit log keeps entries without its key. A hash of the key stays, so that later files do not bring it back. See docs/howto/erase-a-person.md.\n\nExit codes: 0 erased, 1 failed: repeat the command, 64 wrong usage."
    )]
    Erase(EraseArgs),
    /// Export all records of a collection.
    #[command(
        after_help = "Examples:\n  stook export authority --format marc -o names.mrc\n  stook export authority --format csv | head\n  stook export authority --explain --format parquet -o who-says-what.parquet\n  stook export authority --corrections -o corrections.ndjson"
    )]
    Export(ExportArgs),
    /// Show what has changed in records, one change a line of JSON, in the order of commits. The collection must say `changes:`, how long they are kept.
    #[command(
        after_help = "Examples:\n  stook changes\n  stook changes authority --since 5f0c9a3e-1841\n  stook changes --since now --follow | while read -r change; do notify \"$change\"; done\n  stook changes | jq -c 'select(.change == \"deleted\") | .key'\n\nEach change has a cursor: --since CURSOR goes on after it, so that each change is seen once. The last line has only the cursor at the end, and whether all derived values are settled.\n\nExit codes: 0 all well, 1 changes after the cursor are not kept any more (export the records, and follow from the cursor that the export names) or the store failed, 64 wrong usage."
    )]
    Changes(ChangesArgs),
    /// Generate sample data (not included in this build).
    #[cfg(not(feature = "lab"))]
    #[command(hide = true, disable_help_flag = true)]
    Sample(LeftOutArgs),
    /// Generate sample data.
    #[cfg(feature = "lab")]
    #[command(
        after_help = "Examples:\n  stook sample authorities --records 50000 --seed 1 -o names.mrc\n  stook sample bibliographic --records 1000 -o library\n  stook sample businesses --records 10000 -o register\n  stook sample sentinel --days 2 -o data\n  stook sample datasets --records 1000 -o services"
    )]
    Sample(SampleArgs),
    /// Write manual pages, one for each command. Packages install them.
    #[command(hide = true)]
    ManPages {
        /// The folder.
        folder: PathBuf,
    },
    /// Print a script that completes the commands and options of `stook` in a shell.
    #[command(after_help = "Example:\n  stook completions bash > /etc/bash_completion.d/stook")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// All arguments of a command that is not included in this build.
#[cfg(not(feature = "lab"))]
#[derive(Debug, clap::Args)]
pub struct LeftOutArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _all: Vec<String>,
}
