//! Services: those from which documents are fetched when a query needs them, and those from which new documents are collected.

use crate::model::ids::FieldId;
use regex::Regex;

/// Services from which documents are collected that are new since the last time.
#[derive(Debug, Clone)]
pub struct Collect {
    /// The number of their watermarks in a store.
    pub id: u32,
    /// Each service's name, and its URL or the location of its files.
    pub services: Vec<(String, String)>,
    /// How they are asked.
    pub protocol: CollectProtocol,
    /// How long it may take until documents are visible, in microseconds: documents younger than this are not collected yet.
    pub lag: i64,
    /// The publication time at which to begin, in microseconds.
    pub since: Option<i64>,
    /// The prefix of the environment variables that hold credentials.
    pub credentials: Option<String>,
}

/// How services are asked for what is new.
#[derive(Debug, Clone)]
pub enum CollectProtocol {
    /// By OData: for what was published in a time window.
    Odata(OdataService),
    /// By OAI-PMH: for what has changed since a time.
    Oai,
    /// For a list in pages: all of it, or what has changed since a time.
    Pages(PagedService),
    /// Not asked: they are files of a folder, a web server or a bucket ([`FileLocation`](super::FileLocation)).
    Files,
}

/// How services with lists in pages are asked.
#[derive(Debug, Clone)]
pub struct PagedService {
    /// Where the next page is; without it, a list has one page.
    pub page: Option<Pagination>,
    /// The argument that takes the time since which documents have changed; without it, the service is always asked for all.
    pub changed: Option<String>,
    /// Whether that time is passed as seconds since 1970.
    pub epoch: bool,
}

/// How OData services are asked.
#[derive(Debug, Clone)]
pub struct OdataService {
    /// The member with the time of publication.
    pub window: String,
    /// Documents per page.
    pub page: usize,
    /// An additional condition, in the service's language.
    pub filter: Option<String>,
}

/// A service from which documents are fetched when a query needs them. Times are in microseconds.
#[derive(Debug, Clone)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The base URL of its calls; `${NAME}` is taken from the environment.
    pub url: String,
    /// Time for one request.
    pub timeout: i64,
    /// Time for all requests of an answer.
    pub deadline: i64,
    /// Max concurrent requests.
    pub parallel: usize,
    /// Max requests per second.
    pub rate: Option<u32>,
    /// Max attempts of a request.
    pub attempts: u32,
    /// Max bytes of one response.
    pub most_bytes: u64,
    /// How long an answer is fresh, if the response does not say.
    pub ttl: i64,
    /// The same for answers without any document.
    pub ttl_empty: i64,
    /// How long a failed call is not repeated.
    pub ttl_failed: i64,
    /// How long before answers expire they are fetched again, if queries keep needing them.
    pub ahead: Option<i64>,
    /// The service's wildcard for any text in an argument.
    pub wildcard: String,
    /// The prefix of the environment variables that hold credentials.
    pub credentials: Option<String>,
}

/// How a source's documents are fetched from a service. All of its calls return documents of one kind, chosen by their arguments.
#[derive(Debug, Clone)]
pub struct ServiceBinding {
    /// The number of its answers in a store.
    pub id: u32,
    /// The service's position.
    pub service: usize,
    /// Its calls, in the order written.
    pub calls: Vec<ServiceCall>,
}

/// A call of a service.
#[derive(Debug, Clone)]
pub struct ServiceCall {
    /// Its name.
    pub name: String,
    /// Path and constant parameters, appended to the service's URL.
    pub get: String,
    /// Its arguments.
    pub args: Vec<CallArgument>,
    /// How it splits long answers into pages.
    pub page: Option<Pagination>,
    /// Of calls with the same number of arguments, the cheapest is made.
    pub cost: u32,
}

/// An argument of a call: a condition of a query that is passed to the service. Every document of the answer satisfies it.
#[derive(Debug, Clone)]
pub struct CallArgument {
    /// Its name.
    pub name: String,
    /// The field that the condition is on.
    pub field: FieldId,
    /// Which form of condition it takes.
    pub takes: ArgumentForm,
    /// The regular expression that a value must match.
    pub matches: Option<Regex>,
    /// Whether the call cannot be made without it.
    pub required: bool,
    /// The value if the query has no condition on the field.
    pub default: Option<String>,
    /// Whether times are passed as seconds since 1970.
    pub epoch: bool,
    /// Whether it is part of the request; otherwise the call implies the condition.
    pub sent: bool,
}

/// The form of condition that an argument takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentForm {
    /// One value.
    Value,
    /// One value, or a pattern.
    Pattern,
    /// One or several values: the argument is repeated.
    List,
    /// The lower bound.
    From,
    /// The upper bound.
    To,
}

/// How long answers are split into pages.
#[derive(Debug, Clone)]
pub enum Pagination {
    /// By the number of documents to skip, and documents per page.
    Offset {
        /// The argument with the number of documents to skip.
        offset: String,
        /// The argument with the number of documents per page.
        limit: String,
        /// The number of documents per page.
        size: u64,
    },
    /// By the number of the page, from 1 on, and documents per page.
    Number {
        /// The argument with the number of the page.
        number: String,
        /// The argument with the number of documents per page.
        limit: String,
        /// The number of documents per page.
        size: u64,
    },
    /// The member that holds the URL of the next page, such as `next` or `links.next`.
    Next(String),
    /// The header `Link` has the URL of the next page.
    Link,
    /// The element or member that holds a token for the next page, and the argument that takes it (OAI-PMH).
    Token(String, String),
}
