//! Parses collections: their fields and keys, and whether sources feed them.

use super::expressions::RESERVED;
use super::fields::placeholder;
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::Node;
use crate::diagnostic::Diagnostic;
use crate::model::definition::{Collection, ExistenceRule, Feed, Field, FieldIndexes, KeyDefinition, Source, Survivorship};
use crate::model::ids::{CollectionId, FieldId, IdVec, SourceId};
use crate::model::key::Template;
use std::collections::HashMap;
use std::time::Duration;

/// Max fields of a collection.
const MAX_FIELDS: usize = 500;

impl DefinitionParser<'_> {
    /// Checks that no two fields would share a table or an index: stores name these by collection and field, joined by `_`.
    pub(super) fn check_stored_names(&mut self, collections: &IdVec<CollectionId, Collection>, nodes: &IdVec<CollectionId, NamedNode<'_>>) {
        let mut owners: HashMap<String, (CollectionId, &str)> = HashMap::new();
        for (index, collection) in collections.enumerate() {
            let has_own = |field: &&Field| field.unique || field.index != FieldIndexes::default();
            let of_fields = collection.fields.iter().filter(has_own).flat_map(|field| {
                let column = if field.fold && !field.ty.is_list() { "x" } else { "f" };
                [format!("{}_{}", collection.name, field.name), format!("index of {}_{column}_{}", collection.name, field.name)]
                    .map(|name| (name, field.name.as_str()))
            });
            let states = collection.states.iter().filter(|state| state.index != FieldIndexes::default());
            let of_states = states.map(|state| (format!("index of {}_s_{}", collection.name, state.name), state.name.as_str()));
            for (stored, field) in of_fields.chain(of_states) {
                let (other, other_field) = *owners.entry(stored).or_insert((index, field));
                if other != index {
                    let (other, own) = (&collections[other].name, &collection.name);
                    let message = format!("`{own}.{field}` and `{other}.{other_field}` would have the same name in a store; rename one of them");
                    self.problem(nodes[index].name_node, message);
                }
            }
        }
    }

    pub(super) fn collection(&mut self, name: &str, node: &Node, source_names: &[&str]) -> Collection {
        self.section(node, "a collection", &[keywords::COLLECTION]);
        let default_rule = match node.get("survivorship") {
            Some(rule) => self.survivorship(rule, source_names).unwrap_or(Survivorship::Latest),
            None => Survivorship::Latest,
        };
        let field_nodes = self.named_entries(node.get("fields"), "fields");
        if field_nodes.is_empty() {
            self.problem(node, format!("collection `{name}` has no fields"));
        }
        let mut field_names: Vec<&str> = field_nodes.iter().map(|entry| entry.name).collect();
        let link_fields = self.link_fields(node, &field_names);
        field_names.extend(link_fields.iter().map(|field| field.name.as_str()));
        let mut fields = IdVec::new();
        let mut rules = Vec::with_capacity(field_nodes.len());
        for NamedNode { name, name_node, node } in &field_nodes {
            if RESERVED.contains(name) {
                self.problem(name_node, format!("`{name}` is reserved in expressions and queries; choose another name"));
            }
            let field = self.field(name, node, &default_rule, source_names, &field_names);
            if field.is_some() && node.get("derive").or(node.get("rollup")).is_none() {
                rules.push((FieldId::from(fields.len()), (*node).clone()));
            }
            fields.push(field.unwrap_or_else(|| placeholder(name)));
        }
        self.field_rules.insert(name.to_owned(), rules);
        self.check_derivation_cycles(&fields, &field_nodes);
        fields.extend(link_fields.iter().cloned());
        let members = self.member_fields(&fields, &field_nodes);
        fields.extend(members);
        if fields.len() > MAX_FIELDS {
            self.problem(node, format!("a collection has at most {MAX_FIELDS} fields"));
        }
        let (key, key_text) = self.key_rule(name, node, &fields).unwrap_or((KeyDefinition::Field(FieldId::from(0)), String::new()));
        let title = node.get("title").and_then(|title| self.title(title, &fields));
        let keep_raw = self.choice(node.get("raw"), "choice for raw", &[("keep", true), ("drop", false)]).unwrap_or(false);
        let exists = self
            .choice(node.get("exists"), "choice for exists", &[("latest", ExistenceRule::Latest), ("any", ExistenceRule::Any)])
            .unwrap_or(ExistenceRule::Latest);
        let history = node.get("history").and_then(|node| self.number_of(node, "history", 1..=10_000));
        let changes = self.kept_changes(node);
        let states = self.states(node, &field_names);
        let transitions = self.transitions(node, &fields, &states);
        Collection {
            name: name.to_owned(),
            key,
            key_text,
            title,
            keep_raw,
            exists,
            history,
            changes,
            fields,
            states,
            transitions,
            tags: None,
            compose: None,
            publish: None,
            rows_of: None,
        }
    }

    /// Parses `title`: a field with one value that can be read in a line.
    fn title(&mut self, node: &Node, fields: &IdVec<FieldId, Field>) -> Option<FieldId> {
        let text = self.text_of(node, "a title")?;
        let readable = |field: &&Field| field.ty.is_ordered();
        let names: Vec<&str> = fields.iter().filter(readable).map(|field| field.name.as_str()).collect();
        self.reference::<FieldId>(node, "field", &names)?;
        fields.position(|field| field.name == text)
    }

    /// Parses `changes`: how long the changes of a collection can be followed.
    fn kept_changes(&mut self, collection: &Node) -> Option<Duration> {
        let node = collection.get("changes")?;
        let micros = self.duration(node, "`changes`")?;
        if micros <= 0 {
            self.problem(node, "`changes` is how long changes are kept for those who follow them, such as 30d");
            return None;
        }
        Some(Duration::from_micros(micros.unsigned_abs()))
    }

    fn key_rule(&mut self, name: &str, node: &Node, fields: &IdVec<FieldId, Field>) -> Option<(KeyDefinition, String)> {
        let Some(key) = node.get("key") else {
            self.problem(node, format!("collection `{name}` has no key"));
            return None;
        };
        let text = self.text_of(key, "a key")?.to_owned();
        let contributed: Vec<&str> = fields.iter().filter(|field| field.derive.is_none()).map(|field| field.name.as_str()).collect();
        let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name {
            self.reference::<FieldId>(key, "field", &contributed)?;
            let index = fields.position(|field| field.name == text)?;
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
                            self.problems.push(Diagnostic::new(self.span_at(key, at), format!("there is no field `{placeholder}`")));
                        }
                    }
                    return Some((KeyDefinition::Template(template), text));
                }
                Err((at, message)) => {
                    self.problems.push(Diagnostic::new(self.span_at(key, at), message));
                    return None;
                }
            }
        }
        Some((KeyDefinition::Expression(self.cel(key, &contributed)?), text))
    }

    /// Checks that every collection is fed, and that its key and every required field are given.
    pub(super) fn check_collection_is_fed(
        &mut self,
        collection: &Collection,
        created: bool,
        name_node: &Node,
        sources: &IdVec<SourceId, Source>,
        collections: &IdVec<CollectionId, Collection>,
    ) {
        let feeds_it = |feed: &&Feed| collections[feed.collection].name == collection.name;
        if !created && !sources.is_empty() && !sources.iter().flat_map(|source| &source.feeds).any(|feed| feeds_it(&feed)) {
            self.problem_with_help(name_node, format!("no source feeds `{}`", collection.name), format!("add `into: {}` to one", collection.name));
        }
        for source in sources {
            for feed in source.feeds.iter().filter(feeds_it) {
                for (index, field) in collection.fields.enumerate() {
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
}
