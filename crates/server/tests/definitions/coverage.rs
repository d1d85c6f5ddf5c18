//! The expected rows of coverages that count: one for each group of children, with their number.

use super::{Expected, ModelValue, Oracle, Record, evaluate};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Compares the rows of coverages with the expected ones. Returns the number of rows that were known, and of parents of which nothing was known.
///
/// # Errors
/// The actual and the expected rows.
pub fn compare(oracle: &Oracle<'_>, expected: &Expected, seen: &Json) -> Result<(u64, u64), String> {
    let (mut known, mut unknown) = (0, 0);
    for (name, collection) in oracle.definition["collections"].as_object().into_iter().flatten() {
        let Some((parents, _)) = expected.get(name) else { continue };
        for (coverage, coverage_definition) in
            collection["coverage"].as_object().into_iter().flatten().filter(|(_, definition)| counts_children(definition))
        {
            let rows_name = format!("{name}.{coverage}");
            for (key, parent) in parents.iter().filter(|(_, parent)| parent.exists == Some(true)) {
                let Some(groups) = groups(oracle, expected, (collection, coverage_definition), (key, parent)) else {
                    unknown += 1;
                    continue;
                };
                let rows = seen[&rows_name].as_object().into_iter().flat_map(Map::values).filter(|row| row[name] == key.as_str());
                // groups that are expected have a row even without children
                let found: Vec<(&str, u64)> =
                    rows.filter_map(|row| Some((row["group"].as_str()?, row["value"].as_u64()?))).filter(|row| row.1 > 0).collect();
                let is_right = match &groups {
                    Groups::Each(groups) => found.len() == groups.len() && found.iter().all(|(group, number)| groups.get(*group) == Some(number)),
                    Groups::Together(number) => found.iter().map(|row| row.1).sum::<u64>() == *number,
                };
                if !is_right {
                    return Err(format!("rows of {rows_name} for {key} are {found:?} and should be {groups:?}"));
                }
                known += found.len() as u64;
            }
        }
    }
    Ok((known, unknown))
}

/// Numbers of children.
#[derive(Debug)]
enum Groups {
    /// In each group.
    Each(BTreeMap<String, u64>),
    /// In all groups together, because the groups of some children are not known.
    Together(u64),
}

fn counts_children(coverage: &Json) -> bool {
    coverage["measure"] == "count" && coverage.get("value").is_none_or(|value| value == "value")
}

fn groups(oracle: &Oracle<'_>, expected: &Expected, (collection, coverage): (&Json, &Json), (key, parent): (&str, &Record)) -> Option<Groups> {
    if let Some(when) = coverage["when"].as_str() {
        match evaluate(when, &|name| oracle.golden_value(collection, parent, name)) {
            ModelValue::Value(Json::Bool(true)) => {}
            ModelValue::Value(Json::Bool(false)) => return Some(Groups::Together(0)),
            _ => return None,
        }
    }
    let (child, link) = coverage["over"].as_str()?.split_once('.')?;
    let children = oracle.children(expected, (child, link), coverage["where"].as_str(), key)?;
    let child_collection = &oracle.definition["collections"][child];
    let mut groups: BTreeMap<String, u64> = BTreeMap::new();
    for child in &children {
        let group = match child_collection["links"][link]["group"].as_str() {
            None => String::new(),
            Some(field) => match oracle.golden_value(child_collection, child, field) {
                ModelValue::Nothing => String::new(),
                ModelValue::Value(Json::String(text)) => text,
                _ => return Some(Groups::Together(children.len() as u64)),
            },
        };
        *groups.entry(group).or_default() += 1;
    }
    Some(Groups::Each(groups))
}
