//! Arguments of `queue`.

use clap::Subcommand;
use std::path::PathBuf;

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
