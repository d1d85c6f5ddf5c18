//! Imports by HTTP: jobs made of an upload or of a file on the server, and dry runs.

use super::jobs::shown;
use crate::api::response::json_answer;
use crate::api::transitions::refuse_key;
use crate::guard::admission::AdmissionPermit;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use serde_json::Value as Json;
use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;
use stook_catalogue::value::{FieldType, from_text};
use stook_engine::import::{self, DryRunLimits, ImportRequest, UPLOADED, UploadRequest};
use stook_engine::job::source::find_source;
use stook_store::access::{Operation, Role};
use stook_store::audit::AuditScope;
use stook_store::queue::{Job, JobState};

/// `?profile=&source=&as_of=&name=&retire_all=&accept_unexpected=` with the documents as the body, or `&path=` of a file on the server.
pub async fn create(ctx: UndecidedContext, body: Body) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::BySource);
    refuse_key(&ctx, "sent again, it is another job, in which all documents are unchanged")?;
    let (retires_all, unexpected) = (ctx.params.flag("retire_all")?, ctx.params.flag("accept_unexpected")?);
    let params = UploadParams { retires_all, unexpected, ..UploadParams::read(&mut ctx)? };
    params.check_allowed(&ctx)?;
    let path = name_param(&mut ctx, "path")?;
    let dry_run = ctx.params.flag("dry_run")?;
    ctx.params.end()?;
    if dry_run {
        return dry_run_response(&ctx, body, params, path).await;
    }
    let job = match path {
        Some(path) => import_file(&ctx, params.request(&ctx, server_file(&ctx, &path)?)).await?,
        None => {
            let size = ctx.header(header::CONTENT_LENGTH)?.and_then(|size| size.parse().ok());
            import_upload(&ctx, body, params.upload(&ctx, size)).await?
        }
    };
    Ok(accepted(&ctx, &job, &shown(&job, ctx.app.store.clock())))
}

/// The response that a job was created.
pub fn accepted(ctx: &RequestContext, job: &Job, shown: &Json) -> Response {
    let mut response = json_answer(StatusCode::ACCEPTED, shown.to_string());
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/{}/jobs/{}", ctx.tenant, job.id)) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Parameters that describe uploaded documents.
pub struct UploadParams {
    profile: Option<String>,
    source: Option<String>,
    as_of: Option<i64>,
    name: Option<String>,
    retires_all: bool,
    unexpected: bool,
}

/// Reads a parameter that is a name.
fn name_param(ctx: &mut RequestContext, parameter: &'static str) -> HandlerResult<Option<String>> {
    let name = ctx.params.single(parameter)?;
    let is_wrong = |name: &String| name.chars().count() > MAX_NAME_CHARS || name.chars().any(char::is_control);
    match name.as_ref().is_some_and(is_wrong) {
        true => Err(Problem::bad_request(format!("names have at most {MAX_NAME_CHARS} characters, and no control characters"))),
        false => Ok(name),
    }
}

impl UploadParams {
    /// Reads `?profile=&source=&as_of=&name=`.
    ///
    /// # Errors
    /// 400 when one of them cannot be read.
    pub fn read(ctx: &mut RequestContext) -> HandlerResult<Self> {
        let as_of = match ctx.params.single("as_of")? {
            None => None,
            Some(text) => {
                let time = from_text(&text, &FieldType::Timestamp, None).map_err(|error| Problem::bad_request(format!("as_of: {error}")))?;
                time.as_int()
            }
        };
        let (profile, source, name) = (name_param(ctx, "profile")?, name_param(ctx, "source")?, name_param(ctx, "name")?);
        Ok(Self { profile, source, as_of, name, retires_all: false, unexpected: false })
    }

    /// Checks that the caller may import: whatever it is, or documents of the source that it names.
    ///
    /// # Errors
    /// 403 when it may not; 422 when it must name a source.
    pub fn check_allowed(&self, ctx: &RequestContext) -> HandlerResult<()> {
        let rights = &ctx.caller.rights;
        if rights.may_everywhere(Operation::Import) {
            return Ok(());
        }
        if rights.is_role() {
            return ctx.caller.require_role(Role::Write);
        }
        let Some(name) = &self.source else {
            let reason = format!("source: a token that may {rights} must name the source of the documents (?source=)");
            return Err(Problem::unprocessable(vec![reason]));
        };
        let source = find_source(&ctx.app.catalogue, name)?;
        ctx.require_source(source)
    }

    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("documents")
    }

    /// Makes a request to import uploaded bytes, `size` of them if that is known.
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
            unexpected: self.unexpected,
        }
    }

    /// Makes a request to import a file.
    fn request(self, ctx: &RequestContext, file: PathBuf) -> ImportRequest {
        let (files, tenant) = (vec![file], ctx.tenant.clone());
        ImportRequest {
            files,
            profile: self.profile,
            source: self.source,
            tenant,
            as_of: self.as_of,
            part: None,
            arguments: Default::default(),
            retires_all: self.retires_all,
            unexpected: self.unexpected,
        }
    }
}

async fn import_file(ctx: &RequestContext, request: ImportRequest) -> HandlerResult<Job> {
    let app = ctx.app.clone();
    ctx.count_store_reached();
    blocking(move || {
        let job = import::create(&app.catalogue, &*app.store, &request)?;
        let cut = import::split_files(&app.catalogue, &*app.store, job, &AtomicBool::new(false), &|_| {});
        if let Err(error) = &cut {
            app.store.end_job(job, JobState::Failed, &error.to_string())?;
        }
        cut
    })
    .await
}

/// Max characters of a name.
pub const MAX_NAME_CHARS: usize = 255;
/// Limits of a dry run.
const DRY_RUN_LIMITS: DryRunLimits = DryRunLimits { documents: 1_000, troubles: 100 };
/// Max bytes of an upload that a dry run keeps.
const MAX_DRY_RUN_BYTES: u64 = 64 << 20;

/// Reports what an import would do with its first documents; nothing is changed.
async fn dry_run_response(ctx: &RequestContext, body: Body, params: UploadParams, path: Option<String>) -> HandlerResult {
    let disk_problem = |error: std::io::Error| Problem::unavailable(format!("the disk is full: {error}"));
    let folder = tempfile::tempdir().map_err(disk_problem)?;
    let is_upload = path.is_none();
    let file = match path {
        Some(path) => server_file(ctx, &path)?,
        None => {
            // the rules that choose a source may test the file name
            let name = Path::new(params.name()).file_name().unwrap_or("documents".as_ref());
            let file = folder.path().join(name);
            let mut out = std::fs::File::create(&file).map_err(disk_problem)?;
            let (mut stream, mut received) = (body.into_data_stream(), 0);
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(Problem::unreadable_body)?;
                received += bytes.len() as u64;
                if received <= MAX_DRY_RUN_BYTES {
                    out.write_all(&bytes).map_err(disk_problem)?;
                } else if received > ctx.app.options.upload {
                    break;
                }
            }
            file
        }
    };
    ctx.count_store_reached();
    let app = ctx.app.clone();
    let request = params.request(ctx, file);
    let preview = blocking(move || import::dry_run(&app.catalogue, &*app.store, &request, DRY_RUN_LIMITS)).await;
    // callers know the upload by its name, not by where it was for a moment
    let name = |text: &str| if is_upload { without_folder(text, folder.path()) } else { text.to_owned() };
    let mut preview = preview.map_err(|problem| Problem { detail: name(&problem.detail), ..problem })?;
    preview.files.iter_mut().for_each(|file| file.path = name(&file.path));
    Ok(json_answer(StatusCode::OK, preview.to_json().to_string()))
}

/// A text without the path of a folder in front of names of files in it.
fn without_folder(text: &str, folder: &Path) -> String {
    let canonical = folder.canonicalize();
    let paths = [Some(folder), canonical.as_deref().ok()].into_iter().flatten();
    paths.fold(text.to_owned(), |text, path| text.replace(&format!("{}/", path.display()), ""))
}

/// Returns the path of a server file that the caller names. Each tenant has a folder of its own.
fn server_file(ctx: &RequestContext, path: &str) -> HandlerResult<PathBuf> {
    let root = ctx.app.options.files.as_ref();
    let not_enabled = || Problem::new(StatusCode::FORBIDDEN, "importing files of the server is disabled; start it with --files DIR");
    resolve_inside(&root.ok_or_else(not_enabled)?.join(ctx.tenant.as_str()), path)
}

/// Resolves a path below the allowed folder, following symbolic links.
fn resolve_inside(root: &Path, path: &str) -> HandlerResult<PathBuf> {
    let not_found = || Problem::not_found(format!("there is no file {path:?} in the tenant's folder below `--files`"));
    let is_plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_plain {
        return Err(not_found());
    }
    let root = root.canonicalize().map_err(|_| not_found())?;
    let file = root.join(path).canonicalize().map_err(|_| not_found())?;
    if file.starts_with(&root) && file.is_file() { Ok(file) } else { Err(not_found()) }
}

async fn import_upload(ctx: &RequestContext, body: Body, upload: UploadRequest) -> HandlerResult<Job> {
    let limit = ctx.app.options.upload;
    let too_long = || Problem::new(StatusCode::PAYLOAD_TOO_LARGE, format!("an upload has at most {limit} bytes"));
    if upload.size.is_some_and(|size| size > limit) {
        return Err(too_long());
    }
    let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<Bytes>>(8);
    let app = ctx.app.clone();
    ctx.count_store_reached();
    let (permit, scope) = (AdmissionPermit::current(), AuditScope::current());
    let cutting = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let bytes = Box::new(UploadReader { receiver, chunk: Bytes::new(), ended: false });
        let cut = || import::upload(&app.catalogue, &*app.store, &upload, bytes, &mut |_| {});
        if let Some(scope) = scope { scope.during(cut) } else { cut() }
    });
    let mut stream = body.into_data_stream();
    let mut received = 0;
    let mut refusal = None;
    loop {
        let next = match stream.next().await {
            // an empty chunk marks the end; the reader takes a closed channel for a cut-off upload
            None => {
                let _ = sender.send(Ok(Bytes::new())).await;
                break;
            }
            Some(Ok(bytes)) if bytes.is_empty() => continue,
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(error)) => Err(format!("the upload was incomplete: {}", Problem::unreadable_body(error).detail)),
        };
        received += next.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let next = if received > limit { Err(too_long().detail) } else { next };
        let failed = next.as_ref().err().cloned();
        let sent = sender.send(next.map_err(std::io::Error::other)).await;
        if let Some(reason) = failed {
            refusal = Some(if received > limit { too_long() } else { Problem::new(StatusCode::REQUEST_TIMEOUT, reason) });
            break;
        }
        // the splitting thread has ended with an error, which it returns below
        if sent.is_err() {
            break;
        }
    }
    drop(sender);
    let job = cutting.await?;
    match refusal {
        Some(problem) => Err(problem),
        None => Ok(job?),
    }
}

/// Reads chunks from another thread. An empty chunk is the end; if the channel closes without one, the upload was cut off.
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
