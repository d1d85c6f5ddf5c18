//! Requests with parameters drawn at random from files.

use crate::{LabError, Result};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;
use stook_sample::random::Random;

/// Max bytes of a file with values.
const MAX_FILE: u64 = 1 << 30;

/// A named list of values.
#[derive(Debug, Clone)]
pub struct TemplateParameter {
    /// The name in braces.
    pub name: String,
    /// Its possible values.
    pub values: Arc<[String]>,
}

/// A text with parameters in braces.
#[derive(Debug, Clone)]
pub struct RequestTemplate {
    /// Literal texts, each with the parameter that follows.
    pieces: Vec<(String, Option<usize>)>,
    percent_encodes: bool,
}

impl RequestTemplate {
    /// Compiles a template. Values are percent-encoded in paths, and escaped as JSON texts in bodies.
    ///
    /// # Errors
    /// When a parameter is unknown, or a brace is never closed.
    pub fn new(text: &str, parameters: &[TemplateParameter], percent_encodes: bool) -> Result<Self> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, tail)) = rest.split_once('{') {
            // braces without a name are text, because JSON bodies have braces, too
            let name =
                tail.split_once('}').filter(|(name, _)| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            let Some((name, after)) = name else {
                pieces.push((format!("{before}{{"), None));
                rest = tail;
                continue;
            };
            let Some(index) = parameters.iter().position(|parameter| parameter.name == name) else {
                let known: Vec<&str> = parameters.iter().map(|parameter| parameter.name.as_str()).collect();
                let known = if known.is_empty() { "there are none".into() } else { format!("there are {}", known.join(", ")) };
                return Err(LabError::Plan(format!("{text}: there is no parameter `{name}`; {known}")));
            };
            pieces.push((before.to_owned(), Some(index)));
            rest = after;
        }
        pieces.push((rest.to_owned(), None));
        Ok(Self { pieces, percent_encodes })
    }

    /// Appends the text with randomly drawn values.
    pub fn fill(&self, parameters: &[TemplateParameter], random: &mut Random, out: &mut Vec<u8>) {
        for (text, parameter) in &self.pieces {
            out.extend_from_slice(text.as_bytes());
            let Some(parameter) = parameter.map(|index| &parameters[index]) else { continue };
            let value = random.one(&parameter.values);
            if self.percent_encodes { encode(value, out) } else { escape(value, out) }
        }
    }
}

/// Appends a percent-encoded text.
pub(super) fn encode(value: &str, out: &mut Vec<u8>) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

fn escape(value: &str, out: &mut Vec<u8>) {
    let quoted = Json::from(value).to_string();
    out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
}

/// Reads the values of `FILE` or `FILE#MEMBER`: a JSON array of values or of objects, an object of arrays by member, NDJSON, or CSV with a header.
///
/// # Errors
/// When the file cannot be read, or has no values there.
pub fn values(written: &str, folder: &Path) -> Result<Arc<[String]>> {
    let (file, member) = written.rsplit_once('#').map_or((written, None), |(file, member)| (file, Some(member)));
    let path = folder.join(file);
    let failed = |error| LabError::File(path.display().to_string(), error);
    if std::fs::metadata(&path).map_err(failed)?.len() > MAX_FILE {
        return Err(LabError::Plan(format!("{}: values have at most 1 GiB", path.display())));
    }
    let text = std::fs::read_to_string(&path).map_err(failed)?;
    let found = match path.extension().and_then(|ending| ending.to_str()) {
        Some("csv") => column(&text, member),
        Some("json") => serde_json::from_str::<Json>(&text).map_err(|error| error.to_string()).map(|json| values_of_json(&json, member)),
        _ => text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(|line| match serde_json::from_str::<Json>(line) {
                Ok(json @ (Json::Object(_) | Json::String(_))) => Ok(values_of_json(&Json::Array(vec![json]), member)),
                _ if member.is_none() => Ok(vec![line.trim().to_owned()]),
                _ => Err(format!("a line is no JSON object: {line}")),
            })
            .collect::<std::result::Result<Vec<_>, _>>()
            .map(|all| all.into_iter().flatten().collect()),
    };
    let found = found.map_err(|error| LabError::Plan(format!("{}: {error}", path.display())))?;
    if found.is_empty() {
        return Err(LabError::Plan(format!("{written}: there are no values; FILE#MEMBER says which member or column they are in")));
    }
    Ok(found.into())
}

fn values_of_json(json: &Json, member: Option<&str>) -> Vec<String> {
    let scalar = |json: &Json| match json {
        Json::String(text) => Some(text.clone()),
        Json::Number(_) | Json::Bool(_) => Some(json.to_string()),
        _ => None,
    };
    match (json, member) {
        (Json::Object(entries), Some(member)) => entries.get(member).map(|inner| values_of_json(inner, None)).unwrap_or_default(),
        (Json::Array(items), Some(member)) => items.iter().filter_map(|item| item.get(member)).filter_map(scalar).collect(),
        (Json::Array(items), None) => items.iter().filter_map(scalar).collect(),
        (value, None) => scalar(value).into_iter().collect(),
        _ => Vec::new(),
    }
}

fn column(text: &str, member: Option<&str>) -> std::result::Result<Vec<String>, String> {
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let column_index = match member {
        None => 0,
        Some(member) => {
            let header = rows.headers().map_err(|error| error.to_string())?;
            header.iter().position(|name| name == member).ok_or_else(|| format!("there is no column `{member}`"))?
        }
    };
    let cell = |row: csv::Result<csv::StringRecord>| row.map(|row| row.get(column_index).unwrap_or_default().to_owned());
    rows.records().map(cell).collect::<csv::Result<Vec<_>>>().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_drawn_encoded_and_escaped() {
        let parameters = [TemplateParameter { name: "id".into(), values: Arc::from(["a/b \"c\"".to_owned()]) }];
        let filled = |text: &str, percent_encodes: bool| {
            let mut out = Vec::new();
            RequestTemplate::new(text, &parameters, percent_encodes).expect("a template").fill(&parameters, &mut Random::new(1), &mut out);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(filled("/x/{id}?q={id}", true), "/x/a%2Fb%20%22c%22?q=a%2Fb%20%22c%22");
        assert_eq!(filled("{\"a\": \"{id}\", \"b\": {}}", false), "{\"a\": \"a/b \\\"c\\\"\", \"b\": {}}");
        assert!(RequestTemplate::new("/{nobody}", &parameters, true).is_err());
    }

    #[test]
    fn values_come_from_json_csv_and_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        put("a.json", "[1, \"x\", true]");
        put("b.json", "{\"ids\": [\"p\", \"q\"]}");
        put("c.ndjson", "{\"k\": \"1\"}\n\n{\"k\": 2}\n");
        put("d.csv", "a,b\n1,\"x,y\"\n2,z\n");
        put("e.txt", "one\ntwo\n");
        let read = |written: &str| values(written, folder.path()).map(|found| found.join("|"));
        assert_eq!(read("a.json").expect("values"), "1|x|true");
        assert_eq!(read("b.json#ids").expect("values"), "p|q");
        assert_eq!(read("c.ndjson#k").expect("values"), "1|2");
        assert_eq!(read("d.csv#b").expect("values"), "x,y|z");
        assert_eq!(read("d.csv").expect("values"), "1|2");
        assert_eq!(read("e.txt").expect("values"), "one|two");
        assert!(read("d.csv#c").is_err() && read("nothing.json").is_err() && read("b.json").is_err());
    }
}
