//! Damaged ISO 2709 records read as far as that is possible. Three things say where fields are: the directory, the terminators, and the
//! order of both. Where they disagree, terminators are believed first.

use crate::charset::Charset;
use crate::layout::{self, Span};
use crate::record::{FieldEntry, LEADER, MarcError, MarcRecord, RECORD_END, Structure, is_printable, number};
use crate::repair::{ReadOptions, RepairKind, Repairs};
use crate::tidy;
use std::borrow::Cow;

/// Reads a record that needs a closer look; `found` is what its directory says, or what is wrong with it.
///
/// # Errors
/// What was wrong, when no field can be found.
pub(crate) fn read(
    bytes: &[u8],
    found: Result<Structure, MarcError>,
    options: &ReadOptions,
    repairs: &mut Repairs,
) -> Result<MarcRecord<'static>, MarcError> {
    let (leader, spans) = match found {
        Ok(Structure { leader, fields, in_form: true }) => {
            let span = |entry: &FieldEntry| Span { tag: entry.tag, start: entry.start as usize, end: entry.end as usize };
            (leader, fields.iter().map(span).collect())
        }
        Ok(Structure { leader, fields, in_form: false }) if fields.is_empty() => (leader, Vec::new()),
        Ok(_) => locate_fields(bytes, MarcError::BadDirectory(0), repairs)?,
        Err(error) => locate_fields(bytes, error, repairs)?,
    };
    let leader = clean_leader(leader, repairs);
    let data = spans.iter().map(|span| span.start).min().unwrap_or(bytes.len());
    let charset = Charset::choose(leader[9] == b'a', &bytes[data..], options.encoding, repairs);
    let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
    let (mut fields, mut decoded) = (Vec::with_capacity(spans.len()), String::new());
    let mut unknown_characters = 0;
    for Span { tag, start: at, end } in spans {
        decoded.clear();
        unknown_characters += charset.decode(&bytes[at..end], tag, at, &mut decoded, repairs);
        let start = text.len() as u32;
        tidy::push_field(tag, &decoded, Some(at), &mut text, repairs);
        fields.push(FieldEntry { tag, start, end: text.len() as u32 });
    }
    let mut record = MarcRecord { text: Cow::Owned(text), leader, fields, unknown_characters };
    record.leader[9] = b'a';
    Ok(record)
}

/// The leader and the fields of a record whose directory cannot be followed.
fn locate_fields(bytes: &[u8], error: MarcError, repairs: &mut Repairs) -> Result<([u8; LEADER], Vec<Span>), MarcError> {
    if bytes.len() <= LEADER || u32::try_from(bytes.len()).is_err() {
        return Err(error);
    }
    // repairs count only if fields are found
    let mut layout_repairs = repairs.clone();
    let layout = layout::find(bytes, &mut layout_repairs).filter(|layout| !layout.spans.is_empty()).ok_or(error)?;
    let announced = bytes.first_chunk::<5>().and_then(number);
    if bytes.last() != Some(&RECORD_END) {
        layout_repairs.add(RepairKind::Terminator, None, Some(bytes.len()), "the missing record terminator was added");
    } else if layout.leader_start.is_none() && announced != Some(bytes.len()) {
        let shown_length = String::from_utf8_lossy(&bytes[..5]).escape_debug().to_string();
        let done =
            format!("the record length `{shown_length}` in the leader was ignored; the record was read up to its terminator, {} bytes", bytes.len());
        layout_repairs.add(RepairKind::RecordLength, None, None, done);
    }
    let leader = match layout.leader_start {
        None => bytes.first_chunk().copied().unwrap_or([b' '; LEADER]),
        Some(directory) => {
            let done = format!("the leader has {directory} characters instead of 24; it was read by its fixed parts");
            layout_repairs.add(RepairKind::Leader, None, None, done);
            realigned(&bytes[..directory])
        }
    };
    *repairs = layout_repairs;
    Ok((leader, layout.spans))
}

/// A leader of which nothing is known: that of a record in UTF-8.
pub(crate) const EMPTY_LEADER: [u8; LEADER] = *b"00000     2200000   4500";

/// Takes the place of a leader that is not there.
pub(crate) fn missing_leader(repairs: &mut Repairs) -> [u8; LEADER] {
    repairs.add(RepairKind::Leader, None, None, "there is no leader; an empty one was made");
    EMPTY_LEADER
}

/// The text as a leader; nothing, which is told, where it is none.
pub(crate) fn exact_leader(text: &str, byte: Option<usize>, repairs: &mut Repairs) -> Option<[u8; LEADER]> {
    let exact = text.as_bytes().try_into().ok().filter(is_printable);
    if exact.is_none() {
        let done = format!("the leader is not 24 ASCII characters, but {}; it was read by its fixed parts", text.chars().count());
        repairs.add(RepairKind::Leader, None, byte, done);
    }
    exact
}

/// The text of a leader with blanks for characters that a leader cannot have.
pub(crate) fn printable(text: &str) -> Vec<u8> {
    let ascii = |character: char| u8::try_from(character).ok().filter(|byte| (b' '..=b'~').contains(byte)).unwrap_or(b' ');
    text.chars().map(ascii).collect()
}

/// A leader that has lost or won characters, by the two 2 and the base address in its middle and the 4500 at its end.
pub(crate) fn realigned(leader: &[u8]) -> [u8; LEADER] {
    let mut out = EMPTY_LEADER;
    let is_middle = |window: &[u8]| window.starts_with(b"22") && window[2..].iter().all(u8::is_ascii_digit);
    let middle = leader.windows(7).position(is_middle).map(|at| (at, at + 7));
    let (front, back) = match middle {
        Some((start, end)) => {
            out[12..17].copy_from_slice(&leader[start + 2..end]);
            (&leader[..start], &leader[end..])
        }
        None => (&leader[..leader.len().min(10)], leader.get(17..).unwrap_or_default()),
    };
    // the length is all digits, and what follows it none
    let digits = front.iter().take(5).take_while(|byte| byte.is_ascii_digit()).count();
    // the encoding is what stands before the middle
    if let Some((encoding, status)) = front[digits..].split_last() {
        let length = status.len().min(4);
        out[5..5 + length].copy_from_slice(&status[..length]);
        out[9] = *encoding;
    }
    let tail = &back[..back.len().min(3)];
    out[17..17 + tail.len()].copy_from_slice(tail);
    out
}

/// The leader without characters that a leader cannot have.
pub(crate) fn clean_leader(mut leader: [u8; LEADER], repairs: &mut Repairs) -> [u8; LEADER] {
    for (position, byte) in leader.iter_mut().enumerate() {
        if byte.is_ascii_graphic() || *byte == b' ' {
            continue;
        }
        *byte = match position {
            0..5 | 12..17 => b'0',
            10 | 11 => b'2',
            20.. => b"4500"[position - 20],
            _ => b' ',
        };
        let done = format!("leader position {position} is not an ASCII character; it was read as `{}`", char::from(*byte));
        repairs.add(RepairKind::Leader, None, Some(position), done);
    }
    leader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_read_by_its_fixed_parts() {
        assert_eq!(&realigned(b"0117nam a2200061 i 4500"), b"00000nam a2200061 i 4500");
        assert_eq!(&realigned(b"00117nam  a2200061 i 4500"), b"00000nam a2200061 i 4500");
        assert_eq!(&realigned(b"00117nam a2200061 4500"), b"00000nam a2200061 454500");
        assert_eq!(&realigned(b""), b"00000     2200000   4500");
    }
}
