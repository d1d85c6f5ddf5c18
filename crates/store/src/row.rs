//! Parts of a row that every store keeps alike.

use crate::{Content, Logged, RecordWrite, Settled, Settling, Tenant, Unit};
use stook_catalogue::definition::Collection;
use stook_catalogue::fold::fold;
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::Value;

/// Golden values as they are used, of those that are kept: members that an index asks for are found in their structs.
pub fn with_members(collection: &Collection, mut golden: Vec<Value>) -> Vec<Value> {
    for index in golden.len()..collection.fields.len() {
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
pub fn unpack_state(text: Option<String>, collection: &Collection) -> Vec<(usize, Value)> {
    let Some(text) = text else { return Vec::new() };
    let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
    let known = entries.iter().filter_map(|(name, json)| {
        let (index, state) = collection.state(name)?;
        Some((index, stook_catalogue::value::from_json(json, &state.ty, None).ok()?))
    });
    known.collect()
}

/// The value a record wants to have in a unique field; one that does not exist wants none.
pub fn reserved_value(collection: &Collection, field: usize, content: &Content) -> Value {
    if !content.alive {
        return Value::Null;
    }
    match &content.golden[field] {
        Value::Text(text) if collection.fields[field].fold => Value::text(fold(text)),
        other => other.clone(),
    }
}

/// What a pass writes, as a unit.
pub struct SettledUnit<'t> {
    tenant: &'t Tenant,
    settled: Settled,
}

impl<'t> SettledUnit<'t> {
    pub fn new(tenant: &'t Tenant, mut settled: Settled) -> Self {
        settled.writes.sort_by(|a, b| (a.collection, &a.key).cmp(&(b.collection, &b.key)));
        Self { tenant, settled }
    }
}

impl Unit for SettledUnit<'_> {
    fn tenant(&self) -> &Tenant {
        self.tenant
    }

    fn writes(&self) -> &[RecordWrite] {
        &self.settled.writes
    }

    fn settling(&mut self) -> Settling {
        std::mem::take(&mut self.settled.settling)
    }

    fn log(&mut self) -> Vec<Logged> {
        std::mem::take(&mut self.settled.log)
    }
}
