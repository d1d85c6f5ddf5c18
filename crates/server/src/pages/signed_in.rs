//! Who has signed in to the web pages of this process: a browser keeps a random number, and not the token. Sessions end when they are not used, when
//! somebody signs out, when the token is refused, and with the process.

use crate::guard::secret::{Secret, digest};
use axum::http::HeaderValue;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a session lasts that nobody uses.
const IDLE: Duration = Duration::from_secs(12 * 3_600);
/// How long a session lasts that is used.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Max sessions; then the one that was not used for longest ends.
const MAX_SESSIONS: usize = 10_000;

/// A browser that has signed in.
struct Session {
    /// What its requests to the API have as `Authorization`.
    authorization: HeaderValue,
    began: Instant,
    used: Instant,
}

impl Session {
    fn has_ended(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= IDLE || now.saturating_duration_since(self.began) >= LONGEST
    }
}

/// All sessions, by the digests of their numbers: a number cannot be found by how long a comparison takes.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

impl Sessions {
    /// Begins a session; returns its number.
    ///
    /// # Errors
    /// When the system cannot provide random bytes.
    pub fn begin(&self, authorization: HeaderValue, now: Instant) -> Result<String, getrandom::Error> {
        let number = Secret::random()?.text().trim_start_matches("stook_").to_owned();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.has_ended(now));
        if sessions.len() >= MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, session)| session.used).map(|(digest, _)| *digest);
            oldest.and_then(|digest| sessions.remove(&digest));
        }
        sessions.insert(digest(&number), Session { authorization, began: now, used: now });
        Ok(number)
    }

    /// Returns the credentials of a session that has not ended, and notes that it is used.
    pub fn authorization(&self, number: &str, now: Instant) -> Option<HeaderValue> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get_mut(&digest(number)).filter(|session| !session.has_ended(now))?;
        session.used = now;
        Some(session.authorization.clone())
    }

    /// Ends a session.
    pub fn end(&self, number: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_when_they_are_unused_too_old_ended_or_too_many() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let begin = |now| sessions.begin(HeaderValue::from_static("Bearer stook_x"), now).expect("a session");
        let first = begin(start);
        assert!(!first.contains("stook_") && first.len() > 40 && first != begin(start));
        let hours = |hours: u64| start + Duration::from_secs(3_600 * hours);
        for hour in (0..7 * 24).step_by(11) {
            assert!(sessions.authorization(&first, hours(hour)).is_some(), "{hour}");
        }
        assert!(sessions.authorization(&first, hours(7 * 24)).is_none(), "too old");
        let second = begin(start);
        assert!(sessions.authorization(&second, hours(12)).is_none(), "unused");
        let third = begin(start);
        sessions.end(&third);
        assert!(sessions.authorization(&third, start).is_none() && sessions.authorization("", start).is_none());
        let oldest = begin(start);
        for _ in 0..MAX_SESSIONS {
            begin(hours(1));
        }
        assert!(sessions.authorization(&oldest, hours(1)).is_none());
    }
}
