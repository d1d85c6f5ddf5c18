//! Edges and marks that are written without a record.

use stook_store::{SettlingChanges, Tenant, UniqueConflict, Unit};

/// Something about derived values, said beside no record.
#[derive(Debug)]
pub struct SettlingUnit {
    /// Whose values.
    pub tenant: Tenant,
    /// What is said.
    pub settling: SettlingChanges,
}

impl Unit for SettlingUnit {
    fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    fn refused(&mut self, _refused: UniqueConflict) {}

    fn settling(&mut self) -> SettlingChanges {
        self.settling.clone()
    }
}
