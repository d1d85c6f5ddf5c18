//! Keeps results short, because a model reads all of them.

use serde_json::Value as Json;

/// Bytes of a result.
pub const MAX_RESULT: usize = 60_000;
/// Characters of a text inside a row.
const MAX_CELL: usize = 2_000;

/// Adds items to a list while they fit into a result.
pub struct BoundedList {
    pub items: Vec<Json>,
    bytes: usize,
}

impl BoundedList {
    pub fn new() -> Self {
        Self { items: Vec::new(), bytes: 0 }
    }

    /// Adds an item, unless the list would become too long; the first one always fits.
    pub fn add(&mut self, item: Json) -> bool {
        self.bytes += item.to_string().len();
        let fits = self.items.is_empty() || self.bytes <= MAX_RESULT;
        if fits {
            self.items.push(item);
        }
        fits
    }
}

/// Shortens texts of a value that are too long, and says by how much.
pub fn shortened(value: &mut Json) -> bool {
    match value {
        Json::String(text) => match text.char_indices().nth(MAX_CELL) {
            Some((end, _)) => {
                let rest = text[end..].chars().count();
                text.truncate(end);
                text.push_str(&format!("… ({rest} more characters)"));
                true
            }
            None => false,
        },
        // all of them, also after the first that is too long
        Json::Array(items) => items.iter_mut().filter_map(|item| shortened(item).then_some(())).count() > 0,
        Json::Object(members) => members.values_mut().filter_map(|member| shortened(member).then_some(())).count() > 0,
        _ => false,
    }
}
