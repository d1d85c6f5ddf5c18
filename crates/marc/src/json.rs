//! MARC-in-JSON (<https://github.com/marc4j/marc4j/wiki/MARC-in-JSON-Description>): one object to and from a [`MarcRecord`]. The older
//! form in which fields are lists, `["245", "1", "0", [["a", "Title"]]]`, is read, too; a reader that repairs also reads the form in which
//! tags and codes are members, `{"tag": "245", "subfields": [{"code": "a", "value": "Title"}]}`.

use crate::builder::MarcBuilder;
use crate::draft::Draft;
use crate::record::{MarcError, MarcRecord, show_tag};
use crate::repair::{ReadOptions, RepairKind, Repairs};
use serde_json::{Map, Value};
use std::borrow::Cow;

impl MarcRecord<'_> {
    /// Reads the JSON form: `{"leader": ..., "fields": [{"001": ...}, {"245": {"ind1", "ind2", "subfields": [{"a": ...}]}}]}`, or the
    /// older one: `{"leader": ..., "fields": [["001", ...], ["245", "1", "0", [["a", ...]]]]}`.
    ///
    /// # Errors
    /// When the value has another shape.
    pub fn from_json(json: &Value) -> Result<MarcRecord<'static>, MarcError> {
        let shape = |text: &str| MarcError::Shape(text.to_owned());
        let text = |value: &Value, what: &str| value.as_str().map(str::to_owned).ok_or_else(|| shape(what));
        let leader = json.get("leader").and_then(Value::as_str).ok_or_else(|| shape("there is no \"leader\""))?;
        let mut builder = MarcBuilder::new(leader)?;
        let fields = json.get("fields").and_then(Value::as_array).ok_or_else(|| shape("there is no \"fields\" list"))?;
        for field in fields {
            if let Value::Array(parts) = field {
                match parts.as_slice() {
                    [tag, value] => builder.control(&text(tag, "a tag is text")?, &text(value, "a control field is text")?)?,
                    [tag, first, second, Value::Array(subfields)] => {
                        let [first, second] = [first, second].map(|value| value.as_str().filter(|value| !value.is_empty()).unwrap_or(" "));
                        builder.data(&text(tag, "a tag is text")?, first, second)?;
                        for subfield in subfields {
                            let Some([code, value]) = subfield.as_array().map(Vec::as_slice) else {
                                return Err(shape("a subfield is a list of a code and a value"));
                            };
                            builder.subfield(&text(code, "a subfield code is text")?, &text(value, "a subfield's value is text")?)?;
                        }
                    }
                    _ => return Err(shape("a field is a list of two or four")),
                }
                continue;
            }
            let entries = field.as_object().ok_or_else(|| shape("a field is an object"))?;
            for (tag, content) in entries {
                match content {
                    Value::String(text) => builder.control(tag, text)?,
                    Value::Object(parts) => {
                        let given = |name: &str| parts.get(name).and_then(Value::as_str);
                        let indicator = |name: &str| given(name).filter(|value| !value.is_empty()).unwrap_or(" ");
                        builder.data(tag, indicator("ind1"), indicator("ind2"))?;
                        let subfields = parts.get("subfields").and_then(Value::as_array);
                        for subfield in subfields.ok_or_else(|| shape("a data field has \"subfields\""))? {
                            for (code, value) in subfield.as_object().ok_or_else(|| shape("a subfield is an object"))? {
                                builder.subfield(code, &text(value, "a subfield's value is text")?)?;
                            }
                        }
                    }
                    _ => return Err(shape("a field is text or an object")),
                }
            }
        }
        Ok(builder.finish())
    }

    /// Reads the JSON forms as the options say, and adds what was repaired to `repairs`. Encodings do not matter here.
    ///
    /// # Errors
    /// Those of [`MarcRecord::from_json`] if nothing may be repaired; else when there are no fields.
    pub fn read_json(json: &Value, options: &ReadOptions, repairs: &mut Repairs) -> Result<MarcRecord<'static>, MarcError> {
        let strict = Self::from_json(json);
        if strict.is_ok() || !options.repairs() {
            return strict;
        }
        let mut draft = Draft::new(repairs);
        let Some(fields) = json.get("fields").filter(|fields| fields.is_array() || fields.is_object()) else { return strict };
        if let Some(leader) = json.get("leader").and_then(Value::as_str) {
            draft.leader(leader, None);
        }
        match fields {
            Value::Object(entries) => entries.iter().for_each(|(tag, content)| read_named_field(tag, content, &mut draft)),
            other => other.as_array().into_iter().flatten().for_each(|field| read_field(field, &mut draft)),
        }
        Ok(draft.finish())
    }

    /// The JSON form of [`MarcRecord::from_json`], on one line. Text that stands in no subfield is written as a subfield `a`.
    pub fn to_json(&self) -> String {
        self.to_nearest_json(&mut Repairs::default())
    }

    /// The same; what the form cannot hold is brought into another, which is added to `repairs`.
    pub fn to_nearest_json(&self, repairs: &mut Repairs) -> String {
        let record = self.tidied(repairs);
        let quoted = |text: &str| Value::from(text).to_string();
        let mut out = format!("{{\"leader\":{},\"fields\":[", quoted(record.leader()));
        for (index, field) in record.fields().enumerate() {
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

/// A value as text: numbers and words as they are written, nothing for what has parts.
fn read_text<'v>(value: &'v Value, draft: &mut Draft<'_>) -> Cow<'v, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => {
            draft.report(RepairKind::Value, "a value that is null was read as empty text");
            Cow::Borrowed("")
        }
        other => {
            draft.report(RepairKind::Value, "a value that is not text was read as it is written");
            Cow::Owned(other.to_string())
        }
    }
}

/// A field in any of the forms.
fn read_field(field: &Value, draft: &mut Draft<'_>) {
    match field {
        Value::Object(entries) if entries.len() > 1 && entries.get("tag").is_some_and(Value::is_string) => read_tagged_field(entries, draft),
        Value::Object(entries) => entries.iter().for_each(|(tag, content)| read_named_field(tag, content, draft)),
        Value::Array(parts) => match parts.as_slice() {
            [tag, first, second, Value::Array(subfields)] => {
                if draft.data(tag.as_str(), [first.as_str(), second.as_str()], None) {
                    subfields.iter().for_each(|subfield| read_subfield(subfield, draft));
                }
            }
            [tag, Value::Array(subfields)] => {
                if draft.data(tag.as_str(), [None, None], None) {
                    subfields.iter().for_each(|subfield| read_subfield(subfield, draft));
                }
            }
            [tag, value] => {
                let text = read_text(value, draft).into_owned();
                draft.control(tag.as_str(), &text, None);
            }
            _ => draft.repairs.add(RepairKind::Foreign, None, None, "a list that is no field was left out"),
        },
        _ => draft.repairs.add(RepairKind::Foreign, None, None, "a value that is no field was left out"),
    }
}

/// A field that names its tag and its codes as members: `{"tag": "245", "ind1": "1", "ind2": "0", "subfields": [{"code": "a", "value":
/// "Title"}]}`, and `{"tag": "001", "value": "n1"}`. Fields of MARC-in-JSON have one member each.
fn read_tagged_field(entries: &Map<String, Value>, draft: &mut Draft<'_>) {
    let text = |name: &str| entries.get(name).and_then(Value::as_str);
    match (entries.get("subfields"), entries.get("value")) {
        (None, Some(value)) => {
            let value = read_text(value, draft).into_owned();
            draft.control(text("tag"), &value, None);
        }
        (subfields, value) => {
            if !draft.data(text("tag"), [text("ind1"), text("ind2")], None) {
                return;
            }
            match subfields.and_then(Value::as_array) {
                Some(subfields) => subfields.iter().for_each(|subfield| read_tagged_subfield(subfield, draft)),
                None => draft.report(RepairKind::Value, "the field has no list of subfields; it was read as empty"),
            }
            if let Some(value) = value {
                let value = read_text(value, draft);
                draft.loose(&value);
            }
        }
    }
    report_other_members(entries, &["tag", "ind1", "ind2", "subfields", "value"], draft);
}

fn read_tagged_subfield(subfield: &Value, draft: &mut Draft<'_>) {
    let Some((entries, code)) = subfield.as_object().and_then(|entries| Some((entries, entries.get("code")?.as_str()?))) else {
        return read_subfield(subfield, draft);
    };
    let value = entries.get("value").map_or(Cow::Borrowed(""), |value| read_text(value, draft));
    draft.subfield(Some(code), &value);
    report_other_members(entries, &["code", "value"], draft);
}

/// Names the members of an object that belong to no field.
fn report_other_members(entries: &Map<String, Value>, known: &[&str], draft: &mut Draft<'_>) {
    for name in entries.keys().filter(|name| !known.contains(&name.as_str())) {
        draft.report(RepairKind::Foreign, format!("the member `{}` was left out", name.escape_debug()));
    }
}

fn read_named_field(tag: &str, content: &Value, draft: &mut Draft<'_>) {
    match content {
        Value::Object(parts) => {
            let indicator = |name: &str| parts.get(name).and_then(Value::as_str);
            if !draft.data(Some(tag), [indicator("ind1"), indicator("ind2")], None) {
                return;
            }
            match parts.get("subfields") {
                Some(Value::Array(subfields)) => subfields.iter().for_each(|subfield| read_subfield(subfield, draft)),
                Some(entries @ Value::Object(_)) => read_subfield(entries, draft),
                _ => draft.report(RepairKind::Value, "the field has no list of subfields; it was read as empty"),
            }
            report_other_members(parts, &["ind1", "ind2", "subfields"], draft);
        }
        // several fields of one tag
        Value::Array(contents) => contents.iter().filter(|content| !content.is_array()).for_each(|content| read_named_field(tag, content, draft)),
        other => {
            let text = read_text(other, draft).into_owned();
            draft.control(Some(tag), &text, None);
        }
    }
}

fn read_subfield(subfield: &Value, draft: &mut Draft<'_>) {
    match subfield {
        Value::Object(entries) => {
            for (code, value) in entries {
                let text = read_text(value, draft);
                draft.subfield(Some(code), &text);
            }
        }
        Value::Array(parts) => match parts.as_slice() {
            [code, value] => {
                let text = read_text(value, draft);
                draft.subfield(code.as_str(), &text);
            }
            _ => draft.report(RepairKind::Foreign, "a list that is no subfield was left out"),
        },
        other => {
            let text = read_text(other, draft);
            draft.loose(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LEADER: &str = "00000nam a2200000 i 4500";

    #[test]
    fn fields_may_be_lists() {
        let older = json!({"type": "marc-hash", "version": [1, 0], "leader": LEADER,
            "fields": [["001", "x1"], ["245", "1", "0", [["a", "Title"], ["b", "rest"]]]]});
        let newer = json!({"leader": LEADER,
            "fields": [{"001": "x1"}, {"245": {"ind1": "1", "ind2": "0", "subfields": [{"a": "Title"}, {"b": "rest"}]}}]});
        assert_eq!(MarcRecord::from_json(&older).map(|record| record.to_json()), Ok(newer.to_string()));
        assert_eq!(MarcRecord::from_json(&newer).map(|record| record.to_json()), Ok(newer.to_string()));
    }

    #[test]
    fn other_shapes_are_repaired() {
        let given = json!({"fields": [{"001": 17}, {"005": {"subfields": [{"a": "2020"}]}}, {"245": "Title"}, 7, {"": "x"},
            {"24510": {"subfields": [{"": "T"}, "loose", {"c": null}]}}, ["500", " ", "é", [["ab", "x"]]], {"650": {"ind1": "1", "ind2": ""}}]});
        let mut repairs = Repairs::default();
        let record = MarcRecord::read_json(&given, &ReadOptions::REPAIR, &mut repairs).expect("fields");
        let data: Vec<_> = record.fields().map(|field| (show_tag(field.tag), field.data)).collect();
        let expected = [
            ("001", "17"),
            ("005", "2020"),
            ("245", "  \u{1f}aTitle"),
            ("245", "10\u{1f}aT\u{1f}aloose\u{1f}c"),
            ("500", "  \u{1f}ax"),
            ("650", "1 "),
        ];
        assert_eq!(data, expected.map(|(tag, data)| (tag.to_owned(), data)));
        use RepairKind::{ControlField, DataField, Foreign, Indicator, Leader, LongTag, NoSubfield, SubfieldCode, Tag, Value};
        for kind in [ControlField, DataField, Foreign, Indicator, Leader, LongTag, NoSubfield, SubfieldCode, Tag, Value] {
            assert!(repairs.has(kind), "{kind:?}");
        }
        assert!(MarcRecord::read_json(&given, &ReadOptions::STRICT, &mut repairs).is_err());
        assert!(MarcRecord::read_json(&json!([1]), &ReadOptions::REPAIR, &mut repairs).is_err());
    }
}
