//! Routes in steps: records are found by name, the request is refused or written, and the response is made of what was found.

use super::definition::Refusal;
use super::ids::{CollectionId, FieldId};
use super::route::{IncludeRequirement, LookupRoute, Projection};
use crate::eval::Expression;
use crate::value::FieldType;
use std::ops::Range;

/// Max records that one request writes.
pub const MAX_WRITES: usize = 1_000;

/// A route in steps.
#[derive(Debug, Clone)]
pub struct StepsRoute {
    /// What is found, each by its name, one after the other.
    pub finds: Vec<RouteFind>,
    /// The operands of conditions that are computed.
    pub computed: Vec<ComputedOperand>,
    /// Conditions under which the request is refused, each with the number of finds that it needs.
    pub refusals: Vec<(usize, Refusal)>,
    /// What is written, in one transaction.
    pub writes: Vec<RouteWrite>,
    /// The response.
    pub response: ResponseForm,
    /// Whether the response needs what was written, so that it is made after the write.
    pub is_answered_after_write: bool,
}

/// The name of what has been written in expressions: `keys` of records, and the first of these as `key`; of a tag what has become of it.
pub const WRITTEN: &str = "written";

/// Records that a route finds.
#[derive(Debug, Clone)]
pub struct RouteFind {
    /// The name by which later expressions refer to them.
    pub name: String,
    /// The condition under which they are looked for; otherwise nothing is found.
    pub when: Option<Expression>,
    /// What is looked for.
    pub kind: FindKind,
    /// Its computed operands, by their positions in the route.
    pub computed: Range<usize>,
    /// Whether it is looked for after the write, because it names what was `written`.
    pub is_after_write: bool,
}

impl RouteFind {
    /// What is done if nothing is found.
    pub fn required(&self) -> &IncludeRequirement {
        match &self.kind {
            FindKind::Records(route) => &route.lookup.required,
            FindKind::Tags(find) => &find.required,
        }
    }
}

/// What a find looks for.
#[derive(Debug, Clone)]
pub enum FindKind {
    /// Records. If the lookup has a page, the result has the members `rows` and `total`.
    Records(Box<LookupRoute>),
    /// The tags of a collection, or one of them.
    Tags(TagFind),
}

/// Tags that a route finds.
#[derive(Debug, Clone)]
pub struct TagFind {
    /// The collection.
    pub collection: CollectionId,
    /// The name of the one tag that is found; all tags without it.
    pub name: Option<Expression>,
    /// What is done if there is none.
    pub required: IncludeRequirement,
}

/// An operand of a condition that is computed from parameters and from what was found before.
#[derive(Debug, Clone)]
pub struct ComputedOperand {
    /// The expression; a list is one of its elements.
    pub expression: Expression,
    /// The type of the column that it is compared with, or of its elements.
    pub ty: FieldType,
}

/// How the records of a write are named.
#[derive(Debug, Clone)]
pub enum FoundBy {
    /// By the key of the record, or the name of the tag, an expression.
    Key(Expression),
    /// By conditions of the query language, an expression: one of the records that they find, never the same one for two requests at a time.
    Query(Expression),
    /// By the fields that are written.
    Fields,
}

/// Records that a route writes.
#[derive(Debug, Clone)]
pub struct RouteWrite {
    /// The collection.
    pub collection: CollectionId,
    /// The list for each of whose elements, called `item`, a record is written; one record if there is none.
    pub each: Option<Expression>,
    /// The condition under which it is written.
    pub when: Option<Expression>,
    /// The record.
    pub record: FoundBy,
    /// What is done.
    pub action: WriteAction,
    /// The status and message if the record or tag exists already, or a unique value is taken.
    pub taken: Option<(u16, String)>,
    /// The status and message if there is no record that a query finds and that allows the transition.
    pub required: Option<(u16, String)>,
}

impl RouteWrite {
    /// Whether it is a transaction of its own, and so the only write of its route.
    pub fn stands_alone(&self) -> bool {
        matches!(self.record, FoundBy::Query(_)) || matches!(self.action, WriteAction::Tag(_))
    }
}

/// What is done with a record.
#[derive(Debug, Clone)]
pub enum WriteAction {
    /// It must be new.
    Create(Vec<(FieldId, Expression)>),
    /// It gets these fields, and no others that a route or an edit has written.
    Put(Vec<(FieldId, Expression)>),
    /// These fields change.
    Patch(Vec<(FieldId, Expression)>),
    /// It is deleted.
    Delete,
    /// A transition, by its position in the collection, with the values of its arguments.
    Transition(usize, Vec<(String, Expression)>),
    /// A change of a tag.
    Tag(TagWrite),
}

/// What is done with a tag.
#[derive(Debug, Clone)]
pub enum TagWrite {
    /// It must be new, and gets these properties.
    Create(Vec<(TagProperty, Expression)>),
    /// These properties change, as far as they are not null.
    Change(Vec<(TagProperty, Expression)>),
    /// It is deleted, if it exists.
    Delete,
    /// Its XPath is evaluated again for all records.
    Evaluate,
    /// It is given to records, and removed from others.
    Assign {
        /// The keys of those that gain it.
        add: Option<Expression>,
        /// The keys of those that lose it.
        remove: Option<Expression>,
    },
}

/// A property of a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagProperty {
    /// Its name.
    Name,
    /// Its XPath.
    XPath,
    /// Its query.
    Query,
    /// Its comment.
    Comment,
    /// An attribute that the definition declares.
    Attribute(String),
}

/// The response of a route in steps.
#[derive(Debug, Clone)]
pub struct ResponseForm {
    /// HTTP status.
    pub status: u16,
    /// Its media type.
    pub media: ResponseMedia,
    /// Its body.
    pub body: RouteResponseBody,
}

/// The media type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMedia {
    /// `application/json`.
    Json,
    /// `text/plain`.
    Text,
}

impl RouteResponseBody {
    /// The values that it is made of.
    pub(crate) fn projections(&self) -> impl Iterator<Item = &Projection> {
        let (value, members) = match self {
            RouteResponseBody::Empty => (None, &[][..]),
            RouteResponseBody::Value(value) => (Some(value), &[][..]),
            RouteResponseBody::Members(members) => (None, members.as_slice()),
        };
        value.into_iter().chain(members.iter().map(|(_, value)| value))
    }
}

/// The body of a response.
#[derive(Debug, Clone)]
pub enum RouteResponseBody {
    /// None.
    Empty,
    /// One value.
    Value(Projection),
    /// An object with these members.
    Members(Vec<(String, Projection)>),
}
