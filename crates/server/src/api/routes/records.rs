//! Finds the records of a declared lookup, by the values of a column or by a query plan.

use super::columns::{folds, form, has_order, indexed, plan_column, value_of};
use super::parameters::RouteParams;
use crate::guard::blocking::reading;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::reads::{MAX_FOUND, MissPolicy, RequestLookups, ServedRecord, packed};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stook_catalogue::definition::Collection;
use stook_catalogue::eval::ExpressionFailures;
use stook_catalogue::key::Key;
use stook_catalogue::route::{IncludeRequirement, Lookup, LookupCondition, LookupRoute, MatchKind, OperandSource, RecordColumn};
use stook_catalogue::value::{FieldType, Value};
use stook_store::Store;
use stook_store::plan::{Comparison, Condition, QueryPlan, SortKey};

/// The result of a route's own lookup.
pub enum FirstLookup {
    /// All records.
    Records(Vec<Arc<ServedRecord>>),
    /// The records of the requested page, and the total number.
    Page(Vec<Arc<ServedRecord>>, u64),
    /// More than the route's maximum; none are returned.
    TooMany(u64),
}

/// The problem that there are more records than one response may have.
pub fn too_many(what: &str) -> Problem {
    Problem::bad(format!("{what} more than {MAX_FOUND} records, the limit of one response; narrow the request"))
}

/// The lookups of one request.
pub struct RouteRequest<'d> {
    pub ctx: &'d RequestContext,
    pub params: &'d RouteParams<'d>,
    pub looking: RequestLookups<'d>,
    pub shown_params: OnceLock<Json>,
    /// Whether a record was changed after its key was found for one of several values and before it was read: it may now belong to another of the
    /// values, and the lookup must be repeated.
    pub changed_meanwhile: AtomicBool,
    /// Failures of the route's expressions.
    pub failed: Mutex<ExpressionFailures>,
}

impl<'d> RouteRequest<'d> {
    pub fn new(ctx: &'d RequestContext, given: &'d RouteParams<'d>, looking: RequestLookups<'d>) -> Self {
        Self { ctx, params: given, looking, shown_params: OnceLock::new(), changed_meanwhile: AtomicBool::new(false), failed: Mutex::default() }
    }

    pub fn failures(&self) -> ExpressionFailures {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_moved(&self) -> bool {
        self.changed_meanwhile.load(Ordering::Relaxed)
    }

    pub fn params(&self) -> &Json {
        self.shown_params.get_or_init(|| self.params.to_json())
    }
}

impl RouteRequest<'_> {
    pub fn collection(&self, look: &Lookup) -> &Collection {
        self.ctx.definition(look.collection)
    }

    /// Returns the records of the route's own lookup, without includes.
    pub async fn first(&self, find: &LookupRoute) -> HandlerResult<FirstLookup> {
        let look = &find.lookup;
        if let Some(first) =
            look.conditions.first().filter(|first| first.comparison == MatchKind::Equal && indexed(self.collection(look), first.column))
            && let Some(values) = self.values(first, None)
        {
            let Some(mut groups) = self.by_values(look, first.column, vec![values]).await? else { return self.of_many(find).await };
            let records = groups.pop().unwrap_or_default();
            return Ok(FirstLookup::Records(records.into_iter().filter(|record| self.holds(look, record, None)).collect()));
        }
        let plan = QueryPlan { limit: Some(MAX_FOUND as u64 + 1), ..self.plan(look) };
        let rows = self.asked(move |store| Ok(store.find(&plan)?.rows)).await?;
        if rows.len() > MAX_FOUND {
            return self.of_many(find).await;
        }
        Ok(FirstLookup::Records(self.found(look, &rows).await?))
    }

    /// Returns the requested page if there are too many records to read all, as the store cuts it, or their number.
    async fn of_many(&self, find: &LookupRoute) -> HandlerResult<FirstLookup> {
        let look = &find.lookup;
        let most = find.page.and_then(|page| page.max_rows).map(|most| self.params.number(most));
        let mut plan = self.plan(look);
        match self.sorted(find) {
            Some(sort) if look.single => {
                plan = QueryPlan { sort, limit: Some(1), ..plan };
                let rows = self.asked(move |store| Ok(store.find(&plan)?.rows)).await?;
                Ok(FirstLookup::Records(self.found(look, &rows).await?))
            }
            Some(sort) if let Some(page) = find.page => {
                let (number, size) = (self.params.number(page.number).max(1), self.params.number(page.size));
                if size > MAX_FOUND as u64 {
                    return Err(too_many("a page of this size has"));
                }
                plan = QueryPlan { sort, offset: (number - 1).saturating_mul(size), limit: Some(size), ..plan };
                let (rows, total) = self.asked(move |store| store.find_and_count(&plan)).await?;
                match most.is_some_and(|most| total > most) {
                    true => Ok(FirstLookup::TooMany(total)),
                    false => Ok(FirstLookup::Page(self.found(look, &rows.rows).await?, total)),
                }
            }
            _ => {
                // the number of rows they would make is unknown, but it is too large
                let total = if most.is_some() { self.asked(move |store| store.count(&plan)).await? } else { 0 };
                match most.is_some_and(|most| total > most) {
                    true => Ok(FirstLookup::TooMany(total)),
                    false => Err(too_many("the request finds")),
                }
            }
        }
    }

    /// The plan of a lookup's conditions, in key order.
    fn plan(&self, look: &Lookup) -> QueryPlan {
        let conditions = look.conditions.iter().filter_map(|condition| self.test(condition)).collect();
        QueryPlan { conditions, ..QueryPlan::all(self.ctx.tenant.clone(), look.collection) }
    }

    /// The order of a route's rows for the store, if the store can cut the page: each record must be one row, and the order must be the same here and
    /// in the store.
    fn sorted(&self, find: &LookupRoute) -> Option<Vec<SortKey>> {
        let look = &find.lookup;
        let collection = self.collection(look);
        if find.distinct || look.includes.iter().any(|(_, include)| include.required != IncludeRequirement::Optional) {
            return None;
        }
        let is_plain = |column: RecordColumn| match column {
            RecordColumn::Key => true,
            RecordColumn::Field(index) => {
                let field = &collection.fields[index];
                !field.fold && !field.is_member() && has_order(field.golden_type())
            }
            RecordColumn::State(index) => has_order(&collection.states[index].ty),
        };
        let sort = |(column, descending): &(RecordColumn, bool)| {
            is_plain(*column).then_some(SortKey { column: plan_column(*column), descending: *descending })
        };
        look.sort.iter().map(sort).collect()
    }

    /// Reads from the store according to this request's miss policy.
    async fn asked<T: Send + 'static>(&self, ask: impl FnOnce(&dyn Store) -> stook_store::Result<T> + Send + 'static) -> HandlerResult<T> {
        let app = self.ctx.app.clone();
        let ask = move || {
            app.metrics.asked("find");
            ask(&*app.store)
        };
        match self.looking.way() {
            MissPolicy::CacheOnly => Ok(self.looking.miss()?),
            MissPolicy::Inline => Ok(ask()?),
            MissPolicy::Batched => reading(ask).await,
        }
    }

    /// Reads the records whose keys were found. A record that was changed since then may no longer satisfy the conditions.
    async fn found(&self, look: &Lookup, rows: &[Vec<Value>]) -> HandlerResult<Vec<Arc<ServedRecord>>> {
        let keys: Vec<Key> = rows.iter().filter_map(|row| Key::new(row.first()?.as_text()?).ok()).collect();
        let records = self.looking.records(look.collection, &keys).await?;
        Ok(records.into_iter().flatten().filter(|record| self.holds(look, record, None)).collect())
    }

    /// Returns the values that a condition compares with; `None` if its parameter was not sent.
    pub fn values<'v>(&'v self, condition: &LookupCondition, parent: Option<(&'v Collection, &'v ServedRecord)>) -> Option<Cow<'v, [Value]>> {
        let (value, ty) = match (condition.operand, parent) {
            (OperandSource::Param(index), _) => (Cow::Borrowed(self.params.values[index].as_ref()?), &self.params.all[index].ty),
            (OperandSource::Parent(column), Some((collection, record))) => value_of(collection, record, column),
            (OperandSource::Parent(_), None) => return None,
        };
        // keys are compared as texts
        if condition.column == RecordColumn::Key && ty.element() != &FieldType::Text {
            return Some(value.elements().iter().map(|value| Value::text(value.show(ty.element()))).collect());
        }
        Some(match value {
            Cow::Borrowed(value) => Cow::Borrowed(value.elements()),
            Cow::Owned(value) => Cow::Owned(value.elements().to_vec()),
        })
    }

    fn test(&self, condition: &LookupCondition) -> Option<Condition> {
        let mut values = self.values(condition, None)?.into_owned();
        let text = |value: Option<&Value>| value.and_then(Value::as_text).unwrap_or_default().to_owned();
        let test = match condition.comparison {
            MatchKind::Equal if values.len() == 1 => Comparison::Equal(values.pop().unwrap_or_default()),
            MatchKind::Equal => Comparison::In(values),
            MatchKind::Prefix => Comparison::Prefix(text(values.first())),
            MatchKind::Contains => Comparison::Wildcard(vec![String::new(), text(values.first()), String::new()]),
        };
        Some(Condition { column: plan_column(condition.column), test })
    }

    fn is_equal(&self, look: &Lookup, column: RecordColumn, own: &Value, wanted: &Value) -> bool {
        if folds(self.collection(look), column) { form(own) == form(wanted) } else { own == wanted }
    }

    /// Whether a record satisfies all conditions.
    pub fn holds(&self, look: &Lookup, record: &ServedRecord, parent: Option<(&Collection, &ServedRecord)>) -> bool {
        let collection = self.collection(look);
        look.conditions.iter().all(|condition| {
            let Some(wanted) = self.values(condition, parent) else { return true };
            let (own, _) = value_of(collection, record, condition.column);
            let folds = folds(collection, condition.column);
            let fits = |own: &Value, wanted: &Value| match condition.comparison {
                MatchKind::Equal => own == wanted,
                MatchKind::Prefix => own.as_text().zip(wanted.as_text()).is_some_and(|(own, wanted)| own.starts_with(wanted)),
                MatchKind::Contains => own.as_text().zip(wanted.as_text()).is_some_and(|(own, wanted)| own.contains(wanted)),
            };
            let fits = |own: &Value, wanted: &Value| if folds { fits(&form(own), &form(wanted)) } else { fits(own, wanted) };
            own.elements().iter().any(|own| wanted.iter().any(|wanted| fits(own, wanted)))
        })
    }

    /// Returns for each group of values the records that have one of them in a column, each record once; `None` if there are too many.
    pub async fn by_values(
        &self,
        look: &Lookup,
        column: RecordColumn,
        groups: Vec<Cow<'_, [Value]>>,
    ) -> HandlerResult<Option<Vec<Vec<Arc<ServedRecord>>>>> {
        let key_of = |value: &Value| value.as_text().and_then(|text| Key::new(text).ok());
        // the most common case: one record, or the records that belong to one
        if let [values] = groups.as_slice()
            && let [value] = &**values
        {
            let keys: Arc<[Key]> = match column {
                RecordColumn::Key => key_of(value).into_iter().collect(),
                _ => {
                    let Some(mut lists) = self.looking.keys(look.collection, plan_column(column), values).await? else { return Ok(None) };
                    lists.pop().unwrap_or_default()
                }
            };
            let records = if keys.is_empty() { Vec::new() } else { self.looking.records(look.collection, &keys).await? };
            return Ok(Some(vec![records.into_iter().flatten().collect()]));
        }
        let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut distinct: Vec<Value> = Vec::new();
        let indexes: Vec<Vec<usize>> = groups
            .iter()
            .map(|values| {
                let place = |value: &Value| {
                    *places.entry(packed(value)).or_insert_with(|| {
                        distinct.push(value.clone());
                        distinct.len() - 1
                    })
                };
                let mut all: Vec<usize> = values.iter().map(place).collect();
                let mut seen = std::collections::HashSet::new();
                all.retain(|index| seen.insert(*index));
                all
            })
            .collect();
        let lists: Vec<Arc<[Key]>> = match column {
            RecordColumn::Key => distinct.iter().map(|value| key_of(value).into_iter().collect()).collect(),
            _ if distinct.is_empty() => Vec::new(),
            _ => {
                let Some(lists) = self.looking.keys(look.collection, plan_column(column), &distinct).await? else { return Ok(None) };
                lists
            }
        };
        let mut keys: Vec<Key> = Vec::new();
        let mut at: HashMap<Key, usize> = HashMap::new();
        for key in lists.iter().flat_map(|list| list.iter()) {
            at.entry(key.clone()).or_insert_with(|| {
                keys.push(key.clone());
                keys.len() - 1
            });
        }
        let records = if keys.is_empty() { Vec::new() } else { self.looking.records(look.collection, &keys).await? };
        let has = |record: &ServedRecord, value: &Value| {
            let own = value_of(self.collection(look), record, column).0;
            own.elements().iter().any(|own| self.is_equal(look, column, own, value))
        };
        let is_behind =
            |(list, value): (&Arc<[Key]>, &Value)| list.iter().filter_map(|key| records[at[key]].as_ref()).any(|record| !has(record, value));
        if groups.len() > 1 && column != RecordColumn::Key && lists.iter().zip(&distinct).any(is_behind) {
            self.changed_meanwhile.store(true, Ordering::Relaxed);
        }
        // a record that has several of the values, or is found by several spellings of one, is listed once
        let of_lists = |own: &Vec<usize>| -> Vec<Arc<ServedRecord>> {
            let mut seen = std::collections::HashSet::new();
            let all = own.iter().flat_map(|list| lists[*list].iter()).map(|key| at[key]);
            all.filter(|place| own.len() == 1 || seen.insert(*place)).filter_map(|place| records[place].clone()).collect()
        };
        Ok(Some(indexes.iter().map(of_lists).collect()))
    }
}
