//! Points of the last hour, kept in memory.

use serde_json::Value as Json;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Points that are kept: an hour.
const POINTS: usize = 360;

/// Points of the last hour.
#[derive(Default)]
pub struct MetricsHistory(Mutex<VecDeque<Json>>);

impl MetricsHistory {
    /// Adds a point; the oldest is forgotten.
    pub fn push(&self, point: Json) {
        if let Ok(mut points) = self.0.lock() {
            if points.len() >= POINTS {
                points.pop_front();
            }
            points.push_back(point);
        }
    }

    /// All of them, the oldest first.
    pub fn points(&self) -> Vec<Json> {
        self.0.lock().map(|points| points.iter().cloned().collect()).unwrap_or_default()
    }
}
