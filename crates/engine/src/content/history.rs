//! Which golden values of a record change: for its change log and for its indexes.

use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::Value;
use stook_store::{RecordChange, StoredRecord};

/// Whether all values that are indexed or unique remain the same.
pub fn indexed_stay(collection: &Collection, before: &[Value], after: &[Value]) -> bool {
    let mut fields = collection.fields.iter().zip(before).zip(after);
    fields.all(|((field, before), after)| before == after || (field.index == Default::default() && !field.unique))
}

/// The change log entry for a change of a record's golden fields, if its collection keeps one: the fields that differ, before and after, null if
/// the record does not exist. The creation of a record is not logged.
pub fn golden_change(collection: &Collection, stored: Option<&StoredRecord>, change: &RecordChange) -> Option<Json> {
    let (_, stored) = collection.history.zip(stored)?;
    let after = match change {
        RecordChange::Put(content) => content.exists.then_some(&*content.golden),
        RecordChange::Delete => None,
        RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => return None,
    };
    let before = stored.exists.then_some(&*stored.golden);
    let differs = |index: FieldId| before.map(|values| &values[index]) != after.map(|values| &values[index]);
    let shown = |values: &[Value]| -> Json {
        let both = before.is_some() && after.is_some();
        let fields = collection.shown_fields().filter(|(index, _)| if both { differs(*index) } else { !values[*index].is_null() });
        fields.map(|(index, field)| (field.name.clone(), values[index].to_json(field.golden_type()))).collect::<Map<_, _>>().into()
    };
    let changed = (before.is_some() || after.is_some()) && collection.fields.ids().any(differs);
    changed.then(|| json!({ "before": before.map(shown), "after": after.map(shown) }))
}
