//! Aggregates by source: the same functions over each source's own values for the same records.

use crate::Result;
use crate::content::order::order;
use crate::content::sum::FloatSum;
use crate::job::sizes::PAGE;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::ids::FieldId;
use stook_catalogue::parts::joined;
use stook_catalogue::record::ContributionContent;
use stook_catalogue::value::{FieldType, Value};
use stook_store::plan::{
    ALL_VALUES, Aggregate, AggregateFunction, Grouping, PlanColumn, QueryPlan, matching_keys, mean_of, percentile_between, percentile_position,
};
use stook_store::{ReadDetail, Store, StoreError};

/// An aggregate over fewer values than there are rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartialAggregate {
    /// Its position among the aggregates.
    pub aggregate: usize,
    /// Number of rows that have a value.
    pub values: u64,
    /// Number of all rows.
    pub rows: u64,
}

/// Aggregates that leave rows out because these have no value, or one that could not be read. Counts are excluded, because they show this themselves,
/// and so are lists, which may have any number of values.
///
/// # Errors
/// When the store fails.
pub fn over(catalogue: &Catalogue, store: &dyn Store, plan: &QueryPlan, aggregates: &[Aggregate]) -> Result<Vec<PartialAggregate>> {
    let collection = &catalogue.collections[plan.collection];
    let is_single = |column: PlanColumn| match column {
        PlanColumn::Field(field) => collection.fields.get(field).is_some_and(|own| !own.ty.is_list()),
        PlanColumn::Element(_) => true,
        PlanColumn::Linked(linked) => linked.is_single(catalogue),
        _ => false,
    };
    let wanted = aggregates.iter().enumerate().filter(|(_, own)| {
        !matches!(own.function, AggregateFunction::Count | AggregateFunction::CountDistinct) && is_single(own.column) && !plan.distinct
    });
    let mut found = Vec::new();
    let mut rows = None;
    for (aggregate, own) in wanted {
        let rows = match rows {
            Some(rows) => rows,
            None => *rows.insert(store.count(&QueryPlan { sort: Vec::new(), offset: 0, limit: None, ..plan.clone() })?),
        };
        let counted = store.aggregate(plan, &[Aggregate { function: AggregateFunction::Count, ..*own }])?;
        let values = counted.first().and_then(Value::as_int).unwrap_or(0).max(0) as u64;
        if values < rows {
            found.push(PartialAggregate { aggregate, values, rows });
        }
    }
    Ok(found)
}

/// Aggregates over what each source contributes to the records that a plan finds, by source. A source that contributes nothing has no row.
///
/// # Errors
/// When the store fails, when rows are not records, or when sources do not contribute to a column: derived values, states, tags.
///
/// Cost: reads each record with all its contributions, in pages; keys, and the values of percentiles, are held in memory.
pub fn by_source(
    catalogue: &Catalogue,
    store: &dyn Store,
    plan: &QueryPlan,
    aggregates: &[Aggregate],
    grouping: Option<&Grouping>,
) -> Result<BTreeMap<String, Vec<Value>>> {
    let collection = &catalogue.collections[plan.collection];
    if plan.distinct || plan.each.is_some() {
        return Err(wrong("aggregates by source do not work with `unique` or `each`"));
    }
    if grouping.is_some() {
        return Err(wrong("aggregates by source are of all rows, not of groups: leave out `by`, or do not ask by source"));
    }
    let fields: Vec<Option<FieldId>> = aggregates.iter().map(|aggregate| field_of(collection, aggregate)).collect::<Result<_>>()?;
    let mut found: BTreeMap<String, Vec<Accumulator>> = BTreeMap::new();
    let all = QueryPlan { columns: vec![PlanColumn::Key], sort: Vec::new(), offset: 0, limit: None, ..plan.clone() };
    for page in matching_keys(store, &all)?.chunks(PAGE) {
        for record in store.read(&plan.tenant, plan.collection, page, ReadDetail::Full)?.into_iter().flatten() {
            let contributions = record.contributions_of(collection)?;
            let key = Value::text(record.key.as_str());
            for own in joined(catalogue, collection, &contributions).iter().filter(|own| own.counts()) {
                let ContributionContent::Values(values) = &own.content else { continue };
                if !found.contains_key(own.source()) {
                    found.insert(own.source().to_owned(), aggregates.iter().map(|aggregate| Accumulator::new(aggregate.function)).collect());
                }
                let Some(sums) = found.get_mut(own.source()) else { continue };
                for (sum, field) in sums.iter_mut().zip(&fields) {
                    match field {
                        None => sum.add(&key),
                        Some(field) => sum.add(values.get(field.index()).unwrap_or(&Value::Null)),
                    }
                }
            }
        }
    }
    let ended = |sums: Vec<Accumulator>| -> Result<Vec<Value>> {
        let types = fields.iter().map(|field| field.map_or(&FieldType::Text, |field| collection.fields[field].ty.element()));
        sums.into_iter().zip(types).map(|(sum, ty)| sum.end(ty)).collect()
    };
    found.into_iter().map(|(source, sums)| Ok((source, ended(sums)?))).collect()
}

fn wrong(reason: &str) -> crate::EngineError {
    StoreError::Wrong(reason.to_owned()).into()
}

/// The field whose values are aggregated; `None` for the key.
fn field_of(collection: &Collection, aggregate: &Aggregate) -> Result<Option<FieldId>> {
    match aggregate.column {
        PlanColumn::Key => Ok(None),
        PlanColumn::Field(field)
            if collection.fields.get(field).is_some_and(|own| own.derive.is_none() && own.ty.element() != &FieldType::Ranges) =>
        {
            Ok(Some(field))
        }
        PlanColumn::Field(field) => {
            let name = collection.fields.get(field).map_or("", |field| field.name.as_str());
            Err(wrong(&format!("`{name}` is derived or of type ranges, so it has no values by source")))
        }
        _ => Err(wrong("only fields have values by source")),
    }
}

/// An aggregate while it is computed.
struct Accumulator {
    function: AggregateFunction,
    count: i64,
    whole: i128,
    float: FloatSum,
    /// The smallest or the largest value, or all values for a percentile.
    values: Vec<Value>,
}

impl Accumulator {
    fn new(function: AggregateFunction) -> Self {
        Self { function, count: 0, whole: 0, float: FloatSum::default(), values: Vec::new() }
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
        let is_better = |towards: Ordering| self.values.first().is_none_or(|kept| order(value, kept) == Some(towards));
        match self.function {
            AggregateFunction::Min if is_better(Ordering::Less) => self.values = vec![value.clone()],
            AggregateFunction::Max if is_better(Ordering::Greater) => self.values = vec![value.clone()],
            AggregateFunction::Median | AggregateFunction::Percentile(_) | AggregateFunction::CountDistinct => self.values.push(value.clone()),
            _ => {}
        }
    }

    fn end(mut self, ty: &FieldType) -> Result<Value> {
        let is_float = *ty == FieldType::Float;
        let float = || self.float.end().ok_or_else(|| wrong("the sum is too large for a float"));
        Ok(match self.function {
            AggregateFunction::Count => Value::Int(self.count),
            AggregateFunction::CountDistinct => {
                self.values.sort_by(Value::compare);
                self.values.dedup();
                Value::Int(self.values.len() as i64)
            }
            _ if self.count == 0 => Value::Null,
            AggregateFunction::Min | AggregateFunction::Max => self.values.pop().unwrap_or_default(),
            AggregateFunction::Sum if is_float => Value::float(float()?),
            AggregateFunction::Avg if is_float => Value::float(float()? / self.count as f64),
            AggregateFunction::Sum => Value::Int(i64::try_from(self.whole).map_err(|_| wrong("the sum does not fit 64 bits"))?),
            AggregateFunction::Avg => mean_of(self.whole, i128::from(self.count), ty),
            AggregateFunction::Median | AggregateFunction::Percentile(_) => {
                let percentile = if let AggregateFunction::Percentile(percentile) = self.function { percentile } else { ALL_VALUES / 2 };
                self.values.sort_by(|a, b| order(a, b).unwrap_or(Ordering::Equal));
                let count = self.values.len() as u64;
                let (position, part) = percentile_position(percentile, count);
                let (low, high) = (position as usize, position as usize + usize::from(part > 0));
                percentile_between(&self.values[low], &self.values[high], percentile, count, ty)
            }
        })
    }
}
