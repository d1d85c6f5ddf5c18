//! Declared routes: look-ups with includes, in bulk, and transitions, under the paths and with the errors that are declared.
//!
//! A look-up takes its records by key, or by the values of an indexed field; each include is looked up once for all records it
//! is for. Nothing of an answer is kept: records and lists of keys are, by the cache.

use crate::App;
use crate::asks;
use crate::problem::{HandlerResult, Problem};
use crate::reads::{MOST_FOUND, MissPolicy, RequestLookups, ServedRecord, packed};
use crate::records::{blocking, json_answer, reading};
use crate::request::{JSON, RequestContext};
use crate::shown::JsonFragment;
use crate::transitions;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use futures_util::FutureExt;
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stook_catalogue::definition::{Catalogue, Collection};
use stook_catalogue::expr::{ExpressionFailures, json_to_cel, to_cel};
use stook_catalogue::fold::fold;
use stook_catalogue::key::Key;
use stook_catalogue::route::{
    IncludeRequirement, Lookup, LookupCondition, LookupPart, LookupRoute, MatchKind, Method, OperandSource, Param, ParamLocation, Projection,
    RecordColumn, Route, RouteAction,
};
use stook_catalogue::survivorship::members_of;
use stook_catalogue::value::{FieldType, Value, from_text};
use stook_engine::transition;
use stook_store::Store;
use stook_store::access::Role;
use stook_store::plan::{Comparison, Condition, PlanColumn, QueryPlan, SortKey};

/// How often a parameter may be repeated: so that it fits into a request's head.
pub const MOST_REPEATED: usize = 500;

/// The header that says of an answer which expressions have failed: the body has the form that the catalogue declares.
const WARNING: HeaderName = HeaderName::from_static("stook-warning");

/// Most failures that an answer says, because servers in between limit the size of a head.
const MOST_WARNINGS: usize = 5;

/// The routes of a catalogue.
pub fn router(catalogue: &Catalogue) -> Router<Arc<App>> {
    let mut router = Router::new();
    for (index, route) in catalogue.routes.iter().enumerate() {
        let filter = match route.method {
            Method::Get => MethodFilter::GET,
            Method::Post => MethodFilter::POST,
            Method::Put => MethodFilter::PUT,
            Method::Patch => MethodFilter::PATCH,
            Method::Delete => MethodFilter::DELETE,
        };
        router = router.route(
            &route.path,
            on(filter, move |State(app): State<Arc<App>>, ctx: Result<RequestContext, Problem>, body: Body| serve(app, ctx, body, index)),
        );
    }
    router
}

async fn serve(app: Arc<App>, ctx: Result<RequestContext, Problem>, body: Body, index: usize) -> Response {
    let answered = match ctx {
        Ok(ctx) => run(ctx, body, index).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(|problem| as_declared(&app.catalogue, problem))
}

/// A problem in the form that the catalogue declares.
fn as_declared(catalogue: &Catalogue, problem: Problem) -> Response {
    let Some(member) = &catalogue.error_member else { return problem.into_response() };
    let said = match problem.errors.as_slice() {
        [] | [_] => json!(problem.detail),
        several => json!(several),
    };
    let status = problem.status;
    let mut response = problem.into_response();
    let retry = response.headers_mut().remove(header::RETRY_AFTER);
    let mut declared = json_answer(status, json!({ member.as_str(): said }).to_string());
    if let Some(retry) = retry {
        declared.headers_mut().insert(header::RETRY_AFTER, retry);
    }
    declared
}

async fn run(mut ctx: RequestContext, body: Body, index: usize) -> HandlerResult {
    let app = ctx.app.clone();
    let route = &app.catalogue.routes[index];
    let values = parameters(&mut ctx, &route.params, body).await?;
    let given = RouteParams { all: &route.params, values };
    match &route.action {
        RouteAction::Lookup(find) => {
            ctx.reaches_store();
            let found = look_up(ctx, find, given, index).await?;
            let missing = || Problem::missing(route.missing.clone().unwrap_or_else(|| "there is no such record".into()));
            let RouteResponse { text, failures } = found.ok_or_else(missing)?;
            let mut answer = json_answer(StatusCode::OK, text);
            let first = failures.first.iter().take(MOST_WARNINGS).map(|failure| failure.escape_default().to_string());
            let more = (failures.truncated || failures.first.len() > MOST_WARNINGS).then(|| "more expressions fail".to_owned());
            for warning in first.chain(more).filter_map(|warning| HeaderValue::from_str(&warning).ok()) {
                answer.headers_mut().append(WARNING, warning);
            }
            Ok(answer)
        }
        RouteAction::Transition { .. } => change(ctx, route, &given).await,
        RouteAction::Query(ask) => asks::answer(ctx, ask, &given).await,
    }
}

/// How often look-ups are done anew because records were changed while they were looked up.
const ATTEMPTS: usize = 10;

fn restless() -> Problem {
    Problem::busy("the records are being changed too quickly to be read consistently; try again")
}

/// What a look-up answers.
struct RouteResponse {
    /// As JSON.
    text: String,
    /// What is null because its expression has failed.
    failures: ExpressionFailures,
}

/// Does a route's look-ups where that costs least.
async fn look_up(ctx: RequestContext, find: &LookupRoute, given: RouteParams<'_>, index: usize) -> HandlerResult<Option<RouteResponse>> {
    let looked =
        |desk: &RouteRequest<'_>, found: Option<JsonFragment<'_>>| found.map(|shown| RouteResponse { text: shown.text(), failures: desk.failures() });
    if !ctx.app.reads.are_near() {
        for _ in 0..ATTEMPTS {
            let looking = ctx.app.reads.begin(&ctx.tenant, MissPolicy::Batched).await?;
            let desk = RouteRequest::new(&ctx, &given, looking);
            let found = answer(&desk, find).await.map(|found| looked(&desk, found));
            if !desk.has_moved() {
                return found;
            }
        }
        return Err(restless());
    }
    let cached = {
        let looking = ctx.app.reads.begin(&ctx.tenant, MissPolicy::CacheOnly).await?;
        let desk = RouteRequest::new(&ctx, &given, looking);
        let found = answer(&desk, find).await.map(|found| looked(&desk, found));
        (!desk.looking.has_missed() && !desk.has_moved()).then_some(found)
    };
    if let Some(found) = cached {
        return found;
    }
    let place = ctx.app.lookers.clone().acquire_owned().await.map_err(|error| Problem::busy(error.to_string()))?;
    let values = given.values;
    reading(move || {
        let _place = place;
        let app = ctx.app.clone();
        let route = &app.catalogue.routes[index];
        let RouteAction::Lookup(find) = &route.action else { return Ok(None) };
        let given = RouteParams { all: &route.params, values };
        for _ in 0..ATTEMPTS {
            let looking = ctx.app.reads.begin_directly(&ctx.tenant)?;
            let desk = RouteRequest::new(&ctx, &given, looking);
            // every look-up of this way is done when it is asked for
            let ended = answer(&desk, find).now_or_never();
            if !desk.has_moved() {
                return ended.unwrap_or_else(|| Err(Problem::busy("a lookup did not finish"))).map(|found| looked(&desk, found));
            }
        }
        Err(restless())
    })
    .await
}

async fn change(ctx: RequestContext, route: &Route, given: &RouteParams<'_>) -> HandlerResult {
    ctx.caller.need(Role::Write)?;
    let RouteAction::Transition { collection, transition, key, args } = &route.action else {
        return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the route changes nothing"));
    };
    let missing = || Problem::missing(route.missing.clone().unwrap_or_else(|| "there is no such record".into()));
    let text = key.fill(|name| {
        let index = given.all.iter().position(|param| param.name == name)?;
        given.values[index].as_ref().map(|value| Cow::Owned(value.show(&given.all[index].ty)))
    });
    let key = text.and_then(|text| Key::new(text).ok()).ok_or_else(missing)?;
    let sent: Map<String, Json> =
        args.iter().filter_map(|(name, param)| Some((name.clone(), given.values[*param].as_ref()?.to_json(&given.all[*param].ty)))).collect();
    let name = &ctx.definition(*collection).transitions[*transition].name;
    let call = transitions::call_of(&ctx, &route.path, &format!("{}\n{}", key.as_str(), Json::Object(sent.clone())))?;
    let ask = transitions::prepare(&ctx, *collection, name, &sent, call)?;
    ctx.reaches_store();
    let app = ctx.app.clone();
    let ended = blocking(move || transition::run(&app.catalogue, &*app.store, &app.evaluator(), &ask, &key)).await?;
    let done = transitions::answer(ended)?.ok_or_else(missing)?;
    Ok(json_answer(StatusCode::OK, done.to_string()))
}

/// Parameters as they were sent.
pub(crate) struct RouteParams<'p> {
    all: &'p [Param],
    values: Vec<Option<Value>>,
}

impl RouteParams<'_> {
    pub(crate) fn text(&self, index: usize) -> &str {
        self.values[index].as_ref().and_then(Value::as_text).unwrap_or_default()
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        self.values[index].as_ref().and_then(Value::as_int).map_or(0, |number| number.max(0) as u64)
    }

    fn to_json(&self) -> Json {
        let shown =
            |(param, value): (&Param, &Option<Value>)| (param.name.clone(), value.as_ref().map_or(Json::Null, |value| value.to_json(&param.ty)));
        Json::Object(self.all.iter().zip(&self.values).map(shown).collect())
    }
}

async fn parameters(ctx: &mut RequestContext, params: &[Param], body: Body) -> HandlerResult<Vec<Option<Value>>> {
    let has_body = params.iter().any(|param| param.place == ParamLocation::Body);
    let mut texts: Vec<Vec<String>> = Vec::with_capacity(params.len());
    for param in params {
        texts.push(match param.place {
            ParamLocation::Path => vec![ctx.segment(&param.name).to_owned()],
            ParamLocation::Query => ctx.params.all_named(&param.name),
            ParamLocation::Body => Vec::new(),
        });
    }
    ctx.params.end()?;
    let mut sent = if has_body { ctx.object(body, JSON).await.map_err(plain)? } else { Map::new() };
    let mut problems = Vec::new();
    let mut values = Vec::with_capacity(params.len());
    for (param, texts) in params.iter().zip(texts) {
        let value = match param.place {
            ParamLocation::Body => match sent.remove(&param.name) {
                None | Some(Json::Null) => Ok(None),
                Some(json) => transition::strict_from_json(&json, &param.ty).map(Some),
            },
            _ => of_texts(param, &texts),
        };
        match value.and_then(|value| checked(param, value)) {
            Ok(value) => values.push(value),
            Err(problem) => problems.push(problem),
        }
    }
    if let Some(name) = sent.keys().next() {
        problems.push(format!("There is no parameter {name}."));
    }
    if problems.is_empty() { Ok(values) } else { Err(plain(Problem::wrong(problems))) }
}

/// What is wrong with a request to a declared route is 400.
fn plain(mut problem: Problem) -> Problem {
    if problem.status == StatusCode::UNPROCESSABLE_ENTITY {
        problem.status = StatusCode::BAD_REQUEST;
    }
    problem
}

fn of_texts(param: &Param, texts: &[String]) -> Result<Option<Value>, String> {
    let element = param.ty.element();
    let one = |text: &String| {
        let strict = match element {
            FieldType::Boolean => matches!(text.as_str(), "true" | "false"),
            FieldType::Text => !text.contains('\0'),
            _ => text.trim() == text,
        };
        let value = from_text(text, element, None).ok().filter(|_| strict);
        value.ok_or_else(|| format!("'{text}' is not a valid {} format for property '{}'", element.to_string().to_uppercase(), param.name))
    };
    match texts {
        [] => Ok(None),
        all if param.ty.is_list() => all.iter().map(one).collect::<Result<_, _>>().map(|values| Some(Value::List(values))),
        [only] => one(only).map(Some),
        _ => Err(format!("The parameter {} is given {} times.", param.name, texts.len())),
    }
}

fn checked(param: &Param, value: Option<Value>) -> Result<Option<Value>, String> {
    let Some(value) = value.filter(|value| !value.is_null() && value != &Value::List(Vec::new())) else {
        return match (&param.default, &param.required) {
            (Some(default), _) => Ok(Some(default.clone())),
            (None, Some(sentence)) => Err(sentence.clone()),
            (None, None) => Ok(None),
        };
    };
    for element in value.elements() {
        if element.as_number().is_some_and(|number| param.min.is_some_and(|min| number < min) || param.max.is_some_and(|max| number > max)) {
            return Err(format!("The parameter {} is out of range.", param.name));
        }
        if !param.one_of.is_empty() && !param.one_of.contains(element) {
            let choices: Vec<String> = param.one_of.iter().map(|choice| choice.show(&param.ty)).collect();
            return Err(format!("The parameter {} must be one of {}.", param.name, choices.join(", ")));
        }
    }
    if let (Value::List(items), true) = (&value, param.ty.is_list())
        && items.len() > MOST_REPEATED
    {
        return Err(format!("The parameter {} can be given at most {MOST_REPEATED} times.", param.name));
    }
    Ok(Some(value))
}

/// The answer of a look-up; nothing where its one record is missing.
async fn answer<'l>(desk: &RouteRequest<'_>, find: &'l LookupRoute) -> HandlerResult<Option<JsonFragment<'l>>> {
    let given = desk.params;
    let look = &find.lookup;
    let most = find.page.and_then(|page| page.max_rows).map(|most| given.number(most));
    let (records, counted) = match desk.first(find).await? {
        FirstLookup::Records(records) => (records, None),
        FirstLookup::Page(records, total) => (records, Some(total)),
        FirstLookup::TooMany(total) => return Ok(Some(composed(find, JsonFragment::Array([].into()), total))),
    };
    let mut rows = desk.finish(look, vec![records]).await?.pop().unwrap_or_default();
    if let Some(total) = counted {
        return Ok(Some(composed(find, JsonFragment::Array(rows.into()), total)));
    }
    if look.single {
        return Ok(rows.pop().map(|row| composed(find, row, 1)));
    }
    if find.distinct {
        let mut seen = std::collections::HashSet::new();
        rows.retain(|row| seen.insert(row.text()));
    }
    let total = rows.len() as u64;
    if most.is_some_and(|most| total > most) {
        rows.clear();
    }
    if let Some(page) = find.page {
        let (number, size) = (given.number(page.number).max(1), given.number(page.size));
        let from = (number - 1).saturating_mul(size).min(rows.len() as u64) as usize;
        let until = from.saturating_add(size as usize).min(rows.len());
        rows = rows.drain(from..until).collect();
    }
    Ok(Some(composed(find, JsonFragment::Array(rows.into()), total)))
}

fn composed<'l>(find: &'l LookupRoute, rows: JsonFragment<'l>, total: u64) -> JsonFragment<'l> {
    if find.answer.is_empty() {
        return rows;
    }
    let member = |(name, part): &'l (String, LookupPart)| {
        let value = match part {
            LookupPart::Rows => rows.clone(),
            LookupPart::Total => JsonFragment::Json(total.into()),
        };
        (name.as_str(), value)
    };
    JsonFragment::Object(find.answer.iter().map(member).collect())
}

/// What the first look-up finds.
enum FirstLookup {
    /// All records.
    Records(Vec<Arc<ServedRecord>>),
    /// Those of the page that is asked for, and how many there are.
    Page(Vec<Arc<ServedRecord>>, u64),
    /// So many that none are answered.
    TooMany(u64),
}

/// More records than one answer is made of.
fn too_many(what: &str) -> Problem {
    Problem::bad(format!("{what} more than {MOST_FOUND} records, the limit of one response; narrow the request"))
}

/// One request's look-ups.
struct RouteRequest<'d> {
    ctx: &'d RequestContext,
    params: &'d RouteParams<'d>,
    looking: RequestLookups<'d>,
    shown_params: OnceLock<Json>,
    /// Whether a record was changed between its being found for one of several and its being read: it may belong to another of them now,
    /// which was not told.
    changed_meanwhile: AtomicBool,
    /// What has failed of the route's expressions.
    failed: Mutex<ExpressionFailures>,
}

type LookupFuture<'f, T> = Pin<Box<dyn Future<Output = HandlerResult<T>> + Send + 'f>>;

impl<'d> RouteRequest<'d> {
    fn new(ctx: &'d RequestContext, given: &'d RouteParams<'d>, looking: RequestLookups<'d>) -> Self {
        Self { ctx, params: given, looking, shown_params: OnceLock::new(), changed_meanwhile: AtomicBool::new(false), failed: Mutex::default() }
    }

    fn failures(&self) -> ExpressionFailures {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_moved(&self) -> bool {
        self.changed_meanwhile.load(Ordering::Relaxed)
    }

    fn params(&self) -> &Json {
        self.shown_params.get_or_init(|| self.params.to_json())
    }
}

impl RouteRequest<'_> {
    fn collection(&self, look: &Lookup) -> &Collection {
        self.ctx.definition(look.collection)
    }

    /// The records of the route's own look-up, before includes.
    async fn first(&self, find: &LookupRoute) -> HandlerResult<FirstLookup> {
        let look = &find.lookup;
        if let Some(first) =
            look.conditions.first().filter(|first| first.comparison == MatchKind::Equal && indexed(self.collection(look), first.column))
            && let Some(values) = self.values(first, None)
        {
            let Some(mut groups) = self.by_values(look, first.column, vec![values]).await? else { return self.of_many(find).await };
            let records = groups.pop().unwrap_or_default();
            return Ok(FirstLookup::Records(records.into_iter().filter(|record| self.holds(look, record, None)).collect()));
        }
        let plan = QueryPlan { limit: Some(MOST_FOUND as u64 + 1), ..self.plan(look) };
        let rows = self.asked(move |store| Ok(store.find(&plan)?.rows)).await?;
        if rows.len() > MOST_FOUND {
            return self.of_many(find).await;
        }
        Ok(FirstLookup::Records(self.found(look, &rows).await?))
    }

    /// The page that is asked for of more records than are looked at, as the store cuts it, or their number.
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
                if size > MOST_FOUND as u64 {
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
                // how many rows they would make is not known, but that they are too many to be answered
                let total = if most.is_some() { self.asked(move |store| store.count(&plan)).await? } else { 0 };
                match most.is_some_and(|most| total > most) {
                    true => Ok(FirstLookup::TooMany(total)),
                    false => Err(too_many("the request finds")),
                }
            }
        }
    }

    /// What satisfies a look-up's conditions: keys, in their order.
    fn plan(&self, look: &Lookup) -> QueryPlan {
        let conditions = look.conditions.iter().filter_map(|condition| self.test(condition)).collect();
        QueryPlan { conditions, ..QueryPlan::all(self.ctx.tenant.clone(), look.collection) }
    }

    /// The order of a route's rows as a store's, where that can cut its page: each record is one row, and both mean the same order.
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

    /// Asks the store, in the way of this request.
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

    /// The records whose keys were found. What was changed since then may not satisfy the conditions any more.
    async fn found(&self, look: &Lookup, rows: &[Vec<Value>]) -> HandlerResult<Vec<Arc<ServedRecord>>> {
        let keys: Vec<Key> = rows.iter().filter_map(|row| Key::new(row.first()?.as_text()?).ok()).collect();
        let records = self.looking.records(look.collection, &keys).await?;
        Ok(records.into_iter().flatten().filter(|record| self.holds(look, record, None)).collect())
    }

    /// Values that a condition compares with; nothing when it is none.
    fn values<'v>(&'v self, condition: &LookupCondition, parent: Option<(&'v Collection, &'v ServedRecord)>) -> Option<Cow<'v, [Value]>> {
        let (value, ty) = match (condition.operand, parent) {
            (OperandSource::Param(index), _) => (Cow::Borrowed(self.params.values[index].as_ref()?), &self.params.all[index].ty),
            (OperandSource::Parent(column), Some((collection, record))) => value_of(collection, record, column),
            (OperandSource::Parent(_), None) => return None,
        };
        // keys are texts
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
    fn holds(&self, look: &Lookup, record: &ServedRecord, parent: Option<(&Collection, &ServedRecord)>) -> bool {
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

    /// Records by the values of a column, for several groups of values at once, each once in a group; nothing where they are too many.
    async fn by_values(
        &self,
        look: &Lookup,
        column: RecordColumn,
        groups: Vec<Cow<'_, [Value]>>,
    ) -> HandlerResult<Option<Vec<Vec<Arc<ServedRecord>>>>> {
        let key_of = |value: &Value| value.as_text().and_then(|text| Key::new(text).ok());
        // most often one record is looked for, or what belongs to one
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
        // a record that has several of the values, or is found by several spellings of one, is one record
        let of_lists = |own: &Vec<usize>| -> Vec<Arc<ServedRecord>> {
            let mut seen = std::collections::HashSet::new();
            let all = own.iter().flat_map(|list| lists[*list].iter()).map(|key| at[key]);
            all.filter(|place| own.len() == 1 || seen.insert(*place)).filter_map(|place| records[place].clone()).collect()
        };
        Ok(Some(indexes.iter().map(of_lists).collect()))
    }

    /// What an include finds for each parent.
    fn include<'f, 'l: 'f>(
        &'f self,
        look: &'l Lookup,
        parent: &'f Collection,
        parents: &'f [Arc<ServedRecord>],
    ) -> LookupFuture<'f, Vec<JsonFragment<'l>>> {
        Box::pin(async move {
            let Some(first) = look.conditions.first() else { return Ok(vec![JsonFragment::NULL; parents.len()]) };
            let values = parents.iter().map(|record| self.values(first, Some((parent, record))).unwrap_or_default()).collect();
            let found = self.by_values(look, first.column, values).await?;
            let mut groups = found.ok_or_else(|| too_many(&format!("what is included of `{}` is", self.collection(look).name)))?;
            for (records, own) in groups.iter_mut().zip(parents) {
                records.retain(|record| self.holds(look, record, Some((parent, own))));
            }
            let rows = self.finish(look, groups).await?;
            let shown = |mut rows: Vec<JsonFragment<'l>>| {
                if look.single { rows.pop().unwrap_or(JsonFragment::NULL) } else { JsonFragment::Array(rows.into()) }
            };
            Ok(rows.into_iter().map(shown).collect())
        })
    }

    /// Includes, order and projection of groups of records: the rows of each group, one at most where one is looked for.
    fn finish<'f, 'l: 'f>(&'f self, look: &'l Lookup, groups: Vec<Vec<Arc<ServedRecord>>>) -> LookupFuture<'f, Vec<Vec<JsonFragment<'l>>>> {
        Box::pin(async move {
            let collection = self.collection(look);
            let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
            let all: Vec<Arc<ServedRecord>> = groups.into_iter().flatten().collect();
            let mut kept = vec![true; all.len()];
            let mut included: Vec<Vec<JsonFragment<'l>>> = Vec::with_capacity(look.includes.len());
            for (_, include) in &look.includes {
                let found = self.include(include, collection, &all).await?;
                for (kept, found) in kept.iter_mut().zip(&found) {
                    match &include.required {
                        IncludeRequirement::Optional => {}
                        _ if !found.is_nothing() => {}
                        IncludeRequirement::DropRecord => *kept = false,
                        IncludeRequirement::Refuse(status, sentence) => {
                            return Err(Problem::new(StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_REQUEST), sentence.clone()));
                        }
                    }
                }
                included.push(found);
            }
            let mut answers = Vec::with_capacity(sizes.len());
            let mut from = 0;
            for size in sizes {
                let mut rows: Vec<usize> = (from..from + size).filter(|row| kept[*row]).collect();
                from += size;
                if !look.sort.is_empty() {
                    rows.sort_by(|a, b| self.order(look, &all[*a], &all[*b]));
                }
                rows.truncate(if look.single { 1 } else { rows.len() });
                answers.push(rows.into_iter().map(|row| self.show(look, &all[row], &included, row)).collect());
            }
            Ok(answers)
        })
    }

    fn order(&self, look: &Lookup, a: &ServedRecord, b: &ServedRecord) -> std::cmp::Ordering {
        let collection = self.collection(look);
        for (column, descending) in &look.sort {
            let order = value_of(collection, a, *column).0.compare(&value_of(collection, b, *column).0);
            let order = if *descending { order.reverse() } else { order };
            if order.is_ne() {
                return order;
            }
        }
        a.stored.key.cmp(&b.stored.key)
    }

    fn show<'l>(&self, look: &'l Lookup, record: &ServedRecord, included: &[Vec<JsonFragment<'l>>], row: usize) -> JsonFragment<'l> {
        let collection = self.collection(look);
        let include = |name: &str| look.includes.iter().position(|(known, _)| known == name).map(|index| &included[index][row]);
        if look.projection.is_empty() {
            let mut whole = record.to_json(collection);
            if let Json::Object(members) = &mut whole {
                members.extend(look.includes.iter().enumerate().map(|(index, (name, _))| (name.clone(), included[index][row].json())));
            }
            return JsonFragment::Json(whole);
        }
        let named = |name: &str| -> JsonFragment<'l> {
            match include(name) {
                Some(found) => found.clone(),
                None if name == "params" => JsonFragment::Json(self.params().clone()),
                None => column_named(collection, name).map_or(JsonFragment::NULL, |column| shown(collection, record, column)),
            }
        };
        let evaluator = self.ctx.app.evaluator();
        let leaf = |name: &str, leaf: &Projection| match leaf {
            Projection::Text(text) => JsonFragment::Json(text.as_str().into()),
            Projection::Path(path) => path.split_first().map_or(JsonFragment::NULL, |(first, rest)| named(first).inside(rest)),
            Projection::Expression(expression) => {
                let variable = |name: &str| match include(name) {
                    Some(found) => json_to_cel(&found.json()),
                    None if name == "params" => json_to_cel(self.params()),
                    None => column_named(collection, name).map_or(cel_null(), |column| {
                        let (value, ty) = value_of(collection, record, column);
                        to_cel(&value, ty)
                    }),
                };
                let value = evaluator.value(expression, &FieldType::Json, &variable).unwrap_or_else(|error| {
                    evaluator.note(&format!("`{name}`"), expression, &error);
                    Value::Null
                });
                JsonFragment::Json(value.to_json(&FieldType::Json))
            }
        };
        let shown = JsonFragment::Object(look.projection.iter().map(|(name, value)| (name.as_str(), leaf(name, value))).collect());
        let failures = evaluator.failures();
        if !failures.is_empty() {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).add(&collection.name, record.stored.key.as_str(), failures);
        }
        shown
    }
}

fn cel_null() -> stook_catalogue::expr::CelValue {
    json_to_cel(&Json::Null)
}

fn column_named(collection: &Collection, name: &str) -> Option<RecordColumn> {
    if name == "key" {
        return Some(RecordColumn::Key);
    }
    let field = collection.field(name).map(|(index, _)| RecordColumn::Field(index));
    field.or_else(|| collection.state(name).map(|(index, _)| RecordColumn::State(index)))
}

/// A value of a record; of type json it is shown as the record keeps it.
fn shown<'l>(collection: &Collection, record: &ServedRecord, column: RecordColumn) -> JsonFragment<'l> {
    if let RecordColumn::Field(index) = column
        && collection.fields[index].golden_type() == &FieldType::Json
        && let Some(text) = record.text(index)
    {
        return JsonFragment::Text(text.into());
    }
    let (value, ty) = value_of(collection, record, column);
    JsonFragment::Json(value.to_json(ty))
}

fn value_of<'r>(collection: &'r Collection, record: &'r ServedRecord, column: RecordColumn) -> (Cow<'r, Value>, &'r FieldType) {
    match column {
        RecordColumn::Key => (Cow::Owned(Value::text(record.stored.key.as_str())), &FieldType::Text),
        RecordColumn::Field(index) => {
            let value =
                collection.member(index).map_or_else(|| record.field(index), |(list, member)| Cow::Owned(members_of(&record.field(list), member)));
            (value, collection.fields[index].golden_type())
        }
        RecordColumn::State(index) => (Cow::Borrowed(&record.stored.state[index]), &collection.states[index].ty),
    }
}

fn indexed(collection: &Collection, column: RecordColumn) -> bool {
    match column {
        RecordColumn::Key => true,
        RecordColumn::Field(index) => collection.fields[index].index.ordered,
        RecordColumn::State(index) => collection.states[index].index.ordered,
    }
}

/// Whether texts of a column are compared without regard to case, width and white space.
fn folds(collection: &Collection, column: RecordColumn) -> bool {
    matches!(column, RecordColumn::Field(index) if collection.fields[index].fold)
}

/// A value as such a column compares it.
fn form(value: &Value) -> Value {
    match value {
        Value::Text(text) => Value::text(fold(text)),
        other => other.clone(),
    }
}

/// Whether values are in one order here and in a store.
fn has_order(ty: &FieldType) -> bool {
    !ty.is_list() && !matches!(ty, FieldType::Json | FieldType::Ranges)
}

fn plan_column(column: RecordColumn) -> PlanColumn {
    match column {
        RecordColumn::Key => PlanColumn::Key,
        RecordColumn::Field(index) => PlanColumn::Field(index),
        RecordColumn::State(index) => PlanColumn::State(index),
    }
}
