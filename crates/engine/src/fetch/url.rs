//! The path of a call with its arguments, and those of its further pages.

use super::bind::{BoundArguments, pieces, type_of};
use crate::service::http::encoded;
use stook_catalogue::definition::{ArgumentForm, Collection, ServiceCall};
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::Comparison;

/// The path of a call with its arguments, after the service's URL; `wildcard` replaces the stars of patterns.
pub fn path(collection: &Collection, call: &ServiceCall, arguments: &BoundArguments, wildcard: &str) -> String {
    let mut path = call.get.clone();
    for (position, test) in arguments {
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
            path = path.replace(&placeholder, &encoded(text));
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

/// A URL with additional arguments.
pub(super) fn with_arguments(url: &str, arguments: &[(&String, &str)]) -> String {
    let mut url = url.to_owned();
    for (name, value) in arguments {
        url.push(if url.contains('?') { '&' } else { '?' });
        url.push_str(&format!("{}={}", encoded(name), encoded(value)));
    }
    url
}

/// In OAI-PMH, a request with a resumption token has no other argument than the verb.
pub(super) fn with_verb_only(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    query.split('&').find(|part| part.starts_with("verb=")).map_or(path.to_owned(), |verb| format!("{path}?{verb}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_added_or_left_out() {
        assert_eq!(with_verb_only("http://a/oai?verb=ListRecords&from=2"), "http://a/oai?verb=ListRecords");
        assert_eq!(with_arguments("http://a/oai?verb=L", &[(&"token".to_owned(), "a&b c")]), "http://a/oai?verb=L&token=a%26b%20c");
    }
}
