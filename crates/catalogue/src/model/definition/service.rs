//! Services: those that are asked when a query needs what they know, and those from which new documents are collected.

use crate::model::ids::FieldId;
use regex::Regex;

/// OData services that are asked for what they have published in a window of time.
#[derive(Debug, Clone)]
pub struct Collect {
    /// The number of their journals in a store.
    pub id: u32,
    /// Each with its name, and the URL of its entities.
    pub services: Vec<(String, String)>,
    /// The member that says when a document was published.
    pub window: String,
    /// Documents of a page.
    pub page: usize,
    /// How long documents may take to be seen, in microseconds: what is younger is not asked for.
    pub lag: i64,
    /// Where to begin, in microseconds.
    pub since: Option<i64>,
    /// A condition of its own, in the service's language.
    pub filter: Option<String>,
    /// How the names of credentials begin in the environment.
    pub credentials: Option<String>,
}

/// A service that is asked when a query needs what it knows. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The URL to which the paths of its calls are added; `${NAME}` is taken from the environment.
    pub url: String,
    /// Time for one request.
    pub timeout: i64,
    /// Time for all requests of an answer.
    pub deadline: i64,
    /// Requests at a time.
    pub parallel: usize,
    /// Requests a second.
    pub rate: Option<u32>,
    /// How often a request is tried.
    pub attempts: u32,
    /// Most bytes of one response.
    pub most_bytes: u64,
    /// How long an answer is fresh, where the response does not say.
    pub ttl: i64,
    /// The same for answers without any document.
    pub ttl_empty: i64,
    /// How long it is not asked the same again after it has failed.
    pub ttl_failed: i64,
    /// How long before they are no longer fresh answers are asked for again that queries go on needing.
    pub ahead: Option<i64>,
    /// What stands for any text in an argument.
    pub wildcard: String,
    /// How the names of credentials begin in the environment.
    pub credentials: Option<String>,
}

/// How a source's service is asked. All of its calls give documents of one kind, chosen by their arguments.
#[derive(Debug, Clone)]
pub struct ServiceBinding {
    /// The number of its answers in a store.
    pub id: u32,
    /// The service's index.
    pub service: usize,
    /// Its calls, in the order written.
    pub calls: Vec<ServiceCall>,
}

/// A call of a service.
#[derive(Debug, Clone)]
pub struct ServiceCall {
    /// Its name.
    pub name: String,
    /// Path and constant parameters, after the service's URL.
    pub get: String,
    /// Its arguments.
    pub args: Vec<CallArgument>,
    /// How it cuts long answers.
    pub page: Option<Pagination>,
    /// Among calls with as many arguments the cheapest is made.
    pub cost: u32,
}

/// An argument of a call: a condition of a query that is sent to the service. Every document of the answer satisfies it.
#[derive(Debug, Clone)]
pub struct CallArgument {
    /// Its name.
    pub name: String,
    /// The field, by index, of the collection that is fed.
    pub field: FieldId,
    /// What of the condition it takes.
    pub takes: ArgumentForm,
    /// What a value must look like.
    pub matches: Option<Regex>,
    /// Whether the call cannot be made without it.
    pub required: bool,
    /// What is said where the query says nothing.
    pub default: Option<String>,
    /// Times as seconds since 1970.
    pub epoch: bool,
}

/// What an argument takes of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// One value.
    Value,
    /// One value, or a pattern.
    Pattern,
    /// One value, or several: the argument is repeated.
    List,
    /// The lower bound.
    From,
    /// The upper bound.
    To,
}

/// How long answers are cut.
#[derive(Debug, Clone)]
pub enum Pagination {
    /// By number: documents to leave out, and documents of a page.
    Offset {
        /// The argument with how many documents are left out.
        offset: String,
        /// The argument with how many documents there are on a page.
        limit: String,
        /// How many are asked for.
        size: u64,
    },
    /// The top object's member that holds the URL of what follows.
    Next(String),
    /// The element that holds a token, and the argument that takes it (OAI-PMH).
    Token(String, String),
}
