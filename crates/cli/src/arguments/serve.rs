//! Arguments of `serve`, `token` and `audit`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address and port to listen on. On addresses other than loopback, requests need tokens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7070")]
    pub listen: std::net::SocketAddr,
    /// Number of threads that process import jobs [default: one per core; 0 if the store is on a database server, where
    /// `stook work` processes them].
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Folder with a folder for each tenant, of which callers may import files by name.
    #[arg(long, value_name = "DIR")]
    pub files: Option<PathBuf>,
    /// Folder of runs of `stook lab`, which callers with the role `admin` can see.
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Maximum number of requests in progress; further requests wait briefly, and then fail with status 503.
    #[arg(alias = "most", long, value_name = "N", default_value_t = 128)]
    pub max_requests: usize,
    /// How long a request waits to be admitted before it fails with status 503, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub wait: u64,
    /// Size of the cache of records, in MB; 0 for no cache.
    #[arg(long, value_name = "MB", default_value_t = 256)]
    pub cache: u64,
    /// Serve HTTPS with this certificate, followed by those of its authorities (PEM). It is read again when the file changes.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM, without a passphrase).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Trust what a proxy at this address, or in this network, says about who a person is (X-Forwarded-User, -Email, -Groups), if it
    /// also has the secret. May be given several times.
    #[arg(long, value_name = "ADDRESS[/BITS]", requires_all = ["proxy_secret_file", "proxy_rights"])]
    pub trust_proxy: Vec<stook_server::proxy::Network>,
    /// File with the secret that the proxy sends as X-Proxy-Secret, or as the password of Basic.
    #[arg(long, value_name = "FILE", requires = "trust_proxy")]
    pub proxy_secret_file: Option<PathBuf>,
    /// What members of a group may do, such as librarians=write or students=read:book; * is everybody whom the proxy names. May be
    /// given several times.
    #[arg(long, value_name = "GROUP=RIGHTS", requires = "trust_proxy")]
    pub proxy_rights: Vec<String>,
    /// The tenant whose records people see whom the proxy names; * for all tenants.
    #[arg(long, value_name = "T", default_value = "main")]
    pub proxy_tenant: String,
    /// Which requests are logged.
    #[arg(long, value_name = "WHICH", default_value = "troubles")]
    pub log: RequestLog,
}

/// Which requests `serve` logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RequestLog {
    /// No requests.
    Nothing,
    /// Requests that failed with a server error, or took longer than a second.
    Troubles,
    /// All requests.
    All,
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Only since a time such as 2026-11-01T00:00:00Z, or for a time such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only changes of this record.
    #[arg(long, value_name = "COLLECTION/KEY")]
    pub record: Option<String>,
    /// Only by this token.
    #[arg(long, value_name = "ID")]
    pub token: Option<u64>,
    /// Only of this tenant.
    #[arg(long, value_name = "T")]
    pub tenant: Option<String>,
    /// Show only the newest N entries.
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub limit: usize,
    /// Print JSON, an entry a line.
    #[arg(long)]
    pub json: bool,
}

/// Commands of `token`.
#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Create a token and show its secret, which cannot be shown again.
    #[command(
        after_help = "Example:\n  stook token create --role write --name import-robot --expires 90d\n  stook token create --may read:book,import:loan --name desk"
    )]
    Create {
        /// What the token allows, for all collections.
        #[arg(long, value_name = "ROLE", value_parser = ["metrics", "read", "write", "admin"], required_unless_present = "may", conflicts_with = "may")]
        role: Option<String>,
        /// What the token allows, for single collections: read, import or write, with commas between them. Conditions in brackets limit read and write to
        /// some records: 'read:book[library=north]'.
        #[arg(long, value_name = "RIGHTS")]
        may: Option<String>,
        /// The tenant whose records the token gives access to; `*` for all tenants.
        #[arg(long, default_value = "main", value_name = "T")]
        tenant: String,
        /// A name to recognise the token by.
        #[arg(long, default_value = "", value_name = "N")]
        name: String,
        /// When it expires: after a time such as 90d or 12h, or at a time such as 2027-01-01T00:00:00Z [default: never].
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Give a token a new secret and show it. The old one works for the overlap.
    #[command(after_help = "Example:\n  stook token rotate 3 --overlap 1h --expires 90d")]
    Rotate {
        /// The token's number, as `stook token ls` shows it.
        id: u64,
        /// How long the old secret still works, such as 1h or 7d; at most 30d.
        #[arg(long, default_value = "0s", value_name = "TIME")]
        overlap: String,
        /// When the token expires from now on: a time such as 90d or 2027-01-01T00:00:00Z, or never [default: as before].
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Change a token's name, rights or expiry. Servers apply it after a second at most.
    #[command(after_help = "Example:\n  stook token change 3 --role read --expires never")]
    Change {
        /// The token's number, as `stook token ls` shows it.
        id: u64,
        /// What the token allows from now on, for all collections.
        #[arg(long, value_name = "ROLE", value_parser = ["metrics", "read", "write", "admin"], conflicts_with = "may")]
        role: Option<String>,
        /// What the token allows from now on, for single collections: read, import or write, with commas between them.
        #[arg(long, value_name = "RIGHTS")]
        may: Option<String>,
        /// Its name from now on.
        #[arg(long, value_name = "N")]
        name: Option<String>,
        /// When it expires from now on: a time such as 90d or 2027-01-01T00:00:00Z, or never.
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
    },
    /// List tokens, without their secrets, which are not stored.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token. Servers refuse it after a second at most.
    Revoke {
        /// The token's number, as `stook token ls` shows it.
        id: u64,
    },
}
