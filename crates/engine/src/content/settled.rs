//! Settled values that a record keeps while its contributions change.

use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::value::Value;

/// Keeps the settled values of a record when its contributions change: these say nothing about them.
pub(crate) fn carry_settled(collection: &Collection, before: &[Value], after: &mut Arc<[Value]>) {
    if !collection.settles() {
        return;
    }
    let after = Arc::make_mut(after);
    for (index, _) in collection.fields.enumerate().filter(|(_, field)| field.is_settled()) {
        after[index] = before[index].clone();
    }
}
