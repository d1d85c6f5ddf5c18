//! Writes of routes in steps that are transactions of their own: a transition of one of the records that a query finds, and changes of tags.

use super::steps::{cannot_compute, declared_problem};
use super::writes::{WriteStep, written};
use crate::api::tags::{MAX_RECORDS, TagSaving, save_now};
use crate::api::transitions;
use crate::guard::problem::{HandlerResult, Problem};
use axum::http::StatusCode;
use futures_util::FutureExt;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::eval::Expression;
use stook_catalogue::key::Key;
use stook_catalogue::route::{FoundBy, TagProperty, TagWrite, WriteAction};
use stook_catalogue::value::FieldType;
use stook_engine::EngineError;
use stook_engine::tags::{TagChange, TaggedCollection, no_such_tag};
use stook_engine::transition::TransitionResult;
use stook_store::IdempotentCall;
use stook_store::access::Role;
use stook_store::tag::{Tag, TagDefinition};

/// The result of such a write.
pub enum DoneAlone {
    /// What was written, as expressions name it.
    Written(Json),
    /// The idempotency key was used before.
    Repeated { same: bool, answer: Vec<u8> },
}

/// Does a write that is a transaction of its own.
///
/// # Errors
/// When it is refused, or the store fails.
pub fn run(step: &WriteStep<'_>, call: Option<IdempotentCall>) -> HandlerResult<DoneAlone> {
    if !step.is_done()? {
        return Ok(DoneAlone::Written(written(&json!([]))));
    }
    match (&step.write.action, &step.write.record) {
        (WriteAction::Transition(transition, args), FoundBy::Query(query)) => pick(step, (*transition, args), query, call),
        (WriteAction::Tag(change), FoundBy::Key(name)) => {
            if call.is_some() {
                return Err(Problem::bad_request("a change of a tag takes no idempotency key: send it again without"));
            }
            let name = step.value(name, &FieldType::Text)?.as_text().ok_or_else(|| cannot_compute(name, "there is no name"))?.to_owned();
            change_tag(step, change, &name).map(DoneAlone::Written)
        }
        _ => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "this write does not stand alone")),
    }
}

fn pick(
    step: &WriteStep<'_>,
    (transition, args): (usize, &[(String, Expression)]),
    query: &Expression,
    call: Option<IdempotentCall>,
) -> HandlerResult<DoneAlone> {
    let ctx = step.request.ctx;
    let text = step.value(query, &FieldType::Text)?;
    let text = text.as_text().ok_or_else(|| cannot_compute(query, "there are no conditions"))?;
    let plan = step.request.conditions_plan(step.write.collection, text).now_or_never();
    let plan = plan.unwrap_or_else(|| Err(Problem::unavailable("a lookup did not finish")))?;
    let request = step.transition(transition, args, call)?;
    let none = || match &step.write.required {
        Some((status, sentence)) => declared_problem(*status, sentence),
        None => Problem::new(StatusCode::CONFLICT, "no record matches the query and allows the transition"),
    };
    match transitions::pick_one(&ctx.app, &request, &plan)? {
        None | Some(TransitionResult::Missing) => Err(none()),
        Some(TransitionResult::Replayed { same, answer }) => Ok(DoneAlone::Repeated { same, answer: answer.to_string().into_bytes() }),
        Some(result) => {
            Ok(DoneAlone::Written(transitions::answer(result)?.map_or_else(|| written(&json!([])), |done| written(&json!([done["key"]])))))
        }
    }
}

fn change_tag(step: &WriteStep<'_>, change: &TagWrite, name: &str) -> HandlerResult<Json> {
    let ctx = step.request.ctx;
    let (app, tenant, index) = (&*ctx.app, &ctx.tenant, step.write.collection);
    if !matches!(change, TagWrite::Assign { .. }) {
        ctx.caller.require_role(Role::Admin)?;
    }
    let known = app.store.tags(tenant, index)?.tags;
    let exists = |name: &str| known.iter().any(|tag| tag.name == name);
    let taken = |name: &str| match &step.write.taken {
        Some((status, sentence)) => declared_problem(*status, sentence),
        None => Problem::new(StatusCode::CONFLICT, format!("there is a tag {name:?} already")),
    };
    let is_new = matches!(change, TagWrite::Create(_));
    match (is_new, exists(name)) {
        (true, true) => return Err(taken(name)),
        (false, false) if matches!(change, TagWrite::Delete) => return Ok(json!({ "name": name })),
        (false, false) => return Err(Problem::not_found(no_such_tag(name, &known))),
        _ => {}
    }
    let tags = TaggedCollection::new(&app.catalogue, &*app.store, tenant, &ctx.definition(index).name)?;
    match change {
        TagWrite::Create(properties) => {
            let (change, _) = tag_change(step, properties, name, None)?;
            save_now(app, tenant, index, change, TagSaving::New).map_err(wrong)
        }
        TagWrite::Change(properties) => {
            let (change, to) = tag_change(step, properties, name, known.iter().find(|tag| tag.name == name))?;
            match to.filter(|to| to != name) {
                Some(to) if exists(&to) => Err(taken(&to)),
                Some(to) => save_now(app, tenant, index, change, TagSaving::Rename(to)).map_err(wrong),
                None => save_now(app, tenant, index, change, TagSaving::Change).map_err(wrong),
            }
        }
        TagWrite::Delete => {
            app.store.delete_tag(tenant, index, name)?;
            Ok(json!({ "name": name }))
        }
        TagWrite::Evaluate => Ok(json!({ "name": name, "job": tags.reevaluate(&[name.to_owned()]).map_err(wrong)? })),
        TagWrite::Assign { add, remove } => {
            let (add, remove) = (keys(step, add.as_ref())?, keys(step, remove.as_ref())?);
            let (given, unknown) = tags.assign(name, &add, &remove).map_err(wrong)?;
            let unknown: Vec<&str> = unknown.iter().map(Key::as_str).collect();
            Ok(json!({ "name": name, "added": given.added.len(), "removed": given.removed.len(), "unknown": unknown }))
        }
    }
}

/// The problem of a change of a tag. What is wrong with it is 400, as wrong parameters of declared routes are.
fn wrong(error: EngineError) -> Problem {
    match error {
        EngineError::Wrong(reason) => Problem::bad_request(reason),
        other => other.into(),
    }
}

/// The change that a request makes of a tag, and its new name. What is null stays as it is; attributes that are not mentioned, too.
fn tag_change(
    step: &WriteStep<'_>,
    properties: &[(TagProperty, Expression)],
    name: &str,
    former: Option<&Tag>,
) -> HandlerResult<(TagChange, Option<String>)> {
    let mut change = TagChange { name: name.to_owned(), ..TagChange::default() };
    let (mut attributes, mut to) = (Map::new(), None);
    for (property, expression) in properties {
        if let TagProperty::Attribute(attribute) = property {
            let value = step.value(expression, &FieldType::Json)?.to_json(&FieldType::Json);
            if !value.is_null() {
                attributes.insert(attribute.clone(), value);
            }
            continue;
        }
        let Some(text) = step.value(expression, &FieldType::Text)?.as_text().map(str::to_owned) else { continue };
        match property {
            TagProperty::Name => to = Some(text),
            TagProperty::XPath => change.definition = Some(TagDefinition::XPath(text)),
            TagProperty::Query => change.definition = Some(TagDefinition::Query(text)),
            TagProperty::Comment => change.comment = Some(text),
            TagProperty::Attribute(_) => {}
        }
    }
    if !attributes.is_empty() {
        let mut all = former.map(|tag| tag.attributes.clone()).unwrap_or_default();
        all.extend(attributes);
        change.attributes = Some(all);
    }
    Ok((change, to))
}

/// The keys that an expression lists.
fn keys(step: &WriteStep<'_>, expression: Option<&Expression>) -> HandlerResult<Vec<Key>> {
    let Some(expression) = expression else { return Ok(Vec::new()) };
    let wrong = |reason: &str| cannot_compute(expression, reason);
    match step.value(expression, &FieldType::Json)?.to_json(&FieldType::Json) {
        Json::Null => Ok(Vec::new()),
        Json::Array(items) if items.len() <= MAX_RECORDS => {
            items.iter().map(|item| Key::new(item.as_str().unwrap_or_default()).map_err(|error| wrong(&error.to_string()))).collect()
        }
        _ => Err(wrong(&format!("a list of at most {MAX_RECORDS} keys is needed"))),
    }
}
