//! Arguments of `import`, `work` and `collect`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, also gzip or zstd compressed, and folders. Of folders all files are taken, also those in folders inside, but no links and
    /// nothing whose name begins with `.` or ends in `.part` or `.tmp`. Each source of the definition gets a job with its files.
    #[arg(required_unless_present = "resume", value_name = "FILE|FOLDER")]
    pub files: Vec<PathBuf>,
    /// What to do with documents that match a record and with those that do not.
    #[arg(long, value_name = "P")]
    pub profile: Option<String>,
    /// The source that reads the files [default: of each file the one whose `files` and `has` fit, else the only one that reads its
    /// format].
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

/// Until when an import waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// The documents are committed.
    Completed,
    /// What follows from them is settled.
    Settled,
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
