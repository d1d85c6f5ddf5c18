//! Parts of a row that both stores keep alike.

use crate::damage::{Damage, DamagedPart, RecordPart};
use crate::{RecordChange, RecordContent, RecordWrite, StoreError, Version};
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::FieldId;
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::Value;

/// Returns all golden values, given the stored ones: members with an index are read from their structs.
pub fn with_members(collection: &Collection, mut golden: Vec<Value>) -> Vec<Value> {
    for index in collection.fields.ids().skip(golden.len()) {
        let indexed_member = collection.member(index).filter(|_| collection.fields[index].index.ordered);
        golden.push(indexed_member.map_or(Value::Null, |(list, member)| members_of(&golden[list], member)));
    }
    golden
}

/// Packs the state that transitions have set as a JSON object by name; `None` if there is none.
pub fn pack_state(state: &[(usize, Value)], collection: &Collection) -> Option<String> {
    if state.is_empty() {
        return None;
    }
    let entries = state.iter().map(|(index, value)| (collection.states[*index].name.clone(), value.to_json(&collection.states[*index].ty)));
    Some(serde_json::Value::Object(entries.collect()).to_string())
}

/// Reads what [`pack_state`] wrote; states that the definition no longer has are left out.
pub fn unpack_state(text: Option<&str>, collection: &Collection) -> Result<Vec<(usize, Value)>, DamagedPart> {
    let damaged = |reason: String| DamagedPart { part: RecordPart::State, reason };
    let Some(text) = text else { return Ok(Vec::new()) };
    let entries: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|_| damaged("what transitions have set is not JSON".into()))?;
    let mut states = Vec::with_capacity(entries.len());
    for (name, json) in &entries {
        let Some((index, state)) = collection.state(name) else { continue };
        let value = stook_catalogue::value::from_json(json, &state.ty, None);
        states.push((index, value.map_err(|error| damaged(format!("state `{name}`: {error}")))?));
    }
    Ok(states)
}

/// Reads JSON that the store wrote into the row that `row` describes.
pub fn read_json<T: serde::de::DeserializeOwned>(text: &str, row: impl FnOnce() -> String) -> crate::Result<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(Damage::of_row(row(), error.to_string())))
}

/// Returns the fields with these names.
pub fn conflicts_of<'n>(names: impl Iterator<Item = &'n str>, collection: &Collection) -> Result<Vec<FieldId>, DamagedPart> {
    let index = |name: &str| {
        let unknown = || DamagedPart { part: RecordPart::Other, reason: format!("it has a conflict of an unknown field {name:?}") };
        collection.field(name).map(|(index, _)| index).ok_or_else(unknown)
    };
    names.map(index).collect()
}

/// Returns the value that a record claims in a unique field, folded if the field is; null if it does not exist.
pub fn reserved_value(collection: &Collection, field: FieldId, content: &RecordContent) -> Value {
    if !content.exists {
        return Value::Null;
    }
    match &content.golden[field] {
        Value::Text(text) if collection.fields[field].fold => Value::text(fold(text)),
        other => other.clone(),
    }
}

/// The version that a row has after a write.
pub fn version_of(write: &RecordWrite, commit_time: i64) -> Version {
    match (&write.change, write.expect) {
        (RecordChange::Settle(_), Some(version)) => Version::new(version.revision, version.touches + 1),
        (_, version) => Version::new(version.map_or(commit_time, |version| commit_time.max(version.revision + 1)), 0),
    }
}
