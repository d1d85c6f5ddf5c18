//! Names of elements and attributes, and the hash by which they are found in documents.

/// The name of an element or attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExpandedName {
    /// Its namespace; empty for none.
    pub uri: Box<str>,
    /// Its local part.
    pub local: Box<str>,
    /// [`name_hash`] of both.
    pub hash: u32,
}

impl ExpandedName {
    /// The name with this local part in this namespace.
    pub fn new(uri: &str, local: &str) -> Self {
        Self { uri: uri.into(), local: local.into(), hash: name_hash(uri, local) }
    }
}

/// A hash of a namespace and a local part (FNV-1a), by which names are found in documents.
pub fn name_hash(uri: &str, local: &str) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let hash = uri.as_bytes().iter().fold(0x811c_9dc5, step);
    local.as_bytes().iter().fold(step(hash, &0), step)
}
