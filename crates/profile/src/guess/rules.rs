//! How a field is read: the rule of `map`, and what expressions in it need.

use super::entries::Entry;
use super::types::Conversion;
use super::{SourcePlan, ValueSource};
use crate::number::NumberForm;
use stook_catalogue::value::FieldType;

/// Constant tables of words for true and false.
pub(crate) type Lookups = Vec<(String, Vec<(String, bool)>)>;

/// The rule by which an entry gives values of a type, which may be another one than its own.
pub(crate) fn rule(entry: &Entry, ty: &FieldType, is_padded: bool, source: &mut SourcePlan, lookups: &mut Lookups) -> ValueSource {
    let path = entry.path.clone();
    if !entry.members.is_empty() {
        let members = entry.members.iter().map(|(name, path, conversion)| {
            let source = match conversion {
                Conversion::Format(format) => ValueSource::Rule(path.clone(), vec![("format", (*format).to_owned())]),
                _ => ValueSource::Path(path.clone()),
            };
            (name.clone(), source)
        });
        return ValueSource::Structs(path, members.collect());
    }
    // as text, everything is kept as it is written
    let is_own_type = ty == &entry.guess.ty || matches!(entry.guess.conversion, Conversion::Number(_)) && ty == &FieldType::Float;
    let conversion = if is_own_type { &entry.guess.conversion } else { &Conversion::Plain };
    let absent = if ty == &FieldType::Text { &[][..] } else { &entry.guess.absent };
    if absent.is_empty() {
        match conversion {
            Conversion::Plain => return ValueSource::Path(path),
            Conversion::Format(format) => return ValueSource::Rule(path, vec![("format", (*format).to_owned())]),
            Conversion::Words(spelled) => return ValueSource::Rule(path, words(spelled, is_padded, lookups)),
            Conversion::Number(_) | Conversion::Split(_) => {}
        }
    }
    let name = format!("{}_text", entry.name);
    source.lets.push((name.clone(), path));
    let trimmed = if is_padded { format!("trim({name})") } else { name.clone() };
    let (value, more) = match conversion {
        Conversion::Number(form) => (number(&trimmed, *form, ty), Vec::new()),
        Conversion::Split(separator) => (format!("split({name}, {}).map(part, trim(part))", quoted(&separator.to_string())), Vec::new()),
        Conversion::Format(format) => (name.clone(), vec![("format", (*format).to_owned())]),
        Conversion::Words(spelled) => (name.clone(), words(spelled, is_padded, lookups)),
        Conversion::Plain => (of_text(&trimmed, ty), Vec::new()),
    };
    let is_absent: Vec<String> = absent.iter().map(|token| format!("{name} == {}", quoted(token))).collect();
    let text = if is_absent.is_empty() { value } else { format!("{} ? null : {value}", is_absent.join(" || ")) };
    ValueSource::Expression(text, more)
}

/// The keywords for words that mean true and false.
fn words(spelled: &[(String, bool)], is_padded: bool, lookups: &mut Lookups) -> Vec<(&'static str, String)> {
    let known = lookups.iter().find(|(_, words)| words == spelled).map(|(name, _)| name.clone());
    let table = known.unwrap_or_else(|| {
        let base = if lookups.is_empty() { "truth".to_owned() } else { format!("truth_{}", lookups.len() + 1) };
        lookups.push((base.clone(), spelled.to_vec()));
        base
    });
    let lookup = ("lookup", table);
    if is_padded { vec![("clean", "trim".to_owned()), lookup] } else { vec![lookup] }
}

/// An expression for a number that is not written as programs write it.
fn number(text: &str, form: NumberForm, ty: &FieldType) -> String {
    let mut found = text.to_owned();
    for separator in form.grouping.characters() {
        found = format!("replace({found}, {}, '')", quoted(&separator.to_string()));
    }
    if form.has_decimal_comma {
        found = format!("replace({found}, ',', '.')");
    }
    if ty == &FieldType::Integer { format!("int({found})") } else { format!("double({found})") }
}

/// An expression for a text that is written as values of its type are.
fn of_text(text: &str, ty: &FieldType) -> String {
    match ty {
        FieldType::Integer => format!("int({text})"),
        FieldType::Float => format!("double({text})"),
        FieldType::Boolean => format!("bool({text})"),
        FieldType::Timestamp => format!("timestamp({text})"),
        FieldType::Duration => format!("duration({text})"),
        FieldType::Geometry => format!("geometry({text})"),
        _ => text.to_owned(),
    }
}

/// A text as CEL writes it.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}
