//! Declared routes: aliases of look-ups and transitions under paths of their own.
//!
//! A look-up names a collection and equal fields, includes what other collections have with equal fields, and projects what it
//! found. Everything is looked up in bulk: one look-up for each include, however many records it is for.

use crate::eval::Expression;
use crate::model::ids::{CollectionId, FieldId};
use crate::model::key::Template;
use crate::value::FieldType;

/// A declared route.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: String,
    /// Its parameters.
    pub params: Vec<Param>,
    /// What it does.
    pub action: RouteAction,
    /// What is said where there is no record.
    pub missing: Option<String>,
}

/// Methods of declared routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Asks.
    Get,
    /// Asks with a body, or changes.
    Post,
    /// Changes.
    Put,
    /// Changes.
    Patch,
    /// Changes.
    Delete,
}

/// Every method with its word.
pub const METHODS: [(Method, &str); 5] =
    [(Method::Get, "get"), (Method::Post, "post"), (Method::Put, "put"), (Method::Patch, "patch"), (Method::Delete, "delete")];

impl Method {
    /// Its word in definitions.
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("?", |(_, name)| name)
    }
}

/// A parameter of a route.
#[derive(Debug, Clone)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// Its type; a list takes the parameter repeated.
    pub ty: FieldType,
    /// Where it stands.
    pub place: ParamLocation,
    /// What is said when it is missing; nothing when it may be.
    pub required: Option<String>,
    /// Its value when it is not given, as text of its type.
    pub default: Option<crate::value::Value>,
    /// Allowed values; empty for any.
    pub one_of: Vec<crate::value::Value>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// Where a parameter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamLocation {
    /// In the path.
    Path,
    /// Behind the question mark.
    Query,
    /// A member of the JSON object that is the body.
    Body,
}

/// What a route does.
#[derive(Debug, Clone)]
pub enum RouteAction {
    /// Looks up.
    Lookup(Box<LookupRoute>),
    /// Does a transition.
    Transition {
        /// The collection's index.
        collection: CollectionId,
        /// The transition's index.
        transition: usize,
        /// The record's key, from parameters.
        key: Template,
        /// Arguments of the transition and the parameters (index) that give them.
        args: Vec<(String, usize)>,
    },
    /// Asks a query of the language; where services are still asked the answer is a ticket to come back with.
    Query(QueryRoute),
}

/// A query by a route. Parameters are given by their indexes.
#[derive(Debug, Clone)]
pub struct QueryRoute {
    /// The parameter with the query.
    pub query: usize,
    /// The parameter with how many rows are left out.
    pub offset: Option<usize>,
    /// The parameter with how many rows are answered; 0 for as many as there may be.
    pub limit: Option<usize>,
    /// The parameter with the ticket.
    pub ticket: usize,
    /// Whether a row says what each source says of its record.
    pub by_source: bool,
    /// Whether the complete answer of one source of a collection is enough, whatever the others lack.
    pub one_is_enough: bool,
    /// Whether a query with a mistake is answered like one that failed, with the reason.
    pub answers_mistakes: bool,
    /// Members of the answer.
    pub answer: Vec<(String, QueryPart)>,
}

/// A part of the answer to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryPart {
    /// The rows.
    Rows,
    /// Their number, the page aside.
    Total,
    /// ok, partial or fail.
    Status,
    /// Seconds since 1970.
    At,
    /// Seconds that the services took.
    Seconds,
    /// The query as it was asked.
    Query,
    /// The query in its parts: fields, spec, filters, aggregators.
    Parsed,
    /// Whether nobody had to be asked.
    Cached,
    /// The sources that were asked.
    Services,
    /// Why it is not ok.
    Reason,
    /// What was missing although it is ok.
    Warning,
}

/// All of these with their words.
pub const ASK_PARTS: [(&str, QueryPart); 11] = [
    ("rows", QueryPart::Rows),
    ("total", QueryPart::Total),
    ("status", QueryPart::Status),
    ("at", QueryPart::At),
    ("seconds", QueryPart::Seconds),
    ("query", QueryPart::Query),
    ("parsed", QueryPart::Parsed),
    ("cached", QueryPart::Cached),
    ("services", QueryPart::Services),
    ("reason", QueryPart::Reason),
    ("warning", QueryPart::Warning),
];

/// A look-up of a route.
#[derive(Debug, Clone)]
pub struct LookupRoute {
    /// What is looked up and shown.
    pub lookup: Lookup,
    /// Equal rows once.
    pub distinct: bool,
    /// The part of the rows that is answered.
    pub page: Option<PageParams>,
    /// Members of the answer; none for the rows alone.
    pub answer: Vec<(String, LookupPart)>,
}

/// A part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupPart {
    /// The rows, or the one record.
    Rows,
    /// Their number, the page aside.
    Total,
}

/// A page by number. The indexes are parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageParams {
    /// From 1.
    pub number: usize,
    /// Rows of a page.
    pub size: usize,
    /// When there are more rows than this, none are answered, but their number is.
    pub max_rows: Option<usize>,
}

/// Records of one collection, what is included with them, and what is shown of them.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// The collection's index.
    pub collection: CollectionId,
    /// One record, the first by `sort`, rather than a list.
    pub single: bool,
    /// What must hold; the first equality finds the records.
    pub conditions: Vec<LookupCondition>,
    /// Order; the key decides between equals.
    pub sort: Vec<(RecordColumn, bool)>,
    /// A record for which it finds nothing is left out, or the route is refused with a status and a sentence.
    pub required: IncludeRequirement,
    /// Other collections, by the name under which what is found is known.
    pub includes: Vec<(String, Lookup)>,
    /// What is shown: name and value. Nothing for all fields.
    pub projection: Vec<(String, Projection)>,
}

impl Lookup {
    /// Leaves out of included records what nothing shows: an include that names no fields is whole only where it is shown whole.
    pub(crate) fn trim(&mut self) {
        for (name, include) in &mut self.includes {
            if !self.projection.is_empty() && include.projection.is_empty() {
                let mut whole = false;
                let mut members: Vec<String> = Vec::new();
                for (_, leaf) in &self.projection {
                    match leaf {
                        Projection::Path(path) if path[0] == *name => match path.get(1) {
                            Some(member) if !members.contains(member) => members.push(member.clone()),
                            Some(_) => {}
                            None => whole = true,
                        },
                        Projection::Expression(expression) => whole |= expression.variables().contains(name),
                        Projection::Path(_) | Projection::Text(_) => {}
                    }
                }
                if !whole {
                    // something must say that a record was found
                    members = if members.is_empty() { vec!["key".into()] } else { members };
                    include.projection = members.into_iter().map(|member| (member.clone(), Projection::Path(vec![member]))).collect();
                }
            }
            include.trim();
        }
    }
}

/// What happens when an include finds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncludeRequirement {
    /// It is null, or an empty list.
    Optional,
    /// The record it is for is left out.
    DropRecord,
    /// The route is refused.
    Refuse(u16, String),
}

/// A part of a record that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordColumn {
    /// Its key.
    Key,
    /// A field, by index.
    Field(FieldId),
    /// A state field, by index.
    State(usize),
}

/// A condition of a look-up.
#[derive(Debug, Clone)]
pub struct LookupCondition {
    /// What is compared.
    pub column: RecordColumn,
    /// How.
    pub comparison: MatchKind,
    /// With what.
    pub operand: OperandSource,
}

/// How a field is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchKind {
    /// Equal to it, or to one of them.
    Equal,
    /// Text that begins so.
    Prefix,
    /// Text that has it inside.
    Contains,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandSource {
    /// A parameter, by index. One that is not given is no condition.
    Param(usize),
    /// The record that this is included with.
    Parent(RecordColumn),
}

/// What is shown of a record.
#[derive(Debug, Clone)]
pub enum Projection {
    /// A field, an include, or something inside: null where there is nothing.
    Path(Vec<String>),
    /// A text that is always the same.
    Text(String),
    /// CEL over fields, includes, `key` and `params`.
    Expression(Expression),
}
