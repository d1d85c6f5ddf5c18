//! Tags in queries: every name must be that of a tag, and if the tag is a query, `tag=NAME` stands for its conditions.

use super::compile::{CompiledQuery, compile};
use super::resolve::resolve_parsed;
use super::scope::QueryScope;
use crate::language::{ComparisonOperator, ConditionTree, GrepItem, Query, QueryCondition, Selection, Stage, ValueLiteral, parse, split};
use std::collections::BTreeMap;
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::tag::{Tag, TagDefinition};
use stook_store::{Store, StoreError, Tenant};

/// The tags of a collection by name; those that are queries with their conditions, as they follow the collection's name.
pub(super) type KnownTags = BTreeMap<String, Option<String>>;

/// The maximum depth to which tags are defined by other tags.
const MAX_DEPTH: usize = 8;
/// The maximum number of existing tags that are named if there is none with a name.
const MAX_LISTED_TAGS: usize = 20;
/// The maximum number of conditions that result from replacing tags.
const MAX_CONDITIONS: usize = 1_000;

impl Query {
    /// Whether the query has conditions on tags.
    pub(super) fn mentions_tags(&self) -> bool {
        let is_tag = |condition: &QueryCondition| is_tag(self, condition);
        let grep = |stage: &Stage| match stage {
            Stage::Grep(items) => items.iter().any(|item| match item {
                GrepItem::Condition(condition) => is_tag(condition),
                GrepItem::Combined(tree) => tree.conditions().into_iter().any(is_tag),
                GrepItem::Column(_) => false,
            }),
            _ => false,
        };
        self.lookup.all_conditions().any(is_tag) || self.stages.iter().any(grep)
    }

    /// Replaces tags that are queries by their conditions.
    ///
    /// # Errors
    /// When a tag does not exist, or one that is a query is used with another operator than `=` or is defined by itself.
    pub(super) fn expand_tags(&mut self, known: &KnownTags) -> Result<(), Diagnostic> {
        let lookup = &mut self.lookup;
        let conditions = std::mem::take(&mut lookup.conditions).into_iter().map(ConditionTree::One);
        let mut trees: Vec<ConditionTree> = conditions.chain(std::mem::take(&mut lookup.combined)).collect();
        // conditions on tags are about records; other `grep` conditions stay in their stages, because after `each` they are about rows
        let mut stages = std::mem::take(&mut self.stages);
        for stage in &mut stages {
            let Stage::Grep(items) = stage else { continue };
            for item in std::mem::take(items) {
                match item {
                    GrepItem::Condition(condition) if is_tag(self, &condition) => trees.push(ConditionTree::One(condition)),
                    GrepItem::Combined(tree) if tree.conditions().into_iter().any(|condition| is_tag(self, condition)) => trees.push(tree),
                    other => items.push(other),
                }
            }
        }
        self.stages = stages;
        self.stages.retain(|stage| !matches!(stage, Stage::Grep(items) if items.is_empty()));
        let mut expansion = Expansion { query: self, known, conditions: 0 };
        let expanded = trees.into_iter().map(|tree| expansion.tree(tree, 0)).collect::<Result<Vec<_>, _>>()?;
        (self.lookup.conditions, self.lookup.combined) = split(expanded);
        Ok(())
    }

    /// The error for a condition that names a tag which does not exist: it would hold for no record, or for all.
    fn unknown_tag(&self, condition: &QueryCondition, known: &KnownTags) -> Option<Diagnostic> {
        let names_tags = matches!(condition.operator, ComparisonOperator::Equal | ComparisonOperator::NotEqual | ComparisonOperator::In);
        let mut values = condition.values.iter().filter(|_| names_tags && is_tag(self, condition));
        let (name, span) = values.find_map(|value| value.literal().filter(|name| !known.contains_key(*name)).map(|name| (name, &value.span)))?;
        let problem = Diagnostic::new(span.clone(), format!("there is no tag `{name}`"));
        let collection = &self.lookup.collection.text;
        let first: Vec<&str> = known.keys().take(MAX_LISTED_TAGS).map(String::as_str).collect();
        Some(match did_you_mean(name, known.keys().map(String::as_str)) {
            Some(suggestion) => problem.help(format!("did you mean `{suggestion}`?")),
            None if first.is_empty() => problem.help(format!("{collection} has no tags yet; `stook tag create` makes one")),
            None if first.len() < known.len() => {
                problem.help(format!("tags of {collection} are {} and {} more", first.join(", "), known.len() - first.len()))
            }
            None => problem.help(format!("tags of {collection} are {}", first.join(", "))),
        })
    }

    fn query_of<'q>(&self, condition: &QueryCondition, known: &'q KnownTags) -> Result<Option<&'q str>, Diagnostic> {
        if !is_tag(self, condition) {
            return Ok(None);
        }
        let queries = || known.iter().filter_map(|(name, text)| Some((name, text.as_ref()?)));
        let found = |value: &ValueLiteral| match value.literal() {
            Some(name) => known.get_key_value(name).and_then(|(name, text)| Some((name, text.as_ref()?))),
            None => queries().find(|(name, _)| value.covers(name)),
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

/// Replaces tags that are queries in conditions.
struct Expansion<'q> {
    query: &'q Query,
    known: &'q KnownTags,
    /// Number of conditions so far.
    conditions: usize,
}

impl Expansion<'_> {
    fn tree(&mut self, tree: ConditionTree, depth: usize) -> Result<ConditionTree, Diagnostic> {
        Ok(match tree {
            ConditionTree::One(condition) => self.condition(condition, depth)?,
            ConditionTree::Not(inner) => ConditionTree::Not(Box::new(self.tree(*inner, depth)?)),
            ConditionTree::All(inner) => ConditionTree::All(inner.into_iter().map(|inner| self.tree(inner, depth)).collect::<Result<_, _>>()?),
            ConditionTree::Any(inner) => ConditionTree::Any(inner.into_iter().map(|inner| self.tree(inner, depth)).collect::<Result<_, _>>()?),
        })
    }

    fn condition(&mut self, condition: QueryCondition, depth: usize) -> Result<ConditionTree, Diagnostic> {
        let span = self.query.lookup.collection.span.clone();
        if let Some(problem) = self.query.unknown_tag(&condition, self.known) {
            return Err(match depth {
                0 => problem,
                // its position is one in the tag's text
                _ => Diagnostic { span, message: format!("{}, by which a tag is defined", problem.message), ..problem },
            });
        }
        self.conditions += 1;
        if depth > MAX_DEPTH || self.conditions > MAX_CONDITIONS {
            return Err(Diagnostic::new(span, "the tag's definition is circular or nested too deeply"));
        }
        let Some(text) = self.query.query_of(&condition, self.known)? else { return Ok(ConditionTree::One(condition)) };
        let inner = conditions_of(&self.query.lookup.collection.text, text)?;
        Ok(ConditionTree::All(inner.into_iter().map(|inner| self.tree(inner, depth + 1)).collect::<Result<_, _>>()?))
    }
}

fn is_tag(query: &Query, condition: &QueryCondition) -> bool {
    let path = condition.path.text.as_str();
    path == "tag" || path.strip_prefix(query.lookup.collection.text.as_str()) == Some(".tag")
}

/// Parses the text of a tag to conditions.
///
/// # Errors
/// When it is anything else; the position is one in the text.
fn conditions_of(collection: &str, text: &str) -> Result<Vec<ConditionTree>, Diagnostic> {
    let shift = collection.len() + 1;
    let shifted_back =
        |problem: Diagnostic| Diagnostic { span: problem.span.start.saturating_sub(shift)..problem.span.end.saturating_sub(shift), ..problem };
    let query = parse(&format!("{collection} {text}")).map_err(shifted_back)?;
    if !query.stages.is_empty() {
        return Err(Diagnostic::new(0..text.len(), "a tag's query is conditions, without `|`"));
    }
    let Selection { conditions, combined, .. } = query.lookup;
    if conditions.is_empty() && combined.is_empty() {
        return Err(Diagnostic::new(0..text.len(), "a tag's query has one condition at least"));
    }
    Ok(conditions.into_iter().map(ConditionTree::One).chain(combined).collect())
}

/// The tags of a collection.
///
/// # Errors
/// When the store fails.
pub(super) fn known_tags(store: &dyn Store, tenant: &Tenant, collection: CollectionId) -> Result<KnownTags, StoreError> {
    let name_and_query = |tag: Tag| match tag.definition {
        TagDefinition::Query(text) => (tag.name, Some(text)),
        TagDefinition::Manual | TagDefinition::XPath(_) => (tag.name, None),
    };
    Ok(store.tags(tenant, collection)?.tags.into_iter().map(name_and_query).collect())
}

/// The names of tags that are queries and name a tag.
pub fn tags_that_name<'t>(tags: &'t [Tag], collection: &str, name: &str) -> Vec<&'t str> {
    let names_it = |text: &str| {
        let names = |query: &Query, condition: &QueryCondition| {
            is_tag(query, condition) && condition.values.iter().any(|value| value.literal() == Some(name))
        };
        parse(&format!("{collection} {text}")).is_ok_and(|query| query.lookup.all_conditions().any(|condition| names(&query, condition)))
    };
    let is_such = |tag: &&Tag| matches!(&tag.definition, TagDefinition::Query(text) if names_it(text));
    tags.iter().filter(is_such).map(|tag| tag.name.as_str()).collect()
}

/// A text that is to become the query of a tag.
#[derive(Debug, Clone, Copy)]
pub struct TagQuery<'t> {
    /// The tag's collection.
    pub collection: CollectionId,
    /// The tag's name.
    pub name: &'t str,
    /// The conditions.
    pub text: &'t str,
    /// Tags that are to be created with it: their names, and their texts if they are queries.
    pub planned: &'t [(&'t str, Option<&'t str>)],
}

/// Checks whether a text can be the query of a tag, given the existing tags and the planned ones; returns the query. The inner error says what is
/// wrong with the text, with its position.
///
/// # Errors
/// When the store fails.
pub fn check_tag(
    tag: &TagQuery<'_>,
    catalogue: &Catalogue,
    store: &dyn Store,
    tenant: &Tenant,
) -> Result<Result<CompiledQuery, Diagnostic>, StoreError> {
    let TagQuery { collection, name, text, planned } = *tag;
    let collection_name = &catalogue.collections[collection].name;
    if let Err(problem) = conditions_of(collection_name, text) {
        return Ok(Err(problem));
    }
    let mut known = known_tags(store, tenant, collection)?;
    known.extend(planned.iter().map(|(name, text)| ((*name).to_owned(), text.map(str::to_owned))));
    known.insert(name.to_owned(), Some(text.to_owned()));
    let shift = collection_name.len() + 1;
    let shifted_back =
        |problem: Diagnostic| Diagnostic { span: problem.span.start.saturating_sub(shift)..problem.span.end.saturating_sub(shift), ..problem };
    let checked = parse(&format!("{collection_name} {text}")).and_then(|mut query| {
        query.expand_tags(&known)?;
        compile(&query, catalogue, tenant, store.clock())
    });
    Ok(checked.map_err(shifted_back))
}

/// Compiles conditions on records of a collection, without its name. The inner error says what is wrong with the text, with its position.
///
/// # Errors
/// When the store fails; it is read only for tags.
pub fn compile_conditions((collection, text): (CollectionId, &str), scope: &QueryScope<'_>) -> Result<Result<QueryPlan, Diagnostic>, StoreError> {
    let name = &scope.catalogue.collections[collection].name;
    let query = match parse(&format!("{name} {text}")) {
        Ok(query) if query.stages.is_empty() => query,
        Ok(_) => return Ok(Err(Diagnostic::new(0..text.len(), "these are conditions, without `|`"))),
        Err(problem) => return Ok(Err(problem)),
    };
    let compiled = resolve_parsed(query, scope, scope.store.clock())?;
    Ok(compiled.and_then(|compiled| match compiled.plan.collection == collection {
        true => Ok(QueryPlan { columns: vec![PlanColumn::Key], sort: Vec::new(), distinct: false, ..compiled.plan }),
        false => Err(Diagnostic::new(0..text.len(), format!("these are not conditions on `{name}`"))),
    }))
}

/// The names of all tags of a record, including those that are queries.
///
/// # Errors
/// When the store fails.
pub fn tags_of(catalogue: &Catalogue, store: &dyn Store, tenant: &Tenant, collection: CollectionId, key: &Key) -> Result<Vec<String>, StoreError> {
    let mut names = store.tags_of_records(tenant, collection, std::slice::from_ref(key))?.pop().unwrap_or_default();
    let known = known_tags(store, tenant, collection)?;
    for (name, text) in known.iter().filter_map(|(name, text)| Some((name, text.as_ref()?))) {
        let query = parse(&format!("{} {text}", catalogue.collections[collection].name));
        let compiled = query.and_then(|mut query| {
            query.expand_tags(&known)?;
            compile(&query, catalogue, tenant, store.clock())
        });
        // a query that no longer fits the definition holds for no record
        let Ok(mut compiled) = compiled else { continue };
        compiled.plan.conditions.push(Condition { column: PlanColumn::Key, test: Comparison::Equal(Value::text(key.as_str())) });
        if store.count(&compiled.plan)? > 0 {
            names.push(name.clone());
        }
    }
    names.sort();
    Ok(names)
}
