//! Reconciliation: which records of a collection a text, and values of some properties, may mean.
//!
//! The name of a record is its first field with `index: words`. Candidates are searched for by their words, each search only if those before it have found
//! too few:
//!
//! 1. the record whose key is the text;
//! 2. all words occur in the name;
//! 3. all words occur in fields with `index: words`, whichever these are;
//! 4. all properties that have an index have the values that are given;
//! 5. all words but one occur in the name;
//! 6. all words begin as words of the name do, with the first half of their letters.
//!
//! Of what a search finds, the records of the highest rank are compared, up to [`MAX_COMPARED`]. The score of a candidate depends on nothing but the query and
//! that record: `100 (2 n + p1 + ... + pk) / (2 + k)`, where `n` says how alike the names are, and `p` for each property how alike its values are, from
//! 0 to 1. Without a text it is the mean of the properties. The candidate with the score 100 is a match if it is the only one.

mod property;
mod similarity;
mod text;

pub use property::{PropertyValue, QueryProperty, properties, property_named};

use similarity::NameWords;
use std::collections::BTreeMap;
use stook_catalogue::definition::Collection;
use stook_catalogue::ids::{CollectionId, FieldId};
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_store::plan::{CombinedCondition, Condition, PlanColumn, QueryPlan, SortKey};
use stook_store::{Result, Store, Tenant};
use text::SearchedText;

/// Records that one search of a query may find to be compared.
pub const MAX_COMPARED: u64 = 50;
/// The score of a candidate that agrees in everything.
pub const FULL_SCORE: f64 = 100.0;
/// How much the name counts, where a property counts 1.
const WEIGHT_OF_NAME: f64 = 2.0;

/// What a caller wants to be recognised.
#[derive(Debug, Clone, PartialEq)]
pub struct ReconciliationQuery {
    /// A text, such as a name; `None` if only properties are given.
    pub text: Option<String>,
    /// Values of properties.
    pub properties: Vec<QueryProperty>,
    /// The most candidates that are wanted.
    pub limit: usize,
}

/// A record that a query may mean.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its key.
    pub key: Key,
    /// Its name, or its key if it has none.
    pub name: String,
    /// How well it fits, from 0 to [`FULL_SCORE`], in tenths.
    pub score: f64,
    /// Whether it is what was meant.
    pub is_match: bool,
    /// How alike the names are, if the query has a text, from 0 to 100.
    pub of_name: Option<f64>,
    /// How alike the values of each property are, from 0 to 100.
    pub of_properties: Vec<f64>,
}

/// A record by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRecord {
    /// Its key.
    pub key: Key,
    /// Its name, or its key if it has none.
    pub name: String,
}

/// The field that names the records of a collection: the first one with an index of words.
pub fn name_field(collection: &Collection) -> Option<FieldId> {
    collection.fields.position(|field| field.index.words)
}

/// The name in the value of a name field.
pub fn name_in(value: &Value, key: &Key) -> String {
    let first = value.elements().iter().find_map(Value::as_text).filter(|name| !name.trim().is_empty());
    first.unwrap_or(key.as_str()).to_owned()
}

/// Recognises the records of a collection.
pub struct Reconciler<'s> {
    store: &'s dyn Store,
    tenant: &'s Tenant,
    id: CollectionId,
    name: FieldId,
    word_fields: Vec<FieldId>,
}

impl<'s> Reconciler<'s> {
    /// For a collection; `None` if no field of it has an index of words.
    pub fn new(store: &'s dyn Store, (tenant, id): (&'s Tenant, CollectionId), collection: &Collection) -> Option<Self> {
        let name = name_field(collection)?;
        let word_fields = collection.fields.enumerate().filter(|(_, field)| field.index.words).map(|(id, _)| id).collect();
        Some(Self { store, tenant, id, name, word_fields })
    }

    /// The candidates of a query, those with the highest score first, and of equal ones by key.
    ///
    /// # Errors
    /// When the store fails.
    pub fn candidates(&self, query: &ReconciliationQuery) -> Result<Vec<Candidate>> {
        let mut found: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        let key = query.text.as_deref().and_then(|text| Key::new(text.trim()).ok());
        if let Some(key) = &key {
            self.add(Vec::new(), vec![Condition::equal(PlanColumn::Key, Value::text(key.as_str()))], query, &mut found)?;
        }
        let searched = query.text.as_deref().and_then(SearchedText::new);
        let is_enough = |found: &BTreeMap<String, Vec<Value>>| found.len() >= query.limit;
        if let Some(searched) = &searched {
            self.add(vec![searched.all_in(&[self.name])], Vec::new(), query, &mut found)?;
            if !is_enough(&found) && self.word_fields.len() > 1 {
                self.add(vec![searched.all_in(&self.word_fields)], Vec::new(), query, &mut found)?;
            }
        }
        let by_property: Vec<Condition> = query.properties.iter().filter_map(QueryProperty::condition).collect();
        if !is_enough(&found) && !by_property.is_empty() {
            self.add(Vec::new(), by_property, query, &mut found)?;
        }
        for relaxed in searched.iter().flat_map(|searched| [searched.all_but_one_in(self.name), searched.beginnings_in(self.name)]).flatten() {
            if !is_enough(&found) {
                self.add(vec![relaxed], Vec::new(), query, &mut found)?;
            }
        }
        let name = query.text.as_deref().map(NameWords::new);
        let compared = found.into_iter().filter_map(|(found, row)| compare(query, name.as_ref(), key.as_ref(), found, &row));
        let mut candidates: Vec<Candidate> = compared.collect();
        candidates.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
        let agree = candidates.iter().filter(|candidate| candidate.score >= FULL_SCORE).count();
        if let ([first, ..], 1) = (candidates.as_mut_slice(), agree) {
            first.is_match = true;
        }
        candidates.truncate(query.limit);
        Ok(candidates)
    }

    /// Adds the records of the highest rank that satisfy conditions, with the values that are compared.
    fn add(
        &self,
        combined: Vec<CombinedCondition>,
        conditions: Vec<Condition>,
        query: &ReconciliationQuery,
        found: &mut BTreeMap<String, Vec<Value>>,
    ) -> Result<()> {
        let columns = [PlanColumn::Key, PlanColumn::Field(self.name)].into_iter();
        let columns = columns.chain(query.properties.iter().map(|property| PlanColumn::Field(property.field))).collect();
        for mut row in self.find(combined, conditions, columns, (0, MAX_COMPARED))? {
            if let Some(key) = row.first().and_then(Value::as_text).map(str::to_owned) {
                row.remove(0);
                found.insert(key, row);
            }
        }
        Ok(())
    }

    fn find(
        &self,
        combined: Vec<CombinedCondition>,
        conditions: Vec<Condition>,
        columns: Vec<PlanColumn>,
        (offset, limit): (u64, u64),
    ) -> Result<Vec<Vec<Value>>> {
        let mut plan = QueryPlan { conditions, combined, columns, offset, limit: Some(limit), ..QueryPlan::all(self.tenant.clone(), self.id) };
        if !plan.word_searches().is_empty() {
            plan.sort = vec![SortKey { column: PlanColumn::Rank, descending: true }];
        }
        Ok(self.store.find(&plan)?.rows)
    }

    /// The records with a name in which all words of a text that is being typed occur, of the last one only the beginning; those of the highest rank first.
    /// The record whose key is the text is the first one.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begins_with(&self, typed: &str, (offset, limit): (u64, u64)) -> Result<Vec<NamedRecord>> {
        let columns = || vec![PlanColumn::Key, PlanColumn::Field(self.name)];
        let named = |row: Vec<Value>| {
            let key = Key::new(row.first()?.as_text()?).ok()?;
            Some(NamedRecord { name: name_in(row.get(1)?, &key), key })
        };
        let is_typed = |key: &Key| Condition::equal(PlanColumn::Key, Value::text(key.as_str()));
        let by_key = match Key::new(typed.trim()) {
            Ok(key) if offset == 0 => self.find(Vec::new(), vec![is_typed(&key)], columns(), (0, 1))?,
            _ => Vec::new(),
        };
        let mut all: Vec<NamedRecord> = by_key.into_iter().filter_map(named).collect();
        if let Some(searched) = SearchedText::typed(typed) {
            let rows = self.find(vec![searched.all_in(&[self.name])], Vec::new(), columns(), (offset, limit))?;
            all.extend(rows.into_iter().filter_map(named).filter(|record| all.first() != Some(record)).collect::<Vec<_>>());
        }
        all.truncate(limit as usize);
        Ok(all)
    }

    /// The names of records, by key; records that do not exist have none.
    ///
    /// # Errors
    /// When the store fails.
    pub fn names(&self, keys: &[Key]) -> Result<BTreeMap<Key, String>> {
        let one_of = Condition::one_of(PlanColumn::Key, keys.iter().map(|key| Value::text(key.as_str())).collect());
        let rows = self.find(Vec::new(), vec![one_of], vec![PlanColumn::Key, PlanColumn::Field(self.name)], (0, keys.len() as u64))?;
        let named = |row: Vec<Value>| {
            let key = Key::new(row.first()?.as_text()?).ok()?;
            Some((key.clone(), name_in(row.get(1)?, &key)))
        };
        Ok(rows.into_iter().filter_map(named).collect())
    }
}

/// Compares a record with a query: its name and the values of the properties are in `row`.
fn compare(query: &ReconciliationQuery, text: Option<&NameWords>, meant: Option<&Key>, key: String, row: &[Value]) -> Option<Candidate> {
    let key = Key::new(key).ok()?;
    let (names, values) = row.split_first()?;
    let of_name = text.map(|text| {
        let alike = names.elements().iter().filter_map(Value::as_text).map(|name| text.similarity(&NameWords::new(name)));
        if meant == Some(&key) { 1.0 } else { alike.fold(0.0, f64::max) }
    });
    let of_properties: Vec<f64> = query.properties.iter().zip(values).map(|(property, value)| property.similarity(value)).collect();
    let weights = of_name.map_or(0.0, |_| WEIGHT_OF_NAME) + of_properties.len() as f64;
    let sum = of_name.map_or(0.0, |alike| alike * WEIGHT_OF_NAME) + of_properties.iter().sum::<f64>();
    let tenths = |part: f64| (part * FULL_SCORE * 10.0).floor() / 10.0;
    (sum > 0.0).then(|| Candidate {
        name: name_in(names, &key),
        key,
        score: tenths(sum / weights),
        is_match: false,
        of_name: of_name.map(tenths),
        of_properties: of_properties.into_iter().map(tenths).collect(),
    })
}
