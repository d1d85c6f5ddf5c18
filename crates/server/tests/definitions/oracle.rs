//! The expected records, computed from the documentation alone: nothing here is shared with the engine.
//!
//! Documents become contributions ([`super::reading`]), and these become records. What is not modelled is unknown, and so is everything that depends
//! on it: links of overlapping intervals, coverages that do not count, lists of structs that are joined, tags, embedded documents, texts of JSON and
//! ranges, most functions of CEL, and documents with the same time and different contents that are not ordered by reception. On those, the stores and
//! all orders must only agree with each other.

use super::case::{Case, Delivery, Edit};
use super::comparison;
use super::reading::{
    self, Contribution, ContributionOrder, MAX_KEY_BYTES, ModelValue, Outcome, SkippedDocument, contributions_of, evaluate, filled,
};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

#[path = "coverage.rs"]
mod coverage;

/// An expected record.
#[derive(Debug, Clone, Default)]
struct Record {
    /// Whether it exists, if that is known.
    exists: Option<bool>,
    values: BTreeMap<String, ModelValue>,
    conflicts: BTreeMap<String, Option<bool>>,
}

type Records = BTreeMap<String, Record>;

/// A contributor's newest contribution, and the older ones.
struct ContributorHistory<'s> {
    newest: &'s Contribution,
    older: Vec<&'s Contribution>,
}

/// Compares actual with expected records. Returns the numbers of values that were known and unknown.
///
/// # Errors
/// A difference.
pub fn compare(case: &Case, edits: &[(&Edit, &str)], seen: &Json) -> Result<(u64, u64), String> {
    let oracle = Oracle::new(case, edits);
    let expected = oracle.records();
    let (mut known, mut unknown) = coverage::compare(&oracle, &expected, seen)?;
    for (name, collection) in case.definition["collections"].as_object().into_iter().flatten() {
        let Some(records) = expected.get(name) else {
            unknown += seen[name].as_object().map_or(0, |records| records.len() as u64);
            continue;
        };
        let keys: BTreeSet<&String> = seen[name].as_object().into_iter().flat_map(Map::keys).chain(records.0.keys()).collect();
        for key in keys {
            let found = seen[name].get(key);
            let Some(record) = records.0.get(key) else {
                if records.1 {
                    continue;
                }
                return Err(format!("{name} {key} is there and should not be: {}", found.cloned().unwrap_or_default()));
            };
            match record.exists {
                None => continue,
                Some(exists) if exists != found.is_some() => {
                    let what = if exists { "is not there and should be" } else { "is there and should not be" };
                    return Err(format!("{name} {key} {what}"));
                }
                Some(false) => continue,
                Some(true) => {}
            }
            let found = found.cloned().unwrap_or_default();
            for field in collection["fields"]
                .as_object()
                .into_iter()
                .flat_map(Map::keys)
                .chain(collection["links"].as_object().into_iter().flat_map(Map::keys))
            {
                let wanted = match record.values.get(field) {
                    Some(ModelValue::Value(value)) => Some(value.clone()),
                    Some(ModelValue::Nothing) => None,
                    _ => {
                        unknown += 1;
                        continue;
                    }
                };
                known += 1;
                if found.get(field) != wanted.as_ref() {
                    let shown = |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
                    return Err(format!("{field} of {name} {key} is {} and should be {}", shown(found.get(field)), shown(wanted.as_ref())));
                }
            }
            for (field, conflict) in &record.conflicts {
                let disagrees = found["conflict"].as_array().is_some_and(|names| names.contains(&json!(field)));
                if conflict.is_some_and(|conflict| conflict != disagrees) {
                    return Err(format!("that contributors of {name} {key} disagree on {field} is {disagrees}, and should not be"));
                }
            }
        }
    }
    Ok((known, unknown))
}

struct Oracle<'c> {
    definition: &'c Json,
    contributions: Vec<Contribution>,
    /// Skipped documents, with the number of their file.
    skipped: Vec<(usize, &'c Delivery, SkippedDocument)>,
    /// Collections about which nothing is known.
    unknown_collections: BTreeSet<String>,
    /// Records about which nothing is known.
    unknown: BTreeSet<(String, String)>,
}

/// What a complete delivery contains of a scope.
struct ScopeDelivery {
    /// Its as-of time.
    as_of: i64,
    /// Its earliest time in the scope.
    first: i64,
    /// Its keys, each with its latest time.
    keys: BTreeMap<(String, String), i64>,
}

/// Records by collection, and whether there may be others.
type Expected = BTreeMap<String, (Records, bool)>;

impl<'c> Oracle<'c> {
    fn new(case: &'c Case, edits: &[(&Edit, &str)]) -> Self {
        let definition = &case.definition;
        let mut oracle =
            Self { definition, contributions: Vec::new(), skipped: Vec::new(), unknown_collections: BTreeSet::new(), unknown: BTreeSet::new() };
        let mut failed = BTreeSet::new();
        for (file, delivery) in case.deliveries.iter().enumerate() {
            let source = &definition["sources"][&delivery.source];
            let feeds = |source: &Json| -> Vec<String> {
                let several = source["feeds"].as_array().into_iter().flatten().filter_map(|feed| feed["into"].as_str());
                several.chain(source["into"].as_str()).map(str::to_owned).collect()
            };
            for embedded in source["embeds"].as_object().into_iter().flat_map(Map::keys) {
                oracle.unknown_collections.extend(feeds(&definition["sources"][embedded]));
            }
            for (ordinal, document) in delivery.documents.iter().enumerate() {
                match contributions_of(definition, delivery, (file, ordinal), document) {
                    Outcome::Contributed(contributions) => oracle.contributions.extend(contributions),
                    Outcome::Skipped(skipped) => oracle.skipped.extend(skipped.map(|skipped| (file, delivery, skipped))),
                    Outcome::Failed => {
                        failed.insert(file);
                    }
                    Outcome::Unknown => {
                        oracle.unknown_collections.extend(feeds(source));
                        failed.insert(file);
                    }
                }
            }
        }
        let mut of_record: BTreeMap<(&str, &str), Vec<&Edit>> = BTreeMap::new();
        for (edit, key) in edits {
            of_record.entry((&edit.collection, key)).or_default().push(edit);
        }
        for ((collection, key), edits) in of_record {
            match reading::api_contribution(definition, collection, key, &edits) {
                Some(contribution) => oracle.contributions.push(contribution),
                None => {
                    oracle.unknown.insert((collection.to_owned(), key.to_owned()));
                }
            }
        }
        oracle.forget_contested_collections();
        oracle.retire(&failed);
        oracle
    }

    /// The first record keeps a unique value: nothing is known about records that want the same value.
    fn forget_contested_collections(&mut self) {
        let mut unknown_collections = BTreeSet::new();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            let fields = collection["fields"].as_object().into_iter().flatten().filter(|(_, field_definition)| field_definition["unique"] == true);
            for (field, _) in fields {
                let mut keys: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
                for contribution in self.contributions.iter().filter(|contribution| contribution.collection == *name) {
                    match contribution.values.get(field) {
                        Some(ModelValue::Value(value)) => {
                            keys.entry(value.to_string()).or_default().insert(&contribution.key);
                        }
                        Some(ModelValue::Unknown) => {
                            unknown_collections.insert(name.clone());
                        }
                        _ => {}
                    }
                }
                unknown_collections.extend(keys.values().any(|keys| keys.len() > 1).then(|| name.clone()));
            }
        }
        let sources: BTreeSet<&str> = self
            .contributions
            .iter()
            .filter(|contribution| unknown_collections.contains(&contribution.collection))
            .map(|contribution| contribution.source.as_str())
            .collect();
        let also = self
            .contributions
            .iter()
            .filter(|contribution| sources.contains(contribution.source.as_str()))
            .map(|contribution| contribution.collection.clone());
        unknown_collections.extend(also.collect::<Vec<_>>());
        self.unknown_collections.extend(unknown_collections);
    }

    /// Removes contributions that newer complete deliveries retire.
    fn retire(&mut self, failed: &BTreeSet<usize>) {
        let mut files: BTreeMap<(String, String), BTreeMap<usize, ScopeDelivery>> = BTreeMap::new();
        for contribution in self.contributions.iter().filter(|contribution| !failed.contains(&contribution.file)) {
            let Some((scope, at)) = &contribution.scope else { continue };
            let of_scope = files.entry((contribution.source.clone(), scope.clone())).or_default();
            let file = of_scope.entry(contribution.file).or_insert_with(|| ScopeDelivery {
                as_of: contribution.as_of.unwrap_or(i64::MIN),
                first: *at,
                keys: BTreeMap::new(),
            });
            file.first = file.first.min(*at);
            let last = file.keys.entry((contribution.collection.clone(), contribution.key.clone())).or_insert(*at);
            *last = (*last).max(*at);
        }
        for (number, delivery, skipped) in self.skipped.iter().filter(|(file, ..)| !failed.contains(file)) {
            let (scope, at) = &skipped.scope;
            let of_scope = files.entry((delivery.source.clone(), scope.clone())).or_default();
            let file = of_scope.entry(*number).or_insert_with(|| ScopeDelivery { as_of: delivery.as_of, first: *at, keys: BTreeMap::new() });
            file.first = file.first.min(*at);
            for key in &skipped.keys {
                let last = file.keys.entry(key.clone()).or_insert(*at);
                *last = (*last).max(*at);
            }
        }
        let mut counted: BTreeMap<(String, String), Option<Vec<ScopeDelivery>>> = BTreeMap::new();
        for ((source, scope), of_scope) in files {
            let max_percent = self.definition["sources"][&source]["replaces"]["most"].as_str().unwrap_or("20%");
            let max_percent: usize = max_percent.trim_end_matches('%').parse().unwrap_or_default();
            let mut of_scope: Vec<ScopeDelivery> = of_scope.into_values().collect();
            of_scope.sort_by_key(|file| file.as_of);
            let tied = of_scope.windows(2).any(|pair| pair[0].as_of == pair[1].as_of);
            let mut counts: Vec<ScopeDelivery> = Vec::new();
            for file in of_scope {
                let before = counts.last().map(|before| &before.keys);
                let had: Vec<_> = before.into_iter().flatten().filter(|(_, at)| **at >= file.first).map(|(key, _)| key).collect();
                let missing = had.iter().filter(|key| !file.keys.contains_key(**key)).count();
                if missing * 100 <= max_percent * had.len() {
                    counts.push(file);
                }
            }
            // of two files with the same time, it is not defined which is newer
            counted.insert((source, scope), (!tied).then_some(counts));
        }
        for contribution in &mut self.contributions {
            let Some((scope, at)) = &contribution.scope else { continue };
            let as_of = contribution.as_of.unwrap_or(i64::MIN);
            match counted.get(&(contribution.source.clone(), scope.clone())) {
                None => {}
                Some(None) => {
                    self.unknown.insert((contribution.collection.clone(), contribution.key.clone()));
                }
                Some(Some(counts)) => contribution.retired = counts.iter().any(|file| file.as_of > as_of && file.first <= *at),
            }
        }
    }

    fn records(&self) -> Expected {
        let mut expected: Expected = BTreeMap::new();
        let mut by_key: BTreeMap<(String, String), Vec<&Contribution>> = BTreeMap::new();
        for contribution in &self.contributions {
            by_key.entry((contribution.collection.clone(), contribution.key.clone())).or_default().push(contribution);
        }
        for (name, _) in self.definition["collections"].as_object().into_iter().flatten() {
            if !self.unknown_collections.contains(name) {
                expected.insert(name.clone(), (Records::new(), false));
            }
        }
        for ((name, key), contributions) in &by_key {
            if let Some((records, _)) = expected.get_mut(name) {
                let record = if self.unknown.contains(&(name.clone(), key.clone())) { Record::default() } else { self.record(name, contributions) };
                records.insert(key.clone(), record);
            }
        }
        self.links(&mut expected);
        self.fill_linked_fields(&mut expected);
        self.rollups(&mut expected);
        expected
    }

    /// Makes a record of its contributions, without values from other records.
    fn record(&self, name: &str, contributions: &[&Contribution]) -> Record {
        let collection = &self.definition["collections"][name];
        let mut by_contributor: BTreeMap<&str, Vec<&Contribution>> = BTreeMap::new();
        for contribution in contributions {
            by_contributor.entry(&contribution.contributor).or_default().push(contribution);
        }
        let mut histories: Vec<ContributorHistory<'_>> = Vec::new();
        for mut newest_first in by_contributor.into_values() {
            newest_first.sort_by_key(|contribution| std::cmp::Reverse(contribution.order()));
            let newest = newest_first[0];
            // with equal times and different contents, the winner is not defined
            if newest_first[1..].iter().any(|contribution| contribution.order() == newest.order() && !contribution.has_same_content(newest)) {
                return Record::default();
            }
            let has_unreadable = newest_first.iter().any(|contribution| contribution.values.values().any(|value| *value == ModelValue::Unreadable));
            let is_tied = newest_first[1..].windows(2).any(|pair| pair[0].order() == pair[1].order() && !pair[0].has_same_content(pair[1]));
            if has_unreadable && is_tied {
                return Record::default();
            }
            if newest.scope.is_some()
                && newest_first.iter().any(|contribution| contribution.values.values().any(|value| *value == ModelValue::Unreadable))
            {
                return Record::default();
            }
            if !newest.retired {
                histories.push(ContributorHistory { newest, older: newest_first[1..].to_vec() });
            }
        }
        let exists_if_any = collection["exists"] == "any";
        let last = histories.iter().map(|history| history.newest.order()).max();
        let deciding: BTreeSet<bool> = histories
            .iter()
            .filter(|history| exists_if_any || Some(history.newest.order()) == last)
            .map(|history| !history.newest.is_deletion)
            .collect();
        let exists = match (exists_if_any, deciding.len()) {
            (true, _) => Some(deciding.contains(&true)),
            (false, 0) => Some(false),
            (false, 1) => Some(deciding.contains(&true)),
            _ => None,
        };
        let mut record = Record { exists, ..Record::default() };
        for (field, field_definition) in collection["fields"].as_object().into_iter().flatten() {
            if field_definition.get("derive").is_none() && field_definition.get("rollup").is_none() {
                let candidates = candidates(field, field_definition, &histories);
                if let Some(comparison) = field_definition.get("compare").filter(|comparison| **comparison != false) {
                    record.conflicts.insert(field.clone(), disagree(comparison, field_definition, &candidates));
                }
                record.values.insert(field.clone(), golden(collection, field_definition, candidates));
            }
        }
        self.derive(collection, &histories, &mut record);
        record
    }

    /// Computes fields that are derived from the record's own fields.
    fn derive(&self, collection: &Json, histories: &[ContributorHistory<'_>], record: &mut Record) {
        let links: Vec<&String> = collection["links"].as_object().into_iter().flat_map(Map::keys).collect();
        for (field, field_definition) in collection["fields"].as_object().into_iter().flatten() {
            let Some(derive) = field_definition["derive"].as_str().filter(|text| links.iter().all(|link| !text.contains(&format!("{link}.")))) else {
                continue;
            };
            let value = if derive == "sources" {
                // a source of a service is shown by the service's name
                let named = |source: &'_ str| self.definition["sources"][source]["asks"]["service"].as_str().unwrap_or(source).to_owned();
                let names: BTreeSet<String> =
                    histories.iter().filter(|history| !history.newest.is_deletion).map(|history| named(&history.newest.source)).collect();
                ModelValue::Value(json!(names))
            } else {
                let value = evaluate(derive, &|name| self.golden_value(collection, record, name));
                typed(value, field_definition)
            };
            record.values.insert(field.clone(), value);
        }
    }

    /// Returns a golden value for expressions.
    fn golden_value(&self, collection: &Json, record: &Record, name: &str) -> ModelValue {
        let field = &collection["fields"][name];
        if field.is_null() || combines(collection, field) {
            return ModelValue::Unknown;
        }
        record.values.get(name).cloned().unwrap_or(ModelValue::Unknown)
    }

    fn links(&self, expected: &mut Expected) {
        // records that links create have links, too
        while self.link_all(expected) {}
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (link, link_definition) in
                collection["links"].as_object().into_iter().flatten().filter(|(_, link_definition)| link_definition.get("same").is_some())
            {
                let Some((records, _)) = expected.get_mut(name) else { continue };
                for record in records.values_mut() {
                    let value = self.equal(&before, collection, link_definition, record);
                    record.values.insert(link.clone(), value);
                }
            }
        }
    }

    /// Returns the keys that a link by equal fields leads to: those of all records that have an element of a list, otherwise the smallest.
    fn equal(&self, expected: &Expected, collection: &Json, link_definition: &Json, record: &Record) -> ModelValue {
        let pair = match &link_definition["same"] {
            Json::Array(names) if names.len() == 1 => names[0].as_str().map(|name| (name, name)),
            Json::Object(pairs) if pairs.len() == 1 => {
                pairs.iter().next().and_then(|(own_field, target_field)| Some((own_field.as_str(), target_field.as_str()?)))
            }
            _ => None,
        };
        let Some((own_field, target_field)) = pair.filter(|_| link_definition.get("overlap").is_none()) else { return ModelValue::Unknown };
        match self.condition(collection, link_definition, record) {
            Some(true) => {}
            Some(false) => return ModelValue::Nothing,
            None => return ModelValue::Unknown,
        }
        let target = link_definition["to"].as_str().unwrap_or_default();
        let target_collection = &self.definition["collections"][target];
        if collection["fields"][own_field]["fold"] == true || target_collection["fields"][target_field]["fold"] == true {
            return ModelValue::Unknown;
        }
        let elements = |value: Json| match value {
            Json::Array(elements) => elements,
            scalar => vec![scalar],
        };
        let (wanted, is_list) = match self.golden_value(collection, record, own_field) {
            ModelValue::Value(value) => (elements(value.clone()), value.is_array()),
            ModelValue::Nothing | ModelValue::Unreadable => return ModelValue::Nothing,
            ModelValue::Unknown | ModelValue::Cleared => return ModelValue::Unknown,
        };
        let Some((records, false)) = expected.get(target) else { return ModelValue::Unknown };
        let mut keys: Vec<&String> = Vec::new();
        for (key, record) in records {
            match (record.exists, self.golden_value(target_collection, record, target_field)) {
                (Some(false), _) | (Some(true), ModelValue::Nothing) => {}
                (Some(true), ModelValue::Value(value)) => keys.extend(elements(value).iter().any(|element| wanted.contains(element)).then_some(key)),
                _ => return ModelValue::Unknown,
            }
        }
        match (keys.first(), is_list) {
            (None, _) => ModelValue::Nothing,
            (Some(first), false) => ModelValue::Value(json!(first)),
            (Some(_), true) => ModelValue::Value(json!(keys)),
        }
    }

    /// Whether the condition of a link holds, if known.
    fn condition(&self, collection: &Json, link_definition: &Json, record: &Record) -> Option<bool> {
        let Some(when) = link_definition["when"].as_str() else { return Some(true) };
        match evaluate(when, &|name| self.golden_value(collection, record, name)) {
            ModelValue::Value(Json::Bool(holds)) => Some(holds),
            _ => None,
        }
    }

    /// Follows links that were not followed before. Returns whether records were created.
    fn link_all(&self, expected: &mut Expected) -> bool {
        let mut created: Vec<(String, Option<String>)> = Vec::new();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (link, link_definition) in collection["links"].as_object().into_iter().flatten() {
                let target = link_definition["to"].as_str().unwrap_or_default().to_owned();
                let creates = link_definition["create"] == true;
                let Some((records, may_have_more)) = expected.get_mut(name) else {
                    created.extend(creates.then(|| (target.clone(), None)));
                    continue;
                };
                if creates && *may_have_more {
                    created.push((target.clone(), None));
                }
                for record in records.values_mut().filter(|record| !record.values.contains_key(link)) {
                    let value = self.linked(collection, link_definition, record);
                    if creates {
                        match (&value, record.exists) {
                            (_, Some(false)) => {}
                            (ModelValue::Value(keys), Some(true)) => created.extend(target_keys(keys).map(|key| (target.clone(), Some(key)))),
                            (ModelValue::Nothing, _) => {}
                            _ => created.push((target.clone(), None)),
                        }
                    }
                    record.values.insert(link.clone(), value);
                }
            }
        }
        let mut is_new = false;
        for (target, key) in created {
            let collection = &self.definition["collections"][&target];
            // the link is a contributor, too, and contributes the key
            let combined = collection["key"].as_str().filter(|field| combines(collection, &collection["fields"][*field]));
            let Some((records, may_have_more)) = expected.get_mut(&target) else { continue };
            match key {
                // the target may be any record
                None => {
                    *may_have_more = true;
                    for record in records.values_mut() {
                        record.values.extend(combined.map(|field| (field.to_owned(), ModelValue::Unknown)));
                        if record.exists == Some(false) {
                            record.exists = None;
                        }
                    }
                }
                Some(key) => match records.get_mut(&key) {
                    // without other contributions, the record exists and has only its key
                    None => {
                        let mut record = Record { exists: Some(true), ..Record::default() };
                        let fields = collection["fields"].as_object().into_iter().flatten();
                        let contributed_fields =
                            fields.filter(|(_, definition)| definition.get("derive").is_none() && definition.get("rollup").is_none());
                        record.values.extend(contributed_fields.map(|(field, _)| (field.clone(), ModelValue::Nothing)));
                        if let Some(field) = collection["key"].as_str() {
                            record
                                .values
                                .insert(field.to_owned(), if combined.is_none() { ModelValue::Value(json!(key)) } else { ModelValue::Unknown });
                        }
                        records.insert(key, record);
                        is_new = true;
                    }
                    Some(record) if record.exists == Some(false) => *record = Record::default(),
                    Some(record) => record.values.extend(combined.map(|field| (field.to_owned(), ModelValue::Unknown))),
                },
            }
        }
        is_new
    }

    /// Returns the key that a link leads to.
    fn linked(&self, collection: &Json, link_definition: &Json, record: &Record) -> ModelValue {
        let Some(key) = link_definition["key"].as_str() else { return ModelValue::Unknown };
        match self.condition(collection, link_definition, record) {
            Some(true) => {}
            Some(false) => return ModelValue::Nothing,
            None => return ModelValue::Unknown,
        }
        let braced = if key.contains('{') { key.to_owned() } else { format!("{{{key}}}") };
        let field = &collection["fields"][key];
        if *field.get("type").unwrap_or(field) == json!(["text"]) {
            return match self.golden_value(collection, record, key) {
                ModelValue::Value(Json::Array(elements)) => {
                    let keys: BTreeSet<String> = elements.iter().filter_map(Json::as_str).map(str::to_owned).collect();
                    if keys.is_empty() || keys.iter().any(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
                        ModelValue::Unknown
                    } else {
                        ModelValue::Value(json!(keys))
                    }
                }
                ModelValue::Nothing => ModelValue::Nothing,
                _ => ModelValue::Unknown,
            };
        }
        let filled = filled(&braced, &|name| {
            let field = &collection["fields"][name];
            let scalar = [field, &field["type"]].iter().any(|ty| **ty == "text" || **ty == "integer");
            if scalar { self.golden_value(collection, record, name) } else { ModelValue::Unknown }
        });
        match filled {
            // a key of this length is too long for a record
            ModelValue::Value(Json::String(key)) if key.len() > MAX_KEY_BYTES => ModelValue::Nothing,
            filled => filled,
        }
    }

    /// Computes fields that are read through links.
    fn fill_linked_fields(&self, expected: &mut Expected) {
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            let Some((records, _)) = expected.get_mut(name) else { continue };
            for (link, link_definition) in collection["links"].as_object().into_iter().flatten() {
                let target = link_definition["to"].as_str().unwrap_or_default();
                for (field, field_definition) in collection["fields"].as_object().into_iter().flatten() {
                    let Some(derive) = field_definition["derive"].as_str().filter(|text| text.contains(&format!("{link}."))) else { continue };
                    let (first, read) = match derive.strip_prefix("coalesce(").and_then(|inner| inner.trim_end_matches(')').split_once(", ")) {
                        Some((first, read)) => (Some(first), read),
                        None => (None, derive),
                    };
                    let member = read.split('.').nth(1).unwrap_or_default();
                    for record in records.values_mut() {
                        let own_value = first.map_or(ModelValue::Nothing, |first| self.golden_value(collection, record, first));
                        let value = match own_value {
                            ModelValue::Nothing => self.read_through_link(&before, target, record.values.get(link), member),
                            known => known,
                        };
                        record.values.insert(field.clone(), typed(value, field_definition));
                    }
                }
            }
        }
    }

    /// Returns a member of a link's target; for several targets, the concatenated values.
    fn read_through_link(&self, expected: &Expected, target: &str, keys: Option<&ModelValue>, member: &str) -> ModelValue {
        let keys = match keys {
            Some(ModelValue::Value(keys)) => keys,
            Some(ModelValue::Nothing) => return ModelValue::Nothing,
            _ => return ModelValue::Unknown,
        };
        let values: Vec<ModelValue> = target_keys(keys).map(|key| self.read_from_target(expected, target, &key, member)).collect();
        if values.contains(&ModelValue::Unknown) {
            return ModelValue::Unknown;
        }
        if member == "exists" {
            return ModelValue::Value(json!(values.iter().all(|value| *value == ModelValue::Value(json!(true)))));
        }
        if !keys.is_array() {
            return values.into_iter().next().unwrap_or(ModelValue::Unknown);
        }
        let mut all = Vec::new();
        for value in values {
            match value {
                ModelValue::Value(Json::Array(elements)) => all.extend(elements),
                ModelValue::Value(value) => all.push(value),
                _ => {}
            }
        }
        if all.is_empty() { ModelValue::Unknown } else { ModelValue::Value(all.into()) }
    }

    fn read_from_target(&self, expected: &Expected, target: &str, key: &str, member: &str) -> ModelValue {
        if member == "key" {
            return ModelValue::Value(json!(key));
        }
        let collection = &self.definition["collections"][target];
        let Some((records, may_have_more)) = expected.get(target) else { return ModelValue::Unknown };
        let record = match records.get(key) {
            None if *may_have_more => return ModelValue::Unknown,
            record => record.filter(|record| record.exists != Some(false)),
        };
        match (record, member) {
            (None, "exists") => ModelValue::Value(json!(false)),
            (None, _) => ModelValue::Nothing,
            (Some(record), _) if record.exists.is_none() => ModelValue::Unknown,
            (Some(_), "exists") => ModelValue::Value(json!(true)),
            (Some(record), _) => self.golden_value(collection, record, member),
        }
    }

    fn rollups(&self, expected: &mut Expected) {
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (field, field_definition) in collection["fields"].as_object().into_iter().flatten() {
                let Some(rollup) = field_definition.get("rollup") else { continue };
                let Some((child, link)) = rollup["over"].as_str().and_then(|over| over.split_once('.')) else { continue };
                let Some((records, _)) = expected.get_mut(name) else { continue };
                for (key, record) in records.iter_mut() {
                    let value = self.rolled(&before, (child, link), rollup, key);
                    record.values.insert(field.clone(), value);
                }
            }
        }
    }

    /// Returns the records whose link leads to a key and that satisfy a condition, if all of that is known.
    fn children<'e>(&self, expected: &'e Expected, (child, link): (&str, &str), condition: Option<&str>, key: &str) -> Option<Vec<&'e Record>> {
        let collection = &self.definition["collections"][child];
        let (children, false) = expected.get(child)? else { return None };
        let mut counted = Vec::new();
        for record in children.values() {
            match (record.exists, record.values.get(link)) {
                (Some(false), _) | (Some(true), Some(ModelValue::Nothing)) => continue,
                (Some(true), Some(ModelValue::Value(keys))) if target_keys(keys).all(|target| target != key) => continue,
                (Some(true), Some(ModelValue::Value(_))) => {}
                // a record that only a link created has no values
                (Some(true), None) => continue,
                _ => return None,
            }
            let holds = condition
                .map_or(ModelValue::Value(json!(true)), |condition| evaluate(condition, &|name| self.golden_value(collection, record, name)));
            match holds {
                ModelValue::Value(Json::Bool(true)) => counted.push(record),
                ModelValue::Value(Json::Bool(false)) => {}
                _ => return None,
            }
        }
        Some(counted)
    }

    fn rolled(&self, expected: &Expected, (child, link): (&str, &str), rollup: &Json, key: &str) -> ModelValue {
        let collection = &self.definition["collections"][child];
        if rollup["groups"].as_str().is_some_and(|groups| !groups.is_empty()) {
            return ModelValue::Unknown;
        }
        let Some(counted) = self.children(expected, (child, link), rollup["where"].as_str(), key) else { return ModelValue::Unknown };
        let Some((function, field_name)) = ["sum", "min", "max", "distinct"].iter().find_map(|word| Some((*word, rollup[*word].as_str()?))) else {
            return ModelValue::Value(json!(counted.len()));
        };
        let mut values: Vec<Json> = Vec::new();
        for record in counted {
            match self.golden_value(collection, record, field_name) {
                ModelValue::Value(value) if value.is_string() || value.is_i64() => values.push(value),
                ModelValue::Nothing => {}
                _ => return ModelValue::Unknown,
            }
        }
        let ty = collection["fields"][field_name].get("type").unwrap_or(&collection["fields"][field_name]);
        let smallest = |values: &[Json], largest: bool| -> ModelValue {
            let order = |a: &&Json, b: &&Json| match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_str().map(str::as_bytes).cmp(&b.as_str().map(str::as_bytes)),
            };
            let found = if largest { values.iter().max_by(order) } else { values.iter().min_by(order) };
            found.map_or(ModelValue::Nothing, |value| ModelValue::Value(value.clone()))
        };
        match function {
            "sum" if ty == "integer" => ModelValue::Value(json!(values.iter().filter_map(Json::as_i64).fold(0_i64, i64::saturating_add))),
            "distinct" => ModelValue::Value(json!(values.iter().map(Json::to_string).collect::<BTreeSet<_>>().len())),
            "min" if ty == "text" || ty == "integer" => smallest(&values, false),
            "max" if ty == "text" || ty == "integer" => smallest(&values, true),
            _ => ModelValue::Unknown,
        }
    }
}

/// Returns the keys that a link has.
fn target_keys(keys: &Json) -> impl Iterator<Item = String> + '_ {
    let several = keys.as_array().into_iter().flatten();
    several.chain(Some(keys).filter(|keys| !keys.is_array())).filter_map(|key| key.as_str().map(str::to_owned))
}

/// A contributor's value of a field, with its time and source.
struct Candidate<'s> {
    order: ContributionOrder,
    source: &'s str,
    contributor: &'s str,
    value: ModelValue,
    /// Whether the value may be that of an older contribution, because the newest may be unreadable.
    is_uncertain: bool,
}

fn candidates<'s>(field: &str, field_definition: &Json, histories: &[ContributorHistory<'s>]) -> Vec<Candidate<'s>> {
    let mut all = Vec::new();
    for history in histories.iter().filter(|history| !history.newest.is_deletion) {
        let from = field_definition["from"].as_array();
        if from.is_some_and(|names| !names.contains(&json!(history.newest.source))) {
            continue;
        }
        // if the newest value is unreadable, an older value counts
        let readable = |contribution: &&Contribution| contribution.is_deletion || contribution.values.get(field) != Some(&ModelValue::Unreadable);
        let Some(contribution) =
            std::iter::once(history.newest).chain(history.older.iter().copied()).find(readable).filter(|found| !found.is_deletion)
        else {
            continue;
        };
        let value = match contribution.values.get(field) {
            None | Some(ModelValue::Nothing | ModelValue::Unreadable) => continue,
            Some(value) => value.clone(),
        };
        let is_uncertain = value == ModelValue::Unknown && !history.older.is_empty();
        all.push(Candidate {
            order: contribution.order(),
            source: &history.newest.source,
            contributor: &history.newest.contributor,
            value,
            is_uncertain,
        });
    }
    all
}

/// Whether contributors disagree; `None` if unknown.
fn disagree(comparison: &Json, field_definition: &Json, candidates: &[Candidate<'_>]) -> Option<bool> {
    if candidates.len() > 1 && candidates.iter().any(|candidate| candidate.value == ModelValue::Unknown) {
        return None;
    }
    if candidates.iter().any(|candidate| candidate.value == ModelValue::Cleared) {
        return None;
    }
    let agree = |first: &ModelValue, second: &ModelValue| match (first, second) {
        (ModelValue::Value(first), ModelValue::Value(second)) if first != second => comparison::agree(comparison, field_definition, first, second),
        _ => Some(first == second),
    };
    let pairs = candidates.iter().enumerate().flat_map(|(index, first)| candidates[..index].iter().map(move |second| (first, second)));
    let mut disagree = false;
    for (first, second) in pairs {
        disagree |= !agree(&first.value, &second.value)?;
    }
    Some(disagree)
}

fn rule<'r>(collection: &'r Json, field_definition: &'r Json) -> &'r Json {
    let is_list = field_definition.get("type").unwrap_or(field_definition).is_array();
    match field_definition.get("survivorship").or(collection.get("survivorship")) {
        Some(rule) if rule != "union" || is_list => rule,
        _ => &Json::Null,
    }
}

/// Whether a golden value combines several contributions, and so has another type or order.
fn combines(collection: &Json, field_definition: &Json) -> bool {
    field_definition.get("derive").is_none() && rule(collection, field_definition) == "by_contributor"
}

fn golden(collection: &Json, field_definition: &Json, mut candidates: Vec<Candidate<'_>>) -> ModelValue {
    if field_definition.get("by").is_some() && !candidates.is_empty() {
        return ModelValue::Unknown;
    }
    if candidates.iter().any(|candidate| candidate.is_uncertain) {
        return ModelValue::Unknown;
    }
    let rule = rule(collection, field_definition);
    candidates.sort_by_key(|candidate| candidate.order);
    let tied = candidates.windows(2).any(|pair| pair[0].order == pair[1].order && pair[0].value != pair[1].value);
    if rule == "by_contributor" {
        let mut map = Map::new();
        for candidate in &candidates {
            let ModelValue::Value(value) = &candidate.value else { return ModelValue::Unknown };
            let name = candidate.contributor.split_once(':').map_or(candidate.contributor, |(_, part)| part);
            if map.insert(name.to_owned(), value.clone()).is_some() {
                return ModelValue::Unknown;
            }
        }
        return if map.is_empty() { ModelValue::Nothing } else { ModelValue::Value(map.into()) };
    }
    if rule == "union" {
        let mut all: Vec<Json> = Vec::new();
        for candidate in &candidates {
            let ModelValue::Value(Json::Array(items)) = &candidate.value else { return ModelValue::Unknown };
            items.iter().for_each(|item| {
                if !all.contains(item) {
                    all.push(item.clone());
                }
            });
        }
        let known = !tied && (candidates.is_empty() || !all.is_empty());
        return if candidates.is_empty() {
            ModelValue::Nothing
        } else if known {
            ModelValue::Value(all.into())
        } else {
            ModelValue::Unknown
        };
    }
    if let Some(prefer) = rule["prefer"].as_array() {
        let rank = |candidate: &Candidate<'_>| prefer.iter().position(|name| name == candidate.source).unwrap_or(prefer.len());
        let best = candidates.iter().map(rank).min();
        candidates.retain(|candidate| Some(rank(candidate)) == best);
    }
    let earliest = rule == "earliest" || rule["then"] == "earliest";
    let chosen = if earliest { candidates.first() } else { candidates.last() };
    let Some(chosen) = chosen else { return ModelValue::Nothing };
    let rivals = candidates.iter().filter(|candidate| candidate.order == chosen.order);
    if rivals.clone().any(|candidate| candidate.value != chosen.value) {
        ModelValue::Unknown
    } else if chosen.value == ModelValue::Cleared {
        ModelValue::Nothing
    } else {
        chosen.value.clone()
    }
}

/// Returns a computed value if it certainly has the type of its field.
fn typed(value: ModelValue, field_definition: &Json) -> ModelValue {
    let ty = field_definition.get("type").unwrap_or(field_definition);
    match &value {
        ModelValue::Value(Json::String(_)) if ty == "text" => value,
        ModelValue::Value(Json::String(_)) if ty == "timestamp" || ty == "date" => value,
        ModelValue::Value(Json::Bool(_)) if ty == "boolean" => value,
        ModelValue::Value(number) if ty == "integer" && number.is_i64() => value,
        ModelValue::Value(Json::Array(_)) if *ty == json!(["text"]) => value,
        ModelValue::Nothing => value,
        _ => ModelValue::Unknown,
    }
}
