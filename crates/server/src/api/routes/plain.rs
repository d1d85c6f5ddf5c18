//! The rows of a query as lines of text: what the query names of each row, as the original's clients print it.

use serde_json::Value as Json;

/// Which values of a row make its line.
pub struct PlainLines {
    /// The dotted names of the values.
    paths: Vec<String>,
    /// What stands between values of several names.
    separator: &'static str,
}

impl PlainLines {
    /// From a parsed query (`query_form`): the columns of `grep`, or else what identifies each row.
    pub fn new(form: &Json) -> Self {
        let is_column = |text: &&str| !text.contains(['=', '<', '>', '{', ' ']);
        let columns = form["filters"]["grep"].as_array().into_iter().flatten().filter_map(Json::as_str).filter(is_column);
        let columns: Vec<String> = columns.map(str::to_owned).collect();
        if columns.is_empty() { Self { paths: Vec::new(), separator: ", " } } else { Self { paths: columns, separator: " " } }
    }

    /// The line of a row.
    pub fn line(&self, row: &Json) -> String {
        if let (Some(function), Some(key)) = (row["function"].as_str(), row["key"].as_str()) {
            return format!("{function}({key})={}", shown(&row["result"]["value"]));
        }
        let primary = row["das"]["primary_key"].as_str().unwrap_or_default();
        let paths: Vec<&str> = if self.paths.is_empty() { vec![primary] } else { self.paths.iter().map(String::as_str).collect() };
        let cells: Vec<String> = paths.iter().map(|path| walked(row, path)).collect();
        cells.join(self.separator)
    }
}

/// The values that a dotted name has in a row, through lists; all members if they have no name.
fn walked(row: &Json, path: &str) -> String {
    fn descend<'r>(json: &'r Json, names: &[&str], found: &mut Vec<&'r Json>) {
        match (json, names) {
            (Json::Null, _) => {}
            (json, []) => found.push(json),
            (Json::Array(items), _) => items.iter().for_each(|item| descend(item, names, found)),
            (Json::Object(members), [name, rest @ ..]) => {
                if let Some(member) = members.get(*name) {
                    descend(member, rest, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    descend(row, &path.split('.').collect::<Vec<_>>(), &mut found);
    let mut texts: Vec<String> = Vec::new();
    for text in found.into_iter().map(shown) {
        // several sources mostly say the same
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join(" ")
}

fn shown(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Object(members) => members.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect::<Vec<_>>().join(", "),
        Json::Array(items) if items.iter().all(Json::is_object) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_what_the_query_names() {
        let row = json!({ "block": [{ "name": "/a/b/c#1", "size": 5 }, { "name": "/a/b/c#1", "size": 6 }], "das": { "primary_key": "block.name" } });
        assert_eq!(PlainLines::new(&json!({})).line(&row), "/a/b/c#1");
        let columns = PlainLines::new(&json!({ "filters": { "grep": ["block.name", "block.size", "block.size>4"] } }));
        assert_eq!(columns.line(&row), "/a/b/c#1 5 6");
        let total = json!({ "function": "sum", "key": "file.size", "result": { "value": 12 } });
        assert_eq!(PlainLines::new(&json!({})).line(&total), "sum(file.size)=12");
        let summary = json!({ "summary": [{ "nfiles": 2, "nevents": 9 }], "das": { "primary_key": "summary" } });
        assert_eq!(PlainLines::new(&json!({})).line(&summary), "nfiles=2, nevents=9");
        let sections = json!({ "lumi": [{ "number": [[1, 2], [5, 7]] }], "das": { "primary_key": "lumi.number" } });
        assert_eq!(PlainLines::new(&json!({})).line(&sections), "[[1,2],[5,7]]");
    }
}
