//! A checked definition: what the other crates work with. [`crate::parse`] makes one from text.

mod alias;
mod collection;
mod comparison;
mod composition;
mod expectation;
mod field;
mod file_location;
mod file_pattern;
mod pattern;
mod profile;
mod publish;
mod rule;
mod service;
mod source;
mod tags;
mod transition;

pub use alias::{AliasTarget, QueryAlias};
pub use collection::{Collection, ExistenceRule, KeyDefinition};
pub use comparison::Comparison;
pub use composition::{Composition, ProtectedFields};
pub use expectation::{DocumentsExpectation, Expectation, ExpectationTest, FieldExpectation, ValueExpectation};
pub use field::{API_NAME, Field, FieldIndexes, SourceRef, Survivorship};
pub use file_location::{FileLocation, FilesOfFolder};
pub use file_pattern::{FilePattern, file_name};
pub use pattern::{Captures, NamedRegex, PatternSet};
pub use profile::{OnMatched, OnUnmatched, Profile, TenantShare};
pub use publish::{DUBLIN_CORE, Publication, Repository};
pub use rule::{ValueOrigin, ValueRule};
pub use service::{
    ArgumentForm, CallArgument, Collect, CollectProtocol, OdataService, PagedService, Pagination, Service, ServiceBinding, ServiceCall,
};
pub use source::{
    AcceptRule, AsOfRule, CompleteDelivery, CompleteFiles, CsvEncoding, CsvOptions, DocumentOptions, DocumentOrder, EmbeddedDocument, Feed, FeedEach,
    FieldMapping, FormatFamily, LetValue, MAX_MISSING_PERCENT, MergedCells, Source,
};
pub use tags::{JoinedAttribute, TagAttribute, TagDocument, TagSettings};
pub use transition::{Refusal, StateField, Transition, TransitionArgument};

use crate::eval::ConstantTables;
use crate::model::ids::{CollectionId, IdVec, LinkId, SourceId};
use crate::model::links::coverage::Coverage;
use crate::model::links::link::Link;
use crate::model::route::Route;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file of named areas that belongs to a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaFile {
    /// The name by which expressions refer to it.
    pub name: String,
    /// Its path relative to the definition's folder.
    pub file: String,
    /// BLAKE3 of its contents; `None` if the file does not exist.
    pub hash: Option<String>,
    /// What was repaired in its geometries, with the place.
    pub repairs: Vec<String>,
}

/// How declared routes are served.
#[derive(Debug, Clone, Default)]
pub struct Serving {
    /// The member of a JSON object with the message of an error; `None` for problem details.
    pub error_member: Option<String>,
    /// Whether parameters that a route does not have are ignored, instead of refused.
    pub ignores_unknown: bool,
    /// The origins whose web pages may call the routes (CORS); `*` for all.
    pub origins: Vec<String>,
}

/// A checked definition.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Its name.
    pub name: String,
    /// BLAKE3 of the definition, without comments and layout.
    pub hash: String,
    /// BLAKE3 of everything that decides how records are settled, followed by the collections whose records links create.
    pub settling: String,
    /// Constant tables.
    pub tables: Arc<ConstantTables>,
    /// The files of named areas.
    pub area_files: Vec<AreaFile>,
    /// Pattern sets.
    pub patterns: Vec<PatternSet>,
    /// Collections, in the order written; after them those of coverages.
    pub collections: IdVec<CollectionId, Collection>,
    /// Links of all collections.
    pub links: IdVec<LinkId, Link>,
    /// Coverages of all collections, each after those whose rows it sums.
    pub coverages: Vec<Coverage>,
    /// Services from which documents are fetched, in the order written.
    pub services: Vec<Service>,
    /// Sources, in the order written.
    pub sources: IdVec<SourceId, Source>,
    /// Aliases, in the order written.
    pub aliases: Vec<QueryAlias>,
    /// Profiles, in the order written.
    pub profiles: Vec<Profile>,
    /// Shares of the workers, by tenant; `else` is for all other tenants.
    pub tenants: BTreeMap<String, TenantShare>,
    /// Declared routes, in the order written.
    pub routes: Vec<Route>,
    /// How declared routes are served.
    pub serving: Serving,
    /// How it presents itself to systems that fetch what is published; `None` if nothing is.
    pub repository: Option<Repository>,
}

impl Catalogue {
    /// Creates an empty definition, for callers that need none.
    pub fn empty() -> Self {
        Self {
            name: String::new(),
            hash: String::new(),
            settling: String::new(),
            tables: Arc::default(),
            area_files: Vec::new(),
            patterns: Vec::new(),
            collections: IdVec::new(),
            links: IdVec::new(),
            coverages: Vec::new(),
            services: Vec::new(),
            sources: IdVec::new(),
            aliases: Vec::new(),
            profiles: Vec::new(),
            tenants: BTreeMap::new(),
            routes: Vec::new(),
            serving: Serving::default(),
            repository: None,
        }
    }

    /// Returns the name of a source, or that of edits through the API.
    pub fn contributor_name(&self, contributor: SourceRef) -> &str {
        match contributor {
            SourceRef::Source(index) => &self.sources[index].name,
            SourceRef::Api => API_NAME,
        }
    }

    /// Returns the collection called `name` with its id.
    pub fn collection(&self, name: &str) -> Option<(CollectionId, &Collection)> {
        self.collections.enumerate().find(|(_, collection)| collection.name == name)
    }

    /// Iterates over the collections that are published.
    pub fn published(&self) -> impl Iterator<Item = (CollectionId, &Collection, &Publication)> {
        self.collections.enumerate().filter_map(|(id, collection)| Some((id, collection, collection.publish.as_ref()?)))
    }

    /// Iterates over the collections whose records have tags.
    pub fn with_tags(&self) -> impl Iterator<Item = (CollectionId, &Collection)> {
        self.collections.enumerate().filter(|(_, collection)| collection.tags.is_some())
    }

    /// Returns the link with this number if its children are found by their field, see [`Link::is_only_read`].
    pub fn link_by_field(&self, id: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.edges() == id && link.is_only_read())
    }

    /// Returns a tenant's share of the workers.
    pub fn share(&self, tenant: &str) -> TenantShare {
        self.tenants.get(tenant).or_else(|| self.tenants.get("else")).copied().unwrap_or_default()
    }

    /// Returns the source called `name` with its id.
    pub fn source(&self, name: &str) -> Option<(SourceId, &Source)> {
        self.sources.enumerate().find(|(_, source)| source.name == name)
    }

    /// Whether documents of a source are embedded in those of another source.
    pub fn is_embedded(&self, source: &str) -> bool {
        let embeds = self.sources.iter().flat_map(|embedding| &embedding.embeds);
        self.source(source).is_some_and(|(index, _)| embeds.into_iter().any(|embed| embed.source == index))
    }

    /// Returns the name that users see for a contribution's source: for a source of a service, the service's name. `None` for contributions of links,
    /// and for unknown sources.
    pub fn shown_source_name<'a>(&'a self, source: &'a str) -> Option<&'a str> {
        match self.source(source) {
            Some((_, Source { asks: Some(asks), .. })) => Some(&self.services[asks.service].name),
            Some((_, source)) => Some(&source.name),
            None => (source == API_NAME).then_some(API_NAME),
        }
    }

    /// Returns the profile called `name`.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}
