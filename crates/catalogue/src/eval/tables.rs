//! Constant tables, which map keys to values, and named areas.

use super::convert::{CelValue as Cel, text_to_cel};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::Arc;
use stook_geometry::NamedAreas;

/// Constant tables and sets of named areas, each by name.
#[derive(Debug, Clone, Default)]
pub struct ConstantTables {
    tables: BTreeMap<String, ConstantTable>,
    /// `None` if the file does not exist: nothing is then known about the areas.
    areas: BTreeMap<String, Option<Arc<NamedAreas>>>,
}

impl ConstantTables {
    /// Adds a constant table.
    pub fn insert(&mut self, name: &str, table: ConstantTable) {
        self.tables.insert(name.to_owned(), table);
    }

    /// Returns the constant table of a name.
    pub fn get(&self, name: &str) -> Option<&ConstantTable> {
        self.tables.get(name)
    }

    /// Iterates over the names of the constant tables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str)
    }

    /// Adds a set of named areas; `None` if its file does not exist.
    pub fn insert_areas(&mut self, name: &str, areas: Option<NamedAreas>) {
        self.areas.insert(name.to_owned(), areas.map(Arc::new));
    }

    /// Returns the named areas of a name; the inner `None` means that their file does not exist.
    pub fn areas(&self, name: &str) -> Option<Option<&NamedAreas>> {
        self.areas.get(name).map(Option::as_deref)
    }

    /// Iterates over the names of the sets of named areas.
    pub fn names_of_areas(&self) -> impl Iterator<Item = &str> {
        self.areas.keys().map(String::as_str)
    }
}

impl<const N: usize> From<[(String, ConstantTable); N]> for ConstantTables {
    fn from(tables: [(String, ConstantTable); N]) -> Self {
        Self { tables: tables.into(), areas: BTreeMap::new() }
    }
}

/// A constant table.
#[derive(Debug, Clone, Default)]
pub struct ConstantTable {
    /// Values by key.
    pub rows: BTreeMap<String, TableValue>,
    /// Values by regular expressions on the beginning of the key, tried in order if no row is equal.
    pub patterns: Vec<(Regex, TableValue)>,
    /// The value of other keys.
    pub default: Option<TableValue>,
}

/// A value of a constant table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableValue {
    /// One text.
    Text(String),
    /// Several texts.
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
    /// Returns the value of `key`.
    pub fn entry(&self, key: &str) -> Option<&TableValue> {
        let matching = || self.patterns.iter().find(|(pattern, _)| pattern.is_match(key)).map(|(_, entry)| entry);
        self.rows.get(key).or_else(matching).or(self.default.as_ref())
    }

    /// Returns the value of `key`, if it is a text.
    pub fn get(&self, key: &str) -> Option<&str> {
        match self.entry(key)? {
            TableValue::Text(text) => Some(text),
            TableValue::List(_) => None,
        }
    }
}
