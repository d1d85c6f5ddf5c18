//! A checked definition: what the other crates work with. [`crate::parse`] makes one from text.

mod alias;
mod collection;
mod field;
mod file_pattern;
mod pattern;
mod profile;
mod rule;
mod service;
mod source;
mod tags;
mod transition;

pub use alias::{AliasTarget, QueryAlias};
pub use collection::{Collection, ExistenceRule, KeyDefinition};
pub use field::{API_NAME, Field, FieldIndexes, SourceRef, Survivorship};
pub use file_pattern::{FilePattern, file_name};
pub use pattern::{Captures, NamedRegex, PatternSet};
pub use profile::{OnMatched, OnUnmatched, Profile, TenantShare};
pub use rule::{ValueOrigin, ValueRule};
pub use service::{ArgumentForm, CallArgument, Collect, Pagination, Service, ServiceBinding, ServiceCall};
pub use source::{
    AcceptRule, AsOfRule, CompleteDelivery, DocumentOptions, DocumentOrder, EmbeddedDocument, Feed, FieldMapping, FormatFamily, LetValue,
    MOST_LACKING, Source,
};
pub use tags::{TagDocument, TagSettings};
pub use transition::{Refusal, StateField, Transition, TransitionArgument};

use crate::eval::ConstantTables;
use crate::model::ids::{CollectionId, IdVec, LinkId, SourceId};
use crate::model::links::coverage::Coverage;
use crate::model::links::link::Link;
use crate::model::route::Route;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A file of named areas beside a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AreaFile {
    /// The name that expressions give it.
    pub name: String,
    /// Its path from the folder of the definition.
    pub file: String,
    /// BLAKE3 of what is read of it; nothing if it is not there.
    pub hash: Option<String>,
    /// What was repaired in its geometries, with the place.
    pub repairs: Vec<String>,
}

/// Everything Stook knows of a domain. Indexes into its vectors are the ids used everywhere.
#[derive(Debug, Clone)]
pub struct Catalogue {
    /// Its name.
    pub name: String,
    /// BLAKE3 of the definition, without comments and layout.
    pub hash: String,
    /// BLAKE3 of everything by which records are settled, and after it the collections whose records exist because links name them.
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
    /// Coverages of all collections, each after those it sums up.
    pub coverages: Vec<Coverage>,
    /// Services that are asked when a query needs them, in the order written.
    pub services: Vec<Service>,
    /// Sources, in the order written.
    pub sources: IdVec<SourceId, Source>,
    /// Words of queries, in the order written.
    pub words: Vec<QueryAlias>,
    /// Profiles, in the order written.
    pub profiles: Vec<Profile>,
    /// Shares of the workers, by tenant; `else` is everybody else's.
    pub tenants: BTreeMap<String, TenantShare>,
    /// Declared routes, in the order written.
    pub routes: Vec<Route>,
    /// The member of an error's JSON object that holds the sentence, for declared routes; nothing for problem details.
    pub error_member: Option<String>,
}

impl Catalogue {
    /// A definition of nothing: for what needs none.
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
            words: Vec::new(),
            profiles: Vec::new(),
            tenants: BTreeMap::new(),
            routes: Vec::new(),
            error_member: None,
        }
    }

    /// The name of a source, or of edits through the API.
    pub fn contributor_name(&self, speaker: SourceRef) -> &str {
        match speaker {
            SourceRef::Source(index) => &self.sources[index].name,
            SourceRef::Api => API_NAME,
        }
    }

    /// The collection called `name` and its index.
    pub fn collection(&self, name: &str) -> Option<(CollectionId, &Collection)> {
        self.collections.enumerate().find(|(_, collection)| collection.name == name)
    }

    /// The collections whose records carry tags, with their indexes.
    pub fn with_tags(&self) -> impl Iterator<Item = (CollectionId, &Collection)> {
        self.collections.enumerate().filter(|(_, collection)| collection.tags.is_some())
    }

    /// The link with this number, if its children are found by their field, see [`Link::is_only_read`].
    pub fn link_by_field(&self, id: u32) -> Option<&Link> {
        self.links.iter().find(|link| link.edges() == id && link.is_only_read())
    }

    /// A tenant's share of the workers.
    pub fn share(&self, tenant: &str) -> TenantShare {
        self.tenants.get(tenant).or_else(|| self.tenants.get("else")).copied().unwrap_or_default()
    }

    /// The source called `name` and its index.
    pub fn source(&self, name: &str) -> Option<(SourceId, &Source)> {
        self.sources.enumerate().find(|(_, source)| source.name == name)
    }

    /// Whether documents of a source stand inside those of another one.
    pub fn is_embedded(&self, source: &str) -> bool {
        let embeds = self.sources.iter().flat_map(|own| &own.embeds);
        self.source(source).is_some_and(|(index, _)| embeds.into_iter().any(|embed| embed.source == index))
    }

    /// What the source of a contribution is called by who asks: of one that is asked, its service's name. Nothing for records that exist
    /// because others name them.
    pub fn shown_source_name<'a>(&'a self, source: &'a str) -> Option<&'a str> {
        match self.source(source) {
            Some((_, Source { asks: Some(asks), .. })) => Some(&self.services[asks.service].name),
            Some((_, source)) => Some(&source.name),
            None => (source == API_NAME).then_some(API_NAME),
        }
    }

    /// The profile called `name`.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.name == name)
    }
}
