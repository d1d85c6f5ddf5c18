//! Parses aliases.

use super::parser::{DefinitionParser, NamedNode};
use crate::model::definition::{AliasTarget, Collection, QueryAlias};
use crate::model::ids::{CollectionId, IdVec};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};

impl DefinitionParser<'_> {
    pub(super) fn aliases(&mut self, node: Option<&Node>, collections: &IdVec<CollectionId, Collection>) -> Vec<QueryAlias> {
        let names: Vec<&str> = collections.iter().map(|collection| collection.name.as_str()).collect();
        let mut aliases = Vec::new();
        for NamedNode { name, name_node, node: alias_node } in self.named_entries(node, "words") {
            if self.section(alias_node, "a word", &[keywords::QUERY_WORD]).is_none() {
                continue;
            }
            let select = alias_node.get("select").and_then(|node| self.reference(node, "collection", &names));
            // `site: ...` in a query selects records of the collection `site`, whatever the alias says
            if let (Some(collection), Some(select)) = (collections.position(|collection| collection.name == name), select)
                && collection != select
            {
                self.problem(name_node, format!("`{name}` is a collection; a word of its name selects it"));
            }
            let tests = match alias_node.get("tests") {
                None => Vec::new(),
                Some(tests) => match &tests.kind {
                    NodeKind::List(items) => items.iter().map(|item| self.alias_target(item, collections, &names)).collect(),
                    _ => vec![self.alias_target(tests, collections, &names)],
                },
            };
            let within = alias_node.get("within").and_then(|node| Some(self.text_of(node, "a word")?.to_owned()));
            aliases.push(QueryAlias { name: name.to_owned(), select, within, tests });
        }
        let known: Vec<&str> = aliases.iter().map(|alias| alias.name.as_str()).collect();
        for NamedNode { name, node: alias_node, .. } in self.named_entries(node, "words") {
            let Some(within) = alias_node.get("within") else { continue };
            if self.reference::<usize>(within, "word", &known).is_some_and(|other| known[other] == name) {
                self.problem(within, format!("`{name}` is not within itself"));
            }
        }
        aliases
    }

    fn alias_target(&mut self, node: &Node, collections: &IdVec<CollectionId, Collection>, names: &[&str]) -> AliasTarget {
        let mut test = AliasTarget { matches: None, default: None, fields: Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, "`tests` says for each collection which field is tested: { block: name }");
            return test;
        };
        for (name, value) in entries {
            match self.text_of(name, "a collection") {
                Some("shape") => {
                    test.matches = self.regex(value, str::to_owned);
                    continue;
                }
                Some("default") => {
                    test.default = self.text_of(value, "a default").map(str::to_owned);
                    continue;
                }
                _ => {}
            }
            let Some(index) = self.reference::<CollectionId>(name, "collection", names) else { continue };
            let collection = &collections[index];
            let fields: Vec<&str> = collection
                .fields
                .iter()
                .map(|field| field.name.as_str())
                .chain(collection.states.iter().map(|state| state.name.as_str()))
                .chain(["key"])
                .collect();
            if let Some(field) = self.reference::<usize>(value, "field", &fields) {
                test.fields.push((index, fields[field].to_owned()));
            }
        }
        if let (Some(default), Some(shape)) = (&test.default, &test.matches)
            && !shape.is_match(default)
        {
            self.problem(node, format!("the default `{default}` does not match the shape `{shape}`"));
        }
        test
    }
}
