//! Shorter encodings of texts that keep their order, for indexes: with a long history, most pages that are read and written belong to indexes on
//! keys, and keys are digests, ids and names.
//!
//! ```text
//! 0 to 9, a to f          5 bits        32 hexadecimal digits: 20 bytes, a UUID: 24
//! - . /  A to Z  [ \ ] ^ _ `            7 bits
//! : ; < = > ? @  g to z  { | } ~        8 bits
//! the rest, bytes of UTF-8              11 bits
//! ```
//! It is a prefix-free code whose code words have the order of the bytes: packed texts compare as the texts do, and a text comes before those that
//! begin with it. No code word consists only of as many zeros as may fill the last byte.

use rusqlite::functions::FunctionFlags;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// The code word of each byte, and its number of bits.
const CODE_WORDS: [(u16, u8); 256] = code_words();

const fn code_words() -> [(u16, u8); 256] {
    let mut code_words = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let value = byte as u16;
        // the first of the 32 five-bit prefixes for a block of bytes, the block's first byte, and the number of bits after the prefix
        let (first_prefix, block_start, suffix_bits) = match value {
            0x00..=0x2C => (0, 0x00, 6),
            0x2D..=0x2F => (1, 0x2D, 2),
            0x30..=0x39 => (2, 0x30, 0),
            0x3A..=0x40 => (12, 0x3A, 3),
            0x41..=0x60 => (13, 0x41, 2),
            0x61..=0x66 => (21, 0x61, 0),
            0x67..=0x7E => (27, 0x67, 3),
            // no byte of UTF-8 is 255
            _ => (30, 0x7F, 6),
        };
        code_words[byte] = ((first_prefix << suffix_bits) + (value - block_start), 5 + suffix_bits as u8);
        byte += 1;
    }
    code_words
}

/// Packs a text.
pub fn pack(text: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(text.len() + 8);
    let (mut bits, mut bit_count) = (0_u64, 0);
    for byte in text {
        let (code_word, code_length) = CODE_WORDS[usize::from(*byte)];
        bits = bits << code_length | u64::from(code_word);
        bit_count += u32::from(code_length);
        if bit_count >= 32 {
            bit_count -= 32;
            packed.extend_from_slice(&((bits >> bit_count) as u32).to_be_bytes());
        }
    }
    let tail = ((bits << (32 - bit_count)) as u32).to_be_bytes();
    packed.extend_from_slice(&tail[..bit_count.div_ceil(8) as usize]);
    packed
}

/// A hash of four bytes, for indexes that are only used to find equal texts.
pub fn digest(text: &[u8]) -> i32 {
    // FNV-1a
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash >> 32) as i32 ^ hash as i32
}

/// Adds the functions `packed` and `digest` to a connection, for statements that use these indexes. The schema does not use them: rows have columns
/// with their results, so every program can check and copy the file.
///
/// # Errors
/// When a statement is running.
pub fn register_functions(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_INNOCUOUS;
    connection.create_scalar_function("packed", 1, flags, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Text(text) => Some(pack(text)),
            _ => None,
        })
    })?;
    connection.create_scalar_function("digest", 1, flags, |context| {
        Ok(match context.get_raw(0) {
            ValueRef::Text(text) => Some(digest(text)),
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of characters with different code words, short enough to be prefixes of each other.
    fn texts() -> Vec<String> {
        let letters: Vec<char> = ('\0'..='\u{7f}').chain(['\u{80}', '\u{7ff}', '\u{800}', '\u{ffff}', '\u{10000}', '\u{10ffff}']).collect();
        let mut texts = vec![String::new()];
        for first in &letters {
            texts.push(first.to_string());
            for second in &letters {
                texts.push(format!("{first}{second}"));
                // after code words of all lengths, so that the last byte is filled with any number of zeros
                texts.extend((1..8).map(|length| format!("{}{first}{second}", &"-0A:g9z"[..length])));
            }
        }
        texts
    }

    #[test]
    fn packed_texts_compare_as_the_texts_do() {
        let mut texts = texts();
        texts.sort();
        texts.dedup();
        for pair in texts.windows(2) {
            assert!(pack(pair[0].as_bytes()) < pack(pair[1].as_bytes()), "{:?} before {:?}", pair[0], pair[1]);
        }
    }

    #[test]
    fn digests_and_ids_take_five_bits_a_digit() {
        assert_eq!(pack(b"d41d8cd98f00b204e9800998ecf8427e").len(), 20);
        assert_eq!(pack(b"123e4567-e89b-12d3-a456-426614174000").len(), 24);
        assert_eq!(pack(b"").len(), 0);
    }
}
