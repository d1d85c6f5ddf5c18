//! A record as it is served: its values, its entity tag and its JSON text.

use axum::http::HeaderValue;
use bytes::Bytes;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::FieldId;
use stook_catalogue::value::Value;
use stook_store::{StoredRecord, Version};

/// A record as readers see it.
#[derive(Debug)]
pub struct ServedRecord {
    /// Version, golden values and state, without the values in `texts`.
    pub stored: StoredRecord,
    /// Values of type json by field, kept as text because parsed values take three times the memory.
    texts: Vec<(FieldId, Box<str>)>,
    /// Its entity tag.
    pub etag: HeaderValue,
    /// The record as JSON text, made on first use.
    json: OnceLock<Bytes>,
}

impl ServedRecord {
    /// Prepares a stored record for serving.
    pub fn new(mut stored: StoredRecord, collection: &Collection) -> Self {
        let mut texts = Vec::new();
        for (index, value) in stored.golden.iter_mut().enumerate() {
            if let Value::Json(json) = value {
                texts.push((FieldId::from(index), json.to_string().into()));
                *value = Value::Null;
            }
        }
        Self { etag: etag(stored.version, collection), stored, texts, json: OnceLock::new() }
    }

    /// Returns the golden value of a field.
    pub fn field(&self, index: FieldId) -> Cow<'_, Value> {
        match self.texts.iter().find(|(known, _)| *known == index) {
            Some((_, text)) => Cow::Owned(serde_json::from_str(text).map_or(Value::Null, |json| Value::Json(Arc::new(json)))),
            None => Cow::Borrowed(&self.stored.golden[index]),
        }
    }

    /// Returns the text of a field of type json.
    pub fn text(&self, index: FieldId) -> Option<&str> {
        self.texts.iter().find(|(known, _)| *known == index).map(|(_, text)| &**text)
    }

    /// Returns the record as JSON.
    pub fn to_json(&self, collection: &Collection) -> serde_json::Value {
        if self.texts.is_empty() {
            return stook_engine::record::to_json(collection, &self.stored);
        }
        let golden = (0..self.stored.golden.len()).map(|index| self.field(FieldId::from(index)).into_owned()).collect();
        stook_engine::record::to_json(collection, &StoredRecord { golden, ..self.stored.clone() })
    }

    /// Returns the record as JSON text.
    pub fn json(&self, collection: &Collection) -> Bytes {
        self.json.get_or_init(|| self.to_json(collection).to_string().into()).clone()
    }

    /// Approximate memory in bytes, including the JSON text.
    pub fn size(&self) -> usize {
        let values = self.stored.golden.iter().chain(&self.stored.state);
        let texts: usize = self.texts.iter().map(|(_, text)| 40 + 2 * text.len()).sum();
        texts + values.map(|value| 48 + size(value)).sum::<usize>()
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Text(text) => 2 * text.len(),
        Value::List(items) => items.iter().map(|item| 40 + size(item)).sum(),
        _ => 8,
    }
}

/// Returns the entity tag of a version: its revision and, if values of the collection are settled later, the number of later writes that left the
/// content unchanged.
pub fn etag(version: Version, collection: &Collection) -> HeaderValue {
    let tag = match version.touches {
        touch @ 1.. if collection.settles() => format!("\"{}-{touch}\"", version.revision),
        _ => format!("\"{}\"", version.revision),
    };
    HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"0\""))
}
