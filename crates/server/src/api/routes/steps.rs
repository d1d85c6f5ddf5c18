//! Routes in steps: finds records and tags by name, refuses requests, and makes the response of what was found.

use super::columns::cel_null;
use super::fragment::JsonFragment;
use super::lookup::{RouteResponse, answer};
use super::records::RouteRequest;
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::StatusCode;
use serde_json::Value as Json;
use std::sync::PoisonError;
use stook_catalogue::eval::{CelValue, Evaluator, Expression, json_to_cel, text_to_cel, to_cel};
use stook_catalogue::route::{
    FindKind, IncludeRequirement, Projection, ResponseForm, ResponseMedia, RouteFind, RouteResponseBody, StepsRoute, TagFind, WRITTEN,
};
use stook_catalogue::value::{FieldType, Value, from_json};
use stook_engine::tags::described;

/// What a route has found so far, and what it has written.
#[derive(Clone)]
pub struct Found<'l> {
    all: Vec<(&'l str, JsonFragment<'l>)>,
    /// The time of the request.
    now: i64,
}

/// Finds everything that a route looks for before it writes. A repeated request is not refused again.
///
/// # Errors
/// When the request is refused, something required is missing, or an expression that decides fails.
pub async fn find_all<'l>(request: &RouteRequest<'_>, steps: &'l StepsRoute, is_repeated: bool) -> HandlerResult<Found<'l>> {
    let mut found = Found { all: Vec::with_capacity(steps.finds.len() + 1), now: request.ctx.app.store.clock() };
    if !is_repeated {
        found.refuse(request, steps, 0)?;
    }
    for (position, find) in steps.finds.iter().enumerate() {
        if !find.is_after_write {
            found.find(request, steps, find).await?;
        }
        if !is_repeated {
            found.refuse(request, steps, position + 1)?;
        }
    }
    Ok(found)
}

/// The status and message that a definition declares, as a problem.
pub fn declared_problem(status: u16, sentence: &str) -> Problem {
    Problem::new(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), sentence)
}

impl<'l> Found<'l> {
    /// Finds what a route looks for after it has written.
    ///
    /// # Errors
    /// When something required is missing, or an expression that decides fails.
    pub async fn find_after_write(&mut self, request: &RouteRequest<'_>, steps: &'l StepsRoute, written: Json) -> HandlerResult<()> {
        self.all.push((WRITTEN, JsonFragment::Json(written)));
        for find in steps.finds.iter().filter(|find| find.is_after_write) {
            self.find(request, steps, find).await?;
        }
        Ok(())
    }

    async fn find(&mut self, request: &RouteRequest<'_>, steps: &'l StepsRoute, find: &'l RouteFind) -> HandlerResult<()> {
        let is_looked_for = self.is_looked_for(request, steps, find)?;
        let shown = match &find.kind {
            FindKind::Records(route) => {
                let found = if is_looked_for { answer(request, route).await? } else { None };
                found.unwrap_or_else(|| match (route.lookup.single, route.page) {
                    (true, _) => JsonFragment::NULL,
                    (false, None) => JsonFragment::Array([].into()),
                    (false, Some(_)) => {
                        JsonFragment::Object([("rows", JsonFragment::Array([].into())), ("total", JsonFragment::Json(0.into()))].into())
                    }
                })
            }
            FindKind::Tags(tags) => JsonFragment::Json(self.tags(request, tags, is_looked_for).await?),
        };
        match find.required() {
            IncludeRequirement::Refuse(status, sentence) if shown.is_nothing() => return Err(declared_problem(*status, sentence)),
            IncludeRequirement::DropRecord if shown.is_nothing() => return Err(Problem::not_found("there is no such record")),
            _ => {}
        }
        self.all.push((&find.name, shown));
        Ok(())
    }

    /// Finds tags, or one of them.
    async fn tags(&self, request: &RouteRequest<'_>, find: &TagFind, is_looked_for: bool) -> HandlerResult<Json> {
        let wanted = match &find.name {
            Some(name) => Some(json_value(&request.ctx.app.evaluator(), name, &|name: &str| self.variable(request, name))?),
            None => None,
        };
        let (tenant, collection) = (request.ctx.tenant.clone(), find.collection);
        let known = if is_looked_for { request.read_store(move |store| store.tags(&tenant, collection)).await?.tags } else { Vec::new() };
        Ok(match wanted {
            None => known.iter().map(described).collect(),
            Some(name) => known.iter().find(|tag| name == tag.name.as_str()).map_or(Json::Null, described),
        })
    }

    /// Returns the value of a name in expressions.
    pub fn variable(&self, request: &RouteRequest<'_>, name: &str) -> CelValue {
        match name {
            "params" => json_to_cel(request.params()),
            "now" => to_cel(&Value::Int(self.now), &FieldType::Timestamp),
            "caller" => text_to_cel(&request.ctx.caller.name),
            "role" => text_to_cel(request.ctx.caller.role_name()),
            "url" => text_to_cel(&request.ctx.url()),
            _ => self.all.iter().find(|(known, _)| *known == name).map_or_else(cel_null, |(_, shown)| json_to_cel(&shown.json())),
        }
    }

    /// Whether a find has to be made; its operands are computed then. A condition with a null operand finds nothing.
    fn is_looked_for(&self, request: &RouteRequest<'_>, steps: &StepsRoute, find: &RouteFind) -> HandlerResult<bool> {
        let evaluator = request.ctx.app.evaluator();
        let scope = |name: &str| self.variable(request, name);
        if let Some(when) = &find.when
            && !evaluator.holds(when, &scope).map_err(|error| cannot_compute(when, &error))?
        {
            return Ok(false);
        }
        for index in find.computed.clone() {
            let operand = &steps.computed[index];
            let json = json_value(&evaluator, &operand.expression, &scope)?;
            // a value that is none of the column's type is equal to none of its values
            let convert = |json: &Json| from_json(json, &operand.ty, None).ok().filter(|value| !value.is_null());
            let value = match &json {
                Json::Array(items) => Value::List(items.iter().filter_map(convert).collect()),
                other => convert(other).unwrap_or_default(),
            };
            if value.is_null() || value == Value::List(Vec::new()) {
                return Ok(false);
            }
            let _ = request.computed[index].set(value);
        }
        Ok(true)
    }

    /// Refuses the request by the conditions that need so many finds.
    fn refuse(&self, request: &RouteRequest<'_>, steps: &StepsRoute, finds: usize) -> HandlerResult<()> {
        let evaluator = request.ctx.app.evaluator();
        let scope = |name: &str| self.variable(request, name);
        for (_, refusal) in steps.refusals.iter().filter(|(needed, _)| *needed == finds) {
            if evaluator.holds(&refusal.when, &scope).map_err(|error| cannot_compute(&refusal.when, &error))? {
                let status = StatusCode::from_u16(refusal.code).unwrap_or(StatusCode::CONFLICT);
                let reason = json_value(&evaluator, &refusal.reason, &scope)?;
                let text = |json: &Json| json.as_str().map_or_else(|| json.to_string(), str::to_owned);
                return Err(match &reason {
                    Json::Array(reasons) => {
                        let errors: Vec<String> = reasons.iter().map(text).collect();
                        Problem { status, are_listed: true, ..Problem::unprocessable(errors) }
                    }
                    reason => Problem::new(status, text(reason)),
                });
            }
        }
        Ok(())
    }

    /// Makes the response.
    pub fn response(&self, request: &RouteRequest<'_>, form: &ResponseForm) -> RouteResponse {
        let evaluator = request.ctx.app.evaluator();
        let leaf = |name: &str, projection: &Projection| match projection {
            Projection::Text(text) => JsonFragment::Json(text.as_str().into()),
            Projection::Path(path) => match path.split_first() {
                Some((first, rest)) => match self.all.iter().find(|(known, _)| known == first) {
                    Some((_, shown)) => shown.clone().at_path(rest),
                    None if first == "params" => JsonFragment::Json(request.params().clone()).at_path(rest),
                    None => JsonFragment::Json(stook_catalogue::eval::cel_to_json(&self.variable(request, first))).at_path(rest),
                },
                None => JsonFragment::NULL,
            },
            Projection::Expression(expression) => {
                let value = evaluator.value(expression, &FieldType::Json, &|name: &str| self.variable(request, name)).unwrap_or_else(|error| {
                    evaluator.note(&format!("`{name}`"), expression, &error);
                    Value::Null
                });
                JsonFragment::Json(value.to_json(&FieldType::Json))
            }
        };
        let text = match &form.body {
            RouteResponseBody::Empty => String::new(),
            RouteResponseBody::Members(members) => {
                JsonFragment::Object(members.iter().map(|(name, value)| (name.as_str(), leaf(name, value))).collect()).text()
            }
            RouteResponseBody::Value(value) => match (leaf("body", value), form.media) {
                (shown, ResponseMedia::Json) => shown.text(),
                (shown, ResponseMedia::Text) => match shown.json() {
                    Json::String(text) => text,
                    Json::Null => String::new(),
                    other => other.to_string(),
                },
            },
        };
        let failures = evaluator.failures();
        if !failures.is_empty() {
            request.failed.lock().unwrap_or_else(PoisonError::into_inner).add("the route", "", failures);
        }
        let status = StatusCode::from_u16(form.status).unwrap_or(StatusCode::OK);
        RouteResponse { status, media: form.media, text, failures: request.failures() }
    }
}

/// Evaluates an expression to JSON.
pub fn json_value(evaluator: &Evaluator, expression: &Expression, scope: &dyn stook_catalogue::eval::Scope) -> HandlerResult<Json> {
    let value = evaluator.value(expression, &FieldType::Json, scope).map_err(|error| cannot_compute(expression, &error))?;
    Ok(value.to_json(&FieldType::Json))
}

/// The problem that an expression which decides about a request has no value.
pub fn cannot_compute(expression: &Expression, error: &str) -> Problem {
    Problem::bad_request(format!("`{}` cannot be computed for this request: {error}", expression.source().trim()))
}
