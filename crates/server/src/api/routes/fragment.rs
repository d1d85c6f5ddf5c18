//! Parts of responses of declared routes, which are written as text once, at the end. Building them from JSON values would copy every name, and parse
//! values that records keep as text.

use serde_json::Value as Json;
use std::fmt::Write as _;
use std::sync::Arc;

/// A part of a response. Names are borrowed from the definition, and values that records keep as text stay text.
#[derive(Clone)]
pub enum JsonFragment<'l> {
    /// Values.
    Json(Json),
    /// JSON text.
    Text(Box<str>),
    /// A list.
    Array(Arc<[JsonFragment<'l>]>),
    /// Values by name.
    Object(Arc<[(&'l str, JsonFragment<'l>)]>),
}

impl JsonFragment<'_> {
    /// Null.
    pub const NULL: Self = JsonFragment::Json(Json::Null);

    /// Whether an include found nothing.
    pub fn is_nothing(&self) -> bool {
        match self {
            JsonFragment::Json(json) => json.is_null(),
            JsonFragment::Array(items) => items.is_empty(),
            JsonFragment::Text(_) | JsonFragment::Object(_) => false,
        }
    }

    fn member(&self, name: &str) -> Self {
        match self {
            JsonFragment::Object(members) => members.iter().find(|(known, _)| *known == name).map_or(Self::NULL, |(_, value)| value.clone()),
            JsonFragment::Array(_) => Self::NULL,
            JsonFragment::Json(json) => JsonFragment::Json(json.get(name).cloned().unwrap_or_default()),
            JsonFragment::Text(_) => JsonFragment::Json(self.json().get(name).cloned().unwrap_or_default()),
        }
    }

    /// Returns the value at a path of member names.
    pub fn at_path(self, path: &[String]) -> Self {
        path.iter().fold(self, |shown, name| shown.member(name))
    }

    /// Converts it to JSON values.
    pub fn json(&self) -> Json {
        match self {
            JsonFragment::Json(json) => json.clone(),
            JsonFragment::Text(text) => serde_json::from_str(text).unwrap_or_default(),
            JsonFragment::Array(items) => items.iter().map(JsonFragment::json).collect(),
            JsonFragment::Object(members) => members.iter().map(|(name, value)| ((*name).to_owned(), value.json())).collect(),
        }
    }

    /// Converts it to JSON text.
    pub fn text(&self) -> String {
        let mut out = String::with_capacity(1_024);
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) {
        match self {
            JsonFragment::Json(json) => {
                let _ = write!(out, "{json}");
            }
            JsonFragment::Text(text) => out.push_str(text),
            JsonFragment::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    item.write(out);
                }
                out.push(']');
            }
            JsonFragment::Object(members) => {
                for (index, (name, value)) in members.iter().enumerate() {
                    out.push(if index == 0 { '{' } else { ',' });
                    if name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                        let _ = write!(out, "\"{name}\":");
                    } else {
                        let _ = write!(out, "{}:", Json::from(*name));
                    }
                    value.write(out);
                }
                out.push_str(if members.is_empty() { "{}" } else { "}" });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fragments_are_written_as_valid_json_whatever_their_names_and_texts() {
        let inner = JsonFragment::Object(
            [("plain_1", JsonFragment::Json(json!("a\"b"))), ("a \"b\\\n", JsonFragment::Text(r#"{"x":[1,2.50]}"#.into()))].into(),
        );
        let whole = JsonFragment::Object(
            [("rows", JsonFragment::Array([inner.clone(), JsonFragment::NULL].into())), ("none", JsonFragment::Object([].into()))].into(),
        );
        let parsed: Json = serde_json::from_str(&whole.text()).expect("JSON");
        assert_eq!(parsed, whole.json());
        assert_eq!(parsed, json!({ "rows": [{ "plain_1": "a\"b", "a \"b\\\n": { "x": [1, 2.5] } }, null], "none": {} }));
        assert_eq!(inner.member("a \"b\\\n").member("x").json(), json!([1, 2.5]));
        assert!(whole.member("rows").member("x").is_nothing() && JsonFragment::Array([].into()).is_nothing() && !inner.is_nothing());
    }
}
