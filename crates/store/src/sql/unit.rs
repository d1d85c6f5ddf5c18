//! The part of a unit's protocol that needs no SQL: what a pass writes as a unit, and checking a unit's read set.

use crate::{NewChangeLogEntry, PassWrites, RecordWrite, RefusedWrite, SettlingChanges, StoreError, StoredRecord, Tenant, Unit, WriteConflict};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;

/// What a pass writes, as a unit.
pub struct PassUnit<'t> {
    tenant: &'t Tenant,
    settled: PassWrites,
    /// Whether a record that did not exist, and so could not be locked, has been created meanwhile: the pass must be repeated.
    pub must_retry: bool,
    /// Records that could not be written: the pass must be repeated without them.
    pub refused: Vec<RefusedWrite>,
}

impl<'t> PassUnit<'t> {
    pub fn new(tenant: &'t Tenant, mut settled: PassWrites) -> Self {
        settled.writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
        Self { tenant, settled, must_retry: false, refused: Vec::new() }
    }
}

impl Unit for PassUnit<'_> {
    fn tenant(&self) -> &Tenant {
        self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.settled.writes
    }

    fn resolve(&mut self, conflicts: Vec<WriteConflict>) -> crate::Result<Vec<RecordWrite>> {
        self.must_retry = true;
        let keys: Vec<&str> = conflicts.iter().map(|conflict| conflict.key.as_str()).take(3).collect();
        Err(StoreError::Other(format!("records were created while a settle pass computed them: {}", keys.join(", "))))
    }

    fn refused(&mut self, refused: RefusedWrite) {
        self.refused.push(refused);
    }

    fn settling(&mut self) -> SettlingChanges {
        std::mem::take(&mut self.settled.settling)
    }

    fn log(&mut self) -> Vec<NewChangeLogEntry> {
        std::mem::take(&mut self.settled.log)
    }
}

/// Passes a unit the positions of the records and ranges in its [`ReadSet`](crate::ReadSet) that have changed, and then the records it asks for,
/// which `read` reads.
pub fn report_read_set_changes<E>(
    unit: &mut dyn Unit,
    (records, ranges): (&[usize], &[usize]),
    mut read: impl FnMut(CollectionId, &[Key]) -> Result<Vec<Option<StoredRecord>>, E>,
) -> Result<(), E> {
    if records.is_empty() && ranges.is_empty() {
        return Ok(());
    }
    let mut conflicts = Vec::new();
    for wanted in unit.read_set_changed(records, ranges).chunk_by(|a, b| a.0 == b.0) {
        let (collection, keys) = (wanted[0].0, wanted.iter().map(|(_, key)| key.clone()).collect::<Vec<Key>>());
        let found = read(collection, &keys)?;
        conflicts.extend(keys.into_iter().zip(found).map(|(key, record)| WriteConflict { collection, key, record, former: Vec::new() }));
    }
    if !conflicts.is_empty() {
        unit.changed_records(conflicts);
    }
    Ok(())
}
