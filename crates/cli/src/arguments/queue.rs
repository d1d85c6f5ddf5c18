//! Arguments of `queue`.

use clap::Subcommand;
use std::path::PathBuf;

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
