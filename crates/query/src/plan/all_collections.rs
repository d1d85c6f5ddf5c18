//! Queries of all collections, with `records` as the collection. `records site=T1_CH_CERN` finds the records of all collections to which
//! every condition applies and which have the fields that `grep` names. Rows are ordered by collection and key. Words without a collection are searched for
//! in all of them, see [`super::everywhere`].

use super::columns::ResultColumn;
use super::everywhere::{EverywhereSearch, words_alone};
use super::resolve::resolve_parsed;
use super::scope::QueryScope;
use super::words::Highlights;
use crate::language::{GrepItem, Query, Stage, parse};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan};
use stook_store::{Result, Store, Visibility};

/// The name that stands for all collections.
pub const ALL_COLLECTIONS: &str = "records";

/// A query of all collections.
#[derive(Debug, Clone, PartialEq)]
pub enum AllCollectionsQuery {
    /// The name of each collection, and the plan that finds the keys of its records.
    Records(Vec<(String, QueryPlan)>),
    /// Words alone.
    Words(EverywhereSearch),
}

/// Whether a text may be a query of all collections. Most texts are not, and then need not be parsed twice.
pub fn may_query_all_collections(text: &str, catalogue: &Catalogue) -> bool {
    text.trim_start().starts_with(ALL_COLLECTIONS) || words_alone(text, catalogue).is_some()
}

/// Resolves a text that is a query of all collections, of those that the caller may read. The inner error says what is wrong with the query. `now` is as for [`crate::resolve`].
///
/// # Errors
/// When the store fails.
pub fn resolve_all_collections(text: &str, scope: &QueryScope<'_>, now: i64) -> Result<Option<std::result::Result<AllCollectionsQuery, Diagnostic>>> {
    let catalogue = scope.catalogue;
    if !may_query_all_collections(text, catalogue) {
        return Ok(None);
    }
    if let Some(found) = EverywhereSearch::of_text(text, scope, now).transpose() {
        return Ok(Some(found.map(AllCollectionsQuery::Words)));
    }
    let is_known = catalogue.collection(ALL_COLLECTIONS).is_some() || catalogue.aliases.iter().any(|word| word.name == ALL_COLLECTIONS);
    let Some(query) = parse(text).ok().filter(|query| query.lookup.collection.text == ALL_COLLECTIONS && !is_known) else { return Ok(None) };
    let mut columns = query.stages.iter().flat_map(|stage| if let Stage::Grep(items) = stage { items.as_slice() } else { &[] });
    let names_fields = columns.any(|item| matches!(item, GrepItem::Column(_)));
    if query.stages.iter().any(|stage| !matches!(stage, Stage::Grep(_))) {
        let problem = Diagnostic::new(query.lookup.collection.span, "results across collections are sorted by collection and key");
        return Ok(Some(Err(problem.help("leave out all but `grep`, or ask one collection"))));
    }
    let (mut plans, mut refused) = (Vec::new(), None);
    let visible = catalogue
        .collections
        .enumerate()
        .filter(|(index, collection)| collection.rows_of.is_none() && (scope.visible)(*index) != Visibility::Nothing);
    for (index, collection) in visible {
        let mut collection_query: Query = query.clone();
        collection_query.lookup.collection.text.clone_from(&collection.name);
        match resolve_parsed(collection_query, scope, now)? {
            // this is no condition on the collection's own records: its name has become a column of another collection
            Ok(compiled) if compiled.plan.collection != index => {
                let problem = || Diagnostic::new(query.lookup.collection.span.clone(), "no collection has all that these conditions are on");
                refused = refused.or_else(|| Some(problem()));
            }
            Ok(compiled) => {
                let mut plan = compiled.plan;
                let columns = std::mem::replace(&mut plan.columns, vec![PlanColumn::Key]);
                if names_fields {
                    plan.conditions.extend(columns.into_iter().map(|column| Condition { column, test: Comparison::Exists(true) }));
                }
                plans.push((collection.name.clone(), plan));
            }
            Err(problem) => refused = refused.or(Some(problem)),
        }
    }
    Ok(Some(match refused {
        Some(problem) if plans.is_empty() => Err(problem),
        _ => Ok(AllCollectionsQuery::Records(plans)),
    }))
}

/// A row: collection and key.
fn row(collection: &str, key: Vec<Value>) -> Vec<Value> {
    std::iter::once(Value::text(collection)).chain(key).collect()
}

impl AllCollectionsQuery {
    /// The columns of its rows.
    pub fn headings(&self) -> Vec<ResultColumn> {
        match self {
            Self::Records(_) => ["collection", "key"].map(|name| ResultColumn { name: name.into(), ty: FieldType::Text }).to_vec(),
            Self::Words(_) => EverywhereSearch::headings().to_vec(),
        }
    }

    /// What is marked in its rows.
    pub fn highlights(&self) -> Highlights {
        match self {
            Self::Records(_) => Highlights::none(),
            Self::Words(search) => Highlights::of_column(2, "text", search.search().clone()),
        }
    }

    /// What may have been meant if nothing is found.
    pub fn hint(&self) -> Option<&str> {
        if let Self::Words(search) = self { search.hint() } else { None }
    }

    /// The rows of a page, with collection and key, and, if `counts`, the number of all rows. What is read of one collection is read in one snapshot.
    ///
    /// # Errors
    /// When the store fails.
    ///
    /// Cost: reads a page of each collection until there are enough rows, and counts the records of those before, or of all.
    pub fn find(&self, store: &dyn Store, offset: u64, limit: Option<u64>, counts: bool) -> Result<(Vec<Vec<Value>>, Option<u64>)> {
        let plans = match self {
            Self::Records(plans) => plans,
            Self::Words(search) => return search.find(store, offset, limit, counts),
        };
        let (mut skipped, mut found, mut total) = (offset, Vec::new(), 0);
        for (name, plan) in plans {
            let remaining = limit.map(|limit| limit.saturating_sub(found.len() as u64));
            match (remaining, counts) {
                (Some(0), false) => break,
                (Some(0), true) => {
                    total += store.count(plan)?;
                    continue;
                }
                _ => {}
            }
            let page = QueryPlan { offset: skipped, limit: remaining, ..plan.clone() };
            let rows = if counts || skipped > 0 {
                let (found, count) = store.find_and_count(&page)?;
                total += count;
                skipped = skipped.saturating_sub(count);
                found.rows
            } else {
                store.find(&page)?.rows
            };
            found.extend(rows.into_iter().map(|key| row(name, key)));
        }
        Ok((found, counts.then_some(total)))
    }

    /// Calls `visit` with every row; in constant memory, unless the rows are in the order of a rank.
    ///
    /// # Errors
    /// When the store or `visit` fails.
    pub fn visit(&self, store: &dyn Store, visit: &mut dyn FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
        match self {
            Self::Records(plans) => plans.iter().try_for_each(|(name, plan)| store.visit(plan, &mut |key| visit(row(name, key)))),
            Self::Words(search) => search.find(store, 0, None, false)?.0.into_iter().try_for_each(visit),
        }
    }
}
