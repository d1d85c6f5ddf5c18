//! Arguments of `import`, `work` and `collect`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Files, which may be compressed by gzip or zstd, and folders; also files of web servers (https://host/list.csv) and buckets
    /// (s3://bucket/list.csv, with AWS_ACCESS_KEY_ID and the other variables of the environment). All files below a folder are imported, except symbolic links and
    /// names that begin with `.` or end in `.part` or `.tmp`. One job is created for each source that has files.
    #[arg(required_unless_present_any = ["resume", "retry"], value_name = "FILE|FOLDER")]
    pub files: Vec<PathBuf>,
    /// The profile of the definition that says what to do with documents that match a record, and with those that do not.
    #[arg(long, value_name = "P")]
    pub profile: Option<String>,
    /// The source that the files come from [default: for each file, the source whose `files` and `has` match it, or else the
    /// only source of its format].
    #[arg(long, value_name = "S")]
    pub source: Option<String>,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
    /// As-of time of documents that contain none [default: the modification time of the first file].
    #[arg(long, value_name = "TIME")]
    pub as_of: Option<String>,
    /// For sources with `replaces`: retire everything that the files do not contain, even if it is more than the definition
    /// allows. This is remembered for these files.
    #[arg(long)]
    pub retire_all: bool,
    /// For sources with `expect`: import files that are not as expected, also where the definition says `do: stop`.
    #[arg(long)]
    pub accept_unexpected: bool,
    /// The files are corrections of this collection, as `stook export COLLECTION --corrections` writes them.
    #[arg(long, value_name = "COLLECTION", conflicts_with_all = ["profile", "source", "as_of", "retire_all", "accept_unexpected", "dry_run", "resume", "retry", "detach", "workers"])]
    pub corrections: Option<String>,
    /// Show what the import would do, without changing anything.
    #[arg(long)]
    pub dry_run: bool,
    /// Resume this interrupted job.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["files", "profile", "source", "as_of", "retire_all", "accept_unexpected", "dry_run"])]
    pub resume: Option<u64>,
    /// Import the failed documents of this job again, as a new job with its source, profile and as-of time; after the definition was
    /// changed, for example. To mend the documents themselves, see `stook journal --failed`.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["files", "profile", "source", "as_of", "retire_all", "accept_unexpected", "dry_run", "resume"])]
    pub retry: Option<u64>,
    /// Number of threads that process documents [default: one per core].
    #[arg(long, value_name = "N", conflicts_with = "detach")]
    pub workers: Option<usize>,
    /// Only split the files into chunks. `stook work` processes them, on any machine that has the files under the same paths.
    #[arg(long, conflicts_with = "dry_run")]
    pub detach: bool,
    /// What to wait for. Derived values that are not waited for are computed by the next import, `stook work`,
    /// `stook serve` or `stook settle`.
    #[arg(long, value_enum, default_value_t = WaitFor::Settled, conflicts_with_all = ["detach", "dry_run"])]
    pub wait: WaitFor,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// What an import waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WaitFor {
    /// Until the documents are committed.
    Completed,
    /// Until the derived values that depend on them are computed, too.
    Settled,
}

/// Arguments of `work`.
#[derive(Debug, Args)]
pub struct WorkArgs {
    /// Number of threads that process documents [default: one per core].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Exit when the queue is empty. The exit code is that of the worst job that ended.
    #[arg(long)]
    pub drain: bool,
    /// Lease time in seconds: if a worker does not renew its lease of a chunk in this time, another worker takes the chunk.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub lease: u64,
    /// Print one JSON object for each job that ends.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `collect`.
#[derive(Debug, Args)]
pub struct CollectArgs {
    /// The sources to collect [default: all that have `collect`].
    pub sources: Vec<String>,
    /// Collect only from this service.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
    /// Fetch what was published since this time [default: the end of the previous collection].
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Fetch what was published before this time [default: now minus the definition's `lag`].
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Collect again at this interval, for example 10m, until stopped.
    #[arg(long, value_name = "DURATION", conflicts_with_all = ["since", "until"])]
    pub every: Option<String>,
    /// Only show until what time each service has been collected.
    #[arg(long, conflicts_with_all = ["since", "until", "every"])]
    pub status: bool,
    /// Instead of collecting, fetch everything from the services that queries use (`asks`), except those that need a condition and those
    /// of which a fresh answer is stored.
    #[arg(long, conflicts_with_all = ["since", "until", "every", "status", "sources", "service"])]
    pub asked: bool,
    /// The tenant.
    #[arg(long, value_name = "T", default_value = stook_store::DEFAULT_TENANT)]
    pub tenant: String,
    /// Number of threads that process documents [default: one per core].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Print one JSON object for each service.
    #[arg(long)]
    pub json: bool,
}
