//! Parses rollups, and the conditions and fields of children that they and coverages use.

use super::keywords;
use super::links::types_without_links;
use super::parser::DefinitionParser;
use super::yaml::Node;
use crate::eval::Expression;
use crate::eval::types::Expected;
use crate::model::definition::Collection;
use crate::model::ids::{CollectionId, FieldId, IdVec, LinkId};
use crate::model::links::{Link, Rollup, RollupFunction};
use crate::value::FieldType;

impl DefinitionParser<'_> {
    pub(super) fn rollup(
        &mut self,
        parent: CollectionId,
        node: &Node,
        collections: &IdVec<CollectionId, Collection>,
        links: &mut IdVec<LinkId, Link>,
    ) -> Option<Rollup> {
        self.section(node, "a rollup", &[keywords::ROLLUP])?;
        let link = self.required(node, "over").and_then(|over| self.over(over, parent, collections, links))?;
        let groups = node.get("groups").and_then(|node| self.pattern(node));
        let condition = self.condition(node.get("where"), &mut links[link], collections)?;
        let functions =
            [("sum", RollupFunction::Sum), ("min", RollupFunction::Min), ("max", RollupFunction::Max), ("distinct", RollupFunction::Distinct)];
        let aggregates: Vec<_> = functions.into_iter().filter_map(|(word, function)| Some((node.get(word)?, function))).collect();
        let counts = node.get("count").is_some_and(|count| self.boolean(Some(count), "count"));
        let (function, edge_field) = match (aggregates.as_slice(), counts) {
            ([], true) => (RollupFunction::Count, None),
            ([(field, function)], false) => (*function, Some(self.edge_field(field, &mut links[link], collections)?)),
            _ => {
                self.problem(node, "a rollup is one of `count: true`, `sum`, `min`, `max` and `distinct` with a field of the children");
                return None;
            }
        };
        Some(Rollup { link, groups, condition, function, edge_field })
    }

    /// Checks that a field has the type of its rollup's result, because that is not converted.
    pub(super) fn check_rollup_type(&mut self, node: &Node, ty: &FieldType, rollup: &Rollup, child: &Collection, link: &Link) {
        let edge_field = rollup.edge_field.map(|edge_field| &child.fields[link.edge_fields[edge_field]]);
        let element = edge_field.map(|field| field.golden_type().element());
        let name = edge_field.map(|field| field.name.as_str()).unwrap_or_default();
        let fits = match (rollup.function, element) {
            (RollupFunction::Sum, Some(element @ (FieldType::Integer | FieldType::Size | FieldType::Duration))) => {
                ty == element || (*ty == FieldType::Float && *element != FieldType::Duration)
            }
            (RollupFunction::Sum, Some(FieldType::Float)) => *ty == FieldType::Float,
            (RollupFunction::Sum, Some(element)) => {
                return self.problem(node, format!("`{name}` is {element}, which has no sum"));
            }
            (RollupFunction::Min | RollupFunction::Max, Some(element)) => ty == element,
            _ => *ty == FieldType::Integer,
        };
        if !fits {
            let rollup_type = match (rollup.function, element) {
                (RollupFunction::Sum | RollupFunction::Min | RollupFunction::Max, Some(element)) => element,
                _ => &FieldType::Integer,
            };
            self.problem(node, format!("this rollup is {rollup_type}, the field is {ty}: say `type: {rollup_type}`"));
        }
    }

    /// Parses `COLLECTION.LINK`, a link that must lead to `parent`.
    pub(super) fn over(
        &mut self,
        node: &Node,
        parent: CollectionId,
        collections: &IdVec<CollectionId, Collection>,
        links: &IdVec<LinkId, Link>,
    ) -> Option<LinkId> {
        let incoming: Vec<(LinkId, String)> = links
            .enumerate()
            .filter(|(_, link)| link.target_collection == parent)
            .map(|(index, link)| (index, format!("{}.{}", collections[link.child_collection].name, link.name)))
            .collect();
        let names: Vec<&str> = incoming.iter().map(|(_, name)| name.as_str()).collect();
        let position = self.reference::<usize>(node, "link to this collection", &names)?;
        Some(incoming[position].0)
    }

    /// Returns the position of a condition among a link's conditions.
    pub(super) fn condition(&mut self, node: Option<&Node>, link: &mut Link, collections: &IdVec<CollectionId, Collection>) -> Option<usize> {
        let condition = match node {
            Some(node) => self.cel_of(node, &types_without_links(&collections[link.child_collection]), Expected::Condition)?,
            None => Expression::compile("true", &[]).ok()?,
        };
        let existing = link.conditions.iter().position(|existing| existing.source() == condition.source());
        Some(existing.unwrap_or_else(|| {
            link.conditions.push(condition);
            link.conditions.len() - 1
        }))
    }

    /// Returns the position of a child's field among those that edges carry.
    pub(super) fn edge_field(&mut self, node: &Node, link: &mut Link, collections: &IdVec<CollectionId, Collection>) -> Option<usize> {
        let field = self.field_of(node, &collections[link.child_collection])?;
        Some(edge_field_position(link, field))
    }
}

/// Returns the position of a child's field among those that edges carry.
fn edge_field_position(link: &mut Link, field: FieldId) -> usize {
    link.edge_fields.iter().position(|existing| *existing == field).unwrap_or_else(|| {
        link.edge_fields.push(field);
        link.edge_fields.len() - 1
    })
}
