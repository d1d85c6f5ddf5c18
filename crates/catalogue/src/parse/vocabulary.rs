//! Parses aliases.

use super::parser::{DefinitionParser, NamedNode};
use crate::model::definition::{AliasTarget, Collection, QueryAlias};
use crate::model::ids::{CollectionId, IdVec};
use crate::parse::keywords;
use crate::parse::yaml::{Node, NodeKind};

impl DefinitionParser<'_> {
    pub(super) fn vocabulary(&mut self, node: Option<&Node>, collections: &IdVec<CollectionId, Collection>) -> Vec<QueryAlias> {
        let names: Vec<&str> = collections.iter().map(|collection| collection.name.as_str()).collect();
        let mut found = Vec::new();
        for NamedNode { name, name_node, node: word } in self.named(node, "words") {
            if self.section(word, "a word", &[keywords::QUERY_WORD]).is_none() {
                continue;
            }
            let select = word.get("select").and_then(|node| self.reference(node, "collection", &names));
            // `site: ...` in a query selects records of the collection `site`, whatever the alias says
            if let (Some(own), Some(select)) = (collections.position(|own| own.name == name), select)
                && own != select
            {
                self.problem(name_node, format!("`{name}` is a collection; a word of its name selects it"));
            }
            let tests = match word.get("tests") {
                None => Vec::new(),
                Some(tests) => match &tests.kind {
                    NodeKind::List(items) => items.iter().map(|item| self.word_test(item, collections, &names)).collect(),
                    _ => vec![self.word_test(tests, collections, &names)],
                },
            };
            found.push(QueryAlias { name: name.to_owned(), select, tests });
        }
        found
    }

    fn word_test(&mut self, node: &Node, collections: &IdVec<CollectionId, Collection>, names: &[&str]) -> AliasTarget {
        let mut test = AliasTarget { matches: None, fields: Vec::new() };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, "`tests` says for each collection which field is tested: { block: name }");
            return test;
        };
        for (name, value) in entries {
            if self.text_of(name, "a collection") == Some("shape") {
                test.matches = self.regex(value, str::to_owned);
                continue;
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
        test
    }
}
