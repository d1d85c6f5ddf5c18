//! The bytes of a field as text: UTF-8, MARC-8, ISO 8859-1 or Windows-1252, by what was asked for and what the bytes are.

use crate::marc8;
use crate::record::{SUBFIELD, show_tag};
use crate::repair::{Encoding, RepairKind, Repairs};

const ESCAPE: u8 = 0x1b;

/// How the fields of one record are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charset {
    /// UTF-8 is tried first.
    utf8_first: bool,
    /// For what is not UTF-8; nothing when its bytes are replaced.
    other: Option<Encoding>,
}

impl Charset {
    /// Decides for a record, by its leader and the bytes of its fields.
    pub(crate) fn choose(is_declared_utf8: bool, data: &[u8], wanted: Encoding, repairs: &mut Repairs) -> Self {
        match wanted {
            Encoding::Utf8 => Self { utf8_first: true, other: None },
            Encoding::Auto if is_declared_utf8 => Self { utf8_first: true, other: None },
            Encoding::Auto if is_rather_utf8(data) => {
                let done = "leader position 9 says MARC-8, but the bytes are UTF-8 and were read as that";
                repairs.add(RepairKind::Encoding, None, None, done);
                Self { utf8_first: true, other: None }
            }
            Encoding::Auto => Self { utf8_first: false, other: Some(Encoding::Marc8) },
            other => Self { utf8_first: is_declared_utf8, other: Some(other) },
        }
    }

    /// Adds the text of a field to `out`; returns how many characters of MARC-8 were unknown.
    pub(crate) fn decode(self, bytes: &[u8], tag: [u8; 3], at: usize, out: &mut String, repairs: &mut Repairs) -> usize {
        let valid = if self.utf8_first { simdutf8::basic::from_utf8(bytes).ok() } else { None };
        if let Some(text) = valid {
            out.push_str(text);
            return 0;
        }
        match self.other {
            None | Some(Encoding::Auto | Encoding::Utf8) => {
                utf8(bytes, tag, at, out, repairs);
                0
            }
            Some(other) => {
                if self.utf8_first {
                    let name = match other {
                        Encoding::Latin1 => "ISO 8859-1",
                        Encoding::Cp1252 => "Windows-1252",
                        _ => "MARC-8",
                    };
                    let done = format!("leader position 9 says UTF-8, which the bytes are not; they were read as {name}");
                    repairs.add(RepairKind::Encoding, Some(&show_tag(tag)), Some(at), done);
                }
                if other == Encoding::Marc8 {
                    return marc8_field(bytes, tag, at, out, repairs);
                }
                single_bytes(bytes, other, (tag, at), out, repairs);
                0
            }
        }
    }
}

/// Whether bytes that should be MARC-8 are UTF-8: they have characters of several bytes, and hardly anything that is not UTF-8. In
/// MARC-8 a mark precedes its letter, which is no character of UTF-8.
fn is_rather_utf8(data: &[u8]) -> bool {
    if data.is_ascii() || memchr::memchr(ESCAPE, data).is_some() {
        return false;
    }
    let (mut characters, mut wrong) = (0_usize, 0_usize);
    for chunk in data.utf8_chunks() {
        characters += chunk.valid().chars().filter(|character| !character.is_ascii()).count();
        wrong += usize::from(!chunk.invalid().is_empty());
        if wrong > 8 && characters < wrong {
            return false;
        }
    }
    characters > 0 && (wrong == 0 || characters > 2 && characters > 3 * wrong)
}

fn utf8(bytes: &[u8], tag: [u8; 3], mut at: usize, out: &mut String, repairs: &mut Repairs) {
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            out.push('\u{fffd}');
            repairs.add(RepairKind::Character, Some(&show_tag(tag)), Some(at), "bytes that are not UTF-8 were replaced by U+FFFD");
        }
        at += chunk.invalid().len();
    }
}

/// MARC-8, piece by piece: a diacritic without a letter must not melt into the subfield code before it.
pub(crate) fn marc8_field(bytes: &[u8], tag: [u8; 3], at: usize, out: &mut String, repairs: &mut Repairs) -> usize {
    let mut unknown = 0;
    for (index, piece) in bytes.split(|byte| *byte == SUBFIELD).enumerate() {
        let (code, value) = piece.split_at(if index > 0 { piece.len().min(1) } else { 0 });
        if index > 0 {
            out.push(char::from(SUBFIELD));
        }
        for part in [code, value] {
            if let Some(text) = marc8::plain(part).filter(|_| !marc8::has_references(part)) {
                out.push_str(text);
                continue;
            }
            let (decoded, wrong) = marc8::decode(part);
            unknown += wrong;
            out.push_str(&decoded);
        }
    }
    for _ in 0..unknown {
        repairs.add(RepairKind::Character, Some(&show_tag(tag)), Some(at), "a code or an escape that MARC-8 does not have was replaced by U+FFFD");
    }
    unknown
}

fn single_bytes(bytes: &[u8], encoding: Encoding, (tag, at): ([u8; 3], usize), out: &mut String, repairs: &mut Repairs) {
    for (index, byte) in bytes.iter().enumerate() {
        let character = if encoding == Encoding::Cp1252 { windows_1252(*byte) } else { Some(char::from(*byte)) };
        if character.is_none() {
            repairs.add(
                RepairKind::Character,
                Some(&show_tag(tag)),
                Some(at + index),
                "a byte that Windows-1252 does not have was replaced by U+FFFD",
            );
        }
        out.push(character.unwrap_or('\u{fffd}'));
    }
}

/// A character of Windows-1252, which has five gaps.
pub(crate) fn windows_1252(byte: u8) -> Option<char> {
    const UPPER: [u16; 32] = [
        0x20ac, 0, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0, 0x017d, 0, 0, 0x2018, 0x2019, 0x201c,
        0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0, 0x017e, 0x0178,
    ];
    match byte {
        0x80..0xa0 => Some(UPPER[usize::from(byte - 0x80)]).filter(|code| *code != 0).and_then(|code| char::from_u32(u32::from(code))),
        byte => Some(char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf8_is_recognised_by_its_bytes() {
        assert!(is_rather_utf8("Bücher für Zoë".as_bytes()));
        assert!(is_rather_utf8(b"B\xc3\xbccher f\xc3\xbcr Zo\xc3\xab \xc3\x84 \xc3"));
        assert!(!is_rather_utf8(b"Dvo\xe9r\xe2ak"));
        assert!(!is_rather_utf8(b"plain"));
        assert!(!is_rather_utf8(b"\x1b$1\x21\x30\x21"));
    }

    #[test]
    fn windows_1252_is_latin_1_with_other_characters_at_0x80() {
        assert_eq!([0x41, 0x80, 0x81, 0x9f, 0xfc].map(windows_1252), [Some('A'), Some('€'), None, Some('Ÿ'), Some('ü')]);
    }
}
