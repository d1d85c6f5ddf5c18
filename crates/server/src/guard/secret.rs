//! Secrets of tokens: how they are made, how they are sent, and until when they are valid.

use crate::guard::request::percent_decoded;
use base64::Engine;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};
use stook_catalogue::value::duration_from_text;
use stook_catalogue::value::time::timestamp_from_text;

/// The longest time after which a token may expire: a hundred years, in microseconds.
const MAX_LIFE: i64 = 100 * 365 * 86_400_000_000;

/// A secret of 256 random bits. Only its SHA-256 digest is stored.
pub struct Secret(String);

impl Secret {
    /// Makes one.
    ///
    /// # Errors
    /// When the system cannot provide random bytes.
    pub fn random() -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        Ok(Self(format!("stook_{}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(random))))
    }

    /// The secret as it is sent.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn digest(&self) -> [u8; 32] {
        digest(&self.0)
    }
}

/// What is stored of a secret.
pub fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The time on this machine's clock, in microseconds since 1970.
pub fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as i64)
}

/// Reads when a token is to expire: after a time such as `90d` or `12h`, or at one such as `2027-01-01T00:00:00Z`.
///
/// # Errors
/// What is expected, if it is neither, or not in the future.
pub fn expiry(text: &str, now: i64) -> Result<i64, String> {
    let wrong = || format!("{text:?}: a token expires after a time such as 90d or 12h, or at a time such as 2027-01-01T00:00:00Z");
    let at = match duration_from_text(text, None) {
        Some(after) => now.checked_add(after),
        None => timestamp_from_text(text, None),
    };
    let at = at.ok_or_else(wrong)?;
    match at.checked_sub(now) {
        Some(left) if (1..=MAX_LIFE).contains(&left) => Ok(at),
        _ => Err(format!("{text:?}: a token expires in the future, and within 100 years")),
    }
}

/// Reads how long a replaced secret still works, such as `1h`; returns when it ends.
///
/// # Errors
/// What is expected, if it is not such a time, or longer than 30 days.
pub fn overlap(text: &str, now: i64) -> Result<i64, String> {
    const MAX_OVERLAP: i64 = 30 * 86_400_000_000;
    let wrong = || format!("{text:?}: the secret that is replaced works for a time such as 1h or 7d, at most 30d; 0s ends it at once");
    let time = duration_from_text(text, None).filter(|time| (0..=MAX_OVERLAP).contains(time)).ok_or_else(wrong)?;
    Ok(now + time)
}

/// Returns the token in an `Authorization` header.
pub(super) fn token_in_header(authorization: &str) -> Option<Cow<'_, str>> {
    let (scheme, credentials) = authorization.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(credentials.trim().into());
    }
    if scheme.eq_ignore_ascii_case("oauth") {
        return token_in_signature(credentials).map(Cow::Owned);
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let plain = base64::engine::general_purpose::STANDARD.decode(credentials.trim()).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    Some(plain.split_once(':')?.1.to_owned().into())
}

/// Returns the token secret in the credentials of OAuth 1.0. A PLAINTEXT signature is the secrets of the consumer, which has none here, and of the token,
/// each percent-encoded, with `&` between them. What else is sent names the client and protects nothing.
fn token_in_signature(credentials: &str) -> Option<String> {
    let value = |name: &str| {
        let mut all = credentials.split(',').filter_map(|part| part.trim().split_once('='));
        let value = all.find(|(known, _)| *known == name)?.1.trim().strip_prefix('"')?.strip_suffix('"')?;
        String::from_utf8(percent_decoded(value)?).ok()
    };
    if value("oauth_signature_method")? != "PLAINTEXT" {
        return None;
    }
    let (_, secret) = value("oauth_signature")?.split_once('&').map(|(consumer, token)| (consumer.to_owned(), token.to_owned()))?;
    String::from_utf8(percent_decoded(&secret)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_expires_after_or_at_a_time_in_the_future() {
        let now = timestamp_from_text("2026-11-28T00:00:00Z", None).expect("a time");
        let day = 86_400_000_000;
        assert_eq!(expiry("90d", now), Ok(now + 90 * day));
        assert_eq!(expiry("2026-11-29T00:00:00Z", now), Ok(now + day));
        for wrong in ["", "soon", "-1d", "0s", "2026-11-27T00:00:00Z", "36600d", "9223372036854775807us"] {
            assert!(expiry(wrong, now).is_err(), "{wrong}");
        }
        assert_eq!((overlap("0s", now), overlap("1h", now)), (Ok(now), Ok(now + day / 24)));
        assert!(overlap("31d", now).is_err() && overlap("-1s", now).is_err());
    }

    #[test]
    fn a_token_is_found_in_the_header_of_each_scheme() {
        let oauth = |method: &str, signature: &str| {
            format!(
                "OAuth realm=\"OAuth\", oauth_consumer_key=\"a\", oauth_token=\"b\", oauth_signature_method=\"{method}\", oauth_signature=\"{signature}\""
            )
        };
        for (header, token) in [
            ("bearer stook_A-b", Some("stook_A-b")),
            ("Basic YW55OnN0b29rX0EtYg==", Some("stook_A-b")),
            (&oauth("PLAINTEXT", "%26stook_A-b"), Some("stook_A-b")),
            (&oauth("PLAINTEXT", "secret%26stook_A%252Db"), Some("stook_A-b")),
            (&oauth("PLAINTEXT", "&stook_A-b"), Some("stook_A-b")),
            (&oauth("HMAC-SHA1", "%26stook_A-b"), None),
            (&oauth("PLAINTEXT", "stook_A-b"), None),
            (&oauth("PLAINTEXT", "%2"), None),
            ("OAuth", None),
            ("OAuth oauth_signature_method=PLAINTEXT", None),
            ("Digest stook_A-b", None),
        ] {
            assert_eq!(token_in_header(header).as_deref(), token, "{header}");
        }
    }
}
