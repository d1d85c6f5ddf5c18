//! Parses profiles, and tenants' shares of the workers.

use super::keywords;
use super::parser::DefinitionParser;
use super::yaml::{Node, NodeKind};
use crate::model::definition::{OnMatched, OnUnmatched, Profile, TenantShare};
use std::collections::BTreeMap;

impl DefinitionParser<'_> {
    pub(super) fn profile(&mut self, name: &str, node: &Node, source_names: &[&str]) -> Option<Profile> {
        self.section(node, "a profile", &[keywords::PROFILE])?;
        let source = self.required(node, "source").and_then(|node| self.reference(node, "source", source_names))?;
        let matched = [
            ("update", OnMatched::Update),
            ("skip", OnMatched::Skip),
            ("fail", OnMatched::Fail),
            ("delete", OnMatched::Delete),
            ("withdraw", OnMatched::Withdraw),
        ];
        let unmatched = [("create", OnUnmatched::Create), ("skip", OnUnmatched::Skip), ("fail", OnUnmatched::Fail)];
        Some(Profile {
            name: name.to_owned(),
            source,
            matched: self.choice(node.get("matched"), "choice for matched", &matched).unwrap_or(OnMatched::Update),
            unmatched: self.choice(node.get("unmatched"), "choice for unmatched", &unmatched).unwrap_or(OnUnmatched::Create),
        })
    }

    pub(super) fn tenants(&mut self, node: Option<&Node>) -> BTreeMap<String, TenantShare> {
        let mut tenants = BTreeMap::new();
        let Some(node) = node else { return tenants };
        let NodeKind::Map(entries) = &node.kind else {
            self.problem(node, format!("tenants are a mapping from names, this is {}", node.kind_name()));
            return tenants;
        };
        for (name_node, share) in entries {
            let name = name_node.text().unwrap_or_default();
            let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
            if !(1..=64).contains(&name.len()) || !name.bytes().all(allowed) {
                self.problem(name_node, format!("`{name}` is not a tenant: 1 to 64 small letters, digits, - and _"));
            }
            if self.section(share, "a tenant", &[keywords::TENANT]).is_some() {
                let weight = share.get("weight").and_then(|node| self.number_of(node, "a weight", 1..=1_000)).unwrap_or(1);
                let max_running = share.get("most_running").and_then(|node| self.number_of(node, "a number of chunks", 1..=u32::MAX));
                tenants.insert(name.to_owned(), TenantShare { weight, max_running });
            }
        }
        tenants
    }
}
