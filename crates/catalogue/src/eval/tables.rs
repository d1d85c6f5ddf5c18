//! Constant tables: fixed mappings from keys to values, in which expressions and rules look values up.

use super::convert::{CelValue as Cel, text_to_cel};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Constant tables by name: key to value, with an optional value for every other key.
pub type ConstantTables = BTreeMap<String, ConstantTable>;

/// A constant table.
#[derive(Debug, Clone, Default)]
pub struct ConstantTable {
    /// Values by key.
    pub rows: BTreeMap<String, TableValue>,
    /// Values by the beginning of the key, tried in order when no row is equal.
    pub patterns: Vec<(Regex, TableValue)>,
    /// The value of a key that has no row.
    pub default: Option<TableValue>,
}

/// A value of a constant table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableValue {
    /// One text.
    Text(String),
    /// Several.
    List(Vec<String>),
}

impl TableValue {
    pub(crate) fn to_cel(&self) -> Cel {
        match self {
            TableValue::Text(text) => text_to_cel(text),
            TableValue::List(items) => Cel::List(Arc::new(items.iter().map(|item| text_to_cel(item)).collect())),
        }
    }
}

impl ConstantTable {
    /// The value of `key`.
    pub fn entry(&self, key: &str) -> Option<&TableValue> {
        let matching = || self.patterns.iter().find(|(pattern, _)| pattern.is_match(key)).map(|(_, entry)| entry);
        self.rows.get(key).or_else(matching).or(self.default.as_ref())
    }

    /// The value of `key`, if it is a text.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.entry(key)? {
            TableValue::Text(text) => Some(text),
            TableValue::List(_) => None,
        }
    }
}
