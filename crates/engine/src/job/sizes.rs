//! How much is done at once: documents and bytes of a chunk, records of a page.

use stook_store::Store;

/// Documents of a chunk.
pub const CHUNK_DOCUMENTS: u32 = 1_000;

/// Documents of a chunk that workers do beside others who write to a store on a server.
pub const SHARED_CHUNK: u32 = 250;

/// The same where one writes after the other: nobody waits for longer than one takes.
pub const SHORT_CHUNK: u32 = 100;

/// Bytes after which a chunk ends though it has fewer documents.
pub const CHUNK_BYTES: u64 = 8 << 20;

/// Records changed at once.
pub(crate) const PAGE: usize = 1_000;

/// Documents of a chunk that waits for whoever works.
pub(crate) fn queued_chunk(store: &dyn Store) -> u32 {
    if store.is_near() { SHORT_CHUNK } else { SHARED_CHUNK }
}
