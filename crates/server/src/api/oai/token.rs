//! Resumption tokens: where a list continues. A token contains all of that, so nothing is kept between requests, and it never expires.

use super::arguments::Selection;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use stook_store::changes::ChangePosition;

/// The position of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListToken {
    /// What the list has.
    pub(super) selection: Selection,
    /// The time up to which the list has changes, in microseconds, excluded.
    pub(super) horizon: i64,
    /// The collection that is listed.
    pub(super) collection: String,
    /// The last of its records that were listed.
    pub(super) after: ChangePosition,
    /// The number of records that were listed.
    pub(super) cursor: u64,
}

/// What a token is written as: members of JSON with short names, in Base64, after a checksum.
#[derive(Serialize, Deserialize)]
struct WrittenToken {
    p: String,
    s: Option<String>,
    f: Option<i64>,
    h: i64,
    c: String,
    r: i64,
    k: String,
    n: u64,
}

/// Length of the checksum, in bytes.
const CHECKSUM: usize = 6;

fn checksum(json: &[u8]) -> [u8; CHECKSUM] {
    let hash = blake3::hash(json);
    std::array::from_fn(|index| hash.as_bytes()[index])
}

impl ListToken {
    pub(super) fn to_text(&self) -> String {
        let Selection { prefix, set, from, .. } = &self.selection;
        let ChangePosition { revision, key } = &self.after;
        let written = WrittenToken {
            p: prefix.clone(),
            s: set.clone(),
            f: *from,
            h: self.horizon,
            c: self.collection.clone(),
            r: *revision,
            k: key.clone(),
            n: self.cursor,
        };
        let json = serde_json::to_vec(&written).unwrap_or_default();
        URL_SAFE_NO_PAD.encode([checksum(&json).as_slice(), &json].concat())
    }

    /// Reads a token; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (check, json) = bytes.split_at_checked(CHECKSUM)?;
        let WrittenToken { p, s, f, h, c, r, k, n } = serde_json::from_slice(json).ok().filter(|_| check == checksum(json))?;
        let selection = Selection { prefix: p, set: s, from: f, until: Some(h) };
        Some(Self { selection, horizon: h, collection: c, after: ChangePosition { revision: r, key: k }, cursor: n })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_token_is_read_back_and_a_changed_one_is_none((key, numbers, at) in (".{0,20}", any::<[i64; 3]>(), any::<prop::sample::Index>())) {
            let [from, horizon, revision] = numbers;
            let selection = Selection { prefix: "oai_dc".into(), set: Some("a".into()), from: Some(from), until: Some(horizon) };
            let token = ListToken { selection, horizon, collection: "book".into(), after: ChangePosition { revision, key }, cursor: 7 };
            let text = token.to_text();
            prop_assert_eq!(ListToken::parse(&text), Some(token));
            let mut changed = text.into_bytes();
            let at = at.index(changed.len());
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            prop_assert_eq!(ListToken::parse(&String::from_utf8_lossy(&changed)), None);
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = ListToken::parse(&text);
        }
    }
}
