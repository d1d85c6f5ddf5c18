//! Jobs by HTTP: listing, watching and cancelling them; their chunks and documents.

use super::events;
use crate::api::response::json_answer;
use crate::api::transitions::{SAME_AGAIN, refuse_key};
use crate::guard::blocking::{blocking, reading};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::MAX_INTEGER;
use crate::guard::request::reject_other_members;
use crate::guard::request::{JSON, RequestContext};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value as Json, json};
use stook_catalogue::value::show_timestamp;
use stook_engine::EngineError;
use stook_engine::requeue;
use stook_engine::settle::complete_delivery;
use stook_engine::undo;
use stook_store::StoreError;
use stook_store::access::Role;
use stook_store::queue::{ChunkId, ChunkState, Job, JobFile, JobId, JobState};

/// Max jobs that are listed or searched.
pub const MAX_JOBS: u64 = 1_000;

/// Returns a job as JSON.
pub fn shown(job: &Job, now: i64) -> Json {
    let seconds = (job.finished.unwrap_or(now) - job.created) as f64 / 1e6;
    let file = |file: &JobFile| {
        let mut shown = json!({ "name": file.path, "bytes": file.size, "syntax": file.syntax });
        if let Some(checks) = &file.checks {
            shown["checks"] = json!({ "documents": checks.documents, "as_of": show_timestamp(checks.as_of), "expectations": checks.expectations });
        }
        shown
    };
    let files: Vec<Json> = job.files.iter().map(file).collect();
    json!({
        "id": job.id,
        "kind": kind(job),
        "tenant": job.tenant,
        "source": job.source,
        "profile": job.profile,
        "as_of": job.as_of.map(show_timestamp),
        "files": files,
        "state": job.state.name(),
        "reason": job.reason,
        "undoes": job.undoes(),
        "undone_by": job.undone_by(),
        "created": show_timestamp(job.created),
        "finished": job.finished.map(show_timestamp),
        "cut": job.progress.complete,
        "documents": job.documents_done(),
        "planned": job.documents_found(),
        "counts": job.counts,
        "rate": (seconds > 0.0).then(|| job.counts.documents as f64 / seconds),
        "chunks_left": job.chunks_left,
        "chunks_working": job.chunks_working,
        "chunks_dead": job.chunks_dead,
    })
}

/// What a job does: it imports, evaluates tags, or undoes another job.
fn kind(job: &Job) -> &'static str {
    match job.undoes() {
        Some(_) => "undo",
        None if stook_engine::tags::is_rebuild(&job.source).is_some() => "tags",
        None => "import",
    }
}

/// Returns the job in the path, if it is the tenant's and the caller may see its source.
pub async fn job(ctx: &RequestContext) -> HandlerResult<Job> {
    let not_found = || Problem::not_found(format!("there is no job {:?} here", ctx.segment("job")));
    let text = ctx.segment("job");
    let id: JobId = text
        .parse()
        .ok()
        .filter(|id| (1..=MAX_INTEGER as u64).contains(id) && text.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or_else(not_found)?;
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let found = reading(move || match app.store.job(id) {
        Ok(job) => Ok(Some(job)),
        Err(StoreError::Wrong(_)) => Ok(None),
        Err(error) => Err(error),
    });
    found.await?.filter(|job| job.tenant == ctx.tenant.as_str() && ctx.sees_source(&job.source)).ok_or_else(not_found)
}

/// Returns the job in the path, if the caller may also import documents of its source.
///
/// # Errors
/// 404, or 403 if it may only see the job.
pub async fn own_job(ctx: &RequestContext) -> HandlerResult<Job> {
    let job = job(ctx).await?;
    match ctx.app.catalogue.source(&job.source) {
        Some((source, _)) => ctx.require_source(source)?,
        None => ctx.caller.require_role(Role::Write)?,
    }
    Ok(job)
}

/// Lists the tenant's newest jobs whose sources the caller may see.
pub async fn list(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByJob);
    let limit = ctx.params.number("limit", 1, MAX_JOBS)?.unwrap_or(20) as usize;
    let troubled = ctx.params.flag("troubled")?;
    ctx.params.end()?;
    ctx.count_store_reached();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let searched = if troubled || ctx.caller.require_role(Role::Read).is_err() { MAX_JOBS as usize } else { limit };
    let jobs = reading(move || app.store.jobs(Some(&tenant), searched)).await?;
    let now = ctx.app.store.clock();
    let is_wanted = |job: &&Job| ctx.sees_source(&job.source) && (!troubled || job.chunks_dead > 0 || job.state == JobState::Failed);
    let jobs: Vec<Json> = jobs.iter().filter(is_wanted).take(limit).map(|job| shown(job, now)).collect();
    Ok(json_answer(StatusCode::OK, json!({ "jobs": jobs }).to_string()))
}

/// Returns one job.
pub async fn get(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let mut shown = shown(&job, ctx.app.store.clock());
    let app = ctx.app.clone();
    let (settled, undoable, replaced) = blocking(move || {
        let settled = job.state.is_final() && app.store.is_settled(job.id)?;
        let undoable = if job.state == JobState::Undone { None } else { undo::undoable(&app.catalogue, &*app.store, &job).ok() };
        Ok::<_, StoreError>((settled, undoable, complete_delivery::retirement_report(&*app.store, &app.catalogue, &job)?))
    })
    .await?;
    shown["settled"] = settled.into();
    shown["undoable_until"] = json!(undoable.map(|undoable| show_timestamp(undoable.until)));
    if let Some(replaced) = replaced {
        shown["replaced"] = json!(replaced);
        shown["replaced"]["said"] = json!(replaced.sentences());
    }
    Ok(json_answer(StatusCode::OK, shown.to_string()))
}

/// Returns the journal of a job.
pub async fn journal(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByJob);
    let limit = ctx.params.number("limit", 1, 10_000)?.unwrap_or(100) as usize;
    let after = ctx.params.number("after", 0, MAX_INTEGER as u64)?.unwrap_or(0);
    let errors = ctx.params.flag("errors")?;
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let id = job.id;
    let entries = reading(move || app.store.journal(id, after, limit, errors)).await?;
    let next = if entries.len() >= limit { entries.last().map(|entry| entry.document) } else { None };
    let entries: Vec<Json> = entries.iter().map(|entry| serde_json::to_value(entry).unwrap_or_default()).collect();
    Ok(json_answer(StatusCode::OK, json!({ "entries": entries, "next": next }).to_string()))
}

/// Returns a failed document as it was read.
pub async fn document(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let not_found = || Problem::not_found("no such document; of a chunk, failed documents are kept up to 1 MiB, each up to 256 KiB");
    let number: u64 = ctx.segment("document").parse().map_err(|_| not_found())?;
    let app = ctx.app.clone();
    let bytes = reading(move || app.store.failed_document(job.id, number)).await?.ok_or_else(not_found)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Replaces a dead or waiting chunk by smaller ones: `{"documents": N}`.
pub async fn rechunk(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let mut sent = ctx.object(body, JSON).await?;
    let documents = sent.remove("documents").and_then(|number| number.as_u64()).filter(|number| (1..=1_000_000).contains(number));
    let documents = documents.ok_or_else(|| Problem::unprocessable(vec!["documents: a whole number from 1 to 1000000".into()]))? as u32;
    reject_other_members(&sent, &["documents"])?;
    let job = job(&ctx).await?;
    let not_found = || Problem::not_found(format!("job {} has no such chunk", job.id));
    let ordinal: u32 = ctx.segment("chunk").parse().map_err(|_| not_found())?;
    let (app, id) = (ctx.app.clone(), job.id);
    let chunk = blocking(move || app.store.chunks(Some(id))).await?.into_iter().find(|chunk| chunk.ordinal == ordinal).ok_or_else(not_found)?;
    if chunk.state == ChunkState::Leased {
        return Err(Problem::new(StatusCode::CONFLICT, "the chunk is being processed"));
    }
    let app = ctx.app.clone();
    let parts = blocking(move || requeue::rechunk(&app.catalogue, &*app.store, ChunkId { job: id, ordinal }, documents)).await?;
    Ok(json_answer(StatusCode::OK, json!({ "chunks": parts }).to_string()))
}

/// Lists the chunks of a job that wait, are leased or are dead.
pub async fn chunks(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let chunks = reading(move || app.store.chunks(Some(job.id))).await?;
    let chunks: Vec<Json> = chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap_or_default()).collect();
    Ok(json_answer(StatusCode::OK, json!({ "chunks": chunks }).to_string()))
}

/// Cancels a job; what was committed stays.
pub async fn cancel(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    refuse_key(&ctx, "a job that has ended is not cancelled again")?;
    let job = own_job(&ctx).await?;
    if job.state.is_final() {
        return Err(Problem::new(StatusCode::CONFLICT, format!("the job has ended: {}", job.state.name())));
    }
    let (app, caller) = (ctx.app.clone(), ctx.caller.name.clone());
    let ended = blocking(move || {
        app.store.end_job(job.id, JobState::Cancelled, &format!("cancelled by {}", if caller.is_empty() { "somebody" } else { &caller }))?;
        app.store.job(job.id)
    });
    Ok(json_answer(StatusCode::OK, shown(&ended.await?, ctx.app.store.clock()).to_string()))
}

/// Creates the job that undoes a job; workers run it.
pub async fn undo(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    refuse_key(&ctx, "a job is undone only once")?;
    let job = own_job(&ctx).await?;
    let app = ctx.app.clone();
    let started = blocking(move || match undo::start(&app.catalogue, &*app.store, job.id) {
        Ok(undo) => Ok(Ok(app.store.job(undo)?)),
        Err(EngineError::Wrong(reason) | EngineError::Store(StoreError::Wrong(reason))) => Ok(Err(Problem::new(StatusCode::CONFLICT, reason))),
        Err(error) => Err(error),
    });
    let undo = started.await??;
    Ok(json_answer(StatusCode::ACCEPTED, shown(&undo, ctx.app.store.clock()).to_string()))
}

/// Puts dead chunks back into the queue.
pub async fn retry(ctx: RequestContext) -> HandlerResult {
    ctx.caller.require_role(Role::Admin)?;
    ctx.params.end()?;
    refuse_key(&ctx, SAME_AGAIN)?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let requeued = blocking(move || app.store.retry(job.id, None)).await?;
    Ok(json_answer(StatusCode::OK, json!({ "chunks": requeued }).to_string()))
}

/// Sends the progress of a job as server-sent events.
pub async fn events(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    let id = job(&ctx).await?.id;
    let app = ctx.app.clone();
    let read_state = move || {
        let app = app.clone();
        async move {
            let job = tokio::task::spawn_blocking(move || app.store.job(id)).await.ok()?.ok()?;
            // computed at the time of creation, because a rate that changes with the time is no news
            Some((shown(&job, job.created).to_string(), job.state.is_final() && job.chunks_left == 0))
        }
    };
    Ok(events::watch(ctx.app, read_state))
}
