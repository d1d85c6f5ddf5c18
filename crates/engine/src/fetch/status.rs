//! The status of a service that a query fetches from, as it is shown with the result.

use super::answer::ServiceAnswer;
use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_catalogue::value::show_timestamp;

/// The status of one source of a query, or of one call.
#[derive(Debug, Clone)]
pub struct ServiceStatus {
    /// The service's name.
    pub service: String,
    /// The source whose documents the service provides.
    pub source: String,
    /// The link through which the query reads its documents, if they are not of the query's own collection.
    pub through: Option<String>,
    /// The requested path with its arguments, after the service's URL.
    pub request: Option<String>,
    /// The conditions that were passed although the query does not have them: its result lacks records that do not satisfy these.
    pub default_arguments: Option<String>,
    /// Its answer, if there is one.
    pub answer: Option<ServiceAnswer>,
    /// Whether the answer was stored before the query.
    pub cached: bool,
    /// Why there is no answer, or why it is not complete yet.
    pub reason: Option<String>,
}

impl ServiceStatus {
    /// One of `complete`, `partial`, `failed`, `running` and `unasked`.
    pub fn state(&self) -> &'static str {
        match &self.answer {
            Some(answer) => answer.state.name(),
            None if self.request.is_some() => "running",
            None => "unasked",
        }
    }

    /// The JSON form.
    pub fn to_json(&self) -> Json {
        let mut shown = json!({ "service": self.service, "source": self.source, "state": self.state() });
        if let Some(through) = &self.through {
            shown["through"] = json!(through);
        }
        if let Some(request) = &self.request {
            shown["asked"] = json!(request);
        }
        if let Some(arguments) = &self.default_arguments {
            shown["by_default"] = json!(arguments);
        }
        if let Some(answer) = &self.answer {
            shown["cached"] = json!(self.cached);
            shown["at"] = json!(show_timestamp(answer.started));
            shown["fresh_until"] = json!(show_timestamp(answer.expires));
            shown["documents"] = json!(answer.documents);
            shown["seconds"] = json!(self.took().as_secs_f64());
            shown["jobs"] = json!(answer.jobs);
            if answer.failed > 0 {
                shown["failed"] = json!(answer.failed);
            }
            if answer.unreadable > 0 {
                shown["unreadable"] = json!(answer.unreadable);
                shown["example"] = json!(answer.example);
            }
            if answer.retired > 0 {
                shown["retired"] = json!(answer.retired);
            }
        }
        if let Some(reason) = self.reason() {
            shown["reason"] = json!(reason);
        }
        shown
    }

    /// How long fetching its answer took.
    pub fn took(&self) -> Duration {
        let micros = self.answer.as_ref().map_or(0, |answer| (answer.ended - answer.started).max(0));
        Duration::from_micros(micros as u64)
    }

    /// Why its answer is missing or not complete.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref().or_else(|| self.answer.as_ref()?.reason.as_deref())
    }
}
