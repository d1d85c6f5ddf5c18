//! Paths into documents, in the standard language of each format.

use crate::marcspec::{FieldSpec, MarcSpec};
use crate::xpath::XPath;
use serde_json_path::JsonPath;

/// The path language of a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathLanguage {
    /// MARCspec.
    Marc,
    /// JSONPath, RFC 9535.
    Json,
    /// XPath 1.0.
    Xml,
    /// A column name.
    Csv,
}

impl PathLanguage {
    /// Returns the language's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            PathLanguage::Marc => "MARCspec",
            PathLanguage::Json => "JSONPath",
            PathLanguage::Xml => "XPath",
            PathLanguage::Csv => "column name",
        }
    }
}

/// A compiled path.
#[derive(Debug, Clone)]
pub enum Path {
    /// Into a MARC record.
    Marc(MarcSpec),
    /// Into one field of a MARC record.
    MarcField(FieldSpec),
    /// Into a JSON value, with member names only: `$.a.b`.
    JsonMembers(Vec<String>),
    /// Into a JSON value, any other path.
    Json(JsonPath),
    /// Into an XML element; an expression whose result is not a node set gives one value.
    Xml(XPath),
    /// A column of a CSV row.
    Column(String),
}

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// The byte position of the error.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

impl Path {
    /// Compiles `text` in `language`; `namespaces` binds the prefixes of XPath.
    ///
    /// # Errors
    /// When the text is not a path of that language.
    pub fn compile(text: &str, language: PathLanguage, namespaces: &[(String, String)]) -> Result<Self, PathError> {
        match language {
            PathLanguage::Marc => MarcSpec::parse(text).map(Path::Marc).map_err(|error| PathError { at: error.at, message: error.message }),
            PathLanguage::Json => match JsonPath::parse(text) {
                Ok(path) => Ok(member_names(text).map_or(Path::Json(path), Path::JsonMembers)),
                Err(error) => Err(PathError { at: error.position(), message: error.message().to_owned() }),
            },
            PathLanguage::Xml => XPath::parse(text, namespaces).map(Path::Xml).map_err(|error| PathError { at: error.at, message: error.message }),
            PathLanguage::Csv => Ok(Path::Column(text.to_owned())),
        }
    }
}

impl Path {
    /// Compiles a path that starts from what another path found: from a field of a MARC record, from a value inside JSON, from an element of XML.
    ///
    /// # Errors
    /// When the text is not such a path.
    pub fn compile_inside(text: &str, language: PathLanguage, namespaces: &[(String, String)]) -> Result<Self, PathError> {
        match language {
            PathLanguage::Marc => FieldSpec::parse(text).map(Path::MarcField).map_err(|error| PathError { at: error.at, message: error.message }),
            PathLanguage::Json | PathLanguage::Xml | PathLanguage::Csv => Self::compile(text, language, namespaces),
        }
    }
}

/// Returns the names of a JSONPath that has member names only; most have, and need no general evaluator.
fn member_names(path: &str) -> Option<Vec<String>> {
    let names = path.strip_prefix("$.")?;
    let plain = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    names.split('.').map(|name| plain(name).then(|| name.to_owned())).collect()
}
