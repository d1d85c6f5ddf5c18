//! How a store on a server is opened, whether this build has PostgreSQL or not.

/// How a store on a server is opened.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// How long to wait for the server, or for a free connection, in seconds.
    pub wait: u64,
    /// Most connections at a time.
    pub connections: usize,
    /// Whether tables are created and changed as the definition wants them; if not, a store that does not fit is refused.
    pub prepare: bool,
    /// Without `prepare`: records are only read, so a definition by which rows look alike fits, too.
    pub read_only: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { wait: 30, connections: 16, prepare: true, read_only: false }
    }
}
