//! Searches for words: in one field, in all fields of a collection that have an index of words, and what is marked in the rows that are found.

use super::columns::Resolver;
use super::compile::CompiledQuery;
use crate::language::{ComparisonOperator, ConditionTree, FieldPath, GrepItem, Query, QueryCondition, Stage, ValueLiteral};
use serde_json::{Map, Value as Json};
use std::borrow::Cow;
use std::sync::Arc;
use stook_catalogue::definition::Collection;
use stook_catalogue::diagnostic::Diagnostic;
use stook_catalogue::value::Value;
use stook_catalogue::words::{WordSearch, WordSearchError};
use stook_store::plan::PlanColumn;

impl Query {
    /// Whether a condition searches for words.
    pub fn searches_words(&self) -> bool {
        let in_stages = self.stages.iter().flat_map(|stage| if let Stage::Grep(items) = stage { items.as_slice() } else { &[] });
        let in_grep = in_stages.flat_map(|item| match item {
            GrepItem::Condition(condition) => vec![condition],
            GrepItem::Combined(tree) => tree.conditions(),
            GrepItem::Column(_) => Vec::new(),
        });
        self.lookup.all_conditions().chain(in_grep).any(|condition| condition.operator == ComparisonOperator::Words)
    }
}

impl Resolver<'_> {
    /// The words of a condition on a column.
    pub fn words(&self, comparison: &QueryCondition, column: PlanColumn) -> Result<Arc<WordSearch>, Diagnostic> {
        if !column.field().is_some_and(|field| self.collection.fields[field].index.words) {
            let problem = Diagnostic::new(comparison.path.span.clone(), format!("`{}` has no index of words", comparison.path.text));
            return Err(problem.help(match word_fields(self.collection).as_slice() {
                [] => "in the definition, `index: words` of a text makes one; `=` compares with patterns: *sea*".to_owned(),
                names => format!("fields with one are {}; `index: words` in the definition makes one", names.join(", ")),
            }));
        }
        read(comparison).map(Arc::new)
    }
}

/// Reads the words of a condition.
fn read(comparison: &QueryCondition) -> Result<WordSearch, Diagnostic> {
    let [value] = comparison.values.as_slice() else { return Err(Diagnostic::new(comparison.span.clone(), "expected words in quotes")) };
    WordSearch::parse(&value.pieces.join("*")).map_err(|error| {
        let help = match error {
            WordSearchError::NoWord => "words have letters or digits: title ~ \"deep sea\"",
            WordSearchError::TooManyWords(_) => "search for the rarest of them",
            WordSearchError::Star => "for example: tid* finds tides; `=` compares with patterns: title=*sea*",
            WordSearchError::OpenPhrase => "single quotes around the words, double quotes around the phrase: title ~ '\"deep sea\" tides'",
        };
        Diagnostic::new(value.span.clone(), error.to_string()).help(help)
    })
}

/// The names of the fields with an index of words.
pub fn word_fields(collection: &Collection) -> Vec<&str> {
    collection.fields.iter().filter(|field| field.index.words).map(|field| field.name.as_str()).collect()
}

/// Replaces a search in a collection, `book ~ \"deep sea\"`, by searches in its fields: each word must occur in one of them.
pub fn search_all_fields<'q>(query: &'q Query, collection: &Collection) -> Result<Cow<'q, Query>, Diagnostic> {
    let is_of_collection = |condition: &QueryCondition| condition.operator == ComparisonOperator::Words && condition.path.text == collection.name;
    if !query.searches_words() {
        return Ok(Cow::Borrowed(query));
    }
    let mut query = query.clone();
    let mut trees = Vec::new();
    for condition in std::mem::take(&mut query.lookup.conditions) {
        match is_of_collection(&condition) {
            true => trees.push(in_any_field(&condition, collection)?),
            false => query.lookup.conditions.push(condition),
        }
    }
    for tree in &mut query.lookup.combined {
        replace(tree, collection, &is_of_collection)?;
    }
    query.lookup.combined.extend(trees);
    for item in query.stages.iter_mut().flat_map(|stage| if let Stage::Grep(items) = stage { items.as_mut_slice() } else { &mut [] }) {
        match item {
            GrepItem::Condition(condition) if is_of_collection(condition) => *item = GrepItem::Combined(in_any_field(condition, collection)?),
            GrepItem::Combined(tree) => replace(tree, collection, &is_of_collection)?,
            GrepItem::Condition(_) | GrepItem::Column(_) => {}
        }
    }
    Ok(Cow::Owned(query))
}

fn replace(tree: &mut ConditionTree, collection: &Collection, is_of_collection: &dyn Fn(&QueryCondition) -> bool) -> Result<(), Diagnostic> {
    match tree {
        ConditionTree::One(condition) if is_of_collection(condition) => *tree = in_any_field(condition, collection)?,
        ConditionTree::One(_) => {}
        ConditionTree::Not(inner) => replace(inner, collection, is_of_collection)?,
        ConditionTree::All(inner) | ConditionTree::Any(inner) => {
            inner.iter_mut().try_for_each(|inner| replace(inner, collection, is_of_collection))?;
        }
    }
    Ok(())
}

/// The conditions that each word, or phrase, occurs in one of the fields.
fn in_any_field(condition: &QueryCondition, collection: &Collection) -> Result<ConditionTree, Diagnostic> {
    let fields = word_fields(collection);
    if fields.is_empty() {
        let problem = Diagnostic::new(condition.path.span.clone(), format!("no field of `{}` has an index of words", collection.name));
        return Err(problem.help("in the definition, `index: words` of a text makes one"));
    }
    let search = read(condition)?;
    let terms = search.terms().iter().map(|term| {
        let text = term.to_string();
        let in_field = |field: &&str| {
            let path = FieldPath { text: (*field).to_owned(), span: condition.path.span.clone() };
            let values = condition.values.iter().map(|value| ValueLiteral { pieces: vec![text.clone()], span: value.span.clone() }).collect();
            ConditionTree::One(QueryCondition { path, operator: ComparisonOperator::Words, values, span: condition.span.clone() })
        };
        ConditionTree::Any(fields.iter().map(in_field).collect())
    });
    Ok(ConditionTree::All(terms.collect()))
}

/// What a query's words mark in its rows.
pub struct Highlights {
    /// The position and name of each searched column of a row, with the words.
    columns: Vec<(usize, String, WordSearch)>,
}

impl Highlights {
    /// Those of a query; none if it searches for no words, or does not show where.
    pub fn of(compiled: &CompiledQuery) -> Self {
        let searches = compiled.plan.word_searches();
        let is_rows = compiled.aggregates.is_empty();
        let columns = compiled.plan.columns.iter().enumerate().filter(|_| is_rows).filter_map(|(position, column)| {
            let of_column = || searches.iter().filter(|(searched, _)| searched == column).map(|(_, search)| *search);
            of_column().next()?;
            Some((position, compiled.columns.get(position)?.name.clone(), WordSearch::of_all(of_column())))
        });
        Self { columns: columns.collect() }
    }

    /// Nothing is marked.
    pub const fn none() -> Self {
        Self { columns: Vec::new() }
    }

    /// Those of one column of rows.
    pub fn of_column(position: usize, name: &str, search: WordSearch) -> Self {
        Self { columns: vec![(position, name.to_owned(), search)] }
    }

    /// Whether there is nothing to mark in any row.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The words that mark a column, by its position.
    pub fn of_position(&self, position: usize) -> Option<&WordSearch> {
        self.columns.iter().find(|(column, ..)| *column == position).map(|(_, _, search)| search)
    }

    /// The texts of a row in which words were found, by column: each cut into pieces, of which those at odd positions were found. Of a list, each element
    /// in which words were found.
    pub fn to_json(&self, row: &[Value]) -> Json {
        let mut found = Map::new();
        for (position, name, search) in &self.columns {
            let pieces = |text: &Value| text.as_text().and_then(|text| search.pieces(text)).map(Json::from);
            let shown = match row.get(*position) {
                Some(Value::List(items)) => {
                    Some(Json::Array(items.iter().filter_map(pieces).collect())).filter(|found| found != &Json::Array(Vec::new()))
                }
                Some(value) => pieces(value),
                None => None,
            };
            found.extend(shown.map(|shown| (name.clone(), shown)));
        }
        Json::Object(found)
    }
}
