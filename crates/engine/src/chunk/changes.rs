//! What chunks change in the catalogue, in numbers, and which issues they have most: gathered while chunks are processed, for the end of an import.
//!
//! The numbers are those of when chunks are prepared. A record that another writer changes at the same moment is merged again, which they leave out;
//! the journal is exact.

use std::collections::BTreeMap;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_store::journal::Issue;
use stook_store::{RecordChange, StoredRecord};

/// Kinds of issues that are told apart.
const MAX_KINDS: usize = 200;

/// How a write changes a record that readers see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordDifference {
    /// It did not exist before.
    Created {
        /// Whether contributors disagree.
        is_in_conflict: bool,
    },
    /// Its values change.
    Changed {
        /// The fields that change.
        fields: Vec<FieldId>,
        /// Whether contributors disagree about a field about which they did not before.
        is_in_conflict: bool,
    },
    /// It does not exist any more.
    Deleted,
}

impl RecordDifference {
    /// The difference that a write makes, if there is one.
    pub(crate) fn of(stored: Option<&StoredRecord>, change: &RecordChange) -> Option<Self> {
        let stored = stored.filter(|record| record.exists);
        let content = match change {
            RecordChange::Put(content) => content,
            RecordChange::Delete => return stored.map(|_| Self::Deleted),
            RecordChange::Touch { .. } | RecordChange::State { .. } | RecordChange::Settle(_) => return None,
        };
        match (stored, content.exists) {
            (None, true) => Some(Self::Created { is_in_conflict: !content.conflicts.is_empty() }),
            (Some(_), false) => Some(Self::Deleted),
            (None, false) => None,
            (Some(record), true) => {
                let pairs = record.golden.iter().zip(content.golden.iter()).enumerate();
                let fields: Vec<FieldId> = pairs.filter(|(_, (before, after))| before != after).map(|(index, _)| FieldId::from(index)).collect();
                let is_in_conflict = content.conflicts.iter().any(|field| !record.conflicts.contains(field));
                (!fields.is_empty() || is_in_conflict).then_some(Self::Changed { fields, is_in_conflict })
            }
        }
    }
}

/// The changes of one collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CollectionChanges {
    /// Records that are new.
    pub created: u64,
    /// Records whose values changed; more than once if several chunks change one.
    pub changed: u64,
    /// Records that do not exist any more.
    pub deleted: u64,
    /// How often each field changed.
    pub fields: BTreeMap<FieldId, u64>,
    /// Records about which contributors disagree and did not before.
    pub conflicts: u64,
}

/// Issues that differ in the value only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueKind {
    /// How many there are.
    pub count: u64,
    /// The first of them.
    pub example: Issue,
}

/// What chunks change, and their issues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// The changes of each collection.
    pub collections: BTreeMap<CollectionId, CollectionChanges>,
    /// Issues by what all of one kind have in common.
    pub issues: BTreeMap<String, IssueKind>,
}

impl ChangeSummary {
    pub(super) fn note(&mut self, collection: CollectionId, difference: &RecordDifference) {
        let changes = self.collections.entry(collection).or_default();
        match difference {
            RecordDifference::Created { is_in_conflict } => {
                changes.created += 1;
                changes.conflicts += u64::from(*is_in_conflict);
            }
            RecordDifference::Changed { fields, is_in_conflict } => {
                changes.changed += u64::from(!fields.is_empty());
                changes.conflicts += u64::from(*is_in_conflict);
                fields.iter().for_each(|field| *changes.fields.entry(*field).or_default() += 1);
            }
            RecordDifference::Deleted => changes.deleted += 1,
        }
    }

    pub(super) fn note_issue(&mut self, issue: &Issue) {
        self.add_issues(kind_of(&issue.reason), IssueKind { count: 1, example: issue.clone() });
    }

    fn add_issues(&mut self, kind: String, issues: IssueKind) {
        if let Some(known) = self.issues.get_mut(&kind) {
            known.count += issues.count;
            if issues.example.document < known.example.document {
                known.example = issues.example;
            }
        } else if self.issues.len() < MAX_KINDS {
            self.issues.insert(kind, issues);
        }
    }

    /// Adds what another chunk changes.
    pub fn include(&mut self, other: Self) {
        for (collection, more) in other.collections {
            let changes = self.collections.entry(collection).or_default();
            changes.created += more.created;
            changes.changed += more.changed;
            changes.deleted += more.deleted;
            changes.conflicts += more.conflicts;
            more.fields.into_iter().for_each(|(field, count)| *changes.fields.entry(field).or_default() += count);
        }
        other.issues.into_iter().for_each(|(kind, issues)| self.add_issues(kind, issues));
    }

    /// The kinds of issues with most of them first.
    pub fn most_frequent(&self) -> Vec<&IssueKind> {
        let mut kinds: Vec<&IssueKind> = self.issues.values().collect();
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.count), kind.example.document));
        kinds
    }
}

/// A reason without what differs from document to document: quoted values and numbers.
fn kind_of(reason: &str) -> String {
    let (mut kind, mut is_quoted, mut is_escaped) = (String::new(), false, false);
    for character in reason.chars().take(400) {
        match character {
            '"' if !is_escaped => {
                is_quoted = !is_quoted;
                kind.push('"');
            }
            _ if is_quoted => {}
            digit if digit.is_ascii_digit() => {
                if !kind.ends_with('#') {
                    kind.push('#');
                }
            }
            other => kind.push(other),
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_about_other_values_are_of_one_kind() {
        assert_eq!(kind_of(r#"pages: "ninety" is not an integer"#), kind_of(r#"pages: "say \"ten\"" is not an integer"#));
        assert_eq!(kind_of("the row has 3 values, the header has 12"), kind_of("the row has 14 values, the header has 12"));
        assert_ne!(kind_of(r#"pages: "x" is not an integer"#), kind_of(r#"year: "x" is not an integer"#));
    }

    #[test]
    fn summaries_of_chunks_add_up_in_any_order() {
        let issue = |document: u64, reason: &str| Issue {
            document,
            file: 0,
            record: document,
            offset: 0,
            key: None,
            failed: false,
            reason: reason.to_owned(),
        };
        let (mut one, mut other) = (ChangeSummary::default(), ChangeSummary::default());
        one.note(CollectionId::from(0), &RecordDifference::Created { is_in_conflict: false });
        one.note_issue(&issue(7, r#"a: "x""#));
        other.note(CollectionId::from(0), &RecordDifference::Changed { fields: vec![FieldId::from(1)], is_in_conflict: true });
        other.note_issue(&issue(3, r#"a: "y""#));
        other.note_issue(&issue(4, "b"));
        let (mut forth, mut back) = (one.clone(), other.clone());
        forth.include(other);
        back.include(one);
        assert_eq!(forth, back);
        let frequent = forth.most_frequent();
        assert_eq!((frequent[0].count, frequent[0].example.document, frequent.len()), (2, 3, 2));
    }
}
