//! Tags by HTTP: admins define them, and the role write may assign manual ones to records.

use crate::App;
use crate::api::response::json_answer;
use crate::api::transitions::{SAME_AGAIN, refuse_key};
use crate::guard::blocking::{blocking, reading};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{JSON, RequestContext};
use crate::guard::request::{PATCH, reject_other_members};
use crate::guard::undecided::Part;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};
use std::time::Instant;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::Value;
use stook_engine::EngineError;
use stook_engine::tags::{self, TagChange, TaggedCollection};
use stook_query::{CompiledQuery, tags_that_name};
use stook_store::Tenant;
use stook_store::access::Role;
use stook_store::plan::{PlanColumn, QueryPlan};
use stook_store::tag::TagDefinition;

/// Max records that one call adds a tag to or removes it from.
pub const MAX_RECORDS: usize = 1_000;

/// The problem that the tag in the path does not exist, with a suggestion.
async fn missing(ctx: &RequestContext) -> Problem {
    let (app, tenant, index) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    match reading(move || app.store.tags(&tenant, index)).await {
        Ok(known) => Problem::not_found(tags::no_such_tag(ctx.segment("tag"), &known.tags)),
        Err(problem) => problem,
    }
}

/// Lists a collection's tags.
pub async fn list(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    ctx.count_store_reached();
    let (app, tenant, collection_name) = (ctx.app.clone(), ctx.tenant.clone(), ctx.name().to_owned());
    let found = reading(move || TaggedCollection::new(&app.catalogue, &*app.store, &tenant, &collection_name)?.list()).await?;
    Ok(json_answer(StatusCode::OK, json!({ "tags": found }).to_string()))
}

/// Returns one tag.
pub async fn get(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    ctx.count_store_reached();
    let (app, tenant, collection_name, name) = (ctx.app.clone(), ctx.tenant.clone(), ctx.name().to_owned(), ctx.segment("tag").to_owned());
    let found = reading(move || TaggedCollection::new(&app.catalogue, &*app.store, &tenant, &collection_name)?.show(&name)).await?;
    match found {
        Some(found) => Ok(json_answer(StatusCode::OK, found.to_string())),
        None => Err(missing(&ctx).await),
    }
}

/// How a tag is saved.
pub enum TagSaving {
    /// It is new.
    New,
    /// It exists.
    Change,
    /// It exists, and gets this name.
    Rename(String),
}

/// Saves a tag and returns it, with advice and the job that evaluates it.
///
/// # Errors
/// When the change is wrong, or the store fails.
pub fn save_now(app: &App, tenant: &Tenant, index: CollectionId, change: TagChange, saving: TagSaving) -> Result<Json, EngineError> {
    let collection_name = &app.catalogue.collections[index].name;
    if let Some(TagDefinition::Query(text)) = &change.definition {
        query_of(app, tenant, index, (&change.name, text))?;
    }
    let tags = TaggedCollection::new(&app.catalogue, &*app.store, tenant, collection_name)?;
    let former = change.name.clone();
    let (name, saved) = match saving {
        TagSaving::New => (former.clone(), tags.save(&[change], true)?),
        TagSaving::Change => (former.clone(), tags.save(&[change], false)?),
        TagSaving::Rename(to) => (to.clone(), tags.rename(change, &to)?),
    };
    let mut advice: Vec<String> = saved.advice.into_iter().map(|(_, advice)| advice).collect();
    if name != former {
        let known = app.store.tags(tenant, index)?.tags;
        advice.extend(tags_that_name(&known, collection_name, &former).into_iter().map(|tag| still_names(tag, &former)));
    }
    let mut shown = tags.show(&name)?.unwrap_or_default();
    shown["advice"] = advice.into();
    shown["job"] = saved.job.into();
    Ok(shown)
}

/// The advice to change the query of a tag that names another one, which has been renamed.
fn still_names(tag: &str, former: &str) -> String {
    format!("the query of the tag `{tag}` names `{former}`, which is no tag any more; change it")
}

async fn save(ctx: &RequestContext, change: TagChange, saving: TagSaving) -> HandlerResult<Json> {
    ctx.count_store_reached();
    let (app, tenant, index) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    blocking(move || save_now(&app, &tenant, index, change, saving)).await
}

/// `{"name": N, "xpath": X or "query": Q, "comment": C, "attributes": {}}`: creates a tag; workers evaluate it. With `?preview=true` nothing is
/// saved: the response says what the XPath finds among some records, or the query among all.
pub async fn create(mut ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    let preview = ctx.params.flag("preview")?;
    ctx.params.end()?;
    refuse_key(&ctx, "sent again, it is refused, as the tag is there")?;
    let sent = ctx.object(body, JSON).await?;
    let change = tags::tag_change_from_json(&Json::Object(sent)).map_err(|reason| Problem::unprocessable(vec![reason]))?;
    if preview {
        return previewed(&ctx, change).await;
    }
    if exists(&ctx, &change.name).await? {
        return Err(taken(&change.name));
    }
    Ok(json_answer(StatusCode::CREATED, save(&ctx, change, TagSaving::New).await?.to_string()))
}

/// Max keys in a preview.
const PREVIEWED_KEYS: usize = 20;

async fn previewed(ctx: &RequestContext, change: TagChange) -> HandlerResult {
    let definition = change.definition.ok_or_else(|| Problem::unprocessable(vec!["a manual tag has no preview; give an xpath or a query".into()]))?;
    ctx.count_store_reached();
    let (app, tenant, index, collection_name) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection(), ctx.name().to_owned());
    let run_preview = move || match definition {
        TagDefinition::Query(text) => found_by(&app, &tenant, index, (&change.name, &text)),
        TagDefinition::XPath(text) => TaggedCollection::new(&app.catalogue, &*app.store, &tenant, &collection_name)?.preview(&text),
        TagDefinition::Manual => Err(EngineError::Wrong("a manual tag has nothing to preview".into())),
    };
    let preview = reading(run_preview).await?;
    let keys: Vec<&str> = preview.keys.iter().take(PREVIEWED_KEYS).map(Key::as_str).collect();
    let each = preview.took.as_micros() as f64 / preview.records.max(1) as f64;
    let body = json!({ "records": preview.records, "matches": preview.matches, "keys": keys, "failed": preview.failed, "microseconds": each, "advice": preview.advice });
    Ok(json_answer(StatusCode::OK, body.to_string()))
}

/// Compiles the query of a tag.
fn query_of(app: &App, tenant: &Tenant, index: CollectionId, (name, text): (&str, &str)) -> Result<CompiledQuery, EngineError> {
    let tag = stook_query::TagQuery { collection: index, name, text, planned: &[] };
    let checked = stook_query::check_tag(&tag, &app.catalogue, &*app.store, tenant)?;
    checked.map_err(|problem| EngineError::Wrong(format!("query: {}", problem.message)))
}

/// Finds the records that carry a tag that is a query.
fn found_by(app: &App, tenant: &Tenant, index: CollectionId, (name, text): (&str, &str)) -> Result<tags::TagPreview, EngineError> {
    let found = query_of(app, tenant, index, (name, text))?;
    let records = app.store.count(&QueryPlan::all(tenant.clone(), index))? as usize;
    let began = Instant::now();
    let matches = app.store.count(&found.plan)? as usize;
    let took = began.elapsed();
    let first = app.store.find(&QueryPlan { columns: vec![PlanColumn::Key], limit: Some(PREVIEWED_KEYS as u64), ..found.plan })?;
    let key = |row: Vec<Value>| Key::new(row.first()?.as_text()?).ok();
    Ok(tags::TagPreview { records, matches, keys: first.rows.into_iter().filter_map(key).collect(), failed: 0, took, advice: Vec::new() })
}

/// Changes a tag: what is not sent stays. `name` is a new name.
pub async fn set(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let mut sent = ctx.object(body, PATCH).await?;
    let saving = match sent.insert("name".into(), ctx.segment("tag").into()) {
        None => TagSaving::Change,
        Some(Json::String(to)) => TagSaving::Rename(to),
        Some(_) => return Err(Problem::unprocessable(vec!["name is text".into()])),
    };
    let change = tags::tag_change_from_json(&Json::Object(sent)).map_err(|reason| Problem::unprocessable(vec![reason]))?;
    check_exists(&ctx).await?;
    if let TagSaving::Rename(to) = &saving
        && to != ctx.segment("tag")
        && exists(&ctx, to).await?
    {
        return Err(taken(to));
    }
    Ok(json_answer(StatusCode::OK, save(&ctx, change, saving).await?.to_string()))
}

fn taken(name: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, format!("there is a tag {name:?} already"))
}

async fn exists(ctx: &RequestContext, name: &str) -> HandlerResult<bool> {
    let (app, tenant, index) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection());
    let known = blocking(move || app.store.tags(&tenant, index)).await?;
    Ok(known.tags.iter().any(|tag| tag.name == name))
}

async fn check_exists(ctx: &RequestContext) -> HandlerResult<()> {
    if exists(ctx, ctx.segment("tag")).await? { Ok(()) } else { Err(missing(ctx).await) }
}

/// Removes a tag from the collection and from all records.
pub async fn remove(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    ctx.count_store_reached();
    let (app, tenant, index, name) = (ctx.app.clone(), ctx.tenant.clone(), ctx.collection(), ctx.segment("tag").to_owned());
    let removed = blocking(move || app.store.delete_tag(&tenant, index, &name)).await?;
    if removed { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(missing(&ctx).await) }
}

/// Evaluates a tag's XPath again for all records.
pub async fn rebuild(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, "sent again, the tag is evaluated again")?;
    check_exists(&ctx).await?;
    ctx.count_store_reached();
    let (app, tenant, collection_name, names) = (ctx.app.clone(), ctx.tenant.clone(), ctx.name().to_owned(), vec![ctx.segment("tag").to_owned()]);
    let job = blocking(move || TaggedCollection::new(&app.catalogue, &*app.store, &tenant, &collection_name)?.reevaluate(&names)).await?;
    Ok(json_answer(StatusCode::ACCEPTED, json!({ "job": job }).to_string()))
}

/// `{"add": [KEY, ...], "remove": [KEY, ...]}`: gives a manual tag to records and takes it from others.
pub async fn assign(ctx: RequestContext, part: Part, body: Body) -> HandlerResult {
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let mut sent = ctx.object(body, JSON).await?;
    let mut keys = |name: &str| -> HandlerResult<Vec<Key>> {
        let wrong = || Problem::unprocessable(vec![format!("{name}: a list of at most {MAX_RECORDS} keys")]);
        match sent.remove(name) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) if items.len() <= MAX_RECORDS => {
                items.iter().map(|item| item.as_str().and_then(|text| Key::new(text).ok()).ok_or_else(wrong)).collect()
            }
            Some(_) => Err(wrong()),
        }
    };
    let (add, remove) = (keys("add")?, keys("remove")?);
    reject_other_members(&sent, &["add", "remove"])?;
    check_exists(&ctx).await?;
    ctx.count_store_reached();
    let (app, tenant, collection_name, name) = (ctx.app.clone(), ctx.tenant.clone(), ctx.name().to_owned(), ctx.segment("tag").to_owned());
    let (given, unknown) =
        blocking(move || TaggedCollection::new(&app.catalogue, &*app.store, &tenant, &collection_name)?.within(part).assign(&name, &add, &remove))
            .await?;
    let unknown: Vec<&str> = unknown.iter().map(Key::as_str).collect();
    Ok(json_answer(StatusCode::OK, json!({ "added": given.added.len(), "removed": given.removed.len(), "unknown": unknown }).to_string()))
}
