//! Tags that are queries: `tag=NAME` stands for their conditions.

use super::compile::{CompiledQuery, compile};
use crate::language::{ComparisonOperator, GrepItem, Query, QueryCondition, Stage, ValueLiteral, parse};
use std::collections::HashMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn};
use stook_store::tag::{Tag, TagDefinition};
use stook_store::{Store, StoreError, Tenant};

/// Queries that are tags, by name: conditions as they stand after the collection's name.
pub(super) type TagQueries = HashMap<String, String>;

/// Deepest that a tag is defined by another.
const MAX_DEPTH: usize = 8;
/// Most conditions that tags stand for.
const MAX_CONDITIONS: usize = 1_000;

impl Query {
    /// Whether it asks for tags.
    pub(super) fn asks_tags(&self) -> bool {
        let is_tag = |condition: &QueryCondition| is_tag(self, condition);
        let grep = |stage: &Stage| match stage {
            Stage::Grep(items) => items.iter().any(|item| matches!(item, GrepItem::Condition(condition) if is_tag(condition))),
            _ => false,
        };
        self.lookup.conditions.iter().any(is_tag) || self.stages.iter().any(grep)
    }

    /// Puts the conditions of tags that are queries in their place.
    ///
    /// # Errors
    /// When such a tag is asked for otherwise than by `=`, or is defined by itself.
    pub(super) fn expand_tags(&mut self, queries: &TagQueries) -> Result<(), Diagnostic> {
        let mut conditions = std::mem::take(&mut self.lookup.conditions);
        // tags are of records: others stay where they are, after `each` they are about its rows
        let mut stages = std::mem::take(&mut self.stages);
        for stage in &mut stages {
            let Stage::Grep(items) = stage else { continue };
            for item in std::mem::take(items) {
                match item {
                    GrepItem::Condition(condition) if is_tag(self, &condition) => conditions.push(condition),
                    other => items.push(other),
                }
            }
        }
        self.stages = stages;
        self.stages.retain(|stage| !matches!(stage, Stage::Grep(items) if items.is_empty()));
        for _ in 0..=MAX_DEPTH {
            let mut expanded = Vec::with_capacity(conditions.len());
            let mut any = false;
            for condition in conditions {
                match self.query_of(&condition, queries)? {
                    Some(text) => {
                        any = true;
                        expanded.extend(conditions_of(&self.lookup.collection.text, text)?);
                    }
                    None => expanded.push(condition),
                }
            }
            conditions = expanded;
            if !any {
                self.lookup.conditions = conditions;
                return Ok(());
            }
            if conditions.len() > MAX_CONDITIONS {
                break;
            }
        }
        let span = self.lookup.collection.span.clone();
        Err(Diagnostic::new(span, "the tag's definition is circular or nested too deeply"))
    }

    fn query_of<'q>(&self, condition: &QueryCondition, queries: &'q TagQueries) -> Result<Option<&'q str>, Diagnostic> {
        if !is_tag(self, condition) {
            return Ok(None);
        }
        let found = |value: &ValueLiteral| match value.literal() {
            Some(name) => queries.get_key_value(name),
            None => queries.iter().find(|(name, _)| value.covers(name)),
        };
        let Some((name, text)) = condition.values.iter().find_map(found) else { return Ok(None) };
        if condition.operator != ComparisonOperator::Equal || condition.values.iter().any(|value| value.literal().is_none()) {
            let problem = Diagnostic::new(condition.span.clone(), format!("the tag `{name}` is a query; it can only be asked for with ="));
            let help = match condition.operator {
                ComparisonOperator::Equal => format!("by its whole name: tag={name}"),
                _ => format!("ask for the opposite of its conditions: {text}"),
            };
            return Err(problem.help(help));
        }
        Ok(Some(text))
    }
}

fn is_tag(query: &Query, condition: &QueryCondition) -> bool {
    let path = condition.path.text.as_str();
    path == "tag" || path.strip_prefix(query.lookup.collection.text.as_str()) == Some(".tag")
}

/// The conditions that a tag's text is.
///
/// # Errors
/// When it is something else; the place is one of the text.
fn conditions_of(collection: &str, text: &str) -> Result<Vec<QueryCondition>, Diagnostic> {
    let shift = collection.len() + 1;
    let back = |problem: Diagnostic| Diagnostic { span: problem.span.start.saturating_sub(shift)..problem.span.end.saturating_sub(shift), ..problem };
    let query = parse(&format!("{collection} {text}")).map_err(back)?;
    if !query.stages.is_empty() {
        return Err(Diagnostic::new(0..text.len(), "a tag's query is conditions, without `|`"));
    }
    if query.lookup.conditions.is_empty() {
        return Err(Diagnostic::new(0..text.len(), "a tag's query has one condition at least"));
    }
    Ok(query.lookup.conditions)
}

/// The queries that are tags of a collection.
///
/// # Errors
/// When the store fails.
pub(super) fn queries(store: &dyn Store, tenant: &Tenant, collection: CollectionId) -> Result<TagQueries, StoreError> {
    let query = |tag: Tag| match tag.definition {
        TagDefinition::Query(text) => Some((tag.name, text)),
        TagDefinition::Manual | TagDefinition::XPath(_) => None,
    };
    Ok(store.tags(tenant, collection)?.tags.into_iter().filter_map(query).collect())
}

/// A text that is to be the query of a tag.
#[derive(Debug, Clone, Copy)]
pub struct TagQuery<'t> {
    /// The collection that the tag is of.
    pub collection: CollectionId,
    /// The tag.
    pub name: &'t str,
    /// Its conditions.
    pub text: &'t str,
}

/// The query of a tag, if a text can be that, next to those there are.
///
/// # Errors
/// When the store fails; inside, what is wrong with the text, at its place there.
pub fn check_tag(
    tag: &TagQuery<'_>,
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    let TagQuery { collection, name, text } = *tag;
    let own = &catalogue.collections[collection].name;
    if let Err(problem) = conditions_of(own, text) {
        return Ok(Err(problem));
    }
    let mut known = queries(store, tenant, collection)?;
    known.insert(name.to_owned(), text.to_owned());
    let shift = own.len() + 1;
    let back = |problem: Diagnostic| Diagnostic { span: problem.span.start.saturating_sub(shift)..problem.span.end.saturating_sub(shift), ..problem };
    let checked = parse(&format!("{own} {text}")).and_then(|mut query| {
        query.expand_tags(&known)?;
        compile(&query, catalogue, tenant, store.clock())
    });
    Ok(checked.map_err(back))
}

/// Names of all tags of a record, those of queries included.
///
/// # Errors
/// When the store fails.
pub fn tags_of(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<Vec<String>, StoreError> {
    let mut names = store.tagged(tenant, collection, std::slice::from_ref(key))?.pop().unwrap_or_default();
    let known = queries(store, tenant, collection)?;
    for (name, text) in &known {
        let query = parse(&format!("{} {text}", catalogue.collections[collection].name));
        let compiled = query.and_then(|mut query| {
            query.expand_tags(&known)?;
            compile(&query, catalogue, tenant, store.clock())
        });
        // what the definition does not know any more holds of nobody
        let Ok(mut compiled) = compiled else { continue };
        compiled.plan.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Equal(Value::text(key.as_str())) });
        if store.count(&compiled.plan)? > 0 {
            names.push(name.clone());
        }
    }
    names.sort();
    Ok(names)
}
