//! What is answered to an edit that was done: the same, word for word, when the same call is sent again.

use super::edit::EditResult;
use crate::records::record::to_json;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use stook_catalogue::definition::Collection;
use stook_store::Version;

/// The member of an edit's answer that says, by field, why what was said of it had no effect. No field has such a name.
pub const OVERRULED: &str = "$overruled";

/// The member of an edit's answer that says which expressions fail on the record. No field has such a name.
pub const WARNINGS: &str = "$warnings";

/// What is answered to an edit that was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EditAnswer {
    /// Whether the record did not exist before.
    pub created: bool,
    /// Its key.
    pub key: String,
    /// Its content, with what has to be said of it; nothing where it is gone.
    pub record: Option<Json>,
    revision: i64,
    touches: i64,
}

impl EditAnswer {
    /// The version that the edit has made.
    pub fn version(&self) -> Version {
        Version::new(self.revision, self.touches)
    }
}

impl EditResult {
    /// Takes over from the commit what the store gives a record that is written.
    pub(super) fn committed(&mut self, committed_at: i64) {
        if let EditResult::Done { record, changed: true, .. } = self {
            record.version.revision = committed_at.max(record.version.revision + 1);
        }
    }

    /// What is answered, if the edit was done.
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
