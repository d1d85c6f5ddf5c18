//! Functions of structs: merging them, leaving out empty members, making one of a list.

use super::{Cel, CelKey, CelMap, EvalResult, unfit};
use std::collections::HashMap;
use std::sync::Arc;

/// Calls a function of structs.
pub(super) fn call(name: &str, args: &[Cel]) -> EvalResult {
    let members: HashMap<CelKey, Cel> = match (name, args) {
        ("merge", [Cel::Map(first), Cel::Map(second)]) => {
            first.map.iter().chain(second.map.iter()).map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        ("compact", [Cel::Map(map)]) => {
            map.map.iter().filter(|(_, value)| !is_empty(value)).map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        ("by_member", [Cel::List(items), Cel::String(member)]) => {
            let member = CelKey::String(member.clone());
            let mut found = HashMap::new();
            for item in items.iter() {
                let Cel::Map(map) = item else { return Err(unfit(name, std::slice::from_ref(item))) };
                if let Some(Cel::String(text)) = map.map.get(&member) {
                    found.entry(CelKey::String(text.clone())).or_insert_with(|| item.clone());
                }
            }
            found
        }
        _ => return Err(unfit(name, args)),
    };
    Ok(Cel::Map(CelMap { map: Arc::new(members) }))
}

fn is_empty(value: &Cel) -> bool {
    match value {
        Cel::Null | Cel::Bool(false) | Cel::Int(0) | Cel::UInt(0) => true,
        Cel::Float(number) => *number == 0.0,
        Cel::String(text) => text.is_empty(),
        Cel::List(items) => items.is_empty(),
        Cel::Map(map) => map.map.is_empty(),
        _ => false,
    }
}
