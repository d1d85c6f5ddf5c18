//! What an edit says of the fields that it changes: why, and which values of other contributors it corrects.

pub use super::corrections_import::{CorrectionsReport, CorrectionsTarget, import};

use super::edit::EditFields;
use crate::content::allowed::strict_from_json;
use serde_json::{Map, Value as Json};
use stook_catalogue::definition::{API_NAME, Catalogue, Collection};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::{FieldId, IdVec};
use stook_catalogue::record::{ContributionContent, Correction, Hash, MAX_REASON, put_bytes, put_value};
use stook_catalogue::value::{SmolStr, Value};

/// The member of an edit that gives, by field, the values of other contributors that it corrects, by contributor, null for one that cleared the field.
/// The edit holds until one of them gives another value. No field can have this name.
pub const CORRECTS: &str = "$corrects";

/// The member of an edit that says why. No field can have this name.
pub const REASON: &str = "$reason";

/// What is noted of the fields to which an edit gives values, in their order.
#[derive(Debug, Default)]
pub(super) struct NewCorrections {
    /// Without their time, unless the edit was made before.
    noted: Vec<Correction>,
    made_at: Option<i64>,
}

impl NewCorrections {
    /// The corrections of an edit that is made at this time.
    pub(super) fn at(&self, now: i64) -> impl Iterator<Item = Correction> {
        self.noted.iter().map(move |correction| Correction { at: self.made_at.unwrap_or(now), ..correction.clone() })
    }

    /// Why the fields are edited.
    pub(super) fn reason(&self) -> Option<&str> {
        self.noted.iter().find_map(|correction| correction.reason.as_deref())
    }

    /// Warnings of contributors whose values are corrected although the definition has no such source.
    pub(super) fn unknown_contributors(&self, catalogue: &Catalogue) -> Vec<String> {
        let named = self.noted.iter().flat_map(|correction| correction.corrects.iter().flatten().map(|(contributor, _)| contributor));
        let sources = named.map(|contributor| contributor.split(':').next().unwrap_or_default());
        // the contributor of a link with `create` is COLLECTION.LINK
        let mut unknown: Vec<&str> = sources.filter(|source| !source.contains('.') && catalogue.source(source).is_none()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        let known = || catalogue.sources.iter().map(|source| source.name.as_str());
        unknown.iter().map(|source| format!("{CORRECTS}: there is no source `{source}`; {}", known_instead(source, known()))).collect()
    }
}

/// Returns what is noted of each field to which an edit gives a value.
///
/// # Errors
/// The reasons why the request is wrong.
pub(super) fn read_corrections(
    collection: &Collection,
    fields: &EditFields,
    edited_values: &IdVec<FieldId, Option<Value>>,
    caller: &str,
) -> Result<NewCorrections, Vec<String>> {
    let mut problems = Vec::new();
    let reason = reason_of(&fields.reason).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let made = fields.made.as_ref();
    let caller = made.map_or(caller, |made| &made.caller);
    let mut noted: IdVec<FieldId, Option<Correction>> = vec![None; collection.fields.len()].into();
    for index in collection.fields.ids().filter(|index| edited_values[*index].as_ref().is_some_and(|value| !value.is_null())) {
        noted[index] = Some(Correction { field: index, caller: caller.into(), at: 0, reason: reason.clone(), corrects: None });
    }
    let empty = Map::new();
    let corrected_fields = match &fields.corrects {
        Json::Null => &empty,
        Json::Object(corrected_fields) => corrected_fields,
        _ => {
            problems.push(format!("{CORRECTS}: it is an object with a member for each field"));
            &empty
        }
    };
    for (name, corrected) in corrected_fields {
        let found = collection.field(name).filter(|(_, field)| field.derive.is_none());
        let Some((index, field)) = found else {
            let editable = collection.fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str());
            problems.push(format!("{CORRECTS}: there is no field `{name}` that can be edited; {}", known_instead(name, editable)));
            continue;
        };
        let Some(correction) = &mut noted[index] else {
            problems.push(format!("{CORRECTS}: the edit gives `{name}` no value, so it corrects none"));
            continue;
        };
        let Json::Object(by_contributor) = corrected else {
            problems.push(format!("{CORRECTS}.{name}: it is an object with the value of each contributor"));
            continue;
        };
        let mut corrects: Vec<(SmolStr, Value)> = Vec::with_capacity(by_contributor.len());
        for (contributor, json) in by_contributor {
            let value = if json.is_null() { Ok(Value::Cleared) } else { strict_from_json(json, &field.ty) };
            match value {
                _ if contributor == API_NAME => problems.push(format!("{CORRECTS}.{name}: `{API_NAME}` is the edit itself")),
                Ok(value) => corrects.push((contributor.into(), value)),
                Err(problem) => problems.push(format!("{CORRECTS}.{name}.{contributor}: {problem}")),
            }
        }
        corrects.sort_by(|(one, _), (other, _)| one.cmp(other));
        correction.corrects = Some(corrects);
    }
    let noted = noted.into_iter().flatten().collect();
    if problems.is_empty() { Ok(NewCorrections { noted, made_at: made.and_then(|made| made.at) }) } else { Err(problems) }
}

fn reason_of(reason: &Json) -> Result<Option<SmolStr>, String> {
    match reason {
        Json::Null => Ok(None),
        Json::String(reason) if reason.contains('\0') => Err(format!("{REASON}: it has a NUL character")),
        Json::String(reason) if reason.chars().count() > MAX_REASON => Err(format!("{REASON}: it has more than {MAX_REASON} characters")),
        Json::String(reason) => Ok(Some(reason.trim()).filter(|reason| !reason.is_empty()).map(SmolStr::from)),
        _ => Err(format!("{REASON}: it is a text that says why the fields are edited")),
    }
}

/// The hash of the contribution of `api`. It does not depend on who made an edit and when, so that an edit that is repeated changes nothing.
pub(super) fn hash_of(content: &ContributionContent, corrections: &[Correction], collection: &Collection) -> Hash {
    let mut packed = Vec::new();
    if let ContributionContent::Values(values) = content {
        for (value, field) in values.iter().zip(&collection.fields).filter(|(value, _)| !value.is_null()) {
            put_bytes(&mut packed, field.name.as_bytes());
            put_value(&mut packed, value);
        }
    }
    for correction in corrections.iter().filter(|correction| correction.reason.is_some() || correction.corrects.is_some()) {
        put_bytes(&mut packed, collection.fields[correction.field].name.as_bytes());
        put_bytes(&mut packed, correction.reason.as_deref().unwrap_or_default().as_bytes());
        packed.push(u8::from(correction.corrects.is_some()));
        for (contributor, value) in correction.corrects.iter().flatten() {
            put_bytes(&mut packed, contributor.as_bytes());
            put_value(&mut packed, value);
        }
    }
    let mut hash = [0; 16];
    hash.copy_from_slice(&blake3::hash(&packed).as_bytes()[..16]);
    hash
}
