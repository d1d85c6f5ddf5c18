//! Profiles of imports, and tenants' shares of the workers.

use crate::model::ids::SourceId;

/// A profile: what an import does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The source.
    pub source: SourceId,
    /// What happens to documents whose record existed before the job.
    pub matched: OnMatched,
    /// What happens to other documents.
    pub unmatched: OnUnmatched,
}

/// What happens to a document whose record existed before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMatched {
    /// It contributes.
    Update,
    /// It is skipped.
    Skip,
    /// It fails.
    Fail,
    /// It says that the record was deleted, whatever it contains.
    Delete,
    /// Its contributor's contribution is withdrawn.
    Withdraw,
}

/// What happens to a document whose record did not exist before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnmatched {
    /// It contributes.
    Create,
    /// It is skipped.
    Skip,
    /// It fails.
    Fail,
}

/// A tenant's share of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShare {
    /// The share of work relative to a tenant of weight 1, while both have work.
    pub weight: u32,
    /// Max chunks in progress at a time.
    pub max_running: Option<u32>,
}

impl Default for TenantShare {
    fn default() -> Self {
        Self { weight: 1, max_running: None }
    }
}
