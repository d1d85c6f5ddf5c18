//! Words alone, without a collection: they are searched for in all fields with an index of words, in all collections. Rows are in the order of their
//! rank, and show where the words were found.

use super::all_collections::ALL_COLLECTIONS;
use super::columns::ResultColumn;
use super::compile::compile;
use super::scope::QueryScope;
use super::words::word_fields;
use crate::language::{ComparisonOperator, FieldPath, MAX_QUERY, Query, QueryCondition, Selection, ValueLiteral};
use stook_catalogue::definition::Catalogue;
use stook_catalogue::diagnostic::{Diagnostic, did_you_mean};
use stook_catalogue::value::{FieldType, Value};
use stook_catalogue::words::WordSearch;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::{Result, Store, StoreError, Visibility};

/// Maximum number of rows, as they are all sorted by their rank.
pub const MAX_ROWS_EVERYWHERE: u64 = 10_000;

/// About how many characters of a text are shown.
const EXCERPT: usize = 100;

/// A search for words in all collections.
#[derive(Debug, Clone, PartialEq)]
pub struct EverywhereSearch {
    search: WordSearch,
    /// The name of each collection with an index of words, and the plan for the key, the rank and the searched fields of its records.
    plans: Vec<(String, QueryPlan)>,
    /// What may have been meant if nothing is found.
    hint: Option<String>,
}

/// A row with its rank.
type RankedRow = (i64, Vec<Value>);

/// The words of a text that is nothing but words, and does not begin like a query.
pub fn words_alone(text: &str, catalogue: &Catalogue) -> Option<WordSearch> {
    let is_query = |character: char| matches!(character, '=' | '<' | '>' | '~' | '!' | '|' | '[' | ']' | '(' | ')' | ',' | '\'' | '\0');
    if text.len() > MAX_QUERY || text.contains(is_query) {
        return None;
    }
    let mut words = text.split_whitespace();
    let (first, second) = (words.next()?, words.next().unwrap_or_default());
    let collection = first.split('.').next().unwrap_or(first);
    let is_name = [first, collection]
        .iter()
        .any(|name| *name == ALL_COLLECTIONS || catalogue.collection(name).is_some() || catalogue.aliases.iter().any(|alias| alias.name == *name));
    let is_comparison = matches!(second, "in" | "between" | "last" | "intersects" | "within") && words.next().is_some();
    if is_name || is_comparison {
        return None;
    }
    WordSearch::parse(text).ok()
}

impl EverywhereSearch {
    /// The search for a text that is nothing but words; `None` for other texts, or if no collection has an index of words.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn of_text(text: &str, scope: &QueryScope<'_>, now: i64) -> std::result::Result<Option<Self>, Diagnostic> {
        let QueryScope { catalogue, tenant, .. } = *scope;
        let Some(search) = words_alone(text, catalogue) else { return Ok(None) };
        let mut plans = Vec::new();
        for (index, collection) in catalogue.collections.enumerate().filter(|(_, collection)| !word_fields(collection).is_empty()) {
            let visible = (scope.visible)(index);
            if visible == Visibility::Nothing {
                continue;
            }
            let path = FieldPath { text: collection.name.clone(), span: 0..text.len() };
            let value = ValueLiteral { pieces: vec![text.to_owned()], span: 0..text.len() };
            let condition = QueryCondition { path: path.clone(), operator: ComparisonOperator::Words, values: vec![value], span: 0..text.len() };
            let lookup = Selection {
                collection: path,
                extra_names: Vec::new(),
                conditions: vec![condition],
                combined: Vec::new(),
                given: Vec::new(),
                open_alternatives: None,
                end: text.len(),
            };
            let mut plan = compile(&Query { lookup, stages: Vec::new() }, catalogue, tenant, now)?.plan;
            let searched = collection.fields.enumerate().filter(|(_, field)| field.index.words).map(|(id, _)| PlanColumn::Field(id));
            plan.columns = [PlanColumn::Key, PlanColumn::Rank].into_iter().chain(searched).collect();
            if let Visibility::Part(filter) = visible {
                filter.apply(&mut plan);
            }
            plans.push((collection.name.clone(), plan));
        }
        let names = catalogue.collections.iter().map(|collection| collection.name.as_str());
        let meant = did_you_mean(text.trim(), names);
        let hint = meant.map(|name| format!("no record has these words; did you mean the collection `{name}`?"));
        Ok((!plans.is_empty()).then_some(Self { search, plans, hint }))
    }

    /// The columns of its rows; the last one shows where the words were found.
    pub fn headings() -> [ResultColumn; 3] {
        ["collection", "key", "text"].map(|name| ResultColumn { name: name.into(), ty: FieldType::Text })
    }

    /// The words.
    pub fn search(&self) -> &WordSearch {
        &self.search
    }

    /// What may have been meant if nothing is found.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// The rows of a page, and, if `counts`, the number of all rows.
    ///
    /// # Errors
    /// When the store fails, or more rows are wanted than are returned.
    ///
    /// Cost: reads the rows up to the end of the page from each collection.
    pub fn find(&self, store: &dyn Store, offset: u64, limit: Option<u64>, counts: bool) -> Result<(Vec<Vec<Value>>, Option<u64>)> {
        let end = limit.map_or(MAX_ROWS_EVERYWHERE + 1, |limit| offset.saturating_add(limit));
        if end > MAX_ROWS_EVERYWHERE + 1 {
            return Err(self.too_many());
        }
        let (mut ranked, mut total): (Vec<RankedRow>, u64) = (Vec::new(), 0);
        for (name, plan) in &self.plans {
            let page = QueryPlan { offset: 0, limit: Some(end), ..plan.clone() };
            let found = if counts {
                let (found, count) = store.find_and_count(&page)?;
                total += count;
                found
            } else {
                store.find(&page)?
            };
            ranked.extend(found.rows.into_iter().map(|row| self.row(name, row)));
        }
        if limit.is_none() && ranked.len() as u64 > MAX_ROWS_EVERYWHERE {
            return Err(self.too_many());
        }
        // stable: records of one rank stay in the order of collections and keys
        ranked.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let rows = ranked.into_iter().map(|(_, row)| row).skip(offset as usize).take(limit.map_or(usize::MAX, |limit| limit as usize));
        Ok((rows.collect(), counts.then_some(total)))
    }

    fn too_many(&self) -> StoreError {
        let first = self.plans.first().map_or("", |(name, _)| name);
        StoreError::Wrong(format!(
            "at most the first {MAX_ROWS_EVERYWHERE} rows are returned of a search in all collections; search one of them: {first} ~ '{}'",
            self.search
        ))
    }

    /// A row with its rank: the collection, the key, and the first text in which words occur.
    fn row(&self, collection: &str, found: Vec<Value>) -> RankedRow {
        let mut values = found.into_iter();
        let (key, rank) = (values.next().unwrap_or_default(), values.next().and_then(|rank| rank.as_int()).unwrap_or(0));
        let excerpt = values.find_map(|value| value.elements().iter().filter_map(Value::as_text).find_map(|text| self.search.excerpt(text, EXCERPT)));
        (rank, vec![Value::text(collection), key, excerpt.map_or(Value::Null, Value::text)])
    }
}
