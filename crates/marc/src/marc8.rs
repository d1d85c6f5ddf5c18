//! MARC-8 to Unicode, after the Library of Congress specification
//! (<https://www.loc.gov/marc/specifications/speccharmarc8.html>).
//!
//! `marc8.bin` holds the code tables: entries of seven bytes, sorted: the set's final character, the code with its high
//! bits cleared (three bytes), and the Unicode scalar with bit 23 set for combining characters. Diacritics precede their
//! base letter in MARC-8 and follow it in Unicode; the result is NFC. Double diacritics are the half marks U+FE20..U+FE23.

use unicode_normalization::UnicodeNormalization;

static TABLES: &[u8] = include_bytes!("marc8.bin");
const ENTRY: usize = 7;
const ESCAPE: u8 = 0x1b;

const ASCII: u8 = 0x42;
const ANSEL: u8 = 0x45;
const EACC: u8 = 0x31;

/// The Unicode character of a code in a set, and whether it combines with the next one.
fn lookup(set: u8, code: [u8; 3]) -> Option<(char, bool)> {
    let wanted = [set, code[0], code[1], code[2]];
    let entries = TABLES.len() / ENTRY;
    let entry = |index: usize| &TABLES[index * ENTRY..(index + 1) * ENTRY];
    let (mut low, mut high) = (0, entries);
    while low < high {
        let middle = (low + high) / 2;
        match entry(middle)[..4].cmp(&wanted) {
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
            std::cmp::Ordering::Equal => {
                let found = entry(middle);
                let scalar = u32::from_be_bytes([0, found[4] & 0x7f, found[5], found[6]]);
                return char::from_u32(scalar).map(|character| (character, found[4] & 0x80 != 0));
            }
        }
    }
    None
}

/// Whether there may be characters that MARC-8 has no code for, written as `&#x4E2D;`.
pub(crate) fn has_references(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'&', bytes).any(|at| bytes[at..].starts_with(b"&#x"))
}

/// A reference at the front: its length and its character. Control characters cannot be written so.
fn reference(bytes: &[u8]) -> Option<(usize, char)> {
    let digits = bytes.strip_prefix(b"&#x")?;
    let (digits, _) = digits.split_at(digits.iter().take(7).position(|byte| *byte == b';').filter(|length| *length > 0)?);
    let code = digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))?;
    let character = char::from_u32(code).filter(|character| !character.is_control())?;
    Some((digits.len() + 4, character))
}

/// The three bytes of a code of EACC at the front, if there are so many.
fn eacc_code(bytes: &[u8]) -> Option<[u8; 3]> {
    bytes.first_chunk().map(|code: &[u8; 3]| code.map(|byte| byte & 0x7f))
}

/// How many bytes are one broken character of EACC. Where a byte was lost or inserted, the characters that follow must not be read at the
/// wrong places; and what ends a run of EACC (an escape, a blank) is never a part of a character.
fn broken_eacc(bytes: &[u8]) -> usize {
    /// Characters after the broken one that are looked at.
    const AHEAD: usize = 4;
    let run = bytes.iter().take(3 * (AHEAD + 1)).position(|byte| *byte <= 0x20).map_or(bytes, |end| &bytes[..end]);
    let known_after = |length: usize| {
        let codes = run.get(length..).unwrap_or_default().chunks(3).take(AHEAD);
        codes.take_while(|code| eacc_code(code).is_some_and(|code| lookup(EACC, code).is_some())).count()
    };
    // of equals the one of the right length
    [1, 2, 3].into_iter().max_by_key(|length| known_after(*length)).unwrap_or(3).min(run.len()).max(1)
}

/// Bytes that are the same in ASCII.
pub(crate) fn plain(bytes: &[u8]) -> Option<&str> {
    let is_plain_ascii = bytes.is_ascii() && memchr::memchr(ESCAPE, bytes).is_none();
    if is_plain_ascii { std::str::from_utf8(bytes).ok() } else { None }
}

/// Decodes MARC-8. Bytes that are no character of the set in use become U+FFFD and are counted. Numeric references become characters.
pub fn decode(bytes: &[u8]) -> (String, usize) {
    if let Some(text) = plain(bytes).filter(|_| !has_references(bytes)) {
        return (text.to_owned(), 0);
    }
    let mut out = String::with_capacity(bytes.len() + 8);
    let mut marks: Vec<char> = Vec::new();
    let (mut g0, mut g1) = (ASCII, ANSEL);
    let mut unknown = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte == ESCAPE {
            let (length, designation) = escape(&bytes[at + 1..]);
            match designation {
                Some((false, set)) => g0 = set,
                Some((true, set)) => g1 = set,
                None => {
                    unknown += 1;
                    out.push('\u{fffd}');
                }
            }
            at += 1 + length;
            continue;
        }
        // 0x1f starts a subfield: sets go back to their defaults
        if byte < 0x20 {
            if byte == 0x1f {
                (g0, g1) = (ASCII, ANSEL);
                out.extend(marks.drain(..));
            }
            out.push(char::from(byte));
            at += 1;
            continue;
        }
        // the lossless form of a character that MARC-8 does not have; marks precede it as they precede a letter
        if g0 == ASCII
            && let Some((length, character)) = reference(&bytes[at..])
        {
            out.push(character);
            out.extend(marks.drain(..));
            at += length;
            continue;
        }
        let set = if byte < 0x80 { g0 } else { g1 };
        let width = if set == EACC && byte != 0x20 && !(0x80..0xa0).contains(&byte) { 3 } else { 1 };
        let found = if byte == 0x20 {
            Some((' ', false))
        } else if (0x80..0xa0).contains(&byte) {
            // C1 controls, joiners and non-sorting marks, are in ANSEL's table under their own codes
            lookup(ANSEL, [0, 0, byte])
        } else if width == 3 {
            eacc_code(&bytes[at..]).and_then(|code| lookup(set, code))
        } else {
            lookup(set, [0, 0, byte & 0x7f])
        };
        at += if found.is_none() && width == 3 { broken_eacc(&bytes[at..]) } else { width };
        match found {
            Some((mark, true)) => marks.push(mark),
            Some((character, false)) => {
                out.push(character);
                out.extend(marks.drain(..));
            }
            None => {
                unknown += 1;
                out.push('\u{fffd}');
                out.extend(marks.drain(..));
            }
        }
    }
    out.extend(marks.drain(..));
    (out.nfc().collect(), unknown)
}

/// Reads what follows an escape: its length, and whether a set was designated to G1 (true) or G0, and which.
fn escape(rest: &[u8]) -> (usize, Option<(bool, u8)>) {
    match rest {
        [b's', ..] => (1, Some((false, ASCII))),
        [set @ (b'g' | b'b' | b'p'), ..] => (1, Some((false, *set))),
        [half @ (b'(' | b',' | b')' | b'-'), b'!', set, ..] => (3, Some((matches!(half, b')' | b'-'), *set))),
        [half @ (b'(' | b',' | b')' | b'-'), set, ..] => (2, Some((matches!(half, b')' | b'-'), *set))),
        [b'$', half @ (b')' | b'-'), set, ..] => (3, Some((matches!(half, b')' | b'-'), *set))),
        [b'$', b',', set, ..] => (3, Some((false, *set))),
        [b'$', set, ..] => (2, Some((false, *set))),
        _ => (0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        let (text, unknown) = decode(bytes);
        assert_eq!(unknown, 0, "{text:?}");
        text
    }

    #[test]
    fn diacritics_move_after_their_letter() {
        assert_eq!(text(b"\xe8u"), "ü");
        assert_eq!(text(b"Dvo\xe9r\xe2ak"), "Dvořák");
    }

    #[test]
    fn escapes_designate_sets() {
        assert_eq!(text(b"\x1b(N\x41\x1b(B A"), "\u{0430} A");
        assert_eq!(text(b"H\x1bb2\x1bsO"), "H₂O");
        assert_eq!(text(b"\x1b$1\x21\x30\x21\x1b(B"), "\u{4e00}");
    }

    #[test]
    fn references_are_characters() {
        assert_eq!(text(b"Ni&#x4E2D;&#x1F600; &#xZZ; &#x1F; &#x110000; &#x;"), "Ni\u{4e2d}\u{1f600} &#xZZ; &#x1F; &#x110000; &#x;");
        assert_eq!(text(b"\xe8u &#x4e2d;"), "ü \u{4e2d}");
        assert_eq!(text(b"\xe2&#x03B1; \xe8\xe2&#x03B9;"), "\u{3ac} \u{390}");
        assert_eq!(text(b"\x1b(N&#x41;\x1b(B&#x41;"), format!("{}A", text(b"\x1b(N&#x41;")));
    }

    #[test]
    fn unknown_codes_are_counted_not_dropped() {
        assert_eq!(decode(b"a\xffb"), ("a\u{fffd}b".into(), 1));
    }
}
