//! Arguments of `mcp`.

use clap::Args;

/// Arguments of `mcp`.
#[derive(Debug, Args)]
pub struct McpArgs {
    /// Also offer tools that change something: corrections of records, tags, and imports of files below the catalogue's folder.
    #[arg(long)]
    pub allow_writes: bool,
    /// The tenant.
    #[arg(long, default_value = "main", value_name = "T")]
    pub tenant: String,
}
