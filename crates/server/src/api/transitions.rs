//! Transitions by HTTP: of a named record, or of one that satisfies conditions.

use crate::App;
use crate::api::response::json_answer;
use crate::guard::access::Identity;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::reject_other_members;
use crate::guard::request::{JSON, RequestContext};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::{HeaderName, StatusCode};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::CollectionId;
use stook_engine::pick::{self, PickCall};
use stook_engine::transition::{self, RefusalReason, TransitionRequest, TransitionResult};
use stook_store::IdempotentCall;
use stook_store::access::Operation;
use stook_store::plan::QueryPlan;

/// The header by which a repeated request is recognised.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Max bytes of an idempotency key.
const LONGEST_KEY: usize = 255;

/// Returns the idempotent call of a request that has an idempotency key. `target` is what is called, `sent` the complete request.
///
/// # Errors
/// 400 when the key is not valid.
pub fn call_of(ctx: &RequestContext, target: &str, sent: &str) -> HandlerResult<Option<IdempotentCall>> {
    let Some(key) = ctx.header(IDEMPOTENCY_KEY)? else { return Ok(None) };
    if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        return Err(Problem::bad_request(format!("idempotency-key has 1 to {LONGEST_KEY} characters of ASCII, none of them a control character")));
    }
    let hash = |parts: &[&str]| {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        short
    };
    let caller = match ctx.caller.identity {
        Identity::Nobody => "0".to_owned(),
        Identity::Token(number) => number.to_string(),
        Identity::Person => format!("person {}", ctx.caller.name),
    };
    // an answer is not repeated when the caller may meanwhile see other records
    let rights = ctx.caller.rights.to_string();
    let request = if ctx.caller.rights.collections().any(|(_, condition)| condition.is_some()) { hash(&[sent, &rights]) } else { hash(&[sent]) };
    Ok(Some(IdempotentCall { id: hash(&[&caller, target, key]), request }))
}

/// What happens when a request that sets something is sent again.
pub const SAME_AGAIN: &str = "sent again, it changes nothing more";

/// Refuses an idempotency key in a request of which no answer is kept; `instead` says what happens when it is sent again.
///
/// # Errors
/// 422 when there is one.
pub fn refuse_key(ctx: &RequestContext, instead: &str) -> HandlerResult<()> {
    match ctx.headers.contains_key(IDEMPOTENCY_KEY) {
        false => Ok(()),
        true => Err(Problem::unprocessable(vec![format!("idempotency-key: no answer is kept for this request, so leave the header out; {instead}")])),
    }
}

/// Prepares a transition of a collection by name.
///
/// # Errors
/// 404 for an unknown transition, 422 for wrong arguments.
pub fn prepare(
    ctx: &RequestContext,
    collection: CollectionId,
    name: &str,
    args: &Map<String, Json>,
    call: Option<IdempotentCall>,
) -> HandlerResult<Arc<TransitionRequest>> {
    let definition = ctx.definition(collection);
    let Some(transition) = definition.transitions.iter().position(|transition| transition.name == name) else {
        let known = definition.transitions.iter().map(|transition| transition.name.as_str());
        return Err(Problem::not_found(format!("{} has no transition {name:?}; {}", definition.name, known_instead(name, known))));
    };
    let part = ctx.part(Operation::Write, collection)?;
    let caller = ctx.caller.name.to_string();
    let now = ctx.app.store.clock();
    let definitions = &definition.transitions[transition].args;
    let args = transition::arguments(&ctx.app.evaluator(), definitions, args, &caller, now).map_err(Problem::unprocessable)?;
    Ok(Arc::new(TransitionRequest { tenant: ctx.tenant.clone(), collection, transition, args, caller, role: ctx.caller.role_name(), call, part }))
}

/// Applies a transition: `POST /v1/{tenant}/COLLECTION/{key}/TRANSITION` with the arguments as a JSON object.
pub async fn run(ctx: UndecidedContext, index: CollectionId, name: String, body: Body) -> HandlerResult {
    // the records that the caller may change are those of the request that is prepared
    let (mut ctx, _) = ctx.of_part(Operation::Write, index)?;
    let collection = ctx.collection();
    let key = ctx.key()?;
    ctx.params.end()?;
    let args = arguments(&ctx, body).await?;
    let target = format!("{}/{name}", ctx.definition(collection).name);
    let call = call_of(&ctx, &target, &format!("{}\n{}", key.as_str(), Json::Object(args.clone())))?;
    let request = prepare(&ctx, collection, &name, &args, call)?;
    ctx.count_store_reached();
    let (app, record_key) = (ctx.app.clone(), key.clone());
    let result = blocking(move || transition::run(&app.catalogue, &*app.store, &app.evaluator(), &request, &record_key)).await?;
    match answer(result)? {
        Some(done) => Ok(json_answer(StatusCode::OK, done.to_string())),
        None => Err(Problem::not_found(format!("there is no {} {:?}", ctx.name(), key.as_str()))),
    }
}

/// Reads the arguments of a call: a JSON object, or no body.
async fn arguments(ctx: &RequestContext, body: Body) -> HandlerResult<Map<String, Json>> {
    if axum::body::HttpBody::is_end_stream(&body) {
        return Ok(Map::new());
    }
    ctx.object(body, JSON).await
}

/// Returns the response of a transition, or `None` if there is no such record.
///
/// # Errors
/// When it was refused, conflicted with other requests, or its idempotency key was used for another request.
pub fn answer(result: TransitionResult) -> HandlerResult<Option<Json>> {
    match result {
        TransitionResult::Done(answer) | TransitionResult::Replayed { same: true, answer } => Ok(Some(answer)),
        TransitionResult::Replayed { same: false, .. } => Err(used_before()),
        TransitionResult::Missing => Ok(None),
        TransitionResult::Conflict => Err(Problem::unavailable("the record was being changed by other requests; try again")),
        TransitionResult::Refused(reasons) => Err(refused(reasons)),
    }
}

/// The problem that an idempotency key was used for another request.
pub fn used_before() -> Problem {
    Problem::unprocessable(vec!["this idempotency key was used for another request".into()])
}

fn refused(reasons: Vec<RefusalReason>) -> Problem {
    let code = reasons.first().map_or(409, |reason| reason.code);
    let texts: Vec<String> = reasons.into_iter().map(|reason| reason.text).collect();
    Problem::new(StatusCode::from_u16(code).unwrap_or(StatusCode::CONFLICT), texts.join("; ")).errors(texts)
}

/// Applies a transition to one record that satisfies a plan and allows it; returns `None` if there is none.
///
/// # Errors
/// When the store fails.
pub fn pick_one(app: &App, request: &Arc<TransitionRequest>, plan: &QueryPlan) -> stook_engine::Result<Option<TransitionResult>> {
    let mut random = [0; 8];
    // without randomness, callers only collide more often
    let _ = getrandom::fill(&mut random);
    let (store, evaluator) = (&*app.store, &app.evaluator());
    pick::pick(&app.picks, &PickCall { catalogue: &app.catalogue, store, evaluator, request, plan, turn: u64::from_le_bytes(random) })
}

/// `{"query": Q, "transition": T, "args": {...}}`: applies a transition to one record that the query finds and that allows it.
pub async fn pick(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByQuery);
    ctx.params.end()?;
    let mut sent = ctx.object(body, JSON).await?;
    let whole = Json::Object(sent.clone()).to_string();
    let mut text = |name: &str| match sent.remove(name) {
        Some(Json::String(text)) => Ok(text),
        _ => Err(Problem::unprocessable(vec![format!("{name}: a text is missing")])),
    };
    let (query, name) = (text("query")?, text("transition")?);
    let args = match sent.remove("args") {
        None => Map::new(),
        Some(Json::Object(args)) => args,
        Some(_) => return Err(Problem::unprocessable(vec!["args: an object".into()])),
    };
    reject_other_members(&sent, &["query", "transition", "args"])?;
    let compiled = crate::api::queries::compiled(&ctx, &query).await?;
    let plan = compiled.plan;
    ctx.part(Operation::Write, plan.collection)?;
    if !compiled.aggregates.is_empty() || plan.distinct {
        return Err(Problem::unprocessable(vec!["query: must return records, not aggregates".into()]));
    }
    let call = call_of(&ctx, &format!("pick/{}/{name}", ctx.definition(plan.collection).name), &whole)?;
    let request = prepare(&ctx, plan.collection, &name, &args, call)?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let result = blocking(move || pick_one(&app, &request, &plan)).await?;
    match result.map(answer).transpose()?.flatten() {
        Some(done) => Ok(json_answer(StatusCode::OK, done.to_string())),
        None => Err(Problem::new(StatusCode::CONFLICT, "no record matches the query and allows the transition")),
    }
}
