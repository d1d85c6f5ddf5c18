//! The failed documents of a job by HTTP: as files, and imported again.

use super::export::streamed;
use super::jobs::{job, own_job, shown};
use super::transitions::refuse_key;
use super::uploads::accepted;
use crate::guard::blocking::{blocking, reading};
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::undecided::{Decides, UndecidedContext};
use axum::http::{HeaderName, HeaderValue, header};
use std::io::Write;
use std::path::Path;
use stook_engine::EngineError;
use stook_engine::import::{self, FailedFiles, FailedReport, Together, UPLOADED};
use stook_store::Store;
use stook_store::queue::JobFile;

/// The number of files in which the documents are.
const PARTS: HeaderName = HeaderName::from_static("stook-parts");
/// The number of failed documents that are not kept.
const NOT_KEPT: HeaderName = HeaderName::from_static("stook-not-kept");

/// Passes on one of the files, and nothing of the others.
struct Part<'o> {
    wanted: u64,
    begun: u64,
    /// The name of the file from which the first of its documents came.
    name: String,
    out: &'o mut dyn Write,
    nowhere: std::io::Sink,
}

impl<'o> Part<'o> {
    fn new(wanted: u64, out: &'o mut dyn Write) -> Self {
        Self { wanted, begun: 0, name: String::new(), out, nowhere: std::io::sink() }
    }
}

impl FailedFiles for Part<'_> {
    fn begin(&mut self, file: &JobFile) -> Result<(), EngineError> {
        self.begun += 1;
        if self.begun == self.wanted {
            self.name = Path::new(file.path.strip_prefix(UPLOADED).unwrap_or(&file.path)).file_name().unwrap_or_default().to_string_lossy().into();
        }
        Ok(())
    }

    fn out(&mut self) -> &mut dyn Write {
        if self.begun == self.wanted { self.out } else { &mut self.nowhere }
    }
}

/// `?part=N`: the failed documents as a file that their source reads; usually one, or the Nth if they cannot be in one file.
pub async fn get(ctx: UndecidedContext) -> HandlerResult {
    let mut ctx = ctx.decided(Decides::ByJob);
    let part = ctx.params.number("part", 1, u64::from(u32::MAX))?.unwrap_or(1);
    ctx.params.end()?;
    let job = job(&ctx).await?;
    let app = ctx.app.clone();
    let counted = job.clone();
    // how many there are is known only when all were seen
    let (report, name): (FailedReport, String) = reading(move || {
        let mut out = std::io::sink();
        let mut files = Part::new(part, &mut out);
        let store: &dyn Store = &*app.store;
        let report = import::write_failed(&app.catalogue, store, &counted, Together::AllFiles, &mut files)?;
        Ok::<_, EngineError>((report, files.name))
    })
    .await?;
    if part > report.files.len() as u64 {
        let nothing = || match part {
            1 => format!("job {} has no failed documents", job.id),
            _ => format!("the failed documents of job {} are {} files", job.id, report.files.len()),
        };
        return Err(Problem::not_found(report.sentence().filter(|_| part == 1).unwrap_or_else(nothing)));
    }
    let (app, id) = (ctx.app.clone(), job.id);
    let mut response = streamed("application/octet-stream", move |out| {
        let store: &dyn Store = &*app.store;
        import::write_failed(&app.catalogue, store, &job, Together::AllFiles, &mut Part::new(part, out))?;
        Ok(())
    });
    let headers = response.headers_mut();
    headers.insert(PARTS, HeaderValue::from(report.files.len()));
    headers.insert(NOT_KEPT, HeaderValue::from(report.not_kept.len()));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", file_name(id, &name))) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

/// The name of a file with failed documents of a job, which were in a file of this name.
fn file_name(job: u64, name: &str) -> String {
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let plain: String = name.chars().map(|letter| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '_' }).collect();
    format!("failed-{job}-{plain}")
}

/// Imports the failed documents again, as a job of its own.
pub async fn retry(ctx: UndecidedContext) -> HandlerResult {
    let ctx = ctx.decided(Decides::ByJob);
    ctx.params.end()?;
    refuse_key(&ctx, "sent again, it is another job, in which all documents are unchanged")?;
    let job = own_job(&ctx).await?;
    let app = ctx.app.clone();
    let (new, report) = blocking(move || import::retry(&app.catalogue, &*app.store, &job)).await?;
    let mut shown = shown(&new, ctx.app.store.clock());
    shown["not_kept"] = report.not_kept.into();
    Ok(accepted(&ctx, &new, &shown))
}
