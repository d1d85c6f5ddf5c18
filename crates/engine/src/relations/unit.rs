//! Edges and marks that are written without a record.

use stook_store::{RefusedWrite, SettlingChanges, Tenant, Unit};

/// Writes edges and marks without changing a record.
#[derive(Debug)]
pub struct SettlingUnit {
    /// The tenant.
    pub tenant: Tenant,
    /// The edges and marks.
    pub settling: SettlingChanges,
}

impl Unit for SettlingUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: RefusedWrite) {}

    fn settling(&mut self) -> SettlingChanges {
        self.settling.clone()
    }
}
