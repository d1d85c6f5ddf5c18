//! Corrections: who gave a field its value by an edit, and why, and which values of other contributors the edit was made against.
//!
//! A correction that names values of others holds as long as no contributor gives another one. While it holds, its value is the golden value, whatever
//! the rule of the field; when it has lapsed, its value does not count. Both follow from the set of contributions alone, so a document that was
//! late, or a job that is undone, makes no difference to the result.

use super::packed::{DecodeError, Decoder, put_bytes, put_value, put_varint};
use crate::model::definition::{Collection, Comparison, Field};
use crate::model::ids::FieldId;
use crate::value::{SmolStr, Value};

/// Max characters of the reason for a correction.
pub const MAX_REASON: usize = 1_000;

/// What is known of an edit of one field.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    /// The field.
    pub field: FieldId,
    /// Who made it.
    pub caller: SmolStr,
    /// When it was made, in microseconds.
    pub at: i64,
    /// Why; `None` if the caller gave no reason.
    pub reason: Option<SmolStr>,
    /// The values that it corrects, by contributor, [`Value::Cleared`] for a cleared field; `None` if it does not depend on what others contribute.
    pub corrects: Option<Vec<(SmolStr, Value)>>,
}

impl Correction {
    /// Returns the first contributor with a value that is neither the correction's own value, `own`, nor one that it corrects; `None` while it holds.
    /// Values that are no conflict by `compare` of the field are the same value.
    pub fn contradicted_by<'a>(&self, field: &Field, own: &Value, others: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Option<&'a str> {
        let corrects = self.corrects.as_ref()?;
        let comparison = field.compare.unwrap_or(Comparison::Exact);
        let is_known = |contributor: &str, value: &Value| {
            let corrected = corrects.iter().filter(|(name, _)| name == contributor).map(|(_, corrected)| corrected);
            corrected.chain([own]).any(|known| comparison.agree([known, value]))
        };
        others.into_iter().find(|(contributor, value)| !is_known(contributor, value)).map(|(contributor, _)| contributor)
    }
}

/// Packs the corrections of a contribution.
pub(super) fn put_corrections(out: &mut Vec<u8>, corrections: &[Correction], collection: &Collection) {
    put_varint(out, corrections.len() as u64);
    for correction in corrections {
        put_bytes(out, collection.fields[correction.field].name.as_bytes());
        put_bytes(out, correction.caller.as_bytes());
        out.extend_from_slice(&correction.at.to_le_bytes());
        out.push(u8::from(correction.reason.is_some()));
        correction.reason.iter().for_each(|reason| put_bytes(out, reason.as_bytes()));
        // one more than their number, because none at all differs from an empty list
        put_varint(out, correction.corrects.as_ref().map_or(0, |corrects| corrects.len() as u64 + 1));
        for (contributor, value) in correction.corrects.iter().flatten() {
            put_bytes(out, contributor.as_bytes());
            put_value(out, value);
        }
    }
}

/// Reads what [`put_corrections`] wrote.
pub(super) fn corrections(input: &mut Decoder<'_>, collection: &Collection) -> Result<Vec<Correction>, DecodeError> {
    let mut all = Vec::new();
    for _ in 0..input.varint()? {
        let name = input.text()?;
        let caller = input.text()?.into();
        let at = i64::from_le_bytes(input.array()?);
        let reason = if input.byte()? == 0 { None } else { Some(input.text()?.into()) };
        let corrects = match input.varint()?.checked_sub(1) {
            None => None,
            Some(count) => {
                let mut corrects = Vec::with_capacity(count.min(1_024) as usize);
                for _ in 0..count {
                    corrects.push((input.text()?.into(), input.value(0)?));
                }
                Some(corrects)
            }
        };
        // a field that the definition no longer has is ignored
        all.extend(collection.field(name).map(|(field, _)| Correction { field, caller, at, reason, corrects }));
    }
    Ok(all)
}
