//! Parts of a row that every store keeps alike.

use crate::damage::{Damage, DamagedPart, RecordPart};
use crate::{RecordContent, StoreError};
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::ids::FieldId;
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::Value;

/// Golden values as they are used, of those that are kept: members that an index asks for are found in their structs.
pub fn with_members(collection: &Collection, mut golden: Vec<Value>) -> Vec<Value> {
    for index in collection.fields.ids().skip(golden.len()) {
        let asked = collection.member(index).filter(|_| collection.fields[index].index.ordered);
        golden.push(asked.map_or(Value::Null, |(list, member)| members_of(&golden[list], member)));
    }
    golden
}

/// State that transitions have set, as JSON from name to value.
pub fn pack_state(state: &[(usize, Value)], collection: &Collection) -> Option<String> {
    if state.is_empty() {
        return None;
    }
    let entries = state.iter().map(|(index, value)| (collection.states[*index].name.clone(), value.to_json(&collection.states[*index].ty)));
    Some(serde_json::Value::Object(entries.collect()).to_string())
}

/// Reads what [`pack_state`] wrote; what the definition does not know any more is left out.
pub fn unpack_state(text: Option<&str>, collection: &Collection) -> Result<Vec<(usize, Value)>, DamagedPart> {
    let damaged = |reason: String| DamagedPart { part: RecordPart::State, reason };
    let Some(text) = text else { return Ok(Vec::new()) };
    let entries: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(text).map_err(|_| damaged("what transitions have set is not JSON".into()))?;
    let mut known = Vec::with_capacity(entries.len());
    for (name, json) in &entries {
        let Some((index, state)) = collection.state(name) else { continue };
        let value = stook_catalogue::value::from_json(json, &state.ty, None);
        known.push((index, value.map_err(|error| damaged(format!("state `{name}`: {error}")))?));
    }
    Ok(known)
}

/// Reads JSON that the store wrote into a row, which `row` names.
pub fn read_json<T: serde::de::DeserializeOwned>(text: &str, row: impl FnOnce() -> String) -> crate::Result<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Damaged(Damage::of_row(row(), error.to_string())))
}

/// The fields that names in a row are of.
pub fn conflicts_of<'n>(names: impl Iterator<Item = &'n str>, collection: &Collection) -> Result<Vec<FieldId>, DamagedPart> {
    let index = |name: &str| {
        let unknown = || DamagedPart { part: RecordPart::Other, reason: format!("it has a conflict of an unknown field {name:?}") };
        collection.field(name).map(|(index, _)| index).ok_or_else(unknown)
    };
    names.map(index).collect()
}

/// The value a record wants to have in a unique field; one that does not exist wants none.
pub fn reserved_value(collection: &Collection, field: FieldId, content: &RecordContent) -> Value {
    if !content.exists {
        return Value::Null;
    }
    match &content.golden[field] {
        Value::Text(text) if collection.fields[field].fold => Value::text(fold(text)),
        other => other.clone(),
    }
}
