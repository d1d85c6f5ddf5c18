//! Routes in steps that write: everything is written in one transaction, if what was found is still so then; otherwise all steps are done again.

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
use stook_catalogue::eval::{CelValue, Evaluator, Expression, ExpressionFailures, json_to_cel};
use stook_catalogue::ids::FieldId;
use stook_catalogue::key::Key;
use stook_catalogue::route::{FoundBy, MAX_WRITES, ResponseMedia, RouteAction, RouteWrite, StepsRoute, WriteAction};
use stook_catalogue::value::{FieldType, Value};
use stook_engine::edit::{Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::several::{self, Change, ChangeSet, ChangeSetResult, RefusedChange};
use stook_engine::transition::TransitionResult;
use stook_store::IdempotentCall;

/// Runs a route that writes. `call` is its idempotent call, if it has an idempotency key.
pub async fn write(ctx: RequestContext, values: Vec<Option<Value>>, index: usize, call: Option<IdempotentCall>) -> HandlerResult<RouteResponse> {
    // without one of the permits for lookups: most of its time it waits for the commit, which several requests then share
    blocking(move || {
        let app = ctx.app.clone();
        let route = &app.catalogue.routes[index];
        let RouteAction::Steps(steps) = &route.action else { return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the route has no steps")) };
        let params = RouteParams { all: &route.params, values };
        for _ in 0..ATTEMPTS {
            let lookups = ctx.app.reads.begin_directly(&ctx.tenant)?;
            let request = RouteRequest::new(&ctx, &params, lookups).of(route).noting_reads();
            // with `MissPolicy::Inline` no lookup waits, so the future is ready at once
            let decided = find_all(&request, steps).now_or_never().unwrap_or_else(|| Err(Problem::unavailable("a lookup did not finish")));
            let decided = decided.and_then(|found| Ok((changes(&request, steps, &found)?, found.response(&request, &steps.response))));
            let (planned, response) = match decided {
                Ok(decided) => decided,
                // a request with a known idempotency key gets its former answer, even if it would be refused now
                Err(problem) => {
                    return match several::former_answer(&*app.store, &ctx.tenant, call.as_ref())? {
                        Some(ChangeSetResult::Replayed { same, answer }) => repeated(same, &answer),
                        _ => Err(problem),
                    };
                }
            };
            if request.has_changed_meanwhile() {
                continue;
            }
            let (positions, changes): (Vec<usize>, Vec<Change>) = planned.into_iter().unzip();
            let set =
                ChangeSet { tenant: ctx.tenant.clone(), changes, premises: request.premises(), call: call.clone(), answer: kept_answer(&response) };
            match several::run(&app.rules, &*app.store, &app.evaluator(), set)? {
                ChangeSetResult::Done => return Ok(response),
                ChangeSetResult::Outdated => {}
                ChangeSetResult::Replayed { same, answer } => return repeated(same, &answer),
                ChangeSetResult::Refused(position, reason) => return Err(refused(&ctx, &steps.writes[positions[position]], reason)),
            }
        }
        Err(changing_too_quickly())
    })
    .await
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
struct WriteStep<'s> {
    request: &'s RouteRequest<'s>,
    write: &'s RouteWrite,
    evaluator: &'s Evaluator,
    scope: &'s dyn Fn(&str) -> CelValue,
}

impl WriteStep<'_> {
    fn value(&self, expression: &Expression, ty: &FieldType) -> HandlerResult<Value> {
        self.evaluator.value(expression, ty, &|name: &str| (self.scope)(name)).map_err(|error| cannot_compute(expression, &error))
    }

    fn change(&self) -> HandlerResult<Option<Change>> {
        if let Some(when) = &self.write.when
            && !self.evaluator.holds(when, &|name: &str| (self.scope)(name)).map_err(|error| cannot_compute(when, &error))?
        {
            return Ok(None);
        }
        let key = match &self.write.record {
            FoundBy::Fields => None,
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
                let mut sent = Map::new();
                for (name, expression) in args {
                    sent.insert(name.clone(), self.value(expression, &FieldType::Json)?.to_json(&FieldType::Json));
                }
                sent.retain(|_, value| !value.is_null());
                let name = &ctx.definition(self.write.collection).transitions[*transition].name;
                let request = transitions::prepare(ctx, self.write.collection, name, &sent, None)?;
                return Ok(Some(Change::Transition { request, key }));
            }
            (WriteAction::Transition(..), None) => return Ok(None),
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
        Ok(EditFields { values, clear: Vec::new() })
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
        RefusedChange::Missing | RefusedChange::Edit(EditResult::Missing) => Problem::not_found(format!("there is no such {name}")),
        RefusedChange::Edit(_) => changing_too_quickly(),
    }
}

/// The answer that is kept for an idempotency key: status, whether it is text, body.
fn kept_answer(response: &RouteResponse) -> Vec<u8> {
    json!([response.status.as_u16(), response.media == ResponseMedia::Text, response.text]).to_string().into_bytes()
}

fn repeated(same: bool, answer: &[u8]) -> HandlerResult<RouteResponse> {
    let kept: Json = serde_json::from_slice(answer).unwrap_or_default();
    let status = kept[0].as_u64().and_then(|status| StatusCode::from_u16(status as u16).ok());
    match (same, status, kept[2].as_str()) {
        (true, Some(status), Some(text)) => Ok(RouteResponse {
            status,
            media: if kept[1] == true { ResponseMedia::Text } else { ResponseMedia::Json },
            text: text.to_owned(),
            failures: ExpressionFailures::default(),
        }),
        _ => Err(transitions::used_before()),
    }
}
