//! MARC-in-JSON (<https://github.com/marc4j/marc4j/wiki/MARC-in-JSON-Description>): one object to and from a [`MarcRecord`].

use crate::builder::MarcBuilder;
use crate::record::{MarcError, MarcRecord, show_tag};

impl MarcRecord<'_> {
    /// Reads the JSON form: `{"leader": ..., "fields": [{"001": ...}, {"245": {"ind1", "ind2", "subfields": [{"a": ...}]}}]}`.
    ///
    /// # Errors
    /// When the value has another shape.
    pub fn from_json(json: &serde_json::Value) -> Result<MarcRecord<'static>, MarcError> {
        let shape = |text: &str| MarcError::Shape(text.to_owned());
        let leader = json.get("leader").and_then(|leader| leader.as_str()).ok_or_else(|| shape("there is no \"leader\""))?;
        let mut builder = MarcBuilder::new(leader)?;
        let fields = json.get("fields").and_then(|fields| fields.as_array()).ok_or_else(|| shape("there is no \"fields\" list"))?;
        for field in fields {
            let entries = field.as_object().ok_or_else(|| shape("a field is an object"))?;
            for (tag, content) in entries {
                match content {
                    serde_json::Value::String(text) => builder.control(tag, text)?,
                    serde_json::Value::Object(parts) => {
                        let given = |name: &str| parts.get(name).and_then(|value| value.as_str());
                        let indicator = |name: &str| given(name).filter(|value| !value.is_empty()).unwrap_or(" ");
                        builder.data(tag, indicator("ind1"), indicator("ind2"))?;
                        let subfields = parts.get("subfields").and_then(|subfields| subfields.as_array());
                        for subfield in subfields.ok_or_else(|| shape("a data field has \"subfields\""))? {
                            for (code, value) in subfield.as_object().ok_or_else(|| shape("a subfield is an object"))? {
                                builder.subfield(code, value.as_str().ok_or_else(|| shape("a subfield's value is text"))?)?;
                            }
                        }
                    }
                    _ => return Err(shape("a field is text or an object")),
                }
            }
        }
        Ok(builder.finish())
    }

    /// The JSON form of [`MarcRecord::from_json`], on one line.
    pub fn to_json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let mut out = format!("{{\"leader\":{},\"fields\":[", quoted(self.leader()));
        for (index, field) in self.fields().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&format!("{{{}:", quoted(&show_tag(field.tag))));
            if field.is_control() {
                out.push_str(&format!("{}}}", quoted(field.data)));
                continue;
            }
            let [first, second] = field.indicators();
            out.push_str(&format!("{{\"ind1\":{},\"ind2\":{},\"subfields\":[", quoted(first), quoted(second)));
            for (index, (code, value)) in field.subfields().enumerate() {
                let separator = if index > 0 { "," } else { "" };
                out.push_str(&format!("{separator}{{{}:{}}}", quoted(code), quoted(value)));
            }
            out.push_str("]}}");
        }
        out.push_str("]}");
        out
    }
}
