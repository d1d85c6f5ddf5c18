//! Reads documents according to the documentation alone: paths, types, conditions, key, time.

use super::case::{Delivery, Edit};
use super::grammar::tag;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// Max bytes of a key.
pub const MAX_KEY_BYTES: usize = 512;

/// A contributed value.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
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
pub struct Statement {
    pub collection: String,
    pub source: String,
    pub contributor: String,
    pub key: String,
    /// In seconds; `None` is before everything.
    pub as_of: Option<i64>,
    /// If documents with the same time are ordered by reception: the position of the file in the order of acceptance, and of the document in it.
    pub received: Option<(usize, usize)>,
    pub gone: bool,
    pub values: BTreeMap<String, Said>,
    /// The number of its file.
    pub file: usize,
    /// If files replace others: the scope, and the time in it.
    pub scope: Option<(String, i64)>,
    pub retired: bool,
    document: Json,
}

impl Statement {
    /// The order in which contributions of one contributor replace each other.
    pub fn moment(&self) -> Moment {
        (self.as_of, self.received)
    }

    pub fn says_the_same(&self, other: &Self) -> bool {
        self.document == other.document && self.source == other.source && self.scope == other.scope
    }
}

/// The position of a skipped document within what its file replaces.
pub struct SkippedPlace {
    /// The scope, and the time in it.
    pub scope: (String, i64),
    /// Collections and keys that it would contribute to, as far as they can be read.
    pub keys: Vec<(String, String)>,
}

/// The order of contributions: those without a reception come first.
pub type Moment = (Option<i64>, Option<(usize, usize)>);

/// The result of reading a document.
pub enum Outcome {
    Said(Vec<Statement>),
    Skipped(Option<SkippedPlace>),
    Failed,
    Unknown,
}

/// Values by name, for expressions.
type Named<'n> = &'n dyn Fn(&str) -> Said;

/// Returns the contribution of `api` to a record after these edits; `None` if that is not modelled.
pub fn said_by_the_api(definition: &Json, name: &str, key: &str, edits: &[&Edit]) -> Option<Statement> {
    let collection = &definition["collections"][name];
    let reader = Reader { definition, format: "json", document: &Json::Null };
    let mut own = Statement {
        collection: name.to_owned(),
        source: "api".into(),
        contributor: "api".into(),
        key: key.to_owned(),
        // edits have the current time, documents are from January 2024
        as_of: Some(super::documents::time(100)),
        received: None,
        gone: false,
        values: BTreeMap::new(),
        file: usize::MAX,
        scope: None,
        retired: false,
        document: Json::Null,
    };
    for edit in edits {
        match edit.method.as_str() {
            "DELETE" => {
                own.values.clear();
                own.gone = true;
                continue;
            }
            "PUT" => own.values.clear(),
            _ if own.gone => return None,
            _ => {}
        }
        own.gone = false;
        for (field, value) in edit.body.as_object().into_iter().flatten() {
            let definition = &collection["fields"][field];
            let ty = definition.get("type").unwrap_or(definition);
            // members of JSON are merged
            let value = if ty == "json" && value.is_object() { Said::Unknown } else { reader.convert(std::slice::from_ref(value), &json!({}), ty) };
            let value = if value == Said::Unreadable { Said::Unknown } else { value };
            own.values.insert(field.clone(), value);
        }
        if let Some(field) = &edit.clear {
            own.values.insert(field.clone(), Said::Cleared);
        }
    }
    let rule = collection["key"].as_str().unwrap_or_default();
    for field in collection["fields"].as_object().into_iter().flat_map(Map::keys).filter(|field| super::documents::is_key(rule, field)) {
        own.values.insert(field.clone(), Said::Unknown);
    }
    Some(own)
}

pub fn statements(definition: &Json, delivery: &Delivery, place: (usize, usize), document: &Json) -> Outcome {
    let source = &definition["sources"][&delivery.source];
    let format = source["format"].as_str().unwrap_or_default();
    let reader = Reader { definition, format, document };
    let mut lets: BTreeMap<String, Said> = BTreeMap::new();
    for (name, rule) in source["let"].as_object().into_iter().flatten() {
        let value = match (rule.get("match"), rule["expr"].as_str()) {
            (Some(_), _) => Said::Unknown,
            (_, Some("meta.name")) => Said::Value(json!("file")),
            (_, Some(expression)) => evaluate(expression, &|name| lets.get(name).cloned().unwrap_or(Said::Unknown)),
            _ => {
                let ty = rule.get("type").cloned().unwrap_or(json!("text"));
                reader.value(rule, &ty, None, &|_| Said::Unknown)
            }
        };
        let value = if value == Said::Unreadable { Said::Nothing } else { value };
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
        match accepted(source, &|name| lets.get(name).cloned().unwrap_or(Said::Unknown)) {
            Outcome::Said(_) => {}
            Outcome::Skipped(_) => return skipped_before_feeds(&reader, source, &feeds, (&lets, received), (delivery, place)),
            other => return other,
        }
    }
    for feed in &feeds {
        if let Some(when) = feed["when"].as_str() {
            match evaluate(when, &|name| lets.get(name).cloned().unwrap_or(Said::Unknown)) {
                Said::Value(Json::Bool(true)) => {}
                Said::Value(Json::Bool(false)) => continue,
                _ => return Outcome::Unknown,
            }
        }
        match reader.feed(source, feed, (&lets, received, alone), delivery, place) {
            Ok(statement) => found.push(statement),
            Err(outcome) => return outcome,
        }
    }
    if found.is_empty() { skipped(source, &lets, Vec::new()) } else { Outcome::Said(found) }
}

/// Handles a document that is skipped by conditions before the feeds: its keys are those of the feeds that would take it.
fn skipped_before_feeds(
    reader: &Reader<'_>,
    source: &Json,
    feeds: &[Json],
    (lets, received): (&BTreeMap<String, Said>, i64),
    (delivery, place): (&Delivery, (usize, usize)),
) -> Outcome {
    let mut keys = Vec::new();
    for feed in feeds.iter().filter(|_| source.get("replaces").is_some()) {
        match feed["when"].as_str().map(|when| evaluate(when, &|name| lets.get(name).cloned().unwrap_or(Said::Unknown))) {
            None | Some(Said::Value(Json::Bool(true))) => {}
            Some(Said::Value(Json::Bool(false)) | Said::Nothing) => continue,
            Some(_) => return Outcome::Unknown,
        }
        match reader.feed(source, feed, (lets, received, false), delivery, place) {
            Ok(own) => keys.push((own.collection, own.key)),
            Err(Outcome::Unknown) => return Outcome::Unknown,
            Err(_) => {}
        }
    }
    skipped(source, lets, keys)
}

/// A document whose scope or time cannot be read does not count for what its file replaces.
fn skipped(source: &Json, lets: &BTreeMap<String, Said>, keys: Vec<(String, String)>) -> Outcome {
    match scope_of(source, lets) {
        Ok(scope) => Outcome::Skipped(scope.map(|scope| SkippedPlace { scope, keys })),
        Err(Outcome::Unknown) => Outcome::Unknown,
        Err(_) => Outcome::Skipped(None),
    }
}

fn scope_of(source: &Json, lets: &BTreeMap<String, Said>) -> Result<Option<(String, i64)>, Outcome> {
    let Some(replaces) = source.get("replaces") else { return Ok(None) };
    let scope = match evaluate(replaces["scope"].as_str().unwrap_or_default(), &|name| lets.get(name).cloned().unwrap_or(Said::Unknown)) {
        Said::Value(Json::String(scope)) => scope,
        Said::Nothing => return Err(Outcome::Failed),
        _ => return Err(Outcome::Unknown),
    };
    let at = match (replaces["at"].as_str(), lets.get("at")) {
        (None, _) => 0,
        (Some(_), Some(Said::Value(time))) => seconds(time).unwrap_or_default(),
        (Some(_), Some(Said::Nothing)) => super::documents::time(0),
        _ => return Err(Outcome::Unknown),
    };
    Ok(Some((scope, at)))
}

fn accepted(source: &Json, named: Named<'_>) -> Outcome {
    for accept in source["accept"].as_array().into_iter().flatten() {
        match evaluate(accept["unless"].as_str().unwrap_or_default(), named) {
            Said::Value(Json::Bool(true)) => {}
            Said::Value(Json::Bool(false)) if accept["do"] == "skip" => return Outcome::Skipped(None),
            Said::Value(Json::Bool(false)) => return Outcome::Failed,
            _ => return Outcome::Unknown,
        }
    }
    Outcome::Said(Vec::new())
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
        (lets, received, alone): (&BTreeMap<String, Said>, i64, bool),
        delivery: &Delivery,
        (file, ordinal): (usize, usize),
    ) -> Result<Statement, Outcome> {
        let name = feed["into"].as_str().unwrap_or_default();
        let collection = &self.definition["collections"][name];
        let mut values: BTreeMap<String, Said> = BTreeMap::new();
        let fields = collection["fields"].as_object();
        let told = fields.into_iter().flatten().filter(|(_, own)| own.get("derive").is_none() && own.get("rollup").is_none());
        let told: Vec<(&String, &Json)> = told.collect();
        // computed values follow those that are read
        for computed in [false, true] {
            for (field, own) in &told {
                let rule = match feed.get("map") {
                    Some(map) => match map.get(*field) {
                        Some(rule) => rule.clone(),
                        None => continue,
                    },
                    None if own.is_object() => (*own).clone(),
                    None => json!({}),
                };
                if computed != (rule.get("expr").is_some() || rule.get("match").is_some()) {
                    continue;
                }
                let ty = own.get("type").unwrap_or(own);
                let default = matches!(self.format, "json" | "csv").then(|| super::grammar::path(self.format, field, false));
                let known = values.clone();
                let named = |name: &str| known.get(name).or(lets.get(name)).cloned().unwrap_or(Said::Unknown);
                let mut value = self.value(&rule, ty, default, &named);
                if let (Said::Value(value_of), Some(allowed)) = (&value, own["one_of"].as_array()) {
                    let all = value_of.as_array().cloned().unwrap_or_else(|| vec![value_of.clone()]);
                    if !all.iter().all(|one| allowed.contains(one)) {
                        value = Said::Unreadable;
                    }
                }
                let fails = rule["on_error"] == "fail" || source.get("replaces").is_some();
                if value == Said::Unreadable && fails {
                    return Err(Outcome::Failed);
                }
                if value == Said::Unknown && fails {
                    return Err(Outcome::Unknown);
                }
                values.insert((*field).clone(), value);
            }
        }
        let named = |name: &str| -> Said {
            let own = values.get(name).filter(|_| alone).or(lets.get(name)).cloned().unwrap_or(Said::Unknown);
            if own == Said::Unreadable { Said::Nothing } else { own }
        };
        if alone {
            match accepted(source, &named) {
                Outcome::Said(_) => {}
                Outcome::Skipped(_) => {
                    let keys = match self.key(collection, &values) {
                        Ok(key) => vec![(name.to_owned(), key)],
                        Err(Outcome::Unknown) if source.get("replaces").is_some() => return Err(Outcome::Unknown),
                        Err(_) => Vec::new(),
                    };
                    return Err(skipped(source, lets, keys));
                }
                other => return Err(other),
            }
        }
        let gone = match source["gone"].as_str() {
            None => false,
            Some(gone) => match evaluate(gone, &named) {
                Said::Value(Json::Bool(gone)) => gone,
                _ => return Err(Outcome::Unknown),
            },
        };
        for (field, own) in &told {
            match values.get(*field) {
                _ if own["required"] != true || gone => {}
                Some(Said::Value(_)) => {}
                Some(Said::Unknown) => return Err(Outcome::Unknown),
                _ => return Err(Outcome::Failed),
            }
        }
        let key = self.key(collection, &values)?;
        // of a list, the first time counts; the last entry is the delivery's time
        let first = source["as_of"].as_str().or(source["as_of"][0].as_str());
        let as_of = match first.unwrap_or_default() {
            "meta.received" => Some(received),
            // a document without a time has that of its delivery
            _ => match lets.get("at") {
                Some(Said::Value(time)) => seconds(time),
                Some(Said::Nothing) => Some(received),
                _ => return Err(Outcome::Unknown),
            },
        };
        let contributor = match feed["contributor"].as_str().or(source["contributor"].as_str()) {
            None => delivery.source.clone(),
            Some(template) => {
                let braced = if template.contains('{') { template.to_owned() } else { format!("{{{template}}}") };
                match filled(&braced, &|name| lets.get(name).cloned().unwrap_or(Said::Unknown)) {
                    Said::Value(Json::String(part)) => format!("{}:{part}", delivery.source),
                    Said::Nothing => return Err(Outcome::Failed),
                    _ => return Err(Outcome::Unknown),
                }
            }
        };
        let scope = scope_of(source, lets)?;
        Ok(Statement {
            collection: name.to_owned(),
            source: delivery.source.clone(),
            contributor,
            key,
            as_of,
            received: source["as_of"].is_array().then_some((file, ordinal)),
            gone,
            values,
            file,
            scope,
            retired: false,
            document: self.document.clone(),
        })
    }

    /// Returns the key of a contribution.
    fn key(&self, collection: &Json, values: &BTreeMap<String, Said>) -> Result<String, Outcome> {
        let of_field = |name: &str| values.get(name).cloned().unwrap_or(Said::Nothing);
        let rule = collection["key"].as_str().unwrap_or_default();
        let key = if rule.contains('{') {
            filled(rule, &of_field)
        } else if rule.contains(' ') {
            evaluate(rule, &of_field)
        } else {
            filled(&format!("{{{rule}}}"), &of_field).unescaped()
        };
        match key {
            Said::Value(Json::String(key)) if key.len() > MAX_KEY_BYTES => Err(Outcome::Failed),
            Said::Value(Json::String(key)) if !key.is_empty() => Ok(key),
            Said::Nothing | Said::Unreadable => Err(Outcome::Failed),
            _ => Err(Outcome::Unknown),
        }
    }

    /// Returns the value of a rule.
    fn value(&self, rule: &Json, ty: &Json, default: Option<String>, named: Named<'_>) -> Said {
        if rule.get("map").is_some() || rule.get("match").is_some() || ty.get(0).is_some_and(Json::is_object) {
            return Said::Unknown;
        }
        if let Some(expression) = rule["expr"].as_str() {
            let value = if expression == "meta.name" { Said::Value(json!("file")) } else { evaluate(expression, named) };
            return match value {
                Said::Value(Json::String(text)) if ty == "text" => self.text(&text, rule, ty),
                Said::Nothing => Said::Nothing,
                _ => Said::Unknown,
            };
        }
        if let Some(cases) = rule["cases"].as_array() {
            for case in cases {
                let found = self.select(case["if"].as_str().unwrap_or_default());
                match found {
                    None => return Said::Unknown,
                    // whether blank texts and null are found is not documented
                    Some(found) if found.iter().any(|one| one.is_null() || *one == "") => return Said::Unknown,
                    Some(found) if found.is_empty() => {}
                    Some(_) => return from_text(case["then"].as_str().unwrap_or_default(), ty),
                }
            }
            return Said::Nothing;
        }
        let mut paths: Vec<String> = rule["first"].as_array().into_iter().flatten().filter_map(|path| path.as_str().map(str::to_owned)).collect();
        let several = paths.len() > 1;
        if paths.is_empty() {
            paths.extend(rule.as_str().or(rule["path"].as_str()).map(str::to_owned).or(default));
        }
        for path in paths {
            let Some(found) = self.select(&path) else { return Said::Unknown };
            if several && found.iter().any(|one| one.is_null() || *one == "") {
                return Said::Unknown;
            }
            if !found.is_empty() {
                return self.convert(&found, rule, ty);
            }
        }
        Said::Nothing
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

    fn convert(&self, found: &[Json], rule: &Json, ty: &Json) -> Said {
        if let Some(separator) = rule["join"].as_str() {
            let all: Option<Vec<&str>> = found.iter().map(Json::as_str).collect();
            let Some(all) = all else { return Said::Unknown };
            if ty.is_array() || rule.get("each").is_some() {
                return Said::Unknown;
            }
            let all: Vec<&str> = all.into_iter().filter(|text| !text.is_empty()).collect();
            return self.text(&all.join(separator), rule, ty);
        }
        let Some(element) = ty.get(0) else { return self.one(&found[0], rule, ty) };
        let mut values = Vec::new();
        for one in found {
            match one {
                Json::Array(items) => {
                    if items.is_empty() || rule.get("clean").is_some() || rule.get("lookup").is_some() || items.iter().any(|item| *item == "") {
                        return Said::Unknown;
                    }
                    for item in items {
                        match self.one(item, &json!({}), element) {
                            Said::Value(value) => values.push(value),
                            Said::Nothing => {}
                            other => return other,
                        }
                    }
                    if values.is_empty() {
                        return Said::Unknown;
                    }
                }
                one => match self.one(one, rule, element) {
                    Said::Value(value) => values.push(value),
                    Said::Nothing => {}
                    other => return other,
                },
            }
        }
        if values.is_empty() { Said::Nothing } else { Said::Value(values.into()) }
    }

    fn one(&self, value: &Json, rule: &Json, ty: &Json) -> Said {
        match value {
            Json::Null => Said::Nothing,
            Json::String(text) if ty != "json" || self.format != "json" => self.text(text, rule, ty),
            _ if rule.get("format").is_some() && rule["format"] != "epoch" && rule["format"] != "epoch_ms" => Said::Unknown,
            value => from_json(value, ty, rule["format"].as_str()),
        }
    }

    fn text(&self, text: &str, rule: &Json, ty: &Json) -> Said {
        let names = match &rule["clean"] {
            Json::Array(names) => names.iter().filter_map(Json::as_str).collect(),
            name => name.as_str().into_iter().collect::<Vec<_>>(),
        };
        let mut cleaned = text.to_owned();
        for name in names {
            match cleaned_by(name, &cleaned) {
                None => return Said::Unknown,
                Some(left) => cleaned = left,
            }
        }
        if cleaned.is_empty() {
            return Said::Nothing;
        }
        let looked_up = match rule["lookup"].as_str() {
            None => cleaned,
            Some(table) => {
                let table: &Map<String, Json> = match self.definition["lookups"][table].as_object() {
                    Some(table) => table,
                    None => return Said::Unknown,
                };
                match table.get(&cleaned).or(table.get("else")).and_then(Json::as_str) {
                    Some(found) if cleaned != "else" => found.to_owned(),
                    _ => return Said::Unknown,
                }
            }
        };
        match rule["format"].as_str() {
            None => from_text(&looked_up, ty),
            Some("%Y-%m-%dT%H:%M:%SZ") => from_text(&looked_up, ty),
            Some("epoch") => looked_up.parse().map_or(Said::Unreadable, |seconds| Said::Value(json!(super::documents::shown(seconds)))),
            Some("epoch_ms") => looked_up.parse::<i64>().map_or(Said::Unreadable, |ms| Said::Value(json!(super::documents::shown(ms / 1_000)))),
            Some(_) => Said::Unknown,
        }
    }
}

/// Returns a cleaned text; `None` if that is not modelled.
fn cleaned_by(name: &str, text: &str) -> Option<String> {
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
    let rest = &text[..text.len() - last.len()];
    match last {
        "" => String::new(),
        "/" | ":" | ";" | "=" | "." | "," => without_isbd(rest),
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

impl Said {
    /// A field that is the key is not escaped.
    fn unescaped(self) -> Said {
        match self {
            Said::Value(Json::String(text)) => Said::Value(json!(text.replace("%25", "%"))),
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

fn from_text(text: &str, ty: &Json) -> Said {
    let trimmed = text.trim();
    let has_digits = text.bytes().any(|byte| byte.is_ascii_digit());
    let known = |value: Json| Said::Value(value);
    let whole = trimmed.strip_prefix('-').unwrap_or(trimmed);
    let is_whole = (1..=17).contains(&whole.len()) && whole.bytes().all(|byte| byte.is_ascii_digit());
    match ty.as_str().unwrap_or_default() {
        "text" => known(json!(text)),
        "integer" if is_whole => trimmed.parse::<i64>().map_or(Said::Unknown, |number| known(json!(number))),
        "boolean" => match trimmed {
            "true" | "yes" | "1" => known(json!(true)),
            "false" | "no" | "0" => known(json!(false)),
            _ if !has_digits => Said::Unreadable,
            _ => Said::Unknown,
        },
        "timestamp" if text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' => known(json!(text)),
        "date" if text == "2024-13-01" => Said::Unreadable,
        "date" if ["2024-01-05", "1999-12-31", "2024-02-29"].contains(&text) => known(json!(text)),
        "size" if is_whole => trimmed.parse::<i64>().map_or(Said::Unknown, |number| known(json!(number))),
        "size" if text == "10 kB" => known(json!(10_000)),
        "size" if text == "1.5 GiB" => known(json!(1_610_612_736_i64)),
        "duration" if text == "1h30m" => known(json!("PT1H30M")),
        "duration" if text == "PT2S" => known(json!("PT2S")),
        "uuid" if trimmed.to_lowercase().replace('-', "") == "6ba7b8109dad11d180b400c04fd430c8" => {
            known(json!("6ba7b810-9dad-11d1-80b4-00c04fd430c8"))
        }
        "uuid" if text.len() < 20 => Said::Unreadable,
        "geometry" => match super::documents::geometries().into_iter().find(|(written, _)| *written == trimmed) {
            Some((_, geometry)) => known(geometry),
            None if !trimmed.contains(['(', '{']) => Said::Unreadable,
            None => Said::Unknown,
        },
        "integer" | "timestamp" | "date" | "size" | "duration" | "float" if !has_digits => Said::Unreadable,
        _ => Said::Unknown,
    }
}

fn from_json(value: &Json, ty: &Json, format: Option<&str>) -> Said {
    match (ty.as_str().unwrap_or_default(), value) {
        (_, Json::Null) => Said::Nothing,
        ("json", any) => Said::Value(any.clone()),
        (_, Json::String(text)) => from_text(text, ty),
        ("timestamp", Json::Number(number)) => match (format, number.as_i64()) {
            (Some("epoch"), Some(seconds)) => Said::Value(json!(super::documents::shown(seconds))),
            (Some("epoch_ms"), Some(ms)) => Said::Value(json!(super::documents::shown(ms / 1_000))),
            _ => Said::Unknown,
        },
        ("text", Json::Number(number)) if number.is_i64() => Said::Value(json!(number.to_string())),
        ("text", Json::Bool(value)) => Said::Value(json!(value.to_string())),
        ("integer" | "size", Json::Number(number)) if number.is_i64() => Said::Value(value.clone()),
        // a number without a fraction is an integer, however it is written
        ("integer" | "size", Json::Number(number)) => {
            let whole = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.0e15);
            whole.map_or(Said::Unreadable, |number| Said::Value(json!(number as i64)))
        }
        ("float", Json::Number(number)) => number.as_f64().map_or(Said::Unknown, |number| Said::Value(json!(number))),
        ("boolean", Json::Bool(_)) => Said::Value(value.clone()),
        ("ranges", _) => Said::Unknown,
        ("geometry", Json::Object(_)) => match super::documents::geometries().into_iter().find(|(_, geometry)| geometry == value) {
            Some((_, geometry)) => Said::Value(geometry),
            None if value.get("type").is_none() => Said::Unreadable,
            None => Said::Unknown,
        },
        (_, Json::Number(_)) => Said::Unknown,
        _ => Said::Unreadable,
    }
}

fn seconds(time: &Json) -> Option<i64> {
    let text = time.as_str()?;
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<i64>().ok());
    let day = number(8..10)?;
    Some(super::documents::time(day - 1) + number(11..13)? * 3_600 + number(14..16)? * 60 + number(17..19)?)
}

/// Fills a template: if it has several names, `%` and the first character of what follows are written as `%XX` inside values.
pub fn filled(template: &str, named: Named<'_>) -> Said {
    let escapes = template.matches('{').count() > 1;
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, behind)) = behind.split_once('}') else { return Said::Unknown };
        let value = match named(name) {
            Said::Value(Json::String(text)) => text,
            Said::Value(number) if number.is_i64() => number.to_string(),
            Said::Nothing | Said::Unreadable => return Said::Nothing,
            _ => return Said::Unknown,
        };
        let separator = behind.chars().next().filter(|next| *next != '{');
        for character in value.chars() {
            if escapes && (character == '%' || Some(character) == separator) {
                out.push_str(&format!("%{:02X}", character as u32));
            } else {
                out.push(character);
            }
        }
        rest = behind;
    }
    out.push_str(rest);
    Said::Value(json!(out))
}

// --- expressions ------------------------------------------------------------------------------------------------------------

/// Evaluates an expression of the few kinds that are modelled.
pub fn evaluate(text: &str, named: Named<'_>) -> Said {
    let mut rest = text;
    let value = any_of(&mut rest, named);
    if rest.trim().is_empty() { value.unwrap_or(Said::Unknown) } else { Said::Unknown }
}

fn takes(rest: &mut &str, token: &str) -> bool {
    let found = rest.trim_start().strip_prefix(token);
    if let Some(behind) = found {
        *rest = behind;
    }
    found.is_some()
}

fn any_of(rest: &mut &str, named: Named<'_>) -> Option<Said> {
    let mut value = all_of(rest, named)?;
    while takes(rest, "||") {
        let other = all_of(rest, named)?;
        value = match (value, other) {
            (Said::Value(Json::Bool(a)), Said::Value(Json::Bool(b))) => Said::Value(json!(a || b)),
            _ => Said::Unknown,
        };
    }
    Some(value)
}

fn all_of(rest: &mut &str, named: Named<'_>) -> Option<Said> {
    let mut value = compared(rest, named)?;
    while takes(rest, "&&") {
        let other = compared(rest, named)?;
        value = match (value, other) {
            (Said::Value(Json::Bool(a)), Said::Value(Json::Bool(b))) => Said::Value(json!(a && b)),
            _ => Said::Unknown,
        };
    }
    Some(value)
}

fn compared(rest: &mut &str, named: Named<'_>) -> Option<Said> {
    let value = added(rest, named)?;
    let equal = if takes(rest, "==") {
        true
    } else if takes(rest, "!=") {
        false
    } else {
        return Some(value);
    };
    let other = added(rest, named)?;
    let known = |said: &Said| !matches!(said, Said::Unknown);
    Some(match (&value, &other) {
        _ if !known(&value) || !known(&other) => Said::Unknown,
        (Said::Value(Json::String(a)), Said::Value(Json::String(b))) => Said::Value(json!((a == b) == equal)),
        (Said::Nothing | Said::Unreadable, Said::Nothing | Said::Unreadable) => Said::Value(json!(equal)),
        (Said::Nothing | Said::Unreadable, _) | (_, Said::Nothing | Said::Unreadable) => Said::Value(json!(!equal)),
        _ => Said::Unknown,
    })
}

fn added(rest: &mut &str, named: Named<'_>) -> Option<Said> {
    let mut value = primary(rest, named)?;
    while takes(rest, "+") {
        let other = primary(rest, named)?;
        value = match (value, other) {
            (Said::Value(Json::String(a)), Said::Value(Json::String(b))) => Said::Value(json!(a + &b)),
            (Said::Value(a), Said::Value(b)) if a.is_i64() && b.is_i64() => {
                a.as_i64()?.checked_add(b.as_i64()?).map_or(Said::Unknown, |sum| Said::Value(json!(sum)))
            }
            _ => Said::Unknown,
        };
    }
    Some(value)
}

fn primary(rest: &mut &str, named: Named<'_>) -> Option<Said> {
    let text = rest.trim_start();
    if let Some(quoted) = text.strip_prefix('\'') {
        let (inside, behind) = quoted.split_once('\'')?;
        *rest = behind;
        return Some(Said::Value(json!(inside)));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    *rest = behind;
    if let Ok(number) = word.parse::<i64>() {
        return Some(Said::Value(json!(number)));
    }
    if behind.starts_with('.') {
        return None;
    }
    if takes(rest, "(") {
        if word != "coalesce" {
            return None;
        }
        let mut value = Said::Nothing;
        loop {
            let next = any_of(rest, named)?;
            if value == Said::Nothing {
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
        "null" => Some(Said::Nothing),
        name => Some(match named(name) {
            Said::Unreadable => Said::Nothing,
            other => other,
        }),
    }
}
