//! Routes in steps that write: everything is written in one transaction, if what was found is still so then; otherwise all steps are done again.

use super::alone::{self, DoneAlone};
use super::lookup::{ATTEMPTS, RouteResponse, changing_too_quickly};
use super::parameters::RouteParams;
use super::records::RouteRequest;
use super::steps::{Found, cannot_compute, find_all, json_value};
use crate::api::transitions;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use futures_util::FutureExt;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use stook_catalogue::eval::{CelValue, Evaluator, Expression, ExpressionFailures, json_to_cel};
use stook_catalogue::ids::FieldId;
use stook_catalogue::key::Key;
use stook_catalogue::route::{FoundBy, MAX_WRITES, ResponseMedia, Route, RouteAction, RouteWrite, StepsRoute, WriteAction};
use stook_catalogue::value::{FieldType, Value};
use stook_engine::edit::{Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::several::{self, Change, ChangeSet, ChangeSetResult, KeptAnswer, RefusedChange};
use stook_engine::transition::{TransitionRequest, TransitionResult};
use stook_store::IdempotentCall;
use stook_store::erasure::ERASED;

/// Runs a route that writes. `call` is its idempotent call, if it has an idempotency key.
pub async fn write(ctx: RequestContext, values: Vec<Option<Value>>, index: usize, call: Option<IdempotentCall>) -> HandlerResult<RouteResponse> {
    // without one of the permits for lookups: most of its time it waits for the commit, which several requests then share
    blocking(move || {
        let app = ctx.app.clone();
        let route = &app.catalogue.routes[index];
        let RouteAction::Steps(steps) = &route.action else { return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the route has no steps")) };
        WritingRoute { ctx: &ctx, route, steps, params: RouteParams { all: &route.params, values }, call }.run()
    })
    .await
}

/// A request of a route that writes.
struct WritingRoute<'r> {
    ctx: &'r RequestContext,
    route: &'r Route,
    steps: &'r StepsRoute,
    params: RouteParams<'r>,
    call: Option<IdempotentCall>,
}

impl<'r> WritingRoute<'r> {
    fn run(&self) -> HandlerResult<RouteResponse> {
        let Self { ctx, steps, .. } = *self;
        let app = &ctx.app;
        for _ in 0..ATTEMPTS {
            let request = self.request()?.noting_reads();
            let decided = now(find_all(&request, steps, false)).and_then(|found| self.decided(&request, found));
            let Decided { found, changes: planned, response } = match decided {
                Ok(decided) => decided,
                // a request with a known idempotency key gets its former answer, even if it would be refused now
                Err(problem) => {
                    return match several::former_answer(&*app.store, &ctx.tenant, self.call.as_ref())? {
                        Some(ChangeSetResult::Replayed { same, answer }) => self.repeated(same, &answer),
                        _ => Err(problem),
                    };
                }
            };
            if request.has_changed_meanwhile() {
                continue;
            }
            if let Some(write) = steps.writes.first().filter(|write| write.stands_alone()) {
                let step = WriteStep { request: &request, write, evaluator: &app.evaluator(), scope: &|name: &str| found.variable(&request, name) };
                return match alone::run(&step, self.call.clone())? {
                    DoneAlone::Written(written) => self.answered(found, &written),
                    DoneAlone::Repeated { same, answer } => self.repeated(same, &answer),
                };
            }
            let (positions, changes): (Vec<usize>, Vec<Change>) = planned.into_iter().unzip();
            let answer = response.as_ref().map_or(KeptAnswer::Keys, |response| KeptAnswer::Answer(kept_answer(response)));
            let set = ChangeSet { tenant: ctx.tenant.clone(), changes, premises: request.premises(), call: self.call.clone(), answer };
            match several::run(&app.rules, &*app.store, &app.evaluator(), set)? {
                ChangeSetResult::Done(done) => {
                    let keys: Vec<&str> = done.keys.iter().map(Key::as_str).collect();
                    let mut response = response.map_or_else(|| self.answered(found, &written(&json!(keys))), Ok)?;
                    response.failures.include(done.warnings);
                    return Ok(response);
                }
                ChangeSetResult::Outdated => {}
                ChangeSetResult::Replayed { same, answer } => return self.repeated(same, &answer),
                ChangeSetResult::Refused(position, reason) => return Err(refused(ctx, &steps.writes[positions[position]], reason)),
            }
        }
        Err(changing_too_quickly())
    }

    /// A request that reads what is committed now. No lookup of it waits.
    fn request(&self) -> HandlerResult<RouteRequest<'_>> {
        let lookups = self.ctx.app.reads.begin_directly(&self.ctx.tenant)?;
        Ok(RouteRequest::new(self.ctx, &self.params, lookups).of(self.route))
    }

    /// What the route does, by what it has found.
    fn decided(&self, request: &RouteRequest<'_>, found: Found<'r>) -> HandlerResult<Decided<'r>> {
        if self.steps.writes.iter().any(RouteWrite::stands_alone) {
            return Ok(Decided { found, changes: Vec::new(), response: None });
        }
        let changes = changes(request, self.steps, &found)?;
        let response = (!self.steps.is_answered_after_write).then(|| found.response(request, &self.steps.response));
        Ok(Decided { found, changes, response })
    }

    /// The response after the write, by what is committed then.
    fn answered(&self, found: Found<'r>, written: &Json) -> HandlerResult<RouteResponse> {
        for _ in 0..ATTEMPTS {
            let request = self.request()?;
            let mut found = found.clone();
            now(found.find_after_write(&request, self.steps, written.clone()))?;
            if !request.has_changed_meanwhile() {
                return Ok(found.response(&request, &self.steps.response));
            }
        }
        Err(changing_too_quickly())
    }

    /// The response to a repeated request: the former one, or one that is made again of the keys that were written.
    fn repeated(&self, same: bool, answer: &[u8]) -> HandlerResult<RouteResponse> {
        let kept: Json = serde_json::from_slice(answer).unwrap_or_default();
        let status = kept[0].as_u64().and_then(|status| StatusCode::from_u16(status as u16).ok());
        match (status, kept[2].as_str()) {
            _ if !same => Err(transitions::used_before()),
            (Some(status), Some(text)) => Ok(RouteResponse {
                status,
                media: if kept[1] == true { ResponseMedia::Text } else { ResponseMedia::Json },
                text: text.to_owned(),
                failures: ExpressionFailures::default(),
            }),
            _ => {
                let keys = if kept["keys"].is_array() { kept["keys"].clone() } else { json!([kept["key"]]) };
                let found = now(find_all(&self.request()?, self.steps, true))?;
                self.answered(found, &written(&keys))
            }
        }
    }
}

/// What a route has decided to do.
struct Decided<'r> {
    found: Found<'r>,
    /// The changes, each with the position of its write.
    changes: Vec<(usize, Change)>,
    /// The response, unless it is made after the write.
    response: Option<RouteResponse>,
}

/// What was written, as expressions name it.
pub fn written(keys: &Json) -> Json {
    json!({ "keys": keys, "key": keys[0] })
}

/// Returns the result of a future that waits for nothing.
fn now<T>(future: impl Future<Output = HandlerResult<T>>) -> HandlerResult<T> {
    future.now_or_never().unwrap_or_else(|| Err(Problem::unavailable("a lookup did not finish")))
}

/// The changes that a route makes, each with the position of its write.
fn changes(request: &RouteRequest<'_>, steps: &StepsRoute, found: &Found<'_>) -> HandlerResult<Vec<(usize, Change)>> {
    let evaluator = request.ctx.app.evaluator();
    let mut changes = Vec::new();
    for (position, write) in steps.writes.iter().enumerate() {
        let items = match &write.each {
            None => vec![Json::Null],
            Some(each) => match json_value(&evaluator, each, &|name: &str| found.variable(request, name))? {
                Json::Null => Vec::new(),
                Json::Array(items) => items,
                other => return Err(cannot_compute(each, &format!("a list is needed, this is {}", shortened(&other)))),
            },
        };
        if changes.len() + items.len() > MAX_WRITES {
            return Err(Problem::bad_request(format!("the request would write more than {MAX_WRITES} records; send several")));
        }
        for item in items {
            let item = json_to_cel(&item);
            let scope = |name: &str| if name == "item" { item.clone() } else { found.variable(request, name) };
            let step = WriteStep { request, write, evaluator: &evaluator, scope: &scope };
            changes.extend(step.change()?.map(|change| (position, change)));
        }
    }
    Ok(changes)
}

fn shortened(json: &Json) -> String {
    json.to_string().chars().take(40).collect()
}

/// One record of a write.
pub struct WriteStep<'s> {
    pub request: &'s RouteRequest<'s>,
    pub write: &'s RouteWrite,
    pub evaluator: &'s Evaluator,
    scope: &'s dyn Fn(&str) -> CelValue,
}

impl WriteStep<'_> {
    pub fn value(&self, expression: &Expression, ty: &FieldType) -> HandlerResult<Value> {
        self.evaluator.value(expression, ty, &|name: &str| (self.scope)(name)).map_err(|error| cannot_compute(expression, &error))
    }

    /// Whether its condition holds.
    pub fn is_done(&self) -> HandlerResult<bool> {
        let Some(when) = &self.write.when else { return Ok(true) };
        self.evaluator.holds(when, &|name: &str| (self.scope)(name)).map_err(|error| cannot_compute(when, &error))
    }

    /// The request of a transition, with its arguments.
    pub fn transition(
        &self,
        transition: usize,
        args: &[(String, Expression)],
        call: Option<IdempotentCall>,
    ) -> HandlerResult<Arc<TransitionRequest>> {
        let mut sent = Map::new();
        for (name, expression) in args {
            sent.insert(name.clone(), self.value(expression, &FieldType::Json)?.to_json(&FieldType::Json));
        }
        sent.retain(|_, value| !value.is_null());
        let ctx = self.request.ctx;
        let name = &ctx.definition(self.write.collection).transitions[transition].name;
        transitions::prepare(ctx, self.write.collection, name, &sent, call)
    }

    fn change(&self) -> HandlerResult<Option<Change>> {
        if !self.is_done()? {
            return Ok(None);
        }
        let key = match &self.write.record {
            FoundBy::Fields | FoundBy::Query(_) => None,
            FoundBy::Key(expression) => {
                let text = self.value(expression, &FieldType::Text)?;
                let text = text.as_text().ok_or_else(|| cannot_compute(expression, "there is no key"))?;
                Some(Key::new(text).map_err(|error| cannot_compute(expression, &error.to_string()))?)
            }
        };
        let ctx = self.request.ctx;
        let action = match (&self.write.action, key.clone()) {
            (WriteAction::Create(fields), _) => EditAction::Create(self.fields(fields, false)?),
            (WriteAction::Put(fields), _) => EditAction::Put(self.fields(fields, false)?),
            (WriteAction::Patch(fields), _) => EditAction::Patch(self.fields(fields, true)?),
            (WriteAction::Delete, _) => EditAction::Delete,
            (WriteAction::Transition(transition, args), Some(key)) => {
                let request = self.transition(*transition, args, None)?;
                return Ok(Some(Change::Transition { request, key }));
            }
            (WriteAction::Transition(..) | WriteAction::Tag(_), _) => return Ok(None),
        };
        Ok(Some(Change::Edit(Box::new(Edit {
            tenant: ctx.tenant.clone(),
            collection: self.write.collection,
            key,
            action,
            conditions: Preconditions::default(),
            caller: ctx.caller.name.to_string(),
            call: None,
        }))))
    }

    /// The fields that are written; a patch removes those that are null.
    fn fields(&self, fields: &[(FieldId, Expression)], keeps_null: bool) -> HandlerResult<EditFields> {
        let definition = self.request.ctx.definition(self.write.collection);
        let mut values = Map::new();
        for (index, expression) in fields {
            let field = &definition.fields[*index];
            let value = self.value(expression, &field.ty)?;
            if !value.is_null() || keeps_null {
                values.insert(field.name.clone(), value.to_json(&field.ty));
            }
        }
        Ok(EditFields { values, ..EditFields::default() })
    }
}

/// The problem that a change cannot be made.
fn refused(ctx: &RequestContext, write: &RouteWrite, reason: RefusedChange) -> Problem {
    let name = &ctx.definition(write.collection).name;
    let taken = |sentence: String| {
        let (status, sentence) = write.taken.clone().unwrap_or((409, sentence));
        Problem::new(StatusCode::from_u16(status).unwrap_or(StatusCode::CONFLICT), sentence)
    };
    match reason {
        RefusedChange::Twice(key) => taken(format!("the request writes {name} {:?} twice", key.as_str())),
        RefusedChange::Edit(EditResult::Exists(key)) => taken(format!("{name} {:?} exists already", key.as_str())),
        RefusedChange::Edit(EditResult::UniqueConflict { field, holder }) => {
            taken(format!("`{field}` must be unique, but {name} {holder:?} already has this value"))
        }
        RefusedChange::Edit(EditResult::Invalid(reasons) | EditResult::KeyMismatch(reasons)) => {
            Problem { status: StatusCode::BAD_REQUEST, ..Problem::unprocessable(reasons) }
        }
        RefusedChange::Transition(reasons) => match transitions::answer(TransitionResult::Refused(reasons)) {
            Err(problem) => problem,
            Ok(_) => changing_too_quickly(),
        },
        RefusedChange::Edit(EditResult::Erased) => Problem::new(StatusCode::CONFLICT, ERASED),
        RefusedChange::Edit(EditResult::StaysDeleted(reason)) => Problem::new(StatusCode::CONFLICT, format!("the {name} stays deleted: {reason}")),
        RefusedChange::Missing | RefusedChange::Edit(EditResult::Missing) => Problem::not_found(format!("there is no such {name}")),
        RefusedChange::Edit(_) => changing_too_quickly(),
    }
}

/// The answer that is kept for an idempotency key: status, whether it is text, body.
fn kept_answer(response: &RouteResponse) -> Vec<u8> {
    json!([response.status.as_u16(), response.media == ResponseMedia::Text, response.text]).to_string().into_bytes()
}
