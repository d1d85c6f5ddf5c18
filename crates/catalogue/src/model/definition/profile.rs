//! What imports do: profiles, and the shares of the workers that tenants have.

use crate::model::ids::SourceId;

/// What an import does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// The source's index.
    pub source: SourceId,
    /// For documents whose record existed before the job.
    pub matched: OnMatched,
    /// For the others.
    pub unmatched: OnUnmatched,
}

/// What happens to a document whose record existed before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMatched {
    /// It contributes.
    Update,
    /// It is left out.
    Skip,
    /// It fails.
    Fail,
    /// Its contributor's contribution is withdrawn.
    Withdraw,
}

/// What happens to a document whose record did not exist before the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnmatched {
    /// It contributes.
    Create,
    /// It is left out.
    Skip,
    /// It fails.
    Fail,
}

/// A tenant's share of the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantShare {
    /// Work it gets beside a tenant of weight 1 while both have some.
    pub weight: u32,
    /// Most chunks in work at a time.
    pub max_running: Option<u32>,
}

impl Default for TenantShare {
    fn default() -> Self {
        Self { weight: 1, max_running: None }
    }
}
