//! Lab runs from the folder given to the server. They belong to no tenant; only admins see them.

use crate::api::response::json_answer;
use crate::guard::blocking::blocking;
use crate::guard::problem::{HandlerResult, Problem};
use crate::guard::request::RequestContext;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use stook_catalogue::value::show_timestamp;
use stook_report::run::Run;
use stook_report::{ReportError, compare, show};
use stook_store::access::Role;

/// The pattern of run names.
pub const NAME: &str = "^[A-Za-z0-9_-]+$";

fn folder(ctx: &RequestContext) -> HandlerResult<PathBuf> {
    ctx.caller.require_role(Role::Admin)?;
    ctx.app.options.runs.clone().ok_or_else(|| Problem::not_found("showing runs is disabled; start the server with --runs DIR"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= 200 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Lists runs with their sizes, newest first.
pub async fn list(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let folder = folder(&ctx)?;
    let found = blocking(move || {
        let mut found: Vec<(i64, Json)> = Vec::new();
        let failed = |error: std::io::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (Some(name), Ok(about)) = (name.strip_suffix(".json").filter(|name| is_name(name)), entry.metadata()) else { continue };
            let since = about.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let written = since.map_or(0, |since| since.as_micros() as i64);
            found.push((written, json!({ "name": name, "bytes": about.len(), "written": show_timestamp(written) })));
        }
        found.sort_by_key(|(written, _)| std::cmp::Reverse(*written));
        Ok::<_, Problem>(found.into_iter().map(|(_, run)| run).collect::<Vec<Json>>())
    });
    Ok(json_answer(StatusCode::OK, json!({ "runs": found.await? }).to_string()))
}

fn failed(error: impl std::fmt::Display) -> Problem {
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

fn read(folder: &Path, name: &str) -> HandlerResult<Run> {
    let missing = || Problem::not_found(format!("there is no run {name:?}"));
    if !is_name(name) {
        return Err(missing());
    }
    Run::read(&folder.join(format!("{name}.json"))).map_err(|error| if matches!(error, ReportError::File(..)) { missing() } else { failed(error) })
}

/// Returns the file of a run.
pub async fn get(ctx: RequestContext) -> HandlerResult {
    ctx.params.end()?;
    let (folder, name) = (folder(&ctx)?, ctx.segment("run").to_owned());
    let run = blocking(move || serde_json::to_vec(&read(&folder, &name)?).map_err(failed));
    Ok(json_answer(StatusCode::OK, run.await?))
}

/// Returns the report of a run, or with `?beside=NAME` its comparison with another run.
pub async fn report(mut ctx: RequestContext) -> HandlerResult {
    let beside = ctx.params.single("beside")?;
    ctx.params.end()?;
    let (folder, name) = (folder(&ctx)?, ctx.segment("run").to_owned());
    let report = blocking(move || {
        let run = read(&folder, &name)?;
        let report = match beside {
            None => show::report(&run),
            Some(other) => {
                let groups = [vec![run], vec![read(&folder, &other)?]];
                let all = compare::compare(&groups).map_err(|error| Problem::bad_request(error.to_string()))?;
                compare::report(&[name, other], &groups, &all)
            }
        };
        serde_json::to_vec(&report).map_err(failed)
    });
    Ok(json_answer(StatusCode::OK, report.await?))
}
