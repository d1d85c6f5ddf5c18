//! Fields of a collection, and the rules by which their golden values are chosen.

use super::comparison::Comparison;
use crate::model::ids::SourceId;
use crate::model::links::derivation::Derivation;
use crate::value::{FieldType, Value};

/// A contributor without its part: a source, or edits through the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceRef {
    /// A source.
    Source(SourceId),
    /// Edits through the API.
    Api,
}

/// The contributor name of edits through the API.
pub const API_NAME: &str = "api";

/// A field of a collection.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Type of contributed values.
    pub ty: FieldType,
    /// Whether a document that feeds this collection fails without a value.
    pub required: bool,
    /// Conditions that indexes answer.
    pub index: FieldIndexes,
    /// Whether no two records may have the same value.
    pub unique: bool,
    /// Whether values are compared after [`crate::value::fold::fold`].
    pub fold: bool,
    /// Allowed values; empty for any.
    pub one_of: Vec<Value>,
    /// How it is derived from other fields, instead of being contributed.
    pub derive: Option<Derivation>,
    /// How its golden value is chosen.
    pub survivorship: Survivorship,
    /// Sources that may contribute to it; `None` for all.
    pub from: Option<Vec<SourceRef>>,
    /// When values that contributors give are a conflict; `None` if they never are.
    pub compare: Option<Comparison>,
}

impl Field {
    /// Whether it is a member of the structs in another field: queries can use it, and it is shown in the structs.
    pub fn is_member(&self) -> bool {
        matches!(self.derive, Some(Derivation::Member(..)))
    }

    /// Whether settling computes its value.
    pub fn is_settled(&self) -> bool {
        self.derive.as_ref().is_some_and(Derivation::is_settled)
    }

    /// Whether it holds the key of a linked record.
    pub fn is_link(&self) -> bool {
        matches!(self.derive, Some(Derivation::Pending | Derivation::LinkKeys(_) | Derivation::TargetKey(..)))
    }

    /// Returns the type of golden values, which is JSON for contributed fields kept by contributor.
    pub fn golden_type(&self) -> &FieldType {
        match (&self.survivorship, &self.derive) {
            (Survivorship::ByContributor, None) => &FieldType::Json,
            _ => &self.ty,
        }
    }
}

/// Conditions that a store answers without reading every record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FieldIndexes {
    /// Equality, ranges, order and prefixes, by one ordered index.
    pub ordered: bool,
    /// Text that contains another text.
    pub contains: bool,
    /// Relations of geometries, by the boxes around them.
    pub intersects: bool,
    /// Words of texts.
    pub words: bool,
    /// Equality, only for settling: finds the children of a link that is [only read](crate::model::links::Link::is_only_read), if there is no ordered
    /// index.
    pub by_link: bool,
}

/// How a golden value is chosen from contributions. Contributions with equal `as_of` are ordered by reception if the source says so, then by content
/// hash, then by contributor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Survivorship {
    /// The newest contribution with a value.
    Latest,
    /// The oldest contribution with a value.
    Earliest,
    /// By the order of sources, then by time.
    Prefer {
        /// Sources, most trusted first.
        sources: Vec<SourceRef>,
        /// Whether the oldest, not the newest, contribution of equally trusted sources wins.
        then_earliest: bool,
    },
    /// All values of all contributions, oldest first, each once.
    Union,
    /// The structs of all contributions. Structs with the same value of this member are merged; their other members have the newest values.
    UnionBy(usize),
    /// An object with the value of each contributor.
    ByContributor,
}

impl Survivorship {
    /// Whether values of several contributors are combined.
    pub fn combines(&self) -> bool {
        matches!(self, Survivorship::Union | Survivorship::UnionBy(_) | Survivorship::ByContributor)
    }
}
