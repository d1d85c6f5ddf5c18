//! Finds the records of a declared lookup, by the values of a column or by a query plan.

use super::columns::{folded, folds, has_order, indexed, plan_column, value_of};
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
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::route::{IncludeRequirement, Lookup, LookupCondition, LookupRoute, MatchKind, OperandSource, RecordColumn, Route, RouteAction};
use stook_catalogue::value::{FieldType, Value};
use stook_query::{QueryScope, compile_conditions, consists_of};
use stook_store::access::Operation;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};
use stook_store::{Premises, RevisionRead, SearchRead, Store};

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
pub fn too_many(subject: &str) -> Problem {
    Problem::bad_request(format!("{subject} more than {MAX_FOUND} records, the limit of one response; narrow the request"))
}

/// The lookups of one request.
pub struct RouteRequest<'d> {
    pub ctx: &'d RequestContext,
    pub params: &'d RouteParams<'d>,
    pub lookups: RequestLookups<'d>,
    pub shown_params: OnceLock<Json>,
    /// Whether a record was changed after its key was found for one of several values and before it was read: it may now belong to another of the
    /// values, and the lookup must be repeated.
    pub changed_meanwhile: AtomicBool,
    /// Failures of the route's expressions.
    pub failed: Mutex<ExpressionFailures>,
    /// The operands of a route in steps that have been computed.
    pub computed: Vec<OnceLock<Value>>,
    /// What was read, if the route writes: it must still be so then.
    reads: Option<Mutex<Premises>>,
}

impl<'d> RouteRequest<'d> {
    pub fn new(ctx: &'d RequestContext, params: &'d RouteParams<'d>, lookups: RequestLookups<'d>) -> Self {
        Self {
            ctx,
            params,
            lookups,
            shown_params: OnceLock::new(),
            changed_meanwhile: AtomicBool::new(false),
            failed: Mutex::default(),
            computed: Vec::new(),
            reads: None,
        }
    }

    /// Makes room for the computed operands of a route in steps.
    pub fn of(mut self, route: &Route) -> Self {
        if let RouteAction::Steps(steps) = &route.action {
            self.computed.resize_with(steps.computed.len(), OnceLock::new);
        }
        self
    }

    /// Takes notes of everything that is read.
    pub fn noting_reads(self) -> Self {
        Self { reads: Some(Mutex::default()), ..self }
    }

    /// What was read so far.
    pub fn premises(&self) -> Premises {
        self.reads.as_ref().map(|reads| reads.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    fn note(&self, reading: impl FnOnce(&mut Premises)) {
        if let Some(reads) = &self.reads {
            reading(&mut reads.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// Notes the keys that a plan has found.
    fn note_search(&self, plan: QueryPlan, keys: &[Key]) {
        self.note(|reads| reads.searches.push(SearchRead { plan, keys: keys.to_vec() }));
    }

    /// Reads records, and notes their revisions, or that there are none.
    async fn read_records(&self, collection: CollectionId, keys: &[Key]) -> HandlerResult<Vec<Option<Arc<ServedRecord>>>> {
        let records = self.lookups.records(collection, keys).await?;
        self.note(|reads| {
            for (key, record) in keys.iter().zip(&records) {
                match record {
                    Some(record) => reads.records.push(RevisionRead { collection, key: key.clone(), revision: record.stored.version.revision }),
                    None => {
                        let conditions = vec![Condition { column: PlanColumn::Key, test: Comparison::Equal(Value::text(key.as_str())) }];
                        let plan = QueryPlan { conditions, ..QueryPlan::all(self.ctx.tenant.clone(), collection) };
                        reads.searches.push(SearchRead { plan, keys: Vec::new() });
                    }
                }
            }
        });
        Ok(records)
    }

    /// Reads the keys of records that have values in a column, and notes them.
    async fn read_keys(&self, collection: CollectionId, column: RecordColumn, values: &[Value]) -> HandlerResult<Option<Vec<Arc<[Key]>>>> {
        let column = plan_column(column);
        let Some(lists) = self.lookups.keys(collection, column, values).await? else { return Ok(None) };
        for (value, keys) in values.iter().zip(&lists).filter(|_| self.reads.is_some()) {
            let conditions = vec![Condition { column, test: Comparison::Equal(value.clone()) }];
            self.note_search(QueryPlan { conditions, ..QueryPlan::all(self.ctx.tenant.clone(), collection) }, keys);
        }
        Ok(Some(lists))
    }

    pub fn failures(&self) -> ExpressionFailures {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn has_changed_meanwhile(&self) -> bool {
        self.changed_meanwhile.load(Ordering::Relaxed)
    }

    pub fn params(&self) -> &Json {
        self.shown_params.get_or_init(|| self.params.to_json())
    }
}

impl RouteRequest<'_> {
    pub fn collection(&self, lookup: &Lookup) -> &Collection {
        self.ctx.definition(lookup.collection)
    }

    /// Returns the records of the route's own lookup, without includes.
    pub async fn first(&self, route: &LookupRoute) -> HandlerResult<FirstLookup> {
        let lookup = &route.lookup;
        let mut can_look_up = lookup.conditions.first().filter(|_| lookup.query.is_none());
        can_look_up = can_look_up.filter(|first| first.comparison == MatchKind::Equal && indexed(self.collection(lookup), first.column));
        if let Some(first) = can_look_up
            && let Some(values) = self.values(first, None)
        {
            let Some(mut groups) = self.by_values(lookup, first.column, vec![values]).await? else { return self.page_or_number(route).await };
            let records = groups.pop().unwrap_or_default();
            return Ok(FirstLookup::Records(records.into_iter().filter(|record| self.satisfies(lookup, record, None)).collect()));
        }
        let rows = self.find_rows(QueryPlan { limit: Some(MAX_FOUND as u64 + 1), ..self.plan(lookup).await? }).await?;
        if rows.len() > MAX_FOUND {
            return self.page_or_number(route).await;
        }
        Ok(FirstLookup::Records(self.found(lookup, &rows).await?))
    }

    /// Returns the requested page if there are too many records to read all, as the store cuts it, or their number.
    async fn page_or_number(&self, route: &LookupRoute) -> HandlerResult<FirstLookup> {
        let lookup = &route.lookup;
        let max_rows = route.page.and_then(|page| page.max_rows).map(|max_rows| self.params.number(max_rows));
        let mut plan = self.plan(lookup).await?;
        match self.sorted(route) {
            Some(sort) if lookup.single => {
                plan = QueryPlan { sort, limit: Some(1), ..plan };
                let rows = self.find_rows(plan).await?;
                Ok(FirstLookup::Records(self.found(lookup, &rows).await?))
            }
            Some(sort) if let Some(page) = route.page => {
                let (number, size) = (self.params.number(page.number).max(1), self.params.number(page.size));
                if size > MAX_FOUND as u64 {
                    return Err(too_many("a page of this size has"));
                }
                plan = QueryPlan { sort, offset: (number - 1).saturating_mul(size), limit: Some(size), ..plan };
                let (rows, total) = self.read_store(move |store| store.find_and_count(&plan)).await?;
                match max_rows.is_some_and(|max_rows| total > max_rows) {
                    true => Ok(FirstLookup::TooMany(total)),
                    false => Ok(FirstLookup::Page(self.found(lookup, &rows.rows).await?, total)),
                }
            }
            _ => {
                // the number of rows they would make is unknown, but it is too large
                let total = if max_rows.is_some() { self.read_store(move |store| store.count(&plan)).await? } else { 0 };
                match max_rows.is_some_and(|max_rows| total > max_rows) {
                    true => Ok(FirstLookup::TooMany(total)),
                    false => Err(too_many("the request finds")),
                }
            }
        }
    }

    /// The plan of a lookup's conditions, in key order.
    async fn plan(&self, lookup: &Lookup) -> HandlerResult<QueryPlan> {
        let conditions = lookup.conditions.iter().filter_map(|condition| self.test(condition));
        let query = lookup.query.and_then(|index| self.computed[index].get()).and_then(Value::as_text);
        let mut plan = match query {
            Some(text) => self.conditions_plan(lookup.collection, text).await?,
            None => QueryPlan::all(self.ctx.tenant.clone(), lookup.collection),
        };
        plan.conditions.extend(conditions);
        Ok(plan)
    }

    /// The plan of conditions in the query language.
    pub async fn conditions_plan(&self, collection: CollectionId, text: &str) -> HandlerResult<QueryPlan> {
        // which records satisfy conditions tells what is in them
        self.ctx.require(Operation::Read, collection)?;
        let (app, tenant, owned, visible) = (self.ctx.app.clone(), self.ctx.tenant.clone(), text.to_owned(), self.ctx.visible());
        let conditions = move |store: &dyn Store| {
            let scope = QueryScope { catalogue: &app.catalogue, store, tenant: &tenant, visible: &visible };
            compile_conditions((collection, &owned), &scope)
        };
        let compiled = self.read_store(conditions).await?;
        compiled.map_err(|problem| {
            let help = problem.help.map(|help| format!("; {help}")).unwrap_or_default();
            Problem::bad_request(format!("{}{help}", problem.message))
        })
    }

    /// The names of the tags that each of these records carries.
    pub async fn tags_of(&self, collection: CollectionId, records: &[Arc<ServedRecord>]) -> HandlerResult<Vec<Vec<String>>> {
        let (tenant, keys) = (self.ctx.tenant.clone(), records.iter().map(|record| record.stored.key.clone()).collect::<Vec<_>>());
        self.read_store(move |store| store.tags_of_records(&tenant, collection, &keys)).await
    }

    /// The order of a route's rows for the store, if the store can cut the page: each record must be one row, and the order must be the same here and
    /// in the store.
    fn sorted(&self, route: &LookupRoute) -> Option<Vec<SortKey>> {
        let lookup = &route.lookup;
        let collection = self.collection(lookup);
        if route.distinct || lookup.includes.iter().any(|(_, include)| include.required != IncludeRequirement::Optional) {
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
        lookup.sort.iter().map(sort).collect()
    }

    /// Finds keys by a plan, and notes them.
    async fn find_rows(&self, plan: QueryPlan) -> HandlerResult<Vec<Vec<Value>>> {
        let searched = plan.clone();
        let rows = self.read_store(move |store| Ok(store.find(&plan)?.rows)).await?;
        if self.reads.is_some() {
            self.note_search(searched, &keys_of(&rows));
        }
        Ok(rows)
    }

    /// Reads from the store according to this request's miss policy.
    pub async fn read_store<T: Send + 'static>(&self, read: impl FnOnce(&dyn Store) -> stook_store::Result<T> + Send + 'static) -> HandlerResult<T> {
        let app = self.ctx.app.clone();
        let read = move || {
            app.metrics.count_store_call("find");
            read(&*app.store)
        };
        match self.lookups.miss_policy() {
            MissPolicy::CacheOnly => Ok(self.lookups.miss()?),
            MissPolicy::Inline => Ok(read()?),
            MissPolicy::Batched => reading(read).await,
        }
    }

    /// Reads the records whose keys were found. A record that was changed since then may no longer satisfy the conditions.
    async fn found(&self, lookup: &Lookup, rows: &[Vec<Value>]) -> HandlerResult<Vec<Arc<ServedRecord>>> {
        let records = self.read_records(lookup.collection, &keys_of(rows)).await?;
        Ok(records.into_iter().flatten().filter(|record| self.satisfies(lookup, record, None)).collect())
    }

    /// Returns the values that a condition compares with; `None` if its parameter was not sent.
    pub fn values<'v>(&'v self, condition: &LookupCondition, parent: Option<(&'v Collection, &'v ServedRecord)>) -> Option<Cow<'v, [Value]>> {
        let (value, ty) = match (condition.operand, parent) {
            (OperandSource::Param(index), _) => (Cow::Borrowed(self.params.values[index].as_ref()?), &self.params.all[index].ty),
            (OperandSource::Computed(index), _) => (Cow::Borrowed(self.computed[index].get()?), &FieldType::Text),
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
            MatchKind::Like => Comparison::Wildcard(text(values.first()).split('*').map(str::to_owned).collect()),
            MatchKind::Below => Comparison::Range { low: None, high: values.pop().map(|value| (value, false)) },
        };
        Some(Condition { column: plan_column(condition.column), test })
    }

    fn is_equal(&self, lookup: &Lookup, column: RecordColumn, value: &Value, wanted: &Value) -> bool {
        if folds(self.collection(lookup), column) { folded(value) == folded(wanted) } else { value == wanted }
    }

    /// Whether a record satisfies all conditions.
    pub fn satisfies(&self, lookup: &Lookup, record: &ServedRecord, parent: Option<(&Collection, &ServedRecord)>) -> bool {
        let collection = self.collection(lookup);
        lookup.conditions.iter().all(|condition| {
            let Some(wanted) = self.values(condition, parent) else { return true };
            let (value, _) = value_of(collection, record, condition.column);
            let folds = folds(collection, condition.column);
            let fits = |value: &Value, wanted: &Value| match condition.comparison {
                MatchKind::Equal => value == wanted,
                MatchKind::Prefix => value.as_text().zip(wanted.as_text()).is_some_and(|(value, wanted)| value.starts_with(wanted)),
                MatchKind::Contains => value.as_text().zip(wanted.as_text()).is_some_and(|(value, wanted)| value.contains(wanted)),
                MatchKind::Like => {
                    value.as_text().zip(wanted.as_text()).is_some_and(|(value, wanted)| consists_of(value, &wanted.split('*').collect::<Vec<_>>()))
                }
                MatchKind::Below => !value.is_null() && value.compare(wanted).is_lt(),
            };
            let fits = |value: &Value, wanted: &Value| if folds { fits(&folded(value), &folded(wanted)) } else { fits(value, wanted) };
            value.elements().iter().any(|value| wanted.iter().any(|wanted| fits(value, wanted)))
        })
    }

    /// Returns for each group of values the records that have one of them in a column, each record once; `None` if there are too many.
    pub async fn by_values(
        &self,
        lookup: &Lookup,
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
                    let Some(mut lists) = self.read_keys(lookup.collection, column, values).await? else { return Ok(None) };
                    lists.pop().unwrap_or_default()
                }
            };
            let records = if keys.is_empty() { Vec::new() } else { self.read_records(lookup.collection, &keys).await? };
            return Ok(Some(vec![records.into_iter().flatten().collect()]));
        }
        let mut value_indexes: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut distinct: Vec<Value> = Vec::new();
        let indexes: Vec<Vec<usize>> = groups
            .iter()
            .map(|values| {
                let index_of = |value: &Value| {
                    *value_indexes.entry(packed(value)).or_insert_with(|| {
                        distinct.push(value.clone());
                        distinct.len() - 1
                    })
                };
                let mut all: Vec<usize> = values.iter().map(index_of).collect();
                let mut seen = std::collections::HashSet::new();
                all.retain(|index| seen.insert(*index));
                all
            })
            .collect();
        let lists: Vec<Arc<[Key]>> = match column {
            RecordColumn::Key => distinct.iter().map(|value| key_of(value).into_iter().collect()).collect(),
            _ if distinct.is_empty() => Vec::new(),
            _ => {
                let Some(lists) = self.read_keys(lookup.collection, column, &distinct).await? else { return Ok(None) };
                lists
            }
        };
        let mut keys: Vec<Key> = Vec::new();
        let mut record_indexes: HashMap<Key, usize> = HashMap::new();
        for key in lists.iter().flat_map(|list| list.iter()) {
            record_indexes.entry(key.clone()).or_insert_with(|| {
                keys.push(key.clone());
                keys.len() - 1
            });
        }
        let records = if keys.is_empty() { Vec::new() } else { self.read_records(lookup.collection, &keys).await? };
        let has = |record: &ServedRecord, value: &Value| {
            let record_value = value_of(self.collection(lookup), record, column).0;
            record_value.elements().iter().any(|element| self.is_equal(lookup, column, element, value))
        };
        let is_outdated = |(list, value): (&Arc<[Key]>, &Value)| {
            list.iter().filter_map(|key| records[record_indexes[key]].as_ref()).any(|record| !has(record, value))
        };
        if groups.len() > 1 && column != RecordColumn::Key && lists.iter().zip(&distinct).any(is_outdated) {
            self.changed_meanwhile.store(true, Ordering::Relaxed);
        }
        // a record that has several of the values, or is found by several spellings of one, is listed once
        let records_of_lists = |list_indexes: &Vec<usize>| -> Vec<Arc<ServedRecord>> {
            let mut seen = std::collections::HashSet::new();
            let all = list_indexes.iter().flat_map(|list| lists[*list].iter()).map(|key| record_indexes[key]);
            all.filter(|index| list_indexes.len() == 1 || seen.insert(*index)).filter_map(|index| records[index].clone()).collect()
        };
        Ok(Some(indexes.iter().map(records_of_lists).collect()))
    }
}

fn keys_of(rows: &[Vec<Value>]) -> Vec<Key> {
    rows.iter().filter_map(|row| Key::new(row.first()?.as_text()?).ok()).collect()
}
