//! Parses feeds: to which collections a source contributes, and where in its documents each field gets its value from.

use super::expressions::Types;
use super::fingerprint::{canonical, source_fingerprint};
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::rules::{PathSettings, RuleScope, SourceContext, plain_rule};
use super::yaml::{Node, NodeKind};
use crate::diagnostic::Diagnostic;
use crate::eval::types::{Expected, Type};
use crate::model::definition::{Feed, FeedEach, FieldMapping, FormatFamily, LetValue};
use crate::model::ids::{CollectionId, FieldId};
use crate::model::key::Template;

impl DefinitionParser<'_> {
    pub(super) fn feeds(
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
                    feeds.extend(self.feed(collection, (node, node), format, lets, context));
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
                    if self.section(item, "a feed", &[keywords::FEED]).is_none() {
                        continue;
                    }
                    let into = self.required(item, "into").and_then(|into| self.reference(into, "collection", &collection_names));
                    let Some(collection) = into else { continue };
                    if feeds.iter().any(|feed: &Feed| feed.collection == collection && (feed.each.is_none() || item.get("each").is_none())) {
                        self.problem(item, format!("this source feeds `{}` twice", context.collections[collection].name));
                    }
                    feeds.extend(self.feed(collection, (item, node), format, lets, context));
                }
            }
            (Some(into), Some(_)) => self.problem(into, "`into` is short for one feed: use it or `feeds`, not both"),
            (None, None) => self.problem(name_node, "this source feeds no collection: add `into: COLLECTION`"),
        }
        let is_identified = |feed: &Feed| feed.each.as_ref().is_none_or(|each| each.of.is_some());
        if !feeds.is_empty() && feeds.iter().all(|feed| feed.each.is_some()) && !feeds.iter().all(is_identified) {
            let help = "say which `let` value identifies a document: `each: { path: PATH, of: NAME }`";
            self.problem_with_help(name_node, "what its documents contained before cannot be known: no feed is without `each`", help);
        }
        feeds
    }

    /// Parses a feed. `node` has `when`, `contributor` and `map`; in the short form it is the source itself.
    fn feed(
        &mut self,
        collection: CollectionId,
        (node, source): (&Node, &Node),
        format: PathSettings<'_>,
        lets: (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Option<Feed> {
        let let_names: Vec<&str> = lets.0.iter().map(|known| known.name.as_str()).chain(["meta"]).collect();
        let when = node.get("when").and_then(|node| self.cel_of(node, lets.1, Expected::Condition));
        // a `contributor` of the source applies to every feed
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
                        self.problems.push(Diagnostic::new(self.span_at(template_node, at), message));
                        None
                    }
                }
            }
        };
        let each = node.get("each").and_then(|node| self.feed_each(node, format, &let_names));
        let format = PathSettings { is_inside: each.is_some(), ..format };
        let map = self.map(collection, node, format, lets, context);
        let NamedNode { node: collection_node, .. } = context.collection_nodes[collection];
        let unrelated_keys = ["index", "unique", "fold", "survivorship", "from", "compare", "derive", "rollup"];
        let fields = collection_node.get("fields").map(|fields| canonical(fields, &unrelated_keys)).unwrap_or_default();
        let key = &context.collections[collection].key_text;
        let mut text = format!("{}\n{fields}\n{key}", source_fingerprint(source));
        // documents are mapped again after a table has changed that the mapping or a derived field names
        let all_fields = collection_node.get("fields").map(|fields| canonical(fields, &[])).unwrap_or_default();
        let named_tables = context.table_texts.iter().filter(|(name, _)| text.contains(name) || all_fields.contains(name));
        let tables: String = named_tables.map(|(name, table)| format!("\n{name} {table}")).collect();
        text.push_str(&tables);
        let mut generation = [0; 16];
        generation.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Some(Feed { collection, each, when, contributor, map, generation })
    }

    /// Parses `each`: a path, or a mapping with the name of what identifies the document.
    fn feed_each(&mut self, node: &Node, format: PathSettings<'_>, let_names: &[&str]) -> Option<FeedEach> {
        if format.family == FormatFamily::Csv {
            self.problem(node, "a row of csv has no parts that contribute one by one");
            return None;
        }
        if !matches!(node.kind, NodeKind::Map(_)) {
            return Some(FeedEach { path: self.path_to_elements(node, format)?, of: None });
        }
        self.section(node, "each", &[keywords::EACH])?;
        let path = self.required(node, "path").and_then(|path| self.path_to_elements(path, format));
        let of = self.required(node, "of").and_then(|of| self.reference::<usize>(of, "value", let_names));
        Some(FeedEach { path: path?, of: Some(let_names[of?].to_owned()) })
    }

    fn map(
        &mut self,
        collection: CollectionId,
        node: &Node,
        format: PathSettings<'_>,
        (lets, types): (&[LetValue], &Types),
        context: &SourceContext<'_>,
    ) -> Vec<FieldMapping> {
        let fields = &context.collections[collection].fields;
        let field_names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        // the node with the rule of each field: in the feed's own map, or at the field itself
        let mut rules: Vec<(FieldId, Node)> = Vec::new();
        match node.get("map") {
            Some(map) => {
                for NamedNode { name_node, node: rule, .. } in self.named_entries(Some(map), "fields to map") {
                    let Some(index) = self.reference(name_node, "field", &field_names) else { continue };
                    if fields[index].derive.is_some() {
                        self.problem(name_node, format!("`{}` is derived, documents do not give it", fields[index].name));
                    }
                    self.check_rule_keys(rule);
                    rules.push((index, rule.clone()));
                }
            }
            None => {
                let field_rules = self.field_rules.get(&context.collections[collection].name).map_or(&[][..], Vec::as_slice);
                rules.extend(field_rules.iter().cloned());
            }
        }
        let has_map = node.get("map").is_some();
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
            let uses_default_path = !has_map && !matches!(rule_node.kind, NodeKind::Map(_)) || {
                matches!(rule_node.kind, NodeKind::Map(_))
                    && !["path", "first", "cases", "around", "expr", "match", "map"].iter().any(|word| rule_node.get(word).is_some())
            };
            if uses_default_path && default_path.is_none() {
                continue;
            }
            let scope = RuleScope { format, names: &names, types: &types, reads_meta: &meta_lets, context };
            let rule = if uses_default_path && !matches!(rule_node.kind, NodeKind::Map(_)) {
                let path = default_path.and_then(|path| format.compile(&path).ok());
                path.map(|path| plain_rule(&field.ty, path))
            } else {
                self.rule(rule_node, &field.ty, default_path, &scope)
            };
            if let Some(rule) = rule {
                map.push(FieldMapping { field: *index, rule, is_default: uses_default_path && !has_map });
                names.push(&field.name);
                types.insert(field.name.clone(), Type::from_field_type(&field.ty).or_null());
            }
        }
        map
    }
}
