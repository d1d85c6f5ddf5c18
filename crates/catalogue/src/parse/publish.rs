//! Parses what of collections is published, and how the catalogue presents itself.

use super::expressions::{Types, golden_types};
use super::keywords;
use super::parser::{DefinitionParser, NamedNode};
use super::yaml::{Node, NodeKind};
use crate::eval::Expression;
use crate::eval::types::{Expected, TextConversion};
use crate::model::definition::{Collection, DUBLIN_CORE, FormatFamily, Publication, Repository, Source};
use crate::model::ids::{CollectionId, IdVec, SourceId};
use crate::value::FieldType;

impl DefinitionParser<'_> {
    /// Parses `publish` of a collection: `true`, or what differs from the fields that are called like elements of Dublin Core.
    pub(super) fn publication(
        &mut self,
        (id, collection): (CollectionId, &Collection),
        node: &Node,
        created: bool,
        sources: &IdVec<SourceId, Source>,
    ) -> Option<Publication> {
        if let NodeKind::Scalar { text, .. } = &node.kind
            && text != "true"
        {
            self.problem(node, "`publish` is true, or says which elements of Dublin Core a record has: { dc: { creator: authors } }");
            return None;
        }
        let is_short = matches!(node.kind, NodeKind::Scalar { .. });
        if !is_short {
            self.section(node, "publish", &[keywords::PUBLISH])?;
        }
        let types = golden_types(collection, created);
        let mut elements: Vec<(usize, Vec<Expression>)> = Vec::new();
        for NamedNode { name_node, node: value, .. } in self.named_entries(node.get("dc"), "elements of Dublin Core") {
            let Some(element) = self.reference::<usize>(name_node, "element of Dublin Core", &DUBLIN_CORE) else { continue };
            let expressions = value.items_or_self().iter().filter_map(|item| self.published_value(item, collection, &types)).collect();
            elements.push((element, expressions));
        }
        for (position, name) in
            DUBLIN_CORE.iter().enumerate().filter(|(position, _)| !elements.iter().any(|(own, _)| own == position)).collect::<Vec<_>>()
        {
            let field = collection.field(name).map(|(_, field)| field).filter(|field| !field.is_settled());
            if field.is_some_and(|field| field.golden_type().members().is_empty())
                && let Ok(expression) = Expression::compile(name, &[name])
            {
                elements.push((position, vec![expression]));
            }
        }
        elements.sort_by_key(|(position, _)| *position);
        if elements.is_empty() {
            let help = "for example: publish: { dc: { title: name } }; fields that are called like an element need no mention";
            self.problem_with_help(node, "a record has no element of Dublin Core, which all systems read", help);
        }
        let is_marc =
            |source: &Source| source.family == FormatFamily::Marc && source.feeds.iter().any(|feed| feed.collection == id && feed.each.is_none());
        Some(Publication { elements, has_marc: collection.keep_raw && sources.iter().any(is_marc) })
    }

    fn published_value(&mut self, node: &Node, collection: &Collection, types: &Types) -> Option<Expression> {
        let expression = self.cel_of(node, types, Expected::Field(&FieldType::Json, TextConversion::Value))?;
        let settled = |name: &&String| collection.field(name).is_some_and(|(_, field)| field.is_settled());
        if let Some(name) = expression.variables().iter().find(settled) {
            let help = "what is published has the time of its last change, which does not move when another record changes";
            self.problem_with_help(node, format!("`{name}` is computed from other records"), help);
        }
        Some(expression)
    }

    /// Parses `repository` of `serve`.
    pub(super) fn repository(&mut self, node: &Node) -> Option<Repository> {
        self.section(node, "repository", &[keywords::REPOSITORY])?;
        let name = self.required(node, "name").and_then(|node| self.text_of(node, "a name")).map(str::to_owned);
        let email = self.required(node, "email").and_then(|node| {
            let email = self.text_of(node, "an e-mail address")?.to_owned();
            let is_address = email.split_once('@').is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
                && !email.chars().any(|c| c.is_whitespace() || c == '<' || c == '>');
            if !is_address {
                self.problem(node, format!("`{email}` is not an e-mail address, such as library@example.org"));
            }
            Some(email).filter(|_| is_address)
        });
        let domain = match node.get("domain") {
            None => email.as_ref().and_then(|email| Some(email.split_once('@')?.1.to_owned())),
            Some(node) => {
                let domain = self.text_of(node, "a domain").map(str::to_owned);
                domain.filter(|domain| {
                    let is_word = |part: &str| {
                        part.starts_with(|c: char| c.is_ascii_alphabetic()) && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                    };
                    let is_domain = domain.contains('.') && domain.split('.').all(is_word);
                    if !is_domain {
                        self.problem(node, format!("`{domain}` is not a domain, such as library.example.org"));
                    }
                    is_domain
                })
            }
        };
        let url = node.get("url").and_then(|node| self.url(node)).map(|url| url.trim_end_matches('/').to_owned());
        Some(Repository { name: name?, email: email?, domain: domain?, url })
    }
}
