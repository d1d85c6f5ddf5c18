//! What each source says of an aggregate: the same functions over its own values, of the same records.

use crate::Result;
use crate::ask::bind::order;
use crate::withdraw::PAGE;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::parts::joined;
use stook_catalogue::record::Said;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{Aggregate, Column, Function, Plan, keys_of, mean_of, middle_of};
use stook_store::{Detail, Store, StoreError};

/// An aggregate of fewer values than there are rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Over {
    /// Which of the aggregates.
    pub aggregate: usize,
    /// Rows that have a value.
    pub values: u64,
    /// All rows.
    pub rows: u64,
}

/// Which aggregates are not of all rows: those without a value, or with one that could not be read, are left out of them.
/// Counts of values say that themselves, and lists have as many as they have.
///
/// # Errors
/// When the store fails.
pub fn over(catalogue: &Catalogue, store: &dyn Store, plan: &Plan, aggregates: &[Aggregate]) -> Result<Vec<Over>> {
    let collection = &catalogue.collections[plan.collection];
    let is_single = |column: Column| match column {
        Column::Field(field) => collection.fields.get(field).is_some_and(|own| !own.ty.is_list()),
        Column::Element(_) => true,
        _ => false,
    };
    let wanted = aggregates.iter().enumerate().filter(|(_, own)| own.function != Function::Count && is_single(own.column) && !plan.distinct);
    let mut found = Vec::new();
    let mut rows = None;
    for (aggregate, own) in wanted {
        let rows = match rows {
            Some(rows) => rows,
            None => *rows.insert(store.count(&Plan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() })?),
        };
        let counted = store.aggregate(plan, &[Aggregate { function: Function::Count, ..*own }])?;
        let values = counted.first().and_then(Value::as_int).unwrap_or(0).max(0) as u64;
        if values < rows {
            found.push(Over { aggregate, values, rows });
        }
    }
    Ok(found)
}

/// Aggregates over what each source says of the records that a plan finds, by source. A source that says nothing of them has no row.
///
/// # Errors
/// When the store fails, when rows are not records, or when a column is not what sources say: derived, a state, a tag.
///
/// Cost: reads each record with all its contributions, in pages; keys, and the values of medians, are held in memory.
pub fn by_source(catalogue: &Catalogue, store: &dyn Store, plan: &Plan, aggregates: &[Aggregate]) -> Result<BTreeMap<String, Vec<Value>>> {
    let collection = &catalogue.collections[plan.collection];
    if plan.distinct || plan.each.is_some() {
        return Err(wrong("sources say of records what they say, not of unique rows or of rows of structs"));
    }
    let fields: Vec<Option<usize>> = aggregates.iter().map(|aggregate| field_of(collection, aggregate)).collect::<Result<_>>()?;
    let mut found: BTreeMap<String, Vec<Sum>> = BTreeMap::new();
    let all = Plan { columns: vec![Column::Key], sort: Vec::new(), offset: 0, limit: None, ..plan.clone() };
    for page in keys_of(store, &all)?.chunks(PAGE) {
        for record in store.read(&plan.tenant, plan.collection, page, Detail::Full)?.into_iter().flatten() {
            let said = record.contributions_of(collection)?;
            let key = Value::text(record.key.as_str());
            for own in joined(catalogue, collection, &said).iter().filter(|own| own.is_heard()) {
                let Said::Values(values) = &own.said else { continue };
                if !found.contains_key(own.source()) {
                    found.insert(own.source().to_owned(), aggregates.iter().map(|aggregate| Sum::new(aggregate.function)).collect());
                }
                let Some(sums) = found.get_mut(own.source()) else { continue };
                for (sum, field) in sums.iter_mut().zip(&fields) {
                    match field {
                        None => sum.add(&key),
                        Some(field) => sum.add(values.get(*field).unwrap_or(&Value::Null)),
                    }
                }
            }
        }
    }
    let ended = |sums: Vec<Sum>| -> Result<Vec<Value>> {
        let types = fields.iter().map(|field| field.map_or(&FieldType::Text, |field| collection.fields[field].ty.element()));
        sums.into_iter().zip(types).map(|(sum, ty)| sum.end(ty)).collect()
    };
    found.into_iter().map(|(source, sums)| Ok((source, ended(sums)?))).collect()
}

fn wrong(reason: &str) -> crate::EngineError {
    StoreError::Wrong(reason.to_owned()).into()
}

/// The field whose values are aggregated; nothing for the key.
fn field_of(collection: &Collection, aggregate: &Aggregate) -> Result<Option<usize>> {
    match aggregate.column {
        Column::Key => Ok(None),
        Column::Field(field) if collection.fields.get(field).is_some_and(|own| own.derive.is_none() && own.ty.element() != &FieldType::Ranges) => {
            Ok(Some(field))
        }
        Column::Field(field) => {
            let name = collection.fields.get(field).map_or("", |field| field.name.as_str());
            Err(wrong(&format!("`{name}` is not what sources say: it is derived, or ranges")))
        }
        _ => Err(wrong("only fields are what sources say")),
    }
}

/// An aggregate as it grows.
struct Sum {
    function: Function,
    count: i64,
    whole: i128,
    float: FloatSum,
    /// The smallest, the largest, or all that a median is of.
    kept: Vec<Value>,
}

impl Sum {
    fn new(function: Function) -> Self {
        Self { function, count: 0, whole: 0, float: FloatSum::default(), kept: Vec::new() }
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Null | Value::Cleared => return,
            Value::List(elements) => return elements.iter().for_each(|element| self.add(element)),
            Value::Int(number) => self.whole += i128::from(*number),
            Value::Float(number) => self.float.add(*number),
            _ => {}
        }
        self.count += 1;
        let is_better = |towards: Ordering| self.kept.first().is_none_or(|kept| order(value, kept) == Some(towards));
        match self.function {
            Function::Min if is_better(Ordering::Less) => self.kept = vec![value.clone()],
            Function::Max if is_better(Ordering::Greater) => self.kept = vec![value.clone()],
            Function::Median => self.kept.push(value.clone()),
            _ => {}
        }
    }

    fn end(mut self, ty: &FieldType) -> Result<Value> {
        let is_float = *ty == FieldType::Float;
        let float = || self.float.end().ok_or_else(|| wrong("the sum is too large for a float"));
        Ok(match self.function {
            Function::Count => Value::Int(self.count),
            _ if self.count == 0 => Value::Null,
            Function::Min | Function::Max => self.kept.pop().unwrap_or_default(),
            Function::Sum if is_float => Value::float(float()?),
            Function::Avg if is_float => Value::float(float()? / self.count as f64),
            Function::Sum => Value::Int(i64::try_from(self.whole).map_err(|_| wrong("the sum does not fit 64 bits"))?),
            Function::Avg => mean_of(self.whole, i128::from(self.count), ty),
            Function::Median => {
                self.kept.sort_by(|a, b| order(a, b).unwrap_or(Ordering::Equal));
                middle_of(&self.kept[(self.kept.len() - 1) / 2], &self.kept[self.kept.len() / 2], ty)
            }
        })
    }
}

/// A sum of floats that remembers what rounding has taken from it (Neumaier), as SQLite's does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FloatSum {
    sum: f64,
    lost: f64,
}

impl FloatSum {
    /// Adds a number.
    pub fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() { (self.sum - sum) + number } else { (number - sum) + self.sum };
        self.sum = sum;
    }

    /// The sum; nothing where it is no number that can be kept.
    pub fn end(self) -> Option<f64> {
        Some(self.sum + self.lost).filter(|sum| sum.is_finite())
    }
}
