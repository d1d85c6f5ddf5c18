//! What became of a service that a query needs, as it is shown with the result.

use super::answer::ServiceAnswer;
use serde_json::{Value as Json, json};
use std::time::Duration;
use stook_catalogue::value::show_timestamp;

/// What a service had to say to a query.
#[derive(Debug, Clone)]
pub struct ServiceStatus {
    /// The service's name.
    pub service: String,
    /// The source whose documents it gives.
    pub source: String,
    /// The link through which the query reads its documents, if they are not of the query's own collection.
    pub through: Option<String>,
    /// What it was asked, after its URL.
    pub request: Option<String>,
    /// What it was told that the query does not say: records of which that does not hold are not among its answer.
    pub default_arguments: Option<String>,
    /// Its answer, if there is one.
    pub answer: Option<ServiceAnswer>,
    /// Whether that was here before.
    pub cached: bool,
    /// Why there is none, or why it is still on its way.
    pub reason: Option<String>,
}

impl ServiceStatus {
    /// complete, partial, failed, running, or unasked.
    pub fn state(&self) -> &'static str {
        match &self.answer {
            Some(answer) => answer.state.name(),
            None if self.request.is_some() => "running",
            None => "unasked",
        }
    }

    /// As it is shown.
    pub fn to_json(&self) -> Json {
        let mut shown = json!({ "service": self.service, "source": self.source, "state": self.state() });
        if let Some(through) = &self.through {
            shown["through"] = json!(through);
        }
        if let Some(asked) = &self.request {
            shown["asked"] = json!(asked);
        }
        if let Some(told) = &self.default_arguments {
            shown["by_default"] = json!(told);
        }
        if let Some(answer) = &self.answer {
            shown["cached"] = json!(self.cached);
            shown["at"] = json!(show_timestamp(answer.begun));
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

    /// How long its answer took.
    pub fn took(&self) -> Duration {
        let micros = self.answer.as_ref().map_or(0, |answer| (answer.ended - answer.begun).max(0));
        Duration::from_micros(micros as u64)
    }

    /// Why its answer is not complete, or not here.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref().or_else(|| self.answer.as_ref()?.reason.as_deref())
    }
}
