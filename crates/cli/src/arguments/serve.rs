//! Arguments of `serve` and `token`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

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
