//! Fields of a collection, and the rules by which their golden values are chosen.

use crate::model::ids::SourceId;
use crate::model::links::derivation::Derivation;
use crate::value::{FieldType, Value};

/// Who has a say in a field: a source, or edits through the API, which have no entry among the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceRef {
    /// The source with this index.
    Source(SourceId),
    /// Edits through the API.
    Api,
}

/// The name that edits through the API go by, where sources have theirs.
pub const API_NAME: &str = "api";

/// A golden field.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Type of contributed values.
    pub ty: FieldType,
    /// A document that feeds this collection must give a value.
    pub required: bool,
    /// Questions answered by index.
    pub index: FieldIndexes,
    /// One record per value.
    pub unique: bool,
    /// Compared by [`crate::value::fold::fold`].
    pub fold: bool,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
    /// How it follows from other fields, instead of being contributed.
    pub derive: Option<Derivation>,
    /// Which contribution wins.
    pub survivorship: Survivorship,
    /// Sources that may say it; `None` for all.
    pub from: Option<Vec<SourceRef>>,
    /// Disagreement is a conflict.
    pub compare: bool,
}

impl Field {
    /// Whether it is a member of the structs in another field: it can be asked for, and is shown with them.
    pub fn is_member(&self) -> bool {
        matches!(self.derive, Some(Derivation::Member(..)))
    }

    /// Whether the settle machine gives the value.
    pub fn is_settled(&self) -> bool {
        self.derive.as_ref().is_some_and(Derivation::is_settled)
    }

    /// Whether it holds the key of a linked record.
    pub fn is_link(&self) -> bool {
        matches!(self.derive, Some(Derivation::Pending | Derivation::LinkKeys(_) | Derivation::TargetKey(..)))
    }

    /// Type of golden values: JSON for fields kept by contributor. Nobody contributes what is derived, whatever the collection's rule is.
    pub fn golden_type(&self) -> &FieldType {
        match (&self.survivorship, &self.derive) {
            (Survivorship::ByContributor, None) => &FieldType::Json,
            _ => &self.ty,
        }
    }
}

/// Questions a store answers without reading every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldIndexes {
    /// Equality, ranges, order and prefixes: one ordered index.
    pub ordered: bool,
    /// Text anywhere inside.
    pub contains: bool,
    /// How geometries lie: boxes around them.
    pub intersects: bool,
    /// Equality, for settling alone: the children of a link that is [only read](crate::model::links::Link::is_only_read), if it is not ordered.
    pub by_link: bool,
}

/// Which contribution's value becomes golden. Ties on `as_of` are broken by reception, where sources say so,
/// then content hash, then contributor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survivorship {
    /// The newest contribution that says something.
    Latest,
    /// The oldest contribution that says something.
    Earliest,
    /// By trust, then by time.
    Prefer {
        /// Sources, most trusted first.
        sources: Vec<SourceRef>,
        /// Whether the oldest instead of the newest decides among equals.
        then_earliest: bool,
    },
    /// All values of all contributions, oldest first, each once.
    Union,
    /// The structs of all contributions; those that have the same value of this member are one, and its other members have their newest
    /// values.
    UnionBy(usize),
    /// A mapping from contributor to its value.
    ByContributor,
}

impl Survivorship {
    /// Whether several contributors' values become one.
    pub fn combines(&self) -> bool {
        matches!(self, Survivorship::Union | Survivorship::UnionBy(_) | Survivorship::ByContributor)
    }
}
