//! Formats the state of services.

use crate::output::{count, seconds};
use stook_engine::fetch::ServiceStatus;

/// Formats the state of a service, with the default arguments of its call.
pub fn shown_status(status: &ServiceStatus) -> String {
    let defaults = status.default_arguments.as_ref().map_or(String::new(), |arguments| format!(" (of {arguments}, as the query says nothing else)"));
    format!("{}{defaults}", shown_state(status))
}

/// Formats the state of a service.
pub fn shown_state(status: &ServiceStatus) -> String {
    let through = status.through.as_ref().map_or(String::new(), |link| format!(", through {link}"));
    let name = format!("{} ({}{through})", status.service, status.source);
    let documents = status.answer.as_ref().map_or(0, |answer| answer.documents);
    match (status.state(), status.reason()) {
        ("complete", _) if status.cached => format!("{name}: {} from an earlier fetch{}", count(documents, "document"), unreadable(status)),
        ("complete", _) => format!("{name}: {} in {}{}", count(documents, "document"), seconds(status.took()), unreadable(status)),
        (state, Some(reason)) => format!("{name} is {state}: {reason}"),
        (state, None) => format!("{name} is {state}"),
    }
}

/// Formats the number of unreadable values of an answer.
fn unreadable(status: &ServiceStatus) -> String {
    match &status.answer {
        Some(answer) if answer.unreadable > 0 => {
            let example = answer.example.as_ref().map(|example| format!(" (the first: {example})")).unwrap_or_default();
            format!("; {} could not be read{example}", count(answer.unreadable, "value"))
        }
        _ => String::new(),
    }
}
