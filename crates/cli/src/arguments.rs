//! The words of the command line.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;
use stook_engine::ask::{FetchPolicy, WHEN};
use stook_lab::measure::plan::Schedule;

/// Gathers what several systems say about the same things into one catalogue.
#[derive(Debug, Parser)]
#[command(name = "stook", version, max_term_width = 110, arg_required_else_help = true, disable_help_subcommand = true)]
#[command(
    after_help = "First steps:\n  stook init library\n  stook -C library import authorities.mrc\n  stook -C library query 'authority heading=Smith*'\n\nExit codes: 0 all well, 1 failed, 2 finished with failed documents, 64 wrong usage."
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
    /// Import files: map, consolidate and store their documents.
    #[command(
        after_help = "Examples:\n  stook import names.mrc --profile upsert\n  stook import day.csv.gz --source holdings --as-of 2026-01-31T06:00:00Z\n  stook import names.mrc --dry-run\n  stook import --resume 3"
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
    Lab {
        /// How.
        #[command(subcommand)]
        command: LabCommand,
    },
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
    Withdraw {
        /// The source, or source:part.
        source: String,
        /// Only in this collection.
        #[arg(long, value_name = "C")]
        collection: Option<String>,
        /// Only of this record.
        #[arg(long, value_name = "K")]
        key: Option<String>,
        /// Whose records.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
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
    /// Generate sample data.
    #[command(
        after_help = "Examples:\n  stook sample authorities --records 50000 --seed 1 -o names.mrc\n  stook sample businesses --records 10000 -o register\n  stook sample sentinel --days 2 -o data\n  stook sample datasets --records 1000 -o services"
    )]
    Sample {
        /// What kind.
        name: SampleName,
        /// How many [default: 1000, of datasets 50000].
        #[arg(long, value_name = "N")]
        records: Option<u64>,
        /// How many days, of satellites.
        #[arg(long, default_value_t = 1, value_name = "D")]
        days: u64,
        /// The same seed gives the same files.
        #[arg(long, default_value_t = 1, value_name = "S")]
        seed: u64,
        /// Order of the records' numbers.
        #[arg(long, default_value = "ascending")]
        keys: KeyOrder,
        /// Number of the first record.
        #[arg(long, default_value_t = 1, value_name = "N")]
        first: u64,
        /// The file [default: standard output]; all but authorities are files in a folder.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Serve the datasets as four HTTP services at this address instead of writing files.
        #[arg(long, value_name = "ADDR", conflicts_with = "output")]
        serve: Option<std::net::SocketAddr>,
    },
    /// Print completions for a shell.
    #[command(after_help = "Example:\n  stook completions bash > /etc/bash_completion.d/stook")]
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, also gzip or zstd compressed.
    #[arg(required_unless_present = "resume", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// What to do with documents that match a record and with those that do not.
    #[arg(long, value_name = "P")]
    pub profile: Option<String>,
    /// The source that reads the files [default: the only one that can].
    #[arg(long, value_name = "S")]
    pub source: Option<String>,
    /// Whose records.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// As-of time of documents that have none [default: the first file's modification time].
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// Retire everything the files do not contain, however much (for sources with `replaces`). This is
    /// remembered with the files.
    #[arg(long)]
    pub retire_all: bool,
    /// Report what would happen; change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Resume an interrupted job.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["files", "profile", "source", "as_of", "retire_all", "dry_run"])]
    pub resume: Option<u64>,
    /// Threads that map documents [default: all cores].
    #[arg(long, value_name = "N", conflicts_with = "detach")]
    pub workers: Option<usize>,
    /// Only split the files into chunks; `stook work` processes them on any machine that sees the files under the same names.
    #[arg(long, conflicts_with = "dry_run")]
    pub detach: bool,
    /// Wait until the documents are committed, or until the derived values that depend on them are
    /// settled; otherwise the next import, `stook work`, `stook serve` or `stook settle` settles them.
    #[arg(long, value_enum, default_value_t = WaitFor::Settled, conflicts_with_all = ["detach", "dry_run"])]
    pub wait: WaitFor,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Threads that map documents [default: all cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// End when no chunk is left. The exit code is that of the worst job that ended.
    #[arg(long)]
    pub drain: bool,
    /// Lease time in seconds: a chunk goes to another worker when its own has not renewed the lease.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub lease: u64,
    /// One JSON object for each job that ends.
    #[arg(long)]
    pub json: bool,
}

/// Until when an import waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// The documents are committed.
    Completed,
    /// What follows from them is settled.
    Settled,
}

/// Arguments of `collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// Sources [default: all that are collected].
    pub sources: Vec<String>,
    /// One service only.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Start of the window [default: where the last harvest ended].
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// End of the window, exclusive [default: now minus the definition's `lag`].
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Repeat at this interval.
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["since", "until"])]
    pub every: Option<String>,
    /// Only show each service's watermark.
    #[arg(long, conflicts_with_all = ["since", "until", "every"])]
    pub status: bool,
    /// Also fetch everything from on-demand services that need no condition, unless a fresh answer is stored.
    #[arg(long, conflicts_with_all = ["since", "until", "every", "status", "sources", "service"])]
    pub asked: bool,
    /// Whose records.
    #[arg(long, value_name = "T", default_value = stook_store::DEFAULT_TENANT)]
    pub tenant: String,
    /// Threads that map documents [default: all cores].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// One JSON object for each service.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port. Addresses other than loopback require tokens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070")]
    pub listen: std::net::SocketAddr,
    /// Threads that do import jobs [default: all cores; none with a store on a server, where `stook work` does them].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Folder from which callers may import files by name.
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Folder of runs of `stook lab` that admins see.
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Maximum number of requests in progress; others wait briefly, then get 503.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub most: usize,
    /// Longest time a request waits for its turn, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub wait: u64,
    /// Memory for records that were read, in MB; 0 for none.
    #[arg(long, value_name = "MB", default_value_t = 256)]
    pub cache: u64,
    /// Requests to be logged.
    #[arg(long, value_name = "WHICH", default_value = "troubles")]
    pub log: RequestLog,
}

/// What `serve` logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RequestLog {
    /// None.
    Nothing,
    /// Those that failed here or took longer than a second.
    Troubles,
    /// All.
    All,
}

/// Commands of `tag`.
#[derive(Debug, Subcommand)]
pub enum TagCommand {
    /// Make a tag, or many. Without XPath or query it is manual.
    Create {
        #[command(flatten)]
        said: TagDefinitionArgs,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Change a tag, or many: its XPath or query, comment, attributes.
    Set {
        #[command(flatten)]
        said: TagDefinitionArgs,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// Delete a tag: no record carries it any more.
    Delete {
        /// The tag.
        name: String,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Evaluate XPaths again for all records: of the tags named, or of all.
    Rebuild {
        /// The tags.
        names: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
        #[command(flatten)]
        wait: TagWaitArgs,
    },
    /// List tags with the number of records that carry each.
    Ls {
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Show a tag.
    Show {
        /// The tag.
        name: String,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Give a manual tag to records.
    Add {
        /// The tag.
        name: String,
        /// Keys of records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
    /// Take a manual tag from records.
    Remove {
        /// The tag.
        name: String,
        /// Keys of records.
        #[arg(required = true)]
        keys: Vec<String>,
        #[command(flatten)]
        of: TagCollectionArgs,
    },
}

/// What is said of a tag.
#[derive(Debug, Args)]
pub struct TagDefinitionArgs {
    /// The tag.
    #[arg(required_unless_present = "file")]
    pub name: Option<String>,
    /// XPath 1.0 over a record's document; records for which it holds carry the tag.
    #[arg(long, value_name = "XPATH", conflicts_with = "query")]
    pub xpath: Option<String>,
    /// Conditions of the query language, without the collection's name.
    #[arg(long, value_name = "CONDITIONS")]
    pub query: Option<String>,
    /// What it is for.
    #[arg(long, value_name = "TEXT")]
    pub comment: Option<String>,
    /// An attribute that the definition knows.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub attributes: Vec<String>,
    /// Many tags, one JSON object a line: {"name", "xpath" or "query", "comment", "attributes"}.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "xpath", "query", "comment", "attributes"])]
    pub file: Option<PathBuf>,
}

/// Whose tags.
#[derive(Debug, Args)]
pub struct TagCollectionArgs {
    /// The collection, where several carry tags.
    #[arg(long, value_name = "COLLECTION")]
    pub of: Option<String>,
    /// Whose records.
    #[arg(long, default_value = "main")]
    pub tenant: String,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Whether to wait.
#[derive(Debug, Args)]
pub struct TagWaitArgs {
    /// Leave evaluating to `stook work` or `stook serve`.
    #[arg(long)]
    pub no_wait: bool,
}

/// Commands of `token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and show it, only this once.
    #[command(after_help = "Example:\n  stook token create --role write --name import-robot")]
    Create {
        /// read, write or admin.
        #[arg(long, value_name = "ROLE", value_parser = ["read", "write", "admin"])]
        role: String,
        /// Whose records; `*` for those of all tenants.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
        /// What people call it.
        #[arg(long, default_value = "", value_name = "N")]
        name: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// List tokens. The secrets are not stored.
    Ls {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token: it is refused from the next second on.
    Revoke {
        /// Its number.
        id: u64,
    },
}

/// Commands of `queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List chunks that wait, are worked on or are dead.
    Ls {
        /// Only this job's.
        job: Option<u64>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Retry dead chunks with `stook work` or `stook import --resume JOB`.
    Retry {
        /// JOB or JOB.CHUNK.
        chunk: String,
    },
    /// Split a chunk into smaller ones.
    Rechunk {
        /// JOB.CHUNK.
        chunk: String,
        /// Documents of each new chunk.
        #[arg(long, default_value_t = 100, value_name = "N")]
        documents: u32,
    },
    /// Write chunks with their bytes as text.
    Dump {
        /// JOB or JOB.CHUNK.
        chunk: String,
        /// The file [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Put dumped chunks back.
    Load {
        /// What `dump` wrote.
        file: PathBuf,
    },
}

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

/// Schedules that need nothing but a rate.
const SCHEDULES: [(&str, Schedule); 2] = [("constant", Schedule::Constant), ("poisson", Schedule::Poisson)];

/// One of these by its name.
fn one_of<T: Copy + Send + Sync>(all: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    let named = |name: String| all.iter().find(|(own, _)| *own == name).unwrap_or(&all[0]).1;
    PossibleValuesParser::new(all.iter().map(|(name, _)| *name)).map(named)
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

/// Ways to measure.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Open-loop load: send requests on schedule, whether or not earlier ones have been answered.
    #[command(
        after_help = "Examples:\n  stook lab load http://127.0.0.1:7070/healthz --rate 200 --for 10s\n  stook lab load 'http://127.0.0.1:7070/businesses?id={id}' --param id=ids.json --every 50ms --requests 500 -o run.json\n  stook lab load plan.yaml --faster 10"
    )]
    Load {
        /// What is asked.
        #[command(flatten)]
        what: LoadArgs,
        /// Requests per second; several for several sets.
        #[arg(long, value_name = "R", value_delimiter = ',', conflicts_with = "every")]
        rate: Vec<f64>,
        /// Time between the beginnings of requests; several for several sets.
        #[arg(long, value_name = "TIME", value_delimiter = ',')]
        every: Vec<String>,
        /// Requests of a set; several for several sets.
        #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "time")]
        requests: Vec<u64>,
        /// How long a set takes.
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// How requests follow each other.
        #[arg(long, value_parser = one_of(&SCHEDULES))]
        schedule: Option<Schedule>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Closed-loop load with growing numbers of clients.
    #[command(
        after_help = "Examples:\n  stook lab sweep http://127.0.0.1:7070/healthz --clients 1,10,100 --for 1s\n  stook lab sweep plan.yaml -o run.json"
    )]
    Sweep {
        /// What is asked.
        #[command(flatten)]
        what: LoadArgs,
        /// Numbers of clients [default: 1 to 9, 10, 20, 50, 100].
        #[arg(long, value_name = "N", value_delimiter = ',')]
        clients: Vec<usize>,
        /// How long each number is measured [default: 2s].
        #[arg(long = "for", value_name = "TIME")]
        time: Option<String>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Measure imports for several tenants while simulated users work.
    #[command(
        after_help = "A plan names tenants, files and a profile of a served catalogue; examples/lab has five.\n\nExample:\n  stook lab import examples/lab/imports-2.yaml -o run.json"
    )]
    Import {
        /// The plan.
        plan: PathBuf,
        /// The server [default: the plan's].
        #[arg(long, value_name = "URL")]
        target: Option<String>,
        /// A database whose connections and statements are watched [default: the plan's].
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// What becomes of the run.
        #[command(flatten)]
        kept: RunOutputArgs,
    },
    /// Show a run: tables, and pictures.
    #[command(
        after_help = "Examples:\n  stook lab show run.json\n  stook lab show run.json --html -o report.html\n  stook lab show run.json --md -o report.md"
    )]
    Show {
        /// Its file.
        run: PathBuf,
        /// How it is shown.
        #[command(flatten)]
        form: ReportArgs,
    },
    /// The JSON Schema of a run's file.
    #[command(after_help = "Example:\n  stook lab schema > run.schema.json")]
    Schema,
    /// Measure what this machine can do: memory, disk, JSON, HTTP, SQLite, PostgreSQL.
    #[command(after_help = "Example:\n  stook lab limits --postgres 'postgres://stook@localhost/stook'")]
    Limits {
        /// Where files are written and removed.
        #[arg(long, default_value = ".", value_name = "DIR")]
        folder: PathBuf,
        /// A database in which rows are copied to a temporary table.
        #[arg(long, value_name = "URL")]
        postgres: Option<String>,
        /// Where the run is written.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// The run as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Durations and rates of pipeline stages from logs of Stook or MAAS-CDS; of several logs, the trend.
    #[command(after_help = "Example:\n  stook serve 2> day.log & ...; stook lab kpi day.log")]
    Kpi {
        /// The logs.
        #[arg(required = true)]
        logs: Vec<PathBuf>,
        /// How they are shown.
        #[command(flatten)]
        form: ReportArgs,
        /// Every call, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare runs of one plan and test whether differences are significant.
    #[command(
        after_help = "Examples:\n  stook lab compare old.json new.json --fail-on regression=5%\n  stook lab compare old1.json,old2.json,old3.json,old4.json new1.json,new2.json,new3.json,new4.json"
    )]
    Compare {
        /// Runs; repetitions of one separated by commas.
        #[arg(required = true, num_args = 2..)]
        runs: Vec<String>,
        /// The exit code is 1 where something got worse by more than this, and by more than noise.
        #[arg(long, value_name = "regression=P%")]
        fail_on: Option<String>,
        /// How they are shown.
        #[command(flatten)]
        form: ReportArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fit the Universal Scalability Law to sweeps and estimate the capacity for a target rate.
    #[command(after_help = "Example:\n  stook lab plan sweep.json --target 50000")]
    Plan {
        /// Runs of sweeps, or points in YAML.
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// What is to be done per second.
        #[arg(long, value_name = "N")]
        target: Option<f64>,
        /// How it is shown.
        #[command(flatten)]
        form: ReportArgs,
    },
}

/// How a report is shown.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// As one page with its pictures.
    #[arg(long)]
    pub html: bool,
    /// As Markdown, pictures beside it.
    #[arg(long, conflicts_with = "html")]
    pub md: bool,
    /// Only the N-th picture, as SVG.
    #[arg(long, value_name = "N", conflicts_with_all = ["html", "md"], num_args = 0..=1, default_missing_value = "1")]
    pub svg: Option<usize>,
    /// The file [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What is asked by the lab.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// A plan, or URLs with parameters in braces.
    #[arg(required = true, value_name = "PLAN|URL")]
    pub what: Vec<String>,
    /// Values of a parameter: NAME=FILE or NAME=FILE#MEMBER (json, ndjson, csv, lines).
    #[arg(long, value_name = "P")]
    pub param: Vec<String>,
    /// A header of every request; ${NAME} is from the environment.
    #[arg(long, value_name = "H")]
    pub header: Vec<String>,
    /// Another target than the plan's.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// The same seed draws the same values.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Most connections at once.
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// When a request counts as not answered.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,
    /// Speed-up factor for the schedule.
    #[arg(long, value_name = "X")]
    pub faster: Option<f64>,
    /// Use a new connection for each request.
    #[arg(long)]
    pub close: bool,
    /// Path of the target's Prometheus counters, read before and after each set.
    #[arg(long, value_name = "PATH")]
    pub metrics: Option<String>,
}

/// What becomes of a run of the lab.
#[derive(Debug, Args)]
pub struct RunOutputArgs {
    /// Where the run is written, with the limits of this machine, measured before it.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The run as JSON, as it is written.
    #[arg(long)]
    pub json: bool,
    /// Do not measure the machine's limits, which takes some seconds.
    #[arg(long)]
    pub no_limits: bool,
}

/// Samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SampleName {
    Authorities,
    Businesses,
    Datasets,
    Machines,
    Sentinel,
}

impl SampleName {
    /// How many are made without being told.
    pub fn size(self) -> u64 {
        if self == Self::Datasets { 50_000 } else { 1_000 }
    }
}

/// Orders of keys in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyOrder {
    Ascending,
    Random,
}
