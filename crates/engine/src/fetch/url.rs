//! The path of a call with its arguments.

use super::bind::{BoundArguments, pieces, type_of};
use crate::service::http::encoded;
use stook_catalogue::definition::{ArgumentForm, Collection, ServiceCall};
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::Comparison;

/// The path of a call with its arguments, after the service's URL; `wildcard` replaces the stars of patterns.
pub fn path(collection: &Collection, call: &ServiceCall, arguments: &BoundArguments, wildcard: &str) -> String {
    let mut path = call.get.clone();
    for (position, test) in arguments.iter().filter(|(position, _)| call.args[*position].sent) {
        let arg = &call.args[*position];
        let ty = type_of(collection, arg);
        let show = |value: &Value| match (ty, value) {
            // an upper bound is rounded up, so that the range never becomes narrower
            (FieldType::Timestamp, Value::Int(micros)) if arg.epoch => {
                let rest = micros.rem_euclid(1_000_000);
                (micros.div_euclid(1_000_000) + i64::from(arg.takes == ArgumentForm::To && rest > 0)).to_string()
            }
            _ => value.show(ty),
        };
        let texts = match test {
            Comparison::Equal(value) => vec![show(value)],
            Comparison::In(values) => values.iter().map(show).collect(),
            Comparison::Range { low, high } => low.iter().chain(high).map(|(value, _)| show(value)).collect(),
            other => pieces(other).map(|pieces| pieces.join(wildcard)).into_iter().collect(),
        };
        let placeholder = format!("{{{}}}", arg.name);
        if let ([text], true) = (texts.as_slice(), path.contains(&placeholder)) {
            let is_in_path = path.find('?').is_none_or(|query| path.find(&placeholder).is_some_and(|place| place < query));
            let may_have_folders = is_in_path && arg.matches.is_some() && text.split('/').all(|folder| !matches!(folder, "" | "." | ".."));
            let shown = if may_have_folders { text.split('/').map(encoded).collect::<Vec<_>>().join("/") } else { encoded(text) };
            path = path.replace(&placeholder, &shown);
            continue;
        }
        for text in texts {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&encoded(&arg.name));
            path.push('=');
            path.push_str(&encoded(&text));
        }
    }
    path
}
