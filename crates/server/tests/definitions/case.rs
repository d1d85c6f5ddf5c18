//! A case: a definition, files of its sources, and edits. As JSON it can be stored; printed, it can be pasted.

use super::documents::printed;
use super::yaml;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

/// One file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    pub source: String,
    /// When it was delivered, in seconds.
    pub as_of: i64,
    pub documents: Vec<Json>,
}

/// One request that changes a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Edit {
    pub collection: String,
    /// The position of the record, in key order, modulo the number of records.
    #[serde(rename = "place")]
    pub position: u64,
    pub method: String,
    pub body: Json,
    /// A field to clear, whatever other contributors say.
    #[serde(default)]
    pub clear: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    pub definition: Json,
    pub deliveries: Vec<Delivery>,
    pub edits: Vec<Edit>,
}

impl Case {
    /// Whether every file belongs to an existing source.
    pub fn is_whole(&self) -> bool {
        self.deliveries.iter().all(|delivery| self.definition["sources"].get(&delivery.source).is_some() && !delivery.documents.is_empty())
    }

    /// Whether there is a unique field.
    pub fn has_unique(&self) -> bool {
        self.definition["collections"].to_string().contains("\"unique\":true")
    }

    /// Whether the order in which files are accepted matters.
    pub fn orders_by_reception(&self) -> bool {
        self.definition["sources"].as_object().into_iter().flatten().any(|(_, source)| source["as_of"].is_array())
    }

    pub fn first_collection(&self) -> &str {
        self.definition["collections"].as_object().and_then(|collections| collections.keys().next()).map_or("", String::as_str)
    }

    /// Iterates over the collections whose records may carry tags.
    pub fn tagged_collections(&self) -> impl Iterator<Item = (&String, &Json)> {
        self.definition["collections"].as_object().into_iter().flatten().filter(|(_, collection)| collection.get("tags").is_some())
    }

    pub fn printed(&self) -> String {
        let mut out = yaml::text(&self.definition);
        for delivery in &self.deliveries {
            out.push_str(&printed(&self.definition["sources"][&delivery.source], delivery));
        }
        for Edit { collection, position, method, body, clear } in &self.edits {
            let clear = clear.as_ref().map(|field| format!(", clear {field}")).unwrap_or_default();
            out.push_str(&format!("# {method} record {position} of {collection}: {body}{clear}\n"));
        }
        out
    }

    /// Merges definitions that have no names in common.
    pub fn merged<'c>(cases: impl IntoIterator<Item = &'c Case>) -> Json {
        let mut whole = json!({ "catalogue": "c" });
        for (section, value) in cases.into_iter().filter_map(|case| case.definition.as_object()).flatten() {
            match (&mut whole[section], value) {
                (Json::Object(known), Json::Object(more)) => known.extend(more.clone()),
                (Json::Array(known), Json::Array(more)) => known.extend(more.clone()),
                (known, value) => *known = value.clone(),
            }
        }
        // empty sections are left out
        let empty = |value: &Json| value.as_object().is_some_and(Map::is_empty);
        if let Some(whole) = whole.as_object_mut() {
            whole.retain(|_, value| !empty(value));
        }
        whole
    }
}
