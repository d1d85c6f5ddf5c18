//! Parses the text of a definition to a [`Catalogue`], or to all errors in it.
//!
//! Names are collected first, so that any part may refer to any other; then each part is parsed. A part with an error is left out and parsing
//! continues, so that all errors of a file are reported together.

mod aliases;
mod collect;
mod collections;
mod comparisons;
mod composition;
mod coverage;
mod expectations;
mod expressions;
mod feeds;
mod fields;
mod fingerprint;
pub mod keywords;
mod link_keywords;
mod links;
mod parser;
mod profiles;
mod publish;
mod rollups;
mod route_keywords;
mod route_parameters;
mod route_steps;
mod routes;
mod rules;
pub mod schema;
mod services;
mod settling;
mod sources;
mod tables;
mod tag_steps;
mod tags;
mod transitions;
pub mod yaml;

use crate::diagnostic::Diagnostic;
use crate::eval::ConstantTables;
use crate::model::definition::{API_NAME, Catalogue, Service};
use crate::model::ids::IdVec;
use composition::DefinitionParts;
use fingerprint::{canonical, settling_text};
use parser::{DefinitionParser, NamedNode};
use rules::SourceContext;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
pub use tables::MAX_AREA_FILE;
use yaml::{Node, NodeKind};

/// Parses, checks and compiles a definition that needs no other files.
///
/// # Errors
/// All errors, in the order of the text.
pub fn parse(text: &str) -> Result<Catalogue, Vec<Diagnostic>> {
    parse_with_files(text, &|_| Err(std::io::ErrorKind::NotFound.into()))
}

/// Parses, checks and compiles a definition. `read_file` reads files that it names, by paths relative to its folder.
///
/// # Errors
/// All errors, in the order of the text.
pub fn parse_with_files(text: &str, read_file: &dyn Fn(&str) -> std::io::Result<String>) -> Result<Catalogue, Vec<Diagnostic>> {
    let root = yaml::parse(text)?;
    let mut parser = DefinitionParser {
        text,
        problems: Vec::new(),
        mistyped: Vec::new(),
        field_rules: HashMap::new(),
        compiled: HashMap::new(),
        read_file,
        tables: ConstantTables::default(),
    };
    let catalogue = parser.catalogue(&root);
    // type errors are reported only if there are no others, because an error elsewhere can cause them
    if parser.problems.is_empty() {
        parser.problems = std::mem::take(&mut parser.mistyped);
    }
    parser.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    parser.problems.dedup();
    match catalogue {
        Some(catalogue) if parser.problems.is_empty() => Ok(catalogue),
        _ => Err(parser.problems),
    }
}

/// Segments of API paths in positions where names of collections may be, now or later.
const API_WORDS: [&str; 21] = [
    "query",
    "changes",
    "lookup",
    "pick",
    "jobs",
    "tokens",
    "import",
    "deliver",
    "export",
    "tags",
    "coverage",
    "conflicts",
    "queue",
    "services",
    "sources",
    "audit",
    "suggest",
    "lab",
    "oai",
    "sru",
    "reconcile",
];

impl DefinitionParser<'_> {
    fn catalogue(&mut self, root: &Node) -> Option<Catalogue> {
        self.section(root, "a catalogue", &[keywords::CATALOGUE])?;
        let name = match root.get("catalogue") {
            Some(node) => self.text_of(node, "the catalogue's name").unwrap_or_default().to_owned(),
            None => {
                self.problems.push(Diagnostic::new(0..0, "the definition has no `catalogue: NAME`"));
                String::new()
            }
        };
        let mut tables = self.tables(root.get("lookups"));
        let area_files = self.areas(root.get("areas"), &mut tables);
        self.tables = tables.clone();
        let patterns = self.patterns(root.get("patterns"));
        let mut table_texts = Vec::new();
        for section in ["lookups", "patterns"] {
            let Some(Node { kind: NodeKind::Map(entries), .. }) = root.get(section) else { continue };
            table_texts.extend(entries.iter().filter_map(|(name, table)| Some((name.text()?, canonical(table, &[])))));
        }
        table_texts.extend(area_files.iter().filter_map(|file| Some((file.name.as_str(), file.hash.clone()?))));
        let service_nodes = self.named_entries(root.get("services"), "services");
        let service_names: Vec<&str> = service_nodes.iter().map(|entry| entry.name).collect();
        let services: Vec<Service> = service_nodes.iter().filter_map(|entry| self.service(entry.name, entry.node)).collect();
        let source_nodes = IdVec::from(self.named_entries(root.get("sources"), "sources"));
        let source_names: Vec<&str> = source_nodes.iter().map(|entry| entry.name).collect();
        let collection_nodes = IdVec::from(self.named_entries(root.get("collections"), "collections"));
        if collection_nodes.is_empty() {
            self.problem(root, "a catalogue has at least one collection");
        }
        let mut collections = IdVec::new();
        for NamedNode { name, name_node, node } in &collection_nodes {
            if API_WORDS.contains(name) {
                self.problem(name_node, format!("`{name}` is reserved by the HTTP API; choose another name"));
            }
            collections.push(self.collection(name, node, &source_names));
        }
        let mut sources = IdVec::new();
        for NamedNode { name, name_node, node } in &source_nodes {
            if *name == API_NAME {
                self.problem(name_node, "`api` is reserved for edits; choose another name");
            }
            let context = SourceContext {
                collections: &collections,
                collection_nodes: &collection_nodes,
                tables: &tables,
                patterns: &patterns,
                table_texts: &table_texts,
                source_names: &source_names,
                service_names: &service_names,
            };
            sources.extend(self.source(name, name_node, node, &context));
        }
        self.check_file_patterns_differ(&source_nodes);
        for (index, NamedNode { name_node, .. }) in source_nodes.enumerate().filter(|_| sources.len() == source_nodes.len()) {
            self.check_embedded_sources(&sources, index, name_node);
        }
        for (index, NamedNode { node, .. }) in collection_nodes.enumerate() {
            // a source with an error is missing among them
            if let (Some(tags), true) = (node.get("tags"), sources.len() == source_nodes.len()) {
                let tags = self.tags((index, &collections[index]), tags, &sources);
                collections[index].tags = tags;
            }
        }
        let (links, coverages) = self.relations(&mut collections, &collection_nodes);
        // these checks would only repeat known errors
        let is_sound = self.problems.is_empty();
        if is_sound {
            self.check_collection_types(&collections, &collection_nodes, &links);
            self.check_stored_names(&collections, &collection_nodes);
        }
        for (index, NamedNode { name_node, .. }) in collection_nodes.enumerate().filter(|_| is_sound) {
            let created = links.iter().any(|link| link.create && link.target_collection == index);
            self.check_collection_is_fed(&collections[index], created, name_node, &sources, &collections);
        }
        for (index, NamedNode { node, .. }) in collection_nodes.enumerate().filter(|_| is_sound) {
            if let Some(publish) = node.get("publish") {
                let created = links.iter().any(|link| link.create && link.target_collection == index);
                let publication = self.publication((index, &collections[index]), publish, created, &sources);
                collections[index].publish = publication;
            }
        }
        for (index, NamedNode { node, .. }) in collection_nodes.enumerate().filter(|_| is_sound) {
            let parts = DefinitionParts { collections: &collections, links: &links, sources: &sources };
            let composition = self.composition(index, node, &parts);
            collections[index].compose = composition;
        }
        let aliases = self.aliases(root.get("words"), &collections);
        let mut profiles = Vec::new();
        for NamedNode { name, node, .. } in self.named_entries(root.get("profiles"), "profiles") {
            profiles.extend(self.profile(name, node, &source_names));
        }
        let tenants = self.tenants(root.get("tenants"));
        let serve = root.get("serve").filter(|serve| self.section(serve, "serve", &[keywords::SERVE]).is_some());
        let serving = serve.map(|serve| self.serving(serve)).unwrap_or_default();
        let repository = serve.and_then(|serve| serve.get("repository")).and_then(|node| self.repository(node));
        let published = collection_nodes.iter().find_map(|entry| entry.node.get("publish"));
        if let (Some(node), true, None) = (published, is_sound, serve.and_then(|serve| serve.get("repository"))) {
            let help = "serve: { repository: { name: Our library, email: library@example.org } }";
            self.problem_with_help(node, "what is published needs a repository, which says who publishes it", help);
        }
        let routes = if self.problems.is_empty() { self.routes(root.get("routes"), &collections, &aliases) } else { Vec::new() };
        // earlier versions treated links of lists differently: this makes stores be prepared again for those
        let lists = if links.iter().any(|link| link.many) { "\nlinks of lists" } else { "" };
        // so does another file of areas
        let areas: String = area_files.iter().filter_map(|file| Some(format!("\nareas {} {}", file.name, file.hash.as_ref()?))).collect();
        let hash = blake3::hash((canonical(root, &[]) + lists + &areas).as_bytes()).to_hex().to_string();
        let settling = settling_text(root, &collection_nodes, &links, &collections);
        let settling = if settling.is_empty() { settling } else { settling + &areas };
        let mut settling = blake3::hash(settling.as_bytes()).to_hex().to_string();
        let created: BTreeSet<&str> = links.iter().filter(|link| link.create).map(|link| collections[link.target_collection].name.as_str()).collect();
        created.iter().for_each(|name| settling.extend([" ", name]));
        Some(Catalogue {
            name,
            hash,
            settling,
            tables: Arc::new(tables),
            area_files,
            patterns,
            collections,
            links,
            coverages,
            services,
            sources,
            aliases,
            profiles,
            tenants,
            routes,
            serving,
            repository,
        })
    }
}
