//! Parses what routes in steps find and change of tags.

use super::expressions::Types;
use super::parser::{DefinitionParser, NamedNode};
use super::route_steps::{AS_JSON, AS_TEXT};
use super::routes::RouteScope;
use crate::eval::Expression;
use crate::model::definition::Collection;
use crate::model::ids::CollectionId;
use crate::model::route::{TagFind, TagProperty, TagWrite};
use crate::parse::yaml::Node;

/// Words of lookups that a find of tags does not have.
const LOOKUP_WORDS: [&str; 9] = ["one", "list", "where", "query", "sort", "include", "fields", "distinct", "page"];

/// What is done with a tag, without its details.
#[derive(Clone, Copy, PartialEq)]
enum TagStep {
    Create,
    Change,
    Delete,
    Evaluate,
    Assign,
}

impl DefinitionParser<'_> {
    pub(super) fn tag_find(&mut self, node: &Node, tags: &Node, types: &Types, scope: &RouteScope<'_>) -> Option<TagFind> {
        for misplaced in LOOKUP_WORDS.iter().filter_map(|word| node.get(word)) {
            self.problem(misplaced, "a find of `tags` has `key`, `when` and `required`");
        }
        let names: Vec<&str> = scope.collections.iter().map(|collection| collection.name.as_str()).collect();
        let collection: CollectionId = self.reference(tags, "collection", &names)?;
        if scope.collections[collection].tags.is_none() {
            self.problem(tags, format!("`{}` has no tags (`tags:`)", scope.collections[collection].name));
        }
        let name = node.get("key").and_then(|name| self.cel_of(name, types, AS_TEXT));
        Some(TagFind { collection, name, required: self.requirement(node) })
    }

    pub(super) fn tag_write(&mut self, node: &Node, collection: &Collection, types: &Types) -> Option<TagWrite> {
        let words = [
            ("create", TagStep::Create),
            ("change", TagStep::Change),
            ("delete", TagStep::Delete),
            ("evaluate", TagStep::Evaluate),
            ("assign", TagStep::Assign),
        ];
        let step = self.choice(node.get("tag"), "change of a tag", &words)?;
        if collection.tags.is_none() {
            self.problem(node, format!("`{}` has no tags (`tags:`)", collection.name));
        }
        for (word, is_known) in [
            ("fields", matches!(step, TagStep::Create | TagStep::Change)),
            ("add", step == TagStep::Assign),
            ("remove", step == TagStep::Assign),
            ("taken", matches!(step, TagStep::Create | TagStep::Change)),
        ] {
            if let (Some(misplaced), false) = (node.get(word), is_known) {
                self.problem(misplaced, format!("`{word}` does not belong to this change of a tag"));
            }
        }
        let mut keys = |word: &str| node.get(word).and_then(|keys| self.cel_of(keys, types, AS_JSON));
        Some(match step {
            TagStep::Delete => TagWrite::Delete,
            TagStep::Evaluate => TagWrite::Evaluate,
            TagStep::Assign => TagWrite::Assign { add: keys("add"), remove: keys("remove") },
            TagStep::Create => TagWrite::Create(self.tag_properties(node, collection, (types, false))),
            TagStep::Change => TagWrite::Change(self.tag_properties(node, collection, (types, true))),
        })
    }

    fn tag_properties(&mut self, node: &Node, collection: &Collection, (types, has_name): (&Types, bool)) -> Vec<(TagProperty, Expression)> {
        let attributes = collection.tags.iter().flat_map(|tags| &tags.attributes).map(|attribute| attribute.name.as_str());
        let names: Vec<&str> = ["name", "xpath", "query", "comment"].into_iter().skip(usize::from(!has_name)).chain(attributes).collect();
        let mut properties = Vec::new();
        for NamedNode { name_node, node: value, .. } in self.named_entries(node.get("fields"), "properties of a tag") {
            let Some(position) = self.reference::<usize>(name_node, "property of a tag", &names) else { continue };
            let property = match names[position] {
                "name" => TagProperty::Name,
                "xpath" => TagProperty::XPath,
                "query" => TagProperty::Query,
                "comment" => TagProperty::Comment,
                attribute => TagProperty::Attribute(attribute.to_owned()),
            };
            let expected = if matches!(property, TagProperty::Attribute(_)) { AS_JSON } else { AS_TEXT };
            properties.extend(self.cel_of(value, types, expected).map(|expression| (property, expression)));
        }
        properties
    }
}
