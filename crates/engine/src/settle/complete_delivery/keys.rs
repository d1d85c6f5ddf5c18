//! The keys that a file has in a scope, to find how many keys of another file it lacks.
//!
//! Keys are stored as hashes. Of fewer than [`MAX_KEYS`] keys all are stored, and the comparison is exact. Otherwise those with the smallest hashes
//! are stored: a sample that depends neither on the order of documents nor on how a file was split, and gives the share of missing keys with an
//! error of about 1 in 60.

use std::collections::BTreeMap;
use stook_catalogue::record::{DecodeError, Decoder};

/// The maximum number of keys that are stored for a file in a scope.
pub const MAX_KEYS: usize = 4_096;

/// Hashes of keys, and the position of each in the scope: a time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KeySample(BTreeMap<u64, i64>);

/// How many keys of one file are missing in another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct MissingKeys {
    /// Number of missing keys.
    pub missing: u64,
    /// Number of keys that were compared.
    pub of: u64,
    /// Whether only samples of the keys were compared.
    #[serde(default)]
    pub sampled: bool,
}

impl MissingKeys {
    /// The share that is missing, in percent.
    pub fn percent(&self) -> f64 {
        if self.of == 0 { 0.0 } else { 100.0 * self.missing as f64 / self.of as f64 }
    }
}

/// The hash of a contribution's name: its collection, contributor and key.
pub fn hash_of(name: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&blake3::hash(name.as_bytes()).as_bytes()[..8]);
    u64::from_le_bytes(first)
}

impl KeySample {
    /// Adds a key at a position.
    pub fn add(&mut self, hash: u64, at: i64) {
        if self.0.len() >= MAX_KEYS && self.0.last_key_value().is_some_and(|(last, _)| *last < hash) {
            return;
        }
        let known = self.0.entry(hash).or_insert(at);
        *known = at.min(*known);
        if self.0.len() > MAX_KEYS {
            self.0.pop_last();
        }
    }

    /// Adds the keys of another share of the file.
    pub fn include(&mut self, other: &KeySample) {
        other.0.iter().for_each(|(hash, at)| self.add(*hash, *at));
    }

    /// The largest hash up to which all keys are stored.
    fn bound(&self) -> u64 {
        self.0.last_key_value().filter(|_| self.0.len() >= MAX_KEYS).map_or(u64::MAX, |(last, _)| *last)
    }

    /// How many of these keys, of those at or after position `from`, a newer file lacks.
    pub fn missing_in(&self, newer: &KeySample, from: i64) -> MissingKeys {
        let bound = self.bound().min(newer.bound());
        let sample = self.0.range(..=bound).filter(|(_, at)| **at >= from);
        let mut missing_keys = MissingKeys { sampled: bound < u64::MAX, ..MissingKeys::default() };
        for (hash, _) in sample {
            missing_keys.of += 1;
            missing_keys.missing += u64::from(!newer.0.contains_key(hash));
        }
        missing_keys
    }

    /// Encodes the keys as bytes.
    pub fn pack(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(hash, at)| [hash.to_le_bytes(), at.to_le_bytes()]).flatten().collect()
    }

    /// Reads [`KeySample::pack`].
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn unpack(packed: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Decoder { bytes: packed };
        let mut keys = Self::default();
        while !input.bytes.is_empty() {
            keys.0.insert(u64::from_le_bytes(input.array()?), i64::from_le_bytes(input.array()?));
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(numbers: impl Iterator<Item = u64>) -> KeySample {
        let mut keys = KeySample::default();
        numbers.for_each(|number| keys.add(hash_of(&number.to_string()), number as i64));
        keys
    }

    #[test]
    fn few_keys_are_compared_exactly_and_from_a_time_on() {
        let (former, newer) = (keys(0..100), keys(50..120));
        assert_eq!(former.missing_in(&newer, 0), MissingKeys { missing: 50, of: 100, sampled: false });
        assert_eq!(former.missing_in(&newer, 40), MissingKeys { missing: 10, of: 60, sampled: false });
        assert_eq!(former.missing_in(&newer, 50), MissingKeys { missing: 0, of: 50, sampled: false });
    }

    #[test]
    fn many_keys_are_sampled_whatever_their_order() {
        let (former, newer) = (keys(0..100_000), keys(30_000..200_000));
        assert_eq!(former, keys((0..100_000).rev()));
        let missing_keys = former.missing_in(&newer, 0);
        assert!(missing_keys.sampled && missing_keys.of > 1_500 && (missing_keys.percent() - 30.0).abs() < 4.0, "{missing_keys:?}");
        assert_eq!(former.missing_in(&former, 0).missing, 0);
    }

    #[test]
    fn parts_of_a_file_add_up_to_the_file() {
        let mut whole = keys(0..5_000);
        whole.include(&keys(5_000..9_000));
        assert_eq!(whole, keys(0..9_000));
        assert_eq!(KeySample::unpack(&whole.pack()), Ok(whole));
    }
}
