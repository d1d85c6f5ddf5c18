//! Arguments of `queue` and `journal`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Arguments of `journal`.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// The job's number.
    pub job: u64,
    /// Show only failures and warnings.
    #[arg(long)]
    pub errors: bool,
    /// Write the failed documents themselves, in the form in which they came: as a file that can be mended and imported.
    #[arg(long, conflicts_with_all = ["errors", "limit"])]
    pub failed: bool,
    /// The file for the failed documents [default: standard output]. Documents that cannot be in one file, such as rows with
    /// different headers, are written to several: again.csv, again.2.csv and so on.
    #[arg(short, long, value_name = "FILE", requires = "failed")]
    pub output: Option<PathBuf>,
    /// Show at most N entries [default: all].
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Print one JSON object per line; with --failed and -o, one about the files.
    #[arg(long)]
    pub json: bool,
}

/// Commands of `queue`.
#[derive(Debug, Subcommand)]
pub enum QueueCommand {
    /// List the chunks that wait, are being processed, or are dead (have failed too often).
    Ls {
        /// Only chunks of this job.
        job: Option<u64>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put dead chunks back in the queue; `stook work` or `stook import --resume JOB` processes them.
    Retry {
        /// JOB for all dead chunks of a job, or JOB.CHUNK for one chunk.
        chunk: String,
    },
    /// Split a chunk into smaller ones.
    Rechunk {
        /// The chunk, as JOB.CHUNK.
        chunk: String,
        /// Number of documents in each new chunk.
        #[arg(long, default_value_t = 100, value_name = "N")]
        documents: u32,
    },
    /// Write chunks, with the bytes of their documents, to a text file.
    Dump {
        /// JOB for all chunks of a job, or JOB.CHUNK for one chunk.
        chunk: String,
        /// File to write [default: standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Put chunks from a file written by `dump` back in the queue.
    Load {
        /// The file that `dump` wrote.
        file: PathBuf,
    },
}
