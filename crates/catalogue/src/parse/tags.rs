//! Parses tags of a collection, and embedded documents, on which tags are evaluated.

use super::parser::{DefinitionParser, NamedNode};
use super::rules::{PathSettings, SourceContext};
use crate::diagnostic::Diagnostic;
use crate::model::definition::{
    Collection, EmbeddedDocument, FormatFamily, JoinedAttribute, LetValue, Source, TagAttribute, TagDocument, TagSettings,
};
use crate::model::ids::{CollectionId, IdVec, SourceId};
use crate::model::key::Template;
use crate::model::links::id_of;
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};
use crate::value::FieldType;

impl DefinitionParser<'_> {
    pub(super) fn embeds(&mut self, node: &Node, format: PathSettings<'_>, lets: &[LetValue], context: &SourceContext<'_>) -> Vec<EmbeddedDocument> {
        let mut embeds = Vec::new();
        for NamedNode { name_node: source_node, node: embed, .. } in self.named_entries(node.get("embeds"), "embedded documents") {
            let source = self.reference(source_node, "source", context.source_names);
            if self.section(embed, "an embedded document", &[keywords::EMBED]).is_none() {
                continue;
            }
            let path = self.required(embed, "path").and_then(|path| self.path(path, format));
            let name = self.required(embed, "name").and_then(|node| {
                let text = self.text_of(node, "a name")?;
                match Template::parse(text) {
                    Ok(name) => {
                        for unknown in name.names().filter(|name| !lets.iter().any(|known| known.name == *name)) {
                            self.problem(node, format!("there is no `let` value `{unknown}`"));
                        }
                        Some(name)
                    }
                    Err((at, message)) => {
                        self.problems.push(Diagnostic::new(self.span_at(node, at), message));
                        None
                    }
                }
            });
            if let (Some(source), Some(path), Some(name)) = (source, path, name) {
                embeds.push(EmbeddedDocument { source, path, name });
            }
        }
        embeds
    }

    /// Checks that sources of embedded documents are XML or JSON, have no `replaces`, and embed nothing themselves.
    pub(super) fn check_embedded_sources(&mut self, sources: &IdVec<SourceId, Source>, index: SourceId, name_node: &Node) {
        for inner in sources[index].embeds.iter().filter_map(|embed| sources.get(embed.source)) {
            if !inner.embeds.is_empty() {
                self.problem(name_node, format!("`{}` is embedded, so it embeds nothing itself", inner.name));
            }
            if inner.replaces.is_some() || matches!(inner.family, FormatFamily::Marc | FormatFamily::Csv) {
                self.problem(
                    name_node,
                    format!("`{}` cannot be embedded: what is embedded is xml or json, without `replaces` and `each`", inner.name),
                );
            }
        }
    }

    pub(super) fn tags(
        &mut self,
        (collection_id, collection): (CollectionId, &Collection),
        node: &Node,
        sources: &IdVec<SourceId, Source>,
    ) -> Option<TagSettings> {
        self.section(node, "tags", &[keywords::TAGS])?;
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let document = match node.get("document") {
            None => None,
            Some(document) => {
                self.section(document, "a document", &[keywords::TAG_DOCUMENT])?;
                let mut used = Vec::new();
                let root_node = self.required(document, "root")?;
                let root = self.reference(root_node, "source", &names)?;
                used.push((root_node, root));
                let placeholder = document.get("otherwise").and_then(|node| self.text_of(node, "a name")).unwrap_or("none").to_owned();
                if placeholder.is_empty() || !placeholder.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
                    self.problem(document, "`otherwise` is the name of an element");
                }
                let mut embedded: Vec<(String, SourceId)> = Vec::new();
                for NamedNode { name: prefix, node: source, .. } in self.named_entries(document.get("parts"), "parts") {
                    let Some(index) = self.reference(source, "source", &names) else { continue };
                    used.push((source, index));
                    embedded.push((prefix.to_owned(), index));
                }
                embedded.sort();
                let mut namespaces: Vec<(String, String)> = embedded.iter().map(|(prefix, _)| (prefix.clone(), prefix.clone())).collect();
                for (node, index) in used {
                    let source = &sources[index];
                    if source.family != FormatFamily::Xml {
                        self.problem(node, format!("`{}` is {}; XPath tags need xml", source.name, source.family.name()));
                    }
                    if source.replaces.is_some() {
                        self.problem(node, format!("source `{}` has complete deliveries and cannot be used for tags", source.name));
                    }
                    if source.feeds.iter().all(|feed| feed.collection != collection_id) {
                        self.problem(node, format!("`{}` does not feed `{}`", source.name, collection.name));
                    }
                    for binding in &source.namespaces {
                        if !namespaces.iter().any(|(prefix, _)| *prefix == binding.0) {
                            namespaces.push(binding.clone());
                        }
                    }
                }
                if !collection.keep_raw {
                    self.problem(document, "an XPath is asked of kept documents: add `raw: keep` to the collection");
                }
                Some(TagDocument { root, placeholder, embedded, namespaces })
            }
        };
        let steps = node.get("steps").and_then(|node| self.number_of(node, "steps", 1_000..=u32::MAX)).map_or(1_000_000, u64::from);
        let mut attributes = Vec::new();
        for NamedNode { name, name_node, node: ty } in self.named_entries(node.get("attributes"), "attributes") {
            if ["name", "comment", "xpath", "query", "created", "changed"].contains(&name) {
                self.problem(name_node, format!("every tag has a `{name}` already"));
            }
            attributes.extend(self.tag_attribute(name, ty));
        }
        Some(TagSettings { id: id_of(&format!("tags {}", collection.name)), document, steps, attributes })
    }

    fn tag_attribute(&mut self, name: &str, node: &Node) -> Option<TagAttribute> {
        if !matches!(node.kind, NodeKind::Map(_)) {
            return self.field_type(node).map(|ty| TagAttribute { name: name.to_owned(), ty, joined: None });
        }
        self.section(node, "an attribute of tags", &[keywords::TAG_ATTRIBUTE])?;
        let ty = self.required(node, "type").and_then(|node| self.field_type(node))?;
        let first = node.get("first").and_then(|node| self.text_of(node, "a text")).map(str::to_owned);
        let separator = node.get("join").and_then(|node| self.text_of(node, "a text")).map(str::to_owned);
        if ty != FieldType::Text && separator.is_some() {
            self.problem(node, "only texts are joined");
        }
        if first.is_some() && separator.is_none() {
            self.problem(node, "`first` is what stands before values that are joined: add `join`");
        }
        let joined = separator.map(|separator| JoinedAttribute { separator, first });
        Some(TagAttribute { name: name.to_owned(), ty, joined })
    }
}
