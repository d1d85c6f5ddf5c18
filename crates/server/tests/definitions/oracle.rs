//! The expected records, computed from the documentation alone: nothing here is shared with the engine.
//!
//! Documents become contributions ([`super::reading`]), and these become records. What is not modelled is unknown, and so is everything that depends
//! on it: links of overlapping intervals, coverages that do not count, lists of structs that are joined, tags, embedded documents, texts of JSON and
//! ranges, most functions of CEL, and documents with the same time and different contents that are not ordered by reception. On those, the stores and
//! all orders must only agree with each other.

use super::case::{Case, Delivery, Edit};
use super::reading::{self, MAX_KEY_BYTES, Moment, Outcome, Said, SkippedPlace, Statement, evaluate, filled, statements};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

#[path = "coverage.rs"]
mod coverage;

/// An expected record.
#[derive(Debug, Clone, Default)]
struct Record {
    /// Whether it exists, if that is known.
    alive: Option<bool>,
    values: BTreeMap<String, Said>,
    conflicts: BTreeMap<String, Option<bool>>,
}

type Records = BTreeMap<String, Record>;

/// A contributor's newest contribution, and the older ones.
struct Voice<'s> {
    newest: &'s Statement,
    older: Vec<&'s Statement>,
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
            match record.alive {
                None => continue,
                Some(alive) if alive != found.is_some() => {
                    let what = if alive { "is not there and should be" } else { "is there and should not be" };
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
                let must = match record.values.get(field) {
                    Some(Said::Value(value)) => Some(value.clone()),
                    Some(Said::Nothing) => None,
                    _ => {
                        unknown += 1;
                        continue;
                    }
                };
                known += 1;
                if found.get(field) != must.as_ref() {
                    let shown = |value: Option<&Json>| value.map_or("nothing".to_owned(), Json::to_string);
                    return Err(format!("{field} of {name} {key} is {} and should be {}", shown(found.get(field)), shown(must.as_ref())));
                }
            }
            for (field, conflict) in &record.conflicts {
                let is = found["conflict"].as_array().is_some_and(|names| names.contains(&json!(field)));
                if conflict.is_some_and(|conflict| conflict != is) {
                    return Err(format!("that contributors of {name} {key} disagree on {field} is {is}, and should not be"));
                }
            }
        }
    }
    Ok((known, unknown))
}

struct Oracle<'c> {
    definition: &'c Json,
    statements: Vec<Statement>,
    /// Skipped documents, with the number of their file.
    skipped: Vec<(usize, &'c Delivery, SkippedPlace)>,
    /// Collections about which nothing is known.
    clouded: BTreeSet<String>,
    /// Records about which nothing is known.
    unknown: BTreeSet<(String, String)>,
}

/// What a complete delivery contains of a scope.
struct Whole {
    /// Its as-of time.
    made: i64,
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
        let mut own = Self { definition, statements: Vec::new(), skipped: Vec::new(), clouded: BTreeSet::new(), unknown: BTreeSet::new() };
        let mut failed = BTreeSet::new();
        for (file, delivery) in case.deliveries.iter().enumerate() {
            let source = &definition["sources"][&delivery.source];
            let feeds = |source: &Json| -> Vec<String> {
                let many = source["feeds"].as_array().into_iter().flatten().filter_map(|feed| feed["into"].as_str());
                many.chain(source["into"].as_str()).map(str::to_owned).collect()
            };
            for inner in source["embeds"].as_object().into_iter().flat_map(Map::keys) {
                own.clouded.extend(feeds(&definition["sources"][inner]));
            }
            for (ordinal, document) in delivery.documents.iter().enumerate() {
                match statements(definition, delivery, (file, ordinal), document) {
                    Outcome::Said(all) => own.statements.extend(all),
                    Outcome::Skipped(place) => own.skipped.extend(place.map(|place| (file, delivery, place))),
                    Outcome::Failed => {
                        failed.insert(file);
                    }
                    Outcome::Unknown => {
                        own.clouded.extend(feeds(source));
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
            match reading::said_by_the_api(definition, collection, key, &edits) {
                Some(statement) => own.statements.push(statement),
                None => {
                    own.unknown.insert((collection.to_owned(), key.to_owned()));
                }
            }
        }
        own.contest();
        own.retire(&failed);
        own
    }

    /// The first record keeps a unique value: nothing is known about records that want the same value.
    fn contest(&mut self) {
        let mut clouded = BTreeSet::new();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            let fields = collection["fields"].as_object().into_iter().flatten().filter(|(_, own)| own["unique"] == true);
            for (field, _) in fields {
                let mut keys: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
                for own in self.statements.iter().filter(|own| own.collection == *name) {
                    match own.values.get(field) {
                        Some(Said::Value(value)) => {
                            keys.entry(value.to_string()).or_default().insert(&own.key);
                        }
                        Some(Said::Unknown) => {
                            clouded.insert(name.clone());
                        }
                        _ => {}
                    }
                }
                clouded.extend(keys.values().any(|keys| keys.len() > 1).then(|| name.clone()));
            }
        }
        let sources: BTreeSet<&str> = self.statements.iter().filter(|own| clouded.contains(&own.collection)).map(|own| own.source.as_str()).collect();
        let also = self.statements.iter().filter(|own| sources.contains(own.source.as_str())).map(|own| own.collection.clone());
        clouded.extend(also.collect::<Vec<_>>());
        self.clouded.extend(clouded);
    }

    /// Removes contributions that newer complete deliveries retire.
    fn retire(&mut self, failed: &BTreeSet<usize>) {
        let mut files: BTreeMap<(String, String), BTreeMap<usize, Whole>> = BTreeMap::new();
        for own in self.statements.iter().filter(|own| !failed.contains(&own.file)) {
            let Some((scope, at)) = &own.scope else { continue };
            let of_scope = files.entry((own.source.clone(), scope.clone())).or_default();
            let file = of_scope.entry(own.file).or_insert_with(|| Whole { made: own.as_of.unwrap_or(i64::MIN), first: *at, keys: BTreeMap::new() });
            file.first = file.first.min(*at);
            let last = file.keys.entry((own.collection.clone(), own.key.clone())).or_insert(*at);
            *last = (*last).max(*at);
        }
        for (number, delivery, place) in self.skipped.iter().filter(|(file, ..)| !failed.contains(file)) {
            let (scope, at) = &place.scope;
            let of_scope = files.entry((delivery.source.clone(), scope.clone())).or_default();
            let file = of_scope.entry(*number).or_insert_with(|| Whole { made: delivery.as_of, first: *at, keys: BTreeMap::new() });
            file.first = file.first.min(*at);
            for key in &place.keys {
                let last = file.keys.entry(key.clone()).or_insert(*at);
                *last = (*last).max(*at);
            }
        }
        let mut counted: BTreeMap<(String, String), Option<Vec<Whole>>> = BTreeMap::new();
        for ((source, scope), of_scope) in files {
            let most = self.definition["sources"][&source]["replaces"]["most"].as_str().unwrap_or("20%");
            let most: usize = most.trim_end_matches('%').parse().unwrap_or_default();
            let mut of_scope: Vec<Whole> = of_scope.into_values().collect();
            of_scope.sort_by_key(|file| file.made);
            let tied = of_scope.windows(2).any(|pair| pair[0].made == pair[1].made);
            let mut counts: Vec<Whole> = Vec::new();
            for file in of_scope {
                let before = counts.last().map(|before| &before.keys);
                let had: Vec<_> = before.into_iter().flatten().filter(|(_, at)| **at >= file.first).map(|(key, _)| key).collect();
                let lacks = had.iter().filter(|key| !file.keys.contains_key(**key)).count();
                if lacks * 100 <= most * had.len() {
                    counts.push(file);
                }
            }
            // of two files with the same time, it is not defined which is newer
            counted.insert((source, scope), (!tied).then_some(counts));
        }
        for own in &mut self.statements {
            let Some((scope, at)) = &own.scope else { continue };
            let as_of = own.as_of.unwrap_or(i64::MIN);
            match counted.get(&(own.source.clone(), scope.clone())) {
                None => {}
                Some(None) => {
                    self.unknown.insert((own.collection.clone(), own.key.clone()));
                }
                Some(Some(counts)) => own.retired = counts.iter().any(|file| file.made > as_of && file.first <= *at),
            }
        }
    }

    fn records(&self) -> Expected {
        let mut expected: Expected = BTreeMap::new();
        let mut by_key: BTreeMap<(String, String), Vec<&Statement>> = BTreeMap::new();
        for own in &self.statements {
            by_key.entry((own.collection.clone(), own.key.clone())).or_default().push(own);
        }
        for (name, _) in self.definition["collections"].as_object().into_iter().flatten() {
            if !self.clouded.contains(name) {
                expected.insert(name.clone(), (Records::new(), false));
            }
        }
        for ((name, key), statements) in &by_key {
            if let Some((records, _)) = expected.get_mut(name) {
                let record = if self.unknown.contains(&(name.clone(), key.clone())) { Record::default() } else { self.record(name, statements) };
                records.insert(key.clone(), record);
            }
        }
        self.links(&mut expected);
        self.through(&mut expected);
        self.rollups(&mut expected);
        expected
    }

    /// Makes a record of its contributions, without values from other records.
    fn record(&self, name: &str, statements: &[&Statement]) -> Record {
        let collection = &self.definition["collections"][name];
        let mut by_contributor: BTreeMap<&str, Vec<&Statement>> = BTreeMap::new();
        for own in statements {
            by_contributor.entry(&own.contributor).or_default().push(own);
        }
        let mut voices: Vec<Voice<'_>> = Vec::new();
        for mut said in by_contributor.into_values() {
            said.sort_by_key(|own| std::cmp::Reverse(own.moment()));
            let newest = said[0];
            // with equal times and different contents, the winner is not defined
            if said[1..].iter().any(|own| own.moment() == newest.moment() && !own.says_the_same(newest)) {
                return Record::default();
            }
            let is_unread = said.iter().any(|own| own.values.values().any(|said| *said == Said::Unreadable));
            let is_tied = said[1..].windows(2).any(|pair| pair[0].moment() == pair[1].moment() && !pair[0].says_the_same(pair[1]));
            if is_unread && is_tied {
                return Record::default();
            }
            if newest.scope.is_some() && said.iter().any(|own| own.values.values().any(|said| *said == Said::Unreadable)) {
                return Record::default();
            }
            if !newest.retired {
                voices.push(Voice { newest, older: said[1..].to_vec() });
            }
        }
        let any = collection["exists"] == "any";
        let last = voices.iter().map(|voice| voice.newest.moment()).max();
        let deciding: BTreeSet<bool> =
            voices.iter().filter(|voice| any || Some(voice.newest.moment()) == last).map(|voice| !voice.newest.gone).collect();
        let alive = match (any, deciding.len()) {
            (true, _) => Some(deciding.contains(&true)),
            (false, 0) => Some(false),
            (false, 1) => Some(deciding.contains(&true)),
            _ => None,
        };
        let mut record = Record { alive, ..Record::default() };
        for (field, own) in collection["fields"].as_object().into_iter().flatten() {
            if own.get("derive").is_none() && own.get("rollup").is_none() {
                let heard = heard(field, own, &voices);
                if own["compare"] == true {
                    record.conflicts.insert(field.clone(), disagree(&heard));
                }
                record.values.insert(field.clone(), golden(collection, own, heard));
            }
        }
        self.derive(collection, &voices, &mut record);
        record
    }

    /// Computes fields that are derived from the record's own fields.
    fn derive(&self, collection: &Json, voices: &[Voice<'_>], record: &mut Record) {
        let links: Vec<&String> = collection["links"].as_object().into_iter().flat_map(Map::keys).collect();
        for (field, own) in collection["fields"].as_object().into_iter().flatten() {
            let Some(derive) = own["derive"].as_str().filter(|text| links.iter().all(|link| !text.contains(&format!("{link}.")))) else { continue };
            let value = if derive == "sources" {
                // a source of a service is shown by the service's name
                let named = |source: &'_ str| self.definition["sources"][source]["asks"]["service"].as_str().unwrap_or(source).to_owned();
                let names: BTreeSet<String> = voices.iter().filter(|voice| !voice.newest.gone).map(|voice| named(&voice.newest.source)).collect();
                Said::Value(json!(names))
            } else {
                let value = evaluate(derive, &|name| self.own(collection, record, name));
                typed(value, own)
            };
            record.values.insert(field.clone(), value);
        }
    }

    /// Returns a golden value for expressions.
    fn own(&self, collection: &Json, record: &Record, name: &str) -> Said {
        let field = &collection["fields"][name];
        if field.is_null() || combines(collection, field) {
            return Said::Unknown;
        }
        record.values.get(name).cloned().unwrap_or(Said::Unknown)
    }

    fn links(&self, expected: &mut Expected) {
        // records that links create have links, too
        while self.link_all(expected) {}
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (link, own) in collection["links"].as_object().into_iter().flatten().filter(|(_, own)| own.get("same").is_some()) {
                let Some((records, _)) = expected.get_mut(name) else { continue };
                for record in records.values_mut() {
                    let value = self.equal(&before, collection, own, record);
                    record.values.insert(link.clone(), value);
                }
            }
        }
    }

    /// Returns the keys that a link by equal fields leads to: those of all records that have an element of a list, otherwise the smallest.
    fn equal(&self, expected: &Expected, collection: &Json, own: &Json, record: &Record) -> Said {
        let pair = match &own["same"] {
            Json::Array(names) if names.len() == 1 => names[0].as_str().map(|name| (name, name)),
            Json::Object(pairs) if pairs.len() == 1 => pairs.iter().next().and_then(|(mine, theirs)| Some((mine.as_str(), theirs.as_str()?))),
            _ => None,
        };
        let Some((mine, theirs)) = pair.filter(|_| own.get("overlap").is_none()) else { return Said::Unknown };
        match self.condition(collection, own, record) {
            Some(true) => {}
            Some(false) => return Said::Nothing,
            None => return Said::Unknown,
        }
        let target = own["to"].as_str().unwrap_or_default();
        let other = &self.definition["collections"][target];
        if collection["fields"][mine]["fold"] == true || other["fields"][theirs]["fold"] == true {
            return Said::Unknown;
        }
        let elements = |value: Json| match value {
            Json::Array(elements) => elements,
            one => vec![one],
        };
        let (wanted, is_list) = match self.own(collection, record, mine) {
            Said::Value(value) => (elements(value.clone()), value.is_array()),
            Said::Nothing | Said::Unreadable => return Said::Nothing,
            Said::Unknown | Said::Cleared => return Said::Unknown,
        };
        let Some((records, false)) = expected.get(target) else { return Said::Unknown };
        let mut keys: Vec<&String> = Vec::new();
        for (key, record) in records {
            match (record.alive, self.own(other, record, theirs)) {
                (Some(false), _) | (Some(true), Said::Nothing) => {}
                (Some(true), Said::Value(value)) => keys.extend(elements(value).iter().any(|element| wanted.contains(element)).then_some(key)),
                _ => return Said::Unknown,
            }
        }
        match (keys.first(), is_list) {
            (None, _) => Said::Nothing,
            (Some(first), false) => Said::Value(json!(first)),
            (Some(_), true) => Said::Value(json!(keys)),
        }
    }

    /// Whether the condition of a link holds, if known.
    fn condition(&self, collection: &Json, own: &Json, record: &Record) -> Option<bool> {
        let Some(when) = own["when"].as_str() else { return Some(true) };
        match evaluate(when, &|name| self.own(collection, record, name)) {
            Said::Value(Json::Bool(holds)) => Some(holds),
            _ => None,
        }
    }

    /// Follows links that were not followed before. Returns whether records were created.
    fn link_all(&self, expected: &mut Expected) -> bool {
        let mut created: Vec<(String, Option<String>)> = Vec::new();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (link, own) in collection["links"].as_object().into_iter().flatten() {
                let target = own["to"].as_str().unwrap_or_default().to_owned();
                let creates = own["create"] == true;
                let Some((records, more)) = expected.get_mut(name) else {
                    created.extend(creates.then(|| (target.clone(), None)));
                    continue;
                };
                if creates && *more {
                    created.push((target.clone(), None));
                }
                for record in records.values_mut().filter(|record| !record.values.contains_key(link)) {
                    let value = self.linked(collection, own, record);
                    if creates {
                        match (&value, record.alive) {
                            (_, Some(false)) => {}
                            (Said::Value(keys), Some(true)) => created.extend(led_to(keys).map(|key| (target.clone(), Some(key)))),
                            (Said::Nothing, _) => {}
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
            let Some((records, more)) = expected.get_mut(&target) else { continue };
            match key {
                // the target may be any record
                None => {
                    *more = true;
                    for record in records.values_mut() {
                        record.values.extend(combined.map(|field| (field.to_owned(), Said::Unknown)));
                        if record.alive == Some(false) {
                            record.alive = None;
                        }
                    }
                }
                Some(key) => match records.get_mut(&key) {
                    // without other contributions, the record exists and has only its key
                    None => {
                        let mut record = Record { alive: Some(true), ..Record::default() };
                        let fields = collection["fields"].as_object().into_iter().flatten();
                        let told = fields.filter(|(_, own)| own.get("derive").is_none() && own.get("rollup").is_none());
                        record.values.extend(told.map(|(field, _)| (field.clone(), Said::Nothing)));
                        if let Some(field) = collection["key"].as_str() {
                            record.values.insert(field.to_owned(), if combined.is_none() { Said::Value(json!(key)) } else { Said::Unknown });
                        }
                        records.insert(key, record);
                        is_new = true;
                    }
                    Some(record) if record.alive == Some(false) => *record = Record::default(),
                    Some(record) => record.values.extend(combined.map(|field| (field.to_owned(), Said::Unknown))),
                },
            }
        }
        is_new
    }

    /// Returns the key that a link leads to.
    fn linked(&self, collection: &Json, own: &Json, record: &Record) -> Said {
        let Some(key) = own["key"].as_str() else { return Said::Unknown };
        match self.condition(collection, own, record) {
            Some(true) => {}
            Some(false) => return Said::Nothing,
            None => return Said::Unknown,
        }
        let braced = if key.contains('{') { key.to_owned() } else { format!("{{{key}}}") };
        let field = &collection["fields"][key];
        if *field.get("type").unwrap_or(field) == json!(["text"]) {
            return match self.own(collection, record, key) {
                Said::Value(Json::Array(elements)) => {
                    let keys: BTreeSet<String> = elements.iter().filter_map(Json::as_str).map(str::to_owned).collect();
                    if keys.is_empty() || keys.iter().any(|key| key.is_empty() || key.len() > MAX_KEY_BYTES) {
                        Said::Unknown
                    } else {
                        Said::Value(json!(keys))
                    }
                }
                Said::Nothing => Said::Nothing,
                _ => Said::Unknown,
            };
        }
        let filled = filled(&braced, &|name| {
            let field = &collection["fields"][name];
            let scalar = [field, &field["type"]].iter().any(|ty| **ty == "text" || **ty == "integer");
            if scalar { self.own(collection, record, name) } else { Said::Unknown }
        });
        match filled {
            // a key of this length is too long for a record
            Said::Value(Json::String(key)) if key.len() > MAX_KEY_BYTES => Said::Nothing,
            filled => filled,
        }
    }

    /// Computes fields that are read through links.
    fn through(&self, expected: &mut Expected) {
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            let Some((records, _)) = expected.get_mut(name) else { continue };
            for (link, own) in collection["links"].as_object().into_iter().flatten() {
                let target = own["to"].as_str().unwrap_or_default();
                for (field, of) in collection["fields"].as_object().into_iter().flatten() {
                    let Some(derive) = of["derive"].as_str().filter(|text| text.contains(&format!("{link}."))) else { continue };
                    let (first, read) = match derive.strip_prefix("coalesce(").and_then(|inner| inner.trim_end_matches(')').split_once(", ")) {
                        Some((first, read)) => (Some(first), read),
                        None => (None, derive),
                    };
                    let member = read.split('.').nth(1).unwrap_or_default();
                    for record in records.values_mut() {
                        let own = first.map_or(Said::Nothing, |first| self.own(collection, record, first));
                        let value = match own {
                            Said::Nothing => self.read(&before, target, record.values.get(link), member),
                            known => known,
                        };
                        record.values.insert(field.clone(), typed(value, of));
                    }
                }
            }
        }
    }

    /// Returns a member of a link's target; for several targets, the concatenated values.
    fn read(&self, expected: &Expected, target: &str, keys: Option<&Said>, member: &str) -> Said {
        let keys = match keys {
            Some(Said::Value(keys)) => keys,
            Some(Said::Nothing) => return Said::Nothing,
            _ => return Said::Unknown,
        };
        let said: Vec<Said> = led_to(keys).map(|key| self.read_one(expected, target, &key, member)).collect();
        if said.contains(&Said::Unknown) {
            return Said::Unknown;
        }
        if member == "exists" {
            return Said::Value(json!(said.iter().all(|own| *own == Said::Value(json!(true)))));
        }
        if !keys.is_array() {
            return said.into_iter().next().unwrap_or(Said::Unknown);
        }
        let mut all = Vec::new();
        for own in said {
            match own {
                Said::Value(Json::Array(elements)) => all.extend(elements),
                Said::Value(value) => all.push(value),
                _ => {}
            }
        }
        if all.is_empty() { Said::Unknown } else { Said::Value(all.into()) }
    }

    fn read_one(&self, expected: &Expected, target: &str, key: &str, member: &str) -> Said {
        if member == "key" {
            return Said::Value(json!(key));
        }
        let collection = &self.definition["collections"][target];
        let Some((records, more)) = expected.get(target) else { return Said::Unknown };
        let record = match records.get(key) {
            None if *more => return Said::Unknown,
            record => record.filter(|record| record.alive != Some(false)),
        };
        match (record, member) {
            (None, "exists") => Said::Value(json!(false)),
            (None, _) => Said::Nothing,
            (Some(record), _) if record.alive.is_none() => Said::Unknown,
            (Some(_), "exists") => Said::Value(json!(true)),
            (Some(record), _) => self.own(collection, record, member),
        }
    }

    fn rollups(&self, expected: &mut Expected) {
        let before = expected.clone();
        for (name, collection) in self.definition["collections"].as_object().into_iter().flatten() {
            for (field, own) in collection["fields"].as_object().into_iter().flatten() {
                let Some(rollup) = own.get("rollup") else { continue };
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
            match (record.alive, record.values.get(link)) {
                (Some(false), _) | (Some(true), Some(Said::Nothing)) => continue,
                (Some(true), Some(Said::Value(own))) if led_to(own).all(|own| own != key) => continue,
                (Some(true), Some(Said::Value(_))) => {}
                // a record that only a link created has no values
                (Some(true), None) => continue,
                _ => return None,
            }
            let holds = condition.map_or(Said::Value(json!(true)), |condition| evaluate(condition, &|name| self.own(collection, record, name)));
            match holds {
                Said::Value(Json::Bool(true)) => counted.push(record),
                Said::Value(Json::Bool(false)) => {}
                _ => return None,
            }
        }
        Some(counted)
    }

    fn rolled(&self, expected: &Expected, (child, link): (&str, &str), rollup: &Json, key: &str) -> Said {
        let collection = &self.definition["collections"][child];
        if rollup["groups"].as_str().is_some_and(|groups| !groups.is_empty()) {
            return Said::Unknown;
        }
        let Some(counted) = self.children(expected, (child, link), rollup["where"].as_str(), key) else { return Said::Unknown };
        let Some((function, of)) = ["sum", "min", "max", "distinct"].iter().find_map(|word| Some((*word, rollup[*word].as_str()?))) else {
            return Said::Value(json!(counted.len()));
        };
        let mut values: Vec<Json> = Vec::new();
        for record in counted {
            match self.own(collection, record, of) {
                Said::Value(value) if value.is_string() || value.is_i64() => values.push(value),
                Said::Nothing => {}
                _ => return Said::Unknown,
            }
        }
        let ty = collection["fields"][of].get("type").unwrap_or(&collection["fields"][of]);
        let smallest = |values: &[Json], largest: bool| -> Said {
            let order = |a: &&Json, b: &&Json| match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.as_str().map(str::as_bytes).cmp(&b.as_str().map(str::as_bytes)),
            };
            let found = if largest { values.iter().max_by(order) } else { values.iter().min_by(order) };
            found.map_or(Said::Nothing, |value| Said::Value(value.clone()))
        };
        match function {
            "sum" if ty == "integer" => Said::Value(json!(values.iter().filter_map(Json::as_i64).fold(0_i64, i64::saturating_add))),
            "distinct" => Said::Value(json!(values.iter().map(Json::to_string).collect::<BTreeSet<_>>().len())),
            "min" if ty == "text" || ty == "integer" => smallest(&values, false),
            "max" if ty == "text" || ty == "integer" => smallest(&values, true),
            _ => Said::Unknown,
        }
    }
}

/// Returns the keys that a link has.
fn led_to(keys: &Json) -> impl Iterator<Item = String> + '_ {
    let several = keys.as_array().into_iter().flatten();
    several.chain(Some(keys).filter(|keys| !keys.is_array())).filter_map(|key| key.as_str().map(str::to_owned))
}

/// A contributor's value of a field, with its time and source.
struct Heard<'s> {
    moment: Moment,
    source: &'s str,
    contributor: &'s str,
    value: Said,
    /// Whether the value may be that of an older contribution, because the newest may be unreadable.
    is_uncertain: bool,
}

fn heard<'s>(field: &str, own: &Json, voices: &[Voice<'s>]) -> Vec<Heard<'s>> {
    let mut all = Vec::new();
    for voice in voices.iter().filter(|voice| !voice.newest.gone) {
        let from = own["from"].as_array();
        if from.is_some_and(|names| !names.contains(&json!(voice.newest.source))) {
            continue;
        }
        // if the newest value is unreadable, an older value counts
        let readable = |own: &&Statement| own.gone || own.values.get(field) != Some(&Said::Unreadable);
        let Some(said) = std::iter::once(voice.newest).chain(voice.older.iter().copied()).find(readable).filter(|found| !found.gone) else {
            continue;
        };
        let value = match said.values.get(field) {
            None | Some(Said::Nothing | Said::Unreadable) => continue,
            Some(value) => value.clone(),
        };
        let is_uncertain = value == Said::Unknown && !voice.older.is_empty();
        all.push(Heard { moment: said.moment(), source: &voice.newest.source, contributor: &voice.newest.contributor, value, is_uncertain });
    }
    all
}

/// Whether contributors disagree; `None` if unknown.
fn disagree(heard: &[Heard<'_>]) -> Option<bool> {
    if heard.len() > 1 && heard.iter().any(|own| own.value == Said::Unknown) {
        return None;
    }
    if heard.iter().any(|own| own.value == Said::Cleared) {
        return None;
    }
    Some(heard.windows(2).any(|pair| pair[0].value != pair[1].value))
}

fn rule<'r>(collection: &'r Json, own: &'r Json) -> &'r Json {
    let is_list = own.get("type").unwrap_or(own).is_array();
    match own.get("survivorship").or(collection.get("survivorship")) {
        Some(rule) if rule != "union" || is_list => rule,
        _ => &Json::Null,
    }
}

/// Whether a golden value combines several contributions, and so has another type or order.
fn combines(collection: &Json, own: &Json) -> bool {
    own.get("derive").is_none() && rule(collection, own) == "by_contributor"
}

fn golden(collection: &Json, own: &Json, mut heard: Vec<Heard<'_>>) -> Said {
    if own.get("by").is_some() && !heard.is_empty() {
        return Said::Unknown;
    }
    if heard.iter().any(|own| own.is_uncertain) {
        return Said::Unknown;
    }
    let rule = rule(collection, own);
    heard.sort_by_key(|own| own.moment);
    let tied = heard.windows(2).any(|pair| pair[0].moment == pair[1].moment && pair[0].value != pair[1].value);
    if rule == "by_contributor" {
        let mut map = Map::new();
        for own in &heard {
            let Said::Value(value) = &own.value else { return Said::Unknown };
            let name = own.contributor.split_once(':').map_or(own.contributor, |(_, part)| part);
            if map.insert(name.to_owned(), value.clone()).is_some() {
                return Said::Unknown;
            }
        }
        return if map.is_empty() { Said::Nothing } else { Said::Value(map.into()) };
    }
    if rule == "union" {
        let mut all: Vec<Json> = Vec::new();
        for own in &heard {
            let Said::Value(Json::Array(items)) = &own.value else { return Said::Unknown };
            items.iter().for_each(|item| {
                if !all.contains(item) {
                    all.push(item.clone());
                }
            });
        }
        let known = !tied && (heard.is_empty() || !all.is_empty());
        return if heard.is_empty() {
            Said::Nothing
        } else if known {
            Said::Value(all.into())
        } else {
            Said::Unknown
        };
    }
    if let Some(prefer) = rule["prefer"].as_array() {
        let rank = |own: &Heard<'_>| prefer.iter().position(|name| name == own.source).unwrap_or(prefer.len());
        let best = heard.iter().map(rank).min();
        heard.retain(|own| Some(rank(own)) == best);
    }
    let earliest = rule == "earliest" || rule["then"] == "earliest";
    let chosen = if earliest { heard.first() } else { heard.last() };
    let Some(chosen) = chosen else { return Said::Nothing };
    let rivals = heard.iter().filter(|own| own.moment == chosen.moment);
    if rivals.clone().any(|own| own.value != chosen.value) {
        Said::Unknown
    } else if chosen.value == Said::Cleared {
        Said::Nothing
    } else {
        chosen.value.clone()
    }
}

/// Returns a computed value if it certainly has the type of its field.
fn typed(value: Said, own: &Json) -> Said {
    let ty = own.get("type").unwrap_or(own);
    match &value {
        Said::Value(Json::String(_)) if ty == "text" => value,
        Said::Value(Json::String(_)) if ty == "timestamp" || ty == "date" => value,
        Said::Value(Json::Bool(_)) if ty == "boolean" => value,
        Said::Value(number) if ty == "integer" && number.is_i64() => value,
        Said::Value(Json::Array(_)) if *ty == json!(["text"]) => value,
        Said::Nothing => value,
        _ => Said::Unknown,
    }
}
