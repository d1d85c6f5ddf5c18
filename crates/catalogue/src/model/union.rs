//! The union of lists that contributions give for one field, each element once.

use super::record::put_value;
use crate::value::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Returns the elements of all values, in their order, each once.
pub(crate) fn union<'a>(values: impl IntoIterator<Item = &'a Value>) -> Value {
    let mut all: Vec<Value> = Vec::new();
    let mut seen = SeenElements::default();
    for element in values.into_iter().flat_map(Value::elements) {
        if seen.is_new(element, &all) {
            all.push(element.clone());
        }
    }
    if all.is_empty() { Value::Null } else { Value::List(all) }
}

/// Recognises elements that are new to a list. A short list is searched; for a long one, the packed elements are kept in a set.
#[derive(Default)]
struct SeenElements(HashSet<Vec<u8>>);

impl SeenElements {
    /// Max length of a list that is searched.
    const FEW: usize = 32;

    fn is_new(&mut self, element: &Value, all: &[Value]) -> bool {
        if all.len() < Self::FEW {
            return !all.contains(element);
        }
        let packed = |value: &Value| {
            let mut packed = Vec::new();
            put_value(&mut packed, value);
            packed
        };
        if self.0.is_empty() {
            self.0.extend(all.iter().map(packed));
        }
        self.0.insert(packed(element))
    }
}

/// Merges structs with the same value of the member `name`: later members replace earlier ones. Structs without that member are treated as in
/// [`union`].
pub(crate) fn union_by<'a>(name: &str, values: impl IntoIterator<Item = &'a Value>) -> Value {
    let mut all: Vec<Value> = Vec::new();
    let mut positions: HashMap<String, usize> = HashMap::new();
    for element in values.into_iter().flat_map(Value::elements) {
        let Value::Json(json) = element else { continue };
        let Some(key) = json.get(name) else {
            if !all.contains(element) {
                all.push(element.clone());
            }
            continue;
        };
        let end = all.len();
        match all.get_mut(*positions.entry(key.to_string()).or_insert(end)) {
            Some(Value::Json(merged)) => {
                if let (Some(merged), Some(json)) = (Arc::make_mut(merged).as_object_mut(), json.as_object()) {
                    merged.extend(json.iter().map(|(name, value)| (name.clone(), value.clone())));
                }
            }
            _ => all.push(element.clone()),
        }
    }
    if all.is_empty() { Value::Null } else { Value::List(all) }
}
