//! Declared routes: lookups, transitions and queries under paths of their own. Routes in steps are in `route_steps`.
//!
//! A lookup names a collection and conditions, includes records of other collections by equal fields, and projects the result. Each include is looked
//! up once for all records.

use crate::eval::Expression;
use crate::model::ids::{CollectionId, FieldId};
use crate::model::key::Template;
use crate::value::FieldType;

pub use super::body_schema::BodySchema;
pub use super::route_steps::{
    ComputedOperand, FindKind, FoundBy, MAX_WRITES, ResponseForm, ResponseMedia, RouteFind, RouteResponseBody, RouteWrite, StepsRoute, TagFind,
    TagProperty, TagWrite, WRITTEN, WriteAction,
};

/// A declared route.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its method.
    pub method: Method,
    /// Its path, with parameters in braces.
    pub path: String,
    /// The parameter of the query string by whose value requests come to this route; `None` for those that do not have it.
    pub selector: Option<RouteSelector>,
    /// Its parameters.
    pub params: Vec<Param>,
    /// What it does.
    pub action: RouteAction,
    /// The message if there is no record.
    pub missing: Option<String>,
    /// Whether it needs no token; it then reads and writes nothing.
    pub is_open: bool,
    /// Whether errors are plain text, instead of the form that all routes have.
    pub has_text_errors: bool,
}

impl Route {
    /// Returns the value of its selector; `None` for requests without one, or with an empty one.
    pub fn selected_by(&self) -> Option<&str> {
        self.selector.as_ref().map(|selector| selector.value.as_str()).filter(|value| !value.is_empty())
    }

    /// Returns its path as it is declared, with its selector.
    pub fn declared_path(&self) -> String {
        match &self.selector {
            Some(RouteSelector { param, value }) => format!("{}?{param}={value}", self.path),
            None => self.path.clone(),
        }
    }
}

/// What distinguishes routes of the same method and path: `?param=value` at the end of the path. With an empty value, the route is for requests
/// without the parameter, or with an empty one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSelector {
    /// The parameter.
    pub param: String,
    /// Its value.
    pub value: String,
}

/// HTTP methods of declared routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Reads with a body, or changes.
    Post,
    /// Changes.
    Put,
    /// Changes.
    Patch,
    /// Changes.
    Delete,
}

/// All methods with their keywords.
pub const METHODS: [(Method, &str); 5] =
    [(Method::Get, "get"), (Method::Post, "post"), (Method::Put, "put"), (Method::Patch, "patch"), (Method::Delete, "delete")];

impl Method {
    /// Returns its keyword.
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
    /// Where it is sent.
    pub location: ParamLocation,
    /// The message if it is missing; `None` if it is optional.
    pub required: Option<String>,
    /// The message if it is not of its type; `None` for one that names it.
    pub wrong: Option<String>,
    /// Its default value.
    pub default: Option<crate::value::Value>,
    /// How its value is made if it is not sent.
    pub generate: Option<GeneratedValue>,
    /// What the value, which is JSON, must satisfy.
    pub schema: Option<BodySchema>,
    /// Allowed values; empty for any.
    pub one_of: Vec<crate::value::Value>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// Where a parameter is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamLocation {
    /// In the path.
    Path,
    /// In the query string.
    Query,
    /// A member of the JSON object, or a field of the form, that is the body.
    Body,
    /// The complete body, which is JSON.
    WholeBody,
    /// Not at all: its value is always generated.
    Nowhere,
}

/// A value that the server makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeneratedValue {
    /// A random UUID (version 4).
    Uuid,
    /// Twelve random letters and digits for people to type: no vowels, so that they make no words, and none that look alike.
    Code,
}

/// What a route does.
#[derive(Debug, Clone)]
pub enum RouteAction {
    /// Looks up records.
    Lookup(Box<LookupRoute>),
    /// Applies a transition.
    Transition {
        /// The collection.
        collection: CollectionId,
        /// The transition's position in the collection.
        transition: usize,
        /// The record's key, from parameters.
        key: Template,
        /// The transition's arguments, each with the position of the parameter that gives its value.
        args: Vec<(String, usize)>,
    },
    /// Runs a query; while services are running the response is a ticket to ask for the result again.
    Query(QueryRoute),
    /// Finds records, and then refuses the request, or writes and responds.
    Steps(Box<StepsRoute>),
}

/// A query of a route. Parameters are given by their positions.
#[derive(Debug, Clone)]
pub struct QueryRoute {
    /// The parameter with the query.
    pub query: usize,
    /// The parameter with the number of rows to skip.
    pub offset: Option<usize>,
    /// The parameter with the max number of rows; 0 for all.
    pub limit: Option<usize>,
    /// The parameter with the ticket.
    pub ticket: usize,
    /// The parameter with the form of the response.
    pub view: Option<usize>,
    /// Words that a parameter gives a value if the query has no condition on them.
    pub given: Vec<(String, usize)>,
    /// Whether a row lists what each source contributes to its record.
    pub by_source: bool,
    /// Whether a complete answer of one source of a collection is enough, even if others fail.
    pub one_is_enough: bool,
    /// Whether an invalid query is answered like a failed one, with the reason.
    pub answers_mistakes: bool,
    /// The members of the response.
    pub answer: Vec<(String, QueryPart)>,
}

/// A part of a query's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryPart {
    /// The rows.
    Rows,
    /// The total number of rows, over all pages.
    Total,
    /// `ok`, `partial` or `fail`.
    Status,
    /// Seconds since 1970.
    At,
    /// Seconds that the slowest service took.
    Seconds,
    /// The text of the query.
    Query,
    /// The parsed query: fields, spec, filters, aggregators.
    Parsed,
    /// Whether all answers of services were fresh, so that nothing was fetched.
    Cached,
    /// The sources that the query needs.
    Services,
    /// Why the status is not `ok`.
    Reason,
    /// What is missing although the status is `ok`.
    Warning,
}

/// All parts with their keywords.
pub const QUERY_PARTS: [(&str, QueryPart); 11] = [
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

/// A lookup of a route.
#[derive(Debug, Clone)]
pub struct LookupRoute {
    /// What is looked up and shown.
    pub lookup: Lookup,
    /// Whether equal rows are returned once.
    pub distinct: bool,
    /// How the response is paged.
    pub page: Option<PageParams>,
    /// The members of the response; empty if it is the rows alone.
    pub answer: Vec<(String, LookupPart)>,
}

/// A part of a lookup's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LookupPart {
    /// The rows, or the one record.
    Rows,
    /// The total number of rows, over all pages.
    Total,
}

/// Pages by number; these are positions of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageParams {
    /// The page's number, from 1.
    pub number: usize,
    /// Rows of a page.
    pub size: usize,
    /// If there are more rows than this, none are returned, only their number.
    pub max_rows: Option<usize>,
}

/// The name of a record's tags in what is shown.
pub const TAG: &str = "tag";

/// Records of one collection, what is included with them, and what is shown of them.
#[derive(Debug, Clone)]
pub struct Lookup {
    /// The collection.
    pub collection: CollectionId,
    /// Whether it returns one record, the first by `sort`, instead of a list.
    pub single: bool,
    /// The conditions; the first equality finds the records.
    pub conditions: Vec<LookupCondition>,
    /// More conditions, in the query language: their text is an operand of a route in steps, by its position.
    pub query: Option<usize>,
    /// The order, with true for descending; the key decides between equal records.
    pub sort: Vec<(RecordColumn, bool)>,
    /// What happens to the record it is included with if it finds nothing.
    pub required: IncludeRequirement,
    /// Includes of other collections, by the name of their result.
    pub includes: Vec<(String, Lookup)>,
    /// What is shown, by name; empty for all fields.
    pub projection: Vec<(String, Projection)>,
}

impl Lookup {
    /// Whether it shows the tags of its records.
    pub fn shows_tags(&self) -> bool {
        self.projection.iter().any(|(_, projection)| match projection {
            Projection::Path(path) => path[0] == TAG,
            Projection::Expression(expression) => expression.variables().iter().any(|name| name == TAG),
            Projection::Text(_) => false,
        })
    }

    /// Removes from included records what is not shown: an include without a projection is needed completely only if it is shown as a whole.
    pub(crate) fn trim(&mut self) {
        for (name, include) in &mut self.includes {
            if !self.projection.is_empty() && include.projection.is_empty() {
                let mut is_whole_needed = false;
                let mut members: Vec<String> = Vec::new();
                for (_, projection) in &self.projection {
                    match projection {
                        Projection::Path(path) if path[0] == *name => match path.get(1) {
                            Some(member) if !members.contains(member) => members.push(member.clone()),
                            Some(_) => {}
                            None => is_whole_needed = true,
                        },
                        Projection::Expression(expression) => is_whole_needed |= expression.variables().contains(name),
                        Projection::Path(_) | Projection::Text(_) => {}
                    }
                }
                if !is_whole_needed {
                    // one member must show that a record was found
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
    /// The record it is included with is left out.
    DropRecord,
    /// The route is refused.
    Refuse(u16, String),
}

/// A column of a record that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordColumn {
    /// Its key.
    Key,
    /// A field.
    Field(FieldId),
    /// A state field, by position.
    State(usize),
}

/// A condition of a lookup.
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
    /// Equal to the operand, or to one of its elements.
    Equal,
    /// Text that begins with the operand.
    Prefix,
    /// Text that contains the operand.
    Contains,
    /// Text that matches the operand, a pattern with `*` for any characters.
    Like,
    /// Less than the operand.
    Below,
}

/// Where the operand of a condition comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandSource {
    /// A parameter, by position. If it was not sent there is no condition.
    Param(usize),
    /// A column of the record that this is included with.
    Parent(RecordColumn),
    /// An operand of a route in steps that is computed before the lookup, by its position in the route. If it is null nothing is found.
    Computed(usize),
}

/// What is shown of a record.
#[derive(Debug, Clone)]
pub enum Projection {
    /// A field, an include, or a member of one; null if there is none.
    Path(Vec<String>),
    /// A constant text.
    Text(String),
    /// CEL over fields, includes, `key` and `params`.
    Expression(Expression),
}
