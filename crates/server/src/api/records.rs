//! Records: reading one or many, explaining, editing.

use super::response::{json_answer, percent};
use super::transitions::{call_of, used_before};
use crate::App;
use crate::app::counts::RecordCounts;
use crate::guard::blocking::{blocking, reading};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::{JSON, MAX_INTEGER, PATCH, RequestContext, reject_other_members};
use crate::guard::undecided::{Decides, Part, UndecidedContext};
use crate::reads::{MissPolicy, ServedRecord, etag};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde_json::{Map, Value as Json, json};
use stook_catalogue::definition::{Catalogue, Collection, Field, KeyDefinition, SourceRef, Transition, TransitionArgument};
use stook_catalogue::diagnostic::known_instead;
use stook_catalogue::ids::CollectionId;
use stook_catalogue::key::Key;
use stook_catalogue::value::show_timestamp;
use stook_engine::edit::{self, Edit, EditAction, EditFields, EditResult, Preconditions};
use stook_engine::edit_answer::EditAnswer;
use stook_engine::erase::{self, ErasureRequest};
use stook_engine::record::{self as engine_record, RecordAddress};
use stook_engine::tags::joined_attributes;
use stook_engine::transition::{TransitionArguments, TransitionRequest, refused_now};
use stook_store::access::{Operation, Role};
use stook_store::erasure::ERASED;
use stook_store::plan::QueryPlan;
use stook_store::{ReadDetail, StoredRecord, Version, Visibility};

/// Max keys of one lookup.
pub const MAX_KEYS: usize = 1_000;

/// The entity tags in `If-Match` or `If-None-Match`.
enum EntityTags {
    /// `*`: any version.
    Any,
    /// These versions; `None` for a tag that this server cannot have made, which matches no version.
    Versions(Vec<Option<Version>>),
}

impl EntityTags {
    /// Whether it includes a version that satisfies a condition.
    fn includes(&self, is_meant: impl Fn(&Version) -> bool) -> bool {
        match self {
            Self::Any => true,
            Self::Versions(versions) => versions.iter().flatten().any(is_meant),
        }
    }
}

/// A revision that no record has.
const NO_REVISION: i64 = -1;

/// Returns the revisions in `If-Match` or `If-None-Match`, without what was settled later, in the form that edits take: an empty list for `*`.
fn revisions(ctx: &RequestContext, name: HeaderName) -> HandlerResult<Option<Vec<i64>>> {
    Ok(tags(ctx, name)?.map(|tags| match tags {
        EntityTags::Any => Vec::new(),
        EntityTags::Versions(versions) => versions.into_iter().map(|version| version.map_or(NO_REVISION, |version| version.revision)).collect(),
    }))
}

/// Reads `If-Match` or `If-None-Match`, if it was sent.
fn tags(ctx: &RequestContext, name: HeaderName) -> HandlerResult<Option<EntityTags>> {
    let Some(text) = ctx.header(name.clone())?.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    if text.trim() == "*" {
        return Ok(Some(EntityTags::Any));
    }
    let mut all = Vec::new();
    for tag in text.split(',').map(str::trim) {
        let weak = tag.strip_prefix("W/");
        let quoted = weak.unwrap_or(tag).strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        // a tag that this server cannot have made matches no revision
        let strong = quoted.filter(|_| weak.is_none() || name != header::IF_MATCH);
        let version = strong.and_then(|tag| {
            let (revision, touch) = tag.split_once('-').filter(|(revision, _)| !revision.is_empty()).unwrap_or((tag, "0"));
            Some(Version::new(revision.parse().ok()?, touch.parse().ok()?))
        });
        all.push(version);
    }
    Ok(Some(EntityTags::Versions(all)))
}

fn not_found(ctx: &RequestContext, key: &Key) -> Problem {
    Problem::not_found(format!("there is no {} {:?}", ctx.name(), key.as_str()))
}

/// Returns the fields that hold keys of other records, each with the collection of those.
fn links(catalogue: &Catalogue, collection: CollectionId) -> Map<String, Json> {
    let name = |index: CollectionId| catalogue.collections[index].name.as_str();
    let fields = &catalogue.collections[collection].fields;
    let own_links = catalogue
        .links
        .iter()
        .filter(|link| link.child_collection == collection)
        .map(|link| (fields[link.field].name.clone(), name(link.target_collection).into()));
    let coverage = catalogue.collections[collection].rows_of.map(|coverage| catalogue.coverages[coverage].parent);
    // a row of a coverage has its parent's key in a field with the name of the parent's collection
    let parent = coverage.map(|parent| (name(parent).to_owned(), Json::from(name(parent))));
    own_links.chain(parent).collect()
}

/// Describes the arguments of a transition.
fn arguments(transition: &Transition) -> Json {
    let shown = |argument: &TransitionArgument| {
        let choices: Vec<Json> = argument.one_of.iter().map(|value| value.to_json(&argument.ty)).collect();
        (argument.name.clone(), json!({ "type": argument.ty.to_string(), "required": argument.required, "one_of": choices }))
    };
    Json::Object(transition.args.iter().map(shown).collect())
}

/// Describes the fields whose values may come from edits, apart from those of the key.
fn editable(collection: &Collection) -> Map<String, Json> {
    let takes_edits = |field: &&Field| {
        let is_accepted = field.from.as_ref().is_none_or(|from| from.contains(&SourceRef::Api));
        field.derive.is_none() && is_accepted && !collection.is_in_key(field)
    };
    let fields = collection.fields.iter().filter(|_| collection.rows_of.is_none()).filter(takes_edits);
    let shown = |field: &Field| {
        let choices: Vec<Json> = field.one_of.iter().map(|value| value.to_json(field.ty.element())).collect();
        (field.name.clone(), json!({ "type": field.ty.to_string(), "required": field.required, "one_of": choices }))
    };
    fields.map(shown).collect()
}

/// Returns what the catalogue contains; with `?counts=true` also the number of records and whether values are stale.
pub async fn overview(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByFilter);
    let counts = ctx.params.flag("counts")?;
    ctx.params.end()?;
    let visible = ctx.visible();
    let mut collections: Vec<Json> = ctx
        .app
        .catalogue
        .collections
        .enumerate()
        .filter(|(index, _)| visible(*index) != Visibility::Nothing)
        .map(|(index, collection)| {
            let fields: Map<String, Json> =
                collection.shown_fields().map(|(_, field)| (field.name.clone(), field.golden_type().to_string().into())).collect();
            let indexed = collection.shown_fields().filter(|(_, field)| field.index.ordered || field.index.contains || field.index.words);
            let indexed: Vec<&str> = indexed.map(|(_, field)| field.name.as_str()).collect();
            let state: Map<String, Json> = collection.states.iter().map(|state| (state.name.clone(), state.ty.to_string().into())).collect();
            let transitions: Vec<&str> = collection.transitions.iter().map(|transition| transition.name.as_str()).collect();
            let arguments: Map<String, Json> =
                collection.transitions.iter().map(|transition| (transition.name.clone(), arguments(transition))).collect();
            json!({
                "name": collection.name,
                "key": collection.key_text,
                "title": collection.title.map(|title| &collection.fields[title].name),
                "fields": fields,
                "indexed": indexed,
                "links": links(&ctx.app.catalogue, index),
                "tags": collection.tags.is_some(),
                "state": state,
                "editable": editable(collection),
                "transitions": transitions,
                "arguments": arguments,
            })
        })
        .collect();
    let mut settling = None;
    if counts {
        ctx.count_store_reached();
        let (app, tenant, counted) = (ctx.app.clone(), ctx.tenant.clone(), ctx.visible());
        let count = move || {
            let mut numbers = app.counts.for_tenant(&app.catalogue, &*app.store, &tenant)?;
            for (index, number) in app.catalogue.collections.ids().zip(&mut numbers) {
                if let Visibility::Part(filter) = counted(index) {
                    let mut plan = QueryPlan::all(tenant.clone(), index);
                    filter.apply(&mut plan);
                    // a rate and conflicts are of all records
                    *number = RecordCounts { records: app.store.count(&plan)?, rate: None, conflicts: None };
                }
            }
            let stale = app.catalogue.collections.ids().map(|index| stook_engine::tags::stale(&app.catalogue, &*app.store, &tenant, index));
            let stale = stale.collect::<stook_engine::Result<Vec<Vec<String>>>>()?;
            Ok::<_, stook_engine::EngineError>((numbers, stale, !app.store.marks(&tenant, 1)?.is_empty()))
        };
        let (numbers, stale, has_marks) = blocking(count).await?;
        settling = Some(has_marks);
        let counted =
            ctx.app.catalogue.collections.ids().zip(numbers.into_iter().zip(stale)).filter(|(index, _)| visible(*index) != Visibility::Nothing);
        for (collection, (index, (number, stale))) in collections.iter_mut().zip(counted) {
            if collection["tags"] == true && ctx.sees(index) {
                collection["stale_tags"] = stale.into();
            }
            collection["records"] = number.records.into();
            if let Some(rate) = number.rate {
                collection["rate"] = rate.into();
            }
            if let Some(conflicts) = number.conflicts {
                collection["conflicts"] = conflicts.into();
            }
        }
    }
    let sources = ctx.app.catalogue.sources.iter().map(|source| source.name.as_str());
    let sources: Vec<&str> = sources.filter(|source| ctx.sees_source(source)).collect();
    let profiles: Vec<&str> = ctx.app.catalogue.profiles.iter().map(|profile| profile.name.as_str()).collect();
    let mut body = json!({
        "catalogue": ctx.app.catalogue.name,
        "tenant": ctx.tenant.as_str(),
        "collections": collections,
        "sources": sources,
        "profiles": profiles,
    });
    if let Some(settling) = settling {
        body["settling"] = settling.into();
    }
    Ok(json_answer(StatusCode::OK, body.to_string()))
}

/// Returns one record by the key in the path.
pub async fn get(mut ctx: RequestContext, part: Part) -> HandlerResult {
    let collection = ctx.collection();
    let key = ctx.key()?;
    get_one(ctx, part, collection, key).await
}

/// Returns one record by `?key=`.
pub async fn by_key(mut ctx: RequestContext, part: Part) -> HandlerResult {
    let collection = ctx.collection();
    let Some(text) = ctx.params.single("key")? else {
        let name = ctx.name();
        return Err(Problem::bad_request(format!("give ?key=KEY for one record; /v1/{}/query?q={name} lists records", ctx.tenant)));
    };
    let key = Key::new(text).map_err(|error| Problem::bad_request(error.to_string()))?;
    get_one(ctx, part, collection, key).await
}

/// Whether a record is visible to a caller who may read a part of its collection. What is deleted has no values by which it could be one of them.
fn is_visible(part: &Part, collection: &Collection, record: &StoredRecord) -> bool {
    part.as_ref().is_none_or(|part| record.exists && part.admits(collection, record.values()))
}

async fn get_one(mut ctx: RequestContext, part: Part, collection: CollectionId, key: Key) -> HandlerResult {
    let deleted = ctx.params.flag("deleted")?;
    ctx.params.end()?;
    let tags_to_match = tags(&ctx, header::IF_NONE_MATCH)?;
    ctx.count_store_reached();
    let settles = ctx.definition(collection).settles();
    let (version, tag, body) = if deleted {
        let (app, tenant, record_key) = (ctx.app.clone(), ctx.tenant.clone(), key.clone());
        let read = move || {
            let name = &app.catalogue.collections[collection].name;
            let found = engine_record::get(
                &app.catalogue,
                &*app.store,
                &RecordAddress { tenant: &tenant, collection: name, key: record_key.as_str() },
                true,
            )?;
            let found = found.filter(|found| is_visible(&part, found.collection, &found.stored));
            Ok::<_, stook_engine::EngineError>(found.map(|found| (found.stored.version, found.to_json().to_string().into())))
        };
        let (version, body): (Version, Bytes) = reading(read).await?.ok_or_else(|| not_found(&ctx, &key))?;
        (version, etag(version, ctx.definition(collection)), body)
    } else {
        let found: Option<std::sync::Arc<ServedRecord>> =
            ctx.app.reads.begin(&ctx.tenant, MissPolicy::Batched).await?.record(collection, key.clone()).await?;
        let found = found.filter(|found| is_visible(&part, ctx.definition(collection), &found.stored)).ok_or_else(|| not_found(&ctx, &key))?;
        (found.stored.version, found.etag.clone(), found.json(ctx.definition(collection)))
    };
    let is_unchanged = |known: &Version| known.revision == version.revision && (!settles || known.touches == version.touches);
    let mut response = match tags_to_match.is_some_and(|tags| tags.includes(is_unchanged)) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => json_answer(StatusCode::OK, body),
    };
    response.headers_mut().insert(header::ETAG, tag);
    Ok(response)
}

/// Returns many records by key: `{"collection": C, "keys": [...]}`.
pub async fn lookup(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByName);
    ctx.params.end()?;
    let mut sent = ctx.object(body, JSON).await?;
    let collection = match sent.remove("collection") {
        Some(Json::String(name)) => match ctx.app.catalogue.collection(&name) {
            Some((index, _)) => index,
            None => {
                let known = ctx.app.catalogue.collections.iter().map(|collection| collection.name.as_str());
                return Err(Problem::unprocessable(vec![format!("there is no collection {name:?}; {}", known_instead(&name, known))]));
            }
        },
        _ => return Err(Problem::unprocessable(vec!["collection: the name of a collection is missing".into()])),
    };
    let part = ctx.part(Operation::Read, collection)?;
    let wrong_keys = || Problem::unprocessable(vec![format!("keys: a list of at most {MAX_KEYS} keys is missing")]);
    let Some(Json::Array(keys)) = sent.remove("keys").filter(|keys| keys.as_array().is_some_and(|keys| keys.len() <= MAX_KEYS)) else {
        return Err(wrong_keys());
    };
    reject_other_members(&sent, &["collection", "keys"])?;
    let keys: Vec<Key> = keys
        .iter()
        .map(|key| key.as_str().ok_or_else(wrong_keys).and_then(|key| Key::new(key).map_err(|error| Problem::unprocessable(vec![error.to_string()]))))
        .collect::<HandlerResult<_>>()?;
    ctx.count_store_reached();
    let found = ctx.app.reads.begin(&ctx.tenant, MissPolicy::Batched).await?.records(collection, &keys).await?;
    let mut out = Vec::from(&b"{\"records\":["[..]);
    for (index, record) in found.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        match record.as_ref().filter(|record| is_visible(&part, ctx.definition(collection), &record.stored)) {
            Some(record) => out.extend_from_slice(&record.json(ctx.definition(collection))),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b"]}");
    Ok(json_answer(StatusCode::OK, out))
}

/// Reads a record with its contributions and makes a response of it.
async fn read_explained(
    ctx: &RequestContext,
    part: Part,
    (collection, key): (CollectionId, &Key),
    deleted: bool,
    show: impl FnOnce(&App, engine_record::ExplainedRecord<'_>) -> stook_engine::Result<Response> + Send + 'static,
) -> HandlerResult {
    ctx.count_store_reached();
    let (app, tenant, record_key) = (ctx.app.clone(), ctx.tenant.clone(), key.clone());
    let read = move || {
        let name = &app.catalogue.collections[collection].name;
        let found =
            engine_record::get(&app.catalogue, &*app.store, &RecordAddress { tenant: &tenant, collection: name, key: record_key.as_str() }, deleted)?;
        found.filter(|found| is_visible(&part, found.collection, &found.stored)).map(|found| show(&app, found)).transpose()
    };
    reading(read).await?.ok_or_else(|| not_found(ctx, key))
}

/// Explains a record.
pub async fn explain(mut ctx: RequestContext, part: Part) -> HandlerResult {
    let (collection, key) = (ctx.collection(), ctx.key()?);
    let deleted = ctx.params.flag("deleted")?;
    ctx.params.end()?;
    let tenant = ctx.tenant.clone();
    let (caller, role) = (ctx.caller.name.to_string(), ctx.caller.role_name());
    let show = move |app: &App, found: engine_record::ExplainedRecord<'_>| {
        let mut explained = found.explain(&app.catalogue, &*app.store, &tenant)?;
        if !found.collection.transitions.is_empty() && found.stored.exists {
            let request = TransitionRequest {
                tenant: tenant.clone(),
                collection,
                transition: 0,
                args: TransitionArguments::default(),
                caller,
                role,
                call: None,
                part: None,
            };
            let refused = refused_now(&request, found.collection, &app.evaluator(), &found.stored, app.store.clock());
            explained["transitions"] = refused.into_iter().map(|(name, reasons)| (name, Json::from(reasons))).collect::<Map<_, _>>().into();
        }
        if let Some(rules) = &found.collection.tags {
            let carried = stook_query::tags_of(&app.catalogue, &*app.store, &tenant, collection, &found.stored.key)?;
            explained["tag_attributes"] = joined_attributes(rules, &app.store.tags(&tenant, collection)?.tags, &carried).into();
            explained["tags"] = carried.into();
        }
        let value_of = |name: &str| match name {
            "key" => Some(found.stored.key.to_string()),
            _ => {
                let (field, own) = found.collection.field(name).filter(|(_, own)| !own.golden_type().is_list())?;
                Some(found.stored.golden[field.index()].show(own.golden_type())).filter(|text| !text.is_empty())
            }
        };
        let next = stook_query::questions(&app.catalogue, collection, &value_of);
        if !next.is_empty() {
            explained["questions"] = next.into();
        }
        Ok(json_answer(StatusCode::OK, explained.to_string()))
    };
    read_explained(&ctx, part, (collection, &key), deleted, show).await
}

/// Returns the newest kept document of a record, or that of a `?contributor=`, as it was delivered.
pub async fn document(mut ctx: RequestContext) -> HandlerResult {
    let (collection, key) = (ctx.collection(), ctx.key()?);
    let contributor = ctx.params.single("contributor")?;
    ctx.params.end()?;
    let show = move |_: &App, found: engine_record::ExplainedRecord<'_>| {
        Ok(match found.document(contributor.as_deref()) {
            Some((_, bytes)) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes.to_vec()).into_response(),
            None => StatusCode::NO_CONTENT.into_response(),
        })
    };
    // a document may say something of other records, so it is only for callers who may read all
    read_explained(&ctx, None, (collection, &key), false, show).await
}

/// Returns the change log of a record, newest first.
pub async fn log(mut ctx: RequestContext, part: Part) -> HandlerResult {
    let (collection, key) = (ctx.collection(), ctx.key()?);
    let limit = ctx.params.number("limit", 1, 1_000)?.unwrap_or(100) as usize;
    let deleted = ctx.params.flag("deleted")?;
    let before = ctx.params.number("before", 1, MAX_INTEGER as u64)?.map(|before| before as i64);
    ctx.params.end()?;
    ctx.count_store_reached();
    let (app, tenant, record_key) = (ctx.app.clone(), ctx.tenant.clone(), key.clone());
    let read = move || {
        let found = app.store.read(&tenant, collection, std::slice::from_ref(&record_key), ReadDetail::Values)?.pop().flatten();
        let found = found.filter(|record| is_visible(&part, &app.catalogue.collections[collection], record));
        let exists = found.is_some_and(|record| record.exists || deleted);
        if exists { app.store.log(&tenant, collection, &record_key, before, limit).map(Some) } else { Ok(None) }
    };
    let entries = reading(read).await?.ok_or_else(|| not_found(&ctx, &key))?;
    let full = entries.len() == limit;
    let next = entries.last().filter(|_| full).map(|entry| entry.id);
    let shown: Vec<Json> = entries
        .into_iter()
        .map(|entry| {
            let at = show_timestamp(entry.at);
            json!({ "id": entry.id, "at": at, "transition": entry.transition, "caller": entry.caller, "change": entry.change })
        })
        .collect();
    Ok(json_answer(StatusCode::OK, json!({ "entries": shown, "next": next }).to_string()))
}

/// Creates a record.
pub async fn create(ctx: RequestContext, part: Part, body: Body) -> HandlerResult {
    change(ctx, part, None, Some((body, JSON)), EditAction::Create).await
}

/// Replaces the contribution of `api` to a record.
pub async fn put(mut ctx: RequestContext, part: Part, body: Body) -> HandlerResult {
    let key = ctx.key()?;
    change(ctx, part, Some(key), Some((body, JSON)), EditAction::Put).await
}

/// Changes the contribution of `api` to a record.
pub async fn patch(mut ctx: RequestContext, part: Part, body: Body) -> HandlerResult {
    let key = ctx.key()?;
    change(ctx, part, Some(key), Some((body, PATCH)), EditAction::Patch).await
}

/// Contributes for `api` that a record does not exist.
pub async fn delete(mut ctx: RequestContext, part: Part) -> HandlerResult {
    let key = ctx.key()?;
    let (is_erased, reason) = (ctx.params.flag("erase")?, ctx.params.single("reason")?);
    if is_erased {
        return erase(ctx, key, reason).await;
    }
    if reason.is_some() {
        return Err(Problem::unprocessable(vec!["`reason` is that of an erasure: say `erase=true`".to_owned()]));
    }
    change(ctx, part, Some(key), None, |_| EditAction::Delete).await
}

/// Erases a record with everything that was ever said of it.
async fn erase(ctx: RequestContext, key: Key, reason: Option<String>) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    // erasing again does nothing new, so no answer is kept; but a key that is none is a mistake
    call_of(&ctx, "erase", "")?;
    if revisions(&ctx, header::IF_MATCH)?.is_some() {
        return Err(Problem::unprocessable(vec!["a record is erased whatever its revision is: leave If-Match out".to_owned()]));
    }
    ctx.count_store_reached();
    let (app, tenant, name, caller) = (ctx.app.clone(), ctx.tenant.clone(), ctx.name().to_owned(), ctx.caller.name.to_string());
    let report = blocking(move || {
        let request = ErasureRequest { tenant: &tenant, collection: &name, key: key.as_str(), reason: reason.as_deref(), caller: &caller };
        erase::erase(&app.rules.catalogue, &*app.store, &request)
    })
    .await?;
    Ok(json_answer(StatusCode::OK, json!(report).to_string()))
}

/// The path of a record of the route's collection, for the header `Location`.
fn location(ctx: &RequestContext, key: &str) -> Option<HeaderValue> {
    let encoded: String = percent(key);
    HeaderValue::from_str(&format!("/v1/{}/{}/{encoded}", ctx.tenant, ctx.name())).ok()
}

/// The response to an edit that was done, also when the same idempotent call is repeated.
fn answered(ctx: &RequestContext, collection: CollectionId, answer: &EditAnswer) -> Response {
    let definition = ctx.definition(collection);
    let Some(record) = &answer.record else { return StatusCode::NO_CONTENT.into_response() };
    let status = if answer.created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = json_answer(status, record.to_string());
    response.headers_mut().insert(header::ETAG, etag(answer.version(), definition));
    if answer.created {
        response.headers_mut().extend(location(ctx, &answer.key).map(|location| (header::LOCATION, location)));
    }
    response
}

async fn change(
    mut ctx: RequestContext,
    part: Part,
    key: Option<Key>,
    body: Option<(Body, &[&str])>,
    action: impl FnOnce(EditFields) -> EditAction,
) -> HandlerResult {
    let collection = ctx.collection();
    let fields = match body {
        Some((body, media)) => {
            let clear = ctx.params.all("clear");
            ctx.params.end()?;
            EditFields::from_members(ctx.object(body, media).await?, clear)
        }
        None => {
            ctx.params.end()?;
            EditFields::default()
        }
    };
    let (is, is_not) = (revisions(&ctx, header::IF_MATCH)?, revisions(&ctx, header::IF_NONE_MATCH)?);
    let EditFields { values, clear, corrects, reason, .. } = &fields;
    let sent =
        format!("{key:?}\n{}\n{clear:?}\n{corrects}\n{reason}\nPreconditions {{ is: {is:?}, is_not: {is_not:?} }}", Json::Object(values.clone()));
    let hides = part.as_ref().is_some_and(|part| part.hides);
    let conditions = Preconditions { is, is_not, part };
    let action = action(fields);
    let call = call_of(&ctx, &format!("{} {}", action.name(), ctx.definition(collection).name), &sent)?;
    let edit = Edit { tenant: ctx.tenant.clone(), collection, key, action, conditions, caller: ctx.caller.name.to_string(), call };
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let edited = blocking(move || edit::run(&app.rules, &*app.store, &app.evaluator(), edit)).await?;
    if let Some(answer) = edited.answer(ctx.definition(collection)) {
        return Ok(answered(&ctx, collection, &answer));
    }
    Ok(match edited {
        EditResult::Replayed { same: true, answer: Some(answer) } => answered(&ctx, collection, &answer),
        EditResult::Replayed { .. } | EditResult::Done { .. } => return Err(used_before()),
        EditResult::Invalid(reasons) => return Err(Problem::unprocessable(reasons)),
        EditResult::KeyMismatch(reasons) => return Err(Problem { status: StatusCode::CONFLICT, ..Problem::unprocessable(reasons) }),
        EditResult::Missing => return Err(Problem::not_found(format!("there is no such {}", ctx.name()))),
        EditResult::Exists(key) => {
            let reason =
                if matches!(ctx.definition(collection).key, KeyDefinition::Field(_)) { "with this key" } else { "whose key these fields form" };
            let detail = format!("there is a {} {:?} {reason}; PATCH changes it", ctx.name(), key.as_str());
            let mut problem = Problem::new(StatusCode::CONFLICT, detail);
            problem.headers.extend(location(&ctx, key.as_str()).map(|location| (header::LOCATION, location)));
            return Err(problem);
        }
        EditResult::StaysDeleted(reason) => {
            return Err(Problem::new(StatusCode::CONFLICT, format!("the {} stays deleted: {reason}", ctx.name())));
        }
        EditResult::Erased => return Err(Problem::new(StatusCode::CONFLICT, ERASED)),
        EditResult::PreconditionFailed => {
            return Err(Problem::new(StatusCode::PRECONDITION_FAILED, "the record has changed since you read it; read it again"));
        }
        EditResult::OutOfReach { part, by_edit: false } if part.hides => {
            let detail = format!("this key is that of a {} that you may not see; use another one", ctx.name());
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        EditResult::OutOfReach { part, by_edit } => return Err(Problem::new(StatusCode::FORBIDDEN, part.refusal(ctx.name(), by_edit))),
        EditResult::UniqueConflict { field, .. } if hides => {
            let detail = format!("{field} must be unique: another record has this value");
            return Err(Problem::new(StatusCode::CONFLICT, detail).with("field", field));
        }
        EditResult::UniqueConflict { field, holder } => {
            let detail = format!("{field} must be unique: record {holder:?} has this value");
            return Err(Problem::new(StatusCode::CONFLICT, detail).with("field", field).with("holder", holder));
        }
    })
}
