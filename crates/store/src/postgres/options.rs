//! Options for a store on a server, in builds with or without PostgreSQL.

/// How to open a store on a server.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How long to wait for the server, or for a free connection, in seconds.
    pub wait: u64,
    /// How long callers wait for a server that cannot be reached, in seconds; after that, all are refused at once until it answers again.
    pub outage: u64,
    /// Maximum number of connections.
    pub connections: usize,
    /// Whether to create and change tables to fit the definition; if not, a store that does not fit is refused.
    pub prepare: bool,
    /// Without `prepare`: records are only read, so a definition with the same store schema fits, too.
    pub read_only: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { wait: 30, outage: 30, connections: 16, prepare: true, read_only: false }
    }
}
