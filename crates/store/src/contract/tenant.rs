//! Tenants: isolated owners of records.

use super::error::{Result, StoreError};
use std::fmt;
use std::sync::Arc;

/// The tenant of a store that has only one.
pub const DEFAULT_TENANT: &str = "main";

/// An isolated owner of records. Every read and every write is for one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

impl Tenant {
    /// Checks a name: 1 to 64 lower-case letters, digits, `-` and `_`.
    ///
    /// # Errors
    /// When the name has another form.
    pub fn new(name: &str) -> Result<Self> {
        let valid = (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_'));
        if valid {
            Ok(Self(name.into()))
        } else {
            Err(StoreError::Wrong(format!("`{name}` is not a tenant: 1 to 64 small letters, digits, - and _")))
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
