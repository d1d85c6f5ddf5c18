//! Parses `compose` of collections: how the MARC record of a record is composed from the documents of its contributors.

use super::keywords;
use super::parser::DefinitionParser;
use super::yaml::{Node, NodeKind};
use crate::marcspec::{FieldPart, MarcSpec, TagPattern};
use crate::model::definition::{Collection, Composition, Feed, FormatFamily, ProtectedFields, Source, Survivorship};
use crate::model::ids::{CollectionId, IdVec, LinkId, SourceId};
use crate::model::links::Link;
use stook_marc::compose::FieldText;
use stook_marc::line::field_data;

/// The field that says when a record was changed.
const CHANGED: &str = "005";

/// What of a definition is known when the records of a collection are composed.
#[derive(Clone, Copy)]
pub(super) struct DefinitionParts<'d> {
    pub(super) collections: &'d IdVec<CollectionId, Collection>,
    pub(super) links: &'d IdVec<LinkId, Link>,
    pub(super) sources: &'d IdVec<SourceId, Source>,
}

impl DefinitionParser<'_> {
    /// Parses `compose` of a collection. `node` is the collection.
    pub(super) fn composition(&mut self, id: CollectionId, node: &Node, definition: &DefinitionParts<'_>) -> Option<Composition> {
        let DefinitionParts { collections, links, sources } = *definition;
        let (collection, collection_rule) = (&collections[id], node.get("survivorship"));
        let node = node.get("compose")?;
        self.section(node, "compose", &[keywords::COMPOSE])?;
        let mut with = Vec::new();
        for item in node.get("with").map(Node::items_or_self).unwrap_or_default() {
            let Some(link) = self.over(item, id, collections, links) else { continue };
            let (child, name) = (&collections[links[link].child_collection], &links[link].name);
            if !child.keep_raw || !child.fields[links[link].field].index.ordered {
                let message = format!("`{}` must keep its documents (`raw: keep`), and its link `{name}` needs `index: equal`", child.name);
                self.problem(item, message);
            }
            with.push(link);
        }
        if let (Some(item), true) = (node.get("with"), collection.publish.is_some()) {
            let help = "what is published has the time of its last change, which does not move when another record changes";
            self.problem_with_help(item, "a published record cannot be composed of the documents of other records", help);
        }
        let is_composed = |feed: &Feed| {
            let is_linked = with.iter().any(|link| links[*link].child_collection == feed.collection);
            (feed.collection == id && collection.keep_raw || is_linked) && feed.each.is_none()
        };
        let gives_marc = |source: &&Source| source.family == FormatFamily::Marc && source.feeds.iter().any(is_composed);
        let marc: Vec<&str> = sources.iter().filter(gives_marc).map(|source| source.name.as_str()).collect();
        if marc.is_empty() {
            let help = "add `raw: keep`, and feed the collection from a source of `format: marc`, without `each`";
            self.problem_with_help(node, "a MARC record is composed from kept MARC documents, and this collection has none", help);
            return None;
        }
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let base_node = node.get("survivorship");
        let base = base_node.or(collection_rule).and_then(|rule| self.survivorship(rule, &names)).unwrap_or(Survivorship::Latest);
        if base.combines() {
            let help = "compose: { survivorship: latest }, earliest, or { prefer: [sources] }";
            self.problem_with_help(base_node.unwrap_or(node), "a record begins as the document of one contributor; say whose", help);
        }
        let mut protect = Vec::new();
        if let Some(owners) = node.get("protect") {
            let NodeKind::Map(entries) = &owners.kind else {
                let help = "say whose they are: protect: { local: [590, 9..] }";
                self.problem_with_help(owners, format!("protected fields are fields of a source, this is {}", owners.kind_name()), help);
                return None;
            };
            for (name, specs) in entries {
                let Some(index) = self.reference::<usize>(name, "source of MARC records of this collection", &marc) else { continue };
                let fields = self.field_specs(specs);
                if let Some(source) = sources.position(|source| source.name == marc[index]) {
                    protect.push(ProtectedFields { source, fields });
                }
            }
        }
        let union = node.get("union").map(|specs| self.field_specs(specs)).unwrap_or_default();
        let other_numbers = node.get("other_numbers").and_then(|tag| {
            let number = self.field_tag(tag)?;
            if number.starts_with(b"00") {
                self.problem_with_help(tag, "control numbers are subfields $a of a data field", "for example: other_numbers: '035'");
            }
            Some(number)
        });
        let defaults = node.get("defaults").map(|fields| self.default_fields(fields)).unwrap_or_default();
        Some(Composition { base, with, protect, union, other_numbers, defaults })
    }

    /// Parses MARCspecs of whole fields: one, or a list.
    fn field_specs(&mut self, node: &Node) -> Vec<MarcSpec> {
        let mut specs = Vec::new();
        for item in node.items_or_self() {
            let Some(text) = self.text_of(item, "a field").map(str::to_owned) else { continue };
            match MarcSpec::parse(&text) {
                Err(error) => {
                    let span = self.span_at(item, error.at);
                    self.problems.push(crate::diagnostic::Diagnostic::new(span, error.message));
                }
                Ok(spec) if spec.part != FieldPart::Whole || spec.tag == TagPattern::LEADER => {
                    self.problem_with_help(
                        item,
                        "this names a part of a field; a field is kept as a whole",
                        "for example: 590, 9.. or 650{$2=\\local}",
                    );
                }
                Ok(spec) if spec.tag.0 == *b"005" => {
                    self.problem(item, format!("field {CHANGED} is the newest time of what is composed, whoever it is from"));
                }
                Ok(spec) => specs.push(spec),
            }
        }
        specs
    }

    fn field_tag(&mut self, node: &Node) -> Option<[u8; 3]> {
        let text = self.text_of(node, "a tag")?;
        let tag: Option<[u8; 3]> = text.as_bytes().try_into().ok().filter(|tag: &[u8; 3]| tag.iter().all(u8::is_ascii_alphanumeric));
        if tag.is_none() || text == "LDR" {
            let message = format!("`{text}` is not the tag of a field, which has three digits or letters");
            self.problem(node, message);
            return None;
        }
        tag
    }

    /// Parses fields by tag, each with its content as in line mode, or a list of contents.
    fn default_fields(&mut self, node: &Node) -> Vec<FieldText> {
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("default fields are a mapping from tags, this is {}", node.kind_name()));
            return Vec::new();
        };
        let mut fields = Vec::new();
        for (name, contents) in entries {
            let Some(tag) = self.field_tag(name) else { continue };
            if tag == *CHANGED.as_bytes() {
                self.problem(name, format!("every record has a field {CHANGED}: the newest time of what is composed"));
            }
            for item in contents.items_or_self() {
                let Some(content) = self.text_of(item, "a field").map(str::to_owned) else { continue };
                let is_control = tag.starts_with(b"00");
                let head: Option<Vec<char>> = content.split_once('$').map(|(head, _)| head.chars().collect());
                let is_indicator = |c: &char| c.is_ascii_digit() || *c == '\\' || *c == ' ';
                if !is_control && !head.is_some_and(|head| head.len() == 2 && head.iter().all(is_indicator)) {
                    let help = "for example: '040': '\\\\$aDE-1$bger', where `\\` is a blank";
                    self.problem_with_help(item, "a data field is written as two indicators and subfields", help);
                }
                fields.push(FieldText { tag, data: field_data(tag, &content) });
            }
        }
        fields
    }
}
