//! Parses the parameters of declared routes.

use super::parser::DefinitionParser;
use super::routes::RouteScope;
use crate::model::route::{BodySchema, GeneratedValue, Method, Param, ParamLocation};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::{FieldType, from_text};
use serde_json::{Map, Value as Json};

impl DefinitionParser<'_> {
    pub(super) fn params(&mut self, node: Option<&Node>, in_path: &[&str], method: Method) -> Vec<Param> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("params are a mapping from names, this is {}", node.kind_name()));
            return Vec::new();
        };
        let mut params = Vec::new();
        for (name_node, node) in entries {
            let name = name_node.text().unwrap_or_default();
            let is_valid =
                name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_valid {
                self.problem(name_node, format!("`{name}` is not a parameter: a letter, then letters, digits and _"));
                continue;
            }
            params.extend(self.param(name, node, in_path.contains(&name), method));
        }
        params
    }

    fn param(&mut self, name: &str, node: &Node, in_path: bool, method: Method) -> Option<Param> {
        let shorthand = !matches!(node.kind, NodeKind::Map(_));
        if !shorthand {
            self.section(node, "a parameter", &[keywords::PARAM])?;
        }
        let ty = if shorthand { self.field_type(node)? } else { self.required(node, "type").and_then(|node| self.field_type(node))? };
        let has_no_body = matches!(method, Method::Get | Method::Delete);
        const PLACES: [(&str, ParamLocation); 4] = [
            ("query", ParamLocation::Query),
            ("body", ParamLocation::Body),
            ("whole_body", ParamLocation::WholeBody),
            ("nowhere", ParamLocation::Nowhere),
        ];
        let location = match self.choice(node.get("in"), "place of a parameter", &PLACES) {
            _ if in_path => ParamLocation::Path,
            Some(location) => location,
            None if has_no_body => ParamLocation::Query,
            None => ParamLocation::Body,
        };
        let is_in_body = matches!(location, ParamLocation::Body | ParamLocation::WholeBody);
        if ty.element() == &FieldType::Json && (!is_in_body || ty.is_list()) {
            self.problem(node, "a parameter of type json is in the body, `in: body` or `in: whole_body`, and no list of a type");
        } else if location == ParamLocation::WholeBody && ty != FieldType::Json {
            self.problem(node, "the whole body is of type json");
        } else if ty == FieldType::Geometry {
            self.problem(node, "a parameter is not a geometry; take a text and ask for it with a query");
        }
        if location == ParamLocation::Path && ty.is_list() {
            self.problem(node, "a parameter of the path is not a list");
        }
        let generate = self.choice(node.get("generate"), "generated value", &[("uuid", GeneratedValue::Uuid), ("code", GeneratedValue::Code)]);
        let fits = match generate {
            None => location != ParamLocation::Nowhere,
            Some(GeneratedValue::Uuid) => matches!(ty, FieldType::Uuid | FieldType::Text),
            Some(GeneratedValue::Code) => ty == FieldType::Text,
        };
        if !fits {
            self.problem(node, "`generate: uuid` is for uuid and text, `generate: code` for text; `in: nowhere` needs one of them");
        }
        let schema = node.get("schema").and_then(|schema| {
            if ty != FieldType::Json {
                self.problem(schema, "a schema is for a parameter of type json");
            }
            BodySchema::compile(json_of(schema)).map_err(|error| self.problem(schema, format!("this is no JSON Schema: {error}"))).ok()
        });
        let wrong = node.get("wrong").and_then(|node| self.text_of(node, "what is said when it is wrong")).map(str::to_owned);
        let required = match node.get("required") {
            Some(node) if matches!(node.text(), Some("true" | "false")) => {
                self.boolean(Some(node), "required").then(|| format!("The parameter {name} is required."))
            }
            Some(node) => self.text_of(node, "what is said when it is missing").map(str::to_owned),
            None => None,
        };
        let default = node.get("default").and_then(|node| {
            let text = self.text_of(node, "a default")?.to_owned();
            from_text(&text, &ty, None).map_err(|error| self.problem(node, error.to_string())).ok()
        });
        let mut number = |word: &str| {
            let node = node.get(word)?;
            let number = node.text().and_then(|text| text.parse::<f64>().ok());
            if number.is_none() {
                self.problem(node, format!("{word} is a number"));
            }
            number
        };
        let (min, max) = (number("min"), number("max"));
        let one_of = self.one_of(node.get("one_of"), &ty);
        Some(Param { name: name.to_owned(), ty, location, required, wrong, default, generate, schema, one_of, min, max })
    }

    pub(super) fn param_index(&mut self, node: &Node, scope: &RouteScope<'_>) -> Option<usize> {
        let text = self.text_of(node, "params.NAME")?.to_owned();
        let Some(name) = text.strip_prefix("params.") else {
            self.problem(node, format!("expected a parameter, params.NAME, not `{text}`"));
            return None;
        };
        let found = scope.params.iter().position(|param| param.name == name);
        if found.is_none() {
            self.problem(node, format!("there is no parameter `{name}`"));
        }
        found
    }
}

/// Returns what a node of YAML means as JSON.
fn json_of(node: &Node) -> Json {
    match &node.kind {
        NodeKind::Scalar { .. } if node.is_null() => Json::Null,
        NodeKind::Scalar { text, quoted: false } => {
            serde_json::from_str(text).ok().filter(|json: &Json| !json.is_string()).unwrap_or_else(|| text.as_str().into())
        }
        NodeKind::Scalar { text, quoted: true } => text.as_str().into(),
        NodeKind::List(items) => items.iter().map(json_of).collect(),
        NodeKind::Map(entries) => {
            Json::Object(entries.iter().filter_map(|(name, value)| Some((name.text()?.to_owned(), json_of(value)))).collect::<Map<String, Json>>())
        }
    }
}
