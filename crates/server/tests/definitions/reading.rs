//! Reads documents according to the documentation alone: paths, types, conditions, key, time.

use super::case::{Delivery, Edit};
use super::grammar::tag;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Max bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;

/// A contributed value.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelValue {
    Nothing,
    Value(Json),
    /// Unreadable: it is left out with a warning.
    Unreadable,
    /// Cleared: there is no value, whatever other contributors say.
    Cleared,
    /// Not modelled.
    Unknown,
}

/// What a document contributes to one collection.
#[derive(Debug, Clone)]
pub struct Contribution {
    pub collection: String,
    pub source: String,
    pub contributor: String,
    pub key: String,
    /// In seconds; `None` is before everything.
    pub as_of: Option<i64>,
    /// If documents with the same time are ordered by reception: the position of the file in the order of acceptance, and of the document in it.
    pub received: Option<(usize, usize)>,
    pub is_deletion: bool,
    pub values: BTreeMap<String, ModelValue>,
    /// The number of its file.
    pub file: usize,
    /// If files replace others: the scope, and the time in it.
    pub scope: Option<(String, i64)>,
    pub retired: bool,
    document: Json,
}

impl Contribution {
    /// The order in which contributions of one contributor replace each other.
    pub fn order(&self) -> ContributionOrder {
        (self.as_of, self.received)
    }

    pub fn has_same_content(&self, other: &Self) -> bool {
        self.document == other.document && self.source == other.source && self.scope == other.scope
    }
}

/// The position of a skipped document within what its file replaces.
pub struct SkippedDocument {
    /// The scope, and the time in it.
    pub scope: (String, i64),
    /// Collections and keys that it would contribute to, as far as they can be read.
    pub keys: Vec<(String, String)>,
}

/// The order of contributions: those without a reception come first.
pub type ContributionOrder = (Option<i64>, Option<(usize, usize)>);

/// The result of reading a document.
pub enum Outcome {
    Contributed(Vec<Contribution>),
    Skipped(Option<SkippedDocument>),
    Failed,
    Unknown,
}

/// Values by name, for expressions.
type Named<'n> = &'n dyn Fn(&str) -> ModelValue;

/// Returns the contribution of `api` to a record after these edits; `None` if that is not modelled.
pub fn api_contribution(definition: &Json, name: &str, key: &str, edits: &[&Edit]) -> Option<Contribution> {
    let collection = &definition["collections"][name];
    let reader = Reader { definition, format: "json", document: &Json::Null };
    let mut contribution = Contribution {
        collection: name.to_owned(),
        source: "api".into(),
        contributor: "api".into(),
        key: key.to_owned(),
        // edits have the current time, documents are from January 2024
        as_of: Some(super::documents::time(100)),
        received: None,
        is_deletion: false,
        values: BTreeMap::new(),
        file: usize::MAX,
        scope: None,
        retired: false,
        document: Json::Null,
    };
    for edit in edits {
        match edit.method.as_str() {
            "DELETE" => {
                contribution.values.clear();
                contribution.is_deletion = true;
                continue;
            }
            "PUT" => contribution.values.clear(),
            _ if contribution.is_deletion => return None,
            _ => {}
        }
        contribution.is_deletion = false;
        for (field, value) in edit.body.as_object().into_iter().flatten() {
            let definition = &collection["fields"][field];
            let ty = definition.get("type").unwrap_or(definition);
            // members of JSON are merged
            let value =
                if ty == "json" && value.is_object() { ModelValue::Unknown } else { reader.convert(std::slice::from_ref(value), &json!({}), ty) };
            let value = if value == ModelValue::Unreadable { ModelValue::Unknown } else { value };
            contribution.values.insert(field.clone(), value);
        }
        if let Some(field) = &edit.clear {
            contribution.values.insert(field.clone(), ModelValue::Cleared);
        }
    }
    let rule = collection["key"].as_str().unwrap_or_default();
    for field in collection["fields"].as_object().into_iter().flat_map(Map::keys).filter(|field| super::documents::is_key(rule, field)) {
        contribution.values.insert(field.clone(), ModelValue::Unknown);
    }
    Some(contribution)
}

pub fn contributions_of(definition: &Json, delivery: &Delivery, position: (usize, usize), document: &Json) -> Outcome {
    let source = &definition["sources"][&delivery.source];
    let format = source["format"].as_str().unwrap_or_default();
    let reader = Reader { definition, format, document };
    let mut lets: BTreeMap<String, ModelValue> = BTreeMap::new();
    for (name, rule) in source["let"].as_object().into_iter().flatten() {
        let value = match (rule.get("match"), rule["expr"].as_str()) {
            (Some(_), _) => ModelValue::Unknown,
            (_, Some("meta.name")) => ModelValue::Value(json!("file")),
            (_, Some(expression)) => evaluate(expression, &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown)),
            _ => {
                let ty = rule.get("type").cloned().unwrap_or(json!("text"));
                reader.value(rule, &ty, None, &|_| ModelValue::Unknown)
            }
        };
        let value = if value == ModelValue::Unreadable { ModelValue::Nothing } else { value };
        lets.insert(name.clone(), value);
    }
    let received = delivery.as_of;
    let feeds: Vec<Json> = match source["feeds"].as_array() {
        Some(feeds) => feeds.clone(),
        None => vec![source.clone()],
    };
    let alone = feeds.len() == 1;
    let mut found = Vec::new();
    if !alone {
        match accepted(source, &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown)) {
            Outcome::Contributed(_) => {}
            Outcome::Skipped(_) => return skipped_before_feeds(&reader, source, &feeds, (&lets, received), (delivery, position)),
            other => return other,
        }
    }
    for feed in &feeds {
        if let Some(when) = feed["when"].as_str() {
            match evaluate(when, &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown)) {
                ModelValue::Value(Json::Bool(true)) => {}
                ModelValue::Value(Json::Bool(false)) => continue,
                _ => return Outcome::Unknown,
            }
        }
        match reader.feed(source, feed, (&lets, received, alone), delivery, position) {
            Ok(contribution) => found.push(contribution),
            Err(outcome) => return outcome,
        }
    }
    if found.is_empty() { skipped(source, &lets, Vec::new()) } else { Outcome::Contributed(found) }
}

/// Handles a document that is skipped by conditions before the feeds: its keys are those of the feeds that would take it.
fn skipped_before_feeds(
    reader: &Reader<'_>,
    source: &Json,
    feeds: &[Json],
    (lets, received): (&BTreeMap<String, ModelValue>, i64),
    (delivery, position): (&Delivery, (usize, usize)),
) -> Outcome {
    let mut keys = Vec::new();
    for feed in feeds.iter().filter(|_| source.get("replaces").is_some()) {
        match feed["when"].as_str().map(|when| evaluate(when, &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown))) {
            None | Some(ModelValue::Value(Json::Bool(true))) => {}
            Some(ModelValue::Value(Json::Bool(false)) | ModelValue::Nothing) => continue,
            Some(_) => return Outcome::Unknown,
        }
        match reader.feed(source, feed, (lets, received, false), delivery, position) {
            Ok(contribution) => keys.push((contribution.collection, contribution.key)),
            Err(Outcome::Unknown) => return Outcome::Unknown,
            Err(_) => {}
        }
    }
    skipped(source, lets, keys)
}

/// A document whose scope or time cannot be read does not count for what its file replaces.
fn skipped(source: &Json, lets: &BTreeMap<String, ModelValue>, keys: Vec<(String, String)>) -> Outcome {
    match scope_of(source, lets) {
        Ok(scope) => Outcome::Skipped(scope.map(|scope| SkippedDocument { scope, keys })),
        Err(Outcome::Unknown) => Outcome::Unknown,
        Err(_) => Outcome::Skipped(None),
    }
}

fn scope_of(source: &Json, lets: &BTreeMap<String, ModelValue>) -> Result<Option<(String, i64)>, Outcome> {
    let Some(replaces) = source.get("replaces") else { return Ok(None) };
    let scope = match evaluate(replaces["scope"].as_str().unwrap_or_default(), &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown)) {
        ModelValue::Value(Json::String(scope)) => scope,
        ModelValue::Nothing => return Err(Outcome::Failed),
        _ => return Err(Outcome::Unknown),
    };
    let at = match (replaces["at"].as_str(), lets.get("at")) {
        (None, _) => 0,
        (Some(_), Some(ModelValue::Value(time))) => seconds(time).unwrap_or_default(),
        (Some(_), Some(ModelValue::Nothing)) => super::documents::time(0),
        _ => return Err(Outcome::Unknown),
    };
    Ok(Some((scope, at)))
}

fn accepted(source: &Json, named: Named<'_>) -> Outcome {
    for accept in source["accept"].as_array().into_iter().flatten() {
        match evaluate(accept["unless"].as_str().unwrap_or_default(), named) {
            ModelValue::Value(Json::Bool(true)) => {}
            ModelValue::Value(Json::Bool(false)) if accept["do"] == "skip" => return Outcome::Skipped(None),
            ModelValue::Value(Json::Bool(false)) => return Outcome::Failed,
            _ => return Outcome::Unknown,
        }
    }
    Outcome::Contributed(Vec::new())
}

struct Reader<'d> {
    definition: &'d Json,
    format: &'d str,
    document: &'d Json,
}

impl Reader<'_> {
    fn feed(
        &self,
        source: &Json,
        feed: &Json,
        (lets, received, alone): (&BTreeMap<String, ModelValue>, i64, bool),
        delivery: &Delivery,
        (file, ordinal): (usize, usize),
    ) -> Result<Contribution, Outcome> {
        let name = feed["into"].as_str().unwrap_or_default();
        let collection = &self.definition["collections"][name];
        let mut values: BTreeMap<String, ModelValue> = BTreeMap::new();
        let fields = collection["fields"].as_object();
        let contributed_fields = fields
            .into_iter()
            .flatten()
            .filter(|(_, field_definition)| field_definition.get("derive").is_none() && field_definition.get("rollup").is_none());
        let contributed_fields: Vec<(&String, &Json)> = contributed_fields.collect();
        let mut key_is_certain = Ok(());
        // computed values follow those that are read
        for computed in [false, true] {
            for (field, field_definition) in &contributed_fields {
                let rule = match feed.get("map") {
                    Some(map) => match map.get(*field) {
                        Some(rule) => rule.clone(),
                        None => continue,
                    },
                    None if field_definition.is_object() => (*field_definition).clone(),
                    None => json!({}),
                };
                if computed != (rule.get("expr").is_some() || rule.get("match").is_some()) {
                    continue;
                }
                let ty = field_definition.get("type").unwrap_or(field_definition);
                let default = matches!(self.format, "json" | "csv").then(|| super::grammar::path(self.format, field, false));
                let read_values = values.clone();
                let named = |name: &str| read_values.get(name).or(lets.get(name)).cloned().unwrap_or(ModelValue::Unknown);
                let mut value = self.value(&rule, ty, default.clone(), &named);
                if let (ModelValue::Value(json), Some(allowed)) = (&value, field_definition["one_of"].as_array()) {
                    let all = json.as_array().cloned().unwrap_or_else(|| vec![json.clone()]);
                    if !all.iter().all(|element| allowed.contains(element)) {
                        value = ModelValue::Unreadable;
                    }
                }
                if is_in_key(collection, field) && key_is_certain.is_ok() {
                    key_is_certain = self.certain(&rule, ty, default.clone());
                }
                let fails = rule["on_error"] == "fail" || source.get("replaces").is_some();
                if value == ModelValue::Unreadable && fails {
                    return Err(Outcome::Failed);
                }
                if value == ModelValue::Unknown && fails {
                    return Err(Outcome::Unknown);
                }
                values.insert((*field).clone(), value);
            }
        }
        let named = |name: &str| -> ModelValue {
            let value = values.get(name).filter(|_| alone).or(lets.get(name)).cloned().unwrap_or(ModelValue::Unknown);
            if value == ModelValue::Unreadable { ModelValue::Nothing } else { value }
        };
        if alone {
            match accepted(source, &named) {
                Outcome::Contributed(_) => {}
                Outcome::Skipped(_) => {
                    let keys = match key_is_certain.and_then(|()| self.key(collection, &values)) {
                        Ok(key) => vec![(name.to_owned(), key)],
                        Err(Outcome::Unknown) if source.get("replaces").is_some() => return Err(Outcome::Unknown),
                        Err(_) => Vec::new(),
                    };
                    return Err(skipped(source, lets, keys));
                }
                other => return Err(other),
            }
        }
        let is_deletion = match source["gone"].as_str() {
            None => false,
            Some(condition) => match evaluate(condition, &named) {
                ModelValue::Value(Json::Bool(is_deletion)) => is_deletion,
                _ => return Err(Outcome::Unknown),
            },
        };
        for (field, field_definition) in &contributed_fields {
            match values.get(*field) {
                _ if field_definition["required"] != true || is_deletion => {}
                Some(ModelValue::Value(_)) => {}
                Some(ModelValue::Unknown) => return Err(Outcome::Unknown),
                _ => return Err(Outcome::Failed),
            }
        }
        key_is_certain?;
        let key = self.key(collection, &values)?;
        // of a list, the first time counts; the last entry is the delivery's time
        let first = source["as_of"].as_str().or(source["as_of"][0].as_str());
        let as_of = match first.unwrap_or_default() {
            "meta.received" => Some(received),
            // a document without a time has that of its delivery
            _ => match lets.get("at") {
                Some(ModelValue::Value(time)) => seconds(time),
                Some(ModelValue::Nothing) => Some(received),
                _ => return Err(Outcome::Unknown),
            },
        };
        let contributor = match feed["contributor"].as_str().or(source["contributor"].as_str()) {
            None => delivery.source.clone(),
            Some(template) => {
                let braced = if template.contains('{') { template.to_owned() } else { format!("{{{template}}}") };
                match filled(&braced, &|name| lets.get(name).cloned().unwrap_or(ModelValue::Unknown)) {
                    ModelValue::Value(Json::String(part)) => format!("{}:{part}", delivery.source),
                    ModelValue::Nothing => return Err(Outcome::Failed),
                    _ => return Err(Outcome::Unknown),
                }
            }
        };
        let scope = scope_of(source, lets)?;
        Ok(Contribution {
            collection: name.to_owned(),
            source: delivery.source.clone(),
            contributor,
            key,
            as_of,
            received: source["as_of"].is_array().then_some((file, ordinal)),
            is_deletion,
            values,
            file,
            scope,
            retired: false,
            document: self.document.clone(),
        })
    }

    /// Returns the key of a contribution.
    fn key(&self, collection: &Json, values: &BTreeMap<String, ModelValue>) -> Result<String, Outcome> {
        let field_value = |name: &str| values.get(name).cloned().unwrap_or(ModelValue::Nothing);
        let rule = collection["key"].as_str().unwrap_or_default();
        let key = if rule.contains('{') {
            filled(rule, &field_value)
        } else if rule.contains(' ') {
            evaluate(rule, &field_value)
        } else {
            filled(&format!("{{{rule}}}"), &field_value).unescaped()
        };
        match key {
            ModelValue::Value(Json::String(key)) if key.len() > MAX_KEY_BYTES => Err(Outcome::Failed),
            ModelValue::Value(Json::String(key)) if !key.is_empty() => Ok(key),
            ModelValue::Nothing | ModelValue::Unreadable => Err(Outcome::Failed),
            _ => Err(Outcome::Unknown),
        }
    }

    /// Returns the value of a rule.
    fn value(&self, rule: &Json, ty: &Json, default: Option<String>, named: Named<'_>) -> ModelValue {
        if rule.get("map").is_some() || rule.get("match").is_some() || ty.get(0).is_some_and(Json::is_object) {
            return ModelValue::Unknown;
        }
        if let Some(expression) = rule["expr"].as_str() {
            let value = if expression == "meta.name" { ModelValue::Value(json!("file")) } else { evaluate(expression, named) };
            return match value {
                ModelValue::Value(Json::String(text)) if ty == "text" => self.text(&text, rule, ty),
                ModelValue::Nothing => ModelValue::Nothing,
                _ => ModelValue::Unknown,
            };
        }
        if let Some(cases) = rule["cases"].as_array() {
            for case in cases {
                let found = self.select(case["if"].as_str().unwrap_or_default());
                match found {
                    None => return ModelValue::Unknown,
                    // whether blank texts and null are found is not documented
                    Some(found) if found.iter().any(|json| json.is_null() || *json == "") => return ModelValue::Unknown,
                    Some(found) if found.is_empty() => {}
                    Some(_) => return from_text(case["then"].as_str().unwrap_or_default(), ty),
                }
            }
            return ModelValue::Nothing;
        }
        let mut paths: Vec<String> = rule["first"].as_array().into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned)).collect();
        let several = paths.len() > 1;
        if paths.is_empty() {
            paths.extend(rule.as_str().or(rule["path"].as_str()).map(str::to_owned).or(default));
        }
        for path in paths {
            let Some(found) = self.select(&path) else { return ModelValue::Unknown };
            if several && found.iter().any(|json| json.is_null() || *json == "") {
                return ModelValue::Unknown;
            }
            if !found.is_empty() {
                return self.convert(&found, rule, ty);
            }
        }
        ModelValue::Nothing
    }

    /// Returns whether the value of a field of the key is certain: all that its path finds is equal.
    fn certain(&self, rule: &Json, ty: &Json, default: Option<String>) -> Result<(), Outcome> {
        let computed = ["expr", "cases", "match", "map", "join"].iter().any(|keyword| rule.get(keyword).is_some());
        if computed || ty.is_array() {
            return Ok(());
        }
        let mut paths: Vec<String> = rule["first"].as_array().into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned)).collect();
        if paths.is_empty() {
            paths.extend(rule.as_str().or(rule["path"].as_str()).map(str::to_owned).or(default));
        }
        let found = paths.iter().filter_map(|path| self.select(path)).find(|found| !found.is_empty()).unwrap_or_default();
        let mut different: Vec<Json> = Vec::new();
        for value in found.iter().take(if found.len() > 1 { found.len() } else { 0 }) {
            match self.convert_one(value, rule, ty) {
                ModelValue::Value(value) if different.contains(&value) => {}
                ModelValue::Value(value) => different.push(value),
                ModelValue::Unreadable => return Err(Outcome::Failed),
                ModelValue::Unknown => return Err(Outcome::Unknown),
                ModelValue::Nothing | ModelValue::Cleared => {}
            }
        }
        if different.len() > 1 { Err(Outcome::Failed) } else { Ok(()) }
    }

    /// Returns what a path finds; `None` if that is not modelled.
    fn select(&self, path: &str) -> Option<Vec<Json>> {
        match self.format {
            "json" => {
                let member = path.strip_prefix("$.")?;
                let value = self.document.get(member.trim_end_matches("[*]"));
                match (value, member.ends_with("[*]")) {
                    (None, _) => Some(Vec::new()),
                    (Some(Json::Array(items)), true) => Some(items.clone()),
                    (Some(Json::Object(_)), true) => None,
                    (Some(_), true) => Some(Vec::new()),
                    (Some(value), false) => Some(vec![value.clone()]),
                }
            }
            "csv" => Some(match self.document.get(path) {
                None | Some(Json::Null) => Vec::new(),
                Some(Json::String(text)) => vec![json!(text)],
                Some(other) => vec![json!(other.to_string())],
            }),
            "xml" => texts(self.document.get(path).unwrap_or(&Json::Null)),
            _ => {
                let entries: Vec<&Json> =
                    self.document.as_object()?.iter().filter(|(name, _)| path == format!("{}$a", tag(name))).map(|(_, value)| value).collect();
                let mut found = Vec::new();
                for value in entries {
                    match value {
                        Json::Array(items) if items.iter().any(|item| !item.is_string()) => return None,
                        Json::Object(_) => return None,
                        Json::Array(items) => found.extend(items.iter().cloned()),
                        Json::Null => {}
                        Json::String(text) => found.push(json!(text)),
                        other => found.push(json!(other.to_string())),
                    }
                }
                Some(found)
            }
        }
    }

    fn convert(&self, found: &[Json], rule: &Json, ty: &Json) -> ModelValue {
        if let Some(separator) = rule["join"].as_str() {
            let all: Option<Vec<&str>> = found.iter().map(Json::as_str).collect();
            let Some(all) = all else { return ModelValue::Unknown };
            if ty.is_array() || rule.get("each").is_some() {
                return ModelValue::Unknown;
            }
            let all: Vec<&str> = all.into_iter().filter(|text| !text.is_empty()).collect();
            return self.text(&all.join(separator), rule, ty);
        }
        let Some(element) = ty.get(0) else { return self.convert_one(&found[0], rule, ty) };
        let mut values = Vec::new();
        for value in found {
            match value {
                Json::Array(items) => {
                    if items.is_empty() || rule.get("clean").is_some() || rule.get("lookup").is_some() || items.iter().any(|item| *item == "") {
                        return ModelValue::Unknown;
                    }
                    for item in items {
                        match self.convert_one(item, &json!({}), element) {
                            ModelValue::Value(value) => values.push(value),
                            ModelValue::Nothing => {}
                            other => return other,
                        }
                    }
                    if values.is_empty() {
                        return ModelValue::Unknown;
                    }
                }
                value => match self.convert_one(value, rule, element) {
                    ModelValue::Value(value) => values.push(value),
                    ModelValue::Nothing => {}
                    other => return other,
                },
            }
        }
        if values.is_empty() { ModelValue::Nothing } else { ModelValue::Value(values.into()) }
    }

    fn convert_one(&self, value: &Json, rule: &Json, ty: &Json) -> ModelValue {
        match value {
            Json::Null => ModelValue::Nothing,
            Json::String(text) if ty != "json" || self.format != "json" => self.text(text, rule, ty),
            _ if rule.get("format").is_some() && rule["format"] != "epoch" && rule["format"] != "epoch_ms" => ModelValue::Unknown,
            value => from_json(value, ty, rule["format"].as_str()),
        }
    }

    fn text(&self, text: &str, rule: &Json, ty: &Json) -> ModelValue {
        let names = match &rule["clean"] {
            Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
            name => name.as_str().into_iter().collect::<Vec<_>>(),
        };
        let mut cleaned = text.to_owned();
        for name in names {
            match clean(name, &cleaned) {
                None => return ModelValue::Unknown,
                Some(result) => cleaned = result,
            }
        }
        if cleaned.is_empty() {
            return ModelValue::Nothing;
        }
        let looked_up = match rule["lookup"].as_str() {
            None => cleaned,
            Some(table) => {
                let table: &Map<String, Json> = match self.definition["lookups"][table].as_object() {
                    Some(table) => table,
                    None => return ModelValue::Unknown,
                };
                match table.get(&cleaned).or(table.get("else")).and_then(Json::as_str) {
                    Some(found) if cleaned != "else" => found.to_owned(),
                    _ => return ModelValue::Unknown,
                }
            }
        };
        match rule["format"].as_str() {
            None if rule["format"].is_array() => ModelValue::Unknown,
            None => from_text(&looked_up, ty),
            Some("%Y-%m-%dT%H:%M:%SZ") => from_text(&looked_up, ty),
            Some("epoch") => looked_up.parse().map_or(ModelValue::Unreadable, |seconds| ModelValue::Value(json!(super::documents::shown(seconds)))),
            Some("epoch_ms") => {
                looked_up.parse::<i64>().map_or(ModelValue::Unreadable, |ms| ModelValue::Value(json!(super::documents::shown(ms / 1_000))))
            }
            Some(_) => ModelValue::Unknown,
        }
    }
}

/// Returns a cleaned text; `None` if that is not modelled.
/// Returns whether keys of a collection are made of this field.
fn is_in_key(collection: &Json, field: &str) -> bool {
    let rule = collection["key"].as_str().unwrap_or_default();
    rule.split(|character: char| !character.is_ascii_alphanumeric() && character != '_').any(|word| word == field)
}

fn clean(name: &str, text: &str) -> Option<String> {
    let squashed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(match name {
        "trim" => text.trim().to_owned(),
        "squash" => squashed(text),
        "isbd" => without_isbd(text),
        "lower" => text.to_lowercase(),
        "upper" => text.to_uppercase(),
        "digits" => text.chars().filter(char::is_ascii_digit).collect(),
        "nfc" | "strip_marks" if text.is_ascii() => text.to_owned(),
        "fold" if text.is_ascii() => squashed(&text.to_lowercase()),
        _ => return None,
    })
}

/// Removes punctuation of ISBD at the end, word by word from the last one.
fn without_isbd(text: &str) -> String {
    let text = text.trim_end();
    let last = text.split_whitespace().last().unwrap_or_default();
    let before_last = &text[..text.len() - last.len()];
    match last {
        "" => String::new(),
        "/" | ":" | ";" | "=" | "." | "," => without_isbd(before_last),
        _ if last.ends_with(',') => without_isbd(&text[..text.len() - 1]),
        _ if last.ends_with('.') && !last.ends_with("..") => {
            let word: Vec<char> = last[..last.len() - 1].chars().rev().take_while(|character| character.is_alphabetic()).collect();
            let before = last.chars().rev().nth(word.len() + 1);
            let stays = before == Some('.') || (matches!(word.len(), 1 | 2) && !before.is_some_and(char::is_numeric));
            if stays { text.to_owned() } else { without_isbd(&text[..text.len() - 1]) }
        }
        _ => text.to_owned(),
    }
}

impl ModelValue {
    /// A field that is the key is not escaped.
    fn unescaped(self) -> ModelValue {
        match self {
            ModelValue::Value(Json::String(text)) => ModelValue::Value(json!(text.replace("%25", "%"))),
            other => other,
        }
    }
}

/// Returns the texts of elements.
fn texts(value: &Json) -> Option<Vec<Json>> {
    Some(match value {
        Json::Null => Vec::new(),
        Json::Array(items) => {
            let mut all = Vec::new();
            for item in items {
                all.extend(texts(item)?);
            }
            all
        }
        Json::Object(_) => return None,
        Json::String(text) => vec![json!(text)],
        other => vec![json!(other.to_string())],
    })
}

fn from_text(text: &str, ty: &Json) -> ModelValue {
    let trimmed = text.trim();
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let known = |value: Json| ModelValue::Value(value);
    let whole = trimmed.strip_prefix('-').unwrap_or(trimmed);
    let is_whole = (1..=17).contains(&whole.len()) && whole.bytes().all(|byte| byte.is_ascii_digit());
    match ty.as_str().unwrap_or_default() {
        "text" => known(json!(text)),
        "integer" if is_whole => trimmed.parse::<i64>().map_or(ModelValue::Unknown, |number| known(json!(number))),
        "boolean" => match trimmed {
            "true" | "yes" | "1" => known(json!(true)),
            "false" | "no" | "0" => known(json!(false)),
            _ if !has_digits => ModelValue::Unreadable,
            _ => ModelValue::Unknown,
        },
        "timestamp" if text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' => known(json!(text)),
        "date" if text == "2024-13-01" => ModelValue::Unreadable,
        "date" if ["2024-01-05", "1999-12-31", "2024-02-29"].contains(&text) => known(json!(text)),
        "size" if is_whole => trimmed.parse::<i64>().map_or(ModelValue::Unknown, |number| known(json!(number))),
        "size" if text == "10 kB" => known(json!(10_000)),
        "size" if text == "1.5 GiB" => known(json!(1_610_612_736_i64)),
        "duration" if text == "1h30m" => known(json!("PT1H30M")),
        "duration" if text == "PT2S" => known(json!("PT2S")),
        "uuid" if trimmed.to_lowercase().replace('-', "") == "6ba7b8109dad11d180b400c04fd430c8" => {
            known(json!("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
        }
        "uuid" if text.len() < 20 => ModelValue::Unreadable,
        "geometry" => match super::documents::geometries().into_iter().find(|(written, _)| *written == trimmed) {
            Some((_, geometry)) => known(geometry),
            None if !trimmed.contains(['(', '{']) => ModelValue::Unreadable,
            None => ModelValue::Unknown,
        },
        "integer" | "timestamp" | "date" | "size" | "duration" | "float" if !has_digits => ModelValue::Unreadable,
        _ => ModelValue::Unknown,
    }
}

fn from_json(value: &Json, ty: &Json, format: Option<&str>) -> ModelValue {
    match (ty.as_str().unwrap_or_default(), value) {
        (_, Json::Null) => ModelValue::Nothing,
        ("json", any) => ModelValue::Value(any.clone()),
        (_, Json::String(text)) => from_text(text, ty),
        ("timestamp", Json::Number(number)) => match (format, number.as_i64()) {
            (Some("epoch"), Some(seconds)) => ModelValue::Value(json!(super::documents::shown(seconds))),
            (Some("epoch_ms"), Some(ms)) => ModelValue::Value(json!(super::documents::shown(ms / 1_000))),
            _ => ModelValue::Unknown,
        },
        ("text", Json::Number(number)) if number.is_i64() => ModelValue::Value(json!(number.to_string())),
        ("text", Json::Bool(value)) => ModelValue::Value(json!(value.to_string())),
        ("integer" | "size", Json::Number(number)) if number.is_i64() => ModelValue::Value(value.clone()),
        // a number without a fraction is an integer, however it is written
        ("integer" | "size", Json::Number(number)) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15);
            whole.map_or(ModelValue::Unreadable, |number| ModelValue::Value(json!(number as i64)))
        }
        ("float", Json::Number(number)) => number.as_f64().map_or(ModelValue::Unknown, |number| ModelValue::Value(json!(number))),
        ("boolean", Json::Bool(_)) => ModelValue::Value(value.clone()),
        ("ranges", _) => ModelValue::Unknown,
        ("geometry", Json::Object(_)) => match super::documents::geometries().into_iter().find(|(_, geometry)| geometry == value) {
            Some((_, geometry)) => ModelValue::Value(geometry),
            None if value.get("type").is_none() => ModelValue::Unreadable,
            None => ModelValue::Unknown,
        },
        (_, Json::Number(_)) => ModelValue::Unknown,
        _ => ModelValue::Unreadable,
    }
}

/// Seconds since 1970 of a time in January 2024.
pub fn seconds(time: &Json) -> Option<i64> {
    let text = time.as_str()?;
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<i64>().ok());
    let day = number(8..10)?;
    Some(super::documents::time(day - 1) + number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?)
}

/// Fills a template: if it has several names, `%` and the first character of what follows are written as `%XX` inside values.
pub fn filled(template: &str, named: Named<'_>) -> ModelValue {
    let escapes = template.matches('{').count() > 1;
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else { return ModelValue::Unknown };
        let value = match named(name) {
            ModelValue::Value(Json::String(text)) => text,
            ModelValue::Value(number) if number.is_i64() => number.to_string(),
            ModelValue::Nothing | ModelValue::Unreadable => return ModelValue::Nothing,
            _ => return ModelValue::Unknown,
        };
        let separator = after.chars().next().filter(|next| *next != '{');
        for character in value.chars() {
            if escapes && (character == '%' || Some(character) == separator) {
                out.push_str(&format!("%{:02X}", character as u32));
            } else {
                out.push(character);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    ModelValue::Value(json!(out))
}

// --- expressions ------------------------------------------------------------------------------------------------------------

/// Evaluates an expression of the few kinds that are modelled.
pub fn evaluate(text: &str, named: Named<'_>) -> ModelValue {
    let mut rest = text;
    let value = parse_or(&mut rest, named);
    if rest.trim().is_empty() { value.unwrap_or(ModelValue::Unknown) } else { ModelValue::Unknown }
}

fn takes(rest: &mut &str, token: &str) -> bool {
    let found = rest.trim_start().strip_prefix(token);
    if let Some(after) = found {
        *rest = after;
    }
    found.is_some()
}

fn parse_or(rest: &mut &str, named: Named<'_>) -> Option<ModelValue> {
    let mut value = parse_and(rest, named)?;
    while takes(rest, "||") {
        let other = parse_and(rest, named)?;
        value = match (value, other) {
            (ModelValue::Value(Json::Bool(a)), ModelValue::Value(Json::Bool(b))) => ModelValue::Value(json!(a || b)),
            _ => ModelValue::Unknown,
        };
    }
    Some(value)
}

fn parse_and(rest: &mut &str, named: Named<'_>) -> Option<ModelValue> {
    let mut value = parse_comparison(rest, named)?;
    while takes(rest, "&&") {
        let other = parse_comparison(rest, named)?;
        value = match (value, other) {
            (ModelValue::Value(Json::Bool(a)), ModelValue::Value(Json::Bool(b))) => ModelValue::Value(json!(a && b)),
            _ => ModelValue::Unknown,
        };
    }
    Some(value)
}

fn parse_comparison(rest: &mut &str, named: Named<'_>) -> Option<ModelValue> {
    let value = parse_sum(rest, named)?;
    let equal = if takes(rest, "==") {
        true
    } else if takes(rest, "!=") {
        false
    } else {
        return Some(value);
    };
    let other = parse_sum(rest, named)?;
    let known = |value: &ModelValue| !matches!(value, ModelValue::Unknown);
    Some(match (&value, &other) {
        _ if !known(&value) || !known(&other) => ModelValue::Unknown,
        (ModelValue::Value(Json::String(a)), ModelValue::Value(Json::String(b))) => ModelValue::Value(json!((a == b) == equal)),
        (ModelValue::Nothing | ModelValue::Unreadable, ModelValue::Nothing | ModelValue::Unreadable) => ModelValue::Value(json!(equal)),
        (ModelValue::Nothing | ModelValue::Unreadable, _) | (_, ModelValue::Nothing | ModelValue::Unreadable) => ModelValue::Value(json!(!equal)),
        _ => ModelValue::Unknown,
    })
}

fn parse_sum(rest: &mut &str, named: Named<'_>) -> Option<ModelValue> {
    let mut value = parse_primary(rest, named)?;
    while takes(rest, "+") {
        let other = parse_primary(rest, named)?;
        value = match (value, other) {
            (ModelValue::Value(Json::String(a)), ModelValue::Value(Json::String(b))) => ModelValue::Value(json!(a + &b)),
            (ModelValue::Value(a), ModelValue::Value(b)) if a.is_i64() && b.is_i64() => {
                a.as_i64()?.checked_add(b.as_i64()?).map_or(ModelValue::Unknown, |sum| ModelValue::Value(json!(sum)))
            }
            _ => ModelValue::Unknown,
        };
    }
    Some(value)
}

fn parse_primary(rest: &mut &str, named: Named<'_>) -> Option<ModelValue> {
    let text = rest.trim_start();
    if let Some(quoted) = text.strip_prefix('\'') {
        let (quoted_text, remaining) = quoted.split_once('\'')?;
        *rest = remaining;
        return Some(ModelValue::Value(json!(quoted_text)));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, remaining) = text.split_at(end);
    *rest = remaining;
    if let Ok(number) = word.parse::<i64>() {
        return Some(ModelValue::Value(json!(number)));
    }
    if remaining.starts_with('.') {
        return None;
    }
    if takes(rest, "(") {
        if word != "coalesce" {
            return None;
        }
        let mut value = ModelValue::Nothing;
        loop {
            let next = parse_or(rest, named)?;
            if value == ModelValue::Nothing {
                value = next;
            }
            if takes(rest, ")") {
                return Some(value);
            }
            if !takes(rest, ",") {
                return None;
            }
        }
    }
    match word {
        "" => None,
        "null" => Some(ModelValue::Nothing),
        name => Some(match named(name) {
            ModelValue::Unreadable => ModelValue::Nothing,
            other => other,
        }),
    }
}
