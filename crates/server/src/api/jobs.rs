//! Import jobs by HTTP: made of an upload or of a file on the server, watched, cancelled.

use super::events;
use crate::api::response::json_answer;
use crate::guard::admission::AdmissionPermit;
use crate::guard::blocking::{blocking, reading};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::MOST_INTEGER;
use crate::guard::request::nothing_else;
use crate::guard::request::{JSON, RequestContext};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use serde_json::{Value as Json, json};
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use stook_catalogue::value::{FieldType, from_text, show_timestamp};
use stook_engine::import::{self, DryRunLimits, ImportRequest, UPLOADED, UploadRequest};
use stook_engine::requeue;
use stook_engine::settle::complete_delivery;
use stook_store::StoreError;
use stook_store::access::Role;
use stook_store::queue::{ChunkId, ChunkState, Job, JobId, JobState};

/// How long workers that have failed wait before they begin again, the first time; then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// How long at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A job as it is shown.
fn shown(job: &Job, now: i64) -> Json {
    let seconds = (job.finished.unwrap_or(now) - job.created) as f64 / 1e6;
    let files: Vec<Json> = job.files.iter().map(|file| json!({ "name": file.path, "bytes": file.size, "syntax": file.syntax })).collect();
    json!({
        "id": job.id,
        "kind": if stook_engine::tags::is_rebuild(&job.source).is_some() { "tags" } else { "import" },
        "tenant": job.tenant,
        "source": job.source,
        "profile": job.profile,
        "as_of": job.as_of.map(show_timestamp),
        "files": files,
        "state": job.state.name(),
        "reason": job.reason,
        "created": show_timestamp(job.created),
        "finished": job.finished.map(show_timestamp),
        "cut": job.progress.complete,
        "documents": job.done(),
        "planned": job.documents_known(),
        "counts": job.counts,
        "rate": (seconds > 0.0).then(|| job.counts.documents as f64 / seconds),
        "chunks_left": job.chunks_left,
        "chunks_working": job.chunks_working,
        "chunks_dead": job.chunks_dead,
    })
}

/// The job in the path, if it is the tenant's.
async fn job(ctx: &RequestContext) -> HandlerResult<Job> {
    let nothing = || Problem::missing(format!("there is no job {:?} here", ctx.segment("job")));
    let text = ctx.segment("job");
    let id: JobId = text
        .parse()
        .ok()
        .filter(|id| (1..=MOST_INTEGER as u64).contains(id) && text.bytes().all(|byte| byte.is_ascii_digit()))
        .ok_or_else(nothing)?;
    ctx.reaches_store();
    let app = ctx.app.clone();
    let found = reading(move || match app.store.job(id) {
        Ok(job) => Ok(Some(job)),
        Err(StoreError::Wrong(_)) => Ok(None),
        Err(error) => Err(error),
    });
    found.await?.filter(|job| job.tenant == ctx.tenant.as_str()).ok_or_else(nothing)
}

/// The tenant's newest jobs.
pub async fn list(mut ctx: RequestContext) -> HandlerResult {
    let limit = ctx.params.number("limit", 1, MOST_JOBS)?.unwrap_or(20) as usize;
    let troubled = ctx.params.flag("troubled")?;
    ctx.params.end()?;
    ctx.reaches_store();
    let (app, tenant) = (ctx.app.clone(), ctx.tenant.clone());
    let looked_at = if troubled { MOST_JOBS as usize } else { limit };
    let jobs = reading(move || app.store.jobs(Some(&tenant), looked_at)).await?;
    let now = ctx.app.store.clock();
    let is_wanted = |job: &&Job| !troubled || job.chunks_dead > 0 || job.state == JobState::Failed;
    let jobs: Vec<Json> = jobs.iter().filter(is_wanted).take(limit).map(|job| shown(job, now)).collect();
    Ok(json_answer(StatusCode::OK, json!({ "jobs": jobs }).to_string()))
}

/// One job.
pub async fn one(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let mut shown = shown(&job, ctx.app.store.clock());
    let app = ctx.app.clone();
    let (settled, replaced) = blocking(move || {
        let settled = job.state.is_final() && app.store.is_settled(job.id)?;
        Ok::<_, StoreError>((settled, complete_delivery::of_job(&*app.store, &app.catalogue, &job)?))
    })
    .await?;
    shown["settled"] = settled.into();
    if let Some(replaced) = replaced {
        shown["replaced"] = json!(replaced);
        shown["replaced"]["said"] = json!(replaced.sentences());
    }
    Ok(json_answer(StatusCode::OK, shown.to_string()))
}

/// What became of a job's documents.
pub async fn journal(mut ctx: RequestContext) -> HandlerResult {
    let limit = ctx.params.number("limit", 1, 10_000)?.unwrap_or(100) as usize;
    let after = ctx.params.number("after", 0, MOST_INTEGER as u64)?.unwrap_or(0);
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

/// A document that failed, as it was read.
pub async fn document(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let nothing = || Problem::missing("no such document; only the first failed documents of each chunk are kept, up to 64 KiB each");
    let number: u64 = ctx.segment("document").parse().map_err(|_| nothing())?;
    let app = ctx.app.clone();
    let bytes = reading(move || app.store.failed_document(job.id, number)).await?.ok_or_else(nothing)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes).into_response())
}

/// Puts smaller chunks in the place of a dead or waiting one: `{"documents": N}`.
pub async fn rechunk(ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.need(Role::Admin)?;
    ctx.params.end()?;
    let mut sent = ctx.object(body, JSON).await?;
    let documents = sent.remove("documents").and_then(|number| number.as_u64()).filter(|number| (1..=1_000_000).contains(number));
    let documents = documents.ok_or_else(|| Problem::wrong(vec!["documents: a whole number from 1 to 1000000".into()]))? as u32;
    nothing_else(&sent)?;
    let job = job(&ctx).await?;
    let nothing = || Problem::missing(format!("job {} has no such chunk", job.id));
    let ordinal: u32 = ctx.segment("chunk").parse().map_err(|_| nothing())?;
    let (app, id) = (ctx.app.clone(), job.id);
    let own = blocking(move || app.store.chunks(Some(id))).await?.into_iter().find(|chunk| chunk.ordinal == ordinal).ok_or_else(nothing)?;
    if own.state == ChunkState::Leased {
        return Err(Problem::new(StatusCode::CONFLICT, "the chunk is being processed"));
    }
    let app = ctx.app.clone();
    let parts = blocking(move || requeue::rechunk(&app.catalogue, &*app.store, ChunkId { job: id, ordinal }, documents)).await?;
    Ok(json_answer(StatusCode::OK, json!({ "chunks": parts }).to_string()))
}

/// Chunks of a job that wait, are worked on or are dead.
pub async fn chunks(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let chunks = reading(move || app.store.chunks(Some(job.id))).await?;
    let chunks: Vec<Json> = chunks.iter().map(|chunk| serde_json::to_value(chunk).unwrap_or_default()).collect();
    Ok(json_answer(StatusCode::OK, json!({ "chunks": chunks }).to_string()))
}

/// Ends a job; what was committed stays.
pub async fn cancel(ctx: RequestContext) -> HandlerResult {
    ctx.caller.need(Role::Write)?;
    ctx.params.end()?;
    let job = job(&ctx).await?;
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

/// Lets dead chunks wait again.
pub async fn retry(ctx: RequestContext) -> HandlerResult {
    ctx.caller.need(Role::Admin)?;
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let again = blocking(move || app.store.retry(job.id, None)).await?;
    Ok(json_answer(StatusCode::OK, json!({ "chunks": again }).to_string()))
}

/// `?profile=&source=&as_of=&name=&retire_all=` with the documents as the body, or `&path=` of a file on the server.
pub async fn create(mut ctx: RequestContext, body: Body) -> HandlerResult {
    ctx.caller.need(Role::Write)?;
    let described = UploadParams { retires_all: ctx.params.flag("retire_all")?, ..UploadParams::read(&mut ctx)? };
    let path = named(&mut ctx, "path")?;
    let dry_run = ctx.params.flag("dry_run")?;
    ctx.params.end()?;
    if dry_run {
        return tried(&ctx, body, described, path).await;
    }
    let job = match path {
        Some(path) => of_file(&ctx, described.request(&ctx, own_file(&ctx, &path)?)).await?,
        None => {
            let size = ctx.header(header::CONTENT_LENGTH)?.and_then(|size| size.parse().ok());
            of_upload(&ctx, body, described.upload(&ctx, size)).await?
        }
    };
    let mut response = json_answer(StatusCode::ACCEPTED, shown(&job, ctx.app.store.clock()).to_string());
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/{}/jobs/{}", ctx.tenant, job.id)) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// What documents are, as their sender says.
pub struct UploadParams {
    profile: Option<String>,
    source: Option<String>,
    as_of: Option<i64>,
    name: Option<String>,
    retires_all: bool,
}

/// A parameter that is a name.
fn named(ctx: &mut RequestContext, parameter: &'static str) -> HandlerResult<Option<String>> {
    let named = ctx.params.one(parameter)?;
    let is_wrong = |named: &String| named.chars().count() > MOST_NAMED || named.chars().any(char::is_control);
    match named.as_ref().is_some_and(is_wrong) {
        true => Err(Problem::bad(format!("names have at most {MOST_NAMED} characters, and no control characters"))),
        false => Ok(named),
    }
}

impl UploadParams {
    /// Reads `?profile=&source=&as_of=&name=`.
    ///
    /// # Errors
    /// 400 when one of them cannot be read.
    pub fn read(ctx: &mut RequestContext) -> HandlerResult<Self> {
        let as_of = match ctx.params.one("as_of")? {
            None => None,
            Some(text) => {
                let time = from_text(&text, &FieldType::Timestamp, None).map_err(|error| Problem::bad(format!("as_of: {error}")))?;
                time.as_int()
            }
        };
        let (profile, source, name) = (named(ctx, "profile")?, named(ctx, "source")?, named(ctx, "name")?);
        Ok(Self { profile, source, as_of, name, retires_all: false })
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("documents")
    }

    /// The same as bytes that come in, `size` of them if that is known.
    pub fn upload(self, ctx: &RequestContext, size: Option<u64>) -> UploadRequest {
        let name = format!("{UPLOADED}{}", self.name());
        UploadRequest {
            name,
            size,
            profile: self.profile,
            source: self.source,
            tenant: ctx.tenant.clone(),
            as_of: self.as_of,
            retires_all: self.retires_all,
        }
    }

    /// The same as a file.
    fn request(self, ctx: &RequestContext, file: PathBuf) -> ImportRequest {
        let (files, tenant) = (vec![file], ctx.tenant.clone());
        ImportRequest { files, profile: self.profile, source: self.source, tenant, as_of: self.as_of, part: None, retires_all: self.retires_all }
    }
}

async fn of_file(ctx: &RequestContext, request: ImportRequest) -> HandlerResult<Job> {
    let app = ctx.app.clone();
    ctx.reaches_store();
    blocking(move || {
        let job = import::create(&app.catalogue, &*app.store, &request)?;
        let cut = import::cut(&app.catalogue, &*app.store, job, &AtomicBool::new(false), &|_| {});
        if let Err(error) = &cut {
            app.store.end_job(job, JobState::Failed, &error.to_string())?;
        }
        cut
    })
    .await
}

/// Most characters of a name that comes with documents.
pub const MOST_NAMED: usize = 255;
/// Most jobs that are listed, or looked at.
pub const MOST_JOBS: u64 = 1_000;
/// Documents of a dry run.
const TRIED: DryRunLimits = DryRunLimits { documents: 1_000, troubles: 100 };
/// Bytes that are taken for it.
const MOST_TRIED: u64 = 64 << 20;

/// What an import would make of its first documents; nothing is changed.
async fn tried(ctx: &RequestContext, body: Body, described: UploadParams, path: Option<String>) -> HandlerResult {
    let failed = |error: std::io::Error| Problem::unavailable(format!("the disk is full: {error}"));
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = match path {
        Some(path) => own_file(ctx, &path)?,
        None => {
            // rules may look at the name
            let name = Path::new(described.name()).file_name().unwrap_or("documents".as_ref());
            let file = folder.path().join(name);
            let mut out = std::fs::File::create(&file).map_err(failed)?;
            let (mut stream, mut taken) = (body.into_data_stream(), 0);
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(Problem::unread)?;
                taken += bytes.len() as u64;
                if taken <= MOST_TRIED {
                    out.write_all(&bytes).map_err(failed)?;
                } else if taken > ctx.app.options.upload {
                    break;
                }
            }
            file
        }
    };
    ctx.reaches_store();
    let app = ctx.app.clone();
    let request = described.request(ctx, file);
    let preview = blocking(move || import::dry_run(&app.catalogue, &*app.store, &request, TRIED)).await;
    drop(folder);
    Ok(json_answer(StatusCode::OK, preview?.to_json().to_string()))
}

/// A file of the server that the caller names.
fn own_file(ctx: &RequestContext, path: &str) -> HandlerResult<PathBuf> {
    let root = ctx.app.options.files.as_ref();
    let none = || Problem::new(StatusCode::FORBIDDEN, "importing files of the server is disabled; start it with --files DIR");
    inside(root.ok_or_else(none)?, path)
}

/// A file below the folder that is allowed, links followed.
fn inside(root: &Path, path: &str) -> HandlerResult<PathBuf> {
    let nothing = || Problem::missing(format!("there is no file {path:?} in the server's folder"));
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !plain {
        return Err(nothing());
    }
    let root = root.canonicalize().map_err(|_| nothing())?;
    let file = root.join(path).canonicalize().map_err(|_| nothing())?;
    if file.starts_with(&root) && file.is_file() { Ok(file) } else { Err(nothing()) }
}

async fn of_upload(ctx: &RequestContext, body: Body, upload: UploadRequest) -> HandlerResult<Job> {
    let limit = ctx.app.options.upload;
    let too_long = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("an upload has at most {limit} bytes"));
    if upload.size.is_some_and(|size| size > limit) {
        return Err(too_long());
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(8);
    let app = ctx.app.clone();
    ctx.reaches_store();
    let place = AdmissionPermit::now();
    let cutting = tokio::task::spawn_blocking(move || {
        let _place = place;
        let bytes = Box::new(UploadReader { receiver, chunk: Bytes::new(), ended: false });
        import::upload(&app.catalogue, &*app.store, &upload, bytes, &mut |_| {})
    });
    let mut stream = body.into_data_stream();
    let mut taken = 0;
    let mut over = None;
    loop {
        let next = match stream.next().await {
            // nothing is the end; whoever cuts takes silence for a peer that has gone
            None => {
                let _ = sender.send(Ok(Bytes::new())).await;
                break;
            }
            Some(Ok(bytes)) if bytes.is_empty() => continue,
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(format!("the upload was incomplete: {}", Problem::unread(error).detail)),
        };
        taken += next.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let next = if taken > limit { Err(too_long().detail) } else { next };
        let failed = next.as_ref().err().cloned();
        let sent = sender.send(next.map_err(std::io::Error::other)).await;
        if let Some(reason) = failed {
            over = Some(if taken > limit { too_long() } else { Problem::new(StatusCode::REQUEST_TIMEOUT, reason) });
            break;
        }
        // whoever cuts has ended: because of an error, which it tells
        if sent.is_err() {
            break;
        }
    }
    drop(sender);
    let job = cutting.await?;
    match over {
        Some(problem) => Err(problem),
        None => Ok(job?),
    }
}

/// Reads what comes in by another thread. An empty chunk is the end; without it the upload was cut off.
struct UploadReader {
    receiver: tokio::sync::mpsc::Receiver<std::io::Result<Bytes>>,
    chunk: Bytes,
    ended: bool,
}

impl Read for UploadReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.chunk.is_empty() {
            if self.ended {
                return Ok(0);
            }
            match self.receiver.blocking_recv() {
                None => return Err(std::io::Error::other("the upload was cut off")),
                Some(next) => {
                    self.chunk = next?;
                    self.ended = self.chunk.is_empty();
                }
            }
        }
        let length = self.chunk.len().min(buffer.len());
        self.chunk.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// A job as server-sent events.
pub async fn events(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let id = job(&ctx).await?.id;
    let app = ctx.app.clone();
    let look = move || {
        let own = app.clone();
        async move {
            let job = tokio::task::spawn_blocking(move || own.store.job(id)).await.ok()?.ok()?;
            // a rate changes with the time, which is no news
            Some((shown(&job, job.created).to_string(), job.state.is_final() && job.chunks_left == 0))
        }
    };
    Ok(events::watch(ctx.app, look))
}

/// Import workers of a server: they serve the queue until `stop` says otherwise. Where they fail they begin again after a pause, until then
/// the server is not ready.
pub fn work(app: &Arc<crate::App>, options: &stook_engine::work::WorkerOptions, stop: &AtomicBool) -> stook_engine::Result<()> {
    let tell = |event| {
        if let stook_engine::work::WorkerEvent::TaskDone(stage) = &event {
            app.metrics.worked(stage);
        }
        crate::log::worked(&event);
    };
    let failed_with = |reason: Option<String>| *app.workers_failed.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let worked = stook_engine::work::run(&app.catalogue, &*app.store, options, stop, &tell);
        let Err(error) = &worked else { return worked };
        let reason = format!("the import workers stopped: {error}");
        failed_with(Some(reason.clone()));
        if began.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        let again = Instant::now() + pause;
        crate::log::write("work", [("error", format!("{reason}; they restart in {} s", pause.as_secs()).into())]);
        while Instant::now() < again {
            if stop.load(Ordering::SeqCst) {
                return worked;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
        failed_with(None);
    }
}
