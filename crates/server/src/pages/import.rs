//! Imports: uploading a file, watching its job, reading its journal.

use super::home::jobs_table;
use super::layout::{confirmed, csrf};
use super::shown::{count, done_of, items, moment, named, plain, state};
use super::visit::{PageContext, RenderedPage, SubmittedForm, bytes_of, json_of, number_of};
use crate::guard::problem::{HandlerResult, Problem};
use axum::body::Body;
use axum::extract::Multipart;
use axum::http::Method;
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use stook_store::access::Role;

/// Max dead chunks that are listed.
const MOST_DEAD: usize = 20;
/// Lines of a journal on a page.
const LINES: u64 = 100;

/// The page with the form for uploads.
pub async fn page(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let overview = visit.ask("", &[]).await?;
    let jobs = visit.ask("/jobs", &[("limit", "50")]).await?;
    let body = html! {
        @if visit.may(Role::Write) { (upload_form(&visit, &overview)) } @else { p.quiet { "Importing requires a token with the role write." } }
        section { h2 { "Latest imports" } @if items(&jobs["jobs"]).is_empty() { p.quiet { "No imports yet." } } @else { (jobs_table(&visit, items(&jobs["jobs"]))) } }
    };
    Ok(RenderedPage::new("Imports", body))
}

fn upload_form(visit: &PageContext, overview: &Json) -> Markup {
    html! {
        form.drop #drop method="post" enctype="multipart/form-data" action=(visit.to("upload", &[])) {
            (csrf(visit))
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
pub async fn upload(visit: PageContext, mut form: Multipart) -> Response {
    let visit = Arc::new(visit);
    let wrong = |error: axum::extract::multipart::MultipartError| Problem::bad(format!("the form could not be read: {error}"));
    let (mut checked, mut by, mut tries) = (false, String::new(), false);
    let taken: HandlerResult<Json> = async {
        while let Some(field) = form.next_field().await.map_err(wrong)? {
            match field.name() {
                Some("csrf") => {
                    let mark = field.text().await.map_err(wrong)?;
                    checked = visit.check(&SubmittedForm(vec![("csrf".into(), mark)])).is_ok();
                }
                Some("by") => by = field.text().await.map_err(wrong)?,
                Some("do") => tries = field.text().await.map_err(wrong)? == "try",
                Some("file") if !checked => return visit.check(&SubmittedForm(Vec::new())).map(|()| Json::Null),
                Some("file") => return pass_on(&visit, &by, tries, field).await,
                _ => {}
            }
        }
        Err(Problem::bad("no file was uploaded"))
    }
    .await;
    match taken {
        Ok(seen) if tries => visit.answer(Ok(RenderedPage::new("Dry run", tried(&seen)))),
        Ok(job) => Redirect::to(&visit.to("job", &[("id", &job["id"].to_string())])).into_response(),
        Err(problem) => visit.answer(Err(problem)),
    }
}

/// Streams a file to the API while it arrives.
async fn pass_on(visit: &PageContext, by: &str, tries: bool, mut field: axum::extract::multipart::Field<'_>) -> HandlerResult<Json> {
    let name = field.file_name().unwrap_or("file").to_owned();
    let mut params = vec![("name", name.as_str())];
    params.extend(tries.then_some(("dry_run", "true")));
    params.extend(by.split_once('=').filter(|(word, _)| ["profile", "source"].contains(word)));
    let path = visit.api("/import", &params);
    let (sender, receiver) = tokio::sync::mpsc::channel::<std::io::Result<bytes::Bytes>>(4);
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move { receiver.recv().await.map(|next| (next, receiver)) });
    let asked = visit.fetch(Method::POST, &path, Body::from_stream(stream), None);
    let feed = async move {
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
    let (response, ()) = tokio::join!(asked, feed);
    json_of(response).await
}

/// The result of a dry run.
fn tried(seen: &Json) -> Markup {
    html! {
        p { "Nothing was changed. Go back to import the file." }
        (counts(false, &seen["counts"]))
        @let troubles = items(&seen["troubles"]);
        @if troubles.is_empty() { p { (state("complete")) " No problems were found in these documents." } }
        @else {
            div.wide tabindex="0" {
                table {
                    thead { tr { th.number scope="col" { "document" } th.number scope="col" { "byte" } th scope="col" { "record" } th scope="col" { "problem" } th scope="col" { "reason" } } }
                    tbody {
                        @for trouble in troubles {
                            tr {
                                td.number { (plain(&trouble["record"])) } td.number { (plain(&trouble["offset"])) } td { bdi { (plain(&trouble["key"])) } }
                                td { @if trouble["failed"] == true { (state("failed")) } @else { (state("warning")) } }
                                td { bdi { (plain(&trouble["reason"])) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The outcomes that occurred, with their numbers.
fn counts(is_tagging: bool, counts: &Json) -> Markup {
    const OUTCOMES: [&str; 8] = ["created", "updated", "unchanged", "superseded", "skipped", "withdrawn", "failed", "warnings"];
    let number = |name: &str| counts[name].as_u64().unwrap_or(0);
    html! { dl { @for name in OUTCOMES { @if number(name) > 0 { dt { (outcome(is_tagging, name)) } dd { (count(number(name))) } } } } }
}

/// `?id=JOB&errors=true&after=`: a job and its journal.
pub async fn job(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let id = number_of(visit.param("id"), "an import")?;
    let job = visit.ask(&format!("/jobs/{id}"), &[]).await?;
    let part = visit.param("part").is_some();
    let progress = progress(&visit, id, &job);
    if part {
        return Ok(RenderedPage::part(progress));
    }
    let chunks = match job["chunks_dead"].as_u64() {
        Some(1..) => visit.ask(&format!("/jobs/{id}/chunks"), &[]).await?,
        _ => Arc::default(),
    };
    let (after, errors) = (visit.param("after").unwrap_or("0"), visit.param("errors").unwrap_or("false"));
    let journal = visit.ask(&format!("/jobs/{id}/journal"), &[("limit", &LINES.to_string()), ("after", after), ("errors", errors)]).await?;
    let is_tagging = is_tagging(&job);
    let to = |errors: &str, after: &str| visit.to("job", &[("id", id), ("errors", errors), ("after", after)]);
    let body = html! {
        div #progress data-events=[(!is_over(&job)).then(|| visit.to("job/events", &[("id", id)]))]
            hx-get=(visit.to("job", &[("id", id), ("part", "1")])) hx-trigger="news" { (progress) }
        // outside the part that is replaced, which would close an open confirmation
        (actions(&visit, id, &job, &chunks))
        section {
            h2 { "Journal" }
            p { @if errors == "true" { a href=(to("false", "0")) { "all documents" } } @else { a href=(to("true", "0")) { "failures and warnings only" } } }
            div.wide tabindex="0" {
                table {
                    thead { tr { th.number scope="col" { "document" } th scope="col" { "outcome" } th scope="col" { "record" } th scope="col" { "why" } } }
                    tbody {
                        @for entry in items(&journal["entries"]) {
                            tr {
                                td.number { (plain(&entry["document"])) }
                                td {
                                    (state(outcome(is_tagging, named(entry, "outcome"))))
                                    @if entry["outcome"] == "failed" { " " a href=(visit.to("document", &[("job", id), ("number", &plain(&entry["document"]))])) { "as read" } }
                                }
                                td {
                                    @match entry["collection"].as_str() {
                                        Some(collection) => a href=(visit.record(collection, &plain(&entry["key"]))) { bdi { (plain(&entry["key"])) } },
                                        None => bdi { (plain(&entry["key"])) },
                                    }
                                }
                                td { @for reason in items(&entry["reasons"]) { p { (plain(reason)) } } }
                            }
                        }
                    }
                }
            }
            @if let Some(next) = journal["next"].as_u64() { nav.pages { a rel="next" href=(to(errors, &next.to_string())) { "next →" } } }
        }
    };
    Ok(RenderedPage::new(title(&job), body))
}

/// Whether a job evaluates tags.
fn is_tagging(job: &Json) -> bool {
    job["kind"] == "tags"
}

/// The title of a job.
pub fn title(job: &Json) -> String {
    let what = if is_tagging(job) { "Evaluation" } else { "Import" };
    format!("{what} {}", job["id"])
}

/// The name of an outcome; a job that evaluates tags has names of its own.
fn outcome(is_tagging: bool, name: &str) -> &str {
    match name {
        "created" if is_tagging => "gained",
        "withdrawn" if is_tagging => "lost",
        other => other,
    }
}

fn is_over(job: &Json) -> bool {
    !job["finished"].is_null()
}

/// The progress of a job. It contains nothing to press, because it is replaced while the visitor looks at it.
fn progress(visit: &PageContext, id: &str, job: &Json) -> Markup {
    let number = |name: &str| job[name].as_u64().unwrap_or(0);
    let (done, planned) = (number("documents"), number("planned"));
    html! {
        p { (state(named(job, "state"))) " " @if let Some(reason) = job["reason"].as_str() { (reason) } }
        @if job["state"] == "interrupted" {
            p {
                "The process that ran this job has stopped. "
                @if number("chunks_left") > 0 { "Workers will process what is left in the queue. " }
                @if job["cut"] != true { "The files were not read completely; run " code { "stook import --resume " (id) } " to read the rest." }
            }
        }
        @if is_over(job) && planned == 0 && !is_tagging(job) {
            p.problem { "The file contains no documents. Check that it is the right file and the right source." }
        }
        @if !is_over(job) { progress max=(planned.max(1)) value=(done) {} }
        dl {
            dt { "documents" } dd { (done_of(job)) }
            dt { "started" } dd { (moment(&job["created"])) }
            @if is_over(job) { dt { "ended" } dd { (moment(&job["finished"])) } }
            @for file in items(&job["files"]).iter().take(20) { dt { "file" } dd {
                    bdi { (named(file, "name")) }
                    // the size of an upload may be unknown
                    @if let Some(bytes) = file["bytes"].as_u64().filter(|bytes| *bytes > 0) { ", " (count(bytes)) " bytes" }
                } }
        }
        (counts(is_tagging(job), &job["counts"]))
        @for sentence in items(&job["replaced"]["said"]).iter().take(20) { p { bdi { (plain(sentence)) } } }
        @if number("chunks_dead") > 0 && !is_over(job) {
            p.problem { (count(number("chunks_dead"))) " chunks failed too often and are no longer tried. " a href=(visit.to("job", &[("id", id)])) { "Show them" } }
        }
    }
}

/// Buttons to change a job.
fn actions(visit: &PageContext, id: &str, job: &Json, chunks: &Json) -> Markup {
    html! {
        @if !items(&chunks["chunks"]).is_empty() { (dead_chunks(visit, id, items(&chunks["chunks"]))) }
        div.actions {
            @if visit.may(Role::Write) && !is_over(job) { (cancel(visit, id)) }
            @if visit.may(Role::Admin) && job["chunks_dead"].as_u64() > Some(0) { (button(visit, id, "retry")) }
        }
    }
}

/// Dead chunks, each with the reason, and a form to split it into smaller ones.
fn dead_chunks(visit: &PageContext, id: &str, chunks: &[Json]) -> Markup {
    html! {
        div.wide tabindex="0" {
            table {
                thead { tr { th.number scope="col" { "dead chunk" } th.number scope="col" { "documents" } th scope="col" { "why" } @if visit.may(Role::Admin) { th scope="col" { "split into smaller chunks" } } } }
                tbody {
                    @for chunk in chunks.iter().filter(|chunk| chunk["state"] == "dead").take(MOST_DEAD) {
                        @let ordinal = plain(&chunk["ordinal"]);
                        tr {
                            td.number { (ordinal) } td.number { (plain(&chunk["documents"])) } td { bdi { (plain(&chunk["reason"])) } }
                            @if visit.may(Role::Admin) {
                                td {
                                    form.inline method="post" action=(visit.to("job/change", &[])) {
                                        (of_job(visit, id, "rechunk"))
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
pub async fn document(visit: Arc<PageContext>) -> HandlerResult<RenderedPage> {
    let (id, number) = (number_of(visit.param("job"), "an import")?, number_of(visit.param("number"), "a document")?);
    let errors = [("errors", "true"), ("limit", "1"), ("after", &number.parse::<u64>().map_or(0, |number| number.saturating_sub(1)).to_string())];
    let journal = visit.ask(&format!("/jobs/{id}/journal"), &errors).await?;
    let path = visit.api(&format!("/jobs/{id}/documents/{number}"), &[]);
    let bytes = bytes_of(visit.get(&path).await).await?;
    let body = html! {
        p { a href=(visit.to("job", &[("id", id), ("errors", "true")])) { "Import " (id) } }
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
fn of_job(visit: &PageContext, id: &str, what: &str) -> Markup {
    html! { (csrf(visit)) input type="hidden" name="id" value=(id); input type="hidden" name="do" value=(what); }
}

fn button(visit: &PageContext, id: &str, what: &str) -> Markup {
    html! {
        form method="post" action=(visit.to("job/change", &[])) {
            (of_job(visit, id, what))
            button { (what) }
        }
    }
}

fn cancel(visit: &PageContext, id: &str) -> Markup {
    confirmed("cancel", "it", &visit.to("job/change", &[]), &of_job(visit, id, "cancel"))
}

/// Cancels a job, retries its dead chunks, or splits one of them.
pub async fn change(visit: Arc<PageContext>, form: SubmittedForm) -> HandlerResult<Response> {
    let (id, what) = (number_of(form.get("id"), "an import")?, form.need("do")?);
    match what {
        "cancel" | "retry" => visit.send(Method::POST, &format!("/jobs/{id}/{what}"), &[], None).await?,
        "rechunk" => {
            let chunk = number_of(form.get("chunk"), "a chunk")?;
            let documents = number_of(form.get("documents"), "a size of chunks")?;
            let wish = json!({ "documents": documents.parse::<u64>().unwrap_or(0) });
            visit.send(Method::POST, &format!("/jobs/{id}/chunks/{chunk}/rechunk"), &[], Some(&wish)).await?
        }
        _ => return Err(Problem::bad("`do` must be cancel, retry or rechunk")),
    };
    Ok(Redirect::to(&visit.to("job", &[("id", id)])).into_response())
}

/// The progress of a job as server-sent events.
pub async fn events(visit: PageContext) -> Response {
    match number_of(visit.param("id"), "an import") {
        Ok(id) => visit.get(&visit.api(&format!("/jobs/{id}/events"), &[])).await,
        Err(problem) => problem.into_response(),
    }
}
