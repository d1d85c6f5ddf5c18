//! From the text of a definition to a [`Catalogue`], or to every mistake in it.
//!
//! Names are collected first, so that any part may refer to any other; then each part is read. A part with a mistake is
//! left out and reading goes on: a file's errors are reported together.

mod links;
mod routes;
pub mod schema;
mod services;
mod tags;
mod typed;
mod vocabulary;
pub mod words;
pub mod yaml;

use crate::diagnostic::{Diagnostic, did_you_mean};
use crate::eval::expression::{ConstantTable, ConstantTables, Expression, TableValue};
use crate::eval::types::{Expected, TextConversion, Type};
use crate::model::definition::*;
use crate::model::key::Template;
use crate::model::links::{Derivation, Link, id_of};
use crate::model::path::{Path, PathLanguage};
use crate::value::{FieldType, StructMember, TYPE_NAMES, Value, from_text};
use regex::RegexBuilder;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use typed::{Types, meta};
use words::Keyword;
use yaml::{Node, NodeKind};

/// Parses, checks and compiles a definition.
///
/// # Errors
/// Every mistake found, in the order of the text.
pub fn parse(text: &str) -> Result<Catalogue, Vec<Diagnostic>> {
    let root = yaml::parse(text)?;
    let mut reader = DefinitionParser { text, problems: Vec::new(), mistyped: Vec::new(), compiled: HashMap::new(), tables: ConstantTables::new() };
    let catalogue = reader.catalogue(&root);
    // where something else is wrong, what is read wrongly would have wrong types, too
    if reader.problems.is_empty() {
        reader.problems = std::mem::take(&mut reader.mistyped);
    }
    reader.problems.sort_by_key(|problem| (problem.span.start, problem.span.end));
    reader.problems.dedup();
    match catalogue {
        Some(catalogue) if reader.problems.is_empty() => Ok(catalogue),
        _ => Err(reader.problems),
    }
}

struct DefinitionParser<'t> {
    text: &'t str,
    problems: Vec<Diagnostic>,
    /// Expressions whose types are wrong.
    mistyped: Vec<Diagnostic>,
    /// Constant tables.
    tables: ConstantTables,
    /// Expressions by their text: sources that are alike repeat theirs.
    compiled: HashMap<String, Expression>,
}

/// Names that mean something in expressions and so cannot name fields.
const RESERVED: [&str; 12] = ["meta", "args", "now", "caller", "role", "key", "tag", "true", "false", "null", "in", "conflict"];

/// What stands in paths of the API where collections do, now or later.
const API_WORDS: [&str; 15] = [
    "query",
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
    "suggest",
    "lab",
];

/// Most fields of a collection.
const MAX_FIELDS: usize = 500;

impl<'t> DefinitionParser<'t> {
    // --- small helpers -------------------------------------------------------------------------------------------------

    fn problem(&mut self, node: &Node, message: impl Into<String>) {
        self.problems.push(Diagnostic::new(node.span.clone(), message));
    }

    fn problem_with_help(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) {
        self.problems.push(Diagnostic::new(node.span.clone(), message).help(help));
    }

    /// The entries of a mapping whose keys must all be among `words`.
    fn section<'n>(&mut self, node: &'n Node, what: &str, words: &[&[Keyword]]) -> Option<&'n [(Node, Node)]> {
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("{what} is a mapping, this is {}", node.shape()));
            return None;
        };
        let known = || words.iter().flat_map(|words| words.iter()).map(|word| word.name);
        for (name, _) in entries {
            let written = name.text().unwrap_or_default();
            if known().any(|word| word == written) {
                continue;
            }
            let message = format!("{what} has no key `{written}`");
            match did_you_mean(written, known()) {
                Some(meant) => self.problem_with_help(name, message, format!("did you mean `{meant}`?")),
                None => self.problem_with_help(name, message, format!("its keys are {}", known().collect::<Vec<_>>().join(", "))),
            }
        }
        Some(entries)
    }

    /// The entries of a mapping from names to something.
    fn named<'n>(&mut self, node: Option<&'n Node>, what: &str) -> Vec<(&'n str, &'n Node, &'n Node)> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("{what} are a mapping from names, this is {}", node.shape()));
            return Vec::new();
        };
        let mut named = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            let written = name.text().unwrap_or_default();
            let valid = written.starts_with(|c: char| c.is_ascii_lowercase())
                && written.len() <= 48
                && written.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
            if valid {
                named.push((written, name, value));
            } else {
                self.problem(name, format!("`{written}` is not a name: a small letter, then small letters, digits and _, at most 48"));
            }
        }
        named
    }

    fn text_of<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        let text = match &node.kind {
            NodeKind::Scalar { text, .. } if !node.is_null() => Some(text.as_str()),
            _ => None,
        };
        if text.is_none() {
            let hint = matches!(node.kind, NodeKind::Map(_) | NodeKind::List(_));
            let message = format!("{what} is text, this is {}", node.shape());
            if hint && self.text[node.span.clone()].starts_with(['{', '[']) {
                self.problem_with_help(node, message, "YAML reads { and [ as a mapping or a list: quote this path or expression");
            } else {
                self.problem(node, message);
            }
        }
        text
    }

    fn boolean(&mut self, node: Option<&Node>, what: &str) -> bool {
        let Some(node) = node else { return false };
        match &node.kind {
            NodeKind::Scalar { text, quoted: false } if text == "true" => true,
            NodeKind::Scalar { text, quoted: false } if text == "false" => false,
            _ => {
                self.problem_with_help(
                    node,
                    format!("{what} is true or false, this is {}", node.shape()),
                    "this is YAML 1.2: yes, no, on and off are text",
                );
                false
            }
        }
    }

    fn choice<T: Copy>(&mut self, node: Option<&Node>, what: &str, choices: &[(&str, T)]) -> Option<T> {
        let node = node?;
        let text = self.text_of(node, what)?;
        if let Some((_, value)) = choices.iter().find(|(name, _)| *name == text) {
            return Some(*value);
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let message = format!("`{text}` is not a {what}");
        match did_you_mean(text, names.iter().copied()) {
            Some(meant) => self.problem_with_help(node, message, format!("did you mean `{meant}`?")),
            None => self.problem_with_help(node, message, format!("it is one of {}", names.join(", "))),
        }
        None
    }

    /// The index of a name among others, or a problem that lists them.
    fn reference(&mut self, node: &Node, what: &str, names: &[&str]) -> Option<usize> {
        let text = self.text_of(node, what)?.to_owned();
        if let Some(index) = names.iter().position(|name| *name == text) {
            return Some(index);
        }
        let message = format!("there is no {what} `{text}`");
        match did_you_mean(&text, names.iter().copied()) {
            Some(meant) => self.problem_with_help(node, message, format!("did you mean `{meant}`?")),
            None if names.is_empty() => self.problem(node, message),
            None => self.problem_with_help(node, message, format!("there is {}", names.join(", "))),
        }
        None
    }

    /// A place inside a scalar: exact for plain scalars and quoted ones without escapes before it.
    fn inside(&self, node: &Node, at: usize) -> Range<usize> {
        let written = &self.text[node.span.clone()];
        let quote = usize::from(written.starts_with(['"', '\'']));
        let start = (node.span.start + quote + at).min(node.span.end.saturating_sub(quote)).max(node.span.start);
        start..(start + 1).min(node.span.end).max(start)
    }

    fn cel(&mut self, node: &Node, names: &[&str]) -> Option<Expression> {
        let source = self.text_of(node, "a CEL expression")?.to_owned();
        let is_known = |name: &String| names.contains(&name.as_str());
        if let Some(same) = self.compiled.get(&source).filter(|same| same.variables().iter().all(is_known)) {
            return Some(same.clone());
        }
        match Expression::compile(&source, names) {
            Ok(expression) => {
                self.compiled.insert(source, expression.clone());
                Some(expression)
            }
            Err((at, message)) => {
                let mut problem = Diagnostic::new(self.inside(node, at), message);
                if source.contains("??") {
                    problem = problem.help("CEL has no `??`: write coalesce(a, b)");
                }
                self.problems.push(problem);
                None
            }
        }
    }

    fn field_type(&mut self, node: &Node) -> Option<FieldType> {
        if let NodeKind::List(items) = &node.kind {
            let [element] = items.as_slice() else {
                self.problem(node, "a list type has one element type: [text]");
                return None;
            };
            if matches!(element.kind, NodeKind::Map(_)) {
                return self.struct_type(element).map(|members| FieldType::List(Box::new(members)));
            }
            return self.field_type(element).and_then(|element_type| match element_type {
                FieldType::List(_) => {
                    self.problem(node, "lists of lists are not a type; use json");
                    None
                }
                FieldType::Ranges => {
                    self.problem(node, "ranges are a set already; leave the brackets out");
                    None
                }
                scalar => Some(FieldType::List(Box::new(scalar))),
            });
        }
        let text = self.text_of(node, "a type")?;
        if let Some(ty) = FieldType::named(text) {
            return Some(ty);
        }
        let message = format!("`{text}` is not a type");
        match did_you_mean(text, TYPE_NAMES.iter().map(|(name, _)| *name)) {
            Some(meant) => self.problem_with_help(node, message, format!("did you mean `{meant}`?")),
            None => {
                let names: Vec<&str> = TYPE_NAMES.iter().map(|(name, _)| *name).collect();
                let help = format!("types are {}, a list of one: [text], or a list of structs: [{{ name: text }}]", names.join(", "));
                self.problem_with_help(node, message, help);
            }
        }
        None
    }

    /// The members of a list's structs, each with its type.
    fn struct_type(&mut self, node: &Node) -> Option<FieldType> {
        let mut members = Vec::new();
        for (name, name_node, ty) in self.named(Some(node), "members") {
            match self.field_type(ty)? {
                FieldType::List(_) | FieldType::Json => {
                    self.problem(name_node, format!("`{name}` is inside a list: its type is a scalar one, or ranges"))
                }
                ty => members.push(StructMember { name: name.to_owned(), ty }),
            }
        }
        if members.is_empty() {
            self.problem(node, "a struct has members: [{ name: text, size: size }]");
            return None;
        }
        Some(FieldType::Struct(members.into()))
    }

    fn one_of(&mut self, node: Option<&Node>, ty: &FieldType) -> Vec<Value> {
        let Some(node) = node else { return Vec::new() };
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("one_of is a list, this is {}", node.shape()));
            return Vec::new();
        };
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            let Some(text) = self.text_of(item, "a value of one_of").map(str::to_owned) else { continue };
            match from_text(&text, ty.element(), None) {
                Ok(value) => values.push(value),
                Err(error) => self.problem(item, error.to_string()),
            }
        }
        values
    }

    fn index(&mut self, node: Option<&Node>, ty: &FieldType) -> FieldIndexes {
        let Some(node) = node.filter(|_| ty.members().is_empty()) else { return FieldIndexes::default() };
        let kinds: Vec<&Node> = match &node.kind {
            NodeKind::List(items) => items.iter().collect(),
            _ => vec![node],
        };
        let mut index = FieldIndexes::default();
        for kind in kinds {
            match self.choice(Some(kind), "kind of index", &[("equal", 0), ("prefix", 1), ("contains", 2)]) {
                Some(0) => index.ordered = true,
                Some(_) if ty.element() != &FieldType::Text => {
                    self.problem(kind, format!("only text can have this kind of index; the field is {ty}"));
                }
                Some(1) => index.ordered = true,
                Some(_) if ty.is_list() => {
                    self.problem(kind, "a list cannot have a `contains` index; use equal or prefix, which apply to each element")
                }
                Some(_) => index.contains = true,
                None => {}
            }
        }
        match ty.element() {
            FieldType::Json => self.problem(node, "json has no index; give the part you ask for a field of its own"),
            FieldType::Ranges => self.problem(node, "ranges have no index; they are compared record by record"),
            _ => {}
        }
        index
    }

    /// The fields that the members of structs are, to be asked for: `replica.site`.
    fn member_fields(&mut self, fields: &[Field], nodes: &[(&str, &Node, &Node)]) -> Vec<Field> {
        let mut members = Vec::new();
        for (list, (field, (name, _, node))) in fields.iter().zip(nodes).enumerate() {
            let own = field.ty.members();
            let indexes = node.get("index").filter(|_| !own.is_empty());
            if let Some(index) = indexes.filter(|index| !matches!(index.kind, NodeKind::Map(_))) {
                self.problem_with_help(index, format!("`{name}` has members, each with an index of its own"), "for example: index: { site: equal }");
            }
            let indexes = match indexes {
                Some(index) if matches!(index.kind, NodeKind::Map(_)) => self.named(Some(index), "members with an index"),
                _ => Vec::new(),
            };
            let names: Vec<&str> = own.iter().map(|member| member.name.as_str()).collect();
            for (_, name_node, _) in &indexes {
                self.reference(name_node, "member", &names);
            }
            for (place, member) in own.iter().enumerate() {
                let ty = match &member.ty {
                    FieldType::Ranges => FieldType::Ranges,
                    scalar => FieldType::List(Box::new(scalar.clone())),
                };
                let node = indexes.iter().find(|(of, ..)| *of == member.name).map(|(.., node)| *node);
                let index = self.index(node, &ty);
                let derive = Some(Derivation::Member(list, place));
                members.push(Field { ty, index, derive, ..placeholder(&format!("{name}.{}", member.name)) });
            }
        }
        members
    }

    // --- the whole -----------------------------------------------------------------------------------------------------

    fn catalogue(&mut self, root: &Node) -> Option<Catalogue> {
        self.section(root, "a catalogue", &[words::CATALOGUE])?;
        let name = match root.get("catalogue") {
            Some(node) => self.text_of(node, "the catalogue's name").unwrap_or_default().to_owned(),
            None => {
                self.problems.push(Diagnostic::new(0..0, "the definition has no `catalogue: NAME`"));
                String::new()
            }
        };
        let tables = self.tables(root.get("lookups"));
        self.tables = tables.clone();
        let patterns = self.patterns(root.get("patterns"));
        let service_nodes = self.named(root.get("services"), "services");
        let service_names: Vec<&str> = service_nodes.iter().map(|(name, ..)| *name).collect();
        let services: Vec<Service> = service_nodes.iter().filter_map(|(name, _, node)| self.service(name, node)).collect();
        let source_nodes = self.named(root.get("sources"), "sources");
        let source_names: Vec<&str> = source_nodes.iter().map(|(name, ..)| *name).collect();
        let collection_nodes = self.named(root.get("collections"), "collections");
        if collection_nodes.is_empty() {
            self.problem(root, "a catalogue has at least one collection");
        }
        let mut collections = Vec::with_capacity(collection_nodes.len());
        for (name, name_node, node) in &collection_nodes {
            if API_WORDS.contains(name) {
                self.problem(name_node, format!("`{name}` is reserved by the HTTP API; choose another name"));
            }
            collections.push(self.collection(name, node, &source_names));
        }
        let mut sources = Vec::with_capacity(source_nodes.len());
        for (name, name_node, node) in &source_nodes {
            if *name == API_NAME {
                self.problem(name_node, "`api` is reserved for edits; choose another name");
            }
            let context = SourceContext {
                collections: &collections,
                collection_nodes: &collection_nodes,
                tables: &tables,
                patterns: &patterns,
                source_names: &source_names,
                service_names: &service_names,
            };
            sources.extend(self.source(name, name_node, node, &context));
        }
        for (index, (_, name_node, _)) in source_nodes.iter().enumerate().filter(|_| sources.len() == source_nodes.len()) {
            self.embedded_are_fit(&sources, index, name_node);
        }
        for (index, (collection, (_, _, node))) in collections.iter_mut().zip(&collection_nodes).enumerate() {
            // a source that is not sound is missing among them
            if let (Some(tags), true) = (node.get("tags"), sources.len() == source_nodes.len()) {
                collection.tags = self.tags((index, collection), tags, &sources);
            }
        }
        let (links, coverages) = self.relations(&mut collections, &collection_nodes);
        // these would only repeat in other words what is known to be wrong already
        let sound = self.problems.is_empty();
        if sound {
            self.collections_are_typed(&collections, &collection_nodes, &links);
        }
        for (index, (_, name_node, _)) in collection_nodes.iter().enumerate().filter(|_| sound) {
            let created = links.iter().any(|link| link.create && link.target_collection == index);
            self.collection_is_fed(&collections[index], created, name_node, &sources, &collections);
        }
        let words = self.vocabulary(root.get("words"), &collections);
        let mut profiles = Vec::new();
        for (name, _, node) in self.named(root.get("profiles"), "profiles") {
            profiles.extend(self.profile(name, node, &source_names));
        }
        let tenants = self.tenants(root.get("tenants"));
        let error_member = root.get("serve").and_then(|serve| {
            self.section(serve, "serve", &[words::SERVE])?;
            serve.get("error").and_then(|node| self.text_of(node, "the member of errors")).map(str::to_owned)
        });
        let routes = if self.problems.is_empty() { self.routes(root.get("routes"), &collections) } else { Vec::new() };
        // links of lists lead to one record once: stores are prepared again for those
        let lists = if links.iter().any(|link| link.many) { "\nlinks of lists" } else { "" };
        let hash = blake3::hash((canonical(root, &[]) + lists).as_bytes()).to_hex().to_string();
        let mut settling = blake3::hash(settling_text(root, &collection_nodes, &links, &collections).as_bytes()).to_hex().to_string();
        let created: BTreeSet<&str> = links.iter().filter(|link| link.create).map(|link| collections[link.target_collection].name.as_str()).collect();
        created.iter().for_each(|name| settling.extend([" ", name]));
        Some(Catalogue {
            name,
            hash,
            settling,
            tables: Arc::new(tables),
            patterns,
            collections,
            links,
            coverages,
            services,
            sources,
            words,
            profiles,
            tenants,
            routes,
            error_member,
        })
    }

    fn tables(&mut self, node: Option<&Node>) -> ConstantTables {
        let mut tables = ConstantTables::new();
        for (name, _, node) in self.named(node, "lookups") {
            // a list is tried in order, each key as a regular expression on the beginning
            let (rows, in_order): (Vec<&(Node, Node)>, bool) = match &node.kind {
                NodeKind::Map(entries) => (entries.iter().collect(), false),
                NodeKind::List(items) => {
                    let entries = items.iter().map(|item| match &item.kind {
                        NodeKind::Map(entries) => entries.as_slice(),
                        _ => &[],
                    });
                    (entries.flatten().collect(), true)
                }
                NodeKind::Scalar { .. } => {
                    self.problem(node, format!("a lookup is a mapping from key to value, this is {}", node.shape()));
                    continue;
                }
            };
            let mut table = ConstantTable::default();
            for (key_node, value) in rows {
                let (Some(key), Some(entry)) = (key_node.text(), self.entry(value)) else { continue };
                if key == "else" {
                    table.default = Some(entry);
                } else if in_order {
                    match RegexBuilder::new(&format!("^(?:{key})")).size_limit(1 << 20).build() {
                        Ok(pattern) => table.patterns.push((pattern, entry)),
                        Err(_) => self.problem(key_node, format!("`{key}` is not a regular expression")),
                    }
                } else {
                    table.rows.insert(key.to_owned(), entry);
                }
            }
            tables.insert(name.to_owned(), table);
        }
        tables
    }

    fn entry(&mut self, node: &Node) -> Option<TableValue> {
        let NodeKind::List(items) = &node.kind else {
            return Some(TableValue::Text(self.text_of(node, "a lookup's value")?.to_owned()));
        };
        let texts = items.iter().map(|item| self.text_of(item, "a lookup's value").map(str::to_owned));
        texts.collect::<Option<Vec<String>>>().map(TableValue::List)
    }

    fn patterns(&mut self, node: Option<&Node>) -> Vec<PatternSet> {
        let mut patterns = Vec::new();
        for (name, _, node) in self.named(node, "patterns") {
            let NodeKind::List(items) = &node.kind else {
                self.problem(node, format!("a pattern is a list of regular expressions, this is {}", node.shape()));
                continue;
            };
            let mut expressions = Vec::with_capacity(items.len());
            for item in items {
                let Some(text) = self.text_of(item, "a regular expression").map(str::to_owned) else { continue };
                match NamedRegex::new(&text) {
                    Ok(expression) => expressions.push(expression),
                    Err(error) => {
                        let message = error.to_string();
                        let last = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
                        self.problem(item, format!("not a regular expression: {last}"));
                    }
                }
            }
            patterns.push(PatternSet { name: name.to_owned(), expressions });
        }
        patterns
    }

    // --- collections ---------------------------------------------------------------------------------------------------

    fn collection(&mut self, name: &str, node: &Node, source_names: &[&str]) -> Collection {
        self.section(node, "a collection", &[words::COLLECTION]);
        let default_rule = match node.get("survivorship") {
            Some(rule) => self.survivorship(rule, source_names).unwrap_or(Survivorship::Latest),
            None => Survivorship::Latest,
        };
        let field_nodes = self.named(node.get("fields"), "fields");
        if field_nodes.is_empty() {
            self.problem(node, format!("collection `{name}` has no fields"));
        }
        let mut field_names: Vec<&str> = field_nodes.iter().map(|(name, ..)| *name).collect();
        let link_fields = self.link_fields(node, &field_names);
        field_names.extend(link_fields.iter().map(|field| field.name.as_str()));
        let mut fields = Vec::with_capacity(field_nodes.len());
        for (name, name_node, node) in &field_nodes {
            if RESERVED.contains(name) {
                self.problem(name_node, format!("`{name}` is reserved in expressions and queries; choose another name"));
            }
            fields.push(self.field(name, node, &default_rule, source_names, &field_names).unwrap_or_else(|| placeholder(name)));
        }
        self.derivations_are_acyclic(&fields, &field_nodes);
        fields.extend(link_fields.iter().cloned());
        let members = self.member_fields(&fields, &field_nodes);
        fields.extend(members);
        if fields.len() > MAX_FIELDS {
            self.problem(node, format!("a collection has at most {MAX_FIELDS} fields"));
        }
        let (key, key_text) = self.key_rule(name, node, &fields).unwrap_or((KeyDefinition::Field(0), String::new()));
        let keep_raw = self.choice(node.get("raw"), "choice for raw", &[("keep", true), ("drop", false)]).unwrap_or(false);
        let exists = self
            .choice(node.get("exists"), "choice for exists", &[("latest", ExistenceRule::Latest), ("any", ExistenceRule::Any)])
            .unwrap_or(ExistenceRule::Latest);
        let history = node.get("history").and_then(|node| self.number_of(node, "history", 1..=10_000));
        let states = self.states(node, &field_names);
        let transitions = self.transitions(node, &fields, &states);
        Collection { name: name.to_owned(), key, key_text, keep_raw, exists, history, fields, states, transitions, tags: None, rows_of: None }
    }

    fn field(&mut self, name: &str, node: &Node, default_rule: &Survivorship, source_names: &[&str], field_names: &[&str]) -> Option<Field> {
        let mut field = placeholder(name);
        field.survivorship = default_rule.clone();
        if !matches!(node.kind, NodeKind::Map(_)) {
            field.ty = self.field_type(node)?;
            field.rule = Some(UnparsedRule { node: node.clone() });
            if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
                field.survivorship = Survivorship::Latest;
            }
            return Some(field);
        }
        self.section(node, "a field", &[words::FIELD, words::RULE])?;
        match node.get("type") {
            Some(ty) => field.ty = self.field_type(ty)?,
            None => {
                self.problem(node, format!("field `{name}` has no type"));
                return None;
            }
        }
        let mut own_rule = None;
        field.required = self.boolean(node.get("required"), "required");
        field.unique = self.boolean(node.get("unique"), "unique");
        field.fold = self.boolean(node.get("fold"), "fold");
        field.compare = self.boolean(node.get("compare"), "compare");
        field.index = self.index(node.get("index"), &field.ty);
        field.one_of = self.one_of(node.get("one_of"), &field.ty);
        if field.fold && field.ty.element() != &FieldType::Text {
            self.problem(node, format!("only text can be folded; `{name}` is {}", field.ty));
        }
        if field.fold && field.ty.is_list() && !field.index.ordered {
            self.problem(node, "a folded list needs `index: equal`");
        }
        if let Some(by) = node.get("by") {
            let names: Vec<&str> = field.ty.members().iter().map(|member| member.name.as_str()).collect();
            match self.reference(by, "member", &names) {
                Some(member) if field.ty.members()[member].ty.is_ordered() => own_rule = Some(Survivorship::UnionBy(member)),
                Some(_) => self.problem(by, "ranges cannot identify structs"),
                None => {}
            }
        }
        if !field.ty.members().is_empty() && ["derive", "rollup", "one_of"].iter().any(|word| node.get(word).is_some()) {
            self.problem(node, format!("`{name}` is a list of structs and can only be contributed"));
        }
        if field.unique && !field.ty.is_ordered() {
            self.problem(node, format!("a field of type {} cannot be unique", field.ty));
        }
        if let Some(rule) = own_rule {
            if let Some(other) = node.get("survivorship") {
                self.problem(other, "use either `by` or `survivorship`, not both");
            }
            field.survivorship = rule;
        } else if let Some(rule) = node.get("survivorship") {
            field.survivorship = self.survivorship(rule, source_names).unwrap_or(Survivorship::Latest);
            if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
                self.problem(rule, format!("union produces a list; `{name}` is {}", field.ty));
            }
        } else if matches!(field.survivorship, Survivorship::Union) && !field.ty.is_list() {
            field.survivorship = Survivorship::Latest;
        }
        if let Some(from) = node.get("from") {
            field.from = Some(self.source_list(from, source_names));
        }
        self.has_one_value(&field, node);
        if let Some(derive) = node.get("derive").or(node.get("rollup")) {
            let others: Vec<&str> = field_names.iter().copied().filter(|other| *other != name).collect();
            field.derive = match (node.get("rollup"), node.get("derive")) {
                (Some(rollup), Some(_)) => {
                    self.problem(rollup, "a value is derived or rolled up, not both");
                    None
                }
                // replaced when links are read
                (Some(_), None) => Some(Derivation::LinkKeys(usize::MAX)),
                (None, _) if !others.contains(&"sources") && matches!(&derive.kind, NodeKind::Scalar { text, .. } if text == "sources") => {
                    if field.ty != FieldType::List(Box::new(FieldType::Text)) {
                        self.problem(derive, format!("`sources` are names, of type [text]; `{name}` is {}", field.ty));
                    }
                    Some(Derivation::Sources)
                }
                (None, _) => self.cel(derive, &others).map(Derivation::SameRecord),
            };
            for word in words::RULE.iter().filter(|word| !matches!(word.name, "type")) {
                if let Some(value) = node.get(word.name) {
                    self.problem(value, format!("`{name}` is derived from golden fields; `{}` says how documents give it", word.name));
                }
            }
            if field.required {
                self.problem(derive, "a derived field cannot be required of a document");
            }
        } else {
            field.rule = Some(UnparsedRule { node: node.clone() });
        }
        Some(field)
    }

    /// A field that keeps what each contributor says has no single value to look up or compare.
    fn has_one_value(&mut self, field: &Field, node: &Node) {
        if field.survivorship != Survivorship::ByContributor || node.get("derive").or(node.get("rollup")).is_some() {
            return;
        }
        for (word, is_on) in [("index", true), ("fold", field.fold), ("unique", field.unique)] {
            if let Some(value) = node.get(word).filter(|_| is_on) {
                let name = &field.name;
                self.problem_with_help(
                    value,
                    format!("`{name}` is kept by contributor, a mapping; `{word}` needs one value"),
                    "give the field another survivorship, for example: survivorship: latest",
                );
            }
        }
    }

    fn survivorship(&mut self, node: &Node, source_names: &[&str]) -> Option<Survivorship> {
        if matches!(node.kind, NodeKind::Map(_)) {
            self.section(node, "survivorship", &[words::SURVIVORSHIP_MAP])?;
            let Some(prefer) = node.get("prefer") else {
                self.problem(node, "survivorship with a mapping needs `prefer: [sources]`");
                return None;
            };
            let sources = self.source_list(prefer, source_names);
            let then_earliest = self.choice(node.get("then"), "second rule", &[("latest", false), ("earliest", true)]).unwrap_or(false);
            return Some(Survivorship::Prefer { sources, then_earliest });
        }
        let choices = [("latest", 0), ("earliest", 1), ("union", 2), ("by_contributor", 3)];
        Some(match self.choice(Some(node), "survivorship rule", &choices)? {
            0 => Survivorship::Latest,
            1 => Survivorship::Earliest,
            2 => Survivorship::Union,
            _ => Survivorship::ByContributor,
        })
    }

    fn source_list(&mut self, node: &Node, source_names: &[&str]) -> Vec<SourceRef> {
        let NodeKind::List(items) = &node.kind else {
            self.problem(node, format!("expected a list of sources, this is {}", node.shape()));
            return Vec::new();
        };
        let names: Vec<&str> = source_names.iter().copied().chain([API_NAME]).collect();
        let indexes = items.iter().filter_map(|item| self.reference(item, "source", &names));
        indexes.map(|index| if index == source_names.len() { SourceRef::Api } else { SourceRef::Source(index) }).collect()
    }

    /// A derived field may read other derived fields, but not itself through them.
    fn derivations_are_acyclic(&mut self, fields: &[Field], nodes: &[(&str, &Node, &Node)]) {
        fn reaches(fields: &[Field], from: usize, target: usize, depth: usize) -> bool {
            let Some(derive) = fields[from].derive.as_ref().and_then(Derivation::expression) else { return false };
            derive.variables().iter().any(|name| {
                let Some(next) = fields.iter().position(|field| field.name == *name) else { return false };
                next == target || (depth > 0 && reaches(fields, next, target, depth - 1))
            })
        }
        for (index, field) in fields.iter().enumerate() {
            if field.derive.is_some() && reaches(fields, index, index, fields.len()) {
                self.problem(nodes[index].1, format!("`{}` is derived from itself", field.name));
            }
        }
    }

    fn key_rule(&mut self, name: &str, node: &Node, fields: &[Field]) -> Option<(KeyDefinition, String)> {
        let Some(key) = node.get("key") else {
            self.problem(node, format!("collection `{name}` has no key"));
            return None;
        };
        let text = self.text_of(key, "a key")?.to_owned();
        let contributed: Vec<&str> = fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str()).collect();
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name {
            self.reference(key, "field", &contributed)?;
            let index = fields.iter().position(|field| field.name == text)?;
            if !fields[index].ty.is_ordered() {
                self.problem(key, format!("a key is a scalar, `{text}` is {}", fields[index].ty));
            }
            return Some((KeyDefinition::Field(index), text));
        }
        if text.contains('{') {
            match Template::parse(&text) {
                Ok(template) => {
                    for placeholder in template.names() {
                        if !contributed.contains(&placeholder) {
                            let at = text.find(placeholder).unwrap_or(0);
                            self.problems.push(Diagnostic::new(self.inside(key, at), format!("there is no field `{placeholder}`")));
                        }
                    }
                    return Some((KeyDefinition::Template(template), text));
                }
                Err((at, message)) => {
                    self.problems.push(Diagnostic::new(self.inside(key, at), message));
                    return None;
                }
            }
        }
        Some((KeyDefinition::Expression(self.cel(key, &contributed)?), text))
    }

    fn states(&mut self, node: &Node, field_names: &[&str]) -> Vec<StateField> {
        let mut states = Vec::new();
        for (name, name_node, node) in self.named(node.get("state"), "state fields") {
            if field_names.contains(&name) {
                self.problem(name_node, format!("`{name}` is a contributed field already; a state field is written by transitions only"));
            }
            let (ty, seed, index, one_of) = if matches!(node.kind, NodeKind::Map(_)) {
                if self.section(node, "a state field", &[words::STATE]).is_none() {
                    continue;
                }
                let Some(ty) = node.get("type").and_then(|ty| self.field_type(ty)) else {
                    if node.get("type").is_none() {
                        self.problem(node, format!("state field `{name}` has no type"));
                    }
                    continue;
                };
                let seed = node.get("seed").and_then(|seed| self.cel(seed, field_names));
                let index = self.index(node.get("index"), &ty);
                let one_of = self.one_of(node.get("one_of"), &ty);
                (ty, seed, index, one_of)
            } else {
                let Some(ty) = self.field_type(node) else { continue };
                (ty, None, FieldIndexes::default(), Vec::new())
            };
            states.push(StateField { name: name.to_owned(), ty, initial: seed, index, one_of });
        }
        states
    }

    fn transitions(&mut self, node: &Node, fields: &[Field], states: &[StateField]) -> Vec<Transition> {
        let state_names: Vec<&str> = states.iter().map(|state| state.name.as_str()).collect();
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).chain(state_names.iter().copied()).collect();
        names.extend(["args", "now", "caller", "role", "key"]);
        let mut transitions = Vec::new();
        for (name, name_node, node) in self.named(node.get("transitions"), "transitions") {
            if ["explain", "log", "document"].contains(&name) {
                self.problem(name_node, format!("`{name}` is reserved by the HTTP API; choose another name"));
            }
            if self.section(node, "a transition", &[words::TRANSITION]).is_none() {
                continue;
            }
            let args = self.arguments(node.get("args"));
            let mut refuse = Vec::new();
            for item in self.items(node.get("refuse"), "refuse") {
                if self.section(item, "a refusal", &[words::REFUSE]).is_none() {
                    continue;
                }
                let when = self.required(item, "when").and_then(|node| self.cel(node, &names));
                let reason = self.required(item, "reason").and_then(|node| self.cel(node, &names));
                let code = item.get("code").map_or(Some(409), |node| {
                    let code = node.text().and_then(|text| text.parse().ok()).filter(|code| (400..500).contains(code));
                    if code.is_none() {
                        self.problem(node, "a code is an HTTP status from 400 to 499");
                    }
                    code
                });
                if let (Some(when), Some(reason), Some(code)) = (when, reason, code) {
                    refuse.push(Refusal { when, reason, code });
                }
            }
            let mut set = Vec::new();
            for (_, name_node, value) in self.named(node.get("set"), "values to set") {
                let Some(index) = self.reference(name_node, "state field", &state_names) else { continue };
                let expression = if value.is_null() { None } else { self.cel(value, &names) };
                set.push((index, expression));
            }
            transitions.push(Transition { name: name.to_owned(), args, refuse, set });
        }
        transitions
    }

    fn arguments(&mut self, node: Option<&Node>) -> Vec<TransitionArgument> {
        let mut arguments = Vec::new();
        for (name, _, node) in self.named(node, "arguments") {
            let shorthand = !matches!(node.kind, NodeKind::Map(_));
            if !shorthand && self.section(node, "an argument", &[words::ARG]).is_none() {
                continue;
            }
            let type_node = if shorthand { Some(node) } else { self.required(node, "type") };
            let Some(ty) = type_node.and_then(|node| self.field_type(node)) else { continue };
            let number = |reader: &mut Self, word: &str| {
                let node = node.get(word)?;
                let number = node.text().and_then(|text| text.parse::<f64>().ok());
                if number.is_none() {
                    reader.problem(node, format!("{word} is a number"));
                }
                number
            };
            let (min, max) = (number(self, "min"), number(self, "max"));
            arguments.push(TransitionArgument {
                name: name.to_owned(),
                required: self.boolean(node.get("required"), "required"),
                default: node.get("default").and_then(|node| self.cel(node, &["now", "caller"])),
                one_of: self.one_of(node.get("one_of"), &ty),
                ty,
                min,
                max,
            });
        }
        arguments
    }

    fn items<'n>(&mut self, node: Option<&'n Node>, what: &str) -> &'n [Node] {
        match node.map(|node| (&node.kind, node)) {
            None => &[],
            Some((NodeKind::List(items), _)) => items,
            Some((_, node)) => {
                self.problem(node, format!("{what} is a list, this is {}", node.shape()));
                &[]
            }
        }
    }

    fn required<'n>(&mut self, node: &'n Node, word: &str) -> Option<&'n Node> {
        let found = node.get(word);
        if found.is_none() {
            self.problem(node, format!("`{word}` is missing"));
        }
        found
    }

    fn profile(&mut self, name: &str, node: &Node, source_names: &[&str]) -> Option<Profile> {
        self.section(node, "a profile", &[words::PROFILE])?;
        let source = self.required(node, "source").and_then(|node| self.reference(node, "source", source_names))?;
        let matched = [("update", OnMatched::Update), ("skip", OnMatched::Skip), ("fail", OnMatched::Fail), ("withdraw", OnMatched::Withdraw)];
        let unmatched = [("create", OnUnmatched::Create), ("skip", OnUnmatched::Skip), ("fail", OnUnmatched::Fail)];
        Some(Profile {
            name: name.to_owned(),
            source,
            matched: self.choice(node.get("matched"), "choice for matched", &matched).unwrap_or(OnMatched::Update),
            unmatched: self.choice(node.get("unmatched"), "choice for unmatched", &unmatched).unwrap_or(OnUnmatched::Create),
        })
    }

    fn tenants(&mut self, node: Option<&Node>) -> BTreeMap<String, TenantShare> {
        let mut tenants = BTreeMap::new();
        let Some(node) = node else { return tenants };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("tenants are a mapping from names, this is {}", node.shape()));
            return tenants;
        };
        for (name_node, share) in entries {
            let name = name_node.text().unwrap_or_default();
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
            if !(1..=64).contains(&name.len()) || !name.bytes().all(allowed) {
                self.problem(name_node, format!("`{name}` is not a tenant: 1 to 64 small letters, digits, - and _"));
            }
            if self.section(share, "a tenant", &[words::TENANT]).is_some() {
                let weight = share.get("weight").and_then(|node| self.number_of(node, "a weight", 1..=1_000)).unwrap_or(1);
                let most_running = share.get("most_running").and_then(|node| self.number_of(node, "a number of chunks", 1..=u32::MAX));
                tenants.insert(name.to_owned(), TenantShare { weight, max_running: most_running });
            }
        }
        tenants
    }

    fn number_of(&mut self, node: &Node, what: &str, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let number = self.text_of(node, what)?.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let most = if *range.end() == u32::MAX { String::new() } else { format!(" to {}", range.end()) };
            self.problem(node, format!("{what} is a whole number from {}{most}", range.start()));
        }
        number
    }

    // --- sources -------------------------------------------------------------------------------------------------------

    fn source(&mut self, name: &str, name_node: &Node, node: &Node, context: &SourceContext<'_>) -> Option<Source> {
        self.section(node, "a source", &[words::SOURCE])?;
        let families = [("marc", FormatFamily::Marc), ("xml", FormatFamily::Xml), ("json", FormatFamily::Json), ("csv", FormatFamily::Csv)];
        let format = self.required(node, "format");
        let family = self.choice(format, "format", &families)?;
        let records = match (node.get("records"), family) {
            (None, _) => None,
            (Some(records), FormatFamily::Xml | FormatFamily::Json) => self.records(records, family),
            (Some(records), _) => {
                self.problem(records, format!("a {} file has no `records` to choose", family.name()));
                None
            }
        };
        let empty = node.get("empty").and_then(|node| self.regex(node, str::to_owned));
        let mut namespaces = Vec::new();
        if let Some(bindings) = node.get("namespaces") {
            for (prefix, _, uri) in self.named(Some(bindings), "namespaces") {
                namespaces.extend(self.text_of(uri, "a namespace").map(|uri| (prefix.to_owned(), uri.to_owned())));
            }
        }
        let mut lets: Vec<LetValue> = Vec::new();
        let mut types: Types = [meta()].into();
        for (let_name, let_node, rule_node) in self.named(node.get("let"), "let values") {
            if RESERVED.contains(&let_name) {
                self.problem(let_node, format!("`{let_name}` has a meaning in expressions; choose another name"));
            }
            let known: Vec<&str> = lets.iter().map(|known| known.name.as_str()).chain(["meta"]).collect();
            let meta_lets: Vec<&str> = lets.iter().filter(|known| known.rule.reads_meta).map(|known| known.name.as_str()).collect();
            let format = PathSettings { family, namespaces: &namespaces };
            let scope = RuleScope { format, names: &known, types: &types, reads_meta: &meta_lets, context };
            let ty = match rule_node.get("type") {
                Some(ty) => self.field_type(ty),
                None if rule_node.get("match").is_some() => Some(FieldType::Json),
                None if rule_node.get("expr").is_some() => Some(FieldType::Json),
                None => Some(FieldType::Text),
            };
            let Some(ty) = ty else { continue };
            self.is_a_rule(rule_node);
            if let Some(rule) = self.rule(rule_node, &ty, None, &scope) {
                types.insert(let_name.to_owned(), self.type_of_let(&rule, context.patterns, &types));
                lets.push(LetValue { name: let_name.to_owned(), rule });
            }
        }
        let feeds = self.feeds(name_node, node, PathSettings { family, namespaces: &namespaces }, (&lets, &types), context);
        // a single feed's fields are as good as `let` values in the source's own conditions
        let only_feed = if feeds.len() == 1 { feeds.first() } else { None };
        if let Some(feed) = only_feed {
            let fields = feed.map.iter().map(|entry| &context.collections[feed.collection].fields[entry.field]);
            types.extend(fields.map(|field| (field.name.clone(), Type::of(&field.ty).or_null())));
        }
        let mut accept = Vec::new();
        for item in self.items(node.get("accept"), "accept") {
            if self.section(item, "a condition", &[words::ACCEPT]).is_none() {
                continue;
            }
            let unless = self.required(item, "unless").and_then(|node| self.cel_of(node, &types, Expected::Condition));
            let skip = self.choice(item.get("do"), "choice for do", &[("fail", false), ("skip", true)]).unwrap_or(false);
            let text = Expected::Field(&FieldType::Text, TextConversion::Value);
            let reason = item.get("reason").and_then(|node| self.cel_of(node, &types, text));
            accept.extend(unless.map(|unless| AcceptRule { unless, skip, reason }));
        }
        let gone = node.get("gone").and_then(|node| self.cel_of(node, &types, Expected::Condition));
        let as_of = self.as_of(node, &lets, only_feed, &types, context)?;
        let replaces = node.get("replaces").and_then(|node| self.replaces(name, node, &types));
        let collect = node.get("collect").and_then(|node| self.collect(name, node, family, records.as_deref()));
        let asks = node.get("asks").and_then(|node| self.asks(name, node, (family, &as_of, replaces.is_some()), &feeds, context));
        let embeds = self.embeds(node, PathSettings { family, namespaces: &namespaces }, &lets, context);
        Some(Source { name: name.to_owned(), family, records, empty, namespaces, lets, accept, gone, as_of, replaces, collect, asks, feeds, embeds })
    }

    fn collect(&mut self, source: &str, node: &Node, family: FormatFamily, records: Option<&str>) -> Option<Collect> {
        self.section(node, "collect", &[words::COLLECT])?;
        if family != FormatFamily::Json || records != Some("value") {
            self.problem(node, "what is collected by OData is json with `records: $.value[*]`");
        }
        let mut services = Vec::new();
        match self.required(node, "odata").map(|odata| &odata.kind) {
            Some(NodeKind::Map(entries)) => {
                for (name, url) in entries {
                    let (name, address) = (self.text_of(name, "a service's name"), self.url(url));
                    let (Some(name), Some(address)) = (name, address) else { continue };
                    services.push((name.to_owned(), address));
                }
            }
            Some(_) => self.problem(node, "odata is a mapping from names of services to URLs"),
            None => {}
        }
        let window = self.required(node, "window").and_then(|node| self.text_of(node, "window"))?.to_owned();
        let page = match node.get("page").and_then(|node| Some((node, self.text_of(node, "page")?))) {
            None => 1_000,
            Some((node, text)) => text.parse().ok().filter(|page| (1..=100_000).contains(page)).unwrap_or_else(|| {
                self.problem(node, "page is a number of documents, at most 100000");
                1
            }),
        };
        let lag = node.get("lag").and_then(|node| self.length(node, "lag")).unwrap_or(0);
        let since = node.get("since").and_then(|node| {
            let text = self.text_of(node, "since")?.to_owned();
            let time = from_text(&text, &FieldType::Timestamp, None).ok().and_then(|time| time.as_int());
            if time.is_none() {
                self.problem(node, "since is a time, such as 2026-01-01T00:00:00Z");
            }
            time
        });
        let filter = node.get("filter").and_then(|node| self.text_of(node, "filter")).map(str::to_owned);
        let credentials = node.get("credentials").and_then(|node| self.text_of(node, "credentials")).map(str::to_owned);
        Some(Collect { id: id_of(&format!("{source} collect")), services, window, page, lag, since, filter, credentials })
    }

    fn replaces(&mut self, source: &str, node: &Node, names: &Types) -> Option<CompleteDelivery> {
        self.section(node, "replaces", &[words::REPLACES])?;
        let text = Expected::Field(&FieldType::Text, TextConversion::Document);
        let scope = self.required(node, "scope").and_then(|node| self.cel_of(node, names, text))?;
        let at = node.get("at").and_then(|node| self.cel_of(node, names, Expected::Field(&FieldType::Timestamp, TextConversion::Document)));
        let most = node.get("most").and_then(|node| self.percent(node)).unwrap_or(MOST_LACKING);
        // what was said under other words is in other scopes
        let id = id_of(&format!("{source} {}", canonical(node, &["most"])));
        Some(CompleteDelivery { id, scope, at, max_missing: most })
    }

    fn percent(&mut self, node: &Node) -> Option<f64> {
        let text = self.text_of(node, "a share")?;
        let share = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok()).filter(|share| (0.0..=100.0).contains(share));
        if share.is_none() {
            self.problem(node, format!("`{text}` is not a percentage such as 20%"));
        }
        share
    }

    fn records(&mut self, node: &Node, family: FormatFamily) -> Option<String> {
        let text = self.text_of(node, "records")?.to_owned();
        if family == FormatFamily::Xml {
            let local = text.trim_start_matches('/');
            let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':'));
            let valid = match local.rsplit_once('/') {
                Some((around, own)) => is_name(around) && (is_name(own) || own == "*"),
                None => is_name(local),
            };
            if !valid {
                self.problem(
                    node,
                    "`records` of xml is the name of an element, such as `record` or `marc:record`, or behind the one around it: `list/record`",
                );
                return None;
            }
            return Some(local.to_owned());
        }
        let member = text.strip_suffix("[*]").unwrap_or(&text);
        let name = member.strip_prefix("$.").filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        match name {
            _ if member == "$" => None,
            Some(name) => Some(name.to_owned()),
            None => {
                self.problem(node, "`records` of json is \"$[*]\" or one member of the top object, such as \"$.value[*]\"");
                None
            }
        }
    }

    fn as_of(&mut self, node: &Node, lets: &[LetValue], feed: Option<&Feed>, names: &Types, context: &SourceContext<'_>) -> Option<AsOfRule> {
        let Some(as_of) = node.get("as_of") else {
            self.problem_with_help(
                node,
                "this source has no as-of time",
                "add `as_of:` with a field of type timestamp, or `as_of: meta.received` (then the order of delivery matters)",
            );
            return None;
        };
        let text = self.text_of(as_of, "as_of")?.to_owned();
        if text == "meta.received" {
            return Some(AsOfRule::Received);
        }
        let is_time = |ty: &FieldType| matches!(ty, FieldType::Timestamp);
        if let Some(index) = lets.iter().position(|known| known.name == text) {
            if !is_time(&lets[index].rule.ty) {
                self.problem(as_of, format!("as_of is a timestamp, `{text}` is {}", lets[index].rule.ty));
            }
            return Some(AsOfRule::Let(index));
        }
        if let Some(feed) = feed {
            let collection = &context.collections[feed.collection];
            if let Some((index, field)) = collection.field(&text) {
                if !is_time(&field.ty) {
                    self.problem(as_of, format!("as_of is a timestamp, `{text}` is {}", field.ty));
                }
                if feed.map.iter().all(|entry| entry.field != index) {
                    self.problem(as_of, format!("no value for `{text}` in this source"));
                }
                return Some(AsOfRule::Field(index));
            }
        }
        self.cel_of(as_of, names, Expected::Field(&FieldType::Timestamp, TextConversion::Document)).map(AsOfRule::Expression)
    }

    fn feeds(
        &mut self,
        name_node: &Node,
        node: &Node,
        format: PathSettings<'_>,
        lets: (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Vec<Feed> {
        let collection_names: Vec<&str> = context.collections.iter().map(|collection| collection.name.as_str()).collect();
        let mut feeds = Vec::new();
        match (node.get("into"), node.get("feeds")) {
            (Some(into), None) => {
                if let Some(collection) = self.reference(into, "collection", &collection_names) {
                    feeds.extend(self.feed(collection, node, node, format, lets, context));
                }
            }
            (None, Some(list)) => {
                for word in ["map", "when"] {
                    if let Some(value) = node.get(word) {
                        self.problem(value, format!("in a source with `feeds`, `{word}` belongs in each feed"));
                    }
                }
                if matches!(&list.kind, NodeKind::List(items) if items.is_empty()) {
                    self.problem(list, "this source feeds no collection: name one, `feeds: [{ into: COLLECTION }]`");
                }
                for item in self.items(Some(list), "feeds") {
                    if self.section(item, "a feed", &[words::FEED]).is_none() {
                        continue;
                    }
                    let into = self.required(item, "into").and_then(|into| self.reference(into, "collection", &collection_names));
                    let Some(collection) = into else { continue };
                    if feeds.iter().any(|feed: &Feed| feed.collection == collection) {
                        self.problem(item, format!("this source feeds `{}` twice", collection_names[collection]));
                    }
                    feeds.extend(self.feed(collection, item, node, format, lets, context));
                }
            }
            (Some(into), Some(_)) => self.problem(into, "`into` is short for one feed: use it or `feeds`, not both"),
            (None, None) => self.problem(name_node, "this source feeds no collection: add `into: COLLECTION`"),
        }
        feeds
    }

    /// `node` has `when`, `contributor` and `map`; for the shorthand it is the source itself.
    fn feed(
        &mut self,
        collection: usize,
        node: &Node,
        source: &Node,
        format: PathSettings<'_>,
        lets: (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Option<Feed> {
        let let_names: Vec<&str> = lets.0.iter().map(|known| known.name.as_str()).chain(["meta"]).collect();
        let when = node.get("when").and_then(|node| self.cel_of(node, lets.1, Expected::Condition));
        // the source's own is every feed's
        let contributor = match node.get("contributor").or(source.get("contributor")) {
            None => None,
            Some(template_node) => {
                let text = self.text_of(template_node, "a contributor")?.to_owned();
                let braced = if text.contains('{') { text } else { format!("{{{text}}}") };
                match Template::parse(&braced) {
                    Ok(template) => {
                        for name in template.names() {
                            if !let_names.contains(&name) {
                                self.problem(template_node, format!("there is no `let` value `{name}`"));
                            }
                        }
                        Some(template)
                    }
                    Err((at, message)) => {
                        self.problems.push(Diagnostic::new(self.inside(template_node, at), message));
                        None
                    }
                }
            }
        };
        let map = self.map(collection, node, format, lets, context);
        let (_, _, collection_node) = context.collection_nodes[collection];
        let not_mapping = ["index", "unique", "fold", "survivorship", "from", "compare", "derive", "rollup"];
        let fields = collection_node.get("fields").map(|fields| canonical(fields, &not_mapping)).unwrap_or_default();
        let key = &context.collections[collection].key_text;
        let text = format!("{}\n{fields}\n{key}", canonical(source, &["accept", "was"]));
        let mut generation = [0; 16];
        generation.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Some(Feed { collection, when, contributor, map, generation })
    }

    fn map(
        &mut self,
        collection: usize,
        node: &Node,
        format: PathSettings<'_>,
        (lets, types): (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Vec<FieldMapping> {
        let fields = &context.collections[collection].fields;
        let field_names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        // which node gives each field its rule: the feed's own map, or the field itself
        let mut rules: Vec<(usize, Node)> = Vec::new();
        match node.get("map") {
            Some(map) => {
                for (_, name_node, rule) in self.named(Some(map), "fields to map") {
                    let Some(index) = self.reference(name_node, "field", &field_names) else { continue };
                    if fields[index].derive.is_some() {
                        self.problem(name_node, format!("`{}` is derived, documents do not give it", fields[index].name));
                    }
                    self.is_a_rule(rule);
                    rules.push((index, rule.clone()));
                }
            }
            None => {
                for (index, field) in fields.iter().enumerate() {
                    rules.extend(field.rule.as_ref().map(|rule| (index, rule.node.clone())));
                }
            }
        }
        let own_map = node.get("map").is_some();
        let has_path = |rule: &Node| !["expr", "match"].iter().any(|word| rule.get(word).is_some());
        rules.sort_by_key(|(_, rule)| usize::from(!has_path(rule)));
        let meta_lets: Vec<&str> = lets.iter().filter(|known| known.rule.reads_meta).map(|known| known.name.as_str()).collect();
        let mut names: Vec<&str> = lets.iter().map(|known| known.name.as_str()).chain(["meta"]).collect();
        let mut types = types.clone();
        let mut map: Vec<FieldMapping> = Vec::new();
        for (index, rule_node) in &rules {
            let field = &fields[*index];
            let default_path = match format.family {
                FormatFamily::Json => Some(format!("$.{}", field.name)),
                FormatFamily::Csv => Some(field.name.clone()),
                FormatFamily::Marc | FormatFamily::Xml => None,
            };
            let says_nothing = !own_map && !matches!(rule_node.kind, NodeKind::Map(_)) || {
                matches!(rule_node.kind, NodeKind::Map(_))
                    && !["path", "first", "cases", "expr", "match", "map"].iter().any(|word| rule_node.get(word).is_some())
            };
            if says_nothing && default_path.is_none() {
                continue;
            }
            let scope = RuleScope { format, names: &names, types: &types, reads_meta: &meta_lets, context };
            let rule = if says_nothing && !matches!(rule_node.kind, NodeKind::Map(_)) {
                let path = default_path.and_then(|path| Path::compile(&path, format.family.language(), format.namespaces).ok());
                path.map(|path| plain_rule(&field.ty, path))
            } else {
                self.rule(rule_node, &field.ty, default_path, &scope)
            };
            if let Some(rule) = rule {
                map.push(FieldMapping { field: *index, rule });
                names.push(&field.name);
                types.insert(field.name.clone(), Type::of(&field.ty).or_null());
            }
        }
        map
    }

    /// Every collection must be fed, every required field given, every source of `from` and `prefer` heard.
    fn collection_is_fed(&mut self, collection: &Collection, created: bool, name_node: &Node, sources: &[Source], collections: &[Collection]) {
        let own = |feed: &&Feed| collections[feed.collection].name == collection.name;
        if !created && !sources.is_empty() && !sources.iter().flat_map(|source| &source.feeds).any(|feed| own(&feed)) {
            self.problem_with_help(name_node, format!("no source feeds `{}`", collection.name), format!("add `into: {}` to one", collection.name));
        }
        for source in sources {
            for feed in source.feeds.iter().filter(own) {
                for (index, field) in collection.fields.iter().enumerate() {
                    if field.required && feed.map.iter().all(|entry| entry.field != index) {
                        self.problem(name_node, format!("`{}` is required, but source `{}` gives it no value", field.name, source.name));
                    }
                }
                if let KeyDefinition::Field(index) = collection.key
                    && feed.map.iter().all(|entry| entry.field != index)
                {
                    self.problem(name_node, format!("the key `{}` gets no value from source `{}`", collection.fields[index].name, source.name));
                }
            }
        }
    }

    /// The words of a rule that stands in `let` or `map`; the others of a field stand at the field.
    fn is_a_rule(&mut self, node: &Node) {
        if matches!(node.kind, NodeKind::Map(_)) {
            self.section(node, "a rule", &[words::RULE]);
        }
    }

    fn rule(&mut self, node: &Node, ty: &FieldType, default_path: Option<String>, scope: &RuleScope<'_>) -> Option<ValueRule> {
        let has_members = !ty.members().is_empty();
        if has_members && scope.format.family != FormatFamily::Json && node.get("map").is_none() {
            let message = format!("the structs of {} need a rule for each member", scope.format.family.name());
            self.problem_with_help(node, message, "for example: { path: replica, map: { site: '@node' } }");
            return None;
        }
        if !matches!(node.kind, NodeKind::Map(_)) {
            let path = self.path(node, scope.format)?;
            return Some(plain_rule(ty, path));
        }
        let origins: Vec<&str> = ["path", "first", "cases", "expr", "match"].into_iter().filter(|word| node.get(word).is_some()).collect();
        if origins.len() > 1 {
            self.problem(node, format!("use only one of {}", origins.join(", ")));
            return None;
        }
        let origin = match (origins.first().copied(), default_path) {
            (Some("path") | None, default) if node.get("map").is_some() => self.elements(node, ty, default, scope)?,
            (Some("path"), _) => ValueOrigin::Paths(vec![self.path(node.get("path")?, scope.format)?]),
            (Some("first"), _) => {
                let items = self.items(node.get("first"), "first");
                let paths: Vec<Option<Path>> = items.iter().map(|item| self.path(item, scope.format)).collect();
                ValueOrigin::Paths(paths.into_iter().collect::<Option<Vec<_>>>()?)
            }
            (Some("cases"), _) => {
                let mut cases = Vec::new();
                for item in self.items(node.get("cases"), "cases") {
                    self.section(item, "a case", &[words::CASE])?;
                    let path = self.required(item, "if").and_then(|path| self.path(path, scope.format))?;
                    let then = self.required(item, "then")?;
                    let text = self.text_of(then, "then")?.to_owned();
                    if let Err(error) = from_text(&text, ty.element(), None) {
                        self.problem(then, error.to_string());
                    }
                    cases.push((path, text));
                }
                ValueOrigin::Cases(cases)
            }
            (Some("expr"), _) => {
                // what a table replaces, and what is read in a format, is text
                let through_text = ["lookup", "format"].iter().any(|word| node.get(word).is_some());
                let wanted = Expected::Field(if through_text { &FieldType::Text } else { ty }, TextConversion::Document);
                let (expr, known) = (node.get("expr")?, scope.names);
                let expression = self.cel(expr, known)?;
                self.typed(expr, &expression, scope.types, wanted);
                ValueOrigin::Expression(expression)
            }
            (Some("match"), _) => {
                let names: Vec<&str> = scope.context.patterns.iter().map(|pattern| pattern.name.as_str()).collect();
                let pattern = self.reference(node.get("match")?, "pattern", &names)?;
                let of = self.required(node, "of")?;
                let position = self.reference(of, "value", scope.names)?;
                ValueOrigin::Match { pattern, of: scope.names[position].to_owned() }
            }
            (_, Some(path)) => ValueOrigin::Paths(vec![Path::compile(&path, scope.format.family.language(), scope.format.namespaces).ok()?]),
            (_, None) => {
                self.problem(node, "this value has no rule: give it `path`, `first`, `cases`, `expr` or `match`");
                return None;
            }
        };
        let reads_meta = match &origin {
            ValueOrigin::Expression(expression) => {
                expression.variables().iter().any(|name| name == "meta" || scope.reads_meta.contains(&name.as_str()))
            }
            ValueOrigin::Match { of, .. } => of == "meta" || scope.reads_meta.contains(&of.as_str()),
            ValueOrigin::Paths(_) | ValueOrigin::Cases(_) | ValueOrigin::Elements(..) => false,
        };
        let each_field = self.choice(node.get("each"), "choice for each", &[("field", true), ("subfield", false)]).unwrap_or(false);
        if let Some(each) = node.get("each") {
            if scope.format.family != FormatFamily::Marc {
                self.problem(each, "`each` is about MARC fields and subfields");
            } else if each_field && node.get("join").is_none() {
                self.problem(each, "`each: field` needs `join`, the separator between subfields");
            }
        }
        let lookup = match node.get("lookup") {
            None => None,
            Some(lookup) => {
                let names: Vec<&str> = scope.context.tables.keys().map(String::as_str).collect();
                let index = self.reference(lookup, "lookup", &names)?;
                Some(names[index].to_owned())
            }
        };
        let join = match node.get("join") {
            None => None,
            Some(Node { kind: NodeKind::Scalar { text, .. }, .. }) => Some(text.clone()),
            Some(other) => {
                self.problem(other, format!("join is text, this is {}", other.shape()));
                None
            }
        };
        Some(ValueRule {
            ty: ty.clone(),
            origin,
            each_field,
            join,
            clean: self.choice(node.get("clean"), "choice for clean", &[("trim", WhitespaceRule::Trim), ("squash", WhitespaceRule::Squash)]),
            format: node.get("format").and_then(|format| self.format(format, ty)),
            lookup,
            strict: self.choice(node.get("on_error"), "choice for on_error", &[("warn", false), ("fail", true)]).unwrap_or(false),
            reads_meta,
        })
    }

    /// `path` finds the places, `map` says of each member where it is from there.
    fn elements(&mut self, node: &Node, ty: &FieldType, default_path: Option<String>, scope: &RuleScope<'_>) -> Option<ValueOrigin> {
        let map = node.get("map")?;
        let members = ty.members();
        if members.is_empty() || !matches!(scope.format.family, FormatFamily::Json | FormatFamily::Xml) {
            self.problem(map, "`map` is for lists of structs of json and xml");
            return None;
        }
        let path = match (node.get("path"), default_path) {
            (Some(path), _) => self.path(path, scope.format)?,
            (None, Some(path)) => Path::compile(&path, PathLanguage::Json, &[]).ok()?,
            (None, None) => {
                self.problem(node, "`path` says where the structs are");
                return None;
            }
        };
        let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        let mut rules = Vec::new();
        for (_, name_node, rule_node) in self.named(Some(map), "members") {
            let Some(index) = self.reference(name_node, "member", &names) else { continue };
            if let Some(other) = ["expr", "match"].iter().find_map(|word| rule_node.get(word)) {
                self.problem(other, "a member comes from a path");
                continue;
            }
            if matches!(rule_node.kind, NodeKind::Map(_)) {
                self.section(rule_node, "a member's rule", &[words::RULE])?;
            }
            let own = &members[index];
            let default = (scope.format.family == FormatFamily::Json).then(|| format!("$.{}", own.name));
            if let Some(rule) = self.rule(rule_node, &own.ty, default, scope) {
                rules.push((index, rule));
            }
        }
        Some(ValueOrigin::Elements(path, rules))
    }

    fn format(&mut self, node: &Node, ty: &FieldType) -> Option<String> {
        let text = self.text_of(node, "format")?.to_owned();
        let fits = match ty.element() {
            FieldType::Timestamp => matches!(text.as_str(), "epoch" | "epoch_ms" | "epoch_us") || text.contains('%'),
            FieldType::Date => text.contains('%'),
            FieldType::Duration => matches!(text.as_str(), "d" | "h" | "m" | "s" | "ms" | "us"),
            _ => false,
        };
        if !fits {
            self.problem(node, format!("`{text}` is not a format of {ty}: timestamps and dates take a strftime pattern or epoch, durations a unit"));
        }
        fits.then_some(text)
    }

    fn path(&mut self, node: &Node, format: PathSettings<'_>) -> Option<Path> {
        let language = format.family.language();
        let text = self.text_of(node, &format!("a {}", language.name()))?.to_owned();
        match Path::compile(&text, language, format.namespaces) {
            Ok(path) => Some(path),
            Err(error) => {
                let problem = Diagnostic::new(self.inside(node, error.at), format!("not a {}: {}", language.name(), error.message));
                self.problems.push(problem.help(format!(
                    "paths are in the language of the source's format ({}); a source with another format needs a `map` of its own",
                    format.family.name()
                )));
                None
            }
        }
    }
}

struct SourceContext<'a> {
    collections: &'a [Collection],
    collection_nodes: &'a [(&'a str, &'a Node, &'a Node)],
    tables: &'a ConstantTables,
    patterns: &'a [PatternSet],
    source_names: &'a [&'a str],
    service_names: &'a [&'a str],
}

/// How paths of a source are read.
#[derive(Clone, Copy)]
struct PathSettings<'a> {
    family: FormatFamily,
    namespaces: &'a [(String, String)],
}

struct RuleScope<'a> {
    format: PathSettings<'a>,
    /// Names expressions may use here.
    names: &'a [&'a str],
    /// Their types.
    types: &'a Types,
    /// Those that depend on the envelope.
    reads_meta: &'a [&'a str],
    context: &'a SourceContext<'a>,
}

fn plain_rule(ty: &FieldType, path: Path) -> ValueRule {
    ValueRule {
        ty: ty.clone(),
        origin: ValueOrigin::Paths(vec![path]),
        each_field: false,
        join: None,
        clean: None,
        format: None,
        lookup: None,
        strict: false,
        reads_meta: false,
    }
}

fn placeholder(name: &str) -> Field {
    Field {
        name: name.to_owned(),
        ty: FieldType::Text,
        required: false,
        index: FieldIndexes::default(),
        unique: false,
        fold: false,
        one_of: Vec::new(),
        derive: None,
        survivorship: Survivorship::Latest,
        from: None,
        compare: false,
        rule: None,
    }
}

/// Everything by which records are settled, as text.
fn settling_text(root: &Node, nodes: &[(&str, &Node, &Node)], links: &[Link], collections: &[Collection]) -> String {
    let part = |node: Option<&Node>| node.map(|node| canonical(node, &[])).unwrap_or_default();
    let mut text = String::new();
    for (name, _, node) in nodes {
        let Some(Node { kind: NodeKind::Map(fields), .. }) = node.get("fields") else { continue };
        let derived = fields.iter().filter(|(_, field)| field.get("derive").is_some() || field.get("rollup").is_some());
        let derived: Vec<String> = derived.map(|(name, field)| format!("{} {}", part(Some(name)), part(Some(field)))).collect();
        let is_rolled_up = fields.iter().any(|(_, field)| field.get("rollup").is_some());
        if is_rolled_up || node.get("links").is_some() || node.get("coverage").is_some() {
            text.push_str(&format!("{name} {} {} {derived:?}\n", part(node.get("links")), part(node.get("coverage"))));
        }
    }
    // links of lists were settled otherwise once: what of them changes is settled again
    for link in links.iter().filter(|link| link.speaks_of_lists(collections)) {
        text.push_str(&format!("{} {} lists\n", collections[link.child_collection].name, link.name));
    }
    if text.is_empty() { text } else { text + &part(root.get("lookups")) }
}

/// The definition as text without layout, comments and the keys in `without`: equal text, equal meaning.
fn canonical(node: &Node, without: &[&str]) -> String {
    match &node.kind {
        NodeKind::Scalar { text, quoted } => format!("{}{text:?}", if *quoted { "'" } else { "" }),
        NodeKind::List(items) => format!("[{}]", items.iter().map(|item| canonical(item, without)).collect::<Vec<_>>().join(",")),
        NodeKind::Map(entries) => {
            let mut lines: Vec<String> = entries
                .iter()
                .filter(|(name, _)| !name.text().is_some_and(|name| without.contains(&name)))
                .map(|(name, value)| format!("{:?}:{}", name.text().unwrap_or_default(), canonical(value, without)))
                .collect();
            lines.sort();
            format!("{{{}}}", lines.join(","))
        }
    }
}
