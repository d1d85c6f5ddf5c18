//! `stook mcp`: the catalogue as tools for language models, by the Model Context Protocol (<https://modelcontextprotocol.io>) over standard input and output.
//!
//! `protocol.rs` reads messages and says which revision of the protocol they are of. `server.rs` answers them, several at a time. `tools.rs` lists the tools,
//! `arguments.rs` reads their arguments; `describe.rs`, `reading.rs` and `writing.rs` are what they do, and `bounded.rs` keeps results short.
//! Nothing else may write to standard output.

mod arguments;
mod bounded;
mod describe;
mod protocol;
mod reading;
mod server;
mod tools;
mod writing;

use crate::arguments::mcp::McpArgs;
use crate::open::{self, CatalogueLocation};
use crate::{CommandError, CommandResult};
use std::sync::Arc;
use stook_catalogue::definition::Catalogue;
use stook_store::{Store, Tenant};

/// What tools work on.
struct Context {
    location: CatalogueLocation,
    catalogue: Arc<Catalogue>,
    store: Arc<dyn Store>,
    tenant: Tenant,
    allows_writes: bool,
}

/// Serves the tools until standard input ends.
pub fn mcp(location: &CatalogueLocation, arguments: &McpArgs) -> CommandResult {
    let (catalogue, store) = if arguments.allow_writes { location.written_existing()? } else { location.read()? };
    let location = CatalogueLocation { folder: location.folder.clone(), store: location.store.clone() };
    let tenant = open::tenant(&arguments.tenant)?;
    let context = Context { location, catalogue, store, tenant, allows_writes: arguments.allow_writes };
    server::serve(&context, std::io::stdin().lock(), std::io::stdout()).map_err(CommandError::from)?;
    Ok(0)
}
