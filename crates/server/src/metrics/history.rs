//! Points of the last hour, kept in memory.

use serde_json::Value as Json;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Max points: an hour at one every ten seconds.
const MAX_POINTS: usize = 360;

/// The points of the last hour.
#[derive(Default)]
pub struct MetricsHistory(Mutex<VecDeque<Json>>);

impl MetricsHistory {
    /// Adds a point; removes the oldest if there are too many.
    pub fn push(&self, point: Json) {
        if let Ok(mut points) = self.0.lock() {
            if points.len() >= MAX_POINTS {
                points.pop_front();
            }
            points.push_back(point);
        }
    }

    /// Returns all points, oldest first.
    pub fn points(&self) -> Vec<Json> {
        self.0.lock().map(|points| points.iter().cloned().collect()).unwrap_or_default()
    }
}
