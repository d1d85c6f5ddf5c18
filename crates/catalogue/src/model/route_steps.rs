//! Routes in steps: records are found by name, the request is refused or written, and the response is made of what was found.

use super::definition::Refusal;
use super::ids::{CollectionId, FieldId};
use super::route::{LookupRoute, Projection};
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
}

/// Records that a route finds.
#[derive(Debug, Clone)]
pub struct RouteFind {
    /// The name by which later expressions refer to them.
    pub name: String,
    /// The condition under which they are looked for; otherwise nothing is found.
    pub when: Option<Expression>,
    /// The lookup. If it has a page, the result has the members `rows` and `total`.
    pub lookup: LookupRoute,
    /// Its computed operands, by their positions in the route.
    pub computed: Range<usize>,
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
    /// By the key, an expression.
    Key(Expression),
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
    /// The status and message if the record exists already, or a unique value is taken.
    pub taken: Option<(u16, String)>,
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
