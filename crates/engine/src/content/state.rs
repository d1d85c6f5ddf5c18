//! The state of a record: what transitions have set, or else the initial values of the definition.

use stook_catalogue::definition::Collection;
use stook_catalogue::eval::Evaluator;
use stook_catalogue::golden::GoldenValues;
use stook_catalogue::value::{Value, among};

/// The values of the state fields: what transitions have set, or else the initial values.
pub fn effective_state(collection: &Collection, evaluator: &Evaluator, golden: &[Value], set: &[(usize, Value)]) -> Vec<Value> {
    let seed = |index: usize| {
        let state = &collection.states[index];
        let seed = state.initial.as_ref()?;
        let found = evaluator.value(seed, &state.ty, &GoldenValues::new(collection, golden));
        let found = found.and_then(|value| among(value, &state.ty, &state.one_of));
        found.map_err(|error| evaluator.note(&format!("state field `{}`", state.name), seed, &error)).ok()
    };
    let value = |index: usize| match set.iter().find(|(set, _)| *set == index) {
        Some((_, value)) => value.clone(),
        None => seed(index).unwrap_or_default(),
    };
    (0..collection.states.len()).map(value).collect()
}
