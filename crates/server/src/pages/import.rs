//! Imports: uploading a file, watching its job, reading its journal.

use super::home::jobs_table;
use super::layout::{confirmed, csrf};
use super::shown::{count, items, moment, named, plain, progress_text, state};
use super::visit::{PageContext, RenderedPage, SubmittedForm, bytes_of, json_of, parse_number};
use crate::guard::problem::{HandlerResult, Problem};
use axum::body::Body;
use axum::extract::Multipart;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use stook_store::access::Role;
use stook_store::journal::OUTCOMES;

/// Max dead chunks that are listed.
const MAX_DEAD_CHUNKS: usize = 20;
/// Lines of a journal on a page.
const LINES: u64 = 100;

/// The page with the form for uploads.
pub async fn page(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = ctx.get_json("", &[]).await?;
    let jobs = ctx.get_json("/jobs", &[("limit", "50")]).await?;
    let body = html! {
        @if ctx.may(Role::Write) { (upload_form(&ctx, &overview)) } @else { p.quiet { "Importing requires a token with the role write." } }
        section { h2 { "Latest imports" } @if items(&jobs["jobs"]).is_empty() { p.quiet { "No imports yet." } } @else { (jobs_table(&ctx, items(&jobs["jobs"]))) } }
    };
    Ok(RenderedPage::new("Imports", body))
}

fn upload_form(ctx: &PageContext, overview: &Json) -> Markup {
    html! {
        form.drop #drop method="post" enctype="multipart/form-data" action=(ctx.to("upload", &[])) {
            (csrf(ctx))
            label for="by" { "As" }
            select #by name="by" {
                option value="" { "detect the source automatically" }
                @for profile in items(&overview["profiles"]) { option value={ "profile=" (plain(profile)) } { "profile " (plain(profile)) } }
                @for source in items(&overview["sources"]) { option value={ "source=" (plain(source)) } { "source " (plain(source)) } }
            }
            label for="do" { "Do" }
            select #do name="do" { option value="" { "import it" } option value="try" { "dry run with the first 1 000 documents" } }
            label for="file" { "File" }
            input #file type="file" name="file" required;
            button { "Import" }
            p.quiet { "You can also drop a file here, compressed with gzip or zstd if you like." }
        }
    }
}

/// Receives a form with a file, and streams the file to the API.
pub async fn upload(ctx: PageContext, mut form: Multipart) -> Response {
    let ctx = Arc::new(ctx);
    let wrong = |error: axum::extract::multipart::MultipartError| Problem::bad_request(format!("the form could not be read: {error}"));
    let (mut checked, mut chosen, mut is_dry_run) = (false, String::new(), false);
    let result: HandlerResult<Json> = async {
        while let Some(field) = form.next_field().await.map_err(wrong)? {
            match field.name() {
                Some("csrf") => {
                    let token = field.text().await.map_err(wrong)?;
                    checked = ctx.check(&SubmittedForm(vec![("csrf".into(), token)])).is_ok();
                }
                Some("by") => chosen = field.text().await.map_err(wrong)?,
                Some("do") => is_dry_run = field.text().await.map_err(wrong)? == "try",
                Some("file") if !checked => return ctx.check(&SubmittedForm(Vec::new())).map(|()| Json::Null),
                Some("file") => return forward_upload(&ctx, &chosen, is_dry_run, field).await,
                _ => {}
            }
        }
        Err(Problem::bad_request("no file was uploaded"))
    }
    .await;
    match result {
        Ok(report) if is_dry_run => ctx.answer(Ok(RenderedPage::new("Dry run", dry_run_report(&report)))),
        Ok(job) => Redirect::to(&ctx.to("job", &[("id", &job["id"].to_string())])).into_response(),
        Err(problem) => ctx.answer(Err(problem)),
    }
}

/// Streams a file to the API while it arrives.
async fn forward_upload(ctx: &PageContext, chosen: &str, is_dry_run: bool, mut field: axum::extract::multipart::Field<'_>) -> HandlerResult<Json> {
    let name = field.file_name().unwrap_or("file").to_owned();
    let mut params = vec![("name", name.as_str())];
    params.extend(is_dry_run.then_some(("dry_run", "true")));
    params.extend(chosen.split_once('=').filter(|(word, _)| ["profile", "source"].contains(word)));
    let path = ctx.api("/import", &params);
    let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<bytes::Bytes>>(4);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|next| (next, receiver)) });
    let call = ctx.call_api(Method::POST, &path, Body::from_stream(stream), None);
    let forward = async move {
        loop {
            let next = match field.chunk().await {
                Ok(Some(bytes)) => Ok(bytes),
                Ok(None) => return,
                Err(error) => Err(std::io::Error::other(error.to_string())),
            };
            let failed = next.is_err();
            // an API call that was refused reads no more
            if sender.send(next).await.is_err() || failed {
                return;
            }
        }
    };
    let (response, ()) = tokio::join!(call, forward);
    json_of(response).await
}

/// The result of a dry run.
fn dry_run_report(report: &Json) -> Markup {
    html! {
        p { "Nothing was changed. Go back to import the file." }
        (counts(&Json::Null, &report["counts"]))
        @let issues = items(&report["troubles"]);
        @if issues.is_empty() { p { (state("complete")) " No problems were found in these documents." } }
        @else {
            div.wide tabindex="0" {
                table {
                    thead { tr { th.number scope="col" { "document" } th.number scope="col" { "byte" } th scope="col" { "record" } th scope="col" { "problem" } th scope="col" { "reason" } } }
                    tbody {
                        @for issue in issues {
                            tr {
                                td.number { (plain(&issue["record"])) } td.number { (plain(&issue["offset"])) } td { bdi { (plain(&issue["key"])) } }
                                td { @if issue["failed"] == true { (state("failed")) } @else { (state("warning")) } }
                                td { bdi { (plain(&issue["reason"])) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The outcomes that occurred, with their numbers.
fn counts(job: &Json, counts: &Json) -> Markup {
    let number = |name: &str| counts[name].as_u64().unwrap_or(0);
    let names = OUTCOMES.iter().map(|(_, name)| *name).chain(["warnings"]);
    html! { dl { @for name in names { @if number(name) > 0 { dt { (outcome(job, name)) } dd { (count(number(name))) } } } } }
}

/// `?id=JOB&errors=true&after=`: a job and its journal.
pub async fn job(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let id = parse_number(ctx.param("id"), "an import")?;
    let job = ctx.get_json(&format!("/jobs/{id}"), &[]).await?;
    let part = ctx.param("part").is_some();
    let progress = progress(&ctx, id, &job);
    if part {
        return Ok(RenderedPage::fragment(progress));
    }
    let chunks = match job["chunks_dead"].as_u64() {
        Some(1..) => ctx.get_json(&format!("/jobs/{id}/chunks"), &[]).await?,
        _ => Arc::default(),
    };
    let (after, errors) = (ctx.param("after").unwrap_or("0"), ctx.param("errors").unwrap_or("false"));
    let journal = ctx.get_json(&format!("/jobs/{id}/journal"), &[("limit", &LINES.to_string()), ("after", after), ("errors", errors)]).await?;
    let page_path = |errors: &str, after: &str| ctx.to("job", &[("id", id), ("errors", errors), ("after", after)]);
    let body = html! {
        div #progress data-events=[(!has_ended(&job)).then(|| ctx.to("job/events", &[("id", id)]))]
            hx-get=(ctx.to("job", &[("id", id), ("part", "1")])) hx-trigger="news" { (progress) }
        // outside the part that is replaced, which would close an open confirmation
        (actions(&ctx, id, &job, &chunks))
        section {
            h2 { "Journal" }
            p { @if errors == "true" { a href=(page_path("false", "0")) { "all documents" } } @else { a href=(page_path("true", "0")) { "failures and warnings only" } } }
            div.wide tabindex="0" {
                table {
                    thead { tr { th.number scope="col" { "document" } th scope="col" { "outcome" } th scope="col" { "record" } th scope="col" { "why" } } }
                    tbody {
                        @let names_files = items(&job["files"]).len() > 1;
                        @for (position, entry) in items(&journal["entries"]).iter().enumerate() {
                            @let is_next_file = position == 0 || journal["entries"][position - 1]["file"] != entry["file"];
                            @if names_files && is_next_file { tr { th scope="rowgroup" colspan="4" { bdi { (named(entry, "file")) } } } }
                            tr {
                                td.number { (plain(&entry["document"])) }
                                td {
                                    (state(outcome(&job, named(entry, "outcome"))))
                                    @if entry["outcome"] == "failed" { " " a href=(ctx.to("document", &[("job", id), ("number", &plain(&entry["document"]))])) { "as read" } }
                                }
                                td {
                                    @match entry["collection"].as_str() {
                                        Some(collection) => a href=(ctx.record(collection, &plain(&entry["key"]))) { bdi { (plain(&entry["key"])) } },
                                        None => bdi { (plain(&entry["key"])) },
                                    }
                                }
                                td { @for reason in items(&entry["reasons"]) { p { (plain(reason)) } } }
                            }
                        }
                    }
                }
            }
            @if let Some(next) = journal["next"].as_u64() { nav.pages { a rel="next" href=(page_path(errors, &next.to_string())) { "next →" } } }
        }
    };
    Ok(RenderedPage::new(title(&job), body))
}

/// Whether a job imports documents: others evaluate tags, or undo jobs.
fn is_import(job: &Json) -> bool {
    job["kind"] == "import"
}

/// The title of a job.
pub fn title(job: &Json) -> String {
    let kind = match job["kind"].as_str() {
        Some("tags") => "Evaluation",
        Some("undo") => "Undo",
        _ => "Import",
    };
    format!("{kind} {}", job["id"])
}

/// The name of an outcome; jobs that evaluate tags, or undo others, have names of their own.
fn outcome<'n>(job: &Json, name: &'n str) -> &'n str {
    match (job["kind"].as_str(), name) {
        (Some("tags"), "created") => "gained",
        (Some("tags"), "withdrawn") => "lost",
        (Some("undo"), "created") => "exists again",
        (Some("undo"), "withdrawn") => "removed",
        (_, other) => other,
    }
}

fn has_ended(job: &Json) -> bool {
    !job["finished"].is_null()
}

/// The progress of a job. It contains nothing to press, because it is replaced while the visitor looks at it.
fn progress(ctx: &PageContext, id: &str, job: &Json) -> Markup {
    let number = |name: &str| job[name].as_u64().unwrap_or(0);
    let (done, planned) = (number("documents"), number("planned"));
    html! {
        @for (name, text) in [("undoes", "undoes "), ("undone_by", "undone by ")] {
            @if let Some(other) = job[name].as_u64() { p { (text) a href=(ctx.to("job", &[("id", &other.to_string())])) { "job " (other) } } }
        }
        // that it was undone is said above, with a link
        p { (state(named(job, "state"))) " " @if let Some(reason) = job["reason"].as_str().filter(|_| job["undone_by"].is_null()) { (reason) } }
        @if job["state"] == "interrupted" {
            p {
                "The process that ran this job has stopped. "
                @if number("chunks_left") > 0 { "Workers will process what is left in the queue. " }
                @if job["cut"] != true { "The files were not read completely; run " code { "stook import --resume " (id) } " to read the rest." }
            }
        }
        @if job["state"] == "cancelled" && is_import(job) { p { (count(done)) " documents were committed before that, and remain." } }
        @if has_ended(job) && planned == 0 && job["reason"].is_null() && is_import(job) {
            p.problem { "The file contains no documents. Check that it is the right file and the right source." }
        }
        @if !has_ended(job) { progress max=(planned.max(1)) value=(done) {} }
        dl {
            dt { "documents" } dd { (progress_text(job)) }
            dt { "started" } dd { (moment(&job["created"])) }
            @if has_ended(job) { dt { "ended" } dd { (moment(&job["finished"])) } }
            @for file in items(&job["files"]).iter().take(20) { dt { "file" } dd {
                    bdi { (named(file, "name")) }
                    // the size of an upload may be unknown
                    @if let Some(bytes) = file["bytes"].as_u64().filter(|bytes| *bytes > 0) { ", " (count(bytes)) " bytes" }
                } }
        }
        (counts(job, &job["counts"]))
        @for file in items(&job["files"]) {
            @for own in items(&file["checks"]["expectations"]) {
                @if own["holds"] == false { p { bdi { (named(file, "name")) } ": expected that " (named(own, "expected")) ", found " bdi { (named(own, "found")) } } }
            }
        }
        @for sentence in items(&job["replaced"]["said"]).iter().take(20) { p { bdi { (plain(sentence)) } } }
        @if number("chunks_dead") > 0 && !has_ended(job) {
            p.problem { (count(number("chunks_dead"))) " chunks failed too often and are no longer tried. " a href=(ctx.to("job", &[("id", id)])) { "Show them" } }
        }
    }
}

/// Buttons to change a job.
fn actions(ctx: &PageContext, id: &str, job: &Json, chunks: &Json) -> Markup {
    html! {
        @if !items(&chunks["chunks"]).is_empty() { (dead_chunks(ctx, id, items(&chunks["chunks"]))) }
        div.actions {
            @if ctx.may(Role::Write) && !has_ended(job) { (cancel(ctx, id)) }
            @if ctx.may(Role::Write) && !job["undoable_until"].is_null() {
                (confirmed("undo", "this import", &ctx.to("job/change", &[]), &job_fields(ctx, id, "undo")))
                span { "can be undone until " (moment(&job["undoable_until"])) }
            }
            @if ctx.may(Role::Admin) && job["chunks_dead"].as_u64() > Some(0) { (button(ctx, id, "retry", "retry")) }
            @if job["counts"]["failed"].as_u64() > Some(0) && is_import(job) {
                a href=(ctx.to("job/failed", &[("id", id)])) download { "download the failed documents" }
                @if ctx.may(Role::Write) && has_ended(job) { (button(ctx, id, "again", "import the failed documents again")) }
            }
        }
    }
}

/// Dead chunks, each with the reason, and a form to split it into smaller ones.
fn dead_chunks(ctx: &PageContext, id: &str, chunks: &[Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th.number scope="col" { "dead chunk" } th.number scope="col" { "documents" } th scope="col" { "why" } @if ctx.may(Role::Admin) { th scope="col" { "split into smaller chunks" } } } }
                tbody {
                    @for chunk in chunks.iter().filter(|chunk| chunk["state"] == "dead").take(MAX_DEAD_CHUNKS) {
                        @let ordinal = plain(&chunk["ordinal"]);
                        tr {
                            td.number { (ordinal) } td.number { (plain(&chunk["documents"])) } td { bdi { (plain(&chunk["reason"])) } }
                            @if ctx.may(Role::Admin) {
                                td {
                                    form.inline method="post" action=(ctx.to("job/change", &[])) {
                                        (job_fields(ctx, id, "rechunk"))
                                        input type="hidden" name="chunk" value=(ordinal);
                                        label { "documents per chunk " input type="number" name="documents" min="1" value=(smaller(chunk)); }
                                        button { "rechunk" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A tenth of a chunk's documents.
fn smaller(chunk: &Json) -> u64 {
    (chunk["documents"].as_u64().unwrap_or(0) / 10).max(1)
}

/// `?job=JOB&number=DOCUMENT`: a failed document as it was read.
pub async fn document(ctx: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let (id, number) = (parse_number(ctx.param("job"), "an import")?, parse_number(ctx.param("number"), "a document")?);
    let errors = [("errors", "true"), ("limit", "1"), ("after", &number.parse::<u64>().map_or(0, |number| number.saturating_sub(1)).to_string())];
    let journal = ctx.get_json(&format!("/jobs/{id}/journal"), &errors).await?;
    let path = ctx.api(&format!("/jobs/{id}/documents/{number}"), &[]);
    let bytes = bytes_of(ctx.get(&path).await).await?;
    let body = html! {
        p { a href=(ctx.to("job", &[("id", id), ("errors", "true")])) { "Import " (id) } }
        @for entry in items(&journal["entries"]).iter().filter(|entry| plain(&entry["document"]) == number) {
            dl {
                dt { "file" } dd { bdi { (named(entry, "file")) } }
                dt { "record" } dd { (plain(&entry["record"])) ", at byte " (plain(&entry["offset"])) }
                @for reason in items(&entry["reasons"]) { dt { "why" } dd { (plain(reason)) } }
            }
        }
        (super::document::shown(&bytes))
    };
    Ok(RenderedPage::new(format!("Document {number}"), body))
}

/// Fields of all forms that change a job.
fn job_fields(ctx: &PageContext, id: &str, action: &str) -> Markup {
    html! { (csrf(ctx)) input type="hidden" name="id" value=(id); input type="hidden" name="do" value=(action); }
}

fn button(ctx: &PageContext, id: &str, action: &str, text: &str) -> Markup {
    html! {
        form method="post" action=(ctx.to("job/change", &[])) {
            (job_fields(ctx, id, action))
            button { (text) }
        }
    }
}

fn cancel(ctx: &PageContext, id: &str) -> Markup {
    confirmed("cancel", "it", &ctx.to("job/change", &[]), &job_fields(ctx, id, "cancel"))
}

/// `?id=JOB&part=N`: the failed documents of a job as a download.
pub async fn failed(ctx: PageContext) -> Response {
    let path = parse_number(ctx.param("id"), "an import").and_then(|id| {
        let part = parse_number(ctx.param("part").or(Some("1")), "a part")?;
        Ok(ctx.api(&format!("/jobs/{id}/failed"), &[("part", part)]))
    });
    let response = match path {
        Ok(path) => ctx.get(&path).await,
        Err(problem) => return ctx.answer(Err(problem)),
    };
    if response.status().is_success() {
        return response;
    }
    let problem = bytes_of(response).await.err().unwrap_or_else(|| Problem::not_found("nothing found"));
    ctx.answer(Err(problem))
}

/// Cancels or undoes a job, retries its dead chunks, splits one of them, or imports its failed documents again.
pub async fn change(ctx: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (id, action) = (parse_number(form.get("id"), "an import")?, form.required("do")?);
    match action {
        "cancel" | "retry" => ctx.send(Method::POST, &format!("/jobs/{id}/{action}"), &[], None).await?,
        "undo" => {
            let undo = ctx.send(Method::POST, &format!("/jobs/{id}/undo"), &[], None).await?;
            return Ok(Redirect::to(&ctx.to("job", &[("id", &plain(&undo["id"]))])).into_response());
        }
        "rechunk" => {
            let chunk = parse_number(form.get("chunk"), "a chunk")?;
            let documents = parse_number(form.get("documents"), "a size of chunks")?;
            let request = json!({ "documents": documents.parse::<u64>().unwrap_or(0) });
            ctx.send(Method::POST, &format!("/jobs/{id}/chunks/{chunk}/rechunk"), &[], Some(&request)).await?
        }
        "again" => {
            let new = ctx.send(Method::POST, &format!("/jobs/{id}/failed/retry"), &[], None).await?;
            return Ok(Redirect::to(&ctx.to("job", &[("id", &plain(&new["id"]))])).into_response());
        }
        _ => return Err(Problem::bad_request("`do` must be cancel, undo, retry, rechunk or again")),
    };
    Ok(Redirect::to(&ctx.to("job", &[("id", id)])).into_response())
}

/// The progress of a job as server-sent events.
pub async fn events(ctx: PageContext) -> Response {
    match parse_number(ctx.param("id"), "an import") {
        Ok(id) => ctx.get(&ctx.api(&format!("/jobs/{id}/events"), &[])).await,
        Err(problem) => problem.into_response(),
    }
}
