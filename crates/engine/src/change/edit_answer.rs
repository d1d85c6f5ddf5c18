//! The answer to an edit that was done; a repeated request with the same idempotency key gets exactly the same.

use super::edit::EditResult;
use crate::records::record::to_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use stook_catalogue::definition::Collection;
use stook_store::Version;

/// The member of an edit's answer that gives, by field, the reason why its value had no effect. No field can have this name.
pub const OVERRULED: &str = "$overruled";

/// The member of an edit's answer that lists the expressions that failed for the record, and what a record that was to be deleted remains for. No field
/// can have this name.
pub const WARNINGS: &str = "$warnings";

/// The answer to an edit that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditAnswer {
    /// Whether the record did not exist before.
    pub created: bool,
    /// Its key.
    pub key: String,
    /// Its content, with these two members if they apply; `None` if the record was deleted.
    pub record: Option<Json>,
    revision: i64,
    touches: i64,
}

impl EditAnswer {
    /// The version of the record after the edit.
    pub fn version(&self) -> Version {
        Version::new(self.revision, self.touches)
    }
}

impl EditResult {
    /// Sets the revision that the store gives a record that is written.
    pub(super) fn committed(&mut self, committed_at: i64) {
        if let EditResult::Done { record, changed: true, .. } = self {
            record.version.revision = committed_at.max(record.version.revision + 1);
        }
    }

    /// The answer, if the edit was done.
    pub fn answer(&self, collection: &Collection) -> Option<EditAnswer> {
        let EditResult::Done { created, record, overruled, failures, .. } = self else { return None };
        let mut shown = to_json(collection, record);
        if let Some(members) = shown.as_object_mut() {
            let reasons: Map<String, Json> = overruled.iter().map(|own| (own.field.clone(), own.reason.as_str().into())).collect();
            members.extend((!reasons.is_empty()).then(|| (OVERRULED.to_owned(), reasons.into())));
            members.extend((!failures.is_empty()).then(|| (WARNINGS.to_owned(), failures.as_slice().into())));
        }
        let Version { revision, touches, .. } = record.version;
        Some(EditAnswer { created: *created, key: record.key.to_string(), record: record.exists.then_some(shown), revision, touches })
    }
}
