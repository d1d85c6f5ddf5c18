//! What of a collection is published for other systems, and how their protocols name it.

use crate::eval::Expression;

/// The elements of simple Dublin Core, in the order of its schema.
pub const DUBLIN_CORE: [&str; 15] = [
    "title",
    "creator",
    "subject",
    "description",
    "publisher",
    "contributor",
    "date",
    "type",
    "format",
    "identifier",
    "source",
    "language",
    "relation",
    "coverage",
    "rights",
];

/// `publish:`. How the records of a collection are shown to other systems.
#[derive(Debug, Clone)]
pub struct Publication {
    /// Elements of Dublin Core by their position in [`DUBLIN_CORE`], each with expressions over the fields of a record, which give a value or a list.
    pub elements: Vec<(usize, Vec<Expression>)>,
    /// Whether its records have MARC documents.
    pub has_marc: bool,
}

/// `serve: { repository: ... }`. How the catalogue presents itself to systems that fetch from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Its name.
    pub name: String,
    /// The address of the people who run it.
    pub email: String,
    /// The namespace of its identifiers: a domain.
    pub domain: String,
    /// The URL of the server as others see it; `None` for the one that a request was sent to.
    pub url: Option<String>,
}
