//! Determines which derived fields are settled, and checks that settling ends: no value depends on itself, and records do not create each other
//! forever.

use super::parser::{DefinitionParser, NamedNode};
use crate::eval::Expression;
use crate::model::definition::{Collection, Field, KeyDefinition};
use crate::model::ids::{CollectionId, FieldId, IdVec, LinkId};
use crate::model::links::{Derivation, Link, TargetRule, members_of};

impl DefinitionParser<'_> {
    /// Marks derivations that read a settled field, or a linked record, as settled.
    pub(super) fn derive_after_settled(&mut self, collections: &mut IdVec<CollectionId, Collection>) {
        for collection in collections {
            loop {
                let reads_settled = |field: &Field| {
                    let Some(Derivation::SameRecord(expression)) = &field.derive else { return false };
                    let is_settled = |name: &String| {
                        let derive = collection.field(name).and_then(|(_, read)| read.derive.as_ref());
                        derive.is_some_and(|derive| derive.is_settled() || matches!(derive, Derivation::TargetKey(..)))
                    };
                    expression.variables().iter().any(is_settled)
                };
                let Some(index) = collection.fields.position(reads_settled) else { break };
                if let Some(Derivation::SameRecord(expression)) = collection.fields[index].derive.take() {
                    collection.fields[index].derive = Some(Derivation::ThroughLinks(expression));
                }
            }
        }
    }

    /// Checks that edges carry no settled values, because settling might not end.
    pub(super) fn check_edge_inputs(
        &mut self,
        collections: &IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
        links: &IdVec<LinkId, Link>,
    ) {
        for link in links {
            let child = &collections[link.child_collection];
            let is_settled = |field: FieldId| child.fields[field].is_settled();
            let mut inputs: Vec<FieldId> = link.edge_fields.clone();
            let named = |expression: &Expression| expression.variables().iter().filter_map(|name| Some(child.field(name)?.0)).collect::<Vec<_>>();
            inputs.extend(link.conditions.iter().chain(&link.when).chain(&link.group).flat_map(named));
            inputs.extend(link.span.iter().flat_map(|(start, stop)| [*start, *stop]));
            match &link.target_rule {
                TargetRule::Key(key) => inputs.extend(key.names().filter_map(|name| Some(child.field(name)?.0))),
                rule @ (TargetRule::Same { .. } | TargetRule::Merged { .. }) => {
                    inputs.extend(rule.own_criteria().into_iter().flatten());
                    inputs.extend(rule.overlap().iter().flat_map(|overlap| [overlap.mine.0, overlap.mine.1]));
                    let target = &collections[link.target_collection];
                    let theirs = rule.target_criteria().into_iter().flatten();
                    let theirs = theirs.chain(rule.overlap().into_iter().flat_map(|overlap| [overlap.theirs.0, overlap.theirs.1]));
                    for field in theirs.filter(|field| target.fields[*field].is_settled()) {
                        let message =
                            format!("link `{}` matches on `{}.{}`, which is itself settled later", link.name, target.name, target.fields[field].name);
                        self.problem(nodes[link.child_collection].name_node, message);
                    }
                }
            }
            for field in inputs.into_iter().filter(|field| is_settled(*field)) {
                let message = format!(
                    "link `{}` and rules over it can use what documents say of `{}`, but `{}` is settled after them",
                    link.name, child.name, child.fields[field].name
                );
                self.problem(nodes[link.child_collection].name_node, message);
            }
        }
    }

    /// Checks that links do not create each other's records. A created record has only its key; if it creates others by that, these must not create
    /// it, or they would keep each other forever.
    pub(super) fn check_created_records_end(
        &mut self,
        collections: &IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
        links: &IdVec<LinkId, Link>,
    ) {
        let creates_by_key_alone = |link: &&Link| {
            let (TargetRule::Key(key), collection) = (&link.target_rule, &collections[link.child_collection]) else { return false };
            let has_value = |name: &str| {
                let is_key = |index: FieldId| matches!(collection.key, KeyDefinition::Field(key) if key == index);
                collection.field(name).is_some_and(|(index, field)| is_key(index) || matches!(field.derive, Some(Derivation::SameRecord(_))))
            };
            link.create && key.names().all(has_value)
        };
        let self_sufficient: Vec<&Link> = links.iter().filter(creates_by_key_alone).collect();
        for start in &self_sufficient {
            let (mut seen, mut pending) = (vec![start.target_collection], vec![start.target_collection]);
            while let Some(collection) = pending.pop() {
                for to in self_sufficient.iter().filter(|link| link.child_collection == collection).map(|link| link.target_collection) {
                    if !seen.contains(&to) {
                        seen.push(to);
                        pending.push(to);
                    }
                }
            }
            if seen.contains(&start.child_collection) {
                let name = &collections[start.child_collection].name;
                self.problem_with_help(
                    nodes[start.child_collection].name_node,
                    format!("link `{}` of `{name}` creates records that, by their key alone, create records of `{name}` again", start.name),
                    "they would keep each other alive for ever; remove `create` from one of the links",
                );
            }
        }
    }

    /// Checks that no settled field reads itself through links.
    pub(super) fn check_settling_cycles(
        &mut self,
        collections: &IdVec<CollectionId, Collection>,
        nodes: &IdVec<CollectionId, NamedNode<'_>>,
        links: &IdVec<LinkId, Link>,
    ) {
        let settled: Vec<(CollectionId, FieldId)> = collections
            .ids()
            .flat_map(|collection| collections[collection].fields.ids().map(move |field| (collection, field)))
            .filter(|(collection, field)| collections[*collection].fields[*field].is_settled())
            .collect();
        let reads = |(collection, field): (CollectionId, FieldId)| -> Vec<(CollectionId, FieldId)> {
            let Some(Derivation::ThroughLinks(expression)) = &collections[collection].fields[field].derive else { return Vec::new() };
            let mut reads = Vec::new();
            for name in expression.variables() {
                if let Some((read_field, _)) = collections[collection].field(name) {
                    reads.push((collection, read_field));
                }
                for link in links.iter().filter(|link| link.child_collection == collection && link.name == *name) {
                    let members = members_of(expression, name).filter_map(|member| collections[link.target_collection].field(&member.name));
                    reads.extend(members.map(|(read, _)| (link.target_collection, read)));
                }
            }
            reads
        };
        for start in &settled {
            let mut seen = vec![*start];
            let mut pending = reads(*start);
            while let Some(read) = pending.pop() {
                if read == *start {
                    let (collection, field) = *start;
                    let message = format!("`{}.{}` depends on itself", collections[collection].name, collections[collection].fields[field].name);
                    self.problem(nodes[collection].name_node, message);
                    break;
                }
                if !seen.contains(&read) {
                    seen.push(read);
                    pending.extend(reads(read));
                }
            }
        }
    }
}
