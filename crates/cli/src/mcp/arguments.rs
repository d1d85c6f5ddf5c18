//! The arguments of a tool. A tool must read every argument before it calls [`ToolArguments::end`], which refuses the others.

use serde_json::{Map, Value as Json};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::key::Key;

/// What a tool returns, or in words why it cannot.
pub type ToolResult<T = Json> = Result<T, String>;

/// The arguments of a call.
pub struct ToolArguments {
    sent: Map<String, Json>,
    read: Vec<&'static str>,
}

impl ToolArguments {
    pub fn new(sent: Map<String, Json>) -> Self {
        Self { sent, read: Vec::new() }
    }

    fn take(&mut self, name: &'static str) -> Option<Json> {
        self.read.push(name);
        self.sent.remove(name).filter(|value| !value.is_null())
    }

    /// A text, if it is given.
    pub fn text(&mut self, name: &'static str) -> ToolResult<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::String(text)) if text.contains('\0') => Err(format!("{name}: a text has no NUL character")),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("{name}: expected a text, this is {other}")),
        }
    }

    /// A text that must be given.
    pub fn required(&mut self, name: &'static str) -> ToolResult<String> {
        self.text(name)?.ok_or_else(|| format!("{name} is missing"))
    }

    /// A key of a record.
    pub fn key(&mut self) -> ToolResult<Key> {
        Key::new(self.required("key")?).map_err(|error| format!("key: {error}"))
    }

    /// A list of keys; empty if it is not given.
    pub fn keys(&mut self, name: &'static str, max: usize) -> ToolResult<Vec<Key>> {
        let texts = self.texts(name, max)?.unwrap_or_default();
        texts.into_iter().map(|text| Key::new(text).map_err(|error| format!("{name}: {error}"))).collect()
    }

    /// A list of texts, if it is given.
    pub fn texts(&mut self, name: &'static str, max: usize) -> ToolResult<Option<Vec<String>>> {
        let Some(sent) = self.take(name) else { return Ok(None) };
        let wrong = || format!("{name}: expected a list of at most {max} texts");
        let Json::Array(items) = sent else { return Err(wrong()) };
        if items.len() > max {
            return Err(wrong());
        }
        items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect::<Result<_, _>>().map(Some)
    }

    /// A whole number from `min` to `max`, if it is given.
    pub fn number(&mut self, name: &'static str, min: u64, max: u64) -> ToolResult<Option<u64>> {
        let Some(sent) = self.take(name) else { return Ok(None) };
        let whole = sent.as_u64().or_else(|| sent.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64));
        let number = whole.filter(|number| (min..=max).contains(number));
        number.map(Some).ok_or_else(|| format!("{name}: expected a whole number from {min} to {max}, this is {sent}"))
    }

    /// An object; empty if it is not given.
    pub fn object(&mut self, name: &'static str) -> ToolResult<Map<String, Json>> {
        match self.take(name) {
            None => Ok(Map::new()),
            Some(Json::Object(members)) => Ok(members),
            Some(other) => Err(format!("{name}: expected an object, this is {other}")),
        }
    }

    /// Whether something is so; false if it is not given.
    pub fn flag(&mut self, name: &'static str) -> ToolResult<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Json::Bool(flag)) => Ok(flag),
            Some(other) => Err(format!("{name}: expected true or false, this is {other}")),
        }
    }

    /// Refuses arguments that the tool does not have.
    pub fn end(self) -> ToolResult<()> {
        let Some(name) = self.sent.keys().next() else { return Ok(()) };
        Err(format!("there is no argument {name:?}; {}", known_instead(name, self.read.iter().copied())))
    }
}
